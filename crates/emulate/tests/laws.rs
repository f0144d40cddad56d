//! Invariants of any storage, and closed forms for machines simple enough to have one.

use crate::common;

use common::{Loop, RANDOM, flash, run, system};
use iodyno_emulate::spec::{Attach, Kind, Written};
use iodyno_emulate::usage::Of;
use iodyno_emulate::{Fault, Machine, PartId};
use iodyno_units::{Op, OpKind};

/// D dies of one service time, QD requests at random. With exponential service D·QD/(QD+D-1) dies are busy; with
/// constant service somewhat more, up to the number of dies or requests.
#[test]
fn dies_at_random_are_busy_as_in_the_closed_network() {
    let flash = flash();
    for depth in [1_u32, 4, 16, 64, 512] {
        let got = run(&flash, RANDOM, &Loop::reads(depth));
        let busy = got.iops * flash.nand.read_ns as f64 / 1e9;
        let (d, q) = (16.0, f64::from(depth));
        let exponential = d * q / (q + d - 1.0);
        assert!(busy >= exponential * 0.985, "depth {depth}: {busy} of {exponential}");
        assert!(busy <= (exponential * 1.2).min(d.min(q)) * 1.001, "depth {depth}: {busy}");
    }
}

#[test]
fn littles_law_holds() {
    let mut flash = flash();
    flash.nand.channel_bytes_per_s = 100e6;
    for (read_share, depth) in [(1.0, 1), (1.0, 32), (0.0, 16), (0.67, 32), (0.67, 256)] {
        let l = Loop {
            read_share,
            time_ns: if read_share < 1.0 { 5_000_000_000 } else { 100_000_000 },
            ..Loop::reads(depth)
        };
        let got = run(&flash, RANDOM, &l);
        assert!((got.outstanding - f64::from(depth)).abs() < 1e-6 * f64::from(depth));
        let product = got.iops / 1e9 * got.mean_ns;
        let off = (product / got.outstanding - 1.0).abs();
        assert!(off < 0.01, "{read_share} at {depth}: X R = {product}, N = {}", got.outstanding);
    }
}

#[test]
fn nothing_is_faster_than_its_least_service() {
    let mut flash = flash();
    flash.nand.channel_bytes_per_s = 100e6;
    flash.controller.read_command_ns = 3_000;
    if let Attach::Link { read_bytes_per_s, latency_ns, .. } = &mut flash.attach {
        (*read_bytes_per_s, *latency_ns) = (500e6, 7_000);
    }
    let least = 3_000 + 50_000 + 40_960 + 8_192 + 7_000;
    for depth in [1, 32] {
        let got = run(&flash, RANDOM, &Loop::reads(depth));
        assert!(got.least_ns >= least, "{} < {least}", got.least_ns);
        assert!(depth > 1 || got.mean_ns < least as f64 + 2.0, "alone nothing is waited for");
    }
}

