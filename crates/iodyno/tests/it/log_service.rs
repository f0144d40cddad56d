//! The message log end to end: commands, streams and snapshots while the log is written, a full log, damage, tokens
//! and TLS, and the client in Python.

use crate::log_server::{
    Got, LogServer, Values, code, connect, dial, publisher, query, replay, socket, take,
};
use crate::pki::Authority;
use crate::place::{Place, Running};
use crate::serve::{Served, flash};
use iodyno_msglog::MessageKind;
use iodyno_msglog::client::{AtLimit, Connection, Publisher, PublisherOptions};
use iodyno_msglog::protocol::{End, ErrorCode, Reply, Request, Start};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Flags for a small log with many segments.
const SMALL: &str = "--size 4MiB --segment 64KiB --chunk 16KiB";

#[test]
fn what_is_published_by_commands_is_read_by_commands() {
    let place = Place::new();
    let server = LogServer::with_log(&place, "--size 16MiB", "");
    let at = "--at unix:l.sock";
    let publish = |words: &str, lines: &str| {
        let mut command = place.command(&format!("log publish {at} {words}"));
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    publish(
        "--topic orders --keyed",
        "7\t{\"price\": 10}\n8\t{\"price\": 20}\n7\t{\"price\": 30}\n",
    );
    let said = publish("--name lines", "a\nb\n");
    assert!(said.contains("2 messages are persisted; the publisher's last message is 2"), "{said}");
    // The input again, with one more line.
    let said = publish("--name lines --resume", "a\nb\nc\n");
    assert!(said.contains("1 message is persisted; the publisher's last message is 3"), "{said}");

    let replayed = place.iodyno(&format!("log replay {at} --json"));
    let lines: Vec<Value> =
        replayed.succeeds().stdout.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let bodies: Vec<&str> = lines.iter().map(|l| l["body"].as_str().unwrap()).collect();
    assert_eq!(bodies, ["{\"price\": 10}", "{\"price\": 20}", "{\"price\": 30}", "a", "b", "c"]);
    assert_eq!(lines[5]["number"], 6);
    assert_eq!(lines[5]["sequence"], 3);
    let some = place.iodyno(&format!("log replay {at} --from 3 --until 5 --bodies"));
    assert_eq!(some.succeeds().stdout, "{\"price\": 30}\na\n");
    some.says(&["the next message is 5"]);
    let mut filtered = place.command(&format!("log replay {at} --bodies --topic orders --filter"));
    let filtered = filtered.arg("/price > 15").output().unwrap();
    assert_eq!(String::from_utf8(filtered.stdout).unwrap(), "{\"price\": 20}\n{\"price\": 30}\n");
    // Nothing is cut to a length that fits.
    for (flag, bytes, field) in
        [("topic", 256, "topic"), ("key", 65_536, "key"), ("name", 256, "publisher's name")]
    {
        let limit = if bytes == 256 { 255 } else { 65_535 };
        let words = format!("log publish {at} --{flag} {} body", "x".repeat(bytes));
        let message = format!("the {field} has {bytes} bytes, but the limit is {limit}");
        place.iodyno(&words).fails(2, &[&message]);
    }
    for from in [at, "--on a.log"] {
        let wrong = place.iodyno(&format!("log replay {from} --filter (("));
        wrong.fails(2, &["error: the filter ends", "filter:1:3"]);
        assert_eq!(wrong.stderr.matches("error:").count(), 1, "{wrong:?}");
    }

    let values = place.iodyno(&format!("log query {at} --json"));
    let values: Vec<Value> =
        values.succeeds().stdout.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(values.len(), 2);
    assert_eq!((&values[0]["key"], &values[0]["number"]), (&"7".into(), &3.into()));
    publish("--topic orders --delete", "7\n");
    let values = place.iodyno(&format!("log query {at}"));
    assert_eq!(values.succeeds().stdout.lines().count(), 1);
    values.says(&["1 value; ", "--from 8"]);
    let status = place.iodyno(&format!("log status {at}")).succeeds().json();
    assert_eq!((&status["next_message"], &status["publishers"]), (&8.into(), &1.into()));
    // A message that no chunk holds, whether or not a frame does.
    for bytes in [66_000, 100_000] {
        let long = place.iodyno(&format!("log publish {at} --topic long d {}", "x".repeat(bytes)));
        long.fails(2, &["the log allows only", "; 1 message is persisted"]);
    }
    // Two servers would destroy each other's log.
    for destroy in ["", "--destroy a.log"] {
        let output = place.iodyno(&format!("log serve a.log --unix other.sock {destroy}"));
        output.fails(3, &["locked", "lsof"]);
        assert!(!output.stderr.contains("--destroy"), "nothing lifts a lock: {}", output.stderr);
    }
    server.stop();
    let checked = place.iodyno("log check a.log --json").succeeds().json();
    assert_eq!((&checked["messages"], &checked["values"]), (&9.into(), &1.into()));
    place.iodyno(&format!("log replay {at}")).fails(4, &["is the server running"]);
    // What may pass is tried again, and that is said.
    let output = place.iodyno(&format!("log publish {at} --patience 300ms x"));
    output.exits(4).says(&["; trying again", "is the server running", "; tried for 300 ms"]);
}

/// A full log ends `log publish` without a retry. It says how many messages are persisted, also if the server closes the
/// connection while the command sends.
#[test]
fn a_full_log_ends_the_command_with_the_number_of_its_messages() {
    let place = Place::new();
    let _server = LogServer::with_log(&place, SMALL, "--retain 1h");
    let at = "--at unix:l.sock";
    let mut stored = 0;
    for (name, lines) in [("", 400_000), ("--name p", 400_000), ("--name p", 10)] {
        let input: Vec<String> = (0..lines).map(|line| format!("{line:0>40}")).collect();
        let file = place.write("input", input.join("\n"));
        let mut command = place.command(&format!("log publish {at} --topic t {name}"));
        command.stdin(std::fs::File::open(file).unwrap()).stderr(Stdio::piped());
        let output = Running::of(&mut command).finish();
        let before = std::mem::replace(&mut stored, replay(&place, Start::Oldest).len());
        let new = match stored - before {
            1 => "; 1 message is persisted".to_owned(),
            n => format!("; {n} messages are persisted"),
        };
        output.exits(4).says(&["the log is full", &new]);
        assert!(!output.stderr.contains("trying again"), "{}", output.stderr);
    }
    assert!(stored > 3000, "{stored}");
}

#[test]
fn targets_without_a_log_and_with_one_are_not_mixed_up() {
    let place = Place::new();
    let named = "8 segments";
    place.iodyno("log create a.log --size 1MiB --segment 120KiB --chunk 8KiB").succeeds();
    assert!(place.iodyno("log check a.log").succeeds().stdout.contains(named));
    // A log is data: runs and further logs leave it alone.
    place.iodyno("run random-write --on a.log --time 100ms").fails(3, &["a message log"]);
    place.iodyno("log create a.log").fails(3, &["a message log", "--destroy a.log"]);
    place.iodyno("log create a.log --destroy a.log --segment 240KiB --chunk 8KiB").succeeds();
    assert!(place.iodyno("log check a.log").succeeds().stdout.contains("4 segments"));
    place.iodyno("log create b.log --size 64KiB").fails(2, &["a log needs"]);
    place.write("text", vec![b'x'; 8192]);
    for command in ["check", "serve"] {
        place
            .iodyno(&format!("log {command} text"))
            .fails(2, &["there is no message log", "create"]);
    }
    assert_eq!(std::fs::read(place.path("text")).unwrap(), vec![b'x'; 8192]);
    place.iodyno("log create null:").fails(4, &["stores none"]);
    // Half of a log.
    let whole = std::fs::read(place.path("a.log")).unwrap();
    place.write("half", &whole[..512 << 10]);
    for command in ["check", "serve"] {
        place.iodyno(&format!("log {command} half")).fails(4, &["1048576", "524288", "truncated"]);
    }
}

#[test]
fn damage_is_named_and_served_only_on_demand() {
    let place = Place::new();
    let server = LogServer::with_log(&place, SMALL, "--durability each");
    let mut publisher = publisher(&place, "p");
    for i in 1..=20_u32 {
        publisher.publish(MessageKind::Publish, "t", b"", format!("body {i}").as_bytes()).unwrap();
        publisher.finish().unwrap();
    }
    server.stop();
    // Each message has a chunk, of a block: the tenth of them, behind 64 KiB, loses a bit.
    let mut bytes = std::fs::read(place.path("a.log")).unwrap();
    let checked = place.iodyno("log check a.log --json").succeeds().json();
    let block = checked["block_bytes"].as_u64().unwrap() as usize;
    let at = bytes.windows(7).position(|w| w == b"body 10").unwrap();
    bytes[at] ^= 1;
    let offset = at / block * block;
    place.write("a.log", &bytes);
    let found = place.iodyno("log check a.log --json");
    let found = found.exits(4).json();
    assert_eq!(found["damages"][0]["offset_bytes"], offset);
    assert_eq!(
        (&found["damages"][0]["first_missing"], &found["damages"][0]["missing"]),
        (&10.into(), &1.into())
    );
    let place_words = format!("at byte {offset} of the target");
    place
        .iodyno("log serve a.log")
        .fails(4, &[&place_words, "message 10 is missing", "--accept-damage"]);
    let server = LogServer::start(&place, "a.log --accept-damage");
    let numbers: Vec<u64> = replay(&place, Start::Oldest).iter().map(|it| it.number).collect();
    assert_eq!(numbers, (1..=20).filter(|n| *n != 10).collect::<Vec<_>>());
    let from_ten = replay(&place, Start::Message(10));
    assert_eq!(from_ten[0].number, 11);
    server.stop();
    // The description, too, has a copy, and is written again.
    bytes[at] ^= 1;
    bytes[100] ^= 1;
    place.write("a.log", &bytes);
    place.iodyno("log check a.log").exits(4);
    place.iodyno("log serve a.log").fails(4, &["at byte 0", "description"]);
    LogServer::start(&place, "a.log --accept-damage").stop();
    place.iodyno("log check a.log").succeeds();
}

/// A server that shuts down or is idle appends an end marker, by which damage of the last message is told from a torn
/// tail.
#[test]
fn damage_of_the_last_message_is_named() {
    let place = Place::new();
    let server = LogServer::with_log(&place, SMALL, "");
    let mut publisher = publisher(&place, "p");
    for body in ["first", "second", "the last"] {
        publisher.publish(MessageKind::Publish, "t", b"", body.as_bytes()).unwrap();
        publisher.finish().unwrap();
    }
    server.stop();
    let mut bytes = std::fs::read(place.path("a.log")).unwrap();
    let at = bytes.windows(8).position(|w| w == b"the last").unwrap();
    bytes[at] ^= 1;
    place.write("a.log", &bytes);
    let found = place.iodyno("log check a.log --json").exits(4).json();
    assert_eq!(
        (&found["damages"][0]["first_missing"], &found["damages"][0]["missing"]),
        (&3.into(), &1.into())
    );
    // Opened again and again, the log does not grow.
    let end = &found["end_position_bytes"];
    for _ in 0..2 {
        LogServer::start(&place, "a.log --accept-damage").stop();
        let found = place.iodyno("log check a.log --json").exits(4).json();
        assert_eq!((&found["end_position_bytes"], &found["next_message"]), (end, &4.into()));
    }
}

/// A log with an unreadable end is not opened, also with `--accept-damage`, and keeps its messages.
#[test]
fn a_log_with_an_unreadable_end_is_a_read_error() {
    const TARGET: &str = "nbd+unix:///?socket=nbd.sock";
    let place = Place::new();
    let device = Served::start(&place, "ram:64MiB");
    place.iodyno(&format!("log create {TARGET}")).succeeds();
    let server = LogServer::start(&place, TARGET);
    let mut publisher = publisher(&place, "p");
    for _ in 0..1000 {
        publisher.publish(MessageKind::Publish, "t", b"", &[7; 2000]).unwrap();
    }
    publisher.finish().unwrap();
    server.stop();
    let check = format!("log check {TARGET} --json");
    let whole = place.iodyno(&check).succeeds().json();
    assert_eq!(whole["messages"], 1000);
    let words = ["at byte", "Input/output error (os error 5)", "try again"];
    for range in ["64KiB..63MiB", "1MiB..63MiB"] {
        device.fault(&format!("error EIO reads at {range}"));
        place.iodyno(&check).fails(4, &words);
        place.iodyno(&format!("log replay --on {TARGET}")).exits(4);
        device.fault("clear");
        assert_eq!(place.iodyno(&check).succeeds().json(), whole);
    }
    // One unreadable block in the middle is damage.
    device.fault("error EIO reads at 256KiB..260KiB");
    let damaged = place.iodyno(&check).exits(4).json();
    let what = "the target can't be read: Input/output error (os error 5)";
    assert_eq!(damaged["damages"][0]["what"], what);
    assert_eq!(damaged["next_message"], whole["next_message"]);
}

/// Emulated devices in real time: a single device, and an array, whose reads return their data at completion.
#[test]
fn emulated_devices_in_real_time_keep_a_log() {
    let place = Place::new();
    for device in ["exflash-400g", "raid1(ssd-sas12-mlc-800g*2)"] {
        let server = LogServer::start(&place, &format!("live:{device} --size 8MiB"));
        let mut publisher = publisher(&place, "p");
        for i in 1..=9000_u32 {
            let body = [&i.to_le_bytes()[..], &[5; 1000]].concat();
            let key = (i % 7).to_le_bytes();
            publisher.publish(MessageKind::Publish, "t", &key, &body).unwrap();
        }
        publisher.finish().unwrap();
        // More than it keeps, and than is in memory beside it.
        let got = replay(&place, Start::Oldest);
        assert!(got.len() < 9000 && got.last().unwrap().number == 9000, "{device}: {}", got.len());
        for it in &got {
            assert_eq!(it.body[..4], (it.number as u32).to_le_bytes(), "{device}");
        }
        assert_eq!(Values::of(&query(&place).1).0.len(), 7);
        server.stop();
    }
    place.iodyno("log serve model:exflash-400g").fails(2, &["virtual time", "live:"]);
    place.iodyno("log serve live:exflash-400g --size 1TiB").fails(2, &["--size", "400"]);
    place.iodyno("log serve live:exflash-400g*2").fails(2, &["2 volumes"]);
    place
        .iodyno("log serve ram:4MiB --size 1MiB")
        .fails(2, &["--size is only for `live:` devices"]);
    place.iodyno("log create live:exflash-400g").fails(2, &["log serve"]);
}

/// Messages that are read directly from the target equal those that its server sends.
#[test]
fn a_log_is_replayed_without_its_server() {
    let place = Place::new();
    let server = LogServer::with_log(&place, SMALL, "");
    let mut publisher = publisher(&place, "p");
    for i in 1..=1500_u32 {
        let topic = ["a", "b"][(i % 2) as usize];
        let body = format!("{{\"i\": {i}, \"text\": \"{}\"}}", "x".repeat(i as usize * 7));
        let key = (i % 9).to_string();
        publisher.publish(MessageKind::Publish, topic, key.as_bytes(), body.as_bytes()).unwrap();
    }
    publisher.finish().unwrap();
    let selections: &[&[&str]] = &[
        &[],
        &["--json"],
        &["--bodies", "--topic", "b"],
        &["--from", "1400", "--until", "1420"],
        &["--from", "oldest", "--count", "3", "--json"],
        &["--topic", "a", "--filter", "/i > 1480"],
        &["--from", "1501"],
    ];
    let read = |target: &str, words: &[&str]| {
        let mut command = place.command(&format!("log replay {target}"));
        let output = command.args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        let next =
            said.lines().find(|line| line.starts_with("the next message is")).map(str::to_owned);
        (String::from_utf8(output.stdout).unwrap(), next)
    };
    let served: Vec<_> = selections.iter().map(|words| read("--at unix:l.sock", words)).collect();
    server.stop();
    for (words, served) in selections.iter().zip(&served) {
        let own = read("--on a.log", words);
        assert_eq!(own.0, served.0, "{words:?}");
        // A server ends a stream that a client counts out by itself.
        assert!(served.1.is_none() || served.1 == own.1, "{words:?}: {own:?}");
    }
    assert!(served[1].0.lines().count() < 1500, "the log went around");
    assert!(served[3].0.lines().count() == 20 && served[6].0.is_empty());
    place
        .iodyno("log replay --on a.log --from 9999")
        .fails(2, &["message 9999 does not exist yet"]);
    place.iodyno("log replay --on a.log --at unix:l.sock").fails(2, &["cannot be used with"]);
    place.iodyno("log replay --on a.log --from now").fails(2, &["--from now"]);
    place.write("text", "no log".repeat(2000).as_bytes());
    place.iodyno("log replay --on text").fails(2, &["there is no message log"]);
}

/// A snapshot plus the messages after its bookmark give the state at any later time, while publishers write.
#[test]
fn snapshots_and_streams_lose_and_double_nothing() {
    let place = Place::new();
    let _server = LogServer::with_log(&place, "--size 64MiB", "");
    let write = |name: &'static str| {
        let mut publisher = publisher(&place, name);
        move || {
            for i in 0..4000_u32 {
                let key = [b'k', (i % 37) as u8];
                let kind = if i % 11 == 0 { MessageKind::Delete } else { MessageKind::Publish };
                publisher.publish(kind, "t", &key, format!("{name} {i}").as_bytes()).unwrap();
                if i % 100 == 0 {
                    publisher.flush().unwrap();
                }
            }
            publisher.finish().unwrap();
        }
    };
    std::thread::scope(|scope| {
        let writers = [scope.spawn(write("a")), scope.spawn(write("b"))];
        let mut snapshots = Vec::new();
        while !writers.iter().all(std::thread::ScopedJoinHandle::is_finished) || snapshots.len() < 3
        {
            snapshots.push(query(&place));
        }
        let all = replay(&place, Start::Oldest);
        assert_eq!(all.len(), 8000);
        assert!(all.iter().zip(1..).all(|(it, number)| it.number == number));
        let end = Values::of(&all);
        for (next, values) in &snapshots {
            let snapshot = Values(Values::of(values).0);
            let before = all.iter().take_while(|it| it.number < *next);
            assert_eq!(snapshot, Values::of(before), "the snapshot at {next}");
            let mut later = snapshot;
            later.apply(&replay(&place, Start::Message(*next)));
            assert_eq!(later, end, "from the snapshot at {next}");
        }
    });
}

