//! Served systems with RAID adapters: adapters, links and batteries that fail while clients read and write, and the
//! content of their caches across stops and kills of the server.

use crate::place::Place;
use crate::serve::{SIZE, Served, flash};
use crate::serve_arrays::Expected;
use iodyno_nbd::{CmdFlags, Kind};
use iodyno_units::human;
use serde_json::Value;

const PAIR: &str = "raid5(./device.toml*3)@57ce-gen3 --no-floor --backing array";
/// Data of two members.
const BYTES: u64 = 2 * SIZE;

fn place() -> Place {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    place
}

fn adapters(server: &Served<'_>) -> Value {
    server.status()["adapters"].clone()
}

#[test]
fn a_pair_serves_on_without_one() {
    let place = place();
    let server = Served::start(&place, &format!("{PAIR} --record pair.rec"));
    let (mut client, mut expected) = (server.client(), Expected::new(BYTES));
    expected.write(&mut client, 1);
    assert_eq!(
        (adapters(&server)["caching"].clone(), adapters(&server)["mirrored"].clone()),
        (true.into(), true.into())
    );
    assert!(adapters(&server)["dirty_bytes"].as_u64() > Some(0));
    // The cache is in its partner too.
    let said = server.fault("lose adapter 0");
    assert!(
        said.contains("adapter 0: gone") && said.contains("adapter 1: serves volume 0"),
        "{said}"
    );
    expected.check(&mut client, false);
    expected.write(&mut client, 2);
    server.fault("replace adapter 0");
    assert_eq!(adapters(&server)["adapters"][0]["volumes"][0], 0);
    expected.check(&mut client, false);
    // Without a way to the partner nothing stays in the cache, and a power cut loses nothing.
    let said = server.fault("link-down aa 0");
    assert!(said.contains("cache: off"), "{said}");
    expected.write(&mut client, 3);
    assert_eq!(adapters(&server)["dirty_bytes"], 0);
    server.fault("clear aa 0");
    let said = server.fault("cache-battery-fail adapter 1");
    assert!(said.contains("adapter 1: serves no volume; the battery"), "{said}");
    expected.write(&mut client, 4);
    server.fault("lose device 2");
    server.fault("power-cut");
    let mut client = server.client();
    expected.check(&mut client, false);
    let status = place.iodyno("status --control unix:ctl.sock").succeeds().stdout.clone();
    assert!(status.contains("adapter 1: the battery of its cache has failed"), "{status}");
    let metrics =
        place.iodyno("status --metrics --control unix:ctl.sock").succeeds().stdout.clone();
    assert!(metrics.contains("iodyno_adapter_lost{adapter=\"0\"} 0"), "{metrics}");
    // Both: nothing serves any more, until one is back with what it held.
    server.fault("clear");
    expected.write(&mut client, 5);
    server.fault("lose adapter 1");
    expected.write(&mut client, 6);
    let said = server.fault("lose adapter 0");
    assert!(said.contains("volume 0: no adapter can serve it"), "{said}");
    assert!(expected.check(&mut client, true) > 100);
    // (The other one's cache is old.)
    let said = server.fault("clear adapter 1");
    assert!(said.contains("no adapter can serve it"), "{said}");
    server.fault("clear adapter 0");
    expected.check(&mut client, false);
    // With an empty cache in its place what that held is lost, and reported.
    server.fault("lose adapter 1");
    expected.write(&mut client, 7);
    server.fault("replace adapter 0");
    server.fault("clear adapter 1");
    assert!(expected.check(&mut client, true) > 0);
    assert_eq!(server.status()["volumes"][0]["array"]["data_lost"], true);
    for (words, message) in [
        ("lose adapter 2", "there is no adapter 2: the numbers are 0 to 1"),
        ("link-down aa 1", "there is no link aa 1: the only number is 0"),
        ("link-down 1", "use `link-down aa 0`"),
    ] {
        server.try_fault(words).exits(2).says(&[message]);
    }
    server.stop();
    let replayed = place.iodyno("replay pair.rec").succeeds().stdout.clone();
    assert!(replayed.contains("the same events"), "{replayed}");
}

/// Data that is lost with caches is counted in the reply to the fault, in the status and in the metrics.
#[test]
fn data_lost_with_caches_is_counted() {
    const UNITS: u64 = 40;
    let place = place();
    let batteries = ["cache-battery-fail adapter 0", "cache-battery-fail adapter 1"];
    let adapters = ["lose adapter 0", "lose adapter 1", "replace adapter 0"];
    let mut losses = 0;
    for (before, loss, after) in [
        (&batteries[..], "power-cut", "clear"),
        (&batteries[..], "power-off", "power-on"),
        (&adapters[..], "replace adapter 1", "clear"),
    ] {
        let args = "raid5(./device.toml*3)@57ce-gen3 --no-floor --dilate 1000";
        let server = Served::start(&place, args);
        let mut client = server.client();
        for unit in 0..UNITS {
            client.write(unit * 4096, &[7; 4096], CmdFlags::NONE).unwrap();
        }
        client.command(Kind::Flush, CmdFlags::NONE, 0, 0).unwrap();
        for words in before {
            server.fault(words);
        }
        let said = server.fault(loss);
        server.fault(after);
        let mut client = server.client();
        let is_lost = |unit: &u64| client.read(unit * 4096, &mut [0; 4096]).is_err();
        let lost = (0..UNITS).filter(is_lost).count() as u64;
        // Without batteries the adapters write the data to the devices, which may end before.
        if lost == 0 {
            assert!(said.contains("no acknowledged write is lost"), "{said}");
            continue;
        }
        losses += 1;
        let size = human::size(lost * 4096);
        assert!(said.contains(&format!("volume 0 lost {size} of acknowledged data")), "{said}");
        assert!(!said.contains("no acknowledged write is lost"), "{said}");
        let status = server.status();
        let volume = &status["volumes"][0];
        assert_eq!(
            (&volume["lost_units"], &volume["array"]["lost_units"]),
            (&lost.into(), &lost.into())
        );
        let output = place.iodyno("status --metrics --control unix:ctl.sock");
        let metric =
            output.stdout.lines().find(|line| line.starts_with("iodyno_lost_bytes_total{"));
        assert!(metric.unwrap().ends_with(&format!(" {}", lost * 4096)), "{metric:?}");
        server.stop();
    }
    assert!(losses > 0);
}

