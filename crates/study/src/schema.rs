//! The schema of a study file: its keys and the types of their values. `catalog/studies/FORMAT.md` explains the meaning
//! of the keys.

use crate::metric::Metric;
use iodyno_catalog::{File, Key, Kind, Problem, Reader, Record, TIME, ValueType};

/// Reads a study file, without the files that it names.
pub(crate) fn read(file: &File) -> Result<Record, Problem> {
    let mut reader = Reader::default();
    let record = reader.file(&file.text, Some(Kind::Study), STUDY).unwrap_or_default();
    reader.finish().map_err(|errors| Problem::of(file, &errors))?;
    Ok(record)
}

const STUDY: &[Key] = &[
    Key::optional("schema", ValueType::Header),
    Key::optional("kind", ValueType::Header),
    text("title"),
    text("source"),
    text("published"),
    // Measurement of a cell: over one window, or in rounds until the steady state of SNIA's specification.
    Key::optional("method", ValueType::Word(&["window", "pts"])),
    Key::required("systems", ValueType::Tables(SYSTEM)),
    Key::required("workloads", ValueType::Tables(WORKLOAD)),
    Key::required("panels", ValueType::Tables(PANEL)),
    Key::optional("members", ValueType::Tables(MEMBER)),
    Key::optional("claims", ValueType::Tables(CLAIM)),
    Key::optional("conclusions", ValueType::Tables(CONCLUSION)),
    Key::optional("inputs", ValueType::Tables(INPUT)),
    Key::optional("basis", ValueType::Tables(BASIS)),
    Key::optional("flagged", ValueType::Tables(FLAG)),
];

const fn text(path: &'static str) -> Key {
    Key::required(path, ValueType::Text)
}
const fn names(path: &'static str) -> Key {
    Key::optional(path, ValueType::List(&ValueType::Text))
}
const NUMBER: ValueType = ValueType::Count(0, u32::MAX as u64);
const NUMBERS: ValueType = ValueType::List(&NUMBER);
/// Range of the number of operations per cell.
const OPS: ValueType = ValueType::Count(100, 1_000_000_000);

const SYSTEM: &[Key] = &[
    text("name"),
    text("host"),
    // A device, or an array of devices; or several arrays, each of which is a system by itself.
    Key::optional("device", ValueType::Text),
    names("arrays"),
    // Options of the target's name, such as `cache=off`.
    Key::optional("options", ValueType::Text),
    // Socket of the threads: that of the memory that a flash DIMM is copied to, or another.
    Key::optional("socket", ValueType::Word(&["near", "far"])),
    // Whether all memory channels of a socket are populated equally.
    Key::optional("memory", ValueType::Word(&["balanced", "unbalanced"])),
    Key::optional("devices", NUMBER),
    Key::optional("depth", NUMBER),
    Key::optional("depth_a_device", NUMBER),
    // Bandwidth of the links, for the null model and the rules of plausibility.
    Key::optional("link", ValueType::Bandwidth(1e6, 1e12)),
    // The flash DIMM driver's threads: those of the device file, or one for each module.
    Key::optional("occupancy", ValueType::Word(&["default", "max"])),
    Key::optional("ramp", TIME),
    Key::optional("note", ValueType::Text),
    // Another description of the device, whose figures are the null model of this one.
    Key::optional("competitor", ValueType::Text),
    // Whether only panels that name the system have rows of it.
    Key::optional("only_named", ValueType::Flag),
];

const WORKLOAD: &[Key] = &[
    text("name"),
    // A workload of the catalog, in place of `read` and `addresses`.
    Key::optional("like", ValueType::Text),
    // The text of a workload file, in place of `like`.
    Key::optional("spec", ValueType::Text),
    Key::optional("read", ValueType::Percent),
    // Addresses of the cell and of the writes before it.
    Key::optional("addresses", ValueType::Word(&["random", "sequential"])),
    Key::optional("block", ValueType::Bytes),
    Key::optional("depth", NUMBER),
    // Threads per device.
    Key::optional("threads", NUMBER),
    // Number of files that hold the addresses, and the share of the volume that they fill.
    Key::optional("files", NUMBER),
    Key::optional("fill", ValueType::Percent),
    Key::required("ops", OPS),
    Key::optional("long_ops", OPS),
    Key::optional("bytes", ValueType::Bytes),
    // Bytes at the start of the volume that the workload accesses.
    Key::optional("within", ValueType::Bytes),
    // An open loop with equal gaps, operations a second of each volume.
    Key::optional("rate", ValueType::Rate),
    // Size of a message; an operation holds as many as fit.
    Key::optional("message", ValueType::Bytes),
    // Another workload that runs at the same time, and the kind of operation whose percentiles count.
    Key::optional("beside", ValueType::Text),
    Key::optional("percentiles", ValueType::Word(&["read", "write"])),
    // The null model: the printed figure of this workload, times a factor.
    Key::optional("null", ValueType::Text),
    Key::optional("null_factor", ValueType::Number(0.001, 1000.0)),
    // Passes over the capacity that the workload writes before the cell, without time.
    Key::optional("aged", ValueType::Count(1, 100)),
    // Divisor of the device's capacity and of the workload's sizes.
    Key::optional("scale", ValueType::Count(1, 65_536)),
    // Whether writes to a zoned device are appends.
    Key::optional("appends", ValueType::Flag),
    Key::required("ramp", TIME),
];

