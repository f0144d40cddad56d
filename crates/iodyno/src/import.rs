//! `import`: reads runs into the notebook, from a page of `iodyno report` or from results of fio.

use crate::args::Import;
use crate::console::{print, remark};
use crate::failure::Failure;
use crate::show;
use iodyno_catalog::input::{InputError, read_text};
use iodyno_exchange::fio_results::{self, LogFile, Results};
use iodyno_measure::verdict;
use iodyno_notebook::{
    Notebook, Run, RunHead, Status, TargetRecord, Timestamp, WorkloadRecord, id_of_digest, portable,
};
use iodyno_page::html;
use iodyno_page::terminal::{Style, text};
use iodyno_units::human;
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Maximum size of a file to import, bytes.
const BYTES_MAX: u64 = 96 << 20;
/// Maximum size of a log file of fio, bytes: some 40 million I/Os.
const LOG_BYTES_MAX: u64 = 1 << 30;
/// Maximum number of runs that are imported from a file.
const RUNS_MAX: usize = 1000;

pub(crate) fn command(flags: &Import, notebook: Option<&Path>) -> Result<ExitCode, Failure> {
    let file = &flags.file;
    let page = read(
        file,
        BYTES_MAX,
        "is larger than any report: copy the notebook itself and name it with --notebook",
    )?;
    let found = html::embedded(&page, "iodyno-run-");
    if found.is_empty() && fio_results::is_results(&page) {
        return import_fio(flags, &page, notebook);
    }
    let wrong = |why: &str| Failure::input(format!("{}: {why}", file.display()));
    if found.is_empty() {
        return Err(wrong(
            "contains no run: name a page of `iodyno report` made without --without-data, or JSON of fio (--output-format=json+), followed by fio's log files; Markdown, CSV and pictures contain no runs",
        ));
    }
    if !flags.logs.is_empty() {
        return Err(wrong(
            "is a report: only JSON of fio can have log files; import the report alone",
        ));
    }
    if found.len() > RUNS_MAX {
        return Err(wrong(&format!("contains more than {RUNS_MAX} runs, which no report does")));
    }
    // One at a time, so that only one is in memory, and all before any is stored.
    if found.len() > 1 {
        for text in &found {
            portable::from_text(text, file)?;
        }
    }
    let path = show::path(notebook)?;
    let mut notebook = None;
    let mut lines = String::new();
    for embedded in &found {
        let run = portable::from_text(embedded, file)?;
        let notebook = match &mut notebook {
            Some(notebook) => notebook,
            none => none.insert(Notebook::open(&path)?),
        };
        lines.push_str(&store(notebook, &run)?);
    }
    print(&lines)
}

fn read(file: &Path, bytes_max: u64, too_large: &str) -> Result<String, Failure> {
    let wrong = |why: &str| Failure::input(format!("{}: {why}", file.display()));
    read_text(file, bytes_max).map_err(|error| match error {
        InputError::TooLarge(_) => {
            wrong(&format!("{too_large} (limit: {})", human::size(bytes_max)))
        }
        InputError::NotText { .. } => {
            wrong("is neither a page of `iodyno report` nor JSON of fio: the file is not UTF-8")
        }
        error => wrong(&format!(
            "{error}; name the page that `iodyno report` wrote, or the JSON that fio wrote"
        )),
    })
}

/// Stores a run, unless the notebook already has it. Returns a line that says whether the run was stored.
fn store(notebook: &mut Notebook, run: &Run) -> Result<String, Failure> {
    let news = if notebook.import(run)? { "read in" } else { "exists already" };
    let plain = Style { color: false, width: 80, unicode: true };
    let mut line = String::new();
    let _ = writeln!(line, "{}  {}  {news}", run.id, text::clean(&run.head.name, 60, plain));
    Ok(line)
}

/// Imports the jobs of an invocation of fio as one run.
fn import_fio(flags: &Import, json: &str, notebook: Option<&Path>) -> Result<ExitCode, Failure> {
    let mut logs = Vec::new();
    for log in &flags.logs {
        let text =
            read(log, LOG_BYTES_MAX, "is too large: set fio's log_avg_msec to log averages")?;
        logs.push(LogFile { origin: log.display().to_string(), text });
    }
    let results = fio_results::read(&flags.file.display().to_string(), json, &logs)?;
    drop(logs);
    for words in &results.remarks {
        remark("note", words);
    }
    let path = show::path(notebook)?;
    let run = run_of(results, &path);
    // Checked as any foreign run is, so that what is stored can be loaded.
    portable::from_text(&portable::to_text(&run)?, &flags.file)?;
    print(&store(&mut Notebook::open(&path)?, &run)?)
}

/// Converts the jobs of one invocation of fio to a run, judged by iodyno's rules.
fn run_of(results: Results, notebook: &Path) -> Run {
    let time = |ms: u64| Timestamp::from_millisecond(ms as i64).unwrap_or_default();
    let mut cells = results.cells;
    for cell in &mut cells {
        cell.verdicts = verdict::judge(cell);
    }
    let disks = &results.disks;
    let target = |of: &fio_results::Target| TargetRecord {
        name: of.name.clone(),
        facts: json!({ "kind": of.kind, "disks_of_fio": disks }),
        ..TargetRecord::default()
    };
    let workloads = results.workloads.into_iter();
    let workload = |(name, options)| WorkloadRecord { name, spec: json!({ "fio": options }) };
    Run {
        id: id_of_digest(results.digest),
        started: time(results.started_ms),
        ended: Some(time(results.ended_ms)),
        status: Status::Finished,
        head: RunHead {
            name: results.name,
            iodyno_version: env!("CARGO_PKG_VERSION").to_owned(),
            targets: results.targets.iter().map(target).collect(),
            workloads: workloads.map(workload).collect(),
            machine: json!({}),
            plan: json!({}),
            ..RunHead::default()
        },
        cells,
        notebook: notebook.to_owned(),
        is_imported: true,
        annotation: None,
    }
}
