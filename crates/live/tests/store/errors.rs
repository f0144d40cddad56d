//! A host that fails at any of its calls: full, broken, or in the middle of a write, while overlapping writes,
//! zeroes, trims and forced writes are in flight. Power is cut, and the server is stopped, or killed at any call. For
//! each 512-byte sector the model has the set of permitted values, while the server runs (`live`) and after it
//! (`hard`). With even seeds the host cuts writes at whole units, and nothing at all may be lost. With odd seeds it
//! cuts them at any sector; then a unit whose new sum it refuses, too, is corrupt after a kill.
//!
//! The short form runs with the other tests. The last result of the long form is in
//! `bench/runs/2026-11-22-host-errors`:
//!
//! ```sh
//! IODYNO_SOAK_OPERATIONS=100000 IODYNO_SOAK_CUTS=500 IODYNO_SOAK_SEEDS=2 \
//!   cargo test --release -p iodyno-live --features host-faults --test store errors::soak -- --ignored --nocapture
//! ```

use crate::failing::{FailingHost, Mood};
use crate::rig::{Device, devices};
use iodyno_emulate::spec::Kind;
use iodyno_emulate::{Fault, Machine};
use iodyno_live::counts::Looks;
use iodyno_live::served::{Live, NEVER, Options, Payload, Sink};
use iodyno_live::store::{HostFaults, Store};
use iodyno_units::rng::{Generator, below, stream};
use iodyno_units::{IoError, Op, OpKind};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const UNITS: u64 = 12;
const SECTORS: u64 = UNITS * 8;
const SECTOR: u64 = 512;
const DEPTH: usize = 12;

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
}

type Results = Arc<Mutex<Vec<(u64, Result<(), IoError>)>>>;

struct Waiter {
    token: u64,
    results: Results,
}

impl Sink for Waiter {
    fn done(self, result: Result<(), IoError>) {
        self.results.lock().unwrap().push((self.token, result));
    }
}

/// A write to one sector, in the model.
#[derive(Clone, Debug)]
struct Write {
    token: u64,
    value: u64,
    begun: u64,
    ended: Option<u64>,
    is_ok: bool,
    is_durable: bool,
}

/// The permitted content of a sector.
#[derive(Clone, Debug)]
struct View {
    initial: Vec<u64>,
    writes: Vec<Write>,
}

impl View {
    fn permits(&self, value: u64, over: impl Fn(&Write) -> bool) -> bool {
        let replaced = |ended: u64| self.writes.iter().any(|w| over(w) && w.begun > ended);
        let initial = self.initial.contains(&value) && !replaced(0);
        initial || self.writes.iter().any(|w| w.value == value && !w.ended.is_some_and(&replaced))
    }

    /// Returns all permitted values.
    fn values(&self, over: impl Fn(&Write) -> bool + Copy) -> Vec<u64> {
        let all = self.initial.iter().copied().chain(self.writes.iter().map(|w| w.value));
        let all: BTreeSet<u64> = all.filter(|&v| self.permits(v, over)).collect();
        all.into_iter().collect()
    }
}

#[derive(Clone, Debug)]
struct Sector {
    live: View,
    hard: View,
}

/// An operation in flight, in the model.
struct Open {
    token: u64,
    kind: OpKind,
    sectors: Range<u64>,
    begun: u64,
    fua: bool,
}

struct Run {
    device: Device,
    seed: u64,
    path: PathBuf,
    host: Arc<FailingHost>,
    results: Results,
    live: Option<Live<Waiter>>,
    sectors: Vec<Sector>,
    open: Vec<Open>,
    step: u64,
    token: u64,
    random: Generator,
    pub tally: Tally,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    operations: u64,
    acknowledged: u64,
    failed: u64,
    flushes: u64,
    cuts: u64,
    kills: u64,
    stops: u64,
    torn: u64,
    host_faults: u64,
}

fn quiet<T>(host: &FailingHost, f: impl FnOnce() -> T) -> T {
    let was = host.with(|s| std::mem::replace(&mut s.is_quiet, true));
    let value = f();
    host.with(|s| s.is_quiet = was);
    value
}

fn machine(device: &Device, seed: u64) -> Machine {
    let mut machine = device.machine(seed);
    machine.add_worker(0);
    machine
}

impl Run {
    fn new(device: &Device, seed: u64, path: &Path) -> Self {
        let view = View { initial: vec![0], writes: Vec::new() };
        let sector = Sector { live: view.clone(), hard: view };
        let mut run = Self {
            device: device.clone(),
            seed,
            path: path.to_owned(),
            host: Arc::new(FailingHost::new(seed)),
            results: Results::default(),
            live: None,
            sectors: vec![sector; SECTORS as usize],
            open: Vec::new(),
            step: 0,
            token: 0,
            random: stream(seed, device.name, 7),
            tally: Tally::default(),
        };
        run.start();
        run
    }

