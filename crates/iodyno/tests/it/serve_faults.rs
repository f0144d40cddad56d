//! Injected faults while programs use the served storage: the effect of each on its clients, the end of the
//! effect, and the refusal of invalid commands.

use crate::place::{A_MOMENT, Place, number, whole};
use crate::serve::{MIB, SIZE, Served, URI, flash, judge, try_judge};
use iodyno_nbd::client::{Blocking, Uri};
use iodyno_nbd::wire::Request;
use iodyno_nbd::{CmdFlags, Errno, Kind};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Linux's number of the error with which a read fails; None: it succeeded.
fn reads(client: &mut Blocking, offset_bytes: u64) -> Option<i32> {
    client.read(offset_bytes, &mut [0; 4096]).err().map(|e| e.raw_os_error().unwrap())
}

/// Waits until the write buffer is empty, so that reads go to the cells.
fn wait_until_landed(server: &Served<'_>) {
    server.client().command(Kind::Flush, CmdFlags::NONE, 0, 0).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while whole(&server.status()["volumes"][0]["buffered_bytes"]) > 0 {
        assert!(Instant::now() < deadline, "the buffer does not empty: {}", server.status());
        std::thread::sleep(A_MOMENT);
    }
}

#[test]
fn an_unreadable_range_is_an_error_until_it_is_rewritten() {
    let place = Place::new();
    flash(&place, "device.toml", false, 0);
    let server = Served::start(&place, "./device.toml --no-floor");
    let mut client = server.client();
    client.write(MIB, &vec![7; 128 << 10], CmdFlags::NONE).unwrap();
    wait_until_landed(&server);
    server.fault("latent 1MiB..+64KiB");
    let (well, said) =
        try_judge(&place, "qemu-io", &["-f", "raw", "-t", "none", URI, "-c", "read 1M 4k"]);
    assert!(!well && said.contains("Input/output error"), "{said}");
    assert_eq!(reads(&mut client, MIB + (60 << 10)), Some(libc::EIO));
    // Its neighbours.
    assert_eq!(reads(&mut client, MIB - 4096), None);
    assert_eq!(reads(&mut client, MIB + (64 << 10)), None);
    // A long read that touches it.
    assert!(client.read(0, &mut vec![0; 2 << 20]).is_err());
    client.write(MIB, &vec![8; 64 << 10], CmdFlags::NONE).unwrap();
    wait_until_landed(&server);
    let mut bytes = vec![0; 128 << 10];
    client.read(MIB, &mut bytes).unwrap();
    assert!(bytes[..64 << 10].iter().all(|b| *b == 8) && bytes[64 << 10..].iter().all(|b| *b == 7));
    let status = server.status();
    assert_eq!(status["volumes"][0]["operations"]["read"]["errors"], 3, "{status}");
    // `clear` repairs it without a write.
    for words in ["clear", "clear 0"] {
        server.fault("latent 1MiB");
        assert_eq!(reads(&mut client, MIB), Some(libc::EIO));
        server.fault(words);
        assert_eq!(reads(&mut client, MIB), None);
    }
    server.stop();
}

/// A write of a part of an unreadable unit needs the rest, as on disks with sectors of 4 KiB: it fails, and does not bring
/// the lost data back.
#[test]
fn a_part_of_an_unreadable_unit_can_not_be_written() {
    for (device, fault) in
        [("./device.toml", "latent"), ("./device.toml", "page"), ("hdd-15k-300g", "latent")]
    {
        let place = Place::new();
        flash(&place, "device.toml", false, 0);
        let server = Served::start(&place, &format!("{device} --no-floor"));
        let mut client = server.client();
        client.write(0, &vec![7; 64 << 10], CmdFlags::FUA).unwrap();
        if device.contains("toml") {
            wait_until_landed(&server);
        }
        server.fault(&format!("{fault} 0"));
        assert!(client.write(512, &[9; 512], CmdFlags::NONE).is_err(), "{device} {fault}");
        assert_eq!(reads(&mut client, 0), Some(libc::EIO), "{device} {fault}");
        client.write(0, &[9; 4096], CmdFlags::FUA).unwrap();
        let mut bytes = [0; 4096];
        client.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [9; 4096], "{device} {fault}");
        server.stop();
    }
}

