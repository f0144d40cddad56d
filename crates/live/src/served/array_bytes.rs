//! The bytes of arrays and adapters: bytes read from and written to members, parity computed from them, and bytes in
//! an adapter's cache. The machine decides each step, and identifies the content of a unit by a number, the *name*.
//! This module performs the steps with the bytes, in the members' stores.
//!
//! A corrupt unit of a member can't be read, nor can data computed from it. This module reports the unit to the
//! machine. The machine's next read of the unit then fails, which triggers the unit's recovery. A rebuild may have
//! copied the unit or computed others from it before; in their place [`UNREADABLE`] is stored, which counts as corrupt
//! when it is read, also by a later server.

use crate::store::{Store, UNIT_BYTES};
use iodyno_emulate::{ContentEvent, PartId};
use iodyno_raid::Simd;
use iodyno_units::rng;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

const UNIT: usize = UNIT_BYTES as usize;

/// Content of a 4 KiB unit; `None` if it can't be read.
type Page = Option<Box<[u8; UNIT]>>;

/// Content of a member's unit that stands for data which could not be read or computed.
static UNREADABLE: LazyLock<[u8; UNIT]> = LazyLock::new(|| {
    const WHY: &[u8] =
        b"iodyno: the data of this unit could not be read when it was rebuilt or updated\n";
    let mut random = rng::stream(1, "unreadable", 0);
    let mut bytes = [0; UNIT];
    bytes.fill_with(|| rng::below(&mut random, 256) as u8);
    bytes[..WHY.len()].copy_from_slice(WHY);
    bytes
});

/// Whether the content of a member's unit stands for data that could not be read or computed.
pub(super) fn is_unreadable(bytes: &[u8; UNIT]) -> bool {
    *bytes == *UNREADABLE
}

/// A host's operation in progress on an array.
#[derive(Debug)]
pub(super) struct Operation {
    pub offset_bytes: u64,
    /// Data of a write (empty if it writes zeroes), or the data that a read has received so far.
    pub bytes: Vec<u8>,
    pub len_bytes: u64,
    /// Whether the operation is a read that must fail because some of its data is unreadable.
    pub failed: bool,
}

/// Data in flight in arrays: pages, which the machine's content events refer to by identifier, and the hosts'
/// operations in progress.
#[derive(Debug)]
pub(super) struct ArrayBytes {
    simd: Simd,
    /// Pages by the identifier that the machine assigned. An identifier without a page stands for a page of zeroes.
    pages: HashMap<u64, Page>,
    /// For each device, a range of units known to be unwritten. A rebuild skips reading them from the store.
    holes: Vec<Range<u64>>,
    /// Hosts' operations in progress, by token.
    pub operations: HashMap<u64, Operation>,
    /// Corrupt units that were found on members (device and unit) but are not yet reported to the machine.
    pub corrupt: Vec<(PartId, u64)>,
}

impl ArrayBytes {
    pub(super) fn new(parts: usize) -> Self {
        Self {
            simd: Simd::best(),
            pages: HashMap::new(),
            holes: vec![0..0; parts],
            operations: HashMap::new(),
            corrupt: Vec::new(),
        }
    }

    /// Applies a content event of the machine, such as a read of a unit or an update of parity, to the devices'
    /// stores.
    pub(super) fn change(&mut self, change: &ContentEvent, stores: &mut [Store]) {
        match *change {
            ContentEvent::Fetched { part, unit, name } => {
                self.fetch(part, unit, name, &stores[part.index()]);
            }
            ContentEvent::Added { name, factor, term } => self.add(name, factor, term),
            ContentEvent::Laid { name, onto, over, part_bytes } => {
                let (onto, over) = (self.page(onto), self.page(over));
                let page = onto.zip(over).map(|(mut page, over)| {
                    let part = part_bytes.range();
                    page[part.clone()].copy_from_slice(&over[part]);
                    page
                });
                self.pages.insert(name, page);
            }
            ContentEvent::Taken { token, unit, onto, name } => {
                self.take(token, unit, onto, name);
            }
            ContentEvent::Returned { token, unit, name } => self.give_back(token, unit, name),
            ContentEvent::Given { part, unit, part_bytes, token, name } => {
                let page = self.page(name);
                // An unreadable page makes the whole unit unreadable.
                let (bytes, range) = match &page {
                    Some(page) => (&**page, part_bytes.range()),
                    None => (&*UNREADABLE, 0..UNIT),
                };
                let at = unit * UNIT_BYTES + range.start as u64;
                let begun = stores[part.index()].begin_write(token, at, &bytes[range]);
                debug_assert!(begun.is_ok(), "a member must be as large as its store");
            }
            ContentEvent::Passed { part, unit, token, from, of } => {
                let Some(operation) = self.operations.get(&from) else { return };
                let (to, at, len) = operation.part(of);
                let bytes = &operation.bytes[at..at + len];
                let offset_bytes = unit * UNIT_BYTES + to as u64;
                let begun = stores[part.index()].begin_write(token, offset_bytes, bytes);
                debug_assert!(begun.is_ok(), "a member must be as large as its store");
            }
            ContentEvent::Cleared { part, offset_bytes, len_bytes, trim, token } => {
                let (store, len_bytes) = (&mut stores[part.index()], u64::from(len_bytes));
                let begun = if trim {
                    store.begin_trim(token, offset_bytes, len_bytes)
                } else {
                    store.begin_zeroes(token, offset_bytes, len_bytes)
                };
                debug_assert!(begun.is_ok(), "a member must be as large as its store");
            }
            ContentEvent::Ended { part, token, failed } => {
                let store = &mut stores[part.index()];
                if failed {
                    store.cancel_write(token);
                } else {
                    // Bytes refused by the host are stranded in memory, and reported by a flush.
                    let _ = store.end_write(token);
                }
            }
            ContentEvent::Freed { name, count } => {
                for name in name..name + count {
                    self.pages.remove(&name);
                }
            }
            _ => unreachable!("only a single device reports this change: {change:?}"),
        }
    }

