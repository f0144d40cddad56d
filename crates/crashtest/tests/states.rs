//! The enumeration of states beside a brute force over all combinations, and planted faults that each class finds.

use iodyno_crashtest::{
    Access, Act, CLASSES, Change, Check, CheckRun, Choice, Class, Commit, Effects, Ended, Event,
    FINDINGS_MAX, Finding, History, Item, Made, NodeId, Plan, ROOT, RULES, Rules, StateId, States,
    Tree, Verdict, Watch, explore,
};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn make(node: NodeId, name: &str) -> Event {
    let name = name.as_bytes().to_vec();
    Event::Change(Change::Make { directory: ROOT, name, node, made: Made::File, mode: 0o644 })
}

fn write(node: NodeId, offset: u64, data: &[u8]) -> Event {
    Event::Change(Change::Write { node, offset, data: Arc::from(data) })
}

fn rename(from: &str, to: &str, node: NodeId, replaced: Option<NodeId>) -> Event {
    let (from, to) = ((ROOT, from.as_bytes().to_vec()), (ROOT, to.as_bytes().to_vec()));
    Event::Change(Change::Rename { from, to, node, replaced, exchange: false })
}

fn sync(node: NodeId) -> Event {
    Event::Sync { node, data_only: false }
}

fn output(text: &str) -> Event {
    Event::Output(text.as_bytes().to_vec())
}

/// A random run of at most `length` events on three files and their names.
fn runs(length: usize) -> impl Strategy<Value = Vec<Event>> {
    let event = (0..10u8, 2..5u64, 0..3usize, 0..9000u64, 1..6000usize);
    prop::collection::vec(event, 1..length).prop_map(|drawn| {
        let names = ["a", "b", "c"];
        let mut tree = Tree::default();
        let mut events = Vec::new();
        let mut next = 2;
        for (kind, node, name, offset, len) in drawn {
            let here = tree.lookup(ROOT, names[name].as_bytes());
            let event = match kind {
                0 | 1 if here.is_none() => {
                    next += 1;
                    make(next - 1, names[name])
                }
                2..=5 if tree.node(node).is_some() => write(node, offset, &vec![kind + 1; len]),
                6 if tree.node(node).is_some() => sync(node),
                7 => sync(ROOT),
                8 if here.is_some() => {
                    let to = names[(name + 1) % 3];
                    rename(names[name], to, here.unwrap(), tree.lookup(ROOT, to.as_bytes()))
                }
                9 if tree.node(node).is_some() => {
                    Event::Change(Change::Resize { node, size_bytes: offset })
                }
                _ => continue,
            };
            if let Event::Change(change) = &event {
                tree.apply(change);
            }
            events.push(event);
        }
        events
    })
}

fn states(events: &[Event], rules: Rules, bound: usize) -> States {
    let history = History { start: Tree::default(), events: events.to_vec() };
    let effects = Effects::of_history(&history, rules);
    States::of_history(Arc::new(history), effects, bound, None)
}

