//! Logs that iodyno did not write, with valid checksums and hostile numbers. They are opened, replayed, and appended to
//! without a panic, and without memory allocated by a hostile number. `IODYNO_CRAFTED_LOGS` sets the number of logs; a
//! log is replayed by its seed.

use crate::common;

use common::disk::Disk;
use iodyno_msglog::chunk::{CHUNK_HEADER_BYTES, ChunkHeader};
use iodyno_msglog::layout::{DESCRIPTION_BYTES, DESCRIPTION_OFFSETS, EpochStart};
use iodyno_msglog::log::Tail;
use iodyno_msglog::recovery::{ReplayFrom, recover, replay};
use iodyno_msglog::{
    Action, AppendError, Chunk, Layout, Log, LogOptions, Message, MessageKind, State,
};
use iodyno_units::rng::{Generator, below, stream};
use std::ops::ControlFlow;

const SEGMENT_BYTES: u64 = 64 << 10;
const CAPACITY_BYTES: u64 = DESCRIPTION_BYTES + 5 * SEGMENT_BYTES;
const LOG_ID: u64 = 7;

/// Returns a number at or near a limit.
fn edge(rng: &mut Generator) -> u64 {
    let bit = 1_u64 << below(rng, 64);
    let near = bit.wrapping_add(below(rng, 5)).wrapping_sub(2);
    if below(rng, 3) == 0 { near / SEGMENT_BYTES * SEGMENT_BYTES } else { near }
}

fn sometimes(rng: &mut Generator, usual: u64) -> u64 {
    if below(rng, 10) == 0 { edge(rng) } else { usual }
}

fn records(rng: &mut Generator, to: &mut [u8]) -> (usize, u32) {
    let (mut used, mut messages) = (0, 0);
    for _ in 0..below(rng, 4) {
        let kinds = [
            MessageKind::Publish,
            MessageKind::Delete,
            MessageKind::CarriedValue,
            MessageKind::Publisher,
        ];
        let record = Message {
            kind: kinds[below(rng, 4) as usize],
            publisher: sometimes(rng, 1),
            sequence: sometimes(rng, 1),
            time_ns: sometimes(rng, 1),
            topic: "t",
            key: [&b""[..], b"k", b"\xff"][below(rng, 3) as usize],
            body: b"body",
        };
        record.encode(&mut to[used..]);
        used += record.record_bytes();
        messages += u32::from(record.kind.is_message());
    }
    (used, messages)
}

fn crafted(rng: &mut Generator) -> (Layout, Disk) {
    let layout = Layout::new(LOG_ID, CAPACITY_BYTES, SEGMENT_BYTES, 4096, 512).unwrap();
    let mut image = vec![0; CAPACITY_BYTES as usize];
    let start = EpochStart { epoch: sometimes(rng, 0) as u32, position: sometimes(rng, 0) };
    for offset in DESCRIPTION_OFFSETS {
        let block = layout.describe(start);
        image[offset as usize..][..block.len()].copy_from_slice(&block);
    }
    // All begin at some round of the log, each behind the one before, or elsewhere.
    let round = 5 * SEGMENT_BYTES;
    let mut position = if below(rng, 2) == 0 { 0 } else { edge(rng) / 4 / round * round };
    let (mut first_message, mut previous_checksum) = (1, 0);
    for _ in 0..below(rng, 8) {
        let mut chunk = vec![0; 4096];
        let (records_bytes, messages) = records(rng, &mut chunk[CHUNK_HEADER_BYTES..]);
        let used_bytes = (CHUNK_HEADER_BYTES + records_bytes) as u32;
        let mut header = ChunkHeader {
            checksum: 0,
            log_id: LOG_ID,
            position,
            first_message: sometimes(rng, first_message),
            durable_position: if below(rng, 2) == 0 { position } else { edge(rng) },
            time_ns: sometimes(rng, 1),
            length_bytes: used_bytes.next_multiple_of(512),
            used_bytes,
            messages,
            epoch: sometimes(rng, 1) as u32,
            previous_checksum,
            is_last_of_segment: below(rng, 8) == 0,
        };
        header.seal(&mut chunk);
        let at = layout.offset_bytes(position) as usize;
        let length = header.length_bytes as usize;
        image[at..at + length].copy_from_slice(&chunk[..length]);
        previous_checksum = header.checksum;
        position = layout.after(&header);
        first_message = header.first_message.wrapping_add(messages.into());
        if below(rng, 5) == 0 {
            position = (position / SEGMENT_BYTES + 1 + below(rng, 12)) * SEGMENT_BYTES;
        }
    }
    (layout, Disk::of(image))
}

