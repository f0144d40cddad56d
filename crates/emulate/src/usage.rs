//! Usage of the parts of a machine: busy times of the resources, and phase times of the I/Os. Everything
//! counts from the machine's start; the difference of two [`Snapshot`]s covers the time between them.

use crate::flash_counts::Counts;
use crate::part_id::PartId;
use crate::read_cache_counts::ReadCacheCounts;

/// A resource, or several equal ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Its name, such as `flash channels`.
    pub name: &'static str,
    /// The part that it belongs to; None: the host's.
    pub part: Option<PartId>,
    /// How many there are.
    pub count: u32,
    /// It does nothing itself but is held while others work, such as a read context: when those are
    /// slow all of them are in use.
    pub held: bool,
    /// Busy since the start, all together, ns.
    pub busy_ns: u64,
}

impl Resource {
    /// The share of `elapsed_ns` in which it was busy, averaged over all: 0 to 1.
    pub fn share(&self, elapsed_ns: u64) -> f64 {
        if elapsed_ns == 0 || self.count == 0 {
            return 0.0;
        }
        self.busy_ns as f64 / (elapsed_ns as f64 * f64::from(self.count))
    }
}

/// Time of all I/Os of a volume by phase, and how many there were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phase {
    /// Its name, such as `page in the cells`.
    pub name: &'static str,
    /// Reads, writes, or pages of reads: the unit of `count`.
    pub of: Of,
    /// Together, ns.
    pub total_ns: u64,
    /// Number of units.
    pub count: u64,
}

/// Usage of one volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeUsage {
    /// The host's resources, which are the same for every volume, and those of its parts.
    pub resources: Vec<Resource>,
    /// Phase times of its I/Os, in the part at its root.
    pub phases: Vec<Phase>,
    /// What the parts below did, those of one kind together: `array`, `disk`. Empty where the root is a device.
    pub below: Vec<(&'static str, Vec<Phase>)>,
    /// What happened in the flash of all its flash devices, if it has any.
    pub counts: Option<Counts>,
    /// What its read cache did, if it has one.
    pub read_cache: Option<ReadCacheCounts>,
}

/// Usage of a whole machine up to a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// That time, ns.
    pub at_ns: u64,
    /// Events until then.
    pub events: u64,
    /// By volume.
    pub volumes: Vec<VolumeUsage>,
}

impl Snapshot {
    /// Difference from `before`, of the same machine: `at_ns` is the time between. An I/O is
    /// counted in the phases that it passed meanwhile.
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
            // After a power cut, scheduled work is taken back.
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

/// Phases of several parts or volumes, those with the same name together.
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

/// The unit of a phase.
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
