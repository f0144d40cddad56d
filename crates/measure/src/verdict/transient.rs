//! Judges whether an emulated cell was measured in its long-run state, rather than while a buffer or a cache filled or
//! emptied.

use super::{Level, Say};
use crate::cell::{Cell, Role};
use crate::evidence::{StoreLevel, WarmUp};
use iodyno_units::human;

/// Maximum net change of a steady buffer's or cache's fill, as a fraction of the bytes that entered it.
const NET_SHARE_MAX: f64 = 0.02;
/// Fill of a buffer, as a fraction of its capacity, from which it blocks hosts.
const FULL_SHARE: f64 = 0.95;
/// Minimum number of times that a buffer must write out its reorderable backlog within a window, for a mean
/// rate accurate to a few per cent.
const TURNS_MIN: f64 = 8.0;
/// Burst credits count as used up if those that remain would be spent within this fraction of the window.
const USED_UP_SHARE: f64 = 0.01;
/// Factor on the time that a buffer or cache needs to fill or drain at its present rate, because it slows down.
const SLOWER: f64 = 1.5;
/// Extrapolated times beyond a year, in ns, are not stated exactly.
const YEAR_NS: f64 = 365.0 * 86_400e9;

pub(super) fn transient(cell: &Cell, say: &mut Say) {
    let unsteady = cell
        .evidence
        .warm_up
        .as_ref()
        .and_then(|warm_up| warm_up.unsteady.as_ref().map(|s| (warm_up, s)));
    if let Some((warm_up, store)) = unsteady.filter(|(of, store)| still_moves(of, store, cell)) {
        say("TRANSIENT", Level::Warning, gave_up(warm_up, store, cell));
        return;
    }
    // Cells of a method that pass devices on to each other are parts of a longer course. Burst credits spoil the figures
    // of each.
    let place = cell.key.place.as_ref();
    let is_part = place.is_some() && cell.evidence.warm_up.is_none();
    let prepares = place.is_some_and(|place| place.role == Role::Prepare);
    let counts = |level: &&StoreLevel| !is_part || level.store.contains(CREDITS) && !prepares;
    let moving = cell.evidence.stores.iter().filter(|level| level.one_way).filter(counts);
    let moving = moving.max_by(|a, b| net_share(a).abs().total_cmp(&net_share(b).abs()));
    // However slowly credits are used up, the rate does not last.
    let matters = |level: &&StoreLevel| {
        level.store.contains(CREDITS) || net_share(level).abs() > NET_SHARE_MAX
    };
    if let Some(level) = moving.filter(matters) {
        say("TRANSIENT", Level::Warning, moved(level, cell));
        return;
    }
    // False for parts of a longer course.
    if cell.evidence.skew_missing {
        say("TRANSIENT", Level::Warning, SKEWED.to_owned());
        return;
    }
    if is_part {
        return;
    }
    let mut choosing = cell.evidence.stores.iter().filter(|level| level.choice_bytes > 0);
    if let Some(level) = choosing.find(|level| is_short_for(level)) {
        say("TRANSIENT", Level::Warning, swings(level, cell.window_ns));
    }
}

/// Text in the name of every store (buffer or cache) that holds burst credits. In older notebooks the name begins with
/// it.
const CREDITS: &str = "burst credits";

const SKEWED: &str = "writes are skewed, but the flash started in the steady state of uniform \
                      writes. After days of skewed writing, garbage collection would copy a \
                      different amount of data. To start in the right steady state, use uniform \
                      writes in a part of the device (--active)";

/// Whether a full buffer wrote out its reorderable backlog fewer than [`TURNS_MIN`] times. Buffers that are
/// not full do not slow hosts down and are exempt.
fn is_short_for(level: &StoreLevel) -> bool {
    let is_full = level.end_bytes as f64 >= FULL_SHARE * level.capacity_bytes as f64;
    is_full && (level.taken_bytes as f64) < TURNS_MIN * level.choice_bytes as f64
}

fn swings(level: &StoreLevel, window_ns: u64) -> String {
    let needed = TURNS_MIN * level.choice_bytes as f64 / level.taken_bytes.max(1) as f64;
    format!(
        "the {} is full and reorders {} of pending writes to shorten seeks; {} were written during the window. The rate varies until the pending writes have turned over several times: measure for {} or longer",
        level.store,
        human::size(level.choice_bytes),
        human::size(level.taken_bytes),
        whole_seconds(needed * window_ns as f64),
    )
}

