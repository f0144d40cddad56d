//! Computes the load that a demand puts on rate limits, and checks whether volumes meet the conditions of a search.
//! Does no I/O.
//!
//! A limit may count an operation more than once: striping splits it into I/Os, and each I/O is charged for whole
//! accounting units. Some limits merge an I/O with the one before, but only if it continues it. Operations of other
//! streams in between prevent that.

use super::parts::Parts;
use crate::demand::Demand;
use iodyno_emulate::spec::{CloudVolume, Counted, Limit, LimitOf};
use iodyno_units::OpKind;
use iodyno_workload::{Address, Pattern, Spec};

pub(super) const GIB: u64 = 1 << 30;
/// Probability of an interruption below which each interruption is taken to waste half an accounting unit.
const INTERRUPTED_MIN: f64 = 0.01;
/// Maximum number of sequential cursors that are considered separately.
const CURSORS_MAX: f64 = 64.0;
/// Precision of the mean number of accounting units.
const PRECISION: f64 = 1e-6;

/// Operations of one kind, one size and one address pattern, with their rate.
#[derive(Clone, Debug)]
struct Stream {
    kind: OpKind,
    bytes: f64,
    iops: f64,
    /// Index of the cursors that choose the addresses, in [`Load::cursors`].
    cursors: usize,
    /// I/Os into which an operation is split by striping over 1, 2, … volumes.
    parts: Vec<Parts>,
}

/// Load of a demand in operations and bytes per second, to be compared with the rate limits of volumes.
#[derive(Clone, Debug)]
pub struct Load {
    streams: Vec<Stream>,
    cursors: Vec<Cursors>,
}

/// The limits of volumes among which a load is striped evenly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Striped {
    pub(super) volumes: u32,
    /// Whether the volumes share the limits, such as those of an instance. Otherwise each volume has them.
    pub(super) is_shared: bool,
}

impl Striped {
    /// Limits that `volumes` volumes share.
    pub(super) const fn shared(volumes: u32) -> Self {
        Self { volumes, is_shared: true }
    }

    /// Number of copies of the limits, each of which has an equal part of the load.
    fn copies(self) -> f64 {
        if self.is_shared { 1.0 } else { f64::from(self.volumes) }
    }
}

impl Load {
    /// Computes the operations and bytes per second of a demand on up to `volumes_max` striped volumes.
    pub fn of(demand: &Demand, volumes_max: u32) -> Self {
        let spec = &demand.spec;
        let all: f64 = spec.kinds().map(|(_, share)| share).sum();
        let align_bytes = u64::from(spec.align_bytes());
        let (mut streams, mut all_cursors) = (Vec::new(), Vec::new());
        for (kind, share) in spec.kinds().filter(|(kind, _)| *kind != OpKind::Flush) {
            let (blocks, kind_iops) = (spec.blocks(kind), demand.rate_iops * share / all);
            let shares: f64 = blocks.iter().map(|block| block.share).sum();
            let cursors = cursors(spec, kind, kind_iops, demand.threads(demand.rate_iops));
            for block in blocks {
                let split = |volumes| Parts::of(block.bytes.into(), align_bytes, volumes);
                let parts: Vec<Parts> = (1..=volumes_max.max(1)).map(split).collect();
                streams.extend(cursors.iter().enumerate().map(|(number, of)| Stream {
                    kind,
                    bytes: f64::from(block.bytes),
                    iops: of.iops * f64::from(of.count) * block.share / shares,
                    cursors: all_cursors.len() + number,
                    parts: parts.clone(),
                }));
            }
            all_cursors.extend(cursors);
        }
        Self { streams, cursors: all_cursors }
    }

    /// Bytes per second, over reads and writes.
    pub fn bytes_per_s(&self) -> f64 {
        self.streams.iter().map(|of| of.bytes * of.iops).sum()
    }