/// A large read of sequentially written data, on an idle device. Its pages are on successive dies, so they are read
/// in waves of one page per die (or as many as there are contexts). The waves or the link, whichever is slower,
/// determine the time. A sleeping worker is woken at the end, whatever the size.
#[test]
fn a_large_read_takes_its_waves_or_its_link() {
    let (wave_ns, page_ns, wake_ns) = (50_000 + 40_960, [2_560, 8_192], 20_000);
    // Part of the link's time: each page of a wave waits for those before it; on the slow link for
    // those of earlier waves too.
    let line = |pages: u64| pages * (pages + 1) / 2;
    let backlog_ns = (0..16).map(|wave| 16 * wave * (16 * page_ns[1] - wave_ns)).sum::<u64>();
    for (contexts, link, block, expected_ns, delivery_ns) in [
        (0, 0, 1 << 20, 16 * wave_ns + 16 * page_ns[0], 16 * line(16) * page_ns[0]),
        (8, 0, 1 << 20, 32 * wave_ns + 8 * page_ns[0], 32 * line(8) * page_ns[0]),
        (0, 1, 1 << 20, wave_ns + 256 * page_ns[1], 16 * line(16) * page_ns[1] + backlog_ns),
        (0, 0, 4096, wave_ns + page_ns[0], page_ns[0]),
    ] {
        let mut flash = flash();
        flash.nand.channel_bytes_per_s = 100e6;
        flash.controller.read_contexts = contexts;
        if let Attach::Link { read_bytes_per_s, .. } = &mut flash.attach {
            *read_bytes_per_s = [1.6e9, 0.5e9][link];
        }
        let mut system = system(Kind::Flash(Box::new(flash)), Written::Sequential, 1);
        system.host.wake_ns = wake_ns;
        let mut machine = Machine::new(&system, 1).unwrap();
        let worker = machine.add_worker(0);
        for block_at in 0..4 {
            let offset_bytes = block_at * u64::from(block);
            let op = Op { offset_bytes, len_bytes: block, kind: OpKind::Read, fua: false };
            let from_ns = machine.submit(block_at * 10_000_000, worker, 0, &op, 0);
            let done = machine.next_completion(u64::MAX).unwrap();
            assert_eq!(done.at_ns - from_ns, expected_ns + wake_ns, "{contexts} {link} {block}");
        }
        let phases = machine.phases(0);
        let delivery = phases.iter().find(|phase| phase.name == "link, and host software").unwrap();
        assert_eq!(delivery.total_ns, 4 * (delivery_ns + wake_ns), "{contexts} {link} {block}");
    }
}

/// The time of a write is the sum of its phases: the buffer's own time, or that of the programs if the write is forced,
/// is separate from the latency of link and host software.
#[test]
fn phases_of_a_write_are_those_of_buffer_programs_and_link() {
    let (latency_ns, wake_ns, accept_ns, program_ns) = (30_000, 500, 2_000, 500_000);
    for (fua, protected) in [(false, true), (true, true), (true, false)] {
        let mut flash = flash();
        flash.buffer.protected = protected;
        if let Attach::Link { latency_ns: of_link, .. } = &mut flash.attach {
            *of_link = latency_ns;
        }
        let mut system = system(Kind::Flash(Box::new(flash)), Written::Sequential, 1);
        system.host.wake_ns = wake_ns;
        let mut machine = Machine::new(&system, 1).unwrap();
        let worker = machine.add_worker(0);
        let op = Op { offset_bytes: 0, len_bytes: 4096, kind: OpKind::Write, fua };
        let from_ns = machine.submit(0, worker, 0, &op, 0);
        let took_ns = machine.next_completion(u64::MAX).unwrap().at_ns - from_ns;
        let phases = machine.phases(0);
        let of_writes = || phases.iter().filter(|phase| phase.of == Of::Write);
        assert_eq!(of_writes().map(|phase| phase.total_ns).sum::<u64>(), took_ns);
        let of = |name| of_writes().find(|phase| phase.name == name).unwrap().total_ns;
        let is_forced = fua && !protected;
        let (accepts, forces) = (of("buffer accepts"), of("programs of a forced write (FUA)"));
        assert_eq!(accepts, if is_forced { 0 } else { accept_ns });
        assert!(if is_forced { forces >= program_ns } else { forces == 0 }, "{forces}");
        // The end of a forced write is not delayed by the waking of the worker.
        let wake_ns = if is_forced { 0 } else { wake_ns };
        assert_eq!(of("link, and host software"), latency_ns + wake_ns);
    }
}

