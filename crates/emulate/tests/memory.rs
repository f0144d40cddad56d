//! Closed forms of memory as a block device, without and with a queue of each thread.

use crate::common;
use common::Loop;
use iodyno_emulate::spec::{Kind, Memory, Written};
use iodyno_emulate::{Fault, Machine, System};
use iodyno_units::{Op, OpKind};

/// Time of a 4 KiB read: 3 µs, and the copy at 6 GB/s.
const READ_NS: f64 = 3_000.0 + 4096.0 / 6.0;

fn system(varying_share: f64, queues: bool) -> System {
    let Kind::Memory(memory) = common::memory(false) else { unreachable!() };
    let memory = Memory { varying_share, queues, read_passes: 0.0, ..*memory };
    let mut system = common::system(Kind::Memory(Box::new(memory)), Written::Fresh, 1);
    system.host.generator_ns = 500;
    system
}

fn run(varying_share: f64, queues: bool, workers: u32, depth: u32) -> common::Outcome {
    let load = Loop { workers, ..Loop::reads(depth) };
    load.run(&mut Machine::new(&system(varying_share, queues), 1).unwrap())
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.002, "{found}, not {expected}");
}

/// Without a queue, an operation ends before the next is submitted, and the generator's time adds to each.
#[test]
fn without_a_queue_depth_adds_nothing() {
    for (workers, depth) in [(1, 1), (1, 16), (2, 4)] {
        let found = run(0.0, false, workers, depth);
        assert_near(found.iops, f64::from(workers) * 1e9 / (READ_NS + 500.0));
        assert_near(found.read_ns, READ_NS);
    }
}

/// With a queue, each thread carries out its operations in turn while its next ones are prepared: a place in the queue
/// comes back after depth × service time, of which the generator has a part. (`ram:` has 1.21 M/s at depth 1 and 1.51 M/s
/// at depth 16, as it fetches the next block early.)
#[test]
fn with_a_queue_latency_grows_with_depth() {
    for (workers, depth) in [(1, 2), (1, 16), (2, 4)] {
        let found = run(0.0, true, workers, depth);
        assert_near(found.iops, f64::from(workers) * 1e9 / READ_NS);
        assert_near(found.read_ns, f64::from(depth) * READ_NS - 500.0);
    }
    assert_near(run(0.0, true, 1, 1).read_ns, READ_NS);
}

/// The varying part is exponentially distributed: the mean stays, the least time is the constant part, and the 99th
/// percentile is that of the distribution.
#[test]
fn the_varying_part_is_exponential() {
    let found = run(0.25, false, 1, 1);
    assert!((found.read_ns / READ_NS - 1.0).abs() < 0.01, "{}", found.read_ns);
    assert!(found.least_ns as f64 >= 0.75 * READ_NS - 1.0, "{}", found.least_ns);
    let p99_ns = READ_NS * (0.75 + 0.25 * 100_f64.ln());
    assert!((found.p99_ns as f64 / p99_ns - 1.0).abs() < 0.03, "{} for {p99_ns}", found.p99_ns);
}

/// A power cut drops the queues: the next operation waits for none of the dropped ones.
#[test]
fn a_power_cut_empties_the_queues() {
    let mut machine = Machine::new(&system(0.0, true), 1).unwrap();
    let worker = machine.add_worker(0);
    let op = Op { offset_bytes: 0, len_bytes: 4096, kind: OpKind::Read, fua: false };
    for token in 0..16 {
        machine.submit(0, worker, 0, &op, token);
    }
    machine.inject(10_000, Fault::PowerCut);
    while machine.next_completion(20_000).is_some() {}
    let issued_ns = machine.submit(20_000, worker, 0, &op, 16);
    let done = machine.next_completion(u64::MAX).unwrap();
    assert_eq!((done.token, done.failure), (16, None));
    assert!(((done.at_ns - issued_ns) as f64 - READ_NS).abs() < 2.0, "{}", done.at_ns - issued_ns);
}

/// A flush of the process's own memory is a fence; one of a RAM disk is a system call.
#[test]
fn a_flush_with_a_queue_makes_no_call() {
    for (queues, expected_ns) in [(false, 3_100), (true, 100)] {
        let mut machine = Machine::new(&system(0.0, queues), 1).unwrap();
        let worker = machine.add_worker(0);
        let issued_ns = machine.submit(0, worker, 0, &Op::FLUSH, 0);
        let done = machine.next_completion(u64::MAX).unwrap();
        assert_eq!(done.at_ns - issued_ns, expected_ns, "queue: {queues}");
    }
}
