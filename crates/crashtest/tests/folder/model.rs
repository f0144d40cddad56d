//! Random operations on a folder and on tmpfs: results, error codes and trees must be equal.

use crate::Fixture;
use iodyno_units::rng::{below, stream};
use rustix::fs::{self, AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags, SeekFrom};
use rustix::io::{Errno, pread, pwrite};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

const OPERATIONS: u32 = 1500;
const HISTORIES: u64 = 6;
/// Upper bound of the offsets in a file, bytes.
const SPAN_BYTES: u64 = 30_000;
const NAMES: [&str; 12] =
    ["a", "b", "c", "d", "e", "d/a", "d/b", "d/e", "e/a", "e/d", "d/e/a", "e/d/b"];
/// Maximum number of open files.
const OPEN_MAX: u64 = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    Open { name: &'static str, flags: OFlags, at: u64 },
    Close { at: u64 },
    Write { at: u64, offset: u64, len: u64, fill: u8 },
    Read { at: u64, offset: u64, len: u64 },
    Resize { at: u64, size: u64 },
    Allocate { at: u64, offset: u64, len: u64, keep: bool },
    Punch { at: u64, offset: u64, len: u64 },
    Zero { at: u64, offset: u64, len: u64 },
    Seek { at: u64, offset: u64, hole: bool },
    Stat { at: u64 },
    Sync { at: u64 },
    Make { name: &'static str },
    Remove { name: &'static str },
    Unlink { name: &'static str },
    Symlink { name: &'static str, to: &'static str },
    Link { from: &'static str, to: &'static str },
    Rename { from: &'static str, to: &'static str, flags: RenameFlags },
    Mode { name: &'static str, mode: u32 },
    Look { name: &'static str },
    List { name: &'static str },
}

/// Draws a random operation.
fn step(random: &mut impl FnMut(u64) -> u64) -> Step {
    let name = NAMES[random(NAMES.len() as u64) as usize];
    let other = NAMES[random(NAMES.len() as u64) as usize];
    let at = random(OPEN_MAX);
    let offset = random(SPAN_BYTES);
    // Often whole pages.
    let offset = if random(3) == 0 { offset / 4096 * 4096 } else { offset };
    let len = if random(3) == 0 { 4096 * (1 + random(3)) } else { 1 + random(9000) };
    match random(30) {
        0..=3 => {
            let mut flags = OFlags::RDWR;
            if random(4) > 0 {
                flags |= OFlags::CREATE;
            }
            for (flag, chance) in [(OFlags::EXCL, 8), (OFlags::TRUNC, 4), (OFlags::APPEND, 5)] {
                if random(chance) == 0 {
                    flags |= flag;
                }
            }
            Step::Open { name, flags, at }
        }
        4 => Step::Close { at },
        5..=9 => Step::Write { at, offset, len, fill: random(256) as u8 },
        10..=12 => Step::Read { at, offset, len },
        13 => Step::Resize { at, size: offset },
        14 => Step::Allocate { at, offset, len, keep: random(2) == 0 },
        15 => Step::Punch { at, offset, len },
        16 => Step::Zero { at, offset, len },
        17 => Step::Seek { at, offset, hole: random(2) == 0 },
        18 => Step::Stat { at },
        19 => Step::Sync { at },
        20 => Step::Make { name },
        21 => Step::Remove { name },
        22 => Step::Unlink { name },
        23 => Step::Symlink { name, to: other },
        24 => Step::Link { from: name, to: other },
        25 | 26 => {
            let flags = [RenameFlags::empty(), RenameFlags::NOREPLACE, RenameFlags::EXCHANGE];
            Step::Rename { from: name, to: other, flags: flags[random(3) as usize] }
        }
        27 => Step::Mode { name, mode: 0o600 | random(0o200) as u32 },
        28 => Step::Look { name },
        _ => Step::List { name },
    }
}

/// A directory in which steps are executed (a folder, or a directory of tmpfs), and its open files.
struct Side<'a> {
    top: &'a Path,
    open: BTreeMap<u64, OwnedFd>,
    /// Whether the file system can't zero a range. Zeroes are then written instead.
    lacks_zeroing: bool,
}

impl Side<'_> {
    /// Executes a step. Returns everything that a program sees, except node numbers and times.
    fn run(&mut self, step: Step) -> Result<Vec<u8>, Errno> {
        let path = |name: &str| self.top.join(name);
        let number = |value: u64| value.to_le_bytes().to_vec();
        let none = Ok(Vec::new());
        let file = |at: u64| self.open.get(&at).ok_or(Errno::BADF);
        match step {
            Step::Open { name, flags, at } => {
                let mode = Mode::from_raw_mode(0o644);
                let opened = fs::open(path(name), flags | OFlags::CLOEXEC, mode);
                self.open.insert(at, opened?);
                none
            }
            Step::Close { at } => {
                self.open.remove(&at);
                none
            }
            Step::Write { at, offset, len, fill } => {
                let data: Vec<u8> = (0..len).map(|i| fill.wrapping_add(i as u8)).collect();
                Ok(number(pwrite(file(at)?, &data, offset)? as u64))
            }
            Step::Read { at, offset, len } => {
                let mut bytes = vec![0; len as usize];
                let len = pread(file(at)?, &mut bytes[..], offset)?;
                bytes.truncate(len);
                Ok(bytes)
            }
            Step::Resize { at, size } => fs::ftruncate(file(at)?, size).map(|()| Vec::new()),
            Step::Allocate { at, offset, len, keep } => {
                let keep = if keep { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
                fs::fallocate(file(at)?, keep, offset, len).map(|()| Vec::new())
            }
            Step::Punch { at, offset, len } => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fs::fallocate(file(at)?, flags, offset, len).map(|()| Vec::new())
            }
            Step::Zero { at, offset, len } if self.lacks_zeroing => {
                let file = file(at)?;
                if fs::fcntl_getfl(file)?.contains(OFlags::APPEND) {
                    return none;
                }
                let size = fs::fstat(file)?.st_size as u64;
                let inside = size.saturating_sub(offset).min(len);
                if inside > 0 {
                    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                    fs::fallocate(file, flags, offset, inside)?;
                }
                fs::ftruncate(file, size.max(offset + len)).map(|()| Vec::new())
            }
            Step::Zero { at, offset, len } => {
                let file = file(at)?;
                if fs::fcntl_getfl(file)?.contains(OFlags::APPEND) {
                    return none;
                }
                fs::fallocate(file, FallocateFlags::ZERO_RANGE, offset, len).map(|()| Vec::new())
            }
            Step::Seek { at, offset, hole } => {
                let to = if hole { SeekFrom::Hole(offset) } else { SeekFrom::Data(offset) };
                Ok(number(fs::seek(file(at)?, to)?))
            }
            Step::Stat { at } => {
                let found = fs::fstat(file(at)?)?;
                Ok(format!("{} {:o} {}", found.st_size, found.st_mode, found.st_nlink).into())
            }
            Step::Sync { at } => fs::fdatasync(file(at)?).map(|()| Vec::new()),
            Step::Make { name } => {
                fs::mkdir(path(name), Mode::from_raw_mode(0o755)).map(|()| Vec::new())
            }
            Step::Remove { name } => fs::rmdir(path(name)).map(|()| Vec::new()),
            Step::Unlink { name } => fs::unlink(path(name)).map(|()| Vec::new()),
            Step::Symlink { name, to } => fs::symlink(to, path(name)).map(|()| Vec::new()),
            Step::Link { from, to } => {
                fs::linkat(CWD, path(from), CWD, path(to), AtFlags::empty()).map(|()| Vec::new())
            }
            Step::Rename { from, to, flags } => {
                fs::renameat_with(CWD, path(from), CWD, path(to), flags).map(|()| Vec::new())
            }
            Step::Mode { name, mode } => {
                fs::chmod(path(name), Mode::from_raw_mode(mode)).map(|()| Vec::new())
            }
            Step::Look { name } => {
                let found = fs::lstat(path(name))?;
                let is_directory = found.st_mode & libc::S_IFMT == libc::S_IFDIR;
                // Sizes and link counts of directories differ between file systems.
                let size = if is_directory { 0 } else { found.st_size };
                let links = if is_directory { 0 } else { found.st_nlink };
                Ok(format!("{size} {:o} {links}", found.st_mode).into())
            }
            Step::List { name } => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                let directory = fs::open(path(name), flags, Mode::empty())?;
                let mut names = Vec::new();
                for entry in fs::Dir::read_from(directory)? {
                    let entry = entry?;
                    names.push(format!("{:?} {:?}", entry.file_name(), entry.file_type()));
                }
                names.sort();
                Ok(names.join("\n").into())
            }
        }
    }
}

impl Side<'_> {
    /// Whether the result of a search for a hole (`hole`) or for data agrees with the file's content. `at`: number of
    /// the open file.
    fn found(&self, at: u64, offset: u64, hole: bool, result: &Result<Vec<u8>, Errno>) -> bool {
        let Some(file) = self.open.get(&at) else { return *result == Err(Errno::BADF) };
        let mut bytes = vec![0; SPAN_BYTES as usize * 2];
        let size = pread(file, &mut bytes[..], 0).unwrap() as u64;
        let zeros = |from: u64, to: u64| {
            bytes[from as usize..to.min(size) as usize].iter().all(|byte| *byte == 0)
        };
        match result {
            Err(error) => *error == Errno::NXIO && (offset >= size || !hole && zeros(offset, size)),
            Ok(position) => {
                let position = u64::from_le_bytes(position[..8].try_into().unwrap());
                let inside = offset <= position && position <= size;
                let page_end = (position + 1).next_multiple_of(4096);
                inside && if hole { zeros(position, page_end) } else { zeros(offset, position) }
            }
        }
    }
}

/// Appends a line of text for each entry below a directory.
fn describe(top: &Path, into: &mut Vec<String>, prefix: &str) {
    let mut entries: Vec<_> = std::fs::read_dir(top).unwrap().map(|entry| entry.unwrap()).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let (path, found) = (entry.path(), entry.metadata().unwrap());
        let name = format!("{prefix}/{}", entry.file_name().display());
        let mode = found.permissions().mode();
        if found.is_dir() {
            into.push(format!("{name} {mode:o}"));
            describe(&path, into, &name);
        } else if found.is_symlink() {
            into.push(format!("{name} -> {}", std::fs::read_link(&path).unwrap().display()));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            into.push(format!("{name} {mode:o} {} {bytes:?}", found.nlink()));
        }
    }
}

fn compare(fixture: &Fixture, seed: u64) {
    let mut rng = stream(0, "operations", seed);
    let mut random = |bound: u64| below(&mut rng, bound);
    let folder = fixture.recording();
    let tmpfs = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let mut ours = Side { top: &folder, open: BTreeMap::new(), lacks_zeroing: false };
    let mut model = Side { top: tmpfs.path(), open: BTreeMap::new(), lacks_zeroing: true };
    let mut succeeded = 0;
    for number in 0..OPERATIONS {
        let step = step(&mut random);
        let (a, b) = (ours.run(step), model.run(step));
        succeeded += u32::from(a.is_ok());
        // tmpfs counts some pages of zeros as data, depending on its history.
        let equal = match step {
            Step::Seek { at, offset, hole } => ours.found(at, offset, hole, &a),
            _ => a == b,
        };
        assert!(
            equal,
            "FOLDER_SEED={seed}: operation {number}: {step:?}: folder {a:?}, tmpfs {b:?}"
        );
    }
    assert!(succeeded > OPERATIONS / 4, "{succeeded} operations succeeded");
    let (mut a, mut b) = (Vec::new(), Vec::new());
    describe(&folder, &mut a, "");
    describe(tmpfs.path(), &mut b, "");
    assert!(a == b, "FOLDER_SEED={seed}: trees differ");
    drop(ours);
    let _ = fixture.replayed();
}

/// The environment variable `FOLDER_SEED` selects a single random history.
#[test]
fn a_folder_behaves_as_tmpfs() {
    let fixture = Fixture::new();
    let only = std::env::var("FOLDER_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in only.map_or(0..HISTORIES, |seed| seed..seed + 1) {
        compare(&fixture, seed);
    }
}
