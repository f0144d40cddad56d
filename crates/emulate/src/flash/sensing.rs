//! Draws the duration of page reads on a die, which depends on the page type, on retries, and on whether the data is in
//! the SLC cache. Also draws the random part of the time to suspend an operation.

use super::FlashDevice;
use crate::spec::Nand;
use iodyno_units::rng::{Generator, below, stream, unit_open_closed};

/// Maximum number of retries of a page read, however many are drawn.
const RETRIES_MAX: u32 = 16;

/// Parameters of a varying read time.
#[derive(Clone, Debug)]
pub(super) struct Sensing {
    types: u64,
    spread_ns: u64,
    /// Probability of a retry, in units of 2^-64.
    retried: u64,
    retry_ns: u64,
    slc_read_ns: Option<u64>,
    /// Mean time until a suspended operation can stop, ns; 0: it can stop anywhere.
    suspend_ns: u64,
    /// Probability, in units of 2^-64, that a suspension takes random time with the mean `suspend_ns`; `None`: every
    /// suspension does.
    suspend_share: Option<u64>,
    rng: Generator,
}

impl Sensing {
    /// Creates the generator of read times; `None` if all page reads take equally long.
    pub(super) fn new(nand: &Nand, seed: u64, number: u64) -> Option<Box<Self>> {
        let slc_read_ns = nand.slc.and_then(|slc| slc.read_ns);
        let varies = nand.variation;
        (varies.is_some() || slc_read_ns.is_some()).then(|| {
            Box::new(Self {
                types: varies.map_or(1, |v| u64::from(v.page_types.max(1))),
                spread_ns: varies.map_or(0, |v| v.spread_ns.min(nand.read_ns)),
                retried: varies.map_or(0, |v| share_of_u64(v.retried_share)),
                retry_ns: varies.map_or(0, |v| v.retry_ns),
                slc_read_ns,
                suspend_ns: varies.map_or(0, |v| v.suspend_ns),
                suspend_share: varies
                    .map(|v| v.suspend_share)
                    .filter(|share| *share < 1.0)
                    .map(share_of_u64),
                rng: stream(seed, "page reads", number),
            })
        })
    }

    /// Draws the duration of a page read, ns. `slc_share`: fraction of the data that is in the SLC cache.
    fn draw_ns(&mut self, read_ns: u64, slc_share: f64) -> u64 {
        if let Some(slc_read_ns) = self.slc_read_ns
            && below(&mut self.rng, u64::MAX) < share_of_u64(slc_share)
        {
            return slc_read_ns;
        }
        let mut ns = read_ns;
        if self.types > 1 {
            // The page types have equally spaced times around the mean.
            let step = below(&mut self.rng, self.types);
            ns = ns - self.spread_ns + 2 * self.spread_ns * step / (self.types - 1);
        }
        let mut retries = 0;
        while retries < RETRIES_MAX && below(&mut self.rng, u64::MAX) < self.retried {
            ns += self.retry_ns;
            retries += 1;
        }
        ns
    }

    /// Draws the random part of the duration of a suspension, ns.
    fn stopping_ns(&mut self) -> u64 {
        if let Some(share) = self.suspend_share
            && below(&mut self.rng, u64::MAX) >= share
        {
            return 0;
        }
        (-libm::log(unit_open_closed(&mut self.rng)) * self.suspend_ns as f64) as u64
    }
}

impl FlashDevice {
    /// Returns the duration of a page read on the die, ns. `internal`: the read is for garbage collection, whose data
    /// has left the SLC cache.
    #[inline(always)]
    pub(super) fn sense_ns(&mut self, internal: bool) -> u64 {
        if self.sensing.is_none() { self.read_ns } else { self.varying_sense_ns(internal) }
    }

    /// Returns the duration of the suspension of a program or erase operation, ns: the constant part plus a random
    /// one.
    pub(super) fn suspension_ns(&mut self, constant_ns: u64) -> u64 {
        match &mut self.sensing {
            Some(sensing) if sensing.suspend_ns > 0 => constant_ns + sensing.stopping_ns(),
            _ => constant_ns,
        }
    }

    #[inline(never)]
    fn varying_sense_ns(&mut self, internal: bool) -> u64 {
        // Garbage collection reads data that has left the cache.
        let held = if internal { 0 } else { self.slc.held_units };
        let share = held as f64 / self.stored_units.max(1) as f64;
        let read_ns = self.read_ns;
        self.sensing.as_mut().map_or(read_ns, |sensing| sensing.draw_ns(read_ns, share))
    }
}

/// Converts a probability to a threshold for a random 64-bit number.
pub(super) fn share_of_u64(share: f64) -> u64 {
    if share >= 1.0 { u64::MAX } else { (share.max(0.0) * 18_446_744_073_709_551_616.0) as u64 }
}
