//! Attachments: the connections and open files through which a host uses a volume. When a host's power fails, they
//! end, and none of their later operations succeeds. When a device loses data while the host stays up, attachments
//! stay, but the next flush of each fails, so that no loss goes unreported.

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

/// A connection to a volume, or an open file of it; see the module's description.
#[derive(Debug)]
pub struct Attached {
    volume: u32,
    /// Number of power failures before it was opened.
    power_failures: u64,
    /// Number of losses of the volume that it was told of, or that happened before it was opened.
    losses: AtomicU64,
    _line: Option<Arc<dyn HangUp>>,
}

/// The client of an operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Client<'a> {
    /// Its attachment to the volume; `None` for this process.
    pub attached: Option<&'a Attached>,
    /// Time for which the operation has already been waiting, ns of the clock.
    pub waited_ns: u64,
}

/// Events that end attachments or fail their flushes.
#[derive(Debug, Default)]
pub(super) struct Losses {
    power_failures: u64,
    /// Number of faults that lost acknowledged data while the host was up, by volume.
    of_volumes: Vec<u64>,
    lines: Vec<Weak<dyn HangUp>>,
    /// Number of lines at which ended ones are removed.
    lines_max: usize,
}

impl Losses {
    pub(super) fn of(volumes: u32) -> Self {
        Self { of_volumes: vec![0; volumes as usize], ..Self::default() }
    }

    /// Notes a power failure, which ends all attachments. Returns the connections to close.
    #[must_use]
    pub(super) fn power_fails(&mut self) -> Vec<Weak<dyn HangUp>> {
        self.power_failures += 1;
        std::mem::take(&mut self.lines)
    }

    /// Notes that a volume lost acknowledged data while its host is up.
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

    /// Reason why an operation of an attachment fails; None if it does not.
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
    /// Attaches to a volume. `line` is the connection, if the server can end it.
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
