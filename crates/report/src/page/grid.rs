//! Sections for a sweep over a grid of points: load curve for a load axis, scaling chart for an axis of concurrency,
//! heat table for two axes, bars for one axis, and the table of all points.

use super::distribution::{Curve, histogram, spectrum};
use super::load::{of_load, of_scaling};
use super::stage::{Stage, kind_nine, nine, nine_lines, point_name, tone, values};
use super::{cells, labels, latency_breakdown};
use crate::kinds;
use crate::method_headlines::is_large;
use crate::point_figures;
use iodyno_measure::summary::is_about_bandwidth;
use iodyno_measure::{Cell, ClassStats, Histogram, Interval, IoKinds, Level, Quantity as Of};
use iodyno_method::findings::{NINES, Row, SweepFinding, Table as Grid};
use iodyno_page::figure::Matrix;
use iodyno_page::{
    Axis, Block, Cell as Field, Column, Figure, Mark, Panel, Plot, Point, Quantity, Series, Shape,
    Table, Tone,
};
use iodyno_units::{OpKind, human, parse_size};

/// Maximum number of points that are also drawn over time.
const COURSES_MAX: usize = 6;
/// Maximum number of curves in a load figure: more would be indistinguishable.
const LINES_MAX: usize = 8;

/// Draws the charts and the table of a sweep over a grid of points.
pub(super) fn sweep(stage: &Stage<'_>, sweep: &SweepFinding) -> Vec<Block> {
    let mut figures = Vec::new();
    if let Some(scaling) = &sweep.scaling {
        figures.push(of_scaling(stage, scaling));
    }
    if let Some(load) = &sweep.load {
        figures.extend(of_load(stage, &sweep.table, Some(load)));
    }
    if figures.is_empty() {
        figures.extend(of_table(stage, &sweep.table, Quantity::Iops));
    } else if sweep.table.axes.len() == 2 {
        figures.extend(matrices(&Plane::new(stage, &sweep.table, &[])));
    }
    figures.extend(of_distribution(stage, &stage.cells, &sweep.table));
    let id = format!("{}-budget", stage.id);
    let points = by_point(stage, &sweep.table);
    figures.extend(latency_breakdown::figure(stage.run, &id, &points));
    let mut blocks: Vec<Block> = figures.into_iter().map(Block::Figure).collect();
    blocks.push(Block::Table(table(&sweep.table)));
    // The first repeat of each point.
    let firsts: Vec<&Cell> =
        points.iter().filter_map(|(_, cells)| cells.first().copied()).collect();
    if firsts.len() <= COURSES_MAX {
        blocks.extend(cells::courses_of(stage, &firsts));
    }
    blocks
}

/// Groups the stage's cells by point. Each group has the point's name, which is shorter than a cell's.
fn by_point<'a>(stage: &Stage<'a>, table: &Grid) -> Vec<(String, Vec<&'a Cell>)> {
    let each = table.rows.iter().enumerate().map(|(index, row)| {
        let mine = |c: &&Cell| c.key.place.as_ref().is_some_and(|p| p.index as usize == index);
        (point_name(stage, table, row), stage.cells.iter().copied().filter(mine).collect())
    });
    each.collect()
}

/// Draws a table of points: as heat tables over two axes, otherwise as bars and lines. The heat table of
/// `lead`, the quantity of interest, comes before the others.
pub(super) fn of_table(stage: &Stage<'_>, table: &Grid, lead: Quantity) -> Vec<Figure> {
    let mut figures = Vec::new();
    let is_load = |axis: &str| matches!(axis, "depth" | "threads" | "rate");
    if table.axes.len() == 2 && table.axes.iter().all(|a| is_load(a)) {
        figures.extend(of_load(stage, table, None));
    }
    match table.axes.as_slice() {
        [] => {}
        [_] => figures.extend(of_one_axis(stage, table)),
        [_, _] => figures.extend(matrices(&Plane::new(stage, table, &[]))),
        [outer @ .., _, _] => {
            let mut seen: Vec<&[String]> = Vec::new();
            for row in &table.rows {
                let at = &row.at[..outer.len()];
                if !seen.contains(&at) {
                    seen.push(at);
                }
            }
            for at in seen {
                figures.extend(matrices(&Plane::new(stage, table, at)));
            }
        }
    }
    let leads =
        |f: &Figure| matches!(&f.shape, Shape::Matrix(m) | Shape::Columns(m) if m.quantity == lead);
    figures.sort_by_key(|f| matches!(f.shape, Shape::Matrix(_) | Shape::Columns(_)) && !leads(f));
    figures
}

