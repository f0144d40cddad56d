//! The protocol's codec: encoded frames decode to the same values, and other bytes neither panic nor pass for a
//! frame.

use iodyno_msglog::client::Connection;
use iodyno_msglog::protocol::{
    End, ErrorCode, FRAME_BYTES_MAX, Frame, Malformed, Published, Reply, Request, Start, Welcome,
    frame,
};
use iodyno_msglog::{Durability, Message, MessageKind};
use proptest::prelude::*;
use std::io::{self, Cursor, Read, Write};

fn kind() -> impl Strategy<Value = MessageKind> {
    prop_oneof![Just(MessageKind::Publish), Just(MessageKind::Delete)]
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..max)
}

/// Random parts of requests and replies: topic, key, body, name or filter, token, and numbers.
type Parts = (String, Vec<u8>, Vec<u8>, String, [u64; 4], MessageKind);

fn parts() -> impl Strategy<Value = Parts> {
    ("\\PC{0,40}", bytes(300), bytes(3000), "\\PC{0,60}", any::<[u64; 4]>(), kind())
}

fn requests((topic, key, body, text, [a, b, ..], kind): &Parts) -> Vec<Request<'_>> {
    let starts = [Start::Now, Start::Message(*a), Start::TimeNs(*a), Start::Oldest];
    let ends = [End::Never, End::Now, End::Message(*b)];
    let reads = starts.into_iter().flat_map(|start| {
        ends.into_iter().map(move |end| Request::Read { start, end, topic, filter: text })
    });
    let message = Published { sequence: *a, kind: *kind, topic, key, body };
    [
        Request::Hello { version: *b as u16, token: key },
        Request::OpenPublisher { name: topic },
        Request::Publish(message),
        Request::Query { topic, filter: text },
        Request::Status,
    ]
    .into_iter()
    .chain(reads)
    .collect()
}

fn replies((topic, key, body, text, [a, b, c, d], kind): &Parts) -> Vec<Reply<'_>> {
    let (kind, publisher, sequence, time_ns) = (*kind, *b, *c, *d);
    let message = Message { kind, publisher, sequence, time_ns, topic, key, body };
    let durability = Durability::ALL[(a % 3) as usize];
    vec![
        Reply::Welcome(Welcome {
            version: *b as u16,
            log_id: *a,
            durability,
            message_bytes_max: *c as u32,
            next: *d,
        }),
        Reply::Error { code: ErrorCode::Gone, number: *a, text },
        Reply::Publisher { number: *a, persisted: *b },
        Reply::Persisted { sequence: *a },
        Reply::Stream { first: *a },
        Reply::Message { number: *a, message },
        Reply::StreamEnd { next: *a },
        Reply::Snapshot { next: *a },
        Reply::Value { number: *a, message },
        Reply::SnapshotEnd { count: *a },
        Reply::Status { json: text },
    ]
}

