//! `run`: translates the command line into a request, and prints the outcome.

use crate::args::{Cli, Measuring, Run};
use crate::beside::{Neighbour, with_neighbours};
use crate::console::{complain, print, print_json, remark};
use crate::failure::{Failure, METHOD_FAILED, NOT_HELD};
use crate::foreign_workload::Cells;
use crate::job_surroundings::OfRun;
use crate::live::Live;
use crate::method::Asked;
use crate::named_work::{NamedWork, Workloads};
use crate::overrides::{check_content, overridden, override_all};
use crate::request::{process, stored};
use crate::scrape::RunMetrics;
use crate::{
    fill_first, foreign_workload, hints, legal_flags, method, ranks, report, scrape, style,
};
use iodyno_drive::EngineOptions;
use iodyno_measure::Threshold;
use iodyno_notebook::Status;
use iodyno_page::terminal::Style;
use iodyno_report::terminal;
use iodyno_report::{RunVerdict, json, thresholds};
use iodyno_run::{ListedCell, Processors, RanksRequest, ResolvedRun, RunRequest, Work};
use iodyno_targets::TargetName;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit code of a run with too many failed operations, or with reads that returned wrong content.
const TARGET_FAILED: u8 = 4;
/// Exit code of a run that was stopped by a signal.
const INTERRUPTED: u8 = 130;

pub(crate) fn command(
    flags: &Run,
    cli: &Cli,
    words: &[OsString],
    style: Style,
) -> Result<ExitCode, Failure> {
    let notebook = flags.measuring.notebook(cli)?;
    let resolved = |request| ResolvedRun::new(request, process(stored(words), notebook.clone()));
    let mut run = None;
    // With the texts of all files: the other ranks need no files.
    let request = ranks::of_first(|| {
        let resolved = run.insert(resolved(request(flags)?)?);
        Ok(resolved.request.clone())
    })?;
    let run = run.map_or_else(|| resolved(request), Ok);
    let run = ranks::agreed(run.map_err(Failure::from))?;
    for words in remarks(&run).iter().filter(|_| ranks::of_process().is_first()) {
        remark("note", words);
    }
    carry_out(&run, cli, &Output::of(&flags.measuring, metrics(flags)?), style)
}

/// Starts serving metrics if `--metrics` is set.
fn metrics(flags: &Run) -> Result<Option<RunMetrics>, Failure> {
    let at = scrape::address(flags.metrics, flags.insist_on_plain)?;
    if at.is_some() && !ranks::of_process().is_alone() {
        return Err(Failure::input(
            "--metrics is for one process: leave it out with iodyno-mpi, and export the run when it is over",
        ));
    }
    at.map(|at| RunMetrics::serve(at, flags.measuring.quiet)).transpose()
}

/// Collects remarks on possible mistakes in the workloads, without duplicates.
fn remarks(run: &ResolvedRun) -> Vec<String> {
    let mut all: Vec<String> = run.cells.iter().flat_map(|cell| cell.spec.remarks()).collect();
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|remark| seen.insert(remark.clone()));
    all
}

/// Destinations and formats of a run's results.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) series: bool,
    pub(crate) quiet: bool,
    /// Whether a result that is not VALID fails the command (`--strict`).
    pub(crate) strict: bool,
    /// Names of warnings that `strict` accepts.
    pub(crate) accepted: Vec<String>,
    pub(crate) detail: terminal::Detail,
    /// HTML report to write when the run ends; None without `--report`.
    pub(crate) report: Option<Page>,
    /// Metrics served during the run; None without `--metrics`.
    pub(crate) metrics: Option<RunMetrics>,
}

impl Output {
    /// Determines from the flags where the results of a run are written, and in which formats.
    pub(crate) fn of(flags: &Measuring, metrics: Option<RunMetrics>) -> Self {
        Self {
            json: flags.json || flags.series,
            series: flags.series,
            quiet: flags.quiet,
            strict: flags.strict,
            accepted: flags.accept.clone(),
            detail: style::detail(flags.shown),
            report: flags.report.clone().map(|at| at.map_or(Page::ById, Page::At)),
            metrics,
        }
    }
}

