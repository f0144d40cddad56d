//! `report`: exports runs as a page, which `import` reads back.

use crate::args::Report;
use crate::console::{complain, print, print_bytes, print_json, remark};
use crate::failure::Failure;
use crate::show;
use iodyno_notebook::Run;
use iodyno_page::{Document, csv, html, markdown};
use iodyno_report::compare::{self, Options as Criteria, Side};
use iodyno_report::json;
use iodyno_report::page::{self, Options};
use iodyno_targets::output::{Folder, Output};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Maximum number of time-series intervals per run in a report. Longer series are coarsened when read.
const INTERVALS_MAX: u64 = 100_000;
/// Values of `-o` that mean standard output.
const STDOUT: [&str; 3] = ["-", "/dev/stdout", "/dev/fd/1"];

/// Program name and version, for the footer of a report.
pub(crate) fn made_by() -> String {
    format!("iodyno {}", env!("CARGO_PKG_VERSION"))
}

pub(crate) fn command(flags: &Report, notebook: Option<&Path>) -> Result<ExitCode, Failure> {
    let notebook = show::open(notebook)?.ok_or_else(show::no_notebook)?;
    let alone = flags.runs.len() == 1;
    let sides: Vec<Vec<Run>> = flags
        .runs
        .iter()
        .map(|selector| notebook.load_several_merged(selector, Some(INTERVALS_MAX), alone))
        .collect::<Result<_, _>>()?;
    let options = Options {
        made_by: made_by(),
        columns: flags.columns,
        without_data: flags.without_data,
        is_text: flags.markdown || flags.csv,
    };
    let name = match sides.as_slice() {
        [one] if one.len() == 1 => format!("iodyno-{}", one[0].id),
        [one] => {
            return Err(Failure::input(format!(
                "`{}` names {} runs: use one of them (`iodyno ls` lists their ids), or name two to compare them",
                flags.runs[0],
                one.len()
            )));
        }
        _ => {
            let ids = sides.iter().filter_map(|s| s.first()).map(|r| r.id.as_str());
            format!("iodyno-{}", ids.collect::<Vec<_>>().join("-"))
        }
    };
    if let [one] = sides.as_slice() {
        if flags.json {
            return print_json(&json::document(&one[0], json::Options { series: true }));
        }
        return written(&page::document(&one[0], &options), flags, &name);
    }
    if flags.runs.len() > 2 {
        remark(
            "note",
            &format!(
                "each of {} is compared with {} alone, not with the others",
                flags.runs[1..].join(", "),
                flags.runs[0]
            ),
        );
    }
    let criteria = Criteria { threshold_share: flags.threshold, ..Criteria::default() };
    let (first, others) = sides.split_first().expect("there are at least two");
    let a = Side { asked: &flags.runs[0], runs: first };
    let mut parts = Vec::new();
    for (asked, runs) in flags.runs[1..].iter().zip(others) {
        parts.push(compare::compare(a, Side { asked, runs }, &criteria).map_err(Failure::input)?);
    }
    if flags.json {
        return match parts.as_slice() {
            [one] => print_json(&compare::document(one)),
            several => {
                print_json(&several.iter().map(compare::document).collect::<Vec<_>>().into())
            }
        };
    }
    let sides: Vec<&[Run]> = sides.iter().map(Vec::as_slice).collect();
    written(&page::comparison(&parts, &sides, &options), flags, &name)
}

/// Writes the report and its figures in the formats that the flags request.
fn written(document: &Document, flags: &Report, name: &str) -> Result<ExitCode, Failure> {
    if let Some(folder) = &flags.svg {
        let files = markdown::files(document);
        let made = Folder::make(folder)?;
        for (file, bytes) in &files {
            let name = Path::new(file).file_name().unwrap_or_default();
            made.output(&name.to_string_lossy())?.write(bytes)?;
        }
        complain(&format!("{} figures in {}\n", files.len(), folder.display()));
        if flags.out.is_none() && !flags.markdown && !flags.csv {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let text = if flags.markdown {
        markdown::text(document)
    } else if flags.csv {
        csv::text(document)
    } else {
        html::page(document)
    };
    let is_page = !flags.markdown && !flags.csv;
    match &flags.out {
        Some(path) if STDOUT.iter().any(|name| path == Path::new(name)) => {
            print_bytes(text.as_bytes())
        }
        None if !is_page => print(&text),
        out => {
            let path = out.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.html")));
            Output::at(&path)?.write(text.as_bytes())?;
            print_path(&path, text.len());
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Writes the HTML report of a run that has just ended.
pub(crate) fn of_run(run: &Run, out: Output) -> Result<(), Failure> {
    let options = Options { made_by: made_by(), ..Options::default() };
    write(&page::document(run, &options), out)
}

/// Destination of an HTML report. It is checked before the work starts, although the file name may be
/// known only afterwards.
pub(crate) enum Place {
    /// The file named by the flag.
    Named(Output),
    /// A file in this folder, whose name is determined when the work ends.
    Here(Folder),
}

impl Place {
    /// Checks the destination of `--report[=FILE]`. `None`: the flag has no FILE, so the report is written to the
    /// current folder.
    pub(crate) fn check(file: Option<&Path>) -> Result<Self, Failure> {
        Ok(match file {
            Some(path) => Self::Named(Output::at(path)?),
            None => Self::Here(Folder::open(Path::new("."))?),
        })
    }

    /// Returns the output file. The file is called `name` if the flag did not name one.
    pub(crate) fn output(self, name: &str) -> Result<Output, Failure> {
        Ok(match self {
            Self::Named(output) => output,
            Self::Here(folder) => folder.output(name)?,
        })
    }
}

/// Writes an HTML report, and prints its path.
pub(crate) fn write(document: &Document, out: Output) -> Result<(), Failure> {
    let text = html::page(document);
    let path = out.path().to_owned();
    out.write(text.as_bytes())?;
    print_path(&path, text.len());
    Ok(())
}

/// Prints the path and size of a written file on standard error, because standard output is reserved for
/// results.
fn print_path(path: &Path, bytes: usize) {
    complain(&format!("{} ({} KB)\n", path.display(), bytes.div_ceil(1000)));
}
