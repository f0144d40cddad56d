//! Computes the layout of a plot: positions of panels, axes, legend and names of spans.
//!
//! Both the SVG and the description of scales for the page's script use this layout, so that they agree to the pixel.

use std::collections::BTreeMap;

use crate::figure::Span;
use crate::{Axis, Mark, Panel, Plot, Quantity, Scale, Series};

use super::Frame;
use super::legend::{self, Entry};
use super::names::Names;
use super::scale::{Extent, Ruler};
use super::text::{SIZE, SMALL, isolated, width};
use super::ticks::{self, Tick};

/// Positions of all elements of a plot, in pixels.
#[derive(Debug)]
pub(super) struct Layout {
    /// Legend entries, one per series name, in the order of first use.
    pub(super) entries: Vec<Entry>,
    /// Vertical position of the legend's top.
    pub(super) legend_y: f64,
    /// Vertical position of the top of the heat maps' colour key; `None` without heat maps.
    pub(super) key_y: Option<f64>,
    /// Row of each span's name above the first panel; `None` if there is no room for the name.
    pub(super) span_rows: Vec<Option<usize>>,
    /// Horizontal axis, shared by all panels.
    pub(super) x: Ruler,
    pub(super) x_ticks: Vec<Tick>,
    /// Panels from top to bottom.
    pub(super) panels: Vec<Area>,
    /// Total width of the bars that stand side by side at one x value, in pixels.
    pub(super) bar_width: f64,
    /// Vertical position of the plot's bottom.
    pub(super) bottom: f64,
}

/// Position and vertical axis of a panel.
#[derive(Clone, Debug)]
pub(super) struct Area {
    /// Left edge of the panel's box, in pixels.
    pub(super) x: f64,
    /// Top edge of the panel's box, in pixels.
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) ruler: Ruler,
    pub(super) ticks: Vec<Tick>,
}

/// Height of the heat maps' colour key, in pixels.
const KEY_HEIGHT: f64 = 34.0;
/// Height of one row of span names, in pixels.
pub(super) const SPAN_ROW: f64 = 15.0;
/// Maximum number of rows of span names.
const SPAN_ROWS: usize = 3;
/// Minimum height of a category on a vertical axis, in pixels.
const CATEGORY: f64 = 24.0;

impl Layout {
    /// Computes the positions of a plot that begins at height `top`.
    pub(super) fn new(plot: &Plot, frame: &Frame, top: f64) -> Self {
        let entries = legend::entries(plot);
        let legend_y = top;
        let mut y = top + legend::height(&entries, plot, frame);
        let has_heat = plot.panels.iter().any(|p| p.heat.is_some());
        let key_y = has_heat.then_some(y);
        if has_heat {
            y += KEY_HEIGHT;
        }
        let first_head = y;

        // Vertical axes first: the width of their labels decides where the horizontal axis begins.
        let heights: Vec<f64> = plot.panels.iter().map(|p| height(p, plot, frame)).collect();
        let mut rulers = Vec::new();
        let mut left = 30.0_f64;
        for (panel, &height) in plot.panels.iter().zip(&heights) {
            let ruler = Ruler::new(&panel.y, vertical(panel), height, 0.0, false);
            let mut ticks = ticks::ticks(&ruler, false);
            thin(&mut ticks, &ruler, None);
            left = left.max(label_width(&panel.y, &ticks, frame) + 12.0);
            rulers.push((ruler, ticks));
        }
        let right = 18.0;
        let (from, to) = (left.round(), frame.width - right);
        let (extent, gap) = horizontal(plot);
        let is_tight = gap.is_none()
            && matches!(plot.x.quantity, Quantity::Seconds | Quantity::Ratio | Quantity::LatencyNs);
        let x = Ruler::new(&plot.x, extent, from, to, is_tight);
        let mut x_ticks = ticks::ticks(&x, true);
        thin(&mut x_ticks, &x, Some(frame.width));
        let bar_width = gap.map_or(40.0, |gap| {
            let pixels = gap * x.pixels_per_unit();
            if pixels < 4.0 { pixels } else { (pixels * 0.8).min(90.0) }
        });

        let span_rows = span_rows(plot, &x, frame);
        let rows = span_rows.iter().flatten().max().map_or(0, |row| row + 1);
        let mut panels = Vec::new();
        y = first_head;
        for (i, ((mut ruler, ticks), &height)) in rulers.into_iter().zip(&heights).enumerate() {
            y += head(&plot.panels[i]) + if i == 0 { SPAN_ROW * rows as f64 } else { 10.0 };
            (ruler.from, ruler.to) = (ruler.from + y, ruler.to + y);
            panels.push(Area { x: from, y, width: to - from, height, ruler, ticks });
            y += height;
        }
        y += match &plot.x.scale {
            Scale::Categories(names) => Names::below(names, &x).depth(),
            _ => 20.0,
        };
        if !axis_label(&plot.x).is_empty() {
            y += 18.0;
        }
        Self { entries, legend_y, key_y, span_rows, x, x_ticks, panels, bar_width, bottom: y + 4.0 }
    }
}

