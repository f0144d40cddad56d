//! The text that blkparse prints by default: `device cpu sequence time process action RWBS sector + sectors [name]`.
//!
//! Operations are the queued (`Q`) or the issued (`D`) ones; a completion (`C`) gives the response time of the
//! operation with its first sector. The tables behind the events, from the first `CPU` or `Total` on, are not read.

use super::{BlockAction, Lines, Sink, number};
use iodyno_units::OpKind;
use std::collections::HashMap;

const SECTOR_BYTES: u64 = 512;
/// Operations that wait for their completion; of more, the response times are left out.
const IN_FLIGHT_MAX: usize = 1 << 20;

/// Whether a line is an event.
pub(super) fn is_event(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    words.next().is_some_and(is_device) && words.nth(2).is_some_and(|time| time_ns(time).is_some())
}

fn is_device(word: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    word.split_once(',').is_some_and(|(major, minor)| digits(major) && digits(minor))
}

/// `1.000000123`, in ns.
fn time_ns(word: &str) -> Option<u64> {
    let (seconds, rest) = word.split_once('.')?;
    if rest.len() != 9 || !rest.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(rest.parse().ok()?)
}

pub(super) struct Blkparse {
    letter: &'static str,
    /// By device and first sector: the operation's number, and its time, ns.
    in_flight: HashMap<(String, u64), (usize, u64)>,
    is_over: bool,
}

impl Blkparse {
    pub(super) fn new(action: BlockAction) -> Self {
        let letter = match action {
            BlockAction::Queue => "Q",
            BlockAction::Issue => "D",
        };
        Self { letter, in_flight: HashMap::new(), is_over: false }
    }

    fn operation(
        &mut self,
        (device, at_ns): (&str, u64),
        rwbs: &str,
        place: Option<(u64, u64)>,
        to: &mut Sink<'_>,
    ) -> Result<(), String> {
        let flags = Rwbs::read(rwbs);
        if flags.flushes_before || flags.kind == Some(OpKind::Flush) {
            to.push(device, at_ns, (OpKind::Flush, false), (0, 0), None)?;
        }
        let (sector, sectors) = place.unwrap_or_default();
        match flags.kind {
            Some(OpKind::Flush) => {}
            None if flags.flushes_before && sectors == 0 => {}
            None => to.leave_out(&format!(
                "events of the kind `{rwbs}`, which is not a read, write or discard"
            )),
            Some(kind) if sectors == 0 => {
                if !flags.flushes_before {
                    to.leave_out(&format!("{} of no sectors", kind.name()));
                }
            }
            Some(kind) => {
                let too_large = "the sector is too large";
                let offset = sector.checked_mul(SECTOR_BYTES).ok_or(too_large)?;
                let len = sectors.checked_mul(SECTOR_BYTES).ok_or(too_large)?;
                let fua = flags.fua && kind == OpKind::Write;
                if let Some(index) = to.push(device, at_ns, (kind, fua), (offset, len), None)?
                    && self.in_flight.len() < IN_FLIGHT_MAX
                {
                    self.in_flight.insert((device.to_owned(), sector), (index, at_ns));
                }
            }
        }
        Ok(())
    }
}

impl Lines for Blkparse {
    fn line(&mut self, text: &str, to: &mut Sink<'_>) -> Result<(), String> {
        let words: Vec<&str> = text.split_ascii_whitespace().take(10).collect();
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
                "an event has a device, a processor, a number, a time, a process and an action"
                    .to_owned(),
            );
        };
        if !is_device(device) {
            return Err(format!("`{device}` is not a device, such as 8,0"));
        }
        let at_ns =
            time_ns(time).ok_or_else(|| format!("`{time}` is not a time, such as 0.000000000"))?;
        if *action != self.letter && *action != "C" {
            to.leave_out(&format!("events of the action `{action}`"));
            return Ok(());
        }
        let rwbs = words.get(6).copied().unwrap_or_default();
        let place = match words.get(7..) {
            Some([sector, "+", sectors, ..]) => {
                Some((number(sector, "sector")?, number(sectors, "number of sectors")?))
            }
            Some([sector, ..])
                if sector.starts_with(|c: char| c.is_ascii_digit()) && *action != "C" =>
            {
                let words = format!("events of the kind `{rwbs}` without sectors");
                to.leave_out(&words);
                return Ok(());
            }
            _ => None,
        };
        if *action == "C" {
            to.leave_out("events of the action `C`");
            if let Some((sector, _)) = place
                && let Some((index, _)) = self.in_flight.remove(&((*device).to_owned(), sector))
            {
                to.builder.completed(index, at_ns);
            }
            return Ok(());
        }
        self.operation((device, at_ns), rwbs, place, to)
    }
}

/// What the letters of RWBS say of an operation.
struct Rwbs {
    flushes_before: bool,
    /// None for a kind that is no operation of block storage here.
    kind: Option<OpKind>,
    fua: bool,
}

impl Rwbs {
    /// The kernel writes `F` for a flush before, then the letter of the kind, then `F` for FUA, and others.
    fn read(text: &str) -> Self {
        let flushes_before = text.starts_with('F');
        let rest = text.strip_prefix('F').unwrap_or(text);
        let kind = match rest.chars().next() {
            Some('R') => Some(OpKind::Read),
            Some('W') => Some(OpKind::Write),
            Some('D') => Some(OpKind::Trim),
            Some('F') => Some(OpKind::Flush),
            _ => None,
        };
        let fua = kind.is_some() && rest[1..].starts_with('F');
        Self { flushes_before: flushes_before && kind != Some(OpKind::Flush), kind, fua }
    }
}