/// Whether a choice has no effect without the effects that it requires.
fn is_closed(states: &States, epoch: usize, survives: &[bool]) -> bool {
    let open = &states.epochs[epoch].open;
    let survives_or_is_durable =
        |number: &usize| open.binary_search(number).map_or(true, |position| survives[position]);
    open.iter().zip(survives).filter(|(_, survives)| **survives).all(|(number, _)| {
        states.effects().all[*number].requires.iter().all(survives_or_is_durable)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Subsets with a large enough bound are exactly the closed combinations, and every class consists of such.
    #[test]
    fn classes_are_closed_and_subsets_complete(events in runs(12), rules in 0..RULES.len()) {
        let states = states(&events, RULES[rules], 9);
        let bases = states.bases();
        for epoch in 0..states.epochs.len() {
            let n = states.epochs[epoch].open.len();
            if n > 9 {
                continue;
            }
            let all = |survives: &Vec<bool>| is_closed(&states, epoch, survives);
            let brute: BTreeSet<u64> = (0..1u32 << n)
                .map(|bits| (0..n).map(|i| bits >> i & 1 == 1).collect::<Vec<bool>>())
                .filter(all)
                .map(|survives| {
                    states.tree_on(&bases, epoch, &Choice { survives, torn: None }).content_hash()
                })
                .collect();
            let mut found = BTreeSet::new();
            for class in CLASSES {
                for number in 0..states.count(class, epoch) {
                    let choice = states.choice(StateId { class, epoch, number }).unwrap();
                    prop_assert!(is_closed(&states, epoch, &choice.survives), "{:?}", choice);
                    if class != Class::Torn {
                        found.insert(states.tree_on(&bases, epoch, &choice).content_hash());
                    }
                }
            }
            prop_assert_eq!(&found, &brute);
        }
    }

    /// With all effects, and after the last sync of everything, the folder is as the program saw it. Durable effects
    /// are in every state: a file that was synced, whose names the rules commit, reads as it did.
    #[test]
    fn what_was_synced_survives(events in runs(16), rules in 0..RULES.len()) {
        let mut events = events;
        events.push(Event::SyncAll);
        let rules = RULES[rules];
        let mut tree = Tree::default();
        let all = states(&events, rules, 2);
        for (number, event) in events.iter().enumerate() {
            if let Event::Change(change) = event {
                tree.apply(change);
            }
            let Event::Sync { node, .. } = event else { continue };
            let until = &events[..=number];
            let run = states(until, rules, 2);
            let last = run.epochs.len() - 1;
            for class in [Class::Prefix, Class::OneMissing, Class::OneAlone] {
                for number in 0..run.count(class, last) {
                    let choice = run.choice(StateId { class, epoch: last, number }).unwrap();
                    let state = run.tree_on(&run.bases(), last, &choice);
                    prop_assert_eq!(state.read(*node, 0, 1 << 20), tree.read(*node, 0, 1 << 20));
                    if rules.commit == Commit::Directory && *node == ROOT {
                        for name in [b"a", b"b", b"c"] {
                            prop_assert_eq!(state.lookup(ROOT, name), tree.lookup(ROOT, name));
                        }
                    }
                }
            }
        }
        let last = all.epochs.len() - 1;
        prop_assert!(all.epochs[last].open.is_empty());
        prop_assert_eq!(all.tree_on(&all.bases(), last, &Choice { survives: Vec::new(), torn: None }).content_hash(), tree.content_hash());
    }
}

/// A checker that is a function of the folder, read through an observed tree.
struct Judged<F: Fn(&mut Reader<'_>, &str) -> bool + Sync>(F);

struct Reader<'a> {
    tree: Tree,
    watch: Box<dyn Watch + 'a>,
}

impl Reader<'_> {
    /// Content of a file; `None`: no such name.
    fn read(&mut self, name: &str) -> Option<Vec<u8>> {
        let name = name.as_bytes().to_vec();
        let item = Item::Name { directory: ROOT, name: name.clone() };
        self.watch.before(&mut self.tree, &item, Access::Read);
        let node = self.tree.lookup(ROOT, &name)?;
        self.watch.before(&mut self.tree, &Item::Size(node), Access::Read);
        let size = self.tree.size_bytes(node);
        for number in 0..size.div_ceil(4096) {
            self.watch.before(&mut self.tree, &Item::Page { node, number }, Access::Read);
        }
        Some(self.tree.read(node, 0, size as usize))
    }
}

impl<F: Fn(&mut Reader<'_>, &str) -> bool + Sync> Check for Judged<F> {
    fn check(
        &self,
        tree: &Tree,
        acknowledged: &[u8],
        watch: Box<dyn Watch>,
    ) -> io::Result<CheckRun> {
        let mut reader = Reader { tree: tree.clone(), watch };
        let is_right = (self.0)(&mut reader, std::str::from_utf8(acknowledged).unwrap());
        let ended = Ended::Exited(ExitStatus::from_raw(i32::from(!is_right) << 8));
        Ok(CheckRun { ended, output: Vec::new(), events: Vec::new() })
    }
}

fn plan(rules: &str, classes: &[Class]) -> Plan {
    Plan {
        rules: Rules::named(rules).unwrap(),
        classes: classes.to_vec(),
        bound: 2,
        atomic_bytes: None,
        again: false,
        time: Duration::from_secs(60),
        workers: 2,
    }
}

/// A file is replaced by a new version, with or without the steps that make it safe.
fn replacement(syncs_file: bool, syncs_directory: bool) -> History {
    let mut start = Tree::default();
    for event in [make(2, "file"), write(2, 0, b"old")] {
        let Event::Change(change) = event else { unreachable!() };
        start.apply(&change);
    }
    let mut events = vec![make(3, "new"), write(3, 0, b"new")];
    events.extend(syncs_file.then(|| sync(3)));
    events.push(rename("new", "file", 3, Some(2)));
    events.extend(syncs_directory.then(|| sync(ROOT)));
    events.push(output("replaced\n"));
    History { start, events }
}

/// Verdicts of the replacement's states under a set of rules.
fn replaced(rules: &str, history: History) -> BTreeSet<Verdict> {
    let check = Judged(|reader: &mut Reader<'_>, acknowledged: &str| {
        let file = reader.read("file").unwrap();
        file == b"new" || acknowledged.is_empty() && file == b"old"
    });
    let explored =
        explore(history, &plan(rules, &CLASSES), &check, &AtomicBool::new(false), &|_, _| {})
            .unwrap();
    assert!(explored.is_complete());
    explored.verdicts.into_keys().collect()
}

