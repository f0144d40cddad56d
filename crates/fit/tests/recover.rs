//! Simulate and recover: devices with randomly drawn parameters are measured in virtual time. A fit that starts from
//! the device of the catalog is compared with the drawn parameters. A few devices of each family run in `./test`;
//! `soak_of_drawn_devices` draws `IODYNO_FIT_DEVICES` devices of each family in `IODYNO_FIT_FAMILIES`.

use iodyno_catalog::{Kind, find};
use iodyno_drive::{Length, Unobserved, drive_model};
use iodyno_emulate::describe::{self, DescribedDevice};
use iodyno_emulate::spec;
use iodyno_fit::{
    Chosen, Family, Figure, Fitted, HELD_OUT, Known, Measured, Observed, Parameter, Start,
    device_file, fit, fit_structures, parameters, precondition, probes, steady_probes,
};
use iodyno_run::{Emulated, Files, emulated};
use iodyno_targets::TargetName;
use iodyno_units::rng::{Generator, below, stream};
use iodyno_workload::EmulationOptions;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Largest difference of a drawn parameter from that of the catalog's device, in the logarithm: a factor of 1.8.
const DRAWN: f64 = 0.6;

/// A drawn device and what the fit found.
struct Trial {
    drawn: Vec<f64>,
    fitted: Fitted,
    like: DescribedDevice,
    start: Start,
}

/// A number between -1 and 1.
fn draw(rng: &mut Generator) -> f64 {
    below(rng, 1 << 30) as f64 / f64::from(1 << 29) - 1.0
}

/// Emulated target of the device from which a family's first fit starts.
fn start_target(family: Family) -> String {
    target_of(family.devices()[0])
}

fn target_of(device: &str) -> String {
    format!("model:{device}?state=sequential")
}

fn emulated_device(target: &str) -> Emulated {
    emulated(&[TargetName::parse(target).unwrap()], &mut Files::default()).unwrap().unwrap()
}

/// Changes all fitted parameters of a device at random, within their bounds. A disk's parameters stay consistent.
fn change(device: &mut spec::Device, all: &[Parameter], rng: &mut Generator) -> Vec<f64> {
    for parameter in all {
        let value = parameter.of(device).unwrap() * (DRAWN * draw(rng)).exp();
        parameter.set(device, value.clamp(parameter.bounds.0, parameter.bounds.1));
    }
    if let spec::Kind::Disk(disk) = &mut device.kind {
        disk.inner_bytes_per_s = disk.inner_bytes_per_s.min(disk.outer_bytes_per_s * 0.9);
        let way_ns = disk.full_stroke_ns - disk.track_to_track_ns;
        disk.average_seek_ns = disk.track_to_track_ns + way_ns / 2;
    }
    all.iter().map(|parameter| parameter.of(device).unwrap()).collect()
}

/// Measures the cells of a fit on a device.
fn measure(on: &Emulated, family: Family, seed: u64) -> (Vec<Measured>, Vec<Measured>) {
    let time_ns = if family == Family::Disk { 20_000_000_000 } else { 400_000_000 };
    let mut probes = probes(family, time_ns, false);
    if family == Family::Flash {
        // In virtual time, the steady state is constructed.
        probes.extend(steady_probes(1 << 30, time_ns).into_iter().skip(1));
    }
    // With the same random numbers, all cells would err together.
    let cells = (0_u64..).zip(probes).map(|(number, probe)| {
        let limits = probe.spec.limits();
        let window_ns = limits.time_ns.unwrap();
        let length = Length { ramp_ns: limits.ramp_ns, window_ns };
        let precondition = precondition(&probe.name);
        let asked = EmulationOptions { precondition, ..EmulationOptions::default() };
        let plan = on.experiment(&probe.name, probe.spec.clone(), length, &asked).unwrap();
        let mut plan = plan.warmed_up();
        plan.cell.seed = seed + (number << 8);
        plan.cell.interval_ns = Some(window_ns / 20);
        let ran = drive_model(&plan, &AtomicBool::new(false), &mut Unobserved).unwrap();
        let observed = Observed::of(&ran.cells[0]);
        Measured { name: probe.name, spec: probe.spec, precondition, observed }
    });
    let (fitted, held_out) = cells.partition(|cell| !cell.name.starts_with(HELD_OUT));
    (fitted, held_out)
}

/// Draws a device like one of the catalog, measures it, and fits the catalog's device to it.
fn trial(device: &str, seed: u64) -> Trial {
    let target = target_of(device);
    let file = find(Kind::Device, device).unwrap();
    let like = describe::device(&file.name, &file.text).unwrap();
    let mut truth = emulated_device(&target);
    let device = &mut truth.system.devices_mut().next().unwrap().device;
    let family = Family::of(&like.device.kind);
    let is_steady = family == Family::Flash;
    let drawn = change(device, &parameters(&like.device, is_steady), &mut stream(seed, "twin", 0));
    let (cells, held_out) = measure(&truth, family, seed);
    // Another seed than that of the measurement, as for a real device.
    let start = Start { target, capacity_bytes: None, seed: seed + 1000, stop: Arc::default() };
    let fitted = fit(&start, &cells, &held_out).unwrap();
    Trial { drawn, fitted, like, start }
}

