//! Draws heat maps of counts, coloured by the logarithm of the count.
//!
//! Linear shading would hide rare I/Os, which matter most in storage; shading by rank would show counts that hardly
//! differ in opposite colours. So each colour covers an equal factor, and the colour key has the counts at the edges
//! between colours. All cells of one colour form one SVG path.

use std::fmt::Write as _;

use iodyno_units::human;

use crate::figure::HeatMap;

use super::layout::{Area, Layout};
use super::path::{Path, Position, px};
use super::text::{Anchor, Label, SMALL, clean, label, width};

/// Number of colours in the colour scale.
pub(super) const LEVELS: usize = 8;
/// Minimum factor that a colour covers, so that counts that hardly differ have one colour or two neighbouring ones.
const FACTOR_MIN: f64 = std::f64::consts::SQRT_2;
/// Minimum width of a column or row, in pixels; narrower ones are merged with their neighbours.
const LEAST: f64 = 2.0;

/// A heat map prepared for drawing, with columns and rows merged where they would be too narrow.
#[derive(Debug)]
pub(super) struct Field {
    x_edges: Vec<f64>,
    y_edges: Vec<f64>,
    counts: Vec<Vec<u64>>,
}

impl Field {
    pub(super) fn new(heat: &HeatMap, layout: &Layout, panel: &Area) -> Self {
        let columns = heat.counts.len().min(heat.x_edges.len().saturating_sub(1));
        let rows = heat.y_edges.len().saturating_sub(1);
        let together =
            |cells: usize, pixels: f64| ((cells as f64 * LEAST / pixels).ceil() as usize).max(1);
        let (by_x, by_y) =
            (together(columns, layout.x.to - layout.x.from), together(rows, panel.height));
        let mut counts = vec![vec![0_u64; rows.div_ceil(by_y)]; columns.div_ceil(by_x)];
        for (i, column) in heat.counts.iter().take(columns).enumerate() {
            for (j, &count) in column.iter().take(rows).enumerate() {
                let cell = &mut counts[i / by_x][j / by_y];
                *cell = cell.saturating_add(count);
            }
        }
        Self {
            x_edges: every(&heat.x_edges[..heat.x_edges.len().min(columns + 1)], by_x),
            y_edges: every(&heat.y_edges, by_y),
            counts,
        }
    }

    /// True if all counts are 0.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.iter().flatten().all(|&n| n == 0)
    }

    /// Draws the cells of the map, as one SVG path per colour.
    pub(super) fn write(&self, out: &mut String, levels: &Levels, layout: &Layout, panel: &Area) {
        let mut paths = vec![Path::default(); LEVELS];
        // Counts change least along the horizontal axis, so runs of one colour are merged there.
        let foot = panel.y + panel.height;
        for (row, edges) in self.y_edges.windows(2).enumerate() {
            // The first row may begin at 0, which has no position on a logarithmic axis.
            let low = panel.ruler.place_within(edges[0]).unwrap_or(foot);
            let Some(high) = panel.ruler.place_within(edges[1]).filter(|&y| y < low) else {
                continue;
            };
            let level = |column: usize| levels.level(self.counts[column][row]);
            let mut column = 0;
            while column < self.counts.len() {
                let first = column;
                let of_first = level(first);
                while column < self.counts.len() && level(column) == of_first {
                    column += 1;
                }
                let left = layout.x.place_within(self.x_edges[first]);
                let ends = left.zip(layout.x.place_within(self.x_edges[column]));
                if let (Some(level), Some((left, right))) = (of_first, ends.filter(|(a, b)| a < b))
                {
                    let (top, foot) =
                        (Position { x: left, y: high }, Position { x: right, y: low });
                    paths[level].rect(top, foot);
                }
            }
        }
        out.push_str("<g class=\"heat\">");
        for (i, path) in paths.iter().enumerate() {
            path.write(out, &format!("h{i}"));
        }
        out.push_str("</g>\n");
    }
}

/// Keeps every `step`-th edge, and the last one.
fn every(edges: &[f64], step: usize) -> Vec<f64> {
    let mut out: Vec<f64> = edges.iter().copied().step_by(step).collect();
    if let (Some(last), true) = (edges.last(), edges.len() % step != 1 && step > 1) {
        out.push(*last);
    }
    out
}

/// Mapping of counts to colours: equal factors, from the highest count of the figure down to the lowest.
#[derive(Debug)]
pub(super) struct Levels {
    /// Lowest and highest count of all cells in the figure, except 0.
    ends: Option<(u64, u64)>,
    /// Logarithm of the factor that each colour covers.
    step: f64,
}

