//! Mounting and power draw of a device: `[bay]` and `[power]` of its file. They don't affect timing.

/// Type of bay or slot that a device occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bay {
    /// A SAS bay, such as in a drawer behind RAID adapters.
    Sas,
    /// A SATA bay or socket.
    Sata,
    /// A bay or M.2 socket with PCIe lanes.
    Nvme,
    /// A slot for PCIe cards.
    PcieSlot,
    /// A memory slot of the host, for flash DIMMs.
    MemorySlot,
}

impl Bay {
    /// Names of the types in device files, in the order of the variants.
    pub(super) const WORDS: [&str; 5] = ["sas", "sata", "nvme", "pcie-slot", "memory-slot"];
    const ALL: [Self; 5] = [Self::Sas, Self::Sata, Self::Nvme, Self::PcieSlot, Self::MemorySlot];

    /// Name of the type in device files.
    pub(super) fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    pub(super) fn of(word: &str) -> Option<Self> {
        Self::WORDS.iter().position(|w| *w == word).map(|at| Self::ALL[at])
    }
}

/// Power draw of one device. Unknown values are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Power {
    /// Power draw of the device when it is ready but has no I/O, W.
    pub idle_w: Option<f64>,
    /// Power draw of the device under load, W.
    pub active_w: Option<f64>,
}
