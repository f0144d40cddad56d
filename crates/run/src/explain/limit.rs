//! Determines the factor that limits the throughput of a workload.
//!
//! A resource that is busy nearly all the time is the limit. If there are several, a resource that does work takes
//! precedence over one that is only occupied while others work. For example, a read context is occupied as long as its
//! die is busy. Among equals, the busiest is the limit. If no resource is saturated, throughput is the number of
//! outstanding I/Os divided by their latency (Little's law), unless the schedule or the device's queue limits it.

use super::account::Share;
use serde_json::{Value, json};

/// Utilisation from which a resource counts as saturated.
const SATURATED: f64 = 0.9;

/// The factor that limits the throughput of a workload, found by the rules in the documentation of this module.
#[derive(Clone, Debug)]
pub enum Limit {
    /// This resource is saturated, and limits the throughput.
    Resource(Share),
    /// No resource is saturated; the schedule offers I/Os at a fixed rate.
    Offered {
        /// Rate that the schedule offers, I/Os per second.
        iops: f64,
        /// Resource with the highest utilisation; None if the emulated machine reports none.
        busiest: Option<Share>,
    },
    /// No resource is saturated, but the workers fill the queue of the device, or keep more I/Os outstanding than it
    /// accepts.
    Queue {
        /// Maximum number of commands that one device accepts simultaneously.
        queue_max: u32,
        /// Number of I/Os that the device's workers keep outstanding.
        outstanding: u64,
        /// Resource with the highest utilisation; None if the emulated machine reports none.
        busiest: Option<Share>,
    },
    /// No resource is saturated; the latency of each I/O and the number of outstanding I/Os limit the rate.
    Latency {
        /// Mean number of outstanding I/Os on all devices.
        outstanding: f64,
        /// Mean latency of an I/O, ns, over all kinds of operation.
        latency_ns: f64,
        /// Resource with the highest utilisation; None if the emulated machine reports none.
        busiest: Option<Share>,
    },
}

/// Finds what limits a cell. `shares` are its resources, the busiest first; `offered_iops` is the rate of an
/// open loop; `queue_max` is the shortest command queue of any device, and `outstanding` the number of I/Os
/// that the workers may keep outstanding on that device.
pub(super) fn limit(
    shares: &[Share],
    ops_per_s: f64,
    oio_mean: f64,
    offered_iops: Option<f64>,
    queue_max: Option<u32>,
    outstanding: u64,
) -> Limit {
    let saturated = || shares.iter().filter(|s| s.busy >= SATURATED);
    if let Some(limit) = saturated().find(|s| !s.held).or_else(|| saturated().next()) {
        return Limit::Resource(limit.clone());
    }
    if let Some(both) = shares.iter().find_map(|limit| used_up(limit, shares, ops_per_s)) {
        return Limit::Resource(both);
    }
    let busiest = shares.first().filter(|share| share.busy > 0.0).cloned();
    if let Some(offered_iops) = offered_iops
        && ops_per_s >= 0.95 * offered_iops
    {
        return Limit::Offered { iops: offered_iops, busiest };
    }
    match queue_max {
        // If the workers fill it, a greater depth adds nothing either.
        Some(queue_max)
            if outstanding > u64::from(queue_max)
                || outstanding == u64::from(queue_max)
                    && oio_mean >= 0.95 * f64::from(queue_max) =>
        {
            Limit::Queue { queue_max, outstanding, busiest }
        }
        _ => {
            let latency_ns = if ops_per_s > 0.0 { oio_mean / ops_per_s * 1e9 } else { 0.0 };
            Limit::Latency { outstanding: oio_mean, latency_ns, busiest }
        }
    }
}

/// Combines a rate limit whose burst credits ran out with the same limit at its burst rate, as one resource: the cell
/// ran first at the burst rate, then at the base rate. `None` unless the two are saturated only together.
fn used_up(limit: &Share, shares: &[Share], ops_per_s: f64) -> Option<Share> {
    let burst = shares.iter().find(|s| s.name == format!("{} while credits last", limit.name))?;
    let busy = limit.busy + burst.busy;
    let is_both = limit.busy < SATURATED && burst.busy < SATURATED && busy >= SATURATED;
    is_both.then(|| Share {
        name: format!("{}, first with burst credits", limit.name),
        busy: busy.min(1.0),
        bound_iops: Some(ops_per_s / busy.min(1.0)),
        ..limit.clone()
    })
}

/// Part of the names of limits that the volumes of a system share.
const OF_INSTANCE: &str = " limit of the instance";

impl Limit {
    /// Returns the kind of limit and its values as JSON.
    pub fn json(&self) -> Value {
        match self {
            Self::Resource(share) => json!({
                "kind": "resource",
                "resource": share.name,
                "busy_share": share.busy,
                "iops_at_most": share.bound_iops,
            }),
            Self::Offered { iops, .. } => json!({ "kind": "offered rate", "iops": iops }),
            Self::Queue { queue_max, outstanding, .. } => json!({
                "kind": "queue",
                "queue_max": queue_max,
                "outstanding": outstanding,
            }),
            Self::Latency { outstanding, latency_ns, .. } => json!({
                "kind": "latency",
                "outstanding": outstanding,
                "latency_ns": latency_ns,
            }),
        }
    }

