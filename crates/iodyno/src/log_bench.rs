//! `log bench`: the load of a message log on targets, as a run with one cell per level of durability.

use crate::args::{Cli, LogBench};
use crate::failure::Failure;
use crate::run::{Output, Page, carry_out, process};
use crate::{hints, show, style};
use iodyno_catalog::FileError;
use iodyno_drive::EngineOptions;
use iodyno_page::terminal::Style;
use iodyno_run::{Files, ListedCell, ResolvedRun, RunRequest, Work};
use iodyno_workload::{LogDurability, LogLoad, Spec, WhenFull};
use std::ffi::OsString;
use std::process::ExitCode;

/// Failed operations after which a run stops; a log stops at its first.
const MAX_ERRORS: u64 = 100;

pub(crate) fn command(
    flags: &LogBench,
    cli: &Cli,
    words: &[OsString],
    style: Style,
) -> Result<ExitCode, Failure> {
    let words = words.iter().map(|w| w.to_string_lossy().into_owned()).collect();
    let notebook =
        if flags.no_notebook { None } else { Some(show::path(cli.notebook.as_deref())?) };
    let run = ResolvedRun::new(request(flags)?, process(words, notebook))?;
    let output = Output {
        json: flags.json || flags.series,
        series: flags.series,
        quiet: flags.quiet,
        detail: style::detail(flags.shown),
        report: flags.report.clone().map(|at| at.map_or(Page::ById, Page::At)),
        metrics: None,
    };
    carry_out(&run, cli, &output, style)
}

fn request(flags: &LogBench) -> Result<RunRequest, Failure> {
    flags.on.iter().try_for_each(hints::check_target)?;
    let mut cells = Vec::new();
    for word in &flags.durability {
        let durability = LogDurability::from(*word);
        let name = match flags.durability.as_slice() {
            [_] => flags.name.clone(),
            _ => format!("durability-{}", durability.name()),
        };
        cells.push(ListedCell::new(name, spec(flags, durability)?));
    }
    Ok(RunRequest {
        name: flags.name.clone(),
        changed: None,
        work: Work::Cells(cells),
        repeats: flags.repeat,
        thresholds: flags.require.clone(),
        targets: flags.on.clone(),
        folder: std::env::current_dir().unwrap_or_default(),
        files: Files::default(),
        seed: flags.seed,
        engine: flags.engine,
        options: EngineOptions::default(),
        processors: flags.cpus.clone(),
        system_clock: false,
        interval_ns: flags.interval,
        errors_max: MAX_ERRORS,
        shard: None,
        ranks: iodyno_run::RanksRequest::default(),
        read_only: false,
        destroy: flags.destroy.clone(),
        record_trace: None,
    })
}

/// The workload, equal to one from a file with a table `[log]`.
fn spec(flags: &LogBench, durability: LogDurability) -> Result<Spec, Failure> {
    let load = LogLoad {
        message_bytes: u32::try_from(flags.size).unwrap_or(u32::MAX),
        rate_per_s: flags.rate,
        publishers: flags.publishers,
        backlog: flags.backlog.or(flags.rate.map(|_| LogLoad::DEFAULT_BACKLOG)),
        when_full: if flags.drop { WhenFull::Drop } else { WhenFull::Block },
        durability,
        fua: flags.fua && durability != LogDurability::None,
        batch: flags.batch,
        commit_chunks: flags.commit,
        readers: flags.readers,
        replay_chunks: flags.replay,
    };
    let text = format!(
        "schema = 1\nabout = \"A message log\"\ndepth = {}\nblock = \"{}B\"\n{load}\n[limits]\ntime = \"{}ns\"\nramp = \"{}ns\"\n",
        flags.depth, flags.chunk, flags.time, flags.ramp
    );
    Spec::from_toml(&text).map_err(|errors| {
        let all: Vec<String> = errors.iter().map(|e: &FileError| e.message.clone()).collect();
        Failure::input(all.join("; "))
    })
}
