//! Builds the stored record of a run, except for its cells: the facts known at the start ([`RunHead`]), and the health
//! of the devices before and after the run. `persist` stores the cells during the measurement.

use crate::open_targets::OpenTarget;
use crate::plan::Plan;
use crate::request::{RANKS, STORED_AS};
use crate::resolved_run::ResolvedRun;
use crate::watch::Watch;
use iodyno_measure::Cell;
use iodyno_notebook::{
    self as notebook, CHANGED, Notebook, Run, RunHead, Status, TargetRecord, Timestamp,
    WRITES_SEEN, WorkloadRecord,
};
use iodyno_targets::{BlockDevice, MachineFacts, SysRoot, health};
use serde_json::Value;

/// Builds the [`RunHead`] of a run, to be stored before the first cell.
pub(crate) fn head(run: &ResolvedRun, open_targets: &[OpenTarget], plan: &Plan) -> RunHead {
    let json = |v: Result<Value, serde_json::Error>| v.unwrap_or(Value::Null);
    RunHead {
        name: run.request.name.clone(),
        command: run.process.command.clone(),
        iodyno_version: run.process.version.clone(),
        seed: run.request.seed,
        machine: json(serde_json::to_value(MachineFacts::gather())),
        targets: open_targets
            .iter()
            .map(|p| TargetRecord {
                name: p.name.clone(),
                facts: p.facts(),
                health_before: condition(p),
                health_after: None,
            })
            .collect(),
        workloads: run
            .loads()
            .map(|c| WorkloadRecord {
                name: c.name.clone(),
                // The canonical TOML, as an object.
                spec: toml::from_str(&c.spec.to_toml()).unwrap_or(Value::Null),
            })
            .collect(),
        plan: with_request(run, json(serde_json::to_value(plan))),
    }
}

/// Adds the request and the method to a stored plan, so that the run can be repeated, resumed and judged
/// again.
fn with_request(run: &ResolvedRun, mut plan: Value) -> Value {
    if let Value::Object(plan) = &mut plan {
        let request = serde_json::to_value(&run.request).unwrap_or(Value::Null);
        let changed = run.request.changed.clone();
        plan.extend(changed.map(|words| (CHANGED.to_owned(), Value::String(words))));
        if let Some(of) = &run.method {
            plan.insert("method".to_owned(), request["work"]["method"]["source"].clone());
            plan.insert("each".to_owned(), Value::Bool(of.each));
            plan.insert("folder".to_owned(), request["folder"].clone());
        }
        plan.insert(STORED_AS.to_owned(), request);
        let ranks = run.process.ranks.size();
        if ranks > 1 && !run.is_farmed() {
            plan.insert(RANKS.to_owned(), Value::from(ranks));
        }
    }
    plan
}

/// Reads the device's health log, temperature and link speed. Recorded before and after a run to reveal wear,
/// heat and a degraded link. None if nothing can be read.
fn condition(open_target: &OpenTarget) -> Option<Value> {
    let device = open_target.inspection.physical.first()?;
    let device = BlockDevice::read(&SysRoot::real(), device.dev)?;
    let log = health(&device).ok();
    if log.is_none() && device.temperature_c.is_none() && device.pcie.is_none() {
        return None;
    }
    Some(serde_json::json!({
        "device": device.kernel_name,
        "log": log,
        "temperature_c": device.temperature_c,
        "pcie_link": device.pcie,
    }))
}

/// Condition of the device after the run, with counters by which a later run detects writes of other
/// programs.
pub(crate) fn condition_after(open_target: &OpenTarget) -> Option<Value> {
    let condition = condition(open_target);
    let Some(seen) = open_target.writes_seen() else { return condition };
    let mut condition = condition.unwrap_or_else(|| serde_json::json!({}));
    condition[WRITES_SEEN] = serde_json::to_value(seen).unwrap_or(Value::Null);
    Some(condition)
}

/// Builds a run in its stored form without storing it.
pub(crate) fn unkept(
    mut head: RunHead,
    started: Timestamp,
    ending: &notebook::Outcome,
    health_after: Vec<Option<Value>>,
    cells: Vec<Cell>,
) -> Run {
    for (target, after) in head.targets.iter_mut().zip(health_after) {
        target.health_after = after;
    }
    let status = match ending {
        notebook::Outcome::Finished => Status::Finished,
        notebook::Outcome::Interrupted => Status::Interrupted,
        notebook::Outcome::Failed(why) => Status::Failed(why.clone()),
    };
    Run {
        id: String::new(),
        started,
        ended: Some(Timestamp::now()),
        status,
        head,
        cells,
        notebook: std::path::PathBuf::new(),
        is_imported: false,
        annotation: None,
    }
}

/// Reads the run back from the notebook. If the notebook stored it but can't read it back, returns the copy
/// in memory, whose intervals are coarser.
pub(crate) fn read_back(
    notebook: &Notebook,
    id: &str,
    measured: Run,
    watch: &mut dyn Watch,
) -> Run {
    notebook.load(id).unwrap_or_else(|why| {
        watch.warn(&format!(
            "run {id} is stored, but could not be read back from the notebook: {why}; the results shown come from memory"
        ));
        Run { id: id.to_owned(), notebook: notebook.path().to_owned(), ..measured }
    })
}
