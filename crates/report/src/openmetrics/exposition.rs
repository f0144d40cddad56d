//! Metric families as text. Names of families do not have the suffixes of their samples.

use super::Sample;
use iodyno_measure::Histogram;
use std::fmt::Write as _;

/// Upper bounds of the histogram buckets within a decade, in tenths of its lower end (10: 1.0 times).
const BOUNDS: [u64; 6] = [10, 15, 20, 30, 50, 70];
/// Exponents of the decades, as powers of ten in ns: from 100 ns to below 10 s.
const DECADES: std::ops::RangeInclusive<i32> = 2..=9;

/// Builder of OpenMetrics text. Omits metric families without samples.
#[derive(Default)]
pub(super) struct Exposition {
    text: String,
}

impl Exposition {
    pub(super) fn info(&mut self, name: &str, help: &str, labels: &[String]) {
        if labels.is_empty() {
            return;
        }
        self.head(name, "info", None, help);
        for labels in labels {
            let _ = writeln!(self.text, "{name}_info{{{labels}}} 1");
        }
    }

    pub(super) fn counter(
        &mut self,
        name: &str,
        unit: Option<&str>,
        help: &str,
        samples: &[Sample],
    ) {
        self.plain(name, "counter", "_total", unit, help, samples);
    }

    pub(super) fn gauge(&mut self, name: &str, unit: Option<&str>, help: &str, samples: &[Sample]) {
        self.plain(name, "gauge", "", unit, help, samples);
    }

    fn plain(
        &mut self,
        name: &str,
        kind: &str,
        suffix: &str,
        unit: Option<&str>,
        help: &str,
        samples: &[Sample],
    ) {
        if samples.is_empty() {
            return;
        }
        self.head(name, kind, unit, help);
        for (labels, value) in samples {
            let _ = writeln!(self.text, "{name}{suffix}{{{labels}}} {value}");
        }
    }

    /// Adds latency histograms, converted from ns to seconds. A stored bucket counts towards an exported bucket
    /// if its middle lies below the upper bound; all its values are within 0.4 % of the middle.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        unit: &str,
        help: &str,
        all: &[(String, &Histogram)],
    ) {
        if all.is_empty() {
            return;
        }
        self.head(name, "histogram", Some(unit), help);
        for (labels, histogram) in all {
            let mut buckets = histogram.buckets().peekable();
            let mut below = 0;
            for (bound_ns, bound) in bounds() {
                while let Some(bucket) = buckets.next_if(|b| b.middle_ns() <= bound_ns as f64) {
                    below += bucket.count;
                }
                let _ = writeln!(self.text, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}");
            }
            let count = histogram.count();
            let sum = histogram.sum_ns() as f64 / 1e9;
            let _ = writeln!(self.text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
            let _ = writeln!(self.text, "{name}_count{{{labels}}} {count}");
            let _ = writeln!(self.text, "{name}_sum{{{labels}}} {sum}");
        }
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push_str("# EOF\n");
        self.text
    }

    fn head(&mut self, name: &str, kind: &str, unit: Option<&str>, help: &str) {
        let _ = writeln!(self.text, "# TYPE {name} {kind}");
        if let Some(unit) = unit {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {name} {help}");
    }
}

/// Iterates over the upper bounds of the buckets: in ns, and in seconds as a canonical OpenMetrics number.
fn bounds() -> impl Iterator<Item = (u64, String)> {
    DECADES.flat_map(|decade| {
        BOUNDS.iter().map(move |tenths| {
            (tenths * 10_u64.pow(decade as u32) / 10, canonical(*tenths, decade - 9))
        })
    })
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
}
