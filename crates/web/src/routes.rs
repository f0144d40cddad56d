//! Maps a request to its response: checks access, then builds the page that the path names.

use crate::access::{self, Access, Decision, without_token};
use crate::forms::{self, Forms};
use crate::http::{self, JSON, Method, Refusal, Request, Response, TEXT};
use crate::live::Live;
use crate::pages::{FormPage, Frame, ServedPage};
use crate::reports::{self, Reports};
use crate::runs::Runs;
use crate::served::{self, Served};
use crate::studies::Studies;
use crate::{Site, stop};
use iodyno_live::fault_command::examples_with_effects;
use iodyno_notebook::{Notebook, Status, check_annotation, check_name};
use std::io;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

/// Policy of this crate's own pages: they load scripts, styles and data from this server alone.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// Files that pages load: path, content type, content.
const ASSETS: [(&str, &str, &str); 5] = [
    ("/assets/web.css", STYLE, include_str!("../assets/web.css")),
    ("/assets/runs.js", SCRIPT, include_str!("../assets/runs.js")),
    ("/assets/live.js", SCRIPT, include_str!("../assets/live.js")),
    ("/assets/study.js", SCRIPT, include_str!("../assets/study.js")),
    ("/assets/served.js", SCRIPT, include_str!("../assets/served.js")),
];
/// Path of the style that pages share with reports.
const PAGE_STYLE: &str = "/assets/page.css";
/// Path of the script for numbers that pages share with reports.
const NUMBERS_SCRIPT: &str = "/assets/scales.js";

/// A server's state, shared by the threads of its connections.
#[derive(Debug)]
pub(crate) struct Server {
    access: Access,
    frame: Frame,
    notebook: PathBuf,
    runs: Arc<Runs>,
    reports: Reports,
    live: Live,
    served: Served,
    forms: Forms,
    studies: Studies,
}

impl Server {
    pub(crate) fn new(site: &Site, access: Access) -> io::Result<Self> {
        let runs = Runs::new(&site.notebook)?;
        Ok(Self {
            access,
            frame: Frame::new(site),
            notebook: site.notebook.clone(),
            studies: Studies::new(site, Arc::clone(&runs)),
            runs,
            reports: Reports::new(site),
            live: Live::new(&site.notebook),
            served: Served::new(&site.controls),
            forms: Forms::new(site),
        })
    }

    /// Reads one request from a connection, and answers it.
    pub(crate) fn answer(&self, stream: &TcpStream) -> io::Result<()> {
        match http::read(stream) {
            Ok(request) => self.respond(&request).send(stream, Some(&request)),
            Err(Refusal::Status(status, why)) => {
                Response::new(status, TEXT, format!("{why}\n")).send(stream, None)
            }
            Err(Refusal::Broken(e)) => Err(e),
        }
    }

    fn respond(&self, request: &Request) -> Response {
        let response = match self.access.decide(request) {
            Decision::Granted => self.granted(request),
            Decision::KeepToken { cookie } => {
                Response::see_other(without_token(request)).with("Set-Cookie", cookie)
            }
            Decision::NeedsToken => match style(&request.path) {
                Some(style) => style,
                None => self.frame.token_form(),
            },
            Decision::Refused(why) => self.frame.refused(why),
        };
        let has_policy = response.fields.iter().any(|field| field.0 == "Content-Security-Policy");
        if has_policy { response } else { response.with("Content-Security-Policy", POLICY) }
    }

