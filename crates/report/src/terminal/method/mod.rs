//! A run of a method as terminal text: the findings of each stage, and the verdicts of its many cells by kind.
//! Individual cells are in `export --format csv` and in JSON.

mod grid;
mod series;

use super::certainty::{self, Known};
use super::verdicts;
use crate::run_verdict::RunVerdict;
use crate::verdict_groups::{self, Group};
use iodyno_measure::Level;
use iodyno_measure::statistics::drift::{Drift, Steadiness};
use iodyno_measure::statistics::knee::{LoadPoint, Optimum};
use iodyno_measure::statistics::steady::Progress;
use iodyno_method::findings::{
    Findings, Load, NINES, PointFinding, RoundsFinding, Row, Scaling, Showed, StageFinding,
    SweepFinding,
};
use iodyno_notebook::Run;
use iodyno_page::terminal::Style;
use iodyno_page::terminal::text::{Role, clean, paint, paragraph, wrap};
use iodyno_units::human;

/// Columns of a name in a line.
const NAME_COLUMNS_MAX: usize = 48;

pub(super) fn lines(run: &Run, findings: &Findings, style: Style) -> Vec<String> {
    let mut lines = head(run, findings, style);
    for subject in &findings.subjects {
        if findings.subjects.len() > 1 {
            lines.push(String::new());
            lines.push(paint(&clean(&subject.target, 100, style), Role::Bold, style));
        }
        for stage in &subject.stages {
            lines.extend(stage_lines(stage, style));
        }
    }
    lines.extend(side_by_side(findings, style));
    // The run's own head ends with a blank line.
    if lines.first().is_some_and(String::is_empty) {
        lines.remove(0);
    }
    lines
}

/// The standard with all deviations from it: never one without the other.
fn head(run: &Run, findings: &Findings, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    let mut what: Vec<String> = Vec::new();
    what.extend(findings.standard.clone());
    what.extend(findings.setting.as_ref().map(|s| format!("{s} settings")));
    if !what.is_empty() {
        lines.push(paint(&clean(&what.join(style.dot()), 200, style), Role::Plain, style));
    }
    if !findings.deviations.is_empty() {
        let label = if findings.standard.is_some() { "NON-CONFORMANT" } else { "changed" };
        let text = format!("{label}: {}", findings.deviations.join("; "));
        let text = clean(&text, 1000, style);
        lines.extend(paragraph(&text, Role::Yellow, style));
    }
    if !findings.complete {
        let text = format!("not finished: {}", crate::method::how_to_finish(run));
        lines.extend(paragraph(&text, Role::Yellow, style));
    }
    lines
}

fn stage_lines(stage: &StageFinding, style: Style) -> Vec<String> {
    let name = clean(&stage.name, NAME_COLUMNS_MAX, style);
    let Some(showed) = &stage.showed else {
        return vec![paint(&format!("{name}: not begun"), Role::Dim, style)];
    };
    match showed {
        Showed::Preparation { words, .. } => {
            let words = if words.is_empty() { "done".to_owned() } else { words.join("; ") };
            // An error's text may have several lines.
            let words: Vec<&str> = words.split_whitespace().collect();
            let text = clean(&format!("{name}: {}", words.join(" ")), 400, style);
            paragraph(&text, Role::Dim, style)
        }
        Showed::Sweep(sweep) => titled(&name, sweep_lines(&stage.name, sweep, style), style),
        Showed::Rounds(rounds) => titled(&name, rounds_lines(&stage.name, rounds, style), style),
        Showed::Series(series) => titled(&name, series::lines(series, style), style),
        Showed::Points { points } => titled(&name, points_lines(points, style), style),
    }
}

fn titled(name: &str, rest: Vec<String>, style: Style) -> Vec<String> {
    let mut lines = vec![String::new(), paint(name, Role::Bold, style)];
    lines.extend(rest);
    lines
}

fn sweep_lines(stage: &str, sweep: &SweepFinding, style: Style) -> Vec<String> {
    let mut lines = grid::lines(stage, &sweep.table, style);
    if sweep.table.axes.len() < 2 {
        lines.extend(known(&grid::named(stage, &sweep.table), style));
    }
    if let Some(scaling) = &sweep.scaling {
        lines.extend(scaling_lines(scaling, style));
    }
    if let Some(load) = &sweep.load {
        lines.extend(load_lines(load, sweep, style));
    }
    lines
}

