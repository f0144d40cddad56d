//! Attachments: the connections and open files through which a host uses a volume. When the host's power fails, all
//! attachments end, and later operations through them fail. When a device loses data while the host stays up, the
//! volume's attachments stay, but the next flush through each fails, so that no loss goes unreported.

use super::{Live, Sink};
use iodyno_units::{IoError, Op, OpKind};
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// A client's connection that the server can close.
pub trait HangUp: Debug + Send + Sync {
    /// Closes the connection without waiting for the client.
    fn hang_up(&self);
}

/// A client's access to a volume: an NBD connection, or an open file of the FUSE frontend. It becomes invalid when the
/// emulated host loses power.
#[derive(Debug)]
pub struct Attached {
    volume: u32,
    /// Number of power failures of the emulated host before the attachment was created.
    power_failures: u64,
    /// Number of the volume's data losses that need no report to this client: they came before the attachment, or
    /// already made one of its flushes fail.
    losses: AtomicU64,
    _line: Option<Arc<dyn HangUp>>,
}

/// Client of an operation, such as an NBD connection, and the operation's delay in this process before its submission.
#[derive(Clone, Copy, Debug, Default)]
pub struct Client<'a> {
    /// The client's attachment to the volume; `None` for operations of this process itself.
    pub attached: Option<&'a Attached>,
    /// Time between the operation's arrival and its submission, ns of real time.
    pub waited_ns: u64,
}

/// Counters of power failures and data losses, which end clients' attachments or make their flushes fail.
#[derive(Debug, Default)]
pub(super) struct Losses {
    power_failures: u64,
    /// For each volume, the number of faults that lost acknowledged data while the host was up.
    of_volumes: Vec<u64>,
    lines: Vec<Weak<dyn HangUp>>,
    /// Length of the connection list at which entries of closed connections are removed.
    lines_max: usize,
}

impl Losses {
    pub(super) fn of(volumes: u32) -> Self {
        Self { of_volumes: vec![0; volumes as usize], ..Self::default() }
    }

    /// Records a power failure of the emulated host, which ends all attachments. Returns the connections to
    /// close.
    #[must_use]
    pub(super) fn power_fails(&mut self) -> Vec<Weak<dyn HangUp>> {
        self.power_failures += 1;
        std::mem::take(&mut self.lines)
    }

    /// Records that a volume lost acknowledged data while the host stayed up. The next flush of each client
    /// fails.
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

    /// Error that the operation must return, because the client's attachment has ended or because the operation is the
    /// first flush after a data loss. `None` if the operation may proceed.
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
    /// Attaches a client to a volume. `line` is the client's connection, if the server can close it.
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
