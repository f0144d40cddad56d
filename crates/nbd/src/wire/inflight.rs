//! The client's table of requests in flight, and the parser of their replies. It encodes the headers of requests,
//! finds the request of each reply by its cookie, and tells the caller where a payload belongs. It copies no payload
//! itself.
//!
//! The server is not trusted. Each of these faults makes the connection unusable: a cookie that is not in flight, a
//! chunk outside its request, bytes sent twice, bytes missing despite success, inconsistent lengths. (Two other clients
//! have silently corrupted copies because they did not check for such faults.)

use super::bytes::Reader;
use super::request::{Kind, REQUEST_BYTES, Request};
use super::values::{
    CHUNK_BLOCK_STATUS, CHUNK_DONE, CHUNK_ERROR, CHUNK_ERROR_BIT, CHUNK_ERROR_OFFSET, CHUNK_MAGIC,
    CHUNK_NONE, CHUNK_OFFSET_DATA, CHUNK_OFFSET_HOLE, CmdFlags, Errno, NAME_MAX, SIMPLE_MAGIC,
};

/// Maximum number of extents in one reply, as limited by the protocol document.
const EXTENTS_MAX: u32 = 1 << 20;
/// Maximum number of separate ranges that may be received out of order for one read.
const PIECES_MAX: usize = 1024;
/// Maximum length of an error chunk, bytes: its fixed part and the longest message.
const ERROR_CHUNK_MAX: u32 = 14 + NAME_MAX as u32;

/// A protocol violation by the server, which ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server broke the protocol: {0}")]
pub struct ServerFault(pub &'static str);

/// An extent in a block status reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length of the extent, bytes; never 0.
    pub len_bytes: u32,
    /// Flags: [`super::STATE_HOLE`], [`super::STATE_ZERO`], and perhaps others of the metadata context.
    pub state: u32,
}

/// Next event in the stream of replies from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEvent {
    /// Call [`Calls::step`] again. If the last call consumed no input, receive more first.
    More,
    /// The next `len` bytes of the stream are data of a read. The caller consumes them, in any number of pieces,
    /// and reports each piece by [`Calls::took`] before the next step.
    Data {
        /// Slot number of the read request.
        slot: u32,
        /// Offset of the data from the start of the read, bytes.
        at: u32,
        /// Length of the data, bytes.
        len: u32,
    },
    /// Part of a read consists of zeroes, which are not sent.
    Zeroes {
        /// Slot number of the read request.
        slot: u32,
        /// Offset of the zeroes from the start of the read, bytes.
        at: u32,
        /// Length of the zeroes, bytes.
        len: u32,
    },
    /// Next extent for the block status request with this slot number.
    Extent(u32, Extent),
    /// The request with this slot number has completed, with this result. Its slot can be reused.
    Done(u32, Result<(), Errno>),
}

#[derive(Clone, Debug)]
struct Call {
    in_flight: bool,
    kind: Kind,
    flags: CmdFlags,
    offset_bytes: u64,
    len_bytes: u32,
    /// Number of times that the slot has been used. Part of the cookie, so that a late reply to an earlier request is
    /// recognised.
    generation: u32,
    error: Option<Errno>,
    covered: Covered,
    /// Whether any extent has been received for the request.
    has_extents: bool,
}

/// Ranges of a read that have been received. Nearly all servers send data in order, so that `next` alone
/// suffices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Covered {
    /// Offset up to which everything has been received.
    next: u32,
    /// Ranges received out of order: ascending, disjoint, and all beyond `next`.
    ahead: Vec<(u32, u32)>,
    /// Number of chunks with data or holes.
    chunks: u32,
}

