//! Negotiation: our client against our server, byte by byte; and hostile peers.

use iodyno_nbd::wire::{
    Dial, DialConfig, DialError, DialStep, Directory, Found, Handshake, Info, NAME_MAX, Negotiated,
    OPTION_DATA_MAX, PAYLOAD_MAX, Refusal, Step, TlsPolicy, Violation, WINDOW_BYTES,
};
use proptest::prelude::*;

struct Shelf(Vec<(String, Info)>);

impl Directory for Shelf {
    fn list(&self, each: &mut dyn FnMut(&str, &str)) {
        for (name, info) in &self.0 {
            each(name, &info.description);
        }
    }
    fn info(&self, name: &str) -> Option<Info> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, info)| info.clone())
    }
}

fn shelf() -> Shelf {
    let disk = Info {
        min_block_bytes: 512,
        preferred_block_bytes: 65_536,
        rotational: true,
        description: "a disk".into(),
        ..Info::new(1 << 30)
    };
    Shelf(vec![(String::new(), Info::new(1 << 20)), ("disk".into(), disk)])
}

/// The end of a conversation with our server.
#[derive(Debug, PartialEq)]
enum End {
    Hungry,
    Agreed { name: String, structured: bool, meta: bool },
    Left,
    Dropped(Violation),
}

/// Feeds `input` to a server in pieces of the given lengths (cycled), with a window of the size that the codec
/// guarantees to be enough. Returns everything that the server sent, and how the conversation ended.
fn serve(input: &[u8], pieces: &[usize], policy: TlsPolicy) -> (Vec<u8>, End) {
    let shelf = shelf();
    let mut machine = Handshake::new(policy);
    let mut out = Vec::new();
    let (mut window, mut fed) = (Vec::new(), 0);
    for &piece in pieces.iter().cycle() {
        let piece = piece.min(input.len() - fed).min(WINDOW_BYTES - window.len());
        window.extend_from_slice(&input[fed..fed + piece]);
        fed += piece;
        loop {
            let before = out.len();
            let (taken, step) = machine.step(&window, &shelf, &mut out);
            window.drain(..taken);
            assert!(out.len() - before <= 10_000, "one answer of {} bytes", out.len() - before);
            match step {
                Step::More if taken == 0 => break,
                Step::More => {}
                Step::Open(name) => {
                    if let Some(info) = shelf.info(&name) {
                        let n: Negotiated = machine.opened(&info, &mut out);
                        let (structured, meta) = (n.structured, n.meta);
                        return (out, End::Agreed { name: n.name, structured, meta });
                    }
                    if let Step::Drop(v) = machine.refused(Refusal::Unknown, &mut out) {
                        return (out, End::Dropped(v));
                    }
                }
                Step::StartTls => machine.secured(),
                Step::Leave => return (out, End::Left),
                Step::Drop(v) => return (out, End::Dropped(v)),
            }
        }
        if fed == input.len() {
            return (out, End::Hungry);
        }
        assert!(window.len() < WINDOW_BYTES, "a full window, and the server wants more");
    }
    unreachable!("the pieces are cycled")
}

fn whole(input: &[u8]) -> (Vec<u8>, End) {
    serve(input, &[WINDOW_BYTES], TlsPolicy::Absent)
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

fn counted(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text].concat()
}

fn go(name: &[u8]) -> Vec<u8> {
    option(7, &[&counted(name)[..], &[0, 1, 0, 3]].concat())
}

fn info(name: &[u8]) -> Vec<u8> {
    option(6, &[&counted(name)[..], &[0, 0]].concat())
}

fn set_meta(name: &[u8], query: &[u8]) -> Vec<u8> {
    option(10, &[&counted(name)[..], &[0, 0, 0, 1], &counted(query)].concat())
}

fn script(parts: &[Vec<u8>]) -> Vec<u8> {
    [vec![0, 0, 0, 3], parts.concat()].concat()
}

/// Types of the option replies in a server's output.
fn replies(mut out: &[u8]) -> Vec<u32> {
    let mut types = Vec::new();
    while out.len() >= 20 && out[..8] == 0x0003_e889_0455_65a9_u64.to_be_bytes() {
        types.push(u32::from_be_bytes(out[12..16].try_into().unwrap()));
        let len = u32::from_be_bytes(out[16..20].try_into().unwrap()) as usize;
        out = &out[20 + len..];
    }
    types
}

const ACK: u32 = 1;
const INFO: u32 = 3;
const ERR: u32 = 1 << 31;

