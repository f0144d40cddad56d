//! Finds out, for each interval, why messages of a log on emulated storage were delayed. If the emulation runs in real
//! time, the reason may be that this machine was too slow.

use crate::engine::{EngineKind, Medium};
use crate::plan::CellPlan;
use iodyno_emulate::usage::{Of, Snapshot, VolumeUsage};
use iodyno_measure::message_log::SPIKE_FACTOR;
use iodyno_measure::{Cell, Interval};
use iodyno_units::OpKind;

/// Cause of a latency spike: this machine itself delivered the completion late.
const LATE: &str = "this machine, which delivered the completion late";

/// Records the cause of the latency spike in each interval that has one. `by_interval` is the emulated machine's
/// activity per interval. `late_ns` is, per interval, the longest delay in delivering one of the volume's completions;
/// empty in virtual time, which has no such delays.
pub(crate) fn note(by_interval: &[Snapshot], late_ns: &[u64], volume: u32, cell: &mut Cell) {
    let Some(log) = &mut cell.log else { return };
    let of_volume = |usage: &'_ Snapshot| usage.volumes.get(volume as usize).cloned();
    let all: Vec<VolumeUsage> = by_interval.iter().filter_map(of_volume).collect();
    let usual = usual_phases(&all);
    let spike_ns = log.persist.quantile_ns(0.5).unwrap_or(0).saturating_mul(SPIKE_FACTOR);
    for (i, interval) in log.intervals.iter_mut().enumerate() {
        if interval.max_ns <= spike_ns {
            continue;
        }
        let late_ns = late_ns.get(i).copied().unwrap_or(0);
        interval.cause = match (all.get(i), cell.series.get(i)) {
            _ if late_ns >= interval.max_ns / 2 => LATE.to_owned(),
            (Some(usage), Some(series)) => cause(usage, series, &usual).unwrap_or_default(),
            _ => String::new(),
        };
    }
}

/// Cause of delayed writes: flushes, if the longest flush exceeds the longest write. Otherwise the phase of writes
/// whose mean time most exceeds its usual value, the median over all intervals. The device's background activity is
/// appended. `None` if no phase exceeds its usual value.
fn cause(usage: &VolumeUsage, series: &Interval, usual: &[f64]) -> Option<String> {
    let longest = |kind| series.class(kind)?.service.max_ns();
    let what = if longest(OpKind::Flush) > longest(OpKind::Write) {
        "flush"
    } else {
        let above =
            phases(usage).into_iter().zip(usual).map(|((name, ns), usual)| (ns - usual, name));
        above.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(above_ns, _)| *above_ns > 0.0)?.1
    };
    let counts = usage.counts.unwrap_or_default();
    // At least a tenth of the programmed pages: less can't delay much.
    let collects = counts.copied_pages * 10 >= (counts.host_pages + counts.copied_pages).max(1);
    let behind = match counts.stalls {
        1.. => ", during a stall of the controller",
        0 if collects => ", during garbage collection",
        0 => "",
    };
    Some(format!("{what}{behind}"))
}

/// Phases of writes, with the mean time spent in each, ns.
fn phases(usage: &VolumeUsage) -> Vec<(&'static str, f64)> {
    let below = usage.below.iter().flat_map(|(_, phases)| phases);
    let writes = usage.phases.iter().chain(below).filter(|p| p.of == Of::Write);
    writes.map(|p| (p.name, p.total_ns as f64 / p.count.max(1) as f64)).collect()
}

/// For each phase of writes, the median of its mean times in the intervals, ns.
fn usual_phases(all: &[VolumeUsage]) -> Vec<f64> {
    let all: Vec<_> = all.iter().map(phases).collect();
    let median = |phase: usize| {
        let mut values: Vec<f64> = all.iter().filter_map(|of| of.get(phase)).map(|p| p.1).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    };
    (0..all.first().map_or(0, Vec::len)).map(median).collect()
}

/// Activity of the machine emulated in real time, in each interval of a cell with message logs.
#[derive(Debug)]
pub(crate) struct LiveUsage<'a> {
    plan: &'a CellPlan,
    /// Start of the next interval, ns; never reached in the last interval.
    next_ns: u64,
    snapshots: Vec<Snapshot>,
    /// Longest delay in delivering a completion, ns, for each finished interval and each target.
    late_ns: Vec<Vec<u64>>,
}

impl<'a> LiveUsage<'a> {
    /// Starts to track a cell that begins at `start_ns`. `None` if the cell has no message log or is not emulated
    /// in real time.
    pub(crate) fn of(plan: &'a CellPlan, start_ns: u64) -> Option<Self> {
        let has_log = plan.cell.spec.log().is_some();
        let is_live = plan.targets.iter().any(|it| it.engine() == EngineKind::Live);
        let limits = plan.cell.spec.limits();
        let next_ns = start_ns + limits.start_after_ns + limits.ramp_ns;
        (has_log && is_live).then(|| Self {
            plan,
            next_ns,
            snapshots: Vec::new(),
            late_ns: Vec::new(),
        })
    }

    /// Time at which [`LiveUsage::look`] must be called next, ns.
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Takes a snapshot of the machine's activity for each interval that has begun.
    pub(crate) fn look(&mut self, now_ns: u64) {
        while self.next_ns <= now_ns {
            self.take();
            self.next_ns += self.plan.cell.interval_ns();
        }
    }

    fn take(&mut self) {
        let mut late_ns = vec![0; self.plan.targets.len()];
        let mut snapshot = None;
        for (target, late_ns) in self.plan.targets.iter().zip(&mut late_ns) {
            if let Medium::Live { live, volume, .. } = &target.medium {
                *late_ns = live.take_longest_late_ns(*volume);
                snapshot.get_or_insert_with(|| live.look(|machine, _, _| machine.snapshot()));
            }
        }
        // Delays before the window don't count for its intervals.
        if !self.snapshots.is_empty() {
            self.late_ns.push(late_ns);
        }
        self.snapshots.extend(snapshot);
    }

    /// Records the causes of latency spikes in the cells.
    pub(crate) fn keep(mut self, cells: &mut [Cell]) {
        self.take();
        let both = self.snapshots.windows(2);
        let by_interval: Vec<Snapshot> = both.map(|two| two[1].since(&two[0])).collect();
        for (index, (target, cell)) in self.plan.targets.iter().zip(cells).enumerate() {
            if let Medium::Live { volume, .. } = &target.medium {
                let late_ns: Vec<u64> = self.late_ns.iter().map(|of| of[index]).collect();
                note(&by_interval, &late_ns, *volume, cell);
            }
        }
    }
}
