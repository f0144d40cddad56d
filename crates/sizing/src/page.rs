//! Formats the result of a sizing as an HTML page: the table of systems, charts of latency by load and by number of
//! devices, and figures of the best system.

use crate::outcome::nearest_in_words;
use crate::row::{Row, Trial};
use crate::sizing::Sizing;
use crate::tables;
use crate::terminal::{EMULATED, advice, demand_in_words, log_in_words, name, state, what_ifs};
use crate::words::{arrays, rate, systems};
use iodyno_page::document::{Headline, Verdict};
use iodyno_page::{
    Axis, Block, Document, Figure, Mark, Panel, Plot, Point, Quantity, Section, Series, Shape,
    Tone, figure,
};
use iodyno_units::human;

/// Caption for charts with dots. It explains why a dot below the latency limit does not meet the demand.
const SUSTAINED: &str = "Dots mark trials that did not meet the demand. Below the limit, the reason is another limit, \
                         or a rate that can't be sustained: a write buffer or write cache fills, the queue grows, or \
                         a resource is busy for more than 98 % of the time, so the latency would rise in a longer run.";

/// Number of systems in the charts, the best first.
const DRAWN: usize = 2;

/// Builds the page of a sizing. `made_by` is program and version; `command` is the command line that reproduces the
/// result.
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
        about: vec![EMULATED.to_owned(), format!("{} cells", sizing.cells)],
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
    let text = "These results were simulated in virtual time by models of devices and adapters; they are not measurements.";
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
        blocks.push(Block::Table(tables::systems(sizing)));
    }
    Section { id: "answer".to_owned(), title: "What meets it".to_owned(), blocks, folded: false }
}

