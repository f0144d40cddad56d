//! The notebook's guarantee: committed data survives SIGKILL at any instant.
//!
//! The test starts itself as a child that writes a run forever and prints what it has committed, kills it at a random
//! moment, and checks the file.

use iodyno_measure::{Cell, CellKey, Ended, Interval, verdict};
use iodyno_notebook::{Notebook, Outcome, RunHead, Status};
use iodyno_units::{OpKind, rng};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const KILLS: u64 = 30;
const INTERVALS: usize = 5;
const INTERVAL_NS: u64 = 250_000_000;
/// Environment variable of the child: the notebook that it writes to.
const PATH_VARIABLE: &str = "IODYNO_TEST_KILLED_NOTEBOOK";

/// Environment variable of a child that waits to be killed in the middle of its first cell.
const WAITS_VARIABLE: &str = "IODYNO_TEST_KILLED_WAITS";
/// Last line that the waiting child prints.
const LAST_SAID: &str = "interval 0 2";

/// Cell `index` as stored before it starts.
fn begun(index: usize) -> Cell {
    Cell {
        key: CellKey { name: format!("cell {index}"), depth: 4, ..CellKey::default() },
        interval_ns: INTERVAL_NS,
        ..Cell::default()
    }
}

/// The completions of an interval; interval 2 is empty.
fn interval(cell: usize, index: usize) -> Interval {
    let mut interval = Interval::default();
    if index != 2 {
        for n in 0..40 {
            let stats = interval.class_mut(OpKind::ALL[n % 2]);
            stats.service.record((cell * 100_000 + index * 1_000 + n) as u64);
            stats.bytes += 4096;
        }
    }
    interval
}

/// Cell `index` when it has run to its end.
fn finished(index: usize) -> Cell {
    let mut cell = begun(index);
    cell.series = (0..INTERVALS).map(|i| interval(index, i)).collect();
    cell.window_ns = INTERVAL_NS * INTERVALS as u64;
    cell.verdicts = verdict::judge(&cell);
    cell
}

/// The child. Run by [`committed_data_survives_a_kill`], never on its own.
#[test]
#[ignore = "the child of another test"]
fn child_that_writes_for_ever() {
    let path = std::env::var_os(PATH_VARIABLE).expect("set by the parent");
    let notebook = Notebook::open(Path::new(&path)).unwrap();
    let mut writer = notebook.begin(&RunHead::default()).unwrap();
    let say = |what: String| {
        let mut out = std::io::stderr().lock();
        writeln!(out, "{what}").unwrap();
    };
    say(format!("run {}", writer.id()));
    for cell in 0.. {
        writer.begin_cell(cell, &begun(cell)).unwrap();
        say(format!("begun {cell}"));
        for i in 0..INTERVALS {
            writer.add_interval(cell, i, &interval(cell, i)).unwrap();
            let said = format!("interval {cell} {i}");
            say(said.clone());
            if said == LAST_SAID && std::env::var_os(WAITS_VARIABLE).is_some() {
                std::thread::sleep(Duration::from_secs(600));
            }
        }
        writer.finish_cell(cell, &finished(cell)).unwrap();
        say(format!("finished {cell}"));
    }
}

