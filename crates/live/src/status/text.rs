//! Formats a server's status as text for people; `iodyno status` prints it.

use super::{
    AdaptersStatus, ArrayStatus, InterfaceFaultStatus, MemberDevices, MemberState, MemoryStatus,
    ModelStatus, NativeStatus, Status, VolumeStatus,
};
use crate::served::HELD_BACK_SHARE;
use iodyno_units::human;
use iodyno_units::text::numbered;
use std::fmt::Write as _;

impl Status {
    /// Formats the status as text for a terminal.
    pub fn text(&self) -> String {
        match self {
            Self::Model(status) => status.text(),
            Self::Native(status) => status.text(),
            Self::Memory(status) => status.text(),
        }
    }
}

/// Writes a line, marked with `!`, about a fault or another abnormal state.
fn alarm(text: &mut String, words: &str) {
    let _ = writeln!(text, "  !             {words}");
}

/// Writes one line per fault at a volume's interface, marked as an abnormal state.
fn alarms_of_interface(text: &mut String, faults: &[InterfaceFaultStatus]) {
    for InterfaceFaultStatus { fault, seen, applied, is_over } in faults {
        let over = if *is_over { "; over" } else { "" };
        let seen = human::counted(*seen, "request");
        alarm(text, &format!("{fault}: hit {applied} of {seen}{over}"));
    }
}

impl ModelStatus {
    fn text(&self) -> String {
        let mut text =
            format!("machine  {} of simulated time", human::duration_ns(self.machine_ns));
        if let Some(factor) = self.dilation {
            let _ = write!(text, ", which takes {factor} times as long in real time");
        }
        text += "\n";
        // Single interruptions are no alarm.
        let passed_ns = self.machine_ns as f64 * self.dilation.unwrap_or(1.0);
        if self.held_back_ns as f64 > HELD_BACK_SHARE * (passed_ns + self.held_back_ns as f64) {
            let lag = human::duration_ns(self.held_back_ns);
            alarm(
                &mut text,
                &format!(
                    "this computer simulates too slowly: {lag} behind real time; use a larger --dilate"
                ),
            );
        }
        if let Some(transport) = &self.transport {
            let time = |ns: u64| human::time_ns(ns as f64);
            let _ = writeln!(
                text,
                "transport time subtracted: {} per round trip ({} of it for the reply), and {} more if a thread had to be woken",
                time(transport.round_trip_ns),
                time(transport.taking_ns),
                time(transport.waking_ns),
            );
        }
        text += &self.adapters.as_ref().map(AdaptersStatus::text).unwrap_or_default();
        self.volumes.iter().for_each(|volume| text += &volume.text());
        text
    }
}

impl VolumeStatus {
    fn text(&self) -> String {
        let mut text = format!("{}\n", self.device);
        let time = |ns: Option<f64>| ns.map_or("–".to_owned(), human::time_ns);
        let time_of = |ns: Option<u64>| time(ns.map(|ns| ns as f64));
        for (kind, of) in self.operations.given() {
            let _ = writeln!(
                text,
                "  {kind:<13} {:>8}  {:>8}  errors {}  mean {}  p50 {}  p99 {}",
                human::whole(of.operations),
                human::size(of.bytes),
                of.errors,
                time(of.latency_mean_ns),
                time_of(of.latency_p50_ns),
                time_of(of.latency_p99_ns),
            );
        }
        if let (Some(held), Some(size)) = (self.buffered_bytes, self.buffer_bytes) {
            let _ =
                writeln!(text, "  buffer        {} of {}", human::size(held), human::size(size));
        }
        if let Some(share) = self.credits_share {
            let _ = writeln!(text, "  burst         {:.1} % of the credits left", share * 100.0);
        }
        if let Some(wa) = self.write_amplification {
            let worn = self.worn.unwrap_or(0.0) * 100.0;
            let _ = writeln!(text, "  flash         write amplification {wa:.2}, worn {worn:.4} %");
        }
        let completions = self.operations.given().map(|(_, of)| of.operations + of.errors).sum();
        let _ = writeln!(
            text,
            "  late          {} of {} by more than 10 µs, {} of these while the thread was preempted; p50 {}, p99 {}",
            self.late,
            human::counted(completions, "completion"),
            self.late_away,
            time_of(self.lateness_p50_ns),
            time_of(self.lateness_p99_ns),
        );
        self.array.iter().chain(&self.branches).for_each(|array| array.write(&mut text));
        self.write_faults(&mut text);
        text
    }

