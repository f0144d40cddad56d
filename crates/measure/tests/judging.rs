//! Tests that verdicts depend only on the evidence of the cell itself.

use iodyno_measure::verdict::judge;
use iodyno_measure::{
    Busy, Cell, Conditions, Coverage, Ended, ErrorKind, Finding, Histogram, Interval, IoLimit,
    Level, Place, Reached, Role, RunDelay, Storage, StoreLevel, Verification, WarmUp,
};
use iodyno_units::OpKind;

/// A sound cell: 2 s in two intervals, 20 000 reads of 100 µs each, one at a time.
fn sound() -> Cell {
    let mut interval = Interval::default();
    let class = interval.class_mut(OpKind::Read);
    class.bytes = 10_000 * 4096;
    class.service.record_n(100_000, 10_000);
    let mut cell = Cell {
        window_ns: 2_000_000_000,
        interval_ns: 1_000_000_000,
        series: vec![interval.clone(), interval],
        ..Cell::default()
    };
    cell.key.depth = 1;
    cell.resources.outstanding_area_ns = 2_000_000_000;
    cell.resources.moved_bytes = 20_000 * 4096;
    cell.resources.cpu_user_ns = vec![100_000_000];
    cell.resources.cpu_system_ns = vec![100_000_000];
    cell.evidence.direct = Some(true);
    cell.evidence.active_bytes = 400 << 30;
    cell.evidence.written_share = Some(1.0);
    cell.evidence.generator_ceiling_iops = Some(1e7);
    cell.evidence.cpus = 2;
    cell
}

/// Run delay of a worker that waited `ms` milliseconds for a processor, in 100 waits.
fn waited(ms: u64) -> Vec<RunDelay> {
    vec![RunDelay { waited_ns: ms * 1_000_000 + 100 * 20_000, waits: 100 }]
}

fn codes(cell: &Cell) -> Vec<String> {
    judge(cell).into_iter().map(|v| v.code).collect()
}

/// Text of the cell's verdict with this code; None if there is none.
fn said(cell: &Cell, code: &str) -> Option<String> {
    judge(cell).into_iter().find(|v| v.code == code).map(|v| v.text)
}

/// Fewer random arrivals may be due than offered. If all of them were completed, the target kept
/// up.
#[test]
fn fewer_arrivals_by_chance_are_no_missed_rate() {
    let cell = |ops: u64, backlog_ops: u64| {
        let mut cell = sound();
        cell.series.truncate(1);
        let class = cell.series[0].class_mut(OpKind::Read);
        (class.bytes, class.service) = (ops * 4096, Histogram::new());
        class.service.record_n(100_000, ops);
        class.response = Some(class.service.clone());
        // Due in 2 s: 100.
        (cell.key.offered_iops, cell.backlog_ops) = (Some(50.0), backlog_ops);
        cell
    };
    let met = said(&cell(75, 0), "RATE_MET").unwrap();
    assert!(met.contains("37.5/s were due, and all were completed"), "{met}");
    let growing = |backlog_ops| {
        let mut cell = cell(98_000, backlog_ops);
        cell.key.offered_iops = Some(50_000.0);
        cell
    };
    assert!(said(&growing(900), "RATE_MET").is_some());
    for missed in [cell(75, 1), cell(59, 0), growing(1900)] {
        assert!(said(&missed, "RATE_MET").is_none() && said(&missed, "RATE_MISSED").is_some());
    }
    assert_eq!(said(&cell(98, 0), "RATE_MET").unwrap(), "the rate of 50.0/s was met");
}

/// A target that completes 1,000/s of 1,020/s is found out although the engine's queue takes what is due. In a search,
/// the missed rate is an answer.
#[test]
fn a_queue_that_grows_evenly_misses_its_rate() {
    let cell = |growth_ns: u64| {
        let mut cell = sound();
        cell.interval_ns = 100_000_000;
        cell.series = (0..20)
            .map(|i| {
                let mut interval = Interval::default();
                let class = interval.class_mut(OpKind::Read);
                class.bytes = 100 * 4096;
                class.service.record_n(1_000_000 + i * growth_ns, 100);
                class.response = Some(class.service.clone());
                interval
            })
            .collect();
        cell.key.offered_iops = Some(1_020.0);
        cell
    };
    assert!(said(&cell(0), "RATE_MET").is_some(), "by chance 2,000 of 2,040 were due");
    let mut grown = cell(2_000_000);
    let text = said(&grown, "RATE_MISSED").unwrap();
    assert!(text.contains("response times grew evenly from 0 ns to 4"), "{text}");
    grown.key.place = Some(Place { is_trial: true, ..Place::default() });
    let missed = judge(&grown).into_iter().find(|v| v.code == "RATE_MISSED").unwrap();
    assert_eq!(missed.level, Level::Note);
    // Its queue has to be long.
    grown.resources.carried_out_ns = grown.resources.outstanding_area_ns as i128 / 5;
    assert_eq!(said(&grown, "WINDOW_TOO_SHORT"), None);
    let mut met = Cell { series: cell(0).series, ..grown.clone() };
    met.key.offered_iops = Some(1_000.0);
    assert!(said(&met, "WINDOW_TOO_SHORT").is_some());
    grown.evidence.trace = Some("a trace that offers ever more".to_owned());
    assert_eq!(said(&grown, "RATE_MISSED"), None);
}

