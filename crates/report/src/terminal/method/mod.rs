//! Formats a method's results for the terminal: headlines, and the findings of each stage. Individual measurements are
//! only in `export --format csv` and in JSON.

mod chart;
mod grid;
mod rate_search;
mod series;

use super::Detail;
use super::certainty::{self, Known};
use crate::kinds;
use crate::method_headlines;
use crate::point_figures;
use iodyno_measure::PERCENTILES;
use iodyno_measure::statistics::drift::{Drift, Steadiness};
use iodyno_measure::statistics::knee::{LoadPoint, Optimum};
use iodyno_measure::statistics::steady::Progress;
use iodyno_method::findings::{
    Findings, Load, NINES, PointFinding, RoundsFinding, Row, Scaling, Showed, StageFinding,
    SweepFinding,
};
use iodyno_notebook::{Run, Status};
use iodyno_page::document::Headline;
use iodyno_page::terminal::text::{Role, clean, cut, paint, paragraph, width, wrap};
use iodyno_page::terminal::{Style, table};
use iodyno_page::{Cell, Column, Table, Tone};
use iodyno_units::human;

/// Minimum width for facts that continue on further lines, in terminal columns. With less, a headline's facts are cut
/// to one line.
const FACT_COLUMNS_MIN: usize = 20;
/// Maximum width of a headline's or stage's name, in terminal columns.
const NAME_COLUMNS_MAX: usize = 48;

/// Formats the method's results as a few headlines.
pub(super) fn answer(run: &Run, findings: &Findings, style: Style) -> Vec<String> {
    let mut lines = head(run, findings, style);
    let headlines = method_headlines::of_method(findings);
    let name = |h: &Headline| clean(&h.name, NAME_COLUMNS_MAX.min(style.columns() / 2), style);
    let value = |h: &Headline| clean(&h.value, 20, style);
    let widest = |of: &dyn Fn(&Headline) -> String| {
        headlines.iter().map(|headline| width(&of(headline))).max().unwrap_or(0)
    };
    let left = style.columns().saturating_sub(widest(&name) + widest(&value) + 4);
    let mut table = Table::new([Column::words(""), Column::words(""), Column::words("")]);
    for headline in &headlines {
        let tone = match headline.tone {
            tone @ (Tone::Good | Tone::Warning | Tone::Bad) => tone,
            _ => Tone::Strong,
        };
        let mut label = [Cell::words(name(headline)), Cell::words(value(headline)).toned(tone)];
        // Further lines of a headline are aligned with its facts.
        for text in facts(headline, left, style) {
            let [name, value] = std::mem::take(&mut label);
            table.push([name, value, Cell::words(text).toned(Tone::Dim)]);
        }
    }
    lines.extend(table::lines(&table, style));
    lines
}

/// Facts after a headline, cut to fit one line. Latencies per kind of operation continue on further lines
/// instead, because no other number summarises them.
fn facts(headline: &Headline, columns: usize, style: Style) -> Vec<String> {
    let (mut text, mut is_full) = (String::new(), false);
    let words = [&headline.interval].into_iter().chain(&headline.beside);
    for word in words.filter(|word| !word.is_empty()) {
        let dot = if text.is_empty() { "" } else { style.dot() };
        let longer = format!("{text}{dot}{}", clean(word, columns, style));
        is_full |= width(&longer) > columns;
        if !is_full {
            text = longer;
        } else if kinds::is_of_several(word)
            && !kinds::is_of_several(&text)
            && columns >= FACT_COLUMNS_MIN
        {
            let mut lines = vec![text, String::new()];
            for part in clean(word, 200, style).split_inclusive(", ") {
                match lines.last_mut().filter(|l| width(l) + width(part.trim_end()) <= columns) {
                    Some(line) => line.push_str(part),
                    None => lines.push(cut(part, columns, style)),
                }
            }
            lines.retain(|line| !line.is_empty());
            return lines;
        }
    }
    vec![text]
}

