//! Injected faults: slow, delayed, failing, hung and lost devices, power that stays off, and unreadable ranges, on
//! every kind of device. Other volumes must not be affected.

use crate::common;

use common::{disk, flash, memory, shingled, system};
use iodyno_emulate::spec::{Kind, Written};
use iodyno_emulate::{Completion, Fault, Machine, PartId};
use iodyno_units::{IoError, Op, OpKind};

fn op(kind: OpKind, offset_bytes: u64, len_bytes: u32) -> Op {
    Op { offset_bytes, len_bytes, kind, fua: false }
}

fn flash_with(parity_stripe: u32, protected: bool, lanes: u32) -> Kind {
    let mut f = flash();
    f.nand.parity_stripe = parity_stripe;
    f.buffer.protected = protected;
    f.controller.lanes = lanes;
    Kind::Flash(Box::new(f))
}

fn kinds() -> Vec<(&'static str, Kind)> {
    vec![
        ("flash", flash_with(0, true, 1)),
        ("a disk", disk(true)),
        ("a disk without a cache", disk(false)),
        ("a shingled disk", shingled(true)),
        ("memory", memory(true)),
    ]
}

/// Two equal volumes that keep content, with a worker on each.
fn machine(kind: &Kind) -> Machine {
    let mut m = Machine::new(&system(kind.clone(), Written::Sequential, 2), 1).unwrap();
    m.keep_content();
    assert_eq!([m.add_worker(0), m.add_worker(1)], [0, 1]);
    m
}

/// Runs one operation alone. Returns its duration and its result.
fn alone(m: &mut Machine, volume: u32, op: &Op) -> (u64, Option<IoError>) {
    let from = m.submit(m.now_ns(), volume, volume, op, 77);
    let done = m.next_completion(u64::MAX).expect("it completes");
    assert_eq!((done.token, done.volume), (77, volume));
    (done.at_ns - from, done.failure)
}

fn all_done(m: &mut Machine) -> Vec<Completion> {
    std::iter::from_fn(|| m.next_completion(u64::MAX)).collect()
}

#[test]
fn a_slow_device_takes_its_factor_times_as_long() {
    let ops = [
        op(OpKind::Read, 1 << 20, 4096),
        op(OpKind::Read, 3 << 20, 65_536),
        op(OpKind::Write, 1 << 20, 8192),
        Op { fua: true, ..op(OpKind::Write, 1 << 20, 4096) },
        op(OpKind::Trim, 1 << 20, 8192),
        Op::FLUSH,
    ];
    for (name, kind) in kinds() {
        for o in ops {
            let (usual_ns, _) = alone(&mut machine(&kind), 0, &o);
            let other_usual = alone(&mut machine(&kind), 1, &o);
            for factor in [1.5, 10.0] {
                let mut m = machine(&kind);
                m.inject(0, Fault::Slow { part: PartId(0), factor });
                let (took_ns, failure) = alone(&mut m, 0, &o);
                let want_ns = usual_ns as f64 * factor;
                assert!((took_ns as f64 - want_ns).abs() <= 1.0, "{name} {o:?}: {took_ns}");
                assert_eq!(failure, None);
                let mut other = machine(&kind);
                other.inject(0, Fault::Slow { part: PartId(0), factor });
                assert_eq!(alone(&mut other, 1, &o), other_usual, "{name}: the other volume");
            }
            for lifted in
                [Fault::Slow { part: PartId(0), factor: 1.0 }, Fault::Clear { part: PartId(0) }]
            {
                let mut m = machine(&kind);
                m.inject(0, Fault::Slow { part: PartId(0), factor: 7.0 });
                m.inject(0, lifted);
                assert_eq!(alone(&mut m, 0, &o), (usual_ns, None), "{name}: lifted");
            }
        }
    }
}

