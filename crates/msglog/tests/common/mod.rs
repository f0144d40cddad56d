//! A disk with a volatile cache, and histories of a log on it. Tests are in the files that use it.

use iodyno_msglog::recovery::{create, recover};
use iodyno_msglog::storage::Buffer;
use iodyno_msglog::{
    Action, AppendError, Chunk, CommitRule, Durability, Layout, Log, LogOptions, Message,
    MessageKind, State, Storage,
};
use iodyno_units::rng::{Generator, below, stream};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// A disk tears writes at this size.
const SECTOR_BYTES: usize = 512;

/// What is wrong with the machine under test, so that the histories can be tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    None,
    /// The disk acknowledges flushes and keeps its cache.
    FlushIsIgnored,
    /// Messages count as persisted when they are written.
    AcknowledgesBeforeFlush,
    /// Recovery takes what stands behind a torn chunk.
    CutsNothing,
}

#[derive(Debug, Default)]
struct Content {
    durable: Vec<u8>,
    /// Writes that completed since the last flush, or are in flight.
    pending: Vec<(u64, Vec<u8>)>,
}

/// A disk in memory.
#[derive(Debug, Default)]
pub struct Disk {
    content: Mutex<Content>,
}

impl Disk {
    pub fn new(bytes: usize) -> Self {
        Self { content: Mutex::new(Content { durable: vec![0; bytes], pending: Vec::new() }) }
    }

    fn content(&self) -> std::sync::MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin_write(&self, offset_bytes: u64, bytes: &[u8]) {
        self.content().pending.push((offset_bytes, bytes.to_vec()));
    }