/// If operations failed during the ramp, no share of failures is reported, because completions during the ramp are not
/// counted.
#[test]
fn a_share_of_failures_needs_both_counts() {
    let mut cell = sound();
    cell.series[0].class_mut(OpKind::Read).errors.add(ErrorKind::Io, 5);
    let text = said(&cell, "ERRORS").unwrap();
    assert!(text.starts_with("1 operation failed (0.005 %): "), "{text}");
    cell.series.truncate(1);
    cell.series[0] = Interval::default();
    (0..101).for_each(|_| cell.series[0].class_mut(OpKind::Read).errors.add(ErrorKind::Io, 5));
    let text = said(&cell, "ERRORS").unwrap();
    assert!(text.starts_with("101 operations failed, including those during the ramp: "), "{text}");
}

/// The advised window has as many operations in flight at its end, in a tenth of the time: it is longer than this one,
/// however short the latency.
#[test]
fn a_window_that_is_too_short_has_to_be_longer() {
    let mut cell = sound();
    let carried_ns = cell.resources.outstanding_area_ns / 5;
    cell.resources.outstanding_area_ns += carried_ns;
    cell.resources.carried_out_ns += carried_ns as i128;
    let text = said(&cell, "WINDOW_TOO_SHORT").unwrap();
    assert!(text.contains("17 %") && text.contains("measure for at least 4 s"), "{text}");
}

/// A replay is judged by the mean queue that it filled, not by the longest queue that it was allowed.
#[test]
fn a_replay_is_judged_by_the_queue_that_it_filled() {
    let mut cell = sound();
    cell.ended = Ended::Ops;
    (cell.key.threads, cell.key.depth) = (1, 100_000);
    assert!(said(&cell, "FEW_OPERATIONS").unwrap().ends_with("at least --ops 1000000"));
    cell.evidence.trace = Some("a trace".to_owned());
    assert_eq!(said(&cell, "FEW_OPERATIONS"), None);
    cell.resources.outstanding_area_ns = 100_000 * u128::from(cell.window_ns);
    assert!(said(&cell, "FEW_OPERATIONS").unwrap().ends_with("replay more of the trace"));
}

/// Full queues are named as the cause only if at least as many operations were due as the queues hold.
#[test]
fn late_operations_have_the_cause_that_the_figures_allow() {
    let mut cell = sound();
    cell.key.offered_iops = Some(10_000.0);
    let mut lateness = Histogram::new();
    lateness.record_n(100, 490);
    lateness.record_n(4_000_000, 10);
    cell.lateness = Some(lateness);
    // In open loop a worker's queue has at least 256 places.
    let full = "full during bursts or stalls; raise --threads, or --depth above 256;";
    for (depth, expected) in [(16, full), (1024, "the queues had room")] {
        cell.key.depth = depth;
        let text = said(&cell, "LATE_SUBMISSION").unwrap();
        assert!(text.contains(expected), "{depth}: {text}");
    }
}

#[test]
fn the_mmap_engine_reads_by_page_faults() {
    let mut cell = sound();
    around(&mut cell).major_faults = Some(12_777);
    assert!(said(&cell, "MAJOR_FAULTS").is_some());
    cell.key.engine = "mmap".to_owned();
    assert_eq!(said(&cell, "MAJOR_FAULTS"), None);
}

/// Reads of never-written blocks need no device, but writes to them do.
#[test]
fn holes_beneath_are_named_where_reads_fell_short() {
    let mut cell = sound();
    let mut reached =
        Reached { issued_read_bytes: 1 << 30, device_read_bytes: 1 << 20, ..Reached::default() };
    cell.evidence.storage = Some(Storage { reached: Some(reached), ..Storage::default() });
    assert!(said(&cell, "PAGE_CACHE").unwrap().contains("blocks never written"));
    (reached.issued_written_bytes, reached.device_written_bytes) = (1 << 30, 1 << 20);
    (reached.issued_read_bytes, reached.device_read_bytes) = (0, 0);
    cell.evidence.storage = Some(Storage { reached: Some(reached), ..Storage::default() });
    assert!(!said(&cell, "PAGE_CACHE").unwrap().contains("blocks never written"));
}

#[test]
fn a_sound_cell_is_valid_and_nothing_else() {
    assert_eq!(codes(&sound()), ["VALID"]);
}

