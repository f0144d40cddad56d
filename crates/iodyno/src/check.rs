//! `check`: reports a target's properties, its writability, and the storage that a run would measure.

use crate::args::Check;
use crate::console::{print, print_json};
use crate::failure::Failure;
use iodyno_page::terminal::Style;
use iodyno_page::terminal::text::{clean, labelled};
use iodyno_run::{Emulated, Files};
use iodyno_targets::{
    Confirm, Inspection, Refusal, SysRoot, TargetName, check_confirmed, check_writable, confirm,
    health, inspect,
};
use iodyno_units::human;
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Exit code if a run would refuse the target.
const REFUSED: u8 = 3;

pub(crate) fn command(flags: &Check, style: Style) -> Result<ExitCode, Failure> {
    if let Some(emulated) =
        iodyno_run::emulated(std::slice::from_ref(&flags.target), &mut Files::default())?
    {
        return self::emulated(flags, &emulated, style);
    }
    let inspection = inspect(&flags.target)?;
    let refusals = check_writable(&inspection, &SysRoot::real());
    let lifted = !refusals.is_empty()
        && confirm(&inspection, refusals.clone(), &Confirm(flags.destroy.clone())).is_ok();
    if refusals.is_empty() || lifted {
        let named = Confirm(flags.destroy.clone());
        check_confirmed(&[&inspection], &named)?;
    }
    let health = inspection.physical.first().and_then(|device| health(device).ok());
    let code =
        if refusals.is_empty() || lifted { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) };
    if flags.json {
        print_json(&json!({
            "schema": 1,
            "target": inspection.name.to_string(),
            "writable": refusals.is_empty() || lifted,
            "refusals": refusals,
            "destroy_confirmed": lifted,
            "inspection": inspection,
            "health": health,
        }))?;
        return Ok(code);
    }
    let mut text = describe(&inspection, style);
    if let Some(health) = health {
        let used = health.percentage_used.map_or("unknown".to_owned(), |p| format!("{p} %"));
        text.line("endurance used", &used);
        for warning in health.warnings() {
            text.line("health", &warning);
        }
    }
    for note in &inspection.notes {
        text.line("note", note);
    }
    print(&(text.text + &safety(&refusals, lifted, style)))?;
    Ok(code)
}

/// Prints the report on an emulated target, which has no data that a run could destroy.
fn emulated(flags: &Check, emulated: &Emulated, style: Style) -> Result<ExitCode, Failure> {
    check_confirmed(&[], &Confirm(flags.destroy.clone()))?;
    if flags.json {
        let facts: Vec<_> = (0..emulated.volumes.len()).map(|i| emulated.facts(i)).collect();
        return print_json(&json!({
            "schema": 1,
            "target": flags.target.to_string(),
            "writable": true,
            "refusals": [],
            "destroy_confirmed": false,
            "inspection": inspect(&flags.target)?,
            "health": null,
            "emulated": facts,
        }));
    }
    let (system, volumes) = (&emulated.system, &emulated.volumes);
    let mut text = Lines::of(&flags.target, style);
    text.line("kind", "emulated storage, in virtual time");
    let host = &system.host;
    text.line(
        "system",
        &format!("{}, {} sockets of {} cores", system.name, host.sockets, host.cores_per_socket),
    );
    // Equal devices share one line.
    let mut groups: Vec<(String, usize)> = Vec::new();
    for (number, of) in (0..).zip(&system.volumes) {
        let family = system.devices_of(number).next().map_or("", |placed| placed.device.family());
        let size = human::size(system.capacity_bytes(number));
        let words = format!("{}, {size} {family}", of.name);
        match groups.last_mut() {
            Some((last, count)) if *last == words => *count += 1,
            _ => groups.push((words, 1)),
        }
    }
    for (words, count) in groups {
        let times = if count == 1 { String::new() } else { format!("{count} × ") };
        text.line("would run on", &format!("{times}{words}"));
    }
    let mut states: Vec<String> = volumes.iter().map(iodyno_run::state_in_words).collect();
    states.dedup();
    text.line("state", &states.join("; "));
    if let Some(modules) = system.dimms_per_driver_thread() {
        let words = format!(
            "{modules} modules share one driver thread, the vendor's default; ?occupancy=max gives each its own"
        );
        text.line("driver threads", &words);
    }
    text.line("writing", "allowed: no real storage is written");
    print(&text.text)
}

