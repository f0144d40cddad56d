//! Limits on the resources of a message log's server that clients may hold: connections, handshakes, memory, and the
//! time of its threads.

use crate::log_server::{LogServer, code, connect, dial, publisher, socket, take};
use crate::place::{A_MOMENT, Place};
use iodyno_msglog::MessageKind;
use iodyno_msglog::client::Connection;
use iodyno_msglog::protocol::{End, ErrorCode, Published, Reply, Request, Start};
use iodyno_nbd::stream::Stream;
use serde_json::Value;
use std::io::{ErrorKind, Read as _, Write as _};
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

/// Publishes messages whose bodies take time to filter.
fn fill(place: &Place, topic: &str, count: usize) {
    let body = format!("{{\"a\": \"{}\"}}", "a".repeat(60_000));
    let mut publisher = publisher(place, "filler");
    for i in 0..count {
        let key = i.to_string();
        publisher.publish(MessageKind::Publish, topic, key.as_bytes(), body.as_bytes()).unwrap();
    }
    publisher.finish().unwrap();
}

/// A read up to a future message ends when its client disconnects. A client that only closes its sending side gets its
/// bookmark.
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

/// Scans that match nothing, and filters that would take minutes, delay neither replies on the same connection, nor
/// other clients, nor the server's shutdown.
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
    // The scan of a client that left ends before one of fewer messages that began earlier: it does not go on to its end.
    let mut earlier = connect(&place);
    earlier.read(Start::Message(80), End::Now, "", &costly).unwrap();
    let mut left = connect(&place);
    left.read(Start::Oldest, End::Message(u64::MAX), "", &costly).unwrap();
    drop(left);
    waits_until("the client is gone", || status(&place)["connections"] == 6);
    let received = earlier.stream().receive(&mut [0], Some(Instant::now()));
    assert_eq!(received.map_err(|e| e.kind()), Err(ErrorKind::TimedOut));
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

/// Memory that the server uses for clients, bytes.
fn used_bytes(place: &Place) -> u64 {
    status(place)["memory_used_bytes"].as_u64().unwrap()
}

/// Received data, queued requests and parsed filters take memory of the clients' budget. While a request waits for
/// memory, a client that holds some and reads nothing is disconnected.
#[test]
fn requests_share_a_budget_of_memory() {
    let place = Place::new();
    let server = LogServer::start(&place, "ram:64MiB --memory 64MiB");
    fill(&place, "t", 100);
    let half = connect(&place);
    half.stream().send(&[&60_000_u32.to_le_bytes()[..], &vec![3; 30_000]].concat(), None).unwrap();
    waits_until("half of a frame is counted", || used_bytes(&place) > 50_000);
    // Each of two leaves a stream unread, and has queries of 3.8 MB wait behind it; there are 8 MiB.
    let filter = format!("/a = '{}'", "a".repeat(60_000));
    let mut unread: Vec<Connection<Stream>> = (0..2)
        .map(|_| {
            let mut client = connect(&place);
            client.read(Start::Oldest, End::Now, "", "").unwrap();
            let mut query = Vec::new();
            Request::Query { topic: "none", filter: &filter }.encode(&mut query).unwrap();
            for _ in 0..63 {
                client.stream().send(&query, None).unwrap();
            }
            client
        })
        .collect();
    waits_until("queued requests are counted", || used_bytes(&place) > 7_500_000);
    // The parsed filter of a third needs as much.
    let mut reads = connect(&place);
    reads.query("none", &filter).unwrap();
    assert_eq!(take(&mut reads, usize::MAX).unwrap(), (Vec::new(), None));
    let ended = unread.iter_mut().filter_map(|client| take(client, usize::MAX).err());
    let codes: Vec<ErrorCode> = ended.map(|error| code(Err::<(), _>(error))).collect();
    assert!(!codes.is_empty() && codes.iter().all(|it| *it == ErrorCode::Memory), "{codes:?}");
    drop((half, unread, reads));
    waits_until("all is given back", || used_bytes(&place) == 0);
    server.stop();
}

/// A snapshot whose client does not read keeps superseded values up to a limit. Then the snapshot ends, and its client
/// gets an error.
#[test]
fn unread_snapshots_keep_values_up_to_a_limit() {
    let place = Place::new();
    let server = LogServer::start(&place, "ram:128MiB --memory 32MiB");
    fill(&place, "t", 200);
    let unread = || {
        let mut client = connect(&place);
        client.query("", "").unwrap();
        client
    };
    let first = unread();
    fill(&place, "t", 100);
    waits_until("what it keeps is counted", || used_bytes(&place) > 5_000_000);
    // 12 MB of values each time, and 8 MiB for all snapshots together: each ends, although nobody reads.
    let mut others: Vec<_> = (0..5)
        .map(|_| {
            let client = unread();
            fill(&place, "t", 200);
            client
        })
        .collect();
    waits_until("snapshots hold nothing", || used_bytes(&place) == 0);
    // The latest ends after 2 s without memory.
    std::thread::sleep(Duration::from_secs(4));
    let ended = take(others.last_mut().unwrap(), usize::MAX).map(drop);
    assert_eq!(code(ended), ErrorCode::Memory);
    drop((first, others));
    // One that reads gets all, while values change.
    let mut reads = connect(&place);
    reads.query("", "").unwrap();
    fill(&place, "t", 20);
    assert_eq!(take(&mut reads, usize::MAX).unwrap().0.len(), 200);
    server.stop();
}

/// Connections that have not presented a token are closed for new ones, and don't count towards the limit of
/// authenticated connections.
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
    Request::Hello { version: 1, token: b"secret" }.encode(&mut hello).unwrap();
    remote.write_all(&hello).unwrap();
    let mut welcome = [0; 5];
    remote.read_exact(&mut welcome).unwrap();
    assert_eq!(welcome[4], 64, "{welcome:?}");
    drop(remote);
    waits_until("handshakes are over", || handshakes() == 0);
    server.stop();
}
