//! The server at the speed `model`: each request completes at the time that the model predicts.

use crate::command::Places;
use crate::error::ServeError;
use crate::frontends::Frontends;
use crate::request::ServeRequest;
use crate::scenario::{self, Plan};
use crate::setup::{Setup, begin, control, insert, places, start, wait};
use crate::volumes::Opened;
use crate::{apply_fault, steady, transport_calibration};
use iodyno_drive::clock::Clock;
use iodyno_emulate::Machine;
use iodyno_live::data_log::DataLog;
use iodyno_live::frontend::Served;
use iodyno_live::frontend::nbd::{Volume, WORKERS};
use iodyno_live::metrics;
use iodyno_live::poller::Poller;
use iodyno_live::record::Recorder;
use iodyno_live::served::{Live, Options};
use iodyno_live::store::Store;
use iodyno_live::transport::Transport;
use iodyno_nbd::Exports;
use iodyno_targets::output::remove_begun;
use iodyno_units::human;
use serde_json::json;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::ExitStatus;
use std::sync::Arc;

pub(crate) fn serve(
    setup: &Setup<'_>,
    opened: Opened,
    plan: Plan,
) -> Result<Option<ExitStatus>, ServeError> {
    let &Setup { request, console, stop, .. } = setup;
    let transport = if request.no_floor { None } else { transport_calibration::measure() };
    let (live, dilation) = machine(setup, opened, transport)?;
    let clean_up = |_: &ServeError| clean_up(request, &live);
    let exports = Arc::new(Exports::default());
    for (volume, name) in (0..).zip(&setup.names) {
        let export = Volume::new(Arc::clone(&live), volume, volume * WORKERS, request.read_only);
        // A log of writes is in sectors.
        let min_block_bytes = if request.record_data.is_some() { DataLog::BLOCK_BYTES } else { 1 };
        let export = export.with_min_block(min_block_bytes);
        insert(&exports, name, volume == 0, Arc::new(export));
    }
    let poller = Poller::start(&live)
        .map_err(|e| ServeError::target(format!("the poller's thread can't be created: {e}")))
        .inspect_err(clean_up)?;
    let answers = apply_fault::answers(&live, request.seed, stop);
    let control = control(request, answers).inspect_err(clean_up)?;
    let metrics = serve_metrics(request, &live).inspect_err(clean_up)?;
    let server = start(request, &exports).inspect_err(clean_up)?;
    let frontends =
        Frontends::open(request, &live, &setup.names, &setup.system).inspect_err(clean_up)?;
    setup.announce(&server, &frontends.words, &time_in_words(dilation, transport));
    if let Some(at) = metrics {
        (console.say)(&format!("metrics at http://{at}/metrics\n"));
    }
    let file =
        request.fuse.as_ref().zip(setup.names.first()).map(|(folder, name)| folder.join(name));
    let places = Places { file, block: frontends.block(), ..places(request, &server) };
    if request.steady_ns.is_some() {
        steady::raise_threads(console);
    }
    let command = begin(request, &places, console).inspect_err(clean_up)?;
    if !plan.is_empty() {
        scenario::play(plan, &live, request.seed, stop, console);
    }
    let ended = wait(command, stop, console, || {
        live.flush_record();
        live.troubles()
    });
    if let Some((time_ns, factor)) = request.steady_ns.zip(dilation) {
        steady::report(&live, factor, time_ns, console);
    }
    drop(control);
    drop(frontends);
    server.stop();
    drop(poller);
    live.end(|volume| volume * WORKERS).map_err(ServeError::target)?;
    ended
}

/// Starts the emulated machine with its stores, and begins a record if the request asks for one. Returns the machine
/// and the factor by which its times are multiplied.
fn machine(
    setup: &Setup<'_>,
    opened: Opened,
    transport: Option<Transport>,
) -> Result<(Arc<Served>, Option<f64>), ServeError> {
    let request = setup.request;
    let Opened { stores, folders } = opened;
    let machine =
        setup.system.check_served().and_then(|()| Machine::new(&setup.system, request.seed));
    let mut machine = machine.map_err(|why| {
        stores.iter().for_each(Store::abandon);
        for (_, folder) in &folders {
            folder.remove_made();
        }
        ServeError::input(why)
    })?;
    for volume in 0..machine.volumes() {
        for _ in 0..WORKERS {
            machine.add_worker(volume);
        }
    }
    let steady =
        request.steady_ns.map(|ns| steady::dilation(&machine, ns, |volume| volume * WORKERS));
    let dilation = request.dilate.or(steady);
    let options = Options { dilation, transport };
    let live = Arc::new(Live::new(machine, stores, &options, || Clock::new().now_ns()));
    let clean_up = |_: &ServeError| {
        live.abandon();
        // The machine does not have the folders yet.
        for (_, folder) in &folders {
            folder.remove_made();
        }
    };
    if let Some(path) = &request.record {
        let head = json!({
            "iodyno": env!("CARGO_PKG_VERSION"),
            "device": request.device.to_string(),
            "seed": request.seed,
            "workers": WORKERS,
            "sizes_bytes": setup.volumes.sizes_bytes,
        });
        let recorder = Recorder::create(path, &head).map_err(ServeError::input);
        live.record(recorder.inspect_err(clean_up)?);
    }
    if let Some(path) = &request.record_data {
        let log = match setup.names.len() {
            1 => DataLog::create(path),
            volumes => Err(format!(
                "--record-data logs one volume, and this system has {volumes}: serve a system with one"
            )),
        };
        let clean_up = |e: &ServeError| {
            clean_up(e);
            if let Some(path) = &request.record {
                remove_begun(path, b"iodyno record 3");
            }
        };
        live.log_data(log.map_err(ServeError::input).inspect_err(clean_up)?);
    }
    live.keep_arrays(folders);
    Ok((live, dilation))
}

/// Starts serving metrics over HTTP, if the request specifies an address for them.
fn serve_metrics(
    request: &ServeRequest,
    live: &Arc<Served>,
) -> Result<Option<SocketAddr>, ServeError> {
    let serve = |at| {
        metrics::serve(live, at).map_err(|e| ServeError::target(format!("--metrics {at}: {e}")))
    };
    request.metrics.map(serve).transpose()
}

/// Removes the record, the data log and other files of a server that failed to start, because the next server would
/// refuse to overwrite them.
fn clean_up(request: &ServeRequest, live: &Served) {
    live.abandon();
    if let Some(path) = &request.record {
        remove_begun(path, b"iodyno record 3");
    }
    if let Some(path) = &request.record_data {
        remove_begun(path, DataLog::FIRST);
    }
}

/// Describes how the latencies that clients measure relate to the model's latencies.
fn time_in_words(dilation: Option<f64>, transport: Option<Transport>) -> String {
    let mut words = "the model's times".to_owned();
    if let Some(k) = dilation {
        let _ = write!(words, " × {k}: divide measured times by {k}");
    }
    if let Some(transport) = transport {
        let [floor, waking] =
            [transport.round_trip_ns, transport.waking_ns].map(|ns| human::time_ns(ns as f64));
        let _ = write!(
            words,
            "; this machine's transport takes {floor} per round trip, and {waking} more if threads must be woken; both are subtracted from the model's latencies, and latencies shorter than these can't be reproduced"
        );
    }
    words
}
