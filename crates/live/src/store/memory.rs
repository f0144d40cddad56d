//! A volume's bytes in memory. Unwritten and discarded units take no memory. Unwritten units read as zeroes or, if the
//! volume is over a disk image, as the image.
//!
//! Two levels of tables, created on first write, find a unit: regions of 256 MiB, and in them chunks of 64 KiB with a
//! lock each. Each unit is a separate allocation, so that scattered units of a large volume take no more memory than
//! adjacent ones. Threads in different chunks do not contend.

use super::error::{ReadError, WriteError};
use super::guard::Guard;
use super::image::Image;
use super::units::{Part, Run, Soundness, UNIT, parts, sum, touched};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

const CHUNK_UNITS: u64 = 16;
const REGION_CHUNKS: u64 = 4096;
const REGION_UNITS: u64 = CHUNK_UNITS * REGION_CHUNKS;

#[derive(Debug)]
struct Unit {
    bytes: Box<[u8; UNIT]>,
    sum: u32,
}

type Slots = [Option<Unit>; CHUNK_UNITS as usize];
type Chunk = RwLock<Option<Box<Slots>>>;

/// Content of a volume in memory, optionally copy-on-write over a disk image.
#[derive(Debug)]
pub(super) struct Memory {
    regions: Box<[OnceLock<Box<[Chunk]>>]>,
    used_bytes: AtomicU64,
    bytes_max: u64,
    image: Option<Box<Image>>,
}

impl Memory {
    pub(super) fn new(image: Option<Image>, capacity_bytes: u64, bytes_max: u64) -> Self {
        let regions = capacity_bytes.div_ceil(UNIT as u64 * REGION_UNITS);
        Self {
            regions: (0..regions).map(|_| OnceLock::new()).collect(),
            used_bytes: AtomicU64::new(0),
            bytes_max,
            image: image.map(Box::new),
        }
    }

    /// Memory used by the volume's units and tables, bytes.
    pub(super) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> Result<(), WriteError> {
        let bytes = bytes as u64;
        if self.used_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > self.bytes_max {
            self.give_back(bytes as usize);
            return Err(WriteError::Memory { memory_bytes_max: self.bytes_max });
        }
        Ok(())
    }

