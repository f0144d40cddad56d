//! Writes the fitted device as a device file that names the source of each parameter.

use crate::answer::{misfit, worthless};
use crate::interval::{Estimate, Known};
use crate::parameter::Unit;
use crate::{Fitted, Start};
use core::fmt::Write as _;
use iodyno_catalog::Source;
use iodyno_emulate::describe::{DescribedDevice, Parameter};
use iodyno_emulate::spec::{Device, Kind};

/// Writes the fitted device as a device file. `like` is the device that the fit started from, `run` the id of the
/// measured run, and `target` the name of the measured target. For a fit to published values, `run` is empty and
/// `target` is their title.
pub fn device_file(
    fitted: &Fitted,
    like: &DescribedDevice,
    start: &Start,
    run: &str,
    target: &str,
) -> String {
    let name = &like.device.name;
    let mut text = format!(
        "# Fitted by iodyno {} to {}, from the structure of {name}.\n# Parameters that the cells determine are `fitted`, with a 95 % interval; others are as in {name}.\n",
        env!("CARGO_PKG_VERSION"),
        if run.is_empty() {
            one_line(target)
        } else {
            format!("run {run} of {}", one_line(target))
        },
    );
    for words in [misfit(fitted, name), worthless(fitted)].into_iter().flatten() {
        let _ = writeln!(text, "# Do not use: {words}.");
    }
    for combination in &fitted.combinations {
        let _ = writeln!(text, "# Known only together: {}", combination.words());
    }
    let _ = writeln!(
        text,
        "schema = 1\nkind = \"device\"\nfamily = \"{}\"\nsummary = {}\nhost = \"{}\"\n",
        fitted.device.family(),
        quoted(&format!("Twin of {}", one_line(target))),
        like.default_host
    );
    let mut table = "";
    for parameter in &like.parameters {
        let (of, key) = parameter.key.split_once('.').unwrap_or(("", parameter.key));
        if of != table {
            let _ = writeln!(text, "\n[{of}]");
            table = of;
        }
        let (value, from) = value(parameter, fitted, name, start, run);
        let _ = writeln!(text, "{key} = {{ is = {value}, from = {} }}", quoted(&from));
    }
    text
}

/// Value of a parameter as TOML, and its source.
fn value(
    parameter: &Parameter,
    fitted: &Fitted,
    like: &str,
    start: &Start,
    run: &str,
) -> (String, String) {
    if start.capacity_bytes.is_some()
        && let Some(size) = of_structure(parameter.key, &fitted.device)
    {
        let what =
            if run.is_empty() { "printed capacity" } else { "capacity of the measured target" };
        return (size, format!("derived: the {what}"));
    }
    let of = |key: &str| fitted.estimate(key);
    if let Some(estimate) = of(parameter.key) {
        return (estimate.parameter.unit.toml(estimate.value), source(estimate, like));
    }
    // Slow pages keep their ratio to the fast ones.
    if parameter.key == "nand.program_slow"
        && let (Some(estimate), Kind::Flash(flash)) = (of("nand.program_fast"), &fitted.device.kind)
    {
        let value = Unit::Ns.toml(flash.nand.program_slow_ns as f64);
        return (value, source(estimate, like));
    }
    (bare_or_quoted(&parameter.text), not_measured(parameter, like))
}

fn source(estimate: &Estimate, like: &str) -> String {
    let unit = estimate.parameter.unit;
    let (low, high) = estimate.interval;
    let interval = format!("{} to {} (95 %)", unit.human(low), unit.human(high));
    match estimate.known {
        Known::Identified => {
            format!(
                "fitted: {}, {interval}, from cells {}",
                unit.human(estimate.value),
                estimate.from.join(", ")
            )
        }
        Known::Roughly => {
            format!("fitted: roughly, {interval}, from cells {}", estimate.from.join(", "))
        }
        Known::NotIdentified if estimate.is_of_device => {
            format!("assumed: as {like}, not identified by this fit")
        }
        Known::NotIdentified => {
            "assumed: not identified by this fit, one of many values that agree".to_owned()
        }
    }
}

fn not_measured(parameter: &Parameter, like: &str) -> String {
    match parameter.from {
        // A value that is typical of a class of devices may also be true of the twin. A figure of one other device is
        // not a source for the twin.
        Source::Assumed => format!("assumed: as {like} ({})", parameter.why),
        _ => format!("assumed: as {like}; this fit does not measure it"),
    }
}

/// The value, as TOML, of a key that follows from the target's capacity; `None` for other keys.
fn of_structure(key: &str, device: &Device) -> Option<String> {
    let bytes = |bytes: u64| Some(format!("\"{bytes}B\""));
    match (key, &device.kind) {
        ("capacity", _) => bytes(device.capacity_bytes()),
        ("nand.raw", Kind::Flash(flash)) => bytes(flash.nand.raw_bytes),
        ("nand.pages_per_block", Kind::Flash(flash)) => {
            Some(flash.nand.pages_per_block.to_string())
        }
        _ => None,
    }
}

fn bare_or_quoted(text: &str) -> String {
    let is_bare = text.parse::<f64>().is_ok() || text == "true" || text == "false";
    if is_bare { text.to_owned() } else { quoted(text) }
}

fn one_line(text: &str) -> String {
    iodyno_units::text::clean(text).to_string()
}

/// Quotes a text as a basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in one_line(text).chars() {
        if matches!(character, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted.push('"');
    quoted
}
