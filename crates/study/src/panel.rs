//! A panel: one table or figure of the paper as axes, and every combination of them as a row.

use crate::cell::CellKey;
use crate::metric::{Metric, Optimum, Recipe};
use crate::provenance::Provenance;
use crate::published::Key;
use crate::testbed::Bench;
use crate::wanted::{Wanted, Workload};
use iodyno_catalog::{Entry, File, Problem, Record};
use iodyno_units::{Precondition, nearest};
use iodyno_workload::Percent;
use std::collections::{BTreeMap, BTreeSet};

/// A table or figure of the paper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    /// Name in the paper, such as `Table 4`.
    pub figure: String,
    /// Subject of the panel.
    pub title: String,
    /// Queue depths, ascending.
    pub depths: Vec<u32>,
    /// Metrics, in the order in which they are shown.
    pub metrics: Vec<Metric>,
}

/// Reads a panel and creates its rows, one for each metric, system, workload, block size, think time, number of
/// threads, depth and number of devices. `built` holds the systems, with their numbers of devices, that are known to
/// be possible.
pub(crate) fn panel(
    file: &File,
    raw: &Record,
    index: usize,
    systems: &[Bench],
    workloads: &[Workload],
    built: &mut BTreeSet<(usize, u32)>,
) -> Result<(Panel, Vec<Wanted>), Problem> {
    let positions = |path: &str, what: &str, all: &[&str]| {
        let names = raw.items(path).iter();
        names.map(|name| position(file, name, what, all)).collect::<Result<Vec<usize>, _>>()
    };
    let named_systems = named_systems(file, raw, systems)?;
    let workload_names: Vec<&str> = workloads.iter().map(|w| w.name.as_str()).collect();
    let named_workloads = positions("workloads", "workload", &workload_names)?;
    let blocks = axis(file, raw, "block", Entry::whole)?;
    let depths = axis(file, raw, "depth", small)?;
    let devices = axis(file, raw, "devices", small)?;
    let thinks = axis(file, raw, "think", Entry::whole)?;
    let threads = axis(file, raw, "threads", small)?;
    let percent = |entry: &Entry| entry.real().map(Percent::from_fraction);
    let fills = axis(file, raw, "fill", percent)?;
    let metrics = axis(file, raw, "metrics", |name| Metric::named(name.text()?))?;
    axis(file, raw, "workloads", Entry::text)?;
    for (metric, at) in metrics.iter().zip(raw.items("metrics")) {
        check_metric(file, raw, *metric, at)?;
    }

    let sets: Vec<&[usize]> = if raw.flag("together") == Some(true) {
        vec![named_workloads.as_slice()]
    } else {
        named_workloads.chunks(1).collect()
    };
    let mut rows = Vec::new();
    for &metric in &metrics {
        let is_best = raw.get("optimum_within").is_some();
        let over_depths = is_best || metric.over_depths();
        let row_depths = if over_depths { depths.get(..1).unwrap_or(&[]) } else { &depths };
        let row_threads = match threads.as_slice() {
            [] => &[1][..],
            all if is_best || metric.over_threads() => &all[..1],
            all => all,
        };
        let thinks = if thinks.is_empty() { &[0][..] } else { &thinks };
        for &system in &named_systems {
            for &set in &sets {
                for point in points(
                    or_none(&blocks, &0),
                    (thinks, or_none(&fills, &Percent::ALL)),
                    row_threads,
                    or_none(row_depths, &0),
                    or_none(&devices, &0),
                ) {
                    let before = match raw.word("written") {
                        Some("fresh") => Precondition::Fresh,
                        Some("sequential") => Precondition::Sequential,
                        _ => Precondition::Workload,
                    };
                    let at = CellKey {
                        system,
                        workload: set[0],
                        before,
                        long: raw.flag("long") == Some(true),
                        ramp_ns: raw.whole("ramp"),
                        span_ns: raw.whole("stands_for"),
                        over_ns: raw.whole("over_time"),
                        ..point
                    };
                    for &workload in set {
                        let at = completed(raw, CellKey { workload, ..at }, systems, workloads);
                        let missing = |axis: &&str| raw.get(axis).is_none() && of(&at, axis) == 0;
                        if let Some(axis) = ["block", "depth", "devices"].into_iter().find(missing)
                        {
                            let message = format!("`{axis}` is missing");
                            let help =
                                "a panel names it, or its systems or workloads do".to_owned();
                            return Err(Problem::at(
                                file,
                                raw.place("figure"),
                                message,
                                Some(help),
                            ));
                        }
                    }
                    let row = row(
                        raw,
                        index,
                        metric,
                        (at, set),
                        (&depths, &threads),
                        (systems, workloads),
                    );
                    rows.push(row.ok_or_else(|| {
                        let message = format!("`{}` can't be shown here", metric.name());
                        let help = if metric == Metric::MessagesPerS {
                            "each of the panel's workloads needs a `message`, the size of one"
                        } else {
                            "an optimum has rates, bandwidths, latencies and what is outstanding \
                             there"
                        };
                        Problem::at(file, raw.place("metrics"), message, Some(help.to_owned()))
                    })?);
                }
            }
        }
    }
    check(file, raw, &rows, systems, workloads, built)?;
    let panel = Panel {
        figure: raw.said("figure").to_owned(),
        title: raw.said("title").to_owned(),
        depths,
        metrics,
    };
    Ok((panel, rows))
}

