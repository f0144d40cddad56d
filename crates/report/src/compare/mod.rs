//! Compares runs A and B cell by cell (a cell is one measurement). Each metric is slower, faster or the same in B, or
//! undecided.
//!
//! `pairing.rs` pairs the cells, `values.rs` computes their values, and `conditions.rs` lists differing conditions;
//! [`iodyno_measure::statistics::compare`] tests the differences. Each run contributes one value. If each side is a
//! single run with repeats of its cells, each repeat contributes one value instead, and the confidence interval covers
//! only variation between repeats. Each omission is listed with its reason.
//!
//! Like everything in this crate, a comparison is a pure function of stored runs.

mod conditions;
mod figure_table;
mod json;
mod pairing;
mod terminal;
mod values;

pub use conditions::Condition;
pub use json::{SCHEMA, document};
pub use terminal::show;

pub(crate) use figure_table::{OF_TERMINAL, figure_table, verdict};

use crate::run_verdict::RunVerdict;
use iodyno_measure::statistics::compare::{self, Comparison, Criteria, Difference, Pair};
use iodyno_measure::statistics::{discovery, rank};
use iodyno_measure::{CellKey, Level, Metric, Quantity, Verdict};
use iodyno_notebook::Run;
use iodyno_units::human;

/// One side of a comparison, A or B, with its runs.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Names or ids of the side's runs, as written on the command line.
    pub asked: &'a str,
    /// Stored runs of the side. With several runs, each contributes one value per metric.
    pub runs: &'a [Run],
}

/// Metrics to compare, and the threshold for relevant shifts.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Metrics to compare. A latency metric without a kind of operation is compared for each kind.
    pub metrics: Vec<Metric>,
    /// Smallest relevant shift from A to B, as a fraction of A; above 0. Smaller shifts count as equal.
    pub threshold_share: f64,
    /// Whether to also compare the cells of each target, if runs have several targets, rather than only the merged
    /// cells.
    pub each_target: bool,
}

impl Default for Options {
    /// Compares the rate and the 99th percentile of latency, with a threshold of 2 %.
    fn default() -> Self {
        Self {
            metrics: [Quantity::Iops, Quantity::Quantile(0.99)].map(Metric::of_all).to_vec(),
            threshold_share: Criteria::default().threshold_share,
            each_target: false,
        }
    }
}

/// Source of the compared values. It determines which variation the confidence interval covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Covers {
    /// One value per run: the interval covers variation between runs on the same targets.
    Runs,
    /// One value per repeat of the cell within one run: variation between runs is not covered.
    Repeats,
    /// One value per side: no variation is covered.
    Nothing,
}

/// Comparison of one metric of a cell (measurement) between A and B.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name, workload and load of the cell in A's runs.
    pub a_key: CellKey,
    /// Name, workload and load of the cell in B's runs. The load differs from A's if the cells were paired by name.
    pub b_key: CellKey,
    pub metric: Metric,
    /// Source of the values: runs, repeats within a run, or a single value per side.
    pub covers: Covers,
    /// Values of A, one per run or repeat, in the unit of the metric.
    pub a: Vec<f64>,
    /// Values of B, one per run or repeat, in the unit of the metric.
    pub b: Vec<f64>,
    /// Result of the statistical comparison: shift, confidence interval, p-value and verdict.
    pub comparison: Comparison,
    /// Values per side with which the metric could show a difference. None if the present number suffices.
    pub runs_needed: Option<u32>,
}

/// A cell (measurement) or a metric that was not compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Omission {
    /// Name of the omitted cell, or of the cell whose metric is omitted.
    pub cell: String,
    /// Name, workload and load of the omitted cell, for messages in which the name alone is ambiguous.
    pub key: CellKey,
    /// Side without a value for the metric: `a`, `b`, or `both`.
    pub side: &'static str,
    /// The metric that was not compared; None if the whole cell was not compared.
    pub metric: Option<Metric>,
    /// Reason why the cell or metric was not compared, for display.
    pub why: String,
    /// Whether the omission loses information. False for the cell of a single target if a merged cell represents it,
    /// and for a kind of operation that neither side issued.
    pub is_loss: bool,
}

/// Result of a whole comparison, which determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// At least one metric is slower in B.
    Slower,
    /// No metric is slower in B, but some are undecided or could not be compared.
    Open,
    /// All metrics are the same or faster in B.
    Clear,
}

/// A comparison of runs, with its criteria and omissions.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared<'a> {
    /// Runs and targets of A and of B.
    pub sides: [SideFacts<'a>; 2],
    /// Significance level and threshold of the verdicts.
    pub criteria: Criteria,
    /// One row per compared metric of a cell (measurement), grouped by cell.
    pub rows: Vec<Row>,
    /// Cells and metrics that were not compared.
    pub omissions: Vec<Omission>,
    /// Test conditions, other than the target, that differ between or within the sides.
    pub conditions: Vec<Condition>,
    /// Warnings and remarks that concern the whole comparison rather than one of its rows.
    pub remarks: Vec<Verdict>,
}

