//! The guard's refusals, the names that lift them, and its claims once a device is open.

use std::fs::OpenOptions as FileOptions;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;

use iodyno_targets::{
    Confirm, LayOut, OpenOptions, RefusalCode, SysRoot, TargetError, check_writable, inspect,
    lay_out, open, open_inspected,
};

use crate::common::*;

#[test]
#[ignore = "needs root and loop devices"]
fn a_blank_device_is_allowed_and_claimed() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let image = blank(dir.path(), "disk");
    let disk = Loop::on(&image, &["--direct-io=on"]);
    let found = inspected(&disk.node);
    assert_eq!(found.size_bytes, Some(64 * MIB));
    let device = found.device.as_ref().unwrap();
    assert_eq!(device.kernel_name, disk.kernel_name());
    assert_eq!(device.loop_backing_file.as_deref(), image.to_str());
    assert!(found.content.as_ref().unwrap().starts_with_zeroes);
    assert_eq!(refusals(&disk.node), []);
    let opened = open(&name(&disk.node), &OpenOptions::read_write()).unwrap();
    assert!(opened.direct && !opened.page_cache && opened.lifted.is_empty());
    assert_eq!((opened.capacity_bytes, &opened.lay_out), (64 * MIB, &LayOut::NotNeeded));
    assert_eq!(write_block(&opened, 7).unwrap(), 4096);
    // While it is ours, no other process gets it, and it can't be mounted.
    is_refused(open(&name(&disk.node), &OpenOptions::read_write()), RefusalCode::Held);
    assert!(open(&name(&disk.node), &OpenOptions::read_only()).is_ok());
    drop(opened);
    // The written content is iodyno's own: it is remarked on, and allowed.
    let again = inspected(&disk.node);
    assert_eq!(check_writable(&again, &SysRoot::real()), []);
    assert!(
        again.notes.iter().any(|note| note.contains("iodyno's own test data")),
        "{:?}",
        again.notes
    );
    // Part of it, and more than there is.
    assert_eq!(inspected(&format!("{}?size=1MiB", disk.node)).size_bytes, Some(MIB));
    let beyond = inspect(&name(&format!("{}?size=65MiB", disk.node)));
    assert!(matches!(beyond, Err(TargetError::Unsupported { .. })), "{beyond:?}");
}

#[test]
#[ignore = "needs root and loop devices"]
fn read_only_can_t_write() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let disk = Loop::on(&blank(dir.path(), "disk"), &[]);
    run("mkfs.ext4", &["-q", &disk.node]);
    let opened = open(&name(&disk.node), &OpenOptions::read_only()).unwrap();
    assert_eq!(write_block(&opened, 7).unwrap_err().raw_os_error(), Some(9), "EBADF");
    drop(opened);
    // A device that is set read-only can be read, and no name lifts that.
    let locked = Loop::on(&blank(dir.path(), "locked"), &["--read-only"]);
    assert_eq!(codes(&locked.node), [RefusalCode::ReadOnly]);
    is_refused(open(&name(&locked.node), &destroy(locked.kernel_name())), RefusalCode::ReadOnly);
    assert!(open(&name(&locked.node), &OpenOptions::read_only()).is_ok());
}

#[test]
#[ignore = "needs root and loop devices"]
fn a_formatted_and_mounted_device_needs_its_own_name() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let disk = Loop::on(&blank(dir.path(), "disk"), &[]);
    run("mkfs.ext4", &["-q", &disk.node]);
    assert_eq!(codes(&disk.node), [RefusalCode::Signature]);
    let point = dir.path().join("a mount point");
    let mount = Mount::at(point.clone(), &[&disk.node]);
    let found = refusals(&disk.node);
    assert_eq!(found[0].code, RefusalCode::Mounted);
    assert!(found[0].found.contains(point.to_str().unwrap()), "{found:?}");
    // Through a link of another name it is still the same device.
    let link = dir.path().join("harmless.img");
    std::os::unix::fs::symlink(&disk.node, &link).unwrap();
    assert_eq!(codes(link.to_str().unwrap())[0], RefusalCode::Mounted);
    for wrong in ["", "loop", "/dev/loop", "disk", &format!("{}p1", disk.kernel_name())] {
        is_refused(open(&name(&disk.node), &destroy(wrong)), RefusalCode::Mounted);
    }
    drop(mount);
    is_refused(open(&name(&disk.node), &OpenOptions::read_write()), RefusalCode::Signature);
    for right in [disk.kernel_name(), &disk.node] {
        let opened = open(&name(&disk.node), &destroy(right)).unwrap();
        assert_eq!(
            opened.lifted.iter().map(|r| r.code).collect::<Vec<_>>(),
            [RefusalCode::Signature]
        );
    }
    let opened = open(&name(&disk.node), &destroy(disk.kernel_name())).unwrap();
    assert_eq!(write_block(&opened, 0).unwrap(), 4096);
    drop(opened);
    // The superblock is overwritten: the confirmation took effect. The rest is still there.
    assert_eq!(codes(&disk.node), [RefusalCode::HoldsData]);
}

