//! Verdicts: what a cell's own evidence says about its numbers, in plain words, each with the
//! reason and the way to mend it. Judging is a pure function of the cell, so an old run can be
//! judged again by newer rules.
//!
//! The codes are listed in `docs/verdicts.md`; they are part of the JSON output's contract.

use crate::cell::{Cell, Ended, FAILURE_FACT, Role, SETTLED_FACT, SKIPPED_FACT};
use crate::coverage::FillProof;
use crate::errors::{ErrorKind, errno_text};
use crate::interval::{ClassStats, Interval};
use iodyno_units::{OpKind, human};
use serde::{Deserialize, Serialize};

/// How much a verdict weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The number can be used as it is.
    Valid,
    /// Good to know; the number stands.
    Note,
    /// The number may not mean what it seems to.
    Warning,
    /// The number must not be used.
    Invalid,
}

/// One verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Stable name, upper case with underscores.
    pub code: String,
    /// Weight.
    pub level: Level,
    /// The reason, with the figures, and how to mend it.
    pub text: String,
}

/// Little's law may be off by this share before it is called broken. It is an identity of what was
/// counted, so only a fault can break it.
const LITTLE_TOLERANCE: f64 = 0.001;
/// An open loop has met its rate when at least this share of it was completed.
const RATE_SHARE_MIN: f64 = 0.97;
/// A cell that runs at more than this share of the generator's ceiling measures the generator.
const CEILING_SHARE_MAX: f64 = 0.8;
/// A worker that is busier than this has no time left to reap promptly.
const BUSY_SHARE_MAX: f64 = 0.95;
/// A direct target smaller than this fits into the DRAM or SLC cache of common devices.
const ACTIVE_BYTES_MIN: u64 = 1 << 30;
/// More I/O of others than this, as a share of ours, disturbs. Below it is what a file system's
/// journal writes.
const FOREIGN_SHARE_MAX: f64 = 0.05;
/// Kernel workers that used less than this share of the CPU time carried out a stray request.
const WORKER_SHARE_MIN: f64 = 0.02;
/// Coarse stamps are worth a word when they are this share of the median.
const STAMP_SHARE_MAX: f64 = 0.1;

/// Judges a cell. The list is never empty: without a warning or worse it starts with `VALID`.
pub fn judge(cell: &Cell) -> Vec<Verdict> {
    let total = cell.total();
    let mut found = Vec::new();
    let mut say = |code: &str, level: Level, text: String| {
        found.push(Verdict { code: code.to_owned(), level, text });
    };
    if let Some((code, text)) = not_measured(cell) {
        say(code, Level::Note, text);
        return found;
    }
    emulated(cell, &mut say);
    completeness(cell, &total, &mut say);
    accounting(cell, &total, &mut say);
    generator(cell, &total, &mut say);
    target(cell, &total, &mut say);
    surroundings(cell, &mut say);
    samples(cell, &total, &mut say);
    if found.iter().all(|v| v.level < Level::Warning) {
        let text = "no check found a reason to doubt these numbers".to_owned();
        found.insert(0, Verdict { code: "VALID".to_owned(), level: Level::Valid, text });
    }
    found.sort_by_key(|v| match v.level {
        Level::Invalid => 0,
        Level::Warning => 1,
        Level::Valid => 2,
        Level::Note => 3,
    });
    found
}

type Say<'a> = dyn FnMut(&str, Level, String) + 'a;

/// Was anything real measured?
fn emulated(cell: &Cell, say: &mut Say) {
    if cell.evidence.virtual_time {
        say(
            "EMULATED",
            Level::Note,
            "emulated, in virtual time: what the model of the storage says, not a measurement of one; valid means that the run was sound, not that the model is".to_owned(),
        );
    }
    if cell.evidence.emulated_live {
        say(
            "EMULATED",
            Level::Note,
            "emulated, in real time: what the model of the storage does to this machine's clock; valid means that the run was sound, not that the model is like the device".to_owned(),
        );
    }
    if let Some(late) = cell.evidence.late_share
        && late > LATE_SHARE_MAX
    {
        say(
            "LATE",
            Level::Warning,
            format!(
                "{:.1} % of completions came more than 10 µs later than the model said: this machine is too busy or too small to keep the model's times; stop what else runs, or use model:",
                late * 100.0
            ),
        );
    }
}

