//! Resumes an interrupted run from its stored request and finished cells.

use crate::outcome::RunError;
use crate::request::{RANKS, RunRequest, Work};
use crate::resolved_run::Resume;
use crate::schedule::whole_steps;
use iodyno_notebook::{self as notebook, Run};
use iodyno_targets::{MachineFacts, TargetName};
use serde_json::Value;

/// Returns the request and the finished part of an interrupted run. `version` is that of this program. `destroy` names
/// the targets that may be overwritten. The user must name them again for each resume, because the targets may have new
/// content by now, and the notebook may come from another user.
///
/// # Errors
/// [`RunError::Notebook`] if the run is finished or still running. [`RunError::Impossible`] if it can't be resumed for
/// another reason: it was imported; it is from another version or another machine; it has no method; or its target is
/// gone.
pub fn resume(
    run: Run,
    version: &str,
    destroy: Vec<String>,
) -> Result<(RunRequest, Resume), RunError> {
    let refused = |why: String| Err(RunError::Impossible(format!("{} {why}", run.id)));
    let again = format!("run it again (`{}`)", run.head.command_to_repeat().0.join(" "));
    if let Some(error) = notebook::Error::of_resume(&run.id, &run.status) {
        return Err(error.into());
    }
    if run.is_imported {
        return refused(format!("was imported from a report, so it can only be shown: {again}"));
    }
    if !run.head.plan["method"].is_object() {
        let request = RunRequest::stored_in(&run.head);
        let is_trace = request.is_some_and(|r| matches!(r.work, Work::Trace(_)));
        return refused(if is_trace {
            format!(
                "is the replay of a trace, which is a single cell and can't be continued. Replay the remaining operations as a new run, with `--from`, or {again}"
            )
        } else {
            format!("is a list of cells, not a method, so it can't be continued: {again}")
        });
    }
    let began = &run.head.iodyno_version;
    if began != version {
        return refused(format!(
            "was begun by iodyno {began}: resume it with that version, or begin a new run"
        ));
    }
    // Cells of two machines can't form one run, and a foreign notebook names targets of another machine.
    let machine = |value: &Value| ["product", "cpu_model"].map(|key| value[key].clone());
    let own = serde_json::to_value(MachineFacts::gather()).unwrap_or_default();
    if machine(&run.head.machine) != machine(&own) {
        return refused(
            "was begun on another machine: resume it there, or begin a new run".to_owned(),
        );
    }
    let Some(mut request) =
        RunRequest::stored_in(&run.head).filter(|r| matches!(r.work, Work::Method { .. }))
    else {
        return refused(format!(
            "was begun by a build of iodyno that did not store what a resume needs: {again}"
        ));
    };
    if let Some(gone) = request.targets.iter().find(|t| matches!(t, TargetName::Scratch { .. })) {
        return Err(RunError::Impossible(format!(
            "{}: `{gone}` was a temporary file of the interrupted process, and no longer exists: begin a new run, on a path if you may want to resume it",
            run.id
        )));
    }
    request.destroy = destroy;
    let keep = whole_steps(&run.cells);
    let mut cells = run.cells;
    cells.truncate(keep);
    let capacities_bytes =
        run.head.targets.iter().map(|t| t.description().opened_bytes.unwrap_or_default()).collect();
    // Stored with the run, since a run that was interrupted early has no cell of all ranks.
    let ranks = run.head.plan[RANKS].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
    Ok((request, Resume { id: run.id, cells, capacities_bytes, ranks }))
}
