//! Results at operating points: the chosen point, the reason for the choice, and latencies up to the 99.999th
//! percentile.

use super::table::Row;
use super::{Step, measured};
use crate::completed_step::{Done, Figures};
use crate::next_step::Method;
use crate::stage::{Ceiling, Points};
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointFinding {
    /// Type of operating point: `max`, `optimal`, `mid` or `min`.
    pub which: &'static str,
    /// Name of the point that was chosen from the earlier stage.
    pub chosen: String,
    /// Latency ceilings (maximum latencies) that the point must meet, as text; may be empty.
    pub ceilings: Vec<String>,
    /// Whether the point stayed within the latency ceilings in its own, longer measurement.
    pub keeps: bool,
    /// Results of the point's own, longer measurement.
    pub row: Row,
}

pub(super) fn points(
    method: &Method,
    points: &Points,
    subject: u32,
    steps: &[&Step<'_>],
    done: &[Done],
) -> Vec<PointFinding> {
    let each = points.choose.iter().enumerate().filter_map(|(number, which)| {
        let mine = measured(steps).filter(|s| s.done.place.round as usize == number);
        let chosen = method.chosen(points, *which, subject, done).ok()?;
        let name = chosen.0.point(chosen.1).ok()?.name;
        let figures: Option<&Figures> = mine.clone().next()?.done.figures.as_ref();
        let keeps =
            |c: &Ceiling| figures.and_then(|f| f.get(c.of)).is_some_and(|ns| ns <= c.ns as f64);
        let words =
            |c: &Ceiling| format!("{} ≤ {}", c.of, iodyno_units::human::time_ns(c.ns as f64));
        Some(PointFinding {
            which: which.name(),
            chosen: name,
            ceilings: points.ceilings.iter().map(words).collect(),
            keeps: points.ceilings.iter().all(keeps),
            row: Row::of(Vec::new(), mine),
        })
    });
    each.collect()
}
