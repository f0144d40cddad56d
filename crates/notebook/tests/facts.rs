//! Reading of facts: the evidence of older cells, and descriptions of targets and the machine.

use iodyno_measure::{Cell, Ended, Evidence, Level, Preparation, Verdict, verdict};
use iodyno_notebook::{Notebook, Outcome, RunHead, TargetDescription, TargetKind, TargetRecord};
use serde_json::json;

/// Stores cells in a notebook, and returns them as read back.
fn kept(cells: &[Cell]) -> Vec<Cell> {
    let dir = tempfile::tempdir().unwrap();
    let notebook = Notebook::open(&dir.path().join("notebook.sqlite")).unwrap();
    let mut writer = notebook.begin(&RunHead::default()).unwrap();
    let id = writer.id().to_owned();
    for (i, cell) in cells.iter().enumerate() {
        writer.finish_cell(i, cell).unwrap();
    }
    writer.finish(&Outcome::Finished, &[]).unwrap();
    notebook.load(&id).unwrap().cells
}

fn with_facts(facts: &[(&str, &str)]) -> Cell {
    let facts = facts.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Cell { facts, ..Cell::default() }
}

#[test]
fn older_cells_have_their_evidence_among_the_facts() {
    let words = |text: &str| Some(text.to_owned());
    let no = Evidence::default;
    let purged = |text: &str| Some(Preparation::Purged(text.to_owned()));
    let cases: Vec<(&[(&str, &str)], Evidence)> = vec![
        (&[("clock", "tsc")], Evidence { clock: words("tsc"), ..no() }),
        (&[("state", "fresh")], Evidence { device_state: words("fresh"), ..no() }),
        (&[("skipped", "too large")], Evidence { skipped: words("too large"), ..no() }),
        (&[("failure", "gone")], Evidence { failure: words("gone"), ..no() }),
        (&[("ended early", "steady")], Evidence { settled: words("steady"), ..no() }),
        (&[("mmap.flags", "MAP_SYNC")], Evidence { map_sync: Some(true), ..no() }),
        (&[("mmap.flags", "MAP_SHARED")], Evidence { map_sync: Some(false), ..no() }),
        (
            &[("not reused", "no run"), ("purge", "discard"), ("deviation", "less")],
            Evidence {
                not_reused: words("no run"),
                deviation: words("less"),
                preparation: purged("discard"),
                ..no()
            },
        ),
        (
            &[("reused", "run abc")],
            Evidence { preparation: Some(Preparation::Reused("run abc".to_owned())), ..no() },
        ),
        (
            &[("waited", "5 min")],
            Evidence { preparation: Some(Preparation::Waited("5 min".to_owned())), ..no() },
        ),
        (
            &[("fill", "constructed: new")],
            Evidence {
                preparation: Some(Preparation::Constructed("constructed: new".to_owned())),
                ..no()
            },
        ),
        (&[("fill", "written"), ("uring.flags", "none")], no()),
    ];
    let cells: Vec<Cell> = cases.iter().map(|(facts, _)| with_facts(facts)).collect();
    let once = kept(&cells);
    for ((facts, evidence), cell) in cases.iter().zip(&once) {
        assert_eq!((&cell.evidence, &cell.facts), (evidence, &with_facts(facts).facts));
    }
    assert_eq!(kept(&once), once, "what has its evidence keeps it");
    let ended = Evidence { failure: words("one"), ..no() };
    let own = Cell { evidence: ended, ..with_facts(&[("failure", "two")]) };
    assert_eq!(kept(std::slice::from_ref(&own)), [own]);
}

/// An older cell gets the verdicts that it had when it ended.
#[test]
fn older_cells_are_judged_by_it() {
    let cell = Cell { ended: Ended::Errors, ..with_facts(&[("failure", "the ring broke")]) };
    let verdicts = verdict::judge(&kept(&[cell])[0]);
    assert!(verdicts.iter().any(|v| v.text.contains("the ring broke")), "{verdicts:?}");
}

