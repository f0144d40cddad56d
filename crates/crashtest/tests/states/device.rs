//! Compares the states of the class `model` with those that power cuts leave on the same emulated device.

use iodyno_catalog::{Kind as Catalogued, find};
use iodyno_crashtest::{
    Change, Class, Effects, Event, History, ROOT, Rules, StateId, States, Tree, carry_out,
};
use iodyno_emulate::spec::{DurableOrder, Kind, PowerCut, Preconditioned, Written};
use iodyno_emulate::{Fault, Machine, System, UNIT_BYTES, describe};
use iodyno_units::rng::{below, stream};
use iodyno_units::{Op, OpKind};
use std::collections::BTreeSet;
use std::sync::Arc;

const UNITS: u64 = 12;
const NODE: u64 = 2;
const SEED: u64 = 7;

fn system(name: &str) -> System {
    let read = |kind, name: &str| find(kind, name).unwrap_or_else(|p| panic!("{p}")).text;
    let mut device = describe::device(name, &read(Catalogued::Device, name)).unwrap();
    if let Kind::Flash(flash) = &mut device.device.kind {
        // A small map is copied fast.
        flash.scale_down(256);
    }
    let host = read(Catalogued::System, &device.default_host);
    let host = describe::system(&device.default_host, &host, &mut |_| Err(String::new())).unwrap();
    let state = Preconditioned { how: Written::Fresh, fill: 1.0 };
    System::populate("it", host.host, vec![(device.device, state)]).unwrap()
}

/// Returns random operations as a log, and the same operations for an emulated machine. Each write has unique bytes.
/// With `has_parts`, some writes cover only a sector.
fn log(number: u64, has_parts: bool) -> (History, Vec<Op>) {
    let mut random = stream(1, "device log", number);
    let mut start = Tree::default();
    let disk = Change::Make {
        directory: ROOT,
        name: b"disk".to_vec(),
        node: NODE,
        made: iodyno_crashtest::Made::File,
        mode: 0o600,
    };
    start.apply(&disk);
    start.apply(&Change::Resize { node: NODE, size_bytes: UNITS * UNIT_BYTES });
    let (mut events, mut ops) = (Vec::new(), Vec::new());
    for token in 1..=24_u8 {
        let unit = below(&mut random, UNITS - 2);
        let (mut offset, mut len_bytes) =
            (unit * UNIT_BYTES, UNIT_BYTES * (1 + below(&mut random, 3)));
        let kind = match below(&mut random, 12) {
            0 => OpKind::Flush,
            1 => OpKind::WriteZeroes,
            _ => OpKind::Write,
        };
        if has_parts && kind == OpKind::Write && below(&mut random, 4) == 0 {
            (offset, len_bytes) = (offset + 512 * below(&mut random, 8), 512);
        }
        let fua = kind == OpKind::Write && below(&mut random, 10) == 0;
        ops.push(match kind {
            OpKind::Flush => Op::FLUSH,
            _ => Op { offset_bytes: offset, len_bytes: len_bytes as u32, kind, fua },
        });
        events.push(match kind {
            OpKind::Flush => Event::Sync { node: NODE, data_only: true },
            OpKind::WriteZeroes => Event::Change(Change::Zero { node: NODE, offset, len_bytes }),
            _ => {
                let data = Arc::from(vec![token; len_bytes as usize]);
                Event::Change(Change::Write { node: NODE, offset, data })
            }
        });
        if fua {
            events.push(Event::SyncRange { node: NODE, offset, len_bytes });
        }
    }
    (History { start, events }, ops)
}

/// Returns all contents that the device can have after a power cut. Power is cut after each event of a machine that
/// executes `ops`.
fn cuts(system: &System, ops: &[Op]) -> BTreeSet<Vec<u8>> {
    let mut machine = Machine::new(system, SEED).unwrap();
    machine.follow_content();
    let worker = machine.add_worker(0);
    let mut left = ops.iter().enumerate();
    let mut all = BTreeSet::new();
    loop {
        let mut cut = machine.clone();
        cut.apply_fault(&Fault::PowerCut);
        let tokens: Vec<u64> =
            (0..UNITS).map(|unit| cut.content(0, unit * UNIT_BYTES).unwrap_or(0)).collect();
        all.insert(bytes(ops, &tokens));
        let more = machine.step(u64::MAX);
        machine.changes(&mut Vec::new());
        let is_first = machine.now_ns() == 0 && left.len() == ops.len();
        if machine.completed().is_some() || is_first {
            if let Some((number, op)) = left.next() {
                machine.submit(machine.now_ns(), worker, 0, op, number as u64 + 1);
            }
        } else if !more {
            return all;
        }
    }
}

