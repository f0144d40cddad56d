//! Rules of the log that random histories rarely exercise, each with its own case.

use crate::common;

use common::disk::Disk;
use iodyno_msglog::layout::{DESCRIPTION_BYTES, EpochStart};
use iodyno_msglog::log::Tail;
use iodyno_msglog::recovery::{create, recover};
use iodyno_msglog::{
    Action, AppendError, ChunkHeader, CommitRule, Layout, Log, LogOptions, Message, MessageKind,
    Recovered, State, Storage as _,
};

const BLOCK: u64 = 4096;

fn message(key: &[u8], body_bytes: usize) -> Message<'static> {
    let body: &'static [u8] = vec![7; body_bytes].leak();
    let key: &'static [u8] = key.to_vec().leak();
    Message {
        kind: MessageKind::Publish,
        publisher: 0,
        sequence: 0,
        time_ns: 1,
        topic: "t",
        key,
        body,
    }
}

fn layout(segment_blocks: u64, slots: u64) -> Layout {
    let segment_bytes = segment_blocks * BLOCK;
    let capacity_bytes = DESCRIPTION_BYTES + slots * segment_bytes;
    Layout::new(3, capacity_bytes, segment_bytes, BLOCK as u32, BLOCK as u32).unwrap()
}

/// Builds a chunk of one block with one message; returns its header and bytes.
fn chunk(header: ChunkHeader) -> (ChunkHeader, Vec<u8>) {
    let mut bytes = vec![0; BLOCK as usize];
    let record = message(b"", 100);
    record.encode(&mut bytes[72..]);
    let used_bytes = 72 + record.record_bytes() as u32;
    let mut header =
        ChunkHeader { log_id: 3, length_bytes: BLOCK as u32, used_bytes, messages: 1, ..header };
    header.seal(&mut bytes);
    (header, bytes)
}

/// Recovers a new log with chunks in its blocks. Returns the result, and the first message of each accepted chunk.
fn recovered(chunks: &[(ChunkHeader, Vec<u8>)]) -> (Recovered, Vec<u64>) {
    let layout = layout(8, 6);
    let disk = Disk::new(layout.capacity_bytes as usize);
    create(&disk, &layout).unwrap();
    for (header, bytes) in chunks {
        disk.write_at(layout.offset_bytes(header.position), bytes).unwrap();
    }
    let mut taken = Vec::new();
    let found = recover(&disk, |chunk| taken.push(chunk.header.first_message)).unwrap();
    (found, taken)
}

fn first(epoch: u32) -> (ChunkHeader, Vec<u8>) {
    chunk(ChunkHeader { first_message: 1, epoch, time_ns: 1, ..ChunkHeader::default() })
}

fn behind(before: &ChunkHeader) -> ChunkHeader {
    ChunkHeader {
        position: before.end(),
        first_message: before.first_message + 1,
        previous_checksum: before.checksum,
        epoch: before.epoch,
        ..ChunkHeader::default()
    }
}

/// A chunk follows another if it states that chunk's checksum and has no lower epoch. All other chunks are remains of a
/// crash.
#[test]
fn a_chunk_follows_by_its_sum_and_its_epoch() {
    let a = first(2);
    let good = chunk(behind(&a.0));
    assert_eq!(recovered(&[a.clone(), good]).1, [1, 2]);
    let other_sum = chunk(ChunkHeader { previous_checksum: 5, ..behind(&a.0) });
    let (found, taken) = recovered(&[a.clone(), other_sum]);
    assert_eq!((taken, found.tail.next_message), (vec![1], 2));
    let earlier = chunk(ChunkHeader { epoch: 1, ..behind(&a.0) });
    let (found, taken) = recovered(&[a, earlier]);
    assert_eq!((taken, found.damages), (vec![1], vec![]));
}

/// The next epoch is higher than those of chunks that were never acknowledged, which would otherwise be valid again
/// after new chunks.
#[test]
fn the_next_epoch_is_above_all_that_stand_there() {
    let a = first(1);
    let stale = chunk(ChunkHeader { previous_checksum: 5, epoch: 7, ..behind(&a.0) });
    assert_eq!(recovered(&[a, stale]).0.tail.epoch, 8);
}

/// After damage, a chunk does not count if its epoch is lower than that of the chunk that proves the damage: it was cut
/// off.
#[test]
fn behind_damage_earlier_epochs_are_none() {
    let a = first(1);
    let at = |block: u64, epoch| ChunkHeader {
        position: block * BLOCK,
        durable_position: 2 * BLOCK,
        first_message: 3,
        epoch,
        ..ChunkHeader::default()
    };
    // Block 1 can't be read; block 2 was written in epoch 1, and block 3 when all before 2 was durable in epoch 2.
    let (cut, good) = (chunk(at(2, 1)), chunk(ChunkHeader { first_message: 4, ..at(3, 2) }));
    let (found, taken) = recovered(&[a.clone(), cut.clone(), good]);
    assert_eq!(taken, [1, 4]);
    assert_eq!(found.damages[0].messages, Some((2, 4)));
    // Without that it would count.
    assert_eq!(recovered(&[a, cut]).1, [1, 3]);
}

