//! Serves emulated storage to other programs, over NBD and, if compiled in, FUSE and ublk.
//!
//! Each volume is an export; the first one is also the default export, without a name. At the speed `model`, each
//! request completes at the model's time. At the speed `native`, requests complete as fast as this machine can.
//! `ram:SIZE` is served from memory, without a model.
//!
//! | module | task |
//! |---|---|
//! | `request` | defines the options of a server |
//! | `model` | serves storage with the model's latencies |
//! | `native` | serves storage at the speed `native` |
//! | `plain` | serves `ram:SIZE` |
//! | `setup`, `volumes`, `frontends`, `interface` | implement parts that these servers share |
//! | `transport_calibration` | measures the transport latency, to be subtracted from the model's |
//! | `ready` | notifies other programs that the server is ready |
//! | `command` | runs the command of `serve DEVICE -- CMD` |
//! | `steady` | computes the time factor of `--steady`, and checks whether this machine keeps up |
//! | `scenario` | reads plans of timed faults |
//! | `apply_fault`, `fault_effect`, `adapters`, `array_losses` | execute fault commands, and describe their effects |

#![forbid(unsafe_code)]

mod adapters;
mod apply_fault;
mod array_losses;
mod command;
mod error;
mod fault_effect;
mod frontends;
mod interface;
mod model;
mod native;
mod numbered;
mod plain;
mod ready;
mod request;
mod scenario;
mod setup;
mod steady;
mod system;
mod transport_calibration;
mod volumes;

pub use error::ServeError;
use iodyno_targets::TargetName;
pub use request::{Console, ServeRequest, Speed};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
pub use system::{Access, enlarge, system};

/// Serves storage until the flag `stop` is set or the command in the request ends. Returns the command's exit status;
/// `None` without a command. A command that still runs when `stop` is set gets SIGTERM, and SIGKILL 5 s later.
///
/// # Errors
/// The request is invalid, or the storage, a frontend or an address is not available.
pub fn serve(
    request: &ServeRequest,
    console: Console,
    stop: &Arc<AtomicBool>,
) -> Result<Option<ExitStatus>, ServeError> {
    if let TargetName::Ram { size_bytes } = request.device {
        return plain::serve(request, size_bytes, console, stop);
    }
    let plan = request.scenario.as_deref().map(scenario::read).transpose()?.unwrap_or_default();
    let (setup, opened) = setup::Setup::open(request, console, stop, &plan)?;
    match request.speed {
        Speed::Native => native::serve(&setup, opened.stores),
        Speed::Model => model::serve(&setup, opened, plan),
    }
}
