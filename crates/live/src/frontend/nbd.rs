//! The NBD frontend: each volume is an export.
//!
//! A flush covers all acknowledged writes on the volume, over any connection, so clients may use several connections.

use super::pieces::Pieces;
use super::{Served, Waiter};
use crate::counts::Looks;
use crate::poller::Lead;
use crate::served::{self, Attached, HangUp, Payload, Sink, store_of};
use crate::store::Store;
use iodyno_emulate::UNIT_BYTES;
use iodyno_nbd::{Answer, Batch, DeferredReply, Export, Info, Io, Peer, Session};
use iodyno_nbd::{CmdFlags, Command, Errno, Kind};
use iodyno_units::{IoError, Op, OpKind};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Number of the emulated host's worker threads per volume. All NBD connections of the volume share them.
pub const WORKERS: u32 = 16;
/// Longest range that one block status reply covers, bytes.
const STATUS_BYTES_MAX: u32 = 1 << 30;
const EXTENTS_MAX: usize = 4096;
/// Data of one write of allocated zeros. Longer requests are split, so that none holds up other clients for long.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// A pending reply to an NBD client.
pub enum Reply {
    /// Reply to a read, and the data to send.
    Read(DeferredReply, Vec<u8>),
    /// Reply without data.
    Done(DeferredReply),
    /// Completion of one of the operations into which a request was split.
    Piece(Arc<Pieces>),
}

/// Converts an error to an NBD reply. A device that is gone is reported as a server shutdown.
pub fn failed(error: IoError) -> Answer<'static> {
    Answer::Failed(match error {
        IoError::Io | IoError::Zone(_) => Errno::Io,
        IoError::OutOfRange => Errno::Inval,
        IoError::NoSpace => Errno::NoSpace,
        IoError::Gone => Errno::Shutdown,
    })
}

impl Reply {
    /// Completes the operation like [`Sink::done`], but adds the reply to `batch`, which sends several replies
    /// together.
    pub(super) fn done_with(self, result: Result<(), IoError>, batch: &mut Batch) {
        match (self, result) {
            (Self::Read(later, bytes), Ok(())) => batch.answer(later, &Answer::Data(&bytes)),
            (Self::Done(later), Ok(())) => batch.answer(later, &Answer::Done),
            (Self::Piece(pieces), result) => pieces.done(result),
            (Self::Read(later, _) | Self::Done(later), Err(error)) => {
                batch.answer(later, &failed(error));
            }
        }
    }
}

impl core::fmt::Debug for Reply {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut shown = f.debug_tuple("Reply");
        match self {
            Self::Read(later, _) | Self::Done(later) => shown.field(later.command()).finish(),
            Self::Piece(pieces) => shown.field(pieces).finish(),
        }
    }
}

impl Sink for Reply {
    fn done(self, result: Result<(), IoError>) {
        match (self, result) {
            (Self::Read(later, bytes), Ok(())) => later.answer(&Answer::Data(&bytes)),
            (Self::Done(later), Ok(())) => later.answer(&Answer::Done),
            (Self::Piece(pieces), result) => pieces.done(result),
            (Self::Read(later, _) | Self::Done(later), Err(error)) => later.answer(&failed(error)),
        }
    }

    fn buffer(&mut self) -> &mut [u8] {
        match self {
            Self::Read(_, bytes) => bytes,
            Self::Done(_) | Self::Piece(_) => &mut [],
        }
    }
}

/// Export information about a volume (size, flags, description) that NBD clients receive.
fn info(live: &Served, volume: u32, read_only: bool) -> Info {
    let (description, rotational) = live.look(|machine, _, _| {
        let system = machine.system();
        let name = &system.volumes[volume as usize].name;
        let words = format!("{name} in {}, emulated by iodyno", system.name);
        (words, system.is_rotational(volume))
    });
    described(live.capacity_bytes(volume), description, rotational, read_only)
}

/// Describes an export to NBD clients: its size, description, block sizes and supported commands. `rotational` and
/// `read_only` become flags of the export.
pub fn described(size_bytes: u64, description: String, rotational: bool, read_only: bool) -> Info {
    Info {
        size_bytes,
        min_block_bytes: 1,
        preferred_block_bytes: UNIT_BYTES as u32,
        max_payload_bytes: iodyno_nbd::wire::PAYLOAD_MAX,
        description,
        read_only,
        rotational,
        flush: true,
        fua: true,
        trim: true,
        write_zeroes: true,
        fast_zero: false,
        cache: true,
        multi_conn: true,
        df: true,
        block_status: true,
    }
}

/// An NBD export of one volume of a served machine.
#[derive(Debug)]
pub struct Volume {
    live: Arc<Served>,
    number: u32,
    first_worker: u32,
    connections: AtomicU32,
    info: Info,
}

impl Volume {
    /// Creates the NBD export of a volume. Its connections use [`WORKERS`] worker threads of the emulated host,
    /// numbered from `first_worker`. `read_only`: the server refuses writes.
    pub fn new(live: Arc<Served>, number: u32, first_worker: u32, read_only: bool) -> Self {
        let info = info(&live, number, read_only);
        Self { live, number, first_worker, connections: AtomicU32::new(0), info }
    }

    /// Sets the smallest size and alignment of requests, bytes; a power of two.
    #[must_use]
    pub fn with_min_block(mut self, bytes: u32) -> Self {
        self.info.min_block_bytes = bytes;
        self
    }
}

impl Export for Volume {
    fn info(&self) -> Info {
        Info { size_bytes: self.live.size_bytes(self.number), ..self.info.clone() }
    }

