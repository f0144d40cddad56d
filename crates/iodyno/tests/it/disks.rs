//! Loop devices and mounts that are removed when a test ends, even if it panics.

use crate::place::A_MOMENT;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const MIB: u64 = 1 << 20;

/// Lock that allows one test at a time, because `losetup --find` opens every loop device.
pub(crate) fn alone() -> File {
    let lock = File::open(std::env::current_exe().unwrap()).unwrap();
    lock.lock().unwrap();
    lock
}

/// Runs a system tool, which must succeed. Returns its output.
pub(crate) fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A loop device, detached when dropped.
pub(crate) struct Loop {
    /// Path of the device node, such as `/dev/loop0`.
    pub(crate) node: String,
}

impl Loop {
    pub(crate) fn on(file: &Path, flags: &[&str]) -> Self {
        let args = [&["--find", "--show"], flags, &[file.to_str().unwrap()]].concat();
        Self { node: run("losetup", &args) }
    }

    /// Name in the kernel, such as `loop0`.
    pub(crate) fn name(&self) -> &str {
        self.node.strip_prefix("/dev/").unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        run("losetup", &["--detach", &self.node]);
    }
}

/// A mount, unmounted when dropped.
pub(crate) struct Mount(pub(crate) PathBuf);

impl Mount {
    pub(crate) fn at(point: PathBuf, args: &[&str]) -> Self {
        std::fs::create_dir_all(&point).unwrap();
        run("mount", &[args, &[point.to_str().unwrap()]].concat());
        Self(point)
    }
}

impl Drop for Mount {
    /// Retries, because the kernel removes an io_uring a moment after its process has ended, and until then the ring
    /// keeps its files open.
    fn drop(&mut self) {
        let unmounted = || Command::new("umount").arg(&self.0).output().unwrap().status.success();
        let tries = (0..500).find(|_| {
            let done = unmounted();
            if !done {
                std::thread::sleep(A_MOMENT);
            }
            done
        });
        assert!(tries.is_some(), "{} stays mounted", self.0.display());
    }
}

/// A sparse file of zeroes.
pub(crate) fn blank(path: PathBuf, bytes: u64) -> PathBuf {
    File::create(&path).unwrap().set_len(bytes).unwrap();
    path
}

/// A file in which every block has different content.
pub(crate) fn full(path: PathBuf, bytes: u64) -> PathBuf {
    let content: Vec<u8> = (1..=bytes / 8).flat_map(u64::to_le_bytes).collect();
    std::fs::write(&path, content).unwrap();
    path
}