/// File to which the HTML report of a run is written.
#[derive(Clone, Debug)]
pub(crate) enum Page {
    /// A file in the current folder, named after the run's id.
    ById,
    /// The file named by `--report`.
    At(PathBuf),
}

/// Loads the notes of earlier runs from the notebook in which `run` is stored.
fn before(run: &iodyno_notebook::Run) -> terminal::Before {
    if run.id.is_empty() {
        return terminal::Before::default();
    }
    let notebook = iodyno_notebook::Notebook::open_existing(&run.notebook);
    notebook.map_or_else(
        |_| terminal::Before::default(),
        |notebook| terminal::Before::of(run, &notebook.notes_before(&run.id)),
    )
}

/// Refuses a run that would write two of its outputs to one file.
fn refuse_one_file_for_two(run: &ResolvedRun, output: &Output) -> Result<(), Failure> {
    let page = if let Some(Page::At(file)) = &output.report { Some(file) } else { None };
    let outputs = [
        ("--record-trace", run.request.record_trace.as_ref()),
        ("--report", page),
        ("the notebook", run.process.notebook.as_ref()),
    ];
    let outputs: Vec<_> =
        outputs.iter().filter_map(|(what, path)| path.map(|path| (what, path))).collect();
    for (at, (what, path)) in outputs.iter().enumerate() {
        for (other, other_path) in &outputs[..at] {
            if iodyno_run::is_same_file(path, other_path) && path.as_os_str() != "/dev/null" {
                return Err(Failure::input(format!(
                    "{other} and {what} would write to the same file, `{}`: give each its own",
                    path.display()
                )));
            }
        }
    }
    Ok(())
}

pub(crate) fn carry_out(
    run: &ResolvedRun,
    cli: &Cli,
    output: &Output,
    style: Style,
) -> Result<ExitCode, Failure> {
    refuse_one_file_for_two(run, output)?;
    // Detect an unwritable page before the run.
    let page = match &output.report {
        Some(Page::At(file)) => Some(Some(file.as_path())),
        Some(Page::ById) => Some(None),
        None => None,
    };
    let is_first = run.process.ranks.is_first();
    let page = page.filter(|_| is_first).map(report::Place::check).transpose();
    let page = ranks::agreed(page)?;
    let quiet = output.quiet || !is_first;
    let mut live = Live::new(quiet, style::for_stderr(cli.color), output.metrics.clone());
    let outcome = iodyno_run::execute(run, &mut live);
    live.clear();
    let outcome = outcome?;
    if !is_first {
        ranks::forget_notebook();
        return Ok(ExitCode::SUCCESS);
    }
    // Each of these is attempted even if others fail; the first failure determines the exit code.
    let mut failures = Vec::new();
    let printed = if output.json {
        print_json(&json::document(&outcome.run, json::Options { series: output.series }))
    } else {
        print(&terminal::show_after(&outcome.run, &before(&outcome.run), output.detail, style))
    };
    failures.extend(printed.err());
    if let Some(words) = not_begun(run, &outcome.run).filter(|_| !quiet) {
        remark("note", &words);
    }
    if let Some(page) = page {
        let id = outcome.run.id.as_str();
        let name = format!("iodyno-{}.html", if id.is_empty() { "run" } else { id });
        let drawn = page.output(&name).and_then(|out| report::of_run(&outcome.run, out));
        failures.extend(drawn.err());
    }
    failures.extend(outcome.not_kept.as_ref().map(Failure::not_kept));
    if let Some((first, others)) = failures.split_first() {
        let color = style::colors_stderr(cli.color);
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
        // A verification pass continues to its end despite failures, but counts as failed.
        || run.request.errors_max == u64::MAX && outcome.has_failed_operations()
    {
        ExitCode::from(TARGET_FAILED)
    } else if RunVerdict::of(&outcome.run).has_failed() {
        // Before thresholds: the figures of a failed method can't meet any.
        ExitCode::from(METHOD_FAILED)
    } else if !thresholds::are_held(&outcome.run, &run.thresholds) {
        ExitCode::from(NOT_HELD)
    } else if let Some(why) = doubt(&outcome.run, &run.thresholds, output) {
        complain(&format!("--strict: {why}\n"));
        ExitCode::from(NOT_HELD)
    } else {
        ExitCode::SUCCESS
    })
}

