//! Warm-up of a cell in virtual time: the workload runs until buffers and caches stop filling or draining. Only then
//! does the ramp begin.
//!
//! A buffer or cache has settled if its net gain over the second half of the elapsed time is less than
//! [`NET_SHARE_MAX`] of the bytes written to it. Checks are made at doubling times, so the warm-up lasts some
//! hundredths of a second for an SSD's buffer, and minutes for a buffer that takes minutes to fill. The caches of
//! disks, which may take hours, are filled directly if writes are uniformly random. The limit is a number of events
//! rather than a time, so that the result is the same on every machine.

use crate::plan::{CellPlan, active_range};
use iodyno_emulate::spec::Kind;
use iodyno_emulate::{Keeps, Machine, Store};
use iodyno_measure::{Cell, StoreLevel};
use iodyno_units::{OpKind, human};
use iodyno_workload::{CellSpec, Pattern, Spec};
use std::ops::Range;

/// A buffer or cache has settled if its net gain is below this fraction of the bytes written to it.
const NET_SHARE_MAX: f64 = 0.01;
/// Duration of the warm-up before the first check, ns.
const FIRST_CHECK_NS: u64 = 10_000_000;
/// Minimum number of operations between two checks for a decision.
const COMPLETIONS_MIN: u64 = 512;
/// Name of the only buffer or cache that a warm-up can fill directly, without I/O.
const DISK: &str = "disk's write cache";
/// Fill level of a disk's write cache, as a fraction of its size, above which the disk writes to the medium urgently.
const URGENT_SHARE: f64 = 0.75;
/// Number of completed operations after which the trend of a buffer's or cache's fill level is known.
const FILL_COMPLETIONS: u64 = 4096;
/// Amount of data that a disk's write cache must write back before it counts as settled, as a multiple of the dirty
/// data in its reordering window.
const TURNS_MIN: f64 = 1.5;
/// Number of SSD events that cost as much CPU time as one event of a disk.
const DISK_EVENT_COST: u64 = 8;
/// Virtual time limit of a warm-up, ns: 30 days.
const TIME_MAX_NS: u64 = 30 * 86_400_000_000_000;
/// Ratio of active range to cache size above which the warm-up ignores a read cache. The effect of the cache on
/// uniformly random reads is then at most 5 %.
const RANGE_PER_CACHE_MAX: u64 = 20;

/// Result of a warm-up: its duration, and whether all buffers and caches were at rest.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Warmed {
    /// Duration of the warm-up in virtual time, ns.
    pub(super) took_ns: u64,
    /// Buffer or cache whose fill level still changed when the warm-up reached its limit; `None` if there was none.
    pub(super) unsteady: Option<Unsteady>,
}

/// A buffer or cache whose fill level still changes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unsteady {
    pub(super) name: &'static str,
    /// Net gain of the fill level since the previous check, as a fraction of the bytes written to the buffer or
    /// cache.
    pub(super) net_share: f64,
}

/// State of a warm-up in progress.
#[derive(Debug)]
pub(super) struct WarmUp {
    start_ns: u64,
    /// Time of the next check, ns. Events at the same time come after the check.
    pub(super) check_ns: u64,
    /// Time from the previous check to the next, ns.
    step_ns: u64,
    /// Fill levels of all buffers and caches at the previous check.
    before: Vec<Store>,
    /// Number of operations that had completed at the previous check.
    completions: u64,
    /// Fill levels of all buffers and caches at the start of the warm-up, or after a disk's cache was last filled
    /// directly.
    since: Vec<Store>,
    events_end: u64,
    relevance: Relevance,
}

