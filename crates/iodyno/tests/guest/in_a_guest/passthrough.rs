//! NVMe passthrough (`/dev/ng0n1`) with a real kernel's driver and QEMU's device: the block device returns what was
//! written, each kind of operation has its effect, and the character device is refused whenever the block device is.
//!
//! All tests share one boot, because QEMU can't keep the state of NVMe.

use crate::machine::{Guest, program};
use serde_json::Value;
use std::fs::File;
use tempfile::TempDir;

const BYTES: u64 = 8 << 20;

struct Bench {
    guest: Guest,
    /// Holds the image.
    folder: TempDir,
    /// `/dev/nvme0n1`.
    block: String,
    /// `/dev/ng0n1`.
    generic: String,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("namespace");
        File::create(&path).unwrap().set_len(BYTES).unwrap();
        let more = [
            "-blockdev".to_owned(),
            format!("node-name=n,driver=file,discard=unmap,filename={}", path.display()),
            "-device".to_owned(),
            // At most 128 KiB per command.
            "nvme,serial=PAST,drive=n,mdts=5".to_owned(),
        ];
        let mut guest = Guest::booted(&[program(folder.path())], &more);
        guest.good("mkdir /tmp/program && mount -t ext4 -o ro /dev/vdb /tmp/program");
        let found = guest.good("ls /sys/class/nvme-generic");
        let name = found.trim();
        let generic = format!("/dev/{name}");
        let block = generic.replace("/ng", "/nvme");
        Self { guest, folder, block, generic }
    }

    fn iodyno(&mut self, words: &str) -> (String, i32) {
        let (text, code) =
            self.guest.run(&format!("/tmp/program/iodyno --notebook /tmp/notebook {words}"));
        println!("iodyno {words}: {code}\n{text}");
        (text, code)
    }

    /// Runs `iodyno run`, which must succeed, and returns its first cell.
    fn cell(&mut self, words: &str) -> Value {
        let words = format!("run {words} --ramp 0s -q --json 2>/tmp/complaints");
        let (text, code) = self.iodyno(&words);
        assert_eq!(code, 0, "{words}: {text}");
        let document: Value = serde_json::from_str(&text).unwrap();
        document["cells"][0].clone()
    }

    /// Number of sectors that the kernel counts as written to the block device. Its count of writes would include
    /// flushes.
    fn counted(&mut self) -> u64 {
        let name = self.block.trim_start_matches("/dev/").to_owned();
        let text = self.guest.good(&format!("cat /sys/block/{name}/stat"));
        let fields: Vec<u64> = text.split_whitespace().map(|f| f.parse().unwrap()).collect();
        fields[6]
    }
}

fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no `{word}` in: {text}");
    }
}

#[test]
#[ignore = "needs QEMU and a guest kernel"]
fn commands_past_the_block_layer() {
    let bench = &mut Bench::new();
    bytes_are_those_of_the_block_device(bench);
    each_kind_has_its_effect(bench);
    refusals_are_those_of_the_block_device(bench);
}

/// Content written through NVMe commands is intact on the block device, and the other way round. The kernel's counters
/// of the block device do not change.
fn bytes_are_those_of_the_block_device(bench: &mut Bench) {
    let (block, generic) = (bench.block.clone(), bench.generic.clone());
    let words = "seq-write --content verifiable --block 16KiB --depth 4 --ops 512";
    // The first bytes are blank: nothing needs to be named.
    let before = bench.counted();
    let cell = bench.cell(&format!("{words} --on {generic}"));
    let after = bench.counted();
    assert_eq!(before, after, "sectors that the block layer wrote");
    assert_eq!((&cell["engine"], &cell["write"]["ops"]), (&"uring".into(), &512.into()));
    assert_eq!(cell["evidence"]["passthrough"], true, "{cell:#}");
    assert_eq!(cell["evidence"]["direct"], true);
    assert!(cell["evidence"]["storage"]["reached"].is_null(), "{cell:#}");
    assert!(cell["evidence"].get("disk_use").is_none());
    assert_says(&cell["facts"].to_string(), &["NVME_URING_CMD_IO of namespace 1"]);
    assert_says(&cell["verdicts"].to_string(), &["PASSTHROUGH"]);
    assert!(!cell["verdicts"].to_string().contains("PAGE_CACHE"), "{cell:#}");
    for target in [&block, &generic] {
        let (text, code) = bench.iodyno(&format!("run --verify-only --on {target} -q --json"));
        assert_eq!(code, 0, "{text}");
        let document: Value = serde_json::from_str(&text).unwrap();
        let of = &document["cells"][0];
        assert!(of["read"]["errors"] == 0, "{of:#}");
        assert_eq!(of["evidence"].get("passthrough").is_some(), *target == generic, "{of:#}");
        let found = &of["evidence"]["verification"];
        assert!(found["checked"].as_u64().unwrap() > 0, "{of:#}");
        assert!(!of["verdicts"].to_string().contains("WRONG_CONTENT"), "{of:#}");
    }
    // Any block of the device is where it belongs, also behind 32 bits of blocks' bytes.
    let image = std::fs::read(bench.folder.path().join("namespace")).unwrap();
    assert!(image.chunks(4096).all(|unit| unit.iter().any(|b| *b != 0)));
}

