//! Emulated targets of a run: the system that contains them, and the state of its devices at the start of a cell
//! (measurement).
//!
//! Every cell has a new machine, and thus its own device state. By default it is the state that the cell's workloads
//! would produce after a long time ([`LongRun`]). Exceptions are cells of a method that continue on the machine of the
//! previous cell ([`devices`]).

pub(crate) mod devices;

use crate::long_run_state::{LongRun, mean_block_bytes};
use crate::outcome::RunError;
use devices::Prepared;
use iodyno_drive::clock::Clock;
use iodyno_drive::engine::live::CompletionHandle;
use iodyno_drive::{CellPlan, Length, Medium};
use iodyno_emulate::spec::{Kind, Preconditioned, Written};
use iodyno_emulate::{Machine, System};
use iodyno_live::served::{Live, Options, stores_in_memory};
use iodyno_targets::TargetName;
use iodyno_units::{OpKind, Precondition};
use iodyno_workload::{CellSpec, Content, EmulationOptions, Settle, Spec};
use serde_json::{Value, json};
use std::ops::Range;
use std::sync::Arc;

/// Maximum memory for the stored data of one device in real time, bytes.
const LIVE_BYTES_MAX: u64 = 4 << 30;

/// Minimum number of a device's stalls in a cell that ends early. A part of a period at the end then changes the mean
/// by at most a tenth of the stalls' effect.
const STALLS_MIN: f64 = 10.0;

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
    /// State of the volume before a cell: the state that the cell requests, otherwise the one that the target's name
    /// requests. `long_run`: the cell's workloads on the volume.
    fn before(&self, long_run: LongRun<'_>, asked: &EmulationOptions) -> Preconditioned {
        let fill = asked.fill.unwrap_or(self.fill);
        let how = match asked.precondition {
            Precondition::Workload => self.state,
            other => other,
        };
        let block_bytes = long_run.block_bytes();
        let state = Written::of(how, long_run.is_sequential(), block_bytes);
        match (how, state) {
            (Precondition::Workload, Written::Random { .. }) => {
                match long_run.rewritten_part(block_bytes, fill) {
                    Some(how) => Preconditioned { how, fill },
                    None => Preconditioned { how: state, fill: fill * long_run.mapped() },
                }
            }
            _ => Preconditioned { how: state, fill },
        }
    }
}

impl Emulated {
    /// Returns a copy of the system with each volume in its state at the start of a cell.
    pub fn before(&self, cell: &CellSpec, asked: &EmulationOptions) -> Arc<System> {
        self.in_states(&self.states_before(cell, asked))
    }

    /// Returns a copy of the system with its volumes in the given states.
    fn in_states(&self, states: &[Preconditioned]) -> Arc<System> {
        let mut system = self.system.clone();
        for (volume, state) in system.volumes.iter_mut().zip(states) {
            volume.state = *state;
        }
        Arc::new(system)
    }

    fn states_before(&self, cell: &CellSpec, asked: &EmulationOptions) -> Vec<Preconditioned> {
        self.states_after(cell, asked, &[])
    }

    /// State of each volume before a cell, after a method's earlier steps. A volume that was purged holds only the data
    /// written since, and that of the cell's own writes.
    fn states_after(
        &self,
        cell: &CellSpec,
        asked: &EmulationOptions,
        prepared: &[Prepared],
    ) -> Vec<Preconditioned> {
        let specs = specs(cell);
        let before = |(number, volume): (u32, &EmulatedVolume)| {
            let long_run = self.long_run(number, &specs);
            let written = prepared.get(number as usize).and_then(|volume| volume.written);
            let fill = asked.fill.or_else(|| written.map(|end| long_run.data_end(end)));
            volume.before(long_run, &EmulationOptions { fill, ..*asked })
        };
        (0..).zip(&self.volumes).map(before).collect()
    }

