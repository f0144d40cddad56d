//! The number that identifies a component of a machine.

/// Number of a component (device, array, adapter path or read cache) in its machine: from 0, in the order
/// in which the system lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartId(pub u32);

impl PartId {
    /// Returns the number as an index into the list of components.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for PartId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