impl WarmUp {
    /// Begins a warm-up at `start_ns`. `None` if the plan has no warm-up, or if no buffer or cache affects the
    /// workloads.
    pub(super) fn of(plan: &CellPlan, machine: &Machine, start_ns: u64) -> Option<Self> {
        let events_max =
            plan.warm_up_events_max.filter(|_| why_not_warmed_up(&plan.cell).is_none())?;
        let relevance = Relevance::of(plan, machine);
        let before = machine.stores();
        // An event of a disk costs as much as many of an SSD, because a disk searches for the shortest way.
        let mut devices = machine.system().devices();
        let has_disks = devices.any(|device| matches!(device.device.kind, Kind::Disk(_)));
        let events_max = if has_disks { events_max / DISK_EVENT_COST } else { events_max };
        before.iter().any(|store| relevance.has(store)).then(|| Self {
            start_ns,
            check_ns: start_ns + FIRST_CHECK_NS,
            step_ns: FIRST_CHECK_NS,
            since: before.clone(),
            before,
            completions: 0,
            events_end: machine.events() + events_max,
            relevance,
        })
    }

    /// Checks the fill levels of all buffers and caches after a total of `completions`. Returns `None` if the warm-up
    /// must continue until [`Self::check_ns`].
    #[cold]
    pub(super) fn check(&mut self, machine: &mut Machine, completions: u64) -> Option<Warmed> {
        let took_ns = self.check_ns - self.start_ns;
        let now = machine.stores();
        let unsteady = self.unsteady(&now);
        let is_over = machine.events() > self.events_end || took_ns >= TIME_MAX_NS;
        let is_known = completions - self.completions >= COMPLETIONS_MIN && self.has_turned(&now);
        if is_over || (unsteady.is_none() && is_known) {
            return Some(Warmed { took_ns, unsteady });
        }
        let share = unsteady
            .filter(|_| is_known || completions >= FILL_COMPLETIONS)
            .and_then(|_| self.fill_share(&now));
        if let Some(share) = share {
            machine.fill_write_caches(share);
            self.before = machine.stores();
            self.since.clone_from(&self.before);
        } else {
            self.before = now;
            self.step_ns = took_ns.max(self.step_ns);
        }
        self.completions = completions;
        self.check_ns += self.step_ns;
        None
    }

    /// True if every disk's write cache has reached its long-run state: since the start, or since it was filled
    /// directly, it has written back enough sectors.
    fn has_turned(&self, now: &[Store]) -> bool {
        self.since.iter().zip(now).all(|(since, now)| {
            let written = now.passed_bytes.saturating_sub(since.passed_bytes) as f64
                - (now.held_bytes as f64 - since.held_bytes as f64);
            !self.relevance.has(now)
                || self.relevance.writes_in_order
                || written >= TURNS_MIN * now.choice_bytes as f64
        })
    }

    /// Fraction of their size up to which the disks' write caches are filled directly: first to the level at which
    /// writes to the medium become urgent, then completely. `None` unless the fill rises so slowly that a third of the
    /// remaining rise would take longer than the warm-up so far.
    fn fill_share(&self, now: &[Store]) -> Option<f64> {
        let before = self.before.iter().find(|store| store.name == DISK)?;
        let store = now.iter().find(|store| store.name == DISK)?;
        let gain = store.held_bytes.saturating_sub(before.held_bytes) as f64;
        let left = store.capacity_bytes.saturating_sub(store.held_bytes) as f64;
        let share = store.held_bytes as f64 / store.capacity_bytes as f64;
        let is_slow = gain > 0.0
            && left / 3.0 * self.step_ns as f64 > gain * (self.check_ns - self.start_ns) as f64;
        let is_rising = self.relevance.writes_uniformly && net_share(before, store) > NET_SHARE_MAX;
        (is_slow && is_rising).then_some(if share < URGENT_SHARE {
            URGENT_SHARE + 0.01
        } else {
            1.0
        })
    }

