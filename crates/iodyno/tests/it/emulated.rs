//! Emulated storage from the command line: runs in virtual time are stored, shown and distinguished from
//! measurements, many devices form one system, and devices that can't form one system are refused.

use crate::contract::{RUN_SCHEMA, assert_valid};
use crate::place::{Place, cells, codes, number, whole};
use serde_json::{Value, json};

const DEVICE: &str = "model:exflash-400g";

/// The figures of a cell, without the time that its simulation took.
fn figures(cell: &Value) -> Value {
    let mut cell = cell.clone();
    cell["facts"].as_object_mut().unwrap().remove("simulated");
    cell
}

#[test]
fn a_group_runs_is_kept_and_shown_again() {
    let place = Place::new();
    let words = format!("run four-corners --on {DEVICE} --time 200ms --ramp 20ms");
    let document = place.document(&format!("{words} --series"));
    assert_valid(RUN_SCHEMA, &document);
    let plan = &document["run"]["plan"];
    assert_eq!((&plan["virtual_time"], &plan["unlimited_write_ns"]), (&json!(true), &json!(0)));
    assert_eq!(plan["time_ns"], 4 * 220_000_000_u64);
    let target = &document["run"]["targets"][0];
    assert_eq!(target["name"], DEVICE);
    assert_eq!(target["facts"]["kind"], "model");
    assert_eq!(target["facts"]["emulated"]["device"], "exflash-400g");
    for (cell, state) in
        cells(&document).iter().zip(["random", "random", "sequential", "sequential"])
    {
        assert_eq!((&cell["engine"], number(&cell["seconds"])), (&json!("model"), 0.2));
        assert!(number(&cell["total"]["iops"]) > 0.0);
        assert_eq!(cell["evidence"]["virtual_time"], true);
        assert_eq!(codes(cell)[..2], ["VALID", "EMULATED"], "{cell}");
        // No property of this machine enters the figures.
        assert_eq!(cell["cpu_seconds"], 0.0);
        for unknown in ["generator_ns_per_io", "generator_ceiling_iops", "ram_bytes"] {
            assert!(cell["evidence"][unknown].is_null(), "{unknown}");
        }
        // By the workload's own pattern.
        assert!(cell["facts"]["state"].as_str().unwrap().contains(state), "{}", cell["facts"]);
        assert!(cell["facts"]["simulated"].is_string());
        // Intervals are of virtual time, and add up.
        let series = cell["series"].as_array().unwrap();
        assert_eq!(series.len(), 2);
        let ops = |kind: &Value| kind["ops"].as_u64().unwrap_or(0);
        let summed: u64 = series.iter().map(|i| ops(&i["read"]) + ops(&i["write"])).sum();
        assert_eq!(summed, ops(&cell["read"]) + ops(&cell["write"]));
    }
    // The notebook returns the same.
    assert_eq!(place.iodyno("show last --json --series").succeeds().json(), document);
    let shown = place.iodyno("show last");
    let shown = &shown.succeeds().stdout;
    assert!(shown.contains("emulated, virtual time") && shown.contains("EMULATED"), "{shown}");
    // A repeated run with the same seed gives the same figures.
    let again = place.document(&format!("{words} --series"));
    let all = |document: &Value| cells(document).iter().map(figures).collect::<Vec<_>>();
    assert_eq!(all(&again), all(&document));
    // The plan states the devices' initial state.
    let output = place.iodyno(&format!("{words} --no-notebook"));
    output.succeeds().says(&[
        "virtual time",
        "random-read and random-write: random in 4 KiB",
        "sequential",
    ]);
    assert!(place.names().is_empty());
}

