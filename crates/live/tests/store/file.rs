//! The file of a volume: which files are accepted, the remains of a server killed between two writes, and a full file
//! system.

use iodyno_emulate::PartId;
use iodyno_live::store::{OpenError, Options, ReadError, Store, WriteError};
use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

const CAPACITY: u64 = 64 << 20;
/// Environment variable with the image's path, set for a child process.
const VARIABLE: &str = "IODYNO_TEST_CONVERTED_STORE";

fn open(path: &Path) -> Result<Store, OpenError> {
    Store::in_file(path, CAPACITY, Options::default())
}

#[test]
fn the_file_is_a_sparse_image() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let store = open(&path).unwrap();
    store.write_now((32 << 20) + 5, &[7; 10_000]).unwrap();
    assert_eq!(store.sync(), Ok(()));
    let image = fs::File::open(&path).unwrap();
    let mut found = vec![0; 10_000];
    image.read_exact_at(&mut found, (32 << 20) + 5).unwrap();
    assert_eq!(found, [7; 10_000]);
    let taken = |name: &str| fs::metadata(folder.path().join(name)).unwrap().blocks() * 512;
    assert_eq!(image.metadata().unwrap().len(), CAPACITY);
    assert!(taken("image") <= 64 << 10 && taken("image.sums") <= 64 << 10);
    store.zero_now(0, CAPACITY).unwrap();
    assert_eq!((taken("image"), taken("image.sums") <= 4096), (0, true));
}

#[test]
fn only_its_own_plain_file_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let served = open(&at("image")).unwrap();
    assert!(matches!(open(&at("image")), Err(OpenError::Locked { .. })));
    drop(served);
    open(&at("image")).unwrap();
    let other = Store::in_file(&at("image"), CAPACITY * 2, Options::default());
    assert!(matches!(other, Err(OpenError::Size { found_bytes: CAPACITY, .. })));

    symlink(at("image"), at("link")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    for (name, is) in [("link", "a symbolic link"), ("folder", "a folder")] {
        let Err(OpenError::NotAFile { what, .. }) = open(&at(name)) else { panic!("{name}") };
        assert_eq!(what, is);
    }
    assert!(matches!(open(Path::new("/dev/null")), Err(OpenError::NotAFile { .. })));
    assert!(matches!(open(&at("none/image")), Err(OpenError::Io { .. })));

    // Sums that are not its own are refused, and left as they are; so is the image.
    let sums = fs::read(at("image.sums")).unwrap();
    let changed = |at: usize| {
        let mut sums = sums.clone();
        sums[at] ^= 1;
        sums
    };
    let foreign = b"my shopping list".repeat(300);
    for (bad, why) in [
        (changed(3), "not a checksum file of iodyno"),
        (foreign.clone(), "not a checksum file of iodyno"),
        (changed(16), "version"),
        (changed(24), "a different size"),
        (changed(32), "damaged"),
        ([&sums[..512], &[0; 1024], &sums[1536..]].concat(), "no valid generation"),
        (sums[..5000].to_vec(), "damaged"),
    ] {
        fs::write(at("image.sums"), &bad).unwrap();
        let refused = open(&at("image")).unwrap_err().to_string();
        assert!(refused.contains(why) && refused.contains("image.sums"), "{refused}");
        assert_eq!(fs::read(at("image.sums")).unwrap(), bad);
    }
    // Not even for an image that would be new.
    fs::write(at("image.sums"), &foreign).unwrap();
    fs::remove_file(at("image")).unwrap();
    assert!(matches!(open(&at("image")), Err(OpenError::Sums { .. })));
    assert_eq!(fs::read(at("image.sums")).unwrap(), foreign);
}

#[test]
fn an_image_without_sums_is_taken_as_it_is_and_guarded_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let data: Vec<u8> = (0..CAPACITY).map(|i| (1 + i / 4096) as u8).collect();
    fs::write(&path, &data).unwrap();
    let store = open(&path).unwrap();
    let mut into = vec![0; CAPACITY as usize];
    store.read(0, &mut into).unwrap();
    assert!(into == data);
    // A part of a unit is enough to give it a sum.
    store.write_now(5 * 4096 + 9, &[1]).unwrap();
    let scrub = store.scrub(|_| {}).unwrap();
    assert_eq!((scrub.sound_units, scrub.unknown_units), (1, CAPACITY / 4096 - 1));
    store.corrupt(&(0..1), 1);
    assert_eq!(store.read(0, &mut into[..1]), Err(ReadError::Corrupt { unit: 0 }));
    drop(store);

    // Sums outlive the server; changes by other means are found where they are.
    let image = fs::File::options().write(true).open(&path).unwrap();
    image.write_all_at(&[200], 5 * 4096 + 77).unwrap();
    image.write_all_at(&[200], 6 * 4096 + 77).unwrap();
    let store = open(&path).unwrap();
    assert_eq!(store.read(5 * 4096, &mut into[..1]), Err(ReadError::Corrupt { unit: 5 }));
    assert_eq!(store.read(6 * 4096, &mut into[..4096]), Ok(()));
    drop(store);

    // An image that is created anew has nothing to do with the sums of the former one.
    fs::remove_file(&path).unwrap();
    let store = open(&path).unwrap();
    store.read(0, &mut into).unwrap();
    assert!(into.iter().all(|&b| b == 0));
}

