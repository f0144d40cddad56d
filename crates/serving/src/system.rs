//! Resolves the system that is served.

use crate::error::ServeError;
use iodyno_emulate::System;
use iodyno_emulate::spec::{Attach, Kind, Part, Preconditioned, Written};
use iodyno_live::frontend::nbd::WORKERS;
use iodyno_run::Files;
use iodyno_targets::TargetName;

/// Block size with which devices are preconditioned if their name states none, bytes.
const BLOCK_BYTES: u32 = 4096;

/// Access pattern of clients, which decides the state of devices whose name does not specify one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Sequential, as by a message log.
    Sequential,
    /// The pattern is not known.
    Any,
}

/// Returns the system that a name stands for. Its host's own load generator costs no time and no core, because clients
/// are real programs, which take their own time.
///
/// # Errors
/// The name is not known, or does not stand for emulated storage.
pub fn system(name: &TargetName, access: Access) -> Result<System, ServeError> {
    let emulated = iodyno_run::emulated(std::slice::from_ref(name), &mut Files::default())?;
    let emulated =
        emulated.ok_or_else(|| ServeError::input(format!("`{name}` is not emulated")))?;
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
            && let Attach::Link { host_ns, host_bytes_per_s, .. } = &mut flash.attach
        {
            *host_ns = 0;
            *host_bytes_per_s = f64::INFINITY;
        }
    }
    Ok(system)
}

/// Enlarges the devices of single-device volumes to the volumes' sizes.
///
/// # Errors
/// A device can't be enlarged.
pub fn enlarge(system: &mut System, sizes_bytes: &[u64]) -> Result<(), String> {
    let System { volumes, parts, .. } = system;
    for (volume, &size) in volumes.iter().zip(sizes_bytes) {
        if let Part::Device(placed) = &mut parts[volume.root.index()] {
            placed.device.enlarge(size)?;
        }
    }
    Ok(())
}
