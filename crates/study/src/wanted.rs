//! The workloads and rows that a study requests, each row with its recipe, the cells that it is computed from.

use crate::cell::CellKey;
use crate::metric::{Metric, Recipe};
use crate::provenance::Provenance;
use crate::published::Key;
use crate::unit::Unit;
use iodyno_emulate::spec::Written;
use iodyno_workload::{ActiveRange, Block, Edge, Percent, Process, Spec};
use std::fmt::Write as _;

/// One workload, before its block size, depth and think time are chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Name in the paper's figures.
    pub name: String,
    /// Workload of the catalog that replaces `read` and `random`; None: generated from these.
    pub like: Option<Spec>,
    /// Bytes of one operation if the panel names none.
    pub block_bytes: Option<u32>,
    /// Outstanding operations of each volume if the panel names none; overrides the system's.
    pub depth: Option<u32>,
    /// Number of files that hold the addresses; None: the volume has no files.
    pub files: Option<u32>,
    /// Share of the volume that is in use if the panel names none.
    pub fill: Percent,
    /// Share of reads, 0 to 1.
    pub read: f64,
    /// Whether addresses are random rather than sequential; also the pattern of the writes before the cell.
    pub random: bool,
    /// Number of measured operations of each cell, over all devices.
    pub ops: u64,
    /// Number of measured operations of each long cell, over all devices.
    pub long_ops: u64,
    /// Maximum number of measured bytes of each cell.
    pub bytes_max: u64,
    /// Bytes at the start of the volume that the workload accesses; None: all.
    pub within_bytes: Option<u64>,
    /// Rate of an open loop with equal gaps, operations a second of each volume; None: closed loop.
    pub rate_iops: Option<f64>,
    /// Bytes of a message; an operation holds as many as fit.
    pub message_bytes: Option<u32>,
    /// Warm-up before the measurement, ns.
    pub ramp_ns: u64,
}

/// A row of the study: a figure to compute, and its printed counterpart.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Key of the row and of its printed figure.
    pub key: Key,
    /// Index in `Study::panels`; None for an input or a sentence, which no panel shows.
    pub panel: Option<usize>,
    /// Metric; None for an input or a sentence.
    pub metric: Option<Metric>,
    /// Position on the axes; None for an input or a sentence. The depth is meaningless if the metric covers all
    /// depths.
    pub at: Option<CellKey>,
    /// How the value is computed from cells.
    pub recipe: Recipe,
    /// Unit of the printed figure; without one, the unit of the metric.
    pub unit: Unit,
    /// Index of the printed figure in `Study::printed`; None if nothing is printed.
    pub printed: Option<usize>,
    /// Provenance of our figure.
    pub basis: Provenance,
    /// For fitted figures, the parameters that they were used to choose.
    pub by: Vec<String>,
}

impl Workload {
    /// Writes to the devices before the cell.
    pub fn written(&self, cell: &CellKey) -> Written {
        Written::of(cell.before, !self.random, cell.block_bytes)
    }

    /// The workload of a cell, with a workload's default limits.
    ///
    /// # Errors
    /// The broken rule of workloads, in a sentence.
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
