//! The command `replay`: runs a trace on targets, or summarises it. A record of `serve` (the requests to an emulated
//! system) is replayed on the emulated system that it describes.

mod record;
mod summary;

use crate::args::{Cli, Replay};
use crate::console::remark;
use crate::failure::Failure;
use crate::hints;
use crate::request::{process, stored};
use crate::run::{Output, carry_out};
use iodyno_catalog::Problem;
use iodyno_catalog::input::Input;
use iodyno_exchange::trace::{Selection, is_record, read};
use iodyno_page::terminal::Style;
use iodyno_run::{ResolvedRun, RunRequest, TraceRequest, Work, trace_ops_max};
use iodyno_workload::Timing;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::process::ExitCode;

pub(crate) fn command(
    flags: &Replay,
    cli: &Cli,
    words: &[OsString],
    style: Style,
) -> Result<ExitCode, Failure> {
    if flags.on.is_empty() {
        return without_target(flags);
    }
    let notebook = flags.measuring.notebook(cli)?;
    let run = ResolvedRun::new(request(flags)?, process(stored(words), notebook))?;
    for words in &run.notes {
        remark("note", words);
    }
    if let Some(replay) = run.cells.first().and_then(|cell| cell.replay.as_ref())
        && !flags.measuring.quiet
    {
        remark("trace", &summary::line(replay.trace.summary()));
    }
    carry_out(&run, cli, &Output::of(&flags.measuring, None), style)
}

fn selection(flags: &Replay) -> Selection {
    Selection {
        format: flags.format.map(Into::into),
        only: flags.only.clone(),
        from_ns: flags.from,
        to_ns: flags.to,
        action: flags.action.into(),
        align_bytes: flags.align,
    }
}

/// Replays a record of `serve` in virtual time, or summarises any other trace.
fn without_target(flags: &Replay) -> Result<ExitCode, Failure> {
    let named = flags.file.display().to_string();
    let failed = |e: std::io::Error| Failure::input(format!("{named}: {e}"));
    let file = Input::open(&flags.file).map_err(|e| Failure::input(format!("{named}: {e}")))?;
    let is_file = file.is_regular();
    let mut from = BufReader::with_capacity(1 << 20, file);
    let beginning = from.fill_buf().map_err(failed)?;
    if beginning.is_empty() && !is_file {
        return Err(Failure::input(format!(
            "{named}: the input is empty; a record must be a regular file"
        )));
    }
    if is_record(beginning) && !flags.summary {
        if let Some(flag) = flags.given.first_of(&["format", "only", "from", "to", "align"]) {
            return Err(Failure::input(format!(
                "{named}: without --on or --summary a record is replayed as a whole: leave --{flag} out"
            )));
        }
        return record::replay(&flags.file, flags.measuring.json);
    }
    let chosen = selection(flags);
    let file = read(from, &named, &chosen, trace_ops_max(false)).map_err(Failure::from)?;
    summary::print(&named, &file, flags.measuring.json)
}

fn request(flags: &Replay) -> Result<RunRequest, Failure> {
    flags.on.iter().try_for_each(hints::check_target)?;
    let timing = if flags.fast {
        Timing::Fast
    } else if flags.think {
        Timing::Think { speed: flags.speed }
    } else {
        Timing::Time { speed: flags.speed }
    };
    let stem = flags.file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let Some(name) = stem else {
        let problem = Problem::new(
            flags.file.display().to_string(),
            "the path does not end with a file name",
        );
        return Err(problem.into());
    };
    let work = TraceRequest {
        path: flags.file.clone(),
        sha256: None,
        selection: selection(flags),
        timing,
        fit: flags.fit.into(),
        offset_bytes: flags.offset,
        threads: flags.threads,
        depth: flags.depth,
        content: flags.content.clone(),
    };
    let name = flags.name.clone().unwrap_or(name);
    Ok(RunRequest {
        errors_max: flags.max_errors,
        read_only: flags.read_only,
        record_trace: flags.record_trace.clone(),
        ..flags.measuring.request(&flags.on, name, Work::Trace(Box::new(work)))
    })
}
