//! A message log whose bytes were edited: overwritten, zeroed, moved, made unreadable, or forged with checksums that hold.
//! It is opened or refused; what is opened is read again in the same way, and takes new messages.

use crate::input::Input;
use iodyno_msglog::layout::{DESCRIPTION_BYTES, DESCRIPTION_OFFSETS, EpochStart};
use iodyno_msglog::log::Tail;
use iodyno_msglog::recovery::{ReplayFrom, begin_epoch, create, recover as open, replay};
use iodyno_msglog::storage::Buffer;
use iodyno_msglog::{
    Action, ChunkHeader, Layout, Log, LogOptions, Message, MessageKind, Recovered, State, Storage,
};
use std::io;
use std::ops::ControlFlow;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

const BLOCK_BYTES: usize = 512;
const CHUNK_BYTES: u32 = 4096;
const SEGMENT_BYTES: u64 = 4 * CHUNK_BYTES as u64;
const CAPACITY_BYTES: u64 = DESCRIPTION_BYTES + 5 * SEGMENT_BYTES;
/// Most edits of one input.
const EDITS_MAX: usize = 64;
/// Messages of each of the base's three lives. Together they fill the target more than once.
const MESSAGES: u64 = 150;

/// A disk in memory.
struct Disk {
    image: Mutex<Vec<u8>>,
    unreadable: Vec<usize>,
}

impl Disk {
    fn new(image: Vec<u8>) -> Self {
        Self { image: Mutex::new(image), unreadable: Vec::new() }
    }

    fn image(&self) -> MutexGuard<'_, Vec<u8>> {
        self.image.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for Disk {
    fn read_at(&self, offset_bytes: u64, to: &mut [u8]) -> io::Result<()> {
        assert!(offset_bytes.is_multiple_of(512) && to.len().is_multiple_of(512), "not aligned");
        let image = self.image();
        let from = image.get(offset_bytes as usize..).unwrap_or_default();
        let from = from.get(..to.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        let first = offset_bytes as usize / BLOCK_BYTES;
        let blocks = first..first + to.len() / BLOCK_BYTES;
        if self.unreadable.iter().any(|block| blocks.contains(block)) {
            to.fill(0xEE);
            return Err(io::ErrorKind::InvalidData.into());
        }
        to.copy_from_slice(from);
        Ok(())
    }

    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        let mut image = self.image();
        let to = image.get_mut(offset_bytes as usize..).unwrap_or_default();
        to.get_mut(..bytes.len()).ok_or(io::ErrorKind::StorageFull)?.copy_from_slice(bytes);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn capacity_bytes(&self) -> u64 {
        self.image().len() as u64
    }

    fn buffer(&self, bytes: usize) -> Box<dyn Buffer> {
        Box::new(vec![0; bytes])
    }
}

/// Appends messages, and carries out what the log asks for. Gives the number of the last message that was appended.
fn append(log: &mut Log<Vec<u8>>, disk: &Disk, numbers: std::ops::Range<u64>) -> Option<u64> {
    let chunk_bytes = log.layout().chunk_bytes as usize;
    let mut last = None;
    for n in numbers {
        let message = Message {
            kind: if n % 7 == 6 { MessageKind::Delete } else { MessageKind::Publish },
            publisher: n % 3,
            sequence: n,
            time_ns: 1000 * n,
            topic: "topic",
            key: &(n % 11).to_le_bytes(),
            body: if n % 7 == 6 { b"" } else { &[7; 300] },
        };
        let appended = log.append(&message, &mut || vec![0; chunk_bytes]);
        last = appended.ok().or(last);
        while let Some(action) = log.next_action() {
            match action {
                Action::Write { chunk, offset_bytes, len_bytes, buffer } => {
                    let written = disk.write_at(offset_bytes, &buffer[..len_bytes]);
                    drop(buffer);
                    log.written(chunk, written.is_ok());
                }
                Action::Flush => log.flushed(true),
            }
            while let Some(persisted) = log.next_persisted() {
                log.recycle(persisted.buffer);
            }
        }
    }
    last
}

fn continued(found: Recovered) -> Log<Vec<u8>> {
    Log::new(found.layout, LogOptions::default(), found.tail, found.state)
}

/// A log that was opened three times, and has overwritten its first segments.
static BASE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let layout = Layout::new(7, CAPACITY_BYTES, SEGMENT_BYTES, CHUNK_BYTES, 512).expect("a layout");
    let disk = Disk::new(vec![0; CAPACITY_BYTES as usize]);
    create(&disk, &layout).expect("a log");
    let mut log = Log::new(layout, LogOptions::default(), Tail::empty(), State::default());
    append(&mut log, &disk, 0..MESSAGES);
    for life in 1..3 {
        let found = open(&disk, |_| {}).expect("the log");
        begin_epoch(&disk, &found).expect("a next epoch");
        append(&mut continued(found), &disk, life * MESSAGES..(life + 1) * MESSAGES);
    }
    disk.image.into_inner().unwrap_or_else(PoisonError::into_inner)
});

