//! `serve`: translates the command line into a request for a server.

use crate::args::{Serve, Speed};
use crate::console::{complain, remark};
use crate::failure::Failure;
use crate::{scrape, signals, tls};
use iodyno_nbd::Endpoint;
use iodyno_serving::{Console, ServeRequest};
use iodyno_targets::TargetName;
use std::path::PathBuf;
use std::process::ExitCode;

/// Default path of the NBD socket.
const SOCKET: &str = "iodyno.sock";
/// Flags that require emulated storage, at any --speed.
const OF_A_DEVICE: [&str; 5] = ["backing", "memory", "speed", "size", "image"];
/// Flags that require --speed model.
const OF_THE_MODEL: [&str; 6] = ["dilate", "record", "scenario", "metrics", "fuse", "ublk"];

/// Executes `iodyno serve`.
pub(crate) fn command(flags: &Serve) -> Result<ExitCode, Failure> {
    check_flags(flags)?;
    let console = Console { say: complain, remark };
    iodyno_serving::serve(&request(flags)?, console, &signals::stop_flag())?;
    Ok(ExitCode::SUCCESS)
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
        fuse: flags.fuse.clone(),
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
        metrics: scrape::address(flags.metrics, flags.insist_on_plain)?,
        dilate: flags.dilate,
        read_only: flags.read_only,
        no_floor: flags.no_floor,
        seed: flags.seed,
    })
}

/// Parses the NBD addresses, each `unix:PATH` or `HOST:PORT`.
fn endpoints(flags: &Serve) -> Result<Vec<Endpoint>, Failure> {
    let read = |text: &String| match text.strip_prefix("unix:") {
        Some("") => Err(Failure::input("--nbd unix: lacks the path of a socket")),
        Some(path) => Ok(Endpoint::Unix(PathBuf::from(path))),
        None => text.parse().map(Endpoint::Tcp).map_err(|_| {
            let why =
                "use unix:/run/flash.sock, or an address with a port, such as 127.0.0.1:10809";
            Failure::input(format!("--nbd {text}: {why}"))
        }),
    };
    if flags.nbd.is_empty() && flags.fuse.is_none() && !flags.ublk {
        return Ok(vec![Endpoint::Unix(PathBuf::from(SOCKET))]);
    }
    flags.nbd.iter().map(read).collect()
}
