//! Tests of the trace in memory.

use super::*;

fn op(kind: OpKind, offset_bytes: u64, len_bytes: u64) -> ForeignOp {
    ForeignOp { kind, fua: false, offset_bytes, len_bytes }
}

fn read(offset_bytes: u64, len_bytes: u64) -> ForeignOp {
    op(OpKind::Read, offset_bytes, len_bytes)
}

fn builder() -> TraceBuilder {
    let mut builder = TraceBuilder::new(1000, None);
    builder.part("a").unwrap();
    builder
}

#[test]
fn operations_come_back_as_they_were_in_the_order_of_their_times() {
    let mut b = builder();
    let other = b.part("b").unwrap();
    assert_eq!(b.part("a").unwrap(), 0);
    b.push(0, 500, read(4096, 512), Some(30)).unwrap();
    b.push(other, 100, ForeignOp { fua: true, ..op(OpKind::Write, 1 << 40, 64 << 20) }, None)
        .unwrap();
    let late = b.push(0, 500, op(OpKind::Trim, 0, 1536), None).unwrap();
    b.push(0, 500, op(OpKind::Flush, 77, 1), None).unwrap();
    b.completed(late, 700);
    let trace = b.finish(None).unwrap();
    let expect = |at_ns, kind, offset_bytes, len_bytes, fua, response_ns| TraceOp {
        at_ns,
        op: Op { offset_bytes, len_bytes, kind, fua },
        response_ns,
    };
    let expected = [
        // The second part begins after the first one, at a whole MiB.
        expect(0, OpKind::Write, (1 << 40) + (1 << 20), 64 << 20, true, None),
        expect(400, OpKind::Read, 4096, 512, false, Some(30)),
        expect(400, OpKind::Trim, 0, 1536, false, Some(200)),
        expect(400, OpKind::Flush, 0, 0, false, None),
    ];
    assert_eq!(trace.ops().collect::<Vec<_>>(), expected);
    let of = trace.summary();
    assert_eq!((of.all_ops(), of.span_ns, of.align_bytes, of.is_sorted), (4, 400, 512, false));
    assert_eq!(of.parts[1].start_bytes, 1 << 20);
    assert_eq!(of.end_bytes, (1 << 40) + (65 << 20));
    assert_eq!((of.fua, of.touched_bytes), (1, (64 << 20) + 4096));
}

