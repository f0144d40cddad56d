//! For any data, a picture is well-formed, lies within its panels and contains no invalid number. The data include
//! values that are not finite or not above 0 on a logarithmic axis, and lists of unequal length.

use crate::drawn;

use iodyno_page::chart::{Look, scales, svg};
use iodyno_page::figure::{HeatMap, Rule, Span};
use iodyno_page::{Axis, Mark, Matrix, Panel, Plot, Point, Quantity, Scale, Series, Shape, Tone};
use proptest::prelude::*;

use drawn::{LOOKS, assert_inside, bare, parse};

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -1e3_f64..1e9,
        1 => any::<f64>(),
        1 => prop::sample::select(vec![
            f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, -5.0, 1.0, 0.999, f64::MAX, f64::MIN,
            f64::MIN_POSITIVE, 5e-324,
        ]),
    ]
}

fn any_axis() -> impl Strategy<Value = Axis> {
    let quantity = prop::sample::select(Quantity::ALL.to_vec());
    let scale = prop_oneof![
        Just(Scale::Linear { zero: true }),
        Just(Scale::Linear { zero: false }),
        Just(Scale::Log),
        Just(Scale::Nines),
        Just(Scale::Categories(vec!["a".into(), "b".into(), "c".into()])),
        Just(Scale::Categories(Vec::new())),
    ];
    let range = prop::option::weighted(0.2, (any_number(), any_number()));
    (quantity, scale, range).prop_map(|(quantity, scale, range)| Axis {
        label: "axis".to_owned(),
        quantity,
        scale,
        range,
    })
}

fn any_point() -> impl Strategy<Value = Point> {
    let interval = prop::option::of((any_number(), any_number()));
    let tone = prop::sample::select(vec![Tone::Plain, Tone::Warning, Tone::Bad]);
    (any_number(), any_number(), interval, tone, any::<bool>()).prop_map(
        |(x, y, interval, tone, has_label)| Point {
            x,
            y,
            interval,
            label: if has_label { "point".to_owned() } else { String::new() },
            tone,
        },
    )
}

fn any_series() -> impl Strategy<Value = Series> {
    let mark = prop::sample::select(vec![
        Mark::Line,
        Mark::Dashed,
        Mark::Step,
        Mark::Dots,
        Mark::Bars,
        Mark::Stack,
        Mark::Band,
        Mark::Interval,
        Mark::Hollow,
        Mark::Better,
        Mark::Worse,
        Mark::Undecided,
    ]);
    (mark, 0..20_usize, prop::collection::vec(any_point(), 0..12)).prop_map(
        |(mark, color, points)| Series { name: format!("series {color}"), mark, color, points },
    )
}

fn any_plot() -> impl Strategy<Value = Plot> {
    let heat = (
        prop::collection::vec(any_number(), 0..6),
        prop::collection::vec(any_number(), 0..6),
        prop::collection::vec(prop::collection::vec(any::<u64>(), 0..6), 0..6),
    );
    let heat = prop::option::of(heat.prop_map(|(x_edges, y_edges, counts)| HeatMap {
        x_edges,
        y_edges,
        counts,
        of: "things".to_owned(),
    }));
    let rule = (any_number(), any::<bool>()).prop_map(|(at, upright)| Rule {
        at,
        upright,
        name: "rule".to_owned(),
        tone: Tone::Note,
    });
    let panel = (
        any_axis(),
        prop::collection::vec(any_series(), 0..4),
        prop::collection::vec(rule, 0..3),
        heat,
        any_number(),
    )
        .prop_map(|(y, series, rules, heat, height)| Panel {
            rules,
            heat,
            height,
            ..Panel::new(y, series)
        });
    let span = (any_number(), any_number()).prop_map(|(from, to)| Span {
        from,
        to,
        name: "span".to_owned(),
        tone: Tone::Good,
    });
    (any_axis(), prop::collection::vec(panel, 0..3), prop::collection::vec(span, 0..3))
        .prop_map(|(x, panels, spans)| Plot { x, panels, spans })
}

fn any_matrix() -> impl Strategy<Value = Matrix> {
    let rows =
        prop::collection::vec(prop::collection::vec(prop::option::of(any_number()), 0..5), 0..5);
    (rows, 0..5_usize, 0..5_usize).prop_map(|(values, columns, rows)| Matrix {
        range: None,
        columns_label: "columns".to_owned(),
        columns: (0..columns).map(|i| i.to_string()).collect(),
        rows_label: "rows".to_owned(),
        rows: (0..rows).map(|i| i.to_string()).collect(),
        quantity: Quantity::Throughput,
        values,
        notes: Vec::new(),
    })
}

fn has_no_odd_numbers(text: &str) -> bool {
    !text.contains("NaN") && !text.contains("inf")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn any_data_gives_a_picture_without_odd_numbers(plot in any_plot()) {
        let is_free = plot.x.range.is_none() && plot.panels.iter().all(|p| p.y.range.is_none());
        let figure = bare(Shape::Plot(plot));
        for look in LOOKS {
            let picture = svg(&figure, look);
            parse(&picture);
            prop_assert!(has_no_odd_numbers(&picture), "{}", picture);
        }
        if is_free {
            assert_inside(&figure, Look::Embedded);
        }
        prop_assert!(has_no_odd_numbers(&scales(&figure).to_string()));
        prop_assert!(figure.table().rows.iter().flat_map(|r| &r.cells).all(|c| has_no_odd_numbers(&c.text)));
    }

    #[test]
    fn any_matrix_gives_a_picture_without_odd_numbers(matrix in any_matrix()) {
        for shape in [Shape::Matrix(matrix.clone()), Shape::Columns(matrix)] {
            let figure = bare(shape);
            for look in LOOKS {
                let picture = svg(&figure, look);
                parse(&picture);
                prop_assert!(has_no_odd_numbers(&picture), "{}", picture);
            }
            prop_assert!(has_no_odd_numbers(&scales(&figure).to_string()));
            figure.table();
        }
    }
}
