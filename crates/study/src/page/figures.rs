//! Charts of a study. Lines show simulated values, rings show published values, and values measured on a real device
//! are drawn on top.

use super::{Measured, Overlay, quantity};
use crate::error_strata::Spread;
use crate::outcome::Outcome;
use crate::series::{Axis as Along, Series as Line};
use crate::wanted::Wanted;
use crate::{CellKey, Metric};
use iodyno_page::{Axis, Figure, Mark, Panel, Plot, Point, Quantity, Scale, Series, Shape};

/// Maximum number of lines in one chart; more are indistinguishable.
const LINES_MAX: usize = 6;
/// Maximum number of single values in one chart.
const NAMES_MAX: usize = 40;

/// Draws a metric of a panel: simulated values as lines, published values as rings.
pub(super) fn figure(
    outcome: &Outcome<'_>,
    lines: &[Line],
    overlays: &[Overlay],
) -> Option<Figure> {
    let first = lines.first()?;
    let quantity = quantity(first.metric);
    let id = format!("p{}-{}", first.panel + 1, first.metric.name().replace('_', "-"));
    let (x, panel) = if first.axis == Along::None {
        single(outcome, lines, quantity)
    } else {
        curves(outcome, lines, overlays, quantity)
    };
    let scored = lines.iter().flat_map(|l| &l.rows).filter(|&&r| outcome.rows[r].score.is_some());
    let errors = scored
        .filter(|&&r| !outcome.rows[r].flagged)
        .filter_map(|&r| Some(outcome.rows[r].score?.error));
    let spread = Spread::of(errors);
    let summary = match (spread.mean, spread.max) {
        (Some(mean), Some(max)) => format!(
            "Our figures differ from the printed ones by {} on average, by {} at most.",
            Quantity::Share.words(mean),
            Quantity::Share.words(max)
        ),
        _ => "The paper prints no figures for this; ours are predictions.".to_owned(),
    };
    Some(Figure {
        id,
        title: capital(first.metric.title()),
        summary,
        conditions: format!(
            "{} · {} · simulated",
            outcome.study.name, outcome.study.panels[first.panel].figure
        ),
        shape: Shape::Plot(Plot { x, panels: vec![panel], spans: Vec::new() }),
        notes: Vec::new(),
    })
}

/// Draws latency over rate: one line for each line of the panel for which rate and mean latency are known by depth.
/// Includes points from other panels of the same table or figure, system and workload. None if there is no such line.
pub(super) fn over_load(outcome: &Outcome<'_>, lines: &[Line]) -> Option<Figure> {
    let study = outcome.study;
    let has = |metric| lines.iter().any(|line| line.metric == metric);
    let by_depth =
        |line: &&Line| line.metric == Metric::Iops && line.axis == Along::Depth && line.x.len() > 1;
    let mut all = Vec::new();
    let lines_of_rates = lines.iter().filter(by_depth).take(LINES_MAX);
    for (color, line) in lines_of_rates.enumerate().filter(|_| has(Metric::LatencyMean)) {
        let like = &study.rows[line.rows[0]];
        let same = |row: &Wanted, metric| {
            row.metric == Some(metric)
                && row.key.figure == like.key.figure
                && row.at.zip(like.at).is_some_and(|(a, b)| {
                    let point = |at: CellKey| CellKey { depth: 0, think_ns: 0, ..at };
                    point(a) == point(b)
                })
        };
        let rows = |metric| (0..study.rows.len()).filter(move |&i| same(&study.rows[i], metric));
        let mut points: Vec<Point> = rows(Metric::Iops)
            .filter_map(|rate| {
                let time = rows(Metric::LatencyMean)
                    .find(|&time| study.rows[time].at == study.rows[rate].at)?;
                Some(Point::at(ours(outcome, rate)?, ours(outcome, time)?))
            })
            .collect();
        // Sorted by latency, which more load never shortens.
        points.sort_by(|a, b| a.y.total_cmp(&b.y));
        all.push(Series { name: line.label.clone(), mark: Mark::Line, color, points });
    }
    let first = lines.first().filter(|_| !all.is_empty())?;
    let panel = Panel::new(Axis::from_zero("latency", Quantity::LatencyNs), all);
    let x = Axis::from_zero("IOPS", Quantity::Iops);
    Some(Figure {
        id: format!("p{}-over-load", first.panel + 1),
        title: "Response time over load".to_owned(),
        summary: "Each line runs from the fewest outstanding operations to the most. Further right and further down is better.".to_owned(),
        conditions: format!(
            "{} · {} · simulated",
            outcome.study.name, outcome.study.panels[first.panel].figure
        ),
        shape: Shape::Plot(Plot { x, panels: vec![panel], spans: Vec::new() }),
        notes: Vec::new(),
    })
}

pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// Simulated value of a row, in the base unit of its dimension.
pub(super) fn ours(outcome: &Outcome<'_>, row: usize) -> Option<f64> {
    Some(outcome.rows[row].ours? * outcome.study.rows[row].unit.scale())
}

/// Published value of a row, in the base unit of its dimension.
fn printed(outcome: &Outcome<'_>, row: usize) -> Option<f64> {
    let figure = outcome.printed(&outcome.study.rows[row])?;
    Some(figure.value * figure.unit.scale())
}

/// Draws the lines of a metric along an axis.
fn curves(
    outcome: &Outcome<'_>,
    lines: &[Line],
    overlays: &[Overlay],
    quantity: Quantity,
) -> (Axis, Panel) {
    let mut all = ours_over_printed(outcome, lines);
    let overlays = overlays.iter().enumerate();
    let measured = overlays.map(|(number, overlay)| Series {
        name: overlay.name.clone(),
        mark: Mark::Dots,
        color: LINES_MAX + number,
        points: laid_over(outcome, lines, overlay),
    });
    all.extend(measured.filter(|series| !series.points.is_empty()));
    let points = || all.iter().flat_map(|series| &series.points);
    let along = lines[0].axis;
    let label = match along {
        Along::Devices => "devices",
        Along::Depth => "queue depth",
        Along::Think => "think time, µs",
        Along::Threads => "threads",
        Along::Block => "block size",
        Along::Fill => "fill, %",
        Along::None => "",
    };
    let of_x = if along == Along::Block { Quantity::Bytes } else { Quantity::Count };
    // Devices, threads and depths double from point to point; think time begins at none.
    let is_log = along == Along::Block || is_wide(points().map(|p| p.x), 5.0);
    let x = if is_log { Axis::log(label, of_x) } else { Axis::from_zero(label, of_x) };
    let label = value_label(lines, quantity).unwrap_or("ratio");
    let is_log = is_wide(points().map(|p| p.y), 50.0);
    let y = if is_log { Axis::log(label, quantity) } else { Axis::from_zero(label, quantity) };
    (x, Panel::new(y, all))
}

/// Label of the value axis; None for a number without a unit.
fn value_label(lines: &[Line], quantity: Quantity) -> Option<&'static str> {
    match quantity {
        _ if lines.first().is_some_and(|line| line.metric == Metric::MessagesPerS) => {
            Some("messages a second")
        }
        Quantity::Iops => Some("IOPS"),
        Quantity::Throughput => Some("throughput"),
        Quantity::LatencyNs => Some("latency"),
        _ => None,
    }
}

/// Whether all values are positive, and the largest exceeds the smallest by more than `factor`.
fn is_wide(values: impl Iterator<Item = f64>, factor: f64) -> bool {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    low > 0.0 && high > low * factor
}

