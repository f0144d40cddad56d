//! A study as a document: each table and figure of the paper drawn with ours beside it, the differences
//! coloured, and, where somebody has one, the measurement of a real device over it.

use crate::basis::Basis;
use crate::outcome::{Nearer, Outcome};
use crate::series::{Axis as Along, Series as Line, series};
use crate::strata::{Spread, Stratum};
use crate::study::Wanted;
use crate::unit::Dimension;
use crate::{CellKey, Metric};
use iodyno_emulate::describe::Source;
use iodyno_page::document::{Headline, Verdict};
use iodyno_page::{
    Axis, Block, Cell as Field, Column, Document, Figure, Mark, Panel, Plot, Point, Quantity, Row,
    Scale, Section, Series, Shape, Table, Tone,
};
use iodyno_units::human;

/// Lines of one figure; more are not told apart.
const LINES_MAX: usize = 6;
/// Single figures in one picture.
const NAMES_MAX: usize = 40;

/// Cells that were measured on a real device, to be laid over the study's figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlay {
    /// What it is called in legends: the run and its target.
    pub name: String,
    /// Its cells.
    pub cells: Vec<Measured>,
}

/// One cell of an [`Overlay`], with what decides where it belongs and what it gave.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Share of reads, 0 to 1.
    pub read: f64,
    /// Addresses are drawn at random.
    pub random: bool,
    /// Bytes of one operation.
    pub block_bytes: u32,
    /// Threads of each target.
    pub threads: u32,
    /// Outstanding operations of each thread.
    pub depth: u32,
    /// Targets that worked at once.
    pub targets: u32,
    /// Operations a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Mean latency, ns.
    pub mean_ns: Option<f64>,
    /// 99th percentile, ns.
    pub p99_ns: Option<f64>,
}

/// The study as a document. `made_by` is program and version.
pub fn document(outcome: &Outcome<'_>, overlays: &[Overlay], made_by: &str) -> Document {
    let study = outcome.study;
    let mut sections = vec![result(outcome, overlays)];
    let all = series(study);
    let mut rest = all.as_slice();
    while let Some(first) = rest.first() {
        let same = |s: &&Line| s.panel == first.panel;
        let (of_panel, others) = rest.split_at(rest.iter().take_while(same).count());
        rest = others;
        let panel = &study.panels[first.panel];
        let mut blocks = Vec::new();
        let mut metrics = of_panel;
        while let Some(head) = metrics.first() {
            let count = metrics.iter().take_while(|s| s.metric == head.metric).count();
            let (lines, others) = metrics.split_at(count);
            metrics = others;
            blocks.extend(figure(outcome, lines, overlays).map(Block::Figure));
            blocks.push(Block::Table(table(outcome, lines)));
        }
        sections.push(Section {
            id: format!("panel-{}", first.panel + 1),
            title: if panel.title.is_empty() {
                panel.figure.clone()
            } else {
                format!("{}: {}", panel.figure, panel.title)
            },
            blocks,
            folded: false,
        });
    }
    sections.push(model(outcome));
    Document {
        title: study.title.clone(),
        about: vec![study.source.clone(), format!("iodyno study {}", study.name)],
        sections,
        made_by: made_by.to_owned(),
        ..Document::default()
    }
}