/// If a device becomes slow, operations in progress take longer only for their remaining time. Unanswered operations
/// occupy the slow device's queue.
#[test]
fn slowness_begins_at_the_fault() {
    let kind = flash_with(0, true, 1);
    let read = op(OpKind::Read, 1 << 20, 4096);
    let (usual_ns, _) = alone(&mut machine(&kind), 0, &read);
    let mut m = machine(&kind);
    m.inject(usual_ns / 4, Fault::Slow { part: PartId(0), factor: 3.0 });
    let left_ns = usual_ns - usual_ns / 4;
    assert_eq!(alone(&mut m, 0, &read), (usual_ns + 2 * left_ns, None));

    // With one outstanding at a time, each waits for the one before it.
    let mut f = flash();
    if let iodyno_emulate::spec::Attach::Link { queue_max, .. } = &mut f.attach {
        *queue_max = 1;
    }
    let mut m = machine(&Kind::Flash(Box::new(f)));
    m.inject(0, Fault::Slow { part: PartId(0), factor: 3.0 });
    for token in 0..3 {
        m.submit(0, 0, 0, &op(OpKind::Read, token << 20, 4096), token);
    }
    let at: Vec<u64> = all_done(&mut m).iter().map(|c| c.at_ns).collect();
    // The second began when the first was answered: (3 u + u) since it was handed over, times 3.
    assert_eq!(at[..2], [3 * usual_ns, 12 * usual_ns], "{usual_ns}");
}

/// A delay is added once to the duration of an operation, after a factor.
#[test]
fn a_delayed_operation_ends_so_much_later() {
    let part = PartId(0);
    for (name, kind) in kinds() {
        for o in [op(OpKind::Read, 3 << 20, 65_536), op(OpKind::Write, 1 << 20, 8192), Op::FLUSH] {
            let (usual_ns, _) = alone(&mut machine(&kind), 0, &o);
            let other_usual = alone(&mut machine(&kind), 1, &o);
            let took = |faults: &[Fault]| {
                let mut m = machine(&kind);
                for &fault in faults {
                    m.inject(0, fault);
                }
                let other = alone(&mut m, 1, &o);
                assert_eq!(other, other_usual, "{name}: the other volume");
                let mut m = machine(&kind);
                for &fault in faults {
                    m.inject(0, fault);
                }
                let (took_ns, failure) = alone(&mut m, 0, &o);
                assert_eq!(failure, None);
                took_ns
            };
            let delay = |delay_ns, kind| Fault::Delay { part, delay_ns, kind };
            let all = delay(5_000_000, None);
            assert_eq!(took(&[all]), usual_ns + 5_000_000, "{name} {o:?}");
            assert_eq!(took(&[delay(7_000, Some(o.kind))]), usual_ns + 7_000, "{name} {o:?}");
            assert_eq!(took(&[delay(7_000, Some(OpKind::Trim))]), usual_ns, "{name} {o:?}");
            let slow = Fault::Slow { part, factor: 3.0 };
            assert_eq!(took(&[all, slow]), 3 * usual_ns + 5_000_000, "{name} {o:?}");
            assert_eq!(took(&[all, delay(0, None)]), usual_ns, "{name} {o:?}");
            assert_eq!(took(&[all, Fault::Clear { part }]), usual_ns, "{name} {o:?}");
        }
    }
}