/// What is found in [`BASE`].
static WHOLE: LazyLock<Recovered> =
    LazyLock::new(|| open(&Disk::new(BASE.clone()), |_| {}).expect("the log"));

/// Edits the log, opens it and continues it; true where it can be opened.
pub fn recover(data: &[u8]) -> bool {
    let mut disk = Disk::new(BASE.clone());
    let mut input = Input(data);
    let mut is_forged = false;
    for _ in 0..EDITS_MAX {
        let Some(kind) = input.byte() else { break };
        is_forged |= edit(&mut disk, kind, &mut input);
    }
    // If nothing but reads fails, no message is missing without damage or an error.
    let is_unchanged = *disk.image() == *BASE;
    if is_unchanged
        && let Ok(found) = open(&disk, |_| {})
        && found.damages.is_empty()
    {
        assert_eq!(found, *WHOLE);
    }
    judge(&disk, is_forged)
}

/// Carries out one edit; true where it forged a checksum.
fn edit(disk: &mut Disk, kind: u8, input: &mut Input<'_>) -> bool {
    let mut image = disk.image();
    let blocks = image.len() / BLOCK_BYTES;
    match kind % 7 {
        0 => {
            let at = input.below(image.len());
            let most = (input.number::<1>() as usize % 64 + 1).min(image.len() - at);
            let bytes = input.bytes(most);
            image[at..at + bytes.len()].copy_from_slice(bytes);
        }
        1 => {
            let at = BLOCK_BYTES * input.below(blocks);
            image[at..at + BLOCK_BYTES].fill(0);
        }
        2 => {
            let (from, to) = (input.below(blocks), input.below(blocks));
            let from = BLOCK_BYTES * from;
            image.copy_within(from..from + BLOCK_BYTES, BLOCK_BYTES * to);
        }
        3 => {
            let block = input.below(blocks);
            drop(image);
            disk.unreadable.push(block);
        }
        4 => return forge_chunk(&mut image, input),
        5 => {
            let layout = Layout::new(
                7,
                input.number::<3>() << 9,
                input.number::<2>() << 9,
                (input.number::<1>() as u32) << 9,
                512 << (input.number::<1>() % 8),
            );
            let Ok(layout) = layout else { return false };
            let start =
                EpochStart { epoch: input.number::<4>() as u32, position: input.number::<8>() };
            for offset in DESCRIPTION_OFFSETS {
                let block = layout.describe(start);
                image[offset as usize..][..block.len()].copy_from_slice(&block);
            }
            return true;
        }
        _ => {
            let len = BLOCK_BYTES * (blocks - input.below(blocks).min(16));
            image.truncate(len);
        }
    }
    false
}

/// Changes a field of a chunk's header, and seals the chunk again.
fn forge_chunk(image: &mut [u8], input: &mut Input<'_>) -> bool {
    let at = BLOCK_BYTES * input.below(image.len() / BLOCK_BYTES);
    let Some(mut header) = ChunkHeader::peek(&image[at..]) else { return false };
    let (field, value) = (input.number::<1>() % 9, input.number::<8>());
    match field {
        0 => header.position = value,
        1 => header.first_message = value,
        2 => header.durable_position = value,
        3 => header.time_ns = value,
        4 => header.messages = value as u32,
        5 => header.epoch = value as u32,
        6 => header.previous_checksum = value as u32,
        7 => header.is_last_of_segment = !header.is_last_of_segment,
        _ => header.used_bytes = header.used_bytes.min(value as u32).max(80),
    }
    let (used, length) = (header.used_bytes as usize, header.length_bytes as usize);
    if used > length || length > image.len() - at {
        return false;
    }
    header.seal(&mut image[at..]);
    true
}

fn judge(disk: &Disk, is_forged: bool) -> bool {
    for from in [ReplayFrom::Message(0), ReplayFrom::Message(200), ReplayFrom::TimeNs(300_000)] {
        let _ = replay(disk, None, from, &mut |_| ControlFlow::Continue(()));
    }
    let (mut messages, mut chunks) = (0, 0);
    let found = match open(disk, |chunk| {
        chunks += 1;
        messages += chunk.messages().count() as u64;
    }) {
        Ok(found) => found,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    assert_eq!((found.chunks, found.messages), (chunks, messages));
    for damage in &found.damages {
        assert!(!damage.to_string().is_empty());
    }
    let again = open(disk, |_| {}).expect("what was opened can be opened again");
    assert_eq!(again, found);
    let began = begin_epoch(disk, &found).is_ok();
    let mut log = continued(found);
    let appended = append(&mut log, disk, 900..903);
    if let Some(number) = appended
        && began
        && !is_forged
        && disk.unreadable.is_empty()
        && log.persisted() > number
    {
        let found = open(disk, |_| {}).expect("a log that was written can be opened");
        assert_eq!(found.tail.next_message, number + 1);
    }
    true
}