/// Number of flash pages that a read senses: one for each flash page of sequentially written data, otherwise (here)
/// one for each unit, and none for trimmed units, which the controller answers directly.
#[test]
fn a_large_read_senses_only_the_pages_it_needs() {
    let chunk = 1 << 20;
    let mut flash = flash();
    flash.nand.page_bytes = 16 << 10;
    flash.nand.parity_stripe = 0;
    let system = system(Kind::Flash(Box::new(flash)), Written::Sequential, 1);
    let mut machine = Machine::new(&system, 1).unwrap();
    let worker = machine.add_worker(0);
    let op = |machine: &mut Machine, kind, offset_bytes, len_bytes| {
        let before = machine.flash_counts(0).unwrap().senses;
        let op = Op { offset_bytes, len_bytes, kind, fua: false };
        let from_ns = machine.submit(machine.now_ns(), worker, 0, &op, 0);
        let done = machine.next_completion(u64::MAX).unwrap();
        (machine.flash_counts(0).unwrap().senses - before, done.at_ns - from_ns, done.failure)
    };
    // The second MiB out of order, from its end to its start.
    for unit in (256..512).rev() {
        op(&mut machine, OpKind::Write, unit * 4096, 4096);
    }
    op(&mut machine, OpKind::Flush, 0, 0);
    let mut senses = |offset, len| op(&mut machine, OpKind::Read, offset, len).0;
    assert_eq!(senses(0, 1 << 20), 64);
    assert_eq!(senses(chunk, 1 << 20), 256);
    assert_eq!(senses(0, 3 << 20), 64 + 256 + 64);
    assert_eq!(senses(chunk - 6144, 16 << 10), 1 + 3, "6 KiB in order, 10 KiB out of it");
    assert_eq!(senses(8192, 16 << 10), 2, "the ends of two pages");
    // A unit of a page that was written in order, a whole page, and one that was not.
    for offset in [4096, chunk + 4096] {
        op(&mut machine, OpKind::Trim, offset, 4096);
    }
    op(&mut machine, OpKind::Trim, 32 << 10, 16 << 10);
    let mut senses = |offset, len| op(&mut machine, OpKind::Read, offset, len).0;
    assert_eq!(senses(0, 1 << 20), 63);
    assert_eq!(senses(chunk, 1 << 20), 255);
    let now_ns = machine.now_ns();
    machine.inject(now_ns, Fault::Page { part: PartId(0), offset_bytes: 8192 });
    machine.inject(now_ns, Fault::Page { part: PartId(0), offset_bytes: chunk + 8192 });
    // All units of either page.
    for (offset, len, fails) in [
        (0, 8192, true),
        (12288, 4096, true),
        (16 << 10, 4096, false),
        (chunk, 8192, true),
        (chunk + 12288, 4096, true),
        (chunk + (16 << 10), 4096, false),
    ] {
        let failure = op(&mut machine, OpKind::Read, offset, len).2;
        assert_eq!(failure.is_some(), fails, "{offset} {len}");
    }
}

/// Units without data in the cells cross the link nevertheless.
#[test]
fn trimmed_units_go_over_the_link() {
    for how in [Written::Sequential, RANDOM] {
        let mut flash = flash();
        if let Attach::Link { read_bytes_per_s, .. } = &mut flash.attach {
            *read_bytes_per_s = 0.5e9;
        }
        let system = system(Kind::Flash(Box::new(flash)), how, 1);
        let mut machine = Machine::new(&system, 1).unwrap();
        let worker = machine.add_worker(0);
        let mut took_ns = |kind| {
            let op = Op { offset_bytes: 1 << 20, len_bytes: 1 << 20, kind, fua: false };
            let from_ns = machine.submit(machine.now_ns(), worker, 0, &op, 0);
            machine.next_completion(u64::MAX).unwrap().at_ns - from_ns
        };
        took_ns(OpKind::Trim);
        assert_eq!(took_ns(OpKind::Read), 256 * 8_192, "{how:?}");
    }
}

/// A read that arrives while a program's data is being transferred to the die suspends the program
/// as soon as it has begun.
#[test]
fn a_program_is_suspended_when_it_has_begun() {
    for (suspend_ns, expected_us) in
        [(Some(20_000), 100 + 20 + 50 + 100), (None, 100 + 500 + 50 + 100)]
    {
        let mut flash = flash();
        (flash.nand.channels, flash.nand.raw_bytes) = (1, 2 << 30);
        flash.nand.channel_bytes_per_s = 40.96e6;
        flash.nand.suspend_ns = suspend_ns;
        let system = system(Kind::Flash(Box::new(flash)), Written::Sequential, 1);
        let mut machine = Machine::new(&system, 1).unwrap();
        let worker = machine.add_worker(0);
        let op = |kind| Op { offset_bytes: 8192, len_bytes: 4096, kind, fua: false };
        machine.submit(1_000_000, worker, 0, &op(OpKind::Write), 0);
        let written = machine.next_completion(1_050_000).unwrap();
        assert_eq!(written.token, 0);
        machine.submit(1_050_000, worker, 0, &op(OpKind::Read), 1);
        let read = machine.next_completion(u64::MAX).unwrap();
        let took_us = (read.at_ns - 1_000_000) as f64 / 1e3;
        assert!((took_us - f64::from(expected_us)).abs() < 0.1, "{suspend_ns:?}: {took_us}");
    }
}

