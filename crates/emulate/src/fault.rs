//! Faults that can be injected, on every kind of device. The machine applies them
//! (`machine/apply_fault`), `fault_state` holds those in effect.

use crate::part_id::PartId;
use iodyno_units::OpKind;

/// A fault, to be injected at a time. Whatever is wrong with a device stays wrong until it is
/// cleared; a power cut takes what is in flight and mends nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// The power fails and comes back: everything in flight is gone, and each component keeps the
    /// data that it protects (a protected buffer all, a volatile one none). A hung device stays
    /// hung, without waiting operations; a slow one stays slow, and a lost one lost.
    PowerCut,
    /// As a power cut, and the power stays off: every operation fails at once until [`Self::PowerOn`].
    PowerOff,
    /// The power is back.
    PowerOn,
    /// The flash page that holds this offset can't be read any more. (Disks and memory have none.)
    Page {
        /// On which device.
        part: PartId,
        /// Anywhere in the page.
        offset_bytes: u64,
    },
    /// The erase block that holds this offset can't be read any more. (Disks and memory have none.)
    Block {
        /// On which device.
        part: PartId,
        /// Anywhere in the block.
        offset_bytes: u64,
    },
    /// Every operation takes `factor` times as long as it would have, counted from its hand-over
    /// (or from this fault, if that came later). A flash device on a link keeps the operation's
    /// place in the queue until then; a disk's has been free since its own work was done.
    Slow {
        /// Which device.
        part: PartId,
        /// 1: as usual again; less counts as 1.
        factor: f64,
    },
    /// Every operation that ends from now on ends so much later. (What it keeps meanwhile is as with `Slow`.)
    Delay {
        /// Which device.
        part: PartId,
        /// So much; 0: as usual again.
        delay_ns: u64,
        /// Of operations of this kind; None: of every kind.
        kind: Option<OpKind>,
    },
    /// Operations fail with an I/O error after their usual time, each with this probability. What a failed write
    /// or trim changes is undefined, as on any device.
    Errors {
        /// Which device.
        part: PartId,
        /// The probability, in per cent (which a record keeps exactly); 0: none fails any more.
        percent: f64,
        /// Of operations of this kind; None: of every kind.
        kind: Option<OpKind>,
    },
    /// Nothing completes any more. The device accepts and executes operations, but answers none
    /// before the fault is cleared; then it completes all that waited, at that instant.
    Hang {
        /// Which device.
        part: PartId,
    },
    /// The device is lost: operations in flight fail now, later ones fail at once. It keeps what it
    /// would have kept through a power cut.
    Lose {
        /// Which device.
        part: PartId,
    },
    /// Another device of the kind is in the place of this one, which is lost if it was not before: it holds nothing,
    /// and has no other fault. An array rebuilds it. (A server refuses it for what can't be replaced under power.)
    Replace {
        /// Which device.
        part: PartId,
    },
    /// A range can't be read, as with latent sector errors: a read that touches a 4 KiB unit of it
    /// fails, after its usual time; a flash device with parity stripes rebuilds the page, which is
    /// readable again then. A write that touches a unit, or a trim of all of it, repairs it: on
    /// flash when its program ends, elsewhere when it is acknowledged. Unwritten units are not read
    /// from the cells of flash, and don't fail there.
    Latent {
        /// On which device.
        part: PartId,
        /// First byte.
        offset_bytes: u64,
        /// Length.
        len_bytes: u64,
    },
    /// A fault of the system's RAID adapters.
    Adapters(AdapterFault),
    /// All is well again with this device: no longer slow, delayed, failing, hung or gone, and everything that
    /// it holds can be read. (Power that is off stays off.)
    Clear {
        /// Which device.
        part: PartId,
    },
}

impl Fault {
    /// The device that it concerns; None: all, or adapters.
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
    /// An adapter is lost. Its partner takes over its volumes, if it holds what the cache holds, or the cache holds
    /// nothing that is not on the devices; otherwise, or without a partner, operations fail until it is back.
    Lose {
        /// Which.
        adapter: u32,
    },
    /// Another adapter is in the place of this one, which is lost if it was not before; its cache is empty. What no
    /// adapter holds any more is reported as unreadable until it is written.
    Replace {
        /// Which.
        adapter: u32,
    },
    /// The adapter is back, with its cache, and its battery is well.
    Clear {
        /// Which.
        adapter: u32,
    },
    /// The battery of an adapter's cache fails: a power cut takes what that cache holds. Until it is cleared, writes are
    /// acknowledged when they are on the devices.
    BatteryFails {
        /// Whose.
        adapter: u32,
    },
    /// A link between two adapters is down. With none left, writes are acknowledged when they are on the devices.
    LinkDown {
        /// Which.
        link: u32,
    },
    /// It is up again.
    LinkUp {
        /// Which.
        link: u32,
    },
    /// The access state of a volume is changed: it is optimized on another adapter of a pair from now on, with what the
    /// cache holds of it. Only the primary changes it, while both adapters are there and reach each other; otherwise
    /// nothing changes.
    Access {
        /// Which, of the volumes that the adapters present.
        volume: u32,
        /// On which adapter; None: the state is cleared, and the volume is where it is without one, on the primary.
        on: Option<u32>,
        /// The adapter that is asked to change it.
        from: u32,
    },
}
