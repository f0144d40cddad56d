//! Runs programs in folders: the program under test, and checkers.

use crate::folder::Folders;
use crate::leftover::kill_leftover;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, test_kill_process_group,
};
use std::ffi::OsString;
use std::io::{self, PipeReader, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Maximum length of a checker's standard output that is kept, and likewise of its standard error, bytes. The rest is
/// discarded.
const KEPT_BYTES: usize = 64 << 10;
/// Maximum time to wait until killed processes have disappeared. Those of other parents may stay as zombies.
const PATIENCE: Duration = Duration::from_millis(50);
/// Interval between checks of the flag that stops a program.
const STOP_PERIOD: Duration = Duration::from_millis(100);
/// Interval between checks whether killed processes have disappeared.
const TICK: Duration = Duration::from_millis(1);

/// A command to run, with its environment and its limits.
#[derive(Clone, Debug)]
pub struct Program {
    /// Name or path of the program, then its arguments.
    pub words: Vec<OsString>,
    /// Environment variables to add to those of this process.
    pub environment: Vec<(OsString, OsString)>,
    /// Time after which the program is killed.
    pub time_limit: Duration,
    /// When this flag is set, the program is killed, as at the time limit.
    pub stop: Arc<AtomicBool>,
}

/// Reason for the end of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The program ended by itself or by a signal.
    Exited(ExitStatus),
    /// The program was killed, at its time limit or by its stop flag.
    TimedOut,
}

/// End of a program under test.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// Exit status, or [`Ended::TimedOut`].
    pub ended: Ended,
    /// Number of processes that the program left running, and that were killed: those of its process group, and others
    /// that can still reach its folder. 0 if the program was killed itself.
    pub left_running: usize,
}

/// Exit and output of a checker.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Exit status, or [`Ended::TimedOut`].
    pub ended: Ended,
    /// First 64 KiB of the checker's standard output.
    pub output: Vec<u8>,
    /// First 64 KiB of the checker's standard error.
    pub errors: Vec<u8>,
}

impl Program {
    /// Runs the program under test in a recording folder. Its standard output becomes [`crate::Event::Output`]; bytes
    /// printed before an operation began precede that operation. The environment variable `IODYNO_DIR` is the folder.
    /// Standard error is inherited, standard input is empty. At the end, the processes that it left running are
    /// killed.
    ///
    /// # Errors
    /// The program does not exist or can't be executed.
    pub fn record(&self, folders: &Folders, name: &str, folder: &Path) -> io::Result<Ran> {
        let (output, written) = pipe()?;
        folders.capture(name, output.try_clone()?.into());
        let mut command = self.command(folder)?;
        command.stdout(written);
        let child = self.spawn(command)?;
        let mut drain = || folders.drain(name);
        let ran = self.wait(child, &mut [Stream { pipe: &output, read: &mut drain }], Some(folder));
        folders.release(name);
        ran
    }

    /// Runs a checker in a folder. The environment variable `IODYNO_DIR` is the folder, `IODYNO_ACKNOWLEDGED` the
    /// file with the output of the program under test up to the cut. Standard input is empty. At the end, the
    /// processes of its process group are killed.
    ///
    /// # Errors
    /// The program does not exist or can't be executed.
    pub fn check(&self, folder: &Path, acknowledged: &Path) -> io::Result<Checked> {
        let (output, output_written) = pipe()?;
        let (errors, errors_written) = pipe()?;
        let mut command = self.command(folder)?;
        command.env("IODYNO_ACKNOWLEDGED", acknowledged);
        command.stdout(output_written).stderr(errors_written);
        let child = self.spawn(command)?;
        let (mut kept_output, mut kept_errors) = (Vec::new(), Vec::new());
        let mut read_output = || keep(&output, &mut kept_output);
        let mut read_errors = || keep(&errors, &mut kept_errors);
        let mut streams = [
            Stream { pipe: &output, read: &mut read_output },
            Stream { pipe: &errors, read: &mut read_errors },
        ];
        let Ran { ended, .. } = self.wait(child, &mut streams, None)?;
        Ok(Checked { ended, output: kept_output, errors: kept_errors })
    }