/// Plain dm-crypt, archives and databases on raw devices have no signature, nor do file systems whose first superblock
/// is damaged.
#[test]
#[ignore = "needs root and loop devices"]
fn data_that_no_signature_names_is_refused_wherever_it_lies() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk");
    let size = 400 * MIB;
    let file = FileOptions::new().create(true).truncate(true).write(true).open(&image).unwrap();
    let anew = |place: u64, bytes: &[u8]| {
        file.set_len(0).unwrap();
        file.set_len(size).unwrap();
        file.write_all_at(bytes, place).unwrap();
    };
    let noise: Vec<u8> = (1..=128_u64 << 10).flat_map(|i| (i * i).to_le_bytes()).collect();
    for (what, place, bytes) in [
        ("compress", 0, b"\x1f\x9d\x90something".as_slice()),
        ("LVM1", 0, b"HM\x01\x00"),
        ("promise", size - 63 * 512, b"Promise Technology, Inc."),
        ("from 2 MiB on", 2 * MIB, &noise),
        ("at the end", size - MIB, &noise),
        ("one sector at either end", 4 * MIB - 512, &[1]),
    ] {
        anew(place, bytes);
        let disk = Loop::on(&image, &[]);
        let found = refusals(&disk.node);
        assert_eq!(found.len(), 1, "{what}: {found:?}");
        assert_eq!(found[0].code, RefusalCode::HoldsData, "{what}");
        let first = bytes.iter().position(|&byte| byte != 0).unwrap() as u64 / 512 * 512;
        assert!(found[0].found.contains(&format!("at byte {} ", place + first)), "{found:?}");
        is_refused(open(&name(&disk.node), &OpenOptions::read_write()), RefusalCode::HoldsData);
        assert!(open(&name(&disk.node), &destroy(disk.kernel_name())).is_ok(), "{what}");
        assert!(open(&name(&disk.node), &OpenOptions::read_only()).is_ok(), "{what}");
    }
    // Damaged, and to be rescued from its backups.
    for (tool, flags, wiped) in
        [("mkfs.ext4", ["-q", "-F"], 0..MIB), ("mkfs.xfs", ["-q", "-f"], 0..4096)]
    {
        anew(0, &[]);
        if Command::new(tool).args(flags).arg(&image).output().is_err() {
            println!("left out: there is no {tool}");
            continue;
        }
        file.write_all_at(&vec![0; (wiped.end - wiped.start) as usize], wiped.start).unwrap();
        let disk = Loop::on(&image, &[]);
        assert_eq!(codes(&disk.node), [RefusalCode::HoldsData], "{tool}");
    }
}

#[test]
#[ignore = "needs root and loop devices"]
fn no_name_lifts_a_mount() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let disk = Loop::on(&blank(dir.path(), "disk"), &[]);
    run("mkfs.ext4", &["-q", &disk.node]);
    let _mount = Mount::at(dir.path().join("m"), &[&disk.node]);
    let result = open(&name(&disk.node), &destroy(disk.kernel_name()));
    let text = result.as_ref().map_or_else(ToString::to_string, |_| String::new());
    assert!(
        text.contains("umount") && !text.contains("confirm with the target's own name"),
        "{text}"
    );
    is_refused(result, RefusalCode::Mounted);
}

