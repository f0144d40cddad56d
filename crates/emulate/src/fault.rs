//! The faults that can be injected into each kind of device. `machine/apply_fault` applies them;
//! `fault_state` holds those in effect.

use crate::part_id::PartId;
use iodyno_units::OpKind;

/// A fault to inject. Faults of a device persist until they are cleared; a power cut drops operations
/// in flight and repairs nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// The power fails and returns. Everything in flight is lost, and each component keeps the data that
    /// it protects (a protected buffer all, a volatile one none). A hung device stays hung, without
    /// waiting operations; a slow one stays slow, and a lost one lost.
    PowerCut,
    /// The power fails and stays off: every operation fails at once until [`Self::PowerOn`].
    PowerOff,
    /// The power returns.
    PowerOn,
    /// The flash page at an offset becomes unreadable. No effect on disks and memory.
    Page {
        /// The affected device.
        part: PartId,
        /// Any offset within the page.
        offset_bytes: u64,
    },
    /// The erase block at an offset becomes unreadable. No effect on disks and memory.
    Block {
        /// The affected device.
        part: PartId,
        /// Any offset within the block.
        offset_bytes: u64,
    },
    /// Every operation takes `factor` times as long, counted from its hand-over (or from this
    /// fault, if that came later). With a flash device on a link, the operation occupies its slot
    /// of the queue until its end; a disk frees the slot when its own work is done.
    Slow {
        /// The affected device.
        part: PartId,
        /// Factor by which operations take longer. 1: normal speed again; less counts as 1.
        factor: f64,
    },
    /// Every operation that ends from now on ends later by a fixed delay. (It occupies its slot of
    /// the queue as with `Slow`.)
    Delay {
        /// The affected device.
        part: PartId,
        /// Extra latency, ns; 0: ends the delay.
        delay_ns: u64,
        /// Kind of the delayed operations; `None`: every kind.
        kind: Option<OpKind>,
    },
    /// Operations fail with an I/O error after their usual time, with a given probability. The content that a failed
    /// write or trim leaves is undefined, as on any device.
    Errors {
        /// The affected device.
        part: PartId,
        /// Probability in per cent, which records of faults store exactly; 0: no operation fails
        /// any more.
        percent: f64,
        /// Kind of the failing operations; `None`: every kind.
        kind: Option<OpKind>,
    },
    /// No operation completes any more. The device still accepts and executes operations; when the
    /// fault is cleared, it completes all waiting ones at once.
    Hang {
        /// The affected device.
        part: PartId,
    },
    /// The device is lost: operations in flight fail now, later ones fail at once. It keeps the data that
    /// would survive a power cut.
    Lose {
        /// The affected device.
        part: PartId,
    },
    /// The device is replaced by an empty one without faults; it is lost first, if it was not. An array rebuilds it.
    /// (A server refuses this for devices that are not hot-swappable.)
    Replace {
        /// The affected device.
        part: PartId,
    },
    /// A range becomes unreadable, as with latent sector errors. A read that touches a 4 KiB unit of it
    /// fails after its usual time; a flash device with parity stripes rebuilds the page, which is then
    /// readable again. A write that touches a unit, or a trim of the whole unit, repairs it: on flash
    /// when its program ends, elsewhere when it is acknowledged. On flash, unwritten units are not read
    /// from the cells and don't fail.
    Latent {
        /// The affected device.
        part: PartId,
        /// Offset of the first byte to write.
        offset_bytes: u64,
        /// Length in bytes.
        len_bytes: u64,
    },
    /// A fault of the system's RAID adapters.
    Adapters(AdapterFault),
    /// Clears all faults of a device: it is no longer slow, delayed, failing, hung or lost, and all its data is
    /// readable. (Power that is off stays off.)
    Clear {
        /// The affected device.
        part: PartId,
    },
}

impl Fault {
    /// The affected device; `None` for faults of all devices, or of adapters.
    pub fn part(&self) -> Option<PartId> {
        match *self {
            Self::PowerCut | Self::PowerOff | Self::PowerOn | Self::Adapters(_) => None,
            Self::Page { part, .. }
            | Self::Block { part, .. }
            | Self::Slow { part, .. }
            | Self::Delay { part, .. }
            | Self::Errors { part, .. }
            | Self::Hang { part }
            | Self::Lose { part }
            | Self::Replace { part }
            | Self::Latent { part, .. }
            | Self::Clear { part } => Some(part),
        }
    }
}

/// A fault of RAID adapters. Numbers count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdapterFault {
    /// An adapter is lost. Its partner takes over the volumes if it mirrors the cache, or if the cache is clean.
    /// Otherwise, or without a partner, operations fail until the adapter is back.
    Lose {
        /// Number of the adapter.
        adapter: u32,
    },
    /// An adapter is replaced by one with an empty cache; it is lost first, if it was not. Data that no adapter holds
    /// any more is reported as unreadable until it is rewritten.
    Replace {
        /// Number of the adapter.
        adapter: u32,
    },
    /// An adapter is back with its cache, and its battery works.
    Clear {
        /// Number of the adapter.
        adapter: u32,
    },
    /// The battery of an adapter's cache fails: a power cut then loses the cache's content. Until the fault is cleared,
    /// writes are acknowledged only once they are on the devices (write-through).
    BatteryFails {
        /// Number of the adapter.
        adapter: u32,
    },
    /// A link between the adapters goes down. With none left, writes are acknowledged only once they are on the
    /// devices.
    LinkDown {
        /// Number of the link.
        link: u32,
    },
    /// A link between the adapters is up again.
    LinkUp {
        /// Number of the link.
        link: u32,
    },
    /// Changes the access state of a volume: from now on it is optimized on another adapter of the pair, with its
    /// cached data. Only the primary can do this, and only while both adapters are present and connected; otherwise
    /// nothing changes.
    Access {
        /// Number of the volume, among those that the adapters present.
        volume: u32,
        /// The adapter to optimize it on; `None`: clears the state, which returns the volume to the primary.
        on: Option<u32>,
        /// The adapter that receives the request.
        from: u32,
    },
}
