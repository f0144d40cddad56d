//! Invariants of any flash device, on devices drawn at random. The counters agree: after random use and
//! a rest until nothing is in progress, each channel and die was busy for exactly its work. A
//! sample of the pages gives the same results as all of them.

use crate::common;

use common::{Loop, flash, system};
use iodyno_emulate::spec::{Attach, Flash, Folding, Isolation, Kind, Placement, Slc, Written};
use iodyno_emulate::usage::Of;
use iodyno_emulate::{Fault, Machine, PartId};
use iodyno_units::rng::{Generator, below, stream};
use iodyno_units::{Op, OpKind};

/// Returns a random item of `of`.
fn one<T: Copy>(rng: &mut Generator, of: &[T]) -> T {
    of[below(rng, of.len() as u64) as usize]
}

fn device(rng: &mut Generator) -> Flash {
    let mut f = flash();
    f.capacity_bytes = 256 << 20;
    f.nand.raw_bytes = one(rng, &[288 << 20, 320 << 20, 384 << 20]);
    f.nand.channels = one(rng, &[1, 4, 8]);
    f.nand.dies_per_channel = one(rng, &[1, 2, 4]);
    f.nand.planes = one(rng, &[1, 2]);
    f.nand.page_bytes = one(rng, &[4096, 8192, 16 << 10]);
    f.nand.pages_per_block = 32;
    f.nand.reads_first = one(rng, &[true, false]);
    f.nand.programs_max = one(rng, &[0, 3]);
    // Fast and slow pages, and single-level cells, take the same time: the number of each is not counted.
    f.nand.slc =
        one(rng, &[None, Some(Slc { bytes: 32 << 20, program_ns: 500_000, read_ns: None })]);
    let folding = Folding { bits: 3, program_ns: 500_000, share: 0.25, pause_ns: 1_000_000 };
    f.nand.folding = f.nand.slc.and(one(&mut rng.clone(), &[None, Some(folding)]));
    f.placement = match below(&mut rng.clone(), 4) {
        0 => Some(Placement { shares: vec![0.1, 0.9], isolation: Isolation::Initial }),
        1 => Some(Placement { shares: vec![0.3, 0.2, 0.5], isolation: Isolation::Persistent }),
        _ => None,
    };
    f.nand.channel_bytes_per_s = one(rng, &[100e6, 1e9]);
    f.controller.read_contexts = one(rng, &[0, 1, 3, 16]);
    f.controller.lanes = one(rng, &[1, 2]);
    f.controller.page_split = one(rng, &[0.0, 0.5, 1.0]);
    f.nand.suspend_ns = one(rng, &[None, Some(20_000)]);
    f.buffer.bytes = one(rng, &[64 << 10, 1 << 20]);
    f.buffer.protected = one(rng, &[true, false]);
    f.translation.map_writes_per_page = one(rng, &[0.0, 0.1]);
    f.controller.read_command_ns = one(rng, &[100, 10_000]);
    f.controller.write_command_ns = one(rng, &[100, 10_000]);
    f.controller.copy_ns = one(rng, &[0, 1_000, 30_000]);
    f.controller.turn_ns = one(rng, &[0, 2_000]);
    if let Attach::Link { full_duplex, .. } = &mut f.attach {
        *full_duplex = one(rng, &[true, false]);
    }
    f
}

