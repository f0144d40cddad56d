//! Formats the verdicts on a run: a line with the most severe level (or VALID) and all codes, then the text of each
//! warning or worse. Notes are listed as codes with counts, or in full with [`Detail::notes`]. Also lists the facts
//! that were recorded about cells.

use super::{Before, Detail, short_label_of};
use crate::run_verdict::RunVerdict;
use crate::verdict_groups::{self, Group};
use iodyno_measure::{Cell, Level, Verdict};
use iodyno_notebook::Run;
use iodyno_page::terminal::Style;
use iodyno_page::terminal::text::{Role, clean, clean_path, hanging, paint, width, wrap};

/// Maximum number of cell names in a group. The list ends with the number of names left out.
const NAMES_MAX: usize = 3;
/// Maximum length of a verdict's text, in terminal columns summed over its lines. iodyno's own texts are
/// shorter; longer ones are cut.
const TEXT_COLUMNS_MAX: usize = 1000;
/// Maximum length of one fact about a cell, in terminal columns.
const FACT_COLUMNS_MAX: usize = 240;

/// A verdict on the run, or on some of its cells.
struct Entry<'a> {
    verdict: &'a Verdict,
    /// Names of the cells with the verdict, as text; empty if the run has only one cell.
    on: String,
    /// Whether every cell of the run has the verdict.
    on_all: bool,
    /// Number of equal verdicts combined in the entry.
    count: usize,
    /// Whether the verdict is on the run itself, rather than on cells.
    of_run: bool,
}

/// Formats all verdicts of a run. With `by_code`, for runs with many cells, verdicts on cells are grouped by
/// code.
pub(super) fn lines(
    run: &Run,
    by_code: bool,
    before: &Before,
    detail: Detail,
    style: Style,
) -> Vec<String> {
    let whole = RunVerdict::of(run);
    let total = verdict_groups::count(&run.cells, by_code);
    let groups = verdict_groups::groups(&run.cells, by_code);
    let of_run = |verdict| Entry {
        verdict,
        on: "the run: ".to_owned(),
        on_all: false,
        count: 1,
        of_run: true,
    };
    let mut entries: Vec<Entry> = whole.verdicts.iter().map(of_run).collect();
    entries.extend(groups.iter().map(|group| Entry {
        verdict: group.verdict,
        on: if by_code { which(group, total) } else { whose(run, group, style) },
        on_all: group.cells.len() == total,
        count: group.count,
        of_run: false,
    }));
    entries.sort_by_key(|entry| verdict_groups::rank(entry.verdict.level));
    let (grave, others): (Vec<&Entry>, Vec<&Entry>) =
        entries.iter().partition(|entry| entry.verdict.level >= Level::Warning);
    let mut lines = Vec::new();
    if grave.is_empty() {
        for valid in others.iter().filter(|entry| entry.verdict.level == Level::Valid) {
            lines.extend(line_of(Level::Valid, &words_of(valid, style), style));
        }
    } else {
        let sound = groups.iter().filter(|g| g.verdict.level == Level::Valid);
        lines.extend(gravest(&grave, sound.map(|g| g.cells.len()).sum(), total, style));
    }
    let notes: Vec<&Entry> =
        others.into_iter().filter(|entry| entry.verdict.level == Level::Note).collect();
    lines.extend(notes_of(&notes, by_code, before, detail, style));
    lines
}

/// Formats the notes, either with their texts or as codes with counts.
fn notes_of(
    notes: &[&Entry],
    by_code: bool,
    before: &Before,
    detail: Detail,
    style: Style,
) -> Vec<String> {
    let is_known = |entry: &&&Entry| !detail.notes && before.has_of_machine(entry.verdict);
    let known: usize = notes.iter().filter(is_known).map(|entry| entry.count).sum();
    // A note that only one cell has is shown, with its figures. Others repeat across cells or runs.
    let is_shown = |entry: &&Entry| {
        let is_alike = |other: &&&Entry| other.verdict.code == entry.verdict.code;
        let is_alone = entry.count == 1 && notes.iter().filter(is_alike).count() == 1;
        let own_figures = entry.verdict.text.contains(|c: char| c.is_ascii_digit());
        let is_new = !before.has_of_target(entry.verdict);
        detail.notes || entry.of_run || (!by_code && is_alone && own_figures && is_new)
    };
    let (in_words, by_codes): (Vec<&Entry>, Vec<&Entry>) =
        notes.iter().filter(|entry| !is_known(entry)).copied().partition(is_shown);
    let (mark, _, role) = sign(Level::Note, style);
    let mut lines = Vec::new();
    for entry in in_words {
        lines.extend(coded(&format!("{} ", paint(mark, role, style)), entry, style));
    }
    let mut parts = Vec::new();
    if !by_codes.is_empty() {
        parts.push(codes(&by_codes));
    }
    if known > 0 {
        parts.push(format!("{known} about this machine, as in earlier runs"));
    }
    if !parts.is_empty() {
        let text = format!("notes: {}{}see --notes", parts.join(style.dot()), style.dot());
        let codes = hanging(&format!("{mark} "), 2, &clean(&text, TEXT_COLUMNS_MAX, style), style);
        lines.extend(codes.iter().map(|line| paint(line, role, style)));
    }
    lines
}