fn load_lines(load: &Load, sweep: &SweepFinding, style: Style) -> Vec<String> {
    let name = |point: usize| {
        let row = &sweep.table.rows[load.rows[point]];
        let words: Vec<String> = sweep
            .table
            .axes
            .iter()
            .zip(&row.at)
            .map(|(axis, value)| format!("{axis} {value}"))
            .collect();
        words.join(", ")
    };
    let under = if load.ceilings.is_empty() {
        String::new()
    } else {
        format!(" under {}", load.ceilings.join(" and "))
    };
    let text = match &load.optimum {
        Optimum::NoPoints => return Vec::new(),
        Optimum::NoneFeasible { least } => {
            format!("no point{under}{}", why_none(load, *least, &name(*least)))
        }
        Optimum::Found { chosen, runner_up, .. } => {
            let point = &load.points[*chosen];
            let next = runner_up.map_or(String::new(), |i| {
                let it = &load.points[i];
                format!("; next best: {} with {} IOPS", name(i), human::count(it.iops))
            });
            format!(
                "best point{under}: {} ({} outstanding) with {} IOPS, the least demand with 98 % of the most{next}",
                name(*chosen),
                point.oio,
                human::count(point.iops)
            )
        }
    };
    let text = clean(&text, 500, style);
    paragraph(&text, Role::Green, style)
}

/// Why no point is under the ceilings: the least demand is over one, or its figures can't decide.
fn why_none(load: &Load, least: usize, name: &str) -> String {
    let is_over = |point: &LoadPoint| {
        let mut of = point.latency_ns.iter().zip(&load.limits);
        of.any(|(latency, (_, limit))| latency.is_some_and(|ns| ns > *limit))
    };
    let is_unknown =
        |point: &LoadPoint| point.latency_ns.iter().any(Option::is_none) && !is_over(point);
    let point = &load.points[least];
    if !point.sound || point.iops <= 0.0 {
        return format!("; the figures of the least demand, {name}, are not to be used");
    }
    if is_unknown(point) {
        return format!(
            " that is known to be; too few operations to tell for the least demand, {name}: give each cell more --time"
        );
    }
    let unknown = load.points.iter().filter(|point| is_unknown(point)).count();
    let more = match unknown {
        0 => String::new(),
        1 => "; too few operations to tell for 1 other".to_owned(),
        n => format!("; too few operations to tell for {n} others"),
    };
    format!("; the least demand, {name}, is over the ceiling{more}")
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
            "universal scalability law: contention {:.3}, coherency {:.5}{peak}; off by {:.1} % at most",
            law.contention,
            law.coherency,
            law.deviation_share_max * 100.0
        );
        lines.extend(wrap(&text, style.columns()));
    }
    lines
}

fn rounds_lines(stage: &str, rounds: &RoundsFinding, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    let n = rounds.rounds;
    let of_window = format!("rounds {} to {n}", rounds.window_first);
    match &rounds.steady {
        Some(steady) => {
            let tried = steady.windows_tried;
            let (text, role) = match steady.progress {
                Progress::Reached => {
                    let windows = if tried == 1 { "first window" } else { "window" };
                    (
                        format!(
                            "steady state reached in the {windows} of {tried} tried ({of_window})"
                        ),
                        Role::Green,
                    )
                }
                Progress::NotReached => (
                    format!("steady state NOT REACHED in {n} rounds; shown are {of_window}"),
                    Role::Red,
                ),
                Progress::Running => {
                    (format!("{n} rounds so far, no steady state yet"), Role::Yellow)
                }
            };
            lines.push(paint(&text, role, style));
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
                lines.push(paint(&clean(&text, style.columns(), style), role, style));
                let own = rounds
                    .variables
                    .iter()
                    .find(|v| v.name == *name)
                    .and_then(|v| v.drift.as_ref());
                if let Some(drift) = own {
                    lines.extend(drift_lines("its rate within the window", drift, style));
                }
            }
            if !steady.limits.is_pts() {
                lines.push(paint(
                    &clean(&rounds.limits, style.columns(), style),
                    Role::Yellow,
                    style,
                ));
            }
        }
        None => lines.push(paint(
            &clean(
                rounds.trouble.as_deref().unwrap_or("no round is whole"),
                style.columns(),
                style,
            ),
            Role::Red,
            style,
        )),
    }
    lines.extend(grid::lines(stage, &rounds.table, style));
    lines
}

