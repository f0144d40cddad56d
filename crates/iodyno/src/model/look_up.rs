//! What a name of the catalog, or the path of a file, stands for: a device or a system.

use crate::failure::Failure;
use iodyno_catalog::{Kind as File, find};
use iodyno_emulate::System;
use iodyno_emulate::spec::{Device, Host, Kind, Memory, MemoryKind, MemoryMode, Slots};

/// What a name turned out to be.
pub(super) enum Found {
    /// A device, and the system that it is in unless another is named.
    Device(Device, String),
    /// A system, with the volumes that its file lists.
    System(System),
}

/// A device or a system.
pub(super) fn look_up(what: &str) -> Result<Found, Failure> {
    match what {
        "exflash-400g" => Ok(Found::Device(exflash_400g(), "x3850-x6".to_owned())),
        "x3850-x6" => Ok(Found::System(x3850_x6())),
        _ => {
            find(File::Device, what)?;
            Err(Failure::input(format!("`{what}` is not a device")))
        }
    }
}

/// The host of a system.
pub(super) fn host_named(name: &str) -> Result<Host, Failure> {
    if name == "x3850-x6" {
        return Ok(x3850_x6().host);
    }
    find(File::System, name)?;
    Err(Failure::input(format!("`{name}` is not a system")))
}

fn exflash_400g() -> Device {
    let memory = Memory {
        capacity_bytes: 400_000_000_000,
        io_ns: 1000,
        read_bytes_per_s: 10e9,
        write_bytes_per_s: 10e9,
        read_passes: 2.0,
        write_passes: 2.0,
        flush_ns: 0,
        protected: true,
    };
    Device { name: "exflash-400g".to_owned(), kind: Kind::Memory(Box::new(memory)) }
}

fn x3850_x6() -> System {
    let host = Host {
        sockets: 4,
        cores_per_socket: 15,
        generator_ns: 1000,
        memory_bytes_per_s: 60e9,
        memory_channel_bytes_per_s: 10e9,
        memory_balanced: true,
        unbalanced_share: 1.0,
        remote_copy_factor: 1.2,
        workers_near: true,
        slots: Slots {
            flash_dimms_per_socket: 8,
            channels_per_socket: 8,
            rdimms_per_channel: 1,
            memory_kind: MemoryKind::Rdimm,
            memory_mode: MemoryMode::Independent,
        },
    };
    System { name: "x3850-x6".to_owned(), host, volumes: Vec::new() }
}
