//! Judges whether the workers had a processor whenever they needed one.

use super::generator::{late_count, late_share};
use super::{Level, Say};
use crate::cell::Cell;
use crate::histogram::EXCEEDANCES_MIN;
use iodyno_units::human;

/// Closed loop: maximum fraction of the window that a worker may wait for a processor. The rate drops by this
/// fraction.
const CLOSED_SHARE_MAX: f64 = 0.05;
/// Open loop: maximum fraction of the window that a worker may wait for a processor. About this fraction of
/// operations is late, so at 1 % the waits show in the 99th percentile.
const OPEN_SHARE_MAX: f64 = 0.01;
/// Fraction of the window below which waits for a processor are not reported, because they affect only the
/// highest percentiles.
const SHARE_MIN: f64 = 0.005;
/// Minimum fraction of late operations to report.
const LATE_SHARE_MIN: f64 = 0.01;
/// Mean queue utilisation (operations in flight divided by threads × depth) from which the queue counts as
/// full.
const FULL_SHARE_MIN: f64 = 0.5;
/// Assumed maximum rate of a burst, as a multiple of the mean rate.
const BURST: f64 = 8.0;
/// Minimum queue of a worker in open loop, which overrides a lower depth.
const OPEN_QUEUE_MIN: u32 = 256;

/// Reports waits for a processor, and late submissions by cause.
pub(super) fn processors(cell: &Cell, say: &mut Say) {
    let worst = cell.resources.most_starved(cell.window_ns);
    let worst = worst.filter(|(_, share)| *share >= SHARE_MIN && !cell.evidence.virtual_time);
    if let Some((worker, share)) = worst {
        starved(cell, worker, share, say);
    }
    late_submission(cell, worst.map_or(0.0, |(_, share)| share), say);
}

fn starved(cell: &Cell, worker: usize, share: f64, say: &mut Say) {
    let is_open = cell.key.offered_iops.is_some();
    let limit = if is_open { OPEN_SHARE_MAX } else { CLOSED_SHARE_MAX };
    let (level, spoils) = match (share >= limit, is_open) {
        (true, false) => (
            Level::Warning,
            "the rate and all percentiles depend on this machine as much as on the storage",
        ),
        (true, true) => (
            Level::Warning,
            "response times and percentiles depend on this machine as much as on the storage",
        ),
        (false, _) => (Level::Note, "the highest percentiles may include these waits"),
    };
    // On memory (MEMORY), no other verdict is above a note.
    let level = if cell.evidence.is_memory() { Level::Note } else { level };
    let workers = cell.resources.run_delay.len();
    let who = if workers > 1 {
        format!("worker {} of {workers} (the worst)", worker + 1)
    } else {
        "the worker".to_owned()
    };
    let waited_ns = cell.resources.run_delay[worker].starved_ns();
    let pressure = cell.evidence.conditions.as_ref().and_then(|c| c.processor_pressure);
    let pressure = pressure.filter(|pressure| *pressure > 0.1).map_or(String::new(), |pressure| {
        format!(
            "; some program on this machine waited for a processor {:.0} % of the time",
            pressure * 100.0
        )
    });
    say(
        "STARVED",
        level,
        format!(
            "{who} waited for a processor for {} of {} ({:.1} %){}{pressure}: {spoils}; stop other programs, or use fewer --threads or other --cpus",
            human::time_ns(waited_ns as f64),
            human::duration_ns(cell.window_ns),
            share * 100.0,
            worst_interval(cell)
        ),
    );
}

/// Describes the interval in which workers waited longest for a processor; empty unless it stands out.
fn worst_interval(cell: &Cell) -> String {
    let waited = &cell.resources.starved_by_interval_ns;
    let total_ns: u64 = waited.iter().sum();
    let intervals = cell.window_ns.div_ceil(cell.interval_ns.max(1));
    let worst = waited.iter().enumerate().max_by_key(|(_, ns)| **ns);
    match worst {
        Some((index, ns)) if intervals > 4 && 3 * total_ns < intervals * ns => {
            let at = |index: usize| index as f64 * cell.interval_ns as f64 / 1e9;
            format!(
                ", with {:.0} % of all waiting between {:.1} and {:.1} s",
                100.0 * *ns as f64 / total_ns.max(1) as f64,
                at(index),
                at(index + 1)
            )
        }
        _ => String::new(),
    }
}

/// Maximum number of outstanding operations of a worker in open loop. As in `drive/src/worker_threads.rs`.
fn queue_of_worker(cell: &Cell) -> u32 {
    match &*cell.key.engine {
        "psync" | "mmap" => 1,
        _ if cell.evidence.trace.is_some() => cell.key.depth,
        _ => cell.key.depth.max(OPEN_QUEUE_MIN),
    }
}

fn longer_queues(queue: u32) -> String {
    match queue {
        1 => "raise --threads".to_owned(),
        _ => format!("raise --threads, or --depth above {queue}"),
    }
}

/// Reports operations that were submitted late because no processor was free or the queue was full.
fn late_submission(cell: &Cell, starved_share: f64, say: &mut Say) {
    let Some(lateness) = &cell.lateness else { return };
    let share = late_share(lateness);
    if (late_count(lateness) as f64) < EXCEEDANCES_MIN || share < LATE_SHARE_MIN {
        return;
    }
    let workers = cell.resources.run_delay.len().max(1) as f64;
    let queue = queue_of_worker(cell);
    let slots = f64::from(queue) * f64::from(cell.key.threads.max(1));
    let is_full = cell.oio_mean() >= FULL_SHARE_MIN * slots;
    // The queues had room if they hold more operations than can become due during the longest delay.
    let latest_ns = lateness.max_ns().unwrap_or(0) as f64;
    let iops = cell.key.offered_iops.unwrap_or_else(|| cell.iops()).max(cell.iops());
    let has_filled = BURST * iops * latest_ns / 1e9 + cell.oio_mean() >= slots;
    let why = if starved_share * workers >= share / 4.0 {
        "no processor was free for the workers".to_owned()
    } else if is_full {
        format!("all queues were full; {}", longer_queues(queue))
    } else if has_filled {
        format!("the queues were probably full during bursts or stalls; {}", longer_queues(queue))
    } else {
        "the queues had room, so the workers woke late or submitting took long; try other --cpus, or another --engine"
            .to_owned()
    };
    say(
        "LATE_SUBMISSION",
        Level::Note,
        format!(
            "{:.0} % of the operations were submitted over 1 ms (at most {}) after their intended start: {why}; response times count from the intended start and include the delay",
            share * 100.0,
            human::time_ns(latest_ns)
        ),
    );
}
