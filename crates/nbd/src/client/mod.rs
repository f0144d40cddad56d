//! NBD client for a load generator: one connection with many requests in flight.
//!
//! In each iteration, the caller's loop queues requests, each in its own slot ([`Connection::queue`]). It then sends
//! them and receives replies ([`Connection::turn`]), and takes the completions ([`Connection::drain`]). These calls
//! neither allocate nor lock. Payloads are sent from and received into the caller's buffers.
//!
//! A connection belongs to one thread. [`connect_many`] opens several connections to the same export, if the server
//! announces multi_conn.

mod blocking;
mod outbox;
mod uri;

pub use blocking::Blocking;
pub use uri::{Address, Uri, UriError};

use crate::busy_poll::{BusyPoll, POLL_MAX_CLIENT};
use crate::syscalls::{self, Span};
use crate::tls::{ClientTls, TlsError, TlsStream};
use crate::wire::{
    CallEvent, Calls, CmdFlags, Dial, DialConfig, DialError, DialStep, Errno, Extent, Found, Info,
    Kind, REQUEST_BYTES, Request, WINDOW_BYTES,
};
use outbox::Outbox;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Size of the receive buffer for replies, bytes. One receive takes everything that a server sends in one
/// batch.
const INPUT_BYTES: usize = 256 << 10;
/// Minimum remaining length of a payload that is received directly into the caller's buffer, bytes.
const DIRECT_BYTES_MIN: usize = 16 << 10;
/// Maximum number of bytes to receive into the input buffer while large reads are in flight. Payload that arrives there
/// must be copied.
const BETWEEN_BYTES: usize = 4096;

const _: () = assert!(WINDOW_BYTES <= INPUT_BYTES);

/// Options of a client's connection, such as queue depth and TLS.
#[derive(Clone, Debug)]
pub struct Config {
    /// Maximum number of requests in flight. A request is identified by a slot number from 0 to `depth - 1`.
    pub depth: u32,
    /// Certificates for TLS; used if the URI does not name a folder of certificates.
    pub tls: Option<ClientTls>,
    /// Whether to request structured replies. Without them, the server sends simple replies.
    pub structured: bool,
    /// Whether to request the metadata context `base:allocation`, which block status requires.
    pub block_status: bool,
    /// Timeout for connecting and negotiating.
    pub timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            depth: 64,
            tls: None,
            structured: true,
            block_status: false,
            timeout: Duration::from_secs(10),
        }
    }
}

/// Error of connecting to a server, negotiating, or listing exports.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The URI is invalid.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// Connecting failed; contains the address and the error.
    #[error("cannot connect to {0}: {1}")]
    Connect(String, io::Error),
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// TLS is required, but there are no certificates.
    #[error(
        "TLS needs the certificates of the authorities that may sign the server's certificate; add tls-certificates=FOLDER, where FOLDER has a ca-cert.pem"
    )]
    NoCertificates,
    /// The negotiation failed; contains the server's address and the error.
    #[error("{0}: {1}")]
    Dial(String, DialError),
    /// The connection broke, or TLS could not be set up. Contains the server's address and the error.
    #[error("{0}: {1}")]
    Broken(String, io::Error),
    /// Several connections were requested, but the server does not announce multi_conn.
    #[error(
        "{0} does not offer multi_conn, so writes of one connection may be invisible to another; use one connection"
    )]
    NoMultiConn(String),
}

/// Whether and how long [`Connection::turn`] waits for a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Don't wait for completions.
    No,
    /// Wait for at least one completion, without a time limit.
    One,
    /// Wait for at least one completion, but not longer than this time.
    AtMost(Duration),
}

enum Pipe {
    Plain,
    Tls(Box<TlsStream>),
}

/// An asynchronous connection to an NBD export.
pub struct Connection {
    socket: OwnedFd,
    pipe: Pipe,
    found: Found,
    calls: Calls,
    outbox: Outbox,
    input: Box<[u8]>,
    start: usize,
    end: usize,
    /// The caller's buffer of each request, indexed by slot.
    buffers: Box<[*mut u8]>,
    /// Destination of the payload being received: slot of its request, and offset in the request's buffer.
    taking: (u32, u32),
    busy_poll: BusyPoll,
    /// Number of reads in flight that are large enough to receive their payload directly.
    large_reads: u32,
    done: Vec<(u32, Result<(), Errno>)>,
    extents: Vec<(u32, Extent)>,
}

