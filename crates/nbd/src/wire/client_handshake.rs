//! The client's side of negotiation. The client first requests TLS if required, and never continues without it. Then
//! it requests structured replies and `base:allocation`. Last it opens the export, by GO or, if the server does not
//! know GO, by EXPORT_NAME. The server's messages are checked against the limits of the NBD specification.

use super::bytes::{Put, Reader};
use super::values::{
    BASE_ALLOCATION, FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, INFO_BLOCK_SIZE, INFO_DESCRIPTION,
    INFO_EXPORT, INIT_MAGIC, Info, InfoError, NAME_MAX, OPT_ABORT, OPT_EXPORT_NAME, OPT_GO,
    OPT_LIST, OPT_SET_META_CONTEXT, OPT_STARTTLS, OPT_STRUCTURED_REPLY, OPTION_DATA_MAX,
    OPTION_MAGIC, OPTION_REPLY_MAGIC, REP_ACK, REP_ERR_BLOCK_SIZE_REQD, REP_ERR_INVALID,
    REP_ERR_PLATFORM, REP_ERR_POLICY, REP_ERR_SHUTDOWN, REP_ERR_TLS_REQD, REP_ERR_TOO_BIG,
    REP_ERR_UNKNOWN, REP_ERR_UNSUP, REP_ERROR, REP_INFO, REP_META_CONTEXT, REP_SERVER,
};

/// Maximum number of replies to one option; after more, the server counts as broken. A list of exports may have this
/// many replies; other options have few.
const REPLIES_MAX: u32 = 10_000;

/// Features and export that the client requests in the negotiation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialConfig {
    /// Name of the export; empty for the default export. At most [`NAME_MAX`] bytes.
    pub export: String,
    /// Whether TLS is required. Without this flag, TLS is never used.
    pub tls: bool,
    /// Whether to request structured replies.
    pub structured: bool,
    /// Whether to request the metadata context `base:allocation`; requires structured replies.
    pub meta: bool,
    /// Whether to list the exports and disconnect, instead of opening one.
    pub list: bool,
}

/// Result of the negotiation, as seen by the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The export's size, limits and supported commands.
    pub info: Info,
    /// Whether the server replies to reads in chunks (structured replies).
    pub structured: bool,
    /// Id of the metadata context `base:allocation`; `None` if it was not agreed.
    pub meta_id: Option<u32>,
    /// Whether the connection uses TLS.
    pub secure: bool,
}

/// Next action for the caller of [`Dial::step`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialStep {
    /// Call [`Dial::step`] again. If the last call consumed no input, receive more first.
    More,
    /// Start TLS, with the unconsumed input as its first bytes, then call [`Dial::secured`].
    StartTls,
    /// Negotiation succeeded: requests may be sent.
    Ready(Box<Found>),
    /// Names and descriptions of the exports.
    Listed(Vec<(String, String)>),
}