/// A window that uses up burst credits has a warning, whether it is long, short, or of a sweep. A window below the base
/// rate, or on a volume without credits, has none.
#[test]
fn a_burst_is_not_the_long_run_rate() {
    let place = Place::new();
    for (words, is_burst) in [
        ("random-read --on model:ebs-gp2 --time 5s", true),
        ("random-read --on model:ebs-gp2 --time 500ms", true),
        ("random-read --on model:ebs-gp2?size=100GiB --rate 500 --time 5s", true),
        // A few operations a second.
        ("data-warehouse --on model:ebs-st1 --time 20s", true),
        // Credits run out at the start of the window.
        ("random-read --on model:ebs-gp2?size=100GiB&credits=5s --time 60s", true),
        ("random-read --on model:ebs-gp2 --vary depth=32,64 --time 60s", true),
        // A few operations a second more than flow in.
        ("random-read --on model:ebs-gp2?size=100GiB --rate 305 --constant --time 30s", true),
        ("random-read --on model:ebs-gp2 --rate 200 --time 5s", false),
        ("random-read --on model:ebs-gp2 --vary rate=100,200 --time 2s", false),
        ("random-read --on model:ebs-gp2?credits=0s --time 5s", false),
        ("random-read --on model:ebs-gp3 --vary depth=8,64 --time 5s", false),
    ] {
        let document = place.document(&format!("run {words}"));
        let codes = codes(&cells(&document)[0]);
        assert_eq!(codes.contains(&"TRANSIENT"), is_burst, "{words}: {codes:?}");
        assert_eq!(codes.contains(&"VALID"), !is_burst, "{words}: {codes:?}");
    }
    // Credits flow in 150 times as fast as these operations take them.
    let document = place.document("run random-read --on model:ebs-gp2 --rate 2 --time 5s");
    assert!(!codes(&cells(&document)[0]).contains(&"TRANSIENT"), "{document}");
}

/// The options of a cloud volume determine its limits, are kept in its name, and are refused with the permitted range
/// if they are outside it. In a system's file each volume has its own options, and the volumes share limits.
#[test]
fn the_name_chooses_a_volume() {
    let place = Place::new();
    let options = "size=500GiB&iops=6000&mbps=250";
    let rate = |on: &str, more: &str| {
        let words = format!("run random-read --on {on} --time 2s --ramp 1s {more} --no-notebook");
        let document = place.document(&words);
        let cell = cells(&document).last().unwrap();
        (cell["target"].as_str().unwrap().to_owned(), number(&cell["read"]["iops"]))
    };
    let gp3 = format!("model:ebs-gp3?{options}");
    let (name, iops) = rate(&gp3, "");
    assert!(name == gp3 && (iops / 6000.0 - 1.0).abs() < 0.01, "{name}: {iops}");
    let (_, iops) = rate(&format!("model:raid0(ebs-gp3*2)?{options}"), "--depth 64");
    assert!((iops / 12_000.0 - 1.0).abs() < 0.01, "{iops}");
    // Google's disks share the limits of one disk of their total size: 3000, and 6 per GiB.
    let pooled = "model:raid0(gcp-pd-balanced*4)?size=100GiB";
    let (_, iops) = rate(pooled, "--depth 64");
    assert!((iops / 5400.0 - 1.0).abs() < 0.01, "{iops}");
    // So do single ones, also beside devices of other families.
    let beside = "model:gcp-pd-balanced*2?size=100GiB --on model:nvme-tlc-3840g@cloud-instance";
    let words = format!("run random-read --on {beside} --time 2s --ramp 1s --no-notebook");
    let document = place.document(&words);
    let disks = cells(&document).iter().filter(|cell| {
        cell["target"].as_str().is_some_and(|name| name.contains("gcp-pd-balanced"))
    });
    let iops: f64 = disks.map(|cell| number(&cell["read"]["iops"])).sum();
    assert!((iops / 4200.0 - 1.0).abs() < 0.02, "{iops}");
    // Without credits, at once the base rate.
    let (name, iops) = rate("model:ebs-gp2?size=200GiB&credits=0s", "");
    assert!(name.ends_with("credits=0") && (iops / 600.0 - 1.0).abs() < 0.02, "{name}: {iops}");

    let base = place.iodyno("catalog cloud-instance").succeeds().stdout.clone();
    let instance = format!(
        "{base}\n[iops_limit]\nrate = {{ is = 5000, from = \"assumed: test\" }}\nwindow = {{ is = \"10ms\", from = \"assumed: test\" }}\n\
         [[volumes]]\ndevice = \"ebs-gp3?size=1TiB&iops=4000\"\ncount = 2\n"
    );
    place.write("instance.toml", &instance);
    let (name, iops) = rate("model:./instance.toml", "");
    assert!(name.starts_with("all") && (iops / 5000.0 - 1.0).abs() < 0.01, "{name}: {iops}");
    let explained = place.iodyno("explain ./instance.toml random-read --json").succeeds().json();
    assert_eq!(explained["cells"][0]["limit"]["resource"], "IOPS limit of the instance");

    // The instance's own credits: for 1 s, which the ramp uses up.
    let bursts = instance.replace(
        "[[volumes]]",
        "burst = { is = 7000, from = \"assumed: test\" }\ncredits = { is = 9000000, from = \"assumed: test\" }\n[[volumes]]",
    );
    place.write("bursts.toml", bursts);
    let (_, iops) = rate("model:./bursts.toml", "");
    assert!((iops / 7000.0 - 1.0).abs() < 0.01, "{iops}");
    let (_, iops) = rate("model:./bursts.toml?credits=1s", "");
    assert!((5000.0..5200.0).contains(&iops), "{iops}");

    for (on, words) in [
        ("ebs-gp3?iops=90000", &["model:ebs-gp3?iops=90000", "3000 to 80000 IOPS"][..]),
        ("ebs-gp2?iops=3000", &["it follows from the size"]),
        ("exflash-400g?credits=0", &["no burst credits"]),
        ("./instance.toml?size=1TiB", &["set them in the system's file"]),
        ("./instance.toml?credits=0", &["no burst credits"]),
    ] {
        place.iodyno(&format!("run random-read --on model:{on}")).fails(2, words);
    }
    let wrong = instance.replace("iops=4000", "iops=4000&state=fresh");
    place.write("wrong.toml", wrong);
    place
        .iodyno("run random-read --on model:./wrong.toml")
        .fails(2, &["wrong.toml", "no options except"]);
}

