//! Axes of a sweep, and the effect of their values on a workload.

use core::cmp::Ordering;
use core::fmt;
use core::str::FromStr;
use iodyno_units::{human, nearest, parse_duration_ns, parse_percent, parse_rate_iops, parse_size};
use iodyno_workload::{Block, Percent, Spec};
use serde::{Deserialize, Serialize};

/// Parameter that an axis of a sweep varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AxisKind {
    /// The workload, one of those that the stage names.
    Workload,
    /// Share of reads among the operations; the rest are writes.
    Read,
    /// Block size in bytes.
    Block,
    /// Number of worker threads.
    Threads,
    /// Queue depth: outstanding operations per worker.
    Depth,
    /// Offered operations per second (open loop), absolute or as a fraction of the highest IOPS of an earlier
    /// stage.
    Rate,
    /// Think time: delay between a completion and the next submission.
    Think,
    /// Number of targets used at the same time.
    Targets,
    /// Fraction of the target that is written before the measurement.
    Fill,
    /// I/O engine, by its name on the command line.
    Engine,
    /// Number of writes per worker between flushes; 0 for no flushes.
    Fsync,
}

/// Names that other tools use for an axis, and iodyno's name of that axis.
const ELSEWHERE: [(&[&str], &str); 5] = [
    (&["bs", "blocksize", "block-size", "size"], "block"),
    (&["iodepth", "qd", "queue-depth", "queue_depth"], "depth"),
    (&["numjobs", "jobs", "workers"], "threads"),
    (&["rwmixread", "mix", "write"], "read"),
    (&["ioengine"], "engine"),
];

impl AxisKind {
    /// Whether the axis changes only the load: points along it form a curve of latency over rate.
    pub const fn is_load(self) -> bool {
        matches!(self, Self::Depth | Self::Threads | Self::Rate)
    }

    /// All axes, in the default nesting order, outermost first.
    pub const ALL: [Self; 11] = [
        Self::Workload,
        Self::Engine,
        Self::Targets,
        Self::Fill,
        Self::Read,
        Self::Block,
        Self::Threads,
        Self::Depth,
        Self::Rate,
        Self::Think,
        Self::Fsync,
    ];

    /// Key of the axis in a method file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Workload => "workload",
            Self::Read => "read",
            Self::Block => "block",
            Self::Threads => "threads",
            Self::Depth => "depth",
            Self::Rate => "rate",
            Self::Think => "think",
            Self::Targets => "targets",
            Self::Fill => "fill",
            Self::Engine => "engine",
            Self::Fsync => "fsync",
        }
    }

    /// Parses one value of this axis.
    ///
    /// # Errors
    /// A sentence that explains why the text is not a valid value of this axis.
    pub fn value(self, text: &str) -> Result<Value, String> {
        let count = || -> Result<u32, String> {
            let n = text.parse().map_err(|_| {
                format!(
                    "`{text}` is not a whole number (give a list as 1,2,4, and a doubling range as 1..64)"
                )
            })?;
            if n == 0 && self != Self::Fsync {
                return Err(format!("`{}` must be 1 or more", self.name()));
            }
            Ok(n)
        };
        let said = |e: &dyn fmt::Display| e.to_string();
        Ok(match self {
            Self::Workload | Self::Engine => Value::Name(text.to_owned()),
            Self::Read | Self::Fill => {
                let share = parse_percent(text).map_err(|e| said(&e))?;
                if self == Self::Fill && share <= 0.0 {
                    return Err("a fill must be above 0 %".to_owned());
                }
                Value::Share(Percent::from_fraction(share))
            }
            Self::Block => {
                let bytes = parse_size(text).map_err(|e| said(&e))?;
                Value::Bytes(
                    u32::try_from(bytes).map_err(|_| format!("{text} is not a block size"))?,
                )
            }
            Self::Threads | Self::Depth | Self::Targets | Self::Fsync => Value::Count(count()?),
            Self::Rate if text.ends_with('%') => {
                let share = parse_percent(text).map_err(|e| said(&e))?;
                if share <= 0.0 {
                    return Err("a rate must be above 0".to_owned());
                }
                Value::RateShare(share)
            }
            Self::Rate => Value::Rate(parse_rate_iops(text).map_err(|e| said(&e))?),
            Self::Think => Value::Ns(parse_duration_ns(text).map_err(|e| said(&e))?),
        })
    }
}

/// One value of an axis. Its type depends on the axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// Name of a workload or engine.
    Name(String),
    /// Share of reads, for [`AxisKind::Read`]; filled fraction of the target, for [`AxisKind::Fill`].
    Share(Percent),
    /// Block size in bytes.
    Bytes(u32),
    /// Number of threads, of outstanding operations, of targets, or of writes between flushes.
    Count(u32),
    /// Offered rate, operations per second.
    Rate(f64),
    /// Offered rate, as a fraction of the highest IOPS of an earlier stage.
    RateShare(f64),
    /// Delay between a completion and the next submission (think time), ns.
    Ns(u64),
}

