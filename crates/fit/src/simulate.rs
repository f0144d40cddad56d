//! Simulates a measured cell on a device with given parameters.

use crate::parameter::Parameter;
use crate::{FitError, Measured, Start, are_printed};
use iodyno_drive::{Length, Unobserved, blocks, drive_model};
use iodyno_emulate::spec::{Device, Kind};
use iodyno_measure::Cell;
use iodyno_run::{Emulated, Files, emulated};
use iodyno_targets::TargetName;
use iodyno_units::{OpKind, Precondition};
use iodyno_workload::{EmulationOptions, Spec};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Minimum number of operations of a simulated cell, per operation in flight, so that the start of a cell does not
/// dominate.
const ROUNDS_MIN: f64 = 20.0;
/// Minimum number of operations of a simulated cell: enough for a median.
const OPS_MIN: f64 = 150.0;
/// Mean operation size, in 4 KiB pages, above which fewer operations are simulated.
const PAGES_MAX: f64 = 4.0;
/// Approximate capacity of a scaled-down SSD: for measured cells, and for printed figures, which are few. Smaller SSDs
/// have too few blocks: the fitted program time is 5 % off at 2 GiB, the spare at 8 GiB.
const SIMULATED_BYTES: (u64, u64) = (8 << 30, 32 << 30);
/// Maximum number of simulated events of a warm-up, which fills buffers and caches. The second number is for SSDs that
/// are not in the steady state of random writes; these have only a small buffer to fill.
const WARM_UP_EVENTS_MAX: (u64, u64) = (400_000, 80_000);
/// Approximate number of pages in the map of an SSD that is simulated outside the steady state, and so collects no
/// garbage.
const MAP_PAGES: u64 = 1 << 15;
/// Number of operations of a cell in the steady state of random writes, as a multiple of that of other cells.
const STEADY_OPS: u64 = 5;
/// Window for printed figures, whose length is not known.
const PRINTED_WINDOW_NS: u64 = 10_000_000_000;
/// Maximum length of a simulated window, as a multiple of the measured one. Longer windows give a steady cell smaller
/// errors.
const WINDOW_MAX: f64 = 20.0;

/// Length of a measured cell, in windows of a limit, from which the limit's allowance hardly changes the figures.
const ALLOWANCE_WINDOWS: u64 = 20;

/// An emulated system whose one device has the parameters to be fitted.
#[derive(Clone, Debug)]
pub(crate) struct Bench {
    device: Device,
    emulated: Emulated,
    /// Approximate capacity to which [`Self::scaled_down`] reduces a larger SSD.
    simulated_bytes: u64,
    stop: Arc<AtomicBool>,
}

impl Bench {
    /// Takes the device of an emulated target, such as `model:nvme-tlc-3840g?state=sequential`, and resizes it to
    /// [`Start::capacity_bytes`].
    pub(crate) fn new(start: &Start, cells: &[Measured]) -> Result<Self, FitError> {
        let (target, capacity_bytes) = (&start.target, start.capacity_bytes);
        let name = TargetName::parse(target).map_err(|e| FitError::Start(e.to_string()))?;
        let found =
            emulated(&[name], &mut Files::default()).map_err(|e| FitError::Start(e.to_string()))?;
        let mut emulated: Emulated =
            found.ok_or_else(|| FitError::Start(format!("`{target}` is not emulated")))?;
        let mut devices = emulated.system.devices_mut();
        let (Some(placed), None) = (devices.next(), devices.next()) else {
            return Err(FitError::Start(
                "a fit starts from a single device: name one from the catalog, without an array"
                    .to_owned(),
            ));
        };
        if let Some(bytes) = capacity_bytes {
            resize(&mut placed.device, bytes);
        }
        let device = placed.device.clone();
        drop(devices);
        let simulated_bytes =
            if are_printed(cells) { SIMULATED_BYTES.1 } else { SIMULATED_BYTES.0 };
        Ok(Self { device, emulated, simulated_bytes, stop: Arc::clone(&start.stop) })
    }

    /// The device at full size: that of the start, or with the parameter values that [`Self::with`] has set.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Whether one of the cells starts in the steady state of random writes, which only SSDs have.
    pub(crate) fn is_steady(&self, cells: &[Measured]) -> bool {
        if !matches!(self.device.kind, Kind::Flash(_)) {
            return false;
        }
        let of_target = self.emulated.volumes.first().map(|volume| volume.state);
        cells.iter().any(|cell| match (cell.precondition, of_target) {
            (Precondition::Workload, Some(Precondition::Workload)) => {
                cell.spec.issues(OpKind::Write)
            }
            (Precondition::Workload, Some(state)) | (state, _) => {
                matches!(state, Precondition::Random { .. })
            }
        })
    }

