//! Determines how many devices a system can use fully, by the method of a study of RAID adapters (metric
//! `useful_devices`): the total rate of all attachable arrays, divided by the rate per device of a single array.

use crate::candidate::Candidate;
use crate::lab::together;
use crate::simulate::{Arrays, Condition, Measured, State, run};
use crate::terminal::{EMULATED, LABEL};
use crate::words::{level, rate};
use iodyno_drive::Length;
use iodyno_measure::statistics::knee::{AttachedRate, saturation};
use iodyno_page::terminal::{Lines, Style};
use iodyno_run::RunError;
use iodyno_run::explain::percent;
use iodyno_units::human;
use iodyno_workload::Spec;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const MS: u64 = 1_000_000;

/// A workload from the study of RAID adapters.
#[derive(Clone, Copy, Debug)]
struct Load {
    name: &'static str,
    about: &'static str,
    block: &'static str,
    addresses: &'static str,
    /// Computes the queue depth of an array from its number of devices.
    depth: fn(u32) -> u32,
    length: Length,
}

/// Workloads of the study's sizing table, as in `catalog/studies/ibm-sas-raid.toml`.
const LOADS: [Load; 2] = [
    Load {
        name: "W1",
        about: "transactions: random reads of 4 KiB, 16 outstanding for each device",
        block: "4KiB",
        addresses: "uniform",
        depth: |members| 16 * members,
        length: Length { ramp_ns: 100 * MS, window_ns: 100 * MS },
    },
    Load {
        name: "W2",
        about: "throughput: sequential reads of 1 MiB, 16 outstanding on each array",
        block: "1MiB",
        addresses: "sequential",
        depth: |_| 16,
        length: Length { ramp_ns: 50 * MS, window_ns: 200 * MS },
    },
];

/// Number of devices that saturate a system under one workload.
#[derive(Clone, Debug)]
pub struct Saturation {
    load: Load,
    /// Number of devices whose full performance the system can use, at most all that can be attached.
    pub devices: f64,
    /// Operations per second and bytes per second of one array.
    pub one: (f64, f64),
    /// Total operations per second and bytes per second of the maximum number of attachable arrays.
    pub all: (f64, f64),
    /// Name of the limiting resource when all arrays are attached (the busiest one if none is saturated), and its
    /// utilisation, 0 to 1; `None` if no resource is used.
    pub binds: Option<(String, f64)>,
}

/// Simulates how many devices saturate a system under each of the study's two workloads.
///
/// # Errors
/// The system can't be built, or the simulation is interrupted.
pub fn saturate(of: &Candidate, stop: &Arc<AtomicBool>) -> Result<Vec<Saturation>, RunError> {
    let jobs: Vec<(Load, u32)> =
        LOADS.into_iter().flat_map(|load| [(load, of.arrays_max), (load, 1)]).collect();
    let cells = together(&jobs, |&(load, arrays)| {
        let text = format!(
            "schema = 1\ndepth = {}\nblock = \"{}\"\n[mix]\nread = 100\n[all]\naddresses = \"{}\"\n",
            (load.depth)(of.members),
            load.block,
            load.addresses
        );
        let spec = Spec::from_toml(&text).expect("this is right");
        let target = Arrays { of, arrays, all_arrays: arrays }.target(Condition::Whole);
        run(&target, spec, load.length, State::WHOLE, stop)
    })?;
    let answer = |(load, pair): (Load, &[Measured])| {
        let (all, one) = (&pair[0], &pair[1]);
        let few = AttachedRate { devices: of.members, iops: one.iops };
        let most = AttachedRate { devices: of.arrays_max * of.members, iops: all.iops };
        let devices = saturation(few, most).unwrap_or(0.0);
        let binds = all.binds().map(|binds| (binds.share.name.clone(), binds.share.busy));
        let figures = |m: &Measured| (m.iops, m.bytes_per_s);
        Saturation { load, devices, one: figures(one), all: figures(all), binds }
    };
    Ok(LOADS.into_iter().zip(cells.chunks_exact(2)).map(answer).collect())
}

/// Formats the number of devices that saturate a system, for both workloads, as text.
pub fn show(of: &Candidate, all: &[Saturation], style: Style) -> String {
    let mut text = Lines::new(style);
    let heading =
        format!("{} in {} of {}, behind {}", of.device_name, level(of), of.members, of.host);
    text.heading(&heading, EMULATED);
    for answer in all {
        let is_rate = answer.load.name == "W1";
        let figure = |of: (f64, f64)| if is_rate { rate(of.0) } else { human::throughput(of.1) };
        let most = of.arrays_max * of.members;
        let more =
            if answer.devices >= f64::from(most) { " (all that can be attached)" } else { "" };
        let words = format!("{:.0} devices can run at full speed{more}", answer.devices);
        text.labelled(answer.load.name, LABEL, &words);
        text.labelled("", LABEL, answer.load.about);
        let binds = answer.binds.as_ref();
        let binds =
            binds.map_or(String::new(), |(name, busy)| format!("; {name}, {}", percent(*busy)));
        let rates = format!(
            "all {most} together: {}{binds}; one array of {}: {}",
            figure(answer.all),
            of.members,
            figure(answer.one)
        );
        text.labelled("", LABEL, &rates);
    }
    text.end()
}

/// Formats the number of devices that saturate a system, for both workloads, as a JSON document.
pub fn document(of: &Candidate, all: &[Saturation]) -> Value {
    let answer = |answer: &Saturation| {
        json!({
            "load": answer.load.name,
            "about": answer.load.about,
            "useful_devices": answer.devices,
            "one_array": { "iops": answer.one.0, "bytes_per_s": answer.one.1 },
            "all_arrays": { "iops": answer.all.0, "bytes_per_s": answer.all.1 },
            "binds": answer.binds.as_ref().map(|(name, busy)| json!({ "resource": name, "busy_share": busy })),
        })
    };
    json!({
        "schema": 1,
        "saturate": {
            "system": of.host,
            "device": of.device_name,
            "level": of.level_word(),
            "members": of.members,
            "devices_max": of.arrays_max * of.members,
            "loads": all.iter().map(answer).collect::<Vec<_>>(),
        },
    })
}
