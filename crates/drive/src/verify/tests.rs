//! Claims, and the known content of each unit after writes, flushes, failures and runs.

use super::*;
use iodyno_measure::Finding;

const UNIT: usize = 4096;

fn op(kind: OpKind, unit: u64, units: u32) -> Op {
    Op { offset_bytes: unit * 4096, len_bytes: units * 4096, kind, fua: false }
}

fn flushing(before: Option<Arc<Written>>) -> Known {
    Known { before, flushes: true, ..Known::default() }
}

fn map(writer: u64, before: Option<Written>) -> VerifyMap {
    VerifyMap::new(16 * 4096, 4096, writer, flushing(before.map(Arc::new)))
}

fn complete(map: &VerifyMap, op: &Op, succeeded: bool, buffer: &[u8]) -> Result<(), Wrong> {
    map.complete(op, succeeded, buffer, &mut map.tally())
}

/// Writes a unit, and returns its bytes.
fn write(map: &VerifyMap, unit: u64) -> Vec<u8> {
    let (op, mut buffer) = (op(OpKind::Write, unit, 1), vec![0; UNIT]);
    assert!(map.claim(&op));
    map.fill(&op, &mut buffer);
    complete(map, &op, true, &buffer).unwrap();
    buffer
}

/// Name of the class of a unit with these bytes: a finding, or `current`, `whole` or `unverified`.
fn called(map: &VerifyMap, unit: u64, bytes: &[u8]) -> &'static str {
    let op = op(OpKind::Read, unit, 1);
    assert!(map.claim(&op));
    let mut tally = map.tally();
    let result = map.complete(&op, true, bytes, &mut tally);
    assert_eq!(tally.checked, 1);
    assert_eq!(result.is_err(), tally.wrong_reads() == 1);
    match tally.found.iter().find(|(_, found)| found.reads == 1) {
        Some((finding, found)) => {
            assert_eq!(found.first_bytes, [unit * 4096]);
            finding.name()
        }
        None if tally.current == 1 => "current",
        None if tally.whole == 1 => "whole",
        None => "unverified",
    }
}

#[test]
fn writers_are_alone_and_a_failed_claim_leaves_nothing_behind() {
    let map = map(1, None);
    let (read, write) = (op(OpKind::Read, 2, 2), op(OpKind::Write, 3, 1));
    assert!(map.claim(&read) && map.claim(&read));
    assert!(!map.claim(&write), "a reader is there");
    let wide = op(OpKind::Write, 1, 4);
    assert!(!map.claim(&wide));
    assert!(map.claim(&op(OpKind::Write, 1, 1)), "the failed claim released unit 1");
    complete(&map, &read, true, &[0; 8192]).unwrap();
    complete(&map, &read, true, &[0; 8192]).unwrap();
    assert!(map.claim(&write), "all readers are gone");
    assert!(!map.claim(&read));
    map.abandon(&write);
    assert!(map.claim(&write), "a lost operation released its unit");
}

#[test]
fn within_a_run_the_latest_write_is_known() {
    let map = map(7, None);
    let other = super::tests::map(6, None);
    let [before, first, second] = [write(&other, 5), write(&map, 5), write(&map, 5)];
    assert_eq!(called(&map, 5, &second), "current");
    let stale = [called(&map, 5, &first), called(&map, 5, &before)];
    assert_eq!(stale, ["stale"; 2]);
    let torn = [&second[..1024], &first[1024..]].concat();
    let mut damaged = second.clone();
    damaged[100] ^= 1;
    let elsewhere = write(&map, 6);
    let cases = [(&torn, "torn"), (&damaged, "damaged"), (&elsewhere, "misdirected")];
    for (bytes, name) in cases {
        assert_eq!(called(&map, 5, bytes), name);
    }
    assert_eq!(called(&map, 5, &[0; UNIT]), "zeroed");
    assert_eq!(called(&map, 5, &[0xEE; UNIT]), "foreign");
    // A unit not written in this run may hold anything but partial content.
    assert_eq!(called(&map, 9, &[0; UNIT]), "unverified");
    assert_eq!(called(&map, 9, &[0xEE; UNIT]), "unverified");
    assert_eq!(called(&map, 9, &write(&other, 9)), "whole");
    assert_eq!(called(&map, 9, &elsewhere), "misdirected");
    // After a failed write nothing is known. The count continues, so that an old write is not taken for a new
    // one.
    let failing = op(OpKind::Write, 5, 1);
    assert!(map.claim(&failing));
    complete(&map, &failing, false, &[]).unwrap();
    assert_eq!([called(&map, 5, &second), called(&map, 5, &torn)], ["whole", "unverified"]);
    let third = write(&map, 5);
    assert_eq!([called(&map, 5, &third), called(&map, 5, &second)], ["current", "stale"]);
}

