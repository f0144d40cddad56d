//! Formats the results of `explain` for a terminal.

use iodyno_emulate::System;
use iodyno_emulate::describe::{Parameter, count_by_source};
use iodyno_measure::summary::is_about_bandwidth;
use iodyno_measure::{IoKinds, KindSummary};
use iodyno_page::terminal::text::{Role, clean, pad, paint, width, wrap};
use iodyno_page::terminal::{Lines, Style, table};
use iodyno_page::{Cell, Column, Quantity, Table};
use iodyno_run::Emulated;
use iodyno_run::explain::{
    Described, DescribedArray, ExplainedCell, KindAccount, PhaseAccount, Share, VolumesAccount,
    limit_in_words, percent,
};
use iodyno_units::human;

/// Width of a utilization bar at 100 %, columns.
const BAR: usize = 24;

/// Short description of a system: `exflash-400g in x3850-x6`, `4 × exflash-400g in x3850-x6`.
pub(super) fn what(system: &System) -> String {
    let mut groups: Vec<(&str, usize)> = Vec::new();
    for volume in &system.volumes {
        let name = volume.name.as_str();
        match groups.iter_mut().find(|g| g.0 == name) {
            Some((_, count)) => *count += 1,
            None => groups.push((name, 1)),
        }
    }
    let words: Vec<String> = groups
        .iter()
        .map(
            |(name, count)| {
                if *count == 1 { (*name).to_owned() } else { format!("{count} × {name}") }
            },
        )
        .collect();
    let threads = system.dimms_per_driver_thread().map_or(String::new(), |dimms| {
        format!(", {dimms} modules per driver thread, the vendor's default; ?occupancy=max gives each its own")
    });
    format!("{} in {}{threads}", words.join(" and "), system.name)
}

/// Formats the first line of the output.
pub(super) fn heading(what: &str, style: Style) -> String {
    let mut page = Lines::new(style);
    page.heading(what, "emulated, virtual time");
    page.end()
}

/// Describes an array by its properties.
pub(super) fn array(described: &DescribedArray, style: Style) -> String {
    let mut page = Lines::new(style);
    page.line(&clean(&described.name, usize::MAX, style));
    for (label, words) in described.lines() {
        page.labelled(label, 13, &words);
    }
    page.blank();
    page.end()
}

/// Describes a device: its properties, and its parameters in tables. `is_only`: nothing else is described.
pub(super) fn device(
    described: &Described,
    emulated: &Emulated,
    is_only: bool,
    style: Style,
) -> String {
    let mut page = Lines::new(style);
    let device = &described.device;
    let title = if is_only {
        device.summary.clone()
    } else {
        format!("{}: {}", device.device.name, device.summary)
    };
    page.line(&clean(&title, usize::MAX, style));
    for (label, words) in described.lines() {
        page.labelled(label, 13, &words);
    }
    let host = &emulated.system.host;
    let (system, sockets, cores) = (&emulated.system.name, host.sockets, host.cores_per_socket);
    page.labelled("system", 13, &format!("{system}, {sockets} sockets of {cores} cores"));
    for limit in &emulated.system.limits {
        page.labelled("shared limit", 13, &limit_in_words(limit));
    }
    page.blank();
    parameters(&mut page, &device.parameters);
    page.end()
}

/// Adds each parameter of the device, with its value and the origin of the value.
fn parameters(page: &mut Lines, parameters: &[Parameter]) {
    let style = page.style();
    let counts: Vec<String> = count_by_source(parameters)
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(source, count)| format!("{count} {source}"))
        .collect();
    let title = format!("{} parameters: {}", parameters.len(), counts.join(", "));
    page.line(&title);
    let name = |p: &Parameter| p.key.rsplit('.').next().unwrap_or(p.key);
    let table = |p: &Parameter| p.key.split_once('.').map_or("", |(table, _)| table);
    let widest = |f: &dyn Fn(&Parameter) -> usize| parameters.iter().map(f).max().unwrap_or(0);
    let (names, values) = (widest(&|p| name(p).len()), widest(&|p| width(&p.text)));
    let sources = widest(&|p| p.from.name().len());
    let mut last = "";
    for p in parameters {
        if table(p) != last {
            last = table(p);
            page.line(&paint(&format!("  [{last}]"), Role::Bold, style));
        }
        let value = pad(&clean(&p.text, values, style), values, true);
        let source = paint(&pad(p.from.name(), sources, false), Role::Dim, style);
        let indent = 2 + names + 2 + values + 2 + sources + 2;
        let room = style.columns().saturating_sub(indent).max(20);
        let why = match &p.rule {
            Some(rule) => format!("{rule} ({})", p.why),
            None => p.why.clone(),
        };
        for (i, why) in wrap(&clean(&why, usize::MAX, style), room).iter().enumerate() {
            if i == 0 {
                page.line(&format!("  {}  {value}  {source}  {why}", pad(name(p), names, false)));
            } else {
                page.line(&format!("{}{why}", " ".repeat(indent)));
            }
        }
    }
    page.blank();
}