/// The runs and targets of a side, for headings.
#[derive(Clone, Debug, PartialEq)]
pub struct SideFacts<'a> {
    /// Names or ids of the side's runs, as written on the command line.
    pub asked: &'a str,
    /// Ids of the side's runs in the notebook.
    pub runs: Vec<&'a str>,
    /// Distinct names of the workloads or methods that the side's runs measured.
    pub names: Vec<&'a str>,
    /// Distinct names of the side's runs, each with the command-line flags that changed its workload.
    pub headings: Vec<String>,
    /// Distinct names of the side's targets.
    pub targets: Vec<&'a str>,
}

impl<'a> SideFacts<'a> {
    fn of(side: Side<'a>) -> Self {
        fn once<T: PartialEq>(words: impl Iterator<Item = T>) -> Vec<T> {
            let mut found = Vec::new();
            for word in words {
                if !found.contains(&word) {
                    found.push(word);
                }
            }
            found
        }
        Self {
            asked: side.asked,
            runs: side.runs.iter().map(|r| r.id.as_str()).collect(),
            names: once(side.runs.iter().map(|r| r.head.name.as_str())),
            headings: once(side.runs.iter().map(|r| r.head.heading())),
            targets: once(side.runs.iter().flat_map(|r| &r.head.targets).map(|t| t.name.as_str())),
        }
    }
}

impl Compared<'_> {
    /// Derives the result of the whole comparison from its rows and omissions.
    pub fn finding(&self) -> Finding {
        let has =
            |of: fn(&Difference) -> bool| self.rows.iter().any(|r| of(&r.comparison.difference));
        if has(|d| matches!(d, Difference::Slower)) {
            Finding::Slower
        } else if self.rows.is_empty()
            || self.omissions.iter().any(|o| o.is_loss)
            || has(|d| matches!(d, Difference::Inconclusive { .. } | Difference::TooFewRuns { .. }))
        {
            Finding::Open
        } else {
            Finding::Clear
        }
    }

    /// Whether every metric has too few runs to show any difference. Also true if there are no metrics.
    pub fn is_nothing_judged(&self) -> bool {
        let is_few = |row: &Row| matches!(row.comparison.difference, Difference::TooFewRuns { .. });
        self.rows.iter().all(is_few)
    }

    /// Number of rows per verdict: slower, faster, same, inconclusive.
    pub fn counts(&self) -> [usize; 4] {
        let mut counts = [0; 4];
        for row in &self.rows {
            counts[match row.comparison.difference {
                Difference::Slower => 0,
                Difference::Faster => 1,
                Difference::Same => 2,
                Difference::Inconclusive { .. } | Difference::TooFewRuns { .. } => 3,
            }] += 1;
        }
        counts
    }
}

/// Compares B's runs with A's. The error is the reason why nothing can be compared.
pub fn compare<'a>(a: Side<'a>, b: Side<'a>, options: &Options) -> Result<Compared<'a>, String> {
    if let Some(run) = a.runs.iter().find(|run| b.runs.iter().any(|other| other.id == run.id)) {
        return Err(format!(
            "the run {} is on both sides: compare it with other runs (`iodyno ls` lists them)",
            run.id
        ));
    }
    if let Some(metric) = options.metrics.iter().find(|m| m.quantity == Quantity::Max) {
        return Err(format!(
            "{metric} can't be compared: a maximum grows with the number of operations; use a percentile"
        ));
    }
    let mut omissions = Vec::new();
    let sides = [a, b].map(|side| pairing::entries(side.runs));
    let pairs = pairing::pair(sides, options.each_target, &mut omissions);
    let mut remarks = Vec::new();
    let mut drafts = Vec::new();
    for pair in &pairs {
        drafts.extend(values::drafts(pair, &options.metrics, &mut omissions));
    }
    never_judged(&options.metrics, &drafts, &mut omissions);
    let criteria = Criteria { threshold_share: options.threshold_share, ..Criteria::default() };
    let cells: Vec<Pair> = drafts.iter().map(values::Draft::pair).collect();
    let compared = compare::compare(&cells, &criteria).map_err(|e| e.to_string())?;
    let mut rows: Vec<Row> =
        drafts.into_iter().zip(compared).map(|(draft, compared)| draft.row(compared)).collect();
    mark_hidden(&mut rows, &criteria);
    let conditions = conditions::conditions(&[a.runs, b.runs], &pairs);
    failed_methods(&[a.runs, b.runs], &mut remarks);
    few_runs(&[a, b], &rows, &criteria, &mut remarks);
    values::copies(&pairs, &mut remarks);
    conditions::remarks(&[a.runs, b.runs], &pairs, &conditions, &mut remarks);
    let sides = [SideFacts::of(a), SideFacts::of(b)];
    Ok(Compared { sides, criteria, rows, omissions, conditions, remarks })
}

/// Marks the omission of a requested metric as a loss if the metric was compared for no cell. Otherwise the
/// report would not mention that the metric is missing.
fn never_judged(metrics: &[Metric], drafts: &[values::Draft], omissions: &mut [Omission]) {
    for metric in metrics {
        if drafts.iter().any(|draft| draft.is_of(*metric)) {
            continue;
        }
        for omission in omissions.iter_mut().filter(|o| o.metric == Some(*metric)) {
            omission.is_loss = true;
        }
    }
}

