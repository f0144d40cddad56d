//! Computes the load that a demand puts on rate limits, and checks whether volumes meet the conditions of a search.
//! Does no I/O.

use crate::demand::Demand;
use iodyno_emulate::spec::{CloudVolume, Counted, Limit, LimitOf};
use iodyno_units::OpKind;
use iodyno_workload::Pattern;

pub(super) const GIB: u64 = 1 << 30;

/// A stream of operations of one size, with their rate.
#[derive(Clone, Copy, Debug)]
struct Stream {
    kind: OpKind,
    bytes: f64,
    iops: f64,
}

/// Load of a demand in operations and bytes per second, to be compared with the rate limits of volumes.
#[derive(Clone, Debug)]
pub struct Load {
    streams: Vec<Stream>,
    /// Whether all operations are sequential. Some classes of volumes merge small sequential operations.
    is_sequential: bool,
}

impl Load {
    /// Computes the operations and bytes per second of a demand.
    pub fn of(demand: &Demand) -> Self {
        let spec = &demand.spec;
        let all: f64 = spec.kinds().map(|(_, share)| share).sum();
        let mut streams = Vec::new();
        for (kind, share) in spec.kinds().filter(|(kind, _)| *kind != OpKind::Flush) {
            let blocks = spec.blocks(kind);
            let shares: f64 = blocks.iter().map(|block| block.share).sum();
            streams.extend(blocks.iter().map(|block| Stream {
                kind,
                bytes: f64::from(block.bytes),
                iops: demand.rate_iops * share / all * block.share / shares,
            }));
        }
        let is_in_order = |kind| {
            let addresses = spec.addresses(kind);
            addresses.iter().all(|of| matches!(of.pattern, Pattern::Sequential { .. }))
        };
        let is_sequential = spec.kinds().all(|(kind, _)| is_in_order(kind));
        Self { streams, is_sequential }
    }

    /// Bytes per second, over reads and writes.
    pub fn bytes_per_s(&self) -> f64 {
        self.streams.iter().map(|of| of.bytes * of.iops).sum()
    }

    /// Load per second in the unit that a limit counts, such as bytes or operations of up to 256 KiB.
    pub(super) fn units(&self, limit: &Limit) -> f64 {
        let counts = |kind: OpKind| match limit.of {
            LimitOf::All => true,
            LimitOf::Reads => kind == OpKind::Read,
            LimitOf::Writes => kind != OpKind::Read,
        };
        let is_merged = self.is_sequential && limit.merges;
        let each = |of: &Stream| {
            let account = limit.account_bytes.map(|bytes| bytes as f64);
            let begun = account.map(|bytes| {
                let units = of.bytes / bytes;
                if is_merged { units } else { units.ceil() }
            });
            match (limit.counts, account, begun) {
                (Counted::Operations, _, begun) => begun.unwrap_or(1.0),
                (Counted::Bytes, Some(account), Some(begun)) => begun * account,
                (Counted::Bytes, ..) => of.bytes,
            }
        };
        self.streams.iter().filter(|of| counts(of.kind)).map(|of| of.iops * each(of)).sum()
    }

    /// Utilisation of the busiest limit if the load is spread over `volumes` equal volumes: load divided by the limit's
    /// sustained rate or, with `at_burst_rates`, burst rate. Above 1, the limits do not suffice.
    pub fn utilisation(&self, limits: &[Limit], volumes: u32, at_burst_rates: bool) -> f64 {
        let of = |limit: &Limit| {
            let credits = limit.credits.as_ref().filter(|_| at_burst_rates);
            let burst = credits.map(|credits| credits.burst);
            self.units(limit) / (f64::from(volumes) * burst.unwrap_or(limit.rate) as f64)
        };
        limits.iter().map(of).fold(0.0, f64::max)
    }

    /// Time until burst credits run out, s, if they are full at the start and the load is spread over `volumes` equal
    /// volumes. Infinite if they never run out.
    pub fn burst_s(&self, limits: &[Limit], volumes: u32) -> f64 {
        let of = |limit: &Limit| {
            let credits = limit.credits.as_ref()?;
            let drain = self.units(limit) / f64::from(volumes) - limit.rate as f64;
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
    /// Whether the limits suffice if the load is spread over `volumes` equal volumes.
    pub(super) fn hold(&self, limits: &[Limit], volumes: u32) -> bool {
        self.load.utilisation(limits, volumes, self.at_burst_rates) * (1.0 + self.headroom) <= 1.0
    }

    /// Minimum size of each of `volumes` equal volumes, bytes.
    pub(super) fn least_bytes(&self, volumes: u32) -> u64 {
        self.capacity_bytes.div_ceil(volumes.into()).next_multiple_of(GIB)
    }
}
