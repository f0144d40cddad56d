//! Tests of the verdicts that judge, by the bytes that reached the storage, whether a cell's figures are the device's.

use iodyno_measure::verdict::judge;
use iodyno_measure::{
    Cell, Coverage, Interval, Level, Reached, Storage, StorageEnd, StorageLayer, Uncached, Verdict,
};
use iodyno_units::OpKind;

const MIB: u64 = 1 << 20;

/// A cell of 80 MiB read and 20 MiB written, all of which reached the disk `sda`, which had been fully written before.
fn honest() -> Cell {
    let mut interval = Interval::default();
    for (kind, bytes) in [(OpKind::Read, 80 * MIB), (OpKind::Write, 20 * MIB)] {
        let class = interval.class_mut(kind);
        class.bytes = bytes;
        class.service.record_n(100_000, 10_000);
    }
    let mut cell = Cell {
        window_ns: 2_000_000_000,
        interval_ns: 2_000_000_000,
        series: vec![interval],
        ..Cell::default()
    };
    cell.resources.outstanding_area_ns = 2_000_000_000;
    cell.evidence.direct = Some(true);
    cell.evidence.active_bytes = 400 << 30;
    cell.evidence.written_share = Some(1.0);
    cell.evidence.storage = Some(Storage {
        layers: vec![layer("file_system", "ext4 at /"), layer("disk", "sda")],
        end: StorageEnd::Device,
        lowest: vec!["sda".to_owned()],
        effects: Vec::new(),
        page_cache: Vec::new(),
        reached: Some(Reached {
            issued_read_bytes: 80 * MIB,
            device_read_bytes: 80 * MIB,
            issued_written_bytes: 20 * MIB,
            device_written_bytes: 20 * MIB,
        }),
        device_bytes: Some(400 << 30),
        device_written_bytes: Some(400 << 30),
        rotational: Some(false),
    });
    cell
}

fn layer(kind: &str, name: &str) -> StorageLayer {
    StorageLayer { kind: kind.to_owned(), name: name.to_owned() }
}

fn storage(cell: &mut Cell) -> &mut Storage {
    cell.evidence.storage.as_mut().unwrap()
}

fn reached(cell: &mut Cell) -> &mut Reached {
    storage(cell).reached.as_mut().unwrap()
}

fn found(cell: &Cell, code: &str) -> Option<Verdict> {
    judge(cell).into_iter().find(|v| v.code == code)
}

fn codes(cell: &Cell) -> Vec<String> {
    judge(cell).into_iter().map(|v| v.code).collect()
}

