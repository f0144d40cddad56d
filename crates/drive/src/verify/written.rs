//! Map of the latest write to each unit of a target, and the map's encoding as bytes. One run passes the map on to the
//! next.
//!
//! The notebook compresses the bytes by zlib; if there are more than 4 MiB, each 4 MiB separately. Integers are
//! little-endian. Uncompressed, the map consists of:
//!
//! 1. magic number;
//! 2. length of a unit, 4 bytes;
//! 3. number of units, 8 bytes;
//! 4. stamp of an unfinished run, or 0, 8 bytes;
//! 5. number of writers, 1 byte;
//! 6. 1 if a second column follows, else 0, 1 byte;
//! 7. the writers' stamps, ascending, 8 bytes each;
//! 8. a column of acknowledged writes;
//! 9. a column of durable writes, if different.
//!
//! A column begins with the writer of each unit, 1 byte each: the writer's place in the list of stamps, from 1, or 0
//! for unknown. The lowest bytes of all generations follow, then all second, third and fourth bytes.

use iodyno_units::verifiable::WriteId;

/// Magic number of a stored content map; the last character is the version.
const MAGIC: [u8; 8] = *b"iodynoW1";
/// Length of the header: magic number, unit length, number of units, unfinished writer, number of writers, and whether
/// the durable writes differ from the acknowledged ones.
const HEADER_BYTES: usize = 8 + 4 + 8 + 8 + 1 + 1;
/// Maximum number of distinct writers in a map. Older writers are forgotten.
const WRITERS_MAX: usize = 255;

/// For each verification unit, the write that it holds: the index of the writer (from 1) and the generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// For each verification unit, the index of the writer; 0 if unknown.
    writer: Vec<u8>,
    generation: Vec<u32>,
}

/// Map of a target's content: the latest known write to each verification unit (a block with its own checksum).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Length of a verification unit (a block with its own header and checksum), bytes.
    pub unit_bytes: u32,
    /// Stamp that identifies a run that did not finish; `None` if all finished. That run may have overwritten any block
    /// whose writer is older.
    pub unfinished: Option<u64>,
    /// Stamps that identify the runs that wrote to the target, ascending.
    writers: Vec<u64>,
    acknowledged: Column,
    /// Latest durable write to each unit; `None` if all acknowledged writes are durable.
    durable: Option<Column>,
}

impl Written {
    /// Creates a map of a target with unknown content.
    pub fn nothing(unit_bytes: u32, units: usize) -> Self {
        let acknowledged = Column { writer: vec![0; units], generation: vec![0; units] };
        Self { unit_bytes, unfinished: None, writers: Vec::new(), acknowledged, durable: None }
    }

    /// Number of verification units of the target.
    pub(super) fn units(&self) -> usize {
        self.acknowledged.writer.len()
    }

    /// Stamp of the run that wrote to the target last; 0 if none has.
    pub fn latest_stamp(&self) -> u64 {
        self.writers.last().copied().unwrap_or(0).max(self.unfinished.unwrap_or(0))
    }

    /// The latest acknowledged write to a unit; `None` if unknown.
    #[inline]
    pub fn latest(&self, unit: usize) -> Option<WriteId> {
        self.at(&self.acknowledged, unit)
    }

    /// The latest durable write to a unit; `None` if unknown.
    pub fn durable(&self, unit: usize) -> Option<WriteId> {
        self.at(self.durable.as_ref().unwrap_or(&self.acknowledged), unit)
    }

    fn at(&self, column: &Column, unit: usize) -> Option<WriteId> {
        let writer = usize::from(*column.writer.get(unit)?).checked_sub(1)?;
        let writer = *self.writers.get(writer)?;
        Some(WriteId { writer, generation: column.generation[unit] })
    }

