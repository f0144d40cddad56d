//! Table of publishers by name: each with its connection and the sequence number of its last appended message. The
//! log's state holds the sequence numbers of persisted messages.

use iodyno_msglog::protocol::{ErrorCode, NAME_BYTES_MAX, Published, ServerError};
use iodyno_msglog::{AppendError, Log, Message, MessageKind, State};
use std::collections::HashMap;

/// Maximum number of publishers in a log.
const PUBLISHERS_MAX: usize = 65_536;

/// A publisher that is stored in the log or open on a connection.
#[derive(Debug)]
struct Publisher {
    name: Box<str>,
    /// Whether the log has a record with the publisher's name.
    is_stored: bool,
    /// Sequence number of the publisher's last appended message, and the message's number in the log.
    appended: (u64, u64),
    /// Id of the connection that has opened the publisher; 0 if none.
    owner: u64,
}

/// All publishers of a log, and which connections have them open.
#[derive(Debug)]
pub(crate) struct Publishers {
    numbers: HashMap<Box<str>, u64>,
    by_number: HashMap<u64, Publisher>,
    next_number: u64,
    /// Total length of the publishers' records in the log, bytes; at most `stored_bytes_max`. It is limited because
    /// each segment starts with a copy of these records.
    stored_bytes: u64,
    stored_bytes_max: u64,
}

/// The publisher that a connection has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handle {
    /// A named publisher, with its number in the log.
    Named(u64),
    /// An unnamed publisher: the sequence number of its last message, and the message's number in the log.
    Anonymous(u64, u64),
}

/// Reason why a message was not appended to the log.
#[derive(Debug)]
pub(crate) enum NotAppended {
    /// The log's write queue is full; retry after a write has completed.
    Busy,
    /// An error with which the connection must be closed.
    Error(ServerError),
}

fn record_bytes(name: &str) -> u64 {
    (iodyno_msglog::message::RECORD_HEADER_BYTES + name.len()) as u64
}

impl Publishers {
    /// Creates the table of publishers from the state of a recovered log.
    pub(crate) fn new(state: &State, number_max: u64, segment_bytes: u64) -> Self {
        let mut all = Self {
            numbers: HashMap::new(),
            by_number: HashMap::new(),
            next_number: number_max.saturating_add(1),
            stored_bytes: 0,
            stored_bytes_max: segment_bytes / 4,
        };
        for (number, found) in state.publishers() {
            all.stored_bytes += record_bytes(&found.name);
            all.next_number = all.next_number.max(number.saturating_add(1));
            all.numbers.insert(found.name.clone(), number);
            let name = found.name.clone();
            // Number 0 is below that of every message: recovered sequences count as persisted.
            let publisher =
                Publisher { name, is_stored: true, appended: (found.sequence, 0), owner: 0 };
            all.by_number.insert(number, publisher);
        }
        all
    }

    pub(crate) fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Opens a publisher for a connection. Returns the publisher, and the id of the connection that had opened it
    /// before, if any.
    pub(crate) fn open(
        &mut self,
        name: &str,
        connection: u64,
    ) -> Result<(Handle, Option<u64>), ServerError> {
        if name.is_empty() {
            return Ok((Handle::Anonymous(0, 0), None));
        }
        debug_assert!(name.len() <= NAME_BYTES_MAX);
        if let Some(&number) = self.numbers.get(name)
            && let Some(publisher) = self.by_number.get_mut(&number)
        {
            let before = core::mem::replace(&mut publisher.owner, connection);
            return Ok((Handle::Named(number), (before != 0).then_some(before)));
        }
        if self.by_number.len() >= PUBLISHERS_MAX
            || self.stored_bytes + record_bytes(name) > self.stored_bytes_max
        {
            let words = format!(
                "the log has reached its limit of {} publishers: publish with an existing publisher's name, or without a name",
                self.by_number.len()
            );
            return Err(ServerError::new(ErrorCode::Publishers, 0, words));
        }
        // Logs of other programs may use the highest number.
        while self.next_number == 0 || self.by_number.contains_key(&self.next_number) {
            self.next_number = self.next_number.wrapping_add(1);
        }
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.numbers.insert(name.into(), number);
        let publisher =
            Publisher { name: name.into(), is_stored: false, appended: (0, 0), owner: connection };
        self.by_number.insert(number, publisher);
        Ok((Handle::Named(number), None))
    }

