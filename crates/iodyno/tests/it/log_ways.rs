//! Ways in which clients of a message log misbehave. Each connects, does something that no honest client does, and
//! leaves within some seconds. The server's answer may be an error, and is ignored.

use iodyno_msglog::MessageKind;
use iodyno_msglog::protocol::{End, Published, Request, Start, VERSION};
use iodyno_nbd::stream::Stream;
use iodyno_units::rng::{Generator, below};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Addresses and token with which strangers connect.
pub(crate) struct Dial<'a> {
    /// Connects over a Unix socket if the argument is true, otherwise over TLS.
    pub(crate) connect: Box<dyn Fn(bool) -> io::Result<Stream> + 'a>,
    pub(crate) socket: PathBuf,
    pub(crate) tcp: SocketAddr,
    pub(crate) token: &'a [u8],
}

/// A way to misbehave. The second argument: over a Unix socket, otherwise over TCP.
pub(crate) type Way = fn(&Dial<'_>, bool, &mut Generator) -> io::Result<()>;

/// All ways, each with a description.
pub(crate) const WAYS: [(&str, Way); 26] = [
    ("silent", silent),
    ("half a hello", half_a_hello),
    ("half a frame, and silence", half_a_frame),
    ("a frame of 4 GiB", giant_frame),
    ("a frame of no bytes", empty_frame),
    ("queries that are not read", unread_queries),
    ("a subscription that is not read", unread_subscription),
    ("a scan that matches nothing", endless_scan),
    ("a costly LIKE", costly_like),
    ("a costly IN", costly_in),
    ("leaves in the middle of a read", leaves_in_mid_read),
    ("a read up to a message that never comes", read_to_the_future),
    ("64 requests with long filters", long_requests),
    ("a wrong token", wrong_token),
    ("messages whose acknowledgements are not read", unread_acknowledgements),
    ("byte by byte", byte_by_byte),
    ("garbage", garbage),
    ("half a handshake of TLS", half_a_handshake),
    ("reconnects, again and again", reconnects),
    ("takes another one's name", duplicate_names),
    ("topics and keys that are too long", huge_keys),
    ("asks for the state, and reads nothing", status_flood),
    ("sends no more, and reads on", half_closed),
    ("reads slowly", slow_reader),
    ("rewrites values that an unread query keeps", kept_values),
    ("leaves within a handshake", leaves_in_handshake),
];

/// Does nothing for a random time of 0.2 to 1.7 s.
fn hold(rng: &mut Generator) {
    std::thread::sleep(Duration::from_millis(200 + below(rng, 1500)));
}

fn put(request: &Request<'_>, to: &mut Vec<u8>) {
    request.encode(to).unwrap();
}

fn encoded(requests: &[Request<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for request in requests {
        put(request, &mut bytes);
    }
    bytes
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

/// Connects, and sends the hello and these bytes.
fn begin(dial: &Dial<'_>, is_local: bool, bytes: &[u8]) -> io::Result<Stream> {
    let stream = (dial.connect)(is_local)?;
    let hello = encoded(&[Request::Hello { version: VERSION, token: dial.token }]);
    stream.send(&hello, deadline().into())?;
    stream.send(bytes, deadline().into())?;
    Ok(stream)
}

fn receive(stream: &Stream, bytes: usize) -> io::Result<()> {
    let (mut left, mut buffer) = (bytes, vec![0; 16 << 10]);
    while left > 0 {
        let space = buffer.len().min(left);
        let received = stream.receive(&mut buffer[..space], deadline().into())?;
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left -= received;
    }
    Ok(())
}

const ALL: Request<'static> = Request::Query { topic: "", filter: "" };

fn read(start: Start, end: End, filter: &str) -> Request<'_> {
    Request::Read { start, end, topic: "", filter }
}

fn published(sequence: u64, key: &'static [u8], body: &'static [u8]) -> Request<'static> {
    Request::Publish(Published { sequence, kind: MessageKind::Publish, topic: "t", key, body })
}

/// Sends bytes without TLS, even over TCP.
fn plain(dial: &Dial<'_>, is_local: bool, bytes: &[u8], rng: &mut Generator) -> io::Result<()> {
    if is_local {
        let mut socket = UnixStream::connect(&dial.socket)?;
        socket.write_all(bytes)?;
        hold(rng);
    } else {
        let mut socket = TcpStream::connect(dial.tcp)?;
        socket.write_all(bytes)?;
        hold(rng);
    }
    Ok(())
}

fn silent(dial: &Dial<'_>, is_local: bool, rng: &mut Generator) -> io::Result<()> {
    plain(dial, is_local, b"", rng)
}

fn half_a_hello(dial: &Dial<'_>, is_local: bool, rng: &mut Generator) -> io::Result<()> {
    let stream = (dial.connect)(is_local)?;
    let hello = encoded(&[Request::Hello { version: VERSION, token: dial.token }]);
    stream.send(&hello[..hello.len() / 2], deadline().into())?;
    hold(rng);
    Ok(())
}

fn half_a_frame(dial: &Dial<'_>, is_local: bool, rng: &mut Generator) -> io::Result<()> {
    let mut bytes = encoded(&[Request::OpenPublisher { name: "" }]);
    bytes.extend_from_slice(&(60_000_u32).to_le_bytes());
    bytes.resize(30_000, 3);
    let _stream = begin(dial, is_local, &bytes)?;
    hold(rng);
    Ok(())
}

fn giant_frame(dial: &Dial<'_>, is_local: bool, _: &mut Generator) -> io::Result<()> {
    let stream = begin(dial, is_local, &[0xff; 9])?;
    receive(&stream, 1 << 20)
}

fn empty_frame(dial: &Dial<'_>, is_local: bool, _: &mut Generator) -> io::Result<()> {
    let stream = begin(dial, is_local, &[0; 8])?;
    receive(&stream, 1 << 20)
}

fn unread_queries(dial: &Dial<'_>, is_local: bool, rng: &mut Generator) -> io::Result<()> {
    let _stream = begin(dial, is_local, &encoded(&[ALL; 60]))?;
    hold(rng);
    Ok(())
}

fn unread_subscription(dial: &Dial<'_>, is_local: bool, rng: &mut Generator) -> io::Result<()> {
    let all = read(Start::Oldest, End::Never, "");
    let _stream = begin(dial, is_local, &encoded(&[all]))?;
    hold(rng);
    Ok(())
}

fn endless_scan(dial: &Dial<'_>, is_local: bool, rng: &mut Generator) -> io::Result<()> {
    let none = read(Start::Oldest, End::Message(u64::MAX), "/b = 2");
    let _stream = begin(dial, is_local, &encoded(&[none]))?;
    hold(rng);
    Ok(())
}

fn costly_like(dial: &Dial<'_>, is_local: bool, rng: &mut Generator) -> io::Result<()> {
    let a = "a".repeat(2000);
    let filter = format!("/a LIKE '%{a}_{a}b%' OR /a LIKE '%{}b%'", "%a".repeat(5000));
    let none = read(Start::Oldest, End::Now, &filter);
    let _stream = begin(dial, is_local, &encoded(&[none]))?;
    hold(rng);
    Ok(())
}

fn costly_in(dial: &Dial<'_>, is_local: bool, rng: &mut Generator) -> io::Result<()> {
    let filter = format!("/b IN ({}2)", "2,".repeat(30_000));
    let query = Request::Query { topic: "", filter: &filter };
    let _stream = begin(dial, is_local, &encoded(&[query]))?;
    hold(rng);
    Ok(())
}

fn leaves_in_mid_read(dial: &Dial<'_>, is_local: bool, rng: &mut Generator) -> io::Result<()> {
    let all = read(Start::Oldest, End::Now, "");
    let stream = begin(dial, is_local, &encoded(&[all]))?;
    receive(&stream, 1000 + below(rng, 1 << 20) as usize)
}

fn read_to_the_future(dial: &Dial<'_>, is_local: bool, rng: &mut Generator) -> io::Result<()> {
    for _ in 0..3 {
        let never = read(Start::Now, End::Message(u64::MAX), "topic = 'none such'");
        let stream = begin(dial, is_local, &encoded(&[never]))?;
        receive(&stream, 40)?;
        if below(rng, 2) == 0 {
            stream.end_sending();
        }
    }
    Ok(())
}

fn long_requests(dial: &Dial<'_>, is_local: bool, rng: &mut Generator) -> io::Result<()> {
    let stream = begin(dial, is_local, &encoded(&[read(Start::Oldest, End::Now, "")]))?;
    let filter = "/a".repeat(32_000) + "=1";
    let query = encoded(&[Request::Query { topic: "", filter: &filter }]);
    for _ in 0..62 {
        stream.send(&query, Some(Instant::now() + Duration::from_millis(200)))?;
    }
    hold(rng);
    Ok(())
}

fn wrong_token(dial: &Dial<'_>, is_local: bool, _: &mut Generator) -> io::Result<()> {
    let stream = (dial.connect)(is_local)?;
    stream.send(
        &encoded(&[Request::Hello { version: VERSION, token: b"other" }]),
        deadline().into(),
    )?;
    receive(&stream, 1 << 20)
}

fn unread_acknowledgements(dial: &Dial<'_>, is_local: bool, rng: &mut Generator) -> io::Result<()> {
    let stream = begin(dial, is_local, &encoded(&[Request::OpenPublisher { name: "" }]))?;
    for sequence in 1..200 {
        stream.send(&encoded(&[published(sequence, b"", &[7; 1000])]), deadline().into())?;
    }
    hold(rng);
    Ok(())
}

/// Sends byte by byte. Over TLS each byte is a record.
fn byte_by_byte(dial: &Dial<'_>, is_local: bool, rng: &mut Generator) -> io::Result<()> {
    let stream = (dial.connect)(is_local)?;
    let hello = Request::Hello { version: VERSION, token: dial.token };
    let open = Request::OpenPublisher { name: "" };
    for byte in encoded(&[hello, open, published(1, b"", &[7; 400])]) {
        stream.send(&[byte], deadline().into())?;
        if below(rng, 20) == 0 {
            std::thread::sleep(Duration::from_millis(below(rng, 50)));
        }
    }
    receive(&stream, 30)
}

fn garbage(dial: &Dial<'_>, is_local: bool, rng: &mut Generator) -> io::Result<()> {
    let bytes: Vec<u8> = (0..below(rng, 5000)).map(|_| below(rng, 256) as u8).collect();
    if below(rng, 2) == 0 {
        return plain(dial, is_local, &bytes, rng);
    }
    let stream = begin(dial, is_local, &bytes)?;
    receive(&stream, 1 << 20)
}

/// Sends the beginning of a client's first TLS record.
fn half_a_handshake(dial: &Dial<'_>, _: bool, rng: &mut Generator) -> io::Result<()> {
    let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 1, 2, 3, 4];
    let mut socket = TcpStream::connect(dial.tcp)?;
    for byte in hello {
        socket.write_all(&[byte])?;
        std::thread::sleep(Duration::from_millis(below(rng, 30)));
    }
    hold(rng);
    Ok(())
}