/// Draws rings at published values, then lines of simulated values. Where both agree, the dot of the line is
/// inside the ring.
fn ours_over_printed(outcome: &Outcome<'_>, lines: &[Line]) -> Vec<Series> {
    // Lines with printed values first: readers look for them.
    let mut order: Vec<&Line> = lines.iter().collect();
    order.sort_by_key(|l| !l.rows.iter().any(|&r| printed(outcome, r).is_some()));
    let (mut all, mut lines_of_ours) = (Vec::new(), Vec::new());
    for (color, line) in order.iter().take(LINES_MAX).enumerate() {
        let points = |of: &dyn Fn(usize) -> Option<f64>| -> Vec<Point> {
            let at = line.x.iter().zip(&line.rows);
            at.filter_map(|(x, &row)| Some(Point::at(*x, of(row)?))).collect()
        };
        let series = |name, mark, points| Series { name, mark, color, points };
        let label = if line.label.is_empty() { "ours".to_owned() } else { line.label.clone() };
        let rings = points(&|row| printed(outcome, row));
        if !rings.is_empty() {
            all.push(series(format!("{label}, printed"), Mark::Hollow, rings));
        }
        lines_of_ours.push(series(label, Mark::Line, points(&|row| ours(outcome, row))));
    }
    all.extend(lines_of_ours);
    all
}

/// Measured values of an overlay at the points of the lines.
fn laid_over(outcome: &Outcome<'_>, lines: &[Line], overlay: &Overlay) -> Vec<Point> {
    let mut seen: Vec<Point> = Vec::new();
    for line in lines {
        for (x, &row) in line.x.iter().zip(&line.rows) {
            let wanted = &outcome.study.rows[row];
            let found = overlay.cells.iter().find_map(|cell| measured(outcome, wanted, cell));
            let point = found.map(|y| Point::at(*x, y)).filter(|point| !seen.contains(point));
            seen.extend(point);
        }
    }
    seen.sort_by(|a, b| a.x.total_cmp(&b.x));
    seen
}

/// Value of a measured cell for a row; None if the cell has other conditions than the row.
fn measured(outcome: &Outcome<'_>, wanted: &Wanted, cell: &Measured) -> Option<f64> {
    let at: &CellKey = wanted.at.as_ref()?;
    let workload = &outcome.study.workloads[at.workload];
    let over_depths = wanted.metric.is_some_and(Metric::over_depths);
    let oio = |threads: u32, depth: u32| u64::from(threads) * u64::from(depth);
    let same = (cell.read - workload.read).abs() < 0.005
        && cell.random == workload.random
        && cell.block_bytes == at.block_bytes
        && cell.targets == at.devices
        && at.think_ns == 0
        && (over_depths || oio(cell.threads, cell.depth) == oio(at.threads, at.depth));
    if !same || over_depths {
        return None;
    }
    let metric = wanted.metric?;
    match metric {
        Metric::Iops
        | Metric::IopsSteady
        | Metric::Bandwidth
        | Metric::LatencyMean
        | Metric::LatencyP99 => cell.summary.get(metric.quantity()?),
        _ => None,
    }
}

/// Draws single values, one below the other.
fn single(outcome: &Outcome<'_>, lines: &[Line], quantity: Quantity) -> (Axis, Panel) {
    let shown: Vec<(&str, usize)> = lines
        .iter()
        .filter_map(|l| Some((l.label.as_str(), *l.rows.first()?)))
        .filter(|(_, row)| ours(outcome, *row).is_some() || printed(outcome, *row).is_some())
        .take(NAMES_MAX)
        .collect();
    let dots = |name: &str, mark, color, of: &dyn Fn(usize) -> Option<f64>| Series {
        name: name.to_owned(),
        mark,
        color,
        points: shown
            .iter()
            .enumerate()
            .filter_map(|(i, (_, row))| Some(Point::at(of(*row)?, i as f64)))
            .collect(),
    };
    let all = vec![
        dots("printed", Mark::Hollow, 1, &|row| printed(outcome, row)),
        dots("ours", Mark::Dots, 0, &|row| ours(outcome, row)),
    ];
    let is_log = is_wide(all.iter().flat_map(|s| &s.points).map(|p| p.x), 20.0);
    let scale = if is_log { Scale::Log } else { Scale::Linear { zero: true } };
    let label = value_label(lines, quantity).unwrap_or("value");
    let x = Axis { label: label.to_owned(), quantity, scale, range: None };
    let names = shown.iter().map(|(label, _)| (*label).to_owned()).collect();
    let mut panel = Panel::new(Axis::categories("", names), all);
    panel.height = (shown.len() as f64 / 10.0).clamp(0.35, 3.0);
    (x, panel)
}
