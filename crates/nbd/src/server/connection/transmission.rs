//! Transmission: receives requests and sends replies, until the client leaves.
//!
//! **The loop.** One receive takes all available requests; each is submitted in turn; one send takes all replies. No
//! request costs an allocation or a lock. If the session offers memory, large payloads are received directly into it.

use super::{Connection, End, INPUT_BYTES, Pipe, send_all};
use crate::server::counters::Tally;
use crate::server::export::{Io, Session};
use crate::server::link::{self, Link};
use crate::server::send_queue::Outgoing;
use crate::syscalls::{self, Span};
use crate::wire::{
    Admission, Command, Kind, Negotiated, REQUEST_BYTES, Replies, Request, Rules, Violation,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Minimum remaining length of a payload that is received directly into memory that the session offers, bytes.
const PLACE_BYTES_MIN: usize = 16 << 10;
/// Step in which a payload's buffer grows while its bytes arrive.
const PAYLOAD_STEP_BYTES: usize = 1 << 20;
/// If waiting for the client takes at least this long, the thread is assumed to have slept.
const ASLEEP: Duration = Duration::from_micros(10);
/// Interval at which a thread checks for work if it has no waker.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Connection<'_> {
    pub(super) fn transmit(
        mut self,
        agreed: Negotiated,
        session: Box<dyn Session>,
    ) -> Result<End, End> {
        let replies = Replies::from(&agreed);
        let _ = self.start.link.replies.set(replies);
        let mut work = Work {
            rules: agreed.rules,
            out: Outgoing::new(replies, matches!(self.pipe, Pipe::Tls(_))),
            session,
        };
        let end = self.work(&mut work);
        work.session.may_block();
        self.tally.errors += work.out.errors;
        self.tally.hand_in(&self.start.link.counters);
        match end {
            Ok(End::Left) => {
                // The client gets the answers to all requests before its disconnect request.
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

    /// Waits until all pending requests are answered, but not longer than `Limits::farewell`.
    fn drain(&mut self) {
        let deadline = Instant::now() + self.start.limits.farewell;
        let link = &self.start.link;
        while link.owes() && Instant::now() < deadline {
            if self.send_others().is_err() {
                return;
            }
            let sleepless = link.fall_asleep(true);
            if link.owes() {
                let until = deadline.min(Instant::now() + POLL_INTERVAL);
                let _ = syscalls::wait(self.fd(), false, sleepless, link.waker(), Some(until));
            }
            link.woke_up();
        }
    }

    fn work(&mut self, work: &mut Work) -> Result<End, End> {
        loop {
            let end = self.submit_all(work)?;
            work.session.submitted();
            self.flush(work)?;
            self.tally.errors += std::mem::take(&mut work.out.errors);
            self.tally.hand_in(&self.start.link.counters);
            if end {
                return Ok(End::Left);
            }
            if self.stopping() {
                return Err(End::Gone);
            }
            if !self.poll(work)? {
                work.session.may_block();
                let since = Instant::now();
                self.receive()?;
                if since.elapsed() > ASLEEP {
                    work.session.woken();
                }
            }
        }
    }

    /// Polls for the client's next request until it arrives or the session stops polling. Returns true if bytes
    /// arrived.
    fn poll(&mut self, work: &mut Work) -> Result<bool, End> {
        if !self.start.link.used() || matches!(self.pipe, Pipe::Tls(_)) {
            return Ok(false);
        }
        if let Some(watched) = &mut self.watched {
            *watched = Watched { sends: self.start.link.sends(), state: Watch::Behind };
        }
        loop {
            let goes_on = work.session.poll(self.start.link.pending() > 0);
            self.watch_answer(&mut *work.session);
            if !goes_on {
                return Ok(false);
            }
            let fd = self.start.link.socket.as_fd();
            match syscalls::receive_into(fd, self.input.free_space(), false)? {
                Some(0) => return Err(End::Gone),
                Some(n) => {
                    self.input.end += n;
                    self.start.link.moved(n);
                    self.watch_answer(&mut *work.session);
                    return Ok(true);
                }
                // Bytes left over from an earlier send wait for the socket.
                None if self.start.link.has_queued() || self.stopping() => return Ok(false),
                None => {}
            }
        }
    }

    /// Measures the time between sending a reply and the client reading it from the socket. Only measures replies
    /// that are sent when the client has read all earlier ones.
    fn watch_answer(&mut self, session: &mut dyn Session) {
        let Some(watched) = &mut self.watched else { return };
        let link = &self.start.link;
        let sends = link.sends();
        let sent = sends.wrapping_sub(watched.sends);
        watched.sends = sends;
        if sent == 0 && watched.state == Watch::Idle {
            return;
        }
        let taken = syscalls::untaken_bytes(link.socket.as_fd()) == Some(0);
        let since = match watched.state {
            Watch::Idle if sent == 1 => link.last_send(),
            Watch::Sent(at) if sent == 0 => Some(at),
            _ => None,
        };
        if taken && let Some(at) = since {
            session.taken(at.elapsed());
        }
        watched.state = match since {
            _ if taken => Watch::Idle,
            Some(at) => Watch::Sent(at),
            None => Watch::Behind,
        };
    }

    /// Submits all complete requests in the input to the session. Returns true if the client disconnects.
    fn submit_all(&mut self, work: &mut Work) -> Result<bool, End> {
        let limits = &self.start.limits;
        loop {
            if self.start.link.crowded(limits.requests, limits.in_flight_bytes) {
                work.session.submitted();
                self.flush(work)?;
                work.session.may_block();
                self.wait_below_limits()?;
            }
            let bytes = self.input.bytes();
            let Some((head, _)) = bytes.split_first_chunk::<REQUEST_BYTES>() else {
                return Ok(false);
            };
            let Some(request) = Request::decode(head) else {
                return Err(End::Violation(Violation::RequestMagic));
            };
            let payload = request.payload_bytes() as usize;
            let admission = work.rules.admit(&request);
            if let Admission::Run(command) = &admission
                && !self.affords(work, command)
            {
                self.wait_for_budget(work, command)?;
            }
            let have = self.input.bytes().len() - REQUEST_BYTES;
            match admission {
                Admission::Run(command) if payload <= have => {
                    count(&mut self.tally, &command);
                    let data = &self.input.bytes()[REQUEST_BYTES..REQUEST_BYTES + payload];
                    work.submit(&self.start.link, command, data, false);
                    self.input.start += REQUEST_BYTES + payload;
                    self.input.sparing = false;
                }
                Admission::Run(command) => {
                    let missing = payload - have;
                    if missing < PLACE_BYTES_MIN && REQUEST_BYTES + payload <= INPUT_BYTES {
                        return Ok(false);
                    }
                    // The client may wait for these replies before it sends more.
                    work.session.submitted();
                    self.flush(work)?;
                    work.session.may_block();
                    self.input.start += REQUEST_BYTES;
                    self.take_payload(work, command)?;
                }
                Admission::Refuse(errno) => {
                    self.input.start += REQUEST_BYTES;
                    if payload > have {
                        self.flush(work)?;
                        work.session.may_block();
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
                    self.flush(work)?;
                    return Err(End::Violation(violation));
                }
            }
            self.start.link.keep_own_bytes(work.out.held_bytes());
            if work.out.is_full() {
                self.flush(work)?;
            }
        }
    }

    /// Receives the payload of a write if it is large or exceeds the input buffer, and submits the write.
    fn take_payload(&mut self, work: &mut Work, command: Command) -> Result<(), End> {
        let len = command.len_bytes as usize;
        let place = match self.pipe {
            Pipe::Plain => work.session.place(command.offset_bytes, command.len_bytes),
            Pipe::Tls(_) => None,
        };
        let buffer = if let Some(place) = place.filter(|p| p.len == len) {
            let have = self.input.bytes();
            // SAFETY: the place is mapped as long as the session, has `len` bytes, and does not overlap the input;
            // `have` is shorter, since the payload is incomplete.
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
        let data = buffer.as_deref().unwrap_or_default();
        work.submit(&self.start.link, command, data, buffer.is_none());
        Ok(())
    }

    /// Receives the rest of a payload directly into the session's memory, and the bytes that follow it into the
    /// input buffer, which must be empty.
    fn receive_placed(&mut self, mut start: *mut u8, mut len: usize) -> Result<(), End> {
        while len > 0 {
            let space = self.input.free_space();
            let behind = Span::new(space.as_ptr(), space.len());
            let mut spans = [Span::new(start, len), behind];
            self.wait_readable()?;
            // SAFETY: the place is as in `take_payload`; the free space belongs to the input and is not used during the
            // call.
            let received = unsafe { syscalls::receive(self.fd(), &mut spans, true) }?;
            let n = match received {
                Some(0) => return Err(End::Gone),
                Some(n) => n,
                // A signal ended the wait.
                None => continue,
            };
            self.start.link.moved(n);
            let placed = n.min(len);
            self.input.end += n - placed;
            start = start.wrapping_add(placed);
            len -= placed;
        }
        Ok(())
    }

    /// Receives a payload into its own buffer, which grows only as bytes arrive.
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

    /// Receives at least one byte into the input buffer. While waiting, sends replies of other threads.
    fn receive(&mut self) -> Result<(), End> {
        let fd = self.fd();
        loop {
            self.wait_readable()?;
            let block = !self.start.link.used();
            let space = self.input.free_space();
            debug_assert!(!space.is_empty());
            let received = match &mut self.pipe {
                Pipe::Plain => {
                    self.busy_poll.get(block, |wait| syscalls::receive_into(fd, space, wait))?
                }
                Pipe::Tls(tls) => tls.receive(fd, space)?,
            };
            match received {
                Some(0) => return Err(End::Gone),
                Some(n) => {
                    self.input.end += n;
                    self.start.link.moved(n);
                    return Ok(());
                }
                None => {
                    // A TLS wake-up may bring less than a record; wait for the rest of it.
                    if !self.start.link.used() {
                        syscalls::wait(fd, true, false, None, None)?;
                    }
                }
            }
        }
    }

    /// Waits until the socket may be readable. While it waits, sends replies of other threads. If no request was
    /// deferred yet, returns immediately, because the receive that follows may block.
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
            let until = link.waker().is_none().then(|| Instant::now() + POLL_INTERVAL);
            let woken = if more && matches!(self.pipe, Pipe::Tls(_)) {
                Ok(syscalls::Woken::default())
            } else {
                syscalls::wait(self.fd(), true, more, link.waker(), until)
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

    /// Waits until enough replies are sent that the limits allow another request.
    fn wait_below_limits(&mut self) -> Result<(), End> {
        let link = Arc::clone(&self.start.link);
        let limits = &self.start.limits;
        while link.crowded(limits.requests, limits.in_flight_bytes) {
            self.send_others()?;
            let more = link.fall_asleep(true);
            let woken = if link.crowded(limits.requests, limits.in_flight_bytes)
                && !(more && matches!(self.pipe, Pipe::Tls(_)))
            {
                let until = Instant::now() + Duration::from_millis(500);
                syscalls::wait(self.fd(), false, more, link.waker(), Some(until)).map(drop)
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

    /// Sends replies that other threads have queued: with TLS all of them, otherwise until the socket is full.
    pub(super) fn send_others(&mut self) -> io::Result<()> {
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
        self.start.link.sent(queued.len());
        queued.clear();
        link::trim(&mut queued);
        self.queued = queued;
        sent
    }

    /// Sends all replies that this thread has collected.
    pub(super) fn flush(&mut self, work: &mut Work) -> Result<(), End> {
        let out = &mut work.out;
        if out.is_empty() {
            return Ok(());
        }
        work.session.may_block();
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
                syscalls::wait(self.fd(), false, true, None, None)?;
            }
            // SAFETY: the spans are bytes of `out`, which is not touched during the call, and words that stay mapped as
            // long as the session, which outlives this call.
            let sent = unsafe { send_all(link, out.spans(), None) };
            let others = link.end_own();
            sent?;
            others?;
        }
        out.clear();
        self.start.link.keep_own_bytes(0);
        Ok(())
    }
}

/// State of a connection whose negotiation has succeeded.
pub(super) struct Work {
    rules: Rules,
    // Declared before the session, since it refers to memory that the session lent.
    pub(super) out: Outgoing,
    pub(super) session: Box<dyn Session>,
}

impl Work {
    /// Passes a request and its payload to the session. `placed` means that the payload is already in the session's
    /// memory.
    #[inline]
    fn submit(&mut self, link: &Arc<Link>, command: Command, data: &[u8], placed: bool) {
        link.set_submits(true);
        let out = &mut self.out;
        self.session.submit(Io { command, data, placed, out, link, answered: false });
        link.set_submits(false);
    }
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

/// Whether the client has read the replies sent so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    /// The client has read all replies.
    Idle,
    /// One reply, sent at this time, is unread.
    Sent(Instant),
    /// Several replies are unread, so no time can be measured.
    Behind,
}

/// State of [`Connection::watch_answer`] between its calls.
#[derive(Debug)]
pub(super) struct Watched {
    /// Value of [`Link::sends`](crate::server::link::Link::sends) at the previous call.
    sends: usize,
    state: Watch,
}

impl Watched {
    /// Returns the initial state for a Unix socket. `None` for other sockets: their send queue does not show
    /// whether the client has read the data.
    pub(super) fn of(socket: BorrowedFd<'_>) -> Option<Self> {
        syscalls::is_unix(socket).then_some(Self { sends: 0, state: Watch::Idle })
    }
}
