//! Formats latency distributions as HdrHistogram's percentile text, with the columns Value, Percentile, TotalCount and
//! 1/(1-Percentile), per cell and kind of operation.
//!
//! As in HdrHistogram, there are five ticks per halving of the distance to 100 %. Values are in microseconds, exact to
//! the nanosecond, and equal the percentiles in other formats.

use iodyno_measure::Histogram;
use iodyno_notebook::Run;
use iodyno_units::text::clean;
use std::fmt::Write as _;

/// Ticks per halving of the distance to 100 %, as in HdrHistogram's percentile output.
const TICKS: f64 = 5.0;

/// Returns the percentile distributions of every cell and kind of operation, one after another. For open-loop
/// cells, the distribution of service times follows that of response times.
pub fn text(run: &Run) -> String {
    let mut out = String::new();
    for cell in &run.cells {
        let key = &cell.key;
        for (kind, stats) in cell.total().iter() {
            let service = ("service time", &stats.service);
            let both = match &stats.response {
                Some(response) => vec![("response time", response), service],
                None => vec![service],
            };
            for (what, histogram) in both.into_iter().filter(|(_, h)| h.count() > 0) {
                let title = format!(
                    "iodyno run {}, {} on {}, T{}Q{}: {} {what} in microseconds",
                    run.id,
                    key.name,
                    key.target,
                    key.threads,
                    key.depth,
                    kind.name()
                );
                let _ = writeln!(out, "# {}", clean(&title));
                distribution(&mut out, histogram);
                out.push('\n');
            }
        }
    }
    out
}

fn distribution(out: &mut String, histogram: &Histogram) {
    let us = |ns: f64| ns / 1e3;
    let total = histogram.count();
    let _ = writeln!(
        out,
        "{:>12} {:>14} {:>10} {:>14}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut level = 0.0_f64;
    let mut seen = 0;
    for bucket in histogram.buckets() {
        seen += bucket.count;
        // This is the first bucket at or below which the share `level` of the samples lies.
        while seen as f64 / total as f64 >= level {
            let value = us(histogram.quantile_ns(level).unwrap_or(0) as f64);
            let _ = writeln!(
                out,
                "{value:>12.3} {level:>14.12} {seen:>10} {:>14.2}",
                1.0 / (1.0 - level)
            );
            let halvings = (1.0 / (1.0 - level)).log2().floor() + 1.0;
            level += 1.0 / (TICKS * halvings.exp2());
            if seen == total {
                break;
            }
        }
    }
    let max = us(histogram.max_ns().unwrap_or(0) as f64);
    let _ = writeln!(out, "{max:>12.3} {:>14.12} {total:>10}", 1.0);
    let _ = writeln!(
        out,
        "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]",
        us(histogram.mean_ns().unwrap_or(0.0)),
        us(histogram.stddev_ns().unwrap_or(0.0))
    );
    let _ = writeln!(out, "#[Max     = {max:>12.3}, Total count    = {total:>12}]");
    let _ = writeln!(out, "#[Buckets = {:>12}, SubBuckets     = {:>12}]", 36, 128);
}
