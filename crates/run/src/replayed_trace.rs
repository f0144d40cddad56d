//! Reads the trace file that a request names, and builds the cell that replays the trace.

use crate::outcome::RunError;
use crate::request::TraceRequest;
use iodyno_catalog::Problem;
use iodyno_catalog::input::Input;
use iodyno_exchange::trace::{self, BlockAction, Selection, TraceFile};
use iodyno_targets::{SysRoot, memory_available_bytes};
use iodyno_units::human;
use iodyno_workload::{CellSpec, Content, Fit, MAX_DEPTH, Replay, ReplayShape, Timing};
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

/// Memory per operation of a trace, bytes. An operation with a think time takes `WAIT_BYTES` more.
const OP_BYTES: u64 = 24;
const WAIT_BYTES: u64 = 16;
/// Number of operations accepted on any machine, whatever its memory.
const OPS_MIN: u64 = 1 << 16;
/// Default depth of a replay as fast as possible. Other replays have `DEPTH`. Both are reduced if buffers
/// would exceed `BUFFERS_BYTES`.
const FAST_DEPTH: u64 = 32;
const DEPTH: u64 = 256;
const BUFFERS_BYTES: u64 = 256 << 20;
/// Approximate number of recording intervals in a replay.
const INTERVALS: u64 = 200;
/// Number of hexadecimal digits of the file's hash in the description.
const HASH_DIGITS: usize = 16;

/// Maximum number of operations for which a trace fits in half of the available memory. `thinks`: whether each
/// operation also needs memory for its think time.
pub fn trace_ops_max(thinks: bool) -> usize {
    let bytes = if thinks { OP_BYTES + WAIT_BYTES } else { OP_BYTES };
    let available_bytes = memory_available_bytes(&SysRoot::real()).unwrap_or(u64::MAX);
    (available_bytes / 2 / bytes).max(OPS_MIN) as usize
}

/// Reads a trace from a path, which may be a pipe.
///
/// # Errors
/// The file can't be read, or is not a trace.
pub fn read_trace(path: &Path, chosen: &Selection, thinks: bool) -> Result<TraceFile, Problem> {
    let origin = path.display().to_string();
    let file =
        Input::open(path).map_err(|error| Problem::new(origin.as_str(), error.to_string()))?;
    trace::read(BufReader::with_capacity(1 << 20, file), &origin, chosen, trace_ops_max(thinks))
}

/// Builds the cell that replays a trace. Completes the request with the file's hash and the parameters in
/// effect.
pub(crate) fn cell(
    of: &mut TraceRequest,
    folder: &Path,
    notes: &mut Vec<String>,
) -> Result<CellSpec, RunError> {
    let thinks = matches!(of.timing, Timing::Think { .. });
    let mut file = read_trace(&folder.join(&of.path), &of.selection, thinks)?;
    let path = of.path.display();
    let name = of.path.file_stem().map_or_else(|| "trace".into(), |stem| stem.to_string_lossy());
    if let Some(asked) = &of.sha256
        && *asked != file.sha256
    {
        return Err(RunError::Impossible(format!(
            "`{path}` is no longer the trace of this run: its hash was {asked}, and now is {}",
            file.sha256
        )));
    }
    of.sha256 = Some(file.sha256.clone());
    notes.append(&mut file.notes);
    if !file.left_out.is_empty() {
        let each = file.left_out.iter().map(|(what, n)| format!("{} {what}", human::whole(*n)));
        notes.push(format!("not replayed: {}", each.collect::<Vec<_>>().join("; ")));
    }
    let summary = file.trace.summary();
    if matches!(of.timing, Timing::Time { .. }) && summary.span_ns == 0 {
        notes.push(if file.has_times {
            "all operations of the trace have the same time: they are issued as fast as possible"
                .to_owned()
        } else {
            "the trace has no times: it is issued as fast as possible".to_owned()
        });
        of.timing = Timing::Fast;
    }
    if thinks && of.threads > 1 {
        return Err(RunError::Impossible(
            "--think needs --threads 1, because each operation waits for all earlier ones"
                .to_owned(),
        ));
    }
    if thinks {
        file.trace.add_waits().map_err(|why| Problem::new(path.to_string(), why))?;
    }
    let summary = file.trace.summary();
    let usual = if of.timing == Timing::Fast { FAST_DEPTH } else { DEPTH };
    let most = BUFFERS_BYTES / u64::from(summary.max_data_bytes().max(1));
    let depth = of.depth.unwrap_or_else(|| usual.min(most.max(16)) as u32).min(MAX_DEPTH);
    let content: Content = of.content.parse().map_err(RunError::Impossible)?;
    if content == Content::Verifiable {
        return Err(RunError::Impossible(
            "a trace may overwrite blocks while earlier operations on them are in flight, so content can't be verified: leave `--content verifiable` out".to_owned(),
        ));
    }
    let span_ns = summary.span_ns;
    let replay = Replay {
        words: words(of, &file.sha256),
        trace: Arc::new(file.trace),
        timing: of.timing,
        fit: of.fit,
        offset_bytes: of.offset_bytes,
    };
    let shape = ReplayShape { threads: of.threads, depth, content };
    let spec = replay.spec(&shape).map_err(|why| Problem::new(path.to_string(), why))?;
    let interval_ns = match of.timing {
        Timing::Time { speed } | Timing::Think { speed } => {
            let each_ns = (span_ns as f64 / speed) as u64 / INTERVALS;
            let round = if each_ns < 1_000_000_000 { 100_000_000 } else { 1_000_000_000 };
            Some(each_ns.next_multiple_of(round).max(round))
        }
        Timing::Fast => None,
    };
    Ok(CellSpec { interval_ns, replay: Some(Arc::new(replay)), ..CellSpec::new(name, spec) })
}

/// Short description of a trace and its replay. Replays with equal descriptions issue the same operations.
fn words(of: &TraceRequest, sha256: &str) -> String {
    let mut words = vec![match of.timing {
        Timing::Time { speed } if speed.to_bits() == 1.0_f64.to_bits() => "by its times".to_owned(),
        Timing::Time { speed } => format!("by its times, at {speed} times the speed"),
        Timing::Fast => "as fast as possible".to_owned(),
        Timing::Think { speed } if speed.to_bits() == 1.0_f64.to_bits() => {
            "with its think times".to_owned()
        }
        Timing::Think { speed } => format!("with its think times, at {speed} times the speed"),
    }];
    let Selection { format, only, from_ns, to_ns, action, align_bytes } = &of.selection;
    let seconds = |ns: &u64| format!("{} s", *ns as f64 / 1e9);
    words.extend(format.map(|format| format!("read as {}", format.name())));
    words.extend((!only.is_empty()).then(|| format!("only {}", only.join(" and "))));
    words.extend(from_ns.as_ref().map(|ns| format!("from {}", seconds(ns))));
    words.extend(to_ns.as_ref().map(|ns| format!("to {}", seconds(ns))));
    words.extend((*action == BlockAction::Issue).then(|| "as issued to the driver".to_owned()));
    words.extend(align_bytes.map(|b| format!("enlarged to {}", human::exact_size(b.into()))));
    words.extend(match of.fit {
        Fit::Exact => None,
        Fit::Scale => Some("addresses scaled".to_owned()),
        Fit::Wrap => Some("addresses wrapped".to_owned()),
    });
    words.extend((of.offset_bytes > 0).then(|| format!("from byte {} on", of.offset_bytes)));
    format!("{} {}", &sha256[..HASH_DIGITS], words.join(", "))
}
