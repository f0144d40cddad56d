//! Computes the utilisation of each resource of a system, with the rate at which the resource would saturate.

use iodyno_emulate::spec::{Counted, Limit, LimitOf, Part};
use iodyno_emulate::usage::Snapshot;
use iodyno_emulate::{PartId, System};
use serde_json::{Value, json};

/// Utilisation from which a resource counts as saturated.
pub(super) const SATURATED: f64 = 0.9;

/// Name of the host's cores on which the workers run.
const CORES: &str = "generator cores";

/// End of the name of a rate limit at its burst rate, after the name of the same limit at its base rate.
const BURST: &str = " while credits last";

/// Utilisation of a group of equal resources.
#[derive(Clone, Debug)]
pub struct Share {
    /// Name of the group, including the device's name if the system has different devices.
    pub name: String,
    /// Whether the resource belongs to the host rather than to a device.
    pub of_host: bool,
    /// Number of resources in the group, per device or in the host.
    pub count: u32,
    /// Whether operations occupy the resource only while waiting for other resources.
    pub held: bool,
    /// Mean utilisation of the group's resources, 0 to 1.
    pub busy: f64,
    /// Estimated operations per second of the volumes that use the resource if it were fully utilised on the busiest
    /// device; None if it was idle.
    pub bound_iops: Option<f64>,
    /// Name of the resource without that of the device.
    resource: &'static str,
    /// Name of the volumes to which the resource belongs; None: all volumes share it.
    volume: Option<String>,
    /// Utilisation of the resource in each device or array, 0 to 1, and the device or array. One entry without a part if
    /// all volumes share the resource.
    parts: Vec<(Option<PartId>, f64)>,
    /// Whether the parts are arrays rather than devices.
    of_arrays: bool,
}

impl Share {
    /// Returns name, number, utilisation and bound of the resources as JSON.
    pub fn json(&self) -> Value {
        json!({
            "name": self.name,
            "of": if self.of_host { "host" } else { "device" },
            "count": self.count,
            "busy_share": self.busy,
            "busiest_share": self.busiest(),
            "iops_at_most": self.bound_iops,
        })
    }

    /// Utilisation of the resource in the busiest device or array.
    fn busiest(&self) -> f64 {
        self.parts.iter().map(|part| part.1).fold(0.0, f64::max)
    }

    /// Whether the busiest device or array is clearly busier than the mean.
    fn is_uneven(&self) -> bool {
        self.busiest() > 1.1 * self.busy + 0.02
    }

    /// The utilisation that decides whether the resource limits the throughput: of the busiest device if the load is
    /// uneven, otherwise the mean.
    pub(super) fn peak(&self) -> f64 {
        if self.is_uneven() { self.busiest() } else { self.busy }
    }

    /// Fraction of the group's work that the busiest device or array does, and whether all do about the same.
    pub(super) fn busiest_part(&self) -> (f64, bool) {
        let even = 1.0 / self.parts.len().max(1) as f64;
        let times = if self.busy > 0.0 { self.busiest() / self.busy } else { 1.0 };
        (even * times, times < 1.1)
    }

    /// If the load is uneven: which devices or arrays are saturated, or else the busiest, as `1 of 4 devices`, and the
    /// highest utilisation.
    pub fn uneven_in_words(&self) -> Option<(String, f64)> {
        let (all, noun) = (self.parts.len(), if self.of_arrays { "arrays" } else { "devices" });
        let saturated = self.parts.iter().filter(|part| part.1 >= SATURATED).count();
        self.is_uneven().then(|| match saturated {
            0 => (format!("the busiest of {all} {noun}"), self.busiest()),
            _ => (format!("{saturated} of {all} {noun}"), self.busiest()),
        })
    }

    /// Whether the resource is the cores of the host on which the workers run.
    pub(super) fn is_cores(&self) -> bool {
        self.of_host && self.resource == CORES
    }

    /// Whether the resource belongs to devices, rather than to arrays, adapters or the host.
    pub(super) fn is_of_devices(&self) -> bool {
        self.volume.is_some() && !self.of_arrays
    }

    /// Whether the resource is used by volumes of this name.
    pub(super) fn serves(&self, volume: &str) -> bool {
        self.volume.as_deref().is_none_or(|name| name == volume)
    }

    /// The group with the bound of volumes that do `ops_per_s`, a part of the rate of all volumes that use the resource.
    pub(super) fn bounding(&self, ops_per_s: f64) -> Self {
        let peak = self.peak();
        Self { bound_iops: (peak > 0.0).then(|| ops_per_s / peak), ..self.clone() }
    }

    /// Combines a rate limit whose burst credits ran out with the same limit at its burst rate, as one resource: the cell
    /// ran first at the burst rate, then at the base rate. `None` unless the two are saturated only together.
    pub(super) fn used_up(&self, shares: &[Self]) -> Option<Self> {
        let burst = shares.iter().find(|burst| self.is_base_of(burst))?;
        let busy = self.busy + burst.busy;
        let is_both = self.busy < SATURATED && burst.busy < SATURATED && busy >= SATURATED;
        is_both.then(|| Self {
            name: format!("{}, first with burst credits", self.name),
            busy: busy.min(1.0),
            parts: self.parts.iter().map(|part| (part.0, busy.min(1.0))).collect(),
            ..self.clone()
        })
    }

    /// Whether `burst` is the same limit at its burst rate.
    fn is_base_of(&self, burst: &Self) -> bool {
        burst.volume == self.volume && burst.resource.strip_suffix(BURST) == Some(self.resource)
    }