/// Report on a target: lines of text, each with a label.
struct Lines {
    style: Style,
    text: String,
}

impl Lines {
    fn of(target: &TargetName, style: Style) -> Self {
        Self { style, text: clean(&target.to_string(), usize::MAX, style) + "\n" }
    }

    /// Adds a line. The value may contain untrusted text from servers and devices.
    fn line(&mut self, label: &str, value: &str) {
        self.text += &labelled(label, 16, value, self.style);
    }
}

fn describe(i: &Inspection, style: Style) -> Lines {
    let mut text = Lines::of(&i.name, style);
    let kind = serde_json::to_value(i.kind).ok();
    let kind = kind.as_ref().and_then(|k| k.as_str()).unwrap_or("unknown").to_owned();
    let is_new = if i.exists { "" } else { ", to be made" };
    text.line("kind", &format!("{kind}{is_new}"));
    if let Some(path) = &i.canonical_path {
        text.line("path", path);
        if i.exists && Path::new(path).extension().is_some_and(|e| e == "toml") {
            let words = format!("to emulate the storage that it describes, name it `model:{path}`");
            text.line("note", &words);
        }
    }
    text.line("would measure", &i.size_bytes.map_or("unknown".to_owned(), human::size));
    if let Some(export) = &i.nbd {
        text.line("server", &export.address);
        text.line("export", if export.export.is_empty() { "(default)" } else { &export.export });
        if !export.description.is_empty() {
            text.line("described as", &export.description);
        }
        let knows = [
            (export.read_only, "read-only"),
            (export.tls, "TLS"),
            (export.flush, "flush"),
            (export.fua, "FUA"),
            (export.trim, "trim"),
            (export.write_zeroes, "write-zeroes"),
            (export.multi_conn, "several connections"),
            (export.block_status, "block status"),
        ];
        let knows: Vec<&str> = knows.iter().filter(|k| k.0).map(|k| k.1).collect();
        text.line("offers", &knows.join(", "));
    }
    if let Some(fs) = &i.file_system {
        let on = fs.mount_point.as_deref().map_or(String::new(), |m| format!(" mounted at {m}"));
        text.line("file system", &format!("{}{on}", fs.fs_type));
    }
    if let Some(extents) = i.extents {
        text.line("ever written", &format!("{:.1} %", extents.written_share * 100.0));
    }
    for device in i.device.iter().chain(&i.physical) {
        let words = [&device.vendor, &device.model, &device.serial];
        let words: Vec<&str> = words.into_iter().flatten().map(String::as_str).collect();
        let mut about = vec![device.kernel_name.clone()];
        if !words.is_empty() {
            about.push(words.join(" "));
        }
        if let Some(bytes) = device.size_bytes {
            about.push(human::size(bytes));
        }
        if let Some(scheduler) = &device.scheduler {
            about.push(format!("scheduler {scheduler}"));
        }
        if let Some(cache) = &device.write_cache {
            about.push(format!("write cache {cache}"));
        }
        let line_of = about.join(", ");
        if !text.text.contains(&line_of) {
            text.line("device", &line_of);
        }
    }
    match i.alignment.direct_offset_bytes {
        Some(0) => {
            text.line("direct I/O", "not possible: the page cache would be in the path");
        }
        Some(bytes) => {
            text.line("direct I/O", &format!("yes, in multiples of {}", human::size(bytes)));
        }
        None => {}
    }
    text
}

fn safety(refusals: &[Refusal], lifted: bool, style: Style) -> String {
    if refusals.is_empty() {
        return "  writing          allowed\n".to_owned();
    }
    let verdict = if lifted { "allowed by --destroy, despite:" } else { "refused:" };
    let mut text = format!("  writing          {verdict}\n");
    for refusal in refusals {
        let _ = writeln!(text, "    - {}", clean(&refusal.to_string(), usize::MAX, style));
    }
    text
}
