//! The server's side of negotiation: fixed newstyle. Each step takes one message from the input and returns the next
//! action. TLS is either required or absent. If it is required, the server accepts only STARTTLS and ABORT before TLS
//! is established.

use super::bytes::{Put, Reader};
use super::request::Rules;
use super::values::{
    BASE_ALLOCATION, BASE_ALLOCATION_ID, FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, INFO_BLOCK_SIZE,
    INFO_DESCRIPTION, INFO_EXPORT, INFO_NAME, INIT_MAGIC, Info, NAME_MAX, OPT_ABORT,
    OPT_EXPORT_NAME, OPT_GO, OPT_INFO, OPT_LIST, OPT_LIST_META_CONTEXT, OPT_SET_META_CONTEXT,
    OPT_STARTTLS, OPT_STRUCTURED_REPLY, OPTION_DATA_MAX, OPTION_MAGIC, OPTION_REPLY_MAGIC,
    OPTION_SKIP_MAX, PAYLOAD_MAX, REP_ACK, REP_ERR_INVALID, REP_ERR_POLICY, REP_ERR_SHUTDOWN,
    REP_ERR_TLS_REQD, REP_ERR_TOO_BIG, REP_ERR_UNKNOWN, REP_ERR_UNSUP, REP_INFO, REP_META_CONTEXT,
    REP_SERVER, Violation,
};

/// Source of the exports' names and descriptions during the negotiation. Its methods must not open exports.
pub trait Directory {
    /// Calls `each` with the name and description of every export, of at most [`NAME_MAX`] bytes each.
    fn list(&self, each: &mut dyn FnMut(&str, &str));
    /// Describes an export; `None` if it does not exist.
    fn info(&self, name: &str) -> Option<Info>;
}

/// TLS policy of a server. TLS is never optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPolicy {
    /// TLS is not available, so that no client can start it.
    Absent,
    /// The client must start TLS before it negotiates anything else.
    Required,
}

/// Next action for the caller of [`Handshake::step`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Call [`Handshake::step`] again. If the last call consumed no input, receive more first.
    More,
    /// Open the export that the client chose, then call [`Handshake::opened`] or [`Handshake::refused`].
    Open(String),
    /// Send the output, start TLS with the unconsumed input as its first bytes, then call [`Handshake::secured`].
    StartTls,
    /// The client asked to end the handshake: send the output, which is the last reply, then close the connection.
    Leave,
    /// End the connection without a reply, because the client violated the protocol.
    Drop(Violation),
}

/// Reason why the server refuses to open an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No export has this name.
    Unknown,
    /// Opening the export failed: it refuses this client, or all clients.
    Policy,
    /// The server is shutting down.
    Shutdown,
}

/// Result of the negotiation, as seen by the server.
#[derive(Clone, Debug)]
pub struct Negotiated {
    /// Name of the export that the client chose.
    pub name: String,
    /// Whether to reply to reads in chunks (structured replies).
    pub structured: bool,
    /// Whether the client chose the metadata context `base:allocation`.
    pub meta: bool,
    /// Whether the connection uses TLS.
    pub secure: bool,
    pub rules: Rules,
}

/// Which items of information about an export the client requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Wanted {
    name: bool,
    description: bool,
    block_size: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Flags,
    Options,
    /// Discards the remaining `left` bytes of an option's data, then replies to the option.
    Skip {
        left: u32,
        option: u32,
        reply: u32,
        why: &'static str,
    },
    Opening {
        name: String,
        option: u32,
        wanted: Wanted,
    },
    Securing,
    /// The negotiation has ended, with or without success.
    Over,
}

/// State machine for the server's side of the negotiation.
#[derive(Clone, Debug)]
pub struct Handshake {
    policy: TlsPolicy,
    secure: bool,
    no_zeroes: bool,
    structured: bool,
    /// Name of the export for which the client chose `base:allocation`; `None` if it chose none.
    meta: Option<String>,
    state: State,
}

impl Handshake {
    /// Creates the state for a new connection. The server sends the first message, [`Self::greeting`].
    pub fn new(policy: TlsPolicy) -> Self {
        Self {
            policy,
            secure: false,
            no_zeroes: false,
            structured: false,
            meta: None,
            state: State::Flags,
        }
    }

