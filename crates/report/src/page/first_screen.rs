//! The first section of a report: headline numbers with confidence intervals, the reasons to doubt them, and the most
//! relevant plot.

use super::labels;
use crate::interval_words::of_rate;
use crate::method_headlines::{HEADLINES_MAX, of_method};
use crate::repeats;
use crate::run_verdict::RunVerdict;
use crate::thresholds;
use crate::verdict_groups::{self, Group};
use iodyno_measure::cell::representative;
use iodyno_measure::stationarity::mean_rate;
use iodyno_measure::statistics::batch;
use iodyno_measure::summary::is_about_bandwidth;
use iodyno_measure::{
    Cell, CellKey, Histogram, Interval, IoKinds, Latency, Level, MessageLog, Quantity,
};
use iodyno_method::Findings;
use iodyno_notebook::{Run, Status};
use iodyno_page::document::{Headline, Verdict};
use iodyno_page::{Block, Quantity as Shown, Section, Tone};
use iodyno_units::human;
use std::collections::BTreeMap;

/// Maximum number of cell names listed for one verdict.
const NAMES_MAX: usize = 6;
/// Confidence level of the intervals in headlines.
const LEVEL: f64 = 0.95;

/// Adds the section `Result` before the others, and moves the first figure of the other sections into it.
pub(super) fn with(
    run: &Run,
    findings: Option<&Findings>,
    mut sections: Vec<Section>,
) -> Vec<Section> {
    let mut blocks = Vec::new();
    if let Some(words) = standing(run) {
        blocks.push(Block::Text(words));
    }
    if let Some(findings) = findings {
        blocks.push(Block::Text(what(run, findings)));
    }
    let headlines = findings.map_or_else(|| of_cells(run), of_method);
    if !headlines.is_empty() {
        blocks.push(Block::Headlines(headlines));
    }
    blocks.extend(crate::neighbours::sentences(run).into_iter().map(Block::Text));
    blocks.push(Block::Verdicts(verdicts(run, findings)));
    let figure = sections.iter_mut().find_map(|section| {
        let at = section.blocks.iter().position(|b| matches!(b, Block::Figure(_)))?;
        Some(section.blocks.remove(at))
    });
    blocks.extend(figure);
    sections.retain(|s| !s.blocks.is_empty());
    let first =
        Section { id: "result".to_owned(), title: "Result".to_owned(), blocks, folded: false };
    sections.insert(0, first);
    sections
}

/// Warning that the run is in progress, was interrupted, or failed; None if it finished normally.
fn standing(run: &Run) -> Option<String> {
    match &run.status {
        Status::Finished => None,
        Status::Running => Some("The run is in progress: these are its figures so far.".to_owned()),
        Status::Interrupted => Some(
            "The run was interrupted: this report shows what was measured until then.".to_owned(),
        ),
        Status::Crashed => Some(
            "The process died before the run ended: this report shows what had been stored by then.".to_owned(),
        ),
        Status::Failed(why) => Some(format!("The run could not continue: {why}")),
    }
}

/// Describes the method, the standard that it follows, and all deviations from that standard.
fn what(run: &Run, findings: &Findings) -> String {
    let mut words = vec![format!("{}.", sentence(&findings.about))];
    if let Some(standard) = &findings.standard {
        let setting =
            findings.setting.as_ref().map_or(String::new(), |s| format!(", {s} settings"));
        words.push(format!("By {standard}{setting}."));
    }
    if !findings.deviations.is_empty() {
        let label = if findings.standard.is_some() { "NON-CONFORMANT" } else { "Changed" };
        words.push(format!("{label}: {}.", findings.deviations.join("; ")));
    }
    if !findings.complete {
        words.push(format!("Not finished: {}.", crate::method::how_to_finish(run)));
    }
    words.join(" ")
}

