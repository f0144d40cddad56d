//! Existing images served through a model: their bytes and size as seen by other programs, changes to them, volumes
//! of another size than the device, and refusals.

use crate::place::{Place, whole};
use crate::serve::{MIB, Served, URI, flash, judge};
use iodyno_nbd::{CmdFlags, Kind};
use iodyno_units::rng::random_words;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Writes an image of 40 MiB plus one sector, with data at both ends and a hole between. Returns its bytes.
fn image(place: &Place, name: &str) -> Vec<u8> {
    let mut bytes = vec![0; 40 * MIB as usize + 512];
    for part in [0..3 * MIB as usize, 39 * MIB as usize..40 * MIB as usize + 512] {
        random_words(&mut bytes[part.clone()], part.start as u64);
    }
    let file = File::create(place.path(name)).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    file.write_all_at(&bytes[..3 * MIB as usize], 0).unwrap();
    file.write_all_at(&bytes[39 * MIB as usize..], 39 * MIB).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
    bytes
}

fn modified(place: &Place, name: &str) -> SystemTime {
    fs::metadata(place.path(name)).unwrap().modified().unwrap()
}

fn compare(place: &Place, name: &str) {
    let said = judge(place, "qemu-img", &["compare", "-f", "raw", "-F", "raw", name, URI]);
    assert!(said.contains("Images are identical"), "{said}");
}

/// An image is served byte for byte and in its size through every kind of device. Data that clients write and trim
/// stays changed until the server ends, and the image never changes.
#[test]
fn an_image_is_served_and_stays_as_it_is() {
    let place = Place::new();
    flash(&place, "device.toml", false, 8);
    let bytes = image(&place, "disk.img");
    let before = modified(&place, "disk.img");
    let devices = [
        "./device.toml",
        "exflash-400g",
        "nvdimm-n-32g",
        "hdd-15k-sas-80g",
        "exflash-400g --speed native",
    ];
    for device in devices {
        let server = Served::start(&place, &format!("{device} --no-floor --image disk.img"));
        assert!(server.announced("image ").contains("disk.img, read only"), "{}", server.said());
        assert_eq!(judge(&place, "nbdinfo", &["--size", URI]).trim(), bytes.len().to_string());
        compare(&place, "disk.img");
        let map = judge(&place, "nbdinfo", &["--map", "--totals", URI]);
        assert!(map.contains("hole,zero"), "{device}: {map}");
        let mut commands = vec!["write -P 5 1000000 300000", "write -z 2M 64k", "flush"];
        commands.extend(["read -P 5 1000000 300000", "read -P 0 2M 64k"]);
        if !device.contains("hdd") {
            // A disk has nothing to trim.
            commands.extend(["discard 512k 64k", "read -P 0 512k 64k"]);
        }
        let all: Vec<&str> = commands.into_iter().flat_map(|c| ["-c", c]).collect();
        let said =
            judge(&place, "qemu-io", &[&["-d", "unmap", "-f", "raw", URI], &all[..]].concat());
        assert!(!said.contains("failed"), "{device}: {said}");
        // What was not touched is still the image's.
        let mut end = vec![0; MIB as usize + 512];
        server.client().read(39 * MIB, &mut end).unwrap();
        assert!(end == bytes[39 * MIB as usize..], "{device}");
        server.stop();
        assert!(fs::read(place.path("disk.img")).unwrap() == bytes, "{device}");
        assert_eq!(modified(&place, "disk.img"), before, "{device}");
        assert!(!place.path("disk.img.sums").exists());
    }
}

/// A power cut loses the same writes over an image as over an empty volume, and nothing of the image.
#[test]
fn a_power_cut_takes_nothing_of_an_image() {
    let place = Place::new();
    flash(&place, "device.toml", false, 0);
    let bytes = image(&place, "disk.img");
    let server = Served::start(&place, "./device.toml --no-floor --dilate 5000 --image disk.img");
    let mut client = server.client();
    client.write(8192, &[9; 4096], CmdFlags::FUA).unwrap();
    client.write(16_384 + 512, &[8; 1024], CmdFlags::NONE).unwrap();
    server.fault("power-cut");
    let volume = server.status()["volumes"][0].clone();
    assert_eq!((whole(&volume["dropped_writes"]), whole(&volume["dropped_bytes"])), (1, 1024));
    let mut found = vec![0; MIB as usize];
    server.client().read(0, &mut found).unwrap();
    let mut wanted = bytes[..MIB as usize].to_vec();
    wanted[8192..12_288].fill(9);
    assert!(found == wanted);
    server.stop();
}

