//! Workloads and rows of a study. Each row has a recipe, which lists the cells from which its value is computed.

use crate::cell::CellKey;
use crate::metric::{Metric, Recipe};
use crate::provenance::Provenance;
use crate::published::Key;
use crate::unit::Unit;
use iodyno_emulate::spec::Written;
use iodyno_units::OpKind;
use iodyno_workload::{ActiveRange, Block, Edge, Percent, Process, Spec};
use std::fmt::Write as _;

/// A workload of the paper. The paper's tables and figures add the block size, depth and think time.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Name of the workload in the file of published values.
    pub name: String,
    /// Catalog workload that this one extends; None: generated from `read` and `random`.
    pub like: Option<Spec>,
    /// Bytes per operation in tables and figures that have no axis for the block size.
    pub block_bytes: Option<u32>,
    /// Outstanding operations per volume in tables and figures that have no axis for the depth. Overrides the value of
    /// the system.
    pub depth: Option<u32>,
    /// Number of threads per device in tables and figures that have no axis for threads; None: one thread.
    pub threads: Option<u32>,
    /// Number of files that the workload accesses; None: it accesses the volume directly.
    pub files: Option<u32>,
    /// Used fraction of the volume in tables and figures that have no axis for this fraction.
    pub fill: Percent,
    /// Fraction of operations that are reads, 0 to 1.
    pub read: f64,
    /// Whether addresses are random rather than sequential. Preconditioning writes in the same pattern.
    pub random: bool,
    /// Number of measured operations per cell, over all devices.
    pub ops: u64,
    /// Number of measured operations per cell with [`CellKey::long`], over all devices.
    pub long_ops: u64,
    /// Maximum number of measured bytes per cell.
    pub bytes_max: u64,
    /// Length of the range that the workload accesses, from the start of the volume, bytes; None: the whole volume.
    pub within_bytes: Option<u64>,
    /// Offered rate of an open loop with equal intervals, operations per second per volume; None: closed loop.
    pub rate_iops: Option<f64>,
    /// Size of a message, bytes; an operation contains as many whole messages as fit. None: the workload has no
    /// messages.
    pub message_bytes: Option<u32>,
    /// Index in `Study::workloads` of a workload that runs simultaneously; None if this one runs alone.
    pub beside: Option<usize>,
    /// Kind of operation whose latency percentiles are reported; None: all kinds together.
    pub percentiles: Option<OpKind>,
    /// Name of another workload, and a factor. The null model (a prediction without a device model) predicts the
    /// published value of that workload times the factor. None: the rules in the module `null` apply.
    pub null: Option<(String, f64)>,
    /// Number of times that the workload overwrites the capacity of flash devices before the cell, outside simulated
    /// time.
    pub aged_passes: u32,
    /// Divisor of the device's capacity and of the workload's sizes; 1: full size.
    pub scale: u32,
    /// Whether writes to a zoned device are appends.
    pub appends: bool,
    /// Warm-up before the measurement, ns. If the system requires a longer warm-up, that one applies.
    pub ramp_ns: u64,
}

/// A row of the study: a value to compute by simulation, and the published value to compare it with.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Key of the row, which equals the key of its published value.
    pub key: Key,
    /// Index in `Study::panels`; None for a row outside the paper's tables and figures (an input, or a value in the
    /// text).
    pub panel: Option<usize>,
    /// Metric of the row; None for a row outside the paper's tables and figures (an input, or a value in the text).
    pub metric: Option<Metric>,
    /// System, workload and axis values of the row; None for a row outside the paper's tables and figures. The depth is
    /// meaningless if the metric has one value for all depths.
    pub at: Option<CellKey>,
    /// Computation of the value from the results of cells.
    pub recipe: Recipe,
    /// Unit of the published value; if there is none, the default unit of the metric.
    pub unit: Unit,
    /// Index of the published value in `Study::printed`; None if there is none.
    pub printed: Option<usize>,
    /// Provenance of the simulated value: input, fitted, derived or predicted.
    pub basis: Provenance,
    /// Names of parameters that were chosen to fit the published value; empty unless the value is fitted.
    pub by: Vec<String>,
}

impl Workload {
    /// Pattern in which the devices are written before a cell.
    pub fn written(&self, cell: &CellKey) -> Written {
        Written::of(cell.before, !self.random, cell.block_bytes)
    }

    /// Specification of the workload in a cell, with default limits.
    ///
    /// # Errors
    /// The workload breaks a rule, which the message names.
    pub fn spec(&self, cell: &CellKey) -> Result<Spec, String> {
        let mut spec = self.of_cell(cell)?;
        if let Some(bytes) = self.within_bytes {
            let (start, end) = (Edge::Bytes(0), Edge::Bytes(bytes));
            spec = spec.with_active(ActiveRange::between(start, end))?;
        }
        match self.rate_iops {
            Some(rate_iops) => spec.with_rate(rate_iops, Some(Process::Constant)),
            None => Ok(spec),
        }
    }

    fn of_cell(&self, cell: &CellKey) -> Result<Spec, String> {
        if let Some(like) = &self.like {
            let block = vec![Block { bytes: cell.block_bytes, share: 1.0 }];
            let spec = like.clone().with_block(block)?.with_depth(cell.depth)?;
            let spec = spec.with_threads(cell.threads)?;
            return if cell.think_ns > 0 { spec.with_think_time(cell.think_ns) } else { Ok(spec) };
        }
        let addresses = if self.random { "uniform" } else { "sequential" };
        let mut text = format!(
            "schema = 1\ndepth = {}\nblock = {}\nall = {{ addresses = \"{addresses}\" }}\n",
            cell.depth, cell.block_bytes
        );
        if cell.threads > 1 {
            let _ = writeln!(text, "threads = {}", cell.threads);
        }
        if cell.think_ns > 0 {
            let think = format!("think_time = \"{}ns\"", cell.think_ns);
            let _ = writeln!(text, "arrivals = {{ kind = \"closed\", {think} }}");
        }
        if let Some(files) = self.files {
            let _ = writeln!(text, "file_set = {{ files = {files}, size = \"{}\" }}", cell.fill);
        }
        text += "[mix]\n";
        for (kind, share) in [("read", self.read), ("write", 1.0 - self.read)] {
            if share > 0.0 {
                let _ = writeln!(text, "{kind} = {share}");
            }
        }
        Spec::from_toml(&text).map_err(|errors| {
            let all: Vec<&str> = errors.iter().map(|e| e.message.as_str()).collect();
            all.join("; ")
        })
    }
}