/// Content of the device if each unit reflects all operations up to its token. `tokens` has one token per unit.
fn bytes(ops: &[Op], tokens: &[u64]) -> Vec<u8> {
    let mut all = vec![0; (UNITS * UNIT_BYTES) as usize];
    for (unit, token) in tokens.iter().enumerate() {
        let unit = unit * UNIT_BYTES as usize..(unit + 1) * UNIT_BYTES as usize;
        for (number, op) in ops.iter().enumerate().take(*token as usize) {
            let from = (op.offset_bytes as usize).max(unit.start);
            let to = ((op.offset_bytes + u64::from(op.len_bytes)) as usize).min(unit.end);
            if from < to {
                let byte = if op.kind == OpKind::Write { number as u8 + 1 } else { 0 };
                all[from..to].fill(byte);
            }
        }
    }
    all
}

fn model_states(log: &History, system: &System) -> (BTreeSet<Vec<u8>>, u64) {
    let history = carry_out(log, system, SEED).unwrap();
    let effects = Effects::of_history(&history, Rules::named("worst").unwrap());
    let states = States::of_history(Arc::new(history), effects, 2, Some(4096));
    let bases = states.bases();
    let mut most_open = 0;
    let all = (0..states.epochs.len())
        .map(|epoch| {
            most_open = most_open.max(states.epochs[epoch].open.len() as u64);
            let choice = states.choice(StateId { class: Class::Model, epoch, number: 0 }).unwrap();
            states.tree_on(&bases, epoch, &choice).read(NODE, 0, (UNITS * UNIT_BYTES) as usize)
        })
        .collect();
    (all, most_open)
}

/// The states of the class `model` are exactly the contents that power cuts leave on the emulated device.
#[test]
fn states_of_a_device_are_what_its_power_cuts_leave() {
    for (name, is_volatile) in [
        ("fx700-2t", true),
        ("nvme-qlc-2048g", true),
        ("exflash-400g", false),
        ("hdd-10k-300g", true),
        ("hdd-15k-300g", false),
        ("ebs-gp3", false),
    ] {
        let system = system(name);
        let is_disk = matches!(system.devices().next().unwrap().device.kind, Kind::Disk(_));
        let mut most_open = 0;
        for number in 0..6 {
            let (log, ops) = log(number, !is_disk);
            let expected = cuts(&system, &ops);
            let (found, open) = model_states(&log, &system);
            most_open = most_open.max(open);
            let missing = expected.difference(&found).count();
            let extra = found.difference(&expected).count();
            assert_eq!((missing, extra), (0, 0), "{name}, log {number}, {} cuts", expected.len());
            assert!(expected.len() > 5, "{name}: {} contents", expected.len());
        }
        // A volatile buffer has writes that were acknowledged and may be lost.
        assert_eq!(most_open > 3, is_volatile, "{name}: at most {most_open} open");
    }
}

/// A log of writes and zeroed ranges at any sectors, on a device that is not empty at the start. The program prints a
/// line after each flush.
fn log_of_sectors(number: u64) -> History {
    let mut random = stream(2, "device log", number);
    let (mut history, _) = log(0, false);
    let bytes = (UNITS * UNIT_BYTES) as usize;
    history.start.apply(&Change::Write { node: NODE, offset: 0, data: vec![0xee; bytes].into() });
    history.events.clear();
    for token in 1..=30_u8 {
        let offset = 512 * below(&mut random, UNITS * 8 - 1);
        let left = UNITS * UNIT_BYTES - offset;
        let len_bytes = (512 * (1 + below(&mut random, 30))).min(left);
        match below(&mut random, 4) {
            0 => {
                history.events.push(Event::Sync { node: NODE, data_only: true });
                history.events.push(Event::Output(format!("{token}\n").into_bytes()));
            }
            1 | 2 => {
                history.events.push(Event::Change(Change::Zero { node: NODE, offset, len_bytes }));
            }
            // Only one unit is written, so that zeroes cover units that the log never writes.
            _ => {
                let data = vec![token; 512].into();
                let offset = 512 * below(&mut random, 8);
                history.events.push(Event::Change(Change::Write { node: NODE, offset, data }));
            }
        }
    }
    history
}

/// In each state, a sector has the content that it had at the last flush acknowledged by a printed line, or newer
/// content.
#[test]
fn what_was_flushed_is_kept() {
    for name in ["fx700-2t", "exflash-400g", "hdd-10k-300g", "hdd-15k-300g", "ebs-gp3"] {
        let system = system(name);
        for number in 0..6 {
            let log = log_of_sectors(number);
            let mut disk = log.start.read(NODE, 0, (UNITS * UNIT_BYTES) as usize);
            // Contents in order, and for each number of printed lines the first that may be seen.
            let (mut versions, mut first, mut flushed) = (vec![disk.clone()], vec![0], 0);
            for event in &log.events {
                match event {
                    Event::Change(Change::Write { offset, data, .. }) => {
                        disk[*offset as usize..][..data.len()].copy_from_slice(data);
                        versions.push(disk.clone());
                    }
                    Event::Change(Change::Zero { offset, len_bytes, .. }) => {
                        disk[*offset as usize..][..*len_bytes as usize].fill(0);
                        versions.push(disk.clone());
                    }
                    Event::Sync { .. } => flushed = versions.len() - 1,
                    _ => first.push(flushed),
                }
            }
            let history = carry_out(&log, &system, SEED).unwrap();
            let effects = Effects::of_history(&history, Rules::named("worst").unwrap());
            let states = States::of_history(Arc::new(history), effects, 2, Some(4096));
            let bases = states.bases();
            for epoch in 0..states.epochs.len() {
                let id = StateId { class: Class::Model, epoch, number: 0 };
                let tree = states.tree_on(&bases, epoch, &states.choice(id).unwrap());
                let kept = tree.read(NODE, 0, disk.len());
                let printed = states.acknowledged(states.epochs[epoch].end);
                let lines = String::from_utf8(printed).unwrap().lines().count();
                for sector in (0..disk.len()).step_by(512).map(|at| at..at + 512) {
                    let mut allowed = versions[first[lines]..].iter();
                    let is_allowed = allowed.any(|v| v[sector.clone()] == kept[sector.clone()]);
                    assert!(is_allowed, "{name}, log {number}, epoch {epoch}, {sector:?}");
                }
            }
        }
    }
}

