//! The index that identifies a component of a machine.

/// Index of a component (device, array, adapter path or read cache) in the list of the system's components.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartId(pub u32);

impl PartId {
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
