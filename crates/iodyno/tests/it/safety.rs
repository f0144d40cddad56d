//! Nothing is destroyed unexpectedly: files that iodyno did not create are refused and left unchanged, `--destroy`
//! accepts only the target's own name, reading never writes, and files that iodyno creates are reused or leave no
//! trace.

use crate::place::{Place, Running, SHORT, cells};
use serde_json::json;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Content of a file that can't be mistaken for one of iodyno's.
fn notes() -> Vec<u8> {
    (0..1_u32 << 18).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

/// Content, times, mode, owner, size and blocks: everything that a careless program changes.
fn state(path: &Path) -> (Vec<u8>, [i64; 7]) {
    let meta = std::fs::metadata(path).unwrap();
    let times = [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()];
    let rest = [i64::from(meta.mode()), meta.size() as i64, meta.blocks() as i64];
    let all = times.into_iter().chain(rest).collect::<Vec<_>>();
    (std::fs::read(path).unwrap(), all.try_into().unwrap())
}

#[test]
fn a_file_that_iodyno_did_not_make_is_refused() {
    let place = Place::new();
    let file = place.write("notes", notes());
    let before = state(&file);
    for engine in ["", "--engine psync --depth 1", "--engine mmap --depth 1"] {
        let output = place.iodyno(&format!("run random-write --on notes {engine} {SHORT} --json"));
        output.fails(
            3,
            &["refusing to write to notes", "did not make", "--read-only", "--destroy notes"],
        );
    }
    // Nor by a group in which only some members write, nor next to a target that may be written.
    let others = "--on fresh?size=1MiB --on ram:1MiB";
    place.iodyno(&format!("run four-corners {others} --on notes {SHORT}")).fails(3, &["notes"]);
    // Nor by another size, which would cut or grow it, nor through a link.
    for size in ["64KiB", "8MiB"] {
        place
            .iodyno(&format!("run random-write --on notes?size={size} {SHORT}"))
            .fails(3, &["notes"]);
    }
    std::os::unix::fs::symlink("notes", place.path("link")).unwrap();
    place.iodyno(&format!("run random-write --on link {SHORT}")).fails(3, &["link"]);
    // No wrong name confirms it.
    for wrong in ["note", "notes2", "/notes", "../notes", "yes", "ALL", "*"] {
        let output =
            place.iodyno(&format!("run random-write --on notes --destroy {wrong} {SHORT}"));
        output.fails(
            3,
            &[&format!("`--destroy {wrong}` names a different target"), "--destroy notes"],
        );
    }
    // The confirmation of one target does not cover another.
    place.write("other", notes());
    let both = "--on notes --on other --destroy other";
    place
        .iodyno(&format!("run random-write {both} {SHORT}"))
        .fails(3, &["refusing to write to notes"]);
    assert_eq!(state(&file), before);
    assert!(std::fs::read(place.path("other")).unwrap() == notes(), "refused as a whole");
    assert_eq!(place.names(), ["link", "notes", "other"], "the fresh file is gone again");
    assert!(!place.notebook().exists(), "a run that was refused is none");
}

#[test]
fn the_target_s_own_name_confirms_it() {
    let place = Place::new();
    let whole_path = place.path("notes").to_str().unwrap().to_owned();
    for name in ["notes", &whole_path] {
        let file = place.write("notes", notes());
        let words = format!("run random-write --on notes --destroy {name} {SHORT}");
        let document = place.document(&words);
        assert!(std::fs::read(&file).unwrap() != notes(), "it was written");
        let lifted = &document["run"]["targets"][0]["facts"]["opened"]["destroy_confirmed"];
        assert!(lifted[0].as_str().unwrap().contains("did not make"), "{lifted}");
        // The file does not become iodyno's by that: the next run refuses it again.
        place.iodyno(&format!("run random-write --on notes {SHORT}")).fails(3, &["notes"]);
    }
}

/// A resumed run writes only to targets that its own command line confirms. A run that was imported from a report never
/// writes.
#[test]
fn a_confirmation_of_an_earlier_run_counts_no_more() {
    let place = Place::new();
    let file = place.write("notes", vec![7; 8 << 20]);
    place.write(
        "m.toml",
        "schema = 1\n[[stages]]\ndo = \"cells\"\nread = \"0%\"\ndepth = [1, 2, 4]\ntime = \"400ms\"\n",
    );
    let mut running = place.start("run ./m.toml --on notes --destroy notes -q");
    place.wait_for_cells(&mut running, 2);
    running.signal(libc::SIGKILL);
    running.finish();
    place.iodyno("report last -o evil.html").succeeds();
    // Something else is there by now.
    let others_data = notes().repeat(8);
    place.write("notes", &others_data);
    let before = state(&file);
    let refused = place.iodyno("resume last -q");
    refused.fails(3, &["refusing to write to notes", "`--destroy notes`"]);
    place.iodyno("resume last -q --destroy other").fails(3, &["names a different target"]);

    let others = "--notebook others.sqlite";
    place.iodyno(&format!("{others} import evil.html")).succeeds();
    let imported = place.iodyno(&format!("{others} resume last -q --destroy notes"));
    imported.fails(2, &["was imported"]);
    assert!(!imported.stderr.contains("--destroy"), "{}", imported.stderr);
    let shown = place.iodyno(&format!("{others} show last"));
    let said = shown.succeeds().stdout.replace('\n', " ");
    assert!(!said.contains("iodyno resume"), "{said}");
    // Nor does the page tell its reader to confirm anything.
    let page = std::fs::read_to_string(place.path("evil.html")).unwrap();
    assert!(page.contains("without its --destroy confirmations"));
    assert_eq!(state(&file), before);

    place.iodyno("resume last -q --destroy notes").succeeds();
    assert!(std::fs::read(&file).unwrap() != others_data, "it was written");
}

#[test]
fn reading_never_writes() {
    let place = Place::new();
    let file = place.write("notes", notes());
    let before = state(&file);
    for flags in ["", "--read-only", "--read-only --engine psync", "--read-only --engine mmap"] {
        let words = format!("run random-read --on notes {flags} --depth 1 --ops 300 --ramp 0s");
        let document = place.document(&words);
        assert_eq!(cells(&document)[0]["read"]["ops"], 300);
        assert_eq!(state(&file), before, "{flags}");
    }
    // The descriptor itself can't write, not even by mistake.
    let mut running = place.start("run random-read --on notes --time 1m --ramp 0s --quiet");
    place.wait_for_cells(&mut running, 1);
    assert_eq!(access_modes(&running, &file), [libc::O_RDONLY]);
    running.signal(libc::SIGINT);
    running.finish().exits(130);
    assert_eq!(state(&file), before);
    // A workload that must write is refused at once, and so is a file that must be created.
    for workload in ["random-write", "four-corners", "db-oltp", "log-80-20"] {
        let output =
            place.iodyno(&format!("run {workload} --on notes --read-only --destroy notes {SHORT}"));
        output.fails(2, &["--read-only", workload, "writes"]);
    }
    for target in ["scratch:1MiB", "fresh?size=1MiB"] {
        let output = place.iodyno(&format!("run random-read --on {target} --read-only {SHORT}"));
        output.says(&[target, "--read-only", "help:"]);
        assert!(matches!(output.code, Some(2 | 4)) && output.stdout.is_empty(), "{output:?}");
    }
    assert_eq!(state(&file), before);
    assert_eq!(place.names(), ["notes"]);
}

/// The modes in which a running program has a file open.
fn access_modes(running: &Running, file: &Path) -> Vec<libc::c_int> {
    let process = format!("/proc/{}", running.id());
    let mut modes: Vec<_> = std::fs::read_dir(format!("{process}/fd"))
        .unwrap()
        .flatten()
        .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|to| to == file))
        .map(|entry| {
            let number = entry.file_name().into_string().unwrap();
            let info = std::fs::read_to_string(format!("{process}/fdinfo/{number}")).unwrap();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
            libc::c_int::from_str_radix(flags.trim(), 8).unwrap() & libc::O_ACCMODE
        })
        .collect();
    modes.dedup();
    modes
}