fn reconnects(dial: &Dial<'_>, is_local: bool, rng: &mut Generator) -> io::Result<()> {
    for _ in 0..20 + below(rng, 20) {
        if below(rng, 3) == 0 {
            drop(begin(dial, is_local, &[])?);
        } else if is_local {
            drop(UnixStream::connect(&dial.socket)?);
        } else {
            drop(TcpStream::connect(dial.tcp)?);
        }
    }
    Ok(())
}

fn duplicate_names(dial: &Dial<'_>, is_local: bool, _: &mut Generator) -> io::Result<()> {
    for _ in 0..5 {
        let open = Request::OpenPublisher { name: "the same for all" };
        let stream = begin(dial, is_local, &encoded(&[open]))?;
        receive(&stream, 40)?;
        // A sequence that it does not know.
        stream.send(&encoded(&[published(1 << 40, b"", b"x")]), deadline().into())?;
        receive(&stream, 10)?;
    }
    Ok(())
}

fn huge_keys(dial: &Dial<'_>, is_local: bool, _: &mut Generator) -> io::Result<()> {
    static KEY: [u8; 65_535] = [b'k'; 65_535];
    let open = Request::OpenPublisher { name: "" };
    let stream = begin(dial, is_local, &encoded(&[open, published(1, &KEY, b"x")]))?;
    receive(&stream, 1 << 20)
}

