//! Simulates one cell in virtual time, for a duration that depends on the kind of device.

use super::account::{KindAccount, LevelAccount};
use super::shares::{Share, shares};
use super::volumes::{VolumesAccount, by_name};
use crate::{Emulated, RunError};
use iodyno_drive::{Length, Modelled, Unobserved, drive_model};
use iodyno_emulate::flash::Counts;
use iodyno_emulate::spec::{Kind, PlacedDevice};
use iodyno_emulate::{ReadCacheCounts, System};
use iodyno_measure::{Summary, verdict};
use iodyno_workload::{EmulationOptions, Spec};
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

/// Results of a simulated cell over all volumes, with utilisations and the limiting factor.
#[derive(Debug)]
pub struct ExplainedCell {
    /// Name of the cell's workload.
    pub name: String,
    /// State of the devices at the cell's start, as text.
    pub state: String,
    /// Reason why the figures differ from those of a long run, such as a cache that is still filling, or burst credits
    /// that run out; `None` if they do not differ.
    pub transient: Option<String>,
    /// Number of volumes that the cell loads simultaneously.
    pub volumes: usize,
    /// Number of threads per volume.
    pub threads: u32,
    /// Outstanding I/Os per thread.
    pub depth: u32,
    /// Most frequent block size, bytes.
    pub block_bytes: u32,
    /// Length of the measured window, ns.
    pub window_ns: u64,
    /// Operations per second, summed over all volumes.
    pub iops: f64,
    /// Bytes read and written per second, summed over all volumes.
    pub bytes_per_s: f64,
    /// Phases and limits of the volumes, one entry per name.
    pub of_volumes: Vec<VolumesAccount>,
    /// Utilisation of all resources, in descending order.
    pub shares: Vec<Share>,
    /// Flash operations in the measured window, summed over all flash devices; None if there is no flash.
    pub counts: Option<Counts>,
    /// Counters of the host's read caches; None if there are none.
    pub read_cache: Option<ReadCacheCounts>,
    /// Mean number of simulated events per I/O.
    pub events_per_io: f64,
    /// CPU time per simulated event, ns. It depends on the computer that runs the simulation.
    pub ns_per_event: f64,
    /// I/Os simulated per second of CPU time.
    pub ios_per_cpu_s: f64,
}

/// Names and specifications of the standard workloads by which `iodyno explain` predicts the performance of a device of
/// `system`. Each has one worker. On a zoned device, reads stay in one zone, and writes fill zone after zone.
pub fn predictions(system: &System) -> Vec<(&'static str, Spec)> {
    let zones = system.devices().find_map(PlacedDevice::zones);
    let random =
        |mix: &str, depth: u32| format!("depth = {depth}\nblock = \"4KiB\"\n[mix]\n{mix}\n");
    let sequential = |kind: &str| {
        format!(
            "depth = 8\nblock = \"1MiB\"\n[mix]\n{kind} = 100\n[all]\naddresses = \"sequential\"\n"
        )
    };
    let in_zone = |text: String| match &zones {
        Some(zones) => format!("active = \"{}B\"\n{text}", zones.capacity_bytes),
        None => text,
    };
    let reads = [
        ("random read", in_zone(random("read = 100", 1))),
        ("random read", in_zone(random("read = 100", 32))),
    ];
    let in_order = ("sequential read", in_zone(sequential("read")));
    let writes = match &zones {
        None => vec![
            ("random write", random("write = 100", 1)),
            ("random write", random("write = 100", 32)),
            ("mixed 70/30", random("read = 70\nwrite = 30", 32)),
            in_order,
            ("sequential write", sequential("write")),
        ],
        Some(zones) => {
            let addresses = format!(
                "[all]\naddresses = {{ pattern = \"zones\", zone = {}, capacity = {}, open = 1, trim = true }}\n",
                zones.size_bytes, zones.capacity_bytes
            );
            let write = random("write = 100", 1) + &addresses;
            vec![in_order, ("write to a zone", write)]
        }
    };
    let spec = |(name, text): (&'static str, String)| {
        let spec = Spec::from_toml(&format!("schema = 1\n{text}"));
        (name, spec.expect("the built-in workloads are valid"))
    };
    reads.into_iter().chain(writes).map(spec).collect()
}

/// Lengths of a cell's ramp and window. Both are longer for disks, which are slow and must first fill their buffer; and
/// for rate limits, which an idle device may exceed for a time. They are shorter for memory.
fn length(system: &System) -> Length {
    let any = |is: fn(&Kind) -> bool| system.devices().any(|d| is(&d.device.kind));
    let (ramp_ns, window_ns) = if any(|k| matches!(k, Kind::Disk(_))) {
        (20 * S, 60 * S)
    } else if any(|k| matches!(k, Kind::Flash(_))) {
        (S / 2, S)
    } else {
        (10 * MS, 100 * MS)
    };
    let limits = system.devices().flat_map(|of| &of.device.limits).chain(&system.limits);
    let (ramp_ns, window_ns) = match limits.map(|limit| limit.window_ns).max() {
        Some(exceeded_ns) => (ramp_ns.max(S + 2 * exceeded_ns), window_ns.max(5 * S)),
        None => (ramp_ns, window_ns),
    };
    // Many devices complete proportionally more operations in the same time.
    let fewer = system.volumes.len().div_ceil(4) as u64;
    Length { ramp_ns: (ramp_ns / fewer).max(10 * MS), window_ns: (window_ns / fewer).max(50 * MS) }
}

