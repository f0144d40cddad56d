//! `explain`: prints the parameters of an emulated device and a few predictions. If a workload is given, prints the
//! latency breakdown and the bottleneck instead. `run::explain` computes the figures; `render` formats them for people.

mod render;

use crate::args::Explain;
use crate::console::{print, print_json};
use crate::failure::Failure;
use crate::named_work::{NamedWork, Workloads};
use crate::overrides::with_shape;
use iodyno_exchange::fio::Process;
use iodyno_page::terminal::Style;
use iodyno_run::explain::{
    Described, DescribedArray, ExplainedCell, arrays, predictions, simulate,
};
use iodyno_run::{Emulated, Files, described, emulated};
use iodyno_targets::TargetName;
use iodyno_workload::Spec;
use serde_json::json;
use std::process::ExitCode;

pub(crate) fn command(flags: &Explain, style: Style) -> Result<ExitCode, Failure> {
    let TargetName::Model(name) = &flags.device else {
        return Err(Failure::input(format!("`{}` is not emulated", flags.device)));
    };
    let Some(emulated) = emulated(std::slice::from_ref(&flags.device), &mut Files::default())?
    else {
        return Err(Failure::input(format!("`{}` is not emulated", flags.device)));
    };
    if let Some(workload) = &flags.workload {
        let workloads = NamedWork::read(workload, &[], &Process)?.into_workloads()?;
        return with_workloads(flags, workloads, &emulated, style);
    }
    let devices: Vec<_> = described(name)?.into_iter().map(Described::new).collect();
    alone(flags, &devices, &emulated, style)
}

/// Prints where time goes for each of the given workloads.
fn with_workloads(
    flags: &Explain,
    workloads: Workloads,
    emulated: &Emulated,
    style: Style,
) -> Result<ExitCode, Failure> {
    let mut cells = Vec::new();
    let (threads, depth, block) = (flags.threads, flags.depth, flags.block.as_deref());
    for (name, spec) in workloads.members {
        let spec = with_shape(spec, threads, depth, block)
            .and_then(|spec| with_addresses(spec, flags))
            .map_err(|why| Failure::input(format!("{name}: {why}")))?;
        cells.push(simulate(emulated, &flags.device.to_string(), &name, spec)?);
    }
    if flags.json {
        let cells: Vec<_> = cells.iter().map(ExplainedCell::json).collect();
        let target = flags.device.to_string();
        return print_json(&json!({ "schema": 1, "target": target, "cells": cells }));
    }
    let heading = render::what(&emulated.system);
    let parts: Vec<String> = cells.iter().map(|cell| render::cell(cell, style)).collect();
    print(&format!("{}{}", render::heading(&heading, style), parts.join("\n")))
}

/// Applies the flags for the active range and the address pattern to a workload.
fn with_addresses(spec: Spec, flags: &Explain) -> Result<Spec, String> {
    let spec = match flags.active {
        Some(active) => spec.with_active(active)?,
        None => spec,
    };
    match flags.zipf.as_ref().or(flags.hot.as_ref()) {
        Some(pattern) => spec.with_pattern(pattern.clone()),
        None => Ok(spec),
    }
}

/// Prints the parameters of the device and predictions for a few standard workloads.
fn alone(
    flags: &Explain,
    devices: &[Described],
    emulated: &Emulated,
    style: Style,
) -> Result<ExitCode, Failure> {
    let mut cells = Vec::new();
    for (name, spec) in predictions(&emulated.system) {
        cells.push(simulate(emulated, &flags.device.to_string(), name, spec)?);
    }
    let arrays = arrays(&emulated.system);
    if flags.json {
        return print_json(&json!({
            "schema": 1,
            "target": flags.device.to_string(),
            "system": emulated.system.name,
            "volumes": emulated.system.volumes.len(),
            "arrays": arrays.iter().map(DescribedArray::json).collect::<Vec<_>>(),
            "devices": devices.iter().map(Described::json).collect::<Vec<_>>(),
            "predictions": cells.iter().map(ExplainedCell::json).collect::<Vec<_>>(),
        }));
    }
    let mut text = render::heading(&render::what(&emulated.system), style);
    for array in &arrays {
        text.push_str(&render::array(array, style));
    }
    let is_only = devices.len() == 1 && arrays.is_empty();
    for device in devices {
        text.push_str(&render::device(device, emulated, is_only, style));
    }
    text.push_str(&render::predictions(&cells, style));
    print(&text)
}
