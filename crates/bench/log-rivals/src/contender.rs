//! What stores batches of messages: the trait, and its implementations by name.

use crate::{Outcome, bare, embedded, nats, ours};
use std::fs::{self, File};
use std::path::Path;

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

/// Contenders of the comparison.
pub(crate) const MAIN: [&str; 7] =
    ["bare", "ours", "redb", "fjall", "sqlite", "nats-atomic", "nats-single"];

/// Opens a new store in `dir`. `batch` is the messages of the largest batch.
pub(crate) fn open(
    name: &str,
    dir: &Path,
    nats: &str,
    batch: usize,
) -> Outcome<Box<dyn Contender>> {
    Ok(match name {
        "bare" => Box::new(bare::Bare::open(dir, batch)?),
        "ours" => Box::new(ours::Ours::open(dir, ours::LARGE_CHUNK_BYTES, true)?),
        "ours-64k" => Box::new(ours::Ours::open(dir, 64 << 10, true)?),
        "ours-new-file" => Box::new(ours::Ours::open(dir, ours::LARGE_CHUNK_BYTES, false)?),
        "redb" => Box::new(embedded::Redb::open(dir)?),
        "fjall" => Box::new(embedded::Fjall::open(dir, fjall::PersistMode::SyncAll)?),
        "fjall-fdatasync" => Box::new(embedded::Fjall::open(dir, fjall::PersistMode::SyncData)?),
        "sqlite" => Box::new(embedded::Sqlite::open(dir)?),
        "nats-atomic" => Box::new(nats::Nats::open(dir, nats, true)?),
        "nats-single" => Box::new(nats::Nats::open(dir, nats, false)?),
        _ => return Err(format!("no contender {name}: see contender.rs").into()),
    })
}

/// Removes what contenders stored. The file that was written in advance stays.
pub(crate) fn remove_stores(dir: &Path) {
    for name in ["redb", "sqlite", "sqlite-wal", "sqlite-shm", "new.log"] {
        let _ = fs::remove_file(dir.join(name));
    }
    for name in ["fjall", "nats"] {
        let _ = fs::remove_dir_all(dir.join(name));
    }
    // The removal is in the file system's journal then, and not in the next trial's.
    let _ = File::open(dir).and_then(|dir| dir.sync_all());
}