/// A step of a method that has nothing to judge: what was left out, and what only prepared.
fn not_measured(cell: &Cell) -> Option<(&'static str, String)> {
    let place = cell.key.place.as_ref()?;
    if let Some(why) = cell.facts.get(SKIPPED_FACT) {
        return Some(("SKIPPED", why.clone()));
    }
    if place.role == Role::Prepare && cell.series.is_empty() && cell.window_ns == 0 {
        let words: Vec<String> = cell.facts.iter().map(|(k, v)| format!("{k}: {v}")).collect();
        return Some(("PREPARATION", words.join("; ")));
    }
    None
}

/// More late completions than this make a live run's times doubtful.
const LATE_SHARE_MAX: f64 = 0.02;

/// Did the cell run to its end, and did the operations succeed?
fn completeness(cell: &Cell, total: &Interval, say: &mut Say) {
    match cell.ended {
        Ended::Interrupted => say(
            "INTERRUPTED",
            Level::Warning,
            format!(
                "stopped after {:.1} s of measuring; what had completed is kept",
                cell.seconds()
            ),
        ),
        Ended::Crashed => say(
            "CRASHED",
            Level::Warning,
            format!(
                "the process died; {:.1} s had reached the notebook and are kept",
                cell.seconds()
            ),
        ),
        Ended::Errors => say(
            "STOPPED_BY_ERRORS",
            Level::Invalid,
            match cell.facts.get(FAILURE_FACT) {
                Some(why) => format!("the run was stopped: {why}"),
                None => "the run was stopped because too many operations failed".to_owned(),
            },
        ),
        Ended::Running => say(
            "RUNNING",
            Level::Warning,
            format!(
                "still being measured: these are the figures of the first {:.1} s",
                cell.seconds()
            ),
        ),
        Ended::Settled => say(
            "SETTLED",
            Level::Note,
            match cell.facts.get(SETTLED_FACT) {
                Some(how) => format!("ended early: {how}"),
                None => "ended early: its steady state was proven".to_owned(),
            },
        ),
        Ended::Time | Ended::Ops | Ended::Bytes => {}
    }
    let errors = total.errors();
    if errors.total() > 0 {
        let words = |(kind, n): (ErrorKind, u64)| match kind {
            ErrorKind::Other if errors.other_errno != 0 => {
                format!("{n} {}, the last {}", kind.words(), errno_text(errors.other_errno))
            }
            _ => format!("{n} {}", kind.words()),
        };
        let kinds: Vec<String> = errors.iter().map(words).collect();
        let share = errors.total() as f64 / (errors.total() + total.ops()) as f64;
        let first = cell.evidence.first_corruption.as_ref();
        let first = first.map_or(String::new(), |c| format!("; first: {c}"));
        say(
            "ERRORS",
            Level::Invalid,
            format!(
                "{} operations failed ({:.3} %): {}{first}; they are not counted as completed",
                errors.total(),
                share * 100.0,
                kinds.join(", ")
            ),
        );
    }
    if total.ops() == 0 {
        // More time is the way to mend it only where time was what was missing.
        let text = match cell.ended {
            Ended::Running => "no operation has completed in the measured window yet",
            Ended::Interrupted | Ended::Crashed => {
                "no operation completed in the measured window before it was cut short"
            }
            _ if cell.ended == Ended::Errors || errors.total() > 0 => {
                "no operation completed in the measured window: what was tried failed"
            }
            _ => "no operation completed in the measured window; give it more time",
        };
        say("NOTHING_COMPLETED", Level::Invalid, text.to_owned());
    }
}

