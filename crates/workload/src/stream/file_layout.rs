//! Maps an address in a file set to an offset from the start of the active range, in constant time and memory.
//! Addresses count through all files, one file after the other.
//!
//! The layout is that of ext4 with blocks of 4 KiB: flexible groups of 2 GiB. A flexible group consists of 16 block
//! groups, and starts with the bitmaps and inode tables of all of them. Files are contiguous and follow each other. If
//! the file set has an extent length instead, a bijection scatters the extents over the range.

use super::geometry::GeometryError;
use super::permute::Permutation;
use crate::file_set::{FS_BLOCK_BYTES, FileSet};
use iodyno_units::rng;

/// Size of a flexible block group of ext4, bytes: 16 block groups of 128 MiB, the default of mkfs.ext4
/// (flex_bg).
const FLEX_GROUP_BYTES: u64 = 2 << 30;
/// Size of the metadata at the start of a flexible block group, bytes: 16 inode tables of 2 MiB (one inode of
/// 256 B per 16 KiB of data) and 32 bitmaps.
const METADATA_BYTES: u64 = 33 << 20;
const DATA_BYTES: u64 = FLEX_GROUP_BYTES - METADATA_BYTES;

/// Maps offsets in a file set to offsets in the active range, as on a real file system.
#[derive(Debug)]
pub(super) struct FileLayout {
    file_bytes: u64,
    files: u64,
    /// Random order of extents, and the length of an extent in bytes; None: contiguous files.
    scattered: Option<(Permutation, u64)>,
}

impl FileLayout {
    /// Creates the layout for an active range of `range_bytes` and operations of up to `largest_bytes`, aligned
    /// to `align_bytes`.
    pub(super) fn new(
        set: &FileSet,
        seed: u64,
        range_bytes: u64,
        align_bytes: u64,
        largest_bytes: u64,
    ) -> Result<Self, GeometryError> {
        let files = u64::from(set.files.max(1));
        let unit_bytes = align_bytes.max(FS_BLOCK_BYTES);
        let file_bytes = set.size.on(range_bytes) / files / unit_bytes * unit_bytes;
        if file_bytes < largest_bytes.max(1) {
            return Err(GeometryError::SmallFiles { file_bytes, block_bytes: largest_bytes });
        }
        let (whole, rest) = (range_bytes / FLEX_GROUP_BYTES, range_bytes % FLEX_GROUP_BYTES);
        let rest = rest.saturating_sub(METADATA_BYTES);
        let data_bytes = match set.extent_bytes {
            None => whole * DATA_BYTES + rest,
            Some(extent) => (whole * (DATA_BYTES / extent) + rest / extent) * extent,
        };
        let set_bytes = file_bytes.checked_mul(files).filter(|bytes| *bytes <= data_bytes);
        if set_bytes.is_none() {
            let set_bytes = file_bytes.saturating_mul(files);
            return Err(GeometryError::FileSetTooLarge { set_bytes, data_bytes });
        }
        let scattered = set.extent_bytes.map(|extent| {
            let key = rng::key(seed, "extents", 0);
            (Permutation::new(data_bytes / extent, key), extent)
        });
        Ok(Self { file_bytes, files, scattered })
    }

    /// Total size of all files of the set, bytes.
    pub(super) const fn bytes(&self) -> u64 {
        self.file_bytes * self.files
    }

    /// Distance from the start of the range to the end of the last extent, bytes.
    pub(super) fn span_bytes(&self, range_bytes: u64) -> u64 {
        match self.scattered {
            None => self.offset(self.bytes() - 1, 1) + 1,
            Some(_) => range_bytes,
        }
    }

