//! Prefetch hints to the processor. They affect only speed. No-ops on processors for which stable Rust has no
//! prefetch instruction.

/// Size of a cache line in bytes.
const LINE_BYTES: usize = 64;

/// The address of a value, used only for prefetching and never dereferenced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address(usize);

impl Address {
    #[inline(always)]
    pub(crate) fn of<T>(value: &T) -> Self {
        Self(std::ptr::from_ref(value).addr())
    }

    /// Returns the address `lines` cache lines further on.
    pub(crate) fn line(self, lines: usize) -> Self {
        Self(self.0.wrapping_add(lines * LINE_BYTES))
    }

    /// Prefetches the cache line at the address.
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

/// Addresses of the state that most events of a component use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hot {
    /// Three addresses. Two adjoining cache lines are prefetched at each.
    places: [Address; 3],
    /// Address of a flash device's first die; for other kinds of component, one of `places`.
    dies: Address,
}

/// Size of a die's state in memory, in bytes, which is the distance between consecutive dies.
pub(crate) const DIE_BYTES: usize = 32;

impl Hot {
    pub(crate) fn new(places: [Address; 3], dies: Address) -> Self {
        Self { places, dies }
    }

    /// Returns the addresses of the first six cache lines of a value.
    pub(crate) fn first_of<T>(value: &T) -> Self {
        let first = Address::of(value);
        Self::new([first, first.line(2), first.line(4)], first)
    }

    /// Prefetches the state for an event of the component and, on flash, the state of die `die`. Branch-free, because
    /// the processor could not predict a branch on the kind of component.
    #[inline(always)]
    pub(crate) fn prefetch(&self, die: u16) {
        for place in self.places {
            place.prefetch();
            place.line(1).prefetch();
        }
        Address(self.dies.0.wrapping_add(usize::from(die) * DIE_BYTES)).prefetch();
    }
}
