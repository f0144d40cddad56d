//! Guards and faults on real loop devices, mounts and swap. They need root, so they are ignored
//! unless asked for: `cargo test -p iodyno-target -- --ignored`. Only loop devices over files in a
//! temporary folder are written.

use std::fs::{File, OpenOptions as FileOptions};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use iodyno_target::{
    Confirm, Inspection, LayOut, Marker, OpenOptions, Opened, Refusal, RefusalCode, SysRoot, TargetError,
    TargetName, check_writable, inspect, lay_out, open, open_inspected,
};

const MIB: u64 = 1 << 20;
/// What claims a block device, when it is opened without `O_CREAT`.
const O_EXCL: i32 = rustix::fs::OFlags::EXCL.bits() as i32;

/// Lets one test at a time go on: `losetup --find` opens every loop device on its way, and a child
/// process that is just being started holds its parent's descriptors.
fn alone() -> File {
    let lock = File::open(std::env::current_exe().unwrap()).unwrap();
    lock.lock().unwrap();
    lock
}

fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A loop device that is detached again.
struct Loop {
    node: String,
}

impl Loop {
    fn on(file: &Path, extra: &[&str]) -> Self {
        let args = [&["--find", "--show"], extra, &[file.to_str().unwrap()]].concat();
        Self { node: run("losetup", &args) }
    }

    fn kernel_name(&self) -> &str {
        self.node.strip_prefix("/dev/").unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        run("losetup", &["--detach", &self.node]);
    }
}

/// A partition that is removed again; the kernel keeps it when its loop device is detached.
struct Partition<'a>(&'a Loop);

impl<'a> Partition<'a> {
    /// Tells the kernel of partition 1, as its own scan would: not every kernel is built to read
    /// every table, nor scans loop devices.
    fn on(disk: &'a Loop, first_sector: u32, sectors: u32) -> Self {
        run("addpart", &[&disk.node, "1", &first_sector.to_string(), &sectors.to_string()]);
        Self(disk)
    }

    fn node(&self) -> String {
        format!("{}p1", self.0.node)
    }
}

impl Drop for Partition<'_> {
    fn drop(&mut self) {
        run("delpart", &[&self.0.node, "1"]);
    }
}

/// A mount that is undone again.
struct Mount(PathBuf);

impl Mount {
    fn at(point: PathBuf, args: &[&str]) -> Self {
        std::fs::create_dir_all(&point).unwrap();
        run("mount", &[args, &[point.to_str().unwrap()]].concat());
        Self(point)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        run("umount", &[self.0.to_str().unwrap()]);
    }
}

/// A child process that is ended again.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn blank(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    File::create(&path).unwrap().set_len(64 * MIB).unwrap();
    path
}

fn name(text: &str) -> TargetName {
    TargetName::parse(text).unwrap()
}

fn look(node: &str) -> Inspection {
    inspect(&name(node)).unwrap()
}

fn refusals(node: &str) -> Vec<Refusal> {
    check_writable(&look(node), &SysRoot::real())
}

fn codes(node: &str) -> Vec<RefusalCode> {
    refusals(node).into_iter().map(|refusal| refusal.code).collect()
}

fn destroy(given: &str) -> OpenOptions {
    OpenOptions { confirm: Confirm(vec![given.to_owned()]), ..OpenOptions::read_write() }
}

fn is_refused(result: Result<Opened, TargetError>, code: RefusalCode) {
    match result {
        Err(TargetError::Refused(refused)) => {
            assert!(refused.refusals.iter().any(|refusal| refusal.code == code), "{refused}");
        }
        other => panic!("{other:?}"),
    }
}

/// Writes 4 KiB of `byte` at the start, through the page-aligned part of a larger buffer.
fn write_block(opened: &Opened, byte: u8) -> std::io::Result<usize> {
    let buf = vec![byte; 12 << 10];
    let start = buf.as_ptr().align_offset(4096);
    let file = File::from(opened.fd.try_clone()?);
    file.write_at(&buf[start..start + 4096], 0)
}

