//! Untrusted notebooks, reports and records: whatever they contain, the program reads them or reports the
//! error. It never panics or hangs, uses no more than 512 MiB, and prints nothing that moves a cursor.
//!
//! `IODYNO_MUTATIONS=2000` makes 2000 mutations of each instead of a few, `IODYNO_MUTATIONS=1@537` only number
//! 537.

use crate::mutate;
use crate::place::Place;
use iodyno_units::rng::{self, Generator};
use iodyno_units::text::is_hidden;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Default number of mutations of each kind of file.
const SHORT: u64 = 60;
/// Maximum resident memory of the program, KiB.
const RESIDENT_KIB_MAX: i64 = 512 << 10;
/// Timeout of a command; one that runs longer hangs. The slowest takes some seconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Numbers of the mutations to test.
fn numbers() -> std::ops::Range<u64> {
    let asked = std::env::var("IODYNO_MUTATIONS").unwrap_or(SHORT.to_string());
    let (count, first) = asked.split_once('@').unwrap_or((&asked, "0"));
    let first: u64 = first.parse().expect("IODYNO_MUTATIONS=COUNT[@FIRST]");
    first..first + count.parse::<u64>().expect("IODYNO_MUTATIONS=COUNT[@FIRST]")
}

/// Results of all commands.
#[derive(Default)]
struct Seen {
    commands: u64,
    codes: BTreeMap<i32, u64>,
    resident_kib: i64,
    longest: Duration,
    faults: Vec<String>,
}

/// Runs a command and checks how it ends. Returns whether it succeeded.
fn judged(place: &Place, words: &str, number: u64, seen: &Mutex<Seen>) -> bool {
    let mut command = place.command(words);
    let out = std::fs::File::create(place.path(".out")).unwrap();
    command.stdout(Stdio::from(out.try_clone().unwrap())).stderr(Stdio::from(out));
    // SAFETY: between fork and exec it calls one function that is safe there.
    unsafe {
        command.pre_exec(|| {
            let most = libc::rlimit { rlim_cur: 8 << 30, rlim_max: 8 << 30 };
            libc::setrlimit(libc::RLIMIT_AS, &raw const most);
            Ok(())
        });
    }
    // A process's peak memory begins with its parent's: mutations are kept small.
    let began = Instant::now();
    // It is waited for below, by `wait4`, which gives its resource usage.
    #[allow(clippy::zombie_processes)]
    let child = command.spawn().unwrap();
    let pid = child.id() as libc::pid_t;
    let mut hung = false;
    let (status, used) = loop {
        let mut status = 0;
        // SAFETY: zeroes are a valid rusage.
        let mut used: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: waits for our own child; both places are ours.
        match unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut used) } {
            0 if began.elapsed() > PATIENCE && !hung => {
                hung = true;
                // SAFETY: the child was not waited for yet, so the number is still its own.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
            0 => std::thread::sleep(Duration::from_millis(2)),
            _ => break (ExitStatus::from_raw(status), used),
        }
    };
    let mut said = Vec::new();
    std::fs::File::open(place.path(".out")).unwrap().read_to_end(&mut said).unwrap();
    let said = String::from_utf8_lossy(&said);
    let mut seen = seen.lock().unwrap();
    seen.commands += 1;
    seen.resident_kib = seen.resident_kib.max(used.ru_maxrss);
    seen.longest = seen.longest.max(began.elapsed());
    *seen.codes.entry(status.code().unwrap_or(-1)).or_default() += 1;
    let hidden =
        said.chars().find(|&c| is_hidden(c) && !matches!(c, '\n' | '\u{2068}' | '\u{2069}'));
    let fault = match status.code() {
        _ if hung => Some("hangs".to_owned()),
        None => Some(format!("is ended by signal {:?}", status.signal())),
        Some(0 | 2 | 3 | 4 | 5 | 6 | 7 | 8) if said.contains("panicked at") => {
            Some("panics".to_owned())
        }
        Some(0 | 2 | 3 | 4 | 5 | 6 | 7 | 8) if used.ru_maxrss > RESIDENT_KIB_MAX => {
            Some(format!("takes {} MiB", used.ru_maxrss >> 10))
        }
        Some(0 | 2 | 3 | 4 | 5 | 6 | 7 | 8) => {
            hidden.map(|c| format!("prints `{}`", c.escape_default()))
        }
        Some(code) => Some(format!("exits with {code}")),
    };
    if let Some(fault) = fault {
        let said: String = said.chars().take(700).flat_map(char::escape_default).collect();
        seen.faults.push(format!("{number}: `{words}` {fault}: {said}"));
    }
    status.success()
}

/// Runs `one` for each mutation, several at a time, and prints the results.
fn all(what: &str, one: impl Fn(&Place, &mut Generator, u64, &Mutex<Seen>) + Sync) {
    let (numbers, seen) = (numbers(), Mutex::new(Seen::default()));
    let next = AtomicU64::new(numbers.start);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from).min(8) {
            scope.spawn(|| {
                let place = Place::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        break;
                    }
                    one(&place, &mut rng::stream(1, what, number), number, &seen);
                }
            });
        }
    });
    let seen = seen.into_inner().unwrap();
    println!(
        "{what}: {} mutations, {} commands, exit codes {:?}; at most {} MiB, {:.1} s",
        numbers.end - numbers.start,
        seen.commands,
        seen.codes,
        seen.resident_kib >> 10,
        seen.longest.as_secs_f64()
    );
    assert!(seen.faults.is_empty(), "{} faults:\n{}", seen.faults.len(), seen.faults.join("\n"));
}

