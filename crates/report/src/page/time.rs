//! Charts of a cell (measurement) over time: throughput, and a heat map of latencies with percentile lines.

use super::labels;
use iodyno_measure::stationarity::{Stall, Stationarity};
use iodyno_measure::summary::is_about_bandwidth;
use iodyno_measure::{Cell, ClassStats, Histogram, Interval};
use iodyno_notebook::Run;
use iodyno_page::figure::{HeatMap, Rule, Span};
use iodyno_page::{Axis, Figure, Mark, Panel, Plot, Point, Quantity, Series, Shape, Tone};
use iodyno_units::{OpKind, human};

/// Maximum number of columns in a heat map: more are too narrow to see.
const HEAT_COLUMNS_MAX: usize = 240;
/// Number of latency rows of a heat map per factor of two.
const ROWS_AN_OCTAVE: f64 = 4.0;
/// Colour of the median line, which differs from the blue, green and yellow of the heat map.
pub(super) const P50: usize = 1;
/// Colour of the 99th percentile line.
pub(super) const P99: usize = 3;
/// Colours of the kinds of operation. They differ from the colours of the percentiles.
const KINDS: [usize; 5] = [0, 2, 4, 5, 7];
/// Maximum ratio of the highest to the lowest peak rate for charts with a common rate axis. With a higher
/// ratio, the lower curve would use less than half of its panel.
const RATE_FACTOR_MAX: f64 = 2.0;
/// Maximum number of stalls that are marked individually.
const STALLS_MAX: usize = 40;

/// Draws one cell over time. `latency` is the range of the latency axis if several figures share it
/// ([`shared_range`]). [`share_rates`] later unifies the rate axes.
pub(super) fn figure(
    run: &Run,
    cell: &Cell,
    id: &str,
    latency: Option<(f64, f64)>,
) -> Option<Figure> {
    let total = cell.total();
    let kinds: Vec<OpKind> =
        total.iter().filter(|(_, s)| s.ops() > 0).map(|(kind, _)| kind).collect();
    if cell.series.len() < 2 || kinds.is_empty() {
        return None;
    }
    let edges = edges(cell);
    let about_bandwidth = is_about_bandwidth(cell.key.block_bytes());
    let mut panels = vec![rate_panel(cell, &kinds, &edges, about_bandwidth)];
    for kind in kinds.iter().filter(|kind| cell.has_latency_over_time(**kind)) {
        panels.push(latency_panel(cell, *kind, &edges, latency, kinds.len() > 1));
    }
    let stalls = stalled(cell);
    let mut notes = Vec::new();
    if stalls.len() > STALLS_MAX {
        notes.push(format!("{} stalls; the first {STALLS_MAX} are marked.", stalls.len()));
    }
    if let Some(recorded) = &cell.recorded {
        let length = human::duration_ns(recorded.interval_ns);
        notes.push(format!(
            "Recorded in intervals of {length}, then merged. The band shows the slowest and the fastest recorded interval. Stalls are detected in recorded intervals."
        ));
    }
    notes.push(format!(
        "Intervals of {}. Colours show the number of I/Os on a logarithmic scale, so that rare latencies are visible.",
        human::duration_ns(cell.interval_ns)
    ));
    let name = labels::name(run, &cell.key);
    Some(Figure {
        id: id.to_owned(),
        title: format!("{name} over time"),
        summary: summary(cell, stalls.len()),
        conditions: labels::line_of_cell(run, cell),
        shape: Shape::Plot(Plot {
            x: Axis::from_zero("time", Quantity::Seconds),
            panels,
            spans: stalls.into_iter().take(STALLS_MAX).collect(),
        }),
        notes,
    })
}

/// Common range of the latency axis, ns, for `cell` and those of `cells` whose rate has the same unit. None
/// if any of them would use less than half of the axis.
pub(super) fn shared_range(cell: &Cell, cells: &[&Cell]) -> Option<(f64, f64)> {
    let unit = |cell: &Cell| is_about_bandwidth(cell.key.block_bytes());
    let alike: Vec<&Cell> = cells.iter().copied().filter(|c| unit(c) == unit(cell)).collect();
    let length = |(low, high): (f64, f64)| (high / low).ln();
    let shared = latency_range(&alike)?;
    let is_filled =
        |c: &Cell| latency_range(&[c]).is_none_or(|own| 2.0 * length(own) >= length(shared));
    alike.iter().all(|c| is_filled(c)).then(|| whole_rows(shared))
}

/// Number of the heat map row that contains a latency.
fn row_of(ns: f64) -> i64 {
    (ns.max(1.0).log2() * ROWS_AN_OCTAVE).floor() as i64
}

