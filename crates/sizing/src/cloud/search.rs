//! The cheapest volumes of a class that meet a demand by the closed form of their limits. Pure.
//!
//! Each limit grows with the size and with the provisioned rates, and so does the price. So the smallest sufficient size, then
//! the fewest IOPS, then the lowest throughput are the cheapest. Volumes are striped only if one can't meet the demand.

use super::prices::VolumePrice;
use crate::demand::Demand;
use iodyno_emulate::describe::{DescribedDevice, VolumeClass};
use iodyno_emulate::spec::{CloudVolume, Counted, Limit, LimitOf};
use iodyno_units::{OpKind, VolumeOptions};
use iodyno_workload::Pattern;

/// Maximum number of volumes that are striped.
pub const VOLUMES_MAX: u32 = 16;
const GIB: u64 = 1 << 30;

/// Operations of one size a second.
#[derive(Clone, Copy, Debug)]
struct Stream {
    kind: OpKind,
    bytes: f64,
    iops: f64,
}

/// What a demand asks of limits.
#[derive(Clone, Debug)]
pub struct Load {
    streams: Vec<Stream>,
    /// Whether all operations are sequential, so that small ones are merged where a class merges.
    is_sequential: bool,
}

impl Load {
    /// The load of a demand.
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

    /// Bytes a second.
    pub fn bytes_per_s(&self) -> f64 {
        self.streams.iter().map(|of| of.bytes * of.iops).sum()
    }

    /// Units of a limit a second, as the limit counts them.
    fn units(&self, limit: &Limit) -> f64 {
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

    /// Utilisation of the busiest limit if the load is spread over `volumes` equal volumes, at the rates that are
    /// served for ever, or at the burst rates.
    pub fn utilisation(&self, limits: &[Limit], volumes: u32, in_burst: bool) -> f64 {
        let of = |limit: &Limit| {
            let burst = limit.credits.as_ref().filter(|_| in_burst).map(|credits| credits.burst);
            self.units(limit) / (f64::from(volumes) * burst.unwrap_or(limit.rate) as f64)
        };
        limits.iter().map(of).fold(0.0, f64::max)
    }

    /// Time for which full credits last under the load, s; infinite if it uses none up.
    pub fn burst_s(&self, limits: &[Limit], volumes: u32) -> f64 {
        let of = |limit: &Limit| {
            let credits = limit.credits.as_ref()?;
            let drain = self.units(limit) / f64::from(volumes) - limit.rate as f64;
            (drain > 0.0).then(|| credits.most as f64 / drain)
        };
        limits.iter().filter_map(of).fold(f64::INFINITY, f64::min)
    }

    /// Fraction of the operations that a volume answers within a time if no limit binds. Its latency is constant in
    /// part and exponential in part.
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

    /// Whether an idle volume meets all latency limits of a demand.
    pub fn is_in_time(&self, volume: &CloudVolume, demand: &Demand) -> bool {
        let holds =
            |limit: crate::Limit| self.within(volume, limit.of, limit.ns) >= limit.tail.quantile();
        demand.all_limits().all(holds)
    }
}

/// Equal volumes of a class, striped if there are several.
#[derive(Clone, Debug, PartialEq)]
pub struct Volumes {
    /// Name of the class.
    pub class: String,
    /// Number of volumes.
    pub count: u32,
    /// Size and provisioned rates of each.
    pub options: VolumeOptions,
    /// Size of each, bytes.
    pub size_bytes: u64,
    /// Limits of each.
    pub limits: Vec<Limit>,
    /// Price of all a month.
    pub price: f64,
}

impl Volumes {
    /// Name of the emulated target. `long_run`: with empty buckets of credits.
    pub fn target(&self, long_run: bool) -> String {
        let has_credits = self.limits.iter().any(|limit| limit.credits.is_some());
        let credits = (long_run && has_credits).then_some(iodyno_units::StartCredits::LastFor(0));
        let options = VolumeOptions { credits, ..self.options };
        match self.count {
            1 => format!("model:{}?{options}", self.class),
            count => format!("model:raid0({}*{count})?{options}", self.class),
        }
    }
}

/// The cheapest volumes of a class whose limits exceed the load by `headroom`, a fraction. `None` if none do, or if the
/// price file has no price of them. `in_burst`: burst rates count.
pub(super) fn cheapest(
    device: &DescribedDevice,
    price: &VolumePrice,
    (load, capacity_bytes): (&Load, u64),
    headroom: f64,
    in_burst: bool,
) -> Option<Volumes> {
    let class = device.class.as_ref()?;
    let of_count = |count: u32| {
        let meets =
            |limits: &[Limit]| load.utilisation(limits, count, in_burst) * (1.0 + headroom) <= 1.0;
        let least_bytes = capacity_bytes.div_ceil(count.into()).next_multiple_of(GIB);
        let (options, size_bytes, limits) = smallest(class, least_bytes, &meets)?;
        let each = price.of(class, size_bytes, &options)?;
        let price = each * f64::from(count);
        let class = device.device.name.clone();
        Some(Volumes { class, count, options, size_bytes, limits, price })
    };
    // Striping multiplies the failures of volumes, so only as many as necessary.
    (1..=VOLUMES_MAX).find_map(of_count)
}

/// The smallest sufficient volume of a class: its options, size and limits.
fn smallest(
    class: &VolumeClass,
    least_bytes: u64,
    meets: &dyn Fn(&[Limit]) -> bool,
) -> Option<(VolumeOptions, u64, Vec<Limit>)> {
    let [from, _, to] = class.sizes_bytes;
    let with = |size_bytes: u64, iops: Option<u64>, mbps: Option<u64>| VolumeOptions {
        size_bytes: class.has_sizes().then_some(size_bytes),
        iops,
        mbps,
        ..VolumeOptions::default()
    };
    let suffices =
        |options: &VolumeOptions| class.volume("", options).is_ok_and(|(_, limits)| meets(&limits));
    let iops_at = |size| class.provisioned(Counted::Operations, size, 0);
    let mbps_at = |size, iops: Option<u64>| {
        // IOPS that follow from the size bound no provisioned throughput.
        class.provisioned(Counted::Bytes, size, iops.unwrap_or(0))
    };
    let most =
        |size: u64, iops: Option<u64>| with(size, iops, mbps_at(size, iops).map(|of| of.most));
    let gib = first(least_bytes.max(from).div_ceil(GIB), to / GIB, |gib| {
        let size = gib * GIB;
        suffices(&most(size, iops_at(size).map(|of| of.most)))
    })?;
    let size = gib * GIB;
    let iops = match iops_at(size) {
        Some(range) => {
            Some(first(range.least, range.most, |iops| suffices(&most(size, Some(iops))))?)
        }
        None => None,
    };
    let mbps = match mbps_at(size, iops) {
        Some(range) => {
            Some(first(range.least, range.most, |mbps| suffices(&with(size, iops, Some(mbps))))?)
        }
        None => None,
    };
    let options = with(size, iops, mbps);
    let (size_bytes, limits) = class.volume("", &options).ok()?;
    Some((options, size_bytes, limits))
}

/// The first number of a range for which a condition holds that holds for all larger numbers too; `None` if for none.
fn first(from: u64, to: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    if from > to || !holds(to) {
        return None;
    }
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}