/// Do the numbers agree with each other?
fn accounting(cell: &Cell, total: &Interval, say: &mut Say) {
    let summed_ns: f64 = total.iter().map(|(_, c)| c.service.sum_ns() as f64).sum();
    let area_ns = cell.resources.outstanding_area_ns as f64;
    let whole = matches!(cell.ended, Ended::Time | Ended::Ops | Ended::Bytes | Ended::Settled);
    if total.ops() > 0 && total.errors().total() == 0 && area_ns > 0.0 && whole {
        // Exact, once what was in flight at either end of the window is put in its place.
        let carried_ns = cell.resources.carried_out_ns - cell.resources.carried_in_ns;
        let balanced_ns = summed_ns + carried_ns as f64;
        if (balanced_ns - area_ns).abs() > LITTLE_TOLERANCE * area_ns {
            say(
                "LITTLES_LAW_BROKEN",
                Level::Invalid,
                format!(
                    "throughput × latency gives {:.2} I/Os in flight, {:.2} were counted: this is a fault of iodyno, please report it",
                    balanced_ns / cell.window_ns.max(1) as f64,
                    cell.oio_mean()
                ),
            );
        }
    }
    if let Some(ppm) = cell.evidence.clock_error_ppm
        && ppm.abs() > 500.0
    {
        say(
            "CLOCK",
            Level::Warning,
            format!(
                "the fast clock was off by {ppm:.0} parts in a million from the system's; use --system-clock"
            ),
        );
    }
}

/// Was it the storage that was measured, or iodyno?
fn generator(cell: &Cell, total: &Interval, say: &mut Say) {
    let iops = cell.per_second(total.ops() as f64);
    if let Some(offered) = cell.key.offered_iops {
        let response = total.iter().find_map(|(_, c)| c.response.as_ref());
        if iops < RATE_SHARE_MIN * offered {
            say(
                "RATE_MISSED",
                Level::Warning,
                format!(
                    "{}/s of the {}/s offered were completed and {} operations were due at the end: the target does not sustain this rate, so response times grow with the length of the run; lower --rate or look for the knee",
                    human::count(iops),
                    human::count(offered),
                    cell.backlog_ops
                ),
            );
        } else if let Some(h) = response {
            let p99 = h.supported_quantile_ns(0.99);
            let p99 = p99
                .map_or(String::new(), |v| format!("; response p99 {}", human::time_ns(v as f64)));
            say(
                "RATE_MET",
                Level::Note,
                format!("the rate of {}/s was met{p99}", human::count(offered)),
            );
        }
        late_submission(cell, say);
    }
    let in_process = cell.evidence.in_process;
    if let Some(ceiling) = cell.evidence.generator_ceiling_iops
        && ceiling > 0.0
        && iops > CEILING_SHARE_MAX * ceiling
    {
        let level = if in_process { Level::Note } else { Level::Warning };
        say(
            "GENERATOR_BOUND",
            level,
            format!(
                "{}/s is {:.0} % of what iodyno itself reaches on the null engine ({}/s): this is the generator's speed, not the target's; use more --threads",
                human::count(iops),
                100.0 * iops / ceiling,
                human::count(ceiling)
            ),
        );
    }
    let busiest = cell.resources.busiest_share(cell.window_ns);
    if !in_process && busiest > BUSY_SHARE_MAX && cell.key.depth > 1 && cell.window_ns > 0 {
        say(
            "CPU_BOUND",
            Level::Note,
            format!(
                "a worker used {:.0} % of its core: latencies include waiting for that core; more --threads may go faster",
                busiest * 100.0
            ),
        );
    }
    if u64::from(cell.evidence.cpus) < cell.resources.cpu_user_ns.len() as u64
        && cell.evidence.cpus > 0
        && busiest > 0.5
    {
        say(
            "MORE_WORKERS_THAN_CPUS",
            Level::Note,
            format!(
                "{} workers shared {} processors: latencies include waiting for a processor",
                cell.resources.cpu_user_ns.len(),
                cell.evidence.cpus
            ),
        );
    }
    coarse_stamps(cell, total, say);
}

