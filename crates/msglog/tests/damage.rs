//! Logs damaged after they were written: flipped bits, zeroes, garbage, misplaced, older and foreign blocks, and
//! unreadable sectors, in any number.
//!
//! The rule: a chunk is returned if it is whole, and either all chunks before it are whole, or the damage before it is
//! *proven*. Damage before a chunk is proven in three cases: some whole chunk was closed after the damaged position had
//! become durable, or after this chunk had, or a whole chunk follows this chunk. In none of them may a later epoch have
//! cut this chunk off. Proven damage is reported with its position and the numbers of its messages. Damage without such
//! a proof, such as a zeroed tail, can't be recognised: recovery treats it as a torn write and cuts it off. If it is
//! unreadable, recovery fails.
//!
//! `IODYNO_LOG_HISTORIES` sets the number of logs; a log is replayed by its seed.

use crate::common;

use common::disk::{Disk, SECTOR_BYTES};
use common::{Defect, History, Kind, Published};
use iodyno_msglog::recovery::{ReplayFrom, describe, recover, replay};
use iodyno_msglog::{Chunk, ChunkHeader, Damage, Layout, Recovered};
use iodyno_units::rng::{Generator, below, stream};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

const DESCRIPTIONS_END: usize = 64 << 10;

fn logs() -> u64 {
    std::env::var("IODYNO_LOG_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(500)
}

/// Builds a log that was written, crashed at times, and shut down cleanly; and an older image of it. The older image is
/// of a log that never crashed: otherwise it would bring back data that was cut off, which no reader can distinguish.
pub(crate) fn written(seed: u64, rng: &mut Generator) -> (History, Vec<u8>) {
    let kind = Kind::ALL[below(rng, 4) as usize];
    let mut history = History::new(rng, seed, kind, Defect::None);
    let mut persisted = 1;
    let crashes = below(rng, 3);
    for _ in 0..crashes {
        let mut life = history.open(persisted).unwrap();
        let steps = below(rng, 200);
        history.run(&mut life, rng, steps).unwrap();
        persisted = history.crash(&life, rng).unwrap();
    }
    let mut life = history.open(persisted).unwrap();
    let steps = below(rng, 100);
    history.run(&mut life, rng, steps).unwrap();
    history.drain(&mut life).unwrap();
    let older = history.disk.image();
    let steps = below(rng, 200);
    history.run(&mut life, rng, steps).unwrap();
    history.drain(&mut life).unwrap();
    let older = if crashes == 0 { older } else { history.disk.image() };
    (history, older)
}

/// Bytes of the chunk on an image, if the image has the one with this header.
fn chunk_at(image: &[u8], layout: &Layout, header: &ChunkHeader) -> Option<std::ops::Range<usize>> {
    let at = layout.offset_bytes(header.position) as usize;
    let chunk = Chunk::parse(&image[at..], layout.log_id, header.position).ok()?;
    (chunk.header == *header).then_some(at..at + header.length_bytes as usize)
}

/// Damages an image, and returns the unreadable sectors in `unreadable`.
fn damage(
    image: &mut [u8],
    (older, history): (&[u8], &History),
    unreadable: &mut BTreeSet<usize>,
    rng: &mut Generator,
) {
    let is_description = below(rng, 12) == 0;
    let (from, to) = match image.len() {
        // One of the two.
        len if is_description => (DESCRIPTIONS_END / 2, len.min(DESCRIPTIONS_END)),
        len => (DESCRIPTIONS_END, len),
    };
    // Mostly where the log is.
    let headers: Vec<_> = history.chunks.values().collect();
    let header = *headers[below(rng, headers.len() as u64) as usize];
    let chunk = history.layout.offset_bytes(header.position) as usize;
    let at =
        if below(rng, 4) == 0 { from + below(rng, (to - from) as u64) as usize } else { chunk };
    let at = at + below(rng, 2) as usize * below(rng, 600) as usize;
    let at = at.clamp(from, to - 1);
    let len = [1, 64, 512, 4096, 20_000][below(rng, 5) as usize];
    let range = at..(at + 1 + below(rng, len) as usize).min(to);
    match below(rng, 7) {
        0 => image[at] ^= 1 << below(rng, 8),
        1 => image[range].fill(0),
        2 => range.for_each(|at| image[at] = below(rng, 256) as u8),
        // Another place of the same log.
        3 => {
            let sectors = ((to - from) / SECTOR_BYTES) as u64;
            let source = from + below(rng, sectors) as usize * SECTOR_BYTES;
            let at = at / SECTOR_BYTES * SECTOR_BYTES;
            let len = (range.len().next_multiple_of(SECTOR_BYTES)).min(to - at).min(to - source);
            image.copy_within(source..source + len, at);
        }
        4 => {
            let at = at / SECTOR_BYTES * SECTOR_BYTES;
            let range = at..(at + range.len().next_multiple_of(SECTOR_BYTES)).min(to);
            image[range.clone()].copy_from_slice(&older[range]);
        }
        // A chunk of another log.
        5 => {
            if let Some(range) = chunk_at(image, &history.layout, &header) {
                let mut foreign = ChunkHeader { log_id: header.log_id ^ 2, ..header };
                foreign.seal(&mut image[range]);
            }
        }
        _ => unreadable.extend(range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES)),
    }
}