impl Value {
    /// Expands a range such as `1..64` by doubling. Returns all values from `self` to `end`; the last is always
    /// `end`.
    fn doubled_to(&self, end: &Self) -> Result<Vec<Self>, String> {
        let amount = |value: &Self| match value {
            Self::Bytes(n) | Self::Count(n) => f64::from(*n),
            Self::Rate(rate_iops) => *rate_iops,
            Self::Ns(ns) => *ns as f64,
            Self::Name(_) | Self::Share(_) | Self::RateShare(_) => f64::NAN,
        };
        let (from, to) = (amount(self), amount(end));
        // Also fails if either end is not an amount.
        if from <= 0.0 || from.partial_cmp(&to) != Some(Ordering::Less) {
            return Err(format!(
                "`{self}..{end}` is not a range: START must be an amount above 0, and END a larger amount; use a list instead"
            ));
        }
        let of = |amount: f64| match self {
            Self::Bytes(_) => Self::Bytes(amount as u32),
            Self::Count(_) => Self::Count(amount as u32),
            Self::Ns(_) => Self::Ns(amount as u64),
            _ => Self::Rate(amount),
        };
        let doubles = core::iter::successors(Some(from), |amount| Some(2.0 * amount));
        let mut all: Vec<Self> = doubles.take_while(|amount| *amount < to).map(of).collect();
        all.push(end.clone());
        Ok(all)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Share(share) => share.fmt(f),
            Self::Bytes(bytes) => f.write_str(&human::size(u64::from(*bytes))),
            Self::Count(n) => n.fmt(f),
            Self::Rate(iops) => write!(f, "{}/s", human::count(*iops)),
            Self::RateShare(share) => write!(f, "{}%", human::three_digits(share * 100.0)),
            Self::Ns(ns) => f.write_str(&human::time_ns(*ns as f64)),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Parameter that the axis varies.
    pub kind: AxisKind,
    /// Values on the axis, in order; at least one.
    pub values: Vec<Value>,
}

impl Axis {
    /// First value that occurs twice, with the index of its second occurrence; `None` if all values differ.
    pub(crate) fn twice(&self) -> Option<(usize, &Value)> {
        self.values.iter().enumerate().find(|(i, value)| self.values[..*i].contains(value))
    }
}

impl FromStr for Axis {
    type Err = String;

    /// Parses an axis such as `depth=1,2,4,8`, or with a range such as `depth=1..64`, which is expanded by doubling.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, values)) = text.split_once('=') else {
            return Err("name an axis and its values, such as `depth=1,2,4,8`".to_owned());
        };
        let known = || AxisKind::ALL.into_iter().filter(|kind| *kind != AxisKind::Workload);
        let Some(kind) = known().find(|kind| kind.name() == name) else {
            let names: Vec<&str> = known().map(AxisKind::name).collect();
            let theirs = ELSEWHERE.iter().find(|(theirs, _)| theirs.contains(&name));
            let near =
                theirs.map(|(_, ours)| *ours).or_else(|| nearest(name, names.iter().copied()));
            return Err(match near {
                Some(near) => format!("can't vary `{name}`; did you mean `{near}`?"),
                None => format!("can't vary `{name}`; use one of {}", names.join(", ")),
            });
        };
        let mut all = Vec::new();
        for value in values.split(',').map(str::trim) {
            match value.split_once("..") {
                None => all.push(kind.value(value)?),
                Some((from, to)) => all.extend(kind.value(from)?.doubled_to(&kind.value(to)?)?),
            }
        }
        let axis = Self { kind, values: all };
        match axis.twice() {
            None => Ok(axis),
            Some((_, value)) => {
                Err(format!("{value} is listed twice; to repeat cells use --repeat"))
            }
        }
    }
}

/// Sets an axis's parameter in a workload specification. Leaves the specification unchanged for axes that are not among
/// its fields: relative rates, targets, fill, engine and workload.
pub(crate) fn applied(spec: Spec, kind: AxisKind, value: &Value) -> Result<Spec, String> {
    match (kind, value) {
        (AxisKind::Read, Value::Share(share)) => spec.with_read_share(*share),
        (AxisKind::Block, Value::Bytes(bytes)) => {
            spec.with_block(vec![Block { bytes: *bytes, share: 1.0 }])
        }
        (AxisKind::Threads, Value::Count(n)) => spec.with_threads(*n),
        (AxisKind::Depth, Value::Count(n)) => spec.with_depth(*n),
        (AxisKind::Rate, Value::Rate(iops)) => spec.with_rate(*iops, None),
        (AxisKind::Think, Value::Ns(ns)) => spec.with_think_time(*ns),
        (AxisKind::Fsync, Value::Count(writes)) => spec.with_flush_every(*writes),
        _ => Ok(spec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the `fsync` axis allows the value 0, which means no flushes; the others start at 1.
    #[test]
    fn flushes_may_be_none() {
        let values = |text: &str| text.parse::<Axis>().map(|axis| axis.values);
        let counts = |all: &[u32]| Ok(all.iter().map(|n| Value::Count(*n)).collect::<Vec<_>>());
        assert_eq!(values("fsync=0,1,8"), counts(&[0, 1, 8]));
        assert_eq!(values("fsync=0,1..8"), counts(&[0, 1, 2, 4, 8]));
        assert!(values("fsync=0..8").unwrap_err().contains("above 0"));
        assert!(values("depth=0,1").unwrap_err().contains("must be 1 or more"));
    }
}