    /// Describes the limit in a few words for a table.
    pub fn words(&self) -> String {
        let busy = |s: &Share| format!("{}, {}", s.name, percent(s.busy));
        let beside = |busiest: &Option<Share>| {
            busiest.as_ref().map_or(String::new(), |b| format!(" ({})", busy(b)))
        };
        match self {
            Self::Resource(share) => busy(share),
            Self::Offered { busiest, .. } => format!("offered rate{}", beside(busiest)),
            Self::Queue { busiest, .. } => format!("queue of the device{}", beside(busiest)),
            Self::Latency { busiest, .. } => format!("latency{}", beside(busiest)),
        }
    }

    /// Describes the limit in one sentence. `rate` formats operations per second, and `time` formats ns.
    pub fn sentence(&self, rate: &dyn Fn(f64) -> String, time: &dyn Fn(f64) -> String) -> String {
        let bound = |s: &Share| s.bound_iops.map_or(String::new(), &rate);
        let busiest = |s: &Option<Share>| match s {
            Some(s) => format!(
                "nothing is saturated; the busiest resource is {} ({} busy), which allows {}",
                s.name,
                percent(s.busy),
                bound(s)
            ),
            None => "nothing is saturated".to_owned(),
        };
        match self {
            Self::Resource(s) => {
                // More threads don't raise a rate limit that volumes share.
                let (of, remedy) = if s.of_host && !s.name.contains(OF_INSTANCE) {
                    (" of the host, not the device", "; use more threads")
                } else {
                    ("", "")
                };
                format!(
                    "{}{of}, busy {} of the time: it allows at most {}{remedy}",
                    s.name,
                    percent(s.busy),
                    bound(s),
                )
            }
            Self::Offered { iops, busiest: b } => {
                format!("the offered rate, {}; {}", rate(*iops), busiest(b))
            }
            Self::Queue { queue_max, outstanding, busiest: b } => {
                let of = match outstanding.saturating_sub(u64::from(*queue_max)) {
                    0 => String::new(),
                    _ => format!(" of {outstanding}"),
                };
                format!(
                    "the queue of the device, which accepts {queue_max}{of} outstanding I/Os at a time; {}",
                    busiest(b)
                )
            }
            Self::Latency { outstanding, latency_ns, busiest: b } => {
                let count = (outstanding * 10.0).round() / 10.0;
                let of = if count < 1.05 { "I/O takes" } else { "I/Os each take" };
                format!(
                    "latency: {count} outstanding {of} {}; {}; raise the depth or the number of threads",
                    time(*latency_ns),
                    busiest(b)
                )
            }
        }
    }
}

/// Formats a fraction as a percentage: `93 %`, `0.4 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 9.95 || percent == 0.0 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(name: &str, held: bool, busy: f64) -> Share {
        let bound_iops = Some(1000.0 / busy);
        Share { name: name.to_owned(), of_host: false, count: 1, held, busy, bound_iops }
    }

    fn words(shares: &[Share], offered: Option<f64>, queue_max: Option<u32>, out: u64) -> String {
        limit(shares, 1000.0, 4.0, offered, queue_max, out).words()
    }

    /// A saturated resource that does work takes precedence over one that is only occupied; both take precedence
    /// over latency.
    #[test]
    fn the_limit_is_what_works_all_the_time() {
        let (contexts, dies) = (share("read contexts", true, 0.99), share("dies", false, 0.93));
        let idle = [share("link", false, 0.4)];
        let both = [contexts.clone(), idle[0].clone()];
        assert_eq!(words(&[contexts, dies.clone()], None, None, 4), "dies, 93 %");
        assert_eq!(words(&both, None, None, 4), "read contexts, 99 %");
        assert_eq!(words(&idle, None, None, 4), "latency (link, 40 %)");
        assert_eq!(words(&idle, Some(1010.0), None, 4), "offered rate (link, 40 %)");
        assert_eq!(words(&idle, Some(2000.0), None, 4), "latency (link, 40 %)");
        assert_eq!(words(&idle, None, Some(3), 4), "queue of the device (link, 40 %)");
        assert_eq!(words(&idle, None, Some(4), 4), "queue of the device (link, 40 %)");
        assert_eq!(words(&idle, None, Some(5), 4), "latency (link, 40 %)");
        assert_eq!(words(&[], None, None, 1), "latency");
        assert_eq!(words(&[dies], Some(1000.0), None, 4), "dies, 93 %");
        let limits = |base: f64, burst: f64| {
            let burst = share("IOPS limit while credits last", false, burst);
            words(&[share("IOPS limit", false, base), burst], None, None, 4)
        };
        assert_eq!(limits(0.7, 0.3), "IOPS limit, first with burst credits, 100 %");
        assert_eq!(limits(0.0, 1.0), "IOPS limit while credits last, 100 %");
        assert_eq!(limits(1.0, 0.0), "IOPS limit, 100 %");
        assert_eq!(limits(0.3, 0.2), "latency (IOPS limit, 30 %)");
    }

    #[test]
    fn latency_is_what_is_outstanding_over_the_rate() {
        let Limit::Latency { latency_ns, .. } = limit(&[], 1000.0, 4.0, None, None, 4) else {
            panic!("nothing is saturated")
        };
        assert!((latency_ns - 4e6).abs() < 1e-3);
    }
}
