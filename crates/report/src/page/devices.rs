//! Sections that compare devices by the results of a method that measures each device with several workloads. The
//! devices are the targets of one run or of several runs.

use super::stage::{kind_nine, nine, tone};
use super::{grid, labels};
use crate::kinds::plural;
use crate::method_headlines::is_over_workloads;
use iodyno_method::Findings;
use iodyno_method::findings::{Row, Showed, kinds_apart};
use iodyno_notebook::Run;
use iodyno_page::{
    Axis, Block, Figure, Mark, Panel, Plot, Point, Quantity, Section, Series, Shape,
};
use std::collections::BTreeSet;

/// Maximum number of devices in a figure: more are indistinguishable.
const DEVICES_MAX: usize = 8;

/// Name of a device, and the rows of its sweep over workloads.
type OfDevice<'a> = (String, &'a [Row]);

/// Section that compares the devices of one run on several targets, each measured alone; `None` with fewer than two
/// devices.
pub(super) fn of_targets(run: &Run, findings: &Findings) -> Option<Section> {
    section(&labels::line_of(run, findings.level(), run.cells.iter()), &sweeps(&[(run, findings)]))
}

/// Section that compares the devices of several runs; `None` with fewer than two devices.
pub(super) fn of_runs(runs: &[&Run]) -> Option<Section> {
    let found = runs.iter().map(|&run| (run, crate::method::findings_of(run)));
    let found: Vec<(&Run, Option<Findings>)> = found.collect();
    let each: Vec<_> = found.iter().filter_map(|(run, f)| Some((*run, f.as_ref()?))).collect();
    let ids = each.iter().take(DEVICES_MAX).map(|(run, _)| format!("run {}", run.id));
    section(&ids.collect::<Vec<_>>().join(" · "), &sweeps(&each))
}

/// Sweeps over workloads, each with the name of its target. If two sweeps have the same target, each name also contains
/// that of the run.
fn sweeps<'a>(runs: &[(&'a Run, &'a Findings)]) -> Vec<OfDevice<'a>> {
    let mut all: Vec<(&str, OfDevice<'a>)> = Vec::new();
    for (run, findings) in runs {
        for subject in &findings.subjects {
            let target = match findings.subjects.len() {
                1 => labels::targets(run),
                _ => subject.target.clone(),
            };
            all.extend(subject.stages.iter().filter_map(|stage| match &stage.showed {
                Some(Showed::Sweep(sweep)) if is_over_workloads(&sweep.table.axes) => {
                    let rows = sweep.table.rows.as_slice();
                    Some((run.head.name.as_str(), (target.clone(), rows)))
                }
                _ => None,
            }));
        }
    }
    let targets: BTreeSet<&String> = all.iter().map(|(_, (target, _))| target).collect();
    let are_distinct = targets.len() == all.len();
    let named = all.into_iter().map(|(run, (target, rows))| {
        (if are_distinct { target } else { format!("{run}, {target}") }, rows)
    });
    named.collect()
}

fn section(conditions: &str, all: &[OfDevice<'_>]) -> Option<Section> {
    let (mut devices, mut workloads) = (Vec::new(), Vec::new());
    for (device, rows) in all {
        if !devices.contains(&device) {
            devices.push(device);
        }
        for row in *rows {
            if !workloads.contains(&row.at[0]) {
                workloads.push(row.at[0].clone());
            }
        }
    }
    if devices.len() < 2 {
        return None;
    }
    let figure = |what: &str,
                  quantity: Quantity,
                  of: &dyn Fn(&Row) -> Option<f64>,
                  samples: Option<&dyn Fn(&Row) -> u64>| {
        // Some workloads don't have every kind of operation.
        let has = |workload: &&String| of_workload(all, workload).any(|(_, row)| of(row).is_some());
        let workloads: Vec<String> = workloads.iter().filter(has).cloned().collect();
        // Several runs of one device share a colour and an entry in the legend.
        let series = all.iter().filter_map(|(device, rows)| {
            let color = devices.iter().position(|d| *d == device).filter(|&n| n < DEVICES_MAX)?;
            let points = workloads.iter().enumerate().filter_map(|(y, workload)| {
                let row = rows.iter().find(|row| row.at[0] == *workload)?;
                Some(Point { tone: tone(row), ..Point::at(of(row)?, y as f64) })
            });
            let points = points.collect();
            Some(Series { name: device.clone(), mark: Mark::Line, color, points })
        });
        let mut panel = Panel::new(Axis::categories("", workloads.clone()), series.collect());
        panel.height = (workloads.len() as f64 / 6.0).clamp(0.5, 4.0);
        let mut notes = vec![
            "A small difference may be chance: `iodyno compare` judges it from several runs of each device."
                .to_owned(),
        ];
        notes.extend(without_point(all, &devices, &workloads, of, samples));
        notes.extend(
            (devices.len() > DEVICES_MAX)
                .then(|| format!("The first {DEVICES_MAX} of {} devices.", devices.len())),
        );
        Figure {
            id: format!("devices-{}", labels::slug(what)),
            title: format!("{what} by workload and device"),
            summary: summary(all, &workloads, quantity, of),
            conditions: conditions.to_owned(),
            shape: Shape::Plot(Plot {
                x: Axis::log(what, quantity),
                panels: vec![panel],
                spans: Vec::new(),
            }),
            notes,
        }
    };
    let apart = kinds_apart(all.iter().flat_map(|(_, rows)| *rows));
    let throughput = figure("throughput", Quantity::Throughput, &|row| row.bytes_per_s, None);
    let mut blocks = vec![Block::Figure(throughput)];
    if apart.is_empty() {
        let p99 = |row: &Row| nine(row, 1);
        let p99 = figure("p99 latency", Quantity::LatencyNs, &p99, Some(&|row| row.ops));
        blocks.push(Block::Figure(p99));
    }
    for &kind in &apart {
        let what = format!("p99 latency of {}", plural(kind));
        let samples = |row: &Row| row.of_kind(kind).map_or(0, |of| of.ops);
        let p99 = |row: &Row| kind_nine(row, kind, 1);
        let p99 = figure(&what, Quantity::LatencyNs, &p99, Some(&samples));
        blocks.push(Block::Figure(p99));
    }
    // Join one table per workload, so that colours compare devices.
    let names = ["workload", "device"].map(str::to_owned);
    let tables = workloads.iter().map(|workload| {
        let named = of_workload(all, workload)
            .map(|(device, row)| (vec![workload.clone(), device.clone()], row));
        grid::table_of(&names, &named.collect::<Vec<_>>(), &apart)
    });
    let joined = tables.reduce(|mut a, b| {
        a.rows.extend(b.rows);
        a
    });
    blocks.extend(joined.map(Block::Table));
    Some(Section {
        id: "devices".to_owned(),
        title: "Side by side".to_owned(),
        blocks,
        folded: false,
    })
}

fn of_workload<'a>(
    all: &'a [OfDevice<'a>],
    workload: &'a str,
) -> impl Iterator<Item = (&'a String, &'a Row)> + Clone {
    let rows = all.iter().flat_map(|(device, rows)| rows.iter().map(move |row| (device, row)));
    rows.filter(move |(_, row)| row.at[0] == workload)
}