/// An interrupt may fall between the readings of the two clocks. In a short cell, a relative deviation of the clocks
/// therefore proves nothing.
#[test]
fn a_clock_is_off_by_a_time_and_a_share() {
    let mut cell = sound();
    for (window_ns, ppm, is_told) in [
        (5_000_000, -900.0, false),
        (5_000_000, -11_000.0, true),
        (2_000_000_000, 499.0, false),
        (2_000_000_000, 501.0, true),
    ] {
        cell.window_ns = window_ns;
        cell.evidence.clock_error_ppm = Some(ppm);
        assert_eq!(codes(&cell).contains(&"CLOCK".to_owned()), is_told, "{ppm} of {window_ns} ns");
    }
}

/// A rate above the generator's maximum shows that the null engine's run was disturbed, so no percentage is reported.
#[test]
fn a_ceiling_that_was_passed_was_disturbed() {
    let mut cell = sound();
    cell.evidence.generator_ceiling_iops = Some(9_000.0);
    let said = judge(&cell).into_iter().find(|v| v.code == "GENERATOR_BOUND").unwrap().text;
    assert!(said.contains("disturbed") && !said.contains('%'), "{said}");
}

type Change = fn(&mut Cell);

/// The cell's verification; adds an empty one if it has none.
fn checked(cell: &mut Cell) -> &mut Verification {
    cell.evidence.verification.get_or_insert_with(|| Verification::of_units(4096))
}

fn around(cell: &mut Cell) -> &mut Conditions {
    cell.evidence.conditions.get_or_insert_with(calm)
}

/// Conditions that cause no verdict.
fn calm() -> Conditions {
    Conditions {
        governor: Some("performance".to_owned()),
        turbo: Some(true),
        processor_throttles: Some(0),
        clock_source: Some("tsc".to_owned()),
        hypervisor: Some(false),
        mitigations: Some(7),
        swapped_pages: Some(255),
        major_faults: Some(15),
        in_flight_before: Some(0),
        discarded_bytes: Some(1000),
        temperature_c: Some(69.9),
        temperature_warning_c: Some(70.0),
        physical_block_bytes: Some(4096),
        write_cache: Some("write through".to_owned()),
        file_system_used: Some(0.9),
        interrupts: Some(1_000_000),
        interrupts_on_one: Some(0.94),
        ..Conditions::default()
    }
}

fn write_one(cell: &mut Cell) {
    let class = cell.series[0].class_mut(OpKind::Write);
    class.service.record_n(100_000, 20_000);
    class.bytes = 4096;
    cell.resources.outstanding_area_ns += 2_000_000_000;
}

/// Values at the edge of every rule cause no verdict, and a cell on memory of this process never blames a device.
#[test]
fn calm_conditions_cause_no_verdict() {
    let mut cell = sound();
    cell.key.blocks = vec![(8192, 1.0)];
    write_one(&mut cell);
    let before = codes(&cell);
    cell.evidence.conditions = Some(calm());
    assert_eq!(codes(&cell), before);
    // A flush among the writes, and discards of its own.
    cell.series[0].class_mut(OpKind::Flush).service.record(1);
    cell.series[0].class_mut(OpKind::Trim).service.record(1);
    around(&mut cell).write_cache = Some("write back".to_owned());
    around(&mut cell).discarded_bytes = Some(1 << 30);
    let found = codes(&cell);
    assert!(!found.iter().any(|c| c == "VOLATILE_CACHE" || c == "FOREIGN_TRIM"), "{found:?}");
    // Forced writes instead of flushes.
    cell.series[0].classes[OpKind::Flush.index()] = None;
    cell.evidence.forced_share = 0.94;
    assert!(said(&cell, "VOLATILE_CACHE").is_some());
    cell.evidence.forced_share = 0.95;
    assert_eq!(said(&cell, "VOLATILE_CACHE"), None);
    let mut memory = sound();
    memory.evidence.in_process = true;
    memory.evidence.direct = None;
    around(&mut memory).file_system_used = Some(0.99);
    around(&mut memory).hypervisor = Some(true);
    assert_eq!(codes(&memory), ["VALID"]);
    around(&mut memory).processor_throttles = Some(1);
    assert_eq!(codes(&memory), ["THROTTLED"]);
}

