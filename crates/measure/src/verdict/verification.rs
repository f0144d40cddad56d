//! Judges whether the storage returned the content written. Reports the reads that were intact, that could not be
//! verified, and that returned wrong content.

use super::{Level, Say};
use crate::cell::Cell;
use crate::verification::{Finding, KeptMap, Verification, Writer};
use iodyno_units::human;

/// Maximum number of writers that a verdict's text names.
const WRITERS_SHOWN: usize = 3;

/// Reports the results of verifying reads.
pub(super) fn verification(cell: &Cell, say: &mut Say) {
    let Some(v) = cell.evidence.verification.as_ref() else { return };
    if v.checked == 0 {
        say(
            "UNVERIFIED_READS",
            Level::Warning,
            "no read was verified, because the target stores no content: name a target that stores content, such as a file, ram: or an export".to_owned(),
        );
        return;
    }
    if v.wrong_reads() > 0 {
        say(
            "WRONG_CONTENT",
            Level::Invalid,
            format!(
                "{} of {} reads of {} blocks did not return the content that had been written; blocks affected: {}",
                v.wrong_reads(),
                v.checked,
                human::size(v.unit_bytes.into()),
                findings(v, Finding::is_wrong)
            ),
        );
    }
    if v.of(Finding::Unflushed).is_some() {
        say(
            "UNFLUSHED_LOST",
            Level::Warning,
            format!(
                "blocks hold older content than the last acknowledged write, which had not been flushed: {}; only a power cut may lose such writes",
                findings(v, |of| of == Finding::Unflushed)
            ),
        );
    }
    if v.unverified > 0 {
        say("UNVERIFIED_READS", Level::Warning, unverified(v));
    }
    if v.read_share.is_some_and(|share| share < 1.0) {
        let percent = (v.read_share.unwrap_or(0.0) * 1e4).floor() / 1e2;
        say(
            "PASS_SHORT",
            Level::Warning,
            format!("only {percent:.2} % of the range was read; the rest is unverified"),
        );
    }
    if v.verified() > 0 {
        say("VERIFIED", Level::Note, verified(v, cell.evidence.emulated_live));
    }
}

/// Describes the verified units. `is_new` means that the target was newly created for this cell.
fn verified(v: &Verification, is_new: bool) -> String {
    let latest = if v.whole == 0 {
        ", and each held its latest write".to_owned()
    } else {
        let why = match v.kept_map {
            KeptMap::None => {
                "no earlier run in this notebook stored a map of its writes to the target in its present size"
            }
            KeptMap::Whole => "the latest run's map of its writes does not include these blocks",
            KeptMap::Unfinished => "the latest run that wrote did not finish",
        };
        format!("; whether {} of them hold their latest write can't be determined: {why}", v.whole)
    };
    let writers = writers(&v.writers, v.other_writers, is_new);
    format!(
        "{} of {} blocks read were intact, written by {writers}{latest}",
        v.verified(),
        v.checked
    )
}

fn unverified(v: &Verification) -> String {
    let zeroes = match v.unverified_zeroes {
        0 => String::new(),
        n if n == v.unverified => ", all of them zeroes".to_owned(),
        n => format!(", {n} of them zeroes"),
    };
    format!(
        "{:.2} % of the blocks read ({} of {}{zeroes}) hold no verifiable content and could not be checked; write the range with --content verifiable first",
        (v.unverified_share() * 1e4).ceil() / 1e2,
        v.unverified,
        v.checked
    )
}

/// Formats the selected findings, such as `12 stale (at byte 4096, 8192 …), 3 torn (at byte 0)`.
fn findings(v: &Verification, which: impl Fn(Finding) -> bool) -> String {
    let found = v.found.iter().filter(|(of, found)| which(**of) && found.reads > 0);
    let words = found.map(|(of, found)| {
        let places: Vec<String> = found.first_bytes.iter().map(ToString::to_string).collect();
        let more = if found.units > found.first_bytes.len() as u64 { " …" } else { "" };
        format!("{} {} (at byte {}{more})", found.units, of.name(), places.join(", "))
    });
    words.collect::<Vec<_>>().join(", ")
}

fn writers(writers: &[Writer], others: u64, is_new: bool) -> String {
    let mut latest: Vec<&Writer> = writers.iter().collect();
    latest.sort_unstable_by_key(|w| core::cmp::Reverse(w.stamp));
    let shown = latest.iter().take(WRITERS_SHOWN).map(|w| match (w.layout, began(w.stamp)) {
        // On a target created for each cell, the stamp of content is not a time.
        (0 | 2, None) if is_new => "this cell".to_owned(),
        (0 | 2, Some(time)) => format!("the run of {time}"),
        (1, _) => format!("a run with seed {} (layout 1)", w.stamp),
        (2, None) => format!("a run whose clock was not set (stamp {})", w.stamp),
        _ => format!("a run with stamp or seed {}", w.stamp),
    });
    let mut words: Vec<String> = shown.collect();
    let more = latest.len().saturating_sub(WRITERS_SHOWN);
    if more > 0 || others > 0 {
        words.push("others".to_owned());
    }
    words.join(", ")
}

/// Formats a writer's stamp as UTC time to the second; None if it is not a time of this century.
fn began(stamp: u64) -> Option<String> {
    let seconds = stamp / 1_000_000_000;
    if !(946_684_800..4_102_444_800).contains(&seconds) {
        return None;
    }
    let (day, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, date) = civil(day);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    Some(format!("{year}-{month:02}-{date:02} {hour:02}:{minute:02}:{second:02} UTC"))
}

/// Converts a day number, counted from 1970-01-01, to year, month and day (Hinnant's algorithm).
fn civil(day: u64) -> (u64, u64, u64) {
    let shifted = day + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_shown_as_times() {
        let seconds = |s: u64| began(s * 1_000_000_000);
        assert_eq!(seconds(951_782_399).as_deref(), Some("2000-02-28 23:59:59 UTC"));
        assert_eq!(seconds(951_868_800).as_deref(), Some("2000-03-01 00:00:00 UTC"));
        assert_eq!(seconds(1_795_373_105).as_deref(), Some("2026-11-22 18:45:05 UTC"));
        assert_eq!(began(1), None);
    }

    #[test]
    fn a_stamp_that_is_no_time_names_its_layout() {
        let words =
            |stamp, layout, is_new| writers(&[Writer { stamp, reads: 1, layout }], 0, is_new);
        assert_eq!(words(1, 1, false), "a run with seed 1 (layout 1)");
        assert_eq!(words(1, 2, true), "this cell");
        assert_eq!(words(1, 2, false), "a run whose clock was not set (stamp 1)");
        assert_eq!(words(1, 0, false), "a run with stamp or seed 1");
        let time = 1_795_373_105 * 1_000_000_000;
        assert_eq!(words(time, 2, false), "the run of 2026-11-22 18:45:05 UTC");
        assert_eq!(words(time, 1, false), format!("a run with seed {time} (layout 1)"));
    }
}