#[test]
fn an_export_is_chosen_by_name_alone_too() {
    let (out, end) = whole(&script(&[option(1, b"disk")]));
    assert_eq!(end, End::Agreed { name: "disk".into(), structured: false, meta: false });
    assert_eq!(out.len(), 10, "no zeroes where the client does not want them");
    let (out, _) = whole(&[vec![0, 0, 0, 1], option(1, b"disk")].concat());
    assert_eq!((&out[..8], out.len()), (&(1u64 << 30).to_be_bytes()[..], 134));
    let (out, end) = whole(&script(&[option(1, b"none")]));
    assert_eq!((out.len(), end), (0, End::Dropped(Violation::ExportName)));
}

#[test]
fn unknown_options_are_skipped_and_refused() {
    let (out, end) = whole(&script(&[option(77, &[9; 3000]), option(11, &[]), go(b"")]));
    assert_eq!(replies(&out)[..2], [ERR + 1, ERR + 1]);
    assert!(matches!(end, End::Agreed { .. }));
}

#[test]
fn an_unknown_export_does_not_end_the_negotiation() {
    let (out, end) = whole(&script(&[go(b"nothing"), info(b"nothing"), go(b"disk")]));
    assert_eq!(replies(&out), [ERR + 6, ERR + 6, INFO, INFO, ACK]);
    assert_eq!(end, End::Agreed { name: "disk".into(), structured: false, meta: false });
}

#[test]
fn exports_are_listed() {
    let (out, _) = whole(&script(&[option(3, &[]), option(3, b"x"), option(2, b"bye")]));
    assert_eq!(replies(&out), [2, 2, ACK, ERR + 3, ACK]);
}

#[test]
fn block_status_needs_structured_replies_and_the_same_export() {
    let base = b"base:allocation";
    let structured = || option(8, &[]);
    let meta = |parts: &[Vec<u8>]| match whole(&script(parts)).1 {
        End::Agreed { meta, .. } => meta,
        other => panic!("{other:?}"),
    };
    assert!(!meta(&[set_meta(b"disk", base), go(b"disk")]));
    assert!(meta(&[structured(), set_meta(b"disk", base), go(b"disk")]));
    assert!(!meta(&[structured(), set_meta(b"disk", base), go(b"")]));
    assert!(!meta(&[structured(), set_meta(b"disk", b"base:"), go(b"disk")]));
    assert!(!meta(&[structured(), set_meta(b"disk", b"x-other:thing"), go(b"disk")]));
    // The last attempt counts, even when it fails.
    let last_fails = [structured(), set_meta(b"disk", base), set_meta(b"none", base), go(b"disk")];
    assert!(!meta(&last_fails));
    let too_big =
        [structured(), set_meta(b"disk", base), option(10, &vec![0; 20_000]), go(b"disk")];
    assert!(!meta(&too_big));
}

#[test]
fn required_tls_comes_before_everything() {
    let before = [option(3, &[]), go(b""), option(8, &[]), option(99, &[1]), info(b"")];
    let (out, end) = serve(&script(&before), &[7], TlsPolicy::Required);
    assert_eq!((replies(&out), end), (vec![ERR + 5; 5], End::Hungry));
    let (out, end) = serve(&script(&[option(1, b"disk")]), &[7], TlsPolicy::Required);
    assert_eq!((out.len(), end), (0, End::Dropped(Violation::ExportName)));
    let (_, end) = serve(&script(&[option(5, &[]), go(b"")]), &[100], TlsPolicy::Required);
    assert!(matches!(end, End::Agreed { .. }));
    // A server without TLS offers none.
    let (out, _) = whole(&script(&[option(5, &[])]));
    assert_eq!(replies(&out), [ERR + 2]);
    // A second STARTTLS is refused, and it takes no data.
    let twice = script(&[option(5, &[]), option(5, &[]), option(5, b"x")]);
    assert_eq!(replies(&serve(&twice, &[100], TlsPolicy::Required).0), [ACK, ERR + 3, ERR + 3]);
}

