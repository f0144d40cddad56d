//! Layout of a log on a target: two copies of its description, then segments, which are overwritten once their content
//! is no longer retained. `chunk.rs` defines the content of segments.
//!
//! A *position* counts the log's bytes since it was created, and never decreases. Its segment is the position divided
//! by the segment size; segment `n` is in slot `n` modulo the number of slots.

use crate::chunk::{CHUNK_HEADER_BYTES, COUNT_END, ChunkHeader, EPOCH_END};
use thiserror::Error;

/// Length of the target's range before the first segment, bytes. It contains the log's description, and a copy in the
/// second half.
pub const DESCRIPTION_BYTES: u64 = 64 << 10;
/// Offsets of the log's description and its copy on the target, bytes.
pub const DESCRIPTION_OFFSETS: [u64; 2] = [0, DESCRIPTION_BYTES / 2];
/// Length of an encoded log description, bytes.
pub const DESCRIPTION_BLOCK_BYTES: usize = 4096;
const MAGIC: [u8; 8] = *b"IODYLOG1";
/// Minimum number of segments in a log: one being written, one retained, and two free.
pub const SEGMENTS_MIN: u64 = 4;
/// Range of valid chunk sizes, bytes.
pub const CHUNK_BYTES: core::ops::RangeInclusive<u32> = 4 << 10..=16 << 20;

/// Record of the last opening of the log for writing: the new epoch, and the end of the log at that time. Chunks of
/// earlier epochs at or after that end are invalid. Otherwise a later write could by chance complete a torn chunk and
/// make it valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochStart {
    /// Number of the epoch: how often the log had been opened for writing when the epoch began, including the opening
    /// that began it; 0 for a new log.
    pub epoch: u32,
    /// End of the log when the epoch began, bytes since the log was created.
    pub position: u64,
}

impl EpochStart {
    /// Whether the chunk with this header is invalid: it has an earlier epoch, and lies at or after the log's end when
    /// this epoch began.
    pub fn cuts_off(&self, header: &ChunkHeader) -> bool {
        header.position >= self.position && header.epoch < self.epoch
    }
}

/// Sizes and identifier of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Identifier of the log, which distinguishes its chunks from those of other logs.
    pub log_id: u64,
    /// Size of the target's range that the log occupies, bytes.
    pub capacity_bytes: u64,
    /// Size of a segment, the unit in which old messages are dropped, bytes.
    pub segment_bytes: u64,
    /// Maximum size of a chunk, bytes.
    pub chunk_bytes: u32,
    /// Block size, bytes. Chunks begin and end at multiples of it.
    pub align_bytes: u32,
}

/// Error: invalid sizes for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// The block size is invalid; contains the size, bytes.
    #[error("a block size of {0} bytes is not valid: use a power of two from 512 to 65,536")]
    Align(u32),
    /// The chunk size is invalid; contains the size, bytes.
    #[error("a chunk size of {0} bytes is not valid: use {min} to {max}, and a multiple of the target's block", min = CHUNK_BYTES.start(), max = CHUNK_BYTES.end())]
    Chunk(u32),
    /// The segment size is not a multiple of the chunk size.
    #[error(
        "a segment size of {segment_bytes} bytes is not valid: use a multiple of the chunk size of {chunk_bytes}"
    )]
    Segment {
        /// Requested size of a segment, bytes.
        segment_bytes: u64,
        /// Requested size of a chunk, bytes.
        chunk_bytes: u32,
    },
    /// The target is too small for a log with segments of this size.
    #[error(
        "the target has {capacity_bytes} bytes, but a log needs {needed_bytes} (four segments and {DESCRIPTION_BYTES} bytes): use smaller segments"
    )]
    Capacity {
        /// Size of the target, bytes.
        capacity_bytes: u64,
        /// Minimum size of a target for the log, bytes.
        needed_bytes: u64,
    },
}

impl Layout {
    /// Creates a layout after checking the sizes.
    ///
    /// # Errors
    /// The first rule that a size violates, such as a segment size that is not a multiple of the chunk size.
    pub fn new(
        log_id: u64,
        capacity_bytes: u64,
        segment_bytes: u64,
        chunk_bytes: u32,
        align_bytes: u32,
    ) -> Result<Self, LayoutError> {
        let layout = Self { log_id, capacity_bytes, segment_bytes, chunk_bytes, align_bytes };
        layout.check().map(|()| layout)
    }

    /// Chooses the segment size for a target: about 64 segments of 1 MiB to 1 GiB, each a multiple of the chunk
    /// size.
    pub fn segment_bytes_for(capacity_bytes: u64, chunk_bytes: u32) -> u64 {
        let chunk = u64::from(chunk_bytes.max(1));
        let wanted = (capacity_bytes / 64).clamp(1 << 20, 1 << 30);
        let fits = capacity_bytes.saturating_sub(DESCRIPTION_BYTES) / SEGMENTS_MIN;
        (wanted.min(fits) / chunk).max(1) * chunk
    }

