//! Usage of the components of a machine since its start: busy times of resources, and times of I/Os in each phase.
//! The difference of two [`Snapshot`]s covers the time between them.

use crate::flash_counts::Counts;
use crate::part_id::PartId;
use crate::read_cache_counts::ReadCacheCounts;

/// Busy time of a resource of the machine, such as its flash channels, summed over all equal resources.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Name of the resource, such as `flash channels`.
    pub name: &'static str,
    /// The component to which the resource belongs; `None`: the host.
    pub part: Option<PartId>,
    /// Number of equal resources in this entry.
    pub count: u32,
    /// Whether the resource does no work itself but is reserved while other resources work, such as a read context.
    /// If all are in use, the bottleneck is one of those other resources.
    pub held: bool,
    /// Busy time since the machine started, summed over all `count` resources, ns.
    pub busy_ns: u64,
}

impl Resource {
    /// Returns the utilization over `elapsed_ns`, averaged over all `count` resources: 0 to 1.
    pub fn share(&self, elapsed_ns: u64) -> f64 {
        if elapsed_ns == 0 || self.count == 0 {
            return 0.0;
        }
        self.busy_ns as f64 / (elapsed_ns as f64 * f64::from(self.count))
    }
}

/// Total time that the I/Os of a volume spent in a phase, and their number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phase {
    /// Name of the phase, such as `die reads the page`.
    pub name: &'static str,
    /// Unit of `count`: reads, writes, or pages of reads.
    pub of: Of,
    /// Time in the phase, summed over `count` operations or pages, ns.
    pub total_ns: u64,
    /// Number of reads, writes or pages read, depending on `of`.
    pub count: u64,
}

/// Busy times of a volume's resources, times of its phases, and its counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeUsage {
    /// Resources of the host (the same for every volume) and of the volume's components.
    pub resources: Vec<Resource>,
    /// Time spent in each phase of the volume's root component, which receives the host's operations.
    pub phases: Vec<Phase>,
    /// Time spent in each phase below the root component, by type of component, such as `array` or `disk`. Empty if
    /// the root is a device.
    pub below: Vec<(&'static str, Vec<Phase>)>,
    /// Counters summed over the volume's flash devices; `None` without flash.
    pub counts: Option<Counts>,
    /// Counters of the volume's read cache; `None` without a read cache.
    pub read_cache: Option<ReadCacheCounts>,
}

/// Resource usage of a whole machine from its start up to a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Virtual time of the snapshot, ns.
    pub at_ns: u64,
    /// Number of events up to `at_ns`.
    pub events: u64,
    /// Usage of each volume, in the order of their numbers.
    pub volumes: Vec<VolumeUsage>,
}

impl Snapshot {
    /// Returns the usage since an earlier snapshot of the same machine; `at_ns` is the elapsed time. An I/O counts in
    /// the phases that it passed in this interval.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let volumes = self.volumes.iter().zip(&before.volumes);
        Self {
            at_ns: self.at_ns - before.at_ns,
            events: self.events - before.events,
            volumes: volumes.map(|(after, before)| after.since(before)).collect(),
        }
    }
}

impl VolumeUsage {
    fn since(&self, before: &Self) -> Self {
        let resources = self.resources.iter().zip(&before.resources);
        let since = |after: &[Phase], before: &[Phase]| -> Vec<Phase> {
            let both = after.iter().zip(before);
            let difference = |(a, b): (&Phase, &Phase)| Phase {
                total_ns: a.total_ns - b.total_ns,
                count: a.count - b.count,
                ..a.clone()
            };
            both.map(difference).collect()
        };
        let below = self.below.iter().zip(&before.below);
        Self {
            // A power cut takes back scheduled work, so the difference may be negative.
            resources: resources
                .map(|(a, b)| Resource {
                    busy_ns: a.busy_ns.saturating_sub(b.busy_ns),
                    ..a.clone()
                })
                .collect(),
            phases: since(&self.phases, &before.phases),
            below: below.map(|(a, b)| (a.0, since(&a.1, &b.1))).collect(),
            counts: self.counts.zip(before.counts).map(|(after, before)| after.since(&before)),
            read_cache: self
                .read_cache
                .zip(before.read_cache)
                .map(|(after, before)| after.since(before)),
        }
    }
}

/// Adds the phases `more` to `all`. Sums phases with the same name and the same `of`.
pub fn sum(all: &mut Vec<Phase>, more: &[Phase]) {
    for phase in more {
        match all.iter_mut().find(|p| p.name == phase.name && p.of == phase.of) {
            Some(sum) => {
                sum.total_ns += phase.total_ns;
                sum.count += phase.count;
            }
            None => all.push(phase.clone()),
        }
    }
}

/// Type of the operations or page reads that a phase counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Of {
    /// A host's read.
    #[default]
    Read,
    /// One flash page of a host's read.
    PageRead,
    /// A host's write.
    Write,
}
