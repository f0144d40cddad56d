//! `docs/formats/notebook.md` describes the file that is written: each table, each column, and the numbers in the
//! header.

use iodyno_notebook::{Notebook, Outcome, RunHead, VERSION};
use rusqlite::Connection;

#[test]
fn every_column_is_described() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/notebook.md");
    let document = std::fs::read_to_string(document).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notebook.sqlite");
    // Some tables are made when they are needed: by a run that verifies a large target, and by an annotation.
    let notebook = Notebook::open(&path).unwrap();
    notebook.keep_written("target", &vec![1; 5 << 20]).unwrap();
    notebook.begin(&RunHead::default()).unwrap().finish(&Outcome::Finished, &[]).unwrap();
    notebook.annotate("last", Some("a text")).unwrap();
    let db = Connection::open(&path).unwrap();
    let names = |sql: &str| -> Vec<String> {
        let mut query = db.prepare(sql).unwrap();
        query.query_map([], |r| r.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    let tables =
        names("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
    assert_eq!(tables.len(), document.matches("\n### ").count());
    for table in tables {
        let section = document.split(&format!("\n### {table}\n")).nth(1).unwrap();
        let section = section.split("\n##").next().unwrap();
        let columns = names(&format!("SELECT name FROM pragma_table_info('{table}')"));
        let described: Vec<&str> = section
            .lines()
            .filter(|line| line.starts_with("| `"))
            .flat_map(|line| line.split(" | ").next().unwrap().split('`').skip(1).step_by(2))
            .collect();
        assert_eq!(described, columns, "{table}");
    }
    let number = |sql: &str| db.query_row(sql, [], |r| r.get::<_, i64>(0)).unwrap();
    assert!(document.contains(&format!("| {} (`iody` in ASCII)", number("PRAGMA application_id"))));
    assert_eq!(number("PRAGMA user_version"), VERSION);
    assert!(document.contains(&format!("describes version {VERSION} of")));
}
