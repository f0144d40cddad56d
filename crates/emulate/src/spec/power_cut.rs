//! The specification of what a power cut does to a drive's writes.

/// Effect of a power cut on writes in progress, and on writes in a volatile buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerCut {
    /// Size of aligned blocks that are atomic in a power cut (NVM Express: AWUPF): afterwards each block is either old
    /// or new as a whole. A power of two, at least 512 B. Of a longer write, some blocks may survive and others not.
    pub atomic_bytes: u32,
    /// Order in which writes in a volatile buffer become durable. It decides whether a power cut may lose any of these
    /// writes, or only the latest.
    pub order: DurableOrder,
}

/// Order in which the writes in a volatile buffer become durable.
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
    pub const ALL: [Self; 2] = [Self::Any, Self::Acknowledged];
    /// Names of the variants in device files, in the order of [`Self::ALL`].
    pub const WORDS: [&str; 2] = ["any", "acknowledged"];
}