#[test]
#[ignore = "needs root and loop devices"]
fn a_blank_device_is_allowed_and_claimed() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let image = blank(dir.path(), "disk");
    let disk = Loop::on(&image, &["--direct-io=on"]);
    let found = look(&disk.node);
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
    // While it is ours, nobody else gets it, and nobody can mount it.
    is_refused(open(&name(&disk.node), &OpenOptions::read_write()), RefusalCode::OpenElsewhere);
    assert!(open(&name(&disk.node), &OpenOptions::read_only()).is_ok());
    drop(opened);
    // What was written is no signature; it is remarked on, and allowed.
    let again = look(&disk.node);
    assert_eq!(check_writable(&again, &SysRoot::real()), []);
    assert!(again.notes.iter().any(|note| note.contains("not all zeroes")), "{:?}", again.notes);
    // Part of it, and more than there is.
    assert_eq!(look(&format!("{}?size=1MiB", disk.node)).size_bytes, Some(MIB));
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
        assert_eq!(opened.lifted.iter().map(|r| r.code).collect::<Vec<_>>(), [RefusalCode::Signature]);
    }
    let opened = open(&name(&disk.node), &destroy(disk.kernel_name())).unwrap();
    assert_eq!(write_block(&opened, 0).unwrap(), 4096);
    drop(opened);
    // The superblock is overwritten: the confirmation did what it said.
    assert_eq!(codes(&disk.node), []);
}

#[test]
#[ignore = "needs root and loop devices"]
fn a_mounted_device_can_be_confirmed_away() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let disk = Loop::on(&blank(dir.path(), "disk"), &[]);
    run("mkfs.ext4", &["-q", &disk.node]);
    let _mount = Mount::at(dir.path().join("m"), &[&disk.node]);
    let opened = open(&name(&disk.node), &destroy(disk.kernel_name())).unwrap();
    let lifted: Vec<_> = opened.lifted.iter().map(|refusal| refusal.code).collect();
    assert_eq!(lifted, [RefusalCode::Mounted, RefusalCode::Signature]);
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
    let device = look(&partition).device.unwrap();
    assert_eq!(device.partition_of.as_deref(), Some(disk.kernel_name()));
    assert_eq!(device.size_bytes, Some(16 * MIB));
    drop(mount);
    // Held without a mount: only the exclusive opening shows it.
    let _held = FileOptions::new().read(true).custom_flags(O_EXCL).open(&partition).unwrap();
    let found = refusals(&disk.node);
    assert_eq!(found.last().unwrap().code, RefusalCode::OpenElsewhere);
    assert!(found.last().unwrap().found.starts_with("Its partition loop"), "{found:?}");
}

#[test]
#[ignore = "needs root and loop devices"]
fn a_device_that_is_open_elsewhere() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let disk = Loop::on(&blank(dir.path(), "disk"), &[]);
    let held = FileOptions::new().read(true).custom_flags(O_EXCL).open(&disk.node).unwrap();
    assert_eq!(codes(&disk.node), [RefusalCode::OpenElsewhere]);
    is_refused(open(&name(&disk.node), &OpenOptions::read_write()), RefusalCode::OpenElsewhere);
    let opened = open(&name(&disk.node), &destroy(&disk.node)).unwrap();
    assert_eq!(opened.lifted[0].code, RefusalCode::OpenElsewhere);
    drop((held, opened));
    assert_eq!(codes(&disk.node), []);
    // A process that has it open for writing without claiming it, as a virtual machine does.
    let script = format!("exec 3<>{}; echo; exec sleep 1000", disk.node);
    let mut child = Command::new("sh").args(["-c", &script]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut word = [0];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut word).unwrap();
    let child = Ended(child);
    let found = refusals(&disk.node);
    assert_eq!(found[0].code, RefusalCode::OpenElsewhere);
    assert!(found[0].found.contains(&format!("process {}", child.0.id())), "{found:?}");
    drop(child);
    // Claimed in the moment between the guard's look and the opening.
    let inspection = look(&disk.node);
    let held = FileOptions::new().read(true).custom_flags(O_EXCL).open(&disk.node).unwrap();
    is_refused(open_inspected(inspection, &OpenOptions::read_write()), RefusalCode::OpenElsewhere);
    drop(held);
}

