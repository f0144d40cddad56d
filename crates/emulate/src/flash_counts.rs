//! Counters of a flash device since the start: pages written and copied, programs, reads, erases.

/// Counters of a device since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// 4 KiB pages that hosts wrote.
    pub host_pages: u64,
    /// Pages that garbage collection copied.
    pub copied_pages: u64,
    /// Pages of the map that were written.
    pub map_pages: u64,
    /// Pages without data: a program writes all planes of a die, even if fewer pages are to be written.
    pub filler_pages: u64,
    /// Page programs of a die (all planes).
    pub programs: u64,
    /// Flash pages read for hosts.
    pub senses: u64,
    /// Flash pages read for copies.
    pub copy_senses: u64,
    /// Erase blocks erased.
    pub erases: u64,
    /// Page reads whose data was rebuilt from the parity stripe.
    pub recovered: u64,
    /// Page reads that failed because they could not be rebuilt.
    pub unrecovered: u64,
    /// Times at which the controller's housekeeping stopped all work.
    pub stalls: u64,
}

impl Counts {
    /// Pages programmed per page that hosts wrote; 1 if nothing was written.
    pub fn write_amplification(&self) -> f64 {
        if self.host_pages == 0 {
            return 1.0;
        }
        let all = self.host_pages + self.copied_pages + self.map_pages + self.filler_pages;
        all as f64 / self.host_pages as f64
    }

    /// Difference from an earlier state of the counters.
    #[must_use]
    pub fn since(&self, other: &Self) -> Self {
        Self {
            host_pages: self.host_pages - other.host_pages,
            copied_pages: self.copied_pages - other.copied_pages,
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

    /// Sum of two devices' counters.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            host_pages: self.host_pages + other.host_pages,
            copied_pages: self.copied_pages + other.copied_pages,
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
