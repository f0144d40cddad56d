//! The state in which workloads leave an emulated device after a long time: the workload-dependent preconditioning of the
//! SNIA Solid State Storage Performance Test Specification. It follows from the writes of all workloads that run at the
//! same time, or from their reads if none writes.
//!
//! Flash is in the sequential state if its blocks become invalid as a whole, so that garbage collection copies nothing.
//! That holds as long as random writes are at most the share s of the written bytes, where s is the spare share of the
//! flash: while sequential writes pass once through the capacity, all writes together fill at most 1 / (1 - s)
//! capacities. That is all of the flash, and the pass has overwritten the data of every older block.

use iodyno_drive::{active_range, blocks};
use iodyno_emulate::endurance::outlook;
use iodyno_emulate::flash::superblock_bytes;
use iodyno_emulate::spec::{Flash, Written};
use iodyno_units::OpKind;
use iodyno_workload::{ArrivalKind, Pattern, Spec};
use std::ops::Range;

/// Block size of random preconditioning if the workload has none, bytes: the unit of most mapping tables.
const BLOCK_BYTES_DEFAULT: u32 = 4096;
/// A workload counts as writing only a part of the preconditioned capacity if its active range is smaller than this
/// fraction of that capacity.
const PART_MAX: f64 = 0.99;
/// Largest share of random operations, in bytes, in the sequential state of devices without spare, and of workloads that
/// only read.
const RANDOM_MAX: f64 = 0.5;
/// Random runs and zones count as sequential if each is at least this number of superblocks long: then most superblocks
/// become invalid as a whole.
const SUPERBLOCKS_MIN: f64 = 2.0;
/// Smallest fraction of the capacity that holds data beside trims.
const MAPPED_MIN: f64 = 0.05;

/// The workloads of a cell, which run at the same time, and the volume on which they run.
#[derive(Clone, Copy)]
pub(crate) struct LongRun<'a> {
    pub(crate) specs: &'a [&'a Spec],
    /// A flash device of the volume, and the number of the volume's devices; `None` if its devices are not flash.
    pub(crate) flash: Option<(&'a Flash, usize)>,
    pub(crate) capacity_bytes: u64,
}

/// Operations of one kind with one address pattern, in one workload.
struct Part<'a> {
    spec: &'a Spec,
    kind: OpKind,
    pattern: &'a Pattern,
    /// Estimated share of the bytes of all workloads, in an arbitrary unit.
    bytes: f64,
}

impl<'a> LongRun<'a> {
    /// Operations of some kinds in all workloads. The bytes of workloads with offered rates follow from these. If one has
    /// no offered rate, all count by their operations in flight, since a device serves these about equally.
    fn parts(self, kinds: &'a [OpKind]) -> Vec<Part<'a>> {
        let rate = |spec: &Spec| match spec.arrivals() {
            ArrivalKind::Open { rate_iops, .. } => Some(rate_iops),
            ArrivalKind::Closed { .. } => None,
        };
        let are_open = self.specs.iter().all(|spec| rate(spec).is_some());
        let mut parts = Vec::new();
        for &spec in self.specs {
            let in_flight = f64::from(spec.threads()) * f64::from(spec.depth());
            let weight = rate(spec).filter(|_| are_open).unwrap_or(in_flight);
            let all: f64 = spec.kinds().map(|of| of.1).sum();
            for (kind, share) in spec.kinds().filter(|of| kinds.contains(&of.0)) {
                let patterns: f64 = spec.addresses(kind).iter().map(|of| of.share).sum();
                parts.extend(spec.addresses(kind).iter().map(|of| Part {
                    spec,
                    kind,
                    pattern: &of.pattern,
                    bytes: weight * share / all * of.share / patterns
                        * mean_block_bytes(spec, kind),
                }));
            }
        }
        parts
    }

    /// Operations that determine the state: writes, or reads if no workload writes.
    fn decisive(self) -> Vec<Part<'a>> {
        let writes = self.parts(&[OpKind::Write]);
        if writes.is_empty() { self.parts(&[OpKind::Read]) } else { writes }
    }

