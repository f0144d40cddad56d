//! Compares the enumeration of states with brute force over all combinations, and tests the rules of file systems.

mod device;
mod exploration;

use iodyno_crashtest::{
    Access, CLASSES, Change, Check, CheckRun, Choice, Class, Commit, Effects, Ended, Event,
    History, Item, Made, NodeId, Plan, ROOT, RULES, Rules, StateId, States, Tree, Verdict, Watch,
    explore,
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

/// Whether each surviving effect has all effects that it requires.
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

    /// With a large enough bound, the class `subset` contains exactly the combinations in which each effect has all
    /// effects that it requires. The other classes contain only such combinations.
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

    /// With all effects, and after a final sync of everything, the folder equals the one that the program saw. Durable
    /// effects are in every state: a synced file has its content, and a synced directory its names if the rules demand
    /// it.
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

/// A checker given as a function. It reads the folder through a [`Reader`], which reports each read to the observer.
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
        enough: Vec::new(),
    }
}

/// History of a program that replaces a file by a new version, with or without fsync of the file and of the directory.
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

/// On ext4 a rename over a file writes the data whose blocks are not allocated yet, and no other: neither an overwrite
/// in place, nor data in preallocated blocks.
#[test]
fn a_rename_writes_only_data_without_blocks() {
    let (blocks, half) = (2 * 4096, 4096);
    let allocated = Event::Allocated { node: 3, offset: 0, len_bytes: blocks };
    let sized = |size_bytes| Event::Change(Change::Resize { node: 3, size_bytes });
    let hole = |len_bytes| Event::Change(Change::Zero { node: 3, offset: 0, len_bytes });
    let old = || vec![make(3, "new"), write(3, 0, &[9; 2 * 4096])];
    // What precedes the run, what the run does before it writes, and whether the data can then be missing.
    let failed = Event::SyncFailed { node: 3 };
    let again = vec![make(3, "new"), write(3, 0, &[7; 2 * 4096]), failed];
    let cases: [(&str, Vec<Event>, Vec<Event>, bool); 9] = [
        ("new", vec![], vec![make(3, "new")], false),
        ("in place", old(), vec![], true),
        ("preallocated", vec![], vec![make(3, "new"), sized(blocks), allocated.clone()], true),
        ("preallocated beyond the end", vec![], vec![make(3, "new"), allocated.clone()], true),
        ("extended without blocks", vec![], vec![make(3, "new"), sized(blocks)], false),
        ("emptied", old(), vec![sized(0)], false),
        ("written again after a failed sync", vec![], again, true),
        ("punched", old(), vec![hole(blocks)], false),
        ("punched in part", old(), vec![hole(half)], false),
    ];
    for (case, before, mut events, can_be_missing) in cases {
        let mut start = Tree::default();
        for event in [vec![make(2, "file"), write(2, 0, b"old")], before].concat() {
            let Event::Change(change) = event else { unreachable!() };
            start.apply(&change);
        }
        let data = vec![1; blocks as usize];
        events.extend([write(3, 0, &data), rename("new", "file", 3, Some(2))]);
        events.extend([make(4, "other"), sync(4), output("replaced\n")]);
        let check = Judged(|reader: &mut Reader<'_>, _: &str| {
            let file = reader.read("file").unwrap();
            file == data || file == b"old"
        });
        let go = AtomicBool::new(false);
        for (rules, is_wrong) in [("ext4", can_be_missing), ("xfs", true)] {
            let history = History { start: start.clone(), events: events.clone() };
            let explored =
                explore(history, &plan(rules, &CLASSES), &check, &go, &|_, _| {}).unwrap();
            assert_eq!(explored.wrong() > 0, is_wrong, "{rules}: {case}");
        }
    }
}

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

/// A write with FUA makes its own range durable, with the earlier writes to that range, and nothing else.
#[test]
fn fua_keeps_its_range_alone() {
    let range = |offset, len_bytes| Event::SyncRange { node: 2, offset, len_bytes };
    let start = [make(2, "disk"), write(2, 0, &[0; 4096])];
    let events = |range| [write(2, 0, &[1; 512]), write(2, 1024, &[2; 512]), range];
    for (range, at) in [
        (range(1024, 512), Some(2)),
        (range(0, 2048), Some(2)),
        (range(0, 512), None),
        (range(1024, 511), None),
        (range(1025, 512), None),
    ] {
        assert_eq!(last_durable_at(&start, &events(range.clone()), "worst"), at, "{range:?}");
    }
    let [first, second, _] = events(range(0, 0));
    assert_eq!(last_durable_at(&start, &[second, range(0, 512), first], "worst"), None);
    let zeros = Event::Change(Change::Zero { node: 2, offset: 512, len_bytes: 1024 });
    assert_eq!(last_durable_at(&start, &[zeros.clone(), range(512, 1024)], "worst"), Some(1));
    assert_eq!(last_durable_at(&start, &[zeros, range(0, 512)], "worst"), None);
}

/// On ext4, an append within the last block sets the size at once, so a power cut may leave zeros. An append that needs
/// a new block does not, nor does any append on XFS.
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

/// Decides whether the content of a file is right.
type Rightness = fn(&[u8]) -> bool;

/// On ext4, small appends to a new file share a block that is allocated when the kernel writes it. The file's size
/// never survives without what was in the block by then.
#[test]
fn an_append_in_a_block_needs_what_allocated_it() {
    let appends = || [make(2, "log"), write(2, 0, b"one\n"), write(2, 4, b"two\n")].to_vec();
    let [made, one, two] = [0, 1, 2].map(|number| appends()[number].clone());
    let sized = Event::Change(Change::Resize { node: 2, size_bytes: 4 });
    let without_block = vec![made.clone(), sized, sync(2), two.clone()];
    let first: Rightness = |log| log.is_empty() || log.starts_with(b"one\n");
    let second: Rightness = |log| log.len() <= 4 || log.ends_with(b"two\n");
    let cases = [
        ("a new block", appends(), first, false),
        ("a new block, written between the appends", appends(), second, true),
        ("a durable block", vec![made, one, sync(2), two], second, true),
        ("a hole", without_block, second, false),
    ];
    for (case, events, is_right, is_wrong) in cases {
        let check = Judged(move |reader: &mut Reader<'_>, _: &str| {
            is_right(&reader.read("log").unwrap_or_default())
        });
        let history = History { start: Tree::default(), events };
        let go = AtomicBool::new(false);
        let explored = explore(history, &plan("ext4", &CLASSES), &check, &go, &|_, _| {}).unwrap();
        assert_eq!(explored.wrong() > 0, is_wrong, "{case}");
    }
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
