//! What a run will cost, told before it starts: how long it takes, how much it writes, and which
//! share of a device's rated endurance that is.

use crate::request::{MethodRequest, Request};
use iodyno_measure::Threshold;
use iodyno_method::Budget;
use iodyno_target::{Health, Inspection};
use iodyno_units::{OpKind, human};
use serde::Serialize;

/// The cost of a run, as far as it can be known before.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Plan {
    /// Cells, over all targets together; their repeats count.
    pub cells: usize,
    /// How often the list of cells is run.
    pub repeats: u32,
    /// What its figures are to be held against. A reader of the run judges by it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<Threshold>,
    /// Ramps and measured times of the cells that time limits, ns. Laying out comes on top.
    pub time_ns: u64,
    /// Of each listed cell its ramp and measured time, ns; repeats go through them again. Empty for a method,
    /// which decides as it goes.
    #[serde(skip)]
    pub cell_times_ns: Vec<u64>,
    /// That time is virtual.
    pub virtual_time: bool,
    /// The targets are emulated: nothing real is written.
    pub emulated: bool,
    /// Some cell ends by operations or bytes, so its time isn't known.
    pub open_ended: bool,
    /// Bytes written to lay files out.
    pub lay_out_bytes: u64,
    /// Bytes that cells will write, where operations or bytes limit them.
    pub cell_write_bytes: u64,
    /// Time during which cells write as fast as the target takes it, ns.
    pub unlimited_write_ns: u64,
    /// For each target whose device tells: name, rated endurance (estimated) and what has been
    /// written so far, bytes.
    pub endurance: Vec<Endurance>,
    /// What a method takes, where the run is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// What the sum means, in sentences.
    pub words: Vec<String>,
}

/// A device's endurance, from its own log.
#[derive(Clone, Debug, Serialize)]
pub struct Endurance {
    /// Target name.
    pub target: String,
    /// Bytes that its maker rates it for: estimated from written bytes and percentage used.
    pub rated_bytes: u64,
    /// Bytes written in its life so far.
    pub written_bytes: u64,
}

impl Plan {
    /// Sums the request's cells over its targets.
    pub fn new(
        request: &Request,
        inspections: &[Inspection],
        health: &[Option<Health>],
        capacities_bytes: &[u64],
        lay_out_bytes: u64,
    ) -> Self {
        let virtual_time = request.emulated.as_ref().is_some_and(|e| !e.live);
        let emulated = request.emulated.is_some();
        let mut plan = Self {
            cells: request.cells.len() * request.repeats as usize,
            repeats: request.repeats,
            thresholds: request.thresholds.clone(),
            lay_out_bytes,
            virtual_time,
            emulated,
            ..Self::default()
        };
        let targets = inspections.len() as u64;
        for cell in &request.cells {
            let limits = cell.spec.limits();
            plan.cell_times_ns.push(limits.ramp_ns + limits.time_ns.unwrap_or(0));
            plan.open_ended |= limits.time_ns.is_none();
            let write_share = share_of_writes(&cell.spec);
            if write_share > 0.0 && !emulated {
                let by_ops = limits.ops.map(|n| n as f64 * f64::from(cell.spec.max_data_bytes()));
                let by_bytes = limits.bytes.map(|n| n as f64);
                match (by_ops, by_bytes) {
                    (None, None) => {
                        plan.unlimited_write_ns += limits.ramp_ns + limits.time_ns.unwrap_or(0);
                    }
                    (a, b) => {
                        let most = a.unwrap_or(f64::INFINITY).min(b.unwrap_or(f64::INFINITY));
                        plan.cell_write_bytes += (most * write_share) as u64 * targets;
                    }
                }
            }
        }
        let repeats = u64::from(request.repeats);
        plan.time_ns = plan.cell_times_ns.iter().sum::<u64>() * repeats;
        plan.unlimited_write_ns *= repeats;
        plan.cell_write_bytes *= repeats;
        for (inspection, health) in inspections.iter().zip(health) {
            let Some(health) = health else { continue };
            if let (Some(rated_bytes), Some(written_bytes)) =
                (health.rated_endurance_bytes(), health.data_written_bytes)
            {
                let target = inspection.name.to_string();
                plan.endurance.push(Endurance { target, rated_bytes, written_bytes });
            }
        }
        if let Some(of) = &request.method {
            let capacity_bytes = capacities_bytes.iter().copied().max().unwrap_or(0);
            let budget = Budget::new(&of.method, capacity_bytes);
            let subjects = if of.each { targets } else { 1 };
            plan.time_ns = budget.time_max_ns.saturating_mul(subjects);
            plan.cells = (budget.cells_max * subjects) as usize;
            plan.cell_times_ns.clear();
            plan.open_ended = false;
            // Fills are told apart from what cells write.
            plan.cell_write_bytes = if emulated { 0 } else { budget.fill_bytes * targets };
            plan.words = plan.method_sentences(&budget, of, subjects);
            plan.budget = Some(budget);
            return plan;
        }
        plan.words = plan.sentences(targets);
        plan.words.extend(states(request));
        plan
    }