/// The number of failures is binomially distributed. The kind of operation decides whether it can
/// fail, the seed decides which ones do, and a failed operation occupies no slot of a queue.
#[test]
fn a_share_of_the_operations_fails() {
    const OPERATIONS: u64 = 4_000;
    const PERCENT: f64 = 5.0;
    let kinds = kinds().into_iter().map(|(name, mut kind)| {
        if let Kind::Flash(flash) = &mut kind
            && let iodyno_emulate::spec::Attach::Link { queue_max, .. } = &mut flash.attach
        {
            *queue_max = 2;
        }
        (name, kind)
    });
    for (name, kind) in kinds {
        let failed = |seed, fails: Option<OpKind>| {
            let mut m = Machine::new(&system(kind.clone(), Written::Sequential, 2), seed).unwrap();
            m.keep_content();
            assert_eq!([m.add_worker(0), m.add_worker(1)], [0, 1]);
            m.inject(0, Fault::Errors { part: PartId(0), percent: PERCENT, kind: fails });
            let mut failed = Vec::new();
            for token in 0..OPERATIONS {
                let kind = [OpKind::Read, OpKind::Write][token as usize % 2];
                m.submit(m.now_ns(), 0, 0, &op(kind, token % 500 * 8192, 8192), token);
                if token % 8 == 7 {
                    let done = all_done(&mut m);
                    assert_eq!(done.len(), 8, "{name}");
                    for done in done.iter().filter(|done| done.failure.is_some()) {
                        assert_eq!(done.failure, Some(IoError::Io), "{name}");
                        failed.push(done.token);
                    }
                }
            }
            assert_eq!(m.check(), Ok(()), "{name}");
            assert_eq!(alone(&mut m, 1, &op(OpKind::Read, 0, 4096)).1, None, "{name}");
            m.inject(0, Fault::Clear { part: PartId(0) });
            (0..500).for_each(|_| assert_eq!(alone(&mut m, 0, &Op::FLUSH).1, None, "{name}"));
            failed
        };
        let is_likely = |count: usize, of: u64| {
            let mean = PERCENT / 100.0 * of as f64;
            let variance = mean * (1.0 - PERCENT / 100.0);
            let sigmas = (count as f64 - mean).abs() / variance.sqrt();
            assert!(sigmas < 4.0, "{name}: {count} of {of} failed, {sigmas} standard deviations");
        };
        let all = failed(1, None);
        is_likely(all.len(), OPERATIONS);
        assert_eq!(failed(1, None), all, "{name}: the same seed");
        assert_ne!(failed(2, None), all, "{name}: another one");
        let reads = failed(1, Some(OpKind::Read));
        is_likely(reads.len(), OPERATIONS / 2);
        assert!(reads.iter().all(|token| token % 2 == 0), "{name}: only reads");
    }
}

/// Power that stays off loses the same data as a power cut at that time, and changes nothing else.
#[test]
fn power_that_is_off_is_a_longer_power_cut() {
    let mut all = kinds();
    all.push(("flash with a volatile buffer", flash_with(0, false, 1)));
    all.push(("memory without a battery", memory(false)));
    for (name, kind) in all {
        let mut m = machine(&kind);
        for token in 0..60 {
            m.submit(token * 3000, 0, 0, &op(OpKind::Write, token % 20 * 4096, 4096), token);
            m.submit(token * 3000, 1, 1, &op(OpKind::Read, token * 4096, 4096), token);
        }
        m.next_completion(150_000);
        while m.next_completion(150_000).is_some() {}
        let content = |m: &Machine| (0..20).map(|u| m.content(0, u * 4096)).collect::<Vec<_>>();
        let mut cut = m.clone();
        cut.inject(150_000, Fault::PowerCut);
        assert_eq!(cut.next_completion(150_001), None);
        m.inject(150_000, Fault::PowerOff);
        assert_eq!(m.next_completion(150_001), None, "{name}: nothing completes");
        assert!(m.fault_state(0).off && m.fault_state(1).off);
        // A loss, a cut and a cleared fault give no power back.
        m.inject(0, Fault::Lose { part: PartId(1) });
        m.inject(0, Fault::PowerCut);
        m.inject(0, Fault::Clear { part: PartId(0) });
        m.inject(0, Fault::PowerOff);
        for o in [op(OpKind::Read, 0, 4096), op(OpKind::Write, 8192, 4096), Op::FLUSH] {
            assert_eq!(alone(&mut m, 0, &o).1, Some(IoError::Gone), "{name}");
        }
        assert_eq!(content(&m), content(&cut), "{name}: while it is off");
        m.inject(m.now_ns() + 1_000_000_000, Fault::PowerOn);
        assert_eq!(m.next_completion(m.now_ns() + 1_000_000_000), None);
        assert_eq!(content(&m), content(&cut), "{name}: with power");
        assert_eq!(alone(&mut m, 0, &op(OpKind::Write, 0, 4096)).1, None, "{name}");
        assert_eq!(alone(&mut m, 1, &Op::FLUSH).1, Some(IoError::Gone), "{name}: was lost");
        m.inject(0, Fault::Clear { part: PartId(1) });
        m.next_completion(m.now_ns());
        assert_eq!(alone(&mut m, 1, &Op::FLUSH).1, None, "{name}");
        assert_eq!(m.check(), Ok(()), "{name}");
    }
}