/// Selection of the points of a table over two axes, with fixed values on any further axes.
struct Plane<'a> {
    stage: &'a Stage<'a>,
    table: &'a Grid,
    across: &'a str,
    down: &'a str,
    outer: &'a [String],
    columns: Vec<String>,
    rows: Vec<String>,
}

/// Draws one heat table per relevant metric of the points.
fn matrices(plane: &Plane<'_>) -> Vec<Figure> {
    let mut figures = plane.matrix("IOPS", Quantity::Iops, &|r| r.iops);
    if let (true, Some(Figure { id, shape: Shape::Matrix(matrix), .. })) =
        (plane.stage.columns, figures.first())
    {
        let (id, shape) = (format!("{id}-columns"), Shape::Columns(matrix.clone()));
        figures.push(Figure { id, shape, ..figures[0].clone() });
    }
    let has_large = |axis: &str, values: &[String]| {
        axis == "block"
            && values.iter().any(|v| parse_size(v).is_ok_and(|b| is_about_bandwidth(b as u32)))
    };
    if has_large(plane.down, &plane.rows) || has_large(plane.across, &plane.columns) {
        figures.extend(plane.matrix("throughput", Quantity::Throughput, &|r| r.bytes_per_s));
    }
    figures.extend(plane.matrix("mean latency", Quantity::LatencyNs, &|r| r.mean_ns));
    let kinds = plane.table.kinds_apart();
    if kinds.is_empty() {
        figures.extend(plane.matrix("p99.9 latency", Quantity::LatencyNs, &|r| nine(r, 2)));
    }
    for kind in kinds {
        let what = format!("p99.9 latency of {}", kinds::plural(kind));
        figures.extend(plane.matrix(&what, Quantity::LatencyNs, &|r| kind_nine(r, kind, 2)));
    }
    figures
}

impl<'a> Plane<'a> {
    fn new(stage: &'a Stage<'a>, table: &'a Grid, outer: &'a [String]) -> Self {
        let at = outer.len();
        Self {
            stage,
            table,
            across: &table.axes[at],
            down: &table.axes[at + 1],
            outer,
            columns: values(table, at),
            rows: values(table, at + 1),
        }
    }

    /// Returns the value of each row and column of the plane; `missing` where no point was measured.
    fn each<T: Clone>(&self, missing: &T, of: &dyn Fn(&Row) -> T) -> Vec<Vec<T>> {
        let at = self.outer.len();
        let point = |row: &String, column: &String| {
            let mut points = self.table.rows.iter();
            let is_there =
                |r: &&Row| r.at[..at] == *self.outer && r.at[at] == *column && r.at[at + 1] == *row;
            points.find(is_there).map_or_else(|| missing.clone(), of)
        };
        let row = |row| self.columns.iter().map(|column| point(row, column)).collect();
        self.rows.iter().map(row).collect()
    }

    /// Draws a heat table of one metric. Empty if most of the table would be blank, because the table of points
    /// then shows more.
    fn matrix(
        &self,
        what: &str,
        quantity: Quantity,
        get: &dyn Fn(&Row) -> Option<f64>,
    ) -> Vec<Figure> {
        let (across, down) = (labels::axis(self.across), labels::axis(self.down));
        let values = self.each(&None, get);
        let known = values.iter().flatten().flatten();
        let span = |(low, high): (f64, f64), x: &f64| (low.min(*x), high.max(*x));
        let (low, high) = known.clone().fold((f64::INFINITY, 0.0), span);
        let measured = self.each(&false, &|row| row.iops.is_some());
        let measured = measured.iter().flatten().filter(|it| **it).count();
        if high <= 0.0 || known.count() * 2 < measured {
            return Vec::new();
        }
        // Adjacent tables use the same colours for the same values.
        let every = self.table.rows.iter().filter_map(get).filter(|x| *x > 0.0);
        let is_one_of_several = !self.outer.is_empty();
        let range =
            is_one_of_several.then(|| every.fold((f64::INFINITY, 0.0), |range, x| span(range, &x)));
        let outer = self.table.axes.iter().zip(self.outer).map(|(axis, v)| format!("{axis} {v}"));
        let outer = outer.collect::<Vec<_>>().join(", ");
        let at = if is_one_of_several { format!(" at {outer}") } else { String::new() };
        let mut id = format!("{}-{}", self.stage.id, labels::slug(what));
        if is_one_of_several {
            id = format!("{id}-{}", labels::slug(&self.outer.join("-")));
        }
        vec![Figure {
            id,
            title: self.stage.titled(&format!("{what} by {down} and {across}{at}")),
            summary: format!(
                "{what} from {} to {} over {} points.",
                quantity.words(low),
                quantity.words(high),
                self.rows.len() * self.columns.len()
            ),
            conditions: self.stage.line(),
            shape: Shape::Matrix(Matrix {
                columns_label: across.to_owned(),
                columns: self.columns.clone(),
                rows_label: down.to_owned(),
                rows: self.rows.clone(),
                quantity,
                values,
                range,
                notes: self.each(&String::new(), &note),
            }),
            notes: Vec::new(),
        }]
    }
}

