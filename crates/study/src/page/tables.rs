//! Tables of a study: published value, simulated value and difference, row by row.

use super::figures::{capital, ours};
use crate::conclusion::{self, Finding, Verdict};
use crate::outcome::Outcome;
use crate::series::{Axis as Along, Series as Line};
use iodyno_page::{Cell as Field, Column, Quantity, Row, Table, Tone};
use iodyno_units::human;

/// Table of the paper's conclusions with their verdicts; None if the study lists no conclusions.
pub(super) fn conclusions(outcome: &Outcome<'_>) -> Option<Table> {
    let tone = |verdict: Verdict| match verdict {
        Verdict::Holds => Tone::Good,
        Verdict::DoesNotHold => Tone::Warning,
        Verdict::Untestable => Tone::Dim,
    };
    let row = |finding: &Finding<'_>| {
        Row::from(vec![
            Field::words(finding.conclusion.says.clone()),
            Field::words(finding.verdict.name()).toned(tone(finding.verdict)),
            Field::words(finding.evidence.clone()).toned(Tone::Dim),
        ])
    };
    (!outcome.conclusions.is_empty()).then(|| Table {
        caption: format!("The paper's conclusions: {}", conclusion::summary(&outcome.conclusions)),
        columns: vec![
            Column::words("conclusion"),
            Column::words("in the model"),
            Column::words("by our figures"),
        ],
        rows: outcome.conclusions.iter().map(row).collect(),
        notes: Vec::new(),
    })
}

/// Table of published values, simulated values and their differences, one row each.
pub(super) fn table(outcome: &Outcome<'_>, lines: &[Line]) -> Table {
    let along = lines.first().map_or(Along::None, |l| l.axis);
    let mut columns = vec![Column::words("of")];
    if along != Along::None {
        columns.push(Column::numbers(along.name().unwrap_or("").replace('_', " "), ""));
    }
    columns.extend(comparison());
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
        notes: vec!["Differences are relative to the printed figures. “Outside” is the part of the difference beyond the figure's rounding; on the valid side of a bound (≥ or ≤), the part beyond a tenth of the bound. The null model is one device × n; members × n with write penalties, capped by the link; one thread × n; time-sharing; or no effect of think time.".to_owned()],
    }
}

/// Columns that compare a simulated value with a published one, as filled by [`compared`].
fn comparison() -> [Column; 6] {
    [
        Column::numbers("printed", ""),
        Column::numbers("ours", ""),
        Column::words("ours is"),
        Column::numbers("difference", "share"),
        Column::numbers("outside the rounding", "share"),
        Column::numbers("null model, outside", "share"),
    ]
}

/// Table of rows that belong to no panel: inputs of the model, and values in the paper's text.
pub(super) fn sentences(outcome: &Outcome<'_>, rows: &[usize]) -> Table {
    let row = |&index: &usize| {
        let key = &outcome.study.rows[index].key;
        let name = format!("{}: {}, {}", key.metric, key.system, key.workload);
        let mut cells = vec![Field::words(name)];
        cells.extend(compared(outcome, index));
        Row::from(cells)
    };
    let mut columns = vec![Column::words("of")];
    columns.extend(comparison());
    Table {
        caption: "Values from the paper's text".to_owned(),
        columns,
        rows: rows.iter().map(row).collect(),
        notes: Vec::new(),
    }
}

fn compared(outcome: &Outcome<'_>, index: usize) -> Vec<Field> {
    let (wanted, row) = (&outcome.study.rows[index], &outcome.rows[index]);
    let quantity = wanted.unit.quantity();
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
            let error = Field {
                heat: (!row.flagged).then_some(score.error.abs().min(0.2) / 0.2),
                ..change(score.error)
            };
            (error, change(score.outside).toned(row.tone(Tone::Dim)))
        }
        None => (Field::none(), Field::none()),
    };
    let null = row
        .null
        .and_then(|n| n.score)
        .map_or_else(Field::none, |s| change(s.outside).toned(Tone::Dim));
    vec![print, value, Field::words(wanted.basis.name()).toned(Tone::Dim), error, outside, null]
}