/// Old content in longer units, where this run or the map knows of a later write in shorter ones, means that the later
/// write was lost.
#[test]
fn a_longer_unit_where_a_shorter_one_was_written_is_stale() {
    let short = |writer, before: Option<Written>| {
        VerifyMap::new(16 * 4096, 512, writer, flushing(before.map(Arc::new)))
    };
    let called = |map: &VerifyMap, bytes: &[u8]| {
        let op = Op { offset_bytes: 0, len_bytes: 512, kind: OpKind::Read, fua: false };
        let mut tally = map.tally();
        assert!(map.claim(&op));
        let _ = map.complete(&op, true, &bytes[..512], &mut tally);
        let found = tally.found.iter().find(|(_, found)| found.reads == 1);
        found.map_or("unverified", |(finding, _)| finding.name())
    };
    let [old, new] = [write(&map(6, None), 0), write(&map(9, None), 0)];
    let run = short(7, None);
    assert_eq!(called(&run, &old), "unverified");
    let op = Op { offset_bytes: 0, len_bytes: 512, kind: OpKind::Write, fua: false };
    assert!(run.claim(&op));
    run.fill(&op, &mut [0; 512]);
    complete(&run, &op, true, &[]).unwrap();
    assert_eq!([called(&run, &old), called(&run, &new)], ["stale"; 2]);
    let later = short(8, Some(run.written(true)));
    assert_eq!([called(&later, &old), called(&later, &new)], ["stale", "unverified"]);
}

/// The first run on a target was interrupted: its writes in flight may be torn.
#[test]
fn writes_in_flight_of_an_unfinished_first_run_may_be_torn() {
    let first = map(200, None);
    let [a, b] = [write(&first, 0), write(&first, 0)];
    let torn = [&a[..1024], &b[1024..]].concat();
    let mut kept = Written::nothing(4096, 16);
    kept.unfinished = Some(200);
    assert_eq!(called(&map(300, Some(kept.clone())), 0, &torn), "unflushed");
    // If that run had finished, the torn unit would be corrupt.
    kept.unfinished = Some(250);
    assert_eq!(called(&map(300, Some(kept)), 0, &torn), "torn");
}

/// A run that does not touch the units that an unfinished run may have overwritten does not make them current.
#[test]
fn units_that_an_unfinished_run_left_uncertain_stay_so() {
    let first = map(100, None);
    let old = [write(&first, 0), write(&first, 1)];
    let mut kept = first.written(true);
    kept.unfinished = Some(200);
    let second = map(300, Some(kept));
    let new = write(&second, 1);
    let third = map(400, Some(Written::from_bytes(&second.written(true).to_bytes()).unwrap()));
    assert_eq!([called(&third, 0, &old[0]), called(&third, 1, &new)], ["whole", "current"]);
}

