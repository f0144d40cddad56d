//! Maps of the content that verified runs left on their targets, one row per target. The next verified run checks the
//! target against its map. The notebook compresses a map and does not interpret it.
//!
//! SQLite limits the size of a value, but the map of a large target has no limit. A map of more than [`PART_BYTES`] is
//! therefore stored in the rows of a second table, each part compressed separately; its row in the first table holds an
//! empty blob. An older iodyno, which does not know the second table, finds no map. If it then writes one to the first
//! table, that map takes precedence over the parts.
//!
//! Each table is created with the first map that needs it; a notebook without maps has neither.

use crate::tables::has_table;
use crate::{Error, Notebook, schema};
use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

/// Compression level, 1 to 9. The fastest suffices: maps are large, consist mostly of zeroes, and delay the
/// end of a run.
const COMPRESSION: u8 = 1;

/// Maximum length of a map's uncompressed section per row, bytes; even incompressible data of this size fits
/// in a row.
const PART_BYTES: usize = 4 << 20;

const TABLE: &str = "
CREATE TABLE IF NOT EXISTS written (
    target TEXT PRIMARY KEY,
    map BLOB NOT NULL
) WITHOUT ROWID";

const PARTS_TABLE: &str = "
CREATE TABLE IF NOT EXISTS written_parts (
    target TEXT NOT NULL,
    position INTEGER NOT NULL,
    part BLOB NOT NULL,
    PRIMARY KEY (target, position)
)";

impl Notebook {
    /// Stores the map of the content that a verified run left on a target, replacing any earlier map.
    pub fn keep_written(&self, target: &str, map: &[u8]) -> Result<(), Error> {
        let failed =
            |e| schema::explain_writing(self.path(), "storing the map of written blocks", e);
        keep(self.db(), target, map).map_err(failed)
    }

    /// Returns the map of the content that a verified run left on a target. `None` if it is absent, damaged, or
    /// longer than `bytes_max` bytes.
    pub fn written(&self, target: &str, bytes_max: usize) -> Result<Option<Vec<u8>>, Error> {
        let failed = |e| schema::explain(self.path(), "reading the map of written blocks", e);
        read(self.db(), target, bytes_max).map_err(failed)
    }

    /// Removes the map of a target's content, because another program has written to the target.
    pub fn forget_written(&self, target: &str) -> Result<(), Error> {
        let failed = |e| schema::explain(self.path(), "deleting the map of written blocks", e);
        let forget = || -> rusqlite::Result<()> {
            let tx = Transaction::new_unchecked(self.db(), TransactionBehavior::Immediate)?;
            forget(&tx, target)?;
            tx.commit()
        };
        if has_table(self.db(), "written").map_err(failed)? {
            forget().map_err(failed)?;
        }
        Ok(())
    }
}

fn keep(db: &Connection, target: &str, map: &[u8]) -> rusqlite::Result<()> {
    let pack = |part| compress_to_vec_zlib(part, COMPRESSION);
    let is_whole = map.len() <= PART_BYTES;
    let tx = Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
    tx.execute_batch(TABLE)?;
    forget(&tx, target)?;
    let row = if is_whole { pack(map) } else { Vec::new() };
    tx.execute("INSERT INTO written (target, map) VALUES (?1, ?2)", params![target, row])?;
    if !is_whole {
        tx.execute_batch(PARTS_TABLE)?;
        let put = "INSERT INTO written_parts (target, position, part) VALUES (?1, ?2, ?3)";
        let mut put = tx.prepare(put)?;
        for (position, part) in map.chunks(PART_BYTES).enumerate() {
            put.execute(params![target, position as i64, pack(part)])?;
        }
    }
    tx.commit()
}

fn read(db: &Connection, target: &str, bytes_max: usize) -> rusqlite::Result<Option<Vec<u8>>> {
    // One transaction, so that row and parts belong to the same map.
    let tx = db.unchecked_transaction()?;
    if !has_table(&tx, "written")? {
        return Ok(None);
    }
    // Longest compressed form, reached with random bytes; a longer blob can't be a map of this length.
    let packed_max = |bytes: usize| (bytes + bytes / 512 + 1024) as i64;
    let packed: Option<Vec<u8>> = tx
        .query_row(
            "SELECT map FROM written WHERE target = ?1 AND length(map) <= ?2",
            params![target, packed_max(bytes_max)],
            |r| r.get(0),
        )
        .optional()?;
    let Some(packed) = packed else { return Ok(None) };
    if !packed.is_empty() {
        return Ok(decompress_to_vec_zlib_with_limit(&packed, bytes_max).ok());
    }
    if !has_table(&tx, "written_parts")? {
        return Ok(None);
    }
    let mut query = tx.prepare(
        "SELECT position, part FROM written_parts WHERE target = ?1 AND length(part) <= ?2
         ORDER BY position",
    )?;
    let mut rows = query.query(params![target, packed_max(PART_BYTES)])?;
    let (mut map, mut position) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let packed: Vec<u8> = row.get(1)?;
        let most = PART_BYTES.min(bytes_max - map.len());
        match decompress_to_vec_zlib_with_limit(&packed, most) {
            Ok(part) if !part.is_empty() && row.get::<_, i64>(0)? == position => {
                map.extend_from_slice(&part);
            }
            _ => return Ok(None),
        }
        position += 1;
    }
    Ok(Some(map).filter(|map| !map.is_empty()))
}

