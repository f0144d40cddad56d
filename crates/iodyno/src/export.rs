//! `export`: prints a run in another format, or writes it as files in a folder.

use crate::args::{Export, Format};
use crate::console::{complain, print, print_json};
use crate::failure::Failure;
use crate::show;
use iodyno_notebook::Run;
use iodyno_report::fio::json::Form;
use iodyno_report::{csv, fio, hgrm, json, openmetrics, sysbench_text};
use iodyno_targets::output::Folder;
use serde_json::Value;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn command(flags: &Export, notebook: Option<&Path>) -> Result<ExitCode, Failure> {
    let form = match flags.format {
        Format::FioJsonPlus => Form::JsonPlus,
        _ => Form::Json,
    };
    let run = || show::load(notebook, &flags.run);
    if flags.log_hist_coarseness > 0 && flags.format != Format::FioLogs {
        return Err(Failure::input("--log-hist-coarseness requires `--format fio-logs`"));
    }
    if let Some(folder) = &flags.out {
        return match flags.format {
            Format::FioJson | Format::FioJsonPlus => {
                let run = run()?;
                let text = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
                let documents = fio::json::documents(&run, form);
                write(folder, &run, documents.map(|(name, value)| (name, text(&value) + "\n")))
            }
            Format::FioLogs => {
                let run = run()?;
                write(folder, &run, fio::logs::files(&run, flags.log_hist_coarseness))
            }
            _ => Err(Failure::input(
                "-o requires the format fio-json, fio-json+ or fio-logs, which write files into a folder; the others go to standard output: use `> FILE`",
            )),
        };
    }
    match flags.format {
        Format::Json => print_json(&json::document(&run()?, json::Options { series: true })),
        Format::Csv => print(&csv::cells(&run()?)),
        Format::CsvSeries => print(&csv::series(&run()?)),
        Format::Hgrm => print(&hgrm::text(&run()?)),
        Format::FioJson | Format::FioJsonPlus => print_json(&fio::json::document(&run()?, form)),
        Format::FioTerse => print(&fio::terse::text(&run()?)),
        Format::OpenMetrics => print(&openmetrics::text(&run()?)),
        Format::Sysbench => print(&sysbench_text::text(&run()?)),
        Format::FioLogs => Err(Failure::input(
            "fio-logs writes several files: name a folder for them with -o, such as `-o logs`",
        )),
    }
}

/// Writes the files, and reports their number.
fn write(
    folder: &Path,
    run: &Run,
    files: impl Iterator<Item = (String, String)>,
) -> Result<ExitCode, Failure> {
    let made = Folder::make(folder)?;
    let mut written = 0;
    for (name, text) in files {
        made.output(&name)?.write(text.as_bytes())?;
        written += 1;
    }
    complain(&format!("{written} files of {} in {}\n", run.id, folder.display()));
    Ok(ExitCode::SUCCESS)
}
