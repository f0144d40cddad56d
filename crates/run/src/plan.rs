//! Estimates the cost of a run before its start: duration, bytes written, and wear as a fraction of the device's rated
//! endurance.

use crate::resolved_run::{MethodRun, ResolvedRun};
use iodyno_drive::why_not_warmed_up;
use iodyno_emulate::spec::Kind;
use iodyno_measure::Threshold;
use iodyno_method::Budget;
use iodyno_targets::{Health, Inspection};
use iodyno_units::{OpKind, human};
use iodyno_workload::{ArrivalKind, CellSpec, Spec};
use serde::Serialize;
use std::ops::Range;

/// Approximate overhead of a method's step on real storage, ns: starting threads, calibrating the load
/// generator, reading conditions and storing the cell. Measured as 30 to 60 ms on two cores.
const AROUND_STEP_NS: u64 = 50_000_000;

/// Cost of a run (time, bytes written, wear), as far as it is known in advance.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Plan {
    /// Number of cells (measurements) over all targets, repeats included.
    pub cells: usize,
    /// Number of times that the list of cells is run.
    pub repeats: u32,
    /// Thresholds by which the run will be judged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<Threshold>,
    /// Total length of all cells (measurements) with a time limit, including delays and ramps, ns. Excludes writing
    /// initial content.
    pub time_ns: u64,
    /// Length of each cell (measurement) in the list with its delay and ramp, ns, without repeats. Empty for a method,
    /// whose cells depend on results.
    #[serde(skip)]
    pub cell_times_ns: Vec<u64>,
    /// Whether `time_ns` is simulated time, which differs from the time that the simulation takes.
    pub virtual_time: bool,
    /// Whether the targets are emulated, so that nothing real is written.
    pub emulated: bool,
    /// Whether the duration is unknown because a cell ends after a number of operations or bytes.
    pub open_ended: bool,
    /// Bytes to write as initial content of new files, summed over all targets.
    pub lay_out_bytes: u64,
    /// Bytes that cells will write, summed over all targets. Includes only cells with a limit on operations, bytes or
    /// rate.
    pub cell_write_bytes: u64,
    /// Whether part of `cell_write_bytes` is estimated from an offered rate, which is met only on average.
    #[serde(skip)]
    pub by_rate: bool,
    /// Whether some workloads run on a single target instead of on all targets of the run.
    #[serde(skip)]
    pub on_own_targets: bool,
    /// Total time of cells that write as fast as the targets allow, ns. Their bytes are not known in advance.
    pub unlimited_write_ns: u64,
    /// Endurance of each target whose device reports it.
    pub endurance: Vec<Endurance>,
    /// Estimated cells, duration and fill bytes of a method; None for a list of cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Description of the plan, one sentence per element.
    pub words: Vec<String>,
}

/// Endurance of a target's device, from its health log.
#[derive(Clone, Debug, Serialize)]
pub struct Endurance {
    /// Name or path of the target.
    pub target: String,
    /// Rated endurance, bytes. Estimated as bytes written so far divided by the percentage used.
    pub rated_bytes: u64,
    /// Bytes written since the device was new.
    pub written_bytes: u64,
    /// Bytes that this run will write to the device. Cells without a limit are assumed to write at 1 GB/s.
    pub run_bytes: u64,
}

/// Estimated writes of a workload on one target.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Writes {
    /// Upper bound, bytes.
    AtMost(f64),
    /// Approximate amount, bytes, from the offered rate.
    About(f64),
    /// Writes at the target's maximum speed for this time, ns.
    Unlimited(u64),
}

