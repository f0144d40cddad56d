//! `study`: a published study run again, its figures beside the printed ones.

use crate::args::Study;
use crate::failure::Failure;
use crate::{complain, print, print_json, signals};
use iodyno_report::terminal::Style;
use iodyno_study::{Options, Progress, StudyError, json, load, run, terminal};
use iodyno_units::human;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A live line that changes more often than this is hard to read.
const REDRAW_EVERY: Duration = Duration::from_millis(250);

pub(crate) fn command(flags: &Study, style: Style) -> Result<ExitCode, Failure> {
    let study = load(&flags.study)?;
    let effort = if flags.quick { Options::QUICK } else { Options::FULL };
    let options = Options { threads: flags.threads.unwrap_or(0), seed: flags.seed, ..effort };
    let stop = signals::stop_flag();
    let live = Live::new(flags.quiet);
    let outcome = run(&study, &options, &stop, &|progress| live.tell(progress));
    live.clear();
    let outcome = outcome?;
    if flags.json {
        print_json(&json::document(&outcome))
    } else {
        let Style { color, width, unicode } = style;
        print(&terminal::show(&outcome, terminal::Style { color, width, unicode }))
    }
}

/// The live line on standard error; in a log it would be noise.
struct Live {
    on: bool,
    started: Instant,
    drawn: Mutex<Option<Instant>>,
}

impl Live {
    fn new(quiet: bool) -> Self {
        let on = !quiet && std::io::stderr().is_terminal();
        Self { on, started: Instant::now(), drawn: Mutex::new(None) }
    }

    fn tell(&self, progress: Progress) {
        // Whoever draws now tells enough.
        let Ok(mut drawn) = self.drawn.try_lock() else { return };
        if !self.on || drawn.is_some_and(|t| t.elapsed() < REDRAW_EVERY) {
            return;
        }
        *drawn = Some(Instant::now());
        let took = human::duration_ns(self.started.elapsed().as_nanos() as u64);
        complain(&format!(
            "\r\x1b[Kcell {} of {}  {:.0} %  {took}",
            progress.cells,
            progress.cells_total,
            progress.share * 100.0
        ));
    }

    fn clear(&self) {
        if self.drawn.lock().is_ok_and(|drawn| drawn.is_some()) {
            complain("\r\x1b[K");
        }
    }
}

impl From<StudyError> for Failure {
    fn from(e: StudyError) -> Self {
        match e {
            StudyError::Interrupted => Self::interrupted(e.to_string()),
            StudyError::Cell { .. } => Self::target(e.to_string()),
        }
    }
}
