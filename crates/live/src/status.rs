//! Status of served storage. The control socket sends it as a JSON document, `iodyno status` prints it as text
//! (`text`), and [`crate::metrics`] exports it as metrics.
//!
//! The names of the fields are the keys of the JSON document. Fields marked `#[serde(skip)]` are only in the metrics.

mod maps;
mod observe;
mod text;

use crate::fault_command::described;
use crate::interface_fault::Injected;
use iodyno_measure::Histogram;
use iodyno_measure::exposition::Exemplars;
pub use maps::{ByKind, Named};
pub use observe::{lost_units, observe};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Status of a server, by type of storage that it serves.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    /// Emulated storage with the latencies of its performance model.
    Model(ModelStatus),
    /// Emulated storage without simulated latency, at the speed of this host.
    Native(NativeStatus),
    /// Plain memory that an NBD server exports, without emulation.
    Memory(MemoryStatus),
}

/// JSON key that marks a server without a performance model. Its value is [`NATIVE`] or [`PLAIN_MEMORY`].
const SPEED: &str = "speed";
const NATIVE: &str = "native";
const PLAIN_MEMORY: &str = "plain memory";

/// JSON document of a server without a performance model: the key `speed`, then the keys of the status.
#[derive(Serialize)]
struct AtSpeed<'a, T> {
    speed: &'static str,
    #[serde(flatten)]
    status: &'a T,
}

impl Status {
    /// Converts the status to its JSON document.
    pub fn to_json(&self) -> Value {
        let document = match self {
            Self::Model(status) => serde_json::to_value(status),
            Self::Native(status) => serde_json::to_value(AtSpeed { speed: NATIVE, status }),
            Self::Memory(status) => serde_json::to_value(AtSpeed { speed: PLAIN_MEMORY, status }),
        };
        document.unwrap_or_else(|e| serde_json::json!({ "error": e.to_string() }))
    }

    /// Parses the status from its JSON document. Unknown keys are ignored.
    ///
    /// # Errors
    /// A key is missing or has a wrong value.
    pub fn from_json(document: Value) -> Result<Self, String> {
        fn read<T: DeserializeOwned>(document: Value) -> Result<T, String> {
            serde_json::from_value(document).map_err(|e| e.to_string())
        }
        match document[SPEED].as_str() {
            None => read(document).map(Self::Model),
            Some(NATIVE) => read(document).map(Self::Native),
            Some(PLAIN_MEMORY) => read(document).map(Self::Memory),
            Some(other) => Err(format!("unknown {SPEED} `{other}`")),
        }
    }
}

/// Status of a server of emulated storage with simulated latencies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelStatus {
    /// Simulated time since the start, ns.
    pub machine_ns: u64,
    /// Factor by which simulated times are multiplied in real time; `None`: 1.
    #[serde(default)]
    pub dilation: Option<f64>,
    /// Time by which the simulated time was held back since the start because this computer simulates too slowly, ns of
    /// real time.
    #[serde(default)]
    pub held_back_ns: u64,
    /// Number of simulated events since the start.
    pub events: u64,
    /// Estimated transport latencies, which the server subtracts from simulated ones; `None` without
    /// compensation.
    pub transport: Option<TransportStatus>,
    /// Status of the RAID adapters; `None` if the system has none.
    pub adapters: Option<AdaptersStatus>,
    /// Status of each emulated volume, by volume number.
    pub volumes: Vec<VolumeStatus>,
}

/// Latencies of a transport; see [`Transport`](crate::transport::Transport).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransportStatus {
    /// Round-trip time of a request if the server's thread is awake, ns.
    pub round_trip_ns: u64,
    /// Time from sending an answer to its receipt by the client, ns. It is included in the round-trip time.
    pub taking_ns: u64,
    /// Additional latency if the server's thread must be woken, ns.
    pub waking_ns: u64,
}

/// Status of RAID adapters; see [`AdaptersState`](iodyno_emulate::AdaptersState).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdaptersStatus {
    /// Status of each adapter, by adapter number.
    pub adapters: Vec<AdapterStatus>,
    /// Whether each link between the adapters is down, by link number.
    pub aa_down: Vec<bool>,
    /// Whether the adapters have a write cache, even if write caching is off at present.
    pub has_cache: bool,
    /// Whether the cache currently works as write-back: writes are acknowledged once they are in it.
    pub caching: bool,
    /// Whether writes are currently mirrored to the caches of both adapters.
    pub mirrored: bool,
    /// Dirty data in the adapters' caches, bytes.
    pub dirty_bytes: u64,
    /// Volumes that no adapter can serve, by volume number.
    pub volumes_down: Vec<u32>,
    /// Volumes without an assigned adapter (cleared access state), by volume number. Their optimized path leads through
    /// the primary adapter.
    pub cleared: Vec<u32>,
}

