//! Selects the most important results of a method as headlines, for the terminal, the list of runs and the first
//! screen of a page.

use crate::interval_words::of_rate;
use crate::kinds;
use crate::point_figures;
use crate::verdict_groups::tone;
use iodyno_measure::statistics::knee::Optimum;
use iodyno_measure::statistics::steady::Progress;
use iodyno_measure::summary::is_about_bandwidth;
use iodyno_measure::{Level, Quantity};
use iodyno_method::Findings;
use iodyno_method::findings::{
    Load, PointFinding, RateSearchFinding, RoundsFinding, Row, Scaling, SeriesFinding, Showed,
    StageFinding, Subject, SweepFinding, Table,
};
use iodyno_page::document::Headline;
use iodyno_page::{Quantity as Shown, Tone};
use iodyno_units::human;
use std::cmp::Ordering;
use std::mem::discriminant;

/// Maximum number of headlines at the start of a report.
pub(crate) const HEADLINES_MAX: usize = 12;

/// Summarises the results of a method in a few headlines.
pub(crate) fn of_method(findings: &Findings) -> Vec<Headline> {
    let several = findings.subjects.len() > 1;
    let mut all = Vec::new();
    for subject in &findings.subjects {
        // In the order of the sections: main stages come before those that prepare them.
        let mut stages: Vec<&StageFinding> = subject.stages.iter().collect();
        stages.sort_by_key(|s| std::cmp::Reverse(weight(s)));
        for stage in stages {
            let Some(showed) = &stage.showed else { continue };
            let naming = Naming::of(subject, stage, showed, several);
            match showed {
                Showed::Preparation { .. } => {}
                Showed::Sweep(sweep) => all.extend(of_sweep(sweep, &naming)),
                Showed::Rounds(rounds) => all.extend(of_rounds(rounds, &naming)),
                Showed::Series(series) => all.extend(of_series(series, &naming)),
                Showed::RateSearch(found) => {
                    let name = naming.name(&format!("highest rate with {}", found.limit));
                    all.push(of_rate_search(found, name));
                }
                Showed::Points { points } => {
                    all.extend(points.iter().map(|point| of_point(point, &naming)));
                }
            }
        }
    }
    all.truncate(HEADLINES_MAX);
    all
}

/// Rules for naming the headlines of a stage.
struct Naming<'a> {
    stage: &'a str,
    /// ` on TARGET` if the run has several targets, otherwise empty.
    on: String,
    /// Whether other stages of the method have the same kind of result.
    is_one_of_several: bool,
    /// Whether a headline must include the name of its stage.
    needs_stage: bool,
}

impl<'a> Naming<'a> {
    fn of(subject: &Subject, stage: &'a StageFinding, showed: &Showed, several: bool) -> Self {
        let alike = |s: &&StageFinding| {
            s.showed.as_ref().is_some_and(|other| discriminant(other) == discriminant(showed))
        };
        let is_one_of_several = subject.stages.iter().filter(alike).count() > 1;
        // A stage that prepares another is not the result.
        let prepares =
            matches!(showed, Showed::Series(_)) && subject.stages.iter().any(|s| weight(s) > 0);
        Self {
            stage: &stage.name,
            on: if several { format!(" on {}", subject.target) } else { String::new() },
            is_one_of_several,
            needs_stage: is_one_of_several || prepares,
        }
    }

    fn name(&self, what: &str) -> String {
        let on = &self.on;
        if self.needs_stage { format!("{}: {what}{on}", self.stage) } else { format!("{what}{on}") }
    }
}

