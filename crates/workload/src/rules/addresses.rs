//! Rules for addresses: patterns, their alignment, and the ranges of workers.

use super::{MAX_RANGE_BYTES, MAX_WINDOW};
use crate::faults::Faults;
use crate::spec::{Address, MAX_ITEMS, Pattern, Percent, Scope, Spec, Spot};
use iodyno_units::{OpKind, human};

/// Maximum size of a zone that has a capacity, bytes. One trim resets such a zone.
const ZONE_BYTES_MAX: u64 = 1 << 31;
/// Maximum number of blocks in a sequential run.
const MAX_RUN: u64 = 1 << 40;
const MAX_STREAMS: u64 = 65_536;
/// Maximum gap between sequential runs, bytes.
const MAX_SKIP_BYTES: u64 = 1 << 50;

/// Checks `address_align` and `worker_step`.
pub(super) fn check_places(spec: &Spec, faults: &mut Faults) {
    let align = spec.align_bytes();
    if let Some(of) = spec.address_align_bytes
        && !(of.is_power_of_two() && (align..=MAX_RANGE_BYTES).contains(&of))
    {
        let message = format!(
            "`address_align` must be a power of two from the alignment, {}, to 1 GiB",
            human::size(align.into())
        );
        faults.add("address_align", message, "");
    }
    let of = spec.address_align_bytes.unwrap_or(align).max(1);
    if spec.worker_step_bytes.is_some_and(|step| step % u64::from(of) != 0) {
        let message = format!("the step must be a multiple of {}", human::size(of.into()));
        faults.add("worker_step", message, "");
    }
    let addresses = spec.tables.iter().flat_map(|table| &table.addresses);
    let is_shared = |a: &Address| matches!(a.pattern, Pattern::Sequential { shared: true, .. });
    if spec.worker_step_bytes.is_some() && addresses.into_iter().any(is_shared) {
        let help = "leave out `shared` or `worker_step`";
        faults.add("worker_step", "workers with separate ranges can't share a cursor", help);
    }
}

pub(super) fn check_addresses(spec: &Spec, scope: Scope, faults: &mut Faults) {
    let addresses = &spec.tables[scope as usize].addresses;
    let key = format!("{}.addresses", scope.key());
    if addresses.len() > MAX_ITEMS {
        faults.add(&*key, format!("a table must have at most {MAX_ITEMS} patterns"), "");
    }
    // Sizes of the operations that use this table's patterns.
    let users = spec.kinds().filter(|(kind, _)| spec.address_scope(*kind) == Some(scope));
    let mut sizes: Vec<u32> =
        users.flat_map(|(kind, _)| spec.blocks(kind)).map(|block| block.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for (i, address) in addresses.iter().enumerate() {
        let key = format!("{key}[{i}]");
        faults.share(&format!("{key}.share"), address.share);
        let align_bytes = u64::from(spec.align_bytes()).max(1);
        let of = Checked { key: &key, align_bytes, several_sizes: sizes.len() > 1 };
        check_pattern(&of, &address.pattern, faults);
    }
}

/// An address pattern to check: its key in the file, and the workload's properties that the rules need.
struct Checked<'a> {
    key: &'a str,
    /// Alignment of the workload's addresses and lengths, bytes; 1 or more.
    align_bytes: u64,
    /// Whether operations of different sizes use the pattern.
    several_sizes: bool,
}

impl Checked<'_> {
    fn path(&self, key: &str) -> String {
        format!("{}.{key}", self.key)
    }

    /// Reports a fault at `key` if operations of different sizes use the pattern.
    fn needs_one_size(&self, key: &str, message: &str, faults: &mut Faults) {
        if self.several_sizes {
            faults.add(self.path(key), message, "use one block size, or leave the key out");
        }
    }

    /// Reports a fault at `key` if a distance is 0, too large or not aligned. `what` names the distance in the
    /// message, with an article.
    fn distance(&self, key: &str, what: &str, bytes: u64, faults: &mut Faults) {
        if bytes == 0 || !bytes.is_multiple_of(self.align_bytes) || bytes > MAX_SKIP_BYTES {
            let align = human::size(self.align_bytes);
            let message = format!(
                "{what} must be above 0, at most 1 PiB, and a multiple of the alignment, {align}"
            );
            faults.add(self.path(key), message, "");
        }
    }
}