/// Failures of a RAID adapter, and the volumes that it serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdapterStatus {
    /// Whether an injected fault has taken the adapter out of service.
    pub lost: bool,
    /// Whether the battery of the adapter's cache has failed.
    pub battery_failed: bool,
    /// Volumes that the adapter serves, by volume number.
    pub volumes: Vec<u32>,
    /// Volumes whose optimized (preferred) path leads through the adapter, by volume number.
    pub optimized: Vec<u32>,
}

/// Sizes, active faults, counters and latencies of an emulated volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeStatus {
    /// Name of the emulated device or array.
    pub device: String,
    /// Size of the volume when the server started, bytes.
    pub capacity_bytes: u64,
    /// Current size of the volume, bytes; differs from the capacity after a resize.
    pub size_bytes: u64,
    /// Whether a fault makes the volume appear full, so that writes to unallocated space fail.
    pub full: bool,
    /// Injected slowdown: factor by which operations take longer; 1: no fault.
    pub slow_factor: f64,
    /// Whether the device is hung by a fault, so that no operation completes.
    pub hung: bool,
    /// Whether the device is lost through an injected fault, so that all operations fail.
    pub lost: bool,
    /// Whether the emulated power is off, so that all operations fail.
    pub power_off: bool,
    /// Injected extra latency per kind of operation, ns.
    pub delay_ns: ByKind<u64>,
    /// Injected error rate per kind of operation: fraction of operations that fail, 0 to 1.
    pub error_share: ByKind<f64>,
    /// Faults injected at the volume's interface, including those that are over.
    #[serde(default)]
    pub interface_faults: Vec<InterfaceFaultStatus>,
    /// Counters and latencies since the start, per kind of operation.
    pub operations: ByKind<KindStatus>,
    /// Utilisation of each resource since the start, as a fraction from 0 to 1.
    pub busy: Named<f64>,
    /// Dirty data in the volume's write buffer, bytes; `None` without a write buffer.
    pub buffered_bytes: Option<u64>,
    /// Size of the volume's write buffer, bytes; `None` without a write buffer.
    pub buffer_bytes: Option<u64>,
    /// Share of the burst credits that are left, 0 to 1: the smallest over all limits of the volume and its instance;
    /// `None` if no limit has credits.
    #[serde(default)]
    pub credits_share: Option<f64>,
    /// Write amplification: flash pages programmed per page written by hosts; `None` if the volume has no flash.
    pub write_amplification: Option<f64>,
    /// Flash wear since the start, as a fraction of the rated erase cycles; `None` if the volume has no flash.
    pub worn: Option<f64>,
    /// Number of completions since the start that were delivered more than [`LATE_NS`](crate::counts::LATE_NS) late.
    pub late: u64,
    /// Number of completions that were late because the polling thread had lost its core.
    pub late_away: u64,
    /// Median lateness of completions (time from due time to delivery), ns of real time; `None` if there are too few
    /// completions.
    pub lateness_p50_ns: Option<u64>,
    /// 99th percentile of the lateness of completions (time from due time to delivery), ns of real time; `None` if
    /// there are too few completions.
    pub lateness_p99_ns: Option<u64>,
    /// Number of 4 KiB units whose checksum was wrong when they were read.
    pub corruptions_found: u64,
    /// Number of flash page reads whose data was rebuilt from the device's parity stripe; `None` if the volume has no
    /// flash.
    pub pages_recovered: Option<u64>,
    /// Number of flash page reads whose data could not be recovered; `None` if the volume has no flash.
    pub pages_lost: Option<u64>,
    /// Number of failed attempts to write to the backing file or memory.
    pub backing_errors: u64,
    /// Number of acknowledged writes lost in power cuts since the start.
    pub dropped_writes: u64,
    /// Acknowledged data lost in power cuts since the start, bytes.
    pub dropped_bytes: u64,
    /// Number of writes torn by power cuts: some of their 4 KiB units are on the medium, the others are lost.
    pub torn_writes: u64,
    /// Number of 4 KiB units of stored data that arrays and adapters' caches lost since the start.
    #[serde(default)]
    pub lost_units: u64,
    /// Status of the volume's array; `None` for a single device.
    pub array: Option<ArrayStatus>,
    /// Status of all nested arrays, at any depth.
    pub branches: Vec<ArrayStatus>,
    /// Number of flash erase blocks erased since the start; `None` if the volume has no flash.
    #[serde(skip)]
    pub erases: Option<u64>,
    /// Busy time of each type of resource since the start, summed over its instances, ns.
    #[serde(skip)]
    pub busy_ns: Named<u64>,
}

/// A fault at a volume's interface, such as lost writes, with its counts since the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceFaultStatus {
    /// Description of the fault and its scope.
    pub fault: String,
    /// Number of requests in the fault's scope since its command, affected or not.
    pub seen: u64,
    /// Number of requests that the fault has affected.
    pub applied: u64,
    /// Whether the fault is over, and will affect no more requests.
    pub is_over: bool,
}