/// Makes garbage collection continuous on devices where it runs in bursts, because a cell is too short to cover a burst
/// and the pause after it. The mean rate does not change; latencies are then those without bursts. Returns whether
/// there is a device with bursts.
fn mean_over_bursts(system: &mut System) -> bool {
    let mut any = false;
    for placed in system.devices_mut() {
        if let Kind::Flash(flash) = &mut placed.device.kind {
            any |= flash.translation.freed_per_write > 1.0;
            flash.translation.freed_per_write = 1.0;
        }
    }
    any
}

/// Simulates a workload on all volumes of the system.
pub fn simulate(
    emulated: &Emulated,
    target: &str,
    name: &str,
    spec: Spec,
) -> Result<ExplainedCell, RunError> {
    let (length, options) = (length(&emulated.system), EmulationOptions::default());
    let mut emulated = emulated.clone();
    let has_bursts = mean_over_bursts(&mut emulated.system);
    let mut plan = emulated.experiment(name, spec, length, &options)?.warmed_up();
    target.clone_into(&mut plan.cell.workload);
    let modelled = drive_model(&plan, &AtomicBool::new(false), &mut Unobserved)?;
    let mut states = emulated.states(&plan.cell);
    states.dedup();
    if has_bursts && plan.cell.spec.changes_content() {
        states.push("garbage collected steadily, not in bursts".to_owned());
    }
    Ok(account(&plan.cell.spec, &modelled, name, states.join("; ")))
}

/// Combines the results and resource usage of all volumes.
fn account(spec: &Spec, m: &Modelled, name: &str, state: String) -> ExplainedCell {
    let (all, system) = (m.merged(), m.machine.system());
    let summary = Summary::of(&all);
    let rates: Vec<f64> = m.cells.iter().map(|cell| Summary::of(cell).ops_per_s).collect();
    let shares = shares(system, &m.usage, &rates);
    let ios = summary.ops.max(1) as f64;
    let cpu_ns = m.cpu_ns.max(1) as f64;
    ExplainedCell {
        name: name.to_owned(),
        state,
        transient: verdict::judge(&m.cells[0])
            .into_iter()
            .find(|verdict| verdict.code == "TRANSIENT")
            .map(|verdict| verdict.text),
        volumes: m.cells.len(),
        threads: spec.threads(),
        depth: spec.depth(),
        block_bytes: all.key.block_bytes(),
        window_ns: all.window_ns,
        iops: summary.iops,
        bytes_per_s: summary.bytes_per_s,
        of_volumes: by_name(spec, m, &shares),
        shares,
        counts: m.flash_counts(),
        read_cache: m.read_cache_counts(),
        events_per_io: m.usage.events as f64 / ios,
        ns_per_event: cpu_ns / m.machine.events().max(1) as f64,
        ios_per_cpu_s: m.completions as f64 * 1e9 / cpu_ns,
    }
}

impl ExplainedCell {
    /// Returns the cell as JSON. CPU times are left out, so that repeating the cell gives the same document.
    pub fn json(&self) -> Value {
        let flash = self.counts.map(|c| {
            json!({
                "write_amplification": c.write_amplification(),
                "host_pages": c.host_pages,
                "copied_pages": c.copied_pages,
                "merged_pages": c.merged_pages,
                "map_pages": c.map_pages,
                "filler_pages": c.filler_pages,
                "programs": c.programs,
                "page_reads": c.senses,
                "page_reads_for_copies": c.copy_senses,
                "erases": c.erases,
            })
        });
        let read_cache = self.read_cache.map(
            |c| json!({ "hits": c.hits, "misses": c.misses, "admitted_units": c.admitted_units }),
        );
        // Each entry has the name of its volumes, or null if all volumes have the same name.
        let list = |of_one: &dyn Fn(&VolumesAccount) -> Vec<Value>| -> Vec<Value> {
            let of_volumes = |of: &VolumesAccount| {
                let mut all = of_one(of);
                for entry in &mut all {
                    entry["volume"] = of.name.clone().into();
                }
                all
            };
            self.of_volumes.iter().flat_map(of_volumes).collect()
        };
        let limits = list(&|of| vec![of.limit.json()]);
        let mut cell = json!({
            "name": self.name,
            "state": self.state,
            "transient": self.transient,
            "volumes": self.volumes,
            "threads": self.threads,
            "depth": self.depth,
            "block_bytes": self.block_bytes,
            "seconds": self.window_ns as f64 / 1e9,
            "iops": self.iops,
            "bytes_per_s": self.bytes_per_s,
            "kinds": list(&|of| of.kinds.iter().map(KindAccount::json).collect()),
            "below": list(&|of| of.below.iter().map(LevelAccount::json).collect()),
            "resources": self.shares.iter().map(Share::json).collect::<Vec<_>>(),
            "limit": limits.iter().find(|of| of["kind"] == "resource").or(limits.first()),
            "limits": limits,
            "flash": flash,
            "events_per_io": self.events_per_io,
        });
        if let Some(read_cache) = read_cache {
            cell["read_cache"] = read_cache;
        }
        cell
    }
}