/// Capitalizes a sentence, and removes its full stop.
pub(super) fn sentence(text: &str) -> String {
    let text = text.trim().trim_end_matches('.');
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// One headline per cell, or per group of repeats.
fn of_cells(run: &Run) -> Vec<Headline> {
    let speaks = representative(&run.cells);
    let repeated = repeats::of(run);
    let cells = run.cells.iter().filter(|c| speaks(&c.key)).filter(|c| c.key.repeat == 0);
    let each = cells.take(HEADLINES_MAX).map(|cell| {
        let of = repeated.iter().find(|r| {
            r.key.name == cell.key.name
                && r.key.target == cell.key.target
                && matches!(r.metric.quantity, Quantity::Iops | Quantity::Bandwidth)
                && r.metric.kind.is_none()
        });
        let mut headline = headline(cell);
        if let Some(of) = of.filter(|_| cell.log.is_none()) {
            // Its figures are those of all repeats, and so is its name.
            let key = CellKey { repeat: 0, ..cell.key.clone() };
            let every = |c: &&Cell| CellKey { repeat: 0, ..c.key.clone() } == key;
            headline.beside = beside(&run.cells.iter().filter(every).collect::<Vec<_>>());
            headline.value = rate(cell, of.value);
            if let Some(interval) = of.mean.and_then(|m| m.interval) {
                let range = of_rate(interval.low, interval.high, |x| rate(cell, x));
                headline.interval = format!("{range} (95 %, over {} repeats)", of.count);
            }
        }
        let several = run.head.targets.len() > 1 && !cell.key.is_of_all_targets();
        if several {
            headline.name = format!("{} on {}", cell.key.name, cell.key.target);
        }
        headline
    });
    each.collect()
}

/// Formats a rate as throughput if the cell's blocks are large, otherwise as IOPS.
fn rate(cell: &Cell, per_s: f64) -> String {
    if is_about_bandwidth(cell.key.block_bytes()) {
        human::throughput(per_s)
    } else {
        format!("{} IOPS", human::count(per_s))
    }
}

/// Headline of a message log: messages per second, confidence interval of that rate, and time to persist a
/// message.
fn of_messages(cell: &Cell, log: &MessageLog) -> (String, String, String) {
    let per_s = |n: f64| format!("{} messages/s", human::count(n));
    let seconds = cell.interval_ns as f64 / 1e9;
    let rates: Vec<f64> = log.intervals.iter().map(|i| i.messages as f64 / seconds).collect();
    let interval = batch::mean(&rates, LEVEL).map_or_else(
        |_| format!("no confidence interval: {} complete intervals, 20 needed", rates.len()),
        |mean| {
            let range = of_rate(mean.interval.low, mean.interval.high, per_s);
            format!("{range} (95 %, within this run)")
        },
    );
    let time = |q| log.persist.supported_quantile_ns(q).map(|ns| human::time_ns(ns as f64));
    let [p50, p99] = [0.5, 0.99].map(|q| time(q).unwrap_or_else(|| "unknown".to_owned()));
    let beside = format!("{}: persisted p50 {p50}, p99 {p99}", log.durability);
    (per_s(cell.per_second(log.messages as f64)), interval, beside)
}

fn headline(cell: &Cell) -> Headline {
    if let Some(log) = &cell.log {
        let (value, interval, of_persisting) = of_messages(cell, log);
        let mut beside = beside(&[cell]);
        beside.insert(0, of_persisting);
        let level = cell.level().filter(|l| *l >= Level::Warning);
        let tone = level.map_or(Tone::Plain, labels::tone);
        return Headline { name: cell.key.name.clone(), value, interval, beside, tone };
    }
    let about_bandwidth = is_about_bandwidth(cell.key.block_bytes());
    let per_s =
        if about_bandwidth { cell.per_second(cell.total().bytes() as f64) } else { cell.iops() };
    let level = cell.level();
    Headline {
        name: cell.key.name.clone(),
        value: rate(cell, per_s),
        interval: within(cell, about_bandwidth),
        beside: beside(&[cell]),
        tone: level.filter(|l| *l >= Level::Warning).map_or(Tone::Plain, labels::tone),
    }
}

/// Conditions, percentiles and number of I/Os of one cell, or of all its repeats.
fn beside(cells: &[&Cell]) -> Vec<String> {
    let mut beside: Vec<String> =
        cells.first().map(|c| labels::conditions(c)).into_iter().collect();
    let (mut kinds, mut n) = (BTreeMap::<_, Histogram>::new(), 0);
    let seconds: f64 = cells.iter().map(|cell| cell.seconds()).sum();
    let io_kinds =
        IoKinds::of(cells.iter().flat_map(|c| c.series.iter().flat_map(Interval::kinds)));
    for cell in cells {
        let total = cell.total();
        n += total.ops();
        for (kind, stats) in total.iter().filter(|(_, s)| s.ops() > 0) {
            kinds.entry(kind).or_default().merge(stats.response_time());
        }
    }
    for (kind, response_time) in &kinds {
        let latency = Latency::of(response_time);
        let p50 = latency.percentiles_ns[0].map(|ns| human::time_ns(ns as f64));
        let p99 = latency.percentiles_ns[2].map(|ns| human::time_ns(ns as f64));
        let mut words = Vec::new();
        if !io_kinds.count(*kind) && seconds > 0.0 {
            words.push(format!("{}/s", human::count(response_time.count() as f64 / seconds)));
        }
        words.extend(p50.map(|p50| format!("p50 {p50}")));
        words.extend(p99.map(|p99| format!("p99 {p99}")));
        if !words.is_empty() {
            beside.push(format!("{} {}", kind.name(), words.join(", ")));
        }
    }
    beside.push(format!("n = {}", Shown::Count.words(n as f64)));
    beside
}

/// Confidence interval of a cell's mean bandwidth (if `about_bandwidth`) or IOPS, by batch means over the measurement
/// intervals; or the reason why none is known.
fn within(cell: &Cell, about_bandwidth: bool) -> String {
    let of = cell.io_kinds();
    let amount = |i: &Interval| if about_bandwidth { i.bytes() } else { i.ios(of) };
    let Some(mean) = mean_rate(cell, amount) else {
        let whole = cell.window_ns.checked_div(cell.interval_ns).unwrap_or(0);
        let needed = 2 * batch::BATCHES_MIN;
        let intervals = if whole == 1 { "interval" } else { "intervals" };
        return format!("no confidence interval: {whole} complete {intervals}, {needed} needed");
    };
    let range = of_rate(mean.interval.low, mean.interval.high, |x| rate(cell, x));
    // Slow variation widens the interval by an amount that a short series can't determine.
    let (at_least, why) = if mean.independent {
        ("", "")
    } else {
        ("at least as wide as ", "; the rate varies slowly")
    };
    format!("{at_least}{range} (95 %, within this run{why})")
}

/// Lists the outcomes of thresholds, then the verdicts, the most severe first. A verdict on several cells is
/// listed once.
pub(super) fn verdicts(run: &Run, findings: Option<&Findings>) -> Vec<Verdict> {
    let standing = RunVerdict::of(run);
    let own = thresholds::own(run);
    let required = thresholds::outcomes(run, &own);
    let mut all: Vec<Verdict> = Vec::new();
    for outcome in &required {
        // A figure that the samples don't support is not a failure.
        let (word, tone) = match (outcome.held, outcome.value) {
            (true, _) if outcome.is_close() => ("held, but close", Tone::Warning),
            (true, _) => ("held", Tone::Good),
            (false, Some(_)) => ("not held", Tone::Bad),
            (false, None) => ("not proven", Tone::Warning),
        };
        let text = format!("{}: {word}", outcome.threshold);
        let of = judged(run, outcome);
        match all.iter_mut().find(|verdict| verdict.text == text) {
            Some(verdict) => verdict.of.push(of),
            None => {
                all.push(Verdict { code: "THRESHOLD".to_owned(), tone, text, of: vec![of] });
            }
        }
    }
    all.sort_by_key(|verdict| verdict.tone == Tone::Good);
    all.extend(standing.verdicts.iter().map(|v| Verdict {
        code: v.code.clone(),
        tone: labels::tone(v.level),
        text: v.text.clone(),
        of: vec!["the run".to_owned()],
    }));
    let by_code = findings.is_some();
    let count = verdict_groups::count(&run.cells, by_code);
    all.extend(verdict_groups::groups(&run.cells, by_code).into_iter().map(|group| {
        let Group { verdict, cells, same_text, .. } = group;
        let first = &run.cells[cells[0]].key;
        // Sound cells do not make a run VALID if the verdict on its method is worse.
        let level = match verdict.level {
            Level::Valid if standing.is_doubted() => Level::Note,
            level => level,
        };
        Verdict {
            code: verdict.code.clone(),
            tone: labels::tone(level),
            text: if level != verdict.level {
                format!("each by itself: {}", verdict.text)
            } else if same_text {
                verdict.text.clone()
            } else {
                // Its numbers are those of one cell; the table of cells has all.
                format!(
                    "{} (value for {}; other cells differ)",
                    verdict.text,
                    labels::name(run, first)
                )
            },
            of: of_cells_named(run, &cells, count),
        }
    }));
    all
}

/// The cell and the measured value that decided a threshold: `oltp, read p99: 412 µs`.
fn judged(run: &Run, outcome: &iodyno_measure::threshold::Outcome<'_>) -> String {
    let metric = outcome.metric;
    let mut words = Vec::new();
    if let Some(cell) = outcome.cell.filter(|_| run.cells.len() > 1) {
        let is_one_of_several = run.head.targets.len() > 1 && !cell.is_of_all_targets();
        let on = if is_one_of_several { format!(" on {}", cell.target) } else { String::new() };
        words.push(format!("{}{on}", cell.name));
        words
            .extend((outcome.repeats > 1).then(|| format!("{} repeats together", outcome.repeats)));
    }
    let kind = metric.kind.map_or(String::new(), |kind| format!("{} ", kind.name()));
    words.push(format!("{kind}{}", metric.quantity));
    let found = match (outcome.value, &outcome.why) {
        (Some(value), _) => {
            let close =
                thresholds::close(outcome).map_or_else(String::new, |why| format!(", but {why}"));
            format!("{}{close}", metric.quantity.human(value))
        }
        (None, why) => why.clone().unwrap_or_else(|| "unknown".to_owned()),
    };
    format!("{}: {found}", words.join(", "))
}

/// Describes the cells of a verdict: their number out of `count`, then some distinct names.
fn of_cells_named(run: &Run, cells: &[usize], count: usize) -> Vec<String> {
    if run.cells.len() == 1 {
        return Vec::new();
    }
    if cells.len() == count && count > 1 {
        let is_on_targets = run.cells.iter().any(|cell| cell.key.is_of_all_targets());
        return vec![if is_on_targets {
            "all cells on all targets".to_owned()
        } else {
            format!("all {count} cells")
        }];
    }
    let mut names: Vec<String> = Vec::new();
    for &cell in cells {
        let name = labels::name(run, &run.cells[cell].key);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut of = Vec::new();
    if names.len() < cells.len() || names.len() > NAMES_MAX {
        of.push(format!("{} of {count} cells", cells.len()));
    }
    let more = names.len().saturating_sub(NAMES_MAX);
    names.truncate(NAMES_MAX);
    of.extend(names);
    if more > 0 {
        of.push(format!("and {more} other names"));
    }
    of
}
