//! Parity compared with a slow multiplication of polynomials, for every instruction set of this
//! processor.

use iodyno_raid::{Role, Simd, gf};
use proptest::prelude::*;

/// Product of two polynomials over GF(2) modulo 0x11d, by long division.
fn product(x: u8, y: u8) -> u8 {
    let mut all: u16 =
        (0..8).filter(|bit| y >> bit & 1 == 1).fold(0, |sum, bit| sum ^ u16::from(x) << bit);
    for degree in (8..16).rev() {
        if all >> degree & 1 == 1 {
            all ^= 0x11d << (degree - 8);
        }
    }
    all as u8
}

/// Computes P and Q by their definition, byte by byte.
fn defined(data: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>) {
    let mut sums = (vec![0; data[0].len()], vec![0; data[0].len()]);
    let mut factor = 1;
    for strip in data {
        for (at, &byte) in strip.iter().enumerate() {
            sums.0[at] ^= byte;
            sums.1[at] ^= product(factor, byte);
        }
        factor = product(factor, 2);
    }
    sums
}

/// Pseudo-random bytes.
fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| byte()).collect()
}

#[test]
fn products_are_those_of_polynomials() {
    for x in 0..=255 {
        assert_eq!(gf::double(x), product(x, 2));
        assert!(x == 0 || product(x, gf::inverse(x)) == 1);
        for y in (0..=255).step_by(if cfg!(miri) { 51 } else { 1 }) {
            assert_eq!(gf::mul(x, y), product(x, y), "{x} × {y}");
        }
    }
    // 2 generates every element but 0.
    let mut powers: Vec<u8> = (0..255).map(gf::power_of_2).collect();
    assert_eq!(powers[..9], [1, 2, 4, 8, 16, 32, 64, 128, 0x1d]);
    powers.sort_unstable();
    assert!(powers.into_iter().eq(1..=255));
    let all: Vec<u8> = (0..=255).collect();
    for simd in Simd::available() {
        for factor in (0..=255).step_by(if cfg!(miri) { 51 } else { 1 }) {
            let (mut sum, zero) = (vec![0; 256], vec![0; 256]);
            simd.mul_into(&mut sum, &all, factor);
            let expected: Vec<u8> = all.iter().map(|&x| product(x, factor)).collect();
            assert_eq!(sum, expected, "{simd:?}, times {factor}");
            simd.mul_into(&mut sum, &zero, factor);
            assert_eq!(sum, expected);
        }
    }
}

/// A computation of P and Q. `other` is another content of strip 3.
type Step = fn(Simd, data: &[&[u8]], other: &[u8], p: &mut [u8], q: &mut [u8]);

/// Computations that each continue from the P and Q of the previous one, and whether P and Q then belong to the other
/// content of strip 3.
const STEPS: [(&str, Step, [bool; 2]); 6] = [
    ("P and Q", |simd, data, _, p, q| simd.p_and_q(data, p, q), [false, false]),
    (
        "update",
        |simd, data, other, p, q| simd.update(Some(p), Some(q), data[3], other, 3),
        [true, true],
    ),
    ("P", |simd, data, _, p, _| simd.p(data, p), [false, true]),
    (
        "update of Q",
        |simd, data, other, _, q| simd.update(None, Some(q), other, data[3], 3),
        [false; 2],
    ),
    (
        "update of P",
        |simd, data, other, p, _| simd.update(Some(p), None, data[3], other, 3),
        [true, false],
    ),
    (
        "xor",
        |simd, data, other, p, _| {
            simd.xor_into(p, other);
            simd.xor_into(p, data[3]);
        },
        [false, false],
    ),
];

