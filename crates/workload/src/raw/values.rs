//! How single values of a workload file are read: sizes, durations, shares, rates, counts and
//! names. Each says what it expects, so that the error at a wrong value tells what to write.

use core::fmt;
use core::marker::PhantomData;

use iodyno_units::{parse_duration_ns, parse_percent, parse_rate_iops, parse_size};
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

use crate::spec::{ActiveRange, Percent};

/// A value that is written as text, as a whole number or as a real one: whichever of the three
/// functions gives `Some` is a way to write it.
pub(super) trait Value: Sized {
    /// Completes "expected …".
    const EXPECTING: &'static str;
    fn from_text<E: Error>(_: &str) -> Option<Result<Self, E>> {
        None
    }
    fn from_whole(_: i64) -> Option<Self> {
        None
    }
    fn from_real(_: f64) -> Option<Self> {
        None
    }
}

struct ValueVisitor<T>(PhantomData<T>);

impl<T: Value> Visitor<'_> for ValueVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTING)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text).unwrap_or_else(|| Err(E::invalid_type(Unexpected::Str(text), &self)))
    }

    fn visit_i64<E: Error>(self, whole: i64) -> Result<T, E> {
        T::from_whole(whole).ok_or_else(|| E::invalid_value(Unexpected::Signed(whole), &self))
    }

    fn visit_u64<E: Error>(self, whole: u64) -> Result<T, E> {
        let known = i64::try_from(whole).ok().and_then(T::from_whole);
        known.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(whole), &self))
    }

    fn visit_f64<E: Error>(self, real: f64) -> Result<T, E> {
        T::from_real(real).ok_or_else(|| E::invalid_type(Unexpected::Float(real), &self))
    }
}

/// A size in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size(pub(crate) u64);

impl Value for Size {
    const EXPECTING: &'static str = "a size, such as `\"4KiB\"` or a whole number of bytes";
    fn from_text<E: Error>(text: &str) -> Option<Result<Self, E>> {
        Some(parse_size(text).map(Self).map_err(E::custom))
    }
    fn from_whole(whole: i64) -> Option<Self> {
        u64::try_from(whole).ok().map(Self)
    }
}

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Duration(pub(crate) u64);

impl Value for Duration {
    const EXPECTING: &'static str = "a duration with its unit, such as `\"10s\"` or `\"100us\"`";
    fn from_text<E: Error>(text: &str) -> Option<Result<Self, E>> {
        Some(parse_duration_ns(text).map(Self).map_err(E::custom))
    }
}

impl Value for Percent {
    const EXPECTING: &'static str = "a share with its sign, such as `\"20%\"`";
    fn from_text<E: Error>(text: &str) -> Option<Result<Self, E>> {
        Some(parse_percent(text).map(Self::from_fraction).map_err(E::custom))
    }
}

/// A rate in operations a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate(pub(crate) f64);

impl Value for Rate {
    const EXPECTING: &'static str = "a rate in operations a second, such as `\"50k/s\"`";
    fn from_text<E: Error>(text: &str) -> Option<Result<Self, E>> {
        Some(parse_rate_iops(text).map(Self).map_err(E::custom))
    }
    fn from_whole(whole: i64) -> Option<Self> {
        Some(Self(whole as f64))
    }
    fn from_real(real: f64) -> Option<Self> {
        Some(Self(real))
    }
}

/// A number of things.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count(pub(crate) u64);

impl Value for Count {
    const EXPECTING: &'static str = "a whole number, 0 or above";
    fn from_whole(whole: i64) -> Option<Self> {
        u64::try_from(whole).ok().map(Self)
    }
}

/// A number, whole or not: shares and exponents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number(pub(crate) f64);

impl Value for Number {
    const EXPECTING: &'static str = "a number";
    fn from_whole(whole: i64) -> Option<Self> {
        Some(Self(whole as f64))
    }
    fn from_real(real: f64) -> Option<Self> {
        Some(Self(real))
    }
}

impl Value for ActiveRange {
    const EXPECTING: &'static str = "a range, such as `\"0%..100%\"` or `\"0..8GiB\"`";
    fn from_text<E: Error>(text: &str) -> Option<Result<Self, E>> {
        Some(text.parse().map_err(E::custom))
    }
}

/// Names that are one of a few, and what each stands for.
macro_rules! names {
    ($(#[$doc:meta])* $type:ident: $expecting:literal { $($name:literal => $variant:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $type { $($variant),+ }

        impl $type {
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl Value for $type {
            const EXPECTING: &'static str = $expecting;
            fn from_text<E: Error>(text: &str) -> Option<Result<Self, E>> {
                Some(match text {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(E::unknown_variant(text, &[$($name),+])),
                })
            }
        }
    };
}

names! {
    /// How addresses are chosen.
    PatternName: "the name of a pattern, such as `\"uniform\"`" {
        "uniform" => Uniform,
        "sequential" => Sequential,
        "zipf" => Zipf,
        "hot-spots" => HotSpots,
        "recently-read" => RecentlyRead,
        "recently-written" => RecentlyWritten,
        "strided" => Strided,
    }
}

names! {
    /// What decides when the next operation starts.
    ArrivalsName: "`\"closed\"` or `\"open\"`" {
        "closed" => Closed,
        "open" => Open,
    }
}

names! {
    /// The gaps between arrivals.
    ProcessName: "`\"poisson\"` or `\"constant\"`" {
        "poisson" => Poisson,
        "constant" => Constant,
    }
}

names! {
    /// What writes carry.
    ContentName: "the name of a kind of content, such as `\"incompressible\"`" {
        "incompressible" => Incompressible,
        "compressible" => Compressible,
        "verifiable" => Verifiable,
        "zeroes" => Zeroes,
    }
}

/// Every value is read through the one visitor.
macro_rules! read_by_visitor {
    ($($type:ty),+) => {
        $(impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(ValueVisitor(PhantomData))
            }
        })+
    };
}

read_by_visitor!(
    Size,
    Duration,
    Percent,
    Rate,
    Count,
    Number,
    ActiveRange,
    PatternName,
    ArrivalsName,
    ProcessName,
    ContentName
);
