//! Opens contenders by name, and removes their stores.

use crate::contender::Contender;
use crate::{Outcome, bare, embedded, nats, ours};
use std::fs::{self, File};
use std::path::Path;

/// Names of the contenders that are compared by default.
pub(crate) const MAIN: [&str; 7] =
    ["bare", "ours", "redb", "fjall", "sqlite", "nats-atomic", "nats-single"];

/// Opens a new store of the contender `name` in `dir`. `batch` is the maximum number of messages in a batch.
pub(crate) fn open(
    name: &str,
    dir: &Path,
    nats: &str,
    batch: usize,
) -> Outcome<Box<dyn Contender>> {
    Ok(match name {
        "bare" => Box::new(bare::Bare::open(dir, batch)?),
        "ours" => Box::new(ours::Ours::open(dir, ours::Form::DEFAULT)?),
        // Chunks of the default size: a batch of 128 messages or more needs several.
        "ours-64k" => {
            let form = ours::Form { chunk_bytes: 64 << 10, ..ours::Form::DEFAULT };
            Box::new(ours::Ours::open(dir, form)?)
        }
        "ours-no-state" => {
            let form = ours::Form { keeps_state: false, ..ours::Form::DEFAULT };
            Box::new(ours::Ours::open(dir, form)?)
        }
        "ours-new-file" => {
            let form = ours::Form { is_written: false, ..ours::Form::DEFAULT };
            Box::new(ours::Ours::open(dir, form)?)
        }
        "redb" => Box::new(embedded::Redb::open(dir)?),
        "fjall" => Box::new(embedded::Fjall::open(dir, fjall::PersistMode::SyncAll)?),
        "fjall-fdatasync" => Box::new(embedded::Fjall::open(dir, fjall::PersistMode::SyncData)?),
        "sqlite" => Box::new(embedded::Sqlite::open(dir)?),
        "nats-atomic" => Box::new(nats::Nats::open(dir, nats, true)?),
        "nats-single" => Box::new(nats::Nats::open(dir, nats, false)?),
        _ => return Err(format!("there is no contender {name}: see by_name.rs").into()),
    })
}

/// Removes the contenders' stores, except the prewritten file, which is reused.
pub(crate) fn remove_stores(dir: &Path) {
    for name in ["redb", "sqlite", "sqlite-wal", "sqlite-shm", "new.log"] {
        let _ = fs::remove_file(dir.join(name));
    }
    for name in ["fjall", "nats"] {
        let _ = fs::remove_dir_all(dir.join(name));
    }
    // Sync the removal now, so that the next trial doesn't pay for it.
    let _ = File::open(dir).and_then(|dir| dir.sync_all());
}