/// Without reads of a host no operation is suspended: reads of garbage collection wait for their
/// turn.
#[test]
fn collection_suspends_nothing() {
    let run_with = |suspend_ns| {
        let mut flash = flash();
        (flash.nand.suspend_ns, flash.nand.reads_first) = (suspend_ns, false);
        let writes = Loop { read_share: 0.0, time_ns: 2_000_000_000, ..Loop::reads(16) };
        run(&flash, RANDOM, &writes)
    };
    assert_eq!(run_with(Some(1_000)), run_with(None));
}

/// A rebuild reads as much of each other page of the stripe as was requested of the damaged page.
#[test]
fn a_rebuild_reads_as_much_as_was_requested() {
    for (len_bytes, units) in [(4096, 1.0), (16 << 10, 4.0)] {
        let mut flash = flash();
        (flash.nand.page_bytes, flash.nand.channel_bytes_per_s) = (16 << 10, 40.96e6);
        let system = system(Kind::Flash(Box::new(flash)), Written::Sequential, 1);
        let mut machine = Machine::new(&system, 1).unwrap();
        let worker = machine.add_worker(0);
        machine.inject(0, Fault::Page { part: PartId(0), offset_bytes: 0 });
        let op = Op { offset_bytes: 0, len_bytes, kind: OpKind::Read, fua: false };
        machine.submit(10, worker, 0, &op, 0);
        assert_eq!(machine.next_completion(u64::MAX).unwrap().failure, None);
        let channels = machine.resources(0).into_iter().find(|r| r.name == "flash channels");
        let moved = channels.unwrap().busy_ns as f64 / 100_000.0;
        assert!((moved - 8.0 * units).abs() < 0.01, "{len_bytes}: {moved} units of 8 pages");
    }
}

/// A program writes all planes of a die: units that are made durable one by one take the space of a
/// full program each.
#[test]
fn programs_that_are_not_full_take_all_their_space() {
    let mut copied = Vec::new();
    for represent in [1, 4] {
        let mut flash = flash();
        (flash.nand.planes, flash.buffer.protected) = (4, false);
        let system = system(Kind::Flash(Box::new(flash)), RANDOM, 1);
        let mut machine = Machine::represented(&system, 1, represent).unwrap();
        let worker = machine.add_worker(0);
        let mut rng = iodyno_units::rng::stream(1, "one by one", 0);
        for at in 0..100_000_u64 {
            let offset_bytes = iodyno_units::rng::below(&mut rng, 1 << 18) * 4096;
            let op = Op { offset_bytes, len_bytes: 4096, kind: OpKind::Write, fua: true };
            machine.submit(machine.now_ns(), worker, 0, &op, at);
            machine.next_completion(u64::MAX).unwrap();
        }
        while machine.next_completion(u64::MAX).is_some() {}
        let counts = machine.flash_counts(0).unwrap();
        assert_eq!((counts.host_pages, counts.filler_pages), (100_000, 300_000));
        copied.push(counts.copied_pages as f64);
        let programmed = (counts.programs * 4) as f64;
        let erased = (counts.erases * 64 * 4) as f64 / programmed;
        assert!((erased - 1.0).abs() < 0.03, "1 in {represent}: {erased}");
        let counted = counts.write_amplification() * 100_000.0 / programmed;
        assert!((counted - 1.0).abs() < 0.001, "1 in {represent}: {counted}");
    }
    // Space without data has to be collected nevertheless.
    assert!(copied[0] > 300_000.0 && (copied[1] / copied[0] - 1.0).abs() < 0.03, "{copied:?}");
}

