//! Parses the SYSTOR '17 traces (virtual desktops at Fujitsu): time in seconds since 1970, response time in seconds,
//! type, LUN, offset and size in bytes. The type is `R`, `W` or empty; rows with an empty type had no response and are
//! left out.
//!
//! Source: README.txt of trace set 4928 of SNIA's IOTTA repository, "I/O trace file format".

use super::fields::{self, Clock, Fields, is_seconds, is_whole};
use super::sink::Traced;
use super::{Lines, Sink};

pub(super) fn is_head(line: &str) -> bool {
    fields::is_head(line, "timestamp,response,iotype,lun,offset,size")
}

pub(super) fn is_row(line: &str) -> bool {
    let is_response = |text: &str| text.is_empty() || is_seconds(text);
    let is_kind = |text: &str| matches!(text, "R" | "W" | "");
    fields::is_row(line, [is_seconds, is_response, is_kind, is_whole, is_whole, is_whole])
}

#[derive(Default)]
pub(super) struct Systor {
    clock: Clock,
}

impl Lines for Systor {
    fn line(&mut self, text: &str, to: &mut Sink<'_>) -> Result<(), String> {
        let mut fields = Fields::of(text);
        let ns = fields.seconds("time")?;
        // Without a type the response time means nothing, and may be missing.
        let has_response = text.split(',').nth(1).is_some_and(|field| !field.trim().is_empty());
        let response_ns = if has_response {
            Some(fields.seconds("response time")?)
        } else {
            fields.next("response time")?;
            None
        };
        let what = fields.next("type")?;
        let lun = fields.whole("LUN")?.to_string();
        let offset = fields.whole("offset")?;
        let size = fields.whole("size")?;
        fields.end()?;
        if what.is_empty() {
            to.leave_out("rows without a type, which are operations without a response");
            return Ok(());
        }
        let Some(kind) = to.kind(what, "R", "W") else { return Ok(()) };
        let at_ns = self.clock.at(ns, to)?;
        let op = Traced { response_ns, ..Traced::new(at_ns, kind, offset, size) };
        to.push_named(&["lun.", &lun], op)
    }
}
