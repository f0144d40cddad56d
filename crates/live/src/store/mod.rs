//! The bytes of one emulated volume. The machine decides the fate of written data and reports each step
//! ([`ContentEvent`](iodyno_emulate::ContentEvent)); the store applies each step to the bytes.
//!
//! ```text
//! begin_write(token, …)   machine.submit(…, token)
//! machine.next_completion(…)  machine.changes(…)
//! changes(…)              the completion: end_write(token), answer; or read(…), answer
//! ```
//!
//! The store has two layers. The **base** survives a power cut. It is in memory (over an existing disk image, if one
//! is served) or in a file. Each of its 4 KiB units has a checksum, which is verified at every read. The **overlay**
//! holds data that a volatile buffer has accepted, and is lost in a power cut.
//!
//! The caller must apply content events at once, before it acknowledges the operations that completed with them. After
//! a kill of the server, the file then has the content that the modelled device would have after a power cut.
//!
//! # Host errors
//! Bytes that the host refuses to write to the base are kept in memory above it (*stranded*, see `durable.rs`). The
//! machine and the bytes thus never disagree.
//! - An operation whose bytes the host refuses returns the error. Reads return the new bytes. After a kill of the
//!   server, each sector of the operation may hold the old or the new bytes, unless a flush has succeeded before the
//!   kill.
//! - An operation that covers a part of a corrupt unit returns an error, too. Its bytes are written to the base, but
//!   the unit reads as corrupt until it is rewritten whole or the injected corruption is cleared. If the operation
//!   was already acknowledged, the next flush returns the error, once.
//! - An operation whose acknowledgement promises durability (FUA write, write to a protected device, write of zeroes,
//!   trim, flush) first retries the stranded bytes in its range, and fails if some remain.
//! - While bytes are stranded, the volume refuses operations that need new space on the host, or more memory than the
//!   modelled cache has ([`Store::refuses`]). It retries the stranded bytes before it refuses.
//! - Bytes that are still stranded when the server ends are lost. The server reports the loss.
//!
//! A killed server leaves the content as of the last flush, or newer: a unit that is older than the last flush reads
//! as corrupt (`generation.rs`). A client's flush protects data against a kill of the server. Only [`Store::sync`],
//! which a server calls at its end, protects it against a crash of the host too.
//!
//! Without a machine (a device with a protected buffer, at native speed), any number of threads use the base
//! directly: [`Store::write_now`], [`Store::zero_now`], [`Store::trim_now`], [`Store::flush_now`] and
//! [`Store::read`]. These calls do not keep refused bytes in memory.

mod base;
mod durable;
mod error;
mod file;
mod generation;
mod guard;
mod host;
mod image;
mod memory;
mod new_files;
mod overlay;
mod sums;
mod units;
mod write_tracking;

pub use error::{OpenError, ReadError, WriteError};
#[cfg(feature = "host-faults")]
pub use host::{HostCall, HostFault, HostFaults, HostFile};
pub use image::Image;
pub(crate) use new_files::remove_made;
pub use units::UNIT_BYTES;

use base::Base;
use durable::Durable;
use iodyno_emulate::Held;
pub use overlay::Dropped;
use overlay::Overlay;
use std::ops::Range;
use std::path::Path;
use units::{Part, Run, Soundness, parts, touched};

/// Options of the store that keeps a volume's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether reads are verified against checksums, which costs about 0.1 µs per 4 KiB. If not, reads detect
    /// only injected corruption; [`Store::scrub`] detects the rest.
    pub check_reads: bool,
    /// Whether the device is memory that loses its whole content in a power failure. If so, accepted data is stored at
    /// once as durable. Otherwise, data in a volatile buffer is kept separate until it reaches the medium.
    pub emptied_by_power_failure: bool,
    /// Whether the file is another program's disk image. If so, its checksums are removed at a clean shutdown,
    /// because that program's writes would not update them.
    pub sums_until_end: bool,
    /// Whether a write of zeroes to whole units punches a hole. Saves space when a rebuild rewrites a whole
    /// member of an array.
    pub holes_for_zeroes: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            check_reads: true,
            emptied_by_power_failure: false,
            sums_until_end: false,
            holes_for_zeroes: false,
        }
    }
}

