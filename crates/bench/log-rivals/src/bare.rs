//! A lower bound of the cost: a batch's bodies are concatenated, written by one pwrite and flushed by one fdatasync.
//! There is no header or checksum, so nothing could be read back after a crash.

use crate::Outcome;
use crate::contender::{BODY_BYTES, Contender, Held};
use crate::direct_file::{Aligned, BLOCK_BYTES, DirectFile};
use crate::ours::{CAPACITY_BYTES, FILE_NAME};
use iodyno_msglog::Storage;
use std::path::Path;

/// Contender that appends batches to a file, without headers or checksums. Its cost is the lower bound for the others.
pub(crate) struct Bare {
    file: DirectFile,
    buffer: Aligned,
    at: u64,
    messages: u64,
    last: Vec<u8>,
}

impl Bare {
    pub(crate) fn open(dir: &Path, batch: usize) -> Outcome<Self> {
        let file = DirectFile::open(&dir.join(FILE_NAME), CAPACITY_BYTES, true)?;
        let bytes = (batch * BODY_BYTES).next_multiple_of(BLOCK_BYTES);
        Ok(Self { file, buffer: Aligned::new(bytes), at: 0, messages: 0, last: Vec::new() })
    }
}

impl Contender for Bare {
    fn commit(&mut self, _first: u64, bodies: &[&[u8]]) -> Outcome<()> {
        for (to, body) in self.buffer.as_mut().chunks_mut(BODY_BYTES).zip(bodies) {
            to.copy_from_slice(body);
        }
        let bytes = self.buffer.as_ref();
        if self.at + bytes.len() as u64 > CAPACITY_BYTES {
            self.at = 0;
        }
        self.file.write_at(self.at, bytes)?;
        self.file.flush()?;
        self.at += bytes.len() as u64;
        self.messages += bodies.len() as u64;
        self.last.clear();
        self.last.extend_from_slice(bodies[bodies.len() - 1]);
        Ok(())
    }

    fn reopen(self: Box<Self>) -> Outcome<Held> {
        Ok(Held { messages: self.messages, last: self.last })
    }
}
