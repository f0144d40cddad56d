//! `resume`: continues a run of a method that was cut short.

use crate::args::{Cli, Command};
use crate::failure::Failure;
use crate::run::{Output, base, carry_out};
use crate::{method, show};
use clap::Parser as _;
use iodyno_method::MethodSource;
use iodyno_notebook::{Notebook, Status};
use iodyno_page::terminal::Style;
use iodyno_report::terminal::Detail;
use iodyno_run::{Resume, whole_steps};
use iodyno_target::TargetName;
use std::ffi::OsString;
use std::process::ExitCode;

/// Continues a run.
pub(crate) fn command(
    cli: &Cli,
    selector: &str,
    (json, quiet): (bool, bool),
    detail: Detail,
    style: Style,
) -> Result<ExitCode, Failure> {
    let path = show::path(cli.notebook.as_deref())?;
    let run = Notebook::open_existing(&path)?.load(selector)?;
    match run.status {
        Status::Finished => {
            return Err(Failure::input(format!(
                "{} is finished: there is nothing to take up; `iodyno show {0}` shows it",
                run.id
            )));
        }
        Status::Running => {
            return Err(Failure::input(format!(
                "{} is still running: another process measures it",
                run.id
            )));
        }
        Status::Interrupted | Status::Crashed | Status::Failed(_) => {}
    }
    let plan = &run.head.plan;
    let source: Option<MethodSource> = serde_json::from_value(plan["method"].clone()).ok();
    let Some(source) = source else {
        return Err(Failure::input(format!(
            "{} is a list of cells, not a method: run it again (`{}`)",
            run.id,
            run.head.command.join(" ")
        )));
    };
    if run.head.iodyno_version != env!("CARGO_PKG_VERSION") {
        return Err(Failure::input(format!(
            "{} was begun by iodyno {}: take it up with that version, or begin a new run",
            run.id, run.head.iodyno_version
        )));
    }
    // Paths of the command line are relative to the folder in which it was given.
    let folder = plan["folder"].as_str().unwrap_or(".");
    let path = std::path::absolute(&path).unwrap_or(path);
    std::env::set_current_dir(folder)
        .map_err(|e| Failure::input(format!("{}: its folder {folder}: {e}", run.id)))?;
    let words: Vec<OsString> = run.head.command.iter().map(OsString::from).collect();
    let began = Cli::try_parse_from(&words)
        .map_err(|e| Failure::input(format!("{}: its command line: {e}", run.id)))?;
    let Command::Run(flags) = &began.command else {
        return Err(Failure::input(format!("{} was not made by `iodyno run`", run.id)));
    };
    if let Some(gone) = flags.on.iter().find(|t| matches!(t, TargetName::Scratch { .. })) {
        return Err(Failure::input(format!(
            "{}: `{gone}` was a file for that process alone, and it is gone with all that was written to it: begin a new run, on a path if it is to be taken up",
            run.id
        )));
    }
    let keep = whole_steps(&run.cells);
    let mut cells = run.cells;
    cells.truncate(keep);
    let capacities_bytes =
        run.head.targets.iter().map(|t| t.description().opened_bytes.unwrap_or_default()).collect();
    let resume = Resume { id: run.id.clone(), cells, capacities_bytes };
    let method = method::request(source, flags, Some(resume))?;
    let all = method.method.all_cells();
    let mut request = base(flags, cli, &words, (run.head.name, all, Some(method)))?;
    request.notebook = Some(path);
    request.seed = run.head.seed;
    carry_out(&request, cli, &Output { json, series: false, quiet, detail, report: None }, style)
}
