//! Runs of the program: on this machine, if load on it can't change the verdict in question, and on emulated devices.

use crate::place::{Place, cells};
use crate::{Found, SetUp};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// The verdicts of the first cell of a run.
fn verdicts(words: &str) -> Found {
    let document = Place::new().document(&format!("run {words} --no-notebook"));
    of_cell(&cells(&document)[0])
}

fn of_cell(cell: &Value) -> Found {
    let of = |verdict: &Value| {
        let text = |key: &str| verdict[key].as_str().unwrap().to_owned();
        (text("code"), ["warning", "invalid"].contains(&text("level").as_str()))
    };
    cell["verdicts"].as_array().unwrap().iter().map(of).collect()
}

/// Verdicts on reads of memory that nbdkit exports and that was never written.
fn served_memory() -> Option<Found> {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let mut server = Command::new("nbdkit")
        .args(["-f", "-U", socket.to_str()?, "memory", "32M"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    for _ in 0..500 {
        if socket.exists() {
            break;
        }
        std::thread::sleep(crate::place::A_MOMENT);
    }
    let target = format!("nbd+unix:///?socket={}", socket.display());
    let found = verdicts(&format!("random-read --on {target} --ops 500 --ramp 0s"));
    let _ = server.kill();
    let _ = server.wait();
    Some(found)
}

/// Emulated devices that work normally: name of the set-up, and arguments of `run`.
const AT_REST: [(&str, &str); 8] = [
    ("emulated NVMe TLC, reads", "random-read --on model:nvme-tlc-3840g --time 200ms"),
    ("emulated NVMe TLC, writes", "random-write --on model:nvme-tlc-3840g --time 200ms"),
    ("emulated QLC, reads", "random-read --on model:nvme-qlc-2048g --time 200ms"),
    ("emulated flash DIMM, reads", "random-read --on model:exflash-400g --time 200ms"),
    ("emulated flash DIMM, writes", "random-write --on model:exflash-400g --time 200ms"),
    ("emulated SAS SSD, reads", "random-read --on model:ssd-sas12-mlc-800g --time 200ms"),
    ("emulated nearline disk, reads", "random-read --on model:hdd-nearline-20t --time 20s"),
    ("emulated RAID 5, reads", "random-read --on model:raid5(hdd-10k-300g*4) --time 20s"),
];

pub(crate) fn all() -> Vec<SetUp> {
    let mut all = vec![
        SetUp::new("buffered I/O", Some("PAGE_CACHE"), || {
            Some(verdicts("random-read --on scratch:4MiB?direct=no --ops 500 --ramp 0s"))
        }),
        SetUp::new("tmpfs", Some("MEMORY"), || {
            let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
            let is_tmpfs = mounts.lines().any(|line| line.starts_with("tmpfs /dev/shm tmpfs"));
            let words = "random-read --on scratch:4MiB@/dev/shm --ops 500 --ramp 0s";
            (is_tmpfs && Path::new("/dev/shm").exists()).then(|| verdicts(words))
        }),
        SetUp::new("NBD to memory that was never written", Some("NEVER_WRITTEN"), served_memory),
        SetUp::new("an emulated disk's empty write cache", Some("TRANSIENT"), || {
            let device = "model:hdd-nearline-20t?state=fresh";
            Some(verdicts(&format!("random-write --on {device} --depth 16 --time 1s --ramp 0s")))
        }),
    ];
    all.extend(AT_REST.map(|(name, words)| SetUp::new(name, None, move || Some(verdicts(words)))));
    all
}
