//! Builds machines from the text of device and system files with single values changed, and runs closed loops on them.

#![allow(dead_code, reason = "each test file uses its own part")]

use iodyno_catalog::{File, Kind, find};
use iodyno_emulate::describe;
use iodyno_emulate::spec::{Device, Host, Preconditioned, Written};
use iodyno_emulate::{Machine, System};
use iodyno_units::rng::{below, stream, unit_open_closed};
use iodyno_units::{Op, OpKind};

/// Upper bound of N, where the map holds one in N pages of a flash device, to keep a machine small.
const REPRESENT: u32 = 4096;

/// Changes of a flash device that leave few blocks, many of which are erased in a short time. Every
/// page is in the map.
pub(crate) const SMALL: &[(&str, &str)] = &[
    ("capacity", "\"80MiB\""),
    ("nand.channels", "2"),
    ("nand.dies_per_channel", "1"),
    ("nand.planes", "2"),
    ("nand.page", "\"4KiB\""),
    ("nand.pages_per_block", "64"),
    ("nand.raw", "\"128MiB\""),
    ("nand.parity_stripe", "0"),
];

/// The files of a device and of its server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Files {
    pub(crate) device: String,
    pub(crate) system: String,
}

impl Files {
    /// Takes the files from the catalog.
    pub(crate) fn new(device: &str, system: &str) -> Self {
        let text = |kind, name| find(kind, name).unwrap_or_else(|p| panic!("{p}")).text.to_string();
        Self { device: text(Kind::Device, device), system: text(Kind::System, system) }
    }

    /// Returns the files with another value of the parameter `key`, written as in a file. Adds a missing parameter,
    /// with its table.
    pub(crate) fn with(&self, (key, value): (&str, &str)) -> Self {
        let mut files = self.clone();
        let of_system = key.starts_with("host.") || key.starts_with("slots.");
        let text = if of_system { &mut files.system } else { &mut files.device };
        *text = set(text, key, value);
        files
    }

    /// Parses both files.
    pub(crate) fn read(&self) -> (Device, Host) {
        let device = describe::device("any", &self.device);
        let system = describe::system("any", &self.system, &mut |_| Err(String::new()));
        (device.unwrap_or_else(|e| panic!("{e:?}")).device, system.unwrap().host)
    }
}

/// `text` with `value` for the parameter `key`.
fn set(text: &str, key: &str, value: &str) -> String {
    let file = File {
        origin: "any.toml".into(),
        name: "any".into(),
        text: text.into(),
        is_named_by_file: false,
    };
    let whole = format!("{{ is = {value}, from = \"assumed: changed\" }}");
    let value = if file.get(key).is_some() { value } else { &whole };
    file.set(key, value).unwrap_or_else(|e| panic!("{key}: {e}")).text.to_string()
}

/// A server populated with `devices` copies of the device, or the name of the population rule that they break.
pub(crate) fn populated(
    device: &Device,
    host: &Host,
    how: Written,
    devices: usize,
) -> Result<System, &'static str> {
    let state = Preconditioned { how, fill: 1.0 };
    System::populate("effects", host.clone(), vec![(device.clone(), state); devices])
        .map_err(|broken| broken[0].rule)
}

/// The operations of a closed loop, and which of them are timed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ops {
    Reads,
    Writes,
    Flushes,
    /// Two reads for each write; the reads are timed.
    ReadsOfMix,
    /// Two reads for each write; both are timed.
    Mix,
}

/// A closed loop of `count` operations on a fresh machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    ops: Ops,
    block: u32,
    /// Outstanding operations of each worker.
    depth: u32,
    /// Number of workers on each device.
    workers: u32,
    devices: usize,
    /// Number of operations of all workers together.
    count: u64,
    /// Start of sequential operations, bytes; `None`: random operations over `span`.
    from: Option<u64>,
    /// Length of the used range, from the start of the device, bytes.
    span: u64,
    before: Written,
}

