//! `resume`: continues an interrupted run of a method.

use crate::args::{Cli, Resume as ResumeFlags};
use crate::failure::Failure;
use crate::request::process;
use crate::run::{Output, carry_out};
use crate::{ranks, show, style};
use iodyno_notebook::Notebook;
use iodyno_page::terminal::Style;
use iodyno_run::{Process, ResolvedRun, Resume, RunRequest, resume};
use std::process::ExitCode;

/// An interrupted run: its request, its finished part, and its original command line.
type Found = (RunRequest, Resume, Vec<String>);

fn find(cli: &Cli, selector: &str, destroy: &[String]) -> Result<Found, Failure> {
    let path = show::path(cli.notebook.as_deref())?;
    let run = Notebook::open_existing(&path)?.load(selector)?;
    let command = run.head.command.clone();
    let (request, finished) = resume(run, env!("CARGO_PKG_VERSION"), destroy.to_vec())?;
    Ok((request, finished, command))
}

pub(crate) fn command(flags: &ResumeFlags, cli: &Cli, style: Style) -> Result<ExitCode, Failure> {
    let ranks = ranks::of_process();
    // Only the first rank has the notebook.
    let (request, finished, command) = ranks::of_first(|| find(cli, &flags.run, &flags.destroy))?;
    let finished = finished.on_rank(ranks.rank(), ranks.size())?;
    let path = ranks::agreed(ranks::notebook(cli.notebook.as_deref()))?;
    let process = Process { resume: Some(finished), ..process(command, Some(path)) };
    let run = ranks::agreed(ResolvedRun::new(request, process).map_err(Failure::from))?;
    let output = Output {
        json: flags.json,
        series: false,
        quiet: flags.quiet,
        strict: false,
        accepted: Vec::new(),
        detail: style::detail(flags.shown),
        report: None,
        metrics: None,
    };
    carry_out(&run, cli, &output, style)
}
