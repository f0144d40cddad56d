//! Power cuts, and servers that die during a write: the data that must survive does, on a device with a protected
//! buffer, on one with a volatile buffer, and at native speed.
//!
//! For more of them: `IODYNO_SERVE_KILLS=1000 IODYNO_SERVE_CUTS=1000 cargo test --release -p iodyno --test it
//! serve_cuts::`; `IODYNO_SERVE_SEED=7` selects another history. Each of the four set-ups is killed, and each of the
//! two devices is cut, that often.

use crate::place::{Place, whole};
use crate::serve::{SIZE, Served, flash};
use crate::serve_stamps::{Stamps, Writer};
use iodyno_nbd::client::{Blocking, Uri};
use iodyno_nbd::{CmdFlags, Errno, Kind};
use iodyno_units::rng::{below, stream};
use std::time::Duration;

/// Value of an environment variable as a number; `None` if it is not set.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|n| n.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Cuts the power while sixteen writes are in flight, three times or as often as the environment says. Returns the
/// number of acknowledged units that were lost. (A device that takes a few µs for a write is dilated, so that some
/// are.)
fn cuts(device: &str, is_protected: bool) -> u64 {
    let place = Place::new();
    let server = Served::start(&place, &format!("{device} --no-floor"));
    let mut stamps = Stamps::new(is_protected, setting("IODYNO_SERVE_SEED").unwrap_or(1));
    let mut lost_units = 0;
    // Each round has two.
    for round in 0..setting("IODYNO_SERVE_CUTS").map_or(3, |cuts| cuts.div_ceil(2)) {
        let mut writer = Writer::new(&server, &mut stamps);
        writer.drive(200, true);
        // No flush is in progress at the cut: for one that is answered about then, it would be
        // unknown whether it came before or after the cut.
        writer.drain().unwrap();
        writer.drive(20, false);
        std::thread::scope(|scope| {
            scope.spawn(|| server.fault("power-cut"));
            writer.drive_to_end();
        });
        lost_units += stamps.check(&server, &format!("{device}, cut {round}")).lost_units;
        // And once more while it hangs, so that some requests are certainly in flight.
        let failed = (0..5).any(|_| {
            let mut writer = Writer::new(&server, &mut stamps);
            server.fault("hang");
            writer.fill(false);
            // The server usually receives them in that time.
            server.status();
            server.fault("power-cut");
            server.fault("clear");
            let ended = writer.drain();
            ended.is_err() || writer.failed > 0
        });
        assert!(failed, "what was in flight has not failed");
        lost_units += stamps.check(&server, &format!("{device}, cut {round}")).lost_units;
    }
    // The server counts each lost version of a unit, and those that were written again before the check.
    let volume = server.status()["volumes"][0].clone();
    let dropped = ["dropped_writes", "dropped_bytes"].map(|key| whole(&volume[key]));
    assert!(dropped[1] >= lost_units * 4096, "{device}: {lost_units} units, {dropped:?}");
    assert_eq!(dropped.map(|n| n > 0), [!is_protected; 2], "{device}: {dropped:?}");
    server.stop();
    lost_units
}

