//! Tests of the status as text and as JSON.

use crate::status::{
    AdapterStatus, AdaptersStatus, ArrayStatus, ByKind, InterfaceFaultStatus, KindStatus,
    MemberDevices, MemberState, MemberStatus, MemoryStatus, ModelStatus, Named, NativeStatus,
    NativeVolumeStatus, Status, TransportStatus, VolumeStatus,
};

/// Test status in which every field of the JSON document differs from its default.
fn all_in_effect() -> ModelStatus {
    ModelStatus {
        dilation: Some(12.5),
        held_back_ns: 2_500_000_000,
        machine_ns: 1_500_000_000,
        events: 42,
        transport: Some(TransportStatus {
            round_trip_ns: 24_500,
            taking_ns: 21_000,
            waking_ns: 22_400,
        }),
        adapters: Some(adapters_in_effect()),
        volumes: vec![volume_in_effect()],
    }
}

fn array_in_effect() -> ArrayStatus {
    let member = |devices, state| MemberStatus { devices, state };
    ArrayStatus {
        members: vec![
            member(MemberDevices::One { device: 0 }, MemberState::Present),
            member(MemberDevices::One { device: 1 }, MemberState::Lost),
            member(MemberDevices::Several { devices: vec![2, 3] }, MemberState::Rebuilt),
            member(MemberDevices::One { device: 4 }, MemberState::Missing),
        ],
        missing: 3,
        rebuilt_share: Some(0.125),
        resyncs: 2,
        data_lost: true,
        rebuilt_members: 1,
        rebuilt_bytes: 2,
        resynced_units: 3,
        lost_units: 4,
    }
}

fn volume_in_effect() -> VolumeStatus {
    let kind = |number: u64| KindStatus {
        operations: number,
        bytes: number << 20,
        errors: 1,
        latency_mean_ns: Some(1500.5),
        latency_p50_ns: Some(1000),
        latency_p99_ns: Some(90_000),
        ..KindStatus::default()
    };
    let array = array_in_effect();
    VolumeStatus {
        device: "disk".to_owned(),
        capacity_bytes: 2 << 30,
        size_bytes: 1 << 30,
        full: true,
        slow_factor: 10.0,
        hung: true,
        lost: true,
        power_off: true,
        delay_ns: ByKind([0, 0, 5_000_000, 0, 0]),
        error_share: ByKind([0.01, 0.0, 0.0, 0.0, 0.0]),
        interface_faults: interface_faults(),
        operations: ByKind([kind(12_345), kind(7), kind(0), KindStatus::default(), kind(9)]),
        busy: Named(vec![("a link".to_owned(), 0.25), ("the flash".to_owned(), 0.5)]),
        buffered_bytes: Some(4096),
        buffer_bytes: Some(1 << 20),
        credits_share: Some(0.425),
        write_amplification: Some(2.5),
        worn: Some(0.001),
        late: 3,
        late_away: 2,
        lateness_p50_ns: Some(2000),
        lateness_p99_ns: Some(30_000),
        corruptions_found: 1,
        pages_recovered: Some(2),
        pages_lost: Some(1),
        backing_errors: 4,
        dropped_writes: 5,
        dropped_bytes: 6,
        torn_writes: 1,
        lost_units: 6,
        array: Some(array.clone()),
        branches: vec![array],
        erases: None,
        busy_ns: Named::default(),
    }
}

fn native(memory_bytes: u64) -> NativeVolumeStatus {
    let interface_faults = interface_faults();
    NativeVolumeStatus {
        capacity_bytes: 1 << 30,
        memory_bytes,
        interface_faults,
        backing_errors: 5,
    }
}

fn interface_faults() -> Vec<InterfaceFaultStatus> {
    let fault = "writes are lost".to_owned();
    vec![InterfaceFaultStatus { fault, seen: 2, applied: 1, is_over: true }]
}

fn adapters_in_effect() -> AdaptersStatus {
    let adapter = |lost, battery_failed, volumes: &[u32], optimized: &[u32]| AdapterStatus {
        lost,
        battery_failed,
        volumes: volumes.to_vec(),
        optimized: optimized.to_vec(),
    };
    AdaptersStatus {
        adapters: vec![
            adapter(false, true, &[0, 1], &[0, 1]),
            adapter(true, false, &[], &[2]),
            adapter(false, false, &[2], &[]),
            adapter(false, false, &[], &[]),
        ],
        aa_down: vec![false, true],
        has_cache: true,
        caching: true,
        mirrored: false,
        dirty_bytes: 8192,
        volumes_down: vec![3],
        cleared: vec![0, 2],
    }
}