/// Without parity, corrupt data are refused to every request, and never served.
#[test]
fn corrupt_data_are_never_served() {
    for words in ["", "--speed native"] {
        let place = Place::new();
        flash(&place, "device.toml", false, 0);
        let server = Served::start(&place, &format!("./device.toml --no-floor {words}"));
        let mut client = server.client();
        client.write(0, &vec![7; 64 << 10], CmdFlags::NONE).unwrap();
        client.command(Kind::Flush, CmdFlags::NONE, 0, 0).unwrap();
        server.fault("corrupt 8KiB..16KiB");
        judge(
            &place,
            "nbdsh",
            &[
                "-u",
                URI,
                "-c",
                "import errno
def fails(f):
    try: f()
    except nbd.Error as e: return e.errnum
for offset, length in (8192, 4096), (12288, 1), (0, 65536), (16383, 2):
    assert fails(lambda: h.pread(length, offset)) == errno.EIO, offset
assert h.pread(8192, 0) == b'\\7' * 8192 and h.pread(4096, 16384) == b'\\7' * 4096",
            ],
        );
        // A part of a unit can't be written, because the rest would have unknown content.
        let part = client.write(8192, &[9; 512], CmdFlags::FUA).unwrap_err();
        assert_eq!(part.raw_os_error(), Some(libc::EIO));
        assert_eq!(reads(&mut client, 8192), Some(libc::EIO));
        client.write(8192, &[9; 8192], CmdFlags::FUA).unwrap();
        wait_for_read(&mut client, 8192);
        // Damage to the same place may be repeated, and counts once.
        server.fault("corrupt 8KiB");
        server.fault("corrupt 8KiB");
        assert_eq!(reads(&mut client, 8192), Some(libc::EIO));
        for clear in ["clear", "clear 0"] {
            server.fault("corrupt 32KiB");
            server.fault(clear);
            assert_eq!(reads(&mut client, 32 << 10), None, "{clear} {words}");
        }
        server.stop();
    }
}

/// Waits until a read succeeds again. With a protected buffer, no request waits for the program operation that writes
/// the cells.
fn wait_for_read(client: &mut Blocking, offset_bytes: u64) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while reads(client, offset_bytes).is_some() {
        assert!(Instant::now() < deadline, "what was written again can't be read");
        std::thread::sleep(A_MOMENT);
    }
}

/// A device with parity stripes returns the written data, and counts its recoveries.
#[test]
fn corrupt_data_are_rebuilt_where_there_is_parity() {
    let place = Place::new();
    let server = Served::start(&place, "exflash-400g --no-floor");
    let mut client = server.client();
    client.write(0, &vec![7; 64 << 10], CmdFlags::NONE).unwrap();
    wait_until_landed(&server);
    server.fault("corrupt 8KiB..16KiB");
    server.fault("latent 32KiB");
    let script =
        "assert h.pread(65536, 0) == b'\\7' * 65536\nassert h.pread(4096, 8192) == b'\\7' * 4096";
    judge(&place, "nbdsh", &["-u", URI, "-c", script]);
    let status = server.status();
    let volume = &status["volumes"][0];
    assert_eq!(volume["corruptions_found"], 2, "{status}");
    assert!(whole(&volume["pages_recovered"]) >= 2, "{status}");
    assert_eq!(
        (&volume["pages_lost"], &volume["operations"]["read"]["errors"]),
        (&0.into(), &0.into())
    );
    let output = place.iodyno("status --control unix:ctl.sock");
    let words = &output.succeeds().stdout;
    assert!(words.contains("2 corrupt units found"), "{words}");
    assert!(words.contains("pages rebuilt from parity"), "{words}");
    server.stop();
}

/// Mean latency of the reads between two statuses, ns of simulated time.
fn mean_ns(before: &Value, after: &Value) -> f64 {
    let of = |status: &Value| {
        let read = &status["volumes"][0]["operations"]["read"];
        let operations = read["operations"].as_f64().unwrap_or(0.0);
        (operations, operations * read["latency_mean_ns"].as_f64().unwrap_or(0.0))
    };
    let ((n0, t0), (n1, t1)) = (of(before), of(after));
    (t1 - t0) / (n1 - n0)
}

