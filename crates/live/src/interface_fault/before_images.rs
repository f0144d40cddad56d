//! Old content of ranges that were overwritten since a fault was injected, for stale reads.

use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum amount of old content that is kept, bytes. Ranges overwritten beyond this limit are read correctly.
const KEPT_BYTES_MAX: u64 = 64 << 20;

/// Content that a part of a read's range had before the fault was injected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Older {
    /// Start of the part, bytes from the start of the read.
    at: usize,
    bytes: Vec<u8>,
}

impl Older {
    /// Copies the old content into the buffer of the read. No-op if the read transfers no data.
    pub(super) fn copy_to(&self, read: &mut [u8]) {
        if let Some(part) = read.get_mut(self.at..self.at + self.bytes.len()) {
            part.copy_from_slice(&self.bytes);
        }
    }
}

/// For each range overwritten since the fault was injected: the content before the first overwrite.
#[derive(Clone, Debug, Default)]
pub(super) struct BeforeImages {
    /// Content by offset, without overlaps.
    pieces: BTreeMap<u64, Vec<u8>>,
    kept_bytes: u64,
}

impl BeforeImages {
    /// Saves the present content of a range that is about to change, except for parts that are already saved. If `read`
    /// returns false, the content can't be read and is not saved.
    pub(super) fn save(
        &mut self,
        range: &Range<u64>,
        read: &mut dyn FnMut(u64, &mut [u8]) -> bool,
    ) {
        let mut at = range.start;
        while at < range.end {
            let before = self.pieces.range(..=at).next_back();
            let known_end = before.map_or(0, |(start, bytes)| start + bytes.len() as u64);
            if known_end > at {
                at = known_end;
                continue;
            }
            let next = self.pieces.range(at..range.end).next();
            let end = next.map_or(range.end, |(start, _)| *start);
            if self.kept_bytes + (end - at) > KEPT_BYTES_MAX {
                return;
            }
            let mut bytes = vec![0; (end - at) as usize];
            if read(at, &mut bytes) {
                self.kept_bytes += bytes.len() as u64;
                self.pieces.insert(at, bytes);
            }
            at = end;
        }
    }

    /// Saved parts of the old content of a range.
    pub(super) fn of(&self, range: &Range<u64>) -> Vec<Older> {
        let before = self.pieces.range(..=range.start).next_back();
        let first = before.map_or(range.start, |(start, _)| *start);
        let pieces = self.pieces.range(first..range.end);
        let of_piece = |(&start, bytes): (&u64, &Vec<u8>)| {
            let (from, end) = (start.max(range.start), (start + bytes.len() as u64).min(range.end));
            (from < end).then(|| Older {
                at: (from - range.start) as usize,
                bytes: bytes[(from - start) as usize..(end - start) as usize].to_vec(),
            })
        };
        pieces.filter_map(of_piece).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng::{below, stream};

    /// After any sequence of writes, the present content overlaid with the saved parts gives the original content.
    #[test]
    fn what_was_replaced_is_known() {
        let mut rng = stream(1, "before images", 0);
        for _ in 0..200 {
            let mut disk: Vec<u8> = (0..256).map(|_| below(&mut rng, 256) as u8).collect();
            let first = disk.clone();
            let mut images = BeforeImages::default();
            let mut changed = [false; 256];
            for _ in 0..20 {
                let start = below(&mut rng, 256);
                let end = start + 1 + below(&mut rng, 256 - start);
                images.save(&(start..end), &mut |at, into| {
                    into.copy_from_slice(&disk[at as usize..][..into.len()]);
                    true
                });
                let value = below(&mut rng, 256) as u8;
                disk[start as usize..end as usize].fill(value);
                changed[start as usize..end as usize].fill(true);
                let mut read = disk.clone();
                let parts = images.of(&(0..256));
                for part in &parts {
                    part.copy_to(&mut read);
                }
                assert_eq!(read, first);
                let saved: usize = parts.iter().map(|part| part.bytes.len()).sum();
                assert_eq!(saved, changed.iter().filter(|of| **of).count());
                let mut within = disk[start as usize..end as usize].to_vec();
                for part in images.of(&(start..end)) {
                    part.copy_to(&mut within);
                }
                assert_eq!(within, first[start as usize..end as usize]);
            }
        }
    }

    #[test]
    fn memory_is_limited() {
        let mut images = BeforeImages::default();
        let read = &mut |_: u64, _: &mut [u8]| true;
        images.save(&(0..KEPT_BYTES_MAX), read);
        images.save(&(KEPT_BYTES_MAX..KEPT_BYTES_MAX + 1), read);
        assert_eq!(images.kept_bytes, KEPT_BYTES_MAX);
        assert_eq!(images.of(&(KEPT_BYTES_MAX..KEPT_BYTES_MAX + 1)), []);
    }
}
