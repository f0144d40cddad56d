//! Formats a series for the terminal: its beginning, its end, and its course as a sparkline.

use super::grid;
use crate::terminal::spark;
use iodyno_measure::statistics::steady::Progress;
use iodyno_method::findings::SeriesFinding;
use iodyno_page::terminal::Style;
use iodyno_page::terminal::text::{Role, paint, paragraph, wrap};
use iodyno_units::human;

pub(super) fn lines(series: &SeriesFinding, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    let Some(last) = series.samples.last() else {
        return vec![paint("no sample yet", Role::Dim, style)];
    };
    let n = series.samples.len();
    let long = human::duration_ns((last.at_s * 1e9) as u64);
    let fills = last.fills.map_or(String::new(), |f| match f {
        f if f <= 0.0 => ", nothing written".to_owned(),
        f if f < 0.001 => ", less than 0.001 x the active range written".to_owned(),
        f => format!(", {} x the active range written", human::three_digits(f)),
    });
    let samples = if n == 1 { "1 sample".to_owned() } else { format!("{n} samples") };
    lines.push(format!("{samples} over {long}{fills}"));
    if let Some(steady) = &series.steady {
        let (text, role) = match steady.progress {
            Progress::Reached => (
                format!(
                    "steady state reached after {} rounds (windows tried: {})",
                    steady.rounds, steady.windows_tried
                ),
                Role::Green,
            ),
            Progress::NotReached => {
                (format!("steady state NOT REACHED in {} rounds", steady.rounds), Role::Red)
            }
            Progress::Running => (
                format!(
                    "no steady state in {} before the run ended",
                    human::counted(steady.rounds.into(), "round")
                ),
                Role::Yellow,
            ),
        };
        lines.extend(paragraph(&text, role, style));
    }
    if let Some(drift) = &series.drift {
        lines.extend(super::drift_lines("the rate", drift, style));
    }
    if series.stalls.count > 0 {
        let text = format!(
            "{} {}, the longest {} (intervals of {} with less than a tenth of the usual throughput)",
            series.stalls.count,
            if series.stalls.count == 1 { "stall" } else { "stalls" },
            human::duration_ns((series.stalls.longest_s * 1e9) as u64),
            human::duration_ns((series.stalls.interval_s * 1e9) as u64)
        );
        lines.extend(paragraph(&text, Role::Yellow, style));
    }
    if n > 1 && style.unicode {
        let iops: Vec<f64> = series.samples.iter().map(|s| s.iops).collect();
        let drawn = spark::of(&iops, style.columns().saturating_sub(24).min(80));
        lines.extend(drawn.map(|(bars, least, largest)| {
            format!("IOPS {bars} {} to {}", human::count(least), human::count(largest))
        }));
    }
    if let Some((first, last)) = sentence(series) {
        let text = format!("{first} at first, {last} at the end");
        lines.extend(wrap(&text, style.columns()));
    }
    let rows = [("first".to_owned(), &series.first), ("end".to_owned(), &series.end)];
    lines.extend(grid::figures("sample", &rows, style));
    lines
}

/// Rate of the first sample, and rate at the end with its change in percent, as text.
fn sentence(series: &SeriesFinding) -> Option<(String, String)> {
    let (first, end) = (series.first.iops?, series.end.iops?);
    (series.samples.len() > 1 && first > 0.0).then(|| {
        let share = (end / first - 1.0) * 100.0;
        (format!("{} IOPS", human::count(first)), format!("{} ({share:+.0} %)", human::count(end)))
    })
}
