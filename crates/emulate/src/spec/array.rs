//! The specification of an array: its layout over its members, and the time that its implementation takes.

use crate::content_event::UNIT_BYTES;
use crate::part_id::PartId;
use iodyno_raid::{Layout, LayoutError, Level, Rotation};

/// Bytes of a sector in array layouts.
pub const SECTOR_BYTES: u64 = 512;

/// An array: several parts as one address space.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The members by their position in the layout: devices, arrays, or volumes behind adapters.
    pub members: Vec<PartId>,
    /// Whether the members consist of several devices each.
    pub is_of_arrays: bool,
    /// Whether the array ignores trims, because an array with parity below its members ignores parts of some.
    pub ignores_trims: bool,
    /// Whether the array is a branch of an array above, which stores its data redundantly. If a branch lacks too many
    /// members, it is not rebuilt: once all its devices are present it is re-created, and the array above rebuilds
    /// it.
    pub is_branch: bool,
    /// Location of each sector, in sectors of [`SECTOR_BYTES`].
    pub layout: Layout,
    /// Time that a stripe occupies the array's processor: for a write to a stripe with parity, and for a read or
    /// write that recovers data of a missing member. One stripe is served at a time.
    pub stripe_ns: u64,
    /// Number of the array's path, if it is behind adapters. Their processors, parity engines and
    /// drawers then serve it, and `stripe_ns` and `parity_bytes_per_s` have no effect.
    pub path: Option<u32>,
    /// Rate at which the processor computes parity, counting bytes read and bytes written.
    pub parity_bytes_per_s: f64,
    /// Hot spares that replace lost members, in this order. Each is at least as large as a member.
    pub spares: Vec<PartId>,
    /// Upper bounds of the rate at which a rebuild writes to its member, and at which a scrub reads each member.
    pub rebuild_bytes_per_s: f64,
    /// Whether non-volatile memory keeps writes to stripes with parity until the members have them durably. If so, a
    /// power cut with missing members loses nothing (no write hole).
    pub journal: bool,
}

/// Level and geometry of an array, without its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArrayShape {
    /// RAID level of the array.
    pub level: Level,
    /// Number of members.
    pub members: u32,
    /// Strip size in bytes (md's chunk); ignored on levels without strips.
    pub strip_bytes: u64,
    /// Rotation of parity.
    pub rotation: Rotation,
}

/// Default strip size in bytes: md's default chunk.
pub const STRIP_BYTES: u64 = 512 << 10;

/// Time per stripe in Linux md, ns, which serves the stripes of RAID 5 and 6 with one thread by
/// default (`/sys/block/mdX/md/group_thread_cnt` is 0). Assumed: about 170 000 stripes a second.
const MD_STRIPE_NS: u64 = 6_000;

/// Assumed rate at which one core xors data in memory. `bench/runs/2026-11-23-parity` has measured
/// rates.
const MD_PARITY_BYTES_PER_S: f64 = 8e9;

/// Linux md's default upper bound for a resync or rebuild (`speed_limit_max`).
const MD_REBUILD_BYTES_PER_S: f64 = 200e6;

impl ArrayShape {
    /// Builds an array as Linux md does, with members of the given sizes.
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
