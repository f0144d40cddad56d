//! The run that a report carries, as `iodyno merge` and `compare` import it. A text is read or refused with a message; a run
//! that is read can be written, and the written text gives the same run.

use crate::input::Input;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use iodyno_measure::{Cell, CellKey, Interval};
use iodyno_notebook::{Run, RunHead, Status, TargetRecord, Timestamp, WorkloadRecord, portable};
use iodyno_units::OpKind;
use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::decompress_to_vec_zlib;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::LazyLock;

/// Most edits of one input, and most bytes of an edit.
const EDITS_MAX: usize = 64;
const EDIT_BYTES_MAX: usize = 16;

/// A good text, and the database in it.
static BASE: LazyLock<(Value, Vec<u8>)> = LazyLock::new(|| {
    let text = portable::to_text(&run()).expect("a run");
    let outer: Value = serde_json::from_str(&text).expect("JSON");
    let packed = BASE64.decode(outer["data"].as_str().expect("data")).expect("base64");
    let database = decompress_to_vec_zlib(&packed).expect("zlib");
    portable::from_text(&text, Path::new("fuzz")).expect("the run is taken");
    (outer, database)
});

fn run() -> Run {
    let mut cell = Cell {
        key: CellKey {
            name: "a".to_owned(),
            target: "/dev/nvme0n1".to_owned(),
            workload: "random-read".to_owned(),
            engine: "uring".to_owned(),
            threads: 1,
            depth: 8,
            blocks: vec![(4096, 1.0)],
            ..CellKey::default()
        },
        window_ns: 3_000_000_000,
        interval_ns: 1_000_000_000,
        ..Cell::default()
    };
    for n in 0..3 {
        let mut interval = Interval::default();
        let stats = interval.class_mut(OpKind::Read);
        stats.service.record_n(80_000 + n * 700, 1000);
        stats.bytes = 4_096_000;
        interval.trim();
        cell.series.push(interval);
    }
    let workload = WorkloadRecord { name: "random-read".to_owned(), spec: json!({"kind": "read"}) };
    let target = TargetRecord { name: "/dev/nvme0n1".to_owned(), ..TargetRecord::default() };
    Run {
        id: "v1f1n1shed".to_owned(),
        started: Timestamp::UNIX_EPOCH,
        ended: Some(Timestamp::UNIX_EPOCH),
        status: Status::Finished,
        head: RunHead {
            name: "fuzz".to_owned(),
            targets: vec![target],
            workloads: vec![workload],
            ..RunHead::default()
        },
        cells: vec![cell],
        notebook: "fuzz".into(),
        is_imported: true,
        annotation: Some("kernel 6.18".to_owned()),
    }
}

/// Imports a run; true where it is taken. An even first byte: the rest is the text. An odd one: the rest edits bytes of
/// the database within a good text.
pub fn import(data: &[u8]) -> bool {
    let Some((&choice, data)) = data.split_first() else { return false };
    if choice & 1 == 0 {
        return take(&String::from_utf8_lossy(data));
    }
    let (outer, database) = &*BASE;
    let mut database = database.clone();
    let mut input = Input(data);
    for _ in 0..EDITS_MAX {
        let Some(count) = input.byte() else { break };
        let at = input.below(database.len());
        let most = (usize::from(count) % EDIT_BYTES_MAX + 1).min(database.len() - at);
        let bytes = input.bytes(most);
        database[at..at + bytes.len()].copy_from_slice(bytes);
    }
    let mut outer = outer.clone();
    outer["data"] = BASE64.encode(compress_to_vec_zlib(&database, 1)).into();
    take(&outer.to_string())
}

fn take(text: &str) -> bool {
    let origin = Path::new("fuzz");
    let run = match portable::from_text(text, origin) {
        Ok(run) => run,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    let written = portable::to_text(&run).expect("a run that was read can be written");
    let again = portable::from_text(&written, origin).expect("a run that was written can be read");
    assert_eq!(again.head.name, run.head.name);
    assert_eq!(again.cells.len(), run.cells.len());
    true
}
