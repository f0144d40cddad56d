//! Histories of a log on a disk with a volatile cache: appends, writes and flushes in any order, power cuts, and what is
//! there after each. `IODYNO_LOG_HISTORIES` says how many; a failing history is replayed by its seed.

mod common;

use common::{Defect, history};

fn histories() -> u64 {
    std::env::var("IODYNO_LOG_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(2_500)
}

/// Each history has four cuts.
#[test]
fn what_was_persisted_survives_any_power_cut() {
    for seed in 0..histories() {
        if let Err(what) = history(seed, Defect::None) {
            panic!("seed {seed}: {what}");
        }
    }
}

/// The test is one: with a defect each history type fails soon.
#[test]
fn the_histories_find_each_defect() {
    for defect in [Defect::FlushIsIgnored, Defect::AcknowledgesBeforeFlush, Defect::CutsNothing] {
        let found = (0..300).find(|&seed| history(seed, defect).is_err());
        assert!(found.is_some(), "{defect:?} was not found");
    }
}
