//! The Python class `Notebook`, which loads runs and returns tables of runs, cells, intervals and histograms.

#![expect(clippy::needless_pass_by_value, reason = "pyo3 hands extracted arguments over by value")]

use crate::batch::{Batches, Kind};
use crate::comparison::Comparison;
use crate::error::raised;
use crate::histogram::Histogram;
use crate::run::Run;
use crate::selected_cells::Cells;
use crate::selected_runs::Runs;
use crate::table::Table;
use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use iodyno_measure::Level;
use iodyno_report::compare::Options;
use iodyno_report::{Standing, level_of, listed_result};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Environment variable that names the notebook, as for the command.
const NOTEBOOK_VARIABLE: &str = "IODYNO_NOTEBOOK";
/// Runs that a thread loads, and converts to record batches, at a time.
const RUNS_PER_PART: usize = 32;
/// Maximum number of threads that load runs.
const THREADS_MAX: usize = 8;

/// A notebook: the SQLite file with all runs. Reading it changes nothing.
#[pyclass(frozen, module = "iodyno")]
pub(crate) struct Notebook {
    path: PathBuf,
}

impl Notebook {
    fn open(&self) -> PyResult<iodyno_notebook::Notebook> {
        iodyno_notebook::Notebook::open_existing(&self.path).map_err(raised)
    }

    fn ids(&self, runs: Option<&Runs>) -> PyResult<Vec<String>> {
        match runs.map(Runs::list) {
            Some("") => Ok(Vec::new()),
            list => self.open()?.ids(list).map_err(raised),
        }
    }

    /// Converts runs to a table. Threads with connections of their own load them.
    fn table(&self, py: Python<'_>, runs: Option<&Runs>, kind: Kind) -> PyResult<Table> {
        let schema = kind.schema();
        let batches = py.detach(|| -> PyResult<Vec<RecordBatch>> {
            let ids = self.ids(runs)?;
            let parts: Vec<&[String]> = ids.chunks(RUNS_PER_PART).collect();
            let next = AtomicUsize::new(0);
            let load = || -> PyResult<Vec<(usize, Vec<RecordBatch>)>> {
                let mut made = Vec::new();
                let mut notebook = None;
                while let at = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(part) = parts.get(at)
                {
                    let notebook = match &mut notebook {
                        Some(notebook) => notebook,
                        none => none.insert(self.open()?),
                    };
                    let mut batches = Batches::new(kind);
                    for id in *part {
                        batches.add(&notebook.load(id).map_err(raised)?);
                    }
                    made.push((at, batches.finish(&schema)?));
                }
                Ok(made)
            };
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            let threads = threads.min(THREADS_MAX).min(parts.len());
            let mut made = Vec::new();
            std::thread::scope(|scope| -> PyResult<()> {
                let loaders: Vec<_> = (0..threads).map(|_| scope.spawn(load)).collect();
                for loader in loaders {
                    let failed =
                        |_| raised("the runs could not be loaded: load fewer runs at once");
                    made.extend(loader.join().map_err(failed)??);
                }
                Ok(())
            })?;
            made.sort_by_key(|(at, _)| *at);
            Ok(made.into_iter().flat_map(|(_, batches)| batches).collect())
        })?;
        Ok(Table::new(schema, batches))
    }
}

#[pymethods]
impl Notebook {
    /// Names a notebook; by default that of the command: `$IODYNO_NOTEBOOK`, else `iodyno/notebook.sqlite` in
    /// `$XDG_DATA_HOME` or `~/.local/share`. It need not exist yet.
    #[new]
    #[pyo3(signature = (path=None))]
    fn new(path: Option<PathBuf>) -> PyResult<Self> {
        let variable = std::env::var_os(NOTEBOOK_VARIABLE).filter(|value| !value.is_empty());
        let path = match path.or(variable.map(PathBuf::from)) {
            Some(path) => path,
            None => iodyno_notebook::default_path().map_err(raised)?,
        };
        Ok(Self { path })
    }

