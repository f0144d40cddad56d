//! Instruction sets for computing parity, chosen at run time.
//!
//! A `Kernel` is one step over a vector of any width. `Simd::run` applies it with the widest vectors of the processor.
//! The bytes that are left over are processed with 8-byte integers, then one by one.

#![allow(
    clippy::inline_always,
    reason = "inlined so that the caller's target features apply to each step"
)]

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::fmt;
use std::sync::OnceLock;

/// A SIMD instruction set that this processor supports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Simd(Instructions);

/// Instruction sets, in ascending order of speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instructions {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Ssse3,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    GfniAvx2,
    #[cfg(target_arch = "x86_64")]
    GfniAvx512,
}

impl Simd {
    /// Returns the fastest instruction set of this processor. Detects it only once.
    pub fn best() -> Self {
        static BEST: OnceLock<Simd> = OnceLock::new();
        *BEST.get_or_init(|| *Self::available().last().unwrap_or(&Self(Instructions::Plain)))
    }

    /// Returns all instruction sets of this processor, the fastest last.
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut, reason = "mutated on x86-64 only")]
        let mut all = vec![Self(Instructions::Plain)];
        #[cfg(target_arch = "x86_64")]
        {
            let gfni = is_x86_feature_detected!("gfni");
            let detected = [
                (Instructions::Ssse3, is_x86_feature_detected!("ssse3")),
                (Instructions::Avx2, is_x86_feature_detected!("avx2")),
                (Instructions::GfniAvx2, gfni && is_x86_feature_detected!("avx2")),
                (Instructions::GfniAvx512, gfni && is_x86_feature_detected!("avx512f")),
            ];
            all.extend(detected.into_iter().filter(|(_, has)| *has).map(|(kind, _)| Self(kind)));
        }
        all
    }

    /// Applies a kernel to all bytes of its slices.
    pub(crate) fn run(self, mut kernel: impl Kernel) {
        let len = kernel.len();
        // SAFETY: a `Simd` exists only for detected instructions, and every processor has the integer
        // ones.
        unsafe {
            let at = match self.0 {
                Instructions::Plain => 0,
                #[cfg(target_arch = "x86_64")]
                Instructions::Ssse3 => x86::ssse3(&mut kernel, len),
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx2 => x86::avx2(&mut kernel, len),
                #[cfg(target_arch = "x86_64")]
                Instructions::GfniAvx2 => x86::gfni_avx2(&mut kernel, len),
                #[cfg(target_arch = "x86_64")]
                Instructions::GfniAvx512 => x86::gfni_avx512(&mut kernel, len),
            };
            let at = all::<[u64; 8], _>(&mut kernel, at, len);
            all::<u8, _>(&mut kernel, at, len);
        }
    }
}

/// Formats the name of the instruction set: `GfniAvx512`.
impl fmt::Debug for Simd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A SIMD vector of bytes, each an element of GF(2^8).
pub(crate) trait Vector: Copy {
    /// Size of the vector in bytes.
    const BYTES: usize;

    /// Loads a vector from memory.
    ///
    /// # Safety
    /// `BYTES` bytes must be readable at `from`.
    unsafe fn load(from: *const u8) -> Self;

    /// Stores the vector to memory.
    ///
    /// # Safety
    /// `BYTES` bytes must be writable at `to`.
    unsafe fn store(self, to: *mut u8);

    /// Returns the bitwise xor of two vectors.
    ///
    /// # Safety
    /// The processor must have the vector's instructions.
    unsafe fn xor(self, other: Self) -> Self;

    /// Multiplies each byte by 2 in GF(2^8).
    ///
    /// # Safety
    /// The processor must have the vector's instructions.
    unsafe fn double(self) -> Self;

    /// Multiplies each byte by `factor` in GF(2^8).
    ///
    /// # Safety
    /// The processor must have the vector's instructions.
    unsafe fn mul(self, factor: u8) -> Self;
}

/// Several vectors processed together, so that each step reads whole cache lines. Strips often begin at the
/// same page offset, and would otherwise evict each other's lines from the first-level cache.
impl<V: Vector, const N: usize> Vector for [V; N] {
    const BYTES: usize = N * V::BYTES;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the trait's condition, for each of the vectors.
        unsafe {
            let mut all = [V::load(from); N];
            for (at, vector) in all.iter_mut().enumerate().skip(1) {
                *vector = V::load(from.add(at * V::BYTES));
            }
            all
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        for (at, vector) in self.into_iter().enumerate() {
            // SAFETY: the trait's condition, for each of the vectors.
            unsafe { vector.store(to.add(at * V::BYTES)) };
        }
    }

    #[inline(always)]
    unsafe fn xor(mut self, other: Self) -> Self {
        for (vector, other) in self.iter_mut().zip(other) {
            // SAFETY: the processor has the instructions.
            *vector = unsafe { vector.xor(other) };
        }
        self
    }

    #[inline(always)]
    unsafe fn double(mut self) -> Self {
        for vector in &mut self {
            // SAFETY: the processor has the instructions.
            *vector = unsafe { vector.double() };
        }
        self
    }

    #[inline(always)]
    unsafe fn mul(mut self, factor: u8) -> Self {
        for vector in &mut self {
            // SAFETY: the processor has the instructions.
            *vector = unsafe { vector.mul(factor) };
        }
        self
    }
}

/// A computation on slices of equal length, in which each byte depends only on bytes at the same index.
pub(crate) trait Kernel {
    /// Common length of the slices, bytes.
    ///
    /// # Panics
    /// If the lengths differ.
    fn len(&self) -> usize;

    /// Processes one vector at index `at` of the slices.
    ///
    /// # Safety
    /// The processor must have the instructions of `V`, and `at + V::BYTES` must be within `len`.
    unsafe fn step<V: Vector>(&mut self, at: usize);
}

/// Processes whole vectors from index `at` on. Returns the index of the first byte that is left over.
///
/// # Safety
/// The processor must have the instructions of `V`, and the kernel's slices must have length `len`.
#[inline(always)]
unsafe fn all<V: Vector, K: Kernel>(kernel: &mut K, mut at: usize, len: usize) -> usize {
    while len - at >= V::BYTES {
        // SAFETY: as this function's, and the loop's condition.
        unsafe { kernel.step::<V>(at) };
        at += V::BYTES;
    }
    at
}
