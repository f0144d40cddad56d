//! Power cuts while a database commits. Every transaction that the guest has reported as committed
//! must be there after the restart, with an intact database and a clean file system.
//!
//! Two devices, one with a protected buffer and one with a volatile cache; two file systems, one that
//! flushes the device's cache when a program requires durability, and one that is mounted without
//! flushes (`nobarrier`). Only the unflushed volatile cache may lose data, and it must: otherwise the
//! cuts would prove nothing about the other three.
//!
//! SQLite alternates between its two modes: with a rollback journal and `synchronous=EXTRA` (FULL does
//! not flush the folder from which the journal was removed), and with a write-ahead log and FULL.

use crate::machine::Guest;
use crate::served::Served;
use std::time::Duration;

/// Devices with the flags that slow them down. Otherwise the buffer would always be empty by the time the test receives
/// the guest's report of a commit.
const PROTECTED: (&str, &str) = ("exflash-400g", "--dilate 20");
const VOLATILE: (&str, &str) = ("ssd-msata-mlc-128g", "--dilate 8");

/// Observations over all cuts.
#[derive(Debug, Default)]
struct Seen {
    cuts: u32,
    /// Cuts during recovery of the file system from the previous cut.
    cuts_in_recovery: u32,
    /// Transactions that were reported as committed.
    committed: u64,
    /// Cuts after which a committed transaction was missing, or nothing could be read.
    damaging: u32,
    /// Transactions that were reported as committed and were missing.
    lost: u64,
    /// The first damage, as text.
    first: String,
}

/// A generator of the times of cuts (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|v| v.parse().unwrap_or_else(|_| panic!("{name}={v}: a number")))
}

/// SQL expression for the value of a row, which shows whether it belongs to the row. A row fills only a part of a page,
/// so that pages are written repeatedly.
const VALUE: &str = "printf('%0900d', id * 7919)";

/// Makes a small file system, which is checked quickly, and an empty table.
fn prepare(guest: &mut Guest) {
    guest.good("/bin/mke2fs -q -F -t ext4 -E lazy_itable_init=0,lazy_journal_init=0 /dev/vdb 256M");
    guest.good("mount -t ext4 /dev/vdb /tmp/fs");
    guest.good("sqlite3 /tmp/fs/db 'CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)'");
    guest.good("umount /tmp/fs");
}

/// Mounts the file system, which replays the journal, and checks everything. Returns the number of the last transaction
/// that survived, or a description of the damage.
fn look(guest: &mut Guest, mount: &str) -> Result<u64, String> {
    let mut done = |line: &str| match guest.run(line) {
        (text, 0) => Ok(text),
        (text, code) => Err(format!("`{line}`: exit code {code}: {text}")),
    };
    done(mount)?;
    // Here SQLite rolls back unfinished transactions.
    let whole = done("sqlite3 /tmp/fs/db 'PRAGMA integrity_check'")?;
    if whole.trim() != "ok" {
        return Err(format!("integrity_check: {whole}"));
    }
    let question = format!(
        "sqlite3 /tmp/fs/db \"SELECT count(*), ifnull(max(id), 0), count(*) FILTER (WHERE v <> {VALUE}) FROM t\""
    );
    let rows = done(&question)?;
    let rows: Vec<u64> = rows.trim().split('|').map(|n| n.parse().unwrap()).collect();
    let [count, last, wrong] = rows[..] else { panic!("{rows:?}") };
    if wrong > 0 || count != last {
        return Err(format!(
            "{count} transactions up to number {last}, {wrong} with a wrong value"
        ));
    }
    done("umount /tmp/fs")?;
    done("/bin/e2fsck -fn /dev/vdb")?;
    Ok(last)
}

/// Starts to commit transactions after number `last`, and does not wait. The guest prints a line for each committed
/// transaction.
fn begin_to_commit(guest: &mut Guest, wal: bool, last: u64) {
    let (journal, synchronous) = if wal { ("WAL", "FULL") } else { ("DELETE", "EXTRA") };
    let settings = format!(
        "PRAGMA journal_mode={journal}; PRAGMA synchronous={synchronous}; PRAGMA wal_autocheckpoint=40;"
    );
    let each = format!(
        "BEGIN; INSERT INTO t(id) VALUES (%d); UPDATE t SET v = {VALUE} WHERE id = %d; COMMIT; SELECT 'committed %d';"
    );
    // awk's own format has the value's percent sign twice.
    let each = each.replace("%0900d", "%%0900d").replace('\'', "\\047");
    let awk = format!("{{ printf \"{each}\\n\", $1, $1, $1 }}");
    let (from, to) = (last + 1, last + 10_000);
    guest.say(&format!(
        "seq {from} {to} | awk '{awk}' | sqlite3 -bail -cmd '{settings}' /tmp/fs/db"
    ));
}

