//! A served machine of small devices in memory, with a clock that the test advances, and a model of its expected
//! bytes.

#[path = "../../../emulate/tests/common/mod.rs"]
mod common;

pub(crate) use common::host;
use common::{flash, memory};
use iodyno_emulate::spec::{
    Access, Adapters, ArrayShape, Cache, Device, Drawers, HostPaths, Kind, ParityEngine,
    Preconditioned, Processor, Slot, Written,
};
use iodyno_emulate::{AdapterFault, Fault, Machine, System};
use iodyno_live::counts::Looks;
use iodyno_live::served::{Live, Options, Payload, Sink, stores_needed};
use iodyno_live::store::{self, Store};
use iodyno_raid::{Level, Rotation};
use iodyno_units::rng::{Generator, below};
use iodyno_units::{IoError, Op, OpKind};
use std::cell::Cell;
use std::sync::mpsc::{Receiver, Sender, channel};

pub(crate) const UNIT: u64 = 4096;

/// Sink that sends the result and the bytes of a read to the test.
pub(crate) struct Reply {
    bytes: Vec<u8>,
    to: Sender<(Result<(), IoError>, Vec<u8>)>,
}

impl Sink for Reply {
    fn done(self, result: Result<(), IoError>) {
        self.to.send((result, self.bytes)).unwrap();
    }

    fn buffer(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

thread_local! {
    pub(crate) static NOW_NS: Cell<u64> = const { Cell::new(0) };
    /// Time that passes between two readings of the clock, ns.
    pub(crate) static STEP_NS: Cell<u64> = const { Cell::new(0) };
}

fn now_ns() -> u64 {
    NOW_NS.set(NOW_NS.get() + STEP_NS.get());
    NOW_NS.get()
}

/// A served array of small devices, and its expected content.
pub(crate) struct Rig {
    pub(crate) live: Live<Reply>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) members: u32,
    pub(crate) tolerates: usize,
    /// Whether the adapters before the array have a cache; None: there are no adapters.
    pub(crate) adapters: Option<bool>,
}

pub(crate) fn device(kind: u64) -> Kind {
    if let (0, Kind::Memory(mut memory)) = (kind, memory(true)) {
        memory.capacity_bytes = 32 * UNIT;
        return Kind::Memory(memory);
    }
    let mut flash = flash();
    flash.capacity_bytes = 64 * UNIT;
    flash.nand.channels = 2;
    flash.nand.pages_per_block = 8;
    flash.nand.raw_bytes = 192 * UNIT;
    flash.nand.parity_stripe = 0;
    flash.buffer.protected = true;
    flash.buffer.bytes = 16 * UNIT;
    Kind::Flash(Box::new(flash))
}

/// Two adapters, with or without a cache that is small and destages at once.
pub(crate) fn pair(is_cached: bool) -> Adapters {
    Adapters {
        count: 2,
        access: Access::Balanced,
        host_paths: HostPaths::Optimized,
        commands_max: 8,
        slot: Slot { read_bytes_per_s: 1e9, write_bytes_per_s: 1e9, fetch_ns: 300 },
        processor: Processor {
            read_ns: 1000,
            write_ns: 1000,
            device_ns: 500,
            raid6_ns: 100,
            forward_ns: 0,
        },
        parity: ParityEngine { xor_bytes_per_s: 1e9, gf_bytes_per_s: 1e9 },
        latency_ns: 5000,
        strip_bytes: UNIT,
        cache: is_cached.then_some(Cache {
            bytes: 48 * UNIT,
            write_ns: 400,
            mirror_ns: 300,
            mirror_bytes_per_s: 1e9,
            mirror_latency_ns: 1000,
            destage_share: 0.25,
            destage_ramp_bytes: 2 * UNIT,
            destage_depth: 2,
            keeps_reads: true,
        }),
        devices_max: 96,
        ssds_max: 96,
        aa_links: 1,
        failover_ns: 20_000,
        drawers: Drawers { count: 1, bays: 96, bytes_per_s: 1e9 },
    }
}

pub(crate) fn system(
    level: Level,
    members: u32,
    kind: u64,
    strip_units: u64,
    adapters: Option<bool>,
) -> System {
    let mut system = System::new("test", host());
    for _ in 0..members {
        let device = Device {
            name: "device".to_owned(),
            kind: device(kind),
            hot_swap: true,
            limits: Vec::new(),
        };
        system.add_device(device, Preconditioned { how: Written::Fresh, fill: 0.0 }, 0);
    }
    if let Some(is_cached) = adapters {
        system.attach(pair(is_cached)).unwrap();
    }
    let rotation = Rotation::LeftSymmetric;
    let shape = ArrayShape { level, members, strip_bytes: strip_units * UNIT, rotation };
    system.group(vec![(0..members as usize, Some((shape, "array".to_owned())))]).unwrap();
    system
}

/// The stores of a system.
pub(crate) fn stores_in_memory(system: &System) -> Vec<Store> {
    let devices = system.devices().map(|placed| placed.device.capacity_bytes());
    let devices = devices.map(|bytes| Store::in_memory(bytes, 1 << 30, options()));
    let caches = system
        .paths()
        .filter(|_| system.has_cache())
        .map(|(_, path)| Store::in_memory(path.capacity_bytes, 1 << 30, store::Options::default()));
    let stores: Vec<Store> = devices.chain(caches).collect();
    assert_eq!(stores.len(), stores_needed(system));
    stores
}

pub(crate) fn options() -> store::Options {
    store::Options { holes_for_zeroes: true, ..store::Options::default() }
}

impl Rig {
    pub(crate) fn new(
        level: Level,
        members: u32,
        kind: u64,
        strip_units: u64,
        adapters: Option<bool>,
    ) -> Self {
        let system = system(level, members, kind, strip_units, adapters);
        let stores = stores_in_memory(&system);
        Self { adapters, ..Self::over(&system, stores, level) }
    }

