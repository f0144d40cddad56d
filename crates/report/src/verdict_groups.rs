//! Groups equal verdicts on several cells (measurements), so that the terminal and pages show each verdict as one line
//! with the number of cells.

use iodyno_measure::{Cell, Level, Verdict};
use iodyno_method::findings::Row;
use iodyno_page::Tone;

/// Minimum number of groups to merge if they have the same code and texts that differ only by numbers.
const ALIKE_MIN: usize = 4;

/// A verdict, with all cells that have it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group<'a> {
    /// Verdict of the first cell in the group, as an example for the others.
    pub verdict: &'a Verdict,
    /// Indices of the cells (measurements) with the verdict, ascending. Each cell occurs once, even if it has the
    /// verdict for both reads and writes.
    pub cells: Vec<usize>,
    /// Number of verdicts combined in the group. A cell may contribute several.
    pub count: usize,
    /// Whether all verdicts in the group have the same text.
    pub same_text: bool,
}

/// Groups the verdicts of `cells`, the most severe first. By default, a group has verdicts with the same
/// text, or at least four of one code that differ only by numbers. With `by_code`, a group has all verdicts
/// of one code, and the code `PREPARATION` is left out.
pub(crate) fn groups(cells: &[Cell], by_code: bool) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (i, cell) in cells.iter().enumerate() {
        for verdict in cell.verdicts.iter().filter(|v| !by_code || v.code != "PREPARATION") {
            let same = |g: &&mut Group<'_>| {
                if by_code {
                    (&g.verdict.code, g.verdict.level) == (&verdict.code, verdict.level)
                } else {
                    g.verdict == verdict
                }
            };
            match groups.iter_mut().find(same) {
                Some(group) => {
                    group.count += 1;
                    group.same_text &= group.verdict.text == verdict.text;
                    if group.cells.last() != Some(&i) {
                        group.cells.push(i);
                    }
                }
                None => groups.push(Group { verdict, cells: vec![i], count: 1, same_text: true }),
            }
        }
    }
    let mut groups = if by_code { groups } else { joined(groups) };
    groups.sort_by_key(|g| rank(g.verdict.level));
    groups
}

/// Number of cells that the groups cover. With `by_code`, cells that only prepare are not counted.
pub(crate) fn count(cells: &[Cell], by_code: bool) -> usize {
    let prepares = |c: &Cell| c.verdicts.iter().all(|v| v.code == "PREPARATION");
    cells.iter().filter(|c| !by_code || c.verdicts.is_empty() || !prepares(c)).count()
}

/// Merges groups with the same code whose texts differ only by numbers, if there are at least [`ALIKE_MIN`].
fn joined(groups: Vec<Group<'_>>) -> Vec<Group<'_>> {
    let keys: Vec<(&str, Level, String)> = groups
        .iter()
        .map(|g| (g.verdict.code.as_str(), g.verdict.level, without_numbers(&g.verdict.text)))
        .collect();
    let mut out: Vec<Group<'_>> = Vec::new();
    let mut at: Vec<usize> = Vec::new();
    for (i, group) in groups.into_iter().enumerate() {
        let alike = keys.iter().filter(|k| **k == keys[i]).count();
        let first = at.iter().position(|&j| keys[j] == keys[i]);
        if let Some(first) = first.filter(|_| alike >= ALIKE_MIN) {
            out[first].cells.extend(group.cells);
            out[first].count += group.count;
            out[first].same_text = false;
        } else {
            out.push(group);
            at.push(i);
        }
    }
    for group in &mut out {
        group.cells.sort_unstable();
        group.cells.dedup();
    }
    out
}

/// Replaces each number and its unit in a text with a placeholder.
pub(crate) fn without_numbers(text: &str) -> String {
    const UNITS: [&str; 22] = [
        "ns",
        "µs",
        "ms",
        "s",
        "min",
        "h",
        "k",
        "M",
        "G",
        "B",
        "KiB",
        "MiB",
        "GiB",
        "TiB",
        "B/s",
        "kB/s",
        "MB/s",
        "GB/s",
        "TB/s",
        "%",
        "operations",
        "operation",
    ];
    let mut words: Vec<&str> = Vec::new();
    for word in text.split_whitespace() {
        let bare = word.trim_matches(|c: char| "(),;:.".contains(c));
        if word.contains(|c: char| c.is_ascii_digit()) {
            words.push("#");
        } else if words.last() != Some(&"#") || !UNITS.contains(&bare) {
            words.push(word);
        }
    }
    words.join(" ")
}

/// Sort key of a level: the most severe first, and notes after VALID.
pub(crate) const fn rank(level: Level) -> u8 {
    match level {
        Level::Invalid => 0,
        Level::Warning => 1,
        Level::Valid => 2,
        Level::Note => 3,
    }
}

/// Display tone of a verdict's level.
pub(crate) const fn tone(level: Level) -> Tone {
    match level {
        Level::Valid => Tone::Good,
        Level::Note => Tone::Note,
        Level::Warning => Tone::Warning,
        Level::Invalid => Tone::Bad,
    }
}

/// Display tone of a measured point: plain, unless one of its verdicts is a warning or worse.
pub(crate) fn tone_of_point(row: &Row) -> Tone {
    row.level.filter(|level| *level >= Level::Warning).map_or(Tone::Plain, tone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(verdicts: &[(&str, &str)]) -> Cell {
        let verdict = |(code, text): &(&str, &str)| Verdict {
            code: (*code).to_owned(),
            level: Level::Note,
            text: (*text).to_owned(),
        };
        Cell { verdicts: verdicts.iter().map(verdict).collect(), ..Cell::default() }
    }

    /// A cell with the same verdict for reads and writes counts once, and a cell that only prepares does not
    /// count.
    #[test]
    fn a_cell_is_counted_once() {
        let both = cell(&[("FEW", "5 reads"), ("FEW", "7 writes")]);
        let cells = [cell(&[("PREPARATION", "purge")]), both.clone(), both];
        let groups = groups(&cells, true);
        assert_eq!(groups.len(), 1);
        let group = &groups[0];
        assert_eq!((group.cells.as_slice(), group.count), (&[1, 2][..], 4));
        assert!(!group.same_text);
        assert_eq!(count(&cells, true), 2);
    }

    /// Many verdicts whose texts differ only by numbers and units share one line. A few of them keep their own
    /// lines, and other texts are never merged with them.
    #[test]
    fn cells_that_differ_by_numbers_are_one_line() {
        let of = |n: u32| {
            let texts: Vec<String> = (0..n).map(|i| format!("stalled for {i}.5 ms, p99")).collect();
            let mut cells: Vec<Cell> = texts.iter().map(|t| cell(&[("S", t)])).collect();
            cells.push(cell(&[("S", "stalled for 900 ns, p99")]));
            cells.push(cell(&[("S", "stood still for 3 ms")]));
            let groups = groups(&cells, false);
            groups.iter().map(|g| (g.cells.len(), g.same_text)).collect::<Vec<_>>()
        };
        assert_eq!(of(2), [(1, true); 4]);
        assert_eq!(of(3), [(4, false), (1, true)]);
        assert_eq!(of(62), [(63, false), (1, true)]);
    }
}
