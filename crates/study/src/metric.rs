//! The metrics of the studies: what each is called, its unit, and from which cells it is got.

use crate::cell::{CellKey, Measure};
use crate::unit::{Dimension, Unit};
use serde::{Deserialize, Deserializer, de};

/// What is told of a combination of a panel's axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// The largest rate over the panel's depths.
    IopsMax,
    /// Operations a second.
    Iops,
    /// Bytes a second.
    Bandwidth,
    /// Mean time from submission to completion; of a mix, over reads and writes together.
    LatencyMean,
    /// 99th percentile of the same.
    LatencyP99,
    /// Rate with think time over the rate without.
    IopsVsNoThink,
    /// Mean latency with think time over the one without.
    LatencyVsNoThink,
    /// The knee by Little's law: latency at depth 1 × largest rate over the panel's depths.
    Knee,
    /// The knee of the curve: the depth at which the rate reaches 95 % of its largest.
    Depth95,
    /// [`Self::IopsMax`] over that of one device.
    IopsMaxVsOne,
    /// [`Self::Bandwidth`] over that of one device.
    BandwidthVsOne,
    /// [`Self::LatencyMean`] over that of one device.
    LatencyVsOne,
}

/// Which share of the largest rate [`Metric::Depth95`] asks for.
const REACHED_SHARE: f64 = 0.95;

/// How a value is got from cells.
#[derive(Clone, Debug, PartialEq)]
pub enum Recipe {
    /// One figure of one cell.
    Of(Measure, CellKey),
    /// The largest rate of several cells.
    MaxIops(Vec<CellKey>),
    /// One over the other.
    Ratio(Box<Recipe>, Box<Recipe>),
    /// A time (ns) × a rate (1/s): how many are in service.
    Little(Box<Recipe>, Box<Recipe>),
    /// The depth at which the rate of these cells, in the order of their depths, first reaches this
    /// share of its largest; on straight lines between them.
    DepthReached(f64, Vec<CellKey>),
    /// A number that is taken from the paper into the model.
    Given(f64),
}

impl Metric {
    /// Every metric.
    pub const ALL: [Self; 12] = [
        Self::IopsMax,
        Self::Iops,
        Self::Bandwidth,
        Self::LatencyMean,
        Self::LatencyP99,
        Self::IopsVsNoThink,
        Self::LatencyVsNoThink,
        Self::Knee,
        Self::Depth95,
        Self::IopsMaxVsOne,
        Self::BandwidthVsOne,
        Self::LatencyVsOne,
    ];

