//! Attachments: the connections and open files through which a host uses a volume. A host whose power fails has none
//! left, so they end with the power, and none of their later operations succeeds. Where a device loses data while the
//! host lives, attachments stay, and the next flush of each fails: no loss goes unreported.

use super::operations::Inner;
use super::{Live, Sink};
use crate::counts::{Counts, Taken};
use crate::store::Dropped;
use iodyno_emulate::spec::Part;
use iodyno_emulate::{Fault, PartId};
use iodyno_units::{IoError, Op, OpKind};
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// A connection that the server can end.
pub trait HangUp: Debug + Send + Sync {
    /// Ends it. Must not wait for the client.
    fn hang_up(&self);
}

/// A connection or open file of a volume; see the module.
#[derive(Debug)]
pub struct Attached {
    volume: u32,
    /// Power failures before it was opened.
    power_failures: u64,
    /// Losses of the volume that were reported to it, or happened before it was opened.
    losses: AtomicU64,
    _line: Option<Arc<dyn HangUp>>,
}

/// What ends attachments, or fails their flushes.
#[derive(Debug, Default)]
pub(super) struct Losses {
    power_failures: u64,
    /// By volume: faults that took acknowledged data, with the host alive.
    of_volumes: Vec<u64>,
    lines: Vec<Weak<dyn HangUp>>,
    /// Lines at which ended ones are removed.
    lines_max: usize,
}

impl Losses {
    pub(super) fn of(volumes: u32) -> Self {
        Self { of_volumes: vec![0; volumes as usize], ..Self::default() }
    }

    /// The power fails: all attachments end. Gives the connections to be closed.
    #[must_use]
    pub(super) fn power_fails(&mut self) -> Vec<Weak<dyn HangUp>> {
        self.power_failures += 1;
        std::mem::take(&mut self.lines)
    }

    /// A volume lost acknowledged data, and its host lives.
    pub(super) fn volume_loses(&mut self, volume: usize) {
        self.of_volumes[volume] += 1;
    }

    fn add(&mut self, line: &Arc<dyn HangUp>) {
        if self.lines.len() >= self.lines_max {
            self.lines.retain(|line| line.strong_count() > 0);
            self.lines_max = 64 + 2 * self.lines.len();
        }
        self.lines.push(Arc::downgrade(line));
    }

    /// Why an operation of an attachment fails.
    pub(super) fn refuse(&self, attached: &Attached, op: &Op) -> Option<IoError> {
        if attached.power_failures != self.power_failures {
            return Some(IoError::Io);
        }
        if op.kind != OpKind::Flush {
            return None;
        }
        let losses = self.of_volumes[attached.volume as usize];
        (attached.losses.swap(losses, Ordering::Relaxed) != losses).then_some(IoError::Io)
    }
}

impl<S: Sink> Inner<S> {
    /// What a fault took from each volume, where so many operations of it had failed before. Where the host lives, losses
    /// are held against its next flushes.
    pub(super) fn take_losses(&mut self, fault: &Fault, failed_before: &[u64]) -> Vec<Taken> {
        let Self { counts, stores, machine, losses, .. } = self;
        let system = machine.system();
        let is_of_power = matches!(fault, Fault::PowerCut | Fault::PowerOff);
        // What a replaced device held is not lost in a power cut.
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
            // (What a member of an array loses, the array has, or fails to read.)
            let is_array = |part: PartId| matches!(system.parts[part.index()], Part::Array(_));
            if !is_of_power && is_taken && !system.parts_of(volume).any(is_array) {
                losses.volume_loses(volume as usize);
            }
            Taken { failed: counts.all_errors() - before, dropped }
        };
        (0..).zip(counts.iter_mut().zip(failed_before)).map(of_volume).collect()
    }
}

impl<S: Sink> Live<S> {
    /// Attaches to a volume. `line` is the connection, where there is one that the server can end.
    pub fn attach(&self, volume: u32, line: Option<Arc<dyn HangUp>>) -> Attached {
        let losses = &mut self.lock().losses;
        if let Some(line) = &line {
            losses.add(line);
        }
        Attached {
            volume,
            power_failures: losses.power_failures,
            losses: losses.of_volumes[volume as usize].into(),
            _line: line,
        }
    }
}