#[test]
fn committed_data_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notebook.sqlite");
    let mut random = rng::stream(1, "kill", 0);
    let mut cut_short = 0;
    for kill in 1..=KILLS {
        let mut command = Command::new(std::env::current_exe().unwrap());
        // The last child is killed in a cell in any case.
        let waits = kill == KILLS;
        if waits {
            command.env(WAITS_VARIABLE, "");
        }
        let mut child = command
            .args(["--exact", "kill::child_that_writes_for_ever", "--ignored", "--nocapture"])
            .env(PATH_VARIABLE, &path)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let first = said.find(|line| line.starts_with("run ")).unwrap();
        let id = &first["run ".len()..];
        let notebook = Notebook::open(&path).unwrap();
        assert_eq!(notebook.load(id).unwrap().status, Status::Running);
        // Two thirds of the kills come in or after a cell, however slow the disk is.
        let mut before = Vec::new();
        let awaited = match kill % 3 {
            _ if waits => Some(LAST_SAID.to_owned()),
            0 => None,
            n => Some(format!("begun {n}")),
        };
        if let Some(awaited) = awaited {
            before.extend(said.by_ref().take_while(|line| *line != awaited));
            before.push(awaited);
        }
        std::thread::sleep(Duration::from_micros(rng::below(&mut random, 40_000)));
        child.kill().unwrap();

        // Reading to the end of the pipe gives all output.
        let said: Vec<String> = before.into_iter().chain(said).collect();
        let count = |word: &str| said.iter().filter(|l| l.starts_with(word)).count();
        // Its parent has not waited for the child: it is a zombie, with an entry in /proc, and is dead.
        let deadline = Instant::now() + Duration::from_secs(10);
        let run = loop {
            let run = notebook.load(id).unwrap();
            if run.status != Status::Running || Instant::now() > deadline {
                break run;
            }
        };
        assert_eq!(run.status, Status::Crashed);
        assert_eq!(run.ended, None);
        child.wait().unwrap();
        assert_eq!(notebook.load(id).unwrap(), run, "the same after the zombie is gone");

        // One step may have been committed and not been printed.
        let (cells, ended) = (count("begun "), count("finished "));
        assert!((cells..=cells + 1).contains(&run.cells.len()), "{cells} {run:?}");
        let whole = run.cells.iter().filter(|c| c.ended == Ended::Time).count();
        assert!((ended..=ended + 1).contains(&whole), "{ended} finished, {whole} found");
        for (i, cell) in run.cells.iter().enumerate() {
            if cell.ended == Ended::Time {
                assert_eq!(cell, &finished(i));
                continue;
            }
            assert_eq!(i + 1, run.cells.len(), "only the last cell is not finished");
            cut_short += 1;
            let printed = count(&format!("interval {i} "));
            assert!((printed..=printed + 1).contains(&cell.series.len()), "{printed} {cell:?}");
            for (j, found) in cell.series.iter().enumerate() {
                assert_eq!(found, &interval(i, j));
            }
            assert_eq!(cell.ended, Ended::Crashed);
            assert_eq!(cell.window_ns, INTERVAL_NS * cell.series.len() as u64);
            assert_eq!(cell.verdicts, verdict::judge(cell));
            assert!(cell.verdicts.iter().any(|v| v.code == "CRASHED"));
        }
        let list = notebook.list().unwrap();
        assert_eq!(list.len() as u64, kill);
        assert_eq!((list[kill as usize - 1].id.as_str(), &list[0].status), (id, &Status::Crashed));
    }
    assert!(cut_short > 0, "the last child was not killed in its cell");
    // And the notebook stays usable.
    let notebook = Notebook::open(&path).unwrap();
    notebook.begin(&RunHead::default()).unwrap().finish(&Outcome::Finished, &[]).unwrap();
    assert_eq!(notebook.load("last").unwrap().status, Status::Finished);
}

/// Several processes write runs of their own into a notebook that does not exist yet.
#[test]
fn several_processes_write_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notebook.sqlite");
    let mut children: Vec<_> = (0..6)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "kill::child_that_writes_once", "--ignored", "--nocapture"])
                .env(PATH_VARIABLE, &path)
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in &mut children {
        let text = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
        assert!(child.wait().unwrap().success(), "{text}");
    }
    let notebook = Notebook::open_existing(&path).unwrap();
    let list = notebook.list().unwrap();
    assert_eq!(list.len(), children.len());
    for summary in list {
        let run = notebook.load(&summary.id).unwrap();
        assert_eq!(run.status, Status::Finished);
        assert_eq!(run.cells, (0..4).map(finished).collect::<Vec<_>>());
    }
}

/// The child of [`several_processes_write_at_once`].
#[test]
#[ignore = "the child of another test"]
fn child_that_writes_once() {
    let path = std::env::var_os(PATH_VARIABLE).expect("set by the parent");
    let notebook = Notebook::open(Path::new(&path)).unwrap();
    let mut writer = notebook.begin(&RunHead::default()).unwrap();
    for cell in 0..4 {
        writer.begin_cell(cell, &begun(cell)).unwrap();
        for i in 0..INTERVALS {
            writer.add_interval(cell, i, &interval(cell, i)).unwrap();
        }
        writer.finish_cell(cell, &finished(cell)).unwrap();
    }
    writer.finish(&Outcome::Finished, &[]).unwrap();
}
