//! The losses that a server counts in a power cut are exactly the bytes missing from its volume: for every kind of
//! device, whether power returns at once or later. `IODYNO_POWER_LOSSES=10000` runs that many cuts of each kind.

use crate::common;

use common::{disk, flash, memory, system};
use iodyno_emulate::spec::{DurableOrder, Kind, PowerCut, Written};
use iodyno_emulate::{Fault, Machine, PartId};
use iodyno_live::counts::{Looks, Taken};
use iodyno_live::served::{Live, Options, Payload, Sink};
use iodyno_live::store::{self, Dropped, Store};
use iodyno_units::rng::{Generator, below, stream};
use iodyno_units::{IoError, Op, OpKind};
use std::cell::Cell;
use std::sync::{Arc, Mutex};

/// Size of the area that each write has for itself, bytes, so that nothing is overwritten.
const AREA_BYTES: u64 = 64 << 10;

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
}

type Results = Arc<Mutex<Vec<Option<Result<(), IoError>>>>>;

struct Waiter(usize, Results);

impl Sink for Waiter {
    fn done(self, result: Result<(), IoError>) {
        self.1.lock().unwrap()[self.0] = Some(result);
    }
}

fn flash_with(protected: bool) -> Kind {
    let mut flash = flash();
    flash.buffer.protected = protected;
    Kind::Flash(Box::new(flash))
}

/// A volatile buffer, and a map whose units are written as a whole.
fn flash_that_merges() -> Kind {
    let mut flash = flash();
    flash.nand.planes = 2;
    flash.buffer.protected = false;
    flash.translation.unit_bytes = 8 << 10;
    Kind::Flash(Box::new(flash))
}

/// A rule for power cuts: atomic blocks of this size, and the order in which data becomes durable.
fn cutting(protected: bool, atomic_bytes: u32, order: DurableOrder) -> Kind {
    let mut flash = flash();
    flash.nand.planes = 2;
    flash.buffer.protected = protected;
    flash.power_cut = Some(PowerCut { atomic_bytes, order });
    Kind::Flash(Box::new(flash))
}

/// Name and specification of each device, how much slower than flash it is, and whether a power failure empties it.
fn devices() -> Vec<(&'static str, Kind, u64, bool)> {
    vec![
        ("a volatile buffer", flash_with(false), 1, false),
        ("a protected buffer", flash_with(true), 1, false),
        ("a map of 8 KiB", flash_that_merges(), 1, false),
        ("sectors of a volatile buffer", cutting(false, 512, DurableOrder::Any), 1, false),
        ("sectors in order", cutting(false, 512, DurableOrder::Acknowledged), 1, false),
        ("sectors of a protected buffer", cutting(true, 512, DurableOrder::Any), 1, false),
        ("blocks of 16 KiB", cutting(false, 16 << 10, DurableOrder::Any), 1, false),
        ("a disk's cache", disk(true), 40, false),
        ("a disk without", disk(false), 40, false),
        ("memory", memory(false), 1, true),
        ("protected memory", memory(true), 1, false),
    ]
}

struct Rig {
    live: Live<Waiter>,
    writes: Vec<(u64, Vec<u8>)>,
    results: Results,
}

impl Rig {
    fn new(kind: &Kind, emptied: bool, seed: u64) -> Self {
        let mut machine = Machine::new(&system(kind.clone(), Written::Fresh, 1), seed).unwrap();
        machine.add_worker(0);
        let options =
            store::Options { emptied_by_power_failure: emptied, ..store::Options::default() };
        let store = Store::in_memory(machine.capacity_bytes(0), 1 << 30, options);
        NOW_NS.set(0);
        let live = Live::new(machine, vec![store], &Options::default(), || NOW_NS.get());
        Self { live, writes: Vec::new(), results: Results::default() }
    }

    fn submit(&mut self, op: &Op, bytes: &[u8]) {
        let mut results = self.results.lock().unwrap();
        let waiter = Waiter(results.len(), Arc::clone(&self.results));
        results.push(None);
        drop(results);
        self.writes.push((op.offset_bytes, bytes.to_vec()));
        self.live.submit(0, 0, op, Payload::Write(bytes), waiter);
    }

