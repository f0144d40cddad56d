//! What writes carry: the bytes of incompressible, compressible, dedupable, verifiable and zero
//! content.
//!
//! A buffer is prepared once and then only stamped: 8 bytes in each 4 KiB change with every write,
//! so that no two blocks are ever the same, at the cost of one cache line. Between writes from the
//! same buffer the other bytes stay, so a compressor that looks across several writes at once
//! finds them again; within one write nothing repeats.

mod fill;
mod verify;

pub use fill::Filler;
pub use verify::{Corruption, check_verifiable, fill_verifiable};

/// Fills `bytes` (whole words of 8) with what `key` stands for: random to any compressor. The
/// generator is wyrand's, whose words need no predecessor and so are made several at a time.
fn random_words(bytes: &mut [u8], key: u64) {
    let mut state = key;
    for word in bytes.as_chunks_mut::<8>().0 {
        state = state.wrapping_add(0xA076_1D64_78BD_642F);
        let product = u128::from(state) * u128::from(state ^ 0xE703_7ED1_A0B4_28DB);
        *word = ((product >> 64) as u64 ^ product as u64).to_le_bytes();
    }
}
