//! Emulated devices for the tests, and operations on them.

use crate::common::{disk, flash, memory, system};
use iodyno_emulate::spec::{DurableOrder, Kind, PowerCut, Written};
use iodyno_emulate::{ContentEvent, Machine};
use iodyno_live::store::{Options, Store};
use iodyno_units::{Op, OpKind};

/// An emulated device, by its behaviour in a power cut.
#[derive(Clone)]
pub(crate) struct Device {
    pub name: &'static str,
    pub kind: Kind,
    /// How much slower than flash it is.
    pub pace: u64,
    /// Whether all acknowledged data survives a power cut.
    pub keeps: bool,
    /// Whether a power cut loses all data.
    pub forgets: bool,
}

pub(crate) fn flash_with(protected: bool) -> Kind {
    let mut f = flash();
    f.buffer.protected = protected;
    Kind::Flash(Box::new(f))
}

/// A volatile buffer, and a map whose units are written as a whole.
fn flash_that_merges() -> Kind {
    let mut f = flash();
    f.nand.planes = 2;
    f.buffer.protected = false;
    f.translation.unit_bytes = 8 << 10;
    Kind::Flash(Box::new(f))
}

/// A rule for power cuts: atomic blocks of this size, and the order in which data becomes durable.
fn cutting(protected: bool, atomic_bytes: u32, order: DurableOrder) -> Kind {
    let mut f = flash();
    f.nand.planes = 2;
    f.buffer.protected = protected;
    f.power_cut = Some(PowerCut { atomic_bytes, order });
    Kind::Flash(Box::new(f))
}

pub(crate) fn devices() -> Vec<Device> {
    let (any, in_order) = (DurableOrder::Any, DurableOrder::Acknowledged);
    let device = |name, kind, pace, keeps, forgets| Device { name, kind, pace, keeps, forgets };
    vec![
        device("a volatile buffer", flash_with(false), 1, false, false),
        device("a protected buffer", flash_with(true), 1, true, false),
        device("a map of 8 KiB", flash_that_merges(), 1, false, false),
        device("sectors of a volatile buffer", cutting(false, 512, any), 1, false, false),
        device("sectors in order", cutting(false, 512, in_order), 1, false, false),
        device("sectors of a protected buffer", cutting(true, 512, any), 1, true, false),
        device("blocks of 16 KiB in order", cutting(false, 16 << 10, in_order), 1, false, false),
        device("a disk's cache", disk(true), 300, false, false),
        device("a disk without", disk(false), 300, true, false),
        device("memory", memory(false), 1, false, true),
        device("protected memory", memory(true), 1, true, false),
    ]
}

impl Device {
    pub(crate) fn machine(&self, seed: u64) -> Machine {
        let mut machine =
            Machine::new(&system(self.kind.clone(), Written::Fresh, 1), seed).unwrap();
        machine.follow_content();
        machine
    }

    /// Whether a power cut leaves more than what is durable at that time: parts of writes that it interrupts.
    pub(crate) fn tears(&self) -> bool {
        matches!(&self.kind, Kind::Flash(flash) if flash.power_cut.is_some())
    }

    pub(crate) fn options(&self) -> Options {
        Options { emptied_by_power_failure: self.forgets, ..Options::default() }
    }
}

/// Registers an operation with a store before it is submitted; every byte of a write is `byte`.
pub(crate) fn begin(store: &mut Store, token: u64, op: &Op, data: &[u8]) {
    let len = u64::from(op.len_bytes);
    match op.kind {
        OpKind::Write => store.begin_write(token, op.offset_bytes, data),
        OpKind::WriteZeroes => store.begin_zeroes(token, op.offset_bytes, len),
        OpKind::Trim => store.begin_trim(token, op.offset_bytes, len),
        OpKind::Read | OpKind::Flush => Ok(()),
    }
    .unwrap();
}

pub(crate) fn is_cut(change: &ContentEvent) -> bool {
    matches!(change, ContentEvent::PowerCut { .. } | ContentEvent::Emptied { .. })
}
