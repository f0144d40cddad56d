//! Charts of a load curve: latency over the achieved rate, and throughput over concurrency.

use super::first_screen::sentence;
use super::stage::{KIND_MARKS, Stage, kind_mean, nine_lines, point_name, tone, values};
use crate::kinds::{plural, together};
use crate::method_headlines::{best, is_open};
use crate::point_figures;
use iodyno_method::findings::{Load, Row, Scaling, Table as Grid};
use iodyno_page::figure::Rule;
use iodyno_page::{Axis, Figure, Mark, Panel, Plot, Point, Quantity, Series, Shape, Tone};
use iodyno_units::{OpKind, human};

/// Maximum number of curves in a load figure: more would be indistinguishable.
const LINES_MAX: usize = 8;

/// Draws the load curve: latency over the achieved rate. With one axis, several percentiles; with two axes, a
/// curve of the mean latency per value of the first axis.
pub(super) fn of_load(stage: &Stage<'_>, table: &Grid, load: Option<&Load>) -> Option<Figure> {
    let best = load.and_then(best);
    let is_open = is_open(table);
    let label = |row: &Row| {
        if is_open { row.at.last().cloned().unwrap_or_default() } else { point_figures::oio(row) }
    };
    let point = |index: usize, ns: Option<f64>, labelled: bool| {
        let row = &table.rows[index];
        let mut point = Point::at(row.iops.unwrap_or(f64::NAN), ns.unwrap_or(f64::NAN));
        if labelled {
            point.label = label(row);
            if best == Some(index) {
                point.label = format!("{} best", point.label);
                point.tone = Tone::Good;
            }
        }
        if tone(row) != Tone::Plain {
            point.tone = tone(row);
        }
        point
    };
    let kinds = table.kinds_apart();
    let mut series = curves(table, &kinds, &point);
    series.retain(|s| s.points.iter().any(|p| p.x.is_finite() && p.y.is_finite()));
    if series.is_empty() {
        return None;
    }
    let of = if is_open { "the offered rate" } else { "the outstanding I/Os (OIO)" };
    let mut panel = Panel::new(Axis::log("latency", Quantity::LatencyNs), series);
    panel.height = 1.4;
    for (name, ns) in load.map(|l| l.limits.as_slice()).unwrap_or_default() {
        panel.rules.push(Rule { at: *ns, upright: false, name: name.clone(), tone: Tone::Plain });
    }
    let mut notes = vec![format!("Numbers at the points: {of}.")];
    if let Some(limited) = load.and_then(Load::limited) {
        notes.push(format!("{}.", sentence(&limited)));
    }
    if !kinds.is_empty() && load.is_some_and(|load| !load.limits.is_empty()) {
        notes.push(format!("The latency ceiling applies to {}.", together(&kinds)));
    }
    Some(Figure {
        id: format!("{}-load", stage.id),
        title: stage.titled("Latency and throughput under load"),
        summary: summary(stage, table, load),
        conditions: stage.line(),
        shape: Shape::Plot(Plot {
            x: Axis::from_zero("IOPS reached", Quantity::Iops),
            panels: vec![panel],
            spans: Vec::new(),
        }),
        notes,
    })
}

/// Returns the curves of the load figure. `point` makes a point of a curve; its arguments are the index of a
/// row, a latency in ns, and whether the point gets a label.
fn curves(
    table: &Grid,
    kinds: &[OpKind],
    point: &dyn Fn(usize, Option<f64>, bool) -> Point,
) -> Vec<Series> {
    let mut series = Vec::new();
    if let [_] = table.axes.as_slice() {
        for line in nine_lines(kinds) {
            series.push(Series {
                points: (0..table.rows.len())
                    .map(|at| point(at, line.of(&table.rows[at]), line.is_labelled))
                    .collect(),
                ..line.series
            });
        }
    } else {
        let outer = values(table, 0);
        for (color, value) in outer.iter().take(LINES_MAX).enumerate() {
            let mine = || (0..table.rows.len()).filter(|&i| table.rows[i].at[0] == *value);
            let name = format!("{} {value}, mean", table.axes[0]);
            let line = |name, mark, points| Series { name, mark, color, points };
            if kinds.is_empty() {
                let points = mine().map(|at| point(at, table.rows[at].mean_ns, true));
                series.push(line(name, Mark::Line, points.collect()));
                continue;
            }
            for (number, (&kind, mark)) in kinds.iter().zip(KIND_MARKS).enumerate() {
                let points =
                    mine().map(|at| point(at, kind_mean(&table.rows[at], kind), number == 0));
                let name = format!("{name} of {}", plural(kind));
                series.push(line(name, mark, points.collect()));
            }
        }
    }
    series
}