fn of_sweep(sweep: &SweepFinding, naming: &Naming<'_>) -> Vec<Headline> {
    let (table, curve) = (&sweep.table, sweep.load.as_ref());
    let headline = |row: &Row, what: &str| of_row(row, &table.axes, naming.name(what));
    let lowest = || quickest(&table.rows).map(|r| of_mean(r, headline(r, "lowest latency")));
    let mut all = Vec::new();
    if let Some((curve, best)) = curve.and_then(|l| Some((l, best(l)?))) {
        let tie = if curve.ties.is_empty() { "" } else { ", a tie" };
        let what = format!("best point under {}{tie}", curve.ceilings.join(" and "));
        let row = &table.rows[best];
        let mut headline = headline(row, &what);
        if row.kinds.len() > 1 {
            let of = kinds::together(&table.kinds_apart());
            headline.beside.push(format!("the ceiling applies to {of}"));
        }
        all.push(headline);
        all.extend(lowest());
    } else if let Some(curve) = curve.filter(|_| is_open(table)) {
        // Each rate is just achieved, so the latency at both ends is the result.
        let rows = curve.rows.iter().map(|&i| &table.rows[i]);
        let mut ends: Vec<&Row> = rows.filter(|r| r.iops.is_some()).collect();
        ends.sort_by(|a, b| a.iops.partial_cmp(&b.iops).unwrap_or(Ordering::Equal));
        all.extend(ends.first().map(|r| headline(r, "least load")));
        if let [_, .., last] = ends.as_slice() {
            all.push(headline(last, "most load"));
        }
    } else if is_over_workloads(&table.axes) {
        // Several targets are compared in a figure.
        let each = table.rows.iter().filter(|r| naming.on.is_empty() && r.iops.is_some());
        all.extend(each.map(|r| of_row(r, &[], naming.name(&r.at[0]))));
    } else if sweep.scaling.is_none() {
        let what = match curve {
            _ if table.rows.len() == 1 => naming.stage,
            Some(curve) if !curve.ceilings.is_empty() => {
                "highest rate; its latency may exceed the ceiling"
            }
            _ => "most",
        };
        all.extend(most(&table.rows).map(|r| headline(r, what)));
        all.extend(lowest().filter(|_| curve.is_some() && table.rows.len() > 1));
    }
    all.extend(sweep.scaling.as_ref().and_then(|scaling| of_scaling(scaling, naming)));
    all
}

fn of_scaling(scaling: &Scaling, naming: &Naming<'_>) -> Option<Headline> {
    let last = scaling.points.last()?;
    Some(Headline {
        name: naming.name(&format!("{} {}", last.n, scaling.of)),
        value: format!("× {}", human::three_digits(last.speed_up)),
        interval: format!("{} % of ideal", human::three_digits(last.efficiency * 100.0)),
        beside: vec![format!("{} IOPS", human::count(last.throughput))],
        tone: Tone::Plain,
    })
}

fn of_rounds(rounds: &RoundsFinding, naming: &Naming<'_>) -> Vec<Headline> {
    let (value, tone) = match rounds.steady.as_ref().map(|s| s.progress) {
        Some(Progress::Reached) => ("steady state", Tone::Good),
        Some(Progress::NotReached) => ("NOT REACHED", Tone::Bad),
        // Cut short: the run did not miss the steady state, but did not wait for it.
        _ => ("no steady state yet", Tone::Warning),
    };
    let state = Headline {
        name: format!("{}{}", naming.stage, naming.on),
        value: value.to_owned(),
        interval: if rounds.rounds == 0 {
            "no round was finished".to_owned()
        } else {
            format!("measured over rounds {} to {}", rounds.window_first, rounds.rounds)
        },
        beside: vec![rounds.limits.clone()],
        tone,
    };
    let rows = &rounds.table.rows;
    let headline = |row: &Row, what: &str| of_row(row, &rounds.table.axes, naming.name(what));
    let most = most(rows).map(|r| headline(r, "most"));
    let quickest = quickest(rows).map(|r| of_mean(r, headline(r, "lowest latency")));
    // The tracked quantity comes first.
    let about_latency =
        rounds.variables.first().is_some_and(|v| quantity(&v.name) == Shown::LatencyNs);
    let both = if about_latency { [quickest, most] } else { [most, quickest] };
    std::iter::once(state).chain(both.into_iter().flatten()).collect()
}

fn of_series(series: &SeriesFinding, naming: &Naming<'_>) -> Vec<Headline> {
    let mut all = Vec::new();
    // In a sequence of series, the start of each is the end of the one before.
    if !naming.is_one_of_several || series.samples.len() == 1 {
        all.push(of_row(&series.first, &[], naming.name("at first")));
    }
    if series.samples.len() > 1 {
        all.push(of_row(&series.end, &[], naming.name("at the end")));
    }
    all
}

fn of_point(point: &PointFinding, naming: &Naming<'_>) -> Headline {
    let mut headline = of_row(&point.row, &[], naming.name(&format!("{} point", point.which)));
    headline.beside.insert(0, format!("OIO {}", point_figures::oio(&point.row)));
    if !point.keeps {
        headline.tone = Tone::Warning;
        headline.beside.push(format!("over {}", point.ceilings.join(" and ")));
    }
    headline
}