/// Each rule fires on its evidence, and marks the cell as not VALID if it is a warning or worse.
#[test]
fn each_rule_fires_on_its_own_evidence() {
    let cases: &[(&str, Level, Change)] = &[
        ("LITTLES_LAW_BROKEN", Level::Invalid, |c| c.resources.outstanding_area_ns *= 2),
        ("LITTLES_LAW_BROKEN", Level::Invalid, |c| c.resources.outstanding_area_ns /= 2),
        ("ERRORS", Level::Invalid, |c| {
            c.series[1].class_mut(OpKind::Read).errors.add(ErrorKind::Io, 5);
        }),
        ("NOTHING_COMPLETED", Level::Invalid, |c| c.series.clear()),
        ("STOPPED_BY_ERRORS", Level::Invalid, |c| c.ended = Ended::Errors),
        ("TARGET_HUNG", Level::Invalid, |c| c.ended = Ended::Hung),
        ("INTERRUPTED", Level::Warning, |c| c.ended = Ended::Interrupted),
        ("CRASHED", Level::Warning, |c| c.ended = Ended::Crashed),
        ("CLOCK", Level::Warning, |c| c.evidence.clock_error_ppm = Some(-2000.0)),
        ("WINDOW_TOO_SHORT", Level::Warning, |c| {
            // As many in flight at the end, and with them as much time.
            let carried_ns = c.resources.outstanding_area_ns / 5;
            c.resources.outstanding_area_ns += carried_ns;
            c.resources.carried_out_ns += carried_ns as i128;
        }),
        ("FEW_OPERATIONS", Level::Warning, |c| {
            c.ended = Ended::Ops;
            (c.key.threads, c.key.depth) = (1, 100_000);
        }),
        ("RATE_MISSED", Level::Warning, |c| c.key.offered_iops = Some(12_000.0)),
        ("RATE_MET", Level::Note, |c| {
            c.key.offered_iops = Some(10_100.0);
            let class = c.series[0].class_mut(OpKind::Read);
            class.response = Some(class.service.clone());
        }),
        // Too few operations for a p99, and enough that were late.
        ("LATE_SUBMISSION", Level::Note, |c| {
            c.key.offered_iops = Some(10_000.0);
            let mut lateness = Histogram::new();
            lateness.record_n(100, 490);
            lateness.record_n(20_000_000, 10);
            c.lateness = Some(lateness);
        }),
        ("GENERATOR_BOUND", Level::Warning, |c| {
            c.evidence.generator_ceiling_iops = Some(11_000.0);
        }),
        ("CPU_BOUND", Level::Note, |c| {
            c.key.depth = 32;
            c.resources.cpu_system_ns = vec![1_890_000_000];
        }),
        ("MORE_WORKERS_THAN_CPUS", Level::Note, |c| {
            c.resources.cpu_user_ns = vec![1_100_000_000; 3];
            c.resources.cpu_system_ns = vec![0; 3];
        }),
        ("PAGE_CACHE", Level::Warning, |c| c.evidence.direct = Some(false)),
        ("NEVER_WRITTEN", Level::Warning, |c| c.evidence.written_share = Some(0.5)),
        ("NEVER_WRITTEN", Level::Warning, |c| {
            c.evidence.blocks_sampled = 64;
            c.evidence.blocks_zero = 30;
        }),
        ("PRECONDITIONING_SHORT", Level::Warning, |c| {
            let mut coverage = Coverage::new(0, 1000 << 17, 1 << 17);
            coverage.add(0, 1000 << 17);
            coverage.add(1 << 17, 997 << 17);
            c.evidence.fill = Some(coverage.proof(2, 1997 << 17));
        }),
        ("KERNEL_WORKERS", Level::Note, |c| c.evidence.kernel_workers = 1),
        ("KERNEL_WORKERS", Level::Warning, |c| {
            c.evidence.kernel_workers = 1;
            c.evidence.kernel_workers_cpu_ns = 50_000_000;
        }),
        ("SMALL_TARGET", Level::Note, |c| c.evidence.active_bytes = 100 << 20),
        ("FOREIGN_IO", Level::Warning, |c| c.evidence.foreign_share = Some(0.2)),
        ("HOST_STALLED", Level::Note, |c| {
            c.evidence.in_process = true;
            c.series[0].class_mut(OpKind::Read).service.record(6_000_000);
        }),
        ("HOST_STALLED", Level::Warning, |c| {
            c.evidence.in_process = true;
            let stalled_ns = c.resources.outstanding_area_ns as u64 / 4;
            c.series[0].class_mut(OpKind::Read).service.record(stalled_ns);
            c.resources.outstanding_area_ns += u128::from(stalled_ns);
        }),
        ("STARVED", Level::Note, |c| c.resources.run_delay = waited(30)),
        ("STARVED", Level::Warning, |c| c.resources.run_delay = waited(120)),
        ("LIMITED", Level::Warning, |c| {
            around(c).io_limits.push(IoLimit {
                source: "/box/io.max, 8:0 riops".into(),
                is_of_reads: true,
                is_of_bytes: false,
                per_s: 10_500,
            });
        }),
        ("STOLEN_CPU", Level::Note, |c| c.evidence.steal_share = Some(0.1)),
        ("THROTTLED", Level::Warning, |c| around(c).processor_throttles = Some(1)),
        ("GOVERNOR", Level::Note, |c| around(c).governor = Some("performance,powersave".into())),
        ("CLOCK_SOURCE", Level::Note, |c| around(c).clock_source = Some("hpet".into())),
        ("VIRTUAL_MACHINE", Level::Note, |c| around(c).hypervisor = Some(true)),
        ("MITIGATIONS", Level::Note, |c| {
            around(c).mitigations = Some(2);
            c.series[0].class_mut(OpKind::Read).service.record_n(10_000, 90_000);
            c.resources.outstanding_area_ns += 900_000_000;
        }),
        ("CONDITIONS_CHANGED", Level::Warning, |c| around(c).changed.push("x: 1, then 2".into())),
        ("SWAPPING", Level::Warning, |c| around(c).swapped_pages = Some(256)),
        ("MAJOR_FAULTS", Level::Note, |c| around(c).major_faults = Some(16)),
        ("HOT", Level::Warning, |c| {
            around(c).temperature_c = Some(70.0);
            around(c).temperature_warning_c = Some(70.0);
        }),
        ("LINK_BELOW_CAPABILITY", Level::Warning, |c| around(c).link_below = Some("x1".into())),
        ("RAID_AT_WORK", Level::Warning, |c| around(c).raid_at_work.push("md0: resync".into())),
        ("BUSY_BEFORE", Level::Note, |c| around(c).in_flight_before = Some(1)),
        ("FOREIGN_TRIM", Level::Note, |c| around(c).discarded_bytes = Some(16 << 20)),
        ("FOREIGN_TRIM", Level::Warning, |c| around(c).discarded_bytes = Some(160 << 20)),
        ("BELOW_PHYSICAL_BLOCK", Level::Note, |c| {
            write_one(c);
            c.key.blocks = vec![(4096, 0.9), (512, 0.1)];
            around(c).physical_block_bytes = Some(4096);
        }),
        ("VOLATILE_CACHE", Level::Note, |c| {
            write_one(c);
            around(c).write_cache = Some("write back".into());
        }),
        ("FILE_SYSTEM_FULL", Level::Warning, |c| around(c).file_system_used = Some(0.91)),
        ("INTERRUPTS_ON_ONE_CPU", Level::Note, |c| {
            c.resources.cpu_user_ns = vec![100_000_000; 2];
            c.resources.cpu_system_ns = vec![0; 2];
            around(c).interrupts = Some(10_000);
            around(c).interrupts_on_one = Some(0.97);
        }),
        ("NOTHING_RECENT", Level::Note, |c| c.evidence.recent_misses = 3),
        ("OVERLAPS_SKIPPED", Level::Note, |c| c.evidence.overlaps_skipped = 3),
        ("WRONG_CONTENT", Level::Invalid, |c| checked(c).add_found(Finding::Stale, 0, true)),
        ("UNFLUSHED_LOST", Level::Warning, |c| checked(c).add_found(Finding::Unflushed, 0, true)),
        ("UNVERIFIED_READS", Level::Warning, |c| checked(c).add_unverified(false)),
        ("PASS_SHORT", Level::Warning, |c| {
            checked(c).add_whole(1, 2, true);
            checked(c).read_share = Some(0.999);
        }),
        ("VERIFIED", Level::Note, |c| checked(c).add_whole(1, 2, true)),
        ("COARSE_STAMPS", Level::Note, |c| c.stamps.add(32, 50_000)),
        ("SHORT", Level::Note, |c| c.window_ns = 900_000_000),
    ];
    for (code, level, change) in cases {
        let mut cell = sound();
        change(&mut cell);
        let verdicts = judge(&cell);
        let found = verdicts.iter().find(|v| v.code == *code);
        let found = found.unwrap_or_else(|| panic!("{code} did not fire: {verdicts:?}"));
        assert_eq!(found.level, *level, "{code}");
        let valid = verdicts.iter().any(|v| v.code == "VALID");
        assert_eq!(valid, verdicts.iter().all(|v| v.level < Level::Warning), "{code}");
    }
}

