//! Sections for a series (one workload measured over hours): charts over bytes written since the start, and over time.

use super::distribution::{self, of_cells};
use super::stage::Stage;
use super::{cells, grid, labels, time};
use crate::kinds::plural;
use crate::method_headlines;
use iodyno_measure::statistics::drift::Steadiness;
use iodyno_measure::statistics::steady::Progress;
use iodyno_measure::{Histogram, KindSummary, Level, Quantity as Of, Role, Summary};
use iodyno_method::findings::{SeriesFinding, Showed, Subject, kinds_apart};
use iodyno_notebook::Run;
use iodyno_page::figure::Span;
use iodyno_page::{
    Axis, Block, Figure, Mark, Panel, Plot, Point, Quantity, Section, Series, Shape, Tone,
};
use iodyno_units::human;

/// Minimum number of samples for curves with one point per sample. With fewer samples, each point is a
/// measurement interval.
const SAMPLES_MIN: usize = 5;

/// Draws the charts and the table of a series of samples.
pub(super) fn blocks(stage: &Stage<'_>, series: &SeriesFinding) -> Vec<Block> {
    let mut blocks = Vec::new();
    if series.samples.len() >= SAMPLES_MIN {
        blocks.extend(course(stage, series).map(Block::Figure));
    } else {
        blocks.extend(cells::courses_of(stage, &stage.cells));
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
    let apart = kinds_apart(rows.iter().map(|(_, row)| *row));
    let mut table = grid::table_of(&["sample".to_owned()], rows, &apart);
    table.caption = match series.samples.len() {
        0 | 1 => "The sample".to_owned(),
        all => {
            let window = if is_steady(series) { " (steady-state window)" } else { "" };
            format!("The first sample, and the last {} of {all}{window}", series.end_samples)
        }
    };
    blocks.push(Block::Table(table));
    blocks
}

/// Section that draws all series of a subject (one target, or all together) on one time axis, to show the transitions
/// between them. None if there is only one series.
pub(super) fn one_after_the_other(
    run: &Run,
    run_level: Option<Level>,
    number: usize,
    subject: &Subject,
    of: &str,
) -> Option<Section> {
    let stages: Vec<(&str, &SeriesFinding)> = subject
        .stages
        .iter()
        .filter_map(|stage| match &stage.showed {
            Some(Showed::Series(series)) if !series.samples.is_empty() => {
                Some((stage.name.as_str(), series))
            }
            _ => None,
        })
        .collect();
    if stages.len() < 2 {
        return None;
    }
    let mut spans = Vec::new();
    let (mut rate, mut mean, mut max) = (Vec::new(), Vec::new(), Vec::new());
    let mut from = 0.0;
    for (name, series) in &stages {
        for sample in &series.samples {
            let x = from + sample.at_s;
            rate.push(Point::at(x, sample.bytes_per_s));
            mean.push(Point::at(x, sample.mean_ns.unwrap_or(f64::NAN)));
            max.push(Point::at(x, sample.max_ns.unwrap_or(f64::NAN)));
        }
        let to = from + series.samples.last().map_or(0.0, |s| s.at_s);
        spans.push(Span { from, to, name: (*name).to_owned(), tone: Tone::Plain });
        from = to;
    }
    let line = |name: &str, color, points| Series {
        name: name.to_owned(),
        mark: Mark::Line,
        color,
        points,
    };
    let said: Vec<String> = stages
        .iter()
        .filter_map(|(name, s)| Some(format!("{name} {}", human::throughput(s.end.bytes_per_s?))))
        .collect();
    let measured = run.cells.iter().filter(|c| {
        c.key
            .place
            .as_ref()
            .is_some_and(|p| p.subject as usize == number && p.role == Role::Measure)
    });
    let figure = Figure {
        id: format!("course-{}", number + 1),
        title: format!("All stages, one after the other{of}"),
        summary: format!("Throughput at the end of each stage: {}.", said.join(", ")),
        conditions: labels::line_of(run, run_level, measured),
        shape: Shape::Plot(Plot {
            x: Axis::from_zero("time, without pauses between stages", Quantity::Seconds),
            panels: vec![
                Panel::new(
                    Axis::from_zero("throughput", Quantity::Throughput),
                    vec![line("throughput", 0, rate)],
                ),
                Panel::new(
                    Axis::log("latency", Quantity::LatencyNs),
                    vec![line("mean", 1, mean), line("max", 3, max)],
                ),
            ],
            spans,
        }),
        notes: vec![
            "Shown as throughput, so that stages of different block sizes can be compared."
                .to_owned(),
        ],
    };
    Some(Section {
        id: format!("stages-{}", number + 1),
        title: format!("All stages{of}"),
        blocks: vec![Block::Figure(figure)],
        folded: false,
    })
}

/// Whether the end of a series is its steady-state window.
fn is_steady(series: &SeriesFinding) -> bool {
    series.steady.as_ref().is_some_and(|steady| steady.progress == Progress::Reached)
}

/// Draws throughput and latency over the bytes written, or over time if the bytes are unknown.
fn course(stage: &Stage<'_>, series: &SeriesFinding) -> Option<Figure> {
    let samples = &series.samples;
    let last = samples.last()?;
    // Over bytes written if a specification waits for saturation; otherwise over time.
    let by_fills = series.steady.is_some() && last.fills.is_some_and(|f| f > 0.0);
    let x =
        |i: usize| if by_fills { samples[i].fills.unwrap_or(f64::NAN) } else { samples[i].at_s };
    let line = |name: &str, color, of: &dyn Fn(usize) -> Option<f64>| Series {
        name: name.to_owned(),
        mark: Mark::Line,
        color,
        points: (0..samples.len()).map(|i| Point::at(x(i), of(i).unwrap_or(f64::NAN))).collect(),
    };
    // For large operations throughput is more relevant.
    let is_large = method_headlines::is_large(&series.first, &[]);
    let (label, quantity) =
        if is_large { ("throughput", Quantity::Throughput) } else { ("IOPS", Quantity::Iops) };
    let of_sample = |i: usize| if is_large { samples[i].bytes_per_s } else { samples[i].iops };
    let rate = line(label, 0, &|i| Some(of_sample(i)));
    // A heat map of all I/Os of each sample, if every sample has its cell: lines hide rare I/Os.
    let histograms: Vec<Histogram> =
        stage.cells.iter().map(|cell| cell.total().response_time()).collect();
    let has_all = histograms.len() == samples.len();
    let latencies = latencies(stage, series, &histograms, &line);
    let edges: Vec<f64> = std::iter::once(0.0).chain((0..samples.len()).map(x)).collect();
    let all: Vec<Option<&Histogram>> = histograms.iter().map(Some).collect();
    let rises = edges.windows(2).all(|e| e[0] < e[1]);
    let heat = if has_all && rises { time::heat_map(&all, &edges) } else { None };
    let axis = if by_fills {
        Axis::from_zero("data written since the start, in full drive writes", Quantity::Ratio)
    } else {
        Axis::from_zero("time", Quantity::Seconds)
    };
    // A sample is drawn at its end, so the last samples begin at the end of the one before them.
    let before = samples.len().saturating_sub(series.end_samples);
    let end = Span {
        from: if before == 0 { 0.0 } else { x(before - 1) },
        to: x(samples.len() - 1),
        name: if is_steady(series) { "steady-state window" } else { "end" }.to_owned(),
        tone: Tone::Good,
    };
    let mut latency = Panel::new(Axis::log("latency", Quantity::LatencyNs), latencies);
    // The map has whole rows, so the axis must, too.
    latency.y.range = heat.as_ref().and_then(|m| Some((*m.y_edges.first()?, *m.y_edges.last()?)));
    let is_mapped = heat.is_some();
    latency.heat = heat;
    let end_rate = if is_large { series.end.bytes_per_s } else { series.end.iops };
    let unit = if is_large { "" } else { " IOPS" };
    Some(Figure {
        id: format!("{}-course", stage.id),
        title: stage.titled(if by_fills { "Write saturation" } else { "Course" }),
        summary: format!(
            "{}{unit} in the first sample, {} at the end, after {}.",
            quantity.words(of_sample(0)),
            quantity.words(end_rate.unwrap_or_else(|| of_sample(samples.len() - 1))),
            if by_fills {
                format!("{} drive fills", human::three_digits(last.fills.unwrap_or_default()))
            } else {
                human::duration_ns((last.at_s * 1e9) as u64)
            }
        ),
        conditions: stage.line(),
        shape: Shape::Plot(Plot {
            x: axis,
            panels: vec![Panel::new(Axis::from_zero(label, quantity), vec![rate]), latency],
            spans: vec![end],
        }),
        notes: if is_mapped {
            vec!["Colours show the number of I/Os of all kinds on a logarithmic scale, so that rare latencies are visible.".to_owned()]
        } else {
            Vec::new()
        },
    })
}

/// Function that makes a line from its name, its colour, and a function from a sample's index to its value.
type MakeLine<'a> = dyn Fn(&str, usize, &dyn Fn(usize) -> Option<f64>) -> Series + 'a;

/// Returns the latency lines: over all I/Os, or one set per kind of operation.
fn latencies(
    stage: &Stage<'_>,
    series: &SeriesFinding,
    histograms: &[Histogram],
    line: &MakeLine<'_>,
) -> Vec<Series> {
    let samples = &series.samples;
    let has_all = histograms.len() == samples.len();
    let kinds = kinds_apart([&series.first, &series.end].into_iter());
    let mut latencies = vec![line("max", 6, &|i| samples[i].max_ns)];
    if kinds.is_empty() {
        latencies.insert(0, line("mean", 4, &|i| samples[i].mean_ns));
        latencies.insert(1, line("p99.999", 5, &|i| samples[i].p99_999_ns));
    }
    if has_all && !kinds.is_empty() {
        let each: Vec<Vec<KindSummary>> =
            stage.cells.iter().map(|cell| Summary::of(cell).kinds).collect();
        for (number, &kind) in kinds.iter().enumerate() {
            for (q, name, mark) in [(0.99, "p99", Mark::Line), (0.5, "p50", Mark::Dashed)] {
                let of = |i: usize| {
                    let of = each[i].iter().find(|of| of.kind == kind)?;
                    of.response_time.get(Of::Quantile(q))
                };
                let name = format!("{name} of {}", plural(kind));
                latencies.push(Series { mark, ..line(&name, number + 1, &of) });
            }
        }
    } else if has_all {
        let quantile = |q: f64| {
            let of = histograms;
            move |i: usize| of[i].supported_quantile_ns(q).map(|ns| ns as f64)
        };
        latencies.insert(1, line("p50", time::P50, &quantile(0.5)));
        latencies.insert(2, line("p99", time::P99, &quantile(0.99)));
    }
    latencies.retain(|s| s.points.iter().any(|p| p.y.is_finite()));
    latencies
}

/// Describes the steady state by the specification's rule, and iodyno's own verdicts on drift and stalls.
fn said(series: &SeriesFinding) -> String {
    let mut words: Vec<String> = Vec::new();
    if let Some(steady) = &series.steady {
        let progress = match steady.progress {
            Progress::Reached => "the steady state was reached",
            Progress::NotReached => "the steady state was NOT REACHED",
            Progress::Running => "the run ended before a steady state",
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
            Steadiness::TooShort { .. } => {
                "measured for too short a time to tell whether the rate is steady"
            }
            Steadiness::Inconclusive { .. } => "the rate may or may not be steady",
        };
        words.push(format!("Our own verdict: {verdict}{trend}."));
    }
    let stalls = &series.stalls;
    words.push(match stalls.count {
        0 => format!(
            "No stall (an interval of {} with less than a tenth of the usual throughput).",
            labels::time(Some(stalls.interval_s * 1e9)).text
        ),
        1 => format!("1 stall of {}.", human::duration_ns((stalls.longest_s * 1e9) as u64)),
        n => format!(
            "{n} stalls, the longest {}.",
            human::duration_ns((stalls.longest_s * 1e9) as u64)
        ),
    });
    words.join(" ")
}
