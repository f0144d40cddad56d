//! Purges of QEMU's devices with a real kernel's NVMe and SATA drivers: their effect, as seen by `dd` in the
//! guest and in the image on the host, and the report if a device ignores the command, fails or has no method.
//!
//! QEMU's NVMe controller supports Format NVM and DSM's deallocate, but not Sanitize; its SATA disk supports
//! TRIM, but not the Security feature set. All tests share one boot, because QEMU can't keep the state of NVMe.

use crate::machine::{Guest, program};
use serde_json::Value;
use std::fs::File;
use std::path::Path;
use tempfile::TempDir;

const BYTES: u64 = 8 << 20;
/// MD5 sum of [`BYTES`] zeroes.
const ZEROES: &str = "96995b58d4cbf6aaa9041b4f00c7f6ae";

/// Images, and their options for QEMU: those that pass discards on, one that drops them, and one
/// whose first erase fails.
const IMAGES: [(&str, &str); 6] = [
    ("first", "driver=file,discard=unmap"),
    ("second", "driver=file,discard=unmap"),
    ("liar", "driver=file,discard=ignore"),
    (
        "failing",
        "driver=blkdebug,discard=unmap,inject-error.0.event=none,inject-error.0.once=on,\
         inject-error.0.iotype=write-zeroes,image.driver=file,image.discard=unmap,image",
    ),
    ("zoned", "driver=file,discard=unmap"),
    ("sata", "driver=file,discard=unmap"),
];
/// QEMU's devices: a controller with two namespaces, controllers with one namespace each, and a SATA disk.
const DEVICES: [&str; 8] = [
    "nvme,id=c0,serial=TWO",
    "nvme-ns,bus=c0,nsid=1,drive=first",
    "nvme-ns,bus=c0,nsid=2,drive=second",
    "nvme,serial=LIAR,drive=liar",
    "nvme,serial=FAILING,drive=failing",
    "nvme,id=c3,serial=ZONED",
    "nvme-ns,bus=c3,drive=zoned,zoned=on,zoned.zone_size=1M",
    "ide-hd,serial=SATA,drive=sata,bus=ide.0",
];

struct Bench {
    guest: Guest,
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut more = Vec::new();
        for (name, how) in IMAGES {
            let path = folder.path().join(name);
            File::create(&path).unwrap().set_len(BYTES).unwrap();
            let dot = if how.ends_with("image") { "." } else { "," };
            let node = format!("node-name={name},{how}{dot}filename={}", path.display());
            more.extend(["-blockdev".to_owned(), node]);
        }
        more.extend(DEVICES.into_iter().flat_map(|d| ["-device".to_owned(), d.to_owned()]));
        let mut guest = Guest::booted(&[program(folder.path())], &more);
        guest.good("mkdir /tmp/program && mount -t ext4 -o ro /dev/vdb /tmp/program");
        Self { guest, folder }
    }

    /// Node of the disk with this serial number. Names of nodes are not in the order of the devices.
    fn node(&mut self, serial: &str) -> String {
        let found = self.guest.good(&format!("grep -l {serial} /sys/block/*/device/serial"));
        format!("/dev/{}", found.split('/').nth(3).unwrap())
    }

    /// Node of a namespace of the first controller. Names of nodes are not in the order of the namespaces' numbers.
    fn namespace(&mut self, nsid: u32) -> String {
        let found = self.guest.good(&format!(
            "for n in $(grep -l TWO /sys/block/*/device/serial); do \
             grep -lx {nsid} ${{n%/device/serial}}/nsid; done; true"
        ));
        format!("/dev/{}", found.split('/').nth(3).unwrap())
    }

    fn iodyno(&mut self, words: &str) -> (String, i32) {
        let (text, code) = self.guest.run(&format!("/tmp/program/iodyno {words}"));
        println!("iodyno {words}: {code}\n{text}");
        (text, code)
    }

    /// Runs `iodyno` with `--json`, which must end with this exit code, and returns the document.
    fn json(&mut self, words: &str, expected: i32) -> Value {
        let (text, code) = self.iodyno(&format!("{words} --json 2>/tmp/complaints"));
        assert_eq!(code, expected, "{words}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Overwrites all of a device with `dd`, and returns the MD5 sum of the data.
    fn fill(&mut self, node: &str) -> String {
        self.guest.good(&format!(
            "dd if=/tmp/program/iodyno of={node} bs=1M count=8 oflag=direct 2>/dev/null"
        ));
        let sum = self.sum(node);
        assert_ne!(sum, ZEROES);
        sum
    }

    fn sum(&mut self, node: &str) -> String {
        let text =
            self.guest.good(&format!("dd if={node} bs=1M iflag=direct 2>/dev/null | md5sum"));
        text.split(' ').next().unwrap().to_owned()
    }

    /// Asserts that only zeroes are left, as seen by the guest and by the host.
    fn assert_gone(&mut self, node: &str, image: &str) {
        assert_eq!(self.sum(node), ZEROES, "{node} as the guest sees it");
        assert!(is_zero(&self.folder.path().join(image)), "{image} on the host");
    }
}

fn is_zero(image: &Path) -> bool {
    std::fs::read(image).unwrap().iter().all(|&byte| byte == 0)
}

fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no `{word}` in: {text}");
    }
}

