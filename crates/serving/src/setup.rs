//! Parts that all servers share: they find the system and its volumes, create exports and sockets, and announce the
//! server.

use crate::command::{Places, Running, absolute};
use crate::error::ServeError;
use crate::ready;
use crate::request::{Console, ServeRequest, Speed};
use crate::scenario::{self, Plan};
use crate::system::{Access, system};
use crate::volumes::{Opened, Volumes};
use iodyno_emulate::System;
use iodyno_live::control::{Answer, Control};
use iodyno_live::export_names::export_names;
use iodyno_nbd::client::{Address, Uri};
use iodyno_nbd::server::ListenError;
use iodyno_nbd::{Endpoint, Export, Exports, Server};
use iodyno_units::human;
use iodyno_units::text::clean;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Line that a server without a command prints once clients can connect.
const READY: &str = "ready\n";
/// Interval between checks of the stop flag.
const CHECK: Duration = Duration::from_millis(20);
/// Number of checks of the stop flag after which warnings are collected and the record is flushed.
const CHECKS_PER_WARNING: u32 = 10;

/// Inputs of a server of emulated storage.
pub(crate) struct Setup<'a> {
    pub(crate) request: &'a ServeRequest,
    pub(crate) console: Console,
    /// Flag that stops the server when it is set.
    pub(crate) stop: &'a Arc<AtomicBool>,
    pub(crate) system: System,
    /// Name of each volume's export.
    pub(crate) names: Vec<String>,
    pub(crate) volumes: Volumes,
}

impl<'a> Setup<'a> {
    /// Creates the emulated system that the request names, and opens its volumes.
    pub(crate) fn open(
        request: &'a ServeRequest,
        console: Console,
        stop: &'a Arc<AtomicBool>,
        plan: &Plan,
    ) -> Result<(Self, Opened), ServeError> {
        let mut system = system(&request.device, Access::Any)?;
        single_devices_only(request, &system)?;
        let mut volumes = Volumes::open(request, console, &mut system)?;
        let path = request.scenario.as_deref().unwrap_or(Path::new(""));
        for (number, _, ask) in plan {
            let checked = volumes.numbered(&system).check(ask);
            checked.map_err(|why| scenario::wrong(path, *number, &why))?;
        }
        let opened = volumes.stores(request, &system)?;
        let names = export_names(system.volumes.iter().map(|volume| volume.name.as_str()));
        Ok((Self { request, console, stop, system, names, volumes }, opened))
    }

    /// Prints the volumes and the addresses at which clients reach them. Prints nothing if the request has a command,
    /// so that the command's output is not mixed with the server's.
    pub(crate) fn announce(&self, server: &Server, frontends: &str, time: &str) {
        if !self.request.command.is_empty() {
            return;
        }
        let mut text = String::new();
        let system = clean(&self.system.name);
        for (volume, (name, &size)) in self.names.iter().zip(&self.volumes.sizes_bytes).enumerate()
        {
            let size = human::size(size);
            // Fault commands use the number.
            let number =
                if self.names.len() > 1 { format!("volume {volume}, ") } else { String::new() };
            let _ = writeln!(text, "serving {name}  {number}{size} in {system}");
        }
        text += &self.volumes.words;
        text += &addresses(self.request, server);
        text += frontends;
        if let Some(path) = &self.request.control {
            let _ = writeln!(text, "control unix:{}", clean(&path.to_string_lossy()));
        }
        let _ = writeln!(text, "time    {time}");
        (self.console.say)(&text);
    }
}

/// Lists the addresses of an NBD server, one per line.
pub(crate) fn addresses(request: &ServeRequest, server: &Server) -> String {
    let mut text = String::new();
    for endpoint in server.endpoints() {
        let _ = writeln!(text, "at      {}", uri(endpoint, request.tls.is_none()));
    }
    text
}

/// Adds an NBD export. The first export is also available under the empty name, NBD's default export.
pub(crate) fn insert(exports: &Exports, name: &str, is_first: bool, export: Arc<dyn Export>) {
    if is_first {
        exports.insert("", Arc::clone(&export));
    }
    exports.insert(name, export);
}

