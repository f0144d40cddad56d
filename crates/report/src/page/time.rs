//! A cell over time: throughput, and latencies as a heat map with percentiles over it.

use super::words;
use crate::figures::{interval_lengths_ns, is_about_bandwidth};
use iodyno_measure::statistics::stalls;
use iodyno_measure::{Cell, ClassStats, Histogram, Interval};
use iodyno_notebook::Run;
use iodyno_page::figure::{HeatMap, Rule, Span};
use iodyno_page::{Axis, Figure, Mark, Panel, Plot, Point, Quantity, Series, Shape, Tone};
use iodyno_units::{OpKind, human};
use std::ops::Range;

/// Columns of a heat map: more than this are narrower than can be seen.
const HEAT_COLUMNS_MAX: usize = 240;
/// Rows of a heat map a factor of two.
const ROWS_AN_OCTAVE: f64 = 4.0;
/// Colours of the percentiles: the map below them has blue, green and yellow.
pub(super) const P50: usize = 1;
/// See [`P50`].
pub(super) const P99: usize = 3;
/// Colours of the kinds of operation, which are not those.
const KINDS: [usize; 5] = [0, 2, 4, 5, 7];
/// Stalls that are marked one by one.
const STALLS_MAX: usize = 40;

/// The figure of one cell. `ranges` are the ends of the axes of rate and of latency that compared figures
/// share.
pub(super) fn figure(run: &Run, cell: &Cell, id: &str, ranges: &Ranges) -> Option<Figure> {
    let total = cell.total();
    let kinds: Vec<OpKind> =
        total.iter().filter(|(_, s)| s.ops() > 0).map(|(kind, _)| kind).collect();
    if cell.series.len() < 2 || kinds.is_empty() {
        return None;
    }
    let edges = edges(cell);
    let about_bandwidth = is_about_bandwidth(cell.key.block_bytes());
    let mut panels = vec![rate_panel(cell, &kinds, &edges, about_bandwidth, ranges)];
    for kind in &kinds {
        panels.push(latency_panel(cell, *kind, &edges, ranges, kinds.len() > 1));
    }
    let stalls = stalled(cell, &edges);
    let mut notes = Vec::new();
    if stalls.len() > STALLS_MAX {
        notes.push(format!("{} stalls; the first {STALLS_MAX} are marked.", stalls.len()));
    }
    notes.push(format!(
        "Intervals of {}. The colour is the rank of the number of I/Os, so that rare ones are seen.",
        human::duration_ns(cell.interval_ns)
    ));
    let name = words::name(run, &cell.key);
    Some(Figure {
        id: id.to_owned(),
        title: format!("{name} over time"),
        summary: summary(cell, stalls.len()),
        conditions: words::line_of_cell(run, cell),
        shape: Shape::Plot(Plot {
            x: Axis::from_zero("time", Quantity::Seconds),
            panels,
            spans: stalls.into_iter().take(STALLS_MAX).collect(),
        }),
        notes,
    })
}

/// Ends of axes that several figures share; None to follow the data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ranges {
    /// Bytes or operations a second.
    pub(super) rate: Option<(f64, f64)>,
    /// ns.
    pub(super) latency: Option<(f64, f64)>,
}

impl Ranges {
    /// That hold all of these cells, whose rates are of one unit.
    pub(super) fn of(cells: &[&Cell]) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for (_, stats) in cells.iter().flat_map(|c| &c.series).flat_map(Interval::iter) {
            let felt = stats.felt();
            if let (Some(min), Some(max)) = (felt.min_ns(), felt.max_ns()) {
                low = low.min(min.max(1) as f64);
                high = high.max(max as f64);
            }
        }
        Self { rate: None, latency: (high > 0.0).then_some((low, high.max(low * 2.0))) }
    }
}

/// Ends of the intervals, s, one more than there are intervals.
fn edges(cell: &Cell) -> Vec<f64> {
    let mut at_ns = 0;
    let mut edges = vec![0.0];
    for length_ns in interval_lengths_ns(cell) {
        at_ns += length_ns;
        edges.push(at_ns as f64 / 1e9);
    }
    edges
}

fn rate_panel(
    cell: &Cell,
    kinds: &[OpKind],
    edges: &[f64],
    about_bandwidth: bool,
    ranges: &Ranges,
) -> Panel {
    let series = kinds.iter().zip(KINDS.into_iter().cycle()).map(|(&kind, color)| {
        let mut points: Vec<Point> = cell
            .series
            .iter()
            .zip(edges.windows(2))
            .map(|(interval, edge)| {
                let stats = interval.class(kind);
                let n = if about_bandwidth {
                    stats.map_or(0, |s| s.bytes)
                } else {
                    stats.map_or(0, ClassStats::ops)
                };
                let length_s = edge[1] - edge[0];
                Point::at(edge[0], if length_s > 0.0 { n as f64 / length_s } else { f64::NAN })
            })
            .collect();
        // The last step ends with the window.
        if let (Some(last), Some(end)) = (points.last().cloned(), edges.last()) {
            points.push(Point { x: *end, ..last });
        }
        Series { name: kind.name().to_owned(), mark: Mark::Step, color, points }
    });
    let series = series.collect();
    let (label, quantity) = if about_bandwidth {
        ("throughput", Quantity::Throughput)
    } else {
        ("IOPS", Quantity::Iops)
    };
    let mut y = Axis::from_zero(label, quantity);
    y.range = ranges.rate;
    let total = cell.total();
    let mean = if about_bandwidth { total.bytes() } else { total.ops() };
    let mut panel = Panel::new(y, series);
    if kinds.len() == 1 {
        panel.rules.push(Rule {
            at: cell.per_second(mean as f64),
            upright: false,
            name: "mean".to_owned(),
            tone: Tone::Dim,
        });
    }
    panel.height = 0.7;
    panel
}

