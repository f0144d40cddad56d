//! Emulated devices for the tests, and operations on them.

use crate::common::{disk, flash, memory, system};
use iodyno_emulate::spec::{Kind, Written};
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

pub(crate) fn devices() -> Vec<Device> {
    let device = |name, kind, pace, keeps, forgets| Device { name, kind, pace, keeps, forgets };
    vec![
        device("a volatile buffer", flash_with(false), 1, false, false),
        device("a protected buffer", flash_with(true), 1, true, false),
        device("a map of 8 KiB", flash_that_merges(), 1, false, false),
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
