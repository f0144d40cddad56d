//! Requests and replies: admission checked against an oracle; our replies against our client's parser; and
//! hostile servers.

use iodyno_nbd::wire::{
    Admission, CallEvent, Calls, CmdFlags, Command, Errno, Extent, Info, Kind, PAYLOAD_MAX,
    REQUEST_BYTES, Replies, Request, Rules, STATE_HOLE, STATE_ZERO, Violation, WRITE_DRAIN_MAX,
    block_status, data_header, error, hole, ok,
};
use proptest::prelude::*;

fn any_request() -> impl Strategy<Value = Request> {
    let len = prop_oneof![
        Just(0u32),
        0u32..70_000,
        (0u32..9).prop_map(|n| n << 12),
        Just(PAYLOAD_MAX),
        Just(PAYLOAD_MAX + 1),
        Just(WRITE_DRAIN_MAX + 1),
        (0u32..4).prop_map(|n| u32::MAX - n),
    ];
    let offset = prop_oneof![
        Just(0u64),
        0u64..200_000,
        (0u64..9).prop_map(|n| n << 12),
        (0u64..3).prop_map(|n| (1 << 40) - n),
        (0u64..3).prop_map(|n| u64::MAX - n),
    ];
    (0u16..40, 0u16..10, any::<u64>(), offset, len).prop_map(
        |(flags, command, cookie, offset_bytes, len_bytes)| Request {
            flags: CmdFlags(if flags < 32 { flags } else { 1 << (flags - 24) }),
            command,
            cookie,
            offset_bytes,
            len_bytes,
        },
    )
}

/// The protocol document's rules for admitting requests, implemented independently and at length.
fn oracle(info: &Info, structured: bool, meta: bool, r: &Request) -> Admission {
    let Some(kind) = Kind::ALL.into_iter().find(|k| *k as u16 == r.command) else {
        return Admission::Refuse(Errno::Inval);
    };
    let end = u128::from(r.offset_bytes) + u128::from(r.len_bytes);
    let past = end > u128::from(info.size_bytes);
    let aligned = [r.offset_bytes, u64::from(r.len_bytes)]
        .iter()
        .all(|n| n % u64::from(info.min_block_bytes) == 0);
    let mut allowed = if info.fua { vec![CmdFlags::FUA.0] } else { vec![] };
    let supported = match kind {
        Kind::Disc => return Admission::Leave,
        Kind::Read => {
            if structured {
                allowed.push(CmdFlags::DF.0);
            }
            true
        }
        Kind::Write if r.len_bytes > WRITE_DRAIN_MAX => {
            return Admission::Drop(Violation::WriteLength);
        }
        Kind::Write => true,
        Kind::Flush => info.flush && end == 0,
        Kind::Trim => info.trim,
        Kind::Cache => info.cache,
        Kind::WriteZeroes => {
            allowed.push(CmdFlags::NO_HOLE.0);
            if info.fast_zero {
                allowed.push(CmdFlags::FAST_ZERO.0);
            }
            info.write_zeroes
        }
        Kind::BlockStatus => {
            allowed.push(CmdFlags::REQ_ONE.0);
            structured && meta && info.block_status && r.len_bytes != 0
        }
    };
    let flags_ok = (0..16).all(|b| r.flags.0 >> b & 1 == 0 || allowed.contains(&(1 << b)));
    let errno = if !supported || !flags_ok {
        Some(Errno::Inval)
    } else if info.read_only && [Kind::Write, Kind::Trim, Kind::WriteZeroes].contains(&kind) {
        Some(Errno::Perm)
    } else if past {
        Some(match kind {
            Kind::Write | Kind::WriteZeroes => Errno::NoSpace,
            _ => Errno::Inval,
        })
    } else if !aligned {
        Some(Errno::Inval)
    } else if r.len_bytes > PAYLOAD_MAX && kind == Kind::Read {
        Some(Errno::Overflow)
    } else if r.len_bytes > PAYLOAD_MAX && kind == Kind::Write {
        Some(Errno::Inval)
    } else {
        None
    };
    match errno {
        Some(e) => Admission::Refuse(e),
        None => Admission::Run(Command {
            kind,
            flags: r.flags,
            cookie: r.cookie,
            offset_bytes: r.offset_bytes,
            len_bytes: r.len_bytes,
        }),
    }
}