/// Every length up to 300 from every start within a vector; no byte beyond may change.
#[test]
fn every_instruction_set_gives_the_same_at_every_length_and_start() {
    println!("{:?}", Simd::available());
    // Miri is some hundred times slower.
    for len in (0..=300).step_by(if cfg!(miri) { 23 } else { 1 }) {
        let start = len * 7 % 67;
        let (at, whole) = (start..start + len, start + len + 3);
        let mut strips: Vec<_> = (0..6).map(|n| bytes(whole, n + len as u64)).collect();
        let of = |strips: &[Vec<u8>]| {
            defined(&strips.iter().map(|strip| strip[at.clone()].to_vec()).collect::<Vec<_>>())
        };
        let before = of(&strips);
        let other = std::mem::replace(&mut strips[3], bytes(whole, 99));
        let after = of(&strips);
        let other = std::mem::replace(&mut strips[3], other);
        let data: Vec<&[u8]> = strips.iter().map(|strip| &strip[at.clone()]).collect();
        for simd in Simd::available() {
            // What surrounds the parity must stay.
            let (mut p, mut q) = (vec![0xAA; whole], vec![0x55; whole]);
            for (what, step, [p_after, q_after]) in STEPS {
                step(simd, &data, &other[at.clone()], &mut p[at.clone()], &mut q[at.clone()]);
                let (mut expected_p, mut expected_q) = (vec![0xAA; whole], vec![0x55; whole]);
                expected_p[at.clone()].copy_from_slice(if p_after { &after.0 } else { &before.0 });
                expected_q[at.clone()].copy_from_slice(if q_after { &after.1 } else { &before.1 });
                assert!((&p, &q) == (&expected_p, &expected_q), "{what}, {simd:?}, {len} bytes");
            }
        }
    }
}

/// Overwrites the missing strips, recovers them, and compares.
fn recovers(simd: Simd, whole: &[Vec<u8>], missing: &[Role], with_q: bool) {
    let (p, q) = defined(whole);
    let (mut data, mut new_p, mut new_q) = (whole.to_vec(), p.clone(), q.clone());
    for role in missing {
        match role {
            Role::Data(strip) => data[usize::from(*strip)].fill(0xEE),
            Role::P => new_p.fill(0xEE),
            Role::Q => new_q.fill(0xEE),
        }
    }
    let mut strips: Vec<&mut [u8]> = data.iter_mut().map(Vec::as_mut_slice).collect();
    simd.recover(&mut strips, &mut new_p, with_q.then_some(&mut new_q), missing);
    assert_eq!((&data[..], new_p, new_q), (whole, p, q), "{simd:?} without {missing:?}");
}

#[test]
fn any_two_strips_of_any_stripe_are_recovered() {
    for simd in Simd::available() {
        for &strips in if cfg!(miri) { &[1, 3][..] } else { &[1, 2, 3, 4, 7, 16, 62] } {
            let whole: Vec<Vec<u8>> = (0..strips).map(|n| bytes(131, n)).collect();
            let roles = (0..strips as u8).map(Role::Data).chain([Role::P, Role::Q]);
            let roles: Vec<Role> = roles.collect();
            recovers(simd, &whole, &[], true);
            for (at, &role) in roles.iter().enumerate() {
                recovers(simd, &whole, &[role], true);
                if role != Role::Q {
                    recovers(simd, &whole, &[role], false);
                }
                for &other in &roles[at + 1..] {
                    recovers(simd, &whole, &[role, other], true);
                    recovers(simd, &whole, &[other, role], true);
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "can't be recovered from 2 parity strips")]
fn three_missing_strips_are_refused() {
    let mut data = [[1_u8; 8], [2; 8], [3; 8]];
    let mut strips: Vec<&mut [u8]> = data.iter_mut().map(|strip| &mut strip[..]).collect();
    let missing = [Role::Data(0), Role::Data(1), Role::Data(2)];
    Simd::best().recover(&mut strips, &mut [0; 8], Some(&mut [0; 8]), &missing);
}

#[test]
#[should_panic(expected = "left == right")]
fn slices_of_different_lengths_are_refused() {
    Simd::best().xor_into(&mut [0; 64], &[0; 63]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any sequence of updates gives P and Q of the final data.
    #[test]
    fn updates_add_up(
        strips in 1..17_usize,
        len in 0..200_usize,
        updates in prop::collection::vec((0..16_usize, any::<u64>()), 0..20),
    ) {
        let simd = Simd::best();
        let mut data: Vec<Vec<u8>> = (0..strips).map(|n| bytes(len, n as u64)).collect();
        let (mut p, mut q) = defined(&data);
        for (strip, seed) in updates {
            let (strip, new) = (strip % strips, bytes(len, seed));
            simd.update(Some(&mut p), Some(&mut q), &data[strip], &new, strip);
            data[strip] = new;
        }
        prop_assert_eq!((p, q), defined(&data));
    }
}
