//! The values of a table by their paths, each with its position. An invalid value has only a position,
//! so that rules can check the rest.

use core::ops::Range;
use std::collections::BTreeMap;

/// The values of a table that was read by its schema. Those of nested tables are included: a device has the path
/// `nand.read`.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub(crate) span: Range<usize>,
    pub(crate) entries: BTreeMap<&'static str, Entry>,
}

/// A value and its position in the file.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Byte range in the text.
    pub span: Range<usize>,
    pub(crate) value: Value,
}

/// A value as read.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// The key is present, but its value is invalid.
    Unread,
    /// A size (bytes), a time (ns) or a count.
    Whole(u64),
    /// A bandwidth (bytes per second), a rate (operations per second), a fraction or a number.
    Real(f64),
    Flag(bool),
    Word(&'static str),
    Text(String),
    /// The values of an array, or a single value in its place.
    List {
        items: Vec<Entry>,
        is_array: bool,
    },
    Map(Vec<(String, Entry)>),
    /// A table whose keys are in the surrounding record.
    Table,
    Record(Record),
}

impl Entry {
    pub(crate) fn is_unread(&self) -> bool {
        matches!(self.value, Value::Unread)
    }

    /// The value if it is a size (bytes), a time (ns) or a count.
    pub fn whole(&self) -> Option<u64> {
        if let Value::Whole(whole) = self.value { Some(whole) } else { None }
    }

    /// The value if it is a bandwidth (bytes per second), a rate (operations per second), a fraction or a number.
    pub fn real(&self) -> Option<f64> {
        if let Value::Real(real) = self.value { Some(real) } else { None }
    }

    /// The value if it is a text or a word.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            Value::Word(word) => Some(word),
            _ => None,
        }
    }

    /// The value if it is a record: a table of an array, or a table with its own schema.
    pub fn record(&self) -> Option<&Record> {
        if let Value::Record(record) = &self.value { Some(record) } else { None }
    }

    /// The values of an array, or the single value in its place.
    pub fn items(&self) -> &[Entry] {
        if let Value::List { items, .. } = &self.value { items } else { &[] }
    }

    /// Whether the value was written as an array, where a single value is allowed too.
    pub fn is_array(&self) -> bool {
        matches!(self.value, Value::List { is_array: true, .. })
    }

    /// Keys and values of a [`ValueType::Map`](crate::ValueType::Map).
    pub fn map(&self) -> &[(String, Entry)] {
        if let Value::Map(entries) = &self.value { entries } else { &[] }
    }
}

impl Record {
    /// All existing paths with their entries.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, &Entry)> {
        self.entries.iter().map(|(path, entry)| (*path, entry))
    }

    /// The entry at a path, even if its value is invalid.
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// The value at a path if it is a size (bytes), a time (ns) or a count.
    pub fn whole(&self, path: &str) -> Option<u64> {
        self.get(path)?.whole()
    }

    /// The value at a path if it is a bandwidth (bytes per second), a rate (operations per second), a fraction or a
    /// number.
    pub fn real(&self, path: &str) -> Option<f64> {
        self.get(path)?.real()
    }

    /// The value at a path if it is `true` or `false`.
    pub fn flag(&self, path: &str) -> Option<bool> {
        if let Value::Flag(flag) = self.get(path)?.value { Some(flag) } else { None }
    }

    /// The value at a path if it is a word of [`ValueType::Word`](crate::ValueType::Word) or
    /// [`ValueType::Kind`](crate::ValueType::Kind).
    pub fn word(&self, path: &str) -> Option<&'static str> {
        if let Value::Word(word) = self.get(path)?.value { Some(word) } else { None }
    }

    /// The value at a path if it is a text or a word.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.get(path)?.text()
    }

    /// The text at a path; empty if it is missing.
    pub fn said(&self, path: &str) -> &str {
        self.text(path).unwrap_or_default()
    }

    /// The values of an array, or the single value in its place; empty if the key is missing.
    pub fn items(&self, path: &str) -> &[Entry] {
        self.get(path).map_or(&[], Entry::items)
    }

    /// The valid tables of an array.
    pub fn records(&self, path: &str) -> impl Iterator<Item = &Record> {
        self.items(path).iter().filter_map(Entry::record)
    }

    /// Adds the entries of `base` that this record lacks, at the position of this record's key `base`.
    pub(crate) fn lay_over(&mut self, base: &Self) {
        let span = self.place("base");
        for (path, entry) in base.entries() {
            let inherited = || Entry { span: span.clone(), value: entry.value.clone() };
            self.entries.entry(path).or_insert_with(inherited);
        }
    }

    /// Keeps only the entries whose path satisfies a condition.
    pub fn retain(&mut self, mut keeps: impl FnMut(&str) -> bool) {
        self.entries.retain(|path, _| keeps(path));
    }

    /// The position of a path, or of the innermost existing array or table around it.
    pub fn place(&self, path: &str) -> Range<usize> {
        if let Some((list, rest)) = path.split_once('[')
            && let Some((index, rest)) = rest.split_once(']')
            && let Some(item) = index.parse().ok().and_then(|i: usize| self.items(list).get(i))
        {
            let inside = item.record().zip(rest.strip_prefix('.'));
            return inside.map_or(item.span.clone(), |(record, rest)| record.place(rest));
        }
        let mut path = path;
        loop {
            match (self.get(path), path.rfind(['.', '['])) {
                (Some(entry), _) => return entry.span.clone(),
                (None, Some(end)) => path = &path[..end],
                (None, None) => return self.span.clone(),
            }
        }
    }
}