fn disk_of(image: &[u8], unreadable: &BTreeSet<usize>) -> Disk {
    let disk = Disk::of(image.to_vec());
    for &sector in unreadable {
        disk.make_unreadable(sector);
    }
    disk
}

/// How the messages that are found are compared with those published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checks {
    Published,
    /// If all of a later epoch is damaged, messages that it had cut off may be found again.
    AlsoWhatWasCut,
    /// Messages persisted after the damage are found, possibly followed by messages that the damage cut off.
    NewOnceItIsPersisted,
    Nothing,
}

/// Opens the log and checks that each message is as published. Returns what was recovered, and the messages' numbers.
fn open(disk: &Disk, history: &History, checks: Checks) -> Result<(Recovered, Vec<u64>), String> {
    let mut numbers = Vec::new();
    let mut wrong = None;
    let found = recover(disk, |chunk| {
        for (number, message) in chunk.messages() {
            numbers.push(number);
            let is_same = |it: &Published| it.as_message() == message;
            let was_cut = || history.cut.iter().any(|(n, it)| *n == number && is_same(it));
            let is_right = history.published.get(&number).is_some_and(is_same)
                || match checks {
                    Checks::Published | Checks::Nothing => false,
                    Checks::AlsoWhatWasCut => was_cut(),
                    Checks::NewOnceItIsPersisted => number >= history.persisted && was_cut(),
                };
            if !is_right {
                wrong = Some(format!("message {number} is not what was published"));
            }
        }
    });
    let found = found.map_err(|e| e.to_string())?;
    if let Some(wrong) = wrong.filter(|_| checks != Checks::Nothing) {
        return Err(wrong);
    }
    Ok((found, numbers))
}

fn is_read_error<T>(opened: &Result<T, String>) -> bool {
    opened.as_ref().is_err_and(|e| e.contains("can't be read at byte"))
}

/// Checks that exactly the messages missing between the first and the last are reported as missing.
fn is_consistent(found: &Recovered, numbers: &[u64]) -> Result<(), String> {
    if !numbers.is_sorted_by(|a, b| a < b) || found.messages != numbers.len() as u64 {
        return Err(format!("{numbers:?} for {}", found.messages));
    }
    let end = found.tail.next_message;
    let mut reported = BTreeSet::new();
    let mut first = numbers.first().copied().unwrap_or(end);
    for damage in &found.damages {
        if let Some((from, to)) = damage.messages {
            first = first.min(from);
            reported.extend(from..to);
        }
        if damage.offset_bytes != found.layout.offset_bytes(damage.position) {
            return Err(format!("the place of {damage}"));
        }
    }
    let all: BTreeSet<u64> = (first..end).collect();
    let missing: BTreeSet<u64> =
        all.difference(&numbers.iter().copied().collect()).copied().collect();
    if missing == reported {
        Ok(())
    } else {
        Err(format!("{missing:?} missing, {reported:?} reported"))
    }
}