fn of_rate_search(found: &RateSearchFinding, name: String) -> Headline {
    // A rate that was divided among targets has rounding errors.
    let is_answer = |offered_iops: f64| {
        found.holds_iops.is_some_and(|rate| (offered_iops / rate - 1.0).abs() < 1e-9)
    };
    let at_the_rate = found.probes.iter().find(|probe| probe.offered_iops.is_some_and(is_answer));
    let kinds = at_the_rate.map_or(&[][..], |probe| &probe.kinds);
    let mut beside =
        vec![format!("{} of {}", found.metric.quantity, kinds::together(&found.covers))];
    if kinds.len() > 1 {
        beside.extend(kinds::latencies(kinds, found.metric.quantity));
    }
    beside.push(format!("closed loop {}/s", human::count(found.capacity_iops)));
    // The search ended before it had enclosed the rate.
    let is_open = found.is_unfinished || found.unknown_iops.is_some();
    Headline {
        name,
        value: match (found.holds_iops, found.fails_iops) {
            (Some(holds), None) => format!("at least {}/s", human::count(holds)),
            (Some(holds), Some(_)) if is_open => format!("at least {}/s", human::count(holds)),
            (Some(holds), Some(_)) => format!("{}/s", human::count(holds)),
            (None, Some(fails)) if is_open => format!("less than {}/s", human::count(fails)),
            (None, _) if is_open => "unknown".to_owned(),
            (None, _) => "none".to_owned(),
        },
        interval: match (found.surely_holds_iops, found.surely_fails_iops) {
            _ if found.is_unfinished => "unfinished".to_owned(),
            _ if is_open => "too few operations to tell".to_owned(),
            (Some(low), Some(high)) => {
                format!("{} (95 %)", of_rate(low, high, human::count))
            }
            _ => String::new(),
        },
        beside,
        tone: if found.holds_iops.is_some() && !is_open { Tone::Plain } else { Tone::Warning },
    }
}

/// Makes the row's mean latency the main value of a headline.
fn of_mean(row: &Row, headline: Headline) -> Headline {
    let is_apart = row.kinds.len() > 1;
    let means = is_apart.then(|| kinds::latencies(&row.kinds, Quantity::Mean)).flatten();
    let mut beside = headline.beside;
    let behind_the_point = beside.len().min(usize::from(!row.at.is_empty()));
    beside.splice(behind_the_point..behind_the_point, means);
    Headline {
        value: row.mean_ns.map_or(String::new(), human::time_ns),
        interval: if is_apart { "mean of all" } else { "mean" }.to_owned(),
        beside,
        ..headline
    }
}

/// The first of the rows with the highest IOPS: more load may add latency alone.
fn most(rows: &[Row]) -> Option<&Row> {
    rows.iter()
        .filter(|r| r.iops.is_some())
        .rev()
        .max_by(|a, b| a.iops.partial_cmp(&b.iops).unwrap_or(Ordering::Equal))
}

fn quickest(rows: &[Row]) -> Option<&Row> {
    rows.iter()
        .filter(|r| r.mean_ns.is_some())
        .min_by(|a, b| a.mean_ns.partial_cmp(&b.mean_ns).unwrap_or(Ordering::Equal))
}

fn of_row(row: &Row, axes: &[String], name: String) -> Headline {
    let interval = row.iops_half_width.map_or(String::new(), |share| {
        format!("± {} % (95 %, over {} cells)", human::three_digits(share * 100.0), row.n)
    });
    let mut beside = Vec::new();
    if !axes.is_empty() {
        let at = axes.iter().zip(&row.at).map(|(axis, value)| format!("{axis} {value}"));
        beside.push(at.collect::<Vec<_>>().join(", "));
    }
    let p50 = row.nines_ns.first().copied().flatten();
    let p99 = row.nines_ns.get(1).copied().flatten();
    if row.kinds.len() > 1 {
        // One percentile over kinds of different latencies describes none of them.
        let nines = [0.99, 0.5].map(|q| kinds::latencies(&row.kinds, Quantity::Quantile(q)));
        beside.extend(nines.into_iter().flatten());
        beside.extend(kinds::beside(&row.kinds));
    } else if let (Some(p50), Some(p99)) = (p50, p99) {
        beside.push(format!(
            "p50 {}, p99 {}",
            human::time_ns(p50 as f64),
            human::time_ns(p99 as f64)
        ));
    }
    beside.push(format!("n = {}", Shown::Count.words(row.ops as f64)));
    Headline {
        name,
        value: match (row.iops, row.bytes_per_s) {
            (Some(_), Some(bytes_per_s)) if is_large(row, axes) => human::throughput(bytes_per_s),
            (Some(iops), _) => format!("{} IOPS", human::count(iops)),
            _ => "–".to_owned(),
        },
        interval,
        beside,
        tone: row.level.filter(|l| *l >= Level::Warning).map_or(Tone::Plain, tone),
    }
}

