//! Simulate and recover: devices with randomly drawn parameters are measured in virtual time, fitted from the catalog's
//! device, and compared with what was drawn.

use iodyno_catalog::{Kind, find};
use iodyno_drive::{Length, Unobserved, drive_model};
use iodyno_emulate::describe;
use iodyno_fit::{Family, Figure, Known, Measured, Start, fit, parameters, probes};
use iodyno_run::{Emulated, Files, emulated};
use iodyno_targets::TargetName;
use iodyno_units::rng::{Generator, below, stream};
use iodyno_workload::EmulationOptions;
use std::sync::atomic::AtomicBool;

/// A number between 0 and 1.
fn draw(rng: &mut Generator) -> f64 {
    below(rng, 1 << 30) as f64 / f64::from(1 << 30)
}

fn bench(target: &str) -> Emulated {
    emulated(&[TargetName::parse(target).unwrap()], &mut Files::default()).unwrap().unwrap()
}

/// Measures the probes of a family on a device, each for a second of virtual time.
fn measure(on: &Emulated, family: Family, seed: u64) -> (Vec<Measured>, Vec<Measured>) {
    let probes = probes(family, if family == Family::Disk { 20_000_000_000 } else { 400_000_000 }, false);
    let cells = probes.into_iter().map(|probe| {
        let limits = probe.spec.limits();
        let length = Length { ramp_ns: limits.ramp_ns, window_ns: limits.time_ns.unwrap() };
        let plan = on.experiment(&probe.name, probe.spec.clone(), length, &EmulationOptions::default());
        let mut plan = plan.unwrap();
        plan.cell.seed = seed;
        plan.cell.interval_ns = Some(length.window_ns / 20);
        let ran = drive_model(&plan, &AtomicBool::new(false), &mut Unobserved).unwrap();
        Measured { name: probe.name, spec: probe.spec, cell: ran.cells.into_iter().next().unwrap() }
    });
    cells.partition(|cell| !cell.name.starts_with(iodyno_fit::HELD_OUT))
}

#[test]
#[ignore]
fn explore() {
    let family = match std::env::var("FAMILY").as_deref() {
        Ok("flash") => Family::Flash,
        Ok("disk") => Family::Disk,
        Ok("memory") => Family::Memory,
        _ => Family::Volume,
    };
    let first: u64 = std::env::var("SEED").map_or(1, |s| s.parse().unwrap());
    let count: u64 = std::env::var("COUNT").map_or(1, |s| s.parse().unwrap());
    let target = format!("model:{}?state=sequential", family.device());
    let file = find(Kind::Device, family.device()).unwrap();
    let like = describe::device(&file.name, &file.text).unwrap();
    let (mut covered, mut identified, mut off) = (0, 0, 0);
    let mut errors = Vec::new();
    let mut p99 = Vec::new();
    for seed in first..first + count {
        let mut rng = stream(seed, "device", 0);
        let mut truth = bench(&target);
        let all = parameters(&like.device);
        let mut drawn = Vec::new();
        for parameter in &all {
            let value = parameter.of(&like.device).unwrap() * (1.2 * (draw(&mut rng) - 0.5)).exp();
            let value = value.clamp(parameter.bounds.0, parameter.bounds.1);
            parameter.set(&mut truth.system.devices_mut().next().unwrap().device, value);
        }
        let device = &mut truth.system.devices_mut().next().unwrap().device;
        if let iodyno_emulate::spec::Kind::Disk(disk) = &mut device.kind {
            disk.inner_bytes_per_s = disk.inner_bytes_per_s.min(disk.outer_bytes_per_s * 0.9);
            disk.average_seek_ns = disk.track_to_track_ns + (disk.full_stroke_ns - disk.track_to_track_ns) / 2;
        }
        for parameter in &all { drawn.push(parameter.of(device).unwrap()); }
        let at = std::time::Instant::now();
        let (cells, held) = measure(&truth, family, seed);
        let took = at.elapsed();
        let at = std::time::Instant::now();
        let start = Start { target: target.clone(), capacity_bytes: None, seed: seed + 1000 };
        let fitted = fit(&start, &cells, &held).unwrap();
        println!("seed {seed}: measured {took:?}, fitted {:?}, scale {:.2}", at.elapsed(), fitted.scale);
        for (estimate, truth) in fitted.estimates.iter().zip(&drawn) {
            let inside = (estimate.interval.0..=estimate.interval.1).contains(truth);
            let error = estimate.value / truth - 1.0;
            if estimate.known == Known::Identified {
                identified += 1;
                covered += u32::from(inside);
                off += u32::from(error.abs() > 0.05);
            }
            println!("  {:26} {:13.2} is {:13.2} {:+6.1} % [{:+.1} {:+.1}] {:?} {} {:?}", estimate.parameter.key, truth, estimate.value, error * 100.0,
                (estimate.interval.0 / estimate.value - 1.0) * 100.0, (estimate.interval.1 / estimate.value - 1.0) * 100.0, estimate.known, if inside { "" } else { "OUTSIDE" }, estimate.from);
        }
        for c in &fitted.combinations { println!("  {c:?}"); }
        for p in &fitted.held_out {
            if p.of.figure == Figure::Mean { errors.push(p.error().abs()); }
            if p.of.figure == Figure::P99 { p99.push(p.error().abs()); }
        }
        for figure in Figure::ALL { println!("  {} {:?}", figure.name(), iodyno_fit::median_error(&fitted.held_out, figure)); }
        let mut worst: Vec<_> = fitted.residuals.iter().collect();
        worst.sort_by(|a, b| (b.log_ratio.abs() / b.of.error).total_cmp(&(a.log_ratio.abs() / a.of.error)));
        for r in worst.iter().take(4) { println!("  residual {} {:?} {} {:+.1} % ± {:.1}", cells[r.of.cell].name, r.of.kind, r.of.figure.name(), r.log_ratio * 100.0, r.of.error * 100.0); }
    }
    errors.sort_by(f64::total_cmp);
    p99.sort_by(f64::total_cmp);
    let at = |v: &[f64], q: f64| v[((v.len() - 1) as f64 * q) as usize] * 100.0;
    println!("identified {identified}, covered {covered}, off by more than 5 % {off}; held out mean: median {:.1} %, 90th {:.1} %; p99 median {:.1} %", at(&errors, 0.5), at(&errors, 0.9), at(&p99, 0.5));
}