/// Adds a warning about runs whose method failed. Their cells were possibly not measured in the state that
/// the method requires.
fn failed_methods(sides: &[&[Run]; 2], remarks: &mut Vec<Verdict>) {
    let failed = sides.iter().flat_map(|runs| runs.iter());
    let failed: Vec<&str> =
        failed.filter(|run| RunVerdict::of(run).has_failed()).map(|run| run.id.as_str()).collect();
    if !failed.is_empty() {
        let text = format!(
            "the method of {} failed (no steady state, or a stage that measured nothing): its figures do not describe a steady state; `iodyno show` says why",
            failed.join(", ")
        );
        remarks.push(remark("METHOD_FAILED", Level::Warning, text));
    }
}

fn remark(code: &str, level: Level, text: String) -> Verdict {
    Verdict { code: code.to_owned(), level, text }
}

/// Sets `runs_needed` of inconclusive rows that no values could make conclusive: with their number of runs, even the
/// smallest possible p-value exceeds the significance level after correction for the number of metrics.
fn mark_hidden(rows: &mut [Row], criteria: &Criteria) {
    let judged: Vec<Option<f64>> =
        rows.iter().map(|row| row.comparison.p_adjusted.map(|_| row.comparison.test.p)).collect();
    let needed = compare::runs_for(judged.iter().flatten().count(), criteria.alpha);
    for (i, row) in rows.iter_mut().enumerate() {
        let mut p = judged.clone();
        p[i] = Some(rank::smallest_p(row.a.len(), row.b.len()));
        if matches!(row.comparison.difference, Difference::Inconclusive { .. })
            && discovery::adjusted(&p)[i].is_some_and(|p| p > criteria.alpha)
        {
            row.runs_needed = Some(needed);
        }
    }
}

/// Name of the row's cell and metric: `random-read p99`.
fn figure_name(row: &Row) -> String {
    format!("{} {}", row.a_key.name, row.metric)
}

/// Number of compared values per side, as text: `3 runs a side`, `1 against 2 repeats`.
fn values_words(row: &Row) -> String {
    let what = if row.covers == Covers::Repeats { "repeat" } else { "run" };
    match (row.a.len(), row.b.len()) {
        (1, 1) => format!("1 {what} a side"),
        (n, m) if n == m => format!("{n} {what}s a side"),
        (n, m) => format!("{n} against {m} {what}s"),
    }
}

/// Adds a remark if the sides have too few runs for a conclusion, with the number of runs that would suffice.
fn few_runs(sides: &[Side; 2], rows: &[Row], criteria: &Criteria, remarks: &mut Vec<Verdict>) {
    let fewest = sides.iter().map(|s| s.runs.len()).min().unwrap_or(0);
    let too_few = rows.iter().find_map(|row| match row.comparison.difference {
        Difference::TooFewRuns { p_min, runs_needed } => Some((row, p_min, runs_needed)),
        _ => None,
    });
    if let Some((row, p_min, needed)) = too_few {
        let is_few = |row: &Row| matches!(row.comparison.difference, Difference::TooFewRuns { .. });
        let of = if rows.iter().all(is_few) {
            String::new()
        } else {
            format!(" of {}", figure_name(row))
        };
        let count = values_words(row);
        let of_several =
            Some(compare::runs_for(rows.len(), criteria.alpha)).filter(|n| *n > needed);
        let several = of_several.map_or(String::new(), |n| {
            format!(" ({n} to detect a difference in only one of the {} figures)", rows.len())
        });
        let p = human::three_digits(p_min);
        remarks.push(remark(
            "FEW_RUNS",
            Level::Warning,
            format!(
                "{count}{of} can't show a difference, however large (p is at least {p}): make at least {needed} of each{several}, alternating A and B (`iodyno run … --name before`, then `--name after`), and run `iodyno compare before after`; or make one run of each with --repeat {needed}, although repeats vary less than runs"
            ),
        ));
    } else if let Some((row, needed)) = rows.iter().find_map(|row| Some((row, row.runs_needed?))) {
        let judged = rows.iter().filter(|row| row.comparison.p_adjusted.is_some()).count();
        remarks.push(remark(
            "FEW_RUNS",
            Level::Warning,
            format!(
                "{} can't show a difference in {}, however large, because p is corrected for {judged} figures: make at least {needed} of each, or compare fewer figures (--metric)",
                values_words(row),
                figure_name(row)
            ),
        ));
    } else if fewest < 3 && !rows.is_empty() {
        let text = if rows.iter().any(|r| r.covers == Covers::Repeats) {
            "each side is one run: confidence intervals are computed from repeats of the cell within that run, not from other runs or devices; any difference may merely reflect what changes from run to run (state, heat, placement)"
        } else {
            "fewer than 3 runs on a side: a single outlier can decide the result"
        };
        remarks.push(remark("FEW_RUNS", Level::Warning, text.to_owned()));
    }
}
