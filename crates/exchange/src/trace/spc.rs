//! Parses trace files of the Storage Performance Council, such as Financial and `WebSearch` of the University of
//! Massachusetts: ASU (application-specific unit), address in blocks, size in bytes, `R` or `W`, seconds since the
//! start. Further fields are ignored. The block size, which the format leaves open, is assumed to be 512 bytes.
//!
//! Source: SPC Trace File Format Specification, revision 1.0.1, section 1.

use super::fields::{Fields, is_seconds, is_whole};
use super::rwbs::SECTOR_BYTES;
use super::sink::Traced;
use super::{Lines, Sink};
use iodyno_units::OpKind;

pub(super) fn is_row(line: &str) -> bool {
    let mut fields = line.split(',').map(str::trim);
    let tests: [fn(&str) -> bool; 5] =
        [is_whole, is_whole, is_whole, |text| kind(text).is_some(), is_seconds];
    tests.iter().all(|test| fields.next().is_some_and(test))
}

fn kind(text: &str) -> Option<OpKind> {
    match text {
        "R" | "r" => Some(OpKind::Read),
        "W" | "w" => Some(OpKind::Write),
        _ => None,
    }
}

#[derive(Default)]
pub(super) struct Spc;

impl Lines for Spc {
    fn line(&mut self, text: &str, to: &mut Sink<'_>) -> Result<(), String> {
        let mut fields = Fields::of(text);
        let unit = fields.whole("unit (ASU)")?.to_string();
        let offset = fields.multiple("address", SECTOR_BYTES)?;
        let size = fields.whole("size")?;
        let what = fields.next("operation")?;
        let kind = kind(what).ok_or("column 4: the operation must be R or W")?;
        let at_ns = fields.seconds("time")?;
        to.push_named(&["asu.", &unit], Traced::new(at_ns, kind, offset, size))
    }

    fn end(&mut self, to: &mut Sink<'_>) -> Result<(), String> {
        to.notes.push(
            "addresses are taken as numbers of 512-byte blocks; the file does not state the block size"
                .to_owned(),
        );
        Ok(())
    }
}