/// Names the cells of a list that never began, because the run ended before them; None if there are none. The stages of
/// a method have a verdict of their own.
fn not_begun(run: &ResolvedRun, done: &iodyno_notebook::Run) -> Option<String> {
    if run.method.is_some() || run.request.shard.is_some() || done.status == Status::Finished {
        return None;
    }
    let has_begun = |name: &String| done.cells.iter().any(|cell| cell.key.name == *name);
    let last = run.cells.iter().rposition(|cell| has_begun(&cell.name))?;
    let missing: Vec<String> =
        run.cells[last + 1..].iter().map(|cell| format!("`{}`", cell.name)).collect();
    (!missing.is_empty()).then(|| format!("not begun: {}", missing.join(", ")))
}

/// Reason why `--strict` fails a run that meets its thresholds; None if there is none.
fn doubt(run: &iodyno_notebook::Run, thresholds: &[Threshold], output: &Output) -> Option<String> {
    if !output.strict {
        return None;
    }
    let codes = RunVerdict::of(run).doubts(run, &output.accepted);
    if !codes.is_empty() {
        return Some(format!("the result is not VALID: {}", codes.join(", ")));
    }
    thresholds::is_one_close(run, thresholds).then(|| {
        "the 95 % interval of a figure crosses its threshold: measure for longer".to_owned()
    })
}

/// Builds the request of a run from the command line.
fn request(flags: &Run) -> Result<RunRequest, Failure> {
    flags.on.iter().try_for_each(hints::check_target)?;
    let work = named_work(flags)?;
    legal_flags::check(flags, work.as_ref())?;
    request_for(work, flags)
}

/// Resolves the workload or method on the command line; `None`: a verification pass, which needs no workload.
///
/// # Errors
/// The name is unknown, or its file is invalid.
pub(crate) fn named_work(flags: &Run) -> Result<Option<NamedWork>, Failure> {
    if flags.verify_only {
        return Ok(None);
    }
    NamedWork::read(&flags.workload, &flags.section, &OfRun(flags)).map(Some)
}

/// Builds the request for a workload or method, with the settings of all flags; `None`: a verification pass.
pub(crate) fn request_for(work: Option<NamedWork>, flags: &Run) -> Result<RunRequest, Failure> {
    let Some(work) = work else { return verify_only(flags) };
    match work {
        NamedWork::Method(file) => {
            let source = method::of_file(file, flags)?;
            with_method(flags, Asked { source, changes: Vec::new() })
        }
        NamedWork::Workloads(named) if legal_flags::is_sweep(flags) => {
            with_method(flags, method::sweep(named, flags)?)
        }
        NamedWork::Jobs(jobs) => {
            let mut request = if legal_flags::is_sweep(flags) {
                let named = foreign_workload::one_by_one(&jobs, flags)?;
                with_method(flags, method::sweep(named, flags)?)?
            } else {
                let cells = foreign_workload::cells(&jobs, flags)?;
                with_cells(flags, jobs.file.name.clone(), cells)?
            };
            foreign_workload::on_targets(&jobs, flags, &mut request)?;
            Ok(request)
        }
        NamedWork::Workloads(Workloads { name, mut members }) => {
            let changes = override_all(&mut members, flags, false)?;
            check_content(&members, flags)?;
            let cells = members.into_iter().map(|(name, spec)| ListedCell::new(name, spec));
            with_cells(flags, name, Cells { cells: cells.collect(), changes })
        }
    }
}

