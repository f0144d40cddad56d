//! Draws the latencies of each row as a bar from the minimum to the maximum, with marks at the median and at the 99th
//! and 99.9th percentiles. All bars share one logarithmic scale. Requires a terminal with non-ASCII characters.

use super::short_label_of;
use iodyno_measure::{Cell, Latency, PERCENTILES, Summary};
use iodyno_notebook::Run;
use iodyno_page::terminal::Style;
use iodyno_page::terminal::text::{Role, pad, paint, width, wrap};
use iodyno_units::human;

/// Maximum number of latency bars: more are unreadable.
const ROWS_MAX: usize = 16;
/// Minimum and maximum width of the latency scale, in terminal columns.
const SCALE_COLUMNS: (usize, usize) = (30, 72);

/// Legend for the strokes of a latency bar.
const KEY: &str = "─ min to p50 · ● p50 · ━ to p99 · ┅ to p99.9 · ┄ to max";

/// Draws latency bars on a common scale, one per cell and kind of operation. Empty for a single bar, for too
/// many, and on narrow terminals.
pub(super) fn lines(run: &Run, cells: &[&Cell], style: Style) -> Vec<String> {
    let mut rows: Vec<(String, Latency)> = Vec::new();
    for cell in cells {
        let figures = Summary::of(cell);
        let several = figures.kinds.len() > 1;
        for kind in figures.kinds {
            let name = short_label_of(run, &cell.key, style);
            let name = if several { format!("{name} {}", kind.kind.name()) } else { name };
            rows.push((name, kind.response_time));
        }
    }
    let ends = |of: fn(&Latency) -> Option<u64>| rows.iter().filter_map(move |r| of(&r.1));
    let low = ends(|l| l.min_ns).min().unwrap_or(0).max(1);
    let high = ends(|l| l.max_ns).max().unwrap_or(0);
    let names = rows.iter().map(|r| width(&r.0)).max().unwrap_or(0);
    let columns = style.columns().saturating_sub(names + 3).min(SCALE_COLUMNS.1);
    if !style.unicode
        || !(2..=ROWS_MAX).contains(&rows.len())
        || columns < SCALE_COLUMNS.0
        || high <= low
    {
        return Vec::new();
    }
    let scale = Scale { low: (low as f64).log10(), high: (high as f64).log10(), columns };
    let head = paint(
        &format!("{}  {}", pad("latency (log)", names, false), scale.ticks()),
        Role::Dim,
        style,
    );
    let mut lines = vec![head];
    for (name, latency) in rows {
        lines.push(format!("{}  {}", pad(&name, names, false), scale.bar(&latency, style)));
    }
    // Below the bars, indented as they are if it fits in one line.
    let free = style.columns().saturating_sub(width(KEY));
    let indent = " ".repeat((names + 2).min(free));
    for line in wrap(KEY, style.columns() - indent.len()) {
        lines.push(paint(&format!("{indent}{line}"), Role::Dim, style));
    }
    lines
}

/// Logarithmic latency scale: its bounds as powers of ten, and its width in terminal columns.
struct Scale {
    low: f64,
    high: f64,
    columns: usize,
}

impl Scale {
    fn place(&self, ns: u64) -> usize {
        let share = ((ns.max(1) as f64).log10() - self.low) / (self.high - self.low);
        (share * (self.columns - 1) as f64).round().clamp(0.0, (self.columns - 1) as f64) as usize
    }

    /// Tick marks at powers of ten, or at both ends of the scale if it contains no power of ten.
    fn ticks(&self) -> String {
        let decades: Vec<u64> = (self.low.ceil() as i32..=self.high.floor() as i32)
            .map(|p| 10_f64.powi(p).round() as u64)
            .collect();
        let ends = [10_f64.powf(self.low), 10_f64.powf(self.high)].map(|ns| ns.round() as u64);
        let marks = if decades.is_empty() { ends.to_vec() } else { decades };
        let mut line = String::new();
        for ns in marks {
            let text = format!("╵{}", human::time_ns(ns as f64));
            let at = self.place(ns);
            // Omit a mark that would touch the one before, or exceed the scale.
            let used = width(&line);
            if (used == 0 || at > used) && at + width(&text) <= self.columns + 1 {
                line.push_str(&" ".repeat(at - used.min(at)));
                line.push_str(&text);
            }
        }
        line
    }

    fn bar(&self, latency: &Latency, style: Style) -> String {
        let (Some(min), Some(max)) = (latency.min_ns, latency.max_ns) else {
            return paint("nothing completed", Role::Dim, style);
        };
        let percentile = |key: &str| {
            let i = PERCENTILES.iter().position(|p| p.key == key)?;
            latency.percentiles_ns[i].map(|ns| self.place(ns))
        };
        let (start, end) = (self.place(min), self.place(max));
        let median = percentile("p50").unwrap_or(start);
        let p99 = percentile("p99").unwrap_or(median);
        let p999 = percentile("p99_9").unwrap_or(p99);
        let mut bar = " ".repeat(start);
        for at in start..=end {
            bar.push(match at {
                _ if at == median => '●',
                _ if at < median => '─',
                _ if at <= p99 => '━',
                _ if at <= p999 => '┅',
                _ => '┄',
            });
        }
        bar
    }
}