    /// Makes the first `count` writes since the last flush durable.
    fn flush_first(&self, count: usize) {
        let content = &mut *self.content();
        for (offset, bytes) in content.pending.drain(..count) {
            content.durable[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
    }

    /// Of each write since the last flush any sectors may be there.
    fn cut_power(&self, rng: &mut Generator) {
        let content = &mut *self.content();
        for (offset, bytes) in content.pending.drain(..) {
            let kind = below(rng, 3);
            for (i, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                if kind == 0 || (kind == 1 && below(rng, 2) == 0) {
                    let at = offset as usize + i * SECTOR_BYTES;
                    content.durable[at..at + sector.len()].copy_from_slice(sector);
                }
            }
        }
    }

    pub fn change(&self, at: usize, change: impl Fn(&mut [u8])) {
        change(&mut self.content().durable[at..]);
    }
}

impl Storage for Disk {
    fn read_at(&self, offset_bytes: u64, to: &mut [u8]) -> io::Result<()> {
        let content = self.content();
        let from = content.durable.get(offset_bytes as usize..).unwrap_or_default();
        let from = from.get(..to.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        to.copy_from_slice(from);
        Ok(())
    }

    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        self.begin_write(offset_bytes, bytes);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let count = self.content().pending.len();
        self.flush_first(count);
        Ok(())
    }

    fn capacity_bytes(&self) -> u64 {
        self.content().durable.len() as u64
    }

    fn buffer(&self, bytes: usize) -> Box<dyn Buffer> {
        Box::new(vec![0; bytes])
    }
}

/// A message of the history's own record.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Published {
    kind: MessageKind,
    time_ns: u64,
    key: Vec<u8>,
    body: Vec<u8>,
}

fn random_bytes(rng: &mut Generator, len: u64) -> Vec<u8> {
    (0..len).map(|_| below(rng, 256) as u8).collect()
}

/// One log through several power cuts.
pub fn history(seed: u64, defect: Defect) -> Result<(), String> {
    let rng = &mut stream(seed, "log history", 0);
    let align_bytes = [512, 4096][below(rng, 2) as usize];
    let chunk_bytes = [4096, 8192, 16384][below(rng, 3) as usize];
    let segment_bytes = u64::from(chunk_bytes) * (1 + below(rng, 6));
    let slots = 4 + below(rng, 6);
    let capacity_bytes = (64 << 10) + segment_bytes * slots + below(rng, 4) * 512;
    let layout = Layout::new(seed | 1, capacity_bytes, segment_bytes, chunk_bytes, align_bytes)
        .map_err(|e| e.to_string())?;
    let options = LogOptions {
        commit: CommitRule {
            durability: [Durability::Batch, Durability::Batch, Durability::Each]
                [below(rng, 3) as usize],
            fua: false,
            chunks_max: 1 + below(rng, 5) as u32,
            depth: 1 + below(rng, 4) as u32,
        },
        chunk_messages_max: [u32::MAX, 3][below(rng, 2) as usize],
        queue_chunks_max: 2 + below(rng, 8) as usize,
        retain_ns: 0,
        keeps_state: true,
    };
    let disk = Disk::new(capacity_bytes as usize);
    create(&disk, &layout).map_err(|e| e.to_string())?;
    // What was published in all, by number, as far as the log gave a number.
    let mut published: BTreeMap<u64, Published> = BTreeMap::new();
    let mut clock_ns = 1;
    let keys = 1 + below(rng, 12);
    let body_max = [40, 300, 2000][below(rng, 3) as usize];
    for life in 0..4 {
        let (mut log, chunk_errors) = open(&disk, layout, options, &published, defect)?;
        if let Some(what) = chunk_errors {
            return Err(format!("life {life}: {what}"));
        }
        published.split_off(&log.next_message());
        let mut persisted = log.persisted();
        let mut writes: Vec<(u64, u64, Vec<u8>)> = Vec::new();
        // A flush in flight covers what had completed when it was issued.
        let mut flush: Option<usize> = None;
        for _ in 0..below(rng, 160) {
            match below(rng, 8) {
                0..4 => {
                    clock_ns += below(rng, 50);
                    let has_key = below(rng, 3) > 0;
                    let message = Published {
                        kind: if has_key && below(rng, 5) == 0 {
                            MessageKind::Delete
                        } else {
                            MessageKind::Publish
                        },
                        time_ns: clock_ns,
                        key: if has_key { vec![below(rng, keys) as u8] } else { Vec::new() },
                        body: {
                            let len = below(rng, body_max);
                            random_bytes(rng, len)
                        },
                    };
                    let bytes = chunk_bytes as usize;
                    match log.append(&as_message(&message), &mut || vec![0xA5; bytes]) {
                        Ok(number) => {
                            if published.insert(number, message).is_some() {
                                return Err(format!("number {number} was given twice"));
                            }
                        }
                        Err(AppendError::Busy | AppendError::Full { .. }) => {}
                        Err(e) => return Err(e.to_string()),
                    }
                }
                4..6 => match log.next_action() {
                    Some(Action::Write { chunk, offset_bytes, len_bytes, buffer }) => {
                        writes.push((chunk, offset_bytes, buffer[..len_bytes].to_vec()));
                    }
                    Some(Action::Flush) => {
                        flush = Some(disk.content().pending.len());
                    }
                    None => {}
                },
                6 if !writes.is_empty() => {
                    let at = below(rng, writes.len() as u64) as usize;
                    let (chunk, offset, bytes) = writes.swap_remove(at);
                    disk.begin_write(offset, &bytes);
                    log.written(chunk, true);
                    if defect == Defect::AcknowledgesBeforeFlush {
                        persisted = persisted.max(log.next_message());
                    }
                }
                _ => {
                    if let Some(count) = flush.take() {
                        if defect != Defect::FlushIsIgnored {
                            disk.flush_first(count);
                        }
                        log.flushed(true);
                    }
                }
            }
            while let Some(chunk) = log.next_persisted() {
                log.recycle(chunk.buffer);
            }
            persisted = persisted.max(log.persisted());
        }
        // Power is lost: writes in flight may have reached the disk in part.
        for (_, offset, bytes) in writes {
            disk.begin_write(offset, &bytes);
        }
        let state = log.state().clone();
        disk.cut_power(rng);
        check(&disk, &layout, &published, persisted, &state, defect)
            .map_err(|what| format!("life {life}, {persisted} persisted: {what}"))?;
    }
    Ok(())
}

fn as_message(it: &Published) -> Message<'_> {
    Message {
        kind: it.kind,
        publisher: 0,
        sequence: 0,
        time_ns: it.time_ns,
        topic: "t",
        key: &it.key,
        body: &it.body,
    }
}

