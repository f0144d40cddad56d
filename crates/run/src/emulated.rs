//! Emulated targets of a run: the system that contains them, and the state of its devices at the start of a cell
//! (measurement).
//!
//! Every cell has a new machine, and thus its own device state. By default it is the state that the workload itself
//! would produce after a long time: the workload-dependent preconditioning of the SNIA Solid State Storage Performance
//! Test Specification. The state follows from the cell's writes, or from its reads if it does not write. If at least
//! half of these operations are sequential, the state is sequential, too.

use crate::outcome::RunError;
use iodyno_drive::clock::Clock;
use iodyno_drive::engine::live::CompletionHandle;
use iodyno_drive::{CellPlan, Length, Medium, active_range, blocks};
use iodyno_emulate::spec::{Kind, Preconditioned, Written};
use iodyno_emulate::{Machine, System};
use iodyno_live::served::{Live, Options, stores_in_memory};
use iodyno_targets::TargetName;
use iodyno_units::{OpKind, Precondition};
use iodyno_workload::{CellSpec, Content, EmulationOptions, Pattern, Spec};
use serde_json::{Value, json};
use std::ops::Range;
use std::sync::Arc;

/// Block size of random preconditioning if the workload has none, bytes: the unit of most mapping tables.
const BLOCK_BYTES_DEFAULT: u32 = 4096;
/// Maximum memory for the stored data of one device in real time, bytes.
const LIVE_BYTES_MAX: u64 = 4 << 30;

/// Emulated system of a run, with the preconditioning of its volumes.
#[derive(Clone, Debug)]
pub struct Emulated {
    /// The system; its volumes are the run's targets, in order. Its device states are placeholders that each cell
    /// replaces.
    pub system: System,
    pub volumes: Vec<EmulatedVolume>,
    /// Whether the system runs in real time, rather than in virtual time.
    pub live: bool,
}

/// An emulated target and its preconditioning.
#[derive(Clone, Debug)]
pub struct EmulatedVolume {
    /// Target name as the user wrote it, stored with the run. A name with a count stands for several volumes.
    pub asked: TargetName,
    /// Name of the volume in results; numbered if the target's name has a count.
    pub name: String,
    /// State of the volume before each cell, such as fresh or written at random.
    pub state: Precondition,
    /// Fraction of the volume's capacity that the preconditioning writes, above 0, at most 1.
    pub fill: f64,
}

impl EmulatedVolume {
    /// State of the volume before a cell with workload `spec`: the state that the cell requests, otherwise the
    /// one that the target's name requests.
    fn before(&self, spec: &Spec, asked: &EmulationOptions, capacity_bytes: u64) -> Preconditioned {
        let fill = asked.fill.unwrap_or(self.fill);
        let how = match asked.precondition {
            Precondition::Workload => self.state,
            other => other,
        };
        let state = Written::of(how, is_sequential(spec), block_bytes(spec));
        let how = match (how, state) {
            (Precondition::Workload, Written::Random { block_bytes }) => {
                rewritten_part(spec, block_bytes, fill, capacity_bytes).unwrap_or(state)
            }
            _ => state,
        };
        Preconditioned { how, fill }
    }
}

impl Emulated {
    /// Returns a copy of the system with each volume in its state at the start of a measurement with workload `spec`.
    pub fn before(&self, spec: &Spec, asked: &EmulationOptions) -> Arc<System> {
        let mut system = self.system.clone();
        for (number, of) in (0..).zip(&self.volumes) {
            let capacity_bytes = system.capacity_bytes(number);
            system.volumes[number as usize].state = of.before(spec, asked, capacity_bytes);
        }
        Arc::new(system)
    }

    /// State of each volume at the start of a cell, as text.
    pub(crate) fn states_for(&self, spec: &Spec, asked: &EmulationOptions) -> Vec<String> {
        let before = |(number, volume): (u32, &EmulatedVolume)| {
            volume.before(spec, asked, self.system.capacity_bytes(number)).to_string()
        };
        (0..).zip(&self.volumes).map(before).collect()
    }

    /// Describes the state of each volume before a measurement that does not itself request a state. "(auto)" marks a
    /// state that follows from the workload.
    pub fn states(&self, spec: &Spec) -> Vec<String> {
        let mut states = self.states_for(spec, &EmulationOptions::default());
        for (state, volume) in states.iter_mut().zip(&self.volumes) {
            if volume.state == Precondition::Workload {
                state.push_str(" (auto)");
            }
        }
        states
    }

