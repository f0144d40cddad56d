//! Reads the status of a served machine.

use super::{
    AdapterStatus, AdaptersStatus, ArrayStatus, ByKind, InterfaceFaultStatus, KindStatus,
    MemberDevices, MemberState, MemberStatus, ModelStatus, Named, TransportStatus, VolumeStatus,
};
use crate::counts::{Counts, SlowOp};
use crate::served::{Live, Sink};
use iodyno_emulate::{AdaptersState, ArrayState, Machine, PartId};
use iodyno_measure::exposition::{Exemplars, labels};
use std::time::{SystemTime, UNIX_EPOCH};

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
            held_back_ns: live.held_back_ns(),
            events: machine.events(),
            transport,
            adapters: machine.adapters().map(adapters),
            volumes: (0..machine.volumes()).map(volume).collect(),
        };
        (status, counts.to_vec())
    });
    // Outside the lock, because quantiles take long.
    let now_unix_ns =
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    // Unix time at which the clock of the server was 0.
    let unix_of_start_ns = now_unix_ns.saturating_sub(live.now_ns());
    let unix_ns = |machine_ns| unix_of_start_ns + live.real_ns(machine_ns);
    for ((number, volume), mut counts) in (0..).zip(&mut status.volumes).zip(counts) {
        volume.interface_faults = InterfaceFaultStatus::of_all(&live.interface_faults(number));
        volume.operations = ByKind(std::array::from_fn(|kind| of_kind(&mut counts, kind, unix_ns)));
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
        // The machine's time stands still without operations, but credits accrue.
        credits_share: machine.credits_share(number, live.machine_ns(live.now_ns())),
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
        lost_units: lost_units(machine, number).iter().sum(),
        array: machine.array_state(number).map(|state| array(machine, &state)),
        branches: below
            .filter_map(|part| machine.array_state_of(part))
            .map(|state| array(machine, &state))
            .collect(),
        erases: flash.map(|of| of.erases),
        busy_ns: Named(busy_ns.collect()),
    }
}

/// Number of 4 KiB units of stored data that a volume lost since the start: in its arrays, and with adapters' caches.
pub fn lost_units(machine: &Machine, volume: u32) -> [u64; 2] {
    let of_array = |part| machine.array_state_of(part).map_or(0, |of| of.counts.lost_units);
    let of_arrays = machine.system().parts_of(volume).map(of_array).sum();
    [of_arrays, machine.cache_lost_units(volume)]
}

/// Status of one kind of operation. Takes its latencies out of `counts`. `unix_ns` converts simulated to Unix time.
fn of_kind(counts: &mut Counts, kind: usize, unix_ns: impl Fn(u64) -> u64) -> KindStatus {
    let latency = counts.latency[kind].take_trimmed();
    let mut exemplars = Exemplars::default();
    for slow in counts.slow[kind].iter().filter(|slow| slow.latency_ns > 0) {
        exemplars.offer(slow.latency_ns, Some(unix_ns(slow.completed_ns)), || labels_of(slow));
    }
    KindStatus {
        operations: counts.operations[kind],
        bytes: counts.bytes[kind],
        errors: counts.errors[kind],
        latency_mean_ns: latency.mean_ns(),
        latency_p50_ns: latency.supported_quantile_ns(0.5),
        latency_p99_ns: latency.supported_quantile_ns(0.99),
        latency_p999_ns: latency.supported_quantile_ns(0.999),
        latency: (latency.count() > 0).then_some(latency),
        exemplars,
    }
}

/// Labels of a slow operation as an exemplar: offset, length, and the faults in effect.
fn labels_of(slow: &SlowOp) -> String {
    let [offset, length] = [slow.offset_bytes, slow.len_bytes.into()].map(|n| n.to_string());
    let faults = ["slow", "delay", "interface"].into_iter().zip(slow.faults);
    let faults: Vec<&str> =
        faults.filter_map(|(name, in_effect)| in_effect.then_some(name)).collect();
    let faults = faults.join(" ");
    let fault = (!faults.is_empty()).then_some(("fault", faults.as_str()));
    let place = [("offset_bytes", offset.as_str()), ("length_bytes", &length)];
    labels(&place.into_iter().chain(fault).collect::<Vec<_>>())
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
