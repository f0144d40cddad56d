//! `iodyno serve`: emulated storage for other programs, over NBD and the frontends of the build.
//!
//! The device is named as in `run --on model:…`. Its volumes are exports; the first one is also the export without a
//! name. There are two speeds: `model` (each completion at the model's time) and `native` (as fast as this machine
//! can; acknowledged writes survive the server). `ram:4GiB` is plain memory.

mod adapters;
mod apply_fault;
mod fault_effect;
mod frontends;
mod native;
mod plain;
mod scenario;
mod transport_calibration;
mod volumes;

use crate::args::{Serve, Speed};
use crate::console::{complain, remark, shown};
use crate::failure::Failure;
use crate::{scrape, secrets, signals};
use frontends::Frontends;
use iodyno_drive::clock::Clock;
use iodyno_emulate::spec::{self, Kind, Preconditioned, Written};
use iodyno_emulate::{Machine, System};
use iodyno_live::control::{Control, SAY_TIMEOUT_S};
use iodyno_live::frontend::Served;
use iodyno_live::frontend::nbd::{Volume, WORKERS};
use iodyno_live::metrics;
use iodyno_live::poller::Poller;
use iodyno_live::record::Recorder;
use iodyno_live::served::{Live, Options};
use iodyno_live::store::Store;
use iodyno_nbd::client::{Address, Uri};
use iodyno_nbd::server::ListenError;
use iodyno_nbd::tls::ServerTls;
use iodyno_nbd::{Endpoint, Export, Exports, Server, ServerConfig};
use iodyno_run::Files;
use iodyno_targets::TargetName;
use iodyno_targets::output::remove_begun;
use iodyno_units::human;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use volumes::Volumes;
pub(crate) use volumes::enlarge;

/// Default block size of the preconditioning, bytes.
const BLOCK_BYTES: u32 = 4096;
/// Line that a server prints once clients can connect.
const READY: &str = "ready\n";
/// The server checks its stop flag every 20 ms. Number of these checks between looks for warnings and flushes of the
/// record.
const CHECKS_PER_WARNING: u32 = 10;
/// Default path of the NBD socket.
const SOCKET: &str = "iodyno.sock";

