//! Fixtures for tests of the message log: a server from the real binary, and clients from the library.

use crate::place::{A_MOMENT, Place, Running};
use iodyno_msglog::MessageKind;
use iodyno_msglog::client::{ClientError, Connection, Publisher, PublisherOptions};
use iodyno_msglog::protocol::{End, ErrorCode, Reply, Start};
use iodyno_nbd::Endpoint;
use iodyno_nbd::stream::Stream;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Name of the Unix socket of each test's server, in the place's folder.
const SOCKET: &str = "l.sock";

/// A message or value that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) number: u64,
    pub(crate) publisher: u64,
    pub(crate) sequence: u64,
    pub(crate) deletes: bool,
    pub(crate) topic: String,
    pub(crate) key: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// A running server, killed when dropped.
pub(crate) struct LogServer {
    running: Running,
    said: PathBuf,
}

impl LogServer {
    /// Starts `log serve` with these arguments, on the place's socket. Returns once the server is ready.
    pub(crate) fn start(place: &Place, words: &str) -> Self {
        let said = place.path("serve.txt");
        let mut command = place.command(&format!("log serve {words} --unix {SOCKET}"));
        command.stdout(Stdio::null()).stderr(File::create(&said).unwrap());
        let mut server = Self { running: Running::of(&mut command), said };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !server.said().ends_with("ready\n") {
            assert!(server.running.is_running(), "`log serve {words}` ended: {}", server.said());
            assert!(Instant::now() < deadline, "`log serve {words}` is silent");
            std::thread::sleep(A_MOMENT / 5);
        }
        server
    }

    /// Creates a log in a new file with the flags `create`, and serves it with the flags `serve`.
    pub(crate) fn with_log(place: &Place, create: &str, serve: &str) -> Self {
        place.iodyno(&format!("log create a.log {create}")).succeeds();
        Self::start(place, &format!("a.log {serve}"))
    }

    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap()
    }

    /// The TCP address that the system chose.
    pub(crate) fn tcp(&self) -> String {
        let said = self.said();
        let line = said.lines().find_map(|line| line.strip_prefix("at      127.0.0.1:"));
        format!("127.0.0.1:{}", line.unwrap())
    }

    pub(crate) fn kill(self) {
        self.running.signal(libc::SIGKILL);
        let output = self.running.finish();
        assert_eq!(output.signal, Some(libc::SIGKILL));
    }

    /// Stops the server cleanly.
    pub(crate) fn stop(self) {
        self.running.signal(libc::SIGTERM);
        let said = self.said.clone();
        assert_eq!(
            self.running.finish().code,
            Some(0),
            "{}",
            std::fs::read_to_string(said).unwrap()
        );
    }

    /// Waits until the server ends by itself with this exit code. Returns its output.
    pub(crate) fn ends(self, code: i32) -> String {
        let said = self.said.clone();
        let output = self.running.finish();
        let said = std::fs::read_to_string(said).unwrap();
        assert_eq!(output.code, Some(code), "{said}");
        said
    }

    pub(crate) fn id(&self) -> u32 {
        self.running.id()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.running.is_running()
    }
}

pub(crate) fn socket(place: &Place) -> PathBuf {
    place.path(SOCKET)
}

pub(crate) fn dial(socket: &Path) -> io::Result<Stream> {
    Stream::connect(&Endpoint::Unix(socket.to_owned()), None, Duration::from_secs(10))
}

pub(crate) fn connect(place: &Place) -> Connection<Stream> {
    Connection::begin(dial(&socket(place)).unwrap(), b"").unwrap()
}

/// A publisher that reconnects for as long as a test lasts.
pub(crate) fn publisher(
    place: &Place,
    name: &str,
) -> Publisher<Stream, impl FnMut() -> io::Result<Stream> + use<>> {
    let socket = socket(place);
    let options = PublisherOptions {
        name: name.to_owned(),
        patience: Duration::from_secs(60),
        ..PublisherOptions::default()
    };
    Publisher::open(move || dial(&socket), options).unwrap()
}

/// Takes the replies of a stream or a snapshot, up to its end or `count` messages. Also returns the bookmark at the end
/// of a stream.
pub(crate) fn take(
    connection: &mut Connection<Stream>,
    count: usize,
) -> Result<(Vec<Got>, Option<u64>), ClientError> {
    let mut all = Vec::new();
    while all.len() < count {
        match connection.reply()? {
            Reply::Message { number, message } | Reply::Value { number, message } => {
                all.push(Got {
                    number,
                    publisher: message.publisher,
                    sequence: message.sequence,
                    deletes: message.kind == MessageKind::Delete,
                    topic: message.topic.to_owned(),
                    key: message.key.to_owned(),
                    body: message.body.to_owned(),
                });
            }
            Reply::StreamEnd { next } => return Ok((all, Some(next))),
            Reply::SnapshotEnd { count } => {
                assert_eq!(count, all.len() as u64);
                return Ok((all, None));
            }
            other => panic!("{other:?}"),
        }
    }
    Ok((all, None))
}

/// All persisted messages from `start` on.
pub(crate) fn replay(place: &Place, start: Start) -> Vec<Got> {
    let mut connection = connect(place);
    connection.read(start, End::Now, "", "").unwrap();
    take(&mut connection, usize::MAX).unwrap().0
}

/// The current values, with the bookmark of the snapshot.
pub(crate) fn query(place: &Place) -> (u64, Vec<Got>) {
    let mut connection = connect(place);
    let next = connection.query("", "").unwrap();
    (next, take(&mut connection, usize::MAX).unwrap().0)
}

/// Current values that follow from messages: by topic and key, the number of the message and its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Values(pub(crate) BTreeMap<(String, Vec<u8>), (u64, Vec<u8>)>);

impl Values {
    pub(crate) fn apply<'a>(&mut self, messages: impl IntoIterator<Item = &'a Got>) {
        for it in messages {
            let at = (it.topic.clone(), it.key.clone());
            if it.deletes {
                self.0.remove(&at);
            } else if !it.key.is_empty() {
                self.0.insert(at, (it.number, it.body.clone()));
            }
        }
    }

    pub(crate) fn of<'a>(messages: impl IntoIterator<Item = &'a Got>) -> Self {
        let mut values = Self::default();
        values.apply(messages);
        values
    }
}

/// Code of the server's error. Panics if the call succeeded or failed otherwise.
#[track_caller]
pub(crate) fn code<T: core::fmt::Debug>(result: Result<T, ClientError>) -> ErrorCode {
    match result {
        Err(ClientError::Server(error)) => error.code,
        other => panic!("{other:?}"),
    }
}
