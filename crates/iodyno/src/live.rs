//! Progress on standard error during a run: on a terminal a single line that is redrawn, elsewhere (such as a CI
//! log) one line per minute.

use crate::console::{complain, remark};
use crate::scrape::RunMetrics;
use crate::terminals::Terminals;
use iodyno_drive::Progress;
use iodyno_measure::{Cell, Interval};
use iodyno_page::terminal::Style;
use iodyno_report::terminal::{Progress as Line, progress_line};
use iodyno_run::{OverRanks, Phase, Plan, Rates, Watch};
use iodyno_units::human;
use iodyno_units::text::clean;
use std::time::{Duration, Instant};

/// Minimum time between redraws of the progress line, so that it stays readable.
const REDRAW_EVERY: Duration = Duration::from_millis(250);
/// Time between two progress lines if standard error is not a terminal.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Progress line of a run on standard error.
pub(crate) struct LiveLine {
    form: Form,
    /// Time of the last output; None: the line may be drawn immediately.
    written: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Off,
    /// A single line that is redrawn in place.
    Redrawn,
    /// A new line after each interval `every`.
    Log {
        every: Duration,
    },
}

impl LiveLine {
    pub(crate) fn new(quiet: bool) -> Self {
        match (quiet, Terminals::of_process().err) {
            (true, _) => Self::of(Form::Off),
            (false, true) => Self::of(Form::Redrawn),
            (false, false) => Self::of(Form::Log { every: LOG_EVERY }),
        }
    }

    fn of(form: Form) -> Self {
        let written = matches!(form, Form::Log { .. }).then(Instant::now);
        Self { form, written }
    }

    /// Draws the progress line, unless the last output was too recent.
    pub(crate) fn draw(&mut self, text: &str) {
        if let Some(text) = self.next(text) {
            complain(&text);
        }
    }

    /// Returns the characters to write for a progress line; None if the last output was too recent.
    fn next(&mut self, text: &str) -> Option<String> {
        let (every, line) = match self.form {
            Form::Off => return None,
            // Carriage return, clear to the end, and no line end: the next output overwrites the line.
            Form::Redrawn => (REDRAW_EVERY, format!("\r\x1b[K{text}")),
            Form::Log { every } => (every, format!("progress: {}\n", text.trim())),
        };
        if self.written.is_some_and(|at| at.elapsed() < every) {
            return None;
        }
        self.written = Some(Instant::now());
        Some(line)
    }

    /// Makes the next call of [`Self::draw`] redraw the line without delay.
    fn renew(&mut self) {
        if self.form == Form::Redrawn {
            self.written = None;
        }
    }

    /// Erases the progress line before results are printed.
    pub(crate) fn clear(&mut self) {
        if self.form == Form::Redrawn && self.written.take().is_some() {
            complain("\r\x1b[K");
        }
    }
}

/// Prints the progress and remarks of a run to standard error.
pub(crate) struct Live {
    line: LiveLine,
    quiet: bool,
    style: Style,
    /// Most recent warning, which is not printed again.
    warned: String,
    cell: String,
    position: (usize, usize),
    /// Plan of the run: the number of its cells, and their durations.
    plan: Plan,
    metrics: Option<RunMetrics>,
}

impl Live {
    pub(crate) fn new(quiet: bool, style: Style, metrics: Option<RunMetrics>) -> Self {
        Self {
            metrics,
            line: LiveLine::new(quiet),
            quiet,
            style,
            warned: String::new(),
            cell: String::new(),
            position: (0, 0),
            plan: Plan::default(),
        }
    }

    /// Estimated remaining time of the run, ns. None for a run of one cell, whose own remaining time is shown
    /// anyway.
    fn left_ns(&self, progress: &Progress<'_>) -> Option<u64> {
        let (index, count) = self.position;
        let cell_left_ns = progress.total_ns?.saturating_sub(progress.elapsed_ns);
        self.plan.left_ns(index, cell_left_ns).filter(|_| count > 1)
    }

    /// Erases the progress line before results are printed.
    pub(crate) fn clear(&mut self) {
        self.line.clear();
    }
}

impl Watch for Live {
    fn began(&mut self, id: &str, name: &str) {
        self.metrics.iter().for_each(|metrics| metrics.began(id, name));
    }

    fn ready(&mut self, first_index: usize, cells: &[Cell]) {
        self.metrics.iter().for_each(|metrics| metrics.ready(first_index, cells));
    }

    fn interval(&mut self, target: usize, index: usize, interval: &Interval) {
        self.metrics.iter().for_each(|metrics| metrics.interval(target, index, interval));
    }

    fn finished(&mut self, first_index: usize, cells: &[Cell]) {
        self.metrics.iter().for_each(|metrics| metrics.finished(first_index, cells));
    }

    fn planned(&mut self, plan: &Plan) {
        self.plan = plan.clone();
        if !self.quiet && plan.is_notable() {
            remark("plan", &plan.words.join("; "));
        }
    }

    fn advise(&mut self, words: &str) {
        if !self.quiet {
            self.clear();
            remark("note", words);
        }
    }

    fn warn(&mut self, words: &str) {
        // A repeated warning is printed once.
        if self.warned == words {
            return;
        }
        words.clone_into(&mut self.warned);
        self.clear();
        remark("warning", words);
    }

