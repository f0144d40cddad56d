//! The specification of an array: its layout over its members, and the time that its software or firmware takes.

use crate::content_event::UNIT_BYTES;
use crate::part_id::PartId;
use iodyno_raid::{Layout, LayoutError, Level, Rotation};

/// Bytes of a sector of an array's layout.
pub const SECTOR_BYTES: u64 = 512;

/// Several parts as one address space.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Its members, by their position in the layout: devices, arrays, or volumes behind adapters.
    pub members: Vec<PartId>,
    /// Its members are volumes of several devices each.
    pub is_of_arrays: bool,
    /// It ignores trims: below its members is an array with parity, which ignores parts of some.
    pub ignores_trims: bool,
    /// An array above it, of which it is a branch, has its data elsewhere too. Where it lacks too many members, it does
    /// not rebuild what is left: it is made again when all its devices are there, and the array above rebuilds it.
    pub is_branch: bool,
    /// The place of each sector, of [`SECTOR_BYTES`].
    pub layout: Layout,
    /// The processor that serves stripes is occupied for this long by a write to a stripe with parity, and by a read
    /// or write that recovers what a missing member holds. One stripe at a time.
    pub stripe_ns: u64,
    /// Where it is behind adapters, the number of its path: their processors, parity engines and drawers serve it then,
    /// and `stripe_ns` and `parity_bytes_per_s` have no effect.
    pub path: Option<u32>,
    /// That processor computes parity of this many bytes a second: those read and those written.
    pub parity_bytes_per_s: f64,
    /// Parts that take the places of members that are lost, in this order. At least as large as a member.
    pub spares: Vec<PartId>,
    /// A rebuild writes to its member so many bytes a second, and a scrub reads each member so fast, if the members
    /// can.
    pub rebuild_bytes_per_s: f64,
    /// Non-volatile memory keeps what is written to stripes with parity until the members have it durably: then a
    /// power cut loses nothing where members are missing.
    pub journal: bool,
}

/// How many devices make an array of which level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArrayShape {
    /// Its level.
    pub level: Level,
    /// Its members.
    pub members: u32,
    /// Bytes of a strip (md's chunk); without effect on levels without strips.
    pub strip_bytes: u64,
    /// The order of its parity.
    pub rotation: Rotation,
}

/// md's default chunk.
pub const STRIP_BYTES: u64 = 512 << 10;

/// Linux md serves the stripes of RAID 5 and 6 by one thread unless it is given more
/// (`/sys/block/mdX/md/group_thread_cnt` is 0). Assumed: some 170 000 stripes a second.
const MD_STRIPE_NS: u64 = 6_000;

/// Assumed of one core that xors data in memory; `bench/runs/2026-11-23-parity` has the measured rates.
const MD_PARITY_BYTES_PER_S: f64 = 8e9;

/// The most that Linux md gives a resync or rebuild where nothing else is set (`speed_limit_max`).
const MD_REBUILD_BYTES_PER_S: f64 = 200e6;

impl ArrayShape {
    /// An array as Linux md makes it, of members of `member_bytes` each.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn in_host(
        &self,
        members: Vec<PartId>,
        member_bytes: &[u64],
    ) -> Result<Array, LayoutError> {
        // Members have whole 4 KiB units.
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
