//! Verdicts as a detector: set-ups in which a figure is not the device's, and honest ones, are judged by the same
//! code as any run. One test counts misses and false alarms.
//!
//! | module | source of its set-ups |
//! |---|---|
//! | `stacks` | recorded trees of `/proc` and `/sys`: inspection, evidence, verdicts |
//! | `cells` | closed loops against simulated targets, with evidence recorded on real ones |
//! | `programs` | runs of the program on this machine, and on emulated devices |
//!
//! Real versions of these traps, where this machine has the parts for them: `it`'s modules `traps` and `disturbed`,
//! and `guest`'s module `traps`. `docs/traps.md` lists the classes.

mod cells;
#[allow(dead_code, reason = "the other test crate uses all of it")]
#[path = "../it/place.rs"]
mod place;
mod programs;
#[allow(dead_code, reason = "constants of the other test crate")]
#[path = "../../../measure/tests/simulated/mod.rs"]
mod simulated;
mod stacks;

use iodyno_measure::verdict::judge;
use iodyno_measure::{Cell, Level};
use std::collections::BTreeSet;

/// Verdicts of a set-up: the code of each, and whether it is a warning or worse.
type Found = Vec<(String, bool)>;

/// Runs a set-up, and returns its verdicts. None if this machine lacks the parts for it.
type Make = Box<dyn Fn() -> Option<Found>>;

/// A trap, whose figure is not the device's, or an honest counterpart.
struct SetUp {
    name: &'static str,
    /// Code of the verdict that must name the trap; None for an honest set-up.
    expected: Option<&'static str>,
    make: Make,
}

impl SetUp {
    fn new(
        name: &'static str,
        expected: Option<&'static str>,
        make: impl Fn() -> Option<Found> + 'static,
    ) -> Self {
        Self { name, expected, make: Box::new(make) }
    }
}

/// The verdicts of a cell.
fn judged(cell: &Cell) -> Found {
    judge(cell).into_iter().map(|v| (v.code, v.level >= Level::Warning)).collect()
}

/// Codes of traps for which a note is the right verdict: the figure holds under a condition, and the note names the
/// condition.
const NOTED: [&str; 6] = [
    "CHECKSUMMED",
    "READS_OF_TRIMMED",
    "STOLEN_CPU",
    "UNPRECONDITIONED",
    "VOLATILE_CACHE",
    "LATE_SUBMISSION",
];

/// Whether the expected verdict was found, as a warning or worse, or as a note for the codes in [`NOTED`].
fn is_seen(found: &[(String, bool)], expected: &str) -> bool {
    found.iter().any(|(code, grave)| code == expected && (*grave || NOTED.contains(&expected)))
}

#[test]
fn traps_are_seen_and_honest_set_ups_are_not_accused() {
    let mut all = stacks::all();
    all.extend(cells::all());
    all.extend(programs::all());
    let names: BTreeSet<&str> = all.iter().map(|set_up| set_up.name).collect();
    assert_eq!(names.len(), all.len(), "a set-up is counted once");
    let listed = all.iter().filter(|set_up| set_up.expected.is_some()).count();
    let readme = include_str!("../../../../README.md");
    let words = format!("{listed} set-ups that mislead and {} honest ones", all.len() - listed);
    assert!(readme.contains(&words), "the README lacks \"{words}\"");
    let (mut traps, mut honest) = ((0, Vec::new()), (0, Vec::new()));
    for SetUp { name, expected, make } in &all {
        let Some(found) = make() else {
            println!("not made here: {name}");
            continue;
        };
        let grave: Vec<&str> =
            found.iter().filter(|(_, grave)| *grave).map(|(code, _)| code.as_str()).collect();
        println!("{name}: {grave:?}, expected {expected:?}");
        if let Some(code) = expected {
            traps.0 += 1;
            if !is_seen(&found, code) {
                traps.1.push(format!("{name}: {found:?}, not {code}"));
            }
        } else {
            honest.0 += 1;
            if !grave.is_empty() {
                honest.1.push(format!("{name}: {grave:?}"));
            }
        }
    }
    println!("{} of {} traps seen, missed {:#?}", traps.0 - traps.1.len(), traps.0, traps.1);
    println!("{} of {} honest set-ups accused: {:#?}", honest.1.len(), honest.0, honest.1);
    // What was asked is 38 of 40 and 1 of 30. Nothing here depends on chance or on other load, so none may be missed.
    assert!(traps.0 >= 40 && honest.0 >= 30, "{} traps, {} honest", traps.0, honest.0);
    assert!(traps.1.is_empty(), "missed: {:#?}", traps.1);
    assert!(honest.1.is_empty(), "accused: {:#?}", honest.1);
}
