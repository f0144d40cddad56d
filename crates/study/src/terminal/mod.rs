//! Formats a study for the terminal, for comparison with the paper. Tables have the paper's columns; below each
//! published value are the simulated value, its error, and the error of the baseline (null model).

mod number;

use crate::conclusion::{self, Verdict};
use crate::metric::Recipe;
use crate::null::NullModel;
use crate::outcome::Outcome;
use crate::provenance::Provenance;
use crate::row::Row;
use crate::series::{Axis, Series, series};
use crate::strata_table;
use crate::wanted::Wanted;
use iodyno_emulate::describe::Source;
use iodyno_page::terminal::Style;
use iodyno_page::terminal::table::{self, PartRows};
use iodyno_page::terminal::text::{self, Role, hanging, pad, paint, paragraph, wrap};
use iodyno_page::{Cell, Column, Table, Tone};
use iodyno_units::human;
use number::Scale;
use std::collections::BTreeSet;

/// Minimum width of the tables. On a narrower terminal, lines are longer than the terminal.
const COLUMNS_MIN: usize = 60;

/// Removes control characters from a text that comes from a file. Does not shorten it.
fn clean(text: &str, style: Style) -> String {
    text::clean(text, usize::MAX, style)
}

/// Formats a completed study as text. Lines end with a line feed and have no trailing blanks.
pub fn show(outcome: &Outcome<'_>, style: Style) -> String {
    let style = Style { width: style.width.max(COLUMNS_MIN), ..style };
    let mut lines = head(outcome, style);
    let all = series(outcome.study);
    let mut rest = all.as_slice();
    let mut panel = None;
    while let Some(first) = rest.first() {
        let same = |s: &&Series| s.panel == first.panel && s.metric == first.metric;
        let (table, others) = rest.split_at(rest.iter().take_while(same).count());
        rest = others;
        if panel != Some(first.panel) {
            panel = Some(first.panel);
            let of = &outcome.study.panels[first.panel];
            lines.push(String::new());
            lines.push(paint(&clean(&of.figure, style), Role::Bold, style));
            lines.extend(wrap(&clean(&of.title, style), style.columns()));
        }
        lines.extend(metric(outcome, table, style));
        if rest.first().is_none_or(|next| next.panel != first.panel) {
            lines.extend(spikes(outcome, first.panel, style));
        }
    }
    lines.extend(inputs(outcome, style));
    lines.extend(flags(outcome, style));
    lines.push(String::new());
    let strata = strata_table::table(&outcome.strata);
    lines.push(paint(&strata.caption, Role::Bold, style));
    lines.extend(table::in_parts(&strata, PartRows::Known, style));
    lines.extend(strata.notes.iter().flat_map(|note| paragraph(note, Role::Dim, style)));
    lines.push(String::new());
    let simulated = format!(
        "{} cells, {} operations simulated; the largest standard error of a rate is {:.2} %, of a \
         mean latency {:.2} %",
        outcome.cells,
        human::whole(outcome.simulated),
        outcome.rate_error_max * 100.0,
        outcome.latency_error_max * 100.0
    );
    lines.extend(paragraph(&simulated, Role::Dim, style));
    if let (cells @ 1.., steady) = outcome.in_rounds {
        let rounds = format!(
            "{cells} cells were measured in rounds by SNIA's specification; {steady} were steady, after {} \
             rounds at most",
            outcome.rounds_max
        );
        lines.extend(paragraph(&rounds, Role::Dim, style));
    }
    if let (cells @ 1.., shown) = outcome.of_spans {
        let spans = format!(
            "{cells} cells represent longer runs; {shown} of them ended when they were proven stationary, \
             without a trend"
        );
        lines.extend(paragraph(&spans, Role::Dim, style));
    }
    let mut out = String::new();
    for line in lines {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Heading: title of the paper, number of model parameters, and a legend.
fn head(outcome: &Outcome<'_>, style: Style) -> Vec<String> {
    let study = outcome.study;
    let mut lines = vec![
        paint(&clean(&study.title, style), Role::Bold, style),
        paint(&clean(&study.source, style), Role::Dim, style),
        String::new(),
    ];
    lines.extend(conclusions(outcome, style));
    let mut note = |label: &str, text: &str| {
        lines.extend(hanging(&pad(label, LABEL, false), LABEL, &clean(text, style), style));
    };
    let many = study.systems.len() > SYSTEMS_MAX;
    for bench in study.systems.iter().filter(|_| !many) {
        let options =
            if bench.options.is_empty() { String::new() } else { format!(", {}", bench.options) };
        let more = if bench.note.is_empty() { String::new() } else { format!("; {}", bench.note) };
        note(
            "system",
            &format!("{} in {}{options}{more}", bench.device_or_array(), bench.host_name),
        );
    }
    if many {
        let hosts: BTreeSet<&str> = study.systems.iter().map(|b| b.host_name.as_str()).collect();
        let devices: BTreeSet<&str> =
            study.systems.iter().map(|b| b.device.name.as_str()).collect();
        let join = |all: BTreeSet<&str>| all.into_iter().collect::<Vec<_>>().join(", ");
        let count = study.systems.len();
        note("systems", &format!("{count}, of {} in {}", join(devices), join(hosts)));
    }
    let free = outcome.parameters(Source::Fitted);
    let others: Vec<String> = Source::ALL
        .into_iter()
        .filter(|source| *source != Source::Fitted)
        .map(|source| format!("{} {}", outcome.parameters(source), source.name()))
        .collect();
    note(
        "model",
        &format!(
            "{} for {} printed figures; other parameters: {}",
            human::counted(free as u64, "fitted parameter"),
            study.printed.len(),
            others.join(", ")
        ),
    );
    let arrays = if study.members.is_empty() {
        ""
    } else {
        " For arrays, the null model is members × n with the textbook's write penalties, capped by the bandwidth of the links."
    };
    let legend = "after our figures: i input (taken from the paper), f fitted (a parameter was chosen to match it), \
         d derived from these; all others are predicted. Errors are relative to the printed figure. `outside` is the \
         part of the error beyond the figure's rounding; on the valid side of a bound (`>=` or `<=`), the part beyond a \
         tenth of the bound. `null` is the same for the null model: one device × n, one thread × n, time-sharing of \
         pure reads and writes, or no effect of think time. ! marks figures that can't be right: not scored.";
    let is_data_sheet = |row: &Row| row.null.is_some_and(|null| null.model == NullModel::DataSheet);
    let alone = if outcome.rows.iter().any(is_data_sheet) {
        " For one device, the null model is the data sheet."
    } else {
        ""
    };
    note("to read", &format!("{legend}{arrays}{alone}"));
    lines
}

/// Lists the paper's conclusions with their verdicts and the simulated values.
fn conclusions(outcome: &Outcome<'_>, style: Style) -> Vec<String> {
    let found = &outcome.conclusions;
    if found.is_empty() {
        return Vec::new();
    }
    let title = format!("The paper's conclusions: {}", conclusion::summary(found));
    let mut lines = paragraph(&title, Role::Bold, style);
    for finding in found {
        let role = match finding.verdict {
            Verdict::Holds => Role::Green,
            Verdict::DoesNotHold => Role::Yellow,
            Verdict::Untestable => Role::Dim,
        };
        let start = format!("  {}", pad(finding.verdict.name(), VERDICT, false));
        let says = clean(&finding.conclusion.says, style);
        lines.extend(hanging(&paint(&start, role, style), VERDICT + 2, &says, style));
        let (indent, evidence) = (" ".repeat(VERDICT + 2), clean(&finding.evidence, style));
        let evidence = hanging(&indent, VERDICT + 2, &evidence, style);
        lines.extend(evidence.iter().map(|line| paint(line, Role::Dim, style)));
    }
    lines.push(String::new());
    lines
}

/// Width of the verdict, in terminal columns.
const VERDICT: usize = 17;

/// Maximum number of systems listed individually.
const SYSTEMS_MAX: usize = 12;

/// Width of the label before a text, in terminal columns.
const LABEL: usize = 9;

/// Formats the lines of one metric of a panel as a table.
fn metric(outcome: &Outcome<'_>, table: &[Series], style: Style) -> Vec<String> {
    let Some(first) = table.first() else { return Vec::new() };
    let rows = || table.iter().flat_map(|s| &s.rows).copied();
    let values = rows().filter_map(|row| {
        outcome.rows[row].ours.map(|ours| ours * outcome.study.rows[row].unit.scale())
    });
    let mut printed =
        rows().filter_map(|row| outcome.printed(&outcome.study.rows[row]).map(|f| f.unit));
    let unit = match printed.next() {
        Some(unit) if printed.all(|other| other == unit) => unit,
        _ => first.metric.unit(),
    };
    let scale = Scale::of(unit, values);
    let by = match first.axis {
        Axis::Devices => ", by number of devices",
        Axis::Depth => ", by queue depth",
        Axis::Think => ", by think time in µs",
        Axis::Threads => ", by threads",
        Axis::Block => ", by block size",
        Axis::Fill => ", by fill in percent",
        Axis::None => "",
    };
    let in_unit = if scale.name.is_empty() { String::new() } else { format!(" in {}", scale.name) };
    let title = clean(&format!("{}{in_unit}{by}", first.metric.title()), style);
    if first.axis == Axis::None && table.len() > 1 {
        return points(outcome, table, &title, &scale, style);
    }
    let mut shown = Table::new([Column::label(""), Column::label("")]);
    shown.columns.extend(first.x.iter().map(|x| Column::decimals(head_of(first, *x), scale.name)));
    for series in table {
        for kind in kinds_of(outcome, series) {
            let mut cells = vec![
                Cell::words(format!("  {}", series.label)),
                Cell::words(kind.name()).toned(Tone::Dim),
            ];
            cells.extend(series.rows.iter().map(|&row| kind.cell(outcome, row, &scale)));
            shown.push(cells);
        }
    }
    let mut lines = paragraph(&title, Role::Dim, style);
    lines.extend(table::in_parts(&shown, PartRows::Known, style));
    lines
}

/// Lists the latency spikes of the cells in a panel that is plotted over time.
fn spikes(outcome: &Outcome<'_>, panel: usize, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for line in outcome.over_time.iter().filter(|line| line.panel == panel) {
        if lines.is_empty() {
            let title = "latency spikes (at least 5 times the median)";
            lines.extend(paragraph(title, Role::Dim, style));
        }
        let of = line.over_time.spikes();
        let every = if of.every_ns.is_finite() {
            let every = human::time_ns(of.every_ns);
            let deviation = if of.deviation_share.is_finite() {
                format!(", ± {:.0} %", of.deviation_share * 100.0)
            } else {
                String::new()
            };
            format!(", one every {every}{deviation}")
        } else {
            String::new()
        };
        let study = outcome.study;
        let (system, workload) =
            (&study.systems[line.at.system].name, &study.workloads[line.at.workload].name);
        let text = format!("{system} {workload}: {}{every}", of.count);
        lines.extend(hanging("  ", 2, &clean(&text, style), style));
    }
    lines
}

/// Formats single points, one per line, with their values in columns. If all labels end alike, the common end
/// moves to the title.
fn points(
    outcome: &Outcome<'_>,
    table: &[Series],
    title: &str,
    scale: &Scale,
    style: Style,
) -> Vec<String> {
    let kinds = [Line::Printed, Line::Ours, Line::Error, Line::Outside, Line::NullOutside];
    let is_told = |kind: &Line| table.iter().any(|s| kinds_of(outcome, s).contains(kind));
    let kinds: Vec<Line> = kinds.into_iter().filter(is_told).collect();
    let mut names: Vec<Vec<&str>> = table.iter().map(|s| s.label.split(' ').collect()).collect();
    let mut common: Vec<&str> = Vec::new();
    while let Some(&last) = names.first().and_then(|words| words.last())
        && names.iter().all(|words| words.len() > 1 && words.last() == Some(&last))
    {
        for words in &mut names {
            words.pop();
        }
        common.insert(0, last);
    }
    let mut shown = Table::new([Column::label("")]);
    shown.columns.extend(kinds.iter().map(|kind| Column::decimals(kind.name(), scale.name)));
    for (series, name) in table.iter().zip(names) {
        let Some(&row) = series.rows.first() else { continue };
        let mut cells = vec![Cell::words(format!("  {}", name.join(" ")))];
        cells.extend(kinds.iter().map(|kind| kind.cell(outcome, row, scale)));
        shown.push(cells);
    }
    let common = clean(&common.join(" "), style);
    let title = if common.is_empty() { title.to_owned() } else { format!("{title}: {common}") };
    let mut lines = paragraph(&title, Role::Dim, style);
    lines.extend(table::in_parts(&shown, PartRows::Known, style));
    lines
}

fn head_of(series: &Series, x: f64) -> String {
    match series.axis {
        Axis::None => String::new(),
        Axis::Block => human::size(x as u64),
        _ => format!("{x}"),
    }
}

/// Content of a line in a metric's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Printed,
    Ours,
    Error,
    Outside,
    NullOutside,
}