#[test]
fn what_can_not_be_issued_is_refused() {
    let mut b = builder();
    for (at_ns, op, why) in [
        (0, read(0, 0), "a read needs a length"),
        (0, read(100, 512), "--align 512"),
        (0, op(OpKind::Write, 0, (64 << 20) + 512), "larger than 64 MiB"),
        (0, op(OpKind::Trim, u64::MAX, 512), "ends beyond"),
        (1 << 56, read(0, 512), "two years"),
    ] {
        let error = b.push(0, at_ns, op, None).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    assert!(b.is_empty());
    assert!(b.finish(Some(0)).unwrap_err().contains("no operation"));
    let mut few = TraceBuilder::new(2, None);
    few.part("a").unwrap();
    for _ in 0..2 {
        few.push(0, 0, read(0, 512), None).unwrap();
    }
    assert!(few.push(0, 0, read(0, 512), None).unwrap_err().contains("holds 2 operations"));
}

#[test]
fn ranges_are_enlarged_and_long_trims_divided() {
    let mut b = TraceBuilder::new(1000, Some(4096));
    b.part("a").unwrap();
    b.push(0, 0, read(100, 5000), None).unwrap();
    b.push(0, 0, op(OpKind::Trim, 0, (2 << 30) + 1), None).unwrap();
    let trace = b.finish(Some(0)).unwrap();
    let places: Vec<_> = trace.ops().map(|o| (o.op.offset_bytes, o.op.len_bytes)).collect();
    assert_eq!(places, [(0, 8192), (0, 1 << 30), (1 << 30, 1 << 30), (2 << 30, 4096)]);
    assert_eq!((trace.summary().rounded, trace.summary().divided), (2, 1));
}

/// An operation that was put back into its queue gets the time of its last issue. A completion before that issue
/// belongs to another operation.
#[test]
fn an_operation_that_is_issued_again_moves_to_its_last_issue() {
    let mut b = builder();
    assert_eq!(b.first_at_ns(), None);
    let trim = b.push(0, 100, op(OpKind::Trim, 0, 2 << 30), None).unwrap();
    b.push(0, 200, read(0, 512), None).unwrap();
    let last = b.push(0, 300, read(512, 512), None).unwrap();
    b.reissued(trim, 250);
    b.reissued(last, 400);
    b.completed(last, 390);
    b.completed(trim, 260);
    b.push(0, 410, read(0, 512), None).unwrap();
    assert_eq!(b.first_at_ns(), Some(200));
    let trace = b.finish(Some(0)).unwrap();
    let times: Vec<_> = trace.ops().map(|o| (o.at_ns, o.response_ns)).collect();
    assert_eq!(times, [(200, None), (250, Some(10)), (250, Some(10)), (400, None), (410, None)]);
}

#[test]
fn rates_runs_and_means_are_those_of_the_operations() {
    let mut b = builder();
    for i in 0..10 {
        b.push(0, i * 250_000_000, read(i * 4096, 4096), Some(1000 * i)).unwrap();
    }
    b.push(0, 2_300_000_000, op(OpKind::Write, 1 << 20, 4096), None).unwrap();
    let of = b.finish(Some(0)).unwrap().summary().clone();
    assert_eq!((of.peak_ops_per_s, of.peak_bytes_per_s), (4, 4 * 4096));
    assert_eq!((of.sequential, of.responses), ([9, 0, 9], (10, 4500.0)));
    assert_eq!(of.touched_bytes, 11 * 4096);
}

/// Compares the counts with their definition: for each operation, the number of others that ended before it began.
#[test]
fn waits_are_counts_of_completions() {
    let mut b = builder();
    for (at_ns, response_ns) in [(10, 5), (12, 100), (15, 2), (40, 0), (40, 9), (200, 1)] {
        b.push(0, at_ns, read(0, 512), Some(response_ns)).unwrap();
    }
    let mut trace = b.finish(Some(0)).unwrap();
    trace.add_waits().unwrap();
    let waits: Vec<_> =
        (0..6).map(|i| (trace.wait(i).completions, trace.wait(i).think_ns)).collect();
    // The fourth ends at its own start, but does not wait for itself; the fifth waits for it.
    assert_eq!(waits, [(0, 10), (0, 12), (1, 0), (2, 23), (3, 0), (5, 88)]);
}

/// Operations after which no other one begins, or that were in flight at the end of the recording, need no response
/// time. All parts of a long operation have its response time.
#[test]
fn only_operations_that_others_may_wait_for_need_a_response_time() {
    let mut b = builder();
    let hung = b.push(0, 10, read(0, 512), None).unwrap();
    let trim = b.push(0, 20, op(OpKind::Trim, 0, 2 << 30), None).unwrap();
    b.push(0, 100, read(0, 512), Some(5)).unwrap();
    for _ in 0..2 {
        b.push(0, 200, read(0, 512), None).unwrap();
    }
    b.completed(trim, 50);
    let with = |b: &TraceBuilder| {
        let b = TraceBuilder { rows: b.rows.clone(), parts: b.parts.clone(), ..builder() };
        b.finish(Some(0)).unwrap()
    };
    let error = with(&b).add_waits().unwrap_err();
    assert!(error.contains("1 of the 6 operations of the trace has no response time"), "{error}");
    b.unfinished(hung);
    let mut trace = with(&b);
    trace.add_waits().unwrap();
    let waits: Vec<_> =
        (0..6).map(|i| (trace.wait(i).completions, trace.wait(i).think_ns)).collect();
    assert_eq!(waits, [(0, 10), (0, 20), (0, 20), (2, 50), (3, 95), (3, 95)]);
    assert_eq!(trace.ops().next().unwrap().response_ns, None);
    assert_eq!(trace.summary().responses.0, 3);
}
