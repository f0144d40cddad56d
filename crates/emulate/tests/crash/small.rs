//! All power cuts of all small histories: all sequences of up to three operations, with a flush at any
//! position, on every kind of device. The power fails before the first event, between any two events, or
//! after the last, and again between any two events of the recovery.

use crate::common::{disk, flash, memory, shingled, volume};
use crate::oracle::UNIT;
use crate::rig::{Member, Rig, low_limit};
use iodyno_emulate::InjectedBug;
use iodyno_emulate::spec::{
    CloudVolume, DurableOrder, Flash, IoThread, Isolation, Kind, Placement, PowerCut,
};
use iodyno_units::rng::{below, stream};
use iodyno_units::{Op, OpKind};

/// Number of cases that were checked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) histories: u64,
    pub(crate) cuts: u64,
    pub(crate) second_cuts: u64,
}

/// One operation of a history.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Letter {
    Write { unit: usize, fua: bool },
    Trim { unit: usize },
    Flush,
}

/// All histories of up to `most` changes of up to three units, in all orders, each change with or
/// without a flush after it. Units are interchangeable, so histories that differ only in the
/// numbers of units occur once.
pub(crate) fn histories(most: usize) -> Vec<Vec<Letter>> {
    fn extend(left: usize, used: usize, so_far: &mut Vec<Letter>, all: &mut Vec<Vec<Letter>>) {
        if !so_far.is_empty() {
            all.push(so_far.clone());
        }
        if left == 0 {
            return;
        }
        for unit in 0..=used.min(2) {
            for change in [
                Letter::Write { unit, fua: false },
                Letter::Write { unit, fua: true },
                Letter::Trim { unit },
            ] {
                so_far.push(change);
                extend(left - 1, used.max(unit + 1), so_far, all);
                so_far.push(Letter::Flush);
                extend(left - 1, used.max(unit + 1), so_far, all);
                so_far.truncate(so_far.len() - 2);
            }
        }
    }
    let mut all = Vec::new();
    extend(most, 0, &mut Vec::new(), &mut all);
    all
}

/// A flash device of 16 units on two dies. `collects`: each host write causes copies, because there is little spare;
/// otherwise no write does.
pub(crate) fn tiny(protected: bool, collects: bool, planes: u32) -> Flash {
    let mut f = flash();
    f.capacity_bytes = 16 * UNIT;
    f.nand.channels = 2;
    f.nand.planes = planes;
    f.nand.pages_per_block = 2;
    let row = u64::from(2 * planes * 2) * UNIT;
    let least = (16 * UNIT).div_ceil(row) + 6;
    f.nand.raw_bytes = row * if collects { least } else { least + 24 };
    f.nand.program_fast_ns = 300_000;
    f.nand.program_slow_ns = 900_000;
    f.nand.parity_stripe = 0;
    f.buffer.bytes = 6 * UNIT;
    f.buffer.protected = protected;
    f
}

/// Number of writes after those that reach each unit equally often. With them, the next die programs a slow page and
/// the following one a fast page, so program operations end in another order than they begin.
const WRITES_MORE: usize = 3;

/// Writes to the member until garbage collection is steady, and waits until it is at rest.
pub(crate) fn prepared(member: Member, injected_bug: InjectedBug) -> Result<Rig, String> {
    let is_placed = matches!(&member.kind, Kind::Flash(flash) if flash.placement.is_some());
    let rounds = if is_placed { 12 } else { 3 };
    let mut rig = Rig::new(&[member], 1, injected_bug);
    let mut random = stream(1, "prelude", 0);
    let units: Vec<u64> = rig.oracles[0].units().collect();
    for i in 0..units.len() * rounds + WRITES_MORE {
        let unit = units.get(i).copied();
        let unit = unit.unwrap_or_else(|| units[below(&mut random, units.len() as u64) as usize]);
        rig.submit(0, &change(OpKind::Write, unit, false));
        if i % 4 == 3 {
            rig.submit(0, &Op::FLUSH);
            rig.rest()?;
        }
    }
    rig.submit(0, &Op::FLUSH);
    rig.rest()?;
    rig.check()?;
    Ok(rig)
}

fn change(kind: OpKind, unit: u64, fua: bool) -> Op {
    Op { offset_bytes: unit * UNIT, len_bytes: UNIT as u32, kind, fua }
}

fn op(letter: Letter, units: &[u64]) -> Op {
    match letter {
        Letter::Write { unit, fua } => change(OpKind::Write, units[unit], fua),
        Letter::Trim { unit } => change(OpKind::Trim, units[unit], false),
        Letter::Flush => Op::FLUSH,
    }
}

/// Runs one history from a rig at rest, and cuts the power at every event. The operations run one
/// after another, or all at once.
fn cut_everywhere(
    rest: &Rig,
    history: &[Letter],
    units: &[u64],
    together: bool,
    count: &mut Count,
) -> Result<(), String> {
    let mut rig = rest.clone();
    let mut letters = history.iter();
    let mut waits_for = None;
    count.histories += 1;
    loop {
        while waits_for.is_none_or(|_| together || rig.oracles[0].in_flight() == 0)
            && let Some(&letter) = letters.next()
        {
            waits_for = Some(rig.submit(0, &op(letter, units)));
        }
        let at = rig.machine.events() - rest.machine.events();
        recover(rig.clone(), count).map_err(|why| format!("cut after event {at}: {why}"))?;
        if !rig.step(u64::MAX)? {
            return rig.check();
        }
    }
}