fn status_flood(dial: &Dial<'_>, is_local: bool, rng: &mut Generator) -> io::Result<()> {
    let stream = begin(dial, is_local, &[])?;
    for _ in 0..20 {
        stream.send(&encoded(&[Request::Status; 50]), deadline().into())?;
        std::thread::sleep(Duration::from_millis(20));
    }
    hold(rng);
    Ok(())
}

fn half_closed(dial: &Dial<'_>, is_local: bool, rng: &mut Generator) -> io::Result<()> {
    let end = if below(rng, 2) == 0 { End::Now } else { End::Message(u64::MAX) };
    let some = read(Start::Oldest, end, "topic = 'honest'");
    let stream = begin(dial, is_local, &encoded(&[some, ALL, Request::Status]))?;
    stream.end_sending();
    while stream.receive(&mut [0; 4096], deadline().into())? > 0 {}
    Ok(())
}

fn slow_reader(dial: &Dial<'_>, is_local: bool, rng: &mut Generator) -> io::Result<()> {
    let all = read(Start::Oldest, End::Never, "");
    let stream = begin(dial, is_local, &encoded(&[all]))?;
    for _ in 0..50 {
        stream.receive(&mut [0; 100], deadline().into())?;
        std::thread::sleep(Duration::from_millis(below(rng, 40)));
    }
    Ok(())
}

/// Requests a snapshot without reading it, and publishes messages that supersede its values.
fn kept_values(dial: &Dial<'_>, is_local: bool, rng: &mut Generator) -> io::Result<()> {
    const KEYS: [&[u8]; 4] = [b"1", b"2", b"3", b"4"];
    let _unread = begin(dial, is_local, &encoded(&[ALL]))?;
    let stream = begin(dial, is_local, &encoded(&[Request::OpenPublisher { name: "" }]))?;
    for sequence in 1..40 {
        let key = KEYS[below(rng, 4) as usize];
        stream.send(&encoded(&[published(sequence, key, &[9; 5000])]), deadline().into())?;
    }
    hold(rng);
    Ok(())
}

/// Disconnects after the server's part of a TLS handshake.
fn leaves_in_handshake(dial: &Dial<'_>, _: bool, _: &mut Generator) -> io::Result<()> {
    // A whole hello of TLS 1.2 with one suite and no extension.
    let mut hello = vec![0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3];
    hello.extend_from_slice(&[5; 32]);
    hello.extend_from_slice(&[0, 0, 2, 0xc0, 0x2f, 1, 0]);
    let mut socket = TcpStream::connect(dial.tcp)?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    socket.write_all(&hello)?;
    let _ = socket.read(&mut [0; 100])?;
    Ok(())
}
