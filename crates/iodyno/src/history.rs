//! `history`: one metric over all runs of a workload, and the runs at which its level shifted.

use crate::args::History as Flags;
use crate::console::{print, print_json};
use crate::failure::Failure;
use crate::{report, show};
use iodyno_notebook::{RunSummary, Status};
use iodyno_page::terminal::Style;
use iodyno_report::history::{self, History, LeftOut};
use iodyno_units::text::for_shell;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn command(
    flags: &Flags,
    notebook: Option<&Path>,
    words: &[OsString],
    style: Style,
) -> Result<ExitCode, Failure> {
    let page = flags.report.as_deref().map(|file| report::Place::check(Some(file))).transpose()?;
    let notebook = show::open(notebook)?.ok_or_else(show::no_notebook)?;
    let runs = notebook.list()?;
    let last = last(flags, &runs)?;
    let work = match last.workloads.as_slice() {
        [workload] if flags.workload.as_ref().is_none_or(|asked| asked == workload) => workload,
        _ => &last.name,
    };
    let mut history = History::new(work, flags.metric);
    // The name of a workload stands for its runs of any name.
    let name = flags.workload.as_deref().filter(|asked| last.workloads != [*asked]);
    let ids = notebook.of_same_work(&last.id, name, flags.last.into())?;
    history.left_out = LeftOut::of(&runs, &last, name, ids.len());
    if flags.workload.is_some() {
        // They were not asked for.
        history.left_out.other_workloads = 0;
    }
    for id in ids {
        history.add(&notebook.load(&id)?);
    }
    if history.cells().is_empty() {
        return Err(Failure::input(format!(
            "no run of {work} on {} has a value of {}: name another --metric",
            last.targets.join(", "),
            flags.metric
        )));
    }
    if let Some(page) = page {
        let words = words.iter().skip(1).map(|word| for_shell(&word.to_string_lossy()));
        let command = format!("iodyno {}", words.collect::<Vec<_>>().join(" "));
        let document = history::document(&history, &report::made_by(), &command);
        report::write(&document, page.output("history.html")?)?;
    }
    if flags.json {
        return print_json(&history::json(&history));
    }
    print(&history::show(&history, style))
}

/// The last finished run whose workload and target match the flags.
fn last(flags: &Flags, runs: &[RunSummary]) -> Result<RunSummary, Failure> {
    let agrees = |run: &&RunSummary| {
        run.status == Status::Finished
            && flags
                .workload
                .as_ref()
                .is_none_or(|name| *name == run.name || run.workloads == [name.as_str()])
            && flags.on.as_ref().is_none_or(|target| run.targets == [target.as_str()])
    };
    runs.iter().rfind(agrees).cloned().ok_or_else(|| {
        let what = match (&flags.workload, &flags.on) {
            (Some(name), Some(target)) => format!("run of {name} on {target}"),
            (Some(name), None) => format!("run of {name}"),
            (None, Some(target)) => format!("run on {target}"),
            (None, None) => "run".to_owned(),
        };
        Failure::input(format!("no finished {what} is in the notebook: `iodyno ls` lists the runs"))
    })
}
