//! A log whose segments take several reads: reading ahead returns the same chunks, replays begin anywhere, and an
//! idle log proves damage to its last chunk.

use crate::common;

use common::disk::{Disk, SECTOR_BYTES};
use iodyno_msglog::layout::DESCRIPTION_BYTES;
use iodyno_msglog::log::Tail;
use iodyno_msglog::recovery::{ReplayFrom, create, recover, recover_ahead, replay};
use iodyno_msglog::storage::Buffer;
use iodyno_msglog::{
    Action, Layout, Log, LogOptions, Message, MessageKind, ReadAhead, State, Storage as _,
};
use iodyno_units::rng::{below, stream};
use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const CHUNK_BYTES: u32 = 48 << 10;
/// Segment size, bytes. The second slot begins 32 KiB before a multiple of 1 MiB, so its first read is shorter than a
/// chunk.
const SEGMENT_BYTES: u64 = 126 * CHUNK_BYTES as u64;

/// Read-ahead that reads at once when a read begins.
struct Eager {
    disk: Disk,
    done: VecDeque<(Box<dyn Buffer>, io::Result<()>)>,
    begun_bytes: Arc<AtomicU64>,
}

impl Eager {
    fn of(disk: &Disk) -> Box<Self> {
        let (disk, done) = (disk.clone(), VecDeque::new());
        Box::new(Self { disk, done, begun_bytes: Arc::default() })
    }
}

impl ReadAhead for Eager {
    fn begin(&mut self, offset: u64, bytes: usize, mut buffer: Box<dyn Buffer>, into: usize) {
        // But for the beginnings of segments.
        if into > 0 {
            let end = offset + bytes as u64;
            let is_segments_end = (end - DESCRIPTION_BYTES).is_multiple_of(SEGMENT_BYTES);
            assert!(end.is_multiple_of(1 << 20) || is_segments_end, "{offset} + {bytes}");
            assert!(into.is_multiple_of(1 << 20), "a read has its half of a huge page");
            self.begun_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        let result = self.disk.read_at(offset, &mut (*buffer).as_mut()[into..into + bytes]);
        self.done.push_back((buffer, result));
    }

    fn take(&mut self) -> Option<(Box<dyn Buffer>, io::Result<()>)> {
        self.done.pop_front()
    }
}

/// Performs operations until the log requests none.
fn drain(log: &mut Log<Vec<u8>>, disk: &Disk) {
    while let Some(action) = log.next_action() {
        match action {
            Action::Write { chunk, offset_bytes, len_bytes, buffer } => {
                disk.write_at(offset_bytes, &buffer[..len_bytes]).unwrap();
                drop(buffer);
                log.written(chunk, true);
            }
            Action::Flush => {
                disk.flush().unwrap();
                log.flushed(true);
            }
        }
        while let Some(chunk) = log.next_persisted() {
            log.recycle(chunk.buffer);
        }
    }
}

fn buffer() -> Vec<u8> {
    vec![0; CHUNK_BYTES as usize]
}

/// Builds a log with `messages` messages. Message `n` has the time `10 n`.
fn written(messages: u64) -> (Disk, Log<Vec<u8>>) {
    let capacity_bytes = (64 << 10) + 6 * SEGMENT_BYTES;
    let layout = Layout::new(5, capacity_bytes, SEGMENT_BYTES, CHUNK_BYTES, 4096).unwrap();
    let disk = Disk::new(capacity_bytes as usize);
    create(&disk, &layout).unwrap();
    let mut log = Log::new(layout, LogOptions::default(), Tail::empty(), State::default());
    let rng = &mut stream(1, "reading", 0);
    for number in 1..=messages {
        let body = vec![number as u8; below(rng, 9000) as usize];
        let key = (number % 5).to_le_bytes();
        let message = Message {
            kind: MessageKind::Publish,
            publisher: 0,
            sequence: 0,
            time_ns: 10 * number,
            topic: "t",
            key: &key,
            body: &body,
        };
        assert_eq!(log.append(&message, &mut buffer).unwrap(), number);
        if below(rng, 20) == 0 {
            drain(&mut log, &disk);
        }
    }
    drain(&mut log, &disk);
    (disk, log)
}

#[test]
fn what_is_read_ahead_is_what_is_read() {
    // Once around: the oldest segments are dropped.
    let (disk, log) = written(9000);
    let first_kept = log.oldest_position() / SEGMENT_BYTES;
    assert!(first_kept > 0, "nothing was dropped");
    let rng = &mut stream(2, "unreadable", 0);
    for unreadable in [0, 1, 3] {
        for _ in 0..unreadable {
            let sectors = disk.capacity_bytes() / SECTOR_BYTES as u64 - 128;
            disk.make_unreadable(128 + below(rng, sectors) as usize);
        }
        let mut numbers = [Vec::new(), Vec::new()];
        let of = |numbers: &mut Vec<u64>, chunk: &iodyno_msglog::Chunk<'_>| {
            numbers.extend(chunk.messages().map(|(number, _)| number));
        };
        let plain = recover(&disk, |chunk| of(&mut numbers[0], chunk)).unwrap();
        let eager = Eager::of(&disk);
        let begun_bytes = Arc::clone(&eager.begun_bytes);
        let ahead = recover_ahead(&disk, Some(eager), |chunk| of(&mut numbers[1], chunk));
        assert_eq!(ahead.unwrap(), plain);
        let kept_bytes = log.durable_position() - log.oldest_position();
        let begun_bytes = begun_bytes.load(Ordering::Relaxed);
        assert!(unreadable > 0 || begun_bytes >= kept_bytes, "{begun_bytes} of {kept_bytes}");
        assert_eq!(numbers[0], numbers[1]);
        assert_eq!(plain.damages.is_empty(), numbers[0].len() as u64 == 9001 - numbers[0][0]);
        assert!(unreadable < 3 || !plain.damages.is_empty(), "some of them lie in the log");
    }
}