#[test]
fn a_hung_device_answers_when_it_is_cleared() {
    for (name, kind) in kinds() {
        let mut m = machine(&kind);
        m.submit(0, 0, 0, &op(OpKind::Read, 8192, 4096), 1);
        m.inject(1, Fault::Hang { part: PartId(0) });
        m.submit(10, 0, 0, &op(OpKind::Read, 1 << 20, 131_072), 2);
        m.submit(10, 0, 0, &op(OpKind::Write, 4096, 4096), 3);
        m.submit(10, 0, 0, &Op::FLUSH, 4);
        m.submit(10, 1, 1, &op(OpKind::Read, 4096, 4096), 5);
        let done = all_done(&mut m);
        assert_eq!(done.iter().map(|c| c.token).collect::<Vec<_>>(), [5], "{name}");
        assert_eq!(m.next_event(), None);
        assert_eq!(m.check(), Ok(()));
        let cleared_ns = m.now_ns() + 1_000_000_000;
        m.inject(cleared_ns, Fault::Clear { part: PartId(0) });
        let mut tokens = Vec::new();
        for done in all_done(&mut m) {
            assert_eq!((done.at_ns, done.failure), (cleared_ns, None), "{name}");
            tokens.push(done.token);
        }
        tokens.sort_unstable();
        assert_eq!(tokens, [1, 2, 3, 4], "{name}");
        assert_eq!(m.content(0, 4096), Some(3));
        assert_eq!(m.check(), Ok(()));
    }
}

/// A power cut removes the operations that wait in a hung device; the device stays hung for later
/// ones.
#[test]
fn a_power_cut_does_not_end_a_hang() {
    for (name, kind) in kinds() {
        let mut m = machine(&kind);
        m.inject(0, Fault::Hang { part: PartId(0) });
        m.submit(1, 0, 0, &op(OpKind::Read, 0, 4096), 1);
        assert_eq!(m.next_completion(50_000_000), None);
        m.inject(50_000_000, Fault::PowerCut);
        assert_eq!(m.next_completion(60_000_000), None);
        m.submit(60_000_000, 0, 0, &op(OpKind::Read, 0, 4096), 2);
        assert_eq!(m.next_completion(u64::MAX), None, "{name} hangs on");
        m.inject(200_000_000, Fault::Clear { part: PartId(0) });
        let tokens: Vec<u64> = all_done(&mut m).iter().map(|c| c.token).collect();
        assert_eq!(tokens, [2], "{name}");
        assert_eq!(alone(&mut m, 0, &op(OpKind::Read, 0, 4096)).1, None);
    }
}

#[test]
fn a_lost_device_fails_everything_until_it_is_back() {
    let mut with_volatile = kinds();
    with_volatile.push(("flash with a volatile buffer", flash_with(0, false, 1)));
    with_volatile.push(("memory without a battery", memory(false)));
    for (name, kind) in with_volatile {
        let mut m = machine(&kind);
        for token in 0..40 {
            m.submit(0, 0, 0, &op(OpKind::Write, token * 4096, 4096), token);
        }
        m.submit(0, 0, 0, &Op::FLUSH, 40);
        assert_eq!(all_done(&mut m).len(), 41);
        let acknowledged = alone(&mut m, 0, &op(OpKind::Write, 0, 4096));
        assert_eq!((acknowledged.1, m.content(0, 0)), (None, Some(77)));
        let mut lost_ns = m.now_ns();
        let in_flight = [op(OpKind::Read, 1 << 20, 131_072), op(OpKind::Read, 0, 4096), Op::FLUSH];
        for (token, o) in (100..).zip(&in_flight) {
            m.submit(lost_ns, 0, 0, o, token);
        }
        m.submit(lost_ns, 1, 1, &op(OpKind::Read, 0, 4096), 103);
        let is_memory = matches!(kind, Kind::Memory(_));
        lost_ns += 1000;
        m.inject(lost_ns, Fault::Lose { part: PartId(0) });
        let (mut lost, mut others) = (Vec::new(), Vec::new());
        for done in all_done(&mut m) {
            if done.volume == 1 {
                others.push((done.token, done.failure));
                continue;
            }
            assert_eq!(done.failure, Some(IoError::Gone), "{name}");
            // Memory's submitter copies first, and detects it then.
            assert!(is_memory || done.at_ns == lost_ns, "{name}: {done:?}");
            lost.push(done.token);
        }
        lost.sort_unstable();
        assert_eq!((lost, others), (vec![100, 101, 102], vec![(103, None)]), "{name}");
        assert_eq!(m.check(), Ok(()), "{name}");
        for o in [op(OpKind::Read, 0, 4096), op(OpKind::Write, 8192, 4096), Op::FLUSH] {
            let (took_ns, failure) = alone(&mut m, 0, &o);
            assert_eq!(failure, Some(IoError::Gone), "{name}");
            assert!(is_memory || took_ns == 0, "{name}");
        }
        // A second loss, and the power, change nothing about that.
        m.inject(0, Fault::Lose { part: PartId(0) });
        m.inject(0, Fault::PowerCut);
        assert_eq!(m.next_completion(m.now_ns()), None);
        assert_eq!(alone(&mut m, 0, &op(OpKind::Read, 0, 4096)).1, Some(IoError::Gone));
        m.inject(m.now_ns() + 1, Fault::Clear { part: PartId(0) });
        all_done(&mut m);
        assert_eq!(alone(&mut m, 0, &op(OpKind::Read, 0, 4096)).1, None, "{name} is back");
        // Flushed data are there; data that were only acknowledged, where they were protected.
        let (protected, keeps) = match name {
            "flash" | "a disk without a cache" | "memory" => (true, true),
            "memory without a battery" => (false, false),
            _ => (false, true),
        };
        let unit_0 = if protected { Some(77) } else { keeps.then_some(0) };
        assert_eq!(m.content(0, 0), unit_0, "{name}");
        assert_eq!(m.content(0, 8192), keeps.then_some(2), "{name}: a failed write");
        assert_eq!(m.check(), Ok(()), "{name}");
    }
}

