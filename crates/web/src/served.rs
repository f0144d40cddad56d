//! Shows the status of emulated storage servers on this machine, and injects faults into them, through their control
//! sockets.

use iodyno_live::control::say;
use iodyno_live::status::{Status, VolumeStatus};
use iodyno_units::text::{clean, clean_lines};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Maximum length of a fault command, bytes.
const FAULT_BYTES_MAX: usize = 200;

/// Control sockets of servers, in the order of the command line.
#[derive(Debug)]
pub(crate) struct Served {
    sockets: Vec<PathBuf>,
}

impl Served {
    pub(crate) fn new(sockets: &[PathBuf]) -> Self {
        Self { sockets: sockets.to_vec() }
    }

    /// The control socket with this number; `None` if there is none.
    pub(crate) fn socket(&self, number: &str) -> Option<&Path> {
        self.sockets.get(number.parse::<usize>().ok()?).map(PathBuf::as_path)
    }

    /// Cleaned names of all sockets.
    pub(crate) fn names(&self) -> Vec<String> {
        self.sockets.iter().map(|path| clean(&path.display().to_string()).into_owned()).collect()
    }
}

/// Status of a server for the page's script: the text of `iodyno status`, and counters of each volume. An error is a
/// text under `error`.
pub(crate) fn status(socket: &Path) -> Value {
    let failed = |why: String| json!({ "error": clean(&why) });
    let said = match say(socket, "status") {
        Ok(said) => said,
        Err(e) => return failed(no_answer(socket, &e)),
    };
    match Status::from_json(said) {
        Ok(status) => {
            let volumes: &[VolumeStatus] =
                if let Status::Model(status) = &status { &status.volumes } else { &[] };
            let volumes: Vec<Value> = volumes.iter().map(volume).collect();
            json!({ "text": clean_lines(&status.text()), "volumes": volumes })
        }
        Err(why) => {
            failed(format!("the status can't be read ({why}): the server has another version"))
        }
    }
}

fn volume(of: &VolumeStatus) -> Value {
    let kinds = of.operations.given().map(|(kind, status)| {
        json!({
            "kind": kind, "operations": status.operations, "bytes": status.bytes,
            "errors": status.errors, "p50_ns": status.latency_p50_ns, "p99_ns": status.latency_p99_ns,
        })
    });
    json!({ "device": clean(&of.device), "kinds": kinds.collect::<Vec<_>>() })
}

/// Injects a fault, and returns the lines that describe what is in effect from then on.
///
/// # Errors
/// The server does not answer, or refuses the fault. The text has the remedy.
pub(crate) fn inject(socket: &Path, fault: &str) -> Result<String, String> {
    if fault.len() > FAULT_BYTES_MAX {
        return Err(format!("a fault has at most {FAULT_BYTES_MAX} bytes"));
    }
    let request = json!({ "version": 1, "fault": fault }).to_string();
    let said = say(socket, &request).map_err(|e| no_answer(socket, &e))?;
    if said["ok"] == true {
        let lines = said["in_effect"].as_array().map(Vec::as_slice).unwrap_or_default();
        let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
        let text = match said["no_effect"].as_str() {
            Some(why) => format!("nothing changed: {why}"),
            None => lines.join("\n"),
        };
        return Ok(clean_lines(&text).into_owned());
    }
    let text = |key: &str| said["error"][key].as_str().unwrap_or_default().to_owned();
    Err(clean(&format!("{}: {}", text("message"), text("remedy"))).into_owned())
}

fn no_answer(socket: &Path, e: &std::io::Error) -> String {
    let at = socket.display();
    format!("{at}: {e}: check that a server with `--control unix:{at}` is running")
}
