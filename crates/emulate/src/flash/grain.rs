//! The coarse form of a flash device: one channel for several that do the same.
//!
//! A large I/O uses all channels alike, and what it meets on one of them it meets on each. So a device of
//! grain g has a g-th of the channels, of the page reads that may be on their way and of the programs that may
//! run, and what it moves is g times as large: a unit is g × 4 KiB, a page holds as many units as before, and a
//! channel moves a unit in the same time. What is counted in bytes (capacity, spare, buffer, links, copies by a
//! core, stalls) stays as it is, and so does all that has a time of its own.
//!
//! Where channels run in step it is exact: reads alone, and writes in order. Where each meets something else the
//! part varies more than the whole: garbage collection moves rates by about 1 %. What it can't show is that a read
//! waits for the slowest of its pages, of which there are fewer: where a page waits for a whole program, reads among
//! writes come out up to a third short. How much was measured is in `docs/formats/method.md`. An I/O that is no multiple
//! of a unit is not for it.
//!
//! **Invariant:** grain 1 is the device itself, event by event.

use super::FlashDevice;
use crate::ftl::SCATTERED_PAGES_MAX;
use crate::spec::{Flash, Kind, System};

/// Dies that are left at least: with fewer of them, chance decides too much.
const DIES_MIN: u32 = 8;

impl System {
    /// The coarsest grain that every flash device of the system can be simulated with, a power of two: how many
    /// channels one may stand for. 1 where there is no such device.
    pub fn grain_max(&self) -> u32 {
        self.flash().map(grain_max).min().unwrap_or(1)
    }

    fn flash(&self) -> impl Iterator<Item = &Flash> {
        self.volumes.iter().filter_map(|volume| match &volume.device.kind {
            Kind::Flash(flash) => Some(flash.as_ref()),
            Kind::Disk(_) | Kind::Memory(_) => None,
        })
    }
}

/// The coarsest grain of one device.
fn grain_max(flash: &Flash) -> u32 {
    let n = &flash.nand;
    let copies = flash.translation.collection.map_or(0, |c| c.programs_max);
    let fits = |grain: u32| {
        n.channels.is_multiple_of(grain)
            && flash.controller.read_contexts.is_multiple_of(grain)
            && n.channels / grain * n.dies_per_channel >= DIES_MIN
            // One at least, or nothing would begin.
            && [n.programs_max, copies].iter().all(|&most| most == 0 || most >= grain)
    };
    (0..=n.channels.ilog2()).map(|log2| 1 << log2).filter(|&grain| fits(grain)).max().unwrap_or(1)
}

/// How many of something may run at once: the g-th part of so many. Where that is no whole number, it is now the one
/// and now the other of the two between which it lies, so that as many run on the average.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    now: u32,
    whole: u32,
    /// What is left over, and of how much.
    rest: u32,
    grain: u32,
    /// While the whole number or more run: how much fewer have run than should have, in ns times `grain`.
    owed: i64,
    since_ns: u64,
}

impl Limit {
    /// The part of `most` at this grain; 0: no limit.
    pub(super) fn new(most: u32, grain: u32) -> Self {
        let (whole, rest) = if most == 0 { (u32::MAX, 0) } else { (most / grain, most % grain) };
        Self { now: whole, whole, rest, grain, owed: 0, since_ns: 0 }
    }

    /// No more than this, whatever was asked for.
    pub(super) fn at_most(self, most: u32) -> Self {
        if self.whole >= most { Self { now: most, whole: most, rest: 0, ..self } } else { self }
    }

    /// How many may run now.
    #[inline(always)]
    pub(super) fn now(&self) -> u32 {
        self.now
    }

    /// How many may ever run.
    pub(super) fn max(&self) -> u32 {
        self.whole.saturating_add(u32::from(self.rest > 0))
    }

    /// How many that stands for.
    pub(super) fn of_device(&self) -> u32 {
        self.whole.saturating_mul(self.grain).saturating_add(self.rest)
    }