/// Formats the results of each stage as a block of lines. Consecutive stages without results, such as
/// preparations, share a block.
pub(super) fn blocks(findings: &Findings, detail: Detail, style: Style) -> Vec<Vec<String>> {
    let mut blocks: Vec<Vec<String>> = Vec::new();
    for subject in &findings.subjects {
        let mut was_in_words = findings.subjects.len() > 1;
        if was_in_words {
            blocks.push(vec![paint(&clean(&subject.target, 100, style), Role::Bold, style)]);
        }
        for stage in &subject.stages {
            let mut lines = stage_lines(stage, detail, style);
            let is_in_words = matches!(stage.showed, None | Some(Showed::Preparation { .. }));
            if !is_in_words && subject.stages.len() > 1 {
                let name = clean(&stage.name, NAME_COLUMNS_MAX, style);
                lines.insert(0, paint(&name, Role::Bold, style));
            }
            match blocks.last_mut() {
                Some(last) if was_in_words && is_in_words => last.extend(lines),
                _ => blocks.push(lines),
            }
            was_in_words = is_in_words;
        }
    }
    blocks.push(side_by_side(findings, style));
    blocks
}

/// Names the standard and its setting, marks a run that deviates from the standard, and says if the run is still in
/// progress. A verdict lists the deviations.
fn head(run: &Run, findings: &Findings, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    let mut what: Vec<String> = Vec::new();
    what.extend(findings.standard.clone());
    what.extend(findings.setting.as_ref().map(|s| format!("{s} settings")));
    if findings.standard.is_some() && !findings.deviations.is_empty() {
        what.push("NON-CONFORMANT".to_owned());
    }
    if !what.is_empty() {
        lines.extend(paragraph(&clean(&what.join(style.dot()), 200, style), Role::Plain, style));
    }
    if !findings.complete && run.status == Status::Running {
        let text = format!("not finished: {}", crate::method::how_to_finish(run));
        lines.extend(paragraph(&text, Role::Yellow, style));
    }
    lines
}

fn stage_lines(stage: &StageFinding, detail: Detail, style: Style) -> Vec<String> {
    let name = clean(&stage.name, NAME_COLUMNS_MAX, style);
    let Some(showed) = &stage.showed else {
        return vec![paint(&format!("{name}: not begun"), Role::Dim, style)];
    };
    match showed {
        Showed::Preparation { words, .. } => {
            let words = if words.is_empty() { "done".to_owned() } else { words.join("; ") };
            // An error message may have several lines.
            let words: Vec<&str> = words.split_whitespace().collect();
            let text = clean(&format!("{name}: {}", words.join(" ")), 400, style);
            paragraph(&text, Role::Dim, style)
        }
        Showed::Sweep(sweep) => sweep_lines(&stage.name, sweep, detail, style),
        Showed::Rounds(rounds) => rounds_lines(&stage.name, rounds, detail, style),
        Showed::Series(series) => series::lines(series, style),
        Showed::Points { points } => points_lines(points, style),
        Showed::RateSearch(found) => rate_search::lines(found, style),
    }
}

fn sweep_lines(stage: &str, sweep: &SweepFinding, detail: Detail, style: Style) -> Vec<String> {
    let mut lines = grid::lines(stage, &sweep.table, detail, style);
    let load = sweep.load.as_ref();
    lines.extend(load.map(|load| load_lines(load, sweep, style)).unwrap_or_default());
    let best = load.and_then(|load| Some((method_headlines::best(load)?, load)));
    let mut marks = Vec::new();
    if let Some((best, load)) = best {
        let word = if load.ties.is_empty() { "best" } else { "tie" };
        marks.push((best, word));
        marks.extend(load.ties.iter().map(|&i| (load.rows[i], word)));
    }
    lines.extend(apart(chart::lines(&sweep.table, &marks, style)));
    if let Some(scaling) = &sweep.scaling {
        lines.extend(apart(scaling_lines(scaling, style)));
    }
    if sweep.table.axes.len() < 2 {
        lines.extend(known(&grid::named(stage, &sweep.table), style));
    }
    lines
}

/// Adds a blank line before `lines`.
fn apart(lines: Vec<String>) -> impl Iterator<Item = String> {
    let gap = (!lines.is_empty()).then(String::new);
    gap.into_iter().chain(lines)
}

