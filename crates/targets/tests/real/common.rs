//! Loop devices, partitions and mounts that are undone when a test ends, however it ends.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::Duration;

use iodyno_targets::{
    Confirm, Inspection, OpenOptions, Opened, Refusal, RefusalCode, SysRoot, TargetError,
    TargetName, check_writable, inspect,
};

pub(crate) const MIB: u64 = 1 << 20;
/// The flag that claims a block device, when it is opened without `O_CREAT`.
pub(crate) const O_EXCL: i32 = rustix::fs::OFlags::EXCL.bits() as i32;

/// Lets one test run at a time, until the returned file is dropped. Tests would disturb each other: `losetup --find`
/// opens every loop device on its way, and a child process holds its parent's descriptors while it starts.
pub(crate) fn alone() -> File {
    let lock = File::open(std::env::current_exe().unwrap()).unwrap();
    lock.lock().unwrap();
    lock
}

fn tried(program: &str, args: &[&str]) -> Output {
    Command::new(program)
        .args(args)
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"))
}

pub(crate) fn run(program: &str, args: &[&str]) -> String {
    let output = tried(program, args);
    assert!(
        output.status.success(),
        "{program} {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Runs a command that undoes a setup. Repeats it for up to 2 s, because udev's probe may hold the device for a moment.
fn undo(program: &str, args: &[&str]) {
    for _ in 0..100 {
        if tried(program, args).status.success() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{program} {args:?} fails for two seconds");
}

/// A loop device, which is detached on drop.
pub(crate) struct Loop {
    pub(crate) node: String,
}

impl Loop {
    pub(crate) fn on(file: &Path, extra: &[&str]) -> Self {
        let args = [&["--find", "--show"], extra, &[file.to_str().unwrap()]].concat();
        Self { node: run("losetup", &args) }
    }

    pub(crate) fn kernel_name(&self) -> &str {
        self.node.strip_prefix("/dev/").unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        undo("losetup", &["--detach", &self.node]);
    }
}

/// A partition, which is removed on drop. Otherwise the kernel would keep it when its loop device is detached.
pub(crate) struct Partition<'a>(&'a Loop);

impl<'a> Partition<'a> {
    /// Announces partition 1 to the kernel. Does not rely on the kernel's own scan, because not every kernel can read
    /// every partition table or scans loop devices.
    pub(crate) fn on(disk: &'a Loop, first_sector: u32, sectors: u32) -> Self {
        run("addpart", &[&disk.node, "1", &first_sector.to_string(), &sectors.to_string()]);
        Self(disk)
    }

    pub(crate) fn node(&self) -> String {
        format!("{}p1", self.0.node)
    }
}

impl Drop for Partition<'_> {
    fn drop(&mut self) {
        undo("delpart", &[&self.0.node, "1"]);
    }
}

/// A mount, which is undone on drop.
pub(crate) struct Mount(pub(crate) PathBuf);

impl Mount {
    pub(crate) fn at(point: PathBuf, args: &[&str]) -> Self {
        std::fs::create_dir_all(&point).unwrap();
        run("mount", &[args, &[point.to_str().unwrap()]].concat());
        Self(point)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        undo("umount", &[self.0.to_str().unwrap()]);
    }
}

/// A child process, which is killed on drop.
pub(crate) struct Ended(pub(crate) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

pub(crate) fn blank(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    File::create(&path).unwrap().set_len(64 * MIB).unwrap();
    path
}

pub(crate) fn name(text: &str) -> TargetName {
    TargetName::parse(text).unwrap()
}

pub(crate) fn inspected(node: &str) -> Inspection {
    inspect(&name(node)).unwrap()
}

pub(crate) fn refusals(node: &str) -> Vec<Refusal> {
    check_writable(&inspected(node), &SysRoot::real())
}

pub(crate) fn codes(node: &str) -> Vec<RefusalCode> {
    refusals(node).into_iter().map(|refusal| refusal.code).collect()
}

pub(crate) fn destroy(given: &str) -> OpenOptions {
    OpenOptions { confirm: Confirm(vec![given.to_owned()]), ..OpenOptions::read_write() }
}

pub(crate) fn is_refused(result: Result<Opened, TargetError>, code: RefusalCode) {
    match result {
        Err(TargetError::Refused(refused)) => {
            assert!(refused.refusals.iter().any(|refusal| refusal.code == code), "{refused}");
        }
        other => panic!("{other:?}"),
    }
}

/// Writes 4 KiB of `byte` at the start, marked as iodyno's, through the page-aligned part of a larger
/// buffer.
pub(crate) fn write_block(opened: &Opened, byte: u8) -> std::io::Result<usize> {
    let mut buf = vec![byte; 12 << 10];
    let start = buf.as_ptr().align_offset(4096);
    for sector in buf[start..start + 4096].chunks_mut(512) {
        sector[..16].copy_from_slice(&iodyno_units::mark::mark(byte.into()));
    }
    let file = File::from(opened.fd.try_clone()?);
    file.write_at(&buf[start..start + 4096], 0)
}
