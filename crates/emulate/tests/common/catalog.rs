//! Closed loops in virtual time on a device of the catalog, alone in its system.

#![allow(dead_code, reason = "each test file uses its own part")]

use iodyno_catalog::{FileError, Kind, find};
use iodyno_emulate::describe;
use iodyno_emulate::spec::{Device, Host, Preconditioned, Written};
use iodyno_emulate::{Machine, System};
use iodyno_units::rng::{below, stream, unit_open_closed};
use iodyno_units::{Op, OpKind};

/// A device and its server.
pub(crate) struct Bench {
    pub(crate) device: Device,
    pub(crate) host: Host,
}

/// Steady state under random 4 KiB writes.
pub(crate) const STEADY: Written = Written::Random { block_bytes: 4096 };

/// A closed loop: threads × queue depth, aligned blocks over the whole device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Loop {
    pub(crate) read_share: f64,
    pub(crate) block: u32,
    pub(crate) in_order: bool,
    pub(crate) threads: u32,
    pub(crate) depth: u32,
    pub(crate) before: Written,
    pub(crate) ramp_s: f64,
    pub(crate) time_s: f64,
}

/// Result of a closed loop.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) iops: f64,
    pub(crate) mb_per_s: f64,
    pub(crate) mean_ms: f64,
    pub(crate) max_ms: f64,
}

impl Bench {
    /// Takes the device and its server from the catalog.
    pub(crate) fn new(name: &str) -> Self {
        let refused = |errors: Vec<FileError>| -> ! { panic!("{name}: {errors:?}") };
        let read = |kind, name: &str| find(kind, name).unwrap_or_else(|p| panic!("{p}")).text;
        let device = describe::device(name, &read(Kind::Device, name));
        let device = device.unwrap_or_else(|errors| refused(errors));
        let raw = read(Kind::System, &device.default_host);
        let system = describe::system(&device.default_host, &raw, &mut |_| Err(String::new()));
        let host = system.unwrap_or_else(|errors| refused(errors)).host;
        Self { device: device.device, host }
    }

    /// Runs a loop on a new machine.
    pub(crate) fn run(&self, l: &Loop) -> Outcome {
        let state = Preconditioned { how: l.before, fill: 1.0 };
        let devices = vec![(self.device.clone(), state)];
        let system = System::populate("bench", self.host.clone(), devices).unwrap();
        let mut machine = Machine::new(&system, 1).unwrap();
        let blocks = machine.capacity_bytes(0) / u64::from(l.block);
        let mut rng = stream(1, "calibration", 0);
        let mut next = 0;
        let mut op = || {
            let read = unit_open_closed(&mut rng) <= l.read_share;
            let kind = if read { OpKind::Read } else { OpKind::Write };
            let block = if l.in_order { next % blocks } else { below(&mut rng, blocks) };
            next += 1;
            let offset_bytes = block * u64::from(l.block);
            Op { offset_bytes, len_bytes: l.block, kind, fua: false }
        };
        let ns = |s: f64| (s * 1e9) as u64;
        let (ramp, end) = (ns(l.ramp_s), ns(l.ramp_s + l.time_s));
        let mut issued = Vec::new();
        let workers: Vec<u32> = (0..l.threads).map(|_| machine.add_worker(0)).collect();
        for &worker in &workers {
            for _ in 0..l.depth {
                let token = issued.len() as u64;
                issued.push(machine.submit(0, worker, 0, &op(), token));
            }
        }
        let (mut done, mut sum_ns, mut max_ns) = (0_u64, 0_u64, 0_u64);
        while let Some(c) = machine.next_completion(end) {
            assert_eq!(c.failure, None);
            if c.at_ns >= ramp {
                let latency_ns = c.at_ns - issued[c.token as usize];
                done += 1;
                sum_ns += latency_ns;
                max_ns = max_ns.max(latency_ns);
            }
            issued[c.token as usize] = machine.submit(c.at_ns, c.worker, 0, &op(), c.token);
        }
        let iops = done as f64 / l.time_s;
        Outcome {
            iops,
            mb_per_s: iops * f64::from(l.block) / 1e6,
            mean_ms: sum_ns as f64 / done.max(1) as f64 / 1e6,
            max_ms: max_ns as f64 / 1e6,
        }
    }
}
