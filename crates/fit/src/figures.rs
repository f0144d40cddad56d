//! Printed figures of a device, such as those of a data sheet: a TOML file that names workloads with their rates and
//! latencies. A fit uses them like measurements.

use crate::statistic::{Figure, Observed, Statistic};
use crate::{HELD_OUT, Measured};
use iodyno_catalog::{FileError, Key, Reader, Record, ValueType};
use iodyno_units::{OpKind, Precondition};
use iodyno_workload::{ArrivalKind, Block, Percent, Process, Spec};

const TIME: ValueType = ValueType::Time(1, 3_600_000_000_000);
const SCHEMA: &[Key] = &[
    Key::optional("schema", ValueType::Header),
    Key::required("title", ValueType::Text).such_as("\"data sheet of my drive\""),
    Key::optional("capacity", ValueType::Size(1 << 20, 1 << 60)),
    Key::required("figures", ValueType::Tables(FIGURES)),
];
const FIGURES: &[Key] = &[
    Key::required("workload", ValueType::Text).such_as("\"random-read\""),
    Key::optional("name", ValueType::Text),
    Key::optional("state", ValueType::Text),
    Key::optional("threads", ValueType::Count(1, 4096)),
    Key::optional("depth", ValueType::Count(1, 65536)),
    Key::optional("block", ValueType::Size(512, 1 << 30)),
    Key::optional("read", ValueType::Percent),
    Key::optional("rate", ValueType::Rate),
    Key::optional("iops", ValueType::Rate),
    Key::optional("throughput", ValueType::Bandwidth(1e3, 1e13)),
    Key::optional("read_mean", TIME),
    Key::optional("read_p50", TIME),
    Key::optional("read_p99", TIME),
    Key::optional("write_mean", TIME),
    Key::optional("write_p50", TIME),
    Key::optional("write_p99", TIME),
    Key::optional("error", ValueType::Percent),
    Key::optional("held_out", ValueType::Flag),
];
/// Keys of latencies, each with its kind of operation and its figure.
const LATENCIES: [(&str, OpKind, Figure); 6] = [
    ("read_mean", OpKind::Read, Figure::Mean),
    ("read_p50", OpKind::Read, Figure::P50),
    ("read_p99", OpKind::Read, Figure::P99),
    ("write_mean", OpKind::Write, Figure::Mean),
    ("write_p50", OpKind::Write, Figure::P50),
    ("write_p99", OpKind::Write, Figure::P99),
];
/// Default relative standard error of a printed figure.
const ERROR: f64 = 0.01;

/// Rates and latencies that a data sheet or review prints for one device.
#[derive(Clone, Debug)]
pub struct PrintedFigures {
    /// Name of the device or of the source, for display.
    pub title: String,
    /// Capacity of the device, bytes; `None` keeps that of the device from which the fit starts.
    pub capacity_bytes: Option<u64>,
    /// One cell for each workload. Names of held-out cells begin with [`HELD_OUT`].
    pub cells: Vec<Measured>,
}

impl PrintedFigures {
    /// Parses a file of figures. `find` returns the workload of the given name or path, or an error message.
    ///
    /// # Errors
    /// All errors, in file order.
    pub fn from_toml(
        text: &str,
        find: &dyn Fn(&str) -> Result<Spec, String>,
    ) -> Result<Self, Vec<FileError>> {
        let mut reader = Reader::default();
        let record = reader.file(text, None, SCHEMA).unwrap_or_default();
        let mut cells: Vec<Measured> = Vec::new();
        for of in record.records("figures") {
            match cell(of, find) {
                Ok(cell) if cells.iter().any(|other| other.name == cell.name) => {
                    let message = format!("two figures have the name `{}`", cell.name);
                    reader.refuse(of.place("name"), message, "give one of them another `name`");
                }
                Ok(cell) => cells.push(cell),
                Err((key, message, help)) => reader.refuse(of.place(key), message, help),
            }
        }
        reader.finish()?;
        let title = record.said("title").to_owned();
        Ok(Self { title, capacity_bytes: record.whole("capacity"), cells })
    }
}

/// Key at fault, error message, remedy.
type Refused = (&'static str, String, &'static str);

