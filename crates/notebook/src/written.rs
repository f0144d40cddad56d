//! What verified runs left on their targets, as maps that the next run checks against: one row a target.
//! The notebook does not look into a map; it packs and unpacks it.
//!
//! The table is made with the first map. A notebook without it holds none.

use crate::{Error, Notebook, schema};
use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use rusqlite::{Connection, OptionalExtension as _, params};

/// Compression: 1 of 9. Maps are large and made while a run ends, and most of their bytes are zero.
const COMPRESSION: u8 = 1;

const TABLE: &str = "
CREATE TABLE IF NOT EXISTS written (
    target TEXT PRIMARY KEY,
    map BLOB NOT NULL
) WITHOUT ROWID";

impl Notebook {
    /// Keeps the map of a target in place of the one before.
    pub fn keep_written(&self, target: &str, map: &[u8]) -> Result<(), Error> {
        let failed = |e| schema::explain(self.path(), "keeping what was written", e);
        let packed = compress_to_vec_zlib(map, COMPRESSION);
        self.db().execute_batch(TABLE).map_err(failed)?;
        let put = "INSERT OR REPLACE INTO written (target, map) VALUES (?1, ?2)";
        self.db().execute(put, params![target, packed]).map_err(failed)?;
        Ok(())
    }

    /// The map of a target; None where none is kept, and where it is damaged or has over `bytes_max` bytes.
    pub fn written(&self, target: &str, bytes_max: usize) -> Result<Option<Vec<u8>>, Error> {
        let failed = |e| schema::explain(self.path(), "reading what was written", e);
        if !has_table(self.db()).map_err(failed)? {
            return Ok(None);
        }
        // What is longer than deflate makes of random bytes is no map of this length.
        let packed_max = (bytes_max + bytes_max / 512 + 1024) as i64;
        let packed: Option<Vec<u8>> = self
            .db()
            .query_row(
                "SELECT map FROM written WHERE target = ?1 AND length(map) <= ?2",
                params![target, packed_max],
                |r| r.get(0),
            )
            .optional()
            .map_err(failed)?;
        Ok(packed.and_then(|p| decompress_to_vec_zlib_with_limit(&p, bytes_max).ok()))
    }

    /// Forgets the map of a target: something else was written there.
    pub fn forget_written(&self, target: &str) -> Result<(), Error> {
        let failed = |e| schema::explain(self.path(), "forgetting what was written", e);
        if has_table(self.db()).map_err(failed)? {
            self.db().execute("DELETE FROM written WHERE target = ?1", [target]).map_err(failed)?;
        }
        Ok(())
    }
}

fn has_table(db: &Connection) -> rusqlite::Result<bool> {
    let look = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'written'";
    db.query_row(look, [], |r| r.get::<_, i64>(0)).map(|n| n > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(notebook.written("a", 99).unwrap(), None, "more than was asked for");
        notebook.keep_written("a", &[9; 10]).unwrap();
        let again = Notebook::open_existing(&path).unwrap();
        assert_eq!(again.written("a", 100).unwrap(), Some(vec![9; 10]));
        notebook.forget_written("a").unwrap();
        assert_eq!(notebook.written("a", 100).unwrap(), None);
        assert_eq!(notebook.written("b", 100).unwrap(), Some(vec![8; 10]));
    }
}