/// A cell is valid if all of its bytes, or more, reached a device; if 5 % are missing, the page cache answered.
#[test]
fn bytes_that_did_not_reach_a_device_are_the_page_cache_s() {
    assert_eq!(codes(&honest()), ["VALID"]);
    // Mirrors write more, read-ahead reads more; 96 % is within the counters' error.
    for (read, written, what) in [
        (800, 40, None),
        (77, 20, None),
        (80, 20, None),
        (75, 20, Some("not all reads reached")),
        (0, 20, Some("not all reads reached")),
        (80, 18, Some("not all writes reached")),
        (1, 1, Some("not all reads and writes reached")),
    ] {
        let mut cell = honest();
        reached(&mut cell).device_read_bytes = read * MIB;
        reached(&mut cell).device_written_bytes = written * MIB;
        let verdict = found(&cell, "PAGE_CACHE");
        assert_eq!(verdict.is_some(), what.is_some(), "{read} {written}");
        assert_eq!(found(&cell, "VALID").is_some(), what.is_none());
        if let (Some(verdict), Some(what)) = (verdict, what) {
            assert_eq!(verdict.level, Level::Warning);
            let read = format!(
                "{} of 80 MiB read",
                if read == 0 { "0 B".into() } else { format!("{read} MiB") }
            );
            for word in [what, &read, "of 20 MiB written", "reached a device", "ext4 at /"] {
                assert!(verdict.text.contains(word), "`{word}` in {}", verdict.text);
            }
        }
    }
    // More than was issued is no share of it: others went to the device too. That alone is no verdict (see above).
    for (read, written, says) in [
        (
            80,
            704,
            "80 MiB of 80 MiB read (100 %) and 704 MiB written (this run issued 20 MiB) reached a device, so other programs also wrote",
        ),
        (
            800,
            10,
            "800 MiB read (this run issued 80 MiB) and 10 MiB of 20 MiB written (50 %) reached a device, so other programs also read",
        ),
        (800, 704, "so other programs also read and wrote"),
    ] {
        let mut cell = honest();
        cell.evidence.direct = Some(false);
        reached(&mut cell).device_read_bytes = read * MIB;
        reached(&mut cell).device_written_bytes = written * MIB;
        let verdict = found(&cell, "PAGE_CACHE").unwrap();
        assert!(verdict.text.contains(says), "`{says}` in {}", verdict.text);
    }
    // A range that was never written has nothing to read.
    let mut cell = honest();
    cell.evidence.written_share = Some(0.5);
    reached(&mut cell).device_read_bytes = 40 * MIB;
    assert!(found(&cell, "PAGE_CACHE").is_none() && found(&cell, "NEVER_WRITTEN").is_some());
    reached(&mut cell).device_read_bytes = 30 * MIB;
    assert!(found(&cell, "PAGE_CACHE").is_some());
    // The written part is in it.
    let mut cell = honest();
    cell.evidence.written_share = Some(0.5);
    reached(&mut cell).device_written_bytes = 10 * MIB;
    assert!(found(&cell, "PAGE_CACHE").is_some());
    // An emulated target moves no bytes.
    let mut cell = honest();
    cell.evidence.virtual_time = true;
    reached(&mut cell).device_read_bytes = 0;
    assert!(found(&cell, "PAGE_CACHE").is_none());
    // A few blocks, and uncountable ones, cause no verdict.
    let mut cell = honest();
    *reached(&mut cell) = Reached { issued_read_bytes: MIB - 1, ..Reached::default() };
    assert_eq!(codes(&cell), ["VALID"]);
    storage(&mut cell).reached = None;
    assert_eq!(codes(&cell), ["VALID"]);
}

/// Uncached I/O does not count as answered by the page cache if it left few clean pages there. Dirty pages are ignored.
#[test]
fn uncached_io_is_judged_by_what_it_left_in_the_page_cache() {
    for (before, after, unwritten, is_uncached) in [
        (Some(0), Some(0), Some(0), true),
        (Some(0), Some(5 * MIB), Some(0), true),
        (Some(0), Some(6 * MIB), Some(0), false),
        (Some(0), Some(100 * MIB), Some(96 * MIB), true),
        // What another program had there is not its own.
        (Some(50 * MIB), Some(50 * MIB), Some(0), true),
        (Some(0), None, None, false),
        (None, Some(0), Some(0), false),
    ] {
        let mut cell = honest();
        cell.evidence.direct = Some(false);
        assert!(found(&cell, "PAGE_CACHE").is_some() && found(&cell, "UNCACHED").is_none());
        cell.evidence.uncached = Some(Uncached {
            bytes: 100 * MIB,
            before_bytes: before,
            after_bytes: after,
            unwritten_bytes: unwritten,
        });
        let verdict = found(&cell, "UNCACHED").unwrap();
        assert_eq!(verdict.level == Level::Note, is_uncached, "{verdict:?}");
        assert_eq!(found(&cell, "PAGE_CACHE").is_none(), is_uncached, "{verdict:?}");
        // That bytes did not reach a device counts all the same.
        reached(&mut cell).device_read_bytes = MIB;
        assert!(found(&cell, "PAGE_CACHE").is_some());
    }
}

/// A layer that is known to buffer is named, with the remedy, however much reached the device.
#[test]
fn a_layer_that_buffers_is_the_page_cache_s() {
    let mut cell = honest();
    storage(&mut cell).page_cache = vec!["loop0 reads /img (mend it so)".to_owned()];
    let text = found(&cell, "PAGE_CACHE").unwrap().text;
    assert!(
        text.contains("mend it so") && text.contains("80 MiB of 80 MiB read (100 %)"),
        "{text}"
    );
    let mut cell = honest();
    storage(&mut cell).end = StorageEnd::Served;
    storage(&mut cell).layers = vec![layer("nbd_server", "/run/s.sock")];
    assert_eq!(codes(&cell), ["VALID"]);
    reached(&mut cell).device_read_bytes = MIB;
    let text = found(&cell, "PAGE_CACHE").unwrap().text;
    assert!(text.contains("/run/s.sock") && text.contains("direct I/O"), "{text}");
    for end in [StorageEnd::Remote, StorageEnd::Emulated, StorageEnd::Unknown] {
        storage(&mut cell).end = end;
        storage(&mut cell).reached = None;
        assert_eq!(codes(&cell), ["VALID"], "{end:?}");
    }
}

