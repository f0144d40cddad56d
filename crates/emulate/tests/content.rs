//! Content of disks and memory after a power cut: acknowledged data survives if it was protected or flushed;
//! unprotected data is lost. (`laws.rs` covers flash.)

use crate::common;

use common::{disk, memory, shingled, system};
use iodyno_emulate::spec::{Kind, Written};
use iodyno_emulate::{Fault, Machine};
use iodyno_units::{Op, OpKind};

const UNITS: u64 = 16;

/// Losses in a history that was cut: whether an acknowledged write was lost, and whether a unit
/// returned a value other than its last write's.
#[derive(Debug, Default)]
struct Left {
    lost: bool,
    older: bool,
}

/// Writes to a few distant units, one at a time with pauses of `step_ns`, sometimes with a flush or a forced write, and
/// cuts the power at `at_ns`. Flushed and forced writes must survive, and no value may appear that was never written.
fn cut(kind: &Kind, at_ns: u64, step_ns: u64) -> Left {
    let mut m = Machine::new(&system(kind.clone(), Written::Fresh, 1), 1).unwrap();
    m.keep_content();
    let worker = m.add_worker(0);
    m.inject(at_ns, Fault::PowerCut);
    let mut acknowledged: Vec<Vec<u64>> = vec![Vec::new(); UNITS as usize];
    let mut durable = vec![None; UNITS as usize];
    let (mut now, mut token) = (0, 0_u64);
    while now < at_ns {
        let (flush, fua) = (token % 29 == 28, token % 23 == 22);
        let unit = token * 7 % UNITS;
        let offset_bytes = unit * (50 << 20);
        let write = Op { offset_bytes, len_bytes: 4096, kind: OpKind::Write, fua };
        let op = if flush { Op::FLUSH } else { write };
        m.submit(now, worker, 0, &op, token);
        let Some(done) = m.next_completion(at_ns) else { break };
        now = done.at_ns;
        if flush {
            durable = acknowledged.iter().map(|a| a.last().copied()).collect();
        } else {
            acknowledged[unit as usize].push(token);
            assert_eq!(m.content(0, offset_bytes), Some(token), "what was written is read");
            if fua {
                durable[unit as usize] = Some(token);
            }
        }
        // Some time to destage.
        while m.next_completion(now + step_ns).is_some() {}
        now += step_ns;
        token += 1;
    }
    while m.next_completion(at_ns + 1).is_some() {}
    let mut left = Left::default();
    for (unit, acknowledged) in acknowledged.iter().enumerate() {
        let holds = m.content(0, unit as u64 * (50 << 20));
        assert!(holds >= durable[unit], "cut at {at_ns}: {holds:?}, flushed {:?}", durable[unit]);
        let last = acknowledged.last().copied();
        // The one in flight may be there.
        let known = holds.is_none_or(|h| acknowledged.contains(&h) || h == token);
        assert!(known, "cut at {at_ns}: {holds:?} of {acknowledged:?}");
        left.lost |= holds < last;
        left.older |= holds.is_some() && holds < last;
    }
    assert_eq!(m.check(), Ok(()));
    left
}

/// Cuts the power at 60 times that are `every_ns` apart, and combines the losses.
fn cuts(kind: &Kind, every_ns: u64, step_ns: u64) -> Left {
    (1..=60)
        .map(|i| cut(kind, i * every_ns, step_ns))
        .fold(Left::default(), |a, b| Left { lost: a.lost | b.lost, older: a.older | b.older })
}

#[test]
fn a_disk_loses_what_its_cache_has_not_written_to_the_medium() {
    for (cached, uncached) in [(disk(true), disk(false)), (shingled(true), shingled(false))] {
        let left = cuts(&cached, 7_000_000, 1_000_000);
        assert!(left.lost && left.older, "{left:?}");
        let left = cuts(&uncached, 7_000_000, 0);
        assert!(!left.lost, "without a cache every acknowledgement is durable");
    }
}

/// Data that the heads have written survives without a flush.
#[test]
fn a_disk_keeps_what_it_has_destaged() {
    let mut m = Machine::new(&system(disk(true), Written::Fresh, 1), 1).unwrap();
    m.keep_content();
    let worker = m.add_worker(0);
    let write =
        |offset_bytes| Op { offset_bytes, len_bytes: 8192, kind: OpKind::Write, fua: false };
    m.submit(0, worker, 0, &write(4096), 7);
    m.submit(200_000_000, worker, 0, &write(4096 + (1 << 30)), 8);
    let mut acknowledged = Vec::new();
    while let Some(done) = m.next_completion(200_400_000) {
        acknowledged.push(done.token);
    }
    assert_eq!(acknowledged, [7, 8]);
    m.inject(200_400_000, Fault::PowerCut);
    while m.next_completion(200_400_001).is_some() {}
    assert_eq!([0, 4096, 8192, 12_288].map(|at| m.content(0, at)), [None, Some(7), Some(7), None]);
    assert_eq!(m.content(0, 4096 + (1 << 30)), None, "the heads had no time for it");
}

/// Without pending events, waiting for the next completion ends at once.
#[test]
fn an_idle_machine_stands_still() {
    let mut m = Machine::new(&system(memory(true), Written::Fresh, 1), 1).unwrap();
    assert_eq!(m.next_completion(u64::MAX), None);
    m.inject(50, Fault::PowerCut);
    assert_eq!((m.next_completion(u64::MAX), m.now_ns()), (None, 50));
}

/// Memory with a battery keeps its content; other memory is empty after a power cut, even after a
/// flush.
#[test]
fn memory_survives_where_it_is_protected() {
    let left = cuts(&memory(true), 50_000, 0);
    assert!(!left.lost, "{left:?}");
    let mut m = Machine::new(&system(memory(false), Written::Fresh, 1), 1).unwrap();
    m.keep_content();
    let worker = m.add_worker(0);
    let op = Op { offset_bytes: 0, len_bytes: 4096, kind: OpKind::Write, fua: true };
    m.submit(0, worker, 0, &op, 7);
    assert_eq!(m.next_completion(u64::MAX).map(|c| c.token), Some(7));
    assert_eq!(m.content(0, 0), Some(7));
    m.inject(m.now_ns(), Fault::PowerCut);
    assert_eq!(m.next_completion(u64::MAX), None);
    assert_eq!(m.content(0, 0), None);
}
