//! Synthetic runs for the tests of all formats, equal on every machine.

#![allow(dead_code, reason = "each test file uses some of them")]

use iodyno_measure::{
    Cell, CellKey, ClassStats, Ended, ErrorKind, Evidence, Histogram, Interval, Place,
    RankEvidence, RankFigures, verdict,
};
use iodyno_method::MethodSource;
use iodyno_notebook::{
    CellSummary, KindRate, Run, RunHead, RunSummary, Status, TargetRecord, WorkloadRecord,
};
use iodyno_report::Standing;
use iodyno_units::OpKind;
use serde_json::{Value, json};

/// `count` latencies around `base_ns` with a tail: one in 10^k is about 2^k times as long.
pub(crate) fn latencies(count: u64, base_ns: u64) -> Histogram {
    let mut h = Histogram::new();
    let mut left = count;
    let mut share = 100;
    let mut factor = 2;
    while count / share > 0 {
        h.record_n(base_ns * factor, count / share);
        left -= count / share;
        share *= 10;
        factor *= 2;
    }
    for i in 0..40 {
        let n = left / (40 - i);
        h.record_n(base_ns * (28 + i) / 40, n);
        left -= n;
    }
    h
}

/// Parameters of a synthetic cell.
pub(crate) struct Ask {
    pub(crate) name: &'static str,
    pub(crate) target: &'static str,
    pub(crate) engine: &'static str,
    pub(crate) threads: u32,
    pub(crate) depth: u32,
    pub(crate) block: u32,
    /// Kinds of operation, each with its number of operations per interval of a second.
    pub(crate) mix: Vec<(OpKind, u64)>,
    pub(crate) seconds: u64,
}

/// A valid cell: its rate varies by a tenth, and the outstanding I/Os are as requested.
pub(crate) fn cell(ask: &Ask) -> Cell {
    let total: u64 = ask.mix.iter().map(|m| m.1).sum();
    let in_flight = u64::from(ask.threads * ask.depth);
    let base_ns = in_flight * 827_000_000 / total.max(1);
    let mut cell = Cell {
        key: CellKey {
            name: ask.name.to_owned(),
            target: ask.target.to_owned(),
            workload: ask.name.to_owned(),
            engine: ask.engine.to_owned(),
            threads: ask.threads,
            depth: ask.depth,
            blocks: vec![(ask.block, 1.0)],
            offered_iops: None,
            seed: 42,
            repeat: 0,
            place: None,
        },
        window_ns: ask.seconds * 1_000_000_000,
        interval_ns: 1_000_000_000,
        evidence: Evidence {
            direct: Some(true),
            active_bytes: 64 << 30,
            ram_bytes: Some(16 << 30),
            written_share: Some(1.0),
            generator_ns_per_io: Some(28.5),
            generator_ceiling_iops: Some(33.1e6),
            cpus: 8,
            ..Evidence::default()
        },
        ..Cell::default()
    };
    for second in 0..ask.seconds {
        let mut interval = Interval::default();
        for &(kind, ops) in &ask.mix {
            let ops = ops * (18 + second * 7 % 5) / 20;
            let bytes = if kind == OpKind::Flush { 0 } else { ops * u64::from(ask.block) };
            let service = latencies(ops, base_ns);
            *interval.class_mut(kind) = ClassStats { bytes, service, ..ClassStats::default() };
        }
        cell.series.push(interval);
    }
    finish(&mut cell);
    cell
}

/// Makes the counts of a cell consistent, and computes its verdicts.
pub(crate) fn finish(cell: &mut Cell) {
    let total = cell.total();
    cell.resources.outstanding_area_ns = total.iter().map(|(_, c)| c.service.sum_ns()).sum();
    cell.resources.moved_bytes = total.bytes();
    let workers = cell.key.threads as usize;
    cell.resources.cpu_user_ns = vec![cell.window_ns / 20; workers];
    cell.resources.cpu_system_ns = vec![cell.window_ns / 8; workers];
    cell.stamps.reaps = total.ops() * 2 / 3;
    cell.stamps.completions = total.ops();
    cell.stamps.span_sum_ns = u128::from(total.ops()) * 900;
    cell.stamps.span_max_ns = 40_000;
    cell.verdicts = verdict::judge(cell);
}

