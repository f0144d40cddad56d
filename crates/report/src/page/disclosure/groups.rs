//! Collects the facts for a report's full disclosure (all facts needed to judge and reproduce the results) from the
//! stored run. Each function returns one group of facts, such as identity, host or measurement.

use super::super::labels;
use super::{Facts, row, rows, text};
use iodyno_measure::{Cell, Role};
use iodyno_method::Findings;
use iodyno_notebook::{Run, TargetRecord};
use iodyno_units::human;

pub(super) fn identity(run: &Run, findings: Option<&Findings>) -> Facts {
    let time = |t: iodyno_notebook::Timestamp| t.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    let mut facts = vec![
        row("run", if run.id.is_empty() { "not kept" } else { &run.id }),
        row("name", &run.head.name),
        row("began", time(run.started)),
        row("ended", run.ended.map_or("unknown".to_owned(), time)),
        row("status", run.status.name()),
        row("program", program(run)),
        row("seed", run.head.seed.to_string()),
        row("operator", "unknown"),
    ];
    match findings {
        Some(findings) => {
            facts.push(row("method", &findings.method));
            facts.push(row("specification", findings.standard.as_deref().unwrap_or("none")));
            facts.push(row("settings", findings.setting.as_deref().unwrap_or("none")));
            let conformance = match (&findings.standard, findings.deviations.is_empty()) {
                (None, _) => "custom: no published specification is followed",
                (Some(_), true) => "conformant, as far as iodyno can tell",
                (Some(_), false) => "NON-CONFORMANT",
            };
            facts.push(row("conformance", conformance));
            let deviations = if findings.deviations.is_empty() {
                "none".to_owned()
            } else {
                findings.deviations.join("; ")
            };
            facts.push(row("deviations", deviations));
        }
        None => facts.push(row("conformance", "custom: a list of cells")),
    }
    facts
}

/// Name and version of the program that measured the run. For a run of another tool, also the version of iodyno that
/// imported it.
fn program(run: &Run) -> String {
    let iodyno = format!("iodyno {}", run.head.iodyno_version);
    match run.cells.iter().find_map(|cell| cell.evidence.other_tool.as_ref()) {
        Some(tool) => format!("{}, imported by {iodyno}", tool.program),
        None => iodyno,
    }
}

pub(super) fn device(target: &TargetRecord) -> Facts {
    let facts = &target.facts;
    let mut all = rows(
        facts,
        &[
            ("kind", "/kind"),
            ("capacity", "/size_bytes"),
            ("logical block", "/alignment/logical_block_bytes"),
            ("physical block", "/alignment/physical_block_bytes"),
            ("vendor", "/device/vendor"),
            ("model", "/device/model"),
            ("serial", "/device/serial"),
            ("firmware", "/device/firmware"),
            ("transport", "/device/transport"),
            ("PCIe link, current and maximum", "/device/pcie"),
            ("rotational", "/device/rotational"),
            ("volatile write cache, according to the kernel", "/device/write_cache"),
            ("force unit access", "/device/fua"),
            ("discard", "/device/discard"),
            ("zoned", "/device/zoned"),
            ("temperature at the start, °C", "/device/temperature_c"),
            ("arrays and mappings above or below the target", "/device/slaves"),
            ("RAID", "/device/raid"),
            ("device mapper", "/device/device_mapper"),
            ("NUMA node", "/device/numa_node"),
            ("how the target was opened", "/opened"),
        ],
    );
    for (name, when) in [("before", &target.health_before), ("after", &target.health_after)] {
        all.push(row(
            &format!("health {name}"),
            when.as_ref().map_or("unknown".to_owned(), |h| text("", Some(h))),
        ));
    }
    let written = target.device_written_bytes().map(human::size);
    all.push(row(
        "host writes during the run, according to the device",
        written.unwrap_or("unknown".to_owned()),
    ));
    for name in ["power state", "over-provisioning", "power-loss protection", "encryption"] {
        all.push(row(name, "unknown"));
    }
    all
}

