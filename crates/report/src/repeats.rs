//! Combines the repeats of a cell (measurement): means of rates and latencies with confidence intervals, and
//! percentiles over all operations. The intervals cover variation between repeats within one run, but not between runs
//! or devices.

use iodyno_measure::metric::Counted;
use iodyno_measure::statistics::repeats::{self, MeanOfRuns};
use iodyno_measure::summary::is_about_bandwidth;
use iodyno_measure::threshold::{unusable, with_repeats};
use iodyno_measure::{Cell, CellKey, Metric, Quantity};
use iodyno_notebook::Run;

/// Explains the variation that a confidence interval over repeats covers.
pub(crate) const COVERS: &str = "repeats of the cell within this run, not other runs or devices";

/// Confidence level of the intervals over repeats.
const LEVEL: f64 = 0.95;

/// A metric of a cell, combined over its repeats.
pub(crate) struct Repeated<'a> {
    /// Name, target, workload and load of the cell, from the first repeat.
    pub key: &'a CellKey,
    pub metric: Metric,
    /// Number of usable repeats. Excludes repeats that are INVALID or were cut short.
    pub count: usize,
    /// Combined value: for rates and means, the mean over the repeats; for percentiles, the percentile of all
    /// operations pooled.
    pub value: f64,
    /// Mean over the repeats, with its confidence interval; None for percentiles, which can't be averaged.
    pub mean: Option<MeanOfRuns>,
    /// Smallest and largest value among the repeats.
    pub range: (f64, f64),
}

/// The combined metrics of all cells that have several repeats.
pub(crate) fn of(run: &Run) -> Vec<Repeated<'_>> {
    let mut all = Vec::new();
    for group in with_repeats(&run.cells).into_iter().filter(|group| group.len() > 1) {
        let usable: Vec<&Cell> =
            group.iter().copied().filter(|cell| unusable(cell).is_none()).collect();
        let key = &group[0].key;
        let together = Counted::of(usable.iter().copied());
        let apart: Vec<Counted> = usable.iter().map(|cell| Counted::of([*cell])).collect();
        let rate = if is_about_bandwidth(key.block_bytes()) {
            Quantity::Bandwidth
        } else {
            Quantity::Iops
        };
        for quantity in [rate, Quantity::Mean, Quantity::Quantile(0.99)] {
            for metric in together.figures_apart(Metric::of_all(quantity)) {
                let values = apart.iter().map(|c| c.value(metric)).collect::<Result<Vec<_>, _>>();
                let (Ok(values), Ok(value)) = (values, together.value(metric)) else { continue };
                let Ok(mean) = repeats::mean(&values, LEVEL) else { continue };
                let is_percentile = matches!(quantity, Quantity::Quantile(_));
                all.push(Repeated {
                    key,
                    metric,
                    count: values.len(),
                    value: if is_percentile { value } else { mean.mean },
                    mean: (!is_percentile).then_some(mean),
                    range: values
                        .iter()
                        .fold((f64::INFINITY, 0.0), |(low, high), v| (v.min(low), v.max(high))),
                });
            }
        }
    }
    all
}
