//! Pages of runs and comparisons: documents of the crate `report`, with links to the other pages.

use crate::Site;
use crate::http::{HTML, JSON, Request, Response};
use crate::pages::{COMPARED_MAX, Frame};
use iodyno_measure::Metric;
use iodyno_notebook::{Error, Notebook, Run, Status};
use iodyno_page::{Document, Views, html};
use iodyno_report::compare::{self, Options as Criteria, Side};
use iodyno_report::history::{self, History, LeftOut};
use iodyno_report::json;
use iodyno_report::page::{self, Options};
use iodyno_units::text::for_shell;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Content security policy of a report. It adds to the policy in the report's own `meta` element, which names the
/// hashes of scripts and styles.
const POLICY: &str =
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; connect-src 'none'";
/// Maximum number of time-series intervals per run in a report. Longer series are coarsened when read.
const INTERVALS_MAX: u64 = 100_000;

/// Maximum number of runs in a history. Older runs are left out.
const HISTORY_MAX: u32 = 500;
/// Metrics that the history page offers.
const METRICS: [&str; 4] = ["iops", "bandwidth", "mean", "p99"];

/// Builds the pages of runs, comparisons and histories.
#[derive(Debug)]
pub(crate) struct Reports {
    notebook: PathBuf,
    made_by: String,
    /// Held while a page is made, because loading a run may take hundreds of megabytes of memory.
    one_at_a_time: Mutex<()>,
}

/// Ids of the runs to compare: values of `runs`, separated by commas.
pub(crate) fn ids(request: &Request) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for value in request.values("runs") {
        for id in value.split(',').filter(|id| !id.is_empty()) {
            if !ids.iter().any(|known| known == id) {
                ids.push(id.to_owned());
            }
        }
    }
    ids
}

impl Reports {
    pub(crate) fn new(site: &Site) -> Self {
        let (notebook, made_by) = (site.notebook.clone(), site.made_by.clone());
        Self { notebook, made_by, one_at_a_time: Mutex::default() }
    }

    fn alone(&self) -> MutexGuard<'_, ()> {
        self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn load(&self, selector: &str, alone: bool) -> Result<Run, Error> {
        let notebook = Notebook::open_existing(&self.notebook)?;
        // A full id, so that a name never selects several runs.
        let id = notebook.find_id(selector)?;
        let mut runs = notebook.load_several_merged(&id, Some(INTERVALS_MAX), alone)?;
        runs.pop().ok_or(Error::UnknownRun { selector: id, path: self.notebook.clone() })
    }

    fn options(&self, without_data: bool) -> Options {
        Options { made_by: self.made_by.clone(), without_data, ..Options::default() }
    }

    /// The page of a run. Redirects to the run's permanent address if the selector is not the whole id, such as `last`.
    pub(crate) fn run(&self, selector: &str, frame: &Frame) -> Response {
        let _guard = self.alone();
        let run = match self.load(selector, true) {
            Ok(run) => run,
            Err(e) => return frame.notebook_error(&e),
        };
        if run.id != selector {
            return Response::see_other(format!("/runs/{}", run.id));
        }
        let mut document = page::document(&run, &self.options(true));
        document.links = links();
        if run.status == Status::Running {
            document.links.push(("Live".to_owned(), format!("/live/{}", run.id)));
        }
        document
            .links
            .push(("Save as one file".to_owned(), format!("/runs/{}/report.html", run.id)));
        document.links.push(("JSON".to_owned(), format!("/runs/{}/run.json", run.id)));
        document.links.push(("History".to_owned(), format!("/history/{}", run.id)));
        document.links.extend(frame.annotate_link(&run.id));
        shown(&document)
    }

    /// Returns the whole id of a run, and its annotation; empty if the run has none.
    pub(crate) fn annotation(&self, selector: &str) -> Result<(String, String), Error> {
        let _guard = self.alone();
        let run = self.load(selector, true)?;
        Ok((run.id, run.annotation.unwrap_or_default()))
    }

    /// The report of a run as a file that stands alone and contains the run.
    pub(crate) fn file(&self, selector: &str, frame: &Frame) -> Response {
        let _guard = self.alone();
        match self.load(selector, true) {
            Ok(run) => {
                let name = format!("attachment; filename=\"iodyno-{}.html\"", run.id);
                shown(&page::document(&run, &self.options(false))).with("Content-Disposition", name)
            }
            Err(e) => frame.notebook_error(&e),
        }
    }

