//! Evidence from which verdicts judge a cell's figures: how the target was opened, whether the page cache or kernel
//! workers were involved, whether the blocks had ever been written, and the cost of the load generator. The crates
//! `drive` and `run` record the evidence. `None` means "unknown"; verdicts never take it for "fine". Texts for people
//! only are in [`crate::Cell::facts`].

use crate::conditions::Conditions;
use crate::coverage::FillProof;
use crate::ranks::RankFigures;
use crate::storage::{DiskUse, Storage, Uncached};
use crate::verification::Verification;
use serde::{Deserialize, Serialize};

/// Outcome of a preparation step that issued no I/O. Each variant holds a description for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preparation {
    /// The step purged every target that supports a purge and that the user had named for destruction. The text gives
    /// the outcome for each target.
    Purged(String),
    /// Emulated devices were created directly in the state that a fill leaves.
    Constructed(String),
    /// The step waited; the text gives the duration.
    Waited(String),
    /// The step kept the state left by an earlier run; the text names the run and the reason for trusting it.
    Reused(String),
}

impl Preparation {
    /// Key and text of the preparation's entry in [`crate::Cell::facts`].
    pub fn fact(&self) -> (&'static str, &str) {
        match self {
            Self::Purged(words) => ("purge", words),
            Self::Constructed(words) => ("fill", words),
            Self::Waited(words) => ("waited", words),
            Self::Reused(words) => ("reused", words),
        }
    }
}

