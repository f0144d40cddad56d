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
    /// Its name in the paper's figures.
    pub name: String,
    /// The workload of the catalog that it is, in place of what follows from `read` and `random`.
    pub like: Option<Spec>,
    /// Bytes of one operation where the panel names none.
    pub block_bytes: Option<u32>,
    /// Outstanding operations of each volume where the panel names none; before the system's.
    pub depth: Option<u32>,
    /// Its addresses are those of so many files.
    pub files: Option<u32>,
    /// How full the volume is where the panel says nothing.
    pub fill: Percent,
    /// Share of reads, 0 to 1.
    pub read: f64,
    /// At random, or one block after the other; the device was written in the same way before.
    pub random: bool,
    /// Operations that are measured in each cell, over all devices.
    pub ops: u64,
    /// The same in each long cell.
    pub long_ops: u64,
    /// Bytes that are measured in each cell, at most.
    pub bytes_max: u64,
    /// It works on the first so many bytes of the volume.
    pub within_bytes: Option<u64>,
    /// An open loop with equal gaps, of so many operations a second of each volume.
    pub rate_iops: Option<f64>,
    /// Bytes of a message; an operation holds as many as fit.
    pub message_bytes: Option<u32>,
    /// Time before the measurement, ns.
    pub ramp_ns: u64,
}

/// A row of the study.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Its key.
    pub key: Key,
    /// Its panel; None for an input that no panel shows.
    pub panel: Option<usize>,
    /// Its metric; None for an input.
    pub metric: Option<Metric>,
    /// Its position on the axes; None for an input. Its depth has no meaning where the metric is over all
    /// depths.
    pub at: Option<CellKey>,
    /// Its recipe.
    pub recipe: Recipe,
    /// Its unit: that of the printed figure, if there is one.
    pub unit: Unit,
    /// The printed figure beside it.
    pub printed: Option<usize>,
    /// Its basis.
    pub basis: Provenance,
    /// For fitted figures, the parameters that they were used to choose.
    pub by: Vec<String>,
}

impl Workload {
    /// The writes to the devices of a cell before.
    pub fn written(&self, cell: &CellKey) -> Written {
        Written::of(cell.before, !self.random, cell.block_bytes)
    }

    /// The workload of a cell, with the limits that a workload has by default.
    ///
    /// # Errors
    /// The rule that it breaks.
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
