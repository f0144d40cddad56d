//! A workload file as it is written: every key that there is, each with the place where it stands,
//! and nothing decided yet. [`Spec::from_raw`](crate::Spec::from_raw) decides.
//!
//! No key is flattened or guessed from untagged alternatives: such tricks lose the place of an
//! error. A table whose keys depend on its `kind` or `pattern` has all of them here.

mod values;

use core::fmt;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_spanned::Spanned;

use crate::spec::{ActiveRange, Percent};
pub(crate) use values::{
    ArrivalsName, ContentName, Count, Duration, Number, PatternName, ProcessName, Rate, Size,
};

/// A value and where it stands, if it was given.
pub(crate) type Given<T> = Option<Spanned<T>>;

/// A workload file as it is written. Made by serde (from TOML); its parts are not for callers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawSpec {
    pub(crate) schema: Given<Count>,
    pub(crate) about: Given<String>,
    pub(crate) source: Given<String>,
    pub(crate) group: Given<Vec<Spanned<String>>>,
    pub(crate) threads: Given<Count>,
    pub(crate) depth: Given<Count>,
    pub(crate) block: Given<RawBlocks>,
    pub(crate) align: Given<Size>,
    pub(crate) active: Given<ActiveRange>,
    pub(crate) mix: Given<RawMix>,
    pub(crate) all: Given<RawAll>,
    pub(crate) read: Given<RawKind>,
    pub(crate) write: Given<RawWrite>,
    pub(crate) trim: Given<RawKind>,
    pub(crate) write_zeroes: Given<RawKind>,
    pub(crate) arrivals: Given<RawArrivals>,
    pub(crate) content: Given<RawContent>,
    pub(crate) limits: Given<RawLimits>,
}

/// `[mix]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table of shares, such as `{ read = 70, write = 30 }`")]
pub(crate) struct RawMix {
    pub(crate) read: Given<Number>,
    pub(crate) write: Given<Number>,
    pub(crate) flush: Given<Number>,
    pub(crate) trim: Given<Number>,
    pub(crate) write_zeroes: Given<Number>,
}

/// `[all]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as `{ addresses = \"uniform\" }`")]
pub(crate) struct RawAll {
    pub(crate) addresses: Given<RawAddresses>,
}

/// `[read]`, `[trim]` or `[write_zeroes]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as `{ addresses = \"uniform\" }`")]
pub(crate) struct RawKind {
    pub(crate) block: Given<RawBlocks>,
    pub(crate) addresses: Given<RawAddresses>,
}

/// `[write]`.
#[derive(Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table such as `{ addresses = \"uniform\", fua = \"10%\" }`"
)]
pub(crate) struct RawWrite {
    pub(crate) block: Given<RawBlocks>,
    pub(crate) addresses: Given<RawAddresses>,
    pub(crate) fua: Given<Percent>,
    pub(crate) flush_every: Given<Count>,
}

/// `[arrivals]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as `{ kind = \"open\", rate = \"50k/s\" }`")]
pub(crate) struct RawArrivals {
    pub(crate) kind: Spanned<ArrivalsName>,
    pub(crate) think_time: Given<Duration>,
    pub(crate) think_drains: Given<bool>,
    pub(crate) rate: Given<Rate>,
    pub(crate) process: Given<ProcessName>,
}

/// `[content]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as `{ kind = \"verifiable\" }`")]
pub(crate) struct RawContent {
    pub(crate) kind: Spanned<ContentName>,
    pub(crate) compressible: Given<Percent>,
    pub(crate) dedupable: Given<Percent>,
}

/// `[limits]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as `{ time = \"10s\" }`")]
pub(crate) struct RawLimits {
    pub(crate) time: Given<Duration>,
    pub(crate) ops: Given<Count>,
    pub(crate) bytes: Given<Size>,
    pub(crate) ramp: Given<Duration>,
}

/// One size of a distribution.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as `{ size = \"4KiB\", share = 60 }`")]
pub(crate) struct RawBlock {
    pub(crate) size: Spanned<Size>,
    pub(crate) share: Spanned<Number>,
}

/// `block`: one size, or a distribution.
#[derive(Debug)]
pub(crate) enum RawBlocks {
    One(Size),
    Many(Vec<RawBlock>),
}

/// One pattern of addresses, with the keys of every pattern.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as `{ pattern = \"uniform\", share = 50 }`")]
pub(crate) struct RawAddress {
    pub(crate) pattern: Spanned<PatternName>,
    pub(crate) share: Given<Number>,
    pub(crate) once_per_pass: Given<bool>,
    pub(crate) shared: Given<bool>,
    pub(crate) run: Given<Count>,
    pub(crate) theta: Given<Number>,
    pub(crate) spots: Given<Vec<RawSpot>>,
    pub(crate) scatter: Given<bool>,
    pub(crate) window: Given<Count>,
    pub(crate) stride: Given<Size>,
    pub(crate) start: Given<Size>,
}

impl RawAddress {
    /// A pattern with nothing but its name.
    pub(crate) fn of(pattern: Spanned<PatternName>) -> Self {
        Self {
            pattern,
            share: None,
            once_per_pass: None,
            shared: None,
            run: None,
            theta: None,
            spots: None,
            scatter: None,
            window: None,
            stride: None,
            start: None,
        }
    }
}

/// One part of the range under `hot-spots`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as `{ share = 80, range = \"20%\" }`")]
pub(crate) struct RawSpot {
    pub(crate) share: Spanned<Number>,
    pub(crate) range: Spanned<Percent>,
}

/// `addresses`: the name of a pattern, one pattern, or several with their shares.
#[derive(Debug)]
pub(crate) enum RawAddresses {
    Name(PatternName),
    One(Box<RawAddress>),
    Many(Vec<Spanned<RawAddress>>),
}

struct BlocksVisitor;

impl<'de> Visitor<'de> for BlocksVisitor {
    type Value = RawBlocks;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a size such as `\"4KiB\"`, or an array such as `[{ size = \"4KiB\", share = 60 }, …]`",
        )
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<RawBlocks, E> {
        let size = iodyno_units::parse_size(text).map_err(E::custom)?;
        Ok(RawBlocks::One(Size(size)))
    }

    fn visit_i64<E: Error>(self, whole: i64) -> Result<RawBlocks, E> {
        let size = u64::try_from(whole)
            .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(whole), &self))?;
        Ok(RawBlocks::One(Size(size)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<RawBlocks, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items)).map(RawBlocks::Many)
    }
}

impl<'de> Deserialize<'de> for RawBlocks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BlocksVisitor)
    }
}

struct AddressesVisitor;

impl<'de> Visitor<'de> for AddressesVisitor {
    type Value = RawAddresses;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the name of a pattern such as `\"uniform\"`, a table such as `{ pattern = \"zipf\", \
             theta = 0.9 }`, or an array of such tables, each with a `share`",
        )
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<RawAddresses, E> {
        let name = serde::de::value::StrDeserializer::new(text);
        PatternName::deserialize(name).map(RawAddresses::Name)
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<RawAddresses, A::Error> {
        let one = RawAddress::deserialize(MapAccessDeserializer::new(table))?;
        Ok(RawAddresses::One(Box::new(one)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<RawAddresses, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items)).map(RawAddresses::Many)
    }
}

impl<'de> Deserialize<'de> for RawAddresses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AddressesVisitor)
    }
}
