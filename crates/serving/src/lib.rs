//! Servers of emulated storage for other programs, over NBD and the frontends of the build.
//!
//! Each volume is an export; the first one is also the default export, without a name. There are two speeds: `model`
//! (each request completes at the model's time) and `native` (as fast as this machine can). Acknowledged writes at
//! `native` speed survive the server. `ram:4GiB` is plain memory.
//!
//! | module | content |
//! |---|---|
//! | `request` | the request |
//! | `model`, `native`, `plain` | the servers |
//! | `setup`, `volumes`, `frontends`, `interface`, `transport_calibration` | parts of the servers |
//! | `ready`, `command` | a ready server's notifications, and the command that it serves |
//! | `steady` | the time factor of `--steady`, and whether this machine keeps up |
//! | `apply_fault`, `fault_effect`, `adapters`, `scenario` | fault commands: answers, effects, and plans |

#![forbid(unsafe_code)]

mod adapters;
mod apply_fault;
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
