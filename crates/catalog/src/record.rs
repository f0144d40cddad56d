//! Values of a TOML table by path, each with its position. Of an invalid value only the position is stored, and rules
//! can still check the other values.

use core::ops::Range;
use std::collections::BTreeMap;

/// Values of a table that was read by a schema. A value is found by its path, such as `nand.read`; nested tables are
/// included.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub(crate) span: Range<usize>,
    pub(crate) entries: BTreeMap<&'static str, Entry>,
}

/// A value and its position in the file.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Byte range of the value in the text.
    pub span: Range<usize>,
    pub(crate) value: Value,
}

/// The value of a key in a file, by its type in the schema.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// An invalid value of an existing key.
    Unread,
    /// A size (bytes), a time (ns) or a count.
    Whole(u64),
    /// A bandwidth (bytes per second), a rate (operations per second), a fraction or a number.
    Real(f64),
    Flag(bool),
    Word(&'static str),
    Text(String),
    /// Values of an array, or one value in place of an array.
    List {
        items: Vec<Entry>,
        is_array: bool,
    },
    Map(Vec<(String, Entry)>),
    /// A nested table, whose values are stored in the record of the outer table.
    Table,
    Record(Record),
}

impl Entry {
    pub(crate) fn is_unread(&self) -> bool {
        matches!(self.value, Value::Unread)
    }

    /// Value of a size (bytes), time (ns) or count; `None` for other types.
    pub fn whole(&self) -> Option<u64> {
        if let Value::Whole(whole) = self.value { Some(whole) } else { None }
    }

    /// Value of a bandwidth (bytes per second), rate (operations per second), fraction or number; `None` for
    /// other types.
    pub fn real(&self) -> Option<f64> {
        if let Value::Real(real) = self.value { Some(real) } else { None }
    }

    /// Text, or keyword as text; `None` for other types.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            Value::Word(word) => Some(word),
            _ => None,
        }
    }

    /// Record of this entry, if the entry is a table in an array, or has the type
    /// [`ValueType::Record`](crate::ValueType::Record). `None` for other types.
    pub fn record(&self) -> Option<&Record> {
        if let Value::Record(record) = &self.value { Some(record) } else { None }
    }

    /// Values of an array; where an array is allowed, a single value counts as an array of one. Empty for other types.
    pub fn items(&self) -> &[Entry] {
        if let Value::List { items, .. } = &self.value { items } else { &[] }
    }

    /// Whether the file contains an array here. False for a single value where both are allowed.
    pub fn is_array(&self) -> bool {
        matches!(self.value, Value::List { is_array: true, .. })
    }

    /// Keys and values of a [`ValueType::Map`](crate::ValueType::Map).
    pub fn map(&self) -> &[(String, Entry)] {
        if let Value::Map(entries) = &self.value { entries } else { &[] }
    }
}

impl Record {
    /// All entries, including inherited ones, as pairs of path and value.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, &Entry)> {
        self.entries.iter().map(|(path, entry)| (*path, entry))
    }

    /// Value at a path, even if invalid; `None` if missing.
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// Size (bytes), time (ns) or count at a path; `None` if missing or of another type.
    pub fn whole(&self, path: &str) -> Option<u64> {
        self.get(path)?.whole()
    }

    /// Bandwidth (bytes per second), rate (operations per second), fraction or number at a path; `None` if
    /// missing or of another type.
    pub fn real(&self, path: &str) -> Option<f64> {
        self.get(path)?.real()
    }

    /// `true` or `false` at a path; `None` if missing or of another type.
    pub fn flag(&self, path: &str) -> Option<bool> {
        if let Value::Flag(flag) = self.get(path)?.value { Some(flag) } else { None }
    }

    /// Keyword of [`ValueType::Word`](crate::ValueType::Word) or [`ValueType::Kind`](crate::ValueType::Kind) at a
    /// path; `None` if missing or of another type.
    pub fn word(&self, path: &str) -> Option<&'static str> {
        if let Value::Word(word) = self.get(path)?.value { Some(word) } else { None }
    }

    /// Text, or keyword as text, at a path; `None` if missing or of another type.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.get(path)?.text()
    }

    /// Text at a path; empty if the key is missing or has another type.
    pub fn said(&self, path: &str) -> &str {
        self.text(path).unwrap_or_default()
    }

    /// Values of the array at a path; where an array is allowed, a single value counts as an array of one. Empty if the
    /// key is missing or has another type.
    pub fn items(&self, path: &str) -> &[Entry] {
        self.get(path).map_or(&[], Entry::items)
    }

    /// Records of the tables in the array at a path. Skips items of other types.
    pub fn records(&self, path: &str) -> impl Iterator<Item = &Record> {
        self.items(path).iter().filter_map(Entry::record)
    }

    /// Inherits the entries of `base` that this record lacks. Errors in these entries are reported at the key `base`
    /// of this file.
    pub(crate) fn lay_over(&mut self, base: &Self) {
        let span = self.place("base");
        for (path, entry) in base.entries() {
            let inherited = || Entry { span: span.clone(), value: entry.value.clone() };
            self.entries.entry(path).or_insert_with(inherited);
        }
    }

    /// Removes all entries whose path `keeps` rejects.
    pub fn retain(&mut self, mut keeps: impl FnMut(&str) -> bool) {
        self.entries.retain(|path, _| keeps(path));
    }

    /// Byte range of the value at a path. If the value is missing, the byte range of the innermost array or table that
    /// would contain it.
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
