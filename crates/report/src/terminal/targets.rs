//! One line for each target: what it is, and how it was reached. Emulated devices that are alike
//! and follow one another have a line together.
//!
//! The facts come from the room that inspects targets, as JSON. This reads the few keys that it
//! needs and passes over what is not there: an older run, or another kind of target, has fewer.

use super::Style;
use super::text::{Role, clean, clean_path, pad, paint, width, wrap};
use iodyno_notebook::{Run, TargetRecord};
use iodyno_units::human;
use serde_json::Value;
use std::collections::BTreeSet;

/// Columns that a target's name may take here.
const NAME_COLUMNS_MAX: usize = 40;
/// Columns of what is said of a target, in all its lines.
const WORDS_COLUMNS_MAX: usize = 400;

pub(super) fn lines(run: &Run, style: Style) -> Vec<String> {
    let max = NAME_COLUMNS_MAX.min(style.columns() / 2);
    let mut groups: Vec<(String, String, usize)> = Vec::new();
    for target in &run.head.targets {
        let words = clean(&words(run, target).join(" · "), WORDS_COLUMNS_MAX, style);
        match groups.last_mut() {
            Some((_, alike, count)) if is_emulated(target) && *alike == words => *count += 1,
            _ => groups.push((clean_path(&target.name, max, style), words, 1)),
        }
    }
    let columns = groups.iter().map(|(name, ..)| width(name)).max().unwrap_or(0);
    let mut lines = Vec::new();
    for (name, words, count) in &groups {
        let words = if *count == 1 {
            words.clone()
        } else {
            format!("the first of {count} like it, each {words}")
        };
        let indent = 2 + columns + 2;
        for (i, line) in wrap(&words, style.columns().saturating_sub(indent)).iter().enumerate() {
            let start = if i == 0 { pad(name, columns, false) } else { " ".repeat(columns) };
            lines.push(format!("  {start}  {}", paint(line, Role::Dim, style)));
        }
    }
    lines
}

fn is_emulated(target: &TargetRecord) -> bool {
    target.facts["kind"] == "model"
}

fn words(run: &Run, target: &TargetRecord) -> Vec<String> {
    let facts = &target.facts;
    let mut words = Vec::new();
    let size = facts["size_bytes"].as_u64().map(human::size);
    match facts["kind"].as_str() {
        Some("null") => words.push("completes everything at once".to_owned()),
        Some("ram") => words.push(with_size(size, "of this process's memory")),
        Some("model") => {
            let text = |key: &str| facts["emulated"][key].as_str().unwrap_or("unknown");
            let what = format!("{} ({}) in {}", text("device"), text("family"), text("system"));
            words.push(with_size(size, &what));
            let live = facts["emulated"]["live"] == true;
            let time = if live { "real" } else { "virtual" };
            words.push(format!("emulated, {time} time"));
            words.push(format!("state {}", text("state")));
            let fill = facts["emulated"]["fill"].as_f64().filter(|fill| *fill < 1.0);
            words.extend(fill.map(|fill| format!("{} % full", human::three_digits(fill * 100.0))));
        }
        Some("nbd") => {
            let text = |key: &str| facts["nbd"][key].as_str().unwrap_or_default();
            let export = match text("export") {
                "" => "NBD export".to_owned(),
                name => format!("NBD export {name}"),
            };
            words.push(with_size(size, &format!("{export} at {}", text("address"))));
            let described = text("description");
            words.extend((!described.is_empty()).then(|| described.to_owned()));
            words.extend((facts["nbd"]["tls"] == true).then(|| "TLS".to_owned()));
        }
        Some("block") => words.push(with_size(size, "block device")),
        Some("char") => words.push("character device".to_owned()),
        Some("file") => {
            let on = facts.pointer("/file_system/fs_type").and_then(Value::as_str);
            let what = on.map_or("file".to_owned(), |fs| format!("file on {fs}"));
            words.push(with_size(size, &what));
        }
        _ => words.extend(size),
    }
    if !is_emulated(target) {
        words.extend(device(facts));
        words.extend(how(run, &target.name));
    }
    words
}

fn with_size(size: Option<String>, what: &str) -> String {
    size.map_or(what.to_owned(), |size| format!("{size} {what}"))
}

/// Vendor and model of the disk at the bottom, or what the kernel calls it.
fn device(facts: &Value) -> Option<String> {
    let bottom = facts.pointer("/physical/0").or_else(|| facts.get("device"))?;
    let text = |key: &str| bottom[key].as_str().map(str::trim).filter(|t| !t.is_empty());
    let disks = facts["physical"].as_array().map_or(0, Vec::len);
    let name = match (text("vendor"), text("model")) {
        (Some(vendor), Some(model)) if !model.starts_with(vendor) => format!("{vendor} {model}"),
        (_, Some(model)) => model.to_owned(),
        _ => text("kernel_name")?.to_owned(),
    };
    Some(if disks > 1 { format!("{disks} disks, the first {name}") } else { name })
}

/// Direct or buffered, and by which engine, as the cells say.
fn how(run: &Run, target: &str) -> Vec<String> {
    let cells = || run.cells.iter().filter(|c| c.key.target == target);
    let direct: BTreeSet<bool> = cells().filter_map(|c| c.evidence.direct).collect();
    let mut words: Vec<String> = direct
        .into_iter()
        .rev()
        .map(|direct| if direct { "direct I/O" } else { "buffered I/O" }.to_owned())
        .collect();
    // A purge or a wait is kept as a cell, and no engine did it.
    let engines: BTreeSet<&str> =
        cells().map(|c| c.key.engine.as_str()).filter(|e| !e.is_empty()).collect();
    words.extend(engines.into_iter().map(|e| format!("engine {e}")));
    words
}
