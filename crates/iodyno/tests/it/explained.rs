//! `explain`: its account of emulated storage adds up, is reproducible, and names the limit.

use crate::place::{Place, number, whole};
use serde_json::{Value, json};

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("{key}: {value}"))
}

/// Document of `explain` for one workload on one device.
fn cell(place: &Place, words: &str) -> Value {
    let document = place.iodyno(&format!("explain {words} --json")).succeeds().json();
    assert_eq!(document["schema"], 1);
    assert_eq!(list(&document, "cells").len(), 1);
    document["cells"][0].clone()
}

#[test]
fn the_time_of_an_io_adds_up() {
    let place = Place::new();
    for words in [
        "exflash-400g oltp-67-33-4k",
        "ssd-sata3-emlc-800g random-read",
        "hdd-15k-sas-80g random-read",
        "hdd-nearline-20t seq-write",
        "ramdisk-ddr3-16g oltp-67-33-4k",
        "ebs-gp2 oltp-67-33-4k",
    ] {
        let cell = cell(&place, words);
        let mut iops = 0.0;
        for kind in list(&cell, "kinds") {
            let phases = list(kind, "phases");
            let sum: f64 = phases.iter().map(|p| number(&p["mean_ns"])).sum();
            let mean = number(&kind["mean_ns"]);
            // Phases are counted when they end: the window's edges are some I/Os.
            assert!((sum / mean - 1.0).abs() < 0.03, "{words}: {sum} of {mean}, {kind}");
            iops += number(&kind["iops"]);
        }
        assert!((number(&cell["iops"]) / iops - 1.0).abs() < 1e-9);
        let shares = list(&cell, "resources");
        let busy: Vec<f64> = shares.iter().map(|s| number(&s["busy_share"])).collect();
        assert!(busy.is_sorted_by(|a, b| a >= b) && busy[0] <= 1.001, "{words}: {busy:?}");
        for share in shares.iter().filter(|s| number(&s["busy_share"]) > 0.0) {
            assert!(number(&share["iops_at_most"]) >= 0.999 * iops, "{words}: {share}");
        }
    }
}

/// Arrays behind adapters: a small write to RAID 5 reads the rest of its stripe or the data that it replaces, and
/// writes to two members.
#[test]
fn the_parts_below_a_volume_have_their_own_accounts() {
    let place = Place::new();
    let cell = cell(&place, "raid5(ssd-gen3-emlc*3)@57ce-gen3 oltp1 --depth 8");
    let of = |level: &str, kind: &str| {
        let all = list(&cell, "below").iter();
        let one = all.filter(|of| of["level"] == level && of["kind"] == kind).collect::<Vec<_>>();
        let [one] = one[..] else { panic!("{level} {kind}: {cell}") };
        let phases = list(one, "phases").iter().map(|phase| number(&phase["mean_ns"]));
        (number(&one["iops"]), phases.sum::<f64>())
    };
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.03;
    let (reads, writes) = (of("array", "read"), of("array", "write"));
    let (device_reads, device_writes) = (of("flash device", "read"), of("flash device", "write"));
    let kinds = list(&cell, "kinds");
    assert!(near(reads.0, number(&kinds[0]["iops"])), "{cell}");
    assert!(near(writes.0, number(&kinds[1]["iops"])), "destaged as fast as written: {cell}");
    assert!(
        near(device_writes.0, 2.0 * writes.0) && near(device_reads.0, reads.0 + writes.0),
        "{cell}"
    );
    assert!(device_reads.1 < reads.1 && device_reads.1 + device_writes.1 < writes.1, "{cell}");
}