#[test]
fn a_replacement_needs_the_syncs_that_each_file_system_asks_for() {
    use Verdict::{Consistent, LostAcknowledged, WrongContent};
    let all = |verdicts: &[Verdict]| verdicts.iter().copied().collect::<BTreeSet<_>>();
    for rules in RULES {
        let got = replaced(rules.name, replacement(true, true));
        assert_eq!(got, all(&[Consistent]), "{}: with both syncs", rules.name);
        // The rename itself may be lost: with the promise, but nothing torn.
        let got = replaced(rules.name, replacement(true, false));
        assert_eq!(got, all(&[Consistent, LostAcknowledged]), "{}: no directory", rules.name);
    }
    // Without the file's own sync only file systems that write data at a rename keep it whole.
    for (rules, is_torn) in
        [("ext4", false), ("btrfs", true), ("xfs", true), ("ext4-writeback", true), ("worst", true)]
    {
        let got = replaced(rules, replacement(false, false));
        assert_eq!(got.contains(&WrongContent), is_torn, "{rules}: {got:?}");
    }
}

/// Whether the numbers of surviving bytes of four files are wrong; `None`: none survives.
type Fault = fn([Option<usize>; 4]) -> bool;

/// Event that made the last effect of a run durable; `None`: no event did.
fn last_durable_at(start: &[Event], events: &[Event], rules: &str) -> Option<usize> {
    let mut tree = Tree::default();
    for event in start {
        let Event::Change(change) = event else { unreachable!() };
        tree.apply(change);
    }
    let history = History { start: tree, events: events.to_vec() };
    let effects = Effects::of_history(&history, Rules::named(rules).unwrap());
    effects.all.last().unwrap().durable_at
}

/// POSIX: a rename between two directories needs an fsync of both. fdatasync leaves out permissions.
#[test]
fn a_sync_keeps_what_it_names() {
    let directory = |node, name: &str| {
        let name = name.as_bytes().to_vec();
        Event::Change(Change::Make {
            directory: ROOT,
            name,
            node,
            made: Made::Directory,
            mode: 0o755,
        })
    };
    let start = [directory(2, "from"), directory(3, "to"), make(4, "file")];
    let (from, to) = ((2, b"file".to_vec()), (3, b"file".to_vec()));
    let moved =
        Event::Change(Change::Rename { from, to, node: 4, replaced: None, exchange: false });
    for (synced, at) in
        [(vec![2, 2], None), (vec![3], None), (vec![2, 3], Some(2)), (vec![3, 2], Some(2))]
    {
        let mut events = vec![moved.clone()];
        events.extend(synced.into_iter().map(sync));
        assert_eq!(last_durable_at(&start, &events, "worst"), at, "{events:?}");
    }
    assert_eq!(
        last_durable_at(&start, &[moved, sync(2)], "ext4"),
        Some(1),
        "a journal has both names"
    );
    let mode = Event::Change(Change::Mode { node: 4, mode: 0o400 });
    for (data_only, at) in [(true, None), (false, Some(1))] {
        let events = [mode.clone(), Event::Sync { node: 4, data_only }];
        assert_eq!(last_durable_at(&start, &events, "worst"), at);
        assert_eq!(last_durable_at(&start, &events, "ext4"), at);
    }
}

