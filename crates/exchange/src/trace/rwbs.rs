//! Decodes the RWBS field of block-layer events in the text of blkparse, ftrace, perf and biosnoop, and adds the
//! events to a trace. The kernel formats the field in `blk_fill_rwbs` (`kernel/trace/blktrace.c`).

use super::Sink;
use super::in_flight::{InFlight, Place};
use super::sink::Traced;
use iodyno_units::OpKind;

pub(super) const SECTOR_BYTES: u64 = 512;

/// Decoded RWBS field of a block-layer event: letters such as `WFS` for the kind and flags of an operation.
pub(super) struct Rwbs {
    pub(super) flushes_before: bool,
    /// Kind of operation; None for kinds that are not replayed.
    pub(super) kind: Option<OpKind>,
    pub(super) fua: bool,
}

impl Rwbs {
    /// Decodes the letters of a field: an optional `F` for a preceding flush, the kind, an optional `F` for FUA.
    /// Further letters are ignored.
    pub(super) fn read(text: &str) -> Self {
        let flushes_before = text.starts_with('F');
        let rest = text.strip_prefix('F').unwrap_or(text);
        let mut letters = rest.chars();
        let kind = match letters.next() {
            Some('R') => Some(OpKind::Read),
            Some('W') if letters.as_str().starts_with('Z') => Some(OpKind::WriteZeroes),
            Some('W') => Some(OpKind::Write),
            Some('D') => Some(OpKind::Trim),
            Some('F') => Some(OpKind::Flush),
            _ => None,
        };
        let fua = kind.is_some() && letters.as_str().starts_with('F');
        Self { flushes_before: flushes_before && kind != Some(OpKind::Flush), kind, fua }
    }
}

/// Parses a device number such as `8,0`, and returns the major number in the upper 32 bits and the minor
/// number in the lower 32.
pub(super) fn device_number(word: &str) -> Option<u64> {
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (major, minor) = word.split_once(',').filter(|(a, b)| digits(a) && digits(b))?;
    Some(u64::from(major.parse::<u32>().ok()?) << 32 | u64::from(minor.parse::<u32>().ok()?))
}

/// Device of a request that only flushes; None for other requests.
pub(super) fn flushed(device: &str, rwbs: &str) -> Option<u64> {
    (Rwbs::read(rwbs).kind == Some(OpKind::Flush)).then(|| device_number(device)).flatten()
}

pub(super) struct Event<'a> {
    pub(super) device: &'a str,
    pub(super) at_ns: u64,
    pub(super) rwbs: &'a str,
    /// First sector and number of sectors; None if the event has no range.
    pub(super) place: Option<(u64, u64)>,
    pub(super) response_ns: Option<u64>,
}

impl Event<'_> {
    /// The range by which a completion finds its operation; None if the event has no range or no known kind.
    pub(super) fn range(&self) -> Option<Place> {
        let kind = Rwbs::read(self.rwbs).kind?;
        let (sector, sectors) = self.place?;
        Some(Place { device: device_number(self.device)?, kind, sector, sectors })
    }

    /// Adds the event to the trace as a flush, as another operation, or as both.
    pub(super) fn push(
        &self,
        mut in_flight: Option<&mut InFlight>,
        to: &mut Sink<'_>,
    ) -> Result<(), String> {
        let Self { device, at_ns, rwbs, .. } = *self;
        let flags = Rwbs::read(rwbs);
        if flags.flushes_before || flags.kind == Some(OpKind::Flush) {
            // A write after a flush completes with it.
            let index = to.push(device, Traced::flush(at_ns, self.response_ns))?;
            if let (Some(index), Some(in_flight), Some(device)) =
                (index, in_flight.as_deref_mut(), device_number(device))
            {
                in_flight.flush(device, index, !flags.flushes_before);
            }
        }
        let (sector, sectors) = self.place.unwrap_or_default();
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
                let response_ns = self.response_ns;
                let op = Traced { fua, response_ns, ..Traced::new(at_ns, kind, offset, len) };
                let index = to.push(device, op)?;
                if let (Some(index), Some(in_flight), Some(range)) =
                    (index, in_flight, self.range())
                {
                    in_flight.issued(range, index);
                }
            }
        }
        Ok(())
    }
}