/// Volumes that differ have their own phases, which add up to their own mean, and resources with bounds of their own.
#[test]
fn different_volumes_have_their_own_accounts() {
    let place = Place::new();
    place.write(
        "two.toml",
        "schema = 1\nkind = \"system\"\nsummary = \"two\"\nbase = \"workstation\"\n[[volumes]]\ndevice = \"hdd-15k-300g\"\n[[volumes]]\ndevice = \"raid5(nvme-tlc-3840g*3)\"\n",
    );
    let cell = cell(&place, "./two.toml random-read --depth 2");
    let [disk, array] = list(&cell, "kinds") else { panic!("{cell}") };
    assert_eq!(
        (&disk["volume"], &array["volume"]),
        (&json!("hdd-15k-300g"), &json!("raid5(nvme-tlc-3840g*3)"))
    );
    for kind in [disk, array] {
        let phases = list(kind, "phases").iter().map(|phase| number(&phase["mean_ns"]));
        // The rest of a read of an array is the wake-up of the worker.
        let share = phases.sum::<f64>() / number(&kind["mean_ns"]);
        assert!((0.95..1.03).contains(&share), "{share}: {kind}");
    }
    let limits = list(&cell, "limits");
    assert_eq!(limits[0]["resource"], "heads of hdd-15k-300g");
    let bound = number(&limits[0]["iops_at_most"]) / number(&disk["iops"]);
    assert!((1.0..1.1).contains(&bound), "{bound}");
    let latency_s = number(&limits[1]["latency_ns"]) / 1e9;
    let outstanding = latency_s * number(&array["iops"]);
    assert!((outstanding / number(&limits[1]["outstanding"]) - 1.0).abs() < 1e-6, "{limits:?}");
    assert!(list(&cell, "below").iter().all(|of| of["volume"] == array["volume"]), "{cell}");
}

