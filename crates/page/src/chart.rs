//! A stand-in for the drawing of charts.
#![allow(missing_docs)]
use crate::figure::{Scale, Shape};
use crate::{Axis, Cell, Column, Figure, Table};
use serde_json::{Value, json};
use std::fmt::Write;

#[derive(Clone, Copy)]
pub enum Look {
    Embedded,
    Alone,
}
pub fn style() -> &'static str {
    ".chart{--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--ink:#222}\n@media (prefers-color-scheme: dark){.chart{--ink:#ddd;--c0:#56b4e9}}\n.chart text{fill:var(--ink);font-size:12px}.chart .tick line,.chart .frame{stroke:#8884;fill:none}.series{fill:none;stroke-width:1.8}.s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.series *{vector-effect:non-scaling-stroke}"
}
fn esc(s: &str) -> String {
    s.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
fn t(kind: &str, v: f64) -> f64 {
    match kind {
        "log" => v.log10(),
        "nines" => -(1.0 - v).log10(),
        _ => v,
    }
}
fn kind(axis: &Axis) -> &'static str {
    match axis.scale {
        Scale::Linear { .. } => "linear",
        Scale::Log => "log",
        Scale::Nines => "nines",
        Scale::Categories(_) => "categories",
    }
}
fn range(axis: &Axis, values: impl Iterator<Item = f64>) -> (f64, f64) {
    if let Some(r) = axis.range {
        return r;
    }
    let (mut a, mut b) = values.filter(|v| v.is_finite()).fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)));
    if let Scale::Linear { zero: true } = axis.scale {
        a = 0.0;
    }
    if a >= b {
        b = a + 1.0;
    }
    (a, b)
}
pub fn scales(figure: &Figure) -> String {
    let Shape::Plot(p) = &figure.shape else { return json!({"panels": []}).to_string() };
    let xr = range(&p.x, p.panels.iter().flat_map(|p| &p.series).flat_map(|s| &s.points).map(|p| p.x));
    let n = p.panels.len() as f64;
    let panels: Vec<Value> = p.panels.iter().enumerate().map(|(i, panel)| {
        let yr = range(&panel.y, panel.series.iter().flat_map(|s| &s.points).map(|p| p.y));
        json!({"box": [60.0, 30.0 + 300.0 / n * i as f64, 680.0, 300.0 / n - 20.0],
          "y": {"kind": kind(&panel.y), "min": yr.0, "max": yr.1, "quantity": format!("{:?}", panel.y.quantity)},
          "series": panel.series.iter().map(|s| json!({"name": s.name, "color": s.color, "mark": format!("{:?}", s.mark),
            "points": s.points.iter().map(|p| if p.label.is_empty() { json!([p.x, p.y]) } else { json!([p.x, p.y, p.label]) }).collect::<Vec<_>>()})).collect::<Vec<_>>()})
    }).collect();
    json!({"panels": panels, "x": {"kind": kind(&p.x), "min": xr.0, "max": xr.1, "quantity": format!("{:?}", p.x.quantity)}, "spans": []}).to_string()
}
pub fn svg(figure: &Figure, _: Look) -> String {
    let id = &figure.id;
    let mut out = format!("<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 380\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>", esc(&figure.title), esc(&figure.summary));
    let s: Value = serde_json::from_str(&scales(figure)).unwrap();
    let f = |v: &Value| v.as_f64().unwrap_or(f64::NAN);
    for (i, p) in s["panels"].as_array().unwrap().iter().enumerate() {
        let b: Vec<f64> = p["box"].as_array().unwrap().iter().map(f).collect();
        let place = |axis: &Value, v: f64| { let k = axis["kind"].as_str().unwrap(); (t(k, v) - t(k, f(&axis["min"]))) / (t(k, f(&axis["max"])) - t(k, f(&axis["min"]))) };
        let _ = write!(out, "<g class=\"panel\" data-panel=\"{i}\"><rect class=\"frame\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/><g class=\"axis x\">", b[0], b[1], b[2], b[3]);
        for k in 0..=4 {
            let x = b[0] + b[2] * f64::from(k) / 4.0;
            let _ = write!(out, "<g class=\"tick\"><line x1=\"{x}\" x2=\"{x}\" y1=\"{}\" y2=\"{}\"/><text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{k}</text></g>", b[1], b[1] + b[3], b[1] + b[3] + 16.0);
        }
        let _ = write!(out, "</g><g class=\"axis y\"></g><clipPath id=\"{id}-c{i}\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath><g class=\"marks\" clip-path=\"url(#{id}-c{i})\"><g class=\"zoom\">", b[0], b[1], b[2], b[3]);
        for (j, se) in p["series"].as_array().unwrap().iter().enumerate() {
            let pts: Vec<String> = se["points"].as_array().unwrap().iter().map(|q| format!("{:.1},{:.1}", b[0] + b[2] * place(&s["x"], f(&q[0])), b[1] + b[3] * (1.0 - place(&p["y"], f(&q[1]))))).collect();
            let _ = write!(out, "<g class=\"series s{}\" data-series=\"{j}\"><polyline points=\"{}\"/></g>", se["color"], pts.join(" "));
        }
        out.push_str("</g></g><g class=\"labels\"></g></g>");
    }
    out.push_str("<g class=\"legend\"></g></svg>");
    out
}
impl Figure {
    pub fn table(&self) -> Table {
        let mut table = Table { columns: vec![Column::words("series"), Column::numbers("x", ""), Column::numbers("y", "")], ..Table::default() };
        if let Shape::Plot(p) = &self.shape {
            for s in p.panels.iter().flat_map(|p| &p.series) {
                for q in &s.points {
                    table.rows.push(vec![Cell::words(&s.name), Cell::number(format!("{:.2}", q.x), q.x), Cell::number(format!("{:.2}", q.y), q.y)].into());
                }
            }
        }
        table
    }
}