    pub(crate) fn over(system: &System, stores: Vec<Store>, level: Level) -> Self {
        let members = system.devices().count() as u32;
        let mut machine = Machine::represented(system, 1, 1).unwrap();
        machine.add_worker(0);
        let live = Live::new(machine, stores, &Options::default(), now_ns);
        let bytes = vec![0; live.capacity_bytes(0) as usize];
        let tolerates = match level {
            Level::Raid0 | Level::Jbod => 0,
            Level::Raid1 => members as usize - 1,
            Level::Raid6 => 2,
            Level::Raid5 | Level::Raid10 => 1,
        };
        Self { live, bytes, members, tolerates, adapters: None }
    }

    /// Injects a random fault of adapters from which the pair recovers.
    pub(crate) fn adapters_fail(&self, random: &mut Generator) {
        let adapter = below(random, 2) as u32;
        let volume = 0;
        let on = [None, Some(0), Some(1)][below(random, 3) as usize];
        let faults: &[AdapterFault] = match below(random, 7) {
            5 | 6 => &[AdapterFault::Access { volume, on, from: 0 }],
            0 => &[AdapterFault::Lose { adapter }],
            1 => &[AdapterFault::Replace { adapter }],
            2 => &[AdapterFault::LinkDown { link: 0 }],
            3 if self.adapters == Some(true) => &[AdapterFault::BatteryFails { adapter }],
            _ => &[
                AdapterFault::Clear { adapter: 0 },
                AdapterFault::Clear { adapter: 1 },
                AdapterFault::LinkUp { link: 0 },
            ],
        };
        let state = self.live.look(|machine, _, _| machine.adapters()).unwrap();
        let is_whole = state.adapters.iter().all(|a| !a.lost && !a.battery_failed);
        for &fault in faults {
            let clears = matches!(fault, AdapterFault::Clear { .. } | AdapterFault::LinkUp { .. });
            if clears || (is_whole && state.is_mirrored) {
                self.live.inject(Fault::Adapters(fault));
            }
        }
    }

