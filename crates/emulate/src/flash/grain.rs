//! The coarse form of a flash device: one channel for several that do the same.
//!
//! A large I/O uses all channels alike, and what it meets on one of them it meets on each. So a device of
//! grain g has a g-th of the channels, of the page reads that may be on their way and of the programs that may
//! run, and what it moves is g times as large: a unit is g × 4 KiB, a page holds as many units as before, and a
//! channel moves a unit in the same time. What is counted in bytes (capacity, spare, buffer, links, copies by a
//! core, stalls) stays as it is, and so does all that has a time of its own.
//!
//! Where channels run in step it is exact: reads alone of what lies in order, and writes in order. Where each meets
//! something else the part varies more than the whole: garbage collection moves rates by 1 or 2 %. What it can't show
//! is that a read waits for the slowest of its pages, of which there are fewer: where a page waits for a whole program,
//! reads among writes come out up to a third short. How much was measured is in `docs/formats/method.md`. An I/O that
//! is no multiple of a unit is not for it.
//!
//! **Invariant:** grain 1 is the device itself, event by event.

use super::FlashDevice;
use crate::ftl::SCATTERED_PAGES_MAX;
use crate::spec::{Flash, Kind, Precondition, System, Written};

/// Dies and channels that are left at least: with fewer of them, chance decides too much.
const DIES_MIN: u32 = 8;
const CHANNELS_MIN: u32 = 2;
/// A buffer that holds so many programs need not hold a whole number of them.
const BUFFERED_PROGRAMS_MIN: u64 = 16;

impl System {
    /// The coarsest grain that all flash devices of the system can be simulated with, a power of two: how many channels
    /// one may stand for, where each I/O begins and ends at a multiple of `align_bytes` (0: of any number). 1 where there
    /// is no such device, or where one was written in blocks so small that they lie anywhere: which pages an I/O meets is
    /// chance then.
    pub fn grain_max(&self, align_bytes: u32) -> u32 {
        let flash = self.volumes.iter().filter_map(|volume| match &volume.device.kind {
            Kind::Flash(flash) => Some((flash, &volume.state)),
            Kind::Disk(_) | Kind::Memory(_) => None,
        });
        flash.map(|(flash, state)| grain_max(flash, state, align_bytes)).min().unwrap_or(1)
    }
}

/// The coarsest grain of one device.
fn grain_max(flash: &Flash, state: &Precondition, align_bytes: u32) -> u32 {
    let n = &flash.nand;
    let copies = flash.translation.collection.map_or(0, |c| c.programs_max);
    if let Written::Random { block_bytes } = state.how
        && u64::from(block_bytes) <= u64::from(SCATTERED_PAGES_MAX) * super::UNIT_BYTES
    {
        return 1;
    }
    let fits = |grain: u32| {
        let program_bytes = u64::from(grain) * u64::from(n.planes * n.page_bytes);
        align_bytes.is_multiple_of(grain * n.page_bytes)
            && n.channels.is_multiple_of(grain)
            && n.channels / grain >= CHANNELS_MIN
            && n.channels / grain * n.dies_per_channel >= DIES_MIN
            && flash.controller.read_contexts.is_multiple_of(grain)
            // One at least, or nothing would begin.
            && [n.programs_max, copies].iter().all(|&most| most == 0 || most >= grain)
            && (flash.buffer.bytes.is_multiple_of(program_bytes)
                || flash.buffer.bytes >= BUFFERED_PROGRAMS_MIN * program_bytes)
    };
    (1..=n.channels.ilog2()).map(|log2| 1 << log2).filter(|&grain| fits(grain)).max().unwrap_or(1)
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
    /// While the whole number or more run: how much fewer have run than should have, in ns times `grain`; and the most
    /// that is owed, for some of the time nobody waits.
    owed: i64,
    owed_max: i64,
    since_ns: u64,
}

impl Limit {
    /// The part of `most` at this grain, of what takes `each_ns`; 0: no limit.
    pub(super) fn new(most: u32, grain: u32, each_ns: u64) -> Self {
        let (whole, rest) = if most == 0 { (u32::MAX, 0) } else { (most / grain, most % grain) };
        Self {
            now: whole,
            whole,
            rest,
            grain,
            owed: 0,
            owed_max: i64::from(grain) * each_ns as i64,
            since_ns: 0,
        }
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
        self.owed = self.owed.min(self.owed_max);
        self.now = self.whole + u32::from(self.owed > 0);
    }
}

/// In units of the coarse form, the block of so many units of 4 KiB in which a device was written at random: a part of
/// it, as of any I/O; but what lay in order does so still.
pub(super) fn written_units(block: u32, grain: u32) -> u32 {
    (block / grain).max(block.min(SCATTERED_PAGES_MAX + 1))
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
                let mut limit = Limit::new(most, grain, 2075);
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
        let none = Limit::new(0, 4, 1000);
        assert_eq!((none.now(), none.at_most(10).now()), (u32::MAX, 10));
    }

    /// What was not asked for is not owed: after a pause no more run than before it.
    #[test]
    fn a_limit_does_not_owe_for_what_nobody_waited_for() {
        let mut limit = Limit::new(90, 16, 1000);
        limit.ran(0, 0);
        limit.ran(10_000_000, 5);
        assert_eq!(limit.now(), 6);
        let mut now = 10_000_000;
        while limit.now() == 6 {
            now += 100;
            limit.ran(now, 6);
        }
        assert!(now - 10_000_000 < 4000, "{now}");
    }

    #[test]
    fn what_lay_in_order_does_so_in_part() {
        for (block, grain, part) in [(1, 4, 1), (4, 4, 4), (5, 4, 5), (16, 4, 5), (256, 4, 64)] {
            assert_eq!(written_units(block, grain), part, "{block} {grain}");
            assert_eq!(written_units(block, 1), block);
        }
    }
}
