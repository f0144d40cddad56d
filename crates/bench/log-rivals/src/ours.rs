//! The message log as a contender, on a file opened with O_DIRECT.

use crate::Outcome;
use crate::contender::{Contender, Held};
use crate::direct_file::{Aligned, BLOCK_BYTES, DirectFile};
use iodyno_msglog::log::Tail;
use iodyno_msglog::recovery::{create, recover};
use iodyno_msglog::{
    Action, CommitRule, Durability, Layout, Log, LogOptions, Message, MessageKind, State, Storage,
};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Size of the log's file, bytes.
pub(crate) const CAPACITY_BYTES: u64 = 1 << 30;
pub(crate) const FILE_NAME: &str = "written.log";
const SEGMENT_BYTES: u64 = 128 << 20;

/// Configuration of iodyno's message log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) chunk_bytes: u32,
    /// Whether all blocks of the log's file were written in advance.
    pub(crate) is_written: bool,
    pub(crate) keeps_state: bool,
}

impl Form {
    /// Default configuration. A chunk is large enough for the largest batch, so that a batch takes one write and
    /// one flush.
    pub(crate) const DEFAULT: Self =
        Self { chunk_bytes: 1 << 20, is_written: true, keeps_state: true };
}

/// Contender iodyno: its message log on a file.
pub(crate) struct Ours {
    log: Log<Aligned>,
    file: DirectFile,
    chunk_bytes: usize,
}

impl Ours {
    pub(crate) fn open(dir: &Path, form: Form) -> Outcome<Self> {
        let Form { chunk_bytes, is_written, keeps_state } = form;
        let name = if is_written { FILE_NAME } else { "new.log" };
        let file = DirectFile::open(&dir.join(name), CAPACITY_BYTES, is_written)?;
        let log_id = now_ns()?;
        let align_bytes = BLOCK_BYTES as u32;
        let layout = Layout::new(log_id, CAPACITY_BYTES, SEGMENT_BYTES, chunk_bytes, align_bytes)?;
        create(&file, &layout)?;
        let commit =
            CommitRule { durability: Durability::Batch, fua: false, chunks_max: 16, depth: 1 };
        let options = LogOptions { commit, keeps_state, ..LogOptions::default() };
        let log = Log::new(layout, options, Tail::empty(), State::default());
        Ok(Self { log, file, chunk_bytes: chunk_bytes as usize })
    }
}

fn now_ns() -> Outcome<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos())?)
}

impl Contender for Ours {
    fn commit(&mut self, first: u64, bodies: &[&[u8]]) -> Outcome<()> {
        let time_ns = now_ns()?;
        let chunk_bytes = self.chunk_bytes;
        for (body, sequence) in bodies.iter().zip(first..) {
            let message = Message {
                kind: MessageKind::Publish,
                publisher: 1,
                sequence,
                time_ns,
                topic: "l",
                key: &[],
                body,
            };
            self.log.append(&message, &mut || Aligned::new(chunk_bytes))?;
        }
        while let Some(action) = self.log.next_action() {
            match action {
                Action::Write { chunk, offset_bytes, len_bytes, buffer } => {
                    let written =
                        self.file.write_at(offset_bytes, &(*buffer).as_ref()[..len_bytes]);
                    self.log.written(chunk, written.is_ok());
                    written?;
                }
                Action::Flush => {
                    let flushed = self.file.flush();
                    self.log.flushed(flushed.is_ok());
                    flushed?;
                }
            }
        }
        while let Some(persisted) = self.log.next_persisted() {
            self.log.recycle(persisted.buffer);
        }
        if self.log.persisted() != first + bodies.len() as u64 {
            return Err(format!("persisted up to {}", self.log.persisted()).into());
        }
        Ok(())
    }

    fn reopen(self: Box<Self>) -> Outcome<Held> {
        let Self { log, file, .. } = *self;
        drop(log);
        let mut last = Vec::new();
        let found = recover(&file, |chunk| {
            if let Some((_, message)) = chunk.messages().last() {
                last = message.body.to_vec();
            }
        })?;
        if let Some(damage) = found.damages.first() {
            return Err(format!("damage: {damage}").into());
        }
        Ok(Held { messages: found.tail.next_message - 1, last })
    }
}