/// CVE-2021-3716: what a man in the middle sends before TLS must have no effect after it.
#[test]
fn nothing_agreed_before_tls_is_valid_after_it() {
    let shelf = shelf();
    let mut out = Vec::new();
    // Even if the policy let it through, as it does after the first TLS: the state is reset.
    let mut machine = Handshake::new(TlsPolicy::Required);
    let early = script(&[option(8, &[]), set_meta(b"disk", b"base:allocation"), option(5, &[])]);
    let mut input = &early[..];
    loop {
        let (taken, step) = machine.step(input, &shelf, &mut out);
        input = &input[taken..];
        if step == Step::StartTls {
            break;
        }
    }
    assert!(input.is_empty());
    machine.secured();
    assert!(matches!(machine.step(&go(b"disk"), &shelf, &mut out).1, Step::Open(_)));
    let agreed = machine.opened(&shelf.info("disk").unwrap(), &mut out);
    assert_eq!((agreed.structured, agreed.meta, agreed.secure), (false, false, true));
}

/// False lengths, as in CVE-2022-26495, CVE-2022-26496 and qemu's bug with a long export name.
#[test]
fn false_lengths_are_refused_on_every_option() {
    let long = vec![b'n'; 5000];
    for number in [6, 7, 9, 10] {
        let tail = [0; 4];
        let start = || option(8, &[]);
        for data in [
            [&counted(&long)[..], &tail].concat(),
            [&u32::MAX.to_be_bytes()[..], b"name", &tail].concat(),
            [&5u32.to_be_bytes()[..], b"name"].concat(),
            vec![0, 0],
            vec![],
            [&counted(b"disk")[..], &[0xff; 2]].concat(),
            [&counted(b"disk")[..], &[0xff; 4]].concat(),
            [&counted(b"di\0k")[..], &tail].concat(),
            [&counted(b"\xff\xfe")[..], &tail].concat(),
        ] {
            let (out, end) = whole(&script(&[start(), option(number, &data), go(b"disk")]));
            assert_eq!(replies(&out)[1], ERR + 3, "option {number} with {data:?}");
            assert!(matches!(end, End::Agreed { .. }), "option {number} with {data:?}");
        }
    }
    let (_, end) = whole(&script(&[option(1, &long)]));
    assert_eq!(end, End::Dropped(Violation::ExportName));
    // Longer than is parsed, then longer than is skipped.
    let (out, end) = whole(&script(&[option(3, &vec![0; OPTION_DATA_MAX + 1]), go(b"")]));
    assert_eq!((replies(&out)[0], matches!(end, End::Agreed { .. })), (ERR + 9, true));
    for number in [3, 7, 10, 77] {
        let mut monster = script(&[option(number, &[])]);
        let at = monster.len() - 4;
        monster[at..].copy_from_slice(&0xffff_fff0_u32.to_be_bytes());
        assert_eq!(whole(&monster).1, End::Dropped(Violation::OptionLength));
    }
    // The longest name is a name, and an error does not grow with it (CVE-2020-10761).
    let (out, _) = whole(&script(&[go(&[b'n'; NAME_MAX])]));
    assert_eq!(replies(&out), [ERR + 6]);
    assert!(out.len() < 200);
}

#[test]
fn wrong_flags_and_magic_end_the_connection() {
    let cases = [
        (vec![0, 0, 0, 7], Violation::ClientFlags),
        (vec![0, 0, 0, 0], Violation::ClientFlags),
        (vec![0x80, 0, 0, 3], Violation::ClientFlags),
        ([&[0, 0, 0, 3][..], b"GET / HTTP/1.1\r\n"].concat(), Violation::OptionMagic),
    ];
    for (input, violation) in cases {
        let (out, end) = whole(&input);
        assert_eq!((out.len(), end), (0, End::Dropped(violation)));
    }
}

/// Our client against our server; the bytes arrive in pieces of `piece` bytes.
fn converse(config: &DialConfig, policy: TlsPolicy, piece: usize) -> Result<DialStep, DialError> {
    let shelf = shelf();
    let mut client = Dial::new(config.clone())?;
    let mut server = Handshake::new(policy);
    let (mut client_out, mut server_out) = (Vec::new(), Vec::new());
    let (mut at_client, mut at_server) = (Vec::new(), Vec::new());
    Handshake::greeting(&mut server_out);
    loop {
        let moved = piece.min(server_out.len());
        at_client.extend(server_out.drain(..moved));
        loop {
            let (taken, step) = client.step(&at_client, &mut client_out)?;
            at_client.drain(..taken);
            match step {
                DialStep::More if taken == 0 => break,
                DialStep::More => {}
                DialStep::StartTls => client.secured(&mut client_out),
                done => return Ok(done),
            }
        }
        let back = piece.min(client_out.len());
        at_server.extend(client_out.drain(..back));
        while !at_server.is_empty() {
            let (taken, step) = server.step(&at_server, &shelf, &mut server_out);
            at_server.drain(..taken);
            match step {
                Step::More if taken == 0 => break,
                Step::More => {}
                Step::Open(name) => match shelf.info(&name) {
                    Some(info) => drop(server.opened(&info, &mut server_out)),
                    None => {
                        assert_eq!(server.refused(Refusal::Unknown, &mut server_out), Step::More);
                    }
                },
                Step::StartTls => server.secured(),
                other => panic!("{other:?}"),
            }
        }
        assert!(moved + back + server_out.len() + client_out.len() > 0, "a deadlock");
    }
}