/// Reads of units that were never written wait for a read context like others, however many there are.
#[test]
fn many_reads_of_nothing_wait_for_one_context() {
    let mut flash = flash();
    flash.controller.read_contexts = 1;
    if let Attach::Link { queue_max, .. } = &mut flash.attach {
        *queue_max = 65_536;
    }
    let mut system = system(Kind::Flash(Box::new(flash)), Written::Sequential, 1);
    system.volumes[0].state.fill = 0.5;
    let mut machine = Machine::new(&system, 1).unwrap();
    let worker = machine.add_worker(0);
    for at in 0..60_000_u64 {
        let offset_bytes = if at == 0 { 0 } else { (1 << 29) + at * 4096 };
        let op = Op { offset_bytes, len_bytes: 4096, kind: OpKind::Read, fua: false };
        machine.submit(0, worker, 0, &op, at);
    }
    let mut done = 0;
    while let Some(completion) = machine.next_completion(u64::MAX) {
        assert!(completion.at_ns >= 50_000);
        done += 1;
    }
    assert_eq!(done, 60_000);
}

/// Each resource alone as the limit: the rate equals the capacity of that resource.
#[test]
fn the_tightest_resource_sets_the_rate() {
    let near = |got: f64, want: f64, what: &str| {
        assert!((got / want - 1.0).abs() < 0.02, "{what}: {got} for {want}");
    };
    let deep = Loop::reads(256);
    let base = flash();

    let mut f = base.clone();
    f.controller.read_command_ns = 10_000;
    near(run(&f, RANDOM, &deep).iops, 100_000.0, "controller");

    let mut f = base.clone();
    f.controller.read_contexts = 1;
    near(run(&f, RANDOM, &deep).iops, 1.0 / 50e-6, "read contexts");

    let mut f = base.clone();
    f.nand.channel_bytes_per_s = 4096.0 / 500e-6;
    // A die is held until its page is off the channel, so a channel of one die does both in turn.
    near(run(&f, RANDOM, &deep).iops, 16.0 / 550e-6, "channels");

    for full_duplex in [true, false] {
        let mut f = base.clone();
        if let Attach::Link { read_bytes_per_s, write_bytes_per_s, full_duplex: both, .. } =
            &mut f.attach
        {
            *read_bytes_per_s = 100e6;
            *write_bytes_per_s = 50e6;
            *both = full_duplex;
        }
        near(run(&f, RANDOM, &deep).iops, 100e6 / 4096.0, "link, reads");
        f.nand.program_fast_ns = 10_000;
        f.nand.program_slow_ns = 10_000;
        f.nand.erase_ns = 10_000;
        let writes = Loop { read_share: 0.0, ..Loop::reads(256) };
        near(run(&f, Written::Fresh, &writes).iops, 50e6 / 4096.0, "link, writes");
        // Half and half: one direction alone is the limit, or both share the one link.
        let mixed = run(&f, RANDOM, &Loop { read_share: 0.5, ..Loop::reads(256) }).iops;
        let shared = 2.0 / (4096.0 / 100e6 + 4096.0 / 50e6);
        if full_duplex {
            assert!(mixed > 1.2 * shared, "{mixed} is no better than one link: {shared}");
        } else {
            near(mixed, shared, "link, both ways");
        }
    }

    let mut f = base.clone();
    f.nand.programs_max = 4;
    let writes = Loop { read_share: 0.0, time_ns: 1_000_000_000, ..Loop::reads(256) };
    near(run(&f, Written::Fresh, &writes).iops, 4.0 / 500e-6, "programs at once");

    let mut f = base;
    if let Attach::Link { queue_max, .. } = &mut f.attach {
        *queue_max = 1;
    }
    near(run(&f, RANDOM, &deep).iops, 1.0 / 50e-6, "commands outstanding");
}