    /// Writes the active faults, and the damage done by past ones.
    fn write_faults(&self, text: &mut String) {
        if self.size_bytes != self.capacity_bytes {
            let (size, capacity) = (human::size(self.size_bytes), human::size(self.capacity_bytes));
            alarm(text, &format!("resized to {size} of {capacity}"));
        }
        if self.slow_factor > 1.0 {
            alarm(text, &format!("slow: everything takes {} times as long", self.slow_factor));
        }
        for (kind, ns) in self.delay_ns.given() {
            let delay = human::time_ns(*ns as f64);
            alarm(text, &format!("delayed: each {kind} ends {delay} later"));
        }
        for (kind, share) in self.error_share.given() {
            let percent = (share * 1e8).round() / 1e6;
            alarm(text, &format!("failing: {percent} % of {kind} operations"));
        }
        alarms_of_interface(text, &self.interface_faults);
        for (is_so, words) in [
            (self.power_off, "the power is off: everything fails"),
            (self.full, "full: writes to unallocated space fail"),
            (self.hung, "hung: nothing completes"),
            (self.lost, "lost: everything fails"),
        ] {
            if is_so {
                alarm(text, words);
            }
        }
        for (count, noun, what) in [
            (self.corruptions_found, "corrupt unit", "found"),
            (self.pages_recovered.unwrap_or(0), "page", "rebuilt from parity"),
            (self.pages_lost.unwrap_or(0), "page", "lost"),
            (self.backing_errors, "failed write", "to the backing"),
            (self.dropped_writes, "acknowledged write", "lost in power cuts"),
            (self.torn_writes, "write", "torn by power cuts"),
        ] {
            if count > 0 {
                alarm(text, &format!("{} {what}", human::counted(count, noun)));
            }
        }
    }
}

impl ArrayStatus {
    /// Writes a line for each member that is not present, and the progress of rebuilds.
    fn write(&self, text: &mut String) {
        let members = self.members.iter().enumerate();
        for (number, member) in members.filter(|(_, of)| of.state != MemberState::Present) {
            let devices = match &member.devices {
                MemberDevices::One { device } => numbered("device", [device]),
                MemberDevices::Several { devices } => numbered("device", devices),
            };
            let what = match (member.state, self.rebuilt_share) {
                (MemberState::Rebuilt, Some(share)) => {
                    format!("rebuilt to {:.1} %", share * 100.0)
                }
                (state, _) => state.name().to_owned(),
            };
            alarm(text, &format!("member {number} ({devices}): {what}"));
        }
        if self.resyncs > 0 {
            let ranges = human::counted(self.resyncs.into(), "range");
            alarm(text, &format!("resync after a power cut: {ranges} in progress"));
        }
        if self.data_lost {
            alarm(text, "some data is lost: it can't be read until it is rewritten");
        }
    }
}

impl AdaptersStatus {
    fn text(&self) -> String {
        let mut text = "adapters\n".to_owned();
        if self.has_cache {
            let dirty = human::size(self.dirty_bytes);
            let how = match (self.caching, self.mirrored) {
                (true, true) => "in both adapters",
                (true, false) => "in one adapter",
                (false, _) => "off: writes are acknowledged once they are on the devices",
            };
            let _ = writeln!(text, "  cache         {how}; {dirty} dirty");
        }
        for (number, adapter) in self.adapters.iter().enumerate() {
            let serves = numbered("volume", &adapter.volumes);
            let elsewhere = if adapter.optimized == adapter.volumes {
                String::new()
            } else {
                format!("; optimized on it: {}", numbered("volume", &adapter.optimized))
            };
            let _ = writeln!(text, "  adapter {number}     serves {serves}{elsewhere}");
            for (is_so, words) in [
                (adapter.lost, "lost"),
                (adapter.battery_failed, "the battery of its cache has failed"),
            ] {
                if is_so {
                    alarm(&mut text, &format!("adapter {number}: {words}"));
                }
            }
        }
        for (number, _) in self.aa_down.iter().enumerate().filter(|(_, is_down)| **is_down) {
            alarm(&mut text, &format!("link aa {number}: down"));
        }
        if !self.cleared.is_empty() {
            let _ = writeln!(
                text,
                "  cleared       access state of {} (optimized on the primary)",
                numbered("volume", &self.cleared)
            );
        }
        for volume in &self.volumes_down {
            alarm(&mut text, &format!("volume {volume}: no adapter can serve it"));
        }
        text
    }
}

impl NativeStatus {
    fn text(&self) -> String {
        let mut text = String::new();
        for volume in &self.volumes {
            text += "native speed\n";
            let (held, size) =
                (human::size(volume.memory_bytes), human::size(volume.capacity_bytes));
            let _ = writeln!(text, "  memory        {held} for {size}");
            alarms_of_interface(&mut text, &volume.interface_faults);
        }
        text
    }
}

impl MemoryStatus {
    fn text(&self) -> String {
        let connections = human::counted(self.connections, "connection");
        let mut text = format!("plain memory  {}, {connections}\n", human::size(self.size_bytes));
        for (kind, count) in &self.requests.0 {
            let bytes = match kind.as_str() {
                "read" => human::size(self.read_bytes),
                "write" => human::size(self.written_bytes),
                _ => String::new(),
            };
            let _ = writeln!(text, "  {kind:<13} {:>8}  {bytes:>8}", human::whole(*count));
        }
        let _ = writeln!(text, "  errors        {:>8}", self.errors);
        alarms_of_interface(&mut text, &self.interface_faults);
        text
    }
}

#[cfg(test)]
mod tests {
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
            array: Some(array.clone()),
            branches: vec![array],
            erases: None,
            busy_ns: Named::default(),
        }
    }

    fn native(memory_bytes: u64) -> NativeVolumeStatus {
        let interface_faults = interface_faults();
        NativeVolumeStatus { capacity_bytes: 1 << 30, memory_bytes, interface_faults }
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
}