    /// Whether a cell's writes are skewed although the volume's flash starts in the steady state of uniform
    /// writes, because the steady state of skewed writes can't be constructed.
    pub(crate) fn is_skew_missing(&self, volume: usize, spec: &Spec) -> bool {
        self.volumes[volume].state == Precondition::Workload
            && has_skewed_writes(spec)
            && !is_sequential(spec)
            && self
                .system
                .devices_of(volume as u32)
                .any(|placed| matches!(placed.device.kind, Kind::Flash(_)))
    }

    /// Medium of each volume, for uses in which the devices' state does not matter.
    pub(crate) fn media(&self) -> Vec<Medium> {
        volumes(&Arc::new(self.system.clone()), 0..self.volumes.len())
    }

    /// Builds a real-time machine for all targets of a cell, and returns it with the medium of each target. The
    /// machine stores written data only if the workload verifies it.
    ///
    /// # Errors
    /// The system can't be built; the error names the violated rule.
    pub(crate) fn served(
        system: &System,
        cell: &CellSpec,
    ) -> Result<(Arc<Live<CompletionHandle>>, Vec<Medium>), String> {
        system.check_served()?;
        let mut machine = Machine::new(system, cell.seed)?;
        let beside: u32 = cell.beside.iter().map(|cell| cell.spec.threads()).sum();
        let threads = cell.spec.threads() + beside;
        let volumes = 0..machine.volumes();
        for volume in volumes.clone() {
            for _ in 0..threads {
                machine.add_worker(volume);
            }
        }
        let stores = match cell.spec.content() {
            Content::Verifiable => stores_in_memory(system, LIVE_BYTES_MAX),
            _ => Vec::new(),
        };
        let live = Live::new(machine, stores, &Options::default(), || Clock::new().now_ns());
        let live = Arc::new(live);
        let medium = |volume| Medium::Live {
            live: Arc::clone(&live),
            volume,
            first_worker: volume * threads,
        };
        Ok((Arc::clone(&live), volumes.map(medium).collect()))
    }

    /// Plans a cell that runs a workload on all volumes. Its time series is a single interval. Failed operations do not
    /// end the cell.
    ///
    /// # Errors
    /// The workload rejects the ramp or the window in `length`.
    pub fn experiment(
        &self,
        name: &str,
        spec: Spec,
        length: Length,
        asked: &EmulationOptions,
    ) -> Result<CellPlan, RunError> {
        let spec =
            length.limit(spec).map_err(|why| RunError::Impossible(format!("{name}: {why}")))?;
        let system = self.before(&spec, asked);
        let mut cell = CellSpec::new(name, spec);
        cell.interval_ns = Some(length.ramp_ns.max(length.window_ns));
        cell.errors_max = u64::MAX;
        Ok(CellPlan::on_system(cell, &system, |volume| self.volumes[volume as usize].name.clone()))
    }

    /// Properties of a volume for the stored run and for display.
    pub fn facts(&self, volume: usize) -> Value {
        let System { name, host, .. } = &self.system;
        let of = self.system.devices_of(volume as u32).next();
        json!({
            "device": self.system.volumes[volume].name,
            "family": of.map(|placed| placed.device.family()),
            "system": name,
            "live": self.live,
            "volumes": self.system.volumes.len(),
            "socket": of.map(|placed| placed.socket),
            "sockets": host.sockets,
            "cores_per_socket": host.cores_per_socket,
            "workers_near": host.workers_near,
            "state": self.volumes[volume].state.word(),
            "fill": self.volumes[volume].fill,
        })
    }
}

/// A workload counts as writing only a part of the preconditioned capacity if its active range is smaller than this
/// fraction of that capacity.
const PART_MAX: f64 = 0.99;

/// State of a device after uniformly random writes to a part of the preconditioned capacity, which is the fraction
/// `fill` of `capacity_bytes`. None if the workload does not write, writes in another pattern, or writes beyond that
/// part.
fn rewritten_part(
    spec: &Spec,
    block_bytes: u32,
    fill: f64,
    capacity_bytes: u64,
) -> Option<Written> {
    let mut patterns = spec.addresses(OpKind::Write).iter().map(|address| &address.pattern);
    let is_uniform = patterns.all(|pattern| matches!(pattern, Pattern::Uniform { .. }));
    let Range { start, end } = active_range(spec, capacity_bytes);
    let share = |bytes: u64| bytes as f64 / capacity_bytes as f64;
    let is_part = share(end - start) < PART_MAX * fill && share(end) <= fill;
    let ppm = |bytes: u64| (share(bytes) * 1e6).round() as u32;
    (spec.issues(OpKind::Write) && is_uniform && is_part).then(|| Written::RandomWithin {
        block_bytes,
        start_ppm: ppm(start),
        end_ppm: ppm(end),
    })
}

