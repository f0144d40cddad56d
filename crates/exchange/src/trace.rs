//! Recorded I/O of other programs and of ours as traces: [`read`] recognises the format, and gives the operations with
//! what it left out. One file for each format: `trace/iolog.rs` (fio), `trace/blkparse.rs` (blktrace's text),
//! `trace/msr.rs` (CSV of MSR Cambridge at SNIA), `trace/own.rs` (ours), `trace/served.rs` (records of served storage).
//!
//! A file is read once, line by line. Memory is 24 bytes for each operation that is chosen.

mod blkparse;
mod iolog;
mod msr;
mod own;
mod served;

use iodyno_catalog::Problem;
use iodyno_units::text::quoted;
use iodyno_units::{OpKind, human};
use iodyno_workload::trace::{Trace, TraceBuilder};
pub use own::{OwnId, head as own_head, line as own_line, tail as own_tail};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, Read as _};

/// The longest line, bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// What the last line of our own formats begins with: it has a count to check, or nothing that is used.
const END: &[u8] = b"end ";
/// Characters of a line that an error quotes.
const QUOTE_CHARS: usize = 100;
/// Names of left-out lines that are counted apart.
const NAMES_MAX: usize = 32;
/// Files or devices that an error lists.
const LISTED_MAX: usize = 8;

/// The format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// fio's iolog without times.
    IologV2,
    /// fio's iolog with times.
    IologV3,
    /// The text that blkparse prints by default.
    Blkparse,
    /// The CSV of MSR Cambridge: time, host, disk, type, offset, size, response.
    Msr,
    /// `iodyno run --record-trace`.
    Own,
    /// `iodyno serve --record`.
    Served,
}

impl Format {
    /// Its name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::IologV2 => "iolog of fio, version 2",
            Self::IologV3 => "iolog of fio, version 3",
            Self::Blkparse => "text of blkparse",
            Self::Msr => "CSV of MSR Cambridge",
            Self::Own => "trace of iodyno",
            Self::Served => "record of iodyno serve",
        }
    }
}

/// Which events of a block trace are the operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockAction {
    /// `Q`: as they were queued, before the scheduler merged them.
    #[default]
    Queue,
    /// `D`: as they were issued to the driver.
    Issue,
}

/// Which part of a file becomes the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Selection {
    /// These files or devices alone; all, where it is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// From this time on, ns from the start of the file; it becomes the start of the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_ns: Option<u64>,
    /// Before this time, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_ns: Option<u64>,
    /// Of a block trace.
    pub action: BlockAction,
    /// Enlarges operations to multiples of this power of two, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub align_bytes: Option<u32>,
}

/// A trace with its origin.
#[derive(Clone, Debug)]
pub struct TraceFile {
    /// Its format.
    pub format: Format,
    /// The operations.
    pub trace: Trace,
    /// The hash of the whole file, SHA-256 in hexadecimal digits.
    pub sha256: String,
    /// What was not taken as an operation, with the number of lines.
    pub left_out: Vec<(String, u64)>,
    /// Remarks about the reading, in sentences.
    pub notes: Vec<String>,
    /// Whether operations have times; otherwise all are due at the start.
    pub has_times: bool,
}