    /// As files write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::IopsMax => "iops_max",
            Self::Iops => "iops",
            Self::Bandwidth => "bandwidth",
            Self::LatencyMean => "latency_mean",
            Self::LatencyP99 => "latency_p99",
            Self::IopsVsNoThink => "iops_vs_no_thinktime",
            Self::LatencyVsNoThink => "latency_vs_no_thinktime",
            Self::Knee => "knee_queue_depth",
            Self::Depth95 => "queue_depth_at_95pct_of_max",
            Self::IopsMaxVsOne => "iops_max_vs_one_device",
            Self::BandwidthVsOne => "bandwidth_vs_one_device",
            Self::LatencyVsOne => "latency_mean_vs_one_device",
        }
    }

    /// What heads its table.
    pub const fn title(self) -> &'static str {
        match self {
            Self::IopsMax => "I/Os a second, the most over all queue depths",
            Self::Iops => "I/Os a second",
            Self::Bandwidth => "bandwidth",
            Self::LatencyMean => "mean latency",
            Self::LatencyP99 => "99th percentile of latency",
            Self::IopsVsNoThink => "I/Os a second, against no think time",
            Self::LatencyVsNoThink => "mean latency, against no think time",
            Self::Knee => "knee: latency at depth 1 × largest rate",
            Self::Depth95 => "knee: depth that reaches 95 % of the largest rate",
            Self::IopsMaxVsOne => "I/Os a second (the most), against one device",
            Self::BandwidthVsOne => "bandwidth, against one device",
            Self::LatencyVsOne => "mean latency, against one device",
        }
    }

    /// What it measures.
    pub const fn dimension(self) -> Dimension {
        self.unit().dimension()
    }

    /// The unit in which it is told where the paper prints nothing.
    pub const fn unit(self) -> Unit {
        match self {
            Self::IopsMax | Self::Iops => Unit::PerSecond,
            Self::Bandwidth => Unit::MegabytesPerSecond,
            Self::LatencyMean | Self::LatencyP99 => Unit::Microseconds,
            Self::IopsVsNoThink
            | Self::LatencyVsNoThink
            | Self::IopsMaxVsOne
            | Self::BandwidthVsOne
            | Self::LatencyVsOne => Unit::Ratio,
            Self::Knee | Self::Depth95 => Unit::One,
        }
    }

    /// Whether one value stands for all depths of the panel.
    pub const fn over_depths(self) -> bool {
        matches!(self, Self::IopsMax | Self::Knee | Self::Depth95 | Self::IopsMaxVsOne)
    }

    /// How it is got at `cell`; `depths` are those of the panel, ascending.
    pub fn recipe(self, cell: CellKey, depths: &[u32]) -> Recipe {
        let all = |cell: CellKey| depths.iter().map(|&depth| CellKey { depth, ..cell }).collect();
        let max = |cell: CellKey| Recipe::MaxIops(all(cell));
        let of = Recipe::Of;
        let ratio = |a: Recipe, b: Recipe| Recipe::Ratio(Box::new(a), Box::new(b));
        let one = CellKey { devices: 1, ..cell };
        let no_think = CellKey { think_ns: 0, ..cell };
        let alone = CellKey { depth: 1, ..cell };
        match self {
            Self::IopsMax => max(cell),
            Self::Iops => of(Measure::Iops, cell),
            Self::Bandwidth => of(Measure::BytesPerS, cell),
            Self::LatencyMean => of(Measure::MeanNs, cell),
            Self::LatencyP99 => of(Measure::P99Ns, cell),
            Self::IopsVsNoThink => ratio(of(Measure::Iops, cell), of(Measure::Iops, no_think)),
            Self::LatencyVsNoThink => {
                ratio(of(Measure::MeanNs, cell), of(Measure::MeanNs, no_think))
            }
            Self::Knee => Recipe::Little(Box::new(of(Measure::MeanNs, alone)), Box::new(max(cell))),
            Self::Depth95 => Recipe::DepthReached(REACHED_SHARE, all(cell)),
            Self::IopsMaxVsOne => ratio(max(cell), max(one)),
            Self::BandwidthVsOne => {
                ratio(of(Measure::BytesPerS, cell), of(Measure::BytesPerS, one))
            }
            Self::LatencyVsOne => ratio(of(Measure::MeanNs, cell), of(Measure::MeanNs, one)),
        }
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const NAMES: [&str; Metric::ALL.len()] = {
            let mut names = [""; Metric::ALL.len()];
            let mut i = 0;
            while i < names.len() {
                names[i] = Metric::ALL[i].name();
                i += 1;
            }
            names
        };
        let text = String::deserialize(deserializer)?;
        let known = Self::ALL.into_iter().find(|metric| metric.name() == text);
        known.ok_or_else(|| de::Error::unknown_variant(&text, &NAMES))
    }
}

impl Recipe {
    /// The cells that it needs.
    pub fn cells(&self) -> Vec<CellKey> {
        match self {
            Self::Of(_, cell) => vec![*cell],
            Self::MaxIops(cells) | Self::DepthReached(_, cells) => cells.clone(),
            Self::Ratio(a, b) | Self::Little(a, b) => [a.cells(), b.cells()].concat(),
            Self::Given(_) => Vec::new(),
        }
    }

    /// The recipes that it is put together from; none where it is taken from cells as it is.
    pub fn ingredients(&self) -> Vec<&Self> {
        match self {
            Self::Ratio(a, b) | Self::Little(a, b) => vec![a, b],
            _ => Vec::new(),
        }
    }
}