impl Writes {
    /// Estimates the writes of a workload on one target, including its ramp.
    fn of(spec: &Spec, capacity_bytes: u64) -> Self {
        let limits = spec.limits();
        let Range { start, end } = iodyno_drive::active_range(spec, capacity_bytes);
        let share = share_of_writes(spec);
        let long_ns = limits.ramp_ns + limits.time_ns.unwrap_or(0);
        let by_ops = limits.ops.map(|n| n as f64 * f64::from(spec.max_data_bytes()) * share);
        let by_bytes = limits.bytes.map(|n| n as f64 * share);
        let by_passes = limits.passes.map(|n| n * end.saturating_sub(start) as f64 * share);
        let by_rate = match spec.arrivals() {
            ArrivalKind::Open { rate_iops, .. } if limits.time_ns.is_some() => {
                Some(rate_iops * long_ns as f64 / 1e9 * share * mean_write_bytes(spec))
            }
            _ => None,
        };
        let most = by_ops.into_iter().chain(by_bytes).chain(by_passes).reduce(f64::min);
        match (most, by_rate) {
            (_, _) if share == 0.0 => Self::AtMost(0.0),
            (None, None) => Self::Unlimited(long_ns),
            (Some(most), Some(rate)) if most <= rate => Self::AtMost(most),
            (_, Some(rate)) => Self::About(rate),
            (Some(most), None) => Self::AtMost(most),
        }
    }
}

/// Mean size of a write in the workload, bytes.
fn mean_write_bytes(spec: &Spec) -> f64 {
    let blocks = spec.blocks(OpKind::Write);
    let shares: f64 = blocks.iter().map(|b| b.share).sum();
    blocks.iter().map(|b| f64::from(b.bytes) * b.share).sum::<f64>() / shares.max(f64::MIN_POSITIVE)
}

/// Bytes written to each target's device, by all targets on the same device. `devices` names the disks at the
/// bottom of each target's storage stack; a target without disks counts as its own device.
fn bytes_by_device(devices: &[Vec<&str>], bytes: &[u64]) -> Vec<u64> {
    let same = |i: usize, j: usize| i == j || !devices[i].is_empty() && devices[i] == devices[j];
    let of = |i| (0..bytes.len()).filter(|&j| same(i, j)).map(|j| bytes[j]).sum();
    (0..bytes.len()).map(of).collect()
}

impl Plan {
    /// Estimates the cost of the run, summed over its cells and targets.
    pub fn new(
        run: &ResolvedRun,
        inspections: &[Inspection],
        health: &[Option<Health>],
        capacities_bytes: &[u64],
        lay_out_bytes: &[u64],
    ) -> Self {
        let virtual_time = run.emulated.as_ref().is_some_and(|e| !e.live);
        let emulated = run.emulated.is_some();
        let mut plan = Self {
            cells: run.cells.len() * run.request.repeats as usize,
            repeats: run.request.repeats,
            thresholds: run.thresholds.clone(),
            lay_out_bytes: lay_out_bytes.iter().sum(),
            virtual_time,
            emulated,
            ..Self::default()
        };
        let targets = inspections.len() as u64;
        let capacity_bytes = capacities_bytes.iter().copied().max().unwrap_or(0);
        for cell in &run.cells {
            let loads = || core::iter::once(cell).chain(&cell.beside);
            let time_ns = |load: &CellSpec| {
                let by_trace_ns = load.replay.as_ref().map(|replay| replay.time_ns());
                load.spec.limits().time_ns.or(by_trace_ns)
            };
            let long_ns = |load: &CellSpec| {
                let limits = load.spec.limits();
                limits.start_after_ns + limits.ramp_ns + time_ns(load).unwrap_or_default()
            };
            plan.cell_times_ns.push(loads().map(long_ns).max().unwrap_or(0));
            plan.open_ended |= loads().any(|load| load.spec.limits().time_ns.is_none());
            if emulated {
                continue;
            }
            for load in core::iter::once(cell).chain(&cell.beside) {
                plan.on_own_targets |= load.only_on.is_some();
                let targets = if load.only_on.is_some() { 1 } else { targets };
                let writes = match &load.replay {
                    Some(replay) => Writes::AtMost(replay.trace.summary().written_bytes() as f64),
                    None => Writes::of(&load.spec, capacity_bytes),
                };
                match writes {
                    Writes::AtMost(bytes) => plan.cell_write_bytes += bytes as u64 * targets,
                    Writes::About(bytes) => {
                        plan.cell_write_bytes += bytes as u64 * targets;
                        plan.by_rate = true;
                    }
                    Writes::Unlimited(ns) => plan.unlimited_write_ns += ns,
                }
            }
        }
        let repeats = u64::from(run.request.repeats);
        plan.time_ns = plan.cell_times_ns.iter().sum::<u64>() * repeats;
        plan.unlimited_write_ns *= repeats;
        plan.cell_write_bytes *= repeats;
        plan.endurance = plan.endurances(inspections, health, lay_out_bytes);
        if let Some(of) = &run.method {
            let capacity_bytes = capacities_bytes.iter().copied().max().unwrap_or(0);
            let budget = Budget::new(&of.method, capacity_bytes);
            let subjects = if of.each { targets } else { 1 };
            plan.time_ns = budget.time_max_ns.saturating_mul(subjects);
            plan.cells = (budget.cells_max * subjects) as usize;
            plan.cell_times_ns.clear();
            plan.open_ended = false;
            // Fills are counted separately from the writes of cells.
            plan.cell_write_bytes = if emulated { 0 } else { budget.fill_bytes * targets };
            plan.words = plan.method_sentences(&budget, of, subjects);
            plan.budget = Some(budget);
            return plan;
        }
        plan.words = plan.sentences(targets);
        plan.words.extend(states(run));
        plan.words.extend(not_warmed_up(run));
        plan
    }