impl Layout {
    /// Index of the legend entry of a series.
    pub(super) fn entry(&self, series: &Series) -> usize {
        // Every series' name is in the legend.
        self.entries.iter().position(|e| e.name == series.name).unwrap_or(0)
    }
}

/// Lays out category names left of a vertical axis.
pub(super) fn names_beside<'a>(names: &'a [String], frame: &Frame) -> Names<'a> {
    Names::beside(names, frame.width * 0.36)
}

/// Title of an axis: its label, followed by the unit if tick labels omit it, and by `log` for a logarithmic
/// scale.
pub(super) fn axis_label(axis: &Axis) -> String {
    let label = isolated(&axis.label);
    let mut more = Vec::new();
    if axis.quantity == Quantity::Iops && !label.to_lowercase().contains("iops") {
        more.push("IOPS");
    }
    if axis.scale == Scale::Log && !label.contains("log") {
        more.push("log");
    }
    match (label.is_empty(), more.is_empty()) {
        (_, true) => label,
        (true, _) => more.join(", "),
        _ => format!("{label} ({})", more.join(", ")),
    }
}

/// Space above a panel for its axis title, in pixels.
fn head(panel: &Panel) -> f64 {
    if axis_label(&panel.y).is_empty() { 12.0 } else { 28.0 }
}

fn height(panel: &Panel, plot: &Plot, frame: &Frame) -> f64 {
    if let Scale::Categories(names) = &panel.y.scale {
        let each = (names_beside(names, frame).line_height() + 10.0).max(CATEGORY);
        return (names.len() as f64 * each + 8.0).clamp(70.0, 2400.0);
    }
    let usual = match plot.panels.len() {
        0 | 1 => 300.0,
        2 => 200.0,
        _ => 160.0,
    } * if frame.is_small { 0.6 } else { 1.0 };
    let share = if panel.height.is_finite() && panel.height > 0.0 { panel.height } else { 1.0 };
    (usual * share).clamp(48.0, 900.0).round()
}

/// Width of the tick labels of a vertical axis, in pixels.
fn label_width(axis: &Axis, ticks: &[Tick], frame: &Frame) -> f64 {
    match &axis.scale {
        Scale::Categories(names) => names_beside(names, frame).width(),
        _ => ticks.iter().map(|t| width(&t.label, SIZE)).fold(0.0, f64::max),
    }
}

/// Clears labels that would touch the previous label; their ticks stay. `right` is the picture's right edge for a
/// horizontal axis, and `None` for a vertical one.
fn thin(ticks: &mut [Tick], ruler: &Ruler, right: Option<f64>) {
    let mut end = f64::NEG_INFINITY;
    for tick in ticks {
        let (Some(place), false) = (ruler.place(tick.value), tick.label.is_empty()) else {
            continue;
        };
        // On a vertical axis positions fall as values rise.
        let (place, half) = match right {
            Some(right) => {
                let half = width(&tick.label, SIZE) / 2.0;
                (place.min(right - half), half + 4.0)
            }
            None => (-place, 7.0),
        };
        if place - half < end {
            tick.label.clear();
        } else {
            end = place + half;
        }
    }
}

/// Extent of the data along the horizontal axis, and the smallest distance between bars, both in transformed units. The
/// distance is `None` without bars.
fn horizontal(plot: &Plot) -> (Extent, Option<f64>) {
    let mut extent = Extent::new(&plot.x.scale);
    let mut bars = Vec::new();
    let kind = super::scale::Kind::of(&plot.x.scale);
    for panel in &plot.panels {
        for series in &panel.series {
            for point in &series.points {
                extent.add(point.x);
                if let (true, Some((low, high))) = (series.mark.is_interval(), point.interval) {
                    extent.add(low);
                    extent.add(high);
                }
                if matches!(series.mark, Mark::Bars | Mark::Stack) {
                    bars.extend(kind.transform(point.x));
                }
            }
        }
        for rule in panel.rules.iter().filter(|r| r.upright) {
            extent.add(rule.at);
        }
        for &edge in panel.heat.iter().flat_map(|h| &h.x_edges) {
            extent.add(edge);
        }
    }
    for span in &plot.spans {
        extent.add(span.from);
        extent.add(span.to);
    }
    if bars.is_empty() {
        return (extent, None);
    }
    bars.sort_by(f64::total_cmp);
    let gap =
        bars.windows(2).map(|w| w[1] - w[0]).filter(|&d| d > 1e-9).fold(f64::INFINITY, f64::min);
    let gap = if gap.is_finite() { gap } else { 1.0 };
    let gap = if matches!(kind, super::scale::Kind::Categories(_)) { 1.0 } else { gap };
    extent.widen(gap / 2.0);
    (extent, Some(gap))
}

