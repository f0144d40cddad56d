//! The bytes of one emulated volume. The machine decides the fate of written data and reports each step
//! ([`ContentEvent`](iodyno_emulate::ContentEvent)); the store does the same with the bytes.
//!
//! ```text
//! begin_write(token, …)   machine.submit(…, token)
//!                         machine.next_completion(…)  machine.changes(…)
//! changes(…)              the completion: end_write(token), answer; or read(…), answer
//! ```
//!
//! The lower part, the base, survives a power cut: in memory (over an existing image, where one is served) or in a
//! file, each 4 KiB unit with a sum that is
//! checked whenever it is read. The upper part, the overlay, is lost in one: what a volatile buffer has
//! accepted. A change is carried out at once, so that a server that is killed leaves in the file what the
//! modelled device would have left at that moment, as long as changes are passed on before the acknowledgements
//! that came with them.
//!
//! # Host errors
//! **What the machine has decided happens, in its order: in the base, or, where the host refuses, over it in
//! memory** (`durable.rs`: a stranded unit). So machine and bytes never disagree, whatever fails, and
//! - the operation whose bytes the host refuses answers the error. Each of its sectors may hold the old or the
//!   new bytes after a kill, and holds the new ones until then; once a flush has succeeded it keeps them;
//! - so does an operation that covers a part of a unit which is corrupt. Its bytes lie beneath the damage, in the
//!   base, and the unit reads as corrupt until it is written whole or its damage is lifted: nothing of it
//!   is stranded. If the operation was acknowledged before its bytes landed, the next flush answers the error, once;
//! - an operation whose acknowledgement promises that it is durable (a forced write, a write to a protected
//!   device, zeroes, a trim, a flush) succeeds only when nothing is stranded in its range;
//! - what is stranded is written again at each of these, and before an operation is refused;
//! - meanwhile the volume takes no operation that needs new space on the host or more memory than the modelled
//!   cache has: [`Store::refuses`]. So stranded bytes are bounded by that cache and what was in flight;
//! - at the end of a server what is still stranded is lost, and the server reports it; all else is synced;
//! - a unit keeps a sum that is its own: `file.rs` defines what a write that was cut short leaves.
//!
//! A server that is killed leaves what was durable, or newer. A version older than what was flushed is refused
//! (`generation.rs`). A flush is the modelled device's: it survives the server, not a crash of the host; for
//! that there is [`Store::sync`], which a server calls at its end.
//!
//! Without a machine (a device with a protected buffer, at native speed) the base is used directly:
//! [`Store::write_now`], [`Store::zero_now`], [`Store::trim_now`], [`Store::flush_now`] and [`Store::read`]
//! take `&self` and any number of threads at once; bytes that fail there are not kept in memory. Calls that
//! follow the machine take `&mut self`.

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

/// Options of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Reads are checked against their sums (about 0.1 µs for 4 KiB). Without, only damage that was injected on
    /// purpose is found, and what [`Store::scrub`] finds.
    pub check_reads: bool,
    /// The device is memory that a power failure empties. What it accepts goes to the base at once,
    /// since nothing but [`ContentEvent::Emptied`](iodyno_emulate::ContentEvent::Emptied) ever takes it back; a volatile buffer's waits in the
    /// overlay until it lands.
    pub emptied_by_power_failure: bool,
    /// The file is another program's image: its sums are removed at an orderly end, since they would be wrong once
    /// that program writes to it.
    pub sums_until_end: bool,
    /// Whole units of zeroes that are written become holes: a rebuild of an array's member writes all of it.
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

/// A run of data or of a hole, for a client that queries the allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length, bytes.
    pub len_bytes: u64,
    /// Data is held; or it is a hole, and reads as zeroes.
    pub data: bool,
}

/// The result of a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrub {
    /// Units that hold what was written.
    pub sound_units: u64,
    /// Units that were there before they had a sum, or the holes beside data: taken as they are.
    pub unknown_units: u64,
    /// Units that do not hold what was written.
    pub corrupt_units: u64,
}

/// The bytes of a volume; see the module.
#[derive(Debug)]
pub struct Store {
    durable: Durable,
    overlay: Overlay,
    options: Options,
    dropped: Dropped,
}

impl Store {
    /// A volume in memory, of which parts that were never written take none; at most `memory_bytes_max` bytes,
    /// tables included. A write beyond that fails.
    pub fn in_memory(capacity_bytes: u64, memory_bytes_max: u64, options: Options) -> Self {
        let base = Base::in_memory(None, capacity_bytes, memory_bytes_max, options.check_reads);
        Self::over(base, options)
    }

    /// The same over an image, whose bytes show where nothing was written; beyond its end are zeroes.
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

    /// A volume in a file, which is created if it is not there: sparse, byte for byte, its sums beside it in
    /// `PATH.sums`. An image without sums is taken as it is. (Before changing it by other means, remove its
    /// sums: those units would read as corrupt.)
    ///
    /// # Errors
    /// It is no plain file, it has another size, another server has it open, its sums are not its own, or the
    /// system refuses. No file is left that this created.
    pub fn in_file(path: &Path, capacity_bytes: u64, options: Options) -> Result<Self, OpenError> {
        Ok(Self::over(
            Base::in_file(path, capacity_bytes, options.check_reads, host::NO_FAULTS)?,
            options,
        ))
    }

