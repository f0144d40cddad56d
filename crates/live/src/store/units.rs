//! Splits byte ranges into parts of units. A unit is 4 KiB, the granularity of the machine's content events and of the
//! checksums. A power cut tears a unit only if the device's atomic blocks are smaller.

pub use iodyno_emulate::UNIT_BYTES;

/// Size of a unit, 4 KiB, as `usize`.
pub(super) const UNIT: usize = UNIT_BYTES as usize;

/// Overlap of a byte range with one 4 KiB unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Index of the 4 KiB unit in the volume.
    pub unit: u64,
    /// Start of the range's overlap with the unit, bytes from the start of the unit.
    pub from: usize,
    /// Exclusive end of the range's overlap with the unit, bytes from the start of the unit.
    pub to: usize,
    /// Start of the range's overlap with the unit, bytes from the start of the range.
    pub at: u64,
}

impl Part {
    /// Whether the overlap is the whole unit.
    pub(super) fn is_whole(self) -> bool {
        self.to - self.from == UNIT
    }

    /// Overlap of `unit` with a byte range; empty if the range does not touch the unit.
    pub(super) fn of(unit: u64, offset_bytes: u64, len_bytes: u64) -> Self {
        let start = unit * UNIT_BYTES;
        let from = offset_bytes.clamp(start, start + UNIT_BYTES);
        let to = (offset_bytes + len_bytes).clamp(from, start + UNIT_BYTES);
        Self {
            unit,
            from: (from - start) as usize,
            to: (to - start) as usize,
            at: from.saturating_sub(offset_bytes),
        }
    }

    /// Byte range of the overlap, relative to the start of the original range.
    pub(super) fn range(self) -> std::ops::Range<usize> {
        self.at as usize..self.at as usize + (self.to - self.from)
    }

    /// Offset of the overlap on the volume, bytes.
    pub(super) fn offset_bytes(self) -> u64 {
        self.unit * UNIT_BYTES + self.from as u64
    }
}

/// Units that a byte range covers in full or in part, by number.
pub(super) fn touched(offset_bytes: u64, len_bytes: u64) -> std::ops::Range<u64> {
    if len_bytes == 0 {
        return 0..0;
    }
    offset_bytes / UNIT_BYTES..(offset_bytes + len_bytes).div_ceil(UNIT_BYTES)
}

/// Units that a byte range covers in full, by number.
pub(super) fn covered(offset_bytes: u64, len_bytes: u64) -> std::ops::Range<u64> {
    let from = offset_bytes.div_ceil(UNIT_BYTES);
    from..((offset_bytes + len_bytes) / UNIT_BYTES).max(from)
}

/// Splits a byte range at unit boundaries, in ascending order.
pub(super) fn parts(offset_bytes: u64, len_bytes: u64) -> impl Iterator<Item = Part> {
    touched(offset_bytes, len_bytes).map(move |unit| Part::of(unit, offset_bytes, len_bytes))
}

/// Partly covered units at the start and the end of a byte range.
pub(super) fn ends(offset_bytes: u64, len_bytes: u64) -> impl Iterator<Item = Part> {
    let units = touched(offset_bytes, len_bytes);
    let last = (units.end > units.start + 1).then(|| units.end - 1);
    (units.start..units.end.min(units.start + 1))
        .chain(last)
        .map(move |unit| Part::of(unit, offset_bytes, len_bytes))
        .filter(|part| !part.is_whole())
}

/// CRC-32C of a unit. A result of 0 is replaced with 1, because 0 means that there is no checksum.
#[inline]
pub(super) fn sum(unit: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(unit).max(1)
}

/// A run of consecutive units that are all data or all holes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Whether the run is data; otherwise it is a hole.
    pub data: bool,
    /// Exclusive end of the run, as the index of a 4 KiB unit.
    pub end: u64,
}

/// Result of verifying a unit's data against its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Soundness {
    /// The data matches its checksum.
    Sound,
    /// The data has no checksum, for instance because it was written before checksums were kept.
    Unknown,
    /// The data does not match its checksum.
    Corrupt,
    /// The unit is a hole.
    Unwritten,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_tile_a_range() {
        for (offset, len) in
            [(0, 4096), (1, 1), (4095, 2), (100, 9000), (8192, 4097), (5, 0), (1, 8191), (7, 4089)]
        {
            let mut at = 0;
            for part in parts(offset, len) {
                assert_eq!(part.offset_bytes(), offset + at);
                assert_eq!(part.at, at);
                at += (part.to - part.from) as u64;
            }
            assert_eq!(at, len);
            let whole: Vec<u64> =
                parts(offset, len).filter(|p| p.is_whole()).map(|p| p.unit).collect();
            assert_eq!(whole, covered(offset, len).collect::<Vec<_>>());
            let partial: Vec<Part> = parts(offset, len).filter(|p| !p.is_whole()).collect();
            assert_eq!(ends(offset, len).collect::<Vec<_>>(), partial);
        }
    }
}
