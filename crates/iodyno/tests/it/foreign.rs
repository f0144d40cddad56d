//! Untrusted and impossible input: texts from servers and files are cleaned before they are
//! printed, numbers have ranges, and a flag without effect is refused.

use crate::place::{Place, SHORT};
use iodyno_units::text::is_hidden;
use std::process::{Command, Stdio};

const EVIL: &str =
    "</script><script>alert(1)</script>\u{1b}[31mRED\u{1b}]0;t\u{7}\u{9b}1m\u{202e}gpj";

#[track_caller]
fn is_clean(text: &str) {
    let hidden = text.chars().find(|&c| is_hidden(c) && c != '\n');
    assert_eq!(hidden, None, "{}", text.escape_debug());
}

#[test]
fn names_in_a_notebook_reach_no_terminal_raw() {
    let place = Place::new();
    place.iodyno(&format!("run random-read --on ram:16MiB {SHORT} -q")).succeeds();
    let db = rusqlite::Connection::open(place.notebook()).unwrap();
    for sql in [
        "UPDATE runs SET name = ?1",
        "UPDATE runs SET command = json_array(?1)",
        "UPDATE cells SET cell = json_set(cell, '$.key.name', ?1, '$.key.target', ?1)",
    ] {
        db.execute(sql, [EVIL]).unwrap();
    }
    for words in [
        "ls",
        "ls --json",
        "show last",
        "show last --json",
        "export last --format csv",
        "export last --format csv-series",
        "export last --format hgrm",
        "export last --format fio-json",
        "export last --format sysbench",
        "export last --format fio-json+",
        "export last --format fio-terse",
        "report last --markdown",
        "report last --csv",
    ] {
        let output = place.iodyno(words);
        is_clean(&output.succeeds().stdout);
        if words.ends_with("markdown") {
            assert!(!output.stdout.contains("<script>"), "{}", output.stdout);
            assert!(output.stdout.contains("This format can't embed runs"), "{}", output.stdout);
        }
    }
    for (sql, words) in [
        ("UPDATE runs SET status = ?1", "the status"),
        ("UPDATE runs SET started = ?1", "not a valid start or end time of a run"),
        ("UPDATE runs SET seed = ?1", "the seed is"),
        ("UPDATE runs SET id = ?1", "id is not ten digits"),
    ] {
        db.execute("UPDATE runs SET id = 'a0a0a0a0a0', status = 'finished', seed = '1'", [])
            .unwrap();
        db.execute(sql, [EVIL]).unwrap();
        let output = place.iodyno("show last");
        if sql.contains("started") {
            db.execute("UPDATE runs SET started = '2026-11-22T00:00:00.000Z'", []).unwrap();
        }
        is_clean(&output.exits(5).stderr);
        assert!(output.stderr.contains(words), "{}", output.stderr);
    }
}

#[test]
fn a_file_and_a_server_reach_no_terminal_raw() {
    let place = Place::new();
    place.write("w.toml", format!("schema = 1 # {EVIL}\n\"{EVIL}\" = 1\n"));
    is_clean(&place.iodyno("run ./w.toml --on null:").exits(2).stderr);
    place.write("b.toml", "schema = 1\nabout = \"\u{1b}[31m\u{9b}\" deph = 4\n");
    is_clean(&place.iodyno("run ./b.toml --on null:").exits(2).stderr);

    place.write("disk.img", vec![0; 1 << 20]);
    let socket = place.path("q.sock");
    let mut server = Command::new("qemu-nbd")
        .args([
            "-f",
            "raw",
            "--read-only",
            "--shared=4",
            "--persistent",
            "-D",
            EVIL,
            "-x",
            "x",
            "-k",
        ])
        .arg(&socket)
        .arg(place.path("disk.img"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let words = format!("check nbd+unix:///x?socket={}", socket.display());
    let output = (0..200)
        .map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            place.iodyno(&words)
        })
        .find(|output| output.stdout.contains("described as"));
    server.kill().unwrap();
    server.wait().unwrap();
    is_clean(&output.expect("the server answers").stdout);
}