/// What it came to: how near, by what our figures are.
fn result(outcome: &Outcome<'_>, overlays: &[Overlay]) -> Section {
    let scored = |basis: Basis| {
        let rows = outcome.study.rows.iter().zip(&outcome.rows);
        rows.filter(move |(wanted, row)| {
            wanted.basis == basis && !row.flagged && row.score.is_some()
        })
    };
    let mut headlines = Vec::new();
    for (basis, what) in
        [(Basis::Predicted, "predicted"), (Basis::Derived, "derived"), (Basis::Fitted, "fitted")]
    {
        let errors: Vec<f64> =
            scored(basis).filter_map(|(_, row)| Some(row.score?.error)).collect();
        if errors.is_empty() {
            continue;
        }
        let spread = Spread::of(errors.iter().copied());
        let percent = |x: Option<f64>| x.map_or("–".to_owned(), |x| Quantity::Share.words(x));
        let better = scored(basis).filter(|(_, r)| r.nearer() == Some(Nearer::Ours)).count();
        let with_null =
            scored(basis).filter(|(_, r)| r.nearer().is_some_and(|n| n != Nearer::Equal)).count();
        headlines.push(Headline {
            name: format!("{what}: mean error"),
            value: percent(spread.mean),
            interval: format!("median {}, largest {}", percent(spread.median), percent(spread.max)),
            beside: vec![
                format!("{} printed figures", errors.len()),
                format!("nearer than the null model in {better} of {with_null}"),
            ],
            tone: Tone::Plain,
        });
    }
    let mut verdicts = vec![Verdict {
        code: "MODEL".to_owned(),
        tone: Tone::Note,
        text: "What stands here was simulated in virtual time; it says how near the model is to the print, and not that either is right.".to_owned(),
        of: Vec::new(),
    }];
    for figure in outcome.study.printed.iter().filter(|f| !f.flag.is_empty()) {
        let key = &figure.key;
        verdicts.push(Verdict {
            code: "NOT_SCORED".to_owned(),
            tone: Tone::Note,
            text: format!("{} {}: {}", figure.value, figure.unit.name(), figure.flag),
            of: vec![format!("{} {} {}", key.system, key.workload, key.metric)],
        });
    }
    let mut blocks = vec![
        Block::Headlines(headlines),
        Block::Verdicts(verdicts),
        Block::Table(strata(&outcome.strata)),
    ];
    if !overlays.is_empty() {
        let names: Vec<&str> = overlays.iter().map(|o| o.name.as_str()).collect();
        blocks.push(Block::Text(format!(
            "Laid over the figures: {}, where mix, block size, threads, depth and number of targets are those of the paper.",
            names.join("; ")
        )));
    }
    Section { id: "result".to_owned(), title: "Result".to_owned(), blocks, folded: false }
}

/// The quantity of a metric, whose values are in the program's own unit.
const fn quantity(metric: Metric) -> Quantity {
    match metric.unit().dimension() {
        Dimension::Rate => Quantity::Iops,
        Dimension::Throughput => Quantity::Throughput,
        Dimension::Time => Quantity::LatencyNs,
        Dimension::Number => Quantity::Ratio,
    }
}