// SAFETY: the pointers are the callers' buffers. The caller of `queue` promised that nothing else touches them until
// their completion, whichever thread that is on.
unsafe impl Send for Connection {}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("found", &self.found).finish_non_exhaustive()
    }
}

fn open_socket(address: &Address, deadline: Instant) -> io::Result<OwnedFd> {
    match address {
        Address::Unix(path) => {
            let socket = syscalls::connect_unix(path, deadline)?;
            syscalls::deepen(socket.as_fd());
            Ok(socket)
        }
        Address::Tcp(host, port) => {
            let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
            for address in (&**host, *port).to_socket_addrs()? {
                let left = deadline.saturating_duration_since(Instant::now());
                match TcpStream::connect_timeout(&address, left.max(Duration::from_millis(1))) {
                    Ok(stream) => {
                        stream.set_nodelay(true)?;
                        return Ok(stream.into());
                    }
                    Err(e) => last = e,
                }
            }
            Err(last)
        }
    }
}

/// Result of a negotiation, with the socket and transport.
struct Dialled {
    socket: OwnedFd,
    pipe: Pipe,
    step: DialStep,
    /// Bytes received after the last message of the negotiation.
    rest: Vec<u8>,
}

fn dial(uri: &Uri, config: &Config, list: bool) -> Result<Dialled, ClientError> {
    let at = || uri.address.to_string();
    let deadline = Instant::now() + config.timeout;
    let tls = match (&uri.tls_certificates, &config.tls) {
        _ if !uri.tls => None,
        (Some(folder), _) => Some(ClientTls::from_folder(folder)?),
        (None, Some(tls)) => Some(tls.clone()),
        (None, None) => return Err(ClientError::NoCertificates),
    };
    let dialled = DialConfig {
        export: uri.export.clone(),
        tls: uri.tls,
        structured: config.structured,
        meta: config.block_status,
        list,
    };
    let mut machine = Dial::new(dialled).map_err(|e| ClientError::Dial(at(), e))?;
    let socket = open_socket(&uri.address, deadline).map_err(|e| ClientError::Connect(at(), e))?;
    let broken = |e| ClientError::Broken(at(), e);
    let mut pipe = Pipe::Plain;
    let (mut input, mut out) = (Vec::new(), Vec::new());
    loop {
        let step = machine.step(&input, &mut out);
        send_now(socket.as_fd(), &mut pipe, &out, deadline).map_err(broken)?;
        out.clear();
        let (taken, step) = step.map_err(|e| ClientError::Dial(at(), e))?;
        input.drain(..taken);
        match step {
            DialStep::More if taken > 0 => {}
            DialStep::More => {
                receive_some(socket.as_fd(), &mut pipe, &mut input, deadline).map_err(broken)?;
            }
            DialStep::StartTls => {
                let name = match (&uri.tls_hostname, &uri.address) {
                    (Some(name), _) | (None, Address::Tcp(name, _)) => name.as_str(),
                    (None, Address::Unix(_)) => "localhost",
                };
                let Some(tls) = &tls else { return Err(ClientError::NoCertificates) };
                let early = std::mem::take(&mut input);
                let stream = tls.connect(name, socket.as_fd(), &early, deadline).map_err(broken)?;
                pipe = Pipe::Tls(Box::new(stream));
                machine.secured(&mut out);
                send_now(socket.as_fd(), &mut pipe, &out, deadline).map_err(broken)?;
                out.clear();
            }
            step => return Ok(Dialled { socket, pipe, step, rest: input }),
        }
    }
}