/// Note on a point in a heat table: the reason why it was skipped; otherwise confidence interval, latencies
/// and verdict codes.
fn note(row: &Row) -> String {
    if let Some(why) = &row.skipped {
        return format!("n/a: {why}");
    }
    let mut parts = Vec::new();
    if let Some(share) = row.iops_half_width {
        parts.push(format!("± {} % over {} cells", human::three_digits(share * 100.0), row.n));
    }
    if let Some(ns) = row.mean_ns {
        parts.push(format!("mean {}", human::time_ns(ns)));
    }
    if row.kinds.len() > 1 {
        parts.extend(kinds::latencies(&row.kinds, Of::Quantile(0.99)));
    } else if let Some(ns) = nine(row, 1) {
        parts.push(format!("p99 {}", human::time_ns(ns)));
    }
    parts.extend(row.codes.iter().cloned());
    parts.join(", ")
}

/// Draws the values of one axis with their rates as bars and their latencies as lines.
fn of_one_axis(stage: &Stage<'_>, table: &Grid) -> Option<Figure> {
    let names = values(table, 0);
    let about_bandwidth = match table.axes[0].as_str() {
        "block" => false,
        "workload" => table.rows.iter().any(|row| is_large(row, &table.axes)),
        _ => stage.cells.first().is_some_and(|c| is_about_bandwidth(c.key.block_bytes())),
    };
    let rate = |row: &Row| if about_bandwidth { row.bytes_per_s } else { row.iops };
    let bars = table.rows.iter().enumerate().filter_map(|(i, row)| {
        let y = rate(row)?;
        let interval = row.iops_half_width.map(|share| (y * (1.0 - share), y * (1.0 + share)));
        Some(Point { interval, tone: tone(row), ..Point::at(i as f64, y) })
    });
    let bars: Vec<Point> = bars.collect();
    let (best, _) = bars
        .iter()
        .fold((0, 0.0), |(at, most), p| if p.y > most { (p.x as usize, p.y) } else { (at, most) });
    let (label, quantity) = if about_bandwidth {
        ("throughput", Quantity::Throughput)
    } else {
        ("IOPS", Quantity::Iops)
    };
    let most = bars.iter().map(|p| p.y).fold(0.0, f64::max);
    if bars.is_empty() {
        return None;
    }
    let lines = nine_lines(&table.kinds_apart()).into_iter().map(|line| {
        let at = table.rows.iter().enumerate();
        let points = at.map(|(at, row)| Point::at(at as f64, line.of(row).unwrap_or(f64::NAN)));
        // The bars use the first colour.
        Series { points: points.collect(), color: line.series.color + 1, ..line.series }
    });
    let mut lines: Vec<Series> = lines.collect();
    lines.retain(|s| s.points.iter().any(|p| p.y.is_finite()));
    let bars = Series { name: label.to_owned(), mark: Mark::Bars, color: 0, points: bars };
    Some(Figure {
        id: format!("{}-by-{}", stage.id, labels::slug(&table.axes[0])),
        title: stage.titled(&format!("{label} and latency by {}", labels::axis(&table.axes[0]))),
        summary: format!(
            "The maximum is {} at {} {}.",
            quantity.words(most),
            table.axes[0],
            names.get(best).map_or("", String::as_str)
        ),
        conditions: stage.line(),
        shape: Shape::Plot(Plot {
            x: Axis::categories(labels::axis(&table.axes[0]), names),
            panels: vec![
                Panel::new(Axis::from_zero(label, quantity), vec![bars]),
                Panel::new(Axis::log("latency", Quantity::LatencyNs), lines),
            ],
            spans: Vec::new(),
        }),
        notes: Vec::new(),
    })
}

