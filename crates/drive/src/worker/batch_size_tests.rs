//! The number of operations that a worker submits together: on a device that it waits for, on one that keeps it busy,
//! and as the workload specifies.

use crate::clock::Clock;
use crate::engine::{Engine, Wait};
use crate::in_flight::Share;
use crate::recorder::Recorder;
use crate::worker::{Control, Limits, Worker};
use iodyno_units::{Op, OpKind};
use iodyno_workload::{Issue, Next, Outcome, Source};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;

const OPS: u64 = 4096;
const DEPTH: u32 = 16;

/// Reads in a closed loop.
#[derive(Debug)]
struct Reads {
    left: u64,
}

impl Source for Reads {
    type Token = ();

    fn start(&mut self, _: u64) {}

    fn next(&mut self, _: u64, free: usize) -> Next<()> {
        match (self.left, free) {
            (0, _) => Next::Done,
            (_, 0) => Next::WaitCompletion,
            _ => {
                self.left -= 1;
                let op = Op { offset_bytes: 0, len_bytes: 4096, kind: OpKind::Read, fua: false };
                Next::Issue(Issue { op, due_ns: None, token: () })
            }
        }
    }

    fn completed(&mut self, _: &Op, (): (), _: Outcome, _: u64) {}
}

/// A device that completes its whole queue at once, after `service_ns` per operation.
#[derive(Debug)]
struct Device {
    clock: Clock,
    service_ns: u64,
    queued: Vec<u32>,
    in_flight: Vec<u32>,
    done: Vec<u32>,
    /// Number of operations in each submission.
    batches: Vec<usize>,
    /// Number of operations in flight at each wait.
    waited_with: Vec<usize>,
}

impl Engine for Device {
    const HANDS_OVER: bool = true;

    fn queue(&mut self, slot: u32, _: &Op) {
        self.queued.push(slot);
    }

    fn turn(&mut self, wait: Wait) -> io::Result<()> {
        if !self.queued.is_empty() {
            self.batches.push(self.queued.len());
            self.in_flight.append(&mut self.queued);
        }
        if wait != Wait::No {
            self.waited_with.push(self.in_flight.len());
            let until_ns = self.clock.now_ns() + self.service_ns * self.in_flight.len() as u64;
            while self.clock.now_ns() < until_ns {
                std::hint::spin_loop();
            }
            self.done.append(&mut self.in_flight);
        }
        Ok(())
    }

    fn drain(&mut self, mut done: impl FnMut(u32, i32)) {
        self.done.drain(..).for_each(|slot| done(slot, 4096));
    }
}

/// The batch sizes of a closed loop.
fn batches(service_ns: u64, submit_batch: Option<u32>) -> Vec<usize> {
    let clock = Clock::new();
    let control = Arc::new(Control::new(Arc::new(AtomicBool::new(false)), 0, 0));
    control.start(clock.now_ns());
    let (sender, _intervals) = channel();
    let share = Share::ALL;
    let worker = Worker {
        control,
        limits: Limits { ramp_ns: 0, time_ns: None, share, start_after_ns: 0 },
        is_over: Arc::default(),
        clock,
        source: Reads { left: OPS },
        filler: None,
        verify: None,
        coverage: None,
        recorder: Recorder::new(0, false, 1_000_000_000, sender),
        slots: DEPTH,
        submit_batch,
    };
    let mut device = Device {
        clock,
        service_ns,
        queued: Vec::new(),
        in_flight: Vec::new(),
        done: Vec::new(),
        batches: Vec::new(),
        waited_with: Vec::new(),
    };
    worker.run(&mut device, None);
    assert_eq!(device.batches.iter().sum::<usize>() as u64, OPS);
    // Batches fill the queue without waiting for each other.
    assert!(device.waited_with.iter().all(|ops| *ops == DEPTH as usize), "{device:?}");
    device.batches
}

#[test]
fn a_worker_that_waits_for_its_device_submits_each_operation_by_itself() {
    let batches = batches(10_000, None);
    // First decision after four times the depth.
    let first = batches.iter().position(|batch| *batch == 1).unwrap();
    assert_eq!(batches[..first], [DEPTH as usize; 4]);
    assert!(batches[first..].iter().all(|batch| *batch == 1), "{batches:?}");
}

#[test]
fn a_worker_that_is_busy_submits_what_is_due_together() {
    let batches = batches(0, None);
    // A pause of this machine counts as one of the device, for the next decision.
    let whole = batches.iter().filter(|batch| **batch == DEPTH as usize).count();
    assert!(whole as u64 * u64::from(DEPTH) > OPS / 2, "{batches:?}");
}

#[test]
fn a_workload_decides_how_many_are_submitted_together() {
    for service_ns in [0, 10_000] {
        assert!(batches(service_ns, Some(4)).iter().all(|batch| *batch == 4));
    }
}
