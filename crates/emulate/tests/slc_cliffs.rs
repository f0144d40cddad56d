//! Client drives that are filled once in order: rates, ends of the phases and the time of the whole drive, as
//! TechPowerUp prints them (page 6 of each review: erased drive, sequential writes of 1 MiB, one thread).
//!
//! The rates of all phases and the end of the first phase are fitted. The later ends and the time of the whole drive
//! are predicted.

use crate::catalog_devices::Bench;

use iodyno_emulate::Machine;
use iodyno_emulate::System;
use iodyno_emulate::spec::{Kind, Preconditioned, Written};
use iodyno_units::{Op, OpKind};

/// Divisor of a drive's capacity. The smaller drive has the same rates.
const SCALE: u32 = 64;
/// Gigabytes of the full-size drive per sample of the rate.
const STEP_GB: f64 = 4.0;

/// A phase: its rate in GB/s, and GB written at its end.
type Phase = (f64, f64);

/// Drives, with their phases and the mean rate at which the whole drive is filled, GB/s.
const DRIVES: [(&str, &[Phase], f64); 5] = [
    ("980-pro-1t", &[(4.0, 113.0), (1.5, 400.0)], 1.9),
    ("m480-play-2t", &[(5.0, 200.0), (3.5, 1600.0), (1.5, 2000.0)], 3.1),
    ("atom-50-1t", &[(4.5, 280.0), (2.0, 500.0), (0.5, 1000.0)], 0.8),
    ("fx700-2t", &[(3.5, 460.0), (0.13, 2000.0)], 0.17),
    ("mp44s-1t", &[(4.0, 231.0), (0.1, 1000.0)], 0.12),
];

/// Fills a drive in order, and returns the time at which each step of [`STEP_GB`] was written, s.
fn fill(name: &str) -> Vec<f64> {
    let mut device = Bench::new(name).device;
    if let Kind::Flash(flash) = &mut device.kind {
        flash.scale_down(SCALE);
    }
    let state = Preconditioned { how: Written::Fresh, fill: 1.0 };
    let system = System::populate("fill", Bench::new(name).host, vec![(device, state)]).unwrap();
    let mut machine = Machine::new(&system, 1).unwrap();
    let worker = machine.add_worker(0);
    let step = (STEP_GB * 1e9 / f64::from(SCALE)) as u64;
    let (mut at_s, mut next) = (Vec::new(), step);
    let capacity = machine.capacity_bytes(0);
    for offset_bytes in (0..capacity >> 20).map(|mib| mib << 20) {
        let op = Op { offset_bytes, len_bytes: 1 << 20, kind: OpKind::Write, fua: false };
        machine.submit(machine.now_ns(), worker, 0, &op, 0);
        machine.next_completion(u64::MAX).expect("one is outstanding");
        if offset_bytes >= next {
            at_s.push(machine.now_ns() as f64 * 1e-9 * f64::from(SCALE));
            next += step;
        }
    }
    assert_eq!(machine.check(), Ok(()));
    at_s
}

#[test]
fn filled_drives_have_the_printed_phases() {
    let mut wrong = Vec::new();
    let mut score = |what: String, ours: f64, printed: f64| {
        let off = ours / printed - 1.0;
        let line = format!("{what:32} {printed:8.3} {ours:8.3} {:+5.1} %", off * 100.0);
        println!("{line}");
        if off.abs() > 0.1 {
            wrong.push(line);
        }
    };
    for (name, phases, whole) in DRIVES {
        let at_s = fill(name);
        let rate = |from_gb: f64, to_gb: f64| {
            let at = |gb: f64| (gb / STEP_GB) as usize;
            let (from, to) = (at(from_gb), at(to_gb).min(at_s.len() - 1));
            (to - from) as f64 * STEP_GB / (at_s[to] - at_s[from])
        };
        let mut from_gb = 0.0;
        for (number, &(gb_per_s, end_gb)) in phases.iter().enumerate() {
            let quarter = (end_gb - from_gb) / 4.0;
            let ours = rate(from_gb + quarter, end_gb - quarter);
            score(format!("{name} rate {number}"), ours, gb_per_s);
            if let Some(&(next, _)) = phases.get(number + 1) {
                // The first stretch of 12 GB below the mean of both rates.
                let between = (gb_per_s * next).sqrt();
                let mut end = from_gb + STEP_GB;
                while rate(end, end + 3.0 * STEP_GB) > between {
                    end += STEP_GB;
                }
                score(format!("{name} end {number}"), end + STEP_GB, end_gb);
            }
            from_gb = end_gb;
        }
        let end_s = at_s[at_s.len() - 1];
        score(format!("{name} whole drive"), at_s.len() as f64 * STEP_GB / end_s, whole);
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
