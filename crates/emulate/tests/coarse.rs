//! The coarse form of a flash device against the device itself, of devices that are drawn at random: where channels run
//! in step both are the same, elsewhere nearly; and a large I/O costs as many events as one of a g-th of its size.

mod common;

use common::{Loop, Outcome, flash, system};
use iodyno_emulate::spec::{Attach, Collection, Flash, Kind, Slc, Written};
use iodyno_emulate::usage::Of;
use iodyno_emulate::{Machine, System};
use iodyno_units::rng::{Generator, below, stream};
use iodyno_units::{Op, OpKind};
use std::panic::catch_unwind;

const MIB: u32 = 1 << 20;

fn one<T: Copy>(rng: &mut Generator, of: &[T]) -> T {
    of[below(rng, of.len() as u64) as usize]
}

/// A device of 16 to 128 dies on 4 to 16 channels.
fn device(rng: &mut Generator) -> Flash {
    let mut f = flash();
    // The last unit of the coarse form is not whole.
    f.capacity_bytes = (8 << 30) + 4096;
    f.nand.raw_bytes = (8 << 30) / 4 * 5;
    f.nand.channels = one(rng, &[4, 8, 16]);
    f.nand.dies_per_channel = one(rng, &[4, 8]);
    f.nand.planes = one(rng, &[1, 2]);
    f.nand.page_bytes = one(rng, &[4096, 8192, 16 << 10]);
    f.nand.pages_per_block = 64;
    f.nand.programs_max = one(rng, &[0, 16]);
    f.nand.channel_bytes_per_s = one(rng, &[150e6, 600e6]);
    f.controller.read_contexts = one(rng, &[0, 16]);
    f.controller.lanes = one(rng, &[1, 2]);
    f.controller.page_split = one(rng, &[0.0, 1.0]);
    f.buffer.bytes = one(rng, &[1 << 20, 8 << 20]);
    if let Attach::Link { read_bytes_per_s, write_bytes_per_s, full_duplex, latency_ns, .. } =
        &mut f.attach
    {
        *read_bytes_per_s = one(rng, &[1e9, 6e9]);
        *write_bytes_per_s = *read_bytes_per_s;
        *full_duplex = one(rng, &[true, false]);
        *latency_ns = 5_000;
    }
    f
}

fn on(f: &Flash, how: Written) -> System {
    system(Kind::Flash(Box::new(f.clone())), how, 1)
}

/// A closed loop of `block` bytes for a quarter of a second.
fn run(machine: &mut Machine, read_share: f64, block: u32, depth: u32) -> Outcome {
    let time_ns = 250_000_000;
    Loop { read_share, block, time_ns, ..Loop::reads(depth) }.run(machine)
}

/// Writes in order, `depth` at a time: when each completed.
fn in_order(machine: &mut Machine, kind: OpKind, depth: u64, count: u64) -> Vec<u64> {
    let worker = machine.add_worker(0);
    let mut next = 0..count;
    let mut submit = |m: &mut Machine, at_ns| {
        if let Some(number) = next.next() {
            let offset_bytes = number * u64::from(MIB) % m.capacity_bytes(0);
            m.submit(
                at_ns,
                worker,
                0,
                &Op { offset_bytes, len_bytes: MIB, kind, fua: false },
                number,
            );
        }
    };
    (0..depth).for_each(|_| submit(machine, 0));
    let mut ends = Vec::new();
    while let Some(done) = machine.next_completion(u64::MAX) {
        ends.push(done.at_ns);
        submit(machine, done.at_ns);
    }
    ends
}

