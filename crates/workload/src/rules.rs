//! Validation rules for a specification. The same rules apply to all origins: a file, a stored run or flags. A fault
//! names its key; a file's reader adds the key's position.

mod addresses;

use iodyno_catalog::Fault;
use iodyno_units::{OpKind, human};

use crate::faults::Faults;
use crate::file_set::{FS_BLOCK_BYTES, MAX_EXTENT_BYTES, MAX_FILES};
use crate::log_rules;
use crate::range::size_text;
use crate::spec::{
    ArrivalKind, Batches, Block, Content, Edge, MAX_DEPTH, MAX_THREADS, MAX_TIME_NS, MixOrder,
    NewFile, Percent, Scope, Spec, Steady,
};
use addresses::{check_addresses, check_places, check_recent};

/// Maximum size of operations that transfer data, bytes. Each outstanding operation needs a buffer of its
/// size.
const MAX_DATA_BYTES: u32 = 64 << 20;
/// Maximum size of operations that transfer no data (trims, writes of zeroes), bytes.
const MAX_RANGE_BYTES: u32 = 1 << 30;
/// Maximum number of block sizes in a list: enough for all sizes of fio from 512 B to 1 MiB.
const MAX_SIZES: usize = 2048;
/// Maximum number of recent addresses that a worker remembers; they occupy 8 MiB.
const MAX_WINDOW: u32 = 1 << 20;
/// Maximum number of writes or operations between two flushes.
const MAX_FLUSH_EVERY: u32 = 1_000_000_000;
const MAX_FLUSH_BURST: u32 = 1_000_000;
/// Maximum of the limit on passes over the active range.
const MAX_PASSES: f64 = 1e6;
const SECOND_NS: u64 = 1_000_000_000;
/// Maximum think time, ns: an hour.
const MAX_THINK_NS: u64 = 3600 * SECOND_NS;
/// Minimum and maximum rate of an open loop, operations per second.
const RATES_IOPS: core::ops::RangeInclusive<f64> = 0.001..=1e9;

/// Returns every rule that `spec` breaks.
pub(crate) fn check(spec: &Spec) -> Vec<Fault> {
    let mut faults = Faults::default();
    faults.whole("threads", "the number of threads", spec.threads.into(), MAX_THREADS.into());
    faults.whole("depth", "the depth", spec.depth.into(), MAX_DEPTH.into());
    if let Some(batch) = spec.submit_batch {
        faults.whole("submit_batch", "the batch", batch.into(), MAX_DEPTH.into());
    }
    check_mix(spec, &mut faults);
    check_counted(spec, &mut faults);
    check_blocks(spec, &mut faults);
    check_range(spec, &mut faults);
    check_file_set(spec, &mut faults);
    log_rules::check(spec, &mut faults);
    check_places(spec, &mut faults);
    for scope in Scope::ALL {
        check_addresses(spec, scope, &mut faults);
    }
    check_recent(spec, &mut faults);
    check_batches(spec, &mut faults);
    check_arrivals(spec, &mut faults);
    check_content(spec, &mut faults);
    check_limits(spec, &mut faults);
    faults.into_list()
}

