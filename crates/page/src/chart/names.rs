//! Lays out the names of categories at an axis. Line breaks and angle are chosen so that each name is complete, does
//! not touch its neighbours, and stays within the picture.
//!
//! A name that exceeds the maximum number of lines is truncated, with the full name in a `title`. If categories are
//! closer together than the line height, only every N-th has a name.

use std::fmt::Write as _;

use super::path::px;
use super::scale::Ruler;
use super::text::{Anchor, Label, SIZE, broken, escape, is_cut, isolated, label, width, wrap};

/// Line height of axis names, in pixels.
const LINE: f64 = 14.0;
/// Maximum number of lines of a horizontal name below an axis.
const LEVEL_LINES_MAX: usize = 6;
const LINES_MAX: usize = 4;
/// Maximum width of a slanted name, in pixels.
pub(super) const SLANT_WIDTH_MAX: f64 = 190.0;
/// Cosine of the angle of slanted names, 35 degrees.
pub(super) const SLANT_COS: f64 = 0.819;
/// Sine of the angle of slanted names, 35 degrees.
pub(super) const SLANT_SIN: f64 = 0.574;
/// Minimum distance of slanted names along the axis, in pixels, so that they do not touch.
pub(super) const SLANT_STEP: f64 = 24.0;
/// Maximum length of a line of a vertical name, in pixels.
const UPRIGHT_WIDTH_MAX: f64 = 440.0;
const UPRIGHT_WIDTH_STEP: f64 = 40.0;

/// Category names of an axis, laid out in one form.
#[derive(Debug)]
pub(super) struct Names<'a> {
    form: Form,
    /// All names, each with the lines into which it is split.
    all: Vec<(&'a str, Vec<String>)>,
    /// Only every N-th name is written; 1 for all.
    every: usize,
}

/// Position and angle of the names at an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// Horizontal text, left of a vertical axis.
    Beside,
    /// Horizontal text, below a horizontal axis.
    Level,
    /// Slanted text that rises to the right, below a horizontal axis.
    Slanted,
    /// Vertical text that reads upwards, below a horizontal axis.
    Upright,
}

impl<'a> Names<'a> {
    /// Lays out names below a horizontal axis: horizontally if all fit their categories, slanted if all then fit
    /// the picture, otherwise vertically.
    pub(super) fn below(names: &'a [String], x: &Ruler) -> Self {
        let step = x.pixels_per_unit();
        if let Some(all) = (1..=LEVEL_LINES_MAX).find_map(|most| whole(names, step - 6.0, most)) {
            return Self { form: Form::Level, all, every: 1 };
        }
        let fits = |(i, name): (usize, &String)| {
            let room = x.place(i as f64).map_or(0.0, |x| (x - 4.0) / SLANT_COS);
            width(&isolated(name), SIZE) <= room.min(SLANT_WIDTH_MAX)
        };
        if step >= SLANT_STEP && names.iter().enumerate().all(fits) {
            let all = names.iter().map(|name| (name.as_str(), vec![name.clone()])).collect();
            return Self { form: Form::Slanted, all, every: 1 };
        }
        let most = ((step / LINE) as usize).clamp(1, LINES_MAX);
        let widths = (2..).map(|n| f64::from(n) * UPRIGHT_WIDTH_STEP);
        let mut widths = widths.take_while(|width_max| *width_max <= UPRIGHT_WIDTH_MAX);
        let all = widths.find_map(|width_max| whole(names, width_max, most));
        let all = all.unwrap_or_else(|| split(names, UPRIGHT_WIDTH_MAX, most));
        Self { form: Form::Upright, all, every: (LINE / step).ceil().max(1.0) as usize }
    }

    /// Lays out names left of a vertical axis, at most `width_max` wide.
    pub(super) fn beside(names: &'a [String], width_max: f64) -> Self {
        let all = (1..LINES_MAX).find_map(|most| whole(names, width_max, most));
        let all = all.unwrap_or_else(|| split(names, width_max, LINES_MAX));
        Self { form: Form::Beside, all, every: 1 }
    }

    /// Skips names if categories `step` pixels apart leave too little space for all.
    pub(super) fn each(self, step: f64) -> Self {
        let every = (self.line_height() / step.max(0.1)).ceil().max(1.0) as usize;
        Self { every, ..self }
    }

    /// Width of the widest line of any name, in pixels.
    pub(super) fn width(&self) -> f64 {
        let lines = self.all.iter().flat_map(|(_, lines)| lines);
        lines.map(|line| width(&isolated(line), SIZE)).fold(0.0, f64::max)
    }

    /// Height of the name with the most lines, as horizontal text, in pixels.
    pub(super) fn line_height(&self) -> f64 {
        self.all.iter().map(|(_, lines)| lines.len()).max().unwrap_or(1).max(1) as f64 * LINE
    }

    /// Distance from a horizontal axis to the bottom of the names below it, in pixels.
    pub(super) fn depth(&self) -> f64 {
        match self.form {
            Form::Beside => 0.0,
            Form::Level => 6.0 + self.line_height(),
            Form::Slanted => 20.0 + (self.width() * SLANT_SIN).ceil(),
            Form::Upright => 14.0 + self.width().ceil(),
        }
    }

    /// Writes the names along `ruler`, beside or below an axis at `edge`.
    pub(super) fn write(&self, out: &mut String, ruler: &Ruler, edge: f64) {
        for (i, (name, lines)) in self.all.iter().enumerate().step_by(self.every) {
            let Some(place) = ruler.place(i as f64) else { continue };
            self.write_one(out, name, lines, place, edge);
        }
    }

