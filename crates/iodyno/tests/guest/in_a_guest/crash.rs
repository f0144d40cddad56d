//! `crashtest --guest`: findings on ext4 of a real kernel.

use crate::machine::FOLDER;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// The folder of the guest that `crashtest` makes. The kernel's package is not downloaded again.
fn guest() -> PathBuf {
    let guest = FOLDER.with_file_name("crashtest-guest");
    std::fs::create_dir_all(&guest).unwrap();
    std::fs::write(guest.join("is-guest"), "").unwrap();
    let _ = std::fs::hard_link(FOLDER.join("kernel.deb"), guest.join("kernel.deb"));
    guest
}

/// Explores a program, given as shell, on the guest's file system; `flags` select the states.
fn explore(program: &str, flags: &str) -> (Option<i32>, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_iodyno"))
        .args(["crashtest", "--json", "--quiet", "--check-time", "60s", "--check", CHECK])
        .args(["--setup", "sqlite3 a.db 'CREATE TABLE t(x, y)'", "--guest"])
        .arg(guest())
        .args(flags.split_whitespace())
        .args(["--", "sh", "-c", program])
        .output()
        .unwrap();
    let document = serde_json::from_slice(&output.stdout);
    let document: Value = document.unwrap_or_else(|e| panic!("{e}: {output:?}"));
    let schema = include_str!("../../../../../docs/schema/crashtest-v1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let errors: Vec<String> = schema.iter_errors(&document).map(|e| e.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new(), "{document:#}");
    (output.status.code(), document)
}

/// The database must be whole, and have each row whose number was printed.
const CHECK: &str = "sqlite:a.db:SELECT x FROM t";

/// Transactions, each of which prints its number.
fn transactions(pragmas: &str) -> String {
    format!(
        "{{ echo 'PRAGMA {pragmas};'; \
         for i in 1 2 3; do echo \"INSERT INTO t VALUES ($i, zeroblob(6000));\"; echo \".print $i\"; done; }} | \
         sqlite3 a.db | grep --line-buffered -x '[0-9]'"
    )
}

#[test]
#[ignore = "needs QEMU and Debian's kernel"]
fn a_finding_of_the_folder_is_confirmed_in_the_guest() {
    let program = transactions("synchronous=OFF");
    let (code, document) = explore(&program, "--class prefix --time 120s");
    assert_eq!(code, Some(4), "{document:#}");
    let findings = document["findings"].as_array().unwrap();
    let lost: Vec<&Value> =
        findings.iter().filter(|f| f["verdict"] == "LOST_ACKNOWLEDGED").collect();
    assert!(!lost.is_empty(), "{document:#}");
    let there: Vec<&Value> = document["in_guest"]["findings"].as_array().unwrap().iter().collect();
    assert!(there.iter().any(|f| f["verdict"] == "LOST_ACKNOWLEDGED"), "{document:#}");
    for finding in findings {
        let is_there = there.iter().any(|f| f["verdict"] == finding["verdict"]);
        assert_eq!(finding["confirmed"], is_there, "{document:#}");
    }
    assert!(document["in_guest"]["guest"].as_str().unwrap().starts_with("ext4"), "{document:#}");
}

/// The program finds an empty folder and the host's files, and leaves a process running. Its changes to the host's
/// files stay in the guest, its errors appear on the standard error of `iodyno`, and a checker that hangs is ended
/// after its own timeout.
#[test]
#[ignore = "needs QEMU and Debian's kernel"]
fn the_host_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (kept, errors) = (folder.path().join("kept"), folder.path().join("errors"));
    std::fs::write(&kept, "of the host").unwrap();
    std::fs::write(&errors, "earlier\n").unwrap();
    let log = std::fs::OpenOptions::new().append(true).open(&errors).unwrap();
    let program = "test -z \"$(ls -A)\" && grep -q host $0 && rm $0 && echo said >&2 && \
                   (sleep 600 >/dev/null 2>&1 &) && echo a > f && sync f && echo b > f";
    let output = Command::new(env!("CARGO_BIN_EXE_iodyno"))
        .args(["crashtest", "--json", "--quiet", "--on", "guest", "--guest"])
        .arg(guest())
        .args(["--check-time", "2s", "--class", "prefix", "--time", "20s", "--jobs", "1"])
        .args(["--check", "grep -q b f || sleep 600", "--", "sh", "-c", program])
        .arg(&kept)
        .stderr(log)
        .output()
        .unwrap();
    let said = std::fs::read_to_string(&errors).unwrap();
    assert!(said.starts_with("earlier\nsaid\n"), "{said}");
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "of the host");
    assert_eq!(output.status.code(), Some(4), "{said}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["verdicts"]["HANGS"].as_u64() > Some(0), "{document:#}");
    assert_eq!(document["verdicts"]["CHECKER_FAILED"], Value::Null, "{document:#}");
}

#[test]
#[ignore = "needs QEMU and Debian's kernel"]
fn a_database_that_syncs_survives_on_ext4() {
    let program = transactions("journal_mode=WAL; PRAGMA synchronous=FULL");
    let flags = "--on guest --class prefix,one-missing --time 20s";
    let (code, document) = explore(&program, flags);
    assert_eq!(code, Some(0), "{document:#}");
    assert!(document["checker_runs"].as_u64() > Some(5), "{document:#}");
    println!("{} checks in {} s", document["checker_runs"], document["seconds"]);
}
