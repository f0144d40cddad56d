//! Combines the repeats of a cell (measurement): means of rates and latencies with confidence intervals, and
//! percentiles over all operations. The intervals cover variation between repeats within one run, but not between runs
//! or devices.

use crate::method::findings_of;
use iodyno_measure::metric::Counted;
use iodyno_measure::statistics::repeats::{self, MeanOfRuns};
use iodyno_measure::summary::is_about_bandwidth;
use iodyno_measure::threshold::{unusable, with_repeats};
use iodyno_measure::{Cell, CellKey, Metric, Quantity, Role};
use iodyno_method::findings::Showed;
use iodyno_notebook::Run;
use std::collections::BTreeMap;
use std::ops::Range;

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

/// Groups each cell of a run with its repeats, as [`with_repeats`] does. In a method, the rounds of a sweep are repeats
/// too, and so are the rounds in which a target was steady; the rounds before are left out.
pub(crate) fn groups(run: &Run) -> Vec<Vec<&Cell>> {
    let rounds = rounds_that_count(run);
    let of_stage = |cell: &Cell| {
        let place = cell.key.place.as_ref().filter(|place| place.role == Role::Measure)?;
        Some((rounds.get(&(place.subject, place.stage))?, place.round))
    };
    let mut groups: Vec<Vec<&Cell>> = Vec::new();
    for mut group in with_repeats(&run.cells) {
        group.retain(|cell| of_stage(cell).is_none_or(|(all, round)| all.contains(&round)));
        let Some(first) = group.first() else { continue };
        let coordinates = of_stage(first).map(|_| first.key.coordinates());
        let mut known = groups.iter_mut();
        match known.find(|other| coordinates.as_ref() == Some(&other[0].key.coordinates())) {
            Some(other) => other.extend(group),
            None => groups.push(group),
        }
    }
    groups
}

/// The rounds of a method's stages that count as repeats, by subject and stage.
fn rounds_that_count(run: &Run) -> BTreeMap<(u32, u32), Range<u32>> {
    let mut all = BTreeMap::new();
    let subjects = findings_of(run).into_iter().flat_map(|findings| findings.subjects);
    // A method begins with the first target and goes on in order.
    for (number, subject) in (0..).zip(subjects) {
        for (stage, finding) in (0..).zip(&subject.stages) {
            let rounds = match &finding.showed {
                Some(Showed::Sweep(_)) => 0..u32::MAX,
                Some(Showed::Rounds(rounds)) => rounds.window_first - 1..rounds.rounds,
                _ => continue,
            };
            all.insert((number, stage), rounds);
        }
    }
    all
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
