//! The reply to a fault states its effect on readers: for each fault of the medium, on each kind of device, at a
//! place with data and at one without.

use crate::place::{A_MOMENT, Place};
use crate::serve::{MIB, Served, flash};
use iodyno_nbd::{CmdFlags, Kind};
use std::time::{Duration, Instant};

/// Effect on reads that the reply to a fault promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Fails,
    Rebuilt,
    NoEffect,
}
use Says::{Fails, NoEffect, Rebuilt};

const FAULTS: [&str; 4] = ["latent", "corrupt", "page", "block"];

fn says(reply: &str) -> Says {
    if reply.contains("no effect: ") {
        NoEffect
    } else if reply.contains("reads succeed") {
        Rebuilt
    } else {
        Fails
    }
}

/// Whether any of several reads fails. One read is not enough, because an array reads from its members in turn.
fn fails(server: &Served<'_>, offset_bytes: u64) -> bool {
    let mut client = server.client();
    (0..4).any(|_| client.read(offset_bytes, &mut [0; 4096]).is_err())
}

fn wait_until_landed(server: &Served<'_>) {
    server.client().command(Kind::Flush, CmdFlags::NONE, 0, 0).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while server.status()["volumes"][0]["buffered_bytes"].as_u64().unwrap_or(0) > 0 {
        assert!(Instant::now() < deadline, "the buffer does not empty: {}", server.status());
        std::thread::sleep(A_MOMENT);
    }
}

/// The reply to a fault that is injected once the data is on the medium.
fn landed_reply(server: &Served<'_>, fault: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let reply = server.fault(fault);
        if !reply.contains("is still in the write buffer") {
            return reply;
        }
        assert!(Instant::now() < deadline, "{reply}");
        wait_until_landed(server);
    }
}

#[test]
fn replies_say_what_readers_see() {
    let fresh = [NoEffect; 4];
    for (device, written, unwritten) in [
        ("./plain.toml?state=fresh", [Fails; 4], fresh),
        ("./parity.toml?state=fresh", [Rebuilt; 4], fresh),
        // Every place of a preconditioned device holds data, though not the clients'.
        ("./plain.toml", [Fails; 4], [Fails, NoEffect, Fails, Fails]),
        ("exflash-400g", [Rebuilt; 4], [Rebuilt, NoEffect, Rebuilt, Rebuilt]),
        (
            "hdd-nearline-20t",
            [Fails, Fails, NoEffect, NoEffect],
            [Fails, NoEffect, NoEffect, NoEffect],
        ),
        (
            "ramdisk-ddr3-16g",
            [Fails, Fails, NoEffect, NoEffect],
            [Fails, NoEffect, NoEffect, NoEffect],
        ),
        ("raid1(./plain.toml*2)?state=fresh", [Rebuilt; 4], fresh),
        ("raid5(./parity.toml*3)?state=fresh", [Rebuilt; 4], fresh),
        ("raid0(./plain.toml*2)?state=fresh", [Fails; 4], fresh),
    ] {
        let place = Place::new();
        flash(&place, "plain.toml", false, 0);
        flash(&place, "parity.toml", false, 8);
        let server = Served::start(&place, &format!("{device} --no-floor"));
        server.client().write(0, &vec![7; 256 << 10], CmdFlags::FUA).unwrap();
        wait_until_landed(&server);
        for (at, expected) in [(0, written), (64 * MIB, unwritten)] {
            for (fault, expected) in FAULTS.into_iter().zip(expected) {
                let reply = landed_reply(&server, &format!("{fault} {at}"));
                let what = format!("{device}: {reply}");
                assert_eq!(says(&reply), expected, "{what}");
                assert_eq!(fails(&server, at), expected == Fails, "{what}");
                server.fault("clear");
            }
        }
        server.stop();
    }
}

/// Data in the write buffer repairs the damaged range when it reaches the medium.
#[test]
fn a_fault_below_buffered_data_has_no_effect() {
    let place = Place::new();
    flash(&place, "plain.toml", false, 0);
    let server = Served::start(&place, "./plain.toml?state=fresh --no-floor --dilate 50");
    for fault in FAULTS {
        let mut client = server.client();
        client.write(0, &[7; 4096], CmdFlags::NONE).unwrap();
        let reply = server.fault(&format!("{fault} 0"));
        // (This machine may have taken longer than the landing.)
        let was_buffered = says(&reply) == NoEffect;
        assert!(!was_buffered || reply.contains("is still in the write buffer"), "{reply}");
        if was_buffered {
            let mut found = [0; 4096];
            client.read(0, &mut found).unwrap();
            assert_eq!(found, [7; 4096]);
            wait_until_landed(&server);
            assert!(!fails(&server, 0), "{reply}");
        }
        server.fault("clear");
        wait_until_landed(&server);
    }
    server.stop();
}

/// The reply to a fault that changes nothing says so.
#[test]
fn faults_that_are_in_effect_already_are_named() {
    let place = Place::new();
    flash(&place, "plain.toml", false, 0);
    place.write("disk.img", vec![1; MIB as usize]);
    let server = Served::start(&place, "./plain.toml --no-floor --image disk.img");
    for words in ["hang", "lose", "power-off"] {
        assert_eq!(says(&server.fault(words)), Fails, "{words}");
        assert_eq!(says(&server.fault(words)), NoEffect, "{words}");
        server.fault("clear");
    }
    for (words, why) in [
        ("power-on", "the power is already on"),
        ("resize 1MiB", "it already has that size"),
        ("full", "the whole volume already holds data"),
    ] {
        let reply = server.fault(words);
        assert!(says(&reply) == NoEffect && reply.contains(why), "{words}: {reply}");
    }
    server.stop();
    let server = Served::start(&place, "raid1(ssd-gen3-emlc*2)@57ce-gen3 --no-floor");
    for words in ["link-down aa 0", "lose adapter 1", "cache-battery-fail adapter 0"] {
        assert_eq!(says(&server.fault(words)), Fails, "{words}");
        assert_eq!(says(&server.fault(words)), NoEffect, "{words}");
    }
    server.stop();
}
