//! Draws 3D column charts in isometric projection, like the matrices in SNIA's result pages.
//!
//! The column axis points right and down, the row axis left and down, and the value axis up. Columns begin at 0 and
//! are drawn from back to front, so that nearer ones hide farther ones. Axes are reversed if necessary to put larger
//! columns at the back.

use std::fmt::Write as _;

use crate::{Matrix, Quantity};

use super::labels::Taken;
use super::path::{Path, Position};
use super::scale::{Kind, Ruler};
use super::text::{Anchor, Label, SIZE, SMALL, isolated, label, width};
use super::{Frame, legend, steps, ticks};

/// Height of the value axis, in pixels.
const HEIGHT: f64 = 210.0;
/// Width of a column, as a fraction of the side of its cell.
const THICK: f64 = 0.62;

/// Screen position and orientation of the base plane of a 3D column chart.
struct Plane {
    /// Screen position of the plane's corner farthest from the viewer.
    origin: Position,
    /// Half width and half height of a cell on the screen, in pixels.
    half: (f64, f64),
    columns: usize,
    rows: usize,
    /// Whether the order of the column axis, and of the row axis, is reversed.
    turned: (bool, bool),
    value: Ruler,
}

impl Plane {
    /// Converts a position on the plane, in cells from the farthest corner, and a height `up` in pixels to a
    /// screen position.
    fn at(&self, column: f64, row: f64, up: f64) -> Position {
        Position {
            x: self.origin.x + (column - row) * self.half.0,
            y: self.origin.y + (column + row) * self.half.1 - up,
        }
    }

    /// Matrix indices (column, row) of the cell `column` and `row` steps from the farthest corner.
    fn index(&self, column: usize, row: usize) -> (usize, usize) {
        let column = if self.turned.0 { self.columns - 1 - column } else { column };
        let row = if self.turned.1 { self.rows - 1 - row } else { row };
        (column, row)
    }

    /// Height of a value's column, in pixels; 0 if the value has no position on the axis.
    fn up(&self, value: f64) -> f64 {
        self.value.place_within(value).unwrap_or(0.0)
    }
}

/// Value of the matrix at a column and row; None if missing or not finite.
fn value(matrix: &Matrix, column: usize, row: usize) -> Option<f64> {
    matrix.values.get(row)?.get(column).copied().flatten().filter(|v| v.is_finite())
}

/// Draws a matrix as a 3D column chart below `top`. Returns the chart's bottom.
pub(super) fn write(out: &mut String, matrix: &Matrix, frame: &Frame, top: f64) -> f64 {
    let (columns, rows) = (matrix.columns.len(), matrix.rows.len());
    let most = matrix.values.iter().flatten().flatten().copied().filter(|v| v.is_finite());
    let most = most.fold(f64::NEG_INFINITY, f64::max);
    if columns == 0 || rows == 0 || most == f64::NEG_INFINITY {
        out.push_str("<g class=\"panel\" data-panel=\"0\"><g class=\"labels\">");
        Label { class: "none", ..label(frame.width / 2.0, top + 60.0, Anchor::Middle, 200.0) }
            .write(out, "no data");
        out.push_str("</g></g>\n");
        return top + 110.0;
    }
    let height = if frame.is_small { HEIGHT * 0.6 } else { HEIGHT };
    let plane = lay(matrix, frame, top, most, height);
    let cells = (columns + rows) as f64;
    let bottom = plane.origin.y + cells * plane.half.1 + 64.0;

    out.push_str("<g class=\"panel\" data-panel=\"0\">\n");
    walls(out, matrix, &plane, height);
    names(out, matrix, &plane, frame);
    out.push_str("<g class=\"marks\"><g class=\"zoom\">\n");
    let mut order: Vec<(usize, usize)> =
        (0..rows).flat_map(|row| (0..columns).map(move |column| (column, row))).collect();
    order.sort_by_key(|&(column, row)| (column + row, column));
    let mut tops = Vec::new();
    for &(column, row) in &order {
        let (i, j) = plane.index(column, row);
        if let Some(value) = value(matrix, i, j) {
            let top = column_at(out, &plane, column, row, value, j);
            tops.push((top, plane.up(value), value));
        }
    }
    out.push_str("</g></g>\n<g class=\"labels\">\n");
    let mut taken = Taken::new([0.0, top, frame.width, bottom]);
    // Front columns first, since nothing hides them.
    for (i, &(Position { x, y }, _, value)) in tops.iter().enumerate().rev() {
        // A hidden column has no label, since the label would seem to belong to the nearer column.
        let hides = |&(top, up, _): &(Position, f64, f64)| {
            (x - top.x).abs() < plane.half.0 * THICK && y > top.y - 2.0 && y < top.y + up
        };
        let is_crowded = plane.half.0 < 20.0 && value < most;
        if is_crowded || tops[i + 1..].iter().any(hides) {
            continue;
        }
        let words = matrix.quantity.words(value);
        let wide = width(&words, SMALL) + 2.0;
        let offered = [[x - wide / 2.0, y - 15.0, x + wide / 2.0, y - 3.0]];
        if taken.choose(&offered).is_some() {
            Label { class: "value", size: SMALL, ..label(x, y - 5.0, Anchor::Middle, 200.0) }
                .write(out, &words);
            out.push('\n');
        }
    }
    out.push_str("</g></g>\n");
    bottom
}

