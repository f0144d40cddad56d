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
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Maximum size of a file to import, bytes.
const BYTES_MAX: u64 = 96 << 20;
/// Maximum size of a log file of fio, bytes: some 40 million I/Os.
const LOG_BYTES_MAX: u64 = 1 << 30;
/// Maximum number of runs that are imported from a file.
const RUNS_MAX: usize = 1000;

pub(crate) fn command(flags: &Import, notebook: Option<&Path>) -> Result<ExitCode, Failure> {
    let results = with_logs(&flags.files);
    let path = show::path(notebook)?;
    let mut notebook = None;
    for (file, logs) in results {
        for run in runs_of(file, logs, &path)? {
            let run = run?;
            let notebook = match &mut notebook {
                Some(notebook) => notebook,
                none => none.insert(Notebook::open(&path)?),
            };
            let _ = print(&store(notebook, &run)?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Pairs each result with the log files of fio that follow it. The first file is a result, whatever its name.
fn with_logs(files: &[PathBuf]) -> Vec<(&Path, &[PathBuf])> {
    let is_log = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "log");
    let mut results = Vec::new();
    let mut rest = files;
    while let Some((file, after)) = rest.split_first() {
        let logs = after.iter().position(|file| !is_log(file)).unwrap_or(after.len());
        results.push((file.as_path(), &after[..logs]));
        rest = &after[logs..];
    }
    results
}

/// The runs of a page or of fio's JSON. If there are several, all are parsed once before this returns, so that nothing
/// of a damaged file is stored. The iterator parses each run again, so that only one is in memory.
fn runs_of<'a>(
    file: &'a Path,
    logs: &[PathBuf],
    notebook: &Path,
) -> Result<Box<dyn Iterator<Item = Result<Run, Failure>> + 'a>, Failure> {
    let page = read(
        file,
        BYTES_MAX,
        "is larger than any report: copy the notebook itself and name it with --notebook",
    )?;
    let found = html::embedded(&page, "iodyno-run-");
    if found.is_empty() && fio_results::is_results(&page) {
        return Ok(Box::new([of_fio(file, &page, logs, notebook)].into_iter()));
    }
    let wrong = |why: &str| Failure::input(format!("{}: {why}", file.display()));
    if found.is_empty() {
        return Err(wrong(
            "contains no run: name a page of `iodyno report` made without --without-data, or JSON of fio (--output-format=json+), followed by fio's log files; Markdown, CSV and pictures contain no runs",
        ));
    }
    if !logs.is_empty() {
        return Err(wrong(
            "is a report: only JSON of fio can have log files; import the report alone",
        ));
    }
    if found.len() > RUNS_MAX {
        return Err(wrong(&format!("contains more than {RUNS_MAX} runs, which no report does")));
    }
    if found.len() > 1 {
        for text in &found {
            portable::from_text(text, file)?;
        }
    }
    let found: Vec<String> = found.into_iter().map(Into::into).collect();
    Ok(Box::new(found.into_iter().map(move |text| Ok(portable::from_text(&text, file)?))))
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

/// The jobs of an invocation of fio as one run.
fn of_fio(file: &Path, json: &str, logs: &[PathBuf], notebook: &Path) -> Result<Run, Failure> {
    let mut texts = Vec::new();
    for log in logs {
        let text =
            read(log, LOG_BYTES_MAX, "is too large: set log_avg_msec, so that fio logs averages")?;
        texts.push(LogFile { origin: log.display().to_string(), text });
    }
    let results = fio_results::read(&file.display().to_string(), json, &texts)?;
    drop(texts);
    for words in &results.remarks {
        remark("note", words);
    }
    let run = run_of(results, notebook);
    // Checked as any foreign run is, so that what is stored can be loaded.
    portable::from_text(&portable::to_text(&run)?, file)?;
    Ok(run)
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