fn read_some(client: &mut Blocking) -> Duration {
    let begun = Instant::now();
    for n in 0..100 {
        client.read(n * 7919 % 20_000 * 4096, &mut [0; 4096]).unwrap();
    }
    begun.elapsed()
}

/// The factor is exact in simulated time, and no client measures less than simulated time. No other operations run:
/// reads just after writes wait for the cells too, which would make the comparison invalid.
#[test]
fn a_slow_device_is_slower_by_its_factor() {
    for device in ["exflash-400g", "ssd-msata-mlc-128g", "./device.toml"] {
        let place = Place::new();
        flash(&place, "device.toml", true, 0);
        let server = Served::start(&place, &format!("{device} --no-floor"));
        let mut client = server.client();
        let start = server.status();
        read_some(&mut client);
        let usual = server.status();
        server.fault("slow x10");
        let output = place.iodyno("status --control ctl.sock").succeeds().stdout.clone();
        assert!(
            output.contains("!             slow: everything takes 10 times as long"),
            "{output}"
        );
        let took = read_some(&mut client);
        let slow = server.status();
        server.fault("clear");
        read_some(&mut client);
        let cleared = server.status();
        assert_eq!(cleared["volumes"][0]["slow_factor"], 1.0);
        let usual_ns = mean_ns(&start, &usual);
        let slow_ns = mean_ns(&usual, &slow);
        assert!((9.0..11.0).contains(&(slow_ns / usual_ns)), "{device}: {usual_ns} {slow_ns}");
        let ratio = mean_ns(&slow, &cleared) / usual_ns;
        assert!((0.9..1.1).contains(&ratio), "{device}: {ratio} after it was cleared");
        assert!(took.as_nanos() as f64 >= 100.0 * slow_ns, "{device}: {took:?} {slow_ns}");
        server.stop();
    }
}

/// The delay is exact in simulated time and affects only its kind of operation. No client measures less.
#[test]
fn a_delay_is_added_to_operations_of_its_kind() {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    let server = Served::start(&place, "./device.toml --no-floor");
    let mut client = server.client();
    let start = server.status();
    read_some(&mut client);
    let usual = server.status();
    assert_eq!(
        server.fault("delay 1ms reads"),
        "volume 0: reads end 1.00 ms later, until `clear`\n"
    );
    let took = read_some(&mut client);
    let slow = server.status();
    assert_eq!(slow["volumes"][0]["delay_ns"], serde_json::json!({ "read": 1_000_000 }));
    let output = place.iodyno("status --control ctl.sock").succeeds().stdout.clone();
    assert!(output.contains("!             delayed: each read ends 1.00 ms later"), "{output}");
    client.write(0, &[1; 4096], CmdFlags::NONE).unwrap();
    let write = server.status()["volumes"][0]["operations"]["write"].clone();
    assert!(number(&write["latency_mean_ns"]) < 1e6, "{write}");
    assert!(server.fault("clear").contains("no fault"));
    assert_eq!(server.status()["volumes"][0]["delay_ns"], serde_json::json!({}));
    // `0ms` ends the delays at the interface, too.
    server.fault("delay 1ms reads next 50");
    assert_eq!(server.fault("delay 0ms reads"), "volume 0: reads are not delayed\n");
    assert_eq!(server.status()["volumes"][0]["interface_faults"], serde_json::json!([]));
    let more_ns = mean_ns(&usual, &slow) - mean_ns(&start, &usual);
    assert!((0.98e6..1.02e6).contains(&more_ns), "{more_ns}");
    assert!(took >= Duration::from_millis(100), "{took:?}");
    server.stop();
}