    /// The buffer or cache whose fill level has the largest net gain or loss; `None` if all are at rest.
    fn unsteady(&self, now: &[Store]) -> Option<Unsteady> {
        let of_one = |store: &Store| {
            let before = self.before.iter().find(|before| before.name == store.name)?;
            let net_share = net_share(before, store);
            (self.relevance.has(store) && net_share.abs() > NET_SHARE_MAX)
                .then_some(Unsteady { name: store.name, net_share })
        };
        let all = now.iter().filter_map(of_one);
        all.max_by(|a, b| a.net_share.abs().total_cmp(&b.net_share.abs()))
    }
}

/// Why buffers and caches can't be warmed up before this cell, in words. `None` if all its workloads can run for any
/// time before the window.
pub fn why_not_warmed_up(cell: &CellSpec) -> Option<&'static str> {
    if cell.replay.is_some() {
        return Some("the operations of a replay are those of its trace");
    }
    if cell.fill_passes.is_some() {
        return Some("a fill writes each block a fixed number of times");
    }
    std::iter::once(cell).chain(&cell.beside).find_map(|cell| why_ends(&cell.spec))
}

/// Why a workload can't run for any time before its window. A limited number of operations or bytes is a sequence with
/// a beginning; a message log measures from its start.
fn why_ends(spec: &Spec) -> Option<&'static str> {
    let limits = spec.limits();
    let ends = |kind| {
        let mut addresses = spec.addresses(kind).iter();
        addresses.any(|address| matches!(address.pattern, Pattern::ToEnd))
    };
    if limits.ops.is_some() || limits.bytes.is_some() || limits.passes.is_some() {
        return Some("the workload is a number of operations or bytes");
    }
    if spec.log().is_some() {
        return Some("a message log is measured from its start");
    }
    spec.kinds().any(|(kind, _)| ends(kind)).then_some("the workload ends at the end of its range")
}

/// Net gain of a buffer or cache, as a fraction of the bytes written to it in the same period, or of its size if
/// nothing was written. Negative if it empties.
fn net_share(before: &Store, after: &Store) -> f64 {
    let gain = after.held_bytes as f64 - before.held_bytes as f64;
    let passed = after.passed_bytes.saturating_sub(before.passed_bytes) as f64;
    let of = if passed > 0.0 { passed } else { after.capacity_bytes as f64 };
    if gain == 0.0 { 0.0 } else { gain / of.max(gain.abs()) }
}

/// Properties of a cell's workloads that determine which buffers and caches of the machine affect the measured
/// values.
#[derive(Clone, Debug)]
pub(super) struct Relevance {
    reads: bool,
    writes: bool,
    /// Whether all writes are uniformly random.
    writes_uniformly: bool,
    /// Whether all writes are sequential.
    writes_in_order: bool,
    /// Whether some addresses are accessed more often than others.
    is_skewed: bool,
    /// Total size of the workloads' active ranges over all targets. The next field is the total capacity of the
    /// volumes.
    active_bytes: u64,
    capacity_bytes: u64,
}

impl Relevance {
    pub(super) fn of(plan: &CellPlan, machine: &Machine) -> Self {
        let specs: Vec<&Spec> =
            (0..plan.targets.len()).map(|target| &plan.cell_on(target).spec).collect();
        let any = |is: fn(&Spec) -> bool| specs.iter().any(|spec| is(spec));
        let active = |(target, spec): (usize, &&Spec)| {
            let Range { start, end } =
                active_range(spec, plan.targets[target].medium.capacity_bytes());
            end.saturating_sub(start)
        };
        Self {
            reads: any(|spec| spec.issues(OpKind::Read)),
            writes: any(|spec| spec.issues(OpKind::Write) || spec.issues(OpKind::WriteZeroes)),
            writes_uniformly: specs.iter().all(|spec| writes_by(spec, is_uniform)),
            writes_in_order: specs.iter().all(|spec| writes_by(spec, is_in_order)),
            is_skewed: any(is_skewed),
            active_bytes: specs.iter().enumerate().map(active).sum(),
            capacity_bytes: (0..machine.volumes()).map(|v| machine.capacity_bytes(v)).sum(),
        }
    }

