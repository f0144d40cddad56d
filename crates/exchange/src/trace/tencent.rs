//! Parses Tencent's block traces of 2018 (CBS): time in seconds since 1970, offset and size in sectors of 512 bytes,
//! type (0: read, 1: write), volume.
//!
//! Source: README.txt of trace set 27917 of SNIA's IOTTA repository, "I/O trace file format".

use super::fields::{self, Clock, Fields, is_whole};
use super::rwbs::SECTOR_BYTES;
use super::sink::Traced;
use super::{Lines, Sink};

/// Minimum plausible time of a row, seconds since 1970: the year 2001.
const SECONDS_MIN: u64 = 1_000_000_000;

pub(super) fn is_head(line: &str) -> bool {
    fields::is_head(line, "timestamp,offset,size,iotype,volumeid")
}

pub(super) fn is_row(line: &str) -> bool {
    let is_time = |text: &str| text.parse::<u64>().is_ok_and(|seconds| seconds >= SECONDS_MIN);
    let is_kind = |text: &str| matches!(text, "0" | "1");
    fields::is_row(line, [is_time, is_whole, is_whole, is_kind, is_whole])
}

#[derive(Default)]
pub(super) struct Tencent {
    clock: Clock,
}

impl Lines for Tencent {
    fn line(&mut self, text: &str, to: &mut Sink<'_>) -> Result<(), String> {
        let mut fields = Fields::of(text);
        let ns = fields.multiple("time", 1_000_000_000)?;
        let offset = fields.multiple("offset", SECTOR_BYTES)?;
        let size = fields.multiple("size", SECTOR_BYTES)?;
        let what = fields.next("type")?;
        let volume = fields.whole("volume")?.to_string();
        fields.end()?;
        let Some(kind) = to.kind(what, "0", "1") else { return Ok(()) };
        let at_ns = self.clock.at(ns, to)?;
        to.push_named(&["volume.", &volume], Traced::new(at_ns, kind, offset, size))
    }

    fn end(&mut self, to: &mut Sink<'_>) -> Result<(), String> {
        to.notes.push(super::WHOLE_SECONDS.to_owned());
        Ok(())
    }
}
