//! Finds the cheapest volumes of a class whose rate limits suffice for a demand. Does no I/O and no simulation.
//!
//! Limits and price grow with the size and with the provisioned rates. The cheapest volume therefore has the smallest
//! sufficient size, then the fewest IOPS, then the lowest throughput. With on-demand bursting a larger size may be
//! cheaper, because fewer operations exceed its rate, so all sizes are tried. Several striped volumes may be cheaper
//! than a large one, so all numbers of volumes are tried, too.

use super::instance::Instance;
use super::load::{Conditions, GIB, Striped};
use super::prices::VolumePrice;
use super::{Offer, Unfit};
use iodyno_emulate::describe::{DescribedDevice, VolumeClass};
use iodyno_emulate::spec::{Counted, Limit};
use iodyno_units::VolumeOptions;

/// Default of the maximum number of striped volumes.
pub const VOLUMES_MAX: u32 = 16;

/// One volume, or several equal volumes of one class that are striped.
#[derive(Clone, Debug, PartialEq)]
pub struct Volumes {
    /// Name of the class in the catalog.
    pub class: String,
    pub count: u32,
    /// Size and provisioned rates of each volume.
    pub options: VolumeOptions,
    /// Size of each volume, bytes.
    pub size_bytes: u64,
    /// Rate limits of each volume or, if `is_pooled`, of all volumes together.
    pub limits: Vec<Limit>,
    /// Whether the volumes share `limits`.
    pub is_pooled: bool,
    /// Monthly price of all volumes, including `on_demand_price`.
    pub price: f64,
    /// Part of `price` for on-demand bursting at a constant load; 0 without on-demand bursting.
    pub on_demand_price: f64,
}

impl Volumes {
    /// How the load is striped over `limits`.
    pub(super) fn striped(&self) -> Striped {
        Striped { volumes: self.count, is_shared: self.is_pooled }
    }
}

/// Some volumes of a class. Computes the limits for given sizes and rates.
#[derive(Clone, Copy)]
struct Kind<'a> {
    name: &'a str,
    class: &'a VolumeClass,
    count: u32,
    is_pooled: bool,
}

impl Kind<'_> {
    fn striped(self) -> Striped {
        Striped { volumes: self.count, is_shared: self.is_pooled }
    }

    /// Size of each volume, and the limits as in [`Volumes::limits`]. `None`: the class refuses the options.
    fn limits(self, options: &VolumeOptions) -> Option<(u64, Vec<Limit>)> {
        let (size_bytes, limits) = self.class.volume("", options).ok()?;
        if !self.is_pooled {
            return Some((size_bytes, limits));
        }
        let all_bytes = size_bytes.saturating_mul(self.count.into());
        Some((size_bytes, self.class.pooled_limits(options, all_bytes).ok()?))
    }
}

/// Finds the cheapest volumes of a class that meet the conditions, together with the cheapest instance that meets
/// them. `instances` are those to choose from; `None`: instances are not considered.
pub(super) fn cheapest(
    device: &DescribedDevice,
    price: &VolumePrice,
    of: Conditions<'_>,
    instances: Option<&[Instance]>,
) -> Result<Offer, Unfit> {
    let class = device.class.as_ref().ok_or(Unfit::Limits)?;
    let name = device.device.name.as_str();
    let is_pooled = class.is_pooled;
    let volumes_min = of.capacity_bytes.div_ceil(class.sizes_bytes[2].max(1));
    if volumes_min > of.volumes_max.into() {
        return Err(Unfit::Capacity(volumes_min));
    }
    let of_count = |count| {
        let kind = Kind { name, class, count, is_pooled };
        [of_rates(kind, price, of), on_demand(kind, price, of)]
    };
    let found: Vec<Volumes> = (1..=of.volumes_max).flat_map(of_count).flatten().collect();
    let offers = found.iter().filter_map(|volumes| {
        let instance = match instances {
            Some(all) => Some(Instance::cheapest(all, of, volumes.count)?.clone()),
            None => None,
        };
        Some(Offer { volumes: volumes.clone(), instance })
    });
    // At equal prices the fewest, because striping multiplies the failures of volumes.
    let cheapest = offers.min_by(|a, b| a.price().total_cmp(&b.price()));
    let why = if found.is_empty() { Unfit::Limits } else { Unfit::Instance };
    cheapest.ok_or(why)
}

