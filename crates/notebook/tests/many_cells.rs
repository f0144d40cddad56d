//! A run with the most cells that may be planned is read back within a reader's memory limit.

use iodyno_measure::{
    Cell, CellKey, Conditions, Evidence, Interval, Level, Storage, StorageLayer, Verdict,
};
use iodyno_notebook::{CELLS_PLANNED_MAX, Error, Notebook, Outcome, RunHead};
use iodyno_units::OpKind;
use rusqlite::Connection;
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;

/// Memory that a reader may hold at once: a run's cells, and its other parts.
const HEAP_BYTES_MAX: usize = 416 << 20;

/// Counts each thread's allocations, since other tests run in parallel.
struct Counting;

thread_local! {
    /// Bytes that the thread has allocated and not freed, now and at most.
    static HELD: core::cell::Cell<(isize, isize)> = const { core::cell::Cell::new((0, 0)) };
}

fn count(bytes: isize) {
    // A thread that ends has no counts any more.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        held.set((now + bytes, most.max(now + bytes)));
    });
}

/// Runs `work`. Returns its result, the maximum number of bytes held while it runs, and the number of bytes that the
/// result holds.
fn held<T>(work: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = HELD.get().0;
    HELD.set((before, before));
    let result = work();
    let (now, most) = HELD.get();
    (result, (most - before) as usize, (now - before) as usize)
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A cell as measured on a disk, with a text of 3 KB.
fn measured(intervals: usize) -> Cell {
    let words = |n: usize| "what a check found and what it means ".repeat(n);
    let mut interval = Interval::default();
    for kind in [OpKind::Read, OpKind::Write] {
        // 14 octaves: 20 µs to 327 ms.
        let service = &mut interval.class_mut(kind).service;
        service.record(20_000);
        service.record(20_000 << 14);
    }
    interval.trim();
    let layer = |kind: &str| StorageLayer { kind: kind.to_owned(), name: "nvme0n1".to_owned() };
    let conditions =
        Conditions { governor: Some("performance".to_owned()), ..Conditions::default() };
    Cell {
        key: CellKey {
            name: "before round 25 of 25".to_owned(),
            target: "/dev/disk/by-id/nvme-Example_9_S3RIALNUMB3R".to_owned(),
            workload: "random-65-35".to_owned(),
            engine: "uring".to_owned(),
            blocks: vec![(4096, 0.5), (8192, 0.5)],
            ..CellKey::default()
        },
        window_ns: 60_000_000_000,
        interval_ns: 15_000_000_000,
        series: vec![interval; intervals],
        evidence: Evidence {
            storage: Some(Storage {
                layers: vec![layer("file_system"), layer("raid"), layer("disk")],
                lowest: vec!["nvme0n1".to_owned()],
                ..Storage::default()
            }),
            conditions: Some(conditions),
            ..Evidence::default()
        },
        facts: (0..8).map(|i| (format!("uring.fact.{i}"), words(1))).collect(),
        verdicts: (0..5)
            .map(|_| Verdict { code: "CODE".to_owned(), level: Level::Note, text: words(3) })
            .collect(),
        ..Cell::default()
    }
}

/// A notebook with a run that consists of `count` copies of a cell.
fn with_cells(path: &Path, cell: &Cell, count: usize) -> Notebook {
    let notebook = Notebook::open(path).unwrap();
    let mut writer = notebook.begin(&RunHead::default()).unwrap();
    writer.finish_cell(0, cell).unwrap();
    writer.finish(&Outcome::Finished, &[]).unwrap();
    let db = Connection::open(path).unwrap();
    let names = |table: &str, without: &[&str]| -> String {
        let mut query = db.prepare("SELECT name FROM pragma_table_info(?1)").unwrap();
        let names = query.query_map([table], |r| r.get::<_, String>(0)).unwrap();
        let names = names.map(Result::unwrap).filter(|name| !without.contains(&name.as_str()));
        names.collect::<Vec<_>>().join(", ")
    };
    let cells = names("cells", &["number", "position"]);
    let rows = names("intervals", &["cell"]);
    db.execute_batch(&format!(
        "WITH RECURSIVE c(x) AS (SELECT 2 UNION ALL SELECT x + 1 FROM c WHERE x < {count})
         INSERT INTO cells (number, position, {cells}) SELECT x, x - 1, {cells} FROM c, cells;
         WITH c AS (SELECT number AS cell FROM cells WHERE number > 1)
         INSERT INTO intervals (cell, {rows}) SELECT c.cell, {rows} FROM c, (SELECT {rows} FROM intervals)"
    ))
    .unwrap();
    notebook
}

#[test]
fn as_many_cells_as_may_be_planned_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let cell = measured(4);
    let notebook = with_cells(&folder.path().join("n.sqlite"), &cell, CELLS_PLANNED_MAX);
    let (run, most, end) = held(|| notebook.load("last").unwrap());
    println!("{} MiB at most, {} MiB in the end", most >> 20, end >> 20);
    assert_eq!(run.cells.len(), CELLS_PLANNED_MAX);
    let (first, last) = (&run.cells[0], run.cells.last().unwrap());
    assert_eq!((&last.key, &last.verdicts), (&cell.key, &cell.verdicts));
    assert_eq!(first.total(), cell.total());
    assert!(most < HEAP_BYTES_MAX, "{} MiB", most >> 20);
}

/// If even one interval per cell is too much, the reader reports that, without taking more memory than allowed.
#[test]
fn more_cells_than_fit_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let notebook = with_cells(&folder.path().join("n.sqlite"), &measured(1), 3 * CELLS_PLANNED_MAX);
    let (error, most, _) = held(|| notebook.load("last").unwrap_err());
    assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
    assert!(error.to_string().contains("10000 cells"), "{error}");
    assert!(most < HEAP_BYTES_MAX, "{} MiB", most >> 20);
}
