//! The trap suite: stacks in which a tool that opens with O_DIRECT and counts measures memory and calls it a disk,
//! each with the verdict that it must have; and the honest stacks that they imitate, which must have none. The stacks
//! are real if this kernel has the parts for them; the rest are recorded trees
//! (`crates/targets/src/inspect/stack/tests.rs`) and the guest's (`guest`'s module `traps`). `docs/traps.md` lists
//! all.
//!
//! Reads of the same disk by other processes may hide the counted ones: a trap must be detected in one of a few
//! tries, and an honest stack must never be called a trap.

use crate::disks::{Loop, MIB, Mount, alone, run};
use crate::nbd::Server;
use crate::place::{Place, Running, cells, codes, whole};
use serde_json::Value;
use std::any::Any;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A stack that was built: its target, and its parts to be removed, upper parts first.
struct Rig {
    target: String,
    /// Dropped in order.
    parts: Vec<Box<dyn Any>>,
}

impl Rig {
    fn new(target: impl Into<String>) -> Self {
        Self { target: target.into(), parts: Vec::new() }
    }

    /// Adds a lower part.
    fn on(mut self, part: impl Any) -> Self {
        self.parts.push(Box::new(part));
        self
    }
}

/// Name of the stack, its constructor, and the required verdict; None for an honest stack. A constructor that fails on
/// this machine returns the reason.
type Trap = (&'static str, fn(&Place) -> Result<Rig, &'static str>, Option<&'static str>);

const TRAPS: &[Trap] = &[
    ("a file on a disk", |_| Ok(Rig::new("scratch:16MiB")), None),
    ("a loop device with direct I/O", |p| Ok(looped(&image(p), true)), None),
    ("a loop device without", |p| Ok(looped(&image(p), false)), Some("PAGE_CACHE")),
    (
        "direct above, cached below",
        |p| {
            let lower = looped(&image(p), false);
            Ok(looped(Path::new(&lower.target), true).on(lower.parts))
        },
        Some("PAGE_CACHE"),
    ),
    ("a scratch file on tmpfs", |p| Ok(on_mount(memory(p, "tmpfs"))), Some("MEMORY")),
    ("a scratch file on ramfs", |p| Ok(on_mount(memory(p, "ramfs"))), Some("MEMORY")),
    ("a loop device on tmpfs", |p| Ok(loop_in_memory(p)), Some("MEMORY")),
    (
        "a file system on a loop device on tmpfs",
        |p| {
            let lower = loop_in_memory(p);
            run("mkfs.ext4", &["-q", "-F", &lower.target]);
            let mount = Mount::at(p.path("m"), &[&lower.target]);
            Ok(Rig::new(format!("scratch:8MiB@{}", mount.0.display())).on(mount).on(lower.parts))
        },
        Some("MEMORY"),
    ),
    ("zram", zram, Some("MEMORY")),
    (
        "overlay on a disk",
        |p| {
            // The build may itself be on an overlay, which can't carry another.
            let image = filled(p.path("image"), 48 * MIB);
            run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]);
            let disk = Loop::on(&image, &["--direct-io=on"]);
            let below = Mount::at(p.path("below"), &[&disk.node]);
            Ok(overlay(p, &below.0).on(below).on(disk))
        },
        None,
    ),
    (
        "overlay on tmpfs",
        |p| {
            let below = memory(p, "tmpfs");
            Ok(overlay(p, &below.0).on(below))
        },
        Some("MEMORY"),
    ),
    (
        "a file system that takes O_DIRECT and buffers",
        |p| {
            let image = filled(p.path("image"), 48 * MIB);
            run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]);
            let disk = Loop::on(&image, &["--direct-io=on"]);
            let mount = Mount::at(p.path("m"), &["-o", "data=journal", &disk.node]);
            Ok(Rig::new(format!("scratch:16MiB@{}", mount.0.display())).on(mount).on(disk))
        },
        Some("PAGE_CACHE"),
    ),
    ("FUSE, cached by its server", |p| fuse(p, nbdkit(p)), Some("PAGE_CACHE")),
    ("FUSE, its server uncached", |p| fuse(p, qemu(p, "none")), None),
    ("NBD to a server in the page cache", |p| Ok(served(nbdkit(p))), Some("PAGE_CACHE")),
    ("NBD to QEMU in the page cache", |p| Ok(served(qemu(p, "writeback"))), Some("PAGE_CACHE")),
    ("NBD to QEMU with direct I/O", |p| Ok(served(qemu(p, "none"))), None),
    ("NBD to memory", |_| Ok(served(Server::nbdkit("memory 32M"))), Some("PAGE_CACHE")),
    (
        "NBD to storage that says that it is emulated",
        |_| Ok(served(Server::ours("exflash-400g"))),
        None,
    ),
];