/// Our own verdict beside the specification's.
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
        Steadiness::Steady => (format!("steady{trend}"), Role::Green),
        Steadiness::Drifting => (format!("drifts{trend}"), Role::Yellow),
        Steadiness::Oscillating { period_s } => {
            (format!("swings with a period of {}", seconds(period_s)), Role::Yellow)
        }
        Steadiness::TooShort { needed_s } => (
            format!("measured for too short a time to tell: it takes {}", seconds(needed_s)),
            Role::Dim,
        ),
        Steadiness::Inconclusive { needed_s: Some(s) } => {
            (format!("not shown to be steady{trend}; about {} would tell", seconds(s)), Role::Dim)
        }
        Steadiness::Inconclusive { needed_s: None } => {
            (format!("not shown to be steady{trend}"), Role::Dim)
        }
    };
    let breaks = match drift.breaks_s.len() {
        0 => String::new(),
        1 => format!("; a break after {}", seconds(drift.breaks_s[0])),
        n => format!("; {n} breaks, the last after {}", seconds(drift.breaks_s[n - 1])),
    };
    let text = clean(&format!("our own verdict: {what} is {text}{breaks}"), 300, style)
        .replace("is drifts", "drifts")
        .replace("is swings", "swings")
        .replace("is measured", "was measured");
    paragraph(&text, role, style)
}

/// Operating points of several targets: the confidence levels side by side.
fn side_by_side(findings: &Findings, style: Style) -> Vec<String> {
    let mut rows = Vec::new();
    for subject in &findings.subjects {
        for stage in &subject.stages {
            let Some(Showed::Points { points }) = &stage.showed else { continue };
            rows.extend(
                points
                    .iter()
                    .map(|p| (format!("{} OIO {} {}", p.which, p.row.oio, subject.target), &p.row)),
            );
        }
    }
    if findings.subjects.len() < 2 || rows.is_empty() {
        return Vec::new();
    }
    // Points of the same kind are listed together.
    let kind = |name: &str| name.split(' ').next().unwrap_or_default().to_owned();
    rows.sort_by_key(|(name, _)| kind(name));
    let mut lines = titled("confidence levels side by side", Vec::new(), style);
    lines.extend(grid::figures("point of target", &rows, style));
    lines
}

/// A tracked value in the unit that its name implies.
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
        let text =
            format!("{}: {} ({} outstanding){over}", point.which, point.chosen, point.row.oio);
        let role = if point.keeps { Role::Green } else { Role::Yellow };
        lines.push(paint(&clean(&text, style.columns(), style), role, style));
    }
    let rows: Vec<(String, _)> = points.iter().map(|p| (p.which.to_owned(), &p.row)).collect();
    lines.extend(grid::figures("point", &rows, style));
    lines.extend(known(&rows, style));
    lines
}

/// The confidence of the percentiles of some lines.
fn known(rows: &[(String, &Row)], style: Style) -> Vec<String> {
    let rows: Vec<Known> = rows
        .iter()
        .map(|(name, row)| Known {
            name: name.clone(),
            within: NINES.iter().map(|n| n.1).zip(row.within.iter().copied()).collect(),
        })
        .collect();
    let lines = certainty::lines(&rows, style);
    // A table of its own.
    let gap = (!lines.is_empty()).then(String::new);
    gap.into_iter().chain(lines).collect()
}

/// The verdicts on the whole run; then those of its cells by code: the number of cells with each, and its text
/// for the first. Sound cells do not make the run VALID.
pub(super) fn verdicts(run: &Run, standing: &RunVerdict, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for verdict in &standing.verdicts {
        let text = format!("the run: {} ({})", verdict.text, verdict.code);
        lines.extend(verdict_lines(verdict.level, &text, style));
    }
    let all = verdict_groups::count(&run.cells, true);
    for Group { verdict, cells, same_text, .. } in verdict_groups::groups(&run.cells, true) {
        let such_as = if same_text { "" } else { ", such as" };
        let which = match cells.len() {
            1 if all > 1 => format!("one of {all} cells"),
            1 => "one cell".to_owned(),
            n if n == all => format!("all {n} cells{such_as}"),
            n => format!("{n} of {all} cells{such_as}"),
        };
        let (level, text) = match verdict.level {
            Level::Valid if standing.is_doubted() => {
                (Level::Note, format!("{which}, each by itself: {}", verdict.text))
            }
            Level::Valid => (Level::Valid, format!("{which}: {}", verdict.text)),
            level => (level, format!("{which}: {} ({})", verdict.text, verdict.code)),
        };
        lines.extend(verdict_lines(level, &text, style));
    }
    lines
}

fn verdict_lines(level: Level, text: &str, style: Style) -> Vec<String> {
    verdicts::line_of(level, &clean(text, 1000, style), style)
}
