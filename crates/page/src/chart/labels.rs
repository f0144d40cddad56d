//! Places labels in a chart panel so that they cover neither each other nor dots.

use super::path::Position;

/// Areas of a panel already occupied by dots, lines and labels; used to place further labels.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    /// Areas that labels must not cover: left, top, right, bottom.
    hard: Vec<[f64; 4]>,
    /// Points on lines, which labels should cover as little as possible.
    soft: Vec<Position>,
    /// Area within which labels must lie: left, top, right, bottom.
    bounds: [f64; 4],
}

impl Taken {
    /// Creates an empty panel. Labels must lie within `bounds` (left, top, right, bottom).
    pub(super) fn new(bounds: [f64; 4]) -> Self {
        Self { hard: Vec::new(), soft: Vec::new(), bounds }
    }

    /// Marks the area of a dot at a position as occupied.
    pub(super) fn dot(&mut self, x: f64, y: f64) {
        self.hard.push([x - 4.0, y - 4.0, x + 4.0, y + 4.0]);
    }

    /// Registers a line from `a` to `b`, which labels should cover as little as possible.
    pub(super) fn line(&mut self, a: Position, b: Position) {
        let steps = ((b.x - a.x).abs().max((b.y - a.y).abs()) / 6.0).clamp(1.0, 200.0) as usize;
        self.soft.extend((0..=steps).map(|i| {
            let share = i as f64 / steps as f64;
            Position { x: a.x + share * (b.x - a.x), y: a.y + share * (b.y - a.y) }
        }));
    }

    /// Chooses a label's area among the candidates `offered`, marks it as occupied and returns its index. The area
    /// lies within the bounds, overlaps no occupied area, and covers as little of the lines as possible. `None` if no
    /// candidate fits.
    pub(super) fn choose(&mut self, offered: &[[f64; 4]]) -> Option<usize> {
        let mut best: Option<(usize, usize)> = None;
        for (i, r) in offered.iter().enumerate() {
            let b = self.bounds;
            let is_inside = r[0] >= b[0] && r[1] >= b[1] && r[2] <= b[2] && r[3] <= b[3];
            let meets = |h: &[f64; 4]| r[0] < h[2] && h[0] < r[2] && r[1] < h[3] && h[1] < r[3];
            if !is_inside || self.hard.iter().any(meets) {
                continue;
            }
            let covers = |p: &&Position| p.x > r[0] && p.x < r[2] && p.y > r[1] && p.y < r[3];
            let covered = self.soft.iter().filter(covers).count();
            if best.is_none_or(|(least, _)| covered < least) {
                best = Some((covered, i));
            }
        }
        let (_, i) = best?;
        self.hard.push(offered[i]);
        Some(i)
    }
}