#[test]
fn a_latent_range_fails_reads_until_it_is_written() {
    let latent = Fault::Latent { part: PartId(0), offset_bytes: 40_960 + 512, len_bytes: 8192 };
    let mut all = kinds();
    all.push(("flash in lanes", flash_with(0, true, 2)));
    for (name, kind) in all {
        let mut m = machine(&kind);
        m.inject(0, latent);
        m.next_completion(1);
        let read = |m: &mut Machine, offset, len, want| {
            let got = alone(m, 0, &op(OpKind::Read, offset, len)).1;
            assert_eq!(got, want, "{name}: {offset} {len}");
            assert_eq!(alone(m, 1, &op(OpKind::Read, offset, len)).1, None);
        };
        let bad = Some(IoError::Io);
        // Units 10, 11 and 12 are touched.
        read(&mut m, 36_864, 4096, None);
        read(&mut m, 53_248, 65_536, None);
        read(&mut m, 40_960, 512, bad);
        read(&mut m, 49_152, 4096, bad);
        read(&mut m, 16_384, 28_672, bad);
        read(&mut m, 49_152 + 2048, 65_536, bad);
        assert_eq!(alone(&mut m, 0, &op(OpKind::Write, 45_056, 4096)).1, None);
        read(&mut m, 45_056, 4096, None);
        read(&mut m, 40_960, 4096, bad);
        assert_eq!(alone(&mut m, 0, &op(OpKind::Trim, 36_864, 8192)).1, None);
        read(&mut m, 36_864, 12_288, None);
        read(&mut m, 36_864, 16_384, bad);
        // Zeroes for a part of a unit need the rest of it, as other writes do. A trim ignores partial units.
        assert_eq!(alone(&mut m, 0, &op(OpKind::WriteZeroes, 49_152 + 512, 512)).1, bad, "{name}");
        assert_eq!(alone(&mut m, 0, &op(OpKind::WriteZeroes, 45_056, 8192 - 512)).1, bad, "{name}");
        assert_eq!(alone(&mut m, 0, &op(OpKind::Trim, 49_152, 512)).1, None, "{name}");
        read(&mut m, 36_864, 16_384, bad);
        m.inject(0, Fault::Clear { part: PartId(0) });
        m.next_completion(m.now_ns());
        read(&mut m, 36_864, 16_384, None);
        m.inject(m.now_ns(), latent);
        m.next_completion(m.now_ns());
        assert_eq!(alone(&mut m, 0, &op(OpKind::WriteZeroes, 40_960, 12_288)).1, None, "{name}");
        read(&mut m, 36_864, 20_480, None);
        if let Some(counts) = m.flash_counts(0) {
            assert!(counts.unrecovered >= 6 && counts.recovered == 0, "{counts:?}");
        }
    }
}

