//! Warm-up of a cell in virtual time: the workload runs until what buffers and caches hold has stopped to rise or fall. Only
//! then the ramp begins.
//!
//! A store is at rest if it gained less than [`NET_SHARE_MAX`] of what it took in, over the second half of the time so far.
//! That is checked at times that double, so a store that takes minutes to fill is followed for minutes, and an SSD's
//! buffer for some hundredths of a second. The caches of disks, which may take hours, are filled instead, where writes are
//! uniformly random. Events bound the effort, not time: the result is the same on every machine.

use crate::plan::{CellPlan, active_range};
use iodyno_emulate::spec::Kind;
use iodyno_emulate::{Keeps, Machine, Store};
use iodyno_measure::{Cell, StoreLevel};
use iodyno_units::{OpKind, human};
use iodyno_workload::{Pattern, Spec};

/// Net gain of a store at rest, as a share of what it took in.
const NET_SHARE_MAX: f64 = 0.01;
/// Time until the first check, ns.
const FIRST_CHECK_NS: u64 = 10_000_000;
/// Completions until the first check: fewer show no trend.
const COMPLETIONS_MIN: u64 = 512;
/// The kind of store that can be filled.
const DISK: &str = "disk's write cache";
/// The fill from which on a disk's writes to the medium are urgent.
const URGENT_SHARE: f64 = 0.75;
/// Completions after which the trend of a fill is known.
const FILL_COMPLETIONS: u64 = 4096;
/// A disk's cache is at rest after it has written its choice of sectors this many times over.
const TURNS_MIN: f64 = 1.5;
/// Events of an SSD that cost as much as one of a disk.
const DISK_EVENT_COST: u64 = 8;
/// Virtual time after which it gives up, ns: 30 days.
const TIME_MAX_NS: u64 = 30 * 86_400_000_000_000;
/// A cache of copies has an effect of up to 5 % on uniform reads of a range that is so many times as large: it is not waited
/// for.
const RANGE_PER_CACHE_MAX: u64 = 20;

/// How a warm-up ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Warmed {
    /// Its length, ns.
    pub(super) took_ns: u64,
    /// The store that was not at rest when it gave up; None: all were.
    pub(super) unsteady: Option<Unsteady>,
}

/// A store whose fill still changes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unsteady {
    pub(super) name: &'static str,
    /// Gain since the check before, as a share of what the store took in.
    pub(super) net_share: f64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct WarmUp {
    start_ns: u64,
    /// The first instant after the next check.
    pub(super) check_ns: u64,
    /// Time from the check before to the next one.
    step_ns: u64,
    /// At the check before.
    before: Vec<Store>,
    /// Completions at the check before.
    completions: u64,
    /// At the start, or when a store was last filled.
    since: Vec<Store>,
    events_end: u64,
    relevance: Relevance,
}