    /// Whether a cell longer than the measured one would exhaust burst credits or an SLC cache that the measurement
    /// did not.
    fn is_used_up(&self, spec: &Spec) -> bool {
        let writes = spec.kinds().any(|(kind, _)| kind != OpKind::Read);
        let has_slc = matches!(&self.device.kind, Kind::Flash(flash) if flash.nand.slc.is_some());
        self.device.limits.iter().any(|limit| limit.credits.is_some()) || writes && has_slc
    }

    /// Whether a measured cell may have used a limit's allowance, which lets an idle device do the work of one window of
    /// the limit at once. The simulated cell must then be as long as the measured one: `measured_ns` after the ramp.
    fn has_allowance(&self, spec: &Spec, measured_ns: u64) -> bool {
        self.device.limits.iter().any(|limit| {
            spec.limits().ramp_ns < 2 * limit.window_ns
                && measured_ns < ALLOWANCE_WINDOWS * limit.window_ns
        })
    }

    /// Copy of the bench whose device has the given parameter values.
    pub(crate) fn with(&self, parameters: &[Parameter], values: &[f64]) -> Self {
        let mut bench = self.clone();
        if let Some(placed) = bench.emulated.system.devices_mut().next() {
            for (parameter, value) in parameters.iter().zip(values) {
                parameter.set(&mut bench.device, *value);
            }
            repair(&mut bench.device);
            placed.device = bench.device.clone();
        }
        bench
    }

    /// The emulated system with a smaller SSD, for cells in the steady state of random writes: a smaller SSD collects
    /// garbage many times in a short window. In other cells, it would use up its spare, which the measured device did
    /// not.
    fn scaled_down(&self) -> Emulated {
        let mut emulated = self.emulated.clone();
        if let Some(placed) = emulated.system.devices_mut().next()
            && let Kind::Flash(flash) = &mut placed.device.kind
        {
            flash.scale_down((flash.capacity_bytes / self.simulated_bytes) as u32);
        }
        emulated
    }

    /// Simulates a measured cell with about `ops` operations. The warm-up is short, because a fit repeats the
    /// simulation often.
    pub(crate) fn simulate(&self, of: &Measured, ops: u64, seed: u64) -> Result<Cell, FitError> {
        let events_max = match &self.device.kind {
            Kind::Flash(_) if !self.is_steady(std::slice::from_ref(of)) => WARM_UP_EVENTS_MAX.1,
            _ => WARM_UP_EVENTS_MAX.0,
        };
        self.simulate_warmed(of, ops, seed, events_max)
    }

    /// Simulates a measured cell for a prediction. The warm-up of a disk lasts until its cache is at rest, which takes
    /// long with skewed writes; other devices are warmed up as in [`Self::simulate`].
    pub(crate) fn predict(&self, of: &Measured, ops: u64, seed: u64) -> Result<Cell, FitError> {
        match &self.device.kind {
            Kind::Disk(_) => self.simulate_warmed(of, ops, seed, u64::MAX),
            _ => self.simulate(of, ops, seed),
        }
    }

    fn simulate_warmed(
        &self,
        of: &Measured,
        ops: u64,
        seed: u64,
        events_max: u64,
    ) -> Result<Cell, FitError> {
        let fail = |why: String| FitError::Simulation { cell: of.name.clone(), why };
        let longest = if self.is_used_up(&of.spec) { 1.0 } else { WINDOW_MAX };
        let window_ns = of.observed.window_ns.unwrap_or(PRINTED_WINDOW_NS) as f64;
        // In a steady state, collections and host writes alternate slowly.
        let is_steady = self.is_steady(std::slice::from_ref(of));
        let ops = if is_steady { ops * STEADY_OPS } else { ops };
        let mut length = length(&of.spec, of.observed.ops_per_s, window_ns * longest, ops);
        if !self.device.limits.is_empty() {
            // The ramp uses up a limit's allowance, as in the measurement.
            length.ramp_ns = of.spec.limits().ramp_ns;
        }
        let measured_ns = of.observed.window_ns;
        if let Some(ns) = measured_ns.filter(|ns| self.has_allowance(&of.spec, *ns)) {
            length.window_ns = ns;
        }
        let options =
            EmulationOptions { precondition: of.precondition, ..EmulationOptions::default() };
        let scaled = is_steady.then(|| self.scaled_down());
        let mut plan = scaled
            .as_ref()
            .unwrap_or(&self.emulated)
            .experiment(&of.name, of.spec.clone(), length, &options)
            .map_err(|e| fail(e.to_string()))?;
        plan.cell.seed = seed;
        // Intervals show how much neighbouring operations have in common.
        plan.cell.interval_ns = Some((length.window_ns / 20).max(1));
        // The measured cell has had its ramp; the simulated one is as short as its figures allow.
        plan = plan.warmed_up();
        if let (Kind::Flash(flash), false) = (&self.device.kind, is_steady) {
            let k = (flash.capacity_bytes / 4096 / MAP_PAGES).next_power_of_two();
            plan.represent = Some(k.clamp(1, 1 << 20) as u32);
        }
        plan.warm_up_events_max = plan.warm_up_events_max.map(|most| most.min(events_max));
        let ran =
            drive_model(&plan, &self.stop, &mut Unobserved).map_err(|e| fail(e.to_string()))?;
        if self.stop.load(Ordering::Relaxed) {
            return Err(FitError::Interrupted);
        }
        ran.cells.into_iter().next().ok_or_else(|| fail("no result".to_owned()))
    }
}