/// The busiest member of an array limits it, and the queues of all members hold its commands.
#[test]
fn members_of_an_array_limit_it_one_by_one() {
    let place = Place::new();
    // In order, one member of a JBOD does all the work.
    let jbod = cell(&place, "jbod(nvme-tlc-3840g*4)@workstation seq-write");
    let bound = number(&jbod["limit"]["iops_at_most"]) / number(&jbod["iops"]);
    assert!(jbod["limit"]["resource"] == "flash dies" && bound < 1.01, "{jbod}");
    let text = |words: &str| {
        let output = place.iodyno(&format!("explain {words}")).succeeds().stdout.clone();
        output.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let words = text("jbod(nvme-tlc-3840g*4)@workstation seq-write");
    assert!(words.contains("flash dies of 1 of 4 devices, busy 100 % of the time"), "{words}");
    // 16 commands on each device or, in order, 32 on one of a JBOD.
    let file = place.iodyno("catalog nvme-tlc-3840g").succeeds().stdout.clone();
    for (max, said) in
        [(32, "latency: 3"), (4, "queue of each device, which accepts 4 of 16 outstanding I/Os")]
    {
        let queue = format!("queue_max = {{ is = {max}");
        place.write("device.toml", file.replace("queue_max = { is = 1024", &queue));
        let words = text("raid0(./device.toml*2)@workstation random-read --depth 32");
        assert!(words.contains(said), "{words}");
    }
    let words = text("jbod(./device.toml*2)@workstation seq-read --block 4KiB --depth 32");
    assert!(words.contains("queue of the busiest device, which accepts 4 of 3"), "{words}");
    let cores = text("nvme-tlc-3840g*20@workstation random-read --depth 256");
    assert!(cores.contains("no core is left for more threads"), "{cores}");
}

/// A volume that starts without burst credits is limited by its base rate, of which the load is a share.
#[test]
fn without_credits_the_base_rate_is_the_limit() {
    let place = Place::new();
    let cell = cell(&place, "azure-premium?credits=0 random-write --depth 2");
    let resources = list(&cell, "resources");
    assert!(resources.iter().all(|of| !of["name"].as_str().unwrap().contains("credits")), "{cell}");
    let limit = resources.iter().find(|of| of["name"] == "IOPS limit").unwrap();
    let load = number(&cell["iops"]) / 2300.0;
    assert!((number(&limit["busy_share"]) / load - 1.0).abs() < 0.01, "{load}: {limit}");
    assert!((number(&limit["iops_at_most"]) / 2300.0 - 1.0).abs() < 0.01, "{limit}");
    // At 1.5 MB/s a read of 64 MiB takes 45 s.
    let stuck = place.iodyno("explain ebs-sc1?size=125GiB&credits=0 random-read --block 64MiB");
    assert!(stuck.succeeds().stdout.contains("no operation completed"), "{}", stuck.stdout);
}

/// Without a workload an array is described too: three of four members hold data, in whole strips.
#[test]
fn an_array_is_described_by_its_layout() {
    let place = Place::new();
    let words = "explain raid5(nvme-tlc-3840g*4)@workstation";
    let text = place.iodyno(words).succeeds().stdout.clone();
    for words in [
        "RAID 5 of 4 members, strips of 512 KiB, left-symmetric",
        "11.5 TB",
        "nvme-tlc-3840g: NVMe SSD",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let document = place.iodyno(&format!("{words} --json")).succeeds().json();
    let strips = 3_840_755_982_336_u64 >> 19;
    assert_eq!(document["arrays"][0]["capacity_bytes"], 3 * (strips << 19));
}

/// Flags have the same effect as a file with these values, also for each member of a group.
#[test]
fn flags_replace_the_values_of_a_workload() {
    let place = Place::new();
    place.write("one.toml", "schema = 1\nblock = \"4KiB\"\n[mix]\nread = 1\n");
    let values = "schema = 1\nthreads = 2\ndepth = 8\nblock = \"16KiB\"\n[mix]\nread = 1\n";
    place.write("all.toml", values);
    let flags = "--threads 2 --depth 8 --block 16KiB";
    let mut flagged = cell(&place, &format!("exflash-400g ./one.toml {flags}"));
    let mut written = cell(&place, "exflash-400g ./all.toml");
    for (cell, name) in [(&mut flagged, "one"), (&mut written, "all")] {
        let cell = cell.as_object_mut().unwrap();
        assert_eq!(cell.remove("name"), Some(json!(name)));
    }
    assert_eq!(flagged, written);
    assert_eq!((&flagged["threads"], &flagged["depth"]), (&json!(2), &json!(8)));
    for flag in ["--threads 2", "--depth 8", "--block 16KiB"] {
        place.iodyno(&format!("explain exflash-400g {flag}")).fails(2, &["WORKLOAD"]);
    }
    place.iodyno("explain exflash-400g random-read --depth 0").fails(2, &["--depth"]);
}

/// A name always gives the same document, and the sizing resource is the limiting one.
#[test]
fn the_limit_is_named() {
    let place = Place::new();
    let words = "explain exflash-400g random-read --json";
    assert_eq!(place.iodyno(words).succeeds().stdout, place.iodyno(words).succeeds().stdout);
    for (words, limit) in [
        ("hdd-15k-sas-80g random-read", json!("heads")),
        ("ramdisk-ddr3-16g random-write", json!("generator cores")),
        ("exflash-400g seq-read", json!("driver thread")),
        ("exflash-400g random-write", json!("programs at once")),
        ("ebs-gp2 random-read", json!("IOPS limit while credits last")),
        ("ebs-gp3?size=1TiB seq-read", json!("throughput limit")),
        ("ram-in-process random-read", json!("copying threads")),
    ] {
        let cell = cell(&place, words);
        assert_eq!(
            (&cell["limit"]["kind"], &cell["limit"]["resource"]),
            (&json!("resource"), &limit)
        );
        assert!(number(&cell["limit"]["iops_at_most"]) >= number(&cell["iops"]));
    }
    // Disks that share their limits: 6000, and 30 per GiB of all.
    let pooled = cell(&place, "gcp-pd-ssd*2?size=100GiB random-read");
    assert!((number(&pooled["iops"]) / 12_000.0 - 1.0).abs() < 0.01, "{pooled}");
    let words = "explain gcp-pd-ssd*2?size=100GiB random-read";
    let text = place.iodyno(words).succeeds().stdout.clone();
    assert!(text.contains("limit of the instance, busy 100 % of the time"), "{text}");
    assert!(!text.contains("use more threads"), "{text}");
    // A limit is busy before anything waits for it, and gives the bound.
    let text = place.iodyno("explain ebs-gp3 random-read --depth 1").succeeds().stdout.clone();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("IOPS limit (48 % busy), which allows 3.00 k IOPS"), "{text}");
    // In a state without garbage collection, no copies are counted.
    let fresh = cell(&place, "exflash-400g?state=fresh random-write");
    assert_eq!(fresh["flash"]["write_amplification"], 1.0);
    let steady = cell(&place, "exflash-400g random-write");
    assert!(number(&steady["flash"]["write_amplification"]) > 2.0);
    assert!(number(&steady["iops"]) < 0.6 * number(&fresh["iops"]));
    // One at a time, nothing is saturated.
    let mine = "schema = 1\ndepth = 1\nblock = \"64KiB\"\n[mix]\nread = 1\n";
    place.write("mine.toml", mine);
    let alone = cell(&place, "exflash-400g ./mine.toml");
    assert_eq!(alone["limit"]["kind"], "latency");
    let product = number(&alone["limit"]["latency_ns"]) / 1e9 * number(&alone["iops"]);
    // The rest of the time is the generator's.
    assert!((0.97..=1.0).contains(&product), "{product}");
    assert!(number(&alone["kinds"][0]["pages"]) >= 8.0, "64 KiB are eight pages of 8 KiB");
    let offered = format!("{mine}[arrivals]\nkind = \"open\"\nrate = \"500/s\"\n");
    place.write("open.toml", offered);
    let output = place.iodyno("explain exflash-400g ./open.toml");
    let output = &output.succeeds().stdout;
    assert!(output.contains("the offered rate, 32.8 MB/s"), "{output}");
}

#[test]
fn a_device_is_described_by_its_parameters() {
    let place = Place::new();
    let output = place.iodyno("explain exflash-400g");
    let output = &output.succeeds().stdout;
    for words in [
        "400 GB",
        "rated for 10.0 drive writes a day over 5 years: 7.30 PB",
        "all acknowledged writes survive",
        "printed",
        "[nand]",
        "DataGuard",
        "random read",
        "T1Q32",
        "sequential write",
        "driver thread",
    ] {
        assert!(output.contains(words), "{words}: {output}");
    }
    let document = place.iodyno("explain model:exflash-400g --json").succeeds().json();
    let device = &document["devices"][0];
    let sources: u64 = device["sources"].as_object().unwrap().values().map(whole).sum();
    assert_eq!(sources as usize, list(device, "parameters").len());
    assert_eq!(list(&document, "predictions").len(), 7);
    let endurance = &device["endurance"];
    assert_eq!(endurance["rated_bytes"], json!(7.3e15));
    for (device, survives) in
        [("ramdisk-ddr3-16g", false), ("nvdimm-n-32g", true), ("hdd-15k-sas-80g", true)]
    {
        let document = place.iodyno(&format!("explain {device} --json")).succeeds().json();
        assert_eq!(document["devices"][0]["acknowledged_survives_power_cut"], survives, "{device}");
        assert!(document["devices"][0]["endurance"].is_null());
    }
}

/// `explain` describes the blocks that a power cut keeps, if the device's file states them.
#[test]
fn the_blocks_of_a_power_cut_are_described() {
    let place = Place::new();
    let text = place.iodyno("catalog nvme-qlc-2048g").succeeds().stdout.clone();
    let source = "from = \"assumed: as the test has it\"";
    for (order, words) in
        [("any", "in any order"), ("acknowledged", "in the order of acknowledgement")]
    {
        let table = format!(
            "[power_cut]\natomic = {{ is = \"16KiB\", {source} }}\norder = {{ is = \"{order}\", {source} }}\n"
        );
        place.write("mine.toml", format!("{text}{table}"));
        let output = place.iodyno("explain ./mine.toml");
        let output = &output.succeeds().stdout;
        let words =
            format!("; other writes may survive in part, in whole blocks of 16 KiB, {words}");
        // Lines are wrapped to the width of the terminal.
        let said = output.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(&words), "{words}: {output}");
        assert!(said.contains("[power_cut]"), "{output}");
    }
}