    fn granted(&self, request: &Request) -> Response {
        if let Some(asset) = style(&request.path).or_else(|| asset(&request.path)) {
            return asset;
        }
        let parts: Vec<&str> = request.path.split('/').skip(1).collect();
        match (request.method, parts.as_slice()) {
            (Method::Get, [""]) => self.list(request),
            (Method::Get, ["runs.json"]) => self.list_data(request),
            (Method::Get, ["runs", id]) => self.reports.run(id, &self.frame),
            (Method::Get, ["runs", id, "report.html"]) => self.reports.file(id, &self.frame),
            (Method::Get, ["runs", id, "run.json"]) => self.reports.data(id, &self.frame),
            (Method::Get, ["runs", id, "annotation"]) => self.annotation(id),
            (Method::Get, ["history", id]) => self.reports.history(id, request, &self.frame),
            (Method::Get, ["compare"]) => {
                let ids = reports::ids(request);
                self.reports.compare(&ids, &self.frame)
            }
            (Method::Get, ["live", id]) => self.live(id),
            (Method::Get, ["live", id, "data.json"]) => self.live_data(id, request),
            (Method::Get, ["served", number]) => self.served(number, None),
            (Method::Get, ["served", number, "status.json"]) => match self.served.socket(number) {
                Some(socket) => Response::ok(JSON, served::status(socket).to_string()),
                None => self.nowhere(),
            },
            (Method::Get, ["study"]) => self.studies.form(request, &self.frame),
            (Method::Post, ["study"]) => self.studies.start(request, &self.frame),
            (Method::Get, ["study", "progress.json"]) => self.studies.progress(),
            (Method::Get, ["study", name]) => self.studies.page(name, request, &self.frame),
            (Method::Get, [name]) if Forms::find(name).is_some() => self.form(name, request),
            (Method::Post, _) if !self.frame.allow_run => self
                .frame
                .refused("this page is read-only: start `iodyno web --allow-run` to make changes"),
            (Method::Post, ["live", id, "stop"]) => self.stop(id),
            (Method::Post, ["live", id, "name"]) => self.rename(id, request),
            (Method::Post, ["runs", id, "annotation"]) => self.annotate(id, request),
            (Method::Post, ["served", number]) => {
                self.served(number, request.form_value("fault").as_deref())
            }
            _ => self.nowhere(),
        }
    }

    fn nowhere(&self) -> Response {
        self.frame.not_found("there is no page at this address")
    }

    /// The live page of a run in progress. Redirects to the report of a run that has ended.
    fn live(&self, id: &str) -> Response {
        match self.live.progress(id) {
            Ok(of) if of.status == Status::Running && of.id == id => self.frame.live(id, &of.name),
            Ok(of) => Response::see_other(format!("/runs/{}", of.id)),
            Err(e) => self.frame.notebook_error(&e),
        }
    }

    fn live_data(&self, id: &str, request: &Request) -> Response {
        let from = request.values("from").next().and_then(|text| text.parse().ok()).unwrap_or(0);
        match self.live.data(id, from) {
            Ok(data) => Response::ok(JSON, data.to_string()),
            Err(e) => Response::new("404 Not Found", TEXT, e.to_string()),
        }
    }

    fn stop(&self, id: &str) -> Response {
        match stop::stop(&self.notebook, id) {
            Ok(()) => Response::see_other(format!("/live/{id}")),
            Err(why) => self.frame.conflict(&why),
        }
    }

    fn rename(&self, id: &str, request: &Request) -> Response {
        let name = request.form_value("name").unwrap_or_default();
        if let Err(why) = check_name(&name) {
            return self.frame.bad_request(&why);
        }
        // Names group runs in comparisons and histories: those of ended runs stay.
        let id = match self.live.progress(id) {
            Ok(of) if of.status == Status::Running => of.id,
            Ok(_) => return self.frame.conflict("the run has ended, so its name can't change"),
            Err(e) => return self.frame.notebook_error(&e),
        };
        match Notebook::open(&self.notebook).and_then(|notebook| notebook.rename(&id, &name)) {
            Ok(()) => Response::see_other(format!("/live/{id}")),
            Err(e) => self.frame.notebook_error(&e),
        }
    }

    fn annotation(&self, id: &str) -> Response {
        match self.reports.annotation(id) {
            Ok((id, text)) => self.frame.annotation(&id, &text),
            Err(e) => self.frame.notebook_error(&e),
        }
    }

