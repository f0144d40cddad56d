//! Tests of the disk in virtual time: a closed loop that keeps a number of operations outstanding,
//! test disks, and one file for each kind of test: known results (`oracles`), invariants of
//! any disk (`laws`), power cuts (`power`), shingled tracks (`shingled`), and published figures of four disks
//! (`calibration`).

mod calibration;
mod laws;
mod oracles;
mod power;
mod shingled;

use super::{Disk, DiskSpec, Scheduler, Shingled};
use iodyno_units::rng::{Generator, below, stream};
use iodyno_units::{Op, OpKind};

pub(super) const MS: u64 = 1_000_000;
pub(super) const US: u64 = 1_000;

/// A disk of one zone with round parameters.
pub(super) fn plain() -> DiskSpec {
    DiskSpec {
        capacity_bytes: 100_000_000_000,
        rpm: 7_200,
        heads: 4,
        zones: 1,
        outer_bytes_per_s: 150e6,
        inner_bytes_per_s: 150e6,
        track_to_track_ns: MS,
        average_seek_ns: 8_500 * US,
        full_stroke_ns: 16 * MS,
        write_settle_ns: 500 * US,
        head_switch_ns: 800 * US,
        cylinder_switch_ns: MS,
        command_ns: 100 * US,
        link_bytes_per_s: 600e6,
        queue_max: 128,
        scheduler: Scheduler::Satf { age_max_ns: 3_600_000 * MS, window: 128 },
        buffer_bytes: 32 << 20,
        write_cache: false,
        accept_ns: 20 * US,
        read_ahead_bytes: 512 << 10,
        read_segments: 16,
        flash_bytes: 0,
        flash_read_ns: 100 * US,
        shingled: None,
    }
}

/// Result of a closed loop.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// Time from the start to the last counted completion.
    pub(super) elapsed_ns: u64,
    /// Completion time of the last operation, including uncounted ones.
    pub(super) ended_ns: u64,
    /// Latency of each operation, in the order of completion.
    pub(super) latencies_ns: Vec<u64>,
    /// Integral over time of the number of outstanding operations.
    pub(super) outstanding_ns: u128,
    /// Hash of the time and id of every completion.
    pub(super) hash: u64,
}

impl Outcome {
    pub(super) fn iops(&self) -> f64 {
        self.latencies_ns.len() as f64 * 1e9 / self.elapsed_ns as f64
    }

    pub(super) fn mean_ms(&self) -> f64 {
        let sum: u64 = self.latencies_ns.iter().sum();
        sum as f64 / self.latencies_ns.len() as f64 / 1e6
    }

    pub(super) fn max_ms(&self) -> f64 {
        self.latencies_ns.iter().max().map_or(0.0, |&ns| ns as f64 / 1e6)
    }
}

/// Keeps `depth` operations of `next` outstanding from `start_ns` on, until `count` have completed.
/// The remaining ones run to their end, uncounted.
pub(super) fn closed_loop(
    disk: &mut Disk,
    start_ns: u64,
    depth: u32,
    count: usize,
    mut next: impl FnMut() -> Op,
) -> Outcome {
    let mut submitted = vec![start_ns; depth as usize];
    let mut outcome = Outcome { hash: 0xCBF2_9CE4_8422_2325, ..Outcome::default() };
    for id in 0..depth {
        disk.submit(start_ns, id, next());
    }
    let (mut outstanding, mut before, mut done) = (u64::from(depth), start_ns, Vec::new());
    while outstanding > 0 {
        let now = disk.wake_at();
        assert_ne!(now, u64::MAX, "{outstanding} operations never complete");
        assert!(now >= before, "time runs backwards");
        let counting = outcome.latencies_ns.len() < count;
        if counting {
            outcome.outstanding_ns += u128::from(outstanding) * u128::from(now - before);
        }
        before = now;
        done.clear();
        disk.wake(now, &mut done);
        for &id in &done {
            outstanding -= 1;
            if outcome.latencies_ns.len() < count {
                outcome.elapsed_ns = now - start_ns;
                outcome.latencies_ns.push(now - submitted[id as usize]);
                outcome.hash = (outcome.hash ^ now).wrapping_mul(0x0000_0100_0000_01B3);
                outcome.hash = (outcome.hash ^ u64::from(id)).wrapping_mul(0x0000_0100_0000_01B3);
            }
            if outcome.latencies_ns.len() < count {
                submitted[id as usize] = now;
                disk.submit(now, id, next());
                outstanding += 1;
            }
        }
    }
    outcome.ended_ns = before;
    outcome
}

/// Lets a disk finish its background work. Returns the time at which the work ends.
pub(super) fn settle(disk: &mut Disk, mut now_ns: u64) -> u64 {
    let mut done = Vec::new();
    while disk.wake_at() != u64::MAX {
        now_ns = disk.wake_at();
        disk.wake(now_ns, &mut done);
    }
    now_ns
}

/// Runs one operation on a disk at rest. Returns its latency.
pub(super) fn one(disk: &mut Disk, now_ns: u64, op: Op) -> u64 {
    let mut first = true;
    closed_loop(disk, now_ns, 1, 1, || {
        assert!(std::mem::take(&mut first));
        op
    })
    .elapsed_ns
}

pub(super) fn op(kind: OpKind, offset_bytes: u64, len_bytes: u32) -> Op {
    Op { offset_bytes, len_bytes, kind, fua: false }
}

/// Aligned operations at uniformly random addresses; `reads` is the number of reads per thousand.
pub(super) fn random(
    capacity_bytes: u64,
    len_bytes: u32,
    reads: u64,
    seed: u64,
) -> impl FnMut() -> Op {
    let mut draw: Generator = stream(seed, "disk-test", 0);
    move || {
        let kind = if below(&mut draw, 1000) < reads { OpKind::Read } else { OpKind::Write };
        let blocks = capacity_bytes / u64::from(len_bytes);
        op(kind, below(&mut draw, blocks) * u64::from(len_bytes), len_bytes)
    }
}

/// Consecutive operations, from `offset_bytes` on.
pub(super) fn sequential(
    kind: OpKind,
    mut offset_bytes: u64,
    len_bytes: u32,
) -> impl FnMut() -> Op {
    move || {
        let op = op(kind, offset_bytes, len_bytes);
        offset_bytes += u64::from(len_bytes);
        op
    }
}