    /// True if the fill level of this buffer or cache affects the measured values of the workloads.
    pub(super) fn has(&self, store: &Store) -> bool {
        match store.keeps {
            Keeps::Dirty => self.writes,
            Keeps::Copies => {
                let reach_bytes = store.capacity_bytes.saturating_mul(RANGE_PER_CACHE_MAX);
                self.reads && (self.is_skewed || self.active_bytes <= reach_bytes)
            }
            Keeps::Sample => {
                self.reads && (self.is_skewed || self.active_bytes < self.capacity_bytes / 100 * 99)
            }
            // They may last for hours. A cell that uses them up has a warning.
            Keeps::Credits => false,
        }
    }
}

fn is_uniform(pattern: &Pattern) -> bool {
    matches!(pattern, Pattern::Uniform { .. })
}

fn is_in_order(pattern: &Pattern) -> bool {
    matches!(pattern, Pattern::Sequential { run: None, .. } | Pattern::ToEnd)
}

/// True if `is` holds for the address patterns of all writes.
fn writes_by(spec: &Spec, is: fn(&Pattern) -> bool) -> bool {
    let all = |kind| spec.addresses(kind).iter().all(|address| is(&address.pattern));
    spec.kinds().filter(|(kind, _)| kind.changes_content()).all(|(kind, _)| all(kind))
}

fn is_skewed(spec: &Spec) -> bool {
    let is = |kind| spec.addresses(kind).iter().any(|address| address.pattern.is_skewed());
    spec.kinds().any(|(kind, _)| is(kind))
}

/// Samples of the fill levels of all buffers and caches during the window, one per `stride` calls of [`Self::look`].
#[derive(Debug, Default)]
pub(super) struct Levels {
    /// Samples at the start of the window, during it and at its end; each has the fill level of every buffer and
    /// cache.
    samples: Vec<Vec<Store>>,
    /// Virtual time of the last sample, ns.
    at_ns: u64,
    /// Number of calls of [`Self::look`] per sample; doubled when half of the samples are discarded. The next field
    /// counts the calls left until the next sample.
    stride: u32,
    left: u32,
}

/// Number of samples at which every second one is discarded to make room.
const SAMPLES_MAX: usize = 64;

impl Levels {
    /// Takes a sample of the fill levels at every `stride`-th call.
    #[cold]
    pub(super) fn look(&mut self, machine: &Machine) {
        if self.left > 0 {
            self.left -= 1;
            return;
        }
        self.take(machine);
        if self.samples.len() >= SAMPLES_MAX {
            let mut number = 0;
            self.samples.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.stride = 2 * self.stride.max(1);
        }
        self.left = self.stride.max(1) - 1;
    }

    /// Takes a sample, unless virtual time has not advanced since the last one.
    pub(super) fn take(&mut self, machine: &Machine) {
        if self.samples.is_empty() || machine.now_ns() > self.at_ns {
            self.at_ns = machine.now_ns();
            self.samples.push(machine.stores());
        }
    }

    /// For every buffer and cache, its fill level at the start and at the end of the window, and whether the level only
    /// rose or only fell. Empty without a window.
    pub(super) fn of_window(&self) -> Vec<Fill> {
        let (Some(first), Some(last)) = (self.samples.first(), self.samples.last()) else {
            return Vec::new();
        };
        let of_one = |(at, (first, last)): (usize, (&Store, &Store))| Fill {
            first: *first,
            last: *last,
            one_way: self.goes_one_way(at),
        };
        first.iter().zip(last).enumerate().map(of_one).collect()
    }

    /// Whether a fill level rose in every eighth of the window, or fell in every eighth. Noise around a constant level
    /// does so with a probability of 1 in 128. `None` in a window with too few samples.
    fn goes_one_way(&self, at: usize) -> Option<bool> {
        const PARTS: usize = 8;
        let last = self.samples.len() - 1;
        if last < PARTS {
            return None;
        }
        let held = |part: usize| self.samples[part * last / PARTS][at].held_bytes;
        let rises = (0..PARTS).all(|part| held(part + 1) > held(part));
        Some(rises || (0..PARTS).all(|part| held(part + 1) < held(part)))
    }
}

