//! The faults that can be injected into each type of device. `machine/apply_fault` applies them; `fault_state` stores
//! the faults in effect.

use crate::part_id::PartId;
use iodyno_units::OpKind;

/// A fault to inject. Device faults persist until they are cleared, also across a power cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// Power fails and returns. Operations in flight are dropped. A protected buffer keeps its data, a volatile one
    /// loses it. Hung, slow and lost devices remain so.
    PowerCut,
    /// Power fails and stays off. Every operation fails immediately until [`Self::PowerOn`].
    PowerOff,
    /// Power returns after [`Self::PowerOff`].
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
    /// Every operation takes `factor` times as long. For an operation in flight, this applies to the remaining time. A
    /// flash device behind a link frees the operation's queue entry at the delayed end, a disk at the normal end.
    Slow {
        /// The affected device.
        part: PartId,
        /// Multiplier of each operation's duration. 1 restores normal speed; lower values count as 1.
        factor: f64,
    },
    /// Every operation that ends from now on is delayed by a fixed time. Queue entries are occupied as with
    /// [`Self::Slow`].
    Delay {
        /// The affected device.
        part: PartId,
        /// Extra latency, ns; 0 ends the fault.
        delay_ns: u64,
        /// Type of the delayed operations; `None`: all types.
        kind: Option<OpKind>,
    },
    /// Operations fail with an I/O error after their usual time, with a given probability. A failed write or trim
    /// leaves undefined content.
    Errors {
        /// The affected device.
        part: PartId,
        /// Probability of failure in per cent; 0 ends the fault.
        percent: f64,
        /// Type of the failing operations; `None`: all types.
        kind: Option<OpKind>,
    },
    /// No operation completes. The device still accepts and executes operations, and completes all of them
    /// when the fault is cleared.
    Hang {
        /// The affected device.
        part: PartId,
    },
    /// The device is lost: operations in flight and all later ones fail immediately. The device keeps the
    /// data that would survive a power cut.
    Lose {
        /// The affected device.
        part: PartId,
    },
    /// The device is replaced by an empty one without faults. A device that is still in service is lost first. An
    /// array rebuilds the new device. A live server refuses this fault for devices that are not hot-swappable.
    Replace {
        /// The affected device.
        part: PartId,
    },
    /// A range becomes unreadable, as with latent sector errors. Reads that touch its 4 KiB units fail after their
    /// usual time. A flash device with parity stripes instead rebuilds the page, which is then readable again.
    /// Writing or completely trimming a unit repairs it: on flash at the end of the program operation, elsewhere at
    /// the acknowledgement. Unwritten flash units don't fail, because they are not read from the cells.
    Latent {
        /// The affected device.
        part: PartId,
        /// Start of the unreadable range on the device, in bytes.
        offset_bytes: u64,
        /// Length of the unreadable range in bytes. A 4 KiB unit that the range covers in part becomes unreadable as
        /// a whole.
        len_bytes: u64,
    },
    /// A fault of the system's RAID adapters.
    Adapters(AdapterFault),
    /// Clears all faults of a device: it is no longer slow, delayed, failing, hung or lost, and all its data is
    /// readable. Power that is off stays off.
    Clear {
        /// The affected device.
        part: PartId,
    },
}

impl Fault {
    /// Returns the affected device; `None` for faults of all devices, or of adapters.
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

/// A fault of RAID adapters. Adapters, links and volumes are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdapterFault {
    /// An adapter is lost. Its partner takes over the adapter's volumes if the cache is mirrored or clean. Otherwise
    /// operations on these volumes fail until the adapter is back.
    Lose {
        /// Index of the adapter that is lost.
        adapter: u32,
    },
    /// An adapter is replaced by one with an empty cache. If the old adapter is still in service, it is lost first.
    /// Cached data of which no other copy exists is unreadable until it is rewritten.
    Replace {
        /// Index of the adapter that is replaced.
        adapter: u32,
    },
    /// A lost adapter is back with its cache content, and its battery works again.
    Clear {
        /// Index of the adapter that works again.
        adapter: u32,
    },
    /// The battery of an adapter's cache fails: a power cut then loses the cache's content. Until the fault is cleared,
    /// writes are acknowledged only once they are on the devices (write-through).
    BatteryFails {
        /// Index of the adapter whose battery fails.
        adapter: u32,
    },
    /// A link between the adapters goes down. If no link is left, writes are acknowledged only once they are on
    /// the devices (write-through).
    LinkDown {
        /// Index of the link that goes down.
        link: u32,
    },
    /// A link between the adapters is up again.
    LinkUp {
        /// Index of the link that works again.
        link: u32,
    },
    /// Makes another adapter of the pair the optimized one for a volume, and moves the volume's cached data to it.
    /// Only the primary adapter can do this, and only while both adapters are present and connected; otherwise
    /// nothing changes.
    Access {
        /// Index of the volume, counted among the volumes behind the adapters.
        volume: u32,
        /// The adapter on which the volume becomes optimized. `None` clears the volume's access state, so the primary
        /// adapter serves it.
        on: Option<u32>,
        /// Adapter that receives the host's request for the change.
        from: u32,
    },
}