fn config(export: &str) -> DialConfig {
    DialConfig { export: export.into(), tls: false, structured: true, meta: true, list: false }
}

#[test]
fn client_and_server_agree_on_everything() {
    for piece in [1, 5, 64, 100_000] {
        for (structured, meta, tls) in
            [(false, false, false), (true, false, false), (true, true, false), (true, true, true)]
        {
            let policy = if tls { TlsPolicy::Required } else { TlsPolicy::Absent };
            let config = DialConfig { structured, meta, tls, ..config("disk") };
            let Ok(DialStep::Ready(found)) = converse(&config, policy, piece) else { panic!() };
            let offered = shelf().info("disk").unwrap();
            let expected = Found {
                info: Info { df: structured, block_status: meta, ..offered },
                structured,
                meta_id: meta.then_some(1),
                secure: tls,
            };
            assert_eq!(*found, expected);
        }
    }
    let list = converse(&DialConfig { list: true, ..config("") }, TlsPolicy::Absent, 9);
    let expected = vec![(String::new(), String::new()), ("disk".into(), "a disk".into())];
    assert_eq!(list, Ok(DialStep::Listed(expected)));
}

#[test]
fn the_client_never_continues_without_its_requirements() {
    let refused = converse(&config("none"), TlsPolicy::Absent, 50);
    assert!(refused.unwrap_err().to_string().contains("no export of that name"));
    let tls = DialConfig { tls: true, ..config("") };
    assert_eq!(converse(&tls, TlsPolicy::Absent, 50), Err(DialError::NoTls));
    let plain = converse(&config(""), TlsPolicy::Required, 50).unwrap_err();
    assert!(plain.to_string().contains("requires TLS"), "{plain}");
    assert_eq!(Dial::new(config(&"n".repeat(5000))).unwrap_err(), DialError::Name);
}

/// Feeds a server's output to our client: a greeting, then `bytes`.
fn fed(bytes: &[u8]) -> Result<DialStep, DialError> {
    let mut client = Dial::new(DialConfig { structured: false, ..config("") }).unwrap();
    let (mut input, mut out) = (Vec::new(), Vec::new());
    Handshake::greeting(&mut input);
    input.extend_from_slice(bytes);
    loop {
        let (taken, step) = client.step(&input, &mut out)?;
        input.drain(..taken);
        if taken == 0 || step != DialStep::More {
            return Ok(step);
        }
    }
}

fn answer(to: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
    for n in [to, kind, data.len() as u32] {
        bytes.extend_from_slice(&n.to_be_bytes());
    }
    bytes.extend_from_slice(data);
    bytes
}

fn export_info(size: u64, flags: u16) -> Vec<u8> {
    let data = [&[0, 0][..], &size.to_be_bytes(), &flags.to_be_bytes()].concat();
    answer(7, 3, &data)
}

fn block_info(min: u32, preferred: u32, max: u32) -> Vec<u8> {
    let mut data = vec![0, 3];
    for n in [min, preferred, max] {
        data.extend_from_slice(&n.to_be_bytes());
    }
    answer(7, 3, &data)
}