    /// The endurance of each target whose device reports it.
    fn endurances(
        &self,
        inspections: &[Inspection],
        health: &[Option<Health>],
        lay_out_bytes: &[u64],
    ) -> Vec<Endurance> {
        // (One target may get all of it where workloads have their own.)
        let share = if self.on_own_targets { 1 } else { (inspections.len() as u64).max(1) };
        let cells = self.cell_write_bytes / share + bytes_at_1_gb_per_s(self.unlimited_write_ns);
        let bytes: Vec<u64> = (0..inspections.len())
            .map(|i| lay_out_bytes.get(i).copied().unwrap_or(0) + cells)
            .collect();
        let disks = |i: &'_ Inspection| -> Vec<String> {
            i.physical.iter().map(|d| d.kernel_name.clone()).collect()
        };
        let disks: Vec<Vec<String>> = inspections.iter().map(disks).collect();
        let names: Vec<Vec<&str>> =
            disks.iter().map(|d| d.iter().map(String::as_str).collect()).collect();
        let by_device = bytes_by_device(&names, &bytes);
        let each = inspections.iter().zip(health).zip(by_device);
        let each = each.filter_map(|((inspection, health), run_bytes)| {
            let health = health.as_ref()?;
            Some(Endurance {
                target: inspection.name.to_string(),
                rated_bytes: health.rated_endurance_bytes()?,
                written_bytes: health.data_written_bytes?,
                run_bytes,
            })
        });
        each.collect()
    }

    fn method_sentences(&self, budget: &Budget, of: &MethodRun, subjects: u64) -> Vec<String> {
        let mut words = vec![of.method.source.name.clone()];
        if let Some(standard) = &of.method.standard {
            let deviations = of.method.deviations();
            words[0] = if deviations.is_empty() {
                standard.clone()
            } else {
                format!("{standard}: NON-CONFORMANT, {}", deviations.join(", "))
            };
        }
        let several = |least: u64, most: u64| {
            if least == most { format!("{most}") } else { format!("{least} to {most}") }
        };
        let long = |ns: u64| human::duration_ns(ns.saturating_mul(subjects));
        let (least, most) = (long(budget.time_min_ns), long(budget.time_max_ns));
        let time = if least == most { most } else { format!("{least} to {most}") };
        let cells = several(budget.cells_min * subjects, budget.cells_max * subjects);
        let of_time = if self.virtual_time {
            " of virtual time, less if a steady state is proven earlier"
        } else {
            ""
        };
        let steps = if cells == "1" { "step, which measures" } else { "steps, which measure" };
        words.push(format!("{cells} {steps} for {time}{of_time}"));
        let (least, most) = (budget.cells_min, budget.cells_max);
        let around = |steps: u64| steps.saturating_mul(subjects).saturating_mul(AROUND_STEP_NS);
        // Omitted where it is small compared with the time of the cells.
        if !self.virtual_time && around(most) > budget.time_max_ns.saturating_mul(subjects) / 10 {
            let (least, most) =
                (human::duration_ns(around(least)), human::duration_ns(around(most)));
            let more = if least == most { most } else { format!("{least} to {most}") };
            words.push(format!(
                "about {more} more for starting the steps and storing their results"
            ));
        }
        if self.cell_write_bytes > 0 {
            words.push(format!("fills write {}", human::size(self.cell_write_bytes)));
        }
        if self.unlimited_write_ns > 0 {
            words.push("cells write as fast as the target accepts".to_owned());
        }
        words
    }

    /// Approximate remaining time of the run, ns, if cell `index` (from 0, counting repeats) needs another
    /// `cell_left_ns`. Excludes work between cells. None if the duration is unknown: for methods, virtual time,
    /// and cells without a time limit.
    pub fn left_ns(&self, index: usize, cell_left_ns: u64) -> Option<u64> {
        if self.virtual_time || self.open_ended || self.cell_times_ns.is_empty() {
            return None;
        }
        let to_come = self.cell_times_ns.iter().cycle().take(self.cells).skip(index + 1);
        Some(cell_left_ns + to_come.sum::<u64>())
    }

    /// Whether the plan should be printed: the run writes, takes more than a minute, or has emulated targets.
    pub fn is_notable(&self) -> bool {
        self.emulated || self.time_ns > 60_000_000_000 || self.writes()
    }

    fn writes(&self) -> bool {
        self.lay_out_bytes + self.cell_write_bytes + self.unlimited_write_ns > 0
    }

    fn sentences(&self, targets: u64) -> Vec<String> {
        let mut words = Vec::new();
        let cells =
            if self.cells == 1 { "1 cell".to_owned() } else { format!("{} cells", self.cells) };
        let times = if self.repeats > 1 {
            format!(" ({} × {} repeats)", self.cells / self.repeats as usize, self.repeats)
        } else {
            String::new()
        };
        let on = if targets == 1 {
            String::new()
        } else if self.on_own_targets {
            format!(", each job on a different one of {targets} targets")
        } else {
            format!(" on each of {targets} targets at the same time")
        };
        let long = if self.open_ended { "at least " } else { "" };
        let of = if self.virtual_time { " of virtual time" } else { "" };
        words.push(format!("{cells}{times}{on}, {long}{}{of}", human::duration_ns(self.time_ns)));
        let mut writes = Vec::new();
        if self.lay_out_bytes > 0 {
            writes.push(format!("{} to lay the file out", human::size(self.lay_out_bytes)));
        }
        if self.cell_write_bytes > 0 {
            let how = if self.by_rate { "about" } else { "at most" };
            writes.push(format!("{how} {} in cells", human::size(self.cell_write_bytes)));
        }
        if self.unlimited_write_ns > 0 {
            writes.push(format!(
                "for {} as fast as the target accepts ({} at 1 GB/s)",
                human::duration_ns(self.unlimited_write_ns),
                human::size(bytes_at_1_gb_per_s(self.unlimited_write_ns) * targets)
            ));
        }
        if !writes.is_empty() {
            words.push(format!("writes {}", writes.join(", then ")));
        }
        for device in &self.endurance {
            let how = if self.unlimited_write_ns > 0 { " at 1 GB/s" } else { "" };
            words.push(format!(
                "{}: rated for about {}, {} written so far; this run adds about {}{how}",
                device.target,
                human::size(device.rated_bytes),
                human::size(device.written_bytes),
                human::percent(device.run_bytes as f64 / device.rated_bytes as f64, 4)
            ));
        }
        words
    }
}