#[test]
#[ignore = "needs QEMU and a guest kernel"]
fn devices_of_a_real_kernel() {
    let bench = &mut Bench::new();
    a_run_reports_wear(bench);
    format_and_discard(bench);
    a_device_that_lies(bench);
    a_device_that_fails(bench);
    a_zoned_device(bench);
    a_sata_disk(bench);
}

/// The SMART log before and after a run counts what the run wrote, and the kernel's count is kept.
fn a_run_reports_wear(bench: &mut Bench) {
    let node = bench.namespace(1);
    let words = "run seq-write --block 64KiB --ops 128 --ramp 0s --notebook /tmp/notebook -q";
    let document = bench.json(&format!("{words} --on {node}"), 0);
    let target = &document["run"]["targets"][0];
    let (before, after) = (&target["health_before"]["log"], &target["health_after"]["log"]);
    assert_eq!(before["source"], "NVMe SMART log", "{target:#}");
    let bytes = |log: &Value| log["data_written_bytes"].as_u64().unwrap();
    let grown = bytes(after) - bytes(before);
    // In thousands of blocks of 512 bytes, each count rounded up.
    assert!((BYTES - 512_000..BYTES + 1_024_000).contains(&grown), "{grown}: {target:#}");
    for log in [before, after] {
        assert_eq!((&log["temperature_c"], &log["media_errors"]), (&50.into(), &0.into()));
        assert_eq!((&log["critical_warning"], &log["percentage_used"]), (&0.into(), &0.into()));
    }
    assert!(target["health_after"]["writes_seen"].is_object(), "{target:#}");
    assert_ne!(bench.sum(&node), ZEROES);
}