fn send_now(
    fd: BorrowedFd<'_>,
    pipe: &mut Pipe,
    mut bytes: &[u8],
    deadline: Instant,
) -> io::Result<()> {
    if let Pipe::Tls(tls) = pipe {
        return tls.send_all(fd, bytes, Some(deadline)).map_err(|error| {
            // A server that closed the connection most likely sent the reason in an alert.
            match tls.receive(fd, &mut [0; 64]) {
                Err(why) if why.kind() == io::ErrorKind::InvalidData => why,
                _ => error,
            }
        });
    }
    while !bytes.is_empty() {
        // SAFETY: the span is the slice.
        match unsafe { syscalls::send(fd, &[Span::new(bytes.as_ptr(), bytes.len())]) }? {
            Some(n) => bytes = &bytes[n..],
            None if syscalls::wait(fd, false, true, None, Some(deadline))?.nothing() => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            None => {}
        }
    }
    Ok(())
}

fn receive_some(
    fd: BorrowedFd<'_>,
    pipe: &mut Pipe,
    input: &mut Vec<u8>,
    deadline: Instant,
) -> io::Result<()> {
    let mut space = [0; 4096];
    loop {
        let received = match pipe {
            Pipe::Plain => syscalls::receive_into(fd, &mut space, false)?,
            Pipe::Tls(tls) => tls.receive(fd, &mut space)?,
        };
        match received {
            Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(n) => {
                input.extend_from_slice(&space[..n]);
                return Ok(());
            }
            None if syscalls::wait(fd, true, false, None, Some(deadline))?.nothing() => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            None => {}
        }
    }
}

/// Lists the names and descriptions of a server's exports.
pub fn list(uri: &Uri, config: &Config) -> Result<Vec<(String, String)>, ClientError> {
    match dial(uri, config, true)?.step {
        DialStep::Listed(exports) => Ok(exports),
        other => unreachable!("a listing ended with {other:?}"),
    }
}

/// Opens `n` connections to the same export. If `n` is above 1, the server must announce multi_conn.
pub fn connect_many(uri: &Uri, config: &Config, n: u32) -> Result<Vec<Connection>, ClientError> {
    let first = Connection::connect(uri, config)?;
    if n > 1 && !first.info().multi_conn {
        return Err(ClientError::NoMultiConn(uri.to_string()));
    }
    let mut all = vec![first];
    for _ in 1..n {
        all.push(Connection::connect(uri, config)?);
    }
    Ok(all)
}

impl Connection {
    /// Connects to a server and negotiates the export.
    pub fn connect(uri: &Uri, config: &Config) -> Result<Self, ClientError> {
        let Dialled { socket, pipe, step, rest } = dial(uri, config, false)?;
        let DialStep::Ready(found) = step else { unreachable!("a dial ended with {step:?}") };
        let mut input = vec![0; INPUT_BYTES].into_boxed_slice();
        input[..rest.len()].copy_from_slice(&rest);
        let depth = config.depth;
        Ok(Self {
            socket,
            pipe,
            calls: Calls::new(depth, found.structured, found.meta_id),
            found: *found,
            outbox: Outbox::new(depth),
            input,
            start: 0,
            end: rest.len(),
            buffers: vec![std::ptr::null_mut(); depth as usize].into(),
            taking: (0, 0),
            busy_poll: BusyPoll::new(POLL_MAX_CLIENT),
            large_reads: 0,
            done: Vec::with_capacity(depth as usize),
            extents: Vec::new(),
        })
    }

    /// The export's size, limits and supported commands.
    pub fn info(&self) -> &Info {
        &self.found.info
    }

    /// Result of the negotiation: the export's properties, and the features on which client and server agreed.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// Number of requests that were queued or sent, but have not completed yet.
    pub fn in_flight(&self) -> u32 {
        self.calls.in_flight()
    }

    /// The connection's socket, so that a caller can wait for several connections simultaneously.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The server's message in the last error reply; may be empty.
    pub fn said(&self) -> &str {
        self.calls.said()
    }