fn cell(of: &Record, find: &dyn Fn(&str) -> Result<Spec, String>) -> Result<Measured, Refused> {
    let spec = find(of.said("workload")).map_err(|e| {
        (
            "workload",
            e,
            "give the name of a workload that `iodyno catalog` lists, or a path with a `/`",
        )
    })?;
    let spec = changed(spec, of)?;
    let precondition = match of.text("state") {
        None => Precondition::Workload,
        Some(word) => Precondition::parse(word).map_err(|e| {
            ("state", e.problem, "use auto, fresh, sequential, random or random:16KiB")
        })?,
    };
    let observed = observed(&spec, of)?;
    let name = of.text("name").unwrap_or_else(|| of.said("workload"));
    let held_out = if of.flag("held_out") == Some(true) { HELD_OUT } else { "" };
    Ok(Measured { name: format!("{held_out}{name}"), spec, precondition, observed })
}

/// Applies the keys that change the workload.
fn changed(mut spec: Spec, of: &Record) -> Result<Spec, Refused> {
    let refused = |key| move |message| (key, message, "");
    if let Some(threads) = of.whole("threads") {
        spec = spec.with_threads(threads as u32).map_err(refused("threads"))?;
    }
    if let Some(depth) = of.whole("depth") {
        spec = spec.with_depth(depth as u32).map_err(refused("depth"))?;
    }
    if let Some(bytes) = of.whole("block") {
        spec = spec.with_block(vec![Block::new(bytes, 1.0)]).map_err(refused("block"))?;
    }
    if let Some(share) = of.real("read") {
        spec = spec.with_read_share(Percent::from_fraction(share)).map_err(refused("read"))?;
    }
    if let Some(rate) = of.real("rate") {
        spec = spec.with_rate(rate, Some(Process::Poisson)).map_err(refused("rate"))?;
    }
    Ok(spec)
}

fn observed(spec: &Spec, of: &Record) -> Result<Observed, Refused> {
    let error = of.real("error").unwrap_or(ERROR).max(1e-4);
    let all: f64 = spec.kinds().map(|(_, share)| share).sum();
    let kinds: Vec<(OpKind, f64)> = spec.kinds().map(|(kind, share)| (kind, share / all)).collect();
    let mean_bytes = |kind| -> f64 {
        let blocks = spec.blocks(kind);
        let shares: f64 = blocks.iter().map(|block| block.share).sum();
        blocks.iter().map(|block| f64::from(block.bytes) * block.share).sum::<f64>() / shares
    };
    let bytes_per_op: f64 = kinds.iter().map(|(kind, share)| mean_bytes(*kind) * share).sum();
    let in_flight = f64::from(spec.threads()) * f64::from(spec.depth());
    let printed = match (of.real("iops"), of.real("throughput")) {
        (Some(_), Some(_)) => {
            return Err((
                "throughput",
                "`iops` and `throughput` are both given".to_owned(),
                "keep one of them",
            ));
        }
        (iops, throughput) => iops.or(throughput.map(|rate| rate / bytes_per_op)),
    };
    let first = kinds.first().map_or(OpKind::Read, |(kind, _)| *kind);
    let statistic = |kind, figure, value_ns| Statistic { cell: 0, kind, figure, value_ns, error };
    let mut statistics = Vec::new();
    if let Some(iops) = printed {
        if matches!(spec.arrivals(), ArrivalKind::Open { .. }) {
            let key = if of.real("iops").is_some() { "iops" } else { "throughput" };
            return Err((
                key,
                "in an open loop the rate is an input: it says nothing about the device".to_owned(),
                "give a latency",
            ));
        }
        statistics.push(statistic(first, Figure::Rate, 1e9 / iops));
    }
    for (key, kind, figure) in LATENCIES {
        let Some(ns) = of.whole(key) else { continue };
        if !kinds.iter().any(|(other, share)| *other == kind && *share > 0.0) {
            return Err((key, format!("the workload has no {}s", kind.name()), ""));
        }
        statistics.push(statistic(kind, figure, ns as f64));
    }
    let Some(latency_ns) = statistics.last().map(|of| of.value_ns) else {
        return Err((
            "workload",
            "no figure is given".to_owned(),
            "give iops, throughput, or a latency such as read_p99",
        ));
    };
    let ops_per_s = match spec.arrivals() {
        ArrivalKind::Open { rate_iops, .. } => rate_iops,
        ArrivalKind::Closed { .. } => printed.unwrap_or(in_flight * 1e9 / latency_ns),
    };
    let rate = |kind| {
        let share: f64 = kinds.iter().filter(|(it, _)| *it == kind).map(|(_, share)| share).sum();
        (ops_per_s * share, if share > 0.0 { ops_per_s * share * mean_bytes(kind) } else { 0.0 })
    };
    let rates = [rate(OpKind::Read), rate(OpKind::Write)];
    Ok(Observed { statistics, ops_per_s, rates, window_ns: None })
}