/// Readers at many bookmarks, some of them close to the end, see the same messages.
#[test]
fn many_readers_at_different_bookmarks_read_while_it_is_written() {
    const MESSAGES: u64 = 6000;
    let place = Place::new();
    let _server = LogServer::with_log(&place, "--size 64MiB", "");
    let mut publisher = publisher(&place, "p");
    let body = |number: u64| format!("{number:0width$}", width = 10 + (number % 900) as usize);
    let mut publish = |numbers: core::ops::Range<u64>| {
        for number in numbers {
            publisher.publish(MessageKind::Publish, "t", b"", body(number).as_bytes()).unwrap();
        }
        publisher.finish().unwrap();
    };
    publish(1..MESSAGES / 2);
    std::thread::scope(|scope| {
        for reader in 0..16 {
            let place = &place;
            scope.spawn(move || {
                let start = 1 + reader * MESSAGES / 20;
                let mut connection = connect(place);
                let begins = connection.read(Start::Message(start), End::Message(MESSAGES), "", "");
                if start > MESSAGES / 2 && begins.is_err() {
                    assert_eq!(code(begins), ErrorCode::Ahead);
                    return;
                }
                let (got, next) = take(&mut connection, usize::MAX).unwrap();
                assert_eq!((got.len() as u64, next), (MESSAGES - start, Some(MESSAGES)));
                for (it, number) in got.iter().zip(start..) {
                    assert_eq!((it.number, &*it.body), (number, body(number).as_bytes()));
                }
            });
        }
        publish(MESSAGES / 2..MESSAGES);
    });
}

