//! A message log's server that is killed at random moments while publishers and subscribers continue. Every persisted
//! message exists exactly once and in order, nothing else exists, and the current values equal those of a rebuild.
//!
//! For more kills: `IODYNO_LOG_KILLS=1000 cargo test -p iodyno --test it log_kills::kills`. The last such run, on
//! 2026-11-26: 1,000 kills, 500,081 messages, in 565 s on a busy machine. A server that acknowledges before it has
//! written fails within 15 kills. A server that does not flush passes, because the kernel keeps what a killed process
//! has written; the power cuts of `msglog/tests/power_cuts.rs` find that.

use crate::log_server::{
    Got, LogServer, Values, connect, dial, publisher, query, replay, socket, take,
};
use crate::place::Place;
use iodyno_msglog::MessageKind;
use iodyno_msglog::client::{ClientError, Connection};
use iodyno_msglog::protocol::{End, Start};
use iodyno_units::rng::{below, stream};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PUBLISHERS: u64 = 3;
/// Number of messages that a publisher sends between two pauses.
const BURST: u64 = 40;
/// Topic of the last message of all.
const LAST: &str = "last";

/// The content of a message, by its publisher and sequence.
fn content(publisher: u64, sequence: u64) -> (MessageKind, Vec<u8>, Vec<u8>) {
    let mut rng = stream(publisher, "message", sequence);
    let deletes = below(&mut rng, 12) == 0;
    let kind = if deletes { MessageKind::Delete } else { MessageKind::Publish };
    let key = format!("k{}", below(&mut rng, 20)).into_bytes();
    let len = if deletes { 0 } else { below(&mut rng, 300) as usize };
    (kind, key, format!("{publisher} {sequence} {}", "x".repeat(len)).into_bytes())
}

#[test]
fn kills_lose_and_double_nothing() {
    let kills: u64 = std::env::var("IODYNO_LOG_KILLS").map_or(15, |n| n.parse().unwrap());
    let seed: u64 = std::env::var("IODYNO_LOG_SEED").map_or(1, |n| n.parse().unwrap());
    let place = Place::new();
    let size = format!("--size {}MiB", 32 + kills / 2);
    let mut server = LogServer::with_log(&place, &size, "");
    let (is_over, has_failed) = (AtomicBool::new(false), AtomicBool::new(false));
    let (server, sent, followed) = std::thread::scope(|scope| {
        let publishers: Vec<_> = (1..=PUBLISHERS)
            .map(|number| {
                let (place, is_over) = (&place, &is_over);
                scope.spawn(move || {
                    let topic = format!("t{number}");
                    let mut publisher = publisher(place, &topic);
                    while !is_over.load(Ordering::Relaxed) {
                        for _ in 0..BURST {
                            let (kind, key, body) = content(number, publisher.next_sequence());
                            publisher.publish(kind, &topic, &key, &body).unwrap();
                        }
                        // Some wait for their messages, and some only send them.
                        match number {
                            3 => publisher.flush().unwrap(),
                            _ => publisher.finish().unwrap(),
                        }
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    publisher.finish().unwrap();
                    (topic, publisher.next_sequence() - 1, publisher.reconnects())
                })
            })
            .collect();
        let follower = {
            let (place, has_failed) = (&place, &has_failed);
            scope.spawn(move || follow(place, has_failed))
        };
        let mut rng = stream(seed, "kills", 0);
        for _ in 0..kills {
            // Publishers have found the server again.
            let at_least = next(&place) + 1 + below(&mut rng, 100);
            while next(&place) < at_least {
                if publishers.iter().any(std::thread::ScopedJoinHandle::is_finished) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_micros(below(&mut rng, 20_000)));
            server.kill();
            server = LogServer::start(&place, "a.log");
        }
        is_over.store(true, Ordering::Relaxed);
        let sent: Result<Vec<_>, _> =
            publishers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        let Ok(sent) = sent else {
            has_failed.store(true, Ordering::Relaxed);
            server.kill();
            panic!("a publisher has failed");
        };
        let mut last = publisher(&place, "");
        last.publish(MessageKind::Publish, LAST, b"", b"").unwrap();
        last.finish().unwrap();
        (server, sent, follower.join().unwrap())
    });
    assert!(sent.iter().map(|(.., reconnects)| reconnects).sum::<u64>() >= kills, "{sent:?}");
    let all = replay(&place, Start::Oldest);
    assert!(all.iter().zip(1..).all(|(it, number)| it.number == number));
    let mut by_topic: BTreeMap<&str, Vec<&Got>> = BTreeMap::new();
    for it in &all {
        by_topic.entry(&it.topic).or_default().push(it);
    }
    assert_eq!((by_topic.len() as u64, by_topic[LAST].len()), (PUBLISHERS + 1, 1));
    for ((topic, last, _), number) in sent.iter().zip(1..) {
        let got = &by_topic[&**topic];
        assert_eq!(got.len() as u64, *last, "{topic}");
        for (it, sequence) in got.iter().zip(1..) {
            let (kind, key, body) = content(number, sequence);
            let found = (it.sequence, it.deletes, &it.key, &it.body);
            assert_eq!(found, (sequence, kind == MessageKind::Delete, &key, &body), "{topic}");
        }
    }
    // What a subscriber saw over all breaks is what was persisted.
    let differs = followed.iter().zip(&all).position(|(saw, is)| saw != is);
    assert_eq!((followed.len(), differs), (all.len(), None));
    let (next, values) = query(&place);
    assert_eq!((next, Values::of(&values)), (all.len() as u64 + 1, Values::of(&all)));
    server.stop();
    let checked = place.iodyno("log check a.log --json").succeeds().json();
    assert_eq!(checked["messages"], all.len());
    assert_eq!(checked["damages"], serde_json::json!([]));
    println!("{kills} kills, {} messages", all.len());
}

/// Number of the next message to be persisted.
fn next(place: &Place) -> u64 {
    connect(place).welcome().unwrap().next
}

/// Subscribes from its bookmark, and again after each broken connection, up to the last message.
fn follow(place: &Place, has_failed: &AtomicBool) -> Vec<Got> {
    let mut all: Vec<Got> = Vec::new();
    while !has_failed.load(Ordering::Relaxed) {
        let Ok(stream) = dial(&socket(place)) else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        let Ok(mut connection) = Connection::begin(stream, b"") else { continue };
        let bookmark = Start::Message(all.last().map_or(1, |it| it.number + 1));
        match connection.read(bookmark, End::Never, "", "") {
            Ok(_) => {}
            Err(ClientError::Io(_)) => continue,
            Err(other) => panic!("{other}"),
        }
        while let Ok((got, _)) = take(&mut connection, 1) {
            all.extend(got);
            if all.last().is_some_and(|it| it.topic == LAST) {
                return all;
            }
        }
    }
    all
}

/// A connection opened before the kill does not belong to the new server.
#[test]
fn a_killed_server_is_replaced_on_the_same_socket() {
    let place = Place::new();
    let server = LogServer::with_log(&place, "--size 4MiB", "");
    let mut old = connect(&place);
    server.kill();
    let _server = LogServer::start(&place, "a.log");
    assert!(old.status().is_err());
    assert!(connect(&place).status().unwrap().contains("\"values\":0"));
}
