//! Counts what each volume lost through a fault: failed operations and unwritten data.

use super::Sink;
use super::operations::Inner;
use crate::counts::{Counts, Taken};
use crate::store::Dropped;
use iodyno_emulate::spec::Part;
use iodyno_emulate::{Fault, PartId};

impl<S: Sink> Inner<S> {
    /// Returns what each volume lost through a fault. `failed_before` has each volume's count of failed operations
    /// before the fault. If a volume lost data while the host stayed up, the next flush of each of its clients fails.
    pub(super) fn take_losses(&mut self, fault: &Fault, failed_before: &[u64]) -> Vec<Taken> {
        let Self { counts, stores, machine, losses, .. } = self;
        let system = machine.system();
        let is_of_power = matches!(fault, Fault::PowerCut | Fault::PowerOff);
        // The content of a replaced device is not lost in a power cut.
        let is_replaced = matches!(fault, Fault::Replace { .. });
        let of_volume = |(volume, (counts, before)): (u32, (&mut Counts, &u64))| {
            let mut dropped = Dropped::default();
            for part in system.parts_of(volume) {
                if let Some(store) = stores.get_mut(part.index()) {
                    let of_store = store.take_dropped();
                    dropped.add(if is_replaced { Dropped::default() } else { of_store });
                }
            }
            counts.dropped.add(dropped);
            let is_taken = dropped.bytes > 0
                || is_replaced && system.parts_of(volume).any(|part| Some(part) == fault.part());
            // (An array has or detects whatever one of its members loses.)
            let is_array = |part: PartId| matches!(system.parts[part.index()], Part::Array(_));
            if !is_of_power && is_taken && !system.parts_of(volume).any(is_array) {
                losses.volume_loses(volume as usize);
            }
            Taken { failed: counts.all_errors() - before, dropped }
        };
        (0..).zip(counts.iter_mut().zip(failed_before)).map(of_volume).collect()
    }
}
