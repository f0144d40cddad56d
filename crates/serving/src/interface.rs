//! Faults of served storage that has no timing model: a request fails, a write is lost or torn, or a reply is late.

use iodyno_live::fault_command::{self, Ask};
use iodyno_live::frontend::nbd::Reply;
use iodyno_live::interface_fault::{
    Action, Held, Injected, InterfaceFault, Met, SharedFaults, misdirected,
};
use iodyno_live::served::Sink as _;
use iodyno_nbd::{Io, Kind};
use iodyno_units::{IoError, Op, OpKind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// List of the faults possible at an interface, for messages.
pub(crate) const AT_INTERFACE: &str =
    "error EIO, lost, torn, misdirected, flip, stale, delay, hang";

/// Storage without a model.
pub(crate) trait Disk {
    fn size_bytes(&self) -> u64;
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), IoError>;
    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), IoError>;
    /// Performs an operation without data.
    fn perform(&self, op: &Op) -> Result<(), IoError>;
}

/// Converts the device faults `delay` and `hang` to the equivalent faults at the volume's interface.
pub(crate) fn at_interface(ask: Ask) -> Ask {
    match ask {
        Ask::Fault(fault) => fault_command::at_interface(&fault).unwrap_or(ask),
        ask => ask,
    }
}

/// The faults at a volume's interface, and the replies that they hold back.
#[derive(Default)]
pub(crate) struct Interface {
    faults: Arc<SharedFaults>,
    late: Arc<Late>,
}

impl Interface {
    pub(crate) fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    pub(crate) fn add(&self, fault: InterfaceFault) {
        self.faults.add(fault);
    }

    /// Ends all faults, and sends the replies that they hold back.
    pub(crate) fn clear(&self) {
        self.faults.clear();
        self.late.lock().held.release(|_| true);
        self.late.changed.notify_one();
    }

    pub(crate) fn judge(&self, disk: &impl Disk, op: &Op) -> Option<Met> {
        self.faults.judge(op, |at, into| disk.read(at, into).is_ok())
    }

    pub(crate) fn listed(&self) -> Vec<Injected> {
        self.faults.listed()
    }

    /// Serves a request to which the faults in `met` apply.
    pub(crate) fn serve(&self, disk: &impl Disk, op: &Op, met: &Met, io: Io<'_>) {
        let mut bytes = Vec::new();
        // A request for allocated zeros is a write without data.
        let asks_for_zeros = op.kind == OpKind::Write && io.command().kind == Kind::WriteZeroes;
        let zeros = if asks_for_zeros { vec![0; op.len_bytes as usize] } else { Vec::new() };
        let data = if asks_for_zeros { &zeros[..] } else { io.data() };
        let result = perform(disk, op, met, data, &mut bytes);
        let reply = match op.kind {
            OpKind::Read => Reply::Read(io.later(), bytes),
            _ => Reply::Done(io.later()),
        };
        match met.reply {
            Some(at) => {
                let at_ns = at.after(self.faults.now_ns());
                self.late.hold(at_ns, (reply, result), &self.faults);
            }
            None => reply.done(result),
        }
    }
}

/// Performs an operation with the fault in `met` applied. `bytes` receives the data of a read.
fn perform(
    disk: &impl Disk,
    op: &Op,
    met: &Met,
    data: &[u8],
    bytes: &mut Vec<u8>,
) -> Result<(), IoError> {
    let at = op.offset_bytes;
    match (met.action, op.kind) {
        (Action::Fail(error), _) => Err(error),
        (Action::Lose, _) => Ok(()),
        (Action::Tear { kept_bytes }, _) => {
            disk.write(at, &data[..data.len().min(kept_bytes as usize)])
        }
        (Action::Misdirect { by_bytes }, _) => {
            disk.write(misdirected(op, by_bytes, disk.size_bytes()), data)
        }
        (_, OpKind::Read) => {
            bytes.resize(op.len_bytes as usize, 0);
            disk.read(at, bytes)?;
            met.alter(bytes);
            Ok(())
        }
        (_, OpKind::Write) => disk.write(at, data),
        (_, OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes) => disk.perform(op),
    }
}

/// Delayed replies. A thread sends them, and ends when none is left.
#[derive(Default)]
struct Late {
    replies: Mutex<LateReplies>,
    changed: Condvar,
}

#[derive(Default)]
struct LateReplies {
    held: Held<(Reply, Result<(), IoError>)>,
    has_thread: bool,
}

impl Late {
    fn lock(&self) -> MutexGuard<'_, LateReplies> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a reply at time `at_ns` on the clock of `faults`.
    fn hold(
        self: &Arc<Self>,
        at_ns: u64,
        reply: (Reply, Result<(), IoError>),
        faults: &Arc<SharedFaults>,
    ) {
        let mut replies = self.lock();
        replies.held.hold(at_ns, reply);
        if !replies.has_thread {
            let (late, faults) = (Arc::clone(self), Arc::clone(faults));
            let thread = std::thread::Builder::new().name("late replies".to_owned());
            // Without a thread the replies wait for the next request that is held.
            replies.has_thread = thread.spawn(move || late.send(&faults)).is_ok();
        }
        drop(replies);
        self.changed.notify_one();
    }

    /// Sends replies when they are due, until none is held.
    fn send(&self, faults: &SharedFaults) {
        let mut replies = self.lock();
        while !replies.held.is_empty() {
            let now_ns = faults.now_ns();
            if let Some((reply, result)) = replies.held.take_due(now_ns) {
                drop(replies);
                reply.done(result);
                replies = self.lock();
                continue;
            }
            let due_ns = replies.held.next_ns().unwrap_or(u64::MAX);
            let wait = Duration::from_nanos(due_ns - now_ns);
            let woken = self.changed.wait_timeout(replies, wait);
            replies = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        replies.has_thread = false;
    }
}
