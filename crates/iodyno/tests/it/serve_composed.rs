//! Served arrays of arrays, hosts' arrays of volumes behind adapters, and volumes with a read cache: losses, kills
//! and stops of the server, and the content of their folders.

use crate::place::Place;
use crate::serve::{SIZE, Served, flash};
use crate::serve_arrays::{Expected, wait_until_whole};

fn place() -> Place {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    place
}

#[test]
fn an_array_of_arrays_is_served_from_a_folder() {
    let place = place();
    let args = "raid1(raid0(./device.toml*2)*2) --no-floor --backing mirror";
    let mut expected = Expected::new(2 * SIZE);
    let server = Served::start(&place, args);
    expected.write(&mut server.client(), 1);
    server.kill();
    let server = Served::start(&place, args);
    expected.check(&mut server.client(), false);
    let said = server.fault("lose device 3");
    assert!(
        said.contains("*2): 1 of 2 members missing")
            && said.contains("RAID 0 of devices 2 and 3: a required member"),
        "{said}"
    );
    let status = place.iodyno("status --control unix:ctl.sock").succeeds().stdout.clone();
    assert!(status.contains("member 1 (devices 2 and 3): missing"), "{status}");
    assert!(status.contains("member 1 (device 3): lost"), "{status}");
    expected.check(&mut server.client(), false);
    expected.write(&mut server.client(), 2);
    server.stop();
    // After a restart, the whole member is missing, with all its devices.
    let server = Served::start(&place, args);
    assert!(server.announced("array ").contains("2 members; missing until replaced: 1"));
    expected.check(&mut server.client(), false);
    server.fault("replace device 3");
    server.fault("replace device 2");
    wait_until_whole(&server);
    let said = server.fault("lose device 0");
    assert!(said.contains("1 of 2 members missing"), "{said}");
    expected.check(&mut server.client(), false);
    server.fault("lose device 2");
    assert!(expected.check(&mut server.client(), true) > 50);
    server.stop();
    let other = "raid1(raid1(./device.toml*2)*2) --no-floor --backing mirror --nbd unix:nbd.sock";
    place.iodyno(&format!("serve {other}")).exits(4).says(&["the folder holds"]);
}

/// Verifiable content in real time, in this process.
#[test]
fn an_array_of_arrays_holds_verifiable_content() {
    let place = place();
    let run =
        "run oltp1 --on live:raid5(raid1(./device.toml*2)*3) --content verifiable --time 300ms";
    let said = place.iodyno(&format!("{run} --json")).succeeds().stdout.clone();
    assert!(said.contains("\"found\": {}") && !said.contains("\"current\": 0,"), "{said}");
}

#[test]
fn a_hosts_mirror_behind_adapters_is_served_from_a_folder() {
    let place = place();
    let args = "raid1(raid0(./device.toml*2)*2)@57ce-gen3 --no-floor --backing pair";
    let mut expected = Expected::new(2 * SIZE);
    let server = Served::start(&place, &format!("{args} --record pair.rec"));
    expected.write(&mut server.client(), 1);
    server.fault("access adapter 0 volume 1");
    server.fault("lose adapter 1");
    server.fault("lose device 1");
    expected.write(&mut server.client(), 2);
    expected.check(&mut server.client(), false);
    server.fault("replace device 1");
    wait_until_whole(&server);
    server.fault("clear adapter 1");
    expected.write(&mut server.client(), 3);
    server.stop();
    let replayed = place.iodyno("replay pair.rec").succeeds().stdout.clone();
    assert!(replayed.contains("the same events"), "{replayed}");
    let server = Served::start(&place, args);
    expected.check(&mut server.client(), false);
    expected.write(&mut server.client(), 4);
    server.kill();
    assert!(place.path("pair/member-1/cache").exists());
    let server = Served::start(&place, args);
    assert!(server.said().contains("the adapters' cache held"), "{}", server.said());
    server.fault("lose device 2");
    expected.check(&mut server.client(), false);
    server.stop();
}

#[test]
fn a_volume_with_a_read_cache_is_served_from_a_folder() {
    let place = place();
    for (name, device) in [("one", "ssd-sas12-mlc-800g"), ("array", "raid1(ssd-sas12-mlc-800g*2)")]
    {
        let file = format!(
            "schema = 1\nkind = \"system\"\nsummary = \"a cache\"\nbase = \"workstation\"\n[[volumes]]\n\
             device = \"{device}\"\nread_cache = \"ssd-sata3-mlc-200g\"\nread_cache_size = \"64MiB\"\n"
        );
        place.write("cached.toml", file);
        let args = format!("./cached.toml --no-floor --backing {name}");
        let mut expected = Expected::new(SIZE);
        let server = Served::start(&place, &args);
        expected.write(&mut server.client(), 1);
        (0..2).for_each(|_| _ = expected.check(&mut server.client(), false));
        let fast = if name == "one" { 1 } else { 2 };
        server.fault(&format!("lose device {fast}"));
        expected.check(&mut server.client(), false);
        server.fault(&format!("replace device {fast}"));
        expected.write(&mut server.client(), 2);
        server.kill();
        assert!(place.path(&format!("{name}/read-cache")).exists());
        let server = Served::start(&place, &args);
        (0..2).for_each(|_| _ = expected.check(&mut server.client(), false));
        server.stop();
    }
}
