//! Job files of fio whose jobs name devices or files, on several targets; and flushes after passes.

use crate::place::{Place, cells};
use serde_json::Value;

const TWO: &str = "[global]\nbs=64k\nsize=4m\nioengine=psync\n[a]\nfilename=a.img\nrw=write\n[b]\nfilename=./b.img\nrw=randwrite\nnumber_ios=10\n\
                   [c]\nstonewall\nfilename=b.img\nrw=read\n";

/// Name, target and operations of a cell.
fn figure(cell: &Value) -> (&str, &str, u64) {
    let ops = ["read", "write"].map(|kind| cell[kind]["ops"].as_u64().unwrap_or(0));
    (cell["name"].as_str().unwrap(), cell["target"].as_str().unwrap(), ops[0] + ops[1])
}

/// Name, target and operations of all cells.
fn figures(document: &Value) -> Vec<(&str, &str, u64)> {
    cells(document).iter().map(figure).collect()
}

/// Jobs use only the targets that they name, from the start of each, whatever the order of --on. Each target has only
/// the bytes of its jobs.
#[test]
fn jobs_keep_to_their_targets() {
    let place = Place::new();
    place.write("two.fio", TWO);
    let targets = "--on b.img?size=4MiB --on a.img?size=4MiB";
    for flags in ["", " --fill"] {
        let document = place.document(&format!("run two.fio {targets}{flags}"));
        let of_jobs = figures(&document).into_iter().filter(|cell| cell.0 != "fill");
        let of_jobs: Vec<_> =
            of_jobs.map(|(name, target, ops)| (name, &target[..5], ops)).collect();
        let expected = [("b", "b.img", 10), ("a", "a.img", 64), ("c", "b.img", 64)];
        assert_eq!(of_jobs, expected, "{document}");
    }
    // Required figures are judged on the jobs' cells, beside those of a fill.
    let words = format!("run two.fio {targets} --fill --require c:iops>1 -q");
    let judged = place.iodyno(&words);
    assert!(!judged.stderr.contains("no cell has a name that matches"), "{}", judged.stderr);
    let shown = place.iodyno("show last");
    for line in ["a on a.img", "b on b.img", "c on b.img"] {
        assert!(shown.succeeds().stdout.contains(line), "{}", shown.stdout);
    }
    // What one writes and another verifies may be on two targets.
    let verified = TWO.replace("[b]", "verify=md5\n[b]");
    place.write("two.fio", verified);
    let document = place.document(&format!("run two.fio {targets}"));
    let names: Vec<&str> = figures(&document).iter().map(|cell| cell.0).collect();
    assert_eq!(names, ["b", "a", "a-verify", "c"], "{document}");
    assert!(!document.to_string().contains("CORRUPT"), "{document}");
}

/// If no job names a target, all jobs run on all targets. If some jobs name one, all must.
#[test]
fn jobs_without_a_target_of_theirs() {
    let place = Place::new();
    place.write("two.fio", TWO);
    let document = place.document("run two.fio --on x.img?size=8MiB --on y.img?size=8MiB");
    let all = figures(&document).iter().filter(|cell| cell.1.starts_with("all (2")).count();
    assert_eq!((all, cells(&document).len()), (3, 9), "{document}");
    place.iodyno("run two.fio --on a.img?size=8MiB --on y.img?size=8MiB").fails(
        2,
        &["the file of job `a` is a target of --on", "that of job `b` is not", "--on ./b.img"],
    );
    let on = "--on a.img?size=8MiB --on b.img?size=8MiB";
    let words = format!("run two.fio {on} --with random-read");
    place.iodyno(&words).fails(2, &["--with can't add another"]);
    place.write("apart.fio", TWO.replace("[b]", "[b]\nstonewall"));
    let words = format!("run apart.fio {on} --vary block=4k,8k");
    place.iodyno(&words).fails(2, &["jobs for several targets", "--section NAME"]);
    let devices = TWO.replace("filename=a.img", "filename=/dev/sdy");
    place.write("devices.fio", devices.replace("filename=./b.img", "filename=/dev/sdz"));
    let lint = place.iodyno("convert devices.fio --lint");
    let words = "with `--on /dev/sdy --on /dev/sdz` each job runs on its own";
    assert!(lint.succeeds().stdout.contains(words), "{}", lint.stdout);
}

/// fio flushes each file after each pass; with `fsync_on_close` twice, except after the last pass.
#[test]
fn flushes_behind_passes() {
    let place = Place::new();
    for (lines, flushes) in [
        ("end_fsync=1", 3),
        ("fsync_on_close=1", 5),
        ("end_fsync=1\nnrfiles=2\nnumjobs=2", 12),
        ("end_fsync=1\nloops=1\nio_size=3m", 3),
        ("end_fsync=1\ntime_based\nruntime=50ms", 1),
    ] {
        let job = "[a]\nioengine=psync\nrw=write\nbs=64k\nsize=1m\nloops=3\n";
        place.write("l.fio", format!("{job}{lines}\n"));
        for target in ["ram:4MiB", "model:exflash-400g"] {
            let document = place.document(&format!("run l.fio --on {target}"));
            assert_eq!(cells(&document)[0]["flush"]["ops"], flushes, "{lines} on {target}");
        }
    }
}