impl Covered {
    fn add(&mut self, at: u32, len: u32) -> Result<(), ServerFault> {
        let end = at + len;
        if at < self.next {
            return Err(ServerFault("it sent the same bytes of a read twice"));
        }
        if at == self.next && self.ahead.is_empty() {
            self.next = end;
            return Ok(());
        }
        let place = self.ahead.partition_point(|&(start, _)| start < at);
        let clear = place.checked_sub(1).is_none_or(|p| self.ahead[p].1 <= at)
            && self.ahead.get(place).is_none_or(|&(start, _)| end <= start);
        if !clear {
            return Err(ServerFault("it sent the same bytes of a read twice"));
        }
        if self.ahead.len() == PIECES_MAX {
            return Err(ServerFault("it sent a read in too many out-of-order pieces"));
        }
        self.ahead.insert(place, (at, end));
        let in_order = self
            .ahead
            .iter()
            .take_while(|&&(start, end)| {
                let follows = start == self.next;
                if follows {
                    self.next = end;
                }
                follows
            })
            .count();
        self.ahead.drain(..in_order);
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Header,
    /// Expects payload that the caller consumes. `done`: the payload ends the reply.
    Payload {
        slot: u32,
        left: u32,
        done: bool,
    },
    /// Expects extents of a block status reply.
    Extents {
        slot: u32,
        left: u32,
        sum: u64,
        done: bool,
    },
    /// The reply is complete, and its request is to be reported as done.
    Finish {
        slot: u32,
    },
}

/// Requests in flight, indexed by slot number, and the parser of the reply stream.
#[derive(Clone, Debug)]
pub struct Calls {
    slots: Vec<Call>,
    in_flight: u32,
    structured: bool,
    meta_id: Option<u32>,
    state: State,
    /// Message of the last error reply from the server.
    said: String,
}

impl Calls {
    /// Creates a table for at most `slots` requests in flight. `structured` tells whether structured replies were
    /// agreed. `meta_id` is the id of `base:allocation`, `None` if it was not agreed.
    pub fn new(slots: u32, structured: bool, meta_id: Option<u32>) -> Self {
        let free = Call {
            in_flight: false,
            kind: Kind::Flush,
            flags: CmdFlags::NONE,
            offset_bytes: 0,
            len_bytes: 0,
            generation: 0,
            error: None,
            covered: Covered::default(),
            has_extents: false,
        };
        Self {
            slots: vec![free; slots as usize],
            in_flight: 0,
            structured,
            meta_id,
            state: State::Header,
            said: String::new(),
        }
    }

    /// Number of requests that were started, but not yet reported as done.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether no request in flight has this slot number.
    pub fn is_free(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(|call| !call.in_flight)
    }

    /// The server's message in the last error reply; may be empty.
    pub fn said(&self) -> &str {
        &self.said
    }

    /// Kind and length (bytes) of the request in flight with this slot number, or of the last request in this slot.
    #[inline]
    pub fn request(&self, slot: u32) -> (Kind, u32) {
        let call = &self.slots[slot as usize];
        (call.kind, call.len_bytes)
    }

    /// Registers a request under a free slot number, and returns its header to send. Panics if the slot is not
    /// free.
    #[inline]
    pub fn start(
        &mut self,
        slot: u32,
        kind: Kind,
        flags: CmdFlags,
        offset_bytes: u64,
        len_bytes: u32,
    ) -> [u8; REQUEST_BYTES] {
        let call = &mut self.slots[slot as usize];
        assert!(!call.in_flight, "slot {slot} is in flight");
        call.in_flight = true;
        call.kind = kind;
        call.flags = flags;
        call.offset_bytes = offset_bytes;
        call.len_bytes = len_bytes;
        call.generation = call.generation.wrapping_add(1);
        call.error = None;
        call.covered.next = 0;
        call.covered.chunks = 0;
        call.covered.ahead.clear();
        call.has_extents = false;
        self.in_flight += 1;
        let cookie = u64::from(call.generation) << 32 | u64::from(slot);
        let command = kind as u16;
        Request { flags, command, cookie, offset_bytes, len_bytes }.encode()
    }

    /// Parses the next part of a reply from `input`. Returns the number of bytes consumed, and the event. Panics if the
    /// caller has not taken all of the payload that was announced.
    #[inline]
    pub fn step(&mut self, input: &[u8]) -> Result<(usize, CallEvent), ServerFault> {
        match self.state {
            State::Header => self.header(input),
            State::Payload { left, .. } => panic!("{left} bytes of payload were not taken"),
            State::Extents { slot, left, sum, done } => self.extent(slot, left, sum, done, input),
            State::Finish { slot } => self.finish(slot).map(|event| (0, event)),
        }
    }

    /// Reports that the caller has consumed `bytes` of payload. Panics if that exceeds the announced payload.
    #[inline]
    pub fn took(&mut self, bytes: u32) {
        let State::Payload { slot, left, done } = self.state else {
            panic!("no payload was announced");
        };
        let left = left.checked_sub(bytes).expect("more payload than was announced");
        self.state = match (left, done) {
            (0, true) => State::Finish { slot },
            (0, false) => State::Header,
            _ => State::Payload { slot, left, done },
        };
    }

    /// Bytes of announced payload that the caller has not consumed yet.
    pub fn payload_left(&self) -> u32 {
        if let State::Payload { left, .. } = self.state { left } else { 0 }
    }

    #[inline]
    fn find(&self, cookie: u64) -> Result<(u32, Kind), ServerFault> {
        let slot = cookie as u32;
        let call = self.slots.get(slot as usize);
        let call = call.filter(|c| c.in_flight && u64::from(c.generation) == cookie >> 32);
        call.map(|call| (slot, call.kind))
            .ok_or(ServerFault("it answered a request that is not in flight"))
    }