fn with_method(flags: &Run, Asked { source, changes }: Asked) -> Result<RunRequest, Failure> {
    let name = source.name.clone();
    let work = Work::Method { source: Box::new(source), each: flags.each, reuse: flags.reuse };
    // The repeats of a sweep are part of its method.
    Ok(RunRequest { repeats: 1, ..with_work(flags, name, work, &changes)? })
}

/// Builds the request for a list of cells. Adds background workloads (`--with`) and a fill (`--fill`) if
/// requested.
fn with_cells(flags: &Run, name: String, of: Cells) -> Result<RunRequest, Failure> {
    let Cells { mut cells, mut changes } = of;
    if !flags.with.is_empty() {
        let neighbours =
            flags.with.iter().map(Neighbour::changed).collect::<Result<Vec<_>, _>>()?;
        let words;
        (cells, words) = with_neighbours(cells, &neighbours)?;
        changes.extend(words);
    }
    cells.splice(0..0, fill_first::cell(flags)?);
    with_work(flags, name, Work::Cells(cells), &changes)
}

/// Builds the settings of a run over several ranks from the flags.
fn ranks(flags: &Run) -> Result<RanksRequest, Failure> {
    if ranks::of_process().is_alone()
        && let Some(flag) = flags.given.first_of(&["on-host", "shared", "overlap"])
    {
        return Err(Failure::input(format!(
            "--{flag} is for several ranks, but this is one process: use `iodyno-mpi run` (docs/many-hosts.md)"
        )));
    }
    let mut targets_by_host: BTreeMap<String, Vec<TargetName>> = BTreeMap::new();
    for (host, target) in &flags.on_host {
        targets_by_host.entry(host.clone()).or_default().push(target.clone());
    }
    // The default of --on does not apply to hosts that are not named.
    if !targets_by_host.is_empty() && flags.given.has("on") {
        targets_by_host.insert("*".to_owned(), flags.on.clone());
    }
    Ok(RanksRequest { targets_by_host, shared: flags.shared, overlap: flags.overlap })
}

/// Builds the request for a verification pass, which reads all of each target, writes nothing, and does not
/// stop at failures.
fn verify_only(flags: &Run) -> Result<RunRequest, Failure> {
    let mut cell = iodyno_run::verify_only(&flags.on)?;
    if flags.measuring.engine.is_some_and(|engine| !engine.queues()) {
        cell.spec = cell.spec.with_depth(1).map_err(Failure::input)?;
    }
    cell.spec = overridden(cell.spec, flags).map_err(Failure::input)?;
    let request = with_work(flags, cell.name.clone(), Work::Cells(vec![cell]), &[])?;
    Ok(RunRequest { read_only: true, errors_max: u64::MAX, ..request })
}

/// Builds the request with all settings from flags. `changes` describes how flags changed the workload.
fn with_work(
    flags: &Run,
    name: String,
    work: Work,
    changes: &[String],
) -> Result<RunRequest, Failure> {
    let node = flags.numa.map(Processors::of_node).transpose()?;
    let changed = (!changes.is_empty()).then(|| format!("{name}, {}", changes.join(", ")));
    let name = flags.name.clone().unwrap_or(name);
    let request = flags.measuring.request(&flags.on, name, work);
    Ok(RunRequest {
        changed,
        processors: request.processors.or(node),
        options: EngineOptions { poll: flags.poll, plain: flags.plain_ring },
        system_clock: flags.system_clock,
        errors_max: flags.max_errors,
        read_only: flags.read_only,
        shard: flags.shard,
        ranks: ranks(flags)?,
        record_trace: flags.record_trace.clone(),
        ..request
    })
}
