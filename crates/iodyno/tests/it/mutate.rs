//! Structure-aware mutations of a notebook, of a report and of a record. Each is determined by a
//! number alone, so that it can be repeated.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use iodyno_units::rng::{self, Generator};
use rusqlite::Connection;
use serde_json::Value;
use std::path::Path;

/// Text that could break a terminal, a page, a table or a path.
const TEXTS: &[&str] = &[
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'>",
    "\u{1b}[31mRED\u{1b}]0;title\u{7}\u{9b}31m\r\nFAKE",
    "\u{202e}gpj.exe\u{2066}\u{200b}\u{feff}",
    "=cmd|' /C calc'!A0",
    "../../../escaped",
    "|x|\n# y `z` [a](javascript:b)",
    "last",
    "",
    "-9223372036854775808",
    "9999-12-31T23:59:59.999Z",
    "-009999-01-02T01:59:59Z",
    "NaN",
    "[[[[[[[[",
    "{\"a\":1e999}",
    "all (4294967295 targets)",
];

const NUMBERS: &[i64] = &[
    0,
    1,
    -1,
    2,
    127,
    255,
    4096,
    65_536,
    i32::MAX as i64,
    i32::MAX as i64 + 1,
    u32::MAX as i64,
    1 << 40,
    1 << 53,
    1 << 60,
    i64::MAX - 1,
    i64::MAX,
    i64::MIN,
];

const TABLES: &[&str] = &["runs", "targets", "workloads", "cells", "intervals"];

fn pick<'a, T: ?Sized>(random: &mut Generator, list: &'a [&'a T]) -> &'a T {
    list[rng::below(random, list.len() as u64) as usize]
}

fn number(random: &mut Generator) -> i64 {
    match rng::below(random, 8) {
        0 => rng::below(random, u64::MAX) as i64,
        1 => rng::below(random, 1000) as i64,
        _ => NUMBERS[rng::below(random, NUMBERS.len() as u64) as usize],
    }
}

fn text(random: &mut Generator) -> String {
    match rng::below(random, 12) {
        0 => pick(random, TEXTS).repeat(20_000),
        1 => "[".repeat(100_000),
        2 => number(random).to_string(),
        _ => pick(random, TEXTS).to_owned(),
    }
}

/// Changes one value somewhere in a document.
fn change(random: &mut Generator, value: &mut Value) {
    let descend = rng::below(random, 8) > 0;
    match value {
        Value::Array(items) if descend && !items.is_empty() => {
            let at = rng::below(random, items.len() as u64) as usize;
            change(random, &mut items[at]);
        }
        Value::Object(fields) if descend && !fields.is_empty() => {
            let at = rng::below(random, fields.len() as u64) as usize;
            let Some((key, _)) = fields.iter().nth(at) else { return };
            let key = key.clone();
            match rng::below(random, 10) {
                0 => drop(fields.remove(&key)),
                1 => drop(fields.insert(text(random), Value::Null)),
                _ => change(random, &mut fields[&key]),
            }
        }
        leaf => {
            *leaf = match rng::below(random, 9) {
                0 => Value::Null,
                1 => text(random).into(),
                2 => Value::Array(vec![leaf.clone(); rng::below(random, 300) as usize]),
                3 => serde_json::json!({ "a": [number(random)] }),
                4 => serde_json::json!(f64::from_bits(rng::below(random, u64::MAX))),
                5 => serde_json::json!(u64::MAX),
                6 => serde_json::json!(1e308),
                7 => Value::Bool(true),
                _ => number(random).into(),
            }
        }
    }
}

/// A mutation of the histogram `old`. Some results are still nearly histograms.
fn blob(random: &mut Generator, old: &[u8]) -> Vec<u8> {
    let mut new = old.to_vec();
    match rng::below(random, 7) {
        0 => new.truncate(rng::below(random, old.len() as u64 + 1) as usize),
        1 => new.extend((0..rng::below(random, 60)).map(|i| i as u8)),
        2 => new = vec![0xFF; rng::below(random, 2000) as usize],
        3 => new = vec![0; 1 << rng::below(random, 24)],
        // Two values, the whole range apart.
        4 => {
            new = vec![
                1, 2, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20,
                0, 1, 0xFF, 0x23, 1,
            ];
        }
        // As many of one value as possible.
        5 => new = [&[1][..], &[0xFF; 9], &[1, 0, 0, 0, 0, 0], &[0xFF; 9], &[1]].concat(),
        _ => {
            for _ in 0..=rng::below(random, 4) {
                let at = rng::below(random, new.len().max(1) as u64) as usize;
                if let Some(byte) = new.get_mut(at) {
                    *byte = rng::below(random, 256) as u8;
                }
            }
        }
    }
    new
}

/// Mutates the schema of a table.
fn schema(random: &mut Generator, db: &Connection) -> rusqlite::Result<()> {
    let table = pick(random, TABLES);
    let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)";
    let rename = format!("ALTER TABLE {table} RENAME TO old;");
    db.execute_batch(&match rng::below(random, 15) {
        0 => format!("{rename} CREATE VIEW {table} AS SELECT * FROM old"),
        1 => format!("{rename} CREATE VIEW {table} AS {endless} SELECT old.* FROM old, c"),
        2 => format!("{rename} CREATE VIEW {table} AS {endless} SELECT old.* FROM old, c WHERE x < 0 UNION ALL SELECT * FROM old"),
        3 => format!("{rename} CREATE VIEW {table} AS SELECT hex(zeroblob(400000000)) AS name, * FROM old"),
        4 => format!("DROP TABLE {table}"),
        5 => format!("{rename} CREATE TABLE {table} AS SELECT * FROM old"),
        6 => format!("{rename} CREATE TABLE {table} (number, run, position, name, id, spec, cell)"),
        7 => format!("ALTER TABLE {table} ADD COLUMN more INTEGER AS (1) VIRTUAL"),
        8 => format!("ALTER TABLE {table} ADD COLUMN more TEXT DEFAULT 'x'"),
        9 => format!("ALTER TABLE {table} RENAME COLUMN name TO other"),
        10 => format!("CREATE TRIGGER t AFTER INSERT ON {table} BEGIN DELETE FROM runs; END"),
        11 => format!("CREATE INDEX i ON {table} (hex(zeroblob(1000)), 1 + 1)"),
        12 => format!("CREATE UNIQUE INDEX i ON {table} (abs(random()))"),
        13 => "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = 'CREATE VIEW runs AS SELECT 1' WHERE name = 'runs'".to_owned(),
        _ => format!("PRAGMA writable_schema = 1; UPDATE sqlite_schema SET rootpage = 1 + abs(random()) % 12 WHERE tbl_name = '{table}'"),
    })
}