/// The values of an axis, or `other` alone if the panel lacks the axis.
const fn or_none<'a, T>(values: &'a [T], other: &'a T) -> &'a [T] {
    if values.is_empty() { core::slice::from_ref(other) } else { values }
}

/// Completes a cell with the values of its system and workload on axes that the panel lacks; 0 where they have none.
fn completed(raw: &Record, at: CellKey, systems: &[Bench], workloads: &[Workload]) -> CellKey {
    let (system, workload) = (&systems[at.system], &workloads[at.workload]);
    let other = |axis: &str, named: u32, own: Option<u32>| {
        if raw.get(axis).is_some() { named } else { own.unwrap_or(0) }
    };
    CellKey {
        block_bytes: other("block", at.block_bytes, workload.block_bytes),
        depth: other("depth", at.depth, workload.depth.or(system.depth)),
        devices: other("devices", at.devices, system.devices),
        fill: if raw.get("fill").is_some() { at.fill } else { workload.fill },
        ..at
    }
}

/// The value of an axis in a cell.
fn of(at: &CellKey, axis: &str) -> u32 {
    match axis {
        "block" => at.block_bytes,
        "depth" => at.depth,
        _ => at.devices,
    }
}

/// The systems that a panel names, all if it names none. The name of an entry with several arrays stands for all of
/// these.
fn named_systems(file: &File, raw: &Record, systems: &[Bench]) -> Result<Vec<usize>, Problem> {
    if raw.get("systems").is_none() {
        return Ok((0..systems.len()).collect());
    }
    let all: Vec<&str> = systems.iter().map(|s| s.name.as_str()).collect();
    let mut found = Vec::new();
    for name in raw.items("systems") {
        let text = name.text().unwrap_or_default();
        let entry = |of: &Bench| of.array.is_some() && of.entry == text && of.name != text;
        let before = found.len();
        found.extend((0..systems.len()).filter(|&i| entry(&systems[i])));
        if found.len() == before {
            found.push(position(file, name, "system", &all)?);
        }
    }
    Ok(found)
}

/// Every combination of the axes, without system and workload.
fn points(
    blocks: &[u64],
    (thinks, fills): (&[u64], &[Percent]),
    threads: &[u32],
    depths: &[u32],
    devices: &[u32],
) -> Vec<CellKey> {
    let mut all = Vec::new();
    for &block in blocks {
        for (&think_ns, &fill) in thinks.iter().flat_map(|t| fills.iter().map(move |f| (t, f))) {
            for &threads in threads {
                for &depth in depths {
                    for &devices in devices {
                        all.push(CellKey {
                            system: 0,
                            workload: 0,
                            think_ns,
                            block_bytes: u32::try_from(block).unwrap_or(u32::MAX),
                            threads,
                            depth,
                            devices,
                            before: Precondition::default(),
                            long: false,
                            ramp_ns: None,
                            fill,
                            span_ns: None,
                            over_ns: None,
                        });
                    }
                }
            }
        }
    }
    all
}

/// The row of one combination; None for a metric that is undefined in such a panel.
fn row(
    raw: &Record,
    panel: usize,
    metric: Metric,
    (at, set): (CellKey, &[usize]),
    (depths, threads): (&[u32], &[u32]),
    (systems, workloads): (&[Bench], &[Workload]),
) -> Option<Wanted> {
    let recipe_of = |workload: usize| {
        let cell = completed(raw, CellKey { workload, ..at }, systems, workloads);
        let depths = or_none(depths, &cell.depth);
        let Some(ceiling_ns) = raw.whole("optimum_within") else {
            let threads = or_none(threads, &cell.threads);
            let smallest = systems[cell.system].members();
            if metric == Metric::MessagesPerS {
                let messages = cell.block_bytes / workloads[workload].message_bytes?;
                return Some(Recipe::Messages(messages, cell));
            }
            return metric.recipe(cell, (depths, threads), smallest);
        };
        let at_depths =
            |threads: u32| depths.iter().map(move |&depth| CellKey { threads, depth, ..cell });
        let threads = if threads.is_empty() { &[1] } else { threads };
        let cells = threads.iter().flat_map(|&n| at_depths(n)).collect();
        let optimum = Optimum { cells, ceiling_ns };
        Some(Recipe::AtOptimum(metric.at_optimum()?, optimum))
    };
    let at = completed(raw, at, systems, workloads);
    let recipe = match set {
        [one] => recipe_of(*one)?,
        several => metric.together(several.iter().map(|&w| recipe_of(w)).collect::<Option<_>>()?),
    };
    let thinking = raw.get("think").map(|_| {
        let ns = at.think_ns;
        let (whole, unit) = if ns.is_multiple_of(1000) { (ns / 1000, "us") } else { (ns, "ns") };
        format!("+thinktime{whole}{unit}")
    });
    let filled = raw.get("fill").map(|_| format!("+fill{}", at.fill)).unwrap_or_default();
    let names: Vec<&str> = set.iter().map(|&w| workloads[w].name.as_str()).collect();
    let is_best = raw.get("optimum_within").is_some();
    Some(Wanted {
        key: Key {
            figure: raw.said("figure").to_owned(),
            system: systems[at.system].name.clone(),
            workload: names.join("/") + &thinking.unwrap_or_default() + &filled,
            block_bytes: raw.get("block").map(|_| at.block_bytes),
            queue_depth: raw
                .get("depth")
                .filter(|_| !is_best && !metric.over_depths())
                .map(|_| at.depth),
            threads: (!is_best && !threads.is_empty() && !metric.over_threads())
                .then_some(at.threads),
            devices: (raw.get("devices").is_some() || raw.flag("own_devices") == Some(true))
                .then_some(at.devices)
                .filter(|_| !metric.over_devices()),
            metric: metric.name().to_owned(),
        },
        panel: Some(panel),
        metric: Some(metric),
        at: Some(at),
        recipe,
        unit: metric.unit(),
        printed: None,
        basis: Provenance::Predicted,
        by: Vec::new(),
    })
}