/// CVE-2023-5215 and similar: the client does not trust a server either.
#[test]
fn impossible_servers_are_refused() {
    let ack = answer(7, 1, &[]);
    let good = [export_info(4096, 1), ack.clone()].concat();
    assert!(matches!(fed(&good), Ok(DialStep::Ready(_))));
    let cases = [
        [export_info(1 << 63, 1), ack.clone()].concat(),
        [export_info(u64::MAX, 1), ack.clone()].concat(),
        [export_info(4096, 0), ack.clone()].concat(),
        [export_info(4096, 1), block_info(3, 4096, 1 << 25), ack.clone()].concat(),
        [export_info(4096, 1), block_info(1 << 17, 1 << 17, 1 << 25), ack.clone()].concat(),
        [export_info(4096, 1), block_info(512, 256, 1 << 25), ack.clone()].concat(),
        [export_info(4096, 1), block_info(512, 4096, 1024), ack.clone()].concat(),
        [export_info(4096, 1), block_info(0, 0, 0), ack.clone()].concat(),
        ack.clone(),
        answer(7, 3, &[0]),
        answer(7, 3, &[0, 0, 1]),
        answer(6, 1, &[]),
        answer(7, 4, &[0; 8]),
        answer(7, 3, &vec![0; OPTION_DATA_MAX + 1]),
        vec![0; 20],
    ];
    for (n, bytes) in cases.iter().enumerate() {
        assert!(fed(bytes).is_err(), "case {n}");
    }
    // More replies than any server has reason to send.
    let flood = answer(7, 3, &[0, 99]).repeat(10_001);
    assert!(fed(&flood).is_err());
    let mut out = Vec::new();
    let mut oldstyle = b"NBDMAGIC".to_vec();
    oldstyle.extend_from_slice(&0x0042_0281_8612_5300_u64.to_be_bytes());
    oldstyle.extend_from_slice(&[0; 2]);
    let dial = || Dial::new(config("")).unwrap();
    assert_eq!(dial().step(&oldstyle, &mut out), Err(DialError::TooOld));
    assert_eq!(dial().step(b"SSH-2.0-OpenSSH_9", &mut out), Err(DialError::NotNbd));
}

#[test]
fn an_old_server_is_asked_by_name() {
    let unsup = answer(7, ERR + 1, b"what?");
    let by_name = [&4096u64.to_be_bytes()[..], &[0, 1]].concat();
    let Ok(DialStep::Ready(found)) = fed(&[unsup, by_name].concat()) else { panic!() };
    assert_eq!((found.info.size_bytes, found.info.max_payload_bytes), (4096, PAYLOAD_MAX));
}

fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![Just(b"disk".to_vec()), Just(vec![]), "[a-z]{1,9}".prop_map(Vec::from)];
    prop_oneof![
        name.clone().prop_map(|n| info(&n)),
        name.clone().prop_map(|n| set_meta(&n, b"base:allocation")),
        Just(option(8, &[])),
        Just(option(3, &[])),
        Just(option(5, &[])),
        (0u32..14, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(n, d)| option(n, &d)),
        (any::<u32>(), prop::collection::vec(any::<u8>(), 0..300)).prop_map(|(n, d)| option(n, &d)),
        Just(option(3, &vec![7; OPTION_DATA_MAX + 5])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The result does not depend on how the bytes are split.
    #[test]
    fn any_split_gives_the_same_answers(
        messages in prop::collection::vec(any_message(), 0..8),
        last in prop_oneof![Just(go(b"disk")), Just(option(1, b"disk")), Just(option(2, &[])), Just(vec![])],
        cuts in prop::collection::vec(1usize..200, 1..20),
        required in any::<bool>(),
    ) {
        let input = script(&[messages.concat(), last]);
        let policy = if required { TlsPolicy::Required } else { TlsPolicy::Absent };
        let together = serve(&input, &[WINDOW_BYTES], policy);
        prop_assert_eq!(&serve(&input, &cuts, policy), &together);
        prop_assert_eq!(&serve(&input, &[1], policy), &together);
    }

    /// No input makes either state machine panic or give a long answer.
    #[test]
    fn arbitrary_bytes_are_survived(
        start in prop::bool::ANY,
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
        flips in prop::collection::vec((0usize..400, any::<u8>()), 1..6),
        required in any::<bool>(),
    ) {
        let policy = if required { TlsPolicy::Required } else { TlsPolicy::Absent };
        let input = if start { script(std::slice::from_ref(&bytes)) } else { bytes.clone() };
        serve(&input, &[WINDOW_BYTES], policy);
        let _ = fed(&bytes);
        // Nearly valid input is more dangerous than noise.
        let mut near = script(&[
            option(8, &[]), set_meta(b"disk", b"base:allocation"), info(b"disk"), go(b"disk"),
        ]);
        let mut server = [export_info(4096, 1), block_info(1, 4096, 1 << 25), answer(7, 1, &[])].concat();
        for (at, value) in flips {
            let len = near.len();
            near[at % len] = value;
            let len = server.len();
            server[at % len] = value;
        }
        serve(&near, &[WINDOW_BYTES], policy);
        let _ = fed(&server);
    }
}
