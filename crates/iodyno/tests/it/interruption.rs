//! Runs that are ended early by Ctrl-C, SIGTERM or SIGKILL. Earlier measurements are kept, and
//! marked as interrupted or crashed.

use crate::place::{A_MOMENT, Place, Running, SHORT, cells, codes, number, whole};
use serde_json::Value;
use std::os::fd::AsRawFd as _;
use std::process::{ChildStdout, Stdio};
use std::time::Duration;

/// A group whose first member ends soon, and whose second one runs without end.
const GROUP: &str = "schema = 1\ngroup = [\"./short.toml\", \"./long.toml\", \"seq-read\"]\n";

fn prepare(place: &Place) {
    let member = |limits: &str| {
        format!("schema = 1\nblock = \"4KiB\"\n[mix]\nread = 50\nwrite = 50\n[limits]\n{limits}\n")
    };
    place.write("group.toml", GROUP);
    place.write("short.toml", member("ops = 500"));
    place.write("long.toml", member("time = \"1h\""));
}

/// Lines of a text without notes, because a run omits notes that an earlier run had, and `show` has them all.
fn without_notes(text: &str) -> Vec<&str> {
    let mut in_note = false;
    let is_kept = |line: &&str| {
        // A long note goes on in indented lines.
        in_note = line.starts_with("· ") || in_note && line.starts_with("    ");
        !in_note
    };
    text.lines().filter(is_kept).collect()
}

#[test]
fn a_signal_in_the_second_cell_keeps_the_first() {
    let place = Place::new();
    prepare(&place);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        for form in ["--json -q", "-q"] {
            let mut running = place.start(&format!("run group.toml --on scratch:4MiB {form}"));
            place.wait_for_cells(&mut running, 2);
            running.signal(signal);
            let output = running.finish();
            assert_eq!(output.exits(130).stderr, "");
            let shown = place.iodyno("show last --json").succeeds().json();
            if form == "-q" {
                assert!(output.stdout.contains("INTERRUPTED") && output.stdout.contains("short"));
                let shown = place.iodyno("show last").stdout;
                assert_eq!(without_notes(&shown), without_notes(&output.stdout));
            } else {
                assert_eq!(output.json(), shown);
            }
            assert_eq!(shown["run"]["status"], "interrupted");
            let [first, second] = cells(&shown).as_slice() else { panic!("{shown}") };
            assert_eq!((&first["name"], &first["ended"]), (&"short".into(), &"ops".into()));
            assert_eq!(whole(&first["read"]["ops"]) + whole(&first["write"]["ops"]), 500);
            assert!(!codes(first).contains(&"INTERRUPTED"));
            assert_eq!(
                (&second["name"], &second["ended"]),
                (&"long".into(), &"interrupted".into())
            );
            assert!(codes(second).contains(&"INTERRUPTED"), "{second}");
            assert!(!codes(second).contains(&"LITTLES_LAW_BROKEN"), "{second}");
        }
    }
    let list = place.iodyno("ls --json").succeeds().json();
    assert!(list["runs"].as_array().unwrap().iter().all(|run| run["status"] == "interrupted"));
}

/// With several targets, the cell of each is marked, and so is the merged cell.
#[test]
fn every_target_of_an_interrupted_cell_is_marked() {
    let place = Place::new();
    let targets = "--on ram:1MiB --on scratch:1MiB";
    let mut running = place.start(&format!("run random-read {targets} --time 1h --json -q"));
    place.wait_for_cells(&mut running, 2);
    running.signal(libc::SIGINT);
    let document = running.finish().exits(130).json();
    assert_eq!(cells(&document).len(), 3);
    for cell in cells(&document) {
        assert_eq!(cell["ended"], "interrupted", "{}", cell["target"]);
        assert!(codes(cell).contains(&"INTERRUPTED"));
    }
}

/// A signal before the first cell leaves nothing behind.
#[test]
fn a_signal_while_a_file_is_laid_out_removes_it() {
    let place = Place::new();
    let mut running = place.start(&format!("run random-read --on big?size=2GiB {SHORT} --json -q"));
    running.wait_until("the lay-out begins", || {
        std::fs::metadata(place.path("big")).is_ok_and(|meta| meta.len() > 0)
    });
    running.signal(libc::SIGINT);
    running.finish().fails(130, &["interrupted before the first measurement"]);
    assert_eq!(place.names(), [""; 0]);
    let shown = place.iodyno("show last --json").succeeds().json();
    assert_eq!(shown["run"]["status"], "interrupted");
    assert!(cells(&shown).is_empty());
}

/// A file whose layout was ended by a kill stays iodyno's: the next run finishes it, also one that
/// only reads.
#[test]
fn a_kill_while_a_file_is_laid_out() {
    let place = Place::new();
    let words = format!("run random-read --on big?size=512MiB {SHORT} -q");
    let mut running = place.start(&words);
    running.wait_until("the lay-out begins", || {
        std::fs::metadata(place.path("big")).is_ok_and(|meta| meta.len() > 0)
    });
    running.signal(libc::SIGKILL);
    running.finish();
    let document = place.document(&words.replace(" -q", ""));
    assert_eq!(document["run"]["plan"]["lay_out_bytes"], 512 << 20);
    assert!(!codes(&cells(&document)[0]).contains(&"NEVER_WRITTEN"));
    assert_eq!(place.document(&words.replace(" -q", ""))["run"]["plan"]["lay_out_bytes"], 0);
}