/// Reads and writes in one cell, of blocks that are counted quickly.
const WORKLOAD: &str = "schema = 1\ndepth = 4\nblock = \"64KiB\"\n[mix]\nread = 60\nwrite = 40\n\
    [limits]\ntime = \"250ms\"\n";
/// Verdicts that state that no device was measured.
const CAUGHT: [&str; 2] = ["PAGE_CACHE", "MEMORY"];
/// Number of attempts to detect a trap, because other programs may use the disk.
const TRIES: u32 = 6;

#[test]
#[ignore = "needs root and loop devices"]
fn no_trap_is_valid_and_no_honest_stack_is_one() {
    let _alone = alone();
    let mut wrong = Vec::new();
    for (name, make, expected) in TRAPS {
        let place = Place::new();
        place.write("mixed.toml", WORKLOAD);
        let rig = match make(&place) {
            Ok(rig) => rig,
            Err(why) => {
                println!("skipped: {name}: {why}");
                continue;
            }
        };
        // The memory behind a trap must be filled first, as it is in a second measurement.
        let tries = if expected.is_some() { TRIES } else { 1 };
        let seen: Vec<Value> = (0..tries)
            .map(|_| measured(&place, &rig.target))
            .scan(false, |is_over, cell| {
                let goes_on = !*is_over;
                *is_over = expected.is_some_and(|code| codes(&cell).contains(&code));
                goes_on.then_some(cell)
            })
            .collect();
        let last = seen.last().unwrap();
        println!("{name}: {:?} in {} tries", codes(last), seen.len());
        let found: Vec<&str> = codes(last).into_iter().filter(|c| CAUGHT.contains(c)).collect();
        if found != expected.as_slice() {
            wrong.push(format!(
                "{name}: {found:?}, not {expected:?}: {}",
                last["evidence"]["storage"]
            ));
        }
        // The trap must not be VALID beside it, and MEMORY is the only verdict on memory above a note.
        if let Some(code) = expected {
            let above = above_a_note(last);
            let others = above.iter().any(|other| other != code);
            if codes(last).contains(&"VALID") || *code == "MEMORY" && others {
                wrong.push(format!("{name}: {above:?} beside {:?}", codes(last)));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// One run of reads and writes on a target. A target that holds data is confirmed by name.
fn measured(place: &Place, target: &str) -> Value {
    // A scratch file is new: there is nothing to destroy.
    let destroy = match target.strip_prefix("/dev/").unwrap_or(target) {
        scratch if scratch.starts_with("scratch:") => String::new(),
        name => format!("--destroy {name}"),
    };
    let words = format!("run mixed.toml --ramp 0s --on {target} {destroy}");
    let output = place.iodyno(&format!("{words} --json --quiet"));
    cells(&output.succeeds().json())[0].clone()
}

fn above_a_note(cell: &Value) -> Vec<String> {
    let verdicts = cell["verdicts"].as_array().unwrap().iter();
    let grave = verdicts.filter(|v| v["level"] == "warning" || v["level"] == "invalid");
    grave.map(|v| v["code"].as_str().unwrap().to_owned()).collect()
}

fn image(place: &Place) -> PathBuf {
    filled(place.path("image"), 16 * MIB)
}

/// A file without holes and without a file system.
fn filled(path: PathBuf, bytes: u64) -> PathBuf {
    fs::write(&path, vec![0xA5; bytes as usize]).unwrap();
    path
}

fn looped(file: &Path, direct: bool) -> Rig {
    let disk = Loop::on(file, &[if direct { "--direct-io=on" } else { "--direct-io=off" }]);
    Rig::new(disk.node.as_str()).on(disk)
}

fn memory(place: &Place, kind: &str) -> Mount {
    Mount::at(place.path(kind), &["-t", kind, "-o", "size=64m", kind])
}

fn on_mount(mount: Mount) -> Rig {
    Rig::new(format!("scratch:16MiB@{}", mount.0.display())).on(mount)
}

fn loop_in_memory(place: &Place) -> Rig {
    let mount = memory(place, "tmpfs");
    let file = filled(mount.0.join("image"), 16 * MIB);
    looped(&file, true).on(mount)
}

fn overlay(place: &Place, below: &Path) -> Rig {
    let at = |name: &str| {
        let folder = below.join(name);
        fs::create_dir(&folder).unwrap();
        folder.display().to_string()
    };
    let options = format!("lowerdir={},upperdir={},workdir={}", at("l"), at("u"), at("w"));
    let mount = Mount::at(place.path("overlay"), &["-t", "overlay", "-o", &options, "overlay"]);
    Rig::new(format!("scratch:16MiB@{}", mount.0.display())).on(mount)
}

/// A compressed RAM disk, removed when dropped.
struct Zram(String);

impl Drop for Zram {
    fn drop(&mut self) {
        let _ = fs::write("/sys/class/zram-control/hot_remove", &self.0);
    }
}

fn zram(_: &Place) -> Result<Rig, &'static str> {
    let number = fs::read_to_string("/sys/class/zram-control/hot_add");
    let Ok(number) = number else { return Err("this kernel has no zram") };
    let zram = Zram(number.trim().to_owned());
    fs::write(format!("/sys/block/zram{}/disksize", zram.0), "32M").unwrap();
    Ok(Rig::new(format!("/dev/zram{}", zram.0)).on(zram))
}

/// Serves a file with nbdkit's defaults, which use the page cache.
fn nbdkit(place: &Place) -> Server {
    Server::nbdkit(&format!("file {}", image(place).display()))
}

/// Serves a file with QEMU and this cache mode.
fn qemu(place: &Place, cache: &str) -> Server {
    let file = image(place);
    Server::start(|socket, _| {
        let mut command = Command::new("qemu-nbd");
        command.args(["-t", "-f", "raw", "-e", "4", "-k", socket]);
        command.arg(format!("--cache={cache}")).arg(file);
        command
    })
}

fn served(server: Server) -> Rig {
    Rig::new(server.uri("")).on(server)
}

/// An export as a file, through nbdfuse.
struct Fuse {
    _running: Running,
    point: PathBuf,
}

impl Drop for Fuse {
    fn drop(&mut self) {
        run("umount", &["-l", self.point.to_str().unwrap()]);
    }
}

fn fuse(place: &Place, server: Server) -> Result<Rig, &'static str> {
    if !Path::new("/dev/fuse").exists() {
        return Err("there is no /dev/fuse");
    }
    let point = place.path("fuse");
    fs::create_dir(&point).unwrap();
    let file = point.join("disk");
    let mut command = Command::new("nbdfuse");
    command.arg(&file).arg(server.uri(""));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = Running::of(&mut command);
    running.wait_until("the file is there", || file.exists());
    Ok(Rig::new(file.to_str().unwrap()).on(Fuse { _running: running, point }).on(server))
}

/// A file of a disk and a loop device on another of its files, measured at once: the loop device's
/// I/O to the disk is this run's own.
#[test]
#[ignore = "needs root and loop devices"]
fn a_run_s_own_io_through_a_stack_is_not_foreign() {
    let _alone = alone();
    let place = Place::new();
    let rig = looped(&image(&place), true);
    place.write("mixed.toml", WORKLOAD.replace("250ms", "1s").replace("64KiB", "256KiB"));
    // I/O of other processes is detected as well: in one of a few tries there is little of it.
    let words = format!(
        "run mixed.toml --ramp 0s --on {} --on scratch:16MiB --destroy {}",
        rig.target,
        rig.target.strip_prefix("/dev/").unwrap()
    );
    let mut all = Vec::new();
    let is_ours = (0..TRIES).any(|_| {
        let document = place.document(&words);
        let scratch = &cells(&document)[1];
        assert!(whole(&scratch["moved_bytes"]) > 64 * MIB, "too little to be compared: {scratch}");
        let share = scratch["evidence"]["foreign_share"].as_f64().unwrap();
        all.push(share);
        share < 0.25
    });
    assert!(is_ours, "{all:?}");
}

/// The page cache's share of one target is not subtracted from the device's share of another.
#[test]
#[ignore = "needs a disk for itself"]
fn an_honest_target_beside_a_buffered_one_is_no_trap() {
    let _alone = alone();
    let place = Place::new();
    place.write("mixed.toml", WORKLOAD);
    let words = "run mixed.toml --ramp 0s --on scratch:16MiB?direct=no --on scratch:16MiB";
    let document = place.document(words);
    let found: Vec<Vec<&str>> = cells(&document).iter().map(|cell| codes(cell)).collect();
    assert!(found[0].contains(&"PAGE_CACHE"), "{found:?}");
    assert!(!found[1].contains(&"PAGE_CACHE"), "{found:?}: {}", cells(&document)[1]["evidence"]);
}