fn lay(matrix: &Matrix, frame: &Frame, top: f64, most: f64, height: f64) -> Plane {
    let (columns, rows) = (matrix.columns.len(), matrix.rows.len());
    // The names of axes, columns and rows are left and right of the plane.
    let widest = widest(&matrix.columns).max(widest(&matrix.rows)).min(frame.width * 0.3);
    let beside = (widest + 14.0).max(if frame.is_small { 90.0 } else { 120.0 });
    let width_max = frame.width - 2.0 * beside;
    let half = (width_max / (columns + rows) as f64).min(34.0);
    let half = (half, half / 1.9);
    let mean = |along: &dyn Fn(usize, usize) -> bool| {
        let (mut sum, mut n) = (0.0, 0.0);
        for row in 0..rows {
            for column in 0..columns {
                if let (true, Some(v)) = (along(column, row), value(matrix, column, row)) {
                    (sum, n) = (sum + v / most.abs().max(1e-300), n + 1.0);
                }
            }
        }
        if n > 0.0 { sum / n } else { 0.0 }
    };
    let turned = (
        mean(&|column, _| column == columns - 1) > mean(&|column, _| column == 0),
        mean(&|_, row| row == rows - 1) > mean(&|_, row| row == 0),
    );
    let most = most.max(0.0);
    let high = if most > 0.0 {
        let step = steps::linear_step(matrix.quantity, most, 4.0);
        let rounded = (most / step - 1e-9).ceil() * step;
        if rounded.is_finite() { rounded } else { most }
    } else {
        1.0
    };
    let value = Ruler {
        kind: Kind::Linear,
        quantity: matrix.quantity,
        low: 0.0,
        high,
        from: 0.0,
        to: height,
    };
    let left = (frame.width - (columns + rows) as f64 * half.0) / 2.0;
    let origin = Position { x: left + rows as f64 * half.0, y: top + height + 34.0 };
    Plane { origin, half, columns, rows, turned, value }
}