#[test]
fn a_file_that_iodyno_made_is_reused() {
    let place = Place::new();
    let target = "mine?size=8MiB";
    let first = place.document(&format!("run random-read --on {target} {SHORT}"));
    assert_eq!(first["run"]["plan"]["lay_out_bytes"], 8 << 20);
    let file = place.path("mine");
    let laid_out = std::fs::read(&file).unwrap();
    assert_eq!(laid_out.len(), 8 << 20);
    // Every byte was written, with content that can't be compressed or deduplicated.
    let mut blocks: Vec<&[u8]> = laid_out.chunks(4096).collect();
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), 2048, "no two blocks are the same");
    let inode = std::fs::metadata(&file).unwrap().ino();
    // It is neither created nor laid out again, may be written without confirmation, and is never removed.
    let again = place.document(&format!("run random-write --on {target} --ops 100 --ramp 0s"));
    assert_eq!(again["run"]["plan"]["lay_out_bytes"], 0);
    let written = std::fs::read(&file).unwrap();
    assert!(written != laid_out);
    assert_eq!(std::fs::metadata(&file).unwrap().ino(), inode);
    // Without a size all of it is used; a smaller size uses a part and cuts nothing off.
    for (target, bytes) in [("mine", 8 << 20), ("mine?size=2MiB", 2 << 20)] {
        let document =
            place.document(&format!("run random-write --on {target} --ops 10 --ramp 0s"));
        assert_eq!(cells(&document)[0]["evidence"]["active_bytes"], bytes);
    }
    // A larger size grows it; the former content stays.
    let before = std::fs::read(&file).unwrap();
    let grown = place.document("run random-read --on mine?size=12MiB --ops 10 --ramp 0s");
    assert_eq!(grown["run"]["plan"]["lay_out_bytes"], 4 << 20);
    let after = std::fs::read(&file).unwrap();
    assert!(after.len() == 12 << 20 && after[..8 << 20] == before);
    // After another program has replaced it, it belongs to that program alone.
    place.write("mine", notes());
    place.iodyno(&format!("run random-write --on mine {SHORT}")).fails(3, &["length has changed"]);
    assert!(std::fs::read(&file).unwrap() == notes());
    assert_eq!(place.names(), ["mine"]);
}

