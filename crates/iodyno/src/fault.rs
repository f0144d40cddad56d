//! `iodyno fault` and `iodyno status`: commands to a running server, and its answers as text.

use crate::args::{FaultFlags, Status as StatusFlags};
use crate::console::{print, print_json};
use crate::failure::Failure;
use crate::serve;
use iodyno_live::status::Status;
use iodyno_units::text::clean_lines;
use std::process::ExitCode;

/// Executes `iodyno fault`.
pub(crate) fn command(flags: &FaultFlags) -> Result<ExitCode, Failure> {
    let path = serve::socket(&flags.control);
    let line = flags.fault.join(" ");
    let said = if line == "stop" { serve::stop(path)? } else { serve::say(path, &line)? };
    match said["text"].as_str() {
        Some(text) => print(&clean_lines(&format!("{}\n", text.trim_end()))),
        None => print_json(&said),
    }
}

/// Executes `iodyno status`.
pub(crate) fn status(flags: &StatusFlags) -> Result<ExitCode, Failure> {
    let path = serve::socket(&flags.control);
    if flags.metrics {
        let said = serve::say(path, "metrics")?;
        return print(&clean_lines(said["text"].as_str().unwrap_or_default()));
    }
    let said = serve::say(path, "status")?;
    if flags.json {
        return print_json(&said);
    }
    let status = Status::from_json(said).map_err(|why| {
        Failure::target(format!(
            "{}: the status can't be read: {why}: the server is of another version; --json prints what it said",
            path.display()
        ))
    })?;
    print(&clean_lines(&status.text()))
}
