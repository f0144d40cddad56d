//! Reads the facts that runs store as JSON, about targets, their health and the machine, and in cells of older runs.
//! No other code reads a fact by its key. A fact that is missing, or of another form, is empty here.

use crate::model::{RunHead, TargetRecord};
use iodyno_measure::{Cell, Preparation};
use serde::Deserialize;
use serde_json::Value;

/// Key, in a target's health after a run, of the fingerprint of all writes to it that `iodyno-targets` made.
pub const WRITES_SEEN: &str = "writes_seen";

/// Key, in a run's plan, of the changes that flags made to the named workload.
pub const CHANGED: &str = "changed";

/// Key of the host's name in the facts of a machine. It identifies the owner, so pages and the runs within them are
/// written without it.
pub const HOST_NAME: &str = "host_name";

/// Flag that confirms the destruction of data.
const CONFIRMING: &str = "--destroy";

/// The facts about a target that code needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetDescription {
    /// What the target is.
    pub kind: TargetKind,
    /// Size of the target before it was opened, bytes.
    pub size_bytes: Option<u64>,
    /// Size of the target once it was open, bytes.
    pub opened_bytes: Option<u64>,
    /// Type of the file system that the target is on.
    pub file_system: Option<String>,
    /// The block device itself, or the device directly under a file.
    pub device: DeviceDescription,
    /// Physical devices at the bottom of the stack.
    pub physical: Vec<DeviceDescription>,
    /// Facts about an emulated device; empty for other targets.
    pub emulated: EmulatedDescription,
    /// Facts about an NBD export; empty for other targets.
    pub nbd: ExportDescription,
}

/// Kinds of target, as `iodyno-targets` names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the crate that writes these values documents them")]
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

/// The kernel's facts about a block device, as `iodyno-targets` stores them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the crate that writes these values documents them")]
pub struct DeviceDescription {
    pub kernel_name: Option<String>,
    pub vendor: Option<String>,
    pub model: Option<String>,
    pub scheduler: Option<String>,
    pub nr_requests: Option<u64>,
    pub read_ahead_kib: Option<u64>,
    pub nomerges: Option<u64>,
    pub write_cache: Option<String>,
}

/// Facts about an emulated device, as `iodyno-run` stores them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the crate that writes these values documents them")]
pub struct EmulatedDescription {
    pub device: Option<String>,
    pub family: Option<String>,
    pub system: Option<String>,
    pub live: bool,
    pub state: Option<String>,
    pub fill: Option<f64>,
}

/// An NBD server's facts about an export, as `iodyno-targets` stores them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the crate that writes these values documents them")]
pub struct ExportDescription {
    pub address: String,
    pub export: String,
    pub description: String,
    pub tls: bool,
}

/// Facts about the machine, as `iodyno-targets` stores them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the crate that writes these values documents them")]
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
    /// Parses the target's facts.
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

    /// Bytes that the host wrote to the device during the run, according to the device's own log; None without such a
    /// log.
    pub fn device_written_bytes(&self) -> Option<u64> {
        let of = |health: &Option<Value>| health.as_ref()?["log"]["data_written_bytes"].as_u64();
        Some(of(&self.health_after)?.saturating_sub(of(&self.health_before)?))
    }

    /// Fingerprint of all writes to the target up to the end of the run, made by `iodyno-targets`.
    pub fn writes_seen(&self) -> Option<&Value> {
        self.health_after.as_ref()?.get(WRITES_SEEN)
    }
}

impl RunHead {
    /// Describes the workload with the changes made by flags: `random-read, sequential, fsync every 8`. If the run
    /// has a name of its own, that comes first: `before: random-read, sequential`. Without changes, the name alone.
    pub fn heading(&self) -> String {
        let name = &self.name;
        match self.plan.get(CHANGED).and_then(Value::as_str) {
            None => name.clone(),
            Some(changed) if changed.starts_with(&format!("{name}, ")) => changed.to_owned(),
            Some(changed) => format!("{name}: {changed}"),
        }
    }

    /// Returns the command line for repeating the run, without the words that confirm destruction: the target may
    /// hold other data by now, and the run may come from a stranger. The flag is true if words were left out.
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

    /// Parses the facts about the machine.
    pub fn machine_description(&self) -> MachineDescription {
        part(&self.machine)
    }
}

/// Fills in the evidence of a cell from a build before 2026-11-23, which stored it only as facts. Cells of later builds
/// hold both and are not changed. Returns the memory that this took, bytes.
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