/// Position, length and missing messages of damage.
type Reported = (u64, u64, Option<(u64, u64)>);

/// Computes, by the rule at the top of this file, the messages from the first segment on, the damage, and the last
/// chunk.
fn by_the_rule(
    layout: &Layout,
    chunks: &[(ChunkHeader, bool)],
    first_segment: u64,
    ((durable, since_epoch), after_last): ((u64, u32), u64),
) -> (Vec<u64>, Vec<Reported>, Option<ChunkHeader>) {
    let (mut numbers, mut damages) = (Vec::new(), Vec::new());
    let mut last: Option<ChunkHeader> = None;
    let chunks: Vec<_> =
        chunks.iter().filter(|(it, _)| layout.segment(it.position) >= first_segment).collect();
    let mut at = 0;
    while at < chunks.len() {
        let (mut header, is_whole) = *chunks[at];
        if !is_whole {
            let from = header.position;
            let proven = |(it, is_whole): &&&(ChunkHeader, bool)| {
                *is_whole
                    && (it.position < durable
                        || ((it.durable_position > from || it.position < after_last)
                            && it.epoch >= since_epoch))
            };
            let Some(next) = chunks[at..].iter().position(|it| proven(&it)) else { break };
            at += next;
            header = chunks[at].0;
            let expected = last.map(|last| last.first_message + u64::from(last.messages));
            let expected = expected.or((first_segment == 0).then_some(1));
            let messages = expected.map(|expected| (expected, header.first_message));
            damages.push((from, header.position - from, messages));
        }
        numbers.extend(header.first_message..header.first_message + u64::from(header.messages));
        last = Some(header);
        at += 1;
    }
    (numbers, damages, last)
}

fn is_readable(unreadable: &BTreeSet<usize>, range: &std::ops::Range<usize>) -> bool {
    unreadable.range(range.start / SECTOR_BYTES..range.end / SECTOR_BYTES).next().is_none()
}

/// Determines from all whole chunks on the target the highest position that a chunk proves to have been durable, with
/// the chunk's epoch, and the newest segment.
fn durable_on(image: &[u8], layout: &Layout, unreadable: &BTreeSet<usize>) -> ((u64, u32), u64) {
    let places = (DESCRIPTIONS_END..image.len()).step_by(layout.align_bytes as usize);
    let proofs = places.filter_map(|at| {
        let header = ChunkHeader::peek(&image[at..])?;
        let is_here = layout.offset_bytes(header.position) as usize == at;
        let range = chunk_at(image, layout, &header).filter(|_| is_here)?;
        let proof = ((header.durable_position, header.epoch), layout.segment(header.position));
        is_readable(unreadable, &range).then_some(proof)
    });
    proofs.fold(((0, 0), 0), |(durable, newest), it| (it.0.max(durable), it.1.max(newest)))
}

