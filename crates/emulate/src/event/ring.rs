//! A ring of buckets, the building block of a timing wheel. A bucket contains slots, which are indices of requests.
//!
//! Buckets are numbered in order of time. The ring holds the next 8192 of them, each as a list that is linked through
//! its slots. Two levels of bitmaps find the next occupied bucket in one or two steps.

const BUCKETS: usize = 1 << 13;
const MASK: u64 = BUCKETS as u64 - 1;
const WORDS: usize = BUCKETS / 64;
pub(super) const NIL: u32 = u32::MAX;

/// One ring of the timing wheel: a list of requests per bucket.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    heads: Box<[u32; BUCKETS]>,
    /// One bit per bucket: 1 if it is occupied.
    occupied: Box<[u64; WORDS]>,
    /// One bit per word of `occupied`: 1 if the word is non-zero.
    words: [u64; WORDS / 64],
    /// Number of the first occupied bucket; `u64::MAX`: none.
    first: u64,
}

impl Ring {
    /// Number of buckets that the ring covers.
    pub(super) const REACH: u64 = BUCKETS as u64;

    pub(super) fn new() -> Self {
        Self {
            heads: vec![NIL; BUCKETS].into_boxed_slice().try_into().expect("its length"),
            occupied: Box::new([0; WORDS]),
            words: [0; WORDS / 64],
            first: u64::MAX,
        }
    }

    /// Makes the request `slot` the first of a bucket. Returns the previous first request.
    #[inline]
    pub(super) fn put(&mut self, bucket: u64, slot: u32) -> u32 {
        let index = (bucket & MASK) as usize;
        self.occupied[index / 64] |= 1 << (index % 64);
        self.words[index / 4096] |= 1 << (index / 64 % 64);
        self.first = self.first.min(bucket);
        std::mem::replace(&mut self.heads[index], slot)
    }

    /// Empties the first occupied bucket. Returns its first request.
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

    /// Returns the number of the first occupied bucket; `u64::MAX`: none.
    #[inline]
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Returns the first request of the first occupied bucket; [`NIL`]: none.
    #[inline]
    pub(super) fn first_slot(&self) -> u32 {
        self.heads[(self.first & MASK) as usize]
    }

    /// Returns the number of the first occupied bucket after `cursor`; `None` if there is none.
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
        // The words after it, around the ring up to the beginning of its own.
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

    /// Returns the first request of every occupied bucket.
    pub(super) fn heads(&self) -> impl Iterator<Item = u32> {
        self.heads.iter().copied().filter(|&slot| slot != NIL)
    }
}