/// Removes rows, or adds too many.
fn rows(random: &mut Generator, db: &Connection) -> rusqlite::Result<()> {
    let table = pick(random, TABLES);
    let many = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 20000)";
    db.execute_batch(&match rng::below(random, 7) {
        0 => format!("DELETE FROM {table}"),
        1 => format!("DELETE FROM {table} WHERE rowid % 2"),
        2 => format!("{many} INSERT INTO intervals SELECT cell, x + 1000, kind, ops, bytes, failed, errors, service, response FROM c, (SELECT * FROM intervals LIMIT 1)"),
        3 => format!("{many} INSERT INTO targets SELECT run, x + 100, name, facts, health_before, health_after FROM c, (SELECT * FROM targets LIMIT 1)"),
        4 => "UPDATE cells SET intervals = 20000; UPDATE intervals SET position = position * 1000".to_owned(),
        5 => "INSERT INTO runs SELECT number + 1000, 'a' || substr(id, 2), name, status, reason, started, ended, seed, iodyno_version, command, machine, plan, writer_boot, writer_namespace, writer_pid, writer_start_ticks FROM runs".to_owned(),
        _ => format!("UPDATE intervals SET kind = '{}'", pick(random, &["read", "flush", "erase", ""])),
    })
}

/// Changes a value in one row, or in all.
fn value(random: &mut Generator, db: &Connection) -> rusqlite::Result<()> {
    let table = pick(random, TABLES);
    let mut query = db.prepare("SELECT name, type FROM pragma_table_info(?1)")?;
    let columns: Vec<(String, String)> =
        query.query_map([table], |r| Ok((r.get(0)?, r.get(1)?)))?.collect::<Result<_, _>>()?;
    if columns.is_empty() {
        return Ok(());
    }
    let (column, kind) = &columns[rng::below(random, columns.len() as u64) as usize];
    let old: rusqlite::types::Value = db.query_row(
        &format!("SELECT {column} FROM {table} ORDER BY random() LIMIT 1"),
        [],
        |r| r.get(0),
    )?;
    let as_text = match &old {
        rusqlite::types::Value::Text(text) => Some(text.as_str()),
        _ => None,
    };
    let document = as_text.and_then(|t| serde_json::from_str::<Value>(t).ok());
    let new: rusqlite::types::Value = match (rng::below(random, 10), kind.as_str(), document) {
        (0, ..) => text(random).into(),
        (1, ..) => number(random).into(),
        (2, ..) => vec![0xFF_u8, 0xFE, 0].into(),
        (_, "TEXT", Some(mut document)) if document.is_object() || document.is_array() => {
            for _ in 0..=rng::below(random, 3) {
                change(random, &mut document);
            }
            document.to_string().into()
        }
        (_, "TEXT", _) => text(random).into(),
        (_, "INTEGER", _) => number(random).into(),
        (_, "BLOB", _) => match old {
            rusqlite::types::Value::Blob(old) => blob(random, &old).into(),
            _ => blob(random, &[1, 0]).into(),
        },
        _ => (number(random) as f64).into(),
    };
    let some = ["", " WHERE rowid % 2", " LIMIT 1"][rng::below(random, 2) as usize];
    db.execute(&format!("UPDATE {table} SET {column} = ?1{some}"), [new]).map(drop)
}

