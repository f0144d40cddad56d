//! Verdicts on stationarity, tested as a detector on simulated closed loops with and without disturbances, over many
//! seeds: each trap must be detected, and honest targets must pass.

use crate::simulated;

use iodyno_measure::stationarity::Stationarity;
use iodyno_measure::verdict::judge;
use iodyno_measure::{Cell, Interval, Level};
use iodyno_units::OpKind;
use simulated::{INTERVAL_NS, MS, Service, Simulated, exponential, stall};

/// The codes of verdicts on stationarity.
const CODES: [&str; 3] = ["STALL", "TREND", "PERIODIC"];

fn said(cell: &Cell) -> Vec<(String, Level)> {
    let verdicts = judge(cell).into_iter().filter(|v| CODES.contains(&v.code.as_str()));
    verdicts.map(|v| (v.code, v.level)).collect()
}

/// Share of `trials` seeds for which `holds` is true.
fn share(trials: u64, of: &Simulated<'_>, holds: impl Fn(&Cell) -> bool) -> f64 {
    (0..trials).filter(|seed| holds(&of.cell(*seed))).count() as f64 / trials as f64
}

#[test]
fn stalls_are_seen_with_their_time_and_length() {
    for (depth, mean_ns, window_ns, length_ns) in [
        (1, 1e5, 3_000, 1_000),
        (1, 1e5, 1_000, 238),
        (16, 4e5, 3_000, 400),
        (1, 1e5, 2_000, 90),
        (32, 1e6, 10_000, 700),
        (1, 5e6, 30_000, 1_500),
    ] {
        let (from_ns, length_ns) = (window_ns * MS * 2 / 5 + 37 * MS, length_ns * MS);
        let target = Simulated {
            depth,
            window_ns: window_ns * MS,
            service_ns: &|at, draw| stall(from_ns, length_ns, at, exponential(mean_ns, draw)),
            think_ns: 0,
        };
        let found = share(30, &target, |cell| {
            let of = Stationarity::of(cell);
            let [one] = of.stalls.as_slice() else { return false };
            let tolerance = INTERVAL_NS / 2 + length_ns / 10;
            one.length_ns().abs_diff(length_ns) < tolerance
                && one.from_ns.abs_diff(from_ns) < INTERVAL_NS
                && said(cell) == [("STALL".to_owned(), Level::Warning)]
        });
        assert!(found >= 0.9, "depth {depth}, {length_ns} ns of {window_ns} ms: {found}");
    }
    // A stall that has not ended when the window does.
    let target = Simulated {
        depth: 4,
        window_ns: 2_000 * MS,
        service_ns: &|at, draw| stall(1_500 * MS, 900 * MS, at, exponential(1e5, draw)),
        think_ns: 0,
    };
    assert!(said(&target.cell(1)).contains(&("STALL".to_owned(), Level::Warning)));
}

/// When burst credits run out, operations in flight take long, and the rate is low from then on. This is a step, not a
/// stall.
#[test]
fn the_end_of_a_burst_is_no_stall() {
    for depth in [16, 32, 64, 128] {
        for seed in 0..10 {
            // A limit hands out turns at its rate.
            let turn_ns = std::cell::Cell::new(0_u64);
            let target = Simulated {
                depth,
                window_ns: 6_000 * MS,
                service_ns: &|at, draw| {
                    if at >= 4_530 * MS {
                        turn_ns.set(turn_ns.get().max(at) + 1_000_000_000 / 300);
                    }
                    turn_ns.get().saturating_sub(at) + exponential(3e5, draw)
                },
                think_ns: u64::from(depth) * 1_000_000_000 / 2_000,
            };
            let found = said(&target.cell(seed));
            let is_right = found.contains(&("TREND".to_owned(), Level::Warning))
                && found.iter().all(|(code, _)| code != "STALL");
            assert!(is_right, "depth {depth}, seed {seed}: {found:?}");
        }
    }
}

/// A single stall of 0.3 s in 60 s is a note, because it changes no figure. Ten such stalls are a property of the
/// target.
#[test]
fn stalls_that_change_no_figure_are_notes() {
    let short = Simulated {
        depth: 8,
        window_ns: 60_000 * MS,
        service_ns: &|at, draw| stall(20_000 * MS, 300 * MS, at, exponential(1e6, draw)),
        think_ns: 0,
    };
    assert_eq!(said(&short.cell(3)), [("STALL".to_owned(), Level::Note)]);
    let often = Simulated {
        service_ns: &|at, draw| {
            let from_ns = at / (3_700 * MS) * (3_700 * MS) + (at / (3_700 * MS) * 701 % 1_900) * MS;
            stall(from_ns, 250 * MS, at, exponential(1e6, draw))
        },
        ..short
    };
    let found = said(&often.cell(4));
    assert!(found.contains(&("STALL".to_owned(), Level::Note)), "{found:?}");
    assert!(found.iter().all(|(_, level)| *level == Level::Note), "{found:?}");
}