/// A server is killed again and again between writing an entry and writing its data: the unit keeps its content and is
/// sound. Data without an entry is not.
#[test]
fn entries_go_before_data() {
    let folder = tempfile::tempdir().unwrap();
    let (path, sums_path) = (folder.path().join("image"), folder.path().join("image.sums"));
    let read = || (fs::read(&path).unwrap(), fs::read(&sums_path).unwrap());
    let holds = |byte: u8| {
        let store = open(&path).unwrap();
        let mut into = [0; 4096];
        let found = store.read(4096 * 3, &mut into);
        found.map(|()| assert_eq!(into, [byte; 4096]))
    };
    drop(open(&path).unwrap());
    let mut held = 0;
    for byte in 1..9 {
        let (data_before, sums_before) = read();
        open(&path).unwrap().write_now(4096 * 3, &[byte; 4096]).unwrap();
        let (data_after, sums_after) = read();
        assert_eq!(holds(byte), Ok(()));

        if byte == 4 {
            fs::write(&sums_path, &sums_before).unwrap();
            assert_eq!(holds(byte), Err(ReadError::Corrupt { unit: 3 }));
            fs::write(&sums_path, &sums_after).unwrap();
        }
        // The entry alone; every third time the data, too.
        if byte % 3 == 0 {
            held = byte;
            fs::write(&path, &data_after).unwrap();
        } else {
            fs::write(&path, &data_before).unwrap();
        }
        assert_eq!(holds(held), Ok(()), "after write {byte}");
    }
}

/// A version older than the flushed one is refused, after a stop and after a kill.
#[test]
fn a_version_older_than_what_was_flushed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let version = |byte: u8| {
        let image = fs::File::options().write(true).open(&path).unwrap();
        image.write_all_at(&[byte; 4096], 0).unwrap();
        open(&path).unwrap().read(0, &mut [0; 4096])
    };
    for ends in [true, false] {
        let store = open(&path).unwrap();
        for byte in 1..=3 {
            store.write_now(0, &[byte; 4096]).unwrap();
        }
        assert_eq!(store.sync(), Ok(()));
        if ends {
            drop(store);
        } else {
            // Killed: no further call is made.
            std::mem::forget(store);
            let taken = fs::read(&path).unwrap();
            fs::remove_file(&path).unwrap();
            fs::write(&path, taken).unwrap();
        }
        for (byte, expected) in [(3, Ok(())), (2, Err(())), (1, Err(())), (3, Ok(()))] {
            assert_eq!(version(byte).map_err(|_| ()), expected, "version {byte}");
        }
    }
}

/// Units that a killed server left in doubt stay readable, whatever later servers write and flush. Once a unit is
/// rewritten, it is no longer in doubt.
#[test]
fn units_of_a_killed_server_stay_readable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let store = open(&path).unwrap();
    store.write_now(0, &[1; 4096]).unwrap();
    store.sync().unwrap();
    store.write_now(0, &[2; 4096]).unwrap();
    drop(store);
    // Between the entry and the data.
    let image = fs::File::options().write(true).open(&path).unwrap();
    image.write_all_at(&[1; 4096], 0).unwrap();
    for round in 0..40_u64 {
        let store = open(&path).unwrap();
        store.read(0, &mut [0; 4096]).unwrap();
        store.write_now(4096 * (1 + round % 3), &[round as u8; 4096]).unwrap();
        if round % 4 > 0 {
            store.sync().unwrap();
        }
        if round % 4 > 1 {
            store.end().unwrap();
        }
    }
    open(&path).unwrap().write_now(0, &[3; 4096]).unwrap();
    open(&path).unwrap().end().unwrap();
    let store = open(&path).unwrap();
    store.write_now(0, &[4; 4096]).unwrap();
    store.end().unwrap();
    drop(store);
    image.write_all_at(&[3; 4096], 0).unwrap();
    assert_eq!(open(&path).unwrap().read(0, &mut [0; 4096]), Err(ReadError::Corrupt { unit: 0 }));
}