/// Counts over several trials.
#[derive(Default)]
struct Score {
    identified: u32,
    /// Intervals of parameters that are known, identified or roughly.
    intervals: u32,
    /// Of these, the intervals that contain the drawn value.
    covered: u32,
    /// Identified parameters that are more than 5 % off.
    off: u32,
    of_mean: Vec<f64>,
    of_p99: Vec<f64>,
    text: String,
}

impl Score {
    fn add(&mut self, seed: u64, trial: &Trial) {
        let Trial { drawn, fitted, like, .. } = trial;
        let name = &like.device.name;
        let _ = writeln!(self.text, "{name} {seed}, scale {:.2}", fitted.scale);
        for (estimate, truth) in fitted.estimates.iter().zip(drawn) {
            let (low, high) = estimate.interval;
            let is_covered = (low..=high).contains(truth);
            let error = estimate.value / truth - 1.0;
            if estimate.known != Known::NotIdentified {
                self.intervals += 1;
                self.covered += u32::from(is_covered);
            }
            if estimate.known == Known::Identified {
                self.identified += 1;
                self.off += u32::from(error.abs() > 0.05);
            }
            let _ = writeln!(
                self.text,
                "  {:25} {truth:14.2} {:+6.1} % [{:+5.1} {:+5.1}] {:?}{}",
                estimate.parameter.key,
                error * 100.0,
                (low / estimate.value - 1.0) * 100.0,
                (high / estimate.value - 1.0) * 100.0,
                estimate.known,
                if is_covered { "" } else { ", not covered" }
            );
        }
        for prediction in &fitted.held_out {
            let error = prediction.error();
            if prediction.of.figure == Figure::Mean && error.abs() > 0.1 {
                let (cell, kind) = (&prediction.cell, prediction.of.kind.name());
                let _ = writeln!(self.text, "  {cell} {kind}: {:+.1} %", error * 100.0);
            }
        }
        let errors = |figure: Figure| {
            let of = fitted.held_out.iter().filter(move |p| p.of.figure == figure);
            of.map(|p| p.error().abs())
        };
        self.of_mean.extend(errors(Figure::Mean));
        self.of_p99.extend(errors(Figure::P99));
    }

    /// Quantile `q` of the errors, without interpolation.
    fn quantile(errors: &[f64], q: f64) -> f64 {
        let mut sorted = errors.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[((sorted.len() - 1) as f64 * q).round() as usize]
    }

    fn line(&self) -> String {
        format!(
            "{} identified, {} more than 5 % off; {} intervals, {:.1} % hold; held out: mean {:.1} % (median), {:.1} % (90th percentile); p99 {:.1} % (median)",
            self.identified,
            self.off,
            self.intervals,
            f64::from(self.covered) / f64::from(self.intervals.max(1)) * 100.0,
            Self::quantile(&self.of_mean, 0.5) * 100.0,
            Self::quantile(&self.of_mean, 0.9) * 100.0,
            Self::quantile(&self.of_p99, 0.5) * 100.0,
        )
    }
}

/// Drawn devices are recovered: what is called identified is right, the intervals hold nearly always, and the cells that
/// were held out are predicted. The device file gives the twin.
#[test]
fn drawn_devices_are_recovered() {
    let all = [
        ("virtual-disk", 2, 4),
        ("virtual-disk-thread", 2, 4),
        ("ramdisk-ddr3-16g", 1, 3),
        ("hdd-nearline-20t", 1, 4),
    ];
    for (device, drawn, least) in all {
        let mut score = Score::default();
        for seed in 1..=drawn {
            let trial = trial(device, seed);
            score.add(seed, &trial);
            let text =
                device_file(&trial.fitted, &trial.like, &trial.start, "id", "a \"target\"\n");
            let twin = describe::device("twin", &text).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
            for estimate in &trial.fitted.estimates {
                let value = estimate.parameter.of(&twin.device).unwrap();
                assert!((value / estimate.value - 1.0).abs() < 0.02, "{estimate:?}\n{text}");
            }
        }
        let what = format!("{}\n{}", score.line(), score.text);
        assert!(score.identified >= drawn as u32 * least, "{what}");
        assert_eq!(score.off, 0, "{what}");
        assert!(score.intervals - score.covered <= 1, "{what}");
        assert!(Score::quantile(&score.of_mean, 0.5) < 0.05, "{what}");
        assert!(Score::quantile(&score.of_p99, 0.5) < 0.15, "{what}");
    }
}