#[test]
fn a_full_log_refuses_messages_and_loses_none() {
    let place = Place::new();
    let server = LogServer::with_log(&place, SMALL, "--retain 1h");
    let socket = socket(&place);
    let options = PublisherOptions {
        name: "p".to_owned(),
        // A full log ends it all the same.
        patience: Duration::from_secs(3600),
        held_bytes_max: 64 << 10,
        ..PublisherOptions::default()
    };
    let mut publisher = Publisher::open(move || dial(&socket), options).unwrap();
    let body = |sequence: u64| [&sequence.to_le_bytes()[..], &[7; 900]].concat();
    let error =
        (1..).find_map(|i| publisher.publish(MessageKind::Publish, "t", b"", &body(i)).err());
    assert_eq!(code(Err::<(), _>(error.unwrap())), ErrorCode::Full);
    let persisted = publisher.persisted();
    assert!(persisted > 3000, "{persisted}");
    let check = || {
        let all = replay(&place, Start::Oldest);
        assert_eq!(all.len() as u64, persisted);
        for (it, sequence) in all.iter().zip(1..) {
            assert_eq!((it.sequence, &it.body), (sequence, &body(sequence)));
        }
    };
    check();
    server.kill();
    // Without the retention, what was held is taken, and the oldest give way.
    let server = LogServer::start(&place, "a.log --retain 1h");
    check();
    server.stop();
    let _server = LogServer::start(&place, "a.log");
    publisher.finish().unwrap();
    let all = replay(&place, Start::Oldest);
    assert!(all[0].sequence > 1);
    assert_eq!(all.last().unwrap().sequence, publisher.next_sequence() - 1);
    assert!(all.windows(2).all(|two| two[1].sequence == two[0].sequence + 1));
}

