//! Formats tables as CSV (RFC 4180, UTF-8, LF line ends). Numbers are unrounded, in the unit named in the column's
//! header.
//!
//! [`table`] formats one table, for spreadsheets and data frames. [`text`] returns the whole document as one text in
//! long form, one cell per line: figures by their ids, the heat map behind a figure's series as `ID-counts`, and tables
//! as `SECTION-table-N`.
//!
//! Spreadsheets evaluate a cell that begins with `=`, `+`, `-` or `@` as a formula, which is unsafe for foreign names
//! (targets, jobs, hosts). Such a cell gets a leading `'` unless it is a number. The page's script writes the same
//! bytes; `tests/html.rs` compares them.

use crate::{Block, Cell, Column, Document, Figure, Table};
use iodyno_units::text::is_hidden;

/// Formats a table as a CSV file. Heading rows become a first column named `group`.
pub fn table(table: &Table) -> String {
    let grouped = table.rows.iter().any(|row| row.is_heading);
    let mut out = String::new();
    let heads = table.columns.iter().map(|column| head(&column.title, &column.unit));
    line(&mut out, grouped.then(|| "group".to_owned()).into_iter().chain(heads));
    let mut group = String::new();
    for row in &table.rows {
        if row.is_heading {
            group = row.cells.first().map(|cell| safe(&cell.text)).unwrap_or_default();
            continue;
        }
        let cells = row.cells.iter().enumerate().map(|(at, cell)| raw(cell, table.columns.get(at)));
        line(&mut out, grouped.then(|| group.clone()).into_iter().chain(cells));
    }
    out
}

/// Formats all tables of a document as one CSV text with one line per cell: section, figure or table, row
/// number from 1, column, unit, displayed text, and the raw value of a number.
pub fn text(document: &Document) -> String {
    let mut out = "section,of,row,column,unit,text,value\n".to_owned();
    for (section, name, table) in tables(document) {
        let rows = table.rows.iter().filter(|row| !row.is_heading);
        for (number, row) in rows.enumerate() {
            for (column, cell) in table.columns.iter().zip(&row.cells) {
                let cells = [
                    safe(&section),
                    safe(&name),
                    (number + 1).to_string(),
                    safe(&column.title),
                    safe(&column.unit),
                    safe(&cell.text),
                    value(cell).unwrap_or_default(),
                ];
                line(&mut out, cells.into_iter());
            }
        }
    }
    out
}

/// Tables of a document, including the data of its figures: section id, name and table.
fn tables(document: &Document) -> impl Iterator<Item = (String, String, Table)> {
    document.sections.iter().flat_map(|section| {
        let mut number = 0;
        let of_block = move |block: &Block| match block {
            Block::Figure(figure) => of_figure(figure),
            Block::Gallery(figures) => figures.iter().flat_map(of_figure).collect(),
            Block::Table(table) => {
                number += 1;
                vec![(format!("{}-table-{number}", section.id), table.clone())]
            }
            _ => Vec::new(),
        };
        let found = section.blocks.iter().flat_map(of_block);
        found.map(|(name, table)| (section.id.clone(), crate::name::safe(&name), table))
    })
}

/// Data of a figure, and the counts of its heat maps if these are a table of their own, each with its name.
fn of_figure(figure: &Figure) -> Vec<(String, Table)> {
    let counts = figure.counts().map(|table| (format!("{}-counts", figure.id), table));
    std::iter::once((figure.id.clone(), figure.data())).chain(counts).collect()
}

/// Column header for data files: the title, with the unit in parentheses.
pub(crate) fn head(title: &str, unit: &str) -> String {
    safe(&if unit.is_empty() { title.to_owned() } else { format!("{title} ({unit})") })
}

/// Raw number of a cell, or its text if it is not a number. An unknown number is an empty field.
fn raw(cell: &Cell, column: Option<&Column>) -> String {
    let is_unknown = cell.is_none() && column.is_some_and(|column| column.is_number);
    value(cell).unwrap_or_else(|| if is_unknown { String::new() } else { safe(&cell.text) })
}

/// Raw number of a cell in its shortest lossless form; None if the cell is not a number.
pub(crate) fn value(cell: &Cell) -> Option<String> {
    cell.value.filter(|value| value.is_finite()).map(|value| value.to_string())
}

/// Makes text safe for CSV: prevents spreadsheets from evaluating the text as a formula, and replaces invisible
/// characters other than line feeds by U+FFFD.
pub fn safe(text: &str) -> String {
    let hidden = |c: char| is_hidden(c) && c != '\n';
    let text: String = text.chars().map(|c| if hidden(c) { '\u{fffd}' } else { c }).collect();
    let number = text.parse::<f64>().is_ok_and(f64::is_finite);
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) && !number {
        format!("'{text}")
    } else {
        text
    }
}

/// Writes a line of comma-separated cells, quoted where necessary.
fn line(out: &mut String, cells: impl Iterator<Item = String>) {
    for (i, cell) in cells.enumerate() {
        if i > 0 {
            out.push(',');
        }
        if cell.contains(['"', ',', '\n', '\r']) {
            out.push('"');
            out.push_str(&cell.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(&cell);
        }
    }
    out.push('\n');
}
