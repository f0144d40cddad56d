//! Long random histories on several devices at once, with many power cuts of all or of single
//! devices, and slow or hung devices in between.

use crate::common::{disk, flash, memory, shingled};
use crate::oracle::UNIT;
use crate::rig::{Member, Rig};
use crate::small::tiny;
use iodyno_emulate::spec::{Attach, DurableOrder, Flash, Isolation, Kind, Placement, PowerCut};
use iodyno_emulate::{Fault, InjectedBug, PartId};
use iodyno_units::rng::{Generator, below, stream};
use iodyno_units::{Op, OpKind};

/// A flash device of 64 units on four dies that collects garbage all the time; reads suspend
/// programs.
fn small(protected: bool) -> Flash {
    let mut f = flash();
    f.capacity_bytes = 64 * UNIT;
    f.nand.channels = 4;
    f.nand.planes = 2;
    f.nand.page_bytes = 4096;
    f.nand.pages_per_block = 2;
    f.nand.raw_bytes = (64 + 6 * 16) * UNIT;
    f.nand.program_fast_ns = 200_000;
    f.nand.program_slow_ns = 1_100_000;
    f.nand.suspend_ns = Some(5_000);
    f.buffer.bytes = 24 * UNIT;
    f.buffer.protected = protected;
    f
}

/// Gives a flash device translation units of 8 KiB.
fn merging(mut f: Flash) -> Flash {
    f.translation.unit_bytes = 2 * UNIT as u32;
    f
}

/// Divides a flash device into three namespaces.
fn placed(mut f: Flash, isolation: Isolation) -> Flash {
    f.nand.raw_bytes += 8 * 16 * UNIT;
    f.placement = Some(Placement { shares: vec![0.1, 0.3, 0.6], isolation });
    f
}

/// Moves a flash device into a memory slot, behind a driver thread that polls.
fn in_a_slot(mut f: Flash) -> Flash {
    f.attach = Attach::MemoryChannel {
        devices_per_thread: 2,
        command_ns: 1000,
        read_copy_bytes_per_s: 4e9,
        write_copy_bytes_per_s: 4e9,
        poll_ns: 2000,
        poll_crowded_ns: 4000,
    };
    f
}

pub(crate) fn flash_members() -> Vec<Member> {
    let member = |f: Flash| {
        let units = (0..f.capacity_bytes / UNIT).collect();
        Member { kind: Kind::Flash(Box::new(f)), units, limits: Vec::new() }
    };
    let mut all = vec![
        member(tiny(false, true, 1)),
        member(tiny(true, true, 1)),
        member(small(false)),
        member(small(true)),
        member(merging(small(false))),
        member(merging(small(true))),
        member(placed(small(false), Isolation::Persistent)),
        member(placed(small(true), Isolation::Initial)),
        member(in_a_slot(small(false))),
        member(in_a_slot(small(true))),
    ];
    for protected in [true, false] {
        all.push(Member { kind: memory(protected), units: (0..16).collect(), limits: Vec::new() });
    }
    all
}

/// Flash devices with rules for power cuts.
pub(crate) fn power_cut_members() -> Vec<Member> {
    let member = |protected, atomic_bytes, order| {
        let mut f = small(protected);
        f.power_cut = Some(PowerCut { atomic_bytes, order });
        let units = (0..f.capacity_bytes / UNIT).collect();
        Member { kind: Kind::Flash(Box::new(f)), units, limits: Vec::new() }
    };
    vec![
        member(false, 4096, DurableOrder::Any),
        member(false, 4096, DurableOrder::Acknowledged),
        member(false, 16 << 10, DurableOrder::Any),
        member(false, 16 << 10, DurableOrder::Acknowledged),
        member(true, 4096, DurableOrder::Any),
        member(true, 16 << 10, DurableOrder::Any),
    ]
}

pub(crate) fn disk_members() -> Vec<Member> {
    // Side by side, so that ranges overlap, and far apart.
    let units = || (0..12).chain(600_000..600_012).collect();
    [disk(true), disk(false), shingled(true), shingled(false)]
        .map(|kind| Member { kind, units: units(), limits: Vec::new() })
        .into()
}

