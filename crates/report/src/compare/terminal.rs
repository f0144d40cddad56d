//! Formats a comparison for the terminal: the two sides, one line per metric with its verdict, counts of verdicts,
//! omissions and remarks.

use super::figure_table::OF_PAGE;
use super::{Compared, Covers, Omission, Row, figure_table};
use crate::terminal::{conditions, level_sign};
use iodyno_page::terminal::text::{
    Role, clean, clean_path, hanging, pad, paint, paragraph, width, wrap,
};
use iodyno_page::terminal::{Style, table};
use iodyno_page::{Column, Table};
use iodyno_units::human;

/// Maximum width of a run's free text (such as its name), in terminal columns.
const WORDS_COLUMNS_MAX: usize = 400;
/// Maximum number of names in a list. The list ends with the number of names left out.
const NAMES_MAX: usize = 3;

/// Returns the comparison as text for the terminal. Lines end with a line feed and have no trailing blanks.
pub fn show(compared: &Compared, style: Style) -> String {
    let mut lines = head(compared, style);
    lines.push(String::new());
    if compared.rows.is_empty() {
        lines.extend(paragraph(&nothing(compared, style), Role::Plain, style));
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

/// Explains why there are no rows.
fn nothing(compared: &Compared, style: Style) -> String {
    let of_side = |side: &str, words: &dyn Fn(&Omission) -> String| -> Vec<String> {
        let of = compared.omissions.iter().filter(|o| o.side == side && o.metric.is_none());
        let mut all: Vec<String> = of.map(words).collect();
        all.sort();
        all.dedup();
        all
    };
    let whole = |side| of_side(side, &|o| o.cell.clone());
    let names = |side| of_side(side, &|o| format!("`{}`", clean(&o.cell, 28, style)));
    let loads = |side| {
        let load = |o: &Omission| {
            let (depth, blocks) = conditions(&o.key);
            format!("{depth} {blocks}")
        };
        some(&of_side(side, &load))
    };
    let (a, b) = (names("a"), names("b"));
    if a.is_empty() || b.is_empty() {
        return "nothing could be compared".to_owned();
    }
    if whole("a") == whole("b") {
        let (name, a, b) = (some(&a), loads("a"), loads("b"));
        // Otherwise the lines below say why each was left out.
        if a == b {
            return "nothing could be compared".to_owned();
        }
        return format!(
            "nothing could be compared: the load of {name} differs: A has {a}, B has {b}"
        );
    }
    let (a, b) = (some(&a), some(&b));
    format!("nothing could be compared: cells are paired by name, but A has {a} and B has {b}")
}

/// Returns the heading, which describes the two sides.
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

/// Formats the table in the widest of three layouts that fits the terminal: cells to the left of their
/// metrics; cells as headings above their metrics; cells as headings and one-word verdicts. If none fits, the
/// least important columns are hidden.
fn rows(compared: &Compared, style: Style) -> Vec<String> {
    let several = has_targets(compared);
    let is_shown = |column: &Column| {
        let title = column.title.as_str();
        !OF_PAGE.contains(&title) && (title != "target" || several)
    };
    let mut beside = figure_table(compared).selected(|_, column| is_shown(column));
    let mut above = beside.under_headings();
    for heading in above.rows.iter_mut().filter(|row| row.is_heading) {
        heading.cells[0].text = clean(&heading.cells[0].text, style.columns(), style);
    }
    let mut in_words = above.clone();
    let figures = in_words.rows.iter_mut().filter(|row| !row.is_heading);
    for verdict in figures.filter_map(|row| row.cells.last_mut()) {
        verdict.text.truncate(verdict.text.find(" (").unwrap_or(verdict.text.len()));
    }
    for row in &mut beside.rows {
        for (column, cell) in beside.columns.iter().zip(&mut row.cells) {
            cell.text = match column.title.as_str() {
                "cell" => clean(&cell.text, 28, style),
                "target" => clean_path(&cell.text, 24, style),
                "load" => clean(&cell.text, 40, style),
                _ => continue,
            };
        }
    }
    let fits = |all: &Table| table::total_width(all, style) <= style.columns();
    let widest = [beside, above].into_iter().find(fits).unwrap_or(in_words);
    let (fitted, hidden) = table::fit(&widest, style.columns(), style);
    let mut lines = table::lines(&fitted, style);
    lines.extend(table::remark(&hidden, style));
    lines
}

/// Whether the table also lists cells of single targets, in addition to the merged cells.
fn has_targets(compared: &Compared) -> bool {
    compared.rows.iter().any(|row| {
        let other = |o: &Row| o.a_key.name == row.a_key.name && o.a_key.target != row.a_key.target;
        compared.rows.iter().any(other)
    })
}

/// Number of rows per verdict, each in the verdict's colour: `2 slower, 1 same`.
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

/// Explains the criteria for the verdicts, the definition of the shift, and the variation that the intervals
/// cover.
fn grounds(compared: &Compared, style: Style) -> Vec<String> {
    let threshold = (compared.criteria.threshold_share * 1e5).round() / 1e3;
    let mut text = format!(
        "faster, slower: a significant shift (exact Mann-Whitney test, p corrected for {}, at most {}) of at least {threshold} %; same: the {} interval of the shift lies within {threshold} % of 0. A and B are medians; the shift is the median ratio of a value of B to one of A, over all pairs, minus 1.",
        match compared.rows.len() {
            1 => "1 figure".to_owned(),
            n => format!("{n} figures"),
        },
        compared.criteria.alpha,
        human::percent(compared.criteria.same_level(), 0)
    );
    let shown = compared.rows.iter().filter(|r| r.comparison.interval.is_some());
    let has = |covers| shown.clone().any(|r| r.covers == covers);
    if has(Covers::Runs) {
        text += " Intervals of the shift cover runs on these targets, not other devices.";
    }
    if has(Covers::Repeats) {
        text += " Intervals of the shift are computed from repeats of a cell within one run, not from other runs or devices.";
    }
    paragraph(&text, Role::Dim, style)
}

/// Lists the omissions, one line per reason.
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

/// Name of the omitted cell, with its conditions and target if the name alone is ambiguous.
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

/// Formats the distinct values of a condition: `4 or 8 or 16`.
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