fn has_skewed_writes(spec: &Spec) -> bool {
    let mut patterns = spec.addresses(OpKind::Write).iter().map(|address| &address.pattern);
    spec.issues(OpKind::Write) && patterns.any(Pattern::is_skewed)
}

/// Kinds of operation that determine the device's state, with their fractions: writes, or reads if the
/// workload does not write.
fn decisive(spec: &Spec) -> Vec<(OpKind, f64)> {
    let shares = |kind| spec.kinds().filter(move |k| k.0 == kind);
    let writes: Vec<_> = shares(OpKind::Write).collect();
    if writes.is_empty() { shares(OpKind::Read).collect() } else { writes }
}

/// Whether at least half of the writes (or reads, if the workload does not write) are sequential. True for a
/// message log.
fn is_sequential(spec: &Spec) -> bool {
    if spec.log().is_some() {
        return true;
    }
    let (mut sequential, mut all) = (0.0, 0.0);
    for (kind, _) in decisive(spec) {
        for address in spec.addresses(kind) {
            all += address.share;
            if matches!(address.pattern, Pattern::Sequential { run: None, .. } | Pattern::ToEnd) {
                sequential += address.share;
            }
        }
    }
    all > 0.0 && 2.0 * sequential >= all
}

/// Most frequent block size of the writes (or reads, if the workload does not write), bytes.
fn block_bytes(spec: &Spec) -> u32 {
    let decisive = decisive(spec);
    let own = decisive.iter().flat_map(|(kind, _)| spec.blocks(*kind));
    let largest = own.reduce(|a, b| if b.share > a.share { b } else { a });
    let any = || blocks(spec).first().map(|block| block.0);
    largest.map(|block| block.bytes).or_else(any).unwrap_or(BLOCK_BYTES_DEFAULT)
}

/// Media for a range of the volumes of a system in virtual time.
pub(crate) fn volumes(system: &Arc<System>, volumes: Range<usize>) -> Vec<Medium> {
    let medium = |volume| Medium::Model { system: Arc::clone(system), volume: volume as u32 };
    volumes.map(medium).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before(text: &str, state: Precondition) -> Preconditioned {
        let spec = Spec::from_toml(&format!("schema = 1\n{text}")).unwrap();
        let asked = TargetName::parse("model:x").unwrap();
        let volume = EmulatedVolume { name: asked.to_string(), asked, state, fill: 1.0 };
        volume.before(&spec, &EmulationOptions::default(), 1 << 40)
    }

    /// The writes of a workload determine the state; its reads do so only if it does not write.
    #[test]
    fn the_state_follows_the_workload() {
        use Written::{Random, RandomWithin, Sequential};
        for (text, how) in [
            ("[mix]\nread = 1", Random { block_bytes: 4096 }),
            ("block = \"16KiB\"\n[mix]\nread = 1", Random { block_bytes: 16 << 10 }),
            ("[mix]\nread = 1\n[read]\naddresses = \"sequential\"", Sequential),
            (
                "[mix]\nread = 99\nwrite = 1\n[read]\naddresses = \"sequential\"",
                Random { block_bytes: 4096 },
            ),
            ("[mix]\nread = 99\nwrite = 1\n[write]\naddresses = \"sequential\"", Sequential),
            (
                "[mix]\nread = 1\nwrite = 1\n[read]\nblock = \"64KiB\"\n[write]\nblock = [{ size = \"4KiB\", share = 1 }, { size = \"8KiB\", share = 3 }]",
                Random { block_bytes: 8192 },
            ),
            ("block = \"32KiB\"\n[mix]\ntrim = 1", Random { block_bytes: 32 << 10 }),
            ("[log]\nrate = \"50k/s\"", Sequential),
            ("active = \"10%..30%\"\n[mix]\nread = 1", Random { block_bytes: 4096 }),
            ("active = \"99.5%\"\n[mix]\nwrite = 1", Random { block_bytes: 4096 }),
            (
                "active = \"10%..30%\"\n[mix]\nwrite = 1",
                RandomWithin { block_bytes: 4096, start_ppm: 100_000, end_ppm: 300_000 },
            ),
        ] {
            assert_eq!(before(text, Precondition::Workload).how, how, "{text}");
        }
        let seq = "block = \"1MiB\"\n[mix]\nwrite = 1\n[write]\naddresses = \"sequential\"";
        assert_eq!(
            before(seq, Precondition::Random { block_bytes: None }).how,
            Random { block_bytes: 1 << 20 }
        );
        assert_eq!(before(seq, Precondition::Fresh).how, Written::Fresh);
    }
}
