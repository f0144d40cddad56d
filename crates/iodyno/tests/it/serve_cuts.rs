//! Power cuts and servers that die in mid-write: the data that must survive are there, on a device
//! with a protected buffer, on one with a volatile one, and at native speed.

use crate::place::Place;
use crate::serve::{Served, flash};
use crate::serve_stamps::{Stamps, Writer};
use iodyno_units::rng::{below, stream};
use std::time::Duration;

/// The power fails while sixteen writes are in flight, three times. Gives how many acknowledged
/// units were lost. (A device that takes a few µs for a write is dilated, so that some are.)
fn cuts(device: &str, is_protected: bool) -> u64 {
    let place = Place::new();
    let server = Served::start(&place, &format!("{device} --no-floor"));
    let mut stamps = Stamps::new(is_protected, 1);
    let mut lost_units = 0;
    for round in 0..3 {
        let mut writer = Writer::new(&server, &mut stamps);
        writer.drive(200, true);
        // No flush is in progress at the cut: for one that is answered about then, it would be
        // unknown whether it came before or after the cut.
        writer.drain().unwrap();
        writer.drive(20, false);
        std::thread::scope(|scope| {
            let cut = scope.spawn(|| server.fault("power-cut"));
            while !cut.is_finished() {
                writer.fill(false);
                writer.take().unwrap();
            }
        });
        writer.drain().unwrap();
        // And once more while it hangs, so that some requests are certainly in flight.
        let failed_before = writer.failed;
        let failed = (0..5).any(|_| {
            server.fault("hang");
            writer.fill(false);
            // The server usually receives them meanwhile.
            server.status();
            server.fault("power-cut");
            server.fault("clear");
            writer.drain().unwrap();
            writer.failed > failed_before
        });
        assert!(failed, "what was in flight has not failed");
        drop(writer);
        lost_units += stamps.check(&server, &format!("{device}, cut {round}")).lost_units;
    }
    server.stop();
    lost_units
}

#[test]
fn a_protected_buffer_loses_nothing_that_was_acknowledged() {
    assert_eq!(cuts("exflash-400g --dilate 100", true), 0);
}

#[test]
fn a_volatile_cache_loses_what_was_not_flushed_and_nothing_else() {
    assert!(cuts("ssd-msata-mlc-128g --dilate 30", false) > 0, "three power cuts took nothing");
}

/// Kills servers at random moments, each on the files that the one before has left. Gives how many
/// acknowledged units were lost.
fn kills(words: &str, is_protected: bool) -> u64 {
    let place = Place::new();
    flash(&place, "device.toml", is_protected, 0);
    let words = format!("./device.toml --no-floor --backing image {words}");
    let mut stamps = Stamps::new(is_protected, 2);
    let mut random = stream(2, "kills", 0);
    let mut lost_units = 0;
    for round in 0..9 {
        let server = Served::start(&place, &words);
        lost_units += stamps.check(&server, &format!("`{words}`, kill {round}")).lost_units;
        let mut writer = Writer::new(&server, &mut stamps);
        writer.drive(below(&mut random, 300), true);
        writer.fill(true);
        std::thread::sleep(Duration::from_micros(below(&mut random, 2000)));
        server.kill();
        // Writes that the dead server had answered count.
        let _ = writer.drain();
    }
    let server = Served::start(&place, &words);
    lost_units += stamps.check(&server, "the last").lost_units;
    server.stop();
    lost_units
}

#[test]
fn a_killed_server_keeps_acknowledged_writes_of_a_protected_buffer() {
    assert_eq!(kills("", true), 0);
}

#[test]
// (Dilated, so that some writes wait in the buffer at every kill.)
fn a_server_that_is_killed_keeps_what_was_flushed() {
    assert!(kills("--dilate 100", false) > 0, "ten kills took nothing from a volatile buffer");
}

#[test]
fn a_server_that_is_killed_at_native_speed_has_lost_nothing() {
    assert_eq!(kills("--speed native", true), 0);
}

/// A server that is stopped is like a computer that is shut down: its disks are flushed first.
#[test]
fn a_server_that_is_stopped_loses_nothing_either() {
    // (Dilated, so that a volatile buffer holds some writes at the end.)
    for (words, is_protected) in [("--dilate 30", false), ("", true), ("--speed native", true)] {
        let place = Place::new();
        flash(&place, "device.toml", is_protected, 0);
        let words = format!("./device.toml --no-floor --backing image {words}");
        let mut stamps = Stamps::new(true, 3);
        for signal in [libc::SIGINT, libc::SIGTERM] {
            let server = Served::start(&place, &words);
            stamps.check(&server, &words);
            let mut writer = Writer::new(&server, &mut stamps);
            writer.drive(200, false);
            writer.fill(false);
            server.stop_by(signal);
            let _ = writer.drain();
        }
        let server = Served::start(&place, &words);
        assert_eq!(stamps.check(&server, &words).lost_units, 0);
        server.stop();
    }
}
