//! Exhausted resources and unresponsive peers: the notebook's disk, standard output, a target, a server's
//! descriptors. Measured results are printed, the exit code states the kind of failure, and nothing hangs.

use crate::disks::{Mount, alone, run};
use crate::place::{A_MOMENT, Place, RunOutput, Running, cells, codes, whole};
use crate::serve::{Served, flash};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

/// Limits the size of files that a process may write to `bytes`: writes beyond fail, as on a full disk.
fn limit_files(running: &Running, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: sets a limit of our own child.
    let set = unsafe {
        libc::prlimit(
            running.id() as libc::pid_t,
            libc::RLIMIT_FSIZE,
            &raw const limit,
            std::ptr::null_mut(),
        )
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Starts a run of three cells whose notebook can't grow after the first cell has begun. Calls `until`, and then waits
/// for the end of the run.
fn starved(place: &Place, words: &str, until: impl FnOnce(&mut Running)) -> RunOutput {
    let cell = "schema = 1\nblock = \"4KiB\"\n[mix]\nread = 1\n[limits]\ntime = \"1200ms\"\nramp = \"0s\"\n";
    place.write("cell.toml", cell);
    let words = format!("run cell.toml --repeat 3 --on ram:1MiB --interval 10ms {words}");
    let program = place.command(&words);
    // The signal that comes with the error would end the program.
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(program.get_program());
    command.args(program.get_args()).current_dir(place.work());
    command.envs(program.get_envs().filter_map(|(k, v)| Some((k, v?))));
    command.env("TMPDIR", place.path("tmp")).stdin(Stdio::null());
    let mut running = Running::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    place.wait_for_cells(&mut running, 1);
    limit_files(&running, 4096);
    until(&mut running);
    running.finish()
}

/// The notebook fails in the middle of the first cell: all three cells are measured and printed.
#[test]
fn a_full_disk_loses_no_result() {
    for form in ["-q", "-q --json"] {
        let place = Place::new();
        let output = starved(&place, form, |_| {});
        output.exits(5).says(&[
            "warning: the notebook",
            "the run goes on",
            "error: the notebook",
            "could not be stored elsewhere",
        ]);
        if form == "-q" {
            assert_eq!(output.stderr.matches("warning: ").count(), 1, "{output:?}");
            assert!(
                output.stdout.contains("\ncell #3 ") && output.stdout.contains("not stored: "),
                "{output:?}"
            );
        } else {
            let document = output.json();
            assert_eq!(document["run"]["status"], "finished");
            assert!(document["run"]["id"].is_null());
            let cells = cells(&document);
            assert_eq!(cells.len(), 3);
            for cell in cells {
                assert_eq!(cell["ended"], "time");
                assert!(whole(&cell["read"]["ops"]) > 0 && !codes(cell).contains(&"INTERRUPTED"));
            }
        }
    }
}

/// If space is freed before the end, the notebook gets everything.
#[test]
fn a_disk_with_space_again_gets_all() {
    let place = Place::new();
    let output = starved(&place, "-q --json", |running| {
        std::thread::sleep(A_MOMENT * 130);
        assert!(running.is_running());
        limit_files(running, libc::RLIM_INFINITY);
    });
    output.succeeds().says(&["the run goes on", "the notebook is writable again"]);
    let document = output.json();
    assert_eq!(cells(&document).len(), 3);
    assert_eq!(document, place.iodyno("show last --json").succeeds().json());
}

/// If the notebook has stored a run but can't read it back, the run is shown from memory, and no second notebook is
/// created.
#[test]
fn a_run_that_cannot_be_read_back_is_kept() {
    for form in ["-q", "-q --json"] {
        let place = Place::new();
        std::fs::create_dir(place.path("tmp")).unwrap();
        let cell = "schema = 1\nblock = \"4KiB\"\n[mix]\nread = 1\n[limits]\ntime = \"1200ms\"\nramp = \"0s\"\n";
        place.write("cell.toml", cell);
        let mut command = place.command(&format!("run cell.toml --repeat 2 --on ram:1MiB {form}"));
        command.env("TMPDIR", place.path("tmp")).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::of(&mut command);
        place.wait_for_cells(&mut running, 2);
        let db = rusqlite::Connection::open(place.notebook()).unwrap();
        db.busy_timeout(A_MOMENT * 100).unwrap();
        db.execute("UPDATE cells SET cell = '{' WHERE position = 0", []).unwrap();
        let output = running.finish();
        output.succeeds().says(&["warning: run ", "is stored, but could not be read back"]);
        assert!(!output.stderr.contains("error: "), "{output:?}");
        assert_eq!(std::fs::read_dir(place.path("tmp")).unwrap().count(), 0);
        if form == "-q" {
            assert!(output.stdout.contains("\ncell #2 "), "{output:?}");
        } else {
            let document = output.json();
            assert_eq!(document["run"]["status"], "finished");
            let id: String = db.query_row("SELECT id FROM runs", [], |r| r.get(0)).unwrap();
            assert_eq!(document["run"]["id"], id);
            assert_eq!(cells(&document).len(), 2);
        }
        let status = db.query_row("SELECT status FROM runs", [], |r| r.get::<_, String>(0));
        assert_eq!(status.unwrap(), "finished");
    }
}

/// More cells than can reliably be read back are refused before anything is measured, where a
/// notebook is to store them.
#[test]
fn more_cells_than_the_notebook_reads_back_are_refused() {
    let place = Place::new();
    let on: Vec<String> = (0..20).map(|i| format!("--on {i}.img?size=64KiB")).collect();
    let words = format!("run random-read {} --repeat 500 --ops 1 --ramp 0s -q", on.join(" "));
    let output = place.iodyno(&words);
    output.exits(2).says(&["a run of 10500 cells (21 per step)", "only 10000 are certain"]);
    assert!(!place.notebook().exists(), "nothing was kept");
}

/// If the disk is full, the run is stored in a notebook in the folder for temporary files.
#[test]
#[ignore = "needs root and a tmpfs"]
fn a_full_disk_leaves_the_run_elsewhere() {
    let _alone = alone();
    let place = Place::new();
    std::fs::create_dir(place.path("tmp")).unwrap();
    let mount = Mount::at(place.path("m"), &["-t", "tmpfs", "-o", "size=3m", "tmpfs"]);
    let notebook = mount.0.join("notebook.sqlite");
    let words = "run random-read --on ram:1MiB --time 2s --ramp 0s --interval 10ms -q";
    let mut command = place.command(&format!("--notebook {} {words}", notebook.display()));
    command.env("TMPDIR", place.path("tmp")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::of(&mut command);
    running.wait_until("the notebook is there", || notebook.exists());
    std::thread::sleep(A_MOMENT * 30);
    // Until no space is left.
    let mut rest = File::create(mount.0.join("rest")).unwrap();
    while rest.write_all(&[1; 4096]).is_ok() {}
    let output = running.finish();
    output.exits(5).says(&["warning: the notebook", "in a separate notebook instead"]);
    assert!(output.stdout.contains("IOPS"));
    let again = output.stderr.split('`').rfind(|part| part.starts_with("iodyno --notebook"));
    let words = again.unwrap_or_else(|| panic!("{output:?}")).strip_prefix("iodyno ").unwrap();
    let shown = place.iodyno(words).succeeds().stdout.clone();
    assert_eq!(shown, output.stdout);
    // Other users of the machine can't read it.
    let kept = Path::new(words.split_whitespace().nth(1).unwrap());
    let folder = std::fs::metadata(kept.parent().unwrap()).unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
}

/// If the result can't be printed, the exit code says so, and the report is still written.
#[test]
fn a_full_standard_output_is_reported() {
    let place = Place::new();
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let words = "run random-read --on ram:1MiB --ops 100 --ramp 0s -q --report=page.html";
    let mut command = place.command(words);
    let output = Running::of(command.stdout(full).stderr(Stdio::piped())).finish();
    output.exits(4).says(&["error: standard output", "No space left", "page.html"]);
    assert!(std::fs::metadata(place.path("page.html")).unwrap().len() > 1000);
    // A report to a device is refused before the run.
    let output = place.iodyno(&words.replace("page.html", "/dev/full"));
    output.fails(2, &["/dev/full", "it is a device"]);
    assert!(output.stdout.is_empty());
}

#[track_caller]
fn assert_hung(output: &RunOutput, in_flight: std::ops::RangeInclusive<u64>, stuck: u64) {
    output.exits(4);
    let document = output.json();
    assert_eq!(document["run"]["status"], "failed");
    assert_eq!(document["run"]["reason"], "the target stopped answering");
    let cell = &cells(&document)[0];
    assert_eq!(cells(&document).len(), 1, "no further cell is measured");
    assert_eq!(cell["ended"], "hung");
    assert!(codes(cell).contains(&"TARGET_HUNG"), "{:?}", codes(cell));
    assert!(!codes(cell).contains(&"STOPPED_BY_ERRORS") && !codes(cell).contains(&"ERRORS"));
    let hung = &cell["evidence"]["hung"];
    assert!(in_flight.contains(&whole(&hung["ops"])), "{hung}");
    assert!(whole(&hung["oldest_ns"]) > 3_000_000_000, "{hung}");
    assert_eq!(whole(&hung["stuck_workers"]), stuck, "{hung}");
}

/// An NBD server that hangs in the middle of a run: the run ends when its time is over, or at one signal, and is marked
/// accordingly.
#[test]
fn a_server_that_hangs_ends_the_run() {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    place.write("group.toml", "schema = 1\ngroup = [\"random-read\", \"seq-read\"]\n");
    let server = Served::start(&place, "./device.toml --no-floor");
    let start = |time: &str| {
        let target = "--on nbd+unix:///?socket=nbd.sock --threads 2 --depth 4 --ramp 0s";
        place.start(&format!("run group.toml {target} --time {time} --json -q --no-notebook"))
    };
    let mut running = [start("2s"), start("1h")];
    running[0].wait_until("both read", || {
        let status = server.status();
        status["volumes"][0]["operations"]["read"]["operations"].as_u64() > Some(500)
    });
    std::thread::sleep(A_MOMENT * 30);
    server.fault("hang");
    std::thread::sleep(A_MOMENT * 20);
    running[1].signal(libc::SIGINT);
    for one in running {
        let output = one.finish();
        assert_hung(&output, 8..=8, 0);
    }
    server.fault("clear");
    server.stop();
}

/// A file system that is frozen during a run: a hang in the kernel, from which workers of some engines don't return.
#[test]
#[ignore = "needs root, loop devices and ext4"]
fn a_file_system_that_hangs_ends_the_run() {
    let _alone = alone();
    for (engine, depth, in_flight, stuck) in [("uring", 4, 8..=8, 0), ("psync", 1, 2..=2, 2)] {
        let place = Place::new();
        let image = crate::disks::blank(place.path("image"), 64 << 20);
        run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]);
        let mount = Mount::at(place.path("m"), &["-o", "loop", image.to_str().unwrap()]);
        let point = mount.0.to_str().unwrap();
        let target = format!("--on {point}/f?size=4MiB --engine {engine} --depth {depth}");
        let words = format!("run random-write {target} --threads 2 --ramp 0s --time 3s --json -q");
        // The process may not end before the thaw; its output comes before.
        let out = File::create(place.path("out")).unwrap();
        let mut running = Running::of(place.command(&words).stdout(out).stderr(Stdio::piped()));
        place.wait_for_cells(&mut running, 1);
        run("fsfreeze", &["--freeze", point]);
        let thaw = Thaw(mount.0.clone());
        running.wait_until("the warning", || {
            std::fs::read_to_string(place.path("out")).unwrap().ends_with("}\n")
        });
        drop(thaw);
        let mut output = running.finish();
        output.stdout = std::fs::read_to_string(place.path("out")).unwrap();
        assert_hung(&output, in_flight, stuck);
    }
}

/// Unfreezes a file system when dropped, also when a test fails.
struct Thaw(std::path::PathBuf);

impl Drop for Thaw {
    fn drop(&mut self) {
        run("fsfreeze", &["--unfreeze", self.0.to_str().unwrap()]);
    }
}

/// A server that does not greet, one that accepts nothing, and one that answers no request: each is
/// reported before anything is run.
#[test]
fn a_server_that_is_silent_from_the_start_is_reported() {
    let place = Place::new();
    let silent = std::os::unix::net::UnixListener::bind(place.path("silent")).unwrap();
    let full = std::os::unix::net::UnixListener::bind(place.path("full")).unwrap();
    let mut crowd = Vec::new();
    // Until its queue is full.
    loop {
        let socket = socket_connect(&place.path("full"));
        match socket {
            Some(socket) => crowd.push(socket),
            None => break,
        }
    }
    let start = |socket: &str| {
        place.start(&format!("run random-read --on nbd+unix:///?socket={socket} --time 1s -q"))
    };
    flash(&place, "device.toml", true, 0);
    let server = Served::start(&place, "./device.toml --no-floor");
    server.fault("hang");
    for running in [start("silent"), start("full"), start("nbd.sock")] {
        running.finish().fails(4, &["timed out"]);
    }
    drop((silent, full, crowd));
    server.fault("clear");
    server.stop();
}

/// Connects without waiting; None if the server's queue is full.
fn socket_connect(path: &Path) -> Option<UnixStream> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let path = path.to_owned();
    std::thread::spawn(move || {
        let _ = sender.send(UnixStream::connect(path).ok());
    });
    receiver.recv_timeout(A_MOMENT * 20).ok().flatten()
}