#[test]
#[ignore = "needs root and loop devices"]
fn a_partition_in_use_protects_the_whole_disk() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let image = blank(dir.path(), "disk");
    // An MBR with one partition of type 83h: 32768 sectors from 2048 on.
    let mut sector = [0; 512];
    sector[446 + 4] = 0x83;
    sector[446 + 8..446 + 12].copy_from_slice(&2048_u32.to_le_bytes());
    sector[446 + 12..446 + 16].copy_from_slice(&32_768_u32.to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xAA]);
    FileOptions::new().write(true).open(&image).unwrap().write_all_at(&sector, 0).unwrap();
    let disk = Loop::on(&image, &[]);
    assert_eq!(codes(&disk.node), [RefusalCode::PartitionTable]);
    let first = Partition::on(&disk, 2048, 32_768);
    let partition = first.node();
    run("mkfs.ext4", &["-q", &partition]);
    let mount = Mount::at(dir.path().join("m"), &[&partition]);
    let found = refusals(&disk.node);
    assert_eq!(found[0].code, RefusalCode::Mounted);
    assert!(found[0].found.starts_with("Its partition loop"), "{found:?}");
    assert_eq!(codes(&partition), [RefusalCode::Mounted, RefusalCode::Signature]);
    let device = inspected(&partition).device.unwrap();
    assert_eq!(device.partition_of.as_deref(), Some(disk.kernel_name()));
    assert_eq!(device.size_bytes, Some(16 * MIB));
    drop(mount);
    // Held without a mount: only the exclusive opening shows it.
    let _held = FileOptions::new().read(true).custom_flags(O_EXCL).open(&partition).unwrap();
    let found = refusals(&disk.node);
    assert_eq!(found[0].code, RefusalCode::Held);
    assert!(found[0].found.starts_with("Its partition loop"), "{found:?}");
}

#[test]
#[ignore = "needs root and loop devices"]
fn a_device_that_is_open_elsewhere() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let disk = Loop::on(&blank(dir.path(), "disk"), &[]);
    let held = FileOptions::new().read(true).custom_flags(O_EXCL).open(&disk.node).unwrap();
    assert_eq!(codes(&disk.node), [RefusalCode::Held]);
    is_refused(open(&name(&disk.node), &destroy(&disk.node)), RefusalCode::Held);
    drop(held);
    assert_eq!(codes(&disk.node), []);
    // A process that has it open for writing without claiming it, as a virtual machine does.
    let open_by = |redirection: &str| {
        let script = format!("exec 3{redirection}{}; echo; exec sleep 1000", disk.node);
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut word = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut word).unwrap();
        Ended(child)
    };
    let reader = open_by("<");
    assert_eq!(codes(&disk.node), []);
    drop(reader);
    let child = open_by("<>");
    let found = refusals(&disk.node);
    assert_eq!(found[0].code, RefusalCode::OpenElsewhere);
    assert!(found[0].found.contains(&format!("process {}", child.0.id())), "{found:?}");
    drop(child);
    // Claimed between the guard's check and the opening.
    let inspection = inspected(&disk.node);
    let held = FileOptions::new().read(true).custom_flags(O_EXCL).open(&disk.node).unwrap();
    is_refused(open_inspected(inspection, &OpenOptions::read_write()), RefusalCode::Held);
    drop(held);
    // A name that lifts something else does not lift that.
    run("mkfs.ext4", &["-q", &disk.node]);
    let inspection = inspected(&disk.node);
    let held = FileOptions::new().read(true).custom_flags(O_EXCL).open(&disk.node).unwrap();
    is_refused(open_inspected(inspection, &destroy(&disk.node)), RefusalCode::Held);
    drop(held);
}

/// Starts a shell that keeps a mount in its own namespace.
fn mounted_in_a_namespace(dir: &Path, mount: &str) -> Ended {
    let point = dir.join("m");
    let script = format!(
        "mount --make-rprivate / && {mount} {} && echo && exec sleep 1000",
        point.display()
    );
    std::fs::create_dir_all(&point).unwrap();
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    Ended(child)
}

