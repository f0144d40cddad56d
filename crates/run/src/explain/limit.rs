//! Determines the factor that limits the throughput of a workload.
//!
//! A resource that is busy nearly all the time is the limit. If there are several, a resource that does work takes
//! precedence over one that is only occupied while others work. For example, a read context is occupied as long as its
//! die is busy. Among equals, the busiest is the limit. If no resource is saturated, throughput is the number of
//! outstanding I/Os divided by their latency (Little's law), unless the schedule or the device's queue limits it. If the
//! members of an array or the volumes are unevenly loaded, the busiest decides.

use super::shares::{SATURATED, Share};
use iodyno_units::human;
use serde_json::{Value, json};

/// The factor that limits the throughput of a workload, found by the rules in the documentation of this module.
#[derive(Clone, Debug)]
pub enum Limit {
    /// This resource is saturated, and limits the throughput.
    Resource {
        share: Share,
        /// Whether more threads would use more cores of the host. False for other resources than cores.
        more_threads: bool,
    },
    /// No operation completed.
    NoneCompleted {
        /// Mean number of outstanding I/Os.
        outstanding: f64,
    },
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
        /// The queue, and the I/Os outstanding on it.
        queue: Queue,
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

/// The command queue of a device, and the load on it.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// Words for the device: `the device`, or which member of an array.
    pub of: &'static str,
    /// Maximum number of commands that the device accepts simultaneously.
    pub max: u32,
    /// Number of I/Os that the workers, or an array, keep outstanding on the device.
    pub outstanding: u64,
    /// Mean number of I/Os outstanding on the device.
    pub mean: f64,
}

impl Queue {
    /// Whether a greater depth adds nothing, because the queue is full.
    fn is_full(&self) -> bool {
        let max = u64::from(self.max);
        self.outstanding > max || self.outstanding == max && self.mean >= 0.95 * f64::from(self.max)
    }
}

/// Load of a cell on volumes of one name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Completed operations per second.
    pub ops_per_s: f64,
    /// Mean number of outstanding I/Os.
    pub oio_mean: f64,
    /// Rate of an open loop; None: closed loop.
    pub offered_iops: Option<f64>,
    /// Shortest command queue of any device, and the load on it; None if no device has a limit.
    pub queue: Option<Queue>,
    /// Whether the host has cores without workers.
    pub has_free_cores: bool,
}

/// Finds what limits a load. `shares` are the resources that it uses, the busiest first.
pub(super) fn limit(shares: &[Share], load: Load) -> Limit {
    if load.ops_per_s == 0.0 && load.oio_mean > 0.0 {
        return Limit::NoneCompleted { outstanding: load.oio_mean };
    }
    let mut shares: Vec<Share> = shares.iter().map(|of| of.bounding(load.ops_per_s)).collect();
    shares.sort_by(|a, b| b.peak().total_cmp(&a.peak()));
    let saturated = || shares.iter().filter(|s| s.peak() >= SATURATED);
    if let Some(limit) = saturated().find(|s| !s.held).or_else(|| saturated().next()) {
        let more_threads = limit.is_cores() && load.has_free_cores;
        return Limit::Resource { share: limit.clone(), more_threads };
    }
    if let Some(both) = shares.iter().find_map(|limit| limit.used_up(&shares)) {
        return Limit::Resource { share: both.bounding(load.ops_per_s), more_threads: false };
    }
    let busiest = shares.first().filter(|share| share.peak() > 0.0).cloned();
    if let Some(iops) = load.offered_iops
        && load.ops_per_s >= 0.95 * iops
    {
        return Limit::Offered { iops, busiest };
    }
    if let Some(queue) = load.queue.filter(Queue::is_full) {
        return Limit::Queue { queue, busiest };
    }
    let latency_ns = if load.ops_per_s > 0.0 { load.oio_mean / load.ops_per_s * 1e9 } else { 0.0 };
    Limit::Latency { outstanding: load.oio_mean, latency_ns, busiest }
}

