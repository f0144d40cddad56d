//! The server as a process: its start, requests, faults and end.

use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Timeout of the server's start.
const PATIENCE: Duration = Duration::from_secs(60);

/// `iodyno serve`, with a folder of its own for its sockets. Ends when it is dropped.
pub(crate) struct Served {
    /// Folder for sockets. It is not in the build folder, because the path of a socket has at most 107 bytes.
    folder: TempDir,
    child: Child,
    exports: Vec<String>,
}

impl Served {
    /// Serves a device, with additional flags.
    pub(crate) fn start(device: &str, flags: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| format!("unix:{}", folder.path().join(name).display());
        let child = Command::new(env!("CARGO_BIN_EXE_iodyno"))
            .args(["serve", device, "--nbd", &at("nbd"), "--control", &at("control")])
            .args(["--memory", "2GiB"])
            .args(flags.split_whitespace())
            .stdin(Stdio::null())
            .stderr(File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut served = Self { folder, child, exports: Vec::new() };
        let began = Instant::now();
        while !served.log().contains("\nready\n") {
            let ended = served.child.try_wait().unwrap();
            assert!(ended.is_none(), "the server has ended: {}", served.log());
            assert!(began.elapsed() < PATIENCE, "the server does not begin: {}", served.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        let log = served.log();
        let exports = log.lines().filter_map(|l| l.strip_prefix("serving ")?.split(' ').next());
        served.exports = exports.map(str::to_owned).collect();
        served
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Output of the server so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap()
    }

    /// Path of the server's NBD socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.path("nbd")
    }

    /// Names of the server's exports, in the order of volumes.
    pub(crate) fn exports(&self) -> &[String] {
        &self.exports
    }

    /// Injects a fault with `iodyno fault`.
    pub(crate) fn fault(&self, words: &str) {
        let output = ask(&self.path("control"), &format!("fault {words}"));
        assert!(!output.is_empty(), "an applied fault prints what is in effect");
    }

    /// Document that `iodyno status --json` prints.
    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&ask(&self.path("control"), "status --json")).unwrap()
    }
}

/// Runs `iodyno`, which queries this server at its control socket, and returns its output.
fn ask(control: &Path, words: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_iodyno"))
        .args(words.split_whitespace())
        .args(["--control", &format!("unix:{}", control.display())])
        .output()
        .unwrap();
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the server said:\n{}", self.log());
        }
    }
}
