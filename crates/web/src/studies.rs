//! The page of studies. Each study is simulated in the background, one at a time, and its page is kept while the
//! server runs.

use crate::Site;
use crate::http::{JSON, Request, Response};
use crate::pages::Frame;
use crate::reports::{links, shown};
use iodyno_page::Document;
use iodyno_ranks::Ranks;
use iodyno_study::{Options, Progress, load, page, run, title};
use serde_json::json;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of simulated studies whose pages are kept.
const KEPT_MAX: usize = 6;

/// A study to simulate.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    name: String,
    /// Name of the paper's table or figure to simulate; empty: all of them.
    figure: String,
    /// Whether to simulate all operations instead of a tenth.
    is_full: bool,
}

/// A simulation, which may be in progress.
#[derive(Debug)]
struct Job {
    asked: Asked,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// Number of simulated cells, and of all cells.
    Running(usize, usize),
    Ended(Result<Box<Document>, String>),
}

#[derive(Debug)]
pub(crate) struct Studies {
    made_by: String,
    /// Name and title of each study in the catalog.
    pub(crate) known: Vec<(String, String)>,
    /// Simulations whose results are kept, the latest last. Lock order: this list before the state of a job.
    jobs: Mutex<Vec<Arc<Job>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Job {
    fn is_running(&self) -> bool {
        matches!(*lock(&self.state), State::Running(..))
    }

    fn progress(&self, progress: Progress) {
        let mut state = lock(&self.state);
        if let State::Running(done, all) = &mut *state {
            (*done, *all) = (progress.cells, progress.cells_total);
        }
    }

    fn simulate(&self, made_by: &str) -> Result<Box<Document>, String> {
        let Asked { name, figure, is_full } = &self.asked;
        let mut study = load(name).map_err(|problem| problem.to_string())?;
        if !figure.is_empty() {
            study.only(std::slice::from_ref(figure))?;
        }
        let options = if *is_full { Options::FULL } else { Options::QUICK };
        let never = AtomicBool::new(false);
        let outcome = run(&study, &options, &Ranks::alone(), &never, &|at| self.progress(at));
        let outcome = outcome.map_err(|e| e.to_string())?;
        Ok(Box::new(page::document(&outcome, &[], made_by)))
    }
}

impl Studies {
    pub(crate) fn new(site: &Site) -> Self {
        let with_title = |name: &String| {
            let title = title(name).unwrap_or_default();
            (name.clone(), title)
        };
        Self {
            made_by: site.made_by.clone(),
            known: site.studies.iter().map(with_title).collect(),
            jobs: Mutex::default(),
        }
    }

    fn asked(name: &str, request: &Request) -> Asked {
        let value = |key| request.values(key).next().unwrap_or_default().trim().to_owned();
        Asked { name: name.to_owned(), figure: value("figure"), is_full: !value("full").is_empty() }
    }

    /// Returns the job that simulates a study. Starts a job unless there is one in progress or with a result. `is_busy`
    /// says whether a run is in progress, which a simulation would disturb.
    ///
    /// # Errors
    /// A run or another study is in progress.
    fn job(&self, asked: Asked, is_busy: impl Fn() -> bool) -> Result<Arc<Job>, String> {
        let mut jobs = lock(&self.jobs);
        if let Some(job) = jobs.iter().find(|job| job.asked == asked) {
            return Ok(Arc::clone(job));
        }
        if is_busy() {
            return Err("a run is in progress, which a simulation would disturb: wait for its end"
                .to_owned());
        }
        if let Some(other) = jobs.iter().find(|job| job.is_running()) {
            return Err(format!(
                "the study {} is being simulated: wait for its end",
                other.asked.name
            ));
        }
        let job = Arc::new(Job { asked, state: Mutex::new(State::Running(0, 0)) });
        jobs.push(Arc::clone(&job));
        if jobs.len() > KEPT_MAX {
            jobs.remove(0);
        }
        let (worker, made_by) = (Arc::clone(&job), self.made_by.clone());
        std::thread::spawn(move || {
            let simulate = || worker.simulate(&made_by);
            let ended = catch_unwind(AssertUnwindSafe(simulate)).unwrap_or_else(|_| {
                Err("the simulation failed because of a bug in iodyno".to_owned())
            });
            *lock(&worker.state) = State::Ended(ended);
        });
        Ok(job)
    }

    /// The form that lists the studies. If the form was sent, redirects to the page of the chosen study.
    pub(crate) fn form(&self, request: &Request, frame: &Frame) -> Response {
        match request.values("study").next() {
            Some(name) if !name.is_empty() => {
                let name: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
                Response::see_other(format!("/study/{name}?{}", request.query))
            }
            _ => frame.studies(&self.known),
        }
    }

    /// The page of a study: its progress, then its result.
    pub(crate) fn page(
        &self,
        name: &str,
        request: &Request,
        frame: &Frame,
        is_busy: impl Fn() -> bool,
    ) -> Response {
        let Some((name, title)) = self.known.iter().find(|known| known.0 == name) else {
            return frame.not_found(&format!("the catalog has no study `{name}`"));
        };
        let job = match self.job(Self::asked(name, request), is_busy) {
            Ok(job) => job,
            Err(why) => return frame.bad_request(&why),
        };
        let failed = match &*lock(&job.state) {
            State::Running(done, all) => return frame.study_progress(title, *done, *all),
            State::Ended(Ok(document)) => {
                let mut document = Document::clone(document);
                document.links = links();
                document.links.push(("Studies".to_owned(), "/study".to_owned()));
                return shown(&document);
            }
            State::Ended(Err(why)) => why.clone(),
        };
        // It may be tried again.
        lock(&self.jobs).retain(|known| !Arc::ptr_eq(known, &job));
        frame.bad_request(&failed)
    }

    /// Progress of the study that is simulated now; an empty object if there is none.
    pub(crate) fn progress(&self) -> Response {
        let running = lock(&self.jobs).iter().find_map(|job| match &*lock(&job.state) {
            State::Running(done, all) => Some(json!({ "cells": done, "cells_total": all })),
            State::Ended(_) => None,
        });
        Response::ok(JSON, running.unwrap_or_else(|| json!({})).to_string())
    }
}
