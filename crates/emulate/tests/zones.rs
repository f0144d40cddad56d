//! A zoned device compared with a small reference model: random commands, many of which are refused, and power cuts.

use crate::common;

use common::{flash, host};
use iodyno_catalog::{Kind as FileKind, find};
use iodyno_emulate::describe;
use iodyno_emulate::spec::*;
use iodyno_emulate::{Fault, Machine, System, ZoneAction, ZoneState};
use iodyno_units::rng::{Generator, below, stream};
use iodyno_units::{IoError, Op, OpKind, ZoneError};

const BLOCK: u64 = 4096;
/// Writable blocks of a zone.
const BLOCKS: u64 = 256;
const APART: u64 = 320;
const ZONES: u64 = 40;
const OPEN_MAX: usize = 3;
const ACTIVE_MAX: usize = 5;

fn zoned(appends: bool, fill: f64) -> System {
    let mut flash = flash();
    (flash.nand.channels, flash.nand.planes, flash.nand.pages_per_block) = (4, 4, 16);
    flash.nand.raw_bytes = (ZONES + 12) * BLOCKS * BLOCK;
    flash.capacity_bytes = ZONES * APART * BLOCK;
    flash.zones = Some(Zones {
        size_bytes: APART * BLOCK,
        capacity_bytes: BLOCKS * BLOCK,
        open_max: OPEN_MAX as u32,
        active_max: ACTIVE_MAX as u32,
        append_command_ns: 0,
        reset_ns: 3_000_000,
        appends,
    });
    flash.buffer.bytes = 128 << 10;
    let mut system = System::new("test", host());
    let kind = Kind::Flash(Box::new(flash));
    let device = Device { name: "zoned".to_owned(), kind, hot_swap: true, limits: Vec::new() };
    let how = if fill > 0.0 { Written::Sequential } else { Written::Fresh };
    system.add_device(device, Preconditioned { how, fill }, 0);
    system
}

/// A zone of the reference model: the tokens of its blocks, its state, and the order of its opening.
#[derive(Clone, Debug)]
struct Zone {
    data: Vec<u64>,
    state: ZoneState,
    opened: u64,
}

#[derive(Debug)]
struct Model {
    zones: Vec<Zone>,
    openings: u64,
}

impl Model {
    fn new() -> Self {
        let zone = Zone { data: Vec::new(), state: ZoneState::Empty, opened: 0 };
        Self { zones: vec![zone; ZONES as usize], openings: 0 }
    }

    fn count(&self, of: fn(ZoneState) -> bool) -> usize {
        self.zones.iter().filter(|zone| of(zone.state)).count()
    }

    fn open(&mut self, zone: usize, to: ZoneState) -> Result<(), ZoneError> {
        if !self.zones[zone].state.is_active() && self.count(ZoneState::is_active) == ACTIVE_MAX {
            return Err(ZoneError::TooManyActive);
        }
        if !self.zones[zone].state.is_open() && self.count(ZoneState::is_open) == OPEN_MAX {
            let implicit = self.zones.iter_mut().filter(|z| z.state == ZoneState::ImplicitlyOpen);
            let oldest = implicit.min_by_key(|z| z.opened).ok_or(ZoneError::TooManyOpen)?;
            oldest.state = ZoneState::Closed;
        }
        if !self.zones[zone].state.is_open() {
            self.openings += 1;
            self.zones[zone].opened = self.openings;
        }
        self.zones[zone].state = to;
        Ok(())
    }

    fn write(
        &mut self,
        zone: usize,
        at: Option<u64>,
        len: u64,
        token: u64,
    ) -> Result<(), ZoneError> {
        let found = &self.zones[zone];
        let pointer = found.data.len() as u64;
        if found.state == ZoneState::Full {
            return Err(ZoneError::Full);
        }
        if at.unwrap_or(pointer) + len > BLOCKS {
            return Err(ZoneError::Boundary);
        }
        if at.is_some_and(|at| at != pointer) {
            return Err(ZoneError::InvalidWrite);
        }
        if !found.state.is_open() {
            self.open(zone, ZoneState::ImplicitlyOpen)?;
        }
        self.zones[zone].data.extend((0..len).map(|_| token));
        if pointer + len == BLOCKS {
            self.zones[zone].state = ZoneState::Full;
        }
        Ok(())
    }