#[test]
fn changes_of_the_level_are_seen() {
    let window_ns = 5_000 * MS;
    let burst = |at: u64| if at < 3_100 * MS { 1e5 } else { 1.6e5 };
    let ramp = |at: u64| 1e5 * (1.0 + 0.35 * at as f64 / window_ns as f64);
    let warm_up = |at: u64| 1e5 * (1.0 + 1.5 * (-(at as f64) / (700.0 * MS as f64)).exp());
    let levels: [(&str, &dyn Fn(u64) -> f64); 3] =
        [("a burst that ends", &burst), ("a ramp", &ramp), ("a warm-up", &warm_up)];
    for (name, mean_ns) in levels {
        for depth in [1, 16] {
            let target = Simulated {
                depth,
                window_ns,
                service_ns: &|at, draw| exponential(mean_ns(at) * f64::from(depth), draw),
                think_ns: 0,
            };
            let found = share(30, &target, |cell| {
                said(cell).contains(&("TREND".to_owned(), Level::Warning))
            });
            assert!(found >= 0.9, "{name}, depth {depth}: {found}");
        }
    }
}

#[test]
fn swings_are_seen_with_their_period() {
    let swing = |at: u64, draw: &mut dyn FnMut() -> f64| {
        let phase = at as f64 / (1_000.0 * MS as f64) * std::f64::consts::TAU;
        exponential(1e5 / (1.0 + 0.3 * phase.sin()), draw)
    };
    let target = Simulated { depth: 1, window_ns: 20_000 * MS, service_ns: &swing, think_ns: 0 };
    let found = share(20, &target, |cell| {
        let period_ns = Stationarity::of(cell).swing.map_or(0, |swing| swing.period_ns);
        period_ns.abs_diff(1_000 * MS) < 50 * MS
            && said(cell) == [("PERIODIC".to_owned(), Level::Note)]
    });
    assert!(found >= 0.9, "{found}");
    let short = Simulated { window_ns: 4_500 * MS, ..target };
    let found =
        share(20, &short, |cell| said(cell).contains(&("PERIODIC".to_owned(), Level::Warning)));
    assert!(found >= 0.8, "four and a half periods have no mean: {found}");
    // The advice is a window in which the mean is sound: about 0.3 / (π × 0.02) periods.
    let verdicts = judge(&short.cell(0));
    let text = &verdicts.iter().find(|v| v.code == "PERIODIC").unwrap().text;
    let advised = text.split_once("measure for ").unwrap().1;
    assert!(advised.starts_with(['5', '6', '7']), "{text}");
}

/// A load that pauses each 1.5 s has other phases in the first and the last fifth of the window: no trend.
#[test]
fn the_phases_of_a_swing_are_no_trend() {
    let target = Simulated {
        depth: 1,
        window_ns: 20_000 * MS,
        service_ns: &|at, _| if at % (1_500 * MS) < 1_000 * MS { MS } else { 5 * MS },
        think_ns: 0,
    };
    let found = said(&target.cell(1));
    assert!(matches!(found.as_slice(), [(code, _)] if code == "PERIODIC"), "{found:?}");
}

