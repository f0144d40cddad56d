//! The result of verifying content, as a table: shown for a pass over a whole target, and for errors.

use super::short_label_of;
use iodyno_measure::{Cell, Verification};
use iodyno_notebook::Run;
use iodyno_page::terminal::Style;
use iodyno_page::terminal::table::{self, Column, Field};
use iodyno_page::terminal::text::Role;
use iodyno_units::human;

/// A row: the state of the blocks, its colour, the numbers of reads and of distinct blocks, and the first
/// offsets.
struct Row {
    what: String,
    role: Role,
    reads: u64,
    blocks: Option<u64>,
    first: String,
}

pub(super) fn lines(run: &Run, style: Style) -> Vec<String> {
    let is_shown =
        |v: &&Verification| v.checked > 0 && (v.read_share.is_some() || !v.found.is_empty());
    let of = |cell: &Cell| cell.evidence.verification.clone().filter(|v| is_shown(&v));
    let mut cells = Column::new("", 0);
    let mut what = Column::new("content", 0);
    let mut reads = Column::new("blocks read", 0);
    let mut bytes = Column::new("size", 1);
    let mut blocks = Column::new("different", 2);
    let mut first = Column::new("first at byte", 3);
    for (cell, v) in run.cells.iter().filter_map(|cell| Some((cell, of(cell)?))) {
        let name = short_label_of(run, &cell.key, style);
        for (i, row) in rows(&v).into_iter().enumerate() {
            let is_first = i == 0;
            let field = if is_first { Field::Text(name.clone(), Role::Bold) } else { Field::Empty };
            cells.fields.push(field);
            what.fields.push(Field::Text(row.what, row.role));
            reads.fields.push(Field::figure(&row.reads.to_string(), row.role));
            let size = human::size(row.reads * u64::from(v.unit_bytes));
            bytes.fields.push(Field::figure(&size, Role::Dim));
            let known = |n: u64| Field::figure(&n.to_string(), Role::Plain);
            blocks.fields.push(row.blocks.map_or(Field::Empty, known));
            first.fields.push(Field::Text(row.first, Role::Dim));
        }
    }
    if cells.fields.is_empty() {
        return Vec::new();
    }
    let mut columns = vec![cells, what, reads, bytes, blocks, first];
    table::fit(&mut columns, style.columns());
    table::lines(&columns, style)
}

fn rows(v: &Verification) -> Vec<Row> {
    let row = |what: &str, role, reads| {
        let (what, first) = (what.to_owned(), String::new());
        Row { what, role, reads, blocks: None, first }
    };
    let mut rows = vec![
        row("of the latest write", Role::Green, v.current),
        row("whole, age unknown", Role::Plain, v.whole),
        row("not verifiable", Role::Yellow, v.unverified),
    ];
    rows.retain(|row| row.reads > 0);
    for (finding, found) in &v.found {
        let role = if finding.is_wrong() { Role::Red } else { Role::Yellow };
        let places: Vec<String> = found.first_bytes.iter().map(ToString::to_string).collect();
        let first = places.join(" ");
        rows.push(Row {
            blocks: Some(found.units),
            first,
            ..row(finding.name(), role, found.reads)
        });
    }
    rows
}