/// Errors of an unknown kind are reported with their number, whatever else failed later.
#[test]
fn other_errors_are_reported_by_name() {
    let mut cell = sound();
    let errors = &mut cell.series[0].class_mut(OpKind::Read).errors;
    errors.add(ErrorKind::from_errno(22), 22);
    errors.add(ErrorKind::from_errno(28), 28);
    cell.series[1].class_mut(OpKind::Write).errors.add(ErrorKind::Short, 0);
    let text = judge(&cell).swap_remove(0).text;
    assert!(text.contains("1 other errors, the last EINVAL (22)"), "{text}");
    cell.series[0].class_mut(OpKind::Read).errors.add(ErrorKind::Other, 133);
    let text = judge(&cell).swap_remove(0).text;
    assert!(text.contains("2 other errors, the last error 133"), "{text}");
}

/// A longer run is not suggested for operations that fail, nor for a run that the user stopped.
#[test]
fn nothing_completed_names_the_remedy_by_the_reason() {
    let text = |ended: Ended, fails: bool| {
        let mut cell = sound();
        cell.series = vec![Interval::default()];
        cell.ended = ended;
        if fails {
            cell.series[0].class_mut(OpKind::Read).errors.add(ErrorKind::Io, 5);
        }
        let found = judge(&cell).into_iter().find(|v| v.code == "NOTHING_COMPLETED");
        found.map(|v| v.text).unwrap()
    };
    assert!(text(Ended::Time, false).contains("more time"));
    for (ended, fails) in [
        (Ended::Time, true),
        (Ended::Errors, false),
        (Ended::Errors, true),
        (Ended::Interrupted, false),
        (Ended::Crashed, false),
        (Ended::Running, false),
    ] {
        let text = text(ended, fails);
        assert!(!text.contains("more time"), "{ended:?}: {text}");
    }
}