#[test]
#[ignore = "needs root and loop devices"]
fn what_was_formatted_after_the_inspection_is_seen_through_the_descriptor() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let disk = Loop::on(&blank(dir.path(), "disk"), &[]);
    let inspection = look(&disk.node);
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
    assert_eq!(found.iter().map(|r| r.code).collect::<Vec<_>>(), [RefusalCode::Member, RefusalCode::Signature]);
    assert!(found[0].found.contains("mounted at"), "{found:?}");
    // A loop device on the device.
    let upper = Loop::on(Path::new(&disk.node), &[]);
    assert!(codes(&disk.node).contains(&RefusalCode::Member));
    assert_eq!(codes(&upper.node)[0], RefusalCode::Mounted);
}

fn fill(buf: &mut [u8], _offset: u64) {
    buf.fill(0xA5);
}

fn go_on(_done: u64, _total: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// On a file system of 64 MiB: a new file that does not fit leaves nothing, an old one that can't
/// grow stays as it was, scratch space says what it lacks.
fn fill_up(point: &Path) {
    let before = names(point);
    let at = |rest: &str| name(&format!("{}/{rest}", point.display()));
    let no_space = |target: &TargetName| {
        let mut opened = open(target, &OpenOptions::read_write()).unwrap();
        match lay_out(&mut opened, &mut fill, &mut go_on) {
            Err(error @ TargetError::NoSpace { wanted_bytes, free_bytes, .. }) => {
                assert!(wanted_bytes > free_bytes && free_bytes > 0, "{error}");
                assert!(free_bytes <= 64 * MIB, "{error}");
            }
            other => panic!("{other:?}"),
        }
    };
    no_space(&at("t?size=128MiB"));
    assert_eq!(names(point), before);
    let mut opened = open(&at("t?size=16MiB"), &OpenOptions::read_write()).unwrap();
    lay_out(&mut opened, &mut fill, &mut go_on).unwrap();
    drop(opened);
    no_space(&at("t?size=128MiB"));
    let kept = inspect(&at("t")).unwrap();
    assert_eq!((kept.whole_bytes, kept.marker), (Some(16 * MIB), Some(Marker::LaidOut(16 * MIB))));
    assert!(std::fs::read(point.join("t")).unwrap() == vec![0xA5; 16 << 20]);
    for scratch in ["scratch:", "scratch:128MiB"] {
        let result = inspect(&name(&format!("{scratch}@{}", point.display())));
        assert!(matches!(result, Err(TargetError::NoSpace { .. })), "{result:?}");
    }
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
    // The mark lies beside the file, and vouches for it in the next run.
    assert_eq!(names(&mount.0), ["t", "t.iodyno"]);
    let again = open(&target, &OpenOptions::read_write()).unwrap();
    assert_eq!(again.lay_out, LayOut::Complete);
    drop(again);
    let insisting = name(&format!("{}/t?direct=yes", mount.0.display()));
    let result = open(&insisting, &OpenOptions::read_write());
    assert!(matches!(result, Err(TargetError::Unsupported { .. })), "{result:?}");
    // A file that was to be made and could not be opened as asked is not left behind.
    let fresh = name(&format!("{}/new?size=1MiB&direct=yes", mount.0.display()));
    assert!(open(&fresh, &OpenOptions::read_write()).is_err());
    assert_eq!(names(&mount.0), ["t", "t.iodyno"]);
}

/// The device that this machine runs from, if `/` is on one: never allowed, whatever is confirmed.
/// Only looked at, never opened for writing.
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
    let inspection = look(source);
    let found = check_writable(&inspection, &SysRoot::real());
    assert_eq!(found[0].code, RefusalCode::SystemDisk);
    let own_name = inspection.device.as_ref().unwrap().kernel_name.clone();
    let confirmed = iodyno_target::confirm(&inspection, found, &Confirm(vec![own_name]));
    assert!(matches!(confirmed, Err(TargetError::Refused(_))), "{confirmed:?}");
}
