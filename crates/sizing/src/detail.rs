//! More about the system that is recommended: what is left of it when something fails, whether its cache helps, and what
//! it does in order.

use crate::candidate::Candidate;
use crate::lab::{Lab, together};
use crate::row::Row;
use crate::search::Count;
use crate::simulate::{Arrays, Condition, Effort, Measured, run};

use iodyno_raid::Level;
use iodyno_run::RunError;
use iodyno_workload::Spec;

const MS: u64 = 1_000_000;
/// Outstanding operations on each array, in order.
pub const SEQUENTIAL_DEPTHS: [u32; 4] = [1, 24, 48, 96];
/// The most virtual time of such a cell.
const SEQUENTIAL_NS: (u64, u64) = (60 * MS, 60 * MS);

/// See the module.
#[derive(Clone, Debug)]
pub struct Detail {
    /// The asked rate under each condition; of a system with a cache, with it.
    pub what_ifs: Vec<WhatIf>,
    /// The cache, on and off.
    pub cache: Option<CacheAdvice>,
    /// By depth: bytes a second of reads and of writes in order, of all systems.
    pub sequential: Vec<(u32, f64, f64)>,
}

/// The asked rate under a condition.
#[derive(Clone, Debug)]
pub struct WhatIf {
    /// The condition.
    pub condition: Condition,
    /// The system that it concerns, of all.
    pub measured: Measured,
    /// Whether it still holds.
    pub holds: bool,
}

/// A write cache, on and off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheAdvice {
    /// The 99th percentile at the asked rate, ns: on, off. None where nothing completed.
    pub p99_ns: (Option<f64>, Option<f64>),
    /// The highest rate within the limit of all systems: on, off. Off: None where the asked rate does not hold.
    pub highest_iops: (f64, Option<f64>),
}

impl CacheAdvice {
    /// Whether to leave it on: it holds more by 5 %, or else answers sooner.
    pub fn leave_on(&self) -> bool {
        let (on, Some(off)) = self.highest_iops else { return true };
        let (on_ns, off_ns) = (self.p99_ns.0, self.p99_ns.1.unwrap_or(f64::INFINITY));
        on >= 1.05 * off || (on >= off / 1.05 && on_ns.is_some_and(|ns| ns <= off_ns))
    }
}

enum Job {
    If(Condition),
    CacheOff,
    Sequential(u32, &'static str),
}

enum Done {
    If(WhatIf),
    CacheOff(Option<f64>, Option<f64>),
    BytesPerS(f64),
}

/// Works it out, several cells at once.
pub(crate) fn detail(lab: &Lab<'_>, of: &Candidate, row: &Row) -> Result<Detail, RunError> {
    let (demand, count) = (lab.demand, row.count);
    let share_iops = demand.rate_iops / f64::from(count.units);
    let mut jobs = Vec::new();
    for &depth in SEQUENTIAL_DEPTHS.iter().rev() {
        jobs.extend([Job::Sequential(depth, "read"), Job::Sequential(depth, "write")]);
    }
    // (With a loss the two would not be compared.)
    if of.has_cache() && lab.base() == Condition::Whole {
        jobs.push(Job::CacheOff);
    }
    let mut conditions = Vec::new();
    if lab.base() != Condition::Whole {
        conditions.push(Condition::Whole);
    }
    if !matches!(of.level, Level::Raid0 | Level::Jbod) {
        conditions.extend([Condition::DeviceLost, Condition::Rebuild]);
    }
    if of.adapter_count() == 2 {
        conditions.push(Condition::AdapterLost);
    }
    jobs.extend(conditions.into_iter().filter(|c| *c != lab.base()).map(Job::If));
    jobs.push(Job::If(Condition::Filled(0.8)));
    let done = together(&jobs, |job| {
        Ok(match *job {
            Job::If(condition) => {
                let measured = lab.cell(of, count, share_iops, (Effort::Shown, condition))?;
                let holds = measured.holds(share_iops, demand);
                Done::If(WhatIf { condition, measured, holds })
            }
            Job::CacheOff => {
                let off = lab.cell(of, count, share_iops, (Effort::Shown, Condition::CacheOff))?;
                let highest = if off.holds(share_iops, demand) {
                    Some(lab.highest(of, count, share_iops, Condition::CacheOff)?.0)
                } else {
                    None
                };
                Done::CacheOff(off.p99_ns, highest)
            }
            Job::Sequential(depth, kind) => Done::BytesPerS(in_order(lab, of, count, depth, kind)?),
        })
    })?;
    let units = f64::from(count.units);
    let (mut what_ifs, mut cache, mut rates) = (Vec::new(), None, Vec::new());
    for done in done {
        match done {
            Done::If(what_if) => what_ifs.push(what_if),
            Done::CacheOff(p99_ns, highest) => {
                let on_iops = row.highest.as_ref().map_or(demand.rate_iops, |h| h.iops);
                cache = Some(CacheAdvice {
                    p99_ns: (row.asked.p99_ns, p99_ns),
                    highest_iops: (on_iops, highest.map(|iops| iops * units)),
                });
            }
            Done::BytesPerS(rate) => rates.push(rate * units),
        }
    }
    let depths = SEQUENTIAL_DEPTHS.iter().rev().zip(rates.chunks_exact(2));
    let mut sequential: Vec<_> = depths.map(|(depth, rate)| (*depth, rate[0], rate[1])).collect();
    sequential.reverse();
    Ok(Detail { what_ifs, cache, sequential })
}

/// Bytes a second of one system, in blocks of 1 MiB, one after the other on each array.
fn in_order(
    lab: &Lab<'_>,
    of: &Candidate,
    count: Count,
    depth: u32,
    kind: &str,
) -> Result<f64, RunError> {
    let text = format!(
        "schema = 1\ndepth = {depth}\nblock = \"1MiB\"\n[mix]\n{kind} = 100\n[all]\naddresses = \"sequential\"\n"
    );
    let spec = Spec::from_toml(&text).expect("this is right");
    let arrays = Arrays { of, arrays: count.arrays, all_arrays: count.arrays };
    lab.count_cell();
    let target = arrays.target(Condition::Whole);
    Ok(run(&target, spec, SEQUENTIAL_NS, Condition::Whole.alone(), lab.stop)?.bytes_per_s)
}
