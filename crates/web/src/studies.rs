//! The page of studies. Each study is simulated in the background, one at a time and not during a run, and its page is
//! kept while the server runs. Only the form starts a simulation (POST): an address shows what there is.

use crate::Site;
use crate::http::{JSON, Request, Response};
use crate::pages::{Asked, Frame};
use crate::reports::{links, shown};
use crate::runs::Runs;
use iodyno_page::Document;
use iodyno_ranks::Ranks;
use iodyno_study::{Options, Progress, StudyError, load, page, run, title};
use serde_json::json;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of simulated studies whose pages are kept.
const KEPT_MAX: usize = 6;
/// Time between two looks whether a run has begun, which ends the simulation.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Error message of a simulation that a run ended.
const INTERRUPTED: &str =
    "a run began, which the simulation would disturb: simulate the study again after its end";

impl Asked {
    fn new(name: &str, figure: &str, full: &str) -> Self {
        let figure = figure.trim().to_owned();
        Self { name: name.to_owned(), figure, is_full: !full.is_empty() }
    }

    /// The study that an address names.
    fn of_address(name: &str, request: &Request) -> Self {
        let value = |key| request.values(key).next().unwrap_or_default();
        Self::new(name, &value("figure"), &value("full"))
    }

    /// Address of the study's page.
    fn address(&self) -> String {
        let name: String = form_urlencoded::byte_serialize(self.name.as_bytes()).collect();
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (key, value) in
            [("figure", &*self.figure), ("full", if self.is_full { "1" } else { "" })]
        {
            if !value.is_empty() {
                query.append_pair(key, value);
            }
        }
        let query = query.finish();
        format!("/study/{name}{}{query}", if query.is_empty() { "" } else { "?" })
    }
}

/// A simulation, which may be in progress.
#[derive(Debug)]
struct Job {
    asked: Asked,
    state: Mutex<State>,
    /// Set when a run begins.
    is_disturbing: AtomicBool,
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
    runs: Arc<Runs>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Job {
    fn is_running(&self) -> bool {
        matches!(*lock(&self.state), State::Running(..))
    }

    fn has_failed(&self) -> bool {
        matches!(*lock(&self.state), State::Ended(Err(_)))
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
        let stop = &self.is_disturbing;
        let outcome = run(&study, &options, &Ranks::alone(), stop, &|at| self.progress(at));
        let outcome = outcome.map_err(|e| match e {
            StudyError::Interrupted => INTERRUPTED.to_owned(),
            e => e.to_string(),
        })?;
        Ok(Box::new(page::document(&outcome, &[], made_by)))
    }

    /// Ends the simulation when a run begins.
    fn make_way(&self, runs: &Runs) {
        while self.is_running() && !self.is_disturbing.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_EVERY);
            self.is_disturbing.store(runs.has_running(), Ordering::Relaxed);
        }
    }
}

impl Studies {
    pub(crate) fn new(site: &Site, runs: Arc<Runs>) -> Self {
        let with_title = |name: &String| {
            let title = title(name).unwrap_or_default();
            (name.clone(), title)
        };
        Self {
            made_by: site.made_by.clone(),
            known: site.studies.iter().map(with_title).collect(),
            jobs: Mutex::default(),
            runs,
        }
    }

    /// Starts to simulate a study, unless it is in progress or has a result. A failure is not a result.
    ///
    /// # Errors
    /// A run or another study is in progress.
    fn begin(&self, asked: Asked) -> Result<(), String> {
        let mut jobs = lock(&self.jobs);
        // After a failure it is simulated again.
        jobs.retain(|job| job.asked != asked || !job.has_failed());
        if jobs.iter().any(|job| job.asked == asked) {
            return Ok(());
        }
        if self.runs.has_running() {
            return Err("a run is in progress, which a simulation would disturb: wait for its end"
                .to_owned());
        }
        if let Some(other) = jobs.iter().find(|job| job.is_running()) {
            return Err(format!(
                "the study {} is being simulated: wait for its end",
                other.asked.name
            ));
        }
        let state = Mutex::new(State::Running(0, 0));
        let job = Arc::new(Job { asked, state, is_disturbing: AtomicBool::new(false) });
        jobs.push(Arc::clone(&job));
        if jobs.len() > KEPT_MAX {
            jobs.remove(0);
        }
        let (watched, runs) = (Arc::clone(&job), Arc::clone(&self.runs));
        std::thread::spawn(move || watched.make_way(&runs));
        let (worker, made_by) = (job, self.made_by.clone());
        std::thread::spawn(move || {
            let simulate = || worker.simulate(&made_by);
            let ended = catch_unwind(AssertUnwindSafe(simulate)).unwrap_or_else(|_| {
                Err("the simulation failed because of a bug in iodyno".to_owned())
            });
            *lock(&worker.state) = State::Ended(ended);
        });
        Ok(())
    }

    /// The form that lists the studies, filled in by the address.
    pub(crate) fn form(&self, request: &Request, frame: &Frame) -> Response {
        let name = request.values("study").next().unwrap_or_default();
        frame.studies(&self.known, &Asked::of_address(&name, request))
    }

    /// Starts the study that the form names, and leads to its page.
    pub(crate) fn start(&self, request: &Request, frame: &Frame) -> Response {
        let value = |key| request.form_value(key).unwrap_or_default();
        let asked = Asked::new(&value("study"), &value("figure"), &value("full"));
        if !self.known.iter().any(|known| known.0 == asked.name) {
            return frame.not_found(&unknown(&asked.name));
        }
        let address = asked.address();
        match self.begin(asked) {
            Ok(()) => Response::see_other(address),
            Err(why) => frame.bad_request(&why),
        }
    }

    /// The page of a study: its progress, then its result. Before it was started, the form that starts it.
    pub(crate) fn page(&self, name: &str, request: &Request, frame: &Frame) -> Response {
        let Some((name, title)) = self.known.iter().find(|known| known.0 == name) else {
            return frame.not_found(&unknown(name));
        };
        let asked = Asked::of_address(name, request);
        let job = lock(&self.jobs).iter().find(|job| job.asked == asked).map(Arc::clone);
        let Some(job) = job else { return frame.studies(&self.known, &asked) };
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

fn unknown(name: &str) -> String {
    format!("the catalog has no study `{name}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A study that a run interrupted is simulated again at the next request, also if nobody saw the error.
    #[test]
    fn an_interrupted_study_is_simulated_again() {
        let asked = Asked::new("none", "", "");
        let old = Arc::new(Job {
            asked: asked.clone(),
            state: Mutex::new(State::Ended(Err(INTERRUPTED.to_owned()))),
            is_disturbing: AtomicBool::new(true),
        });
        let studies = Studies {
            made_by: String::new(),
            known: Vec::new(),
            jobs: Mutex::new(vec![Arc::clone(&old)]),
            runs: Runs::new(std::path::Path::new("/none/notebook.sqlite")).unwrap(),
        };
        studies.begin(asked).unwrap();
        let jobs = lock(&studies.jobs);
        assert!(jobs.len() == 1 && !Arc::ptr_eq(&jobs[0], &old), "{jobs:?}");
    }
}