pub(super) fn host(run: &Run) -> Facts {
    let mut all = rows(
        &run.head.machine,
        &[
            ("product", "/product"),
            ("processor", "/cpu_model"),
            ("microcode", "/microcode"),
            ("cores online", "/cores_online"),
            ("cores usable", "/cores_usable"),
            ("simultaneous multithreading", "/smt"),
            ("isolated cores", "/cores_isolated"),
            ("NUMA nodes", "/numa_nodes"),
            ("memory", "/ram_bytes"),
            ("memory available", "/ram_available_bytes"),
            ("swap", "/swap_bytes"),
            ("frequency governor", "/governor"),
            ("turbo", "/turbo"),
            ("clock source", "/clocksource"),
            ("hypervisor", "/hypervisor"),
            ("container", "/container"),
            ("limits of the control group", "/cgroup"),
            ("transparent huge pages", "/transparent_huge_pages"),
            ("mitigations", "/mitigations"),
        ],
    );
    let steal = run.cells.iter().filter_map(|c| c.evidence.steal_share).reduce(f64::max);
    all.push(row(
        "time stolen by the hypervisor, maximum over all cells",
        steal.map_or("unknown".to_owned(), |x| format!("{} %", human::three_digits(x * 100.0))),
    ));
    for name in ["board and firmware", "C-states", "power limits"] {
        all.push(row(name, "unknown"));
    }
    all
}

pub(super) fn stack(run: &Run) -> Facts {
    let mut all = rows(
        &run.head.machine,
        &[
            ("distribution", "/distribution"),
            ("kernel", "/kernel"),
            ("build", "/kernel_build"),
            ("architecture", "/architecture"),
            ("io_uring disabled", "/io_uring_disabled"),
            ("locked memory", "/memlock_bytes"),
        ],
    );
    for target in &run.head.targets {
        let of = rows(
            &target.facts,
            &[
                ("file system", "/file_system/fs_type"),
                ("mount options", "/file_system/options"),
                ("options of the file system", "/file_system/super_options"),
                ("free space", "/file_system/free_bytes"),
                ("extents", "/extents"),
                ("scheduler", "/device/scheduler"),
                ("nr_requests", "/device/nr_requests"),
                ("max_sectors, KiB", "/device/max_sectors_kib"),
                ("read ahead, KiB", "/device/read_ahead_kib"),
                ("nomerges", "/device/nomerges"),
                ("rq_affinity", "/device/rq_affinity"),
                ("io_poll", "/device/io_poll"),
                ("wbt_lat_usec", "/device/wbt_lat_usec"),
            ],
        );
        let several = run.head.targets.len() > 1;
        all.extend(of.into_iter().map(|(name, value)| {
            (if several { format!("{name} ({})", target.name) } else { name }, value)
        }));
    }
    for name in ["kernel command line", "interrupt affinity", "multipath"] {
        all.push(row(name, "unknown"));
    }
    all
}

pub(super) fn preparation(run: &Run) -> Facts {
    let mut all = Facts::new();
    let prepares = |c: &&Cell| c.key.place.as_ref().is_some_and(|p| p.role == Role::Prepare);
    for cell in run.cells.iter().filter(prepares) {
        let facts: Vec<String> = cell.facts.iter().map(|(k, v)| format!("{k}: {v}")).collect();
        let proof = cell.evidence.fill.as_ref().map_or(String::new(), |f| {
            let percent = |share: f64| human::three_digits(share * 100.0);
            let more = match f.times {
                0 | 1 => String::new(),
                n => format!(", {} % at least {n} times", percent(f.times_share)),
            };
            format!(
                "; completed writes: {} in {} passes; {} % of the range written at least once{more}",
                human::size(f.written_bytes),
                human::three_digits(f.passes),
                percent(f.once_share)
            )
        });
        all.push(row(&cell.key.name, format!("{}{proof}", facts.join("; "))));
        if all.len() > 200 {
            break;
        }
    }
    if all.is_empty() {
        all.push(row("purge, preconditioning, waits", "none by this run"));
    }
    for target in &run.head.targets {
        all.push(row(
            &format!("kernel's write counter at the end of the run ({})", target.name),
            target.writes_seen().map_or("unknown".to_owned(), |v| text("", Some(v))),
        ));
    }
    let written = run.cells.iter().filter_map(|c| c.evidence.written_share).reduce(f64::min);
    all.push(row(
        "written share of the active range, minimum over all cells",
        written.map_or("unknown".to_owned(), |x| format!("{} %", human::three_digits(x * 100.0))),
    ));
    all
}

