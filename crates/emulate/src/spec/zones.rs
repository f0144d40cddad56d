//! The specification of a zoned device's zones: sizes, limits and times.

/// Parameters of a zoned device's zones (NVM Express Zoned Namespaces).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zones {
    /// Distance between the starts of neighbouring zones in the address space.
    pub size_bytes: u64,
    /// Writable bytes at the start of each zone. A multiple of the total size of one block
    /// from each plane of each die.
    pub capacity_bytes: u64,
    /// Maximum number of zones that are open at the same time, implicitly or explicitly.
    pub open_max: u32,
    /// Maximum number of active zones: open zones, and closed zones, which are partly written.
    pub active_max: u32,
    /// Time for which an append command occupies the controller.
    pub append_command_ns: u64,
    /// Time to reset a full zone, ns. For a partly written zone, multiplied by its written fraction.
    pub reset_ns: u64,
    /// Whether the host issues its writes as appends, to which the device assigns the address.
    pub appends: bool,
}
