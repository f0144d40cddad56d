//! Closed forms of a volume whose requests are served by one thread of the hypervisor: latency grows with depth from
//! 1 on, and the requests of a batch end together.

use crate::common;
use iodyno_emulate::spec::{CloudVolume, Device, IoThread, Kind, Preconditioned, Written};
use iodyno_emulate::{Machine, System};
use iodyno_units::{Op, OpKind};

const LATENCY_NS: u64 = 100_000;
const FLUSH_NS: u64 = 10_000;
const COMMAND_NS: u64 = 8_000;
const WRITE_COMMAND_NS: u64 = 5_000;
/// Time that the thread spends on a read of 4 KiB, at 1 GB/s, with the network at 10 GB/s.
const READ_NS: u64 = COMMAND_NS + 4096 + 410;
const WRITE_NS: u64 = WRITE_COMMAND_NS + 2048 + 410;

fn machine(queue_max: u32, write_command_ns: Option<u64>) -> Machine {
    let io_thread = IoThread {
        command_ns: COMMAND_NS,
        write_command_ns,
        read_bytes_per_s: 1e9,
        write_bytes_per_s: 2e9,
    };
    let volume = CloudVolume {
        varying_share: 0.0,
        queue_max,
        io_thread: Some(io_thread),
        ..common::volume()
    };
    let kind = Kind::Volume(Box::new(volume));
    let device = Device { name: "disk".to_owned(), kind, hot_swap: true, limits: Vec::new() };
    let mut system = System::new("virtual machine", common::host());
    system.add_device(device, Preconditioned { how: Written::Fresh, fill: 0.0 }, 0);
    Machine::new(&system, 1).unwrap()
}

/// Completion times of operations that are submitted at the given times, ns, by their order of submission.
fn completions(queue_max: u32, ops: &[(u64, OpKind)]) -> Vec<u64> {
    completions_of(machine(queue_max, Some(WRITE_COMMAND_NS)), ops)
}

fn completions_of(mut machine: Machine, ops: &[(u64, OpKind)]) -> Vec<u64> {
    let worker = machine.add_worker(0);
    for (token, (at_ns, kind)) in (0..).zip(ops) {
        let len_bytes = if *kind == OpKind::Flush { 0 } else { 4096 };
        let op = Op { offset_bytes: token * 4096, len_bytes, kind: *kind, fua: false };
        machine.submit(*at_ns, worker, 0, &op, token);
    }
    let mut ends = vec![0; ops.len()];
    while let Some(done) = machine.next_completion(1_000_000_000) {
        ends[done.token as usize] = done.at_ns;
    }
    assert_eq!(machine.check(), Ok(()));
    ends
}

/// Checks each completion time, with a tolerance for the rounding of transfers.
#[track_caller]
fn assert_ends(found: &[u64], expected: &[u64]) {
    let near = found.iter().zip(expected).all(|(a, b)| a.abs_diff(*b) <= 2 * found.len() as u64);
    assert!(found.len() == expected.len() && near, "{found:?}, not {expected:?}");
}

#[test]
fn a_batch_takes_one_latency_and_ends_together() {
    for depth in [1_u64, 4, 64] {
        let ops = vec![(0, OpKind::Read); depth as usize];
        let found = completions(256, &ops);
        assert_ends(&found, &vec![LATENCY_NS + depth * READ_NS; ops.len()]);
        assert!(found.iter().all(|end| *end == found[0]), "{found:?}");
    }
}

/// A request that arrives before the thread is idle again belongs to its batch.
#[test]
fn later_requests_join_a_batch_that_has_not_ended() {
    let during = LATENCY_NS + READ_NS / 2;
    let found =
        completions(256, &[(0, OpKind::Read), (50_000, OpKind::Write), (during, OpKind::Read)]);
    assert_ends(&found, &[LATENCY_NS + 2 * READ_NS + WRITE_NS; 3]);
    let after = LATENCY_NS + READ_NS + 1000;
    let found = completions(256, &[(0, OpKind::Read), (after, OpKind::Read)]);
    assert_ends(&found, &[LATENCY_NS + READ_NS, after + LATENCY_NS + READ_NS]);
}

/// A flush takes its latency in the thread, whether it wakes the thread up or not.
#[test]
fn a_flush_takes_its_latency_in_the_thread() {
    assert_ends(&completions(256, &[(0, OpKind::Flush)]), &[COMMAND_NS + FLUSH_NS]);
    let found = completions(256, &[(0, OpKind::Write), (1, OpKind::Flush)]);
    assert_ends(&found, &[LATENCY_NS + WRITE_NS + COMMAND_NS + FLUSH_NS; 2]);
}

/// Without a time of their own, writes take as long as other requests.
#[test]
fn writes_take_the_time_of_other_requests_by_default() {
    let found = completions_of(machine(256, None), &[(0, OpKind::Write)]);
    assert_ends(&found, &[LATENCY_NS + COMMAND_NS + WRITE_NS - WRITE_COMMAND_NS]);
}

/// A batch has at most as many requests as the queue holds.
#[test]
fn the_queue_bounds_a_batch() {
    let found = completions(2, &[(0, OpKind::Read); 4]);
    let batch = LATENCY_NS + 2 * READ_NS;
    assert_ends(&found, &[batch, batch, 2 * batch, 2 * batch]);
}
