//! Parses the CSV of the MSR Cambridge traces, as published by SNIA's IOTTA repository: time, host, disk, type,
//! offset, size, response time. Times are ticks of 100 ns since the year 1601. The response time is in ticks, too.
//!
//! Source: README.txt of trace set 387 of SNIA's IOTTA repository.

use super::fields::{Clock, Fields};
use super::sink::Traced;
use super::{Lines, Sink};
use iodyno_units::OpKind;

const TICK_NS: u64 = 100;
/// Minimum plausible time of a row, in ticks since 1601: the year 1917.
const TICKS_MIN: u64 = 100_000_000_000_000_000;

/// Whether a line is the heading with the column names.
pub(super) fn is_head(line: &str) -> bool {
    line.to_ascii_lowercase().starts_with("timestamp,hostname,disknumber,")
}

/// Whether a line is a row of this format.
pub(super) fn is_row(line: &str) -> bool {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let whole = |at: usize| fields[at].parse::<u64>().is_ok();
    let is_row = (6..=7).contains(&fields.len())
        && whole(0)
        && whole(2)
        && kind(fields[3]).is_some()
        && whole(4);
    // An SPC row with optional fields has a number in the second field too, but a small one in the first.
    is_row && (!whole(1) || fields[0].parse().is_ok_and(|ticks: u64| ticks >= TICKS_MIN))
}

fn kind(text: &str) -> Option<OpKind> {
    if text.eq_ignore_ascii_case("read") || text.eq_ignore_ascii_case("r") {
        Some(OpKind::Read)
    } else if text.eq_ignore_ascii_case("write") || text.eq_ignore_ascii_case("w") {
        Some(OpKind::Write)
    } else {
        None
    }
}

#[derive(Default)]
pub(super) struct Msr {
    clock: Clock,
}

impl Lines for Msr {
    fn line(&mut self, text: &str, to: &mut Sink<'_>) -> Result<(), String> {
        let mut fields = Fields::of(text);
        let ns = fields.multiple("time", TICK_NS)?;
        let (host, disk) = (fields.next("host")?, fields.whole("disk")?);
        let what = fields.next("type")?;
        let offset = fields.whole("offset")?;
        let size = fields.whole("size")?;
        // Some copies have no response times.
        let response_ns = match text.split(',').nth(6).map(str::trim) {
            None => None,
            Some("") => {
                fields.next("response time")?;
                None
            }
            Some(_) => Some(fields.whole("response time")?.saturating_mul(TICK_NS)),
        };
        fields.end()?;
        let Some(kind) = kind(what) else {
            to.leave_out(&format!("rows of the unknown type `{what}`"));
            return Ok(());
        };
        let at_ns = self.clock.at(ns, to)?;
        let op = Traced { response_ns, ..Traced::new(at_ns, kind, offset, size) };
        to.push_named(&[host, ".", &disk.to_string()], op)
    }
}
