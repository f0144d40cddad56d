//! Content of writes: incompressible, compressible, dedupable, verifiable and zero bytes.
//!
//! A buffer is prepared once. Each write then only stamps it: 16 bytes in each 4 KiB change, so that no two blocks
//! are ever equal. These bytes are the mark by which a later run recognizes iodyno's blocks ([`iodyno_units::mark`]).
//! The other bytes repeat from write to write, which only a compressor that works across writes can exploit; within
//! one write nothing repeats.

mod fill;

pub use fill::Filler;
