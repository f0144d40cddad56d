//! A copy-on-write table of page or slot numbers. Devices that start in the same state share the table's parts. A
//! device that writes to a part gets its own copy of the part.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

/// Log2 of the number of entries per copy-on-write part (4 KiB).
const PART_LOG2: u32 = 10;
const PART: usize = 1 << PART_LOG2;

type Part = [u32; PART];

#[derive(Clone, Debug)]
pub(super) enum Table {
    /// All entries, owned by one device.
    Whole(Vec<u32>),
    /// Copy-on-write parts, shared by several devices, and the number of entries. The last part may have unused
    /// entries.
    Parts(Vec<Arc<Part>>, usize),
}

impl Table {
    pub(super) fn new(len: usize, value: u32) -> Self {
        Self::Whole(vec![value; len])
    }

    /// Makes the table copy-on-write, so that clones share its parts.
    pub(super) fn share(&mut self) {
        let Self::Whole(all) = self else { return };
        let part = |entries: &[u32]| {
            let mut part = [0; PART];
            part[..entries.len()].copy_from_slice(entries);
            Arc::new(part)
        };
        *self = Self::Parts(all.chunks(PART).map(part).collect(), all.len());
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Whole(all) => all.len(),
            Self::Parts(_, len) => *len,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &u32> {
        let (whole, parts): (&[u32], &[Arc<Part>]) = match self {
            Self::Whole(all) => (all, &[]),
            Self::Parts(parts, _) => (&[], parts),
        };
        whole.iter().chain(parts.iter().flat_map(|part| part.iter())).take(self.len())
    }

    /// All entries of an unshared table.
    ///
    /// # Panics
    /// If the table is shared.
    pub(super) fn whole_mut(&mut self) -> &mut [u32] {
        match self {
            Self::Whole(all) => all,
            Self::Parts(..) => panic!("a shared table has no whole"),
        }
    }

    /// Returns the allocated memory in bytes. Shared parts count in full.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Whole(all) => size_of::<u32>() * all.capacity(),
            Self::Parts(parts, _) => {
                parts.len() * size_of::<Part>() + parts.capacity() * size_of::<Arc<Part>>()
            }
        }
    }
}

impl Index<usize> for Table {
    type Output = u32;

    #[inline]
    fn index(&self, at: usize) -> &u32 {
        match self {
            Self::Whole(all) => &all[at],
            Self::Parts(parts, _) => &parts[at >> PART_LOG2][at % PART],
        }
    }
}

impl IndexMut<usize> for Table {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut u32 {
        match self {
            Self::Whole(all) => &mut all[at],
            Self::Parts(parts, _) => &mut Arc::make_mut(&mut parts[at >> PART_LOG2])[at % PART],
        }
    }
}
