//! Metrics of studies, with their names, units and the recipes that compute them from cells.

mod recipe;

use crate::cell::{CellFigure, CellKey};
use crate::unit::{Dimension, Unit};
use iodyno_measure::Quantity;
use iodyno_units::Precondition;

pub use recipe::{AtOptimum, Optimum, Recipe};

/// A metric that a paper's table or figure reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Highest rate among all queue depths of a table or figure.
    IopsMax,
    /// Operations completed per second, of all kinds.
    Iops,
    /// Bytes read and written per second.
    Bandwidth,
    /// Mean latency from submission to completion. For a mix, over reads and writes together.
    LatencyMean,
    /// 99th percentile of latency. If [`Workload::percentiles`](crate::Workload) names a kind of operation, covers only
    /// that kind.
    LatencyP99,
    /// Rate with think time, divided by the rate without think time.
    IopsVsNoThink,
    /// Mean latency with think time, divided by the latency without think time.
    LatencyVsNoThink,
    /// Queue depth at the knee of the load curve, by Little's law: the latency at depth 1 times the highest rate among
    /// all queue depths of a table or figure.
    Knee,
    /// Queue depth at the knee of the load curve, where the rate reaches 95 % of its maximum.
    Depth95,
    /// [`Self::IopsMax`], divided by its value for a single volume (a device or an array).
    IopsMaxVsOne,
    /// [`Self::Bandwidth`], divided by its value for a single volume (a device or an array).
    BandwidthVsOne,
    /// [`Self::LatencyMean`], divided by its value for a single volume (a device or an array).
    LatencyVsOne,
    /// Operations per second of a device that is fresh out of the box.
    IopsFresh,
    /// Operations per second in the steady state.
    IopsSteady,
    /// Lowest rate among several workloads, if the paper gives one range of rates for all of them.
    IopsLow,
    /// Highest rate among several workloads, if the paper gives one range of rates for all of them.
    IopsHigh,
    /// Maximum latency from submission to completion.
    LatencyMax,
    /// 99.9th percentile of latency, over the same operations as [`Self::LatencyP99`].
    LatencyP999,
    /// 99.99th percentile of latency, over the same operations as [`Self::LatencyP99`].
    LatencyP9999,
    /// 99.999th percentile of latency, over the same operations as [`Self::LatencyP99`].
    LatencyP99999,
    /// Mean latency of one thread with one outstanding operation.
    LatencyMeanAlone,
    /// Number of outstanding operations at the optimum operating point ([`Optimum`]).
    OioBest,
    /// Number of threads at the optimum operating point ([`Optimum`]).
    ThreadsBest,
    /// Outstanding operations per thread at the optimum operating point ([`Optimum`]).
    DepthBest,
    /// Number of devices that saturate a system: the rate of all devices together, divided by the rate per device of a
    /// single volume.
    UsefulDevices,
    /// Bytes read per second, without the writes of a mix.
    BandwidthRead,
    /// Bytes written per second, without the reads of a mix.
    BandwidthWrite,
    /// Bytes per second in the fastest of the intervals into which the measurement is divided.
    BandwidthPeak,
    /// Standard deviation of the bandwidth over the intervals of the measurement, as a fraction of the mean.
    BandwidthVariation,
    /// Smallest number of threads whose rate is at least 97 % of the highest rate in a table or figure.
    ThreadsAtPeak,
    /// 25th percentile of latency, over the same operations as [`Self::LatencyP99`].
    LatencyP25,
    /// Median of latency, over the same operations as [`Self::LatencyP99`].
    LatencyP50,
    /// 75th percentile of latency, over the same operations as [`Self::LatencyP99`].
    LatencyP75,
    /// Messages per second: operations per second times messages per operation.
    MessagesPerS,
    /// Minimum latency from submission to completion.
    LatencyMin,
    /// Flash pages programmed per page that the host wrote. Includes the parity pages of stripes, as the counters of
    /// drives do.
    WriteAmplification,
    /// Rate in the slowest interval of a closed loop. At a higher rate, the backlog of an open loop grows at least for
    /// a time.
    KneeRate,
    /// Reads completed per second in a mix of reads and writes.
    ReadIops,
    /// Writes completed per second in a mix of reads and writes.
    WriteIops,
    /// Mean latency of the reads in a mix.
    ReadLatencyMean,
    /// Mean latency of the writes in a mix.
    WriteLatencyMean,
}

/// Fraction of the highest rate that defines [`Metric::Depth95`].
const REACHED_SHARE: f64 = 0.95;
/// Fraction of the highest rate that defines [`Metric::ThreadsAtPeak`].
const PEAK_SHARE: f64 = 0.97;