/// Describes the state of the emulated devices before each cell. Cells with the same state share a sentence.
fn states(run: &ResolvedRun) -> Vec<String> {
    let Some(emulated) = &run.emulated else { return Vec::new() };
    let mut groups: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
    for cell in &run.cells {
        let mut states = emulated.states(cell);
        states.sort();
        states.dedup();
        match groups.iter_mut().find(|(of, _)| *of == states) {
            Some((_, cells)) => cells.push(&cell.name),
            None => groups.push((states, vec![&cell.name])),
        }
    }
    let sentence = |(states, cells): (Vec<String>, Vec<&str>)| {
        // More names than can be read at a glance are a number.
        let of = match cells.len() {
            0..=3 => cells.join(" and "),
            count => human::counted(count as u64, "cell"),
        };
        format!("device state for {of}: {}", states.join(" or "))
    };
    groups.into_iter().map(sentence).collect()
}

/// States why buffers and caches of emulated devices are not warmed up before some cells, one sentence per reason.
/// Devices that were never written need no warm-up, and neither do memory and cloud volumes.
fn not_warmed_up(run: &ResolvedRun) -> Vec<String> {
    let Some(emulated) = run.emulated.as_ref().filter(|emulated| !emulated.live) else {
        return Vec::new();
    };
    let is_buffered = |kind: &Kind| matches!(kind, Kind::Flash(_) | Kind::Disk(_));
    if !emulated.system.devices().any(|placed| is_buffered(&placed.device.kind)) {
        return Vec::new();
    }
    let cells = run.cells.iter().filter(|cell| emulated.were_written(cell));
    let mut reasons: Vec<&str> = cells.filter_map(why_not_warmed_up).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let sentence = |why: &str| format!("buffers and caches are not warmed up: {why}");
    reasons.into_iter().map(sentence).collect()
}