/// A slow client and many silent ones don't block access to the metrics.
#[test]
fn metrics_are_served_beside_bad_clients() {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    let server = Served::start(&place, "./device.toml --no-floor --metrics 127.0.0.1:0");
    let address = server.announced("metrics at http://");
    let address = address.strip_suffix("/metrics").unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut drips = TcpStream::connect(address).unwrap();
            while !over.load(Ordering::Relaxed) {
                if drips.write_all(b"x").is_err() {
                    drips = TcpStream::connect(address).unwrap();
                }
                std::thread::sleep(A_MOMENT);
            }
        });
        let silent: Vec<_> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
        for _ in 0..5 {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            assert!(text.contains("iodyno_operations_total"), "{text}");
        }
        over.store(true, Ordering::Relaxed);
        drop(silent);
    });
    server.stop();
    // An address that other machines can reach requires a flag, which the error names.
    for (flag, words) in
        [("--metrics", "--nbd unix:2 --metrics 0.0.0.0:0"), ("--nbd", "--nbd 0.0.0.0:0")]
    {
        let output = place.iodyno(&format!("serve ./device.toml --no-floor {words}"));
        output.fails(4, &[flag, "0.0.0.0:0", "open to other machines", "add --insist-on-plain"]);
    }
}

/// Idle clients of the control socket do not take the descriptors that NBD clients need.
#[test]
fn few_descriptors_suffice_for_all() {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    let program =
        place.command("serve ./device.toml --no-floor --nbd unix:nbd.sock --control unix:ctl.sock");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""]).arg(program.get_program());
    command.args(program.get_args()).current_dir(place.work()).stdin(Stdio::null());
    let server = Served::by(&place, &mut command);
    let idle: Vec<_> =
        (0..200).filter_map(|_| UnixStream::connect(place.path("ctl.sock")).ok()).collect();
    assert!(idle.len() > 100);
    for _ in 0..10 {
        server.client().read(0, &mut [0; 4096]).unwrap();
    }
    let stream = UnixStream::connect(place.path("ctl.sock")).unwrap();
    (&stream).write_all(b"status\n").unwrap();
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).unwrap();
    assert!(line.contains("volumes"), "{line}");
    drop(idle);
    server.stop();
}