    /// Whether the device is in the sequential state. True for a message log.
    pub(crate) fn is_sequential(self) -> bool {
        let decisive = self.decisive();
        let writes = decisive.iter().any(|part| part.kind == OpKind::Write);
        let random: f64 =
            decisive.iter().filter(|part| !self.is_in_order(part)).map(|part| part.bytes).sum();
        let all: f64 = decisive.iter().map(|part| part.bytes).sum();
        let random_max = match self.flash {
            Some((flash, _)) if writes => outlook(flash).spare_factor.max(0.0),
            _ => RANDOM_MAX,
        };
        let has_log = self.specs.iter().any(|spec| spec.log().is_some());
        if all > 0.0 { random <= random_max * all } else { has_log }
    }

    /// Whether operations write in an order in which superblocks become invalid as a whole.
    fn is_in_order(self, part: &Part<'_>) -> bool {
        let is_long = |bytes: f64, open: f64| {
            self.flash.is_some_and(|(flash, devices)| {
                let superblocks_bytes = superblock_bytes(flash) as f64 * devices as f64;
                bytes >= SUPERBLOCKS_MIN * superblocks_bytes * open
            })
        };
        if part.spec.log().is_some() {
            return true;
        }
        let block_bytes = mean_block_bytes(part.spec, part.kind);
        match *part.pattern {
            Pattern::Sequential { run: None, .. }
            | Pattern::ToEnd
            | Pattern::Streams { .. }
            | Pattern::Skips { .. }
            | Pattern::Strided { .. } => true,
            Pattern::Sequential { run: Some(run), .. } => is_long(run as f64 * block_bytes, 1.0),
            Pattern::Jumps { share } => is_long(block_bytes / share.fraction(), 1.0),
            Pattern::Zones { zone_bytes, open, .. } => is_long(zone_bytes as f64, open.into()),
            _ => false,
        }
    }

    /// Block size of the random operations that determine the state, bytes: the most frequent one of the pattern that
    /// moves most bytes. Of sequential operations if none is random.
    pub(crate) fn block_bytes(self) -> u32 {
        let mut decisive = self.decisive();
        if decisive.iter().any(|part| !self.is_in_order(part)) {
            decisive.retain(|part| !self.is_in_order(part));
        }
        let most = decisive.into_iter().reduce(|a, b| if b.bytes > a.bytes { b } else { a });
        let own = most.and_then(|part| {
            let blocks = part.spec.blocks(part.kind).iter();
            blocks.reduce(|a, b| if b.share > a.share { b } else { a }).map(|block| block.bytes)
        });
        let any = || blocks(self.specs.first()?).first().map(|block| block.0);
        own.or_else(any).unwrap_or(BLOCK_BYTES_DEFAULT)
    }

    /// State of a device after uniformly random writes to a part of the preconditioned capacity, which is the fraction
    /// `fill` of the capacity. `None` if the workloads do not write, write in another pattern, or write beyond that part.
    pub(crate) fn rewritten_part(self, block_bytes: u32, fill: f64) -> Option<Written> {
        let writes = self.parts(&[OpKind::Write]);
        let is_uniform = writes.iter().all(|part| is_uniform(part));
        let range = writes.iter().map(|part| active_range(part.spec, self.capacity_bytes));
        let Range { start, end } = range.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))?;
        let share = |bytes: u64| bytes as f64 / self.capacity_bytes as f64;
        let is_part = share(end - start) < PART_MAX * fill && share(end) <= fill;
        let ppm = |bytes: u64| (share(bytes) * 1e6).round() as u32;
        (is_uniform && is_part).then(|| Written::RandomWithin {
            block_bytes,
            start_ppm: ppm(start),
            end_ppm: ppm(end),
        })
    }

    /// Fraction of the capacity that holds data if trims, or writes of zeroes, fall on the same uniformly random
    /// addresses as the writes: the probability that the last operation on an address was a write. 1 in other cases.
    pub(crate) fn mapped(self) -> f64 {
        let writes = self.parts(&[OpKind::Write]);
        let clears = self.parts(&[OpKind::Trim, OpKind::WriteZeroes]);
        let range = |part: &Part<'_>| active_range(part.spec, self.capacity_bytes);
        let mut all = writes.iter().chain(&clears);
        let Some(first) = all.next() else { return 1.0 };
        if clears.is_empty()
            || !is_uniform(first)
            || !all.all(|p| is_uniform(p) && range(p) == range(first))
        {
            return 1.0;
        }
        let sum = |parts: &[Part<'_>]| parts.iter().map(|part| part.bytes).sum::<f64>();
        (sum(&writes) / (sum(&writes) + sum(&clears))).max(MAPPED_MIN)
    }

    /// End of the data on a purged volume, as a fraction of its capacity: of the data already `written`, and of the
    /// workloads' own writes. If nothing was written, workloads that only read find their range written.
    pub(crate) fn data_end(self, written: f64) -> f64 {
        let writes =
            |spec: &Spec| spec.log().is_some() || spec.kinds().any(|of| of.0 == OpKind::Write);
        let counts = |spec: &&&Spec| written <= 0.0 || writes(spec);
        let end = |spec: &&Spec| end_share(spec, self.capacity_bytes);
        self.specs.iter().filter(counts).map(end).fold(written, f64::max)
    }

    /// Whether writes are skewed: their steady state can't be constructed.
    pub(crate) fn is_skewed(self) -> bool {
        self.parts(&[OpKind::Write]).iter().any(|part| part.pattern.is_skewed())
    }
}

