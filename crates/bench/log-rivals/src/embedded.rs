//! Embedded databases redb, fjall and SQLite as contenders. The key is the message's number; each batch is one
//! transaction.

use crate::Outcome;
use crate::contender::{Contender, Held};
use redb::{ReadableDatabase, ReadableTable};
use std::path::{Path, PathBuf};

const TABLE: redb::TableDefinition<'_, u64, &[u8]> = redb::TableDefinition::new("log");

/// Contender redb, with one immediately durable transaction per batch.
pub(crate) struct Redb {
    db: redb::Database,
    path: PathBuf,
}

impl Redb {
    pub(crate) fn open(dir: &Path) -> Outcome<Self> {
        let path = dir.join("redb");
        Ok(Self { db: redb::Database::create(&path)?, path })
    }
}

impl Contender for Redb {
    fn commit(&mut self, first: u64, bodies: &[&[u8]]) -> Outcome<()> {
        let mut transaction = self.db.begin_write()?;
        transaction.set_durability(redb::Durability::Immediate)?;
        {
            let mut table = transaction.open_table(TABLE)?;
            for (body, number) in bodies.iter().zip(first..) {
                table.insert(number, *body)?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn reopen(self: Box<Self>) -> Outcome<Held> {
        let Self { db, path } = *self;
        drop(db);
        let db = redb::Database::open(path)?;
        let table = db.begin_read()?.open_table(TABLE)?;
        let Some((number, body)) = table.last()? else { return Err("redb is empty".into()) };
        let count = redb::ReadableTableMetadata::len(&table)?;
        let messages = number.value().min(count);
        Ok(Held { messages, last: body.value().to_vec() })
    }
}

/// Contender fjall, with one write batch per batch of messages, made durable by fsync or fdatasync.
pub(crate) struct Fjall {
    db: fjall::Database,
    keyspace: fjall::Keyspace,
    mode: fjall::PersistMode,
    path: PathBuf,
}

impl Fjall {
    pub(crate) fn open(dir: &Path, mode: fjall::PersistMode) -> Outcome<Self> {
        let path = dir.join("fjall");
        let (db, keyspace) = Self::opened(&path)?;
        Ok(Self { db, keyspace, mode, path })
    }

    fn opened(path: &Path) -> Outcome<(fjall::Database, fjall::Keyspace)> {
        let db = fjall::Database::builder(path).open()?;
        let keyspace = db.keyspace("log", fjall::KeyspaceCreateOptions::default)?;
        Ok((db, keyspace))
    }
}

impl Contender for Fjall {
    fn commit(&mut self, first: u64, bodies: &[&[u8]]) -> Outcome<()> {
        let batch = fjall::OwnedWriteBatch::with_capacity(self.db.clone(), bodies.len());
        let mut batch = batch.durability(Some(self.mode));
        for (body, number) in bodies.iter().zip(first..) {
            batch.insert(&self.keyspace, number.to_be_bytes(), *body);
        }
        Ok(batch.commit()?)
    }

    fn reopen(self: Box<Self>) -> Outcome<Held> {
        let Self { db, keyspace, path, .. } = *self;
        drop(keyspace);
        drop(db);
        let (_db, keyspace) = Self::opened(&path)?;
        let Some(last) = keyspace.last_key_value() else { return Err("fjall is empty".into()) };
        let (key, body) = last.into_inner()?;
        let number = u64::from_be_bytes((*key).try_into()?);
        let messages = number.min(keyspace.len()? as u64);
        Ok(Held { messages, last: body.to_vec() })
    }
}

/// Contender SQLite with a write-ahead log and one transaction per batch. Checkpoints run within commits.
pub(crate) struct Sqlite {
    db: rusqlite::Connection,
    path: PathBuf,
}

impl Sqlite {
    pub(crate) fn open(dir: &Path) -> Outcome<Self> {
        let path = dir.join("sqlite");
        let db = rusqlite::Connection::open(&path)?;
        let mode: String = db.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0))?;
        if mode != "wal" {
            return Err(format!("SQLite's journal mode is {mode}").into());
        }
        db.execute_batch(
            "PRAGMA synchronous=FULL; CREATE TABLE log (number INTEGER PRIMARY KEY, body BLOB NOT NULL)",
        )?;
        Ok(Self { db, path })
    }
}

impl Contender for Sqlite {
    fn commit(&mut self, first: u64, bodies: &[&[u8]]) -> Outcome<()> {
        let transaction = self.db.transaction()?;
        {
            let mut insert = transaction.prepare_cached("INSERT INTO log VALUES (?1, ?2)")?;
            for (body, number) in bodies.iter().zip(first..) {
                insert.execute((number.cast_signed(), *body))?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn reopen(self: Box<Self>) -> Outcome<Held> {
        let Self { db, path } = *self;
        drop(db);
        let db = rusqlite::Connection::open(path)?;
        let held: (i64, i64, Vec<u8>) = db.query_row(
            "SELECT (SELECT count(*) FROM log), number, body FROM log ORDER BY number DESC LIMIT 1",
            [],
            |row| row.try_into(),
        )?;
        Ok(Held { messages: held.0.min(held.1).cast_unsigned(), last: held.2 })
    }
}
