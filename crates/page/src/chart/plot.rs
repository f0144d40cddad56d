//! Draws a plot panel by panel: axes, spans, heat map, rules, series and labels.

use std::fmt::Write as _;

use crate::figure::{Rule, Span};
use crate::{Mark, Panel, Plot, Scale, Series};

use super::heat::{Field, Levels};
use super::labels::Taken;
use super::layout::{self, Area, Layout, SPAN_ROW, axis_label};
use super::marks::{self, Place, Spot};
use super::names::Names;
use super::path::{Path, Position, px};
use super::text::{Anchor, Label, SIZE, SMALL, isolated, label, width};
use super::{Frame, legend, sign_before, span_name};
use crate::tone;

/// Maximum number of points of a series for all points to be labelled; in longer series only points with a sign are
/// labelled.
const LABELS_UP_TO: usize = 120;
/// Space around a panel's box for marks at its edge, in pixels: half a dot.
const MARGIN: f64 = 5.0;

/// Draws a plot below `top`. Returns the plot's bottom.
pub(super) fn write(out: &mut String, plot: &Plot, frame: &Frame, top: f64) -> f64 {
    let layout = Layout::new(plot, frame, top);
    legend::write(out, &layout.entries, plot, frame, layout.legend_y);
    let fields: Vec<Option<Field>> = plot
        .panels
        .iter()
        .zip(&layout.panels)
        .map(|(panel, at)| Some(Field::new(panel.heat.as_ref()?, &layout, at)))
        .collect();
    let levels = Levels::new(fields.iter().flatten());
    if let Some(y) = layout.key_y {
        let of = plot.panels.iter().find_map(|p| p.heat.as_ref()).map_or("", |h| h.of.as_str());
        levels.write_key(out, of, y, frame.width);
    }
    let is_thinned =
        plot.panels.iter().flat_map(|p| &p.series).map(|s| s.points.len()).sum::<usize>()
            > marks::THIN_ABOVE;
    for (i, (panel, at)) in plot.panels.iter().zip(&layout.panels).enumerate() {
        let drawing = Drawing { plot, panel, layout: &layout, at, frame, i, is_thinned };
        drawing.write(out, fields[i].as_ref(), &levels);
    }
    if plot.panels.is_empty() {
        label(frame.width / 2.0, layout.bottom, Anchor::Middle, 200.0).write(out, "no data");
        return layout.bottom + 30.0;
    }
    layout.bottom
}

/// Context for drawing one panel of a plot.
#[derive(Clone, Copy)]
struct Drawing<'a> {
    plot: &'a Plot,
    panel: &'a Panel,
    layout: &'a Layout,
    at: &'a Area,
    frame: &'a Frame,
    i: usize,
    is_thinned: bool,
}

/// SVG path of a horizontal line across a panel at height `y`.
fn across(at: &Area, y: f64) -> String {
    format!("M{} {}h{}", px(at.x), px(y), px(at.width))
}