    /// The JSON document of a run.
    pub(crate) fn data(&self, selector: &str, frame: &Frame) -> Response {
        let _guard = self.alone();
        match self.load(selector, true) {
            Ok(run) => {
                let document = json::document(&run, json::Options { series: true });
                Response::ok(JSON, document.to_string())
            }
            Err(e) => frame.notebook_error(&e),
        }
    }

    /// The history of a run's workloads: one metric over all runs with the same workloads and targets.
    pub(crate) fn history(&self, selector: &str, request: &Request, frame: &Frame) -> Response {
        let asked = request.values("metric").next();
        let metric: Metric = match asked.as_deref().unwrap_or("iops").parse() {
            Ok(metric) => metric,
            Err(why) => return frame.bad_request(&format!("metric: {why}")),
        };
        let _guard = self.alone();
        let made = Notebook::open_existing(&self.notebook).and_then(|notebook| {
            let ids = notebook.of_same_work(selector, None, HISTORY_MAX)?;
            let run = notebook.load(selector)?;
            let name = work(&run);
            let mut history = History::new(&name, metric);
            let runs = notebook.list()?;
            if let Some(of) = runs.iter().find(|of| of.id == run.id) {
                history.left_out =
                    LeftOut { other_workloads: 0, ..LeftOut::of(&runs, of, None, ids.len()) };
            }
            let on = match run.head.targets.as_slice() {
                [target] => format!(" --on {}", for_shell(&target.name)),
                _ => String::new(),
            };
            for id in ids {
                history.add(&notebook.load(&id)?);
            }
            Ok((format!("{}{on}", for_shell(&name)), history))
        });
        let (words, history) = match made {
            Ok(made) => made,
            Err(e) => return frame.notebook_error(&e),
        };
        let command = format!("iodyno history {words} --metric {metric}");
        let mut document = history::document(&history, &self.made_by, &command);
        document.links = links();
        document.links.push((format!("Run {selector}"), format!("/runs/{selector}")));
        document.links.extend(frame.annotate_link(selector));
        let metric = metric.to_string();
        let mut metrics = METRICS.to_vec();
        if !metrics.contains(&&*metric) {
            metrics.push(&metric);
        }
        let address = |name: &str| format!("/history/{selector}?metric={name}");
        document.views = Some(Views {
            label: "Metric".to_owned(),
            links: metrics.iter().map(|name| ((*name).to_owned(), address(name))).collect(),
            current: metrics.iter().position(|name| *name == metric).unwrap_or(0),
        });
        shown(&document)
    }

    /// Compares runs with the first of them.
    pub(crate) fn compare(&self, ids: &[String], frame: &Frame) -> Response {
        if !(2..=COMPARED_MAX).contains(&ids.len()) {
            return frame.bad_request(&format!(
                "a comparison has 2 to {COMPARED_MAX} runs, but the address names {}: tick 2 to {COMPARED_MAX} in the list of runs",
                ids.len()
            ));
        }
        let _guard = self.alone();
        let runs: Result<Vec<Run>, Error> = ids.iter().map(|id| self.load(id, false)).collect();
        let runs = match runs {
            Ok(runs) => runs,
            Err(e) => return frame.notebook_error(&e),
        };
        let sides: Vec<&[Run]> = runs.iter().map(std::slice::from_ref).collect();
        let criteria = Criteria::default();
        let side = |at: usize| Side { asked: &ids[at], runs: sides[at] };
        let parts = (1..sides.len()).map(|at| compare::compare(side(0), side(at), &criteria));
        let parts: Vec<_> = match parts.collect::<Result<_, _>>() {
            Ok(parts) => parts,
            Err(why) => return frame.bad_request(&why),
        };
        let mut document = page::comparison(&parts, &sides, &self.options(true));
        document.links = links();
        for run in &runs {
            document.links.push((format!("Run {}", run.id), format!("/runs/{}", run.id)));
        }
        shown(&document)
    }
}

/// The workload of a run, or its name if it has several.
fn work(run: &Run) -> String {
    match run.head.workloads.as_slice() {
        [workload] => workload.name.clone(),
        _ => run.head.name.clone(),
    }
}

/// Links to pages other than those of a run.
pub(crate) fn links() -> Vec<(String, String)> {
    vec![("All runs".to_owned(), "/".to_owned())]
}

/// Renders a document as a page with [`POLICY`].
pub(crate) fn shown(document: &Document) -> Response {
    Response::ok(HTML, html::page(document)).with("Content-Security-Policy", POLICY)
}