fn forget(tx: &Transaction, target: &str) -> rusqlite::Result<()> {
    tx.execute("DELETE FROM written WHERE target = ?1", [target])?;
    if has_table(tx, "written_parts")? {
        tx.execute("DELETE FROM written_parts WHERE target = ?1", [target])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng;

    #[test]
    fn a_map_is_kept_until_another_or_none_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notebook.sqlite");
        let notebook = Notebook::open(&path).unwrap();
        assert_eq!(notebook.written("a", 100).unwrap(), None);
        notebook.forget_written("a").unwrap();
        notebook.keep_written("a", &[7; 100]).unwrap();
        notebook.keep_written("b", &[8; 10]).unwrap();
        assert_eq!(notebook.written("a", 100).unwrap(), Some(vec![7; 100]));
        assert_eq!(notebook.written("a", 99).unwrap(), None, "more than the limit");
        notebook.keep_written("a", &[9; 10]).unwrap();
        let again = Notebook::open_existing(&path).unwrap();
        assert_eq!(again.written("a", 100).unwrap(), Some(vec![9; 10]));
        notebook.forget_written("a").unwrap();
        assert_eq!(notebook.written("a", 100).unwrap(), None);
        assert_eq!(notebook.written("b", 100).unwrap(), Some(vec![8; 10]));
    }

    /// Test map of 2²⁵ units, each with a random generation, as after random writes by one writer over the whole range.
    #[test]
    fn a_map_of_a_large_target_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notebook.sqlite");
        let notebook = Notebook::open(&path).unwrap();
        let mut random = rng::stream(1, "map", 0);
        let units = 1 << 25;
        let mut map = vec![1; units];
        while map.len() < 2 * units {
            let word = rng::below(&mut random, u64::MAX);
            map.extend((0..21).map(|i| (word >> (3 * i)) as u8 & 7));
        }
        map.truncate(2 * units);
        map.resize(5 * units, 0);
        notebook.keep_written("a", &map).unwrap();
        let again = Notebook::open_existing(&path).unwrap();
        assert!(again.written("a", map.len()).unwrap().as_ref() == Some(&map));
        assert_eq!(again.written("a", map.len() - 1).unwrap(), None, "more than the limit");
        let count = |sql: &str| again.db().query_row(sql, [], |r| r.get::<_, i64>(0)).unwrap();
        let packed = count("SELECT sum(length(part)) FROM written_parts");
        assert!(packed > 12 << 20, "{packed}");

        // A map stored or removed by an iodyno without the second table takes precedence over the parts.
        let old = compress_to_vec_zlib(&[5; 100], COMPRESSION);
        notebook.db().execute("REPLACE INTO written VALUES ('a', ?1)", [old]).unwrap();
        assert_eq!(again.written("a", 100).unwrap(), Some(vec![5; 100]));
        notebook.db().execute("DELETE FROM written", []).unwrap();
        assert_eq!(again.written("a", map.len()).unwrap(), None);

        // Incompressible bytes fit their rows; a shorter map leaves no part behind.
        let noise = &mut map[..=PART_BYTES];
        for byte in noise.iter_mut() {
            *byte = rng::below(&mut random, 256) as u8;
        }
        notebook.keep_written("a", noise).unwrap();
        assert!(again.written("a", noise.len()).unwrap().as_deref() == Some(&*noise));
        assert_eq!(count("SELECT count(*) FROM written_parts"), 2);
        for damage in [
            "UPDATE written_parts SET part = x'00' WHERE position = 1",
            "DELETE FROM written_parts WHERE position = 0",
        ] {
            notebook.db().execute(damage, []).unwrap();
            assert_eq!(again.written("a", noise.len()).unwrap(), None, "{damage}");
        }
        notebook.keep_written("a", &[1; 10]).unwrap();
        assert_eq!(count("SELECT count(*) FROM written_parts"), 0);
        assert_eq!(again.written("a", 10).unwrap(), Some(vec![1; 10]));
    }
}
