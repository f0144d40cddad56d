//! A panel: one table or figure of the paper as axes, and every combination of them as a row.

use crate::cell::CellKey;
use crate::metric::{Metric, Optimum, Recipe};
use crate::provenance::Provenance;
use crate::published::Key;
use crate::raw::RawPanel;
use crate::testbed::Bench;
use crate::wanted::{Wanted, Workload};
use core::ops::Range;
use iodyno_catalog::{File, Problem};
use iodyno_units::{Precondition, nearest};
use serde_spanned::Spanned;
use std::collections::BTreeSet;

/// A table or figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    /// What the paper calls it.
    pub figure: String,
    /// What it shows.
    pub title: String,
    /// Depths, ascending.
    pub depths: Vec<u32>,
    /// Its metrics, in the order in which they are shown.
    pub metrics: Vec<Metric>,
}

/// The panel and its rows: for each metric, system, workload, block size, think time, threads,
/// depth and number of devices.
pub(crate) fn panel(
    file: &File,
    raw: &RawPanel,
    index: usize,
    systems: &[Bench],
    workloads: &[Workload],
) -> Result<(Panel, Vec<Wanted>), Problem> {
    let mut named_systems: Vec<usize> = Vec::new();
    match &raw.systems {
        Some(names) => {
            for name in names {
                let all = systems.iter().map(|s| s.name.as_str());
                named_systems.push(position(file, name, "system", all)?);
            }
        }
        None => named_systems.extend(0..systems.len()),
    }
    let mut named_workloads = Vec::new();
    for name in raw.workloads.get_ref() {
        let all = workloads.iter().map(|w| w.name.as_str());
        named_workloads.push(position(file, name, "workload", all)?);
    }
    let blocks: Vec<u64> = raw.block.get_ref().iter().map(|size| size.0).collect();
    let thinks: Option<Vec<u64>> =
        raw.think.as_ref().map(|list| list.get_ref().iter().map(|time| time.0).collect());
    let (depths, devices) = (raw.depth.get_ref(), raw.devices.get_ref());
    axis(file, &raw.workloads.span(), "workloads", &named_workloads)?;
    axis(file, &raw.block.span(), "block", &blocks)?;
    axis(file, &raw.depth.span(), "depth", depths)?;
    axis(file, &raw.devices.span(), "devices", devices)?;
    if let (Some(list), Some(thinks)) = (&raw.think, &thinks) {
        axis(file, &list.span(), "think", thinks)?;
    }
    let metrics: Vec<Metric> = raw.metrics.get_ref().iter().map(|m| *m.get_ref()).collect();
    axis(file, &raw.metrics.span(), "metrics", &metrics)?;

    let threads = raw.threads.as_ref().map(|list| list.get_ref().as_slice());
    if let Some(list) = &raw.threads {
        axis(file, &list.span(), "threads", list.get_ref())?;
    }
    for metric in raw.metrics.get_ref() {
        check_metric(file, raw, metric)?;
    }

    let sets: Vec<&[usize]> = if raw.together {
        vec![named_workloads.as_slice()]
    } else {
        named_workloads.chunks(1).collect()
    };
    let mut rows = Vec::new();
    for &metric in &metrics {
        let is_best = raw.optimum_within.is_some();
        let over_depths = is_best || metric.over_depths();
        let row_depths = if over_depths { &depths[..1] } else { depths };
        let row_threads = threads.map_or(&[1][..], |all| if is_best { &all[..1] } else { all });
        let thinks = thinks.as_deref().unwrap_or(&[0]);
        for &system in &named_systems {
            for &set in &sets {
                for point in points(&blocks, thinks, row_threads, row_depths, devices) {
                    let at = CellKey {
                        system,
                        workload: set[0],
                        before: raw.written,
                        long: raw.long,
                        ramp_ns: raw.ramp.map(|ramp| ramp.0),
                        ..point
                    };
                    let row = row(raw, index, metric, (at, set), systems, workloads);
                    rows.push(row.ok_or_else(|| {
                        let message = format!("`{}` can't be told here", metric.name());
                        let help = "an optimum has rates, bandwidths, latencies and what is \
                                    outstanding there";
                        Problem::at(file, raw.metrics.span(), message, Some(help.to_owned()))
                    })?);
                }
            }
        }
    }
    check(file, raw, &rows, systems, workloads)?;
    let panel = Panel {
        figure: raw.figure.get_ref().clone(),
        title: raw.title.clone(),
        depths: depths.clone(),
        metrics,
    };
    Ok((panel, rows))
}

/// Every combination of the axes, without system and workload.
fn points(
    blocks: &[u64],
    thinks: &[u64],
    threads: &[u32],
    depths: &[u32],
    devices: &[u32],
) -> Vec<CellKey> {
    let mut all = Vec::new();
    for &block in blocks {
        for &think_ns in thinks {
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
                        });
                    }
                }
            }
        }
    }
    all
}