/// Checks of memory and kernel do not apply to memory of the process.
#[test]
fn memory_of_the_process_is_not_a_device() {
    let mut cell = sound();
    cell.evidence.in_process = true;
    cell.evidence.direct = None;
    cell.evidence.active_bytes = 1 << 20;
    cell.evidence.written_share = Some(0.0);
    assert_eq!(codes(&cell), ["VALID"]);
}

/// Emulated storage is recognised, and checks that apply only to real hardware are skipped.
#[test]
fn emulated_cells_are_judged_as_such() {
    let mut cell = sound();
    cell.evidence.virtual_time = true;
    cell.evidence.active_bytes = 1 << 20;
    cell.evidence.content_reducible = true;
    cell.series[0].class_mut(OpKind::Write).service.record_n(100_000, 1);
    cell.resources.outstanding_area_ns += 100_000;
    assert_eq!(codes(&cell)[..2], ["VALID", "EMULATED"]);
    cell.evidence.written_share = Some(0.5);
    let verdicts = judge(&cell);
    let never = verdicts.iter().find(|v| v.code == "NEVER_WRITTEN").unwrap();
    assert!(never.text.contains("?state="), "{}", never.text);
}

/// Cells of workers or targets merge in any order to the same sum.
#[test]
fn cells_merge_in_any_order() {
    let mut other = sound();
    other.series.push(Interval::default());
    other.series[2].class_mut(OpKind::Write).service.record(7);
    other.window_ns = 2_500_000_000;
    other.stamps.add(3, 10);
    let (mut a, mut b) = (sound(), other.clone());
    a.merge(&other);
    b.merge(&sound());
    assert_eq!(a.total(), b.total());
    assert_eq!((a.window_ns, a.stamps, a.oio_mean()), (b.window_ns, b.stamps, b.oio_mean()));
    assert_eq!(a.total().ops(), 40_001);
}

/// Wake-ups take some microseconds each on an idle machine, so 20 000 of them are no evidence of other load. In an
/// open loop a shorter wait is enough to spoil percentiles, because operations become due during it.
#[test]
fn waits_for_a_processor_are_judged_by_what_they_spoil() {
    let mut cell = sound();
    cell.resources.run_delay = vec![RunDelay { waited_ns: 200_000_000, waits: 20_000 }];
    assert_eq!(said(&cell, "STARVED"), None);
    cell.resources.run_delay = waited(60);
    assert!(said(&cell, "STARVED").unwrap().contains("the highest percentiles"));
    cell.key.offered_iops = Some(10_000.0);
    let open = said(&cell, "STARVED").unwrap();
    assert!(open.contains("response times and percentiles depend on this machine"), "{open}");
    cell.resources.run_delay.push(RunDelay { waited_ns: 500_000_000, waits: 100 });
    let worst = said(&cell, "STARVED").unwrap();
    assert!(
        worst.starts_with("worker 2 of 2 (the worst) waited for a processor for 498 ms of 2 s"),
        "{worst}"
    );
}

/// A token bucket in front of the device gives an even, round rate with long waits. A device that is as even without
/// waits, or at a rate that is not round, is not taken for a limiter.
#[test]
fn a_limit_from_outside_is_known_by_its_fingerprint() {
    let cell = |per_interval: u64, slow_ns: u64| {
        let mut cell = sound();
        (cell.interval_ns, cell.window_ns) = (100_000_000, 3_000_000_000);
        let mut interval = Interval::default();
        let class = interval.class_mut(OpKind::Read);
        class.bytes = per_interval * 4096;
        class.service.record_n(100_000, per_interval / 2);
        class.service.record_n(slow_ns, per_interval - per_interval / 2);
        cell.series = vec![interval; 30];
        let total = cell.total();
        let sum_ns = total.class(OpKind::Read).unwrap().service.sum_ns();
        cell.resources.outstanding_area_ns = sum_ns;
        cell
    };
    let limited = said(&cell(300, 9_000_000), "LIMITED").unwrap();
    assert!(limited.contains("3.00 k/s, constant to within 0.0 %"), "{limited}");
    assert!(said(&cell(1221, 9_000_000), "LIMITED").unwrap().contains("50.0 MB/s"));
    for honest in [cell(300, 150_000), cell(337, 9_000_000)] {
        assert_eq!(said(&honest, "LIMITED"), None);
    }
    let mut open = cell(300, 9_000_000);
    open.key.offered_iops = Some(3_000.0);
    assert_eq!(said(&open, "LIMITED"), None, "the schedule sets the rate");
}

