//! Ranks that die or hang at random moments: the run ends soon after `--patience`, is never shown as complete, and
//! resumes at its last complete step.

use crate::program::{Lab, ranks_of, text};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum time from the end of `--patience` (timeout for a silent rank) to the end of the job.
const ENDED_WITHIN: Duration = Duration::from_secs(25);
const METHOD: &str =
    "run random-read --vary depth=1,2,4,8 --on ram:16MiB --time 600ms --patience 3s --quiet";

fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(sent.unwrap().success() || name == "CONT");
}

fn start(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until all ranks run. Returns their process ids, rank 0 first.
fn ranks(launcher: &Child, number: usize) -> Vec<u32> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let found = ranks_of(launcher);
        if found.len() == number {
            return found;
        }
        assert!(Instant::now() < until, "{number} ranks, {found:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn ends(mut launcher: Child, what: &str) -> String {
    let until = Instant::now() + ENDED_WITHIN;
    while launcher.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            let _ = launcher.kill();
            panic!("{what}: the job did not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = launcher.wait_with_output().unwrap();
    assert!(!output.status.success(), "{what}: {}", text(&output));
    text(&output)
}

/// The statuses of the notebook's runs, the last one first, with their numbers of cells.
fn runs(lab: &Lab) -> Vec<(String, usize)> {
    let iodyno = lab.alone("resume --help").output().unwrap();
    assert!(iodyno.status.success());
    let notebook = lab.path().join("n.sqlite");
    let output = Command::new("sqlite3")
        .arg(&notebook)
        .arg("SELECT coalesce(status, ''), (SELECT count(*) FROM cells WHERE cells.run = runs.number) FROM runs ORDER BY number DESC")
        .output()
        .unwrap();
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    lines
        .lines()
        .filter_map(|line| {
            let (status, cells) = line.rsplit_once('|')?;
            Some((status.to_owned(), cells.parse().ok()?))
        })
        .collect()
}

/// A run that lost a rank is not shown as finished, and can be resumed. `IODYNO_MPI_KILLS` sets the number of kills.
#[test]
fn a_run_is_never_whole_without_a_rank() {
    let kills =
        std::env::var("IODYNO_MPI_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(3_u64);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let mut random = now.as_nanos() as u64;
    let mut next = |below: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for kill in 0..kills {
        let lab = Lab::new();
        let launcher = start(lab.ranks(3, METHOD));
        let found = ranks(&launcher, 3);
        let (victim, after_ms) = (next(3) as usize, next(2600));
        std::thread::sleep(Duration::from_millis(after_ms));
        signal("KILL", found[victim]);
        let what = format!("kill {kill}: rank {victim} after {after_ms} ms");
        println!("{what}");
        let said = ends(launcher, &what);
        let before = runs(&lab);
        assert!(before.len() <= 1, "{before:?}");
        if let Some((status, _)) = before.first() {
            assert!(!status.contains("finished"), "{what}: {before:?}: {said}");
            let mut resumed = lab.ranks(3, "resume last --quiet --patience 10s");
            let output = resumed.output().unwrap();
            assert!(output.status.success(), "{what}: {}: {before:?}", text(&output));
            let after = runs(&lab);
            assert_eq!(after.len(), 1, "{what}: {after:?}");
            assert_eq!(after[0].1, 16, "{what}: four steps of three ranks and of all: {after:?}");
        }
    }
}

/// A rank that hangs sends nothing, so the others give it up.
#[test]
fn a_rank_that_hangs_is_given_up() {
    let lab = Lab::new();
    for victim in [2, 0] {
        let launcher = start(lab.ranks(3, METHOD));
        let found = ranks(&launcher, 3);
        std::thread::sleep(Duration::from_millis(1200));
        signal("STOP", found[victim]);
        let said = ends(launcher, &format!("rank {victim} stopped"));
        signal("CONT", found[victim]);
        assert!(said.contains(&format!("rank {victim} has sent nothing for 3 s")), "{said}");
    }
}
