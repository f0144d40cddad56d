//! Formats compact SVG coordinates and paths. Path commands are relative, and successive equal commands share one
//! letter.
//!
//! Coordinates are whole tenths of a pixel, so that relative steps add up without drift.

use std::fmt::Write as _;

/// Formats a coordinate with at most one decimal: `12`, `12.5`, `-0.5`.
pub(super) fn px(value: f64) -> String {
    let mut out = String::new();
    push_tenths(&mut out, tenths(value));
    out
}

/// Converts a coordinate to tenths of a pixel. NaN becomes 0, but values that are not finite are never drawn.
fn tenths(value: f64) -> i64 {
    (value * 10.0).round() as i64
}

fn push_tenths(out: &mut String, tenths: i64) {
    let sign = if tenths < 0 { "-" } else { "" };
    let (whole, rest) = (tenths.abs() / 10, tenths.abs() % 10);
    let _ = match (whole, rest) {
        (_, 0) => write!(out, "{sign}{whole}"),
        (0, _) => write!(out, "{sign}.{rest}"),
        _ => write!(out, "{sign}{whole}.{rest}"),
    };
}

/// A position in the picture, in pixels from its top left corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Position {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// An SVG path under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    d: String,
    at: (i64, i64),
    start: (i64, i64),
    command: char,
}

impl Path {
    /// Commands of the path, as the value of its `d` attribute.
    pub(super) fn d(&self) -> &str {
        &self.d
    }

    /// Begins a subpath at a position.
    pub(super) fn move_to(&mut self, x: f64, y: f64) {
        let to = (tenths(x), tenths(y));
        if self.d.is_empty() {
            self.d.push('M');
            push_tenths(&mut self.d, to.0);
            self.number(to.1);
        } else {
            self.d.push('m');
            push_tenths(&mut self.d, to.0 - self.at.0);
            self.number(to.1 - self.at.1);
        }
        // Further coordinate pairs after a move are relative lines; after an absolute move they would be absolute
        // lines.
        self.command = 'm';
        self.at = to;
        self.start = to;
    }

    /// Adds a line from the current position, unless it would have no length.
    pub(super) fn line_to(&mut self, x: f64, y: f64) {
        let to = (tenths(x), tenths(y));
        let (dx, dy) = (to.0 - self.at.0, to.1 - self.at.1);
        match (dx, dy) {
            (0, 0) => return,
            (_, 0) => self.step('h', dx, None),
            (0, _) => self.step('v', dy, None),
            _ => self.step('l', dx, Some(dy)),
        }
        self.at = to;
    }

    /// Adds a dot: a subpath of zero length with round caps, which stays round if the picture is stretched.
    pub(super) fn dot(&mut self, x: f64, y: f64) {
        self.move_to(x, y);
        self.d.push_str("h0");
        self.command = 'h';
    }

    /// Adds a line between two positions.
    pub(super) fn segment(&mut self, a: Position, b: Position) {
        self.move_to(a.x, a.y);
        self.line_to(b.x, b.y);
    }

    /// Adds a rectangle between two corners.
    pub(super) fn rect(&mut self, a: Position, b: Position) {
        self.move_to(a.x, a.y);
        self.line_to(b.x, a.y);
        self.line_to(b.x, b.y);
        self.line_to(a.x, b.y);
        self.close();
    }

    pub(super) fn close(&mut self) {
        self.d.push('z');
        self.command = 'z';
        self.at = self.start;
    }

    fn step(&mut self, command: char, first: i64, second: Option<i64>) {
        // Steps along an axis need one number; a run of the same command needs its letter once.
        if self.command == command {
            self.number(first);
        } else {
            self.d.push(command);
            push_tenths(&mut self.d, first);
            self.command = command;
        }
        if let Some(second) = second {
            self.number(second);
        }
    }

    /// Appends a number in tenths, separated from the previous one by a space or by its minus sign.
    fn number(&mut self, tenths: i64) {
        if tenths >= 0 {
            self.d.push(' ');
        }
        push_tenths(&mut self.d, tenths);
    }

    /// Writes `<path class="…" d="…"/>` unless the path is empty.
    pub(super) fn write(&self, out: &mut String, class: &str) {
        if !self.d.is_empty() {
            let _ = write!(out, r#"<path class="{class}" d="{}"/>"#, self.d);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_short_and_do_not_drift() {
        let mut path = Path::default();
        path.move_to(10.04, 20.0);
        path.line_to(10.34, 19.5);
        path.line_to(11.0, 19.0);
        path.line_to(12.0, 19.0);
        path.dot(0.0, 0.0);
        path.rect(Position { x: 1.0, y: 1.0 }, Position { x: 2.0, y: 3.0 });
        assert_eq!(path.d(), "M10 20l.3-.5 .7-.5h1m-12-19h0m1 1h1v2h-1z");
        assert_eq!(px(-0.04), "0");
    }
}
