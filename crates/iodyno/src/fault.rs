//! `iodyno fault` and `iodyno status`: send commands to a running server, and print its answers.

use crate::args::{FaultFlags, Status as StatusFlags};
use crate::console::{print, print_json};
use crate::failure::Failure;
use iodyno_live::control::SAY_TIMEOUT_S;
use iodyno_live::status::Status;
use iodyno_units::text::clean_lines;
use serde_json::Value;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Exit code of a fault without effect: it is bad input, such as a fault of flash pages on a disk.
const NO_EFFECT: u8 = 2;

/// Sends a fault or another command to a server, and prints the response.
pub(crate) fn command(flags: &FaultFlags) -> Result<ExitCode, Failure> {
    let path = socket(&flags.control);
    let line = flags.fault.join(" ");
    let said = if line == "stop" { stop(path)? } else { say(path, &line)? };
    let printed = match said["text"].as_str() {
        Some(text) => print(&clean_lines(&format!("{}\n", text.trim_end())))?,
        None => print_json(&said)?,
    };
    // A test must not go on as if something had been injected.
    Ok(if said["no_effect"].is_string() { ExitCode::from(NO_EFFECT) } else { printed })
}

pub(crate) fn status(flags: &StatusFlags) -> Result<ExitCode, Failure> {
    let path = socket(&flags.control);
    if flags.metrics {
        let said = say(path, "metrics")?;
        return print(&clean_lines(said["text"].as_str().unwrap_or_default()));
    }
    let said = say(path, "status")?;
    if flags.json {
        return print_json(&said);
    }
    let status = Status::from_json(said).map_err(|why| {
        Failure::target(format!(
            "{}: the status can't be read ({why}): the server has another version; --json prints the server's answer",
            path.display()
        ))
    })?;
    print(&clean_lines(&status.text()))
}

/// Removes the optional prefix `unix:` from the path of a control socket.
fn socket(text: &str) -> &Path {
    Path::new(text.strip_prefix("unix:").unwrap_or(text))
}

/// Time that a server has to shut down, s.
const STOP_TIMEOUT_S: u64 = 60;

/// Tells a server to shut down, and waits until it has.
fn stop(path: &Path) -> Result<Value, Failure> {
    let (mut said, has_ended) =
        iodyno_live::control::stop(path, Duration::from_secs(STOP_TIMEOUT_S))
            .map_err(|e| no_answer(path, "stop", &e))?;
    if let Some(error) = said["error"].as_str() {
        return Err(Failure::input(error));
    }
    if !has_ended {
        return Err(Failure::target(format!(
            "{}: the server did not end within {STOP_TIMEOUT_S} s, perhaps because much was left to write; `lsof` of \
             its files shows the process",
            path.display()
        )));
    }
    said["text"] = "the server has flushed, and ended".into();
    Ok(said)
}

/// Sends a command line to a control socket, and returns the response.
fn say(path: &Path, line: &str) -> Result<Value, Failure> {
    let said = iodyno_live::control::say(path, line).map_err(|e| no_answer(path, line, &e))?;
    match said["error"].as_str() {
        Some(error) => Err(Failure::input(error)),
        None => Ok(said),
    }
}

fn no_answer(path: &Path, line: &str, e: &std::io::Error) -> Failure {
    let at = path.display();
    Failure::target(match e.kind() {
        ErrorKind::TimedOut => format!(
            "{at}: the server did not answer `{line}` within {SAY_TIMEOUT_S} s, and may still execute it: check with `iodyno status`"
        ),
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            format!("{at}: the server ended before it answered `{line}`")
        }
        _ => format!("{at}: {e}: check that a server with `--control unix:{at}` is running"),
    })
}
