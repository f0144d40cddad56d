//! What writes carry: the bytes of incompressible, compressible, dedupable, verifiable and zero
//! content.
//!
//! A buffer is prepared once and then only stamped: 16 bytes in each 4 KiB change with every write,
//! so that no two blocks are ever the same, at the cost of one cache line. They are the mark by which
//! a later run knows the block for iodyno's ([`iodyno_units::mark`]). Between writes from the
//! same buffer the other bytes stay, so a compressor that looks across several writes at once
//! finds them again; within one write nothing repeats.

mod fill;

pub use fill::Filler;
