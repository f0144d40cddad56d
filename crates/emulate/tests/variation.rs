//! Reads of varying duration, compared with the closed forms of their mixtures: page types, retries, and the fraction
//! of the data in an SLC cache.

use crate::common;

use common::{RANDOM, flash, system};
use iodyno_emulate::Machine;
use iodyno_emulate::spec::{Flash, Kind, Slc, Variation, Written};
use iodyno_units::rng::{below, stream};
use iodyno_units::{Op, OpKind};

const READS: usize = 40_000;

/// Latencies of random page reads, one at a time, in ascending order, ns.
fn latencies(flash: &Flash) -> Vec<u64> {
    let system = system(Kind::Flash(Box::new(flash.clone())), RANDOM, 1);
    let mut machine = Machine::new(&system, 1).unwrap();
    let worker = machine.add_worker(0);
    let mut rng = stream(3, "addresses", 0);
    let pages = machine.capacity_bytes(0) / 4096;
    let mut now_ns = 0;
    let mut all: Vec<u64> = (0..READS)
        .map(|_| {
            let offset_bytes = below(&mut rng, pages) * 4096;
            let op = Op { offset_bytes, len_bytes: 4096, kind: OpKind::Read, fua: false };
            machine.submit(now_ns, worker, 0, &op, 0);
            let done = machine.next_completion(u64::MAX).unwrap();
            let took_ns = done.at_ns - now_ns;
            now_ns = done.at_ns;
            took_ns
        })
        .collect();
    all.sort_unstable();
    all
}

/// The share of latencies that exceed `least` by `from` up to (not including) `to`, us.
fn share(all: &[u64], least: u64, (from, to): (f64, f64)) -> f64 {
    let us = |ns: &&u64| (from..to).contains(&((**ns - least) as f64 / 1e3));
    all.iter().filter(us).count() as f64 / all.len() as f64
}

/// Checks that a share is within four standard errors of a binomial distribution.
#[track_caller]
fn is_share(found: f64, expected: f64) {
    is_share_of(READS, found, expected);
}

#[track_caller]
fn is_share_of(count: usize, found: f64, expected: f64) {
    let error = (expected * (1.0 - expected) / count as f64).sqrt();
    assert!((found - expected).abs() <= 4.0 * error, "{found} where {expected} was expected");
}

#[test]
fn without_variation_all_take_as_long() {
    let all = latencies(&flash());
    assert!(all[READS - 1] - all[0] < 100, "{} {}", all[0], all[READS - 1]);
}

/// Three page types 20 us apart, and a retry of 60 us in one of a hundred reads; a second retry
/// follows with the same probability.
#[test]
fn page_types_and_retries_are_a_mixture() {
    let (p, retry_us) = (0.01, 60.0);
    let mut f = flash();
    let plain = latencies(&f)[0];
    f.nand.variation = Some(Variation {
        page_types: 3,
        spread_ns: 20_000,
        retried_share: p,
        retry_ns: 60_000,
        suspend_ns: 0,
        suspend_share: 1.0,
    });
    let all = latencies(&f);
    let least = all[0];
    assert!((plain - least).abs_diff(20_000) < 100, "the fastest type: {least} of {plain}");
    for type_us in [0.0, 20.0, 40.0] {
        let near = |us: f64| (us - 1.0, us + 1.0);
        is_share(share(&all, least, near(type_us)), (1.0 - p) / 3.0);
        is_share(share(&all, least, near(type_us + retry_us)), p * (1.0 - p) / 3.0);
    }
    is_share(share(&all, least, (2.0 * retry_us - 1.0, 1e9)), p * p);
    // The mean of the types is the time without variation, and the retries add a geometric series.
    let mean = all.iter().sum::<u64>() as f64 / READS as f64;
    let expected = plain as f64 + retry_us * 1e3 * p / (1.0 - p);
    assert!((mean - expected).abs() < 4.0 * 18e3 / (READS as f64).sqrt(), "{mean} {expected}");
    // Quantiles: the median is the middle type, and one read in a thousand had the slowest with a retry.
    let quantile = |q: f64| (all[(q * READS as f64) as usize] - least) as f64 / 1e3;
    assert!((quantile(0.5) - 20.0).abs() < 1.0 && (quantile(0.98) - 40.0).abs() < 1.0);
    assert!((quantile(0.999) - 100.0).abs() < 1.0, "{}", quantile(0.999));
}

/// A suspension takes the constant time, and in its share of the cases an exponentially distributed one.
#[test]
fn a_share_of_the_suspensions_takes_longer() {
    const SUSPENDED: usize = 8_000;
    let (constant_ns, mean_us) = (20_000, 100.0);
    for p in [1.0, 0.25] {
        let mut f = flash();
        (f.nand.channels, f.nand.raw_bytes) = (1, 2 << 30);
        // No suspension ends because its program does.
        (f.nand.program_fast_ns, f.nand.program_slow_ns) = (20_000_000, 20_000_000);
        f.nand.suspend_ns = Some(constant_ns);
        f.nand.variation = Some(Variation {
            page_types: 1,
            spread_ns: 0,
            retried_share: 0.0,
            retry_ns: 0,
            suspend_ns: (mean_us * 1e3) as u64,
            suspend_share: p,
        });
        let mut machine =
            Machine::new(&system(Kind::Flash(Box::new(f)), Written::Sequential, 1), 1).unwrap();
        let worker = machine.add_worker(0);
        let op = |kind| Op { offset_bytes: 8192, len_bytes: 4096, kind, fua: false };
        let mut all: Vec<u64> = (1..=SUSPENDED as u64)
            .map(|round| {
                let from_ns = round * 100_000_000;
                machine.submit(from_ns, worker, 0, &op(OpKind::Write), 0);
                machine.next_completion(from_ns + 10_000_000).unwrap();
                machine.submit(from_ns + 10_000_000, worker, 0, &op(OpKind::Read), 1);
                let read = machine.next_completion(u64::MAX).unwrap();
                read.at_ns - from_ns - 10_000_000
            })
            .collect();
        all.sort_unstable();
        let least = all[0];
        let later = |us: f64| share(&all, least, (us, 1e9));
        for us in [1.0, 50.0, 100.0, 250.0] {
            is_share_of(SUSPENDED, later(us), p * (-us / mean_us).exp());
        }
    }
}

/// A cache that holds a quarter of the data serves a quarter of the reads.
#[test]
fn the_slc_cache_answers_its_share() {
    let mut f = flash();
    let plain = latencies(&f)[0];
    let of = |share: u64| {
        Some(Slc {
            bytes: f.capacity_bytes / 4 * share,
            program_ns: 200_000,
            read_ns: Some(20_000),
        })
    };
    let (quarter, all) = (of(1), of(4));
    f.nand.slc = quarter;
    let reads = latencies(&f);
    assert!((plain - reads[0]).abs_diff(30_000) < 100, "{} {plain}", reads[0]);
    is_share(share(&reads, reads[0], (0.0, 1.0)), 0.25);
    f.nand.slc = all;
    let reads = latencies(&f);
    assert!(reads[READS - 1] - reads[0] < 100, "all of it is in the cache");
}
