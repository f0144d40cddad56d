//! The Python class `Run`: one run, as loaded from a notebook.

use crate::batch::{Kind, table_of};
use crate::error::raised;
use crate::histogram::Histogram;
use crate::selected_cells::Cells;
use crate::table::{Table, utc};
use iodyno_page::html;
use iodyno_page::terminal::Style;
use iodyno_report::{json, page, terminal};
use pyo3::prelude::*;
use std::sync::Arc;

/// Style of texts that Python prints.
pub(crate) const PLAIN: Style = Style { color: false, width: 100, unicode: true };

/// A run, as it was when it was loaded.
#[pyclass(frozen, module = "iodyno")]
pub(crate) struct Run {
    pub(crate) inner: Arc<iodyno_notebook::Run>,
}

/// Converts a JSON document to Python objects such as `dict` and `list`.
pub(crate) fn parsed<'py>(
    py: Python<'py>,
    document: &serde_json::Value,
) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (document.to_string(),))
}

/// A page in a frame, so that its style and that of a Jupyter notebook do not mix.
pub(crate) fn framed(page: &str) -> String {
    let escaped = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<iframe srcdoc=\"{escaped}\" sandbox=\"allow-scripts\" style=\"width:100%;height:40em;border:0;resize:vertical\"></iframe>"
    )
}

pub(crate) fn options() -> page::Options {
    let made_by = format!("iodyno {}", env!("CARGO_PKG_VERSION"));
    page::Options { made_by, without_data: true, ..page::Options::default() }
}

#[pymethods]
impl Run {
    /// Id: ten characters, unique in the notebook.
    #[getter]
    fn id(&self) -> &str {
        &self.inner.id
    }

    /// Name of the workload or method, as given.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.head.name
    }

    /// Names of the run's targets, in canonical form.
    #[getter]
    fn targets(&self) -> Vec<&str> {
        self.inner.head.targets.iter().map(|target| target.name.as_str()).collect()
    }

    /// Start, as a datetime in UTC.
    #[getter]
    fn started<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        utc(py, self.inner.started.as_millisecond())
    }

    /// `running`, `finished`, `interrupted`, `failed` or `crashed`.
    #[getter]
    fn status(&self) -> &str {
        self.inner.status.name()
    }

    /// Gravest verdict: `valid`, `note`, `warning` or `invalid`. None if nothing was judged.
    #[getter]
    fn level(&self) -> Option<&'static str> {
        iodyno_report::RunVerdict::of(&self.inner).level.map(iodyno_measure::Level::name)
    }

    /// The cells of the run, with the columns of `Notebook.cells`.
    fn cells(&self) -> PyResult<Table> {
        table_of(Kind::Cells, &self.inner)
    }

    /// The intervals of the run, with the columns of `Notebook.intervals`.
    fn intervals(&self) -> PyResult<Table> {
        table_of(Kind::Intervals, &self.inner)
    }

    /// The histograms of the run, with the columns of `Notebook.histograms`. `each_interval`: one row per interval
    /// instead of one for the whole cell.
    #[pyo3(signature = (*, each_interval=false))]
    fn histograms(&self, each_interval: bool) -> PyResult<Table> {
        table_of(Kind::Histograms { each_interval }, &self.inner)
    }

    /// The latencies of one cell, or of all cells merged. See `Notebook.histogram`.
    #[pyo3(signature = (cell=None, *, target=None, kind=None, latency="response"))]
    fn histogram(
        &self,
        cell: Option<&str>,
        target: Option<&str>,
        kind: Option<&str>,
        latency: &str,
    ) -> PyResult<Histogram> {
        let cells = Cells::parse(cell, target, kind, latency)?;
        let mut sum = iodyno_measure::Histogram::trimmed();
        if !cells.add(&self.inner, &mut sum) {
            return Err(cells.none_found(&[&self.inner]));
        }
        Ok(Histogram { inner: sum })
    }

    /// The document of `iodyno show --json`; with `series`, that of `iodyno show --json --series`. Its schema is
    /// docs/schema/run-v1.schema.json.
    #[pyo3(signature = (*, series=false))]
    fn document<'py>(&self, py: Python<'py>, series: bool) -> PyResult<Bound<'py, PyAny>> {
        parsed(py, &json::document(&self.inner, json::Options { series }))
    }

    /// The page of `iodyno report`, without embedded data.
    fn html(&self) -> String {
        html::page(&page::document(&self.inner, &options()))
    }

    fn _repr_html_(&self) -> String {
        framed(&self.html())
    }

    fn __str__(&self) -> String {
        terminal::show(&self.inner, terminal::Detail::default(), PLAIN)
    }

    fn __repr__(&self) -> String {
        let run = &self.inner;
        format!("<iodyno.Run {}: {} on {}>", run.id, run.head.name, self.targets().join(", "))
    }
}

impl Run {
    pub(crate) fn load(notebook: &iodyno_notebook::Notebook, selector: &str) -> PyResult<Self> {
        Ok(Self { inner: Arc::new(notebook.load(selector).map_err(raised)?) })
    }
}