/// Reason why the negotiation failed. [`Self::Reply`] and [`Self::Info`] mean that the server violated the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// The server refused an option, possibly with a message.
    #[error("the server refuses: {reason}{}{said}", if .said.is_empty() { "" } else { ": " })]
    Refused {
        /// Meaning of the error code in the reply.
        reason: &'static str,
        /// The server's message, at most 200 characters; may be empty.
        said: String,
    },
    /// TLS is required, but the server does not support it.
    #[error("the server has no TLS; to connect without TLS, use nbd:// in place of nbds://")]
    NoTls,
    /// The export's name is too long or contains NUL.
    #[error("an export's name can have at most 4,096 bytes, and no NUL")]
    Name,
    /// The peer is not an NBD server.
    #[error("this is not an NBD server: its first bytes are not NBDMAGIC")]
    NotNbd,
    /// The server speaks the oldstyle protocol, or newstyle without the fixed extension.
    #[error(
        "the server speaks an NBD version older than fixed newstyle (2010), which is not supported"
    )]
    TooOld,
    /// The server sent a reply that is not allowed at this point.
    #[error("the server's answer to {0} breaks the protocol")]
    Reply(&'static str),
    /// The export's size or block sizes are invalid.
    #[error("the server offers {0}")]
    Info(#[from] InfoError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Greeting,
    /// Waits for replies to the option with this number.
    Asked(u32),
    /// Waits for the reply to the fallback option EXPORT_NAME, which has a different format.
    ByName,
    Securing,
    Over,
}

/// State machine for the client's side of the negotiation.
#[derive(Clone, Debug)]
pub struct Dial {
    config: DialConfig,
    state: State,
    secure: bool,
    no_zeroes: bool,
    structured: bool,
    meta_id: Option<u32>,
    replies: u32,
    size_and_flags: Option<(u64, u16)>,
    blocks: Option<(u32, u32, u32)>,
    description: String,
    exports: Vec<(String, String)>,
}

impl Dial {
    /// Creates the state for a new connection. The server sends the first message.
    pub fn new(config: DialConfig) -> Result<Self, DialError> {
        if config.export.len() > NAME_MAX || config.export.contains('\0') {
            return Err(DialError::Name);
        }
        Ok(Self {
            config,
            state: State::Greeting,
            secure: false,
            no_zeroes: false,
            structured: false,
            meta_id: None,
            replies: 0,
            size_and_flags: None,
            blocks: None,
            description: String::new(),
            exports: Vec::new(),
        })
    }

    /// Parses one message from `input`, and appends bytes to send to `out`. Returns the number of bytes consumed
    /// and the caller's next action. After an error the connection is unusable.
    pub fn step(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, DialStep), DialError> {
        match self.state {
            State::Greeting => self.greeting(input, out),
            State::Asked(option) => self.reply(option, input, out),
            State::ByName => self.by_name(input),
            State::Securing | State::Over => Ok((0, DialStep::More)),
        }
    }

    /// Continues the negotiation after TLS is established.
    pub fn secured(&mut self, out: &mut Vec<u8>) {
        self.secure = true;
        self.ask_next(OPT_STARTTLS, out);
    }

    fn greeting(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, DialStep), DialError> {
        let mut r = Reader(input);
        if let Some(magic) = r.u64()
            && magic != INIT_MAGIC
        {
            return Err(DialError::NotNbd);
        }
        let (Some(magic), Some(flags)) = (r.u64(), r.u16()) else { return Ok((0, DialStep::More)) };
        if magic != OPTION_MAGIC || flags & FLAG_FIXED_NEWSTYLE == 0 {
            return Err(DialError::TooOld);
        }
        self.no_zeroes = flags & FLAG_NO_ZEROES != 0;
        out.put_u32(u32::from(flags & (FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES)));
        if self.config.tls {
            self.ask(OPT_STARTTLS, &[], out);
        } else {
            self.ask_next(OPT_STARTTLS, out);
        }
        Ok((18, DialStep::More))
    }

    fn ask(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) {
        put_option(out, option, data);
        self.replies = 0;
        self.state = State::Asked(option);
    }

    /// Sends the next option of the negotiation, after the option with number `after`.
    fn ask_next(&mut self, after: u32, out: &mut Vec<u8>) {
        if self.config.list {
            return self.ask(OPT_LIST, &[], out);
        }
        if after == OPT_STARTTLS && self.config.structured {
            return self.ask(OPT_STRUCTURED_REPLY, &[], out);
        }
        let name = self.config.export.clone();
        let mut data = Vec::with_capacity(name.len() + 32);
        data.put_u32(name.len() as u32);
        data.extend_from_slice(name.as_bytes());
        if after == OPT_STRUCTURED_REPLY && self.structured && self.config.meta {
            data.put_u32(1);
            data.put_u32(BASE_ALLOCATION.len() as u32);
            data.extend_from_slice(BASE_ALLOCATION.as_bytes());
            return self.ask(OPT_SET_META_CONTEXT, &data, out);
        }
        data.put_u16(2);
        data.put_u16(INFO_BLOCK_SIZE);
        data.put_u16(INFO_DESCRIPTION);
        self.ask(OPT_GO, &data, out);
    }

    fn reply(
        &mut self,
        option: u32,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, DialStep), DialError> {
        const BROKEN: DialError = DialError::Reply("an option");
        let mut r = Reader(input);
        if let Some(magic) = r.u64()
            && magic != OPTION_REPLY_MAGIC
        {
            return Err(BROKEN);
        }
        let (Some(to), Some(kind), Some(len)) = (r.u32(), r.u32(), r.u32()) else {
            return Ok((0, DialStep::More));
        };
        self.replies += 1;
        if to != option || len as usize > OPTION_DATA_MAX || self.replies > REPLIES_MAX {
            return Err(BROKEN);
        }
        let Some(data) = r.take(len as usize) else {
            self.replies -= 1;
            return Ok((0, DialStep::More));
        };
        let step = if kind & REP_ERROR != 0 {
            self.refused(option, kind, data, out)?
        } else {
            match (option, kind) {
                (OPT_STARTTLS, REP_ACK) => {
                    self.state = State::Securing;
                    DialStep::StartTls
                }
                (OPT_STRUCTURED_REPLY, REP_ACK) => {
                    self.structured = true;
                    self.ask_next(option, out);
                    DialStep::More
                }
                (OPT_SET_META_CONTEXT, REP_META_CONTEXT) => {
                    let mut r = Reader(data);
                    let id = r.u32().ok_or(BROKEN)?;
                    if r.0 == BASE_ALLOCATION.as_bytes() {
                        self.meta_id = Some(id);
                    }
                    DialStep::More
                }
                (OPT_SET_META_CONTEXT, REP_ACK) => {
                    self.ask_next(option, out);
                    DialStep::More
                }
                (OPT_GO, REP_INFO) => {
                    self.info(data)?;
                    DialStep::More
                }
                (OPT_GO, REP_ACK) => {
                    let (size, flags) = self.size_and_flags.ok_or(BROKEN)?;
                    self.found(size, flags)?
                }
                (OPT_LIST, REP_SERVER) => {
                    let mut r = Reader(data);
                    let name = r.counted().ok_or(BROKEN)?;
                    if name.len() > NAME_MAX || r.0.len() > NAME_MAX {
                        return Err(BROKEN);
                    }
                    let text = |b| String::from_utf8_lossy(b).into_owned();
                    self.exports.push((text(name), text(r.0)));
                    DialStep::More
                }
                (OPT_LIST, REP_ACK) => {
                    put_option(out, OPT_ABORT, &[]);
                    self.state = State::Over;
                    DialStep::Listed(std::mem::take(&mut self.exports))
                }
                _ => return Err(BROKEN),
            }
        };
        Ok((20 + len as usize, step))
    }

    fn refused(
        &mut self,
        option: u32,
        kind: u32,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<DialStep, DialError> {
        match option {
            OPT_STRUCTURED_REPLY | OPT_SET_META_CONTEXT
                if kind != REP_ERR_SHUTDOWN && kind != REP_ERR_TLS_REQD =>
            {
                self.meta_id = None;
                self.ask_next(option, out);
                return Ok(DialStep::More);
            }
            OPT_GO if kind == REP_ERR_UNSUP => {
                put_option(out, OPT_EXPORT_NAME, self.config.export.as_bytes());
                self.state = State::ByName;
                return Ok(DialStep::More);
            }
            _ => {}
        }
        put_option(out, OPT_ABORT, &[]);
        self.state = State::Over;
        if option == OPT_STARTTLS {
            return Err(DialError::NoTls);
        }
        let said = String::from_utf8_lossy(data);
        Err(DialError::Refused {
            reason: reason(kind),
            said: said.chars().filter(|c| !c.is_control()).take(200).collect(),
        })
    }

    fn info(&mut self, data: &[u8]) -> Result<(), DialError> {
        const BROKEN: DialError = DialError::Reply("the request for the export");
        let mut r = Reader(data);
        match r.u16().ok_or(BROKEN)? {
            INFO_EXPORT => {
                let size_and_flags = (r.u64().ok_or(BROKEN)?, r.u16().ok_or(BROKEN)?);
                self.size_and_flags = Some(size_and_flags);
            }
            INFO_BLOCK_SIZE => {
                let mut next = || r.u32().ok_or(BROKEN);
                self.blocks = Some((next()?, next()?, next()?));
            }
            INFO_DESCRIPTION => {
                if r.0.len() > NAME_MAX {
                    return Err(BROKEN);
                }
                let text = String::from_utf8_lossy(r.take(r.0.len()).unwrap_or_default());
                self.description = text.chars().take(NAME_MAX / 4).collect();
            }
            // Unknown information must be ignored.
            _ => return Ok(()),
        }
        if r.is_empty() { Ok(()) } else { Err(BROKEN) }
    }

    fn by_name(&mut self, input: &[u8]) -> Result<(usize, DialStep), DialError> {
        let mut r = Reader(input);
        let (Some(size), Some(flags)) = (r.u64(), r.u16()) else { return Ok((0, DialStep::More)) };
        if !self.no_zeroes && r.take(124).is_none() {
            return Ok((0, DialStep::More));
        }
        Ok((input.len() - r.0.len(), self.found(size, flags)?))
    }

    fn found(&mut self, size: u64, flags: u16) -> Result<DialStep, DialError> {
        self.state = State::Over;
        let mut info = Info::from_flags(size, flags)?;
        if let Some((min, preferred, max)) = self.blocks {
            info.min_block_bytes = min;
            info.preferred_block_bytes = preferred;
            info.max_payload_bytes = max;
        }
        info.description = std::mem::take(&mut self.description);
        info.block_status = self.meta_id.is_some();
        info.check()?;
        Ok(DialStep::Ready(Box::new(Found {
            info,
            structured: self.structured,
            meta_id: self.meta_id,
            secure: self.secure,
        })))
    }
}

fn put_option(out: &mut Vec<u8>, option: u32, data: &[u8]) {
    out.put_u64(OPTION_MAGIC);
    out.put_u32(option);
    out.put_u32(data.len() as u32);
    out.extend_from_slice(data);
}

fn reason(kind: u32) -> &'static str {
    match kind {
        REP_ERR_UNSUP => "it does not support the request",
        REP_ERR_POLICY => "its policy forbids the request",
        REP_ERR_INVALID => "it considers the request invalid",
        REP_ERR_PLATFORM => "its platform does not support it",
        REP_ERR_TLS_REQD => "it requires TLS; use nbds:// and a certificate that it accepts",
        REP_ERR_UNKNOWN => "it has no export of that name",
        REP_ERR_SHUTDOWN => "it is shutting down",
        REP_ERR_BLOCK_SIZE_REQD => "it requires block sizes to be negotiated",
        REP_ERR_TOO_BIG => "the request is too big for it",
        _ => "an unknown error",
    }
}
