//! Converts a figure to a table of its data, with each number as displayed and as raw value.
//!
//! Reports show this table with every figure, for readers who can't see the figure, and so that the data can be copied.

use crate::chart::scales;
use crate::figure::HeatMap;
use crate::{Axis, Cell, Column, Figure, Matrix, Panel, Plot, Quantity, Row, Scale, Series};
use crate::{Shape, Table, csv};

/// Note on the counts of a heat map behind series.
const COUNTS: &str = "The counts of the heat map are a table of their own: \u{201c}Save counts\u{201d}, or in \
                      `iodyno report --csv` the lines whose `of` ends in `-counts`.";
/// Maximum number of rows in a displayed table of a figure's data.
const ROWS: usize = 600;

impl Figure {
    /// Returns the figure's data as a table of at most 600 rows for display. Longer data are thinned evenly, with the
    /// last row kept and a note added.
    pub fn table(&self) -> Table {
        let mut table = self.data();
        thin(&mut table);
        table
    }

    /// Returns the figure's complete data as a table for data files.
    pub fn data(&self) -> Table {
        let mut table = match &self.shape {
            Shape::Plot(plot) => of_plot(plot),
            Shape::Matrix(matrix) | Shape::Columns(matrix) => of_matrix(matrix),
        };
        table.caption.clone_from(&self.title);
        table
    }

    /// Returns the counts of the figure's heat maps as a table for data files, if [`Figure::data`] is about its series.
    pub fn counts(&self) -> Option<Table> {
        let Shape::Plot(plot) = &self.shape else { return None };
        let mut table = of_heat(plot).filter(|_| has_points(plot))?;
        table.caption.clone_from(&self.title);
        Some(table)
    }
}

/// Titles of the columns of [`Figure::counts`], as in data files; `None` if the figure has no such table.
pub(crate) fn heads_of_counts(plot: &Plot) -> Option<Vec<String>> {
    let columns = heat_columns(plot).filter(|_| has_points(plot))?;
    Some(columns.iter().map(|column| csv::head(&column.title, &column.unit)).collect())
}

fn has_points(plot: &Plot) -> bool {
    plot.panels.iter().flat_map(|p| &p.series).any(|s| !s.points.is_empty())
}

/// Thins the rows of a table evenly to the maximum number.
fn thin(table: &mut Table) {
    let all = table.rows.len();
    if all <= ROWS {
        return;
    }
    let rows = std::mem::take(&mut table.rows);
    let mut kept = 0;
    for (i, row) in rows.into_iter().enumerate() {
        // The k-th kept row is the one at k/(ROWS - 1) of all rows.
        if i == kept * (all - 1) / (ROWS - 1) {
            table.rows.push(row);
            kept += 1;
        }
    }
    table.notes.push(format!("{ROWS} of {all} rows are shown, evenly spaced."));
}

fn of_plot(plot: &Plot) -> Table {
    let series = || plot.panels.iter().flat_map(|p| p.series.iter().map(move |s| (p, s)));
    let mut points = series().flat_map(|(_, s)| s.points.iter().map(move |p| (s, p)));
    let has_labels = points.clone().any(|(_, p)| !p.label.is_empty());
    let has_intervals = points.any(|(_, p)| p.interval.is_some());
    // Panels of one quantity share a column; with several quantities, the column's head can't name the unit.
    let first = plot.panels.first().map(|p| &p.y);
    let is_one = plot.panels.iter().all(|p| Some(p.y.quantity) == first.map(|y| y.quantity));
    let unit = |axis: &Axis| if is_one { axis.quantity.unit() } else { "" };

    let mut columns = Vec::new();
    if plot.panels.len() > 1 {
        columns.push(Column::words("panel"));
    }
    columns.push(Column::words("series"));
    columns.push(column(&plot.x, plot.x.quantity.unit()));
    if let Some(y) = first {
        let mut of_y = column(y, unit(y));
        if !is_one {
            "value".clone_into(&mut of_y.title);
        }
        columns.push(of_y);
        if has_intervals {
            columns.push(Column::numbers("from", ""));
            columns.push(Column::numbers("to", ""));
        }
    }
    if has_labels {
        columns.push(Column::words("at"));
    }

    let mut rows = Vec::new();
    for (panel, series) in series() {
        for point in &series.points {
            let mut cells = Vec::new();
            if plot.panels.len() > 1 {
                cells.push(Cell::words(&panel.y.label));
            }
            cells.push(Cell::words(&series.name));
            cells.push(cell(&plot.x, point.x));
            cells.push(cell(&panel.y, point.y).toned(point.tone));
            if has_intervals {
                let axis = interval_axis(plot, panel, series);
                let (low, high) = point.interval.unwrap_or((f64::NAN, f64::NAN));
                cells.extend([cell(axis, low), cell(axis, high)]);
            }
            if has_labels {
                cells.push(Cell::words(&point.label));
            }
            rows.push(Row::from(cells));
        }
    }
    if rows.is_empty()
        && let Some(table) = of_heat(plot)
    {
        return table;
    }
    let mut notes = Vec::new();
    if plot.panels.iter().any(|p| p.heat.is_some()) {
        notes.push(COUNTS.to_owned());
    }
    Table { columns, rows, notes, ..Table::default() }
}

