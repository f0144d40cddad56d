//! Verifies units when they are read, and injects damage.
//!
//! Damage is stored separately from the data: one to three bits of a unit, determined by a seed, are flipped in the
//! bytes that are read, before the unit's checksum is verified. CRC-32C detects any three flipped bits in 4 KiB (its
//! Hamming distance there is at least 4; Koopman, DSN 2002), so a damaged unit is never served. Since the data itself
//! is intact, damage can be cleared, as when a device rebuilds the unit from parity. Rewriting the unit clears it too.

use super::units::{UNIT, sum, touched};
use iodyno_units::rng::{below, stream};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

/// Units with injected corruption, as non-overlapping ranges: start → (end, random seed).
type Runs = BTreeMap<u64, (u64, u64)>;

/// Verification of a volume's reads: whether checksums are checked, and which corruption is injected.
#[derive(Debug)]
pub(super) struct Guard {
    check_reads: bool,
    damaged: AtomicBool,
    runs: RwLock<Runs>,
}

impl Guard {
    pub(super) fn new(check_reads: bool) -> Self {
        Self { check_reads, damaged: AtomicBool::new(false), runs: RwLock::default() }
    }

    /// Injects corruption into all units that the range covers in full or in part. `seed` determines which bits are
    /// flipped.
    pub(super) fn damage(&self, range_bytes: &Range<u64>, seed: u64) {
        let len_bytes = range_bytes.end.saturating_sub(range_bytes.start);
        let units = touched(range_bytes.start, len_bytes);
        let mut runs = self.runs.write().unwrap_or_else(PoisonError::into_inner);
        cut(&mut runs, &units);
        if !units.is_empty() {
            runs.insert(units.start, (units.end, seed));
        }
        self.damaged.store(!runs.is_empty(), Ordering::Release);
    }

    /// Clears the injected corruption of a range of units.
    #[inline]
    pub(super) fn lift(&self, units: &Range<u64>) {
        if self.damaged.load(Ordering::Acquire) {
            let mut runs = self.runs.write().unwrap_or_else(PoisonError::into_inner);
            cut(&mut runs, units);
            self.damaged.store(!runs.is_empty(), Ordering::Release);
        }
    }

    #[inline]
    fn seed(&self, unit: u64) -> Option<u64> {
        if !self.damaged.load(Ordering::Acquire) {
            return None;
        }
        let runs = self.runs.read().unwrap_or_else(PoisonError::into_inner);
        let (_, &(end, seed)) = runs.range(..=unit).next_back()?;
        (unit < end).then_some(seed)
    }

    /// Whether corruption is injected into a unit.
    pub(super) fn is_damaged(&self, unit: u64) -> bool {
        self.seed(unit).is_some()
    }

    /// Whether reads need no check, because checksums are not verified and no corruption is injected.
    pub(super) fn lets_all_pass(&self) -> bool {
        !self.check_reads && !self.damaged.load(Ordering::Acquire)
    }

    /// Whether a unit may be served: its content, with injected bit flips, must match one of the checksums.
    /// Without checksums any content is accepted unless corruption is injected.
    #[inline]
    pub(super) fn passes(&self, unit: u64, bytes: &[u8], sums: &[u32]) -> bool {
        match self.seed(unit) {
            None => !self.check_reads || sums.is_empty() || sums.contains(&sum(bytes)),
            Some(seed) => is_sound(unit, bytes, sums, Some(seed)),
        }
    }

    /// Like [`Self::passes`], but verifies the checksum even if verification of reads is turned off.
    pub(super) fn passes_always(&self, unit: u64, bytes: &[u8], sums: &[u32]) -> bool {
        is_sound(unit, bytes, sums, self.seed(unit))
    }
}

/// Whether a unit's content matches one of the checksums, after the bit flips that `seed` determines.
fn is_sound(unit: u64, bytes: &[u8], sums: &[u32], seed: Option<u64>) -> bool {
    let Some(seed) = seed else {
        return sums.is_empty() || sums.contains(&sum(bytes));
    };
    let mut read_back = [0_u8; UNIT];
    read_back.copy_from_slice(bytes);
    flip(unit, seed, &mut read_back);
    let found = sum(&read_back);
    if sums.is_empty() {
        // Holes are not affected by damage.
        return found == sum(bytes) || bytes.iter().all(|&b| b == 0);
    }
    sums.contains(&found)
}

/// Removes `units` from the ranges with injected corruption.
fn cut(runs: &mut Runs, units: &Range<u64>) {
    if units.is_empty() {
        return;
    }
    if let Some((&start, &(end, seed))) = runs.range(..units.start).next_back()
        && end > units.start
    {
        runs.insert(start, (units.start, seed));
        if end > units.end {
            runs.insert(units.end, (end, seed));
        }
    }
    while let Some((&start, &(end, seed))) = runs.range(units.clone()).next() {
        runs.remove(&start);
        if end > units.end {
            runs.insert(units.end, (end, seed));
        }
    }
}

/// Flips one to three bits, each in a different third of the unit.
fn flip(unit: u64, seed: u64, bytes: &mut [u8; UNIT]) {
    let mut random = stream(seed, "damage", unit);
    let third = (UNIT * 8 / 3) as u64;
    for i in 0..=below(&mut random, 3) {
        let bit = (i * third + below(&mut random, third)) as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_damage_are_cut_as_sets_are() {
        let mut random = stream(1, "runs", 0);
        let guard = Guard::new(true);
        let mut plain = [None; 40];
        for seed in 0..3000 {
            let from = below(&mut random, 40);
            let to = from + below(&mut random, 41 - from);
            if below(&mut random, 2) == 0 {
                guard.damage(&(from * 4096..to * 4096), seed);
                plain[from as usize..to as usize].fill(Some(seed));
            } else {
                guard.lift(&(from..to));
                plain[from as usize..to as usize].fill(None);
            }
            let seeds: Vec<Option<u64>> = (0..40).map(|unit| guard.seed(unit)).collect();
            assert_eq!(seeds, plain);
        }
    }

    #[test]
    fn damage_is_always_found() {
        let bytes = [7; UNIT];
        for check_reads in [true, false] {
            let guard = Guard::new(check_reads);
            for seed in 0..200 {
                guard.damage(&(4096..4097), seed);
                assert!(guard.passes(0, &bytes, &[sum(&bytes)]));
                assert!(!guard.passes(1, &bytes, &[sum(&bytes)]));
                assert!(!guard.passes(1, &bytes, &[]));
            }
            assert_eq!(guard.passes(0, &bytes, &[1]), !check_reads);
            assert!(!guard.passes_always(0, &bytes, &[1]));
        }
    }
}
