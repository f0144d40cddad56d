//! A comparison as terminal text: the two sides, a line for each figure with its verdict, the counts, the
//! omissions, and the remarks.

use super::{Compared, Covers, Omission, Row};
use crate::terminal::{conditions, level_sign};
use iodyno_measure::statistics::compare::Difference;
use iodyno_measure::{CellKey, IoKinds, Quantity};
use iodyno_page::terminal::Style;
use iodyno_page::terminal::table::{self, Column, Field};
use iodyno_page::terminal::text::{
    Role, clean, clean_path, hanging, pad, paint, paragraph, width, wrap,
};
use iodyno_units::{OpKind, human};

/// Columns for any text of a run.
const WORDS_COLUMNS_MAX: usize = 400;
/// Names in a list before it ends with the number of the others.
const NAMES_MAX: usize = 3;

/// A comparison as text. Lines end with a line feed and have no trailing blanks.
pub fn show(compared: &Compared, style: Style) -> String {
    let mut lines = head(compared, style);
    lines.push(String::new());
    if compared.rows.is_empty() {
        lines.push("nothing could be compared".to_owned());
    } else {
        lines.extend(rows(compared, style));
        lines.push(String::new());
        lines.push(sum(compared, style));
        lines.extend(grounds(compared, style));
    }
    let more =
        [omissions(compared, style), conditions_lines(compared, style), remarks(compared, style)];
    for part in more.into_iter().filter(|part| !part.is_empty()) {
        lines.push(String::new());
        lines.extend(part);
    }
    lines.iter().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// The two sides.
fn head(compared: &Compared, style: Style) -> Vec<String> {
    let asked: Vec<String> =
        compared.sides.iter().map(|s| clean(s.asked, style.columns() / 3, style)).collect();
    let columns = asked.iter().map(|a| width(a)).max().unwrap_or(0);
    let mut lines = Vec::new();
    for ((letter, side), asked) in ["A", "B"].iter().zip(&compared.sides).zip(&asked) {
        let runs = match side.runs.as_slice() {
            [one] => format!("run {one}"),
            several => format!("{} runs", several.len()),
        };
        let names = side.headings.iter().filter(|n| **n != side.asked);
        let names: Vec<String> = names.map(|n| clean(n, 100, style)).collect();
        let targets: Vec<String> = side.targets.iter().map(|t| clean_path(t, 40, style)).collect();
        let mut words = vec![runs];
        words.extend((!names.is_empty()).then(|| some(&names)));
        words.push(format!("on {}", some(&targets)));
        let text = wrap(&words.join(style.dot()), style.columns().saturating_sub(columns + 5));
        for (i, line) in text.iter().enumerate() {
            let start = if i == 0 {
                let name = pad(asked, columns, false);
                format!("{}  {}", paint(letter, Role::Bold, style), paint(&name, Role::Bold, style))
            } else {
                " ".repeat(columns + 3)
            };
            lines.push(format!("{start}  {}", paint(line, Role::Dim, style)));
        }
    }
    lines
}

/// `a, b, c and 5 more`
fn some(names: &[String]) -> String {
    let shown = if names.len() > NAMES_MAX + 1 { NAMES_MAX } else { names.len() };
    let mut words = names[..shown].to_vec();
    if shown < names.len() {
        words.push(format!("{} more", names.len() - shown));
    }
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// `read p99`, `IOPS`.
fn metric_words(row: &Row) -> String {
    let quantity = match row.metric.quantity {
        Quantity::Iops if row.metric.kind.is_some_and(|kind| !IoKinds::DATA.count(kind)) => {
            "rate".to_owned()
        }
        Quantity::Iops => "IOPS".to_owned(),
        Quantity::Bandwidth => "throughput".to_owned(),
        other => other.to_string(),
    };
    match row.metric.kind {
        Some(OpKind::WriteZeroes) => format!("zeroes {quantity}"),
        Some(kind) => format!("{} {quantity}", kind.name()),
        None => quantity,
    }
}

fn rows(compared: &Compared, style: Style) -> Vec<String> {
    let [mut cell, mut target, mut load, mut metric] =
        std::array::from_fn(|i| Column::new("", [0, 0, 4, 0][i]));
    // Cells of single targets are listed beside their merged cell.
    let has_targets = compared.rows.iter().any(|row| {
        let other = |o: &Row| o.a_key.name == row.a_key.name && o.a_key.target != row.a_key.target;
        compared.rows.iter().any(other)
    });
    let mut a = Column::new("A", 0);
    let mut b = Column::new("B", 0);
    let mut ratio = Column::new("B/A", 3);
    let mut shift = Column::new("shift", 0);
    let mut interval = Column::new("interval", 1);
    let mut p = Column::new("p", 2);
    let mut verdict = Column::new("", 0);
    let mut last: Option<&CellKey> = None;
    for row in &compared.rows {
        if last == Some(&row.a_key) {
            cell.fields.push(Field::Empty);
            target.fields.push(Field::Empty);
            load.fields.push(Field::Empty);
        } else {
            cell.fields.push(Field::Text(clean(&row.a_key.name, 28, style), Role::Bold));
            let of = clean_path(&row.a_key.target, 24, style);
            target.fields.push(Field::Text(of, Role::Plain));
            let [(depth_a, block_a), (depth_b, block_b)] = [&row.a_key, &row.b_key].map(conditions);
            let both = |a: String, b: String| if a == b { a } else { format!("{a} to {b}") };
            // The same blocks at two rates are named once.
            let blocks = match (block_a.split_once(" at "), block_b.split_once(" at ")) {
                (Some((a, _)), Some((b, rate_b))) if a == b && block_a != block_b => {
                    format!("{block_a} to {rate_b}")
                }
                _ => both(block_a, block_b),
            };
            let text = format!("{}  {blocks}", both(depth_a, depth_b));
            load.fields.push(Field::Text(clean(&text, 40, style), Role::Dim));
        }
        last = Some(&row.a_key);
        let of = &row.comparison;
        metric.fields.push(Field::Text(metric_words(row), Role::Plain));
        let figure = |value| {
            let text = clean(&row.metric.quantity.human(value), 20, style);
            Field::figure(&text, Role::Plain)
        };
        a.fields.push(figure(of.median_a));
        b.fields.push(figure(of.median_b));
        let times = human::three_digits(of.median_b / of.median_a);
        ratio.fields.push(Field::figure(&times, Role::Plain));
        let (words, role) = verdict_words(row, compared, style);
        let text = format!("{} %", percent(of.shift_share, style));
        let shift_role = if role == Role::Dim { Role::Plain } else { role };
        shift.fields.push(Field::figure(&text, shift_role));
        interval.fields.push(of.interval.map_or(Field::Missing, |i| {
            let [low, high] = [i.low, i.high].map(|share| percent(share, style));
            Field::figure(&format!("{low}\u{a0}to\u{a0}{high} %"), Role::Dim)
        }));
        p.fields
            .push(of.p_adjusted.map_or(Field::Missing, |p| Field::figure(&p_words(p), Role::Dim)));
        verdict.fields.push(Field::Text(words, role));
    }
    let mut columns = vec![cell, load, metric, a, b, ratio, shift, interval, p, verdict];
    if has_targets {
        columns.insert(1, target);
    }
    let left_out = table::fit(&mut columns, style.columns());
    let mut lines: Vec<String> =
        table::lines(&columns, style).iter().map(|l| l.replace('\u{a0}', " ")).collect();
    let left_out: Vec<_> = left_out.into_iter().filter(|h| !h.is_empty()).collect();
    if !left_out.is_empty() {
        lines.push(paint(
            &format!("columns hidden (terminal too narrow): {}", left_out.join(", ")),
            Role::Dim,
            style,
        ));
    }
    lines
}

/// A share in percent with its sign.
fn percent(share: f64, style: Style) -> String {
    let percent = share * 100.0;
    let digits =
        if percent.abs() < 0.05 { "0".to_owned() } else { format!("{:.1}", percent.abs()) };
    let sign = match percent {
        p if p.abs() < 0.05 => "",
        p if p > 0.0 => "+",
        _ if style.unicode => "−",
        _ => "-",
    };
    format!("{sign}{digits}")
}

fn p_words(p: f64) -> String {
    if p < 0.0001 { "<0.0001".to_owned() } else { human::three_digits(p) }
}

fn verdict_words(row: &Row, compared: &Compared, style: Style) -> (String, Role) {
    let mark = |unicode: &str, ascii: &str, word: &str| {
        format!("{} {word}", if style.unicode { unicode } else { ascii })
    };
    match row.comparison.difference {
        Difference::Slower => (mark("✗", "x", "slower"), Role::Red),
        Difference::Faster => (mark("✓", "+", "faster"), Role::Green),
        Difference::Same => (mark("=", "=", "same"), Role::Plain),
        Difference::TooFewRuns { .. } => {
            (mark("?", "?", &format!("inconclusive: {}", n_words(row))), Role::Yellow)
        }
        // Significant alone, but not after the correction for the number of figures.
        Difference::Inconclusive { .. } if row.comparison.test.p <= compared.criteria.alpha => {
            (mark("?", "?", "inconclusive: more runs"), Role::Yellow)
        }
        Difference::Inconclusive { detectable_share } => {
            let percent = human::three_digits(detectable_share * 100.0);
            (mark("?", "?", &format!("inconclusive: {percent} % would show")), Role::Yellow)
        }
    }
}

/// `1 run a side`, `3 against 5 repeats`.
fn n_words(row: &Row) -> String {
    let what = if row.covers == Covers::Repeats { "repeat" } else { "run" };
    match (row.a.len(), row.b.len()) {
        (1, 1) => format!("1 {what} a side"),
        (n, m) if n == m => format!("{n} {what}s a side"),
        (n, m) => format!("{n} against {m} {what}s"),
    }
}

/// `2 slower, 1 same`, in the colour of the gravest.
fn sum(compared: &Compared, style: Style) -> String {
    let counts = compared.counts();
    let words = ["slower", "faster", "same", "inconclusive"];
    let roles = [Role::Red, Role::Green, Role::Plain, Role::Yellow];
    let parts: Vec<String> = counts
        .iter()
        .zip(words)
        .zip(roles)
        .filter(|((n, _), _)| **n > 0)
        .map(|((n, word), role)| paint(&format!("{n} {word}"), role, style))
        .collect();
    format!("{}: {}", paint("B against A", Role::Bold, style), parts.join(", "))
}

/// The criteria behind the verdicts, and the coverage of the intervals.
fn grounds(compared: &Compared, style: Style) -> Vec<String> {
    let threshold = (compared.criteria.threshold_share * 1e5).round() / 1e3;
    let mut text = format!(
        "faster or slower: shown (exact Mann-Whitney test, p corrected for {}, at most {}) and a shift of at least {threshold} %; same: the shift shown to be smaller than that.",
        match compared.rows.len() {
            1 => "1 figure".to_owned(),
            n => format!("{n} figures"),
        },
        compared.criteria.alpha
    );
    let shown = compared.rows.iter().filter(|r| r.comparison.interval.is_some());
    let has = |covers| shown.clone().any(|r| r.covers == covers);
    if has(Covers::Runs) {
        text += " Intervals of the shift cover runs on these targets, not other devices.";
    }
    if has(Covers::Repeats) {
        text += " Intervals of the shift cover repeats of a cell within one run, not other runs or devices.";
    }
    paragraph(&text, Role::Dim, style)
}

/// A line for each reason for omissions.
fn omissions(compared: &Compared, style: Style) -> Vec<String> {
    let mut groups: Vec<(&str, &str, bool, Vec<String>)> = Vec::new();
    for of in &compared.omissions {
        let name = name(of, &compared.omissions, style);
        match groups.iter_mut().find(|g| (g.0, g.1) == (of.side, of.why.as_str())) {
            Some(group) if group.3.contains(&name) => {}
            Some(group) => group.3.push(name),
            None => groups.push((of.side, &of.why, of.is_loss, vec![name])),
        }
    }
    let mut lines = Vec::new();
    for (side, why, is_loss, names) in groups {
        let on = match side {
            "a" => " of A",
            "b" => " of B",
            _ => "",
        };
        let text = format!("{}{on}: {}", some(&names), clean(why, WORDS_COLUMNS_MAX, style));
        let role = if is_loss { Role::Yellow } else { Role::Dim };
        lines.extend(item("not compared", role, &text, style));
    }
    lines
}

/// The cell's name, with its conditions and target if the name does not identify it.
fn name(of: &Omission, all: &[Omission], style: Style) -> String {
    let mut name = clean(&of.cell, 28, style);
    let same = |o: &&Omission| (&o.cell, o.side, o.metric) == (&of.cell, of.side, of.metric);
    if of.is_loss && all.iter().filter(same).any(|o| o.key != of.key) {
        let (depth, block) = conditions(&of.key);
        name = format!("{name} {depth} {block}");
    }
    if of.is_loss && !of.key.target.is_empty() {
        name = format!("{name} on {}", clean_path(&of.key.target, 24, style));
    }
    of.metric.map_or(name.clone(), |metric| format!("{name} {metric}"))
}

fn conditions_lines(compared: &Compared, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for condition in &compared.conditions {
        let list = |values: &[String]| {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            clean(&some_values(&values), WORDS_COLUMNS_MAX / 2, style)
        };
        let (a, b) = (list(&condition.a), list(&condition.b));
        let mut text = clean(&condition.what, 60, style);
        if !condition.cells.is_empty() {
            let mut cells: Vec<String> = Vec::new();
            for cell in condition.cells.iter().map(|c| clean(c, 28, style)) {
                if !cells.contains(&cell) {
                    cells.push(cell);
                }
            }
            // A list of all cells adds nothing.
            if compared.rows.iter().any(|r| !condition.cells.contains(&r.a_key.name)) {
                text = format!("{text} ({})", some(&cells));
            }
        }
        text = if a == b {
            format!("{text}: {a} on both sides")
        } else {
            format!("{text}: A {a}, B {b}")
        };
        lines.extend(item("differs", Role::Yellow, &text, style));
    }
    lines
}

/// `4 or 8 or 16`
fn some_values(values: &[&str]) -> String {
    if values.len() > NAMES_MAX + 1 {
        return format!(
            "{} and {} more",
            values[..NAMES_MAX].join(" or "),
            values.len() - NAMES_MAX
        );
    }
    values.join(" or ")
}

/// A word, and a text that is wrapped beside it.
fn item(word: &str, role: Role, text: &str, style: Style) -> Vec<String> {
    let indent = 14;
    hanging(&paint(&pad(word, indent, false), role, style), indent, text, style)
}

fn remarks(compared: &Compared, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for remark in &compared.remarks {
        let (mark, word, role) = level_sign(remark.level, style);
        let text = format!("{} ({})", clean(&remark.text, 1000, style), remark.code);
        let head = format!("{mark} {word}");
        lines.extend(item(&head, role, &text, style));
    }
    lines
}
