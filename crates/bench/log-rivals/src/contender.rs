//! What stores batches of messages: the trait. Its implementations are found in `by_name.rs`.

use crate::Outcome;

/// Bytes of a message's body.
pub(crate) const BODY_BYTES: usize = 512;

/// Stores messages, numbered from 1.
pub(crate) trait Contender {
    /// Stores a batch, of which the first message has this number, and returns when all of it is durable.
    fn commit(&mut self, first: u64, bodies: &[&[u8]]) -> Outcome<()>;

    /// Closes the store, opens it again, and reads what it holds.
    fn reopen(self: Box<Self>) -> Outcome<Held>;
}

/// What a store holds.
#[derive(Debug)]
pub(crate) struct Held {
    /// Messages that were ever stored, by the store's own count.
    pub(crate) messages: u64,
    /// Body of the last one.
    pub(crate) last: Vec<u8>,
}
