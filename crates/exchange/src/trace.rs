//! Reads traces, the recorded I/O of iodyno and other programs, and counts the lines left out. Each format has a
//! submodule, which names its source. Other submodules recognise the format (`recognise.rs`), select operations
//! (`sink.rs`) and match completions to operations (`in_flight.rs`).
//!
//! A file is read once, line by line. Each selected operation takes 24 bytes of memory.

mod alibaba;
mod biosnoop;
mod blkparse;
mod cloudphysics;
mod events;
mod fields;
mod in_flight;
mod iolog;
mod msr;
mod own;
mod recognise;
mod rwbs;
mod served;
mod sink;
mod spc;
mod systor;
mod tencent;

use iodyno_catalog::Problem;
use iodyno_units::human;
use iodyno_units::text::quoted;
use iodyno_workload::trace::Trace;
pub use own::{OwnId, head as own_head, line as own_line, tail as own_tail};
use recognise::FORMATS;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use sink::Sink;
use std::fmt::Write as _;
use std::io::{BufRead, Read as _};

/// Maximum length of a line, bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Prefix of the last line in iodyno's own formats. A missing newline after it does not mean that the file is
/// truncated.
const END: &[u8] = b"end ";
/// Maximum number of characters that an error quotes from a line.
const QUOTE_CHARS: usize = 100;
/// Maximum number of files or devices listed in an error.
const LISTED_MAX: usize = 8;
/// A note is given if the first operation is at least this long after the start of the trace, ns.
const IDLE_NS: u64 = 1_000_000_000;
/// Note for traces whose times are whole seconds.
const WHOLE_SECONDS: &str =
    "the times are whole seconds: operations of the same second are issued together";

/// Format of a trace file, which determines its parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// fio's iolog without timestamps.
    IologV2,
    /// fio's iolog with timestamps.
    IologV3,
    /// Default text output of blkparse.
    Blkparse,
    /// Events of the kernel's block layer, as text of ftrace, trace-cmd or perf script.
    Events,
    /// Text output of bcc's biosnoop.
    Biosnoop,
    /// CSV of the MSR Cambridge traces: time, host, disk, type, offset, size, response time.
    Msr,
    /// CSV of the SYSTOR '17 traces: time, response time, type, LUN, offset, size.
    Systor,
    /// CSV of the Alibaba block traces: device, operation, offset, length, time.
    Alibaba,
    /// CSV of the Tencent block traces: time, offset, size, type, volume.
    Tencent,
    /// Binary records or CSV of the CloudPhysics traces.
    CloudPhysics,
    /// Trace file of the Storage Performance Council (SPC).
    Spc,
    /// Trace written by `iodyno run --record-trace`.
    Own,
    /// Requests recorded by `iodyno serve --record`.
    Served,
}

impl Format {
    /// All formats, in the order in which they are tried to recognise a file.
    const ALL: [Self; 13] = [
        Self::IologV2,
        Self::IologV3,
        Self::Own,
        Self::Served,
        Self::Msr,
        Self::Systor,
        Self::Alibaba,
        Self::CloudPhysics,
        Self::Tencent,
        Self::Spc,
        Self::Biosnoop,
        Self::Blkparse,
        Self::Events,
    ];

    /// Name of the format for messages and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::IologV2 => "iolog of fio, version 2",
            Self::IologV3 => "iolog of fio, version 3",
            Self::Blkparse => "text of blkparse",
            Self::Events => "events of the kernel's block layer (ftrace, perf)",
            Self::Biosnoop => "text of bcc's biosnoop",
            Self::Msr => "CSV of MSR Cambridge",
            Self::Systor => "CSV of SYSTOR '17",
            Self::Alibaba => "CSV of Alibaba's block traces",
            Self::Tencent => "CSV of Tencent's block traces",
            Self::CloudPhysics => "trace of CloudPhysics",
            Self::Spc => "trace file of SPC",
            Self::Own => "trace of iodyno",
            Self::Served => "record of iodyno serve",
        }
    }
}

/// Event of a block-layer trace that counts as an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockAction {
    /// `Q`: the operation was queued, before the scheduler merges operations.
    #[default]
    Queue,
    /// `D`: the operation was issued to the driver. Only for formats with such events.
    Issue,
}

/// Part of a trace file to read, with the format and other options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Selection {
    /// Format of the file; None: recognised from the beginning of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// Names of the files or devices whose operations to read; all if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// Start of the selection and of the resulting trace, ns after the start of the file. None: the trace starts with
    /// its first operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_ns: Option<u64>,
    /// End of the selection (exclusive), ns after the start of the file; None: the end of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_ns: Option<u64>,
    /// Event that counts as an operation, in formats that record several events per operation.
    pub action: BlockAction,
    /// Operations are enlarged to multiples of this block size, bytes, a power of two; None: operations are unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub align_bytes: Option<u32>,
}

