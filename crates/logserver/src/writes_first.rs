//! Storage that gives writes and flushes priority over reads. While messages are being made durable, all readers of old
//! messages together have one small read in flight. Without this limit, their reads would fill the device's queue, and
//! every message would wait for them: 16 readers with 8 reads of 1 MiB each occupy a device of 1.3 GB/s for 100 ms.

use crate::gate::Gate;
use iodyno_msglog::Storage;
use iodyno_msglog::storage::Buffer;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Maximum size of a read while there are writes, bytes. It takes a quarter of a millisecond at 1 GB/s.
const PIECE_BYTES: usize = 256 << 10;
/// Time after a write or flush for which reads stay limited.
const QUIET: Duration = Duration::from_millis(20);
/// Interval at which a waiting reader checks whether writes have ended.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Storage wrapper that limits reads while there are writes, so that writes and flushes have priority.
pub(crate) struct WritesFirst {
    storage: Arc<dyn Storage>,
    /// Admits one read at a time while there are writes.
    turns: Gate,
    began: Instant,
    /// Number of writes and flushes in progress, which may take longer than [`QUIET`].
    writes: AtomicUsize,
    /// Completion time of the last write or flush, ns since `began`; 0 before the first.
    written_ns: AtomicU64,
}

impl WritesFirst {
    pub(crate) fn new(storage: Arc<dyn Storage>) -> Self {
        Self {
            storage,
            turns: Gate::with_places(1),
            began: Instant::now(),
            writes: AtomicUsize::new(0),
            written_ns: AtomicU64::new(0),
        }
    }

    fn is_written(&self) -> bool {
        let written_ns = self.written_ns.load(Ordering::Relaxed);
        let quiet = self.began.elapsed().saturating_sub(Duration::from_nanos(written_ns));
        self.writes.load(Ordering::Relaxed) > 0 || (written_ns > 0 && quiet < QUIET)
    }

    fn while_written<T>(&self, work: impl FnOnce() -> T) -> T {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let _ended = Ended(self);
        work()
    }
}

/// Guard that records the end of a write or flush when dropped, even after a panic.
struct Ended<'a>(&'a WritesFirst);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let now_ns = self.0.began.elapsed().as_nanos() as u64;
        self.0.written_ns.store(now_ns.max(1), Ordering::Relaxed);
        self.0.writes.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Storage for WritesFirst {
    fn read_at(&self, mut offset_bytes: u64, mut to: &mut [u8]) -> io::Result<()> {
        while !to.is_empty() && self.is_written() {
            let Some(_turn) = self.turns.pass(LOOK_EVERY) else { continue };
            let (piece, rest) = to.split_at_mut(to.len().min(PIECE_BYTES));
            self.storage.read_at(offset_bytes, piece)?;
            offset_bytes += piece.len() as u64;
            to = rest;
        }
        if to.is_empty() { Ok(()) } else { self.storage.read_at(offset_bytes, to) }
    }

    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        self.while_written(|| self.storage.write_at(offset_bytes, bytes))
    }

    fn flush(&self) -> io::Result<()> {
        self.while_written(|| self.storage.flush())
    }

    fn capacity_bytes(&self) -> u64 {
        self.storage.capacity_bytes()
    }

    fn buffer(&self, bytes: usize) -> Box<dyn Buffer> {
        self.storage.buffer(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::MemoryStorage;
    use std::sync::Mutex;
    use std::thread;

    /// Test storage that records the lengths of reads and the maximum number of concurrent reads.
    struct Counted {
        storage: MemoryStorage,
        now: AtomicUsize,
        most: AtomicUsize,
        lengths: Mutex<Vec<usize>>,
    }

    impl Storage for Counted {
        fn read_at(&self, offset_bytes: u64, to: &mut [u8]) -> io::Result<()> {
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            self.lengths.lock().unwrap().push(to.len());
            thread::sleep(Duration::from_millis(2));
            self.now.fetch_sub(1, Ordering::SeqCst);
            self.storage.read_at(offset_bytes, to)
        }
        fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
            self.storage.write_at(offset_bytes, bytes)
        }
        fn flush(&self) -> io::Result<()> {
            self.storage.flush()
        }
        fn capacity_bytes(&self) -> u64 {
            self.storage.capacity_bytes()
        }
        fn buffer(&self, bytes: usize) -> Box<dyn Buffer> {
            self.storage.buffer(bytes)
        }
    }

    #[test]
    fn reads_take_turns_while_there_are_writes_and_give_the_same_bytes() {
        let bytes: Vec<u8> = (0..3 << 20).map(|i| (i / 4096 % 251) as u8).collect();
        let storage = MemoryStorage::new(bytes.len() as u64);
        storage.write_at(0, &bytes).unwrap();
        let counted = Arc::new(Counted {
            storage,
            now: AtomicUsize::default(),
            most: AtomicUsize::default(),
            lengths: Mutex::default(),
        });
        let paced = WritesFirst::new(Arc::clone(&counted) as Arc<dyn Storage>);
        let read = |offset: usize, len: usize| {
            let mut buffer = paced.buffer(len);
            paced.read_at(offset as u64, (*buffer).as_mut()).unwrap();
            assert_eq!((*buffer).as_ref(), &bytes[offset..offset + len]);
        };
        read(4096, 2 << 20);
        assert_eq!(*counted.lengths.lock().unwrap(), [2 << 20], "nothing was written yet");
        counted.lengths.lock().unwrap().clear();
        counted.most.store(0, Ordering::SeqCst);
        // As if writes never ended.
        paced.flush().unwrap();
        paced.written_ns.store(u64::MAX, Ordering::Relaxed);
        thread::scope(|scope| {
            let read = &read;
            for i in 0..4 {
                scope.spawn(move || read(i << 12, (1 << 20) + 4096));
            }
        });
        assert_eq!(counted.most.load(Ordering::SeqCst), 1);
        let lengths = counted.lengths.lock().unwrap();
        assert_eq!(lengths.len(), 4 * 5, "{lengths:?}");
        assert!(lengths.iter().all(|len| *len <= PIECE_BYTES), "{lengths:?}");
        // No write for a time.
        paced.written_ns.store(1, Ordering::Relaxed);
        thread::sleep(QUIET);
        assert!(!paced.is_written());
        // A long write.
        paced.while_written(|| {
            thread::sleep(QUIET * 2);
            assert!(paced.is_written());
        });
    }
}