/// A run that hangs at its end can still be ended: the second signal kills.
#[test]
fn a_second_signal_ends_it_at_once() {
    let place = Place::new();
    let words = "run random-read --on ram:1MiB --time 1h --ramp 0s --json -q --no-notebook";
    let mut child = place.command(words).stdout(Stdio::piped()).spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    let mut running = Running::of_child(child, words);
    // A document does not fit into the smallest pipe, and it is not read.
    // SAFETY: sets the capacity of a pipe of ours.
    assert!(unsafe { libc::fcntl(stdout.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) } >= 0);
    // There is no notebook to check: the handlers are there once the workers are.
    let tasks = format!("/proc/{}/task", running.id());
    running.wait_until("a worker runs", || std::fs::read_dir(&tasks).unwrap().count() > 1);
    running.signal(libc::SIGINT);
    running.wait_until("the document fills the pipe", || waiting_bytes(&stdout) >= 4096);
    assert!(running.is_running(), "it waits for its reader");
    running.signal(libc::SIGINT);
    assert_eq!(running.finish().signal, Some(libc::SIGINT));
}

/// SIGKILL at any moment: the notebook opens, the run is shown as crashed, and its content from
/// before the kill is complete.
#[test]
fn kept_results_survive_a_kill() {
    let place = Place::new();
    prepare(&place);
    for kill in 0..8_u32 {
        let words = "run group.toml --on scratch:1MiB --interval 20ms -q";
        let mut running = place.start(words);
        if kill % 2 == 0 {
            // Some time after the first intervals were written, about a second into the cell.
            let mut seen = 0;
            running.wait_until("intervals are kept", || {
                seen = intervals(&place, kill as usize);
                seen > 0
            });
            std::thread::sleep(A_MOMENT * (kill * 7));
            running.signal(libc::SIGKILL);
            assert_eq!(running.finish().signal, Some(libc::SIGKILL));
            let now = intervals(&place, kill as usize);
            assert!(now >= seen, "{now} of {seen}");
        } else {
            // Anywhere between its first instruction and the second cell.
            std::thread::sleep(Duration::from_millis(u64::from(kill) * 53 % 190));
            running.signal(libc::SIGKILL);
            assert_eq!(running.finish().signal, Some(libc::SIGKILL));
            if !place.notebook().exists() || runs(&place).len() <= kill as usize {
                // Killed before the run was begun: a later kill replaces it.
                let mut again = place.start(words);
                place.wait_for_cells(&mut again, 1);
                again.signal(libc::SIGKILL);
                again.finish();
            }
        }
        let runs = runs(&place);
        assert_eq!(runs.len(), kill as usize + 1);
        assert!(runs.iter().all(|run| run["status"] == "crashed"), "{runs:?}");
        // Nothing is left in the folder, and the next run works as usual.
        assert_eq!(place.names(), ["group.toml", "long.toml", "short.toml"]);
        let shown = place.iodyno("show last --json").succeeds().json();
        assert!(shown["run"]["ended"].is_null());
        for cell in cells(&shown).iter().filter(|cell| cell["ended"] != "ops") {
            assert_eq!(cell["ended"], "crashed", "{cell}");
            assert!(codes(cell).contains(&"CRASHED"));
            // Little's law, of what had completed.
            let of_kind = |kind: &str| {
                let mean_ns = cell[kind]["latency_ns"]["mean"].as_f64().unwrap_or(0.0);
                number(&cell[kind]["ops"]) / number(&cell["seconds"]).max(1e-9) * mean_ns / 1e9
            };
            let law: f64 = ["read", "write"].map(of_kind).iter().sum();
            let outstanding = number(&cell["oio_mean"]);
            assert!((outstanding - law).abs() <= 0.05 * law, "{outstanding} {law}: {cell}");
        }
        place.iodyno("show last").succeeds();
        for form in
            ["json", "csv", "csv-series", "hgrm", "fio-json", "fio-json+", "fio-terse", "sysbench"]
        {
            place.iodyno(&format!("export last --format {form}")).succeeds();
        }
    }
    place.iodyno(&format!("run random-read --on scratch:1MiB -q {SHORT}")).succeeds();
}

fn runs(place: &Place) -> Vec<Value> {
    let list = place.iodyno("ls --json").succeeds().json();
    list["runs"].as_array().unwrap().clone()
}

/// Number of intervals that the notebook holds of the second cell of the run with this index; 0 before the cell begins.
fn intervals(place: &Place, index: usize) -> usize {
    let output = place.iodyno("ls --json");
    if output.code != Some(0) || output.json()["runs"].as_array().unwrap().len() <= index {
        return 0;
    }
    let shown = place.iodyno("show last --json --series").succeeds().json();
    cells(&shown).get(1).map_or(0, |cell| cell["series"].as_array().unwrap().len())
}

/// Unread bytes in a pipe.
fn waiting_bytes(pipe: &ChildStdout) -> libc::c_int {
    let mut bytes = 0;
    // SAFETY: the request writes one int.
    assert_eq!(unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut bytes) }, 0);
    bytes
}

/// A list of jobs that is stopped names those that never began.
#[test]
fn jobs_that_never_began_are_named() {
    let place = Place::new();
    let jobs = "[global]\nioengine=psync\nsize=1m\nrw=randread\ntime_based\n[a]\nruntime=1\n[b]\nstonewall\nruntime=1h\n[c]\nstonewall\nruntime=1\n";
    place.write("three.fio", jobs);
    let mut running = place.start("run three.fio --on ram:1MiB");
    place.wait_for_cells(&mut running, 2);
    running.signal(libc::SIGINT);
    assert!(running.finish().exits(130).stderr.contains("note: not begun: `c`\n"));
}
