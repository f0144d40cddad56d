//! Draws a matrix: a table whose cells are coloured by their values and contain the values as text.

use std::fmt::Write as _;

use crate::{Matrix, Quantity};

use super::Frame;
use super::heat::LEVELS;
use super::names::{Names, SLANT_COS, SLANT_SIN, SLANT_STEP, SLANT_WIDTH_MAX};
use super::path::{Position, px};
use super::scale::{Kind, Ruler};
use super::text::{Anchor, Label, SIZE, SMALL, escape, isolated, label, width};

const KEY_HEIGHT: f64 = 30.0;

/// Position and size of a matrix's cells, in pixels.
#[derive(Debug)]
pub(super) struct Grid {
    /// Left edge of the leftmost cells.
    pub(super) x: f64,
    /// Top edge of the topmost cells.
    pub(super) y: f64,
    cell_width: f64,
    cell_height: f64,
    columns: usize,
    rows: usize,
    is_slanted: bool,
    top: f64,
}

impl Grid {
    /// Computes the cell positions of a matrix that begins at height `top`.
    pub(super) fn new(matrix: &Matrix, frame: &Frame, top: f64) -> Self {
        let (columns, rows) = (matrix.columns.len(), matrix.rows.len());
        let widest =
            |names: &[String]| names.iter().map(|n| width(&isolated(n), SIZE)).fold(0.0, f64::max);
        let rows_names = row_names(matrix, frame);
        let label = width(&isolated(&matrix.rows_label), SIZE).min(frame.width * 0.3);
        let left = (rows_names.width().max(label) + 14.0).max(40.0).round();
        // Limit the width, since very wide cells no longer look like cells.
        let cell = |right: f64| {
            ((frame.width - left - right) / columns.max(1) as f64).clamp(4.0, 130.0).floor()
        };
        let cell_height = if rows > 24 { 20.0_f64 } else { 30.0 };
        let cell_height = cell_height.max(rows_names.line_height() + 4.0);
        let is_slanted = widest(&matrix.columns) > cell(10.0) - 4.0;
        // The last slanted name extends to the right.
        let cell_width = cell(if is_slanted {
            widest(&matrix.columns).min(SLANT_WIDTH_MAX) * SLANT_COS
        } else {
            10.0
        });
        let names = if is_slanted {
            widest(&matrix.columns).min(SLANT_WIDTH_MAX) * SLANT_SIN + 14.0
        } else {
            18.0
        };
        let y = top + KEY_HEIGHT + 20.0 + names;
        Self { x: left, y: y.round(), cell_width, cell_height, columns, rows, is_slanted, top }
    }

    /// Total width of all columns, in pixels.
    pub(super) fn width(&self) -> f64 {
        self.cell_width * self.columns as f64
    }

    /// Total height of all rows, in pixels.
    pub(super) fn height(&self) -> f64 {
        self.cell_height * self.rows as f64
    }
}

/// Colour scale of a matrix: maps values to colours, linearly or by logarithm.
struct Ramp {
    least: f64,
    most: f64,
    is_log: bool,
}

impl Ramp {
    /// Creates a colour scale from the values of a matrix and its fixed range; `None` if there are no values.
    fn new(matrix: &Matrix) -> Option<Self> {
        let values = || matrix.values.iter().flatten().flatten().copied().filter(|v| v.is_finite());
        let least = values().reduce(f64::min)?;
        let most = values().reduce(f64::max)?;
        let (least, most) = match matrix.range {
            Some((low, high)) if low.is_finite() && high.is_finite() => {
                (least.min(low), most.max(high))
            }
            _ => (least, most),
        };
        Some(Self { least, most, is_log: least > 0.0 && most / least > 8.0 })
    }

    fn level(&self, value: f64) -> usize {
        let place = |v: f64| if self.is_log { v.ln() } else { v };
        let all = place(self.most) - place(self.least);
        let share = if all > 0.0 { (place(value) - place(self.least)) / all } else { 1.0 };
        ((share * LEVELS as f64) as usize).min(LEVELS - 1)
    }
}

