//! `serve ram:4GiB`: plain memory over NBD, without a model: what a client and its transport can do at
//! most.

use super::{config, control, endpoints, insert, of_the_model, start, uri, wait};
use crate::args::Serve;
use crate::failure::Failure;
use crate::{complain, signals};
use iodyno_nbd::ram::Ram;
use iodyno_nbd::{Export, Exports};
use iodyno_units::human;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    let control = control(flags, Arc::new(move |line: &str| answer(line, &asked)))?;
    let server = start(&exports, &endpoints(flags)?, config(flags)?)?;
    let mut text = format!("serving ram  {size}\n");
    for endpoint in server.endpoints() {
        let _ = writeln!(text, "at      {}", uri(endpoint, flags.tls.is_empty()));
    }
    complain(&text);
    wait(&stop);
    drop(control);
    server.stop();
    Ok(ExitCode::SUCCESS)
}

fn answer(line: &str, stop: &AtomicBool) -> Value {
    match line.trim() {
        "stop" => stop.store(true, Ordering::Relaxed),
        "status" => return json!({ "speed": "plain memory" }),
        _ => return json!({ "error": "plain memory has no faults: serve a device for them" }),
    }
    json!({ "ok": true })
}

/// Only what is about the doors of NBD means something here.
fn nothing_more(flags: &Serve) -> Result<(), Failure> {
    let of_a_device =
        [("--backing", !flags.backing.is_empty()), ("--memory", flags.memory.is_some())];
    let given = of_a_device.iter().find(|g| g.1).map(|g| g.0).or_else(|| of_the_model(flags));
    match given {
        Some(flag) => Err(Failure::input(format!(
            "{flag} is for emulated storage, such as ramdisk-ddr3-16g; {} is plain memory",
            flags.device
        ))),
        None => Ok(()),
    }
}
