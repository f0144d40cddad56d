//! Sections of a comparison: its result, the shifts of all metrics, and the curves of both sides on the same axes.

use super::distribution::{Curve, spectrum};
use super::labels;
use super::stage::{KIND_MARKS, kind_nine, nine};
use crate::compare::{
    Compared, Covers, Finding, OF_TERMINAL, Row as Shifted, figure_table, verdict,
};
use crate::kinds::plural;
use crate::point_figures;
use iodyno_measure::{CellKey, Histogram, Level, Quantity as Of};
use iodyno_method::findings::{Row as PointRow, Showed};
use iodyno_notebook::Run;
use iodyno_page::document::{Headline, Verdict};
use iodyno_page::figure::{Rule, Span};
use iodyno_page::{
    Axis, Block, Cell as Field, Column, Figure, Mark, Panel, Plot, Point, Quantity, Row, Scale,
    Section, Series, Shape, Table, Tone,
};
use iodyno_units::{OpKind, human};
use std::collections::BTreeMap;

/// Maximum number of rows in a forest plot: more are unreadable.
const FOREST_MAX: usize = 40;
/// Maximum number of cells whose distributions are drawn.
const DRAWN_MAX: usize = 6;

pub(super) fn sections(compared: &Compared<'_>, sides: [&[Run]; 2]) -> Vec<Section> {
    let mut result = vec![
        Block::Text(said(compared)),
        Block::Headlines(counts(compared)),
        Block::Verdicts(remarks(compared)),
    ];
    let forest = forests(compared);
    result.extend(forest.into_iter().map(Block::Figure));
    let mut sections = vec![Section {
        id: "result".to_owned(),
        title: "Result".to_owned(),
        blocks: result,
        folded: false,
    }];
    let dots: Vec<Figure> = dots(compared);
    sections.extend(super::figures("runs", "Variation between runs", dots));
    sections.extend(super::figures(
        "overlay",
        "Distributions of both sides",
        overlays(compared, sides),
    ));
    let figures = figure_table(compared).selected(|_, c| !OF_TERMINAL.contains(&&*c.title));
    let mut rows = vec![Block::Table(figures)];
    if !compared.omissions.is_empty() {
        rows.push(Block::Table(omitted(compared)));
    }
    sections.push(Section {
        id: "cells".to_owned(),
        title: "All figures".to_owned(),
        blocks: rows,
        folded: false,
    });
    sections.push(Section {
        id: "conditions".to_owned(),
        title: "What differed".to_owned(),
        blocks: vec![conditions(compared)],
        folded: false,
    });
    sections
}

/// Numbers a section's title and ids, so that they are unique in a report with several comparisons.
pub(super) fn number(section: &mut Section, number: usize, asked: &str) {
    section.id = format!("{}-{number}", section.id);
    section.title = format!("{}: {asked}", section.title);
    for block in &mut section.blocks {
        if let Block::Figure(figure) = block {
            figure.id = format!("{}-{number}", figure.id);
        }
    }
}

/// Maximum number of runs whose load curves are drawn.
const LOADS_MAX: usize = 8;

/// Draws the load curves of all runs on the same axes: the median latency, and p99 as a dotted line. A run that mixes
/// reads and writes has one curve of p99 per kind of operation instead.
pub(super) fn loads(runs: &[&Run]) -> Vec<Figure> {
    let (mut series, mut drawn) = (Vec::new(), 0);
    for run in runs {
        let Some(findings) = crate::method::findings_of(run) else { continue };
        let tables =
            findings.subjects.iter().flat_map(|s| &s.stages).filter_map(|s| match &s.showed {
                Some(Showed::Sweep(sweep)) if sweep.load.is_some() => Some(&sweep.table),
                _ => None,
            });
        for table in tables {
            let color = drawn;
            if color >= LOADS_MAX {
                break;
            }
            let apart = table.kinds_apart();
            let mut line = |name: &str, mark, of: &dyn Fn(&PointRow) -> Option<f64>| {
                let points = table.rows.iter().filter_map(|row| {
                    Some(Point {
                        label: match mark {
                            Mark::Line => point_figures::oio(row),
                            _ => String::new(),
                        },
                        ..Point::at(row.iops?, of(row)?)
                    })
                });
                series.push(Series {
                    name: format!("{}, {} {name}", run.head.name, labels::targets(run)),
                    mark,
                    color,
                    points: points.collect(),
                });
            };
            if apart.is_empty() {
                line("p50", Mark::Line, &|row| nine(row, 0));
                line("p99", Mark::Dashed, &|row| nine(row, 1));
            }
            for (&kind, mark) in apart.iter().zip(KIND_MARKS) {
                let name = format!("p99 of {}", plural(kind));
                line(&name, mark, &|row| kind_nine(row, kind, 1));
            }
            drawn += 1;
        }
    }
    if drawn < 2 {
        return Vec::new();
    }
    let mut panel = Panel::new(Axis::log("latency", Quantity::LatencyNs), series);
    panel.height = 1.4;
    vec![Figure {
        id: "loads".to_owned(),
        title: "Latency and throughput under load".to_owned(),
        summary: "The load curve of each run that has one.".to_owned(),
        conditions: runs
            .iter()
            .take(LOADS_MAX)
            .map(|run| format!("run {} on {}", run.id, labels::targets(run)))
            .collect::<Vec<_>>()
            .join(" · "),
        shape: Shape::Plot(Plot {
            x: Axis::from_zero("IOPS reached", Quantity::Iops),
            panels: vec![panel],
            spans: Vec::new(),
        }),
        notes: vec!["Numbers at the points: outstanding I/Os (OIO).".to_owned()],
    }]
}

