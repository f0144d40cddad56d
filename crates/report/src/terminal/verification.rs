//! Table with the result of content verification, shown if a whole target was verified or if there were errors.

use super::short_label_of;
use iodyno_measure::{Cell, Verification};
use iodyno_notebook::Run;
use iodyno_page::terminal::{Style, table};
use iodyno_page::{Cell as Field, Column, Table, Tone};
use iodyno_units::human;

/// A row of the table of verified data: state of the blocks, tone, number of reads, number of distinct
/// blocks, and the first offsets.
struct Row {
    what: String,
    tone: Tone,
    reads: u64,
    blocks: Option<u64>,
    first: String,
}

pub(super) fn lines(run: &Run, style: Style) -> Vec<String> {
    let is_shown =
        |v: &&Verification| v.checked > 0 && (v.read_share.is_some() || !v.found.is_empty());
    let of = |cell: &Cell| cell.evidence.verification.clone().filter(|v| is_shown(&v));
    let mut table = Table::new([
        Column::words(""),
        Column::words("content"),
        Column::numbers("blocks read", ""),
        Column::numbers("size", "bytes").ranked(1),
        Column::numbers("different", "").ranked(2),
        Column::words("first at byte").ranked(3),
    ]);
    for (cell, v) in run.cells.iter().filter_map(|cell| Some((cell, of(cell)?))) {
        let mut name = short_label_of(run, &cell.key, style);
        for row in rows(&v) {
            let bytes = row.reads * u64::from(v.unit_bytes);
            let count = |n: u64| Field::number(n.to_string(), n as f64);
            table.push([
                Field::words(std::mem::take(&mut name)).toned(Tone::Strong),
                Field::words(row.what).toned(row.tone),
                count(row.reads).toned(row.tone),
                Field::number(human::size(bytes), bytes as f64).toned(Tone::Dim),
                row.blocks.map_or_else(Field::empty, count),
                Field::words(row.first).toned(Tone::Dim),
            ]);
        }
    }
    if table.rows.is_empty() { Vec::new() } else { table::fitted(&table, style) }
}

fn rows(v: &Verification) -> Vec<Row> {
    let row = |what: &str, tone, reads| {
        let (what, first) = (what.to_owned(), String::new());
        Row { what, tone, reads, blocks: None, first }
    };
    let mut rows = vec![
        row("latest write", Tone::Good, v.current),
        row("whole, age unknown", Tone::Plain, v.whole),
        row("not verifiable", Tone::Warning, v.unverified),
    ];
    rows.retain(|row| row.reads > 0);
    for (finding, found) in &v.found {
        let tone = if finding.is_wrong() { Tone::Bad } else { Tone::Warning };
        let places: Vec<String> = found.first_bytes.iter().map(ToString::to_string).collect();
        let first = places.join(" ");
        rows.push(Row {
            blocks: Some(found.units),
            first,
            ..row(finding.name(), tone, found.reads)
        });
    }
    rows
}