/// If one limit binds in all cells, they don't determine the other limits or the latencies. No wrong value is then
/// reported as known.
#[test]
fn what_the_cells_cannot_tell_is_not_called_known() {
    let target = start_target(Family::Volume);
    let mut truth = emulated_device(&target);
    let device = &mut truth.system.devices_mut().next().unwrap().device;
    let all = parameters(device, false);
    let drawn = change(device, &all, &mut stream(7, "twin", 0));
    let (cells, _) = measure(&truth, Family::Volume, 7);
    for kept in [&["read-4k-q64"][..], &["read-4k-q16", "read-4k-q64", "read-4k-q256"]] {
        let cells: Vec<Measured> =
            cells.iter().filter(|cell| kept.contains(&cell.name.as_str())).cloned().collect();
        let start =
            Start { target: target.clone(), capacity_bytes: None, seed: 1, stop: Arc::default() };
        let fitted = fit(&start, &cells, &[]).unwrap();
        for (estimate, truth) in fitted.estimates.iter().zip(&drawn) {
            let (low, high) = estimate.interval;
            let is_covered = (low..=high).contains(truth);
            assert!(
                estimate.known == Known::NotIdentified || is_covered,
                "{kept:?}: {estimate:?} for {truth}"
            );
        }
        let limit = fitted.estimate("throughput_limit.rate").unwrap();
        assert_eq!(limit.known, Known::NotIdentified, "{kept:?}: {limit:?}");
        assert_ne!(fitted.estimate("volume.write").unwrap().known, Known::Identified);
    }
}

/// Only SSDs have a steady state of random writes: a volume's writes are fitted whatever the state in its name.
#[test]
fn writes_of_a_volume_are_fitted_in_any_state() {
    let mut truth = emulated_device("model:virtual-disk");
    let device = &mut truth.system.devices_mut().next().unwrap().device;
    let all = parameters(device, false);
    let drawn = change(device, &all, &mut stream(9, "twin", 0));
    let (cells, held_out) = measure(&truth, Family::Volume, 9);
    let target = "model:virtual-disk".to_owned();
    let start = Start { target, capacity_bytes: None, seed: 1, stop: Arc::default() };
    let fitted = fit(&start, &cells, &held_out).unwrap();
    let at = all.iter().position(|parameter| parameter.key == "volume.write").unwrap();
    let write = fitted.estimate("volume.write").unwrap();
    assert_ne!(write.known, Known::NotIdentified, "{write:?}");
    assert!((write.value / drawn[at] - 1.0).abs() < 0.05, "{write:?} for {}", drawn[at]);
}

/// The chosen structure is that of the measured device.
#[test]
fn the_structure_of_the_device_is_chosen() {
    let family = Family::Volume;
    let start = |(seed, device): (u64, &&str)| Start {
        target: target_of(device),
        capacity_bytes: None,
        seed,
        stop: Arc::default(),
    };
    let starts: Vec<Start> = (1..).zip(family.devices()).map(start).collect();
    let truth = emulated_device(&target_of("virtual-disk-thread"));
    let (cells, _) = measure(&truth, family, 3);
    let Chosen { index, fitted, others } = fit_structures(&starts, &cells, &[]).unwrap();
    assert_eq!(starts[index].target, target_of("virtual-disk-thread"), "{others:?}");
    assert!(!fitted.is_misfit() && others[0].1 > 5.0, "{} {others:?}", fitted.scale);
    // Two cells don't tell the structures apart: the one with more parameters is not chosen for fitting noise.
    let truth = emulated_device(&target_of("virtual-disk"));
    let (mut few, _) = measure(&truth, family, 3);
    few.retain(|cell| ["read-4k-q16", "mix-70-4k-q16"].contains(&cell.name.as_str()));
    let Chosen { index, others, .. } = fit_structures(&starts, &few, &[]).unwrap();
    assert_eq!((few.len(), index), (2, 0), "{others:?}");
}

/// A device of another kind is a misfit: a disk is not fitted by a volume.
#[test]
fn another_kind_of_device_is_a_misfit() {
    let disk = emulated_device(&start_target(Family::Disk));
    let (cells, _) = measure(&disk, Family::Disk, 1);
    let start = Start {
        target: start_target(Family::Volume),
        capacity_bytes: None,
        seed: 1,
        stop: Arc::default(),
    };
    let fitted = fit(&start, &cells, &[]).unwrap();
    assert!(fitted.is_misfit(), "scale {}", fitted.scale);
}

#[test]
#[ignore = "takes minutes to hours"]
fn soak_of_drawn_devices() {
    let devices = std::env::var("IODYNO_FIT_DEVICES").map_or(5, |n| n.parse().unwrap());
    let families = std::env::var("IODYNO_FIT_FAMILIES").unwrap_or_default();
    for family in Family::ALL {
        if !families.is_empty() && !families.split(',').any(|name| name == family.name()) {
            continue;
        }
        for device in family.devices() {
            let mut score = Score::default();
            for seed in 1..=devices {
                score.add(seed, &trial(device, seed));
                println!(
                    "{}{device}, {seed} drawn: {}",
                    std::mem::take(&mut score.text),
                    score.line()
                );
            }
        }
    }
}
