//! Parity over bytes: P and Q of a stripe, their update when one strip changes, and the recovery of
//! missing strips.
//!
//! P = D0 + D1 + …, Q = 2^0·D0 + 2^1·D1 + … in GF(2^8) ([`gf`]), as in Linux md. Data strips are
//! numbered by the exponent of 2 in Q, [`Stripe::exponent`](crate::Stripe::exponent).
//! Formulas: H. P. Anvin, "The mathematics of RAID-6". All slices of a call must have equal lengths.

#![allow(
    clippy::inline_always,
    reason = "inlined so that the caller's target features apply to each step"
)]

use crate::gf;
use crate::layout::Role;
use crate::simd::{Kernel, Simd, Vector};
use std::mem::take;

/// Parity computation. All methods panic if the slices' lengths differ.
impl Simd {
    /// Computes `to ^= from` for each byte, which is addition in GF(2^8).
    pub fn xor_into(self, to: &mut [u8], from: &[u8]) {
        self.run(MulAdd { to, from, factor: 1 });
    }

    /// Multiplies each byte of `from` by `factor` and adds the product to `to`, in GF(2^8).
    pub fn mul_into(self, to: &mut [u8], from: &[u8], factor: u8) {
        self.run(MulAdd { to, from, factor });
    }

    /// Computes the parity P of a stripe's data strips.
    pub fn p(self, data: &[&[u8]], p: &mut [u8]) {
        self.run(Syndrome { data, p: Some(p), q: None });
    }

    /// Computes the parities P and Q of a stripe's data strips.
    pub fn p_and_q(self, data: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
        self.run(Syndrome { data, p: Some(p), q: Some(q) });
    }

    /// Updates P and Q (each optional) after one data strip has changed from `old` to `new` (read-modify-write).
    /// `exponent` is the exponent of the strip in Q ([`Stripe::exponent`](crate::Stripe::exponent)).
    pub fn update(
        self,
        p: Option<&mut [u8]>,
        q: Option<&mut [u8]>,
        old: &[u8],
        new: &[u8],
        exponent: usize,
    ) {
        self.run(Update { p, q, old, new, factor: gf::power_of_2(exponent) });
    }

    /// Recovers the missing strips of a stripe in place: up to one missing strip with P alone, up to two with P and Q.
    /// The previous content of the missing strips' slices is ignored. `q` is `None` for RAID 5.
    ///
    /// # Panics
    /// If more strips are missing than there are parity strips, or a strip in `missing` does not exist.
    pub fn recover(
        self,
        data: &mut [&mut [u8]],
        p: &mut [u8],
        q: Option<&mut [u8]>,
        missing: &[Role],
    ) {
        let parities = 1 + usize::from(q.is_some());
        assert!(
            missing.len() <= parities,
            "{missing:?} can't be recovered from {parities} parity strips"
        );
        let is_missing = |role| missing.contains(&role);
        let mut strips = missing.iter().filter_map(|role| match role {
            Role::Data(strip) => Some(usize::from(*strip)),
            _ => None,
        });
        match (strips.next(), strips.next(), q.as_deref()) {
            (Some(x), Some(y), Some(q)) => self.recover_two(data, p, q, x.min(y), x.max(y)),
            (Some(x), _, Some(q)) if is_missing(Role::P) => {
                let to = take(&mut data[x]);
                to.copy_from_slice(q);
                self.add_all(data, to, gf::power_of_2);
                self.run(Scale { bytes: to, factor: gf::inverse(gf::power_of_2(x)) });
                data[x] = to;
            }
            (Some(x), ..) => {
                let to = take(&mut data[x]);
                to.copy_from_slice(p);
                self.add_all(data, to, |_| 1);
                data[x] = to;
            }
            _ => {}
        }
        if is_missing(Role::P) {
            p.fill(0);
            self.add_all(data, p, |_| 1);
        }
        if is_missing(Role::Q) {
            let q = q.expect("to recover Q, its buffer must be given");
            q.fill(0);
            self.add_all(data, q, gf::power_of_2);
        }
    }

    /// Recovers the data strips x and y, where x < y. Solves Pxy = Dx + Dy and Qxy = 2^x·Dx + 2^y·Dy, where Pxy
    /// and Qxy are P and Q minus the terms of all other strips.
    fn recover_two(self, data: &mut [&mut [u8]], p: &[u8], q: &[u8], x: usize, y: usize) {
        let (to_x, to_y) = (take(&mut data[x]), take(&mut data[y]));
        to_y.copy_from_slice(p);
        self.add_all(data, to_y, |_| 1);
        to_x.copy_from_slice(q);
        self.add_all(data, to_x, gf::power_of_2);
        // Dx = (2^(y-x)·Pxy + 2^-x·Qxy) / (2^(y-x) + 1)
        let apart = gf::power_of_2(y - x);
        let inverse = gf::inverse(apart ^ 1);
        let factor = gf::mul(gf::inverse(gf::power_of_2(x)), inverse);
        self.run(Scale { bytes: to_x, factor });
        self.mul_into(to_x, to_y, gf::mul(apart, inverse));
        self.xor_into(to_y, to_x);
        (data[x], data[y]) = (to_x, to_y);
    }