/// Finds the cheapest volumes that meet the conditions without on-demand bursting.
fn of_rates(of_kind: Kind<'_>, price: &VolumePrice, of: Conditions<'_>) -> Option<Volumes> {
    let Kind { class, count, is_pooled, .. } = of_kind;
    let (options, size_bytes, limits) = smallest(of_kind, price, of)?;
    let price = price.of(class, size_bytes, &options)? * f64::from(count);
    let class = of_kind.name.to_owned();
    let on_demand_price = 0.0;
    Some(Volumes { class, count, options, size_bytes, limits, is_pooled, price, on_demand_price })
}

/// Finds the cheapest volumes that meet the conditions with on-demand bursting, in a class whose size determines its
/// rates.
fn on_demand(of_kind: Kind<'_>, price: &VolumePrice, of: Conditions<'_>) -> Option<Volumes> {
    let Kind { class, count, is_pooled, .. } = of_kind;
    let striped = of_kind.striped();
    let is_provisioned = |counts| class.provisioned(counts, class.sizes_bytes[2], 1).is_some();
    if !price.has_on_demand()
        || [Counted::Operations, Counted::Bytes].map(is_provisioned) != [false; 2]
    {
        return None;
    }
    let of_size = |gib: u64, on_demand: bool| {
        let size_bytes = class.has_sizes().then_some(gib * GIB);
        let options = VolumeOptions { size_bytes, on_demand, ..VolumeOptions::default() };
        let (size_bytes, limits) = of_kind.limits(&options)?;
        Some((options, size_bytes, limits))
    };
    let priced = |gib: u64| {
        let (options, size_bytes, limits) = of_size(gib, true)?;
        let (plain, _, rates) = of_size(gib, false)?;
        if !of.hold(&limits, striped) {
            return None;
        }
        let over = |counts: Counted| {
            let limits = rates.iter().filter(|limit| limit.counts == counts);
            let each = |limit: &Limit| of.load.units(limit, striped) - limit.rate as f64;
            limits.map(each).fold(0.0, f64::max)
        };
        let burst = price.of_on_demand(over(Counted::Operations), over(Counted::Bytes))?;
        let (each, count_f) = (price.of(class, size_bytes, &plain)?, f64::from(count));
        let class = of_kind.name.to_owned();
        let (price, on_demand_price) = ((each + burst) * count_f, burst * count_f);
        Some(Volumes {
            class,
            count,
            options,
            size_bytes,
            limits,
            is_pooled,
            price,
            on_demand_price,
        })
    };
    let [from, _, to] = class.sizes_bytes.map(|bytes| bytes / GIB);
    // Rates grow with the size.
    let (_, _, limits) = of_size(to, true)?;
    if !of.hold(&limits, striped) {
        return None;
    }
    let sizes = (of.least_bytes(count) / GIB).max(from)..=to;
    sizes.filter_map(priced).min_by(|a, b| a.price.total_cmp(&b.price))
}

/// Finds the smallest volumes of a class that suffice. Returns options and size of each, and the limits.
fn smallest(
    of_kind: Kind<'_>,
    price: &VolumePrice,
    of: Conditions<'_>,
) -> Option<(VolumeOptions, u64, Vec<Limit>)> {
    let Kind { class, count, .. } = of_kind;
    let [from, _, to] = class.sizes_bytes;
    let with = |size_bytes: u64, iops: Option<u64>, mbps: Option<u64>| VolumeOptions {
        size_bytes: class.has_sizes().then_some(size_bytes),
        iops,
        mbps,
        ..VolumeOptions::default()
    };
    let suffices = |options: &VolumeOptions| {
        of_kind.limits(options).is_some_and(|(_, limits)| of.hold(&limits, of_kind.striped()))
    };
    let iops_at = |size| class.provisioned(Counted::Operations, size, 0);
    let mbps_at = |size, iops: Option<u64>| {
        // IOPS that follow from the size bound no provisioned throughput.
        class.provisioned(Counted::Bytes, size, iops.unwrap_or(0))
    };
    let most =
        |size: u64, iops: Option<u64>| with(size, iops, mbps_at(size, iops).map(|of| of.most));
    let gib = first(of.least_bytes(count).max(from).div_ceil(GIB), to / GIB, |gib| {
        let size = price.billed_gib(gib) * GIB;
        suffices(&most(size, iops_at(size).map(|of| of.most)))
    })?;
    let size = price.billed_gib(gib) * GIB;
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
    let (size_bytes, limits) = of_kind.limits(&options)?;
    Some((options, size_bytes, limits))
}

/// Finds by bisection the first number from `from` to `to` that satisfies a monotonic condition: once true, it is
/// true for all larger numbers. `None` if no number satisfies it.
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