/// Axis along which a series has its intervals (the error bars of its points).
fn interval_axis<'a>(plot: &'a Plot, panel: &'a Panel, series: &Series) -> &'a Axis {
    if series.mark.is_interval() { &plot.x } else { &panel.y }
}

/// Panels with heat maps.
fn heats(plot: &Plot) -> impl Iterator<Item = (&Axis, &HeatMap)> {
    plot.panels.iter().filter_map(|p| Some((&p.y, p.heat.as_ref()?)))
}

/// Columns of the table of counts; the first names the panel if several have a heat map. `None` without heat maps.
fn heat_columns(plot: &Plot) -> Option<Vec<Column>> {
    let (y, heat) = heats(plot).next()?;
    let is_one = heats(plot).count() == 1;
    let ends = |axis: &Axis, name: &str| {
        let unit = axis.quantity.unit();
        ["from", "to"].map(|end| Column::numbers(format!("{name} {end}"), unit))
    };
    let mut columns: Vec<Column> = (!is_one).then(|| Column::words("panel")).into_iter().collect();
    columns.extend(ends(&plot.x, &plot.x.label));
    columns.extend(ends(y, if is_one { &y.label } else { "value" }));
    columns.push(Column::numbers(&heat.of, ""));
    Some(columns)
}

/// Table of the non-zero counts of the heat maps; `None` without heat maps. Edges have six digits, as on the page.
fn of_heat(plot: &Plot) -> Option<Table> {
    let columns = heat_columns(plot)?;
    let is_one = heats(plot).count() == 1;
    let mut rows = Vec::new();
    let edge =
        |axis: &Axis, value: f64| cell(axis, scales::rounded(axis, value).unwrap_or(f64::NAN));
    for (y_axis, heat) in heats(plot) {
        for (counts, x) in heat.counts.iter().zip(heat.x_edges.windows(2)) {
            for (&count, y) in counts.iter().zip(heat.y_edges.windows(2)) {
                if count > 0 {
                    let mut cells = Vec::new();
                    if !is_one {
                        cells.push(Cell::words(&y_axis.label));
                    }
                    cells.extend(x.iter().map(|&v| edge(&plot.x, v)));
                    cells.extend(y.iter().map(|&v| edge(y_axis, v)));
                    cells.push(Cell::of(Quantity::Count, count as f64));
                    rows.push(Row::from(cells));
                }
            }
        }
    }
    Some(Table { columns, rows, ..Table::default() })
}

fn of_matrix(matrix: &Matrix) -> Table {
    let mut columns =
        vec![Column::words(format!("{} \\ {}", matrix.rows_label, matrix.columns_label))];
    let unit = matrix.quantity.unit();
    columns.extend(matrix.columns.iter().map(|name| Column::numbers(name, unit)));
    let rows = matrix.rows.iter().enumerate().map(|(i, name)| {
        let mut cells = vec![Cell::words(name)];
        cells.extend((0..matrix.columns.len()).map(|j| {
            let value = matrix.values.get(i).and_then(|row| row.get(j)).copied().flatten();
            let mut cell = value.map_or_else(Cell::none, |v| Cell::of(matrix.quantity, v));
            cell.note = matrix.notes.get(i).and_then(|row| row.get(j)).cloned().unwrap_or_default();
            cell
        }));
        Row::from(cells)
    });
    Table { columns, rows: rows.collect(), ..Table::default() }
}

fn column(axis: &Axis, unit: &str) -> Column {
    match axis.scale {
        Scale::Categories(_) => Column::words(&axis.label),
        _ => Column::numbers(&axis.label, unit),
    }
}

/// Converts a value on an axis to a table cell: the category's name, or the displayed and raw number.
fn cell(axis: &Axis, value: f64) -> Cell {
    if let Scale::Categories(names) = &axis.scale {
        let is_index = value >= 0.0 && value < names.len() as f64;
        return if is_index { Cell::words(&names[value as usize]) } else { Cell::none() };
    }
    Cell::of(axis.quantity, value)
}