/// Summarises the load curve: its highest rate, and its best point under the latency ceilings.
fn summary(stage: &Stage<'_>, table: &Grid, load: Option<&Load>) -> String {
    let most = table.rows.iter().filter_map(|r| r.iops).fold(0.0, f64::max);
    let mut summary =
        format!("Latency over the achieved rate, which is at most {} IOPS.", human::count(most));
    if let Some(row) = load.and_then(best).map(|i| &table.rows[i]) {
        let ceilings = load.map(|l| l.ceilings.join(" and ")).unwrap_or_default();
        let why = if is_open(table) {
            ""
        } else {
            ": it has the fewest outstanding I/Os of all points under the ceiling that reach 98 % of the highest rate"
        };
        summary = format!(
            "{summary} The best point under {ceilings} is {} with {} IOPS{why}.",
            point_name(stage, table, row),
            human::count(row.iops.unwrap_or_default())
        );
    }
    summary
}

/// Draws the throughput over the degree of concurrency, next to a line of ideal scaling.
pub(super) fn of_scaling(stage: &Stage<'_>, scaling: &Scaling) -> Figure {
    let points = &scaling.points;
    let first = points.iter().map(|p| p.n).min().unwrap_or(1);
    let line = |name: &str, mark, color, of: &dyn Fn(f64) -> f64, n: &[f64]| Series {
        name: name.to_owned(),
        mark,
        color,
        points: n.iter().map(|&n| Point::at(n, of(n))).collect(),
    };
    let at: Vec<f64> = points.iter().map(|p| f64::from(p.n)).collect();
    let mut speed = vec![
        line("ideal", Mark::Dashed, 7, &|n| n / f64::from(first), &at),
        Series {
            name: "measured".to_owned(),
            mark: Mark::Line,
            color: 0,
            points: points
                .iter()
                .map(|p| Point {
                    label: format!("{} IOPS", human::count(p.throughput)),
                    ..Point::at(f64::from(p.n), p.speed_up)
                })
                .collect(),
        },
    ];
    if let Some(law) = &scaling.law {
        let base = law.at(f64::from(first));
        let end = at.iter().copied().fold(1.0, f64::max);
        let fine: Vec<f64> = (0..=40)
            .map(|i| f64::from(first) + (end - f64::from(first)) * f64::from(i) / 40.0)
            .collect();
        speed.push(line("scalability law", Mark::Dashed, 2, &|n| law.at(n) / base, &fine));
    }
    let last = points.last();
    let summary = last.map_or(String::new(), |p| {
        format!(
            "{} {} {} {} times the work of {first}: {} % of ideal scaling.",
            p.n,
            if p.n == 1 { scaling.of.trim_end_matches('s') } else { scaling.of },
            if p.n == 1 { "does" } else { "do" },
            human::three_digits(p.speed_up),
            human::three_digits(p.efficiency * 100.0)
        )
    });
    let efficiency = Series {
        name: "efficiency".to_owned(),
        mark: Mark::Line,
        color: 1,
        points: points.iter().map(|p| Point::at(f64::from(p.n), p.efficiency)).collect(),
    };
    let mut below = Panel::new(Axis::from_zero("efficiency", Quantity::Share), vec![efficiency]);
    below.height = 0.5;
    below.rules.push(Rule { at: 1.0, upright: false, name: "ideal".to_owned(), tone: Tone::Dim });
    Figure {
        id: format!("{}-scaling", stage.id),
        title: stage.titled(&format!("Scaling over {}", scaling.of)),
        summary,
        conditions: stage.line(),
        shape: Shape::Plot(Plot {
            x: Axis::from_zero(scaling.of, Quantity::Count),
            panels: vec![Panel::new(Axis::from_zero("speed-up", Quantity::Ratio), speed), below],
            spans: Vec::new(),
        }),
        notes: vec![format!(
            "Relative to the smallest number of {}. The absolute rates are next to the points.",
            scaling.of
        )],
    }
}
