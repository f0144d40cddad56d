//! Tests rules for every chart: it is well-formed, lies within its panels, contains nothing that was not in the
//! figure, and is the same at every call.

use crate::drawn;
use crate::gallery;

use std::collections::BTreeSet;

use iodyno_page::chart::{Look, scales, style, svg};
use iodyno_page::figure::{HeatMap, Rule, Span};
use iodyno_page::{Axis, Figure, Mark, Matrix, Panel, Plot, Point, Quantity, Scale, Series};
use iodyno_page::{Shape, Tone};
use roxmltree::Node;

use drawn::{LOOKS, assert_inside, bare, boxes, parse, parts, with_class};

fn all() -> Vec<Figure> {
    let mut figures = gallery::figures();
    figures.push(gallery::usual());
    figures
}

#[test]
fn the_gallery_is_well_formed_and_keeps_the_contract() {
    let mut ids = BTreeSet::new();
    for figure in all() {
        for look in LOOKS {
            let picture = svg(&figure, look);
            let document = parse(&picture);
            let root = document.root_element();
            assert_eq!(root.attribute("class"), Some("chart"));
            assert_eq!(root.attribute("role"), Some("img"));
            let labelled = root.attribute("aria-labelledby").unwrap();
            assert_eq!(labelled, format!("{0}-t {0}-d", figure.id));
            let text_of = |id: &str| {
                let node = document.descendants().find(|n| n.attribute("id") == Some(id));
                node.and_then(|n| n.text().map(str::to_owned)).unwrap_or_default()
            };
            assert_eq!(text_of(&format!("{}-t", figure.id)), figure.title);
            assert_eq!(text_of(&format!("{}-d", figure.id)), figure.summary);
            for marks in with_class(&document.root(), "marks") {
                let child = marks.first_element_child().unwrap();
                assert_eq!(child.attribute("class"), Some("zoom"));
                if let Some(clip) = marks.attribute("clip-path") {
                    let id = clip.trim_start_matches("url(#").trim_end_matches(')');
                    assert!(document.descendants().any(|n| n.attribute("id") == Some(id)), "{id}");
                }
            }
            // Colours are the page's own unless the picture stands alone.
            let fixed = picture.contains("fill=\"#") || picture.contains("<style>");
            assert_eq!(fixed, look == Look::Alone);
            assert_eq!(picture.contains(&figure.conditions), look == Look::Alone);
            assert!(picture.lines().all(|line| line == line.trim_end()), "{}", figure.id);
            assert_inside(&figure, look);
        }
        let embedded = svg(&figure, Look::Embedded);
        for node in parse(&embedded).descendants().filter_map(|n| n.attribute("id")) {
            assert!(ids.insert(node.to_owned()), "{node} twice");
        }
        // Each name in the legend has its series, by the same number, in picture and scales.
        let scales = scales(&figure);
        for panel in scales["panels"].as_array().unwrap() {
            for series in panel["series"].as_array().unwrap() {
                let entry = series["entry"].as_u64().unwrap();
                assert_eq!(scales["names"][entry as usize], series["name"]);
                assert!(embedded.contains(&format!(r#"data-series="{entry}""#)));
            }
        }
    }
    assert!(style().contains("prefers-color-scheme:dark") && style().contains("--c0:"));
}

#[test]
fn scales_lead_from_values_to_the_places_drawn() {
    // The dots of the hockey stick are where the formulas of the page's script put them.
    let figure = &gallery::figures()[0];
    let scales = scales(figure);
    let picture = svg(figure, Look::Embedded);
    let document = parse(&picture);
    let panel = &scales["panels"][0];
    let number = |v: &serde_json::Value| v.as_f64().unwrap();
    let place = |axis: &serde_json::Value, value: f64| {
        let (min, max) = (number(&axis["min"]), number(&axis["max"]));
        let share = match axis["kind"].as_str().unwrap() {
            "linear" => (value - min) / (max - min),
            "log" => (value / min).ln() / (max / min).ln(),
            other => panic!("{other}"),
        };
        number(&axis["from"]) + share * (number(&axis["to"]) - number(&axis["from"]))
    };
    let groups: Vec<_> = with_class(&document.root(), "marks")[0]
        .descendants()
        .filter(|n| n.attribute("data-series").is_some())
        .collect();
    assert_eq!(groups.len(), 3);
    for (group, series) in groups.iter().zip(panel["series"].as_array().unwrap()) {
        let dots = group.children().find(|n| n.attribute("class") == Some("p")).unwrap();
        let dots = parts(dots.attribute("d").unwrap());
        assert_eq!(dots.len(), 9);
        for (dot, point) in dots.iter().zip(series["points"].as_array().unwrap()) {
            let (x, y) =
                (place(&scales["x"], number(&point[0])), place(&panel["y"], number(&point[1])));
            assert!((dot[0].0 - x).abs() < 0.06 && (dot[0].1 - y).abs() < 0.06, "{dot:?} {x} {y}");
        }
    }
}

#[test]
fn bars_begin_at_zero_and_their_heights_are_in_proportion() {
    let figures = gallery::figures();
    let figure = figures.iter().find(|f| f.id == "bars").unwrap();
    let picture = svg(figure, Look::Embedded);
    let document = parse(&picture);
    let [.., bottom] = boxes(figure, Look::Embedded)[0];
    let Shape::Plot(plot) = &figure.shape else { panic!() };
    let bars: Vec<_> = with_class(&document.root(), "b")
        .into_iter()
        .filter(|n| n.ancestors().any(|a| a.attribute("class") == Some("zoom")))
        .collect();
    let mut scale = None;
    for (path, series) in bars.iter().zip(&plot.panels[0].series) {
        let bars = parts(path.attribute("d").unwrap());
        assert_eq!(bars.len(), series.points.len());
        for (bar, point) in bars.iter().zip(&series.points) {
            let ys: Vec<f64> = bar.iter().map(|p| p.1).collect();
            let (top, foot) = (ys.iter().copied().fold(f64::MAX, f64::min), ys[0]);
            assert!((foot - bottom).abs() < 0.06, "{foot} {bottom}");
            let per_unit = (foot - top) / point.y;
            let first = *scale.get_or_insert(per_unit);
            assert!((per_unit / first - 1.0).abs() < 0.005, "{per_unit} {first}");
        }
    }
    assert_eq!(bars.len(), 2);
}

#[test]
fn stacked_bars_begin_where_those_below_end() {
    let figures = gallery::figures();
    let figure = figures.iter().find(|f| f.id == "budget").unwrap();
    let picture = svg(figure, Look::Embedded);
    let document = parse(&picture);
    let [.., bottom] = boxes(figure, Look::Embedded)[0];
    let mut tops = vec![bottom; 7];
    let mut layers = 0;
    for path in with_class(&with_class(&document.root(), "marks")[0], "b") {
        for (bar, below) in parts(path.attribute("d").unwrap()).iter().zip(&mut tops) {
            let (foot, top) = (bar[0].1, bar[2].1);
            assert!((foot - *below).abs() < 0.01 && top < foot, "{foot} {below} {top}");
            *below = top;
        }
        layers += 1;
    }
    assert_eq!(layers, 3);
}

#[test]
fn heat_covers_the_cells_that_have_counts_and_no_others() {
    let figures = gallery::figures();
    let figure = figures.iter().find(|f| f.id == "heat-map").unwrap();
    let Shape::Plot(plot) = &figure.shape else { panic!() };
    let picture = svg(figure, Look::Embedded);
    let document = parse(&picture);
    let boxes = boxes(figure, Look::Embedded);
    for ((panel, marks), b) in
        plot.panels.iter().zip(with_class(&document.root(), "marks")).zip(boxes)
    {
        let heat = panel.heat.as_ref().unwrap();
        let cells = heat.counts.iter().flatten().filter(|&&n| n > 0).count() as f64;
        let scale = scales(figure)["panels"][0]["y"].clone();
        let decades = (scale["max"].as_f64().unwrap() / scale["min"].as_f64().unwrap()).log10();
        // Nine rows a decade, 120 columns over the width.
        let cell = (b[2] - b[0]) / 120.0 * (b[3] - b[1]) / decades / 9.0;
        let mut area = 0.0;
        for path in with_class(&marks, "heat")[0].children() {
            for part in parts(path.attribute("d").unwrap()) {
                area += (part[2].0 - part[0].0) * (part[2].1 - part[0].1);
            }
        }
        assert!((area / (cells * cell) - 1.0).abs() < 0.01, "{area} {}", cells * cell);
    }
}

/// A point between gaps is a stroke of its line: dots are the mark of other series.
#[test]
fn a_lone_point_of_a_line_is_a_stroke() {
    let y = |i: i32| if i % 4 == 0 { 2.0 } else { f64::NAN };
    let points: Vec<Point> = (0..80).map(|i| Point::at(f64::from(i), y(i))).collect();
    let line = Series { name: "p50".into(), mark: Mark::Line, color: 1, points };
    let panel = Panel::new(Axis::from_zero("rate", Quantity::Iops), vec![line]);
    let x = Axis::from_zero("time", Quantity::Seconds);
    let plot = Plot { x, panels: vec![panel], spans: Vec::new() };
    let picture = svg(&Figure { shape: Shape::Plot(plot), ..gallery::usual() }, Look::Embedded);
    let document = parse(&picture);
    let marks = with_class(&document.root(), "marks");
    assert!(with_class(&marks[0], "p").is_empty(), "{picture}");
    assert_eq!(parts(with_class(&marks[0], "l")[0].attribute("d").unwrap()).len(), 20);
}

#[test]
fn an_axis_contains_its_spans_and_a_name_is_one_entry() {
    let mut figure = gallery::usual();
    let Shape::Plot(plot) = &mut figure.shape else { panic!() };
    plot.spans.push(Span { from: -30.0, to: 90.0, name: "run".into(), tone: Tone::Plain });
    let scales_of = scales(&figure);
    assert_eq!(
        (scales_of["x"]["min"].as_f64(), scales_of["x"]["max"].as_f64()),
        (Some(-30.0), Some(90.0))
    );
    let spectrum = gallery::figures().into_iter().find(|f| f.id == "spectrum").unwrap();
    assert_eq!(scales(&spectrum)["names"], serde_json::json!(["QD 1", "QD 32"]));
}

/// The legend explains the sign of a warning with the text of the panel.
#[test]
fn a_sign_has_its_panels_meaning() {
    let point = Point { tone: Tone::Warning, ..Point::at(1.0, 2.0) };
    let points = vec![point, Point::at(2.0, 3.0)];
    let series = Series { name: "p99".into(), mark: Mark::Line, color: 0, points };
    let mut panel = Panel::new(Axis::from_zero("latency", Quantity::LatencyNs), vec![series]);
    let drawn = |panel: &Panel| {
        let x = Axis::from_zero("rate", Quantity::Iops);
        let plot = Plot { x, panels: vec![panel.clone()], spans: Vec::new() };
        svg(&bare(Shape::Plot(plot)), Look::Embedded)
    };
    assert!(drawn(&panel).contains(">with a warning<"));
    panel.warning = "does not hold";
    let picture = drawn(&panel);
    assert!(picture.contains(">does not hold<") && !picture.contains("with a warning"));
}

#[test]
fn a_spike_of_one_point_in_thousands_is_seen() {
    let mut points: Vec<Point> =
        (0..40_000).map(|i| Point::at(f64::from(i), 100.0 + f64::from(i % 7))).collect();
    points[23_456].y = 900.0;
    points[31_000].y = 3.0;
    let series = Series { name: "rate".into(), mark: Mark::Line, color: 0, points: points.clone() };
    let panel = Panel::new(Axis::from_zero("rate", Quantity::Iops), vec![series]);
    let x = Axis::from_zero("time", Quantity::Seconds);
    let figure = bare(Shape::Plot(Plot { x, panels: vec![panel], spans: Vec::new() }));
    let picture = svg(&figure, Look::Embedded);
    assert!(picture.len() < 60_000, "{}", picture.len());
    let document = parse(&picture);
    let line = with_class(&document.root(), "l").into_iter().next_back().unwrap();
    let ys: Vec<f64> =
        parts(line.attribute("d").unwrap()).into_iter().flatten().map(|p| p.1).collect();
    let [_, top, _, bottom] = boxes(&figure, Look::Embedded)[0];
    let place = |value: f64| bottom - (bottom - top) * value / 1000.0;
    let least = ys.iter().copied().fold(f64::MAX, f64::min);
    let most = ys.iter().copied().fold(f64::MIN, f64::max);
    assert!((least - place(900.0)).abs() < 0.11 && (most - place(3.0)).abs() < 0.11);
    // Points that are not drawn are still in the table.
    let scales = scales(&figure);
    assert_eq!(scales["panels"][0]["series"][0]["points"].as_array().unwrap().len(), 40_000);
    let table = figure.table();
    assert_eq!(table.rows.len(), 600);
    assert_eq!(table.rows[599].cells[1].value, Some(39_999.0));
    assert!(table.notes[0].contains("600 of 40000"), "{:?}", table.notes);
}

#[test]
fn charts_are_small_and_the_same_at_every_call() {
    let usual = gallery::usual();
    let size = svg(&usual, Look::Embedded).len();
    assert!(size < 8192, "{size}");
    for (a, b) in gallery::figures().iter().zip(gallery::figures()) {
        for look in LOOKS {
            assert_eq!(svg(a, look), svg(&b, look));
        }
        assert_eq!(scales(a).to_string(), scales(&b).to_string());
    }
}

#[test]
fn tables_hold_the_values_of_the_figure() {
    for figure in all() {
        let table = figure.table();
        assert_eq!(table.caption, figure.title);
        for row in &table.rows {
            assert_eq!(row.cells.len(), table.columns.len(), "{}", figure.id);
        }
    }
    let figures = gallery::figures();
    let table = figures[0].table();
    let heads: Vec<&str> = table.columns.iter().map(|c| c.title.as_str()).collect();
    assert_eq!(heads, ["series", "achieved", "latency", "from", "to", "at"]);
    assert_eq!(table.columns[2].unit, "ns");
    assert_eq!(table.rows.len(), 27);
    let Shape::Plot(plot) = &figures[0].shape else { panic!() };
    let point = &plot.panels[0].series[1].points[0];
    assert_eq!(table.rows[9].cells[2].value, Some(point.y));
    assert_eq!(table.rows[9].cells[2].text, Quantity::LatencyNs.words(point.y));
    assert_eq!(table.rows[9].cells[5].text, "QD 1");
}

#[test]
fn missing_data_is_reported() {
    let figures = gallery::figures();
    let nothing = figures.iter().find(|f| f.id == "empty").unwrap();
    let matrix = Matrix {
        range: None,
        columns_label: String::new(),
        columns: Vec::new(),
        rows_label: String::new(),
        rows: Vec::new(),
        quantity: Quantity::Iops,
        values: Vec::new(),
        notes: Vec::new(),
    };
    let x = Axis::from_zero("", Quantity::Seconds);
    let plot = Plot { x, panels: Vec::new(), spans: Vec::new() };
    let shapes = [
        nothing.shape.clone(),
        Shape::Matrix(matrix.clone()),
        Shape::Columns(matrix),
        Shape::Plot(plot),
    ];
    for shape in shapes {
        for look in LOOKS {
            let picture = svg(&bare(shape.clone()), look);
            parse(&picture);
            assert!(picture.contains("no data"), "{picture}");
        }
    }
    let with_data = svg(&figures[0], Look::Embedded);
    assert!(!with_data.contains("no data"));
}

/// The figure with `text` in every text field.
fn with_text(figure: &Figure, text: &str) -> Figure {
    let mut figure = figure.clone();
    let axis = |axis: &mut Axis| {
        text.clone_into(&mut axis.label);
        if let Scale::Categories(names) = &mut axis.scale {
            names.fill(text.to_owned());
        }
    };
    match &mut figure.shape {
        Shape::Plot(plot) => {
            axis(&mut plot.x);
            for panel in &mut plot.panels {
                axis(&mut panel.y);
                for series in &mut panel.series {
                    text.clone_into(&mut series.name);
                    for point in &mut series.points {
                        text.clone_into(&mut point.label);
                    }
                }
                panel.rules.iter_mut().for_each(|r: &mut Rule| text.clone_into(&mut r.name));
                panel.heat.iter_mut().for_each(|h: &mut HeatMap| text.clone_into(&mut h.of));
            }
            plot.spans.iter_mut().for_each(|s: &mut Span| text.clone_into(&mut s.name));
        }
        Shape::Matrix(matrix) | Shape::Columns(matrix) => {
            matrix.columns.fill(text.to_owned());
            matrix.rows.fill(text.to_owned());
            text.clone_into(&mut matrix.columns_label);
            text.clone_into(&mut matrix.rows_label);
            matrix.notes = vec![vec![text.to_owned(); matrix.columns.len()]; matrix.rows.len()];
        }
    }
    for field in [&mut figure.id, &mut figure.title, &mut figure.summary, &mut figure.conditions] {
        text.clone_into(field);
    }
    figure.notes = vec![text.to_owned()];
    figure
}

#[test]
fn hostile_names_never_become_elements_or_attributes() {
    const KNOWN: [&str; 10] =
        ["svg", "g", "path", "rect", "text", "title", "desc", "style", "clipPath", "defs"];
    let long = "<b>".repeat(3400);
    let hostile = [
        "</title><script>alert(1)</script>",
        "\" onload=\"alert(1)\" x='",
        "]]><!-- & &lt; &#0; -->",
        "\u{0}\u{1}\u{1b}[31m\u{7f}\u{85}\n\t\u{ffff}",
        "\u{202e}מחק את הכל\u{2066}",
        "{{7*7}} ${x} `y` \\u003c",
        long.as_str(),
    ];
    let figures = gallery::figures();
    // One figure is enough for a text that is long, and one of many points for none.
    for text in hostile {
        for figure in figures
            .iter()
            .filter(|f| if text.len() < 100 { f.id != "dense" } else { f.id == "forest" })
        {
            let figure = with_text(figure, text);
            for look in [Look::Embedded, Look::Alone] {
                let picture = svg(&figure, look);
                let document = parse(&picture);
                for node in document.descendants().filter(Node::is_element) {
                    assert!(KNOWN.contains(&node.tag_name().name()), "{:?}", node.tag_name());
                    assert!(node.attributes().all(|a| !a.name().starts_with("on")));
                }
                assert!(!picture.contains('\u{202e}') && !picture.contains('\u{1b}'));
                assert!(picture.lines().all(|line| line == line.trim_end()));
            }
            scales(&figure);
            figure.table();
        }
    }
}

/// The legend explains the sign of an invalid value. Improvements, deteriorations and undecided changes differ in
/// shape as well as in colour, and have no sign of an invalid value.
#[test]
fn the_legend_gives_the_meaning_of_signs_and_shapes() {
    let drawn = |mark: Mark, tone: Tone| {
        let point = Point { tone, interval: Some((0.5, 1.5)), ..Point::at(1.0, 2.0) };
        let series = Series { name: "b".to_owned(), mark, color: 0, points: vec![point] };
        let panel = Panel::new(Axis::from_zero("y", Quantity::Count), vec![series]);
        let mut figure = gallery::usual();
        figure.shape = Shape::Plot(Plot {
            x: Axis::from_zero("x", Quantity::Count),
            panels: vec![panel],
            spans: Vec::new(),
        });
        svg(&figure, Look::Alone)
    };
    let count =
        |text: &str, shape: &str| text.split("</style>").nth(1).unwrap().matches(shape).count();
    assert!(drawn(Mark::Dots, Tone::Bad).contains("INVALID, not to be used"));
    let shapes = [
        (Mark::Better, r#"class="sign better""#),
        (Mark::Worse, r#"class="sign worse""#),
        (Mark::Undecided, r#"class="inside""#),
        (Mark::Hollow, r#"class="inside""#),
    ];
    for (mark, own) in shapes {
        let text = drawn(mark, Tone::Plain);
        assert!(!text.contains("INVALID"), "{mark:?}");
        for (_, shape) in shapes {
            // One in the legend, and one for the point.
            assert_eq!(count(&text, shape), if shape == own { 2 } else { 0 }, "{mark:?}: {shape}");
        }
    }
}
