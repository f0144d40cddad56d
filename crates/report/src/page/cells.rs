//! Sections of reports on runs without a method: curves, cells (measurements) over time, and repeats. Also the table of
//! all cells, which every report has.

use super::distribution::{self, of_cells};
use super::stage::Stage;
use super::time;
use super::{figures, labels, latency_breakdown, messages};
use iodyno_measure::cell::representative;
use iodyno_measure::statistics::repeats;
use iodyno_measure::summary::is_about_bandwidth;
use iodyno_measure::threshold::{unusable, with_repeats};
use iodyno_measure::{Cell, Level, PERCENTILES, Role, Summary};
use iodyno_notebook::Run;
use iodyno_page::{
    Axis, Block, Cell as Field, Column, Figure, Mark, Panel, Plot, Point, Quantity, Section,
    Series, Shape, Table, Tone,
};
use iodyno_units::human;

/// Maximum number of cells drawn over time. The table still lists all cells.
const DRAWN_MAX: usize = 12;
/// Maximum number of rows in the table of all cells.
const ROWS_MAX: usize = 5000;

/// Cells to show in the report: measured ones, without those that only prepare. With several targets, only the merged
/// cells.
pub(super) fn speaking(run: &Run) -> Vec<&Cell> {
    let speaks = representative(&run.cells);
    let measures = |c: &&Cell| c.key.place.as_ref().is_none_or(|p| p.role == Role::Measure);
    run.cells.iter().filter(measures).filter(|c| speaks(&c.key)).collect()
}

/// Sections for a run that is a list of cells, without a method.
pub(super) fn sections(run: &Run) -> Vec<Section> {
    let cells = speaking(run);
    let line = || labels::line_of(run, None, cells.iter().copied());
    let curves = || of_cells(run, cells.iter().copied());
    let spectrum = distribution::spectrum("percentiles", line(), curves());
    let histogram = distribution::histogram("histogram", line(), curves());
    let over_time: Vec<Figure> = course(run, &cells);
    let mut shape: Vec<Figure> = Vec::new();
    shape.extend(spectrum);
    shape.extend(histogram);
    // For a single cell the course is more informative than the distribution.
    let of_time = figures("time", "Over time", over_time);
    let of_shape = figures("distribution", "Distribution of latencies", shape);
    let ordered = if cells.len() == 1 { [of_time, of_shape] } else { [of_shape, of_time] };
    let messages = messages::section(run, &cells);
    let mut sections: Vec<Section> =
        messages.into_iter().chain(ordered.into_iter().flatten()).collect();
    let each: Vec<(String, Vec<&Cell>)> =
        cells.iter().map(|c| (labels::name(run, &c.key), vec![*c])).collect();
    let budget = latency_breakdown::figure(run, "budget", &each);
    sections.extend(figures("budget", "Where the time goes", budget.into_iter().collect()));
    let dots = run_dots(run);
    sections.extend(figures("repeats", "Variation between repeats", dots));
    sections
}

/// Draws the rate and latency of a stage's `cells` over time.
pub(super) fn courses_of(stage: &Stage<'_>, cells: &[&Cell]) -> Vec<Block> {
    let with_id = |figure: Figure| {
        let id = format!("{}-{}", stage.id, figure.id);
        Block::Figure(Figure { id, ..figure })
    };
    course(stage.run, cells).into_iter().map(with_id).collect()
}

/// Draws each cell over time. Cells whose rates have the same unit share the ranges of their latency and rate
/// axes, if every cell remains readable. Cells with the same name are numbered.
fn course(run: &Run, cells: &[&Cell]) -> Vec<Figure> {
    let drawn = &cells[..cells.len().min(DRAWN_MAX)];
    let name = |cell: &Cell| labels::name(run, &cell.key);
    let mut figures: Vec<Figure> = drawn
        .iter()
        .enumerate()
        .filter_map(|(i, cell)| {
            let id = format!("time-{}-{}", i + 1, labels::slug(&cell.key.name));
            let mut figure = time::figure(run, cell, &id, time::shared_range(cell, drawn))?;
            let alike = |of: &[&Cell]| of.iter().filter(|c| name(c) == name(cell)).count();
            if alike(drawn) > 1 {
                let number = alike(&drawn[..=i]);
                figure.title = format!("{}, {number} of {}", figure.title, alike(drawn));
            }
            Some(figure)
        })
        .collect();
    time::share_rates(&mut figures);
    figures
}