/// Extent of the data along a panel's vertical axis.
fn vertical(panel: &Panel) -> Extent {
    let mut extent = Extent::new(&panel.y.scale);
    let mut has_words = false;
    for (series, stack) in panel.series.iter().zip(stacks(panel)) {
        for (i, point) in series.points.iter().enumerate() {
            has_words |= !point.label.is_empty() && !series.mark.is_interval();
            match (series.mark, stack.get(i)) {
                (Mark::Stack, Some(&(low, high))) => {
                    extent.add(low);
                    extent.add(high);
                }
                (Mark::Band, _) => {}
                _ => extent.add(point.y),
            }
            if let (false, Some((low, high))) = (series.mark.is_interval(), point.interval) {
                extent.add(low);
                extent.add(high);
            }
        }
        if matches!(series.mark, Mark::Bars | Mark::Stack) {
            extent.add(0.0);
        }
    }
    for rule in panel.rules.iter().filter(|r| !r.upright) {
        extent.add(rule.at);
    }
    if let Some(heat) = &panel.heat {
        for (i, edges) in heat.y_edges.windows(2).enumerate() {
            if heat.counts.iter().any(|column| column.get(i).is_some_and(|&n| n > 0)) {
                extent.add(edges[0]);
                extent.add(edges[1]);
            }
        }
    }
    if has_words && matches!(panel.y.scale, Scale::Linear { .. }) {
        extent.headroom(0.07);
    }
    extent
}

/// Lower and upper end of each bar of the stacked series. Positive values stack upwards and negative ones
/// downwards. Empty for other series.
pub(super) fn stacks(panel: &Panel) -> Vec<Vec<(f64, f64)>> {
    let mut piles: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    let bars = |series: &Series| {
        series
            .points
            .iter()
            .map(|point| {
                let pile = piles.entry(point.x.to_bits()).or_insert((0.0, 0.0));
                let value = if point.y.is_finite() { point.y } else { 0.0 };
                let end = if value < 0.0 { &mut pile.1 } else { &mut pile.0 };
                let from = *end;
                *end += value;
                (from, *end)
            })
            .collect()
    };
    let mut bars = bars;
    panel
        .series
        .iter()
        .map(|series| if series.mark == Mark::Stack { bars(series) } else { Vec::new() })
        .collect()
}

/// Left edge and width of the name of a span that begins at pixel `from`, shifted left if it would leave the
/// picture.
pub(super) fn span_name_at(span: &Span, from: f64, frame: &Frame) -> (f64, f64) {
    let wide = width(&super::span_name(span), SMALL).min(frame.width - 4.0);
    ((from + 2.0).min(frame.width - wide - 1.0), wide)
}

/// Row above the first panel for each span's name. Overlapping names go to further rows. `None` if no row is
/// free; the name then appears only as a tooltip.
fn span_rows(plot: &Plot, x: &Ruler, frame: &Frame) -> Vec<Option<usize>> {
    let mut ends = [f64::NEG_INFINITY; SPAN_ROWS];
    let mut order: Vec<usize> = (0..plot.spans.len()).collect();
    order.sort_by(|&a, &b| plot.spans[a].from.total_cmp(&plot.spans[b].from));
    let mut rows = vec![None; plot.spans.len()];
    for i in order {
        let span = &plot.spans[i];
        let (Some(from), Some(to)) = (x.place_within(span.from), x.place_within(span.to)) else {
            continue;
        };
        if span.name.is_empty() || to <= from {
            continue;
        }
        let (start, wide) = span_name_at(span, from, frame);
        let start = start.min(from);
        if let Some(row) = ends.iter().position(|&e| e <= start + 0.5) {
            ends[row] = (start + wide + 8.0).max(to);
            rows[i] = Some(row);
        }
    }
    rows
}
