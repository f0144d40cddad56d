//! Pages of this crate: the common frame with links, the list of runs, and messages. The templates in `templates/`
//! escape every value.

use crate::Site;
use crate::forms::{Form, Shown};
use crate::http::{HTML, Response};
use crate::runs::{Line, Listing};
use askama::Template;
use iodyno_notebook::{ANNOTATION_CHARS_MAX, Error};
use iodyno_units::human;
use iodyno_units::text::clean;

/// Number of runs in the list as the server sends it. The page's script adds the others.
const FIRST_LINES: usize = 100;

/// Maximum number of runs in a comparison.
pub(crate) const COMPARED_MAX: usize = 12;

/// A study to simulate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) name: String,
    /// Name of the paper's table or figure to simulate; empty: all of them.
    pub(crate) figure: String,
    /// Whether to simulate all operations instead of a tenth.
    pub(crate) is_full: bool,
}

/// Common content of all pages.
#[derive(Debug)]
pub(crate) struct Frame {
    made_by: String,
    notebook: String,
    /// Whether the page may change something.
    pub(crate) allow_run: bool,
    /// Whether there is a page of served storage.
    has_served: bool,
}

#[derive(Template)]
#[template(path = "runs.html")]
struct RunsPage<'a> {
    frame: &'a Frame,
    /// Whether the address asks for runs in progress only.
    are_running: bool,
    count: Count,
    lines: Vec<&'a Line>,
    /// Maximum number of runs in a comparison.
    compared_max: usize,
}

/// Number of runs, as a number and as text such as `10,000 runs`.
struct Count {
    number: usize,
    words: String,
}

#[derive(Template)]
#[template(path = "live.html")]
struct LivePage<'a> {
    frame: &'a Frame,
    id: &'a str,
    name: &'a str,
}

#[derive(Template)]
#[template(path = "studies.html")]
struct StudiesPage<'a> {
    frame: &'a Frame,
    studies: &'a [(String, String)],
    /// Values of the fields.
    asked: &'a Asked,
}

#[derive(Template)]
#[template(path = "study_progress.html")]
struct StudyProgressPage<'a> {
    frame: &'a Frame,
    title: &'a str,
    words: &'a str,
}

#[derive(Template)]
#[template(path = "form.html")]
pub(crate) struct FormPage<'a> {
    pub(crate) frame: &'a Frame,
    pub(crate) form: &'a Form,
    pub(crate) fields: Vec<Shown>,
    /// Command line that answers the form; empty for an empty form.
    pub(crate) command: &'a str,
    /// Output of the command; empty if it failed.
    pub(crate) answer: &'a str,
    /// Reason why there is no answer; empty if there is one.
    pub(crate) error: &'a str,
}

impl FormPage<'_> {
    pub(crate) fn response(&self) -> Response {
        rendered(if self.error.is_empty() { "200 OK" } else { "400 Bad Request" }, self)
    }
}

/// The page of a server of emulated storage.
#[derive(Template)]
#[template(path = "served.html")]
pub(crate) struct ServedPage<'a> {
    pub(crate) frame: &'a Frame,
    /// Control sockets of all servers.
    pub(crate) names: Vec<String>,
    /// Index in `names` of the server that the page shows.
    pub(crate) number: usize,
    /// Status of the server, as text.
    pub(crate) text: &'a str,
    /// Examples of faults, with their effects.
    pub(crate) faults: Vec<(String, &'static str)>,
    /// The fault that the form requested; empty if none was.
    pub(crate) fault: &'a str,
    /// The server's response to `fault`; empty if no fault was requested.
    pub(crate) said: &'a str,
    pub(crate) is_error: bool,
}

impl ServedPage<'_> {
    pub(crate) fn response(&self) -> Response {
        rendered(if self.is_error { "409 Conflict" } else { "200 OK" }, self)
    }
}

#[derive(Template)]
#[template(path = "annotation.html")]
struct AnnotationPage<'a> {
    frame: &'a Frame,
    id: &'a str,
    text: &'a str,
    chars_max: usize,
}

