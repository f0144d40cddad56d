//! The answer as a page: the table, latency by load and by number of devices, and the figures of the best system.

use crate::row::{Row, Trial};
use crate::sizing::Sizing;
use crate::terminal::{
    arrays, cache_in_words, demand_in_words, headroom, log_in_words, name, nearest_in_words, rate,
    systems, tb, textbook_in_words, watts, what_if_in_words,
};
use crate::words::{
    assumed_in_words, confirmed_in_words, life_in_words, limits_in_words, run_in_words,
};
use iodyno_page::document::{Headline, Verdict};
use iodyno_page::{
    Axis, Block, Cell, Column, Document, Figure, Mark, Panel, Plot, Point, Quantity, Section,
    Series, Shape, Table, Tone, figure,
};
use iodyno_run::explain::percent;
use iodyno_units::human;

/// Explanation why a point below the limit may not hold.
const SUSTAINED: &str = "Dots are rates that are not held: a buffer or a cache fills, or something is busy for more than \
                         98 % of the time, so the latency of the long run is another.";

/// The answer as a document. `made_by` is program and version, `command` the command line that reproduces it.
pub fn document(sizing: &Sizing, made_by: &str, command: &str) -> Document {
    let demand = demand_in_words(sizing);
    let mut sections = vec![answer(sizing)];
    sections.extend(curves(sizing));
    sections.extend(recommended(sizing));
    sections.push(Section {
        id: "reproduce".to_owned(),
        title: "Reproduce".to_owned(),
        blocks: vec![Block::Code { caption: "Command".to_owned(), text: command.to_owned() }],
        folded: false,
    });
    Document {
        title: format!("Sizing: {demand}"),
        about: vec!["emulated, virtual time".to_owned(), format!("{} cells", sizing.cells)],
        sections,
        made_by: made_by.to_owned(),
        ..Document::default()
    }
}

fn answer(sizing: &Sizing) -> Section {
    let mut blocks = Vec::new();
    match sizing.rows.first() {
        Some(row) => blocks.push(Block::Headlines(vec![headline(sizing, row)])),
        None => blocks.push(Block::Text(format!("Nothing meets it. {}", nearest_in_words(sizing)))),
    }
    let text = "What stands here was simulated in virtual time by models of devices and adapters; it is not a measurement of them.";
    blocks.push(Block::Verdicts(vec![Verdict {
        code: "EMULATED".to_owned(),
        tone: Tone::Note,
        text: text.to_owned(),
        of: Vec::new(),
    }]));
    if let Some(log) = &sizing.demand.log {
        for (label, words) in log_in_words(sizing, log) {
            let label = if label.is_empty() { "room" } else { label };
            blocks.push(Block::Text(format!("{label}: {words}")));
        }
    }
    if !sizing.rows.is_empty() {
        blocks.push(Block::Table(table(sizing)));
    }
    Section { id: "answer".to_owned(), title: "What meets it".to_owned(), blocks, folded: false }
}

fn headline(sizing: &Sizing, row: &Row) -> Headline {
    let of = &sizing.candidates[row.candidate];
    let mut beside = vec![arrays(of, row.count), format!("in {}", systems(of, row.count))];
    if let Some(highest) = &row.highest {
        beside.push(format!("holds {}", rate(highest.iops)));
        beside.push(format!("binds first: {}, {}", highest.binds, percent(highest.busy)));
    }
    Headline {
        name: "the fewest devices".to_owned(),
        value: format!("{} × {}", row.devices(&sizing.candidates), of.device_name),
        interval: row
            .asked
            .p99_ns
            .map_or(String::new(), |ns| format!("p99 {}", human::time_ns(ns))),
        beside,
        tone: Tone::Plain,
    }
}