    fn name(&self) -> String {
        format!("{}, seed {}, operation {}", self.device.name, self.seed, self.token)
    }

    /// Starts a server on the existing files.
    fn start(&mut self) {
        self.host.with(|s| {
            (s.is_dead, s.dies_in, s.mood) = (false, None, Mood::Well);
        });
        let machine = machine(&self.device, self.seed + self.tally.kills);
        let capacity = machine.capacity_bytes(0);
        let store = Store::in_file_with_faults(
            &self.path,
            capacity,
            self.device.options(),
            Arc::clone(&self.host) as Arc<dyn HostFaults>,
        );
        let store = store.unwrap_or_else(|e| panic!("{}: {e}", self.name()));
        self.live = Some(Live::new(machine, vec![store], &Options::default(), || NOW_NS.get()));
    }

    fn live(&self) -> &Live<Waiter> {
        self.live.as_ref().expect("a server runs")
    }

    fn value(token: u64, sector: u64) -> u64 {
        token << 16 | sector | 1 << 15
    }

    /// Submits an operation drawn at random.
    fn submit(&mut self) {
        self.token += 1;
        self.tally.operations += 1;
        let token = self.token;
        let kind = match below(&mut self.random, 14) {
            0 => OpKind::Flush,
            1 => OpKind::Trim,
            2..=4 => OpKind::WriteZeroes,
            _ => OpKind::Write,
        };
        let longest = [3, 8, 40][below(&mut self.random, 3) as usize];
        let from = below(&mut self.random, SECTORS);
        let to = (from + 1 + below(&mut self.random, longest)).min(SECTORS);
        // Often whole units.
        let (from, to) = match below(&mut self.random, 2) {
            0 => (from / 8 * 8, to.next_multiple_of(8)),
            _ => (from, to),
        };
        let fua = kind == OpKind::Write && below(&mut self.random, 5) == 0;
        let len_bytes = ((to - from) * SECTOR) as u32;
        let op = Op { offset_bytes: from * SECTOR, len_bytes, kind, fua };
        let op = if kind == OpKind::Flush { Op::FLUSH } else { op };
        let sectors = match kind {
            OpKind::Flush => 0..0,
            OpKind::Trim if matches!(self.device.kind, Kind::Disk(_)) => 0..0,
            OpKind::Trim => from.next_multiple_of(8)..(to / 8 * 8).max(from.next_multiple_of(8)),
            _ => from..to,
        };
        let of = |sector| if kind == OpKind::Write { Self::value(token, sector) } else { 0 };
        let data: Vec<u8> =
            (from..to).flat_map(|s| of(s).to_le_bytes().repeat(SECTOR as usize / 8)).collect();
        self.step += 1;
        let begun = self.step;
        for sector in sectors.clone() {
            let write = Write {
                token,
                value: of(sector),
                begun,
                ended: None,
                is_ok: false,
                is_durable: false,
            };
            let sector = &mut self.sectors[sector as usize];
            sector.live.writes.push(write.clone());
            sector.hard.writes.push(write);
        }
        self.open.push(Open { token, kind, sectors, begun, fua });
        let payload = if kind == OpKind::Write { Payload::Write(&data) } else { Payload::None };
        let waiter = Waiter { token, results: Arc::clone(&self.results) };
        self.live().submit(0, 0, &op, payload, waiter);
        self.take_results();
    }

    /// Lets time pass, but not beyond the next event if the server has as many operations as it may have.
    fn pass(&mut self) {
        let ns = self.device.pace * below(&mut self.random, 60_000);
        NOW_NS.set(NOW_NS.get() + ns);
        self.live().poll(Looks::default());
        self.take_results();
        while self.open.len() >= DEPTH {
            let next_ns = self.live().next_ns();
            assert_ne!(next_ns, NEVER, "{}: something is not answered", self.name());
            NOW_NS.set(NOW_NS.get().max(next_ns));
            self.live().poll(Looks::default());
            self.take_results();
        }
    }

    /// Takes the results since the last call; a killed server has returned none.
    fn take_results(&mut self) {
        let results = std::mem::take(&mut *self.results.lock().unwrap());
        if self.host.with(|s| s.is_dead) {
            // They stay open, for the kill.
            if self.open.len() >= DEPTH {
                self.open.truncate(DEPTH - 1);
            }
            return;
        }
        for (token, result) in results {
            self.end(token, result.is_ok());
        }
    }