/// A field at its limit arrives whole; one byte more is an error, and nothing is sent.
#[test]
fn no_field_is_cut() {
    let text = |bytes: usize| "é".repeat(bytes / 2) + &"x".repeat(bytes % 2);
    let message =
        |topic, key| Published { sequence: 1, kind: MessageKind::Publish, topic, key, body: b"" };
    let (start, end) = (Start::Now, End::Now);
    let limits = [[255, 256], [0xffff, 0x1_0000], [4080, 4081]];
    let [short, long, token] = limits.map(|[a, b]| [text(a), text(b)]);
    for at in 0..2 {
        let (short, filter) = (&*short[at], &*long[at]);
        let (long, token) = (filter.as_bytes(), token[at].as_bytes());
        let (topic, key) = ("", &b""[..]);
        for (field, request) in [
            ("token", Request::Hello { version: 1, token }),
            ("publisher's name", Request::OpenPublisher { name: short }),
            ("topic", Request::Publish(message(short, key))),
            ("key", Request::Publish(message(topic, long))),
            ("topic", Request::Read { start, end, topic: short, filter: "" }),
            ("filter", Request::Read { start, end, topic, filter }),
            ("topic", Request::Query { topic: short, filter: "" }),
            ("filter", Request::Query { topic, filter }),
        ] {
            let mut sent = Vec::new();
            let encoded = request.encode(&mut sent);
            if at == 0 {
                let Frame { kind, fields, .. } = frame(&sent, FRAME_BYTES_MAX).unwrap().unwrap();
                assert_eq!(Request::decode(kind, fields).unwrap(), request);
            } else {
                assert_eq!((encoded.unwrap_err().field, sent.len()), (field, 0));
            }
        }
    }
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(parts in parts()) {
        let mut all = Vec::new();
        for request in requests(&parts) {
            let mut bytes = Vec::new();
            request.encode(&mut bytes).unwrap();
            let Frame { kind, fields, taken } = frame(&bytes, FRAME_BYTES_MAX).unwrap().unwrap();
            prop_assert_eq!(taken, bytes.len());
            prop_assert_eq!(Request::decode(kind, fields).unwrap(), request);
            prop_assert!(Reply::decode(kind, fields).is_err());
            // No part of a frame is one.
            for cut in 0..bytes.len().min(64) {
                prop_assert_eq!(frame(&bytes[..cut], FRAME_BYTES_MAX).unwrap(), None);
            }
            all.extend(bytes);
        }
        for reply in replies(&parts) {
            let mut bytes = Vec::new();
            reply.encode(&mut bytes);
            let Frame { kind, fields, taken } = frame(&bytes, FRAME_BYTES_MAX).unwrap().unwrap();
            prop_assert_eq!(taken, bytes.len());
            prop_assert_eq!(Reply::decode(kind, fields).unwrap(), reply);
            prop_assert!(Request::decode(kind, fields).is_err());
        }
        // One after the other, they are told apart.
        let mut count = 0;
        let mut rest = &all[..];
        while let Some(Frame { taken, .. }) = frame(rest, FRAME_BYTES_MAX).unwrap() {
            rest = &rest[taken..];
            count += 1;
        }
        prop_assert_eq!((count, rest.len()), (requests(&parts).len(), 0));
    }

    #[test]
    fn any_bytes_are_a_frame_or_an_error(kind in 0..80_u8, fields in bytes(200)) {
        // What decodes is what would be encoded: nothing has two meanings.
        let mut again = Vec::new();
        if let Ok(request) = Request::decode(kind, &fields) {
            request.encode(&mut again).unwrap();
        } else if let Ok(reply) = Reply::decode(kind, &fields) {
            reply.encode(&mut again);
        } else {
            return Ok(());
        }
        let (found, rest) = (again[4], &again[5..]);
        prop_assert_eq!(found, kind);
        // Values without a meaning, of a start or an end, are not kept.
        prop_assert_eq!(rest.len(), fields.len());
    }
}

#[test]
fn lengths_have_limits() {
    assert_eq!(frame(&[0; 4], 100), Err(Malformed::Length { length: 0, bytes_max: 100 }));
    assert_eq!(
        frame(&[101, 0, 0, 0, 1], 100),
        Err(Malformed::Length { length: 101, bytes_max: 100 })
    );
    assert_eq!(frame(&[100, 0, 0, 0, 1], 100), Ok(None));
}

/// Stream of a server whose replies were recorded beforehand.
struct Recorded(Cursor<Vec<u8>>);

impl Read for Recorded {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        // In pieces, as sockets give them.
        let len = to.len().min(7);
        self.0.read(&mut to[..len])
    }
}

impl Write for Recorded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_client_takes_what_a_server_says_piece_by_piece() {
    let mut said = Vec::new();
    let welcome = Welcome {
        version: 1,
        log_id: 7,
        durability: Durability::Each,
        message_bytes_max: 100,
        next: 5,
    };
    Reply::Welcome(welcome).encode(&mut said);
    Reply::Stream { first: 5 }.encode(&mut said);
    Reply::StreamEnd { next: 9 }.encode(&mut said);
    Reply::Error { code: ErrorCode::Stops, number: 0, text: "over" }.encode(&mut said);
    let mut connection = Connection::begin(Recorded(Cursor::new(said)), b"").unwrap();
    assert_eq!(connection.welcome(), Some(&welcome));
    assert_eq!(connection.read(Start::Now, End::Now, "", "").unwrap(), 5);
    assert_eq!(connection.reply().unwrap(), Reply::StreamEnd { next: 9 });
    let error = connection.reply().unwrap_err();
    assert!(error.may_pass() && error.to_string().contains("over (error 15, stops)"), "{error}");
    assert!(connection.reply().unwrap_err().to_string().contains("broke"));
}
