//! Estimates the number of measurements, the duration and the written bytes of a method before its start. Minima and
//! maxima differ if the results decide how long a stage runs, as in a search for a steady state.

use crate::next_step::Method;
use crate::rate_search::PROBES_MAX;
use crate::stage::{Act, Cells, Points, Rounds, Series};
use serde::Serialize;

/// Estimated duration, number of measurements and written bytes of a method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Budget {
    /// Minimum number of cells (single measurements).
    pub cells_min: u64,
    /// Maximum number of cells (single measurements).
    pub cells_max: u64,
    /// Minimum total duration, ns. Excludes fills, whose duration is not known in advance.
    pub time_min_ns: u64,
    /// Maximum total duration, ns. Excludes fills, whose duration is not known in advance.
    pub time_max_ns: u64,
    /// Number of bytes that fills write to a target of the capacity passed to [`Self::new`].
    pub fill_bytes: u64,
}

impl Budget {
    pub fn new(method: &Method, capacity_bytes: u64) -> Self {
        let mut sum = Self::default();
        for stage in &method.stages {
            let (cells, time) = match &stage.act {
                Act::Purge => ((0, 0), (0, 0)),
                Act::Wait { ns } => ((0, 0), (*ns, *ns)),
                Act::Fill(fill) => {
                    let (start_bytes, end_bytes) = fill.spec.active_on(capacity_bytes);
                    let range = end_bytes.min(capacity_bytes).saturating_sub(start_bytes);
                    sum.fill_bytes += range * u64::from(fill.passes);
                    ((1, 1), (0, 0))
                }
                Act::Cells(Cells { grid, repeats, .. }) => {
                    let n = grid.len() as u64 * u64::from(*repeats);
                    let ramp = grid.base.first().map_or(0, |(_, spec)| spec.limits().ramp_ns);
                    let time = n * (grid.time_ns + ramp);
                    ((n, n), (time, time))
                }
                Act::Rounds(Rounds { grid, before, limits, .. }) => {
                    let n = grid.len() as u64 + u64::from(before.is_some());
                    let time =
                        grid.len() as u64 * grid.time_ns + before.as_ref().map_or(0, |b| b.1);
                    let (least, most) =
                        (u64::from(limits.window_rounds), u64::from(limits.rounds_max));
                    ((n * least, n * most), (time * least, time * most))
                }
                Act::Series(Series {
                    grid, samples_max, wait_ns, steady_every, limits, ..
                }) => {
                    let most = u64::from(*samples_max);
                    let least = steady_every
                        .map_or(most, |every| u64::from(every * limits.window_rounds).min(most));
                    let one = grid.time_ns + wait_ns;
                    ((least, most), (least * one, most * one))
                }
                Act::RateSearch(search) => {
                    let ramp = search.grid.base.first().map_or(0, |(_, s)| s.limits().ramp_ns);
                    let one = search.grid.time_ns + ramp;
                    // From the middle to the precision just below the capacity, and down to the lowest rate.
                    let (least, most) = (1 + 5, 1 + u64::from(PROBES_MAX));
                    ((least, most), (least * one, most * one))
                }
                Act::Points(Points { choose, time_ns, before, .. }) => {
                    let n = choose.len() as u64;
                    let one = time_ns + before.as_ref().map_or(0, |b| b.1);
                    let cells = n * (1 + u64::from(before.is_some()));
                    ((cells, cells), (n * one, n * one))
                }
            };
            sum.cells_min += cells.0;
            sum.cells_max += cells.1;
            sum.time_min_ns = sum.time_min_ns.saturating_add(time.0);
            sum.time_max_ns = sum.time_max_ns.saturating_add(time.1);
        }
        sum
    }
}
