//! Fixtures for tests of served storage: a server from the real binary with its clients, and small devices.
//!
//! The judges are independent programs: libnbd's, QEMU's, fio. A missing program fails its tests: `./test` installs
//! them if permitted; Debian's packages are libnbd-bin, python3-libnbd, qemu-utils and fio. If a test requires a
//! feature that only iodyno's client has (many stamps in flight, exact figures), that client's own crate has tested
//! it against the others.

use crate::place::{A_MOMENT, Place, RunOutput, Running};
use iodyno_nbd::client::{Blocking, Config, Connection, Uri, Wait};
use iodyno_nbd::{CmdFlags, Errno, Kind};
use serde_json::Value;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const MIB: u64 = 1 << 20;
/// Capacity of the small devices.
pub(crate) const SIZE: u64 = 96 * MIB;
/// Address of the server for other programs, which run in the place's folder.
pub(crate) const URI: &str = "nbd+unix:///?socket=nbd.sock";

/// Writes the file of a flash device of 96 MiB that is fast enough for tests of bytes. `protected`: whether its buffer
/// survives a power cut; `parity_stripe`: pages per parity stripe, 0: no parity.
pub(crate) fn flash(place: &Place, name: &str, protected: bool, parity_stripe: u32) {
    let text = FLASH.replace("PROTECTED", &protected.to_string());
    place.write(name, text.replace("STRIPE", &parity_stripe.to_string()));
}

const FLASH: &str = r#"schema = 1
kind = "device"
family = "flash"
summary = "a small flash device"
host = "rtp"
capacity = { is = "96MiB", from = "assumed: small" }
[link]
read = { is = "3 GB/s", from = "assumed: fast" }
write = { is = "3 GB/s", from = "assumed: fast" }
full_duplex = { is = true, from = "assumed: usual" }
command = { is = "100ns", from = "assumed: fast" }
latency = { is = "5us", from = "assumed: fast" }
queue_max = { is = 256, from = "assumed: usual" }
host = { is = "0ns", from = "assumed: usual" }
host_rate = { is = "10 GB/s", from = "assumed: usual" }
[controller]
read_command = { is = "1us", from = "assumed: fast" }
read_latency = { is = "0ns", from = "assumed: fast" }
write_command = { is = "1us", from = "assumed: fast" }
copy = { is = "0ns", from = "assumed: fast" }
turn = { is = "0ns", from = "assumed: fast" }
read_contexts = { is = 0, from = "assumed: usual" }
lanes = { is = 1, from = "assumed: usual" }
page_split = { is = "0%", from = "assumed: usual" }
[nand]
channels = { is = 8, from = "assumed: usual" }
dies_per_channel = { is = 2, from = "assumed: usual" }
planes = { is = 1, from = "assumed: usual" }
page = { is = "8KiB", from = "assumed: usual" }
pages_per_block = { is = 32, from = "assumed: small" }
raw = { is = "192MiB", from = "assumed: much spare" }
read = { is = "20us", from = "assumed: fast" }
program_fast = { is = "100us", from = "assumed: fast" }
program_slow = { is = "200us", from = "assumed: fast" }
erase = { is = "1ms", from = "assumed: fast" }
channel_rate = { is = "1 GB/s", from = "assumed: fast" }
programs_max = { is = 0, from = "assumed: usual" }
reads_first = { is = true, from = "assumed: usual" }
parity_stripe = { is = STRIPE, from = "assumed: as the test has it" }
[buffer]
size = { is = "2MiB", from = "assumed: usual" }
accept = { is = "2us", from = "assumed: fast" }
protected = { is = PROTECTED, from = "assumed: as the test has it" }
[translation]
reserved = { is = "3%", from = "assumed: usual" }
map_writes_per_page = { is = 0, from = "assumed: usual" }
[endurance]
drive_writes_per_day = { is = 10, from = "assumed: usual" }
years = { is = 5, from = "assumed: usual" }
cycles = { is = 30000, from = "assumed: usual" }
"#;

/// Runs a program that judges the server, in the place's folder. Returns whether it passed, and its output. The
/// system's own folders come first in PATH, because an interpreter from elsewhere would lack the module of nbdsh.
pub(crate) fn try_judge(place: &Place, program: &str, args: &[&str]) -> (bool, String) {
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("timeout")
        .args(["120", program])
        .args(args)
        .current_dir(place.work())
        .env("PATH", format!("/usr/bin:/bin:/usr/sbin:/sbin:{path}"))
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|e| panic!("timeout (coreutils): {e}"));
    let missing = output.status.code() == Some(127);
    assert!(!missing, "{program} is not installed; see the head of this file");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// Runs a judge that must pass, and returns its output.
#[track_caller]
pub(crate) fn judge(place: &Place, program: &str, args: &[&str]) -> String {
    let (well, said) = try_judge(place, program, args);
    assert!(well, "{program} {args:?}:\n{said}");
    said
}

/// A running server, killed when dropped.
pub(crate) struct Served<'a> {
    pub(crate) place: &'a Place,
    running: Option<Running>,
    log: PathBuf,
}

impl<'a> Served<'a> {
    /// Starts `serve` with these arguments, with NBD on `nbd.sock` and the control socket `ctl.sock`.
    pub(crate) fn start(place: &'a Place, words: &str) -> Self {
        Self::at(place, &format!("{words} --nbd unix:nbd.sock --control unix:ctl.sock"))
    }

