//! The verdict on a run as a whole, shared by all report formats and the exit code: the verdicts on its method, and the
//! most severe level of all verdicts on the run and its cells (measurements).

use crate::method;
use iodyno_measure::{Cell, Level, Verdict};
use iodyno_notebook::{Run, Status};

/// Codes of all verdicts on cells and on methods, in alphabetical order.
#[rustfmt::skip]
pub const CODES: [&str; 87] = [
    "BELOW_PHYSICAL_BLOCK",
    "BUSY_BEFORE",
    "CHANGED",
    "CHECKSUMMED",
    "CLIENT_BOUND",
    "CLOCK",
    "CLOCK_SOURCE",
    "COARSE_STAMPS",
    "CONDITIONS_CHANGED",
    "CPU_BOUND",
    "CRASHED",
    "DRIVER_THREAD",
    "EMULATED",
    "ENDED_UNSTEADY",
    "ERRORS",
    "FEW_OPERATIONS",
    "FEW_SAMPLES",
    "FILE_SYSTEM_FULL",
    "FOREIGN_IO",
    "FOREIGN_TRIM",
    "GENERATOR_BOUND",
    "GOVERNOR",
    "HOST_STALLED",
    "HOT",
    "INTERRUPTED",
    "INTERRUPTS_ON_ONE_CPU",
    "KERNEL_WORKERS",
    "LATE",
    "LATENCY_OVER_TIME_UNKNOWN",
    "LATE_SUBMISSION",
    "LAYER",
    "LIMITED",
    "LINK_BELOW_CAPABILITY",
    "LITTLES_LAW_BROKEN",
    "MAJOR_FAULTS",
    "MEMORY",
    "MITIGATIONS",
    "MORE_WORKERS_THAN_CPUS",
    "NEVER_WRITTEN",
    "NON_CONFORMANT",
    "NOTHING_COMPLETED",
    "NOTHING_RECENT",
    "NOT_STEADY",
    "ONLY_PERCENTILES",
    "OTHER_TOOL",
    "OVERLAPS_SKIPPED",
    "PAGE_CACHE",
    "PASSTHROUGH",
    "PASS_SHORT",
    "PERIODIC",
    "PRECONDITIONING_SHORT",
    "PREPARATION",
    "RAID_AT_WORK",
    "RAID_DEGRADED",
    "RATE_MET",
    "RATE_MISSED",
    "READS_OF_TRIMMED",
    "REDUCIBLE_CONTENT",
    "RUNNING",
    "SETTLED",
    "SHORT",
    "SKEW",
    "SKIPPED",
    "SMALL_TARGET",
    "STAGE_EMPTY",
    "STAGE_SKIPPED",
    "STALL",
    "STARVED",
    "STOLEN_CPU",
    "STOPPED_BY_ERRORS",
    "STRAGGLER",
    "SWAPPING",
    "TARGET_HUNG",
    "THROTTLED",
    "TRANSIENT",
    "TREND",
    "UNCACHED",
    "UNFINISHED",
    "UNFLUSHED_LOST",
    "UNPRECONDITIONED",
    "UNVERIFIED_READS",
    "VALID",
    "VERIFIED",
    "VIRTUAL_MACHINE",
    "VOLATILE_CACHE",
    "WINDOW_TOO_SHORT",
    "WRONG_CONTENT",
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunVerdict {
    /// Verdicts on the run's method, the most severe first. Empty if the run is a list of cells.
    pub verdicts: Vec<Verdict>,
    /// Most severe level of all verdicts on the run and its measurements; None if there are no verdicts yet.
    pub level: Option<Level>,
}

impl RunVerdict {
    /// Judges a stored run. Verdicts on the method are derived anew by the current rules; verdicts on cells are those
    /// stored with the run.
    pub fn of(run: &Run) -> Self {
        Self::with(run, method::verdicts_of(run))
    }

    /// Combines the verdicts on the run's method with those on its cells.
    pub(crate) fn with(run: &Run, mut verdicts: Vec<Verdict>) -> Self {
        // A run in progress is not unfinished.
        verdicts.retain(|v| run.status != Status::Running || v.code != "UNFINISHED");
        let of_run = verdicts.iter().map(|v| v.level);
        let level = run.cells.iter().filter_map(Cell::level).chain(of_run).max();
        Self { verdicts, level }
    }

    /// Whether the run's method did not reach its goal, such as a steady state.
    pub fn has_failed(&self) -> bool {
        self.verdicts.iter().any(|v| v.level == Level::Invalid)
    }

    /// Distinct codes of the verdicts, on the run and its measurements, that keep the run from being VALID. Excludes
    /// warnings whose code is in `accepted`; verdicts of level INVALID can't be accepted.
    pub fn doubts(&self, run: &Run, accepted: &[String]) -> Vec<String> {
        let is_accepted = |v: &Verdict| v.level == Level::Warning && accepted.contains(&v.code);
        let of_cells = run.cells.iter().flat_map(|cell| &cell.verdicts);
        let mut codes: Vec<String> = Vec::new();
        for verdict in self.verdicts.iter().chain(of_cells) {
            let is_doubt = verdict.level >= Level::Warning && !is_accepted(verdict);
            if is_doubt && !codes.contains(&verdict.code) {
                codes.push(verdict.code.clone());
            }
        }
        codes
    }

    /// Whether a verdict on the whole run is a warning or worse, so that the run must not be called VALID.
    pub(crate) fn is_doubted(&self) -> bool {
        self.verdicts.iter().any(|v| v.level >= Level::Warning)
    }
}
