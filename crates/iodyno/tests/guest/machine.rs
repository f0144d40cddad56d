//! The guest: a QEMU that resumes from a kept state, with volumes of a server as its disks, and
//! executes commands from a serial line. A guest whose devices can't be kept in a state boots
//! instead.

use crate::served::Served;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A guest that prints nothing for this long hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Number of the guest's disk slots.
const DISKS: usize = 4;

/// Programs of the host that are copied into the guest. `./test` has the same list.
const PROGRAMS: [&str; 7] = ["fio", "sysbench", "mdadm", "mke2fs", "e2fsck", "sqlite3", "dmsetup"];

/// The folder with the guest, which the first test creates.
pub(crate) static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/crashtest/guest/make-guest");
    let made = Command::new(script).arg(&folder).args(PROGRAMS).status().unwrap();
    assert!(made.success(), "the guest can't be made: make-guest has said why");
    folder
});

/// A running guest. Killed when it is dropped.
pub(crate) struct Guest {
    qemu: Child,
    line_in: ChildStdin,
    lines: Receiver<String>,
}

impl Guest {
    /// Resumes a guest from the kept state, with the volumes of `served` as `/dev/vdb` and later letters.
    pub(crate) fn start(served: &Served) -> Self {
        let behind = |export: &String| {
            let socket = served.socket();
            let socket = socket.display();
            format!(
                "driver=nbd,server.type=unix,server.path={socket},export={export},discard=unmap"
            )
        };
        Self::with(&served.exports().iter().map(behind).collect::<Vec<_>>())
    }

    /// Resumes a guest from the kept state. `disks`: values of QEMU's `-blockdev`.
    pub(crate) fn with(disks: &[String]) -> Self {
        let kept = ["-incoming", "exec:cat state"].map(str::to_owned);
        let mut guest = Self::launch(disks, &kept);
        guest.attach();
        guest.good("bind");
        guest
    }

    /// Boots a guest with these disks. `more`: arguments for QEMU that add devices whose state it can't keep.
    pub(crate) fn booted(disks: &[String], more: &[String]) -> Self {
        let mut guest = Self::launch(disks, more);
        while guest.read_line() != "ready" {}
        guest.good("bind");
        guest
    }

    fn launch(disks: &[String], more: &[String]) -> Self {
        let folder = &*FOLDER;
        let arguments = std::fs::read_to_string(folder.join("arguments")).unwrap();
        let mut command = Command::new("qemu-system-x86_64");
        command.current_dir(folder).args(arguments.lines());
        for disk in 0..DISKS {
            let none = || "driver=null-co,size=1073741824".to_owned();
            let behind = disks.get(disk).cloned().unwrap_or_else(none);
            command.args(["-blockdev", &format!("node-name=disk{disk},{behind}")]);
        }
        // The kernel's messages come on the first serial line and are ignored.
        command.args(["-serial", "null", "-serial", "stdio"]).args(more);
        let mut qemu = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let line_in = qemu.stdin.take().unwrap();
        let mut line_out = BufReader::new(qemu.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut line = Vec::new();
            // A guest that is killed leaves an incomplete line, which is dropped.
            while line_out.read_until(b'\n', &mut line).is_ok() && line.ends_with(b"\n") {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                if sender.send(text).is_err() {
                    return;
                }
                line.clear();
            }
        });
        Self { qemu, line_in, lines }
    }

    /// Waits until the guest listens. Repeats a command until it is answered, because input is lost until the state has
    /// been restored. Discards further answers.
    fn attach(&mut self) {
        let began = Instant::now();
        loop {
            self.say("");
            match self.lines.recv_timeout(Duration::from_millis(100)) {
                Ok(_) => break,
                Err(RecvTimeoutError::Timeout) => {
                    assert!(began.elapsed() < PATIENCE, "the guest does not go on");
                }
                Err(RecvTimeoutError::Disconnected) => panic!("QEMU has ended: see above"),
            }
        }
        self.say("echo attached");
        while self.read_line() != "attached" {}
        while !self.read_line().starts_with("status ") {}
    }

    /// Sends a line of shell to the guest, and does not wait.
    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.line_in, "{line}").unwrap();
    }

    /// The next line of the guest's output.
    #[track_caller]
    pub(crate) fn read_line(&mut self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(error) => panic!("no line from the guest: {error}"),
        }
    }

    /// Runs a line of shell. Returns its output and its exit code.
    #[track_caller]
    pub(crate) fn run(&mut self, line: &str) -> (String, i32) {
        self.say(line);
        let mut text = String::new();
        loop {
            let line = self.read_line();
            if let Some(code) = line.strip_prefix("status ") {
                return (text, code.parse().unwrap());
            }
            text += &line;
            text.push('\n');
        }
    }

    /// Runs a line of shell that must succeed. Returns its output.
    #[track_caller]
    pub(crate) fn good(&mut self, line: &str) -> String {
        let (text, code) = self.run(line);
        assert_eq!(code, 0, "`{line}` in the guest: {text}");
        text
    }

    /// Cuts the power of the guest and of its storage together: the guest executes no instruction and issues no request
    /// after the storage is lost. Returns the lines that the guest printed before.
    pub(crate) fn cut_power(mut self, served: &Served) -> Vec<String> {
        let pid = self.qemu.id() as libc::pid_t;
        // SAFETY: a signal to a child that has not been waited for.
        let stopped = unsafe { libc::kill(pid, libc::SIGSTOP) };
        assert_eq!(stopped, 0);
        served.fault("power-cut");
        self.qemu.kill().unwrap();
        self.qemu.wait().unwrap();
        let mut said = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            said.push(line);
        }
        said
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// A disk with iodyno on it, without debug information.
pub(crate) fn program(folder: &Path) -> String {
    let tree = folder.join("tree");
    std::fs::create_dir(&tree).unwrap();
    let run = |command: &mut Command| assert!(command.status().unwrap().success(), "{command:?}");
    run(Command::new("strip").arg("-o").arg(tree.join("iodyno")).arg(env!("CARGO_BIN_EXE_iodyno")));
    let image = folder.join("image");
    let path = std::env::var("PATH").unwrap() + ":/usr/sbin:/sbin";
    let flags = ["-q", "-t", "ext4", "-O", "^has_journal", "-d"];
    run(Command::new("mke2fs").env("PATH", path).args(flags).arg(&tree).arg(&image).arg("128M"));
    format!("driver=file,filename={},read-only=on", image.display())
}