/// A buffer that accepts a page in time a and is drained at one page per time d: latency falls with slope -1 in think
/// time, and is flat from d - a.
#[test]
fn think_time_hides_the_drain() {
    let mut f = flash();
    f.nand.programs_max = 1;
    f.nand.program_fast_ns = 20_000;
    f.nand.program_slow_ns = 20_000;
    f.nand.erase_ns = 1_000;
    let machine = |think: u64| {
        let s = system(Kind::Flash(Box::new(f.clone())), Written::Fresh, 1);
        let mut m = Machine::new(&s, 1).unwrap();
        let worker = m.add_worker(0);
        let (mut at, mut sum, n) = (0, 0, 3000);
        for i in 0..n {
            let op =
                Op { offset_bytes: i * 4096, len_bytes: 4096, kind: OpKind::Write, fua: false };
            let from = m.submit(at, worker, 0, &op, i);
            let done = m.next_completion(u64::MAX).unwrap().at_ns;
            sum += if i >= n / 2 { done - from } else { 0 };
            at = done + think;
            while m.next_completion(at).is_some() {}
        }
        sum as f64 / (n / 2) as f64
    };
    for think in [0, 5_000, 10_000, 15_000, 25_000] {
        let want = (20_004.0 - think as f64).max(2_000.0);
        let got = machine(think);
        assert!((got - want).abs() < 30.0, "think {think}: {got} for {want}");
    }
}

/// A suspended program lets the read begin after `suspend_ns`, and ends later by the duration of
/// the interruption.
#[test]
fn suspension_trades_reads_for_programs() {
    let mut f = flash();
    let mixed = Loop { read_share: 0.7, time_ns: 500_000_000, ..Loop::reads(8) };
    let waits = run(&f, RANDOM, &mixed);
    f.nand.suspend_ns = Some(5_000);
    let suspends = run(&f, RANDOM, &mixed);
    assert!(suspends.read_ns < 0.7 * waits.read_ns, "{} {}", suspends.read_ns, waits.read_ns);
    assert!(suspends.read_ns > 50_000.0);
}

#[test]
fn one_seed_one_history() {
    let l = Loop { read_share: 0.6, ..Loop::reads(32) };
    let hash = |seed| {
        let s = system(Kind::Flash(Box::new(flash())), RANDOM, 2);
        l.run(&mut Machine::new(&s, seed).unwrap()).hash
    };
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}

#[test]
fn beyond_the_end_fails_and_counts() {
    let s = system(Kind::Flash(Box::new(flash())), RANDOM, 1);
    let mut m = Machine::new(&s, 1).unwrap();
    let worker = m.add_worker(0);
    let op = Op { offset_bytes: 1 << 30, len_bytes: 4096, kind: OpKind::Read, fua: false };
    m.submit(0, worker, 0, &op, 7);
    let done = m.next_completion(u64::MAX).unwrap();
    assert!(done.failure.is_some() && done.token == 7);
    assert_eq!(m.check(), Ok(()));
}

