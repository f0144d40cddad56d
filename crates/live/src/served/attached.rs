//! Attachments: the connections and open files through which a host uses a volume. A host whose power fails has none
//! left, so they end with the power, and none of their later operations succeeds. Where a device loses data while the
//! host lives, attachments stay, and the next flush of each fails: no loss goes unreported.

use super::{Live, Sink};
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