/// Cuts the power, and a second time between any two of the following events.
fn recover(mut rig: Rig, count: &mut Count) -> Result<(), String> {
    rig.cut()?;
    count.cuts += 1;
    let mut events = 0;
    loop {
        if !rig.step(u64::MAX)? {
            return rig.check();
        }
        events += 1;
        let mut again = rig.clone();
        again.cut().map_err(|why| format!("cut again after {events} more: {why}"))?;
        count.second_cuts += 1;
        again.rest().and_then(|()| again.check()).map_err(|why| format!("cut again: {why}"))?;
    }
}

/// Runs all histories of up to `most` changes on one device.
pub(crate) fn try_all(rest: &Rig, most: usize, units: &[u64]) -> Result<Count, String> {
    let mut count = Count::default();
    for history in histories(most) {
        for together in [false, true] {
            cut_everywhere(rest, &history, units, together, &mut count).map_err(|why| {
                format!("{history:?}, {}: {why}", if together { "at once" } else { "in turn" })
            })?;
        }
    }
    Ok(count)
}

/// Divides a flash device of [`tiny`] into two namespaces with this isolation, and adds blocks for their write
/// frontiers.
fn placed(mut f: Flash, isolation: Isolation) -> Flash {
    let blocks = if isolation == Isolation::Initial { 2 } else { 4 };
    f.nand.raw_bytes += blocks * u64::from(f.nand.planes * 2 * 2) * UNIT;
    f.placement = Some(Placement { shares: vec![0.25, 0.75], isolation });
    f
}

/// Runs the histories on every flash device: volatile or protected, with or without garbage collection, with one or
/// two planes, with translation units of 4 KiB or 8 KiB, with one or two namespaces.
pub(crate) fn try_flash(
    most: usize,
    protected: &[bool],
    injected_bug: InjectedBug,
) -> Result<Count, String> {
    let mut all = Count::default();
    for &protected in protected {
        for collects in [true, false] {
            let cut = |atomic_bytes, order| Some(PowerCut { atomic_bytes, order });
            for (planes, merged, isolation, power_cut) in [
                (1, 1, None, None),
                (2, 1, None, None),
                (2, 2, None, None),
                (2, 1, Some(Isolation::Initial), None),
                (1, 1, Some(Isolation::Persistent), None),
                (1, 1, None, cut(4096, DurableOrder::Acknowledged)),
                (2, 1, None, cut(8192, DurableOrder::Any)),
            ] {
                // Injected bugs are those of program operations that make their data durable.
                if power_cut.is_some() && injected_bug != InjectedBug::Nothing {
                    continue;
                }
                let mut flash = tiny(protected, collects, planes);
                if let Some(isolation) = isolation {
                    flash = placed(flash, isolation);
                }
                flash.translation.unit_bytes = merged * UNIT as u32;
                flash.power_cut = power_cut;
                let kind = Kind::Flash(Box::new(flash));
                let units = (0..16).collect();
                let name = format!(
                    "protected {protected}, collects {collects}, planes {planes}, merged {merged}, {isolation:?}, {power_cut:?}"
                );
                let rest = prepared(Member { kind, units, limits: Vec::new() }, injected_bug)
                    .map_err(|why| format!("{name}, prelude: {why}"))?;
                let copied = rest.machine.flash_counts(0).unwrap().copied_pages;
                assert_eq!(copied > 15, collects, "{name}: {copied} copies");
                let count = try_all(&rest, most, &[3, if merged == 2 { 2 } else { 4 }, 11])
                    .map_err(|why| format!("{name}: {why}"))?;
                all.histories += count.histories;
                all.cuts += count.cuts;
                all.second_cuts += count.second_cuts;
            }
        }
    }
    Ok(all)
}

/// Runs the histories on disks with and without a cache, memory with and without a battery, and cloud volumes with and
/// without a thread of the hypervisor, all with and without a limit.
pub(crate) fn try_others(most: usize) -> Result<Count, String> {
    let mut all = Count::default();
    let io_thread = Some(IoThread {
        command_ns: 8_000,
        write_command_ns: None,
        read_bytes_per_s: 1e9,
        write_bytes_per_s: 2e9,
    });
    let [volume, threaded] =
        [volume(), CloudVolume { io_thread, ..volume() }].map(|it| Kind::Volume(Box::new(it)));
    let disks = [disk(true), disk(false), shingled(true), shingled(false)];
    for kind in disks.into_iter().chain([memory(true), memory(false), volume, threaded]) {
        for limits in [Vec::new(), low_limit()] {
            let (kind, units) = (kind.clone(), vec![3, 4, 100_000]);
            let member = Member { kind, units: units.clone(), limits };
            let count = try_all(&prepared(member, InjectedBug::Nothing)?, most, &units)?;
            all.histories += count.histories;
            all.cuts += count.cuts;
            all.second_cuts += count.second_cuts;
        }
    }
    Ok(all)
}