    /// Path of the notebook's file, which need not exist.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// The runs, in order of storage: `id`, `started` and `ended` (UTC; None while running or after a crash),
    /// `status`, `reason` (of a failure), `name`, `targets`, `cells`, `level` (most severe verdict; None if nothing was
    /// judged) and `result` (in words).
    fn runs(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| {
            let notebook = self.open()?;
            let list = notebook.list().map_err(raised)?;
            let with_standing = list.into_iter().map(|run| {
                // Only the whole run has its method's result. A run that can't be read is listed without it.
                let whole = if run.has_method { notebook.load(&run.id).ok() } else { None };
                let standing = whole.as_ref().map(Standing::of);
                (run, standing)
            });
            list_table(&with_standing.collect::<Vec<_>>())
        })
    }

    /// One row per run, cell and kind of operation, with the columns of `iodyno export --format csv`. `runs`: a
    /// selector as on the command line, a Run, or a list of these; None for all.
    #[pyo3(signature = (runs=None))]
    fn cells(&self, py: Python<'_>, runs: Option<Runs>) -> PyResult<Table> {
        self.table(py, runs.as_ref(), Kind::Cells)
    }

    /// One row per run, cell, interval and kind of operation, with the columns of `iodyno export --format csv-series`.
    /// `runs`: as for `cells`.
    #[pyo3(signature = (runs=None))]
    fn intervals(&self, py: Python<'_>, runs: Option<Runs>) -> PyResult<Table> {
        self.table(py, runs.as_ref(), Kind::Intervals)
    }

    /// One row per run, cell, kind of operation and latency (`response`; in open loop also `service`), with the
    /// non-empty `buckets` of its histogram: a list of `low_ns`, `width_ns` and `count`. `each_interval`: one row per
    /// interval instead of one for the whole cell. `runs`: as for `cells`.
    #[pyo3(signature = (runs=None, *, each_interval=false))]
    fn histograms(
        &self,
        py: Python<'_>,
        runs: Option<Runs>,
        each_interval: bool,
    ) -> PyResult<Table> {
        self.table(py, runs.as_ref(), Kind::Histograms { each_interval })
    }

    /// The latencies of runs, merged. `cell`, `target` and `kind` (`read`, `write`, `flush`, `trim`, `write_zeroes`)
    /// restrict them; None for all. `latency`: `response`, or `service` without the wait before submission in open
    /// loop.
    #[pyo3(signature = (runs=None, cell=None, *, target=None, kind=None, latency="response"))]
    fn histogram(
        &self,
        py: Python<'_>,
        runs: Option<Runs>,
        cell: Option<&str>,
        target: Option<&str>,
        kind: Option<&str>,
        latency: &str,
    ) -> PyResult<Histogram> {
        let cells = Cells::parse(cell, target, kind, latency)?;
        py.detach(|| {
            let notebook = self.open()?;
            let mut sum = iodyno_measure::Histogram::trimmed();
            let (mut found, mut last) = (false, None);
            for id in self.ids(runs.as_ref())? {
                let run = notebook.load(&id).map_err(raised)?;
                found |= cells.add(&run, &mut sum);
                last = Some(run);
            }
            if !found {
                return Err(cells.none_found(&last.iter().collect::<Vec<_>>()));
            }
            Ok(Histogram { inner: sum })
        })
    }

    /// Loads a run: by its id or the beginning of it, `last`, `last~1` for the one before, or its name.
    #[pyo3(signature = (selector="last"))]
    fn run(&self, py: Python<'_>, selector: &str) -> PyResult<Run> {
        py.detach(|| Run::load(&self.open()?, selector))
    }

    /// Compares runs `b` with runs `a`, as `iodyno compare A B` does. `metrics`: such as `["iops", "p99"]`.
    /// `threshold`: the smallest shift that matters, a fraction of A [0.02].
    #[pyo3(signature = (a, b, *, metrics=None, threshold=None, each_target=false))]
    fn compare(
        &self,
        py: Python<'_>,
        a: Runs,
        b: Runs,
        metrics: Option<Vec<String>>,
        threshold: Option<f64>,
        each_target: bool,
    ) -> PyResult<Comparison> {
        let mut options = Options { each_target, ..Options::default() };
        if let Some(threshold) = threshold {
            if !(threshold > 0.0 && threshold < 1.0) {
                let text =
                    format!("a threshold must be between 0 and 1, such as 0.02, not {threshold}");
                return Err(raised(text));
            }
            options.threshold_share = threshold;
        }
        if let Some(names) = metrics {
            let metrics: Result<Vec<_>, _> = names.iter().map(|name| name.parse()).collect();
            options.metrics = metrics.map_err(raised)?;
        }
        py.detach(|| {
            let notebook = self.open()?;
            let load = |runs: &Runs| notebook.load_several(runs.list()).map_err(raised);
            let sides = [load(&a)?, load(&b)?];
            Comparison::new([a.list().to_owned(), b.list().to_owned()], sides, options)
        })
    }

    fn __repr__(&self) -> String {
        format!("<iodyno.Notebook {}>", self.path.display())
    }
}

