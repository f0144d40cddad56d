//! The heads of a shingled disk: order of service, accesses to the media cache and to bands, cleaning.
//!
//! Buffered writes go to the platters in the order of their acknowledgement, other writes in the order of arrival.
//! Reads are chosen by access time, together with the oldest write. The cleaning of a band runs to its end, like any
//! access.

use super::super::bands::{Bands, Way};
use super::super::layout::{Access, Place};
use super::super::media_cache::Source;
use super::heads::Heads;
use super::{Disk, NEVER};
use iodyno_units::OpKind;
use iodyno_units::rng::Generator;
use std::ops::Range;

impl Disk {
    /// Fills the media cache of a new disk to the state that it reaches under sustained random writes of aligned blocks
    /// of `block_bytes`, all in the range `part`. No-op without a media cache.
    pub(crate) fn fill_media_cache(
        &mut self,
        part: &Range<u64>,
        block_bytes: u32,
        random: &mut Generator,
    ) {
        if let Some(bands) = &mut self.bands {
            bands.fill(part, u64::from(block_bytes), random);
        }
    }

    pub(crate) fn is_shingled(&self) -> bool {
        self.bands.is_some()
    }

    /// Returns where the heads find a byte's newest data.
    pub(super) fn place_to_read(&self, byte: u64) -> Place {
        let source = self.bands.as_ref().and_then(|bands| bands.sources(byte..byte + 1).pop());
        source.map_or_else(|| self.layout.place(byte), |source| self.place_of(&source))
    }

    fn place_of(&self, source: &Source) -> Place {
        match source.cached_at {
            Some(at) => self.layout.place_on_platters(at),
            None => self.layout.place(source.start),
        }
    }

    /// Returns the end of the range that begins at `byte` and whose newest data is not in the media cache.
    pub(super) fn end_of_uncached(&self, byte: u64) -> u64 {
        self.bands.as_ref().map_or(u64::MAX, |bands| bands.cache.next_piece(byte))
    }

    /// Starts the next work of a shingled disk's heads, which are free.
    pub(super) fn start_on_bands(&mut self, now_ns: u64) {
        let Some(bands) = &mut self.bands else { return };
        bands.is_idle &= self.inside == 0 && self.buffer.is_clean();
        let destage_turn =
            self.foreground_had_turn && self.must_destage() && !self.buffer.is_clean();
        if !self.foreground.is_empty() && !destage_turn {
            self.start_foreground(now_ns);
            self.foreground_had_turn = true;
        } else if self.start_destage(now_ns) {
            self.foreground_had_turn = false;
        } else {
            if let Some((segment, target)) = self.wish.take() {
                self.start_stream(now_ns, segment, target, Vec::new());
            }
            if matches!(self.heads, Heads::Idle) {
                self.rest(now_ns);
            }
        }
    }

    /// Starts the access for a read or an uncached write, or the cleaning for which the write waits.
    fn start_foreground(&mut self, now_ns: u64) {
        let is_write = |slot: u32| self.requests[slot as usize].op.kind != OpKind::Read;
        let oldest_write = self.foreground.iter().copied().find(|&slot| is_write(slot));
        let part = oldest_write.and_then(|slot| self.next_part(slot));
        if let (Some(slot), Some((_, _, place))) = (oldest_write, &part) {
            self.requests[slot as usize].place = *place;
        }
        let index = self.choose(now_ns);
        let slot = self.foreground[index];
        if Some(slot) != oldest_write {
            self.foreground.remove(index);
            let access = self.read_of(now_ns, slot);
            self.begin_access(now_ns, slot, access);
        } else if let Some((range, way, place)) = part {
            if let Way::Clean(byte) = way {
                self.start_cleaning(now_ns, byte);
                return;
            }
            self.foreground.remove(index);
            let len = range.end - range.start;
            let access = self.layout.access(now_ns, self.head, &place, len, true);
            self.begin_on_bands(range, way);
            self.begin_access(now_ns, slot, access);
        }
    }

    /// Plans the next part of an uncached write, as [`Self::plan`]; `None` if the tracks are conventional.
    fn next_part(&self, slot: u32) -> Option<(Range<u64>, Way, Place)> {
        let bands = self.bands.as_ref()?;
        let request = &self.requests[slot as usize];
        let rest = bands.unfinished.filter(|unfinished| unfinished.0 == slot);
        let start = rest.map_or(request.op.offset_bytes, |(_, at)| at);
        Some(self.plan(bands, start..request.end()))
    }

    /// Plans the write of the first part of a range. Returns the part, the heads' next step, and the place of that
    /// step.
    fn plan(&self, bands: &Bands, range: Range<u64>) -> (Range<u64>, Way, Place) {
        let part = bands.first_part(range);
        let way = bands.way(&part);
        let place = match way {
            Way::Cache(at) => self.layout.place_on_platters(at),
            Way::Band => self.layout.place(part.start.min(self.spec.capacity_bytes - 1)),
            Way::Clean(byte) => self.layout.place(bands.band(byte).start),
        };
        (part, way, place)
    }

