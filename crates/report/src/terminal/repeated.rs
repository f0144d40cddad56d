//! Table with one row per metric of a repeated measurement: mean over the repeats, confidence interval and extremes.

use crate::interval_words::ends;
use crate::repeats::{COVERS, of};
use iodyno_measure::Quantity;
use iodyno_notebook::Run;
use iodyno_page::terminal::text::{Role, clean, clean_path, paragraph};
use iodyno_page::terminal::{Style, table};
use iodyno_page::{Cell as Field, Column, Table, Tone};
use iodyno_units::OpKind;

pub(super) fn lines(run: &Run, style: Style) -> Vec<String> {
    let repeated = of(run);
    if repeated.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new([
        Column::words(""),
        Column::words(""),
        Column::numbers("repeats", "").ranked(4),
        Column::numbers("together", ""),
        Column::numbers("95 % from", ""),
        Column::numbers("to", ""),
        Column::numbers("±", "share").ranked(3),
        Column::numbers("lowest", "").ranked(1),
        Column::numbers("highest", "").ranked(2),
    ]);
    let mut last = None;
    for figure in &repeated {
        let key = figure.key;
        let name = clean(&key.name, 28, style);
        let name = if run.head.targets.len() > 1 {
            format!("{name} on {}", clean_path(&key.target, 24, style))
        } else {
            name
        };
        let is_first = last != Some(key);
        last = Some(key);
        let quantity = figure.metric.quantity;
        let words = match (quantity, figure.metric.kind) {
            (Quantity::Iops, Some(kind)) => format!("{} rate", kind.name()),
            (Quantity::Iops, None) => "IOPS".to_owned(),
            (Quantity::Bandwidth, _) => "throughput".to_owned(),
            (_, Some(OpKind::WriteZeroes)) => format!("zeroes {quantity}"),
            (_, Some(kind)) => format!("{} {quantity}", kind.name()),
            (_, None) => quantity.to_string(),
        };
        let value = |x: f64| Field::number(quantity.human(x), x);
        let interval = figure.mean.and_then(|m| m.interval);
        let [low, high] = interval.map_or_else(Default::default, |i| {
            let (low, high) = ends(i.low, i.high, &|x| quantity.human(x));
            [Field::number(low, i.low), Field::number(high, i.high)]
        });
        let share = figure.mean.and_then(|m| m.half_width_share());
        table.push([
            Field::words(if is_first { name } else { String::new() }).toned(Tone::Strong),
            Field::words(words),
            Field::number(figure.count.to_string(), figure.count as f64).toned(Tone::Dim),
            value(figure.value).toned(Tone::Strong),
            low,
            high,
            Field::of(iodyno_page::Quantity::Share, share),
            value(figure.range.0).toned(Tone::Dim),
            value(figure.range.1).toned(Tone::Dim),
        ]);
    }
    let mut lines = table::fitted(&table, style);
    let text = format!(
        "together: the mean over the repeats with its interval, or the percentile over the operations of all repeats. The interval covers {COVERS}."
    );
    lines.extend(paragraph(&text, Role::Dim, style));
    lines
}
