//! Parses block-layer events of the Linux kernel as text from ftrace (`trace`, `trace_pipe`), `trace-cmd report` or
//! `perf script`.
//!
//! ```text
//! fio-1234    [003] .....   675.000012: block_rq_issue: 8,0 W 4096 () 2048 + 8 none,0,0 [fio]
//! fio  1234 [003]   675.000012: block:block_rq_complete: 8,0 W () 2048 + 8 none,0,0 [0]
//! ```
//!
//! Columns are read from the time on: seconds, event, device, RWBS, bytes (issues only), command, sector + sectors, and
//! last the process or the error.
//!
//! With `--action issue`, each `block_rq_issue` event is an operation. With `--action queue` (the default), operations
//! are either the `block_rq_issue` or the `block_bio_queue` events, depending on which of the two comes first in the
//! trace. Completions are `block_rq_complete` events, and for queued operations also `block_bio_complete`.
//!
//! Source: `TP_printk` of each event in Linux's `include/trace/events/block.h`, without and with priorities (from 6.8).

use super::blkparse::is_error;
use super::fields::{Clock, decimal};
use super::in_flight::InFlight;
use super::rwbs::{Event, device_number, flushed};
use super::{BlockAction, Lines, Sink, number};

const ISSUE: &str = "block_rq_issue";
const QUEUE: &str = "block_bio_queue";

/// Whether a line can be the first of an event trace: a heading or an event.
pub(super) fn is_first(line: &str) -> bool {
    is_head(line) || split(line).is_some()
}

/// Whether a line is the first line of ftrace's, perf script's or trace-cmd's heading.
pub(super) fn is_head(line: &str) -> bool {
    let cpus = line.strip_prefix("cpus=").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    line.starts_with("# tracer:") || line.starts_with("# ========") || cpus
}

/// Splits an event line into the time in ns, the name of the event and its arguments. None if the line is not
/// an event.
fn split(line: &str) -> Option<(u64, &str, &str)> {
    let mut rest = line;
    let mut before = "";
    loop {
        let start = rest.trim_ascii_start();
        let end = start.find(|c: char| c.is_ascii_whitespace()).unwrap_or(start.len());
        let (word, behind) = start.split_at(end);
        if word.is_empty() {
            return None;
        }
        if let Some(event) = word.strip_suffix(':')
            && let Some(time) = before.strip_suffix(':').filter(|time| time.contains('.'))
            && let Some(at_ns) = decimal(time, 9)
        {
            return Some((at_ns, event.strip_prefix("block:").unwrap_or(event), behind));
        }
        (before, rest) = (word, behind);
    }
}

pub(super) struct Events {
    action: BlockAction,
    /// Name of the event that counts as an operation; None until the first one is found.
    operation: Option<&'static str>,
    other_queues: u64,
    lost: u64,
    clock: Clock,
    in_flight: InFlight,
}

impl Events {
    pub(super) fn new(action: BlockAction) -> Self {
        Self {
            action,
            operation: (action == BlockAction::Issue).then_some(ISSUE),
            other_queues: 0,
            lost: 0,
            clock: Clock::default(),
            in_flight: InFlight::default(),
        }
    }
}

impl Lines for Events {
    fn line(&mut self, text: &str, to: &mut Sink<'_>) -> Result<(), String> {
        if text.starts_with('#') || is_head(text) {
            return Ok(());
        }
        let Some((ns, name, words)) = split(text) else {
            if text.contains("[LOST") || text.contains("EVENTS DROPPED") {
                self.lost += 1;
                to.leave_out("reports of lost events");
            } else if text.contains("block_rq_") || text.contains("block_bio_") {
                return Err("an event needs a time in seconds before its name, such as `675.000012:`, from a clock such as `local` or `mono`".to_owned());
            } else {
                to.leave_out("lines without an event");
            }
            return Ok(());
        };
        let is_operation = name == ISSUE || name == QUEUE;
        if is_operation && self.operation.is_none() {
            self.operation = Some(if name == ISSUE { ISSUE } else { QUEUE });
        }
        let are_merged = self.operation == Some(QUEUE);
        let is_requeue = name == "block_rq_requeue" && !are_merged;
        let is_completion =
            name == "block_rq_complete" || name == "block_bio_complete" && are_merged;
        let is_operation = is_operation && self.operation == Some(name);
        if !(is_operation || is_requeue || is_completion) {
            self.other_queues += u64::from(name == QUEUE && self.action == BlockAction::Queue);
            to.leave_out(&format!("events `{name}`"));
            let mut words = words.split_ascii_whitespace();
            if name == ISSUE
                && let (Some(device), Some(rwbs)) = (words.next(), words.next())
                && let Some(device) = flushed(device, rwbs)
            {
                self.in_flight.flush_issued(device);
            }
            return Ok(());
        }
        let words: Vec<&str> = words.split_ascii_whitespace().take(40).collect();
        let [device, rwbs, rest @ ..] = words.as_slice() else {
            return Err(format!(
                "the event `{name}` must have a device and the letters of its kind, such as WS"
            ));
        };
        if device_number(device).is_none() {
            return Err(format!("`{device}` is not a device number such as 8,0"));
        }
        let plus = rest.iter().position(|word| *word == "+");
        let place = plus.and_then(|at| Some((rest.get(at.checked_sub(1)?)?, rest.get(at + 1)?)));
        let (sector, sectors) = place.ok_or_else(|| {
            format!("the event `{name}` must have a sector, a + and a number of sectors")
        })?;
        let place = Some((number(sector, "sector")?, number(sectors, "number of sectors")?));
        let at_ns = self.clock.at(ns, to)?;
        let event = Event { device, at_ns, rwbs, place, response_ns: None };
        let range = event.range();
        if is_operation {
            if let Some(index) = range.and_then(|range| self.in_flight.reissued(range)) {
                to.leave_out("repeated issue events of requeued operations");
                to.builder.reissued(index, at_ns);
                return Ok(());
            }
            return event.push(Some(&mut self.in_flight), to);
        }
        to.leave_out(&format!("events `{name}`"));
        let is_failed = words.last().is_some_and(|word| is_error(word));
        let end_ns = (!is_failed).then_some(at_ns);
        if let Some(device) = flushed(device, rwbs).filter(|_| name == "block_rq_complete") {
            self.in_flight.flush_completed(device, end_ns, &mut to.builder);
            return Ok(());
        }
        let Some(range) = range else { return Ok(()) };
        if is_requeue {
            self.in_flight.requeued(range);
            return Ok(());
        }
        let is_known = self.in_flight.completed(range, end_ns, are_merged, &mut to.builder);
        // The completion of a request comes before those of its parts, and has already ended them.
        if !is_known && range.sectors > 0 && name == "block_rq_complete" {
            self.in_flight.was_unmatched();
        }
        Ok(())
    }

    fn end(&mut self, to: &mut Sink<'_>) -> Result<(), String> {
        if let Some(name) = self.operation {
            to.notes.push(format!("the replayed operations are the events `{name}`"));
        }
        if self.other_queues > 0 {
            to.notes.push(format!(
                "{} events `{QUEUE}` are left out, since the first event is `{ISSUE}`: to replay them instead, remove all events before the first `{QUEUE}`",
                self.other_queues
            ));
        }
        if self.lost > 0 {
            to.notes.push("events were lost when the trace was recorded, so operations are missing: record with a larger buffer".to_owned());
        }
        to.notes.extend(self.in_flight.notes(to.is_whole()));
        Ok(())
    }
}
