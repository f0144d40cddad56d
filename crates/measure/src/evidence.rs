//! What was seen beside the numbers, and what verdicts are judged by: how the target was opened,
//! whether the page cache or kernel workers were in the path, whether the blocks had ever been
//! written, what the generator itself costs. Gathered by `drive` and `run`; `None` is "unknown",
//! which is never taken for "fine". Words that only people read are a cell's `facts`.

use crate::conditions::Conditions;
use crate::coverage::FillProof;
use crate::ranks::RankFigures;
use crate::storage::{DiskUse, Storage, Uncached};
use crate::verification::Verification;
use serde::{Deserialize, Serialize};

/// What a step of a method did that issued no I/O, and the words for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preparation {
    /// Purged what can be purged and was named for it.
    Purged(String),
    /// Constructed emulated devices in the state that a fill would leave.
    Constructed(String),
    /// Waited for so long.
    Waited(String),
    /// Kept what an earlier run left: which run, and why it is believed.
    Reused(String),
}

impl Preparation {
    /// The fact that people read of it.
    pub fn fact(&self) -> (&'static str, &str) {
        match self {
            Self::Purged(words) => ("purge", words),
            Self::Constructed(words) => ("fill", words),
            Self::Waited(words) => ("waited", words),
            Self::Reused(words) => ("reused", words),
        }
    }
}

/// Evidence of one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// The target is memory of this process (`ram:`, `null:`): no kernel, no device.
    pub in_process: bool,
    /// The target is emulated and so is the time: this machine's processors, memory and clock have no effect on
    /// the figures.
    pub virtual_time: bool,
    /// The target is emulated, in real time.
    pub emulated_live: bool,
    /// Share (0 to 1) of its completions that came more than 10 µs later than in the model.
    pub late_share: Option<f64>,
    /// Share (0 to 1) of its completions that were late while the thread that spun for them had no core; None
    /// where nothing is emulated live, and in runs before this was recorded.
    pub late_away_share: Option<f64>,
    /// O_DIRECT was in effect. None where it has no meaning (in-process, mmap on memory).
    pub direct: Option<bool>,
    /// Why it was not, when it was not.
    pub why_not_direct: Option<String>,
    /// NVMe commands were sent past the block layer.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub passthrough: bool,
    /// What uncached I/O left in the page cache; None for any other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncached: Option<Uncached>,
    /// The kernel granted MAP_SYNC: a mapping bypasses the page cache. None where nothing was mapped.
    pub map_sync: Option<bool>,
    /// The clock of the timestamps; None where time is emulated.
    pub clock: Option<String>,
    /// In virtual time: how the workload ran before the ramp, until buffers and caches were at rest; None where it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// In virtual time: the fill of buffers and caches over the window.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stores: Vec<StoreLevel>,
    /// The state that the cell found an emulated device in, in words.
    pub device_state: Option<String>,
    /// Why the cell was not issued at all; None where it was.
    pub skipped: Option<String>,
    /// Why an engine could not go on, where one could not.
    pub failure: Option<String>,
    /// How well a cell is known that ended before its time ([`crate::Ended::Settled`]), in words.
    pub settled: Option<String>,
    /// In how far the cell deviates from its method, in words.
    pub deviation: Option<String>,
    /// What a step of a method did instead of measuring.
    pub preparation: Option<Preparation>,
    /// Why the step could not reuse an earlier run's preparation, where that was asked for.
    pub not_reused: Option<String>,
    /// What stores the target's bytes, and how many of the cell's reached it; None for emulated targets and for
    /// memory of this process.
    pub storage: Option<Storage>,
    /// What the device did that the target is or lies on directly. Of cells that ran at the same time on one
    /// device, the first has it, so that a sum over cells counts nothing twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_use: Option<DiskUse>,
    /// The first byte that the workload addressed; None where that was not kept.
    pub active_start_bytes: Option<u64>,
    /// Bytes that the workload addressed.
    pub active_bytes: u64,
    /// Memory of the machine, bytes.
    pub ram_bytes: Option<u64>,
    /// Share (0 to 1) of the active range whose blocks have ever been written.
    pub written_share: Option<f64>,
    /// Bytes that this run trimmed or zeroed on the target before the cell's end and after the last fill of all of it.
    pub trimmed_bytes: u64,
    /// The proof of a fill of the active range by its own completions; None for any other cell.
    pub fill: Option<FillProof>,
    /// Blocks that were sampled after the cell, and how many of them held only zeroes.
    pub blocks_sampled: u32,
    /// See [`Self::blocks_sampled`].
    pub blocks_zero: u32,
    /// Whether the content written could be compressed or deduplicated by the target.
    pub content_reducible: bool,
    /// Kernel worker threads (io-wq) that this process had during the cell: ring requests were
    /// handed to them instead of being started in line.
    pub kernel_workers: u32,
    /// CPU time that they used, ns.
    pub kernel_workers_cpu_ns: u64,
    /// Cost of one operation of this workload in the generator itself, ns, calibrated on the null
    /// engine with as many workers.
    pub generator_ns_per_io: Option<f64>,
    /// Operations a second that this workload reached on the null engine, all workers together.
    pub generator_ceiling_iops: Option<f64>,
    /// Processors that the workers could run on.
    pub cpus: u32,
    /// I/O of other programs on the same device during the cell, as a share of ours (0.1 = 10 %).
    pub foreign_share: Option<f64>,
    /// Processor time stolen by the hypervisor during the cell, as a share of the time of all
    /// processors.
    pub steal_share: Option<f64>,
    /// Difference of the fast clock from the system's over the cell, parts in 10^6.
    pub clock_error_ppm: Option<f64>,
    /// Settings of the machine and the device, and their counters; None where time is emulated.
    pub conditions: Option<Conditions>,
    /// The trace that was issued, and how, in words: equal ones stand for equal operations. None for a workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The process that measured it, where several measured one run; None for a run of one process, and for the merged
    /// cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<RankEvidence>,
    /// The longest time between the start that processes agreed on and that of a worker, ns; None for a run of one
    /// process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_late_ns: Option<u64>,
    /// The figures of each process, in the merged cell of several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankFigures>,
    /// The workloads that ran on the same targets at the same time.
    pub beside: Vec<String>,
    /// Draws that needed a recently read or written address before there was one.
    pub recent_misses: u64,
    /// Operations not issued because an operation on the same block was in flight (verifiable
    /// content only).
    pub overlaps_skipped: u64,
    /// Operations in flight when the target was given up; None where it answered.
    pub hung: Option<Hung>,
    /// The first corruption that verification found, in words.
    pub first_corruption: Option<String>,
    /// The result of verifying the reads; None where the content is not verifiable, nothing was read, or no
    /// bytes move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// The time of the I/Os by phase, in order. In virtual time the machine reports all of it; in real time the
    /// workers' own stamps give a sample ([`SpentOf::Operation`]).
    pub spent: Vec<Spent>,
    /// In virtual time: how busy the parts of the machine were, as far as they were at all.
    pub busy: Vec<Busy>,
    /// Emulated flash DIMMs that share a driver thread by their default; None where each has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modules_per_driver_thread: Option<u32>,
}