/// Lower edge of a heat map row, ns.
fn row_edge(row: i64) -> f64 {
    2_f64.powf(row as f64 / ROWS_AN_OCTAVE)
}

/// Extends a range to whole rows of the heat map. Otherwise the axis clips the rows of the lowest and highest latency.
fn whole_rows((low, high): (f64, f64)) -> (f64, f64) {
    (row_edge(row_of(low)), row_edge(row_of(high) + 1))
}

/// Range of a latency axis that covers all `cells`, ns; None if they have no operations.
fn latency_range(cells: &[&Cell]) -> Option<(f64, f64)> {
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for (_, stats) in cells.iter().flat_map(|c| &c.series).flat_map(Interval::iter) {
        let response_time = stats.response_time();
        if let (Some(min), Some(max)) = (response_time.min_ns(), response_time.max_ns()) {
            low = low.min(min.max(1) as f64);
            high = high.max(max as f64);
        }
    }
    (high > 0.0).then_some((low, high.max(low * 2.0)))
}

/// Start times of the intervals and the end of the last one, s since the cell's start.
fn edges(cell: &Cell) -> Vec<f64> {
    let mut at_ns = 0;
    let mut edges = vec![0.0];
    for length_ns in cell.interval_lengths_ns() {
        at_ns += length_ns;
        edges.push(at_ns as f64 / 1e9);
    }
    edges
}

/// Sets a common range for the rate axes of figures with the same unit, unless their peak rates differ by more than a
/// factor of [`RATE_FACTOR_MAX`].
pub(super) fn share_rates(figures: &mut [Figure]) {
    for quantity in [Quantity::Iops, Quantity::Throughput] {
        let mut axes: Vec<(f64, &mut Axis)> = Vec::new();
        for figure in figures.iter_mut() {
            let Shape::Plot(plot) = &mut figure.shape else { continue };
            for panel in plot.panels.iter_mut().filter(|p| p.y.quantity == quantity) {
                let points = panel.series.iter().flat_map(|s| &s.points);
                let tops = points.map(|p| p.interval.map_or(p.y, |(_, high)| high.max(p.y)));
                axes.push((tops.filter(|y| y.is_finite()).fold(0.0, f64::max), &mut panel.y));
            }
        }
        let least = axes.iter().map(|a| a.0).fold(f64::INFINITY, f64::min);
        let most = axes.iter().map(|a| a.0).fold(0.0, f64::max);
        if axes.len() > 1 && most <= least * RATE_FACTOR_MAX {
            for (_, axis) in axes {
                axis.range = Some((0.0, most * 1.05));
            }
        }
    }
}

fn rate_panel(cell: &Cell, kinds: &[OpKind], edges: &[f64], about_bandwidth: bool) -> Panel {
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
    let series = extremes(cell, kinds, edges, about_bandwidth).into_iter().chain(series).collect();
    let (label, quantity) = if about_bandwidth {
        ("throughput", Quantity::Throughput)
    } else if kinds.iter().all(|kind| cell.io_kinds().count(*kind)) {
        ("IOPS", Quantity::Iops)
    } else {
        ("IOPS and other operations/s", Quantity::Iops)
    };
    let y = Axis::from_zero(label, quantity);
    let mean =
        if about_bandwidth { cell.per_second(cell.total().bytes() as f64) } else { cell.iops() };
    let mut panel = Panel::new(y, series);
    if kinds.len() == 1 {
        panel.rules.push(Rule {
            at: mean,
            upright: false,
            name: "mean".to_owned(),
            tone: Tone::Dim,
        });
    }
    panel.height = 0.7;
    panel
}

/// Draws a band from the lowest to the highest rate of the recorded intervals that were merged into each drawn one.
/// None with several kinds of operation, or for throughput with several block sizes, because the recorded intervals
/// only have the total number of operations.
fn extremes(cell: &Cell, kinds: &[OpKind], edges: &[f64], about_bandwidth: bool) -> Option<Series> {
    let recorded = cell.recorded.as_ref()?;
    let (length_ns, rates) = cell.rates_iops();
    let each = (cell.interval_ns / recorded.interval_ns.max(1)).max(1) as usize;
    if kinds.len() != 1 || (about_bandwidth && cell.key.blocks.len() > 1) || length_ns == 0 {
        return None;
    }
    let bytes = cell.key.blocks.first().map_or(0, |b| b.0);
    let scale = if about_bandwidth { f64::from(bytes) } else { 1.0 };
    let mut points: Vec<Point> = Vec::new();
    for (chunk, edge) in rates.chunks(each).zip(edges.windows(2)) {
        let low = chunk.iter().copied().fold(f64::INFINITY, f64::min) * scale;
        let high = chunk.iter().copied().fold(0.0, f64::max) * scale;
        let at =
            |x| Point { interval: Some((low, high)), ..Point::at(x, f64::midpoint(low, high)) };
        points.extend([at(edge[0]), at(edge[1])]);
    }
    let length = human::duration_ns(length_ns);
    let name = format!("slowest to fastest {length}");
    Some(Series { name, mark: Mark::Band, color: KINDS[0], points })
}