/// Format erases only the given namespace; discard, the next best method, works too.
fn format_and_discard(bench: &mut Bench) {
    let (node, other) = (bench.namespace(1), bench.namespace(2));
    let (old, others) = (bench.fill(&node), bench.fill(&other));
    let (text, code) = bench.iodyno(&format!("purge {node} --destroy LIAR"));
    assert_eq!(code, 3);
    assert_says(&text, &["✗ nvme-sanitize-block", "→ nvme-format", "--destroy TWO"]);
    let words = format!("purge {node} --destroy TWO --method nvme-sanitize-block");
    let (text, code) = bench.iodyno(&words);
    assert_eq!(code, 4);
    assert_says(
        &text,
        &["not possible: nvme-sanitize-block: the controller does not support this method"],
    );
    assert_eq!(bench.sum(&node), old, "what was not possible changes nothing");

    let output = bench.json(&format!("purge {node} --destroy TWO"), 0);
    let record = &output["record"];
    assert_eq!((&output["purged"], &record["method"]), (&true.into(), &"nvme-format".into()));
    assert_eq!(record["verified"], "yes", "{output:#}");
    assert_says(&record["evidence"].to_string(), &["namespace 1 with SES=1", "64 read as zeroes"]);
    for when in ["health_before", "health_after"] {
        assert_eq!(record[when]["source"], "NVMe SMART log", "{output:#}");
    }
    bench.assert_gone(&node, "first");
    assert_eq!(bench.sum(&other), others, "the namespace beside it is as it was");

    bench.fill(&node);
    let output = bench.json(&format!("purge {node} --destroy {node} --method discard"), 0);
    assert_eq!((&output["purged"], &output["record"]["method"]), (&true.into(), &"discard".into()));
    bench.assert_gone(&node, "first");

    // In use, it is refused under every name.
    bench
        .guest
        .good(&format!("/bin/mke2fs -q -F -t ext4 {other} && mount -t ext4 {other} /tmp/fs"));
    let (text, code) = bench.iodyno(&format!("purge {other} --destroy TWO"));
    assert_eq!(code, 3);
    assert_says(&text, &["mounted", "/tmp/fs"]);
    bench.guest.good(&format!("umount /tmp/fs && /bin/e2fsck -fn {other}"));
}

/// A device that acknowledges discards and drops them.
fn a_device_that_lies(bench: &mut Bench) {
    let node = bench.node("LIAR");
    bench.fill(&node);
    let output = bench.json(&format!("purge {node} --destroy LIAR --method discard"), 4);
    assert_eq!((&output["purged"], &output["record"]["verified"]), (&false.into(), &"no".into()));
    assert_says(&output["record"]["evidence"].to_string(), &["64 still hold", "keeps the data"]);
}

/// A device on which a format fails midway. The remedy in the report works.
fn a_device_that_fails(bench: &mut Bench) {
    let node = bench.node("FAILING");
    bench.fill(&node);
    let (text, code) = bench.iodyno(&format!("purge {node} --destroy FAILING"));
    assert_eq!(code, 4);
    assert_says(&text, &["no, by nvme-format failed", "internal error", "then purge again"]);
    assert!(!is_zero(&bench.folder.path().join("failing")));
    let output = bench.json(&format!("purge {node} --destroy FAILING"), 0);
    assert_eq!(output["record"]["method"], "nvme-format");
    // A namespace whose format has failed takes no pattern.
    assert_eq!(output["record"]["verified"], "unknown", "{output:#}");
    bench.assert_gone(&node, "failing");
}

/// A controller that refuses to format zones. A discard does not reset zones.
fn a_zoned_device(bench: &mut Bench) {
    let node = bench.node("ZONED");
    let data = bench.fill(&node);
    let output = bench.json(&format!("purge {node} --destroy ZONED"), 4);
    let record = &output["record"];
    assert_eq!((&output["purged"], &record["method"]), (&false.into(), &Value::Null));
    assert_eq!(record["outcome"]["state"], "not_possible");
    assert_says(&record.to_string(), &["status 0x10a, invalid format", "blkzone reset"]);
    assert_eq!(bench.sum(&node), data, "full zones take no pattern");
}

/// A disk without the Security feature set, which is reported; TRIM works.
fn a_sata_disk(bench: &mut Bench) {
    // The only one behind that driver.
    let node = "/dev/sda";
    let old = bench.fill(node);
    let (text, code) = bench.iodyno(&format!("purge {node} --destroy SATA --method ata-erase"));
    assert_eq!(code, 4);
    assert_says(&text, &["not possible: ata-erase: the drive does not have the Security feature"]);
    assert_eq!(bench.sum(node), old);
    let output = bench.json(&format!("purge {node} --destroy SATA"), 0);
    assert_eq!((&output["purged"], &output["record"]["method"]), (&true.into(), &"discard".into()));
    assert_eq!(output["record"]["verified"], "yes", "{output:#}");
    bench.assert_gone(node, "sata");
}
