//! Tables of a sizing's result, for the terminal and the page.

use crate::detail::Detail;
use crate::row::Row;
use crate::sizing::Sizing;
use crate::words::{arrays, headroom, rate, systems as places, tb, watts};
use iodyno_page::{Cell, Column, Quantity, Table, Tone};
use iodyno_units::human;

/// Table of the systems that meet the demand.
pub(crate) fn systems(sizing: &Sizing) -> Table {
    let mut columns = vec![
        Column::label("#"),
        Column { is_label: true, ..Column::numbers("devices", "") },
        Column::label("device"),
        Column::label("in"),
        Column::words("arrays"),
        Column::numbers("usable", "bytes"),
    ];
    let currency = sizing.prices.as_ref().map(|prices| prices.currency.as_str());
    columns.extend(currency.map(|currency| Column::numbers("price", currency)));
    columns.extend([
        Column::numbers("p99", "ns"),
        Column::numbers("holds", "IOPS"),
        Column::numbers("headroom", ""),
        Column::words("binds first"),
        Column::numbers("next step", "IOPS"),
        Column::numbers("power of devices", "W").short("power"),
    ]);
    let mut table = Table::new(columns);
    let by = if currency.is_some() { "price" } else { "number of devices" };
    table.caption = format!("systems that meet the demand, by {by}");
    for (number, row) in sizing.rows.iter().enumerate() {
        table.push(system(sizing, row, number, currency));
    }
    table
}

/// Builds the table of [`systems`] in a narrower form: the column of devices begins with their number.
pub(crate) fn systems_in_words(sizing: &Sizing) -> Table {
    let mut table = systems(sizing);
    for row in &mut table.rows {
        let [_, count, device, ..] = row.cells.as_mut_slice() else { continue };
        device.text = format!("{} × {}", count.text, device.text);
    }
    let [number, _, device, ..] = table.columns.as_mut_slice() else { return table };
    (number.title, device.title) = (String::new(), "devices".to_owned());
    table.selected(|at, _| at != 1)
}

fn system(sizing: &Sizing, row: &Row, number: usize, currency: Option<&str>) -> Vec<Cell> {
    let of = &sizing.candidates[row.candidate];
    let (devices, bytes) =
        (row.devices(&sizing.candidates), row.capacity_bytes(&sizing.candidates));
    let known = |value: Option<f64>, words: &dyn Fn(f64) -> String| {
        value.map_or_else(Cell::none, |value| Cell::number(words(value), value))
    };
    let highest = row.highest.as_ref();
    let asked = sizing.demand.rate_iops;
    let tone = if number == 0 { Tone::Strong } else { Tone::Plain };
    let mut cells = vec![
        Cell::words((number + 1).to_string()),
        Cell::number(devices.to_string(), f64::from(devices)).toned(tone),
        Cell::words(of.device_name.as_str()).toned(tone),
        Cell::words(places(of, row.count)),
        Cell::words(arrays(of, row.count)),
        Cell::number(tb(bytes), bytes as f64),
    ];
    cells.extend(
        currency.map(|currency| known(row.price, &|price| format!("{price:.0} {currency}"))),
    );
    cells.extend([
        Cell::of(Quantity::LatencyNs, row.asked.p99_ns),
        known(highest.map(|it| it.iops), &rate),
        known(highest.map(|it| it.iops / asked - 1.0), &|spare| {
            headroom((1.0 + spare) * asked, asked)
        }),
        highest.map_or_else(Cell::none, |it| Cell::words(it.binds_in_words())),
        row.next.map_or_else(Cell::none, |(count, iops)| {
            let devices = count.units * count.arrays * of.members;
            Cell::number(format!("{devices}: {}", rate(iops)), iops)
        }),
        known(row.devices_w, &watts),
    ]);
    cells
}

/// Table of sequential throughput by queue depth.
pub(crate) fn sequential(detail: &Detail) -> Table {
    let mut table = Table::new([
        Column::numbers("depth", ""),
        Column::numbers("1 MiB reads", "bytes/s"),
        Column::numbers("1 MiB writes", "bytes/s"),
    ]);
    table.caption = "sequential throughput, by queue depth of each array".into();
    for at in &detail.sequential {
        let rate = |bytes_per_s| Cell::number(human::throughput(bytes_per_s), bytes_per_s);
        let depth = Cell::number(at.depth.to_string(), f64::from(at.depth));
        table.push([depth, rate(at.read_bytes_per_s), rate(at.write_bytes_per_s)]);
    }
    table
}