impl Limit {
    /// Returns the kind of limit and its values as JSON.
    pub fn json(&self) -> Value {
        match self {
            Self::Resource { share, .. } => json!({
                "kind": "resource",
                "resource": share.name,
                "busy_share": share.peak(),
                "iops_at_most": share.bound_iops,
            }),
            Self::NoneCompleted { outstanding } => json!({
                "kind": "none completed",
                "outstanding": outstanding,
            }),
            Self::Offered { iops, .. } => json!({ "kind": "offered rate", "iops": iops }),
            Self::Queue { queue, .. } => json!({
                "kind": "queue",
                "queue_max": queue.max,
                "outstanding": queue.outstanding,
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
        let busy = |s: &Share| format!("{}, {}", name(s), percent(s.peak()));
        let beside = |busiest: &Option<Share>| {
            busiest.as_ref().map_or(String::new(), |b| format!(" ({})", busy(b)))
        };
        match self {
            Self::Resource { share, .. } => busy(share),
            Self::NoneCompleted { .. } => "no operation completed".to_owned(),
            Self::Offered { busiest, .. } => format!("offered rate{}", beside(busiest)),
            Self::Queue { queue, busiest } => format!("queue of {}{}", queue.of, beside(busiest)),
            Self::Latency { busiest, .. } => format!("latency{}", beside(busiest)),
        }
    }

    /// Describes the limit in one sentence. `rate` formats operations per second, and `time` formats ns.
    pub fn sentence(&self, rate: &dyn Fn(f64) -> String, time: &dyn Fn(f64) -> String) -> String {
        let bound = |s: &Share| s.bound_iops.map_or(String::new(), &rate);
        let busiest = |s: &Option<Share>| match s {
            Some(s) => format!(
                "nothing is saturated; the busiest resource is {} ({} busy), which allows {}",
                name(s),
                percent(s.peak()),
                bound(s)
            ),
            None => "nothing is saturated".to_owned(),
        };
        match self {
            Self::Resource { share: s, more_threads } => {
                let (of, remedy) = match (s.is_cores(), more_threads) {
                    (false, _) => ("", ""),
                    (true, true) => (" of the host, not the device", "; use more threads"),
                    (true, false) => {
                        (" of the host, not the device", "; no core is left for more threads")
                    }
                };
                format!(
                    "{}{of}, busy {} of the time: it allows at most {}{remedy}",
                    name(s),
                    percent(s.peak()),
                    bound(s),
                )
            }
            Self::NoneCompleted { outstanding } => format!(
                "no operation completed in the measured window, with {} outstanding",
                human::counted(outstanding.round() as u64, "I/O")
            ),
            Self::Offered { iops, busiest: b } => {
                format!("the offered rate, {}; {}", rate(*iops), busiest(b))
            }
            Self::Queue { queue, busiest: b } => {
                let of = match queue.outstanding.saturating_sub(u64::from(queue.max)) {
                    0 => String::new(),
                    _ => format!(" of {}", queue.outstanding),
                };
                format!(
                    "the queue of {}, which accepts {}{of} outstanding I/Os at a time; {}",
                    queue.of,
                    queue.max,
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

/// Name of a resource, and of the devices on which it is busiest if these are unevenly loaded.
fn name(share: &Share) -> String {
    match share.uneven_in_words() {
        Some((devices, _)) => format!("{} of {devices}", share.name),
        None => share.name.clone(),
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

    /// 1000 operations per second, of which 4 are outstanding.
    const LOAD: Load = Load {
        ops_per_s: 1000.0,
        oio_mean: 4.0,
        offered_iops: None,
        queue: None,
        has_free_cores: true,
    };

    fn share(name: &'static str, held: bool, busy: f64) -> Share {
        Share::of_test(name, held, &[busy])
    }

    fn queue(max: u32, outstanding: u64) -> Queue {
        Queue { of: "the device", max, outstanding, mean: 4.0 }
    }

    fn sentence(limit: &Limit) -> String {
        limit.sentence(&|iops| format!("{iops:.0}"), &|ns| format!("{ns:.0} ns"))
    }

    /// A saturated resource that does work takes precedence over one that is only occupied; both take precedence
    /// over latency.
    #[test]
    fn the_limit_is_what_works_all_the_time() {
        let (contexts, dies) = (share("read contexts", true, 0.99), share("dies", false, 0.93));
        let idle = [share("link", false, 0.4)];
        let words = |shares: &[Share], load: Load| limit(shares, load).words();
        let offered = |iops: f64| Load { offered_iops: Some(iops), ..LOAD };
        let queued = |max: u32| Load { queue: Some(queue(max, 4)), ..LOAD };
        let both = [contexts.clone(), idle[0].clone()];
        assert_eq!(words(&[contexts, dies.clone()], LOAD), "dies, 93 %");
        assert_eq!(words(&both, LOAD), "read contexts, 99 %");
        assert_eq!(words(&idle, LOAD), "latency (link, 40 %)");
        assert_eq!(words(&idle, offered(1010.0)), "offered rate (link, 40 %)");
        assert_eq!(words(&idle, offered(2000.0)), "latency (link, 40 %)");
        assert_eq!(words(&idle, queued(3)), "queue of the device (link, 40 %)");
        assert_eq!(words(&idle, queued(4)), "queue of the device (link, 40 %)");
        assert_eq!(words(&idle, queued(5)), "latency (link, 40 %)");
        assert_eq!(words(&[], LOAD), "latency");
        assert_eq!(words(&[dies], offered(1000.0)), "dies, 93 %");
        let limits = |base: f64, burst: f64| {
            let burst = share("IOPS limit while credits last", false, burst);
            words(&[share("IOPS limit", false, base), burst], LOAD)
        };
        assert_eq!(limits(0.7, 0.3), "IOPS limit, first with burst credits, 100 %");
        assert_eq!(limits(0.0, 1.0), "IOPS limit while credits last, 100 %");
        assert_eq!(limits(1.0, 0.0), "IOPS limit, 100 %");
        assert_eq!(limits(0.3, 0.2), "latency (IOPS limit, 30 %)");
    }

    /// The busiest device decides, even if the mean is low: at a utilisation b, it allows the rate divided by b.
    #[test]
    fn the_busiest_device_limits() {
        let of = |parts: &[f64]| sentence(&limit(&[Share::of_test("dies", false, parts)], LOAD));
        let saturated = "dies of 1 of 4 devices, busy 100 % of the time: it allows at most 1000";
        assert_eq!(of(&[1.0, 0.0, 0.0, 0.0]), saturated);
        let half = of(&[0.5, 0.0, 0.0, 0.0]);
        assert!(half.contains("dies of the busiest of 4 devices (50 % busy), which allows 2000;"));
        assert!(of(&[0.5, 0.48, 0.52]).contains("is dies (50 % busy), which allows 2000;"));
        let mut cores = share("generator cores", false, 1.0);
        cores.of_host = true;
        let remedy = |has_free_cores| {
            sentence(&limit(std::slice::from_ref(&cores), Load { has_free_cores, ..LOAD }))
        };
        assert!(remedy(true).ends_with("; use more threads"));
        assert!(remedy(false).ends_with("; no core is left for more threads"));
    }

    #[test]
    fn latency_is_what_is_outstanding_over_the_rate() {
        let Limit::Latency { latency_ns, .. } = limit(&[], LOAD) else {
            panic!("nothing is saturated")
        };
        assert!((latency_ns - 4e6).abs() < 1e-3);
        let stuck = sentence(&limit(&[], Load { ops_per_s: 0.0, ..LOAD }));
        assert_eq!(stuck, "no operation completed in the measured window, with 4 I/Os outstanding");
    }
}
