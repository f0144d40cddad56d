//! Attachments: the connections and open files through which a host uses a volume. When the host's power fails, they
//! end, and all their later operations fail. When a device loses data while the host stays up, its attachments stay,
//! but the next flush of each fails, so that no loss goes unreported.

use super::{Live, Sink};
use iodyno_units::{IoError, Op, OpKind};
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// A connection that the server can end.
pub trait HangUp: Debug + Send + Sync {
    /// Ends the connection. Must not wait for the client.
    fn hang_up(&self);
}

/// A connection to a volume, or an open file of it. Ends when the emulated host's power fails.
#[derive(Debug)]
pub struct Attached {
    volume: u32,
    /// Number of power failures before the attachment was created.
    power_failures: u64,
    /// Number of the volume's losses that this attachment need not report: those before it was created, and those that
    /// failed one of its flushes.
    losses: AtomicU64,
    _line: Option<Arc<dyn HangUp>>,
}

/// The client that submits an operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Client<'a> {
    /// The client's attachment to the volume; `None` for operations of this process itself.
    pub attached: Option<&'a Attached>,
    /// Time for which the operation had already been waiting when it was submitted, ns of real time.
    pub waited_ns: u64,
}

/// Events that end attachments or fail their flushes.
#[derive(Debug, Default)]
pub(super) struct Losses {
    power_failures: u64,
    /// For each volume, the number of faults that lost acknowledged data while the host was up.
    of_volumes: Vec<u64>,
    lines: Vec<Weak<dyn HangUp>>,
    /// Number of connections from which those that have ended are removed from the list.
    lines_max: usize,
}

impl Losses {
    pub(super) fn of(volumes: u32) -> Self {
        Self { of_volumes: vec![0; volumes as usize], ..Self::default() }
    }

    /// Records a power failure, which ends all attachments. Returns the connections to close.
    #[must_use]
    pub(super) fn power_fails(&mut self) -> Vec<Weak<dyn HangUp>> {
        self.power_failures += 1;
        std::mem::take(&mut self.lines)
    }

    /// Records that a volume lost acknowledged data while its host is up.
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

    /// Error with which an operation of an attachment must fail; None if it may proceed.
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
    /// Creates an attachment to a volume. `line` is the connection, if the server can close it.
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
