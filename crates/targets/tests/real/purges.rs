//! Purges of loop devices, which pass discards on as holes in their files; and targets that are not purged.

use std::fs::OpenOptions as FileOptions;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use iodyno_targets::purge::{
    Method, PurgeOptions, PurgeOutcome, PurgeRecord, Verified, plan, purge,
};
use iodyno_targets::{Confirm, RefusalCode, TargetError};

use crate::common::*;

fn named(name: &str) -> PurgeOptions {
    PurgeOptions { method: None, confirm: Confirm(vec![name.to_owned()]) }
}

fn go(node: &str, options: &PurgeOptions) -> Result<PurgeRecord, TargetError> {
    purge(inspected(node), options, &mut |_| ControlFlow::Continue(()))
}

/// Asserts that the purge was refused for the reason `code`. `by_any_name`: no name would have lifted the refusal.
fn is_refused(result: Result<PurgeRecord, TargetError>, code: RefusalCode, by_any_name: bool) {
    match result {
        Err(TargetError::Refused(refused)) => {
            assert!(refused.refusals.iter().any(|r| r.code == code), "{refused}");
            assert_eq!(refused.confirmed_by.is_empty(), by_any_name, "{refused}");
        }
        other => panic!("{other:?}"),
    }
}

/// Creates a file of 64 MiB of 0xA5, to be attached to a loop device.
fn full(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("full");
    std::fs::write(&path, vec![0xA5; 64 << 20]).unwrap();
    path
}

fn is_untouched(path: &Path) -> bool {
    std::fs::read(path).unwrap().iter().all(|&byte| byte == 0xA5)
}

#[test]
#[ignore = "needs root and loop devices"]
fn a_device_is_purged_when_it_was_named() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let image = full(dir.path());
    let disk = Loop::on(&image, &[]);
    // Its data is not recognised, yet it holds data.
    assert_eq!(codes(&disk.node), [RefusalCode::HoldsData]);
    is_refused(go(&disk.node, &PurgeOptions::default()), RefusalCode::Purge, false);
    is_refused(go(&disk.node, &named("loop")), RefusalCode::Purge, false);
    assert!(is_untouched(&image));
    let found = plan(&inspected(&disk.node), None);
    assert_eq!((found.chosen, found.choices.len()), (Some(Method::Discard), 1), "{found:?}");
    // An impossible method is reported, and nothing happens.
    let sanitize = PurgeOptions { method: Some(Method::NvmeFormat), ..named(disk.kernel_name()) };
    let record = go(&disk.node, &sanitize).unwrap();
    assert!(matches!(record.outcome, PurgeOutcome::NotPossible(_)), "{record:?}");
    assert!(is_untouched(&image));

    let record = go(&disk.node, &named(disk.kernel_name())).unwrap();
    assert_eq!((&record.outcome, record.verified), (&PurgeOutcome::Purged, Verified::Yes));
    assert!(record.is_purged() && record.duration_ns > 0, "{record:?}");
    assert!(record.lifted.iter().any(|why| why.contains("unknown kinds")), "{record:?}");
    assert!(record.evidence.iter().any(|text| text.contains("64 read as zeroes")), "{record:?}");
    assert!(std::fs::read(&image).unwrap().iter().all(|&byte| byte == 0));
    assert!(std::fs::metadata(&image).unwrap().blocks() < 1024, "the file gave its blocks back");
}

#[test]
#[ignore = "needs root and loop devices"]
fn devices_in_use_are_purged_by_no_name() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let image = blank(dir.path(), "disk");
    let disk = Loop::on(&image, &[]);
    run("mkfs.ext4", &["-q", &disk.node]);
    let mount = Mount::at(dir.path().join("m"), &[&disk.node]);
    std::fs::write(mount.0.join("letter"), "dear").unwrap();
    is_refused(go(&disk.node, &named(disk.kernel_name())), RefusalCode::Mounted, true);
    assert_eq!(std::fs::read_to_string(mount.0.join("letter")).unwrap(), "dear");
    // Nor the file below a loop device, by its own name.
    let file = image.to_str().unwrap();
    is_refused(go(file, &named(file)), RefusalCode::Mounted, true);
    drop(mount);
    let held = FileOptions::new().read(true).custom_flags(O_EXCL).open(&disk.node).unwrap();
    is_refused(go(&disk.node, &named(&disk.node)), RefusalCode::Held, true);
    drop(held);
    run("e2fsck", &["-fn", &disk.node]);
    // Once no process uses it, it is purged.
    is_refused(go(&disk.node, &PurgeOptions::default()), RefusalCode::Signature, false);
    assert!(go(&disk.node, &named(&disk.node)).unwrap().is_purged());
    assert!(inspected(&disk.node).content.unwrap().starts_with_zeroes);
}

#[test]
#[ignore = "needs root and loop devices"]
fn a_partition_is_purged_and_its_disk_is_not() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let image = full(dir.path());
    // An MBR with one partition of type 83h: 32768 sectors from 2048 on.
    let mut sector = [0; 512];
    sector[446 + 4] = 0x83;
    sector[446 + 8..446 + 12].copy_from_slice(&2048_u32.to_le_bytes());
    sector[446 + 12..446 + 16].copy_from_slice(&32_768_u32.to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xAA]);
    FileOptions::new().write(true).open(&image).unwrap().write_all_at(&sector, 0).unwrap();
    let disk = Loop::on(&image, &[]);
    let first = Partition::on(&disk, 2048, 32_768);
    is_refused(go(&disk.node, &PurgeOptions::default()), RefusalCode::PartitionTable, false);
    let partition = first.node();
    // Its disk's name is not its own.
    is_refused(go(&partition, &named(disk.kernel_name())), RefusalCode::Purge, false);
    let whole = PurgeOptions { method: Some(Method::NvmeSanitizeBlock), ..named(&partition) };
    let record = go(&partition, &whole).unwrap();
    assert!(matches!(&record.outcome, PurgeOutcome::NotPossible(why) if why.contains("partition")));
    assert!(go(&partition, &named(&partition)).unwrap().is_purged());
    let bytes = std::fs::read(&image).unwrap();
    let (from, to) = (2048 * 512, (2048 + 32_768) * 512);
    assert!(bytes[from..to].iter().all(|&byte| byte == 0));
    assert!(bytes[512..from].iter().chain(&bytes[to..]).all(|&byte| byte == 0xA5));
    assert_eq!(bytes[..512], sector);
    // The disk itself, while the partition is mounted: by no name.
    run("mkfs.ext4", &["-q", &partition]);
    let mount = Mount::at(dir.path().join("m"), &[&partition]);
    is_refused(go(&disk.node, &named(disk.kernel_name())), RefusalCode::Mounted, true);
    drop(mount);
}

/// A purge of a part of a device erases only this part.
#[test]
#[ignore = "needs root and loop devices"]
fn a_part_of_a_device() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let image = full(dir.path());
    let disk = Loop::on(&image, &["--direct-io=on"]);
    let part = format!("{}?size=16MiB", disk.node);
    assert!(go(&part, &named(&disk.node)).unwrap().is_purged());
    let bytes = std::fs::read(&image).unwrap();
    assert!(bytes[..16 << 20].iter().all(|&byte| byte == 0));
    assert!(bytes[16 << 20..].iter().all(|&byte| byte == 0xA5));
}
