//! Metrics by name: `iops`, `bandwidth`, `mean`, `p50` to `p99.999`, `max`, each for all kinds of operation or for
//! one (`read.p99`). Computes the value of a metric for a cell, or for a cell and its repeats together. Thresholds
//! ([`crate::threshold`]) and comparisons of runs use these names.
//!
//! Rates add up over kinds of operation, but latencies are never mixed: a latency metric without a kind has one value
//! per kind in the cell. A metric with too few samples has no value; a reason takes its place.

use crate::histogram::EXCEEDANCES_MIN;
use crate::statistics::compare::Better;
use crate::{Cell, ClassStats, Histogram, Interval, IoKinds};
use iodyno_units::{OpKind, human};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Quantity that a metric measures: a rate or a latency statistic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Quantity {
    /// Completed operations per second. A metric that names no kind of operation counts the kinds in [`IoKinds`].
    Iops,
    /// Bytes moved per second.
    Bandwidth,
    /// Mean latency, ns: response time in open loop, service time otherwise.
    Mean,
    /// Latency at the given quantile (between 0 and 1, exclusive), ns.
    Quantile(f64),
    /// Longest latency, ns. It may have a threshold, but comparing it makes no sense because it grows with the
    /// number of operations.
    Max,
}

impl Quantity {
    /// Whether the quantity is a latency. Latencies are given for each kind of operation separately.
    pub const fn is_latency(self) -> bool {
        matches!(self, Self::Mean | Self::Quantile(_) | Self::Max)
    }

    /// Whether a higher or a lower value is better.
    pub const fn better(self) -> Better {
        if self.is_latency() { Better::Lower } else { Better::Higher }
    }

    /// Unit of the quantity's values: `ns`, `1/s` or `bytes/s`.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Iops => "1/s",
            Self::Bandwidth => "bytes/s",
            Self::Mean | Self::Quantile(_) | Self::Max => "ns",
        }
    }

    /// Computes the quantity from a histogram of latencies, ns; None for a rate, or with too few samples.
    pub fn of(self, latencies: &Histogram) -> Option<f64> {
        match self {
            Self::Mean => latencies.mean_ns(),
            Self::Max => latencies.max_ns().map(|ns| ns as f64),
            Self::Quantile(q) => latencies.supported_quantile_ns(q).map(|ns| ns as f64),
            Self::Iops | Self::Bandwidth => None,
        }
    }

    /// Formats a value of this quantity with its unit for people.
    pub fn human(self, value: f64) -> String {
        match self {
            Self::Iops => human::count(value),
            Self::Bandwidth => human::throughput(value),
            Self::Mean | Self::Quantile(_) | Self::Max => human::time_ns(value),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iops => f.write_str("iops"),
            Self::Bandwidth => f.write_str("bandwidth"),
            Self::Mean => f.write_str("mean"),
            Self::Max => f.write_str("max"),
            Self::Quantile(q) => {
                // Decimal digits, because 0.999 × 100 is not exactly 99.9.
                let digits = format!("{q}").trim_start_matches("0.").to_owned();
                let (whole, fraction) = digits.split_at(digits.len().min(2));
                let whole = format!("{whole:0<2}");
                let whole = whole.trim_start_matches('0');
                let whole = if whole.is_empty() { "0" } else { whole };
                let point = if fraction.is_empty() { "" } else { "." };
                write!(f, "p{whole}{point}{fraction}")
            }
        }
    }
}

/// Error for a text that is not the name of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoMetric(String);

impl fmt::Display for NoMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoMetric {}

impl FromStr for Quantity {
    type Err = NoMetric;

    fn from_str(text: &str) -> Result<Self, NoMetric> {
        match text {
            "iops" => return Ok(Self::Iops),
            "bandwidth" => return Ok(Self::Bandwidth),
            "mean" => return Ok(Self::Mean),
            "max" => return Ok(Self::Max),
            _ => {}
        }
        let percent = text.strip_prefix('p').and_then(|digits| {
            let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
            let is_number = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
            let fits = (1..=2).contains(&whole.len()) && fraction.len() <= 6;
            // Built from the digits, because 99.9 / 100 is not 0.999 in binary.
            (fits && is_number(whole) && is_number(fraction))
                .then(|| format!("0.{whole:0>2}{fraction}").parse::<f64>().ok())
                .flatten()
        });
        match percent {
            Some(q) if q > 0.0 => Ok(Self::Quantile(q)),
            _ => Err(NoMetric(format!(
                "`{text}` is not a metric; use iops, bandwidth, mean, a percentile such as p50, p99 or p99.9, or max"
            ))),
        }
    }
}

impl From<Quantity> for String {
    fn from(quantity: Quantity) -> Self {
        quantity.to_string()
    }
}

impl TryFrom<String> for Quantity {
    type Error = NoMetric;

    fn try_from(text: String) -> Result<Self, NoMetric> {
        text.parse()
    }
}

