//! Evidence gathered beside the figures, by which verdicts are judged: how the target was opened, whether the page
//! cache or kernel workers were involved, whether the blocks had ever been written, the cost of the generator itself.
//! `drive` and `run` gather it; `None` means "unknown", which is never taken for "fine". Texts that only people read
//! are a cell's `facts`.

use crate::conditions::Conditions;
use crate::coverage::FillProof;
use crate::ranks::RankFigures;
use crate::storage::{DiskUse, Storage, Uncached};
use crate::verification::Verification;
use serde::{Deserialize, Serialize};

/// How a method's step prepared the targets without I/O, with a description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preparation {
    /// Purged the targets that the user named for it, where possible; the text says what was done to each.
    Purged(String),
    /// Constructed emulated devices in the state that a fill would leave.
    Constructed(String),
    /// Waited; the text gives the time.
    Waited(String),
    /// Kept the state left by an earlier run; the text names the run and the reason for trusting it.
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

/// Recorded circumstances of a cell, by which [`crate::verdict`] judges its figures. `None` means unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// Whether the target is memory of this process (`ram:`, `null:`): no kernel, no device.
    pub in_process: bool,
    /// Whether the target and the time are emulated: this machine's processors, memory and clock have no effect on
    /// the figures.
    pub virtual_time: bool,
    /// Whether the target is emulated in real time.
    pub emulated_live: bool,
    /// Emulated in real time: share (0 to 1) of completions more than 10 µs later than in the model.
    pub late_share: Option<f64>,
    /// Share (0 to 1) of completions that were late while the thread that spun for them had lost its core; None
    /// without emulation in real time, and in runs before this was recorded.
    pub late_away_share: Option<f64>,
    /// Whether O_DIRECT was in effect. None where it has no meaning (in-process, mmap on memory).
    pub direct: Option<bool>,
    /// Reason why O_DIRECT was not in effect; None if it was.
    pub why_not_direct: Option<String>,
    /// Whether NVMe commands bypassed the block layer.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub passthrough: bool,
    /// Content that uncached I/O left in the page cache; None for other I/O.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncached: Option<Uncached>,
    /// Whether the kernel granted MAP_SYNC, with which a mapping bypasses the page cache. None if nothing was mapped.
    pub map_sync: Option<bool>,
    /// Clock of the timestamps; None if time is emulated.
    pub clock: Option<String>,
    /// In virtual time: the warm-up before the ramp, until buffers and caches were at rest; None without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// In virtual time: fill levels of buffers and caches at the start and the end of the window.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stores: Vec<StoreLevel>,
    /// In virtual time: whether writes were skewed although the flash started in the steady state of uniform writes.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub skew_missing: bool,
    /// State of an emulated device at the start of the cell, as text.
    pub device_state: Option<String>,
    /// Reason why the cell was skipped; None if it was issued.
    pub skipped: Option<String>,
    /// Reason why an engine failed; None if none did.
    pub failure: Option<String>,
    /// Precision of a cell that ended early ([`crate::Ended::Settled`]), as text.
    pub settled: Option<String>,
    /// How the cell deviated from its method, as text.
    pub deviation: Option<String>,
    /// Preparation by a step that issued no I/O; None for other cells.
    pub preparation: Option<Preparation>,
    /// Reason why the step could not reuse an earlier run's preparation, if that was requested.
    pub not_reused: Option<String>,
    /// Storage below the target, and the number of the cell's bytes that reached it; None for emulated targets and
    /// for memory of this process.
    pub storage: Option<Storage>,
    /// Activity of the block device that is the target or directly below it. Of cells that ran at the same time on
    /// one device only the first has it, so that a sum over cells counts nothing twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_use: Option<DiskUse>,
    /// First byte addressed by the workload; None if it was not stored.
    pub active_start_bytes: Option<u64>,
    /// Length of the range addressed by the workload, bytes.
    pub active_bytes: u64,
    /// Memory of the machine, bytes.
    pub ram_bytes: Option<u64>,
    /// Share (0 to 1) of the active range whose blocks have ever been written.
    pub written_share: Option<f64>,
    /// Bytes that this run trimmed or zeroed on the target before the cell's end, since the last fill of all of it.
    pub trimmed_bytes: u64,
    /// Proof of a fill of the active range, by its completed writes; None for other cells.
    pub fill: Option<FillProof>,
    /// Number of blocks sampled after the cell, to detect storage that holds only zeroes.
    pub blocks_sampled: u32,
    /// Sampled blocks that held only zeroes.
    pub blocks_zero: u32,
    /// Whether the target could compress or deduplicate the content written.
    pub content_reducible: bool,
    /// Kernel worker threads (io-wq) of this process during the cell: ring requests were handed to them instead of
    /// being submitted inline.
    pub kernel_workers: u32,
    /// CPU time of the kernel workers, ns.
    pub kernel_workers_cpu_ns: u64,
    /// Cost of one operation in the generator itself, ns, from a run of this workload on the null engine with the same
    /// number of workers.
    pub generator_ns_per_io: Option<f64>,
    /// Operations per second of this workload on the null engine, all workers together.
    pub generator_ceiling_iops: Option<f64>,
    /// Number of processors available to the workers.
    pub cpus: u32,
    /// I/O of other programs on the same device during the cell, as a share of ours (0.1 = 10 %).
    pub foreign_share: Option<f64>,
    /// Processor time stolen by the hypervisor during the cell, as a share of the time of all
    /// processors.
    pub steal_share: Option<f64>,
    /// Deviation of the fast clock from the system's over the cell, parts in 10^6.
    pub clock_error_ppm: Option<f64>,
    /// Settings and counters of the machine and the device; None if time is emulated.
    pub conditions: Option<Conditions>,
    /// The replayed trace and its options, as text: equal texts mean equal operations. None for a workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Rank that measured the cell; None for a run of one process, and for the merged cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<RankEvidence>,
    /// Longest time between the start that ranks agreed on and the start of a worker, ns; None for a run of one
    /// process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_late_ns: Option<u64>,
    /// Results of each rank; empty except in the merged cell of several ranks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankFigures>,
    /// Workloads that ran on the same targets at the same time.
    pub beside: Vec<String>,
    /// Number of operations that should have used a recently read or written address before any existed.
    pub recent_misses: u64,
    /// Operations not issued because another one on the same block was in flight (verifiable content only).
    pub overlaps_skipped: u64,
    /// Operations in flight when the target was given up; None if it answered.
    pub hung: Option<Hung>,
    /// First corruption found by verification, as text.
    pub first_corruption: Option<String>,
    /// Result of verifying the reads; None if the content is not verifiable, nothing was read, or the engine moves no
    /// bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// Time of the I/Os by phase, in the order of the phases. In virtual time the machine reports it for all I/Os; in
    /// real time the workers' own stamps give a sample ([`SpentOf::Operation`]).
    pub spent: Vec<Spent>,
    /// In virtual time: utilisation of the machine's parts, except idle ones.
    pub busy: Vec<Busy>,
    /// Number of emulated flash DIMMs that share a driver thread by default; None if each has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modules_per_driver_thread: Option<u32>,
}