    fn method_sentences(&self, budget: &Budget, of: &MethodRequest, subjects: u64) -> Vec<String> {
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
            " of virtual time, of which proven steady states need less"
        } else {
            ""
        };
        words.push(format!("{cells} steps, {time}{of_time}"));
        if self.cell_write_bytes > 0 {
            words.push(format!("fills write {}", human::size(self.cell_write_bytes)));
        }
        if self.unlimited_write_ns > 0 {
            words.push("its cells write as fast as the target takes it".to_owned());
        }
        words
    }

    /// About how long the run still takes, ns, when cell `index` (from 0, repeats count) has `cell_left_ns` to
    /// go: that and the times of the cells after it. What is done between cells comes on top. None where it
    /// can't be known: rounds end when they are steady, cells in virtual time when they are simulated.
    pub fn left_ns(&self, index: usize, cell_left_ns: u64) -> Option<u64> {
        if self.virtual_time || self.open_ended || self.cell_times_ns.is_empty() {
            return None;
        }
        let to_come = self.cell_times_ns.iter().cycle().take(self.cells).skip(index + 1);
        Some(cell_left_ns + to_come.sum::<u64>())
    }

    /// Whether the plan is worth telling: it writes, it takes long, or it is not about what is real.
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
        let on =
            if targets == 1 { String::new() } else { format!(" on {targets} targets at once") };
        let long = if self.open_ended { "at least " } else { "" };
        let of = if self.virtual_time { " of virtual time" } else { "" };
        words.push(format!("{cells}{times}{on}, {long}{}{of}", human::duration_ns(self.time_ns)));
        let mut writes = Vec::new();
        if self.lay_out_bytes > 0 {
            writes.push(format!("{} to lay the file out", human::size(self.lay_out_bytes)));
        }
        if self.cell_write_bytes > 0 {
            writes.push(format!("at most {} in cells", human::size(self.cell_write_bytes)));
        }
        if self.unlimited_write_ns > 0 {
            let seconds = self.unlimited_write_ns as f64 / 1e9;
            writes.push(format!(
                "for {} as fast as the target takes it ({} at 1 GB/s)",
                human::duration_ns(self.unlimited_write_ns),
                human::size((seconds * 1e9) as u64 * targets)
            ));
        }
        if !writes.is_empty() {
            words.push(format!("writes {}", writes.join(", then ")));
        }
        for device in &self.endurance {
            let known = self.lay_out_bytes + self.cell_write_bytes;
            let at_1_gb = self.unlimited_write_ns + known;
            words.push(format!(
                "{}: rated for about {}, {} written so far; this run adds about {:.4} %",
                device.target,
                human::size(device.rated_bytes),
                human::size(device.written_bytes),
                100.0 * at_1_gb as f64 / device.rated_bytes.max(1) as f64
            ));
        }
        words
    }
}

/// In which state cells find emulated devices; cells that find the same are named together.
fn states(request: &Request) -> Vec<String> {
    let Some(emulated) = &request.emulated else { return Vec::new() };
    let mut groups: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
    for cell in &request.cells {
        let mut states = emulated.states(&cell.spec);
        states.sort();
        states.dedup();
        match groups.iter_mut().find(|(of, _)| *of == states) {
            Some((_, cells)) => cells.push(&cell.name),
            None => groups.push((states, vec![&cell.name])),
        }
    }
    let sentence = |(states, cells): (Vec<String>, Vec<&str>)| {
        format!("device state for {}: {}", cells.join(" and "), states.join(" or "))
    };
    groups.into_iter().map(sentence).collect()
}

fn share_of_writes(spec: &iodyno_workload::Spec) -> f64 {
    let total: f64 = spec.kinds().map(|(_, share)| share).sum();
    let writes: f64 = spec.kinds().filter(|(k, _)| *k == OpKind::Write).map(|(_, s)| s).sum();
    if total > 0.0 { writes / total } else { 0.0 }
}