fn check_mix(spec: &Spec, faults: &mut Faults) {
    for kind in OpKind::ALL {
        let share = spec.mix[kind.index()];
        if share != 0.0 {
            faults.share(&format!("mix.{}", kind.name()), share);
        }
    }
    let of_kinds = OpKind::ALL.into_iter().filter(|kind| spec.mix[kind.index()] != 0.0);
    match of_kinds.collect::<Vec<_>>().as_slice() {
        [] => {
            let help = "say what is issued, such as `mix = { read = 70, write = 30 }`";
            faults.add("mix", "the mix issues nothing", help);
        }
        [OpKind::Flush] => {
            let help = "a flush without writes has nothing to do: add `write`";
            faults.add("mix", "the mix has only flushes", help);
        }
        _ => {}
    }
    for scope in Scope::ALL {
        let Some(kind) = scope.kind() else { continue };
        if spec.tables[scope as usize].given && spec.mix[kind.index()] == 0.0 {
            let key = scope.key();
            let message = format!("`[{key}]` has no effect: the mix has no `{key}`");
            faults.add(key, message, "remove the table, or give the kind a share in the mix");
        }
    }
    if spec.flush_every > MAX_FLUSH_EVERY {
        faults.add("write.flush_every", "`flush_every` must be a whole number from 0 to 10^9", "");
    }
    if spec.flush_at_end > MAX_FLUSH_BURST {
        let message = "`flush_at_end` must be a whole number from 0 to 10^6";
        faults.add("write.flush_at_end", message, "");
    }
    for (name, is_set) in [("flush_again", spec.flush_again), ("flush_waits", spec.flush_waits)] {
        if is_set && spec.flush_every == 0 {
            let message = format!("`{name}` has no effect without `flush_every`");
            let help = format!("give `flush_every` too, or remove `{name}`");
            faults.add(format!("write.{name}"), message, &help);
        }
    }
    let reads = spec.mix[OpKind::Read.index()] > 0.0 || spec.read_back > 0;
    if spec.new_file != NewFile::Written && reads {
        let message = "a workload that reads can't use a new file, which has no data yet";
        let help = "leave `new_file` out, or issue writes only";
        faults.add("new_file", message, help);
    }
    if spec.read_back > MAX_WINDOW {
        let message = format!("`read_back` must be a whole number from 0 to {MAX_WINDOW}");
        faults.add("write.read_back", message, "");
    }
}

/// Checks `mix_order` and `[flush]`, which count the operations of all workers of a target.
fn check_counted(spec: &Spec, faults: &mut Faults) {
    let issues = |kind: OpKind| spec.mix[kind.index()] > 0.0;
    let kinds = OpKind::ALL.into_iter().filter(|kind| issues(*kind)).count();
    let reads_and_writes = issues(OpKind::Read) && issues(OpKind::Write) && kinds == 2;
    if spec.mix_order == MixOrder::Ratio && !reads_and_writes {
        let help = "leave `mix_order` out, or give the mix only `read` and `write`";
        faults.add("mix_order", "the order `ratio` needs a mix of only reads and writes", help);
    }
    let Some(bursts) = spec.flush_bursts else { return };
    let every = "the number of operations between bursts of flushes";
    faults.whole("flush.every", every, bursts.every.into(), MAX_FLUSH_EVERY.into());
    let burst = "the number of flushes of a burst";
    faults.whole("flush.burst", burst, bursts.burst.into(), MAX_FLUSH_BURST.into());
    if !issues(OpKind::Write) {
        let help =
            "a flush without writes has nothing to do: remove `[flush]`, or add `write` to the mix";
        faults.add("flush", "`[flush]` has no effect: the mix has no `write`", help);
    }
    if spec.flush_every > 0 {
        let help = "keep one: `write.flush_every` counts the writes of each worker, `[flush]` the operations of all workers";
        faults.add("flush", "`[flush]` and `write.flush_every` exclude each other", help);
    }
}

fn check_blocks(spec: &Spec, faults: &mut Faults) {
    let lists = Scope::ALL.into_iter().filter_map(|scope| {
        let own = spec.tables[scope as usize].block.as_slice();
        let key = format!("{}.block", scope.key());
        scope.kind().map(|kind| (key, own, vec![kind]))
    });
    let shared_by = OpKind::ALL.into_iter().filter(|&kind| {
        Scope::of(kind).is_some_and(|scope| spec.tables[scope as usize].block.is_empty())
    });
    let common = ("block".to_owned(), spec.block.as_slice(), shared_by.collect());
    for (key, blocks, kinds) in lists.chain([common]) {
        let carries = |kind: &OpKind| matches!(kind, OpKind::Read | OpKind::Write);
        let with_data = kinds.iter().any(|kind| carries(kind) && spec.issues(*kind));
        check_block_list(spec, &key, blocks, with_data, faults);
    }
    if let Some(align) = spec.align_bytes
        && !(align.is_power_of_two() && (1..=MAX_RANGE_BYTES).contains(&align))
    {
        let message = "the alignment must be a power of two from 1 B to 1 GiB";
        faults.add(
            "align",
            message,
            "leave `align` out to use the largest alignment that fits the blocks",
        );
    }
}

