//! File systems that are full, read-only, or limited.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use iodyno_targets::{
    LayOut, Marker, OpenOptions, RefusalCode, TargetError, inspect, lay_out, open, open_inspected,
};

use crate::common::*;

fn fill(buf: &mut [u8], _offset: u64) {
    buf.fill(0xFF);
}

fn go_on(_done: u64, _total: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// On a file system of 64 MiB, a new file that does not fit is removed, an old file that can't grow is unchanged, and
/// scratch space reports the missing space.
fn fill_up(point: &Path) {
    let before = names(point);
    let at = |rest: &str| name(&format!("{}/{rest}", point.display()));
    let is_no_space = |result: Result<(), TargetError>, wanted: u64| match result {
        Err(error @ TargetError::NoSpace { wanted_bytes, free_bytes, .. }) => {
            assert_eq!(wanted_bytes, wanted, "{error}");
            assert!(free_bytes > 0 && free_bytes < wanted.min(64 * MIB + 1), "{error}");
        }
        other => panic!("{other:?}"),
    };
    // Reported before anything is created.
    is_no_space(inspect(&at("t?size=128MiB")).map(|_| ()), 128 * MIB);
    // Taken by another process since.
    let inspection = inspect(&at("t?size=40MiB")).unwrap();
    let other = File::create(point.join("other")).unwrap();
    other.write_all_at(&vec![1; 30 << 20], 0).unwrap();
    let mut opened = open_inspected(inspection, &OpenOptions::read_write()).unwrap();
    is_no_space(lay_out(&mut opened, &mut fill, &mut go_on), 40 * MIB);
    drop(opened);
    std::fs::remove_file(point.join("other")).unwrap();
    // Journals give the space of a removed file back when they are written.
    rustix::fs::sync();
    assert_eq!(names(point), before);
    // An old one that is to grow.
    let mut opened = open(&at("t?size=16MiB"), &OpenOptions::read_write()).unwrap();
    lay_out(&mut opened, &mut fill, &mut go_on).unwrap();
    drop(opened);
    let mut opened = open(&at("t?size=128MiB"), &OpenOptions::read_write()).unwrap();
    is_no_space(lay_out(&mut opened, &mut fill, &mut go_on), 112 * MIB);
    drop(opened);
    let kept = inspect(&at("t")).unwrap();
    assert_eq!((kept.whole_bytes, kept.marker), (Some(16 * MIB), Some(Marker::LaidOut(16 * MIB))));
    assert!(std::fs::read(point.join("t")).unwrap() == vec![0xFF; 16 << 20]);
    is_no_space(
        inspect(&name(&format!("scratch:128MiB@{}", point.display()))).map(|_| ()),
        128 * MIB,
    );
    is_no_space(inspect(&name(&format!("scratch:@{}", point.display()))).map(|_| ()), 64 * MIB);
}

#[test]
#[ignore = "needs root and a tmpfs"]
fn a_full_tmpfs() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let mount = Mount::at(dir.path().join("m"), &["-t", "tmpfs", "-o", "size=64m", "tmpfs"]);
    fill_up(&mount.0);
}

#[test]
#[ignore = "needs root and loop devices"]
fn a_full_ext4_and_its_device() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let disk = Loop::on(&blank(dir.path(), "disk"), &["--direct-io=on"]);
    run("mkfs.ext4", &["-q", &disk.node]);
    let mount = Mount::at(dir.path().join("m"), &[&disk.node]);
    fill_up(&mount.0);
    // The file's device is the loop device, and below that whatever holds the image.
    let found = inspect(&name(&format!("{}/t", mount.0.display()))).unwrap();
    assert_eq!(found.device.as_ref().unwrap().kernel_name, disk.kernel_name());
    assert!(found.physical.iter().all(|device| device.kernel_name != disk.kernel_name()));
    // Remounted read-only, it is refused before anything is tried.
    run("mount", &["-o", "remount,ro", mount.0.to_str().unwrap()]);
    let target = name(&format!("{}/t", mount.0.display()));
    is_refused(open(&target, &destroy("t")), RefusalCode::ReadOnly);
    assert!(open(&target, &OpenOptions::read_only()).is_ok());
}

/// ramfs has neither direct I/O nor attributes.
#[test]
#[ignore = "needs root and a ramfs"]
fn without_direct_io_and_without_attributes() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let mount = Mount::at(dir.path().join("m"), &["-t", "ramfs", "ramfs"]);
    let target = name(&format!("{}/t?size=1MiB", mount.0.display()));
    let mut opened = open(&target, &OpenOptions::read_write()).unwrap();
    assert!(!opened.direct && opened.page_cache);
    assert_eq!(opened.why_not_direct.as_deref(), Some("Ramfs refuses O_DIRECT."));
    lay_out(&mut opened, &mut fill, &mut go_on).unwrap();
    drop(opened);
    // The mark lies beside the file, and is valid in the next run.
    assert_eq!(names(&mount.0), ["t", "t.iodyno"]);
    let again = open(&target, &OpenOptions::read_write()).unwrap();
    assert_eq!(again.lay_out, LayOut::Complete);
    drop(again);
    let insisting = name(&format!("{}/t?direct=yes", mount.0.display()));
    let result = open(&insisting, &OpenOptions::read_write());
    assert!(matches!(result, Err(TargetError::Unsupported { .. })), "{result:?}");
    // A file that was to be made and could not be opened as requested is not left behind.
    let fresh = name(&format!("{}/new?size=1MiB&direct=yes", mount.0.display()));
    assert!(open(&fresh, &OpenOptions::read_write()).is_err());
    assert_eq!(names(&mount.0), ["t", "t.iodyno"]);
}