/// Changes the notebook at `path`. If SQLite refuses a change, the notebook stays as it was.
pub(crate) fn notebook(random: &mut Generator, path: &Path) {
    {
        let mut db = Connection::open(path).unwrap();
        // A mutation may read a table that the one before made endless.
        let mut looks = 0;
        let look = move || {
            looks += 1;
            looks > 2_000
        };
        db.progress_handler(10_000, Some(look)).unwrap();
        let _ = db.execute_batch(
            "PRAGMA journal_mode = DELETE; PRAGMA foreign_keys = OFF; PRAGMA max_page_count = 8192",
        );
        for _ in 0..=rng::below(random, 2) {
            let _ = match rng::below(random, 10) {
                0 | 1 => schema(random, &db),
                2 => rows(random, &db),
                3 => db.pragma_update(None, "user_version", number(random)),
                _ => value(random, &db),
            };
        }
    }
    if rng::below(random, 8) == 0 {
        let mut bytes = std::fs::read(path).unwrap();
        match rng::below(random, 3) {
            0 => bytes.truncate(rng::below(random, bytes.len() as u64 + 1) as usize),
            // Page numbers are at the end of the head of an inner page, and in its cells.
            1 => {
                let pages = bytes.len() as u64 / 4096;
                for _ in 0..20 {
                    let at = rng::below(random, bytes.len() as u64 / 4) as usize * 4;
                    let page = 1 + rng::below(random, pages.max(1)) as u32;
                    if let Some(place) = bytes.get_mut(at..at + 4) {
                        place.copy_from_slice(&page.to_be_bytes());
                    }
                }
            }
            _ => {
                for _ in 0..20 {
                    let at = rng::below(random, bytes.len().max(1) as u64) as usize;
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = rng::below(random, 256) as u8;
                    }
                }
            }
        }
        std::fs::write(path, bytes).unwrap();
    }
}

const OPEN: &str = "<script type=\"application/json\" id=\"iodyno-run-1\">";

/// The notebook within a page, and the position of its text.
fn embedded(page: &str) -> (Vec<u8>, std::ops::Range<usize>) {
    let from = page.find(OPEN).unwrap() + OPEN.len();
    let until = from + page[from..].find("</script>").unwrap();
    let outer: Value = serde_json::from_str(&page[from..until]).unwrap();
    let packed = BASE64.decode(outer["data"].as_str().unwrap()).unwrap();
    (miniz_oxide::inflate::decompress_to_vec_zlib(&packed).unwrap(), from..until)
}