    fn manage(&mut self, zone: usize, action: ZoneAction) -> Result<(), ZoneError> {
        let state = self.zones[zone].state;
        match action {
            ZoneAction::Open if state == ZoneState::Full => Err(ZoneError::InvalidTransition),
            ZoneAction::Open => self.open(zone, ZoneState::ExplicitlyOpen),
            ZoneAction::Close if !state.is_active() => Err(ZoneError::InvalidTransition),
            ZoneAction::Close => {
                self.zones[zone].state = ZoneState::Closed;
                Ok(())
            }
            ZoneAction::Finish => {
                self.zones[zone].state = ZoneState::Full;
                Ok(())
            }
            ZoneAction::Reset => {
                let opened = self.zones[zone].opened;
                self.zones[zone] = Zone { data: Vec::new(), state: ZoneState::Empty, opened };
                Ok(())
            }
        }
    }
}

/// A machine and its reference model, with the expected result of each operation by token.
struct Pair {
    machine: Machine,
    worker: u32,
    model: Model,
    appends: bool,
    finishes: bool,
    now_ns: u64,
    expected: Vec<Option<IoError>>,
    ended: usize,
    acknowledged: Vec<bool>,
}

impl Pair {
    fn new(appends: bool, finishes: bool) -> Self {
        let mut machine = Machine::new(&zoned(appends, 0.0), 1).unwrap();
        machine.keep_content();
        let worker = machine.add_worker(0);
        Self {
            machine,
            worker,
            model: Model::new(),
            appends,
            finishes,
            now_ns: 0,
            expected: Vec::new(),
            ended: 0,
            acknowledged: Vec::new(),
        }
    }

    fn step(&mut self, rng: &mut Generator) {
        let token = self.expected.len() as u64;
        // A few zones get most of the commands, so that they become full.
        let among = if below(rng, 10) == 0 { ZONES } else { 4 };
        let active: Vec<usize> =
            (0..ZONES as usize).filter(|&z| self.model.zones[z].state.is_active()).collect();
        // Active zones are reset now and then, so that others can be opened.
        let resets = below(rng, 8) == 0 && active.len() > 2;
        let drawn = below(rng, among) as usize;
        let zone = if resets { active[below(rng, active.len() as u64) as usize] } else { drawn };
        let pointer = self.model.zones[zone].data.len() as u64;
        let start = zone as u64 * APART;
        let (machine, worker, at) = (&mut self.machine, self.worker, self.now_ns);
        let what = below(rng, 24);
        let is_full = self.model.zones[zone].state == ZoneState::Full;
        let expected = if resets || (what < 14 && is_full) {
            let op = |kind, offset: u64, len: u64| Op {
                offset_bytes: offset * BLOCK,
                len_bytes: (len * BLOCK) as u32,
                kind,
                fua: false,
            };
            machine.submit(at, worker, 0, &op(OpKind::Trim, start, APART), token);
            self.model.manage(zone, ZoneAction::Reset)
        } else if what < 3 {
            let all = [ZoneAction::Open, ZoneAction::Close, ZoneAction::Finish, ZoneAction::Reset];
            let action = all[below(rng, 4) as usize];
            if action == ZoneAction::Finish && !self.finishes {
                return;
            }
            machine.manage_zone(at, worker, 0, (zone, action), token);
            self.model.manage(zone, action)
        } else {
            let len = 1 + below(rng, 24);
            // Some writes miss the pointer.
            let offset = if below(rng, 8) == 0 { below(rng, APART - len) } else { pointer };
            let op = Op {
                offset_bytes: (start + offset.min(APART - len)) * BLOCK,
                len_bytes: (len * BLOCK) as u32,
                kind: OpKind::Write,
                fua: false,
            };
            machine.submit(at, worker, 0, &op, token);
            let at = (!self.appends).then_some(op.offset_bytes / BLOCK - start);
            self.model.write(zone, at, len, token)
        };
        self.expected.push(expected.err().map(IoError::Zone));
        self.acknowledged.push(false);
        self.now_ns += below(rng, 400_000);
        self.collect(self.now_ns);
    }

