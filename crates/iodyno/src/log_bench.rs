//! `log bench`: the load of a message log on targets, as a run with one cell per level of durability.

use crate::args::{Cli, LogBench};
use crate::failure::Failure;
use crate::hints;
use crate::request::{process, stored};
use crate::run::{Output, carry_out};
use iodyno_catalog::FileError;
use iodyno_page::terminal::Style;
use iodyno_run::{ListedCell, ResolvedRun, RunRequest, Work};
use iodyno_workload::{LogDurability, Spec};
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

/// The workload, equal to one from a file with a table `[log]`.
fn spec(flags: &LogBench, durability: LogDurability) -> Result<Spec, Failure> {
    let LogBench { depth, chunk, time, ramp, size, publishers, commit, readers, replay, .. } =
        flags;
    let optional = |key: &str, value: Option<String>| {
        value.map_or(String::new(), |value| format!("{key} = {value}\n"))
    };
    let text = [
        format!("schema = 1\nabout = \"A message log\"\ndepth = {depth}\nblock = \"{chunk}B\"\n"),
        format!("[limits]\ntime = \"{time}ns\"\nramp = \"{ramp}ns\"\n[log]\nmessage = {size}\n"),
        optional("rate", flags.rate.map(|rate| format!("\"{rate}/s\""))),
        optional("backlog", flags.backlog.map(|messages| messages.to_string())),
        optional("batch", flags.batch.map(|messages| messages.to_string())),
        format!("when_full = \"{}\"\n", if flags.drop { "drop" } else { "block" }),
        format!("durability = \"{}\"\n", durability.name()),
        format!("fua = {}\n", flags.fua && durability != LogDurability::None),
        format!("publishers = {publishers}\ncommit = {commit}\nreaders = {readers}\n"),
        format!("replay = {replay}\n"),
    ]
    .concat();
    Spec::from_toml(&text).map_err(|errors| {
        let all: Vec<String> = errors.iter().map(|e: &FileError| e.message.clone()).collect();
        Failure::input(all.join("; "))
    })
}
