//! The live line on standard error while a run goes on. On a terminal one line is redrawn; in a
//! log only the ends of cells are worth a line, and the results say those.

use crate::complain;
use iodyno_drive::Progress;
use iodyno_measure::Cell;
use iodyno_report::terminal::{Progress as Line, Style, progress_line};
use iodyno_run::{Phase, Plan, Watch};
use iodyno_units::human;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

/// A line that changes more often than this is hard to read.
const REDRAW_EVERY: Duration = Duration::from_millis(250);

/// See the module.
pub(crate) struct Live {
    on_terminal: bool,
    quiet: bool,
    style: Style,
    drawn: Option<Instant>,
    cell: String,
    position: (usize, usize),
    /// How long all cells take by the plan, ns, where it is known.
    planned_ns: Option<u64>,
    /// When the first of them began.
    began: Option<Instant>,
}

impl Live {
    pub(crate) fn new(quiet: bool, style: Style) -> Self {
        let on_terminal = std::io::stderr().is_terminal();
        Self {
            on_terminal,
            quiet,
            style,
            drawn: None,
            cell: String::new(),
            position: (0, 0),
            planned_ns: None,
            began: None,
        }
    }

    fn draw(&mut self, text: &str) {
        if self.quiet || !self.on_terminal {
            return;
        }
        if self.drawn.is_some_and(|t| t.elapsed() < REDRAW_EVERY) {
            return;
        }
        self.drawn = Some(Instant::now());
        // Return, clear to the end, and no line end: the next one goes over it.
        complain(&format!("\r\x1b[K{text}"));
    }

    /// Takes the live line away; results follow.
    pub(crate) fn clear(&mut self) {
        if self.drawn.take().is_some() {
            complain("\r\x1b[K");
        }
    }
}

impl Watch for Live {
    fn planned(&mut self, plan: &Plan) {
        // Rounds end when they are steady, cells in virtual time when they are simulated.
        let is_known = !plan.virtual_time && !plan.open_ended && plan.budget.is_none();
        self.planned_ns = is_known.then_some(plan.time_ns);
        if !self.quiet && plan.is_notable() {
            complain(&format!("plan: {}\n", plan.words.join("; ")));
        }
    }

    fn advise(&mut self, words: &str) {
        if !self.quiet {
            self.clear();
            complain(&format!("note: {words}\n"));
        }
    }

    fn phase(&mut self, phase: Phase<'_>) {
        match phase {
            Phase::LayingOut { target, done_bytes, total_bytes } => {
                let share = 100.0 * done_bytes as f64 / total_bytes.max(1) as f64;
                self.draw(&format!(
                    "laying out {target}  {} of {} ({share:.0} %)",
                    human::size(done_bytes),
                    human::size(total_bytes)
                ));
            }
            Phase::Replaying => self.draw("bringing the emulated system to where it was"),
            Phase::Waiting { ns } => self.draw(&format!("waiting {}", human::duration_ns(ns))),
            Phase::Preparing => self.draw("preparing the emulated system"),
            Phase::Calibrating => self.draw("measuring the generator itself"),
        }
    }

    fn cell(&mut self, index: usize, count: usize, cell: &Cell) {
        self.cell.clone_from(&cell.key.name);
        self.position = (index, count);
        self.began.get_or_insert_with(Instant::now);
        self.drawn = None;
    }

    fn tick(&mut self, progress: &Progress<'_>) {
        let seconds = progress.interval_ns as f64 / 1e9;
        let rate = |n: u64| n as f64 / seconds;
        let latest = progress.latest;
        let quantile = |q: f64| {
            let kinds = latest?.iter().map(|(_, class)| class.felt());
            kinds.filter_map(|h| h.quantile_ns(q)).max()
        };
        // Of a single cell the line tells it already.
        let left_ns = self.planned_ns.zip(self.began).filter(|_| self.position.1 > 1);
        let left_ns =
            left_ns.map(|(ns, began)| ns.saturating_sub(began.elapsed().as_nanos() as u64));
        let line = progress_line(
            &Line {
                cell: &self.cell,
                index: self.position.0 + 1,
                count: self.position.1,
                phase: if progress.ramping { "ramp" } else { "measuring" },
                elapsed_ns: progress.elapsed_ns,
                total_ns: progress.total_ns,
                iops: latest.map_or(0.0, |i| rate(i.ops())),
                bytes_per_s: latest.map_or(0.0, |i| rate(i.bytes())),
                p50_ns: quantile(0.5),
                p99_ns: quantile(0.99),
                errors: progress.errors,
                left_ns,
            },
            self.style,
        );
        self.draw(&line);
    }
}
