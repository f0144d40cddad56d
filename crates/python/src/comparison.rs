//! The Python class `Comparison`: the result of comparing runs A and B, as JSON, text or an HTML page.

use crate::error::raised;
use crate::run::{PLAIN, framed, options, parsed};
use iodyno_notebook::Run;
use iodyno_page::html;
use iodyno_report::compare::{self, Compared, Finding, Options, Side};
use iodyno_report::page;
use pyo3::prelude::*;

/// A comparison of runs, as `iodyno compare A B` makes it.
#[pyclass(frozen, module = "iodyno")]
pub(crate) struct Comparison {
    asked: [String; 2],
    runs: [Vec<Run>; 2],
    options: Options,
    finding: Finding,
}

impl Comparison {
    pub(crate) fn new(asked: [String; 2], runs: [Vec<Run>; 2], options: Options) -> PyResult<Self> {
        let mut comparison = Self { asked, runs, options, finding: Finding::Open };
        comparison.finding = comparison.compared()?.finding();
        Ok(comparison)
    }

    fn compared(&self) -> PyResult<Compared<'_>> {
        let side = |at: usize| Side { asked: &self.asked[at], runs: &self.runs[at] };
        compare::compare(side(0), side(1), &self.options).map_err(raised)
    }
}

#[pymethods]
impl Comparison {
    /// `slower`: at least one metric is slower in B. `clear`: all metrics are the same or faster. `open`: neither could
    /// be shown.
    #[getter]
    fn finding(&self) -> &'static str {
        match self.finding {
            Finding::Slower => "slower",
            Finding::Open => "open",
            Finding::Clear => "clear",
        }
    }

    /// The document of `iodyno compare --json` (docs/schema/compare-v1.schema.json).
    fn document<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        parsed(py, &compare::document(&self.compared()?))
    }

    /// The page of `iodyno report A B`, without embedded data.
    fn html(&self) -> PyResult<String> {
        let sides: Vec<&[Run]> = self.runs.iter().map(Vec::as_slice).collect();
        Ok(html::page(&page::comparison(&[self.compared()?], &sides, &options())))
    }

    fn _repr_html_(&self) -> PyResult<String> {
        Ok(framed(&self.html()?))
    }

    fn __str__(&self) -> PyResult<String> {
        Ok(compare::show(&self.compared()?, PLAIN))
    }

    fn __repr__(&self) -> String {
        let [a, b] = &self.asked;
        format!("<iodyno.Comparison of {a} and {b}: {}>", self.finding())
    }
}
