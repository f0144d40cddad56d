//! Formats the result of a fit as text for a terminal, as a page, and as a JSON document. Does no I/O.

use crate::interval::{Estimate, Known};
use crate::{
    Figure as Statistics, Fitted, Measured, Prediction, Statistic, are_printed, median_error,
};
use iodyno_page::document::{Headline, Verdict};
use iodyno_page::terminal::{Lines, Style, table};
use iodyno_page::{
    Axis, Block, Cell, Column, Document, Figure, Mark, Panel, Plot, Point, Quantity, Section,
    Series, Shape, Table, Tone,
};
use iodyno_units::{OpKind, human};
use serde_json::{Value, json};

/// Version of the JSON document's layout, written as the key `schema`.
pub const JSON_VERSION: u32 = 1;
/// Width of the column of labels in the terminal's text, in characters.
const LABEL: usize = 13;
/// Maximum number of differences between twin and measurement that the text lists.
const WORST_MAX: usize = 3;
/// Smallest difference that is listed, in standard errors.
const WORST_MIN: f64 = 3.0;

/// Names of the measured target and run, and of the devices that were tried, for display.
#[derive(Clone, Debug)]
pub struct About {
    /// Name of the measured target, or title of the file of published values.
    pub target: String,
    /// Id of the run; empty for published values.
    pub run: String,
    /// Name of the device that the fit started from.
    pub like: String,
    /// Names of the other devices that were tried, each with its misfit divided by the misfit of `like`.
    pub others: Vec<(String, f64)>,
    /// Path of the device file that was written; `None` if none was.
    pub file: Option<String>,
}

impl About {
    /// Source of the cells that the device was fitted to.
    fn source(&self) -> String {
        if self.run.is_empty() { "printed figures".to_owned() } else { format!("run {}", self.run) }
    }
}

