//! `--record`, `--scenario` and `replay`: live input, including faults, gives the same events in virtual
//! time; and a record of another run is detected.

use crate::place::{Place, whole};
use crate::serve::{Served, URI, flash, judge};
use crate::serve_stamps::{Stamps, Writer};
use iodyno_nbd::{CmdFlags, Kind};

const SCENARIO: &str = "\
# Times are the model's, from the start of the server.
20ms   slow x3
40ms   latent 8MiB..+64KiB   # never read
60ms   clear
80ms   lose 1
120ms  clear 1
100ms  hang                  # lines need no order
110ms  clear 0
";

/// Many requests in flight, from several programs, while faults occur by plan and on command.
#[test]
fn a_record_gives_the_same_events_again() {
    let place = Place::new();
    flash(&place, "device.toml", false, 0);
    place.write("plan", SCENARIO);
    let words = "./device.toml*2 --record it.rec --scenario plan --seed 7";
    let server = Served::start(&place, words);
    let mut stamps = Stamps::new(false, 4);
    let mut writer = Writer::new(&server, &mut stamps);
    writer.drive(400, true);
    server.fault("corrupt 0..+4KiB");
    writer.drive(100, true);
    writer.drain().unwrap();
    judge(
        &place,
        "nbdsh",
        &["-u", URI, "-c", "h.trim(1 << 20, 4 << 20); h.zero(5000, 9000); h.flush()"],
    );
    // However fast this machine is, the whole plan is applied: also before the next fault, which the plan's
    // `clear` would end.
    while whole(&server.status()["machine_ns"]) < 130_000_000 {
        writer.drive(20, true);
    }
    let mut client = server.client();
    client.write(64 << 20, &[1; 4096], CmdFlags::FUA).unwrap();
    server.fault("corrupt 64MiB");
    client.read(64 << 20, &mut [0; 8192]).unwrap_err();
    writer.fill(true);
    server.fault("power-cut");
    let _ = writer.drain();
    drop(writer);
    stamps.reconnect();
    Writer::new(&server, &mut stamps).drive(50, true);
    let mut client = server.client();
    // The events that the last request began are in the record too.
    client.write(0, &[1; 4096], CmdFlags::NONE).unwrap();
    client.command(Kind::Cache, CmdFlags::NONE, 0, 4096).unwrap();
    server.stop();

    let record = std::fs::read_to_string(place.path("it.rec")).unwrap();
    let end = record.lines().last().unwrap();
    let hash = end.strip_prefix("end ").unwrap().split(' ').nth(1).unwrap();
    let faults = record.lines().filter(|line| line.starts_with("f ")).count() as u64;
    let operations = record.lines().filter(|line| line.starts_with("o ")).count() as u64;
    assert!(faults >= 9, "{faults}");
    assert!(operations >= 550, "{operations}");
    for _ in 0..2 {
        let output = place.iodyno("replay it.rec --json").succeeds().json();
        assert_eq!(output["same"], true, "{output}");
        assert_eq!(output["hash"], hash);
        assert_eq!((whole(&output["operations"]), whole(&output["faults"])), (operations, faults));
    }
    let output = place.iodyno("replay it.rec");
    assert!(output.succeeds().stdout.contains("the same events as recorded"), "{output:?}");

    // With one operation less it is another run.
    let without = |n: usize| {
        let lines = record.lines().enumerate().filter(|(i, _)| *i != n).map(|(_, l)| l);
        lines.flat_map(|l| [l, "\n"]).collect::<String>()
    };
    place.write("less.rec", without(40));
    let output = place.iodyno("replay less.rec --json");
    assert_eq!(output.exits(4).json()["same"], false);
    // A truncated record is replayed as far as it goes.
    place.write("short.rec", without(record.lines().count() - 1));
    let output = place.iodyno("replay short.rec");
    assert!(output.exits(8).stdout.contains("the record was cut off"), "{output:?}");
    place.write("other.rec", "something\n");
    place.iodyno("replay other.rec").fails(2, &["other.rec", "a record of `iodyno serve"]);
    place.write("broken.rec", record.replace(" w ", " q "));
    place.iodyno("replay broken.rec").fails(2, &["broken.rec", "is not valid"]);
    place.iodyno("replay nothing.rec").fails(2, &["nothing.rec"]);
}