    fn give_back(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// Memory chunk that contains a unit; `None` if nothing was ever written in the unit's region.
    #[inline]
    fn chunk(&self, unit: u64) -> Option<&Chunk> {
        let region = self.regions[(unit / REGION_UNITS) as usize].get()?;
        Some(&region[(unit % REGION_UNITS / CHUNK_UNITS) as usize])
    }

    fn chunk_to_write(&self, unit: u64) -> Result<&Chunk, WriteError> {
        let cell = &self.regions[(unit / REGION_UNITS) as usize];
        if cell.get().is_none() {
            let bytes = size_of::<Chunk>() * REGION_CHUNKS as usize;
            self.take(bytes)?;
            let region = (0..REGION_CHUNKS).map(|_| Chunk::default()).collect();
            if cell.set(region).is_err() {
                self.give_back(bytes);
            }
        }
        Ok(self.chunk(unit).expect("the region was just created"))
    }

    pub(super) fn read(
        &self,
        offset_bytes: u64,
        into: &mut [u8],
        guard: &Guard,
    ) -> Result<(), ReadError> {
        if let Some(image) = &self.image {
            return self.read_over(image, offset_bytes, into, guard);
        }
        for part in parts(offset_bytes, into.len() as u64) {
            if !self.read_held(part, &mut into[part.range()], guard)? {
                into[part.range()].fill(0);
            }
        }
        Ok(())
    }

    /// Reads a part of a unit from memory; false if the unit is not in memory.
    #[inline]
    fn read_held(&self, part: Part, to: &mut [u8], guard: &Guard) -> Result<bool, ReadError> {
        let unit = part.unit;
        let Some(chunk) = self.chunk(unit) else { return Ok(false) };
        let chunk = chunk.read().unwrap_or_else(PoisonError::into_inner);
        match chunk.as_deref().and_then(|c| c[(unit % CHUNK_UNITS) as usize].as_ref()) {
            None => Ok(false),
            Some(held) if guard.passes(unit, &held.bytes[..], &[held.sum]) => {
                to.copy_from_slice(&held.bytes[part.from..part.to]);
                Ok(true)
            }
            Some(_) => Err(ReadError::Corrupt { unit }),
        }
    }

    /// Reads a range of a volume over a disk image. Consecutive units that are not in memory are read from the
    /// image with one request.
    fn read_over(
        &self,
        image: &Image,
        offset_bytes: u64,
        into: &mut [u8],
        guard: &Guard,
    ) -> Result<(), ReadError> {
        let (mut plain, len_bytes) = (0, into.len());
        let beneath = |at: usize, into: &mut [u8]| {
            let from = offset_bytes + at as u64;
            for unit in touched(from, into.len() as u64).filter(|&unit| guard.is_damaged(unit)) {
                let mut bytes = [0; UNIT];
                image.read_unit(unit, &mut bytes)?;
                if !guard.passes_always(unit, &bytes, &[]) {
                    return Err(ReadError::Corrupt { unit });
                }
            }
            if into.is_empty() { Ok(()) } else { image.read(from, into) }
        };
        for part in parts(offset_bytes, len_bytes as u64) {
            let range = part.range();
            if self.read_held(part, &mut into[range.clone()], guard)? {
                beneath(plain, &mut into[plain..range.start])?;
                plain = range.end;
            }
        }
        beneath(plain, &mut into[plain..])
    }

    pub(super) fn write(
        &self,
        offset_bytes: u64,
        data: &[u8],
        guard: &Guard,
    ) -> Result<(), WriteError> {
        for part in parts(offset_bytes, data.len() as u64) {
            self.write_part(part, &data[part.range()], guard)?;
        }
        Ok(())
    }

    fn write_part(&self, part: Part, data: &[u8], guard: &Guard) -> Result<(), WriteError> {
        let unit = part.unit;
        let chunk = self.chunk_to_write(unit)?;
        let whole_sum = part.is_whole().then(|| sum(data));
        let mut chunk = chunk.write().unwrap_or_else(PoisonError::into_inner);
        if chunk.is_none() {
            self.take(size_of::<Slots>())?;
            *chunk = Some(Box::default());
        }
        let Some(slots) = chunk.as_deref_mut() else { unreachable!("the slots were just created") };
        let slot = &mut slots[(unit % CHUNK_UNITS) as usize];
        match (slot, whole_sum) {
            (Some(held), Some(sum)) => {
                held.bytes.copy_from_slice(data);
                held.sum = sum;
            }
            (Some(held), None) => {
                if !guard.passes_always(unit, &held.bytes[..], &[held.sum]) {
                    return Err(WriteError::Corrupt { unit });
                }
                held.bytes[part.from..part.to].copy_from_slice(data);
                held.sum = sum(&held.bytes[..]);
            }
            (slot @ None, whole_sum) => {
                let mut bytes = Box::new([0; UNIT]);
                if let (Some(image), None) = (&self.image, whole_sum) {
                    image.read_unit(unit, &mut bytes)?;
                    if !guard.passes_always(unit, &bytes[..], &[]) {
                        return Err(WriteError::Corrupt { unit });
                    }
                }
                self.take(UNIT)?;
                bytes[part.from..part.to].copy_from_slice(data);
                let sum = whole_sum.unwrap_or_else(|| sum(&bytes[..]));
                *slot = Some(Unit { bytes, sum });
            }
        }
        guard.lift(&(unit..unit + 1));
        Ok(())
    }

    /// Writes a part of a corrupt unit, which stays corrupt. Injected corruption is not in the stored bytes, so their
    /// checksum is updated with them. If the stored bytes themselves do not match their checksum, the checksum is not
    /// changed.
    #[cold]
    pub(super) fn write_beneath(&self, part: Part, data: &[u8]) -> Result<(), WriteError> {
        if !self.holds(part.unit) {
            // Damage has no effect on a hole; damage to an image stays.
            return self.write_part(part, data, &Guard::new(false));
        }
        let Some(chunk) = self.chunk(part.unit) else { return Ok(()) };
        let mut chunk = chunk.write().unwrap_or_else(PoisonError::into_inner);
        let Some(slots) = chunk.as_deref_mut() else { return Ok(()) };
        let Some(held) = &mut slots[(part.unit % CHUNK_UNITS) as usize] else { return Ok(()) };
        let is_own = held.sum == sum(&held.bytes[..]);
        held.bytes[part.from..part.to].copy_from_slice(data);
        if is_own {
            held.sum = sum(&held.bytes[..]);
        }
        Ok(())
    }

    /// Whether the unit is in memory; otherwise it is a hole or only in the disk image.
    fn holds(&self, unit: u64) -> bool {
        self.chunk(unit).is_some_and(|chunk| {
            let chunk = chunk.read().unwrap_or_else(PoisonError::into_inner);
            chunk.as_deref().is_some_and(|c| c[(unit % CHUNK_UNITS) as usize].is_some())
        })
    }

    /// Zeroes a part of a 4 KiB unit.
    pub(super) fn zero_part(&self, part: Part, guard: &Guard) -> Result<(), WriteError> {
        let shows = |image: &Image| image.run(part.unit, part.unit + 1).data;
        if self.holds(part.unit) || self.image.as_deref().is_some_and(shows) {
            self.write_part(part, &[0; UNIT][part.from..part.to], guard)?;
        }
        Ok(())
    }

    /// Deallocates units. They then read as zeroes, even if the underlying image has data.
    pub(super) fn drop_units(&self, units: &Range<u64>) {
        if let Some(image) = &self.image {
            image.drop_units(units);
        }
        let mut unit = units.start;
        while unit < units.end {
            let end = (unit / CHUNK_UNITS + 1) * CHUNK_UNITS;
            let Some(chunk) = self.chunk(unit) else {
                unit = (unit / REGION_UNITS + 1) * REGION_UNITS;
                continue;
            };
            let mut chunk = chunk.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(slots) = chunk.as_deref_mut() {
                for u in unit..end.min(units.end) {
                    if slots[(u % CHUNK_UNITS) as usize].take().is_some() {
                        self.give_back(UNIT);
                    }
                }
                if slots.iter().all(Option::is_none) {
                    *chunk = None;
                    self.give_back(size_of::<Slots>());
                }
            }
            drop(chunk);
            unit = end;
        }
    }

    /// Finds the run of units from `unit` up to at most `end` that either all have data, in memory or in the
    /// image, or all have none.
    pub(super) fn run(&self, unit: u64, end: u64) -> Run {
        let mut data = None;
        let mut at = unit;
        while at < end {
            let (held, next) = match self.chunk(at) {
                None => (false, (at / REGION_UNITS + 1) * REGION_UNITS),
                Some(chunk) => {
                    let chunk = chunk.read().unwrap_or_else(PoisonError::into_inner);
                    match chunk.as_deref() {
                        None => (false, (at / CHUNK_UNITS + 1) * CHUNK_UNITS),
                        Some(slots) => (slots[(at % CHUNK_UNITS) as usize].is_some(), at + 1),
                    }
                }
            };
            let (shows, next) = match &self.image {
                Some(image) if !held => {
                    let run = image.run(at, next.min(end));
                    (run.data, run.end)
                }
                _ => (held, next),
            };
            if *data.get_or_insert(shows) != shows {
                break;
            }
            at = next.min(end);
        }
        Run { data: data.unwrap_or(false), end: at }
    }

    pub(super) fn verify(&self, unit: u64, guard: &Guard) -> Result<Soundness, ReadError> {
        if !self.holds(unit) {
            return match &self.image {
                Some(image) if image.run(unit, unit + 1).data => {
                    let mut bytes = [0; UNIT];
                    image.read_unit(unit, &mut bytes)?;
                    let passes = guard.passes_always(unit, &bytes, &[]);
                    Ok(if passes { Soundness::Unknown } else { Soundness::Corrupt })
                }
                _ => Ok(Soundness::Unwritten),
            };
        }
        let Some(chunk) = self.chunk(unit) else { return Ok(Soundness::Unwritten) };
        let chunk = chunk.read().unwrap_or_else(PoisonError::into_inner);
        Ok(match chunk.as_deref().and_then(|c| c[(unit % CHUNK_UNITS) as usize].as_ref()) {
            None => Soundness::Unwritten,
            Some(held) if guard.passes_always(unit, &held.bytes[..], &[held.sum]) => {
                Soundness::Sound
            }
            Some(_) => Soundness::Corrupt,
        })
    }
}
