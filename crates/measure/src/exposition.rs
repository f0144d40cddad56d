//! Metrics as text, in the two formats that Prometheus scrapes: metric families, their samples, and latency
//! histograms with exemplars. The name of a family ends with its unit: `_seconds`, `_bytes` or `_ratio`.

use crate::Histogram;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Text format in which Prometheus scrapes metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// OpenMetrics 1.0: with units, exemplars and an end marker.
    OpenMetrics,
    /// Prometheus' older text format 0.0.4.
    Prometheus,
}

impl TextFormat {
    /// Value of the HTTP header Content-Type for this format.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Units that the name of a metric family may end with.
const UNITS: [&str; 3] = ["seconds", "bytes", "ratio"];
/// Upper bounds of the histogram buckets within a decade, in tenths of the decade's lower end: 15 means 1.5 times.
const BOUNDS: [u64; 6] = [10, 15, 20, 30, 50, 70];
/// Exponents of the decades, as powers of ten in ns: from 100 ns to below 10 s.
const DECADES: std::ops::RangeInclusive<i32> = 2..=9;

/// Labels (without braces) and value of a sample.
pub type Sample = (String, f64);

/// Labels (without braces), values and exemplars of a latency histogram.
pub type LatencySample<'a> = (String, &'a Histogram, &'a Exemplars);

/// A recorded operation that is an example of the values in a histogram's bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Exemplar {
    /// Labels without braces; at most 128 characters of names and values, as OpenMetrics requires.
    labels: String,
    latency_ns: u64,
    /// Unix time, ns; `None` if unknown.
    unix_ns: Option<u64>,
}

/// Exemplars of a latency histogram: the slowest of the offered operations in each exported bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exemplars {
    /// Exemplars by the upper bound of the exported bucket, ns; `u64::MAX` for `+Inf`.
    of_bucket: BTreeMap<u64, Exemplar>,
}

impl Exemplars {
    /// Offers an operation as exemplar. Its exact latency selects the exported bucket. Each bucket keeps the slowest
    /// operation. `unix_ns` is the Unix time of the operation, `None` if unknown. `labels` returns at most 128
    /// characters.
    pub fn offer(
        &mut self,
        latency_ns: u64,
        unix_ns: Option<u64>,
        labels: impl FnOnce() -> String,
    ) {
        let bound = bounds_ns().find(|bound| latency_ns <= *bound).unwrap_or(u64::MAX);
        if self.of_bucket.get(&bound).is_none_or(|kept| latency_ns > kept.latency_ns) {
            self.of_bucket.insert(bound, Exemplar { labels: labels(), latency_ns, unix_ns });
        }
    }

    /// Formats the exemplar of a bucket as OpenMetrics requires, empty if there is none.
    fn text(&self, bound: u64) -> String {
        let Some(Exemplar { labels, latency_ns, unix_ns }) = self.of_bucket.get(&bound) else {
            return String::new();
        };
        let mut text = format!(" # {{{labels}}} {}", *latency_ns as f64 / 1e9);
        if let Some(unix_ns) = unix_ns {
            let unix_ms = unix_ns / 1_000_000;
            let _ = write!(text, " {}.{:03}", unix_ms / 1000, unix_ms % 1000);
        }
        text
    }
}

/// Builder of a metrics text. Omits metric families without samples.
#[derive(Debug)]
pub struct Exposition {
    text: String,
    format: TextFormat,
}

impl Exposition {
    pub const fn new(format: TextFormat) -> Self {
        Self { text: String::new(), format }
    }

    /// Adds an info metric: one sample of value 1 for each set of labels. `name` excludes the suffix `_info`.
    pub fn info(&mut self, name: &str, help: &str, labels: &[String]) {
        let samples: Vec<Sample> = labels.iter().map(|labels| (labels.clone(), 1.0)).collect();
        // The older format has no such type.
        let kind = if self.format == TextFormat::OpenMetrics { "info" } else { "gauge" };
        self.plain(name, "_info", kind, help, &samples);
    }

