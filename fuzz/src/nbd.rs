//! The NBD protocol: the state machines of the server and of the client, and a running server.

use iodyno_nbd::client::{Address, Blocking, Uri};
use iodyno_nbd::ram::Ram;
use iodyno_nbd::wire::{
    Admission, CallEvent, Calls, Command, Dial, DialConfig, DialStep, Directory, Handshake,
    REQUEST_BYTES, Refusal, Request, Rules, Step, TlsPolicy, WINDOW_BYTES,
};
use iodyno_nbd::{CmdFlags, Endpoint, Exports, Info, Kind, Limits, Server, ServerConfig};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const SIZE: u64 = 1 << 20;
/// The longest answer to one message: a listing of the few exports here, or all information on one.
const ANSWER_MAX: usize = 1024;

struct Shelf;

impl Directory for Shelf {
    fn list(&self, each: &mut dyn FnMut(&str, &str)) {
        each("", "the default");
        each("disk", "");
    }
    fn info(&self, name: &str) -> Option<Info> {
        let info = Info { description: "a disk".into(), min_block_bytes: 512, ..Info::new(SIZE) };
        ["", "disk"].contains(&name).then_some(info)
    }
}

/// The result of a conversation, to be compared between ways to cut it.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    said: Vec<u8>,
    events: Vec<String>,
}

/// Feeds a client's bytes to the server's machines, cut into pieces of this many bytes.
fn converse(data: &[u8], piece: usize, policy: TlsPolicy) -> Outcome {
    let mut machine = Handshake::new(policy);
    let mut outcome = Outcome::default();
    let mut rules: Option<Rules> = None;
    let (mut window, mut fed, mut skip) = (Vec::new(), 0, 0usize);
    loop {
        let n = piece.min(data.len() - fed).min(WINDOW_BYTES - window.len());
        window.extend_from_slice(&data[fed..fed + n]);
        fed += n;
        loop {
            if skip > 0 {
                let n = skip.min(window.len());
                window.drain(..n);
                skip -= n;
            }
            if let Some(rules) = &rules {
                if skip > 0 {
                    break;
                }
                let Some((head, _)) = window.split_first_chunk::<REQUEST_BYTES>() else { break };
                let Some(request) = Request::decode(head) else { return outcome };
                assert_eq!(&request.encode(), head);
                window.drain(..REQUEST_BYTES);
                let admission = rules.admit(&request);
                outcome.events.push(format!("{admission:?}"));
                match admission {
                    Admission::Run(command) => check(&command),
                    Admission::Refuse(_) => {}
                    Admission::Leave | Admission::Drop(_) => return outcome,
                }
                skip = request.payload_bytes() as usize;
                continue;
            }
            let before = outcome.said.len();
            let (taken, step) = machine.step(&window, &Shelf, &mut outcome.said);
            window.drain(..taken);
            assert!(outcome.said.len() - before <= ANSWER_MAX);
            if step != Step::More {
                outcome.events.push(format!("{step:?}"));
            }
            match step {
                Step::More if taken == 0 => break,
                Step::More => {}
                Step::Open(name) => match Shelf.info(&name) {
                    Some(info) => rules = Some(machine.opened(&info, &mut outcome.said).rules),
                    None => {
                        if let Step::Drop(_) = machine.refused(Refusal::Unknown, &mut outcome.said)
                        {
                            return outcome;
                        }
                    }
                },
                Step::StartTls => {
                    assert!(policy == TlsPolicy::Required);
                    machine.secured();
                }
                Step::Leave | Step::Drop(_) => return outcome,
            }
        }
        if rules.is_some() {
            assert!(policy == TlsPolicy::Absent || machine.is_secure(), "an export in the clear");
        }
        if fed == data.len() {
            return outcome;
        }
        assert!(window.len() < WINDOW_BYTES, "a full window, and the server needs more");
    }
}

/// An admitted command lies within the export.
fn check(command: &Command) {
    let end = command.offset_bytes.checked_add(u64::from(command.len_bytes)).unwrap();
    assert!(end <= SIZE && (end | command.offset_bytes).is_multiple_of(512));
    assert!(command.kind != Kind::Disc);
}

/// A client's bytes, to the server's machines. The first byte chooses how they are cut.
pub fn server(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    let policy = if choice & 1 == 1 { TlsPolicy::Required } else { TlsPolicy::Absent };
    let whole = converse(data, WINDOW_BYTES, policy);
    let cut = converse(data, 1 + usize::from(choice >> 1), policy);
    assert_eq!(whole, cut);
}

/// A server's bytes, to the client's machines. The first byte chooses which machine, and its options.
pub fn client(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    if choice & 1 == 0 { dial(choice, data) } else { replies(choice, data) }
}

fn dial(choice: u8, mut data: &[u8]) {
    let config = DialConfig {
        export: "disk".into(),
        tls: choice & 2 != 0,
        structured: choice & 4 != 0,
        meta: choice & 8 != 0,
        list: choice & 16 != 0,
    };
    let tls = config.tls;
    let mut machine = Dial::new(config).unwrap();
    let mut out = Vec::new();
    let mut secured = false;
    while let Ok((taken, step)) = machine.step(data, &mut out) {
        data = &data[taken..];
        assert!(out.len() < 1024, "a client sends little");
        match step {
            DialStep::More if taken == 0 => return,
            DialStep::More => {}
            DialStep::StartTls => {
                assert!(tls && !secured);
                secured = true;
                machine.secured(&mut out);
            }
            DialStep::Ready(found) => {
                assert_eq!(found.secure, tls);
                assert!(found.info.size_bytes < 1 << 63);
                found.info.check().unwrap();
                return replies(choice, data);
            }
            DialStep::Listed(_) => return,
        }
    }
}

