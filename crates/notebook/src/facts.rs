//! Parses the facts about targets, their health and the machine. A run stores these facts as JSON; an older run stores
//! them in its cells. No other code reads a fact by its key. A missing or malformed fact yields an empty value.

use crate::model::{RunHead, TargetRecord};
use crate::target_identity::identity;
use iodyno_measure::{Cell, Preparation};
use serde::Deserialize;
use serde_json::Value;

/// JSON key of a fingerprint of all writes to a target. `iodyno-targets` computes the fingerprint. It is stored with
/// the target's health after the run.
pub const WRITES_SEEN: &str = "writes_seen";

/// JSON key, in a run's plan, of the changes that command line flags made to the named workload.
pub const CHANGED: &str = "changed";

/// JSON key of the host name in the facts about a machine. Reports and the runs embedded in them omit it,
/// because it could identify the owner.
pub const HOST_NAME: &str = "host_name";

/// Flag that confirms the destruction of data.
const CONFIRMING: &str = "--destroy";

/// Description of a target, parsed from the JSON that a run stored. Contains only the facts that reports use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetDescription {
    /// Type of target, such as a file or a block device.
    pub kind: TargetKind,
    /// Size of the target before it was opened, bytes; `None` if unknown.
    pub size_bytes: Option<u64>,
    /// Size of the target after it was opened, bytes; `None` if unknown.
    pub opened_bytes: Option<u64>,
    /// Type of the file system that contains the target; `None` if it is unknown or the target is not a file.
    pub file_system: Option<String>,
    /// Facts about the target if it is a block device, otherwise about the block device below the target's file
    /// system.
    pub device: DeviceDescription,
    /// Physical devices at the bottom of the block device stack.
    pub physical: Vec<DeviceDescription>,
    /// Facts about an emulated device; empty for other targets.
    pub emulated: EmulatedDescription,
    /// Facts about an NBD export; empty for other targets.
    pub nbd: ExportDescription,
}

/// Type of a target, as `iodyno-targets` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    Null,
    Ram,
    Model,
    Nbd,
    File,
    Block,
    Char,
    #[default]
    Other,
}

/// Facts about a block device as reported by the kernel and stored by `iodyno-targets`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct DeviceDescription {
    pub kernel_name: Option<String>,
    pub vendor: Option<String>,
    pub model: Option<String>,
    pub scheduler: Option<String>,
    pub nr_requests: Option<u64>,
    pub read_ahead_kib: Option<u64>,
    pub nomerges: Option<u64>,
    pub write_cache: Option<String>,
    pub rotational: Option<bool>,
}

/// Facts about an emulated device, as stored by `iodyno-run`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct EmulatedDescription {
    pub device: Option<String>,
    pub family: Option<String>,
    pub system: Option<String>,
    pub live: bool,
    pub state: Option<String>,
    pub fill: Option<f64>,
}

/// Facts about an NBD export as reported by its server and stored by `iodyno-targets`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ExportDescription {
    pub address: String,
    pub export: String,
    pub description: String,
    pub tls: bool,
}

/// Facts about the machine on which a run was made, as stored by `iodyno-targets`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct MachineDescription {
    pub host_name: Option<String>,
    pub kernel: Option<String>,
    pub cpu_model: Option<String>,
    pub cores_usable: Option<u64>,
    pub governor: Option<String>,
    pub turbo: Option<bool>,
    pub product: Option<String>,
    pub ram_bytes: Option<u64>,
}

fn part<'de, T: Default + Deserialize<'de>>(value: &'de Value) -> T {
    T::deserialize(value).unwrap_or_default()
}

impl TargetRecord {
    /// Parses the target's facts. Missing or malformed facts are empty.
    pub fn description(&self) -> TargetDescription {
        let facts = &self.facts;
        TargetDescription {
            kind: part(&facts["kind"]),
            size_bytes: part(&facts["size_bytes"]),
            opened_bytes: part(&facts["opened"]["capacity_bytes"]),
            file_system: part(&facts["file_system"]["fs_type"]),
            device: part(&facts["device"]),
            physical: part(&facts["physical"]),
            emulated: part(&facts["emulated"]),
            nbd: part(&facts["nbd"]),
        }
    }