/// End of the range that a workload uses, as a fraction of the capacity; rounded up to millionths, so that 75 % of any
/// number of bytes is 0.75.
pub(crate) fn end_share(spec: &Spec, capacity_bytes: u64) -> f64 {
    let exact = active_range(spec, capacity_bytes).end as f64 / capacity_bytes as f64;
    let near = (exact * 1e6).round() / 1e6;
    if near >= exact { near } else { ((exact * 1e6).ceil() / 1e6).min(1.0) }
}

fn is_uniform(part: &Part<'_>) -> bool {
    matches!(part.pattern, Pattern::Uniform { .. })
}

/// Mean size of a kind of operation, bytes.
pub(crate) fn mean_block_bytes(spec: &Spec, kind: OpKind) -> f64 {
    let (mut bytes, mut shares) = (0.0, 0.0);
    for block in spec.blocks(kind) {
        bytes += f64::from(block.bytes) * block.share;
        shares += block.share;
    }
    if shares > 0.0 { bytes / shares } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::Precondition;

    fn state(text: &str) -> Written {
        let spec = Spec::from_toml(&format!("schema = 1\n{text}")).unwrap();
        let long_run = LongRun { specs: &[&spec], flash: None, capacity_bytes: 1 << 40 };
        let block_bytes = long_run.block_bytes();
        let state = Written::of(Precondition::Workload, long_run.is_sequential(), block_bytes);
        match state {
            Written::Random { .. } => long_run.rewritten_part(block_bytes, 1.0).unwrap_or(state),
            _ => state,
        }
    }

    /// The writes of a workload determine the state; its reads do so only if it does not write.
    #[test]
    fn the_state_follows_the_workload() {
        use Written::{Random, RandomWithin, Sequential};
        for (text, how) in [
            ("[mix]\nread = 1", Random { block_bytes: 4096 }),
            ("block = \"16KiB\"\n[mix]\nread = 1", Random { block_bytes: 16 << 10 }),
            ("[mix]\nread = 1\n[read]\naddresses = \"sequential\"", Sequential),
            (
                "[mix]\nread = 99\nwrite = 1\n[read]\naddresses = \"sequential\"",
                Random { block_bytes: 4096 },
            ),
            ("[mix]\nread = 99\nwrite = 1\n[write]\naddresses = \"sequential\"", Sequential),
            (
                "[mix]\nread = 1\nwrite = 1\n[read]\nblock = \"64KiB\"\n[write]\nblock = [{ size = \"4KiB\", share = 1 }, { size = \"8KiB\", share = 3 }]",
                Random { block_bytes: 8192 },
            ),
            ("block = \"32KiB\"\n[mix]\ntrim = 1", Random { block_bytes: 32 << 10 }),
            ("[log]\nrate = \"50k/s\"", Sequential),
            ("active = \"10%..30%\"\n[mix]\nread = 1", Random { block_bytes: 4096 }),
            ("active = \"99.5%\"\n[mix]\nwrite = 1", Random { block_bytes: 4096 }),
            (
                "active = \"10%..30%\"\n[mix]\nwrite = 1",
                RandomWithin { block_bytes: 4096, start_ppm: 100_000, end_ppm: 300_000 },
            ),
        ] {
            assert_eq!(state(text), how, "{text}");
        }
    }
}
