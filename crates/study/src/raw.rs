//! A study file as it is written: every key that there is, each with the place where it stands, and
//! nothing decided yet.

use crate::metric::Metric;
use iodyno_units::{Precondition, parse_duration_ns, parse_percent, parse_size};
use serde::{Deserialize, Deserializer, de};
use serde_spanned::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawStudy {
    pub(crate) schema: Spanned<u64>,
    pub(crate) kind: Spanned<String>,
    pub(crate) title: String,
    pub(crate) source: String,
    pub(crate) published: Spanned<String>,
    #[serde(default)]
    pub(crate) method: Method,
    pub(crate) systems: Vec<RawSystem>,
    pub(crate) workloads: Vec<RawWorkload>,
    pub(crate) panels: Vec<RawPanel>,
    #[serde(default)]
    pub(crate) inputs: Vec<RawInput>,
    #[serde(default)]
    pub(crate) basis: Vec<RawBasis>,
    #[serde(default)]
    pub(crate) flagged: Vec<RawFlag>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSystem {
    pub(crate) name: Spanned<String>,
    pub(crate) host: Spanned<String>,
    pub(crate) device: Spanned<String>,
    pub(crate) occupancy: Option<Spanned<Occupancy>>,
    pub(crate) ramp: Option<Spanned<Duration>>,
    #[serde(default)]
    pub(crate) note: String,
}

/// How a cell is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Method {
    /// Over one window.
    #[default]
    Window,
    /// In rounds, until the steady state of SNIA's specification.
    Pts,
}

/// The flash DIMM driver's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Occupancy {
    /// As the device file says.
    Default,
    /// The driver's option: each module has a thread of its own.
    Max,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawWorkload {
    pub(crate) name: Spanned<String>,
    pub(crate) read: Spanned<Share>,
    pub(crate) addresses: Spanned<Addresses>,
    pub(crate) ops: Spanned<u64>,
    pub(crate) long_ops: Option<Spanned<u64>>,
    pub(crate) bytes: Option<Spanned<Size>>,
    pub(crate) ramp: Spanned<Duration>,
}

/// How addresses are chosen; the device was written in the same way before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Addresses {
    Random,
    Sequential,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPanel {
    pub(crate) figure: Spanned<String>,
    pub(crate) title: String,
    pub(crate) systems: Option<Vec<Spanned<String>>>,
    pub(crate) workloads: Spanned<Vec<Spanned<String>>>,
    pub(crate) block: Spanned<Vec<Size>>,
    pub(crate) threads: Option<Spanned<Vec<u32>>>,
    pub(crate) depth: Spanned<Vec<u32>>,
    pub(crate) devices: Spanned<Vec<u32>>,
    pub(crate) think: Option<Spanned<Vec<Duration>>>,
    #[serde(default, deserialize_with = "written")]
    pub(crate) written: Precondition,
    #[serde(default)]
    pub(crate) long: bool,
    pub(crate) ramp: Option<Duration>,
    pub(crate) optimum_within: Option<Duration>,
    #[serde(default)]
    pub(crate) together: bool,
    pub(crate) metrics: Spanned<Vec<Spanned<Metric>>>,
}

/// What was written before the cells of a panel.
const WRITTEN: &[&str] = &["workload", "fresh", "sequential"];

fn written<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Precondition, D::Error> {
    let word = String::deserialize(deserializer)?;
    let it = Precondition::of_word(&word, WRITTEN);
    it.ok_or_else(|| de::Error::unknown_variant(&word, WRITTEN))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawInput {
    pub(crate) figure: String,
    pub(crate) system: Spanned<String>,
    pub(crate) workload: String,
    pub(crate) metric: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawBasis {
    pub(crate) is: Spanned<RawIs>,
    #[serde(default)]
    pub(crate) by: Vec<Spanned<String>>,
    pub(crate) figure: Option<String>,
    pub(crate) system: Option<String>,
    pub(crate) workload: Option<String>,
    pub(crate) block: Option<Size>,
    pub(crate) depth: Option<u32>,
    pub(crate) threads: Option<u32>,
    pub(crate) devices: Option<u32>,
    pub(crate) metric: Option<String>,
}

/// A printed figure that is not scored.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawFlag {
    pub(crate) figure: Spanned<String>,
    pub(crate) system: String,
    pub(crate) workload: String,
    pub(crate) metric: String,
    pub(crate) why: Spanned<String>,
}

/// What a study file may say of a printed figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawIs {
    Input,
    Fitted,
    Derived,
}

/// A size, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_size(&text).map(Self).map_err(de::Error::custom)
    }
}

/// A time, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Duration(pub(crate) u64);

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_duration_ns(&text).map(Self).map_err(de::Error::custom)
    }
}

/// A share, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share(pub(crate) f64);

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_percent(&text).map(Self).map_err(de::Error::custom)
    }
}