fn one_log(seed: u64) -> Result<(), String> {
    let rng = &mut stream(seed, "damaged logs", 0);
    let (mut history, older) = written(seed, rng);
    if history.chunks.is_empty() {
        return Ok(());
    }
    let layout = history.layout;
    let (mut image, mut unreadable) = (history.disk.image(), BTreeSet::new());
    for _ in 0..=below(rng, 3) {
        damage(&mut image, (&older, &history), &mut unreadable, rng);
    }
    let is_whole = |header: &ChunkHeader| {
        let range = chunk_at(&image, &layout, header);
        range.is_some_and(|range| is_readable(&unreadable, &range))
    };
    let chunks: Vec<_> = history.chunks.values().map(|it| (*it, is_whole(it))).collect();
    let disk = disk_of(&image, &unreadable);
    let (durable, newest) = durable_on(&image, &layout, &unreadable);
    let from = layout.segment(durable.0.saturating_sub(1));
    let (.., last) = by_the_rule(&layout, &chunks, from, (durable, 0));
    let oldest = last.map_or(0, |last| layout.oldest_kept(layout.segment(last.position)));
    let after_last = last.map_or(0, |last| last.position + 1);
    let oldest = oldest.max((newest + 1).saturating_sub(layout.slots()));
    let (expected, damages, last) = by_the_rule(&layout, &chunks, oldest, (durable, after_last));
    let position = last.map_or(0, |last| layout.after(&last));
    let end = layout.offset_bytes(position) as usize;
    let has_end = is_readable(&unreadable, &(end..end + layout.align_bytes as usize));
    let opened = open(&disk, &history, Checks::Published);
    if is_read_error(&opened) {
        // What lies after a torn end must be readable, too.
        let is_there =
            unreadable.iter().any(|at| !(DESCRIPTIONS_END..end).contains(&(at * SECTOR_BYTES)))
                || position >= layout.slots() * layout.segment_bytes;
        return if is_there { Ok(()) } else { Err(format!("{:?}", opened.err())) };
    }
    let (found, numbers) = opened?;
    if !has_end {
        return Err(format!("{numbers:?} before an unreadable end"));
    }
    is_consistent(&found, &numbers)?;
    let of_log = found.damages.iter().filter(|it| layout.segment(it.position) >= oldest);
    let reported: Vec<Reported> =
        of_log.map(|it| (it.position, it.length_bytes, it.messages)).collect();
    if (&numbers, &reported) != (&expected, &damages) {
        return Err(format!("{numbers:?} with {reported:?} for {expected:?} with {damages:?}"));
    }
    if found.tail.position != position {
        return Err(format!("ends at {} for {position}", found.tail.position));
    }
    // A replay from anywhere agrees.
    if !numbers.is_empty() {
        let from = numbers[below(rng, numbers.len() as u64) as usize];
        let mut replayed = Vec::new();
        replay(&disk, None, ReplayFrom::Message(from), &mut |chunk| {
            replayed.extend(chunk.messages().map(|(number, _)| number).filter(|it| *it >= from));
            ControlFlow::Continue(())
        })
        .map_err(|e| e.to_string())?;
        let expected = &numbers[numbers.partition_point(|it| *it < from)..];
        if replayed != expected {
            return Err(format!("from {from}: {replayed:?} for {expected:?}"));
        }
    }
    // Each block is read a few times at most, also where it fails.
    let blocks = image.len() as u64 / u64::from(layout.align_bytes);
    if disk.reads() > 20 * blocks {
        return Err(format!("{} reads of {blocks} blocks", disk.reads()));
    }

    // The log goes on, is cut, and damaged once more.
    let (end, lost) = (found.tail.next_message, found.damages.clone());
    // Sectors that can't be read are replaced by others.
    for sector in &unreadable {
        image[sector * SECTOR_BYTES..][..SECTOR_BYTES].fill(0);
    }
    history.disk = Disk::of(image);
    history.crashes_on(found, rng)?;
    let (found, numbers) = open(&history.disk, &history, Checks::NewOnceItIsPersisted)
        .map_err(|e| format!("gone on, {e}"))?;
    is_consistent(&found, &numbers)?;
    // Later writes may prove more chunks in it.
    let again = |it: &Damage| {
        found.damages.iter().any(|now| now.position == it.position)
            || it.position < layout.segment_start(found.tail.oldest_segment)
    };
    if unreadable.is_empty() && !lost.iter().all(again) {
        return Err(format!("{lost:?} became {:?}", found.damages));
    }
    let persisted: BTreeSet<u64> = (end..history.persisted).collect();
    let kept_from = numbers.first().copied().unwrap_or(0);
    let missing =
        persisted.range(kept_from..).find(|number| numbers.binary_search(number).is_err());
    if let Some(number) = missing {
        return Err(format!("message {number} was persisted after the damage, and is missing"));
    }
    let (mut image, mut unreadable) = (history.disk.image(), BTreeSet::new());
    if !history.chunks.is_empty() {
        // None older: that would bring back what was cut off.
        let older = image.clone();
        damage(&mut image, (&older, &history), &mut unreadable, rng);
    }
    let opened = open(&disk_of(&image, &unreadable), &history, Checks::AlsoWhatWasCut);
    if is_read_error(&opened) && !unreadable.is_empty() {
        return Ok(());
    }
    let (found, numbers) = opened.map_err(|e| format!("damaged again, {e}"))?;
    is_consistent(&found, &numbers)
}

