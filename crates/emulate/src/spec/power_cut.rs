//! The specification of what a power cut leaves of a drive's writes.

/// What a power cut leaves of the writes that it interrupts, or that a volatile buffer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerCut {
    /// Size of the aligned blocks of which a write survives whole or not at all, a power of two of at least 512 B (NVM
    /// Express: AWUPF). Longer writes may survive in some of their blocks.
    pub atomic_bytes: u32,
    /// Order in which the writes in a volatile buffer become durable.
    pub order: DurableOrder,
}

/// Order in which writes become durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DurableOrder {
    /// As program operations end: a power cut may lose a write and keep later ones.
    #[default]
    Any,
    /// As the buffer accepted them: what a power cut loses are the last writes.
    Acknowledged,
}

impl DurableOrder {
    /// All orders, in the order of [`Self::WORDS`].
    pub const ALL: [Self; 2] = [Self::Any, Self::Acknowledged];
    /// Names of the orders in device files, in the order of [`Self::ALL`].
    pub const WORDS: [&str; 2] = ["any", "acknowledged"];
}