/// Circumstances of a cell (one measurement). [`crate::verdict`] uses them to judge whether the cell's figures are
/// valid. `None` means unknown, unless the field says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// Whether the target is memory of this process (`ram:`, `null:`), so that no kernel and no device take part.
    pub in_process: bool,
    /// Whether the target and the time are emulated: this machine's processors, memory and clock have no effect on
    /// the figures.
    pub virtual_time: bool,
    /// Whether the target is emulated in real time.
    pub emulated_live: bool,
    /// Fraction (0 to 1) of completions more than 10 µs later than the model intended; None unless emulated in
    /// real time.
    pub late_share: Option<f64>,
    /// Fraction (0 to 1) of completions that were late because the thread polling for them had been descheduled.
    /// None in old runs, and if the target is not emulated in real time.
    pub late_away_share: Option<f64>,
    /// Whether O_DIRECT was in effect. None where it has no meaning (in-process, mmap on memory).
    pub direct: Option<bool>,
    /// Reason why O_DIRECT was not in effect; None if it was.
    pub why_not_direct: Option<String>,
    /// Whether I/O was sent as NVMe passthrough commands, which bypass the block layer.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub passthrough: bool,
    /// Page cache content left by uncached buffered I/O; None for other I/O.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncached: Option<Uncached>,
    /// Whether the kernel granted `MAP_SYNC`, so that the mapping bypasses the page cache. None without a
    /// mapping.
    pub map_sync: Option<bool>,
    /// Clock of the timestamps; None if time is emulated.
    pub clock: Option<String>,
    /// Length and result of the warm-up, which precedes the ramp and lasts until the fill levels of buffers and caches
    /// are steady. None in real time, or if there was no warm-up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// In virtual time: fill levels of buffers and caches at the start and the end of the window.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stores: Vec<StoreLevel>,
    /// Whether writes were skewed although the emulated flash started in the steady state of uniform writes. Occurs
    /// only in virtual time.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub skew_missing: bool,
    /// State of an emulated device at the start of the cell, as text.
    pub device_state: Option<String>,
    /// Reason why the cell was skipped; None if it ran.
    pub skipped: Option<String>,
    /// Reason why an engine failed; None if none did.
    pub failure: Option<String>,
    /// Precision reached by a cell that ended early ([`crate::Ended::Settled`]), as text; None if the cell did not end
    /// early.
    pub settled: Option<String>,
    /// Deviation of the cell from its method's rules, as text; None if there is none.
    pub deviation: Option<String>,
    /// Outcome of a preparation step that issued no I/O; None if the cell is a measurement or a fill.
    pub preparation: Option<Preparation>,
    /// Reason why a preparation step was carried out although the user asked to reuse an earlier run's preparation;
    /// None otherwise.
    pub not_reused: Option<String>,
    /// Storage below the target, with the byte counts of its devices during the cell; None for emulated targets and for
    /// memory of this process.
    pub storage: Option<Storage>,
    /// Activity of the block device that is, or is directly below, the target. If several cells run on the device at
    /// the same time, only the first has this field, so that sums do not count the activity twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_use: Option<DiskUse>,
    /// Offset of the first byte addressed by the workload; None in old runs.
    pub active_start_bytes: Option<u64>,
    /// Length of the range addressed by the workload, bytes.
    pub active_bytes: u64,
    /// Total memory of the machine, bytes.
    pub ram_bytes: Option<u64>,
    /// Share (0 to 1) of the active range whose blocks have ever been written.
    pub written_share: Option<f64>,
    /// Bytes that this run trimmed or zeroed on the target since the last complete fill, up to the cell's end.
    pub trimmed_bytes: u64,
    /// Coverage of the active range by a fill; None for cells that are not fills.
    pub fill: Option<FillProof>,
    /// Number of blocks that were read back after the cell to detect storage that contains only zeroes.
    pub blocks_sampled: u32,
    /// Number of sampled blocks that contained only zeroes.
    pub blocks_zero: u32,
    /// Whether the written content was compressible or contained duplicates.
    pub content_reducible: bool,
    /// Share (0 to 1) of the writes that are durable when they complete (force unit access), as configured; 0 in old
    /// runs.
    #[serde(skip_serializing_if = "is_zero")]
    pub forced_share: f64,
    /// Number of kernel worker threads (io-wq) of this process during the cell. They run ring requests that could
    /// not be submitted inline.
    pub kernel_workers: u32,
    /// CPU time of the kernel worker threads (io-wq), ns.
    pub kernel_workers_cpu_ns: u64,
    /// CPU cost of the load generator per operation, ns, measured with the same workload and number of workers on
    /// the null engine.
    pub generator_ns_per_io: Option<f64>,
    /// Maximum rate of the load generator, operations per second: this workload on the null engine, all workers
    /// together.
    pub generator_ceiling_iops: Option<f64>,
    /// Number of processors available to the workers.
    pub cpus: u32,
    /// I/O of other programs on the same device during the cell, as a share of the cell's own I/O (0.1 = 10 %).
    pub foreign_share: Option<f64>,
    /// Processor time stolen by the hypervisor during the cell, as a share (0 to 1) of the time of all
    /// processors.
    pub steal_share: Option<f64>,
    /// Deviation of the timestamp clock from the system clock during the cell, parts per million.
    pub clock_error_ppm: Option<f64>,
    /// Settings and counters of the machine and the device; None if time is emulated.
    pub conditions: Option<Conditions>,
    /// Replayed trace and its options, as text; cells with equal texts issued equal operations. None for a
    /// workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Program that measured the cell, if that was not iodyno.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_tool: Option<OtherTool>,
    /// Process that measured the cell; None for the merged cell, and for a run of one process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<RankEvidence>,
    /// Longest delay of a worker's start after the start time that the ranks had agreed on, ns; None for a run of one
    /// process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_late_ns: Option<u64>,
    /// Results of each rank; empty except in the merged cell of several ranks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankFigures>,
    /// Other workloads that ran on the same targets at the same time.
    pub beside: Vec<String>,
    /// Number of operations that should have repeated a recently read or written address, but used a random address
    /// because no recent address existed yet.
    pub recent_misses: u64,
    /// Number of operations that iodyno replaced by operations on other blocks, because another operation on the same
    /// block was in flight; 0 unless the content is verifiable.
    pub overlaps_skipped: u64,
    /// Operations that never completed because the target hung; None if all completed.
    pub hung: Option<Hung>,
    /// First corruption found by verification, as text.
    pub first_corruption: Option<String>,
    /// Result of verifying the reads; None if the content is not verifiable, nothing was read, or the engine moves no
    /// bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// Time that the I/Os spent in each phase. Covers all I/Os in virtual time, and a sample of the I/Os in real time
    /// ([`SpentOf::Operation`]).
    pub spent: Vec<Spent>,
    /// Utilisation of the emulated machine's components, without idle ones. Empty for cells in real time.
    pub busy: Vec<Busy>,
    /// Number of emulated flash DIMMs that share a driver thread by default; None if each has its own thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modules_per_driver_thread: Option<u32>,
}

/// Whether a share that is absent from files if it is 0 is absent.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

impl Evidence {
    /// Whether all or part of the target is memory of this machine, such as tmpfs or zram. False for `ram:`, which is
    /// memory of this process.
    pub fn is_memory(&self) -> bool {
        self.storage.as_ref().is_some_and(Storage::is_memory)
    }

    /// Adds the phase times of another target. For component types that both targets have, keeps the higher
    /// utilisation.
    pub fn add_usage(&mut self, other: &Self) {
        self.add_spent(&other.spent);
        for theirs in &other.busy {
            match self.busy.iter_mut().find(|b| b.resource == theirs.resource) {
                Some(mine) => mine.share = mine.share.max(theirs.share),
                None => self.busy.push(theirs.clone()),
            }
        }
    }

