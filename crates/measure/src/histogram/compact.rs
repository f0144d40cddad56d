//! The compact form of a histogram, for storage and transfer: see `docs/formats/notebook.md`. JSON holds it as
//! hexadecimal digits.

use super::{Histogram, VALUE_BITS, bucket};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Largest minimum or maximum that decoding accepts, ns (36 years). Sums of such values fit in 128 bits.
const KEPT_NS_MAX: u64 = 1 << 60;

impl Histogram {
    /// Encodes the histogram in the compact form of `docs/formats/notebook.md`, a list of little-endian base-128
    /// numbers: version (1), count, low and high 64 bits of the sum, minimum, maximum, then for each non-empty
    /// bucket its distance from the previous one and its count.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        put(&mut out, 1);
        put(&mut out, self.count);
        if self.count == 0 {
            return out;
        }
        put(&mut out, self.sum_ns as u64);
        put(&mut out, (self.sum_ns >> 64) as u64);
        put(&mut out, self.min_ns);
        put(&mut out, self.max_ns);
        let mut last = 0;
        for (i, n) in self.in_use() {
            put(&mut out, (i - last) as u64);
            put(&mut out, n);
            last = i;
        }
        out
    }

    /// Decodes the compact form into a trimmed histogram. The error text describes the damage.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let mut h = Self::trimmed();
        h.merge_bytes(bytes)?;
        Ok(h)
    }

    /// Adds the counts of a histogram in compact form. The error text describes the damage; `self` must not be
    /// used after an error.
    pub fn merge_bytes(&mut self, bytes: &[u8]) -> Result<(), String> {
        let next = |rest: &mut &[u8]| take(rest).ok_or_else(|| damage(rest));
        let mut rest = bytes;
        let version = next(&mut rest)?;
        if version != 1 {
            return Err(format!("histogram version {version} is newer than this program"));
        }
        let count = next(&mut rest)?;
        if count == 0 {
            return Ok(());
        }
        let sum_ns = u128::from(next(&mut rest)?) | u128::from(next(&mut rest)?) << 64;
        let (min_ns, max_ns) = (next(&mut rest)?, next(&mut rest)?);
        if min_ns > max_ns {
            return Err("the minimum of a histogram is above its maximum".to_owned());
        }
        if max_ns > KEPT_NS_MAX {
            return Err(format!(
                "a histogram's maximum is {max_ns} ns, above the largest latency that a histogram can hold"
            ));
        }
        let (least, most) = (u128::from(min_ns), u128::from(max_ns));
        let count_wide = u128::from(count);
        if !(least * count_wide..=most * count_wide).contains(&sum_ns) {
            return Err("the sum of a histogram does not match its buckets".to_owned());
        }
        let of = |value_ns: u64| bucket(value_ns.min((1 << VALUE_BITS) - 1));
        self.widen(of(min_ns), of(max_ns) + 1);
        let (mut at, mut total, mut is_first) = (0_usize, 0_u64, true);
        while !rest.is_empty() {
            let Some((distance, n)) = take_bucket(&mut rest) else { return Err(damage(rest)) };
            let distance = distance as usize;
            if distance == 0 && !is_first {
                return Err("a histogram bucket occurs twice".to_owned());
            }
            is_first = false;
            at = at.saturating_add(distance);
            let Some(bucket) = self.counts.get_mut(at.wrapping_sub(self.first)) else {
                return Err("a histogram bucket is out of range".to_owned());
            };
            total = total.checked_add(n).ok_or("histogram counts overflow")?;
            *bucket = bucket.checked_add(n).ok_or("histogram counts overflow")?;
        }
        if total != count {
            return Err(format!(
                "the buckets of a histogram hold {total} values, but its count is {count}"
            ));
        }
        self.count = self.count.checked_add(count).ok_or("histogram counts overflow")?;
        self.sum_ns = self.sum_ns.checked_add(sum_ns).ok_or("histogram sums overflow")?;
        self.min_ns = self.min_ns.min(min_ns);
        self.max_ns = self.max_ns.max(max_ns);
        Ok(())
    }
}

fn put(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Decodes the next base-128 number; None if it is damaged. [`damage`] then gives the reason.
#[inline]
fn take(rest: &mut &[u8]) -> Option<u64> {
    // Fast path: most numbers are small, and a run of an hour has hundreds of millions of them.
    match *rest {
        [byte @ 0..0x80, tail @ ..] => {
            *rest = tail;
            Some(u64::from(*byte))
        }
        [low, high @ 0..0x80, tail @ ..] => {
            *rest = tail;
            Some(u64::from(low & 0x7F) | u64::from(*high) << 7)
        }
        _ => take_long(rest),
    }
}

/// Decodes a bucket's distance from the previous one, and its count; None if either is damaged. Distances nearly always
/// take one byte, but counts take one or two unpredictably, so the length of a count is computed without a branch.
#[inline]
fn take_bucket(rest: &mut &[u8]) -> Option<(u64, u64)> {
    if let &[distance @ 0..0x80, low, high, ..] = *rest
        && low & high & 0x80 == 0
    {
        let two = low >> 7;
        let n = u64::from(low & 0x7F) | u64::from(high * two) << 7;
        *rest = &rest[2 + usize::from(two)..];
        return Some((distance.into(), n));
    }
    Some((take(rest)?, take(rest)?))
}

#[cold]
#[inline(never)]
fn take_long(rest: &mut &[u8]) -> Option<u64> {
    let (mut n, mut left) = (0_u64, *rest);
    for shift in (0..70).step_by(7) {
        let (&byte, tail) = left.split_first()?;
        left = tail;
        if shift == 63 && byte > 1 {
            break;
        }
        n |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            *rest = left;
            return Some(n);
        }
    }
    None
}

/// Describes why `rest` does not begin with a valid base-128 number.
#[cold]
fn damage(rest: &[u8]) -> String {
    let ends = rest.len() < 10 && rest.iter().all(|&byte| byte >= 0x80);
    let why = if ends { "a histogram is cut short" } else { "a number in a histogram is too long" };
    why.to_owned()
}

/// Serializes the compact form as hexadecimal digits.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        use std::fmt::Write as _;
        let mut text = String::new();
        for byte in self.to_bytes() {
            let _ = write!(text, "{byte:02x}");
        }
        s.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let bytes: Option<Vec<u8>> = (0..text.len())
            .step_by(2)
            .map(|i| text.get(i..i + 2).and_then(|hex| u8::from_str_radix(hex, 16).ok()))
            .collect();
        let bytes = bytes.ok_or_else(|| D::Error::custom("a histogram is not hexadecimal"))?;
        Self::from_bytes(&bytes).map_err(D::Error::custom)
    }
}