/// With --write-image, the image holds the volume: flushed data is in it, and no checksum file stays next to it,
/// because writes of other programs would not update it.
#[test]
fn an_image_is_written_in_place_where_that_is_asked_for() {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    let mut bytes = image(&place, "disk.img");
    let words = "./device.toml --no-floor --image disk.img --write-image";
    let server = Served::start(&place, words);
    assert!(server.announced("image ").contains("which clients write to"));
    compare(&place, "disk.img");
    server.client().write(5000, &[7; 10_000], CmdFlags::NONE).unwrap();
    server.client().command(Kind::Trim, CmdFlags::NONE, 2 * MIB, 65_536).unwrap();
    bytes[5000..15_000].fill(7);
    bytes[2 * MIB as usize..2 * MIB as usize + 65_536].fill(0);
    server.stop();
    assert!(fs::read(place.path("disk.img")).unwrap() == bytes);
    assert!(!place.path("disk.img.sums").exists());

    // Another program writes to it while it is served.
    File::options()
        .write(true)
        .open(place.path("disk.img"))
        .unwrap()
        .write_all_at(&[3; 512], 5120)
        .unwrap();
    let server = Served::start(&place, words);
    compare(&place, "disk.img");
    place
        .iodyno("serve ./device.toml --image disk.img --nbd unix:2.sock")
        .fails(4, &["another server has this file open"]);
    server.kill();
    assert!(place.path("disk.img.sums").exists(), "they find what a killed server has cut");
    let server = Served::start(&place, words);
    compare(&place, "disk.img");
    server.stop();
    // A server that can't start leaves none either.
    fs::write(place.path("taken.sock"), "no socket").unwrap();
    let output =
        place.iodyno("serve ./device.toml --image disk.img --write-image --nbd unix:taken.sock");
    output.fails(4, &["taken.sock"]);
    assert!(!place.path("disk.img.sums").exists());
}

/// An image in another format is served through the program that reads it.
#[test]
fn an_export_of_another_server_is_served() {
    let place = Place::new();
    image(&place, "disk.img");
    judge(&place, "qemu-img", &["convert", "-f", "raw", "-O", "qcow2", "disk.img", "disk.qcow2"]);
    let before = fs::read(place.path("disk.qcow2")).unwrap();
    let socket = format!("--socket={}", place.path("q.sock").display());
    judge(
        &place,
        "qemu-nbd",
        &["--read-only", "--fork", "--pid-file=q.pid", &socket, "disk.qcow2"],
    );
    let uri = format!("nbd+unix:///?socket={}", place.path("q.sock").display());
    let server = Served::start(&place, &format!("hdd-10k-300g --no-floor --image {uri}"));
    compare(&place, "disk.img");
    let all = ["-c", "write -P 5 1000000 300000", "-c", "read -P 5 1000000 300000"];
    judge(&place, "qemu-io", &[&["-f", "raw", URI], &all[..]].concat());
    let pid = fs::read_to_string(place.path("q.pid")).unwrap();
    judge(&place, "kill", &[pid.trim()]);
    // What it had is gone with it: an error, and what was written here is still there.
    let mut client = server.client();
    client.read(1_000_000, &mut [0; 4096]).unwrap();
    assert_eq!(client.read(39 * MIB, &mut [0; 4096]).unwrap_err().raw_os_error(), Some(libc::EIO));
    server.stop();
    assert!(fs::read(place.path("disk.qcow2")).unwrap() == before);
}

/// Volumes smaller and larger than the device, with and without an image. A record has the size, too.
#[test]
fn a_volume_has_the_size_that_is_asked_for() {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    let bytes = image(&place, "disk.img");
    for (words, size_bytes) in [
        ("./device.toml --size 10MiB", 10 * MIB),
        ("./device.toml --size 150MiB --record large", 150 * MIB),
        ("./device.toml --size 10MiB --backing own.img", 10 * MIB),
        ("./device.toml --size 50MiB --image disk.img", 50 * MIB),
        ("hdd-10k-300g --size 1GiB", 1 << 30),
        ("nvdimm-n-32g --size 1TiB", 1 << 40),
        ("exflash-400g --speed native --size 10MiB", 10 * MIB),
    ] {
        let server = Served::start(&place, &format!("{words} --no-floor"));
        assert_eq!(judge(&place, "nbdinfo", &["--size", URI]).trim(), size_bytes.to_string());
        let volume = server.status()["volumes"][0].clone();
        assert_eq!(whole(&volume["capacity_bytes"]), size_bytes, "{words}: {volume}");
        let mut client = server.client();
        let mut last = [1; 4096];
        client.read(size_bytes - 4096, &mut last).unwrap();
        assert_eq!(last, [0; 4096], "{words}");
        client.write(size_bytes - 4096, &[7; 4096], CmdFlags::FUA).unwrap();
        client.read(size_bytes - 4096, &mut last).unwrap();
        assert_eq!(last, [7; 4096], "{words}");
        assert!(client.write(size_bytes - 4096, &[7; 8192], CmdFlags::NONE).is_err(), "{words}");
        if words.contains("disk.img") {
            let end = 39 * MIB as usize;
            let mut all = vec![1; bytes.len() - end];
            client.read(end as u64, &mut all).unwrap();
            assert!(all == bytes[end..]);
        }
        server.stop();
    }
    assert_eq!(fs::metadata(place.path("own.img")).unwrap().len(), 10 * MIB);
    assert!(place.iodyno("replay large").succeeds().stdout.contains("the same events"));
}