fn check_pattern(of: &Checked<'_>, pattern: &Pattern, faults: &mut Faults) {
    match pattern {
        Pattern::Uniform { once_per_pass: true } => {
            let message = "`once_per_pass` needs a single block size";
            of.needs_one_size("once_per_pass", message, faults);
        }
        Pattern::Uniform { .. } | Pattern::Normal { .. } | Pattern::ToEnd => {}
        Pattern::Sequential { .. }
        | Pattern::Skips { .. }
        | Pattern::Streams { .. }
        | Pattern::Jumps { .. }
        | Pattern::Strided { .. } => check_walk(of, pattern, faults),
        Pattern::Zipf { theta } => {
            if !(*theta > 0.0 && *theta <= 5.0) {
                let help = "0.5 is mild, 0.99 is usual for key-value stores, 1.2 is strong";
                faults.add(of.path("theta"), "`theta` must be above 0 and at most 5", help);
            }
        }
        Pattern::Pareto { h } => {
            if !(*h > 0.0 && *h < 1.0) {
                let help = "h of the blocks get 1 - h of the operations: 0.2 is 80/20";
                faults.add(of.path("h"), "`h` must be above 0 and below 1", help);
            }
        }
        Pattern::Zones { zone_bytes, open, trim: _, capacity_bytes } => {
            if let Some(bytes) = *capacity_bytes {
                of.distance("capacity", "the capacity of a zone", bytes, faults);
                if bytes > *zone_bytes || *zone_bytes > ZONE_BYTES_MAX {
                    let help =
                        "give the device's zone size, the distance between the starts of two zones";
                    let message =
                        "a zone must be at least as large as its `capacity`, and at most 2 GiB";
                    faults.add(of.path("capacity"), message, help);
                }
            }
            of.distance("zone", "a zone", *zone_bytes, faults);
            faults.whole(&of.path("open"), "the number of open zones", (*open).into(), MAX_STREAMS);
            of.needs_one_size("zone", "zones need a single block size", faults);
        }
        Pattern::HotSpots { spots, .. } => check_spots(of.key, spots, faults),
        Pattern::RecentlyRead { window } | Pattern::RecentlyWritten { window } => {
            let what = "the number of addresses in the window";
            faults.whole(&of.path("window"), what, (*window).into(), MAX_WINDOW.into());
        }
    }
}

/// Checks the patterns in which each address follows from the previous one.
fn check_walk(of: &Checked<'_>, pattern: &Pattern, faults: &mut Faults) {
    match pattern {
        Pattern::Sequential { shared, run } => {
            if *shared {
                of.needs_one_size("shared", "a shared cursor needs a single block size", faults);
            }
            let Some(run) = *run else { return };
            faults.whole(&of.path("run"), "a run's length in blocks", run, MAX_RUN);
            if *shared {
                let help = "leave `shared` out: each worker then has runs of its own";
                faults.add(of.path("run"), "a shared cursor can't have runs", help);
            }
        }
        Pattern::Skips { run, skip_bytes } => {
            faults.whole(&of.path("run"), "a run's length in blocks", *run, MAX_RUN);
            of.distance("skip", "`skip`", *skip_bytes, faults);
            of.needs_one_size("skip", "runs with skips need a single block size", faults);
        }
        Pattern::Streams { streams } => {
            let what = "the number of streams";
            faults.whole(&of.path("streams"), what, (*streams).into(), MAX_STREAMS);
            of.needs_one_size("streams", "streams need a single block size", faults);
        }
        Pattern::Jumps { share: Percent::ZERO } => {
            let help = "leave `jump` out for addresses that are sequential throughout";
            faults.add(of.path("jump"), "`jump` must be above 0%", help);
        }
        Pattern::Strided { stride_bytes, start_bytes, .. } => {
            let of_align = format!("a multiple of the alignment, {}", human::size(of.align_bytes));
            if *stride_bytes == 0 || !stride_bytes.is_multiple_of(of.align_bytes) {
                let message = format!("the stride must be above 0 and {of_align}");
                faults.add(of.path("stride"), message, "");
            }
            if !start_bytes.is_multiple_of(of.align_bytes) {
                faults.add(of.path("start"), format!("the start must be {of_align}"), "");
            }
        }
        _ => {}
    }
}

