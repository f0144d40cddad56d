//! What can go wrong on demand.

/// A fault, to be injected at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The power fails and comes back: everything in flight is gone, and each place keeps what such
    /// a place keeps (a protected buffer all, a volatile one nothing).
    PowerCut,
    /// The flash page that holds this offset can't be read any more.
    Page {
        /// On which volume.
        volume: u32,
        /// Anywhere in the page.
        offset_bytes: u64,
    },
    /// The erase block that holds this offset can't be read any more.
    Block {
        /// On which volume.
        volume: u32,
        /// Anywhere in the block.
        offset_bytes: u64,
    },
}
