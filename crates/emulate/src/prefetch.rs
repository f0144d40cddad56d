//! Hints to the processor that memory is needed soon. They change the time that is taken, and nothing else; on a
//! processor without a stable instruction for it they do nothing.

/// Bytes of a line of memory.
const LINE_BYTES: usize = 64;

/// The address of a value, for a hint only: nothing is read from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address(usize);

impl Address {
    #[inline(always)]
    pub(crate) fn of<T>(value: &T) -> Self {
        Self(std::ptr::from_ref(value).addr())
    }

    /// So many lines behind it.
    pub(crate) fn line(self, lines: usize) -> Self {
        Self(self.0.wrapping_add(lines * LINE_BYTES))
    }

    /// The line there is needed soon.
    #[inline(always)]
    pub(crate) fn prefetch(self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: every x86-64 has the instruction, which neither reads nor faults, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(self.0)) };
        }
    }
}

/// Where most events of a part find what they need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hot {
    /// Two lines at each.
    places: [Address; 3],
    /// Of a flash device the first die.
    dies: Address,
}

/// Bytes from one die to the next.
pub(crate) const DIE_BYTES: usize = 32;

impl Hot {
    pub(crate) fn new(places: [Address; 3], dies: Address) -> Self {
        Self { places, dies }
    }

    /// The first lines of a value.
    pub(crate) fn first_of<T>(value: &T) -> Self {
        let first = Address::of(value);
        Self::new([first, first.line(2), first.line(4)], first)
    }

    /// An event of the part is next, of this die if it is of one. Without a branch: the part is not known in time for
    /// the processor to take the right one.
    #[inline(always)]
    pub(crate) fn prefetch(&self, die: u16) {
        for place in self.places {
            place.prefetch();
            place.line(1).prefetch();
        }
        Address(self.dies.0.wrapping_add(usize::from(die) * DIE_BYTES)).prefetch();
    }
}