    /// Returns the sequence number of a publisher's last appended message, and the message's number in the log. `None`
    /// if the publisher has no name.
    pub(crate) fn appended(&self, handle: Handle) -> Option<(u64, u64)> {
        match handle {
            Handle::Named(number) => self.by_number.get(&number).map(|it| it.appended),
            Handle::Anonymous(..) => None,
        }
    }

    /// Closes the publisher of an ended connection. A publisher that never published is removed.
    pub(crate) fn leave(&mut self, handle: Handle, connection: u64) {
        let Handle::Named(number) = handle else { return };
        let Some(publisher) = self.by_number.get_mut(&number) else { return };
        if publisher.owner != connection {
            return;
        }
        publisher.owner = 0;
        if !publisher.is_stored {
            self.numbers.remove(&publisher.name);
            self.by_number.remove(&number);
        }
    }

    /// Appends a message to the log, unless it is a duplicate. Returns the message's number and sequence number,
    /// which are to be acknowledged once persisted.
    pub(crate) fn append<B: AsRef<[u8]> + AsMut<[u8]>>(
        &mut self,
        log: &mut Log<B>,
        handle: &mut Handle,
        connection: u64,
        message: &Published<'_>,
        time_ns: u64,
        buffers: &mut impl FnMut() -> B,
    ) -> Result<(u64, u64), NotAppended> {
        let (number, appended) = match handle {
            Handle::Anonymous(sequence, number) => (0, (*sequence, *number)),
            Handle::Named(number) => {
                let publisher = self.by_number.get_mut(number).filter(|it| it.owner == connection);
                let Some(publisher) = publisher else { return Err(replaced()) };
                (*number, publisher.appended)
            }
        };
        let sequence = message.sequence;
        if sequence == 0 || sequence > appended.0.saturating_add(1) {
            let words = format!(
                "message {sequence} of this publisher does not follow the publisher's last message, {}",
                appended.0
            );
            return Err(error(ErrorCode::Sequence, sequence, words));
        }
        if sequence <= appended.0 {
            return Ok((appended.1, appended.0));
        }
        if message.kind == MessageKind::Delete && message.key.is_empty() {
            let words = "a message that deletes a value must name its key".to_owned();
            return Err(error(ErrorCode::Message, sequence, words));
        }
        let mut append = |record: &Message<'_>| {
            log.append(record, buffers).map_err(|found| refused(found, sequence))
        };
        if let Some(publisher) = self.by_number.get_mut(&number).filter(|it| !it.is_stored) {
            append(&Message {
                kind: MessageKind::Publisher,
                publisher: number,
                sequence: 0,
                time_ns,
                topic: "",
                key: publisher.name.as_bytes(),
                body: &[],
            })?;
            publisher.is_stored = true;
            self.stored_bytes += record_bytes(&publisher.name);
        }
        let stored = append(&Message {
            kind: message.kind,
            publisher: number,
            sequence: if number == 0 { 0 } else { sequence },
            time_ns,
            topic: message.topic,
            key: message.key,
            body: message.body,
        })?;
        match handle {
            Handle::Anonymous(last, at) => (*last, *at) = (sequence, stored),
            Handle::Named(number) => {
                if let Some(publisher) = self.by_number.get_mut(number) {
                    publisher.appended = (sequence, stored);
                }
            }
        }
        Ok((stored, sequence))
    }
}

fn error(code: ErrorCode, sequence: u64, words: String) -> NotAppended {
    NotAppended::Error(ServerError::new(code, sequence, words))
}

/// Error for a connection whose publisher was opened by a newer connection.
pub(crate) fn replaced() -> NotAppended {
    let words = "another connection has this publisher open".to_owned();
    error(ErrorCode::Replaced, 0, words)
}

fn refused(found: AppendError, sequence: u64) -> NotAppended {
    let code = match found {
        AppendError::Busy => return NotAppended::Busy,
        AppendError::Record(_) => ErrorCode::Message,
        AppendError::Full { .. } => ErrorCode::Full,
        AppendError::Broken => ErrorCode::Broken,
    };
    error(code, sequence, found.to_string())
}