fn latency_panel(
    cell: &Cell,
    kind: OpKind,
    edges: &[f64],
    ranges: &Ranges,
    is_one_of_several: bool,
) -> Panel {
    let quantile = |q: f64, name: &str, mark, color| {
        let points = cell.series.iter().zip(edges.windows(2)).map(|(interval, edge)| {
            let ns = interval.class(kind).and_then(|s| s.felt().supported_quantile_ns(q));
            Point::at(f64::midpoint(edge[0], edge[1]), ns.map_or(f64::NAN, |ns| ns as f64))
        });
        Series { name: name.to_owned(), mark, color, points: points.collect() }
    };
    let label =
        if is_one_of_several { format!("{} latency", kind.name()) } else { "latency".to_owned() };
    let mut y = Axis::log(label, Quantity::LatencyNs);
    let histograms: Vec<Option<&Histogram>> =
        cell.series.iter().map(|i| i.class(kind).map(ClassStats::felt)).collect();
    let map = heat_map(&histograms, edges);
    // The map is in whole rows, so the axis is too.
    y.range = ranges
        .latency
        .or_else(|| map.as_ref().and_then(|m| Some((*m.y_edges.first()?, *m.y_edges.last()?))));
    let mut series =
        vec![quantile(0.5, "p50", Mark::Line, P50), quantile(0.99, "p99", Mark::Line, P99)];
    series.retain(|s| s.points.iter().any(|p| p.y.is_finite()));
    let mut panel = Panel::new(y, series);
    panel.heat = map;
    panel
}

/// Counts by time and latency of what lies between neighbouring `edges`, one more than there are histograms;
/// None where nothing was counted.
pub(super) fn heat_map(histograms: &[Option<&Histogram>], edges: &[f64]) -> Option<HeatMap> {
    let known = || histograms.iter().flatten();
    let (low, high) =
        (known().filter_map(|h| h.min_ns()).min()?, known().filter_map(|h| h.max_ns()).max()?);
    let place = |ns: f64| (ns.max(1.0).log2() * ROWS_AN_OCTAVE).floor() as i64;
    let (first, last) = (place(low as f64), place(high as f64));
    let rows = (last - first + 1) as usize;
    let together = histograms.len().div_ceil(HEAT_COLUMNS_MAX).max(1);
    let mut counts = Vec::new();
    let mut x_edges = vec![edges[0]];
    for (number, chunk) in histograms.chunks(together).enumerate() {
        let mut column = vec![0_u64; rows];
        for bucket in chunk.iter().flatten().flat_map(|h| h.buckets()) {
            let at = place(bucket.middle_ns()).clamp(first, last) - first;
            column[at as usize] += bucket.count;
        }
        counts.push(column);
        let end = (number * together + chunk.len()).min(edges.len() - 1);
        x_edges.push(edges[end]);
    }
    let y_edges = (first..=last + 1).map(|i| 2_f64.powf(i as f64 / ROWS_AN_OCTAVE)).collect();
    Some(HeatMap { x_edges, y_edges, counts, of: "I/Os".to_owned() })
}

/// Runs of neighbouring whole intervals in which next to nothing was done.
fn stalled(cell: &Cell, edges: &[f64]) -> Vec<Span> {
    let whole = cell.series.len().saturating_sub(1);
    let ops: Vec<f64> = cell.series[..whole].iter().map(|i| i.ops() as f64).collect();
    if ops.len() < 10 {
        return Vec::new();
    }
    let span = |place: Range<usize>| Span {
        from: edges[place.start],
        to: edges[place.end],
        name: "stall".to_owned(),
        tone: Tone::Warning,
    };
    stalls::stalls(&ops).into_iter().map(span).collect()
}

fn summary(cell: &Cell, stalls: usize) -> String {
    let whole = cell.series.len().saturating_sub(1).max(1);
    let rates: Vec<f64> = cell.series[..whole.min(cell.series.len())]
        .iter()
        .map(|i| i.ops() as f64 * 1e9 / cell.interval_ns.max(1) as f64)
        .collect();
    let low = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let high = rates.iter().copied().fold(0.0, f64::max);
    let mean = cell.per_second(cell.total().ops() as f64);
    let stalled = match stalls {
        0 => "no stall".to_owned(),
        1 => "one stall".to_owned(),
        n => format!("{n} stalls"),
    };
    format!(
        "{} IOPS on average; {} in the slowest interval, {} in the fastest; {stalled}.",
        human::count(mean),
        human::count(low),
        human::count(high)
    )
}