#[test]
fn every_resource_was_busy_for_its_work() {
    let (mut collected, mut filled) = (0, 0);
    for seed in 0..60 {
        let mut rng = stream(seed, "books", 0);
        let f = device(&mut rng);
        let how = one(
            &mut rng,
            &[
                Written::Fresh,
                Written::Sequential,
                Written::Random { block_bytes: 4096 },
                Written::Random { block_bytes: 65536 },
            ],
        );
        let represent = one(&mut rng, &[1, 2]);
        let system = system(Kind::Flash(Box::new(f.clone())), how, 1);
        let Ok(mut m) = Machine::represented(&system, seed, represent) else { continue };
        let worker = m.add_worker(0);
        let units = f.capacity_bytes / 4096;
        let (mut read, mut written) = (0, 0);
        let (mut commands, mut turns, mut reading) = ([0_u64; 2], 0_u64, true);
        let mut submit = |m: &mut Machine, at_ns: u64| {
            let len = one(&mut rng, &[1, 1, 3, 16, 256]);
            let kind = one(&mut rng, &[OpKind::Read, OpKind::Write, OpKind::Write]);
            *(if kind == OpKind::Read { &mut read } else { &mut written }) += len;
            let reads = kind == OpKind::Read;
            commands[usize::from(reads)] += 1;
            turns += u64::from(reads != std::mem::replace(&mut reading, reads));
            let offset_bytes = below(&mut rng, units - len) * 4096;
            // Where the buffer is volatile, partially filled programs.
            let fua = below(&mut rng, 8) == 0;
            let op = Op { offset_bytes, len_bytes: len as u32 * 4096, kind, fua };
            m.submit(at_ns, worker, 0, &op, 0);
        };
        (0..16).for_each(|_| submit(&mut m, 0));
        for _ in 0..4000 {
            let done = m.next_completion(u64::MAX).unwrap();
            submit(&mut m, done.at_ns);
        }
        while m.next_completion(u64::MAX).is_some() {}
        assert_eq!(m.check(), Ok(()));

        let what = format!("seed {seed}, {how:?}, 1 in {represent}, {f:#?}");
        let counts = m.flash_counts(0).unwrap();
        let busy_ns = |name| m.resources(0).iter().find(|r| r.name == name).unwrap().busy_ns as f64;
        let near = |got: f64, want: f64, within: std::ops::Range<f64>, of: &str| {
            let off = got / want - 1.0;
            assert!(within.contains(&off), "{of}: {got} for {want} ({off:+.5}), {what}");
        };
        let in_buffer = m.buffered_bytes(0).unwrap().0 / 4096;
        assert_eq!(counts.host_pages + in_buffer, written, "{what}");
        let program_units = u64::from(f.nand.planes * f.nand.page_bytes / 4096);
        let programmed = counts.programs * program_units;
        let brought =
            counts.host_pages + counts.copied_pages + counts.map_pages + counts.filler_pages;
        // The additional programs came out of single-level cells, except for units of a victim's
        // last pages, which may not be full.
        let folded = if f.nand.slc.is_some() { programmed - brought } else { 0 };
        near(programmed as f64, (brought + folded) as f64, -1e-9..0.002, "programs");
        if matches!(how, Written::Random { .. }) {
            let erased = counts.erases * u64::from(f.nand.pages_per_block) * program_units;
            near(erased as f64, programmed as f64, -0.02..0.02, "erases in steady state");
        }
        let controller_ns = commands[0] * f.controller.write_command_ns
            + commands[1] * f.controller.read_command_ns
            + turns * f.controller.turn_ns
            + (counts.copied_pages + folded) * f.controller.copy_ns;
        // A victim's last pages may not fill a program, which the controller processes as a whole.
        near(busy_ns("controller"), controller_ns as f64, -1e-9..0.01, "controller");
        collected += u64::from(counts.copied_pages > 0);
        filled += u64::from(counts.filler_pages > 0);
        if how == Written::Fresh {
            // Some reads were of units never written.
            continue;
        }
        // The exact form may read ahead pages that are overwritten before they are copied.
        let in_vain = if represent == 1 { 0.005 } else { 1e-4 };
        let moved = read + programmed + counts.copied_pages + folded;
        let moved_ns = moved as f64 * 4096e9 / f.nand.channel_bytes_per_s;
        let least = if folded > 0 { -0.002 } else { -1e-4 };
        near(busy_ns("flash channels"), moved_ns, least..in_vain, "channels");
        let work_ns = (counts.senses + counts.copy_senses) * f.nand.read_ns
            + counts.programs * f.nand.program_fast_ns
            + counts.erases * f.nand.erase_ns;
        // A die is held while its data go over the channel, and while they wait for it; and suspending takes time.
        let alone = f.nand.dies_per_channel == 1 && f.nand.suspend_ns.is_none();
        let waits = if alone { in_vain } else { f64::INFINITY };
        near(busy_ns("flash dies"), work_ns as f64 + moved_ns, least..waits, "dies");
    }
    assert!(collected > 30 && filled > 10, "{collected} {filled}");
}