#[derive(Template)]
#[template(path = "message.html")]
struct MessagePage<'a> {
    frame: &'a Frame,
    title: &'a str,
    text: &'a str,
    /// Whether the page has a form for the token.
    asks: bool,
}

impl Frame {
    pub(crate) fn new(site: &Site) -> Self {
        let notebook = clean(&site.notebook.display().to_string()).into_owned();
        Self {
            made_by: site.made_by.clone(),
            notebook,
            allow_run: site.allow_run,
            has_served: !site.controls.is_empty(),
        }
    }

    pub(crate) fn runs(&self, listing: &Listing, are_running: bool) -> Response {
        let lines = listing.lines.iter().rev().take(FIRST_LINES).collect();
        let number = listing.lines.len();
        let count = Count { number, words: human::counted(number as u64, "run") };
        rendered(
            "200 OK",
            &RunsPage { frame: self, are_running, count, lines, compared_max: COMPARED_MAX },
        )
    }

    /// The page of a run in progress.
    pub(crate) fn live(&self, id: &str, name: &str) -> Response {
        rendered("200 OK", &LivePage { frame: self, id, name: &clean(name) })
    }

    /// The form that starts a study. `studies` are names and titles; `asked` fills in the fields.
    pub(crate) fn studies(&self, studies: &[(String, String)], asked: &Asked) -> Response {
        rendered("200 OK", &StudiesPage { frame: self, studies, asked })
    }

    /// The page of a study in progress. `done` of `all` cells are simulated.
    pub(crate) fn study_progress(&self, title: &str, done: usize, all: usize) -> Response {
        let words = if all == 0 { "it begins".to_owned() } else { format!("cell {done} of {all}") };
        rendered("200 OK", &StudyProgressPage { frame: self, title, words: &words })
    }

    pub(crate) fn annotation(&self, id: &str, text: &str) -> Response {
        rendered(
            "200 OK",
            &AnnotationPage { frame: self, id, text, chars_max: ANNOTATION_CHARS_MAX },
        )
    }

    /// The link to the form for a run's annotation; `None` if the page may change nothing.
    pub(crate) fn annotate_link(&self, id: &str) -> Option<(String, String)> {
        self.allow_run.then(|| ("Annotate".to_owned(), format!("/runs/{id}/annotation")))
    }

    pub(crate) fn not_found(&self, why: &str) -> Response {
        self.message("404 Not Found", "Not found", why)
    }

    pub(crate) fn bad_request(&self, why: &str) -> Response {
        self.message("400 Bad Request", "Invalid request", why)
    }

    pub(crate) fn conflict(&self, why: &str) -> Response {
        self.message("409 Conflict", "This can't be done", why)
    }

    pub(crate) fn refused(&self, why: &str) -> Response {
        self.message("403 Forbidden", "Refused", why)
    }

    /// A page that asks for the token.
    pub(crate) fn token_form(&self) -> Response {
        let text = "The command that serves this page printed an address with a token. Open that address, or enter the token.";
        let title = "This page needs a token";
        rendered("401 Unauthorized", &MessagePage { frame: self, title, text, asks: true })
            .with("WWW-Authenticate", "Bearer")
    }

    pub(crate) fn notebook_error(&self, e: &Error) -> Response {
        let text = e.to_string();
        match e {
            Error::UnknownRun { .. } | Error::NoRuns { .. } | Error::Missing { .. } => {
                self.not_found(&text)
            }
            Error::AmbiguousRun { .. } | Error::AmbiguousName { .. } => self.bad_request(&text),
            _ => self.message("500 Internal Server Error", "The notebook can't be read", &text),
        }
    }

    fn message(&self, status: &'static str, title: &str, text: &str) -> Response {
        let text = clean(text);
        rendered(status, &MessagePage { frame: self, title, text: &text, asks: false })
    }
}

fn rendered(status: &'static str, page: &impl Template) -> Response {
    let page = page.render().expect("templates write into strings, which cannot fail");
    Response::new(status, HTML, page)
}