/// A metric of a panel: our lines, and what is printed as dots.
fn figure(outcome: &Outcome<'_>, lines: &[Line], overlays: &[Overlay]) -> Option<Figure> {
    let first = lines.first()?;
    let quantity = quantity(first.metric);
    let id = format!("p{}-{}", first.panel + 1, first.metric.name().replace('_', "-"));
    let (x, panel) = if first.axis == Along::None {
        single(outcome, lines, quantity)
    } else {
        curves(outcome, lines, overlays, quantity)
    };
    let told = lines.iter().flat_map(|l| &l.rows).filter(|&&r| outcome.rows[r].score.is_some());
    let errors = told
        .filter(|&&r| !outcome.rows[r].flagged)
        .filter_map(|&r| Some(outcome.rows[r].score?.error));
    let spread = Spread::of(errors);
    let summary = match (spread.mean, spread.max) {
        (Some(mean), Some(max)) => format!(
            "Ours are off the printed figures by {} on average, by {} at most.",
            Quantity::Share.words(mean),
            Quantity::Share.words(max)
        ),
        _ => "Nothing is printed of this; ours are predictions.".to_owned(),
    };
    Some(Figure {
        id,
        title: capital(first.metric.title()),
        summary,
        conditions: format!(
            "{} · {} · simulated",
            outcome.study.name, outcome.study.panels[first.panel].figure
        ),
        shape: Shape::Plot(Plot { x, panels: vec![panel], spans: Vec::new() }),
        notes: Vec::new(),
    })
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// Our value of a row in the program's own unit.
fn ours(outcome: &Outcome<'_>, row: usize) -> Option<f64> {
    Some(outcome.rows[row].ours? * outcome.study.rows[row].unit.scale())
}

/// The printed value of a row in the program's own unit.
fn printed(outcome: &Outcome<'_>, row: usize) -> Option<f64> {
    let figure = outcome.printed(&outcome.study.rows[row])?;
    Some(figure.value * figure.unit.scale())
}

fn curves(
    outcome: &Outcome<'_>,
    lines: &[Line],
    overlays: &[Overlay],
    quantity: Quantity,
) -> (Axis, Panel) {
    let along = lines[0].axis;
    // What is printed is what a reader looks for.
    let mut order: Vec<&Line> = lines.iter().collect();
    order.sort_by_key(|l| !l.rows.iter().any(|&r| printed(outcome, r).is_some()));
    let mut all = Vec::new();
    for (color, line) in order.iter().take(LINES_MAX).enumerate() {
        let points = |of: &dyn Fn(usize) -> Option<f64>| -> Vec<Point> {
            line.x
                .iter()
                .zip(&line.rows)
                .filter_map(|(x, &row)| Some(Point::at(*x, of(row)?)))
                .collect()
        };
        let label = if line.label.is_empty() { "ours".to_owned() } else { line.label.clone() };
        all.push(Series {
            name: label.clone(),
            mark: Mark::Line,
            color,
            points: points(&|row| ours(outcome, row)),
        });
        let dots = points(&|row| printed(outcome, row));
        if !dots.is_empty() {
            all.push(Series {
                name: format!("{label}, printed"),
                mark: Mark::Dots,
                color,
                points: dots,
            });
        }
    }
    for (number, overlay) in overlays.iter().enumerate() {
        let mut seen: Vec<Point> = Vec::new();
        for line in lines {
            for (x, &row) in line.x.iter().zip(&line.rows) {
                let wanted = &outcome.study.rows[row];
                let found = overlay.cells.iter().find_map(|cell| measured(outcome, wanted, cell));
                if let Some(y) = found {
                    let point = Point::at(*x, y);
                    if !seen.contains(&point) {
                        seen.push(point);
                    }
                }
            }
        }
        seen.sort_by(|a, b| a.x.total_cmp(&b.x));
        if !seen.is_empty() {
            all.push(Series {
                name: overlay.name.clone(),
                mark: Mark::Dots,
                color: LINES_MAX + number,
                points: seen,
            });
        }
    }
    let values: Vec<f64> = all.iter().flat_map(|s| &s.points).map(|p| p.y).collect();
    let wide = |values: &[f64]| {
        let (low, high) =
            values.iter().fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(*v), h.max(*v)));
        low > 0.0 && high > low * 50.0
    };
    let places: Vec<f64> = all.iter().flat_map(|s| &s.points).map(|p| p.x).collect();
    let label = match along {
        Along::Devices => "devices",
        Along::Depth => "queue depth",
        Along::Think => "think time, µs",
        Along::Threads => "threads",
        Along::Block => "block size",
        Along::None => "",
    };
    let of_x = if along == Along::Block { Quantity::Bytes } else { Quantity::Count };
    let x = if wide(&places) || along == Along::Block {
        Axis::log(label, of_x)
    } else {
        Axis::from_zero(label, of_x)
    };
    let y_label = match quantity {
        Quantity::Iops => "IOPS",
        Quantity::Throughput => "throughput",
        Quantity::LatencyNs => "latency",
        _ => "ratio",
    };
    let y = if wide(&values) {
        Axis::log(y_label, quantity)
    } else {
        Axis::from_zero(y_label, quantity)
    };
    (x, Panel::new(y, all))
}

/// What a measured cell says of a row; None where it is not of it.
fn measured(outcome: &Outcome<'_>, wanted: &Wanted, cell: &Measured) -> Option<f64> {
    let at: &CellKey = wanted.at.as_ref()?;
    let workload = &outcome.study.workloads[at.workload];
    let over_depths = wanted.metric.is_some_and(Metric::over_depths);
    let same = (cell.read - workload.read).abs() < 0.005
        && cell.random == workload.random
        && cell.block_bytes == at.block_bytes
        && cell.targets == at.devices
        && at.think_ns == 0
        && (over_depths || (cell.threads * cell.depth == at.threads * at.depth));
    if !same || over_depths {
        return None;
    }
    match wanted.metric? {
        Metric::Iops | Metric::IopsSteady => Some(cell.iops),
        Metric::Bandwidth => Some(cell.bytes_per_s),
        Metric::LatencyMean => cell.mean_ns,
        Metric::LatencyP99 => cell.p99_ns,
        _ => None,
    }
}