/// The phases of reads, and those of writes, add up to their durations: no time is left out or
/// counted twice. (Only for reads of one page; the pages of larger reads wait for each other.)
#[test]
fn the_phases_add_up() {
    let (mut ran, mut recovered) = (0, 0);
    for seed in 0..30 {
        let mut rng = stream(seed, "phases", 0);
        let mut f = device(&mut rng);
        f.controller.read_latency_ns = 3_000;
        if let Attach::Link { command_ns, latency_ns, queue_max, .. } = &mut f.attach {
            (*command_ns, *latency_ns, *queue_max) = (300, 4_000, one(&mut rng, &[4, 64]));
        }
        let mut system = system(Kind::Flash(Box::new(f.clone())), Written::Sequential, 1);
        system.host.wake_ns = 5_000;
        let Ok(mut m) = Machine::represented(&system, seed, 1) else { continue };
        let worker = m.add_worker(0);
        for _ in 0..20 {
            let offset_bytes = below(&mut rng, f.capacity_bytes / 4096) * 4096;
            m.inject(0, Fault::Block { part: PartId(0), offset_bytes });
        }
        let (mut from_ns, mut took_ns) = (Vec::new(), [0; 2]);
        let mut submit = |m: &mut Machine, at_ns: u64, from_ns: &mut Vec<(u64, OpKind)>| {
            let kind = one(&mut rng, &[OpKind::Read, OpKind::Write]);
            let offset_bytes = below(&mut rng, f.capacity_bytes / 4096) * 4096;
            let op = Op { offset_bytes, len_bytes: 4096, kind, fua: false };
            let issued_ns = m.submit(at_ns, worker, 0, &op, from_ns.len() as u64);
            from_ns.push((issued_ns, kind));
        };
        (0..16).for_each(|_| submit(&mut m, 0, &mut from_ns));
        while let Some(done) = m.next_completion(u64::MAX) {
            let (since_ns, kind) = from_ns[done.token as usize];
            took_ns[kind.index()] += done.at_ns - since_ns;
            if from_ns.len() < 20_000 {
                submit(&mut m, done.at_ns, &mut from_ns);
            }
        }
        let mut phases_ns = [0; 2];
        for phase in m.phases(0) {
            phases_ns[usize::from(phase.of == Of::Write)] += phase.total_ns;
        }
        assert_eq!(phases_ns, took_ns, "seed {seed}, {f:#?}");
        (ran, recovered) = (ran + 1, recovered + m.flash_counts(0).unwrap().recovered);
    }
    assert!(ran > 15 && recovered > 100, "{ran} {recovered}");
}