/// A mutation of the page `good`. `path` is a temporary path for its notebook.
pub(crate) fn report(random: &mut Generator, good: &str, path: &Path) -> Vec<u8> {
    let (mut db, place) = embedded(good);
    let how = rng::below(random, 30);
    match how {
        0 => db = vec![0; 1 << (20 + rng::below(random, 8))],
        1 => db.resize(db.len() + (1 << (20 + rng::below(random, 7))), 0),
        _ => {
            std::fs::write(path, &db).unwrap();
            notebook(random, path);
            db = std::fs::read(path).unwrap();
        }
    }
    let mut packed = miniz_oxide::deflate::compress_to_vec_zlib(&db, 1);
    if how == 2 {
        packed.truncate(rng::below(random, packed.len() as u64) as usize);
    }
    let mut outer: Value = serde_json::from_str(&good[place.clone()]).unwrap();
    outer["data"] = BASE64.encode(packed).into();
    if how == 3 || how == 4 {
        change(random, &mut outer);
    }
    let mut inner = outer.to_string().replace('<', "\\u003c");
    if how == 5 {
        inner = "[".repeat(1 << rng::below(random, 22));
    }
    let mut page = format!("{}{inner}{}", &good[..place.start], &good[place.end..]);
    match how {
        6 => {
            let element = format!("{OPEN}{inner}</script>");
            page.extend((0..rng::below(random, 30)).map(|_| element.as_str()));
        }
        7 => {
            let at = (0..=rng::below(random, page.len() as u64) as usize).rev();
            let at = at.into_iter().find(|&at| page.is_char_boundary(at)).unwrap_or(0);
            page.truncate(at);
        }
        _ => {}
    }
    let mut bytes = page.into_bytes();
    if how == 8 {
        let at = rng::below(random, bytes.len() as u64) as usize;
        bytes[at] = 0xFF;
    }
    bytes
}

/// A mutation of the record `good`.
pub(crate) fn record(random: &mut Generator, good: &str) -> Vec<u8> {
    let mut lines: Vec<String> = good.lines().map(str::to_owned).collect();
    for _ in 0..=rng::below(random, 3) {
        let at = rng::below(random, lines.len() as u64) as usize;
        match rng::below(random, 12) {
            0 | 1 => {
                let mut head: Value = serde_json::from_str(&lines[1]).unwrap_or_default();
                if !head.is_object() {
                    head = serde_json::json!({});
                }
                match rng::below(random, 3) {
                    0 => change(random, &mut head),
                    1 => head["workers"] = number(random).into(),
                    _ => {
                        head["device"] = pick(
                            random,
                            &[
                                "model:exflash-400g*1024",
                                "live:exflash-400g",
                                "ram:4GiB",
                                "/dev/zero",
                                "model:/dev/zero",
                                "model:hdd-10k-300g",
                                "model:exflash-400g*4294967295",
                                "nbd://127.0.0.1:1/x",
                            ],
                        )
                        .into();
                    }
                }
                lines[1] = head.to_string();
            }
            2 => drop(lines.remove(at)),
            3 => {
                let copy = lines[at].clone();
                lines.extend(std::iter::repeat_n(copy, 1 << rng::below(random, 13)));
            }
            4 => lines[at] = text(random),
            5 => lines.push(format!(
                "f {} {}",
                number(random),
                pick(
                    random,
                    &[
                        "latent 0..+8EiB",
                        "latent 0..+300GiB 0",
                        "lose 7",
                        "slow x1000000",
                        "hang",
                        "power-cut",
                        "page 17000000TiB",
                        "clear",
                        "block 1GiB 4294967295",
                        "resize 1GiB"
                    ]
                )
            )),
            6 => lines.swap(at, 0),
            _ => {
                let mut words: Vec<String> = lines[at].split(' ').map(str::to_owned).collect();
                let word = rng::below(random, words.len() as u64) as usize;
                words[word] = match rng::below(random, 4) {
                    0 => text(random),
                    1 => rng::below(random, u64::MAX).to_string(),
                    _ => number(random).to_string(),
                };
                lines[at] = words.join(" ");
            }
        }
        if lines.len() < 2 {
            break;
        }
    }
    let mut bytes = lines.join("\n").into_bytes();
    match rng::below(random, 10) {
        0 => bytes.truncate(rng::below(random, bytes.len() as u64 + 1) as usize),
        1 => bytes.extend(vec![b'x'; 1 << rng::below(random, 25)]),
        _ => bytes.push(b'\n'),
    }
    bytes
}