    /// Load per second on a limit, in its unit, such as bytes or operations of up to 256 KiB.
    pub(super) fn units(&self, limit: &Limit, of: Striped) -> f64 {
        let counts = |kind: OpKind| match limit.of {
            LimitOf::All => true,
            LimitOf::Reads => kind == OpKind::Read,
            LimitOf::Writes => kind != OpKind::Read,
        };
        let counted = || self.streams.iter().filter(|stream| counts(stream.kind));
        let each = |stream: &Stream| {
            let parts = &stream.parts[(of.volumes as usize - 1).min(stream.parts.len() - 1)];
            let begun = |account_bytes: u64| {
                let units = |bytes: f64| bytes / account_bytes as f64;
                if !limit.merges {
                    return parts.split(|bytes| units(bytes).ceil());
                }
                parts.merged(|bytes| {
                    let continues = self.continues(stream, bytes, of, &counts);
                    continues.iter().map(|(share, of)| share * units_begun(units(bytes), *of)).sum()
                })
            };
            match (limit.counts, limit.account_bytes) {
                (Counted::Operations, None) => parts.split(|_| 1.0),
                (Counted::Operations, Some(account_bytes)) => begun(account_bytes),
                (Counted::Bytes, None) => stream.bytes,
                (Counted::Bytes, Some(account_bytes)) => {
                    begun(account_bytes) * account_bytes as f64
                }
            }
        };
        counted().map(|stream| stream.iops * each(stream)).sum::<f64>() / of.copies()
    }