/// Commands to run on a mutated notebook, and on a notebook into which a mutated report was imported.
const QUESTIONS: &[&str] = &[
    "show last",
    "show last --json --series",
    "export last --format csv",
    "export last --format csv-series",
    "export last --format hgrm",
    "export last --format fio-json",
    "export last --format sysbench",
    "export last --format fio-json+",
    "export last --format fio-terse",
    "export last --format fio-logs -o fio-logs",
    "report last -o out.html",
    "report last --markdown",
    "report last --csv",
    "report last --svg figures",
    "compare last last~1",
    "compare last~1 last --json",
    "report last~1 last -o out.html",
];

fn ask(place: &Place, random: &mut Generator, number: u64, seen: &Mutex<Seen>) {
    judged(place, ["ls", "ls --json"][rng::below(random, 2) as usize], number, seen);
    for _ in 0..2 {
        let question = QUESTIONS[rng::below(random, QUESTIONS.len() as u64) as usize];
        judged(place, question, number, seen);
    }
}

fn forget_notebook(place: &Place) {
    for end in ["", "-wal", "-shm", "-journal"] {
        let mut path = place.notebook().into_os_string();
        path.push(end);
        let _ = std::fs::remove_file(path);
    }
}

/// A place with a notebook of several kinds of runs, in one file.
fn measured() -> Place {
    let place = Place::new();
    for words in [
        "run four-corners --on model:exflash-400g --time 20ms -q",
        "run random-read --on ram:16MiB --rate 2000/s --time 50ms --ramp 0s -q --repeat 2",
        "run random-read --on model:exflash-400g --vary depth=1,4 --time 10ms -q",
        "run db-oltp --on model:exflash-400g --time 20ms -q --require p99<1us",
    ] {
        let output = place.iodyno(words);
        assert!(matches!(output.code, Some(0 | 6)), "{words}: {}", output.stderr);
    }
    let db = rusqlite::Connection::open(place.notebook()).unwrap();
    db.execute_batch("PRAGMA journal_mode = DELETE").unwrap();
    place
}

#[test]
fn a_notebook_is_read_or_refused() {
    let source = measured();
    all("notebook", |place, random, number, seen| {
        forget_notebook(place);
        std::fs::copy(source.notebook(), place.notebook()).unwrap();
        mutate::notebook(random, &place.notebook());
        ask(place, random, number, seen);
        if rng::below(random, 4) == 0 {
            judged(place, "run random-read --on null:1GiB --time 2ms --ramp 0s -q", number, seen);
        }
    });
}

#[test]
fn a_report_is_read_or_refused() {
    let source = measured();
    source.iodyno("report last -o one.html").succeeds();
    source.iodyno("report last~1 -o two.html").succeeds();
    let pages =
        ["one.html", "two.html"].map(|name| std::fs::read_to_string(source.path(name)).unwrap());
    all("report", |place, random, number, seen| {
        forget_notebook(place);
        let good = &pages[rng::below(random, 2) as usize];
        let bytes = mutate::report(random, good, &place.path("inner.sqlite"));
        place.write("it.html", bytes);
        if judged(place, "import it.html", number, seen) {
            ask(place, random, number, seen);
        }
    });
}

#[test]
fn a_record_is_replayed_or_refused() {
    let mut good = "iodyno record 3\n{\"device\":\"model:exflash-400g\",\"iodyno\":\"0.1.0\",\"seed\":1,\"workers\":16}\n".to_owned();
    let mut random = rng::stream(1, "record", 0);
    for i in 0..300_u64 {
        let (worker, at) = (rng::below(&mut random, 16), rng::below(&mut random, 1 << 20) * 4096);
        let (kind, len) = [("r", 4096), ("w", 8192), ("f", 0), ("t", 1 << 20), ("z", 65_536)]
            [rng::below(&mut random, 5) as usize];
        let fault =
            ["f 0 slow x3", "f 0 lose", "f 0 power-cut", "f 0 clear 0", "f 0 latent 1MiB..+64KiB"];
        let line = match i % 60 {
            59 => fault[i as usize / 60].replacen('0', &(i * 2000).to_string(), 1),
            _ => format!("o {} {worker} 0 {kind} {at} {len} {}", i * 2000, i % 2),
        };
        good.push_str(&line);
        good.push('\n');
    }
    good += "end 9000000 0123456789abcdef\n";
    let sound = Place::new();
    sound.write("it.rec", &good);
    assert_eq!(sound.iodyno("replay it.rec").code, Some(4), "it is read to its end");
    all("record", |place, random, number, seen| {
        place.write("it.rec", mutate::record(random, &good));
        judged(place, ["replay it.rec", "replay it.rec --json"][number as usize % 2], number, seen);
    });
}

/// Each other object in place of a table is refused, with the table's name.
#[test]
fn a_view_in_place_of_a_table_is_not_evaluated() {
    let source = measured();
    for table in ["runs", "targets", "workloads", "cells", "intervals"] {
        let place = Place::new();
        std::fs::copy(source.notebook(), place.notebook()).unwrap();
        let db = rusqlite::Connection::open(place.notebook()).unwrap();
        db.execute_batch(&format!(
            "ALTER TABLE {table} RENAME TO old; CREATE VIEW {table} AS
             WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)
             SELECT old.* FROM old, c"
        ))
        .unwrap();
        drop(db);
        for words in ["ls", "show last", "run random-read --on null: --time 5ms -q"] {
            let output = place.iodyno(words);
            let named = format!("the table `{table}` is a view");
            assert!(output.exits(5).stderr.contains(&named), "{words}: {}", output.stderr);
        }
        assert!(Path::new(&place.notebook()).exists());
    }
}