/// Layout of the values' text in the cells of a matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Writing {
    /// Number and unit on one line, in this font size.
    Line(f64),
    /// Number and unit on two lines.
    TwoLines,
    /// No text, because the cells are too narrow; values are shown only as tooltips.
    None,
}

impl Writing {
    fn new(matrix: &Matrix, cell_width: f64, cell_height: f64) -> Self {
        let values = || matrix.values.iter().flatten().flatten();
        let words = || values().map(|&v| matrix.quantity.words(v));
        let widest = words().map(|w| width(&w, 1.0)).fold(0.0, f64::max);
        let lines = |w: String| w.split(' ').map(|part| width(part, SMALL)).fold(0.0, f64::max);
        if widest * SIZE <= cell_width - 4.0 {
            Self::Line(SIZE)
        } else if widest * SMALL <= cell_width - 2.0 {
            Self::Line(SMALL)
        } else if cell_height >= 28.0 && words().map(lines).fold(0.0, f64::max) <= cell_width - 2.0
        {
            Self::TwoLines
        } else {
            Self::None
        }
    }

    /// Additional CSS class of a cell's text.
    fn class(self) -> &'static str {
        if self == Self::Line(SIZE) { "" } else { " tight" }
    }

    /// Writes the text `words` at the centre of a cell.
    fn write(self, out: &mut String, middle: Position, words: &str) {
        let Position { x, y } = middle;
        // The style sheet centres the text of cells.
        let line = |out: &mut String, size, y, words: &str| {
            Label { size, ..label(x, y, Anchor::Start, 200.0) }.write(out, words);
        };
        match (self, words.split_once(' ')) {
            (Self::Line(size), _) => line(out, size, y + 4.0, words),
            (Self::TwoLines, Some((number, unit))) => {
                line(out, SMALL, y - 1.5, number);
                line(out, SMALL, y + 10.5, unit);
            }
            (Self::TwoLines, None) => line(out, SMALL, y + 4.0, words),
            (Self::None, _) => {}
        }
    }
}

/// Draws a matrix below `top`. Returns the matrix's bottom.
pub(super) fn write(out: &mut String, matrix: &Matrix, frame: &Frame, top: f64) -> f64 {
    let at = Grid::new(matrix, frame, top);
    let ramp = Ramp::new(matrix);
    let writing = Writing::new(matrix, at.cell_width, at.cell_height);
    if let Some(ramp) = &ramp {
        key(out, matrix, ramp, at.top);
    }
    let (right, bottom) = (at.x + at.width(), at.y + at.height());
    let _ = writeln!(
        out,
        r#"<g class="panel" data-panel="0"><clipPath id="{0}-p0"><rect x="{1}" y="{2}" width="{3}" height="{4}"/></clipPath>"#,
        frame.id,
        px(at.x),
        px(at.y),
        px(at.width()),
        px(at.height())
    );
    names(out, matrix, &at, frame);
    let _ = writeln!(out, r#"<g class="marks" clip-path="url(#{}-p0)"><g class="zoom">"#, frame.id);
    for row in 0..at.rows {
        for column in 0..at.columns {
            cell(out, matrix, &at, ramp.as_ref(), &writing, row, column);
        }
    }
    out.push_str("</g></g>\n<g class=\"labels\">");
    if ramp.is_none() {
        let (x, y) =
            (f64::midpoint(at.x, right.max(at.x + 200.0)), f64::midpoint(at.y, bottom) + 5.0);
        Label { class: "none", ..label(x, y, Anchor::Middle, 200.0) }.write(out, "no data");
    }
    out.push_str("</g></g>\n");
    bottom.max(at.y + 20.0) + 8.0
}

fn key(out: &mut String, matrix: &Matrix, ramp: &Ramp, top: f64) {
    const SWATCH: f64 = 26.0;
    out.push_str("<g class=\"key\">");
    let small =
        |x, anchor| Label { class: "small", size: SMALL, ..label(x, top + 12.0, anchor, 200.0) };
    let least = matrix.quantity.words(ramp.least);
    small(2.0, Anchor::Start).write(out, &least);
    let mut x = 2.0 + width(&least, SMALL) + 8.0;
    for level in 0..LEVELS {
        let _ = write!(
            out,
            r#"<rect class="h{level}" x="{}" y="{}" width="{SWATCH}" height="12"/>"#,
            px(x),
            px(top + 2.0)
        );
        x += SWATCH;
    }
    let how = if ramp.is_log { " (log)" } else { "" };
    small(x + 8.0, Anchor::Start).write(out, &format!("{}{how}", matrix.quantity.words(ramp.most)));
    out.push_str("</g>\n");
}

/// Lays out the row names left of a matrix.
fn row_names<'a>(matrix: &'a Matrix, frame: &Frame) -> Names<'a> {
    Names::beside(&matrix.rows, frame.width * 0.3)
}

