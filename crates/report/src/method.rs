//! What a run of a method shows, worked out from the stored run alone.

use iodyno_method::{Findings, Method, MethodSource, findings};
use iodyno_notebook::Run;

/// The findings of a run; None where it is a list of cells, or its method can't be read any more.
pub fn findings_of(run: &Run) -> Option<Findings> {
    let source: MethodSource = serde_json::from_value(run.head.plan.get("method")?.clone()).ok()?;
    let method = Method::new(source).ok()?;
    let each = run.head.plan.get("each").and_then(serde_json::Value::as_bool).unwrap_or(false);
    let all = run.head.targets.len() as u32;
    let (targets, subjects) = if each { (1, all) } else { (all, 1) };
    Some(findings(&method.with_targets(targets), run.head.seed, subjects, &run.cells))
}
