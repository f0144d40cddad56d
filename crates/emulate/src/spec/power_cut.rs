//! The specification of the effect of a power cut on a drive's writes.

/// Effect of a power cut on writes in progress, and on writes in a volatile buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerCut {
    /// Size of the aligned blocks in which a power cut leaves a write whole or not at all, a power of two of at least
    /// 512 B (NVM Express: AWUPF). Of a longer write, some blocks may survive and others not.
    pub atomic_bytes: u32,
    /// Order in which the writes in a volatile buffer become durable.
    pub order: DurableOrder,
}

/// Order in which writes become durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DurableOrder {
    /// Data becomes durable in the order in which program operations end. A power cut may lose a write and keep later
    /// ones.
    #[default]
    Any,
    /// Data becomes durable in the order in which the buffer accepted it. A power cut loses only the latest writes.
    Acknowledged,
}

impl DurableOrder {
    /// All orders, in the order of [`Self::WORDS`].
    pub const ALL: [Self; 2] = [Self::Any, Self::Acknowledged];
    /// Names of the orders in device files, in the order of [`Self::ALL`].
    pub const WORDS: [&str; 2] = ["any", "acknowledged"];
}