impl InterfaceFaultStatus {
    /// Converts interface faults to their status.
    pub fn of_all(faults: &[Injected]) -> Vec<Self> {
        let of = |known: &Injected| Self {
            fault: described(&known.fault),
            seen: known.seen,
            applied: known.applied,
            is_over: known.is_over,
        };
        faults.iter().map(of).collect()
    }
}

/// Counters and latencies of one kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KindStatus {
    /// Number of operations of the kind that succeeded since the start.
    pub operations: u64,
    /// Bytes of the kind's successful operations since the start.
    pub bytes: u64,
    /// Number of operations of the kind that failed since the start.
    pub errors: u64,
    /// Mean simulated latency from submission to completion, ns; `None` without operations.
    pub latency_mean_ns: Option<f64>,
    /// Median simulated latency from submission to completion, ns; `None` if there are too few operations.
    pub latency_p50_ns: Option<u64>,
    /// 99th percentile of simulated latency from submission to completion, ns; `None` if there are too few operations.
    pub latency_p99_ns: Option<u64>,
    /// 99.9th percentile of simulated latency from submission to completion, ns; `None` if there are too few
    /// operations.
    #[serde(skip)]
    pub latency_p999_ns: Option<u64>,
    /// Histogram of simulated latencies from submission to completion; `None` if no operation succeeded.
    #[serde(skip)]
    pub latency: Option<Histogram>,
    /// Slow operations, as exemplars for the latency histogram.
    #[serde(skip)]
    pub exemplars: Exemplars,
}

/// State of an emulated RAID array and its members, with counts of rebuilds and losses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArrayStatus {
    /// Members of the array, by member number.
    pub members: Vec<MemberStatus>,
    /// Number of members that are missing or not yet rebuilt.
    pub missing: usize,
    /// Progress of the current member rebuild, 0 to 1; `None` if no member is being rebuilt.
    pub rebuilt_share: Option<f64>,
    /// Number of ranges of stripes that are still to be resynced after a power cut.
    pub resyncs: u32,
    /// Whether the array has lost data that can't be read until it is rewritten.
    pub data_lost: bool,
    /// Number of members rebuilt since the start.
    pub rebuilt_members: u64,
    /// Bytes written by rebuilds since the start.
    pub rebuilt_bytes: u64,
    /// Number of 4 KiB units resynced since the start.
    pub resynced_units: u64,
    /// Number of 4 KiB units whose data was lost since the start.
    pub lost_units: u64,
}

/// Devices and state of a member of an array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Index of the member's device in the emulated system; if the member is a nested array, the indices of all devices
    /// in it.
    #[serde(flatten)]
    pub devices: MemberDevices,
    /// Availability of the member's data.
    pub state: MemberState,
}

/// Devices of an array's member, which is a device or a nested array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MemberDevices {
    /// The member is a single device.
    One {
        /// Index of the device in the emulated system, from 0.
        device: u32,
    },
    /// The member is a nested array.
    Several {
        /// Indices of the nested array's devices in the emulated system, from 0.
        devices: Vec<u32>,
    },
}

/// Availability of the data of an array's member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberState {
    /// The member is available with all its data.
    Present,
    /// The member's device fails all operations.
    Lost,
    /// The member's device is present, but its data has not been rebuilt.
    Missing,
    /// The member's data is being rebuilt.
    Rebuilt,
}

impl MemberState {
    /// Word for the state in the text form of the status.
    const fn name(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Lost => "lost",
            Self::Missing => "missing",
            Self::Rebuilt => "rebuilt",
        }
    }
}

/// Status of a server of emulated storage without simulated latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NativeStatus {
    /// Status of each volume, by volume number.
    pub volumes: Vec<NativeVolumeStatus>,
}

/// Status of a volume that is served without simulated latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NativeVolumeStatus {
    /// Volume size that clients see, bytes.
    pub capacity_bytes: u64,
    /// Memory used by the volume's data, bytes; 0 if the data is in a file.
    pub memory_bytes: u64,
    /// Faults injected at the volume's interface, including those that are over.
    #[serde(default)]
    pub interface_faults: Vec<InterfaceFaultStatus>,
    /// Number of writes that the backing file or memory refused.
    #[serde(default)]
    pub backing_errors: u64,
}

/// Status of a server of plain memory, without emulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// Size of the served memory, bytes.
    pub size_bytes: u64,
    /// Number of open connections.
    pub connections: u64,
    /// Number of requests received per kind. Kinds without requests are absent.
    pub requests: Named<u64>,
    /// Total bytes read by clients.
    pub read_bytes: u64,
    /// Total bytes written or discarded by clients.
    pub written_bytes: u64,
    /// Number of failed and refused requests.
    pub errors: u64,
    /// Faults injected at the volume's interface, including those that are over.
    #[serde(default)]
    pub interface_faults: Vec<InterfaceFaultStatus>,
}
