//! Tests of the attribution of device bytes to targets that share devices.

use super::*;
use iodyno_measure::Interval;
use iodyno_targets::{BlockDevice, FileSystem, Lowest, TargetName, inspect};
use serde_json::json;

const MIB: u64 = 1 << 20;

fn dev(text: &str) -> DevNo {
    text.parse().unwrap()
}

/// A target on the device `own`. Its stack has `layers` layers, and ends on the disk 8:0.
fn target(own: &str, layers: usize) -> Inspection {
    let mut found = inspect(&TargetName::Null { size_bytes: 1 << 20 }).unwrap();
    let device: BlockDevice = serde_json::from_value(json!({
        "kernel_name": own, "dev": own, "holders": [], "slaves": [], "partitions": []
    }))
    .unwrap();
    found.device = Some(device);
    let mut passes = vec![dev(own), dev("8:0")];
    passes.dedup();
    found.stack = Some(Stack {
        layers: vec![Layer { kind: LayerKind::Loop, name: own.to_owned() }; layers],
        end: End::Device,
        lowest: vec![Lowest {
            name: "sda".to_owned(),
            dev: dev("8:0"),
            size_bytes: Some(1 << 30),
            rotational: None,
        }],
        passes,
        ..Stack::default()
    });
    found
}

/// A direct cell that moved `moved_mib` MiB, two thirds of them in its window. A quarter of the bytes were written.
fn cell(moved_mib: u64) -> Cell {
    let mut interval = Interval::default();
    interval.class_mut(OpKind::Read).bytes = moved_mib * MIB / 2;
    interval.class_mut(OpKind::Write).bytes = moved_mib * MIB / 6;
    let mut cell = Cell { series: vec![interval], ..Cell::default() };
    cell.resources.moved_bytes = moved_mib * MIB;
    cell.evidence.direct = Some(true);
    cell
}

fn stats(mib: u64) -> DiskStats {
    DiskStats { read_bytes: mib * MIB, ..DiskStats::default() }
}

fn rounded(shares: &[Option<f64>]) -> Vec<Option<u64>> {
    shares.iter().map(|share| share.map(|share| (share * 100.0).round() as u64)).collect()
}

/// A loop device on a file of a disk that is also measured: the loop device's I/O is not foreign I/O on the disk.
#[test]
fn a_run_s_own_io_on_a_stacked_device_is_not_foreign_beneath() {
    let all = [target("8:0", 2), target("7:0", 3)];
    let cells = [cell(100), cell(300)];
    assert_eq!(
        rounded(&foreign_shares(&all, &cells, &[Some(stats(410)), Some(stats(300))])),
        [Some(3), Some(0)]
    );
    // Foreign I/O is still detected, on either.
    assert_eq!(
        rounded(&foreign_shares(&all, &cells, &[Some(stats(800)), Some(stats(600))])),
        [Some(14), Some(100)],
        "what others did on the loop device reaches the disk too"
    );
    // Two files of one disk.
    let all = [target("8:0", 2), target("8:0", 2)];
    let shares = foreign_shares(&all, &cells, &[Some(stats(400)), Some(stats(400))]);
    assert_eq!(rounded(&shares), [Some(0), Some(0)]);
    // A single target behaves as before.
    let shares = foreign_shares(&all[..1], &cells[..1], &[Some(stats(150))]);
    assert_eq!(rounded(&shares), [Some(50)]);
    assert_eq!(foreign_shares(&all[..1], &[cell(60)], &[Some(stats(150))]), [None], "too little");
    // Late writes of a page cache or a server are indistinguishable from foreign I/O.
    for change in [
        |stack: &mut Stack| stack.page_cache.push("loop0".to_owned()),
        |stack: &mut Stack| stack.anywhere = true,
    ] {
        let mut all = [target("8:0", 2), target("7:0", 3)];
        change(all[1].stack.as_mut().unwrap());
        let shares = foreign_shares(&all, &cells, &[Some(stats(800)), Some(stats(300))]);
        assert_eq!(rounded(&shares), [None, Some(0)]);
    }
    for direct in [Some(false), None] {
        let mut buffered = cell(300);
        buffered.evidence.direct = direct;
        let shares = foreign_shares(&all[..1], &[buffered.clone()], &[Some(stats(800))]);
        assert_eq!(rounded(&shares), [None], "{direct:?}");
        let moved = [Some(stats(800)), Some(stats(300))];
        let above = [target("8:0", 2), target("7:0", 3)];
        let shares = foreign_shares(&above, &[cell(100), buffered], &moved);
        assert_eq!(shares[0].is_none(), direct == Some(false), "{direct:?}");
    }
    // The metadata writes of a copy-on-write file system are indistinguishable, too, for a file on it and for its
    // device.
    let mut all = [target("8:0", 2), target("7:0", 3)];
    let layer = |name: &str| Layer { kind: LayerKind::FileSystem, name: name.to_owned() };
    all[1].stack.as_mut().unwrap().layers[1] = layer("btrfs at /b");
    let moved = [Some(stats(800)), Some(stats(300))];
    assert_eq!(rounded(&foreign_shares(&all, &cells, &moved)), [None, Some(0)]);
    all[1].stack.as_mut().unwrap().layers[1] = layer("ext4 at /e");
    assert_eq!(rounded(&foreign_shares(&all, &cells, &moved)), [Some(100), Some(0)]);
    for (fs_type, share) in [("btrfs", None), ("f2fs", None), ("ext4", Some(100))] {
        let file_system: FileSystem =
            serde_json::from_value(json!({ "fs_type": fs_type })).unwrap();
        all[0].file_system = Some(file_system);
        assert_eq!(rounded(&foreign_shares(&all, &cells, &moved)), [share, Some(0)], "{fs_type}");
    }
}

