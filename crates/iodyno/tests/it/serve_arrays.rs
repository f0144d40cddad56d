//! Served arrays: members that are lost and replaced while clients read and write, and their bytes in a folder across
//! stops and kills of the server.

use crate::place::{A_MOMENT, Place, whole};
use crate::serve::{MIB, SIZE, Served, URI, flash, judge};
use iodyno_nbd::client::Blocking;
use iodyno_nbd::{CmdFlags, Kind};
use iodyno_units::rng::{below, stream};
use serde_json::Value;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

/// Data of three members.
const BYTES: u64 = 3 * SIZE;
const RAID5: &str = "raid5(./device.toml*4) --no-floor --backing array";

fn place() -> Place {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    place
}

/// Expected content of a volume.
pub(crate) struct Expected(Vec<u8>);

impl Expected {
    pub(crate) fn new(bytes: u64) -> Self {
        Self(vec![0; bytes as usize])
    }

    /// Writes at random offsets with random lengths, each with different bytes.
    pub(crate) fn write(&mut self, client: &mut Blocking, seed: u64) {
        let mut random = stream(seed, "serve-arrays", 0);
        for _ in 0..300 {
            let sectors = 1 + below(&mut random, 600);
            let at = below(&mut random, self.0.len() as u64 / 512 - sectors) * 512;
            let range = at as usize..(at + sectors * 512) as usize;
            let mut byte = below(&mut random, 256) as u8;
            for to in &mut self.0[range.clone()] {
                byte = byte.wrapping_mul(5).wrapping_add(1);
                *to = byte;
            }
            client.write(at, &self.0[range], CmdFlags::NONE).unwrap();
        }
    }

    /// Asserts that everything reads as expected, or, with `may_fail`, can't be read. Returns the number of unreadable
    /// MiB.
    #[track_caller]
    pub(crate) fn check(&self, client: &mut Blocking, may_fail: bool) -> u64 {
        let mut failed = 0;
        for at in (0..self.0.len() as u64).step_by(MIB as usize) {
            let mut bytes = vec![0; MIB as usize];
            match client.read(at, &mut bytes) {
                Ok(()) => {
                    let range = at as usize..(at + MIB) as usize;
                    assert!(bytes == self.0[range], "{} MiB: other bytes", at / MIB);
                }
                Err(e) => {
                    assert!(may_fail, "{} MiB: {e}", at / MIB);
                    failed += 1;
                }
            }
        }
        failed
    }
}

fn array(server: &Served<'_>) -> Value {
    server.status()["volumes"][0]["array"].clone()
}

/// Waits until the array is rebuilt.
#[track_caller]
pub(crate) fn wait_until_whole(server: &Served<'_>) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while whole(&array(server)["missing"]) > 0 {
        assert!(Instant::now() < deadline, "{}", array(server));
        std::thread::sleep(A_MOMENT);
    }
}

#[test]
fn an_array_serves_what_lost_members_held() {
    let place = place();
    let server = Served::start(&place, &format!("{RAID5} --record array.rec"));
    let (mut client, mut expected) = (server.client(), Expected::new(BYTES));
    expected.write(&mut client, 1);
    let said = server.fault("lose device 3");
    assert!(
        said.contains("device 3: missing") && said.contains("1 of 4 members missing"),
        "{said}"
    );
    assert_eq!(array(&server)["members"][3]["state"], "lost");
    expected.check(&mut client, false);
    expected.write(&mut client, 2);
    // (The rebuild may end before the answer.)
    let said = server.fault("replace device 3");
    assert!(
        ["member 3 is being rebuilt", "all members are present"].iter().any(|s| said.contains(s)),
        "{said}"
    );
    // While it is rebuilt, too.
    expected.write(&mut client, 3);
    wait_until_whole(&server);
    assert_eq!(array(&server)["rebuilt_members"], 1);
    server.fault("lose device 0");
    expected.check(&mut client, false);
    judge(&place, "qemu-img", &["map", "-f", "raw", URI]);
    // Two are more than it survives: errors, and never other bytes.
    let said = server.fault("lose device 1");
    assert!(said.contains("more than the array tolerates"), "{said}");
    let failed = expected.check(&mut client, true);
    assert!(failed > 100, "{failed}");
    server.fault("replace device 0");
    server.fault("replace device 1");
    wait_until_whole(&server);
    assert_eq!(array(&server)["data_lost"], true);
    assert!(expected.check(&mut client, true) > 100);
    server.stop();
    let replayed = place.iodyno("replay array.rec").succeeds().stdout.clone();
    assert!(replayed.contains("6 faults") && replayed.contains("the same events"), "{replayed}");
    // And another server can't know which data that is.
    let refused = place.iodyno(&format!("serve {RAID5} --nbd unix:nbd.sock"));
    refused.exits(4).says(&["some data of this array was lost"]);
}