fn late_submission(cell: &Cell, say: &mut Say) {
    let Some(lateness) = &cell.lateness else {
        return;
    };
    let Some(p99) = lateness.supported_quantile_ns(0.99) else {
        return;
    };
    if p99 > 1_000_000 {
        say(
            "LATE_SUBMISSION",
            Level::Note,
            format!(
                "1 % of the operations were submitted {} or more after their intended start (no free slot, or no processor); response times count from the intended start and include it",
                human::time_ns(p99 as f64)
            ),
        );
    }
}

fn coarse_stamps(cell: &Cell, total: &Interval, say: &mut Say) {
    let Some(span) = cell.stamps.span_mean_ns() else {
        return;
    };
    let median = total.iter().filter_map(|(_, c)| c.service.quantile_ns(0.5)).min().unwrap_or(0);
    if cell.stamps.completions > cell.stamps.reaps
        && span > STAMP_SHARE_MAX * median as f64
        && span > 100.0
    {
        say(
            "COARSE_STAMPS",
            Level::Note,
            format!(
                "completions were reaped {:.1} at a time; their stamps are up to {} late (mean), {} at most",
                cell.stamps.completions as f64 / cell.stamps.reaps.max(1) as f64,
                human::time_ns(span),
                human::time_ns(cell.stamps.span_max_ns as f64)
            ),
        );
    }
}

/// Was it the storage that answered, and in the state that one thinks?
fn target(cell: &Cell, total: &Interval, say: &mut Say) {
    let e = &cell.evidence;
    if e.direct == Some(false) {
        let why = e.why_not_direct.as_deref().unwrap_or("asked for");
        say(
            "PAGE_CACHE",
            Level::Warning,
            format!(
                "buffered I/O ({why}): the page cache answers for the storage, and writes are durable only after a flush"
            ),
        );
    }
    let reads = total.class(OpKind::Read).map_or(0, ClassStats::ops);
    let unwritten = e.written_share.is_some_and(|s| s < 0.999);
    let zeroes =
        e.blocks_sampled >= 16 && f64::from(e.blocks_zero) > 0.05 * f64::from(e.blocks_sampled);
    if reads > 0 && !e.in_process && (unwritten || zeroes) {
        let seen = match e.written_share {
            Some(share) if unwritten => {
                format!("{:.1} % of the range was never written", (1.0 - share) * 100.0)
            }
            _ => {
                format!("{} of {} sampled blocks hold only zeroes", e.blocks_zero, e.blocks_sampled)
            }
        };
        let mend = if e.virtual_time { "take another ?state= or ?fill=" } else { "fill it first" };
        say(
            "NEVER_WRITTEN",
            Level::Warning,
            format!("{seen}: a device answers such reads without touching its medium; {mend}"),
        );
    }
    if let Some(fill) = e.fill.filter(FillProof::is_short) {
        let at = fill.first_gap_bytes.map_or(String::new(), |b| format!(", first at byte {b}"));
        let n = fill.times;
        let times = if n == 1 { "once".to_owned() } else { format!("{n} times") };
        say(
            "PRECONDITIONING_SHORT",
            Level::Warning,
            format!(
                "only {:.2} % of the active range was written {times} as it should have been ({:.2} % at least once, {} in all{at}): what is measured next finds a device in an unknown state; let the fill run to its end",
                floor_percent(fill.times_share),
                floor_percent(fill.once_share),
                human::size(fill.written_bytes)
            ),
        );
    }
    if e.content_reducible && !e.virtual_time && total.class(OpKind::Write).is_some() {
        say(
            "REDUCIBLE_CONTENT",
            Level::Note,
            "the content written can be compressed or deduplicated, as asked; a device that does so writes less than was sent".to_owned(),
        );
    }
    kernel_workers(cell, say);
    // What a small range does on an emulated device is known: it is in the model.
    if e.in_process || e.virtual_time {
        return;
    }
    let small_for_ram =
        e.direct == Some(false) && e.ram_bytes.is_some_and(|r| e.active_bytes < 2 * r);
    if small_for_ram {
        say(
            "SMALL_TARGET",
            Level::Warning,
            format!(
                "the active range of {} is under twice the memory ({}): most of it fits in the page cache",
                human::size(e.active_bytes),
                human::size(e.ram_bytes.unwrap_or(0))
            ),
        );
    } else if e.active_bytes < ACTIVE_BYTES_MIN && e.active_bytes > 0 {
        say(
            "SMALL_TARGET",
            Level::Note,
            format!(
                "the active range of {} may fit in a cache of the device or of its host; a larger ?size= tells more",
                human::size(e.active_bytes)
            ),
        );
    }
}