/// Executes `iodyno serve`.
pub(crate) fn command(flags: &Serve) -> Result<ExitCode, Failure> {
    if let TargetName::Ram { size_bytes } = flags.device {
        return plain::serve(flags, size_bytes);
    }
    native_only(flags)?;
    let mut system = system(&flags.device, Access::Any)?;
    single_devices_only(flags, &system)?;
    let endpoints = endpoints(flags)?;
    let config = config(flags)?;
    let metrics_at = scrape::address(flags.metrics, flags.insist_on_plain)?;
    let plan = flags.scenario.as_deref().map(scenario::read).transpose()?.unwrap_or_default();
    let mut volumes = Volumes::open(flags, &mut system)?;
    for (number, _, ask) in &plan {
        let checked = volumes.numbered(&system).check(ask);
        checked.map_err(|why| scenario::wrong(flags, *number, &why))?;
    }
    let (mut stores, folders) = volumes.stores(flags, &system)?;
    let stop = signals::stop_flag();
    let names = names(&system);

    if flags.speed == Some(Speed::Native) {
        let exports = Arc::new(Exports::default());
        let stores: Vec<Arc<Store>> = stores.drain(..).map(Arc::new).collect();
        for ((store, name), volume) in stores.iter().zip(&names).zip(0..) {
            let export = native::export(store, (&system, volume), flags.read_only);
            insert(&exports, name, name == &names[0], export);
        }
        let remove_files = |_: &Failure| stores.iter().for_each(|s| s.remove_made());
        let control =
            control(flags, Arc::new(native::answer(&stores, &stop))).inspect_err(remove_files)?;
        let server = start(&exports, &endpoints, config).inspect_err(remove_files)?;
        announce(
            flags,
            &system,
            (&names, &volumes),
            &server,
            "",
            "native speed: as fast as this machine can",
        );
        complain(READY);
        wait(&stop, Vec::new);
        drop(control);
        server.stop();
        for store in &stores {
            store.end().map_err(|e| Failure::target(e.to_string()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }

    let mut machine = Machine::new(&system, flags.seed).map_err(|why| {
        stores.iter().for_each(Store::abandon);
        for (_, folder) in &folders {
            folder.remove_made();
        }
        Failure::input(why)
    })?;
    let transport = if flags.no_floor { None } else { transport_calibration::measure() };
    let options = Options { dilation: flags.dilate, transport };
    for volume in 0..machine.volumes() {
        for _ in 0..WORKERS {
            machine.add_worker(volume);
        }
    }
    let live = Arc::new(Live::new(machine, stores, &options, || Clock::new().now_ns()));
    if let Some(path) = &flags.record {
        let head = json!({
            "iodyno": env!("CARGO_PKG_VERSION"),
            "device": flags.device.to_string(),
            "seed": flags.seed,
            "workers": WORKERS,
            "sizes_bytes": volumes.sizes_bytes,
        });
        let recorder = Recorder::create(path, &head).map_err(Failure::input);
        live.record(recorder.inspect_err(|_| live.abandon())?);
    }
    live.keep_arrays(folders);
    let exports = Arc::new(Exports::default());
    for (volume, name) in (0..).zip(&names) {
        let export = Volume::new(Arc::clone(&live), volume, volume * WORKERS, flags.read_only);
        insert(&exports, name, volume == 0, Arc::new(export));
    }
    let fail = |what: &str, e: std::io::Error| Failure::target(format!("{what}: {e}"));
    let poller = Poller::start(&live).map_err(|e| fail("the poller's thread", e))?;
    let control = control(flags, apply_fault::answers(&live, flags.seed, &stop))
        .inspect_err(|_| clean_up(flags, &live))?;
    let scrape = match metrics_at {
        Some(address) => {
            let at = metrics::serve(&live, address).inspect_err(|_| clean_up(flags, &live));
            Some(at.map_err(|e| scrape::failed(address, &e))?)
        }
        None => None,
    };
    let server = start(&exports, &endpoints, config).inspect_err(|_| clean_up(flags, &live))?;
    let frontends =
        Frontends::open(flags, &live, &names, &system).inspect_err(|_| clean_up(flags, &live))?;
    let mut words = "the model's times".to_owned();
    if let Some(k) = flags.dilate {
        let _ = write!(words, " × {k}: divide what clients measure by it");
    }
    if let Some(transport) = transport {
        let [floor, waking] =
            [transport.round_trip_ns, transport.waking_ns].map(|ns| human::time_ns(ns as f64));
        let _ = write!(
            words,
            "; this machine's transport takes {floor} a round trip, and {waking} more where threads had to be woken, which is subtracted: latencies below it can't be reproduced"
        );
    }
    announce(flags, &system, (&names, &volumes), &server, &frontends.words, &words);
    if let Some(at) = scrape {
        complain(&format!("metrics at http://{at}/metrics\n"));
    }
    complain(READY);
    if !plan.is_empty() {
        scenario::play(plan, &live, flags.seed, &stop);
    }
    wait(&stop, || {
        live.flush_record();
        live.troubles()
    });
    drop(control);
    drop(frontends);
    server.stop();
    drop(poller);
    live.end(|volume| volume * WORKERS).map_err(Failure::target)?;
    Ok(ExitCode::SUCCESS)
}

/// Access pattern of clients, which decides the state of devices whose name does not specify one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Sequential: a log.
    Sequential,
    /// Unknown.
    Any,
}

/// The system that a name stands for. The emulated host's own generator has no cost and no core here: clients are
/// real programs, which take their own time.
pub(crate) fn system(name: &TargetName, access: Access) -> Result<System, Failure> {
    let emulated = iodyno_run::emulated(std::slice::from_ref(name), &mut Files::default())?;
    let emulated = emulated.ok_or_else(|| Failure::input(format!("`{name}` is not emulated")))?;
    let mut system = emulated.system;
    system.host.generator_ns = 0;
    system.host.wake_ns = 0;
    // Every possible connection has a worker, which must not compete with the driver's threads.
    system.host.cores_per_socket += WORKERS * system.volumes.len() as u32;
    for (volume, asked) in system.volumes.iter_mut().zip(&emulated.volumes) {
        let how = Written::of(asked.state, access == Access::Sequential, BLOCK_BYTES);
        volume.state = Preconditioned { how, fill: asked.fill };
    }
    for placed in system.devices_mut() {
        if let Kind::Flash(flash) = &mut placed.device.kind
            && let iodyno_emulate::spec::Attach::Link { host_ns, host_bytes_per_s, .. } =
                &mut flash.attach
        {
            *host_ns = 0;
            *host_bytes_per_s = f64::INFINITY;
        }
    }
    Ok(system)
}

/// Removes the files of a server that could not start, and its record, which would make the next server refuse to
/// start.
fn clean_up(flags: &Serve, live: &Served) {
    live.abandon();
    if let Some(path) = &flags.record {
        remove_begun(path, b"iodyno record 2");
    }
}

/// The names of the exports: the device's name, numbered if several are equal.
fn names(system: &System) -> Vec<String> {
    let alike = |n: &String| system.volumes.iter().filter(|v| v.name == *n).count();
    let mut numbers = std::collections::BTreeMap::new();
    let number = |v: &spec::Volume| {
        let name = v.name.clone();
        if alike(&name) == 1 {
            return name;
        }
        let number = numbers.entry(name.clone()).or_insert(0);
        *number += 1;
        format!("{name}-{number}")
    };
    system.volumes.iter().map(number).collect()
}

fn insert(exports: &Exports, name: &str, is_first: bool, export: Arc<dyn Export>) {
    if is_first {
        exports.insert("", Arc::clone(&export));
    }
    exports.insert(name, export);
}

/// Addresses of NBD, each `unix:PATH` or `HOST:PORT`.
fn endpoints(flags: &Serve) -> Result<Vec<Endpoint>, Failure> {
    let read = |text: &String| match text.strip_prefix("unix:") {
        Some("") => Err(Failure::input("--nbd unix: needs the path of a socket behind it")),
        Some(path) => Ok(Endpoint::Unix(PathBuf::from(path))),
        None => text.parse().map(Endpoint::Tcp).map_err(|_| {
            let why =
                "write unix:/run/flash.sock, or an address with a port, such as 127.0.0.1:10809";
            Failure::input(format!("--nbd {text}: {why}"))
        }),
    };
    if flags.nbd.is_empty() && flags.fuse.is_none() && !flags.ublk {
        return Ok(vec![Endpoint::Unix(PathBuf::from(SOCKET))]);
    }
    flags.nbd.iter().map(read).collect()
}

fn config(flags: &Serve) -> Result<ServerConfig, Failure> {
    let tls = match flags.tls.as_slice() {
        [] => None,
        [chain, key] => Some(server_tls(chain, key, None)),
        [chain, key, authority] => Some(server_tls(chain, key, Some(authority))),
        _ => {
            return Err(Failure::input(
                "--tls takes the server's chain and key, and the authority that signs clients: cert.pem,key.pem,ca.pem",
            ));
        }
    };
    let tls = tls.transpose()?;
    Ok(ServerConfig { tls, insist_on_plain: flags.insist_on_plain, ..ServerConfig::default() })
}

/// Loads a server's certificates; warns about a key that others can read.
pub(crate) fn server_tls(
    chain: &Path,
    key: &Path,
    authority: Option<&Path>,
) -> Result<ServerTls, Failure> {
    secrets::warn_if_shared("--tls", key);
    ServerTls::new(chain, key, authority).map_err(|e| Failure::input(format!("--tls {e}")))
}

fn start(
    exports: &Arc<Exports>,
    endpoints: &[Endpoint],
    config: ServerConfig,
) -> Result<Server, Failure> {
    Server::start(Arc::clone(exports), endpoints, config).map_err(|e| match e {
        ListenError::Open(address) => Failure::target(format!(
            "--nbd {address} is open to other machines, and there is no TLS: give certificates with --tls, listen on 127.0.0.1, or add --insist-on-plain"
        )),
        e => Failure::target(e.to_string()),
    })
}

fn control(
    flags: &Serve,
    answer: Arc<iodyno_live::control::Answer>,
) -> Result<Option<Control>, Failure> {
    let Some(path) = &flags.control else { return Ok(None) };
    let listen = Control::listen(path, answer);
    let listen =
        listen.map_err(|e| Failure::target(format!("--control {}: {e}", path.display())))?;
    Ok(Some(listen))
}

/// Refuses flags that require a machine, which native speed does not have.
fn native_only(flags: &Serve) -> Result<(), Failure> {
    if flags.speed != Some(Speed::Native) {
        return Ok(());
    }
    match of_the_model(flags) {
        Some(flag) => Err(Failure::input(format!(
            "--{flag} concerns the model's times, and --speed native has none: leave one of them out"
        ))),
        None => Ok(()),
    }
}

/// Refuses, for arrays, flags for the content or the size of a single device.
fn single_devices_only(flags: &Serve, system: &System) -> Result<(), Failure> {
    let given = [
        ("--image", !flags.image.is_empty()),
        ("--size", flags.size.is_some()),
        ("--speed native", flags.speed == Some(Speed::Native)),
    ];
    match given.iter().find(|g| g.1) {
        Some((flag, _)) if (0..system.volumes.len()).any(|v| !system.is_device(v as u32)) => {
            Err(Failure::input(format!(
                "{flag} is for volumes of a single device, and {} has an array, or adapters: leave it out",
                flags.device
            )))
        }
        _ => Ok(()),
    }
}

/// The first given flag that has an effect only with a model.
fn of_the_model(flags: &Serve) -> Option<&'static str> {
    let of_the_model = ["dilate", "record", "scenario", "metrics", "fuse", "ublk"];
    flags.given.first_of(&of_the_model)
}

fn announce(
    flags: &Serve,
    system: &System,
    (names, volumes): (&[String], &Volumes),
    server: &Server,
    frontends: &str,
    words: &str,
) {
    let mut text = String::new();
    for (name, &size) in names.iter().zip(&volumes.sizes_bytes) {
        let _ = writeln!(
            text,
            "serving {name}  {} in {}",
            human::size(size),
            iodyno_units::text::clean(&system.name)
        );
    }
    text += &volumes.words;
    for endpoint in server.endpoints() {
        let _ = writeln!(text, "at      {}", uri(endpoint, flags.tls.is_empty()));
    }
    text += frontends;
    if let Some(path) = &flags.control {
        let _ = writeln!(text, "control unix:{}", shown(path));
    }
    let _ = writeln!(text, "time    {words}");
    complain(&text);
}

/// The URI for clients of an endpoint.
fn uri(endpoint: &Endpoint, plain: bool) -> String {
    let address = match endpoint {
        Endpoint::Unix(path) => Address::Unix(path.clone()),
        Endpoint::Tcp(at) => Address::Tcp(at.ip().to_string(), at.port()),
    };
    let (tls_certificates, tls_hostname) = (None, None);
    Uri { address, tls: !plain, export: String::new(), tls_certificates, tls_hostname }.to_string()
}

/// Waits for the stop flag. Prints the warnings of `troubles`, which is called every 200 ms.
fn wait(stop: &AtomicBool, troubles: impl Fn() -> Vec<String>) {
    let mut said: Vec<String> = Vec::new();
    let mut checks = 0_u32;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
        checks = checks.wrapping_add(1);
        if checks.is_multiple_of(CHECKS_PER_WARNING) {
            for trouble in troubles() {
                if !said.contains(&trouble) {
                    remark("warning", &trouble);
                    said.push(trouble);
                }
            }
        }
    }
}