    /// Queues a request. The caller must check range, alignment and support for the command (see [`Self::info`]); the
    /// server answers an invalid request with an error. Panics if the slot is in flight or not below the depth, and
    /// for [`Kind::Disc`].
    ///
    /// # Safety
    /// For a read, `buffer` must have `len` writable bytes, which nothing else touches until the completion is
    /// received or the connection is dropped. For a write, `buffer` must have `len` readable bytes, which nothing
    /// changes until then. For other requests the buffer is not used and may be null.
    #[inline]
    pub unsafe fn queue(
        &mut self,
        slot: u32,
        kind: Kind,
        flags: CmdFlags,
        offset_bytes: u64,
        len_bytes: u32,
        buffer: *mut u8,
    ) {
        assert!(kind != Kind::Disc, "to disconnect, drop the connection");
        let header = self.calls.start(slot, kind, flags, offset_bytes, len_bytes);
        self.buffers[slot as usize] = buffer;
        self.outbox.header(&header);
        self.large_reads += u32::from(is_large(kind, len_bytes));
        if kind == Kind::Write {
            self.outbox.payload(buffer, len_bytes as usize);
        }
    }

    /// Sends queued requests, receives replies, and waits for completions according to `wait`. A signal ends the
    /// wait. After an error the connection is unusable, and the outcome of requests in flight is unknown.
    #[inline]
    pub fn turn(&mut self, wait: Wait) -> io::Result<()> {
        let sent = self.send()?;
        if self.start < self.end {
            self.absorb()?;
        }
        // If the caller waits anyway, a single blocking receive does both.
        let block = wait == Wait::One
            && sent
            && self.done.is_empty()
            && self.calls.in_flight() > 0
            && matches!(self.pipe, Pipe::Plain);
        self.receive(block)?;
        // A blocking receive without a completion was ended by a signal.
        if wait == Wait::No || block || !self.done.is_empty() || self.calls.in_flight() == 0 {
            return Ok(());
        }
        let deadline = match wait {
            Wait::AtMost(time) => Some(Instant::now() + time),
            _ => None,
        };
        self.wait(deadline)
    }

    /// Sends queued requests until the socket is full, without waiting; [`Self::turn`] begins with the same step.
    /// After an error the connection is unusable.
    pub fn send_queued(&mut self) -> io::Result<()> {
        self.send().map(drop)
    }

