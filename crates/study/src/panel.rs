//! A panel: one table or figure of the paper as axes, and every combination of them as a row.

use crate::basis::Basis;
use crate::bench::Bench;
use crate::cell::CellKey;
use crate::metric::Metric;
use crate::published::Key;
use crate::raw::RawPanel;
use crate::study::{Wanted, Workload};
use core::ops::Range;
use iodyno_catalog::{File, Problem};
use iodyno_units::nearest;
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

/// The panel and its rows: for each metric, system, workload, block size, think time, depth and
/// number of devices.
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

    let mut rows = Vec::new();
    for &metric in &metrics {
        let row_depths = if metric.over_depths() { &depths[..1] } else { depths };
        for &system in &named_systems {
            for &workload in &named_workloads {
                for &block_bytes in &blocks {
                    for &think_ns in thinks.as_deref().unwrap_or(&[0]) {
                        for &depth in row_depths {
                            for &devices in devices {
                                let at = CellKey {
                                    system,
                                    workload,
                                    think_ns,
                                    block_bytes: u32::try_from(block_bytes).unwrap_or(u32::MAX),
                                    depth,
                                    devices,
                                };
                                let think = thinks.is_some().then_some(think_ns);
                                let names = (
                                    systems[system].name.as_str(),
                                    workloads[workload].name.as_str(),
                                );
                                rows.push(row(raw, index, metric, at, think, names));
                            }
                        }
                    }
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

/// One combination.
fn row(
    raw: &RawPanel,
    panel: usize,
    metric: Metric,
    at: CellKey,
    think_ns: Option<u64>,
    (system, workload): (&str, &str),
) -> Wanted {
    let thinking = think_ns.map(|ns| {
        let (whole, unit) = if ns.is_multiple_of(1000) { (ns / 1000, "us") } else { (ns, "ns") };
        format!("+thinktime{whole}{unit}")
    });
    Wanted {
        key: Key {
            figure: raw.figure.get_ref().clone(),
            system: system.to_owned(),
            workload: workload.to_owned() + &thinking.unwrap_or_default(),
            block_bytes: Some(at.block_bytes),
            queue_depth: (!metric.over_depths()).then_some(at.depth),
            threads: None,
            devices: Some(at.devices),
            metric: metric.name().to_owned(),
        },
        panel: Some(panel),
        metric: Some(metric),
        at: Some(at),
        recipe: metric.recipe(at, raw.depth.get_ref()),
        unit: metric.unit(),
        printed: None,
        basis: Basis::Predicted,
        by: Vec::new(),
    }
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
    } else if matches!(name, "depth" | "devices" | "think") && !values.is_sorted() {
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
    for metric in raw.metrics.get_ref() {
        let needs_think =
            matches!(metric.get_ref(), Metric::IopsVsNoThink | Metric::LatencyVsNoThink);
        if needs_think && raw.think.is_none() {
            let message = format!("`{}` needs an axis `think`", metric.get_ref().name());
            return Err(Problem::at(file, metric.span(), message, None));
        }
    }
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
    let written = any.map(|cell| workload(cell).written(cell.block_bytes));
    for system in cells.iter().map(|cell| cell.system).collect::<BTreeSet<_>>() {
        let Some(written) = written else { continue };
        if let Err(why) = systems[system].system(most, written) {
            let message = format!("{most} devices can't be in `{}`: {why}", systems[system].name);
            return Err(Problem::at(file, raw.devices.span(), message, None));
        }
    }
    Ok(())
}