/// Reads alone, and writes in order: to the ns, at any depth.
#[test]
fn where_channels_run_in_step_it_is_exact() {
    for seed in 0..24 {
        let mut rng = stream(seed, "coarse", 1);
        let f = device(&mut rng);
        let s = on(&f, Written::Sequential);
        let grain = one(&mut rng, &[2, 4, 8]).min(s.grain_max(MIB));
        assert!(grain > 1, "{f:#?}");
        let depth = one(&mut rng, &[1, 4, 32]);
        for kind in [OpKind::Read, OpKind::Write] {
            let ends =
                |grain| in_order(&mut Machine::coarse(&s, seed, grain).unwrap(), kind, depth, 600);
            let (whole, part) = (ends(1), ends(grain));
            // A transfer of several units is one: what is rounded is rounded once.
            let near = whole.iter().zip(&part).all(|(a, b)| a.abs_diff(*b) <= 1 + a / 1_000_000);
            assert!(near, "{kind:?}, depth {depth}, grain {grain}, {f:#?}\n{whole:?}\n{part:?}");
        }
        let rate =
            |grain| run(&mut Machine::coarse(&s, seed, grain).unwrap(), 1.0, MIB, depth as u32);
        let (whole, part) = (rate(1), rate(grain));
        let off = part.iops / whole.iops - 1.0;
        assert!(off.abs() < 0.005, "random reads: {off:+.4}, depth {depth}, grain {grain}, {f:#?}");
    }
}

/// Where garbage is collected, and where reads suspend programs, the part differs from the whole by chance only: by
/// little on one device, by hardly anything on the average of many.
#[test]
fn elsewhere_it_is_near() {
    let mut off = [Vec::new(), Vec::new(), Vec::new()];
    for seed in 0..16 {
        let mut rng = stream(seed, "coarse", 2);
        let mut f = device(&mut rng);
        f.nand.suspend_ns = Some(20_000);
        let programs_max = one(&mut rng, &[5, 64]);
        f.translation.collection = Some(Collection { programs_max, yields: false });
        let s = on(&f, Written::Random { block_bytes: MIB });
        let read_share = one(&mut rng, &[0.0, 0.5, 0.8]);
        let get = |grain| {
            let mut m = Machine::coarse(&s, seed, grain).unwrap();
            let load = Loop {
                read_share,
                block: MIB,
                ramp_ns: 100_000_000,
                time_ns: 10_000_000_000,
                ..Loop::reads(16)
            };
            let got = load.run(&mut m);
            (got, m.flash_counts(0).unwrap().write_amplification())
        };
        let (whole, part) = (get(1), get(2));
        off[0].push(part.0.iops / whole.0.iops - 1.0);
        off[1].push(part.0.mean_ns / whole.0.mean_ns - 1.0);
        off[2].push(part.1 / whole.1 - 1.0);
    }
    for (off, what) in off.iter().zip(["rate", "mean latency", "write amplification"]) {
        let mean = off.iter().sum::<f64>() / off.len() as f64;
        println!("{what}: {mean:+.4}, {off:.3?}");
        assert!(off.iter().all(|x| x.abs() < 0.08), "{what}: {off:.3?}");
        assert!(mean.abs() < 0.02, "{what}: {mean:+.4}");
    }
}

/// Programs of copies, three at once, are one and a half on half of the channels: on the average, for it is they that
/// say how fast such a device writes.
#[test]
fn a_part_of_a_limit_is_kept() {
    let mut f = flash();
    (f.nand.dies_per_channel, f.nand.page_bytes, f.nand.channel_bytes_per_s) = (4, 16 << 10, 600e6);
    (f.capacity_bytes, f.nand.raw_bytes) = (8 << 30, (8 << 30) / 4 * 5);
    f.translation.collection = Some(Collection { programs_max: 3, yields: false });
    let s = on(&f, Written::Random { block_bytes: MIB });
    let rate = |grain| {
        let mut m = Machine::coarse(&s, 1, grain).unwrap();
        let ramp_ns = 2_000_000_000;
        let load = Loop {
            read_share: 0.0,
            block: MIB,
            ramp_ns,
            time_ns: 30_000_000_000,
            ..Loop::reads(8)
        };
        load.run(&mut m).iops
    };
    let (whole, part) = (rate(1), rate(2));
    assert!((part / whole - 1.0).abs() < 0.007, "{whole} and {part}");
}

