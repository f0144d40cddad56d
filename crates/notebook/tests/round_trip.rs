//! Any run is read back bit for bit, however its intervals were delivered.

use iodyno_measure::cell::StampQuality;
use iodyno_measure::{
    Cell, CellKey, ClassStats, Ended, ErrorCounts, ErrorKind, Evidence, Histogram, Interval, Level,
    LogInterval, MessageLog, Place, Resources, Role, Verdict,
};
use iodyno_notebook::{
    Notebook, Outcome, Run, RunHead, Status, TargetRecord, WorkloadRecord, portable,
};
use iodyno_units::OpKind;
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use serde_json::Value;

/// Short texts with all characters that could break SQL, JSON or UTF-8.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just("'; DROP TABLE runs; --".to_owned()), "\\PC{0,12}", "[\0-\x7f]{0,6}"]
}

fn finite() -> impl Strategy<Value = f64> {
    prop_oneof![0.0..1.0_f64, 0.0..1e12_f64, prop::num::f64::NORMAL]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        finite().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(text(), inner, 0..4).prop_map(|m| m.into_iter().collect()),
        ]
    })
}

fn histogram() -> impl Strategy<Value = Histogram> {
    vec((0_u64..1 << 44, 1_u64..1 << 20), 0..8).prop_map(|values| {
        let mut h = Histogram::new();
        for (value_ns, n) in values {
            h.record_n(value_ns, n);
        }
        h
    })
}

fn interval() -> impl Strategy<Value = Interval> {
    let errors = vec((0..ErrorKind::ALL.len(), 0..134_i32), 0..3).prop_map(|failures| {
        let mut errors = ErrorCounts::default();
        for (kind, errno) in failures {
            errors.add(ErrorKind::ALL[kind], errno);
        }
        errors
    });
    let class = (0_u64..1 << 50, histogram(), of(histogram()), errors).prop_map(
        |(bytes, service, response, errors)| ClassStats { bytes, service, response, errors },
    );
    vec(of(class), OpKind::COUNT).prop_map(|classes| {
        let mut interval = Interval::default();
        for (slot, class) in interval.classes.iter_mut().zip(classes) {
            *slot = class.map(Box::new);
        }
        interval
    })
}

fn key() -> impl Strategy<Value = CellKey> {
    let counts = (any::<u32>(), any::<u32>(), any::<u64>(), any::<u32>());
    let blocks = vec((any::<u32>(), 0.0..=1.0_f64), 0..4);
    let place = (any::<(u32, u32, u32, u32)>(), any::<[bool; 2]>(), vec((text(), text()), 0..3))
        .prop_map(|((subject, stage, round, index), [prepares, is_trial], at)| {
            let role = if prepares { Role::Prepare } else { Role::Measure };
            Place { subject, stage, round, index, role, at, is_trial }
        });
    ((text(), text(), text(), text()), counts, blocks, of(0.0..1e12_f64), of(place)).prop_map(
        |(
            (name, target, workload, engine),
            (threads, depth, seed, repeat),
            blocks,
            offered_iops,
            place,
        )| {
            CellKey {
                name,
                target,
                workload,
                engine,
                threads,
                depth,
                blocks,
                offered_iops,
                seed,
                repeat,
                place,
            }
        },
    )
}

fn evidence() -> impl Strategy<Value = Evidence> {
    let unknowns = vec(of(finite()), 6);
    let counts = (0_u64..=1 << 60, any::<u32>(), 0_u64..=1 << 60);
    (any::<bool>(), of(any::<bool>()), of(text()), unknowns, counts).prop_map(
        |(in_process, direct, why, floats, (bytes, n, misses))| Evidence {
            in_process,
            direct,
            why_not_direct: why.clone(),
            active_bytes: bytes,
            ram_bytes: direct.map(|_| bytes),
            written_share: floats[0],
            blocks_sampled: n,
            generator_ns_per_io: floats[1],
            generator_ceiling_iops: floats[2],
            foreign_share: floats[3],
            steal_share: floats[4],
            clock_error_ppm: floats[5],
            recent_misses: misses,
            first_corruption: why,
            ..Evidence::default()
        },
    )
}

