//! The start of a server, with its ready line; its end, for which `fault stop` waits; and the remains of a killed
//! server.

use crate::place::Place;
use crate::serve::{Served, flash};
use iodyno_nbd::CmdFlags;

/// When `fault stop` returns, the process is gone, and with it its sockets and the lock of its file.
#[test]
fn a_stop_waits_for_the_servers_end() {
    let place = Place::new();
    flash(&place, "device.toml", false, 0);
    for words in ["", "--speed native", "--record it.rec"] {
        let words = format!("./device.toml --no-floor --backing image {words}");
        let mut server = Served::start(&place, &words);
        server.client().write(0, &vec![7; 1 << 20], CmdFlags::NONE).unwrap();
        // A client that stays connected does not keep the server.
        let _client = server.client();
        assert_eq!(server.fault("stop"), "the server has flushed, and ended\n");
        assert!(!server.running().is_running(), "{words}");
        assert!(!place.path("nbd.sock").exists() && !place.path("ctl.sock").exists());
    }
    let server = Served::start(&place, "ram:1MiB");
    assert_eq!(server.fault("stop"), "the server has flushed, and ended\n");
    server.try_fault("stop").fails(4, &["is running"]);
}

/// A record holds what was acknowledged some moments before a kill, and a replay says that it was cut off.
#[test]
fn a_killed_servers_record_holds_what_it_acknowledged() {
    let place = Place::new();
    flash(&place, "device.toml", false, 0);
    let mut server = Served::start(&place, "./device.toml --record it.rec");
    let mut client = server.client();
    client.write(0, &vec![7; 1 << 20], CmdFlags::NONE).unwrap();
    client.write(4096, &[8; 4096], CmdFlags::FUA).unwrap();
    // Less than any buffer of a file: nothing but time brings it there.
    let record = || std::fs::read_to_string(place.path("it.rec")).unwrap();
    let is_kept = || record().lines().filter(|line| line.starts_with("o ")).count() == 2;
    server.running().wait_until("the record holds both writes", is_kept);
    server.kill();
    let cut = "the record was cut off, as if its server was killed";
    let output = place.iodyno("replay it.rec");
    output.exits(8);
    assert!(output.stdout.contains("2 operations, 0 faults") && output.stdout.contains(cut));
    let document = place.iodyno("replay it.rec --json").exits(8).json();
    assert_eq!((&document["cut_off"], &document["same"]), (&true.into(), &().into()));
    // A line that was being written does not count.
    let whole = record();
    place.write("torn.rec", &whole[..whole.len() - 3]);
    let output = place.iodyno("replay torn.rec");
    output.exits(8);
    assert!(output.stdout.contains("1 operation, 0 faults"), "{}", output.stdout);
    assert!(output.stdout.contains("cut off within a line"), "{}", output.stdout);
    // Nothing was recorded.
    let head: String = whole.split_inclusive('\n').take(2).collect();
    place.write("empty.rec", head);
    place
        .iodyno("replay empty.rec")
        .exits(8)
        .says(&["empty.rec: the record contains no operations"]);
}
