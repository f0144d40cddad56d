//! The part of the trap suite that requires a kernel with device mapper, md and RAM disks: `it`'s
//! module `traps` defines a trap.

use crate::machine::{Guest, program};
use serde_json::{Value, json};
use std::fs::File;

/// Node of a stack, commands that create it in the guest, and the required verdict; None for an honest stack.
const TRAPS: [(&str, &str, Option<&str>); 10] = [
    ("vdc", "true", None),
    ("ram0", "true", Some("MEMORY")),
    ("dm-0", "dmsetup create --table '0 32768 linear /dev/vdd 0' honest", None),
    ("dm-1", "dmsetup create --table '0 32768 linear /dev/ram1 0' memory", Some("MEMORY")),
    // It accepts and returns anything without a device.
    ("dm-2", "dmsetup create --table '0 32768 zero' nothing", Some("PAGE_CACHE")),
    ("dm-3", "dmsetup create --table '0 32768 delay /dev/vdd 0 3' slow", Some("LAYER")),
    ("dm-4", "dmsetup create --table '0 32768 flakey /dev/vdd 0 3600 1' faulty", Some("LAYER")),
    ("md1", "mdadm --create /dev/md1 $MD /dev/ram2 /dev/ram3", Some("MEMORY")),
    (
        "md2",
        "dmsetup remove honest; dmsetup remove slow; dmsetup remove faulty; \
         mdadm --create /dev/md2 $MD /dev/vdc /dev/vdd",
        None,
    ),
    (
        "md3",
        "mdadm --stop /dev/md2; mdadm --create /dev/md3 --run --metadata=1.2 --level=1 \
         --assume-clean --raid-devices=2 /dev/vdc /dev/vdd && mdadm /dev/md3 --fail /dev/vdd",
        Some("RAID_DEGRADED"),
    ),
];

#[test]
#[ignore = "needs QEMU and a guest kernel"]
fn no_trap_is_valid_and_no_honest_stack_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let disk = |name: &str| {
        let path = folder.path().join(name);
        File::create(&path).unwrap().set_len(32 << 20).unwrap();
        format!("driver=file,filename={}", path.display())
    };
    let mut guest = Guest::with(&[program(folder.path()), disk("one"), disk("two")]);
    guest.good("mkdir /tmp/program && mount -t ext4 -o ro /dev/vdb /tmp/program");
    let workload = "schema = 1\\ndepth = 4\\nblock = \"64KiB\"\\n[mix]\\nread = 60\\nwrite = 40\\n\
        [limits]\\nops = 400\\n";
    guest.good(&format!("printf '{workload}' >/tmp/mixed.toml"));
    let mut wrong = Vec::new();
    for (node, made, expected) in TRAPS {
        let flags = "--run --metadata=1.2 --level=0 --raid-devices=2 --chunk=64K";
        guest.good(&format!("{} 2>&1", made.replace("$MD", flags)));
        let words = format!("--on /dev/{node} --destroy {node} --ramp 0s --no-notebook -q --json");
        guest.good(&format!("/tmp/program/iodyno run /tmp/mixed.toml {words} >/tmp/output"));
        let output: Value = serde_json::from_str(&guest.good("cat /tmp/output")).unwrap();
        let cell = &output["cells"][0];
        let verdicts = cell["verdicts"].as_array().unwrap();
        let codes: Vec<&str> = verdicts.iter().filter_map(|v| v["code"].as_str()).collect();
        println!("{node}: {codes:?}");
        let caught = ["PAGE_CACHE", "MEMORY", "LAYER", "RAID_DEGRADED"];
        let found: Vec<&str> = codes.iter().copied().filter(|c| caught.contains(c)).collect();
        if found != expected.as_slice() || expected.is_some() && codes.contains(&"VALID") {
            wrong.push(format!("{node}: {codes:?}, {}", cell["evidence"]["storage"]));
        }
        // The failed member took no I/O.
        if node == "md3" && cell["evidence"]["storage"]["lowest"] != json!(["vdc"]) {
            wrong.push(format!("{node}: {}", cell["evidence"]["storage"]));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
