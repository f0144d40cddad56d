//! Programs with planted crash bugs, and correct programs. Each bug must be found, with the right verdict and by a
//! named class of states; a correct program must have no wrong state.

mod embedded;
mod files;
mod foreign;
mod lmdb;
mod postgres;
mod sqlite;

use iodyno_crashtest::{
    CLASSES, Checker, Class, Described, Ended, Explored, Finding, Folders, History, Plan, Program,
    RULES, Rules, Tree, Verdict, explore,
};
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Time limit for exploring all states of a correct program. The next constant limits the exploration of a wrong one.
const TIME_RIGHT: Duration = Duration::from_secs(300);
const TIME_WRONG: Duration = Duration::from_secs(8);

/// Path of the Python interpreter itself. A wrapper that selects a version would take longer than the checks.
static PYTHON: LazyLock<String> = LazyLock::new(|| {
    let output =
        Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
});

/// The commands of a test case: setup, program and checker, each with its arguments.
struct Case {
    /// Command that runs before the program. All its changes are durable.
    setup: Vec<String>,
    /// Program under test.
    program: Vec<String>,
    check: Vec<String>,
}

/// Command that runs a script in Python.
fn python(script: &str) -> Vec<String> {
    [&*PYTHON, "-I", "-S", "-c", script].map(ToOwned::to_owned).to_vec()
}

/// Command that runs a script in the shell.
fn shell(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(ToOwned::to_owned).to_vec()
}

impl Case {
    fn program(words: &[String]) -> Program {
        Program {
            words: words.iter().map(Into::into).collect(),
            environment: Vec::new(),
            time_limit: Duration::from_secs(20),
            stop: Arc::default(),
        }
    }

    /// Runs the setup, then the program in the resulting folder. Returns the program's recorded run.
    fn history(&self, folders: &Folders) -> History {
        let run = |words: &[String], tree: Tree, name: &str| {
            let folder = folders.add(name, tree, true, None);
            let ran = Self::program(words).record(folders, name, &folder).unwrap();
            assert!(matches!(ran.ended, Ended::Exited(status) if status.success()), "{words:?}");
            (folders.take_events(name), folders.remove(name).unwrap())
        };
        let (_, start) = run(&self.setup, Tree::default(), "setup");
        let (events, _) = run(&self.program, start.clone(), "program");
        History { start, events }
    }

    fn explore(&self, rules: &str, classes: &[Class], time: Duration) -> Explored {
        self.explore_until(rules, classes, time, |_| false)
    }

    /// Explores the states within `time`, but ends early if `is_enough` accepts the number of wrong states so far.
    fn explore_until(
        &self,
        rules: &str,
        classes: &[Class],
        time: Duration,
        is_enough: impl Fn(u64) -> bool + Sync,
    ) -> Explored {
        let at = tempfile::tempdir().unwrap();
        let folders = Folders::mount(at.path()).unwrap();
        let plan = Plan {
            rules: Rules::named(rules).unwrap(),
            classes: classes.to_vec(),
            bound: 2,
            atomic_bytes: None,
            again: false,
            time,
            workers: 2,
            enough: Vec::new(),
        };
        let checker = Checker::new(&folders, Self::program(&self.check));
        let (history, stop) = (self.history(&folders), AtomicBool::new(false));
        let progress = |_, wrong| stop.store(is_enough(wrong), Ordering::Relaxed);
        let explored = explore(history, &plan, &checker, &stop, &progress).unwrap();
        assert_eq!(explored.spot_checks.1, 0, "a checker is not deterministic");
        explored
    }

    /// Checks that all states are right under each of these sets of rules.
    fn is_right(&self, rules: &[&str]) {
        for rules in rules {
            let explored = self.explore(rules, &CLASSES, TIME_RIGHT);
            assert_eq!(explored.wrong(), 0, "{rules}: {:#?}", described(&explored));
            assert!(explored.is_complete(), "{rules}: {:#?}", explored.classes);
            assert!(explored.verdicts[&Verdict::Consistent] > 10, "{rules}: too few states");
        }
    }

    /// Checks that none of the states judged within `time` is wrong.
    fn is_right_for(&self, rules: &str, classes: &[Class], time: Duration) {
        let explored = self.explore(rules, classes, time);
        println!("{rules}: {:?} in {:?}", explored.classes, explored.elapsed);
        assert_eq!(explored.wrong(), 0, "{rules}: {:#?}", described(&explored));
        assert!(explored.verdicts[&Verdict::Consistent] > 10, "{rules}: too few states");
    }

    /// Checks that a wrong state is found within `time`, and returns its verdict.
    fn first_wrong(&self, rules: &str, classes: &[Class], time: Duration) -> Verdict {
        let explored = self.explore_until(rules, classes, time, |wrong| wrong > 0);
        println!("{rules}: {:?} in {:?}", explored.classes, explored.elapsed);
        let finding = explored.findings.first();
        finding.unwrap_or_else(|| panic!("{rules}: nothing in {time:?}")).verdict
    }

    /// Checks that the wrong states have exactly the given verdicts, or only some of them if the time limit ends the
    /// exploration. Also checks that an exploration of `class` alone finds a wrong state.
    fn is_wrong(&self, rules: &str, verdicts: &[Verdict], class: Class) {
        let mut explored = self.explore(rules, &CLASSES, TIME_WRONG);
        explored.verdicts.remove(&Verdict::Consistent);
        let found: BTreeSet<Verdict> = explored.verdicts.keys().copied().collect();
        let expected: BTreeSet<Verdict> = verdicts.iter().copied().collect();
        let of_part = !explored.is_complete() && !found.is_empty() && found.is_subset(&expected);
        assert!(of_part || found == expected, "{rules}: {found:?}: {:#?}", described(&explored));
        let by_class = self.explore_until(rules, &[class], TIME_WRONG, |wrong| wrong > 0);
        assert!(by_class.wrong() > 0, "{rules}: nothing by {class:?}");
    }
}

fn described(explored: &Explored) -> Vec<(Verdict, Described, String)> {
    let describe = |finding: &Finding| {
        let output = String::from_utf8_lossy(&finding.output).into_owned();
        (finding.verdict, finding.describe(), output)
    };
    explored.findings.iter().map(describe).collect()
}

fn all_rules() -> Vec<&'static str> {
    RULES.iter().map(|rules| rules.name).collect()
}