    fn check(&self) -> Result<(), LayoutError> {
        let Self { capacity_bytes, segment_bytes, chunk_bytes, align_bytes, .. } = *self;
        if !align_bytes.is_power_of_two() || !(512..=65_536).contains(&align_bytes) {
            return Err(LayoutError::Align(align_bytes));
        }
        if !CHUNK_BYTES.contains(&chunk_bytes) || !chunk_bytes.is_multiple_of(align_bytes) {
            return Err(LayoutError::Chunk(chunk_bytes));
        }
        if segment_bytes == 0 || !segment_bytes.is_multiple_of(chunk_bytes.into()) {
            return Err(LayoutError::Segment { segment_bytes, chunk_bytes });
        }
        let needed_bytes =
            segment_bytes.saturating_mul(SEGMENTS_MIN).saturating_add(DESCRIPTION_BYTES);
        if capacity_bytes < needed_bytes {
            return Err(LayoutError::Capacity { capacity_bytes, needed_bytes });
        }
        Ok(())
    }

    /// Number of segments that fit on the target; older segments are overwritten in turn.
    pub fn slots(&self) -> u64 {
        (self.capacity_bytes - DESCRIPTION_BYTES) / self.segment_bytes
    }

    /// Number of the segment that contains a position of the log.
    pub fn segment(&self, position: u64) -> u64 {
        position / self.segment_bytes
    }

    /// Position in the log at which a segment starts.
    pub fn segment_start(&self, segment: u64) -> u64 {
        segment * self.segment_bytes
    }

    /// Number of bytes from a position to the end of its segment.
    pub fn left_in_segment(&self, position: u64) -> u64 {
        self.segment_bytes - position % self.segment_bytes
    }

    /// Oldest segment that is retained once `segment` is the current one. Two segments stay free: one for records
    /// copied from the dropped segment, and one for overflow.
    pub fn oldest_kept(&self, segment: u64) -> u64 {
        (segment + 3).saturating_sub(self.slots())
    }

    /// Converts a position in the log to an offset on the target, bytes.
    pub fn offset_bytes(&self, position: u64) -> u64 {
        let slot = self.segment(position) % self.slots();
        DESCRIPTION_BYTES + slot * self.segment_bytes + position % self.segment_bytes
    }

    /// Position of the chunk that follows the chunk with this header.
    pub fn after(&self, header: &ChunkHeader) -> u64 {
        if header.is_last_of_segment {
            self.segment_start(self.segment(header.position) + 1)
        } else {
            header.end()
        }
    }

    /// Space for records in a chunk of maximum size, bytes.
    pub fn space_bytes(&self) -> usize {
        self.chunk_bytes as usize - CHUNK_HEADER_BYTES
    }

    /// Length of a chunk on the target, bytes: `used_bytes` for header and records, rounded up to whole blocks.
    pub fn aligned(&self, used_bytes: usize) -> usize {
        used_bytes.next_multiple_of(self.align_bytes as usize)
    }

    /// Encodes the log's description, to be written at both [`DESCRIPTION_OFFSETS`].
    pub fn describe(&self, start: EpochStart) -> Vec<u8> {
        let mut block = vec![0; DESCRIPTION_BLOCK_BYTES];
        block[0..8].copy_from_slice(&MAGIC);
        block[12..20].copy_from_slice(&self.log_id.to_le_bytes());
        block[20..28].copy_from_slice(&self.capacity_bytes.to_le_bytes());
        block[28..36].copy_from_slice(&self.segment_bytes.to_le_bytes());
        block[36..40].copy_from_slice(&self.chunk_bytes.to_le_bytes());
        block[40..44].copy_from_slice(&self.align_bytes.to_le_bytes());
        block[44..48].copy_from_slice(&start.epoch.to_le_bytes());
        block[48..56].copy_from_slice(&start.position.to_le_bytes());
        let checksum = crc_fast::crc32_iscsi(&block[12..]);
        block[8..12].copy_from_slice(&checksum.to_le_bytes());
        block
    }

    /// Decodes a log's description into the layout and the latest epoch. `None` if the block is not a description.
    pub fn read(block: &[u8]) -> Option<(Self, EpochStart)> {
        let block = block.get(..DESCRIPTION_BLOCK_BYTES)?;
        let word = |at: usize| block[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        let half = |at: usize| block[at..at + 4].try_into().map(u32::from_le_bytes).ok();
        if block[0..8] != MAGIC || half(8)? != crc_fast::crc32_iscsi(&block[12..]) {
            return None;
        }
        let layout = Self::new(word(12)?, word(20)?, word(28)?, half(36)?, half(40)?).ok()?;
        let start = EpochStart { epoch: half(44)?, position: word(48)? };
        (start.epoch < EPOCH_END && start.position < COUNT_END).then_some((layout, start))
    }
}