/// Power that stays off loses the data that the server states, and ends connections. A client that connects in that
/// time gets errors until the power is back.
#[test]
fn power_that_is_off_takes_what_the_server_says() {
    const UNITS: usize = 40;
    let place = Place::new();
    flash(&place, "device.toml", false, 0);
    // So slow that its programs take a second, and that a part of these writes is still in the buffer.
    let server = Served::start(&place, "./device.toml --no-floor --dilate 5000");
    let (mut client, mut crowd) = (server.client(), server.crowd(UNITS as u32));
    let mut units: Vec<[u8; 4096]> = (0..UNITS).map(|unit| [unit as u8 + 1; 4096]).collect();
    for (unit, bytes) in (0..).zip(&mut units) {
        crowd.send(unit, (Kind::Write, CmdFlags::NONE), u64::from(unit) * 4096, bytes);
    }
    let mut answers = Vec::new();
    while answers.len() < units.len() {
        answers.extend(crowd.answers().unwrap());
    }
    assert!(answers.iter().all(|answer| answer.1.is_ok()), "{answers:?}");
    let said = server.fault("power-off");
    let cut = client.command(Kind::Flush, CmdFlags::NONE, 0, 0).unwrap_err();
    assert_ne!(cut.raw_os_error(), Some(Errno::Shutdown.code() as i32), "the connection has ended");
    let mut client = server.client();
    let status = server.status()["volumes"][0].clone();
    assert_eq!(status["power_off"], true, "{status}");
    let gone = Some(Errno::Shutdown.code() as i32);
    let error = |result: std::io::Result<()>| result.unwrap_err().raw_os_error();
    assert_eq!(error(client.read(0, &mut [0; 4096])), gone);
    assert_eq!(error(client.write(0, &[0; 4096], CmdFlags::NONE)), gone);
    assert_eq!(error(client.command(Kind::Flush, CmdFlags::NONE, 0, 0)), gone);
    server.try_fault("power-cut").fails(2, &["the power is off: use power-on first"]);
    let output = place.iodyno("status --control ctl.sock").succeeds().stdout.clone();
    assert!(output.contains("!             the power is off: everything fails"), "{output}");
    server.fault("clear 0");
    assert_eq!(server.status()["volumes"][0]["power_off"], true);
    assert_eq!(server.fault("power-on"), "the power is on\n");
    let mut bytes = vec![0; 4096 * UNITS];
    client.read(0, &mut bytes).unwrap();
    let found = bytes.chunks(4096).zip(&units);
    let lost = found.filter(|(found, written)| *found != &written[..]).map(|(found, _)| found);
    let lost = lost.inspect(|found| assert_eq!(*found, [0; 4096])).count() as u64;
    assert!(lost > 0, "all of it had landed");
    assert_eq!(whole(&status["dropped_writes"]), lost);
    assert_eq!(whole(&status["dropped_bytes"]), lost * 4096);
    let says = format!("lost {lost} writes ({})", iodyno_units::human::size(lost * 4096));
    assert!(said.contains(&says) && said.contains("the power is off until power-on"), "{said}");
    // `clear` gives the power back too.
    server.fault("power-off");
    server.fault("clear");
    client.read(0, &mut [0; 4096]).unwrap_err();
    server.client().read(0, &mut [0; 4096]).unwrap();
    server.fault("power-off");
    server.stop();
}

/// Writes 16 KiB to each of many blocks of a drive whose file has this rule for power cuts, and cuts the power as soon as
/// all are acknowledged. Returns for each block which of its sectors survived.
fn cut_blocks(atomic: &str, order: &str) -> Vec<Vec<bool>> {
    const BLOCKS: usize = 60;
    const BLOCK: usize = 16 << 10;
    let place = Place::new();
    flash(&place, "device.toml", false, 0);
    let text = std::fs::read_to_string(place.path("device.toml")).unwrap();
    let source = "from = \"assumed: as the test has it\"";
    place.write(
        "device.toml",
        format!(
            "{text}[power_cut]\natomic = {{ is = \"{atomic}\", {source} }}\norder = {{ is = \"{order}\", {source} }}\n"
        ),
    );
    // So slow that most of it is still in the buffer.
    let server = Served::start(&place, "./device.toml --no-floor --dilate 5000");
    let mut crowd = server.crowd(BLOCKS as u32);
    let mut written: Vec<Vec<u8>> = (1..=BLOCKS).map(|stamp| vec![stamp as u8; BLOCK]).collect();
    for (block, bytes) in (0..).zip(&mut written) {
        let offset = u64::from(block) * BLOCK as u64;
        crowd.send(block, (Kind::Write, CmdFlags::NONE), offset, bytes);
    }
    let mut answers = Vec::new();
    while answers.len() < BLOCKS {
        answers.extend(crowd.answers().unwrap());
    }
    assert!(answers.iter().all(|answer| answer.1.is_ok()), "{answers:?}");
    server.fault("power-cut");
    let mut bytes = vec![0; BLOCKS * BLOCK];
    server.client().read(0, &mut bytes).unwrap();
    let blocks = bytes.chunks(BLOCK).zip(1..);
    let blocks: Vec<Vec<bool>> = blocks
        .map(|(block, stamp)| {
            let survives = |sector: &[u8]| {
                assert!(sector == [stamp; 512] || sector == [0; 512], "a torn sector");
                sector[0] == stamp
            };
            block.chunks(512).map(survives).collect()
        })
        .collect();
    let lost = blocks.iter().flatten().filter(|survives| !**survives).count() as u64;
    let volume = server.status()["volumes"][0].clone();
    assert_eq!(whole(&volume["dropped_bytes"]), lost * 512, "{atomic}, {order}");
    let kept = (BLOCKS * BLOCK / 512) as u64 - lost;
    assert!(lost > 0 && kept > 0, "{atomic}, {order}: {lost} sectors lost, {kept} kept");
    server.stop();
    blocks
}