/// A volume of a container is mounted in another namespace, so this process's own mount table does not show it.
#[test]
#[ignore = "needs root and loop devices"]
fn no_name_lifts_a_mount_of_another_namespace() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let image = blank(dir.path(), "disk");
    let disk = Loop::on(&image, &[]);
    run("mkfs.ext4", &["-q", &disk.node]);
    let upper = Loop::on(Path::new(&disk.node), &[]);
    let twin = Loop::on(&image, &[]);
    let all = |code| {
        for (target, own) in [
            (disk.node.as_str(), disk.kernel_name()),
            (image.to_str().unwrap(), "disk"),
            (&upper.node, upper.kernel_name()),
            (&twin.node, twin.kernel_name()),
        ] {
            assert_eq!(codes(target)[0], code, "{target}: {:?}", refusals(target));
            is_refused(open(&name(target), &destroy(own)), code);
        }
    };
    let child = mounted_in_a_namespace(dir.path(), &format!("mount {}", disk.node));
    all(RefusalCode::Mounted);
    let found = refusals(&disk.node)[0].found.clone();
    assert!(found.contains(&format!("(process {})", child.0.id())), "{found}");
    // The namespace is kept by a file: no process shows the mount, and the kernel holds the device.
    let kept = Mount::at(dir.path().join("namespaces"), &["--bind", dir.path().to_str().unwrap()]);
    run("mount", &["--make-private", kept.0.to_str().unwrap()]);
    let file = kept.0.join("namespace");
    std::fs::write(&file, []).unwrap();
    let namespace = format!("/proc/{}/ns/mnt", child.0.id());
    let file_mount = MountedFile::on(&namespace, &file);
    drop(child);
    all(RefusalCode::Held);
    drop((file_mount, kept));
}

/// A file on which another file is mounted; unmounted on drop.
struct MountedFile<'a>(&'a Path);

impl<'a> MountedFile<'a> {
    fn on(source: &str, file: &'a Path) -> Self {
        run("mount", &["--bind", source, file.to_str().unwrap()]);
        Self(file)
    }
}

impl Drop for MountedFile<'_> {
    fn drop(&mut self) {
        run("umount", &[self.0.to_str().unwrap()]);
    }
}

/// At most one of these can be open at a time: a file, a loop device on it, a second one on the same file, and a loop
/// device on the first.
#[test]
#[ignore = "needs root and loop devices"]
fn what_is_below_a_loop_device_is_used_once() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ours");
    let file = format!("{}?size=64MiB", path.display());
    let mut opened = open(&name(&file), &OpenOptions::read_write()).unwrap();
    lay_out(&mut opened, &mut |buf, _| buf.fill(0), &mut |_, _| ControlFlow::Continue(())).unwrap();
    // Attached while the file is in use.
    let disk = Loop::on(&path, &[]);
    let upper = Loop::on(Path::new(&disk.node), &[]);
    let twin = Loop::on(&path, &[]);
    let devices = [&disk, &upper, &twin];
    let refused = |device: &Loop| {
        let found = codes(&device.node);
        assert_eq!(found[0], RefusalCode::Held, "{}: {:?}", device.node, refusals(&device.node));
        is_refused(open(&name(&device.node), &destroy(device.kernel_name())), RefusalCode::Held);
    };
    devices.into_iter().for_each(refused);
    drop(opened);
    // A virtual machine locks parts of its disk.
    let script = format!(
        "import fcntl,time;f=open('{}','r+b');fcntl.lockf(f,fcntl.LOCK_EX,1,100);print(flush=True);time.sleep(1000)",
        path.display()
    );
    let mut python = Command::new("python3");
    python.args(["-c", &script]).stdout(std::process::Stdio::piped());
    let mut machine = Ended(python.spawn().unwrap());
    std::io::Read::read_exact(machine.0.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    devices.into_iter().for_each(refused);
    drop(machine);
    for (device, others) in
        [(&disk, [&upper, &twin]), (&upper, [&disk, &twin]), (&twin, [&disk, &upper])]
    {
        let opened = open(&name(&device.node), &destroy(device.kernel_name())).unwrap();
        others.into_iter().for_each(refused);
        assert_eq!(codes(&file)[0], RefusalCode::Held, "{:?}", refusals(&file));
        is_refused(open(&name(&file), &destroy("ours")), RefusalCode::Held);
        drop(opened);
    }
    // At the same time.
    for (first, second) in [(&disk, &twin), (&upper, &twin)].repeat(5) {
        let start = Barrier::new(2);
        let open_at_once = |device: &Loop| {
            let (name, options) = (name(&device.node), destroy(device.kernel_name()));
            start.wait();
            open(&name, &options)
        };
        let both = std::thread::scope(|scope| {
            let second = scope.spawn(|| open_at_once(second));
            [open_at_once(first), second.join().unwrap()]
        });
        assert!(
            both.iter().any(Result::is_err),
            "both are open: {} and {}",
            first.node,
            second.node
        );
    }
    assert!(open(&name(&file), &destroy("ours")).is_ok());
    assert!(write_block(&open(&name(&disk.node), &destroy(&disk.node)).unwrap(), 7).is_ok());
}