/// A power cut on RAID 5 without a member loses the data of that member in rows with unflushed writes, flushed data
/// included. The answer states as much as the status counts and reads refuse.
#[test]
fn a_power_cut_prints_what_a_degraded_array_loses() {
    for cut in [&["power-cut"][..], &["power-off", "power-on"]] {
        let place = place();
        let server = Served::start(&place, "raid5(./device.toml*4) --no-floor");
        let mut client = server.client();
        client.write(0, &vec![1; 3 * MIB as usize], CmdFlags::NONE).unwrap();
        client.command(Kind::Flush, CmdFlags::NONE, 0, 0).unwrap();
        server.fault("lose device 0");
        client.write(MIB, &vec![2; MIB as usize], CmdFlags::NONE).unwrap();
        let said: Vec<String> = cut.iter().map(|fault| server.fault(fault)).collect();
        // One unwritten strip of 512 KiB in each of the two stripes.
        assert!(said.last().unwrap().contains("volume 0 lost 1 MiB of stored data"), "{said:?}");
        assert!(!said.concat().contains("no acknowledged write is lost"), "{said:?}");
        assert_eq!(array(&server)["lost_units"], 256);
        let mut client = server.client();
        let mut strip = vec![0; MIB as usize / 2];
        let fails = |at: u64| client.read(at * MIB / 2, &mut strip).is_err();
        assert_eq!((0..6).map(fails).filter(|&fails| fails).count(), 2);
        server.stop();
    }
}

#[test]
fn the_status_names_members_that_are_not_there() {
    let place = place();
    // So slow that a rebuild takes a minute.
    let server = Served::start(&place, "raid1(./device.toml*2)*2 --no-floor --dilate 100");
    let status = || place.iodyno("status --control unix:ctl.sock").succeeds().stdout.clone();
    assert!(!status().contains("member"), "{}", status());
    server.fault("lose device 3");
    assert!(status().contains("member 1 (device 3): lost"), "{}", status());
    // It is there again, but an array does not take back what lacks writes.
    let said = server.fault("clear device 3");
    assert!(said.contains("1 of 2 members missing"), "{said}");
    assert!(status().contains("member 1 (device 3): missing"), "{}", status());
    let said = server.fault("clear");
    assert!(said.contains("1 of 2 members missing") && said.contains("`replace 3`"), "{said}");
    server.fault("replace device 3");
    assert!(status().contains("member 1 (device 3): rebuilt to"), "{}", status());
    let metrics =
        place.iodyno("status --metrics --control unix:ctl.sock").succeeds().stdout.clone();
    let gauge = "iodyno_array_missing_members{volume=\"1\",device=\"raid1(device*2)\"} 1";
    assert!(metrics.contains(gauge), "{metrics}");
    for (words, message) in [
        ("lose device 4", "there is no device 4: the numbers are 0 to 3"),
        ("full 1", "volume 1 is an array"),
        ("resize 1MiB 2", "there is no volume 2: the numbers are 0 to 1"),
    ] {
        server.try_fault(words).exits(2).says(&[message]);
    }
    server.stop();
}

