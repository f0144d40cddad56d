//! Tests of the replay's addresses, workload and times.

use super::*;
use crate::ArrivalKind;
use crate::trace::{ForeignOp, TraceBuilder};
use proptest::prelude::*;

fn replay(ops: &[(u64, OpKind, u64, u64)], timing: Timing, fit: Fit, offset_bytes: u64) -> Replay {
    let mut builder = TraceBuilder::new(1000, None);
    let part = builder.part("a").unwrap();
    for &(at_ns, kind, offset, len) in ops {
        let op = ForeignOp { kind, fua: false, offset_bytes: offset, len_bytes: len };
        builder.push(part, at_ns, op, Some(1000)).unwrap();
    }
    let mut trace = builder.finish(Some(0)).unwrap();
    trace.add_waits().unwrap();
    Replay { trace: Arc::new(trace), timing, fit, offset_bytes, words: String::new() }
}

const TIME: Timing = Timing::Time { speed: 1.0 };
const SHAPE: ReplayShape = ReplayShape { threads: 1, depth: 8, content: Content::Incompressible };

#[test]
fn a_trace_beyond_the_target_is_refused_with_the_remedy() {
    let ops = [(0, OpKind::Read, 0, 4096), (1, OpKind::Write, 1 << 30, 4096)];
    let error = replay(&ops, TIME, Fit::Exact, 0).placement(1 << 20).unwrap_err().to_string();
    assert!(error.starts_with("1 of the 2 operations"), "{error}");
    assert!(error.contains("?size=1074790400") && error.contains("--fit scale"), "{error}");
    replay(&ops, TIME, Fit::Exact, 0).placement((1 << 30) + 4096).unwrap();
    replay(&ops, TIME, Fit::Exact, 512).placement((1 << 30) + 4096).unwrap_err();
    let error = replay(&ops, TIME, Fit::Wrap, 0).placement(512).unwrap_err().to_string();
    assert!(error.contains("an operation of 4KiB"), "{error}");
}

proptest! {
    /// For any trace and target, all operations lie on the target, at or after the offset, and at the trace's
    /// alignment. Scaled operations keep their order.
    #[test]
    fn every_place_is_in_the_target(
        places in prop::collection::vec((0..1_u64 << 30, 1..64_u64), 1..40),
        capacity in 80_u64..1 << 22,
        offset in 0_u64..16,
    ) {
        let ops: Vec<_> =
            places.iter().map(|&(o, l)| (0, OpKind::Read, o * 512, l * 512)).collect();
        for fit in [Fit::Scale, Fit::Wrap] {
            let of = replay(&ops, TIME, fit, offset * 512);
            let placement = of.placement(capacity * 512).unwrap();
            let mut placed: Vec<_> =
                of.trace.ops().map(|o| (o.op.offset_bytes, placement.place(o.op))).collect();
            placed.sort_by_key(|p| p.0);
            for (_, op) in &placed {
                prop_assert!(op.offset_bytes >= offset * 512);
                prop_assert!(op.offset_bytes + u64::from(op.len_bytes) <= capacity * 512);
                prop_assert_eq!(op.offset_bytes % u64::from(of.align_bytes()), 0);
            }
            if fit == Fit::Scale {
                // An operation that was moved before the end may pass others.
                let last = (offset + capacity).saturating_sub(offset + 64) * 512;
                let starts = placed.iter().map(|p| p.1.offset_bytes).filter(|&at| at < last);
                let starts: Vec<_> = starts.collect();
                prop_assert!(starts.windows(2).all(|w| w[0] <= w[1]));
            }
        }
    }
}