/// Describes the best point of a load curve, and the external limit that ends the curve, if any.
fn load_lines(load: &Load, sweep: &SweepFinding, style: Style) -> Vec<String> {
    let mut lines = best_lines(load, sweep, style);
    if let Some(limited) = load.limited() {
        lines.extend(paragraph(&clean(&limited, 500, style), Role::Yellow, style));
    }
    lines
}

fn best_lines(load: &Load, sweep: &SweepFinding, style: Style) -> Vec<String> {
    let table = &sweep.table;
    let name = |point: usize| {
        let at = table.axes.iter().zip(&table.rows[load.rows[point]].at);
        at.map(|(axis, value)| format!("{axis} {value}")).collect::<Vec<_>>().join(", ")
    };
    let with_iops =
        |i: usize| format!("{} with {} IOPS", name(i), human::count(load.points[i].iops));
    let mut ceilings = load.ceilings.join(" and ");
    let apart = table.kinds_apart();
    if !ceilings.is_empty() && !apart.is_empty() {
        ceilings = format!("{ceilings} of {}", kinds::together(&apart));
    }
    let Optimum::Found { chosen, most, runner_up } = load.optimum else {
        let Optimum::NoneFeasible { least } = load.optimum else { return Vec::new() };
        let under = if ceilings.is_empty() { String::new() } else { format!(" under {ceilings}") };
        let text = format!("no point{under}{}", why_none(load, least, &name(least)));
        return paragraph(&clean(&text, 500, style), Role::Yellow, style);
    };
    let tied: Vec<String> = load.ties.iter().map(|&i| name(i)).collect();
    let overlap = format!(
        "{}: the 95 % intervals of their IOPS overlap; more repeats may tell them apart",
        tied.join(", ")
    );
    let (text, role) = if ceilings.is_empty() {
        // For offered rates, the highest is not a finding.
        if method_headlines::is_open(table) {
            return Vec::new();
        }
        let nearly = if chosen == most {
            String::new()
        } else {
            format!("; 98 % of this rate is reached at {}", with_iops(chosen))
        };
        let tie = if tied.is_empty() { String::new() } else { format!("; a tie with {overlap}") };
        let text = format!(
            "highest IOPS: {}{nearly}{tie}; to find the best point, set a limit on latency, such as --ceiling p99=1ms",
            with_iops(most)
        );
        (text, Role::Plain)
    } else if tied.is_empty() {
        let next = runner_up.map_or(String::new(), |i| format!("; next best: {}", with_iops(i)));
        let once = if table.rows.iter().all(|row| row.n < 2) && runner_up.is_some() {
            "; each point was measured once, so ties can't be detected"
        } else {
            ""
        };
        let text = format!(
            "best point under {ceilings}: {}, the lowest load that reaches 98 % of the highest rate{next}{once}",
            with_iops(chosen)
        );
        (text, Role::Green)
    } else {
        let text = format!(
            "a tie under {ceilings}: {}, the lowest load that reaches 98 % of the highest rate, and {overlap}",
            with_iops(chosen)
        );
        (text, Role::Yellow)
    };
    paragraph(&clean(&text, 700, style), role, style)
}

/// Explains why no point is under the latency ceilings: the lowest load exceeds one, has no usable result, or
/// has too few operations.
fn why_none(load: &Load, least: usize, name: &str) -> String {
    let is_over = |point: &LoadPoint| {
        let mut of = point.latency_ns.iter().zip(&load.limits);
        of.any(|(latency, (_, limit))| latency.is_some_and(|ns| ns > *limit))
    };
    let is_unknown =
        |point: &LoadPoint| point.latency_ns.iter().any(Option::is_none) && !is_over(point);
    let point = &load.points[least];
    if !point.sound || point.iops <= 0.0 {
        return format!("; the figures of the lowest load, {name}, are not usable");
    }
    if is_unknown(point) {
        return format!(
            " with certainty: the lowest load, {name}, has too few operations to tell; use a longer --time"
        );
    }
    let unknown = load.points.iter().filter(|point| is_unknown(point)).count();
    let more = match unknown {
        0 => String::new(),
        1 => "; 1 other load has too few operations to tell".to_owned(),
        n => format!("; {n} other loads have too few operations to tell"),
    };
    format!("; the lowest load, {name}, is over the ceiling{more}")
}

