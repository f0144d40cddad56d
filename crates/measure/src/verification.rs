//! Results of verifying the content of a cell's reads: the number and the lowest offsets of corrupt blocks, by kind of
//! corruption, and the runs that wrote the content. Results can be merged.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of offsets kept per finding; the lowest are kept.
const PLACES_MAX: usize = 4;
/// Maximum number of writers counted separately; further ones are counted in [`Verification::other_writers`].
const WRITERS_MAX: usize = 8;

/// Proven or possible corruption of a unit of verifiable content (a block with its own checksum and address).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The block is intact, but older than the latest acknowledged write.
    Stale,
    /// The block is all zeroes, although content had been written to it.
    Zeroed,
    /// The block contains data without checksum and address, although verifiable content had been written to it.
    Foreign,
    /// The block's sectors come from different writes, or some are zeroes.
    Torn,
    /// The block contains data that was written for another address.
    Misdirected,
    /// Some bytes of the block differ from those written.
    Damaged,
    /// The block is older than the latest acknowledged write, but that write had not been flushed, so a power cut
    /// may have lost it.
    Unflushed,
}

impl Finding {
    /// All findings, in the order in which they are shown.
    pub const ALL: [Self; 7] = [
        Self::Stale,
        Self::Zeroed,
        Self::Foreign,
        Self::Torn,
        Self::Misdirected,
        Self::Damaged,
        Self::Unflushed,
    ];

    /// Name of the finding in tables and JSON, such as `stale`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Zeroed => "zeroed",
            Self::Foreign => "foreign",
            Self::Torn => "torn",
            Self::Misdirected => "misdirected",
            Self::Damaged => "damaged",
            Self::Unflushed => "unflushed",
        }
    }

    /// Whether the finding proves a storage fault. False only for `Unflushed`, since an unflushed write may be
    /// lost.
    pub const fn is_wrong(self) -> bool {
        !matches!(self, Self::Unflushed)
    }
}

/// The units (blocks with their own checksum) that have the same finding: number of reads, number of units, and lowest
/// offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Found {
    /// Number of reads of blocks with this finding. A block read twice counts twice.
    pub reads: u64,
    /// Number of distinct blocks with this finding.
    pub units: u64,
    /// Lowest offsets of blocks with this finding, bytes, ascending; at most four.
    pub first_bytes: Vec<u64>,
}

/// Run that wrote part of the verified content, and the number of reads of its intact units (blocks with a checksum).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Writer {
    /// Identifier of the writing run: the time at which the run started, ns since 1970. In layout version 1, and for
    /// targets created anew for each cell, the identifier is not a time.
    pub stamp: u64,
    /// Number of reads of intact blocks that this writer wrote. A block read twice counts twice.
    pub reads: u64,
    /// Layout version of the verifiable content, 1 or 2; 0 in old runs that did not record it.
    pub layout: u8,
}

/// Completeness of the map of expected content that an earlier run saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptMap {
    /// No earlier run with stored results saved a map of the target.
    #[default]
    None,
    /// The map lacks the latest writes of a run that ended early.
    Unfinished,
    /// The map is complete: either it was saved by the latest run that wrote verifiable content, or this run filled the
    /// whole target before its first cell.
    Whole,
}

/// Result of verifying a cell's reads. Counts are of units read (blocks with their own checksum); a read of several
/// units counts several times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Verification {
    /// Length of a unit of verifiable content, bytes.
    pub unit_bytes: u32,
    /// Number of checked units; a unit read twice counts twice.
    pub checked: u64,
    /// Number of checked units that are intact and contain the latest known write.
    pub current: u64,
    /// Number of checked units that are intact, but possibly not from the latest write.
    pub whole: u64,
    /// Number of checked units without verifiable content, at addresses to which none is known to have been written.
    pub unverified: u64,
    /// Number of units among `unverified` that are all zeroes.
    pub unverified_zeroes: u64,
    /// Proven and possible corruption by kind; contains only kinds that occurred.
    pub found: BTreeMap<Finding, Found>,
    /// Runs that wrote the intact units, sorted by stamp; at most eight.
    pub writers: Vec<Writer>,
    /// Number of intact units written by runs that are not in `writers`.
    pub other_writers: u64,
    /// Completeness of the map of expected content; for several targets, that of the least complete map.
    pub kept_map: KeptMap,
    /// Fraction (0 to 1) of the active range that a full verification pass read; None if the cell is not such a pass.
    pub read_share: Option<f64>,
}

impl Verification {
    /// Creates an empty result for units of `unit_bytes`. Its counters are preallocated, so that counting does not
    /// allocate.
    pub fn of_units(unit_bytes: u32) -> Self {
        Self {
            unit_bytes,
            found: Finding::ALL
                .map(|finding| {
                    let first_bytes = Vec::with_capacity(PLACES_MAX + 1);
                    (finding, Found { first_bytes, ..Found::default() })
                })
                .into(),
            writers: Vec::with_capacity(WRITERS_MAX),
            ..Self::default()
        }
    }

