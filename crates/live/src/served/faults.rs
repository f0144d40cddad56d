//! Faults of the machine and of the stored bytes.

use super::{Live, Sink, deliver};
use crate::counts::{Counts, Late, Looks, Taken};
use iodyno_emulate::{Fault, PartId};
use iodyno_units::IoError;
use std::ops::Range;
use std::sync::Weak;

impl<S: Sink> Live<S> {
    /// Injects a fault now. Returns each volume's losses. A power failure also fails all operations in flight and
    /// closes all clients' connections.
    pub fn inject(&self, fault: Fault) -> Vec<Taken> {
        let mut completed = Vec::new();
        let mut inner = self.lock();
        let now_ns = self.now_ns();
        self.advance(&mut inner, now_ns, Looks::default(), &mut completed);
        let at_ns = self.input_ns(&inner, now_ns);
        inner.submitted_ns = at_ns;
        let cut = match fault {
            Fault::PowerCut => Some(IoError::Io),
            Fault::PowerOff => Some(IoError::Gone),
            _ => None,
        };
        let before: Vec<u64> = inner.counts.iter().map(Counts::all_errors).collect();
        if let Some(recorder) = &mut inner.recorder {
            recorder.fault(at_ns, &fault);
        }
        inner.machine.inject(at_ns, fault);
        // The fault takes effect after the events of the same instant.
        while let Some(done) = inner.machine.next_completion(at_ns) {
            inner.settle();
            inner.completed(&done, Late::default(), &mut completed);
        }
        inner.settle();
        let mut cut_off = Vec::new();
        if let Some(error) = cut {
            inner.fail_all(error, &mut completed);
            cut_off = inner.losses.power_fails();
        }
        let taken = inner.take_losses(&fault, &before);
        self.plan(&mut inner);
        drop(inner);
        deliver(completed);
        cut_off.iter().filter_map(Weak::upgrade).for_each(|line| line.hang_up());
        taken
    }

    /// Corrupts a range of a device's medium, with bit flips chosen by `seed`. A device below an array finds the damage
    /// itself and rebuilds the data from its parity, or fails the read, so that the array can rebuild them.
    pub fn corrupt(&self, part: PartId, range_bytes: &Range<u64>, seed: u64) {
        let is_volume = self.look(|machine, stores, _| {
            let is_volume = machine.system().volumes.iter().any(|volume| volume.root == part);
            if is_volume {
                stores[part.index()].corrupt(range_bytes, seed);
            }
            is_volume
        });
        if !is_volume {
            let offset_bytes = range_bytes.start;
            let len_bytes = range_bytes.end.saturating_sub(offset_bytes);
            self.inject(Fault::Latent { part, offset_bytes, len_bytes });
        }
    }
}
