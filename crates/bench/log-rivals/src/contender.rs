//! Trait of stores for batches of messages. Implementations are opened by `by_name.rs`.

use crate::Outcome;

/// Length of a message's body.
pub(crate) const BODY_BYTES: usize = 512;

/// A store of messages, numbered from 1.
pub(crate) trait Contender {
    /// Stores a batch whose first message has the number `first`; returns when the whole batch is durable.
    fn commit(&mut self, first: u64, bodies: &[&[u8]]) -> Outcome<()>;

    /// Closes and reopens the store, and reads its content.
    fn reopen(self: Box<Self>) -> Outcome<Held>;
}

/// What a store holds after it was reopened.
#[derive(Debug)]
pub(crate) struct Held {
    /// Number of messages ever stored, by the store's own count.
    pub(crate) messages: u64,
    /// Body of the last message.
    pub(crate) last: Vec<u8>,
}