    /// Builds a map of `units` units from the latest acknowledged and the latest durable write to each.
    pub(super) fn of(
        unit_bytes: u32,
        units: usize,
        latest: impl Fn(usize) -> Option<WriteId>,
        durable: impl Fn(usize) -> Option<WriteId>,
    ) -> Self {
        let mut writers: Vec<u64> = Vec::new();
        for write in (0..units).flat_map(|unit| [latest(unit), durable(unit)]).flatten() {
            if let Err(at) = writers.binary_search(&write.writer) {
                writers.insert(at, write.writer);
            }
        }
        let writers = writers.split_off(writers.len().saturating_sub(WRITERS_MAX));
        let number = |write: Option<WriteId>| {
            let write = write?;
            Some((writers.binary_search(&write.writer).ok()? as u8 + 1, write.generation))
        };
        let column = |write: &dyn Fn(usize) -> Option<WriteId>| {
            let (mut writer, mut generation) = (vec![0; units], vec![0; units]);
            for unit in 0..units {
                (writer[unit], generation[unit]) = number(write(unit)).unwrap_or((0, 0));
            }
            Column { writer, generation }
        };
        let differs = (0..units).any(|unit| number(latest(unit)) != number(durable(unit)));
        let durable = differs.then(|| column(&durable));
        let acknowledged = column(&latest);
        Self { unit_bytes, unfinished: None, writers, acknowledged, durable }
    }

    /// Encodes the map as bytes for [`Self::from_bytes`]. Generations are stored in byte planes, the low bytes of
    /// all units first: the other bytes are mostly zero and compress well.
    pub fn to_bytes(&self) -> Vec<u8> {
        let units = self.units();
        let columns = 1 + usize::from(self.durable.is_some());
        let len = HEADER_BYTES + self.writers.len() * 8 + columns * units * 5;
        let mut out = Vec::with_capacity(len);
        out.extend(MAGIC);
        out.extend(self.unit_bytes.to_le_bytes());
        out.extend((units as u64).to_le_bytes());
        out.extend(self.unfinished.unwrap_or(0).to_le_bytes());
        out.push(self.writers.len() as u8);
        out.push(self.durable.is_some().into());
        self.writers.iter().for_each(|writer| out.extend(writer.to_le_bytes()));
        for column in [Some(&self.acknowledged), self.durable.as_ref()].into_iter().flatten() {
            out.extend(&column.writer);
            for byte in 0..4 {
                out.extend(column.generation.iter().map(|g| g.to_le_bytes()[byte]));
            }
        }
        out
    }

    /// Decodes the output of [`Self::to_bytes`]. `None` if the bytes are invalid, for example from a damaged
    /// file.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let mut take = |n: usize| rest.split_off(..n);
        if take(8)? != MAGIC {
            return None;
        }
        let unit_bytes = u32::from_le_bytes(take(4)?.try_into().ok()?);
        let units = usize::try_from(u64::from_le_bytes(take(8)?.try_into().ok()?)).ok()?;
        let unfinished = u64::from_le_bytes(take(8)?.try_into().ok()?);
        let [count, durable] = take(2)?.try_into().ok()?;
        let mut writers = Vec::new();
        for _ in 0..count {
            writers.push(u64::from_le_bytes(take(8)?.try_into().ok()?));
        }
        let mut column = || {
            let writer = take(units)?.to_vec();
            let planes = take(units.checked_mul(4)?)?;
            let byte = |unit: usize, plane: usize| planes[plane * units + unit];
            let generation = (0..units)
                .map(|u| u32::from_le_bytes([byte(u, 0), byte(u, 1), byte(u, 2), byte(u, 3)]))
                .collect();
            let known = writer.iter().all(|&number| number <= count);
            known.then_some(Column { writer, generation })
        };
        let acknowledged = column()?;
        let durable = if durable == 0 { None } else { Some(column()?) };
        let is_sound = rest.is_empty()
            && writers.is_sorted_by(|a, b| a < b)
            && unit_bytes.is_multiple_of(512)
            && unit_bytes > 0;
        let unfinished = (unfinished != 0).then_some(unfinished);
        is_sound.then_some(Self { unit_bytes, unfinished, writers, acknowledged, durable })
    }
}
