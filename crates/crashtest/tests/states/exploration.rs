//! The exploration: verdicts, planted faults that each class finds, reductions, and states that need no check.

use crate::{Judged, Reader, make, output, plan, sync, write};
use iodyno_crashtest::answer::{Outcome, Recorded, Setting, show};
use iodyno_crashtest::{
    Act, CLASSES, Change, Class, Event, FINDINGS_MAX, Finding, History, Made, ROOT, Tree, Verdict,
    explore,
};
use iodyno_page::terminal::Style;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Decides whether a state with four files is wrong, from the number of non-zero bytes in each file; `None` for a file
/// without any.
type Fault = fn([Option<usize>; 4]) -> bool;

/// A verdict may depend on two runs of the checker, with and without the program's output. It is reused only for states
/// that agree in what either run has read.
#[test]
fn a_verdict_depends_on_the_reads_of_both_runs() {
    let mut start = Tree::default();
    for event in [make(2, "promised"), make(3, "other")] {
        let Event::Change(change) = event else { unreachable!() };
        start.apply(&change);
    }
    let events = vec![write(2, 0, b"x"), write(3, 0, b"y"), output("done\n")];
    let check = Judged(|reader: &mut Reader<'_>, acknowledged: &str| {
        let is_kept = acknowledged.is_empty() || reader.read("promised").unwrap() == b"x";
        is_kept && reader.read("other").unwrap() != b"y"
    });
    let history = History { start, events };
    let explored =
        explore(history, &plan("worst", &CLASSES), &check, &AtomicBool::new(false), &|_, _| {});
    let explored = explored.unwrap();
    assert_eq!(explored.spot_checks.1, 0, "it is deterministic: {explored:?}");
    // What was promised is lost in one of three kinds of state; the other file alone decides in the rest.
    assert!(explored.verdicts[&Verdict::LostAcknowledged] > 0, "{explored:?}");
    assert!(explored.verdicts[&Verdict::WrongContent] > 0, "{explored:?}");
}

/// Each class finds a fault that the others miss.
#[test]
fn each_class_finds_its_own_fault() {
    // Four independent files of full size; what is wrong is a combination of what they hold.
    let mut events = vec![make(2, "a"), make(3, "b"), make(4, "c"), make(5, "d")];
    let sized = |node| Event::Change(Change::Resize { node, size_bytes: 2048 });
    events.extend((2..=5).map(sized));
    events.push(Event::SyncAll);
    for node in 2..=5 {
        events.push(write(node, 0, &[node as u8; 2048]));
    }
    let faults: [(Class, Fault); 4] = [
        (Class::OneMissing, |f| matches!(f, [Some(2048), None, Some(2048), Some(2048)])),
        (Class::OneAlone, |f| matches!(f, [None, None, Some(2048), None])),
        (Class::Torn, |f| f.iter().flatten().any(|whole| *whole != 2048)),
        (Class::Subset, |f| matches!(f, [None, Some(2048), None, Some(2048)])),
    ];
    for (finder, is_wrong) in faults {
        let check = Judged(move |reader: &mut Reader<'_>, _: &str| {
            let filled = ["a", "b", "c", "d"].map(|name| {
                let content = reader.read(name).unwrap_or_default();
                let filled = content.iter().filter(|byte| **byte != 0).count();
                (filled > 0).then_some(filled)
            });
            !is_wrong(filled)
        });
        for class in CLASSES {
            let history = History { start: Tree::default(), events: events.clone() };
            let explored = explore(
                history,
                &plan("worst", &[class]),
                &check,
                &AtomicBool::new(false),
                &|_, _| {},
            )
            .unwrap();
            assert!(explored.is_complete());
            assert_eq!(explored.wrong() > 0, class == finder, "{class:?} looks for {finder:?}'s");
        }
    }
}

/// The smallest wrong state loses only the write that matters, and its name re-creates it.
#[test]
fn a_finding_is_minimal_and_can_be_named() {
    let mut events = vec![make(2, "log"), make(3, "other"), Event::SyncAll];
    for number in 0..20u64 {
        events.push(write(2, number * 4096, &[1; 4096]));
        events.push(write(3, number * 4096, &[1; 4096]));
    }
    let check = Judged(|reader: &mut Reader<'_>, _: &str| {
        let log = reader.read("log").unwrap_or_default();
        // A hole in front of a record.
        !(log.len() > 5 * 4096 && log[4 * 4096] == 0 && log[5 * 4096] != 0)
    });
    let history = History { start: Tree::default(), events };
    let explored =
        explore(history, &plan("worst", &CLASSES), &check, &AtomicBool::new(false), &|_, _| {})
            .unwrap();
    let smallest = explored.findings.iter().map(|finding| {
        let lost = finding.choice.survives.iter().filter(|survives| !**survives).count();
        (lost, finding)
    });
    let (lost, finding) = smallest.min_by_key(|(lost, _)| *lost).unwrap();
    assert_eq!((lost, finding.verdict), (1, Verdict::WrongContent));
    let name: iodyno_crashtest::StateName = finding.name.to_string().parse().unwrap();
    assert_eq!(name.0[0].choice(&finding.states), Some(finding.choice.clone()));
    let position = finding.choice.survives.iter().position(|survives| !survives).unwrap();
    let open = &finding.states.epochs[name.0[0].epoch].open;
    let lost = &finding.states.effects().all[open[position]].act;
    assert!(matches!(lost, Act::Data { node: 2, offset: 16384, .. }), "{lost:?}");
}

