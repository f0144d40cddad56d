//! Summarises a run for a list of runs: verdict level, and results in a few words.

use crate::kinds;
use crate::method_headlines;
use crate::run_verdict::RunVerdict;
use iodyno_measure::Level;
use iodyno_measure::summary::is_about_bandwidth;
use iodyno_notebook::{CellSummary, MessageRate, Run, RunSummary, Status};
use iodyno_units::human;

/// Maximum number of a method's results in a list.
const METHOD_HEADLINES_MAX: usize = 3;

/// Verdict and headline of a whole run, shown in lists of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Verdicts on the run's method, and the most severe level of all verdicts.
    pub verdict: RunVerdict,
    /// The results of the run's method in a few words; None if the run has no method.
    pub headline: Option<String>,
}

impl Standing {
    /// Derives the verdict and headline of a stored run.
    pub fn of(run: &Run) -> Self {
        let findings = crate::method::findings_of(run);
        let of_method = findings.as_ref().map(|findings| {
            let headlines = method_headlines::of_method(findings);
            let words = headlines.iter().take(METHOD_HEADLINES_MAX);
            let words = words.map(|h| format!("{}: {}", h.name, h.value));
            words.collect::<Vec<_>>().join(", ")
        });
        let verdicts = findings.map_or(Vec::new(), |findings| findings.verdicts);
        Self { verdict: RunVerdict::with(run, verdicts), headline: of_method }
    }
}

/// Most severe verdict level of the run's cells (measurements) and of `standing`; None if nothing was judged.
pub fn level_of(run: &RunSummary, standing: Option<&Standing>) -> Option<Level> {
    let of_cells = run.cells.iter().filter_map(|c| c.level).max();
    of_cells.max(standing.and_then(|s| s.verdict.level))
}

/// Level to display for a run in a list. A crashed or failed run is Invalid, and an interrupted one at least Warning.
/// None while the run is in progress, or if it finished without verdicts.
pub fn listed_level(run: &RunSummary, standing: Option<&Standing>) -> Option<Level> {
    match (&run.status, level_of(run, standing)) {
        (Status::Running, _) | (Status::Finished, None) => None,
        (Status::Crashed | Status::Failed(_), _) | (_, Some(Level::Invalid)) => {
            Some(Level::Invalid)
        }
        (Status::Interrupted, _) | (_, Some(Level::Warning)) => Some(Level::Warning),
        (Status::Finished, _) => Some(Level::Valid),
    }
}

/// Result of a run in a list: the run's headline, preceded by its status if it did not finish normally. The text may
/// contain control characters.
pub fn listed_result(run: &RunSummary, standing: Option<&Standing>) -> String {
    let headline = headline(run, standing);
    match &run.status {
        Status::Finished => headline,
        Status::Failed(reason) => format!("failed: {reason}"),
        status if headline.is_empty() => status.name().to_owned(),
        status => format!("{}: {headline}", status.name()),
    }
}

/// Summarises a run's results in a few words, such as `random-read 92.3 k IOPS, seq-read 2.10 GB/s`. Uses the
/// method's headline if `standing` has one, and merged cells if there are several targets. Empty without
/// results.
pub fn headline(run: &RunSummary, standing: Option<&Standing>) -> String {
    if let Some(headline) = standing.and_then(|s| s.headline.clone()) {
        return headline;
    }
    let merged: Vec<_> = run.cells.iter().filter(|c| c.target.starts_with("all (")).collect();
    let cells: Vec<_> = if merged.is_empty() { run.cells.iter().collect() } else { merged };
    // Repeats have the same name and target; their mean is shown.
    let mut groups: Vec<Vec<&CellSummary>> = Vec::new();
    for cell in cells {
        let same =
            |g: &&mut Vec<&CellSummary>| g[0].name == cell.name && g[0].target == cell.target;
        match groups.iter_mut().find(same) {
            Some(group) => group.push(cell),
            None => groups.push(vec![cell]),
        }
    }
    let is_one = groups.len() == 1;
    let words = groups.into_iter().map(|repeats| {
        let name = if is_one { String::new() } else { format!("{} ", repeats[0].name) };
        name + &result(repeats)
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Result of the repeats of one cell, at least one: their mean. Invalid repeats do not count, unless all are.
fn result(mut repeats: Vec<&CellSummary>) -> String {
    if repeats.iter().any(|cell| cell.level != Some(Level::Invalid)) {
        repeats.retain(|cell| cell.level != Some(Level::Invalid));
    }
    let logs: Vec<MessageRate> = repeats.iter().filter_map(|cell| cell.messages).collect();
    let n = if logs.is_empty() { repeats.len() } else { logs.len() };
    let times = if n > 1 { format!(" (mean of {n})") } else { String::new() };
    let mean = |of: fn(&CellSummary) -> f64| repeats.iter().map(|c| of(c)).sum::<f64>() / n as f64;
    if let Some(first) = logs.first() {
        let rate = human::count(logs.iter().map(|log| log.per_s).sum::<f64>() / n as f64);
        // Percentiles can't be averaged.
        let p99 = first.persist_p99_ns.filter(|_| n == 1);
        let p99 = p99.map_or(String::new(), |ns| {
            format!(" (persisted in p99 {})", human::time_ns(ns as f64))
        });
        format!("{rate} messages/s{p99}{times}")
    } else if is_about_bandwidth(repeats[0].block_bytes) {
        let bandwidth = human::throughput(mean(|c| c.bytes_per_s));
        format!("{bandwidth}{}{times}", beside(&repeats))
    } else {
        format!("{} IOPS{}{times}", human::count(mean(|c| c.iops)), beside(&repeats))
    }
}

/// Rates of operations that do not count as IOPS, averaged over repeats: ` and 5.1 k flushes/s (p99 48 µs)`.
fn beside(repeats: &[&CellSummary]) -> String {
    let each = repeats[0].beside.iter().map(|of| {
        let rates = repeats.iter().flat_map(|cell| &cell.beside).filter(|o| o.kind == of.kind);
        let per_s = rates.map(|of| of.per_s).sum::<f64>() / repeats.len() as f64;
        // Percentiles can't be averaged.
        let p99 = of.p99_ns.filter(|_| repeats.len() == 1);
        let p99 = p99.map_or(String::new(), |ns| format!(" (p99 {})", human::time_ns(ns as f64)));
        format!(" and {} {}/s{p99}", human::count(per_s), kinds::plural(of.kind))
    });
    each.collect()
}
