//! Adds the emulated machine's own measurements to the results of a volume: the time that I/Os spent in each phase, and
//! the utilisation of each component.

use iodyno_emulate::usage::{Of, Snapshot};
use iodyno_measure::{Busy, Cell, Spent, SpentOf};

/// Busy fraction below which a component of the emulated machine counts as idle and is omitted.
const BUSY_SHARE_MIN: f64 = 0.001;

/// Stores phase times and component utilisation of the emulated machine in the cell of `volume`.
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