/// In per cent, cut to two digits: 99.999 % is not all of it.
fn floor_percent(share: f64) -> f64 {
    (share * 1e4).floor() / 1e2
}

/// Did the kernel hand ring requests to threads of its own?
fn kernel_workers(cell: &Cell, say: &mut Say) {
    let (workers, theirs_ns) =
        (cell.evidence.kernel_workers, cell.evidence.kernel_workers_cpu_ns as f64);
    if workers == 0 {
        return;
    }
    let share = theirs_ns / (theirs_ns + cell.resources.cpu_seconds() * 1e9).max(1.0);
    let s = if workers == 1 { "" } else { "s" };
    if share < WORKER_SHARE_MIN {
        say(
            "KERNEL_WORKERS",
            Level::Note,
            format!(
                "the kernel handed some ring requests to {workers} worker thread{s}, which used {:.1} % of the CPU time: too few to matter",
                share * 100.0
            ),
        );
    } else {
        say(
            "KERNEL_WORKERS",
            Level::Warning,
            format!(
                "the kernel handed ring requests to {workers} worker thread{s}, which used {:.0} % of the CPU time: each such I/O pays for a thread switch; use --engine psync or libaio here",
                share * 100.0
            ),
        );
    }
}

/// Was anybody else there?
fn surroundings(cell: &Cell, say: &mut Say) {
    let e = &cell.evidence;
    if let Some(share) = e.foreign_share
        && share > FOREIGN_SHARE_MAX
    {
        say(
            "FOREIGN_IO",
            Level::Warning,
            format!(
                "others used the device meanwhile: {:.0} % on top of this run's own I/O",
                share * 100.0
            ),
        );
    }
    if let Some(share) = e.steal_share
        && share > 0.02
    {
        say(
            "STOLEN_CPU",
            Level::Note,
            format!(
                "the hypervisor took {:.0} % of the processors' time for others: expect tails that are not the storage's",
                share * 100.0
            ),
        );
    }
    if e.recent_misses > 0 {
        say(
            "NOTHING_RECENT",
            Level::Note,
            format!(
                "{} draws asked for a block lately used before there was one, and were drawn at random",
                e.recent_misses
            ),
        );
    }
    if e.overlaps_skipped > 0 {
        say(
            "OVERLAPS_SKIPPED",
            Level::Note,
            format!(
                "{} operations met a block that was in flight and were replaced by the next draw: verified content allows one writer at a time",
                e.overlaps_skipped
            ),
        );
    }
}

/// Which percentiles can't be supported?
fn samples(cell: &Cell, total: &Interval, say: &mut Say) {
    let shown = [(0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99"), (0.99999, "p99.999")];
    for (kind, stats) in total.iter() {
        let h = stats.felt();
        let hidden = shown.iter().find(|(q, _)| !h.supports(*q));
        if let Some((q, name)) = hidden
            && *q < 0.9999
            && h.count() > 0
        {
            let needed = (crate::histogram::EXCEEDANCES_MIN / (1.0 - q)).round();
            say(
                "FEW_SAMPLES",
                Level::Note,
                format!(
                    "{} {} operations can't support {name} (which needs {needed:.0}): it is not printed",
                    h.count(),
                    kind.name()
                ),
            );
        }
    }
    if cell.window_ns > 0 && cell.window_ns < 1_000_000_000 && total.ops() > 0 {
        say(
            "SHORT",
            Level::Note,
            format!(
                "measured for only {}: background work of a device is slower than that",
                human::duration_ns(cell.window_ns)
            ),
        );
    }
}
