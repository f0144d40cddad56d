//! The control socket: a line in, one JSON document on one line out. `iodyno fault` and
//! `iodyno status` speak it, and so can anything that can write to a Unix socket.
//!
//! ```text
//! → slow x10            ← {"ok":true}
//! → explode             ← {"error":"there is no fault `explode`: say …"}
//! → status              ← {"volumes":[…],…}
//! → metrics             ← {"text":"# HELP …"}
//! → stop                ← {"ok":true}
//! ```
//! The socket is the owner's alone (mode 0600): who may write to it may cut the power.

use iodyno_nbd::server::OwnersSocket;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The longest line that is read, bytes.
const LINE_MAX: u64 = 4096;

/// Answers a line.
pub type Answer = dyn Fn(&str) -> Value + Send + Sync;

/// A listening control socket. Removed when it is dropped.
#[derive(Debug)]
pub struct Control {
    _socket: OwnersSocket,
}

impl Control {
    /// Listens at `path`, and answers in threads of its own.
    ///
    /// # Errors
    /// The socket can't be made, another server has it, or something else is there.
    pub fn listen(path: &Path, answer: Arc<Answer>) -> io::Result<Self> {
        let socket = OwnersSocket::listen(path).map_err(io::Error::other)?;
        let listener = UnixListener::from(socket.as_fd().try_clone_to_owned()?);
        listener.set_nonblocking(false)?;
        let accept = move || {
            for stream in listener.incoming().flatten() {
                let answer = Arc::clone(&answer);
                let talk = move || {
                    let _ = talk(&stream, &*answer);
                };
                let _ = std::thread::Builder::new().name("control".to_owned()).spawn(talk);
            }
        };
        std::thread::Builder::new().name("control".to_owned()).spawn(accept)?;
        Ok(Self { _socket: socket })
    }
}

fn talk(stream: &UnixStream, answer: &Answer) -> io::Result<()> {
    let mut lines = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if lines.by_ref().take(LINE_MAX).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let said = if line.ends_with('\n') {
            answer(line.trim())
        } else {
            json!({ "error": format!("a line has at most {LINE_MAX} bytes, and ends") })
        };
        let ends = !line.ends_with('\n');
        writeln!(&*stream, "{said}")?;
        if ends {
            return Ok(());
        }
    }
}

/// Says a line to a control socket, and hears the answer.
///
/// # Errors
/// Nobody listens there, or what came back is no answer.
pub fn say(path: &Path, line: &str) -> io::Result<Value> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    writeln!(&stream, "{line}")?;
    let mut said = String::new();
    BufReader::new(&stream).read_line(&mut said)?;
    serde_json::from_str(&said).map_err(|e| io::Error::other(format!("no answer: {e}")))
}
