//! Reads the status of a served machine.

use super::{
    AdapterStatus, AdaptersStatus, ArrayStatus, ByKind, InterfaceFaultStatus, KindStatus,
    MemberDevices, MemberState, MemberStatus, ModelStatus, Named, TransportStatus, VolumeStatus,
};
use crate::counts::Counts;
use crate::served::{Live, Sink};
use iodyno_emulate::{AdaptersState, ArrayState, Machine, PartId};

/// Takes a consistent snapshot of a machine's status.
pub fn observe<S: Sink>(live: &Live<S>) -> ModelStatus {
    let transport = live.transport().map(|of| TransportStatus {
        round_trip_ns: of.round_trip_ns,
        taking_ns: of.taking_ns,
        waking_ns: of.waking_ns,
    });
    let (mut status, counts) = live.look(|machine, _, counts| {
        let volume = |number| volume(live, machine, number, &counts[number as usize]);
        let status = ModelStatus {
            machine_ns: machine.now_ns(),
            dilation: live.dilation(),
            events: machine.events(),
            transport,
            adapters: machine.adapters().map(adapters),
            volumes: (0..machine.volumes()).map(volume).collect(),
        };
        (status, counts.to_vec())
    });
    // Outside the lock, because quantiles take long.
    for ((number, volume), counts) in (0..).zip(&mut status.volumes).zip(&counts) {
        volume.interface_faults = InterfaceFaultStatus::of_all(&live.interface_faults(number));
        volume.operations = ByKind(std::array::from_fn(|kind| of_kind(counts, kind)));
        volume.lateness_p50_ns = counts.lateness.supported_quantile_ns(0.5);
        volume.lateness_p99_ns = counts.lateness.supported_quantile_ns(0.99);
    }
    status
}

/// Status of a volume, without the counters and latencies of operations, which the caller adds.
fn volume<S: Sink>(
    live: &Live<S>,
    machine: &Machine,
    number: u32,
    counts: &Counts,
) -> VolumeStatus {
    let system = machine.system();
    let faults = machine.fault_state(number);
    let resources = machine.resources(number);
    let buffer = machine.buffered_bytes(number);
    let flash = machine.flash_counts(number);
    let root = system.array_of(number).map(|(part, _)| part);
    let below = system.parts_of(number).filter(|part| Some(*part) != root);
    let busy = resources.iter().map(|of| (of.name.to_owned(), of.share(machine.now_ns())));
    let busy_ns = resources.iter().map(|of| (of.name.to_owned(), of.busy_ns));
    VolumeStatus {
        device: system.volumes[number as usize].name.clone(),
        capacity_bytes: live.capacity_bytes(number),
        size_bytes: live.size_bytes(number),
        full: live.is_full(number),
        slow_factor: faults.slow_factor,
        hung: faults.hung,
        lost: faults.lost,
        power_off: faults.off,
        interface_faults: Vec::new(),
        delay_ns: ByKind(faults.delay_ns),
        error_share: ByKind(faults.error_share),
        operations: ByKind::default(),
        busy: Named(busy.collect()),
        buffered_bytes: buffer.map(|of| of.0),
        buffer_bytes: buffer.map(|of| of.1),
        write_amplification: flash.map(|of| of.write_amplification()),
        worn: machine.worn(number),
        late: counts.late,
        late_away: counts.late_away,
        lateness_p50_ns: None,
        lateness_p99_ns: None,
        corruptions_found: counts.corruptions_found,
        pages_recovered: flash.map(|of| of.recovered),
        pages_lost: flash.map(|of| of.unrecovered),
        backing_errors: counts.backing_errors,
        dropped_writes: counts.dropped.writes,
        dropped_bytes: counts.dropped.bytes,
        torn_writes: counts.dropped.torn,
        array: machine.array_state(number).map(|state| array(machine, &state)),
        branches: below
            .filter_map(|part| machine.array_state_of(part))
            .map(|state| array(machine, &state))
            .collect(),
        erases: flash.map(|of| of.erases),
        busy_ns: Named(busy_ns.collect()),
    }
}

fn of_kind(counts: &Counts, kind: usize) -> KindStatus {
    let latency = &counts.latency[kind];
    KindStatus {
        operations: counts.operations[kind],
        bytes: counts.bytes[kind],
        errors: counts.errors[kind],
        latency_mean_ns: latency.mean_ns(),
        latency_p50_ns: latency.supported_quantile_ns(0.5),
        latency_p99_ns: latency.supported_quantile_ns(0.99),
        latency_p999_ns: latency.supported_quantile_ns(0.999),
    }
}

fn array(machine: &Machine, state: &ArrayState) -> ArrayStatus {
    let is_lost = |part: PartId| machine.device_fault_state(part).lost;
    let member = |(number, part): (usize, &PartId)| {
        let devices = machine.system().devices_below(*part).map(|part| part.0).collect::<Vec<_>>();
        MemberStatus {
            devices: match devices.as_slice() {
                [device] => MemberDevices::One { device: *device },
                _ => MemberDevices::Several { devices },
            },
            state: if state.rebuilt.is_some_and(|(member, _)| member == number) {
                MemberState::Rebuilt
            } else if is_lost(*part) {
                MemberState::Lost
            } else if state.missing.contains(number) {
                MemberState::Missing
            } else {
                MemberState::Present
            },
        }
    };
    ArrayStatus {
        members: state.members.iter().enumerate().map(member).collect(),
        missing: state.missing.len(),
        rebuilt_share: state.rebuilt.map(|rebuilt| rebuilt.1),
        resyncs: state.resyncs,
        data_lost: state.lost,
        rebuilt_members: state.counts.rebuilt_members,
        rebuilt_bytes: state.counts.rebuilt_bytes,
        resynced_units: state.counts.resynced_units,
        lost_units: state.counts.lost_units,
    }
}

fn adapters(state: AdaptersState) -> AdaptersStatus {
    let adapters = state.adapters.into_iter().map(|of| AdapterStatus {
        lost: of.lost,
        battery_failed: of.battery_failed,
        volumes: of.volumes,
        optimized: of.optimized,
    });
    AdaptersStatus {
        adapters: adapters.collect(),
        aa_down: state.links_down,
        has_cache: state.has_cache,
        caching: state.is_caching,
        mirrored: state.is_mirrored,
        dirty_bytes: state.dirty_bytes,
        volumes_down: state.volumes_down,
        cleared: state.cleared,
    }
}