/// The kernel shows the path by which a backing file was attached. This path may be gone, or lead to another file.
#[test]
#[ignore = "needs root and loop devices"]
fn a_loop_device_is_recognised_by_the_file_itself() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let image = blank(dir.path(), "disk");
    let here = Mount::at(dir.path().join("here"), &["--bind", dir.path().to_str().unwrap()]);
    let disk = Loop::on(&here.0.join("disk"), &[]);
    run("umount", &["--lazy", here.0.to_str().unwrap()]);
    std::mem::forget(here);
    assert!(codes(image.to_str().unwrap()).contains(&RefusalCode::Member));
    drop(disk);
}

/// The kernel reports a file's writers only to the owner of the file. Other users search the processes in `/proc`.
#[test]
#[ignore = "needs root"]
fn a_file_of_another_user_that_is_open_for_writing() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shared");
    std::fs::write(&path, [0; 4096]).unwrap();
    for (path, mode) in [(dir.path(), 0o755), (&*path, 0o666)] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let nobody = 65_534;
    let codes_for_nobody = || {
        let seen = std::thread::scope(|scope| {
            let inspection = scope.spawn(|| {
                // Affects only this thread.
                let uid = rustix::process::Uid::from_raw(nobody);
                rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
                codes(path.to_str().unwrap())
            });
            inspection.join()
        });
        seen.unwrap()
    };
    let open_by = |redirection: &str| {
        let script = format!("exec 3{redirection}{}; echo; exec sleep 1000", path.display());
        let mut command = Command::new("sh");
        command.args(["-c", &script]).uid(nobody).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        Ended(child)
    };
    let reader = open_by("<");
    assert_eq!(codes_for_nobody(), [RefusalCode::ForeignFile]);
    drop(reader);
    let _writer = open_by("<>");
    let both = [RefusalCode::OpenElsewhere, RefusalCode::ForeignFile];
    assert!(codes_for_nobody().iter().all(|code| both.contains(code)));
    assert!(codes_for_nobody().contains(&RefusalCode::OpenElsewhere));
}

#[test]
#[ignore = "needs root and loop devices"]
fn a_format_after_the_inspection_is_seen_through_the_descriptor() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let disk = Loop::on(&blank(dir.path(), "disk"), &[]);
    let inspection = inspected(&disk.node);
    run("mkfs.ext4", &["-q", &disk.node]);
    is_refused(open_inspected(inspection, &OpenOptions::read_write()), RefusalCode::Signature);
}

#[test]
#[ignore = "needs root and loop devices"]
fn swap_is_refused_as_device_and_as_file() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("swap");
    std::fs::write(&image, vec![0; 16 << 20]).unwrap();
    let disk = Loop::on(&image, &[]);
    run("mkswap", &[&disk.node]);
    run("swapon", &[&disk.node]);
    let found = codes(&disk.node);
    run("swapoff", &[&disk.node]);
    assert_eq!(found, [RefusalCode::Swap, RefusalCode::Signature]);
    drop(disk);
    std::fs::set_permissions(&image, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    run("swapon", &[image.to_str().unwrap()]);
    let found = codes(image.to_str().unwrap());
    run("swapoff", &[image.to_str().unwrap()]);
    assert_eq!(found, [RefusalCode::Swap, RefusalCode::Signature, RefusalCode::ForeignFile]);
}

#[test]
#[ignore = "needs root and loop devices"]
fn a_file_below_a_loop_device_and_its_twin() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ours");
    let target = format!("{}?size=64MiB", path.display());
    let mut opened = open(&name(&target), &OpenOptions::read_write()).unwrap();
    lay_out(&mut opened, &mut |buf, _| buf.fill(0), &mut |_, _| ControlFlow::Continue(())).unwrap();
    drop(opened);
    assert_eq!(codes(&target), []);
    let disk = Loop::on(&path, &[]);
    assert_eq!(codes(&target), [RefusalCode::Member]);
    // Another loop device on the same file would write below the first one's mount.
    run("mkfs.ext4", &["-q", &disk.node]);
    let _mount = Mount::at(dir.path().join("m"), &[&disk.node]);
    let twin = Loop::on(&path, &[]);
    let found = refusals(&twin.node);
    assert_eq!(
        found.iter().map(|r| r.code).collect::<Vec<_>>(),
        [RefusalCode::Mounted, RefusalCode::Member, RefusalCode::Signature]
    );
    assert!(found[0].found.contains("mounted at"), "{found:?}");
    // A loop device on the device.
    let upper = Loop::on(Path::new(&disk.node), &[]);
    assert!(codes(&disk.node).contains(&RefusalCode::Member));
    assert_eq!(codes(&upper.node)[0], RefusalCode::Mounted);
}