#[test]
fn descriptions_take_what_is_there() {
    let of = |facts| TargetRecord { facts, ..TargetRecord::default() }.description();
    let found = of(json!({
        "kind": "nbd", "size_bytes": 4096, "device": null, "physical": [{"model": "A", "dev": "8:0"}],
        "nbd": {"address": "/run/s", "tls": true}, "emulated": {"fill": 1},
        "opened": {"capacity_bytes": 512}, "file_system": {"fs_type": "ext4"},
    }));
    assert_eq!((found.kind, found.size_bytes), (TargetKind::Nbd, Some(4096)));
    assert_eq!((found.opened_bytes, found.file_system.as_deref()), (Some(512), Some("ext4")));
    assert_eq!((found.nbd.address.as_str(), found.nbd.tls), ("/run/s", true));
    assert_eq!((found.physical[0].model.as_deref(), found.emulated.fill), (Some("A"), Some(1.0)));
    // Parts of another form are unknown, each by itself.
    let odd =
        of(json!({"kind": "tape", "size_bytes": "much", "physical": {}, "device": {"model": "B"}}));
    assert_eq!((odd.kind, odd.size_bytes), (TargetKind::Other, None));
    assert_eq!(odd.device.model.as_deref(), Some("B"));
    for facts in [json!(null), json!([]), json!(7), json!({"kind": []})] {
        assert_eq!(of(facts), TargetDescription::default());
    }
    let head = RunHead { machine: json!({"kernel": "6.18", "turbo": true}), ..RunHead::default() };
    let machine = head.machine_description();
    assert_eq!((machine.kernel.as_deref(), machine.turbo), (Some("6.18"), Some(true)));
}

#[test]
fn what_was_written_is_read_of_the_health() {
    let log = |bytes: u64| Some(json!({"log": {"data_written_bytes": bytes}}));
    let mut target = TargetRecord { health_before: log(1000), ..TargetRecord::default() };
    assert_eq!((target.device_written_bytes(), target.writes_seen()), (None, None));
    target.health_after = log(1512);
    assert_eq!(target.device_written_bytes(), Some(512));
    target.health_after = Some(json!({"writes_seen": {"file": 1}}));
    assert_eq!(target.device_written_bytes(), None);
    assert_eq!(target.writes_seen(), Some(&json!({"file": 1})));
}

/// The notes of earlier runs come from their first cells, the latest first, without more severe verdicts. A cell that
/// can't be read is skipped.
#[test]
fn notes_of_earlier_runs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notebook.sqlite");
    let notebook = Notebook::open(&path).unwrap();
    let verdict =
        |code: &str, level| Verdict { code: code.to_owned(), level, text: "a".to_owned() };
    let keep = |host: &str, codes: &[&str]| {
        let head = RunHead { machine: json!({ "host_name": host }), ..RunHead::default() };
        let mut writer = notebook.begin(&head).unwrap();
        let mut cell = Cell::default();
        cell.key.target = format!("target of {host}");
        cell.verdicts = codes.iter().map(|code| verdict(code, Level::Note)).collect();
        cell.verdicts.push(verdict("STALL", Level::Warning));
        for position in 0..2 {
            writer.finish_cell(position, &cell).unwrap();
        }
        let id = writer.id().to_owned();
        writer.finish(&Outcome::Finished, &[]).unwrap();
        id
    };
    let ids = ["a", "b", "c"].map(|host| keep(host, &["ONE", "TWO"]));
    let seen = |id: &str| -> Vec<(String, String, usize)> {
        let found = notebook.notes_before(id).into_iter();
        let host = |machine: &serde_json::Value| machine["host_name"].as_str().unwrap().to_owned();
        found.map(|of| (host(&of.machine), of.target, of.notes.len())).collect()
    };
    let of = |host: &str| (host.to_owned(), format!("target of {host}"), 2);
    assert_eq!(seen(&ids[2]), [of("b"), of("a")]);
    assert_eq!(seen(&ids[0]), []);
    assert_eq!(seen("none"), []);
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute("UPDATE cells SET cell = '{' WHERE run = 1 AND position = 0", []).unwrap();
    assert_eq!(seen(&ids[2]), [of("b")]);
}
