//! A ring of buckets of slots: the building block of a timing wheel, independent of the buckets' meaning.
//!
//! A bucket has a number that only grows; the ring holds those of the next 8192. Each is a list
//! that is linked through the slots. One bit says whether a bucket is empty and one whether a word
//! of those bits is, so that the next non-empty one is found in one or two steps.

const BUCKETS: usize = 1 << 13;
const MASK: u64 = BUCKETS as u64 - 1;
const WORDS: usize = BUCKETS / 64;
pub(super) const NIL: u32 = u32::MAX;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    heads: Box<[u32; BUCKETS]>,
    /// One bit a bucket that is not empty.
    occupied: Box<[u64; WORDS]>,
    /// One bit a word that is not 0.
    words: [u64; WORDS / 64],
    /// The number of the first bucket that is not empty; `u64::MAX`: there is none.
    first: u64,
}

impl Ring {
    /// How many buckets ahead it reaches.
    pub(super) const REACH: u64 = BUCKETS as u64;

    pub(super) fn new() -> Self {
        Self {
            heads: vec![NIL; BUCKETS].into_boxed_slice().try_into().expect("its length"),
            occupied: Box::new([0; WORDS]),
            words: [0; WORDS / 64],
            first: u64::MAX,
        }
    }

    /// Makes `slot` the first of a bucket; gives the previous first.
    #[inline]
    pub(super) fn put(&mut self, bucket: u64, slot: u32) -> u32 {
        let index = (bucket & MASK) as usize;
        self.occupied[index / 64] |= 1 << (index % 64);
        self.words[index / 4096] |= 1 << (index / 64 % 64);
        self.first = self.first.min(bucket);
        std::mem::replace(&mut self.heads[index], slot)
    }

    /// Empties the first bucket that is not empty; gives its first slot.
    #[inline]
    pub(super) fn take(&mut self) -> u32 {
        let index = (self.first & MASK) as usize;
        self.occupied[index / 64] &= !(1 << (index % 64));
        if self.occupied[index / 64] == 0 {
            self.words[index / 4096] &= !(1 << (index / 64 % 64));
        }
        self.first = self.after(self.first).unwrap_or(u64::MAX);
        std::mem::replace(&mut self.heads[index], NIL)
    }

    /// The number of the first bucket that is not empty; `u64::MAX`: there is none.
    #[inline]
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The first slot of that bucket; [`NIL`]: there is none.
    #[inline]
    pub(super) fn first_slot(&self) -> u32 {
        self.heads[(self.first & MASK) as usize]
    }

    /// The number of the first bucket after `cursor` that is not empty.
    #[inline]
    fn after(&self, cursor: u64) -> Option<u64> {
        let start = ((cursor + 1) & MASK) as usize;
        let found = |index: usize| {
            let ahead = (index as u64).wrapping_sub(cursor + 1) & MASK;
            Some(cursor + 1 + ahead)
        };
        let word = self.occupied[start / 64] >> (start % 64);
        if word != 0 {
            return found(start + word.trailing_zeros() as usize);
        }
        // The words after it, round the ring to the first part of its own.
        let first = start / 64 + 1;
        for turn in 0..=self.words.len() {
            let group = (first / 64 + turn) % self.words.len();
            let mut words = self.words[group];
            if turn == 0 && first < WORDS {
                words &= u64::MAX << (first % 64);
            } else if turn == self.words.len() {
                words &= !(u64::MAX << (first % 64));
            }
            if words != 0 {
                let word = group * 64 + words.trailing_zeros() as usize;
                return found(word * 64 + self.occupied[word].trailing_zeros() as usize);
            }
        }
        None
    }

    /// The first slot of every bucket that is not empty.
    pub(super) fn heads(&self) -> impl Iterator<Item = u32> {
        self.heads.iter().copied().filter(|&slot| slot != NIL)
    }
}