    #[inline]
    fn finish(&mut self, slot: u32) -> Result<CallEvent, ServerFault> {
        let call = &mut self.slots[slot as usize];
        call.in_flight = false;
        self.in_flight -= 1;
        self.state = State::Header;
        if let Some(errno) = call.error {
            return Ok(CallEvent::Done(slot, Err(errno)));
        }
        if call.kind == Kind::Read && call.covered.next != call.len_bytes {
            return Err(ServerFault("it ended a read as successful, but did not send all bytes"));
        }
        if call.kind == Kind::BlockStatus && !call.has_extents {
            return Err(ServerFault("it ended a block status as successful, but sent no extent"));
        }
        Ok(CallEvent::Done(slot, Ok(())))
    }

    #[inline]
    fn header(&mut self, input: &[u8]) -> Result<(usize, CallEvent), ServerFault> {
        let mut r = Reader(input);
        match r.u32() {
            None => Ok((0, CallEvent::More)),
            Some(SIMPLE_MAGIC) => self.simple(r),
            Some(CHUNK_MAGIC) if self.structured => self.chunk(r, input.len()),
            Some(CHUNK_MAGIC) => {
                Err(ServerFault("it sent a chunk, but structured replies were not negotiated"))
            }
            Some(_) => Err(ServerFault("it sent a reply without the magic number")),
        }
    }

    #[inline]
    fn simple(&mut self, mut r: Reader<'_>) -> Result<(usize, CallEvent), ServerFault> {
        let (Some(code), Some(cookie)) = (r.u32(), r.u64()) else {
            return Ok((0, CallEvent::More));
        };
        let (slot, kind) = self.find(cookie)?;
        if self.structured && kind == Kind::Read {
            return Err(ServerFault(
                "it sent a simple reply to a read, but structured replies were negotiated",
            ));
        }
        let call = &mut self.slots[slot as usize];
        call.error = Errno::from_wire(code);
        if kind == Kind::Read && code == 0 && call.len_bytes > 0 {
            let len = call.len_bytes;
            call.covered.next = len;
            self.state = State::Payload { slot, left: len, done: true };
            return Ok((16, CallEvent::Data { slot, at: 0, len }));
        }
        self.finish(slot).map(|event| (16, event))
    }

    #[inline]
    fn chunk(
        &mut self,
        mut r: Reader<'_>,
        input_len: usize,
    ) -> Result<(usize, CallEvent), ServerFault> {
        let head = (r.u16(), r.u16(), r.u64(), r.u32());
        let (Some(flags), Some(kind_of_chunk), Some(cookie), Some(len)) = head else {
            return Ok((0, CallEvent::More));
        };
        let (slot, kind) = self.find(cookie)?;
        let done = flags & CHUNK_DONE != 0;
        match (kind_of_chunk, kind) {
            (CHUNK_NONE, _) => {
                if len != 0 || !done {
                    return Err(ServerFault(
                        "it sent a chunk of type NONE that has data or is not the last chunk",
                    ));
                }
                self.finish(slot).map(|event| (20, event))
            }
            (CHUNK_OFFSET_DATA, Kind::Read) => {
                if len < 9 {
                    return Err(ServerFault("it sent a data chunk without data"));
                }
                let Some(offset) = r.u64() else { return Ok((0, CallEvent::More)) };
                let len = len - 8;
                let at = self.content(slot, offset, len)?;
                self.state = State::Payload { slot, left: len, done };
                Ok((28, CallEvent::Data { slot, at, len }))
            }
            (CHUNK_OFFSET_HOLE, Kind::Read) => {
                if len != 12 {
                    return Err(ServerFault("it sent a hole chunk whose length is not 12 bytes"));
                }
                let (Some(offset), Some(len)) = (r.u64(), r.u32()) else {
                    return Ok((0, CallEvent::More));
                };
                if len == 0 {
                    return Err(ServerFault("it sent a hole of 0 bytes"));
                }
                let at = self.content(slot, offset, len)?;
                self.end_chunk(slot, done);
                Ok((32, CallEvent::Zeroes { slot, at, len }))
            }
            (CHUNK_BLOCK_STATUS, Kind::BlockStatus) => {
                let count = len.wrapping_sub(4) / 8;
                if len < 12 || len % 8 != 4 || count > EXTENTS_MAX {
                    return Err(ServerFault("it sent a block-status chunk of an invalid length"));
                }
                let Some(id) = r.u32() else { return Ok((0, CallEvent::More)) };
                let call = &mut self.slots[slot as usize];
                if Some(id) != self.meta_id || call.has_extents {
                    return Err(ServerFault("it sent a block status that was not requested"));
                }
                if call.flags.has(CmdFlags::REQ_ONE) && count != 1 {
                    return Err(ServerFault("it sent several extents, but one was requested"));
                }
                call.has_extents = true;
                self.state = State::Extents { slot, left: count, sum: 0, done };
                Ok((24, CallEvent::More))
            }
            (k, _) if k & CHUNK_ERROR_BIT != 0 => {
                self.error_chunk(slot, k, done, len, r, input_len)
            }
            _ => Err(ServerFault("it sent a chunk of a kind that does not fit the request")),
        }
    }