#[test]
fn hostile_numbers_are_read_and_written_behind() {
    let logs = std::env::var("IODYNO_CRAFTED_LOGS").map_or(600, |n| n.parse().unwrap());
    let mut held = 0;
    for seed in 0..logs {
        let rng = &mut stream(seed, "crafted", 0);
        let (layout, disk) = crafted(rng);
        for from in [ReplayFrom::Message(0), ReplayFrom::Message(edge(rng)), ReplayFrom::TimeNs(2)]
        {
            let _ = replay(&disk, None, from, &mut |_| ControlFlow::Continue(()));
        }
        let Ok(found) = recover(&disk, |_| {}) else { continue };
        held += found.messages;
        let mut log = Log::new(layout, LogOptions::default(), found.tail, found.state);
        let message = Message {
            kind: MessageKind::Publish,
            publisher: 1,
            sequence: 1,
            time_ns: edge(rng),
            topic: "t",
            key: b"k",
            body: b"new",
        };
        for _ in 0..3 {
            let _ = log.append(&message, &mut || vec![0; 4096]);
        }
        while let Some(action) = log.next_action() {
            match action {
                Action::Write { chunk, .. } => log.written(chunk, true),
                Action::Flush => log.flushed(true),
            }
            while let Some(persisted) = log.next_persisted() {
                log.recycle(persisted.buffer);
            }
        }
    }
    assert!(held > logs / 2, "{held} messages in {logs} logs");
}

/// A log whose position or message numbers are near their limit becomes full. Each chunk that it persisted until then
/// can be read again.
#[test]
fn a_log_is_full_before_its_numbers_exceed_their_limit() {
    const LIMIT: u64 = 1 << 62;
    let layout = Layout::new(LOG_ID, CAPACITY_BYTES, SEGMENT_BYTES, 4096, 512).unwrap();
    let body = [7; 3000];
    for (position, next_message) in [(LIMIT - SEGMENT_BYTES, 1), (0, LIMIT - 5)] {
        let oldest_segment = position / SEGMENT_BYTES;
        let tail = Tail { position, next_message, oldest_segment, ..Tail::empty() };
        let mut log = Log::new(layout, LogOptions::default(), tail, State::default());
        let mut persisted = 0;
        let mut result = Ok(());
        for sequence in 1..100 {
            let message = Message {
                kind: MessageKind::Publish,
                publisher: 1,
                sequence,
                time_ns: 1,
                topic: "t",
                key: b"",
                body: &body,
            };
            result = log.append(&message, &mut || vec![0; 4096]).map(drop);
            while let Some(action) = log.next_action() {
                match action {
                    Action::Write { chunk, .. } => log.written(chunk, true),
                    Action::Flush => log.flushed(true),
                }
            }
            while let Some(it) = log.next_persisted() {
                let chunk = Chunk::parse(&it.buffer, LOG_ID, it.header.position).unwrap();
                persisted += chunk.messages().count();
            }
            if result.is_err() {
                break;
            }
        }
        assert!(matches!(result, Err(AppendError::Full { .. })), "{result:?}");
        assert!((5..=20).contains(&persisted), "{persisted}");
    }
}