fn signed(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

fn known(estimate: &Estimate, like: &str) -> String {
    match estimate.known {
        Known::Identified | Known::Roughly => {
            let rough = if estimate.known == Known::Roughly { "roughly; " } else { "" };
            format!("{rough}{}", estimate.from.join(", "))
        }
        Known::NotIdentified if estimate.is_of_device => format!("not identified: as {like}"),
        Known::NotIdentified => {
            "not identified: many values agree with the measurement, and this is one of them"
                .to_owned()
        }
    }
}

/// Table of the fitted parameters with their intervals.
fn parameters(fitted: &Fitted, like: &str) -> Table {
    let mut table = Table::new([
        Column::label("parameter"),
        Column::words("value"),
        Column::words("95 % interval"),
        Column::words("from cells").ranked(1),
    ]);
    "parameters of the twin".clone_into(&mut table.caption);
    for estimate in &fitted.estimates {
        let unit = estimate.parameter.unit;
        let (low, high) = estimate.interval;
        let interval = match estimate.known {
            Known::NotIdentified => Cell::none(),
            _ => Cell::words(format!("{} to {}", unit.human(low), unit.human(high))),
        };
        table.push([
            Cell::words(estimate.parameter.key),
            Cell::words(unit.human(estimate.value)),
            interval,
            Cell::words(known(estimate, like)),
        ]);
    }
    table
}

/// Table of the held-out cells: measured and predicted latencies.
fn held_out(predictions: &[Prediction]) -> Table {
    let mut table = Table::new([
        Column::label("held-out cell"),
        Column::label("figure"),
        Column::numbers("measured", "ns"),
        Column::numbers("predicted", "ns"),
        Column::numbers("error", ""),
        Column::numbers("of the nearest cell", "").short("nearest").ranked(1),
    ]);
    "mean and 99th percentile, or rate, of cells that the fit has not seen"
        .clone_into(&mut table.caption);
    let shown = |statistic: &Statistic| statistic.figure != Statistics::P50;
    for prediction in predictions.iter().filter(|prediction| shown(&prediction.of)) {
        let Statistic { kind, figure, value_ns, .. } = prediction.of;
        table.push([
            Cell::words(name(&prediction.cell)),
            Cell::words(figure_of(kind, figure)),
            value(figure, value_ns),
            value(figure, prediction.predicted_ns),
            share(prediction.error()),
            prediction.nearest_error().map_or_else(Cell::none, share),
        ]);
    }
    table
}

/// Table of the printed figures that the device was fitted to, beside those of the twin.
fn printed(fitted: &Fitted, cells: &[Measured]) -> Table {
    let mut table = Table::new([
        Column::label("printed figure"),
        Column::label("figure"),
        Column::numbers("printed", "ns"),
        Column::numbers("twin", "ns"),
        Column::numbers("error", ""),
    ]);
    "printed figures that the twin was fitted to".clone_into(&mut table.caption);
    for residual in &fitted.residuals {
        let Statistic { cell, kind, figure, value_ns, .. } = residual.of;
        let ratio = residual.log_ratio.exp();
        table.push([
            Cell::words(cells[cell].name.as_str()),
            Cell::words(figure_of(kind, figure)),
            value(figure, value_ns),
            value(figure, value_ns * ratio),
            share(figure.change(ratio)),
        ]);
    }
    table
}

fn share(error: f64) -> Cell {
    Cell::number(signed(error), error)
}

/// A latency, or a rate from the mean time between operations.
fn value(figure: Statistics, ns: f64) -> Cell {
    match figure {
        Statistics::Rate => Cell::words(format!("{}/s", human::count(1e9 / ns))),
        _ => Cell::of(Quantity::LatencyNs, Some(ns)),
    }
}

/// A figure in words, such as `read p99`. A rate covers all operations, so its words don't name a kind.
fn figure_of(kind: OpKind, figure: Statistics) -> String {
    match figure {
        Statistics::Rate => figure.name().to_owned(),
        _ => format!("{} {}", kind.name(), figure.name()),
    }
}

/// Name of a held-out cell without its prefix.
fn name(cell: &str) -> &str {
    cell.strip_prefix(crate::HELD_OUT).unwrap_or(cell)
}

/// Median prediction errors in words; `None` without held-out cells.
fn score(fitted: &Fitted) -> Option<String> {
    let (mean, nearest) = median_error(&fitted.held_out, Statistics::Mean)?;
    let p99 = median_error(&fitted.held_out, Statistics::P99);
    let p99 = p99.map_or(String::new(), |(p99, _)| format!(", p99 {:.1} %", p99 * 100.0));
    Some(format!(
        "median error of the mean latency {:.1} %{p99}; with the nearest measured cell as prediction: {:.0} %",
        mean * 100.0,
        nearest * 100.0
    ))
}

fn identified(fitted: &Fitted) -> String {
    let count =
        |known: Known| fitted.estimates.iter().filter(|estimate| estimate.known == known).count();
    let none = if fitted.estimates.iter().all(|of| of.known == Known::NotIdentified) {
        ": trust the twin only for workloads like these cells"
    } else {
        ""
    };
    format!(
        "{} of {} parameters known to within 5 %, {} roughly, {} not at all{none}",
        count(Known::Identified),
        fitted.estimates.len(),
        count(Known::Roughly),
        count(Known::NotIdentified)
    )
}

/// The largest differences between twin and measurement that chance does not explain, largest first.
fn worst(fitted: &Fitted, cells: &[Measured]) -> Vec<String> {
    let size = |residual: &crate::Residual| residual.log_ratio.abs() / residual.of.error;
    let mut all: Vec<_> = fitted.residuals.iter().filter(|r| size(r) > WORST_MIN).collect();
    all.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let words = |residual: &&crate::Residual| {
        let Statistic { cell, kind, figure, .. } = residual.of;
        format!(
            "{}, {}: the twin is {} off",
            cells[cell].name,
            figure_of(kind, figure),
            signed(figure.change(residual.log_ratio.exp()))
        )
    };
    all.iter().take(WORST_MAX).map(words).collect()
}

/// Why the fitted device can't be trusted; `None` if the residuals are small enough.
pub(crate) fn misfit(fitted: &Fitted, like: &str) -> Option<String> {
    fitted.is_misfit().then(|| {
        format!(
            "no device with the structure of {like} behaves as measured: differences are {:.0} times as large as chance explains",
            fitted.scale
        )
    })
}

/// Why the twin is not worth using; `None` if it is.
pub(crate) fn worthless(fitted: &Fitted) -> Option<String> {
    let (twin, nearest) = median_error(&fitted.held_out, Statistics::Mean)?;
    fitted.is_worthless().then(|| {
        format!(
            "the nearest measured cell predicts the held-out cells better ({:.0} % off) than the twin ({:.0} % off)",
            nearest * 100.0,
            twin * 100.0
        )
    })
}

/// Code of a fit whose differences chance does not explain.
const MISFIT_CODE: &str = "MISFIT";

/// Codes of the reasons not to use the twin, each with its explanation and remedy.
fn faults(fitted: &Fitted, about: &About) -> Vec<(&'static str, String)> {
    let remedy = if about.run.is_empty() {
        "Start from another device with --like. `iodyno explain` shows whether the host's threads limit a figure's rate"
    } else {
        "Start from another device with --like, or measure again, for longer, when machine and target are quiet"
    };
    let misfit = misfit(fitted, &about.like).map(|words| (MISFIT_CODE, words));
    let worthless = worthless(fitted).map(|words| ("WORTHLESS", words));
    let all = misfit.into_iter().chain(worthless);
    all.map(|(code, words)| (code, format!("{words}. {remedy}"))).collect()
}

/// Largest ratio of misfits, either way, at which two structures count as equally good.
const EQUAL: f64 = 1.25;

/// How well the other structures agree with the cells, compared with the chosen one; `None` if no other was tried.
fn others(about: &About) -> Option<String> {
    let of = |(name, ratio): &(String, f64)| match *ratio {
        ratio if ratio <= EQUAL => format!("{name} fits about as well"),
        ratio => format!("{name} fits {ratio:.1} times worse"),
    };
    (!about.others.is_empty()).then(|| {
        format!("{}; {}", about.like, about.others.iter().map(of).collect::<Vec<_>>().join("; "))
    })
}

fn combined(fitted: &Fitted) -> Vec<String> {
    fitted.combinations.iter().map(crate::Combination::words).collect()
}

/// Formats the result as text for a terminal.
#[must_use]
pub fn show(fitted: &Fitted, cells: &[Measured], about: &About, style: Style) -> String {
    let mut text = Lines::new(style);
    text.heading(&format!("a twin of {}", about.target), &format!("from {}", about.like));
    for line in table::lines(&parameters(fitted, &about.like), style) {
        text.line(&line);
    }
    text.blank();
    let printed = are_printed(cells).then(|| printed(fitted, cells));
    let held_out = (!fitted.held_out.is_empty()).then(|| held_out(&fitted.held_out));
    for table in printed.iter().chain(&held_out) {
        for line in table::lines(table, style) {
            text.line(&line);
        }
        text.blank();
    }
    if let Some(words) = others(about) {
        text.labelled("structure", LABEL, &words);
    }
    text.labelled("known", LABEL, &identified(fitted));
    for words in combined(fitted) {
        text.labelled("together", LABEL, &words);
    }
    if let Some(words) = score(fitted) {
        text.labelled("held out", LABEL, &words);
    }
    for words in worst(fitted, cells) {
        text.labelled("differs", LABEL, &words);
    }
    for (code, words) in faults(fitted, about) {
        text.labelled(code, LABEL, &words);
    }
    if let Some(file) = &about.file {
        text.labelled("written", LABEL, &format!("{file}; use it as model:{file} or live:{file}"));
    }
    text.end()
}

/// Plot of the measured and simulated mean latency of each cell.
fn figure(fitted: &Fitted, cells: &[Measured], about: &About) -> Figure {
    let means: Vec<(String, f64, f64)> = fitted
        .residuals
        .iter()
        .filter(|residual| residual.of.figure == Statistics::Mean)
        .map(|residual| {
            let Statistic { cell, kind, value_ns, .. } = residual.of;
            (label(&cells[cell].name, kind), value_ns, value_ns * residual.log_ratio.exp())
        })
        .chain(
            fitted
                .held_out
                .iter()
                .filter(|p| p.of.figure == Statistics::Mean)
                .map(|p| (label(&p.cell, p.of.kind), p.of.value_ns, p.predicted_ns)),
        )
        .collect();
    let series = |name: &str, color: usize, of: &dyn Fn(&(String, f64, f64)) -> f64| Series {
        name: name.to_owned(),
        mark: Mark::Dots,
        color,
        points: means.iter().enumerate().map(|(i, it)| Point::at(i as f64, of(it))).collect(),
    };
    let names = means.iter().map(|(name, _, _)| name.clone()).collect();
    let both = vec![series("measured", 0, &|it| it.1), series("twin", 1, &|it| it.2)];
    Figure {
        id: "cells".to_owned(),
        title: "Mean latency of each cell".to_owned(),
        summary: "Mean latency of each cell, measured and simulated on the twin.".to_owned(),
        conditions: format!("{}, {}", about.target, about.source()),
        shape: Shape::Plot(Plot {
            x: Axis::categories("cell", names),
            panels: vec![Panel::new(Axis::log("mean latency", Quantity::LatencyNs), both)],
            spans: Vec::new(),
        }),
        notes: vec![format!(
            "The fit does not use cells whose name begins with {}.",
            crate::HELD_OUT
        )],
    }
}

fn label(cell: &str, kind: OpKind) -> String {
    format!("{cell} {}", kind.name())
}

/// The result as a page. `made_by` is the program with its version, `command` the command line that ran the fit.
#[must_use]
pub fn document(
    fitted: &Fitted,
    cells: &[Measured],
    about: &About,
    made_by: &str,
    command: &str,
) -> Document {
    let mut first = Vec::new();
    if let Some((mean, _)) = median_error(&fitted.held_out, Statistics::Mean) {
        first.push(Block::Headlines(vec![Headline {
            name: "held-out cells".to_owned(),
            value: format!("{:.1} %", mean * 100.0),
            interval: "median error of the mean latency".to_owned(),
            beside: vec![identified(fitted)],
            tone: Tone::Plain,
        }]));
    }
    let verdict = |(code, text): (&str, String)| {
        let of = if code == MISFIT_CODE { worst(fitted, cells) } else { Vec::new() };
        Verdict { code: code.to_owned(), tone: Tone::Bad, text, of }
    };
    let verdicts: Vec<Verdict> = faults(fitted, about).into_iter().map(verdict).collect();
    if !verdicts.is_empty() {
        first.push(Block::Verdicts(verdicts));
    }
    first.push(Block::Figure(figure(fitted, cells, about)));
    let section = |id: &str, title: &str, blocks: Vec<Block>| Section {
        id: id.to_owned(),
        title: title.to_owned(),
        blocks,
        folded: false,
    };
    let mut known = vec![Block::Table(parameters(fitted, &about.like))];
    known.extend(
        combined(fitted)
            .into_iter()
            .map(|words| Block::Text(format!("Known only together: {words}"))),
    );
    let mut sections = vec![section("twin", "Measured and simulated", first)];
    if !fitted.held_out.is_empty() {
        sections.push(section(
            "held-out",
            "Predictions",
            vec![Block::Table(held_out(&fitted.held_out))],
        ));
    }
    sections.push(section("parameters", "Parameters", known));
    let command = Block::Code { caption: "Command".to_owned(), text: command.to_owned() };
    sections.push(section("reproduce", "Reproduce", vec![command]));
    Document {
        title: format!("Twin of {}", about.target),
        about: vec![
            about.source(),
            format!("structure of {}", others(about).unwrap_or_else(|| about.like.clone())),
        ],
        sections,
        made_by: made_by.to_owned(),
        ..Document::default()
    }
}

/// The result as JSON, layout version [`JSON_VERSION`].
#[must_use]
pub fn json(fitted: &Fitted, cells: &[Measured], about: &About) -> Value {
    let statistic = |of: &Statistic| json!({ "kind": of.kind.name(), "figure": of.figure.name(), "measured_ns": of.value_ns, "error": of.error });
    let estimates = fitted.estimates.iter().map(|estimate| {
        let known = match estimate.known {
            Known::Identified => "identified",
            Known::Roughly => "roughly",
            Known::NotIdentified => "not_identified",
        };
        json!({
            "key": estimate.parameter.key,
            "unit": estimate.parameter.unit.name(),
            "value": estimate.value,
            "low": estimate.interval.0,
            "high": estimate.interval.1,
            "start": estimate.start,
            "known": known,
            "as_like": estimate.is_of_device,
            "from": estimate.from,
        })
    });
    let combinations = fitted.combinations.iter().map(|combination| {
        let factors =
            combination.factors.iter().map(|(key, x)| json!({ "key": key, "exponent": x }));
        json!({ "factors": factors.collect::<Vec<_>>(), "half_width": combination.half_width })
    });
    let residuals = fitted.residuals.iter().map(|residual| {
        json!({ "cell": cells[residual.of.cell].name, "of": statistic(&residual.of), "log_ratio": residual.log_ratio })
    });
    let predictions = fitted.held_out.iter().map(|prediction| {
        json!({
            "cell": prediction.cell,
            "of": statistic(&prediction.of),
            "predicted_ns": prediction.predicted_ns,
            "nearest_ns": prediction.nearest_ns,
        })
    });
    let others =
        about.others.iter().map(|(like, ratio)| json!({ "like": like, "misfit_ratio": ratio }));
    json!({
        "schema": JSON_VERSION,
        "target": about.target,
        "run": about.run,
        "like": about.like,
        "others": others.collect::<Vec<_>>(),
        "file": about.file,
        "scale": fitted.scale,
        "misfit": fitted.is_misfit(),
        "worthless": fitted.is_worthless(),
        "parameters": estimates.collect::<Vec<_>>(),
        "combinations": combinations.collect::<Vec<_>>(),
        "residuals": residuals.collect::<Vec<_>>(),
        "held_out": predictions.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_page::csv;

    /// Errors are numbers, so that a page sorts them by value, and a spreadsheet reads them.
    #[test]
    fn errors_of_predictions_are_numbers() {
        let (kind, figure) = (OpKind::Read, Statistics::Mean);
        let of = Statistic { cell: 0, kind, figure, value_ns: 1000.0, error: 0.01 };
        let cell = "held-out-mix".to_owned();
        let table =
            held_out(&[Prediction { cell, of, predicted_ns: 875.0, nearest_ns: Some(1250.0) }]);
        assert!(table.columns.iter().all(|column| !column.title.is_empty()));
        let text = csv::table(&table);
        assert!(text.ends_with("\nmix,read mean,1000,875,-0.125,0.25\n"), "{text}");
    }
}