fn check_spots(key: &str, spots: &[Spot], faults: &mut Faults) {
    if !(1..=MAX_ITEMS).contains(&spots.len()) {
        faults.add(format!("{key}.spots"), format!("there must be 1 to {MAX_ITEMS} hot spots"), "");
        return;
    }
    for (i, spot) in spots.iter().enumerate() {
        if spot.share != 0.0 {
            faults.share(&format!("{key}.spots[{i}].share"), spot.share);
        }
        if spot.range == Percent::ZERO {
            faults.add(
                format!("{key}.spots[{i}].range"),
                "a hot spot must have a range above 0%",
                "",
            );
        }
    }
    if spots.iter().all(|spot| spot.share == 0.0) {
        faults.add(format!("{key}.spots"), "at least one hot spot must have a share above 0", "");
    }
    let parts: u64 = spots.iter().map(|spot| u64::from(spot.range.parts_per_billion())).sum();
    if parts != u64::from(Percent::ALL.parts_per_billion()) {
        let message =
            format!("the hot spots' ranges add up to {}%, not to 100%", parts as f64 / 1e7);
        let help = "list an unused part, too, as `{ share = 0, range = \"10%\" }`";
        faults.add(format!("{key}.spots"), message, help);
    }
}

/// Refuses `recently-…` patterns that could never find an address to repeat. Some other pattern must generate
/// new addresses.
pub(super) fn check_recent(spec: &Spec, faults: &mut Faults) {
    let repeats = |address: &Address, of: OpKind| match address.pattern {
        Pattern::RecentlyRead { .. } => of == OpKind::Read,
        Pattern::RecentlyWritten { .. } => of == OpKind::Write,
        _ => false,
    };
    let fresh = |kind: OpKind| {
        let mut addresses = spec.addresses(kind).iter();
        spec.issues(kind)
            && addresses.any(|a| !repeats(a, OpKind::Read) && !repeats(a, OpKind::Write))
    };
    let any_fresh = fresh(OpKind::Read) || fresh(OpKind::Write);
    for (kind, _) in spec.kinds() {
        let Some(scope) = spec.address_scope(kind) else { continue };
        for (i, address) in spec.addresses(kind).iter().enumerate() {
            for (of, name) in [(OpKind::Read, "recently-read"), (OpKind::Write, "recently-written")]
            {
                if !repeats(address, of) {
                    continue;
                }
                let key = format!("{}.addresses[{i}].pattern", scope.key());
                let source_is_ring = spec.addresses(of).iter().all(|a| repeats(a, of));
                if !spec.issues(of) {
                    let message =
                        format!("`{name}` has nothing to repeat: the mix has no `{}`", of.name());
                    faults.add(key, message, "");
                } else if source_is_ring || !any_fresh {
                    let message = format!("`{name}` has nothing to repeat");
                    let help = format!(
                        "each repeated address must first be drawn by another pattern: give \
                         {}s a share of another pattern, such as `uniform`",
                        of.name()
                    );
                    faults.add(key, message, &help);
                }
            }
        }
    }
}