    /// Ends a chunk without payload. `done`: the chunk completes the reply.
    fn end_chunk(&mut self, slot: u32, done: bool) {
        self.state = if done { State::Finish { slot } } else { State::Header };
    }

    /// Records a chunk of data or zeroes, and returns its offset within the request. Fails if the chunk lies
    /// outside the request, or has been received before.
    #[inline]
    fn content(&mut self, slot: u32, offset: u64, len: u32) -> Result<u32, ServerFault> {
        let call = &mut self.slots[slot as usize];
        let at = offset.checked_sub(call.offset_bytes);
        let at = at.filter(|at| {
            at.checked_add(u64::from(len)).is_some_and(|end| end <= u64::from(call.len_bytes))
        });
        let at = at.ok_or(ServerFault("it sent bytes outside the requested range"))? as u32;
        call.covered.chunks += 1;
        if call.covered.chunks > 1 && call.flags.has(CmdFlags::DF) {
            return Err(ServerFault("it sent several chunks, but one was requested"));
        }
        call.covered.add(at, len)?;
        Ok(at)
    }

    fn error_chunk(
        &mut self,
        slot: u32,
        kind_of_chunk: u16,
        done: bool,
        len: u32,
        mut r: Reader<'_>,
        input_len: usize,
    ) -> Result<(usize, CallEvent), ServerFault> {
        const LENGTH: ServerFault = ServerFault("it sent an error chunk of an invalid length");
        let fixed = if kind_of_chunk == CHUNK_ERROR_OFFSET { 14 } else { 6 };
        if len < fixed || len > ERROR_CHUNK_MAX {
            return Err(LENGTH);
        }
        if input_len < 20 + len as usize {
            return Ok((0, CallEvent::More));
        }
        let (code, said_len) = (r.u32().ok_or(LENGTH)?, r.u16().ok_or(LENGTH)?);
        if u32::from(said_len) > len - fixed {
            return Err(LENGTH);
        }
        let said = r.take(said_len as usize).ok_or(LENGTH)?;
        let call = &mut self.slots[slot as usize];
        if kind_of_chunk == CHUNK_ERROR_OFFSET {
            let offset = r.u64().ok_or(LENGTH)?;
            let beyond = offset.checked_sub(call.offset_bytes);
            if beyond.is_none_or(|at| at > u64::from(call.len_bytes)) {
                return Err(ServerFault(
                    "it sent an error for an offset outside the requested range",
                ));
            }
        }
        let Some(errno) = Errno::from_wire(code) else {
            let known = kind_of_chunk == CHUNK_ERROR || kind_of_chunk == CHUNK_ERROR_OFFSET;
            if known {
                return Err(ServerFault("it sent an error chunk with error number 0"));
            }
            return Ok(self.failed(slot, Errno::Inval, said, done, len));
        };
        Ok(self.failed(slot, errno, said, done, len))
    }

    fn failed(
        &mut self,
        slot: u32,
        errno: Errno,
        said: &[u8],
        done: bool,
        len: u32,
    ) -> (usize, CallEvent) {
        let call = &mut self.slots[slot as usize];
        call.error = call.error.or(Some(errno));
        self.said.clear();
        self.said.extend(String::from_utf8_lossy(said).chars().filter(|c| !c.is_control()));
        self.end_chunk(slot, done);
        (20 + len as usize, CallEvent::More)
    }

    fn extent(
        &mut self,
        slot: u32,
        left: u32,
        sum: u64,
        done: bool,
        input: &[u8],
    ) -> Result<(usize, CallEvent), ServerFault> {
        let mut r = Reader(input);
        let (Some(len_bytes), Some(state)) = (r.u32(), r.u32()) else {
            return Ok((0, CallEvent::More));
        };
        let call = &self.slots[slot as usize];
        let limit = u64::from(call.len_bytes);
        let sum = sum + u64::from(len_bytes);
        if len_bytes == 0 {
            return Err(ServerFault("it sent an extent of 0 bytes"));
        }
        if (left > 1 && sum >= limit) || (call.flags.has(CmdFlags::REQ_ONE) && sum > limit) {
            return Err(ServerFault("it sent extents beyond the requested range"));
        }
        if left > 1 {
            self.state = State::Extents { slot, left: left - 1, sum, done };
        } else {
            self.end_chunk(slot, done);
        }
        Ok((8, CallEvent::Extent(slot, Extent { len_bytes, state })))
    }
}
