//! Content of writes: incompressible, compressible, dedupable, verifiable and zero bytes.
//!
//! A buffer is prepared once and then only stamped: 16 bytes in each 4 KiB change with every write,
//! so that no two blocks are ever equal, at the cost of one cache line. These bytes are the mark by
//! which a later run recognizes iodyno's blocks ([`iodyno_units::mark`]). The other bytes stay the
//! same between writes from one buffer, so a compressor that works across several writes can
//! exploit them; within one write nothing repeats.

mod fill;

pub use fill::Filler;