fn replies(choice: u8, mut data: &[u8]) {
    const LEN: u32 = 300;
    let structured = choice & 4 != 0;
    let mut calls = Calls::new(6, structured, structured.then_some(1));
    let kinds =
        [Kind::Read, Kind::Read, Kind::Write, Kind::BlockStatus, Kind::Flush, Kind::BlockStatus];
    for (slot, kind) in kinds.into_iter().enumerate() {
        let flags = match (slot, kind) {
            (1, _) => CmdFlags::DF,
            (5, _) => CmdFlags::REQ_ONE,
            _ => CmdFlags::NONE,
        };
        calls.start(slot as u32, kind, flags, 4096, LEN);
    }
    // Bytes of the reads that came; each at most once.
    let mut came = [[false; LEN as usize]; 6];
    let mut mark = |slot: u32, at: u32, len: u32| {
        assert!(kinds[slot as usize] == Kind::Read && at + len <= LEN);
        for byte in &mut came[slot as usize][at as usize..(at + len) as usize] {
            assert!(!std::mem::replace(byte, true), "a byte sent twice");
        }
    };
    let mut done = Vec::new();
    let mut fault = true;
    while let Ok((taken, event)) = calls.step(data) {
        data = &data[taken..];
        match event {
            CallEvent::More if taken == 0 => {
                fault = false;
                break;
            }
            CallEvent::More => {}
            CallEvent::Data { slot, at, len } => {
                assert_eq!(calls.payload_left(), len);
                let n = (len as usize).min(data.len());
                mark(slot, at, n as u32);
                data = &data[n..];
                calls.took(n as u32);
                if n < len as usize {
                    fault = false;
                    break;
                }
            }
            CallEvent::Zeroes { slot, at, len } => mark(slot, at, len),
            CallEvent::Extent(slot, extent) => {
                assert!(kinds[slot as usize] == Kind::BlockStatus && extent.len_bytes > 0);
            }
            CallEvent::Done(slot, result) => done.push((slot, result)),
        }
    }
    assert!(fault || done.len() as u32 + calls.in_flight() == 6);
    for (slot, result) in done {
        let is_read = kinds[slot as usize] == Kind::Read;
        assert!(!is_read || result.is_err() || came[slot as usize].iter().all(|b| *b));
    }
}

thread_local! {
    static LIVE: (Live, Cell<u64>) = (Live::new(), Cell::new(0));
}

/// A client's bytes, to a running server. The first byte is not sent: the seeds are those of [`server`].
pub fn live(data: &[u8]) {
    let Some((_, data)) = data.split_first() else { return };
    LIVE.with(|(live, count)| {
        live.play(data);
        count.set(count.get() + 1);
        if count.get().is_multiple_of(1024) {
            live.still_serves();
        }
    });
}

/// A server with a RAM disk, and a canary on it.
pub struct Live {
    _server: Server,
    socket: PathBuf,
}

impl Live {
    /// Starts it, on a socket in the system's temporary folder.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn new() -> Self {
        let name = format!("iodyno-nbd-fuzz-{}.sock", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let exports = Arc::new(Exports::default());
        let disk = Ram::new(SIZE).unwrap();
        exports.insert("disk", Arc::new(disk.read_only()));
        exports.insert("", Arc::new(disk));
        exports.insert("canary", Arc::new(Ram::new(SIZE).unwrap()));
        let limits = Limits { handshake: Duration::from_secs(2), ..Limits::default() };
        let config = ServerConfig { limits, ..ServerConfig::default() };
        let server = Server::start(exports, &[Endpoint::Unix(socket.clone())], config).unwrap();
        Self { _server: server, socket }
    }

    /// Sends these bytes, and reads until the server ends the connection.
    ///
    /// # Panics
    /// If it does not end, or more is received than the bytes can ask for.
    pub fn play(&self, data: &[u8]) {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        // The server may end the connection before all is sent.
        let _ = stream.write_all(data);
        let _ = stream.shutdown(Shutdown::Write);
        let mut buffer = vec![0; 65_536];
        let mut received = 0u64;
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => received += n as u64,
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => break,
                // The fuzzer has an alarm.
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => panic!("the server did not end the connection: {e}"),
            }
        }
        // A read's answer is as long as it requests; 28 bytes request no more than the disk has.
        assert!(received <= 1024 + data.len() as u64 * (SIZE / 20), "{received} bytes");
    }

    /// A good client still gets what it wrote.
    ///
    /// # Panics
    /// If it doesn't.
    pub fn still_serves(&self) {
        let uri = Uri {
            address: Address::Unix(self.socket.clone()),
            tls: false,
            export: "canary".into(),
            tls_certificates: None,
            tls_hostname: None,
        };
        let mut client = Blocking::connect(&uri).unwrap();
        let (song, mut back) = ([7; 5000], [0; 5000]);
        client.write(100, &song, CmdFlags::NONE).unwrap();
        client.read(100, &mut back).unwrap();
        assert_eq!(song, back);
    }
}

impl Default for Live {
    fn default() -> Self {
        Self::new()
    }
}