/// Summarises the result of the comparison in a few sentences.
fn said(compared: &Compared<'_>) -> String {
    let words = match compared.finding() {
        Finding::Slower => "At least one figure is slower.",
        Finding::Open => "No figure was found to be slower, but some could not be judged.",
        Finding::Clear => "All figures are the same or faster.",
    };
    let [a, b] = &compared.sides;
    let runs = |n: usize| if n == 1 { "1 run".to_owned() } else { format!("{n} runs") };
    format!(
        "{words} B is {} ({}), A is {} ({}). Shifts of {} or more count; on average, at most {} of the reported shifts are false. A figure is the same if the {} interval of its shift lies within the threshold.",
        labels::side(b),
        runs(b.runs.len()),
        labels::side(a),
        runs(a.runs.len()),
        Quantity::Share.words(compared.criteria.threshold_share),
        Quantity::Share.words(compared.criteria.alpha),
        human::percent(compared.criteria.same_level(), 0),
    )
}

fn counts(compared: &Compared<'_>) -> Vec<Headline> {
    let names = [
        ("slower", Tone::Bad),
        ("faster", Tone::Good),
        ("same", Tone::Plain),
        ("not decided", Tone::Note),
    ];
    let each = names.into_iter().zip(compared.counts()).map(|((name, tone), n)| Headline {
        name: name.to_owned(),
        value: n.to_string(),
        beside: vec![format!("of {} figures", compared.rows.len())],
        tone: if n == 0 { Tone::Plain } else { tone },
        ..Headline::default()
    });
    each.collect()
}

fn remarks(compared: &Compared<'_>) -> Vec<Verdict> {
    let mut all: Vec<Verdict> = compared
        .remarks
        .iter()
        .map(|r| Verdict {
            code: r.code.clone(),
            tone: labels::tone(r.level),
            text: r.text.clone(),
            of: Vec::new(),
        })
        .collect();
    let lost = compared.omissions.iter().filter(|o| o.is_loss).count();
    if lost > 0 {
        all.push(Verdict {
            code: "NOT_COMPARED".to_owned(),
            tone: labels::tone(Level::Warning),
            text: format!(
                "{} could not be compared; the table of all figures gives the reasons",
                human::counted(lost as u64, "figure")
            ),
            of: Vec::new(),
        });
    }
    all
}

/// Label of a row: the name of its cell in B, and its metric.
fn name(row: &Shifted) -> String {
    format!("{} {}", row.b_key.name, row.metric)
}