    /// Reads a unit of an array's member into the page with identifier `name`.
    fn fetch(&mut self, part: PartId, unit: u64, name: u64, store: &Store) {
        let hole = &mut self.holes[part.index()];
        if hole.contains(&unit) {
            return;
        }
        let mut page = zeroes();
        let read = store.read(unit * UNIT_BYTES, &mut page[..]);
        if read.is_err() || is_unreadable(&page) {
            self.corrupt.push((part, unit));
            self.pages.insert(name, None);
        } else if *page == [0; UNIT] {
            *hole = unit..unit + store.hole_units(unit);
        } else {
            self.pages.insert(name, Some(page));
        }
    }

    /// Multiplies page `term` by `factor` in the Galois field of the parity, and adds the product to page `name`.
    fn add(&mut self, name: u64, factor: u8, term: u64) {
        if !self.pages.contains_key(&term) {
            return;
        }
        let mut sum = self.pages.remove(&name).unwrap_or_else(|| Some(zeroes()));
        match (&mut sum, self.pages.get(&term)) {
            (Some(sum), Some(Some(term))) => self.simd.mul_into(&mut sum[..], &term[..], factor),
            (_, Some(None)) => sum = None,
            _ => {}
        }
        self.pages.insert(name, sum);
    }

    /// Overwrites a copy of page `onto` with the data of a host's write, and stores the result as page `name`.
    fn take(&mut self, token: u64, unit: u64, onto: u64, name: u64) {
        let mut page = self.page(onto);
        if let (Some(page), Some(operation)) = (&mut page, self.operations.get(&token)) {
            let (to, from, len) = operation.part(unit);
            match operation.bytes.get(from..from + len) {
                Some(bytes) => page[to..to + len].copy_from_slice(bytes),
                None => page[to..to + len].fill(0),
            }
        }
        self.pages.insert(name, page);
    }

    /// Copies data from page `name` into the result of a host's read.
    fn give_back(&mut self, token: u64, unit: u64, name: u64) {
        let page = self.page(name);
        let Some(operation) = self.operations.get_mut(&token) else { return };
        let (at, to, len) = operation.part(unit);
        match page {
            Some(page) => operation.bytes[to..to + len].copy_from_slice(&page[at..at + len]),
            None => operation.failed = true,
        }
    }

    /// Forgets which units of a device are known to be unwritten, because the device's content changed.
    pub(super) fn device_changes(&mut self, part: PartId) {
        self.holes[part.index()] = 0..0;
    }

    fn page(&self, name: u64) -> Page {
        self.pages.get(&name).cloned().unwrap_or_else(|| Some(zeroes()))
    }
}

fn zeroes() -> Box<[u8; UNIT]> {
    Box::new([0; UNIT])
}

impl Operation {
    /// Overlap of the operation with a unit of the array, in bytes: its offset in the unit, its offset in the
    /// operation's data, and its length.
    fn part(&self, unit: u64) -> (usize, usize, usize) {
        let begin = unit * UNIT_BYTES;
        let from = self.offset_bytes.max(begin);
        let to = (self.offset_bytes + self.len_bytes).min(begin + UNIT_BYTES);
        ((from - begin) as usize, (from - self.offset_bytes) as usize, (to - from) as usize)
    }
}
