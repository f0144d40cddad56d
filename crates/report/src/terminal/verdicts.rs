//! The verdicts in plain words, the gravest first; a verdict on several cells is listed once. The facts of the
//! cells are listed in the same way.

use crate::verdict_groups::{self, Group};
use iodyno_measure::{Cell, Level};
use iodyno_notebook::Run;
use iodyno_page::terminal::Style;
use iodyno_page::terminal::text::{Role, clean, clean_path, hanging, paint, width};

/// Names in a group before it ends with the number of the others.
const NAMES_MAX: usize = 3;
/// Columns of a text in all its lines: ours are shorter, and a longer one is not worth reading.
const TEXT_COLUMNS_MAX: usize = 1000;
/// Columns of each fact of a cell.
const FACT_COLUMNS_MAX: usize = 240;

pub(super) fn lines(run: &Run, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for Group { verdict, cells, same_text, .. } in verdict_groups::groups(&run.cells, false) {
        let mut text = clean(&verdict.text, TEXT_COLUMNS_MAX, style);
        if let Some(whose) = whose(run, &cells, style) {
            let own = if same_text { "" } else { ", each with its own numbers, such as" };
            text = format!("{whose}{own}: {text}");
        }
        if verdict.level != Level::Valid {
            text = format!("{text} ({})", clean(&verdict.code, 40, style));
        }
        lines.extend(line_of(verdict.level, &text, style));
    }
    lines
}

/// A verdict's text, beside the sign and the word of its level.
pub(super) fn line_of(level: Level, text: &str, style: Style) -> Vec<String> {
    let (mark, word, role) = sign(level, style);
    let head = format!("{mark} {word:<7}");
    hanging(&format!("{}  ", paint(&head, role, style)), width(&head) + 2, text, style)
}

/// The facts of the cells, by the cells that share them.
pub(super) fn facts(run: &Run, style: Style) -> Vec<String> {
    let mut groups: Vec<(Vec<usize>, Vec<String>)> = Vec::new();
    let mut seen: Vec<(&String, &String)> = Vec::new();
    for fact in run.cells.iter().flat_map(|c| &c.facts) {
        // The simulator's speed differs between repeats, and is no figure of the storage.
        let is_of_simulator = fact.0 == "simulated" && run.cells.iter().any(|c| c.key.repeat > 0);
        if is_of_simulator || seen.contains(&fact) {
            continue;
        }
        seen.push(fact);
        let has = |(_, c): &(usize, &Cell)| c.facts.get(fact.0) == Some(fact.1);
        let cells: Vec<usize> = run.cells.iter().enumerate().filter(has).map(|(i, _)| i).collect();
        let text = clean(&format!("{} {}", fact.0, fact.1), FACT_COLUMNS_MAX, style);
        match groups.iter_mut().find(|(of, _)| *of == cells) {
            Some((_, facts)) => facts.push(text),
            None => groups.push((cells, vec![text])),
        }
    }
    let mut lines = Vec::new();
    for (cells, facts) in groups {
        let text = facts.join(style.dot());
        let text = match whose(run, &cells, style) {
            Some(whose) if cells.len() < run.cells.len() => format!("{whose}: {text}"),
            _ => text,
        };
        let head = "in effect  ";
        let facts = hanging(head, width(head), &text, style);
        lines.extend(facts.iter().map(|line| paint(line, Role::Dim, style)));
    }
    lines
}

/// Mark, word and colour of a level.
pub(crate) const fn sign(level: Level, style: Style) -> (&'static str, &'static str, Role) {
    match (level, style.unicode) {
        (Level::Invalid, true) => ("✗", "INVALID", Role::Red),
        (Level::Invalid, false) => ("x", "INVALID", Role::Red),
        (Level::Warning, _) => ("!", "WARNING", Role::Yellow),
        (Level::Valid, true) => ("✓", "VALID", Role::Green),
        (Level::Valid, false) => ("+", "VALID", Role::Green),
        (Level::Note, true) => ("·", "NOTE", Role::Dim),
        (Level::Note, false) => ("-", "NOTE", Role::Dim),
    }
}

/// The cells of a group; None if the run has only one.
fn whose(run: &Run, cells: &[usize], style: Style) -> Option<String> {
    let count = run.cells.len();
    if count <= 1 {
        return None;
    }
    if cells.len() == count {
        return Some(if count == 2 {
            "both cells".to_owned()
        } else {
            format!("all {count} cells")
        });
    }
    let target = &run.cells[cells[0]].key.target;
    let of_target: Vec<usize> =
        (0..count).filter(|&i| run.cells[i].key.target == *target).collect();
    if of_target == cells && cells.len() > 1 {
        let name = clean_path(target, 24, style);
        // The name of a merged cell suffices.
        let is_merged = target.starts_with("all (");
        return Some(if is_merged { name } else { format!("all cells on {name}") });
    }
    let name = |i: &usize| {
        let key = &run.cells[*i].key;
        let name = clean(&super::name_of(run, key), 28, style);
        let same = |c: &&Cell| c.key.name == key.name && c.key.repeat == key.repeat;
        let is_shared = run.cells.iter().filter(same).count() > 1;
        if is_shared { format!("{name} on {}", clean_path(&key.target, 24, style)) } else { name }
    };
    let shown = if cells.len() > NAMES_MAX + 1 { NAMES_MAX } else { cells.len() };
    let mut names: Vec<String> = cells[..shown].iter().map(name).collect();
    if shown < cells.len() {
        names.push(format!("{} more of {count} cells", cells.len() - shown));
    }
    Some(match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    })
}