    /// A resource of devices with these utilisations.
    #[cfg(test)]
    pub(super) fn of_test(resource: &'static str, held: bool, parts: &[f64]) -> Self {
        let busy = parts.iter().sum::<f64>() / parts.len() as f64;
        Self {
            name: resource.to_owned(),
            of_host: false,
            count: 1,
            held,
            busy,
            bound_iops: None,
            resource,
            volume: Some(String::new()),
            parts: (0..).map(PartId).map(Some).zip(parts.iter().copied()).collect(),
            of_arrays: false,
        }
    }
}

/// Utilisation of every resource in the measured window, the busiest first. `rates` are the operations per second of each
/// volume.
pub fn shares(system: &System, usage: &Snapshot, rates: &[f64]) -> Vec<Share> {
    let mut all = without_credits(grouped(system, usage), system);
    for share in &mut all {
        share.busy = share.parts.iter().map(|part| part.1).sum::<f64>() / share.parts.len() as f64;
        let volumes = system.volumes.iter().zip(rates);
        let ops_per_s = volumes.filter(|(volume, _)| share.serves(&volume.name)).map(|of| of.1);
        *share = share.bounding(ops_per_s.sum());
    }
    all.sort_by(|a, b| b.busy.total_cmp(&a.busy));
    all
}

/// Groups the resources of all volumes by name, without mean and bound.
fn grouped(system: &System, usage: &Snapshot) -> Vec<Share> {
    let mut all: Vec<Share> = Vec::new();
    for (volume, of) in usage.volumes.iter().enumerate() {
        for resource in &of.resources {
            // Adapters serve all volumes.
            let part = resource
                .part
                .filter(|part| !matches!(system.parts[part.index()], Part::AdapterPath(_)));
            let owner = part.map(|part| owner(system, volume, part));
            let name = match &owner {
                Some(owner) if !owner.is_empty() => format!("{} of {owner}", resource.name),
                _ => resource.name.to_owned(),
            };
            let busy = resource.share(usage.at_ns);
            let known = all.iter_mut().find(|share| share.name == name);
            match known {
                Some(share) if share.parts.iter().any(|known| known.0 == part) => {}
                Some(share) => share.parts.push((part, busy)),
                None => all.push(Share {
                    name,
                    of_host: resource.part.is_none(),
                    count: resource.count,
                    held: resource.held,
                    busy: 0.0,
                    bound_iops: None,
                    resource: resource.name,
                    volume: part.map(|_| system.volumes[volume].name.clone()),
                    parts: vec![(part, busy)],
                    of_arrays: part
                        .is_some_and(|part| matches!(system.parts[part.index()], Part::Array(_))),
                }),
            }
        }
    }
    all
}

/// What distinguishes a part's resources from those of other parts: the volume's name if the system has different
/// volumes, and the device's name if the volume has different devices. Empty if neither.
fn owner(system: &System, volume: usize, part: PartId) -> String {
    let name = system.volumes[volume].name.as_str();
    let mut words: Vec<&str> = Vec::new();
    if let Part::Device(placed) = &system.parts[part.index()] {
        let own = placed.device.name.as_str();
        let mut others = system.devices_of(volume as u32);
        if others.any(|other| other.device.name != own) && own != name {
            words.push(own);
        }
    }
    if system.volumes.iter().any(|other| other.name != name) {
        words.push(name);
    }
    words.join(" of ")
}

/// Replaces the two entries of each rate limit that started without burst credits by one, of the base rate, whose
/// utilisation is the load divided by the base rate. (The machine counts a base rate with credits as busy only while an
/// operation waits for credits.)
fn without_credits(shares: Vec<Share>, system: &System) -> Vec<Share> {
    let burst = |share: &Share| Some((share.clone(), burst_per_base(system, share)?));
    let bursts: Vec<(Share, f64)> = shares.iter().filter_map(burst).collect();
    let is_burst = |share: &Share| bursts.iter().any(|(burst, _)| burst.name == share.name);
    let mut kept: Vec<Share> = shares.into_iter().filter(|share| !is_burst(share)).collect();
    for share in &mut kept {
        if let Some((burst, times)) = bursts.iter().find(|(burst, _)| share.is_base_of(burst)) {
            for (part, at_burst) in share.parts.iter_mut().zip(&burst.parts) {
                part.1 = part.1.max((at_burst.1 * times).min(1.0));
            }
        }
    }
    kept
}

/// Burst rate divided by base rate, of a rate limit at its burst rate that started without credits; None for other
/// resources.
fn burst_per_base(system: &System, share: &Share) -> Option<f64> {
    let base = share.resource.strip_suffix(BURST)?;
    let limits: &[Limit] = match share.parts.first()?.0 {
        None => &system.limits,
        Some(part) => match &system.parts[part.index()] {
            Part::Device(placed) => &placed.device.limits,
            _ => return None,
        },
    };
    let of = match base {
        _ if base.ends_with(" of reads") => LimitOf::Reads,
        _ if base.ends_with(" of writes") => LimitOf::Writes,
        _ => LimitOf::All,
    };
    let counts = if base.starts_with("IOPS") { Counted::Operations } else { Counted::Bytes };
    let limit = limits.iter().find(|limit| (limit.counts, limit.of) == (counts, of))?;
    let credits = limit.credits.as_ref().filter(|credits| credits.start == 0)?;
    Some(credits.burst as f64 / limit.rate as f64)
}