/// Many devices are volumes of one system; their merged cell is their sum.
#[test]
fn many_devices_are_one_system() {
    let place = Place::new();
    let document = place.document(&format!(
        "run db-oltp --on {DEVICE}*3@x3850-x6?state=random:16KiB --on {DEVICE} --ops 500 --ramp 0s --rate 20k/s"
    ));
    assert_valid(RUN_SCHEMA, &document);
    let cells = cells(&document);
    let names: Vec<&str> = cells.iter().map(|c| c["target"].as_str().unwrap()).collect();
    let numbered = |k| format!("{DEVICE}#{k}@x3850-x6?state=random:16KiB");
    assert_eq!(
        names,
        [&numbered(1), &numbered(2), &numbered(3), DEVICE, "all (4 targets)"],
        "numbered where several are alike"
    );
    let ops = |cell: &Value| whole(&cell["read"]["ops"]) + whole(&cell["write"]["ops"]);
    assert!(cells[..4].iter().all(|cell| ops(cell) == 500));
    assert_eq!(ops(&cells[4]), 2000);
    assert_eq!(cells[4]["offered_iops"], 80_000.0);
    assert_eq!(cells[4]["evidence"]["virtual_time"], true);
    assert!(codes(&cells[4]).contains(&"EMULATED"));
    assert!(cells[0]["facts"]["state"].as_str().unwrap().contains("16 KiB"));
    assert!(cells[3]["facts"]["state"].as_str().unwrap().contains("8 KiB"));
    let targets = document["run"]["targets"].as_array().unwrap();
    let facts: Vec<&Value> = targets.iter().map(|t| &t["facts"]["emulated"]).collect();
    assert!(facts.iter().all(|f| f["system"] == "x3850-x6" && f["volumes"] == 4));
    let sockets: Vec<u64> = facts.iter().map(|f| whole(&f["socket"])).collect();
    assert_eq!(sockets, [0, 1, 2, 3]);
}

#[test]
fn targets_that_can_t_be_one_system_are_refused() {
    let place = Place::new();
    for (targets, words) in [
        (format!("--on {DEVICE} --on scratch:64MiB"), &[DEVICE, "scratch:64MiB", "real"][..]),
        (format!("--on null: --on {DEVICE}"), &["null:", "is emulated"]),
        ("--on model:exflash-40g".to_owned(), &["no device", "exflash-40g"]),
        (format!("--on {DEVICE}@nowhere"), &["no system", "nowhere"]),
        (format!("--on {DEVICE} --on {DEVICE}@nowhere"), &["x3850-x6", "nowhere", "one system"]),
        (format!("--on {DEVICE}?workers=near --on {DEVICE}?workers=anywhere"), &["workers="]),
        (format!("--on {DEVICE}*0"), &["*0", "1 to 1024"]),
        (format!("--on {DEVICE}#2"), &["can't contain `#`"]),
        (format!("--on {DEVICE}?sizes=1GiB"), &["state=", "fill="]),
        (format!("--on {DEVICE}?size=1GiB"), &["one size", "leave size= out"]),
        (format!("--on {DEVICE} --engine uring"), &["uring", DEVICE, "--engine"]),
        (format!("--on {DEVICE} --active 1TiB..2TiB"), &[DEVICE, "2 TiB"]),
        ("--on null: --engine model".to_owned(), &["model", "null:"]),
    ] {
        let output = place.iodyno(&format!("run random-read {targets} --ops 10 --json"));
        output.fails(2, words);
    }
    place.iodyno("check model:exflash-40g").fails(2, &["no device"]);
    assert!(!place.notebook().exists());
}

