//! Phase times of the I/Os and utilization of the parts: converts the machine's snapshots of a
//! volume into what is kept with its cell.

use iodyno_emulate::usage::{Of, Snapshot};
use iodyno_measure::message_log::SPIKE_FACTOR;
use iodyno_measure::{Busy, Cell, Spent, SpentOf};
use iodyno_units::OpKind;

/// Below this share a part counts as idle and is not shown.
const BUSY_SHARE_MIN: f64 = 0.001;

/// Keeps with the cell of `volume` what the machine did between two snapshots.
pub(super) fn keep(usage: &Snapshot, volume: u32, cell: &mut Cell) {
    let Some(of_volume) = usage.volumes.get(volume as usize) else { return };
    let spent = of_volume.phases.iter().filter(|p| p.count > 0 && p.total_ns > 0);
    cell.evidence.spent = spent
        .map(|p| Spent {
            phase: p.name.to_owned(),
            of: match p.of {
                Of::Read => SpentOf::Read,
                Of::Write => SpentOf::Write,
                Of::PageRead => SpentOf::Page,
            },
            total_ns: p.total_ns,
            count: p.count,
        })
        .collect();
    let busy = of_volume.resources.iter().map(|r| Busy {
        resource: r.name.to_owned(),
        count: r.count,
        share: r.share(usage.at_ns),
    });
    cell.evidence.busy = busy.filter(|b| b.share >= BUSY_SHARE_MIN).collect();
}

/// Notes with each interval of a log that has a spike what delayed its messages: flushes, where the longest of them took
/// longer than the longest write; otherwise the phase of writes in which I/Os spent most more than in the median interval.
pub(super) fn note_causes(by_interval: &[Snapshot], volume: u32, cell: &mut Cell) {
    let Some(log) = &mut cell.log else { return };
    let phases = |usage: &Snapshot| -> Vec<(String, f64)> {
        let Some(of_volume) = usage.volumes.get(volume as usize) else { return Vec::new() };
        let below = of_volume.below.iter().flat_map(|(_, phases)| phases);
        let writes = of_volume.phases.iter().chain(below).filter(|p| p.of == Of::Write);
        writes.map(|p| (p.name.to_owned(), p.total_ns as f64 / p.count.max(1) as f64)).collect()
    };
    let all: Vec<Vec<(String, f64)>> = by_interval.iter().map(phases).collect();
    let median = |phase: usize| {
        let mut values: Vec<f64> = all.iter().filter_map(|of| of.get(phase)).map(|p| p.1).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    };
    let medians: Vec<f64> = (0..all.first().map_or(0, Vec::len)).map(median).collect();
    let spike_ns = log.persist.quantile_ns(0.5).unwrap_or(0).saturating_mul(SPIKE_FACTOR);
    for (i, interval) in log.intervals.iter_mut().enumerate() {
        if interval.max_ns <= spike_ns {
            continue;
        }
        let longest = |kind| cell.series.get(i)?.class(kind)?.service.max_ns();
        if longest(OpKind::Flush) > longest(OpKind::Write) {
            "flush".clone_into(&mut interval.cause);
            continue;
        }
        let of = all.get(i).map_or(&[][..], Vec::as_slice);
        let above = of.iter().zip(&medians).map(|((name, mean_ns), usual)| (mean_ns - usual, name));
        let most = above.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(above_ns, _)| *above_ns > 0.0);
        interval.cause = most.map(|(_, name)| name.clone()).unwrap_or_default();
    }
}