/// Flush, FUA, write-zeroes and trim, each by its command.
fn each_kind_has_its_effect(bench: &mut Bench) {
    let generic = bench.generic.clone();
    for (kind, of) in [("trim", "trim"), ("write_zeroes", "write_zeroes")] {
        let fill = "dd if=/tmp/program/iodyno of=BLOCK bs=1M count=8 oflag=direct 2>/dev/null";
        let fill = fill.replace("BLOCK", &bench.block);
        bench.guest.good(&fill);
        let file = format!(
            "printf 'schema = 1\\ndepth = 4\\n[mix]\\n{kind} = 1\\n[{kind}]\\nblock = \"64KiB\"\\n\
             addresses = \"sequential\"\\n[limits]\\nops = 128\\n' >/tmp/{kind}.toml"
        );
        bench.guest.good(&file);
        let cell = bench.cell(&format!("/tmp/{kind}.toml --on {generic} --destroy {generic}"));
        assert_eq!((&cell[of]["ops"], &cell[of]["errors"]), (&128.into(), &0.into()), "{cell:#}");
        let image = std::fs::read(bench.folder.path().join("namespace")).unwrap();
        assert!(image.iter().all(|&byte| byte == 0), "{kind}");
    }
    // Operations are counted with flushes.
    for (flags, writes, flushes) in [("--fsync 1", 32, 32), ("--dsync", 64, 0)] {
        let cell = bench.cell(&format!("random-write --ops 64 {flags} --on {generic}"));
        assert_eq!((&cell["write"]["ops"], &cell["write"]["errors"]), (&writes.into(), &0.into()));
        assert_eq!(cell["flush"]["ops"].as_u64().unwrap_or(0), flushes, "{cell:#}");
        assert_eq!(cell["flush"]["errors"].as_u64().unwrap_or(0), 0, "{cell:#}");
    }
}

/// The character device is protected like the block device, and errors name what it does not support.
fn refusals_are_those_of_the_block_device(bench: &mut Bench) {
    let (block, generic) = (bench.block.clone(), bench.generic.clone());
    let write = format!("run random-write --ops 8 --on {generic}");
    for (flags, words) in [
        ("--engine psync --depth 1", vec!["only io_uring can send", "name the block device"]),
        ("--block 256KiB", vec!["at most 131072 bytes", "smaller"]),
    ] {
        let (text, code) = bench.iodyno(&format!("{write} {flags}"));
        assert_eq!(code, 4, "{text}");
        assert_says(&text, &words);
    }
    let (text, code) = bench.iodyno(&format!("run random-read --ops 8 --on '{generic}?direct=no'"));
    assert_eq!(code, 4, "{text}");
    assert_says(&text, &["bypass the page cache", "direct=no"]);

    bench.guest.good(&format!("/bin/mke2fs -q -F -t ext4 {block}"));
    let (text, code) = bench.iodyno(&write);
    assert_eq!(code, 3, "{text}");
    assert_says(&text, &["ext4", "--destroy"]);
    bench.guest.good(&format!("mount -t ext4 {block} /tmp/fs"));
    for words in [write.clone(), format!("{write} --destroy {generic}")] {
        let (text, code) = bench.iodyno(&words);
        assert_eq!(code, 3, "{text}");
        assert_says(&text, &["mounted", "/tmp/fs"]);
    }
    bench.guest.good(&format!("umount /tmp/fs && /bin/e2fsck -fn {block}"));
    let cell = bench.cell(&format!("random-write --ops 8 --on {generic} --destroy {block}"));
    assert_eq!(cell["write"]["ops"], 8);
}