    fn open(&self, peer: &Peer) -> io::Result<Box<dyn Session>> {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let worker = self.first_worker + number % WORKERS;
        let live = Arc::clone(&self.live);
        let lead = Lead::new(Arc::clone(&live));
        let attached = live.attach(self.number, Some(Arc::new(Line(peer.clone()))));
        Ok(Box::new(Client { live, volume: self.number, worker, attached, lead, woken: false }))
    }
}

/// An NBD connection that is closed when the emulated host's power fails.
#[derive(Debug)]
struct Line(Peer);

impl HangUp for Line {
    fn hang_up(&self) {
        self.0.hang_up();
    }
}

/// State of one NBD connection.
struct Client {
    live: Arc<Served>,
    volume: u32,
    worker: u32,
    attached: Attached,
    lead: Lead<Waiter>,
    /// Whether this connection's thread had to be woken for the request that it submits next.
    woken: bool,
}

impl Client {
    fn start(&self, op: &Op, payload: Payload<'_>, reply: Reply) {
        // A request that had to wake the thread arrived earlier.
        let waited_ns = if self.woken { self.live.waking_ns() } else { 0 };
        let waiter = Waiter::Nbd(reply);
        let client = served::Client { attached: Some(&self.attached), waited_ns };
        self.live.submit_of(client, self.worker, self.volume, op, payload, waiter);
    }
}

impl Session for Client {
    /// Delivers completions on the thread that submitted the requests: those that are due now, and those that will be
    /// due before a reply sent now could reach the client.
    fn submitted(&mut self) {
        self.live.try_poll(Looks::default());
        self.lead.request_submitted();
        self.woken = false;
    }

    fn woken(&mut self) {
        self.woken = true;
    }

    fn taken(&mut self, after: Duration) {
        self.live.taken(after.as_nanos() as u64);
    }

    fn poll(&mut self, owed: bool) -> bool {
        self.lead.poll(owed)
    }

    fn may_block(&mut self) {
        self.lead.leave();
    }

    fn submit(&mut self, io: Io<'_>) {
        let command = *io.command();
        let (offset_bytes, len_bytes) = (command.offset_bytes, command.len_bytes);
        let fua = io.fua();
        let op = |kind, offset_bytes, len_bytes| Op { offset_bytes, len_bytes, kind, fua };
        match command.kind {
            Kind::Flush => self.start(&Op::FLUSH, Payload::None, Reply::Done(io.later())),
            Kind::BlockStatus => {
                let len = len_bytes.min(STATUS_BYTES_MAX);
                let extents = self.live.look(|machine, stores, _| {
                    match store_of(machine, stores, self.volume) {
                        Some(store) => extents(store, offset_bytes, len),
                        None => vec![(len, 0)],
                    }
                });
                io.answer(&Answer::Extents(&extents));
            }
            Kind::Cache | Kind::Disc => io.answer(&Answer::Done),
            _ if len_bytes == 0 => io.answer(&Answer::Done),
            Kind::Read => {
                let reply = Reply::Read(io.later(), vec![0; len_bytes as usize]);
                let op = op(OpKind::Read, offset_bytes, len_bytes);
                self.start(&op, Payload::ReadIntoSink, reply);
            }
            Kind::Write => {
                let bytes = io.data();
                let op = op(OpKind::Write, offset_bytes, len_bytes);
                self.start(&op, Payload::Write(bytes), Reply::Done(io.later()));
            }
            // The client asks for allocated zeros, as a write leaves them.
            Kind::WriteZeroes if command.flags.has(CmdFlags::NO_HOLE) => {
                let later = io.later();
                let pieces = Arc::new(Pieces::new(move |result| Reply::Done(later).done(result)));
                let end = offset_bytes + u64::from(len_bytes);
                for at in (offset_bytes..end).step_by(ZEROS.len()) {
                    let zeros = &ZEROS[..(end - at).min(ZEROS.len() as u64) as usize];
                    let op = op(OpKind::Write, at, zeros.len() as u32);
                    self.start(&op, Payload::Write(zeros), Reply::Piece(Arc::clone(&pieces)));
                }
            }
            Kind::Trim | Kind::WriteZeroes => {
                let kind =
                    if command.kind == Kind::Trim { OpKind::Trim } else { OpKind::WriteZeroes };
                let op = op(kind, offset_bytes, len_bytes);
                self.start(&op, Payload::None, Reply::Done(io.later()));
            }
        }
    }
}

/// Converts an NBD command to an operation; `None` for a command that is not an operation, such as a block status
/// request or a disconnect.
pub fn operation(command: &Command) -> Option<Op> {
    let kind = match command.kind {
        Kind::Flush => return Some(Op::FLUSH),
        Kind::Read => OpKind::Read,
        Kind::Write => OpKind::Write,
        Kind::Trim => OpKind::Trim,
        Kind::WriteZeroes if command.flags.has(CmdFlags::NO_HOLE) => OpKind::Write,
        Kind::WriteZeroes => OpKind::WriteZeroes,
        Kind::BlockStatus | Kind::Cache | Kind::Disc => return None,
    };
    let Command { offset_bytes, len_bytes, flags, .. } = *command;
    Some(Op { offset_bytes, len_bytes, kind, fua: flags.has(CmdFlags::FUA) })
}

/// Block status of a range as NBD defines it: length in bytes and status flags of each extent.
pub fn extents(store: &Store, offset_bytes: u64, len_bytes: u32) -> Vec<(u32, u32)> {
    const HOLE_AND_ZERO: u32 = 3;
    let all = store.extents(offset_bytes, u64::from(len_bytes), EXTENTS_MAX).unwrap_or_default();
    all.into_iter().map(|e| (e.len_bytes as u32, if e.data { 0 } else { HOLE_AND_ZERO })).collect()
}