/// A range of either data or a hole, as reported to clients that query the allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length of the run of data or of the hole, bytes.
    pub len_bytes: u64,
    /// Whether the extent is data; otherwise it is a hole, which reads as zeroes.
    pub data: bool,
}

/// Counts of 4 KiB units that [`Store::scrub`] checked, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrub {
    /// Number of units that match their checksum.
    pub sound_units: u64,
    /// Number of units that can't be verified, because they have no checksum. They were written before checksums
    /// existed, or are holes next to data.
    pub unknown_units: u64,
    /// Number of units that do not match their checksum.
    pub corrupt_units: u64,
}

/// Content of a volume: durable data, and an overlay of volatile data that a power cut would lose.
#[derive(Debug)]
pub struct Store {
    durable: Durable,
    overlay: Overlay,
    options: Options,
    dropped: Dropped,
}

impl Store {
    /// Creates a store in memory. Unwritten units take no memory. Writes fail once data and look-up tables take
    /// `memory_bytes_max` bytes.
    pub fn in_memory(capacity_bytes: u64, memory_bytes_max: u64, options: Options) -> Self {
        let base = Base::in_memory(None, capacity_bytes, memory_bytes_max, options.check_reads);
        Self::over(base, options)
    }

    /// Creates a store in memory, copy-on-write over a disk image: unwritten ranges read as in the image, and as
    /// zeroes beyond its end.
    pub fn over_image(
        image: Image,
        capacity_bytes: u64,
        memory_bytes_max: u64,
        options: Options,
    ) -> Self {
        let check_reads = options.check_reads;
        Self::over(
            Base::in_memory(Some(image), capacity_bytes, memory_bytes_max, check_reads),
            options,
        )
    }

    /// Opens or creates a store in a sparse file that has the volume's bytes at the same offsets; the checksums are in
    /// `PATH.sums`. A disk image without checksums is accepted unverified. Delete `PATH.sums` before other programs
    /// change the image; otherwise the changed units read as corrupt.
    ///
    /// # Errors
    /// The path is not a plain file, the file has another size, another server has it open, the checksums do not
    /// belong to it, or a system call fails. Files created by this call are removed.
    pub fn in_file(path: &Path, capacity_bytes: u64, options: Options) -> Result<Self, OpenError> {
        Ok(Self::over(
            Base::in_file(path, capacity_bytes, options.check_reads, host::NO_FAULTS)?,
            options,
        ))
    }

    /// Opens or creates a store like [`Self::in_file`], with file system faults injected by `faults`.
    ///
    /// # Errors
    /// Same as [`Self::in_file`].
    #[cfg(feature = "host-faults")]
    pub fn in_file_with_faults(
        path: &Path,
        capacity_bytes: u64,
        options: Options,
        faults: std::sync::Arc<dyn HostFaults>,
    ) -> Result<Self, OpenError> {
        let base = Base::in_file(path, capacity_bytes, options.check_reads, Some(faults))?;
        Ok(Self::over(base, options))
    }

    fn over(base: Base, options: Options) -> Self {
        let (durable, overlay) =
            (Durable::over(base, options.holes_for_zeroes), Overlay::default());
        Self { durable, overlay, options, dropped: Dropped::default() }
    }

    /// Removes the files that opening created, unless they contain data. Called when a server could not start.
    pub fn remove_made(&self) {
        self.base().remove_made(self.options.sums_until_end);
    }

    /// Whether the previous server of the file shut down cleanly; true if there was none.
    pub fn was_ended(&self) -> bool {
        self.base().was_ended()
    }

    /// Restores the files to their state before opening. Called when a server could not start.
    pub fn abandon(&self) {
        self.remove_made();
        if self.was_ended() && self.overlay.is_empty() {
            // Otherwise the next server would take this one for a killed one, which affects arrays only.
            let _ = self.base().sync(true);
        }
    }

    fn base(&self) -> &Base {
        &self.durable.base
    }

    /// Size of the volume's address space, bytes. Unwritten parts of it take no space.
    pub fn capacity_bytes(&self) -> u64 {
        self.base().capacity_bytes
    }

    /// Memory used by data and look-up tables, bytes; 0 if the content is in a file.
    pub fn memory_bytes(&self) -> u64 {
        self.base().memory_bytes()
    }

