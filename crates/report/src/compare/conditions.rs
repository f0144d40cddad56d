//! Lists test conditions that differ between the two sides of a comparison. A difference in results is due to the
//! targets only if all other conditions are equal. Other differences are reported without a verdict, because comparing
//! depths or kernels may be the purpose.

use super::pairing::Entry;
use super::remark;
use iodyno_measure::{Cell, Level, Verdict};
use iodyno_notebook::{Run, TargetRecord};
use iodyno_units::human;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A test condition, such as the kernel version, that differs between or within the two sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Name of the condition: `kernel`, `depth`, `state of the device`, `workload: mix.read`.
    pub what: String,
    /// Distinct values of the condition in A's runs; several if the runs differ.
    pub a: Vec<String>,
    /// Distinct values of the condition in B's runs; several if the runs differ.
    pub b: Vec<String>,
    /// Names of the cells (measurements) in which the condition differs; empty for a condition of the whole run.
    pub cells: Vec<String>,
}

/// Distinct values of each condition, keyed by the condition's name.
type Values = BTreeMap<String, BTreeSet<String>>;

/// The conditions that differ between or within the sides: first those of whole runs, then those of cells.
pub(super) fn conditions(runs: &[&[Run]; 2], pairs: &[[Entry; 2]]) -> Vec<Condition> {
    let real = !all_virtual(pairs);
    let sides = runs.map(|runs| {
        let mut values = Values::new();
        for run in runs {
            of_run(run, real, &mut values);
        }
        values
    });
    let mut found: Vec<Condition> = differing(&sides, &[]);
    for pair in pairs {
        let sides = pair.each_ref().map(|entry| {
            let mut values = Values::new();
            for (run, cells) in &entry.runs {
                for cell in cells {
                    of_cell(run, cell, &mut values);
                }
            }
            values
        });
        for condition in differing(&sides, &[pair[0].key.name.as_str()]) {
            let same = |c: &&mut Condition| {
                !c.cells.is_empty()
                    && (&c.what, &c.a, &c.b) == (&condition.what, &condition.a, &condition.b)
            };
            match found.iter_mut().find(same) {
                Some(known) => known.cells.extend(condition.cells),
                None => found.push(condition),
            }
        }
    }
    found
}

/// Conditions that have several values on one side, or different values on the two. A condition that only one
/// side reports is unknown, not different.
fn differing(sides: &[Values; 2], cells: &[&str]) -> Vec<Condition> {
    let [a, b] = sides;
    let mut found = Vec::new();
    for (what, of_a) in a {
        let Some(of_b) = b.get(what) else { continue };
        if of_a != of_b || of_a.len() > 1 {
            found.push(Condition {
                what: what.clone(),
                a: of_a.iter().cloned().collect(),
                b: of_b.iter().cloned().collect(),
                cells: cells.iter().map(|c| (*c).to_owned()).collect(),
            });
        }
    }
    found
}

fn put(values: &mut Values, what: &str, value: Option<String>) {
    if let Some(value) = value.filter(|v| !v.is_empty()) {
        values.entry(what.to_owned()).or_default().insert(value);
    }
}

/// A JSON value as text for display; None for null.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Adds the conditions of a whole run to `values`. Conditions of the machine and the targets are added only
/// if `real` (the run was timed by a real clock): simulated results do not depend on them.
fn of_run(run: &Run, real: bool, values: &mut Values) {
    put(values, "version of iodyno", Some(run.head.iodyno_version.clone()));
    let mut tools = run.cells.iter().filter_map(|cell| cell.evidence.other_tool.as_ref());
    let tool = tools.next().map_or("iodyno", |tool| tool.program.as_str());
    put(values, "measured by", Some(tool.to_owned()));
    if !real {
        return;
    }
    let number = |n: Option<u64>| n.map(|n| n.to_string());
    let machine = run.head.machine_description();
    put(values, "kernel", machine.kernel);
    put(values, "processor", machine.cpu_model);
    put(values, "processors", number(machine.cores_usable));
    put(values, "frequency governor", machine.governor);
    put(values, "turbo", machine.turbo.map(|on| on.to_string()));
    put(values, "machine", machine.product);
    put(values, "memory", machine.ram_bytes.map(human::size));
    for target in run.head.targets.iter().map(TargetRecord::description) {
        put(values, "I/O scheduler", target.device.scheduler);
        put(values, "nr_requests", number(target.device.nr_requests));
        put(values, "read-ahead (KiB)", number(target.device.read_ahead_kib));
        put(values, "nomerges", number(target.device.nomerges));
        put(values, "write cache", target.device.write_cache);
        put(values, "file system", target.file_system);
    }
}

