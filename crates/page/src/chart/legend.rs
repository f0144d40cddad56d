//! Draws the legend: one entry per series name, with a sample of its mark.

use std::fmt::Write as _;

use crate::{Mark, Panel, Plot, Series, Tone};

use super::Frame;
use super::path::{Position, px};
use super::text::{Anchor, SIZE, isolated, label, width};

/// Maximum number of points for a line to be drawn with dots.
pub(super) const DOTS_UP_TO: usize = 40;
/// Number of distinct series colours; further series reuse them.
pub(super) const COLORS: usize = 8;
/// Maximum number of points for a line to be drawn dashed; dashes would not be visible in a denser, jagged
/// line.
const DASHED_UP_TO: usize = 160;
const ROW: f64 = 19.0;
const SAMPLE: f64 = 26.0;

/// A legend entry: the name of a series with a sample of its mark.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) name: String,
    /// Mark of the first series with this name. If that is [`Mark::Dashed`] or [`Mark::Band`], the mark of a later
    /// series with this name replaces it, unless the later one is [`Mark::Dashed`].
    pub(super) mark: Mark,
    pub(super) color: usize,
    /// Whether a series of the entry has too many points to be drawn dashed.
    pub(super) is_dense: bool,
    pub(super) has_dots: bool,
}

/// Legend entries of a plot, one per series name, in the order of first use.
pub(super) fn entries(plot: &Plot) -> Vec<Entry> {
    let mut out: Vec<Entry> = Vec::new();
    for series in plot.panels.iter().flat_map(|p: &Panel| &p.series) {
        let is_dense = is_dense(series);
        let has_dots = series.mark == Mark::Line && series.points.len() <= DOTS_UP_TO;
        match out.iter_mut().find(|e| e.name == series.name) {
            Some(entry) => {
                entry.is_dense |= is_dense;
                entry.has_dots |= has_dots;
                if matches!(entry.mark, Mark::Dashed | Mark::Band) && series.mark != Mark::Dashed {
                    entry.mark = series.mark;
                }
            }
            None => out.push(Entry {
                name: series.name.clone(),
                mark: series.mark,
                color: series.color % COLORS,
                is_dense,
                has_dots,
            }),
        }
    }
    out
}

/// Whether a series has too many points to be drawn dashed.
pub(super) fn is_dense(series: &Series) -> bool {
    series.points.len() > DASHED_UP_TO
}

/// CSS class of a series mark.
pub(super) fn class(mark: Mark) -> &'static str {
    match mark {
        Mark::Line => "line",
        Mark::Dashed => "dashed",
        Mark::Step => "step",
        Mark::Dots => "dots",
        Mark::Hollow => "hollow",
        Mark::Bars => "bars",
        Mark::Stack => "stack",
        Mark::Band => "band",
        Mark::Interval => "interval",
        Mark::Better => "better",
        Mark::Worse => "worse",
        Mark::Undecided => "undecided",
    }
}

/// Legend texts of the signs for the tones Warning and Bad; None for a sign that the plot does not contain.
fn signs(plot: &Plot) -> [Option<&'static str>; 2] {
    let mut found = [None; 2];
    for panel in &plot.panels {
        for point in panel.series.iter().flat_map(|s| &s.points) {
            match point.tone {
                Tone::Warning => found[0] = Some(panel.warning),
                Tone::Bad => found[1] = Some("INVALID, not to be used"),
                _ => {}
            }
        }
    }
    found
}

/// Maximum width of a legend name, in pixels; at this width the entry fills a row.
fn name_width_max(frame: &Frame) -> f64 {
    frame.width - SAMPLE - 34.0
}

/// Position (x in pixels, row) of each legend entry and then of each sign, and the number of rows.
fn places(entries: &[Entry], plot: &Plot, frame: &Frame) -> (Vec<(f64, usize)>, usize) {
    let names = entries.iter().map(|e| width(&isolated(&e.name), SIZE).min(name_width_max(frame)));
    let signs = signs(plot).into_iter().map(|name| name.map_or(f64::NAN, |name| width(name, SIZE)));
    let (mut x, mut row) = (0.0, 0);
    let mut out = Vec::new();
    let mut is_any = false;
    for width in names.chain(signs) {
        if width.is_nan() || (width == 0.0) {
            out.push((f64::NAN, 0));
            continue;
        }
        let whole = SAMPLE + 6.0 + width + 18.0;
        if x > 0.0 && x + whole > frame.width - 8.0 {
            (x, row) = (0.0, row + 1);
        }
        out.push((x, row));
        x += whole;
        is_any = true;
    }
    (out, if is_any { row + 1 } else { 0 })
}

