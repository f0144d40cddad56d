//! Threads that read parts of a target ahead of need. The parts are delivered in the order of the requests.

use iodyno_msglog::storage::Buffer;
use iodyno_msglog::{ReadAhead, Storage};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Number of threads per read-ahead stream, and thus of its concurrent reads.
const THREADS: usize = 8;

/// A read in the queue of the reading threads.
struct Job {
    number: u64,
    offset_bytes: u64,
    bytes: usize,
    buffer: Box<dyn Buffer>,
    into: usize,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    done: BTreeMap<u64, (Box<dyn Buffer>, io::Result<()>)>,
    is_over: bool,
}

struct Queue {
    jobs: Mutex<Jobs>,
    /// Signalled when a read is queued; the reading threads wait on it.
    work: Condvar,
    /// Signalled when a read has completed; the consumer of the results waits on it.
    ended: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, storage: &dyn Storage) {
        let mut jobs = self.lock();
        loop {
            if jobs.is_over {
                return;
            }
            let Some(mut job) = jobs.waiting.pop_front() else {
                jobs = self.work.wait(jobs).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(jobs);
            // A panic counts as a failed read: the consumer waits for a result.
            let read = AssertUnwindSafe(|| {
                let to = &mut (*job.buffer).as_mut()[job.into..job.into + job.bytes];
                storage.read_at(job.offset_bytes, to)
            });
            let result = catch_unwind(read).unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
            jobs = self.lock();
            jobs.done.insert(job.number, (job.buffer, result));
            self.ended.notify_one();
        }
    }
}

/// A pool of threads that read a target ahead of need, with blocking reads.
pub struct ReadingThreads {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
    /// Number of the next read to queue. The next field, `taken`, is the number of the next result to return.
    begun: u64,
    taken: u64,
    /// Permit that counts this stream towards the limit on read-ahead streams; `None` if there is no limit.
    _permit: Option<Permit>,
}

impl core::fmt::Debug for ReadingThreads {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ReadingThreads").field("begun", &self.begun).finish_non_exhaustive()
    }
}

impl ReadingThreads {
    /// Starts the threads for reading ahead on a target. `None` if the system can't create them.
    pub fn start(storage: &Arc<dyn Storage>) -> Option<Box<dyn ReadAhead>> {
        Self::with_permit(storage, None)
    }

    pub(crate) fn with_permit(
        storage: &Arc<dyn Storage>,
        permit: Option<Permit>,
    ) -> Option<Box<dyn ReadAhead>> {
        let queue =
            Arc::new(Queue { jobs: Mutex::default(), work: Condvar::new(), ended: Condvar::new() });
        let mut all = Self { queue, threads: Vec::new(), begun: 0, taken: 0, _permit: permit };
        for _ in 0..THREADS {
            let (queue, storage) = (Arc::clone(&all.queue), Arc::clone(storage));
            let run = move || queue.run(&*storage);
            // Dropping `all` ends the threads created so far.
            all.threads.push(thread::Builder::new().name("log-ahead".to_owned()).spawn(run).ok()?);
        }
        Some(Box::new(all))
    }
}

impl ReadAhead for ReadingThreads {
    fn begin(&mut self, offset_bytes: u64, bytes: usize, buffer: Box<dyn Buffer>, into: usize) {
        let number = self.begun;
        self.begun += 1;
        self.queue.lock().waiting.push_back(Job { number, offset_bytes, bytes, buffer, into });
        self.queue.work.notify_one();
    }

    fn take(&mut self) -> Option<(Box<dyn Buffer>, io::Result<()>)> {
        if self.taken == self.begun {
            return None;
        }
        let mut jobs = self.queue.lock();
        loop {
            if let Some(done) = jobs.done.remove(&self.taken) {
                self.taken += 1;
                return Some(done);
            }
            jobs = self.queue.ended.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for ReadingThreads {
    fn drop(&mut self) {
        self.queue.lock().is_over = true;
        self.queue.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Permit for one stream to read ahead, returned when dropped. The number of permits is limited.
pub(crate) struct Permit {
    _one: Arc<()>,
}

impl Permit {
    /// Returns a permit, or `None` if `most` permits are in use. Each permit holds a reference to `all`, which counts
    /// them.
    pub(crate) fn of(all: &Arc<()>, most: usize) -> Option<Self> {
        // `all` itself holds one reference.
        (Arc::strong_count(all) <= most).then(|| Self { _one: Arc::clone(all) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::MemoryStorage;

    #[test]
    fn reads_are_taken_in_their_order_with_what_lies_there() {
        let storage = MemoryStorage::new(1 << 20);
        let bytes: Vec<u8> = (0..1 << 20).map(|i| (i / 4096 % 251) as u8).collect();
        storage.write_at(0, &bytes).unwrap();
        let storage: Arc<dyn Storage> = Arc::new(storage);
        let mut reads = ReadingThreads::start(&storage).unwrap();
        assert!(reads.take().is_none());
        for place in [9, 200, 3, 77, 256] {
            reads.begin(place * 4096, 4096, storage.buffer(8192), 4096);
        }
        for place in [9, 200, 3, 77] {
            let (buffer, result) = reads.take().unwrap();
            assert!(result.is_ok());
            let (before, read) = (*buffer).as_ref().split_at(4096);
            assert_eq!((before, read), (&[0; 4096][..], &[place as u8; 4096][..]));
        }
        let (_, behind_the_end) = reads.take().unwrap();
        assert_eq!(behind_the_end.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        // Reads that were begun and not taken do not block dropping.
        reads.begin(0, 4096, storage.buffer(4096), 0);
        drop(reads);
        assert_eq!(Arc::strong_count(&storage), 1, "a reading thread still runs");
    }

    #[test]
    fn permits_are_limited_and_come_back() {
        let all = Arc::new(());
        let first = Permit::of(&all, 2);
        let second = Permit::of(&all, 2);
        assert!(first.is_some() && second.is_some());
        assert!(Permit::of(&all, 2).is_none());
        drop(first);
        assert!(Permit::of(&all, 2).is_some());
    }
}