/// A run passes its map on as bytes: the next run knows the latest write of each unit, and which writes a power
/// cut may lose.
#[test]
fn the_next_run_knows_which_writes_were_flushed() {
    let first = map(100, None);
    let old = [write(&first, 0), write(&first, 1), write(&first, 2), write(&first, 3)];
    let kept = Written::from_bytes(&first.written(true).to_bytes()).unwrap();
    let latest = WriteId { writer: 100, generation: 1 };
    assert_eq!((kept.latest(0), kept.latest(9)), (Some(latest), None));

    let second = map(200, Some(kept));
    let flushed = write(&second, 0);
    let epoch = second.flush_begins();
    // Completed after the flush was submitted: the flush does not cover it.
    let late = write(&second, 1);
    second.flushed(epoch, true);
    let rewritten = write(&second, 0);
    let fua = Op { fua: true, ..op(OpKind::Write, 2, 1) };
    let mut durable = vec![0; UNIT];
    assert!(second.claim(&fua));
    second.fill(&fua, &mut durable);
    complete(&second, &fua, true, &durable).unwrap();
    let never_before = write(&second, 4);
    // A failed flush, and one after it, prove nothing.
    second.flushed(second.flush_begins(), false);
    second.flushed(second.flush_begins(), true);

    let kept = Written::from_bytes(&second.written(false).to_bytes()).unwrap();
    let third = VerifyMap::new(
        16 * 4096,
        4096,
        300,
        Known { before: Some(Arc::new(kept)), ..Known::default() },
    );
    let zeroes = vec![0; UNIT];
    for (unit, bytes, name) in [
        (0, &rewritten, "current"),
        (0, &flushed, "unflushed"),
        (0, &old[0], "stale"),
        (0, &zeroes, "zeroed"),
        (1, &late, "current"),
        (1, &old[1], "unflushed"),
        (1, &zeroes, "zeroed"),
        (2, &durable, "current"),
        (2, &old[2], "stale"),
        (3, &old[3], "current"),
        (4, &never_before, "current"),
        (4, &zeroes, "unflushed"),
        (5, &zeroes, "unverified"),
    ] {
        assert_eq!(called(&third, unit, bytes), name, "unit {unit}");
    }
    let torn = [&rewritten[..512], &flushed[512..]].concat();
    assert_eq!(called(&third, 0, &torn), "unflushed");
    // A run that this notebook does not know wrote later.
    assert_eq!(called(&third, 0, &write(&map(400, None), 0)), "whole");

    // A run that wrote after the map was made and did not finish.
    let mut kept = second.written(true);
    kept.unfinished = Some(250);
    let kept = Written::from_bytes(&kept.to_bytes()).unwrap();
    let third = map(300, Some(kept));
    let torn = [&write(&map(250, None), 0)[..512], &rewritten[512..]].concat();
    assert_eq!([called(&third, 0, &rewritten), called(&third, 0, &flushed)], ["whole", "stale"]);
    assert_eq!([called(&third, 0, &torn), called(&third, 0, &zeroes)], ["unflushed", "zeroed"]);

    // With a successful final flush, nothing may be lost.
    let kept = second.written(true);
    let third = map(300, Some(kept));
    for (unit, bytes) in [(0, &flushed), (1, &old[1])] {
        assert_eq!(called(&third, unit, bytes), "stale");
    }
    assert_eq!(called(&third, 4, &zeroes), Finding::Zeroed.name());
}

#[test]
fn a_run_on_a_part_of_the_target_keeps_what_is_known_of_the_rest() {
    let first = map(100, None);
    let (kept, rest) = (write(&first, 1), write(&first, 15));
    let known = flushing(Some(Arc::new(first.written(true))));
    let part = VerifyMap::new(4 * 4096, 4096, 200, known);
    let _ = write(&part, 2);
    let third = map(300, Some(Written::from_bytes(&part.written(true).to_bytes()).unwrap()));
    assert_eq!(called(&third, 1, &kept), "current");
    assert_eq!(called(&third, 15, &rest), "current");
    assert_eq!(called(&third, 2, &[0; UNIT]), "zeroed");
}

/// Bytes of a damaged notebook are not accepted as a map, and never cause a panic.
#[test]
fn damaged_bytes_are_no_map() {
    let first = map(100, None);
    write(&first, 3);
    let whole = first.written(false).to_bytes();
    assert_eq!(Written::from_bytes(&whole), Some(first.written(false)));
    for at in 0..whole.len() {
        assert_eq!(Written::from_bytes(&whole[..at]), None);
        for bit in 0..8 {
            let mut changed = whole.clone();
            changed[at] ^= 1 << bit;
            if let Some(map) = Written::from_bytes(&changed) {
                for unit in 0..20 {
                    let _ = (map.latest(unit), map.durable(unit));
                }
            }
        }
    }
}