/// Builds a file of checksums of version 1 without any checksum.
fn sums_of_version_1() -> Vec<u8> {
    let mut sums = b"iodyno sums\n\0\0\0\0".to_vec();
    for word in [1, 4096] {
        sums.extend(u32::to_le_bytes(word));
    }
    sums.extend(CAPACITY.to_le_bytes());
    sums.extend(crc_fast::crc32_iscsi(&sums).to_le_bytes());
    sums.resize(4096 + (CAPACITY / 4096 * 8) as usize, 0);
    sums
}

/// Opens the image that the environment names. Run by the test below, never directly.
#[test]
#[ignore = "the child of another test"]
fn child_that_converts() {
    let path = std::env::var(VARIABLE).expect("set by the parent");
    drop(open(Path::new(&path)));
}

/// A server that is killed while it sets the length of the new checksum file leaves the old one. Here the system kills
/// it, because the file may not be that long.
#[test]
fn a_conversion_that_is_killed_leaves_the_old_sums() {
    let folder = tempfile::tempdir().unwrap();
    let (path, sums_path) = (folder.path().join("image"), folder.path().join("image.sums"));
    fs::File::create_new(&path).unwrap().set_len(CAPACITY).unwrap();
    let old = fs::File::create_new(&sums_path).unwrap();
    let sums = sums_of_version_1();
    old.write_all_at(&sums[..36], 0).unwrap();
    old.set_len(sums.len() as u64).unwrap();
    let child = std::env::current_exe().unwrap();
    // 64 blocks of 512 or 1024 bytes: the header, but not all the sums.
    let killed = Command::new("sh")
        .args(["-c", "ulimit -c 0; ulimit -f 64; exec \"$0\" \"$@\""])
        .arg(&child)
        .args(["--exact", "file::child_that_converts", "--ignored"])
        .env(VARIABLE, &path)
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(killed.signal().is_some(), "{killed}");
    assert!(fs::read(&sums_path).unwrap() == sums);
    open(&path).unwrap().write_now(0, &[1]).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

/// Checksums of version 1 are converted: both checksums of a unit are accepted until it is rewritten.
#[test]
fn sums_of_version_1_are_converted() {
    let folder = tempfile::tempdir().unwrap();
    let (path, sums_path) = (folder.path().join("image"), folder.path().join("image.sums"));
    let sum = |byte: u8| crc_fast::crc32_iscsi(&[byte; 4096]);
    let mut sums = sums_of_version_1();
    // Written; written, and killed before the data; damaged; in the last chunk.
    let units = [(0, 1, [1, 9]), (1, 2, [3, 2]), (2, 4, [5, 6]), (CAPACITY / 4096 - 1, 7, [7, 7])];
    let image = fs::File::options().create_new(true).write(true).open(&path).unwrap();
    image.set_len(CAPACITY).unwrap();
    for (unit, holds, [new, old]) in units {
        image.write_all_at(&[holds; 4096], unit * 4096).unwrap();
        let at = 4096 + unit as usize * 8;
        sums[at..at + 4].copy_from_slice(&sum(new).to_le_bytes());
        sums[at + 4..at + 8].copy_from_slice(&sum(old).to_le_bytes());
    }
    fs::write(&sums_path, &sums).unwrap();
    for _ in 0..2 {
        let store = open(&path).unwrap();
        for (unit, holds, _) in units {
            let mut into = [0; 4096];
            match store.read(unit * 4096, &mut into) {
                Ok(()) => assert!(unit != 2 && into == [holds; 4096], "{unit}"),
                Err(e) => assert_eq!((e, unit), (ReadError::Corrupt { unit: 2 }, 2)),
            }
        }
        assert_eq!(store.scrub(|_| {}).unwrap().unknown_units, 0);
        store.end().unwrap();
    }
    let names = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 2, "nothing else is left");
}

/// A volume that can't be opened leaves no file that it created, and does not change existing files.
#[test]
fn a_failed_open_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let left = || fs::read_dir(folder.path()).unwrap().count();
    assert!(Store::in_file(&path, 1 << 63, Options::default()).is_err());
    assert_eq!(left(), 0);
    let store = open(&path).unwrap();
    assert_eq!(left(), 2);
    store.remove_made();
    assert_eq!(left(), 0);
    drop(store);
    let store = open(&path).unwrap();
    store.write_now(0, &[1]).unwrap();
    store.remove_made();
    assert_eq!(left(), 2, "what holds something stays");
    drop(store);
    open(&path).unwrap().remove_made();
    assert_eq!(left(), 2, "what was there stays");
    fs::remove_file(&path).unwrap();
    fs::write(folder.path().join("image.sums"), b"mine").unwrap();
    assert!(open(&path).is_err());
    assert_eq!(left(), 1);
}

