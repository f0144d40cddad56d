//! Summarises a run for a list of runs: verdict level, and results in a few words.

use crate::kinds;
use crate::method_headlines;
use crate::run_verdict::RunVerdict;
use iodyno_measure::summary::is_about_bandwidth;
use iodyno_measure::{Cell, Level, MessageLog};
use iodyno_notebook::{CellSummary, Run, RunSummary, Status};
use iodyno_units::human;

/// Maximum number of a method's results in a list.
const METHOD_HEADLINES_MAX: usize = 3;

/// Verdict and headline of a whole run, shown in lists of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Verdicts on the run's method, and the most severe level of all verdicts.
    pub verdict: RunVerdict,
    /// The results of the run's method or message logs in a few words; None if the run has neither.
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
        let headline = of_method.or_else(|| of_messages(&run.cells));
        Self { verdict: RunVerdict::with(run, verdicts), headline }
    }
}

/// Messages per second of each message log, and the time to persist one; None if none was measured. Repeats show their
/// mean.
fn of_messages(cells: &[Cell]) -> Option<String> {
    let mut groups: Vec<Vec<(&Cell, &MessageLog)>> = Vec::new();
    for cell in cells {
        let Some(log) = cell.log.as_deref() else { continue };
        let same = |g: &&mut Vec<(&Cell, &MessageLog)>| {
            g[0].0.key.name == cell.key.name && g[0].0.key.target == cell.key.target
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push((cell, log)),
            None => groups.push(vec![(cell, log)]),
        }
    }
    let words = groups.iter().map(|group| {
        let n = group.len();
        let per_s = group.iter().map(|(cell, log)| cell.per_second(log.messages as f64));
        let rate = human::count(per_s.sum::<f64>() / n as f64);
        let name =
            if groups.len() > 1 { format!("{} ", group[0].0.key.name) } else { String::new() };
        // Percentiles can't be averaged.
        let p99 = group[0].1.persist.supported_quantile_ns(0.99).filter(|_| n == 1);
        let p99 = p99.map_or(String::new(), |ns| {
            format!(" (persisted in p99 {})", human::time_ns(ns as f64))
        });
        let times = if n > 1 { format!(" (mean of {n})") } else { String::new() };
        format!("{name}{rate} messages/s{p99}{times}")
    });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| words.join(", "))
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
    let name = |cell: &CellSummary| match groups.len() {
        1 => String::new(),
        _ => format!("{} ", cell.name),
    };
    let words: Vec<String> = groups
        .iter()
        .map(|group| {
            let n = group.len() as f64;
            let mean = |of: fn(&CellSummary) -> f64| group.iter().map(|c| of(c)).sum::<f64>() / n;
            let times = if group.len() > 1 { format!(" (mean of {n})") } else { String::new() };
            let times = beside(group) + &times;
            if is_about_bandwidth(group[0].block_bytes) {
                let bandwidth = human::throughput(mean(|c| c.bytes_per_s));
                format!("{}{bandwidth}{times}", name(group[0]))
            } else {
                format!("{}{} IOPS{times}", name(group[0]), human::count(mean(|c| c.iops)))
            }
        })
        .collect();
    words.join(", ")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::conditions_of_cell;
    use iodyno_measure::Histogram;

    /// The result of a message log is its messages, and its block only limits the size of a write.
    #[test]
    fn a_message_log_is_listed_with_its_messages() {
        let cell = |name: &str, messages: u64| {
            let mut persist = Histogram::default();
            persist.record_n(257, messages);
            let log = MessageLog { messages, persist, ..MessageLog::default() };
            let mut cell =
                Cell { window_ns: 2_000_000_000, log: Some(Box::new(log)), ..Cell::default() };
            cell.key.name = name.to_owned();
            (cell.key.threads, cell.key.depth, cell.key.blocks) = (1, 1, vec![(65_536, 1.0)]);
            cell
        };
        let words = |cells: &[Cell]| of_messages(cells).unwrap();
        let one = cell("batch", 200_000);
        assert_eq!(words(std::slice::from_ref(&one)), "100 k messages/s (persisted in p99 257 ns)");
        assert_eq!(words(&[one.clone(), cell("batch", 100_000)]), "75.0 k messages/s (mean of 2)");
        let both = words(&[one.clone(), cell("each", 2_000)]);
        assert!(both.contains("batch 100 k messages/s") && both.contains("each 1.00 k"), "{both}");
        assert_eq!(of_messages(&[]), None);
        assert_eq!(conditions_of_cell(&one).1, "chunks of at most 64 KiB");
    }
}
