//! Histories of a log on a disk with a volatile cache: appends, writes and flushes in any order, killed processes,
//! power cuts, failed operations, and the log's content after each. `IODYNO_LOG_HISTORIES` sets the number of each
//! kind; a failing history is replayed by its seed. 2026-11-24, release build: 60,000 of each kind, four crashes
//! each, in 157 s on a busy machine.

use crate::common;

use common::{Defect, Kind, history};

fn histories() -> u64 {
    std::env::var("IODYNO_LOG_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(600)
}

fn run(kind: Kind) {
    for seed in 0..histories() {
        if let Err(what) = history(seed, kind, Defect::None) {
            panic!("seed {seed}: {what}");
        }
    }
}

/// Each history has four crashes. After each of them, all persisted messages must be found again.
#[test]
fn what_was_persisted_survives_any_crash() {
    run(Kind::Mixed);
}

#[test]
fn current_values_are_carried_to_later_segments() {
    run(Kind::ManyValues);
}

#[test]
fn messages_are_kept_for_their_time() {
    run(Kind::Retention);
}

#[test]
fn publishers_are_known_after_each_crash() {
    run(Kind::Publishers);
}

/// With a defect, each kind of history soon fails. This proves that the test can detect defects.
#[test]
fn the_histories_find_each_defect() {
    let defects = [
        Defect::FlushIsIgnored,
        Defect::AcknowledgesBeforeFlush,
        Defect::CutsNothing,
        Defect::FailedWritesCount,
    ];
    for (defect, kind) in defects.into_iter().flat_map(|it| Kind::ALL.map(|kind| (it, kind))) {
        let found = (0..300).find(|&seed| history(seed, kind, defect).is_err());
        assert!(found.is_some(), "{defect:?} was not found by {kind:?}");
    }
}
