//! Formats runs as CSV (RFC 4180 with line feeds), with the tables of `table.rs`. Values that are unknown or have too
//! few samples are empty fields.

use crate::table::{self, Column};
use iodyno_notebook::Run;
use std::fmt::Write as _;

/// Returns a CSV table with one row per measurement and kind of operation. A measurement without operations has one
/// row, whose kind is empty.
pub fn cells(run: &Run) -> String {
    let mut out = Rows::new(&table::cell_columns());
    table::add_cells(run, &mut out);
    out.text
}

/// Returns a CSV table with one row per measurement, interval and kind of operation that occurs in the measurement. An
/// interval without operations of that kind has zeroes.
pub fn series(run: &Run) -> String {
    let mut out = Rows::new(&table::series_columns());
    table::add_series(run, &mut out);
    out.text
}

/// Text of CSV rows, built field by field.
struct Rows {
    text: String,
    at_start: bool,
}

impl Rows {
    fn new(columns: &[Column]) -> Self {
        let mut rows = Self { text: String::new(), at_start: true };
        for column in columns {
            table::Rows::text(&mut rows, Some(&column.name));
        }
        table::Rows::end(&mut rows);
        rows
    }

    fn separate(&mut self) {
        if !self.at_start {
            self.text.push(',');
        }
        self.at_start = false;
    }

    fn display(&mut self, value: Option<impl std::fmt::Display>) {
        self.separate();
        if let Some(value) = value {
            let _ = write!(self.text, "{value}");
        }
    }
}

impl table::Rows for Rows {
    fn text(&mut self, value: Option<&str>) {
        self.separate();
        // Names are untrusted text: they must not move a cursor or become a spreadsheet formula.
        let field = iodyno_page::csv::safe(value.unwrap_or_default());
        if field.contains(['"', ',', '\n', '\r']) {
            let _ = write!(self.text, "\"{}\"", field.replace('"', "\"\""));
        } else {
            self.text.push_str(&field);
        }
    }

    fn count(&mut self, value: Option<u64>) {
        self.display(value);
    }

    fn number(&mut self, value: Option<f64>) {
        self.display(value);
    }

    fn end(&mut self) {
        self.text.push('\n');
        self.at_start = true;
    }
}
