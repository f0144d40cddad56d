//! Deferred replies, made by other threads: one at a time, or a batch of requests that completed together.

use super::answer::Answer;
use super::link::Link;
use crate::wire::{self, Command, Errno, Kind};
use std::sync::Arc;

/// A request whose reply is deferred. It can be answered from any thread and in any order, without waiting
/// for the client. If it is dropped, the server replies with EIO.
pub struct DeferredReply {
    /// Connection of the request; `None` once the request is answered.
    link: Option<Arc<Link>>,
    command: Command,
}

impl DeferredReply {
    pub(crate) fn new(link: Arc<Link>, command: Command) -> Self {
        link.take(&command);
        Self { link: Some(link), command }
    }

    /// The deferred request, with its kind, range and flags.
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// Answers the request. Sends the reply, or leaves that to the connection's thread if the socket is full.
    pub fn answer(mut self, answer: &Answer<'_>) {
        if let Some(link) = self.put(answer) {
            link.push();
        }
    }

    /// Answers a read. `fill` writes the whole buffer, which has the requested length. While it runs, a lock delays
    /// other replies of the connection. For other kinds of request, replies [`Answer::Done`] without calling
    /// `fill`.
    pub fn fill(mut self, fill: impl FnOnce(&mut [u8])) {
        if let Some(link) = self.put_fill(fill) {
            link.push();
        }
    }

    fn put(&mut self, answer: &Answer<'_>) -> Option<Arc<Link>> {
        let link = self.link.take()?;
        let command = self.command;
        link.put(&command, |replies, out| answer.encode(replies, &command, out));
        Some(link)
    }

    fn put_fill(&mut self, fill: impl FnOnce(&mut [u8])) -> Option<Arc<Link>> {
        if self.command.kind != Kind::Read || self.command.len_bytes == 0 {
            return self.put(&Answer::Done);
        }
        let link = self.link.take()?;
        let command = self.command;
        link.put(&command, |replies, out| {
            wire::data_header(replies, out, &command);
            let start = out.len();
            out.resize(start + command.len_bytes as usize, 0);
            fill(&mut out[start..]);
            false
        });
        Some(link)
    }
}

impl Drop for DeferredReply {
    fn drop(&mut self) {
        if let Some(link) = self.put(&Answer::Failed(Errno::Io)) {
            link.push();
        }
    }
}

/// Collects replies, so that a thread that handles many completions sends them with one system call per connection.
/// Dropping the batch sends the unsent replies.
#[derive(Default)]
pub struct Batch {
    links: Vec<Arc<Link>>,
}

impl Batch {
    /// Creates an empty batch, to which [`Self::answer`] and [`Self::fill`] add replies.
    pub fn new() -> Self {
        Self::default()
    }

    /// Like [`DeferredReply::answer`], but the reply is sent with the batch.
    pub fn answer(&mut self, mut later: DeferredReply, answer: &Answer<'_>) {
        let link = later.put(answer);
        self.remember(link);
    }

    /// Like [`DeferredReply::fill`], but the reply is sent with the batch.
    pub fn fill(&mut self, mut later: DeferredReply, fill: impl FnOnce(&mut [u8])) {
        let link = later.put_fill(fill);
        self.remember(link);
    }

    fn remember(&mut self, link: Option<Arc<Link>>) {
        let Some(link) = link else { return };
        if !self.links.last().is_some_and(|last| Arc::ptr_eq(last, &link)) {
            self.links.push(link);
        }
    }

    /// Sends all replies collected so far.
    pub fn send(&mut self) {
        for link in self.links.drain(..) {
            link.push();
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.send();
    }
}