/// Headers with positions and numbers that no log reaches are refused, so sums of these don't overflow.
#[test]
fn a_header_beyond_all_logs_is_none() {
    let end = 1 << 62;
    let is_there = |header: ChunkHeader| ChunkHeader::peek(&chunk(header).1).is_some();
    for (position, first_message) in [(end, 1), (u64::MAX - 4095, 1), (0, end), (0, u64::MAX)] {
        let header = ChunkHeader { position, first_message, ..ChunkHeader::default() };
        assert!(!is_there(header), "{header:?}");
    }
    let header =
        ChunkHeader { position: end - BLOCK, first_message: end - 1, ..ChunkHeader::default() };
    assert!(is_there(header));
    let start = EpochStart { epoch: 2, position: BLOCK };
    assert!(start.cuts_off(&ChunkHeader { position: BLOCK, epoch: 1, ..header }));
}

/// Two segments are always free: one for records carried over from the oldest, and one for overflow.
#[test]
fn two_segments_are_free() {
    for slots in [4, 5, 64] {
        let layout = layout(2, slots);
        for segment in [slots - 3, slots, 10 * slots + 1] {
            let kept = segment + 1 - layout.oldest_kept(segment);
            assert_eq!(kept, slots - 2, "at segment {segment} of {slots} slots");
        }
        assert_eq!(layout.oldest_kept(0), 0);
    }
}

/// Builds a log that has entered segment 3. The four values in the two chunks of segment 0 were carried over to both
/// chunks of segment 3, of which the first is durable.
fn half_carried() -> Log<Vec<u8>> {
    let options = LogOptions {
        commit: CommitRule { chunks_max: 4, depth: 4, ..CommitRule::DEFAULT },
        ..LogOptions::default()
    };
    let mut log = Log::new(layout(2, 5), options, Tail::empty(), State::default());
    let mut buffer = || vec![0; BLOCK as usize];
    for key in 1..=4 {
        log.append(&message(&[key], 1800), &mut buffer).unwrap();
    }
    log.append(&message(b"", 3500), &mut buffer).unwrap();
    while let Some(action) = log.next_action() {
        match action {
            Action::Write { chunk, .. } => log.written(chunk, true),
            Action::Flush => log.flushed(true),
        }
        while log.next_persisted().is_some() {}
    }
    assert_eq!(log.durable_position(), 3 * BLOCK);
    for _ in 0..3 {
        log.append(&message(b"", 3500), &mut buffer).unwrap();
    }
    // It enters segment 3, carries, and finds no space behind: too little is durable.
    assert_eq!(log.append(&message(b"", 3500), &mut buffer), Err(AppendError::Busy));
    loop {
        match log.next_action() {
            Some(Action::Write { chunk, .. }) => log.written(chunk, true),
            Some(Action::Flush) => break,
            None => panic!("neither a write nor a flush"),
        }
    }
    log.flushed(true);
    while log.next_persisted().is_some() {}
    assert_eq!(log.durable_position(), 7 * BLOCK, "one of the two chunks with what was carried");
    log
}

/// Values that are carried over are durable before their old records are overwritten.
#[test]
fn what_was_carried_is_durable_before_its_old_place_is_written() {
    // The first chunk of segment 5 takes the place of the values: open, and closed with another one behind it.
    for messages in [3, 4] {
        let mut log = half_carried();
        for _ in 0..messages {
            log.append(&message(b"", 3500), &mut || vec![0; BLOCK as usize]).unwrap();
        }
        let old_place = log.layout().offset_bytes(10 * BLOCK);
        assert_eq!(old_place, DESCRIPTION_BYTES);
        let mut was_written = false;
        while let Some(action) = log.next_action() {
            match action {
                Action::Write { chunk, offset_bytes, .. } => {
                    let is_carried = log.durable_position() >= 8 * BLOCK;
                    assert!(offset_bytes != old_place || is_carried, "{messages} messages");
                    was_written |= offset_bytes == old_place;
                    log.written(chunk, true);
                }
                Action::Flush => log.flushed(true),
            }
            while log.next_persisted().is_some() {}
        }
        assert!(was_written);
        assert_eq!(log.persisted(), log.next_message());
        assert_eq!(log.state().len(), 4);
    }
}

/// Publishers' records can fill a log, too: then the log reports that it is full, and does not carry them over forever.
#[test]
fn a_log_of_publishers_alone_is_full() {
    let mut log = Log::new(layout(2, 4), LogOptions::default(), Tail::empty(), State::default());
    let mut result = Ok(0);
    for number in 1..=400_u64 {
        let name = format!("{number:0300}").into_bytes().leak();
        let record =
            Message { kind: MessageKind::Publisher, publisher: number, ..message(name, 0) };
        loop {
            result = log.append(&record, &mut || vec![0; BLOCK as usize]);
            while let Some(action) = log.next_action() {
                match action {
                    Action::Write { chunk, .. } => log.written(chunk, true),
                    Action::Flush => log.flushed(true),
                }
                while log.next_persisted().is_some() {}
            }
            if result != Err(AppendError::Busy) {
                break;
            }
        }
        if result.is_err() {
            break;
        }
    }
    assert!(matches!(result, Err(AppendError::Full { .. })), "{result:?}");
    assert!(log.state().publishers().count() > 20);
}
