//! Placement by logical page, as on an NVMe drive with Flexible Data Placement (FDP) that is divided into namespaces.
//! Each namespace has its own placement handle, reclaim unit handle and write frontier.
//!
//! The terms are those of NVMe TP4146, now part of the NVM Express Base Specification 2.1. The reclaim unit is a
//! superblock. There is one reclaim group.

use std::ops::Range;

/// Index of a reclaim unit handle, from 0. Handles are in the order of their ranges of logical pages.
pub type Handle = u8;

/// Maximum number of reclaim unit handles of a device.
pub const HANDLES_MAX: usize = 128;

/// Division of the logical pages into ranges, each with its own reclaim unit handle. The default is one handle for
/// all pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// End (exclusive) of the range of each handle but the last, in ascending order.
    ends: Box<[u64]>,
    persistent: bool,
}

impl Placement {
    /// Creates the placement of up to [`HANDLES_MAX`] ranges. `ends`: end (exclusive) of each range except the last,
    /// in ascending order. `persistent`: whether handles are persistently isolated, so that copies by garbage
    /// collection keep their handle. Otherwise handles are initially isolated: garbage collection mixes the data of
    /// all handles.
    ///
    /// # Panics
    /// If there are too many ranges, or their ends do not ascend.
    pub fn new(ends: impl Into<Box<[u64]>>, persistent: bool) -> Self {
        let ends = ends.into();
        assert!(ends.len() < HANDLES_MAX && ends.is_sorted(), "{ends:?}");
        // A single handle has nothing to be isolated from.
        Self { persistent: persistent && !ends.is_empty(), ends }
    }

    /// Returns the reclaim unit handle of a logical page.
    #[inline]
    pub fn handle(&self, lpn: u64) -> Handle {
        if self.ends.is_empty() {
            return 0;
        }
        self.ends.partition_point(|&end| end <= lpn) as Handle
    }

    /// Number of reclaim unit handles, at least 1.
    pub fn handles(&self) -> Handle {
        self.ends.len() as Handle + 1
    }

    /// Whether a copy by garbage collection keeps its handle.
    pub fn is_persistent(&self) -> bool {
        self.persistent
    }

    /// Number of write frontiers (open blocks): one per handle for host writes, and for copies one or, if handles are
    /// persistently isolated, one per handle.
    pub fn frontiers(&self) -> u32 {
        let hosts = u32::from(self.handles());
        hosts + if self.persistent { hosts } else { 1 }
    }

    /// Returns the logical pages of a handle, on a device of `pages` pages.
    pub(super) fn range(&self, handle: Handle, pages: u64) -> Range<u64> {
        let at = usize::from(handle);
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before].min(pages));
        start..self.ends.get(at).map_or(pages, |end| (*end).min(pages))
    }

    /// Returns the groups of handles whose data garbage collection may mix.
    pub(super) fn isolated(&self) -> impl Iterator<Item = Range<Handle>> {
        let size = if self.persistent { 1 } else { self.handles() };
        (0..self.handles()).step_by(usize::from(size)).map(move |first| first..first + size)
    }
}