/// Honest targets get no verdict on stationarity, over many seeds.
#[test]
fn steady_targets_pass() {
    let heavy = |_: u64, draw: &mut dyn FnMut() -> f64| {
        let tail = draw() < 0.002;
        exponential(if tail { 5e6 } else { 8e4 }, draw)
    };
    let plain = |_: u64, draw: &mut dyn FnMut() -> f64| exponential(1e5, draw);
    let slow = |_: u64, draw: &mut dyn FnMut() -> f64| exponential(2e6, draw);
    let constant = |_: u64, _: &mut dyn FnMut() -> f64| 80_000;
    let disk = |_: u64, draw: &mut dyn FnMut() -> f64| 4 * MS + exponential(4e6, draw);
    // A level that wanders: each 700 ms another mean within ± 4 %.
    let wandering = |at: u64, draw: &mut dyn FnMut() -> f64| {
        let level = (at / (700 * MS)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        exponential(8e5 * (0.96 + 0.08 * level as f64 / 255.0), draw)
    };
    // A flush each second holds writes up for 12 ms.
    let flushes = |at: u64, draw: &mut dyn FnMut() -> f64| {
        stall(at / (1_000 * MS) * (1_000 * MS) + 500 * MS, 12 * MS, at, exponential(5e5, draw))
    };
    // Few operations per interval: 2.5, 1.1, and 1 and 0.4 on average.
    let even = |_: u64, _: &mut dyn FnMut() -> f64| 40 * MS;
    let uneven = |_: u64, _: &mut dyn FnMut() -> f64| 91 * MS;
    let tenth = |_: u64, draw: &mut dyn FnMut() -> f64| exponential(1e8, draw);
    let second = |_: u64, draw: &mut dyn FnMut() -> f64| exponential(1e9, draw);
    let targets: [(&str, u32, u64, u64, Service<'_>); 13] = [
        ("an even schedule of large operations", 1, 10_000, 0, &even),
        ("about one operation per interval", 1, 10_000, 0, &uneven),
        ("exponential, 100 operations", 1, 10_000, 0, &tenth),
        ("exponential, 240 operations", 4, 60_000, 0, &second),
        ("exponential, depth 1", 1, 3_000, 0, &plain),
        ("exponential, depth 32", 32, 3_000, 0, &slow),
        ("exponential, a minute", 4, 60_000, 0, &slow),
        ("a heavy tail", 1, 3_000, 0, &heavy),
        ("constant", 1, 3_000, 0, &constant),
        ("a disk", 1, 10_000, 0, &disk),
        ("a wandering level", 8, 10_000, 0, &wandering),
        ("flushes", 4, 10_000, 0, &flushes),
        // Nothing is in flight for most of the time: gaps are the workload's.
        ("think time", 1, 10_000, 9 * MS, &plain),
    ];
    for (name, depth, window_ms, think_ns, service_ns) in targets {
        let target =
            Simulated { depth, window_ns: window_ms * MS, service_ns: &service_ns, think_ns };
        let alarms = share(40, &target, |cell| !said(cell).is_empty());
        assert!(alarms <= 0.05, "{name}: {alarms}");
    }
    // Pauses of a workload that are longer than intervals, with nothing in flight.
    let paused =
        Simulated { depth: 4, window_ns: 10_000 * MS, service_ns: &|_, _| 100_000, think_ns: 0 };
    let mut cell = paused.cell(0);
    for index in (0..100).filter(|index| index % 10 < 3) {
        cell.series[index] = Interval::default();
    }
    assert!(said(&cell).iter().all(|(code, _)| code != "STALL"), "{:?}", said(&cell));
    cell.evidence.trace = Some("a trace with pauses".to_owned());
    assert_eq!(said(&cell), []);
}

/// A target may be stalled for most of the window.
#[test]
fn stalls_for_most_of_the_window_are_seen() {
    for (length_ms, every_ms) in [(700, 934), (400, 622), (2_000, 2_200)] {
        let target = Simulated {
            depth: 8,
            window_ns: 30_000 * MS,
            service_ns: &|at, draw| {
                let from_ns = at / (every_ms * MS) * (every_ms * MS) + (every_ms - length_ms) * MS;
                stall(from_ns, length_ms * MS, at, exponential(1e6, draw))
            },
            think_ns: 0,
        };
        let cell = target.cell(1);
        let stalled = Stationarity::of(&cell).stalled_ns() as f64 / cell.window_ns as f64;
        let truth = length_ms as f64 / every_ms as f64;
        assert!((stalled - truth).abs() < 0.06, "{stalled} of {truth}");
        assert!(said(&cell).contains(&("STALL".to_owned(), Level::Warning)), "{:?}", said(&cell));
    }
}

/// An open loop completes what a stall held up right after it: no change of the rate.
#[test]
fn what_a_stall_held_up_is_no_trend() {
    let target = Simulated {
        depth: 1,
        window_ns: 10_000 * MS,
        service_ns: &|_, draw| exponential(1e6, draw),
        think_ns: 0,
    };
    let mut cell = target.cell(1);
    cell.key.offered_iops = Some(1_000.0);
    let whole = cell.series[0].clone();
    for from in [82, 91] {
        (from..from + 3).for_each(|i| cell.series[i] = Interval::default());
        // The longest of those held up took as long as the stall.
        cell.series[from + 3].class_mut(OpKind::Read).service.record(300 * MS);
        (from + 3..from + 6).for_each(|i| cell.series[i].merge(&whole));
    }
    let found = said(&cell);
    assert!(found.iter().all(|(code, _)| code == "STALL") && !found.is_empty(), "{found:?}");
    // A target that is slower after the stall does not catch up.
    let mut slower = cell.clone();
    (30..33).for_each(|i| slower.series[i] = Interval::default());
    for (i, interval) in slower.series.iter_mut().enumerate().skip(33) {
        *interval = Interval::default();
        let longest_ns = if i == 33 { 300 * MS } else { MS };
        interval.class_mut(OpKind::Read).service.record_n(longest_ns, 50);
    }
    assert!(said(&slower).contains(&("TREND".to_owned(), Level::Warning)), "{:?}", said(&slower));
    let verdicts = judge(&cell);
    let stall = verdicts.iter().find(|v| v.code == "STALL").unwrap();
    assert!(!stall.text.contains("without stalls"), "the rate is that offered: {}", stall.text);
}