impl Load {
    /// Operations of 4 KiB at random, one at a time, on a device that was written at random.
    pub(crate) const fn new(ops: Ops) -> Self {
        Self {
            ops,
            block: 4096,
            depth: 1,
            workers: 1,
            devices: 1,
            count: 1000,
            from: None,
            span: u64::MAX,
            before: Written::Random { block_bytes: 4096 },
        }
    }
    pub(crate) const fn deep(self, depth: u32) -> Self {
        Self { depth, ..self }
    }
    /// Sets the block size of the operations, and of the writes before them.
    pub(crate) const fn blocks(self, block: u32) -> Self {
        Self { block, before: Written::Random { block_bytes: block }, ..self }
    }
    pub(crate) const fn workers(self, workers: u32) -> Self {
        Self { workers, ..self }
    }
    pub(crate) const fn devices(self, devices: usize) -> Self {
        Self { devices, ..self }
    }
    pub(crate) const fn count(self, count: u64) -> Self {
        Self { count, ..self }
    }
    pub(crate) const fn in_order_from(self, from: u64) -> Self {
        Self { from: Some(from), before: Written::Sequential, ..self }
    }
    pub(crate) const fn within(self, span: u64) -> Self {
        Self { span, ..self }
    }
    pub(crate) const fn fresh(self) -> Self {
        Self { before: Written::Fresh, ..self }
    }

    /// Builds the machine for the load.
    pub(crate) fn machine(&self, files: &Files) -> Machine {
        small(files, self.before, self.devices)
    }

    /// Mean time of an operation in ns, from the worker's decision to issue it to its end, including the CPU time of
    /// the worker.
    pub(crate) fn run(&self, m: &mut Machine) -> f64 {
        let mut rng = stream(1, "effects", 0);
        let mut issued: Vec<(u64, OpKind)> = Vec::new();
        let mut drawn = 0;
        let block = u64::from(self.block);
        let blocks = m.capacity_bytes(0).min(self.span) / block;
        let mut op = || {
            let kind = match self.ops {
                Ops::Flushes => return Op::FLUSH,
                Ops::Reads => OpKind::Read,
                Ops::Mix | Ops::ReadsOfMix if unit_open_closed(&mut rng) < 0.667 => OpKind::Read,
                Ops::Writes | Ops::Mix | Ops::ReadsOfMix => OpKind::Write,
            };
            let offset_bytes = match self.from {
                Some(from) => from + drawn * block,
                None => below(&mut rng, blocks) * block,
            };
            drawn += 1;
            Op { offset_bytes, len_bytes: self.block, kind, fua: false }
        };
        let volumes = 0..m.volumes();
        let homes: Vec<_> = volumes
            .flat_map(|volume| (0..self.workers).map(move |_| volume))
            .map(|volume| (volume, m.add_worker(volume)))
            .collect();
        for _ in 0..self.depth {
            for &(volume, worker) in &homes {
                let op = op();
                m.submit(0, worker, volume, &op, issued.len() as u64);
                issued.push((0, op.kind));
            }
        }
        let (mut sum_ns, mut timed) = (0, 0);
        for _ in 0..self.count {
            let done = m.next_completion(u64::MAX).expect("a closed loop has always more");
            assert_eq!(done.failure, None);
            let (from, kind) = issued[done.token as usize];
            if !matches!(self.ops, Ops::ReadsOfMix) || kind == OpKind::Read {
                sum_ns += done.at_ns - from;
                timed += 1;
            }
            let op = op();
            m.submit(done.at_ns, done.worker, done.volume, &op, done.token);
            issued[done.token as usize] = (done.at_ns, op.kind);
        }
        assert_eq!(m.check(), Ok(()));
        sum_ns as f64 / f64::from(timed)
    }
}

/// A machine with `devices` copies of the device in the state `before`, with as few pages in the map as possible.
pub(crate) fn small(files: &Files, before: Written, devices: usize) -> Machine {
    let (device, host) = files.read();
    let most = (device.capacity_bytes() >> 26).clamp(1, u64::from(REPRESENT));
    let system = populated(&device, &host, before, devices).unwrap();
    Machine::represented(&system, 1, 1 << most.ilog2()).unwrap()
}
