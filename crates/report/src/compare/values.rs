//! Computes the values to compare: one per run or, if each side is a single run, one per repeat of the cell. Both
//! kinds are never mixed, because repeats within a run share conditions that differ between runs. With several runs,
//! the repeats of a run are merged into one value.

use super::pairing::{Entry, omission};
use super::{Covers, Omission, Row, remark};
use iodyno_measure::metric::Counted;
use iodyno_measure::statistics::compare::{Comparison, Difference, Pair};
use iodyno_measure::{Cell, CellKey, Level, Metric, Verdict};

/// A row of the comparison before the statistical test.
pub(super) struct Draft {
    keys: [CellKey; 2],
    metric: Metric,
    covers: Covers,
    values: [Vec<f64>; 2],
}

impl Draft {
    /// Returns the values of both sides in the form that the statistical test takes.
    pub(super) fn pair(&self) -> Pair {
        Pair {
            name: format!("{} {}", self.keys[0].name, self.metric),
            a: self.values[0].clone(),
            b: self.values[1].clone(),
            better: self.metric.quantity.better(),
        }
    }

    /// Whether a requested `metric` includes the row's metric, as `p99` includes `read p99`.
    pub(super) fn is_of(&self, metric: Metric) -> bool {
        self.metric.quantity == metric.quantity
            && (metric.kind.is_none() || self.metric.kind == metric.kind)
    }

    /// Combines the draft with the result of its statistical test.
    pub(super) fn row(self, comparison: Comparison) -> Row {
        let ([a_key, b_key], [a, b]) = (self.keys, self.values);
        let runs_needed = match comparison.difference {
            Difference::TooFewRuns { runs_needed, .. } => Some(runs_needed),
            _ => None,
        };
        let (metric, covers) = (self.metric, self.covers);
        Row { a_key, b_key, metric, covers, a, b, comparison, runs_needed }
    }
}

/// Returns the rows to compare for a pair of cells. A metric without values on both sides is listed as an
/// omission instead.
pub(super) fn drafts(
    pair: &[Entry; 2],
    metrics: &[Metric],
    omissions: &mut Vec<Omission>,
) -> Vec<Draft> {
    let groups = pair.each_ref().map(|entry| groups(entry));
    let by_runs = groups.iter().any(|side| side.len() > 1);
    let counted: [Vec<Counted>; 2] = groups.map(|side| {
        if by_runs {
            side.into_iter().map(Counted::of).collect()
        } else {
            side.into_iter().flatten().map(|cell| Counted::of([cell])).collect()
        }
    });
    let covers = match (by_runs, counted.iter().any(|side| side.len() > 1)) {
        (true, _) => Covers::Runs,
        (false, true) => Covers::Repeats,
        (false, false) => Covers::Nothing,
    };
    let keys = pair.each_ref().map(|e| e.first().map_or_else(|| e.key.clone(), |c| c.key.clone()));
    let mut drafts = Vec::new();
    for &metric in metrics {
        let mut leave_out = |side, metric, why: String, is_loss| {
            let of_cell = omission(&pair[usize::from(side == "b")], side, why);
            omissions.push(Omission { metric: Some(metric), is_loss, ..of_cell });
        };
        let figures = figures(&counted, metric);
        if figures.is_empty() {
            leave_out(
                "both",
                metric,
                "neither side issued operations of this kind".to_owned(),
                false,
            );
        }
        'figures: for metric in figures {
            let mut values = [Vec::new(), Vec::new()];
            for (side, name) in [(0, "a"), (1, "b")] {
                let all = counted[side].iter().map(|c| c.value(metric));
                let (found, missing): (Vec<_>, Vec<_>) = all.partition(Result::is_ok);
                let zero = || "the value is 0, so a relative shift is undefined".to_owned();
                let found: Vec<f64> = found.into_iter().flatten().collect();
                let why = missing.into_iter().find_map(Result::err);
                let why = why.or_else(|| found.iter().any(|v| *v <= 0.0).then(zero));
                if let Some(why) = why {
                    leave_out(name, metric, why, true);
                    continue 'figures;
                }
                values[side] = found;
            }
            drafts.push(Draft { keys: keys.clone(), metric, covers, values });
        }
    }
    drafts
}

/// Expands a requested metric to one metric per kind of operation that occurs on either side.
fn figures(counted: &[Vec<Counted>; 2], metric: Metric) -> Vec<Metric> {
    let mut figures: Vec<Metric> = Vec::new();
    for figure in counted.iter().flatten().flat_map(|c| c.figures_apart(metric)) {
        if !figures.contains(&figure) {
            figures.push(figure);
        }
    }
    figures.sort_by_key(|m| m.kind);
    figures
}

/// The entry's cells, grouped by run, without duplicates of simulated cells ([`is_copy`]).
fn groups<'a>(entry: &Entry<'a>) -> Vec<Vec<&'a Cell>> {
    let mut seen: Vec<&Cell> = Vec::new();
    let mut groups = Vec::new();
    for (_, cells) in &entry.runs {
        let fresh: Vec<&Cell> =
            cells.iter().copied().filter(|c| !seen.iter().any(|s| is_copy(s, c))).collect();
        seen.extend(&fresh);
        if !fresh.is_empty() {
            groups.push(fresh);
        }
    }
    groups
}

/// Whether two simulated cells are duplicates. Simulations with the same seed give identical results;
/// counting them twice would overstate the certainty.
fn is_copy(one: &Cell, other: &Cell) -> bool {
    one.evidence.virtual_time
        && other.evidence.virtual_time
        && one.key.seed == other.key.seed
        && one.key.target == other.key.target
        && one.series == other.series
}

/// Adds remarks on duplicate simulated cells that were left out.
pub(super) fn copies(pairs: &[[Entry; 2]], remarks: &mut Vec<Verdict>) {
    let copies: usize = pairs
        .iter()
        .flatten()
        .map(|e| e.cells().count() - groups(e).iter().map(Vec::len).sum::<usize>())
        .sum();
    if copies > 0 {
        let (cells, were) =
            if copies == 1 { ("cell", "is a copy") } else { ("cells", "are copies") };
        remarks.push(remark(
            "SAME_SEED",
            Level::Warning,
            format!(
                "{copies} {cells} in virtual time {were} of another on the same side, because the same seed gives the same run: they count once; give each run its own --seed, or use --repeat"
            ),
        ));
    }
}
