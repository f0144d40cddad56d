//! What a run of a method shows, worked out from the stored run alone.

use iodyno_measure::Verdict;
use iodyno_method::{Findings, Method, MethodSource, findings};
use iodyno_notebook::Run;

/// The method of a run, for its number of targets, and the number of subjects that it was applied to; None
/// where the run is a list of cells, or its method can't be read any more.
fn method_of(run: &Run) -> Option<(Method, u32)> {
    let source: MethodSource = serde_json::from_value(run.head.plan.get("method")?.clone()).ok()?;
    let method = Method::new(source).ok()?;
    let each = run.head.plan.get("each").and_then(serde_json::Value::as_bool).unwrap_or(false);
    let all = run.head.targets.len() as u32;
    let (targets, subjects) = if each { (1, all) } else { (all, 1) };
    Some((method.with_targets(targets), subjects))
}

/// The findings of a run; None where it is a list of cells, or its method can't be read any more.
pub fn findings_of(run: &Run) -> Option<Findings> {
    let (method, subjects) = method_of(run)?;
    Some(findings(&method, run.head.seed, subjects, &run.cells))
}

/// The verdicts on the method of a run, the gravest first; none where it is a list of cells.
pub(crate) fn verdicts_of(run: &Run) -> Vec<Verdict> {
    let Some((method, subjects)) = method_of(run) else { return Vec::new() };
    iodyno_method::findings::verdicts(&method, run.head.seed, subjects, &run.cells)
}