fn latency_panel(
    cell: &Cell,
    kind: OpKind,
    edges: &[f64],
    range: Option<(f64, f64)>,
    is_one_of_several: bool,
) -> Panel {
    let quantile = |q: f64, name: &str, mark, color| {
        let points = cell.series.iter().zip(edges.windows(2)).map(|(interval, edge)| {
            let ns = interval.class(kind).and_then(|s| s.response_time().supported_quantile_ns(q));
            Point::at(f64::midpoint(edge[0], edge[1]), ns.map_or(f64::NAN, |ns| ns as f64))
        });
        Series { name: name.to_owned(), mark, color, points: points.collect() }
    };
    let label =
        if is_one_of_several { format!("{} latency", kind.name()) } else { "latency".to_owned() };
    let mut y = Axis::log(label, Quantity::LatencyNs);
    let histograms: Vec<Option<&Histogram>> =
        cell.series.iter().map(|i| i.class(kind).map(ClassStats::response_time)).collect();
    let map = heat_map(&histograms, edges);
    // The map has whole rows, so the axis must, too.
    y.range = range
        .or_else(|| map.as_ref().and_then(|m| Some((*m.y_edges.first()?, *m.y_edges.last()?))));
    let mut series =
        vec![quantile(0.5, "p50", Mark::Line, P50), quantile(0.99, "p99", Mark::Line, P99)];
    series.retain(|s| s.points.iter().any(|p| p.y.is_finite()));
    let mut panel = Panel::new(y, series);
    panel.heat = map;
    panel
}

/// Makes a heat map of counts over time and latency from one histogram per pair of neighbouring `edges`. None
/// if all counts are 0.
pub(super) fn heat_map(histograms: &[Option<&Histogram>], edges: &[f64]) -> Option<HeatMap> {
    let known = || histograms.iter().flatten();
    let (low, high) =
        (known().filter_map(|h| h.min_ns()).min()?, known().filter_map(|h| h.max_ns()).max()?);
    let (first, last) = (row_of(low as f64), row_of(high as f64));
    let rows = (last - first + 1) as usize;
    let together = histograms.len().div_ceil(HEAT_COLUMNS_MAX).max(1);
    let mut counts = Vec::new();
    let mut x_edges = vec![edges[0]];
    for (number, chunk) in histograms.chunks(together).enumerate() {
        let mut column = vec![0_u64; rows];
        for bucket in chunk.iter().flatten().flat_map(|h| h.buckets()) {
            let at = row_of(bucket.middle_ns()).clamp(first, last) - first;
            column[at as usize] += bucket.count;
        }
        counts.push(column);
        let end = (number * together + chunk.len()).min(edges.len() - 1);
        x_edges.push(edges[end]);
    }
    let y_edges = (first..=last + 1).map(row_edge).collect();
    Some(HeatMap { x_edges, y_edges, counts, of: "I/Os".to_owned() })
}

/// Time spans of the stalls that the verdict `STALL` reports.
fn stalled(cell: &Cell) -> Vec<Span> {
    let span = |stall: &Stall| Span {
        from: stall.from_ns as f64 / 1e9,
        to: stall.to_ns as f64 / 1e9,
        name: "stall".to_owned(),
        tone: Tone::Warning,
    };
    Stationarity::of(cell).stalls.iter().map(span).collect()
}