/// On a target in memory, MEMORY is the only verdict more severe than a note, so that such cells can be compared.
#[test]
fn memory_is_reported_as_memory_only() {
    let mut cell = honest();
    storage(&mut cell).layers = vec![layer("memory_file_system", "tmpfs at /tmp")];
    storage(&mut cell).end = StorageEnd::Memory;
    reached(&mut cell).device_read_bytes = 0;
    reached(&mut cell).device_written_bytes = 0;
    storage(&mut cell).page_cache = vec!["loop0".to_owned()];
    cell.evidence.direct = Some(false);
    cell.evidence.ram_bytes = Some(1 << 50);
    cell.evidence.generator_ceiling_iops = Some(10_000.0);
    let verdicts = judge(&cell);
    let above: Vec<&Verdict> = verdicts.iter().filter(|v| v.level >= Level::Warning).collect();
    assert_eq!(above.len(), 1, "{verdicts:?}");
    assert_eq!(above[0].code, "MEMORY");
    assert!(
        above[0].text.contains("tmpfs at /tmp") && above[0].text.contains("of 100 MiB issued, 0 B")
    );
    assert!(found(&cell, "VALID").is_none() && found(&cell, "PAGE_CACHE").is_none());
}

type Change = fn(&mut Cell);

/// Writes to a flash device that was never fully written get the note UNPRECONDITIONED; other cells do not.
#[test]
fn a_flash_device_is_written_over_before_it_is_steady() {
    let mut cell = honest();
    storage(&mut cell).device_written_bytes = Some(3 << 30);
    for rotational in [Some(false), None] {
        storage(&mut cell).rotational = rotational;
        let verdict = found(&cell, "UNPRECONDITIONED").unwrap();
        assert_eq!(verdict.level, Level::Note);
        for word in ["20 MiB", "2.00 s", "3 GiB", "sda", "400 GiB"] {
            assert!(verdict.text.contains(word), "`{word}` in {}", verdict.text);
        }
    }
    let without: [(&str, Change); 9] = [
        ("it turns", |c| storage(c).rotational = Some(true)),
        ("a method", |c| c.key.place = Some(iodyno_measure::Place::default())),
        ("no writes", |c| c.series[0].class_mut(OpKind::Write).bytes = 0),
        ("written over", |c| storage(c).device_written_bytes = Some(400 << 30)),
        ("not known", |c| storage(c).device_written_bytes = None),
        ("memory", |c| storage(c).end = StorageEnd::Memory),
        ("held back", |c| storage(c).page_cache.push("loop0".to_owned())),
        ("emulated", |c| c.evidence.virtual_time = true),
        ("a fill", |c| c.evidence.fill = Some(Coverage::new(0, 1 << 20, 4096).proof(1, 1 << 20))),
    ];
    for (why, change) in without {
        let mut cell = cell.clone();
        change(&mut cell);
        assert!(found(&cell, "UNPRECONDITIONED").is_none(), "{why}");
    }
}

/// With several targets, the verdict follows the target whose storage proves least about a device. Byte counts add up
/// if those of all targets are known.
#[test]
fn storage_of_several_targets_adds_up() {
    let mut disk = honest().evidence.storage.unwrap();
    let memory = Storage {
        layers: vec![layer("memory_file_system", "tmpfs at /tmp")],
        end: StorageEnd::Memory,
        reached: Some(Reached { issued_read_bytes: MIB, ..Reached::default() }),
        ..Storage::default()
    };
    let alone = disk.clone();
    disk.add(&memory);
    assert_eq!((disk.end, &disk.layers), (StorageEnd::Memory, &memory.layers));
    assert_eq!(disk.lowest, ["sda"]);
    assert_eq!(disk.reached.unwrap().issued_read_bytes, 81 * MIB);
    disk.add(&Storage::default());
    assert_eq!(disk.reached, None);
    let mut twice = alone.clone();
    twice.add(&alone);
    assert_eq!(twice.lowest, ["sda"]);
    assert_eq!(twice.reached.unwrap().device_read_bytes, 160 * MIB);
}
