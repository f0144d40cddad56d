//! Parses the text of bcc's biosnoop, from both its Python and its libbpf version: `TIME(s) COMM PID DISK T SECTOR
//! BYTES [QUE(ms)] LAT(ms)`.
//!
//! TIME is the time of the completion, counted from the first line. LAT is the time from the issue to the driver until
//! the completion, and QUE (with `-Q`) the time in the queue before the issue. T is R or W (bcc's Python version prints
//! discards and flushes as R), or an RWBS field. Commands may contain blanks, so columns are counted from the end of
//! the line.
//!
//! Source: `tools/biosnoop.py` and `libbpf-tools/biosnoop.c` of iovisor/bcc.

use super::fields::{Clock, decimal};
use super::rwbs::{Event, SECTOR_BYTES};
use super::{BlockAction, Lines, Sink, number};

/// Maximum response time, ns. An operation that completes at the first line may have been issued this long before that
/// line.
const BEFORE_NS: u64 = 3_600_000_000_000;

/// Whether a line is the heading with the column names.
pub(super) fn is_head(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let is_first = words.next().is_some_and(|word| word == "TIME(s)" || word == "TIMESTAMP");
    is_first && ["DISK", "SECTOR", "BYTES", "LAT(ms)"].iter().all(|w| line.contains(w))
}

pub(super) struct Biosnoop {
    action: BlockAction,
    /// Names of the columns, from the column DISK on.
    columns: Vec<String>,
    clock: Clock,
}

impl Biosnoop {
    pub(super) fn new(action: BlockAction) -> Self {
        let columns = ["DISK", "T", "SECTOR", "BYTES", "LAT(ms)"].map(str::to_owned).to_vec();
        Self { action, columns, clock: Clock::default() }
    }

    fn head(&mut self, line: &str) -> Result<(), String> {
        if line.trim_ascii_start().starts_with("TIMESTAMP") {
            return Err(
                "biosnoop -t prints the time of day at which it writes a line, not that of the I/O: record without -t"
                    .to_owned(),
            );
        }
        let words = line.split_ascii_whitespace().skip_while(|word| *word != "DISK");
        self.columns = words.map(str::to_owned).collect();
        Ok(())
    }
}

impl Lines for Biosnoop {
    fn line(&mut self, text: &str, to: &mut Sink<'_>) -> Result<(), String> {
        if is_head(text) {
            return self.head(text);
        }
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        if words.first() == Some(&"lost") || words.first() == Some(&"Possibly") {
            to.leave_out("reports of lost events");
            return Ok(());
        }
        let first = words.len().checked_sub(self.columns.len());
        let Some(first) = first.filter(|first| *first >= 3) else {
            return Err(format!(
                "a line needs a time, a command, a process and {}",
                self.columns.join(", ")
            ));
        };
        let word = |name: &str| {
            let at = self.columns.iter().position(|column| column == name)?;
            words.get(first + at).copied()
        };
        let column = |name: &str| word(name).ok_or_else(|| format!("column {name} is missing"));
        let milliseconds = |name: &str| {
            let text = column(name)?;
            decimal(text, 6)
                .ok_or_else(|| format!("column {name}: `{text}` is not a number of milliseconds"))
        };
        let end_ns = decimal(words[0], 9)
            .ok_or_else(|| format!("column TIME(s): `{}` is not a number of seconds", words[0]))?;
        let mut response_ns = milliseconds("LAT(ms)")?;
        if self.action == BlockAction::Queue && word("QUE(ms)").is_some_and(|q| !q.starts_with('-'))
        {
            response_ns = response_ns.saturating_add(milliseconds("QUE(ms)")?);
        }
        let (device, rwbs) = (column("DISK")?, column("T")?);
        let sector = number(column("SECTOR")?, "sector")?;
        let bytes = number(column("BYTES")?, "number of bytes")?;
        if !bytes.is_multiple_of(SECTOR_BYTES) {
            return Err("column BYTES: the value is not a multiple of 512".to_owned());
        }
        let issued_ns = end_ns.checked_add(BEFORE_NS).and_then(|ns| ns.checked_sub(response_ns));
        let issued_ns = issued_ns.ok_or("column LAT(ms): the value is more than an hour")?;
        let at_ns = self.clock.at(issued_ns, to)?;
        let place = Some((sector, bytes / SECTOR_BYTES));
        Event { device, at_ns, rwbs, place, response_ns: Some(response_ns) }.push(None, to)
    }
}