/// Plain memory reports its requests in its status.
#[test]
fn plain_memory_has_a_status() {
    let place = Place::new();
    let server = Served::start(&place, "ram:4MiB");
    let mut client = server.client();
    client.write(0, &[1; 8192], iodyno_nbd::CmdFlags::NONE).unwrap();
    client.read(0, &mut [0; 4096]).unwrap();
    client.read(0, &mut [0; 4096]).unwrap();
    let output = place.iodyno("status --control unix:ctl.sock");
    for word in ["plain memory  4 MiB, 1 connection", "read", "write", "8 KiB"] {
        assert!(output.succeeds().stdout.contains(word), "{word}: {output:?}");
    }
    let status = place.iodyno("status --json --control unix:ctl.sock").succeeds().json();
    assert_eq!((&status["requests"]["write"], &status["written_bytes"]), (&1.into(), &8192.into()));
    drop(client);
    server.stop();
}

/// An idle client that once read a large range costs the server no memory for it.
#[test]
fn large_reads_at_native_speed_leave_no_buffers() {
    const MIB: usize = 1 << 20;
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    let mut server = Served::start(&place, "./device.toml --speed native");
    let mut bytes = vec![0; 32 * MIB];
    let mut clients = [(); 6].map(|()| {
        let mut client = server.client();
        client.read(0, &mut bytes).unwrap();
        client
    });
    let status = format!("/proc/{}/status", server.running().id());
    server.running().wait_until("its memory is free again", || {
        let text = std::fs::read_to_string(&status).unwrap();
        let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10 < 100 * MIB
    });
    for client in &mut clients {
        client.read(0, &mut bytes[..4096]).unwrap();
    }
}