/// A share of the reads fails, drawn by the seed; writes do not, and after `clear` nothing does.
#[test]
fn a_share_of_the_operations_fails() {
    const READS: u64 = 600;
    let failing = |seed: u32| {
        let place = Place::new();
        flash(&place, "device.toml", true, 0);
        let server = Served::start(&place, &format!("./device.toml --no-floor --seed {seed}"));
        let mut client = server.client();
        assert_eq!(
            server.fault("error 20% reads"),
            "volume 0: 20 % of reads fail, until `clear`\n"
        );
        let mut failing = Vec::new();
        for n in 0..READS {
            if let Some(error) = reads(&mut client, n * 8192) {
                assert_eq!(error, libc::EIO);
                failing.push(n);
            }
            client.write(n * 8192, &[1; 4096], CmdFlags::NONE).unwrap();
        }
        let volume = server.status()["volumes"][0].clone();
        assert_eq!(whole(&volume["operations"]["read"]["errors"]), failing.len() as u64);
        assert_eq!(volume["operations"]["write"]["errors"], 0);
        assert_eq!(volume["error_share"], serde_json::json!({ "read": 0.2 }));
        let output = place.iodyno("status --control ctl.sock").succeeds().stdout.clone();
        assert!(output.contains("!             failing: 20 % of read operations"), "{output}");
        server.fault("clear");
        for n in 0..READS {
            assert_eq!(reads(&mut client, n * 8192), None);
        }
        server.stop();
        failing
    };
    let first = failing(1);
    let sigma = (READS as f64 * 0.2 * 0.8).sqrt();
    let off = (first.len() as f64 - READS as f64 * 0.2) / sigma;
    assert!(off.abs() < 4.0, "{} of {READS} failed", first.len());
    assert_eq!(failing(1), first, "the same seed");
    assert_ne!(failing(2), first, "another one");
}

#[test]
fn a_device_that_hangs_answers_when_it_is_cleared() {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    let server = Served::start(&place, "./device.toml --no-floor");
    let mut crowd = server.crowd(4);
    let (mut read, mut write) = (vec![1; 4096], vec![9; 4096]);
    server.fault("hang");
    crowd.send(0, (Kind::Read, CmdFlags::NONE), MIB, &mut read);
    crowd.send(1, (Kind::Write, CmdFlags::NONE), 2 * MIB, &mut write);
    crowd.send(2, (Kind::Flush, CmdFlags::NONE), 0, &mut []);
    assert!(crowd.answers_within(Duration::from_millis(300)).is_empty());
    // The server itself does not hang.
    let output = server.status()["volumes"][0].clone();
    assert_eq!((&output["operations"], &output["hung"]), (&serde_json::json!({}), &true.into()));
    let output = place.iodyno("status --control ctl.sock").succeeds().stdout.clone();
    assert!(output.contains("!             hung: nothing completes"), "{output}");
    judge(&place, "nbdinfo", &["--size", URI]);
    server.fault("clear 0");
    let mut answers = Vec::new();
    while answers.len() < 3 {
        answers.extend(crowd.answers().unwrap());
    }
    answers.sort_by_key(|a| a.0);
    assert_eq!(answers, [(0, Ok(())), (1, Ok(())), (2, Ok(()))]);
    assert!(read.iter().all(|b| *b == 0));
    // A hung device does not keep the server from ending.
    server.fault("hang");
    crowd.send(3, (Kind::Read, CmdFlags::NONE), 0, &mut read);
    assert!(crowd.answers_within(Duration::from_millis(20)).is_empty());
    server.stop();
}

#[test]
fn a_lost_device_fails_at_once_and_comes_back_with_its_bytes() {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    let server = Served::start(&place, "./device.toml*2 --no-floor");
    let mut client = server.client();
    client.write(0, &[7; 4096], CmdFlags::NONE).unwrap();
    server.fault("lose");
    let output = server.status()["volumes"].clone();
    assert_eq!((&output[0]["lost"], &output[1]["lost"]), (&true.into(), &false.into()));
    let gone = Errno::Shutdown.code() as i32;
    assert_eq!(reads(&mut client, 0), Some(gone));
    let write = client.write(0, &[8; 4096], CmdFlags::NONE).unwrap_err();
    assert_eq!(write.raw_os_error(), Some(gone));
    // The other volume is unaffected.
    let other = "nbd+unix:///device-2?socket=nbd.sock";
    judge(&place, "nbdsh", &["-u", other, "-c", "h.pwrite(b'x' * 4096, 0); h.flush()"]);
    server.fault("lose 1");
    let (well, said) = try_judge(&place, "nbdsh", &["-u", other, "-c", "h.pread(4096, 0)"]);
    assert!(!well && said.contains("shutdown"), "{said}");
    server.fault("clear");
    let mut bytes = [0; 4096];
    client.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 4096]);
    judge(&place, "nbdsh", &["-u", other, "-c", "assert h.pread(4096, 0) == b'x' * 4096"]);
    server.stop();
}