    /// Appends the server's first message to `out`.
    pub fn greeting(out: &mut Vec<u8>) {
        out.put_u64(INIT_MAGIC);
        out.put_u64(OPTION_MAGIC);
        out.put_u16(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
    }

    /// Parses one message from `input`, and appends the reply to `out`. Returns the number of bytes consumed and
    /// the caller's next action. Panics if the caller has not yet handled an earlier [`Step::Open`] or
    /// [`Step::StartTls`]; no client can cause that.
    pub fn step(
        &mut self,
        input: &[u8],
        directory: &dyn Directory,
        out: &mut Vec<u8>,
    ) -> (usize, Step) {
        match self.state {
            State::Flags => self.flags(input),
            State::Options => self.option(input, directory, out),
            State::Skip { left, option, reply, why } => {
                let taken = (left as usize).min(input.len());
                let left = left - taken as u32;
                if left > 0 {
                    self.state = State::Skip { left, option, reply, why };
                } else {
                    self.state = State::Options;
                    put_error(out, option, reply, why);
                }
                (taken, Step::More)
            }
            State::Opening { .. } | State::Securing | State::Over => {
                panic!("the negotiation can't continue: it waits for its caller, or is over")
            }
        }
    }

    fn end(&mut self, taken: usize, step: Step) -> (usize, Step) {
        self.state = State::Over;
        (taken, step)
    }

    fn flags(&mut self, input: &[u8]) -> (usize, Step) {
        let Some(flags) = Reader(input).u32() else { return (0, Step::More) };
        let known = u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
        // A client without fixed newstyle could not understand the answers.
        if flags & !known != 0 || flags & u32::from(FLAG_FIXED_NEWSTYLE) == 0 {
            return self.end(4, Step::Drop(Violation::ClientFlags));
        }
        self.no_zeroes = flags & u32::from(FLAG_NO_ZEROES) != 0;
        self.state = State::Options;
        (4, Step::More)
    }

    fn option(
        &mut self,
        input: &[u8],
        directory: &dyn Directory,
        out: &mut Vec<u8>,
    ) -> (usize, Step) {
        let mut r = Reader(input);
        if let Some(magic) = r.u64()
            && magic != OPTION_MAGIC
        {
            return self.end(8, Step::Drop(Violation::OptionMagic));
        }
        let (Some(option), Some(len)) = (r.u32(), r.u32()) else { return (0, Step::More) };
        let blocked = self.policy == TlsPolicy::Required && !self.secure;
        let skipped = match option {
            OPT_EXPORT_NAME if blocked || len as usize > NAME_MAX => {
                return self.end(16, Step::Drop(Violation::ExportName));
            }
            OPT_ABORT => {
                put_reply(out, option, REP_ACK, &[]);
                return self.end(16, Step::Leave);
            }
            OPT_STARTTLS => None,
            OPT_EXPORT_NAME
            | OPT_LIST
            | OPT_INFO
            | OPT_GO
            | OPT_STRUCTURED_REPLY
            | OPT_LIST_META_CONTEXT
            | OPT_SET_META_CONTEXT => {
                blocked.then_some((REP_ERR_TLS_REQD, "this server requires TLS: send STARTTLS"))
            }
            _ if blocked => Some((REP_ERR_TLS_REQD, "this server requires TLS: send STARTTLS")),
            _ => Some((REP_ERR_UNSUP, "this server does not support the option")),
        };
        let too_long = len as usize > OPTION_DATA_MAX;
        if let Some((reply, why)) = skipped.or(too_long
            .then_some((REP_ERR_TOO_BIG, "the option's data is longer than this server accepts")))
        {
            if len > OPTION_SKIP_MAX {
                return self.end(16, Step::Drop(Violation::OptionLength));
            }
            if option == OPT_SET_META_CONTEXT {
                self.meta = None;
            }
            if len == 0 {
                put_error(out, option, reply, why);
            } else {
                self.state = State::Skip { left: len, option, reply, why };
            }
            return (16, Step::More);
        }
        let Some(data) = r.take(len as usize) else { return (0, Step::More) };
        let taken = 16 + len as usize;
        let answer = match option {
            OPT_EXPORT_NAME => match text(data) {
                Some(name) => {
                    let (name, wanted) = (name.to_owned(), Wanted::default());
                    self.state = State::Opening { name: name.clone(), option, wanted };
                    return (taken, Step::Open(name));
                }
                None => return self.end(taken, Step::Drop(Violation::ExportName)),
            },
            OPT_STARTTLS => match self.start_tls(data, out) {
                Ok(()) => return (taken, Step::StartTls),
                Err(e) => Err(e),
            },
            OPT_LIST => list(data, directory, out),
            OPT_STRUCTURED_REPLY => no_data(data).map(|()| {
                self.structured = true;
                put_reply(out, option, REP_ACK, &[]);
            }),
            OPT_INFO | OPT_GO => match self.info_or_go(option, data, directory, out) {
                Ok(Some(name)) => return (taken, Step::Open(name)),
                Ok(None) => Ok(()),
                Err(e) => Err(e),
            },
            _ => self.meta_context(option, data, directory, out),
        };
        if let Err((reply, why)) = answer {
            put_error(out, option, reply, why);
        }
        (taken, Step::More)
    }

    fn start_tls(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), (u32, &'static str)> {
        no_data(data)?;
        if self.policy == TlsPolicy::Absent {
            return Err((REP_ERR_POLICY, "this server has no TLS"));
        }
        if self.secure {
            return Err((REP_ERR_INVALID, "TLS is already on"));
        }
        put_reply(out, OPT_STARTTLS, REP_ACK, &[]);
        self.state = State::Securing;
        Ok(())
    }

    /// Continues the negotiation after TLS is established. Discards everything negotiated before.
    pub fn secured(&mut self) {
        assert!(self.state == State::Securing, "TLS without STARTTLS");
        self.secure = true;
        self.structured = false;
        self.meta = None;
        self.state = State::Options;
    }

    /// Handles the options INFO and GO. Returns the export's name if the export must now be opened.
    fn info_or_go(
        &mut self,
        option: u32,
        data: &[u8],
        directory: &dyn Directory,
        out: &mut Vec<u8>,
    ) -> Result<Option<String>, (u32, &'static str)> {
        const BAD: (u32, &str) = (REP_ERR_INVALID, "the lengths in the option are not consistent");
        let mut r = Reader(data);
        let name = export_name(&mut r)?;
        let count = r.u16().ok_or(BAD)?;
        let mut wanted = Wanted::default();
        for _ in 0..count {
            match r.u16().ok_or(BAD)? {
                INFO_NAME => wanted.name = true,
                INFO_DESCRIPTION => wanted.description = true,
                INFO_BLOCK_SIZE => wanted.block_size = true,
                _ => {}
            }
        }
        if !r.is_empty() {
            return Err(BAD);
        }
        if option == OPT_GO {
            self.state = State::Opening { name: name.to_owned(), option, wanted };
            return Ok(Some(name.to_owned()));
        }
        let info = directory.info(name).ok_or(UNKNOWN)?;
        put_infos(out, option, name, &info, wanted, self.structured);
        put_reply(out, option, REP_ACK, &[]);
        Ok(None)
    }

    fn meta_context(
        &mut self,
        option: u32,
        data: &[u8],
        directory: &dyn Directory,
        out: &mut Vec<u8>,
    ) -> Result<(), (u32, &'static str)> {
        const BAD: (u32, &str) = (REP_ERR_INVALID, "the lengths in the queries are not consistent");
        let sets = option == OPT_SET_META_CONTEXT;
        if sets {
            // Even a failed attempt ends an earlier choice.
            self.meta = None;
        }
        if !self.structured {
            return Err((REP_ERR_INVALID, "structured replies must be negotiated first"));
        }
        let mut r = Reader(data);
        let name = export_name(&mut r)?;
        let count = r.u32().ok_or(BAD)?;
        let mut found = count == 0 && !sets;
        // Each query takes at least four bytes, so the data's end bounds this loop.
        for _ in 0..count {
            let query = r.counted().ok_or(BAD)?;
            if query.len() > NAME_MAX {
                return Err((REP_ERR_INVALID, "a query has more than 4,096 bytes"));
            }
            found |= query == BASE_ALLOCATION.as_bytes() || (!sets && query == b"base:");
        }
        if !r.is_empty() {
            return Err(BAD);
        }
        let info = directory.info(name).ok_or(UNKNOWN)?;
        if found && info.block_status {
            let id = if sets { BASE_ALLOCATION_ID } else { 0 };
            let mut context = Vec::with_capacity(4 + BASE_ALLOCATION.len());
            context.put_u32(id);
            context.extend_from_slice(BASE_ALLOCATION.as_bytes());
            put_reply(out, option, REP_META_CONTEXT, &context);
            if sets {
                self.meta = Some(name.to_owned());
            }
        }
        put_reply(out, option, REP_ACK, &[]);
        Ok(())
    }

    /// Tells the client that the export is open, and ends the negotiation.
    pub fn opened(&mut self, info: &Info, out: &mut Vec<u8>) -> Negotiated {
        let State::Opening { name, option, wanted } =
            std::mem::replace(&mut self.state, State::Over)
        else {
            panic!("no export was requested");
        };
        if option == OPT_GO {
            put_infos(out, option, &name, info, wanted, self.structured);
            put_reply(out, option, REP_ACK, &[]);
        } else {
            out.put_u64(info.size_bytes);
            out.put_u16(info.flags(self.structured));
            if !self.no_zeroes {
                out.extend_from_slice(&[0; 124]);
            }
        }
        let meta = info.block_status && self.meta.as_deref() == Some(&name);
        Negotiated {
            rules: Rules::new(info, self.structured, meta),
            structured: self.structured,
            meta,
            secure: self.secure,
            name,
        }
    }

    /// Tells the client that the export can't be opened. The negotiation continues, unless the client used an
    /// option that has no error reply.
    pub fn refused(&mut self, why: Refusal, out: &mut Vec<u8>) -> Step {
        let State::Opening { option, .. } = std::mem::replace(&mut self.state, State::Options)
        else {
            panic!("no export was requested");
        };
        if option == OPT_EXPORT_NAME {
            self.state = State::Over;
            return Step::Drop(Violation::ExportName);
        }
        let (reply, why) = match why {
            Refusal::Unknown => UNKNOWN,
            Refusal::Policy => (REP_ERR_POLICY, "the export cannot be opened"),
            Refusal::Shutdown => (REP_ERR_SHUTDOWN, "the server is shutting down"),
        };
        put_error(out, option, reply, why);
        Step::More
    }

    /// Whether TLS is established.
    pub fn is_secure(&self) -> bool {
        self.secure
    }
}

const UNKNOWN: (u32, &str) = (REP_ERR_UNKNOWN, "there is no export of that name");

/// Checks a string by the rules of the protocol: UTF-8 without NUL, at most [`NAME_MAX`] bytes. `None` if it
/// is invalid.
fn text(bytes: &[u8]) -> Option<&str> {
    let fits = bytes.len() <= NAME_MAX && !bytes.contains(&0);
    std::str::from_utf8(bytes).ok().filter(|_| fits)
}

fn export_name<'a>(r: &mut Reader<'a>) -> Result<&'a str, (u32, &'static str)> {
    let bytes = r.counted().ok_or((REP_ERR_INVALID, "the name is longer than the option"))?;
    text(bytes).ok_or((REP_ERR_INVALID, "the name must be UTF-8 of at most 4,096 bytes"))
}

