//! For tests: a minimal emulated system (memory with I/Os of one microsecond), and a cell plan on it.

use crate::plan::CellPlan;
use iodyno_emulate::System;
use iodyno_emulate::spec::{
    Device, Host, Kind, Memory, MemoryKind, MemoryMode, Preconditioned, Slots, Written,
};
use iodyno_workload::{CellSpec, Spec};

pub(crate) fn system() -> System {
    let memory = Memory {
        capacity_bytes: 1 << 20,
        io_ns: 1000,
        read_bytes_per_s: 1e9,
        write_bytes_per_s: 1e9,
        read_passes: 1.0,
        write_passes: 1.0,
        flush_ns: 0,
        varying_share: 0.0,
        queues: false,
        protected: false,
    };
    let device = Device {
        name: "memory".to_owned(),
        kind: Kind::Memory(Box::new(memory)),
        hot_swap: true,
        limits: Vec::new(),
    };
    let state = Preconditioned { how: Written::Fresh, fill: 1.0 };
    let slots = Slots {
        flash_dimms_per_socket: 0,
        channels_per_socket: 1,
        rdimms_per_channel: 1,
        memory_kind: MemoryKind::Rdimm,
        memory_mode: MemoryMode::Independent,
    };
    let host = Host {
        sockets: 1,
        cores_per_socket: 1,
        generator_ns: 0,
        wake_ns: 0,
        memory_bytes_per_s: 1e9,
        memory_channel_bytes_per_s: 1e9,
        memory_balanced: true,
        unbalanced_share: 1.0,
        remote_copy_factor: 1.0,
        workers_near: true,
        driver_write_ns: 0,
        slots,
    };
    let mut system = System::new("system", host);
    system.add_device(device, state, 0);
    system
}

/// Creates a plan without targets.
pub(crate) fn plan(spec: &Spec, interval_ns: u64, errors_max: u64) -> CellPlan {
    let interval_ns = Some(interval_ns);
    let cell = CellSpec { interval_ns, errors_max, ..CellSpec::new("", spec.clone()) };
    CellPlan::new(cell, Vec::new())
}