#[test]
fn a_folder_keeps_what_the_cache_holds() {
    let place = place();
    let mut expected = Expected::new(BYTES);
    let server = Served::start(&place, PAIR);
    let mut client = server.client();
    expected.write(&mut client, 1);
    drop(client);
    server.kill();
    // What was acknowledged was in the cache's file, and is on the members when the next server begins.
    let server = Served::start(&place, PAIR);
    assert!(server.announced("cache ").contains("the adapters' cache held"));
    assert_eq!(adapters(&server)["dirty_bytes"], 0);
    let mut client = server.client();
    expected.check(&mut client, false);
    expected.write(&mut client, 2);
    drop(client);
    // An orderly end leaves nothing in the cache; parity is right, so a member can be lost.
    server.stop();
    let server = Served::start(&place, PAIR);
    assert!(!server.said().contains("cache held"), "{}", server.said());
    server.fault("lose device 1");
    expected.check(&mut server.client(), false);
    server.stop();
}

/// A server ends even if lost devices can't take the cached data. The data stays in the cache's file for the next
/// server.
#[test]
fn a_server_ends_while_devices_are_lost() {
    let place = place();
    let raid0 = "raid0(./device.toml*2)@57ce-gen3 --no-floor --backing array";
    let mut expected = Expected::new(BYTES);
    let server = Served::start(&place, raid0);
    expected.write(&mut server.client(), 1);
    server.fault("lose device 1");
    let (code, said) = server.end();
    assert!(
        code == Some(4) && said.contains("dirty bytes of the adapters' cache"),
        "{code:?} {said}"
    );
    // The device is there again.
    let server = Served::start(&place, raid0);
    assert!(server.announced("cache ").contains("the adapters' cache held"));
    expected.check(&mut server.client(), false);
    server.stop();
}

#[test]
fn several_volumes_share_adapters_and_a_folder() {
    let place = place();
    let args = "raid1(./device.toml*2)*2@57ce-gen3 --no-floor --backing pair";
    let server = Served::start(&place, &format!("{args} --record pair.rec"));
    assert_eq!(adapters(&server)["adapters"][1]["volumes"][0], 1);
    let mut expected = Expected::new(SIZE);
    expected.write(&mut server.client(), 1);
    // A volume is optimized on another adapter while it is served; only the primary changes that.
    let said = server.fault("access adapter 1 volume 0");
    assert!(said.contains("adapter 1: serves volumes 0 and 1"), "{said}");
    expected.check(&mut server.client(), false);
    expected.write(&mut server.client(), 2);
    server.fault("lose adapter 1");
    let status = place.iodyno("status --control unix:ctl.sock").succeeds().stdout.clone();
    assert!(status.contains("serves volumes 0 and 1; optimized on it: no volume"), "{status}");
    expected.check(&mut server.client(), false);
    for (words, message) in [
        ("access adapter 0 volume 0", "adapter 1 is lost"),
        ("access adapter 0 volume 2", "there is no volume 2: the numbers are 0 to 1"),
        ("access adapter 2 volume 0", "there is no adapter 2: the numbers are 0 to 1"),
    ] {
        server.try_fault(words).exits(2).says(&[message]);
    }
    server.fault("clear adapter 1");
    let refused = server.try_fault("access cleared volume 1 from adapter 1");
    refused.exits(2).says(&["only from the primary, adapter 0"]);
    let said = server.fault("access cleared volume 1");
    assert!(said.contains("adapter 0: serves volume 1") && said.contains("cleared"), "{said}");
    expected.check(&mut server.client(), false);
    server.stop();
    let replayed = place.iodyno("replay pair.rec").succeeds().stdout.clone();
    assert!(replayed.contains("the same events"), "{replayed}");
    assert!(
        place.path("pair/volume-0/member-1").exists() && place.path("pair/volume-1/cache").exists()
    );
    let server = Served::start(&place, args);
    expected.check(&mut server.client(), false);
    server.stop();
    let refused = place.iodyno(&format!("serve {args} --size 1GiB --nbd unix:nbd.sock"));
    refused.exits(2).says(&["--size requires volumes of a single device"]);
}
