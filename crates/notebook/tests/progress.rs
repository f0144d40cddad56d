//! A long-lived reader's view of runs in progress: the updated list, and the latest intervals.

use iodyno_measure::{Cell, CellKey, Interval};
use iodyno_notebook::{Notebook, Outcome, RunHead, RunWriter, Status, check_name};
use iodyno_units::{OpKind, rng};

fn interval(n: u64) -> Interval {
    let mut interval = Interval::default();
    interval.class_mut(OpKind::Read).service.record_n(1000 + n, 1 + n % 7);
    interval
}

/// After any changes of runs, an updated list equals a new list, and the update tells whether the list changed.
#[test]
fn a_list_brought_up_to_date_is_the_list() {
    let dir = tempfile::tempdir().unwrap();
    let notebook = Notebook::open(&dir.path().join("notebook.sqlite")).unwrap();
    let reader = Notebook::open_existing(notebook.path()).unwrap();
    let mut random = rng::stream(7, "list", 0);
    let mut open: Vec<RunWriter> = Vec::new();
    let mut list = Vec::new();
    for step in 0..200 {
        let pick = rng::below(&mut random, 1 << 30) as usize;
        match pick % 5 {
            0 => {
                let name = format!("run {step}");
                open.push(notebook.begin(&RunHead { name, ..RunHead::default() }).unwrap());
            }
            1 if !open.is_empty() => {
                let at = pick / 5 % open.len();
                let key = CellKey { name: format!("cell {step}"), ..CellKey::default() };
                let cell = Cell { key, interval_ns: 1_000_000, ..Cell::default() };
                open[at].begin_cell(0, &cell).unwrap();
                open[at].add_interval(0, 0, &interval(step)).unwrap();
            }
            2 if !open.is_empty() => {
                let writer = open.remove(pick / 5 % open.len());
                if pick.is_multiple_of(2) {
                    writer.finish(&Outcome::Failed("why".to_owned()), &[]).unwrap();
                }
            }
            3 if !list.is_empty() => {
                let all = reader.list().unwrap();
                notebook.rename(&all[pick / 5 % all.len()].id, &format!("other {step}")).unwrap();
            }
            4 => {
                let ended = list
                    .iter()
                    .find(|run: &&iodyno_notebook::RunSummary| run.status == Status::Crashed);
                if let Some(run) = ended {
                    open.push(notebook.resume(&run.id, 0).unwrap());
                }
            }
            _ => {}
        }
        let (before, now) = (list.clone(), reader.list().unwrap());
        assert_eq!(reader.update_list(&mut list).unwrap(), before != now, "step {step}");
        assert_eq!(list, now, "step {step}");
    }
    assert!(list.len() > 20, "{}", list.len());
    // Runs that are gone, as after the file was replaced.
    let mut other = vec![list[3].clone(), list[0].clone()];
    assert!(reader.update_list(&mut other).unwrap());
    assert_eq!(other, list);
    list.push(list[0].clone());
    assert!(reader.update_list(&mut list).unwrap());
    assert_eq!(other, list);
}

#[test]
fn the_latest_intervals_are_those_of_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let notebook = Notebook::open(&dir.path().join("notebook.sqlite")).unwrap();
    let mut writer = notebook.begin(&RunHead::default()).unwrap();
    let id = writer.id().to_owned();
    let key = CellKey { name: "cell".to_owned(), target: "null:".to_owned(), ..CellKey::default() };
    let cell = Cell { key, interval_ns: 5, ..Cell::default() };
    writer.begin_cell(0, &cell).unwrap();
    writer.begin_cell(1, &cell).unwrap();
    // An interval without operations, and one that grows after its successor has begun.
    for (at, n) in [(0, 3), (2, 1), (3, 4), (2, 9), (4, 2)] {
        writer.add_interval(1, at, &interval(n)).unwrap();
        let progress = notebook.progress(&id).unwrap();
        let series = notebook.load(&id).unwrap().cells[1].series.clone();
        assert_eq!(progress.cells[1].intervals, series.len());
        for from in 0..=series.len() + 1 {
            for count in 0..4 {
                let found = notebook.intervals(&id, 1, from, count).unwrap();
                let expected: Vec<_> = series.iter().skip(from).take(count).cloned().collect();
                assert_eq!(found, expected, "{from} {count}");
            }
        }
    }
    let progress = notebook.progress("last").unwrap();
    assert_eq!((progress.status, progress.cells[0].intervals), (Status::Running, 0));
    assert_eq!((progress.cells[1].interval_ns, progress.cells[1].is_finished), (5, false));
    assert_eq!(progress.cells[1].target, "null:");
    assert!(notebook.intervals(&id, 2, 0, 1).is_err(), "there are two cells");

    assert_eq!(notebook.writing_process(&id).unwrap(), Some(std::process::id()));
    writer.finish(&Outcome::Finished, &[]).unwrap();
    assert_eq!(notebook.writing_process(&id).unwrap(), None);
    for name in ["", "last", "Last one", "a,b", " a", "a\nb", &"x".repeat(101)] {
        assert!(check_name(name).is_err(), "{name}");
    }
    assert!(check_name("nightly 7 \u{2014} é").is_ok());
}
