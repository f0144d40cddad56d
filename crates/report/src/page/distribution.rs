//! Charts of latency distributions: percentile curves on an axis of nines (90 %, 99 %, 99.9 %), and histograms.

use super::labels;
use iodyno_measure::statistics::within::{COVERS, within};
use iodyno_measure::{Cell, ClassStats, Histogram};
use iodyno_notebook::Run;
use iodyno_page::{Axis, Figure, Mark, Panel, Plot, Point, Quantity, Scale, Series, Shape};
use iodyno_units::{OpKind, human};

/// Maximum number of curves in a figure: more are indistinguishable.
const CURVES_MAX: usize = 8;
/// Number of points of a percentile curve per additional nine (90 to 99 %, 99 to 99.9 %, and so on).
const POINTS_A_NINE: u32 = 10;
/// Index at which the median is inserted into a percentile curve, between the points 1 - 10^-0.3 (49.9 %) and
/// 1 - 10^-0.4 (60.2 %).
const MEDIAN_AT: u32 = 4;
/// Bars of a histogram per factor of two.
const BARS_AN_OCTAVE: f64 = 8.0;
/// Confidence level of the band around a single percentile curve.
const LEVEL: f64 = 0.95;

/// A latency distribution, with its name in the chart's legend.
pub(super) struct Curve<'a> {
    pub(super) name: String,
    pub(super) histogram: Histogram,
    /// Histograms per measurement interval. Their variation determines the confidence intervals of the
    /// percentiles.
    pub(super) parts: Vec<Vec<&'a Histogram>>,
}

/// One curve per kind of operation of a cell; none if the distribution is unknown.
pub(super) fn curves<'a>(name: &str, cell: &'a Cell) -> Vec<Curve<'a>> {
    if !cell.has_distribution() {
        return Vec::new();
    }
    let total = cell.total();
    let kinds: Vec<_> = total.iter().filter(|(_, stats)| stats.ops() > 0).collect();
    let one = kinds.len() == 1;
    kinds
        .into_iter()
        .map(|(kind, stats)| Curve {
            name: if one { name.to_owned() } else { format!("{name}, {}", words_of(kind)) },
            histogram: stats.response_time().clone(),
            parts: cell
                .series
                .iter()
                .filter(|_| cell.has_latency_over_time(kind))
                .map(|interval| {
                    interval.class(kind).map(ClassStats::response_time).into_iter().collect()
                })
                .collect(),
        })
        .collect()
}

const fn words_of(kind: OpKind) -> &'static str {
    kind.name()
}

/// Draws latency percentiles on an axis whose steps are 90 %, 99 %, 99.9 % and so on. A curve is dotted where fewer
/// than ten samples are above a point. `None` if no curve has samples.
pub(super) fn spectrum(id: &str, conditions: String, mut curves: Vec<Curve<'_>>) -> Option<Figure> {
    curves.retain(|c| c.histogram.count() > 0);
    let left_out = curves.len().saturating_sub(CURVES_MAX);
    curves.truncate(CURVES_MAX);
    let mut series = Vec::new();
    for (color, curve) in curves.iter().enumerate() {
        let h = &curve.histogram;
        let at = |q: f64| h.quantile_ns(q).map_or(f64::NAN, |ns| ns as f64);
        let all = quantiles(h.count());
        // Quantiles up to the median always have more samples above than below.
        let supported = |q: &&f64| {
            if **q > 0.5 { h.supports(**q) } else { (1.0 - **q) * h.count() as f64 >= 10.0 }
        };
        let solid: Vec<Point> =
            all.iter().filter(supported).map(|&q| Point::at(q, at(q))).collect();
        if curves.len() == 1 {
            series.push(band(curve, color, &all));
        }
        let mut rest: Vec<Point> = solid.last().cloned().into_iter().collect();
        let joined = rest.len();
        rest.extend(all.iter().filter(|q| !supported(q)).map(|&q| Point::at(q, at(q))));
        // The highest quantile is that of the last sample but one, or lower: the curve ends at the maximum.
        let last = all.last().map_or(f64::NAN, |&q| at(q));
        rest.extend(
            h.max_ns()
                .map(|ns| ns as f64)
                .filter(|&max| max > last)
                .map(|max| Point::at(1.0 - 0.5 / h.count() as f64, max)),
        );
        let line = |mark, points| Series { name: curve.name.clone(), mark, color, points };
        if !solid.is_empty() {
            series.push(line(Mark::Line, solid));
        }
        if rest.len() > joined {
            series.push(line(Mark::Dashed, rest));
        }
    }
    let worst = curves.first()?;
    let p = |q: f64| worst.histogram.supported_quantile_ns(q);
    let mut summary = match p(0.5) {
        Some(ns) => {
            let half = human::time_ns(ns as f64);
            format!("{}: half of the I/Os took {half} or less", worst.name)
        }
        None => format!("{}: too few I/Os for a percentile.", worst.name),
    };
    if let Some((q, ns)) =
        [0.99999, 0.9999, 0.999, 0.99].into_iter().find_map(|q| p(q).map(|ns| (q, ns)))
    {
        let percent = Quantity::Quantile.words(q);
        summary = format!("{summary}, {percent} took {} or less.", human::time_ns(ns as f64));
    }
    let mut notes = vec![
        "Dotted: fewer than ten samples lie beyond, so another run may differ considerably."
            .to_owned(),
    ];
    if curves.len() == 1 {
        notes
            .push(format!("The band is the 95 % interval of each percentile. It {COVERS}. Where it ends before the curve, its upper end is not known."));
    }
    if left_out > 0 {
        notes.push(left_out_note(left_out));
    }
    Some(Figure {
        id: id.to_owned(),
        title: "Latency by percentile".to_owned(),
        summary,
        conditions,
        shape: Shape::Plot(Plot {
            x: Axis {
                label: "percentile".to_owned(),
                quantity: Quantity::Quantile,
                scale: Scale::Nines,
                range: None,
            },
            panels: vec![Panel::new(Axis::log("latency", Quantity::LatencyNs), series)],
            spans: Vec::new(),
        }),
        notes,
    })
}