    fn phase(&mut self, phase: Phase<'_>) {
        match phase {
            Phase::LayingOut { target, done_bytes, total_bytes } => {
                let share = 100.0 * done_bytes as f64 / total_bytes.max(1) as f64;
                self.line.draw(&format!(
                    "laying out {}  {} of {} ({share:.0} %)",
                    clean(target),
                    human::size(done_bytes),
                    human::size(total_bytes)
                ));
            }
            Phase::Replaying => self.line.draw("restoring the state of the emulated system"),
            Phase::Waiting { ns } => self.line.draw(&format!("waiting {}", human::duration_ns(ns))),
            Phase::Preparing => self.line.draw("preparing the emulated system"),
            Phase::Calibrating => self.line.draw("measuring the highest rate of iodyno itself"),
        }
    }

    fn cell(&mut self, index: usize, count: usize, cell: &Cell) {
        self.cell.clone_from(&cell.key.name);
        self.position = (index, count);
        self.line.renew();
    }

    fn begun(&mut self, cells: usize, ranks: u32) {
        // The number of cells is unknown if results decide it.
        let is_known =
            |plan: &Plan| plan.budget.as_ref().is_some_and(|b| b.cells_min == b.cells_max);
        let of =
            if is_known(&self.plan) { format!(" of {}", self.plan.cells) } else { String::new() };
        self.line.draw(&format!("cell {cells}{of}, on {ranks} ranks"));
    }

    fn tick(&mut self, progress: &Progress<'_>, rates: &Rates, ranks: Option<&OverRanks>) {
        let ranks = ranks.map(ranks_words);
        let line = progress_line(
            &Line {
                cell: &self.cell,
                index: self.position.0 + 1,
                count: self.position.1,
                phase: if progress.ramping { "ramp" } else { "measuring" },
                elapsed_ns: progress.elapsed_ns,
                total_ns: progress.total_ns,
                iops: rates.iops,
                bytes_per_s: rates.bytes_per_s,
                p50_ns: rates.p50_ns,
                p99_ns: rates.p99_ns,
                errors: rates.errors,
                ranks: ranks.as_deref().unwrap_or_default(),
                left_ns: self.left_ns(progress),
            },
            self.style,
        );
        self.line.draw(&line);
    }
}

/// Describes the ranks of a run for the progress line: their number, and the slowest one.
fn ranks_words(of: &OverRanks) -> String {
    if of.heard < of.ranks {
        return format!("{} of {} ranks", of.heard, of.ranks);
    }
    let OverRanks { ranks, slowest, slowest_host, slowest_iops, .. } = of;
    format!(
        "{ranks} ranks, slowest {slowest} on {} {}",
        clean(slowest_host),
        human::count(*slowest_iops)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: Style = Style { color: false, width: 80, unicode: true };

    /// For cells of unequal length, the remaining time is always the rest of the current cell plus all later
    /// cells, and reaches zero at the end.
    #[test]
    fn remaining_time_is_this_cells_and_all_later_ones() {
        let times_s = [2_u64, 30, 5];
        let (repeats, second_ns) = (2, 1_000_000_000);
        let mut live = Live::new(true, STYLE, None);
        let plan = Plan {
            cells: 6,
            repeats,
            time_ns: 74 * second_ns,
            cell_times_ns: times_s.map(|s| s * second_ns).to_vec(),
            ..Plan::default()
        };
        live.planned(&plan);
        let mut gone_s = 0;
        for index in 0..6 {
            live.cell(index, 6, &Cell::default());
            let total_s = times_s[index % 3];
            for elapsed_s in 0..=total_s {
                let progress = progress(elapsed_s * second_ns, total_s * second_ns);
                let left_s = live.left_ns(&progress).unwrap() / second_ns;
                assert_eq!(left_s, 74 - gone_s - elapsed_s, "cell {index}");
                assert!(left_s >= total_s - elapsed_s);
            }
            // A cell that takes longer than planned.
            let over = progress((total_s + 9) * second_ns, total_s * second_ns);
            gone_s += total_s;
            assert_eq!(live.left_ns(&over), Some((74 - gone_s) * second_ns));
        }
        assert_eq!(gone_s, 74);
        // The end of these plans is unknown.
        let whole = progress(0, second_ns);
        for plan in [
            Plan { virtual_time: true, ..plan.clone() },
            Plan { open_ended: true, ..plan.clone() },
            Plan { cell_times_ns: Vec::new(), ..plan.clone() },
        ] {
            live.planned(&plan);
            assert_eq!(live.left_ns(&whole), None);
        }
        // The line of a single cell shows its own time.
        live.planned(&Plan { cells: 1, ..plan });
        live.cell(0, 1, &Cell::default());
        assert_eq!(live.left_ns(&whole), None);
    }

    /// In a log file, progress consists of whole lines without control characters, one per interval. On a
    /// terminal, it is a single line that is redrawn.
    #[test]
    fn a_log_gets_a_line_an_interval() {
        let mut line = LiveLine::of(Form::Log { every: Duration::from_hours(1) });
        assert_eq!(line.next("cell 1"), None);
        line.renew();
        assert_eq!(line.next("cell 2"), None);
        let mut line = LiveLine::of(Form::Log { every: Duration::ZERO });
        assert_eq!(line.next("  cell 1 of 4").unwrap(), "progress: cell 1 of 4\n");
        let mut line = LiveLine::of(Form::Redrawn);
        assert!(line.next("cell 1").unwrap().ends_with("cell 1"));
        line.renew();
        assert!(line.next("cell 2").is_some());
        assert_eq!(LiveLine::of(Form::Off).next("cell 1"), None);
    }

    fn progress<'a>(elapsed_ns: u64, total_ns: u64) -> Progress<'a> {
        let total_ns = Some(total_ns);
        let interval_ns = 1_000_000_000;
        Progress { elapsed_ns, total_ns, ramping: false, latest: None, interval_ns, errors: 0 }
    }
}