fn headline(sizing: &Sizing, row: &Row) -> Headline {
    let of = &sizing.candidates[row.candidate];
    let mut beside = vec![arrays(of, row.count), format!("in {}", systems(of, row.count))];
    if let Some(highest) = &row.highest {
        beside.push(format!("holds {}", rate(highest.iops)));
        beside.push(format!("binds first: {}", highest.binds_in_words()));
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

/// Charts of latency by load and by number of devices, for the two best systems.
fn curves(sizing: &Sizing) -> Option<Section> {
    let best = sizing.rows.first()?;
    Some(Section {
        id: "curves".to_owned(),
        title: "Latency".to_owned(),
        blocks: vec![over_load(sizing, best), over_devices(sizing)],
        folded: false,
    })
}

/// Chart of latency by completed rate, at the recommended number of arrays.
fn over_load(sizing: &Sizing, best: &Row) -> Block {
    let series = both(sizing, &|row, trial| {
        let units = f64::from(row.count.units);
        (trial.arrays == row.count.arrays).then_some(trial.measured.iops * units)
    });
    let rule =
        |at, name: &str, tone| figure::Rule { at, upright: true, name: name.to_owned(), tone };
    let asked = rule(sizing.demand.rate_iops, "asked", Tone::Note);
    // The table's value, so that dots beyond it are not taken for the answer.
    let holds = best.highest.as_ref().map(|highest| rule(highest.iops, "holds", Tone::Good));
    let axis = Axis::from_zero("completed", Quantity::Iops);
    let rules = [asked].into_iter().chain(holds);
    latency(sizing, "load", "latency over load", axis, series, rules.collect())
}

/// Chart of latency at the requested rate, by number of devices.
fn over_devices(sizing: &Sizing) -> Block {
    let series = both(sizing, &|row, trial| {
        let share_iops = sizing.demand.rate_iops / f64::from(row.count.units);
        let members = sizing.candidates[row.candidate].members;
        let devices = f64::from(trial.arrays * members * row.count.units);
        trial.offered_iops.total_cmp(&share_iops).is_eq().then_some(devices)
    });
    let axis = Axis::from_zero("devices", Quantity::Count);
    latency(
        sizing,
        "devices",
        "latency at the requested rate, by number of devices",
        axis,
        series,
        Vec::new(),
    )
}

/// Chart series of the two best systems: p99 of each trial. `x` returns a trial's horizontal position.
fn both(sizing: &Sizing, x: &dyn Fn(&Row, &Trial) -> Option<f64>) -> Vec<Series> {
    let rows = sizing.rows.iter().take(DRAWN).enumerate();
    rows.flat_map(|(number, row)| series(sizing, row, number, x)).collect()
}

/// Chart series of one system's trials: a line for sustained rates, dots for others, even if their latency is
/// low.
fn series(
    sizing: &Sizing,
    row: &Row,
    color: usize,
    x: &dyn Fn(&Row, &Trial) -> Option<f64>,
) -> Vec<Series> {
    let points = |holding: bool| {
        let trials = row.trials.iter();
        let trials = trials.filter(|t| t.measured.holds(t.offered_iops, &sizing.demand) == holding);
        let mut points: Vec<Point> =
            trials.filter_map(|t| Some(Point::at(x(row, t)?, t.measured.p99_ns?))).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        points.dedup_by(|a, b| a.x.total_cmp(&b.x).is_eq());
        points
    };
    let name = series_name(sizing, row);
    let not_held = format!("{name}, not sustained");
    let both = [(name, Mark::Line, true), (not_held, Mark::Dots, false)];
    let both =
        both.map(|(name, mark, holding)| Series { name, mark, color, points: points(holding) });
    both.into_iter().filter(|series| !series.points.is_empty()).collect()
}

/// Name of a system in the charts: devices and host, and its arrays if another drawn system has as many of the same.
fn series_name(sizing: &Sizing, row: &Row) -> String {
    let plain = |row: &Row| {
        let of = &sizing.candidates[row.candidate];
        format!("{} × {} in {}", row.devices(&sizing.candidates), of.device_name, of.host)
    };
    let name = plain(row);
    if sizing.rows.iter().take(DRAWN).filter(|other| plain(other) == name).count() < 2 {
        return name;
    }
    format!("{name}, {}", arrays(&sizing.candidates[row.candidate], row.count))
}

/// Chart of p99 with the latency limit.
fn latency(
    sizing: &Sizing,
    id: &str,
    title: &str,
    x: Axis,
    series: Vec<Series>,
    rules: Vec<figure::Rule>,
) -> Block {
    let mut panel = Panel::new(Axis::log("p99 of response time", Quantity::LatencyNs), series);
    panel.rules = vec![figure::Rule {
        at: sizing.demand.p99_ns as f64,
        upright: false,
        name: "limit".to_owned(),
        tone: Tone::Warning,
    }];
    panel.rules.extend(rules);
    Block::Figure(Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        summary: format!("{title}, for the best and the second-best system, with the limit."),
        conditions: format!("{}, {EMULATED}", demand_in_words(sizing)),
        shape: Shape::Plot(Plot { x, panels: vec![panel], spans: Vec::new() }),
        notes: vec![SUSTAINED.to_owned()],
    })
}

fn recommended(sizing: &Sizing) -> Option<Section> {
    let (row, detail) = (sizing.rows.first()?, sizing.detail.as_ref()?);
    let pair = |words: &str| {
        let (condition, outcome) = words.split_once(": ").unwrap_or((words, ""));
        (condition.to_owned(), outcome.to_owned())
    };
    let what_ifs = what_ifs(sizing, row, detail).iter().map(|words| pair(words)).collect();
    let others = [state(sizing, row), advice(sizing, row, detail)].concat();
    let others = others.into_iter().map(|(label, words)| (label.to_owned(), words)).collect();
    Some(Section {
        id: "recommended".to_owned(),
        title: "The best system".to_owned(),
        blocks: vec![
            Block::Text(format!("{}.", name(&sizing.candidates[row.candidate], row))),
            Block::Facts(vec![("What if".to_owned(), what_ifs), ("Also".to_owned(), others)]),
            Block::Table(tables::sequential(detail)),
        ],
        folded: false,
    })
}
