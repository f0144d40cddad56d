//! Figures that are not the device's because of a disturbance: a stall, a limit, a lack of processors. Each
//! disturbance is real, and its verdict must be found. Other activity on this machine may add verdicts.

use crate::disks::alone;
use crate::place::{Place, cells, codes};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

/// A child process, ended when dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A control group of version 1 with I/O limits for the disk that holds a file.
struct Limited {
    group: PathBuf,
    disk: String,
}

impl Limited {
    fn new(file: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let device = fs::metadata(file).ok()?.dev();
        let number = format!("{}:{}", libc::major(device), libc::minor(device));
        let folder = fs::canonicalize(format!("/sys/dev/block/{number}")).ok()?;
        let of_disk = if folder.join("partition").exists() { folder.parent()? } else { &folder };
        let disk = fs::read_to_string(of_disk.join("dev")).ok()?.trim().to_owned();
        let group = PathBuf::from(format!("/sys/fs/cgroup/blkio/iodyno-{}", std::process::id()));
        fs::create_dir(&group).ok()?;
        let limited = Self { group, disk };
        limited.set(0).then_some(limited)
    }

    /// Limits the reads per second; 0: no limit.
    fn set(&self, reads_per_s: u64) -> bool {
        let file = self.group.join("blkio.throttle.read_iops_device");
        fs::write(file, format!("{} {reads_per_s}", self.disk)).is_ok()
    }

    /// Runs the program with these arguments in the group.
    fn run(&self, place: &Place, words: &str) -> Value {
        let mut command = Command::new("sh");
        let own = place.command(words);
        command.args(["-c", "echo $$ > \"$0\"/cgroup.procs; exec \"$@\""]).arg(&self.group);
        command.arg(own.get_program()).args(own.get_args()).current_dir(place.work());
        for (key, value) in own.get_envs() {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        let output = command.stderr(Stdio::inherit()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        self.set(0);
        // The kernel lets a group go some time after its last process.
        for _ in 0..50 {
            if fs::remove_dir(&self.group).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn text<'a>(cell: &'a Value, code: &str) -> &'a str {
    let verdicts = cell["verdicts"].as_array().unwrap();
    let found = verdicts.iter().find(|verdict| verdict["code"] == code);
    found.map_or("", |verdict| verdict["text"].as_str().unwrap())
}

/// A control group limits the rate, and then stalls the I/O for a second.
#[test]
#[ignore = "needs root and control groups of version 1"]
fn limits_and_stalls_of_a_control_group() {
    let _alone = alone();
    let place = Place::new();
    place.iodyno("run random-read --on t.img?size=64MiB --time 50ms --ramp 0s -q").succeeds();
    let Some(limited) = Limited::new(&place.path("t.img")) else {
        eprintln!("no control group of version 1 limits this disk");
        return;
    };
    let run = |depth: u32, time: &str| {
        let words = format!(
            "run random-read --on t.img --depth {depth} --time {time} --ramp 200ms --json -q"
        );
        limited.run(&place, &words)
    };
    for (depth, reads_per_s) in [(1, 500), (4, 1000), (32, 1000)] {
        limited.set(reads_per_s);
        let document = run(depth, "2s");
        let cell = &cells(&document)[0];
        let limit = text(cell, "LIMITED");
        assert!(limit.contains("blkio.throttle.read_iops_device"), "{depth}: {:?}", codes(cell));
    }
    limited.set(0);
    let stall = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(1_900));
            limited.set(1);
            thread::sleep(Duration::from_secs(1));
            limited.set(0);
        });
        run(1, "3s")
    });
    let cell = &cells(&stall)[0];
    assert!(codes(cell).contains(&"STALL") && !codes(cell).contains(&"VALID"), "{:?}", codes(cell));
    let found = cell["stationarity"]["stalls_seconds"].as_array().unwrap();
    let length = |stall: &Value| stall[1].as_f64().unwrap() - stall[0].as_f64().unwrap();
    assert!(found.iter().map(length).sum::<f64>() > 0.5, "{found:?}");
}

/// A worker that shares the only processor that it may use with two busy programs.
#[test]
fn a_worker_without_a_processor() {
    let place = Place::new();
    place.iodyno("run random-read --on t.img?size=64MiB --time 50ms --ramp 0s -q").succeeds();
    let hog = || {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
        // SAFETY: only binds the child to processor 0 before it is replaced.
        unsafe {
            use std::os::unix::process::CommandExt as _;
            command.pre_exec(|| {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(0, &mut set);
                match libc::sched_setaffinity(0, size_of_val(&set), &raw const set) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
        Ended(command.spawn().unwrap())
    };
    let _hogs = [hog(), hog()];
    for (load, spoils) in [("", "the rate and all percentiles"), ("--rate 1k/s", "response times")]
    {
        let words =
            format!("run random-read --on t.img --cpus 0 {load} --time 1s --ramp 0s --json -q");
        let document = place.iodyno(&words).json();
        let cell = &cells(&document)[0];
        let starved = text(cell, "STARVED");
        assert!(starved.contains(spoils) && !codes(cell).contains(&"VALID"), "{:?}", codes(cell));
        assert!(cell["cpu_workers"][0]["waited_seconds"].as_f64().unwrap() > 0.05, "{cell}");
    }
}