    fn begin_on_bands(&mut self, part: Range<u64>, way: Way) {
        if let Some(bands) = &mut self.bands {
            bands.begin(part, way == Way::Band);
        }
    }

    /// Starts to destage the oldest buffered write, or the cleaning for which it waits. Returns false if the buffer is
    /// clean.
    fn start_destage(&mut self, now_ns: u64) -> bool {
        let before = self.flush_before();
        let Some(oldest) = self.buffer.oldest(before) else { return false };
        let Some(bands) = &self.bands else { return false };
        let (part, way, place) = self.plan(bands, oldest);
        if let Way::Clean(byte) = way {
            self.start_cleaning(now_ns, byte);
            return true;
        }
        let Some(extent) = self.buffer.take_part(&part, place) else { return false };
        let access = self.layout.access(now_ns, self.head, &place, extent.len, true);
        self.begin_on_bands(part, way);
        self.begin_destage(now_ns, extent, access);
        true
    }

    /// Plans a read of all parts of a request's range, in address order.
    fn read_of(&self, now_ns: u64, slot: u32) -> Access {
        let request = &self.requests[slot as usize];
        let range = request.op.offset_bytes..request.end();
        let sources = self.bands.as_ref().map(|bands| bands.sources(range)).unwrap_or_default();
        self.read_all(now_ns, &sources)
    }

    fn read_all(&self, now_ns: u64, sources: &[Source]) -> Access {
        sources.iter().fold(Access::none(self.head), |before, source| {
            let (place, len) = (self.place_of(source), source.end - source.start);
            self.layout.and_then(now_ns, &before, &place, len, false)
        })
    }

    /// Starts to clean the band that contains a byte: reads its pieces in the media cache and, unless they cover it,
    /// the band, then writes the band.
    fn start_cleaning(&mut self, now_ns: u64, byte: u64) {
        let Some(bands) = &self.bands else { return };
        let band = bands.band(byte);
        let (mut cached, in_band): (Vec<Source>, Vec<Source>) =
            bands.sources(band.clone()).into_iter().partition(|source| source.cached_at.is_some());
        cached.sort_by_key(|source| source.cached_at);
        let (place, len) = (self.layout.place(band.start), band.end - band.start);
        let mut access = self.read_all(now_ns, &cached);
        if !in_band.is_empty() {
            access = self.layout.and_then(now_ns, &access, &place, len, false);
        }
        access = self.layout.and_then(now_ns, &access, &place, len, true);
        self.medium_until = now_ns + access.total_ns();
        self.heads = Heads::Clean { byte, access };
    }

    /// Records that a band was cleaned.
    pub(super) fn cleaned(&mut self, byte: u64, access: &Access) {
        self.usage.cleaned_bands += 1;
        self.usage.cleaning_ns += access.total_ns();
        if let Some(bands) = &mut self.bands {
            bands.cleaned(byte);
        }
    }

    /// Starts the idle time on a disk without requests; after it, starts to clean the band of the oldest cached write.
    fn rest(&mut self, now_ns: u64) {
        let Some(bands) = &self.bands else { return };
        let (Some(idle_ns), Some(oldest)) = (bands.idle_ns(), bands.cache.oldest()) else { return };
        if bands.is_idle {
            self.start_cleaning(now_ns, oldest);
        } else if self.inside == 0 {
            self.medium_until = now_ns + idle_ns;
            self.heads = Heads::Resting;
        }
    }

    /// Records that the idle time has passed.
    pub(super) fn rested(&mut self) {
        if let Some(bands) = &mut self.bands {
            bands.is_idle = true;
        }
    }

    /// Ends the idle time early, because of a request.
    pub(super) fn stop_rest(&mut self) {
        self.heads = Heads::Idle;
        self.medium_until = NEVER;
    }

    /// Records the end of the heads' write. Returns the end offset of the written part; `None` if the tracks are
    /// conventional or the heads were not writing.
    pub(super) fn part_landed(&mut self) -> Option<u64> {
        let (part, to_band) = self.bands.as_mut()?.landed()?;
        if !to_band {
            self.usage.media_cache_bytes += part.end - part.start;
        }
        Some(part.end)
    }

    /// Records the end of an access for a request. If a part of an uncached write remains to be written, queues the
    /// write again and returns true.
    pub(super) fn is_unfinished(&mut self, slot: u32) -> bool {
        let Some(end) = self.part_landed() else { return false };
        let is_unfinished = end < self.requests[slot as usize].end();
        if let Some(bands) = &mut self.bands {
            bands.unfinished = is_unfinished.then_some((slot, end));
        }
        if is_unfinished {
            self.foreground.insert(0, slot);
        }
        is_unfinished
    }
}
