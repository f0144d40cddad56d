//! `web`: serves the page that shows the notebook, until a signal ends it.

use crate::args::Web;
use crate::console::remark;
use crate::failure::Failure;
use crate::{report, secrets, show, signals};
use iodyno_catalog::input::read_text;
use iodyno_catalog::{Kind, list};
use iodyno_notebook::Notebook;
use iodyno_web::{Site, Token};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Maximum size of a file with a token, bytes.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;
/// Interval at which the server checks for a signal.
const SIGNAL_EVERY: Duration = Duration::from_millis(50);

pub(crate) fn command(flags: &Web, notebook: Option<&Path>) -> Result<ExitCode, Failure> {
    let stop = signals::stop_flag();
    let path = show::path(notebook)?;
    if path.exists() {
        // Reports a file that is not a notebook here, not on the page.
        Notebook::open_existing(&path)?;
    }
    let token = token(flags)?;
    let site = Site {
        notebook: path,
        controls: flags.control.clone(),
        program: std::env::current_exe().map_err(|e| Failure::target(e.to_string()))?,
        devices: names(Kind::Device),
        workloads: names(Kind::Workload),
        studies: names(Kind::Study),
        made_by: report::made_by(),
        token: token.clone(),
        allow_run: flags.allow_run,
    };
    let asked = flags.listen;
    let failed = |e: std::io::Error| {
        let remedy = match e.kind() {
            ErrorKind::AddrInUse => {
                ": another server uses it, perhaps another `iodyno web`; `--listen 0` takes a free port"
            }
            _ => "",
        };
        Failure::target(format!("--listen {asked}: {e}{remedy}"))
    };
    let listener = TcpListener::bind(asked).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    iodyno_web::serve(listener, &site).map_err(failed)?;
    let secret = match &token {
        // A token of the user's file is not repeated.
        Some(token) if flags.token_file.is_none() => format!("?token={}", token.text()),
        _ => String::new(),
    };
    remark("web", &format!("http://{address}/{secret}"));
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(SIGNAL_EVERY);
    }
    Ok(ExitCode::SUCCESS)
}

fn names(kind: Kind) -> Vec<String> {
    list(kind).map(|(name, _)| name.to_owned()).collect()
}

/// Returns the token that clients must present; None if every program on this machine may read the page.
fn token(flags: &Web) -> Result<Option<Token>, Failure> {
    if let Some(path) = &flags.token_file {
        secrets::warn_if_shared("--token-file", path);
        let wrong = |why: &str| Failure::input(format!("{}: {why}", path.display()));
        let text = read_text(path, TOKEN_FILE_BYTES_MAX).map_err(|e| wrong(&e.to_string()))?;
        return Token::of_text(text.trim()).map(Some).map_err(|why| wrong(&why));
    }
    if flags.token || flags.allow_run {
        return Token::random().map(Some).map_err(|e| Failure::target(format!("--token: {e}")));
    }
    if flags.listen.ip().is_loopback() {
        return Ok(None);
    }
    Err(Failure::target(format!(
        "--listen {} is open to other machines: listen on 127.0.0.1, or add --token or --token-file FILE",
        flags.listen
    )))
}
