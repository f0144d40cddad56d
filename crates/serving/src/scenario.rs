//! Scenarios: faults at given times, one per line. `#` begins a comment.
//!
//! ```text
//! 2s     slow x10
//! 2500ms clear
//! 3s     power-cut
//! ```
//! Times count from the start of the server, in the model's time.

use crate::apply_fault::apply;
use crate::error::ServeError;
use crate::request::Console;
use iodyno_catalog::MAX_FILE_BYTES;
use iodyno_catalog::input::read_text;
use iodyno_live::fault_command::{self, Ask};
use iodyno_live::frontend::Served;
use iodyno_units::parse_duration_ns;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Maximum length of a line, bytes; the control socket has the same limit.
const LINE_BYTES_MAX: usize = 4096;
/// Maximum number of faults in a scenario.
const FAULTS_MAX: usize = 100_000;

/// Faults of a scenario, in the order of their times: line number, time in ns, and command.
pub(crate) type Plan = Vec<(u32, u64, Ask)>;

/// Reads and parses a scenario file.
pub(crate) fn read(path: &Path) -> Result<Plan, ServeError> {
    let text = read_text(path, MAX_FILE_BYTES)
        .map_err(|e| ServeError::input(format!("--scenario {}: {e}", path.display())))?;
    let mut plan = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let wrong = |why: String| wrong(path, number, &why);
        if line.len() > LINE_BYTES_MAX {
            return Err(wrong(format!(
                "the line has {} bytes, but at most {LINE_BYTES_MAX} are allowed",
                line.len()
            )));
        }
        if plan.len() >= FAULTS_MAX {
            return Err(wrong(format!("a scenario can have at most {FAULTS_MAX} faults")));
        }
        let (time, what) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let at_ns = parse_duration_ns(time).map_err(|e| wrong(e.to_string()))?;
        let what: Vec<&str> = what.split_whitespace().collect();
        plan.push((number, at_ns, fault_command::parse(&what).map_err(wrong)?));
    }
    plan.sort_by_key(|p| p.1);
    Ok(plan)
}

/// Creates the error for an invalid line of a scenario.
pub(crate) fn wrong(path: &Path, number: u32, why: &str) -> ServeError {
    ServeError::input(format!("{}:{number}: {why}", path.display()))
}

/// Starts a thread that executes the scenario.
pub(crate) fn play(
    plan: Plan,
    live: &Arc<Served>,
    seed: u64,
    stop: &Arc<AtomicBool>,
    console: Console,
) {
    let (live, stop) = (Arc::clone(live), Arc::clone(stop));
    std::thread::spawn(move || {
        for (_, at_ns, ask) in plan {
            loop {
                let left_ns = live.real_ns(at_ns).saturating_sub(live.now_ns());
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                if left_ns == 0 {
                    break;
                }
                std::thread::sleep(Duration::from_nanos(left_ns.min(20_000_000)));
            }
            let said = match apply(&live, &ask, seed) {
                Ok(answer) => answer["text"].as_str().unwrap_or_default().to_owned(),
                Err(why) => why,
            };
            said.lines().for_each(|line| (console.remark)("scenario", line));
        }
    });
}