pub(super) fn stimulus(run: &Run) -> Facts {
    let mut all = Facts::new();
    for (name, pick) in [
        ("engine", (|c: &Cell| c.key.engine.clone()) as fn(&Cell) -> String),
        ("threads × depth, block", labels::conditions),
    ] {
        let mut seen: Vec<String> = Vec::new();
        for value in run.cells.iter().map(pick) {
            if !seen.contains(&value) && !value.is_empty() {
                seen.push(value);
            }
        }
        let more = seen.len().saturating_sub(40);
        seen.truncate(40);
        let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
        all.push(row(name, format!("{}{tail}", seen.join(", "))));
    }
    let direct: Vec<Option<bool>> = run.cells.iter().map(|c| c.evidence.direct).collect();
    all.push(row(
        "direct I/O",
        if direct.iter().all(|d| *d == Some(true)) {
            "yes"
        } else if direct.contains(&Some(false)) {
            "not in every cell"
        } else {
            "not applicable, or unknown"
        },
    ));
    for (key, value) in run.cells.iter().flat_map(|c| &c.facts) {
        let is_engine =
            key.starts_with("engine") || key.starts_with("uring") || key.starts_with("libaio");
        if is_engine && !all.iter().any(|(k, v)| k == key && v == value) {
            all.push(row(key, value));
        }
    }
    let mut traces: Vec<&String> =
        run.cells.iter().filter_map(|c| c.evidence.trace.as_ref()).collect();
    traces.dedup();
    for words in &traces {
        all.push(row("trace (hash of its file)", words.as_str()));
    }
    for workload in &run.head.workloads {
        all.push(row(&format!("workload {}", workload.name), text("", Some(&workload.spec))));
    }
    all.push(row("order of the cells", "as in the table of cells"));
    let issued = if traces.is_empty() {
        "none: the run issued the workload above"
    } else {
        "none: the run replayed the trace, and the workload above describes it"
    };
    all.push(row("equivalent fio job", issued));
    all
}

pub(super) fn measurement(run: &Run) -> Facts {
    let clock = run.cells.iter().find_map(|c| c.evidence.clock.as_deref());
    let ceilings = run.cells.iter().filter_map(|c| c.evidence.generator_ceiling_iops);
    let ceiling = ceilings.reduce(f64::min);
    let errors: u64 = run.cells.iter().map(|c| c.total().errors().total()).sum();
    let foreign = run.cells.iter().filter_map(|c| c.evidence.foreign_share).reduce(f64::max);
    let share = |x: Option<f64>| {
        x.map_or("unknown".to_owned(), |x| format!("{} %", human::three_digits(x * 100.0)))
    };
    let mut intervals: Vec<u64> = run.cells.iter().map(|c| c.interval_ns).collect();
    intervals.sort_unstable();
    intervals.dedup();
    let intervals: Vec<String> =
        intervals.iter().take(6).map(|ns| human::duration_ns(*ns)).collect();
    vec![
        row("clock", clock.unwrap_or("unknown")),
        row(
            "start and end of a latency",
            "submission (open loop: intended start) to completion, as the generator sees it",
        ),
        row("histogram", "128 buckets per doubling: within 0.4 %; minimum, maximum, mean exact"),
        row("intervals", intervals.join(", ")),
        row(
            "rate of the generator on the null engine, minimum over all cells",
            ceiling.map_or("unknown".to_owned(), |x| format!("{} IOPS", human::count(x))),
        ),
        row("failed operations", errors.to_string()),
        row("others' I/O on the device, maximum over all cells", share(foreign)),
        row(
            "CPU time of the workers, all cells",
            human::time_ns(run.cells.iter().map(|c| c.resources.cpu_seconds()).sum::<f64>() * 1e9),
        ),
        row("temperature, power and link errors during the run", "unknown"),
    ]
}

pub(super) fn results(run: &Run, findings: Option<&Findings>) -> Facts {
    let codes = |level| {
        let mut seen: Vec<String> = Vec::new();
        for verdict in run.cells.iter().flat_map(|c| &c.verdicts).filter(|v| v.level == level) {
            if !seen.contains(&verdict.code) {
                seen.push(verdict.code.clone());
            }
        }
        if seen.is_empty() { "none".to_owned() } else { seen.join(", ") }
    };
    let ops: u64 = run.cells.iter().map(|c| c.total().ops()).sum();
    let window: u64 = run.cells.iter().map(|c| c.window_ns).sum();
    vec![
        row("cells", run.cells.len().to_string()),
        row("I/Os", human::whole(ops)),
        row("duration of the measurements, all cells", human::duration_ns(window)),
        row("invalid", codes(iodyno_measure::Level::Invalid)),
        row("warnings", codes(iodyno_measure::Level::Warning)),
        row("notes", codes(iodyno_measure::Level::Note)),
        row(
            "method completed",
            findings.map_or("no method", |f| if f.complete { "yes" } else { "no" }),
        ),
        row(
            "figures",
            "in the table of cells, which lists all measured cells, including failed ones",
        ),
    ]
}
