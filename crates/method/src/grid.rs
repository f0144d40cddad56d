//! A grid: workloads combined with values of axes, and the order of its points.

use crate::axis::{Axis, AxisKind, Value, applied};
use core::str::FromStr;
use iodyno_units::{Precondition, rng};
use iodyno_workload::Spec;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Maximum number of points in a grid: the product of the numbers of values on its axes.
const POINTS_MAX: usize = 20_000;

/// Order in which the points of a grid are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Points are measured in the order of the axes' values; the last axis varies fastest.
    #[default]
    Given,
    /// Points are measured in random order, reshuffled for each repeat. The order depends only on the run's seed.
    Random,
    /// Points are measured in the given order and in reverse order, alternating from repeat to repeat, so that a linear
    /// drift affects all points equally.
    Abba,
}

impl Order {
    /// All orders that a method file may name.
    pub const ALL: [Self; 3] = [Self::Given, Self::Random, Self::Abba];

    /// Name of the order in a method file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Random => "random",
            Self::Abba => "abba",
        }
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|order| order.name() == text);
        named.ok_or_else(|| format!("there is no order `{text}`: use given, random or abba"))
    }
}

/// All combinations of one or more workloads and the values of the axes. Each combination is a point to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// Workloads before the axes are applied, with their names; at least one. If there are several, the first
    /// axis is [`AxisKind::Workload`].
    pub base: Vec<(String, Spec)>,
    /// Axes, outermost first; empty for a single point.
    pub axes: Vec<Axis>,
    /// Duration of the measurement at each point, ns.
    pub time_ns: u64,
    /// State of an emulated device at the start of each measurement.
    pub state: Precondition,
    /// Whether measurements may end early once their mean is precise (virtual time only). False if tail latencies are
    /// needed.
    pub settles: bool,
    /// Index of the stage whose highest IOPS count as 100 % for relative rates; `None` if no rate is relative.
    pub rate_of: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Index of the point's value on each axis.
    pub at: Vec<usize>,
    /// Name and value of each axis at the point, as text.
    pub words: Vec<(String, String)>,
    /// Name of the point in output and stored results.
    pub name: String,
    /// Workload at the point. Its rate is not set if [`Self::rate_share`] is set, because the rate then depends on the
    /// results of another stage.
    pub spec: Spec,
    /// Offered rate as a fraction of another stage's highest IOPS; `None` for an absolute rate or a closed loop.
    pub rate_share: Option<f64>,
    /// Number of targets used at the same time; `None` for all.
    pub targets: Option<u32>,
    /// Fraction of the target that is written before the measurement; `None` for all of it.
    pub fill: Option<f64>,
    /// Name of the I/O engine; `None` for the engine of the run.
    pub engine: Option<String>,
}

impl Grid {
    /// Whether all points have the same workload at different loads: a load curve.
    pub(crate) fn is_load_curve(&self) -> bool {
        !self.axes.is_empty() && self.axes.iter().all(|axis| axis.kind.is_load())
    }

    /// Returns the grid if it is not too large and the workload at each point is valid.
    ///
    /// # Errors
    /// The violated rule, with the name of the point.
    pub(crate) fn checked(self) -> Result<Self, String> {
        let n = self.len();
        if n > POINTS_MAX {
            return Err(format!("{n} cells exceed the maximum of {POINTS_MAX}"));
        }
        (0..n).try_for_each(|index| self.point(index).map(drop)).map(|()| self)
    }

    pub fn len(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).product()
    }

    /// Always false, since a grid has at least one point.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the point with the given index; the last axis varies fastest.
    ///
    /// # Errors
    /// The rule that the workload violates at this point, with the point's name.
    pub fn point(&self, mut index: usize) -> Result<Point, String> {
        let mut at = vec![0; self.axes.len()];
        for (place, axis) in at.iter_mut().zip(&self.axes).rev() {
            *place = index % axis.values.len();
            index /= axis.values.len();
        }
        let values = || self.axes.iter().zip(&at).map(|(axis, &i)| (axis.kind, &axis.values[i]));
        let words: Vec<(String, String)> =
            values().map(|(kind, value)| (kind.name().to_owned(), value.to_string())).collect();
        let chosen = values().find_map(|(kind, value)| match value {
            Value::Name(name) if kind == AxisKind::Workload => {
                self.base.iter().find(|(n, _)| n == name)
            }
            _ => None,
        });
        let (base_name, base) = chosen.unwrap_or(&self.base[0]);
        let name = name(base_name, &words);
        let mut spec = base.clone();
        for (kind, value) in values() {
            spec = applied(spec, kind, value).map_err(|why| format!("{name}: {why}"))?;
        }
        spec = spec.with_time(self.time_ns).map_err(|why| format!("{name}: {why}"))?;
        let (mut rate_share, mut targets, mut fill, mut engine) = (None, None, None, None);
        for (kind, value) in values() {
            match (kind, value) {
                (AxisKind::Rate, Value::RateShare(share)) => rate_share = Some(*share),
                (AxisKind::Targets, Value::Count(n)) => targets = Some(*n),
                (AxisKind::Fill, Value::Share(share)) => fill = Some(share.fraction()),
                (AxisKind::Engine, Value::Name(name)) => engine = Some(name.clone()),
                _ => {}
            }
        }
        Ok(Point { at, words, name, spec, rate_share, targets, fill, engine })
    }

    /// Index of the point to measure at `position` in the given repeat. Positions and repeats are counted from 0.
    pub fn ordered(&self, order: Order, seed: u64, repeat: u32, position: usize) -> usize {
        let n = self.len();
        match order {
            Order::Abba if repeat % 2 == 1 => n - 1 - position,
            Order::Given | Order::Abba => position,
            Order::Random => {
                // Fisher-Yates shuffle, computed only up to `position`.
                let mut random = rng::stream(seed, "order", u64::from(repeat));
                let mut all: Vec<usize> = (0..n).collect();
                for i in 0..=position {
                    let j = i + rng::below(&mut random, (n - i) as u64) as usize;
                    all.swap(i, j);
                }
                all[position]
            }
        }
    }
}

/// Builds the name of a point, such as `random read=65% block=4KiB`.
fn name(base: &str, words: &[(String, String)]) -> String {
    let mut name = base.to_owned();
    for (axis, value) in words {
        if axis == AxisKind::Workload.name() {
            continue;
        }
        let _ = write!(name, " {axis}={}", value.replace(' ', ""));
    }
    name
}
