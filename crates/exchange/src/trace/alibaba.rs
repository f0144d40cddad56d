//! Parses Alibaba's block traces of 2020: device, `R` or `W`, offset and length in bytes, time in microseconds since
//! 1970.
//!
//! Source: README.md of github.com/alibaba/block-traces, "Schema", `io_traces.csv`.

use super::fields::{self, Clock, Fields, is_whole};
use super::sink::Traced;
use super::{Lines, Sink};

pub(super) fn is_head(line: &str) -> bool {
    // The description misspells the last column as `timestmap`.
    fields::is_head(line, "device_id,opcode,offset,length,timestamp")
        || fields::is_head(line, "device_id,opcode,offset,length,timestmap")
}

pub(super) fn is_row(line: &str) -> bool {
    let is_kind = |text: &str| matches!(text, "R" | "W");
    fields::is_row(line, [is_whole, is_kind, is_whole, is_whole, is_whole])
}

#[derive(Default)]
pub(super) struct Alibaba {
    clock: Clock,
}

impl Lines for Alibaba {
    fn line(&mut self, text: &str, to: &mut Sink<'_>) -> Result<(), String> {
        let mut fields = Fields::of(text);
        let device = fields.whole("device")?.to_string();
        let opcode = fields.next("operation")?;
        let offset = fields.whole("offset")?;
        let len = fields.whole("length")?;
        let ns = fields.multiple("time", 1000)?;
        fields.end()?;
        let Some(kind) = to.kind(opcode, "R", "W") else { return Ok(()) };
        let at_ns = self.clock.at(ns, to)?;
        to.push_named(&["device.", &device], Traced::new(at_ns, kind, offset, len))
    }
}
