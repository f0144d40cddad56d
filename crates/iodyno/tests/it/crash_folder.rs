//! `crashtest` from the command line: planted bugs, clean programs, and states by name. It needs FUSE.

use crate::place::{Place, RunOutput, Running, names};
use serde_json::Value;
use std::fmt::Write as _;
use std::process::Stdio;

/// Runs `crashtest` with `flags`, a check, and a program as a shell script.
fn crashtest(place: &Place, flags: &str, check: &str, script: &str) -> RunOutput {
    let mut command = place.command(&format!("crashtest {flags}"));
    std::fs::create_dir_all(place.path("tmp")).unwrap();
    command.env("TMPDIR", place.path("tmp")).args(["--check", check]);
    if !script.is_empty() {
        command.args(["--", "sh", "-c", script]);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = Running::of(&mut command).finish();
    assert_eq!(names(&place.path("tmp")), [""; 0], "nothing is left: {output:?}");
    output
}

fn conforms(json: &Value) {
    let schema = include_str!("../../../../docs/schema/crashtest-v1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    assert!(schema.is_valid(json), "{json:#}");
}

/// Transactions of SQLite, each printed once it is committed.
fn transactions(count: u32, pragmas: &str) -> String {
    let mut script = format!("{{ echo 'PRAGMA {pragmas}; CREATE TABLE t(x, y);'; ");
    let _ = write!(script, "for i in $(seq {count}); do echo \"BEGIN;\"; ");
    script.push_str(
        "for j in 1 2 3 4; do echo \"INSERT INTO t VALUES ('$i', zeroblob(3000));\"; done; ",
    );
    script.push_str(
        "echo \"COMMIT;\"; echo \".print $i\"; done; } | stdbuf -oL sqlite3 a.db | grep -v --line-buffered -e wal",
    );
    script
}

const CHECK: &str = "sqlite:a.db:SELECT x FROM t";

#[test]
fn what_sqlite_does_not_sync_is_found_and_replayed() {
    let place = Place::new();
    let script = transactions(10, "synchronous=OFF");
    let output = crashtest(&place, "--quiet --time 10s --record run.jsonl", CHECK, &script);
    output.exits(4);
    for words in [
        "WRONG_CONTENT",
        "LOST_ACKNOWLEDGED",
        "under the rules ext4",
        "would be kept by an fsync of `a.db`",
    ] {
        assert!(output.stdout.contains(words), "{words}: {output:?}");
    }
    let json = crashtest(&place, "--time 10s --json --from run.jsonl", CHECK, "");
    json.exits(4);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    conforms(&json);
    let finding = json["findings"].as_array().unwrap().iter();
    let wrong = finding.clone().find(|finding| finding["verdict"] == "WRONG_CONTENT").unwrap();
    assert_eq!(wrong["description"]["lost"].as_array().unwrap().len(), 1, "{wrong}");
    // The state by its name has the verdict again, by the built-in checker and by one's own.
    let state = wrong["state"].as_str().unwrap();
    let again = format!("--from run.jsonl --state {state}");
    let output = crashtest(&place, &again, CHECK, "");
    output.exits(4);
    assert!(output.stdout.starts_with(&format!("WRONG_CONTENT  state {state}")), "{output:?}");
    let own = "test \"$(sqlite3 a.db 'PRAGMA integrity_check' 2>&1)\" = ok";
    crashtest(&place, &again, own, "").exits(4);
    crashtest(&place, "--from run.jsonl --state 0:", CHECK, "").succeeds();
    // The creation of a file lost, and what follows it in the journal kept.
    crashtest(&place, "--from run.jsonl --state 0:0", CHECK, "").fails(2, &["no state 0:0"]);
    crashtest(&place, "--from run.jsonl --state 99:1", CHECK, "")
        .fails(2, &["no state 99:1", "--rules"]);
}

#[test]
fn a_database_that_syncs_is_clean_and_a_weaker_promise_is_named() {
    let place = Place::new();
    let script = transactions(5, "journal_mode=WAL; PRAGMA synchronous=FULL");
    let output = crashtest(&place, "--quiet --class prefix,one-alone", CHECK, &script);
    output.succeeds();
    assert!(output.stdout.contains("after a power cut, none wrong"), "{output:?}");
    let script = transactions(5, "journal_mode=WAL; PRAGMA synchronous=NORMAL");
    let output = crashtest(&place, "--json --class prefix", CHECK, &script);
    output.exits(4);
    let json: Value = serde_json::from_str(&output.stdout).unwrap();
    let verdicts: Vec<&String> = json["verdicts"].as_object().unwrap().keys().collect();
    assert_eq!(verdicts, ["CONSISTENT", "LOST_ACKNOWLEDGED"], "{json:#}");
    assert_eq!(json["complete"], true);
    let buffered = script.replace("stdbuf -oL", "").replace("--line-buffered", "");
    let output = crashtest(&place, "--quiet --class one-alone", CHECK, &buffered);
    assert!(output.stdout.contains("its output is buffered"), "{output:?}");
}

/// A checker that ignores the program's output can't find a broken promise. The output says so.
#[test]
fn a_checker_that_ignores_promises_is_told() {
    let place = Place::new();
    let script = "echo new > b && mv b a && echo saved";
    let database = "sqlite3 a.db 'CREATE TABLE t(x REAL); INSERT INTO t VALUES (1)' && echo 1.0";
    for (check, script, is_read, code) in [
        ("true", script, false, 0),
        ("! test -s $IODYNO_ACKNOWLEDGED || test -s a", script, true, 4),
        // Only a query compares the database with what was printed.
        ("sqlite:a.db", database, false, 0),
        ("sqlite:a.db:SELECT x FROM t", database, true, 4),
    ] {
        let output = crashtest(&place, "--quiet --time 5s --record run.jsonl", check, script);
        output.exits(code);
        assert_eq!(output.stdout.contains("never read the file"), !is_read, "{output:?}");
        let headline = "none wrong, output before the cut not checked";
        assert_eq!(output.stdout.contains(headline), !is_read, "{output:?}");
        let json = crashtest(&place, "--time 5s --json --from run.jsonl", check, "");
        let json: Value = serde_json::from_str(&json.stdout).unwrap();
        conforms(&json);
        assert_eq!(json["promises_read"], is_read, "{json:#}");
    }
}

#[test]
fn a_second_cut_finds_what_a_recovery_forgets() {
    let place = Place::new();
    // A recovery that deletes its log before the repaired data are durable.
    let program = "sync; printf x | dd of=file conv=notrunc status=none; echo done";
    let check =
        "if [ -e log ]; then rm log; sync .; printf good > file; fi; test \"$(cat file)\" = good";
    let setup = "echo log > log; printf bad. > file";
    let run = |again: &str| {
        let flags = format!("--quiet --rules worst --class prefix,one-missing {again}");
        let mut command = place.command(&format!("crashtest {flags}"));
        command.args(["--setup", setup, "--check", check, "--", "sh", "-c", program]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::of(&mut command).finish()
    };
    run("").succeeds();
    let output = run("--again");
    output.exits(4);
    assert!(
        output.stdout.contains("again") && output.stdout.contains("WRONG_CONTENT"),
        "{output:?}"
    );
}

#[test]
fn a_checker_that_fails_or_hangs_has_its_own_verdict() {
    let place = Place::new();
    let script = "echo a > file; sync file; echo b > file";
    for (flags, check, verdict) in [
        ("", "no-such-checker", "CHECKER_FAILED"),
        ("", "kill -SEGV $$", "CHECKER_FAILED"),
        ("--check-time 100ms", "sleep 5", "HANGS"),
        ("", "timeout 0.1 sleep 5", "HANGS"),
        ("", "echo REFUSES_TO_OPEN; exit 1", "REFUSES_TO_OPEN"),
    ] {
        // A checker that rejects the complete result is wrong itself.
        let flags = format!("--quiet --class prefix {flags}");
        crashtest(&place, &flags, check, script).fails(2, &[verdict, "nothing is lost"]);
        let check = format!("grep -q b file || {{ {check}; }}");
        let output = crashtest(&place, &flags, &check, script);
        output.exits(4);
        assert!(output.stdout.contains(verdict), "{check}: {output:?}");
    }
    let nothing = "the program changed nothing";
    crashtest(&place, "--quiet", "true", "true").fails(2, &[nothing]);
    crashtest(&place, "--quiet --class torn", "true", "touch file")
        .fails(2, &["--class torn: this run has no such state", "nothing was checked"]);
    crashtest(&place, "--quiet --fail-sync 9", "true", script)
        .fails(2, &["called fsync only 1 time"]);
    crashtest(&place, "--quiet", "sqlite:other", script).fails(2, &["made no file `other`"]);
    crashtest(&place, "--quiet", "true", "exit 3")
        .fails(2, &["the program failed", "nothing was checked"]);
    crashtest(&place, "--quiet --class some", "true", script)
        .fails(2, &["no class of states `some`", "one-missing"]);
    let words = "crashtest --check true -- ./nowhere";
    place.iodyno(words).fails(2, &["./nowhere can't be started"]);
}

/// A checker or set-up command that can't run is reported before the program runs; if the program could have created
/// it, afterwards.
#[test]
fn a_checker_that_does_not_exist_is_named() {
    let place = Place::new();
    place.write("check.sh", "#!/bin/sh\ntrue\n");
    place.write("mark", "");
    let script = format!("rm -f {}; echo a > file; sync file", place.path("mark").display());
    let absolute = place.path("nowhere").display().to_string();
    for (flags, check, says) in [
        ("", "./check.sh file", "--check: `./check.sh` is not executable: `chmod +x ./check.sh`"),
        ("", "./", "--check: `./` is a folder"),
        ("", &*absolute, "there is no file"),
        ("--setup ./prepare.sh", "true", "--setup: there is no file `./prepare.sh`"),
    ] {
        let flags = format!("--quiet {flags}");
        crashtest(&place, &flags, check, &script).fails(2, &[says]);
        assert!(place.path("mark").exists(), "{check}: the program ran");
    }
    let output = crashtest(&place, "--quiet --record run.jsonl", "./nowhere.sh", &script);
    output.fails(
        2,
        &["--check: there is no file `./nowhere.sh`, neither here nor in the program's folder"],
    );
    assert!(!place.path("mark").exists());
    let state = "--quiet --from run.jsonl --state 0:";
    crashtest(&place, state, "./nowhere.sh", "").fails(2, &["--check: there is no file"]);
    // One that the program makes.
    let makes = "printf '#!/bin/sh\n' > own.sh; chmod +x own.sh; sync; echo a > file";
    let output = crashtest(&place, "--quiet --time 5s --class prefix", "./own.sh", makes);
    assert!(!output.stderr.contains("no file `"), "{output:?}");
}

#[test]
fn processes_left_running_are_named() {
    let place = Place::new();
    let script = "echo x > a; (sleep 60; echo late > late) & sleep 60 & true";
    let output = crashtest(&place, "", "true", script);
    output.succeeds();
    let said = output.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("3 processes of the program still ran when it ended"), "{output:?}");
    let json = crashtest(&place, "--json", "true", "echo x > a").succeeds().json();
    conforms(&json);
    assert_eq!(json["recorded"]["left_running"], 0);
}

#[test]
fn a_guest_is_made_only_in_a_folder_of_its_own() {
    let place = Place::new();
    std::fs::create_dir(place.path("mine")).unwrap();
    std::fs::write(place.path("mine/version"), "text of mine").unwrap();
    crashtest(&place, "--quiet --guest mine", "true", "true").fails(2, &["has other files"]);
    assert_eq!(names(&place.path("mine")), ["version"]);
    assert_eq!(std::fs::read_to_string(place.path("mine/version")).unwrap(), "text of mine");
    crashtest(&place, "--quiet --guest mine/version", "true", "true").fails(2, &["not a folder"]);
    crashtest(&place, "--quiet --on guest", "true", "true").fails(2, &["--guest"]);
}

#[test]
fn a_program_that_repeats_a_failed_sync_loses_data() {
    let place = Place::new();
    let check = "! test -s $IODYNO_ACKNOWLEDGED || grep -q new file";
    let retries = "echo new > file; sync file || sync file || exit 1; sync .; echo stored";
    let ends = "echo new > file; sync file || exit 1; sync .; echo stored";
    let writes_again = "w() { echo new > file; sync file; }; w || w || exit 1; sync .; echo stored";
    for (script, code) in [(retries, 4), (ends, 0), (writes_again, 0)] {
        let output = crashtest(&place, "--quiet --fail-sync 1", check, script);
        output.exits(code);
    }
}

/// A disk image that nbdkit exports is a raw device: a flush by its client keeps the order of two writes.
#[test]
fn a_client_of_nbd_is_tested_on_a_raw_device() {
    let place = Place::new();
    let check = "a=$(head -c 4096 disk | tail -c 1 | tr -d '\\0'); b=$(tail -c +8193 disk | head -c 1 | tr -d '\\0'); \
                 test \"$b\" != B || test \"$a\" = A";
    for (flush, code) in [("", 4), ("-c flush", 0)] {
        let script = format!(
            "nbdkit -U - file disk --run 'qemu-io -t writeback -f raw -c \"write -P 65 0 4k\" {flush} \
             -c \"write -P 66 8k 4k\" \"$uri\" >&2'"
        );
        let mut command = place.command("crashtest --quiet --rules worst");
        command.args([
            "--setup",
            "truncate -s 4M disk",
            "--check",
            check,
            "--",
            "sh",
            "-c",
            &script,
        ]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = Running::of(&mut command).finish();
        output.exits(code);
        assert!(output.stdout.contains("all "), "{output:?}");
    }
}

/// Requires that the second of two writes does not survive without the first.
const IN_ORDER: &str = "a=$(head -c 1 disk | tr -d '\\0'); b=$(tail -c +8193 disk | head -c 1 | tr -d '\\0'); \
                        test \"$b\" != B || test \"$a\" = A";

/// Explores the log of two writes, the second of which must not survive without the first.
fn explore_log(place: &Place, code: i32) {
    let output = crashtest(place, "--json --rules worst --from log", IN_ORDER, "");
    output.exits(code);
    let json: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&json["recorded"]["changes"], &json["complete"]), (&2.into(), &true.into()));
}

/// Explores what emulated devices keep of the log. A protected buffer keeps acknowledged writes in their order, flushed
/// or not. An array and volatile memory are refused.
fn on_devices(place: &Place, is_flushed: bool) {
    for (device, check, code) in [
        ("exflash-400g", IN_ORDER, 0),
        // Of a protected buffer there is a state with the first write alone; a volatile one had not written it.
        ("exflash-400g", "! grep -qa A disk || grep -qa B disk", 4),
        ("nvme-qlc-2048g", "! grep -qa A disk || grep -qa B disk", if is_flushed { 4 } else { 0 }),
    ] {
        let flags = format!("--json --from log --device {device}");
        let output = crashtest(place, &flags, check, "");
        output.exits(code);
        let json: Value = serde_json::from_str(&output.stdout).unwrap();
        conforms(&json);
        assert_eq!(json["device"], format!("model:{device}"));
        assert_eq!(json["classes"][0]["class"], "model");
        assert_eq!(json["complete"], true);
    }
    for (flags, why) in [
        ("--device ramdisk-ddr3-16g", "volatile memory"),
        ("--device exflash-400g*2", "several volumes"),
        (
            "--class model --rules worst",
            "needs --from with the log of a block device, and --device",
        ),
    ] {
        crashtest(place, &format!("--from log {flags}"), "true", "").fails(2, &[why]);
    }
}

/// A flush, or FUA of the first write, keeps the order of two writes to a served volume.
#[test]
fn a_served_volume_is_explored() {
    let place = Place::new();
    for (fua, flush, code) in [("", "", 4), ("", "-c flush", 0), ("-f", "", 0)] {
        let mut serve = place.command("serve exflash-400g --size 64MiB --record-data log -- sh -c");
        serve.arg(format!(
            "qemu-io -t writeback -f raw -c 'write {fua} -P 65 0 4k' {flush} -c 'write -P 66 8k 1k' \"$IODYNO_NBD\" >&2"
        ));
        serve.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::of(&mut serve).finish().succeeds();
        explore_log(&place, code);
        on_devices(&place, !(fua.is_empty() && flush.is_empty()));
        std::fs::remove_file(place.path("log")).unwrap();
    }
    // Clients learn that the log is in sectors.
    let write =
        "qemu-io -f raw -c 'write -P 65 100 300' \"$IODYNO_NBD\" >&2; nbdinfo \"$IODYNO_NBD\"";
    let mut serve = place.command("serve exflash-400g --size 64MiB --record-data log -- sh -c");
    let served = serve.arg(write).output().unwrap();
    let said = String::from_utf8(served.stdout).unwrap();
    assert!(served.status.success() && said.contains("block_size_minimum: 512"), "{said}");
    crashtest(&place, "--quiet --from log --rules worst", "true", "").exits(0);
    std::fs::remove_file(place.path("log")).unwrap();
    place.iodyno("serve exflash-400g --size 64MiB --record-data log -- true").succeeds();
    let output = crashtest(&place, "--quiet --from log --rules worst", "true", "");
    output.fails(2, &["changed nothing"]);
    std::fs::remove_file(place.path("log")).unwrap();
    place
        .iodyno("serve exflash-400g*2 --size 64MiB --record rec --record-data log -- true")
        .fails(2, &["one volume"]);
    assert_eq!(place.names(), ["tmp"], "no record of a server that did not start");
}

/// QEMU writes a log of a device in the format of dm-log-writes. A flush keeps the order of two
/// writes.
#[test]
fn a_log_of_a_block_device_is_explored() {
    let place = Place::new();
    let log = "driver=blklogwrites,log-sector-size=512,file.driver=file,file.filename=disk,log.driver=file,log.filename=log";
    for (flushes, code) in [(false, 4), (true, 0)] {
        place.write("disk", vec![0; 16384]);
        place.write("log", "");
        let mut writer = std::process::Command::new("qemu-io");
        writer.args(["-t", "writeback", "--image-opts", log, "-c", "write -P 65 0 4k"]);
        if flushes {
            writer.args(["-c", "flush"]);
        }
        writer.args(["-c", "write -P 66 8k 1k"]).current_dir(place.work());
        let written = writer.output().unwrap();
        assert!(written.status.success(), "{written:?}");
        explore_log(&place, code);
    }
    crashtest(&place, "--from log", "true", "").fails(2, &["block device", "--rules worst"]);
}

/// Each published message is printed once it is persisted. In every state, replay must return the messages in order and
/// without a gap.
#[test]
fn the_message_log_keeps_what_it_acknowledged() {
    let place = Place::new();
    let iodyno = env!("CARGO_BIN_EXE_iodyno");
    let setup = format!("{iodyno} log create log --size 5MiB --segment 1MiB >&2");
    let check = format!(
        "found=$({iodyno} log replay --on log --bodies) || exit 1; count=$(echo \"$found\" | grep -c .); \
         last=$(tail -n 1 $IODYNO_ACKNOWLEDGED); test $count -ge ${{last:-0}} || exit 1; \
         test \"$found\" = \"$(seq $count)\""
    );
    for (durability, code) in [("batch", 0), ("each", 0), ("none", 4)] {
        let script = format!(
            "socket=$(mktemp -u); {iodyno} log serve log --unix $socket --durability {durability} >&2 & server=$!; \
             while ! test -S $socket; do kill -0 $server || exit 1; sleep 0.05; done; \
             for i in 1 2 3 4; do {iodyno} log publish --at unix:$socket $i >&2 || exit 1; echo $i; done; \
             kill $server; wait $server; rm -f $socket"
        );
        for rules in ["ext4", "worst"] {
            let mut command =
                place.command(&format!("crashtest --json --rules {rules} --time 60s"));
            command.args(["--setup", &setup, "--check", &check, "--", "sh", "-c", &script]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let output = Running::of(&mut command).finish();
            output.exits(code);
            let json: Value = serde_json::from_str(&output.stdout).unwrap();
            assert_eq!(json["complete"], true, "{durability}, {rules}: {json:#}");
            assert!(json["verdicts"]["CONSISTENT"].as_u64() > Some(10), "{json:#}");
        }
    }
}

#[test]
fn relative_programs_are_found() {
    let place = Place::new();
    for (name, script) in
        [("program", "echo a > file; sync file"), ("check", "! test -e file || cat file")]
    {
        let path = place.path(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
    }
    place.iodyno("crashtest --quiet --check ./check -- ./program").succeeds();
}