/// Facts on an NVMe drive, as the crate `targets` reports them.
pub(crate) fn nvme(model: &str) -> Value {
    json!({
        "kind": "block",
        "size_bytes": 2_000_398_934_016_u64,
        "device": {"kernel_name": "nvme1n1"},
        "physical": [{"kernel_name": "nvme1n1", "vendor": null, "model": model}],
    })
}

pub(crate) fn run(name: &str, target: &str, facts: Value, cells: Vec<Cell>) -> Run {
    let command = ["iodyno", "run", name, "--on", target].map(str::to_owned).to_vec();
    let mut names: Vec<String> = cells.iter().map(|c| c.key.workload.clone()).collect();
    names.dedup();
    let workloads = names.into_iter().map(|name| WorkloadRecord {
        spec: json!({"all": {"addresses": [
            {"pattern": if name.starts_with("seq") { "sequential" } else { "uniform" }}
        ]}}),
        name,
    });
    Run {
        id: "k3m9x2p7ha".to_owned(),
        started: "2026-11-21T09:54:03.250Z".parse().unwrap(),
        ended: Some("2026-11-21T09:54:45.500Z".parse().unwrap()),
        status: Status::Finished,
        head: RunHead {
            name: name.to_owned(),
            command,
            iodyno_version: "0.1.0".to_owned(),
            seed: 42,
            machine: json!({"kernel": "6.18.0", "cpu": "Example 8-core"}),
            targets: vec![TargetRecord {
                name: target.to_owned(),
                facts,
                health_before: None,
                health_after: Some(json!({"temperature_c": 41})),
            }],
            workloads: workloads.collect(),
            plan: json!({"seconds": 40.0, "written_bytes": 5_000_000_000_u64}),
        },
        cells,
        notebook: "/home/me/.local/share/iodyno/notebook.sqlite".into(),
        is_imported: false,
        annotation: None,
    }
}

const DRIVE: &str = "/dev/nvme1n1";

/// A run of the group `four-corners`.
pub(crate) fn four_corners() -> Run {
    let ask = |name, threads, depth, block, kind, ops| Ask {
        name,
        target: DRIVE,
        engine: "uring",
        threads,
        depth,
        block,
        mix: vec![(kind, ops)],
        seconds: 10,
    };
    let mut cells: Vec<Cell> = [
        ask("random-read", 1, 32, 4096, OpKind::Read, 412_000),
        ask("random-write", 1, 32, 4096, OpKind::Write, 287_000),
        ask("seq-read", 1, 8, 1 << 20, OpKind::Read, 6_870),
        ask("seq-write", 1, 8, 1 << 20, OpKind::Write, 3_120),
    ]
    .iter()
    .map(cell)
    .collect();
    for cell in &mut cells {
        let facts = [
            ("ring", "SINGLE_ISSUER, DEFER_TASKRUN, fixed buffers, registered file"),
            ("alignment", "512 bytes"),
        ];
        cell.facts = facts.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    }
    run("four-corners", DRIVE, nvme("Samsung SSD 990 PRO 2TB"), cells)
}

