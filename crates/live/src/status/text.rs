//! Formats a server's status as text for people; `iodyno status` prints it.

use super::{
    AdaptersStatus, ArrayStatus, InterfaceFaultStatus, MemberDevices, MemberState, MemoryStatus,
    ModelStatus, NativeStatus, Status, VolumeStatus,
};
use crate::export_names::export_names;
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

/// Formats the first line of a volume's status: its number follows if there are several volumes.
fn titled(title: &str, number: usize, volumes: usize) -> String {
    if volumes > 1 { format!("{title}  volume {number}\n") } else { format!("{title}\n") }
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
        let names = export_names(self.volumes.iter().map(|volume| volume.device.as_str()));
        for (number, (volume, name)) in self.volumes.iter().zip(&names).enumerate() {
            text += &titled(name, number, names.len());
            text += &volume.text();
        }
        text
    }
}

impl VolumeStatus {
    fn text(&self) -> String {
        let mut text = String::new();
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
            (self.lost_units, "stored unit", "lost by arrays or adapters"),
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
        for (number, volume) in self.volumes.iter().enumerate() {
            text += &titled("native speed", number, self.volumes.len());
            let (held, size) =
                (human::size(volume.memory_bytes), human::size(volume.capacity_bytes));
            let _ = writeln!(text, "  memory        {held} for {size}");
            alarms_of_interface(&mut text, &volume.interface_faults);
            if volume.backing_errors > 0 {
                let failed = human::counted(volume.backing_errors, "failed write");
                alarm(&mut text, &format!("{failed} to the backing"));
            }
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
mod tests;
