//! A command that runs while storage is served, as in `serve DEVICE -- CMD`.

use crate::error::ServeError;
use iodyno_units::text::clean;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Time that a command has to end after SIGTERM, before SIGKILL.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval between checks whether a command has ended.
const TICK: Duration = Duration::from_millis(2);

/// Places at which a command finds the served storage.
#[derive(Default)]
pub(crate) struct Places {
    /// NBD URI of the first volume; `None`: no NBD server.
    pub(crate) nbd: Option<String>,
    /// File of the first volume in the folder mounted by FUSE; `None`: no folder.
    pub(crate) file: Option<PathBuf>,
    /// Block device of the first volume; `None`: none was created.
    pub(crate) block: Option<PathBuf>,
}

/// A started command, which inherits standard input, output and error.
pub(crate) struct Running(Child);

impl Running {
    /// Starts the command with the places in its environment: `IODYNO_NBD`, `IODYNO_FILE`, `IODYNO_BLOCK`, and
    /// `IODYNO_CONTROL`, the control socket, if there is one. `words` are the program and its arguments.
    ///
    /// # Errors
    /// The program does not exist or can't be executed.
    pub(crate) fn start(
        words: &[OsString],
        places: &Places,
        control: Option<&PathBuf>,
    ) -> Result<Self, ServeError> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(ServeError::input("`--` requires a command"));
        };
        let mut command = Command::new(program);
        command.args(arguments);
        let control = control.map(|path| {
            let mut address = OsString::from("unix:");
            address.push(absolute(path));
            address
        });
        let variables = [
            ("IODYNO_NBD", places.nbd.as_ref().map(OsString::from)),
            ("IODYNO_FILE", places.file.as_ref().map(|path| absolute(path).into())),
            ("IODYNO_BLOCK", places.block.as_ref().map(OsString::from)),
            ("IODYNO_CONTROL", control),
            // Readiness is the server's to report.
            ("NOTIFY_SOCKET", None),
        ];
        for (name, value) in variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.spawn().map(Self).map_err(|e| {
            ServeError::input(format!(
                "{} can't be started: {e}",
                clean(&program.to_string_lossy())
            ))
        })
    }

    /// Waits for the command for at most `time`. `None`: it is still running.
    pub(crate) fn wait(&mut self, time: Duration) -> io::Result<Option<ExitStatus>> {
        let until = Instant::now() + time;
        loop {
            let status = self.0.try_wait()?;
            if status.is_some() || Instant::now() >= until {
                return Ok(status);
            }
            std::thread::sleep(TICK);
        }
    }

    /// Ends the command by SIGTERM, or by SIGKILL if it has not ended 5 s later.
    pub(crate) fn stop(mut self) -> io::Result<ExitStatus> {
        if let Some(pid) = rustix::process::Pid::from_raw(self.0.id().cast_signed()) {
            // Not waited for yet, so the PID is still the command's.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        if let Some(status) = self.wait(PATIENCE)? {
            return Ok(status);
        }
        self.0.kill()?;
        self.0.wait()
    }
}

/// Absolute form of a path, which a command can use in any folder.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
