//! Parses blkparse's default text output: `device cpu sequence time process action RWBS sector + sectors [name]`.
//!
//! Operations are the events `Q` (queued) or `D` (issued); `in_flight.rs` matches completions (`C`) to them. A number
//! other than 0 in brackets after a completion is an error. An operation that was put back into its queue (`R`) and
//! issued again counts once, at its last issue. Reading stops at the summary tables, which begin with `CPU` or
//! `Total`.
//!
//! Source: the manual page blkparse(1), "OUTPUT DESCRIPTION" and "DEFAULT FORMAT", of blktrace.

use super::in_flight::InFlight;
use super::rwbs::{Event, device_number, flushed};
use super::{BlockAction, Lines, Sink, number};

/// Whether a line has the form of an event.
pub(super) fn is_event(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    words.next().is_some_and(is_device) && words.nth(2).is_some_and(|time| time_ns(time).is_some())
}

fn is_device(word: &str) -> bool {
    device_number(word).is_some()
}

/// Parses a time in seconds with exactly nine decimals, such as `1.000000123`, and returns ns.
fn time_ns(word: &str) -> Option<u64> {
    let (seconds, rest) = word.split_once('.')?;
    if rest.len() != 9 || !rest.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(rest.parse().ok()?)
}

pub(super) struct Blkparse {
    action: BlockAction,
    in_flight: InFlight,
    is_over: bool,
}

impl Blkparse {
    pub(super) fn new(action: BlockAction) -> Self {
        Self { action, in_flight: InFlight::default(), is_over: false }
    }

    fn event(
        &mut self,
        action: &str,
        event: &Event<'_>,
        is_failed: bool,
        to: &mut Sink<'_>,
    ) -> Result<(), String> {
        let are_merged = self.action == BlockAction::Queue;
        let range = event.range();
        match action {
            "C" => {
                to.leave_out("events of the action `C`");
                let end_ns = (!is_failed).then_some(event.at_ns);
                if let Some(device) = flushed(event.device, event.rwbs) {
                    self.in_flight.flush_completed(device, end_ns, &mut to.builder);
                } else if let Some(range) = range
                    && range.sectors > 0
                    && !self.in_flight.completed(range, end_ns, are_merged, &mut to.builder)
                {
                    self.in_flight.was_unmatched();
                }
                Ok(())
            }
            "R" => {
                to.leave_out("events of the action `R`");
                if let Some(range) = range
                    && !are_merged
                {
                    self.in_flight.requeued(range);
                }
                Ok(())
            }
            _ => match range.and_then(|range| self.in_flight.reissued(range)) {
                Some(index) => {
                    to.leave_out("repeated issue events of requeued operations");
                    to.builder.reissued(index, event.at_ns);
                    Ok(())
                }
                None => event.push(Some(&mut self.in_flight), to),
            },
        }
    }
}

impl Lines for Blkparse {
    fn line(&mut self, text: &str, to: &mut Sink<'_>) -> Result<(), String> {
        let words: Vec<&str> = text.split_ascii_whitespace().take(16).collect();
        let first = words.first().copied().unwrap_or_default();
        if self.is_over
            || first.starts_with("CPU")
            || first.starts_with("Total")
            || first == "Input"
        {
            self.is_over |= first != "Input";
            to.leave_out("lines of tables");
            return Ok(());
        }
        let [device, _cpu, _sequence, time, _process, action, ..] = words.as_slice() else {
            return Err(
                "an event needs a device, a processor, a sequence number, a time, a process and an action"
                    .to_owned(),
            );
        };
        if !is_device(device) {
            return Err(format!("`{device}` is not a device number such as 8,0"));
        }
        let at_ns =
            time_ns(time).ok_or_else(|| format!("`{time}` is not a time such as 0.000000000"))?;
        let issue = match self.action {
            BlockAction::Queue => "Q",
            BlockAction::Issue => "D",
        };
        let rwbs = words.get(6).copied().unwrap_or_default();
        if ![issue, "C", "R"].contains(action) {
            to.leave_out(&format!("events of the action `{action}`"));
            if let Some(device) = flushed(device, rwbs).filter(|_| *action == "D") {
                self.in_flight.flush_issued(device);
            }
            return Ok(());
        }
        let place = match words.get(7..) {
            Some([sector, "+", sectors, ..]) => {
                Some((number(sector, "sector")?, number(sectors, "number of sectors")?))
            }
            Some([sector, ..])
                if sector.starts_with(|c: char| c.is_ascii_digit()) && *action == issue =>
            {
                let words = format!("events of the kind `{rwbs}` without sectors");
                to.leave_out(&words);
                return Ok(());
            }
            _ => None,
        };
        let is_failed = words.last().is_some_and(|word| is_error(word));
        let event = Event { device, at_ns, rwbs, place, response_ns: None };
        self.event(action, &event, is_failed, to)
    }

    fn end(&mut self, to: &mut Sink<'_>) -> Result<(), String> {
        to.notes.extend(self.in_flight.notes(to.is_whole()));
        Ok(())
    }
}

/// Whether a word is an error number in brackets: `[-5]`, or `[65531]` if it was stored in 16 bits.
pub(super) fn is_error(word: &str) -> bool {
    let inner = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
    inner.and_then(|number| number.parse::<i64>().ok()).is_some_and(|number| number != 0)
}
