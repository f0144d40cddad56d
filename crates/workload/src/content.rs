//! Content of writes: the bytes of incompressible, compressible, dedupable, verifiable and zero
//! content.
//!
//! A buffer is prepared once and then only stamped: 16 bytes in each 4 KiB change with every write,
//! so that no two blocks are ever equal, at the cost of one cache line. They are the mark by which
//! a later run recognizes iodyno's blocks ([`iodyno_units::mark`]). Between writes from the same
//! buffer the other bytes stay, so a compressor that works across several writes finds them again;
//! within one write nothing repeats.

mod fill;

pub use fill::Filler;