/// Reads one format, a line at a time.
trait Lines {
    /// Takes a line without its end.
    fn line(&mut self, text: &str, to: &mut Sink<'_>) -> Result<(), String>;

    /// The file is over.
    fn end(&mut self, _to: &mut Sink<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// Takes the operations of the selection, and counts everything else.
struct Sink<'a> {
    chosen: &'a Selection,
    builder: TraceBuilder,
    /// The time of the start of the file on the clock of its operations, ns.
    start_ns: u64,
    /// The part of the operation before, which mostly is that of the next.
    part: Option<(String, u16)>,
    /// Whether there was an operation on a file or device that is not chosen, and then the first one on a chosen one,
    /// which therefore begins elsewhere than in the whole trace.
    others: (bool, bool),
    left_out: BTreeMap<String, u64>,
    notes: Vec<String>,
}

impl Sink<'_> {
    /// Adds an operation at a time, ns. Its number, or None where it is not chosen.
    fn push(
        &mut self,
        part: &str,
        at_ns: u64,
        kind: (OpKind, bool),
        place: (u64, u64),
        response_ns: Option<u64>,
    ) -> Result<Option<usize>, String> {
        if !self.chosen.only.is_empty() && !self.chosen.only.iter().any(|name| name == part) {
            self.others.0 = true;
            self.leave_out("operations on other files or devices");
            return Ok(None);
        }
        let number = match &self.part {
            Some((name, number)) if name == part => *number,
            _ => {
                let parts = self.builder.parts();
                let number = self.builder.part(part)?;
                self.others.1 |= self.others.0 && self.builder.parts() > parts;
                self.part = Some((part.to_owned(), number));
                number
            }
        };
        let is_at = |ns: &u64| at_ns >= self.start_ns.saturating_add(*ns);
        if self.chosen.from_ns.is_some_and(|ns| !is_at(&ns))
            || self.chosen.to_ns.as_ref().is_some_and(is_at)
        {
            // A file has its place whatever part of the time is chosen.
            if kind.0 != OpKind::Flush {
                self.builder.reach(number, place);
            }
            self.leave_out("operations at other times");
            return Ok(None);
        }
        self.builder.push(number, at_ns, kind, place, response_ns).map(Some)
    }

    /// Counts a line that is no operation.
    fn leave_out(&mut self, what: &str) {
        if let Some(count) = self.left_out.get_mut(what) {
            *count += 1;
        } else {
            let what = if self.left_out.len() < NAMES_MAX { what } else { "others" };
            *self.left_out.entry(what.to_owned()).or_default() += 1;
        }
    }
}

/// Whether a file begins as a record of `iodyno serve --record` does.
pub fn is_record(beginning: &[u8]) -> bool {
    beginning.starts_with(served::FIRST_WORDS.as_bytes())
}

/// Reads a trace of at most `ops_max` operations; `origin` is its path, for errors.
///
/// # Errors
/// A format that is not known; the first line that can't be read, with its number and the reason; nothing to replay.
pub fn read(
    mut from: impl BufRead,
    origin: &str,
    chosen: &Selection,
    ops_max: usize,
) -> Result<TraceFile, Problem> {
    let problem = |message: String| Problem::new(origin, message);
    let mut sink = Sink {
        chosen,
        builder: TraceBuilder::new(ops_max, chosen.align_bytes),
        start_ns: 0,
        part: None,
        others: (false, false),
        left_out: BTreeMap::new(),
        notes: Vec::new(),
    };
    let mut hash = Sha256::new();
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
                "line {number} is longer than {most}, as no line of a trace is"
            )));
        }
        // A line in the middle of which a file was cut off may be a valid one with another number.
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
            lines.line(text, &mut sink).map_err(|why| wrong(&why))?;
            continue;
        }
        let unknown = || {
            wrong("this is not a trace that is known, and no record of `iodyno serve`")
                .with_help(FORMATS)
        };
        let (format, mut lines, is_head) = recognise(text, chosen).ok_or_else(unknown)?;
        if is_cut && !is_head {
            sink.notes.push(cut());
        } else if !is_head {
            lines.line(text, &mut sink).map_err(|why| wrong(&why))?;
        }
        known = Some((format, lines));
    }
    let Some((format, mut lines)) = known else {
        return Err(problem("the file is empty".to_owned()).with_help(FORMATS));
    };
    lines.end(&mut sink).map_err(problem)?;
    // Those of MSR begin with their first row.
    let start_ns = match chosen.from_ns {
        Some(from_ns) => Some(sink.start_ns.saturating_add(from_ns)),
        None => (format != Format::Msr).then_some(0),
    };
    if sink.others.1 {
        sink.notes.push(
            "the chosen files or devices lie one after the other from the start on: their addresses are not those of a replay of the whole trace".to_owned(),
        );
    }
    let left_out: Vec<_> = sink.left_out.into_iter().collect();
    let trace = sink.builder.finish(start_ns).map_err(|why| {
        let counts = left_out.iter().map(|(what, count)| format!("{count} {what}"));
        let counts = counts.collect::<Vec<_>>().join(", ");
        let but = if counts.is_empty() { String::new() } else { format!(": it has {counts}") };
        let notes: Vec<String> = sink.notes.iter().map(|note| format!("; {note}")).collect();
        let notes = notes.concat();
        problem(format!("{why}{but}{notes}"))
    })?;
    let parts = &trace.summary().parts;
    if format == Format::Blkparse && parts.len() > 1 && chosen.only.is_empty() {
        let named =
            parts.iter().take(LISTED_MAX).map(|p| format!("{} ({} operations)", p.name, p.ops));
        let more = if parts.len() > LISTED_MAX { ", …" } else { "" };
        return Err(problem(format!(
            "the trace has {} devices: {}{more}",
            parts.len(),
            named.collect::<Vec<_>>().join(", ")
        ))
        .with_help(format!(
            "what goes to a stacked device appears on each level: choose one with `--only {}`; several given with --only lie one after the other",
            parts[0].name
        )));
    }
    let sha256 = hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    let has_times = trace.summary().span_ns > 0 || format != Format::IologV2;
    Ok(TraceFile { format, trace, sha256, left_out, notes: sink.notes, has_times })
}

const FORMATS: &str = "an iolog of fio (version 2 or 3), the text of blkparse, the CSV of MSR Cambridge (time, host, disk, type, offset, size, response), a trace of `iodyno run --record-trace`, or a record of `iodyno serve --record`; compressed files are unpacked first: `zcat FILE.gz | iodyno replay /dev/stdin`";

/// The format whose first line this is, and whether the line is no more than that.
fn recognise(first: &str, chosen: &Selection) -> Option<(Format, Box<dyn Lines>, bool)> {
    if let Some(version) = iolog::version(first) {
        let format = if version == 2 { Format::IologV2 } else { Format::IologV3 };
        Some((format, Box::new(iolog::Iolog::new(version)), true))
    } else if first == own::FIRST {
        Some((Format::Own, Box::<own::Own>::default(), true))
    } else if first == served::FIRST {
        Some((Format::Served, Box::<served::Served>::default(), true))
    } else if msr::is_first(first) {
        Some((Format::Msr, Box::<msr::Msr>::default(), !msr::is_row(first)))
    } else if blkparse::is_event(first) {
        Some((Format::Blkparse, Box::new(blkparse::Blkparse::new(chosen.action)), false))
    } else {
        None
    }
}

/// A number of a trace.
fn number(text: &str, what: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("the {what} is not a whole number"))
}
