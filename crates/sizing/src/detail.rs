//! Simulates the recommended system further: its rate after failures, the benefit of its write cache, and its
//! sequential throughput.

use crate::candidate::Candidate;
use crate::lab::{Lab, together};
use crate::row::Row;
use crate::search::Count;
use crate::simulate::{Arrays, Condition, Effort, How, Measured, State, run};

use iodyno_drive::Length;
use iodyno_raid::Level;
use iodyno_run::RunError;
use iodyno_workload::Spec;

const MS: u64 = 1_000_000;
/// Queue depths per array at which sequential throughput is simulated.
pub const SEQUENTIAL_DEPTHS: [u32; 4] = [1, 24, 48, 96];
/// Ramp and window of a simulation of sequential throughput, ns.
const SEQUENTIAL: Length = Length { ramp_ns: 60 * MS, window_ns: 60 * MS };

/// Further simulation results for the recommended system.
#[derive(Clone, Debug)]
pub struct Detail {
    /// Results at the requested rate, one per failure or changed setting.
    pub what_ifs: Vec<WhatIf>,
    /// Comparison of the write cache switched on and off; `None` if the system has no write cache, or if the demand
    /// includes a loss.
    pub cache: Option<CacheAdvice>,
    /// Sequential throughput of all systems together, by queue depth.
    pub sequential: Vec<Sequential>,
}

/// Sequential throughput of all systems together at one queue depth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sequential {
    /// Queue depth per array.
    pub depth: u32,
    /// Sequential read throughput of all arrays of all systems together, bytes per second.
    pub read_bytes_per_s: f64,
    /// Sequential write throughput of all arrays of all systems together, bytes per second.
    pub write_bytes_per_s: f64,
}

/// Result at the requested rate under one failure or changed setting.
#[derive(Clone, Debug)]
pub struct WhatIf {
    /// Failure or changed setting that is simulated.
    pub condition: Condition,
    /// Result of the simulation under `condition`.
    pub measured: Measured,
    /// Whether the system still meets the demand under `condition`.
    pub holds: bool,
}

/// Comparison of a system with its write cache on and off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheAdvice {
    /// 99th percentile of response times at the requested rate, ns: with the cache on, and with it off. `None` if
    /// nothing completed.
    pub p99_ns: (Option<f64>, Option<f64>),
    /// Highest operations per second that all systems together sustain within the latency limit: with the cache on, and
    /// with it off. The latter is `None` if not even the requested rate is sustained.
    pub highest_iops: (f64, Option<f64>),
}

impl CacheAdvice {
    /// Whether the write cache should stay on. True if the system sustains at least 5 % more with the cache than
    /// without it, or about the same rate with no longer response times.
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
    If(Box<WhatIf>),
    CacheOff(Option<f64>, Option<f64>),
    BytesPerS(f64),
}

/// Simulates the further results, several cells in parallel.
pub(crate) fn detail(lab: &Lab<'_>, of: &Candidate, row: &Row) -> Result<Detail, RunError> {
    let (demand, count) = (lab.demand, row.count);
    let share_iops = demand.rate_iops / f64::from(count.units);
    let mut jobs = Vec::new();
    for &depth in SEQUENTIAL_DEPTHS.iter().rev() {
        jobs.extend([Job::Sequential(depth, "read"), Job::Sequential(depth, "write")]);
    }
    // With a loss, cache on and off would not be comparable.
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
                let measured =
                    lab.cell(of, count, share_iops, How { effort: Effort::Shown, condition })?;
                let holds = measured.holds(share_iops, demand);
                Done::If(Box::new(WhatIf { condition, measured, holds }))
            }
            Job::CacheOff => {
                let off = lab.cell(
                    of,
                    count,
                    share_iops,
                    How { effort: Effort::Shown, condition: Condition::CacheOff },
                )?;
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
            Done::If(what_if) => what_ifs.push(*what_if),
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
    let mut sequential: Vec<_> = depths
        .map(|(&depth, rate)| Sequential {
            depth,
            read_bytes_per_s: rate[0],
            write_bytes_per_s: rate[1],
        })
        .collect();
    sequential.reverse();
    Ok(Detail { what_ifs, cache, sequential })
}

/// Simulates the sequential throughput of one system in blocks of 1 MiB, in bytes per second.
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
    Ok(run(&target, spec, SEQUENTIAL, State::WHOLE, lab.stop)?.bytes_per_s)
}