#[test]
fn scratch_space_leaves_nothing() {
    let place = Place::new();
    std::fs::create_dir(place.path("there")).unwrap();
    // In the current folder unless another one is named; after success and after failure.
    place.iodyno(&format!("run random-write --on scratch:4MiB -q {SHORT}")).succeeds();
    place.iodyno(&format!("run seq-read --on scratch:4MiB@there -q {SHORT}")).succeeds();
    place.iodyno("run random-read --on scratch:4MiB --active 1GiB..2GiB").exits(2);
    place.iodyno("run random-read --on scratch:4MiB@nowhere").fails(2, &["nowhere"]);
    for (signal, code) in
        [(libc::SIGINT, Some(130)), (libc::SIGTERM, Some(130)), (libc::SIGKILL, None)]
    {
        let target = "--on scratch:4MiB --on scratch:4MiB@there";
        let mut running = place.start(&format!("run random-write {target} --time 1m --ramp 0s -q"));
        place.wait_for_cells(&mut running, 1);
        // Even while it runs, its file has no name.
        assert_eq!(place.names(), ["there"]);
        running.signal(signal);
        assert_eq!(running.finish().code, code);
        assert_eq!(place.names(), ["there"]);
        assert_eq!(crate::place::names(&place.path("there")), [""; 0]);
    }
}

