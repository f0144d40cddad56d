//! What one parameter of a file does: the file as text, the same with one value changed, and what a
//! small machine of each shows of it.

use iodyno_catalog::{File, Kind, find, parse};
use iodyno_emulate::describe;
use iodyno_emulate::endurance::outlook;
use iodyno_emulate::spec::{self, Device, Host, Precondition, Written};
use iodyno_emulate::{Fault, Machine, System};
use iodyno_units::rng::{below, stream, unit_open_closed};
use iodyno_units::{Op, OpKind};

/// One page in so many of a flash device goes through the map, so that a machine is small.
const REPRESENT: u32 = 4096;

/// The files of a device and of the server that it stands in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Files {
    pub(crate) device: String,
    pub(crate) system: String,
}

impl Files {
    /// From the catalog.
    pub(crate) fn new(device: &str, system: &str) -> Self {
        let text = |kind, name| find(kind, name).unwrap_or_else(|p| panic!("{p}")).text.to_string();
        Self { device: text(Kind::Device, device), system: text(Kind::System, system) }
    }

    /// The same where the parameter `key` has another value, written as in a file. It may be one
    /// that the file has left out so far, with its table.
    pub(crate) fn with(&self, (key, value): (&str, &str)) -> Self {
        let mut files = self.clone();
        let of_system = key.starts_with("host.") || key.starts_with("slots.");
        let text = if of_system { &mut files.system } else { &mut files.device };
        *text = set(text, key, value);
        files
    }

    /// What they mean.
    fn read(&self) -> (Device, Host) {
        let raw = |text: &str| {
            let file =
                File { origin: "effects.toml".into(), name: "any".into(), text: text.into() };
            parse(&file).unwrap_or_else(|problem| panic!("{problem}"))
        };
        let device = describe::device("any", &raw(&self.device));
        let system = describe::system("any", &raw(&self.system));
        (device.unwrap_or_else(|e| panic!("{e:?}")).device, system.unwrap().host)
    }

    /// The named rule that the files, or `devices` of this device in this server, break first.
    fn broken(&self, devices: usize) -> Option<&'static str> {
        let file = |text: &str| File {
            origin: "effects.toml".into(),
            name: "any".into(),
            text: text.into(),
        };
        let of_device = describe::device("any", &parse(&file(&self.device)).unwrap());
        let of_system = describe::system("any", &parse(&file(&self.system)).unwrap());
        let errors = of_device.as_ref().err().or(of_system.as_ref().err());
        if let Some(errors) = errors {
            return Some(errors[0].rule.unwrap_or_else(|| panic!("no rule: {errors:?}")));
        }
        let (device, host) = self.read();
        populated(&device, &host, Written::Fresh, devices).err()
    }
}

/// `text` with the parameter `key` as `value`.
fn set(text: &str, key: &str, value: &str) -> String {
    let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
    let line = format!("{name} = {{ is = {value}, from = \"assumed: changed\" }}");
    let mut lines: Vec<&str> = text.lines().collect();
    let header = format!("[{table}]");
    let first = match lines.iter().position(|l| *l == header) {
        _ if table.is_empty() => 0,
        Some(at) => at + 1,
        None => {
            lines.push(&header);
            lines.len()
        }
    };
    let rest = lines[first..].iter().position(|l| l.starts_with('['));
    let last = rest.map_or(lines.len(), |rest| first + rest);
    let stands = format!("{name} = ");
    match lines[first..last].iter().position(|l| l.starts_with(&stands)) {
        Some(at) => lines[first + at] = &line,
        None => lines.insert(first, &line),
    }
    lines.join("\n")
}

fn populated(
    device: &Device,
    host: &Host,
    how: Written,
    devices: usize,
) -> Result<System, &'static str> {
    let state = Precondition { how, fill: 1.0 };
    System::populate("effects", host.clone(), vec![(device.clone(), state); devices])
        .map_err(|broken| broken[0].rule)
}

/// What is done in a closed loop, and which of it is timed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ops {
    Reads,
    Writes,
    Flushes,
    /// Two reads for each write; the reads are timed.
    ReadsOfMix,
    /// The same; all are timed.
    Mix,
}

/// A closed loop of so many operations on a fresh machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    ops: Ops,
    block: u32,
    /// Outstanding by each worker, and workers on each device.
    depth: u32,
    workers: u32,
    devices: usize,
    /// In all.
    count: u64,
    /// One after the other from here on, bytes; None: at random over `span`.
    from: Option<u64>,
    /// Bytes from the start that are touched.
    span: u64,
    before: Written,
}

impl Load {
    /// 4 KiB at random over a device that was written at random, one at a time.
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
    /// Aligned blocks of this size, as were written before.
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

