//! Portable implementation of [`Vector`] without SIMD instructions, for a single byte (`u8`) and for eight bytes
//! (`u64`).

#![allow(clippy::inline_always, reason = "a step is a few instructions")]

use super::Vector;
use crate::gf::{POLYNOMIAL, PRODUCTS, double};

impl Vector for u8 {
    const BYTES: usize = 1;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the trait's condition.
        unsafe { *from }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the trait's condition.
        unsafe { *to = self }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        self ^ other
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        double(self)
    }

    #[inline(always)]
    unsafe fn mul(self, factor: u8) -> Self {
        let products = &PRODUCTS[usize::from(factor)];
        products[usize::from(self & 15)] ^ products[16 + usize::from(self >> 4)]
    }
}

impl Vector for u64 {
    const BYTES: usize = 8;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the trait's condition; the read may be unaligned.
        unsafe { from.cast::<Self>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the trait's condition; the write may be unaligned.
        unsafe { to.cast::<Self>().write_unaligned(self) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        self ^ other
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        const LOWEST: u64 = u64::MAX / 0xff;
        // Without a multiplication, so that the compiler can vectorise it.
        let overflows = (self >> 7) & LOWEST;
        let overflows = (overflows << 8).wrapping_sub(overflows);
        ((self & (LOWEST * 0x7f)) << 1) ^ (overflows & (LOWEST * POLYNOMIAL as u64))
    }

    /// Multiplies each byte by `factor` in GF(2^8), by Horner's scheme over the factor's bits.
    #[inline(always)]
    unsafe fn mul(self, factor: u8) -> Self {
        let bits = u8::BITS - factor.leading_zeros();
        (0..bits).rev().fold(0, |product: u64, bit| {
            // SAFETY: every processor has the instructions of integers.
            let product = unsafe { product.double() };
            product ^ if factor >> bit & 1 == 1 { self } else { 0 }
        })
    }
}