/// A buffered mix with flushes in open loop, which misses its offered rate.
pub(crate) fn open_loop() -> Run {
    let mut cell = cell(&Ask {
        name: "db-oltp",
        target: "/var/tmp/scratch?size=8GiB",
        engine: "uring",
        threads: 2,
        depth: 64,
        block: 8192,
        mix: vec![(OpKind::Read, 14_000), (OpKind::Write, 6_000), (OpKind::Flush, 60)],
        seconds: 10,
    });
    cell.key.offered_iops = Some(25_000.0);
    cell.key.blocks = vec![(8192, 0.8), (4096, 0.1), (16_384, 0.1)];
    for interval in &mut cell.series {
        for stats in interval.classes.iter_mut().flatten() {
            stats.response = Some(latencies(stats.ops(), 9_000_000));
        }
    }
    cell.lateness = Some(latencies(200_000, 3_000_000));
    cell.backlog_ops = 41_873;
    cell.evidence.direct = Some(false);
    cell.evidence.why_not_direct = Some("asked for by --buffered".to_owned());
    cell.evidence.active_bytes = 8 << 30;
    finish(&mut cell);
    let facts = json!({
        "kind": "file",
        "size_bytes": 8_u64 << 30,
        "file_system": {"fs_type": "ext4", "mount_point": "/var"},
        "physical": [{"kernel_name": "vda", "vendor": "Example", "model": "Disk"}, {}],
    });
    run("db-oltp", "/var/tmp/scratch?size=8GiB", facts, vec![cell])
}

/// Two targets and their merged cell, in a run stopped by the user. One target has failed operations.
pub(crate) fn several_targets() -> Run {
    let targets = ["/dev/disk/by-id/nvme-Example_1TB_S6Z2NF0W512345", "ram:4GiB"];
    let ask = |target, engine, ops, name, block| {
        cell(&Ask {
            name,
            target,
            engine,
            threads: 2,
            depth: 4,
            block,
            mix: vec![(OpKind::Read, ops), (OpKind::Trim, ops / 100)],
            seconds: 3,
        })
    };
    let mut cells = Vec::new();
    for (name, block) in [("random-read", 4096), ("big-read", 256 * 1024)] {
        let mut first = ask(targets[0], "uring", 80_000, name, block);
        let failures = &mut first.series[1].class_mut(OpKind::Read).errors;
        (0..17).for_each(|_| failures.add(ErrorKind::Io, 5));
        failures.add(ErrorKind::Other, 22);
        failures.add(ErrorKind::Gone, 19);
        first.ended = Ended::Interrupted;
        finish(&mut first);
        let mut second = ask(targets[1], "ram", 2_000_000, name, block);
        second.ended = Ended::Interrupted;
        second.evidence.in_process = true;
        second.evidence.direct = None;
        finish(&mut second);
        let mut both = first.clone();
        both.merge(&second);
        "all (2 targets)".clone_into(&mut both.key.target);
        "uring, ram".clone_into(&mut both.key.engine);
        both.verdicts = verdict::judge(&both);
        cells.extend([first, second, both]);
    }
    let mut run = run("random-read", targets[0], nvme("Example 1TB"), cells);
    run.head.targets.push(TargetRecord {
        name: targets[1].to_owned(),
        facts: json!({"kind": "ram", "size_bytes": 4_u64 << 30}),
        ..TargetRecord::default()
    });
    run.status = Status::Interrupted;
    run
}