/// Adds the conditions of a cell to `values`: its load, the state of the device, its workload.
fn of_cell(run: &Run, cell: &Cell, values: &mut Values) {
    let key = &cell.key;
    put(values, "cell", Some(key.name.clone()));
    put(values, "threads", Some(key.threads.to_string()));
    put(values, "depth", Some(key.depth.to_string()));
    let block = |(bytes, share): &(u32, f64)| {
        let size = human::size(u64::from(*bytes));
        let percent = human::three_digits(share * 100.0);
        if key.blocks.len() == 1 { size } else { format!("{percent} % {size}") }
    };
    put(values, "block", Some(key.blocks.iter().map(block).collect::<Vec<_>>().join(", ")));
    let offered = key
        .offered_iops
        .map_or("closed loop".to_owned(), |rate| format!("{}/s", human::count(rate)));
    put(values, "rate", Some(offered));
    put(values, "trace", cell.evidence.trace.clone());
    put(values, "engine", Some(key.engine.clone()));
    put(values, "state of the device", cell.evidence.device_state.clone());
    let time = match (cell.evidence.virtual_time, cell.evidence.emulated_live) {
        (true, _) => "emulated, virtual time",
        (_, true) => "emulated, real time",
        _ => "real",
    };
    put(values, "storage", Some(time.to_owned()));
    let direct = cell.evidence.direct.map(|d| if d { "direct" } else { "buffered" }.to_owned());
    put(values, "I/O", direct);
    let targets = if key.is_of_all_targets() { run.head.targets.len() } else { 1 };
    put(values, "targets", Some(targets.to_string()));
    let warnings: Vec<&str> = cell
        .verdicts
        .iter()
        .filter(|v| v.level == Level::Warning)
        .map(|v| v.code.as_str())
        .collect();
    let warnings = if warnings.is_empty() { "none".to_owned() } else { warnings.join(", ") };
    put(values, "warnings", Some(warnings));
    let mut named = run.head.workloads.iter().filter(|w| w.name == key.workload);
    if let (Some(workload), None) = (named.next(), named.next()) {
        leaves(&workload.spec, "workload: ", values);
    }
}

/// Adds each innermost value of a workload specification to `values`, keyed by its path. Skips descriptions
/// and the values that [`of_cell`] adds.
fn leaves(value: &Value, path: &str, values: &mut Values) {
    const TOLD: [&str; 7] = ["about", "source", "schema", "depth", "threads", "block", "rate"];
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter().filter(|f| !TOLD.contains(&f.0.as_str())) {
                let dot = if path.ends_with(' ') { "" } else { "." };
                leaves(field, &format!("{path}{dot}{name}"), values);
            }
        }
        Value::Array(items) => {
            // A list is one value: its items belong together.
            let text = serde_json::to_string(items).unwrap_or_default();
            put(values, path, Some(text));
        }
        leaf => put(values, path, text(leaf).map(|text| in_words(&text))),
    }
}

/// Formats a condition's value for display; times are stored in nanoseconds.
fn in_words(text: &str) -> String {
    let ns = text.strip_suffix("ns").and_then(|n| n.parse::<u64>().ok());
    ns.map_or_else(|| text.to_owned(), |ns| human::time_ns(ns as f64))
}

fn all_virtual(pairs: &[[Entry; 2]]) -> bool {
    pairs.iter().flatten().flat_map(Entry::cells).all(|c| c.evidence.virtual_time)
}

/// Adds warnings about conditions that differ, and about sides whose runs were not interleaved in time.
pub(super) fn remarks(
    runs: &[&[Run]; 2],
    pairs: &[[Entry; 2]],
    conditions: &[Condition],
    remarks: &mut Vec<Verdict>,
) {
    if !conditions.is_empty() {
        let mut whats: Vec<&str> = conditions.iter().map(|c| c.what.as_str()).collect();
        whats.dedup();
        remarks.push(remark(
            "CONDITIONS_DIFFER",
            Level::Warning,
            format!(
                "conditions besides the target differ, and any may cause a difference in the results: {}",
                whats.join(", ")
            ),
        ));
    }
    // The times of repeats within a run are not stored, and repeats can't alternate with those of another run.
    let [a, b] = runs;
    let times = |side: &[Run]| {
        let started = side.iter().map(|r| r.started);
        started.clone().min().zip(started.max())
    };
    let apart = times(a).zip(times(b)).is_some_and(|(a, b)| a.1 < b.0 || b.1 < a.0);
    if apart && a.len() + b.len() > 2 && !pairs.is_empty() && !all_virtual(pairs) {
        remarks.push(remark(
            "NOT_INTERLEAVED",
            Level::Warning,
            "all runs of one side were made before those of the other: changes over time (heat, wear, other load) also show as a difference; alternate the sides".to_owned(),
        ));
    }
}