impl WarmUp {
    /// Starts at `start_ns`. None for a plan without one, and where no store has an effect.
    pub(super) fn of(plan: &CellPlan, machine: &Machine, start_ns: u64) -> Option<Self> {
        let events_max = plan.warm_up_events_max.filter(|_| can_go_on(plan))?;
        let relevance = Relevance::of(plan, machine);
        let before = machine.stores();
        // An event of a disk costs as much as many of an SSD: it looks for the shortest way.
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

    /// Checks the stores after `completions` in all. None: the warm-up continues until [`Self::check_ns`].
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

    /// Whether each disk's cache has written back enough sectors, since the start or its last fill, to be in its long-run state.
    fn has_turned(&self, now: &[Store]) -> bool {
        self.since.iter().zip(now).all(|(since, now)| {
            let written = now.passed_bytes.saturating_sub(since.passed_bytes) as f64
                - (now.held_bytes as f64 - since.held_bytes as f64);
            !self.relevance.has(now)
                || self.relevance.writes_in_order
                || written >= TURNS_MIN * now.choice_bytes as f64
        })
    }

    /// The share up to which the caches of disks are to be filled, where their fill rises so slowly that a third of the
    /// rest takes longer than the time so far: first to the mark from which on writes to the medium are urgent, then to
    /// the top.
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

    /// The store that is the farthest from rest.
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

/// Whether the operations of all workloads never end. (A log measures from its start on, and a replay is what it is.)
fn can_go_on(plan: &CellPlan) -> bool {
    let is_endless = |spec: &Spec| {
        let ends = |kind| {
            let mut addresses = spec.addresses(kind).iter();
            addresses.any(|address| matches!(address.pattern, Pattern::ToEnd))
        };
        let limits = spec.limits();
        // A number of operations or bytes is a sequence with a beginning.
        let is_counted = limits.ops.is_some() || limits.bytes.is_some() || limits.passes.is_some();
        !is_counted && spec.log().is_none() && !spec.kinds().any(|(kind, _)| ends(kind))
    };
    // A trace is of the cell alone.
    plan.events.is_none()
        && plan.cell.replay.is_none()
        && plan.cell.fill_passes.is_none()
        && (0..plan.targets.len()).all(|target| is_endless(&plan.cell_on(target).spec))
}

/// Gain of a store as a share of what it took in meanwhile, or of its size where it took in nothing; negative for one that
/// empties.
fn net_share(before: &Store, after: &Store) -> f64 {
    let gain = after.held_bytes as f64 - before.held_bytes as f64;
    let passed = after.passed_bytes.saturating_sub(before.passed_bytes) as f64;
    let of = if passed > 0.0 { passed } else { after.capacity_bytes as f64 };
    if gain == 0.0 { 0.0 } else { gain / of.max(gain.abs()) }
}

/// Which stores have an effect on the workloads of a cell.
#[derive(Clone, Debug)]
pub(super) struct Relevance {
    reads: bool,
    writes: bool,
    /// All writes are uniformly random.
    writes_uniformly: bool,
    /// All writes are in order.
    writes_in_order: bool,
    /// Some addresses are used more often than others.
    is_skewed: bool,
    /// Bytes that the workloads address, over all targets, and the capacity of these.
    active_bytes: u64,
    capacity_bytes: u64,
}

impl Relevance {
    pub(super) fn of(plan: &CellPlan, machine: &Machine) -> Self {
        let specs: Vec<&Spec> =
            (0..plan.targets.len()).map(|target| &plan.cell_on(target).spec).collect();
        let any = |is: fn(&Spec) -> bool| specs.iter().any(|spec| is(spec));
        let active = |(target, spec): (usize, &&Spec)| {
            let (start, end) = active_range(spec, plan.targets[target].medium.capacity_bytes());
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

    /// Whether a store has an effect.
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
        }
    }
}

fn is_uniform(pattern: &Pattern) -> bool {
    matches!(pattern, Pattern::Uniform { .. })
}

fn is_in_order(pattern: &Pattern) -> bool {
    matches!(pattern, Pattern::Sequential { run: None, .. } | Pattern::ToEnd)
}

/// Whether the addresses of all writes are of such patterns.
fn writes_by(spec: &Spec, is: fn(&Pattern) -> bool) -> bool {
    let all = |kind| spec.addresses(kind).iter().all(|address| is(&address.pattern));
    spec.kinds().filter(|(kind, _)| kind.changes_content()).all(|(kind, _)| all(kind))
}

fn is_skewed(spec: &Spec) -> bool {
    let is = |kind| spec.addresses(kind).iter().any(|address| address.pattern.is_skewed());
    spec.kinds().any(|(kind, _)| is(kind))
}

/// Levels of the stores during the window, at times that follow from the number of events.
#[derive(Debug, Default)]
pub(super) struct Levels {
    /// At the start of the window, at some times in it, at its end.
    samples: Vec<Vec<Store>>,
    /// When the last one was taken, ns.
    at_ns: u64,
    /// Calls of [`Self::look`] per sample, and until the next one.
    stride: u32,
    left: u32,
}

/// More samples than this are thinned out.
const SAMPLES_MAX: usize = 64;

impl Levels {
    /// Called now and then during the window.
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

    /// Takes a sample.
    pub(super) fn take(&mut self, machine: &Machine) {
        if self.samples.is_empty() || machine.now_ns() > self.at_ns {
            self.at_ns = machine.now_ns();
            self.samples.push(machine.stores());
        }
    }

    /// Of every store: its level at the start and at the end, and whether it only rose or only fell. Empty without a window.
    pub(super) fn of_window(&self) -> Vec<(Store, Store, bool)> {
        let (Some(first), Some(last)) = (self.samples.first(), self.samples.last()) else {
            return Vec::new();
        };
        let of_one =
            |(at, (first, last)): (usize, (&Store, &Store))| (*first, *last, self.goes_one_way(at));
        first.iter().zip(last).enumerate().map(of_one).collect()
    }

    /// Whether its level rose, or fell, in each eighth of the window. (Around a constant level that is a matter of 1 in 128.)
    fn goes_one_way(&self, at: usize) -> bool {
        const PARTS: usize = 8;
        let last = self.samples.len() - 1;
        if last < PARTS {
            return false;
        }
        let held = |part: usize| self.samples[part * last / PARTS][at].held_bytes;
        let rises = (0..PARTS).all(|part| held(part + 1) > held(part));
        rises || (0..PARTS).all(|part| held(part + 1) < held(part))
    }
}

/// The levels of the stores that have an effect and took something in, or changed.
pub(super) fn levels(relevance: &Relevance, stores: &[(Store, Store, bool)]) -> Vec<StoreLevel> {
    let of_one = |(first, last, one_way): &(Store, Store, bool)| StoreLevel {
        store: first.name.to_owned(),
        start_bytes: first.held_bytes,
        end_bytes: last.held_bytes,
        capacity_bytes: first.capacity_bytes,
        taken_bytes: last.passed_bytes.saturating_sub(first.passed_bytes),
        // In order there is nothing to choose.
        choice_bytes: if relevance.writes_in_order { 0 } else { first.choice_bytes },
        one_way: *one_way,
    };
    let is_used =
        |level: &StoreLevel| level.taken_bytes > 0 || level.start_bytes != level.end_bytes;
    let relevant = stores.iter().filter(|store| relevance.has(&store.0));
    relevant.map(of_one).filter(is_used).collect()
}

/// Records warm-up and levels as evidence of a cell.
pub(super) fn record(warmed: Option<&Warmed>, levels: &[StoreLevel], cell: &mut Cell) {
    cell.evidence.stores = levels.to_vec();
    let Some(Warmed { took_ns, unsteady }) = warmed else { return };
    let length = human::duration_ns(*took_ns);
    let words = match unsteady {
        None => format!("{length} of virtual time, until buffers and caches were at rest"),
        Some(unsteady) => format!("{length} of virtual time, {} not at rest", unsteady.name),
    };
    cell.facts.insert("warm-up".to_owned(), words);
    cell.evidence.warm_up = Some(iodyno_measure::WarmUp {
        took_ns: *took_ns,
        unsteady: unsteady.as_ref().map(|unsteady| unsteady.name.to_owned()),
        net_share: unsteady.as_ref().map(|unsteady| unsteady.net_share),
    });
}