    /// Writes a random length at a random offset in the next area.
    fn write(&mut self, random: &mut Generator) {
        let len = 512 * (1 + below(random, 64)) as usize;
        let offset_bytes = self.writes.len() as u64 * AREA_BYTES + 512 * below(random, 64);
        let fua = below(random, 16) == 0;
        let op = Op { offset_bytes, len_bytes: len as u32, kind: OpKind::Write, fua };
        self.submit(&op, &vec![1 + below(random, 255) as u8; len]);
    }

    /// Counts acknowledged writes and bytes that are missing, and torn writes.
    fn missing(&self) -> Dropped {
        let mut missing = Dropped::default();
        for ((offset, bytes), result) in self.writes.iter().zip(&*self.results.lock().unwrap()) {
            let (mut there, mut lost, mut at) = (0, 0, 0);
            while at < bytes.len() {
                let to_end = 512 - (*offset as usize + at) % 512;
                let part = at..bytes.len().min(at + to_end);
                let mut found = vec![0; part.len()];
                self.live
                    .look(|_, stores, _| stores[0].read(offset + at as u64, &mut found))
                    .unwrap();
                *(if found == bytes[part.clone()] { &mut there } else { &mut lost }) += part.len();
                at = part.end;
            }
            if *result == Some(Ok(())) {
                missing.writes += u64::from(lost > 0);
                missing.bytes += lost as u64;
            }
            missing.torn += u64::from(there > 0 && lost > 0);
        }
        missing
    }
}

/// Number of power losses to test for each kind of device.
fn losses() -> u64 {
    std::env::var("IODYNO_POWER_LOSSES").map_or(40, |n| n.parse().unwrap())
}

#[test]
fn a_power_cut_reports_what_is_missing_after_it() {
    for (name, kind, pace, emptied) in devices() {
        let mut random = stream(1, name, 0);
        let mut sum = Dropped::default();
        let mut in_flight = 0;
        for history in 0..losses() {
            let mut rig = Rig::new(&kind, emptied, history);
            for _ in 0..20 + below(&mut random, 100) {
                if below(&mut random, 40) == 0 {
                    rig.submit(&Op::FLUSH, &[]);
                } else {
                    rig.write(&mut random);
                }
                NOW_NS.set(NOW_NS.get() + pace * below(&mut random, 30_000));
                rig.live.poll(Looks::default());
            }
            let waits = |r: &Option<_>| r.is_none();
            let waiting =
                |rig: &Rig| rig.results.lock().unwrap().iter().filter(|r| waits(r)).count();
            // Operations that are done by now complete before the power fails.
            rig.live.poll(Looks::default());
            let failed = waiting(&rig) as u64;
            let taken = match history % 3 {
                0 => rig.live.inject(Fault::PowerCut),
                1 => rig.live.inject(Fault::PowerOff),
                _ => rig.live.inject(Fault::Lose { part: PartId(0) }),
            };
            if history % 3 < 2 || !name.contains("memory") {
                assert_eq!(waiting(&rig), 0, "{name}, history {history}: all in flight fail");
            }
            let [Taken { failed: reported, dropped }] = taken[..] else { panic!("one volume") };
            if waiting(&rig) == 0 {
                assert_eq!(reported, failed, "{name}, history {history}");
            }
            rig.live.inject(Fault::PowerOn);
            rig.live.inject(Fault::Clear { part: PartId(0) });
            let missing = rig.missing();
            if emptied {
                assert_eq!((dropped.writes, dropped.torn, missing.torn), (0, 0, 0), "{name}");
                assert!(dropped.bytes >= missing.bytes && missing.bytes > 0, "{name}");
            } else {
                assert_eq!(dropped, missing, "{name}, history {history}");
            }
            rig.live.look(|_, _, counts| assert_eq!(counts[0].dropped, dropped, "{name}"));
            sum.add(dropped);
            in_flight += failed;
        }
        println!("{name}: {in_flight} in flight, {sum:?}");
        let keeps = [
            "a protected buffer",
            "sectors of a protected buffer",
            "a disk without",
            "protected memory",
        ];
        assert_eq!(sum.bytes == 0, keeps.contains(&name), "{name}: {sum:?}");
        assert!(in_flight > 0 || name.contains("memory"), "{name}: nothing was in flight");
    }
}