/// Formats an extrapolated time, which may exceed 64 bits.
fn time(ns: f64) -> String {
    if ns > YEAR_NS { "over a year".to_owned() } else { human::duration_ns(ns as u64) }
}

/// Formats an extrapolated time, rounded up to whole seconds.
fn whole_seconds(ns: f64) -> String {
    time((ns / 1e9).ceil() * 1e9)
}

/// Net change of the fill over the window, as a fraction of the bytes that entered the buffer or cache.
fn net_share(level: &StoreLevel) -> f64 {
    let gain = level.end_bytes as f64 - level.start_bytes as f64;
    if gain == 0.0 { 0.0 } else { gain / (level.taken_bytes as f64).max(gain.abs()) }
}

/// Whether a buffer or cache that the warm-up left filling or draining went on to do so in the window. A ramp, or the
/// warm-up's last step, may have brought it to rest. True if its fill level in the window is unknown.
fn still_moves(warm_up: &WarmUp, store: &str, cell: &Cell) -> bool {
    let Some(level) = cell.evidence.stores.iter().find(|level| level.store == store) else {
        return true;
    };
    let (then, now) = (warm_up.net_share.unwrap_or(0.0), net_share(level));
    now.abs() > NET_SHARE_MAX && (level.one_way || then.signum() == now.signum())
}

fn gave_up(warm_up: &WarmUp, store: &str, cell: &Cell) -> String {
    let net_share = warm_up.net_share.unwrap_or(0.0);
    let does = if net_share < 0.0 { "draining" } else { "filling" };
    format!(
        "the {store} was still {does} after a warm-up of {}, at {} of the rate of incoming data. Long-run rate and latency differ from these figures: use {}, or a smaller --active range",
        human::duration_ns(warm_up.took_ns),
        human::percent(net_share.abs(), 1),
        ramp(cell, "longer"),
    )
}

fn moved(level: &StoreLevel, cell: &Cell) -> String {
    let window_ns = cell.window_ns;
    let share = |bytes: u64| human::percent(bytes as f64 / level.capacity_bytes.max(1) as f64, 0);
    let gain = level.end_bytes.abs_diff(level.start_bytes);
    let per_ns = gain as f64 / window_ns.max(1) as f64;
    let (does, left_bytes) = if level.end_bytes > level.start_bytes {
        ("full", level.capacity_bytes.saturating_sub(level.end_bytes))
    } else {
        ("empty", level.end_bytes)
    };
    let left_ns = left_bytes as f64 / per_ns.max(1e-18);
    if level.store.contains(CREDITS) && left_ns < USED_UP_SHARE * window_ns as f64 {
        return format!(
            "the {} ran out during the window: the figures mix the burst and the long-run rate. Use {}",
            level.store,
            ramp(cell, &format!("up to {} longer", whole_seconds(window_ns as f64))),
        );
    }
    if level.store.contains(CREDITS) {
        return format!(
            "the {} were being used up: at this rate the rest ({} of the maximum) lasts for {} more. The figures show the burst, not the long-run rate: use {}, or start with fewer credits",
            level.store,
            share(level.end_bytes),
            time(left_ns),
            // (Credits are used up at a constant rate.)
            longer_ramp(left_ns, 1.0, cell),
        );
    }
    let is_fresh = cell.evidence.device_state.as_ref().is_some_and(|state| state.contains("fresh"));
    format!(
        "the {} went from {} to {} full (of {}) during the window, and would be {does} {} later. The figures show this transient, not the steady state: use {}{}",
        level.store,
        share(level.start_bytes),
        share(level.end_bytes),
        human::size(level.capacity_bytes),
        time(left_ns),
        longer_ramp(left_ns, SLOWER, cell),
        if is_fresh { ", or leave out state=fresh" } else { "" },
    )
}

/// A ramp so much longer that a process which ends `left_ns` after the window ends within the ramp, even if it takes
/// `times` as long.
fn longer_ramp(left_ns: f64, times: f64, cell: &Cell) -> String {
    let more = whole_seconds(cell.window_ns as f64 + times * left_ns);
    ramp(cell, &format!("{more} longer"))
}

/// A ramp that is `longer`, by where it can be set: a method's file sets the ramps of its stages, and refuses --ramp.
fn ramp(cell: &Cell, longer: &str) -> String {
    if cell.key.place.is_none() {
        return format!("a --ramp that is {longer}");
    }
    format!(
        "a ramp that is {longer} (of a sweep or rate search by --ramp, of a method by `ramp` in a copy of its file)"
    )
}
