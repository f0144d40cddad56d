//! Verdicts on layers' effects, and on a run's own trims.

use iodyno_measure::verdict::judge;
use iodyno_measure::{Cell, Effect, Interval, LayerEffect, Level, Storage, StorageEnd, Verdict};
use iodyno_units::OpKind;

/// A cell of 20 000 operations of one kind, 100 µs each, one at a time.
fn sound(kind: OpKind) -> Cell {
    let mut interval = Interval::default();
    let class = interval.class_mut(kind);
    class.bytes = 10_000 * 4096;
    class.service.record_n(100_000, 10_000);
    let mut cell = Cell {
        window_ns: 2_000_000_000,
        interval_ns: 1_000_000_000,
        series: vec![interval.clone(), interval],
        ..Cell::default()
    };
    cell.key.depth = 1;
    cell.resources.outstanding_area_ns = 2_000_000_000;
    cell.resources.moved_bytes = 20_000 * 4096;
    cell.resources.cpu_user_ns = vec![100_000_000];
    cell.resources.cpu_system_ns = vec![100_000_000];
    cell.evidence.direct = Some(true);
    cell.evidence.active_bytes = 400 << 30;
    cell
}

fn on(kind: OpKind, effects: &[(Effect, &str)], end: StorageEnd) -> Cell {
    let mut cell = sound(kind);
    let one = |(effect, amount): &(Effect, &str)| LayerEffect {
        layer: "dm-0".to_owned(),
        driver: "driver".to_owned(),
        effect: *effect,
        amount: (!amount.is_empty()).then(|| (*amount).to_owned()),
    };
    let effects = effects.iter().map(one).collect();
    cell.evidence.storage = Some(Storage { effects, end, ..Storage::default() });
    cell
}

/// The cell's verdict with this code; None if there is none.
fn found(cell: &Cell, code: &str) -> Option<Verdict> {
    judge(cell).into_iter().find(|verdict| verdict.code == code)
}

fn level(cell: &Cell, code: &str) -> Option<Level> {
    found(cell, code).map(|verdict| verdict.level)
}

/// Layers whose figures are not the device's cause a warning; other layers are only named.
#[test]
fn layers_are_judged_by_what_they_do() {
    use Level::{Note, Warning};
    for (effect, code, reads, writes) in [
        (Effect::Delays, "LAYER", Some(Warning), Some(Warning)),
        (Effect::Fails, "LAYER", Some(Warning), Some(Warning)),
        (Effect::Caches, "LAYER", Some(Warning), Some(Warning)),
        (Effect::CachesWrites, "LAYER", Some(Note), Some(Warning)),
        (Effect::CopiesOnWrite, "LAYER", Some(Note), Some(Warning)),
        (Effect::RecordsWrites, "LAYER", Some(Note), Some(Warning)),
        (Effect::Resyncs, "LAYER", Some(Warning), Some(Warning)),
        (Effect::Degraded, "RAID_DEGRADED", Some(Warning), Some(Warning)),
        (Effect::Degraded, "LAYER", None, None),
        (Effect::Allocates, "LAYER", Some(Note), Some(Note)),
        (Effect::Encrypts, "LAYER", Some(Note), Some(Note)),
        (Effect::Verifies, "LAYER", Some(Note), Some(Note)),
        (Effect::Reduces, "LAYER", Some(Note), Some(Note)),
        (Effect::BuffersWrites, "CHECKSUMMED", None, Some(Note)),
        (Effect::Unknown, "LAYER", None, None),
    ] {
        for (kind, expected) in [(OpKind::Read, reads), (OpKind::Write, writes)] {
            let cell = on(kind, &[(effect, "")], StorageEnd::Device);
            assert_eq!(level(&cell, code), expected, "{effect:?}, {kind:?}");
            let is_valid = level(&cell, "VALID").is_some();
            assert!(
                code == "LAYER" && expected.is_none() || is_valid != (expected == Some(Warning))
            );
        }
        // Memory is named already, and nothing else is above a note there.
        let cell = on(OpKind::Write, &[(effect, "")], StorageEnd::Memory);
        assert!(level(&cell, code) <= Some(Note), "{effect:?}");
    }
    let cell = on(
        OpKind::Read,
        &[
            (Effect::Delays, "5 ms"),
            (Effect::Encrypts, ""),
            (Effect::Fails, "for 1 s of every 6 s"),
        ],
        StorageEnd::Device,
    );
    let text = found(&cell, "LAYER").unwrap().text;
    assert!(
        text.starts_with("dm-0 (driver) delays operations by 5 ms; dm-0 (driver) fails operations on purpose for 1 s of every 6 s: "),
        "{text}"
    );
    let degraded = on(OpKind::Read, &[(Effect::Degraded, "1 of 2 members")], StorageEnd::Device);
    let text = found(&degraded, "RAID_DEGRADED").unwrap().text;
    assert!(text.starts_with("dm-0 (driver) lacks 1 of 2 members: "), "{text}");
    let mut buffered = on(OpKind::Write, &[(Effect::BuffersWrites, "")], StorageEnd::Device);
    buffered.evidence.direct = Some(false);
    assert_eq!(level(&buffered, "CHECKSUMMED"), None, "PAGE_CACHE covers it");
}

/// Reads are noted if the run trimmed the target before: in this cell, in an earlier one or in a simultaneous one.
#[test]
fn reads_of_what_the_run_trimmed_are_named() {
    let code = "READS_OF_TRIMMED";
    for (kind, expected) in [(OpKind::Read, Some(Level::Note)), (OpKind::Write, None)] {
        let mut cell = sound(kind);
        assert_eq!(level(&cell, code), None);
        cell.evidence.trimmed_bytes = 4096;
        assert_eq!(level(&cell, code), expected, "{kind:?}");
        cell.evidence.trimmed_bytes = 0;
        let class = cell.series[0].class_mut(OpKind::Trim);
        class.bytes = 1 << 20;
        class.service.record(1000);
        assert_eq!(level(&cell, code), expected, "{kind:?}");
    }
}