fn operation(random: &mut Generator, units: &[u64]) -> Op {
    let kind = match below(random, 24) {
        0 | 1 => OpKind::Flush,
        2 => OpKind::Trim,
        3 => OpKind::WriteZeroes,
        4..=7 => OpKind::Read,
        _ => OpKind::Write,
    };
    if kind == OpKind::Flush {
        return Op::FLUSH;
    }
    let at = below(random, units.len() as u64) as usize;
    let run = (1..4).take_while(|&i| units.get(at + i) == Some(&(units[at] + i as u64))).count();
    let count = 1 + below(random, run as u64 + 1);
    // Some do not begin or end with a unit.
    let inside = kind != OpKind::Read && below(random, 8) == 0;
    let cut_bytes = if inside { 512 } else { 0 };
    Op {
        offset_bytes: units[at] * UNIT + cut_bytes,
        len_bytes: (count * UNIT - 2 * cut_bytes) as u32,
        kind,
        fua: matches!(kind, OpKind::Write) && below(random, 8) == 0,
    }
}

/// Counters of one history.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) cuts: u64,
    pub(crate) operations: u64,
    pub(crate) events: u64,
    pub(crate) copies: u64,
}

/// Runs one history with `cuts` power cuts. A busy volume gets no new operation; the limit of
/// outstanding operations changes from cut to cut.
pub(crate) fn history(
    members: &[Member],
    seed: u64,
    cuts: u64,
    events_max: u64,
    injected_bug: InjectedBug,
) -> Result<Done, String> {
    let mut rig = Rig::new(members, seed, injected_bug);
    let mut random = stream(seed, "crash", 0);
    let units: Vec<Vec<u64>> = rig.oracles.iter().map(|o| o.units().collect()).collect();
    let mut operations = 0;
    for cut in 0..cuts {
        let context = |why| format!("seed {seed}, cut {cut}: {why}");
        let depth = 1 + below(&mut random, 12) as usize;
        let pause = below(&mut random, 4);
        let lone = below(&mut random, 4) == 0;
        let only = below(&mut random, members.len() as u64) as u32;
        let faulty = below(&mut random, members.len() as u64) as u32;
        match below(&mut random, 8) {
            0 => rig.machine.apply_fault(&Fault::Hang { part: PartId(faulty) }),
            1 => {
                let factor = 1.0 + below(&mut random, 40) as f64 / 4.0;
                rig.machine.apply_fault(&Fault::Slow { part: PartId(faulty), factor });
            }
            _ => {}
        }
        for _ in 0..below(&mut random, events_max) {
            let any = below(&mut random, members.len() as u64) as u32;
            let volume = if lone { only } else { any };
            if rig.oracles[volume as usize].in_flight() < depth && below(&mut random, 4) >= pause {
                let op = operation(&mut random, &units[volume as usize]);
                rig.submit(volume, &op);
                operations += 1;
            }
            rig.step(rig.machine.now_ns() + 50_000_000).map_err(context)?;
        }
        if below(&mut random, 8) == 0 {
            rig.check().map_err(context)?;
        }
        if below(&mut random, 8) > 0 {
            rig.machine.apply_fault(&Fault::Clear { part: PartId(faulty) });
        }
        if below(&mut random, 16) == 0 {
            for volume in 0..members.len() as u32 {
                rig.machine.apply_fault(&Fault::Clear { part: PartId(volume) });
            }
            rig.rest().map_err(context)?;
        }
        // Memory has no queue whose content could be lost.
        if below(&mut random, 4) == 0 && !matches!(members[faulty as usize].kind, Kind::Memory(_)) {
            rig.lose(faulty).map_err(context)?;
        } else {
            rig.cut().map_err(context)?;
        }
    }
    let counts = (0..members.len() as u32).filter_map(|v| rig.machine.flash_counts(v));
    Ok(Done {
        cuts,
        operations,
        events: rig.machine.events(),
        copies: counts.map(|c| c.copied_pages).sum(),
    })
}
