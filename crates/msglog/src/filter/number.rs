//! Numbers of filters and of JSON. Comparison is exact: large integers differ even if their floats are equal.

use core::cmp::Ordering;
use core::fmt;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Whole(i128),
    /// A finite floating-point number.
    Real(f64),
}

impl Number {
    /// Parses a text as a number in JSON's notation; also accepts a plus sign, leading zeroes, and a decimal
    /// point at either end. `None` for other text, and for numbers beyond the range of an f64.
    pub(super) fn of_text(text: &str) -> Option<Self> {
        if let Ok(whole) = text.parse() {
            return Some(Self::Whole(whole));
        }
        let is_of_number =
            |c: u8| c.is_ascii_digit() || matches!(c, b'+' | b'-' | b'.' | b'e' | b'E');
        if !text.bytes().all(is_of_number) {
            return None;
        }
        text.parse().ok().filter(|real: &f64| real.is_finite()).map(Self::Real)
    }

    pub(super) fn of_json(number: &serde_json::Number) -> Option<Self> {
        let whole = number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
        let real = || number.as_f64().filter(|real| real.is_finite()).map(Self::Real);
        whole.map(Self::Whole).or_else(real)
    }

    /// Compares two numbers exactly, even an integer with a floating-point number.
    pub(super) fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => a.cmp(&b),
            (Self::Real(a), Self::Real(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            (Self::Whole(a), Self::Real(b)) => compare_exactly(a, b),
            (Self::Real(a), Self::Whole(b)) => compare_exactly(b, a).reverse(),
        }
    }
}

fn compare_exactly(whole: i128, real: f64) -> Ordering {
    /// 2^127, the smallest f64 that exceeds every i128.
    const ABOVE: f64 = 1.701_411_834_604_692_3e38;
    if real >= ABOVE {
        return Ordering::Less;
    }
    if real < -ABOVE {
        return Ordering::Greater;
    }
    let of_fractions = || 0.0.partial_cmp(&real.fract()).unwrap_or(Ordering::Equal);
    whole.cmp(&(real.trunc() as i128)).then_with(of_fractions)
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(whole) => whole.fmt(f),
            // With a point or an exponent, so that it is parsed as a real number again.
            Self::Real(real) => write!(f, "{real:?}"),
        }
    }
}
