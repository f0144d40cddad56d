//! Describes a picture for the page's script: boxes, axes, and series with their points.
//!
//! The script uses the description to convert between positions and values. Numbers have six significant digits;
//! missing values are null.

use serde_json::{Map, Number, Value, json};

use crate::{Axis, Figure, Matrix, Plot, Quantity, Scale, Shape};

use super::layout::{Layout, axis_label};
use super::legend;
use super::scale::{Kind, Ruler};
use super::text::clean;
use super::{Frame, Look, matrix};
use crate::tone;

/// Describes a figure's axes, series and heat maps as drawn with [`Look::Embedded`], for the scripts of the
/// page.
///
/// ```json
/// {"id": "…", "shape": "plot", "title": "…", "names": ["read"],
///  "x": {"kind": "log", "min": 1, "max": 1000, "from": 60, "to": 800,
///        "label": "…", "quantity": "latency_ns", "format": "time_ns"},
///  "panels": [{"box": {"x": 60, "y": 40, "width": 740, "height": 300},
///              "y": {…},
///              "series": [{"name": "read", "entry": 0, "color": 0, "mark": "line",
///                          "points": [[1, 2], [2, null], [3, 4, "QD 8"], [4, 5, "", 4.5, 5.5]]}],
///              "rules": [{"at": 1, "upright": false, "name": "…", "tone": "plain"}],
///              "heat": {"of": "I/Os", "x_edges": […], "y_edges": […], "counts": [[…]]}}],
///  "spans": [{"from": 0, "to": 1, "name": "…", "tone": "note"}]}
/// ```
///
/// `kind` is `linear`, `log`, `nines` (`-log10(1 - q)`) or `categories` (listed in `categories`; category `i`
/// is at value `i`). `min` is at pixel `from` and `max` at `to`, in units of the `viewBox`. A point is `[x,
/// y]`, followed by its label, if any, and by the ends of its interval. The interval is horizontal if the
/// mark is `interval`, `better`, `worse` or `undecided`, otherwise vertical. `entry` is the number in
/// `data-series`. A matrix has one panel with category axes, and `cells` by row and then column; a 3D column
/// chart has `cells`, but no axes.
pub fn scales(figure: &Figure) -> Value {
    scales_in(figure, Look::Embedded)
}

/// Like [`scales`], for the figure as drawn with `look`.
pub fn scales_in(figure: &Figure, look: Look) -> Value {
    let frame = Frame::new(figure, look);
    let mut out = Map::new();
    out.insert("id".into(), json!(frame.id));
    out.insert("title".into(), json!(clean(&figure.title)));
    let top =
        if look == Look::Alone { super::head(&mut String::new(), figure, &frame) } else { 4.0 };
    match &figure.shape {
        Shape::Plot(plot) => {
            out.insert("shape".into(), json!("plot"));
            of_plot(&mut out, plot, &Layout::new(plot, &frame, top));
        }
        Shape::Matrix(matrix) => {
            out.insert("shape".into(), json!("matrix"));
            let at = matrix::Grid::new(matrix, &frame, top);
            let axis = |label: &str, names: &[String], from: f64, to: f64| {
                let axis = Axis::categories(label, names.to_vec());
                let high = names.len().max(1) as f64 - 0.5;
                let kind = Kind::Categories(names.len());
                let ruler = Ruler { kind, quantity: Quantity::Count, low: -0.5, high, from, to };
                of_axis(&axis, &ruler)
            };
            let x = axis(&matrix.columns_label, &matrix.columns, at.x, at.x + at.width());
            let y = axis(&matrix.rows_label, &matrix.rows, at.y, at.y + at.height());
            out.insert("x".into(), x);
            out.insert(
                "panels".into(),
                json!([{
                    "box": area(at.x, at.y, at.width(), at.height()),
                    "y": y,
                    "quantity": quantity_name(matrix.quantity),
                    "format": format_name(matrix.quantity),
                    "cells": cells(matrix),
                    "series": [],
                }]),
            );
        }
        Shape::Columns(matrix) => {
            out.insert("shape".into(), json!("columns"));
            out.insert(
                "panels".into(),
                json!([{
                    "columns": texts(&matrix.columns),
                    "rows": texts(&matrix.rows),
                    "quantity": quantity_name(matrix.quantity),
                    "format": format_name(matrix.quantity),
                    "cells": cells(matrix),
                    "series": [],
                }]),
            );
        }
    }
    Value::Object(out)
}