/// A publisher's name and sequence number outlive the server. Messages that an earlier connection sent are not stored
/// again.
#[test]
fn publishers_keep_their_sequence() {
    let place = Place::new();
    let server = LogServer::with_log(&place, "--size 16MiB", "");
    let mut first = connect(&place);
    let publish = |connection: &mut Connection<_>, sequence, body: &[u8]| {
        let kind = MessageKind::Publish;
        let message =
            iodyno_msglog::protocol::Published { sequence, kind, topic: "t", key: b"", body };
        connection.request(&Request::Publish(message)).unwrap();
    };
    let opened = |connection: &mut Connection<_>| {
        connection.request(&Request::OpenPublisher { name: "p" }).unwrap();
        match connection.reply().unwrap() {
            Reply::Publisher { persisted, number } => (persisted, number),
            other => panic!("{other:?}"),
        }
    };
    let persisted = |connection: &mut Connection<_>, sequence| loop {
        match connection.reply().unwrap() {
            Reply::Persisted { sequence: found } if found >= sequence => return found,
            Reply::Persisted { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(opened(&mut first).0, 0);
    for sequence in 1..=3 {
        publish(&mut first, sequence, &[sequence as u8]);
    }
    assert_eq!(persisted(&mut first, 3), 3);
    // It is sent again, and acknowledged.
    publish(&mut first, 2, b"again");
    assert_eq!(persisted(&mut first, 2), 3);
    // Another connection takes the name.
    let mut second = connect(&place);
    assert_eq!(opened(&mut second), (3, 1));
    assert_eq!(code(first.reply().map(|_| ())), ErrorCode::Replaced);
    publish(&mut second, 4, &[4]);
    assert_eq!(persisted(&mut second, 4), 4);
    publish(&mut second, 6, &[6]);
    assert_eq!(code(second.reply().map(|_| ())), ErrorCode::Sequence);
    server.stop();
    let _server = LogServer::start(&place, "a.log");
    let mut third = connect(&place);
    assert_eq!(opened(&mut third), (4, 1));
    publish(&mut third, 3, b"again");
    publish(&mut third, 5, &[5]);
    assert_eq!(persisted(&mut third, 5), 5);
    let bodies: Vec<Vec<u8>> =
        replay(&place, Start::Oldest).into_iter().map(|it| it.body).collect();
    assert_eq!(bodies, [[1], [2], [3], [4], [5]]);
}

/// On an emulated device behind NBD, failed writes stop the log. Messages persisted before are still served, and exist
/// after a restart.
#[test]
fn a_target_that_fails_stops_the_log_and_loses_nothing() {
    const TARGET: &str = "nbd+unix:///?socket=nbd.sock";
    let place = Place::new();
    flash(&place, "flash.toml", true, 0);
    let device = Served::start(&place, "./flash.toml --no-floor");
    place.iodyno(&format!("log create {TARGET}")).succeeds();
    place.iodyno(&format!("log create {TARGET}")).fails(3, &["a message log"]);
    let server = LogServer::start(&place, TARGET);
    let publish = |count: usize| {
        let messages: Vec<_> = (1..=count).map(|i| format!("message-{i}")).collect();
        let messages = messages.join(" ");
        place.iodyno(&format!("log publish --at unix:l.sock --name p --patience 0s {messages}"))
    };
    publish(100).succeeds();
    // A subscriber is told, too, and its messages were those that were persisted.
    let mut subscriber = connect(&place);
    subscriber.read(Start::Oldest, End::Never, "", "").unwrap();
    let bodies = |all: Vec<Got>| -> Vec<String> {
        all.into_iter().map(|it| String::from_utf8(it.body).unwrap()).collect()
    };
    let mut persisted: Vec<_> = (1..=100).map(|i| format!("message-{i}")).collect();
    assert_eq!(bodies(take(&mut subscriber, 100).unwrap().0), persisted);
    device.fault("error 100% writes");
    publish(1).fails(4, &["a write of", "broken"]);
    assert_eq!(code(subscriber.reply().map(|_| ())), ErrorCode::Broken);
    // It ends, so that a supervisor starts it again.
    let said = server.ends(4);
    assert!(said.contains("error: nbd+unix:") && said.contains("a write of"), "{said}");
    device.fault("clear");
    let server = LogServer::start(&place, TARGET);
    let bodies = || bodies(replay(&place, Start::Oldest));
    // What failed may have reached the device all the same.
    let after = bodies();
    persisted.extend(after.get(100).filter(|it| *it == "message-1").cloned());
    assert_eq!(after, persisted);
    publish(1).succeeds();
    let next = after.len() as u64 + 1;
    assert_eq!(replay(&place, Start::Message(next))[0].sequence, next);
    server.stop();
}

/// A publisher that is allowed to drop messages does not wait, and counts the dropped ones.
#[test]
fn publishers_drop_only_where_they_may() {
    let place = Place::new();
    let _server = LogServer::with_log(&place, "--size 16MiB", "");
    let socket = socket(&place);
    let options = PublisherOptions {
        held_bytes_max: 10_000,
        at_limit: AtLimit::Drop,
        ..PublisherOptions::default()
    };
    let mut publisher = Publisher::open(move || dial(&socket), options).unwrap();
    let published = (0..200)
        .filter(|_| publisher.publish(MessageKind::Publish, "t", b"", &[1; 499]).unwrap().is_some())
        .count();
    publisher.finish().unwrap();
    assert_eq!((published as u64 + publisher.dropped(), published), (200, 20));
    assert_eq!(replay(&place, Start::Oldest).len(), published);
}

#[test]
fn tokens_and_tls_keep_others_out() {
    let place = Place::new();
    let authority = Authority::new();
    authority.trusted_in(&place.path("pki"));
    authority.server(&place.path("pki"), "localhost");
    authority.client(&place.path("pki"));
    place.write("token", "correct horse\n");
    place.write("other", "wrong horse\n");
    place.write("empty", "\n");
    for secret in ["token", "other", "empty"] {
        let only_owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(place.path(secret), only_owner).unwrap();
    }
    place.iodyno("log create a.log --size 4MiB").succeeds();
    place.iodyno("log serve a.log --tcp 0.0.0.0:0").fails(4, &["open to other machines", "--tls"]);
    place.iodyno("log serve a.log --token-file empty").fails(2, &["no token"]);
    let serve = "a.log --tcp 127.0.0.1:0 --token-file token \
                 --tls pki/server-cert.pem,pki/server-key.pem,pki/ca-cert.pem";
    let server = LogServer::start(&place, serve);
    let tcp = server.tcp();
    let port = tcp.rsplit_once(':').unwrap().1;
    let tls = "--tls pki/ca-cert.pem,pki/client-cert.pem,pki/client-key.pem";
    // What can't change is not tried again.
    let publish = |words: &str| {
        let output = place.iodyno(&format!("log publish --patience 1h {words} hello"));
        for wrong in ["trying again", "is the server running"] {
            assert!(!output.stderr.contains(wrong), "{}", output.stderr);
        }
        output
    };
    publish(&format!("--at localhost:{port} {tls} --token-file token")).succeeds();
    publish("--at unix:l.sock --token-file token").succeeds();
    publish("--at unix:l.sock").fails(2, &["requires a token"]);
    publish("--at unix:l.sock --token-file other").fails(2, &["does not match"]);
    publish(&format!("--at localhost:{port} {tls} --token-file other")).fails(2, &["token"]);
    // Without TLS, without a certificate of its own, and for another name.
    let plain = format!("--at {tcp} --token-file token");
    let bare = format!("--at localhost:{port} --tls pki/ca-cert.pem --token-file token");
    let named = format!("--at {tcp} {tls} --token-file token");
    Authority::new().trusted_in(&place.path("alien"));
    let alien = format!(
        "--at localhost:{port} --tls alien/ca-cert.pem,pki/client-cert.pem,pki/client-key.pem"
    );
    let unnamed = format!("--at localhost:{port} {tls} --tls-name a/b");
    let to_plain = format!("--at unix:l.sock {tls} --tls-name localhost");
    for (words, says) in [
        (&plain, "the server requires TLS: give the server's CA with --tls"),
        (&bare, "the peer refuses the TLS connection (alert CertificateRequired)"),
        (&named, "certificate is not accepted: certificate not valid for name"),
        (&alien, "signed by an authority that is not trusted here"),
        (&unnamed, "not a valid host name for a certificate"),
        (&to_plain, "the peer does not use TLS"),
    ] {
        publish(words).fails(4, &[says]);
        for command in ["status", "subscribe", "replay", "query"] {
            place.iodyno(&format!("log {command} {words}")).fails(4, &[says]);
        }
    }
    // Both directions at once over TLS.
    let mut command = place.command(&format!(
        "log publish --at localhost:{port} {tls} --token-file token --name many"
    ));
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines: Vec<_> = (0..20_000).map(|i| format!("line {i}\n")).collect();
    let lines = lines.concat();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    let read =
        format!("log replay --at localhost:{port} {tls} --token-file token --bodies --from 3");
    assert_eq!(place.iodyno(&read).succeeds().stdout, lines);
    server.stop();
}

/// Script for the Python client: publishes while its server is killed, and reads the persisted messages.
const SCRIPT: &str = r#"
import sys, time
sys.path.insert(0, sys.argv[1])
from iodyno.log import *

with Publisher("unix:l.sock", name="python", held_max=100, token=b"secret") as publisher:
    for i in range(1, 3001):
        assert publisher.publish("t", b"k%d" % (i % 7), b"body %d" % i) == i
        if i == 1000:
            print("half", flush=True)
            sys.stdin.readline()
    publisher.publish("t", b"k0", b"", deletes=True)
    publisher.finish()
    assert publisher.persisted == 3001
connection = Connection("unix:l.sock", token=b"secret")
assert connection.welcome.next == 3002, connection.welcome
bookmark, values = connection.query(topic="t")
assert bookmark == 3002 and [v.key for v in values] == [b"k%d" % i for i in range(1, 7)], values
assert connection.status()["values"] == 6
got = list(connection.read(start=OLDEST, end=NOW))
assert [m.number for m in got] == list(range(1, 3002)) and connection.bookmark == 3002
assert [m.body for m in got[:-1]] == [b"body %d" % i for i in range(1, 3001)] and got[-1].deletes
assert [m.number for m in connection.read(start=2990, end=2995)] == [2990, 2991, 2992, 2993, 2994]
later = list(connection.read(start_time_ns=got[1500].time_ns, end=NOW))
assert later[0].time_ns == got[1500].time_ns and later[0].number <= 1501
assert [m.body for m in connection.read(start=OLDEST, end=NOW, filter="key = 'k3'")][:2] == [b"body 3", b"body 10"]
try:
    connection.query(filter="((")
    raise SystemExit("a wrong filter was taken")
except ServerError as error:
    assert error.code == 11, error
try:
    Connection("unix:l.sock", token=b"other")
    raise SystemExit("a wrong token was taken")
except ServerError as error:
    assert error.code == 3, error
print("whole")
"#;

#[test]
fn the_client_in_python_speaks_the_documented_protocol() {
    let place = Place::new();
    place.write("token", "secret\n");
    place.write("script.py", SCRIPT);
    let serve = "--token-file token";
    let server = LogServer::with_log(&place, "--size 16MiB", serve);
    let clients = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/python");
    let mut child = Command::new("python3")
        .args(["script.py", clients])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(place.work())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "half");
    server.kill();
    let _server = LogServer::start(&place, &format!("a.log {serve}"));
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert_eq!(lines.next().map(Result::unwrap).as_deref(), Some("whole"));
    assert!(child.wait().unwrap().success());
}