/// Draws the latency distribution of each point, merged from all of the point's `cells`.
pub(super) fn of_distribution<'a>(
    stage: &Stage<'_>,
    cells: &[&'a Cell],
    table: &Grid,
) -> Vec<Figure> {
    if table.rows.len() > LINES_MAX {
        return Vec::new();
    }
    let curves = |kind: OpKind| -> Vec<Curve<'a>> {
        let each = table.rows.iter().enumerate().filter_map(|(index, row)| {
            let mut all = Histogram::default();
            let mut parts = Vec::new();
            for cell in cells {
                if cell.key.place.as_ref().is_some_and(|p| p.index as usize == index) {
                    let total = cell.total();
                    total.class(kind).into_iter().for_each(|s| all.merge(s.response_time()));
                    let response_time =
                        |i: &'a Interval| i.class(kind).map(ClassStats::response_time).into_iter();
                    parts.extend(cell.series.iter().map(|i| response_time(i).collect()));
                }
            }
            (all.count() > 0).then(|| Curve {
                name: point_name(stage, table, row),
                histogram: all,
                parts,
            })
        });
        each.collect()
    };
    let mut all = Vec::new();
    let line = || labels::line_of(stage.run, stage.run_level, cells.iter().copied());
    let kinds = labels::kinds(cells);
    for &kind in &kinds {
        let (suffix, of) = match kinds.len() {
            1 => (String::new(), String::new()),
            _ => (format!("-{}", kind.name()), format!(", {}", kind.name())),
        };
        let both = [
            spectrum(&format!("{}-percentiles{suffix}", stage.id), line(), curves(kind)),
            histogram(&format!("{}-histogram{suffix}", stage.id), line(), curves(kind)),
        ];
        all.extend(both.into_iter().flatten().map(|figure| Figure {
            title: format!("{}{of}", stage.titled(&figure.title)),
            ..figure
        }));
    }
    all
}

pub(super) fn table(grid: &Grid) -> Table {
    let rows: Vec<(Vec<String>, &Row)> = grid.rows.iter().map(|r| (r.at.clone(), r)).collect();
    table_of(&grid.axes, &rows, &grid.kinds_apart())
}

/// Builds a table of points. `names` are the titles of the label columns, and each kind of operation in
/// `apart` gets its own latency columns.
pub(super) fn table_of(names: &[String], rows: &[(Vec<String>, &Row)], apart: &[OpKind]) -> Table {
    let mut columns: Vec<Column> = names.iter().map(Column::words).collect();
    columns.extend([Column::numbers("OIO", ""), Column::numbers("cells", "")]);
    columns.extend(point_figures::columns());
    columns.push(Column::numbers("n", ""));
    for kind in apart {
        let name = |what: &str| format!("{} {what}", kind.name());
        let rate = if IoKinds::DATA.count(*kind) { name("IOPS") } else { name("rate") };
        columns.push(Column::numbers(rate, "1/s"));
        columns.push(Column::numbers(name("mean"), "ns"));
        columns.extend(NINES[..3].iter().map(|(_, label)| Column::numbers(name(label), "ns")));
        columns.push(Column::numbers(name("max"), "ns"));
    }
    columns.push(Column::words("verdict"));
    let most = rows.iter().filter_map(|(_, r)| r.iops).fold(0.0, f64::max);
    let rows = rows.iter().map(|(at, row)| {
        let mut cells: Vec<Field> = at.iter().map(Field::words).collect();
        cells.push(Field::number(point_figures::oio(row), row.oio));
        cells.push(Field::number(row.n.to_string(), row.n as f64));
        let mut figures = point_figures::cells(row);
        figures[0].heat = row.iops.filter(|_| most > 0.0).map(|x| x / most);
        cells.extend(figures);
        cells.push(Field::number(human::whole(row.ops), row.ops as f64));
        let (text, tone) = match row.level {
            Some(level) if level >= Level::Warning => (row.codes.join(", "), labels::tone(level)),
            Some(_) => ("valid".to_owned(), Tone::Good),
            None => ("–".to_owned(), Tone::Dim),
        };
        for &kind in apart {
            let of = row.of_kind(kind);
            let latency = of.map(|of| of.response_time).unwrap_or_default();
            cells.push(of.map_or_else(Field::none, |of| labels::rate(kind, of.iops)));
            cells.push(labels::time(latency.mean_ns));
            cells.extend((0..3).map(|i| labels::time(kind_nine(row, kind, i))));
            cells.push(labels::time(latency.max_ns.map(|ns| ns as f64)));
        }
        cells.push(Field::words(text).toned(tone));
        cells.into()
    });
    Table {
        caption: "The points".to_owned(),
        columns,
        rows: rows.collect(),
        notes: vec![
            "IOPS and throughput are means over the cells; percentiles cover the operations of all cells together. A dash: unknown, because there are too few samples or cells.".to_owned(),
        ],
    }
}