    fn end(&mut self, token: u64, is_ok: bool) {
        self.step += 1;
        let step = self.step;
        let at = self.open.iter().position(|o| o.token == token);
        let open = self.open.swap_remove(at.expect("it was under way"));
        if is_ok {
            self.tally.acknowledged += 1;
        } else {
            self.tally.failed += 1;
        }
        let durable = self.device.keeps || open.fua || open.kind != OpKind::Write;
        let durable = durable && !self.device.forgets && is_ok;
        for sector in open.sectors.clone() {
            let sector = &mut self.sectors[sector as usize];
            for view in [&mut sector.live, &mut sector.hard] {
                if let Some(w) = view.writes.iter_mut().find(|w| w.token == token) {
                    (w.ended, w.is_ok, w.is_durable) = (Some(step), is_ok, durable);
                }
            }
        }
        if open.kind == OpKind::Flush && is_ok {
            self.flushed(open.begun);
        } else if is_ok {
            self.check(open.sectors);
        }
    }

    /// Updates the model after a successful flush that began at `begun`.
    fn flushed(&mut self, begun: u64) {
        self.tally.flushes += 1;
        // Every unit that was cut short has a sum of its own by now.
        self.host.with(|s| s.torn.clear());
        if self.device.forgets {
            return;
        }
        let bytes = self.bytes();
        for number in 0..SECTORS {
            let value = self.value_of(&bytes, number);
            let sector = &mut self.sectors[number as usize];
            let all_before = sector.hard.writes.iter().all(|w| w.ended.is_some_and(|e| e < begun));
            if all_before {
                // Its present content is permanent from now on.
                assert!(sector.live.permits(value, |w| w.is_ok), "{number} after a flush");
                sector.hard = View { initial: vec![value], writes: Vec::new() };
            } else {
                for w in &mut sector.hard.writes {
                    w.is_durable |= w.is_ok && w.ended.is_some_and(|e| e < begun);
                }
            }
        }
    }

    fn bytes(&self) -> Vec<u8> {
        quiet(&self.host, || {
            self.live().look(|_, stores, _| {
                let mut bytes = vec![1; (SECTORS * SECTOR) as usize];
                stores[0].read(0, &mut bytes).unwrap_or_else(|e| panic!("{}: {e}", self.name()));
                bytes
            })
        })
    }

    fn value_of(&self, bytes: &[u8], sector: u64) -> u64 {
        let at = (sector * SECTOR) as usize;
        let bytes = &bytes[at..at + SECTOR as usize];
        assert!(bytes.chunks(8).all(|w| w == &bytes[..8]), "{}: {sector} is torn", self.name());
        u64::from_le_bytes(bytes[..8].try_into().unwrap())
    }

    /// Checks current reads against the model. Content that nothing can change any more is remembered.
    fn check(&mut self, sectors: Range<u64>) {
        let bytes = self.bytes();
        for number in sectors {
            let value = self.value_of(&bytes, number);
            let live = &self.sectors[number as usize].live;
            let may = live.permits(value, |w| w.is_ok);
            assert!(may, "{}: sector {number} shows {value:#x}: {live:?}", self.name());
            let live = &mut self.sectors[number as usize].live;
            if live.writes.iter().all(|w| w.ended.is_some()) {
                *live = View { initial: vec![value], writes: Vec::new() };
            }
        }
    }

    fn power_cut(&mut self) {
        self.tally.cuts += 1;
        self.live().inject(Fault::PowerCut);
        self.take_results();
        assert!(self.open.is_empty(), "{}: a power cut fails what is in flight", self.name());
        let bytes = self.bytes();
        let stranded = self.live().look(|_, stores, _| stores[0].stranded_bytes());
        for number in 0..SECTORS {
            let value = self.value_of(&bytes, number);
            let hard = &self.sectors[number as usize].hard;
            let may = if self.device.forgets {
                value == 0
            } else {
                hard.permits(value, |w| w.is_durable)
            };
            assert!(may, "{}: after a cut {number} shows {value:#x}: {hard:?}", self.name());
            let mut values = hard.values(|w| w.is_durable);
            if self.device.forgets {
                values.push(0);
            }
            let sector = &mut self.sectors[number as usize];
            sector.live = View { initial: vec![value], writes: Vec::new() };
            let initial = if stranded == 0 { vec![value] } else { values };
            sector.hard = View { initial, writes: Vec::new() };
        }
    }

    /// Kills the server at one of its next calls to the host.
    fn kill(&mut self) {
        self.tally.kills += 1;
        let calls = below(&mut self.random, 12);
        self.host.with(|s| s.dies_in = Some(calls));
        for _ in 0..8 {
            self.submit();
            self.pass();
            if self.host.with(|s| s.is_dead) {
                break;
            }
        }
        self.reopen(false);
    }