/// A power cut leaves whole blocks of the size that the device's file states, and tears larger ones; in order, if the file
/// says so.
#[test]
fn a_power_cut_leaves_whole_blocks() {
    let is_torn = |sectors: &[bool]| sectors.contains(&true) && sectors.contains(&false);
    let torn = |blocks: &[Vec<bool>], sectors: usize| -> usize {
        let all = blocks.iter().flat_map(|block| block.chunks(sectors));
        all.filter(|sectors| is_torn(sectors)).count()
    };
    let blocks = cut_blocks("16KiB", "any");
    assert_eq!(torn(&blocks, 32), 0, "blocks of 16 KiB");
    let blocks = cut_blocks("512B", "any");
    assert!(torn(&blocks, 8) > 0, "no unit of 4 KiB is torn: {blocks:?}");
    let blocks = cut_blocks("4KiB", "acknowledged");
    assert_eq!(torn(&blocks, 8), 0, "units of 4 KiB");
    let survives: Vec<bool> = blocks.concat();
    assert!(survives.is_sorted_by(|a, b| a >= b), "a later write survives: {blocks:?}");
}

/// After a loss of data, no client can continue without an error. A power failure ends its connection. If a device
/// alone loses data while the host stays up, the next flush of each client fails, once.
#[test]
fn no_loss_is_followed_by_a_flush_that_succeeds() {
    let place = Place::new();
    flash(&place, "device.toml", false, 0);
    let server = Served::start(&place, "./device.toml*2 --no-floor --dilate 5000");
    let flush = |client: &mut Blocking| client.command(Kind::Flush, CmdFlags::NONE, 0, 0);
    let other = "nbd+unix:///device-2?socket=";
    let other: Uri = format!("{other}{}", place.path("nbd.sock").display()).parse().unwrap();
    for fault in
        [&["power-cut"][..], &["power-off", "power-on"], &["lose", "clear 0"], &["replace"]]
    {
        let (mut client, mut idle) = (server.client(), server.client());
        let mut other = Blocking::connect(&other).unwrap();
        let is_power = fault[0].starts_with("power");
        client.write(0, &[7; 4096], CmdFlags::NONE).unwrap();
        other.write(0, &[7; 4096], CmdFlags::FUA).unwrap();
        let said: String = fault.iter().map(|words| server.fault(words)).collect();
        assert_eq!(said.contains("connections and open files were closed"), is_power, "{said}");
        assert_eq!(
            said.contains("the next flush on each connection fails"),
            fault[0] == "lose",
            "{said}"
        );
        for client in [&mut client, &mut idle] {
            flush(client).unwrap_err();
        }
        if is_power {
            client.read(0, &mut [0; 4096]).unwrap_err();
            flush(&mut other).unwrap_err();
        } else {
            client.write(0, &[8; 4096], CmdFlags::FUA).unwrap();
            flush(&mut client).unwrap();
            flush(&mut other).unwrap();
        }
        flush(&mut server.client()).unwrap();
    }
    // A buffer that had nothing to lose: all flushed before.
    let mut client = server.client();
    client.write(0, &[9; 4096], CmdFlags::FUA).unwrap();
    server.fault("lose");
    server.fault("clear");
    flush(&mut client).unwrap();
    server.stop();
}

#[test]
fn a_protected_buffer_loses_nothing_that_was_acknowledged() {
    assert_eq!(cuts("exflash-400g --dilate 100", true), 0);
}

#[test]
fn a_volatile_cache_loses_what_was_not_flushed_and_nothing_else() {
    assert!(cuts("ssd-msata-mlc-128g --dilate 30", false) > 0, "three power cuts took nothing");
}

/// Kills servers at random moments, each on the files that the previous one left. Returns the number of acknowledged
/// units that were lost.
fn kills(words: &str, is_protected: bool) -> u64 {
    let place = Place::new();
    flash(&place, "device.toml", is_protected, 0);
    let words = format!("./device.toml --no-floor {words}");
    if words.contains("--image") {
        std::fs::File::create(place.path("image")).unwrap().set_len(SIZE).unwrap();
    }
    let seed = setting("IODYNO_SERVE_SEED").unwrap_or(2);
    let mut stamps = Stamps::new(is_protected, seed);
    let mut random = stream(seed, "kills", 0);
    let mut lost_units = 0;
    for round in 0..setting("IODYNO_SERVE_KILLS").unwrap_or(9) {
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
    assert_eq!(kills("--backing image", true), 0);
}

#[test]
// (Dilated, so that some writes wait in the buffer at every kill.)
fn a_server_that_is_killed_keeps_what_was_flushed() {
    assert!(
        kills("--backing image --dilate 100", false) > 0,
        "ten kills took nothing from a volatile buffer"
    );
}

#[test]
fn a_server_that_is_killed_at_native_speed_has_lost_nothing() {
    assert_eq!(kills("--backing image --speed native", true), 0);
}

/// The writes go to an image that existed before.
#[test]
fn a_killed_server_on_an_image_keeps_acknowledged_writes_in_it() {
    assert_eq!(kills("--image image --write-image", true), 0);
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