/// If several servers start on one new image at the same time, one gets it, and the others leave it in place.
#[test]
fn servers_that_do_not_get_an_image_leave_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut held = 0;
    for round in 0..400 {
        let path = folder.path().join(format!("image{round}"));
        let start = std::sync::Barrier::new(4);
        let stores: Vec<_> = std::thread::scope(|scope| {
            let servers: Vec<_> = (0..4)
                .map(|n| {
                    let (path, start) = (&path, &start);
                    scope.spawn(move || {
                        start.wait();
                        // Half of them find that it is too large, once they have it.
                        let capacity = if n % 2 == 0 { CAPACITY } else { 1 << 63 };
                        Store::in_file(path, capacity, Options::default())
                    })
                })
                .collect();
            servers.into_iter().map(|server| server.join().unwrap()).collect()
        });
        let stores: Vec<Store> = stores.into_iter().filter_map(Result::ok).collect();
        assert!(stores.len() <= 1);
        for store in stores {
            held += 1;
            store.write_now(0, &[7; 4096]).unwrap();
            let image = fs::File::open(&path).expect("the image that is served is there");
            let mut found = [0; 4096];
            image.read_exact_at(&mut found, 0).unwrap();
            assert_eq!(found, [7; 4096]);
            assert!(folder.path().join(format!("image{round}.sums")).exists());
        }
        // One that is too large for its server may be another's: it is left, and empty.
        let left = fs::read_dir(folder.path()).unwrap().count();
        let is_empty = || fs::metadata(&path).unwrap().len() == 0;
        assert!(left == 0 || left == 2 || is_empty(), "{left} files");
        for file in fs::read_dir(folder.path()).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
    }
    assert!(held > 50, "{held}");
}

/// If a unit was dropped and a later write of it is lost, it reads as a hole.
#[test]
fn an_entry_after_a_drop_goes_with_the_hole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let store = open(&path).unwrap();
    store.write_now(0, &[1; 4096]).unwrap();
    store.zero_now(0, 4096).unwrap();
    store.write_now(0, &[2; 4096]).unwrap();
    drop(store);
    let image = fs::File::options().write(true).open(&path).unwrap();
    image.write_all_at(&[0; 4096], 0).unwrap();
    assert_eq!(open(&path).unwrap().read(0, &mut [0; 4096]), Ok(()));
}

/// A corrupt unit does not become sound by a write that was cut short.
#[test]
fn a_write_that_was_cut_short_makes_no_corrupt_unit_sound() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    open(&path).unwrap().write_now(0, &[1; 4096]).unwrap();
    let image = fs::File::options().read(true).write(true).open(&path).unwrap();
    image.write_all_at(&[9], 50).unwrap();
    let damaged = fs::read(&path).unwrap();
    open(&path).unwrap().write_now(0, &[2; 4096]).unwrap();
    image.write_all_at(&damaged, 0).unwrap();
    let found = open(&path).unwrap().read(0, &mut [0; 4096]);
    assert_eq!(found, Err(ReadError::Corrupt { unit: 0 }));
}

struct Mount(std::path::PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
#[ignore = "needs root and a tmpfs"]
fn a_full_file_system_is_reported() {
    use iodyno_emulate::ContentEvent::{Accepted, Landed};
    let folder = tempfile::tempdir().unwrap();
    let options = ["-t", "tmpfs", "-o", "size=1m", "tmpfs"];
    let done = Command::new("mount").args(options).arg(folder.path()).status().unwrap();
    assert!(done.success());
    let mount = Mount(folder.path().to_owned());
    let mut store = open(&mount.0.join("image")).unwrap();
    let mut written = 0;
    let refused = loop {
        match store.write_now(written * 4096, &[written as u8; 4096]) {
            Ok(()) => written += 1,
            Err(e) => break e,
        }
    };
    assert!(matches!(refused, WriteError::NoSpace { .. }), "{refused}");
    assert!(written > 200, "{written}");
    // What was acknowledged and lands now is kept, and told, until there is room.
    let (part, unit) = (PartId(0), written + 9);
    store.begin_write(1, unit * 4096, &[77; 4096]).unwrap();
    store.change(&Accepted { part, unit, token: 1, kept: false });
    assert_eq!(store.end_write(1), Ok(()));
    store.change(&Landed { part, unit, token: 1 });
    assert!(store.settle().unwrap_err().is_no_space());
    let mut into = [0; 4096];
    for unit in 0..written {
        assert_eq!(store.read(unit * 4096, &mut into), Ok(()));
        assert_eq!(into, [unit as u8; 4096]);
    }
}