/// The remedy for a short window is one that the cell's end depends on. A fill and a verification pass have none.
#[test]
fn a_short_window_has_a_remedy_that_helps() {
    let cases: &[(Option<&str>, Change)] = &[
        (Some("; use a longer --time"), |_| ()),
        (Some("; use a larger --ops, or --time"), |c| c.ended = Ended::Ops),
        (Some("; use a larger --bytes, or --time"), |c| c.ended = Ended::Bytes),
        (Some("; replay a longer trace"), |c| c.evidence.trace = Some(String::new())),
        (None, |c| c.ended = Ended::Settled),
        (None, |c| c.evidence.fill = Some(Coverage::new(0, 4096, 4096).proof(1, 4096))),
        (None, |c| checked(c).read_share = Some(1.0)),
    ];
    for (remedy, change) in cases {
        let mut cell = sound();
        cell.window_ns = 420_000;
        change(&mut cell);
        let said = said(&cell, "SHORT");
        assert_eq!(said.is_some(), remedy.is_some(), "{said:?} {remedy:?}");
        if let (Some(said), Some(remedy)) = (said, remedy) {
            assert!(said.starts_with("the window is only 420 µs:"), "{said}");
            assert!(said.ends_with(remedy), "{said}");
        }
    }
}

/// A write-ahead log through the page cache with a flush for each write, or with forced writes, measures durable writes.
/// Otherwise memory answers.
#[test]
fn buffered_writes_that_are_durable_are_the_device_s() {
    let mut cell = sound();
    for interval in &mut cell.series {
        let reads = interval.classes[OpKind::Read.index()].take();
        interval.classes[OpKind::Write.index()] = reads;
    }
    cell.key.blocks = vec![(2300, 1.0)];
    cell.evidence.direct = Some(false);
    cell.evidence.ram_bytes = Some(400 << 30);
    around(&mut cell).physical_block_bytes = Some(4096);
    let seen = codes(&cell);
    assert!(
        seen.contains(&"PAGE_CACHE".to_owned()) && seen.contains(&"SMALL_TARGET".to_owned()),
        "{seen:?}"
    );
    assert!(!seen.contains(&"BELOW_PHYSICAL_BLOCK".to_owned()), "whole pages are written");
    cell.evidence.forced_share = 1.0;
    assert_eq!(codes(&cell), ["VALID"]);
    let mut reads_too = cell.clone();
    reads_too.series[0].class_mut(OpKind::Read).service.record(100_000);
    let said = said(&reads_too, "PAGE_CACHE").expect("reads hit the page cache");
    assert!(!said.contains("durable"), "{said}");
    cell.evidence.forced_share = 0.94;
    assert_eq!(codes(&cell), seen);
    for interval in &mut cell.series {
        interval.class_mut(OpKind::Flush).service.record_n(100_000, 10_000);
    }
    cell.resources.outstanding_area_ns *= 2;
    assert_eq!(codes(&cell), ["VALID"]);
}

