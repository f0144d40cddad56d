//! A comparison as terminal text: the two sides, one line per figure with its verdict, the counts, the
//! omissions, and the remarks.

use super::{Compared, Covers, Omission, Row, values_words};
use crate::terminal::{conditions, level_sign};
use iodyno_measure::statistics::compare::Difference;
use iodyno_measure::{CellKey, IoKinds, Quantity};
use iodyno_page::terminal::text::{
    Role, clean, clean_path, hanging, pad, paint, paragraph, width, wrap,
};
use iodyno_page::terminal::{Style, table};
use iodyno_page::{Cell, Column, Table, Tone};
use iodyno_units::{OpKind, human};

/// Maximum number of columns for free text of a run.
const WORDS_COLUMNS_MAX: usize = 400;
/// Maximum number of names in a list; the number of the others follows.
const NAMES_MAX: usize = 3;

/// The comparison as text. Lines end with a line feed and have no trailing blanks.
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

/// Heading: the two sides.
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

/// A list of names, cut after [`NAMES_MAX`]: `a, b, c and 5 more`.
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

/// Name of a row's metric: `read p99`, `IOPS`.
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

/// The layouts of a table, the widest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// The cell's name is in the same line as its first metric.
    Beside,
    /// The cell's name is on a line of its own above its metrics.
    Above,
    /// Like [`Layout::Above`], with verdicts as single words.
    AboveInWords,
}

/// The table in the widest layout that shows all columns. If none does, the least important columns are
/// hidden.
fn rows(compared: &Compared, style: Style) -> Vec<String> {
    let fits = |layout: &Layout| {
        table::total_width(&figures(compared, *layout, style), style) <= style.columns()
    };
    let layouts = [Layout::Beside, Layout::Above];
    let layout = layouts.into_iter().find(fits).unwrap_or(Layout::AboveInWords);
    let all = figures(compared, layout, style);
    let (table, hidden) = table::fit(&all, style.columns(), style);
    let mut table = table::lines(&table, style).into_iter();
    let mut lines: Vec<String> = table.next().into_iter().collect();
    let mut last: Option<&CellKey> = None;
    for (row, line) in compared.rows.iter().zip(table) {
        if layout != Layout::Beside && last != Some(&row.a_key) {
            lines.push(cell_line(row, compared, style));
        }
        last = Some(&row.a_key);
        lines.push(line);
    }
    lines.extend(table::remark(&hidden, style));
    lines
}

/// Whether cells of single targets are listed in addition to their merged cell.
fn has_targets(compared: &Compared) -> bool {
    compared.rows.iter().any(|row| {
        let other = |o: &Row| o.a_key.name == row.a_key.name && o.a_key.target != row.a_key.target;
        compared.rows.iter().any(other)
    })
}

/// The name, target (if several are listed) and load of a row's cell.
fn cell_words(row: &Row, style: Style) -> [String; 3] {
    let [(depth_a, block_a), (depth_b, block_b)] = [&row.a_key, &row.b_key].map(conditions);
    let both = |a: String, b: String| if a == b { a } else { format!("{a} to {b}") };
    // Blocks that are equal but for the offered rate are named once.
    let blocks = match (block_a.split_once(" at "), block_b.split_once(" at ")) {
        (Some((a, _)), Some((b, rate_b))) if a == b && block_a != block_b => {
            format!("{block_a} to {rate_b}")
        }
        _ => both(block_a, block_b),
    };
    let load = format!("{}  {blocks}", both(depth_a, depth_b));
    [
        clean(&row.a_key.name, 28, style),
        clean_path(&row.a_key.target, 24, style),
        clean(&load, 40, style),
    ]
}

fn cell_line(row: &Row, compared: &Compared, style: Style) -> String {
    let [name, target, load] = cell_words(row, style);
    let mut parts = vec![(name, Role::Bold)];
    parts.extend(has_targets(compared).then_some((target, Role::Plain)));
    let columns: usize = parts.iter().map(|(words, _)| width(words) + 2).sum();
    parts.extend((columns + width(&load) <= style.columns()).then_some((load, Role::Dim)));
    let painted = parts.iter().map(|(words, role)| paint(words, *role, style));
    painted.collect::<Vec<_>>().join("  ")
}

