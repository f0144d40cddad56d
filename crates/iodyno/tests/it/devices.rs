//! Block devices and dedicated file systems: refusals, measurements, and failures of the device.
//! Faults come from the layers below a loop device: a truncated backing file answers with EIO, a
//! full file system below it with ENOSPC, and a file system that is shut down during a run acts
//! like a removed device. All tests require root and loop devices.

use crate::disks::{Loop, MIB, Mount, alone, blank, full, run};
use crate::faults::{assert_failures, assert_stopped};
use crate::place::{Place, Running, SHORT, cells, codes, engines, names, whole};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::Stdio;

/// The first command of the README, word for word, on a separate file system. Without a target it measures a scratch
/// file in the current folder, whose size suits the free space.
#[test]
#[ignore = "needs root and a tmpfs"]
fn the_first_command_needs_no_target() {
    let _alone = alone();
    let place = Place::new();
    let mount = Mount::at(place.path("m"), &["-t", "tmpfs", "-o", "size=800m", "tmpfs"]);
    let mut command = place.command(&format!("run four-corners {SHORT}"));
    command.current_dir(&mount.0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = Running::of(&mut command).finish();
    output.succeeds().says(&["plan: 4 cells", "to lay the file out"]);
    for word in
        ["random-read", "random-write", "seq-read", "seq-write", "IOPS", "MB/s", "mean", "p99"]
    {
        assert!(
            output.stdout.contains(word) || word == "MB/s" && output.stdout.contains("GB/s"),
            "{word}"
        );
    }
    assert_eq!(names(&mount.0), [""; 0], "the scratch file is gone");
    let document = place.iodyno("show last --json").succeeds().json();
    assert_eq!(document["run"]["targets"][0]["name"], "scratch:");
    let bytes = whole(&document["run"]["plan"]["lay_out_bytes"]);
    assert!((64 * MIB..=80 * MIB).contains(&bytes), "a tenth of what is free: {bytes}");
}

#[test]
#[ignore = "needs root and loop devices"]
fn a_blank_device_is_measured() {
    let _alone = alone();
    let place = Place::new();
    let image = blank(place.path("image"), 16 * MIB);
    let disk = Loop::on(&image, &["--direct-io=on"]);
    assert!(place.iodyno(&format!("check {}", disk.node)).succeeds().stdout.contains("allowed"));
    for engine in engines(&place) {
        let flags = format!("--engine {engine} --depth 1 --ops 100 --ramp 0s");
        let document = place.document(&format!("run random-write --on {} {flags}", disk.node));
        let cell = &cells(&document)[0];
        assert!(cell["write"]["ops"] == 100 && cell["write"]["errors"] == 0, "{cell}");
        let facts = &document["run"]["targets"][0]["facts"];
        assert_eq!(facts["device"]["kernel_name"], disk.name());
        assert_eq!(facts["opened"]["destroy_confirmed"].as_array().unwrap().len(), 0);
    }
    assert!(std::fs::read(image).unwrap().iter().any(|&byte| byte != 0), "bytes arrived");
    // A part of it, and more than its size.
    let words = format!("run random-write --on {}?size=1MiB {SHORT}", disk.node);
    assert_eq!(cells(&place.document(&words))[0]["evidence"]["active_bytes"], MIB);
    let output = place.iodyno(&format!("run random-write --on {}?size=17MiB {SHORT}", disk.node));
    assert!(output.stdout.is_empty() && matches!(output.code, Some(2 | 4)), "{output:?}");
    // It is one target, under any name.
    std::os::unix::fs::symlink(&disk.node, place.path("link")).unwrap();
    let output = place.iodyno(&format!("run random-read --on {} --on link {SHORT}", disk.node));
    output.fails(2, &["same target"]);
}

#[test]
#[ignore = "needs root and loop devices"]
fn a_device_that_holds_data_is_refused() {
    let _alone = alone();
    let place = Place::new();
    let image = full(place.path("image"), 16 * MIB);
    run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]);
    let disk = Loop::on(&image, &[]);
    let before = std::fs::read(&image).unwrap();
    let write = format!("run random-write --on {} {SHORT} --json -q", disk.node);
    let own = format!("--destroy {}", disk.name());
    let refused = |flags: &str, words: &[&str]| {
        let output = place.iodyno(&format!("{write} {flags}"));
        output.fails(3, words).says(&["refusing to write to"]);
    };
    // A file system; also next to a target that may be written.
    refused("", &["ext4", &own]);
    refused("--on ram:1MiB", &["ext4"]);
    refused("--destroy loop", &["`--destroy loop` names a different target"]);
    // Mounted, it is refused too.
    let mount = Mount::at(place.path("m"), &[&disk.node]);
    refused("", &["mounted at", mount.0.to_str().unwrap(), "umount", "ext4"]);
    refused("--destroy sda", &["mounted at"]);
    // Reading it does no harm, mounted or not.
    let read = format!("run random-read --on {} {SHORT}", disk.node);
    place.document(&format!("{read} --read-only"));
    place.document(&read);
    drop(mount);
    place.document(&format!("{read} --read-only"));
    let after = std::fs::read(&image).unwrap();
    // Mounting counts in the superblock; nothing else may have changed.
    assert!(after[8192..].len() == before[8192..].len() && place.notebook().exists());
    run("e2fsck", &["-f", "-n", image.to_str().unwrap()]);
    // Its own name is accepted, and no other.
    let document = place.document(&format!("run random-write --on {} {own} {SHORT}", disk.node));
    let lifted = &document["run"]["targets"][0]["facts"]["opened"]["destroy_confirmed"];
    assert!(lifted[0].as_str().unwrap().contains("ext4"), "{lifted}");
    assert!(std::fs::read(&image).unwrap() != after);
}