    fn collect(&mut self, until_ns: u64) {
        while let Some(done) = self.machine.next_completion(until_ns) {
            let token = done.token as usize;
            assert_eq!(done.failure, self.expected[token], "operation {token}");
            assert!(!std::mem::replace(&mut self.acknowledged[token], true), "{token} twice");
            self.ended += 1;
        }
        assert_eq!(self.machine.check(), Ok(()));
    }

    /// Compares states, pointers and content at rest.
    fn compare(&self) {
        let zones = self.machine.zones(0).unwrap();
        for (number, (found, model)) in zones.iter().zip(&self.model.zones).enumerate() {
            assert_eq!(found.state, model.state, "zone {number}");
            let written = (found.pointer_bytes - found.start_bytes) / BLOCK;
            let finished = found.state == ZoneState::Full;
            assert_eq!(
                written,
                if finished { BLOCKS } else { model.data.len() as u64 },
                "{number}"
            );
            for block in 0..APART {
                let held = self.machine.content(0, found.start_bytes + block * BLOCK);
                assert_eq!(held, model.data.get(block as usize).copied(), "{number}, {block}");
            }
        }
    }

    /// Cuts the power. Checks that each zone's content is a prefix of its writes that includes all acknowledged ones,
    /// and copies the state to the model.
    fn cut(&mut self) {
        self.machine.inject(self.now_ns, Fault::PowerCut);
        self.collect(self.now_ns + 1);
        self.now_ns += 1000;
        self.acknowledged.fill(true);
        for (found, model) in self.machine.zones(0).unwrap().iter().zip(&mut self.model.zones) {
            let held = |block: u64| self.machine.content(0, found.start_bytes + block * BLOCK);
            let data: Vec<u64> = (0..BLOCKS).map_while(held).collect();
            assert!(found.state == ZoneState::Full || !found.state.is_open());
            if found.state != ZoneState::Full {
                let pointer = (found.pointer_bytes - found.start_bytes) / BLOCK;
                assert_eq!(pointer, data.len() as u64, "the pointer is at the end of the data");
            }
            (model.data, model.state) = (data, found.state);
        }
        self.ended = self.expected.len();
    }
}

#[test]
fn a_zoned_device_behaves_as_the_reference_model() {
    for seed in 0..12 {
        let mut pair = Pair::new(seed % 3 == 0, seed % 2 == 0);
        let mut rng = stream(seed, "zones", 0);
        for _ in 0..1500 {
            pair.step(&mut rng);
        }
        pair.collect(u64::MAX);
        assert_eq!(pair.ended, pair.expected.len(), "every command ends once");
        let refused = pair.expected.iter().filter(|error| error.is_some()).count();
        assert!(refused > 50 && refused < pair.expected.len() * 2 / 3, "{refused} were refused");
        pair.compare();
        let counts = pair.machine.flash_counts(0).unwrap();
        if !pair.finishes {
            assert_eq!(counts.write_amplification().to_bits(), 1.0_f64.to_bits(), "{counts:?}");
        }
        assert_eq!(counts.copied_pages + counts.merged_pages, 0);
    }
}

#[test]
fn acknowledged_writes_survive_a_power_cut() {
    for seed in 0..40 {
        let mut pair = Pair::new(seed % 2 == 0, true);
        let mut rng = stream(seed, "zones and cuts", 0);
        for _ in 0..6 {
            for _ in 0..60 {
                pair.step(&mut rng);
            }
            let before: Vec<(Vec<u64>, ZoneState)> =
                pair.model.zones.iter().map(|z| (z.data.clone(), z.state)).collect();
            let acknowledged = pair.acknowledged.clone();
            pair.cut();
            for (zone, (data, _)) in pair.model.zones.iter().zip(&before) {
                // A reset in flight may not have taken place; otherwise a prefix is left.
                if data.is_empty() {
                    continue;
                }
                let is_prefix = data.starts_with(&zone.data);
                let is_old = zone.data.first() != data.first();
                assert!(is_prefix || is_old, "{:?} is left of {data:?}", zone.data);
                let lost = data.iter().skip(zone.data.len());
                assert!(is_old || lost.clone().all(|token| !acknowledged[*token as usize]));
            }
        }
        for _ in 0..200 {
            pair.step(&mut rng);
        }
        pair.collect(u64::MAX);
        assert_eq!(pair.ended, pair.expected.len());
        pair.compare();
    }
}

