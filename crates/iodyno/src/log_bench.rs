//! `log bench`: measures a message log on targets, as a run with one cell per level of durability.

use crate::args::{Cli, LogBench};
use crate::failure::Failure;
use crate::hints;
use crate::request::{process, stored};
use crate::run::{Output, carry_out};
use iodyno_catalog::FileError;
use iodyno_page::terminal::Style;
use iodyno_run::{ListedCell, ResolvedRun, RunRequest, Work};
use iodyno_workload::{LogDurability, LogLoad, Spec, WhenFull};
use std::ffi::OsString;
use std::process::ExitCode;

pub(crate) fn command(
    flags: &LogBench,
    cli: &Cli,
    words: &[OsString],
    style: Style,
) -> Result<ExitCode, Failure> {
    let notebook = flags.measuring.notebook(cli)?;
    let run = ResolvedRun::new(request(flags)?, process(stored(words), notebook))?;
    carry_out(&run, cli, &Output::of(&flags.measuring, None), style)
}

fn request(flags: &LogBench) -> Result<RunRequest, Failure> {
    flags.on.iter().try_for_each(hints::check_target)?;
    // With several levels, `none` is measured without FUA.
    if flags.fua
        && flags.durability.iter().all(|it| LogDurability::from(*it) == LogDurability::None)
    {
        return Err(Failure::input(
            "--fua makes writes durable, contrary to --durability none: leave one of them out",
        ));
    }
    let mut cells = Vec::new();
    for word in &flags.durability {
        let durability = LogDurability::from(*word);
        let name = match flags.durability.as_slice() {
            [_] => flags.name.clone(),
            _ => format!("durability-{}", durability.name()),
        };
        cells.push(ListedCell::new(name, spec(flags, durability)?));
    }
    Ok(flags.measuring.request(&flags.on, flags.name.clone(), Work::Cells(cells)))
}

/// Builds the workload: the same as a workload file with a table `[log]`.
fn spec(flags: &LogBench, durability: LogDurability) -> Result<Spec, Failure> {
    let load = LogLoad {
        message_bytes: u32::try_from(flags.size).unwrap_or(u32::MAX),
        rate_per_s: flags.rate,
        publishers: flags.publishers,
        backlog: flags.backlog,
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