fn check_block_list(
    spec: &Spec,
    key: &str,
    blocks: &[Block],
    with_data: bool,
    faults: &mut Faults,
) {
    if blocks.len() > MAX_SIZES {
        faults.add(key, format!("a distribution must have at most {MAX_SIZES} sizes"), "");
    }
    let most = if with_data { MAX_DATA_BYTES } else { MAX_RANGE_BYTES };
    // Sizes below a sector, which only the page cache accepts, require an explicit alignment.
    let least = spec.align_bytes.map_or(512, |align| align.clamp(1, 512));
    for (i, block) in blocks.iter().enumerate() {
        let size_key = format!("{key}[{i}].size");
        if block.bytes == 0 || block.bytes % least != 0 || block.bytes > most {
            let message = format!(
                "a block must be a multiple of {least} B, from {least} B to {}",
                human::size(most.into())
            );
            faults.add(size_key, message, "");
        } else if let Some(align) = spec.align_bytes
            && align.is_power_of_two()
            && block.bytes % align != 0
        {
            let message = format!(
                "a block of {} is not a multiple of the alignment, {}",
                human::size(block.bytes.into()),
                human::size(align.into())
            );
            let fits = size_text(1 << block.bytes.trailing_zeros());
            faults.add(size_key, message, &format!("`align = \"{fits}\"` fits this block"));
        } else if blocks[..i].iter().any(|before| before.bytes == block.bytes) {
            let message = format!("{} is already listed", human::size(block.bytes.into()));
            faults.add(size_key, message, "list each size once, with the sum of its shares");
        }
        faults.share(&format!("{key}[{i}].share"), block.share);
    }
}

fn check_range(spec: &Spec, faults: &mut Faults) {
    let (start, end) = (spec.active.start, spec.active.end);
    let is_empty = match (start, end) {
        (start, end) if spec.active.is_length => {
            start == Edge::Share(Percent::ALL)
                || matches!(end, Edge::Bytes(0) | Edge::Share(Percent::ZERO))
        }
        (Edge::Bytes(start), Edge::Bytes(end)) => start >= end,
        (Edge::Share(start), Edge::Share(end)) => start >= end,
        (Edge::Bytes(_), Edge::Share(end)) => end == Percent::ZERO,
        (Edge::Share(start), Edge::Bytes(end)) => start == Percent::ALL || end == 0,
    };
    if is_empty {
        let help = "give the start and then the end, such as `\"10%..90%\"` or `\"0..8GiB\"`";
        faults.add("active", "the active range is empty", help);
    } else if spec.active.is_in_bytes() {
        // Another rule refuses an alignment of 0.
        let align = u64::from(spec.align_bytes()).max(1);
        let (start, end) = spec.active.on(0, align);
        let holds_bytes = (end / align * align).saturating_sub(start);
        let largest = spec.kinds().flat_map(|(kind, _)| spec.blocks(kind)).map(|b| b.bytes).max();
        if let Some(block) = largest.filter(|&block| u64::from(block) > holds_bytes) {
            let message = format!(
                "the active range {} does not hold one block of {}",
                spec.active,
                human::size(block.into())
            );
            faults.add("active", message, "make the range larger or the block smaller");
        }
    }
}