    /// Maps an offset in the file set to an offset in the active range, bytes. An operation that would cross the
    /// end of its file or extent is moved to end there, so that it is contiguous on the device.
    #[inline]
    pub(super) fn offset(&self, address: u64, len_bytes: u64) -> u64 {
        let back = |at: u64, end: u64| if at + len_bytes > end { end - len_bytes } else { at };
        let first = address / self.file_bytes * self.file_bytes;
        let address = first + back(address - first, self.file_bytes);
        match &self.scattered {
            None => {
                let within = back(address % DATA_BYTES, DATA_BYTES);
                address / DATA_BYTES * FLEX_GROUP_BYTES + METADATA_BYTES + within
            }
            Some((order, extent_bytes)) => {
                let a_group = DATA_BYTES / extent_bytes;
                let place = order.apply(address / extent_bytes);
                let within = back(address % extent_bytes, *extent_bytes);
                let start = METADATA_BYTES + place % a_group * extent_bytes;
                place / a_group * FLEX_GROUP_BYTES + start + within
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::{Edge, Percent};
    use std::collections::{BTreeMap, BTreeSet};

    fn layout(files: u32, percent: f64, extent_bytes: Option<u64>, range_bytes: u64) -> FileLayout {
        let size = Edge::Share(Percent::from_fraction(percent / 100.0));
        let set = FileSet { files, size, extent_bytes };
        FileLayout::new(&set, 7, range_bytes, 16384, 16384).unwrap()
    }

    /// Every block of every file maps to a different block of the range, outside metadata.
    #[test]
    fn a_bijection_onto_the_data_of_the_range() {
        for extent in [None, Some(64 << 10), Some(4 << 20), Some(128 << 20)] {
            for range in [3_u64 << 30, (5 << 30) + 12_288, 200 << 20] {
                let set = layout(7, 37.0, extent, range);
                assert!(set.bytes() > range * 36 / 100 && set.bytes() <= range * 37 / 100);
                let places: BTreeSet<u64> = (0..set.bytes() / 16384)
                    .map(|block| set.offset(block * 16384, 16384))
                    .collect();
                assert_eq!(places.len() as u64, set.bytes() / 16384, "{extent:?} of {range}");
                let in_data = |at: &u64| {
                    at % FLEX_GROUP_BYTES >= METADATA_BYTES
                        && at / FLEX_GROUP_BYTES == (at + 16383) / FLEX_GROUP_BYTES
                };
                assert!(places.iter().all(in_data));
                let last = places.last().unwrap() + 16384;
                assert!(last <= set.span_bytes(range) && set.span_bytes(range) <= range);
            }
        }
    }

    /// Contiguous files fill whole flexible block groups; scattered files consist of extents of the configured
    /// length.
    #[test]
    fn the_lengths_of_extents() {
        let lengths = |set: &FileLayout| {
            let mut lengths = BTreeSet::new();
            let (mut start, mut last) = (0, set.offset(0, 4096));
            for at in (4096..set.bytes()).step_by(4096) {
                let place = set.offset(at, 4096);
                if place != last + 4096 {
                    lengths.insert(at - start);
                    start = at;
                }
                last = place;
            }
            lengths
        };
        assert_eq!(lengths(&layout(64, 90.0, None, 8 << 30)), BTreeSet::from([DATA_BYTES]));
        let scattered = lengths(&layout(64, 50.0, Some(1 << 20), 8 << 30));
        // Neighbours in the set are occasionally neighbours on the device.
        assert!(scattered.iter().all(|length| length % (1 << 20) == 0), "{scattered:?}");
        assert_eq!(scattered.first(), Some(&(1 << 20)));
        assert!(scattered.len() < 6, "{scattered:?}");
    }

    /// If the file or extent size is not a multiple of the block size, the last block is moved back rather than
    /// cross the end.
    #[test]
    fn no_operation_crosses_an_extent() {
        let size = Edge::Bytes(3 * (100 << 20));
        for extent_bytes in [None, Some(64 << 10)] {
            let set = FileSet { files: 3, size, extent_bytes };
            let set = FileLayout::new(&set, 7, 4 << 30, 4096, 12288).unwrap();
            let owner = |at: u64| (set.offset(at, 4096), at / (100 << 20));
            let owners: BTreeMap<u64, u64> = (0..set.bytes()).step_by(4096).map(owner).collect();
            for address in (0..set.bytes() - 12288).step_by(4096) {
                let at = set.offset(address, 12288);
                let inside = extent_bytes.unwrap_or(DATA_BYTES);
                let from = (at % FLEX_GROUP_BYTES - METADATA_BYTES) % inside;
                assert!(from + 12288 <= inside, "{address}: {from}");
                let whose = |block: u64| owners[&(at + block * 4096)];
                assert_eq!((whose(0), whose(0)), (whose(1), whose(2)), "of two files");
            }
        }
    }

    #[test]
    fn what_does_not_fit() {
        let set = |files, bytes| FileSet { files, size: Edge::Bytes(bytes), extent_bytes: None };
        let new = |set: FileSet, range| FileLayout::new(&set, 1, range, 4096, 16384).unwrap_err();
        let small = new(set(64, 64 << 12), 4 << 30).to_string();
        assert!(
            small.contains("a file of the file set has 4 KiB, less than one block of 16 KiB"),
            "{small}"
        );
        let words = new(set(2, 4 << 30), 4 << 30).to_string();
        assert!(words.contains("a file set of 4 GiB") && words.contains("4030 MiB"), "{words}");
    }
}