/// Formats the predicted results as a table.
pub(super) fn predictions(cells: &[ExplainedCell], style: Style) -> String {
    let mut page = Lines::new(style);
    let volumes = cells.first().map_or(1, |c| c.volumes);
    let on = if volumes == 1 {
        String::new()
    } else {
        format!(" on each of {volumes} volumes, rates in total")
    };
    page.line(&format!("Predictions, one worker{on}:"));
    for line in table::lines(&predicted(cells), style) {
        page.line(&format!("  {line}"));
    }
    let mut states: Vec<&str> = cells.iter().map(|c| c.state.as_str()).collect();
    states.dedup();
    page.blank();
    page.labelled("state", 5, &states.join("; "));
    page.end()
}

/// Builds the table of predicted results, one row per workload and kind of operation.
fn predicted(cells: &[ExplainedCell]) -> Table {
    let mut table = Table::new([
        Column::words(""),
        Column::words(""),
        Column::words(""),
        Column::numbers("rate", ""),
        Column::numbers("mean", "ns"),
        Column::numbers("p99", "ns"),
        Column::words("limit"),
    ]);
    for cell in cells {
        let size = human::size(cell.block_bytes.into());
        let load = format!("T{}Q{} {size}", cell.threads, cell.depth);
        let mut is_first = true;
        for of in &cell.of_volumes {
            for (i, kind) in of.kinds.iter().enumerate() {
                let words =
                    |is: bool, text: &str| if is { Cell::words(text) } else { Cell::empty() };
                let kind_name = if of.kinds.len() > 1 { kind.summary.kind.name() } else { "" };
                let volume = of.name.as_deref().unwrap_or("");
                table.push([
                    words(is_first, &cell.name),
                    words(is_first, &load),
                    Cell::words(format!("{volume} {kind_name}").trim()),
                    Cell::words(rate_of_kind(cell, &kind.summary)),
                    Cell::of(Quantity::LatencyNs, kind.mean_ns()),
                    Cell::of(Quantity::LatencyNs, kind.p99_ns()),
                    words(i == 0, &of.limit.words()),
                ]);
                is_first = false;
            }
        }
    }
    table
}

/// Formats a rate in IOPS, or in bytes per second for large blocks.
fn rate(cell: &ExplainedCell, iops: f64, bytes_per_s: f64) -> String {
    if is_about_bandwidth(cell.block_bytes) {
        return human::throughput(bytes_per_s);
    }
    format!("{} IOPS", human::count(iops))
}

/// Formats the rate of one kind of operation. Flushes are per second, not IOPS.
fn rate_of_kind(cell: &ExplainedCell, of: &KindSummary) -> String {
    if IoKinds::DATA.count(of.kind) {
        return rate(cell, of.iops, of.bytes_per_s);
    }
    format!("{}/s", human::count(of.iops))
}

/// Explains one simulated workload: time by phase, utilization of resources, and the bottleneck.
pub(super) fn cell(cell: &ExplainedCell, style: Style) -> String {
    let mut page = Lines::new(style);
    let size = human::size(cell.block_bytes.into());
    let load = format!("T{}Q{}  {size}", cell.threads, cell.depth);
    let on =
        if cell.volumes == 1 { String::new() } else { format!(" on each of {}", cell.volumes) };
    let seconds = human::duration_ns(cell.window_ns);
    let name = clean(&cell.name, 60, style);
    page.line(&format!(
        "{}  {load}{on}  {seconds}, {}",
        paint(&name, Role::Bold, style),
        cell.state
    ));
    for of in &cell.of_volumes {
        volumes(&mut page, cell, of);
    }
    page.blank();
    resources(&mut page, cell);
    page.blank();
    for (i, of) in cell.of_volumes.iter().enumerate() {
        let per_io = if of.iops > 0.0 { of.bytes_per_s / of.iops } else { 0.0 };
        let rate = |iops: f64| rate(cell, iops, iops * per_io);
        let name = of.name.as_ref().map_or(String::new(), |name| format!("{name}: "));
        let sentence = of.limit.sentence(&rate, &human::time_ns);
        page.labelled(if i == 0 { "limit" } else { "" }, 10, &format!("{name}{sentence}"));
    }
    if let Some(transient) = &cell.transient {
        page.labelled("transient", 10, &format!("{transient} (flags are those of `iodyno run`)"));
    }
    if let Some(counts) = cell.counts.filter(|c| c.programs + c.erases > 0) {
        let words = if counts.host_pages > 0 {
            let host = counts.host_pages as f64;
            let of = |pages: u64, name: &str| match pages {
                0 => String::new(),
                _ => format!(", and {:.2} {name}", pages as f64 / host),
            };
            let merged = of(counts.merged_pages, "pages of read-modify-write");
            let filler = of(counts.filler_pages, "filler pages");
            format!(
                "write amplification {:.2}: {:.2} copies and {:.2} map pages{merged}{filler} for each 4 KiB page that the host writes; {} programs, {} erases",
                counts.write_amplification(),
                counts.copied_pages as f64 / host,
                counts.map_pages as f64 / host,
                counts.programs,
                counts.erases
            )
        } else {
            format!("{} programs, {} erases, no data from the host", counts.programs, counts.erases)
        };
        page.labelled("flash", 10, &words);
    }
    if let Some(counts) = cell.read_cache {
        let words = format!(
            "{} of the reads hit: {} of {}; {} units were admitted",
            percent(counts.hit_ratio()),
            counts.hits,
            counts.hits + counts.misses,
            counts.admitted_units
        );
        page.labelled("read cache", 10, &words);
    }
    let words = format!(
        "{} events per I/O, {} ns each; {} I/Os per CPU second",
        human::three_digits(cell.events_per_io),
        human::three_digits(cell.ns_per_event),
        human::count(cell.ios_per_cpu_s)
    );
    page.labelled("simulated", 10, &words);
    page.end()
}

