//! Describes the targets of a run, one line each: the type of the target, and how the run accessed it. Consecutive
//! emulated devices of the same kind share a line.
//!
//! Unknown facts are omitted.

use super::Style;
use super::text::{Role, clean, clean_path, pad, paint, width, wrap};
use iodyno_notebook::{Run, TargetDescription, TargetKind};
use iodyno_units::human;
use std::collections::BTreeSet;

/// Maximum width of a target's name, in terminal columns.
const NAME_COLUMNS_MAX: usize = 40;
/// Maximum length of a target's description, in terminal columns summed over its lines.
const WORDS_COLUMNS_MAX: usize = 400;

pub(super) fn lines(run: &Run, style: Style) -> Vec<String> {
    let max = NAME_COLUMNS_MAX.min(style.columns() / 2);
    let mut groups: Vec<(String, String, usize)> = Vec::new();
    for target in &run.head.targets {
        let is = target.description();
        let words = clean(&words(run, &target.name, &is).join(" · "), WORDS_COLUMNS_MAX, style);
        match groups.last_mut() {
            Some((_, alike, count)) if is.kind == TargetKind::Model && *alike == words => {
                *count += 1;
            }
            _ => groups.push((clean_path(&target.name, max, style), words, 1)),
        }
    }
    let columns = groups.iter().map(|(name, ..)| width(name)).max().unwrap_or(0);
    let mut lines = Vec::new();
    for (name, words, count) in &groups {
        let words = if *count == 1 {
            words.clone()
        } else {
            format!("the first of {count} similar targets, each {words}")
        };
        let indent = 2 + columns + 2;
        for (i, line) in wrap(&words, style.columns().saturating_sub(indent)).iter().enumerate() {
            let start = if i == 0 { pad(name, columns, false) } else { " ".repeat(columns) };
            lines.push(format!("  {start}  {}", paint(line, Role::Dim, style)));
        }
    }
    lines
}

/// Describes a target and how the run accessed it, as a list of short texts.
pub(crate) fn words(run: &Run, name: &str, target: &TargetDescription) -> Vec<String> {
    let mut words = Vec::new();
    let size = target.size_bytes.map(human::size);
    match target.kind {
        TargetKind::Null => words.push("completes everything immediately".to_owned()),
        TargetKind::Ram => words.push(with_size(size, "of this process's memory")),
        TargetKind::Model => {
            let of = &target.emulated;
            let text = |text: &Option<String>| text.clone().unwrap_or("unknown".to_owned());
            let [device, family, system] = [&of.device, &of.family, &of.system].map(text);
            words.push(with_size(size, &format!("{device} ({family}) in {system}")));
            let time = if of.live { "real" } else { "virtual" };
            words.push(format!("emulated, {time} time"));
            words.push(format!("state {}", text(&of.state)));
            let fill = of.fill.filter(|fill| *fill < 1.0);
            words.extend(fill.map(|fill| format!("{} % full", human::three_digits(fill * 100.0))));
            return words;
        }
        TargetKind::Nbd => {
            let of = &target.nbd;
            let space = if of.export.is_empty() { "" } else { " " };
            let what = format!("NBD export{space}{} at {}", of.export, of.address);
            words.push(with_size(size, &what));
            words.extend(Some(of.description.clone()).filter(|text| !text.is_empty()));
            words.extend(of.tls.then(|| "TLS".to_owned()));
        }
        TargetKind::Block => words.push(with_size(size, "block device")),
        TargetKind::Char => words.push("character device".to_owned()),
        TargetKind::File => {
            let on = &target.file_system;
            let what = on.as_ref().map_or("file".to_owned(), |fs| format!("file on {fs}"));
            words.push(with_size(size, &what));
        }
        TargetKind::Other => words.extend(size),
    }
    words.extend(device(target));
    words.extend(how(run, name));
    words
}

fn with_size(size: Option<String>, what: &str) -> String {
    size.map_or(what.to_owned(), |size| format!("{size} {what}"))
}

/// Vendor and model of the disk at the bottom of the block device stack, or its kernel name if these are
/// unknown.
fn device(target: &TargetDescription) -> Option<String> {
    let bottom = target.physical.first().unwrap_or(&target.device);
    let [vendor, model, kernel_name] = [&bottom.vendor, &bottom.model, &bottom.kernel_name]
        .map(|text| text.as_deref().map(str::trim).filter(|t| !t.is_empty()));
    let disks = target.physical.len();
    let name = match (vendor, model) {
        (Some(vendor), Some(model)) if !model.starts_with(vendor) => format!("{vendor} {model}"),
        (_, Some(model)) => model.to_owned(),
        _ => kernel_name?.to_owned(),
    };
    Some(if disks > 1 { format!("{disks} disks, the first {name}") } else { name })
}

/// Describes how the run's cells accessed a target: direct or buffered I/O, and the engines.
fn how(run: &Run, target: &str) -> Vec<String> {
    let cells = || run.cells.iter().filter(|c| c.key.target == target);
    let direct: BTreeSet<bool> = cells().filter_map(|c| c.evidence.direct).collect();
    let is_uncached = cells().any(|c| c.evidence.uncached.is_some());
    let buffered = if is_uncached { "uncached buffered I/O" } else { "buffered I/O" };
    let mut words: Vec<String> = direct
        .into_iter()
        .rev()
        .map(|direct| if direct { "direct I/O" } else { buffered }.to_owned())
        .collect();
    // A purge or a wait is stored as a cell without an engine.
    let engines: BTreeSet<&str> =
        cells().map(|c| c.key.engine.as_str()).filter(|e| !e.is_empty()).collect();
    words.extend(engines.into_iter().map(|e| format!("engine {e}")));
    words
}