/// A file backs a loop device. On this device, a second loop device or its partition is mounted or used as swap space.
#[test]
#[ignore = "needs root and loop devices"]
fn no_name_lifts_what_a_loop_device_on_a_loop_device_carries() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let image = blank(dir.path(), "img");
    let lower = Loop::on(&image, &[]);
    let upper = Loop::on(Path::new(&lower.node), &[]);
    let all = |code| {
        let lower = (lower.node.as_str(), lower.kernel_name().to_owned());
        for (target, own) in [lower, (image.to_str().unwrap(), "img".to_owned())] {
            assert_eq!(codes(target)[0], code, "{target}: {:?}", refusals(target));
            is_refused(open(&name(target), &destroy(&own)), code);
        }
    };
    run("mkfs.ext4", &["-q", &upper.node]);
    let mount = Mount::at(dir.path().join("m"), &[&upper.node]);
    all(RefusalCode::Mounted);
    drop(mount);
    run("mkswap", &[&upper.node]);
    run("swapon", &[&upper.node]);
    let found = [codes(image.to_str().unwrap())[0], codes(&lower.node)[0]];
    run("swapoff", &[&upper.node]);
    assert_eq!(found, [RefusalCode::Swap; 2]);
    let first = Partition::on(&upper, 2048, 32_768);
    run("mkfs.ext4", &["-q", &first.node()]);
    let mount = Mount::at(dir.path().join("m"), &[&first.node()]);
    all(RefusalCode::Mounted);
    // A second loop device on the file writes below that mount.
    let twin = Loop::on(&image, &[]);
    assert_eq!(codes(&twin.node)[0], RefusalCode::Mounted);
    drop(mount);
    assert_eq!(codes(image.to_str().unwrap())[0], RefusalCode::Member);
}

/// Loop devices on one file are the same storage only if they show the same range of the file.
#[test]
#[ignore = "needs root and loop devices"]
fn loop_devices_are_identified_by_what_they_show() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let image = blank(dir.path(), "img");
    let id = |flags: &[&str]| {
        inspected(&Loop::on(&image, flags).node).device.unwrap().lasting_id.unwrap()
    };
    let whole = id(&[]);
    assert_eq!(whole, id(&[]), "attached anew it is the same");
    assert_ne!(whole, id(&["--offset", "1MiB"]));
    assert_ne!(whole, id(&["--sizelimit", "1MiB"]));
    let disk = Loop::on(&image, &[]);
    let first = Partition::on(&disk, 2048, 32_768);
    assert_eq!(
        inspected(&first.node()).device.unwrap().lasting_id.unwrap(),
        format!("{whole} partition 1 from sector 2048")
    );
}

/// The device with the running system is always refused, whatever is confirmed. Skipped if `/` is not on a device. The
/// test only inspects the device, and never opens it for writing.
#[test]
#[ignore = "needs root"]
fn the_system_disk_is_refused() {
    let _alone = alone();
    let root = inspect(&name("/?size=1MiB"));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = mounts.lines().find(|line| line.split(' ').nth(4) == Some("/")).unwrap();
    let source = line.split(" - ").nth(1).and_then(|right| right.split(' ').nth(1)).unwrap();
    assert!(root.is_ok());
    if !source.starts_with("/dev/") || !Path::new(source).exists() {
        println!("skipped: / is on {source}");
        return;
    }
    let inspection = inspected(source);
    let found = check_writable(&inspection, &SysRoot::real());
    assert_eq!(found[0].code, RefusalCode::SystemDisk);
    let own_name = inspection.device.as_ref().unwrap().kernel_name.clone();
    let confirmed = iodyno_targets::confirm(&inspection, found, &Confirm(vec![own_name]));
    assert!(matches!(confirmed, Err(TargetError::Refused(_))), "{confirmed:?}");
}