fn of_plot(out: &mut Map<String, Value>, plot: &Plot, layout: &Layout) {
    out.insert("names".into(), layout.entries.iter().map(|e| json!(clean(&e.name))).collect());
    out.insert("x".into(), of_axis(&plot.x, &layout.x));
    let x_kind = layout.x.kind;
    let panels = plot.panels.iter().zip(&layout.panels).map(|(panel, at)| {
        let y_kind = at.ruler.kind;
        let series = panel.series.iter().map(|series| {
            let along = if series.mark.is_interval() { x_kind } else { y_kind };
            let points = series.points.iter().map(|point| {
                let mut values = vec![number(x_kind, point.x), number(y_kind, point.y)];
                if !point.label.is_empty() || point.interval.is_some() {
                    values.push(json!(clean(&point.label)));
                }
                if let Some((low, high)) = point.interval {
                    values.extend([number(along, low), number(along, high)]);
                }
                Value::Array(values)
            });
            json!({
                "name": clean(&series.name),
                "entry": layout.entry(series),
                "color": series.color % legend::COLORS,
                "mark": legend::class(series.mark),
                "points": points.collect::<Value>(),
            })
        });
        let rules = panel.rules.iter().map(|rule| {
            json!({
                "at": number(if rule.upright { x_kind } else { y_kind }, rule.at),
                "upright": rule.upright,
                "name": clean(&rule.name),
                "tone": tone::class(rule.tone),
            })
        });
        let mut of_panel = json!({
            "box": area(at.x, at.y, at.width, at.height),
            "y": of_axis(&panel.y, &at.ruler),
            "series": series.collect::<Value>(),
            "rules": rules.collect::<Value>(),
        });
        if let Some(heat) = &panel.heat {
            let edges =
                |kind, edges: &[f64]| edges.iter().map(|&e| number(kind, e)).collect::<Value>();
            of_panel["heat"] = json!({
                "of": clean(&heat.of),
                "x_edges": edges(x_kind, &heat.x_edges),
                "y_edges": edges(y_kind, &heat.y_edges),
                "counts": heat.counts,
            });
        }
        of_panel
    });
    out.insert("panels".into(), panels.collect());
    let spans = plot.spans.iter().map(|span| {
        json!({
            "from": number(x_kind, span.from),
            "to": number(x_kind, span.to),
            "name": clean(&span.name),
            "tone": tone::class(span.tone),
        })
    });
    out.insert("spans".into(), spans.collect());
}

fn area(x: f64, y: f64, width: f64, height: f64) -> Value {
    json!({"x": pixel(x), "y": pixel(y), "width": pixel(width), "height": pixel(height)})
}

fn of_axis(axis: &Axis, ruler: &Ruler) -> Value {
    let (min, max) = ruler.values();
    let kind = match ruler.kind {
        Kind::Linear => "linear",
        Kind::Log => "log",
        Kind::Nines => "nines",
        Kind::Categories(_) => "categories",
    };
    let mut out = json!({
        "kind": kind,
        "min": exact(min),
        "max": exact(max),
        "from": pixel(ruler.from),
        "to": pixel(ruler.to),
        "label": axis_label(axis),
        "quantity": quantity_name(axis.quantity),
        "format": format_name(axis.quantity),
    });
    if let Scale::Categories(names) = &axis.scale {
        out["categories"] = texts(names);
    }
    out
}

fn texts(names: &[String]) -> Value {
    names.iter().map(|name| json!(clean(name))).collect()
}

fn cells(matrix: &Matrix) -> Value {
    let row = |row: &Vec<Option<f64>>| {
        row.iter().map(|value| number(Kind::Linear, value.unwrap_or(f64::NAN))).collect::<Value>()
    };
    matrix.values.iter().map(row).collect()
}

fn number(kind: Kind, value: f64) -> Value {
    rounded_to_digits(kind, value).map_or(Value::Null, exact)
}

/// Rounds a value on an axis as for the script; `None` if it has no position.
pub(crate) fn rounded(axis: &Axis, value: f64) -> Option<f64> {
    rounded_to_digits(Kind::of(&axis.scale), value)
}

/// Rounds a value to six significant digits; `None` if it has no position on the axis. A quantile is rounded in
/// its distance from 1, so that its nines survive.
fn rounded_to_digits(kind: Kind, value: f64) -> Option<f64> {
    kind.transform(value)?;
    let is_nines = kind == Kind::Nines;
    Some(if is_nines { 1.0 - six_digits(1.0 - value) } else { six_digits(value) })
}

fn six_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Converts a value to a JSON number, an integer if possible: `12`, not `12.0`.
fn exact(value: f64) -> Value {
    if value.fract().abs() == 0.0 && value.abs() < 9e15 {
        Value::from(value as i64)
    } else {
        Number::from_f64(value).map_or(Value::Null, Value::Number)
    }
}

fn pixel(value: f64) -> Value {
    exact((value * 10.0).round() / 10.0)
}

/// Name of a quantity in the JSON description.
fn quantity_name(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Iops => "iops",
        Quantity::Throughput => "throughput",
        Quantity::LatencyNs => "latency_ns",
        Quantity::Seconds => "seconds",
        Quantity::Share => "share",
        Quantity::Change => "change",
        Quantity::Bytes => "bytes",
        Quantity::Count => "count",
        Quantity::Ratio => "ratio",
        Quantity::Quantile => "quantile",
        Quantity::Celsius => "celsius",
    }
}

/// Name of the number format of a quantity, corresponding to [`Quantity::words`]: `count` (k, M, G),
/// `throughput` (kB/s), `time_ns` (ns, µs, ms, s), `seconds` (a time in seconds), `percent` (of a fraction),
/// `change` (percent with a sign), `size` (KiB), `number`, `quantile` (percent with its nines) or `celsius`.
fn format_name(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Iops | Quantity::Count => "count",
        Quantity::Throughput => "throughput",
        Quantity::LatencyNs => "time_ns",
        Quantity::Seconds => "seconds",
        Quantity::Share => "percent",
        Quantity::Change => "change",
        Quantity::Bytes => "size",
        Quantity::Ratio => "number",
        Quantity::Quantile => "quantile",
        Quantity::Celsius => "celsius",
    }
}
