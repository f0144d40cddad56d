//! Section for a search for the highest rate that meets a latency limit: result, latency by offered rate, and a table.

use super::first_screen::sentence;
use super::stage::Stage;
use crate::kinds::{plural, together};
use crate::rate_search::table;
use iodyno_method::findings::RateSearchFinding;
use iodyno_page::{Axis, Block, Figure, Mark, Panel, Plot, Point, Quantity, Series, Shape, Tone};

pub(super) fn blocks(stage: &Stage<'_>, found: &RateSearchFinding) -> Vec<Block> {
    let mut blocks = vec![Block::Text(format!("{}.", found.sentence()))];
    blocks.extend(found.limited().map(|limited| Block::Text(format!("{}.", sentence(&limited)))));
    let offered = || found.probes.iter().filter_map(|probe| Some((probe.offered_iops?, probe)));
    // If the limit covers several kinds of operation, each has lines and columns of its own.
    let apart = if found.covers.len() > 1 { found.covers.as_slice() } else { &[] };
    let limited = format!("{} of {}", found.metric.quantity, together(&found.covers));
    let points = offered().map(|(rate_iops, probe)| Point {
        interval: probe.within.and_then(|w| Some((w.low_ns? as f64, w.high_ns? as f64))),
        tone: if probe.holds == Some(false) { Tone::Warning } else { Tone::Plain },
        ..Point::at(rate_iops, probe.latency_ns.unwrap_or(f64::NAN))
    });
    let points: Vec<Point> = points.collect();
    if points.iter().any(|point| point.y.is_finite()) {
        let mut series = vec![Series { name: limited, mark: Mark::Line, color: 0, points }];
        for (number, &kind) in apart.iter().enumerate() {
            let points = offered().map(|(rate_iops, probe)| {
                Point::at(rate_iops, found.of_kind(probe, kind).unwrap_or(f64::NAN))
            });
            series.push(Series {
                name: format!("{} of {}", found.metric.quantity, plural(kind)),
                mark: Mark::Line,
                color: number + 1,
                points: points.collect(),
            });
        }
        let mut panel = Panel::new(Axis::log("response time", Quantity::LatencyNs), series);
        panel.warning = "does not meet the limit";
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
            notes: vec![format!(
                "A triangle marks rates that do not meet {}, a limit on {}.",
                found.limit,
                together(&found.covers)
            )],
        }));
    }
    blocks.push(Block::Table(table(found)));
    blocks
}