impl Evidence {
    /// Whether all or part of the target is stored in this machine's memory, outside this process.
    pub fn is_memory(&self) -> bool {
        self.storage.as_ref().is_some_and(Storage::is_memory)
    }

    /// Adds the phase times of another target's I/Os. Of parts with the same name it keeps the busiest.
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

/// Warm-up of a cell in virtual time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// Length, ns of virtual time.
    pub took_ns: u64,
    /// Buffer or cache whose fill level still changed when the warm-up gave up; None if all were at rest.
    pub unsteady: Option<String>,
    /// Net change of the fill of the `unsteady` buffer or cache, as a share of the bytes that it took in; negative if
    /// it drained.
    pub net_share: Option<f64>,
}

/// Fill levels of the buffers or caches of one kind over a window, summed over the emulated system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoreLevel {
    /// Kind of buffer or cache, such as `disk's write cache`.
    pub store: String,
    /// Fill at the start of the window, bytes.
    pub start_bytes: u64,
    /// Fill at the end of the window, bytes.
    pub end_bytes: u64,
    /// Fill, in bytes, at which the store accepts no more or evicts.
    pub capacity_bytes: u64,
    /// Bytes that the store accepted during the window.
    pub taken_bytes: u64,
    /// Pending bytes that the store could reorder at the start of the window; 0 if it writes in a fixed order.
    pub choice_bytes: u64,
    /// Whether the fill rose in each eighth of the window, or fell in each.
    pub one_way: bool,
}

/// The rank that measured a cell: one of the processes of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankEvidence {
    /// Number of the rank, from 0.
    pub rank: u32,
    /// Name of its host.
    pub host: String,
    /// Uncertainty of the offset of its clock from rank 0's, ns.
    pub clock_bound_ns: u64,
}

/// Operations that a target did not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hung {
    /// Number of operations in flight when the target was given up.
    pub ops: u64,
    /// Time that the oldest of them had been in flight, ns; a lower bound if its worker is stuck in a system call and
    /// can't report it.
    pub oldest_ns: u64,
    /// Workers that did not return from a system call. Their last counts, less than one interval, are missing from the
    /// figures.
    pub stuck_workers: u32,
}

impl Hung {
    /// Adds the operations of another worker or target.
    pub fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.oldest_ns = self.oldest_ns.max(other.oldest_ns);
        self.stuck_workers += other.stuck_workers;
    }
}

/// Time that the I/Os of a cell spent in one phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Name of the phase, such as `page read in the cells`.
    pub phase: String,
    /// Unit of `count`.
    pub of: SpentOf,
    /// Total time, ns.
    pub total_ns: u64,
    /// Number of operations or pages that passed the phase; the unit is in `of`.
    pub count: u64,
}

/// Unit by which a phase is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpentOf {
    /// Whole reads.
    #[default]
    Read,
    /// Whole writes.
    Write,
    /// Flash pages of reads; several pages of one read may be read at the same time.
    Page,
    /// Operations of any kind on a real target, of which a sample was stamped. `submission` is within the latency,
    /// until the submitting call returned; `reaping` is after the latency, until the operation was counted.
    Operation,
}

/// Utilisation of a part of an emulated machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Busy {
    /// Name of the part, such as `flash channels`.
    pub resource: String,
    /// Number of parts with this name.
    pub count: u32,
    /// Mean share of the window in which they were busy, 0 to 1.
    pub share: f64,
}