/// Minimum net loss of burst credits in a window that counts as using them up, as a fraction of the credits that
/// operations took. It counts even if the credits ran out early in the window, or the window has few samples. Below the
/// base rate, the loss is smaller.
const NET_LOSS_MIN: f64 = 0.1;

/// Fill level of a buffer, a cache or burst credits at the start and at the end of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    first: Store,
    last: Store,
    /// Whether the level only rose or only fell; `None` if the window has too few samples.
    one_way: Option<bool>,
}

impl Fill {
    fn has_changed(&self) -> bool {
        self.first.held_bytes != self.last.held_bytes
    }

    /// Bytes that entered in the window, or the credits that operations took.
    fn taken_bytes(&self) -> u64 {
        self.last.passed_bytes.saturating_sub(self.first.passed_bytes)
    }

    /// Whether the burst credits were being used up. A limit is the same whether its credits are few or many, until
    /// there are none, so their growth does not matter.
    fn uses_up_credits(&self) -> bool {
        let loss = self.first.held_bytes.saturating_sub(self.last.held_bytes);
        let is_large = loss as f64 >= NET_LOSS_MIN * self.taken_bytes() as f64;
        loss > 0 && (self.one_way == Some(true) || is_large)
    }
}

/// Fill levels to report: those of burst credits, and of buffers and caches that affect the workloads. Omits stores
/// that neither received data nor changed.
pub(super) fn levels(relevance: &Relevance, fills: &[Fill]) -> Vec<StoreLevel> {
    let level = |fill: &Fill| StoreLevel {
        store: fill.first.name.to_owned(),
        start_bytes: fill.first.held_bytes,
        end_bytes: fill.last.held_bytes,
        capacity_bytes: fill.first.capacity_bytes,
        taken_bytes: fill.taken_bytes(),
        // Sequential writes leave nothing to choose.
        choice_bytes: if relevance.writes_in_order { 0 } else { fill.first.choice_bytes },
        one_way: match fill.first.keeps {
            Keeps::Credits => fill.uses_up_credits(),
            _ => fill.one_way.unwrap_or(false),
        },
    };
    let is_reported = |fill: &&Fill| match fill.first.keeps {
        Keeps::Credits => fill.has_changed(),
        _ => relevance.has(&fill.first) && (fill.has_changed() || fill.taken_bytes() > 0),
    };
    fills.iter().filter(is_reported).map(level).collect()
}

/// Records the warm-up's result, or why there was none, and the fill levels of buffers and caches as evidence in a cell
/// of this plan.
pub(super) fn record(
    plan: &CellPlan,
    warmed: Option<&Warmed>,
    levels: &[StoreLevel],
    cell: &mut Cell,
) {
    cell.evidence.stores = levels.to_vec();
    let Some(Warmed { took_ns, unsteady }) = warmed else {
        let why = plan.warm_up_events_max.and_then(|_| why_not_warmed_up(&plan.cell));
        if let Some(why) = why.filter(|_| !levels.is_empty()) {
            cell.facts.insert("warm-up".to_owned(), format!("none: {why}"));
        }
        return;
    };
    let length = human::duration_ns(*took_ns);
    let words = match unsteady {
        None => format!("{length} of virtual time, until buffers and caches were stationary"),
        Some(unsteady) => format!("{length} of virtual time; {} not yet stationary", unsteady.name),
    };
    cell.facts.insert("warm-up".to_owned(), words);
    cell.evidence.warm_up = Some(iodyno_measure::WarmUp {
        took_ns: *took_ns,
        unsteady: unsteady.as_ref().map(|unsteady| unsteady.name.to_owned()),
        net_share: unsteady.as_ref().map(|unsteady| unsteady.net_share),
    });
}