/// An emulated system with two equal devices, and a third in another state.
pub(crate) fn emulated() -> Run {
    let targets =
        ["model:exflash-400g#1", "model:exflash-400g#2", "model:exflash-400g?state=fresh"];
    let mut cells: Vec<Cell> = Vec::new();
    for target in targets {
        let mut cell = cell(&Ask {
            name: "random-read",
            target,
            engine: "model",
            threads: 1,
            depth: 32,
            block: 4096,
            mix: vec![(OpKind::Read, 130_000)],
            seconds: 5,
        });
        let fresh = target.ends_with("fresh");
        cell.evidence = Evidence {
            virtual_time: true,
            active_bytes: 400_000_000_000,
            written_share: Some(if fresh { 0.0 } else { 1.0 }),
            ..Evidence::default()
        };
        finish(&mut cell);
        cell.resources.cpu_user_ns.clear();
        cell.resources.cpu_system_ns.clear();
        let state = if fresh { "fresh" } else { "random in 4 KiB blocks (auto)" };
        cell.evidence.device_state = Some(state.to_owned());
        cell.facts.insert("state".to_owned(), state.to_owned());
        cell.facts.insert("time".to_owned(), "virtual".to_owned());
        cells.push(cell);
    }
    let facts = |state: &str| {
        json!({
            "kind": "model",
            "size_bytes": 400_000_000_000_u64,
            "emulated": {
                "device": "exflash-400g", "family": "flash", "system": "x3850-x6",
                "state": state, "fill": 1.0,
            },
        })
    };
    let mut run = run("random-read", targets[0], facts("auto"), cells);
    for (target, state) in [(targets[1], "auto"), (targets[2], "fresh")] {
        let (name, facts) = (target.to_owned(), facts(state));
        run.head.targets.push(TargetRecord { name, facts, ..TargetRecord::default() });
    }
    run
}

/// An emulated system with twelve equal devices, and their merged cell.
pub(crate) fn many_targets() -> Run {
    let name = |i: u64| &*Box::leak(format!("model:exflash-400g#{i}").into_boxed_str());
    let mut cells: Vec<Cell> = Vec::new();
    for i in 1..=12 {
        let mut cell = cell(&Ask {
            name: "oltp1",
            target: name(i),
            engine: "model",
            threads: 1,
            depth: 24,
            block: 4096,
            // The eighth is the slowest, the fifth the fastest.
            mix: vec![(OpKind::Read, 1000 + i * 5 % 13), (OpKind::Write, 600)],
            seconds: 3,
        });
        cell.evidence = Evidence {
            virtual_time: true,
            active_bytes: 400_000_000_000,
            written_share: Some(1.0),
            ..Evidence::default()
        };
        finish(&mut cell);
        cell.facts.insert("time".to_owned(), "virtual".to_owned());
        cells.push(cell);
    }
    let mut all = cells[0].clone();
    cells[1..].iter().for_each(|cell| all.merge(cell));
    "all (12 targets)".clone_into(&mut all.key.target);
    all.verdicts = verdict::judge(&all);
    cells.push(all);
    let facts = json!({
        "kind": "model",
        "size_bytes": 400_000_000_000_u64,
        "emulated": {
            "device": "exflash-400g", "family": "flash", "system": "x3850-x6", "state": "auto",
        },
    });
    let mut run = run("oltp1", name(1), facts.clone(), cells);
    run.head.targets.extend((2..=12).map(|i| TargetRecord {
        name: name(i).to_owned(),
        facts: facts.clone(),
        ..TargetRecord::default()
    }));
    run
}

/// A sweep over the values of `axis`, once for each of `repeats`.
fn sweep(
    (stage, repeats): (&str, u32),
    axis: &str,
    points: &[(&str, Ask)],
    offered: &[Option<f64>],
) -> Run {
    let values: Vec<String> = points.iter().map(|point| format!("{:?}", point.0)).collect();
    let text = format!(
        "schema = 1\n[[stages]]\nname = \"sweep\"\ndo = \"cells\"\ntime = \"10s\"\nrepeats = {repeats}\n{axis} = [{}]\n{stage}",
        values.join(", ")
    );
    let source = MethodSource { name: "sweep".to_owned(), text, ..MethodSource::default() };
    let mut cells = Vec::new();
    for round in 0..repeats {
        for (index, (value, ask)) in points.iter().enumerate() {
            // The second repeat of every other point is slower.
            let slow = u64::from(round) * (index as u64 % 2);
            let mix = ask.mix.iter().map(|(kind, ops)| (*kind, ops - ops / 20 * slow)).collect();
            let mut cell = cell(&Ask { mix, ..*ask });
            cell.key.place = Some(Place {
                round,
                index: index as u32,
                at: vec![(axis.to_owned(), (*value).to_owned())],
                ..Place::default()
            });
            cell.key.name = format!("{} {axis}={value}", ask.name);
            cell.key.offered_iops = offered[index];
            if offered[index].is_some() {
                for stats in cell.series.iter_mut().flat_map(|i| i.classes.iter_mut().flatten()) {
                    stats.response = Some(latencies(stats.ops(), 900_000));
                }
            }
            finish(&mut cell);
            cells.push(cell);
        }
    }
    let mut run = run("sweep", DRIVE, nvme("Samsung SSD 990 PRO 2TB"), cells);
    run.head.plan = json!({ "method": source });
    run
}