/// A buffer that fills, or works through its backlog, spoils an emulated cell's figures; a buffer at rest, or whose
/// fill only fluctuates, does not. Cells of a method get no such warning, because the method itself judges the steady
/// state.
#[test]
fn emulated_transients_are_warned_of() {
    let level = |start_mib: u64, end_mib: u64, one_way: bool| StoreLevel {
        store: "disk's write cache".to_owned(),
        start_bytes: start_mib << 20,
        end_bytes: end_mib << 20,
        capacity_bytes: 192 << 20,
        taken_bytes: 40 << 20,
        choice_bytes: 0,
        one_way,
    };
    let cell = |level: StoreLevel| {
        let mut cell = sound();
        (cell.evidence.virtual_time, cell.evidence.stores) = (true, vec![level]);
        cell
    };
    let text = said(&cell(level(48, 86, true)), "TRANSIENT").unwrap();
    assert!(
        text.contains("from 25 % to 45 % full (of 192 MiB)") && text.contains("full 5.6 s later"),
        "{text}"
    );
    assert!(
        text.contains("a --ramp that is 11 s longer"),
        "the window's 2 s, and 1.5 times: {text}"
    );
    assert!(!text.contains("fresh"), "it did not begin fresh: {text}");
    let mut fresh = cell(level(48, 86, true));
    fresh.evidence.device_state = Some("fresh".to_owned());
    assert!(said(&fresh, "TRANSIENT").unwrap().ends_with(" longer, or leave out state=fresh"));
    let text = said(&cell(level(20, 10, true)), "TRANSIENT").unwrap();
    assert!(text.contains("would be empty 2 s later"), "{text}");
    let credits =
        StoreLevel { store: "IOPS burst credits".into(), taken_bytes: 0, ..level(48, 36, true) };
    let text = said(&cell(credits.clone()), "TRANSIENT").unwrap();
    assert!(text.contains("the rest (19 % of the maximum) lasts for 6 s more"), "{text}");
    assert!(text.contains("a --ramp that is 8 s longer"), "the window's 2 s, and the rest: {text}");
    // Credits for longer than 2^64 ns.
    let (start_bytes, end_bytes) = (1_000_000_000_000, 999_999_999_999);
    let endless =
        StoreLevel { start_bytes, end_bytes, capacity_bytes: start_bytes, ..credits.clone() };
    let text = said(&cell(endless), "TRANSIENT").unwrap();
    assert!(text.contains("lasts for over a year more"), "{text}");
    assert!(text.contains("over a year longer, or start with fewer credits"), "{text}");
    let used_up = StoreLevel { end_bytes: 0, ..credits.clone() };
    let text = said(&cell(used_up), "TRANSIENT").unwrap();
    assert!(
        text.contains("ran out during the window") && text.contains("up to 2 s longer"),
        "{text}"
    );
    let accrue = StoreLevel { one_way: false, ..credits.clone() };
    assert_eq!(said(&cell(accrue), "TRANSIENT"), None);
    for at_rest in [level(48, 48, false), level(48, 60, false), level(100_000, 100_000, true)] {
        assert_eq!(said(&cell(at_rest), "TRANSIENT"), None);
    }
    let swinging = StoreLevel { choice_bytes: 20 << 20, ..level(191, 191, false) };
    let text = said(&cell(swinging.clone()), "TRANSIENT").unwrap();
    assert!(text.contains("measure for 8 s or longer"), "{text}");
    let stands = StoreLevel { taken_bytes: 0, choice_bytes: 191 << 20, ..swinging.clone() };
    let text = said(&cell(stands), "TRANSIENT").unwrap();
    assert!(text.contains("measure for over a year or longer"), "{text}");
    let keeps_up = StoreLevel { end_bytes: 100 << 20, ..swinging.clone() };
    assert_eq!(said(&cell(keeps_up), "TRANSIENT"), None);
    let long = StoreLevel { taken_bytes: 170 << 20, ..swinging };
    assert_eq!(said(&cell(long), "TRANSIENT"), None);
    let mut skewed = cell(level(48, 48, false));
    skewed.evidence.skew_missing = true;
    let text = said(&skewed, "TRANSIENT").unwrap();
    assert!(text.contains("steady state of uniform writes"), "{text}");
    let mut of_method = cell(level(48, 86, true));
    of_method.key.place = Some(Place::default());
    assert_eq!(said(&of_method, "TRANSIENT"), None);
    // Credits spoil each of its figures.
    let mut bursting = cell(credits.clone());
    bursting.key.place = Some(Place::default());
    assert!(said(&bursting, "TRANSIENT").is_some());
    bursting.key.place.as_mut().unwrap().role = Role::Prepare;
    assert_eq!(said(&bursting, "TRANSIENT"), None);
    let unsteady = Some("SLC cache".to_owned());
    of_method.evidence.warm_up =
        Some(WarmUp { took_ns: 5_000_000_000, unsteady, net_share: Some(0.25) });
    let text = said(&of_method, "TRANSIENT").unwrap();
    assert!(text.contains("after a warm-up of 5 s, at 25.0 %"), "{text}");
    // The window shows whether the ramp brought the cache to rest.
    for (end_mib, one_way, is_moving) in
        [(48, true, false), (49, false, true), (47, false, false), (47, true, true)]
    {
        let mut cell = of_method.clone();
        let store = "SLC cache".to_owned();
        cell.evidence.stores.push(StoreLevel { store, ..level(48, end_mib, one_way) });
        assert_eq!(said(&cell, "TRANSIENT").as_ref() == Some(&text), is_moving, "{end_mib}");
    }
    // A method refuses --ramp: its file sets the ramps.
    let by_file = "of a method by `ramp` in a copy of its file";
    assert!(text.contains("a ramp that is longer (") && text.contains(by_file), "{text}");
    of_method.evidence.warm_up.as_mut().unwrap().unsteady = None;
    let text = said(&of_method, "TRANSIENT").unwrap();
    assert!(text.contains("a ramp that is 11 s longer (") && text.contains(by_file), "{text}");
}

/// Flash DIMMs share driver threads by default: this is a note if the threads limit the rate, and nothing otherwise.
#[test]
fn a_shared_driver_thread_that_limits_the_rate_is_named() {
    let cell = |share: f64, modules| {
        let mut cell = sound();
        cell.evidence.virtual_time = true;
        cell.evidence.modules_per_driver_thread = modules;
        let resource = "driver thread".to_owned();
        cell.evidence.busy = vec![Busy { resource, count: 1, share }];
        cell
    };
    let text = said(&cell(0.99, Some(2)), "DRIVER_THREAD").unwrap();
    assert!(text.contains("99 % busy") && text.contains("?occupancy=max"), "{text}");
    let found = judge(&cell(0.99, Some(2)));
    assert!(found.iter().all(|verdict| verdict.level <= Level::Note), "{found:?}");
    assert_eq!(said(&cell(0.6, Some(2)), "DRIVER_THREAD"), None);
    assert_eq!(said(&cell(0.99, None), "DRIVER_THREAD"), None);
}
