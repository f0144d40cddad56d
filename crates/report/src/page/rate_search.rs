//! The section of a search for the highest rate under a latency: the answer, the latency by offered rate, and a table.

use super::labels;
use super::stage::Stage;
use iodyno_method::findings::{Probe, RateSearchFinding};
use iodyno_page::{
    Axis, Block, Cell, Column, Figure, Mark, Panel, Plot, Point, Quantity, Series, Shape, Table,
    Tone,
};

pub(super) fn blocks(stage: &Stage<'_>, found: &RateSearchFinding) -> Vec<Block> {
    let mut blocks = vec![Block::Text(format!("{}.", found.sentence()))];
    let offered = || found.probes.iter().filter_map(|probe| Some((probe.offered_iops?, probe)));
    let name = found.limit.split(' ').next().unwrap_or_default();
    let points = offered().map(|(rate_iops, probe)| Point {
        interval: probe.within.and_then(|w| Some((w.low_ns? as f64, w.high_ns? as f64))),
        tone: if probe.holds == Some(true) { Tone::Plain } else { Tone::Warning },
        ..Point::at(rate_iops, probe.latency_ns.unwrap_or(f64::NAN))
    });
    let points: Vec<Point> = points.collect();
    if points.iter().any(|point| point.y.is_finite()) {
        let series = Series { name: name.to_owned(), mark: Mark::Line, color: 0, points };
        let panel = Panel::new(Axis::log("response time", Quantity::LatencyNs), vec![series]);
        blocks.push(Block::Figure(Figure {
            id: format!("{}-rates", stage.id),
            title: stage.titled("Latency by offered rate"),
            summary: found.sentence(),
            conditions: stage.line(),
            shape: Shape::Plot(Plot {
                x: Axis::from_zero("offered rate", Quantity::Iops),
                panels: vec![panel],
                spans: Vec::new(),
            }),
            notes: vec![format!("A sign marks rates that do not hold {}.", found.limit)],
        }));
    }
    let row = |probe: &Probe| {
        let cells: Vec<Cell> = vec![
            probe
                .offered_iops
                .map_or_else(|| Cell::words("closed loop"), |x| labels::iops(Some(x))),
            labels::iops(Some(probe.iops)),
            labels::time(probe.latency_ns),
            labels::time(probe.within.and_then(|w| w.low_ns).map(|ns| ns as f64)),
            labels::time(probe.within.and_then(|w| w.high_ns).map(|ns| ns as f64)),
            match probe.holds {
                Some(true) => Cell::words("yes").toned(Tone::Good),
                Some(false) => Cell::words("no").toned(Tone::Warning),
                None => Cell::none(),
            },
        ];
        cells.into()
    };
    blocks.push(Block::Table(Table {
        caption: "The rates".to_owned(),
        columns: vec![
            Column::numbers("offered", "1/s"),
            Column::numbers("completed", "1/s"),
            Column::numbers(name, "ns"),
            Column::numbers("95 % from", "ns"),
            Column::numbers("95 % to", "ns"),
            Column::words(format!("holds {}", found.limit)),
        ],
        rows: found.probes.iter().map(row).collect(),
        notes: Vec::new(),
    }));
    blocks
}
