//! Limits on the resources of a message log's server that clients may hold: connections, handshakes, memory, and the
//! time of its threads.

use crate::log_server::{LogServer, code, connect, dial, publisher, socket, take};
use crate::place::{A_MOMENT, Place};
use iodyno_msglog::MessageKind;
use iodyno_msglog::client::Connection;
use iodyno_msglog::protocol::{End, ErrorCode, Published, Reply, Request, Start};
use iodyno_nbd::stream::Stream;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn status(place: &Place) -> Value {
    serde_json::from_str(&connect(place).status().unwrap()).unwrap()
}

#[track_caller]
fn waits_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(A_MOMENT);
    }
}

/// Bodies that take a while to look at.
fn fill(place: &Place, topic: &str, count: usize) {
    let body = format!("{{\"a\": \"{}\"}}", "a".repeat(60_000));
    let mut publisher = publisher(place, "filler");
    for i in 0..count {
        let key = i.to_string();
        publisher.publish(MessageKind::Publish, topic, key.as_bytes(), body.as_bytes()).unwrap();
    }
    publisher.finish().unwrap();
}

/// A read whose end is still to come does not outlast its client. One that sends no more gets its bookmark.
#[test]
fn reads_to_the_future_end_with_their_clients() {
    let place = Place::new();
    let server = LogServer::start(&place, "ram:16MiB");
    for _ in 0..20 {
        let mut left = connect(&place);
        left.read(Start::Now, End::Message(u64::MAX), "none", "").unwrap();
    }
    waits_until("only this client is there", || status(&place)["connections"] == 1);
    fill(&place, "t", 3);
    let mut half_closed = connect(&place);
    half_closed.read(Start::Oldest, End::Message(1000), "none", "").unwrap();
    half_closed.stream().end_sending();
    let Reply::StreamEnd { next } = half_closed.reply().unwrap() else { panic!("no end") };
    assert_eq!(next, 4);
    // What it published itself is waited for.
    let mut own = connect(&place);
    let message = Published {
        sequence: 1,
        kind: MessageKind::Publish,
        topic: "own",
        key: b"",
        body: b"the last",
    };
    own.gather(&Request::OpenPublisher { name: "" }).unwrap();
    own.gather(&Request::Publish(message)).unwrap();
    let (start, end) = (Start::Message(4), End::Message(5));
    own.request(&Request::Read { start, end, topic: "own", filter: "" }).unwrap();
    own.stream().end_sending();
    let mut bodies = 0;
    let next = loop {
        match own.reply().unwrap() {
            Reply::Message { message, .. } => bodies += usize::from(message.body == b"the last"),
            Reply::StreamEnd { next } => break next,
            _ => {}
        }
    };
    assert_eq!((next, bodies), (5, 1));
    server.stop();
}

/// Scans that match nothing, and filters that would take minutes, hold up neither what their own connection is owed, nor other
/// clients, nor the server's end.
#[test]
fn scans_leave_for_what_else_is_due() {
    let place = Place::new();
    let server = LogServer::start(&place, "ram:64MiB");
    fill(&place, "t", 100);
    // 1,000 patterns that each look at all of a body.
    let costly = vec!["/a LIKE '%ab%'"; 1000].join(" OR ");
    let mut scans: Vec<Connection<Stream>> = (0..4)
        .map(|_| {
            let mut scan = connect(&place);
            scan.request(&Request::OpenPublisher { name: "" }).unwrap();
            assert!(matches!(scan.reply().unwrap(), Reply::Publisher { .. }));
            scan.read(Start::Oldest, End::Message(u64::MAX), "", &costly).unwrap();
            scan
        })
        .collect();
    let message =
        Published { sequence: 1, kind: MessageKind::Publish, topic: "t", key: b"", body: b"x" };
    scans[0].request(&Request::Publish(message)).unwrap();
    assert!(matches!(scans[0].reply().unwrap(), Reply::Persisted { sequence: 1 }));
    assert!(scans[1].status().is_ok());
    scans.pop();
    waits_until("the client is gone", || status(&place)["connections"] == 4);
    // A single evaluation has its limit, too, and the message's number is said.
    let mut too_costly = connect(&place);
    let pattern = format!("/a LIKE '%{}_{}b%'", "a".repeat(16_001), "a".repeat(15_999));
    too_costly.read(Start::Message(5), End::Now, "", &pattern).unwrap();
    let error = too_costly.reply().map(|_| ());
    assert!(
        error.as_ref().unwrap_err().to_string().contains("message 5: the filter takes too long")
    );
    assert_eq!(code(error), ErrorCode::Filter);
    server.stop();
}

