//! The specification of placement on a drive with NVMe Flexible Data Placement (FDP).

/// Namespaces of a drive with NVMe Flexible Data Placement (FDP): consecutive ranges of the capacity, each with its
/// own reclaim unit handle.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// Fraction of the capacity per namespace, in address order. The sum is 1.
    pub shares: Vec<f64>,
    /// Whether garbage collection may mix data of different namespaces.
    pub isolation: Isolation,
}

/// Whether garbage collection isolates the data of each reclaim unit handle (NVM Express Base Specification 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Garbage collection may mix the data of all handles.
    Initial,
    /// Garbage collection keeps the data of each handle apart.
    Persistent,
}

impl Isolation {
    pub const ALL: [Self; 2] = [Self::Initial, Self::Persistent];
    /// Names of the types of isolation in device files, in the order of [`Self::ALL`].
    pub const WORDS: [&str; 2] = ["initial", "persistent"];
}