/// Draws forest plots: the shift of each metric with its confidence interval, and the band of shifts below
/// the threshold.
fn forests(compared: &Compared<'_>) -> Vec<Figure> {
    let rows = &compared.rows[..compared.rows.len().min(FOREST_MAX)];
    if rows.is_empty() {
        return Vec::new();
    }
    let kinds = [
        ("worse", "slower", Mark::Worse),
        ("better", "faster", Mark::Better),
        ("same", "same", Mark::Interval),
        ("inconclusive", "inconclusive", Mark::Undecided),
        ("too few runs", "too few runs", Mark::Undecided),
    ];
    let series = kinds.into_iter().map(|(name, word, mark)| {
        let points =
            rows.iter().enumerate().filter(|(_, r)| verdict(r).0 == word).map(|(i, r)| Point {
                interval: r.comparison.interval.map(|c| (c.low, c.high)),
                ..Point::at(r.comparison.shift_share, i as f64)
            });
        Series { name: name.to_owned(), mark, color: 0, points: points.collect() }
    });
    let series = series.filter(|s| !s.points.is_empty()).collect();
    let threshold = compared.criteria.threshold_share;
    let mut panel = Panel::new(Axis::categories("", rows.iter().map(name).collect()), series);
    panel.rules.push(Rule { at: 0.0, upright: true, name: String::new(), tone: Tone::Plain });
    panel.height = (rows.len() as f64 / 8.0).clamp(0.5, 4.0);
    let mut notes = vec![format!(
        "Shift from A to B (the median ratio of a value of B to one of A, over all pairs, minus 1) with its 95 % interval. Shifts between the lines at ± {} do not matter. Higher is better for rates, lower for latencies.",
        Quantity::Share.words(threshold)
    )];
    if compared.rows.len() > FOREST_MAX {
        notes.push(format!("The first {FOREST_MAX} of {} figures.", compared.rows.len()));
    }
    vec![Figure {
        id: "shifts".to_owned(),
        title: "Shift from A to B".to_owned(),
        summary: said(compared),
        conditions: sides_line(compared),
        shape: Shape::Plot(Plot {
            x: Axis {
                label: "shift".to_owned(),
                quantity: Quantity::Change,
                scale: Scale::Linear { zero: false },
                range: None,
            },
            panels: vec![panel],
            spans: vec![Span {
                from: -threshold,
                to: threshold,
                name: "does not matter".to_owned(),
                tone: Tone::Dim,
            }],
        }),
        notes,
    }]
}

fn sides_line(compared: &Compared<'_>) -> String {
    let side = |i: usize| {
        let side = &compared.sides[i];
        let ids = side.runs.iter().take(3).copied().collect::<Vec<_>>().join(", ");
        let more = side.runs.len().saturating_sub(3);
        if more > 0 { format!("{ids} and {more} more") } else { ids }
    };
    format!("A: {} · B: {}", side(0), side(1))
}

/// Range of a dot plot's axis for values from `low` to `high`, with a margin; never below 0.
fn ends(low: f64, high: f64) -> (f64, f64) {
    let margin = ((high - low) * 0.1).max(high.abs() * 0.001);
    ((low - margin).max(0.0), high + margin)
}

/// Explains what a dot represents. Also notes that the axis does not begin at 0 if its first value, `from`, is above 0.
fn dot_in_words(covers: Covers, from: f64) -> String {
    let dot = match covers {
        Covers::Runs => "One dot per run.",
        Covers::Repeats => "One dot per repeat of the cell within one run.",
        Covers::Nothing => "One value per side.",
    };
    let cut = if from > 0.0 { " The axis does not begin at 0." } else { "" };
    format!("{dot}{cut}")
}

/// Draws the values of each compared metric as dots, one row of dots per side.
fn dots(compared: &Compared<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    let rows = compared.rows.iter().filter(|r| r.a.len() + r.b.len() > 2).take(DRAWN_MAX * 2);
    for (number, row) in rows.enumerate() {
        let quantity = match row.metric.quantity {
            Of::Iops => Quantity::Iops,
            Of::Bandwidth => Quantity::Throughput,
            _ => Quantity::LatencyNs,
        };
        let side = |values: &[f64], at: f64, color: usize, name: &str| Series {
            name: name.to_owned(),
            mark: Mark::Dots,
            color,
            points: values.iter().map(|v| Point::at(*v, at)).collect(),
        };
        let (low, high) = row
            .a
            .iter()
            .chain(&row.b)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
        let (from, to) = ends(low, high);
        let mut panel = Panel::new(
            Axis::categories("", vec!["A".to_owned(), "B".to_owned()]),
            vec![side(&row.a, 0.0, 0, "A"), side(&row.b, 1.0, 1, "B")],
        );
        panel.height = 0.4;
        let (word, _) = verdict(row);
        figures.push(Figure {
            id: format!("dots-{}", number + 1),
            title: format!("{}: {word}", name(row)),
            summary: format!(
                "Median {} of A, {} of B; shift {}.",
                quantity.words(row.comparison.median_a),
                quantity.words(row.comparison.median_b),
                Quantity::Change.words(row.comparison.shift_share)
            ),
            conditions: sides_line(compared),
            shape: Shape::Plot(Plot {
                x: Axis {
                    label: row.metric.to_string(),
                    quantity,
                    scale: Scale::Linear { zero: false },
                    range: Some((from, to)),
                },
                panels: vec![panel],
                spans: Vec::new(),
            }),
            notes: vec![dot_in_words(row.covers, from)],
        });
    }
    figures
}