    /// `used` have run until now, when one more begins or one has ended.
    #[inline(always)]
    pub(super) fn ran(&mut self, now_ns: u64, used: u32) {
        if self.rest > 0 {
            self.weigh(now_ns, used);
        }
    }

    fn weigh(&mut self, now_ns: u64, used: u32) {
        let elapsed_ns = (now_ns - self.since_ns) as i64;
        self.since_ns = now_ns;
        if used < self.whole {
            // Nothing waits for the limit: nothing is owed for that.
            return;
        }
        let more = i64::from(used - self.whole) * i64::from(self.grain);
        self.owed += (i64::from(self.rest) - more) * elapsed_ns;
        self.now = self.whole + u32::from(self.owed > 0);
    }
}

/// In units of the coarse form, the block in which a device was written at random: of so many units of 4 KiB.
/// A part of the block, as of any I/O; but units that lie in one page stay together, and what was written in
/// blocks large enough to lie in order does so.
pub(super) fn written_units(block: u32, together: u32, grain: u32) -> u32 {
    (block / grain).max(block.min(together.max(SCATTERED_PAGES_MAX + 1)))
}

impl FlashDevice {
    /// Bytes of a unit.
    #[inline(always)]
    pub(super) fn unit_bytes(&self) -> u64 {
        1 << self.unit_log2
    }

    /// The unit that a byte lies in.
    #[inline(always)]
    pub(super) fn unit_at(&self, offset_bytes: u64) -> u64 {
        offset_bytes >> self.unit_log2
    }

    /// Units that so many bytes of one page are.
    #[inline(always)]
    pub(super) fn count_units(&self, len_bytes: u32) -> u64 {
        (u64::from(len_bytes) + self.unit_bytes() - 1) >> self.unit_log2
    }

    /// How many channels of the device one of it stands for.
    pub(super) fn grain(&self) -> u32 {
        1 << (self.unit_log2 - super::UNIT_BYTES.ilog2())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many run as should, whether each ends by itself or all at once.
    #[test]
    fn a_limit_that_is_no_whole_number_is_kept_on_the_average() {
        for (most, grain, share) in [(45, 4, 11.25), (30, 4, 7.5), (49, 2, 24.5), (64, 4, 16.0)] {
            for program_ns in [[1000, 1000], [400, 2075]] {
                let mut limit = Limit::new(most, grain);
                let mut ends: Vec<u64> = Vec::new();
                let (mut now, mut area, mut begun) = (0, 0_u64, 0);
                while now < 10_000_000 {
                    while (ends.len() as u32) < limit.now() {
                        limit.ran(now, ends.len() as u32);
                        ends.push(now + program_ns[begun % 2]);
                        begun += 1;
                    }
                    let first = (0..ends.len()).min_by_key(|&i| ends[i]).unwrap();
                    let used = ends.len() as u32;
                    area += u64::from(used) * (ends[first] - now);
                    now = ends.swap_remove(first);
                    limit.ran(now, used);
                }
                let mean = area as f64 / now as f64;
                assert!((mean / share - 1.0).abs() < 0.003, "{most} by {grain}: {mean}");
                assert_eq!(limit.of_device(), most);
            }
        }
        let none = Limit::new(0, 4);
        assert_eq!((none.now(), none.at_most(10).now()), (u32::MAX, 10));
    }

    /// A block that filled pages fills fewer, a smaller one stays; what lies in order does so still.
    #[test]
    fn blocks_that_were_written_at_random_keep_what_lies_together() {
        for (block, together, grain, part) in [
            (1, 4, 4, 1),
            (4, 4, 4, 4),
            (8, 4, 4, 5),
            (16, 4, 4, 5),
            (16, 4, 2, 8),
            (256, 8, 4, 64),
            (256, 8, 1, 256),
        ] {
            assert_eq!(written_units(block, together, grain), part, "{block} {together} {grain}");
        }
    }
}
