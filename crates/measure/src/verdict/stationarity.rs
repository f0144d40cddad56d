//! Judges whether the throughput was stationary. If it was not, the mean over the window describes no single state.

use super::{Level, Say};
use crate::cell::{Cell, Ended, Role};
use crate::stationarity::{Shift, Stall, Stationarity, Swing};
use iodyno_units::human;

/// Fraction of the window below which stalls change the mean by less than the difference between runs.
const STALLED_SHARE_MIN: f64 = 0.03;
/// Number of stalls from which they count as normal behaviour of the target, so that the mean represents it.
const STALLS_MANY: usize = 10;
/// Fraction of the window above which stalls are a warning, however many there are.
const STALLED_SHARE_MAX: f64 = 0.1;
/// Maximum tolerated relative error of the mean that arises if the window does not contain whole periods of a swing.
const PHASE_SHARE_MAX: f64 = 0.02;

/// Reports stalls, steps, trends and periodic swings of the rate. For cells of a method it reports only
/// stalls, because the method judges the steady state over its rounds.
pub(super) fn stationarity(cell: &Cell, say: &mut Say) {
    let place = cell.key.place.as_ref();
    let is_preparation = place.is_some_and(|place| place.role == Role::Prepare);
    if is_preparation || matches!(cell.ended, Ended::Running | Ended::Settled) {
        return;
    }
    let found = Stationarity::of(cell);
    if !found.stalls.is_empty() {
        stalls(cell, &found, say);
    }
    if place.is_some() {
        return;
    }
    if let Some(shift) = &found.shift {
        say("TREND", Level::Warning, trend(cell, shift));
    }
    if let Some(swing) = &found.swing {
        // The mean of a sine over n and a part of a period is at most 1/(n π) of its amplitude.
        let enough = swing.amplitude_share / (std::f64::consts::PI * PHASE_SHARE_MAX);
        let level = if swing.periods.max(1.0) < enough { Level::Warning } else { Level::Note };
        say("PERIODIC", level, periodic(swing, enough, level));
    }
}

fn stalls(cell: &Cell, found: &Stationarity, say: &mut Say) {
    let share = found.stalled_ns() as f64 / cell.window_ns.max(1) as f64;
    let count = found.stalls.len();
    let changes_mean = share >= STALLED_SHARE_MIN.max(found.reach_share.unwrap_or(0.0));
    let is_rare = count < STALLS_MANY;
    let level = if changes_mean && (is_rare || share > STALLED_SHARE_MAX) {
        Level::Warning
    } else {
        Level::Note
    };
    let longest = found.stalls.iter().max_by_key(|stall| stall.length_ns());
    let Some(longest) = longest else { return };
    let whole = human::duration_ns(cell.window_ns);
    let span = |stall: &Stall| {
        format!("{:.1} to {:.1} s", stall.from_ns as f64 / 1e9, stall.to_ns as f64 / 1e9)
    };
    let what = if count == 1 {
        format!(
            "throughput was almost zero for {} of {whole} ({} of the window, {})",
            human::duration_ns(longest.length_ns()),
            percent(share),
            span(longest)
        )
    } else {
        let period = found.stall_period_ns();
        let every = period.map_or(String::new(), |ns| format!(" every {}", human::duration_ns(ns)));
        format!(
            "throughput was almost zero in {count} stalls{every}, in total {} of {whole} ({}), the longest {} ({})",
            human::duration_ns(found.stalled_ns()),
            percent(share),
            human::duration_ns(longest.length_ns()),
            span(longest)
        )
    };
    // The rate of an open loop is that offered: what a stall held up follows it.
    let rate = if cell.key.offered_iops.is_some() {
        String::new()
    } else {
        let iops = cell.iops() / (1.0 - share).max(0.01);
        format!("; throughput without stalls is {}/s", human::count(iops))
    };
    let own = if is_starved(cell, longest) {
        "; the workers had no processor during the longest stall"
    } else {
        ""
    };
    say(
        "STALL",
        level,
        format!(
            "{what}{own}{rate}; percentiles hide stalls: look at max and the series; {}",
            if level == Level::Warning {
                "find the cause (kernel log, other load, limits), or measure longer"
            } else {
                "the stalled time is too short to change the mean"
            }
        ),
    );
}

/// Whether the workers waited for a processor during at least half of a stall.
fn is_starved(cell: &Cell, stall: &Stall) -> bool {
    let interval_ns = cell.interval_ns.max(1);
    let places = (stall.from_ns / interval_ns) as usize..stall.to_ns.div_ceil(interval_ns) as usize;
    let waited = cell.resources.starved_by_interval_ns.iter().enumerate();
    let waited_ns: u64 = waited.filter(|(i, _)| places.contains(i)).map(|(_, ns)| ns).sum();
    let workers = cell.resources.run_delay.len().max(1) as u64;
    2 * waited_ns >= stall.length_ns() * workers
}

fn trend(cell: &Cell, shift: &Shift) -> String {
    let change = shift.after_iops / shift.before_iops.max(f64::MIN_POSITIVE) - 1.0;
    let verb = if change < 0.0 { "fell" } else { "rose" };
    let (before, after) = (human::count(shift.before_iops), human::count(shift.after_iops));
    let when = match shift.at_ns {
        Some(at_ns) => format!("at {:.1} s", at_ns as f64 / 1e9),
        None => "gradually over the window".to_owned(),
    };
    let settles = if cell.evidence.virtual_time { "a longer --ramp" } else { "--ramp and --time" };
    format!(
        "throughput {verb} from {before}/s to {after}/s {when}: the mean mixes two states; measure longer, after a warm-up ({settles}), and check for burst credits that ran out, heat or other load"
    )
}

/// `enough`: number of periods from which a window's mean is hardly off, wherever it begins.
fn periodic(swing: &Swing, enough: f64, level: Level) -> String {
    let remedy = if level == Level::Warning {
        format!(
            "the mean depends on where the window begins: measure for {} or longer",
            human::duration_ns((enough.ceil() + 1.0) as u64 * swing.period_ns)
        )
    } else {
        "the window covers enough periods for the mean, but percentiles mix fast and slow phases"
            .to_owned()
    };
    format!(
        "throughput oscillates by ± {} with a period of {} ({:.0} periods in the window); {remedy}",
        percent(swing.amplitude_share),
        human::duration_ns(swing.period_ns),
        swing.periods
    )
}

fn percent(share: f64) -> String {
    if share < 0.01 { format!("{:.1} %", 100.0 * share) } else { format!("{:.0} %", 100.0 * share) }
}