#[test]
fn a_folder_keeps_an_array() {
    let place = place();
    let mut expected = Expected::new(BYTES);
    let server = Served::start(&place, RAID5);
    expected.write(&mut server.client(), 1);
    server.stop();
    assert!(place.path("array/member-0").exists() && place.path("array/array.json").exists());
    // A member that is missing stays so: it holds old content.
    let server = Served::start(&place, RAID5);
    assert_eq!(array(&server)["missing"], 0);
    expected.check(&mut server.client(), false);
    server.fault("lose device 2");
    expected.write(&mut server.client(), 2);
    server.stop();
    let server = Served::start(&place, RAID5);
    assert!(server.announced("array ").contains("4 members; missing until replaced: 2"));
    expected.check(&mut server.client(), false);
    server.fault("replace device 2");
    wait_until_whole(&server);
    // Where nothing was written, a rebuilt member takes no space.
    let taken = |member: u32| {
        let path = place.path(&format!("array/member-{member}"));
        std::fs::metadata(path).unwrap().blocks() * 512
    };
    assert!(taken(2) < SIZE * 3 / 4 && taken(2) < 2 * taken(1), "{} {}", taken(2), taken(1));
    expected.write(&mut server.client(), 3);
    // A kill in mid-write: parity agrees with the data again, so every member can be lost.
    let mut crowd = server.crowd(16);
    let mut writes: Vec<Vec<u8>> = (0..16).map(|slot| vec![slot as u8; 40 << 10]).collect();
    for (slot, bytes) in (0..).zip(&mut writes) {
        let at = u64::from(slot) * 300 * 1024;
        expected.0[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        crowd.send(slot, (Kind::Write, CmdFlags::NONE), at, bytes);
    }
    crowd.push().unwrap();
    let mut answered = Vec::new();
    while answered.len() < 4 {
        answered.extend(crowd.answers().unwrap());
    }
    server.kill();
    drop(crowd);
    let server = Served::start(&place, RAID5);
    let mut client = server.client();
    // What was not acknowledged may be old or new: it is what is read now.
    let mut now = Expected::new(BYTES);
    for at in (0..BYTES).step_by(MIB as usize) {
        client.read(at, &mut now.0[at as usize..(at + MIB) as usize]).unwrap();
    }
    for (slot, _) in answered {
        let at = slot as usize * 300 * 1024;
        assert!(now.0[at..at + (40 << 10)].iter().all(|&byte| byte == slot as u8));
    }
    let end = 16 * 300 * 1024;
    assert!(now.0[end..] == expected.0[end..], "bytes that were not written have changed");
    for device in 0..4 {
        server.fault(&format!("lose device {device}"));
        now.check(&mut client, false);
        server.fault(&format!("replace device {device}"));
        wait_until_whole(&server);
    }
    // Killed while a member is missing, its data can't be computed from parity that may be of other data.
    server.fault("lose device 1");
    server.kill();
    let refused = place.iodyno(&format!("serve {RAID5} --nbd unix:nbd.sock"));
    refused.exits(4).says(&["write hole"]);
}

#[test]
fn a_member_whose_file_is_gone_is_missing() {
    let place = place();
    let mut expected = Expected::new(BYTES);
    let raid1 = "raid1(./device.toml*2) --no-floor --backing array";
    expected.0.truncate(SIZE as usize);
    let server = Served::start(&place, raid1);
    let bytes = vec![7; MIB as usize];
    server.client().write(5 * MIB, &bytes, CmdFlags::NONE).unwrap();
    server.stop();
    let remove = |name: &str| std::fs::remove_file(place.path(name)).unwrap();
    remove("array/member-0");
    remove("array/member-0.sums");
    let server = Served::start(&place, raid1);
    let mut found = vec![0; MIB as usize];
    server.client().read(5 * MIB, &mut found).unwrap();
    assert!(found == bytes);
    server.fault("replace device 0");
    wait_until_whole(&server);
    server.fault("lose device 1");
    found.fill(0);
    server.client().read(5 * MIB, &mut found).unwrap();
    assert!(found == bytes);
    // After a kill, too: copies have no parity that could be of other data.
    server.kill();
    let server = Served::start(&place, raid1);
    found.fill(0);
    server.client().read(5 * MIB, &mut found).unwrap();
    assert!(found == bytes);
    server.stop();
    for (words, message) in [
        ("raid5(./device.toml*3) --backing array", "the folder holds raid1("),
        ("raid1(./device.toml*2) --size 1MiB", "--size requires volumes of a single device"),
        ("raid1(./device.toml*2) --speed native", "--speed native requires volumes"),
        ("raid1(./device.toml*2) --image array/member-0", "--image requires volumes"),
    ] {
        let refused = place.iodyno(&format!("serve {words} --nbd unix:nbd.sock"));
        assert!(refused.code != Some(0), "{refused:?}");
        refused.says(&[message]);
    }
}

/// A device that is not hot-swappable can't be replaced while the power is on.
#[test]
fn a_memory_slot_is_not_opened_under_power() {
    let place = Place::new();
    let server = Served::start(&place, "exflash-400g --no-floor --memory 64MiB");
    server.try_fault("replace").fails(2, &["can't be replaced while powered on", "bay.hot_swap"]);
    server.fault("power-off");
    assert!(server.fault("replace").contains("an empty device"));
    assert!(server.fault("power-on").contains("the power is on"));
}

/// Without redundancy a lost device comes back with its data, and an empty one can't replace it.
#[test]
fn an_array_without_redundancy_takes_a_lost_device_back() {
    let place = place();
    for level in ["raid0", "jbod"] {
        let server = Served::start(&place, &format!("{level}(./device.toml*2) --no-floor"));
        let (mut client, mut expected) = (server.client(), Expected::new(2 * SIZE));
        expected.write(&mut client, 1);
        let said = server.fault("lose device 0");
        assert!(said.contains("device 0: missing until `clear`\n"), "{said}");
        assert!(expected.check(&mut client, true) > 0);
        let refused = server.try_fault("replace device 0");
        refused.exits(2).says(&["has no redundancy", "use `clear` to bring a lost device back"]);
        let said = server.fault("clear");
        assert!(!said.contains("replace"), "{said}");
        expected.check(&mut client, false);
        server.stop();
    }
}