impl Line {
    const fn name(self) -> &'static str {
        match self {
            Self::Printed => "printed",
            Self::Ours => "ours",
            Self::Error => "error %",
            Self::Outside => "outside %",
            Self::NullOutside => "null %",
        }
    }

    /// Table field for the row with this index, as this kind of line shows it.
    fn cell(self, outcome: &Outcome<'_>, index: usize, scale: &Scale) -> Cell {
        let (wanted, row) = (&outcome.study.rows[index], &outcome.rows[index]);
        let printed = outcome.printed(wanted);
        let percent = |share: f64| Cell::number(number::fixed(share * 100.0, 1), share);
        let cell = match self {
            Self::Printed => printed.map(|figure| {
                let flag = if figure.is_flagged() { "!" } else { "" };
                let tone = if figure.is_flagged() { Tone::Bad } else { Tone::Plain };
                Cell::number(scale.printed(figure) + flag, figure.value).toned(tone)
            }),
            Self::Ours => row.ours.map(|ours| {
                let text = scale.ours(ours, wanted.unit, printed) + mark(wanted);
                Cell::number(text, ours).toned(Tone::Strong)
            }),
            Self::Error => row.score.map(|s| percent(s.error)),
            Self::Outside => row.score.map(|s| percent(s.outside).toned(row.tone(Tone::Bad))),
            Self::NullOutside => {
                row.null.and_then(|null| null.score).map(|s| percent(s.outside).toned(Tone::Dim))
            }
        };
        cell.unwrap_or_else(Cell::none)
    }
}