fn names(out: &mut String, matrix: &Matrix, at: &Grid, frame: &Frame) {
    out.push_str("<g class=\"axis x\">");
    let head = at.top + KEY_HEIGHT + 8.0;
    let wide = width(&isolated(&matrix.columns_label), SIZE).min(frame.width - 4.0);
    let x = at.x.min(frame.width - wide - 2.0);
    Label { class: "name", ..label(x, head, Anchor::Start, wide + 0.1) }
        .write(out, &matrix.columns_label);
    // Step between slanted names at which they don't touch.
    let every =
        if at.is_slanted { (SLANT_STEP / at.cell_width).ceil().max(1.0) as usize } else { 1 };
    for (i, column) in matrix.columns.iter().enumerate().step_by(every) {
        let x = at.x + (i as f64 + 0.5) * at.cell_width;
        if at.is_slanted {
            let y = at.y - 6.0;
            let turn = format!(r#" transform="rotate(-35 {} {})""#, px(x), px(y));
            Label { class: "cat", more: &turn, ..label(x, y, Anchor::Start, SLANT_WIDTH_MAX) }
                .write(out, column);
        } else {
            Label { class: "cat", ..label(x, at.y - 6.0, Anchor::Middle, at.cell_width) }
                .write(out, column);
        }
    }
    out.push_str("</g>\n<g class=\"axis y\">");
    Label { class: "name", ..label(2.0, at.y - 6.0, Anchor::Start, at.x - 4.0) }
        .write(out, &matrix.rows_label);
    let rows = Ruler {
        kind: Kind::Categories(at.rows),
        quantity: Quantity::Count,
        low: -0.5,
        high: at.rows as f64 - 0.5,
        from: at.y,
        to: at.y + at.height(),
    };
    row_names(matrix, frame).write(out, &rows, at.x - 7.0);
    out.push_str("</g>\n");
}

fn cell(
    out: &mut String,
    matrix: &Matrix,
    at: &Grid,
    ramp: Option<&Ramp>,
    writing: &Writing,
    row: usize,
    column: usize,
) {
    let value = matrix.values.get(row).and_then(|r| r.get(column)).copied().flatten();
    let value = value.filter(|v| v.is_finite()).zip(ramp);
    let (x, y) = (at.x + column as f64 * at.cell_width, at.y + row as f64 * at.cell_height);
    let words = value.map_or_else(|| "–".to_owned(), |(v, _)| matrix.quantity.words(v));
    let level = value.map_or_else(|| "empty".to_owned(), |(v, ramp)| format!("h{}", ramp.level(v)));
    // The group's `fill` is the background, its `color` the colour of text on it.
    let size = writing.class();
    let _ = write!(
        out,
        r#"<g class="cell {level}{size}"><rect x="{}" y="{}" width="{}" height="{}"/>"#,
        px(x + 0.5),
        px(y + 0.5),
        px(at.cell_width - 1.0),
        px(at.cell_height - 1.0)
    );
    let middle = Position { x: x + at.cell_width / 2.0, y: y + at.cell_height / 2.0 };
    writing.write(out, middle, &words);
    let note = matrix.notes.get(row).and_then(|r| r.get(column)).map_or("", String::as_str);
    if !note.is_empty() || *writing == Writing::None {
        let gap = if note.is_empty() { "" } else { ", " };
        let _ = write!(out, "<title>{}{gap}{}</title>", escape(&words), escape(&isolated(note)));
    }
    out.push_str("</g>\n");
}