/// Formats warnings and worse: a line with the most severe level and all codes, then the text of each.
/// `sound` of `total` cells are VALID.
fn gravest(grave: &[&Entry], sound: usize, total: usize, style: Style) -> Vec<String> {
    let level = grave[0].verdict.level;
    if let [one] = grave
        && one.on_all
    {
        let code = clean(&one.verdict.code, 40, style);
        return line_of(level, &format!("{code}: {}", words_of(one, style)), style);
    }
    let (worst, rest): (Vec<&Entry>, Vec<&Entry>) =
        grave.iter().partition(|entry| entry.verdict.level == level);
    let mut parts = vec![codes(&worst)];
    if !rest.is_empty() {
        parts.push(format!("warning: {}", codes(&rest)));
    }
    if sound > 0 && total > 1 {
        parts.push(match sound {
            n if n == total => "no cell has a warning of its own".to_owned(),
            1 => format!("1 of {total} cells has no warnings"),
            n => format!("{n} of {total} cells have no warnings"),
        });
    }
    let parts: Vec<String> =
        parts.iter().map(|part| clean(part, TEXT_COLUMNS_MAX, style)).collect();
    let mut lines = line_of(level, &parts.join(style.dot()), style);
    for entry in grave {
        lines.extend(coded("  ", entry, style));
    }
    lines
}

/// Lists the distinct codes, each with its number of verdicts if there are several.
fn codes(entries: &[&Entry]) -> String {
    let mut codes: Vec<(&str, usize)> = Vec::new();
    for entry in entries {
        match codes.iter_mut().find(|(code, _)| *code == entry.verdict.code) {
            Some((_, count)) => *count += entry.count,
            None => codes.push((&entry.verdict.code, entry.count)),
        }
    }
    let words = codes.iter().map(|(code, count)| match count {
        1 => (*code).to_owned(),
        n => format!("{code} ×{n}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Text of a verdict, preceded by the cells that have it.
fn words_of(entry: &Entry, style: Style) -> String {
    entry.on.clone() + &clean(&entry.verdict.text, TEXT_COLUMNS_MAX, style)
}

/// Formats a verdict as its code and text. `start` is a two-column prefix of the first line.
fn coded(start: &str, entry: &Entry, style: Style) -> Vec<String> {
    let code = clean(&entry.verdict.code, 40, style);
    let (_, _, role) = sign(entry.verdict.level, style);
    let text = format!("{code}: {}", words_of(entry, style));
    let lines = wrap(&text, style.columns() - 4).into_iter().enumerate();
    let line = |(i, line): (usize, String)| match line.strip_prefix(&code) {
        Some(rest) if i == 0 => format!("{start}{}{rest}", paint(&code, role, style)),
        _ => format!("    {line}"),
    };
    lines.map(line).collect()
}

/// States how many of the run's cells a group contains: `3 of 20 cells: `.
fn which(group: &Group, total: usize) -> String {
    let such_as = if group.same_text { "" } else { ", such as" };
    match group.cells.len() {
        1 if total > 1 => format!("one of {total} cells: "),
        1 => "one cell: ".to_owned(),
        n if n == total => format!("all {n} cells{such_as}: "),
        n => format!("{n} of {total} cells{such_as}: "),
    }
}

/// Formats a verdict: symbol and name of its level, then its text.
pub(super) fn line_of(level: Level, text: &str, style: Style) -> Vec<String> {
    let (mark, word, role) = sign(level, style);
    let head = format!("{mark} {word:<7}");
    hanging(&format!("{}  ", paint(&head, role, style)), width(&head) + 2, text, style)
}

/// Lists the facts recorded for cells. Facts shared by the same cells are on one line.
pub(super) fn facts(run: &Run, style: Style) -> Vec<String> {
    let mut groups: Vec<(Vec<usize>, Vec<String>)> = Vec::new();
    let mut seen: Vec<(&String, &String)> = Vec::new();
    for fact in run.cells.iter().flat_map(|c| &c.facts) {
        // The simulator's speed differs between cells, and is not a figure of the storage.
        let differs = |c: &Cell| c.facts.get(fact.0).is_some_and(|other| other != fact.1);
        let is_of_simulator = fact.0 == "simulated" && run.cells.iter().any(differs);
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
        let text = match names_of(run, &cells, style) {
            Some(whose) if cells.len() < run.cells.len() => format!("{whose}: {text}"),
            _ => text,
        };
        let head = "in effect  ";
        let facts = hanging(head, width(head), &text, style);
        lines.extend(facts.iter().map(|line| paint(line, Role::Dim, style)));
    }
    lines
}

/// Symbol, name and colour of a verdict's level.
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

/// The names of the cells in a group; empty if the run has only one cell.
fn whose(run: &Run, group: &Group, style: Style) -> String {
    let own = if group.same_text { "" } else { ", each with its own numbers, such as" };
    names_of(run, &group.cells, style).map_or(String::new(), |names| format!("{names}{own}: "))
}

/// Names of the cells with the indices `cells`; None if the run has only one cell.
fn names_of(run: &Run, cells: &[usize], style: Style) -> Option<String> {
    let count = run.cells.len();
    if count <= 1 {
        return None;
    }
    if cells.len() == count {
        // A merged cell is not part of the plan: its number would contradict the plan's.
        let is_on_targets = run.cells.iter().any(|cell| cell.key.is_of_all_targets());
        return Some(if is_on_targets {
            "all cells on all targets".to_owned()
        } else if count == 2 {
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
        let is_merged = run.cells[cells[0]].key.is_of_all_targets();
        return Some(if is_merged { name } else { format!("all cells on {name}") });
    }
    let mut names: Vec<String> =
        cells.iter().map(|&i| short_label_of(run, &run.cells[i].key, style)).collect();
    if names.len() > NAMES_MAX + 1 {
        let bare = |name: &String| name.replace(|c: char| c.is_ascii_digit(), "");
        let first = bare(&names[0]);
        // One name is enough for cells that differ only by a number.
        let are_alike = names.iter().filter(|name| bare(name) == first).count() + 1 >= names.len();
        let shown = if are_alike { 1 } else { NAMES_MAX };
        let others = names.len() - shown;
        names.truncate(shown);
        names.push(format!("{others} more of {count} cells"));
    }
    Some(match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    })
}