/// Ramp and window in which about `ops` operations complete at a rate of `per_s`. The window is at most `longest_ns`.
fn length(spec: &Spec, per_s: f64, longest_ns: f64, ops: u64) -> Length {
    let in_flight = f64::from(spec.threads()) * f64::from(spec.depth());
    let mean_bytes: f64 = blocks(spec).iter().map(|(bytes, share)| f64::from(*bytes) * share).sum();
    let ops_of_pages = ops as f64 * PAGES_MAX * 4096.0 / mean_bytes.max(4096.0);
    let ops = (ops as f64).min(ops_of_pages).max(OPS_MIN).max(ROUNDS_MIN * in_flight);
    let window_ns = (ops / per_s.max(1e-3) * 1e9).min(longest_ns).max(1e6);
    let ramp_ns = (spec.limits().ramp_ns as f64).min(window_ns / 2.0);
    Length { ramp_ns: ramp_ns as u64, window_ns: window_ns as u64 }
}

/// Smallest spare that a fit tries, as a fraction of the capacity: a scaled-down device keeps some blocks open or free.
const SPARE_MIN: f64 = 0.04;

/// Moves parameter values that contradict each other to the nearest values that a device can have.
fn repair(device: &mut Device) {
    if let Kind::Flash(flash) = &mut device.kind {
        let used = flash.capacity_bytes as f64 * (1.0 + SPARE_MIN);
        let most = (1.0 - used / flash.nand.raw_bytes as f64).max(0.0);
        flash.translation.reserved_share = flash.translation.reserved_share.min(most);
    }
    if let Kind::Disk(disk) = &mut device.kind {
        disk.inner_bytes_per_s = disk.inner_bytes_per_s.min(disk.outer_bytes_per_s);
        disk.full_stroke_ns = disk.full_stroke_ns.max(disk.track_to_track_ns + 15);
        let way = disk.full_stroke_ns - disk.track_to_track_ns;
        let least = disk.track_to_track_ns + way.div_ceil(3);
        let most = disk.track_to_track_ns + way * 11 / 15;
        disk.average_seek_ns = disk.average_seek_ns.clamp(least, most);
    }
}

/// Gives a device another capacity. An SSD keeps its ratio of raw to usable space and gets enough blocks on each
/// plane.
fn resize(device: &mut Device, bytes: u64) {
    match &mut device.kind {
        Kind::Volume(volume) => volume.capacity_bytes = bytes / 512 * 512,
        Kind::Memory(memory) => memory.capacity_bytes = bytes / 512 * 512,
        Kind::Disk(disk) => disk.capacity_bytes = bytes / 512 * 512,
        Kind::Flash(flash) => {
            let ratio = flash.nand.raw_bytes as f64 / flash.capacity_bytes as f64;
            flash.capacity_bytes = bytes / 4096 * 4096;
            let raw = flash.capacity_bytes as f64 * ratio;
            let nand = &mut flash.nand;
            let planes = u64::from(nand.channels * nand.dies_per_channel * nand.planes);
            let row = planes * u64::from(nand.page_bytes);
            // Small blocks for a small device, so that a plane has enough of them.
            let blocks = (raw / (row * u64::from(nand.pages_per_block)) as f64).max(BLOCKS_MIN);
            let pages = ((raw / row as f64 / blocks).floor() as u32).clamp(1, nand.pages_per_block);
            nand.pages_per_block = pages;
            let block_row = row * u64::from(pages);
            nand.raw_bytes = (raw / block_row as f64).ceil() as u64 * block_row;
        }
    }
}

/// Fewest blocks on each plane of a resized SSD.
const BLOCKS_MIN: f64 = 64.0;
