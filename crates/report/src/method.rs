//! Computes the results of a run's method from the stored run.

use iodyno_measure::Verdict;
use iodyno_method::{Findings, Method, MethodSource, findings};
use iodyno_notebook::{Run, Status};

/// The run's method, adapted to the number of targets, and the number of subjects: one per target if each is measured
/// alone, otherwise one. None if the run is a list of cells, or if this version can't read the method.
fn method_of(run: &Run) -> Option<(Method, u32)> {
    let source: MethodSource = serde_json::from_value(run.head.plan.get("method")?.clone()).ok()?;
    let method = Method::new(source).ok()?;
    let each = run.head.plan.get("each").and_then(serde_json::Value::as_bool).unwrap_or(false);
    let all = run.head.targets.len() as u32;
    let (targets, subjects) = if each { (1, all) } else { (all, 1) };
    Some((method.with_targets(targets), subjects))
}

/// Results of the run's method; None if the run is a list of cells, or if this version can't read the method.
pub fn findings_of(run: &Run) -> Option<Findings> {
    let (method, subjects) = method_of(run)?;
    let mut findings = findings(&method, run.head.seed, subjects, &run.cells);
    mended(run, &mut findings.verdicts);
    Some(findings)
}

/// The verdicts on a run's method, the most severe first; none for a list of cells.
pub(crate) fn verdicts_of(run: &Run) -> Vec<Verdict> {
    let Some((method, subjects)) = method_of(run) else { return Vec::new() };
    let mut verdicts =
        iodyno_method::findings::verdicts(&method, run.head.seed, subjects, &run.cells);
    mended(run, &mut verdicts);
    verdicts
}

/// Appends to the text of the verdict `UNFINISHED` how the run can be completed.
fn mended(run: &Run, verdicts: &mut [Verdict]) {
    for verdict in verdicts.iter_mut().filter(|v| v.code == "UNFINISHED") {
        verdict.text = format!("{}: {}", verdict.text, how_to_finish(run));
    }
}

/// Advice for an incomplete run of a method: how to complete it, or why it can't be resumed.
pub(crate) fn how_to_finish(run: &Run) -> String {
    if run.status == Status::Running {
        return "the run is still in progress".to_owned();
    }
    if run.head.targets.iter().any(|target| target.name.starts_with("scratch:")) {
        return "the run's scratch file is gone, so the run can't be resumed; begin a new run (a run on a file or device named by its path can be resumed)"
            .to_owned();
    }
    if run.status == Status::Finished {
        return "begin a new run".to_owned();
    }
    if run.is_imported {
        return "the run was imported and can't be resumed; begin a new one".to_owned();
    }
    if run.id.is_empty() {
        return "the run was not stored, so it can't be resumed; begin a new one".to_owned();
    }
    let version = &run.head.iodyno_version;
    let of = if version == env!("CARGO_PKG_VERSION") {
        String::new()
    } else {
        format!(", with the iodyno {version} that began it")
    };
    format!("`iodyno resume {}` continues the run{of}", run.id)
}