/// An append inside the last block sets the size at once on ext4, so zeros may follow. One that needs a new block
/// does not, and on XFS neither does.
#[test]
fn a_file_grows_as_on_its_file_system() {
    let mut start = Tree::default();
    for event in [make(2, "log"), write(2, 0, &[1; 100])] {
        let Event::Change(change) = event else { unreachable!() };
        start.apply(&change);
    }
    let check = Judged(|reader: &mut Reader<'_>, _: &str| {
        reader.read("log").unwrap().iter().all(|byte| *byte == 1)
    });
    for (rules, length, is_wrong) in [
        ("ext4", 100, true),
        ("ext4", 5000, false),
        ("xfs", 100, false),
        ("ext4-writeback", 5000, true),
    ] {
        let events = vec![write(2, 100, &vec![1; length])];
        let history = History { start: start.clone(), events };
        let go = AtomicBool::new(false);
        let explored = explore(history, &plan(rules, &CLASSES), &check, &go, &|_, _| {}).unwrap();
        assert_eq!(explored.wrong() > 0, is_wrong, "{rules}, {length} bytes");
    }
}

/// A checker that looks at its promise first is judged by what both of its runs read.
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

/// A later write of a page carries the earlier one; a rewrite after a failed sync grows the file again.
#[test]
fn pages_and_failed_syncs_follow_the_cache() {
    let mut start = Tree::default();
    for event in [make(2, "log"), write(2, 0, &[0; 8192])] {
        let Event::Change(change) = event else { unreachable!() };
        start.apply(&change);
    }
    let events = vec![write(2, 0, &[1; 100]), write(2, 100, &[2; 100]), output("both\n")];
    let check = Judged(|reader: &mut Reader<'_>, _: &str| {
        let log = reader.read("log").unwrap();
        log[0] == 1 || log[100] == 0
    });
    for (rules, is_wrong) in [("ext4", false), ("xfs", false), ("worst", false)] {
        let history = History { start: start.clone(), events: events.clone() };
        let explored =
            explore(history, &plan(rules, &CLASSES), &check, &AtomicBool::new(false), &|_, _| {});
        assert_eq!(explored.unwrap().wrong() > 0, is_wrong, "{rules}");
    }
    let failed = Event::SyncFailed { node: 3 };
    let new = || [make(3, "new"), write(3, 0, &[7; 5000])];
    let check = Judged(|reader: &mut Reader<'_>, acknowledged: &str| {
        acknowledged.is_empty() || reader.read("new").is_some_and(|new| new == [7; 5000])
    });
    let is_wrong = |more: Vec<Event>| {
        let mut events = new().to_vec();
        events.extend([failed.clone()]);
        events.extend(more);
        events.extend([sync(3), sync(ROOT), output("stored\n")]);
        let history = History { start: Tree::default(), events };
        let explored =
            explore(history, &plan("ext4", &CLASSES), &check, &AtomicBool::new(false), &|_, _| {});
        explored.unwrap().wrong() > 0
    };
    assert!(is_wrong(vec![]), "the data are clean and lost");
    assert!(!is_wrong(vec![write(3, 0, &[7; 5000])]), "the rewrite persists them");
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

/// The smallest wrong state loses the one write that matters, and its name gives it again.
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

/// States that differ in what the checker does not read are checked once, and the verdicts are the same.
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

/// Findings from before the first promise are counted, and take no place of later ones.
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
