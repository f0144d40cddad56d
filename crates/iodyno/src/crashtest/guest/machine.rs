//! The host's side of the virtual machine: resumes the machine from the state that `make-guest` saved, and executes one
//! script, which it sends over a serial line.

use super::NOT_EXECUTED;
use iodyno_catalog::input::read_text;
use rustix::io::{FdFlags, fcntl_setfd};
use std::ffi::OsStr;
use std::io::{self, BufRead as _, BufReader, PipeReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Timeout for the first response of a guest.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum length of the file with QEMU's arguments, bytes.
const ARGUMENTS_BYTES_MAX: u64 = 64 << 10;
/// Interval between attempts to reach the guest.
const TICK: Duration = Duration::from_millis(50);
/// Time limit of a script for which none is given.
const NO_LIMIT: Duration = Duration::from_secs(24 * 3600);
/// Exit code with which `timeout` reports that it ended the command.
const TIMED_OUT: u8 = 124;
/// Prefix of the line that the guest's `init` prints after each executed line of shell.
const STATUS: &[u8] = b"status ";

/// A running guest; killed when dropped.
struct Machine {
    qemu: Child,
    line_in: ChildStdin,
    lines: Receiver<Vec<u8>>,
    /// Thread that copies the guest's first serial line to standard error. The program's errors go to that line.
    copier: Option<JoinHandle<()>>,
}

/// Copies a pipe to standard error, without carriage returns.
fn copy_errors(mut pipe: PipeReader) {
    let mut bytes = [0; 4096];
    while let Ok(len @ 1..) = pipe.read(&mut bytes) {
        let text: Vec<u8> = bytes[..len].iter().copied().filter(|byte| *byte != b'\r').collect();
        let _ = io::stderr().write_all(&text);
    }
}

/// Runs a script in the guest in `folder`, with a disk. Prints the script's output, and returns its exit code. The guest
/// ends without a shutdown.
///
/// Exit code 124: `time_limit` was exceeded, as with `timeout`; 126: the guest failed.
pub(crate) fn run_in_guest(
    folder: &Path,
    disk: &Path,
    script: &OsStr,
    time_limit: Option<Duration>,
) -> ExitCode {
    let run = || -> io::Result<u8> {
        let mut machine = Machine::start(folder, disk)?;
        machine.attach()?;
        machine.say(b"bind")?;
        machine.wait()?;
        // A line that no program prints.
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let end = format!("end-{}-{}", std::process::id(), time.unwrap_or_default().as_nanos());
        machine.say(&as_line(script.as_bytes(), &end))?;
        machine.answer(end.as_bytes(), time_limit)
    };
    match run() {
        Ok(code) => code.into(),
        Err(e) => {
            eprintln!("the guest in {}: {e}", folder.display());
            NOT_EXECUTED.into()
        }
    }
}

/// Converts a script to a single line of shell that also passes on the environment variable IODYNO_ACKNOWLEDGED. The
/// script must set `code`; the line prints it after `end`.
fn as_line(script: &[u8], end: &str) -> Vec<u8> {
    let mut text = Vec::new();
    if let Some(path) = std::env::var_os(super::super::ACKNOWLEDGED) {
        text.extend(b"export IODYNO_ACKNOWLEDGED=");
        text.extend(super::quoted(&path).as_bytes());
        text.push(b'\n');
    }
    text.extend(script);
    let mut line = b"printf '".to_vec();
    for byte in text {
        if byte.is_ascii_alphanumeric() || b" /._=-\"$&|;".contains(&byte) {
            line.push(byte);
        } else {
            line.extend(format!("\\{byte:03o}").bytes());
        }
    }
    // The empty line begins a new one where the output does not end with one.
    line.extend(format!("' >/tmp/script; . /tmp/script; echo; echo {end} $code").bytes());
    line
}

impl Machine {
    fn start(folder: &Path, disk: &Path) -> io::Result<Self> {
        let disk = std::path::absolute(disk)?;
        let arguments = read_text(&folder.join("arguments"), ARGUMENTS_BYTES_MAX)
            .map_err(|e| io::Error::other(e.to_string()))?;
        let mut command = Command::new("qemu-system-x86_64");
        command.current_dir(folder).args(arguments.lines());
        // A comma ends a value, unless it is doubled.
        let path = disk.to_string_lossy().replace(',', ",,");
        command.args([
            "-blockdev",
            &format!("driver=file,node-name=disk0,filename={path},locking=off"),
        ]);
        for unused in 1..4 {
            let nothing = format!("driver=null-co,node-name=disk{unused},size=1073741824");
            command.args(["-blockdev", &nothing]);
        }
        // QEMU opens it by its path: a file that standard error goes to would be truncated, and a socket can't be opened.
        let (errors, errors_written) = io::pipe()?;
        fcntl_setfd(&errors_written, FdFlags::empty())?;
        command.args(["-serial", &format!("file:/proc/self/fd/{}", errors_written.as_raw_fd())]);
        command.args(["-serial", "stdio", "-incoming", "exec:cat state"]);
        let mut qemu = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| io::Error::new(e.kind(), format!("qemu-system-x86_64: {e}")))?;
        drop(errors_written);
        let copier = std::thread::spawn(move || copy_errors(errors));
        let (Some(line_in), Some(line_out)) = (qemu.stdin.take(), qemu.stdout.take()) else {
            return Err(io::Error::other("QEMU has no serial line"));
        };
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut line_out = BufReader::new(line_out);
            let mut line = Vec::new();
            while line_out.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        Ok(Self { qemu, line_in, lines, copier: Some(copier) })
    }

    /// Sends a line of shell to the guest, and does not wait until it has been executed.
    fn say(&mut self, line: &[u8]) -> io::Result<()> {
        self.line_in.write_all(&[line, b"\n"].concat())?;
        self.line_in.flush()
    }

    /// Waits until the guest listens. Sends empty lines until the guest answers, because input is lost until the state
    /// of the guest has been restored.
    fn attach(&mut self) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            self.say(b"")?;
            match self.lines.recv_timeout(TICK) {
                Ok(_) => break,
                Err(RecvTimeoutError::Timeout) if Instant::now() < until => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(io::Error::other("the guest does not start"));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(ended()),
            }
        }
        self.say(b"echo attached")?;
        while self.lines.recv().map_err(|_| ended())? != b"attached\n" {}
        self.wait()
    }

    /// Waits until a line of shell has been executed.
    fn wait(&mut self) -> io::Result<()> {
        while !self.lines.recv().map_err(|_| ended())?.starts_with(STATUS) {}
        Ok(())
    }

    /// Prints the output of a script up to the line that starts with `end`, and returns the number in that line. Prints an
    /// empty line only once another line follows, because the last empty line is not the script's.
    fn answer(&mut self, end: &[u8], time_limit: Option<Duration>) -> io::Result<u8> {
        let until = Instant::now() + time_limit.unwrap_or(NO_LIMIT);
        let mut out = io::stdout().lock();
        let mut held = false;
        loop {
            let line =
                match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    Ok(line) => line,
                    Err(RecvTimeoutError::Timeout) => return Ok(TIMED_OUT),
                    Err(RecvTimeoutError::Disconnected) => return Err(ended()),
                };
            if let Some(code) = line.strip_prefix(end) {
                let code = String::from_utf8_lossy(code).trim().parse();
                return code.map_err(|_| io::Error::other("the guest's exit status can't be read"));
            }
            if std::mem::replace(&mut held, line == b"\n") {
                out.write_all(b"\n")?;
            }
            if !held {
                out.write_all(&line)?;
            }
            out.flush()?;
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
        if let Some(copier) = self.copier.take() {
            let _ = copier.join();
        }
    }
}

fn ended() -> io::Error {
    io::Error::other("QEMU has ended")
}