/// Draws the percentile curves of A and B on the same axes, one figure per pair of compared cells.
fn overlays(compared: &Compared<'_>, sides: [&[Run]; 2]) -> Vec<Figure> {
    let mut seen: Vec<CellKey> = Vec::new();
    let mut figures = Vec::new();
    for row in &compared.rows {
        let key = row.b_key.coordinates();
        if seen.contains(&key) || figures.len() >= DRAWN_MAX {
            continue;
        }
        seen.push(key);
        let curves_of = |name: &str, runs: &[Run], key: &CellKey| {
            let mut kinds = BTreeMap::<OpKind, Histogram>::new();
            let wanted = key.coordinates();
            for cell in runs.iter().flat_map(|r| &r.cells).filter(|c| c.key.coordinates() == wanted)
            {
                for (kind, stats) in cell.total().iter().filter(|(_, stats)| stats.ops() > 0) {
                    kinds.entry(kind).or_default().merge(stats.response_time());
                }
            }
            let is_one = kinds.len() == 1;
            let curves = kinds.into_iter().map(|(kind, histogram)| {
                let name =
                    if is_one { name.to_owned() } else { format!("{name}, {}", kind.name()) };
                Curve { name, histogram, parts: Vec::new() }
            });
            curves.collect::<Vec<_>>()
        };
        let mut curves = curves_of("A", sides[0], &row.a_key);
        curves.extend(curves_of("B", sides[1], &row.b_key));
        let id = format!("overlay-{}", figures.len() + 1);
        if let Some(mut figure) = spectrum(&id, sides_line(compared), curves) {
            figure.title = format!("{}: latency by percentile", row.b_key.name);
            figures.push(figure);
        }
    }
    figures
}

fn omitted(compared: &Compared<'_>) -> Table {
    let rows = compared.omissions.iter().map(|o| {
        Row::from(vec![
            Field::words(o.key.name.clone()),
            Field::words(o.side),
            Field::words(o.metric.map_or("the whole cell".to_owned(), |m| m.to_string())),
            Field::words(o.why.clone()).toned(if o.is_loss { Tone::Warning } else { Tone::Dim }),
        ])
    });
    Table {
        caption: "What was not compared".to_owned(),
        columns: ["cell", "side", "figure", "why"].map(Column::words).to_vec(),
        rows: rows.collect(),
        notes: Vec::new(),
    }
}

/// Lists the test conditions that differ, since they are other possible causes of the difference.
fn conditions(compared: &Compared<'_>) -> Block {
    if compared.conditions.is_empty() {
        let [a, b] = compared.sides.each_ref().map(|side| &side.targets);
        let except = if a == b { "" } else { " except the targets" };
        return Block::Text(format!("No recorded condition differs{except}."));
    }
    let rows = compared.conditions.iter().map(|c| {
        Row::from(vec![
            Field::words(c.what.clone()),
            Field::words(c.a.join(", ")),
            Field::words(c.b.join(", ")),
            Field::words(if c.cells.is_empty() { "all".to_owned() } else { c.cells.join(", ") }),
        ])
    });
    Block::Table(Table {
        caption: "Conditions that differ".to_owned(),
        columns: ["condition", "A", "B", "cells"].map(Column::words).to_vec(),
        rows: rows.collect(),
        notes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A dot plot has a note about its cut-off axis if, and only if, the axis does not begin at 0.
    #[test]
    fn an_axis_of_dots_is_said_to_be_cut_off_where_it_is() {
        for (low, high, is_cut) in [(1.0, 100.0, false), (90.0, 100.0, true), (5.0, 5.0, true)] {
            let (from, to) = ends(low, high);
            assert!((0.0..=low).contains(&from) && to > high);
            let words = dot_in_words(Covers::Runs, from);
            assert_eq!(words.contains("does not begin at 0"), is_cut, "{low} to {high}: {words}");
        }
    }
}
