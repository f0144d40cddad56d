//! The addresses that a worker used recently, for patterns that repeat them.

use iodyno_units::rng::{Generator, below};

/// Recent addresses of one worker, in units of the alignment from the start of the active range.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    slots: Box<[u64]>,
    pushed: u64,
}

impl Ring {
    /// Creates a ring for at least `window` addresses. Its capacity is a power of two, so that a mask
    /// gives the index.
    pub(crate) fn new(window: u32) -> Self {
        Self { slots: vec![0; window.next_power_of_two() as usize].into(), pushed: 0 }
    }

    #[inline]
    fn slot(&self, number: u64) -> usize {
        (number & (self.slots.len() as u64 - 1)) as usize
    }

    /// Adds an address, which replaces the oldest one if the ring is full.
    #[inline]
    pub(crate) fn push(&mut self, address: u64) {
        let slot = self.slot(self.pushed);
        self.slots[slot] = address;
        self.pushed += 1;
    }

    /// Draws one of the last `window` addresses, with equal probability; `None` if the ring is empty.
    #[inline]
    pub(crate) fn draw(&self, window: u32, rng: &mut Generator) -> Option<u64> {
        let known = self.pushed.min(u64::from(window));
        (known > 0).then(|| self.slots[self.slot(self.pushed - 1 - below(rng, known))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng::stream;

    #[test]
    fn draws_evenly_from_the_window_and_from_nothing_older() {
        let mut rng = stream(1, "test", 0);
        let mut ring = Ring::new(10);
        assert_eq!(ring.draw(10, &mut rng), None);
        for address in 0..37 {
            ring.push(address);
        }
        let mut hits = [0_u32; 37];
        for _ in 0..10_000 {
            hits[ring.draw(10, &mut rng).unwrap() as usize] += 1;
        }
        assert!(hits[..27].iter().all(|&h| h == 0), "{hits:?}");
        // Five standard deviations of a binomial with p = 0.1 are 150.
        assert!(hits[27..].iter().all(|&h| h.abs_diff(1000) < 150), "{hits:?}");
    }
}