    /// Waits for a completion, at most until the deadline.
    #[cold]
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        while self.done.is_empty() && self.calls.in_flight() > 0 {
            let sent = self.send()?;
            match syscalls::wait_or_signal(self.socket.as_fd(), true, !sent, None, deadline)? {
                Some(woken) if !woken.nothing() => self.receive(false)?,
                _ => break,
            }
        }
        Ok(())
    }

    /// Calls `each` with the slot and result of every completed request. The slots can then be reused.
    #[inline]
    pub fn drain(&mut self, mut each: impl FnMut(u32, Result<(), Errno>)) {
        for (slot, result) in self.done.drain(..) {
            each(slot, result);
        }
    }

    /// For each extent received in a block status reply, calls `each` with the request's slot and the extent.
    pub fn drain_extents(&mut self, mut each: impl FnMut(u32, Extent)) {
        for (slot, extent) in self.extents.drain(..) {
            each(slot, extent);
        }
    }

    /// Sends queued bytes until the socket is full. Returns true if everything is sent.
    #[inline]
    fn send(&mut self) -> io::Result<bool> {
        match &mut self.pipe {
            Pipe::Plain if self.outbox.is_empty() => Ok(true),
            Pipe::Plain => self.outbox.send(self.socket.as_fd()),
            Pipe::Tls(tls) => self.outbox.send_tls(self.socket.as_fd(), tls),
        }
    }

    /// Receives and parses available replies. If `block`, waits for the first byte.
    #[inline]
    fn receive(&mut self, mut block: bool) -> io::Result<()> {
        loop {
            let fd = self.socket.as_fd();
            if self.start > 0 {
                self.input.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            let left = self.calls.payload_left() as usize;
            let space = &mut self.input[self.end..];
            let spares = self.large_reads > 0 && matches!(self.pipe, Pipe::Plain);
            let space_bytes = if spares { space.len().min(BETWEEN_BYTES) } else { space.len() };
            let space = &mut space[..space_bytes];
            debug_assert!(space_bytes > 0);
            let (received, direct) = match &mut self.pipe {
                Pipe::Tls(tls) => (tls.receive(fd, space)?, 0),
                Pipe::Plain if left >= DIRECT_BYTES_MIN => {
                    let (slot, at) = self.taking;
                    let place = self.buffers[slot as usize].wrapping_add(at as usize);
                    let mut spans =
                        [Span::new(place, left), Span::new(space.as_ptr(), space.len())];
                    // SAFETY: the place is the rest of a read's buffer, writable by the promise of `queue`; the free
                    // space belongs to the input and is not used during the call.
                    let get = |wait| unsafe { syscalls::receive(fd, &mut spans, wait) };
                    (self.busy_poll.get(block, get)?, left)
                }
                Pipe::Plain => {
                    let get = |wait| syscalls::receive_into(fd, space, wait);
                    (self.busy_poll.get(block, get)?, 0)
                }
            };
            let n = match received {
                None => return Ok(()),
                Some(0) => return Err(gone()),
                Some(n) => n,
            };
            let placed = n.min(direct);
            if placed > 0 {
                self.calls.took(placed as u32);
                self.taking.1 += placed as u32;
            }
            self.end += n - placed;
            self.absorb()?;
            // Continue only if the socket surely has more, or a payload is incomplete.
            let full = n == direct + space_bytes;
            let unfinished = self.calls.payload_left() > 0 && self.done.is_empty();
            block = block && self.done.is_empty();
            if !(full || block || (unfinished && direct == 0)) {
                return Ok(());
            }
        }
    }

    /// Parses the received bytes, copies payloads to the callers' buffers, and records completions.
    #[inline]
    fn absorb(&mut self) -> io::Result<()> {
        loop {
            let left = self.calls.payload_left();
            if left > 0 {
                let n = (left as usize).min(self.end - self.start);
                let (slot, at) = self.taking;
                let place = self.buffers[slot as usize].wrapping_add(at as usize);
                let from = &self.input[self.start..self.start + n];
                // SAFETY: the table of calls guarantees that the bytes lie within the request, so within the buffer
                // passed to `queue`, which does not overlap the input.
                unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), place, n) };
                self.start += n;
                self.calls.took(n as u32);
                self.taking.1 += n as u32;
                if n < left as usize {
                    return Ok(());
                }
            }
            let step = self.calls.step(&self.input[self.start..self.end]);
            let (taken, event) = step.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
            self.start += taken;
            match event {
                CallEvent::More if taken == 0 => return Ok(()),
                CallEvent::More => {}
                CallEvent::Data { slot, at, .. } => self.taking = (slot, at),
                CallEvent::Zeroes { slot, at, len } => {
                    let place = self.buffers[slot as usize].wrapping_add(at as usize);
                    // SAFETY: as above, the bytes lie within the buffer of a read in flight.
                    unsafe { std::ptr::write_bytes(place, 0, len as usize) };
                }
                CallEvent::Extent(slot, extent) => self.extents.push((slot, extent)),
                CallEvent::Done(slot, result) => {
                    let (kind, len) = self.calls.request(slot);
                    self.large_reads -= u32::from(is_large(kind, len));
                    self.done.push((slot, result));
                }
            }
        }
    }
}

/// Whether the payload of a reply to this request is received directly into the caller's buffer.
fn is_large(kind: Kind, len_bytes: u32) -> bool {
    kind == Kind::Read && len_bytes as usize >= DIRECT_BYTES_MIN
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Send a disconnect request only if it can be sent immediately: in the middle of a request it would be payload.
        let request = Request {
            flags: CmdFlags::NONE,
            command: Kind::Disc as u16,
            cookie: 0,
            offset_bytes: 0,
            len_bytes: 0,
        };
        let bytes: [u8; REQUEST_BYTES] = request.encode();
        if self.outbox.is_empty() {
            self.outbox.header(&bytes);
            let _ = self.send();
            if let Pipe::Tls(tls) = &mut self.pipe {
                let _ = tls.close(self.socket.as_fd());
            }
        }
    }
}
