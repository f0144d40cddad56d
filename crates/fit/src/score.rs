//! Predicts held-out cells, and scores the predictions. For comparison, the figures of the nearest measured cell are
//! taken as a prediction, too.

use crate::simulate::Bench;
use crate::statistic::{Figure, Statistic, simulated_ns};
use crate::{FitError, Measured, OPS_FINE};
use iodyno_measure::statistics::describe;
use iodyno_units::OpKind;
use iodyno_workload::Spec;

/// A statistic of a held-out cell, with two predictions: the value simulated on the fitted device, and the value of the
/// most similar cell that the fit used.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Name of the held-out cell.
    pub cell: String,
    /// The measured statistic. [`Statistic::cell`] is an index into the held-out cells.
    pub of: Statistic,
    /// Value simulated on the fitted device, ns.
    pub predicted_ns: f64,
    /// Value of the statistic in the most similar cell that the fit used, ns; `None` if no such cell has the statistic.
    /// Cells are similar if block size, outstanding operations and share of reads differ little.
    pub nearest_ns: Option<f64>,
}

impl Prediction {
    /// Relative error of the predicted latency or rate; positive if the prediction is too high.
    pub fn error(&self) -> f64 {
        self.of.figure.change(self.predicted_ns / self.of.value_ns)
    }

    /// Relative error of [`Self::nearest_ns`] as a prediction; positive if the latency or rate is too high. `None` if
    /// there is no such value.
    pub fn nearest_error(&self) -> Option<f64> {
        Some(self.of.figure.change(self.nearest_ns? / self.of.value_ns))
    }
}

/// Returns the medians of the absolute values of [`Prediction::error`] and [`Prediction::nearest_error`] for one
/// figure. Includes only predictions that have both; `None` if none has.
pub fn median_error(predictions: &[Prediction], figure: Figure) -> Option<(f64, f64)> {
    let of = predictions.iter().filter(|p| p.of.figure == figure);
    let (twin, nearest): (Vec<f64>, Vec<f64>) =
        of.filter_map(|p| Some((p.error().abs(), p.nearest_error()?.abs()))).unzip();
    (!twin.is_empty()).then(|| (describe::median(&twin), describe::median(&nearest)))
}

/// Median error of held-out mean latencies up to which a twin is useful in any case.
const USEFUL: f64 = 0.1;
/// Smallest number of held-out mean latencies by which a twin is called worthless.
const JUDGED_MIN: usize = 4;

/// Whether the twin's median error of mean latencies is above [`USEFUL`], and above that of the nearest measured cells.
pub(crate) fn is_worthless(predictions: &[Prediction]) -> bool {
    let is_judged = |p: &&Prediction| p.of.figure == Figure::Mean && p.nearest_ns.is_some();
    predictions.iter().filter(is_judged).count() >= JUDGED_MIN
        && median_error(predictions, Figure::Mean)
            .is_some_and(|(twin, nearest)| twin > USEFUL && twin > nearest)
}

/// Predicts the statistics of the cells `held_out` by simulating them on `twin`.
pub(crate) fn predict(
    twin: &Bench,
    fitted: &[Measured],
    held_out: &[Measured],
    seed: u64,
) -> Result<Vec<Prediction>, FitError> {
    let known: Vec<(usize, &[Statistic])> =
        fitted.iter().map(|cell| cell.observed.statistics.as_slice()).enumerate().collect();
    let mut all = Vec::new();
    for (number, measured) in held_out.iter().enumerate() {
        let simulated = twin.predict(measured, OPS_FINE.0, seed)?;
        for of in measured.observed.numbered(number) {
            let Some(predicted_ns) = simulated_ns(&of, &simulated) else { continue };
            let same = |s: &&Statistic| (s.kind, s.figure) == (of.kind, of.figure);
            let candidates = known.iter().filter_map(|(i, all)| Some((*i, all.iter().find(same)?)));
            let at = place(&measured.spec, of.kind);
            let distance = |i: usize| {
                let other = place(&fitted[i].spec, of.kind);
                at.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum::<f64>()
            };
            let nearest = candidates.min_by(|a, b| distance(a.0).total_cmp(&distance(b.0)));
            let nearest_ns = nearest.map(|(_, s)| s.value_ns);
            all.push(Prediction { cell: measured.name.clone(), of, predicted_ns, nearest_ns });
        }
    }
    Ok(all)
}

/// Coordinates of a workload, for the distance to others: logarithms of the block size and of the outstanding
/// operations, and twice the share of reads.
fn place(spec: &Spec, kind: OpKind) -> [f64; 3] {
    let bytes = spec.blocks(kind).iter().map(|block| f64::from(block.bytes)).fold(0.0, f64::max);
    let in_flight = f64::from(spec.threads()) * f64::from(spec.depth());
    let share = |of: &dyn Fn(OpKind) -> bool| -> f64 {
        spec.kinds().filter(|(kind, _)| of(*kind)).map(|(_, share)| share).sum()
    };
    let reads = share(&|kind| kind == OpKind::Read) / share(&|_| true);
    [bytes.max(1.0).ln(), in_flight.ln(), 2.0 * reads]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Predictions of a write's figure whose measured value is 100 ns.
    fn prediction(figure: Figure, predicted_ns: f64, nearest_ns: f64) -> Prediction {
        let of = Statistic { cell: 0, kind: OpKind::Write, figure, value_ns: 100.0, error: 0.01 };
        Prediction { cell: String::new(), of, predicted_ns, nearest_ns: Some(nearest_ns) }
    }

    /// A prediction of half the time between operations is one of twice the rate.
    #[test]
    fn the_error_of_a_rate_has_the_sign_of_the_rate() {
        let error = |figure| prediction(figure, 50.0, 100.0).error();
        assert!((error(Figure::Mean) + 0.5).abs() < 1e-9);
        assert!((error(Figure::Rate) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_twin_is_worthless_if_the_nearest_cells_are_better() {
        let of = |count, twin_ns, nearest_ns| {
            is_worthless(&vec![prediction(Figure::Mean, twin_ns, nearest_ns); count])
        };
        assert!(of(4, 120.0, 115.0) && of(9, 80.0, 85.0));
        assert!(!of(4, 120.0, 125.0) && !of(4, 109.0, 101.0) && !of(3, 200.0, 100.0));
    }
}
