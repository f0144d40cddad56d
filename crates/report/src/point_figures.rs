//! Table columns with the rate, throughput and latency of a measured point, over all kinds of operation, for the
//! terminal and the page.

use iodyno_method::findings::{NINES, Row};
use iodyno_page::{Cell, Column, Quantity, Tone};
use iodyno_units::human;

/// Short title of the column with the confidence interval's half-width.
pub(crate) const HALF_WIDTH: &str = "±";

/// Columns for a measured point: rate, half-width of its confidence interval, throughput, and mean,
/// percentiles and maximum of the latency.
pub(crate) fn columns() -> Vec<Column> {
    let mut columns = vec![
        Column::numbers("IOPS", "1/s"),
        Column::numbers("± (95 %)", "share").short(HALF_WIDTH).ranked(3),
        Column::numbers("throughput", "bytes/s").ranked(4),
        Column::numbers("mean", "ns").ranked(1),
    ];
    let nines = NINES.iter().zip([6, 2, 5, 8, 9]);
    columns.extend(nines.map(|((_, label), rank)| Column::numbers(*label, "ns").ranked(rank)));
    columns.push(Column::numbers("max", "ns").ranked(7));
    columns
}

/// Table fields of a measured point, in the order of [`columns`].
pub(crate) fn cells(row: &Row) -> Vec<Cell> {
    let iops = match &row.skipped {
        Some(why) => Cell { note: why.clone(), ..Cell::words("n/a").toned(Tone::Dim) },
        None => Cell::of(Quantity::Iops, row.iops),
    };
    let mut cells = vec![
        iops,
        Cell::of(Quantity::Share, row.iops_half_width),
        Cell::of(Quantity::Throughput, row.bytes_per_s),
        Cell::of(Quantity::LatencyNs, row.mean_ns),
    ];
    // A row without cells has no percentiles.
    let nines = (0..NINES.len()).map(|i| row.nines_ns.get(i).copied().flatten());
    cells.extend(
        nines.chain([row.max_ns]).map(|ns| Cell::of(Quantity::LatencyNs, ns.map(|ns| ns as f64))),
    );
    cells
}

/// Outstanding I/Os of a point: exactly if whole, as in closed loop, otherwise with three digits.
pub(crate) fn oio(row: &Row) -> String {
    if row.oio.fract() == 0.0 { format!("{:.0}", row.oio) } else { human::three_digits(row.oio) }
}