/// Importance of a stage's result for the headlines: highest for long load curves, lowest for the preparation
/// of a steady state.
pub(crate) fn weight(finding: &StageFinding) -> usize {
    match &finding.showed {
        Some(Showed::Sweep(sweep)) => 1 + sweep.load.as_ref().map_or(0, |l| l.rows.len()),
        Some(Showed::Rounds(_)) => 2,
        Some(Showed::Points { .. } | Showed::RateSearch(_)) => 1,
        Some(Showed::Series(_) | Showed::Preparation { .. }) | None => 0,
    }
}

/// Whether the table's load is an offered rate (open loop) rather than a number of outstanding I/Os.
pub(crate) fn is_open(table: &Table) -> bool {
    table.axes.last().is_some_and(|a| a == "rate")
}

/// Index of the best point of a load curve. None without a latency ceiling, because the highest rate alone is
/// not an optimum.
pub(crate) fn best(load: &Load) -> Option<usize> {
    match load.optimum {
        Optimum::Found { chosen, .. } if !load.ceilings.is_empty() => {
            load.rows.get(chosen).copied()
        }
        _ => None,
    }
}

/// Whether the row's blocks are so large that throughput matters more than IOPS. False if the block size is one of
/// `axes`, because points with different block sizes are compared by IOPS.
pub(crate) fn is_large(row: &Row, axes: &[String]) -> bool {
    let block = row.bytes_per_s.zip(row.iops).map(|(bytes, ops)| bytes / ops);
    !axes.iter().any(|a| a == "block")
        && block.is_some_and(|b| b.is_finite() && is_about_bandwidth(b as u32))
}

/// Quantity of a tracked variable, derived from the prefix of its name.
pub(crate) fn quantity(name: &str) -> Shown {
    if name.starts_with("iops") {
        Shown::Iops
    } else if name.starts_with("bandwidth") {
        Shown::Throughput
    } else {
        Shown::LatencyNs
    }
}

/// Whether the workload is the only axis of a sweep, so that points can be named after their workloads.
pub(crate) fn is_over_workloads(axes: &[String]) -> bool {
    matches!(axes, [axis] if axis == "workload")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_rates_the_first_counts() {
        let row = |oio: f64, iops| Row { oio, iops: Some(iops), ..Row::default() };
        let rows = [row(1.0, 900.0), row(2.0, 1_000.0), row(4.0, 1_000.0), Row::default()];
        assert_eq!(most(&rows).map(|row| row.oio), Some(2.0));
    }

    /// A highest rate is claimed only if the search enclosed it.
    #[test]
    fn an_unfinished_search_has_a_bound_for_its_headline() {
        let headline = |is_unfinished, holds_iops, fails_iops| {
            let found = RateSearchFinding {
                limit: "p99 < 1.00 ms".to_owned(),
                covers: Vec::new(),
                metric: "p99".parse().unwrap(),
                capacity_iops: 2e5,
                unknown_iops: None,
                time_needed_s: None,
                is_unfinished,
                holds_iops,
                fails_iops,
                surely_holds_iops: holds_iops,
                surely_fails_iops: fails_iops,
                mixed_iops: None,
                cells_at_answer: 1,
                oio_above_capacity: None,
                limited_by: None,
                probes: Vec::new(),
            };
            let headline = of_rate_search(&found, String::new());
            format!("{} {}", headline.value, headline.interval)
        };
        let (low, high) = (Some(107_000.0), Some(109_000.0));
        assert_eq!(headline(true, low, None), "at least 107 k/s unfinished");
        assert_eq!(headline(true, None, high), "less than 109 k/s unfinished");
        assert_eq!(headline(true, None, None), "unknown unfinished");
        assert_eq!(headline(true, low, high), "at least 107 k/s unfinished");
        assert!(headline(false, low, high).starts_with("107 k/s "));
        assert_eq!(headline(false, low, None), "at least 107 k/s ");
    }
}
