//! Identity of a target over several runs, because one file or device may have several names.

use rusqlite::Connection;

/// Identities of a run's targets, in order of position.
pub(crate) fn of_run(db: &Connection, number: i64) -> rusqlite::Result<Vec<String>> {
    let fact =
        |path: &str| format!("CASE WHEN json_valid(facts) THEN json_extract(facts, '{path}') END");
    let [own_name, path, capacity] =
        ["$.name", "$.canonical_path", "$.opened.capacity_bytes"].map(fact);
    let mut query = db.prepare_cached(&format!(
        "SELECT name, {own_name}, {path}, {capacity} FROM targets WHERE run = ?1 ORDER BY position"
    ))?;
    let mut rows = query.query([number])?;
    let mut identities = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        let text = |column| row.get_ref(column).ok().and_then(|value| value.as_str().ok());
        let capacity_bytes = row.get_ref(3)?.as_i64().ok().and_then(|bytes| bytes.try_into().ok());
        identities.push(identity(&name, text(1), text(2), capacity_bytes));
    }
    Ok(identities)
}

/// Path and capacity of a file or device whose name has no other option than a size. Other targets have their name.
pub(crate) fn identity(
    name: &str,
    own_name: Option<&str>,
    path: Option<&str>,
    capacity_bytes: Option<u64>,
) -> String {
    let has_size_only = match name.rsplit_once('?') {
        None => true,
        Some((_, options)) => options.starts_with("size=") && !options.contains('&'),
    };
    // A scratch file has a new path in each run. The name of a target of several hosts begins with the host.
    let is_plain = has_size_only && own_name == Some(name) && !name.starts_with("scratch:");
    match (path, capacity_bytes) {
        (Some(path), Some(bytes)) if is_plain => format!("{path}?size={bytes}"),
        _ => name.to_owned(),
    }
}