/// A full device on which every write is made durable separately, and much is trimmed: victims have no pages to copy,
/// program operations are not full, and free space varies. Every operation ends, and no program operation is wasted.
#[test]
fn every_operation_ends() {
    let mut ran = 0;
    for seed in 0..150 {
        let mut rng = stream(seed, "ends", 0);
        let mut f = device(&mut rng);
        f.capacity_bytes = 1 << 20;
        f.nand.pages_per_block = one(&mut rng, &[2, 4]);
        let row = u64::from(f.nand.channels * f.nand.dies_per_channel * f.nand.pages_per_block);
        let row = row * u64::from(f.nand.planes * f.nand.page_bytes);
        let spare = one(&mut rng, &[6, 7, 9]);
        f.nand.raw_bytes = (f.capacity_bytes.div_ceil(row) + spare) * row;
        (f.buffer.protected, f.nand.slc, f.nand.folding) = (false, None, None);
        f.translation.map_writes_per_page = 0.0;
        f.translation.freed_per_write = [1.0, 1.0, 1.3, 2.2, 20.0][seed as usize % 5];
        let system = system(Kind::Flash(Box::new(f.clone())), Written::Sequential, 1);
        let Ok(mut m) = Machine::represented(&system, seed, 1) else { continue };
        let worker = m.add_worker(0);
        let units = f.capacity_bytes / 4096;
        for number in 0..3000 {
            let at = below(&mut rng, units);
            let kind = one(&mut rng, &[OpKind::Write, OpKind::Write, OpKind::Write, OpKind::Trim]);
            let most = if kind == OpKind::Trim { 64 } else { 2 };
            let len = (1 + below(&mut rng, most)).min(units - at);
            let fua = kind == OpKind::Write;
            let op = Op { offset_bytes: at * 4096, len_bytes: len as u32 * 4096, kind, fua };
            m.submit(m.now_ns(), worker, 0, &op, number);
            let done = m.next_completion(u64::MAX).map(|done| done.token);
            assert_eq!(done, Some(number), "seed {seed}, {f:#?}");
        }
        while m.next_completion(u64::MAX).is_some() {}
        let counts = m.flash_counts(0).unwrap();
        let brought = counts.host_pages + counts.copied_pages + counts.filler_pages;
        let programmed = counts.programs * u64::from(f.nand.planes * f.nand.page_bytes / 4096);
        let off = programmed as f64 / brought as f64 - 1.0;
        // The last copies of a victim may not fill a program, least of all before a pause.
        let unfilled = if f.translation.freed_per_write > 1.0 { 0.15 } else { 0.015 };
        assert!((0.0..unfilled).contains(&off), "{off:+.4}, seed {seed}, {f:#?}");
        ran += 1;
    }
    assert!(ran > 80, "{ran}");
}

/// A sample of the pages, compared with all pages, on devices of every kind: the rate, and the
/// number of writes per page.
#[test]
fn a_sample_of_the_pages_represents_all_on_any_device() {
    let mut offs = Vec::new();
    for seed in 0..40 {
        let mut rng = stream(seed, "sample", 0);
        let mut f = device(&mut rng);
        f.capacity_bytes *= 8;
        f.nand.raw_bytes *= 8;
        f.nand.pages_per_block = 64;
        // Enough dies for the writes to exceed random fluctuation in the time.
        f.nand.channels = one(&mut rng, &[4, 8]);
        let states = [
            Written::Sequential,
            Written::Random { block_bytes: 4096 },
            Written::Random { block_bytes: 65536 },
        ];
        let how = one(&mut rng, &states);
        let load = Loop {
            read_share: one(&mut rng, &[0.0, 0.5, 0.9]),
            block: one(&mut rng, &[4096, 16384, 131_072]),
            workers: 1,
            depth: one(&mut rng, &[1, 8, 64]),
            ramp_ns: 500_000_000,
            time_ns: 10_000_000_000,
        };
        let system = system(Kind::Flash(Box::new(f.clone())), how, 1);
        let run = |represent| {
            let mut m = Machine::represented(&system, 1, represent).ok()?;
            let rate = load.run(&mut m).iops;
            Some((rate, m.flash_counts(0).unwrap().write_amplification()))
        };
        // A small device with large blocks may have too few of them for a sample.
        let (Some(exact), Some(sample)) = (run(1), run(4)) else { continue };
        let (rate, writes) = (sample.0 / exact.0 - 1.0, sample.1 / exact.1 - 1.0);
        println!(
            "seed {seed}: rate {rate:+.4}, write amplification {writes:+.4} of {:.2}",
            exact.1
        );
        let near = rate.abs() < 0.06 && writes.abs() < 0.06;
        assert!(near, "seed {seed}: {rate:+.4} {writes:+.4}, {f:#?}");
        offs.push(rate.abs());
    }
    offs.sort_by(f64::total_cmp);
    let median = offs[offs.len() / 2];
    println!("{} devices, median {median}", offs.len());
    assert!(offs.len() > 30 && median < 0.015, "{} devices: {median}", offs.len());
}