/// Draws the base plane with its grid, and two walls at the back with the ticks of the value axis.
fn walls(out: &mut String, matrix: &Matrix, plane: &Plane, height: f64) {
    let (columns, rows) = (plane.columns as f64, plane.rows as f64);
    out.push_str("<g class=\"axis y\">");
    let mut grid = Path::default();
    for i in 0..=plane.columns {
        grid.segment(plane.at(i as f64, 0.0, 0.0), plane.at(i as f64, rows, 0.0));
    }
    for j in 0..=plane.rows {
        grid.segment(plane.at(0.0, j as f64, 0.0), plane.at(columns, j as f64, 0.0));
    }
    for (column, row) in [(0.0, rows), (0.0, 0.0), (columns, 0.0)] {
        grid.segment(plane.at(column, row, 0.0), plane.at(column, row, height));
    }
    grid.write(out, "minor");
    for tick in ticks::ticks(&plane.value, false).iter().filter(|t| !t.label.is_empty()) {
        let up = plane.up(tick.value);
        let mut path = Path::default();
        let Position { x, y } = plane.at(0.0, rows, up);
        path.move_to(x, y);
        for column in [0.0, columns] {
            let corner = plane.at(column, 0.0, up);
            path.line_to(corner.x, corner.y);
        }
        let _ = write!(out, r#"<g class="tick"><path d="{}"/>"#, path.d());
        label(x - 6.0, y + 4.0, Anchor::End, 100.0).write(out, &tick.label);
        out.push_str("</g>");
    }
    let Position { x, y } = plane.at(0.0, rows, height);
    let unit = if matrix.quantity == Quantity::Iops { "IOPS" } else { "" };
    if !unit.is_empty() {
        Label { class: "name", ..label(x - 6.0, y - 12.0, Anchor::End, 100.0) }.write(out, unit);
    }
    out.push_str("</g>\n");
}

/// Width of the widest name, in pixels.
fn widest(names: &[String]) -> f64 {
    names.iter().map(|name| width(&isolated(name), SIZE)).fold(0.0, f64::max)
}

/// Writes the column names along the right front edge, and the row names along the left one.
fn names(out: &mut String, matrix: &Matrix, plane: &Plane, frame: &Frame) {
    let (columns, rows) = (plane.columns as f64, plane.rows as f64);
    // Every N-th name is written, so that names don't touch.
    let every = (13.0 / plane.half.1).ceil().max(1.0) as usize;
    out.push_str("<g class=\"axis x\">");
    for column in (0..plane.columns).step_by(every) {
        let Position { x, y } = plane.at(column as f64 + 0.5, rows, 0.0);
        let name = &matrix.columns[plane.index(column, 0).0];
        let cat = label(x - 5.0, y + 14.0, Anchor::End, (x - 7.0).max(20.0));
        Label { class: "cat", ..cat }.write(out, name);
    }
    for row in (0..plane.rows).step_by(every) {
        let Position { x, y } = plane.at(columns, row as f64 + 0.5, 0.0);
        let name = &matrix.rows[plane.index(0, row).1];
        let width_max = (frame.width - x - 7.0).max(20.0);
        Label { class: "cat", ..label(x + 5.0, y + 14.0, Anchor::Start, width_max) }
            .write(out, name);
    }
    // Names of the axes are below the middle of their edges.
    let name = |x, y, anchor| Label { class: "name", ..label(x, y, anchor, frame.width / 2.0) };
    let Position { x, y } = plane.at(columns / 2.0, rows, 0.0);
    let own = width(&isolated(&matrix.columns_label), SIZE);
    let x = (x - widest(&matrix.columns) - 14.0).max(own);
    name(x, y + 40.0, Anchor::End).write(out, &matrix.columns_label);
    let Position { x, y } = plane.at(columns, rows / 2.0, 0.0);
    let own = width(&isolated(&matrix.rows_label), SIZE);
    let x = (x + widest(&matrix.rows) + 14.0).min(frame.width - own);
    name(x, y + 40.0, Anchor::Start).write(out, &matrix.rows_label);
    out.push_str("</g>\n");
}

/// Draws one column. Returns the centre of its top.
fn column_at(
    out: &mut String,
    plane: &Plane,
    column: usize,
    row: usize,
    value: f64,
    color: usize,
) -> Position {
    let rim = (1.0 - THICK) / 2.0;
    // Near and far ends of the foot along both axes.
    let (far_x, near_x) = (column as f64 + rim, column as f64 + 1.0 - rim);
    let (far_y, near_y) = (row as f64 + rim, row as f64 + 1.0 - rim);
    let up = plane.up(value);
    let face = |corners: [(f64, f64, f64); 4]| {
        let mut path = Path::default();
        for (i, (x, y, up)) in corners.into_iter().enumerate() {
            let Position { x, y } = plane.at(x, y, up);
            if i == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
        }
        path.close();
        path.d().to_owned()
    };
    let edge = |x, y| [(x, y, 0.0), (x, y, up)];
    let side = |a: [(f64, f64, f64); 2], b: [(f64, f64, f64); 2]| face([a[0], b[0], b[1], a[1]]);
    let left = side(edge(far_x, near_y), edge(near_x, near_y));
    let right = side(edge(near_x, near_y), edge(near_x, far_y));
    let roof =
        face([(far_x, far_y, up), (near_x, far_y, up), (near_x, near_y, up), (far_x, near_y, up)]);
    let _ = writeln!(
        out,
        r#"<g class="c{}"><path class="face" d="{left}{right}{roof}"/><path class="shade" d="{left}"/><path class="shade deep" d="{right}"/></g>"#,
        color % legend::COLORS
    );
    plane.at(column as f64 + 0.5, row as f64 + 0.5, up)
}
