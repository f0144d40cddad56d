//! `serve ram:4GiB`: plain memory over NBD, without a model: the upper limit of a client and its
//! transport.

use super::apply_fault::{STOPS, done};
use super::{READY, config, control, endpoints, insert, of_the_model, start, uri, wait};
use crate::args::Serve;
use crate::console::complain;
use crate::failure::Failure;
use crate::signals;
use iodyno_live::status::{MemoryStatus, Named, Status};
use iodyno_nbd::ram::Ram;
use iodyno_nbd::{Export, Exports, Kind, Server};
use iodyno_units::human;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

pub(super) fn serve(flags: &Serve, size_bytes: u64) -> Result<ExitCode, Failure> {
    nothing_more(flags)?;
    let size = human::size(size_bytes);
    let disk = Ram::new(size_bytes).map_err(|e| Failure::target(format!("{size}: {e}")))?;
    let export: Arc<dyn Export> =
        if flags.read_only { Arc::new(disk.read_only()) } else { Arc::new(disk) };
    let exports = Arc::new(Exports::default());
    insert(&exports, "ram", true, export);
    let stop = signals::stop_flag();
    let asked = Arc::clone(&stop);
    // The control socket exists before the server, and must not keep it alive.
    let served = Arc::new(OnceLock::<Weak<Server>>::new());
    let counts = Arc::clone(&served);
    let answer = move |line: &str| answer(line, &asked, || status(size_bytes, counts.get()));
    let control = control(flags, Arc::new(answer))?;
    let server = Arc::new(start(&exports, &endpoints(flags)?, config(flags)?)?);
    let _ = served.set(Arc::downgrade(&server));
    let mut text = format!("serving ram  {size}\n");
    for endpoint in server.endpoints() {
        let _ = writeln!(text, "at      {}", uri(endpoint, flags.tls.is_empty()));
    }
    complain(&(text + READY));
    wait(&stop, Vec::new);
    drop(control);
    // Dropping the last reference stops the server.
    drop(server);
    Ok(ExitCode::SUCCESS)
}

/// The number of requests that the server has received so far, as JSON.
fn status(size_bytes: u64, server: Option<&Weak<Server>>) -> Value {
    let server = server.and_then(Weak::upgrade);
    let seen = server.map(|server| server.counters()).unwrap_or_default();
    let requests = Kind::ALL.map(|kind| (kind.name().to_owned(), seen.requests[kind as usize]));
    Status::Memory(MemoryStatus {
        size_bytes,
        connections: seen.connections,
        requests: Named(requests.into_iter().filter(|(_, n)| *n > 0).collect()),
        read_bytes: seen.read_bytes,
        written_bytes: seen.written_bytes,
        errors: seen.errors + seen.refused,
    })
    .to_json()
}

fn answer(line: &str, stop: &AtomicBool, status: impl Fn() -> Value) -> Value {
    match line.trim() {
        "stop" => {
            stop.store(true, Ordering::Relaxed);
            done(STOPS)
        }
        "status" => status(),
        _ => json!({ "error": "plain memory has no faults: serve a device for them" }),
    }
}

/// Refuses all flags except those of NBD's frontends.
fn nothing_more(flags: &Serve) -> Result<(), Failure> {
    let of_a_device = ["backing", "memory", "speed", "size", "image"];
    let given = flags.given.first_of(&of_a_device).or_else(|| of_the_model(flags));
    match given {
        Some(flag) => Err(Failure::input(format!(
            "--{flag} is for emulated storage, such as ramdisk-ddr3-16g; {} is plain memory",
            flags.device
        ))),
        None => Ok(()),
    }
}