/// Kinds of line to show for a series: only those that have a value.
fn kinds_of(outcome: &Outcome<'_>, series: &Series) -> Vec<Line> {
    let any = |has: &dyn Fn(usize) -> bool| series.rows.iter().any(|&row| has(row));
    if !any(&|row| outcome.study.rows[row].printed.is_some()) {
        return vec![Line::Ours];
    }
    let mut kinds = vec![Line::Printed, Line::Ours, Line::Error, Line::Outside];
    if any(&|row| outcome.rows[row].null.is_some_and(|null| null.score.is_some())) {
        kinds.push(Line::NullOutside);
    }
    kinds
}

/// Letter that marks the provenance of a simulated value; empty for predictions.
const fn mark(wanted: &Wanted) -> &'static str {
    match wanted.basis {
        Provenance::Input => "i",
        Provenance::Fitted => "f",
        Provenance::Derived => "d",
        Provenance::Predicted => "",
    }
}

/// Lists rows that belong to no panel: inputs of the model, and values in the paper's text.
fn inputs(outcome: &Outcome<'_>, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for (wanted, row) in outcome.study.rows.iter().zip(&outcome.rows) {
        let (None, Some(ours), Some(figure)) = (wanted.panel, row.ours, outcome.printed(wanted))
        else {
            continue;
        };
        if lines.is_empty() {
            let all = outcome.study.rows.iter().filter(|row| row.panel.is_none());
            let only = all.into_iter().all(|row| row.basis == Provenance::Input);
            let title = if only { "Inputs" } else { "In the text" };
            lines.extend([String::new(), paint(title, Role::Bold, style)]);
        }
        let digits = if ours.fract() == 0.0 || ours.abs() < 1.0 {
            ours
        } else {
            (ours * 100.0).round() / 100.0
        };
        let key = &wanted.key;
        let workload = match wanted.recipe {
            Recipe::Given(_) => String::new(),
            _ => format!(", {}", key.workload),
        };
        let text = format!(
            "{} of {}{workload} ({}): printed {} {}, ours {digits}{}",
            key.metric,
            key.system,
            key.figure,
            figure.relation,
            figure.value,
            mark(wanted)
        );
        lines.extend(hanging("  ", 2, &clean(&text, style), style));
    }
    lines
}

/// Lists published values that the study does not score, with the reasons.
fn flags(outcome: &Outcome<'_>, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for figure in outcome.study.printed.iter().filter(|figure| !figure.flag.is_empty()) {
        if lines.is_empty() {
            lines.extend([String::new(), paint("Not scored", Role::Bold, style)]);
        }
        let key = &figure.key;
        let (value, unit) = (figure.value, figure.unit.name());
        let text = format!(
            "{} {} {}, {value} {unit}: {}",
            key.system, key.workload, key.metric, figure.flag
        );
        lines.extend(hanging("  ", 2, &clean(&text, style), style));
    }
    lines
}