impl Levels {
    /// Creates a common mapping for all panels of a figure.
    pub(super) fn new<'a>(fields: impl Iterator<Item = &'a Field>) -> Self {
        let counts = fields.flat_map(|f| f.counts.iter().flatten().copied()).filter(|&n| n > 0);
        let ends = counts.fold(None, |ends: Option<(u64, u64)>, n| {
            Some(ends.map_or((n, n), |(least, most)| (least.min(n), most.max(n))))
        });
        let whole = ends.map_or(0.0, |(least, most)| (most as f64 / least as f64).ln());
        Self { ends, step: (whole / LEVELS as f64).max(FACTOR_MIN.ln()) }
    }

    /// Index of the colour of a count; `None` for 0.
    fn level(&self, count: u64) -> Option<usize> {
        let (_, most) = self.ends.filter(|_| count > 0)?;
        let below = ((most as f64 / count as f64).ln() / self.step).max(0.0);
        Some(LEVELS - 1 - (below as usize).min(LEVELS - 1))
    }

    /// Colours that a count can have, each with its lowest count.
    fn lowest(&self) -> Vec<(usize, u64)> {
        let Some((least, most)) = self.ends else { return Vec::new() };
        let from = |level: usize| {
            let reaches = |n: u64| self.level(n) >= Some(level);
            let (mut below, mut found) = (least - 1, most);
            while found - below > 1 {
                let middle = below + (found - below) / 2;
                if reaches(middle) { found = middle } else { below = middle }
            }
            found
        };
        let all = (0..LEVELS).map(|level| (level, from(level)));
        all.filter(|&(level, n)| self.level(n) == Some(level)).collect()
    }

    /// Draws the colour key: the colours, with a count at each edge between two. `of` is the unit of the counts.
    pub(super) fn write_key(&self, out: &mut String, of: &str, top: f64, frame_width: f64) {
        const SWATCH: f64 = 46.0;
        out.push_str("<g class=\"key\">");
        let small = |x: f64, y: f64, anchor, width_max| Label {
            class: "small",
            size: SMALL,
            ..label(x, y, anchor, width_max)
        };
        let words = format!("{} per cell, by colour:", clean(of));
        let rest = frame_width - 32.0 - width(&words, SMALL).min(frame_width / 2.0);
        let swatch = SWATCH.min(rest / LEVELS as f64);
        let width_max = frame_width - 31.9 - swatch * LEVELS as f64;
        small(2.0, top + 11.0, Anchor::Start, width_max).write(out, &words);
        let mut x = 2.0 + width(&words, SMALL).min(width_max) + 8.0;
        let lowest = self.lowest();
        let edge = |out: &mut String, x: f64, n: u64| {
            small(x, top + 24.0, Anchor::Middle, 2.0 * swatch).write(out, &human::whole(n));
        };
        for (i, &(level, first)) in lowest.iter().enumerate() {
            let _ = write!(
                out,
                r#"<rect class="h{level}" x="{}" y="{}" width="{}" height="10"/>"#,
                px(x),
                px(top + 2.0),
                px(swatch)
            );
            // The highest count stands at the right end, so narrow colours are labelled from there.
            if swatch > 40.0 || (lowest.len() - i).is_multiple_of(2) {
                edge(out, x, first);
            }
            x += swatch;
        }
        if let Some((_, most)) = self.ends {
            edge(out, x, most);
        }
        out.push_str("</g>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts that hardly differ have the same colour or neighbouring ones, and rare counts differ from frequent ones.
    #[test]
    fn colours_follow_the_logarithm_of_the_count() {
        let field =
            |counts: Vec<u64>| Field { x_edges: vec![], y_edges: vec![], counts: vec![counts] };
        let of = |counts: Vec<u64>| Levels::new([field(counts)].iter());
        let levels = |counts: &[u64]| {
            let of = of(counts.to_vec());
            counts.iter().map(|&n| of.level(n).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(of(vec![0, 5]).level(0), None);
        assert_eq!(levels(&[5, 5]), [7, 7]);
        assert_eq!(levels(&[770, 776, 777]), [7, 7, 7]);
        assert_eq!(levels(&[1, 10, 776, 777]), [0, 2, 7, 7]);
        assert_eq!(levels(&[1, 3, 1_000_000]), [0, 0, 7]);
        for most in [2, 100, 777, 1_000_000, u64::MAX] {
            let levels = of(vec![1, most]);
            let lowest = levels.lowest();
            assert!(lowest[0].1 == 1 && lowest.is_sorted() && lowest.last().unwrap().0 == 7);
            for &(level, n) in &lowest[1..] {
                assert_eq!(levels.level(n), Some(level), "{most}");
                assert!(levels.level(n - 1) < Some(level), "{most}: {n} is not the lowest");
            }
        }
        assert_eq!(of(vec![776, 777]).lowest(), [(7, 776)]);
    }

    #[test]
    fn edges_are_kept_evenly() {
        assert_eq!(every(&[0.0, 1.0, 2.0, 3.0, 4.0], 2), [0.0, 2.0, 4.0]);
        assert_eq!(every(&[0.0, 1.0, 2.0, 3.0], 2), [0.0, 2.0, 3.0]);
        assert_eq!(every(&[0.0, 1.0], 1), [0.0, 1.0]);
    }
}