    fn annotate(&self, id: &str, request: &Request) -> Response {
        let Some(text) = request.form_value("text") else {
            return self.frame.bad_request("the field `text` is missing");
        };
        let text = (!text.is_empty()).then_some(&*text);
        if let Some(Err(why)) = text.map(check_annotation) {
            return self.frame.bad_request(&why);
        }
        match Notebook::open(&self.notebook).and_then(|notebook| notebook.annotate(id, text)) {
            Ok(()) => Response::see_other(format!("/history/{id}")),
            Err(e) => self.frame.notebook_error(&e),
        }
    }

    fn form(&self, name: &str, request: &Request) -> Response {
        let Some(form) = Forms::find(name) else { return self.nowhere() };
        // A link on another site fills in the form, but only a person may let this machine simulate.
        let words = if access::is_of_another_site(request) {
            Ok(None)
        } else {
            self.forms.words(form, request)
        };
        let (mut answer, mut error, mut command) = (String::new(), String::new(), String::new());
        match words {
            Ok(None) => {}
            Err(why) => error = why,
            Ok(Some(words)) => {
                command = forms::command_line(&words);
                if self.runs.has_running() {
                    "a run is in progress, which a simulation would disturb: wait for its end"
                        .clone_into(&mut error);
                } else {
                    match self.forms.answer(&words) {
                        Ok(text) => answer = text,
                        Err(why) => error = why,
                    }
                }
            }
        }
        let fields = self.forms.shown(form, request);
        FormPage {
            frame: &self.frame,
            form,
            fields,
            command: &command,
            answer: &answer,
            error: &error,
        }
        .response()
    }

    /// The page of a server of emulated storage. Injects `fault` first, if given.
    fn served(&self, number: &str, fault: Option<&str>) -> Response {
        let Some(socket) = self.served.socket(number) else { return self.nowhere() };
        let (said, is_error) = match fault {
            None => (String::new(), false),
            Some(fault) => match served::inject(socket, fault) {
                Ok(said) => (said, false),
                Err(why) => (why, true),
            },
        };
        let status = served::status(socket);
        let text = status["text"].as_str().or_else(|| status["error"].as_str()).unwrap_or_default();
        ServedPage {
            frame: &self.frame,
            names: self.served.names(),
            number: number.parse().unwrap_or_default(),
            text,
            faults: examples_with_effects(),
            fault: fault.unwrap_or_default(),
            said: &said,
            is_error,
        }
        .response()
    }

    fn list(&self, request: &Request) -> Response {
        let are_running = request.values("verdict").next().is_some_and(|of| of == "running");
        match self.runs.listing() {
            Ok(listing) => self.frame.runs(&listing, are_running),
            Err(e) => self.frame.notebook_error(&e),
        }
    }

    fn list_data(&self, request: &Request) -> Response {
        let listing = match self.runs.listing() {
            Ok(listing) => listing,
            Err(e) => return Response::new("500 Internal Server Error", TEXT, e.to_string()),
        };
        let has = request.values("has").next().and_then(|text| text.parse().ok());
        if has == Some(listing.version) {
            return Response::new("204 No Content", JSON, "");
        }
        Response::ok(JSON, listing.json())
    }
}

/// A style, script or other file that pages load; `None` if there is none at this path.
fn asset(path: &str) -> Option<Response> {
    if path == NUMBERS_SCRIPT {
        return Some(Response::ok(SCRIPT, iodyno_page::html::numbers_script()));
    }
    let found = ASSETS.iter().find(|asset| asset.0 == path)?;
    Some(Response::ok(found.1, found.2))
}

/// A style sheet; it needs no token, because it holds nothing secret.
fn style(path: &str) -> Option<Response> {
    if path == PAGE_STYLE {
        return Some(Response::ok(STYLE, iodyno_page::html::style()));
    }
    asset(path).filter(|found| found.content_type == STYLE)
}