#[test]
fn invalid_commands_are_refused_with_the_right_form() {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    let server = Served::start(&place, "./device.toml --no-floor");
    for (words, says) in [
        (
            "explode",
            &["no fault `explode`", "use power-cut, power-off, power-on, lose, replace, hang"][..],
        ),
        ("error 1", &["`1` lacks a % sign: did you mean `1%`?"]),
        ("error 1% seeks", &["nor a kind of operation: reads, writes, flushes, trims or zeroes"]),
        ("delay 5ms reads 1", &["there is no volume 1"]),
        ("slow", &["needs a factor, such as x10"]),
        ("slow x0", &["use x1 to"]),
        ("latent", &["needs a range, such as 1GiB..+64KiB"]),
        ("latent 1GiB..+64KiB", &["beyond the end", "100663296 bytes"]),
        ("corrupt 96MiB", &["beyond the end"]),
        ("page 18446744073709551615", &["empty range"]),
        ("lose 1", &["there is no volume 1", "the only number is 0"]),
        ("corrupt 0..+4KiB 7", &["there is no volume 7"]),
        ("power-cut 0", &["use `power-cut` without a number"]),
    ] {
        server.try_fault(words).fails(2, says);
    }
    // None of it had an effect, or harmed the server.
    assert_eq!(reads(&mut server.client(), 0), None);
    let output = server.try_fault("status");
    assert_eq!(output.succeeds().json()["volumes"][0]["device"], "device");
    server.stop();
    server_is_gone(&place);

    let server = Served::start(&place, "./device.toml --speed native");
    server
        .try_fault("slow x10")
        .fails(2, &["native speed", "corrupt, clear, and faults at the interface"]);
    server.try_fault("corrupt 96MiB").fails(2, &["beyond the end"]);
    server.try_fault("corrupt 0 3").fails(2, &["there is no volume 3"]);
    place
        .iodyno("status --metrics --control unix:ctl.sock")
        .fails(2, &["at native speed there are no metrics"]);
    assert_eq!(server.status()["speed"], "native");
    assert!(number(&server.status()["volumes"][0]["memory_bytes"]) >= 0.0);
    server.stop();
}

fn server_is_gone(place: &Place) {
    for words in ["fault clear", "status", "status --json", "status --metrics"] {
        let output = place.iodyno(&format!("{words} --control unix:ctl.sock"));
        output.fails(
            4,
            &["ctl.sock", "check that a server with `--control unix:ctl.sock` is running"],
        );
    }
    place.iodyno("fault --control unix:ctl.sock").exits(2);
    place.iodyno("fault clear").exits(2);
}