/// The limits of a volume with options, each with its rule and source.
#[test]
fn a_volume_is_described_by_its_rules() {
    let place = Place::new();
    let output = place.iodyno("explain ebs-gp2?size=334GiB");
    for words in [
        "1.00 k IOPS; bursts to 3.00 k IOPS for 45 min 2 s",
        "3 per GiB, at least 100, at most 16000 (Amazon EC2",
        "262 MB/s",
        "chosen size, default 100GiB",
    ] {
        assert!(output.succeeds().stdout.contains(words), "{words}: {}", output.stdout);
    }
    let document = place.iodyno("explain azure-premium?size=1TiB --json").succeeds().json();
    let parameters = list(&document["devices"][0], "parameters");
    let of = |key: &str| parameters.iter().find(|p| p["key"] == key);
    let rate = of("throughput_limit.rate").unwrap();
    assert_eq!((&rate["value"], &rate["rule"]), (&json!("200 MB/s"), &json!("by size")));
    assert!(of("iops_limit.credits").is_none() && of("volume.read").unwrap()["rule"].is_null());
}

/// Targets of `explain`: a user's own file, several devices in a server, and names that are refused. The output is
/// ASCII in the locale C.
#[test]
fn names_are_those_of_run() {
    let place = Place::new();
    let file = place.iodyno("catalog exflash-400g --json").succeeds().json();
    place.write("mine.toml", file["text"].as_str().unwrap());
    let cell = cell(&place, "./mine.toml*4@x3850-x6?state=random:8KiB oltp-67-33-4k");
    assert_eq!((&cell["volumes"], &cell["state"]), (&json!(4), &json!("random in 8 KiB blocks")));
    let one = self::cell(&place, "./mine.toml?state=random:8KiB oltp-67-33-4k");
    let times = number(&cell["iops"]) / number(&one["iops"]);
    assert!((3.5..4.5).contains(&times), "{times}");
    let mut command = place.command("explain exflash-400g*2 random-read");
    let output = command.env("LC_ALL", "C").output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.is_ascii() && output.contains("2 x exflash-400g") && output.contains("##"),
        "{output}"
    );
    place.iodyno("explain exflash-40g").fails(2, &["no device", "exflash-40g"]);
    place.iodyno("explain exflash-400g nothing").fails(2, &["nothing"]);
    place.iodyno("explain exflash-400g*0").fails(2, &["1 to 1024"]);
    place.iodyno("explain exflash-400g*65@x3850-x6").fails(2, &["flash-dimm-slots"]);
    assert!(!place.notebook().exists(), "nothing is kept");
}

