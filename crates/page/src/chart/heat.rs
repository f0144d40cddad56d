//! Draws heat maps of counts, coloured by rank.
//!
//! Linear shading would hide rare I/Os, which matter most in storage. The cells of a chart are therefore ranked by
//! count, and each colour covers an equal share of the ranks; the colour key lists the counts. All cells of one colour
//! form one SVG path.

use std::fmt::Write as _;

use iodyno_units::human;

use crate::figure::HeatMap;

use super::layout::{Area, Layout};
use super::path::{Path, Position, px};
use super::text::{Anchor, Label, SMALL, clean, label, width};

/// Number of colours in the colour scale.
pub(super) const LEVELS: usize = 8;
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

/// Mapping of counts to colours, by the rank of the count.
#[derive(Debug)]
pub(super) struct Levels {
    /// Non-zero counts of all cells in the figure, ascending.
    counts: Vec<u64>,
}

impl Levels {
    /// Creates a common mapping for all panels of a figure.
    pub(super) fn new<'a>(fields: impl Iterator<Item = &'a Field>) -> Self {
        let mut counts: Vec<u64> =
            fields.flat_map(|f| f.counts.iter().flatten().copied()).filter(|&n| n > 0).collect();
        counts.sort_unstable();
        Self { counts }
    }

    /// Index of the colour of a count; `None` for 0.
    fn level(&self, count: u64) -> Option<usize> {
        let most = *self.counts.last().filter(|_| count > 0)?;
        let rank = |n: u64| self.counts.partition_point(|&other| other < n);
        // The lowest count has the first colour and the highest the last, whatever the counts between.
        Some((rank(count) * (LEVELS - 1) * 2 + rank(most)) / (rank(most) * 2).max(1))
            .map(|level| if rank(most) == 0 { LEVELS - 1 } else { level })
    }

    /// Draws the colour key: each colour with its lowest count. `of` is the unit of the counts.
    pub(super) fn write_key(&self, out: &mut String, of: &str, top: f64, frame_width: f64) {
        const SWATCH: f64 = 46.0;
        out.push_str("<g class=\"key\">");
        let small = |x: f64, y: f64, anchor, width_max| Label {
            class: "small",
            size: SMALL,
            ..label(x, y, anchor, width_max)
        };
        let words = format!("{} per cell, by colour:", clean(of));
        let rest = frame_width - 16.0 - width(&words, SMALL).min(frame_width / 2.0);
        let swatch = SWATCH.min(rest / LEVELS as f64);
        let width_max = frame_width - 15.9 - swatch * LEVELS as f64;
        small(2.0, top + 11.0, Anchor::Start, width_max).write(out, &words);
        let mut x = 2.0 + width(&words, SMALL).min(width_max) + 8.0;
        for level in 0..LEVELS {
            let first = self.counts.iter().find(|&&n| self.level(n) == Some(level));
            let Some(&first) = first else { continue };
            let _ = write!(
                out,
                r#"<rect class="h{level}" x="{}" y="{}" width="{}" height="10"/>"#,
                px(x),
                px(top + 2.0),
                px(swatch)
            );
            let words = human::whole(first);
            if swatch > 40.0 || level % 2 == 0 {
                small(x + swatch / 2.0, top + 24.0, Anchor::Middle, 2.0 * swatch)
                    .write(out, &words);
            }
            x += swatch;
        }
        out.push_str("</g>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_follow_rank_and_the_most_has_the_last() {
        let field =
            |counts: Vec<u64>| Field { x_edges: vec![], y_edges: vec![], counts: vec![counts] };
        let of = |counts: Vec<u64>| Levels::new([field(counts)].iter());
        let many = of((0..=800).collect());
        assert_eq!(many.level(0), None);
        assert_eq!(many.level(1), Some(0));
        assert_eq!(many.level(400), Some(3));
        assert_eq!(many.level(800), Some(7));
        assert_eq!(of(vec![5, 5]).level(5), Some(7));
        // One outlier does not push the rest into one colour.
        let skewed = of(vec![1, 2, 3, 1_000_000]);
        let levels: Vec<_> = [1, 2, 3, 1_000_000].map(|n| skewed.level(n).unwrap()).into();
        assert_eq!(levels, [0, 2, 5, 7]);
        assert_eq!(every(&[0.0, 1.0, 2.0, 3.0, 4.0], 2), [0.0, 2.0, 4.0]);
        assert_eq!(every(&[0.0, 1.0, 2.0, 3.0], 2), [0.0, 2.0, 3.0]);
        assert_eq!(every(&[0.0, 1.0], 1), [0.0, 1.0]);
    }
}