impl Drawing<'_> {
    fn write(&self, out: &mut String, field: Option<&Field>, levels: &Levels) {
        let at = self.at;
        let (right, bottom) = (at.x + at.width, at.y + at.height);
        let _ = writeln!(
            out,
            r#"<g class="panel" data-panel="{0}"><clipPath id="{1}-p{0}"><rect x="{2}" y="{3}" width="{4}" height="{5}"/></clipPath>"#,
            self.i,
            self.frame.id,
            px(at.x - MARGIN),
            px(at.y - MARGIN),
            px(at.width + 2.0 * MARGIN),
            px(at.height + 2.0 * MARGIN),
        );
        self.x_axis(out);
        self.y_axis(out);

        // Labels may extend into empty space outside the panel.
        let above = if self.strip() > 0.0 { 0.0 } else { 8.0 };
        let mut taken = Taken::new([at.x + 1.0, at.y - above, right + 16.0, bottom + 2.0]);
        let mut marks = String::new();
        self.spans(&mut marks);
        if let Some(field) = field {
            field.write(&mut marks, levels, self.layout, at);
        }
        self.rules(&mut marks, &mut taken);
        let mut is_empty = field.is_none_or(Field::is_empty);
        let stacks = layout::stacks(self.panel);
        let bars = self.panel.series.iter().filter(|s| s.mark == Mark::Bars).count();
        let mut bar = 0;
        let mut spots = Vec::new();
        for (series, stack) in self.panel.series.iter().zip(&stacks) {
            let place = Place {
                layout: self.layout,
                panel: at,
                entry: self.layout.entry(series),
                slot: (bar, bars.max(1)),
                stack,
                is_thinned: self.is_thinned,
            };
            bar += usize::from(series.mark == Mark::Bars);
            let start = marks.len();
            spots.push((series, marks::write(&mut marks, series, place, &mut taken)));
            is_empty &= !marks[start..].contains("<path");
        }
        let _ = writeln!(
            out,
            r#"<g class="marks" clip-path="url(#{}-p{})"><g class="zoom">"#,
            self.frame.id, self.i
        );
        out.push_str(&marks);
        out.push_str("</g></g>\n<g class=\"labels\">\n");
        if is_empty {
            let (x, y) = (at.x + at.width / 2.0, at.y + at.height / 2.0 + 5.0);
            Label { class: "none", ..label(x, y, Anchor::Middle, at.width) }.write(out, "no data");
        }
        if self.i == 0 {
            self.span_names(out);
        }
        for rule in &self.panel.rules {
            self.rule_name(out, rule, &mut taken);
        }
        for (series, spots) in &spots {
            self.beside(out, series, spots, &mut taken);
        }
        out.push_str("</g></g>\n");
    }

    /// Draws the signs and labels at the points of a series, in an SVG group that is hidden together with the
    /// series.
    fn beside(&self, out: &mut String, series: &Series, spots: &[Spot], taken: &mut Taken) {
        let mut group = String::new();
        for spot in spots {
            let tone = series.points[spot.point].tone;
            legend::sign(&mut group, tone, spot.at.x, sign_y(series, spot));
            legend::triangle(&mut group, series.mark, spot.at);
        }
        // More labels would be illegible; points with a sign keep their labels.
        let words = spots.iter().filter(|s| !series.points[s.point].label.is_empty()).count();
        let is_blur = words > LABELS_UP_TO;
        for spot in spots {
            let point = &series.points[spot.point];
            if !(is_blur && sign_before(point.tone).is_empty()) {
                point_label(&mut group, series, spot, taken);
            }
        }
        if !group.is_empty() {
            let entry = self.layout.entry(series);
            let _ = write!(out, r#"<g class="series s{entry}" data-series="{entry}">{group}"#);
            out.push_str("</g>\n");
        }
    }

    fn x_axis(&self, out: &mut String) {
        let at = self.at;
        let (layout, axis) = (self.layout, &self.plot.x);
        let bottom = at.y + at.height;
        let is_last = self.i + 1 == self.plot.panels.len();
        out.push_str("<g class=\"axis x\">");
        let mut minor = Path::default();
        for tick in &layout.x_ticks {
            let Some(x) = layout.x.place_within(tick.value) else { continue };
            if tick.label.is_empty() {
                if !matches!(axis.scale, Scale::Linear { .. }) {
                    minor.move_to(x, at.y);
                    minor.line_to(x, bottom);
                }
                continue;
            }
            let _ = write!(
                out,
                r#"<g class="tick"><path d="M{} {}v{}"/>"#,
                px(x),
                px(at.y),
                px(at.height)
            );
            if is_last {
                // The last label must not leave the picture.
                let half = width(&tick.label, SIZE) / 2.0;
                let x = x.min(self.frame.width - half);
                label(x, bottom + 16.0, Anchor::Middle, 200.0).write(out, &tick.label);
            }
            out.push_str("</g>");
        }
        minor.write(out, "minor");
        if let (Scale::Categories(names), true) = (&axis.scale, is_last) {
            Names::below(names, &layout.x).write(out, &layout.x, bottom);
        }
        if !matches!(self.panel.y.scale, Scale::Categories(_)) {
            let foot =
                self.at.ruler.place(0.0).filter(|&y| self.at.ruler.holds(y)).unwrap_or(bottom);
            let foot = if self.panel.y.scale == Scale::Log { bottom } else { foot };
            let _ = write!(out, r#"<path class="base" d="{}"/>"#, across(at, foot));
        }
        let name = axis_label(axis);
        if is_last && !name.is_empty() {
            let (x, y) = (at.x + at.width / 2.0, layout.bottom - 6.0);
            Label { class: "name", ..label(x, y, Anchor::Middle, at.width) }.write(out, &name);
        }
        out.push_str("</g>\n");
    }

    fn y_axis(&self, out: &mut String) {
        let at = self.at;
        out.push_str("<g class=\"axis y\">");
        let mut minor = Path::default();
        for tick in &at.ticks {
            let Some(y) = at.ruler.place_within(tick.value) else { continue };
            if tick.label.is_empty() {
                minor.move_to(at.x, y);
                minor.line_to(at.x + at.width, y);
                continue;
            }
            let _ = write!(out, r#"<g class="tick"><path d="{}"/>"#, across(at, y));
            label(at.x - 7.0, y + 4.0, Anchor::End, at.x).write(out, &tick.label);
            out.push_str("</g>");
        }
        if let Scale::Categories(names) = &self.panel.y.scale {
            for i in 0..names.len() {
                let Some(y) = at.ruler.place(i as f64) else { continue };
                let _ = write!(out, r#"<g class="tick"><path d="{}"/></g>"#, across(at, y));
            }
            let step = at.ruler.pixels_per_unit();
            layout::names_beside(names, self.frame).each(step).write(out, &at.ruler, at.x - 7.0);
        }
        minor.write(out, "minor");
        let name = axis_label(&self.panel.y);
        if !name.is_empty() {
            let y = at.y - 13.0 - self.strip();
            Label { class: "name", ..label(2.0, y, Anchor::Start, self.frame.width - 4.0) }
                .write(out, &name);
        }
        out.push_str("</g>\n");
    }

    /// Height of the rows of span names above this panel, in pixels.
    fn strip(&self) -> f64 {
        let rows = self.layout.span_rows.iter().flatten().max().map_or(0, |row| row + 1);
        if self.i == 0 { rows as f64 * SPAN_ROW } else { 0.0 }
    }

    fn span_ends(&self, span: &Span) -> Option<(f64, f64)> {
        let (a, b) =
            self.layout.x.place_within(span.from).zip(self.layout.x.place_within(span.to))?;
        (a < b).then_some((a, b))
    }

    fn spans(&self, out: &mut String) {
        for span in &self.plot.spans {
            let Some((a, b)) = self.span_ends(span) else { continue };
            let mut path = Path::default();
            let Area { y, height, .. } = *self.at;
            path.rect(Position { x: a, y }, Position { x: b, y: y + height });
            let _ = writeln!(
                out,
                r#"<g class="span {}"><path d="{}"/><title>{}</title></g>"#,
                tone::class(span.tone),
                path.d(),
                super::text::escape(&span_name(span))
            );
        }
    }

    /// Writes the span names, each with a bracket over the span.
    fn span_names(&self, out: &mut String) {
        for (span, row) in self.plot.spans.iter().zip(&self.layout.span_rows) {
            let (Some((a, b)), Some(row)) = (self.span_ends(span), row) else { continue };
            let y = self.at.y - 5.0 - SPAN_ROW * *row as f64;
            let mut path = Path::default();
            path.move_to(a, y + 4.0);
            path.line_to(a, y + 2.0);
            path.line_to(b, y + 2.0);
            path.line_to(b, y + 4.0);
            path.write(out, "bracket");
            let (x, wide) = layout::span_name_at(span, a, self.frame);
            let name_at = label(x, y - 1.0, Anchor::Start, wide + 0.1);
            Label { class: tone::class(span.tone), size: SMALL, ..name_at }
                .write(out, &span_name(span));
            out.push('\n');
        }
    }

    fn rule_place(&self, rule: &Rule) -> Option<f64> {
        let ruler = if rule.upright { self.layout.x } else { self.at.ruler };
        ruler.place(rule.at).filter(|&place| ruler.holds(place))
    }

    fn rules(&self, out: &mut String, taken: &mut Taken) {
        let at = self.at;
        for rule in &self.panel.rules {
            let Some(place) = self.rule_place(rule) else { continue };
            let (a, b) = if rule.upright {
                (Position { x: place, y: at.y }, Position { x: place, y: at.y + at.height })
            } else {
                (Position { x: at.x, y: place }, Position { x: at.x + at.width, y: place })
            };
            let mut path = Path::default();
            path.segment(a, b);
            taken.line(a, b);
            let _ = writeln!(
                out,
                r#"<g class="rule {}"><path d="{}"/></g>"#,
                tone::class(rule.tone),
                path.d()
            );
        }
    }

    fn rule_name(&self, out: &mut String, rule: &Rule, taken: &mut Taken) {
        let Some(place) = self.rule_place(rule).filter(|_| !rule.name.is_empty()) else { return };
        let at = self.at;
        let words = format!("{}{}", sign_before(rule.tone), isolated(&rule.name));
        let width_max = at.width * 0.7;
        let wide = width(&words, SMALL).min(width_max) + 2.0;
        let (right, bottom) = (at.x + at.width, at.y + at.height);
        let offered = if rule.upright {
            let (after, before) = (place + 4.0, place - 4.0 - wide);
            let (top, foot) = (at.y + 2.0, bottom - 16.0);
            [(after, top), (before, top), (after, foot), (before, foot), (after, at.y + 17.0)]
        } else {
            let (above, below) = (place - 14.0, place + 2.0);
            let (last, first) = (right - wide - 2.0, at.x + 4.0);
            let middle = at.x + (at.width - wide) / 2.0;
            [(last, above), (last, below), (first, above), (first, below), (middle, above)]
        };
        let offered = offered.map(|(x, y)| [x, y, x + wide, y + 13.0]);
        if let Some(i) = taken.choose(&offered) {
            let [x, _, _, y] = offered[i];
            let name = label(x, y - 3.0, Anchor::Start, width_max);
            Label { class: tone::class(rule.tone), size: SMALL, ..name }.write(out, &words);
            out.push('\n');
        }
    }
}

/// Vertical position of the sign at a point: on a dot, but above a bar.
fn sign_y(series: &Series, spot: &Spot) -> f64 {
    match series.mark {
        Mark::Bars | Mark::Stack => spot.at.y - 9.0,
        _ => spot.at.y,
    }
}

/// Maximum width of a point's label, in pixels.
const LABEL_WIDTH_MAX: f64 = 130.0;

fn point_label(out: &mut String, series: &Series, spot: &Spot, taken: &mut Taken) {
    let point = &series.points[spot.point];
    if point.label.is_empty() {
        return;
    }
    let wide = width(&isolated(&point.label), SMALL).min(LABEL_WIDTH_MAX) + 2.0;
    let Position { x, y } = spot.at;
    // A sign needs more space than a dot.
    let off = if sign_before(point.tone).is_empty() { 5.0 } else { 9.0 };
    let offered = match series.mark {
        // Above the neighbours' labels if there is no space beside them.
        Mark::Bars => {
            let middle = x - wide / 2.0;
            let first = y - if off > 5.0 { 31.0 } else { 16.0 };
            vec![(middle, first), (middle, first - 13.0), (middle, first - 26.0)]
        }
        Mark::Stack => vec![(x - wide / 2.0, y + 2.0)],
        mark if mark.is_interval() => {
            vec![(spot.end + off + 2.0, y - 6.5), (x - wide, y - off - 13.0)]
        }
        _ => vec![
            (x + off, y - 15.0),
            (x - off - wide, y - 15.0),
            (x + off, y + 3.0),
            (x - wide / 2.0, y - off - 13.0),
            (x - off - wide, y + 3.0),
            (x - wide / 2.0, y + off),
        ],
    };
    let offered: Vec<[f64; 4]> =
        offered.into_iter().map(|(x, y)| [x, y, x + wide, y + 13.0]).collect();
    if let Some(i) = taken.choose(&offered) {
        let [x, _, _, y] = offered[i];
        Label { class: "value", size: SMALL, ..label(x, y - 3.0, Anchor::Start, LABEL_WIDTH_MAX) }
            .write(out, &point.label);
        out.push('\n');
    }
}