    fn write_one(&self, out: &mut String, name: &str, lines: &[String], at: f64, edge: f64) {
        let is_cut = is_cut(name, lines);
        if is_cut {
            let _ = write!(out, "<g><title>{}</title>", escape(&isolated(name)));
        }
        let middle = at + 4.0 - lines.len().saturating_sub(1) as f64 * LINE / 2.0;
        for (n, line) in lines.iter().enumerate() {
            let down = n as f64 * LINE;
            let ((x, y), anchor, degrees) = match self.form {
                Form::Beside => ((edge, middle + down), Anchor::End, 0),
                Form::Level => ((at, edge + 16.0 + down), Anchor::Middle, 0),
                Form::Slanted => ((at + 4.0, edge + 14.0), Anchor::End, -35),
                Form::Upright => ((middle + down, edge + 8.0), Anchor::End, -90),
            };
            let turn = format!(r#" transform="rotate({degrees} {} {})""#, px(x), px(y));
            let more = if degrees == 0 { "" } else { &turn };
            Label { class: "cat", more, ..label(x, y, anchor, f64::MAX) }.write(out, line);
        }
        if is_cut {
            out.push_str("</g>");
        }
    }
}

/// Splits every name into at most `most` lines, only between words; `None` if one does not fit.
fn whole(names: &[String], width_max: f64, most: usize) -> Option<Vec<(&str, Vec<String>)>> {
    let one = |name: &String| broken(name, SIZE, width_max, most);
    names.iter().map(|name| Some((name.as_str(), one(name)?))).collect()
}

/// Splits every name into at most `most` lines, within words if necessary, and truncates the last line.
fn split(names: &[String], width_max: f64, most: usize) -> Vec<(&str, Vec<String>)> {
    let one = |name: &String| wrap(name, SIZE, width_max, most);
    names.iter().map(|name| (name.as_str(), one(name))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Quantity;
    use crate::chart::scale::Kind;

    /// Corners of each name's bounding box, rotated by the angle of the text.
    fn boxes(names: &Names, ruler: &Ruler) -> Vec<[(f64, f64); 4]> {
        let mut out = String::new();
        names.write(&mut out, ruler, 300.0);
        let document = format!("<g>{out}</g>");
        let document = roxmltree::Document::parse(&document).unwrap();
        let texts = document.descendants().filter(|n| n.has_tag_name("text"));
        texts
            .map(|text| {
                let number = |name: &str| text.attribute(name).unwrap().parse::<f64>().unwrap();
                let (x, y) = (number("x"), number("y"));
                let wide = width(text.text().unwrap_or_default(), SIZE);
                let left = match text.attribute("class").unwrap() {
                    "m cat" => -wide / 2.0,
                    "e cat" => -wide,
                    other => panic!("{other}"),
                };
                let turn = text.attribute("transform").map_or(0.0, |turn| {
                    let degrees = turn.trim_start_matches("rotate(").split(' ').next().unwrap();
                    degrees.parse::<f64>().unwrap().to_radians()
                });
                let (sin, cos) = turn.sin_cos();
                let corners =
                    [(left, -10.0), (left + wide, -10.0), (left + wide, 2.5), (left, 2.5)];
                corners.map(|(a, b)| (x + a * cos - b * sin, y + a * sin + b * cos))
            })
            .collect()
    }

    /// Whether two rotated boxes overlap (separating axis test).
    fn meet(a: &[(f64, f64); 4], b: &[(f64, f64); 4]) -> bool {
        let separates = |corners: &[(f64, f64); 4], i: usize| {
            let side = (corners[i + 1].0 - corners[i].0, corners[i + 1].1 - corners[i].1);
            let ends = |of: &[(f64, f64); 4]| {
                let along = of.map(|(x, y)| x * side.0 + y * side.1);
                (
                    along.iter().copied().fold(f64::MAX, f64::min),
                    along.iter().copied().fold(f64::MIN, f64::max),
                )
            };
            let ((a_low, a_high), (b_low, b_high)) = (ends(a), ends(b));
            a_high <= b_low + 0.1 || b_high <= a_low + 0.1
        };
        ![a, b].into_iter().any(|corners| (0..2).any(|i| separates(corners, i)))
    }

    proptest! {
        #[test]
        fn names_are_whole_apart_and_within_the_picture(
            names in prop::collection::vec("[a-z]{1,9}( [a-zA-Z0-9%.-]{1,12}){0,7}", 1..33),
            left in 30.0_f64..200.0,
            right in 400.0_f64..800.0,
        ) {
            let n = names.len();
            let ruler = |kind, from, to| Ruler {
                kind, quantity: Quantity::Count, low: -0.5, high: n as f64 - 0.5, from, to,
            };
            let kind = Kind::Categories(n);
            let below = ruler(kind, left, right);
            let found = Names::below(&names, &below);
            let shown = boxes(&found, &below);
            let lowest = 300.0 + found.depth();
            // The picture ends 18 px to the right of the axis.
            for (x, y) in shown.iter().flatten() {
                prop_assert!(*x > -0.1 && *x < right + 18.0 && *y < lowest && *y > 300.0, "{x} {y} {found:?}");
            }
            let step = below.pixels_per_unit();
            let is_short = |name: &String| width(name, SIZE) < 400.0 * (step / LINE).floor().clamp(1.0, 4.0);
            for (name, lines) in found.all.iter().filter(|_| names.iter().all(is_short)) {
                prop_assert!(!is_cut(name, lines), "{name}: {lines:?}");
            }
            let beside = Names::beside(&names, 150.0);
            let down = ruler(kind, 0.0, n as f64 * (beside.line_height() + 2.0));
            for shown in [shown, boxes(&beside, &down)] {
                for (i, a) in shown.iter().enumerate() {
                    for b in &shown[i + 1..] {
                        prop_assert!(!meet(a, b), "{a:?} {b:?} {found:?}");
                    }
                }
            }
        }
    }
}
