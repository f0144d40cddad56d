//! Reads the notes (verdicts of level `note`) on earlier runs. The terminal does not repeat such a note.

use crate::model::EarlierNotes;
use iodyno_measure::{Level, Verdict};
use rusqlite::{Connection, params};
use serde::Deserialize;

/// Maximum number of earlier runs whose notes are read.
const RUNS_MAX: i64 = 16;
/// Maximum length of a cell's or a machine's JSON text that is parsed, bytes; runs with longer texts are
/// skipped.
const TEXT_BYTES_MAX: i64 = 1 << 20;

/// The fields of a stored cell that are needed to find its notes.
#[derive(Deserialize)]
struct Noted {
    key: Target,
    verdicts: Vec<Verdict>,
}

#[derive(Deserialize)]
struct Target {
    target: String,
}

/// Returns the notes on the first cell of each run before run `id`, latest run first. Skips unreadable cells.
pub(crate) fn notes_before(db: &Connection, id: &str) -> rusqlite::Result<Vec<EarlierNotes>> {
    let mut query = db.prepare(
        "SELECT runs.machine, cells.cell FROM runs
         JOIN cells ON cells.run = runs.number AND cells.position = 0
         WHERE runs.number < (SELECT number FROM runs WHERE id = ?1)
             AND length(cells.cell) <= ?2 AND length(runs.machine) <= ?2
         ORDER BY runs.number DESC LIMIT ?3",
    )?;
    let rows = query.query_map(params![id, TEXT_BYTES_MAX, RUNS_MAX], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
    })?;
    let mut found = Vec::new();
    for row in rows {
        let (machine, cell) = row?;
        let (Ok(machine), Ok(cell)) =
            (serde_json::from_str(&machine), serde_json::from_str::<Noted>(&cell))
        else {
            continue;
        };
        let mut notes = cell.verdicts;
        notes.retain(|verdict| verdict.level == Level::Note);
        found.push(EarlierNotes { machine, target: cell.key.target, notes });
    }
    Ok(found)
}