fn no_data(data: &[u8]) -> Result<(), (u32, &'static str)> {
    if data.is_empty() { Ok(()) } else { Err((REP_ERR_INVALID, "this option takes no data")) }
}

fn list(
    data: &[u8],
    directory: &dyn Directory,
    out: &mut Vec<u8>,
) -> Result<(), (u32, &'static str)> {
    no_data(data)?;
    directory.list(&mut |name, description| {
        let mut entry = Vec::with_capacity(4 + name.len() + description.len());
        entry.put_u32(name.len() as u32);
        entry.extend_from_slice(name.as_bytes());
        entry.extend_from_slice(description.as_bytes());
        put_reply(out, OPT_LIST, REP_SERVER, &entry);
    });
    put_reply(out, OPT_LIST, REP_ACK, &[]);
    Ok(())
}

fn put_reply(out: &mut Vec<u8>, option: u32, reply: u32, data: &[u8]) {
    out.put_u64(OPTION_REPLY_MAGIC);
    out.put_u32(option);
    out.put_u32(reply);
    out.put_u32(data.len() as u32);
    out.extend_from_slice(data);
}

/// Appends an error reply to an option. It never repeats the client's data, so that its length is bounded.
fn put_error(out: &mut Vec<u8>, option: u32, reply: u32, why: &str) {
    put_reply(out, option, reply, why.as_bytes());
}

fn put_infos(
    out: &mut Vec<u8>,
    option: u32,
    name: &str,
    info: &Info,
    wanted: Wanted,
    structured: bool,
) {
    let mut data = Vec::with_capacity(16);
    data.put_u16(INFO_EXPORT);
    data.put_u64(info.size_bytes);
    data.put_u16(info.flags(structured));
    put_reply(out, option, REP_INFO, &data);
    if wanted.name {
        data.clear();
        data.put_u16(INFO_NAME);
        data.extend_from_slice(name.as_bytes());
        put_reply(out, option, REP_INFO, &data);
    }
    if wanted.description && !info.description.is_empty() {
        data.clear();
        data.put_u16(INFO_DESCRIPTION);
        data.extend_from_slice(info.description.as_bytes());
        put_reply(out, option, REP_INFO, &data);
    }
    if wanted.block_size {
        data.clear();
        data.put_u16(INFO_BLOCK_SIZE);
        data.put_u32(info.min_block_bytes);
        data.put_u32(info.preferred_block_bytes);
        data.put_u32(info.max_payload_bytes.min(PAYLOAD_MAX));
        put_reply(out, option, REP_INFO, &data);
    }
}
