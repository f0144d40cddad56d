//! One connection, from the greeting to the end, on a thread of its own.
//!
//! **The loop.** One receive takes all requests that the socket has; each is submitted in turn; one
//! send takes all their replies. No request costs an allocation or a lock. Large payloads go
//! straight to their place where the session has one.
//!
//! **Memory.** An input buffer of [`INPUT_BYTES`] (touched only as far as it is used), replies of at most
//! one request beyond [`Outgoing::is_full`], a payload of at most 32 MiB while it arrives, and what
//! [`Link`] bounds.

use super::counters::Tally;
use super::later::Link;
use super::outgoing::Outgoing;
use super::patience::Patience;
use super::{Exports, Limits, Phase};
use crate::export::{Io, Peer, Session};
use crate::sys::{self, Span};
use crate::tls::{ServerTls, TlsStream};
use crate::wire::{
    Admission, Command, Handshake, Kind, Negotiated, REQUEST_BYTES, Refusal, Replies, Request,
    Step, TlsPolicy, Violation, WINDOW_BYTES,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Large enough for the requests that come while a batch is answered: 32 writes of 4 KiB twice over.
const INPUT_BYTES: usize = 256 << 10;
/// A payload of which so much is still to come is received straight to its place, bytes.
const PLACE_BYTES_MIN: usize = 16 << 10;
/// After such a payload, no more than this is received that would have to be copied if another follows.
const BETWEEN_BYTES: usize = 4096;
/// A payload's buffer grows by this much at a time, as the bytes come.
const PAYLOAD_STEP_BYTES: usize = 1 << 20;
/// A thread that nobody could wake looks this often.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Why a connection ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The client said goodbye.
    Left,
    /// It went without a word, or the server is stopping.
    Gone,
    /// It broke the protocol.
    Violation(Violation),
    /// The socket or TLS failed, or the deadline passed.
    Failed(io::Error),
}

impl End {
    /// In words, for people; None where there is nothing to tell.
    pub(crate) fn why(&self) -> Option<String> {
        match self {
            Self::Left | Self::Gone => None,
            Self::Violation(violation) => {
                Some(format!("the client broke the protocol: {violation}"))
            }
            Self::Failed(error) => Some(error.to_string()),
        }
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// What a connection's thread is given.
pub(crate) struct Start {
    pub(crate) link: Arc<Link>,
    pub(crate) exports: Arc<Exports>,
    pub(crate) tls: Option<ServerTls>,
    pub(crate) limits: Limits,
    pub(crate) address: String,
    pub(crate) stopping: Arc<AtomicBool>,
    pub(crate) phase: Arc<Phase>,
}

/// How bytes go in and out.
enum Pipe {
    Plain,
    Tls(Box<TlsStream>),
}

/// Bytes received and not used yet.
struct Input {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// The last payload was received straight to its place, and the next may be.
    sparing: bool,
}

impl Input {
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Room for more, at the end.
    fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let room = &mut self.buffer[self.end..];
        let at_most = if self.sparing { BETWEEN_BYTES.min(room.len()) } else { room.len() };
        &mut room[..at_most]
    }
}

pub(crate) fn run(start: &Start) -> End {
    match Connection::new(start).serve() {
        Ok(end) | Err(end) => end,
    }
}

struct Connection<'a> {
    start: &'a Start,
    pipe: Pipe,
    input: Input,
    tally: Tally,
    /// For TLS: what others answered.
    queued: Vec<u8>,
    /// Requests that the last receive brought.
    at_once: u32,
    patience: Patience,
}

impl<'a> Connection<'a> {
    fn new(start: &'a Start) -> Self {
        Self {
            start,
            pipe: Pipe::Plain,
            // Zeroed memory of this size is mapped, and touched only where it is used.
            input: Input { buffer: vec![0; INPUT_BYTES].into(), start: 0, end: 0, sparing: false },
            tally: Tally::default(),
            queued: Vec::new(),
            at_once: 0,
            patience: Patience::default(),
        }
    }

