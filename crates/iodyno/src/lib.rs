//! The command `iodyno`: arguments in, exit code out. Results go to standard output; progress, remarks and errors go
//! to standard error.
//!
//! **Invariant:** a command translates words into requests to the crates below, and passes the results
//! to `report`; it measures and judges nothing.

pub mod args;
mod beside;
mod catalog_entries;
mod check;
mod compare;
mod completers;
mod console;
mod crashtest;
mod explain;
mod export;
mod failure;
mod fault;
mod fill_first;
mod fit;
mod foreign_workload;
mod hints;
mod history;
mod import;
mod job_surroundings;
mod legal_flags;
mod live;
mod log;
mod log_bench;
mod merge;
mod method;
mod named_work;
mod overrides;
mod private_folder;
mod purge;
mod ranks;
mod replay;
mod report;
mod request;
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
mod tls;
mod web;

use args::{Cli, Command};
use clap::CommandFactory as _;
use console::{complain, print_bytes};
use failure::Failure;
use iodyno_ranks::Ranks;
use iodyno_report::json::Options;
use iodyno_targets::output::Folder;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
pub use terminals::Terminals;

/// Runs a command line as one of several ranks (processes of one run; see the crate `iodyno-ranks`). `arguments` starts
/// with the program's name.
pub fn main_of_rank(ranks: Arc<Ranks>, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    ranks::set(ranks);
    main(arguments)
}

/// Returns the flag that stops a run in an orderly way. Signals set it.
pub fn stop_flag() -> Arc<AtomicBool> {
    signals::stop_flag()
}

/// Runs a command line, which starts with the program's name.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    completers::answer_shell();
    let words = foreign_workload::joined(arguments.collect());
    let cli = match Cli::of_words(&words) {
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
        Command::Ls { text, json } => {
            show::list(cli.notebook.as_deref(), text.as_deref(), *json, style)
        }
        Command::Show { run, require, json, series, shown } => {
            let json = (*json || *series).then_some(Options { series: *series });
            let detail = style::detail(*shown);
            show::show(cli.notebook.as_deref(), run, require, json, detail, style)
        }
        Command::Resume(flags) => resume::command(flags, cli, style),
        Command::Compare(flags) => compare::command(flags, cli.notebook.as_deref(), style),
        Command::Annotate { run, text } => {
            show::annotate(cli.notebook.as_deref(), run, text.as_deref())
        }
        Command::History(flags) => history::command(flags, cli.notebook.as_deref(), words, style),
        Command::Report(flags) => report::command(flags, cli.notebook.as_deref()),
        Command::Import(flags) => import::command(flags, cli.notebook.as_deref()),
        Command::Merge { notebooks } => merge::command(cli, notebooks, style),
        Command::Web(flags) => web::command(flags, cli.notebook.as_deref()),
        Command::Export(flags) => export::command(flags, cli.notebook.as_deref()),
        Command::Explain(flags) => explain::command(flags, style),
        Command::Serve(flags) => serve::command(flags),
        Command::Fit(flags) => fit::command(flags, cli, words, style),
        Command::Crashtest(flags) => crashtest::command(flags, style),
        Command::InGuest { folder, disk, script, time_limit_ns } => Ok(crashtest::run_in_guest(
            folder,
            disk,
            script,
            time_limit_ns.map(Duration::from_nanos),
        )),
        Command::CheckSqlite { file, query } => crashtest::check_sqlite(file, query.as_deref()),
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