    fn command(&self, folder: &Path) -> io::Result<Command> {
        let Some((program, arguments)) = self.words.split_first() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"));
        };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder).env("IODYNO_DIR", folder);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).process_group(0);
        Ok(command)
    }

    /// Starts a command, and closes this process's ends of its pipes.
    fn spawn(&self, mut command: Command) -> io::Result<Child> {
        command.spawn().map_err(|e| {
            let program = self.words[0].to_string_lossy();
            io::Error::new(e.kind(), format!("{program} can't be started: {e}"))
        })
    }

    /// Waits until the child ends, reads its streams, and kills what is left of its process group. With `folder`, kills
    /// and counts all processes that it left running there.
    fn wait(
        &self,
        mut child: Child,
        streams: &mut [Stream<'_>],
        folder: Option<&Path>,
    ) -> io::Result<Ran> {
        let group = Pid::from_child(&child);
        let in_time = until_end(&child, self.time_limit, &self.stop, streams);
        // The child has not been waited for, so the number is still its own.
        let left_running = match folder {
            Some(folder) if matches!(in_time, Ok(true)) => kill_leftover(group, folder, PATIENCE),
            _ => 0,
        };
        let _ = kill_process_group(group, Signal::KILL);
        let status = child.wait()?;
        let until = Instant::now() + PATIENCE;
        while test_kill_process_group(group).is_ok() && Instant::now() < until {
            std::thread::sleep(TICK);
        }
        for stream in streams {
            (stream.read)();
        }
        let ended = if in_time? { Ended::Exited(status) } else { Ended::TimedOut };
        Ok(Ran { ended, left_running })
    }
}

/// An output stream of a running program.
struct Stream<'a> {
    pipe: &'a PipeReader,
    /// Reads what is in the pipe. Returns whether more may follow.
    read: &'a mut dyn FnMut() -> bool,
}

/// Creates a pipe whose reading end does not block.
fn pipe() -> io::Result<(PipeReader, io::PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    ioctl_fionbio(&reader, true)?;
    Ok((reader, writer))
}

/// Reads what is in a pipe, and keeps only the beginning of the whole output. Returns whether more may follow.
fn keep(mut pipe: &PipeReader, kept: &mut Vec<u8>) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match pipe.read(&mut bytes) {
            Ok(0) => return false,
            Ok(len) => {
                let len = len.min(KEPT_BYTES - kept.len());
                kept.extend_from_slice(&bytes[..len]);
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return e.kind() == io::ErrorKind::WouldBlock,
        }
    }
}

/// Reads the streams until the child ends. Returns false if the time limit came first.
fn until_end(
    child: &Child,
    limit: Duration,
    stop: &AtomicBool,
    streams: &mut [Stream<'_>],
) -> io::Result<bool> {
    let ends = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let until = Instant::now() + limit;
    let mut open = vec![true; streams.len()];
    loop {
        let Some(left) = until.checked_duration_since(Instant::now()) else { return Ok(false) };
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let left = left.min(STOP_PERIOD);
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let waiting: Vec<usize> = (0..streams.len()).filter(|&stream| open[stream]).collect();
        let mut fds = vec![PollFd::from_borrowed_fd(ends.as_fd(), PollFlags::IN)];
        fds.extend(waiting.iter().map(|&stream| PollFd::new(streams[stream].pipe, PollFlags::IN)));
        match poll(&mut fds, Some(&left)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (stream, _) in waiting.into_iter().zip(&ready[1..]).filter(|(_, ready)| **ready) {
            open[stream] = (streams[stream].read)();
        }
        if ready[0] {
            return Ok(true);
        }
    }
}
