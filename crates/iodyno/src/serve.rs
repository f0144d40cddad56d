//! `serve`: translates the command line into a request for a server.

use crate::args::{Serve, Speed};
use crate::console::{complain, remark};
use crate::failure::Failure;
use crate::private_folder::PrivateFolder;
use crate::{scrape, signals, tls};
use iodyno_nbd::Endpoint;
use iodyno_serving::{Console, ServeRequest};
use iodyno_targets::TargetName;
use std::fs::File;
use std::os::fd::FromRawFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::sync::Mutex;

/// Default path of the NBD socket.
const SOCKET: &str = "iodyno.sock";
/// Flags that require emulated storage, whatever the value of --speed.
const OF_A_DEVICE: [&str; 5] = ["backing", "memory", "speed", "size", "image"];
/// Flags that require --speed model.
const OF_THE_MODEL: [&str; 8] =
    ["dilate", "steady", "record", "record-data", "scenario", "metrics", "fuse", "ublk"];

pub(crate) fn command(flags: &Serve) -> Result<ExitCode, Failure> {
    check_flags(flags)?;
    let console = Console { say: complain, remark };
    if flags.command.is_empty() {
        if flags.fuse == Some(None) {
            return Err(Failure::input("--fuse requires a folder, unless a command follows `--`"));
        }
        iodyno_serving::serve(&request(flags)?, console, &signals::stop_flag())?;
        return Ok(ExitCode::SUCCESS);
    }
    let folder = PrivateFolder::create().map_err(|e| {
        Failure::target(format!("no folder in {}: {e}", std::env::temp_dir().display()))
    })?;
    let mut request = request(flags)?;
    request.command.clone_from(&flags.command);
    if request.endpoints.is_empty() && flags.fuse.is_none() && !request.ublk {
        request.endpoints.push(Endpoint::Unix(folder.nbd()));
    }
    request.control.get_or_insert_with(|| folder.control());
    if flags.fuse == Some(None) {
        let mount = folder.mount().map_err(|e| Failure::target(format!("--fuse: {e}")))?;
        request.fuse = Some(mount);
    }
    let status = iodyno_serving::serve(&request, console, &signals::stop_flag_of_command())?;
    Ok(status.map_or(ExitCode::SUCCESS, exit_code))
}

/// Exit code of the server after its command has ended, by the shell's rule: that of the command, or 128 plus the
/// number of the signal that ended the command.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Refuses flags that have no effect on the served storage.
fn check_flags(flags: &Serve) -> Result<(), Failure> {
    let is_memory = matches!(flags.device, TargetName::Ram { .. });
    let of_a_device = flags.given.first_of(&OF_A_DEVICE);
    match (of_a_device, flags.given.first_of(&OF_THE_MODEL)) {
        (Some(flag), _) | (None, Some(flag)) if is_memory => Err(Failure::input(format!(
            "--{flag} is for emulated storage, such as ramdisk-ddr3-16g; {} is plain memory",
            flags.device
        ))),
        (_, Some(flag)) if flags.speed == Some(Speed::Native) => Err(Failure::input(format!(
            "--{flag} is not available with --speed native: leave one of them out"
        ))),
        _ => Ok(()),
    }
}

fn request(flags: &Serve) -> Result<ServeRequest, Failure> {
    Ok(ServeRequest {
        device: flags.device.clone(),
        endpoints: endpoints(flags)?,
        tls: tls::of_flag(&flags.tls)?,
        insist_on_plain: flags.insist_on_plain,
        fuse: flags.fuse.clone().flatten(),
        ublk: flags.ublk,
        speed: match flags.speed {
            Some(Speed::Native) => iodyno_serving::Speed::Native,
            Some(Speed::Model) | None => iodyno_serving::Speed::Model,
        },
        backing: flags.backing.clone(),
        image: flags.image.clone(),
        write_image: flags.write_image,
        size: flags.size,
        memory: flags.memory,
        control: flags.control.clone(),
        scenario: flags.scenario.clone(),
        record: flags.record.clone(),
        record_data: flags.record_data.clone(),
        metrics: scrape::address(flags.metrics, flags.insist_on_plain)?,
        dilate: flags.dilate,
        steady_ns: flags.steady,
        read_only: flags.read_only,
        no_floor: flags.no_floor,
        seed: flags.seed,
        ready: Mutex::new(flags.ready_fd.map(ready_file).transpose()?),
        command: Vec::new(),
    })
}

/// Parses the NBD addresses, each `unix:PATH` or `HOST:PORT`.
fn endpoints(flags: &Serve) -> Result<Vec<Endpoint>, Failure> {
    let read = |text: &String| match text.strip_prefix("unix:") {
        Some("") => Err(Failure::input(
            "`--nbd unix:` lacks the path of a socket, as in unix:/run/flash.sock",
        )),
        Some(path) => Ok(Endpoint::Unix(PathBuf::from(path))),
        None => text.parse().map(Endpoint::Tcp).map_err(|_| {
            let why =
                "use unix:/run/flash.sock, or an address with a port, such as 127.0.0.1:10809";
            Failure::input(format!("--nbd {text}: {why}"))
        }),
    };
    let needs_address = flags.command.is_empty() && flags.fuse.is_none() && !flags.ublk;
    if flags.nbd.is_empty() && needs_address {
        return Ok(vec![Endpoint::Unix(PathBuf::from(SOCKET))]);
    }
    flags.nbd.iter().map(read).collect()
}

/// Takes ownership of the file descriptor of `--ready-fd`. A command that the server starts does not inherit it.
fn ready_file(number: i32) -> Result<File, Failure> {
    // SAFETY: the call changes a flag of the descriptor, if it exists.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return Err(Failure::input(format!("--ready-fd {number}: no open file has this number")));
    }
    // SAFETY: it is open, and its number was given to this process for this use alone.
    Ok(unsafe { File::from_raw_fd(number) })
}