/// EverGuard: acknowledged data in a protected buffer survives, unflushed data in a volatile buffer
/// does not, and flushed data always does. The power is cut at every 20 µs of a short history.
#[test]
fn a_power_cut_keeps_protected_and_flushed_data() {
    for protected in [true, false] {
        let mut lost_some = false;
        for cut in (0..100_u64).map(|i| 30_000 + i * 20_000) {
            let mut f = flash();
            f.buffer.protected = protected;
            let s = system(Kind::Flash(Box::new(f)), Written::Fresh, 1);
            let mut m = Machine::new(&s, 1).unwrap();
            m.keep_content();
            let worker = m.add_worker(0);
            m.inject(cut, Fault::PowerCut);
            // Acknowledged value of each unit; those in flight may be there or not.
            let mut acknowledged = [None; 8];
            let mut durable = [None; 8];
            let (mut at, mut token) = (0, 0_u64);
            while at < cut {
                let flush = token % 13 == 12;
                let unit = token * 5 % 8;
                let kind = if flush { OpKind::Flush } else { OpKind::Write };
                let offset_bytes = if flush { 0 } else { unit * 4096 };
                let len_bytes = if flush { 0 } else { 4096 };
                m.submit(at, worker, 0, &Op { offset_bytes, len_bytes, kind, fua: false }, token);
                match m.next_completion(cut) {
                    Some(done) if flush => {
                        durable = acknowledged;
                        at = done.at_ns;
                    }
                    Some(done) => {
                        acknowledged[unit as usize] = Some(token);
                        at = done.at_ns;
                    }
                    None => break,
                }
                token += 1;
            }
            while m.next_completion(cut + 1).is_some() {}
            for unit in 0..8_u64 {
                let now = m.content(0, unit * 4096);
                let (acked, flushed) = (acknowledged[unit as usize], durable[unit as usize]);
                let in_flight = Some(token);
                if protected {
                    assert!(now == acked || now == in_flight, "cut at {cut}: {now:?} {acked:?}");
                } else {
                    assert!(now >= flushed, "cut at {cut}: flushed {flushed:?}, holds {now:?}");
                    lost_some |= now < acked;
                }
            }
            assert_eq!(m.check(), Ok(()));
            // The device continues to work, and drains the data that it kept.
            let op = Op { offset_bytes: 0, len_bytes: 4096, kind: OpKind::Read, fua: false };
            m.submit(cut + 10, worker, 0, &op, 999);
            let token = m.next_completion(u64::MAX).map(|c| c.token);
            assert_eq!(token, Some(999));
        }
        assert_ne!(lost_some, protected, "a volatile buffer that never loses is none");
    }
}

/// DataGuard: a failed page or block is rebuilt from its stripe, which takes longer than reading an
/// undamaged page. Without parity the read fails.
#[test]
fn damage_is_recovered_from_the_stripe_or_reported() {
    for (stripe, whole_block) in [(8, false), (8, true), (1, false), (0, false), (0, true)] {
        let mut f = flash();
        f.nand.parity_stripe = stripe;
        let s = system(Kind::Flash(Box::new(f)), Written::Sequential, 1);
        let mut m = Machine::new(&s, 1).unwrap();
        let worker = m.add_worker(0);
        m.inject(
            0,
            if whole_block {
                Fault::Block { part: PartId(0), offset_bytes: 40_960 }
            } else {
                Fault::Page { part: PartId(0), offset_bytes: 40_960 }
            },
        );
        let op = Op { offset_bytes: 40_960, len_bytes: 4096, kind: OpKind::Read, fua: false };
        let from = m.submit(10, worker, 0, &op, 0);
        let first = m.next_completion(u64::MAX).unwrap();
        let counts = m.flash_counts(0).unwrap();
        if stripe == 0 {
            assert!(first.failure.is_some());
            assert_eq!((counts.recovered, counts.unrecovered), (0, 1));
        } else {
            assert_eq!(first.failure, None);
            assert_eq!((counts.recovered, counts.unrecovered), (1, 0));
            assert!(first.at_ns - from >= 100_000, "{}", first.at_ns - from);
            assert_eq!(counts.copy_senses, u64::from(stripe), "all others of the stripe");
        }
    }
}

/// A device that was written at random before is in steady state from the first write on: it erases
/// as much as it programs even while it collects its first victim, before that is retired.
#[test]
fn a_preconditioned_device_erases_from_the_start() {
    let mut flash = flash();
    // A row of 16 384 pages, so that the load ends long before the first victim does.
    flash.nand.pages_per_block = 1024;
    flash.nand.raw_bytes = 2 << 30;
    let system = system(Kind::Flash(Box::new(flash)), RANDOM, 1);
    let mut machine = Machine::new(&system, 1).unwrap();
    let load = Loop { read_share: 0.0, time_ns: 150_000_000, ..Loop::reads(64) };
    load.run(&mut machine);
    let counts = machine.flash_counts(0).unwrap();
    let rows = counts.programs as f64 / 16384.0;
    assert!((0.1..0.5).contains(&rows), "a load of {rows} rows tests nothing");
    let erased = (counts.erases * 1024) as f64 / counts.programs as f64;
    assert!((0.7..1.3).contains(&erased), "{erased} of what was programmed");
}
