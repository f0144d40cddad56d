//! Vectors of x86-64 with 16, 32 and 64 bytes. Products are looked up in two 16-byte tables by `pshufb`, or computed
//! from a bit matrix by GFNI's `gf2p8affineqb`.

#![allow(
    clippy::inline_always,
    reason = "inlined so that the target features of the four entries apply"
)]

use super::{Kernel, Vector, all};
use crate::gf::{MATRICES, POLYNOMIAL, PRODUCTS};
#[allow(clippy::wildcard_imports, reason = "31 instructions")]
use std::arch::x86_64::*;

/// Defines a vector type and the function that applies a kernel with it.
macro_rules! vector {
    (
        $name:ident($vector:ty) by $count:literal, $run:ident with $features:literal,
        $load:ident, $store:ident, $xor:ident,
        |$doubled:ident| $double:expr, |$times:ident, $factor:ident| $mul:expr
    ) => {
        #[derive(Clone, Copy)]
        struct $name($vector);

        impl Vector for $name {
            const BYTES: usize = size_of::<$vector>();

            #[inline(always)]
            unsafe fn load(from: *const u8) -> Self {
                // SAFETY: the trait's condition; the load may be unaligned.
                Self(unsafe { $load(from.cast()) })
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut u8) {
                // SAFETY: the trait's condition; the store may be unaligned.
                unsafe { $store(to.cast(), self.0) }
            }

            #[inline(always)]
            unsafe fn xor(self, other: Self) -> Self {
                // SAFETY: the processor has the instruction.
                Self(unsafe { $xor(self.0, other.0) })
            }

            #[inline(always)]
            unsafe fn double(self) -> Self {
                let $doubled = self.0;
                // SAFETY: the processor has the instructions.
                Self(unsafe { $double })
            }

            #[inline(always)]
            unsafe fn mul(self, factor: u8) -> Self {
                let ($times, $factor) = (self.0, usize::from(factor));
                // SAFETY: the processor has the instructions; each half of a row of `PRODUCTS` has
                // the 16 bytes that are loaded.
                Self(unsafe { $mul })
            }
        }

        /// Applies a kernel to whole vectors. Returns the index of the first byte that is left over.
        ///
        /// # Safety
        /// The processor must have the features in `target_feature`, and the kernel's slices must have length `len`.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $run<K: Kernel>(kernel: &mut K, len: usize) -> usize {
            // SAFETY: as this function's.
            unsafe { all::<[$name; $count], K>(kernel, 0, len) }
        }
    };
}

vector!(
    Ssse3(__m128i) by 4, ssse3 with "ssse3",
    _mm_loadu_si128, _mm_storeu_si128, _mm_xor_si128,
    |x| {
        let overflows = _mm_cmpgt_epi8(_mm_setzero_si128(), x);
        let carried = _mm_and_si128(overflows, _mm_set1_epi8(POLYNOMIAL as i8));
        _mm_xor_si128(_mm_add_epi8(x, x), carried)
    },
    |x, factor| {
        let row = PRODUCTS[factor].as_ptr();
        let (low, high) = (_mm_loadu_si128(row.cast()), _mm_loadu_si128(row.add(16).cast()));
        let mask = _mm_set1_epi8(15);
        let upper = _mm_and_si128(_mm_srli_epi64::<4>(x), mask);
        let lower = _mm_and_si128(x, mask);
        _mm_xor_si128(_mm_shuffle_epi8(low, lower), _mm_shuffle_epi8(high, upper))
    }
);

vector!(
    Avx2(__m256i) by 2, avx2 with "avx2",
    _mm256_loadu_si256, _mm256_storeu_si256, _mm256_xor_si256,
    |x| {
        let overflows = _mm256_cmpgt_epi8(_mm256_setzero_si256(), x);
        let carried = _mm256_and_si256(overflows, _mm256_set1_epi8(POLYNOMIAL as i8));
        _mm256_xor_si256(_mm256_add_epi8(x, x), carried)
    },
    |x, factor| {
        let row = PRODUCTS[factor].as_ptr();
        let low = _mm256_broadcastsi128_si256(_mm_loadu_si128(row.cast()));
        let high = _mm256_broadcastsi128_si256(_mm_loadu_si128(row.add(16).cast()));
        let mask = _mm256_set1_epi8(15);
        let upper = _mm256_and_si256(_mm256_srli_epi64::<4>(x), mask);
        let lower = _mm256_and_si256(x, mask);
        _mm256_xor_si256(_mm256_shuffle_epi8(low, lower), _mm256_shuffle_epi8(high, upper))
    }
);

vector!(
    GfniAvx2(__m256i) by 2, gfni_avx2 with "gfni,avx2",
    _mm256_loadu_si256, _mm256_storeu_si256, _mm256_xor_si256,
    |x| _mm256_gf2p8affine_epi64_epi8::<0>(x, _mm256_set1_epi64x(MATRICES[2].cast_signed())),
    |x, factor| {
        let matrix = _mm256_set1_epi64x(MATRICES[factor].cast_signed());
        _mm256_gf2p8affine_epi64_epi8::<0>(x, matrix)
    }
);

vector!(
    GfniAvx512(__m512i) by 2, gfni_avx512 with "gfni,avx512f",
    _mm512_loadu_si512, _mm512_storeu_si512, _mm512_xor_si512,
    |x| _mm512_gf2p8affine_epi64_epi8::<0>(x, _mm512_set1_epi64(MATRICES[2].cast_signed())),
    |x, factor| {
        let matrix = _mm512_set1_epi64(MATRICES[factor].cast_signed());
        _mm512_gf2p8affine_epi64_epi8::<0>(x, matrix)
    }
);
