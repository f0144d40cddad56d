//! Formats the live line of a run in progress. Fields have fixed positions.

use iodyno_page::terminal::Style;
use iodyno_page::terminal::text::{Role, clean, cut, pad, paint, width};
use iodyno_units::human;

/// State of a run in progress, for the live line on the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress<'a> {
    /// Name of the current cell (measurement), cut to 28 columns.
    pub cell: &'a str,
    /// Position of the current cell among the cells of the run, from 1.
    pub index: usize,
    /// Number of cells (measurements) in the run; 0 if unknown.
    pub count: usize,
    /// The current activity, such as `laying out`, `ramp` or `measuring`.
    pub phase: &'a str,
    /// Time since the phase began, ns.
    pub elapsed_ns: u64,
    /// Duration of the phase, ns; None if unknown.
    pub total_ns: Option<u64>,
    /// Operations per second in the latest interval.
    pub iops: f64,
    /// Bytes read and written per second in the latest interval.
    pub bytes_per_s: f64,
    /// Median latency in the latest interval, ns; None if unknown.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the latency in the latest interval, ns; None if unknown.
    pub p99_ns: Option<u64>,
    /// Number of failed operations in the current measurement so far.
    pub errors: u64,
    /// Remark on the ranks (processes that measure together); empty for a single process.
    pub ranks: &'a str,
    /// Estimated time until the end of the whole run, ns; None if unknown, or during the last measurement.
    pub left_ns: Option<u64>,
}

/// Width of the progress bar, in terminal columns.
const BAR_COLUMNS: usize = 16;

/// Formats the live line, at most as wide as the terminal. If space is short, fields are dropped in this order:
/// progress bar, time left, median, throughput, 99th percentile, phase, remark on ranks.
pub fn progress_line(progress: &Progress, style: Style) -> String {
    let p = progress;
    let words = |text: String| clean(&text, usize::MAX, style);
    let place = if p.count > 1 { format!("{}/{} ", p.index, p.count) } else { String::new() };
    let name = format!("{place}{}", clean(p.cell, 28, style));
    let time = match p.total_ns {
        Some(total_ns) => {
            let total = human::duration_ns(total_ns);
            format!("{} of {total}", pad(&seconds(p.elapsed_ns), width(&total), true))
        }
        None => seconds(p.elapsed_ns),
    };
    let about = if style.unicode { "≈ " } else { "about " };
    let left = p.left_ns.map_or(String::new(), |ns| format!("{about}{} left", seconds(ns)));
    let latency = |name: &str, ns: Option<u64>| {
        let text = ns.map_or(String::new(), |ns| words(human::time_ns(ns as f64)));
        let blank = if style.unicode { "–" } else { "-" };
        let text = if text.is_empty() { blank.to_owned() } else { text };
        format!("{name} {}", pad(&text, 7, true))
    };
    let errors = match p.errors {
        0 => String::new(),
        1 => "1 error".to_owned(),
        n => format!("{n} errors"),
    };
    // Each part with its priority: parts with the highest number are omitted first.
    let mut parts: Vec<(u8, String, Role)> = vec![
        (0, name, Role::Bold),
        (4, clean(p.phase, 16, style), Role::Plain),
        (9, bar(p, style), Role::Dim),
        (0, time, Role::Plain),
        (8, left, Role::Dim),
        (1, errors, Role::Red),
        (2, pad(&format!("{} IOPS", human::count(p.iops)), 11, true), Role::Plain),
        (6, pad(&human::throughput(p.bytes_per_s), 9, true), Role::Plain),
        (7, latency("p50", p.p50_ns), Role::Plain),
        (5, latency("p99", p.p99_ns), Role::Plain),
        (3, clean(p.ranks, 48, style), Role::Plain),
    ];
    parts.retain(|(_, text, _)| !text.is_empty());
    let total = |parts: &[(u8, String, Role)]| {
        parts.iter().map(|(_, t, _)| width(t) + 2).sum::<usize>() - 2
    };
    while total(&parts) > style.width {
        let last = parts.iter().enumerate().filter(|(_, p)| p.0 > 0).max_by_key(|(_, p)| p.0);
        let Some((i, _)) = last else {
            let line: Vec<String> = parts.into_iter().map(|(_, text, _)| text).collect();
            return cut(&line.join("  "), style.width, style);
        };
        parts.remove(i);
    }
    let painted: Vec<String> =
        parts.iter().map(|(_, text, role)| paint(text, *role, style)).collect();
    painted.join("  ")
}

/// Formats a time in whole seconds.
fn seconds(ns: u64) -> String {
    match ns / 1_000_000_000 {
        0 => "0 s".to_owned(),
        s => human::duration_ns(s * 1_000_000_000),
    }
}

fn bar(p: &Progress, style: Style) -> String {
    let Some(total_ns) = p.total_ns.filter(|&t| t > 0) else { return String::new() };
    let share = (p.elapsed_ns as f64 / total_ns as f64).clamp(0.0, 1.0);
    let done = (share * BAR_COLUMNS as f64) as usize;
    let (full, empty) = if style.unicode { ("━", "┄") } else { ("=", "-") };
    full.repeat(done) + &empty.repeat(BAR_COLUMNS - done)
}