/// With parity the page is rebuilt, which takes longer than reading an undamaged one. After that it
/// is undamaged.
#[test]
fn parity_rebuilds_a_latent_range_once() {
    for fault in [
        Fault::Latent { part: PartId(0), offset_bytes: 40_960, len_bytes: 8192 },
        Fault::Page { part: PartId(0), offset_bytes: 40_960 },
        Fault::Block { part: PartId(0), offset_bytes: 40_960 },
    ] {
        let mut m = machine(&flash_with(8, true, 1));
        let read = op(OpKind::Read, 40_960, 4096);
        let (usual_ns, _) = alone(&mut m, 0, &read);
        m.inject(0, fault);
        let (rebuilt_ns, failure) = alone(&mut m, 0, &read);
        assert!(rebuilt_ns >= usual_ns + 50_000 && failure.is_none(), "{fault:?}: {rebuilt_ns}");
        assert_eq!(alone(&mut m, 0, &read), (usual_ns, None), "{fault:?}");
        assert_eq!(m.flash_counts(0).unwrap().recovered, 1);
    }
}

/// A damaged page takes all its data with it, and a damaged block that of one block of its die, whether every page or
/// only a sample of pages is in the map.
#[test]
fn a_page_or_block_of_ordered_data_fails_as_a_whole() {
    let mut f = flash();
    (f.nand.parity_stripe, f.nand.page_bytes, f.nand.pages_per_block) = (0, 16 << 10, 16);
    let (page_units, dies, pages) = (4_u64, 16_u64, 16_u64);
    let row_units = page_units * dies * pages;
    for represent in [1, 4] {
        let system = system(Kind::Flash(Box::new(f.clone())), Written::Sequential, 2);
        let damaged = |fault: Fault| {
            let mut m = Machine::represented(&system, 1, represent).unwrap();
            assert_eq!([m.add_worker(0), m.add_worker(1)], [0, 1]);
            m.inject(0, fault);
            let fails =
                |unit: &u64| alone(&mut m, 0, &op(OpKind::Read, unit * 4096, 4096)).1.is_some();
            (0..4 * row_units).filter(fails).collect::<Vec<u64>>()
        };
        let (part, offset_bytes) = (PartId(0), (row_units + 5) * 4096);
        let page = damaged(Fault::Page { part, offset_bytes });
        assert!(page.iter().copied().eq(row_units + 4..row_units + 8), "{represent}: {page:?}");
        let block = damaged(Fault::Block { part, offset_bytes });
        assert_eq!(block.len() as u64, page_units * pages, "{represent}: {block:?}");
        assert!(page.iter().all(|unit| block.contains(unit)), "{represent}: {block:?}");
        let first = block[0] / page_units;
        let is_on_die = |unit: &u64| (unit / page_units - first).is_multiple_of(dies);
        assert!(block.iter().all(is_on_die), "{represent}: {block:?}");
    }
}

/// The buffer of a slow or hung flash device continues to drain to flash; an operation that waits
/// for an answer is answered only once, whatever follows.
#[test]
fn faults_upon_faults() {
    for (name, kind) in kinds() {
        let mut m = machine(&kind);
        for token in 0..30 {
            let kind = [OpKind::Read, OpKind::Write][token as usize % 2];
            m.submit(token * 5000, 0, 0, &op(kind, token * 8192, 8192), token);
        }
        m.inject(10_000, Fault::Slow { part: PartId(0), factor: 4.0 });
        m.inject(80_000, Fault::Hang { part: PartId(0) });
        m.inject(120_000, Fault::Slow { part: PartId(0), factor: 2.0 });
        m.inject(300_000, Fault::Lose { part: PartId(0) });
        m.inject(400_000, Fault::Clear { part: PartId(0) });
        m.inject(400_000, Fault::Slow { part: PartId(0), factor: 2.0 });
        let mut tokens: Vec<u64> = all_done(&mut m).iter().map(|c| c.token).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, (0..30).collect::<Vec<_>>(), "{name}");
        assert_eq!(alone(&mut m, 0, &op(OpKind::Read, 0, 4096)).1, None);
        assert_eq!(m.check(), Ok(()));
    }
}
