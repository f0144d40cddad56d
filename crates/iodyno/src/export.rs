//! `export`: converts a run to another format, and prints the result or writes it to a file or folder.

use crate::args::Export;
use crate::console::{complain, json_text, print, print_json};
use crate::failure::Failure;
use crate::show;
use iodyno_notebook::Run;
use iodyno_report::formats::{FIO_LOGS, ToDocument};
use iodyno_targets::output::{Folder, Output};
use iodyno_units::human;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn command(flags: &Export, notebook: Option<&Path>) -> Result<ExitCode, Failure> {
    let format = flags.format;
    if flags.log_hist_coarseness > 0 && format.name != FIO_LOGS {
        return Err(Failure::input(format!(
            "--log-hist-coarseness requires `--format {FIO_LOGS}`"
        )));
    }
    let load = || show::load(notebook, &flags.run);
    let is_json = |path: &Path| path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"));
    match (&flags.out, format.files, format.document) {
        (Some(folder), Some(files), document) if document.is_none() || !is_json(folder) => {
            let run = load()?;
            write(folder, &run, files(&run, flags.log_hist_coarseness))
        }
        (Some(file), _, Some(document)) => {
            let run = load()?;
            let text = match document {
                ToDocument::Text(text) => text(&run).into_bytes(),
                ToDocument::Json(value) => json_text(&value(&run)),
            };
            Output::at(file)?.write(&text)?;
            Ok(ExitCode::SUCCESS)
        }
        (None, _, Some(ToDocument::Text(text))) => print(&text(&load()?)),
        (None, _, Some(ToDocument::Json(value))) => print_json(&value(&load()?)),
        (_, _, None) => Err(Failure::input(format!(
            "{} consists of several files: name a folder for them with -o, such as `-o logs`",
            format.name
        ))),
    }
}

/// Writes the exported files, and prints their number.
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
    let files = human::counted(written, "file");
    complain(&format!("{files} of {} in {}\n", run.id, folder.display()));
    Ok(ExitCode::SUCCESS)
}
