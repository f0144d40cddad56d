//! `ls`, `show` and `annotate`: print runs from the notebook, and annotate them.

use crate::console::{print, print_json};
use crate::failure::Failure;
use crate::failure::NOT_HELD;
use iodyno_measure::Threshold;
use iodyno_notebook::{Notebook, RunSummary, default_path};
use iodyno_page::terminal::Style;
use iodyno_report::{Standing, json, terminal, thresholds};
use iodyno_targets::output::notebook_path;
use iodyno_units::text::clean;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Path of the notebook: from the flag, the environment variable or the default. Refuses anything but a
/// regular file before SQLite opens it.
pub(crate) fn path(flag: Option<&Path>) -> Result<PathBuf, Failure> {
    if flag.is_some_and(|path| path.as_os_str().is_empty()) {
        return Err(Failure::input("--notebook needs the name of a file"));
    }
    let path = flag.map_or_else(default_path, |path| Ok(path.to_owned()))?;
    notebook_path(&path).map_err(|e| Failure::notebook(e.to_string()))
}

/// Opens the notebook; None if none has been created yet.
pub(crate) fn open(flag: Option<&Path>) -> Result<Option<Notebook>, Failure> {
    let path = path(flag)?;
    if !path.exists() && flag.is_none() {
        return Ok(None);
    }
    Ok(Some(Notebook::open_existing(&path)?))
}

pub(crate) fn load(flag: Option<&Path>, selector: &str) -> Result<iodyno_notebook::Run, Failure> {
    match open(flag)? {
        Some(notebook) => Ok(notebook.load(selector)?),
        None => Err(no_notebook()),
    }
}

pub(crate) fn no_notebook() -> Failure {
    Failure::input("there is no notebook yet: `iodyno run four-corners` makes the first run")
}

/// Annotates a run. `None` removes the annotation.
pub(crate) fn annotate(
    flag: Option<&Path>,
    selector: &str,
    text: Option<&str>,
) -> Result<ExitCode, Failure> {
    // The selector is read before the notebook is opened for writing, which would create it.
    let Some(notebook) = open(flag)? else { return Err(no_notebook()) };
    let id = notebook.find_id(selector)?;
    Notebook::open(&path(flag)?)?.annotate(&id, text)?;
    print(&match text {
        Some(text) => format!("run {id}: {}\n", clean(text)),
        None => format!("run {id}: no annotation\n"),
    })
}

/// Whether a text occurs in the run's id, name, workloads, targets or start time; ignores case.
fn contains(run: &RunSummary, text: &str) -> bool {
    let text = text.to_lowercase();
    let times = [run.started.to_string(), terminal::minutes(run.started)];
    [&run.id, &run.name]
        .into_iter()
        .chain(&run.workloads)
        .chain(&run.targets)
        .chain(&times)
        .any(|part| part.to_lowercase().contains(&text))
}

pub(crate) fn list(
    flag: Option<&Path>,
    text: Option<&str>,
    json: bool,
    style: Style,
) -> Result<ExitCode, Failure> {
    let mut runs = Vec::new();
    if let Some(notebook) = open(flag)? {
        for run in notebook.list()? {
            if text.is_some_and(|text| !contains(&run, text)) {
                continue;
            }
            // Only the whole run has its method's result. A run that can't be read is listed without it.
            let whole = if run.has_method { notebook.load(&run.id).ok() } else { None };
            runs.push((run, whole.as_ref().map(Standing::of)));
        }
    }
    if json {
        return print_json(&json::list(&runs));
    }
    if let (true, Some(text)) = (runs.is_empty(), text) {
        return print(&format!(
            "no run has `{}` in its id, name, workload, target or time\n",
            clean(text)
        ));
    }
    if runs.is_empty() {
        return print("no runs yet: `iodyno run four-corners` makes the first\n");
    }
    print(&terminal::list(&runs, style))
}

pub(crate) fn show(
    flag: Option<&Path>,
    selector: &str,
    require: &[Threshold],
    json: Option<json::Options>,
    detail: terminal::Detail,
    style: Style,
) -> Result<ExitCode, Failure> {
    let run = load(flag, selector)?;
    let own = thresholds::own(&run);
    let against = if require.is_empty() { &own } else { require };
    match json {
        Some(options) => print_json(&json::document_against(&run, against, options))?,
        None => print(&terminal::show_against(&run, against, detail, style))?,
    };
    // Showing a run does not judge it, unless requested.
    Ok(if thresholds::are_held(&run, require) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_HELD)
    })
}
