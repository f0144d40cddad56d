//! Writes a specification as a workload file, in the form stored with runs or in a short form for people.

use super::addresses::addresses_text;
use super::value::{Form, Value};
use super::{LOG, ROWS, Row, Written};
use crate::log_load::LogLoad;
use crate::range::time_text;
use crate::spec::Spec;
use std::fmt::{self, Write as _};

/// Formats a specification as a workload file, in the form stored with a run or in the short one.
pub(crate) fn text(spec: &Spec, form: Form) -> String {
    Writer { spec, blank: Spec::blank(), form }.rows(&ROWS)
}

/// Formats the table `[log]` of a workload file, with every key.
impl fmt::Display for LogLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = Spec { log: Some(*self), ..Spec::blank() };
        let writer = Writer { spec: &spec, blank: Spec::blank(), form: Form::Stored };
        write!(f, "[log]\n{}", writer.rows(&LOG))
    }
}

struct Writer<'a> {
    spec: &'a Spec,
    /// A specification with only defaults, for comparison.
    blank: Spec,
    form: Form,
}

impl Writer<'_> {
    /// Whether the short form includes a key even if it is not required: if it has a value, and is marked
    /// [`Written::Always`], differs from the default, or is a table with such a key.
    fn is_told(&self, row: &Row) -> bool {
        let value = (row.get)(self.spec);
        let is_told =
            || value != (row.get)(&self.blank) || row.rows.iter().any(|r| self.is_told(r));
        value.is_some() && (row.written == Written::Always || is_told())
    }

    /// Value of a key; None if the form omits the key or the specification has no value for it.
    fn value(&self, row: &Row) -> Option<Value> {
        let is_whole = self.form == Form::Stored && row.written != Written::Sparse;
        (row.get)(self.spec).filter(|_| is_whole || row.key.required || self.is_told(row))
    }

    /// Formats `key = value`, with a table on one line; None if the form omits the key.
    fn line(&self, row: &Row) -> Option<String> {
        let mut value = value_text(&self.value(row)?, self.form);
        if !row.rows.is_empty() {
            let keys = row.rows.iter().filter_map(|row| self.line(row));
            value = format!("{{ {} }}", keys.collect::<Vec<_>>().join(", "));
        }
        Some(format!("{} = {value}", row.key.name()))
    }

    /// Formats the keys that are not tables, one per line, then each table under its own heading.
    fn rows(&self, rows: &[Row]) -> String {
        // The short form has the mix on one line.
        let on_one_line = |row: &Row| self.form == Form::Short && row.key.path == "mix";
        let is_table = |row: &&Row| !(row.rows.is_empty() || on_one_line(row));
        let (tables, keys): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(is_table);
        let lines = keys.into_iter().filter_map(|row| Some(self.line(row)? + "\n"));
        let mut text: String = lines.collect();
        for row in tables.into_iter().filter(|row| self.value(row).is_some()) {
            // The specification as a workload file for people, which leaves out most keys with their default.
            let _ = write!(text, "\n[{}]\n{}", row.key.path, self.rows(row.rows));
        }
        text
    }
}

/// Formats a value as TOML, with the fewest digits from which it can be read back exactly.
fn value_text(value: &Value, form: Form) -> String {
    match (value, form) {
        (Value::Text(text), _) => text.clone(),
        (Value::Time(ns), Form::Stored) => format!("\"{ns}ns\""),
        (Value::Time(ns), Form::Short) => format!("\"{}\"", time_text(*ns)),
        (Value::Addresses(addresses), form) => addresses_text(addresses, form),
    }
}