/// Each open zone has a partial program operation in the buffer. A finish programs it, and a reset takes the
/// corresponding share of the time of a full zone. Reads beyond a zone's capacity occupy no die.
#[test]
fn times_of_commands() {
    let mut machine = Machine::new(&zoned(false, 0.5), 1).unwrap();
    let worker = machine.add_worker(0);
    let zones = machine.zones(0).unwrap();
    assert_eq!(zones.iter().filter(|zone| zone.state == ZoneState::Full).count(), 20);
    let run = |machine: &mut Machine, kind: Result<(OpKind, u64), (usize, ZoneAction)>| {
        let at = machine.now_ns();
        let at = match kind {
            Ok((kind, block)) => {
                let op = Op { offset_bytes: block * BLOCK, len_bytes: 4096, kind, fua: false };
                machine.submit(at, worker, 0, &op, 0)
            }
            Err(action) => machine.manage_zone(at, worker, 0, action, 0),
        };
        let done = machine.next_completion(u64::MAX).unwrap();
        assert_eq!(done.failure, None);
        while machine.next_completion(u64::MAX).is_some() {}
        done.at_ns - at
    };
    let mut takes = |what, expected_ns: u64, why: &str| {
        let ns = run(&mut machine, what);
        assert!(ns.abs_diff(expected_ns) < 100, "{why}: {ns} ns for {expected_ns}");
        machine.flash_counts(0).unwrap().programs
    };
    takes(Ok((OpKind::Read, 5)), 50_000, "a page read");
    takes(Ok((OpKind::Read, BLOCKS)), 0, "no space there");
    let begun = takes(Ok((OpKind::Write, 20 * APART)), 2_000, "into the buffer");
    assert_eq!(begun, 0, "a program operation has more blocks");
    takes(Err((20, ZoneAction::Finish)), 502_000, "one program operation");
    takes(Err((0, ZoneAction::Reset)), 3_002_000, "a full zone");
    takes(Ok((OpKind::Write, 0)), 2_000, "into the buffer");
    takes(Err((0, ZoneAction::Reset)), 2_000 + 3_000_000 / 256, "one block");
    takes(Err((0, ZoneAction::Reset)), 2_000, "an empty zone");
    takes(Ok((OpKind::Read, 5)), 0, "no data there");
}

/// A read may cover any blocks of one zone. Only blocks below the capacity are read from flash.
#[test]
fn reads_stay_within_a_zone() {
    // Also with more blocks between the capacity and the end than below the capacity.
    for apart in [APART, 3 * BLOCKS] {
        let mut system = zoned(false, 0.5);
        let Kind::Flash(flash) = &mut system.devices_mut().next().unwrap().device.kind else {
            unreachable!()
        };
        flash.capacity_bytes = ZONES * apart * BLOCK;
        flash.zones.as_mut().unwrap().size_bytes = apart * BLOCK;
        let mut machine = Machine::new(&system, 1).unwrap();
        let worker = machine.add_worker(0);
        let mut senses_before = 0;
        let mut read = |block: u64, blocks: u64| {
            let (at_ns, len_bytes) = (machine.now_ns(), (blocks * BLOCK) as u32);
            let kind = OpKind::Read;
            let op = Op { offset_bytes: block * BLOCK, len_bytes, kind, fua: false };
            machine.submit(at_ns, worker, 0, &op, 0);
            let failure = machine.next_completion(u64::MAX).unwrap().failure;
            let senses = machine.flash_counts(0).unwrap().senses;
            let new = senses - std::mem::replace(&mut senses_before, senses);
            failure.map_or(Ok(new), Err)
        };
        let boundary = Err(IoError::Zone(ZoneError::Boundary));
        assert_eq!(read(BLOCKS, apart - BLOCKS), Ok(0), "all blocks without space");
        assert_eq!(read(BLOCKS - 2, 5), Ok(2), "the last blocks with space, and others");
        assert_eq!(read(3 * apart, apart), Ok(BLOCKS), "a whole zone");
        assert_eq!(read(apart - 1, 2), boundary, "into the next zone");
        assert_eq!(read(BLOCKS, apart - BLOCKS + 1), boundary, "into the next zone");
        let end = ZONES * apart;
        assert_eq!(read(end - 1, 1), Ok(0));
        assert_eq!(read(end - 1, 2), Err(IoError::OutOfRange));
    }
}

