//! `serve --fuse`: volumes as files, and block devices of a real kernel on top of them.
#![cfg(feature = "fuse")]

use crate::disks::{Loop, MIB, Mount, alone, run};
use crate::place::{Place, Running, names, whole};
use std::fs::{File, OpenOptions};
use std::io::{Error, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// A served folder. The server ends before its test folder is removed.
struct Folder {
    server: Option<Running>,
    place: Place,
}

impl Folder {
    fn of(words: &str) -> Self {
        let place = Place::new();
        std::fs::create_dir(place.path("folder")).unwrap();
        let mut server =
            place.start(&format!("serve {words} --fuse folder --control ctl --no-floor"));
        let status = place.path("folder/status.json");
        server.wait_until("the folder is mounted", || status.exists());
        Self { server: Some(server), place }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path("folder").join(name)
    }

    fn open(&self, name: &str) -> File {
        OpenOptions::new().read(true).write(true).open(self.path(name)).unwrap()
    }

    /// Ends the server by a signal. Afterwards the folder must be empty.
    fn end(mut self) {
        let server = self.server.take().unwrap();
        server.signal(libc::SIGTERM);
        server.finish().succeeds();
        assert_eq!(std::fs::read_dir(self.path("")).unwrap().count(), 0);
    }
}

impl Drop for Folder {
    /// Unmounts the folder; otherwise a failing test leaves a mount.
    fn drop(&mut self) {
        if self.server.take().is_some() {
            let _ = std::process::Command::new("umount").arg("-l").arg(self.path("")).output();
        }
    }
}

fn errno(result: std::io::Result<impl Sized>) -> Option<i32> {
    result.err().and_then(|e: Error| e.raw_os_error())
}

fn punch(file: &File, mode: libc::c_int, at: u64, len: u64) -> std::io::Result<()> {
    // SAFETY: changes the content of a file that is open.
    match unsafe { libc::fallocate(file.as_raw_fd(), mode, at as i64, len as i64) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

fn seek(file: &File, at: u64, whence: libc::c_int) -> Result<u64, Option<i32>> {
    // SAFETY: moves the position of a file that is open.
    match unsafe { libc::lseek(file.as_raw_fd(), at as i64, whence) } {
        to if to >= 0 => Ok(to as u64),
        _ => Err(Error::last_os_error().raw_os_error()),
    }
}

/// A host whose power fails has no open files: operations on files opened before fail from then on, and no flush hides
/// the loss. A file that is opened again works.
#[test]
#[ignore = "needs root and loop devices"]
fn a_power_cut_ends_open_files() {
    let folder = Folder::of("ssd-msata-mlc-128g --dilate 1000");
    let name = "ssd-msata-mlc-128g";
    for fault in [&["power-cut"][..], &["power-off", "power-on"]] {
        let file = folder.open(name);
        file.write_at(&[7; 4096], 0).unwrap();
        for words in fault {
            folder.place.iodyno(&format!("fault {words} --control ctl")).succeeds();
        }
        for _ in 0..2 {
            assert_eq!(errno(file.sync_all()), Some(libc::EIO));
            assert_eq!(errno(file.read_at(&mut [0; 4096], 0)), Some(libc::EIO));
            assert_eq!(errno(file.write_at(&[7; 4096], 0)), Some(libc::EIO));
        }
        let file = folder.open(name);
        file.read_at(&mut [0; 4096], 0).unwrap();
        file.sync_all().unwrap();
    }
    folder.end();
}

/// A server does not mount over another server's mount. A mount left by a killed server is reported with the remedy.
#[test]
#[ignore = "needs root and loop devices"]
fn mounts_of_other_servers_are_recognised() {
    let mut folder = Folder::of("exflash-200g");
    let again = "serve exflash-200g --no-floor --fuse folder";
    folder
        .place
        .iodyno(again)
        .fails(4, &["--fuse folder: another server has mounted a volume there"]);
    let server = folder.server.take().unwrap();
    server.signal(libc::SIGKILL);
    server.finish();
    folder.place.iodyno(again).fails(4, &["a killed server", "`fusermount3 -u folder`"]);
    run("umount", &[folder.path("").to_str().unwrap()]);
    let mut server = folder.place.start(again);
    let status = folder.path("status.json");
    server.wait_until("the folder is mounted", || status.exists());
    folder.server = Some(server);
    folder.end();
}

#[test]
#[ignore = "needs root and loop devices"]
fn a_file_is_a_device() {
    let folder = Folder::of("exflash-200g");
    let capacity = 200_000_000_000;
    let path = folder.path("exflash-200g");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), capacity);
    // Truncation at opening has no effect, as on devices, and its size can't be changed.
    let file = File::create(&path).unwrap();
    assert_eq!(file.metadata().unwrap().len(), capacity);
    assert_eq!(errno(file.set_len(4096)), Some(libc::EINVAL));
    assert_eq!(errno(file.write_at(&[1], capacity)), Some(libc::ENOSPC));
    assert_eq!(errno(File::create(folder.path("another"))), Some(libc::ENOSYS));
    let file = folder.open("exflash-200g");
    assert_eq!(file.write_at(&[1; 8192], capacity - 4096).unwrap(), 4096);
    assert_eq!(file.read_at(&mut [0; 8192], capacity - 4096).unwrap(), 4096);

    // Data and holes: their positions, and how they appear and disappear, by whole units and by bytes.
    assert_eq!(seek(&file, 0, libc::SEEK_DATA), Ok(capacity - 4096));
    file.write_at(&[7; 16384], MIB).unwrap();
    file.sync_all().unwrap();
    assert_eq!(seek(&file, 0, libc::SEEK_DATA), Ok(MIB));
    assert_eq!(seek(&file, MIB, libc::SEEK_HOLE), Ok(MIB + 16384));
    let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    punch(&file, hole, MIB + 4096, 4096).unwrap();
    punch(&file, hole, MIB + 9000, 100).unwrap();
    punch(&file, libc::FALLOC_FL_ZERO_RANGE, MIB + 16383, 1).unwrap();
    assert_eq!(errno(punch(&file, libc::FALLOC_FL_COLLAPSE_RANGE, 0, MIB)), Some(libc::EOPNOTSUPP));
    assert_eq!(seek(&file, MIB, libc::SEEK_HOLE), Ok(MIB + 4096));
    let mut now = [0; 16384];
    file.read_exact_at(&mut now, MIB).unwrap();
    let zero =
        |i: usize| (4096..8192).contains(&i) || (9000 - 4096..).contains(&(i - 4096)) && i < 9100;
    let expected: Vec<u8> =
        (0..16384).map(|i| if i >= 4096 && zero(i) || i == 16383 { 0 } else { 7 }).collect();
    assert!(now[..] == expected[..]);
    // A hole may also be longer than one operation.
    punch(&file, hole, 0, 100 << 30).unwrap();
    file.read_exact_at(&mut now, MIB).unwrap();
    assert!(now == [0; 16384]);

    // Only allocated space can be allocated while the volume is full.
    file.write_at(&[7; 4096], 0).unwrap();
    folder.place.iodyno("fault full --control ctl").succeeds();
    for mode in [0, libc::FALLOC_FL_KEEP_SIZE, libc::FALLOC_FL_ZERO_RANGE] {
        punch(&file, mode, 0, 4096).unwrap();
        assert_eq!(errno(punch(&file, mode, 0, capacity)), Some(libc::ENOSPC));
    }
    punch(&file, hole, 0, capacity).unwrap();
    folder.place.iodyno("fault clear --control ctl").succeeds();
    punch(&file, 0, 0, capacity).unwrap();

    // A lost device gives an error on this frontend as on the other.
    folder.place.iodyno("fault lose --control ctl").succeeds();
    assert_eq!(errno(file.write_at(&[1; 4096], 0)), Some(libc::ENODEV));
    // The folder is unmounted while its files are open.
    folder.end();
    assert!(errno(file.write_at(&[1; 4096], 0)).is_some());
}

#[test]
#[ignore = "needs root and loop devices"]
fn a_kernel_keeps_a_file_system_on_it() {
    let _alone = alone();
    let folder = Folder::of("exflash-200g");
    let file = folder.path("exflash-200g");
    {
        let device = Loop::on(&file, &["--direct-io=on", "-b", "4096"]);
        run("mkfs.ext4", &["-q", "-F", &device.node, "2G"]);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mount = Mount::at(folder.place.path("mount"), &[&device.node]);
        run("cp", &["-r", source.to_str().unwrap(), mount.0.to_str().unwrap()]);
        run("fstrim", &[mount.0.to_str().unwrap()]);
        let verify = ["--rw=randwrite", "--bs=4k", "--size=16m", "--iodepth=16", "--verify=crc32c"];
        let place = format!("--directory={}", mount.0.display());
        let name = ["--name=verify", "--ioengine=libaio", "--direct=1", "--fsync=64", &place];
        run("fio", &[&name[..], &verify[..]].concat());
        drop(mount);
        // Not from the page cache: another loop device, another mount.
        drop(device);
        let device = Loop::on(&file, &["--direct-io=on", "-b", "4096"]);
        run("e2fsck", &["-fn", &device.node]);
        let mount = Mount::at(folder.place.path("mount"), &["-o", "ro", &device.node]);
        let copy = mount.0.join("src");
        run("diff", &["-r", source.to_str().unwrap(), copy.to_str().unwrap()]);
    }
    let status = std::fs::read_to_string(folder.path("status.json")).unwrap();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let done = &status["volumes"][0]["operations"];
    for kind in ["read", "write", "flush", "trim"] {
        assert!(whole(&done[kind]["operations"]) > 0, "{kind}: {status:#}");
        assert_eq!(whole(&done[kind]["errors"]), 0, "{kind}: {status:#}");
    }
    folder.end();
}

/// Both frontends share one machine, and each volume has a file.
#[test]
#[ignore = "needs root and loop devices"]
fn frontends_share_one_machine() {
    let folder = Folder::of("exflash-200g*2 --nbd unix:nbd.sock");
    let first = folder.open("exflash-200g-1");
    first.write_at(b"by the folder", 12_288).unwrap();
    let uri =
        format!("nbd+unix:///exflash-200g-1?socket={}", folder.place.path("nbd.sock").display());
    let script = "assert h.pread(13, 12288) == b'by the folder'; h.pwrite(b'by the socket', 12288)";
    run("nbdsh", &["-u", &uri, "-c", script]);
    let mut now = [0; 13];
    first.read_exact_at(&mut now, 12_288).unwrap();
    assert_eq!(&now, b"by the socket");
    let second = folder.open("exflash-200g-2");
    second.read_exact_at(&mut now, 12_288).unwrap();
    assert_eq!(now, [0; 13]);
    drop((first, second));
    folder.end();

    let folder = Folder::of("exflash-200g --read-only");
    let path = folder.path("exflash-200g");
    assert_eq!(errno(OpenOptions::new().write(true).open(&path)), Some(libc::EROFS));
    assert_eq!(
        errno(File::open(folder.path("status.json")).unwrap().write(b"x")),
        Some(libc::EBADF)
    );
    folder.end();
}

#[test]
fn a_folder_must_exist() {
    let place = Place::new();
    place.iodyno("serve exflash-200g --fuse nowhere").fails(4, &["nowhere", "folder"]);
    place
        .iodyno("serve exflash-200g --fuse . --speed native")
        .fails(2, &["--fuse", "--speed native"]);
}

/// A command finds its file in a private folder, and the next server removes the mount of a killed one.
#[test]
fn a_command_has_a_folder_for_itself() {
    let place = Place::new();
    std::fs::create_dir(place.path("tmp")).unwrap();
    let start = |script: &str| {
        let mut command = place.command("serve exflash-400g --no-floor --fuse -- sh -c");
        command.arg(script).env("TMPDIR", place.path("tmp"));
        Running::of(&mut command)
    };
    let mut killed = start("touch started; while [ -e started ]; do sleep 0.05; done");
    killed.wait_until("the command runs", || place.path("started").exists());
    killed.signal(libc::SIGKILL);
    std::fs::remove_file(place.path("started")).unwrap();
    killed.finish();
    assert_eq!(names(&place.path("tmp")).len(), 1);
    let script = "test -z \"$IODYNO_NBD\" && printf hello | dd of=$IODYNO_FILE conv=notrunc,fsync && \
                  test $(head -c 5 $IODYNO_FILE) = hello";
    start(script).finish().succeeds();
    assert_eq!(names(&place.path("tmp")), [""; 0]);
}