    /// Probability that the next counted I/O of a volume continues an I/O of `stream` of `bytes` bytes. It depends on the
    /// number of other sequential cursors that are on the same volume at the time. Returns the fraction of time and the
    /// probability for each number.
    fn continues(
        &self,
        stream: &Stream,
        bytes: f64,
        of: Striped,
        counts: &dyn Fn(OpKind) -> bool,
    ) -> Vec<(f64, f64)> {
        let own = &self.cursors[stream.cursors];
        if own.continued == 0.0 || own.iops == 0.0 || of.is_shared && of.volumes > 1 {
            // Of limits that volumes share: the next I/O usually goes to another volume.
            return vec![(1.0, 0.0)];
        }
        let volumes = f64::from(of.volumes);
        // A sequential cursor is on some of the volumes at a time, random operations are on all.
        let on = (stream.bytes / bytes).round().clamp(1.0, volumes);
        let (mut random, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for (number, cursors) in self.cursors.iter().enumerate() {
            let others = f64::from(cursors.count - u32::from(number == stream.cursors));
            if counts(cursors.kind) && cursors.continued == 0.0 {
                random += others * cursors.iops / volumes;
            } else if counts(cursors.kind) {
                sum += others * cursors.iops / on;
                squares += others * (cursors.iops / on).powi(2);
            }
        }
        // As many equal cursors, each on the same volume with equal probability.
        let number =
            if squares > 0.0 { (sum * sum / squares).round().min(CURSORS_MAX) } else { 0.0 };
        let (own_iops, here) = (own.iops / on, on / volumes);
        if here >= 1.0 {
            return vec![(1.0, own.continued * own_iops / (own_iops + sum + random))];
        }
        let mut share = (1.0 - here).powf(number);
        let mut with = |present: u32| {
            let present = f64::from(present);
            let others = if number > 0.0 { sum * present / number } else { 0.0 };
            let continues = own.continued * own_iops / (own_iops + others + random);
            let of = (share, continues);
            share *= (number - present) / (present + 1.0) * here / (1.0 - here);
            of
        };
        (0..=number as u32).map(&mut with).collect()
    }

    /// Utilisation of the busiest limit: load divided by the limit's sustained rate or, with `at_burst_rates`, burst
    /// rate. Above 1, the limits do not suffice.
    pub(super) fn utilisation(
        &self,
        limits: &[Limit],
        striped: Striped,
        at_burst_rates: bool,
    ) -> f64 {
        let of = |limit: &Limit| {
            let credits = limit.credits.as_ref().filter(|_| at_burst_rates);
            let burst = credits.map(|credits| credits.burst);
            self.units(limit, striped) / burst.unwrap_or(limit.rate) as f64
        };
        limits.iter().map(of).fold(0.0, f64::max)
    }

    /// Time until burst credits run out, s, if they are full at the start. Infinite if they never run out.
    pub(super) fn burst_s(&self, limits: &[Limit], striped: Striped) -> f64 {
        let of = |limit: &Limit| {
            let credits = limit.credits.as_ref()?;
            let drain = self.units(limit, striped) - limit.rate as f64;
            (drain > 0.0).then(|| credits.most as f64 / drain)
        };
        limits.iter().filter_map(of).fold(f64::INFINITY, f64::min)
    }

    /// Fraction of the operations of a kind that a volume completes within `ns` if no rate limit binds. The model's
    /// latency is a constant plus an exponentially distributed part.
    fn within(&self, volume: &CloudVolume, of: Option<OpKind>, ns: u64) -> f64 {
        let (mut within, mut all) = (0.0, 0.0);
        for stream in self.streams.iter().filter(|stream| of.is_none_or(|of| of == stream.kind)) {
            let mean_ns =
                if stream.kind == OpKind::Read { volume.read_ns } else { volume.write_ns };
            let network_ns = stream.bytes / volume.bytes_per_s * 1e9;
            let varying_ns = mean_ns as f64 * volume.varying_share;
            let left_ns = ns as f64 - network_ns - (mean_ns as f64 - varying_ns);
            let share =
                if left_ns < 0.0 { 0.0 } else { -(-left_ns / varying_ns.max(1e-3)).exp_m1() };
            within += stream.iops * share;
            all += stream.iops;
        }
        if all > 0.0 { within / all } else { 1.0 }
    }

    /// Whether the latency of the volume, while no rate limit delays it, meets all latency limits of the demand.
    pub fn is_in_time(&self, volume: &CloudVolume, demand: &Demand) -> bool {
        let holds =
            |limit: crate::Limit| self.within(volume, limit.of, limit.ns) >= limit.tail.quantile();
        demand.all_limits().all(holds)
    }
}

/// Cursors of equal rate that go through a range of addresses.
#[derive(Clone, Debug)]
struct Cursors {
    kind: OpKind,
    count: u32,
    /// Operations per second of each cursor.
    iops: f64,
    /// Fraction of an operation's successors at the same cursor that continue it.
    continued: f64,
}

/// Cursors of all address patterns of a kind with `iops` operations per second. A random pattern is a cursor that never
/// continues.
fn cursors(spec: &Spec, kind: OpKind, iops: f64, threads: u32) -> Vec<Cursors> {
    let addresses = spec.addresses(kind);
    let shares: f64 = addresses.iter().map(|of| of.share).sum();
    let random = Cursors { kind, count: 1, iops, continued: 0.0 };
    if addresses.is_empty() || shares <= 0.0 {
        return vec![random];
    }
    let of = |of: &Address| {
        let iops = iops * of.share / shares;
        match of.pattern {
            Pattern::Sequential { shared, run } => {
                let count = if shared { 1 } else { threads };
                let continued = run.map_or(1.0, |blocks| 1.0 - 1.0 / blocks.max(1) as f64);
                Cursors { kind, count, iops: iops / f64::from(count), continued }
            }
            _ => Cursors { iops, ..random.clone() },
        }
    };
    addresses.iter().map(of).collect()
}

/// Mean number of accounting units that an I/O begins. `units`: its length, in accounting units. `continues`:
/// probability that the next I/O continues it, and so first uses up the last unit. A run of n I/Os begins
/// ceil(n × units) of them.
fn units_begun(units: f64, continues: f64) -> f64 {
    let interrupted = 1.0 - continues;
    if units.fract() == 0.0 {
        return units;
    }
    if interrupted < INTERRUPTED_MIN {
        return units + interrupted / 2.0;
    }
    // The sum over all lengths of runs, ordered by units: unit n is begun if the run has more than n / units I/Os.
    let (mut sum, mut unit) = (0.0, 0.0);
    loop {
        let term = continues.powf((unit / units).floor());
        sum += term;
        unit += 1.0;
        if term * units.max(1.0) < PRECISION {
            return sum * interrupted;
        }
    }
}

/// Conditions that the volumes found by a search must meet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conditions<'a> {
    pub(super) load: &'a Load,
    /// Minimum capacity of all volumes together, bytes.
    pub(super) capacity_bytes: u64,
    /// Maximum number of striped volumes.
    pub(super) volumes_max: u32,
    /// Fraction by which limits must exceed the load; 0.1 for 10 %.
    pub(super) headroom: f64,
    /// Whether a limit with burst credits counts with its burst rate instead of its sustained rate.
    pub(super) at_burst_rates: bool,
}

impl Conditions<'_> {
    /// Whether the limits suffice.
    pub(super) fn hold(&self, limits: &[Limit], striped: Striped) -> bool {
        self.load.utilisation(limits, striped, self.at_burst_rates) * (1.0 + self.headroom) <= 1.0
    }

    /// Minimum size of each of `volumes` equal volumes, bytes.
    pub(super) fn least_bytes(&self, volumes: u32) -> u64 {
        self.capacity_bytes.div_ceil(volumes.into()).next_multiple_of(GIB)
    }
}
