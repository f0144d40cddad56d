//! `resume`: continues a run of a method that was cut short.

use crate::args::Cli;
use crate::failure::Failure;
use crate::run::{Output, carry_out, process};
use crate::show;
use iodyno_notebook::Notebook;
use iodyno_page::terminal::Style;
use iodyno_report::terminal::Detail;
use iodyno_run::{Process, ResolvedRun, resume};
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
    let began = process(run.head.command.clone(), Some(path));
    let (request, finished) = resume(run, &began.version)?;
    let process = Process { resume: Some(finished), ..began };
    let run = ResolvedRun::new(request, process)?;
    carry_out(&run, cli, &Output { json, series: false, quiet, detail, report: None }, style)
}
