//! The bytes of arrays and adapters: those that members return and are given, what parity makes of them, and what goes
//! through an adapter's cache. The machine decides
//! each step, and names the bytes of a unit; this does the same with them, in the stores of the members.
//!
//! A member's unit that is corrupt in its store can't be read: what is made of it can't be either, until the member is
//! read again, which the machine then finds unreadable, and recovers.

use crate::store::{Store, UNIT_BYTES};
use iodyno_emulate::{ContentEvent, PartId};
use iodyno_raid::Simd;
use std::collections::HashMap;
use std::ops::Range;

const UNIT: usize = UNIT_BYTES as usize;

/// The bytes of a unit; None: they can't be read.
type Page = Option<Box<[u8; UNIT]>>;

/// An operation of a host on an array.
#[derive(Debug)]
pub(super) struct Operation {
    pub offset_bytes: u64,
    /// Of a write: its bytes, or none where they are zeroes. Of a read: what it has found.
    pub bytes: Vec<u8>,
    pub len_bytes: u64,
    /// Some of it can't be read.
    pub failed: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct ArrayBytes {
    simd: Simd,
    /// By name; one without a page is of zeroes.
    pages: HashMap<u64, Page>,
    /// By part: units that nothing was written to, as far as known. So a rebuild of what was never written costs
    /// nothing on this host.
    holes: Vec<Range<u64>>,
    /// By the host's token.
    pub operations: HashMap<u64, Operation>,
    /// Units of members that turned out to be corrupt.
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

    /// Carries out a step. `stores` are those of the devices.
    pub(super) fn change(&mut self, change: &ContentEvent, stores: &mut [Store]) {
        match *change {
            ContentEvent::Fetched { part, unit, name } => {
                let (hole, store) = (&mut self.holes[part.index()], &stores[part.index()]);
                if hole.contains(&unit) {
                    return;
                }
                let mut page = zeroes();
                let read = store.read(unit * UNIT_BYTES, &mut page[..]);
                if read.is_err() {
                    self.corrupt.push((part, unit));
                } else if *page == [0; UNIT] {
                    *hole = unit..unit + store.hole_units(unit);
                    return;
                }
                self.pages.insert(name, read.is_ok().then_some(page));
            }
            ContentEvent::Added { name, factor, term } => {
                if !self.pages.contains_key(&term) {
                    return;
                }
                let mut sum = self.pages.remove(&name).unwrap_or_else(|| Some(zeroes()));
                match (&mut sum, self.pages.get(&term)) {
                    (Some(sum), Some(Some(term))) => {
                        self.simd.mul_into(&mut sum[..], &term[..], factor);
                    }
                    (_, Some(None)) => sum = None,
                    _ => {}
                }
                self.pages.insert(name, sum);
            }
            ContentEvent::Laid { name, onto, over, part_bytes: (from, to) } => {
                let (onto, over) = (self.page(onto), self.page(over));
                let page = onto.zip(over).map(|(mut page, over)| {
                    let part = usize::from(from)..usize::from(to);
                    page[part.clone()].copy_from_slice(&over[part]);
                    page
                });
                self.pages.insert(name, page);
            }
            ContentEvent::Taken { token, unit, onto, name } => {
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
            ContentEvent::Returned { token, unit, name } => {
                let page = self.page(name);
                let Some(operation) = self.operations.get_mut(&token) else { return };
                let (at, to, len) = operation.part(unit);
                match page {
                    Some(page) => {
                        operation.bytes[to..to + len].copy_from_slice(&page[at..at + len]);
                    }
                    None => operation.failed = true,
                }
            }
            ContentEvent::Given { part, unit, part_bytes: (from, to), token, name } => {
                let page = self.page(name);
                let store = &mut stores[part.index()];
                // What can't be read can't be read there either.
                let bytes = page.as_deref().unwrap_or(&[0; UNIT]);
                let at = unit * UNIT_BYTES;
                let bytes = &bytes[usize::from(from)..usize::from(to)];
                let begun = store.begin_write(token, at + u64::from(from), bytes);
                debug_assert!(begun.is_ok(), "a member is as large as its store");
                if page.is_none() {
                    store.corrupt(&(at..at + UNIT_BYTES), token);
                }
            }
            ContentEvent::Passed { part, unit, token, from, of } => {
                let Some(operation) = self.operations.get(&from) else { return };
                let (to, at, len) = operation.part(of);
                let bytes = &operation.bytes[at..at + len];
                let offset_bytes = unit * UNIT_BYTES + to as u64;
                let begun = stores[part.index()].begin_write(token, offset_bytes, bytes);
                debug_assert!(begun.is_ok(), "a member is as large as its store");
            }
            ContentEvent::Cleared { part, offset_bytes, len_bytes, trim, token } => {
                let (store, len_bytes) = (&mut stores[part.index()], u64::from(len_bytes));
                let begun = if trim {
                    store.begin_trim(token, offset_bytes, len_bytes)
                } else {
                    store.begin_zeroes(token, offset_bytes, len_bytes)
                };
                debug_assert!(begun.is_ok(), "a member is as large as its store");
            }
            ContentEvent::Ended { part, token, failed } => {
                let store = &mut stores[part.index()];
                if failed {
                    store.cancel_write(token);
                } else {
                    // What the host refuses is stranded in memory, and reported by a flush.
                    let _ = store.end_write(token);
                }
            }
            ContentEvent::Freed { name, count } => {
                for name in name..name + count {
                    self.pages.remove(&name);
                }
            }
            _ => unreachable!("a step of one device: {change:?}"),
        }
    }

    /// A device takes, or loses, something.
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
    /// Of a unit of the array: where the operation begins in it, where that is in the operation's bytes, and how long
    /// it is.
    fn part(&self, unit: u64) -> (usize, usize, usize) {
        let begin = unit * UNIT_BYTES;
        let from = self.offset_bytes.max(begin);
        let to = (self.offset_bytes + self.len_bytes).min(begin + UNIT_BYTES);
        ((from - begin) as usize, (from - self.offset_bytes) as usize, (to - from) as usize)
    }
}