/// Checks that a panel has the key that a metric needs.
fn check_metric(file: &File, raw: &Record, metric: Metric, at: &Entry) -> Result<(), Problem> {
    let Some(key) = metric.needs() else { return Ok(()) };
    if raw.get(key).is_some() && raw.flag(key) != Some(false) {
        return Ok(());
    }
    let what = if key == "think" { "an axis `think`" } else { &format!("`{key}`") };
    let message = format!("`{}` needs {what}", metric.name());
    Err(Problem::at(file, at.span.clone(), message, None))
}

/// The position of a name in `all`.
fn position(file: &File, name: &Entry, what: &str, all: &[&str]) -> Result<usize, Problem> {
    let text = name.text().unwrap_or_default();
    all.iter().position(|known| *known == text).ok_or_else(|| {
        let guess = nearest(text, all.iter().copied()).map(|n| format!("did you mean `{n}`? "));
        let help = format!("{}it needs an entry of [[{what}s]]", guess.unwrap_or_default());
        Problem::at(
            file,
            name.span.clone(),
            format!("the study has no {what} `{text}`"),
            Some(help),
        )
    })
}

/// Maximum number of values of an axis.
const AXIS_MAX: usize = 64;

/// Reads the values of an axis; empty without such a key. Values must be distinct, and numbers ascending, so that
/// curves are drawn from left to right.
fn axis<'a, T: Ord>(
    file: &File,
    raw: &'a Record,
    name: &str,
    value: impl Fn(&'a Entry) -> Option<T>,
) -> Result<Vec<T>, Problem> {
    let values: Vec<T> = raw.items(name).iter().filter_map(value).collect();
    let wrong = if raw.get(name).is_some() && !(1..=AXIS_MAX).contains(&values.len()) {
        format!("`{name}` has 1 to {AXIS_MAX} values, not {}", values.len())
    } else if values.iter().collect::<BTreeSet<_>>().len() < values.len() {
        format!("`{name}` has a value twice")
    } else if matches!(name, "threads" | "depth" | "devices" | "think" | "fill")
        && !values.is_sorted()
    {
        format!("`{name}` goes from small to large")
    } else {
        return Ok(values);
    };
    Err(Problem::at(file, raw.place(name), wrong, None))
}

fn small(entry: &Entry) -> Option<u32> {
    entry.whole().map(|whole| whole as u32)
}

/// Checks that all cells of the rows can be built, and that no row exists already.
fn check(
    file: &File,
    raw: &Record,
    rows: &[Wanted],
    systems: &[Bench],
    workloads: &[Workload],
    built: &mut BTreeSet<(usize, u32)>,
) -> Result<(), Problem> {
    let cells: BTreeSet<CellKey> = rows.iter().flat_map(|row| row.recipe.cells()).collect();
    for cell in &cells {
        let workload = &workloads[cell.workload];
        if let Err(why) = workload.spec(cell) {
            let message = format!("no such workload can be issued: {why}");
            return Err(Problem::at(file, raw.place("figure"), message, None));
        }
        if cell.devices == 0 {
            let message = "`devices` is at least 1";
            return Err(Problem::at(file, raw.place("devices"), message, None));
        }
    }
    let (any, workload) = (cells.first(), |cell: &CellKey| &workloads[cell.workload]);
    let written = any.map(|cell| workload(cell).written(cell));
    let mut sizes = BTreeMap::new();
    for cell in &cells {
        let most: &mut u32 = sizes.entry(cell.system).or_default();
        *most = cell.devices.max(*most);
    }
    for (system, most) in sizes {
        let Some(written) = written.filter(|_| built.insert((system, most))) else { continue };
        if let Err(why) = systems[system].system(most, written, 1.0) {
            let message = format!("{most} devices can't be in `{}`: {why}", systems[system].name);
            return Err(Problem::at(file, raw.place("devices"), message, None));
        }
    }
    Ok(())
}