    /// Counts an intact unit by its writer's stamp and layout. `current` means that it contains the latest known
    /// write.
    #[inline]
    pub fn add_whole(&mut self, stamp: u64, layout: u8, current: bool) {
        self.checked += 1;
        if current {
            self.current += 1;
        } else {
            self.whole += 1;
        }
        self.add_writer(Writer { stamp, reads: 1, layout });
    }

    fn add_writer(&mut self, one: Writer) {
        let same = |w: &&mut Writer| (w.stamp, w.layout) == (one.stamp, one.layout);
        if let Some(writer) = self.writers.iter_mut().find(same) {
            writer.reads += one.reads;
        } else if self.writers.len() < WRITERS_MAX {
            self.writers.push(one);
        } else {
            self.other_writers += one.reads;
        }
    }

    /// Counts a unit that has no verifiable content and was not expected to have any. `zeroes`: it is all zeroes.
    pub fn add_unverified(&mut self, zeroes: bool) {
        self.checked += 1;
        self.unverified += 1;
        self.unverified_zeroes += u64::from(zeroes);
    }

    /// Counts a unit that is or may be corrupt. `is_new` means that the unit was not counted for this finding before.
    pub fn add_found(&mut self, finding: Finding, offset_bytes: u64, is_new: bool) {
        self.checked += 1;
        let found = self.found.entry(finding).or_default();
        found.reads += 1;
        found.units += u64::from(is_new);
        found.add_place(offset_bytes);
    }

    /// Removes findings that did not occur, and sorts the writers by stamp.
    #[must_use]
    pub fn trimmed(mut self) -> Self {
        self.found.retain(|_, found| found.reads > 0);
        self.writers.sort_unstable_by_key(|w| (w.stamp, w.layout));
        self
    }

    /// The units with this finding; None if the finding did not occur.
    pub fn of(&self, finding: Finding) -> Option<&Found> {
        self.found.get(&finding).filter(|found| found.reads > 0)
    }

    /// Number of reads of units whose result proves a storage fault.
    pub fn wrong_reads(&self) -> u64 {
        self.found.iter().filter(|(of, _)| of.is_wrong()).map(|(_, found)| found.reads).sum()
    }

    /// Number of reads of units that were intact.
    pub fn verified(&self) -> u64 {
        self.current + self.whole
    }

    /// Share (0 to 1) of the units read that could not be verified.
    pub fn unverified_share(&self) -> f64 {
        if self.checked == 0 { 0.0 } else { self.unverified as f64 / self.checked as f64 }
    }

    /// Adds the results of another worker or target. For up to eight writers, the result does not depend on the order
    /// of merging. With more, the order decides which writers are counted separately.
    pub fn merge(&mut self, other: &Self) {
        if self.checked == 0 {
            self.kept_map = other.kept_map;
        } else if other.checked > 0 {
            self.kept_map = self.kept_map.min(other.kept_map);
        }
        self.unit_bytes = self.unit_bytes.max(other.unit_bytes);
        self.checked += other.checked;
        self.current += other.current;
        self.whole += other.whole;
        self.unverified += other.unverified;
        self.unverified_zeroes += other.unverified_zeroes;
        for (finding, theirs) in &other.found {
            let mine = self.found.entry(*finding).or_default();
            mine.reads += theirs.reads;
            mine.units += theirs.units;
            theirs.first_bytes.iter().for_each(|&at| mine.add_place(at));
        }
        for writer in &other.writers {
            self.add_writer(*writer);
        }
        self.other_writers += other.other_writers;
        self.read_share = match (self.read_share, other.read_share) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

impl Found {
    fn add_place(&mut self, offset_bytes: u64) {
        if let Err(at) = self.first_bytes.binary_search(&offset_bytes)
            && at < PLACES_MAX
        {
            self.first_bytes.insert(at, offset_bytes);
            self.first_bytes.truncate(PLACES_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result depends neither on the division of findings over workers nor on the order of merging.
    #[test]
    fn the_order_of_merging_does_not_matter() {
        let part = |from: u64| {
            let mut part = Verification::of_units(4096);
            for i in 0..20 {
                part.add_found(
                    Finding::ALL[(i + from) as usize % 7],
                    i * 13 % 11 * 4096 + from,
                    i < 9,
                );
                part.add_whole(from % 3 + 1, 2, i % 2 == 0);
                part.add_unverified(i % 3 == 0);
            }
            part
        };
        let parts = [1, 2, 3, 4, 5].map(part);
        let sum = |order: [usize; 5]| {
            let mut sum = Verification::default();
            for &i in &order {
                sum.merge(&parts[i]);
            }
            sum.trimmed()
        };
        let one = sum([0, 1, 2, 3, 4]);
        assert_eq!(one, sum([4, 2, 0, 3, 1]));
        let mut halves = parts[3].clone();
        halves.merge(&parts[4]);
        let mut rest = parts[2].clone();
        rest.merge(&halves);
        rest.merge(&parts[0]);
        rest.merge(&parts[1]);
        assert_eq!(rest.trimmed(), one);
        let reads: u64 = one.found.values().map(|f| f.reads).sum();
        assert_eq!(one.checked, one.verified() + one.unverified + reads);
        assert!(one.found.values().all(|f| f.first_bytes.len() == PLACES_MAX));
    }
}
