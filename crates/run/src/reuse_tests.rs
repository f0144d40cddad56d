//! Tests of the conditions for the reuse of an earlier run's preconditioning, each condition violated on
//! its own.

use super::*;
use iodyno_measure::{Cell, Ended, Interval, Role, Verdict};
use iodyno_notebook::{RunHead, TargetRecord, Timestamp, WRITES_SEEN};
use iodyno_targets::DeviceWrites;
use serde_json::json;

const SIZE: u64 = 8 << 30;

fn seen(kernel_bytes: u64) -> WritesSeen {
    let device = DeviceWrites {
        kernel_name: "nvme0n1".to_owned(),
        dev: "259:0".parse().unwrap(),
        identity: Some("S1".to_owned()),
        attachment: Some(3),
        size_bytes: Some(SIZE),
        kernel_bytes: Some(kernel_bytes),
        device_bytes: None,
    };
    let boot_id = Some("one".to_owned());
    WritesSeen { size_bytes: SIZE, boot_id, file: None, device: Some(device), below: Vec::new() }
}

fn at(stage: u32, role: Role) -> Place {
    Place { stage, role, ..Place::default() }
}

fn step(name: &str, stage: u32, preparation: Option<Preparation>) -> Cell {
    let evidence = Evidence { preparation, ..Evidence::default() };
    crate::schedule::record(name, "/dev/nvme0n1", at(stage, Role::Prepare), evidence)
}

fn purged(stage: u32) -> Cell {
    step(PURGE_NAME, stage, Some(Preparation::Purged(String::new())))
}

fn waited(stage: u32) -> Cell {
    step("wait", stage, Some(Preparation::Waited("5 min".to_owned())))
}

fn reused(stage: u32) -> Cell {
    step(PURGE_NAME, stage, Some(Preparation::Reused(String::new())))
}

fn filled() -> Cell {
    let mut cell = step(FILL_NAME, 1, None);
    cell.key.blocks = vec![(128 << 10, 1.0)];
    cell.series = vec![Interval::default()];
    cell.ended = Ended::Bytes;
    cell.evidence.active_start_bytes = Some(0);
    cell.evidence.active_bytes = SIZE;
    cell.evidence.fill = Some(FillProof {
        times: 2,
        written_bytes: 2 * SIZE,
        passes: 2.0,
        once_share: 1.0,
        times_share: 1.0,
        first_gap_bytes: None,
    });
    cell
}

fn measured(kind: OpKind) -> Cell {
    let mut cell = step("measured", 2, None);
    cell.key.place = Some(at(2, Role::Measure));
    let mut interval = Interval::default();
    interval.class_mut(kind).service.record(1000);
    cell.series = vec![interval];
    cell
}

fn earlier() -> Run {
    Run {
        id: "abc".to_owned(),
        started: Timestamp::UNIX_EPOCH,
        ended: None,
        status: Status::Finished,
        head: RunHead {
            targets: vec![TargetRecord {
                name: "/dev/nvme0n1".to_owned(),
                health_after: Some(json!({ WRITES_SEEN: seen(1000) })),
                ..TargetRecord::default()
            }],
            ..RunHead::default()
        },
        cells: vec![purged(0), filled(), measured(OpKind::Read)],
        notebook: std::path::PathBuf::new(),
        is_imported: false,
        annotation: None,
    }
}

const WANTED: Wanted =
    Wanted { purged: true, passes: 2, block_bytes: 128 << 10, start_bytes: 0, len_bytes: SIZE };

#[test]
fn a_proof_that_lacks_nothing_is_believed() {
    let believed = believe(&earlier(), 0, &WANTED, &seen(1000)).unwrap();
    assert!(believed.words.starts_with("run abc of 1970-01-01"), "{}", believed.words);
    assert_eq!(believed.deviation, None);
    // More passes than required are enough, and a method that does not purge accepts a purged target.
    let less = Wanted { purged: false, passes: 1, ..WANTED };
    assert!(believe(&earlier(), 0, &less, &seen(1000)).is_ok());
    // A deviation of the earlier purge carries over.
    let mut run = earlier();
    run.cells[0].evidence.deviation = Some("not purged".to_owned());
    let believed = believe(&run, 0, &WANTED, &seen(1000)).unwrap();
    assert_eq!(believed.deviation.as_deref(), Some("not purged"));
}

#[test]
fn each_lack_is_a_reason_of_its_own() {
    type Break = fn(&mut Run, &mut Wanted, &mut WritesSeen);
    let cases: [(&str, Break); 14] = [
        ("4 KiB were written or discarded since", |_, _, now| *now = seen(1000 + 4096)),
        ("the machine was restarted", |_, _, now| now.boot_id = Some("two".to_owned())),
        ("but 0 B to 4 GiB is required", |_, wanted, _| wanted.len_bytes = SIZE / 2),
        ("is required", |_, wanted, _| wanted.start_bytes = 4096),
        ("but 3 passes are required", |_, wanted, _| wanted.passes = 3),
        ("but 64 KiB are required", |_, wanted, _| wanted.block_bytes = 64 << 10),
        ("that run's fill left out 50.0 %", |run, _, _| {
            run.cells[1].evidence.fill.as_mut().unwrap().times_share = 0.5;
        }),
        ("did not purge the target before", |run, _, _| drop(run.cells.remove(0))),
        ("reused an earlier purge", |run, _, _| run.cells[0] = reused(0)),
        ("that run's cell `measured` wrote", |run, _, _| run.cells[2] = measured(OpKind::Write)),
        ("that run's cell `measured` wrote", |run, _, _| run.cells.push(measured(OpKind::Trim))),
        ("`purge` came after", |run, _, _| run.cells.push(purged(3))),
        ("that run's fill is doubtful (FOREIGN_IO", |run, _, _| {
            run.cells[1].verdicts = vec![Verdict {
                code: "FOREIGN_IO".to_owned(),
                level: Level::Warning,
                text: String::new(),
            }];
        }),
        ("did not store how much", |run, _, _| run.head.targets[0].health_after = None),
    ];
    for (words, spoil) in cases {
        let (mut run, mut wanted, mut now) = (earlier(), WANTED, seen(1000));
        spoil(&mut run, &mut wanted, &mut now);
        let why = believe(&run, 0, &wanted, &now).unwrap_err();
        assert!(why.contains(words), "{words}: {why}");
    }
}

/// The same device number with another serial number is another device. A wait changes nothing.
#[test]
fn what_is_the_same_target_and_what_touches_it() {
    let mut other = seen(1000);
    assert!(is_same(&earlier(), 0, &other));
    other.device.as_mut().unwrap().identity = Some("S2".to_owned());
    assert!(!is_same(&earlier(), 0, &other));
    assert!(touches_nothing(&waited(0)) && touches_nothing(&reused(0)));
    assert!(!touches_nothing(&purged(0)) && !touches_nothing(&filled()));
    let mut run = earlier();
    run.cells.push(waited(3));
    assert!(believe(&run, 0, &WANTED, &seen(1000)).is_ok());
}