/// Single figures, one below the other.
fn single(outcome: &Outcome<'_>, lines: &[Line], quantity: Quantity) -> (Axis, Panel) {
    let shown: Vec<(&str, usize)> = lines
        .iter()
        .filter_map(|l| Some((l.label.as_str(), *l.rows.first()?)))
        .filter(|(_, row)| ours(outcome, *row).is_some() || printed(outcome, *row).is_some())
        .take(NAMES_MAX)
        .collect();
    let dots = |name: &str, color, of: &dyn Fn(usize) -> Option<f64>| Series {
        name: name.to_owned(),
        mark: Mark::Dots,
        color,
        points: shown
            .iter()
            .enumerate()
            .filter_map(|(i, (_, row))| Some(Point::at(of(*row)?, i as f64)))
            .collect(),
    };
    let all = vec![
        dots("printed", 1, &|row| printed(outcome, row)),
        dots("ours", 0, &|row| ours(outcome, row)),
    ];
    let values: Vec<f64> = all.iter().flat_map(|s| &s.points).map(|p| p.x).collect();
    let (low, high) =
        values.iter().fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(*v), h.max(*v)));
    let label = match quantity {
        Quantity::Iops => "IOPS",
        Quantity::Throughput => "throughput",
        Quantity::LatencyNs => "latency",
        _ => "value",
    };
    let scale =
        if low > 0.0 && high > low * 20.0 { Scale::Log } else { Scale::Linear { zero: true } };
    let x = Axis { label: label.to_owned(), quantity, scale, range: None };
    let names = shown.iter().map(|(label, _)| (*label).to_owned()).collect();
    let mut panel = Panel::new(Axis::categories("", names), all);
    panel.height = (shown.len() as f64 / 10.0).clamp(0.35, 3.0);
    (x, panel)
}

/// Printed, ours and the difference, row by row.
fn table(outcome: &Outcome<'_>, lines: &[Line]) -> Table {
    let along = lines.first().map_or(Along::None, |l| l.axis);
    let mut columns = vec![Column::words("of")];
    if along != Along::None {
        columns.push(Column::numbers(along.name().unwrap_or("").replace('_', " "), ""));
    }
    columns.extend([
        Column::numbers("printed", ""),
        Column::numbers("ours", ""),
        Column::words("ours is"),
        Column::numbers("difference", "share"),
        Column::numbers("outside the print", "share"),
        Column::numbers("null model, outside", "share"),
    ]);
    let mut rows = Vec::new();
    for line in lines {
        for (x, &index) in line.x.iter().zip(&line.rows) {
            let mut cells = vec![Field::words(line.label.clone())];
            if along != Along::None {
                let text =
                    if along == Along::Block { human::size(*x as u64) } else { format!("{x}") };
                cells.push(Field::number(text, *x));
            }
            cells.extend(compared(outcome, index));
            rows.push(Row::from(cells));
        }
    }
    Table {
        caption: lines.first().map_or(String::new(), |l| capital(l.metric.title())),
        columns,
        rows,
        notes: vec!["Differences are relative to the print; “outside” is the part beyond its rounding, or on the wrong side of ≥ and ≤. The null model is one device × n, one thread × n, time-sharing, or no change by think time.".to_owned()],
    }
}