#[test]
fn a_check_describes_the_emulated_system() {
    let place = Place::new();
    let output = place.iodyno(&format!("check {DEVICE}*8?fill=50%&state=sequential"));
    let output = &output.succeeds().stdout;
    for words in ["virtual time", "x3850-x6", "8 × exflash-400g", "sequential", "50 % full"] {
        assert!(output.contains(words), "{words}: {output}");
    }
    let document = place.iodyno(&format!("check {DEVICE} --json")).succeeds().json();
    assert_eq!((&document["target"], &document["writable"]), (&json!(DEVICE), &json!(true)));
    assert_eq!(document["emulated"][0]["state"], "auto");
    place.write("my.toml", "schema = 1\n");
    let file = place.iodyno("check my.toml");
    assert!(file.exits(3).stdout.contains("name it `model:"), "{}", file.stdout);
}

/// A run without end in virtual time stops at once on a signal.
#[test]
fn an_interruption_keeps_the_simulated_results() {
    let place = Place::new();
    let mut running = place.start(&format!("run random-read --on {DEVICE} --time 1000h --ramp 0s"));
    place.wait_for_cells(&mut running, 1);
    running.signal(libc::SIGINT);
    running.finish().exits(130);
    let document = place.iodyno("show last --json").succeeds().json();
    assert_eq!(document["run"]["status"], "interrupted");
    let cell = &cells(&document)[0];
    assert_eq!(cell["ended"], "interrupted");
    assert!(codes(cell).contains(&"INTERRUPTED") && whole(&cell["read"]["ops"]) > 0);
}

/// Two workloads at once on two targets: each of the four cells starts from the state of its own target.
#[test]
fn cells_of_workloads_at_once_have_the_states_of_their_targets() {
    let place = Place::new();
    let on = "--on model:exflash-400g?state=fresh --on model:exflash-400g";
    let document =
        place.document(&format!("run random-read --with seq-write {on} --time 5ms --ramp 1ms"));
    let mut seen = 0;
    for cell in cells(&document).iter().filter(|cell| cell["evidence"]["beside"][0].is_string()) {
        let Some(state) = cell["evidence"]["device_state"].as_str() else {
            assert!(cell["target"].as_str().unwrap().starts_with("all"), "{cell}");
            continue;
        };
        let is_fresh = cell["target"].as_str().unwrap().ends_with("state=fresh");
        assert_eq!(state == "fresh", is_fresh, "{state} {}", cell["target"]);
        seen += 1;
    }
    assert_eq!(seen, 4);
}