fn check_file_set(spec: &Spec, faults: &mut Faults) {
    let Some(set) = spec.file_set else { return };
    faults.whole("file_set.files", "the number of files", set.files.into(), MAX_FILES.into());
    if matches!(set.size, Edge::Bytes(0) | Edge::Share(Percent::ZERO)) {
        faults.add("file_set.size", "the size of the files must be above 0", "");
    }
    let align = u64::from(spec.align_bytes()).max(1);
    if align > 1 << 20 {
        let help = "a file system places data at multiples of 4 KiB: leave `align` out";
        faults.add("file_set", "the alignment on a file set must be at most 1 MiB", help);
    }
    if spec.worker_step_bytes.is_some() || spec.address_align_bytes.is_some() {
        let help = "leave `worker_step` and `address_align` out";
        let message = "a file set can't have `worker_step` or `address_align`: the file system places the files";
        faults.add("file_set", message, help);
    }
    let Some(extent) = set.extent_bytes else { return };
    let largest = spec.kinds().flat_map(|(kind, _)| spec.blocks(kind)).map(|b| b.bytes).max();
    let least = u64::from(largest.unwrap_or(0)).max(FS_BLOCK_BYTES);
    if !(least..=MAX_EXTENT_BYTES).contains(&extent)
        || extent % FS_BLOCK_BYTES != 0
        || extent % align != 0
    {
        let message = format!(
            "an extent must be from {} (the largest block) to 128 MiB, and a multiple of 4 KiB and of the alignment",
            human::size(least)
        );
        let help = "leave `extent` out for contiguous files, as on a new file system";
        faults.add("file_set.extent", message, help);
    }
}

fn check_arrivals(spec: &Spec, faults: &mut Faults) {
    match spec.arrivals {
        ArrivalKind::Closed { think_time_ns, think_drains } => {
            if think_time_ns > MAX_THINK_NS {
                faults.add("arrivals.think_time", "the think time must be at most 1 h", "");
            }
            if think_drains && think_time_ns == 0 {
                let help = "add a `think_time`, or leave `think_drains` out";
                faults.add(
                    "arrivals.think_drains",
                    "`think_drains` has no effect without a think time",
                    help,
                );
            }
        }
        ArrivalKind::Open { rate_iops, .. } => {
            if !RATES_IOPS.contains(&rate_iops) {
                let message = "the rate must be from 0.001 to 10^9 operations a second";
                faults.add("arrivals.rate", message, "");
            }
        }
    }
}

fn check_batches(spec: &Spec, faults: &mut Faults) {
    let Batches { think_after, think_after_ns, pause_ns, think_shifts, refill_at, flow } =
        spec.batches;
    let (thinks, drains) = match spec.arrivals {
        ArrivalKind::Closed { think_time_ns, think_drains } => (think_time_ns > 0, think_drains),
        ArrivalKind::Open { .. } => (pause_ns > 0, pause_ns > 0),
    };
    let is_open = matches!(spec.arrivals, ArrivalKind::Open { .. });
    let pauses_help = match (is_open, thinks) {
        (true, _) => "add a `think_time`",
        (false, true) => "add `think_drains = true`",
        (false, false) => "add both",
    };
    if let Some(after) = think_after {
        let key = "arrivals.think_after";
        faults.whole(key, "`think_after`", after.into(), MAX_FLUSH_EVERY.into());
    }
    if think_after_ns.is_some_and(|ns| !(1..=MAX_THINK_NS).contains(&ns)) {
        faults.add(
            "arrivals.think_after_time",
            "`think_after_time` must be above 0 and at most 1 h",
            "",
        );
    }
    for (key, is_given) in [
        ("arrivals.think_after", think_after.is_some()),
        ("arrivals.think_after_time", think_after_ns.is_some()),
        ("arrivals.think_shifts", think_shifts),
    ] {
        if is_given && !drains {
            let with = if is_open { "" } else { " and `think_drains = true`" };
            let message = format!("`{}` requires a `think_time`{with}", &key["arrivals.".len()..]);
            faults.add(key, message, pauses_help);
        }
    }
    if pause_ns > MAX_THINK_NS {
        faults.add("arrivals.think_time", "the think time must be at most 1 h", "");
    }
    if pause_ns > 0 && (think_after, think_after_ns) == (None, None) {
        let help =
            "add `think_after` (operations between two pauses of a worker) or `think_after_time`";
        faults.add(
            "arrivals.think_time",
            "a think time in an open loop requires an interval between pauses",
            help,
        );
    }
    if let Some(at) = refill_at {
        if at >= spec.depth {
            let help = "leave `refill_at` out to refill the queue after each completion";
            faults.add("arrivals.refill_at", "`refill_at` must be below the depth", help);
        }
        if thinks || is_open || flow.is_some() {
            let message = "`refill_at` requires a closed loop with neither think time nor flow";
            faults.add("arrivals.refill_at", message, "leave `refill_at` out");
        }
    }
    if let Some(flow) = flow {
        faults.whole("arrivals.flow", "the weight", flow.into(), 1000);
        if thinks && !drains {
            let message = "`flow` requires `think_drains` if there is a think time";
            faults.add("arrivals.flow", message, pauses_help);
        }
    }
}

