//! Power cuts at every event of small histories, and thousands of cuts in long ones, checked by an oracle
//! of the allowed contents. Injected bugs test the checks themselves.

#[path = "../common/mod.rs"]
mod common;
mod long;
mod oracle;
mod rig;
mod small;

use iodyno_emulate::InjectedBug;

#[test]
fn every_cut_of_every_small_history_of_flash() {
    let count = small::try_flash(3, &[true, false], InjectedBug::Nothing).unwrap();
    println!("{count:?}");
    assert!(count.cuts > 100_000 && count.second_cuts > 100_000, "{count:?}");
}

#[test]
fn every_cut_of_every_small_history_of_disks_and_memory() {
    let count = small::try_others(3).unwrap();
    println!("{count:?}");
    assert!(count.cuts > 10_000, "{count:?}");
}

#[test]
fn many_cuts_of_long_histories() {
    let mut all = long::Done::default();
    for (members, histories, cuts, events_max) in [
        (long::flash_members(), 40, 2000, 200),
        (long::power_cut_members(), 20, 1000, 120),
        (long::disk_members(), 20, 1250, 80),
    ] {
        for seed in 0..histories {
            let done =
                long::history(&members, seed, cuts, events_max, InjectedBug::Nothing).unwrap();
            all.cuts += done.cuts;
            all.operations += done.operations;
            all.events += done.events;
            all.copies += done.copies;
        }
    }
    println!("{all:?}");
    assert!(all.cuts >= 100_000 && all.copies > 100_000, "{all:?}");
}

/// Each injected bug is found, in the small histories and in the long ones.
#[test]
fn the_checks_find_every_injected_bug() {
    use InjectedBug as S;
    let long = long::flash_members();
    for bug in [
        S::HastyFlush,
        S::CountingFlush,
        S::HastyMap,
        S::HastyErase,
        S::StaleCopy,
        S::LastProgramWins,
        S::ForgetfulBuffer,
        S::ForgetfulProgram,
    ] {
        let small = small::try_flash(2, &[true, false], bug);
        let small = small.map(drop).expect_err(&format!("{bug:?} passes the small histories"));
        let long = long::history(&long, 1, 2000, 200, bug).map(drop);
        let long = long.expect_err(&format!("{bug:?} passes the long histories"));
        println!("{bug:?}\n  small: {small}\n  long: {long}");
    }
}
