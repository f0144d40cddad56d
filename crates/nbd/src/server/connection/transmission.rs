//! Transmission: requests in, replies out, until the client leaves.
//!
//! **The loop.** One receive takes all requests that the socket has; each is submitted in turn; one
//! send takes all their replies. No request costs an allocation or a lock. Large payloads go
//! straight to their place where the session has one.

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

/// A payload of which so much is still to come is received straight to its place, bytes.
const PLACE_BYTES_MIN: usize = 16 << 10;
/// A payload's buffer grows by this much at a time, as the bytes come.
const PAYLOAD_STEP_BYTES: usize = 1 << 20;
/// A thread that has waited so long for its client slept.
const ASLEEP: Duration = Duration::from_micros(10);
/// A thread that nobody could wake looks this often.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(20);

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
        work.session.rest();
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
        while link.owes() && Instant::now() < deadline {
            if self.send_others().is_err() {
                return;
            }
            let sleepless = link.fall_asleep(true);
            if link.owes() {
                let until = deadline.min(Instant::now() + LOOK_AGAIN);
                let _ = syscalls::wait(self.fd(), false, sleepless, link.bell(), Some(until));
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
            if !self.look(work)? {
                work.session.rest();
                let since = Instant::now();
                self.receive()?;
                if since.elapsed() > ASLEEP {
                    work.session.woken();
                }
            }
        }
    }

    /// Looks for what the client says next as long as the session likes to. True when there is something.
    fn look(&mut self, work: &mut Work) -> Result<bool, End> {
        if !self.start.link.used() || matches!(self.pipe, Pipe::Tls(_)) {
            return Ok(false);
        }
        if let Some(watched) = &mut self.watched {
            *watched = Watched { sends: self.start.link.sends(), state: Watch::Behind };
        }
        loop {
            let goes_on = work.session.look(self.start.link.pending() > 0);
            self.watch_answer(&mut *work.session);
            if !goes_on {
                return Ok(false);
            }
            let fd = self.start.link.socket.as_fd();
            match syscalls::receive_into(fd, self.input.room(), false)? {
                Some(0) => return Err(End::Gone),
                Some(n) => {
                    self.input.end += n;
                    self.start.link.moved(n);
                    self.watch_answer(&mut *work.session);
                    return Ok(true);
                }
                // What the socket did not take before has to wait for the socket.
                None if self.start.link.has_queued() || self.stopping() => return Ok(false),
                None => {}
            }
        }
    }

    /// Sees how long an answer takes from its sending until the client has taken it: one that was sent
    /// while it had taken all before.
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

    /// Submits all requests that are there. True when the client leaves.
    fn submit_all(&mut self, work: &mut Work) -> Result<bool, End> {
        let limits = &self.start.limits;
        loop {
            if self.start.link.crowded(limits.requests, limits.in_flight_bytes) {
                work.session.submitted();
                self.flush(work)?;
                work.session.rest();
                self.wait_for_room()?;
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
                    // The client may wait for these before it goes on.
                    work.session.submitted();
                    self.flush(work)?;
                    work.session.rest();
                    self.input.start += REQUEST_BYTES;
                    self.take_payload(work, command)?;
                }
                Admission::Refuse(errno) => {
                    self.input.start += REQUEST_BYTES;
                    if payload > have {
                        self.flush(work)?;
                        work.session.rest();
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
        let data = buffer.as_deref().unwrap_or_default();
        work.submit(&self.start.link, command, data, buffer.is_none());
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
        loop {
            self.wait_readable()?;
            let block = !self.start.link.used();
            let room = self.input.room();
            debug_assert!(!room.is_empty());
            let received = match &mut self.pipe {
                Pipe::Plain => {
                    self.patience.get(block, |wait| syscalls::receive_into(fd, room, wait))?
                }
                Pipe::Tls(tls) => tls.receive(fd, room)?,
            };
            match received {
                Some(0) => return Err(End::Gone),
                Some(n) => {
                    self.input.end += n;
                    self.start.link.moved(n);
                    return Ok(());
                }
                None => {
                    // With TLS a wake-up may bring less than a record; wait for the rest of it.
                    if !self.start.link.used() {
                        syscalls::wait(fd, true, false, None, None)?;
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
                Ok(syscalls::Woken::default())
            } else {
                syscalls::wait(self.fd(), true, more, link.bell(), until)
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
                syscalls::wait(self.fd(), false, more, link.bell(), Some(until)).map(drop)
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

    /// Sends the replies, all of them.
    pub(super) fn flush(&mut self, work: &mut Work) -> Result<(), End> {
        let out = &mut work.out;
        if out.is_empty() {
            return Ok(());
        }
        work.session.rest();
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
            // SAFETY: the spans are bytes of `out`, which is not touched meanwhile, and words that
            // stay mapped as long as the session, which outlives this call.
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

/// What a connection has once it is agreed.
pub(super) struct Work {
    rules: Rules,
    // Before the session, for it refers to what the session lent.
    pub(super) out: Outgoing,
    pub(super) session: Box<dyn Session>,
}

impl Work {
    /// Hands a request to the session.
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

/// What a connection's thread knows of the answer that was sent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    /// The client has taken all.
    Idle,
    /// The sending of the only answer that it has not taken began then.
    Sent(Instant),
    /// There are several.
    Behind,
}

/// See [`Connection::watch_answer`].
#[derive(Debug)]
pub(super) struct Watched {
    /// [`Link::sends`](crate::server::link::Link::sends) as it was.
    sends: usize,
    state: Watch,
}

impl Watched {
    /// Where the socket tells.
    pub(super) fn of(socket: BorrowedFd<'_>) -> Option<Self> {
        syscalls::is_unix(socket).then_some(Self { sends: 0, state: Watch::Idle })
    }
}