    /// Data that the host wrote to the device during the run according to the device's SMART or NVMe log, bytes;
    /// `None` without such a log.
    pub fn device_written_bytes(&self) -> Option<u64> {
        let of = |health: &Option<Value>| health.as_ref()?["log"]["data_written_bytes"].as_u64();
        Some(of(&self.health_after)?.saturating_sub(of(&self.health_before)?))
    }

    /// Fingerprint of all writes to the target up to the end of the run; `None` if it was not recorded.
    pub fn writes_seen(&self) -> Option<&Value> {
        self.health_after.as_ref()?.get(WRITES_SEEN)
    }
}

impl RunHead {
    /// Describes the workload and the changes that flags made to it: `random-read, sequential, fsync every 8`. For a
    /// named run, the name comes first: `before: random-read, sequential`. Without changes, returns only the name.
    pub fn heading(&self) -> String {
        let name = &self.name;
        match self.plan.get(CHANGED).and_then(Value::as_str) {
            None => name.clone(),
            Some(changed) if changed.starts_with(&format!("{name}, ")) => changed.to_owned(),
            Some(changed) => format!("{name}: {changed}"),
        }
    }

    /// Command line that repeats the run, without the flag that confirms destruction: the target may hold other data
    /// by now, or the run may be a stranger's. The boolean is true if the flag was removed.
    pub fn command_to_repeat(&self) -> (Vec<String>, bool) {
        let mut kept = Vec::new();
        let mut words = self.command.iter();
        while let Some(word) = words.next() {
            if word == CONFIRMING {
                words.next();
            } else if word.strip_prefix(CONFIRMING).is_none_or(|rest| !rest.starts_with('=')) {
                kept.push(word.clone());
            }
        }
        let is_shorter = kept.len() < self.command.len();
        (kept, is_shorter)
    }

    /// Parses the facts about the run's machine. Missing or malformed facts are empty.
    pub fn machine_description(&self) -> MachineDescription {
        part(&self.machine)
    }
}

/// Fills in the evidence of a cell written by a build before 2026-11-23, which stored evidence only as facts. Leaves
/// the cells of later builds unchanged. Returns the memory that the evidence takes, bytes.
pub(crate) fn evidence_of_older(cell: &mut Cell) -> u64 {
    let mut bytes = 0;
    let mut fact = |key: &str| {
        let words = cell.facts.get(key).cloned();
        bytes += words.as_ref().map_or(0, |words| 32 + words.len() as u64);
        words
    };
    let of = &mut cell.evidence;
    for (words, key) in [
        (&mut of.clock, "clock"),
        (&mut of.device_state, "state"),
        (&mut of.skipped, "skipped"),
        (&mut of.failure, "failure"),
        (&mut of.settled, "ended early"),
        (&mut of.deviation, "deviation"),
        (&mut of.not_reused, "not reused"),
    ] {
        *words = words.take().or_else(|| fact(key));
    }
    of.map_sync = of.map_sync.or_else(|| Some(fact("mmap.flags")? == "MAP_SYNC"));
    if of.preparation.is_none() {
        let constructed = |words: &String| words.starts_with("constructed");
        of.preparation = (fact("reused").map(Preparation::Reused))
            .or_else(|| fact("waited").map(Preparation::Waited))
            .or_else(|| fact("fill").filter(constructed).map(Preparation::Constructed))
            .or_else(|| fact("purge").map(Preparation::Purged));
    }
    bytes
}

impl TargetRecord {
    /// Identity of the target: equal for all names of one file or device, if the runs used the same part of it in the
    /// same way.
    pub fn identity(&self) -> String {
        let text = |key: &str| self.facts.get(key).and_then(Value::as_str);
        let opened = self.facts.get("opened");
        let capacity_bytes = opened.and_then(|of| of.get("capacity_bytes")).and_then(Value::as_u64);
        identity(&self.name, text("name"), text("canonical_path"), capacity_bytes)
    }
}
