//! The bands of a shingled disk: decides whether a write goes to the media cache or to its band, and which band is
//! cleaned.
//!
//! A write is split at band boundaries. A part that is a whole band goes to the band. A sequential run of writes goes
//! to the media cache until it crosses a band boundary, and from there on to its bands. All other parts go to the media
//! cache.
//!
//! A band is always rewritten to a spare band, which is assumed to be adjacent, so a power cut never leaves a band
//! half written. A band is *open* while a sequential run has written only a part of it: data before its frontier is
//! in the spare band, data after it in the old one.
//!
//! Cleaning a band reads its pieces in the media cache and the band itself, merges them in memory, and writes the band.
//! If the media cache is full, the band of its oldest write is cleaned (first in, first out). If a run needs a spare
//! band and none is free, the open band that was written least recently is cleaned.

use super::media_cache::{MediaCache, Source};
use super::spec::Shingled;
use iodyno_units::rng::Generator;
use std::ops::Range;

/// Number of sequential runs that the disk recognizes at a time.
const RUNS: usize = 16;
/// Maximum number of open bands, each of which occupies a spare band.
const OPEN_MAX: usize = 4;

/// The heads' next step for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Write to the media cache, at this position.
    Cache(u64),
    /// Write to the band.
    Band,
    /// First clean the band that contains this byte of the disk.
    Clean(u64),
}

/// The bands of a shingled disk, and its media cache.
#[derive(Clone, Debug)]
pub(super) struct Bands {
    spec: Shingled,
    capacity_bytes: u64,
    pub(super) cache: MediaCache,
    /// End offsets of recent writes, which a sequential run may continue.
    runs: [u64; RUNS],
    next_run: usize,
    /// Frontiers of the open bands: end offsets of their new data. The least recently written band is first.
    open: Vec<u64>,
    /// Range that the heads are writing, and whether they write it to its band; `None` if they are not writing.
    writing: Option<(Range<u64>, bool)>,
    /// Uncached write of which the heads have written a part, and the offset of the rest; `None` if there is none.
    pub(super) unfinished: Option<(u32, u64)>,
    /// Whether the idle time has passed, so that the disk cleans bands.
    pub(super) is_idle: bool,
}

impl Bands {
    /// Creates the bands of a disk of `capacity_bytes`, with an empty media cache.
    pub(super) fn new(spec: Shingled, capacity_bytes: u64) -> Self {
        Self {
            spec,
            capacity_bytes,
            cache: MediaCache::new(spec.cache_bytes, spec.entries_max),
            runs: [u64::MAX; RUNS],
            next_run: 0,
            open: Vec::with_capacity(OPEN_MAX),
            writing: None,
            unfinished: None,
            is_idle: false,
        }
    }

    /// Fills the media cache to the state that it reaches under sustained random writes of aligned blocks of
    /// `block_bytes`, all in the range `part`.
    pub(super) fn fill(&mut self, part: &Range<u64>, block_bytes: u64, random: &mut Generator) {
        self.cache.fill(part, block_bytes, self.spec.band_bytes, random);
    }

    /// Returns the idle time after which the disk cleans bands; `None` if the media cache is empty, or the disk cleans
    /// only when the cache is full.
    pub(super) fn idle_ns(&self) -> Option<u64> {
        self.cache.oldest().and(self.spec.idle_ns)
    }

    /// Returns the range of the band that contains a byte. The last band may be shorter than the others.
    pub(super) fn band(&self, byte: u64) -> Range<u64> {
        let start = byte - byte % self.spec.band_bytes;
        start..(start + self.spec.band_bytes).min(self.capacity_bytes)
    }

    /// Returns the part of a range up to the end of its first band.
    pub(super) fn first_part(&self, range: Range<u64>) -> Range<u64> {
        range.start..range.end.min(self.band(range.start).end)
    }

    /// Returns the heads' next step for a write of a part of a band.
    pub(super) fn way(&self, part: &Range<u64>) -> Way {
        let band = self.band(part.start);
        if part.is_empty() || *part == band || self.open.contains(&part.start) {
            return Way::Band;
        }
        let is_open = self.open.iter().any(|frontier| band.contains(frontier));
        if part.start == band.start && self.runs.contains(&part.start) && !is_open {
            return if self.open.len() < OPEN_MAX { Way::Band } else { Way::Clean(self.open[0]) };
        }
        match (self.cache.position(part.end - part.start), self.cache.oldest()) {
            (None, Some(oldest)) => Way::Clean(oldest),
            (at, _) => Way::Cache(at.unwrap_or(0)),
        }
    }

    /// Records that the heads begin to write a part of a band, to its band or to the media cache.
    pub(super) fn begin(&mut self, part: Range<u64>, to_band: bool) {
        self.writing = Some((part, to_band));
    }

    /// Records the end of the heads' write. Returns the written part, and whether it went to its band; `None` if the
    /// heads were not writing.
    pub(super) fn landed(&mut self) -> Option<(Range<u64>, bool)> {
        let (part, to_band) = self.writing.take()?;
        if part.is_empty() {
            return Some((part, to_band));
        }
        let band = self.band(part.start);
        let is_complete = part.end == band.end;
        if to_band {
            self.open.retain(|frontier| !band.contains(frontier));
            self.cache.supersede(part.clone());
            if !is_complete {
                self.open.push(part.end);
            }
        } else {
            self.cache.append(part.clone());
        }
        if !to_band || is_complete {
            self.note_run(part.start, part.end);
        }
        Some((part, to_band))
    }

    fn note_run(&mut self, start: u64, end: u64) {
        if let Some(run) = self.runs.iter_mut().find(|run| **run == start) {
            *run = end;
            return;
        }
        self.runs[self.next_run] = end;
        self.next_run = (self.next_run + 1) % RUNS;
    }

    /// Records that a band was cleaned: the one that contains `byte`.
    pub(super) fn cleaned(&mut self, byte: u64) {
        let band = self.band(byte);
        self.open.retain(|frontier| !band.contains(frontier));
        self.cache.supersede(band);
    }

    /// Returns the places of the newest data of a range, in address order.
    pub(super) fn sources(&self, range: Range<u64>) -> Vec<Source> {
        self.cache.sources(range)
    }

    /// Processes a power failure. The media cache and the open bands survive it.
    pub(super) fn power_cut(&mut self) {
        self.runs = [u64::MAX; RUNS];
        self.writing = None;
        self.unfinished = None;
        self.is_idle = false;
    }
}