fn message_log() -> impl Strategy<Value = Box<MessageLog>> {
    let interval = (0_u64..1 << 56, 0_u64..1 << 40, text()).prop_map(|(messages, ns, cause)| {
        LogInterval { messages, p50_ns: ns / 2, p99_ns: ns, max_ns: ns, backlog_max: ns, cause }
    });
    let numbers = (0_u64..1 << 56, of(1_u32..1 << 30), text());
    (histogram(), vec(interval, 0..3), numbers).prop_map(|(persist, intervals, numbers)| {
        let (messages, rate, durability) = numbers;
        let rate_per_s = rate.map(f64::from);
        Box::new(MessageLog {
            durability,
            rate_per_s,
            messages,
            persist,
            intervals,
            ..MessageLog::default()
        })
    })
}

fn cell() -> impl Strategy<Value = Cell> {
    let ended = prop_oneof![
        Just(Ended::Time),
        Just(Ended::Ops),
        Just(Ended::Bytes),
        Just(Ended::Settled),
        Just(Ended::Interrupted),
        Just(Ended::Errors)
    ];
    let verdicts = vec((text(), text()), 0..3).prop_map(|list| {
        let verdict = |(code, text)| Verdict { code, level: Level::Warning, text };
        list.into_iter().map(verdict).collect::<Vec<_>>()
    });
    let numbers = (0_u64..1 << 56, 1_u64..1 << 40, any::<u128>(), 0_u64..=1 << 60);
    let resources = (vec(0_u64..1 << 56, 0..3), any::<u128>()).prop_map(|(cpu, area)| Resources {
        cpu_user_ns: cpu.clone(),
        cpu_system_ns: cpu,
        outstanding_area_ns: area,
        ..Resources::default()
    });
    let rest = (evidence(), btree_map(text(), text(), 0..3), verdicts, ended, of(message_log()));
    (key(), numbers, vec(interval(), 0..4), resources, of(histogram()), rest).prop_map(
        |(key, numbers, series, resources, lateness, (evidence, facts, verdicts, ended, log))| {
            Cell {
                recorded: None,
                key,
                window_ns: numbers.0,
                interval_ns: numbers.1,
                series,
                resources,
                stamps: StampQuality {
                    reaps: numbers.3,
                    completions: numbers.3,
                    span_sum_ns: numbers.2,
                    span_max_ns: numbers.3,
                },
                lateness,
                backlog_ops: numbers.3,
                log,
                ended,
                evidence,
                facts,
                verdicts,
            }
        },
    )
}