/// A metric of a cell: a quantity, either over all kinds of operation or of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Metric {
    /// Kind of operation. None means all kinds: summed for rates, each separately for latencies.
    pub kind: Option<OpKind>,
    pub quantity: Quantity,
}

impl Metric {
    /// Creates the metric of `quantity` over all kinds of operation.
    pub const fn of_all(quantity: Quantity) -> Self {
        Self { kind: None, quantity }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Some(kind) => write!(f, "{}.{}", kind.name(), self.quantity),
            None => self.quantity.fmt(f),
        }
    }
}

/// Parses the name of a kind of operation, such as `read`; None if there is no such kind.
pub(crate) fn kind_named(text: &str) -> Option<OpKind> {
    OpKind::ALL.into_iter().find(|k| k.name() == text)
}

impl FromStr for Metric {
    type Err = NoMetric;

    fn from_str(text: &str) -> Result<Self, NoMetric> {
        if let Some((first, rest)) = text.split_once('.')
            && first.bytes().any(|b| !b.is_ascii_digit() && b != b'p')
        {
            let Some(kind) = kind_named(first) else {
                return Err(NoMetric(format!(
                    "`{first}` is not a kind of operation; use read, write, flush, trim or write_zeroes"
                )));
            };
            return Ok(Self { kind: Some(kind), quantity: rest.parse()? });
        }
        Ok(Self::of_all(text.parse()?))
    }
}

impl From<Metric> for String {
    fn from(metric: Metric) -> Self {
        metric.to_string()
    }
}

impl TryFrom<String> for Metric {
    type Error = NoMetric;

    fn try_from(text: String) -> Result<Self, NoMetric> {
        text.parse()
    }
}

/// Merged counts of a cell and its repeats. Percentiles come from the merged histograms. Rates are totals divided by
/// the summed length of the windows.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    total: Interval,
    seconds: f64,
}

impl Counted {
    /// Adds up the counts of `cells`.
    pub fn of<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Self {
        let mut sum = Self::default();
        for cell in cells {
            sum.total.merge(&cell.total());
            sum.seconds += cell.seconds();
        }
        sum
    }

    /// Expands `metric` into metrics with one value each. A latency without a kind becomes one metric per kind
    /// that occurred. Empty if the kind of `metric` did not occur.
    pub fn figures(&self, metric: Metric) -> Vec<Metric> {
        let mut kinds = self.total.kinds();
        match metric.kind {
            None if metric.quantity.is_latency() => {
                kinds.map(|kind| Metric { kind: Some(kind), ..metric }).collect()
            }
            Some(asked) if !kinds.any(|kind| kind == asked) => Vec::new(),
            _ => vec![metric],
        }
    }

    /// Like [`Self::figures`], but the total IOPS are followed by the IOPS of each kind of operation that the total
    /// omits, such as flushes.
    pub fn figures_apart(&self, metric: Metric) -> Vec<Metric> {
        let mut figures = self.figures(metric);
        if metric == Metric::of_all(Quantity::Iops) {
            let of = IoKinds::of(self.total.kinds());
            let beside = self.total.kinds().filter(|kind| !of.count(*kind));
            figures.extend(beside.map(|kind| Metric { kind: Some(kind), ..metric }));
        }
        figures
    }

    /// Value of a metric, in the unit of its quantity. A latency metric must name its kind of operation. The
    /// error text explains why there is no value.
    pub fn value(&self, metric: Metric) -> Result<f64, String> {
        let per_second = |n: f64| if self.seconds > 0.0 { n / self.seconds } else { 0.0 };
        let stats = metric.kind.and_then(|kind| self.total.class(kind));
        let Metric { kind, quantity } = metric;
        match (quantity, kind) {
            (Quantity::Iops, None) => {
                let of = IoKinds::of(self.total.kinds());
                return Ok(per_second(self.total.ios(of) as f64));
            }
            (Quantity::Bandwidth, None) => return Ok(per_second(self.total.bytes() as f64)),
            (Quantity::Iops, _) => return Ok(per_second(stats.map_or(0, ClassStats::ops) as f64)),
            (Quantity::Bandwidth, _) => {
                return Ok(per_second(stats.map_or(0, |s| s.bytes) as f64));
            }
            _ => {}
        }
        let name = kind.map_or("these", OpKind::name);
        let Some(response_time) = stats.map(ClassStats::response_time).filter(|h| h.count() > 0)
        else {
            return Err(format!("no {name} operation completed"));
        };
        quantity.of(response_time).ok_or_else(|| {
            let (count, needed) = (response_time.count(), samples_needed(quantity));
            let operations = if count == 1 { "operation" } else { "operations" };
            format!("{count} {name} {operations} can't support {quantity}, which needs {needed}")
        })
    }
}