/// Faults at an interface are in the record. The machine's events are the same without them.
#[test]
fn a_record_has_the_faults_at_interfaces() {
    let place = Place::new();
    let server = Served::start(&place, "exflash-400g --size 8MiB --record it.rec");
    let mut client = server.client();
    server.fault("lost at 1MiB..+4KiB next 1");
    client.write(1 << 20, &[1; 4096], CmdFlags::NONE).unwrap();
    server.fault("error EIO flushes after 1 writes");
    client.command(Kind::Flush, CmdFlags::NONE, 0, 0).unwrap();
    client.write(0, &[1; 4096], CmdFlags::NONE).unwrap();
    client.command(Kind::Flush, CmdFlags::NONE, 0, 0).unwrap_err();
    server.stop();
    let replayed = place.iodyno("replay it.rec --json").succeeds().json();
    assert_eq!((&replayed["same"], whole(&replayed["operations"])), (&true.into(), 4));
    let faults = replayed["interface_faults"].as_array().unwrap();
    let said: Vec<&str> = faults.iter().map(|of| of["fault"].as_str().unwrap()).collect();
    let expected = [
        "writes in the 4 KiB at 1 MiB are acknowledged and not stored, the next 1",
        "flushes fail with EIO, after 1 of the writes, until `clear`",
    ];
    assert_eq!(said, expected);
    assert!(whole(&faults[0]["at_ns"]) < whole(&faults[1]["at_ns"]));
    let text = place.iodyno("replay it.rec").succeeds().stdout.clone();
    assert!(text.contains(&format!("not repeated: volume 0: {}", expected[0])), "{text}");
    // Tools for traces leave them out; a record of the version without them is read too.
    place.iodyno("replay it.rec --summary").succeeds();
    let record = std::fs::read_to_string(place.path("it.rec")).unwrap();
    let old = record.lines().filter(|line| !line.starts_with("f "));
    let old: String = old.flat_map(|line| [line, "\n"]).collect();
    place.write("old.rec", old.replace("iodyno record 3", "iodyno record 2"));
    place.iodyno("replay old.rec").succeeds();
}

/// A record is of the same machine if the transport's latency is subtracted, and if time is dilated.
#[test]
fn a_record_in_other_times_gives_the_same_events_too() {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    for (n, words) in ["", "--dilate 3 --no-floor", "--dilate 0.1"].iter().enumerate() {
        let server = Served::start(&place, &format!("./device.toml --record {n}.rec {words}"));
        Writer::new(&server, &mut Stamps::new(true, 5)).drive(300, true);
        server.stop();
        let output = place.iodyno(&format!("replay {n}.rec --json")).succeeds().json();
        assert_eq!(output["same"], true, "{words}: {output}");
    }
}

/// An invalid plan is refused before anything is served, and leaves nothing behind.
#[test]
fn a_plan_is_checked_first() {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    let serve =
        "serve ./device.toml --no-floor --nbd unix:nbd.sock --record it.rec --scenario plan";
    for (plan, says) in [
        ("2s explode", &["plan:1", "no fault `explode`"][..]),
        ("# first\n\nsoon slow x10", &["plan:3", "soon"]),
        ("2s", &["plan:1", "the fault is missing"]),
        ("1s clear\n2s lose 1", &["plan:2", "there is no volume 1"]),
        ("2s latent 1GiB", &["plan:1", "beyond the end"]),
        ("99999999999999999999s clear", &["plan:1", "is too long"]),
        ("-1s clear", &["plan:1", "`-1s`"]),
        (&format!("1s {}", "A".repeat(100_000)), &["plan:1", "100003 bytes", "at most 4096"]),
        (&"1s clear\n".repeat(100_001), &["plan:100001", "at most 100000 faults"]),
    ] {
        place.write("plan", plan);
        place.iodyno(serve).fails(2, says);
    }
    assert_eq!(place.names(), ["device.toml", "plan"]);
    std::fs::remove_file(place.path("plan")).unwrap();
    place.iodyno(serve).fails(2, &["--scenario plan"]);
    // An existing record is not overwritten, and a server that did not start leaves none.
    place.write("it.rec", "mine");
    let serve = "serve ./device.toml --no-floor --nbd unix:nbd.sock --record";
    place.iodyno(&format!("{serve} it.rec")).fails(2, &["it.rec", "already exists"]);
    place.write("nbd.sock", "mine too");
    place.iodyno(&format!("{serve} new.rec")).fails(4, &["nbd.sock", "not a socket"]);
    assert_eq!(place.names(), ["device.toml", "it.rec", "nbd.sock"]);
}
