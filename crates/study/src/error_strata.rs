//! Groups errors into strata of comparable rows. A single mean over all rows would mostly reflect the proportion of
//! fitted values and the number of rows per device.

use crate::provenance::Provenance;
use crate::row::{Nearer, Row};
use crate::study::Study;
use crate::wanted::Wanted;
use std::collections::BTreeMap;

/// Comparable rows with a published value: same provenance, workload and metric, and either all with one device
/// or all with several.
#[derive(Clone, Debug, PartialEq)]
pub struct Stratum {
    /// Provenance of all simulated values in the stratum.
    pub basis: Provenance,
    /// Name of the workload, without its think time.
    pub workload: String,
    /// Name of the metric, as in study files.
    pub metric: String,
    /// Whether the rows have more than one device.
    pub several_devices: bool,
    /// Number of published values in the stratum, including flagged ones.
    pub rows: usize,
    /// Number of published values that are not scored because they can't be right.
    pub flagged: usize,
    /// Number of simulated values within the rounding interval of the published value.
    pub within: usize,
    /// Relative errors of the simulated values, except where the published value is only a bound.
    pub error: Spread,
    /// Parts of the errors that exceed the rounding of the published values, over all scored values.
    pub outside: Spread,
    /// Like `outside`, for the null model (a prediction without a device model). Covers only the values that the null
    /// model predicts.
    pub null_outside: Spread,
    /// Number of values that the null model (a prediction without a device model) predicts.
    pub with_null: usize,
    /// Number of simulated values that are closer to the published value than the null model (a prediction without a
    /// device model).
    pub better: usize,
    /// Number of simulated values that are as close to the published value as the null model (a prediction without a
    /// device model).
    pub equal: usize,
}

/// Mean, median and maximum of absolute relative errors. All are None if there are no errors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Arithmetic mean of the absolute errors.
    pub mean: Option<f64>,
    /// Median of the absolute errors; for an even number, the mean of the two middle ones.
    pub median: Option<f64>,
    /// Largest of the absolute errors.
    pub max: Option<f64>,
}

impl Spread {
    /// Computes the statistics of the absolute values of relative errors.
    pub fn of(errors: impl Iterator<Item = f64>) -> Self {
        let mut sizes: Vec<f64> = errors.map(f64::abs).collect();
        sizes.sort_by(f64::total_cmp);
        let n = sizes.len();
        let Some(&max) = sizes.last() else { return Self::default() };
        Self {
            mean: Some(sizes.iter().sum::<f64>() / n as f64),
            median: Some(f64::midpoint(sizes[(n - 1) / 2], sizes[n / 2])),
            max: Some(max),
        }
    }
}

/// The key of a stratum: provenance, whether there are several devices, metric, workload.
type Name = (Provenance, bool, String, String);

/// Groups the rows with published values into strata, predictions last.
pub(crate) fn strata(study: &Study, rows: &[Row]) -> Vec<Stratum> {
    let mut groups: BTreeMap<Name, Vec<(&Wanted, &Row)>> = BTreeMap::new();
    for (wanted, row) in study.rows.iter().zip(rows).filter(|(w, _)| w.printed.is_some()) {
        let name = wanted.key.workload.as_str();
        let workload = name.split_once("+thinktime").map_or(name, |(name, _)| name).to_owned();
        let several = wanted.key.devices.is_some_and(|n| n > 1);
        let key = (wanted.basis, several, wanted.key.metric.clone(), workload);
        groups.entry(key).or_default().push((wanted, row));
    }
    groups.into_iter().map(|(key, rows)| stratum(study, key, &rows)).collect()
}

fn stratum(
    study: &Study,
    (basis, several_devices, metric, workload): Name,
    rows: &[(&Wanted, &Row)],
) -> Stratum {
    let scored: Vec<_> = rows.iter().filter(|(_, row)| !row.flagged).collect();
    let two_sided =
        |wanted: &Wanted| wanted.printed.is_some_and(|i| !study.printed[i].is_one_sided());
    let plain = scored.iter().filter(|(wanted, _)| two_sided(wanted));
    let outside = || scored.iter().filter_map(|(_, row)| row.score.map(|s| s.outside));
    let nulls = || scored.iter().filter_map(|(_, row)| row.null.and_then(|null| null.score));
    let nearer = |who| scored.iter().filter(|(_, row)| row.nearer() == Some(who)).count();
    Stratum {
        basis,
        workload,
        metric,
        several_devices,
        rows: rows.len(),
        flagged: rows.len() - scored.len(),
        within: outside().filter(|outside| outside.abs() <= 0.0).count(),
        error: Spread::of(plain.filter_map(|(_, row)| row.score.map(|s| s.error))),
        outside: Spread::of(outside()),
        null_outside: Spread::of(nulls().map(|score| score.outside)),
        with_null: nulls().count(),
        better: nearer(Nearer::Ours),
        equal: nearer(Nearer::Equal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads() {
        let spread = Spread::of([0.1, -0.4, 0.2, 0.0].into_iter());
        assert!((spread.mean.unwrap() - 0.175).abs() < 1e-12);
        assert!((spread.median.unwrap() - 0.15).abs() < 1e-12);
        assert_eq!(spread.max, Some(0.4));
        assert_eq!(Spread::of([0.3].into_iter()).median, Some(0.3));
        assert_eq!(Spread::of(core::iter::empty()), Spread::default());
    }
}