/// Requests with long filters that wait hold little memory, and are answered one after the other.
#[test]
fn waiting_requests_hold_little_memory() {
    let place = Place::new();
    let server = LogServer::start(&place, "ram:64MiB --memory 16MiB");
    fill(&place, "t", 100);
    let filter = "/a".repeat(32_000) + "=1";
    let mut clients: Vec<Connection<Stream>> = (0..4)
        .map(|_| {
            let mut client = connect(&place);
            client.read(Start::Oldest, End::Now, "", "").unwrap();
            client
        })
        .collect();
    std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| {
                let mut query = Vec::new();
                Request::Query { topic: "", filter: &filter }.encode(&mut query);
                // More than there is memory for, of all of them.
                let until = Instant::now() + Duration::from_secs(3);
                let sent =
                    (0..60).take_while(|_| client.stream().send(&query, Some(until)).is_ok());
                let sent = sent.count();
                // Nobody has read: those that have not given up are answered now.
                let mut answered = 0;
                let end = loop {
                    match client.reply() {
                        Ok(Reply::SnapshotEnd { .. }) => answered += 1,
                        Ok(_) => {}
                        Err(error) => break Err(error),
                    }
                    if answered == sent {
                        break Ok(());
                    }
                };
                assert!(end.is_ok() || code(end) == ErrorCode::Memory);
            });
        }
        let used = status(&place)["memory_used_bytes"].as_u64().unwrap();
        assert!(used <= 16 << 20, "{used}");
    });
    drop(clients);
    waits_until("all is given back", || status(&place)["memory_used_bytes"] == 0);
    server.stop();
}

/// A snapshot whose client does not read keeps what is overwritten up to a limit. Then it ends, and its client learns why.
#[test]
fn unread_snapshots_keep_values_up_to_a_limit() {
    let place = Place::new();
    let server = LogServer::start(&place, "ram:128MiB --memory 32MiB");
    fill(&place, "t", 200);
    let mut unread: Vec<_> = (0..6)
        .map(|_| {
            let mut client = connect(&place);
            client.query("", "").unwrap();
            fill(&place, "t", 200);
            client
        })
        .collect();
    // 12 MB of values each time, and 8 MiB for all snapshots together: each ends after 2 s without memory. The latest
    // is told within 5 s more.
    std::thread::sleep(std::time::Duration::from_secs(4));
    let ended = take(unread.last_mut().unwrap(), usize::MAX);
    assert_eq!(code(ended), ErrorCode::Memory);
    drop(unread);
    waits_until("snapshots hold nothing", || status(&place)["memory_used_bytes"] == 0);
    // One that reads gets all, while values change.
    let mut reads = connect(&place);
    reads.query("", "").unwrap();
    fill(&place, "t", 20);
    assert_eq!(take(&mut reads, usize::MAX).unwrap().0.len(), 200);
    server.stop();
}

/// Connections that show no token give way to others, and take no place of those that do.
#[test]
fn silent_connections_lock_nobody_out() {
    let place = Place::new();
    place.write("token", "secret");
    let server = LogServer::start(&place, "ram:8MiB --token-file token --tcp 127.0.0.1:0");
    let tcp = server.tcp();
    let mut silent: Vec<TcpStream> = Vec::new();
    let handshakes = || {
        let mut local = Connection::begin(dial(&socket(&place)).unwrap(), b"secret").unwrap();
        let status: Value = serde_json::from_str(&local.status().unwrap()).unwrap();
        // One before it may be leaving.
        assert!(status["connections"].as_u64().unwrap() <= 3, "{status}");
        status["handshakes"].as_u64().unwrap()
    };
    for _ in 0..400 {
        silent.push(TcpStream::connect(&tcp).unwrap());
    }
    // The oldest connection was closed, and the newest is still open, unless this test took longer
    // than its timeout.
    silent[0].set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert!(matches!(silent[0].read(&mut [0]), Ok(0) | Err(_)));
    assert!(handshakes() <= 256);
    let mut remote = TcpStream::connect(&tcp).unwrap();
    let mut hello = Vec::new();
    Request::Hello { version: 1, token: b"secret" }.encode(&mut hello);
    remote.write_all(&hello).unwrap();
    let mut welcome = [0; 5];
    remote.read_exact(&mut welcome).unwrap();
    assert_eq!(welcome[4], 64, "{welcome:?}");
    drop(remote);
    waits_until("handshakes are over", || handshakes() == 0);
    server.stop();
}