/// What is told is told of the whole device: how many there are of everything, how busy, what was done.
#[test]
fn it_tells_of_the_whole_device() {
    let mut rng = stream(3, "coarse", 3);
    let mut f = device(&mut rng);
    (f.nand.channels, f.nand.programs_max, f.controller.read_contexts) = (16, 30, 16);
    f.nand.suspend_ns = Some(20_000);
    let s = on(&f, Written::Random { block_bytes: MIB });
    let get = |grain| {
        let mut m = Machine::coarse(&s, 1, grain).unwrap();
        let load = Loop { read_share: 0.5, block: MIB, time_ns: 2_000_000_000, ..Loop::reads(16) };
        let got = load.run(&mut m);
        (
            got,
            m.resources(0),
            m.phases(0),
            m.flash_counts(0).unwrap(),
            m.worn(0).unwrap(),
            m.buffered_bytes(0).unwrap().1,
        )
    };
    let (whole, part) = (get(1), get(4));
    let near = |a: f64, b: f64, what: &str| {
        assert!((a - b).abs() <= 0.06 * a, "{what}: {a} and {b}");
    };
    near(whole.0.iops, part.0.iops, "rate");
    for (a, b) in whole.1.iter().zip(&part.1) {
        assert_eq!((a.name, a.count, a.held), (b.name, b.count, b.held));
        near(a.busy_ns as f64, b.busy_ns as f64, a.name);
    }
    for (a, b) in whole.2.iter().zip(&part.2) {
        assert_eq!(a.name, b.name);
        near(a.count as f64, b.count as f64, a.name);
        if a.of == Of::PageRead {
            near(a.total_ns as f64 / a.count as f64, b.total_ns as f64 / b.count as f64, a.name);
        }
    }
    for (a, b, what) in [
        (whole.3.host_pages, part.3.host_pages, "pages written"),
        (whole.3.copied_pages, part.3.copied_pages, "pages copied"),
        (whole.3.programs, part.3.programs, "programs"),
        (whole.3.senses, part.3.senses, "pages read"),
        (whole.3.erases, part.3.erases, "erases"),
    ] {
        assert!(a > 0);
        near(a as f64, b as f64, what);
    }
    near(whole.4, part.4, "wear");
    assert_eq!(whole.5, part.5, "the buffer's size");
}

/// Single-level cells hold as much, and are emptied as fast.
#[test]
fn a_cache_of_single_level_cells_is_as_large() {
    let mut f = flash();
    (f.capacity_bytes, f.nand.raw_bytes) = (8 << 30, (8 << 30) / 4 * 5);
    (f.nand.dies_per_channel, f.nand.page_bytes, f.nand.channel_bytes_per_s) = (4, 16 << 10, 600e6);
    f.nand.program_slow_ns = 4_000_000;
    f.nand.program_fast_ns = 4_000_000;
    f.nand.slc = Some(Slc { bytes: 256 << 20, program_ns: 400_000 });
    let s = on(&f, Written::Fresh);
    let ends = |grain| {
        let mut m = Machine::coarse(&s, 1, grain).unwrap();
        let first = in_order(&mut m, OpKind::Write, 4, 600);
        // Where it is slower from then on.
        let knee = first.windows(2).position(|w| w[1] - w[0] > 2 * first[20] / 20).unwrap_or(600);
        (knee, *first.last().unwrap())
    };
    let (whole, part) = (ends(1), ends(4));
    assert!((256..330).contains(&whole.0) && whole.0.abs_diff(part.0) < 15, "{whole:?} {part:?}");
    assert!(whole.1.abs_diff(part.1) * 100 < whole.1, "{whole:?} {part:?}");
}

/// What it is for: with a grain in proportion an I/O of 16 MiB costs no more events than one of 1 MiB.
#[test]
fn an_io_costs_the_same_whatever_its_size() {
    let mut f = flash();
    (f.capacity_bytes, f.nand.raw_bytes) = (128 << 30, (128 << 30) / 4 * 5);
    (f.nand.dies_per_channel, f.nand.page_bytes, f.nand.suspend_ns) = (8, 16 << 10, Some(20_000));
    let s = on(&f, Written::Random { block_bytes: MIB });
    for read_share in [1.0, 0.5, 0.0] {
        let cost = |grain: u32| {
            let mut m = Machine::coarse(&s, 1, grain).unwrap();
            let load =
                Loop { read_share, block: grain * MIB, time_ns: 20_000_000_000, ..Loop::reads(8) };
            let got = load.run(&mut m);
            m.events() as f64 / (got.iops * 20.0)
        };
        let small = cost(1);
        for grain in [2, 4, 8] {
            let off = cost(grain) / small - 1.0;
            assert!(off.abs() < 0.05, "{grain} MiB: {off:+.3} of {small:.0} events, {read_share}");
        }
    }
}