/// Names the drawn devices that have a workload of the figure and no value for it, and the reason; empty if all have
/// one. `samples`: number of samples of the figure's percentile; None if the figure shows no percentile.
fn without_point(
    all: &[OfDevice<'_>],
    devices: &[&String],
    workloads: &[String],
    of: &dyn Fn(&Row) -> Option<f64>,
    samples: Option<&dyn Fn(&Row) -> u64>,
) -> Vec<String> {
    let lacks = |device: &String, for_samples: bool| {
        let missing = workloads.iter().filter(|workload| {
            let mut rows = of_workload(all, workload).filter(|(name, _)| *name == device);
            let has_samples =
                rows.clone().any(|(_, row)| samples.is_some_and(|samples| samples(row) > 0));
            rows.clone().next().is_some()
                && rows.all(|(_, row)| of(row).is_none())
                && has_samples == for_samples
        });
        let missing: Vec<&str> = missing.map(String::as_str).collect();
        (!missing.is_empty()).then(|| format!("{device} ({})", missing.join(", ")))
    };
    let reasons = [("as the samples are too few", true), ("not measured", false)];
    let notes = reasons.into_iter().filter_map(|(reason, for_samples)| {
        let drawn = devices.iter().take(DEVICES_MAX);
        let lacking: Vec<String> = drawn.filter_map(|device| lacks(device, for_samples)).collect();
        (!lacking.is_empty()).then(|| format!("Without a point, {reason}: {}.", lacking.join("; ")))
    });
    notes.collect()
}

/// Names the best and the worst device for each workload.
fn summary(
    all: &[OfDevice<'_>],
    workloads: &[String],
    quantity: Quantity,
    of: &dyn Fn(&Row) -> Option<f64>,
) -> String {
    let each = workloads.iter().filter_map(|workload| {
        let values = of_workload(all, workload).filter_map(|(_, row)| of(row));
        let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(l, h), x| (l.min(x), h.max(x)));
        (high > 0.0)
            .then(|| format!("{workload} {} to {}", quantity.words(low), quantity.words(high)))
    });
    each.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device in the legend without a point is named, with the workloads that it lacks and the true reason.
    #[test]
    fn devices_without_a_point_are_named() {
        let row = |workload: &str, ops: u64, p99_ns: Option<u64>| Row {
            at: vec![workload.to_owned()],
            bytes_per_s: (ops > 0).then_some(1e8),
            nines_ns: vec![None, p99_ns],
            ops,
            ..Row::default()
        };
        let fast = ["reads", "mix", "trims"].map(|of| row(of, 9_000, Some(100_000)));
        let slow =
            [row("reads", 9, None), row("mix", 9_000, Some(9_000_000)), row("trims", 0, None)];
        let all: Vec<OfDevice> =
            vec![("fast".to_owned(), fast.as_slice()), ("slow".to_owned(), slow.as_slice())];
        let blocks = section("", &all).unwrap().blocks;
        let notes = blocks.iter().filter_map(|block| match block {
            Block::Figure(figure) => {
                Some(figure.notes.iter().filter(|it| it.starts_with("Without")).map(String::as_str))
            }
            _ => None,
        });
        let notes: Vec<Vec<&str>> = notes.map(Iterator::collect).collect();
        let few = "Without a point, as the samples are too few: slow (reads).";
        let none = "Without a point, not measured: slow (trims).";
        assert_eq!(notes, [vec![none], vec![few, none]]);
    }
}