fn compared(outcome: &Outcome<'_>, index: usize) -> Vec<Field> {
    let (wanted, row) = (&outcome.study.rows[index], &outcome.rows[index]);
    let quantity = wanted.metric.map_or(Quantity::Ratio, quantity);
    let print = outcome.printed(wanted).map_or_else(Field::none, |figure| {
        let value = figure.value * figure.unit.scale();
        let relation = match figure.relation.symbol() {
            "=" => String::new(),
            symbol => format!("{symbol} "),
        };
        let field = Field::number(format!("{relation}{}", quantity.words(value)), value);
        if row.flagged {
            Field { note: format!("can't be right: {}{}", figure.flag, figure.note), ..field }
                .toned(Tone::Warning)
        } else {
            field
        }
    });
    let value =
        ours(outcome, index).map_or_else(Field::none, |v| Field::number(quantity.words(v), v));
    let change = |share: f64| Field::number(Quantity::Change.words(share), share);
    let (error, outside) = match row.score {
        Some(score) => {
            let tone = match row.nearer() {
                _ if row.flagged => Tone::Dim,
                _ if score.outside.abs() <= 0.0 => Tone::Good,
                Some(Nearer::Null) => Tone::Warning,
                _ => Tone::Plain,
            };
            let error = Field {
                heat: (!row.flagged).then_some(score.error.abs().min(0.2) / 0.2),
                ..change(score.error)
            };
            (error, change(score.outside).toned(tone))
        }
        None => (Field::none(), Field::none()),
    };
    let null = row
        .null
        .and_then(|n| n.score)
        .map_or_else(Field::none, |s| change(s.outside).toned(Tone::Dim));
    vec![print, value, Field::words(wanted.basis.name()).toned(Tone::Dim), error, outside, null]
}

/// The errors by strata.
fn strata(strata: &[Stratum]) -> Table {
    let percent =
        |x: Option<f64>| x.map_or_else(Field::none, |x| Field::number(Quantity::Share.words(x), x));
    let mut basis = None;
    let mut rows = Vec::new();
    for s in strata {
        if basis != Some(s.basis) {
            basis = Some(s.basis);
            rows.push(Row { cells: vec![Field::words(s.basis.name())], is_heading: true });
        }
        rows.push(Row::from(vec![
            Field::words(format!(
                "{} {}{}",
                s.workload,
                s.metric,
                if s.several_devices { ", several devices" } else { "" }
            )),
            Field::number(s.rows.to_string(), s.rows as f64),
            Field::number(s.within.to_string(), s.within as f64),
            percent(s.error.mean),
            percent(s.error.median),
            percent(s.error.max),
            percent(s.outside.mean),
            percent(s.null_outside.mean),
            Field::words(if s.with_null > 0 {
                format!("{} of {}", s.better, s.with_null)
            } else {
                String::new()
            }),
        ]));
    }
    Table {
        caption: "Errors by strata".to_owned(),
        columns: vec![
            Column::words("of"),
            Column::numbers("figures", ""),
            Column::numbers("within the print", ""),
            Column::numbers("mean error", "share"),
            Column::numbers("median", "share"),
            Column::numbers("largest", "share"),
            Column::numbers("outside, mean", "share"),
            Column::numbers("null model, outside", "share"),
            Column::words("nearer than the null model"),
        ],
        rows,
        notes: Vec::new(),
    }
}

/// What the model is made of, and how it was run.
fn model(outcome: &Outcome<'_>) -> Section {
    let study = outcome.study;
    let systems = study.systems.iter().map(|bench| {
        let options =
            if bench.options.is_empty() { String::new() } else { format!(", {}", bench.options) };
        let note = if bench.note.is_empty() { String::new() } else { format!("; {}", bench.note) };
        (bench.name.clone(), format!("{} in {}{options}{note}", bench.device.name, bench.host_name))
    });
    let parameters = Source::ALL
        .into_iter()
        .map(|source| (source.name().to_owned(), outcome.parameters(source).to_string()));
    let mut how = vec![
        ("cells".to_owned(), outcome.cells.to_string()),
        ("operations simulated".to_owned(), human::count(outcome.simulated as f64)),
        (
            "largest standard error of a rate".to_owned(),
            Quantity::Share.words(outcome.rate_error_max),
        ),
        (
            "largest standard error of a mean latency".to_owned(),
            Quantity::Share.words(outcome.latency_error_max),
        ),
    ];
    if let (cells @ 1.., steady) = outcome.in_rounds {
        how.push((
            "cells in rounds by SNIA's specification".to_owned(),
            format!("{cells}, {steady} of them steady"),
        ));
    }
    Section {
        id: "model".to_owned(),
        title: "The model".to_owned(),
        blocks: vec![Block::Facts(vec![
            ("Systems".to_owned(), systems.collect()),
            (
                format!("Parameters by source; {} figures are printed", study.printed.len()),
                parameters.collect(),
            ),
            ("How it was run".to_owned(), how),
        ])],
        folded: false,
    }
}
