//! Box plots of latency by number of threads: quartiles as bands around the median, and the 99th percentile. A second
//! chart ends at 10 ms to magnify short latencies.

use super::figures::ours;
use crate::Metric;
use crate::outcome::Outcome;
use crate::series::{Axis as Along, Series as Line};
use iodyno_page::{Axis, Figure, Mark, Panel, Plot, Point, Quantity, Scale, Series, Shape};

/// Upper end of the latency axis in the magnified chart, ns.
const ZOOM_NS: f64 = 10e6;

/// Draws latency quartiles over the number of threads in two charts, one of them magnified. Empty if the
/// panel has no such quartiles.
pub(super) fn boxes(outcome: &Outcome<'_>, lines: &[Line]) -> Vec<Figure> {
    let of = |metric: Metric| {
        lines.iter().filter(move |line| line.metric == metric && line.axis == Along::Threads)
    };
    let Some(first) = of(Metric::LatencyP50).next() else { return Vec::new() };
    let (mut bands, mut marks) = (Vec::new(), Vec::new());
    for (color, median) in of(Metric::LatencyP50).enumerate() {
        let values = |metric: Metric| -> Option<Vec<f64>> {
            let line = of(metric).find(|line| line.label == median.label)?;
            Some(line.rows.iter().map(|&row| ours(outcome, row).unwrap_or(f64::NAN)).collect())
        };
        let (Some(low), Some(mid), Some(high), Some(tail)) = (
            values(Metric::LatencyP25),
            values(Metric::LatencyP50),
            values(Metric::LatencyP75),
            values(Metric::LatencyP99),
        ) else {
            continue;
        };
        let point = |i: usize, y: f64| Point::at(median.x[i], y);
        let all = |of: &[f64]| of.iter().enumerate().map(|(i, &y)| point(i, y)).collect();
        let quartiles = (0..mid.len())
            .map(|i| Point { interval: Some((low[i], high[i])), ..point(i, mid[i]) })
            .collect();
        let name = &median.label;
        let series = |name: String, mark, points| Series { name, mark, color, points };
        bands.push(series(format!("{name}, quartiles"), Mark::Band, quartiles));
        marks.push(series(format!("{name}, median"), Mark::Line, all(&mid)));
        marks.push(series(format!("{name}, p99"), Mark::Dashed, all(&tail)));
    }
    bands.extend(marks);
    let figure = |id: &str, title: &str, summary: &str, y: Axis, series: Vec<Series>| Figure {
        id: format!("p{}-{id}", first.panel + 1),
        title: title.to_owned(),
        summary: summary.to_owned(),
        conditions: format!(
            "{} · {} · simulated",
            outcome.study.name, outcome.study.panels[first.panel].figure
        ),
        shape: Shape::Plot(Plot {
            x: Axis::log("threads", Quantity::Count),
            panels: vec![Panel::new(y, series)],
            spans: Vec::new(),
        }),
        notes: Vec::new(),
    };
    let scale = Scale::Linear { zero: true };
    let zoomed = Axis {
        label: "latency".to_owned(),
        quantity: Quantity::LatencyNs,
        scale,
        range: Some((0.0, ZOOM_NS)),
    };
    vec![
        figure(
            "spread",
            "Latency by threads",
            "Half of the operations lie within the band.",
            Axis::log("latency", Quantity::LatencyNs),
            bands.clone(),
        ),
        figure(
            "spread-10ms",
            "Latency by threads, up to 10 ms",
            "Half of the operations lie within the band; latencies above 10 ms are not drawn.",
            zoomed,
            bands.into_iter().map(below).collect(),
        ),
    ]
}

/// Removes points above [`ZOOM_NS`], and cuts intervals off there.
fn below(mut series: Series) -> Series {
    series.points.retain(|point| point.y <= ZOOM_NS);
    for point in &mut series.points {
        point.interval = point.interval.map(|(low, high)| (low, high.min(ZOOM_NS)));
    }
    series
}
