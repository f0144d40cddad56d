//! Content of writes: incompressible, compressible, dedupable, verifiable and zero bytes.
//!
//! Random content has a mark in each sector, by which a later run recognises iodyno's data ([`iodyno_units::mark`]). A
//! buffer is prepared once. Before each write it is only stamped: each 4 KiB block gets a new mark in its first 16
//! bytes, so that no two blocks are equal, except intended duplicates. The other bytes repeat from write to write,
//! which only a compressor that works across writes can exploit; within one write nothing repeats.

mod fill;

pub use fill::Filler;