/// A replay reads the log only once. In addition, it searches the start of each segment for the log's end, and reads
/// some bytes after this end.
#[test]
fn a_replay_reads_the_log_once() {
    // Once around: a slot without a chunk is searched through.
    for messages in [9000, 10_000] {
        let (disk, log) = written(messages);
        let layout = *log.layout();
        let head_bytes = (1 << 20) + u64::from(CHUNK_BYTES);
        let kept_bytes = log.durable_position() - log.oldest_position();
        let rest_bytes = layout.left_in_segment(log.durable_position());
        disk.take_read_bytes();
        let mut seen = 0;
        let found = replay(&disk, Some(Eager::of(&disk)), ReplayFrom::Message(0), &mut |chunk| {
            seen += chunk.header.messages;
            ControlFlow::Continue(())
        });
        assert_eq!(found.unwrap().next_message, messages + 1);
        let read_bytes = disk.take_read_bytes();
        let most = layout.slots() * head_bytes + SEGMENT_BYTES + kept_bytes + 2 * rest_bytes;
        let descriptions = 8192;
        assert!(read_bytes <= most + descriptions, "{messages}: {read_bytes} of {most}");
        assert!(read_bytes >= kept_bytes && seen > 1000);
    }
}

#[test]
fn a_replay_begins_anywhere_and_ends_when_told() {
    let (disk, _) = written(9000);
    let all = recover(&disk, |_| {}).unwrap();
    let first = 9001 - all.messages;
    let from = |from: ReplayFrom, most: usize| {
        let (mut numbers, mut times) = (Vec::new(), Vec::new());
        let found = replay(&disk, Some(Eager::of(&disk)), from, &mut |chunk| {
            for (number, message) in chunk.messages() {
                numbers.push(number);
                times.push(message.time_ns);
            }
            if numbers.len() >= most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let found = found.unwrap();
        assert!(found.damages.is_empty());
        assert!(times.iter().zip(&numbers).all(|(time, number)| *time == 10 * number));
        (numbers, found.next_message)
    };
    let every = usize::MAX;
    assert_eq!(from(ReplayFrom::Message(0), every), ((first..9001).collect(), 9001));
    let rng = &mut stream(3, "places", 0);
    for _ in 0..10 {
        let number = first + below(rng, 9001 - first);
        for start in [ReplayFrom::Message(number), ReplayFrom::TimeNs(10 * number)] {
            let (numbers, next) = from(start, every);
            assert_eq!((numbers.last(), next), (Some(&9000), 9001));
            assert!(numbers[0] <= number && numbers.is_sorted(), "{start:?} from {}", numbers[0]);
            // It is in the first segment that is read, or begins with it.
            assert!(number - numbers[0] < 3000, "{start:?} from {}", numbers[0]);
            let (some, next) = from(start, 1);
            assert_eq!((some[0], next), (numbers[0], numbers[0] + some.len() as u64));
        }
    }
    assert!(from(ReplayFrom::Message(u64::MAX), every).0.len() < 3000, "only the last segment");
}

/// Flips bits in the chunk at an offset of the target.
fn with_damage_at(disk: &Disk, offset_bytes: u64) -> Disk {
    let mut image = disk.image();
    image[offset_bytes as usize + 100] ^= 0xFF;
    Disk::of(image)
}

/// An end marker proves damage to the last message. Without it, such damage can't be told from a torn write.
#[test]
fn a_log_at_rest_proves_damage_of_its_last_message() {
    let (disk, mut log) = written(100);
    let end = log.layout().offset_bytes(log.durable_position());
    let mut last = 0;
    recover(&disk, |chunk| last = log.layout().offset_bytes(chunk.header.position)).unwrap();
    let found = recover(&with_damage_at(&disk, last), |_| {}).unwrap();
    assert!(found.damages.is_empty() && found.tail.next_message < 101, "{found:?}");
    assert!(log.wants_end());
    log.append_end(&mut buffer);
    assert!(!log.wants_end(), "one is enough");
    drain(&mut log, &disk);
    assert!(!log.wants_end());
    assert_eq!(log.persisted(), 101);
    let whole = recover(&disk, |_| {}).unwrap();
    assert_eq!((whole.messages, whole.tail.is_ended), (100, true));
    let found = recover(&with_damage_at(&disk, last), |_| {}).unwrap();
    let [damage] = found.damages.as_slice() else { panic!("{found:?}") };
    let (first, after) = damage.messages.unwrap();
    assert_eq!((after, found.tail.next_message), (101, 101));
    assert_eq!(found.messages, first - 1);
    assert_eq!((damage.offset_bytes, damage.offset_bytes + damage.length_bytes), (last, end));
    // It goes on behind, and wants no further end before there is something new.
    let log: Log<Vec<u8>> = Log::new(found.layout, LogOptions::default(), found.tail, found.state);
    assert!(!log.wants_end());
}

/// Only a message makes the log enter a segment. An end marker does not, because it would drop the oldest segment.
#[test]
fn no_segment_is_entered_for_an_end() {
    let layout = Layout::new(5, (64 << 10) + 4 * 4096, 4096, 4096, 4096).unwrap();
    let mut log: Log<Vec<u8>> =
        Log::new(layout, LogOptions::default(), Tail::empty(), State::default());
    let disk = Disk::new(layout.capacity_bytes as usize);
    assert!(!log.wants_end(), "there is nothing to prove");
    let message = Message {
        kind: MessageKind::Publish,
        publisher: 0,
        sequence: 0,
        time_ns: 1,
        topic: "t",
        key: &[],
        body: &[1; 3000],
    };
    log.append(&message, &mut || vec![0; 4096]).unwrap();
    assert!(!log.wants_end(), "it is not at rest");
    drain(&mut log, &disk);
    assert_eq!(log.durable_position(), 4096);
    assert!(!log.wants_end());
    let next_message = log.next_message();
    log.append_end(&mut || vec![0; 4096]);
    assert!(log.next_action().is_none());
    assert_eq!(log.next_message(), next_message);
}