#[test]
#[ignore = "needs root and loop devices"]
fn partitions_holders_and_layers_are_refused() {
    let _alone = alone();
    let place = Place::new();
    let image = full(place.path("image"), 16 * MIB);
    let disk = Loop::on(&image, &[]);
    let write = format!("run random-write --on {} {SHORT}", disk.node);
    // Open elsewhere, exclusively, as by a mount in another namespace or a volume manager.
    let held = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&disk.node).unwrap();
    place.iodyno(&write).fails(3, &["held open exclusively", "lsof"]);
    drop(held);
    // Another loop device on top of it.
    let upper = Loop::on(Path::new(&disk.node), &[]);
    place.iodyno(&write).fails(3, &["in use by", upper.name()]);
    drop(upper);
    // The file below it, which would change under it.
    let below = format!("run random-write --on image --destroy nothing {SHORT}");
    place.iodyno(&below).fails(3, &["in use by", disk.name()]);
    // Set read-only: no name permits writing.
    run("blockdev", &["--setro", &disk.node]);
    let output = place.iodyno(&format!("{write} --destroy {}", disk.name()));
    output.fails(3, &["read-only"]);
    run("blockdev", &["--setrw", &disk.node]);
    // An MBR with one partition of type 83h.
    let mut sector = [0; 512];
    sector[446 + 4] = 0x83;
    sector[446 + 8..446 + 12].copy_from_slice(&2048_u32.to_le_bytes());
    sector[446 + 12..446 + 16].copy_from_slice(&8192_u32.to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xAA]);
    let device = OpenOptions::new().write(true).open(&disk.node).unwrap();
    device.write_all_at(&sector, 0).unwrap();
    device.sync_all().unwrap();
    drop(device);
    let before = std::fs::read(&image).unwrap();
    place.iodyno(&write).fails(3, &["partition table"]);
    let document = place.iodyno(&format!("check {} --json", disk.node)).exits(3).json();
    assert_eq!(document["refusals"][0]["code"], "partition_table");
    assert!(std::fs::read(&image).unwrap() == before);
}

/// The system's disk is never written, whatever `--destroy` names. Only `check` is run here.
#[test]
#[ignore = "needs root"]
fn the_system_disk_can_t_be_confirmed() {
    let place = Place::new();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = mounts.lines().find(|line| line.split(' ').nth(4) == Some("/")).unwrap();
    let source = line.split(" - ").nth(1).and_then(|right| right.split(' ').nth(1)).unwrap();
    if !source.starts_with("/dev/") || !Path::new(source).exists() {
        println!("skipped: / is on {source}");
        return;
    }
    let name = Path::new(source).canonicalize().unwrap();
    let name = name.file_name().unwrap().to_str().unwrap().to_owned();
    let output =
        place.iodyno(&format!("check {source} --destroy {name} --destroy {source} --json"));
    let document = output.exits(3).json();
    assert_eq!(document["refusals"][0]["code"], "system_disk");
    assert_eq!(document["writable"], false);
}