/// In the long run one block is erased for each block that is programmed: a reset of a half-written zone erases half of
/// its blocks, and a reset of a zone with data only in the buffer erases none.
#[test]
fn resets_erase_the_blocks_with_data() {
    const PAGES: u64 = 8;
    let mut system = zoned(false, 0.0);
    let Kind::Flash(flash) = &mut system.devices_mut().next().unwrap().device.kind else {
        unreachable!()
    };
    // Each zone has two rows of blocks.
    flash.nand.pages_per_block = PAGES as u32;
    let mut machine = Machine::new(&system, 1).unwrap();
    let worker = machine.add_worker(0);
    let mut run = |kind, block: u64, blocks: u64| {
        let (at_ns, len_bytes) = (machine.now_ns(), (blocks * BLOCK) as u32);
        let op = Op { offset_bytes: block * BLOCK, len_bytes, kind, fua: false };
        machine.submit(at_ns, worker, 0, &op, 0);
        while let Some(done) = machine.next_completion(u64::MAX) {
            assert_eq!(done.failure, None);
        }
        machine.flash_counts(0).unwrap()
    };
    for cycle in 1..=100 {
        run(OpKind::Write, 0, BLOCKS / 2);
        run(OpKind::Trim, 0, APART);
        run(OpKind::Write, APART, 2);
        let counts = run(OpKind::Trim, APART, APART);
        assert_eq!(counts.programs, cycle * BLOCKS / 2 / 4, "four planes");
        let (due, row) = (counts.programs / PAGES, 4);
        let erased = due.saturating_sub(2 * row)..=due;
        assert!(erased.contains(&counts.erases), "{} erases of {due}", counts.erases);
    }
}

#[test]
fn zones_do_not_stand_below_arrays_or_frontends() {
    let system = zoned(false, 0.0);
    assert!(system.check_served().unwrap_err().contains("virtual time"));
    let mut pair = zoned(false, 0.0);
    let device = pair.devices().next().unwrap().device.clone();
    let mut second = System::new("test", host());
    second.add_device(device.clone(), pair.volumes[0].state, 0);
    second.add_device(device, pair.volumes[0].state, 0);
    second.cache_reads(&[(0, 0)]);
    assert!(Machine::new(&second, 1).unwrap_err().contains("volume of its own"));
    pair.parts.truncate(1);
    assert!(Machine::new(&pair, 1).is_ok());
}

#[test]
fn every_rule_of_zones_is_reported() {
    let file = find(FileKind::Device, "zn540-1t").unwrap();
    let rules = |from: &str, to: &str| -> Vec<&str> {
        assert!(from.is_empty() || file.text.contains(from), "{from}");
        let text =
            if from.is_empty() { file.text.to_string() } else { file.text.replacen(from, to, 1) };
        let errors = describe::device("zoned", &text).err().unwrap_or_default();
        errors.iter().map(|error| error.rule.unwrap_or("no rule")).collect()
    };
    assert_eq!(rules("", ""), [""; 0]);
    assert_eq!(rules("\"1808GiB\"", "\"1809GiB\""), ["zone-size"]);
    assert_eq!(rules("is = \"1077MiB\"", "is = \"1076MiB\""), ["zone-blocks"]);
    assert_eq!(rules("active_max = { is = 14", "active_max = { is = 13"), ["zone-limits"]);
    assert_eq!(rules("size = { is = \"3MiB\"", "size = { is = \"1MiB\""), ["zone-buffer"]);
    let unit = "[translation]\nunit = { is = \"8KiB\", from = \"assumed: x\" }";
    assert_eq!(rules("[translation]", unit), ["zones-alone"]);
}