/// Cuts the power `cuts` times; after damage, starts again with a new guest and device. Ends early once the expected
/// damage has been seen.
fn cut_again_and_again(
    (device, flags): (&str, &str),
    options: &str,
    cuts: u32,
    expects_damage: bool,
) -> Seen {
    // A given number of cuts is run in full, to count those with losses.
    let asked = setting("IODYNO_CUTS").map(|n| n as u32);
    let cuts = asked.unwrap_or(cuts);
    let seed = setting("IODYNO_SEED").unwrap_or(1);
    let mut dice = Dice(seed);
    let mount = format!("mount -t ext4 {options} /dev/vdb /tmp/fs");
    let served = Served::start(device, &format!("--seed {seed} {flags}"));
    let mut seen = Seen::default();
    let mut guest = Guest::start(&served);
    prepare(&mut guest);
    let mut committed = 0;
    loop {
        match look(&mut guest, &mount) {
            Ok(last) if last >= committed => committed = last,
            wrong => {
                let words = match wrong {
                    Ok(last) => {
                        seen.lost += committed - last;
                        format!("{committed} were committed, {last} are there")
                    }
                    Err(words) => words,
                };
                seen.damaging += 1;
                if seen.first.is_empty() {
                    seen.first = words;
                }
                committed = 0;
                guest = Guest::start(&served);
                prepare(&mut guest);
            }
        }
        if seen.cuts >= cuts || (expects_damage && asked.is_none() && seen.damaging > 0) {
            break;
        }
        guest.good(&mount);
        begin_to_commit(&mut guest, seen.cuts % 2 == 1, committed);
        let until = committed + 1 + dice.below(40);
        let mut say = |line: &str| {
            if let Some(number) = line.strip_prefix("committed ") {
                assert_eq!(
                    number.parse(),
                    Ok(committed + 1),
                    "transactions are committed in order"
                );
                committed += 1;
                seen.committed += 1;
            }
            assert!(!line.contains("rror"), "the database fails before the power does: {line}");
            committed
        };
        while say(&guest.read_line()) < until {}
        std::thread::sleep(Duration::from_micros(dice.below(30_000)));
        for line in guest.cut_power(&served) {
            say(&line);
        }
        seen.cuts += 1;
        guest = Guest::start(&served);
        // Now and then the power comes back only to fail again.
        while dice.below(4) == 0 {
            guest.say(&mount);
            std::thread::sleep(Duration::from_micros(dice.below(200_000)));
            guest.cut_power(&served);
            seen.cuts_in_recovery += 1;
            guest = Guest::start(&served);
        }
    }
    println!("{device} {flags} {options}: {seen:?}");
    let operations = &served.status()["volumes"][0]["operations"];
    println!("{device} {flags} {options}: {operations}");
    // Otherwise the file system has not passed on the flush of each commit.
    let flushes = operations["flush"]["operations"].as_u64().unwrap_or(0);
    assert!(!options.is_empty() || flushes >= seen.committed, "{flushes} flushes, {seen:?}");
    seen
}

#[test]
#[ignore = "needs QEMU and a guest kernel"]
fn a_protected_buffer_keeps_what_was_committed() {
    let seen = cut_again_and_again(PROTECTED, "", 8, false);
    assert_eq!(seen.damaging, 0, "{seen:?}");
}

#[test]
#[ignore = "needs QEMU and a guest kernel"]
fn a_protected_buffer_needs_no_flush() {
    let seen = cut_again_and_again(PROTECTED, "-o nobarrier", 4, false);
    assert_eq!(seen.damaging, 0, "{seen:?}");
}

#[test]
#[ignore = "needs QEMU and a guest kernel"]
fn a_volatile_cache_that_is_flushed_keeps_what_was_committed() {
    let seen = cut_again_and_again(VOLATILE, "", 8, false);
    assert_eq!(seen.damaging, 0, "{seen:?}");
}

#[test]
#[ignore = "needs QEMU and a guest kernel"]
fn a_volatile_cache_that_is_not_flushed_loses() {
    let seen = cut_again_and_again(VOLATILE, "-o nobarrier", 20, true);
    assert!(seen.damaging > 0, "{seen:?}");
}
