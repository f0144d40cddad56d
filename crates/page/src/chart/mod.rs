//! Draws figures as SVG, and describes them for the page's script, which zooms them.
//!
//! The picture is complete without a script: axes, legend, labels, a title and a description for screen readers. Two
//! kinds of element have classes for the script:
//!
//! - `<g class="zoom">`, inside a clipped group, contains what the script zooms, with strokes that keep their width.
//! - `<g class="series sN" data-series="N">` contains a series that the script can hide. N is the index of its name in
//!   the legend.
//!
//! Equal figures give equal bytes. Coordinates have at most one decimal.

mod columns;
mod heat;
mod labels;
mod layout;
mod legend;
mod marks;
mod matrix;
mod names;
mod path;
mod plot;
mod scale;
pub(crate) mod scales;
mod steps;
mod style;
mod text;
mod ticks;

use std::fmt::Write as _;

use crate::figure::Span;
use crate::{Figure, Shape, Tone};

use path::px;
use text::{Anchor, Label, SMALL, escape, isolated, label, wrap};

pub use scales::{scales, scales_in};
pub use style::style;

/// Intended use of a picture, which determines the picture's size, and whether title and notes are included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// The picture is part of a page that includes the CSS of [`style`], and that shows title, conditions and notes
    /// itself.
    #[default]
    Embedded,
    /// Like `Embedded`, but half as wide, for figures shown side by side.
    Small,
    /// A stand-alone SVG file with colours, title, conditions and notes.
    Alone,
}

/// Size and id of a picture.
#[derive(Debug)]
struct Frame {
    /// Id of the figure, with characters invalid in an attribute replaced; prefix of every `id` in the picture.
    id: String,
    width: f64,
    is_small: bool,
}

impl Frame {
    fn new(figure: &Figure, look: Look) -> Self {
        let mut id: String = figure
            .id
            .chars()
            .take(80)
            .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' })
            .collect();
        if !id.starts_with(|c: char| c.is_ascii_alphabetic()) {
            id.insert_str(0, "figure-");
        }
        let is_small = look == Look::Small;
        Self { id, width: if is_small { 420.0 } else { 820.0 }, is_small }
    }
}

/// Margin around a stand-alone picture, in pixels.
const PAD: f64 = 18.0;

/// Draws a figure as an SVG element. With [`Look::Alone`] it includes title, conditions and notes.
pub fn svg(figure: &Figure, look: Look) -> String {
    let frame = Frame::new(figure, look);
    let is_alone = look == Look::Alone;
    let mut body = String::new();
    let top = if is_alone { head(&mut body, figure, &frame) } else { 4.0 };
    let mut bottom = match &figure.shape {
        Shape::Plot(plot) => plot::write(&mut body, plot, &frame, top),
        Shape::Matrix(matrix) => matrix::write(&mut body, matrix, &frame, top),
        Shape::Columns(matrix) => columns::write(&mut body, matrix, &frame, top),
    };
    if is_alone {
        bottom = notes(&mut body, figure, &frame, bottom);
    }

    let pad = if is_alone { PAD } else { 0.0 };
    let (wide, high) = (frame.width + 2.0 * pad, bottom.ceil() + 2.0 * pad);
    let mut out = String::with_capacity(body.len() + 8192);
    let _ = write!(
        out,
        r#"<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="{0} {0} {1} {2}""#,
        px(-pad),
        px(wide),
        px(high)
    );
    if is_alone {
        let _ = write!(out, r#" width="{}" height="{}""#, px(wide), px(high));
    }
    let id = &frame.id;
    let _ = writeln!(
        out,
        r#" role="img" aria-labelledby="{id}-t {id}-d"><title id="{id}-t">{}</title><desc id="{id}-d">{}</desc>"#,
        escape(&isolated(&figure.title)),
        escape(&isolated(&figure.summary))
    );
    if is_alone {
        let _ = writeln!(
            out,
            r#"<style>{}</style><rect class="ground" x="{2}" y="{2}" width="{1}" height="{3}"/>"#,
            style::alone(),
            px(wide),
            px(-pad),
            px(high)
        );
    }
    out.push_str(&body);
    out.push_str("</svg>\n");
    out
}

/// Writes title and conditions above a picture. Returns the height at which the drawing begins.
fn head(out: &mut String, figure: &Figure, frame: &Frame) -> f64 {
    // The title is larger and bolder than the width estimate assumes.
    let mut y = 0.0;
    for line in wrap(&figure.title, 17.0, frame.width, 2) {
        y += 18.0;
        Label { class: "title", size: 17.0, ..label(0.0, y - 3.0, Anchor::Start, frame.width) }
            .write(out, &line);
        out.push('\n');
    }
    y += 3.0;
    small_lines(out, &figure.conditions, frame, &mut y, 3);
    y + 12.0
}

/// Writes the notes below a picture. Returns the bottom of the last one.
fn notes(out: &mut String, figure: &Figure, frame: &Frame, top: f64) -> f64 {
    let mut y = top + if figure.notes.is_empty() { 0.0 } else { 6.0 };
    for note in figure.notes.iter().take(12) {
        small_lines(out, note, frame, &mut y, 4);
    }
    y
}

fn small_lines(out: &mut String, text: &str, frame: &Frame, y: &mut f64, lines: usize) {
    for line in wrap(text, SMALL, frame.width, lines) {
        *y += 15.0;
        Label { class: "small", size: SMALL, ..label(0.0, *y - 3.0, Anchor::Start, frame.width) }
            .write(out, &line);
        out.push('\n');
    }
}

/// Sign before a name. It shows the tone without colour.
fn sign_before(tone: Tone) -> &'static str {
    match tone {
        Tone::Warning => "△ ",
        Tone::Bad => "✕ ",
        _ => "",
    }
}

/// Name of a span, preceded by the sign of its tone.
fn span_name(span: &Span) -> String {
    format!("{}{}", sign_before(span.tone), isolated(&span.name))
}