/// A part of a trace's time has the addresses that the same operations have in a replay of the whole trace.
#[test]
fn a_part_of_the_time_is_scaled_as_the_whole_trace() {
    let mut builder = TraceBuilder::new(1000, None);
    let part = builder.part("a").unwrap();
    let op = ForeignOp { kind: OpKind::Read, fua: false, offset_bytes: 1 << 20, len_bytes: 4096 };
    builder.push(part, 0, op, None).unwrap();
    builder.reach(part, 64 << 20, 0);
    let trace = Arc::new(builder.finish(Some(0)).unwrap());
    let of = Replay { trace, ..replay(&[(0, OpKind::Read, 0, 512)], TIME, Fit::Scale, 0) };
    let place = |capacity_bytes| {
        let placement = of.placement(capacity_bytes).unwrap();
        placement.place(of.trace.ops().next().unwrap().op).offset_bytes
    };
    assert_eq!((place(32 << 20), place(128 << 20)), (512 << 10, 2 << 20));
}

#[test]
fn the_workload_has_the_traces_figures() {
    let ops = [
        (0, OpKind::Read, 0, 4096),
        (500_000_000, OpKind::Write, 8192, 16384),
        (700_000_000, OpKind::Flush, 0, 0),
        (1_000_000_000, OpKind::Read, 4096, 4096),
    ];
    let spec = replay(&ops, Timing::Time { speed: 2.0 }, Fit::Exact, 4096).spec(&SHAPE).unwrap();
    assert_eq!((spec.align_bytes(), spec.max_data_bytes()), (4096, 16384));
    assert_eq!(spec.active().to_string(), "4KiB..28KiB");
    assert_eq!(
        (spec.limits().ops, spec.limits().time_ns, spec.limits().ramp_ns),
        (Some(4), None, 0)
    );
    assert!(spec.issues(OpKind::Flush) && spec.issues(OpKind::Write) && !spec.issues(OpKind::Trim));
    match spec.arrivals() {
        ArrivalKind::Open { rate_iops, .. } => assert!((rate_iops - 8.0).abs() < 1e-9),
        ArrivalKind::Closed { .. } => panic!("by time it is open"),
    }
    // With too many sizes, the most frequent ones and the largest.
    let many: Vec<_> = (1..=100).map(|n| (0, OpKind::Write, 0, n * 512)).collect();
    let spec = replay(&many, Timing::Fast, Fit::Exact, 0).spec(&SHAPE).unwrap();
    assert_eq!((spec.blocks(OpKind::Write).len(), spec.max_data_bytes()), (64, 51_200));
    assert!(matches!(spec.arrivals(), ArrivalKind::Closed { .. }));
    assert!(replay(&[(0, OpKind::Flush, 0, 0)], TIME, Fit::Exact, 0).spec(&SHAPE).is_err());
}

/// The source alone, with operations that take 70 ns each: it waits for as many completions as in the trace, and then
/// for the think time.
#[test]
fn think_time_is_kept() {
    // Response times in the trace are 1 µs: the third begins 400 ns after the second completes.
    let ops = [
        (100, OpKind::Read, 0, 512),
        (200, OpKind::Read, 512, 512),
        (1600, OpKind::Read, 1024, 512),
    ];
    for (speed, expected) in [(1.0, [100, 200, 670]), (2.0, [50, 100, 370])] {
        let of = replay(&ops, Timing::Think { speed }, Fit::Exact, 0);
        let mut source =
            TraceSource::new(&of, of.placement(1 << 20).unwrap(), WorkerIndex::ALONE, 4);
        source.start(0);
        let (mut now_ns, mut issued, mut in_flight) = (0, Vec::new(), Vec::new());
        loop {
            match source.next(now_ns, 4 - in_flight.len()) {
                Next::Issue(issue) => {
                    issued.push(now_ns);
                    in_flight.push((now_ns + 70, issue.op));
                    continue;
                }
                Next::Done => break,
                Next::WaitUntil(_) | Next::WaitCompletion => now_ns += 1,
            }
            while in_flight.first().is_some_and(|f: &(u64, Op)| f.0 <= now_ns) {
                source.completed(&in_flight.remove(0).1, (), Outcome::Succeeded, now_ns);
            }
        }
        // The second completes at 270 ns (or 170).
        assert_eq!(issued, expected);
    }
}