/// The figures, one per row. In the layout [`Layout::Beside`], the first columns name their cell.
fn figures(compared: &Compared, layout: Layout, style: Style) -> Table {
    let mut table = Table::new([
        Column::words(""),
        Column::words(""),
        Column::words(""),
        Column::words(""),
        Column::numbers("A", ""),
        Column::numbers("B", ""),
        Column::numbers("shift", ""),
        Column::numbers("interval", "").ranked(1),
        Column::numbers("p", "").ranked(2),
        Column::words(""),
    ]);
    let mut last: Option<&CellKey> = None;
    for row in &compared.rows {
        let mut cells = [Cell::empty(), Cell::empty(), Cell::empty()];
        if last != Some(&row.a_key) {
            let [name, target, load] = cell_words(row, style).map(Cell::words);
            cells = [name.toned(Tone::Strong), target, load.toned(Tone::Dim)];
        }
        last = Some(&row.a_key);
        table.push([cells.as_slice(), &figure(row, compared, layout, style)].concat());
    }
    let is_beside = layout == Layout::Beside;
    let several = has_targets(compared);
    table.selected(|i, _| i > 2 || is_beside && (i != 1 || several))
}

/// The fields of one row: the metric, both sides, the shift, and the verdict.
fn figure(row: &Row, compared: &Compared, layout: Layout, style: Style) -> [Cell; 7] {
    let of = &row.comparison;
    let indent = if layout == Layout::Beside { "" } else { "  " };
    let value = |value| Cell::number(row.metric.quantity.human(value), value);
    let (word, rest, tone) = verdict_words(row, compared, style);
    let rest = if layout == Layout::AboveInWords { String::new() } else { rest };
    let shift = format!("{} %", percent(of.shift_share, style));
    [
        Cell::words(format!("{indent}{}", metric_words(row))),
        value(of.median_a),
        value(of.median_b),
        Cell::number(shift, of.shift_share).toned(tone),
        of.interval.map_or_else(Cell::none, |i| {
            let [low, high] = [i.low, i.high].map(|share| percent(share, style));
            Cell::words(format!("{low} to {high} %")).toned(Tone::Dim)
        }),
        of.p_adjusted.map_or_else(Cell::none, |p| Cell::number(p_words(p), p).toned(Tone::Dim)),
        Cell::words(word + &rest).toned(tone),
    ]
}

/// A share in percent, with its sign.
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

/// The verdict in one word, the rest of it (omitted in a narrow table), and its tone.
fn verdict_words(row: &Row, compared: &Compared, style: Style) -> (String, String, Tone) {
    let (unicode, ascii, word, tone) = match row.comparison.difference {
        Difference::Slower => ("✗", "x", "slower", Tone::Bad),
        Difference::Faster => ("✓", "+", "faster", Tone::Good),
        Difference::Same => ("=", "=", "same", Tone::Plain),
        _ => ("?", "?", "inconclusive", Tone::Warning),
    };
    let rest = match row.comparison.difference {
        Difference::TooFewRuns { .. } => values_words(row),
        // Significant alone, but not after the correction for the number of figures.
        Difference::Inconclusive { .. } if row.comparison.test.p <= compared.criteria.alpha => {
            "more runs".to_owned()
        }
        Difference::Inconclusive { detectable_share } => {
            format!("{} % would show", human::three_digits(detectable_share * 100.0))
        }
        _ => String::new(),
    };
    let mark = if style.unicode { unicode } else { ascii };
    let rest = if rest.is_empty() { rest } else { format!(": {rest}") };
    (format!("{mark} {word}"), rest, tone)
}

/// Number of rows per verdict, in the colour of the most severe: `2 slower, 1 same`.
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

/// The criteria behind the verdicts, the meaning of the shift, and the coverage of the intervals.
fn grounds(compared: &Compared, style: Style) -> Vec<String> {
    let threshold = (compared.criteria.threshold_share * 1e5).round() / 1e3;
    let mut text = format!(
        "faster or slower: shown (exact Mann-Whitney test, p corrected for {}, at most {}) and a shift of at least {threshold} %; same: the shift shown to be smaller than that. A and B are medians; the shift is the median of all ratios of a value of B to one of A, less 1.",
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

/// One line per reason for omissions.
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

/// Distinct values of a condition: `4 or 8 or 16`.
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

/// Formats a text, wrapped to the right of a label.
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
