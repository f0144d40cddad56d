//! The control socket: receives a line, and answers with one JSON document on one line. `iodyno fault` and
//! `iodyno status` use it, as can any program that can write to a Unix socket.
//!
//! ```text
//! → slow x10            ← {"ok":true,"text":"volume 0: everything takes 10 times as long, until `clear`"}
//! → explode             ← {"error":"there is no fault `explode`: use …"}
//! → status              ← {"volumes":[…],…}
//! → metrics             ← {"text":"# HELP …"}
//! → stop                ← {"ok":true}
//! ```
//! A line that begins with `{` is a request of the versioned JSON protocol (`protocol`), which programs should use.
//!
//! After `stop` the connection stays open until the process has ended.
//!
//! Only the owner may use the socket (mode 0600), because writing to it can cut the power. The number of connections is
//! limited; at the limit, a new connection ends the oldest.

mod protocol;

use crate::admin_socket::{self, Timed};
use iodyno_nbd::server::OwnersSocket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use rustix::process::{PidfdFlags, pidfd_open};
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest command line that is accepted, bytes.
const LINE_MAX: u64 = 4096;
/// Time after which a client that sends no complete line is disconnected.
const LINE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for a client to read an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Function that answers a command line with a JSON value.
pub type Answer = dyn Fn(&str) -> Value + Send + Sync;

/// A listening control socket. Dropping it removes the socket file.
#[derive(Debug)]
pub struct Control {
    _socket: OwnersSocket,
}

impl Control {
    /// Listens on a Unix socket at `path`, and answers each connection in a separate thread.
    ///
    /// # Errors
    /// The socket can't be created, another server listens on it, or `path` exists and is not a socket.
    pub fn listen(path: &Path, answer: Arc<Answer>) -> io::Result<Self> {
        let socket = OwnersSocket::listen(path).map_err(io::Error::other)?;
        let listener = UnixListener::from(socket.as_fd().try_clone_to_owned()?);
        listener.set_nonblocking(false)?;
        let accept = move || listener.accept().map(|(stream, _)| stream);
        admin_socket::serve("control", accept, move |s: &UnixStream| session(s, &*answer))?;
        Ok(Self { _socket: socket })
    }
}

fn session(stream: &UnixStream, answer: &Answer) -> io::Result<()> {
    let mut lines = BufReader::new(Timed::new(stream, LINE_TIMEOUT));
    loop {
        let mut line = String::new();
        lines.get_mut().renew(LINE_TIMEOUT);
        if lines.by_ref().take(LINE_MAX).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let said = if line.ends_with('\n') {
            let line = line.trim();
            if line.starts_with('{') { protocol::answer(line, answer) } else { answer(line) }
        } else {
            json!({ "error": format!("a command must be one line of at most {LINE_MAX} bytes that ends in a line feed") })
        };
        let ends = !line.ends_with('\n');
        Timed::new(stream, ANSWER_TIMEOUT).write_all(format!("{said}\n").as_bytes())?;
        if ends {
            return Ok(());
        }
    }
}

/// Time limit for a server's answer, s.
pub const SAY_TIMEOUT_S: u64 = 30;

/// Sends a command line to a control socket, and returns the server's answer.
///
/// # Errors
/// No server listens at `path` (`NotFound`, `ConnectionRefused`), the server does not answer in time
/// (`TimedOut`) or closes the connection without an answer (`UnexpectedEof`), or its reply is not valid JSON.
pub fn say(path: &Path, line: &str) -> io::Result<Value> {
    say_within(path, line, Duration::from_secs(SAY_TIMEOUT_S))
}

fn say_within(path: &Path, line: &str, timeout: Duration) -> io::Result<Value> {
    ask(&UnixStream::connect(path)?, line, timeout)
}

/// Stops a server, and waits until its process has exited and released its sockets and file locks. Returns
/// the server's answer, and whether the process exited: false if the server refused, or did not exit within
/// `timeout`.
///
/// # Errors
/// Same as [`say`]; also if waiting for the process fails.
pub fn stop(path: &Path, timeout: Duration) -> io::Result<(Value, bool)> {
    let deadline = Instant::now() + timeout;
    let stream = UnixStream::connect(path)?;
    // Opened before the request: after the process has ended, its PID may belong to another process.
    let process = sockopt::socket_peercred(&stream)
        .and_then(|peer| pidfd_open(peer.pid, PidfdFlags::empty()));
    let said = ask(&stream, "stop", Duration::from_secs(SAY_TIMEOUT_S))?;
    if said["error"].is_string() {
        return Ok((said, false));
    }
    // (A server in another PID namespace has no number here; instead wait for its connection to end.)
    let end = process.as_ref().map_or(stream.as_fd(), AsFd::as_fd);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timespec = Timespec::try_from(left).unwrap_or_default();
        match poll(&mut [PollFd::from_borrowed_fd(end, PollFlags::IN)], Some(&timespec)) {
            Ok(0) => return Ok((said, false)),
            Ok(_) => return Ok((said, true)),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

fn ask(stream: &UnixStream, line: &str, timeout: Duration) -> io::Result<Value> {
    stream.set_read_timeout(Some(timeout))?;
    writeln!(&*stream, "{line}")?;
    let mut said = String::new();
    let read = BufReader::new(stream).read_line(&mut said);
    let bytes = read.map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => e,
    })?;
    if bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_str(&said).map_err(|e| io::Error::other(format!("no answer: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_answer_is_no_missing_server() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("ctl");
        let said = |timeout| say_within(&path, "status", timeout).unwrap_err().kind();
        assert_eq!(said(Duration::from_secs(30)), io::ErrorKind::NotFound);
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(said(Duration::from_millis(20)), io::ErrorKind::TimedOut);
        let ends = std::thread::spawn(move || {
            for _ in 0..2 {
                let (stream, _) = listener.accept().unwrap();
                let _ = BufReader::new(&stream).read_line(&mut String::new());
            }
        });
        assert_eq!(said(Duration::from_secs(30)), io::ErrorKind::UnexpectedEof);
        ends.join().unwrap();
        assert_eq!(said(Duration::from_secs(30)), io::ErrorKind::ConnectionRefused);
    }
}