#[test]
fn damage_is_reported_and_the_rest_is_there() {
    // In the last one, which part of the log is scanned decided on what stands behind a second damaged place.
    for seed in (0..logs()).chain([12_332]) {
        if let Err(what) = one_log(seed) {
            panic!("seed {seed}: {what}");
        }
    }
}

/// Any content of a target, also with corrected checksums, is opened or refused; an opened log can be continued and
/// opened again.
#[test]
fn any_bytes_are_opened_or_refused() {
    for seed in 0..logs() {
        let rng = &mut stream(seed, "any bytes", 0);
        let (mut history, older) = written(seed, rng);
        if history.chunks.is_empty() {
            continue;
        }
        let mut image = history.disk.image();
        for _ in 0..=below(rng, 7) {
            let mut unreadable = BTreeSet::new();
            damage(&mut image, (&older, &history), &mut unreadable, rng);
            let headers: Vec<_> = history.chunks.values().collect();
            let header = *headers[below(rng, headers.len() as u64) as usize];
            let field = |rng: &mut Generator| {
                [0, 1, 72, 511, 1 << 31, u64::MAX, 1 << 62, below(rng, 99_999)]
                    [below(rng, 8) as usize]
            };
            if let Some(range) =
                chunk_at(&image, &history.layout, &header).filter(|_| below(rng, 3) > 0)
            {
                // Any value in a field of the header, with the sum made right.
                let chunk = &mut image[range];
                let (at, value) = (16 + below(rng, 14) as usize * 4, field(rng).to_le_bytes());
                chunk[at..at + 4].copy_from_slice(&value[..4]);
                if at < 48 {
                    chunk[at + 4..at + 8].copy_from_slice(&value[4..]);
                }
                let used = u32::from_le_bytes(chunk[52..56].try_into().unwrap()) as usize;
                if let Some(used) = chunk.get(8..used) {
                    let sum = crc_fast::crc32_iscsi(used);
                    chunk[4..8].copy_from_slice(&sum.to_le_bytes());
                }
            }
            if below(rng, 8) == 0 {
                let description = &mut image[..4096];
                let at = 12 + below(rng, 8) as usize * 4;
                description[at..at + 4].copy_from_slice(&field(rng).to_le_bytes()[..4]);
                let sum = crc_fast::crc32_iscsi(&description[12..]);
                description[8..12].copy_from_slice(&sum.to_le_bytes());
            }
        }
        if below(rng, 6) == 0 {
            image.truncate(below(rng, image.len() as u64 / 512) as usize * 512);
        }
        let disk = Disk::of(image);
        if !describe(&disk).is_ok_and(|it| it == history.layout) {
            let _ = recover(&disk, |_| {});
            continue;
        }
        history.disk = disk;
        if let Ok((found, numbers)) = open(&history.disk, &history, Checks::Nothing) {
            assert!(numbers.is_sorted_by(|a, b| a < b), "seed {seed}: {numbers:?}");
            let _ = history.crashes_on(found, rng);
            let _ = recover(&history.disk, |_| {});
        }
    }
}

#[test]
fn a_truncated_target_and_one_without_a_log_say_so() {
    let rng = &mut stream(1, "truncated", 0);
    let (history, _) = written(1, rng);
    let image = history.disk.image();
    let error = |len: usize| {
        let mut image = image.clone();
        image.truncate(len);
        recover(&Disk::of(image), |_| {}).unwrap_err().to_string()
    };
    let (whole, half) = (history.layout.capacity_bytes, image.len() / 1024 * 512);
    assert!(
        error(half).contains(&format!("{whole} bytes, but the target has {half}")),
        "{}",
        error(half)
    );
    assert!(error(512).contains("no message log"));
    let mut one_description = image.clone();
    one_description[..4096].fill(0);
    assert_eq!(recover(&Disk::of(one_description.clone()), |_| {}).unwrap().layout, history.layout);
    one_description[DESCRIPTIONS_END / 2] ^= 1;
    assert!(recover(&Disk::of(one_description), |_| {}).is_err());
}