fn check_content(spec: &Spec, faults: &mut Faults) {
    match spec.content {
        Content::Compressible { compressible: Percent::ZERO, dedupable: Percent::ZERO } => {
            let help = "say `compressible = \"50%\"`, `dedupable = \"20%\"`, or both; content \
                        that is neither is `incompressible`";
            faults.add("content.kind", "nothing is compressible or dedupable", help);
        }
        Content::Verifiable => {
            if !spec.align_bytes().is_multiple_of(512) {
                let message = "blocks of verifiable content must be multiples of 512 B";
                faults.add("align", message, "leave `align` out, and use blocks such as 4 KiB");
            }
            for kind in [OpKind::Trim, OpKind::WriteZeroes] {
                if spec.issues(kind) {
                    let message =
                        format!("content can't be verified if the mix has `{}`", kind.name());
                    let help = "a unit that reads as zeroes could be either discarded or lost: \
                                remove the kind from the mix";
                    faults.add(format!("mix.{}", kind.name()), message, help);
                }
            }
        }
        Content::Compressible { .. } | Content::Incompressible | Content::Zeroes => {}
    }
}

fn check_limits(spec: &Spec, faults: &mut Faults) {
    let limits = spec.limits;
    if limits.time_ns.is_some_and(|time| !(1..=MAX_TIME_NS).contains(&time)) {
        let help = "for a run without a time limit, leave `time` out and give `ops` or `bytes`";
        faults.add("limits.time", "the time must be above 0 and at most 365 d", help);
    }
    if limits.ramp_ns > MAX_TIME_NS {
        faults.add("limits.ramp", "the ramp must be at most 365 d", "");
    }
    if limits.start_after_ns > MAX_TIME_NS {
        faults.add("limits.start_after", "`start_after` must be at most 365 d", "");
    }
    if limits.passes.is_some_and(|passes| !(passes > 0.0 && passes <= MAX_PASSES)) {
        faults.add("limits.passes", "`passes` must be a number above 0 and at most 10^6", "");
    }
    if let Some(Steady { within, window_ns, after_ns, .. }) = limits.steady {
        if within == Percent::ZERO {
            faults.add("limits.steady.within", "`within` must be above 0%", "");
        }
        if window_ns % SECOND_NS != 0 || !(2..=3600).contains(&(window_ns / SECOND_NS)) {
            let message = "the window must be a whole number of seconds, from 2 s to 1 h";
            faults.add("limits.steady.window", message, "");
        }
        if after_ns > MAX_TIME_NS {
            faults.add("limits.steady.after", "`after` must be at most 365 d", "");
        }
    }
    if limits.ops == Some(0) {
        faults.add("limits.ops", "a limit of 0 operations measures nothing", "");
    }
    if limits.bytes == Some(0) {
        faults.add("limits.bytes", "a limit of 0 bytes measures nothing", "");
    }
}
