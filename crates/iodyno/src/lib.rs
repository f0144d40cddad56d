//! The command: arguments in, exit code out. Results go to standard output; progress, remarks and
//! errors go to standard error.
//!
//! **Invariant:** only `explain` has logic worth a unit test. Commands translate words into requests
//! to the crates below, and pass the results to `report`.

pub mod args;
mod beside;
mod catalog_entries;
mod check;
mod compare;
mod completers;
mod explain;
mod export;
mod failure;
mod fault;
mod fill_first;
mod foreign_workload;
mod hints;
mod live;
mod log;
mod log_bench;
mod merge;
mod method;
mod method_flags;
mod overrides;
mod purge;
mod ranks;
mod replay;
mod report;
mod resume;
mod run;
mod scrape;
mod secrets;
mod serve;
mod show;
mod signals;
mod size;
mod study;
mod style;
mod terminals;

use args::{Cli, Command};
use clap::{CommandFactory as _, Parser as _};
use failure::Failure;
use iodyno_ranks::Ranks;
use iodyno_report::json::Options;
use iodyno_targets::output::Folder;
use iodyno_units::text::{clean, is_hidden};
use std::ffi::OsString;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
pub use terminals::Terminals;

/// Runs one command line as one of several ranks: see the crate `iodyno-ranks`. `arguments` starts
/// with the program's name.
pub fn main_of_rank(ranks: Arc<Ranks>, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    ranks::set(ranks);
    main(arguments)
}

/// The stop flag that signals set, and that ends a run in an orderly way.
pub fn stop_flag() -> Arc<AtomicBool> {
    signals::stop_flag()
}

/// Runs one command line; `arguments` starts with the program's name.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    completers::answer_shell();
    let words = foreign_workload::joined(arguments.collect());
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli.with_notebook_of_environment(),
        // Only the first rank reports an invalid command line, which is the same on all ranks.
        Err(_) if !ranks::of_process().is_first() => return ExitCode::from(2),
        Err(e) => {
            let takes_targets = words.get(1).is_some_and(|word| word == "run" || word == "replay");
            let colors = style::colors_stderr(args::When::Auto);
            let hint = hints::of_flag(&e, takes_targets).or_else(|| hints::of_range(&e, colors));
            if let Some(hint) = hint {
                complain(&hint);
                return ExitCode::from(2);
            }
            // clap's own exit codes: 0 for help and version, 2 for anything wrong.
            let _ = e.print();
            return ExitCode::from(u8::try_from(e.exit_code()).unwrap_or(2));
        }
    };
    let color = cli.color;
    match dispatch(&cli, &words) {
        Ok(code) => code,
        Err(failure) if ranks::of_process().is_alone() => {
            complain(&failure.render(style::colors_stderr(color)));
            ExitCode::from(failure.exit_code())
        }
        Err(failure) => {
            complain(&ranks::failed(&failure));
            ExitCode::from(failure.exit_code())
        }
    }
}

fn dispatch(cli: &Cli, words: &[OsString]) -> Result<ExitCode, Failure> {
    let style = style::for_stdout(cli.color);
    match &cli.command {
        Command::Run(flags) => run::command(flags, cli, words, style),
        Command::Convert(flags) => foreign_workload::convert(flags),
        Command::Check(flags) => check::command(flags, style),
        Command::Purge(flags) => purge::command(flags, cli, style),
        Command::Ls { json } => show::list(cli.notebook.as_deref(), *json, style),
        Command::Show { run, require, json, series, shown } => {
            let json = (*json || *series).then_some(Options { series: *series });
            let detail = style::detail(*shown);
            show::show(cli.notebook.as_deref(), run, require, json, detail, style)
        }
        Command::Resume { run, destroy, json, quiet, shown } => {
            let detail = style::detail(*shown);
            resume::command(cli, run, destroy, (*json, *quiet), detail, style)
        }
        Command::Compare(flags) => compare::command(flags, cli.notebook.as_deref(), style),
        Command::Report(flags) => report::command(flags, cli.notebook.as_deref()),
        Command::Import(flags) => report::import(flags, cli.notebook.as_deref()),
        Command::Merge { notebooks } => merge::command(cli, notebooks, style),
        Command::Export(flags) => export::command(flags, cli.notebook.as_deref()),
        Command::Explain(flags) => explain::command(flags, style),
        Command::Serve(flags) => serve::command(flags),
        Command::Log(flags) => log::command(flags, cli, words, style),
        Command::Fault(flags) => fault::command(flags),
        Command::Status(flags) => fault::status(flags),
        Command::Replay(flags) => replay::command(flags, cli, words, style),
        Command::Study(flags) => study::command(flags, cli.notebook.as_deref(), style),
        Command::Size(flags) => size::command(flags, cli.notebook.as_deref(), words, style),
        Command::Catalog { name, json } => catalog_entries::command(name.as_deref(), *json),
        Command::Completions { shell } => print_bytes(&completers::script(*shell)),
        Command::Man { folder } => man(folder),
    }
}

/// Writes a result to standard output. A closed pipe (`| head`) is not an error.
fn print_bytes(bytes: &[u8]) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(e) => Err(Failure::output("standard output", &e)),
    }
}

/// Writes to standard error. A closed pipe must not end a measurement, as it would with `eprint!`,
/// which panics.
fn complain(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

/// A path as one line of text.
fn shown(path: &Path) -> String {
    clean(&path.to_string_lossy()).into_owned()
}

/// Writes a line to standard error: its kind, and words that may quote a file, a server or a device.
fn remark(kind: &str, words: &str) {
    complain(&format!("{kind}: {}\n", clean(words)));
}

fn print(text: &str) -> Result<ExitCode, Failure> {
    print_bytes(text.as_bytes())
}

/// Prints an indented JSON document with a line end. Hidden characters are escaped as JSON defines.
fn print_json(document: &serde_json::Value) -> Result<ExitCode, Failure> {
    let mut out = Escaping(BufWriter::new(std::io::stdout().lock()));
    // In pieces: the text may be large.
    let written = serde_json::to_writer_pretty(&mut out, document).map_err(std::io::Error::from);
    match written.and_then(|()| out.0.write_all(b"\n")).and_then(|()| out.0.flush()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(e) => Err(Failure::output("standard output", &e)),
    }
}

/// Escapes hidden characters in a JSON stream; each piece has whole characters only.
struct Escaping<W>(W);

impl<W: std::io::Write> std::io::Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let hidden = |c: char| is_hidden(c) && c != '\n';
        match std::str::from_utf8(bytes) {
            Ok(text) if text.contains(hidden) => {
                for c in text.chars() {
                    if hidden(c) {
                        for unit in c.encode_utf16(&mut [0; 2]) {
                            write!(self.0, "\\u{unit:04x}")?;
                        }
                    } else {
                        write!(self.0, "{c}")?;
                    }
                }
            }
            _ => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

fn man(folder: &std::path::Path) -> Result<ExitCode, Failure> {
    let folder = Folder::make(folder)?;
    // Like `clap_mangen::generate_to`, but through the guard of outputs.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut commands = vec![command];
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands().filter(|c| !c.is_hide_set()).cloned());
        let page = clap_mangen::Man::new(command);
        let mut text = Vec::new();
        page.render(&mut text).map_err(|e| Failure::output("a manual page", &e))?;
        folder.output(&page.get_filename())?.write(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}