fn summary(cell: &Cell, stalls: usize) -> String {
    let (_, rates) = cell.rates_iops();
    let low = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let high = rates.iter().copied().fold(0.0, f64::max);
    let mean = cell.iops();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a cell of two hours with 1 000 reads per one-second interval, except in two seconds of the second
    /// hour.
    fn hours() -> Cell {
        let mut cell = Cell {
            window_ns: 7_200_500_000_000,
            interval_ns: 1_000_000_000,
            series: vec![Interval::default(); 7_201],
            ..Cell::default()
        };
        for (i, interval) in cell.series.iter_mut().enumerate() {
            let ops = match i {
                4_000 | 4_001 => 7,
                4_002 => 999,
                7_200 => 1,
                _ => 1_000,
            };
            interval.class_mut(OpKind::Read).service.record_n(90_000, ops);
        }
        // The operation that the stall delayed.
        cell.series[4_002].class_mut(OpKind::Read).service.record(1_990_000_000);
        cell
    }

    #[test]
    fn a_stall_is_found_in_whatever_intervals_it_is_drawn() {
        for merge in [1, 36, 100] {
            let cell = hours().coarser(merge);
            let found = stalled(&cell);
            let ends: Vec<_> = found.iter().map(|s| (s.from, s.to)).collect();
            let [(from, to)] = ends[..] else { panic!("merged by {merge}: {ends:?}") };
            assert!((from - 4_000.0).abs() < 0.02 && (to - 4_002.0).abs() < 0.02, "{from} {to}");
            let said = summary(&cell, found.len());
            assert!(said.contains("; 7.00 in the slowest interval, 1.00 k in"), "{said}");
        }
    }

    /// Similar cells share a latency axis, and every cell uses at least half of its axis.
    #[test]
    fn latencies_share_an_axis_that_each_fills_by_half() {
        let cell = |low_ns: u64, high_ns: u64| {
            let mut interval = Interval::default();
            interval.class_mut(OpKind::Read).service.record(low_ns);
            interval.class_mut(OpKind::Read).service.record(high_ns);
            Cell { series: vec![interval], ..Cell::default() }
        };
        let (fast, alike, slow) =
            (cell(10_000, 1_000_000), cell(20_000, 900_000), cell(1_000_000, 4_000_000));
        let range = shared_range(&fast, &[&fast, &alike]);
        assert_eq!(range, shared_range(&alike, &[&fast, &alike]));
        // The axis has whole rows, so the rows of the lowest and the highest latency are complete.
        let histogram = fast.total().response_time();
        let edges = heat_map(&[Some(&histogram)], &[0.0, 1.0]).unwrap().y_edges;
        assert_eq!(range, Some((edges[0], edges[edges.len() - 1])));
        for cell in [&fast, &alike, &slow] {
            assert_eq!(shared_range(cell, &[&fast, &alike, &slow]), None);
        }
    }

    #[test]
    fn rates_of_one_unit_share_an_axis_while_all_can_be_read() {
        let figure = |iops: f64, quantity| {
            let points = vec![Point::at(0.0, iops), Point::at(1.0, f64::NAN)];
            let series = Series { name: String::new(), mark: Mark::Step, color: 0, points };
            Figure {
                id: String::new(),
                title: String::new(),
                summary: String::new(),
                conditions: String::new(),
                shape: Shape::Plot(Plot {
                    x: Axis::from_zero("time", Quantity::Seconds),
                    panels: vec![Panel::new(Axis::from_zero("", quantity), vec![series])],
                    spans: Vec::new(),
                }),
                notes: Vec::new(),
            }
        };
        let ranges = |figures: &mut Vec<Figure>| -> Vec<Option<(f64, f64)>> {
            share_rates(figures);
            let range = |figure: &Figure| match &figure.shape {
                Shape::Plot(plot) => plot.panels[0].y.range,
                _ => None,
            };
            figures.iter().map(range).collect()
        };
        let (iops, throughput) = (Quantity::Iops, Quantity::Throughput);
        let mut near = vec![figure(100.0, iops), figure(9e9, throughput), figure(200.0, iops)];
        assert_eq!(ranges(&mut near), [Some((0.0, 210.0)), None, Some((0.0, 210.0))]);
        let mut far = vec![figure(100.0, iops), figure(201.0, iops)];
        assert_eq!(ranges(&mut far), [None, None]);
    }

    #[test]
    fn the_band_has_the_slowest_and_the_fastest_of_each_interval() {
        assert!(extremes(&hours(), &[OpKind::Read], &edges(&hours()), false).is_none());
        let cell = hours().coarser(100);
        let band = extremes(&cell, &[OpKind::Read], &edges(&cell), false).unwrap();
        let low_of = |interval: usize| band.points[2 * interval].interval.unwrap();
        assert_eq!((low_of(39), low_of(40), low_of(41)), ((1e3, 1e3), (7.0, 1e3), (1e3, 1e3)));
        assert_eq!((band.points[80].x, band.points[81].x), (4_000.0, 4_100.0));
        // The band is drawn, below the line.
        let panel = rate_panel(&cell, &[OpKind::Read], &edges(&cell), false);
        assert_eq!(panel.series[0].points, band.points);
        assert_eq!(panel.series[1].mark, Mark::Step);
    }
}