/// One combination; None for a metric that can't be told in such a panel.
fn row(
    raw: &RawPanel,
    panel: usize,
    metric: Metric,
    (at, set): (CellKey, &[usize]),
    systems: &[Bench],
    workloads: &[Workload],
) -> Option<Wanted> {
    let depths = raw.depth.get_ref();
    let threads = raw.threads.as_ref().map(|list| list.get_ref().as_slice());
    let recipe_of = |workload: usize| {
        let cell = CellKey { workload, ..at };
        let Some(ceiling) = raw.optimum_within else { return metric.recipe(cell, depths) };
        let at_depths =
            |threads: u32| depths.iter().map(move |&depth| CellKey { threads, depth, ..cell });
        let cells = threads.unwrap_or(&[1]).iter().flat_map(|&n| at_depths(n)).collect();
        let optimum = Optimum { cells, ceiling_ns: ceiling.0 };
        Some(Recipe::AtOptimum(metric.at_optimum()?, optimum))
    };
    let recipe = match set {
        [one] => recipe_of(*one)?,
        several => metric.together(several.iter().map(|&w| recipe_of(w)).collect::<Option<_>>()?),
    };
    let thinking = raw.think.as_ref().map(|_| {
        let ns = at.think_ns;
        let (whole, unit) = if ns.is_multiple_of(1000) { (ns / 1000, "us") } else { (ns, "ns") };
        format!("+thinktime{whole}{unit}")
    });
    let names: Vec<&str> = set.iter().map(|&w| workloads[w].name.as_str()).collect();
    let is_best = raw.optimum_within.is_some();
    Some(Wanted {
        key: Key {
            figure: raw.figure.get_ref().clone(),
            system: systems[at.system].name.clone(),
            workload: names.join("/") + &thinking.unwrap_or_default(),
            block_bytes: Some(at.block_bytes),
            queue_depth: (!is_best && !metric.over_depths()).then_some(at.depth),
            threads: threads.filter(|_| !is_best).map(|_| at.threads),
            devices: Some(at.devices),
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

/// A metric that says something of an axis or a rule needs it.
fn check_metric(file: &File, raw: &RawPanel, metric: &Spanned<Metric>) -> Result<(), Problem> {
    let Some(key) = metric.get_ref().needs() else { return Ok(()) };
    let is_there = match key {
        "think" => raw.think.is_some(),
        "together" => raw.together,
        _ => raw.optimum_within.is_some(),
    };
    if is_there {
        return Ok(());
    }
    let what = if key == "think" { "an axis `think`" } else { &format!("`{key}`") };
    let message = format!("`{}` needs {what}", metric.get_ref().name());
    Err(Problem::at(file, metric.span(), message, None))
}

/// Which of `all` is named.
fn position<'a>(
    file: &File,
    name: &Spanned<String>,
    what: &str,
    all: impl Iterator<Item = &'a str> + Clone,
) -> Result<usize, Problem> {
    all.clone().position(|known| known == name.get_ref()).ok_or_else(|| {
        let guess = nearest(name.get_ref(), all).map(|n| format!("did you mean `{n}`? "));
        let help = format!("{}it needs an entry of [[{what}s]]", guess.unwrap_or_default());
        let message = format!("the study has no {what} `{}`", name.get_ref());
        Problem::at(file, name.span(), message, Some(help))
    })
}

/// The most values of an axis.
const AXIS_MAX: usize = 64;

/// An axis has values, and none twice; numbers ascend, so that curves are drawn from left to right.
fn axis<T: Ord>(file: &File, span: &Range<usize>, name: &str, values: &[T]) -> Result<(), Problem> {
    let wrong = if values.is_empty() || values.len() > AXIS_MAX {
        format!("`{name}` has 1 to {AXIS_MAX} values, not {}", values.len())
    } else if values.iter().collect::<BTreeSet<_>>().len() < values.len() {
        format!("`{name}` has a value twice")
    } else if matches!(name, "threads" | "depth" | "devices" | "think") && !values.is_sorted() {
        format!("`{name}` goes from small to large")
    } else {
        return Ok(());
    };
    Err(Problem::at(file, span.clone(), wrong, None))
}

/// Everything that the rows need can be built, and no row is there already.
fn check(
    file: &File,
    raw: &RawPanel,
    rows: &[Wanted],
    systems: &[Bench],
    workloads: &[Workload],
) -> Result<(), Problem> {
    let cells: BTreeSet<CellKey> = rows.iter().flat_map(|row| row.recipe.cells()).collect();
    for cell in &cells {
        let workload = &workloads[cell.workload];
        if let Err(why) = workload.spec(cell) {
            let message = format!("no such workload can be issued: {why}");
            return Err(Problem::at(file, raw.figure.span(), message, None));
        }
        if cell.devices == 0 {
            let message = "`devices` is at least 1";
            return Err(Problem::at(file, raw.devices.span(), message, None));
        }
    }
    let most = raw.devices.get_ref().iter().copied().max().unwrap_or(1);
    let (any, workload) = (cells.first(), |cell: &CellKey| &workloads[cell.workload]);
    let written = any.map(|cell| workload(cell).written(cell));
    for system in cells.iter().map(|cell| cell.system).collect::<BTreeSet<_>>() {
        let Some(written) = written else { continue };
        if let Err(why) = systems[system].system(most, written) {
            let message = format!("{most} devices can't be in `{}`: {why}", systems[system].name);
            return Err(Problem::at(file, raw.devices.span(), message, None));
        }
    }
    Ok(())
}
