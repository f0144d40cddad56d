//! Writes to a device between two fingerprints are noticed. Uses loop devices over files in memory, so that
//! nothing else is below them.

use std::path::Path;

use iodyno_targets::{OpenOptions, WritesSeen, WrittenSince, open, unwritten_since, writes_seen};

use crate::common::*;

fn seen(node: &str) -> WritesSeen {
    writes_seen(&inspected(node)).unwrap()
}

fn memory(dir: &Path) -> Mount {
    Mount::at(dir.join("memory"), &["-t", "tmpfs", "-o", "size=160m", "tmpfs"])
}

fn is_written(before: &WritesSeen, node: &str) {
    match unwritten_since(before, &seen(node)) {
        Err(WrittenSince::Written { by: "the kernel's count", .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
#[ignore = "needs root and loop devices"]
fn a_device_that_another_program_wrote_to() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let place = memory(dir.path());
    let image = blank(&place.0, "disk");
    let disk = Loop::on(&image, &[]);
    let fresh = seen(&disk.node);
    // A counter at 0 did not see our writes, for there were none; so it proves nothing.
    if fresh.device.as_ref().unwrap().kernel_bytes.is_none() {
        let why = unwritten_since(&fresh, &fresh);
        assert!(matches!(why, Err(WrittenSince::Unknown { .. })), "{why:?}");
    }
    let opened = open(&name(&disk.node), &OpenOptions::read_write()).unwrap();
    write_block(&opened, 1).unwrap();
    rustix::fs::fdatasync(&opened).unwrap();
    let before = writes_seen(&opened.inspection).unwrap();
    drop(opened);
    assert!(before.below.is_empty() && before.file.is_none(), "{before:?}");
    // Inspecting it and reading it are no writes.
    std::fs::read(&disk.node).unwrap();
    assert_eq!(unwritten_since(&before, &seen(&disk.node)), Ok(()));
    // Another program writes 4 KiB; one discards; a file system is made on a part of it.
    run("dd", &["if=/dev/zero", &format!("of={}", disk.node), "bs=4k", "count=1", "conv=fsync"]);
    is_written(&before, &disk.node);
    let before = seen(&disk.node);
    run("blkdiscard", &["--offset", "1048576", "--length", "1048576", &disk.node]);
    is_written(&before, &disk.node);
    let first = Partition::on(&disk, 2048, 32_768);
    let before = (seen(&disk.node), seen(&first.node()));
    run("mkfs.ext4", &["-q", &first.node()]);
    is_written(&before.0, &disk.node);
    is_written(&before.1, &first.node());
    drop(first);
    // The file is attached anew: writes between are unknown.
    let before = seen(&disk.node);
    drop(disk);
    let disk = Loop::on(&image, &[]);
    let why = unwritten_since(&before, &seen(&disk.node));
    assert!(matches!(why, Err(WrittenSince::Other(_))), "{why:?}");
}

#[test]
#[ignore = "needs root and loop devices"]
fn a_file_whose_neighbour_was_written() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let place = memory(dir.path());
    let disk = Loop::on(&blank(&place.0, "disk"), &[]);
    // Nothing is left to be laid out after the mount: that would count as another program's writes.
    run("mkfs.ext4", &["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", &disk.node]);
    let mount = Mount::at(dir.path().join("m"), &[&disk.node]);
    let path = mount.0.join("t");
    let write = |path: &Path, bytes: usize| {
        std::fs::write(path, vec![7; bytes]).unwrap();
        let file = std::fs::File::open(path).unwrap();
        rustix::fs::syncfs(file).unwrap();
    };
    write(&path, 32 << 20);
    let before = seen(path.to_str().unwrap());
    assert_eq!(before.below.len(), 1, "{before:?}");
    assert_eq!(unwritten_since(&before, &seen(path.to_str().unwrap())), Ok(()));
    // A journal's worth passes; 4 MiB beside it on the same device do not.
    write(&mount.0.join("note"), 4096);
    assert_eq!(unwritten_since(&before, &seen(path.to_str().unwrap())), Ok(()));
    write(&mount.0.join("film"), 4 << 20);
    is_written(&before, path.to_str().unwrap());
}