fn scaling_lines(scaling: &Scaling, style: Style) -> Vec<String> {
    let words = scaling.points.iter().map(|p| {
        let of = if p.n == 1 { scaling.of.trim_end_matches('s') } else { scaling.of };
        format!("{} {of}: x{:.2} ({:.0} %)", p.n, p.speed_up, p.efficiency * 100.0)
    });
    let text = format!("speed-up (efficiency): {}", words.collect::<Vec<_>>().join(", "));
    let mut lines = wrap(&clean(&text, 1000, style), style.columns());
    if let Some(law) = &scaling.law {
        let peak =
            law.peak().map_or(String::new(), |n| format!(", most at {}", human::three_digits(n)));
        let text = format!(
            "universal scalability law: contention {:.3}, coherency {:.5}{peak}; the points differ from the law by {:.1} % at most",
            law.contention,
            law.coherency,
            law.deviation_share_max * 100.0
        );
        lines.extend(wrap(&text, style.columns()));
    }
    lines
}

fn rounds_lines(stage: &str, rounds: &RoundsFinding, detail: Detail, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    let n = rounds.rounds;
    let of_window = format!("rounds {} to {n}", rounds.window_first);
    if let Some(steady) = &rounds.steady {
        let tried = steady.windows_tried;
        let (text, role) = match steady.progress {
            Progress::Reached => {
                let windows = if tried == 1 { "first window" } else { "last window" };
                (
                    format!("steady state reached in the {windows} of {tried} tried ({of_window})"),
                    Role::Green,
                )
            }
            Progress::NotReached => (
                format!("steady state NOT REACHED in {n} rounds; shown are {of_window}"),
                Role::Red,
            ),
            Progress::Running => {
                let done = human::counted(n.into(), "round");
                (format!("{done} so far, no steady state yet"), Role::Yellow)
            }
        };
        lines.extend(paragraph(&text, role, style));
        for (name, window) in &steady.windows {
            let text = format!(
                "{}: mean {}, range {} (at most {:.0}), slope {} (at most {:.0})",
                name,
                value(name, window.mean),
                human::percent(window.range_share(), 1),
                steady.limits.range_share_max * 100.0,
                human::percent(window.slope_share(), 1),
                steady.limits.slope_share_max * 100.0,
            );
            let role = if window.steady() { Role::Dim } else { Role::Yellow };
            lines.extend(paragraph(&clean(&text, 300, style), role, style));
            let own =
                rounds.variables.iter().find(|v| v.name == *name).and_then(|v| v.drift.as_ref());
            if let Some(drift) = own {
                lines.extend(drift_lines("the rate within the window", drift, style));
            }
        }
        if !steady.limits.is_pts() {
            lines.extend(paragraph(&clean(&rounds.limits, 300, style), Role::Yellow, style));
        }
    } else {
        let text = rounds.trouble.as_deref().unwrap_or("no round is complete");
        lines.extend(paragraph(&clean(text, 500, style), Role::Red, style));
    }
    lines.extend(grid::lines(stage, &rounds.table, detail, style));
    lines
}