    /// Adds a counter. `name` excludes the suffix `_total`.
    pub fn counter(&mut self, name: &str, help: &str, samples: &[Sample]) {
        self.plain(name, "_total", "counter", help, samples);
    }

    pub fn gauge(&mut self, name: &str, help: &str, samples: &[Sample]) {
        self.plain(name, "", "gauge", help, samples);
    }

    fn plain(&mut self, name: &str, suffix: &str, kind: &str, help: &str, samples: &[Sample]) {
        if samples.is_empty() {
            return;
        }
        self.head(name, suffix, kind, help);
        for (labels, value) in samples {
            let _ = writeln!(self.text, "{name}{suffix}{{{labels}}} {value}");
        }
    }

    /// Adds latency histograms, converted from ns to seconds. The exported buckets are wider than the stored ones. A
    /// stored bucket counts as below an exported upper bound if its middle does not exceed that bound. The middle
    /// differs from each value in the stored bucket by at most 0.4 %.
    pub fn histogram(&mut self, name: &str, help: &str, all: &[LatencySample<'_>]) {
        if all.is_empty() {
            return;
        }
        self.head(name, "", "histogram", help);
        for (labels, histogram, exemplars) in all {
            let exemplar = |bound| match self.format {
                TextFormat::OpenMetrics => exemplars.text(bound),
                TextFormat::Prometheus => String::new(),
            };
            let text = &mut self.text;
            let mut buckets = histogram.buckets().peekable();
            let mut below = 0;
            for (bound_ns, bound) in bounds() {
                while let Some(bucket) = buckets.next_if(|b| b.middle_ns() <= bound_ns as f64) {
                    below += bucket.count;
                }
                let exemplar = exemplar(bound_ns);
                let _ =
                    writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}{exemplar}");
            }
            let (count, exemplar) = (histogram.count(), exemplar(u64::MAX));
            let sum = histogram.sum_ns() as f64 / 1e9;
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}{exemplar}");
            let _ = writeln!(text, "{name}_count{{{labels}}} {count}");
            let _ = writeln!(text, "{name}_sum{{{labels}}} {sum}");
        }
    }

    /// Returns the complete text. In OpenMetrics, the text ends with an end marker (`# EOF`).
    pub fn finish(mut self) -> String {
        if self.format == TextFormat::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    /// Writes the TYPE, UNIT and HELP lines of a family. They contain the name of the family in OpenMetrics, and the
    /// name of its samples, which ends with `suffix`, in the older format.
    fn head(&mut self, name: &str, suffix: &str, kind: &str, help: &str) {
        let is_open = self.format == TextFormat::OpenMetrics;
        let suffix = if is_open { "" } else { suffix };
        let _ = writeln!(self.text, "# TYPE {name}{suffix} {kind}");
        let unit = name.rsplit('_').next().filter(|end| UNITS.contains(end));
        if let Some(unit) = unit.filter(|_| is_open) {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {name}{suffix} {help}");
    }
}

/// Formats label pairs without the surrounding braces. Escapes the values and removes control characters.
pub fn labels(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs.iter().map(|(name, value)| {
        let clean = iodyno_units::text::clean(value);
        let value = clean.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    });
    pairs.collect::<Vec<_>>().join(",")
}

/// Iterates over the upper bounds of the buckets below `+Inf`: in ns, and in seconds as a canonical OpenMetrics number.
fn bounds() -> impl Iterator<Item = (u64, String)> {
    DECADES.flat_map(|decade| {
        BOUNDS.iter().map(move |tenths| (bound_ns(*tenths, decade), canonical(*tenths, decade - 9)))
    })
}

fn bounds_ns() -> impl Iterator<Item = u64> {
    DECADES.flat_map(|decade| BOUNDS.iter().map(move |tenths| bound_ns(*tenths, decade)))
}

const fn bound_ns(tenths: u64, decade: i32) -> u64 {
    tenths * 10_u64.pow(decade as u32) / 10
}

/// Formats `tenths` / 10 × 10^`exponent` as a canonical OpenMetrics number.
fn canonical(tenths: u64, exponent: i32) -> String {
    let mantissa = tenths as f64 / 10.0;
    if exponent < -4 {
        return format!("{mantissa}e-{:02}", -exponent);
    }
    format!("{:?}", format!("{mantissa}e{exponent}").parse::<f64>().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_rise_and_are_canonical() {
        let all: Vec<(u64, String)> = bounds().collect();
        for pair in all.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{pair:?}");
        }
        for (ns, text) in &all {
            let seconds: f64 = text.parse().unwrap();
            assert!((seconds * 1e9 / *ns as f64 - 1.0).abs() < 1e-9, "{ns} {text}");
        }
        for text in ["1e-07", "1.5e-06", "7e-05", "0.0001", "0.015", "0.5", "1.0", "7.0"] {
            assert!(all.iter().any(|(_, t)| t == text), "{text}");
        }
    }

    #[test]
    fn a_label_stays_on_its_line() {
        assert_eq!(labels(&[("a", "b\\c \"d\""), ("e", "")]), r#"a="b\\c \"d\"",e="""#);
        assert!(!labels(&[("a", "b\nc")]).contains('\n'));
    }

    /// Both formats of a histogram with three values in a bucket, one in another, and one above all bounds.
    #[test]
    fn an_exemplar_is_the_slowest_of_its_bucket() {
        let mut histogram = Histogram::new();
        let mut exemplars = Exemplars::default();
        let unix_ns = 1_700_000_000_012_345_678;
        for (at, ns) in [160, 190, 170, 1_900_000, 50_000_000_000].into_iter().enumerate() {
            histogram.record(ns);
            let unix_ns = (ns > 190).then_some(unix_ns);
            exemplars.offer(ns, unix_ns, || labels(&[("at", &at.to_string())]));
        }
        let text = |format| {
            let mut out = Exposition::new(format);
            let labels = labels(&[("kind", "read")]);
            out.histogram("a_seconds", "Help.", &[(labels, &histogram, &exemplars)]);
            out.finish()
        };
        let open = text(TextFormat::OpenMetrics);
        let expected = [
            "# TYPE a_seconds histogram",
            "# UNIT a_seconds seconds",
            "# HELP a_seconds Help.",
            r#"a_seconds_bucket{kind="read",le="1.5e-07"} 0"#,
            r#"a_seconds_bucket{kind="read",le="2e-07"} 3 # {at="1"} 0.00000019"#,
            r#"a_seconds_bucket{kind="read",le="0.002"} 4 # {at="3"} 0.0019 1700000000.012"#,
            r#"a_seconds_bucket{kind="read",le="7.0"} 4"#,
            r#"a_seconds_bucket{kind="read",le="+Inf"} 5 # {at="4"} 50 1700000000.012"#,
            r#"a_seconds_count{kind="read"} 5"#,
            r#"a_seconds_sum{kind="read"} 50.00190052"#,
            "# EOF",
        ];
        for line in expected {
            assert!(open.lines().any(|of| of == line), "{line}\n{open}");
        }
        // The older format has the same samples, without exemplars.
        let without = |line: &str| line.split(" # ").next().unwrap().to_owned();
        let open: Vec<String> =
            open.lines().filter(|l| !l.starts_with("# ")).map(without).collect();
        let older = text(TextFormat::Prometheus);
        let (comments, older): (Vec<&str>, Vec<&str>) =
            older.lines().partition(|line| line.starts_with("# "));
        assert_eq!(comments, ["# TYPE a_seconds histogram", "# HELP a_seconds Help."]);
        assert_eq!(older, open);
    }
}
