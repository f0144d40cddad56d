//! The bytes of a volume that survive a power cut: its medium, in memory or in a file, with checksum verification.
//!
//! All methods take `&self`: any number of threads may read and write concurrently. Concurrent writes never mix within
//! a unit; in a longer range they may, as on any device.

use super::error::{OpenError, ReadError, WriteError};
use super::file::File;
use super::guard::Guard;
use super::host::Faults;
use super::image::Image;
use super::memory::Memory;
use super::units::{Part, Run, Soundness, UNIT_BYTES, covered, ends};
use std::ops::Range;
use std::path::Path;

#[derive(Debug)]
enum Medium {
    Memory(Memory),
    File(Box<File>),
}

/// Storage of a volume's durable content, in memory or in a file, with the verification of reads.
#[derive(Debug)]
pub(super) struct Base {
    medium: Medium,
    pub capacity_bytes: u64,
    pub guard: Guard,
}

impl Base {
    pub(super) fn in_memory(
        image: Option<Image>,
        capacity_bytes: u64,
        bytes_max: u64,
        check_reads: bool,
    ) -> Self {
        let medium = Medium::Memory(Memory::new(image, capacity_bytes, bytes_max));
        Self { medium, capacity_bytes, guard: Guard::new(check_reads) }
    }

    pub(super) fn in_file(
        path: &Path,
        capacity_bytes: u64,
        check_reads: bool,
        faults: Faults,
    ) -> Result<Self, OpenError> {
        let medium = Medium::File(Box::new(File::open(path, capacity_bytes, faults)?));
        Ok(Self { medium, capacity_bytes, guard: Guard::new(check_reads) })
    }

    /// Whether a range lies within the volume.
    pub(super) fn holds(&self, offset_bytes: u64, len_bytes: u64) -> bool {
        offset_bytes.checked_add(len_bytes).is_some_and(|end| end <= self.capacity_bytes)
    }

    /// Size of the volume in 4 KiB units.
    pub(super) fn units(&self) -> u64 {
        self.capacity_bytes.div_ceil(UNIT_BYTES)
    }

    pub(super) fn read(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), ReadError> {
        let len_bytes = into.len() as u64;
        if !self.holds(offset_bytes, len_bytes) {
            return Err(ReadError::OutOfRange { offset_bytes, len_bytes });
        }
        match &self.medium {
            Medium::Memory(m) => m.read(offset_bytes, into, &self.guard),
            Medium::File(f) => f.read(offset_bytes, into, &self.guard),
        }
    }

    pub(super) fn write(&self, offset_bytes: u64, data: &[u8]) -> Result<(), WriteError> {
        let len_bytes = data.len() as u64;
        if !self.holds(offset_bytes, len_bytes) {
            return Err(WriteError::OutOfRange { offset_bytes, len_bytes });
        }
        match &self.medium {
            Medium::Memory(m) => m.write(offset_bytes, data, &self.guard),
            Medium::File(f) => f.write(offset_bytes, data, &self.guard),
        }
    }

    /// Writes a part of a corrupt 4 KiB unit. The unit stays corrupt; the new data is readable only after
    /// injected damage has been cleared.
    pub(super) fn write_beneath(&self, part: Part, data: &[u8]) -> Result<(), WriteError> {
        match &self.medium {
            Medium::Memory(m) => m.write_beneath(part, data),
            Medium::File(f) => f.write_beneath(part, data),
        }
    }

    /// Deallocates whole 4 KiB units, which then read as zeroes.
    pub(super) fn drop_units(&self, units: &Range<u64>) -> Result<(), WriteError> {
        let units = units.start..units.end.min(self.units());
        if units.is_empty() {
            return Ok(());
        }
        match &self.medium {
            Medium::Memory(m) => {
                m.drop_units(&units);
                Ok(())
            }
            Medium::File(f) => f.drop_units(&units),
        }
    }

    /// Zeroes a part of a 4 KiB unit. If the part is the whole unit, the unit is deallocated.
    pub(super) fn zero_part(&self, part: Part) -> Result<(), WriteError> {
        if part.is_whole() {
            return self.drop_units(&(part.unit..part.unit + 1));
        }
        match &self.medium {
            Medium::Memory(m) => m.zero_part(part, &self.guard),
            Medium::File(f) => f.zero_part(part, &self.guard),
        }
    }

    /// Zeroes a range: deallocates its whole 4 KiB units, and zeroes the partial units at both ends.
    pub(super) fn zero(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), WriteError> {
        self.trim(offset_bytes, len_bytes)?;
        ends(offset_bytes, len_bytes).try_for_each(|part| self.zero_part(part))
    }

    /// Deallocates the whole 4 KiB units in a range.
    pub(super) fn trim(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), WriteError> {
        if !self.holds(offset_bytes, len_bytes) {
            return Err(WriteError::OutOfRange { offset_bytes, len_bytes });
        }
        self.drop_units(&covered(offset_bytes, len_bytes))
    }

    pub(super) fn run(&self, unit: u64, end: u64) -> Run {
        match &self.medium {
            Medium::Memory(m) => m.run(unit, end),
            Medium::File(f) => f.run(unit, end),
        }
    }

    /// Total size of the allocated units, bytes.
    pub(super) fn data_bytes(&self) -> u64 {
        let (mut at, mut units) = (0, 0);
        while at < self.units() {
            let run = self.run(at, self.units());
            units += if run.data { run.end - at } else { 0 };
            at = run.end;
        }
        units * UNIT_BYTES
    }

    pub(super) fn verify(&self, unit: u64) -> Result<Soundness, ReadError> {
        match &self.medium {
            Medium::Memory(m) => m.verify(unit, &self.guard),
            Medium::File(f) => f.verify(unit, &self.guard),
        }
    }

    /// Closes the current generation of writes, as a flush does. A server that later opens the file accepts the
    /// present content, but treats any older version as corrupt.
    pub(super) fn close_generation(&self) -> Result<(), WriteError> {
        match &self.medium {
            Medium::Memory(_) => Ok(()),
            Medium::File(f) => f.close_generation(false),
        }
    }

    /// Whether the last server that had the file open shut down cleanly; true if there was none.
    pub(super) fn was_ended(&self) -> bool {
        match &self.medium {
            Medium::Memory(_) => true,
            Medium::File(f) => f.was_ended,
        }
    }

    pub(super) fn sync(&self, ended: bool) -> Result<(), WriteError> {
        match &self.medium {
            Medium::Memory(_) => Ok(()),
            Medium::File(f) => f.sync(ended),
        }
    }

    /// Removes the files that opening created, unless the data file has content. `sums_alone`: opening created only
    /// the checksum file, which is always removed.
    pub(super) fn remove_made(&self, sums_alone: bool) {
        if let Medium::File(f) = &self.medium {
            f.remove_made(sums_alone);
        }
    }

    /// Removes the volume's checksum file.
    pub(super) fn remove_sums(&self) {
        if let Medium::File(f) = &self.medium {
            f.remove_sums();
        }
    }

    /// Memory used by data and tables, bytes; 0 if the content is in a file.
    pub(super) fn memory_bytes(&self) -> u64 {
        match &self.medium {
            Medium::Memory(m) => m.used_bytes(),
            Medium::File(_) => 0,
        }
    }
}