impl Metric {
    /// All metrics, in the order in which the variants are declared.
    pub const ALL: [Self; 41] = [
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
        Self::IopsFresh,
        Self::IopsSteady,
        Self::IopsLow,
        Self::IopsHigh,
        Self::LatencyMax,
        Self::LatencyP999,
        Self::LatencyP9999,
        Self::LatencyP99999,
        Self::LatencyMeanAlone,
        Self::OioBest,
        Self::ThreadsBest,
        Self::DepthBest,
        Self::UsefulDevices,
        Self::BandwidthRead,
        Self::BandwidthWrite,
        Self::BandwidthPeak,
        Self::BandwidthVariation,
        Self::ThreadsAtPeak,
        Self::LatencyP25,
        Self::LatencyP50,
        Self::LatencyP75,
        Self::MessagesPerS,
        Self::LatencyMin,
        Self::WriteAmplification,
        Self::KneeRate,
        Self::ReadIops,
        Self::WriteIops,
        Self::ReadLatencyMean,
        Self::WriteLatencyMean,
    ];

    /// Names of [`Self::ALL`], in the same order.
    pub(crate) const NAMES: [&str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut i = 0;
        while i < names.len() {
            names[i] = Self::ALL[i].name();
            i += 1;
        }
        names
    };

    /// Finds a metric by its name in study files.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Name of the metric in study files.
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
            Self::IopsFresh => "iops_fob",
            Self::IopsSteady => "iops_steady",
            Self::IopsLow => "iops_low",
            Self::IopsHigh => "iops_high",
            Self::LatencyMax => "latency_max",
            Self::LatencyP999 => "latency_p99.9",
            Self::LatencyP9999 => "latency_p99.99",
            Self::LatencyP99999 => "latency_p99.999",
            Self::LatencyMeanAlone => "latency_mean_T1Q1",
            Self::OioBest => "oio",
            Self::ThreadsBest => "oio_threads",
            Self::DepthBest => "oio_queue_depth",
            Self::UsefulDevices => "useful_devices",
            Self::BandwidthRead => "bandwidth_read",
            Self::BandwidthWrite => "bandwidth_write",
            Self::BandwidthPeak => "bandwidth_peak",
            Self::BandwidthVariation => "bandwidth_variation",
            Self::ThreadsAtPeak => "threads_at_peak",
            Self::LatencyP25 => "latency_p25",
            Self::LatencyP50 => "latency_p50",
            Self::LatencyP75 => "latency_p75",
            Self::MessagesPerS => "messages_per_s",
            Self::LatencyMin => "latency_min",
            Self::WriteAmplification => "write_amplification",
            Self::KneeRate => "knee_rate",
            Self::ReadIops => "read_iops",
            Self::WriteIops => "write_iops",
            Self::ReadLatencyMean => "read_latency_mean",
            Self::WriteLatencyMean => "write_latency_mean",
        }
    }

    /// Title of the table that shows the metric, such as `I/Os a second` or `mean latency`.
    pub const fn title(self) -> &'static str {
        match self {
            Self::IopsMax => "I/Os a second, maximum over all queue depths",
            Self::Iops => "I/Os a second",
            Self::Bandwidth => "bandwidth",
            Self::LatencyMean => "mean latency",
            Self::LatencyP99 => "99th percentile of latency",
            Self::IopsVsNoThink => "I/Os a second, relative to no think time",
            Self::LatencyVsNoThink => "mean latency, relative to no think time",
            Self::Knee => "knee: (latency at depth 1) × (largest rate)",
            Self::Depth95 => "knee: depth that reaches 95 % of the largest rate",
            Self::IopsMaxVsOne => "I/Os a second (maximum), relative to one device",
            Self::BandwidthVsOne => "bandwidth, relative to one device",
            Self::LatencyVsOne => "mean latency, relative to one device",
            Self::IopsFresh => "I/Os a second, fresh out of the box",
            Self::IopsSteady => "I/Os a second in steady state",
            Self::IopsLow => "I/Os a second, lowest of all workloads",
            Self::IopsHigh => "I/Os a second, highest of all workloads",
            Self::LatencyMax => "longest latency",
            Self::LatencyP999 => "99.9th percentile of latency",
            Self::LatencyP9999 => "99.99th percentile of latency",
            Self::LatencyP99999 => "99.999th percentile of latency",
            Self::LatencyMeanAlone => "mean latency at T1Q1",
            Self::OioBest => "outstanding I/Os at the optimum",
            Self::ThreadsBest => "threads at the optimum",
            Self::DepthBest => "queue depth at the optimum",
            Self::UsefulDevices => "devices that saturate the system",
            Self::BandwidthRead => "bandwidth of reads",
            Self::BandwidthWrite => "bandwidth of writes",
            Self::BandwidthPeak => "bandwidth of the fastest interval",
            Self::BandwidthVariation => "bandwidth, variation between intervals",
            Self::ThreadsAtPeak => "fewest threads that reach 97 % of the largest rate",
            Self::LatencyP25 => "25th percentile of latency",
            Self::LatencyP50 => "median latency",
            Self::LatencyP75 => "75th percentile of latency",
            Self::MessagesPerS => "messages a second",
            Self::LatencyMin => "shortest latency",
            Self::WriteAmplification => "write amplification",
            Self::KneeRate => "knee: rate in the slowest interval",
            Self::ReadIops => "reads a second",
            Self::WriteIops => "writes a second",
            Self::ReadLatencyMean => "mean latency of reads",
            Self::WriteLatencyMean => "mean latency of writes",
        }
    }

    /// Dimension of [`Self::unit`]. A published value may have any unit of this dimension.
    pub const fn dimension(self) -> Dimension {
        self.unit().dimension()
    }

    /// Unit of the metric's values. If the published value has another unit, that unit is used instead.
    pub const fn unit(self) -> Unit {
        match self {
            Self::IopsMax
            | Self::Iops
            | Self::IopsFresh
            | Self::IopsSteady
            | Self::IopsLow
            | Self::IopsHigh
            | Self::KneeRate
            | Self::ReadIops
            | Self::WriteIops
            | Self::MessagesPerS => Unit::PerSecond,
            Self::Bandwidth | Self::BandwidthRead | Self::BandwidthWrite | Self::BandwidthPeak => {
                Unit::MegabytesPerSecond
            }
            Self::LatencyMean
            | Self::LatencyP99
            | Self::LatencyMax
            | Self::LatencyP999
            | Self::LatencyP9999
            | Self::LatencyP99999
            | Self::LatencyP25
            | Self::LatencyP50
            | Self::LatencyP75
            | Self::LatencyMin
            | Self::ReadLatencyMean
            | Self::WriteLatencyMean
            | Self::LatencyMeanAlone => Unit::Microseconds,
            Self::IopsVsNoThink
            | Self::LatencyVsNoThink
            | Self::IopsMaxVsOne
            | Self::BandwidthVsOne
            | Self::BandwidthVariation
            | Self::WriteAmplification
            | Self::LatencyVsOne => Unit::Ratio,
            Self::Knee
            | Self::Depth95
            | Self::OioBest
            | Self::ThreadsBest
            | Self::DepthBest
            | Self::ThreadsAtPeak
            | Self::UsefulDevices => Unit::One,
        }
    }

    /// Whether the metric has one value for all queue depths of a table or figure, instead of one value per depth.
    pub const fn over_depths(self) -> bool {
        matches!(
            self,
            Self::IopsMax
                | Self::Knee
                | Self::Depth95
                | Self::IopsMaxVsOne
                | Self::LatencyMeanAlone
        )
    }

    /// Key that a `[[panels]]` entry must have to show this metric: `together`, `optimum_within` or `think`. None if
    /// the metric requires no key.
    pub const fn needs(self) -> Option<&'static str> {
        match self {
            Self::IopsLow | Self::IopsHigh => Some("together"),
            Self::OioBest | Self::ThreadsBest | Self::DepthBest => Some("optimum_within"),
            Self::IopsVsNoThink | Self::LatencyVsNoThink => Some("think"),
            _ => None,
        }
    }

    /// Which quantity of a single cell this metric reports; None if the metric is computed in another way.
    pub const fn quantity(self) -> Option<Quantity> {
        Some(match self {
            Self::Iops | Self::IopsFresh | Self::IopsSteady | Self::IopsLow | Self::IopsHigh => {
                Quantity::Iops
            }
            Self::Bandwidth => Quantity::Bandwidth,
            Self::LatencyMean => Quantity::Mean,
            Self::LatencyP50 => Quantity::Quantile(0.5),
            Self::LatencyP99 => Quantity::Quantile(0.99),
            Self::LatencyP999 => Quantity::Quantile(0.999),
            Self::LatencyP9999 => Quantity::Quantile(0.9999),
            Self::LatencyP99999 => Quantity::Quantile(0.99999),
            Self::LatencyMax => Quantity::Max,
            _ => return None,
        })
    }

    /// Which property of the optimum operating point this metric reports; None if the metric can't be evaluated at an
    /// optimum.
    pub const fn at_optimum(self) -> Option<AtOptimum> {
        match self {
            Self::OioBest => Some(AtOptimum::Oio),
            Self::ThreadsBest => Some(AtOptimum::Threads),
            Self::DepthBest => Some(AtOptimum::Depth),
            _ => match self.quantity() {
                Some(quantity) => Some(AtOptimum::Of(quantity)),
                None => None,
            },
        }
    }

    /// Whether the metric has one value for all numbers of devices of a table or figure, instead of one value per
    /// number.
    pub const fn over_devices(self) -> bool {
        matches!(self, Self::UsefulDevices)
    }

    /// Which [`CellFigure`] this metric reports; None if the metric is computed in another way.
    pub const fn cell_figure(self) -> Option<CellFigure> {
        Some(match self {
            Self::BandwidthRead => CellFigure::Reads,
            Self::BandwidthWrite => CellFigure::Writes,
            Self::BandwidthPeak => CellFigure::Peak,
            Self::KneeRate => CellFigure::LowestIops,
            Self::BandwidthVariation => CellFigure::Variation,
            Self::LatencyP25 => CellFigure::LowerQuartile,
            Self::LatencyP75 => CellFigure::UpperQuartile,
            Self::LatencyMin => CellFigure::Least,
            Self::WriteAmplification => CellFigure::WriteAmplification,
            Self::ReadIops => CellFigure::ReadIops,
            Self::WriteIops => CellFigure::WriteIops,
            Self::ReadLatencyMean => CellFigure::ReadMean,
            Self::WriteLatencyMean => CellFigure::WriteMean,
            _ => return None,
        })
    }

    /// Whether the metric has one value for all thread counts of a table or figure, instead of one value per count.
    pub const fn over_threads(self) -> bool {
        matches!(self, Self::ThreadsAtPeak)
    }

    /// Recipe that computes the metric for `cell`. `depths` and `threads` are the axis values of the table or figure,
    /// ascending; `smallest` is the number of devices per volume. None for [`Self::MessagesPerS`], and for metrics that
    /// exist only at an optimum operating point.
    pub fn recipe(
        self,
        cell: CellKey,
        depths: &[u32],
        threads: &[u32],
        smallest: u32,
    ) -> Option<Recipe> {
        let all = |cell: CellKey| depths.iter().map(|&depth| CellKey { depth, ..cell }).collect();
        let max = |cell: CellKey| Recipe::MaxIops(all(cell));
        let of = Recipe::Of;
        let ratio = |a: Recipe, b: Recipe| Recipe::Ratio(Box::new(a), Box::new(b));
        let one = CellKey { devices: smallest, ..cell };
        let no_think = CellKey { think_ns: 0, ..cell };
        let shallow = CellKey { depth: 1, ..cell };
        Some(match self {
            Self::IopsMax => max(cell),
            Self::IopsFresh => of(Quantity::Iops, CellKey { before: Precondition::Fresh, ..cell }),
            Self::LatencyMeanAlone => of(Quantity::Mean, CellKey { threads: 1, ..shallow }),
            Self::IopsVsNoThink => ratio(of(Quantity::Iops, cell), of(Quantity::Iops, no_think)),
            Self::LatencyVsNoThink => ratio(of(Quantity::Mean, cell), of(Quantity::Mean, no_think)),
            Self::Knee => {
                Recipe::Little(Box::new(of(Quantity::Mean, shallow)), Box::new(max(cell)))
            }
            Self::UsefulDevices => Recipe::Saturation(one, cell),
            Self::Depth95 => Recipe::DepthReached(REACHED_SHARE, all(cell)),
            Self::IopsMaxVsOne => ratio(max(cell), max(one)),
            Self::BandwidthVsOne => {
                ratio(of(Quantity::Bandwidth, cell), of(Quantity::Bandwidth, one))
            }
            Self::LatencyVsOne => ratio(of(Quantity::Mean, cell), of(Quantity::Mean, one)),
            Self::ThreadsAtPeak => {
                let cells = threads.iter().map(|&threads| CellKey { threads, ..cell }).collect();
                Recipe::FewestThreads(PEAK_SHARE, cells)
            }
            _ => match self.cell_figure() {
                Some(figure) => Recipe::Figure(figure, cell),
                None => of(self.quantity()?, cell),
            },
        })
    }

    /// Combines the recipes of several workloads into one, for papers that report a single value for all workloads.
    pub fn together(self, each: Vec<Recipe>) -> Recipe {
        match self {
            Self::IopsLow => Recipe::Lowest(each),
            Self::IopsHigh => Recipe::Highest(each),
            _ => Recipe::Mean(each),
        }
    }
}