type Opened = (Log<Vec<u8>>, Option<String>);

fn open(
    disk: &Disk,
    layout: Layout,
    options: LogOptions,
    published: &BTreeMap<u64, Published>,
    defect: Defect,
) -> Result<Opened, String> {
    let mut wrong = None;
    let mut visit = |chunk: &Chunk<'_>| {
        for (number, message) in chunk.messages() {
            let is_same = published.get(&number).is_some_and(|it| as_message(it) == message);
            if !is_same {
                wrong = Some(format!("message {number} is not what was published"));
            }
        }
    };
    let found = recover(disk, &mut visit).map_err(|e| e.to_string())?;
    if found.layout != layout || (!found.damages.is_empty() && defect == Defect::None) {
        return Err(format!("opened as {:?} with {:?}", found.layout, found.damages));
    }
    Ok((Log::new(layout, options, found.tail, found.state), wrong))
}

/// What is on the disk is what was persisted, and perhaps some that was published after it.
fn check(
    disk: &Disk,
    layout: &Layout,
    published: &BTreeMap<u64, Published>,
    persisted: u64,
    state: &State,
    defect: Defect,
) -> Result<(), String> {
    let mut numbers = Vec::new();
    let mut wrong = None;
    let found = recover(disk, |chunk| {
        for (number, message) in chunk.messages() {
            numbers.push(number);
            if !published.get(&number).is_some_and(|it| as_message(it) == message) {
                wrong = Some(format!("message {number} is not what was published"));
            }
        }
    })
    .map_err(|e| e.to_string())?;
    if let Some(what) = wrong {
        return Err(what);
    }
    if let Some(damage) = found.damages.first() {
        return Err(format!("damage: {damage}"));
    }
    let tail = if defect == Defect::CutsNothing {
        // As if all that was written were there.
        published.keys().last().map_or(1, |last| last + 1)
    } else {
        found.tail.next_message
    };
    if tail < persisted {
        return Err(format!("ends before message {tail}"));
    }
    let first = numbers.first().copied().unwrap_or(tail);
    if !numbers.iter().copied().eq(first..tail) {
        return Err(format!("messages {first} to {tail} with gaps: {} of them", numbers.len()));
    }
    let kept_at_least = u64::from(found.tail.oldest_segment == 0);
    if kept_at_least == 1 && first != 1 {
        return Err(format!("begins at {first}, and nothing was dropped"));
    }
    // The state is what all messages up to here give, also those whose segments were dropped.
    let expected = |end: u64| {
        let mut expected = State::default();
        for (&number, it) in published.range(..end) {
            expected.apply(&as_message(it), number, 0);
        }
        expected
    };
    same_values(&found.state, &expected(tail)).map_err(|e| format!("after the cut, {e}"))?;
    if defect == Defect::None {
        same_values(state, &expected(persisted)).map_err(|e| format!("before the cut, {e}"))?;
    }
    if found.tail.position > 0
        && found.tail.position < layout.segment_start(found.tail.oldest_segment)
    {
        return Err("the tail is before the oldest segment".into());
    }
    Ok(())
}

fn same_values(ours: &State, expected: &State) -> Result<(), String> {
    let values = |state: &State| -> Vec<(Vec<u8>, u64, Vec<u8>)> {
        state.values("t").map(|(key, it)| (key.to_vec(), it.number, it.body.to_vec())).collect()
    };
    let (ours, expected) = (values(ours), values(expected));
    if ours == expected {
        return Ok(());
    }
    let keys = |values: &[(Vec<u8>, u64, Vec<u8>)]| -> Vec<(u8, u64)> {
        values.iter().map(|(key, number, _)| (key[0], *number)).collect()
    };
    Err(format!("keys with numbers {:?} for {:?}", keys(&ours), keys(&expected)))
}

/// A buffer that the disk's users share.
pub fn shared(disk: Disk) -> Arc<Disk> {
    Arc::new(disk)
}
