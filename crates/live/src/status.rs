//! Status of served storage. The same values are the JSON document of the control socket, the text of `iodyno status`
//! (`text`) and the metrics ([`crate::metrics`]).
//!
//! The names of the fields are the keys of the document. Fields with `skip` are for the metrics alone.

mod maps;
mod observe;
mod text;

pub use maps::{ByKind, Named};
pub use observe::observe;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Status of a server, by the kind of its storage.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    /// Emulated storage at the model's times.
    Model(ModelStatus),
    /// Emulated storage at native speed.
    Native(NativeStatus),
    /// Plain memory, without emulation.
    Memory(MemoryStatus),
}

/// JSON key that marks a server without a model; its value is [`NATIVE`] or [`PLAIN_MEMORY`].
const SPEED: &str = "speed";
const NATIVE: &str = "native";
const PLAIN_MEMORY: &str = "plain memory";

/// Status of a server without a model, preceded by the key `speed`.
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

/// Status of emulated storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelStatus {
    /// The model's time since the start, ns.
    pub machine_ns: u64,
    /// Simulated events since the start.
    pub events: u64,
    /// Estimated transport latencies, which the server compensates; `None` without compensation.
    pub transport: Option<TransportStatus>,
    /// The RAID adapters; `None` if the system has none.
    pub adapters: Option<AdaptersStatus>,
    /// The volumes, by number.
    pub volumes: Vec<VolumeStatus>,
}

/// Latencies of a transport; see [`Transport`](crate::transport::Transport).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransportStatus {
    /// Round trip with an awake server, ns.
    pub round_trip_ns: u64,
    /// Part of the round trip from sending an answer until the client has received it, ns.
    pub taking_ns: u64,
    /// Additional time to wake the server, ns.
    pub waking_ns: u64,
}

/// Status of RAID adapters; see [`AdaptersState`](iodyno_emulate::AdaptersState).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdaptersStatus {
    /// The adapters, by number.
    pub adapters: Vec<AdapterStatus>,
    /// For each link between the adapters, whether it is down.
    pub aa_down: Vec<bool>,
    /// Whether the adapters have a write cache.
    pub has_cache: bool,
    /// Whether writes are acknowledged once they are in the cache.
    pub caching: bool,
    /// Whether writes are mirrored to both caches.
    pub mirrored: bool,
    /// Dirty data in the caches, bytes.
    pub dirty_bytes: u64,
    /// Numbers of the volumes that no adapter can serve.
    pub volumes_down: Vec<u32>,
    /// Numbers of the volumes whose access state is cleared.
    pub cleared: Vec<u32>,
}

/// Status of a RAID adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdapterStatus {
    /// Whether the adapter is lost.
    pub lost: bool,
    /// Whether the battery of the adapter's cache has failed.
    pub battery_failed: bool,
    /// Numbers of the volumes that the adapter serves.
    pub volumes: Vec<u32>,
    /// Numbers of the volumes whose optimized (preferred) path leads through the adapter.
    pub optimized: Vec<u32>,
}

/// Status of a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeStatus {
    /// Name of the emulated device or array.
    pub device: String,
    /// Size at the start, bytes.
    pub capacity_bytes: u64,
    /// Size now, bytes.
    pub size_bytes: u64,
    /// Whether writes to unallocated space fail.
    pub full: bool,
    /// Factor by which operations take longer; 1: no fault.
    pub slow_factor: f64,
    /// Whether the device hangs: no operation completes.
    pub hung: bool,
    /// Whether the device is lost.
    pub lost: bool,
    /// Whether the power is off.
    pub power_off: bool,
    /// Extra latency by kind, ns.
    pub delay_ns: ByKind<u64>,
    /// Probability of failure by kind, 0 to 1.
    pub error_share: ByKind<f64>,
    /// Operations by kind.
    pub operations: ByKind<KindStatus>,
    /// Share of the time in which each resource was busy, 0 to 1.
    pub busy: Named<f64>,
    /// Dirty bytes in the write buffer; `None` if the volume has no such buffer.
    pub buffered_bytes: Option<u64>,
    /// Size of the write buffer, bytes; `None` if the volume has no such buffer.
    pub buffer_bytes: Option<u64>,
    /// Flash pages programmed per page that hosts wrote; `None` if the volume has no flash.
    pub write_amplification: Option<f64>,
    /// Share of the flash's rated erase cycles that were used since the start; `None` if the volume has no flash.
    pub worn: Option<f64>,
    /// Completions more than [`LATE_NS`](crate::counts::LATE_NS) late.
    pub late: u64,
    /// Late completions whose polling thread had lost its core.
    pub late_away: u64,
    /// Median delay of completions after the model's time, ns.
    pub lateness_p50_ns: Option<u64>,
    /// 99th percentile of the delay of completions after the model's time, ns.
    pub lateness_p99_ns: Option<u64>,
    /// 4 KiB units whose checksum was wrong when they were read.
    pub corruptions_found: u64,
    /// Page reads whose data was rebuilt from the parity stripe.
    pub pages_recovered: Option<u64>,
    /// Page reads whose data could not be recovered.
    pub pages_lost: Option<u64>,
    /// Failed attempts to write bytes to the backing.
    pub backing_errors: u64,
    /// Acknowledged writes lost in power cuts.
    pub dropped_writes: u64,
    /// Acknowledged bytes lost in power cuts.
    pub dropped_bytes: u64,
    /// Writes torn by power cuts.
    pub torn_writes: u64,
    /// The volume's array; `None` for a single device.
    pub array: Option<ArrayStatus>,
    /// Arrays that are members, at any depth, of the volume's array.
    pub branches: Vec<ArrayStatus>,
    /// Erase blocks erased.
    #[serde(skip)]
    pub erases: Option<u64>,
    /// Busy time of each resource, summed over all of its kind, ns.
    #[serde(skip)]
    pub busy_ns: Named<u64>,
}

