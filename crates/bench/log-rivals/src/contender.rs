//! Trait of stores for batches of messages. Implementations are opened by `by_name.rs`.

use crate::Outcome;

/// Length of a message without headers, bytes.
pub(crate) const BODY_BYTES: usize = 512;

/// A message store to be compared. Messages are numbered from 1.
pub(crate) trait Contender {
    /// Stores a batch whose first message has the number `first`; returns when the whole batch is durable.
    fn commit(&mut self, first: u64, bodies: &[&[u8]]) -> Outcome<()>;

    /// Closes and reopens the store, and summarises its content.
    fn reopen(self: Box<Self>) -> Outcome<Held>;
}

/// Content of a store after it was reopened.
#[derive(Debug)]
pub(crate) struct Held {
    /// Number of messages ever stored, as counted by the store.
    pub(crate) messages: u64,
    /// Content of the last message.
    pub(crate) last: Vec<u8>,
}