    /// The same, with a host that fails as `faults` decides.
    ///
    /// # Errors
    /// As [`Self::in_file`].
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

    /// Removes the volume's files, if they were created when this was opened and hold nothing yet: for a server
    /// that could not start.
    pub fn remove_made(&self) {
        self.base().remove_made(self.options.sums_until_end);
    }

    /// Whether the server that had the file before, if any, ended in order.
    pub fn was_ended(&self) -> bool {
        self.base().was_ended()
    }

    /// Leaves the volume as it was when it was opened: for a server that could not start.
    pub fn abandon(&self) {
        self.remove_made();
        if self.was_ended() && self.overlay.is_empty() {
            // The next server would take it for one that was killed, and that has effect on arrays alone.
            let _ = self.base().sync(true);
        }
    }

    fn base(&self) -> &Base {
        &self.durable.base
    }

    /// Bytes of the volume.
    pub fn capacity_bytes(&self) -> u64 {
        self.base().capacity_bytes
    }

    /// Memory of the data, tables included; 0 where they are in a file.
    pub fn memory_bytes(&self) -> u64 {
        self.base().memory_bytes()
    }

    /// Units that a power cut would change.
    pub fn volatile_units(&self) -> usize {
        self.overlay.len()
    }

    /// What power cuts took since the last call.
    pub fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }

    /// Reads the newest content that was accepted.
    ///
    /// # Errors
    /// It ends beyond the volume; a unit does not hold what was written; the system refuses.
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

    /// Data and holes in a range: at most `extents_max` extents, from its beginning on. Bytes that wait to land
    /// count as data.
    ///
    /// # Errors
    /// It ends beyond the volume.
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

    /// The units that hold what was written, zeroes too, in order.
    ///
    /// # Errors
    /// The system refuses.
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

    /// Units from this one on to which nothing was written.
    pub(crate) fn hole_units(&self, unit: u64) -> u64 {
        let offset_bytes = unit * UNIT_BYTES;
        let first = self.extents(offset_bytes, self.capacity_bytes() - offset_bytes, 1);
        let first = first.ok().and_then(|extents| extents.first().copied());
        first.filter(|first| !first.data).map_or(0, |first| first.len_bytes / UNIT_BYTES)
    }

    /// Reads every unit of the base that is held, and checks it against its sum; `corrupt` is called for each
    /// that fails. Other threads may read and write meanwhile.
    ///
    /// # Errors
    /// The system refuses.
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

    /// Damages the medium: of every unit that the range touches one to three bits, which follow from `seed`,
    /// are flipped in what is read back, until it is healed or written anew. A hole has no bits.
    pub fn corrupt(&self, range_bytes: &Range<u64>, seed: u64) {
        self.base().guard.damage(range_bytes, seed);
    }

    /// Where the newest content of a range is that damage would change.
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

    /// Lifts the damage to a unit, as a device does that has rebuilt it.
    pub fn heal(&self, unit: u64) {
        self.base().guard.lift(&(unit..unit + 1));
    }

    /// Lifts all damage.
    pub fn clear_corruption(&self) {
        self.base().guard.lift(&(0..u64::MAX));
    }

    /// Syncs the file: a crash of this host keeps its content.
    ///
    /// # Errors
    /// The system refuses.
    pub fn sync(&self) -> Result<(), WriteError> {
        self.base().sync(false)
    }

    /// The same at the end of a server, which writes nothing more.
    ///
    /// # Errors
    /// As [`Self::sync`].
    pub fn end(&self) -> Result<(), WriteError> {
        self.base().sync(true)?;
        if self.options.sums_until_end {
            self.base().remove_sums();
        }
        Ok(())
    }

    /// Without a machine: a later server accepts what was acknowledged, and nothing older.
    ///
    /// # Errors
    /// The system refuses.
    pub fn flush_now(&self) -> Result<(), WriteError> {
        self.base().close_generation()
    }

    /// Without a machine: writes, durably at once.
    ///
    /// # Errors
    /// It ends beyond the volume, there is no space, or the rest of a unit that is written in part is corrupt.
    pub fn write_now(&self, offset_bytes: u64, data: &[u8]) -> Result<(), WriteError> {
        self.alone();
        self.base().write(offset_bytes, data)
    }

    /// Without a machine: zeroes; whole units of them take no space.
    ///
    /// # Errors
    /// As [`Self::write_now`].
    pub fn zero_now(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), WriteError> {
        self.alone();
        self.base().zero(offset_bytes, len_bytes)
    }

    /// Without a machine: frees whole units of the range, which read as zeroes.
    ///
    /// # Errors
    /// As [`Self::write_now`].
    pub fn trim_now(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), WriteError> {
        self.alone();
        self.base().trim(offset_bytes, len_bytes)
    }

    fn alone(&self) {
        debug_assert!(self.overlay.is_empty(), "a machine is followed: it writes");
    }
}
