//! Charts of latency over time. Each workload of a figure of the paper has a chart with all systems. The charts of one
//! figure share a logarithmic axis.

use crate::outcome::{Outcome, TimeLine};
use crate::over_time::OverTime;
use iodyno_page::{Axis, Figure, Mark, Panel, Plot, Point, Quantity, Scale, Series, Shape};

/// Factor by which an axis extends beyond the extreme values.
const ROOM: f64 = 1.25;

/// Draws the cells of a panel over time; empty if the panel is not plotted over time.
pub(super) fn figures(outcome: &Outcome<'_>, panel: usize) -> Vec<Figure> {
    let study = outcome.study;
    let lines: Vec<&TimeLine> =
        outcome.over_time.iter().filter(|line| line.panel == panel).collect();
    let finite = |line: &&TimeLine| {
        let of = &line.over_time;
        let all: Vec<f64> = of.median_ns.iter().chain(&of.longest_ns).copied().collect();
        all
    };
    let all = lines.iter().flat_map(finite).filter(|ns| ns.is_finite());
    let (low, high) = all.fold((f64::INFINITY, 0.0_f64), |(l, h), ns| (l.min(ns), h.max(ns)));
    let mut points: Vec<(usize, u32, u32)> =
        lines.iter().map(|line| (line.at.workload, line.at.threads, line.at.depth)).collect();
    points.sort_unstable();
    points.dedup();
    let several = points.len() > study.workloads.len();
    let figure = |&point: &(usize, u32, u32)| {
        let (workload, threads, depth) = point;
        let of_point =
            |line: &&&TimeLine| (line.at.workload, line.at.threads, line.at.depth) == point;
        let drawn = |of: &dyn Fn(&OverTime) -> &Vec<f64>| -> Vec<Series> {
            lines
                .iter()
                .filter(of_point)
                .enumerate()
                .map(|(color, line)| {
                    let points = steps(of(&line.over_time), line.over_time.interval_ns);
                    let name = study.systems[line.at.system].name.clone();
                    Series { name, mark: Mark::Step, color, points }
                })
                .collect()
        };
        let axis = |label: &str| Axis {
            label: label.to_owned(),
            quantity: Quantity::LatencyNs,
            scale: Scale::Log,
            range: Some((low / ROOM, high * ROOM)).filter(|(low, high)| 0.0 < *low && low < high),
        };
        let name = &study.workloads[workload].name;
        let demand = if several { format!(", T{threads}Q{depth}") } else { String::new() };
        Figure {
            id: format!("p{}-over-time-{}-{threads}-{depth}", panel + 1, workload + 1),
            title: format!("Latency over time: {name}{demand}"),
            summary: "For each interval, the longest latency (above) and the median (below). All systems and workloads share one latency axis.".to_owned(),
            conditions: format!("{} · {} · simulated", study.name, study.panels[panel].figure),
            shape: Shape::Plot(Plot {
                x: Axis::from_zero("time", Quantity::Seconds),
                panels: vec![
                    Panel::new(axis("longest latency"), drawn(&|of| &of.longest_ns)),
                    Panel::new(axis("median latency"), drawn(&|of| &of.median_ns)),
                ],
                spans: Vec::new(),
            }),
            notes: Vec::new(),
        }
    };
    points.iter().map(figure).collect()
}

/// Points of a step line: the value of each interval at its start, and that of the last also at its end. NaN leaves a
/// gap.
fn steps(values_ns: &[f64], interval_ns: u64) -> Vec<Point> {
    let edges_s = (0..).map(|i| (i * interval_ns) as f64 * 1e-9);
    edges_s.zip(values_ns.iter().chain(values_ns.last())).map(|(x, y)| Point::at(x, *y)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each value holds from a point to the next, also beside an interval without completions.
    #[test]
    fn a_step_spans_its_interval() {
        let points = steps(&[1e6, f64::NAN, 3e6], 500_000_000);
        let of = |of: fn(&Point) -> f64| points.iter().map(of).collect::<Vec<_>>();
        assert_eq!(of(|point| point.x), [0.0, 0.5, 1.0, 1.5]);
        assert!(points[1].y.is_nan());
        assert_eq!(of(|point| point.y.max(0.0)), [1e6, 0.0, 3e6, 3e6]);
        assert!(steps(&[], 1).is_empty());
    }
}