/// The path of a control socket as given by a user: `unix:PATH` or `PATH`.
pub(crate) fn socket(text: &str) -> &Path {
    Path::new(text.strip_prefix("unix:").unwrap_or(text))
}

/// Timeout for a server to end, s.
const STOP_TIMEOUT_S: u64 = 60;

/// Tells a server to end, and waits for it.
pub(crate) fn stop(path: &Path) -> Result<Value, Failure> {
    let (mut said, has_ended) =
        iodyno_live::control::stop(path, Duration::from_secs(STOP_TIMEOUT_S))
            .map_err(|e| no_answer(path, "stop", &e))?;
    if let Some(error) = said["error"].as_str() {
        return Err(Failure::input(error));
    }
    if !has_ended {
        return Err(Failure::target(format!(
            "{}: the server has not ended for {STOP_TIMEOUT_S} s: it may have much to write yet; `lsof` of its files shows \
             the process",
            path.display()
        )));
    }
    said["text"] = "the server has flushed, and ended".into();
    Ok(said)
}

/// Sends a line to a control socket, and returns the answer.
pub(crate) fn say(path: &Path, line: &str) -> Result<Value, Failure> {
    let said = iodyno_live::control::say(path, line).map_err(|e| no_answer(path, line, &e))?;
    match said["error"].as_str() {
        Some(error) => Err(Failure::input(error)),
        None => Ok(said),
    }
}

fn no_answer(path: &Path, line: &str, e: &std::io::Error) -> Failure {
    let at = path.display();
    Failure::target(match e.kind() {
        ErrorKind::TimedOut => format!(
            "{at}: the server has not answered for {SAY_TIMEOUT_S} s: it is there, and busy; it may carry out `{line}` \
                 yet, which `iodyno status` shows"
        ),
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            format!("{at}: the server ended before it answered `{line}`")
        }
        _ => format!("{at}: {e}: is a server there, started with --control unix:{at}?"),
    })
}
