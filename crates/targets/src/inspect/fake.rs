//! Simulates machines for tests, by folders that stand for `/proc` and `/sys`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::sysroot::SysRoot;

/// Temporary folder with a simulated machine's `/sys` and `/proc`, for tests.
pub(crate) struct Tree {
    dir: tempfile::TempDir,
}

impl Tree {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn root(&self) -> SysRoot {
        SysRoot::at(self.dir.path())
    }

    /// Writes a file and creates its parent folders.
    pub(crate) fn file(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn link(&self, path: &str, to: &str) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(self.dir.path().join(to), path).unwrap();
    }

    /// Adds a block device at `sys/devices/PLACE`, linked by name and by number as in the kernel.
    pub(crate) fn disk(&self, place: &str, dev: &str, sectors: u64) {
        let dir = format!("sys/devices/{place}");
        let name = place.rsplit('/').next().unwrap();
        self.file(&format!("{dir}/dev"), format!("{dev}\n"));
        self.file(&format!("{dir}/size"), format!("{sectors}\n"));
        self.file(&format!("{dir}/ro"), "0\n");
        fs::create_dir_all(self.path(&format!("{dir}/holders"))).unwrap();
        fs::create_dir_all(self.path(&format!("{dir}/slaves"))).unwrap();
        self.link(&format!("sys/class/block/{name}"), &dir);
        self.link(&format!("sys/dev/block/{dev}"), &dir);
    }

    /// Adds partition `number` to the disk whose folder is the parent of `place`.
    pub(crate) fn partition(&self, place: &str, dev: &str, number: u32) {
        self.disk(place, dev, 4096);
        self.file(&format!("sys/devices/{place}/partition"), format!("{number}\n"));
    }

    /// Records that the device `upper` is built on the device `lower`.
    pub(crate) fn stack(&self, upper: &str, lower: &str) {
        let name = |place: &str| place.rsplit('/').next().unwrap().to_owned();
        self.link(
            &format!("sys/devices/{lower}/holders/{}", name(upper)),
            &format!("sys/devices/{upper}"),
        );
        self.link(
            &format!("sys/devices/{upper}/slaves/{}", name(lower)),
            &format!("sys/devices/{lower}"),
        );
    }

    /// Sets the machine's mounts, each as `(device number, mount point, type, source)`.
    pub(crate) fn mounts(&self, mounts: &[(&str, &str, &str, &str)]) {
        let lines = mounts.iter().enumerate().map(|(i, (dev, point, fs_type, source))| {
            format!("{} 1 {dev} / {point} rw,relatime shared:1 - {fs_type} {source} rw\n", i + 20)
        });
        self.file("proc/self/mountinfo", lines.collect::<String>());
    }

    pub(crate) fn swaps(&self, paths: &[&str]) {
        let lines = paths.iter().map(|path| format!("{path}\tpartition\t1000\t0\t-2\n"));
        let header = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n".to_owned();
        self.file("proc/swaps", header + &lines.collect::<String>());
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }
}