/// Bytes written in `ns` at 1 GB/s, which is 1 byte per ns.
const fn bytes_at_1_gb_per_s(ns: u64) -> u64 {
    ns
}

fn share_of_writes(spec: &Spec) -> f64 {
    let total: f64 = spec.kinds().map(|(_, share)| share).sum();
    let writes: f64 = spec.kinds().filter(|(k, _)| *k == OpKind::Write).map(|(_, s)| s).sum();
    if total > 0.0 { writes / total } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> Spec {
        Spec::from_toml(text).unwrap_or_else(|errors| panic!("{errors:?}"))
    }

    /// An offered rate limits the written bytes: 5000 operations/s for 6 s, 30 % of them writes of 8 KiB, are 74 MB.
    #[test]
    fn a_rate_limits_what_is_written() {
        let file = "schema = 1\nmix = { read = 70, write = 30 }\nblock = \"8KiB\"\nthreads = 1\ndepth = 1\n";
        let limits = "limits = { time = \"5s\", ramp = \"1s\" }\n";
        let closed = spec(&format!("{file}{limits}"));
        assert_eq!(Writes::of(&closed, 0), Writes::Unlimited(6_000_000_000));
        let open = closed.with_rate(5000.0, None).unwrap();
        let Writes::About(bytes) = Writes::of(&open, 0) else {
            panic!("{:?}", Writes::of(&open, 0))
        };
        assert!((bytes - 5000.0 * 6.0 * 0.3 * 8192.0).abs() < 1.0, "{bytes}");
        let few = open.with_ops(1000).unwrap();
        assert_eq!(Writes::of(&few, 0), Writes::AtMost(1000.0 * 0.3 * 8192.0));
    }

    /// The bytes written to a device include only those of targets on that device.
    #[test]
    fn a_device_takes_what_its_targets_write() {
        let devices = [vec!["nvme0n1"], vec!["nvme1n1"], vec!["nvme0n1"], vec![], vec![]];
        assert_eq!(
            bytes_by_device(&devices, &[1, 10, 100, 1000, 10_000]),
            [101, 10, 101, 1000, 10_000]
        );
    }

    #[test]
    fn sentences_name_rates_and_endurance() {
        let device = Endurance {
            target: "/dev/nvme0n1".to_owned(),
            rated_bytes: 600_000_000_000,
            written_bytes: 6_000_000_000,
            run_bytes: 6_000_000_000,
        };
        let plan = Plan {
            cells: 1,
            repeats: 1,
            cell_write_bytes: 73_728_000,
            by_rate: true,
            endurance: vec![device],
            ..Plan::default()
        };
        let words = plan.sentences(1);
        assert!(words.iter().any(|w| w == "writes about 70.3 MiB in cells"), "{words:?}");
        assert!(words.iter().any(|w| w.ends_with("adds about 1.0000 %")), "{words:?}");
    }
}
