//! `compare`: compares runs, and tells scripts the result by the exit code.

use crate::args::Compare;
use crate::console::{print, print_json};
use crate::failure::{Failure, OPEN, SLOWER};
use crate::show;
use iodyno_page::terminal::Style;
use iodyno_report::compare::{self, Finding, Options, Side};
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn command(
    flags: &Compare,
    notebook: Option<&Path>,
    style: Style,
) -> Result<ExitCode, Failure> {
    if let Some(third) = flags.more.first() {
        return Err(Failure::input(format!(
            "compare judges B against A; `iodyno report {} {} {third}` compares more than two, and runs of one side are joined by commas: `iodyno compare {} {},{third}`",
            flags.a, flags.b, flags.a, flags.b
        )));
    }
    let notebook = show::open(notebook)?.ok_or_else(show::no_notebook)?;
    let (a, b) = (notebook.load_several(&flags.a)?, notebook.load_several(&flags.b)?);
    let mut options = Options {
        threshold_share: flags.threshold,
        each_target: flags.each_target,
        ..Options::default()
    };
    if !flags.metric.is_empty() {
        options.metrics.clone_from(&flags.metric);
    }
    let (a, b) = (Side { asked: &flags.a, runs: &a }, Side { asked: &flags.b, runs: &b });
    let compared = compare::compare(a, b, &options).map_err(Failure::input)?;
    if flags.json {
        print_json(&compare::document(&compared))?;
    } else {
        print(&compare::show(&compared, style))?;
    }
    Ok(match compared.finding() {
        Finding::Slower => ExitCode::from(SLOWER),
        Finding::Open if flags.strict || compared.is_nothing_judged() => ExitCode::from(OPEN),
        Finding::Open | Finding::Clear => ExitCode::SUCCESS,
    })
}