/// A file that does not fit is refused before it is created. If the space runs out while a file is laid out, the file
/// is removed.
#[test]
#[ignore = "needs root and loop devices"]
fn a_full_file_system() {
    let _alone = alone();
    let place = Place::new();
    let image = blank(place.path("image"), 32 * MIB);
    run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]);
    let disk = Loop::on(&image, &[]);
    let systems: [&[&str]; 2] = [&[&disk.node], &["-t", "tmpfs", "-o", "size=32m", "tmpfs"]];
    for (number, arguments) in systems.into_iter().enumerate() {
        let mount = Mount::at(place.path(&format!("m{number}")), arguments);
        let before = names(&mount.0);
        let point = mount.0.display();
        for target in [format!("{point}/t?size=64MiB"), format!("scratch:64MiB@{point}")] {
            let output = place.iodyno(&format!("run random-read --on {target} {SHORT} -q"));
            output.fails(4, &["64 MiB needed", "free", "help:"]);
            assert_eq!(names(&mount.0), before, "{target}");
        }
        // A hole to be filled, and another program's file that takes the space.
        std::fs::write(mount.0.join("other"), vec![1; 12 * MIB as usize]).unwrap();
        blank(mount.0.join("hole"), 30 * MIB);
        let output =
            place.iodyno(&format!("run random-read --on {point}/new?size=30MiB {SHORT} -q"));
        output.fails(4, &["30 MiB needed", "free"]);
        let words = format!("run random-write --on {point}/hole --destroy hole {SHORT} -q --json");
        place.iodyno(&words).fails(4, &["30 MiB needed", "full"]);
        let left: Vec<String> = names(&mount.0);
        assert!(left.contains(&"hole".to_owned()) && !left.contains(&"new".to_owned()), "{left:?}");
        assert_eq!(std::fs::metadata(mount.0.join("hole")).unwrap().len(), 30 * MIB);
        let list = place.iodyno("ls --json").succeeds().json();
        let last = list["runs"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(last["status"], "failed");
        assert!(last["reason"].as_str().unwrap().contains("30 MiB needed"), "{last}");
    }
}

/// A thin device whose pool runs out of space in the middle of a run.
#[test]
#[ignore = "needs root and loop devices"]
fn a_device_that_runs_out_of_space() {
    let _alone = alone();
    let place = Place::new();
    for engine in engines(&place).into_iter().filter(|engine| *engine != "mmap") {
        let mount = Mount::at(place.path("m"), &["-t", "tmpfs", "-o", "size=8m", "tmpfs"]);
        let disk = Loop::on(&blank(mount.0.join("thin"), 64 * MIB), &[]);
        let limits = "--depth 1 --ramp 0s --time 1m --max-errors 200 --json -q";
        let output = place
            .iodyno(&format!("run random-write --on {} --engine {engine} {limits}", disk.node));
        let document = assert_stopped(&place, &output);
        let cell = &cells(&document)[0];
        assert_failures(cell, "write", "no_space", 201);
        assert!(whole(&cell["write"]["ops"]) > 0, "some of it fitted: {cell}");
    }
}

/// A device whose second half fails, because its backing file was truncated.
#[test]
#[ignore = "needs root and loop devices"]
fn a_device_with_a_bad_half() {
    let _alone = alone();
    let place = Place::new();
    let image = full(place.path("image"), 16 * MIB);
    let disk = Loop::on(&image, &["--direct-io=on"]);
    OpenOptions::new().write(true).open(&image).unwrap().set_len(8 * MIB).unwrap();
    for engine in engines(&place) {
        let read =
            format!("run random-read --on {} --engine {engine} --depth 1 --ramp 0s", disk.node);
        // Few failures are counted and tolerated; the two halves are distinguished.
        let document = place.document(&format!("{read} --ops 400 --max-errors 400"));
        let cell = &cells(&document)[0];
        assert_failures(cell, "read", "io", 100);
        assert_eq!(whole(&cell["read"]["ops"]) + whole(&cell["read"]["errors"]), 400);
        assert!(whole(&cell["read"]["ops"]) > 100, "{cell}");
        // Beyond the limit the run stops; the limit itself is still allowed.
        let output = place.iodyno(&format!("{read} --time 1m --max-errors 7 --json -q"));
        let document = assert_stopped(&place, &output);
        assert_eq!(cells(&document)[0]["read"]["errors"], 8, "{engine}");
        assert!(codes(&cells(&document)[0]).contains(&"STOPPED_BY_ERRORS"));
    }
    let output = place.iodyno(&format!("run random-read --on {} --ramp 0s -q", disk.node));
    for word in ["failed", "I/O errors", "not counted as completed"] {
        assert!(output.exits(4).stdout.contains(word), "`{word}` is missing: {output:?}");
    }
    // The readable half is measured as usual.
    let words = format!("run random-read --on {} --active 0..8MiB --ops 400 --ramp 0s", disk.node);
    assert_eq!(cells(&place.document(&words))[0]["read"]["errors"], 0);
}

