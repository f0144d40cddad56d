//! The proof distinguishes a purge from a false claim of one.

use super::*;
use proptest::prelude::*;

/// A store that ignores writes or fails reads from some offset on.
struct Fake {
    bytes: Vec<u8>,
    lost_from: usize,
    blind_from: usize,
}

impl Fake {
    fn of(len: usize) -> Self {
        Self { bytes: vec![0x5A; len], lost_from: usize::MAX, blind_from: usize::MAX }
    }
}

impl Blocks for Fake {
    fn write(&mut self, at_bytes: u64, from: &[u8]) -> Result<(), Errno> {
        let at = at_bytes as usize;
        if at < self.lost_from {
            self.bytes[at..at + from.len()].copy_from_slice(from);
        }
        Ok(())
    }

    fn read(&mut self, at_bytes: u64, to: &mut [u8]) -> Result<(), Errno> {
        let at = at_bytes as usize;
        if at >= self.blind_from {
            return Err(Errno::IO);
        }
        to.copy_from_slice(&self.bytes[at..at + to.len()]);
        Ok(())
    }

    fn settle(&mut self) {}
}

const LEN: usize = 1 << 20;

fn called(store: &mut Fake) -> EraseCheck {
    let len = store.bytes.len() as u64;
    EraseCheck::write(store, len, 512, 7)
}

#[test]
fn erased_and_kept_blocks_are_found() {
    let mut store = Fake::of(LEN);
    let check = called(&mut store);
    assert_eq!(check.places.len(), 64);
    assert_eq!(check.verify(&mut store).0, Verified::No, "nothing was purged");
    let kept = store.bytes.clone();
    store.bytes.fill(0);
    let (verified, words) = check.verify(&mut store);
    assert_eq!(
        (verified, words.as_str()),
        (Verified::Yes, "Of 64 sampled blocks 64 read as zeroes.")
    );
    // One sector of one block survived.
    let last = *check.places.last().unwrap() as usize;
    store.bytes[last + 512..last + 1024].copy_from_slice(&kept[last + 512..last + 1024]);
    let (verified, words) = check.verify(&mut store);
    assert_eq!(verified, Verified::No);
    assert!(words.contains("1 still hold"), "{words}");
    // After a change of keys everything reads differently.
    for (byte, old) in store.bytes.iter_mut().zip(&kept) {
        *byte = old ^ 0x99;
    }
    assert_eq!(check.verify(&mut store).0, Verified::Yes);
    store.blind_from = LEN / 2;
    assert_eq!(check.verify(&mut store).0, Verified::Unknown);
}

#[test]
fn a_pattern_that_never_arrived_proves_nothing() {
    let mut store = Fake { lost_from: 0, ..Fake::of(LEN) };
    let check = called(&mut store);
    store.bytes.fill(0);
    assert_eq!(check.verify(&mut store).0, Verified::Unknown);
    let mut store = Fake { lost_from: LEN / 2, ..Fake::of(LEN) };
    let check = called(&mut store);
    assert!((20..45).contains(&check.places.len()), "{check:?}");
    // A single block proves only itself, unless it disproves the purge.
    let mut store = Fake { lost_from: 4096, ..Fake::of(LEN) };
    let check = called(&mut store);
    assert_eq!(check.verify(&mut store).0, Verified::No);
    store.bytes.fill(0);
    let (verified, words) = check.verify(&mut store);
    assert_eq!(verified, Verified::Unknown);
    assert!(words.contains("Only 1 of 64 blocks"), "{words}");
    // The pattern of an earlier purge does not count.
    let mut store = Fake::of(LEN);
    called(&mut store);
    store.lost_from = 0;
    let later = EraseCheck::write(&mut store, LEN as u64, 512, 8);
    assert!(later.places.is_empty());
    assert_eq!(
        EraseCheck::write(&mut Fake::of(0), 0, 512, 1).verify(&mut Fake::of(0)).0,
        Verified::Unknown
    );
}

proptest! {
    /// The sampled blocks are both ends and one in each part between: ascending, without duplicates, none outside.
    #[test]
    fn samples_are_spread(blocks in prop_oneof![0_u64..500, 1_u64..1 << 52], nonce: u64) {
        let places = spread(blocks, nonce);
        prop_assert_eq!(places.len() as u64, blocks.min(64));
        prop_assert!(places.windows(2).all(|w| w[0] < w[1]), "{:?}", places);
        if blocks > 0 {
            prop_assert_eq!((places[0], *places.last().unwrap()), (0, blocks - 1));
            let widest = places.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0);
            prop_assert!(widest <= 2 * (blocks / 62 + 1));
        }
    }
}