/// Some devices count zeroes as written bytes, others do not: they are indistinguishable from foreign writes. Trims are
/// counted apart, by the device as by the cell.
#[test]
fn zeroes_are_not_foreign_writes() {
    let all = [target("8:0", 2)];
    let with = |kind| {
        let mut cell = cell(96);
        cell.series[0].class_mut(kind).bytes = 500 * MIB;
        cell
    };
    let moved = [Some(stats(192))];
    assert_eq!(foreign_shares(&all, &[with(OpKind::WriteZeroes)], &moved), [None]);
    assert_eq!(rounded(&foreign_shares(&all, &[with(OpKind::Trim)], &moved)), [Some(100)]);
    // Reads and writes share the moved bytes.
    let issued = issued(&with(OpKind::Trim));
    assert_eq!((issued.read_bytes, issued.written_bytes), (72 * MIB, 24 * MIB));
}

/// Bytes of one target that a page cache, a server or an emulated device may have answered are not subtracted from the
/// bytes of another target.
#[test]
fn an_honest_target_beside_one_that_is_not_keeps_its_bytes() {
    type Change = fn(&mut Stack, &mut Cell);
    let counted = |mib: u64| {
        let at = |n: u64| Some(Counted { read_bytes: n * MIB, written_bytes: n * MIB });
        (at(0), at(mib))
    };
    // Each cell moves 120 MiB, of which 90 are read. The first target has the simpler stack; the device moved the
    // second target's bytes.
    let second = |change: Change, own: &Inspection| {
        let mut first = target("8:0", 2);
        let mut cells = [cell(120), cell(120)];
        change(first.stack.as_mut().unwrap(), &mut cells[0]);
        let found = storage(&[first, own.clone()], &cells, &[counted(90), counted(90)]);
        found[1].as_ref().unwrap().reached.unwrap().device_read_bytes / MIB
    };
    let file = target("8:0", 2);
    let mut served = target("43:0", 1);
    let stack = served.stack.as_mut().unwrap();
    (stack.end, stack.anywhere) = (End::Served, true);
    stack.lowest.clear();
    assert_eq!(second(|_, _| {}, &file), 0, "direct and on the device, it takes all");
    let cases: [(&str, Change); 6] = [
        ("buffered", |_, cell| cell.evidence.direct = Some(false)),
        ("a page cache beneath", |stack, _| stack.page_cache.push("ext4 at /m".to_owned())),
        ("emulated", |stack, _| stack.end = End::Emulated),
        ("served", |stack, _| stack.end = End::Served),
        ("memory in part", |stack, _| stack.end = End::Memory),
        ("on no device that is counted", |stack, _| stack.lowest.clear()),
    ];
    for (what, change) in cases {
        assert_eq!(second(change, &file), 90, "{what}");
        assert_eq!(second(change, &served), 90, "{what}, beside a server");
    }
    // Network bytes are counted with a server's bytes, not with a disk's.
    let remote = |stack: &mut Stack, _: &mut Cell| {
        stack.end = End::Remote;
        stack.lowest.clear();
    };
    assert_eq!((second(remote, &served), second(remote, &file)), (0, 90));
    // A set with two members, one of which the other target does not use.
    let two = |stack: &mut Stack, _: &mut Cell| {
        stack.lowest.push(Lowest { dev: dev("8:16"), ..stack.lowest[0].clone() });
    };
    assert_eq!(second(two, &target("8:0", 3)), 90);
    // At most the bytes that the target moved itself.
    let cells = [cell(120), cell(120)];
    let found = storage(&[file, served], &cells, &[counted(10), counted(95)]);
    assert_eq!(found[1].as_ref().unwrap().reached.unwrap().device_read_bytes, 85 * MIB);
}