    /// Adds phase times of further I/Os of the same cell.
    pub fn add_spent(&mut self, spent: &[Spent]) {
        for theirs in spent {
            match self.spent.iter_mut().find(|s| s.phase == theirs.phase && s.of == theirs.of) {
                Some(mine) => {
                    mine.total_ns += theirs.total_ns;
                    mine.count += theirs.count;
                }
                None => self.spent.push(theirs.clone()),
            }
        }
    }
}

/// Length of a cell's warm-up in virtual time, and whether the warm-up reached a steady state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// Length of the warm-up, ns of virtual time.
    pub took_ns: u64,
    /// Buffer or cache whose fill level was still changing at the warm-up's time limit; None if all were steady.
    pub unsteady: Option<String>,
    /// Change of the fill level of the buffer or cache in `unsteady`, as a fraction of the bytes written into that
    /// buffer or cache, or of its capacity if nothing was written. Negative if the level fell.
    pub net_share: Option<f64>,
}

/// Fill level of all buffers or caches of one kind at the start and the end of a window, summed over the emulated
/// system. The kind may also be the burst credits of a limit; credits of an IOPS limit are counted in operations
/// instead of bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoreLevel {
    /// Kind of buffer or cache, such as `disk's write cache`.
    pub store: String,
    /// Bytes in the buffer or cache at the start of the window.
    pub start_bytes: u64,
    /// Bytes in the buffer or cache at the end of the window.
    pub end_bytes: u64,
    /// Capacity, bytes. At this fill level, the buffer or cache blocks new data or evicts old data.
    pub capacity_bytes: u64,
    /// Bytes that entered the buffer or cache during the window; burst credits that operations took.
    pub taken_bytes: u64,
    /// Bytes that entered the buffer or cache during the window. For burst credits: the credits that operations took.
    pub choice_bytes: u64,
    /// Whether the fill level rose in every eighth of the window, or fell in every eighth. For burst credits: whether
    /// they fell in every eighth, or over the whole window by at least a tenth of the credits taken.
    pub one_way: bool,
}

/// Program other than iodyno that measured a cell, and the figures that the program's files lack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OtherTool {
    /// Name and version of the program, such as `fio-3.36`.
    pub program: String,
    /// Whether only some percentiles of the latencies are known. Each latency is then recorded as the next higher known
    /// percentile, which is an upper bound.
    pub only_percentiles: bool,
    /// Names of the kinds of operation whose latencies are known for the whole cell only. Each interval then has the
    /// cell's distribution.
    pub spread_evenly: Vec<String>,
}

/// The rank that measured a cell: one of the processes of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankEvidence {
    /// Index of the process among all processes of the run, from 0.
    pub rank: u32,
    /// Host name of the rank's machine.
    pub host: String,
    /// Uncertainty of the rank's clock offset from rank 0, ns.
    pub clock_bound_ns: u64,
}

/// Operations that never completed because a target stopped responding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hung {
    /// Number of operations in flight when the cell gave up waiting for the target.
    pub ops: u64,
    /// Time that the oldest of the operations had been in flight, ns. A lower bound if its worker is stuck in a
    /// system call.
    pub oldest_ns: u64,
    /// Number of workers stuck in a system call. The figures lack what these workers counted since their last interval
    /// ended.
    pub stuck_workers: u32,
}

impl Hung {
    /// Adds the hung operations of another worker or target.
    pub fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.oldest_ns = self.oldest_ns.max(other.oldest_ns);
        self.stuck_workers += other.stuck_workers;
    }
}

/// Time that the I/Os of a cell spent in one phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Name of the phase, such as `die reads the page`.
    pub phase: String,
    /// Unit of `count`: operations or pages.
    pub of: SpentOf,
    /// Time spent in the phase, summed over `count` operations or pages, ns.
    pub total_ns: u64,
    /// Number of operations or pages that passed through the phase.
    pub count: u64,
}

/// Unit of [`Spent::count`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpentOf {
    #[default]
    Read,
    Write,
    /// Counts flash pages read. Several pages of one read operation may be read in parallel.
    Page,
    /// Counts sampled operations of any kind on a real target. The phase `submission` is part of the latency and lasts
    /// until the submitting call returns. The phase `reaping` follows the latency and lasts until the operation is
    /// counted.
    Operation,
}

/// Mean utilisation of the emulated machine's components of one type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Busy {
    /// Name of the type of component, such as `flash channels`.
    pub resource: String,
    /// Number of components of this type.
    pub count: u32,
    /// Mean fraction (0 to 1) of the window in which the components were busy.
    pub share: f64,
}