/// Draws the confidence interval of each percentile as a band. The intervals are widened if slow operations
/// are unevenly distributed over time.
fn band(curve: &Curve<'_>, color: usize, all: &[f64]) -> Series {
    let known = within(&curve.histogram, &curve.parts, all, LEVEL);
    let points = all.iter().zip(known).filter_map(|(&q, known)| {
        let known = known?;
        Some(Point {
            x: q,
            y: curve.histogram.quantile_ns(q)? as f64,
            interval: Some((known.low_ns? as f64, known.high_ns? as f64)),
            ..Point::default()
        })
    });
    Series { name: "95 % interval".to_owned(), mark: Mark::Band, color, points: points.collect() }
}

/// Quantiles to draw for `count` samples: the median, and values evenly spaced in nines up to the largest
/// that the samples support.
fn quantiles(count: u64) -> Vec<f64> {
    let nines = (count.max(1) as f64).log10();
    let last = (nines * f64::from(POINTS_A_NINE)).floor() as u32;
    let mut all: Vec<f64> =
        (0..=last).map(|i| 1.0 - 10_f64.powf(-f64::from(i) / f64::from(POINTS_A_NINE))).collect();
    if last >= MEDIAN_AT {
        all.insert(MEDIAN_AT as usize, 0.5);
    }
    all
}

/// Draws the histogram of response times on two logarithmic axes, and marks its modes.
pub(super) fn histogram(
    id: &str,
    conditions: String,
    mut curves: Vec<Curve<'_>>,
) -> Option<Figure> {
    curves.retain(|c| c.histogram.count() > 0);
    let left_out = curves.len().saturating_sub(CURVES_MAX);
    curves.truncate(CURVES_MAX);
    let mut series = Vec::new();
    let mut modes = Vec::new();
    let mut highest = 1;
    for (color, curve) in curves.iter().enumerate() {
        let bars = bars(&curve.histogram);
        highest = bars.iter().map(|bar| bar.1).fold(highest, u64::max);
        let found = peaks(&bars);
        modes.push((curve.name.clone(), found.clone()));
        // From empty bar to empty bar, so that both ends are visible.
        let before = bars.first().map(|&(ns, _)| Point::at(ns, 0.0));
        let points = before.into_iter().chain(bars.iter().map(|&(ns, n)| Point::at(ns, n as f64)));
        series.push(Series {
            name: curve.name.clone(),
            mark: Mark::Step,
            color,
            points: points.collect(),
        });
        if curves.len() <= 3 && found.len() > 1 {
            series.push(Series {
                name: format!("modes of {}", curve.name),
                mark: Mark::Dots,
                color,
                points: found
                    .iter()
                    .map(|&(ns, n)| Point { label: human::time_ns(ns), ..Point::at(ns, n as f64) })
                    .collect(),
            });
        }
    }
    let (name, found) = modes.first()?;
    let places: Vec<String> = found.iter().map(|m| human::time_ns(m.0)).collect();
    let summary = match places.as_slice() {
        [] => format!("{name}: no clear mode."),
        [one] => format!("{name}: one mode, at {one}."),
        several => format!("{name}: {} modes, at {}.", several.len(), several.join(", ")),
    };
    Some(Figure {
        id: id.to_owned(),
        title: "Histogram of latencies".to_owned(),
        summary,
        conditions,
        shape: Shape::Plot(Plot {
            x: Axis::log("latency", Quantity::LatencyNs),
            panels: vec![Panel::new(count_axis(highest), series)],
            spans: Vec::new(),
        }),
        notes: (left_out > 0).then(|| left_out_note(left_out)).into_iter().collect(),
    })
}

