//! Outputs other than targets, and the names given to `--destroy`: checked before the run, written whole or
//! not at all, and only to regular files.

use crate::disks::{Loop, MIB, Mount, alone, blank, run};
use crate::place::Place;
use std::fs;

const SHORT: &str = "--ops 64 --ramp 0s";

fn pipe(place: &Place, name: &str) {
    run("mkfifo", &[place.path(name).to_str().unwrap()]);
}

/// Nothing is measured for a page that could not be written.
#[test]
fn a_report_that_can_t_be_written_ends_the_run_before_it_begins() {
    let place = Place::new();
    let image = place.write("image", b"\x7fELF\0 precious");
    pipe(&place, "pipe");
    for (at, words) in [
        ("/nope/x.html", "/nope: not found"),
        (".", "directory"),
        ("image", "not a text file"),
        ("pipe", "without a reader"),
        ("/dev/zero", "device"),
    ] {
        let output =
            place.iodyno(&format!("run random-write --on t?size=1MiB {SHORT} --report={at}"));
        output.fails(2, &[words]);
        assert_eq!(place.names(), ["image", "pipe"], "{at}");
        assert!(!place.notebook().exists(), "{at}");
    }
    place.iodyno("study sysx --quick --report=/nope/x.html").exits(2);
    // A report of an existing run is refused there too; the notebook itself is not a valid
    // destination.
    place.iodyno(&format!("run random-read --on ram:1MiB {SHORT} --report=page.html")).succeeds();
    let page = fs::read(place.path("page.html")).unwrap();
    for at in ["image", "pipe", "/nope/x.html", place.notebook().to_str().unwrap()] {
        place.iodyno(&format!("report last -o {at}")).exits(2);
    }
    place.iodyno("report last --markdown -o page.html").succeeds();
    assert!(fs::read(place.path("page.html")).unwrap() != page, "a page is replaced");
    let output = place.iodyno("report last --csv -o /dev/stdout");
    assert!(output.succeeds().stdout.contains(','));
    place.iodyno("show last").succeeds();
    assert_eq!(fs::read(image).unwrap(), b"\x7fELF\0 precious");
}

/// Each output has a file of its own, and the notebook is not a target: refused before anything is written.
#[test]
fn no_file_is_written_for_two_purposes() {
    let place = Place::new();
    let on = format!("run random-write {SHORT} --on");
    for (words, code, said) in [
        ("ram:1MiB --record-trace x --report=x", 2, "--record-trace and --report"),
        ("ram:1MiB --record-trace x --report=./x", 2, "--record-trace and --report"),
        ("ram:1MiB --notebook x --report=x", 2, "--report and the notebook"),
        ("ram:1MiB --notebook x --record-trace x", 2, "--record-trace and the notebook"),
        ("x?size=1MiB --notebook ./x", 2, "the notebook in which this run is stored"),
    ] {
        place.iodyno(&format!("{on} {words}")).fails(code, &[said]);
        assert!(place.names().is_empty(), "{words}: {:?}", place.names());
    }
    place.iodyno(&format!("{on} ram:1MiB --notebook nb")).succeeds();
    std::fs::hard_link(place.path("nb"), place.path("link")).unwrap();
    let before = fs::read(place.path("nb")).unwrap();
    let words = format!("{on} link --destroy link --notebook nb");
    place.iodyno(&words).fails(2, &["the notebook in which this run is stored"]);
    assert_eq!(fs::read(place.path("nb")).unwrap(), before);
}

/// A notebook named by the flag or the variable is refused if it is a pipe or a device, by all commands that read or
/// write it.
#[test]
fn a_notebook_is_never_a_pipe_or_a_device() {
    let place = Place::new();
    pipe(&place, "pipe");
    for (notebook, what) in [("pipe", "a pipe"), ("/dev/null", "a character device")] {
        for words in ["ls", "run random-read --on ram:1MiB --ops 9", "show last", "report last"] {
            place.iodyno(&format!("--notebook {notebook} {words}")).fails(5, &[what]);
            let mut command = place.command(words);
            let output = command.env("IODYNO_NOTEBOOK", notebook).output().unwrap();
            assert_eq!(output.status.code(), Some(5), "{words}: {output:?}");
        }
    }
}