/// A sweep of a mix over depths, under a latency ceiling. Two points are within the ceiling, with indistinguishable
/// rates.
pub(crate) fn sweep_of_a_mix() -> Run {
    let ask = |depth, read, write| Ask {
        name: "oltp",
        target: DRIVE,
        engine: "uring",
        threads: 1,
        depth,
        block: 4096,
        mix: vec![(OpKind::Read, read), (OpKind::Write, write)],
        seconds: 10,
    };
    let points = [
        ("1", ask(1, 8_000, 4_000)),
        ("4", ask(4, 30_000, 15_000)),
        ("16", ask(16, 90_000, 45_000)),
        ("64", ask(64, 91_000, 45_500)),
    ];
    sweep(("ceiling = { p99 = \"1ms\" }\n", 2), "depth", &points, &[None; 4])
}

/// A sweep over offered rates, without a latency ceiling.
pub(crate) fn sweep_of_rates() -> Run {
    let ask = |ops| Ask {
        name: "random-read",
        target: DRIVE,
        engine: "uring",
        threads: 1,
        depth: 64,
        block: 4096,
        mix: vec![(OpKind::Read, ops)],
        seconds: 10,
    };
    let points = [("10k/s", ask(10_000)), ("40k/s", ask(40_000)), ("80k/s", ask(70_000))];
    sweep(("", 1), "rate", &points, &[Some(1e4), Some(4e4), Some(8e4)])
}

/// A run that crashed in its second cell before anything completed.
pub(crate) fn crashed() -> Run {
    let mut run = four_corners();
    run.cells.truncate(2);
    run.cells[1].series.clear();
    run.cells[1].window_ns = 0;
    run.cells[1].ended = Ended::Crashed;
    finish(&mut run.cells[1]);
    run.status = Status::Crashed;
    run.ended = None;
    run
}

/// A run with malicious names.
pub(crate) fn hostile() -> Run {
    let long: &'static str = Box::leak("x".repeat(10_000).into_boxed_str());
    let ask = |name, target| Ask {
        name,
        target,
        engine: "psync",
        threads: 1,
        depth: 1,
        block: 4096,
        mix: vec![(OpKind::Read, 9_000)],
        seconds: 4,
    };
    let cells: Vec<Cell> = [
        ask("\u{1b}[2J\u{1b}]0;owned\u{7}clear", "<script>alert(1)</script>,\"q\""),
        ask(long, "/dev/\u{202e}ten"),
        ask("כונן מהיר", "日本語のとても長い名前のディスク装置/二番目"),
        ask("two\nlines", long),
    ]
    .iter()
    .map(cell)
    .collect();
    let mut run = run("a\r\nb\u{9b}31m", long, json!({"kind": 7, "physical": "none"}), cells);
    run.cells[0].facts.insert("\u{1b}[1m".to_owned(), long.to_owned());
    run.cells[0].verdicts[0].text.push_str(" \u{1b}[31mred");
    run.status = Status::Failed("\u{7}the device\nis gone".to_owned());
    run.notebook = "/tmp/\u{1b}[0m/notebook.sqlite".into();
    run
}

/// A run as in a list of runs, with its standing.
pub(crate) fn listed(run: &Run) -> (RunSummary, Option<Standing>) {
    (summary(run), Some(Standing::of(run)))
}

