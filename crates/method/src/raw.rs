//! A method file as it is written: every key that there is, each with the place where it stands, and
//! nothing decided yet.

use core::fmt;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_spanned::Spanned;
use std::collections::BTreeMap;

/// A value and where it stands, if it was given.
pub(crate) type Given<T> = Option<Spanned<T>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawMethod {
    pub(crate) schema: Spanned<i64>,
    #[serde(default)]
    pub(crate) about: String,
    pub(crate) standard: Option<String>,
    #[serde(default)]
    pub(crate) reuse: bool,
    /// A list, because the first one is the default.
    #[serde(default)]
    pub(crate) settings: Vec<RawSetting>,
    #[serde(default)]
    pub(crate) require: Vec<Spanned<String>>,
    pub(crate) stages: Spanned<Vec<RawStage>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSetting {
    pub(crate) name: Spanned<String>,
    pub(crate) threads: Given<Text>,
    pub(crate) depth: Given<Text>,
    pub(crate) active: Given<String>,
}

/// A stage, with the keys of every act.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawStage {
    #[serde(rename = "do")]
    pub(crate) act: Spanned<String>,
    pub(crate) name: Given<String>,
    // What is issued.
    pub(crate) io: Given<toml::Table>,
    pub(crate) addresses: Given<String>,
    pub(crate) active: Given<String>,
    pub(crate) state: Given<String>,
    // The axes.
    pub(crate) workload: Given<Texts>,
    pub(crate) read: Given<Texts>,
    pub(crate) block: Given<Texts>,
    pub(crate) threads: Given<Texts>,
    pub(crate) depth: Given<Texts>,
    pub(crate) rate: Given<Texts>,
    pub(crate) think: Given<Texts>,
    pub(crate) targets: Given<Texts>,
    pub(crate) fill: Given<Texts>,
    // How long, in which order, how often.
    pub(crate) time: Given<String>,
    pub(crate) ramp: Given<String>,
    pub(crate) order: Given<String>,
    pub(crate) repeats: Given<i64>,
    pub(crate) settle: Given<bool>,
    // Fill.
    pub(crate) passes: Given<i64>,
    // Rounds.
    pub(crate) rounds: Given<i64>,
    pub(crate) window: Given<i64>,
    pub(crate) range: Given<String>,
    pub(crate) slope: Given<String>,
    #[serde(default)]
    pub(crate) track: Vec<Spanned<BTreeMap<String, Spanned<Text>>>>,
    pub(crate) before: Option<Spanned<RawBefore>>,
    // Series.
    pub(crate) samples: Given<i64>,
    pub(crate) wait: Given<String>,
    pub(crate) fills: Given<f64>,
    pub(crate) steady_every: Given<i64>,
    // Points, and rates that are shares.
    pub(crate) of: Given<String>,
    pub(crate) choose: Given<Texts>,
    #[serde(default)]
    pub(crate) ceiling: BTreeMap<String, Spanned<String>>,
}

/// Random writes before a round, or before a point.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawBefore {
    pub(crate) time: Spanned<String>,
    pub(crate) read: Given<Text>,
    pub(crate) block: Given<Text>,
    pub(crate) threads: Given<Text>,
    pub(crate) depth: Given<Text>,
}

/// A value of an axis: text or a whole number, kept as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct One;
        impl Visitor<'_> for One {
            type Value = Text;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value, such as `\"4KiB\"` or `32`")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }
            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Text, E> {
                Ok(Text(n.to_string()))
            }
            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Text, E> {
                Ok(Text(n.to_string()))
            }
        }
        deserializer.deserialize_any(One)
    }
}

/// One value of an axis, or a list of them.
#[derive(Debug)]
pub(crate) struct Texts {
    /// In their order.
    pub(crate) values: Vec<Text>,
    /// It was written as a list, so it is an axis even with one value.
    pub(crate) is_list: bool,
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;
        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Texts;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value, such as `\"4KiB\"`, or a list of them")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Texts, E> {
                Ok(Texts { values: vec![Text(text.to_owned())], is_list: false })
            }
            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Texts, E> {
                Ok(Texts { values: vec![Text(n.to_string())], is_list: false })
            }
            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Texts, E> {
                Ok(Texts { values: vec![Text(n.to_string())], is_list: false })
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Texts, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = seq.next_element()? {
                    values.push(value);
                }
                Ok(Texts { values, is_list: true })
            }
        }
        deserializer.deserialize_any(OneOrMany)
    }
}
