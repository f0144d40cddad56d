//! `crashtest` with ext4 of a real kernel: the recorded folder holds the image of the guest's disk, so a state is a disk
//! after a power cut, and each check mounts it in a guest of its own.

use crate::machine::FOLDER;
use serde_json::Value;
use std::process::Command;

/// The script that executes a line of shell in a guest with a disk image.
const IN_GUEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guest/in-guest");

/// Explores a program, given as a line of shell in `/tmp/m` of the guest, the root of its disk. The disk is unmounted at
/// the end, so that the complete result is on it.
fn explore(program: &str, check: &str, flags: &[&str]) -> (Option<i32>, Value) {
    let folder = FOLDER.display();
    let mounted = "mkdir -p /tmp/m && mount -t ext4 /dev/vdb /tmp/m && cd /tmp/m";
    let path = std::env::var("PATH").unwrap() + ":/usr/sbin:/sbin";
    let checker = format!(
        "{IN_GUEST} {folder} disk \"{mounted} || {{ echo REFUSES_TO_OPEN; exit 1; }}; \
         last=$(grep -x '[0-9][0-9]*' $IODYNO_ACKNOWLEDGED | tail -n 1); {check}\""
    );
    let output = Command::new(env!("CARGO_BIN_EXE_iodyno"))
        .env("PATH", path)
        .args(["crashtest", "--json", "--rules", "worst", "--check-time", "60s"])
        .args(["--setup", "mke2fs -q -t ext4 -E lazy_itable_init=0 disk 4M", "--check", &checker])
        .args(flags)
        .args([
            "--",
            IN_GUEST,
            &folder.to_string(),
            "disk",
            &format!("{mounted} && {program}; cd / && umount /tmp/m"),
        ])
        .output()
        .unwrap();
    let document = serde_json::from_slice(&output.stdout);
    let document = document.unwrap_or_else(|e| panic!("{e}: {output:?}"));
    (output.status.code(), document)
}

/// The database must be whole, and have each row whose number was printed.
const SQLITE_CHECK: &str = "found=\\$(sqlite3 a.db 'PRAGMA integrity_check' 2>&1); \
    test \\\"\\$found\\\" = ok || { echo \\\"\\$found\\\"; exit 1; }; \
    rows=\\$(sqlite3 a.db 'SELECT max(x) FROM t' 2>/dev/null); test \\${rows:-0} -ge \\${last:-0}";

/// Transactions, each of which prints its number.
fn transactions(pragmas: &str) -> String {
    format!(
        "{{ echo 'PRAGMA {pragmas}; CREATE TABLE t(x, y);'; \
         for i in 1 2 3; do echo \"INSERT INTO t VALUES ($i, zeroblob(6000));\"; echo \".print $i\"; done; }} | \
         sqlite3 a.db"
    )
}

#[test]
#[ignore = "needs QEMU and Debian's kernel"]
fn a_database_that_does_not_sync_loses_what_it_printed() {
    let program = transactions("synchronous=OFF");
    let (code, document) = explore(&program, SQLITE_CHECK, &["--class", "prefix", "--time", "20s"]);
    assert_eq!(code, Some(4), "{document:#}");
    assert!(document["verdicts"]["LOST_ACKNOWLEDGED"].as_u64() > Some(0), "{document:#}");
}

#[test]
#[ignore = "needs QEMU and Debian's kernel"]
fn a_database_that_syncs_survives_on_ext4() {
    let program = transactions("journal_mode=WAL; PRAGMA synchronous=FULL");
    let flags = ["--class", "prefix,one-missing", "--time", "40s"];
    let (code, document) = explore(&program, SQLITE_CHECK, &flags);
    assert_eq!(code, Some(0), "{document:#}");
    assert!(document["checker_runs"].as_u64() > Some(5), "{document:#}");
    println!("{} checks in {} s", document["checker_runs"], document["seconds"]);
}
