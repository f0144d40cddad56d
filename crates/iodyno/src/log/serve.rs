//! `log serve`: serves a log to clients over the network.

use super::check::{cannot_open, describe};
use super::create;
use crate::args::LogServe;
use crate::console::{complain, remark, shown};
use crate::failure::Failure;
use crate::{signals, tls};
use iodyno_logserver::storage::{self, OpenStorage, Purpose};
use iodyno_logserver::{Found, Limits, Server, ServerOptions, StartError, open_log};
use iodyno_msglog::{CommitRule, Durability, LogOptions, recovery};
use iodyno_nbd::Endpoint;
use iodyno_nbd::server::ListenError;
use iodyno_serving::{Access, system};
use iodyno_targets::{Confirm, SysRoot, TargetName, memory_available_bytes};
use iodyno_units::human;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Chunk size of a log stored in memory, bytes.
const MEMORY_CHUNK_BYTES: u64 = 64 << 10;
/// Seed of an emulated device's random behaviour.
const SEED: u64 = 1;
/// Default path of the server's Unix socket.
const SOCKET: &str = "iodyno-log.sock";

pub(super) fn command(flags: &LogServe) -> Result<ExitCode, Failure> {
    let options = options(flags)?;
    let (opened, found) = open(flags)?;
    for lifted in &opened.lifted {
        remark("note", lifted);
    }
    let Found { recovered, .. } = &found;
    let mut text = format!("serving {}\n", create::words(&flags.target, &recovered.layout));
    let _ = writeln!(text, "by      {}", opened.words);
    describe(&mut text, &found);
    let stop = signals::stop_flag();
    let Found { recovered, publisher_max, .. } = found;
    let server = Server::start(Arc::clone(&opened.storage), recovered, publisher_max, options)
        .map_err(|e| match e {
            StartError::Listen(ListenError::Open(address)) => Failure::target(format!(
                "--tcp {address} is open to other machines, and there is no TLS: give certificates with --tls, listen on 127.0.0.1, or add --insist-on-plain"
            )),
            e => Failure::target(e.to_string()),
        })?;
    for endpoint in server.endpoints() {
        let _ = match endpoint {
            Endpoint::Unix(path) => writeln!(text, "at      unix:{}", shown(path)),
            Endpoint::Tcp(address) => writeln!(text, "at      {address}"),
        };
    }
    text.push_str("ready\n");
    complain(&text);
    while !stop.load(Ordering::Relaxed) && server.failure().is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    server.stop().map(|()| ExitCode::SUCCESS).map_err(|why| {
        Failure::target(format!(
            "{}: {why}; acknowledged messages are kept, but no more can be stored: start the server again once the target works",
            flags.target
        ))
    })
}

/// Opens an existing log, or creates one in memory.
fn open(flags: &LogServe) -> Result<(OpenStorage, Found), Failure> {
    let target = &flags.target;
    let in_memory = match target {
        TargetName::Ram { .. } => Some(storage::open(target, &Purpose::Read)?),
        TargetName::Model(name) if name.live => Some(emulated(flags)?),
        TargetName::Model(_) => {
            return Err(Failure::input(format!(
                "{target} is in virtual time, but clients are in real time: use `live:` for the same device in real time"
            )));
        }
        _ => None,
    };
    if flags.size.is_some() && !matches!(target, TargetName::Model(_)) {
        return Err(Failure::input("--size is only for `live:` devices: leave it out"));
    }
    if let Some(opened) = in_memory {
        let layout = create::layout(&opened, None, MEMORY_CHUNK_BYTES)?;
        recovery::create(&*opened.storage, &layout)
            .map_err(|e| Failure::target(format!("{target}: {e}")))?;
        return Ok((opened, Found::of_new(layout)));
    }
    // Check that there is a log before anything is opened for writing.
    let opened = storage::open(target, &Purpose::Read)?;
    recovery::describe(&*opened.storage).map_err(|e| cannot_open(target, &e))?;
    drop(opened);
    let opened = storage::open(target, &Purpose::Serve(Confirm(flags.destroy.clone())))?;
    let found = open_log(&opened.storage).map_err(|e| cannot_open(target, &e))?;
    let layout = &found.recovered.layout;
    if !layout.align_bytes.is_multiple_of(opened.block_bytes.min(4096)) && !flags.accept_damage {
        remark(
            "warning",
            &format!(
                "the log was made for blocks of {} bytes, but this target has blocks of {}: a power cut may damage persisted messages",
                layout.align_bytes, opened.block_bytes
            ),
        );
    }
    let is_damaged = !found.recovered.damages.is_empty() || !found.lost_descriptions.is_empty();
    if is_damaged && !flags.accept_damage {
        let mut text = format!("{target}: the log is damaged:\n");
        describe(&mut text, &found);
        text.push_str(
            "  help: restore the log from a copy, or serve what is left with --accept-damage",
        );
        return Err(Failure::target(text));
    }
    if !found.lost_descriptions.is_empty() {
        recovery::create(&*opened.storage, layout)
            .map_err(|e| Failure::target(format!("{target}: its description: {e}")))?;
    }
    Ok((opened, found))
}

/// Opens storage on an emulated device in real time. If memory does not suffice for the whole device, the
/// storage is the beginning of the device.
fn emulated(flags: &LogServe) -> Result<OpenStorage, Failure> {
    let system = system(&flags.target, Access::Sequential)?;
    if system.volumes.len() > 1 {
        return Err(Failure::input(format!(
            "{} has {} volumes, but a log uses only one",
            flags.target,
            system.volumes.len()
        )));
    }
    let memory_bytes = memory_available_bytes(&SysRoot::real()).unwrap_or(u64::MAX) / 2;
    let capacity_bytes = system.capacity_bytes(0);
    let size_bytes = flags.size.unwrap_or_else(|| capacity_bytes.min(memory_bytes));
    if size_bytes > capacity_bytes {
        return Err(Failure::input(format!(
            "--size {}: {} has {}",
            human::exact_size(size_bytes),
            flags.target,
            human::exact_size(capacity_bytes)
        )));
    }
    storage::open_live(&system, size_bytes, SEED).map_err(Failure::input)
}

fn options(flags: &LogServe) -> Result<ServerOptions, Failure> {
    let durability = Durability::from(flags.durability);
    let mut endpoints: Vec<Endpoint> = flags.unix.iter().cloned().map(Endpoint::Unix).collect();
    endpoints.extend(flags.tcp.iter().copied().map(Endpoint::Tcp));
    if endpoints.is_empty() {
        endpoints.push(Endpoint::Unix(PathBuf::from(SOCKET)));
    }
    Ok(ServerOptions {
        endpoints,
        tls: tls::of_flag(&flags.tls)?,
        insist_on_plain: flags.insist_on_plain,
        token: super::token(flags.token_file.as_deref())?,
        log: LogOptions {
            commit: CommitRule { durability, ..CommitRule::DEFAULT },
            retain_ns: flags.retain.unwrap_or(0),
            ..LogOptions::default()
        },
        limits: Limits {
            stall: Duration::from_nanos(flags.stall),
            memory_bytes: flags.memory.try_into().unwrap_or(usize::MAX),
            ..Limits::default()
        },
    })
}