/// Kinds of operation that do not count as IOPS.
fn beside(cell: &Cell) -> Vec<KindRate> {
    let (total, of) = (cell.total(), cell.io_kinds());
    let kinds = total.iter().filter(|(kind, _)| !of.count(*kind));
    let rate = kinds.map(|(kind, stats)| KindRate {
        kind,
        per_s: cell.per_second(stats.ops() as f64),
        p99_ns: stats.response_time().supported_quantile_ns(0.99),
    });
    rate.collect()
}

/// The summary of a run, as the notebook lists it.
fn summary(run: &Run) -> RunSummary {
    let cells = run.cells.iter().map(|cell| CellSummary {
        name: cell.key.name.clone(),
        target: cell.key.target.clone(),
        block_bytes: cell.key.block_bytes(),
        iops: cell.iops(),
        beside: beside(cell),
        bytes_per_s: cell.per_second(cell.total().bytes() as f64),
        messages: None,
        level: cell.verdicts.iter().map(|v| v.level).max(),
    });
    RunSummary {
        id: run.id.clone(),
        started: run.started,
        ended: run.ended,
        status: run.status.clone(),
        name: run.head.name.clone(),
        has_method: run.head.plan.get("method").is_some(),
        targets: run.head.targets.iter().map(|t| t.name.clone()).collect(),
        identities: run.head.targets.iter().map(TargetRecord::identity).collect(),
        workloads: run.head.workloads.iter().map(|w| w.name.clone()).collect(),
        cells: cells.collect(),
    }
}

/// Three hosts with two ranks each. The last rank of the third host is slow, and other programs used its device.
pub(crate) fn over_hosts() -> Run {
    let name =
        |rank: u64| &*Box::leak(format!("node{}#{rank}:/dev/sdb", rank / 2).into_boxed_str());
    let mut cells: Vec<Cell> = Vec::new();
    for rank in 0..6 {
        let mut cell = cell(&Ask {
            name: "random-read",
            target: name(rank),
            engine: "uring",
            threads: 1,
            depth: 8,
            block: 4096,
            mix: vec![(OpKind::Read, if rank == 5 { 900 } else { 2000 + rank * 3 % 5 })],
            seconds: 6,
        });
        cell.evidence.rank = Some(RankEvidence {
            rank: rank as u32,
            host: format!("node{}", rank / 2),
            clock_bound_ns: 9_000 * u64::from(rank > 0),
        });
        cell.evidence.start_late_ns = Some(1_000 + 100 * rank);
        cell.evidence.foreign_share = (rank == 5).then_some(0.4);
        cell.verdicts = verdict::judge(&cell);
        cells.push(cell);
    }
    let mut all = cells[0].clone();
    cells[1..].iter().for_each(|cell| all.merge(cell));
    "all (6 targets)".clone_into(&mut all.key.target);
    all.evidence.rank = None;
    all.evidence.ranks = cells.iter().filter_map(RankFigures::of).collect();
    all.verdicts = verdict::judge(&all);
    cells.push(all);
    let facts = nvme("LOCAL 1");
    let mut run = run("random-read", name(0), facts.clone(), cells);
    run.head.targets.extend((1..6).map(|rank| TargetRecord {
        name: name(rank).to_owned(),
        facts: facts.clone(),
        ..TargetRecord::default()
    }));
    run
}

/// All synthetic runs, each with a name for its snapshot.
pub(crate) fn all() -> Vec<(&'static str, Run)> {
    vec![
        ("four_corners", four_corners()),
        ("open_loop", open_loop()),
        ("several_targets", several_targets()),
        ("emulated", emulated()),
        ("many_targets", many_targets()),
        ("over_hosts", over_hosts()),
        ("sweep_of_a_mix", sweep_of_a_mix()),
        ("sweep_of_rates", sweep_of_rates()),
        ("crashed", crashed()),
        ("hostile", hostile()),
    ]
}
