//! Counters of a flash device: pages written and copied, program operations, reads, erases.

/// Counters of a flash device since its creation, or since an earlier state ([`Self::since`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of 4 KiB pages that hosts wrote.
    pub host_pages: u64,
    /// Number of 4 KiB pages that garbage collection copied.
    pub copied_pages: u64,
    /// Number of 4 KiB pages that were read and rewritten because a host wrote only part of a larger translation
    /// unit.
    pub merged_pages: u64,
    /// Number of 4 KiB pages of the map that were written.
    pub map_pages: u64,
    /// Number of 4 KiB pages programmed without data, because a program operation always covers all planes of a die.
    pub filler_pages: u64,
    /// Number of program operations, each on all planes of a die.
    pub programs: u64,
    /// Number of flash pages read for hosts.
    pub senses: u64,
    /// Number of flash pages read for garbage collection.
    pub copy_senses: u64,
    /// Number of erase operations, each of one block on every plane of a die.
    pub erases: u64,
    /// Number of page reads whose data was rebuilt from the parity stripe.
    pub recovered: u64,
    /// Number of page reads that failed because the data could not be rebuilt.
    pub unrecovered: u64,
    /// Number of times that housekeeping of the controller stalled the whole device.
    pub stalls: u64,
}

impl Counts {
    /// Returns the number of pages programmed per page that hosts wrote; 1 if nothing was written.
    pub fn write_amplification(&self) -> f64 {
        if self.host_pages == 0 {
            return 1.0;
        }
        let moved = self.copied_pages + self.merged_pages;
        let all = self.host_pages + moved + self.map_pages + self.filler_pages;
        all as f64 / self.host_pages as f64
    }

    /// Returns the increase of each counter since the earlier state `other`.
    #[must_use]
    pub fn since(&self, other: &Self) -> Self {
        Self {
            host_pages: self.host_pages - other.host_pages,
            copied_pages: self.copied_pages - other.copied_pages,
            merged_pages: self.merged_pages - other.merged_pages,
            map_pages: self.map_pages - other.map_pages,
            filler_pages: self.filler_pages - other.filler_pages,
            programs: self.programs - other.programs,
            senses: self.senses - other.senses,
            copy_senses: self.copy_senses - other.copy_senses,
            erases: self.erases - other.erases,
            recovered: self.recovered - other.recovered,
            unrecovered: self.unrecovered - other.unrecovered,
            stalls: self.stalls - other.stalls,
        }
    }

    /// Returns the sum of the counters of two devices.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            host_pages: self.host_pages + other.host_pages,
            copied_pages: self.copied_pages + other.copied_pages,
            merged_pages: self.merged_pages + other.merged_pages,
            map_pages: self.map_pages + other.map_pages,
            filler_pages: self.filler_pages + other.filler_pages,
            programs: self.programs + other.programs,
            senses: self.senses + other.senses,
            copy_senses: self.copy_senses + other.copy_senses,
            erases: self.erases + other.erases,
            recovered: self.recovered + other.recovered,
            unrecovered: self.unrecovered + other.unrecovered,
            stalls: self.stalls + other.stalls,
        }
    }
}