/// Axis for the counts of bars. It begins below 1, so that a bar of one I/O differs from an empty one.
fn count_axis(highest: u64) -> Axis {
    let unit = 10_f64.powf((highest as f64).log10().floor());
    let top = [1.0, 2.0, 5.0].map(|k| k * unit).into_iter().find(|top| *top >= highest as f64);
    Axis {
        range: Some((0.5, top.unwrap_or(10.0 * unit).max(2.0))),
        ..Axis::log("I/Os per bar (8 bars per doubling)", Quantity::Count)
    }
}

fn left_out_note(n: usize) -> String {
    match n {
        1 => "1 more curve is left out; the table of cells has it.".to_owned(),
        n => format!("{n} more curves are left out; the table of cells has them."),
    }
}

/// Lower edge and count of each histogram bar, from the smallest to the largest value, plus a final empty
/// bar. All bars have the same ratio of upper to lower edge.
fn bars(h: &Histogram) -> Vec<(f64, u64)> {
    let place = |ns: f64| (ns.max(1.0).log2() * BARS_AN_OCTAVE).floor() as i64;
    let edge = |i: i64| 2_f64.powf(i as f64 / BARS_AN_OCTAVE);
    let (Some(min), Some(max)) = (h.min_ns(), h.max_ns()) else { return Vec::new() };
    let (first, last) = (place(min as f64), place(max as f64));
    let mut counts = vec![0_u64; (last - first + 2) as usize];
    for bucket in h.buckets() {
        let at = place(bucket.middle_ns()).clamp(first, last) - first;
        counts[at as usize] += bucket.count;
    }
    (first..).map(edge).zip(counts).collect()
}

/// Finds prominent bars: the highest within half an octave, at least a thousandth of the highest of all, and
/// at least twice the lowest bar on the way to the next prominent one.
fn peaks(bars: &[(f64, u64)]) -> Vec<(f64, u64)> {
    let reach = (BARS_AN_OCTAVE / 2.0) as usize;
    let highest = bars.iter().map(|b| b.1).max().unwrap_or(0);
    let mut found: Vec<usize> = Vec::new();
    for i in 0..bars.len() {
        let n = bars[i].1;
        let around = &bars[i.saturating_sub(reach)..(i + reach + 1).min(bars.len())];
        let is_top = around.iter().all(|b| b.1 <= n) && n > 0 && n * 1000 >= highest;
        if !is_top {
            continue;
        }
        if let Some(&last) = found.last() {
            let valley = bars[last..=i].iter().map(|b| b.1).min().unwrap_or(0);
            let lower = bars[last].1.min(n);
            if valley * 2 > lower {
                if n > bars[last].1 {
                    *found.last_mut().expect("there is one") = i;
                }
                continue;
            }
        }
        found.push(i);
    }
    // The middle of the bar.
    let middle = 2_f64.powf(0.5 / BARS_AN_OCTAVE);
    found.into_iter().map(|i| (bars[i].0 * middle, bars[i].1)).collect()
}