/// Small I/Os work as well: they are only not what it is for.
#[test]
fn any_io_has_an_end() {
    for seed in 0..6 {
        let mut rng = stream(seed, "coarse", 4);
        let f = device(&mut rng);
        let s = on(&f, Written::Random { block_bytes: one(&mut rng, &[32768, MIB]) });
        let mut m = Machine::coarse(&s, seed, s.grain_max(MIB)).unwrap();
        let worker = m.add_worker(0);
        let units = f.capacity_bytes / 4096;
        for token in 0..3000 {
            let len = one(&mut rng, &[1, 3, 16, 256]);
            let kind = one(&mut rng, &[OpKind::Read, OpKind::Write, OpKind::Trim, OpKind::Flush]);
            let anywhere = below(&mut rng, units - len);
            let at = one(&mut rng, &[anywhere, units - len]);
            let op = Op { offset_bytes: at * 4096, len_bytes: len as u32 * 4096, kind, fua: false };
            m.submit(0, worker, 0, &op, token);
            if token % 4 == 3 {
                assert!(m.next_completion(u64::MAX).is_some_and(|done| done.failure.is_none()));
            }
        }
        assert_eq!(std::iter::from_fn(|| m.next_completion(u64::MAX)).count(), 2250);
        assert_eq!(m.check(), Ok(()));
    }
}

#[test]
fn what_can_not_be_coarse_is_refused() {
    let grain_max = |align_bytes, how, change: &dyn Fn(&mut Flash)| {
        let mut f = flash();
        (f.nand.dies_per_channel, f.buffer.bytes) = (8, 1 << 20);
        change(&mut f);
        on(&f, how).grain_max(align_bytes)
    };
    let fresh = |change: &dyn Fn(&mut Flash)| grain_max(MIB, Written::Fresh, change);
    assert_eq!(fresh(&|_| {}), 8, "two channels are left");
    assert_eq!(fresh(&|f| f.nand.channels = 12), 4);
    assert_eq!(fresh(&|f| f.nand.channels = 7), 1);
    assert_eq!(fresh(&|f| f.controller.read_contexts = 18), 2);
    assert_eq!(fresh(&|f| f.nand.programs_max = 7), 4);
    assert_eq!(fresh(&|f| f.nand.dies_per_channel = 2), 4);
    assert_eq!(fresh(&|f| f.buffer.bytes = 24 << 10), 2, "whole programs of 8 KiB, not of 16");
    assert_eq!(fresh(&|f| f.buffer.bytes = (1 << 20) + 4096), 8, "many of them");
    let page = |f: &mut Flash| f.nand.page_bytes = 16 << 10;
    for (align_bytes, most) in [(MIB, 8), (64 << 10, 4), (48 << 10, 1), (16 << 10, 1)] {
        assert_eq!(grain_max(align_bytes, Written::Fresh, &page), most, "{align_bytes}");
    }
    // Written in small blocks it lies anywhere, and how many of an I/O's pages meet on a die is chance.
    for (block_bytes, most) in [(4096, 1), (16 << 10, 1), (32 << 10, 8), (MIB, 8)] {
        assert_eq!(grain_max(MIB, Written::Random { block_bytes }, &|_| {}), most);
    }
    assert_eq!(system(common::memory(true), Written::Fresh, 1).grain_max(MIB), 1);

    let s = on(&flash(), Written::Sequential);
    for grain in [0, 3, 4] {
        let refusal = Machine::coarse(&s, 1, grain).unwrap_err();
        assert!(refusal.contains("a power of two up to 2 can"), "{refusal}");
    }
    let m = Machine::coarse(&s, 1, 2).unwrap();
    let keeps = || m.clone().keep_content();
    assert!(catch_unwind(std::panic::AssertUnwindSafe(keeps)).is_err());
    let fails = || m.clone().strike(&iodyno_emulate::Fault::PowerCut);
    assert!(catch_unwind(std::panic::AssertUnwindSafe(fails)).is_err());
}
