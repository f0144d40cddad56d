//! `catalog`: lists the catalog's entries, each with a one-line description, and prints their files.

use crate::console::{print, print_json};
use crate::failure::Failure;
use crate::method;
use iodyno_catalog::{File, Kind, find, list};
use iodyno_run::find_work::workload;
use iodyno_units::nearest;
use iodyno_units::text::clean_lines;
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Description of a price list in the catalog.
const PRICES: &str = "round prices of cloud volumes, an example to edit";

pub(crate) fn command(name: Option<&str>, as_json: bool) -> Result<ExitCode, Failure> {
    match name {
        Some(name) => one(name, as_json),
        None => all(as_json),
    }
}

fn one(name: &str, as_json: bool) -> Result<ExitCode, Failure> {
    let (file, kind, about) = entry(name)?;
    if as_json {
        return print_json(&json!({
            "schema": 1,
            "name": file.name,
            "kind": kind.noun(),
            "about": about,
            "text": &*file.text,
        }));
    }
    print(&clean_lines(&format!("# {}\n{}\n", file.origin, file.text.trim_end())))
}

/// Finds a catalog entry by name: its file, its kind and its one-line description. Names are unique
/// across all kinds.
fn entry(name: &str) -> Result<(File, Kind, String), Failure> {
    for kind in [Kind::Device, Kind::System] {
        if list(kind).any(|(n, _)| n == name) {
            return Ok((find(kind, name)?, kind, iodyno_run::summary(name)?));
        }
    }
    if list(Kind::Method).any(|(n, _)| n == name) {
        return Ok((find(Kind::Method, name)?, Kind::Method, method::about(name)?));
    }
    if list(Kind::Study).any(|(n, _)| n == name) {
        return Ok((find(Kind::Study, name)?, Kind::Study, iodyno_study::title(name)?));
    }
    if list(Kind::Prices).any(|(n, _)| n == name) {
        return Ok((find(Kind::Prices, name)?, Kind::Prices, PRICES.to_owned()));
    }
    let is_path = name.contains('/') || Path::new(name).extension().is_some_and(|e| e == "toml");
    if !is_path && list(Kind::Workload).all(|(n, _)| n != name) {
        let kinds = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Published);
        let guess = nearest(name, kinds.flat_map(|kind| list(kind).map(|(n, _)| n)))
            .map(|near| format!("did you mean `{near}`? "))
            .unwrap_or_default();
        return Err(Failure::input(format!(
            "there is nothing named `{name}` in the catalog: {guess}`iodyno catalog` lists all"
        )));
    }
    if is_path && let Ok(file) = find(Kind::System, name) {
        // A file of these kinds states its kind; it is printed unchanged, like those of the catalog.
        if let Some(kind @ (Kind::Device | Kind::System)) = file.kind() {
            let about = file.get("summary").unwrap_or_default().trim_matches('"').to_owned();
            return Ok((file, kind, about));
        }
    }
    let (file, workload) = workload(name)?;
    let about = workload.about().to_owned();
    Ok((file, Kind::Workload, about))
}

fn all(as_json: bool) -> Result<ExitCode, Failure> {
    let mut entries = Vec::new();
    for (name, _) in list(Kind::Workload) {
        let (_, workload) = workload(name)?;
        entries.push((name.to_owned(), Kind::Workload, workload.about().to_owned()));
    }
    for (name, _) in list(Kind::Method) {
        entries.push((name.to_owned(), Kind::Method, method::about(name)?));
    }
    for kind in [Kind::Device, Kind::System] {
        for (name, _) in list(kind) {
            entries.push((name.to_owned(), kind, iodyno_run::summary(name)?));
        }
    }
    for (name, _) in list(Kind::Study) {
        entries.push((name.to_owned(), Kind::Study, iodyno_study::title(name)?));
    }
    entries.extend(
        list(Kind::Prices).map(|(name, _)| (name.to_owned(), Kind::Prices, PRICES.to_owned())),
    );
    if as_json {
        let entries: Vec<_> = entries
            .iter()
            .map(|(name, kind, about)| json!({"name": name, "kind": kind.noun(), "about": about}))
            .collect();
        return print_json(&json!({"schema": 1, "entries": entries}));
    }
    let width = entries.iter().map(|e| e.0.len()).max().unwrap_or(0);
    let headings = [
        (
            Kind::Workload,
            "Workloads (run one with `iodyno run NAME`, read one with `iodyno catalog NAME`):",
        ),
        (Kind::Method, "Methods (test plans of several cells; run one with `iodyno run NAME`):"),
        (Kind::Device, "Devices (emulated: `iodyno run WORKLOAD --on model:NAME`):"),
        (Kind::System, "Systems (servers for devices: `--on 'model:DEVICE*4@SYSTEM'`):"),
        (Kind::Study, "Studies (published results; `iodyno study NAME` repeats one):"),
        (
            Kind::Prices,
            "Prices (for `iodyno size --price FILE`; `iodyno catalog NAME > FILE` copies one):",
        ),
    ];
    let mut text = String::new();
    for (kind, heading) in headings {
        let _ = writeln!(text, "{}{heading}", if text.is_empty() { "" } else { "\n" });
        for (name, _, about) in entries.iter().filter(|e| e.1 == kind) {
            let _ = writeln!(text, "  {name:<width$}  {about}");
        }
    }
    print(&text)
}
