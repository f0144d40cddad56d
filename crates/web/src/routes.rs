//! From a request to its response: access, then the page that the path names.

use crate::access::{Access, Decision, without_token};
use crate::http::{self, JSON, Method, Refusal, Request, Response, TEXT};
use crate::reports::{self, Reports};
use crate::runs::Runs;
use crate::Site;
use crate::pages::Frame;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;

/// Policy of this crate's own pages: they load scripts, styles and data from this server alone.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Files that pages load, by path.
const ASSETS: [(&str, &str, &str); 2] = [
    ("/assets/web.css", "text/css; charset=utf-8", include_str!("../assets/web.css")),
    ("/assets/runs.js", "text/javascript; charset=utf-8", include_str!("../assets/runs.js")),
];
/// Path of the style that pages share with reports.
const PAGE_STYLE: &str = "/assets/page.css";

/// A server's state, shared by the threads of its connections.
#[derive(Debug)]
pub(crate) struct Server {
    access: Access,
    frame: Frame,
    runs: Arc<Runs>,
    reports: Reports,
}

impl Server {
    pub(crate) fn new(site: Site, access: Access) -> io::Result<Self> {
        let runs = Runs::new(&site.notebook)?;
        let frame = Frame::new(&site);
        let reports = Reports::new(&site);
        Ok(Self { access, frame, runs, reports })
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
            (Method::Get, [""]) => self.list(),
            (Method::Get, ["runs.json"]) => self.list_data(request),
            (Method::Get, ["runs", id]) => self.reports.run(id, &self.frame),
            (Method::Get, ["runs", id, "report.html"]) => self.reports.file(id, &self.frame),
            (Method::Get, ["runs", id, "run.json"]) => self.reports.data(id, &self.frame),
            (Method::Get, ["compare"]) => {
                let ids = reports::ids(request);
                self.reports.compare(&ids, &self.frame)
            }
            (Method::Get, _) => self.frame.not_found("there is no page at this address"),
            (Method::Post, _) => self.frame.refused("this page changes nothing"),
        }
    }

    fn list(&self) -> Response {
        match self.runs.listing() {
            Ok(listing) => self.frame.runs(&listing),
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

/// The style that all pages share, which holds nothing secret.
fn style(path: &str) -> Option<Response> {
    let style = || Response::ok("text/css; charset=utf-8", iodyno_page::html::style());
    (path == PAGE_STYLE).then(style).or_else(|| asset(path).filter(|_| path.ends_with(".css")))
}

fn asset(path: &str) -> Option<Response> {
    let found = ASSETS.iter().find(|asset| asset.0 == path)?;
    Some(Response::ok(found.1, found.2))
}