/// Operations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KindStatus {
    /// Operations that succeeded.
    pub operations: u64,
    /// Bytes of successful operations.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Mean of the model's time from submission to completion, ns.
    pub latency_mean_ns: Option<f64>,
    /// Median of the model's time from submission to completion, ns.
    pub latency_p50_ns: Option<u64>,
    /// 99th percentile of the model's time from submission to completion, ns.
    pub latency_p99_ns: Option<u64>,
    /// 99.9th percentile of the model's time from submission to completion, ns.
    #[serde(skip)]
    pub latency_p999_ns: Option<u64>,
}

/// Status of an array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArrayStatus {
    /// The members, by number.
    pub members: Vec<MemberStatus>,
    /// Number of members that are missing or not yet rebuilt.
    pub missing: usize,
    /// Rebuilt share of the member that is being rebuilt, 0 to 1; `None` if none is.
    pub rebuilt_share: Option<f64>,
    /// Number of runs of consecutive rows that are being resynced after a power cut.
    pub resyncs: u32,
    /// Whether some of the array's data is lost; it can't be read until it is rewritten.
    pub data_lost: bool,
    /// Members rebuilt since the start.
    pub rebuilt_members: u64,
    /// Bytes written by rebuilds since the start.
    pub rebuilt_bytes: u64,
    /// 4 KiB units resynced since the start.
    pub resynced_units: u64,
    /// 4 KiB units whose data was lost since the start.
    pub lost_units: u64,
}

/// A member of an array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// The device, or the devices of the array, that the member is.
    #[serde(flatten)]
    pub devices: MemberDevices,
    /// State of the member.
    pub state: MemberState,
}

/// The device, or the devices of the array, that a member is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MemberDevices {
    /// The member is a device.
    One {
        /// Number of the device.
        device: u32,
    },
    /// The member is an array.
    Several {
        /// Numbers of the devices.
        devices: Vec<u32>,
    },
}

/// State of a member of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberState {
    /// The member has all its data.
    Present,
    /// The device was removed.
    Lost,
    /// The device is present, but the member is not rebuilt yet.
    Missing,
    /// The member's data is being rebuilt.
    Rebuilt,
}

impl MemberState {
    /// Word for the state in the text.
    const fn name(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Lost => "lost",
            Self::Missing => "missing",
            Self::Rebuilt => "rebuilt",
        }
    }
}

/// Status of emulated storage at native speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NativeStatus {
    /// The volumes, by number.
    pub volumes: Vec<NativeVolumeStatus>,
}

/// Status of a volume at native speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NativeVolumeStatus {
    /// Size of the export, bytes.
    pub capacity_bytes: u64,
    /// Memory used by the volume's data, bytes; 0 if the data is in a file.
    pub memory_bytes: u64,
}

/// Status of plain memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// Size of the export, bytes.
    pub size_bytes: u64,
    /// Open connections.
    pub connections: u64,
    /// Requests received, by name of their kind; kinds without requests are absent.
    pub requests: Named<u64>,
    /// Bytes read from the target, in all.
    pub read_bytes: u64,
    /// Bytes written or discarded.
    pub written_bytes: u64,
    /// Failed and refused requests.
    pub errors: u64,
}