/// Latency curves of several cells, one per cell and kind of operation, named after the cell.
pub(super) fn of_cells<'a>(run: &Run, cells: impl Iterator<Item = &'a Cell>) -> Vec<Curve<'a>> {
    cells.flat_map(|cell| curves(&labels::name(run, &cell.key), cell)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    #[test]
    fn bars_hold_every_sample_and_modes_are_found() {
        let mut h = Histogram::new();
        for i in 0..1000_u64 {
            h.record(90_000 + i * 10);
            h.record_n(4_000_000 + i * 300, 1 + u64::from(i % 100 == 0));
        }
        let bars = bars(&h);
        assert_eq!(bars.iter().map(|b| b.1).sum::<u64>(), h.count());
        let found: Vec<f64> = peaks(&bars).iter().map(|p| p.0 / 1e6).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!((0.08..0.11).contains(&found[0]) && (3.8..4.6).contains(&found[1]), "{found:?}");
    }

    /// A percentile curve is solid up to the last point with ten samples above it, and dotted from there to the last
    /// sample. No percentile is drawn that the samples do not determine.
    #[test]
    fn lines_are_solid_as_far_as_samples_go() {
        for count in [1_u64, 7, 10, 12, 19, 20, 100, 999, 1000, 5000, 100_000] {
            let mut histogram = Histogram::new();
            for i in 0..count {
                histogram.record(100_000 + i * 1000);
            }
            let slowest = histogram.max_ns().unwrap() as f64;
            let curve = Curve { name: "reads".to_owned(), histogram, parts: Vec::new() };
            let figure = spectrum("s", String::new(), vec![curve]).unwrap();
            let Shape::Plot(plot) = &figure.shape else { panic!("no plot") };
            let of = |mark| {
                let mine = plot.panels[0].series.iter().filter(move |s| s.mark == mark);
                mine.flat_map(|s| s.points.clone()).collect::<Vec<Point>>()
            };
            let (solid, dashed) = (of(Mark::Line), of(Mark::Dashed));
            // Number of samples whose rank is above that of the quantile.
            let above = |p: &Point| count - ((p.x * count as f64 - 1e-6).ceil() as u64);
            assert!(solid.iter().all(|p| above(p) >= 10), "{count}: {solid:?}");
            let joint = usize::from(!solid.is_empty() && !dashed.is_empty());
            if joint == 1 {
                assert_eq!(solid.last(), dashed.first(), "{count}");
            }
            // Fewer than ten samples lie above a dashed point, or ten if the quantile lies within the lowest of them.
            let beyond = |p: &Point| (1.0 - p.x) * count as f64;
            assert!(dashed[joint..].iter().all(|p| beyond(p) < 10.0 - 1e-6), "{count}: {dashed:?}");
            let drawn = solid.iter().chain(&dashed[joint.min(dashed.len())..]);
            let of_last = usize::from(dashed.last().is_some_and(|p| beyond(p) < 0.6));
            assert_eq!(drawn.clone().count(), quantiles(count).len() + of_last, "{count}");
            assert!(drawn.clone().all(|p| beyond(p) > 0.5 - 1e-6 && p.y <= slowest), "{count}");
            assert_eq!(
                drawn.clone().last().unwrap().y.total_cmp(&slowest),
                Ordering::Equal,
                "{count}"
            );
            assert_eq!(figure.summary.contains("half of the I/Os"), count >= 20, "{count}");
            assert!(!figure.summary.contains("took 0 "), "{}", figure.summary);
        }
    }

    /// One I/O in a bar is visible: its bar ends above the foot of the axis, where empty bars lie.
    #[test]
    fn a_bar_of_one_differs_from_an_empty_one() {
        for count in [1_u64, 2, 3, 10, 11, 5000, 1_000_000] {
            let mut histogram = Histogram::new();
            histogram.record_n(100_000, count);
            histogram.record(90_000_000);
            let curve = Curve { name: "reads".to_owned(), histogram, parts: Vec::new() };
            let figure = super::histogram("h", String::new(), vec![curve]).unwrap();
            let Shape::Plot(plot) = &figure.shape else { panic!("no plot") };
            let (low, high) = plot.panels[0].y.range.unwrap();
            assert!(low < 1.0 && high >= count as f64 && high <= 10.0 * count as f64, "{count}");
        }
    }

    #[test]
    fn quantiles_end_where_the_samples_do() {
        assert_eq!(quantiles(0), [0.0]);
        let q = quantiles(1000);
        assert_eq!(q.len(), 32);
        assert!((q[31] - 0.999).abs() < 1e-12 && (q[11] - 0.9).abs() < 1e-12);
        assert!((q[4] - 0.5).abs() < 1e-12 && q.is_sorted(), "{q:?}");
    }
}