    fn fd(&self) -> BorrowedFd<'a> {
        self.start.link.socket.as_fd()
    }

    fn stopping(&self) -> bool {
        self.start.stopping.load(Ordering::Relaxed)
    }

    // ---- Negotiation: plain blocking steps under a deadline.

    fn serve(mut self) -> Result<End, End> {
        let deadline = Instant::now() + self.start.limits.handshake;
        let policy = if self.start.tls.is_some() { TlsPolicy::Required } else { TlsPolicy::Absent };
        let mut machine = Handshake::new(policy);
        let mut out = Vec::with_capacity(256);
        Handshake::greeting(&mut out);
        let (agreed, session) = loop {
            let exports = &*self.start.exports;
            let (taken, step) = machine.step(self.input.bytes(), exports, &mut out);
            self.input.start += taken;
            match step {
                Step::More if taken > 0 && out.len() < WINDOW_BYTES => {}
                Step::More => {
                    self.send_handshake(&mut out, deadline)?;
                    if taken == 0 {
                        self.receive_handshake(deadline)?;
                    }
                }
                Step::Open(name) => match self.open(&name, &mut machine, &mut out) {
                    Ok(opened) => break opened,
                    Err(Step::Drop(violation)) => return Ok(End::Violation(violation)),
                    Err(_) => {}
                },
                Step::StartTls => {
                    self.send_handshake(&mut out, deadline)?;
                    self.begin_tls(deadline)?;
                    machine.secured();
                }
                Step::Leave => {
                    // The client may have gone without waiting for the farewell.
                    let _ = self.send_handshake(&mut out, deadline);
                    return Ok(End::Left);
                }
                Step::Drop(violation) => return Ok(End::Violation(violation)),
            }
        };
        // Before the client can know it: from here on it does not make room for others.
        self.start.phase.agreed();
        self.send_handshake(&mut out, deadline)?;
        self.transmit(agreed, session)
    }

    fn open(
        &mut self,
        name: &str,
        machine: &mut Handshake,
        out: &mut Vec<u8>,
    ) -> Result<(Negotiated, Box<dyn Session>), Step> {
        let peer = Peer { address: self.start.address.clone(), secure: machine.is_secure() };
        let why = if self.stopping() {
            Refusal::Shutdown
        } else if let Some(export) = self.start.exports.get(name) {
            let info = export.info();
            match (info.check(), export.open(&peer)) {
                (Ok(()), Ok(session)) => return Ok((machine.opened(&info, out), session)),
                _ => Refusal::Policy,
            }
        } else {
            Refusal::Unknown
        };
        Err(machine.refused(why, out))
    }

    fn send_handshake(&mut self, out: &mut Vec<u8>, deadline: Instant) -> Result<(), End> {
        self.send_bytes(out, Some(deadline))?;
        out.clear();
        Ok(())
    }

    fn receive_handshake(&mut self, deadline: Instant) -> Result<(), End> {
        let fd = self.fd();
        loop {
            let room = self.input.room();
            let received = match &mut self.pipe {
                Pipe::Plain => sys::receive_into(fd, room, false)?,
                Pipe::Tls(tls) => tls.receive(fd, room)?,
            };
            match received {
                Some(0) => return Err(End::Gone),
                Some(n) => {
                    self.input.end += n;
                    return Ok(());
                }
                None if sys::wait(fd, true, false, None, Some(deadline))?.nothing() => {
                    return Err(End::Failed(io::ErrorKind::TimedOut.into()));
                }
                None => {}
            }
        }
    }

    /// What is still in the input belongs to TLS: options that were sent in the clear together with
    /// STARTTLS, to be taken for part of the protected conversation, are no TLS and end it.
    fn begin_tls(&mut self, deadline: Instant) -> Result<(), End> {
        let Some(tls) = &self.start.tls else { return Err(End::Gone) };
        let early = self.input.bytes().to_vec();
        (self.input.start, self.input.end) = (0, 0);
        self.pipe = Pipe::Tls(Box::new(tls.accept(self.fd(), &early, deadline)?));
        Ok(())
    }

    /// Sends all of it, waiting as long as it takes.
    fn send_bytes(&mut self, bytes: &[u8], deadline: Option<Instant>) -> io::Result<()> {
        let fd = self.fd();
        match &mut self.pipe {
            Pipe::Plain => {
                let mut spans = [Span::new(bytes.as_ptr(), bytes.len())];
                // SAFETY: the span is the slice.
                unsafe { send_all(fd, &mut spans, deadline) }
            }
            Pipe::Tls(tls) => tls.send_all(fd, bytes, deadline),
        }
    }

    // ---- Transmission.

    fn transmit(mut self, agreed: Negotiated, session: Box<dyn Session>) -> Result<End, End> {
        let replies = Replies::from(&agreed);
        let _ = self.start.link.replies.set(replies);
        let mut work = Work {
            rules: agreed.rules,
            out: Outgoing::new(replies, matches!(self.pipe, Pipe::Tls(_))),
            session,
        };
        let end = self.work(&mut work);
        self.tally.errors += work.out.errors;
        self.tally.hand_in(&self.start.link.counters);
        match end {
            Ok(End::Left) => {
                // The client gets the answers to all that it asked for before it left.
                self.drain();
                if let Pipe::Tls(tls) = &mut self.pipe {
                    let _ = tls.close(self.start.link.socket.as_fd());
                }
                Ok(End::Left)
            }
            Err(End::Gone) if self.stopping() => {
                self.drain();
                Ok(End::Gone)
            }
            end => end,
        }
    }

    /// Waits for what is pending, as long as is given to a client that leaves.
    fn drain(&mut self) {
        let deadline = Instant::now() + self.start.limits.farewell;
        let link = &self.start.link;
        while (link.pending() > 0 || link.has_queued()) && Instant::now() < deadline {
            if self.send_others().is_err() {
                return;
            }
            let sleepless = link.fall_asleep(true);
            if link.pending() > 0 || sleepless {
                let until = deadline.min(Instant::now() + LOOK_AGAIN);
                let _ = sys::wait(self.fd(), false, sleepless, link.bell(), Some(until));
            }
            link.woke_up();
        }
    }

    fn work(&mut self, work: &mut Work) -> Result<End, End> {
        loop {
            let end = self.submit_all(work)?;
            work.session.submitted();
            self.flush(&mut work.out)?;
            self.tally.errors += std::mem::take(&mut work.out.errors);
            self.tally.hand_in(&self.start.link.counters);
            if end {
                return Ok(End::Left);
            }
            if self.stopping() {
                return Err(End::Gone);
            }
            self.receive()?;
        }
    }

    /// Submits all requests that are there. True when the client leaves.
    fn submit_all(&mut self, work: &mut Work) -> Result<bool, End> {
        let limits = &self.start.limits;
        loop {
            if self.start.link.crowded(limits.requests, limits.in_flight_bytes) {
                work.session.submitted();
                self.flush(&mut work.out)?;
                self.wait_for_room()?;
            }
            let bytes = self.input.bytes();
            let Some((head, rest)) = bytes.split_first_chunk::<REQUEST_BYTES>() else {
                return Ok(false);
            };
            let Some(request) = Request::decode(head) else {
                return Err(End::Violation(Violation::RequestMagic));
            };
            let payload = request.payload_bytes() as usize;
            let have = rest.len();
            match work.rules.admit(&request) {
                Admission::Run(command) if payload <= have => {
                    count(&mut self.tally, &command);
                    self.at_once += 1;
                    let data = &rest[..payload];
                    work.session.submit(Io {
                        command,
                        data,
                        placed: false,
                        out: &mut work.out,
                        link: &self.start.link,
                        answered: false,
                    });
                    self.input.start += REQUEST_BYTES + payload;
                    self.input.sparing = false;
                }
                Admission::Run(command) => {
                    let missing = payload - have;
                    if missing < PLACE_BYTES_MIN && REQUEST_BYTES + payload <= INPUT_BYTES {
                        return Ok(false);
                    }
                    // The client may wait for these before it goes on.
                    work.session.submitted();
                    self.flush(&mut work.out)?;
                    self.input.start += REQUEST_BYTES;
                    self.take_payload(work, command)?;
                }
                Admission::Refuse(errno) => {
                    self.input.start += REQUEST_BYTES;
                    if payload > have {
                        self.flush(&mut work.out)?;
                    }
                    self.skip_payload(payload)?;
                    work.out.refuse(request.cookie, errno);
                    self.tally.refused += 1;
                }
                Admission::Leave => {
                    self.tally.requests[Kind::Disc as usize] += 1;
                    return Ok(true);
                }
                Admission::Drop(violation) => {
                    self.flush(&mut work.out)?;
                    return Err(End::Violation(violation));
                }
            }
            if work.out.is_full() {
                self.flush(&mut work.out)?;
            }
        }
    }

    /// Receives a payload that does not fit the input, or is large, and submits its write.
    fn take_payload(&mut self, work: &mut Work, command: Command) -> Result<(), End> {
        let len = command.len_bytes as usize;
        let place = match self.pipe {
            Pipe::Plain => work.session.place(command.offset_bytes, command.len_bytes),
            Pipe::Tls(_) => None,
        };
        let buffer = if let Some(place) = place.filter(|p| p.len == len) {
            let have = self.input.bytes();
            // SAFETY: the place is mapped as long as the session, has `len` bytes, and overlaps
            // nothing of ours; `have` is shorter, or the payload would be complete.
            unsafe { std::ptr::copy_nonoverlapping(have.as_ptr(), place.start, have.len()) };
            let have = have.len();
            self.input.start = self.input.end;
            self.input.sparing = true;
            if let Err(end) = self.receive_placed(place.start.wrapping_add(have), len - have) {
                work.session.broken_off(command.offset_bytes, command.len_bytes);
                return Err(end);
            }
            None
        } else {
            Some(self.receive_payload(len)?)
        };
        count(&mut self.tally, &command);
        work.session.submit(Io {
            command,
            data: buffer.as_deref().unwrap_or_default(),
            placed: buffer.is_none(),
            out: &mut work.out,
            link: &self.start.link,
            answered: false,
        });
        Ok(())
    }

    /// The rest of a payload to its place, and what comes behind it to the input, which is empty.
    fn receive_placed(&mut self, mut start: *mut u8, mut len: usize) -> Result<(), End> {
        while len > 0 {
            let room = self.input.room();
            let behind = Span::new(room.as_ptr(), room.len());
            let mut spans = [Span::new(start, len), behind];
            self.wait_readable()?;
            // SAFETY: the place is as in `take_payload`; the room is a slice of our own, which is not
            // used until the call is over.
            let received = unsafe { sys::receive(self.fd(), &mut spans, true) }?;
            let n = received.unwrap_or_default();
            if n == 0 {
                return Err(End::Gone);
            }
            let placed = n.min(len);
            self.input.end += n - placed;
            start = start.wrapping_add(placed);
            len -= placed;
        }
        Ok(())
    }

    /// A payload in a buffer of its own, which grows only as bytes come.
    fn receive_payload(&mut self, len: usize) -> Result<Vec<u8>, End> {
        let mut buffer = Vec::new();
        while buffer.len() < len {
            if self.input.bytes().is_empty() {
                self.receive()?;
            }
            if buffer.len() == buffer.capacity() {
                buffer
                    .reserve_exact((buffer.len().max(PAYLOAD_STEP_BYTES)).min(len - buffer.len()));
            }
            let bytes = self.input.bytes();
            let n = bytes.len().min(len - buffer.len()).min(buffer.capacity() - buffer.len());
            buffer.extend_from_slice(&bytes[..n]);
            self.input.start += n;
        }
        Ok(buffer)
    }

    fn skip_payload(&mut self, mut len: usize) -> Result<(), End> {
        while len > 0 {
            if self.input.bytes().is_empty() {
                self.receive()?;
            }
            let n = self.input.bytes().len().min(len);
            self.input.start += n;
            len -= n;
        }
        Ok(())
    }

    /// Receives at least one byte into the input. Sends meanwhile what others answered.
    fn receive(&mut self) -> Result<(), End> {
        let fd = self.fd();
        let alone = std::mem::take(&mut self.at_once) <= 1;
        loop {
            self.wait_readable()?;
            let block = !self.start.link.used();
            let room = self.input.room();
            debug_assert!(!room.is_empty());
            let received = match &mut self.pipe {
                Pipe::Plain if block && alone => {
                    self.patience.get(|wait| sys::receive_into(fd, room, wait))?
                }
                Pipe::Plain => sys::receive_into(fd, room, block)?,
                Pipe::Tls(tls) => tls.receive(fd, room)?,
            };
            match received {
                Some(0) => return Err(End::Gone),
                Some(n) => {
                    self.input.end += n;
                    return Ok(());
                }
                None => {
                    // With TLS a wake-up may bring less than a record; wait for the rest of it.
                    if !self.start.link.used() {
                        sys::wait(fd, true, false, None, None)?;
                    }
                }
            }
        }
    }

    /// Returns when there may be something to read; until then sends what others answered. Without
    /// anything taken for later it returns at once, and the receive itself may wait.
    fn wait_readable(&mut self) -> Result<(), End> {
        let link = Arc::clone(&self.start.link);
        if !link.used() {
            return Ok(());
        }
        if let Pipe::Tls(tls) = &mut self.pipe
            && tls.has_more()
        {
            return Ok(());
        }
        loop {
            self.send_others()?;
            let more = link.fall_asleep(false);
            let until = link.bell().is_none().then(|| Instant::now() + LOOK_AGAIN);
            let woken = if more && matches!(self.pipe, Pipe::Tls(_)) {
                Ok(sys::Woken::default())
            } else {
                sys::wait(self.fd(), true, more, link.bell(), until)
            };
            link.woke_up();
            if woken?.readable {
                return Ok(());
            }
            if self.stopping() {
                return Err(End::Gone);
            }
        }
    }

    /// Waits until so much is answered and sent that the limits allow another request.
    fn wait_for_room(&mut self) -> Result<(), End> {
        let link = Arc::clone(&self.start.link);
        let limits = &self.start.limits;
        while link.crowded(limits.requests, limits.in_flight_bytes) {
            self.send_others()?;
            let more = link.fall_asleep(true);
            let woken = if link.crowded(limits.requests, limits.in_flight_bytes)
                && !(more && matches!(self.pipe, Pipe::Tls(_)))
            {
                let until = Instant::now() + Duration::from_millis(500);
                sys::wait(self.fd(), false, more, link.bell(), Some(until)).map(drop)
            } else {
                Ok(())
            };
            link.woke_up();
            woken?;
            if self.stopping() {
                return Err(End::Gone);
            }
        }
        Ok(())
    }

    /// Sends what others answered, as far as the socket takes it; all of it with TLS.
    fn send_others(&mut self) -> io::Result<()> {
        let link = &self.start.link;
        if !link.has_queued() {
            return Ok(());
        }
        if let Pipe::Plain = self.pipe {
            return link.send_queued(true);
        }
        let mut queued = std::mem::take(&mut self.queued);
        link.take_queued(&mut queued);
        let sent = self.send_bytes(&queued, None);
        self.queued = queued;
        sent
    }

    /// Sends the replies, all of them.
    fn flush(&mut self, out: &mut Outgoing) -> Result<(), End> {
        if out.is_empty() {
            return Ok(());
        }
        if let Pipe::Tls(_) = self.pipe {
            self.send_others()?;
            self.send_bytes(out.own_bytes(), None)?;
        } else {
            let link = &self.start.link;
            while !link.begin_own() {
                link.send_queued(true)?;
                if link.begin_own() {
                    break;
                }
                sys::wait(self.fd(), false, true, None, None)?;
            }
            // SAFETY: the spans are bytes of `out`, which is not touched meanwhile, and words that
            // stay mapped as long as the session, which outlives this call.
            let sent = unsafe { send_all(self.fd(), out.spans(), None) };
            let others = link.end_own();
            sent?;
            others?;
        }
        out.clear();
        Ok(())
    }
}

/// What a connection has once it is agreed.
struct Work {
    rules: crate::wire::Rules,
    // Before the session, for it refers to what the session lent.
    out: Outgoing,
    session: Box<dyn Session>,
}

#[inline]
fn count(tally: &mut Tally, command: &Command) {
    tally.requests[command.kind as usize] += 1;
    match command.kind {
        Kind::Read => tally.read_bytes += u64::from(command.len_bytes),
        Kind::Write => tally.written_bytes += u64::from(command.len_bytes),
        _ => {}
    }
}

/// Sends all of the spans, waiting as long as it takes, or until the deadline.
///
/// # Safety
/// As for [`sys::send`].
unsafe fn send_all(
    fd: BorrowedFd<'_>,
    mut spans: &mut [Span],
    deadline: Option<Instant>,
) -> io::Result<()> {
    while !spans.is_empty() {
        // SAFETY: the caller's promise.
        match unsafe { sys::send(fd, spans) }? {
            Some(n) => spans = sys::advance(spans, n),
            None => {
                if sys::wait(fd, false, true, None, deadline)?.nothing() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
        }
        if spans.first().is_some_and(|s| s.len() == 0) {
            spans = &mut spans[1..];
        }
    }
    Ok(())
}