fn head() -> impl Strategy<Value = RunHead> {
    let targets =
        vec((text(), json(), of(json())), 0..3).prop_map(|list: Vec<(String, Value, _)>| {
            let target = |(name, facts, health_before)| TargetRecord {
                name,
                facts,
                health_before,
                health_after: None,
            };
            list.into_iter().map(target).collect::<Vec<_>>()
        });
    let workloads = vec((text(), json()), 0..3).prop_map(|list: Vec<(String, Value)>| {
        list.into_iter().map(|(name, spec)| WorkloadRecord { name, spec }).collect::<Vec<_>>()
    });
    let command = vec(text(), 0..4);
    ((text(), text()), command, any::<u64>(), json(), json(), targets, workloads).prop_map(
        |((name, iodyno_version), command, seed, machine, plan, targets, workloads)| RunHead {
            name,
            command,
            iodyno_version,
            seed,
            machine,
            targets,
            workloads,
            plan,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_run_comes_back_as_it_was(
        mut head in head(),
        cells in vec(cell(), 0..4),
        reason in text(),
        health in of(json()),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let notebook = Notebook::open(&dir.path().join("deep/er/notebook.sqlite")).unwrap();
        let mut writer = notebook.begin(&head).unwrap();
        let id = writer.id().to_owned();
        for (i, cell) in cells.iter().enumerate() {
            writer.finish_cell(i, cell).unwrap();
        }
        let after = vec![health.clone(); head.targets.len()];
        writer.finish(&Outcome::Failed(reason.clone()), &after).unwrap();

        for run in [notebook.load(&id).unwrap(), notebook.load("last").unwrap()] {
            head.targets.iter_mut().for_each(|t| t.health_after.clone_from(&health));
            prop_assert_eq!(&run.head, &head);
            prop_assert_eq!(&run.cells, &cells);
            prop_assert_eq!(&run.status, &Status::Failed(reason.clone()));
            prop_assert!(run.ended.unwrap() >= run.started);
        }
        let list = notebook.list().unwrap();
        prop_assert_eq!(list.len(), 1);
        for (summary, cell) in list[0].cells.iter().zip(&cells) {
            let total = cell.total();
            prop_assert_eq!(&summary.name, &cell.key.name);
            prop_assert!((summary.iops - cell.iops()).abs() <= 1e-9 * cell.iops());
            // What IOPS do not count stands beside them, and together they are all operations.
            let of = cell.io_kinds();
            let beside: Vec<OpKind> = total.kinds().filter(|kind| !of.count(*kind)).collect();
            prop_assert_eq!(summary.beside.iter().map(|of| of.kind).collect::<Vec<_>>(), beside);
            for of in &summary.beside {
                let response_time = total.class(of.kind).unwrap().response_time();
                prop_assert_eq!(of.p99_ns, response_time.supported_quantile_ns(0.99));
            }
            let all = summary.iops + summary.beside.iter().map(|of| of.per_s).sum::<f64>();
            let ops_per_s = cell.per_second(total.ops() as f64);
            prop_assert!((all - ops_per_s).abs() <= 1e-9 * ops_per_s);
            let bytes_per_s = cell.per_second(total.bytes() as f64);
            prop_assert!((summary.bytes_per_s - bytes_per_s).abs() <= 1e-9 * bytes_per_s);
            prop_assert_eq!(summary.level, cell.verdicts.iter().map(|v| v.level).max());
        }

        // As a text and back; into another notebook once, and not twice.
        let run = notebook.load(&id).unwrap();
        let text = portable::to_text(&run).unwrap();
        let read = portable::from_text(&text, &run.notebook).unwrap();
        prop_assert!(read.is_imported && !run.is_imported);
        prop_assert_eq!(&Run { is_imported: false, ..read.clone() }, &run);
        let mut other = Notebook::open(&dir.path().join("other.sqlite")).unwrap();
        prop_assert!(other.import(&read).unwrap());
        prop_assert!(!other.import(&read).unwrap());
        let again = other.load(&id).unwrap();
        prop_assert_eq!(&again.cells, &run.cells);
        prop_assert_eq!(again.head, run.head);
        prop_assert_eq!((again.started, again.ended), (run.started, run.ended));

        // Neighbours made one: fewer intervals, nothing lost.
        let most = 2;
        for (merged, whole) in notebook
            .load_several_merged(&id, Some(most), true).unwrap()[0].cells.iter().zip(&run.cells)
        {
            let all: usize = run.cells.iter().map(|c| c.series.len()).sum();
            let factor = all.div_ceil(most as usize).max(1);
            prop_assert_eq!(merged.series.len(), whole.series.len().div_ceil(factor));
            prop_assert_eq!(merged.interval_ns, whole.interval_ns.saturating_mul(factor as u64));
            prop_assert_eq!(merged.total(), whole.total());
            prop_assert_eq!(merged.recorded(), whole.recorded());
        }
    }

    /// Workers deliver their shares of the same intervals separately, late and in any order; some
    /// intervals are empty.
    #[test]
    fn late_shares_merge(shares in vec((0_usize..5, interval()), 1..8)) {
        let dir = tempfile::tempdir().unwrap();
        let notebook = Notebook::open(&dir.path().join("notebook.sqlite")).unwrap();
        let mut writer = notebook.begin(&RunHead::default()).unwrap();
        let begun = Cell { interval_ns: 1_000_000_000, ..Cell::default() };
        writer.begin_cell(3, &begun).unwrap();
        let mut expected: Vec<Interval> = Vec::new();
        for (at, share) in &shares {
            writer.add_interval(3, *at, share).unwrap();
            if expected.len() <= *at {
                expected.resize_with(at + 1, Interval::default);
            }
            expected[*at].merge(share);
        }
        let run = notebook.load("last").unwrap();
        prop_assert_eq!(&run.status, &Status::Running);
        prop_assert_eq!(run.cells.len(), 1);
        prop_assert_eq!(&run.cells[0].series, &expected);
        prop_assert_eq!(run.cells[0].ended, Ended::Running);
        prop_assert_eq!(run.cells[0].window_ns, 1_000_000_000 * expected.len() as u64);
        let summary = &notebook.list().unwrap()[0].cells[0];
        prop_assert!((summary.iops - run.cells[0].iops()).abs() < 1e-6);

        // Measured anew: the former content is removed.
        writer.begin_cell(3, &begun).unwrap();
        prop_assert!(notebook.load("last").unwrap().cells[0].series.is_empty());
    }
}