    pub(crate) fn begin(
        &self,
        op: &Op,
        payload: Payload<'_>,
    ) -> Receiver<(Result<(), IoError>, Vec<u8>)> {
        let (to, from) = channel();
        let bytes = vec![0xEE; op.len_bytes as usize];
        self.live.submit(0, 0, op, payload, Reply { bytes, to });
        from
    }

    /// Advances the clock until the answer arrives, and returns it.
    pub(crate) fn wait(
        &self,
        from: &Receiver<(Result<(), IoError>, Vec<u8>)>,
    ) -> (Result<(), IoError>, Vec<u8>) {
        loop {
            if let Ok(answer) = from.try_recv() {
                return answer;
            }
            let next_ns = self.live.next_ns();
            assert!(next_ns < u64::MAX, "the operation is left");
            NOW_NS.set(NOW_NS.get().max(next_ns));
            self.live.poll(Looks::default());
        }
    }

    /// Advances the clock until all background work of the array has ended.
    pub(crate) fn settle(&self) {
        while self.live.next_ns() < u64::MAX {
            NOW_NS.set(NOW_NS.get().max(self.live.next_ns()));
            self.live.poll(Looks::default());
        }
    }

    pub(crate) fn any_op(&self, random: &mut Generator) -> Op {
        let sectors = self.bytes.len() as u64 / 512;
        let len = [1, 3, 8, 8, 16, 40, 100][below(random, 7) as usize].min(sectors);
        let mut at = below(random, sectors - len + 1);
        if below(random, 2) == 0 {
            at = at / 8 * 8;
        }
        let kinds = [OpKind::Read, OpKind::Write, OpKind::Write, OpKind::WriteZeroes];
        let kind = kinds[below(random, 4) as usize];
        Op { offset_bytes: at * 512, len_bytes: len as u32 * 512, kind, fua: false }
    }

    /// Begins an operation, and applies a write to the expected content.
    pub(crate) fn start(
        &mut self,
        op: &Op,
        random: &mut Generator,
    ) -> Receiver<(Result<(), IoError>, Vec<u8>)> {
        let range = op.offset_bytes as usize..(op.offset_bytes + u64::from(op.len_bytes)) as usize;
        match op.kind {
            OpKind::Read => self.begin(op, Payload::ReadIntoSink),
            OpKind::Write => {
                let data: Vec<u8> = range.clone().map(|_| below(random, 256) as u8).collect();
                self.bytes[range].copy_from_slice(&data);
                self.begin(op, Payload::Write(&data))
            }
            OpKind::WriteZeroes => {
                self.bytes[range].fill(0);
                self.begin(op, Payload::None)
            }
            OpKind::Flush | OpKind::Trim => self.begin(op, Payload::None),
        }
    }

    pub(crate) fn run(&mut self, op: &Op, random: &mut Generator) {
        if std::env::var_os("HISTORY").is_some() {
            println!("{op:?}");
        }
        let range = op.offset_bytes as usize..(op.offset_bytes + u64::from(op.len_bytes)) as usize;
        let from = self.start(op, random);
        let (result, bytes) = self.wait(&from);
        assert_eq!(result, Ok(()), "{op:?}");
        if op.kind == OpKind::Read {
            let differs = bytes.iter().zip(&self.bytes[range]).position(|(a, b)| a != b);
            assert_eq!(differs, None, "{op:?}: other bytes from there on");
        }
    }

    pub(crate) fn read_all(&mut self, random: &mut Generator) {
        for at in (0..self.bytes.len() as u64).step_by(5 * UNIT as usize) {
            let len_bytes = (self.bytes.len() as u64 - at).min(5 * UNIT) as u32;
            let op = Op { offset_bytes: at, len_bytes, kind: OpKind::Read, fua: false };
            self.run(&op, random);
        }
    }
}