fn any_info() -> impl Strategy<Value = Info> {
    let size = prop_oneof![Just(0u64), Just(1 << 40), Just((1 << 63) - 1), 0u64..100_000];
    (size, 0u32..3, any::<[bool; 9]>()).prop_map(|(size, block, b)| Info {
        min_block_bytes: 1 << (6 * block),
        read_only: b[0],
        flush: b[1],
        fua: b[2],
        trim: b[3],
        write_zeroes: b[4],
        fast_zero: b[5],
        cache: b[6],
        multi_conn: b[7],
        block_status: b[8],
        ..Info::new(size)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn admission_follows_the_document(
        info in any_info(), structured in any::<bool>(), meta in any::<bool>(), r in any_request(),
    ) {
        let rules = Rules::new(&info, structured, meta);
        prop_assert_eq!(rules.admit(&r), oracle(&info, structured, meta, &r));
    }

    #[test]
    fn requests_come_back_as_they_went(r in any_request(), at in 0usize..4, bit in 0u8..8) {
        let mut bytes = r.encode();
        prop_assert_eq!(Request::decode(&bytes), Some(r));
        bytes[at] ^= 1 << bit;
        prop_assert_eq!(Request::decode(&bytes), None);
    }
}

/// One of a server's actions on a read.
#[derive(Clone, Debug)]
enum Deed {
    Read { at: u64, len: u32, df: bool, hole: bool },
    Other(Kind),
    Fail(Kind, Errno),
    Status(u32, bool, Vec<(u32, u32)>),
}

fn any_deed() -> impl Strategy<Value = Deed> {
    let errno = prop_oneof![Just(Errno::Io), Just(Errno::NoSpace), Just(Errno::Perm)];
    let kind = prop_oneof![
        Just(Kind::Read),
        Just(Kind::Write),
        Just(Kind::Flush),
        Just(Kind::Trim),
        Just(Kind::BlockStatus)
    ];
    let extent = (0u32..5000, 0u32..4);
    prop_oneof![
        (0u64..1 << 41, 0u32..9000, any::<bool>(), any::<bool>())
            .prop_map(|(at, len, df, hole)| Deed::Read { at, len, df, hole }),
        prop_oneof![Just(Kind::Write), Just(Kind::Flush), Just(Kind::WriteZeroes)]
            .prop_map(Deed::Other),
        (kind, errno).prop_map(|(k, e)| Deed::Fail(k, e)),
        (1u32..9000, any::<bool>(), prop::collection::vec(extent, 0..9))
            .prop_map(|(len, one, e)| Deed::Status(len, one, e)),
    ]
}

/// The end of a request: result, bytes, extents.
type Outcome = (Result<(), Errno>, Vec<u8>, Vec<Extent>);

fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8 | 1
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Our client parses what our server writes, in any order of replies and however the bytes are split.
    #[test]
    fn replies_come_back_as_they_went(
        deeds in prop::collection::vec(any_deed(), 1..12),
        order in any::<u64>(),
        structured in any::<bool>(),
        piece in 1usize..5000,
    ) {
        let replies = if structured { Replies::Structured } else { Replies::Simple };
        let mut calls = Calls::new(deeds.len() as u32, structured, Some(1));
        let mut stream: Vec<Vec<u8>> = Vec::new();
        let mut expected: Vec<Outcome> = Vec::new();
        for (slot, deed) in deeds.iter().enumerate() {
            let (kind, flags, at, len) = match *deed {
                Deed::Read { at, len, df, .. } =>
                    (Kind::Read, if df { CmdFlags::DF } else { CmdFlags::NONE }, at, len),
                Deed::Other(kind) => (kind, CmdFlags::NONE, 0, 0),
                Deed::Fail(kind, _) => (kind, CmdFlags::NONE, 64, 64),
                Deed::Status(len, one, _) =>
                    (Kind::BlockStatus, if one { CmdFlags::REQ_ONE } else { CmdFlags::NONE }, 512, len),
            };
            let header = calls.start(slot as u32, kind, flags, at, len);
            let request = Request::decode(&header).unwrap();
            let command = Command {
                kind, flags, cookie: request.cookie, offset_bytes: at, len_bytes: len,
            };
            let mut out = Vec::new();
            let mut result = (Ok(()), Vec::new(), Vec::new());
            match deed {
                Deed::Read { len: 0, .. } | Deed::Other(_) => ok(replies, &mut out, &command),
                Deed::Read { hole: asked, .. } => {
                    if *asked && hole(replies, &mut out, &command) {
                        result.1 = vec![0; len as usize];
                    } else {
                        data_header(replies, &mut out, &command);
                        result.1 = (at..at + u64::from(len)).map(byte_at).collect();
                        out.extend_from_slice(&result.1);
                    }
                }
                Deed::Fail(_, errno) => {
                    error(replies, &mut out, command.cookie, *errno);
                    result.0 = Err(*errno);
                }
                Deed::Status(_, _, extents) => {
                    if structured && block_status(&mut out, &command, extents) {
                        // One extent a byte: however cut and joined, the states are the same.
                        for &(len, state) in extents {
                            let byte = Extent { len_bytes: 1, state };
                            result.2.extend(std::iter::repeat_n(byte, len as usize));
                        }
                    } else {
                        prop_assert!(!structured || extents.iter().all(|e| e.0 == 0));
                        error(replies, &mut out, command.cookie, Errno::Io);
                        result.0 = Err(Errno::Io);
                    }
                }
            }
            stream.push(out);
            expected.push(result);
        }
        // Replies in an order of their own.
        let mut turn: Vec<usize> = (0..deeds.len()).collect();
        turn.sort_by_key(|&i| (i as u64 + 1).wrapping_mul(order | 1) >> 7);
        let wire: Vec<u8> = turn.iter().flat_map(|&i| stream[i].clone()).collect();

        let mut got: Vec<Outcome> = vec![(Ok(()), Vec::new(), Vec::new()); deeds.len()];
        let mut ended = vec![false; deeds.len()];
        let (mut window, mut fed) = (Vec::new(), 0);
        let mut taking: Option<(u32, u32)> = None;
        while fed < wire.len() || !window.is_empty() || calls.in_flight() > 0 {
            let n = piece.min(wire.len() - fed);
            window.extend_from_slice(&wire[fed..fed + n]);
            fed += n;
            loop {
                if let Some((slot, at)) = taking {
                    let n = (calls.payload_left() as usize).min(window.len());
                    let data = &mut got[slot as usize].1;
                    data.resize(data.len().max(at as usize + n), 0);
                    data[at as usize..at as usize + n].copy_from_slice(&window[..n]);
                    window.drain(..n);
                    calls.took(n as u32);
                    taking = (calls.payload_left() > 0).then_some((slot, at + n as u32));
                    if taking.is_some() {
                        break;
                    }
                }
                let (taken, event) = calls.step(&window).unwrap();
                window.drain(..taken);
                match event {
                    CallEvent::More if taken == 0 => break,
                    CallEvent::More => {}
                    CallEvent::Data { slot, at, .. } => taking = Some((slot, at)),
                    CallEvent::Zeroes { slot, at, len } => {
                        got[slot as usize].1.resize((at + len) as usize, 0);
                    }
                    CallEvent::Extent(slot, e) => got[slot as usize].2.push(e),
                    CallEvent::Done(slot, r) => {
                        got[slot as usize].0 = r;
                        prop_assert!(!std::mem::replace(&mut ended[slot as usize], true));
                    }
                }
            }
        }
        for (i, (result, data, states)) in expected.iter().enumerate() {
            prop_assert!(ended[i]);
            prop_assert_eq!(got[i].0, *result);
            prop_assert_eq!(&got[i].1, data);
            let states_got: Vec<u32> = got[i].2.iter()
                .flat_map(|e| std::iter::repeat_n(e.state, e.len_bytes as usize)).collect();
            if result.is_ok() && let Deed::Status(len, one, _) = &deeds[i] {
                prop_assert!(!states_got.is_empty());
                prop_assert!(!one || states_got.len() <= *len as usize);
                for (a, b) in states_got.iter().zip(states) {
                    prop_assert_eq!(*a, b.state);
                }
                if !one {
                    prop_assert!(states_got.len() >= states.len().min(*len as usize));
                }
                prop_assert!(got[i].2.windows(2).all(|w| w[0].state != w[1].state));
            }
        }
    }

    /// No input makes the client's parser panic, and its events lie within the requests.
    #[test]
    fn arbitrary_replies_are_survived(
        noise in prop::collection::vec(any::<u8>(), 0..300),
        flips in prop::collection::vec((0usize..200, any::<u8>()), 0..4),
        structured in any::<bool>(),
    ) {
        let mut calls = Calls::new(3, structured, Some(1));
        let replies = if structured { Replies::Structured } else { Replies::Simple };
        let mut wire = Vec::new();
        for (slot, kind) in [(0, Kind::Read), (1, Kind::BlockStatus), (2, Kind::Write)] {
            let header = calls.start(slot, kind, CmdFlags::NONE, 4096, 40);
            let cookie = Request::decode(&header).unwrap().cookie;
            let command = Command { kind, flags: CmdFlags::NONE, cookie, offset_bytes: 4096, len_bytes: 40 };
            match slot {
                0 => { data_header(replies, &mut wire, &command); wire.extend_from_slice(&[5; 40]); }
                1 if structured => { block_status(&mut wire, &command, &[(20, 0), (60, 3)]); }
                1 => error(replies, &mut wire, cookie, Errno::Inval),
                _ => error(replies, &mut wire, cookie, Errno::Io),
            }
        }
        for (at, value) in flips {
            let len = wire.len();
            wire[at % len] = value;
        }
        wire.extend_from_slice(&noise);
        let mut input = &wire[..];
        while let Ok((taken, event)) = calls.step(input) {
            input = &input[taken..];
            match event {
                CallEvent::Data { at, len, .. } => {
                    prop_assert!(at + len <= 40);
                    let n = (len as usize).min(input.len());
                    calls.took(n as u32);
                    input = &input[n..];
                    if n < len as usize { break; }
                }
                CallEvent::Zeroes { at, len, .. } => prop_assert!(at + len <= 40),
                CallEvent::More if taken == 0 => break,
                _ => {}
            }
        }
    }
}

/// CVE-2025-47711 and 47712: lengths near the maximum of 32 bits.
#[test]
fn block_status_of_the_longest_range() {
    for one in [false, true] {
        for (len, extents) in [
            (u32::MAX, vec![(u32::MAX, 0)]),
            (u32::MAX, vec![(u32::MAX, 3), (u32::MAX, 3)]),
            (u32::MAX, vec![(u32::MAX - 1, 3), (u32::MAX, 0), (7, 3)]),
            (1, vec![(u32::MAX, 3), (u32::MAX, 0)]),
            (u32::MAX, vec![(1 << 31, 0), (1 << 31, 0), (1 << 31, 0)]),
        ] {
            let flags = if one { CmdFlags::REQ_ONE } else { CmdFlags::NONE };
            let mut calls = Calls::new(1, true, Some(1));
            let header = calls.start(0, Kind::BlockStatus, flags, 1 << 40, len);
            let cookie = Request::decode(&header).unwrap().cookie;
            let offset_bytes = 1 << 40;
            let kind = Kind::BlockStatus;
            let command = Command { kind, flags, cookie, offset_bytes, len_bytes: len };
            let mut wire = Vec::new();
            assert!(block_status(&mut wire, &command, &extents));
            let mut input = &wire[..];
            loop {
                let (taken, event) = calls.step(input).unwrap();
                input = &input[taken..];
                if let CallEvent::Done(0, Ok(())) = event {
                    break;
                }
            }
            assert!(input.is_empty());
        }
    }
}

/// The fault that the client finds in a stream of replies that a hostile server may send to one read of 40
/// bytes at 4096 (slot 0), a write (slot 1) and a block status (slot 2).
fn fault(parts: &[&[u8]]) -> String {
    let mut calls = Calls::new(3, true, Some(1));
    calls.start(0, Kind::Read, CmdFlags::DF, 4096, 40);
    calls.start(1, Kind::Write, CmdFlags::NONE, 0, 512);
    calls.start(2, Kind::BlockStatus, CmdFlags::REQ_ONE, 0, 512);
    let wire = parts.concat();
    let mut input = &wire[..];
    loop {
        match calls.step(input) {
            Err(e) => return e.to_string(),
            Ok((0, CallEvent::More)) => return String::new(),
            Ok((taken, event)) => {
                input = &input[taken..];
                if let CallEvent::Data { len, .. } = event {
                    calls.took(len);
                    input = &input[len as usize..];
                }
            }
        }
    }
}

/// If a caller asks for the next event before it has taken the payload, the caller is at fault and not the server, so
/// the call panics.
#[test]
#[should_panic(expected = "3 bytes of payload were not taken")]
fn payload_must_be_taken() {
    let mut calls = Calls::new(1, true, None);
    calls.start(0, Kind::Read, CmdFlags::NONE, 4096, 40);
    let wire = chunk(true, 1, 0, &data(4096, 40));
    let (taken, event) = calls.step(&wire).unwrap();
    assert_eq!(event, CallEvent::Data { slot: 0, at: 0, len: 40 });
    calls.took(37);
    let _ = calls.step(&wire[taken..]);
}

fn chunk(done: bool, kind: u16, slot: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x66, 0x8e, 0x33, 0xef, 0, u8::from(done)];
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&(1 << 32 | slot).to_be_bytes());
    bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