/// A full volume accepts no data where there are none yet; a resized one has its new size, for its
/// clients and for later ones. Neither loses any data.
#[test]
fn a_volume_becomes_full_and_is_resized() {
    const ENOSPC: Option<i32> = Some(28);
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    let server = Served::start(&place, "./device.toml --no-floor");
    let mut client = server.client();
    let mut write = |offset_bytes: u64, byte: u8| {
        let result = client.write(offset_bytes, &[byte; 8192], CmdFlags::NONE);
        result.err().map(|e| e.raw_os_error().unwrap())
    };
    assert_eq!((write(0, 1), write(50 * MIB, 2)), (None, None));
    server.fault("full");
    assert_eq!(server.status()["volumes"][0]["full"], true);
    assert_eq!((write(0, 3), write(MIB, 4), write(4096, 4)), (None, ENOSPC, ENOSPC));
    // Zeros need space only if the client wants them allocated.
    let mut zeros = server.client();
    let mut zero = |offset_bytes, flags| {
        let result = zeros.command(Kind::WriteZeroes, flags, offset_bytes, 8192);
        result.err().map(|e| e.raw_os_error().unwrap())
    };
    assert_eq!((zero(2 * MIB, CmdFlags::NONE), zero(2 * MIB, CmdFlags::NO_HOLE)), (None, ENOSPC));
    assert_eq!(zero(0, CmdFlags::NO_HOLE), None);
    assert_eq!(whole(&server.status()["volumes"][0]["operations"]["write"]["errors"]), 3);
    assert!(place.iodyno("status --control ctl.sock").succeeds().stdout.contains("full: writes"));
    server.fault("clear");
    assert_eq!((write(0, 3), write(MIB, 5)), (None, None));
    assert_eq!(zero(2 * MIB, CmdFlags::NO_HOLE), None);
    let map = judge(&place, "nbdinfo", &["--map", URI]);
    assert!(
        map.lines().any(|line| line.split_whitespace().take(3).eq(["2097152", "8192", "0"])),
        "{map}"
    );

    let size = || judge(&place, "nbdinfo", &["--size", URI]).trim().to_owned();
    assert_eq!(size(), SIZE.to_string());
    server.fault("resize 32MiB");
    assert_eq!(size(), (32 * MIB).to_string());
    assert_eq!((write(50 * MIB, 6), write(32 * MIB - 4096, 6)), (ENOSPC, ENOSPC));
    assert_eq!((write(32 * MIB - 8192, 6), reads(&mut server.client(), 0)), (None, None));
    let mut client = server.client();
    server.fault("resize 16MiB");
    assert_eq!(reads(&mut client, 16 * MIB), Some(22));
    let output = place.iodyno("status --control ctl.sock").succeeds().stdout.clone();
    assert!(output.contains("resized to 16 MiB of 96 MiB"), "{output}");
    let output = place.iodyno("fault resize 1TiB --control ctl.sock");
    assert!(output.exits(2).stderr.contains("beyond the end"), "{output:?}");

    server.fault("resize 96MiB");
    let mut bytes = [0; 8192];
    let mut client = server.client();
    for (offset_bytes, byte) in [(0, 3), (MIB, 5), (50 * MIB, 2), (32 * MIB - 8192, 6)] {
        client.read(offset_bytes, &mut bytes).unwrap();
        assert_eq!(bytes, [byte; 8192], "{offset_bytes}");
    }
    server.stop();
}

/// A connection's thread that polls for its client does the poller's work in that time. When it is held
/// up, in the middle of a request, or its client is silent, or leaves, others don't wait for that.
#[test]
fn a_client_that_holds_up_its_thread_delays_no_other() {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    let server = Served::start(&place, "./device.toml --no-floor");
    let uri: Uri =
        format!("nbd+unix:///?socket={}", place.path("nbd.sock").display()).parse().unwrap();
    let mut other = Blocking::connect(&uri).unwrap().with_patience(Duration::from_secs(20));
    let mut reads = |why: &str| {
        for n in 0..20 {
            other.read(n * 4096, &mut [0; 4096]).unwrap_or_else(|e| panic!("{why}: {e}"));
        }
    };
    let request = |command: Kind, len_bytes: u32| {
        let (flags, command) = (CmdFlags::NONE, command as u16);
        Request { flags, command, cookie: 7, offset_bytes: 0, len_bytes }.encode()
    };
    for (why, then) in [
        ("silent", vec![]),
        ("answers that it does not take", request(Kind::Read, MIB as u32).repeat(8)),
        ("half a request", request(Kind::Write, MIB as u32)[..13].to_vec()),
        (
            "half a large payload",
            [&request(Kind::Write, MIB as u32)[..], &vec![1; 70_000]].concat(),
        ),
        (
            "half a refused payload",
            [&request(Kind::Write, 48 * MIB as u32)[..], &[1; 9000]].concat(),
        ),
    ] {
        let mut client = UnixStream::connect(place.path("nbd.sock")).unwrap();
        let mut greeting = [0; 18];
        client.read_exact(&mut greeting).unwrap();
        // Fixed newstyle, no zeroes; the default export by its name, which requires no reply to wait for.
        client.write_all(&[0, 0, 0, 3]).unwrap();
        client.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        client.read_exact(&mut [0; 10]).unwrap();
        // It becomes the leader now, if it may.
        for _ in 0..20 {
            client.write_all(&request(Kind::Read, 4096)).unwrap();
            client.read_exact(&mut [0; 16 + 4096]).unwrap();
        }
        client.write_all(&then).unwrap();
        reads(why);
        drop(client);
        reads("gone");
    }
    server.stop();
}