/// If states differ only in data that the checker does not read, one is checked, and all get its verdict.
#[test]
fn unread_differences_cost_nothing() {
    let mut events = vec![make(2, "read"), make(3, "unread"), Event::SyncAll];
    events.extend((0..12).map(|number| write(3, number * 4096, &[1; 4096])));
    events.push(write(2, 0, b"content"));
    let check = Judged(|reader: &mut Reader<'_>, _: &str| {
        reader.read("read").is_some_and(|content| !content.is_empty())
    });
    let history = History { start: Tree::default(), events };
    let explored =
        explore(history, &plan("worst", &CLASSES), &check, &AtomicBool::new(false), &|_, _| {})
            .unwrap();
    let judged: u64 = explored.verdicts.values().sum();
    assert!(judged > 300 && explored.checked < 20, "{explored:?}");
    assert_eq!(explored.spot_checks.1, 0);
    assert!(explored.spot_checks.0 >= 4, "{explored:?}");
}

/// Findings from before the program's first output are counted separately, and do not displace later findings.
#[test]
fn states_before_the_first_output_are_reported_apart() {
    let mut events = Vec::new();
    // Creation that is wrong half done, again and again.
    for node in (2..40).step_by(2) {
        events.extend([make(node, &format!("{node}")), make(node + 1, &format!("{node}-done"))]);
        events.push(Event::SyncAll);
    }
    let created = events.len();
    events.extend([output("created\n"), make(50, "promised"), output("promised\n")]);
    events.push(sync(ROOT));
    let check = Judged(|reader: &mut Reader<'_>, acknowledged: &str| {
        let is_whole = (2..40).step_by(2).all(|node| {
            let [begun, done] = [format!("{node}"), format!("{node}-done")];
            reader.read(&begun).is_some() == reader.read(&done).is_some()
        });
        is_whole && (!acknowledged.contains("promised") || reader.read("promised").is_some())
    });
    let explore = |events: &[Event]| {
        let history = History { start: Tree::default(), events: events.to_vec() };
        explore(history, &plan("ext4", &CLASSES), &check, &AtomicBool::new(false), &|_, _| {})
            .unwrap()
    };
    let early = explore(&events[..created]);
    assert_eq!(early.before_output, (early.verdicts.values().sum(), early.wrong()));
    assert_eq!(early.findings.len(), FINDINGS_MAX);
    let explored = explore(&events);
    let lost = explored.verdicts[&Verdict::LostAcknowledged];
    assert_eq!(explored.before_output.1, explored.wrong() - lost, "{explored:?}");
    assert_eq!(explored.findings[0].verdict, Verdict::LostAcknowledged);
    assert!(explored.findings[1..].iter().all(Finding::is_before_output));
    // A promise that is lost in the same way as something before it is a finding of its own.
    let last =
        explore(&[&events[..created - 1], &[output("created\n")], &events[created - 1..]].concat());
    assert!(!last.findings[0].is_before_output());
    assert_eq!(last.findings[0].verdict, Verdict::WrongContent);
    assert!(last.findings.len() > FINDINGS_MAX);
}

/// POSIX keeps a rename between two directories by an fsync of both, so the remedy names both. Stores into a mapping
/// are recorded late, so the result names the mapped files.
#[test]
fn the_result_names_both_directories_and_mapped_files() {
    let name = |name: &str| name.as_bytes().to_vec();
    let made = Made::Directory;
    let directory = Change::Make { directory: ROOT, name: name("d"), node: 2, made, mode: 0o755 };
    let file =
        Change::Make { directory: 2, name: name("t"), node: 3, made: Made::File, mode: 0o644 };
    let (from, to) = ((2, name("t")), (ROOT, name("c")));
    let moved = Change::Rename { from, to, node: 3, replaced: None, exchange: false };
    let text = |rules: &str, events: Vec<Event>| {
        let mut start = Tree::default();
        start.apply(&directory);
        start.apply(&file);
        let history = History { start, events };
        let recorded = Recorded::of_history(&history, None, Duration::ZERO);
        let plan = plan(rules, &CLASSES);
        let check = Judged(|reader: &mut Reader<'_>, acknowledged: &str| {
            acknowledged.is_empty() || reader.read("c").is_some()
        });
        let explored =
            explore(history, &plan, &check, &AtomicBool::new(false), &|_, _| {}).unwrap();
        let setting = Setting { rules: plan.rules, device: None, guest: None };
        let outcome = Outcome { explored, recorded, setting, promises_read: true };
        show(&outcome, None, Style { color: false, width: 1000, unicode: false })
    };
    let rename = Event::Change(moved);
    let printed = output("moved\n");
    let shown = text("worst", vec![rename.clone(), sync(ROOT), printed.clone()]);
    let remedy = "kept by an fsync of the directory `d` and one of the folder itself)";
    assert!(shown.contains(remedy), "{shown}");
    assert!(!shown.contains("mapping"), "{shown}");
    let shown = text("xfs", vec![rename.clone(), printed.clone()]);
    assert!(shown.contains("kept by an fsync of `c` or of the folder itself)"), "{shown}");
    // Also one that has lost its name by the time of the write, but not SQLite's index.
    let remove = |name: &[u8], node| Change::Remove { directory: ROOT, name: name.into(), node };
    let mut events = vec![rename, make(4, "gone"), make(5, "a.db-shm")];
    events.extend([remove(b"gone", 4), remove(b"a.db-shm", 5)].map(Event::Change));
    events.extend([3, 4, 5].map(|node| Event::Mapped { node }));
    events.extend([sync(ROOT), printed]);
    let shown = text("xfs", events);
    assert!(shown.contains("`c`, `gone` were written through a memory mapping"), "{shown}");
}
