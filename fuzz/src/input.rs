//! Numbers out of a fuzzer's bytes.

/// The bytes that are left.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl Input<'_> {
    /// The next byte; None at the end.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// The next number of N bytes, little-endian. Bytes after the end are zeroes.
    pub(crate) fn number<const N: usize>(&mut self) -> u64 {
        (0..N).fold(0, |sum, n| sum | u64::from(self.byte().unwrap_or(0)) << (8 * n))
    }

    /// The next number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.number::<4>() % end as u64) as usize
    }

    /// At most this many bytes.
    pub(crate) fn bytes(&mut self, most: usize) -> &[u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
