//! Usage of the parts of a machine: busy times of resources, and phase times of I/Os, all since the machine's start.
//! The difference of two [`Snapshot`]s covers the time between them.

use crate::flash_counts::Counts;
use crate::part_id::PartId;
use crate::read_cache_counts::ReadCacheCounts;

/// A resource, or several equal ones together.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Name of the resource, such as `flash channels`.
    pub name: &'static str,
    /// The part that the resource belongs to; `None`: the host.
    pub part: Option<PartId>,
    /// Number of equal resources.
    pub count: u32,
    /// Whether the resource does no work itself but is held while others work, such as a read context. If those are slow, all
    /// of these are in use.
    pub held: bool,
    /// Busy time since the start, summed over all `count`, ns.
    pub busy_ns: u64,
}

impl Resource {
    /// Utilization over `elapsed_ns`, averaged over all `count`: 0 to 1.
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
    /// Name of the phase, such as `page read in the cells`.
    pub name: &'static str,
    /// Reads, writes, or pages of reads: the unit of `count`.
    pub of: Of,
    /// Total time in the phase, summed over all that `count` counts, ns.
    pub total_ns: u64,
    /// Number of reads, pages or writes, as `of` says.
    pub count: u64,
}

/// Usage of one volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeUsage {
    /// The host's resources, which are the same for every volume, and those of the volume's parts.
    pub resources: Vec<Resource>,
    /// Phase times of the volume's I/Os, in its root part.
    pub phases: Vec<Phase>,
    /// Phase times in the parts below the root, by kind of part: `array`, `disk`. Empty if the root is a device.
    pub below: Vec<(&'static str, Vec<Phase>)>,
    /// Sum of the counters of the volume's flash devices, if it has any.
    pub counts: Option<Counts>,
    /// Counters of the volume's read cache, if it has one.
    pub read_cache: Option<ReadCacheCounts>,
}

/// Usage of a whole machine up to a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Virtual time of the snapshot, ns.
    pub at_ns: u64,
    /// Events up to that time.
    pub events: u64,
    /// Usage by volume.
    pub volumes: Vec<VolumeUsage>,
}

impl Snapshot {
    /// Difference from an earlier snapshot of the same machine; `at_ns` is the elapsed time. An I/O is
    /// counted in the phases that it passed in between.
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

/// Adds the phases `more` to `all`; phases with the same name are summed.
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

/// The unit that a phase counts.
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