/// Converting a status to JSON and back changes neither the status nor its text.
#[test]
fn a_document_reads_back_as_the_status_that_wrote_it() {
    for status in [
        Status::Model(all_in_effect()),
        Status::Native(NativeStatus { volumes: vec![native(4096), native(0)] }),
        Status::Memory(MemoryStatus {
            interface_faults: interface_faults(),
            size_bytes: 1 << 30,
            connections: 1,
            requests: Named(vec![("disconnect".to_owned(), 3), ("read".to_owned(), 12_345)]),
            read_bytes: 1 << 20,
            written_bytes: 0,
            errors: 2,
        }),
    ] {
        let document = status.to_json();
        assert_eq!(Status::from_json(document.clone()).as_ref(), Ok(&status), "{document}");
    }
    let said = Status::from_json(serde_json::json!({ "speed": "native" })).unwrap_err();
    assert!(said.contains("volumes"), "{said}");
}

/// The text contains each fault and each number exactly once.
#[test]
fn the_text_has_each_fault_and_each_figure() {
    let text = Status::Model(all_in_effect()).text();
    let array = "
  !             member 1 (device 1): lost
  !             member 2 (devices 2 and 3): rebuilt to 12.5 %
  !             member 3 (device 4): missing
  !             resync after a power cut: 2 ranges in progress
  !             some data is lost: it can't be read until it is rewritten";
    let expected = "machine  1.5 s of simulated time, which takes 12.5 times as long in real time
  !             this computer simulates too slowly: 2.5 s behind real time; use a larger --dilate
transport time subtracted: 24.5 µs per round trip (21.0 µs of it for the reply), and 22.4 µs more if a thread had to be woken
adapters
  cache         in one adapter; 8 KiB dirty
  adapter 0     serves volumes 0 and 1
  !             adapter 0: the battery of its cache has failed
  adapter 1     serves no volume; optimized on it: volume 2
  !             adapter 1: lost
  adapter 2     serves volume 2; optimized on it: no volume
  adapter 3     serves no volume
  !             link aa 1: down
  cleared       access state of volumes 0 and 2 (optimized on the primary)
  !             volume 3: no adapter can serve it
disk
  read            12.3 k  12.1 GiB  errors 1  mean 1.50 µs  p50 1.00 µs  p99 90.0 µs
  write                7     7 MiB  errors 1  mean 1.50 µs  p50 1.00 µs  p99 90.0 µs
  flush                0       0 B  errors 1  mean 1.50 µs  p50 1.00 µs  p99 90.0 µs
  write_zeroes         9     9 MiB  errors 1  mean 1.50 µs  p50 1.00 µs  p99 90.0 µs
  buffer        4 KiB of 1 MiB
  burst         42.5 % of the credits left
  flash         write amplification 2.50, worn 0.1000 %
  late          3 of 12365 completions by more than 10 µs, 2 of these while the thread was preempted; p50 2.00 µs, p99 30.0 µs{array}{array}
  !             resized to 1 GiB of 2 GiB
  !             slow: everything takes 10 times as long
  !             delayed: each flush ends 5.00 ms later
  !             failing: 1 % of read operations
  !             writes are lost: hit 1 of 2 requests; over
  !             the power is off: everything fails
  !             full: writes to unallocated space fail
  !             hung: nothing completes
  !             lost: everything fails
  !             1 corrupt unit found
  !             2 pages rebuilt from parity
  !             1 page lost
  !             4 failed writes to the backing
  !             5 acknowledged writes lost in power cuts
  !             1 write torn by power cuts
  !             6 stored units lost by arrays or adapters
";
    assert_eq!(text, expected.replace("{array}", array));
    let requests = [("read", 12_345), ("disconnect", 3)].map(|(kind, n)| (kind.to_owned(), n));
    let memory = Status::Memory(MemoryStatus {
        size_bytes: 1 << 30,
        connections: 1,
        requests: Named(requests.to_vec()),
        read_bytes: 1 << 20,
        written_bytes: 0,
        errors: 2,
        interface_faults: interface_faults(),
    });
    assert_eq!(
        memory.text(),
        "plain memory  1 GiB, 1 connection
  read            12.3 k     1 MiB
  disconnect           3          
  errors               2
  !             writes are lost: hit 1 of 2 requests; over
"
    );
}

/// If there are several volumes, each has its number, as fault commands use it.
#[test]
fn several_volumes_are_numbered() {
    let volume = all_in_effect().volumes[0].clone();
    let of_three = ["disk", "flash", "disk"]
        .map(|device| VolumeStatus { device: device.to_owned(), ..volume.clone() });
    let model = ModelStatus { volumes: of_three.to_vec(), ..all_in_effect() }.text();
    let native = NativeStatus { volumes: vec![native(4096), native(0)] }.text();
    assert!(native.contains("  !             5 failed writes to the backing\n"), "{native}");
    for (text, titles) in [
        (model, &["disk-1  volume 0", "flash  volume 1", "disk-2  volume 2"][..]),
        (native, &["native speed  volume 0", "native speed  volume 1"]),
    ] {
        let found =
            text.lines().filter(|line| line.contains("  volume ") && !line.starts_with(' '));
        assert_eq!(found.collect::<Vec<_>>(), titles);
    }
}