    /// Shuts the server down cleanly, whatever the host does.
    fn stop(&mut self) {
        self.tally.stops += 1;
        let ended = self.live().end(|_| 0);
        self.take_results();
        let all = ended.is_ok() && !self.device.forgets;
        if ended.is_ok() {
            self.check(0..SECTORS);
        }
        if all {
            for sector in &mut self.sectors {
                sector.hard = sector.live.clone();
            }
        }
        self.reopen(all);
    }

    /// Checks the content of the files, and continues with them.
    fn reopen(&mut self, is_whole: bool) {
        self.host.with(|s| (s.is_quiet, s.is_dead) = (true, true));
        self.live = None;
        self.open.clear();
        self.results.lock().unwrap().clear();
        self.start();
        let torn = self.host.with(|s| std::mem::take(&mut s.torn));
        for unit in 0..UNITS {
            let mut bytes = vec![1; 4096];
            let read = self.live().look(|_, stores, _| {
                let read = stores[0].read(unit * 4096, &mut bytes);
                if read.is_err() {
                    // Where the host cuts writes at whole units, none is torn.
                    assert!(torn.contains(&unit), "{}: {read:?}", self.name());
                    stores[0].write_now(unit * 4096, &[0; 4096]).unwrap();
                }
                read
            });
            self.tally.torn += u64::from(read.is_err());
            for number in unit * 8..unit * 8 + 8 {
                let value = match read {
                    Ok(()) => u64::from_le_bytes(
                        bytes[(number % 8 * SECTOR) as usize..][..8].try_into().unwrap(),
                    ),
                    Err(_) => 0,
                };
                let hard = &self.sectors[number as usize].hard;
                let zero = self.device.forgets && value == 0;
                let may = zero || read.is_err() || hard.permits(value, |w| w.is_durable);
                let how = if is_whole { "a stop" } else { "a kill" };
                assert!(may, "{}: after {how} {number} shows {value:#x}: {hard:?}", self.name());
                let view = View { initial: vec![value], writes: Vec::new() };
                self.sectors[number as usize] = Sector { live: view.clone(), hard: view };
            }
        }
        self.host.with(|s| s.is_quiet = false);
    }

    fn go(&mut self, operations: u64, cuts: u64) {
        let every = operations / cuts;
        while self.tally.operations < operations {
            if below(&mut self.random, 12) == 0 {
                let mood = match below(&mut self.random, 8) {
                    0 => Mood::Full,
                    1 => Mood::Broken,
                    2 => Mood::Flaky(2),
                    3 | 4 => Mood::Flaky(8),
                    _ => Mood::Well,
                };
                self.host.with(|s| s.mood = mood);
            }
            self.submit();
            self.pass();
            if below(&mut self.random, 8) == 0 {
                self.check(0..SECTORS);
            }
            match below(&mut self.random, every * 8) {
                0..=3 => self.power_cut(),
                4..=7 => self.kill(),
                8 => self.stop(),
                _ => {}
            }
        }
        self.host.with(|s| s.mood = Mood::Well);
        self.stop();
        self.tally.host_faults = self.host.with(|s| s.faults);
    }
}

fn run(device: &Device, seed: u64, operations: u64, cuts: u64) -> Tally {
    let folder = tempfile::tempdir().unwrap();
    let mut run = Run::new(device, seed, &folder.path().join("image"));
    run.go(operations, cuts);
    run.tally
}

#[test]
fn nothing_acknowledged_is_lost_where_the_host_fails() {
    for device in devices() {
        for seed in 0..4 {
            let tally = run(&device, seed, 1000, 20);
            assert!(tally.host_faults > 100 && tally.cuts + tally.kills > 5, "{tally:?}");
            assert!(tally.acknowledged > 200 && tally.failed > 50, "{}: {tally:?}", device.name);
        }
    }
}

/// Long form, whose length the environment sets; see the module's description.
#[test]
#[ignore = "a soak: set IODYNO_SOAK_OPERATIONS"]
fn soak() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let operations = number("IODYNO_SOAK_OPERATIONS").expect("set IODYNO_SOAK_OPERATIONS");
    let cuts = number("IODYNO_SOAK_CUTS").unwrap_or(operations / 200).max(1);
    let seeds = number("IODYNO_SOAK_SEEDS").unwrap_or(1);
    for device in devices() {
        for seed in 100..100 + seeds {
            let tally = run(&device, seed, operations, cuts);
            println!("{}, seed {seed}: {tally:?}", device.name);
        }
    }
}