/// Starts the NBD server at the addresses in the request.
pub(crate) fn start(request: &ServeRequest, exports: &Arc<Exports>) -> Result<Server, ServeError> {
    let (endpoints, config) = (&request.endpoints, request.config());
    Server::start(Arc::clone(exports), endpoints, config).map_err(|e| match e {
        ListenError::Open(address) => ServeError::target(format!(
            "--nbd {address} is open to other machines, and there is no TLS: use --tls, listen on 127.0.0.1, or add --insist-on-plain"
        )),
        e => ServeError::target(e.to_string()),
    })
}

/// Opens the control socket, if the request asks for one.
pub(crate) fn control(
    request: &ServeRequest,
    answer: Arc<Answer>,
) -> Result<Option<Control>, ServeError> {
    let Some(path) = &request.control else { return Ok(None) };
    let control = Control::listen(path, answer);
    control.map(Some).map_err(|e| ServeError::target(format!("--control {}: {e}", path.display())))
}

/// Returns an error if a volume is an array and the request has flags that apply only to a single device.
fn single_devices_only(request: &ServeRequest, system: &System) -> Result<(), ServeError> {
    let given = [
        ("--image", !request.image.is_empty()),
        ("--size", request.size.is_some()),
        ("--speed native", request.speed == Speed::Native),
    ];
    match given.iter().find(|g| g.1) {
        Some((flag, _)) if (0..system.volumes.len()).any(|v| !system.is_device(v as u32)) => {
            Err(ServeError::input(format!(
                "{flag} requires volumes of a single device, but {} has an array or adapters: leave {flag} out",
                request.device
            )))
        }
        _ => Ok(()),
    }
}

/// Builds the NBD URI of an endpoint, for clients.
fn uri(endpoint: &Endpoint, plain: bool) -> String {
    let address = match endpoint {
        Endpoint::Unix(path) => Address::Unix(path.clone()),
        Endpoint::Tcp(at) => Address::Tcp(at.ip().to_string(), at.port()),
    };
    let (tls_certificates, tls_hostname) = (None, None);
    Uri { address, tls: !plain, export: String::new(), tls_certificates, tls_hostname }.to_string()
}

/// Notifies other programs that the server is ready, and starts the command in the request, if there is one.
pub(crate) fn begin(
    request: &ServeRequest,
    places: &Places,
    console: Console,
) -> Result<Option<Running>, ServeError> {
    let file = request.ready.lock().map_or(None, |mut file| file.take());
    if let Err(e) = ready::notify(file) {
        (console.remark)("warning", &format!("--ready-fd or NOTIFY_SOCKET: {e}"));
    }
    if request.command.is_empty() {
        (console.say)(READY);
        return Ok(None);
    }
    Running::start(&request.command, places, request.control.as_ref()).map(Some)
}

/// Waits until the stop flag is set or the command has ended, and returns the command's exit status. Every 200 ms,
/// calls `troubles` and prints each new warning once.
pub(crate) fn wait(
    mut command: Option<Running>,
    stop: &AtomicBool,
    console: Console,
    troubles: impl Fn() -> Vec<String>,
) -> Result<Option<ExitStatus>, ServeError> {
    let lost = |e| ServeError::target(format!("the command's exit code is unknown: {e}"));
    let mut said: Vec<String> = Vec::new();
    let mut checks = 0_u32;
    while !stop.load(Ordering::Relaxed) {
        match &mut command {
            None => std::thread::sleep(CHECK),
            Some(command) => {
                if let Some(status) = command.wait(CHECK).map_err(lost)? {
                    return Ok(Some(status));
                }
            }
        }
        checks = checks.wrapping_add(1);
        if checks.is_multiple_of(CHECKS_PER_WARNING) {
            for trouble in troubles() {
                if !said.contains(&trouble) {
                    (console.remark)("warning", &trouble);
                    said.push(trouble);
                }
            }
        }
    }
    command.map(|command| command.stop().map_err(lost)).transpose()
}

/// Places at which a command finds the storage of an NBD server.
pub(crate) fn places(request: &ServeRequest, server: &Server) -> Places {
    let nbd = server.endpoints().first().map(|endpoint| {
        let endpoint = match endpoint {
            Endpoint::Unix(path) => Endpoint::Unix(absolute(path)),
            Endpoint::Tcp(at) => Endpoint::Tcp(*at),
        };
        uri(&endpoint, request.tls.is_none())
    });
    Places { nbd, ..Places::default() }
}