#[test]
fn a_name_to_destroy_is_that_of_a_target() {
    let place = Place::new();
    let run = |words: &str| place.iodyno(&format!("run random-write {words} {SHORT}"));
    for words in [
        "--on t?size=1MiB --destroy foo",
        "--on ram:1MiB --destroy ram",
        "--on scratch:1MiB --destroy .",
        "--on model:exflash-200g --destroy exflash-200g",
        "--on t?size=1MiB --on ram:1MiB --destroy t --destroy foo",
    ] {
        run(words).fails(2, &["--destroy must name a target of this run"]);
        assert_eq!(place.names(), [""; 0], "{words}");
    }
    run("--on t?size=1MiB --destroy t").succeeds();
    place.iodyno("check t --destroy foo").fails(2, &["`foo`", "t"]);
    place.iodyno("purge t --destroy foo").exits(2).says(&["`foo`"]);
}

/// Targets that are too small for the workload are bad input, with one exit code whatever their size.
#[test]
fn too_small_is_bad_input() {
    let place = Place::new();
    for len in [0_usize, 2048] {
        place.write("small", vec![1; len]);
        place.iodyno(&format!("run random-write --on small --destroy small {SHORT}")).exits(2);
    }
}

/// A file of iodyno's that was overwritten with other data belongs to its new owner, even if the length is the same.
#[test]
fn a_file_that_was_filled_with_other_data_is_refused() {
    let place = Place::new();
    let write = |content: &str| {
        let words = format!("run random-write --on ours?size=4MiB --content {content} {SHORT}");
        place.iodyno(&words)
    };
    // iodyno's own content of every kind is recognized.
    for content in ["incompressible", "verifiable", "compressible=50%,dedupable=20%", "zeroes"] {
        write(content).succeeds();
    }
    let other = vec![b'x'; 4 << 20];
    fs::write(place.path("ours"), &other).unwrap();
    write("incompressible").fails(3, &["another program has written to it since"]);
    place.iodyno("check ours").exits(3);
    assert!(fs::read(place.path("ours")).unwrap() == other);
}

#[test]
#[ignore = "needs root and loop devices"]
fn a_notebook_or_a_report_is_never_a_device() {
    let _alone = alone();
    let place = Place::new();
    let image = blank(place.path("image"), 32 * MIB);
    let disk = Loop::on(&image, &[]);
    let own = || place.iodyno(&format!("run random-write --on {} {SHORT} -q", disk.node));
    for round in 0..2 {
        assert_eq!(own().code, Some(0), "blank at first, then filled by iodyno: {round}");
    }
    let before = fs::read(&image).unwrap();
    for words in ["ls", "run random-read --on ram:1MiB --ops 9 -q"] {
        place.iodyno(&format!("--notebook {} {words}", disk.node)).fails(5, &["a block device"]);
    }
    place.iodyno(&format!("report last -o {}", disk.node)).fails(2, &["a block device"]);
    run("blockdev", &["--flushbufs", &disk.node]);
    assert!(fs::read(&image).unwrap() == before);
    // Another program's data among iodyno's.
    run("dd", &["if=/proc/version", &format!("of={}", disk.node), "seek=40000", "conv=notrunc"]);
    own().fails(3, &["It holds data", "at byte 20480000", "\"Linux version"]);
    own().fails(3, &[&format!("--destroy {}", disk.name())]);
}

/// A file that can't be written completely is not left behind, and the former file stays as it is.
#[test]
#[ignore = "needs root and loop devices"]
fn a_report_on_a_full_file_system_leaves_the_former_one() {
    let _alone = alone();
    let place = Place::new();
    place.iodyno(&format!("run random-read --on ram:1MiB {SHORT} -q")).succeeds();
    let full = Mount::at(place.path("full"), &["-t", "tmpfs", "-o", "size=64k", "tmpfs"]);
    fs::write(full.0.join("page.html"), "the former one").unwrap();
    for name in ["page.html", "new.html"] {
        place.iodyno(&format!("report last -o full/{name}")).fails(4, &["No space left"]);
    }
    assert_eq!(crate::place::names(&full.0), ["page.html"]);
    assert_eq!(fs::read(full.0.join("page.html")).unwrap(), b"the former one");
}
