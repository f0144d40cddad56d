//! Clients that stall, flood or lie: each loses at most its own connection, and delays no other client.

use crate::log_server::{LogServer, code, connect, dial, publisher, replay, socket, take};
use crate::place::Place;
use iodyno_msglog::MessageKind;
use iodyno_msglog::client::Connection;
use iodyno_msglog::protocol::{End, ErrorCode, Published, Reply, Request, Start, VERSION};
use iodyno_nbd::stream::Stream;
use iodyno_units::rng::{below, stream};
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Number of streams of random frames that broken clients send.
const LIES: u64 = 150;

/// Publishes and reads a few messages, to show that an honest client is served while others misbehave.
fn goes_on(place: &Place, name: &str) {
    let mut publisher = publisher(place, name);
    let from = connect(place).welcome().unwrap().next;
    for i in 0..50_u8 {
        publisher.publish(MessageKind::Publish, name, b"", &[i; 100]).unwrap();
    }
    publisher.finish().unwrap();
    let mut connection = connect(place);
    connection.read(Start::Message(from), End::Now, name, "").unwrap();
    let got = take(&mut connection, usize::MAX).unwrap().0;
    assert_eq!(got.iter().map(|it| it.body[0]).collect::<Vec<_>>(), (0..50).collect::<Vec<_>>());
}