/// Draws one dot per repeat of a cell, with the mean of the repeats and its confidence interval.
fn run_dots(run: &Run) -> Vec<Figure> {
    let groups: Vec<Vec<&Cell>> =
        with_repeats(&run.cells).into_iter().filter(|g| g.len() > 1).collect();
    let [bandwidth, iops]: [Vec<&Vec<&Cell>>; 2] = [true, false].map(|wanted| {
        groups.iter().filter(|g| is_about_bandwidth(g[0].key.block_bytes()) == wanted).collect()
    });
    let figure = |groups: &[&Vec<&Cell>], is_bandwidth: bool| {
        let value = |cell: &Cell| {
            if is_bandwidth { cell.per_second(cell.total().bytes() as f64) } else { cell.iops() }
        };
        let names: Vec<String> = groups
            .iter()
            .map(|g| {
                let key = &g[0].key;
                if run.head.targets.len() > 1 {
                    format!("{} on {}", key.name, key.target)
                } else {
                    key.name.clone()
                }
            })
            .collect();
        let (mut dots, mut left_out, mut means) = (Vec::new(), Vec::new(), Vec::new());
        for (i, group) in groups.iter().enumerate() {
            let mut usable = Vec::new();
            for cell in *group {
                let mut point = Point::at(value(cell), i as f64);
                point.label = String::new();
                if unusable(cell).is_none() {
                    usable.push(point.x);
                    dots.push(point);
                } else {
                    point.tone = Tone::Bad;
                    left_out.push(point);
                }
            }
            if let Ok(mean) = repeats::mean(&usable, 0.95) {
                means.push(Point {
                    interval: mean.interval.map(|i| (i.low, i.high)),
                    ..Point::at(mean.mean, i as f64)
                });
            }
        }
        let mut series = vec![
            Series {
                name: "mean, 95 % interval".to_owned(),
                mark: Mark::Interval,
                color: 1,
                points: means,
            },
            Series { name: "repeat".to_owned(), mark: Mark::Dots, color: 0, points: dots },
        ];
        if !left_out.is_empty() {
            series.push(Series {
                name: "not usable".to_owned(),
                mark: Mark::Dots,
                color: 2,
                points: left_out,
            });
        }
        let (label, quantity) = if is_bandwidth {
            ("throughput", Quantity::Throughput)
        } else {
            ("IOPS", Quantity::Iops)
        };
        Figure {
            id: format!("repeats-{}", labels::slug(label)),
            title: format!("{label} of each repeat"),
            summary: format!("{} cells, each measured several times within this run.", groups.len()),
            conditions: labels::line_of(run, None, groups.iter().flat_map(|g| g.iter().copied())),
            shape: Shape::Plot(Plot {
                x: Axis::from_zero(label, quantity),
                panels: vec![Panel::new(Axis::categories("", names), series)],
                spans: Vec::new(),
            }),
            notes: vec![
                "The interval covers repeats of the cell within this run, not other runs or devices.".to_owned(),
            ],
        }
    };
    [(bandwidth, true), (iops, false)]
        .into_iter()
        .filter(|(groups, _)| !groups.is_empty())
        .map(|(groups, is_bandwidth)| figure(&groups, is_bandwidth))
        .collect()
}

/// Section with a table of every cell, with its results per kind of operation.
pub(super) fn all(run: &Run) -> Section {
    let mut table = Table {
        caption: "All cells, by kind of operation".to_owned(),
        columns: vec![
            Column::words("cell"),
            Column::words("target"),
            Column::words("conditions"),
            Column::words("operation"),
            Column::numbers("IOPS", "1/s"),
            Column::numbers("throughput", "bytes/s"),
            Column::numbers("mean", "ns"),
        ],
        ..Table::default()
    };
    let percentiles = PERCENTILES.iter().map(|p| Column::numbers(p.label, "ns"));
    table.columns.extend(percentiles);
    table.columns.extend([
        Column::numbers("max", "ns"),
        Column::numbers("n", ""),
        Column::numbers("failed", ""),
        Column::words("verdict"),
    ]);
    let columns = table.columns.len();
    for cell in run.cells.iter().take(ROWS_MAX) {
        let figures = Summary::of(cell);
        let mut head = vec![
            Field::words(labels::name(run, &cell.key)),
            Field::words(cell.key.target.clone()),
            Field::words(labels::conditions(cell)),
        ];
        let level = cell.level();
        let verdict = Field::words(level.map_or("–", Level::name))
            .toned(level.map_or(Tone::Dim, labels::tone));
        if figures.kinds.is_empty() {
            head.push(Field::none());
            head.resize_with(columns - 1, Field::none);
            head.push(verdict);
            table.rows.push(head.into());
            continue;
        }
        for kind in &figures.kinds {
            let mut row = head.clone();
            row.push(Field::words(kind.kind.name()));
            row.push(labels::rate(kind.kind, kind.iops));
            row.push(labels::throughput(Some(kind.bytes_per_s)));
            row.push(labels::time(kind.response_time.mean_ns));
            row.extend(
                kind.response_time
                    .percentiles_ns
                    .iter()
                    .map(|ns| labels::time(ns.map(|ns| ns as f64))),
            );
            row.push(labels::time(kind.response_time.max_ns.map(|ns| ns as f64)));
            row.push(Field::number(human::whole(kind.ops), kind.ops as f64));
            let failed = kind.errors.total();
            let tone = if failed > 0 { Tone::Bad } else { Tone::Dim };
            row.push(Field::number(failed.to_string(), failed as f64).toned(tone));
            row.push(verdict.clone());
            table.rows.push(row.into());
        }
    }
    if run.cells.len() > ROWS_MAX {
        table.notes.push(format!(
            "The first {ROWS_MAX} of {} cells; `iodyno export --format csv` has all.",
            run.cells.len()
        ));
    }
    table.notes.push(
        "A dash: fewer than ten samples lie beyond that percentile, so it is not shown. Latencies are response times in open loop, service times otherwise.".to_owned(),
    );
    Section {
        id: "cells".to_owned(),
        title: "Cells".to_owned(),
        blocks: vec![Block::Table(table)],
        folded: run.cells.len() > 12,
    }
}