const PANEL: &[Key] = &[
    text("figure"),
    text("title"),
    names("systems"),
    Key { required: true, ..names("workloads") },
    Key::optional("block", ValueType::List(&ValueType::Bytes)),
    Key::optional("threads", NUMBERS),
    Key::optional("depth", NUMBERS),
    Key::optional("devices", NUMBERS),
    Key::optional("think", ValueType::List(&TIME)),
    Key::optional("fill", ValueType::List(&ValueType::Percent)),
    // Rates of the workload named by `beside`; `{rate}` in the workload's name stands for them.
    Key::optional("rate", NUMBERS),
    // Whether the keys of rows have the system's own number of devices.
    Key::optional("own_devices", ValueType::Flag),
    Key::optional("stands_for", TIME),
    // Window of the cells from their start; they are shown over this time.
    Key::optional("over_time", TIME),
    // Writes before the cells.
    Key::optional("written", ValueType::Word(&["workload", "fresh", "sequential"])),
    Key::optional("long", ValueType::Flag),
    Key::optional("ramp", TIME),
    Key::optional("optimum_within", TIME),
    Key::optional("together", ValueType::Flag),
    Key::required("metrics", ValueType::List(&ValueType::Word(&Metric::NAMES))),
];

const INPUT: &[Key] = &[
    text("figure"),
    text("system"),
    text("workload"),
    text("metric"),
    // The system of the study that states the figure, if it has another name.
    Key::optional("of", ValueType::Text),
];

/// Keys of a device's data-sheet rates, which the null model uses.
const MEMBER: &[Key] = &[
    text("device"),
    Key::required("reads", ValueType::Count(1, 1_000_000_000)),
    Key::required("writes", ValueType::Count(1, 1_000_000_000)),
    Key::required("read", ValueType::Bandwidth(1e6, 1e12)),
    Key::required("write", ValueType::Bandwidth(1e6, 1e12)),
];

/// Keys of a value in the paper's text that is computed from rows of the panels.
const CLAIM: &[Key] = &[
    text("figure"),
    text("system"),
    text("workload"),
    text("metric"),
    text("of"),
    Key::optional("against", ValueType::Text),
    text("of_figure"),
    names("of_workloads"),
    Key::optional("against_workload", ValueType::Text),
    Key::optional("block", ValueType::Bytes),
    Key::optional("devices", NUMBER),
    text("of_metric"),
];

/// Keys of a conclusion of the paper, which holds if all its comparisons hold.
const CONCLUSION: &[Key] = &[
    text("says"),
    Key::optional("tests", ValueType::Tables(COMPARISON)),
    // The reason why the study can't test it, in place of `tests`.
    Key::optional("untestable", ValueType::Text),
];

/// Keys of a comparison. They are defaults for the compared values, which may override them.
const COMPARISON: &[Key] = &[
    // Each of these is larger than the next.
    Key::optional("descending", ValueType::Tables(OPERAND)),
    // Each is at least this multiple of the next.
    Key::optional("factor", ValueType::Number(1e-3, 1e6)),
    // The largest of these is larger than the smallest by no more than `share`.
    Key::optional("alike", ValueType::Tables(OPERAND)),
    Key::optional("share", ValueType::Percent),
    Key::optional("figure", ValueType::Text),
    Key::optional("system", ValueType::Text),
    Key::optional("workload", ValueType::Text),
    Key::optional("block", ValueType::Bytes),
    Key::optional("depth", NUMBER),
    Key::optional("threads", NUMBER),
    Key::optional("devices", NUMBER),
    Key::optional("metric", ValueType::Text),
    // Divides each figure by the row that differs in these keys.
    Key::optional("over", ValueType::Record(ROW)),
];

const OPERAND: &[Key] = &[
    Key::optional("figure", ValueType::Text),
    Key::optional("system", ValueType::Text),
    Key::optional("workload", ValueType::Text),
    Key::optional("block", ValueType::Bytes),
    Key::optional("depth", NUMBER),
    Key::optional("threads", NUMBER),
    Key::optional("devices", NUMBER),
    Key::optional("metric", ValueType::Text),
    Key::optional("over", ValueType::Record(ROW)),
];

const ROW: &[Key] = &[
    Key::optional("figure", ValueType::Text),
    Key::optional("system", ValueType::Text),
    Key::optional("workload", ValueType::Text),
    Key::optional("block", ValueType::Bytes),
    Key::optional("depth", NUMBER),
    Key::optional("threads", NUMBER),
    Key::optional("devices", NUMBER),
    Key::optional("metric", ValueType::Text),
];

const BASIS: &[Key] = &[
    Key::required("is", ValueType::Word(&["input", "fitted", "derived"])),
    names("by"),
    Key::optional("figure", ValueType::Text),
    Key::optional("system", ValueType::Text),
    Key::optional("workload", ValueType::Text),
    Key::optional("block", ValueType::Bytes),
    Key::optional("depth", NUMBER),
    Key::optional("threads", NUMBER),
    Key::optional("devices", NUMBER),
    Key::optional("metric", ValueType::Text),
];

/// Keys of a published value that is not to be scored.
const FLAG: &[Key] =
    &[text("figure"), text("system"), text("workload"), text("metric"), text("why")];