/// A device that disappears during the measurement. Here its file system is shut down, after which the kernel answers
/// everything with EIO.
#[test]
#[ignore = "needs root and loop devices"]
fn a_device_that_goes_away() {
    /// `_IOR('X', 125, __u32)`.
    const EXT4_IOC_SHUTDOWN: libc::c_ulong = 0x8004_587D;
    // Leaves the journal as it is.
    let no_log_flush: u32 = 2;
    let _alone = alone();
    let place = Place::new();
    for engine in engines(&place).into_iter().filter(|engine| *engine != "mmap") {
        let image = blank(place.path("image"), 32 * MIB);
        run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]);
        let disk = Loop::on(&image, &[]);
        let mount = Mount::at(place.path("m"), &[&disk.node]);
        let target = format!("--on m/t?size=8MiB --engine {engine} --depth 1");
        let limits = "--ramp 0s --time 1m --interval 20ms --max-errors 100";
        let mut running =
            place.start(&format!("run random-read {target} {limits} --series --json -q"));
        place.wait_for_cells(&mut running, 1);
        let point = File::open(&mount.0).unwrap();
        // SAFETY: the request reads one u32.
        let result =
            unsafe { libc::ioctl(point.as_raw_fd(), EXT4_IOC_SHUTDOWN, &raw const no_log_flush) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        drop(point);
        let document = assert_stopped(&place, &running.finish());
        let cell = &cells(&document)[0];
        assert_failures(cell, "read", "io", 101);
        // Earlier results are kept, and the failures are reported at the end.
        let series = cell["series"].as_array().unwrap();
        let errors: Vec<u64> = series.iter().map(|i| whole(&i["read"]["errors"])).collect();
        assert!(errors.last().unwrap() + errors[errors.len().saturating_sub(2)] > 0, "{errors:?}");
        assert_eq!(errors.iter().sum::<u64>(), whole(&cell["read"]["errors"]));
    }
}

/// A log can have only one server, even if a loop device is attached to its file later.
#[test]
#[ignore = "needs root and loop devices"]
fn a_log_has_one_server_by_any_name() {
    let _alone = alone();
    let place = Place::new();
    place.iodyno("log create l.log --size 9MiB --segment 1MiB").succeeds();
    let serve = |target: &str, socket: &str| format!("log serve {target} --unix {socket}");
    let up = |running: &mut Running, socket: &str| {
        let socket = place.path(socket);
        running.wait_until("it listens", || socket.exists());
    };
    let mut first = place.start(&serve("l.log", "a"));
    up(&mut first, "a");
    let disk = Loop::on(&place.path("l.log"), &[]);
    let twin = Loop::on(&place.path("l.log"), &[]);
    for other in [&disk, &twin] {
        let words = format!("{} --destroy {}", serve(&other.node, "b"), other.name());
        place.iodyno(&words).fails(3, &["locked"]);
    }
    first.signal(libc::SIGTERM);
    first.finish().exits(0);
    let mut second = place.start(&format!("{} --destroy {}", serve(&disk.node, "c"), disk.name()));
    up(&mut second, "c");
    place.iodyno(&format!("{} --destroy l.log", serve("l.log", "d"))).fails(3, &["held open"]);
    let words = format!("{} --destroy {}", serve(&twin.node, "d"), twin.name());
    place.iodyno(&words).fails(3, &["held open", "locked"]);
    second.signal(libc::SIGTERM);
    second.finish().exits(0);
}