/// Describes drift by iodyno's own rule, in addition to the specification's steady state rule.
fn drift_lines(what: &str, drift: &Drift, style: Style) -> Vec<String> {
    let trend = match (drift.share_per_hour, drift.interval) {
        (Some(share), Some(interval)) => format!(
            " ({:+.2} % an hour, {:+.2} to {:+.2})",
            share * 100.0,
            interval.low * 100.0,
            interval.high * 100.0
        ),
        _ => String::new(),
    };
    let seconds = |s: f64| human::duration_ns((s * 1e9) as u64);
    let (text, role) = match drift.steadiness {
        Steadiness::Steady => (format!("is steady{trend}"), Role::Green),
        Steadiness::Drifting => (format!("drifts{trend}"), Role::Yellow),
        Steadiness::Oscillating { period_s } => {
            (format!("oscillates with a period of {}", seconds(period_s)), Role::Yellow)
        }
        Steadiness::TooShort { needed_s } => (
            format!(
                "was measured for too short a time to tell: {} in all are needed",
                seconds(needed_s)
            ),
            Role::Dim,
        ),
        Steadiness::Inconclusive { needed_s: Some(s) } => (
            format!(
                "may or may not be steady{trend}; a measurement of about {} would tell",
                seconds(s)
            ),
            Role::Dim,
        ),
        Steadiness::Inconclusive { needed_s: None } => {
            (format!("may or may not be steady{trend}"), Role::Dim)
        }
    };
    let breaks = match drift.breaks_s.len() {
        0 => String::new(),
        1 => format!(
            "; the level changes after {}, and only the rest counts",
            seconds(drift.breaks_s[0])
        ),
        n => format!(
            "; the level changes {n} times, and only the rest after {} counts",
            seconds(drift.breaks_s[n - 1])
        ),
    };
    let text = clean(&format!("our own verdict: {what} {text}{breaks}"), 300, style);
    paragraph(&text, role, style)
}

/// Table of the operating points, with the latency percentiles of all targets side by side.
fn side_by_side(findings: &Findings, style: Style) -> Vec<String> {
    let mut rows = Vec::new();
    for subject in &findings.subjects {
        for stage in &subject.stages {
            let Some(Showed::Points { points }) = &stage.showed else { continue };
            rows.extend(points.iter().map(|p| {
                (
                    format!("{} OIO {} {}", p.which, point_figures::oio(&p.row), subject.target),
                    &p.row,
                )
            }));
        }
    }
    if findings.subjects.len() < 2 || rows.is_empty() {
        return Vec::new();
    }
    // Points of the same kind are adjacent.
    let kind = |name: &str| name.split(' ').next().unwrap_or_default().to_owned();
    rows.sort_by_key(|(name, _)| kind(name));
    let mut lines = vec![paint("confidence levels side by side", Role::Bold, style)];
    lines.extend(grid::figures("point of target", &rows, style));
    lines
}

/// Formats the value of a tracked quantity, with the unit implied by the quantity's name.
fn value(name: &str, x: f64) -> String {
    if name.starts_with("iops") {
        human::count(x)
    } else if name.starts_with("bandwidth") {
        human::throughput(x)
    } else {
        human::time_ns(x)
    }
}

fn points_lines(points: &[PointFinding], style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for point in points {
        let over = if point.ceilings.is_empty() {
            String::new()
        } else if point.keeps {
            format!(", keeps {}", point.ceilings.join(" and "))
        } else {
            format!(", over the ceiling {}", point.ceilings.join(" and "))
        };
        let text = format!(
            "{}: {} ({} outstanding){over}",
            point.which,
            point.chosen,
            point_figures::oio(&point.row)
        );
        let role = if point.keeps { Role::Green } else { Role::Yellow };
        lines.extend(paragraph(&clean(&text, 300, style), role, style));
    }
    let rows: Vec<(String, _)> = points.iter().map(|p| (p.which.to_owned(), &p.row)).collect();
    lines.extend(grid::figures("point", &rows, style));
    lines.extend(known(&rows, style));
    lines
}

/// Formats the confidence intervals of named rows. For a mix, they are shown per kind of operation.
fn known(rows: &[(String, &Row)], style: Style) -> Vec<String> {
    let mut all: Vec<Known> = Vec::new();
    for (name, row) in rows {
        let name = clean(name, NAME_COLUMNS_MAX, style);
        if row.kinds.len() < 2 {
            let within = NINES.iter().map(|n| n.1).zip(row.within.iter().copied()).collect();
            all.push(Known { name, rate: None, within });
            continue;
        }
        for of in &row.kinds {
            let within = PERCENTILES.iter().zip(of.response_time.within);
            let shown = within.filter(|(p, _)| NINES.iter().any(|(_, label)| *label == p.label));
            all.push(Known {
                name: format!("{name} {}", of.kind.name()),
                rate: None,
                within: shown.map(|(p, within)| (p.label, within)).collect(),
            });
        }
    }
    apart(certainty::lines(&all, style)).collect()
}