/// Bytes moved outside the window count too. A target with a simple stack gets its bytes first.
#[test]
fn what_reached_a_device_is_shared_out() {
    let counted = |before: u64, mib: u64| {
        let at = |n: u64| Some(Counted { read_bytes: n * MIB, written_bytes: n * MIB });
        (at(before), at(before + mib))
    };
    let reached = |all: &[Inspection], cells: &[Cell], moved: &[(Option<Counted>, _)]| {
        storage(all, cells, moved).into_iter().map(|s| s.unwrap().reached).collect::<Vec<_>>()
    };
    let one = reached(&[target("8:0", 2)], &[cell(120)], &[counted(5, 90)])[0].unwrap();
    assert_eq!((one.issued_read_bytes, one.issued_written_bytes), (90 * MIB, 30 * MIB));
    assert_eq!((one.device_read_bytes, one.device_written_bytes), (90 * MIB, 90 * MIB));
    // A cached loop device beside an honest file of the same disk: the file's bytes are not the loop's.
    let all = [target("7:0", 3), target("8:0", 2)];
    let cells = [cell(400), cell(120)];
    let both = reached(&all, &cells, &[counted(0, 91), counted(0, 91)]);
    assert_eq!(both[0].unwrap().device_read_bytes, MIB);
    assert_eq!(both[1].unwrap().device_read_bytes, 91 * MIB);
    // Bytes of another disk are the loop device's.
    let mut other = target("8:16", 3);
    other.stack.as_mut().unwrap().lowest[0].dev = dev("8:16");
    other.stack.as_mut().unwrap().passes = vec![dev("8:16")];
    let both = reached(&[other, all[1].clone()], &cells, &[counted(0, 400), counted(0, 90)]);
    assert_eq!(both[0].unwrap().device_read_bytes, 400 * MIB);
    // A server may have its storage on any disk. The bytes of a file on that disk are not the server's, and the bytes
    // of a target in memory never reached a disk.
    let mut server = target("7:0", 1);
    let stack = server.stack.as_mut().unwrap();
    (stack.anywhere, stack.lowest, stack.passes) = (true, Vec::new(), Vec::new());
    let found =
        storage(&[server.clone(), all[1].clone()], &cells, &[counted(5, 91), counted(5, 91)]);
    let [served, file] = [0, 1].map(|i| found[i].as_ref().unwrap());
    assert_eq!(served.reached.unwrap().device_read_bytes, MIB);
    assert_eq!(served.device_written_bytes, None, "nobody knows of which device");
    assert_eq!(file.device_written_bytes, Some(5 * MIB));
    let mut memory = target("7:0", 1);
    memory.stack.as_mut().unwrap().end = End::Memory;
    let both = reached(&[server, memory], &[cell(120), cell(400)], &[counted(0, 90), (None, None)]);
    assert_eq!(both[0].unwrap().device_read_bytes, 90 * MIB);
    // Bytes of memory never reach a device; uncountable bytes are unknown.
    let mut memory = target("7:0", 1);
    let stack = memory.stack.as_mut().unwrap();
    (stack.end, stack.lowest) = (End::Memory, Vec::new());
    let found = reached(&[memory], &[cell(120)], &[(None, None)])[0].unwrap();
    assert_eq!((found.issued_read_bytes, found.device_read_bytes), (90 * MIB, 0));
    assert_eq!(reached(&[target("8:0", 2)], &[cell(120)], &[(None, None)]), [None]);
}

/// The storage is rotational if one of its disks is. It is non-rotational only if all disks are known.
#[test]
fn one_disk_that_turns_decides() {
    for (disks, expected) in [
        ([Some(false), Some(true)], Some(true)),
        ([Some(true), None], Some(true)),
        ([None, Some(true)], Some(true)),
        ([Some(false), Some(false)], Some(false)),
        ([Some(false), None], None),
    ] {
        let mut found = target("8:0", 2);
        let lowest = &mut found.stack.as_mut().unwrap().lowest;
        lowest.push(lowest[0].clone());
        lowest.iter_mut().zip(disks).for_each(|(disk, turns)| disk.rotational = turns);
        let storage = storage(&[found], &[cell(120)], &[(None, None)]).remove(0).unwrap();
        assert_eq!(storage.rotational, expected, "{disks:?}");
    }
}