    /// Whether all volumes have been written before the cell.
    pub(crate) fn were_written(&self, cell: &CellSpec) -> bool {
        let before = self.states_before(cell, &EmulationOptions::default());
        before.iter().all(|state| state.how != Written::Fresh)
    }

    fn long_run<'a>(&'a self, volume: u32, specs: &'a [&'a Spec]) -> LongRun<'a> {
        let flash = self.system.devices_of(volume).find_map(|placed| match &placed.device.kind {
            Kind::Flash(flash) => Some(&**flash),
            _ => None,
        });
        let devices = self.system.devices_of(volume).count();
        LongRun {
            specs,
            flash: flash.map(|flash| (flash, devices)),
            capacity_bytes: self.system.capacity_bytes(volume),
        }
    }

    /// Describes the state of each volume before a cell that does not itself request a state. "(auto)" marks a state that
    /// follows from the workloads.
    pub fn states(&self, cell: &CellSpec) -> Vec<String> {
        let states = self.states_before(cell, &EmulationOptions::default());
        let mut states: Vec<String> = states.iter().map(ToString::to_string).collect();
        for (state, volume) in states.iter_mut().zip(&self.volumes) {
            if volume.state == Precondition::Workload {
                state.push_str(" (auto)");
            }
        }
        states
    }

    /// Whether a cell's writes are skewed although the volume's flash starts in the steady state of uniform
    /// writes, because the steady state of skewed writes can't be constructed.
    pub(crate) fn is_skew_missing(&self, volume: usize, cell: &CellSpec) -> bool {
        let specs = specs(cell);
        let long_run = self.long_run(volume as u32, &specs);
        self.volumes[volume].state == Precondition::Workload
            && long_run.flash.is_some()
            && long_run.is_skewed()
            && !long_run.is_sequential()
    }

    /// End condition of a cell on some volumes whose devices may stall for housekeeping: the cell must contain several
    /// stalls, or run to its limits.
    pub(crate) fn settle_over_stalls(
        &self,
        settle: Settle,
        spec: &Spec,
        volumes: Range<usize>,
    ) -> Settle {
        let stall_bytes = |volume: usize| {
            let devices = || self.system.devices_of(volume as u32);
            let every = devices().filter_map(|placed| match &placed.device.kind {
                Kind::Flash(flash) => Some(flash.translation.stall?.every_bytes),
                _ => None,
            });
            every.max().unwrap_or(0) as f64 * devices().count() as f64
        };
        let bytes: f64 = volumes.map(stall_bytes).sum::<f64>() * STALLS_MIN;
        let ops = match written_per_op(spec) {
            _ if bytes <= 0.0 => return settle,
            Some(written_bytes) if written_bytes > 0.0 => bytes / written_bytes,
            Some(_) => return settle,
            None => f64::INFINITY,
        };
        Settle { ops_min: settle.ops_min.max(ops as u64), ..settle }
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
        let mut cell = CellSpec::new(name, spec);
        let system = self.before(&cell, asked);
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

/// Mean number of bytes that an operation of a workload writes; `None` if it is not known in advance.
fn written_per_op(spec: &Spec) -> Option<f64> {
    if spec.log().is_some() {
        return None;
    }
    let all: f64 = spec.kinds().map(|(_, share)| share).sum();
    let writes = spec.kinds().filter(|(kind, _)| *kind == OpKind::Write);
    let written: f64 = writes.map(|(kind, share)| share * mean_block_bytes(spec, kind)).sum();
    Some(written / all)
}

/// The workloads of a cell, which run at the same time.
fn specs(cell: &CellSpec) -> Vec<&Spec> {
    std::iter::once(&cell.spec).chain(cell.beside.iter().map(|cell| &cell.spec)).collect()
}

/// Media for a range of the volumes of a system in virtual time.
pub(crate) fn volumes(system: &Arc<System>, volumes: Range<usize>) -> Vec<Medium> {
    let medium = |volume| Medium::Model { system: Arc::clone(system), volume: volume as u32 };
    volumes.map(medium).collect()
}
