//! Verified content over many workers: which generation each unit of the target holds, and that no
//! two operations that could disturb each other are in flight on the same unit.
//!
//! The map is shared by the workers of a target. A write claims its units alone, a read together
//! with other reads. An operation that can't have its units is not waited for: the worker draws
//! the next one instead, and the cell says how many were replaced.

use iodyno_units::{Op, OpKind};
use iodyno_workload::content::{check_verifiable, fill_verifiable};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// Claimed by a writer.
const WRITER: u8 = u8::MAX;
/// Most readers of one unit at a time.
const READERS_MAX: u8 = 250;
/// What a unit holds is not known: a write to it failed half-way, or it was trimmed.
const UNKNOWN: u32 = 0;

/// See the module.
#[derive(Debug)]
pub struct VerifyMap {
    unit_bytes: u64,
    seed: u64,
    generation: Box<[AtomicU32]>,
    claims: Box<[AtomicU8]>,
}

impl VerifyMap {
    /// A map of `capacity_bytes` in units of `unit_bytes`. `laid_out` says that every unit holds
    /// generation 1 of this seed already. Takes 5 bytes of memory a unit.
    pub fn new(capacity_bytes: u64, unit_bytes: u32, seed: u64, laid_out: bool) -> Self {
        let units = (capacity_bytes / u64::from(unit_bytes)) as usize;
        let first = if laid_out { 1 } else { UNKNOWN };
        Self {
            unit_bytes: u64::from(unit_bytes),
            seed,
            generation: (0..units).map(|_| AtomicU32::new(first)).collect(),
            claims: (0..units).map(|_| AtomicU8::new(0)).collect(),
        }
    }

    fn units(&self, op: &Op) -> std::ops::Range<usize> {
        let first = op.offset_bytes / self.unit_bytes;
        let count = u64::from(op.len_bytes).div_ceil(self.unit_bytes);
        first as usize..(first + count) as usize
    }

    /// Tries to claim what an operation touches. A flush touches nothing.
    pub fn claim(&self, op: &Op) -> bool {
        let units = self.units(op);
        for unit in units.clone() {
            let claim = &self.claims[unit];
            let got = if op.kind == OpKind::Read {
                claim
                    .fetch_update(Ordering::Acquire, Ordering::Relaxed, |c| {
                        (c < READERS_MAX).then(|| c + 1)
                    })
                    .is_ok()
            } else {
                claim.compare_exchange(0, WRITER, Ordering::Acquire, Ordering::Relaxed).is_ok()
            };
            if !got {
                self.release_units(op.kind, units.start..unit);
                return false;
            }
        }
        true
    }

    fn release_units(&self, kind: OpKind, units: std::ops::Range<usize>) {
        for claim in &self.claims[units] {
            if kind == OpKind::Read {
                claim.fetch_sub(1, Ordering::Release);
            } else {
                claim.store(0, Ordering::Release);
            }
        }
    }

    /// Fills a claimed write's buffer: each unit with its next generation.
    pub fn fill(&self, op: &Op, buffer: &mut [u8]) {
        for (i, unit) in self.units(op).enumerate() {
            let from = i * self.unit_bytes as usize;
            let bytes = &mut buffer[from..from + self.unit_bytes as usize];
            let next = self.next_generation(unit);
            fill_verifiable(bytes, unit as u64 * self.unit_bytes, next, self.seed);
        }
    }

    fn next_generation(&self, unit: usize) -> u32 {
        self.generation[unit].load(Ordering::Relaxed).wrapping_add(1).max(1)
    }

    /// A claimed operation has completed: checks what was read, or notes what was written, and
    /// gives the claim back. The error says what was wrong, with its address.
    pub fn complete(&self, op: &Op, succeeded: bool, buffer: &[u8]) -> Result<(), String> {
        let units = self.units(op);
        let mut wrong = Ok(());
        for (i, unit) in units.clone().enumerate() {
            match op.kind {
                OpKind::Write => {
                    let now = if succeeded { self.next_generation(unit) } else { UNKNOWN };
                    self.generation[unit].store(now, Ordering::Relaxed);
                }
                OpKind::Trim | OpKind::WriteZeroes => {
                    self.generation[unit].store(UNKNOWN, Ordering::Relaxed);
                }
                OpKind::Read if succeeded && wrong.is_ok() => {
                    let from = i * self.unit_bytes as usize;
                    wrong = self.check(unit, &buffer[from..from + self.unit_bytes as usize]);
                }
                OpKind::Read | OpKind::Flush => {}
            }
        }
        self.release_units(op.kind, units);
        wrong
    }

    fn check(&self, unit: usize, bytes: &[u8]) -> Result<(), String> {
        let expected = self.generation[unit].load(Ordering::Relaxed);
        if expected == UNKNOWN {
            return Ok(());
        }
        let offset = unit as u64 * self.unit_bytes;
        match check_verifiable(bytes, offset, self.seed) {
            Ok(found) if found == expected => Ok(()),
            Ok(found) => Err(format!(
                "at byte {offset}: stale content, generation {found} where {expected} had been acknowledged"
            )),
            Err(corruption) => Err(format!("at byte {offset}: {corruption}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(kind: OpKind, unit: u64, units: u32) -> Op {
        Op { offset_bytes: unit * 4096, len_bytes: units * 4096, kind, fua: false }
    }

    #[test]
    fn writers_are_alone_and_a_failed_claim_leaves_nothing_behind() {
        let map = VerifyMap::new(16 * 4096, 4096, 1, false);
        let (read, write) = (op(OpKind::Read, 2, 2), op(OpKind::Write, 3, 1));
        assert!(map.claim(&read) && map.claim(&read));
        assert!(!map.claim(&write), "a reader is there");
        let wide = op(OpKind::Write, 1, 4);
        assert!(!map.claim(&wide));
        assert!(map.claim(&op(OpKind::Write, 1, 1)), "the failed claim gave unit 1 back");
        map.complete(&read, true, &[0; 8192]).unwrap();
        map.complete(&read, true, &[0; 8192]).unwrap();
        assert!(map.claim(&write), "all readers are gone");
        assert!(!map.claim(&read));
    }

    #[test]
    fn stale_and_wrong_content_is_found() {
        let map = VerifyMap::new(16 * 4096, 4096, 7, false);
        let (write, read) = (op(OpKind::Write, 5, 1), op(OpKind::Read, 5, 1));
        let (mut first, mut second) = (vec![0; 4096], vec![0; 4096]);
        for buffer in [&mut first, &mut second] {
            assert!(map.claim(&write));
            map.fill(&write, buffer);
            map.complete(&write, true, buffer).unwrap();
        }
        assert!(map.claim(&read));
        assert!(map.complete(&read, true, &second).is_ok());
        assert!(map.claim(&read));
        let stale = map.complete(&read, true, &first).unwrap_err();
        assert!(stale.contains("stale") && stale.contains("20480"), "{stale}");
        second[100] ^= 1;
        assert!(map.claim(&read));
        assert!(map.complete(&read, true, &second).is_err());
        // After a failed write nobody can say what a unit holds.
        assert!(map.claim(&write));
        map.complete(&write, false, &[]).unwrap();
        assert!(map.claim(&read));
        assert!(map.complete(&read, true, &second).is_ok());
    }
}
