//! The properties of a target that a stream needs, and the errors of a workload that does not fit the target.

use iodyno_units::human;

use crate::spec::Spec;

/// Size, alignment and number of workers of a target, from which its streams are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub capacity_bytes: u64,
    /// Alignment that the device requires for addresses and lengths, bytes; 1: none.
    pub align_bytes: u32,
    /// Number of the target's workers over the whole run, in all processes; 1 or more.
    pub workers: u32,
}

/// Why a workload can't run on a target. The message includes the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// The number of workers is 0.
    #[error("a stream needs a worker")]
    NoWorkers,
    /// The device needs a coarser alignment than the workload has.
    #[error(
        "the target needs addresses and lengths in multiples of {}, but the workload's are \
         multiples of {}; make block and align multiples of {}",
        human::size(*device_bytes), human::size(*workload_bytes), human::size(*device_bytes)
    )]
    Align {
        /// Alignment of addresses and lengths that the device needs, bytes.
        device_bytes: u64,
        /// Alignment of the workload's addresses and lengths, bytes.
        workload_bytes: u64,
    },
    /// The active range ends beyond the target.
    #[error(
        "the active range ends at {}, beyond the target's capacity of {}; use a larger target or \
         an active range such as \"0%..100%\"",
        human::size(*end_bytes), human::size(*capacity_bytes)
    )]
    BeyondEnd {
        /// End of the active range, bytes from the start of the target.
        end_bytes: u64,
        capacity_bytes: u64,
    },
    /// The active range is smaller than a block.
    #[error(
        "the active range holds {} of the target, less than one block of {}; use a larger target, a larger range or a \
         smaller block",
        human::size(*range_bytes), human::size(*block_bytes)
    )]
    TooSmall {
        /// Length of the active range, bytes, rounded down to the alignment.
        range_bytes: u64,
        /// Size of the workload's largest block, bytes.
        block_bytes: u64,
    },
    /// A file is smaller than a block.
    #[error(
        "a file of the file set has {}, less than one block of {}; use a larger `size` or fewer files",
        human::size(*file_bytes), human::size(*block_bytes)
    )]
    SmallFiles {
        /// Size of each file of the set, bytes.
        file_bytes: u64,
        /// Size of the workload's largest block, bytes.
        block_bytes: u64,
    },
    /// The file set is larger than the capacity of a file system on the active range.
    #[error(
        "a file set of {} does not fit: a file system on the active range holds {}, since 33 MiB of each 2 GiB are \
         metadata; use a smaller `size` or a larger target",
        human::size(*set_bytes), human::size(*data_bytes)
    )]
    FileSetTooLarge {
        /// Total size of all files, bytes.
        set_bytes: u64,
        /// Space for file data, without the file system's metadata, bytes.
        data_bytes: u64,
    },
    /// The range has fewer blocks than workers, so that some worker would have none in a pass.
    #[error(
        "with `once_per_pass` each of {workers} workers needs a block of its own, but the active \
         range holds {blocks}; use fewer threads or a larger range"
    )]
    FewerBlocksThanWorkers {
        /// Number of blocks of the largest size in the active range.
        blocks: u64,
        /// Number of workers that divide the blocks of a pass.
        workers: u32,
    },
    /// The range has fewer blocks than streams, so that some stream would have none.
    #[error(
        "each of {streams} streams needs a block of its own, but the active range holds {blocks}; \
         use fewer streams or a larger range"
    )]
    FewerBlocksThanStreams {
        /// Number of blocks in the active range.
        blocks: u64,
        /// Number of streams that divide the range.
        streams: u64,
    },
    /// The written part of a zone is smaller than the largest block.
    #[error(
        "a zone has {} to write, less than the largest block of {}; use larger zones or smaller blocks",
        crate::size_text(*zone_bytes), crate::size_text(*block_bytes)
    )]
    SmallZones {
        /// Writable bytes of a zone.
        zone_bytes: u64,
        /// Size of the largest block, bytes.
        block_bytes: u64,
    },
    /// There are fewer zones than workers.
    #[error(
        "each worker needs a zone, and the active range has {} for {}; use fewer threads, smaller zones or a larger range",
        human::counted(*zones, "zone"), human::counted(*workers, "worker")
    )]
    FewZones {
        /// Number of zones in the active range.
        zones: u64,
        /// Number of workers that divide the zones.
        workers: u64,
    },
    /// A hot spot is smaller than a block.
    #[error(
        "hot spot {number} takes {range} of the active range, less than one block; use a larger \
         range or fewer hot spots"
    )]
    EmptySpot {
        /// Number of the hot spot in its pattern, from 1.
        number: usize,
        /// Size of the hot spot, as a fraction of the active range.
        range: crate::spec::Percent,
    },
}

/// Start and size of the active range on a target; the size is in units of the workload's alignment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) start_bytes: u64,
    /// log₂ of the workload's alignment in bytes.
    pub(crate) shift: u32,
    pub(crate) units: u64,
}

impl Range {
    pub(crate) fn new(spec: &Spec, geometry: &Geometry) -> Result<Self, GeometryError> {
        if geometry.workers == 0 {
            return Err(GeometryError::NoWorkers);
        }
        let (align_bytes, device_bytes) =
            (u64::from(spec.align_bytes()), u64::from(geometry.align_bytes.max(1)));
        if align_bytes % device_bytes != 0 {
            return Err(GeometryError::Align { device_bytes, workload_bytes: align_bytes });
        }
        let capacity_bytes = geometry.capacity_bytes;
        let active = spec.active();
        let (start_bytes, mut end_bytes) = spec.active_on(capacity_bytes);
        let last = u64::from(geometry.workers - 1);
        let moved_bytes = spec.worker_step_bytes().unwrap_or(0).saturating_mul(last);
        let last_end_bytes = if active.ends_with_target() {
            // The last worker's range ends with the target.
            end_bytes = end_bytes.saturating_sub(moved_bytes);
            end_bytes
        } else {
            end_bytes.saturating_add(moved_bytes)
        };
        if last_end_bytes > capacity_bytes {
            return Err(GeometryError::BeyondEnd { end_bytes: last_end_bytes, capacity_bytes });
        }
        let shift = align_bytes.trailing_zeros();
        let units = (end_bytes >> shift).saturating_sub(start_bytes >> shift);
        let largest = spec.kinds().flat_map(|(kind, _)| spec.blocks(kind)).map(|b| b.bytes).max();
        let block_bytes = u64::from(largest.unwrap_or(0));
        if units << shift < block_bytes {
            return Err(GeometryError::TooSmall { range_bytes: units << shift, block_bytes });
        }
        Ok(Self { start_bytes, shift, units })
    }
}