fn data(offset: u64, len: usize) -> Vec<u8> {
    [&offset.to_be_bytes()[..], &vec![7; len]].concat()
}

fn simple(slot: u64, code: u32) -> Vec<u8> {
    [&[0x67, 0x44, 0x66, 0x98][..], &code.to_be_bytes(), &(1 << 32 | slot).to_be_bytes()].concat()
}

#[test]
fn faults_of_hostile_servers_are_found() {
    let status =
        |parts: &[u32]| -> Vec<u8> { parts.iter().flat_map(|n| n.to_be_bytes()).collect() };
    // A good answer to all three, to know that the faults below are the ones found.
    let good = [
        chunk(false, 1, 0, &data(4096, 40)),
        chunk(true, 0, 0, &[]),
        simple(1, 0),
        chunk(true, 5, 2, &status(&[1, 512, 0])),
    ]
    .concat();
    assert_eq!(fault(&[&good]), "");
    let message =
        |text: &[u8], len: u16| [&5u32.to_be_bytes()[..], &len.to_be_bytes(), text].concat();
    assert_eq!(fault(&[&chunk(true, 0x8001, 0, &message(b"broken", 6))]), "");
    assert_eq!(fault(&[&chunk(true, 0x8077, 0, &message(b"", 0))]), "");
    for (what, bytes) in [
        ("magic", vec![1, 2, 3, 4]),
        ("not in flight", simple(3, 0)),
        ("not in flight", simple(7 << 32, 0)),
        ("not in flight", [simple(1, 0), simple(1, 0)].concat()),
        ("simple reply to a read", simple(0, 0)),
        ("did not send all bytes", chunk(true, 0, 0, &[])),
        ("did not send all bytes", chunk(true, 1, 0, &data(4096, 39))),
        ("without data", chunk(true, 1, 0, &data(4096, 0))),
        ("outside", chunk(true, 1, 0, &data(4095, 40))),
        ("outside", chunk(true, 1, 0, &data(4097, 40))),
        ("outside", chunk(true, 1, 0, &data(u64::MAX, 40))),
        (
            "one was requested",
            [chunk(false, 1, 0, &data(4096, 8)), chunk(true, 1, 0, &data(4104, 32))].concat(),
        ),
        ("12 bytes", chunk(true, 2, 0, &[0; 8])),
        (
            "of 0 bytes",
            chunk(true, 2, 0, &data(4096, 0).iter().copied().chain([0; 4]).collect::<Vec<_>>()),
        ),
        ("does not fit", chunk(true, 1, 1, &data(0, 40))),
        ("does not fit", chunk(true, 9, 0, &[])),
        ("type NONE", chunk(false, 0, 0, &[])),
        ("type NONE", chunk(true, 0, 1, &[1])),
        ("invalid length", chunk(true, 5, 2, &status(&[1]))),
        ("invalid length", chunk(true, 5, 2, &status(&[1, 512]))),
        ("not requested", chunk(true, 5, 2, &status(&[2, 512, 0]))),
        (
            "not requested",
            [chunk(false, 5, 2, &status(&[1, 512, 0])), chunk(true, 5, 2, &status(&[1, 512, 0]))]
                .concat(),
        ),
        ("several extents", chunk(true, 5, 2, &status(&[1, 256, 0, 256, 1]))),
        ("beyond", chunk(true, 5, 2, &status(&[1, 513, 0]))),
        ("of 0 bytes", chunk(true, 5, 2, &status(&[1, 0, 0]))),
        ("sent no extent", chunk(true, 0, 2, &[])),
        ("invalid length", chunk(true, 0x8001, 0, &[0; 5])),
        ("invalid length", chunk(true, 0x8001, 0, &message(b"short", 6))),
        ("invalid length", chunk(true, 0x8002, 0, &message(b"12345678", 1))),
        ("invalid length", chunk(true, 0x8001, 0, &vec![1; 5000])),
        ("error number 0", chunk(true, 0x8001, 0, &[0; 6])),
        ("an error for an offset outside", chunk(true, 0x8002, 0, &message(&[0; 8], 0))),
    ] {
        let said = fault(&[&bytes]);
        assert!(said.contains(what), "expected `{what}`, found `{said}`");
    }
}

