//! State after a run that is killed without any cleanup. Each test starts itself again as a child, waits until the
//! child is in the middle of the work, and kills it.

use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use iodyno_targets::{LayOut, Marker, OpenOptions, TargetName, inspect, lay_out, open};

const CHILD_TARGET: &str = "IODYNO_TEST_CHILD_TARGET";
const READY: &str = "the child is in the middle of it";

/// Starts the named test again as a child that works on `target`, and waits for its first line.
fn start(test: &str, target: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD_TARGET, target)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(READY)), "the child ended early");
    child
}

/// In a child: opens the target, lays it out as far as `stop_bytes`, and waits to be killed.
fn be_killed(target: &str, stop_bytes: u64) -> ! {
    let name = TargetName::parse(target).unwrap();
    let mut opened = open(&name, &OpenOptions::read_write()).unwrap();
    let _ = lay_out(&mut opened, &mut |buf, _| buf.fill(0xFF), &mut |done, _| {
        if done >= stop_bytes {
            println!("{READY}");
            loop {
                std::thread::park();
            }
        }
        ControlFlow::Continue(())
    });
    unreachable!("the lay-out ended before it was to stop");
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn scratch_space_vanishes() {
    if let Ok(target) = std::env::var(CHILD_TARGET) {
        be_killed(&target, 4 << 20);
    }
    let dir = tempfile::tempdir().unwrap();
    let mut child =
        start("scratch_space_vanishes", &format!("scratch:8MiB@{}", dir.path().display()));
    // The child holds the file open, yet it has no name ...
    let links: Vec<_> = std::fs::read_dir(format!("/proc/{}/fd", child.id()))
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .filter(|link| link.starts_with(dir.path().canonicalize().unwrap()))
        .collect();
    assert_eq!(links.len(), 1, "{links:?}");
    assert!(links[0].to_string_lossy().ends_with("(deleted)"), "{links:?}");
    // ... so nothing has to remove it.
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn a_named_file_stays_ours_and_is_finished_by_the_next_run() {
    if let Ok(target) = std::env::var(CHILD_TARGET) {
        be_killed(&target, 4 << 20);
    }
    let dir = tempfile::tempdir().unwrap();
    let target = format!("{}?size=8MiB", dir.path().join("t").display());
    let mut child = start("a_named_file_stays_ours_and_is_finished_by_the_next_run", &target);
    child.kill().unwrap();
    child.wait().unwrap();
    let name = TargetName::parse(&target).unwrap();
    assert_eq!(inspect(&name).unwrap().marker, Some(Marker::Making(8 << 20)));
    let mut opened = open(&name, &OpenOptions::read_write()).unwrap();
    assert_eq!(opened.lay_out, LayOut::Needed { from_bytes: 0, to_bytes: 8 << 20 });
    lay_out(&mut opened, &mut |buf, _| buf.fill(0xFF), &mut |_, _| ControlFlow::Continue(()))
        .unwrap();
    drop(opened);
    assert!(std::fs::read(dir.path().join("t")).unwrap() == vec![0xFF; 8 << 20]);
}