    /// Number of 4 KiB units with data that a power cut would lose.
    pub fn volatile_units(&self) -> usize {
        self.overlay.len()
    }

    /// Returns the losses in power cuts since the last call.
    pub fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }

    /// Reads the newest accepted content of a range.
    ///
    /// # Errors
    /// The range exceeds the end of the volume, a unit is corrupt, or a system call fails.
    pub fn read(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), ReadError> {
        if self.overlay.is_empty() {
            return self.durable.read(offset_bytes, into);
        }
        let len_bytes = into.len() as u64;
        if !self.base().holds(offset_bytes, len_bytes) {
            return Err(ReadError::OutOfRange { offset_bytes, len_bytes });
        }
        // Ranges between units with versions are read in one piece.
        let mut plain = 0;
        for part in parts(offset_bytes, len_bytes).filter(|p| self.overlay.has(p.unit)) {
            let Part { unit, from, .. } = part;
            let range = part.range();
            self.durable.read(offset_bytes + plain as u64, &mut into[plain..range.start])?;
            plain = range.end;
            self.overlay.compose(unit, u64::MAX, from, &mut into[range], |into| {
                self.beneath(unit, from, into)
            })?;
        }
        self.durable.read(offset_bytes + plain as u64, &mut into[plain..])
    }

    /// Returns the first `extents_max` extents (data or hole) of a range. Data in the volatile overlay counts as
    /// data.
    ///
    /// # Errors
    /// The range exceeds the end of the volume.
    pub fn extents(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        extents_max: usize,
    ) -> Result<Vec<Extent>, ReadError> {
        if !self.base().holds(offset_bytes, len_bytes) {
            return Err(ReadError::OutOfRange { offset_bytes, len_bytes });
        }
        let units = touched(offset_bytes, len_bytes);
        let held = self.overlay.units().chain(self.durable.units());
        let mut volatile: Vec<u64> = held.filter(|u| units.contains(u)).collect();
        volatile.sort_unstable();
        let mut volatile = volatile.into_iter().peekable();
        let mut extents: Vec<Extent> = Vec::new();
        let (end, mut at) = (offset_bytes + len_bytes, offset_bytes);
        let mut unit = units.start;
        let mut run = Run { data: false, end: unit };
        while unit < units.end {
            if run.end <= unit {
                run = self.base().run(unit, units.end);
            }
            while volatile.next_if(|&v| v < unit).is_some() {}
            let (data, to) = match volatile.peek() {
                _ if run.data => (true, run.end),
                Some(&v) if v == unit => (true, unit + 1),
                Some(&v) => (false, run.end.min(v)),
                None => (false, run.end),
            };
            let to_bytes = (to * UNIT_BYTES).min(end);
            let len_bytes = to_bytes - at;
            let has_space = extents.len() < extents_max;
            match extents.last_mut() {
                Some(last) if last.data == data => last.len_bytes += len_bytes,
                _ if has_space => extents.push(Extent { len_bytes, data }),
                _ => break,
            }
            (unit, at) = (to, to_bytes);
        }
        Ok(extents)
    }

    /// All written units by number, in ascending order, including units written with zeroes.
    ///
    /// # Errors
    /// A system call fails.
    pub(crate) fn held_units(&self) -> Result<Vec<u64>, ReadError> {
        let (mut held, mut at, all) = (Vec::new(), 0, self.base().units());
        while at < all {
            let run = self.base().run(at, all);
            for unit in (at..run.end).filter(|_| run.data) {
                if matches!(self.base().verify(unit)?, Soundness::Sound | Soundness::Corrupt) {
                    held.push(unit);
                }
            }
            at = run.end;
        }
        Ok(held)
    }

    /// Number of consecutive unwritten units that start at `unit`.
    pub(crate) fn hole_units(&self, unit: u64) -> u64 {
        let offset_bytes = unit * UNIT_BYTES;
        let first = self.extents(offset_bytes, self.capacity_bytes() - offset_bytes, 1);
        let first = first.ok().and_then(|extents| extents.first().copied());
        first.filter(|first| !first.data).map_or(0, |first| first.len_bytes / UNIT_BYTES)
    }

    /// Verifies all durable units against their checksums, and calls `corrupt` with the number of each that does
    /// not match. Concurrent reads and writes are allowed.
    ///
    /// # Errors
    /// A system call fails.
    pub fn scrub(&self, mut corrupt: impl FnMut(u64)) -> Result<Scrub, ReadError> {
        let mut scrub = Scrub::default();
        let mut at = 0;
        while at < self.base().units() {
            let run = self.base().run(at, self.base().units());
            for unit in (at..run.end).filter(|_| run.data) {
                match self.base().verify(unit)? {
                    Soundness::Sound => scrub.sound_units += 1,
                    Soundness::Unknown => scrub.unknown_units += 1,
                    Soundness::Unwritten => {}
                    Soundness::Corrupt => {
                        scrub.corrupt_units += 1;
                        corrupt(unit);
                    }
                }
            }
            at = run.end;
        }
        Ok(scrub)
    }

    /// Injects corruption into each 4 KiB unit that the range touches: reads of the medium flip one to three bits,
    /// chosen by `seed`, until the unit is healed or rewritten. Holes are not affected.
    pub fn corrupt(&self, range_bytes: &Range<u64>, seed: u64) {
        self.base().guard.damage(range_bytes, seed);
    }

    /// Location of the newest content of a range: the volatile overlay or the medium. Injected corruption affects
    /// only the medium.
    pub fn held(&self, range_bytes: &Range<u64>) -> Held {
        let units = touched(range_bytes.start, range_bytes.end.saturating_sub(range_bytes.start));
        let is_above =
            |unit: u64| self.overlay.has(unit) || self.durable.units().any(|u| u == unit);
        let mut unit = units.start;
        while unit < units.end {
            let run = self.base().run(unit, units.end);
            if run.data && (unit..run.end.min(units.end)).any(|unit| !is_above(unit)) {
                return Held::OnMedium;
            }
            unit = run.end;
        }
        let mut above = self.overlay.units().chain(self.durable.units());
        if above.any(|unit| units.contains(&unit)) { Held::InBuffer } else { Held::Nothing }
    }

    /// Clears the injected corruption of a 4 KiB unit, as after a repair by the device.
    pub fn heal(&self, unit: u64) {
        self.base().guard.lift(&(unit..unit + 1));
    }

    /// Clears all injected corruption of the volume.
    pub fn clear_corruption(&self) {
        self.base().guard.lift(&(0..u64::MAX));
    }

    /// Syncs the files to the host's storage, so that their content survives a crash of the host.
    ///
    /// # Errors
    /// A system call fails.
    pub fn sync(&self) -> Result<(), WriteError> {
        self.base().sync(false)
    }

    /// Syncs the files and marks a clean shutdown. Nothing may be written afterwards.
    ///
    /// # Errors
    /// Same as [`Self::sync`].
    pub fn end(&self) -> Result<(), WriteError> {
        self.base().sync(true)?;
        if self.options.sums_until_end {
            self.base().remove_sums();
        }
        Ok(())
    }

    /// Flushes a store that has no emulated machine. A server that later opens the file accepts the present
    /// content, but treats any older version as corrupt.
    ///
    /// # Errors
    /// A system call fails.
    pub fn flush_now(&self) -> Result<(), WriteError> {
        self.base().close_generation()
    }

    /// Writes to a store without going through an emulated machine. The data is durable immediately.
    ///
    /// # Errors
    /// The range exceeds the end of the volume, there is no space, or a partly written unit is corrupt.
    pub fn write_now(&self, offset_bytes: u64, data: &[u8]) -> Result<(), WriteError> {
        self.alone();
        self.base().write(offset_bytes, data)
    }

    /// Writes zeroes to a store without going through an emulated machine. Whole units of zeroes take no space.
    ///
    /// # Errors
    /// Same as [`Self::write_now`].
    pub fn zero_now(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), WriteError> {
        self.alone();
        self.base().zero(offset_bytes, len_bytes)
    }

    /// Deallocates the whole units in a range without going through an emulated machine. They then read as
    /// zeroes.
    ///
    /// # Errors
    /// Same as [`Self::write_now`].
    pub fn trim_now(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), WriteError> {
        self.alone();
        self.base().trim(offset_bytes, len_bytes)
    }

    fn alone(&self) {
        debug_assert!(
            self.overlay.is_empty(),
            "a store that follows a machine must not be written directly"
        );
    }
}
