//! An emulated volume in real time as a log's storage. Its data is in memory, so the log ends with the server. No
//! thread runs the emulation: the thread that waits for an operation advances it.

use super::aligned::{ALIGN_BYTES, AlignedBuffer};
use super::{OpenStorage, PAGE_BYTES};
use iodyno_emulate::{Machine, System};
use iodyno_live::frontend::nbd::WORKERS;
use iodyno_live::poller;
use iodyno_live::served::{Live, NEVER, Options, Payload, Sink, stores_in_memory};
use iodyno_msglog::Storage;
use iodyno_msglog::storage::Buffer;
use iodyno_units::{IoError, Op, OpKind};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// Number of the emulated host's worker threads that all readers share; the log's writer has its own.
const READERS: u32 = WORKERS - 1;
/// Number of the emulated volume that contains the log.
const VOLUME: u32 = 0;

/// Storage on an emulated volume.
#[derive(Debug)]
struct LiveStorage {
    live: Live<Waiter>,
    capacity_bytes: u64,
    /// Whether reads return their data only at completion, as on an array, and not already at submission.
    reads_late: bool,
    next_reader: AtomicU32,
}

/// Result of an operation, shared with the thread that waits for it.
#[derive(Debug, Default)]
struct Ended {
    result: OnceLock<Result<(), IoError>>,
    /// Data of a read that returns its data only at completion.
    bytes: Mutex<Vec<u8>>,
}

impl Ended {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Receives an operation's completion, and stores its result for the waiting thread.
#[derive(Debug)]
struct Waiter {
    ended: Arc<Ended>,
    bytes: Vec<u8>,
}

impl Sink for Waiter {
    fn done(self, result: Result<(), IoError>) {
        *self.ended.bytes() = self.bytes;
        // An operation ends only once.
        let _ = self.ended.result.set(result);
    }

    fn buffer(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// Time since the first call of this function, ns.
fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

impl LiveStorage {
    /// Creates storage on the first `capacity_bytes` bytes of the first volume of a new emulated system.
    ///
    /// # Errors
    /// The system description is not valid. The message states the rule that it violates.
    fn new(system: &System, capacity_bytes: u64, seed: u64) -> Result<Self, String> {
        system.check_served()?;
        let mut machine = Machine::new(system, seed)?;
        for _ in 0..WORKERS {
            machine.add_worker(VOLUME);
        }
        let reads_late = !machine.system().is_device(VOLUME);
        let stores = stores_in_memory(system, u64::MAX);
        let live = Live::new(machine, stores, &Options::default(), now_ns);
        let capacity_bytes = capacity_bytes.min(live.capacity_bytes(VOLUME));
        Ok(Self { live, capacity_bytes, reads_late, next_reader: AtomicU32::new(0) })
    }

    /// Submits an operation to the emulated volume, and waits until it has completed.
    fn operate(
        &self,
        worker: u32,
        op: &Op,
        payload: Payload<'_>,
        bytes: Vec<u8>,
    ) -> io::Result<Arc<Ended>> {
        let ended = Arc::new(Ended::default());
        let waiter = Waiter { ended: Arc::clone(&ended), bytes };
        self.live.submit(worker, VOLUME, op, payload, waiter);
        poller::wait(&self.live, NEVER, || ended.result.get().is_some());
        match ended.result.get() {
            Some(Err(error)) => Err(io::Error::from_raw_os_error(error.errno())),
            _ => Ok(ended),
        }
    }
}

fn op(kind: OpKind, offset_bytes: u64, len: usize) -> Op {
    // Buffers have less than 4 GiB.
    Op { offset_bytes, len_bytes: len as u32, kind, fua: false }
}

impl Storage for LiveStorage {
    fn read_at(&self, offset_bytes: u64, to: &mut [u8]) -> io::Result<()> {
        if offset_bytes + to.len() as u64 > self.capacity_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let worker = 1 + self.next_reader.fetch_add(1, Ordering::Relaxed) % READERS;
        let op = op(OpKind::Read, offset_bytes, to.len());
        if self.reads_late {
            let ended = self.operate(worker, &op, Payload::ReadIntoSink, vec![0; to.len()])?;
            to.copy_from_slice(&ended.bytes());
            return Ok(());
        }
        self.operate(worker, &op, Payload::Read(to), Vec::new()).map(drop)
    }

    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        let op = op(OpKind::Write, offset_bytes, bytes.len());
        self.operate(0, &op, Payload::Write(bytes), Vec::new()).map(drop)
    }

    fn flush(&self) -> io::Result<()> {
        self.operate(0, &Op::FLUSH, Payload::None, Vec::new()).map(drop)
    }

    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn buffer(&self, bytes: usize) -> Box<dyn Buffer> {
        Box::new(AlignedBuffer::new(bytes, ALIGN_BYTES))
    }
}

/// Opens the first volume of a new emulated system as storage for a log.
///
/// # Errors
/// The system description is not valid. The message states the rule that it violates.
pub fn open_live(system: &System, capacity_bytes: u64, seed: u64) -> Result<OpenStorage, String> {
    let storage = LiveStorage::new(system, capacity_bytes, seed)?;
    Ok(OpenStorage {
        storage: Arc::new(storage),
        block_bytes: PAGE_BYTES as u32,
        words: "emulated storage in real time, with its data in memory: no message survives the end of the process"
            .to_owned(),
        lifted: Vec::new(),
        made_here: true,
    })
}