/// Subscribers that read nothing delay neither publishers nor other subscribers. A subscriber whose messages are no
/// longer retained gets an error with the number of the oldest message.
#[test]
fn stalled_subscribers_hold_up_nobody() {
    let place = Place::new();
    let _server = LogServer::with_log(&place, "--size 8MiB --segment 128KiB --chunk 16KiB", "");
    let mut stalled: Vec<_> = (0..8)
        .map(|_| {
            let mut connection = connect(&place);
            assert_eq!(connection.read(Start::Now, End::Never, "", "").unwrap(), 1);
            connection
        })
        .collect();
    // Publishers that never take an acknowledgement.
    let mut deaf: Vec<_> = (0..4)
        .map(|i| {
            let mut connection = connect(&place);
            let name = format!("deaf {i}");
            connection.request(&Request::OpenPublisher { name: &name }).unwrap();
            connection
        })
        .collect();
    let mut publisher = publisher(&place, "p");
    let mut follower = connect(&place);
    follower.read(Start::Now, End::Never, "t", "").unwrap();
    // Three times what the log keeps.
    let body = [5; 3000];
    for sequence in 1..=8000_u64 {
        publisher.publish(MessageKind::Publish, "t", b"", &body).unwrap();
        for connection in &mut deaf {
            let (topic, key, kind) = ("deaf", &[][..], MessageKind::Publish);
            let message = Published { sequence, kind, topic, key, body: b"x" };
            connection.gather(&Request::Publish(message)).unwrap();
        }
        if sequence % 50 == 0 {
            publisher.finish().unwrap();
            let got = take(&mut follower, 50).unwrap().0;
            assert_eq!(got.last().unwrap().sequence, sequence);
        }
    }
    let gone = loop {
        match take(&mut stalled[0], 1) {
            Ok(_) => {}
            Err(iodyno_msglog::client::ClientError::Server(error)) => break error,
            Err(other) => panic!("{other:?}"),
        }
    };
    assert_eq!(gone.code, ErrorCode::Gone, "{gone}");
    assert!(gone.number > 1, "{gone}");
    assert_eq!(
        code(connect(&place).read(Start::Message(1), End::Now, "", "").and_then(|_| {
            let mut connection = connect(&place);
            connection.read(Start::Message(1), End::Now, "", "")?;
            take(&mut connection, 1)
        })),
        ErrorCode::Gone
    );
    // A stream that ends before the oldest message names that message, at which a later one can continue.
    let next_of = |start, end| {
        let mut connection = connect(&place);
        connection.read(start, end, "", "").unwrap();
        take(&mut connection, usize::MAX).unwrap().1.unwrap()
    };
    let oldest = next_of(Start::Oldest, End::Message(3));
    assert!(oldest > 3, "{oldest}");
    assert_eq!(next_of(Start::Message(oldest), End::Message(oldest + 1)), oldest + 1);
    goes_on(&place, "good");
    for connection in &mut deaf {
        connection.send().unwrap();
        let sequence = loop {
            match connection.reply().unwrap() {
                Reply::Persisted { sequence: 8000 } => break 8000,
                Reply::Persisted { .. } | Reply::Publisher { .. } => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(sequence, 8000);
    }
}

/// Sends bytes on a new connection. Returns the code of the error that the server sends last, if any.
fn say(socket: &Path, bytes: &[u8]) -> Option<ErrorCode> {
    let mut connection: Connection<Stream> = Connection::begin(dial(socket).unwrap(), b"").unwrap();
    // The server may have closed before it has taken all.
    let _ = connection.stream().send(bytes, Some(Instant::now() + Duration::from_secs(20)));
    connection.stream().end_sending();
    loop {
        match connection.reply() {
            Ok(_) => {}
            Err(iodyno_msglog::client::ClientError::Server(error)) => return Some(error.code),
            Err(iodyno_msglog::client::ClientError::Io(_)) => return None,
            Err(other) => panic!("{other:?}"),
        }
    }
}

fn frame(request: &Request<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    request.encode(&mut bytes).unwrap();
    bytes
}

fn message(sequence: u64, topic: &str, body: &[u8]) -> Vec<u8> {
    let kind = MessageKind::Publish;
    frame(&Request::Publish(Published { sequence, kind, topic, key: b"", body }))
}

#[test]
fn clients_that_lie_lose_their_own_connection_alone() {
    let place = Place::new();
    let mut server = LogServer::with_log(&place, "--size 16MiB --chunk 16KiB", "");
    let socket = socket(&place);
    let open = frame(&Request::OpenPublisher { name: "liar" });
    let read = frame(&Request::Read { start: Start::Now, end: End::Never, topic: "", filter: "" });
    let ahead = frame(&Request::Read {
        start: Start::Message(1 << 60),
        end: End::Now,
        topic: "",
        filter: "",
    });
    let lies: Vec<(&str, Vec<u8>, ErrorCode)> = vec![
        ("no length", vec![0; 4], ErrorCode::Malformed),
        ("a long frame", [&u32::MAX.to_le_bytes()[..], &[3]].concat(), ErrorCode::Malformed),
        ("a kind of the server's", vec![1, 0, 0, 0, 69], ErrorCode::Malformed),
        ("a message without a publisher", message(1, "t", b"x"), ErrorCode::Malformed),
        (
            "a second hello",
            frame(&Request::Hello { version: VERSION, token: b"" }),
            ErrorCode::Malformed,
        ),
        ("two publishers", [&open[..], &open].concat(), ErrorCode::Malformed),
        ("bytes behind a field", vec![2, 0, 0, 0, 6, 1], ErrorCode::Malformed),
        (
            "a short topic",
            [&open[..], &[12, 0, 0, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 9, b't']].concat(),
            ErrorCode::Malformed,
        ),
        (
            "no UTF-8",
            [&open[..], &[14, 0, 0, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xFF, 0, 0]].concat(),
            ErrorCode::Malformed,
        ),
        ("sequence 0", [&open[..], &message(0, "t", b"x")].concat(), ErrorCode::Sequence),
        ("a gap", [&open[..], &message(2, "t", b"x")].concat(), ErrorCode::Sequence),
        (
            "a message for no chunk",
            [&open[..], &message(1, "t", &[1; 16_340])].concat(),
            ErrorCode::Message,
        ),
        ("two subscriptions", [&read[..], &read].concat(), ErrorCode::Busy),
        ("a bookmark of another log", ahead, ErrorCode::Ahead),
        ("no filter", frame(&Request::Query { topic: "", filter: "= =" }), ErrorCode::Filter),
        (
            "many requests",
            frame(&Request::Query { topic: "", filter: "" }).repeat(200_000),
            ErrorCode::Busy,
        ),
    ];
    let mut follower = connect(&place);
    follower.read(Start::Now, End::Never, "good", "").unwrap();
    for (what, bytes, expected) in lies {
        // This client must stay connected: a closed stream would end the first subscription before
        // the second is refused.
        if expected == ErrorCode::Busy {
            let mut connection = connect(&place);
            let _ = connection.stream().send(&bytes, Some(Instant::now() + Duration::from_secs(1)));
            let error = loop {
                match connection.reply() {
                    Ok(_) => {}
                    Err(error) => break error,
                }
            };
            assert_eq!(code(Err::<(), _>(error)), expected, "{what}");
            continue;
        }
        assert_eq!(say(&socket, &bytes), Some(expected), "{what}");
    }
    // Before the hello.
    for bytes in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[5, 0, 0, 0, 1, 1, 2, 3, 4], &message(1, "t", b"x")]
    {
        let raw = dial(&socket).unwrap();
        raw.send(bytes, None).unwrap();
        raw.end_sending();
        let mut said = Vec::new();
        (&raw).read_to_end(&mut said).unwrap();
        assert_eq!(said.get(4..7), Some(&[65, 1, 0][..]), "{said:?}");
    }
    let raw = dial(&socket).unwrap();
    raw.send(&frame(&Request::Hello { version: 9, token: b"" }), None).unwrap();
    let mut said = [0; 7];
    (&raw).read_exact(&mut said).unwrap();
    assert_eq!(said[4..], [65, 2, 0]);
    // A valid sequence of requests, with bytes changed at random.
    let whole =
        [&open[..], &message(1, "lies", b"x"), &message(2, "lies", &[2; 300]), &read].concat();
    for number in 0..LIES {
        let mut rng = stream(number, "lies", 0);
        let mut bytes = whole.clone();
        for _ in 0..=below(&mut rng, 4) {
            let at = below(&mut rng, bytes.len() as u64) as usize;
            match below(&mut rng, 3) {
                0 => bytes[at] = below(&mut rng, 256) as u8,
                1 => bytes.truncate(at + 1),
                _ => bytes.insert(at, below(&mut rng, 256) as u8),
            }
        }
        say(&socket, &bytes);
    }
    goes_on(&place, "good");
    assert_eq!(take(&mut follower, 50).unwrap().0.len(), 50);
    assert!(server.is_running());
    // What the good client stored is all there is of it.
    let good = replay(&place, Start::Oldest).into_iter().filter(|it| it.topic == "good").count();
    assert_eq!(good, 50);
    server.stop();
    place.iodyno("log check a.log").succeeds();
}

/// Publishers that send as fast as they can, and clients that send empty frames, do not keep others from being served.
#[test]
fn clients_that_flood_let_others_go_on() {
    let place = Place::new();
    let server = LogServer::with_log(&place, "--size 64MiB", "");
    let socket = socket(&place);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let is_over = || stop.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (socket, is_over) = (&socket, &is_over);
            scope.spawn(move || {
                let name = format!("flood {number}");
                let connection = Connection::begin(dial(socket).unwrap(), b"").unwrap();
                let open = frame(&Request::OpenPublisher { name: &name });
                connection.stream().send(&open, None).unwrap();
                let mut sequence = 0;
                while !is_over() {
                    let burst: Vec<u8> = (0..200)
                        .flat_map(|_| {
                            sequence += 1;
                            message(sequence, "flood", &[1; 200])
                        })
                        .collect();
                    let deadline = Some(Instant::now() + Duration::from_secs(30));
                    connection.stream().send(&burst, deadline).unwrap();
                }
            });
        }
        // Connections that say nothing, and half a frame.
        let silent: Vec<Stream> = (0..50).map(|_| dial(&socket).unwrap()).collect();
        for stream in &silent[..25] {
            stream.send(&[200, 0, 0], None).unwrap();
        }
        for round in 0..5 {
            goes_on(&place, &format!("good {round}"));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    server.stop();
    place.iodyno("log check a.log").succeeds();
}

/// A client that does not read waiting data, or leaves a request incomplete, is disconnected at the time limit. A
/// client that is only silent stays connected.
#[test]
fn clients_that_stall_are_disconnected() {
    let place = Place::new();
    let server = LogServer::with_log(&place, "--size 64MiB", "--stall 300ms");
    let socket = socket(&place);
    let mut silent = connect(&place);
    let mut follower = connect(&place);
    follower.read(Start::Now, End::Never, "good", "").unwrap();
    let half = dial(&socket).unwrap();
    let half = Connection::begin(half, b"").unwrap();
    half.stream().send(&[200, 0, 0], None).unwrap();
    let mut deaf = connect(&place);
    deaf.read(Start::Oldest, End::Never, "", "").unwrap();
    // More than the socket and the server hold for one that does not read.
    let mut publisher = publisher(&place, "p");
    for _ in 0..4000 {
        publisher.publish(MessageKind::Publish, "t", b"", &[7; 2000]).unwrap();
    }
    publisher.finish().unwrap();
    drop(publisher);
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let status: serde_json::Value = serde_json::from_str(&silent.status().unwrap()).unwrap();
        if status["connections"] == 2 {
            break;
        }
        assert!(Instant::now() < deadline, "{status}");
        std::thread::sleep(Duration::from_millis(20));
    }
    goes_on(&place, "good");
    assert!(!take(&mut follower, 1).unwrap().0.is_empty());
    server.stop();
}