fn table(sizing: &Sizing) -> Table {
    let mut columns = vec![
        Column::numbers("devices", ""),
        Column::words("device"),
        Column::words("in"),
        Column::words("arrays"),
        Column::numbers("usable", "bytes"),
        Column::numbers("p99", "ns"),
        Column::numbers("holds", "IOPS"),
        Column::numbers("headroom", ""),
        Column::words("binds first"),
        Column::numbers("next step", "IOPS"),
        Column::numbers("power of the devices", "W"),
    ];
    if let Some(prices) = &sizing.prices {
        columns.push(Column::numbers("price", prices.currency.as_str()));
    }
    let row = |row: &Row| {
        let of = &sizing.candidates[row.candidate];
        let (devices, bytes) =
            (row.devices(&sizing.candidates), row.capacity_bytes(&sizing.candidates));
        let number = |value: Option<f64>, words: &dyn Fn(f64) -> String| {
            value.map_or_else(Cell::none, |value| Cell::number(words(value), value))
        };
        let highest = row.highest.as_ref();
        let next = row.next.map(|(count, iops)| {
            let devices = count.units * count.arrays * of.members;
            Cell::number(format!("{devices}: {}", rate(iops)), iops)
        });
        let asked = sizing.demand.rate_iops;
        let mut cells = vec![
            Cell::number(devices.to_string(), f64::from(devices)),
            Cell::words(of.device_name.as_str()),
            Cell::words(systems(of, row.count)),
            Cell::words(arrays(of, row.count)),
            Cell::number(tb(bytes), bytes as f64),
            number(row.asked.p99_ns, &human::time_ns),
            number(highest.map(|h| h.iops), &rate),
            number(highest.map(|h| h.iops / asked - 1.0), &|s| headroom((1.0 + s) * asked, asked)),
            highest.map_or_else(Cell::none, |h| {
                Cell::words(format!("{}, {}", h.binds, percent(h.busy)))
            }),
            next.unwrap_or_else(Cell::none),
            number(row.devices_w, &watts),
        ];
        if sizing.prices.is_some() {
            cells.push(number(row.price, &|price| format!("{price:.0}")));
        }
        cells.into()
    };
    Table {
        caption: "systems that meet it, the fewest devices first, or the lowest price".to_owned(),
        columns,
        rows: sizing.rows.iter().map(row).collect(),
        notes: Vec::new(),
    }
}

/// Latency by load for the first two rows, and by number of devices.
fn curves(sizing: &Sizing) -> Option<Section> {
    let rows: Vec<&Row> = sizing.rows.iter().take(2).collect();
    rows.first()?;
    // Lines show rates that hold, dots rates that don't, even if they look fast.
    let lines = |row: &&Row, number: usize, x: &dyn Fn(&Trial) -> Option<f64>| {
        let of = &sizing.candidates[row.candidate];
        let points = |holding: bool| {
            let trials = row.trials.iter();
            let trials =
                trials.filter(|t| t.measured.holds(t.offered_iops, &sizing.demand) == holding);
            let mut points: Vec<Point> =
                trials.filter_map(|t| Some(Point::at(x(t)?, t.measured.p99_ns?))).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            points.dedup_by(|a, b| a.x.total_cmp(&b.x).is_eq());
            points
        };
        let name =
            format!("{} × {} in {}", row.devices(&sizing.candidates), of.device_name, of.host);
        let not_held = format!("{name}, not held");
        [(name, Mark::Line, true), (not_held, Mark::Dots, false)]
            .map(|(name, mark, holding)| Series {
                name,
                mark,
                color: number,
                points: points(holding),
            })
            .into_iter()
            .filter(|series| !series.points.is_empty())
            .collect::<Vec<_>>()
    };
    let figure = |id: &str,
                  title: &str,
                  axis: Axis,
                  series: Vec<Series>,
                  rules: [Option<figure::Rule>; 2]| {
        let mut panel = Panel::new(Axis::log("p99 of response time", Quantity::LatencyNs), series);
        let limit = figure::Rule {
            at: sizing.demand.p99_ns as f64,
            upright: false,
            name: "limit".to_owned(),
            tone: Tone::Warning,
        };
        panel.rules = [Some(limit)].into_iter().chain(rules).flatten().collect();
        Block::Figure(Figure {
            id: id.to_owned(),
            title: title.to_owned(),
            summary: format!("{title}, of the best system and the next, with the limit."),
            conditions: format!("{}, emulated, virtual time", demand_in_words(sizing)),
            shape: Shape::Plot(Plot { x: axis, panels: vec![panel], spans: Vec::new() }),
            notes: vec![SUSTAINED.to_owned()],
        })
    };
    let over_load = rows.iter().enumerate().flat_map(|(number, row)| {
        let units = f64::from(row.count.units);
        lines(row, number, &|t| (t.arrays == row.count.arrays).then_some(t.measured.iops * units))
    });
    let asked = figure::Rule {
        at: sizing.demand.rate_iops,
        upright: true,
        name: "asked".to_owned(),
        tone: Tone::Note,
    };
    // The table's value, so that dots beyond it are not taken for the answer.
    let holds = rows[0].highest.as_ref().map(|highest| figure::Rule {
        at: highest.iops,
        upright: true,
        name: "holds".to_owned(),
        tone: Tone::Good,
    });
    let load = figure(
        "load",
        "latency over load",
        Axis::from_zero("completed", Quantity::Iops),
        over_load.collect(),
        [Some(asked), holds],
    );
    let over_devices = rows.iter().enumerate().flat_map(|(number, row)| {
        let members = sizing.candidates[row.candidate].members;
        let share_iops = sizing.demand.rate_iops / f64::from(row.count.units);
        let devices = |t: &Trial| f64::from(t.arrays * members * row.count.units);
        lines(row, number, &|t| t.offered_iops.total_cmp(&share_iops).is_eq().then_some(devices(t)))
    });
    let count = Axis::from_zero("devices", Quantity::Count);
    let devices = figure(
        "devices",
        "latency at the asked rate, over devices",
        count,
        over_devices.collect(),
        [None, None],
    );
    Some(Section {
        id: "curves".to_owned(),
        title: "Latency".to_owned(),
        blocks: vec![load, devices],
        folded: false,
    })
}