/// `explain`, `size` and `--with` read the name of a workload as `run` does. They refuse work that they don't support,
/// with a remedy.
#[test]
fn workloads_are_named_as_for_run() {
    let place = Place::new();
    let job = |more: &str| {
        format!("[a]\nrw=randread\nbs=4k\nsize=8m\n[b]\n{more}rw=read\nbs=64k\nsize=8m\n")
    };
    place.write("at_once.fio", job(""));
    place.write("in_turn.fio", job("stonewall\n"));
    let commands = [
        "explain exflash-400g NAME",
        "size --rate 1k/s --p99 2ms --workload NAME",
        "run random-read --on ram:1MiB --time 10ms --no-notebook --with NAME",
    ];
    for command in commands {
        for (name, words) in [
            ("randread", "did you mean `random-read`?"),
            ("exflash-400g", "it is a device"),
            ("ram:1MiB", "`ram:1MiB` is a target, and a workload or a method is needed here"),
            ("pts-iops", "`pts-iops` is a method, and a workload is needed here"),
            ("at_once.fio", "a and b run at the same time"),
        ] {
            place.iodyno(&command.replace("NAME", name)).fails(2, &[words]);
        }
        // A command of several workloads takes a group and jobs in turn.
        let takes_several = command.starts_with("explain");
        for (name, remedy) in [
            ("four-corners", "name one of them"),
            ("in_turn.fio", "iodyno convert in_turn.fio -o FOLDER"),
        ] {
            let output = place.iodyno(&command.replace("NAME", name));
            if takes_several {
                output.succeeds();
            } else {
                output.fails(2, &["is several workloads", remedy]);
            }
        }
    }
}

/// The predictions for a zoned device read one zone and write zone by zone. A run that would read the gaps between
/// zones is refused, with the flag to use.
#[test]
fn a_zoned_device_is_explained() {
    let place = Place::new();
    let output = place.iodyno("explain zn540-1t");
    assert!(output.succeeds().stdout.contains("write to a zone"), "{}", output.stdout);
    let refused = place.iodyno("run random-read --on model:zn540-1t --time 20ms");
    refused.exits(2);
    assert!(refused.stderr.contains("--active 1077MiB"), "{}", refused.stderr);
    place.iodyno("run random-read --on model:zn540-1t --time 20ms --active 1077MiB").succeeds();
}

/// `explain` names bursts of garbage collection, and predicts the mean over them.
#[test]
fn bursts_are_named_and_averaged() {
    let place = Place::new();
    let cell = cell(&place, "7450-pro-960g random-write");
    let amplification = number(&cell["flash"]["write_amplification"]);
    assert!((2.9..3.4).contains(&amplification), "{amplification}");
    let shown = place.iodyno("explain 7450-pro-960g");
    shown.succeeds();
    assert!(shown.stdout.contains("garbage is collected in bursts"), "{}", shown.stdout);
    for (load, is_said) in [("random-write", true), ("random-read", false)] {
        let shown = place.iodyno(&format!("explain 7450-pro-960g {load}"));
        let has = shown.succeeds().stdout.contains("not in bursts");
        assert_eq!(has, is_said, "{}", shown.stdout);
    }
}