/// The table of `Notebook.runs`, one row per run.
fn list_table(runs: &[(iodyno_notebook::RunSummary, Option<Standing>)]) -> PyResult<Table> {
    let text = |values: Vec<Option<String>>| -> ArrayRef {
        Arc::new(values.into_iter().collect::<arrow_array::StringArray>())
    };
    let times = |of: fn(&iodyno_notebook::RunSummary) -> Option<iodyno_notebook::Timestamp>| {
        let values =
            runs.iter().map(|(run, _)| of(run).map(iodyno_notebook::Timestamp::as_millisecond));
        let array: TimestampMillisecondArray = values.collect();
        Arc::new(array.with_timezone("UTC")) as ArrayRef
    };
    let texts = |of: &dyn Fn(&iodyno_notebook::RunSummary, Option<&Standing>) -> Option<String>| {
        text(runs.iter().map(|(run, standing)| of(run, standing.as_ref())).collect())
    };
    let mut targets = ListBuilder::new(StringBuilder::new()).with_field(Field::new(
        "item",
        DataType::Utf8,
        false,
    ));
    for (run, _) in runs {
        for target in &run.targets {
            targets.values().append_value(target);
        }
        targets.append(true);
    }
    let cells = runs.iter().map(|(run, _)| run.cells.len() as u64);
    let time = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let columns: Vec<(&str, DataType, ArrayRef)> = vec![
        ("id", DataType::Utf8, texts(&|run, _| Some(run.id.clone()))),
        ("started", time.clone(), times(|run| Some(run.started))),
        ("ended", time, times(|run| run.ended)),
        ("status", DataType::Utf8, texts(&|run, _| Some(run.status.name().to_owned()))),
        (
            "reason",
            DataType::Utf8,
            texts(&|run, _| match &run.status {
                iodyno_notebook::Status::Failed(reason) => Some(reason.clone()),
                _ => None,
            }),
        ),
        ("name", DataType::Utf8, texts(&|run, _| Some(run.name.clone()))),
        ("targets", DataType::new_list(DataType::Utf8, false), Arc::new(targets.finish())),
        ("cells", DataType::UInt64, Arc::new(cells.collect::<arrow_array::UInt64Array>())),
        (
            "level",
            DataType::Utf8,
            texts(&|run, standing| level_of(run, standing).map(|l: Level| l.name().to_owned())),
        ),
        ("result", DataType::Utf8, texts(&|run, standing| Some(listed_result(run, standing)))),
    ];
    let fields: Vec<Field> =
        columns.iter().map(|(name, kind, _)| Field::new(*name, kind.clone(), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let arrays = columns.into_iter().map(|(_, _, array)| array).collect();
    let batch = RecordBatch::try_new(schema.clone(), arrays).map_err(raised)?;
    Ok(Table::new(schema, vec![batch]))
}