    /// Mean time of an operation from the worker's decision to the end, its core's time included,
    /// ns.
    fn run(&self, files: &Files) -> f64 {
        let (device, host) = files.read();
        let system = populated(&device, &host, self.before, self.devices).unwrap();
        let mut m = Machine::represented(&system, 1, represent(&device)).unwrap();
        let mut rng = stream(1, "effects", 0);
        let mut issued: Vec<(u64, OpKind)> = Vec::new();
        let mut drawn = 0;
        let block = u64::from(self.block);
        let blocks = device.capacity_bytes().min(self.span) / block;
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

/// The share of pages that leaves a small machine, and no smaller than there may be.
fn represent(device: &Device) -> u32 {
    let most = (device.capacity_bytes() >> 26).clamp(1, u64::from(REPRESENT));
    1 << most.ilog2()
}

/// How many of 64 acknowledged writes are gone after the power failed at once.
fn lost(files: &Files) -> usize {
    let (device, host) = files.read();
    let system = populated(&device, &host, Written::Fresh, 1).unwrap();
    let mut m = Machine::represented(&system, 1, represent(&device)).unwrap();
    m.keep_content();
    let worker = m.add_worker(0);
    let at = |token: u64| token * (1 << 20);
    for token in 0..64 {
        let write =
            Op { offset_bytes: at(token), len_bytes: 4096, kind: OpKind::Write, fua: false };
        m.submit(m.now_ns(), worker, 0, &write, token);
        m.next_completion(u64::MAX).expect("one is outstanding");
    }
    let now_ns = m.now_ns();
    m.inject(now_ns, Fault::PowerCut);
    while m.next_completion(now_ns + 1).is_some() {}
    (0..64).filter(|&token| m.content(0, at(token)) != Some(token)).count()
}

/// How a read of a damaged page ends: after how long, ns, and whether with its data.
fn damaged(files: &Files) -> (u64, bool) {
    let (device, host) = files.read();
    let system = populated(&device, &host, Written::Sequential, 1).unwrap();
    let mut m = Machine::represented(&system, 1, represent(&device)).unwrap();
    let worker = m.add_worker(0);
    m.inject(0, Fault::Page { volume: 0, offset_bytes: 0 });
    let read = Op { offset_bytes: 0, len_bytes: 4096, kind: OpKind::Read, fua: false };
    m.submit(1, worker, 0, &read, 0);
    let done = m.next_completion(u64::MAX).expect("one is outstanding");
    (done.at_ns, done.failure.is_none())
}

/// What a change of a value shows itself by.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    /// This load takes longer on the average, by 1 % at least.
    Slower(Load),
    /// The same, less long.
    Faster(Load),
    /// This rule is broken, by so many devices.
    Refused(&'static str, usize),
    /// The host sees another capacity.
    Capacity,
    /// Another life is promised.
    Endurance,
    /// Acknowledged writes are lost in a power cut, of which none were.
    Lost,
    /// All are kept, of which some were lost.
    Kept,
    /// A damaged page is lost, which was recovered.
    Unrecovered,
    /// A damaged page is recovered later.
    RecoveredLater,
}

impl Effect {
    /// Whether the change from one to the other has it: else what was seen.
    pub(crate) fn check(&self, before: &Files, after: &Files) -> Result<(), String> {
        let seen = |holds: bool, what: String| if holds { Ok(()) } else { Err(what) };
        match self {
            Self::Slower(load) | Self::Faster(load) => {
                let ratio = load.run(after) / load.run(before);
                let slower = matches!(self, Self::Slower(_));
                let holds = if slower { ratio >= 1.01 } else { ratio <= 1.0 / 1.01 };
                seen(holds, format!("{ratio:.4} times as long"))
            }
            Self::Refused(rule, devices) => {
                let (was, is) = (before.broken(*devices), after.broken(*devices));
                seen((was, is) == (None, Some(rule)), format!("{was:?}, then {is:?}"))
            }
            Self::Capacity => {
                let of = |files: &Files| files.read().0.capacity_bytes();
                seen(of(before) != of(after), format!("{} bytes", of(after)))
            }
            Self::Endurance => {
                let of = |files: &Files| match files.read().0.kind {
                    spec::Kind::Flash(flash) => outlook(&flash),
                    other => panic!("{other:?}"),
                };
                seen(of(before) != of(after), format!("{:?}", of(after)))
            }
            Self::Lost | Self::Kept => {
                let (was, is) = (lost(before), lost(after));
                let (less, more) = if matches!(self, Self::Lost) { (was, is) } else { (is, was) };
                seen(less == 0 && more > 0, format!("{was} lost, then {is}"))
            }
            Self::Unrecovered => {
                let (was, is) = (damaged(before), damaged(after));
                seen(was.1 && !is.1, format!("{was:?}, then {is:?}"))
            }
            Self::RecoveredLater => {
                let (was, is) = (damaged(before), damaged(after));
                seen(was.1 && is.1 && is.0 > was.0, format!("{was:?}, then {is:?}"))
            }
        }
    }
}

/// A key and its other value, what stands elsewhere in the files before and after the change, and
/// the effect of the change.
pub(crate) type Case =
    (&'static str, &'static str, &'static [(&'static str, &'static str)], Effect);

/// What is wrong with each case that has not its effect.
pub(crate) fn failures(files: &Files, cases: &[Case]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (key, value, around, effect) in cases {
        let before = around.iter().fold(files.clone(), |files, change| files.with(*change));
        let after = before.with((key, value));
        if let Err(seen) = effect.check(&before, &after) {
            wrong.push(format!("{key} = {value}: {seen}, where {effect:?} was expected"));
        }
    }
    wrong
}