    /// Adds every data strip, multiplied by its factor, to `to`; empty slices stand for the strips to recover
    /// and are skipped. Also serves as subtraction, which equals addition in GF(2^8).
    fn add_all(self, data: &[&mut [u8]], to: &mut [u8], factor: impl Fn(usize) -> u8) {
        for (strip, from) in data.iter().enumerate().filter(|(_, from)| !from.is_empty()) {
            self.mul_into(to, from, factor(strip));
        }
    }
}

/// Kernel that computes `to += factor · from`.
struct MulAdd<'a> {
    to: &'a mut [u8],
    from: &'a [u8],
    factor: u8,
}

impl Kernel for MulAdd<'_> {
    fn len(&self) -> usize {
        assert_eq!(self.to.len(), self.from.len());
        self.to.len()
    }

    #[inline(always)]
    unsafe fn step<V: Vector>(&mut self, at: usize) {
        // SAFETY: the trait's condition.
        unsafe {
            let (to, from) = (self.to.as_mut_ptr().add(at), V::load(self.from.as_ptr().add(at)));
            let product = if self.factor == 1 { from } else { from.mul(self.factor) };
            V::load(to).xor(product).store(to);
        }
    }
}

/// Kernel that computes `bytes = factor · bytes`.
struct Scale<'a> {
    bytes: &'a mut [u8],
    factor: u8,
}

impl Kernel for Scale<'_> {
    fn len(&self) -> usize {
        self.bytes.len()
    }

    #[inline(always)]
    unsafe fn step<V: Vector>(&mut self, at: usize) {
        // SAFETY: the trait's condition.
        unsafe {
            let bytes = self.bytes.as_mut_ptr().add(at);
            V::load(bytes).mul(self.factor).store(bytes);
        }
    }
}

/// Kernel that computes P and Q of all data strips. Q uses Horner's scheme, from the last strip to the
/// first.
struct Syndrome<'a> {
    data: &'a [&'a [u8]],
    p: Option<&'a mut [u8]>,
    q: Option<&'a mut [u8]>,
}

impl Kernel for Syndrome<'_> {
    fn len(&self) -> usize {
        let parity = || self.p.iter().chain(&self.q);
        let len = parity().next().map_or(0, |parity| parity.len());
        assert!(!self.data.is_empty());
        assert!(self.data.iter().all(|data| data.len() == len));
        assert!(parity().all(|parity| parity.len() == len));
        len
    }

    #[inline(always)]
    unsafe fn step<V: Vector>(&mut self, at: usize) {
        // SAFETY: the trait's condition; all slices have the kernel's length.
        unsafe {
            let load = |strip: usize| V::load(self.data[strip].as_ptr().add(at));
            let last = load(self.data.len() - 1);
            let (mut p, mut q) = (last, last);
            for strip in (0..self.data.len() - 1).rev() {
                let data = load(strip);
                p = p.xor(data);
                q = q.double().xor(data);
            }
            if let Some(to) = &mut self.p {
                p.store(to.as_mut_ptr().add(at));
            }
            if let Some(to) = &mut self.q {
                q.store(to.as_mut_ptr().add(at));
            }
        }
    }
}

/// Kernel that computes `p += new - old` and `q += factor · (new - old)`.
struct Update<'a> {
    p: Option<&'a mut [u8]>,
    q: Option<&'a mut [u8]>,
    old: &'a [u8],
    new: &'a [u8],
    factor: u8,
}

impl Kernel for Update<'_> {
    fn len(&self) -> usize {
        let len = self.old.len();
        assert_eq!(self.new.len(), len);
        assert!(self.p.iter().chain(&self.q).all(|parity| parity.len() == len));
        len
    }

    #[inline(always)]
    unsafe fn step<V: Vector>(&mut self, at: usize) {
        // SAFETY: the trait's condition; all slices have the kernel's length.
        unsafe {
            let new = V::load(self.new.as_ptr().add(at));
            let changed = V::load(self.old.as_ptr().add(at)).xor(new);
            if let Some(p) = &mut self.p {
                let p = p.as_mut_ptr().add(at);
                V::load(p).xor(changed).store(p);
            }
            if let Some(q) = &mut self.q {
                let q = q.as_mut_ptr().add(at);
                V::load(q).xor(changed.mul(self.factor)).store(q);
            }
        }
    }
}