#[test]
fn arrays_are_volumes_of_several_devices() {
    let place = Place::new();
    let of = |what: &str, words: &str| {
        let target = format!("model:{what}@workstation");
        place.document(&format!("run {words} --on {target} --time 100ms --ramp 20ms"))
    };
    let iops = |what: &str, words: &str| number(&cells(&of(what, words))[0]["total"]["iops"]);
    // A workload that saturates four devices gets four times the rate of one, and of a mirror half of that in writes.
    let read = "random-read --threads 8 --depth 32";
    let write = "random-write --threads 8 --depth 32";
    let one = (iops("ssd-sas12-mlc-800g", read), iops("ssd-sas12-mlc-800g", write));
    for (what, reads, writes) in [
        ("raid0(ssd-sas12-mlc-800g*4)", 4.0, 4.0),
        ("raid10(ssd-sas12-mlc-800g*4)", 4.0, 2.0),
        ("jbod(ssd-sas12-mlc-800g*4)", 4.0, 4.0),
        ("raid1(raid0(ssd-sas12-mlc-800g*2)*2)", 4.0, 2.0),
    ] {
        for (words, one, times) in [(read, one.0, reads), (write, one.1, writes)] {
            let off = iops(what, words) / (times * one);
            assert!((0.9..1.05).contains(&off), "{what} {words}: {off} of {times} times one");
        }
    }
    // An array of one volume each; the second is another one.
    let two = of("raid5(ssd-sas12-mlc-800g*3,strip=64KiB)*2", "oltp1");
    let target = &two["run"]["targets"][0];
    assert_eq!(target["facts"]["emulated"]["device"], "raid5(ssd-sas12-mlc-800g*3,strip=64KiB)");
    assert_eq!(two["run"]["targets"].as_array().unwrap().len(), 2);
    assert_eq!(target["facts"]["size_bytes"], 2 * (800_000_000_000_u64 / 65536 * 65536));
    let explained = place.iodyno("explain model:raid5(ssd-sas12-mlc-800g*3)@workstation oltp1");
    let shown = &explained.succeeds().stdout;
    assert!(shown.contains("members read") && shown.contains("array's processor"), "{shown}");
    // A mirror of the host above adapters, of volumes behind them; a list of a system names it as a target does.
    let nested = "raid1(raid0(ssd-gen3-emlc*3)*2)";
    let file = format!(
        "schema = 1\nkind = \"system\"\nsummary = \"mirrored\"\nbase = \"57ce-gen3\"\n\
         [[volumes]]\ndevice = \"{nested}\"\ncount = 2\n"
    );
    place.write("mirrored.toml", file);
    let (listed, twice) = ("check model:./mirrored.toml", format!("2 × {nested}"));
    for (words, shown) in [
        (listed, &*twice),
        ("explain model:./mirrored.toml oltp1", "adapter's processor"),
        ("explain model:raid5(raid1(ssd-sas12-mlc-800g*2)*3) oltp1", "outer array's processor"),
    ] {
        let out = place.iodyno(words);
        let stdout = &out.succeeds().stdout;
        assert!(stdout.contains(shown), "{words}: {stdout}");
    }
    let cached = |base: &str, rest: &str| {
        let head = "schema = 1\nkind = \"system\"\nsummary = \"cached\"\n";
        let volumes = "[[volumes]]\ndevice = \"raid5(hdd-15k-sas-80g*3)\"";
        format!("{head}base = \"{base}\"\n{volumes}\n{rest}\n")
    };
    let cache = "read_cache = \"ssd-sata3-mlc-200g\"";
    // A cache of half of the volume hits half of the reads, which take no disk.
    let half = format!("{cache}\nread_cache_size = \"74GiB\"");
    place.write("cached.toml", cached("workstation", &half));
    place.write("uncached.toml", cached("workstation", ""));
    let rate = |file: &str| {
        let words = format!("run random-read --on model:./{file}.toml --time 4s");
        number(&cells(&place.document(&words))[0]["total"]["iops"])
    };
    let times = rate("cached") / rate("uncached");
    assert!((1.8..2.3).contains(&times), "{times}");
    let explained = place.iodyno("explain model:./cached.toml random-read");
    let share =
        explained.succeeds().stdout.lines().find_map(|line| line.trim().strip_prefix("read cache"));
    let share = share.and_then(|words| words.trim().split(' ').next()).unwrap_or_default();
    assert!((45.0..55.0).contains(&share.parse().unwrap()), "{}", explained.stdout);
    // A file of a system is printed as an entry of the catalog is.
    let printed = place.iodyno("catalog ./cached.toml").succeeds().stdout.clone();
    assert!(printed.contains("read_cache"), "{printed}");
    place.write("behind.toml", cached("57ce-gen3", cache));
    let large = format!("{cache}\nread_cache_size = \"1TiB\"");
    place.write("large.toml", cached("workstation", &large));
    place.write("sized.toml", cached("workstation", "read_cache_size = \"1GiB\""));
    for (words, message) in [
        ("check model:./behind.toml", "rule `read-cache`"),
        ("check model:./sized.toml", "requires `read_cache`"),
        (
            "check model:./large.toml",
            "`read_cache_size` is 1 TiB, but ssd-sata3-mlc-200g has only 186 GiB",
        ),
        ("run oltp1 --on model:raid5(ssd-sas12-mlc-800g*2)", "at least 3 members"),
        ("run oltp1 --on model:raid5(raid1(ssd-sas12-mlc-800g*2)*2)", "at least 3 members"),
        ("run oltp1 --on model:raid1(raid5(ssd-sas12-mlc-800g*2)*2)", "at least 3 members"),
        ("run oltp1 --on model:raid1(raid0(exflash-400g*60)*2)", "slots for 32"),
        (
            "serve raid1(ssd-sas12-mlc-800g*2) --size 1GiB --nbd unix:nbd.sock",
            "--size requires volumes of a single device",
        ),
    ] {
        place.iodyno(words).exits(2).says(&[message]);
    }
}