/// Each of these was once accepted silently, or crashed.
#[test]
fn out_of_range_and_ineffective_flags_are_refused() {
    let place = Place::new();
    let mix = |mix: &str| format!("schema = 1\n{mix}\nblock = \"4KiB\"\n[limits]\nops = 100\n");
    place.write("mix.toml", mix("mix = { read = 90, write = 30 }"));
    for (words, said) in [
        ("random-read --on null: --interval 0s", "--interval must be from 1 ms"),
        ("random-read --on model:exflash-400g --interval 0s", "--interval must be from 1 ms"),
        ("random-read --on null: --interval 100ns", "--interval must be from 1 ms"),
        ("random-read --on null: --interval 2d", "--interval must be from 1 ms"),
        ("random-read --on null: --interval 1ms --time 30d", "use --interval"),
        ("random-read --on null: --time 0s", "365 d"),
        ("random-read --on null: --threads 0", "from 1 to 1024"),
        ("random-read --on null: --depth 0", "from 1 to 65536"),
        ("random-read --on null: --ops 0", "measures nothing"),
        ("random-read --on null: --bytes 0", "measures nothing"),
        ("random-read --on null: --repeat 0", "from 1 to 1000"),
        ("random-read --on ram:2KiB --time 10ms", "ram:2KiB"),
        ("random-read --on a.img?size=8MiB&size=4MiB", "`size` is given twice"),
        ("random-read --on null: --vary depth=1,1 --time 10ms", "1 is listed twice"),
        ("random-read --on null: --vary depth=1 --vary depth=2", "`depth` is varied twice"),
        ("random-read --on null: --depth 8 --vary depth=1,2 --time 10ms", "--depth has no effect"),
        ("random-read --on null: --block 8KiB --vary block=4KiB", "--block has no effect"),
        ("random-read --on ram:16MiB --poll", "--poll works only with the uring engine"),
        ("random-read --on null: --plain-ring", "--plain-ring works only with the uring engine"),
        ("random-read --on a.img?size=8MiB --poll --engine psync", "--engine is psync"),
        ("random-write --on null: --content compressible=5%,compressible=6%", "given twice"),
    ] {
        let output = place.iodyno(&format!("run {words}"));
        assert!(output.exits(2).stderr.contains(said), "{words}: {}", output.stderr);
    }
    assert!(!place.notebook().exists(), "nothing was kept");
    for (words, said) in [
        ("./mix.toml", "the shares of the mix add up to 120, not 100"),
        ("random-read --block 4KiB:60,8KiB:60 --ops 100", "the block sizes add up to 120"),
    ] {
        let output = place.iodyno(&format!("run {words} --on null: --no-notebook -q"));
        assert!(output.succeeds().stderr.contains(said), "{words}: {}", output.stderr);
    }
}

/// A record is checked against its machine before anything of it is replayed.
#[test]
fn a_record_of_another_machine_is_refused() {
    let place = Place::new();
    let head = |workers: &str| {
        format!(
            "iodyno record 3\n{{\"device\":\"model:exflash-400g\",\"seed\":1,\"workers\":{workers}}}\n"
        )
    };
    let good = "o 100 0 0 r 0 4096 0\n";
    for (record, said) in [
        (
            head("16") + good + "o 100 0 9 r 0 4096 0\n",
            "line 4 does not fit the machine that line 2 describes: there is no volume 9",
        ),
        (
            head("16") + "o 100 999 0 r 0 4096 0\n",
            "line 3 does not fit the machine that line 2 describes: there is no worker 999",
        ),
        (head("4000000000") + good, "`workers` is 4000000000"),
        (head("0") + good, "`workers` is 0"),
        (head("16") + "o 100 0 0 r 18446744073709551615 4096 0\n", "beyond the volume's capacity"),
        (head("16") + "o 100 0 0 r 0 0 0\n", "1 to 67108864 bytes"),
        (head("16") + "o 18446744073709551615 0 0 r 0 4096 0\n", "its time is beyond"),
        (head("16") + "f 100 lose 3\n", "there is no volume 3"),
        (head("16") + "f 100 latent 0..+8EiB\n", "line 3"),
        (head("16") + "o 100 0 0 r \u{1b}[31m\n", "\\u{1b}"),
        (head("16") + &"x".repeat(3 << 20), "line 3 is too long"),
    ] {
        place.write("it.rec", &record);
        let output = place.iodyno("replay it.rec");
        assert!(output.exits(2).stderr.contains(said), "{said}: {}", output.stderr);
        is_clean(&output.stderr);
    }
    assert!(place.iodyno("replay /dev/null").exits(2).stderr.contains("regular file"));
}
