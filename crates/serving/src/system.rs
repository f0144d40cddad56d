//! Finds the emulated system by its name, and adapts it for serving.

use crate::error::ServeError;
use iodyno_emulate::System;
use iodyno_emulate::spec::{Attach, Kind, Part, Preconditioned, Written};
use iodyno_live::frontend::nbd::WORKERS;
use iodyno_run::Files;
use iodyno_targets::TargetName;

/// Block size, bytes, of the writes that precondition a device whose name does not specify a block size.
const BLOCK_BYTES: u32 = 4096;

/// Access pattern of clients. It determines the initial state of devices whose name does not specify that state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Clients access the storage sequentially, as a message log does.
    Sequential,
    /// The access pattern is not known in advance, and may change at any time.
    Any,
}

/// Returns the emulated system with this name. Its simulated load generator takes no time and no processor
/// core, because real clients generate the load.
///
/// # Errors
/// The name is unknown, or is not the name of emulated storage.
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

/// Enlarges each volume's device to the size in `sizes_bytes` at the same index. Leaves volumes that are arrays
/// unchanged.
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
