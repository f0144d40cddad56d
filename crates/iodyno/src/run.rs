//! `run`: translates words into a request, and prints the outcome.

use crate::args::{Cli, Run};
use crate::failure::{Failure, METHOD_FAILED, NOT_HELD};
use crate::live::Live;
use crate::overrides::overridden;
use crate::{
    catalog, complain, emulated_system, method, method_flags, print, print_json, remark, report,
    show, signals, style,
};
use iodyno_drive::{EngineOptions, clock::Clock};
use iodyno_page::terminal::Style;
use iodyno_report::terminal;
use iodyno_report::{RunVerdict, json, thresholds};
use iodyno_run::{MethodRequest, Request};
use iodyno_workload::CellSpec;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit code of a run that too many failed operations stopped, and of one that read wrong content.
const TARGET_FAILED: u8 = 4;
/// Exit code of a run that a signal stopped.
const INTERRUPTED: u8 = 130;

pub(crate) fn command(
    flags: &Run,
    cli: &Cli,
    words: &[OsString],
    style: Style,
) -> Result<ExitCode, Failure> {
    let request = request(flags, cli, words)?;
    for words in remarks(&request) {
        remark("note", &words);
    }
    let output = Output {
        json: flags.json,
        series: flags.series,
        quiet: flags.quiet,
        detail: style::detail(flags.shown),
        report: flags.report.clone().map(|at| at.map_or(Page::ById, Page::At)),
    };
    carry_out(&request, cli, &output, style)
}

/// Remarks about possible mistakes in the workloads, each once.
fn remarks(request: &Request) -> Vec<String> {
    let mut all: Vec<String> = request.cells.iter().flat_map(|cell| cell.spec.remarks()).collect();
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|remark| seen.insert(remark.clone()));
    all
}

/// The output of a run, and its form.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) series: bool,
    pub(crate) quiet: bool,
    pub(crate) detail: terminal::Detail,
    /// The page to draw.
    pub(crate) report: Option<Page>,
}

/// Destination of a run's page.
#[derive(Clone, Debug)]
pub(crate) enum Page {
    /// A file named by the run's id.
    ById,
    /// This file.
    At(PathBuf),
}

pub(crate) fn carry_out(
    request: &Request,
    cli: &Cli,
    output: &Output,
    style: Style,
) -> Result<ExitCode, Failure> {
    // An unwritable page is better reported before the run.
    let page = match &output.report {
        Some(Page::At(file)) => Some(report::Place::check(Some(file))?),
        Some(Page::ById) => Some(report::Place::check(None)?),
        None => None,
    };
    let mut live = Live::new(output.quiet, style::for_stderr(cli.color));
    let outcome = iodyno_run::execute(request, &mut live);
    live.clear();
    let outcome = outcome?;
    // Each of these is done even if others fail; the first failure gives the exit code.
    let mut failures = Vec::new();
    let printed = if output.json {
        print_json(&json::document(&outcome.run, json::Options { series: output.series }))
    } else {
        print(&terminal::show(&outcome.run, output.detail, style))
    };
    failures.extend(printed.err());
    if let Some(page) = page {
        let id = outcome.run.id.as_str();
        let name = format!("iodyno-{}.html", if id.is_empty() { "run" } else { id });
        let drawn = page.output(&name).and_then(|out| report::of_run(&outcome.run, out));
        failures.extend(drawn.err());
    }
    failures.extend(outcome.not_kept.as_ref().map(Failure::not_kept));
    if let Some((first, others)) = failures.split_first() {
        let color = style::colors(cli.color, &std::io::stderr());
        for failure in others {
            complain(&failure.render(color));
        }
        complain(&first.render(color));
        return Ok(ExitCode::from(first.exit_code()));
    }
    Ok(if outcome.interrupted {
        ExitCode::from(INTERRUPTED)
    } else if outcome.too_many_errors
        || outcome.wrong_content()
        // A pass of verification continues to its end despite failures, and has failed then.
        || request.errors_max == u64::MAX && outcome.has_failed_operations()
    {
        ExitCode::from(TARGET_FAILED)
    } else if RunVerdict::of(&outcome.run).has_failed() {
        // Before thresholds: the figures of a failed method meet none.
        ExitCode::from(METHOD_FAILED)
    } else if !thresholds::are_held(&outcome.run, &request.thresholds) {
        ExitCode::from(NOT_HELD)
    } else {
        ExitCode::SUCCESS
    })
}

fn request(flags: &Run, cli: &Cli, words: &[OsString]) -> Result<Request, Failure> {
    if flags.verify_only {
        return verify_only(flags, cli, words);
    }
    if let Some(source) = method::source(flags)? {
        let name = source.name.clone();
        let method = method::request(source, flags, None)?;
        let cells = method.method.all_cells();
        return base(flags, cli, words, (name, cells, Some(method)));
    }
    method_flags::refuse_of_methods(flags)?;
    let (name, members) = catalog::members(&flags.workload)?;
    let mut cells = Vec::new();
    for (name, spec) in members {
        let spec =
            overridden(spec, flags).map_err(|why| Failure::input(format!("{name}: {why}")))?;
        cells.push(CellSpec::new(name, spec));
    }
    base(flags, cli, words, (name, cells, None))
}

/// A pass of verification over the targets: it writes nothing, and continues to the end despite failures.
fn verify_only(flags: &Run, cli: &Cli, words: &[OsString]) -> Result<Request, Failure> {
    let mut cell = iodyno_run::verify_only(&flags.on)?;
    if flags.engine.is_some_and(|engine| !engine.queues()) {
        cell.spec = cell.spec.with_depth(1).map_err(Failure::input)?;
    }
    cell.spec = overridden(cell.spec, flags).map_err(Failure::input)?;
    let name = cell.name.clone();
    let mut request = base(flags, cli, words, (name, vec![cell], None))?;
    request.read_only = true;
    request.errors_max = u64::MAX;
    Ok(request)
}

/// The request without the work to be done.
pub(crate) fn base(
    flags: &Run,
    cli: &Cli,
    words: &[OsString],
    (name, cells, method): (String, Vec<CellSpec>, Option<MethodRequest>),
) -> Result<Request, Failure> {
    let notebook =
        if flags.no_notebook { None } else { Some(show::path(cli.notebook.as_deref())?) };
    let is_method = method.is_some();
    let mut thresholds = method.as_ref().map_or_else(Vec::new, |m| m.method.thresholds.clone());
    thresholds.extend(flags.require.iter().cloned());
    let emulated = emulated_system::emulated(&flags.on)?;
    if flags.system_clock && emulated.as_ref().is_some_and(|of| !of.live) {
        return Err(Failure::input(
            "--system-clock has no effect on emulated targets in virtual time, where no clock is read: take it out",
        ));
    }
    Ok(Request {
        name: flags.name.clone().unwrap_or(name),
        method,
        command: words.iter().map(|w| w.to_string_lossy().into_owned()).collect(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        cells,
        // Those of a sweep are in its method.
        repeats: if is_method { 1 } else { flags.repeat },
        thresholds,
        emulated,
        targets: flags.on.clone(),
        seed: flags.seed,
        engine: flags.engine,
        options: EngineOptions { poll: flags.poll, plain: flags.plain_ring },
        clock: if flags.system_clock { Clock::system() } else { Clock::new() },
        interval_ns: flags.interval,
        errors_max: flags.max_errors,
        read_only: flags.read_only,
        destroy: flags.destroy.clone(),
        notebook,
        stop: signals::stop_flag(),
    })
}