impl Evidence {
    /// The target's bytes are memory of the machine, though not of this process.
    pub fn is_memory(&self) -> bool {
        self.storage.as_ref().is_some_and(Storage::is_memory)
    }

    /// Adds the phase times of another target's I/Os; of parts of one name the busiest counts.
    pub fn add_usage(&mut self, other: &Self) {
        self.add_spent(&other.spent);
        for theirs in &other.busy {
            match self.busy.iter_mut().find(|b| b.resource == theirs.resource) {
                Some(mine) => mine.share = mine.share.max(theirs.share),
                None => self.busy.push(theirs.clone()),
            }
        }
    }

    /// Adds the phase times of more I/Os of the same cell.
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

/// The warm-up of a cell in virtual time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// Its length, ns of virtual time.
    pub took_ns: u64,
    /// The buffer or cache that was not at rest when it gave up; None: all were at rest.
    pub unsteady: Option<String>,
    /// What that one gained, as a share of what it took in; below 0: lost.
    pub net_share: Option<f64>,
}

/// The fill of the buffers or caches of one kind over a window, summed over the emulated system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoreLevel {
    /// The kind, such as `disk's write cache`.
    pub store: String,
    /// Fill at the start of the window.
    pub start_bytes: u64,
    /// Fill at its end.
    pub end_bytes: u64,
    /// Fill at which it takes no more, or replaces what it holds.
    pub capacity_bytes: u64,
    /// Taken in during the window.
    pub taken_bytes: u64,
    /// At the start, that among which it chose what to write next; 0 without a choice.
    pub choice_bytes: u64,
    /// The fill rose in each eighth of the window, or fell in each.
    pub one_way: bool,
}

/// One of the processes that measure a run together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankEvidence {
    /// Its number, from 0.
    pub rank: u32,
    /// The name of its host.
    pub host: String,
    /// Its clock's offset from rank 0's is known to this, ns.
    pub clock_bound_ns: u64,
}

/// Operations that a target did not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hung {
    /// In flight when they were given up.
    pub ops: u64,
    /// How long the oldest of them had been in flight, ns; at least that long where its worker is stuck in a
    /// system call and can't report it.
    pub oldest_ns: u64,
    /// Workers that did not return from a system call: their last counts, less than an interval's work, are
    /// missing in the figures.
    pub stuck_workers: u32,
}

impl Hung {
    /// Adds those of another worker or target.
    pub fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.oldest_ns = self.oldest_ns.max(other.oldest_ns);
        self.stuck_workers += other.stuck_workers;
    }
}

/// Time that the I/Os of a cell spent in one phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// The phase, such as `page read in the cells`.
    pub phase: String,
    /// The unit that it is counted by.
    pub of: SpentOf,
    /// Total time, ns.
    pub total_ns: u64,
    /// Number of units.
    pub count: u64,
}

/// The unit by which the time of a phase is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpentOf {
    /// Whole reads.
    #[default]
    Read,
    /// Whole writes.
    Write,
    /// Flash pages of reads, which several of one read may pass side by side.
    Page,
    /// Operations of any kind of a real target, of which a sample was stamped: `submission`, within the
    /// latency, until the submitting call returned; `reaping`, after the latency, until it was counted.
    Operation,
}

/// The utilisation of a part of an emulated machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Busy {
    /// Its name, such as `flash channels`.
    pub resource: String,
    /// How many of them there are.
    pub count: u32,
    /// Share of the window in which they were busy, on average: 0 to 1.
    pub share: f64,
}