/// CVE-2022-0485: the reason why the client accounts for chunks byte by byte.
#[test]
fn bytes_sent_twice_do_not_replace_missing_ones() {
    let play = |parts: &[(u64, usize)]| {
        let mut calls = Calls::new(1, true, None);
        calls.start(0, Kind::Read, CmdFlags::NONE, 0, 40);
        let mut result = Ok(());
        for (n, &(at, len)) in parts.iter().enumerate() {
            let bytes = chunk(n + 1 == parts.len(), 1, 0, &data(at, len));
            match calls.step(&bytes) {
                Ok((28, CallEvent::Data { len, .. })) => calls.took(len),
                other => result = other.map(drop),
            }
        }
        result.and_then(|()| {
            calls.step(&[]).map(|(_, event)| assert_eq!(event, CallEvent::Done(0, Ok(()))))
        })
    };
    assert!(play(&[(0, 10), (10, 30)]).is_ok());
    assert!(play(&[(30, 10), (10, 10), (20, 10), (0, 10)]).is_ok());
    assert!(play(&[(0, 20), (0, 20)]).is_err());
    assert!(play(&[(20, 20), (20, 20)]).is_err());
    assert!(play(&[(30, 10), (0, 20), (15, 10)]).is_err());
    assert!(play(&[(20, 10), (25, 15), (0, 15)]).is_err());
    assert!(play(&[(0, 39)]).is_err());
}

#[test]
fn states_of_the_wire_are_small() {
    assert_eq!((STATE_HOLE, STATE_ZERO, REQUEST_BYTES), (1, 2, 28));
    assert!(size_of::<Request>() <= 32 && size_of::<Command>() <= 32);
}