    /// Starts `serve` with these arguments and no others. Returns once the server is ready.
    pub(crate) fn at(place: &'a Place, words: &str) -> Self {
        Self::by(place, &mut place.command(&format!("serve {words}")))
    }

    /// Starts the server with this command. Returns once the server is ready.
    pub(crate) fn by(place: &'a Place, command: &mut Command) -> Self {
        let log = place.path("serve.log");
        command.stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        let mut running = Running::of(command);
        let said = || std::fs::read_to_string(&log).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !said().lines().any(|line| line == "ready") {
            assert!(running.is_running(), "{command:?} ended: {}", said());
            assert!(Instant::now() < deadline, "{command:?} is silent");
            std::thread::sleep(A_MOMENT);
        }
        Self { place, running: Some(running), log }
    }

    /// Output of the server so far.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// The rest of the line that begins with `key`, in the server's output.
    #[track_caller]
    pub(crate) fn announced(&self, key: &str) -> String {
        let said = self.said();
        let line = said.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_else(|| panic!("no `{key}` in {said}")).trim().to_owned()
    }

    pub(crate) fn uri(&self) -> Uri {
        let socket = self.place.path("nbd.sock");
        format!("nbd+unix:///?socket={}", socket.display()).parse().unwrap()
    }

    /// A client with one request at a time.
    pub(crate) fn client(&self) -> Blocking {
        Blocking::connect(&self.uri()).unwrap()
    }

    /// A client with up to `depth` requests in flight.
    pub(crate) fn crowd(&self, depth: u32) -> Crowd {
        let config = Config { depth, ..Config::default() };
        Crowd(Connection::connect(&self.uri(), &config).unwrap())
    }

    /// Runs `iodyno fault`, which may fail.
    pub(crate) fn try_fault(&self, words: &str) -> RunOutput {
        self.place.iodyno(&format!("fault {words} --control unix:ctl.sock"))
    }

    #[track_caller]
    pub(crate) fn fault(&self, words: &str) -> String {
        let output = self.try_fault(words);
        let has_effect = !output.stdout.contains("no effect: ");
        let said = output.exits(if has_effect { 0 } else { 2 }).stdout.clone();
        assert!(!said.trim().is_empty(), "`fault {words}` says nothing");
        said
    }

    /// Document that `iodyno status --json` prints.
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        self.place.iodyno("status --json --control unix:ctl.sock").succeeds().json()
    }

    pub(crate) fn running(&mut self) -> &mut Running {
        self.running.as_mut().unwrap()
    }

    /// Stops the server cleanly with this signal. Checks that it exits with 0 and leaves no socket behind.
    #[track_caller]
    pub(crate) fn stop_by(mut self, signal: libc::c_int) {
        self.running().signal(signal);
        let output = self.running.take().unwrap().finish();
        assert_eq!((output.code, output.signal), (Some(0), None), "{output:?} {}", self.said());
        for socket in ["nbd.sock", "ctl.sock"] {
            assert!(!self.place.path(socket).exists(), "{socket} is left");
        }
    }

    #[track_caller]
    pub(crate) fn stop(self) {
        self.stop_by(libc::SIGTERM);
    }

    /// Stops the server cleanly. Returns its exit code and its output.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        self.running().signal(libc::SIGTERM);
        let code = self.running.take().unwrap().finish().code;
        (code, self.said())
    }

    /// Kills the server, as in a crash of the machine.
    pub(crate) fn kill(mut self) {
        let running = self.running.take().unwrap();
        running.signal(libc::SIGKILL);
        assert_eq!(running.finish().signal, Some(libc::SIGKILL));
    }
}

/// A connection with many requests in flight.
pub(crate) struct Crowd(Connection);

impl Crowd {
    /// Queues a request, which is sent by the next call of another method. The caller must keep the buffer until the
    /// request is answered; a read fills it.
    pub(crate) fn send(
        &mut self,
        slot: u32,
        (kind, flags): (Kind, CmdFlags),
        offset_bytes: u64,
        buffer: &mut [u8],
    ) {
        let (len, at) = (buffer.len() as u32, buffer.as_mut_ptr());
        // SAFETY: tests keep their buffers until the slot has answered or the connection is dropped.
        unsafe { self.0.queue(slot, kind, flags, offset_bytes, len, at) };
    }

    /// Sends the queued requests, without waiting.
    pub(crate) fn push(&mut self) -> std::io::Result<()> {
        self.0.turn(Wait::No)
    }

    /// Sends the queued requests, and waits for at least one answer. Returns the new answers; an error: the server is
    /// gone.
    pub(crate) fn answers(&mut self) -> std::io::Result<Vec<(u32, Result<(), Errno>)>> {
        self.0.turn(Wait::One)?;
        let mut done = Vec::new();
        self.0.drain(|slot, result| done.push((slot, result)));
        Ok(done)
    }

    /// Sends the queued requests, and returns the answers that arrive within `time`.
    pub(crate) fn answers_within(&mut self, time: Duration) -> Vec<(u32, Result<(), Errno>)> {
        self.0.turn(Wait::AtMost(time)).unwrap();
        let mut done = Vec::new();
        self.0.drain(|slot, result| done.push((slot, result)));
        done
    }
}