#[test]
fn what_can_not_be_served_is_refused() {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    image(&place, "disk.img");
    fs::write(place.path("empty.img"), []).unwrap();
    for (words, code, says) in [
        ("--image nope.img", 4, &["nope.img", "No such file"][..]),
        ("--image .", 4, &["a folder", "qemu-nbd"]),
        ("--image empty.img", 4, &["an empty file"]),
        ("--image empty.img --write-image", 4, &["an empty file", "use --backing"]),
        (
            "--image disk.img --size 10MiB",
            2,
            &["would cut off a part of disk.img, which has 41943552"],
        ),
        ("--image disk.img --image disk.img", 2, &["1 volume, but 2 files in --image"]),
        ("--image disk.img --backing other.img", 2, &["cannot be used with"]),
        ("--image disk.img --write-image --size 64MiB", 2, &["cannot be used with"]),
        ("--write-image", 2, &["--image"]),
        ("--image nbd+unix:///?socket=none.sock", 4, &["none.sock"]),
        ("--image nbd+unix:///?socket=none.sock --write-image", 2, &["requires a file"]),
        ("--image nbd+unix:///", 2, &["--image nbd+unix:///"]),
        ("--backing disk.img", 4, &["41943552 bytes", "with --image"]),
        (
            "--size 1TiB",
            2,
            &["device can have at most", "at least 1 % of the flash must stay spare"],
        ),
        ("--size 1000", 2, &["a multiple of 512 bytes"]),
    ] {
        let output = place.iodyno(&format!("serve ./device.toml {words} --nbd unix:nbd.sock"));
        output.fails(code, says);
    }
    let output = place.iodyno("serve hdd-10k-300g --size 400GB --nbd unix:nbd.sock");
    output.fails(2, &["at most 279 GiB (300000000000 bytes): a disk can't have more tracks"]);
    for flag in ["--size 1GiB", "--image disk.img"] {
        let output = place.iodyno(&format!("serve ram:64MiB {flag} --nbd unix:nbd.sock"));
        output.fails(2, &["is for emulated storage"]);
    }
    let mut names: Vec<_> =
        fs::read_dir(place.work()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["device.toml", "disk.img", "empty.img"], "nothing else is left");
}

/// An image in another format, whose own bytes clients would see and overwrite, is refused by its content: read or
/// written, as a file or behind a server that takes it for raw.
#[test]
fn an_image_in_another_format_is_refused() {
    let place = Place::new();
    for format in ["qcow2", "vmdk", "vdi", "vhdx", "vpc"] {
        judge(&place, "qemu-img", &["create", "-q", "-f", format, "disk", "4M"]);
        let before = fs::read(place.path("disk")).unwrap();
        for flags in ["", "--write-image"] {
            let words = format!("serve exflash-400g --nbd unix:s --image disk {flags}");
            place.iodyno(&words).fails(2, &["not raw", "qemu-nbd", "qemu-img convert -O raw"]);
        }
        assert!(fs::read(place.path("disk")).unwrap() == before, "{format}");
    }
    // A server that takes it for raw.
    judge(&place, "qemu-img", &["create", "-q", "-f", "qcow2", "disk", "4M"]);
    let mut nbd = Command::new("qemu-nbd");
    nbd.args(["-f", "raw", "-k"]).args([place.path("q.sock"), place.path("disk")]);
    let mut nbd = nbd.spawn().unwrap();
    let uri = format!("nbd+unix:///?socket={}", place.path("q.sock").display());
    while !place.path("q.sock").exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    place.iodyno(&format!("serve exflash-400g --image {uri}")).fails(2, &["qcow2"]);
    let _ = nbd.kill();
    nbd.wait().unwrap();
    place.write("disk.img", b"\x1F\x8B\x08 packed".repeat(1000));
    place.iodyno("serve exflash-400g --image disk.img").fails(2, &["gzip", "unpack"]);
    // To be measured it is a file like others: not iodyno's, and readable.
    judge(&place, "qemu-img", &["create", "-q", "-f", "qcow2", "disk", "4M"]);
    let run = "--on disk --ops 4 --ramp 0s --no-notebook -q";
    place.iodyno(&format!("run random-write {run}")).fails(3, &["qcow2"]);
    place.iodyno(&format!("run random-read {run}")).succeeds();
    assert!(place.iodyno("check disk").stdout.contains("not of the disk"));
}
