//! What code needs of facts: of a target, its health and the machine, which runs keep as JSON; and of the cells
//! of older runs. No other code reads a fact by its key. What a run does not tell, or tells in another form, is
//! empty here.

use crate::model::{RunHead, TargetRecord};
use iodyno_measure::{Cell, Preparation};
use serde::Deserialize;
use serde_json::Value;

/// Where a target's health after a run says what had been written to it, as `iodyno-target` counts that.
pub const WRITES_SEEN: &str = "writes_seen";

/// Where a run's plan says what its flags changed of the work that its name stands for.
pub const CHANGED: &str = "changed";

/// Where the facts of a machine have the host's name. It identifies the owner: pages, and the runs within them,
/// are handed on without it.
pub const HOST_NAME: &str = "host_name";

/// The flag that confirms what may be destroyed.
const CONFIRMING: &str = "--destroy";

/// What a target is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetDescription {
    /// What kind of thing.
    pub kind: TargetKind,
    /// Bytes that would be measured.
    pub size_bytes: Option<u64>,
    /// Bytes that could be measured once it was open.
    pub opened_bytes: Option<u64>,
    /// Type of the file system that it lies on.
    pub file_system: Option<String>,
    /// The block device itself, or the one directly under a file.
    pub device: DeviceDescription,
    /// The devices at the bottom.
    pub physical: Vec<DeviceDescription>,
    /// An emulated device.
    pub emulated: EmulatedDescription,
    /// An NBD export.
    pub nbd: ExportDescription,
}

/// What kind of thing a target is, in the terms of `iodyno-target`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "documented where they are written")]
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

/// What the kernel says of a block device, as `iodyno-target` keeps it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "documented where they are written")]
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

/// What an emulated device is, as `iodyno-run` keeps it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "documented where they are written")]
pub struct EmulatedDescription {
    pub device: Option<String>,
    pub family: Option<String>,
    pub system: Option<String>,
    pub live: bool,
    pub state: Option<String>,
    pub fill: Option<f64>,
}

/// What an NBD server says of an export, as `iodyno-target` keeps it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "documented where they are written")]
pub struct ExportDescription {
    pub address: String,
    pub export: String,
    pub description: String,
    pub tls: bool,
}

/// What the machine is, as `iodyno-target` keeps it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "documented where they are written")]
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
    /// What its facts say.
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

    /// Bytes that the host wrote to the device during the run, by the device's own log.
    pub fn device_written_bytes(&self) -> Option<u64> {
        let of = |health: &Option<Value>| health.as_ref()?["log"]["data_written_bytes"].as_u64();
        Some(of(&self.health_after)?.saturating_sub(of(&self.health_before)?))
    }

    /// What had been written to it by the end of the run, as `iodyno-target` counts that.
    pub fn writes_seen(&self) -> Option<&Value> {
        self.health_after.as_ref()?.get(WRITES_SEEN)
    }
}

impl RunHead {
    /// The work with what flags changed of it: `random-read, sequential, fsync every 8`. Of a run whose name is not that
    /// of the work: `before: random-read, sequential`. The name alone where flags changed nothing.
    pub fn heading(&self) -> String {
        let name = &self.name;
        match self.plan.get(CHANGED).and_then(Value::as_str) {
            None => name.clone(),
            Some(changed) if changed.starts_with(&format!("{name}, ")) => changed.to_owned(),
            Some(changed) => format!("{name}: {changed}"),
        }
    }

    /// The words of its command line for another run, without those that confirm what may be destroyed: the target may
    /// hold something else by now, and the run may be a stranger's. True where words were left out.
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

    /// What the facts of the machine say.
    pub fn machine_description(&self) -> MachineDescription {
        part(&self.machine)
    }
}

/// Gives the cell of a build before 2026-11-23 the evidence that such builds kept as facts only, though they
/// decided by it; gives the bytes of memory that this took. In cells of later builds, which keep both, it
/// changes nothing.
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
