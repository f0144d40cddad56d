//! The specification of an array: its layout over its members, and the processing times of its implementation.

use crate::content_event::UNIT_BYTES;
use crate::part_id::PartId;
use iodyno_raid::{Layout, LayoutError, Level, Rotation};

/// Size in bytes of a sector in array layouts.
pub const SECTOR_BYTES: u64 = 512;

/// A RAID array: several devices, arrays or paths combined into one address space.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Members by position in the layout: devices, arrays, or volumes behind adapters.
    pub members: Vec<PartId>,
    /// Whether the members are arrays, or volumes behind adapters, rather than devices.
    pub is_of_arrays: bool,
    /// Whether the array ignores trims. Set if the array is redundant and its members are arrays with parity, because
    /// such members may ignore parts of a trim.
    pub ignores_trims: bool,
    /// Whether the array is below another, redundant array. If it has lost too many members to rebuild itself, it is
    /// re-created empty once all its devices are present, and the array above rebuilds it.
    pub is_branch: bool,
    /// Layout of the array, in sectors of [`SECTOR_BYTES`].
    pub layout: Layout,
    /// Time for which a stripe occupies the array's processor, ns: for each write with parity, and for each read or
    /// write that recovers data of a missing member. The processor serves one stripe at a time.
    pub stripe_ns: u64,
    /// Index of the array's path through adapters; `None`: not behind adapters. With a path, the adapters serve the
    /// array, and `stripe_ns` and `parity_bytes_per_s` have no effect.
    pub path: Option<u32>,
    /// Rate at which the array's processor computes parity. Counts both bytes read and bytes written.
    pub parity_bytes_per_s: f64,
    /// Hot spares, in the order in which they replace lost members. Each is at least as large as a member.
    pub spares: Vec<PartId>,
    /// Maximum rate at which a rebuild writes to the member that it rebuilds, and at which a scrub reads each member.
    pub rebuild_bytes_per_s: f64,
    /// Whether a journal in non-volatile memory keeps writes to stripes with parity until they are durable on the
    /// members. This closes the write hole.
    pub journal: bool,
}

/// Level and geometry of an array, without the list of its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArrayShape {
    /// RAID level, which determines the redundancy and the minimum number of members.
    pub level: Level,
    /// Number of members, parity included.
    pub members: u32,
    /// Strip size in bytes (md's chunk size). Ignored on levels without strips.
    pub strip_bytes: u64,
    /// Placement of parity in successive stripes.
    pub rotation: Rotation,
}

/// Default strip size in bytes: md's default chunk size.
pub const STRIP_BYTES: u64 = 512 << 10;

/// Time per stripe in Linux md, ns. An assumption: about 170 000 stripes/s, since md serves RAID 5 and 6
/// with one thread by default (`/sys/block/mdX/md/group_thread_cnt` is 0).
const MD_STRIPE_NS: u64 = 6_000;

/// Assumed rate at which one core xors data in memory, bytes/s. For measured rates see
/// `bench/runs/2026-11-23-parity`.
const MD_PARITY_BYTES_PER_S: f64 = 8e9;

/// Linux md's default upper bound for the rate of a resync or rebuild (`speed_limit_max`), bytes/s.
const MD_REBUILD_BYTES_PER_S: f64 = 200e6;

impl ArrayShape {
    /// Returns the specification of a software array in the host, as Linux md creates it from members of the given
    /// sizes.
    ///
    /// # Errors
    /// The rule that the array violates.
    pub fn in_host(
        &self,
        members: Vec<PartId>,
        member_bytes: &[u64],
    ) -> Result<Array, LayoutError> {
        // Members are cut to whole 4 KiB units.
        let sectors = |bytes: &u64| bytes / UNIT_BYTES * (UNIT_BYTES / SECTOR_BYTES);
        let sectors: Vec<u64> = member_bytes.iter().map(sectors).collect();
        let layout = Layout::new(self.level, &sectors, self.strip_bytes / SECTOR_BYTES)?;
        Ok(Array {
            members,
            is_of_arrays: false,
            ignores_trims: false,
            is_branch: false,
            layout: layout.rotated(self.rotation),
            path: None,
            stripe_ns: MD_STRIPE_NS,
            parity_bytes_per_s: MD_PARITY_BYTES_PER_S,
            spares: Vec::new(),
            rebuild_bytes_per_s: MD_REBUILD_BYTES_PER_S,
            journal: false,
        })
    }
}