/// Two runs on one file would measure each other; scripts run them one after the other.
#[test]
fn one_run_at_a_time_on_a_file() {
    let place = Place::new();
    let write = format!("run random-write --on mine?size=1MiB -q {SHORT}");
    for _ in 0..15 {
        place.iodyno(&format!("{write} --depth 16")).succeeds();
    }
    let mut running = place.start("run random-write --on mine --time 1h --ramp 0s -q");
    place.wait_for_cells(&mut running, 1);
    place.iodyno(&write).fails(3, &["mine", "Another run"]);
    running.signal(libc::SIGKILL);
    running.finish();
    // A killed run holds no lock any more.
    place.iodyno(&write).succeeds();
}

/// `check` reports the same as a run, and only reads.
#[test]
fn check_reports_and_only_reads() {
    let place = Place::new();
    let file = place.write("notes", notes());
    let before = state(&file);
    let output = place.iodyno("check notes");
    for word in ["notes", "1 MiB", "refused", "did not make"] {
        assert!(output.exits(3).stdout.contains(word), "{word}: {output:?}");
    }
    let output = place.iodyno("check notes --json");
    let document = output.exits(3).json();
    assert_eq!(document["writable"], false);
    assert_eq!(document["refusals"][0]["code"], "foreign_file");
    let output = place.iodyno("check notes --destroy notes --json");
    let document = output.succeeds().json();
    assert_eq!(
        (&document["writable"], &document["destroy_confirmed"]),
        (&json!(true), &json!(true))
    );
    place.iodyno("check notes --destroy other").exits(3);
    assert_eq!(state(&file), before);
    for target in ["null:", "ram:1MiB", "scratch:", "fresh?size=1MiB", "/dev/zero?size=1GiB"] {
        let output = place.iodyno(&format!("check {target}"));
        assert!(output.succeeds().stdout.contains("allowed"), "{output:?}");
        let document = place.iodyno(&format!("check {target} --json")).succeeds().json();
        assert_eq!((&document["target"], &document["writable"]), (&json!(target), &json!(true)));
    }
    place.iodyno("check nowhere").fails(2, &["not found", "nowhere?size=8GiB"]);
    place.iodyno("check .").exits(3);
    place.iodyno("check /dev/tty").exits(3);
    assert_eq!(place.names(), ["notes"]);
    assert!(!place.notebook().exists());
}

/// `purge` first prints its plan, accepts iodyno's own files without confirmation, and nothing else.
#[test]
fn purge_prints_its_plan_and_requires_a_name() {
    let place = Place::new();
    let file = place.write("notes", notes());
    let before = state(&file);
    for wrong in ["", "--destroy other", "--destroy note"] {
        let output = place.iodyno(&format!("purge notes {wrong}"));
        output.exits(3).says(&["to purge notes", "discard", "did not make", "--destroy notes"]);
    }
    for method in ["nvme-sanitize-block", "nvme-format", "ata-erase"] {
        let output = place.iodyno(&format!("purge notes --method {method} --destroy notes"));
        assert!(output.exits(4).stdout.contains("not possible"), "{output:?}");
    }
    place.iodyno("purge notes --method zeroes").exits(2);
    assert_eq!(state(&file), before);
    let output = place.iodyno("purge notes --destroy notes --json");
    let document = output.succeeds().json();
    assert_eq!(document["purged"], true);
    let record = &document["record"];
    assert_eq!((&record["method"], &record["verified"]), (&json!("discard"), &json!("yes")));
    assert!(std::fs::read(&file).unwrap().iter().all(|&byte| byte == 0));
    // A file that iodyno made needs no name, and is laid out again by the next run that writes.
    place.document(&format!("run random-write --on mine?size=2MiB {SHORT}"));
    let output = place.iodyno("purge mine");
    assert!(output.succeeds().stdout.contains("verified   yes"), "{output:?}");
    let again = place.document(&format!("run random-write --on mine {SHORT}"));
    assert_eq!(again["run"]["plan"]["lay_out_bytes"], 2 << 20);
    // Memory is new in any case; a target without content can't be purged.
    place.iodyno("purge ram:1MiB").succeeds();
    place.iodyno("purge null:").exits(4);
    place.iodyno("purge .").exits(3);
}
