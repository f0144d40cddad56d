//! Finds published values that can't be right, by laws that hold for every RAID adapter. The rules use only published
//! values, before any simulation.
//!
//! 1. *Redundancy costs.* On one system, a RAID level with more parity (0, 5, 6 in ascending order) is never faster
//!    than one with less. A small write needs one member write on RAID 0, but two reads and two writes on RAID 5. A
//!    large write also writes parity. A read is one member read on every level. The value of the level with more parity
//!    is flagged.
//! 2. *Links bound.* No throughput exceeds the bandwidth of the system's links.
//! 3. *Two tables describe one system.* The paper states the number of devices that saturate a system with sequential
//!    reads. For a slower slot, the link bandwidth divided by the number of devices that saturate the link is the rate
//!    of one device. This rate times the stated number of devices is the throughput of the system. The stated number is
//!    flagged if this throughput exceeds the published throughput by more than a tenth.
//!
//! All comparisons allow for the rounding of both values.

use crate::published::{Figure, Key, Relation};
use crate::testbed::Bench;
use crate::wanted::Workload;
use iodyno_raid::Level;

/// Rule 3 flags a stated number of devices if the throughput that it implies exceeds the published one by more than
/// this fraction.
const AGREES_SHARE: f64 = 0.1;

/// Flags published values that violate a rule of plausibility, with the reason. Values that are already
/// flagged keep their reason.
pub(crate) fn flag(systems: &[Bench], workloads: &[Workload], printed: &mut [Figure]) {
    let reasons: Vec<Option<String>> = printed
        .iter()
        .map(|figure| {
            let bench = systems.iter().find(|bench| bench.name == figure.key.system)?;
            let rules = Rules { systems, workloads, printed };
            rules
                .redundancy(figure, bench)
                .or_else(|| Rules::link(figure, bench))
                .or_else(|| rules.two_tables(figure, bench))
        })
        .collect();
    for (figure, reason) in printed.iter_mut().zip(reasons) {
        if let Some(reason) = reason.filter(|_| figure.flag.is_empty()) {
            figure.flag = reason;
        }
    }
}

struct Rules<'a> {
    systems: &'a [Bench],
    workloads: &'a [Workload],
    printed: &'a [Figure],
}

/// Number of parity strips per stripe; None for RAID levels that no rule compares, such as mirrors.
fn parity(bench: &Bench) -> Option<usize> {
    let level = bench.array?.level;
    (level == Level::Raid0 || level.parities() > 0).then_some(level.parities())
}

/// Lowest value that rounds to the published one, in the base unit of its dimension. [`high`] returns the
/// highest.
fn low(figure: &Figure) -> f64 {
    let rounding = if figure.relation == Relation::AtLeast { 0.0 } else { figure.rounding() };
    (figure.value - rounding) * figure.unit.scale()
}
fn high(figure: &Figure) -> f64 {
    (figure.value + figure.rounding()) * figure.unit.scale()
}

impl Rules<'_> {
    fn bench(&self, figure: &Figure) -> Option<&Bench> {
        self.systems.iter().find(|bench| bench.name == figure.key.system)
    }

    fn redundancy(&self, figure: &Figure, bench: &Bench) -> Option<String> {
        if !matches!(figure.key.metric.as_str(), "iops" | "iops_max" | "bandwidth") {
            return None;
        }
        let mine = parity(bench)?;
        let less = self.printed.iter().find(|other| {
            let Some(of) = self.bench(other) else { return false };
            let same = of.entry == bench.entry
                && of.device.name == bench.device.name
                && Key { system: figure.key.system.clone(), ..other.key.clone() } == figure.key;
            same && parity(of).is_some_and(|parity| parity < mine) && low(figure) > high(other)
        })?;
        Some(format!(
            "implausible by rule 1: higher than the {} {} of {}, which has less parity",
            less.value,
            less.unit.name(),
            less.key.system
        ))
    }

    fn link(figure: &Figure, bench: &Bench) -> Option<String> {
        let link = bench.link_bytes_per_s?;
        let bytes = match figure.key.metric.as_str() {
            "iops" | "iops_max" => low(figure) * f64::from(figure.key.block_bytes?),
            "bandwidth" => low(figure),
            _ => return None,
        };
        (bytes > link).then(|| {
            let (gb, most) = (bytes / 1e9, link / 1e9);
            format!(
                "implausible by rule 2: {gb:.2} GB/s, but the links carry at most {most:.2} GB/s"
            )
        })
    }

    /// Applies rule 3. Takes the rate of one device from another system with the same adapter and devices: the system
    /// with the slowest link among those that can attach more devices than saturate them.
    fn two_tables(&self, figure: &Figure, bench: &Bench) -> Option<String> {
        let key = &figure.key;
        let in_order = self.workloads.iter().find(|w| w.name == key.workload)?;
        if key.metric != "useful_devices" || in_order.random || in_order.read < 1.0 {
            return None;
        }
        let adapter = |bench: &Bench| bench.host_name.split('-').next().unwrap_or("").to_owned();
        let fills = |(other, of): &(&Figure, &Bench)| {
            other.key.metric == key.metric
                && other.key.workload == key.workload
                && of.device.name == bench.device.name
                && adapter(of) == adapter(bench)
                && of.devices.is_some_and(|most| other.value < f64::from(most))
                && of.link_bytes_per_s.is_some()
        };
        let all = || self.printed.iter().filter_map(|f| Some((f, self.bench(f)?)));
        // The slowest link, which binds first.
        let link = |(_, of): &(&Figure, &Bench)| of.link_bytes_per_s.unwrap_or(f64::INFINITY);
        let (other, of) = all().filter(fills).min_by(|a, b| link(a).total_cmp(&link(b)))?;
        let implied = figure.value * of.link_bytes_per_s? / other.value;
        let level = bench.array?.level;
        let (own, _) = all().find(|(own, of)| {
            let workload = self.workloads.iter().find(|w| w.name == own.key.workload);
            own.key.metric == "bandwidth"
                && workload.is_some_and(|w| !w.random && w.read >= 1.0)
                && of.host_name == bench.host_name
                && of.options == bench.options
                && of.array.is_some_and(|array| array.level == level)
        })?;
        (implied > high(own) * (1.0 + AGREES_SHARE)).then(|| {
            format!(
                "implausible by rule 3: {1} devices fill a link of {2:.2} GB/s, so {0} devices imply {3:.1} \
                 GB/s, but {4} prints {5} {6}",
                figure.value,
                other.value,
                of.link_bytes_per_s.unwrap_or(0.0) / 1e9,
                implied / 1e9,
                own.key.system,
                own.value,
                own.unit.name()
            )
        })
    }
}
