//! A series: one workload over hours, by what was written since the start and by time.

use super::distribution::{self, of_cells};
use super::method::Stage;
use super::{cells, grid, words};
use iodyno_measure::statistics::drift::Steadiness;
use iodyno_measure::statistics::steady::Progress;
use iodyno_method::findings::SeriesFinding;
use iodyno_page::figure::Span;
use iodyno_page::{Axis, Block, Figure, Mark, Panel, Plot, Point, Quantity, Series, Shape, Tone};
use iodyno_units::human;

/// Samples from which on their own course is drawn, rather than that of the intervals within them.
const SAMPLES_MIN: usize = 5;

/// What a series showed.
pub(super) fn blocks(stage: &Stage<'_>, series: &SeriesFinding) -> Vec<Block> {
    let mut blocks = Vec::new();
    if series.samples.len() >= SAMPLES_MIN {
        blocks.extend(course(stage, series).map(Block::Figure));
    } else {
        let mut courses = cells::course(stage.run, &stage.cells);
        for figure in &mut courses {
            figure.id = format!("{}-{}", stage.id, figure.id);
        }
        blocks.extend(courses.into_iter().map(Block::Figure));
    }
    blocks.push(Block::Text(said(series)));
    let of_end: Vec<_> = match stage.cells.as_slice() {
        [] => Vec::new(),
        [one] => of_cells(stage.run, std::iter::once(*one)),
        [first, .., last] => {
            let mut both = distribution::curves("first sample", first);
            both.extend(distribution::curves("last sample", last));
            both
        }
    };
    let mut figure =
        distribution::spectrum(&format!("{}-percentiles", stage.id), stage.line(), of_end);
    if let Some(figure) = &mut figure
        && stage.cells.len() > 1
    {
        figure.title = stage.titled("Latency by percentile: first and last sample");
    }
    blocks.extend(figure.map(Block::Figure));
    let rows = [(vec!["first".to_owned()], &series.first), (vec!["end".to_owned()], &series.end)];
    let rows = &rows[..if series.samples.len() > 1 { 2 } else { 1 }];
    let mut table = grid::table_of(&["sample".to_owned()], rows);
    "The first sample, and the last fifth of them".clone_into(&mut table.caption);
    blocks.push(Block::Table(table));
    blocks
}

/// Throughput and latency over what was written, or over time where that is not known.
fn course(stage: &Stage<'_>, series: &SeriesFinding) -> Option<Figure> {
    let samples = &series.samples;
    let last = samples.last()?;
    let by_fills = last.fills.is_some_and(|f| f > 0.0);
    let x =
        |i: usize| if by_fills { samples[i].fills.unwrap_or(f64::NAN) } else { samples[i].at_s };
    let line = |name: &str, color, of: &dyn Fn(usize) -> Option<f64>| Series {
        name: name.to_owned(),
        mark: Mark::Line,
        color,
        points: (0..samples.len()).map(|i| Point::at(x(i), of(i).unwrap_or(f64::NAN))).collect(),
    };
    let rate = line("IOPS", 0, &|i| Some(samples[i].iops));
    let mut latencies = vec![
        line("mean", 1, &|i| samples[i].mean_ns),
        line("p99.999", 2, &|i| samples[i].p99_999_ns),
        line("max", 3, &|i| samples[i].max_ns),
    ];
    latencies.retain(|s| s.points.iter().any(|p| p.y.is_finite()));
    let axis = if by_fills {
        Axis::from_zero("written since the start, drive fills", Quantity::Ratio)
    } else {
        Axis::from_zero("time", Quantity::Seconds)
    };
    let tail = (samples.len() / 5).max(10).min(samples.len());
    let end = Span {
        from: x(samples.len() - tail),
        to: x(samples.len() - 1),
        name: "end".to_owned(),
        tone: Tone::Good,
    };
    let first = samples.first()?.iops;
    let at_end = series.end.iops.unwrap_or(last.iops);
    Some(Figure {
        id: format!("{}-course", stage.id),
        title: stage.titled(if by_fills { "Write saturation" } else { "Course" }),
        summary: format!(
            "{} IOPS in the first sample, {} at the end, after {}.",
            human::count(first),
            human::count(at_end),
            if by_fills {
                format!("{} drive fills", human::three_digits(last.fills.unwrap_or_default()))
            } else {
                human::duration_ns((last.at_s * 1e9) as u64)
            }
        ),
        conditions: stage.line(),
        shape: Shape::Plot(Plot {
            x: axis,
            panels: vec![
                Panel::new(Axis::from_zero("IOPS", Quantity::Iops), vec![rate]),
                Panel::new(Axis::log("latency", Quantity::LatencyNs), latencies),
            ],
            spans: vec![end],
        }),
        notes: Vec::new(),
    })
}

/// Our own verdict on the rate, and stalls.
fn said(series: &SeriesFinding) -> String {
    let mut words: Vec<String> = Vec::new();
    if let Some(steady) = &series.steady {
        let progress = match steady.progress {
            Progress::Reached => "the steady state was reached",
            Progress::NotReached => "the steady state was NOT REACHED",
            Progress::Running => "no steady state before it ended",
        };
        words.push(format!("By the specification's rule: {progress}."));
    }
    if let Some(drift) = &series.drift {
        let trend = match (drift.share_per_hour, drift.interval) {
            (Some(share), Some(i)) => format!(
                " ({} an hour, 95 %: {} to {})",
                Quantity::Change.words(share),
                Quantity::Change.words(i.low),
                Quantity::Change.words(i.high)
            ),
            _ => String::new(),
        };
        let verdict = match drift.steadiness {
            Steadiness::Steady => "the rate is steady",
            Steadiness::Drifting => "the rate drifts",
            Steadiness::Oscillating { .. } => "the rate swings",
            Steadiness::TooShort { .. } => "too short to tell whether the rate is steady",
            Steadiness::Inconclusive { .. } => "the rate is not shown to be steady",
        };
        words.push(format!("Our own verdict: {verdict}{trend}."));
    }
    let stalls = &series.stalls;
    words.push(match stalls.count {
        0 => format!(
            "No stall (an interval of {} with less than a tenth of the usual).",
            words::time(Some(stalls.interval_s * 1e9)).text
        ),
        n => format!(
            "{n} stalls, the longest {}.",
            human::duration_ns((stalls.longest_s * 1e9) as u64)
        ),
    });
    words.join(" ")
}