/// Minimum number of completed operations for a quantity to have a value.
fn samples_needed(quantity: Quantity) -> u64 {
    match quantity {
        Quantity::Quantile(q) => (EXCEEDANCES_MIN / q.min(1.0 - q)).round() as u64,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for text in [
            "iops",
            "bandwidth",
            "mean",
            "max",
            "p50",
            "p5",
            "p1",
            "p0.5",
            "p90",
            "p99",
            "p99.9",
            "p99.999",
            "p12.5",
            "read.p99.9",
            "write.iops",
            "write_zeroes.mean",
            "flush.max",
        ] {
            let metric: Metric = text.parse().unwrap();
            assert_eq!(metric.to_string(), text);
            assert_eq!(
                metric.kind.is_some(),
                text.contains('_')
                    || text.contains("e.")
                    || text.contains("d.")
                    || text.contains("h."),
                "{text}"
            );
        }
        let q: Quantity = "p99.9".parse().unwrap();
        assert_eq!(q, Quantity::Quantile(0.999), "exactly the quantile that tables show");
        for text in
            ["", "p", "p100", "p0", "p99.", "p-1", "P99", "p1e1", "iop", "reed.p99", "read."]
        {
            let read = text.parse::<Metric>();
            assert!(read.is_err() || text == "p99.", "{text}: {read:?}");
        }
    }

    /// IOPS include only reads and writes, and flushes have a rate of their own. Without reads and writes, IOPS
    /// include all operations.
    #[test]
    fn iops_are_reads_and_writes() {
        let cell = |kinds: &[(OpKind, u64)]| {
            let mut interval = Interval::default();
            for &(kind, n) in kinds {
                interval.class_mut(kind).service.record_n(1_000, n);
            }
            // The last interval has only flushes, which do not count as I/Os.
            let mut last = Interval::default();
            last.class_mut(OpKind::Flush).service.record_n(1_000, 7);
            let with_flushes = kinds.iter().any(|(kind, _)| *kind == OpKind::Flush);
            let series = if with_flushes { vec![interval, last] } else { vec![interval] };
            Cell { window_ns: 1_000_000_000, interval_ns: 1_000_000_000, series, ..Cell::default() }
        };
        let mix = [(OpKind::Read, 70), (OpKind::Write, 30), (OpKind::Flush, 23), (OpKind::Trim, 5)];
        for (kinds, iops, beside) in [
            (&mix[..], 100.0, &["flush.iops", "trim.iops"][..]),
            (&mix[..2], 100.0, &[]),
            (&mix[1..3], 30.0, &["flush.iops"]),
            (&mix[2..], 35.0, &[]),
            (&mix[3..], 5.0, &[]),
        ] {
            let cell = cell(kinds);
            let counted = Counted::of([&cell]);
            assert_eq!(counted.value("iops".parse().unwrap()), Ok(iops), "{kinds:?}");
            assert_eq!(Ok(cell.iops()), counted.value("iops".parse().unwrap()));
            let summary = crate::Summary::of(&cell);
            assert_eq!(summary.get(Quantity::Iops), Some(iops), "{kinds:?}");
            assert_eq!(cell.recorded().1.iter().sum::<u64>(), iops as u64, "{kinds:?}");
            let figures = counted.figures_apart("iops".parse().unwrap());
            let names: Vec<String> = figures.iter().map(Metric::to_string).collect();
            assert_eq!(names[0], "iops");
            assert_eq!(names[1..], *beside, "{kinds:?}");
            let all: f64 = figures.iter().map(|metric| counted.value(*metric).unwrap()).sum();
            assert_eq!((all as u64, all as u64), (summary.ops, summary.ops_per_s as u64));
        }
    }

    /// Over repeats, rates use the total time and percentiles use all operations.
    #[test]
    fn repeats_are_counted_together() {
        let cell = |reads_ns: u64, n: u64, seconds: u64| {
            let mut interval = Interval::default();
            let read = interval.class_mut(OpKind::Read);
            read.service.record_n(reads_ns, n);
            read.bytes = 4096 * n;
            Cell { window_ns: seconds * 1_000_000_000, series: vec![interval], ..Cell::default() }
        };
        let cells = [cell(1_000, 1_000, 1), cell(4_000, 3_000, 3)];
        let counted = Counted::of(&cells);
        let value = |text: &str| counted.value(text.parse().unwrap());
        assert_eq!(value("iops"), Ok(1_000.0));
        assert_eq!(value("read.bandwidth"), Ok(4_096_000.0));
        assert_eq!(value("read.mean"), Ok(3_250.0));
        assert!((value("read.p50").unwrap() - 4_000.0).abs() < 40.0);
        assert_eq!(value("write.iops"), Ok(0.0));
        let why = value("read.p99.9").unwrap_err();
        assert!(why.contains("4000 read operations") && why.contains("10000"), "{why}");
        assert!(value("write.p50").unwrap_err().contains("no write operation"));
        let p99: Metric = "p99".parse().unwrap();
        assert_eq!(counted.figures(p99), vec!["read.p99".parse().unwrap()]);
        assert_eq!(counted.figures("write.p99".parse().unwrap()), Vec::new());
        assert_eq!(counted.figures("iops".parse().unwrap()).len(), 1);
    }
}