fn recommended(sizing: &Sizing) -> Option<Section> {
    let (row, detail) = (sizing.rows.first()?, sizing.detail.as_ref()?);
    let of = &sizing.candidates[row.candidate];
    let share_iops = sizing.demand.rate_iops / f64::from(row.count.units);
    let mut blocks = vec![Block::Text(format!("{}.", name(of, row)))];
    let lines = detail.what_ifs.iter().map(|what_if| {
        let words = what_if_in_words(what_if, share_iops);
        let (condition, outcome) = words.split_once(": ").unwrap_or((&words, ""));
        (condition.to_owned(), outcome.to_owned())
    });
    let mut facts = vec![("What if".to_owned(), lines.collect())];
    let mut others = vec![
        ("confirmed".to_owned(), confirmed_in_words(sizing, row)),
        ("life".to_owned(), life_in_words(sizing, row)),
        ("assumed".to_owned(), assumed_in_words(sizing, row)),
        ("textbook".to_owned(), textbook_in_words(sizing, row)),
    ];
    if !sizing.demand.limits.is_empty() {
        others.push(("limits".to_owned(), limits_in_words(&sizing.demand, &row.asked)));
    }
    if sizing.demand.like.is_none() && sizing.demand.log.is_none() {
        others.push(("run it".to_owned(), run_in_words(sizing, row)));
    }
    others.extend(detail.cache.iter().map(|cache| ("cache".to_owned(), cache_in_words(cache))));
    facts.push(("Also".to_owned(), others));
    blocks.push(Block::Facts(facts));
    let columns = ["depth of each array", "reads", "writes"];
    let units = ["", "bytes/s", "bytes/s"];
    let cells = |(depth, read, write): &(u32, f64, f64)| {
        let rate = |rate: &f64| Cell::number(human::throughput(*rate), *rate);
        vec![Cell::number(depth.to_string(), f64::from(*depth)), rate(read), rate(write)].into()
    };
    blocks.push(Block::Table(Table {
        caption: "in order, blocks of 1 MiB".to_owned(),
        columns: columns.iter().zip(units).map(|(c, u)| Column::numbers(*c, u)).collect(),
        rows: detail.sequential.iter().map(cells).collect(),
        notes: Vec::new(),
    }));
    Some(Section {
        id: "recommended".to_owned(),
        title: "The first of them".to_owned(),
        blocks,
        folded: false,
    })
}
