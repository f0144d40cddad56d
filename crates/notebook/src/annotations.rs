//! Annotations that people wrote about runs, such as "new kernel" or "new drive firmware". The table is created with
//! the first annotation.

use crate::tables::has_table;
use rusqlite::{Connection, OptionalExtension as _, params};

/// Maximum length of an annotation (the user's note on a run), in Unicode characters.
pub const ANNOTATION_CHARS_MAX: usize = 200;

const TABLE: &str = "
CREATE TABLE IF NOT EXISTS annotations (
    run INTEGER PRIMARY KEY REFERENCES runs (number) ON DELETE CASCADE,
    text TEXT NOT NULL
)";

/// Checks the text of an annotation.
///
/// # Errors
/// It is empty, longer than [`ANNOTATION_CHARS_MAX`] characters, or has line ends or surrounding blanks.
pub fn check_annotation(text: &str) -> Result<(), String> {
    let is_odd = text.trim() != text || text.contains(char::is_control);
    match text.chars().count() {
        1..=ANNOTATION_CHARS_MAX if !is_odd => Ok(()),
        _ => Err(format!(
            "use 1 to {ANNOTATION_CHARS_MAX} characters without line ends or surrounding blanks"
        )),
    }
}

/// Sets the annotation of the run with this row number; `None` removes it.
pub(crate) fn put(db: &Connection, number: i64, text: Option<&str>) -> rusqlite::Result<()> {
    match text {
        Some(text) => {
            db.execute_batch(TABLE)?;
            let set = "INSERT OR REPLACE INTO annotations (run, text) VALUES (?1, ?2)";
            db.execute(set, params![number, text])?;
        }
        None if has_table(db, "annotations")? => {
            db.execute("DELETE FROM annotations WHERE run = ?1", [number])?;
        }
        None => {}
    }
    Ok(())
}

/// Reads the annotation of the run with this row number. `None` if it has none or [`check_annotation`] refuses it.
pub(crate) fn read(db: &Connection, number: i64) -> rusqlite::Result<Option<String>> {
    let columns =
        "SELECT count(*) FROM pragma_table_info('annotations') WHERE name IN ('run', 'text')";
    if !has_table(db, "annotations")? || db.query_row(columns, [], |row| row.get::<_, i64>(0))? != 2
    {
        return Ok(None);
    }
    // A character has at most 4 bytes.
    let bytes_max = 4 * ANNOTATION_CHARS_MAX as i64;
    let query = "SELECT CAST(text AS BLOB) FROM annotations
                 WHERE run = ?1 AND typeof(text) = 'text' AND length(CAST(text AS BLOB)) <= ?2";
    let bytes: Option<Vec<u8>> =
        db.query_row(query, params![number, bytes_max], |row| row.get(0)).optional()?;
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(text.filter(|text| check_annotation(text).is_ok()))
}
