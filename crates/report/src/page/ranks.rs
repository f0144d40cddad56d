//! Section for runs measured by several processes (ranks): a table of hosts, and for each measurement a heat map of
//! ranks over time, which shows stragglers.

use super::labels;
use crate::ranks::{self, HostFigures};
use iodyno_measure::Cell;
use iodyno_notebook::Run;
use iodyno_page::{Block, Figure, Matrix, Quantity, Section, Shape, Table};
use iodyno_units::human;

/// Maximum number of cells that are drawn.
const DRAWN_MAX: usize = 8;
/// Maximum number of columns in a heat map of ranks: more would leave no space for the numbers.
const COLUMNS_MAX: usize = 16;
/// Maximum number of rows in a heat map of ranks. With more ranks, only the slowest are shown.
const ROWS_MAX: usize = 64;
/// Maximum number of rows in the table of ranks.
const TABLE_ROWS_MAX: usize = 1000;

/// Section on the ranks of a run; None for a run of one process.
pub(super) fn section(run: &Run) -> Option<Section> {
    let drawn = ranks::cells(run).take(DRAWN_MAX).enumerate();
    let figures = drawn.filter_map(|(i, cell)| figure(run, cell, i)).map(Block::Figure);
    let table = ranks::cells(run).next().map(|_| Block::Table(table(run)));
    let blocks: Vec<Block> = table.into_iter().chain(figures).collect();
    (!blocks.is_empty()).then(|| Section {
        id: "ranks".to_owned(),
        title: "Ranks".to_owned(),
        blocks,
        folded: false,
    })
}

fn table(run: &Run) -> Table {
    let rows = ranks::cells(run).flat_map(|cell| {
        let name = move |host| (labels::name(run, &cell.key), host);
        ranks::hosts(cell).into_iter().map(name)
    });
    let rows: Vec<(String, HostFigures<'_>)> = rows.collect();
    let all = rows.len();
    let mut table = ranks::table(rows.into_iter().take(TABLE_ROWS_MAX));
    if all > TABLE_ROWS_MAX {
        table.notes.push(format!(
            "The first {TABLE_ROWS_MAX} of {all} rows; `iodyno show --json` has all."
        ));
    }
    table.notes.push(
        "CPU: time used by a rank's workers, as a share of the processor time available to them. CPU and other programs' I/O are the highest values among the host's ranks.".to_owned(),
    );
    table
}

/// Cells of the individual ranks that were combined into `merged`.
fn of_ranks<'a>(run: &'a Run, merged: &Cell) -> Vec<&'a Cell> {
    let same = |cell: &&Cell| {
        cell.evidence.rank.is_some()
            && (&cell.key.name, cell.key.repeat, &cell.key.place)
                == (&merged.key.name, merged.key.repeat, &merged.key.place)
    };
    run.cells.iter().filter(same).collect()
}

fn figure(run: &Run, merged: &Cell, number: usize) -> Option<Figure> {
    let mut cells = of_ranks(run, merged);
    if cells.len() > ROWS_MAX {
        cells.sort_by(|a, b| a.iops().total_cmp(&b.iops()));
        cells.truncate(ROWS_MAX);
    }
    let intervals = cells.iter().map(|cell| cell.series.len()).max().filter(|n| *n > 1)?;
    let step = intervals.div_ceil(COLUMNS_MAX);
    let columns = intervals.div_ceil(step);
    let seconds = merged.interval_ns as f64 / 1e9;
    let value = |cell: &Cell, column: usize| {
        let part = cell.series.get(column * step..(column * step + step).min(cell.series.len()))?;
        let ops: u64 = part.iter().map(iodyno_measure::Interval::ops).sum();
        (!part.is_empty()).then(|| ops as f64 / (part.len() as f64 * seconds))
    };
    let values: Vec<Vec<Option<f64>>> =
        cells.iter().map(|cell| (0..columns).map(|column| value(cell, column)).collect()).collect();
    let slowest = merged.evidence.ranks.iter().min_by(|a, b| a.iops().total_cmp(&b.iops()))?;
    let fastest = merged.evidence.ranks.iter().max_by(|a, b| a.iops().total_cmp(&b.iops()))?;
    let late_ns = merged.evidence.ranks.iter().map(|rank| rank.start_late_ns).max().unwrap_or(0);
    Some(Figure {
        id: format!("ranks-{}", number + 1),
        title: format!("{}: rate of each rank over time", labels::name(run, &merged.key)),
        summary: format!(
            "Slowest: rank {} on {} with {} IOPS; fastest: rank {} on {} with {}. Started at most {} after the agreed instant.",
            slowest.rank,
            slowest.host,
            human::count(slowest.iops()),
            fastest.rank,
            fastest.host,
            human::count(fastest.iops()),
            human::time_ns(late_ns as f64)
        ),
        conditions: labels::line_of_cell(run, merged),
        shape: Shape::Matrix(Matrix {
            columns_label: "time, s".to_owned(),
            columns: (0..columns)
                .map(|column| human::three_digits((column * step) as f64 * seconds))
                .collect(),
            rows_label: "rank".to_owned(),
            rows: cells.iter().map(|cell| cell.key.target.clone()).collect(),
            quantity: Quantity::Iops,
            values,
            range: None,
            notes: Vec::new(),
        }),
        notes: Vec::new(),
    })
}