/// Adds the tables of phases of the volumes of one name, and of the components below them.
fn volumes(page: &mut Lines, cell: &ExplainedCell, of: &VolumesAccount) {
    if let Some(name) = &of.name {
        page.blank();
        let words = match of.volumes {
            1 => name.clone(),
            volumes => format!("{volumes} × {name}"),
        };
        page.line(&paint(&clean(&words, usize::MAX, page.style()), Role::Bold, page.style()));
    }
    for kind in &of.kinds {
        phases(page, cell, of, kind);
    }
    for level in &of.below {
        page.blank();
        page.line(&format!(
            "A {} of {} {} takes {}, {}/s",
            level.kind.name(),
            if level.level.starts_with('a') { "an" } else { "a" },
            level.level,
            human::time_ns(level.phases_ns()),
            human::count(level.rate_iops)
        ));
        phase_rows(page, &level.phases, level.pages, None, level.phases_ns());
    }
}

/// Adds the table of phases in which one kind of operation spends its time.
fn phases(page: &mut Lines, cell: &ExplainedCell, of: &VolumesAccount, kind: &KindAccount) {
    page.blank();
    let time = |ns: Option<f64>| ns.map_or("unknown".to_owned(), human::time_ns);
    page.line(&format!(
        "A {} takes {} (p99 {}), {}",
        kind.summary.kind.name(),
        time(kind.mean_ns()),
        time(kind.p99_ns()),
        rate_of_kind(cell, &kind.summary)
    ));
    let mean_ns = kind.mean_ns().unwrap_or(0.0);
    let beyond = if of.below.is_empty() {
        "outside the phases, such as waking the worker"
    } else {
        "outside the phases, such as other stripes"
    };
    let beyond = (kind.beyond_ns > 0.01 * mean_ns).then_some((beyond, kind.beyond_ns));
    let whole_ns =
        if kind.pages.is_some() { kind.phases_ns() } else { mean_ns.max(kind.phases_ns()) };
    phase_rows(page, &kind.phases, kind.pages, beyond, whole_ns);
}

/// Adds a row per phase, and a row for time outside all phases.
fn phase_rows(
    page: &mut Lines,
    phases: &[PhaseAccount],
    mut pages: Option<f64>,
    beyond: Option<(&str, f64)>,
    whole_ns: f64,
) {
    let style = page.style();
    let mut rows: Vec<(&str, f64, bool)> =
        phases.iter().map(|p| (p.name, p.mean_ns, p.of_page)).collect();
    rows.extend(beyond.map(|(name, ns)| (name, ns, false)));
    let names = rows.iter().map(|r| width(r.0)).max().unwrap_or(0);
    for (name, ns, of_page) in rows {
        if of_page && let Some(pages) = pages.take() {
            let words = format!(
                "then its {} pages in parallel; mean times per page:",
                human::three_digits(pages)
            );
            page.line(&format!("  {}", paint(&words, Role::Dim, style)));
        }
        let share = if whole_ns > 0.0 { ns / whole_ns } else { 0.0 };
        page.line(&format!(
            "  {}  {}  {}  {}",
            pad(name, names, false),
            pad(&human::time_ns(ns), 8, true),
            pad(&percent(share), 6, true),
            bar(share, style)
        ));
    }
}

/// Adds the utilization of every resource.
fn resources(page: &mut Lines, cell: &ExplainedCell) {
    let style = page.style();
    let average = if cell.volumes == 1 { "" } else { ", average of all volumes" };
    page.line(&format!("Busy{average}"));
    let name = |s: &Share| {
        if s.count > 1 { format!("{} ({})", s.name, s.count) } else { s.name.clone() }
    };
    let names = cell.shares.iter().map(|s| width(&name(s))).max().unwrap_or(0);
    for s in &cell.shares {
        let uneven = s.uneven_in_words();
        let uneven = uneven.map_or(String::new(), |(devices, busiest)| {
            format!("  {devices}: {}", percent(busiest))
        });
        page.line(&format!(
            "  {}  {}  {}{uneven}",
            pad(&name(s), names, false),
            pad(&percent(s.busy), 6, true),
            bar(s.busy, style)
        ));
    }
}

/// Draws a fraction as a bar, with a resolution of 1/8 column if the terminal supports Unicode.
fn bar(share: f64, style: Style) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let share = share.clamp(0.0, 1.0);
    if !style.unicode {
        return "#".repeat((share * BAR as f64).round() as usize);
    }
    let eighths = (share * (8 * BAR) as f64).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}
