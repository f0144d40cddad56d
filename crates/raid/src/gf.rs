//! GF(2^8) as RAID 6 uses it: polynomials over GF(2) modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11d). The element 2 is a
//! generator: its powers are all elements except 0.
//!
//! Source: H. P. Anvin, "The mathematics of RAID-6", 2004 to 2011. Linux's `lib/raid6` uses the same
//! field. Addition is xor.

/// The reduction polynomial of GF(2^8), 0x11d, without its highest term.
pub const POLYNOMIAL: u8 = 0x1d;

/// Returns `x` times 2 in GF(2^8).
pub const fn double(x: u8) -> u8 {
    x << 1 ^ if x & 0x80 == 0 { 0 } else { POLYNOMIAL }
}

/// Returns the product of two elements of GF(2^8).
pub const fn mul(x: u8, y: u8) -> u8 {
    let (mut product, mut x, mut y) = (0, x, y);
    while y != 0 {
        if y & 1 == 1 {
            product ^= x;
        }
        x = double(x);
        y >>= 1;
    }
    product
}

/// Returns 2 to the power `exponent` in GF(2^8). The powers repeat with period 255.
pub const fn power_of_2(exponent: usize) -> u8 {
    let (mut power, mut left) = (1, exponent % 255);
    while left > 0 {
        power = double(power);
        left -= 1;
    }
    power
}

/// The multiplicative inverse of `x`, computed as `x` to the 254th power.
///
/// # Panics
/// If `x` is 0.
pub const fn inverse(x: u8) -> u8 {
    assert!(x != 0, "0 has no inverse");
    // 254 = 2 + 4 + … + 128
    let (mut inverse, mut power, mut times) = (1, x, 0);
    while times < 7 {
        power = mul(power, power);
        inverse = mul(inverse, power);
        times += 1;
    }
    inverse
}

/// For each factor, its products with 0 to 15, then with 0, 16, … 240. The product with a byte is the sum
/// of the products with its two halves (Anvin, "Implementation on specific architectures").
pub(crate) static PRODUCTS: [[u8; 32]; 256] = {
    let mut all = [[0; 32]; 256];
    let mut at = 0;
    while at < 256 * 32 {
        let (factor, half) = (at / 32, at % 32);
        let other = if half < 16 { half } else { (half - 16) << 4 };
        all[factor][half] = mul(factor as u8, other as u8);
        at += 1;
    }
    all
};

/// For each factor, multiplication by it as a bit matrix for `gf2p8affineqb`. Byte 7 - n of the matrix is
/// the row for bit n of the result. (`gf2p8mulb` uses another polynomial, 0x11b.)
#[cfg(target_arch = "x86_64")]
pub(crate) static MATRICES: [u64; 256] = {
    let mut all = [0; 256];
    let mut at = 0;
    while at < 256 * 64 {
        let (factor, row, column) = (at / 64, at / 8 % 8, at % 8);
        let product = mul(factor as u8, 1 << column);
        all[factor] |= ((product >> row & 1) as u64) << ((7 - row) * 8 + column);
        at += 1;
    }
    all
};