/// A system with the device `name`, whose power-cut settings are replaced.
fn with_power_cut(name: &str, atomic_bytes: u32, order: DurableOrder) -> System {
    let mut system = system(name);
    for placed in system.devices_mut() {
        if let Kind::Flash(flash) = &mut placed.device.kind {
            flash.power_cut = Some(PowerCut { atomic_bytes, order });
        }
    }
    system
}

/// All contents of the device after the first operations, where the last of them has written some or all of its units,
/// in order.
fn prefixes(ops: &[Op]) -> BTreeSet<Vec<u8>> {
    let mut tokens = vec![0; UNITS as usize];
    let mut all = BTreeSet::from([bytes(ops, &tokens)]);
    for (number, op) in ops.iter().enumerate() {
        let end = op.offset_bytes + u64::from(op.len_bytes);
        for unit in op.offset_bytes / UNIT_BYTES..end.div_ceil(UNIT_BYTES) {
            tokens[unit as usize] = number as u64 + 1;
            all.insert(bytes(ops, &tokens));
        }
    }
    all
}

/// Whether some write has a block that survives only in part. Sectors that later operations changed are not considered.
fn tears_block(ops: &[Op], content: &[u8], block_bytes: u64) -> bool {
    ops.iter().enumerate().filter(|(_, op)| op.kind == OpKind::Write).any(|(number, op)| {
        let end = op.offset_bytes + u64::from(op.len_bytes);
        let covers = |op: &Op, at: u64| {
            (op.offset_bytes..op.offset_bytes + u64::from(op.len_bytes)).contains(&at)
        };
        (op.offset_bytes / block_bytes..end.div_ceil(block_bytes)).any(|block| {
            let bytes =
                op.offset_bytes.max(block * block_bytes)..end.min((block + 1) * block_bytes);
            let last = bytes
                .step_by(512)
                .filter(|at| !ops[number + 1..].iter().any(|later| covers(later, *at)));
            let survives: BTreeSet<bool> =
                last.map(|at| content[at as usize] == number as u8 + 1).collect();
            survives.len() > 1
        })
    })
}

/// On a device whose file has power-cut settings, each state keeps or loses whole atomic blocks of a write. If the
/// settings demand it, the state also preserves the order of writes.
#[test]
fn states_of_a_device_keep_blocks_and_order() {
    for (name, atomic_bytes, order) in [
        ("fx700-2t", 4096, DurableOrder::Any),
        ("fx700-2t", 16 << 10, DurableOrder::Any),
        ("fx700-2t", 4096, DurableOrder::Acknowledged),
        ("fx700-2t", 16 << 10, DurableOrder::Acknowledged),
        ("exflash-400g", 16 << 10, DurableOrder::Any),
    ] {
        let system = with_power_cut(name, atomic_bytes, order);
        let (mut torn, mut disordered, mut longest, mut all) = (0, 0, 0, 0);
        for number in 0..12 {
            let (log, ops) = log(number, false);
            let in_order = prefixes(&ops);
            let history = carry_out(&log, &system, SEED).unwrap();
            for event in &history.events {
                if let Event::Change(Change::Write { data, .. }) = event {
                    longest = longest.max(data.len());
                }
            }
            let (states, _) = model_states(&log, &system);
            for content in states {
                all += 1;
                torn += u64::from(tears_block(&ops, &content, 16 << 10));
                assert!(!tears_block(&ops, &content, atomic_bytes.into()), "{name}, log {number}");
                disordered += u64::from(!in_order.contains(&content));
            }
        }
        let what = format!(
            "{name}, {atomic_bytes}, {order:?}: {torn} of {all} torn, {disordered} disordered"
        );
        println!("{what}");
        assert_eq!(longest, if atomic_bytes > 4096 { 3 * 4096 } else { 4096 }, "{what}");
        assert_eq!(disordered > 0, name == "fx700-2t" && order == DurableOrder::Any, "{what}");
        assert!(all > 60 && (atomic_bytes > 4096 || torn > 0), "{what}");
    }
}