pub(super) fn height(entries: &[Entry], plot: &Plot, frame: &Frame) -> f64 {
    places(entries, plot, frame).1 as f64 * ROW
}

/// Writes the legend below `top`.
pub(super) fn write(out: &mut String, entries: &[Entry], plot: &Plot, frame: &Frame, top: f64) {
    let (places, rows) = places(entries, plot, frame);
    if rows == 0 {
        return;
    }
    out.push_str("<g class=\"legend\">\n");
    for (i, (entry, &(x, row))) in entries.iter().zip(&places).enumerate() {
        if x.is_nan() {
            continue;
        }
        let (x, y) = (x + 2.0, top + row as f64 * ROW + 8.0);
        let dense = if entry.is_dense { " dense" } else { "" };
        let _ = write!(
            out,
            r#"<g class="series s{i} c{} {}{dense}" data-series="{i}">{}"#,
            entry.color,
            class(entry.mark),
            sample(entry, x, y)
        );
        label(x + SAMPLE + 6.0, y + 4.0, Anchor::Start, name_width_max(frame))
            .write(out, &entry.name);
        out.push_str("</g>\n");
    }
    for (i, &(x, row)) in places[entries.len()..].iter().enumerate() {
        let Some(name) = signs(plot)[i].filter(|_| !x.is_nan()) else { continue };
        let (x, y) = (x + 2.0, top + row as f64 * ROW + 8.0);
        sign(out, [Tone::Warning, Tone::Bad][i], x + SAMPLE / 2.0, y);
        label(x + SAMPLE + 6.0, y + 4.0, Anchor::Start, name_width_max(frame)).write(out, name);
        out.push('\n');
    }
    out.push_str("</g>\n");
}

fn sample(entry: &Entry, x: f64, y: f64) -> String {
    let end = x + SAMPLE;
    let middle = x + SAMPLE / 2.0;
    let line = format!(r#"<path class="l" d="M{} {}h{SAMPLE}"/>"#, px(x), px(y));
    let dot = format!(r#"<path class="p" d="M{} {}h0"/>"#, px(middle), px(y));
    let inside = format!(r#"<path class="inside" d="M{} {}h0"/>"#, px(middle), px(y));
    match entry.mark {
        Mark::Line if entry.has_dots => line + &dot,
        Mark::Line | Mark::Dashed | Mark::Step => line,
        Mark::Dots => dot,
        Mark::Hollow => dot + &inside,
        Mark::Bars | Mark::Stack | Mark::Band => {
            let class = if entry.mark == Mark::Band { "a" } else { "b" };
            format!(
                r#"<path class="{class}" d="M{} {}h14v10h-14z"/>"#,
                px(middle - 7.0),
                px(y - 5.0)
            )
        }
        Mark::Interval | Mark::Better | Mark::Worse | Mark::Undecided => {
            let (left, row) = (px(x + 2.0), px(y));
            let right = px(end - 2.0);
            let mut out =
                format!(r#"<path class="w" d="M{left} {row}H{right}m0-4v8M{left} {row}m0-4v8"/>"#);
            match entry.mark {
                Mark::Interval => out += &dot,
                Mark::Undecided => out += &(dot + &inside),
                mark => triangle(&mut out, mark, Position { x: middle, y }),
            }
            out
        }
    }
}

/// Writes the triangle of an estimate that is better or worse; nothing for other marks.
pub(super) fn triangle(out: &mut String, mark: Mark, at: Position) {
    let (top, sides) = match mark {
        Mark::Better => (at.y - 6.5, "l6.5 11h-13z"),
        Mark::Worse => (at.y + 6.5, "l6.5-11h-13z"),
        _ => return,
    };
    let _ =
        write!(out, r#"<path class="sign {}" d="M{} {}{sides}"/>"#, class(mark), px(at.x), px(top));
}

/// Draws a tone's sign around a position: a triangle for Warning, a cross for Bad, nothing for other tones.
pub(super) fn sign(out: &mut String, tone: Tone, x: f64, y: f64) {
    let _ = match tone {
        Tone::Warning => {
            write!(
                out,
                r#"<path class="sign warning" d="M{} {}l7.5 13h-15z"/>"#,
                px(x),
                px(y - 8.5)
            )
        }
        Tone::Bad => {
            write!(
                out,
                r#"<path class="sign bad" d="M{} {}l10 10m0-10l-10 10"/>"#,
                px(x - 5.0),
                px(y - 5.0)
            )
        }
        _ => Ok(()),
    };
}
