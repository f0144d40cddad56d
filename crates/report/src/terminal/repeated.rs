//! The table of each cell's repeats, combined.

use crate::repeats::{COVERS, of};
use iodyno_measure::Quantity;
use iodyno_notebook::Run;
use iodyno_page::terminal::Style;
use iodyno_page::terminal::table::{self, Column, Field};
use iodyno_page::terminal::text::{Role, clean, clean_path, paragraph};
use iodyno_units::{OpKind, human};

pub(super) fn lines(run: &Run, style: Style) -> Vec<String> {
    let repeated = of(run);
    if repeated.is_empty() {
        return Vec::new();
    }
    let [mut cell, mut metric] = std::array::from_fn(|_| Column::new("", 0));
    let mut count = Column::new("repeats", 4);
    let mut value = Column::new("together", 0);
    let mut low = Column::new("95 % from", 0);
    let mut high = Column::new("to", 0);
    let mut reach = Column::new("±", 3);
    if !style.unicode {
        reach.head = "+/-".into();
    }
    let mut least = Column::new("lowest", 1);
    let mut most = Column::new("highest", 2);
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
        cell.fields.push(if is_first { Field::Text(name, Role::Bold) } else { Field::Empty });
        let quantity = figure.metric.quantity;
        let words = match (quantity, figure.metric.kind) {
            (Quantity::Iops, Some(kind)) => format!("{} rate", kind.name()),
            (Quantity::Iops, None) => "IOPS".to_owned(),
            (Quantity::Bandwidth, _) => "throughput".to_owned(),
            (_, Some(OpKind::WriteZeroes)) => format!("zeroes {quantity}"),
            (_, Some(kind)) => format!("{} {quantity}", kind.name()),
            (_, None) => quantity.to_string(),
        };
        metric.fields.push(Field::Text(words, Role::Plain));
        count.fields.push(Field::figure(&figure.count.to_string(), Role::Dim));
        let figure_of = |v, role| Field::figure(&clean(&quantity.human(v), 20, style), role);
        value.fields.push(figure_of(figure.value, Role::Bold));
        let interval = figure.mean.and_then(|m| m.interval);
        let end = |of: fn(&iodyno_measure::statistics::ConfidenceInterval) -> f64| {
            interval.map_or(Field::Missing, |i| figure_of(of(&i), Role::Plain))
        };
        low.fields.push(end(|i| i.low));
        high.fields.push(end(|i| i.high));
        let share = figure.mean.and_then(|m| m.half_width_share());
        reach.fields.push(share.map_or(Field::Missing, |share| {
            Field::figure(&format!("{} %", human::three_digits(share * 100.0)), Role::Plain)
        }));
        least.fields.push(figure_of(figure.range.0, Role::Dim));
        most.fields.push(figure_of(figure.range.1, Role::Dim));
    }
    let mut columns = vec![cell, metric, count, value, low, high, reach, least, most];
    table::fit(&mut columns, style.columns());
    let mut lines = table::lines(&columns, style);
    let text = format!(
        "together: the mean over the repeats with its interval, and the percentile of all their operations. It covers {COVERS}."
    );
    lines.extend(paragraph(&text, Role::Dim, style));
    lines
}
