//! A test folder in which the program runs, and the result of a run.
//!
//! Each place has a work folder, which is the program's current one and holds only the files of the
//! test, and next to it a notebook. The environment is the same on every machine.

use serde_json::Value;
use std::fmt;
use std::io::Read;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Timeout of a program; one that runs longer hangs. It is far beyond the time that the slowest machine needs.
const PATIENCE: Duration = Duration::from_secs(150);
/// Polling interval.
pub(crate) const A_MOMENT: Duration = Duration::from_millis(10);

/// Flags for cells that are as short as they can be.
pub(crate) const SHORT: &str = "--time 100ms --ramp 10ms";

/// A folder to work in, and a notebook next to it.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    /// Creates the folder on the file system of the build, which is on a disk if the machine has one.
    pub(crate) fn new() -> Self {
        let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        Self { dir }
    }

    /// The program's current folder.
    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// A path in the program's current folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.work().join(name)
    }

    /// Path of the notebook, which does not exist before the first run.
    pub(crate) fn notebook(&self) -> PathBuf {
        self.dir.path().join("notebook.sqlite")
    }

    /// Writes a file into the program's current folder.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Names in the program's current folder, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        names(&self.work())
    }

    /// Command line of `iodyno` with these arguments, which are separated by blanks.
    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iodyno"));
        command
            .args(words.split_whitespace())
            .current_dir(self.work())
            .env("IODYNO_NOTEBOOK", self.notebook())
            .env("LC_ALL", "C.UTF-8")
            .env("COLUMNS", "200")
            .stdin(Stdio::null());
        for name in ["XDG_CACHE_HOME", "XDG_DATA_HOME", "HOME", "NO_COLOR"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs the program to its end.
    pub(crate) fn iodyno(&self, words: &str) -> RunOutput {
        self.start(words).finish()
    }

    /// Runs a workload, which must succeed, and returns the document of `--json --quiet`.
    pub(crate) fn document(&self, words: &str) -> Value {
        self.iodyno(&format!("{words} --json --quiet")).succeeds().json()
    }

    /// Starts `iodyno` with these arguments, and does not wait.
    pub(crate) fn start(&self, words: &str) -> Running {
        Running::of(self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Waits until the latest run in the notebook has begun this many cells.
    pub(crate) fn wait_for_cells(&self, running: &mut Running, count: u64) {
        running.wait_until("the cell begins", || {
            // Before the first run there is no notebook, and that is no failure here.
            let output = self.iodyno("ls --json");
            output.code == Some(0)
                && output.json()["runs"].as_array().unwrap().last().is_some_and(|run| {
                    run["status"] == "running" && run["cells"].as_u64() >= Some(count)
                })
        });
    }
}

/// Names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A running process of the program, killed when dropped.
pub(crate) struct Running {
    child: Option<Child>,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
    words: String,
}

impl Running {
    /// Starts a command, and collects its output from pipes.
    pub(crate) fn of(command: &mut Command) -> Self {
        let words: Vec<_> = command.get_args().map(|w| w.to_string_lossy().into_owned()).collect();
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().map(gather);
        let stderr = child.stderr.take().map(gather);
        Self { child: Some(child), stdout, stderr, words: words.join(" ") }
    }

    /// Wraps a child process that was started already. The caller reads its pipes.
    pub(crate) fn of_child(child: Child, words: &str) -> Self {
        Self { child: Some(child), stdout: None, stderr: None, words: words.to_owned() }
    }

    /// Whether the process has not ended.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.as_mut().unwrap().try_wait().unwrap().is_none()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: libc::c_int) {
        // SAFETY: sends a signal to our own child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(self.id() as libc::pid_t, signal) }, 0);
    }

    /// Waits until a condition holds. Panics if the program ends before that.
    pub(crate) fn wait_until(&mut self, what: &str, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds() {
            if !self.is_running() {
                let output = self.take();
                panic!("ended before {what}: {output:?}");
            }
            assert!(Instant::now() < deadline, "`{}`: waited in vain until {what}", self.words);
            std::thread::sleep(A_MOMENT);
        }
    }

    /// Waits until the program ends, and returns its output.
    pub(crate) fn finish(mut self) -> RunOutput {
        let deadline = Instant::now() + PATIENCE;
        while self.is_running() {
            assert!(Instant::now() < deadline, "`iodyno {}` hangs", self.words);
            std::thread::sleep(Duration::from_millis(2));
        }
        self.take()
    }

    fn take(&mut self) -> RunOutput {
        let status = self.child.take().unwrap().wait().unwrap();
        let text = |gathered: Option<JoinHandle<Vec<u8>>>| {
            gathered.map_or_else(String::new, |g| String::from_utf8(g.join().unwrap()).unwrap())
        };
        RunOutput::new(status, text(self.stdout.take()), text(self.stderr.take()), &self.words)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn gather(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// Result of a run of the program.
pub(crate) struct RunOutput {
    pub(crate) code: Option<i32>,
    /// Number of the signal that ended the program; `None`: it exited.
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    words: String,
}

impl fmt::Debug for RunOutput {
    /// Shortens standard output, because the beginning of a document is enough in a failure.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, signal, stdout, stderr, words } = self;
        let stdout: String = stdout.chars().take(2000).collect();
        write!(f, "`iodyno {words}` ended with {code:?}, signal {signal:?}\n{stdout}\n{stderr}")
    }
}

impl RunOutput {
    fn new(status: ExitStatus, stdout: String, stderr: String, words: &str) -> Self {
        let (code, signal) = (status.code(), status.signal());
        assert!(!stderr.contains("panicked"), "`iodyno {words}` panicked: {stderr}");
        Self { code, signal, stdout, stderr, words: words.to_owned() }
    }

    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn succeeds(&self) -> &Self {
        self.exits(0)
    }

    /// Asserts that the program exited with `code`, printed nothing on standard output, and an error with all of
    /// `words` on standard error.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, words: &[&str]) -> &Self {
        self.exits(code);
        assert_eq!(self.stdout, "", "{self:?}");
        assert!(self.stderr.starts_with("error: "), "{self:?}");
        self.says(words)
    }

    /// Asserts that standard error contains all of `words`.
    #[track_caller]
    pub(crate) fn says(&self, words: &[&str]) -> &Self {
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` is missing: {}", self.stderr);
        }
        self
    }

    /// Parses standard output, which must be exactly one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        match serde_json::from_str(&self.stdout) {
            Ok(document) => document,
            Err(e) => panic!("not one JSON document ({e}): {self:?}"),
        }
    }
}

/// The cells of a document.
#[track_caller]
pub(crate) fn cells(document: &Value) -> &Vec<Value> {
    document["cells"].as_array().unwrap()
}

/// The codes of a cell's verdicts.
#[track_caller]
pub(crate) fn codes(cell: &Value) -> Vec<&str> {
    cell["verdicts"].as_array().unwrap().iter().map(|v| v["code"].as_str().unwrap()).collect()
}

/// The value as an integer. Panics if it is not one.
#[track_caller]
pub(crate) fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a whole number: {value}"))
}

/// The value as a number. Panics if it is not one.
#[track_caller]
pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

/// Engines that work on files of this machine. If io_uring is switched off, as in many containers, the program must
/// report it, and the list lacks `uring`.
pub(crate) fn engines(place: &Place) -> Vec<&'static str> {
    let output =
        place.iodyno("run random-read --on scratch:1MiB --engine uring --ops 1 --ramp 0s -q");
    if output.code == Some(0) {
        return vec!["uring", "libaio", "psync", "mmap"];
    }
    output.fails(4, &["io_uring", "--engine libaio or psync"]);
    vec!["libaio", "psync", "mmap"]
}