/// A trace read from a file, with facts about the file.
#[derive(Clone, Debug)]
pub struct TraceFile {
    /// Format of the file, either recognised or requested.
    pub format: Format,
    /// Operations of the selected part of the file.
    pub trace: Trace,
    /// SHA-256 hash of the whole file, in hexadecimal digits.
    pub sha256: String,
    /// Omitted lines, by kind: description and number of lines.
    pub left_out: Vec<(String, u64)>,
    /// Remarks about the file and its conversion, one sentence each.
    pub notes: Vec<String>,
    /// Whether the file has times. If not, all operations are due at the start.
    pub has_times: bool,
}

/// Parser of one trace format, line by line.
trait Lines {
    /// Parses a line, which is given without its newline, and adds its operation to the trace.
    fn line(&mut self, text: &str, to: &mut Sink<'_>) -> Result<(), String>;

    /// Called after the last line.
    fn end(&mut self, _to: &mut Sink<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// Whether a file that begins with these bytes was written by `iodyno serve --record`.
pub fn is_record(beginning: &[u8]) -> bool {
    beginning.starts_with(served::FIRST_WORDS.as_bytes())
}

/// Reads a trace of at most `ops_max` operations. `origin` is its path, for error messages.
///
/// # Errors
/// The format is unknown or unsupported, a line can't be parsed, or the trace has no operations.
pub fn read(
    mut from: impl BufRead,
    origin: &str,
    chosen: &Selection,
    ops_max: usize,
) -> Result<TraceFile, Problem> {
    let mut sink = Sink::new(chosen, ops_max);
    let mut hash = Sha256::new();
    let beginning = from.fill_buf();
    let beginning =
        beginning.map_err(|e| Problem::new(origin, format!("the trace can't be read: {e}")))?;
    if let Some((words, help)) = recognise::refused_bytes(beginning) {
        return Err(Problem::new(origin, words).with_help(help));
    }
    let version = cloudphysics::version(beginning)
        .filter(|_| chosen.format.is_none_or(|format| format == Format::CloudPhysics));
    if version.is_some() {
        has_action(Format::CloudPhysics, chosen).map_err(|why| Problem::new(origin, why))?;
    }
    let format = match version {
        Some(version) => read_records(from, origin, version, &mut sink, &mut hash)?,
        None => read_lines(from, origin, &mut sink, &mut hash)?,
    };
    let sha256 = hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    finish(sink, origin, format, sha256)
}

/// Reads a trace in the binary format of CloudPhysics.
fn read_records(
    mut from: impl BufRead,
    origin: &str,
    version: cloudphysics::Version,
    to: &mut Sink<'_>,
    hash: &mut Sha256,
) -> Result<Format, Problem> {
    let mut reader = cloudphysics::CloudPhysics::default();
    let mut record = Vec::with_capacity(version.record_bytes());
    for number in 1_u64.. {
        record.clear();
        let read = from.by_ref().take(version.record_bytes() as u64).read_to_end(&mut record);
        let wrong = |why: &str| Problem::new(origin, format!("record {number}: {why}"));
        read.map_err(|e| wrong(&format!("the trace can't be read: {e}")))?;
        hash.update(&record);
        match record.len() {
            0 => break,
            len if len < version.record_bytes() => {
                to.notes.push(format!(
                    "record {number}, the last, was cut off after {len} bytes, and is left out"
                ));
                break;
            }
            _ => reader.record(version, &record, to).map_err(|why| wrong(&why))?,
        }
    }
    Ok(Format::CloudPhysics)
}

/// Reads a trace in a text format.
fn read_lines(
    mut from: impl BufRead,
    origin: &str,
    sink: &mut Sink<'_>,
    hash: &mut Sha256,
) -> Result<Format, Problem> {
    let problem = |message: String| Problem::new(origin, message);
    let mut known: Option<(Format, Box<dyn Lines>)> = None;
    let (mut line, mut number) = (Vec::new(), 0_u64);
    loop {
        line.clear();
        let read = from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        let read = read.map_err(|e| problem(format!("line {} can't be read: {e}", number + 1)))?;
        if read == 0 {
            break;
        }
        number += 1;
        hash.update(&line);
        if line.last() != Some(&b'\n') && read as u64 == LINE_BYTES_MAX {
            let most = human::size(LINE_BYTES_MAX);
            return Err(problem(format!(
                "line {number} is longer than {most}: this is not a trace"
            )));
        }
        // A truncated line may still be valid, with a wrong number.
        let is_cut = line.last() != Some(&b'\n') && !line.starts_with(END);
        let cut = || {
            format!(
                "line {number}, the last, does not end with a newline: it may have been cut off, and is left out"
            )
        };
        if is_cut && known.is_some() {
            sink.notes.push(cut());
            break;
        }
        let Ok(text) = std::str::from_utf8(&line) else {
            let problem = problem(format!("line {number} is not UTF-8 text"));
            return Err(if known.is_none() { problem.with_help(FORMATS) } else { problem });
        };
        let text = text.trim_end_matches(['\n', '\r']);
        if text.trim().is_empty() {
            continue;
        }
        let wrong =
            |why: &str| problem(format!("line {number}: {why}: `{}`", quoted(text, QUOTE_CHARS)));
        if let Some((_, lines)) = &mut known {
            lines.line(text, sink).map_err(|why| wrong(&why))?;
            continue;
        }
        if let Some((why, help)) = recognise::refused_line(text) {
            return Err(wrong(why).with_help(help));
        }
        let reader = match sink.chosen.format {
            None => recognise::recognise(text, sink.chosen).ok_or_else(|| {
                wrong("this is neither a known trace nor a record of `iodyno serve`")
                    .with_help(FORMATS)
            }),
            Some(format) => recognise::asked(format, text, sink.chosen).ok_or_else(|| {
                wrong(&format!("this is not the first line of the format `{}`", format.name()))
                    .with_help("remove --format: iodyno recognises the format")
            }),
        };
        let (format, mut lines, is_head) = reader?;
        has_action(format, sink.chosen).map_err(problem)?;
        if is_cut && !is_head {
            sink.notes.push(cut());
        } else if !is_head {
            lines.line(text, sink).map_err(|why| wrong(&why))?;
        }
        known = Some((format, lines));
    }
    let Some((format, mut lines)) = known else {
        return Err(problem("the file is empty".to_owned()).with_help(FORMATS));
    };
    lines.end(sink).map_err(problem)?;
    Ok(format)
}

/// Refuses a selection of events that the format does not have.
fn has_action(format: Format, chosen: &Selection) -> Result<(), String> {
    let has_events = matches!(format, Format::Blkparse | Format::Events | Format::Biosnoop);
    if chosen.action == BlockAction::Queue || has_events {
        return Ok(());
    }
    Err(format!(
        "--action issue has no effect on the format `{}`, whose operations have one event: leave it out",
        format.name()
    ))
}

/// Completes the trace after its last line has been read.
fn finish(
    mut sink: Sink<'_>,
    origin: &str,
    format: Format,
    sha256: String,
) -> Result<TraceFile, Problem> {
    let problem = |message: String| Problem::new(origin, message);
    let chosen = sink.chosen;
    let idle_ns = sink.builder.first_at_ns().map_or(0, |ns| ns.saturating_sub(sink.start_ns));
    if chosen.from_ns.is_none() && idle_ns >= IDLE_NS {
        sink.notes.push(format!(
            "the first operation is {} after the start of the trace: the replay skips this time (`--from 0s` keeps it)",
            human::time_ns(idle_ns as f64)
        ));
    }
    if sink.has_moved() {
        sink.notes.push(
            "the chosen files or devices are placed one after the other from the start of the target: their addresses differ from those in a replay of the whole trace".to_owned(),
        );
    }
    let start_ns = chosen.from_ns.map(|from_ns| match from_ns {
        // Some formats have rows earlier than the first.
        0 => sink.builder.first_at_ns().unwrap_or(u64::MAX).min(sink.start_ns),
        _ => sink.start_ns.saturating_add(from_ns),
    });
    let left_out: Vec<_> = sink.left_out.into_iter().collect();
    let trace = sink.builder.finish(start_ns).map_err(|why| {
        let counts = left_out.iter().map(|(what, count)| format!("{count} {what}"));
        let counts = counts.collect::<Vec<_>>().join(", ");
        let but = if counts.is_empty() { String::new() } else { format!(": it has {counts}") };
        let notes: Vec<String> = sink.notes.iter().map(|note| format!("; {note}")).collect();
        let notes = notes.concat();
        let problem = problem(format!("{why}{but}{notes}"));
        if sink.other_names.is_empty() {
            problem
        } else {
            problem.with_help(format!(
                "choose from the files or devices of the trace: {}",
                sink.other_names.join(", ")
            ))
        }
    })?;
    let parts = &trace.summary().parts;
    let has_levels = matches!(format, Format::Blkparse | Format::Events);
    if has_levels && parts.len() > 1 && chosen.only.is_empty() {
        let named = parts.iter().take(LISTED_MAX);
        let named = named.map(|p| format!("{} ({})", p.name, human::counted(p.ops, "operation")));
        let more = if parts.len() > LISTED_MAX { ", …" } else { "" };
        return Err(problem(format!(
            "the trace has {} devices: {}{more}",
            parts.len(),
            named.collect::<Vec<_>>().join(", ")
        ))
        .with_help(format!(
            "I/O to a stacked device appears on each level: choose one device with `--only {}`; several chosen devices are placed one after the other on the target",
            parts[0].name
        )));
    }
    let has_times = trace.summary().span_ns > 0 || format != Format::IologV2;
    Ok(TraceFile { format, trace, sha256, left_out, notes: sink.notes, has_times })
}

/// Parses a whole number. `what` describes the number in the error message.
fn number(text: &str, what: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("the {what} is not a whole number"))
}
