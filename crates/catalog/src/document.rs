//! A parsed TOML file before its interpretation: a tree of tables and values, each with its position. A value is
//! found and replaced by its path, such as `nand.read` or `volumes[0].count`. Schemas define which paths exist.

use core::ops::Range;

use serde_spanned::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::FileError;
use crate::file::File;
use crate::find::Kind;

/// A TOML value and its position in the text.
pub(crate) type Node<'a> = Spanned<DeValue<'a>>;
pub(crate) type Table<'a> = DeTable<'a>;

/// Parses a text as TOML.
pub(crate) fn parse(text: &str) -> Result<Table<'_>, FileError> {
    DeTable::parse(text)
        .map(Spanned::into_inner)
        .map_err(|error| FileError::new(error.span().unwrap_or(0..0), error.message()))
}

impl File {
    /// Type of file named by the key `kind`; `None` if the key is missing or unknown, or the file is not TOML.
    pub fn kind(&self) -> Option<Kind> {
        kind(parse(&self.text).ok()?.get("kind")?.get_ref())
    }

    /// Text of the value at a path such as `nand.read`, as written in the file. If the value is
    /// `{ is = VALUE, from = … }`, returns only VALUE. `None` if the key is missing or the file is not TOML.
    pub fn get(&self, path: &str) -> Option<&str> {
        let root = parse(&self.text).ok()?;
        let (node, rest) = walk(&root, path);
        let span = value_of(node.filter(|_| rest.is_empty())?).span();
        Some(&self.text[span])
    }

    /// Returns a copy of the file with a new value at a path. `value` is parsed as TOML, or taken as a string if that
    /// fails. A missing key is added to the innermost existing table on its path. The rest of the text is unchanged.
    ///
    /// # Errors
    /// The file is not TOML, no table can contain this key, or the path is invalid.
    pub fn set(&self, path: &str, value: &str) -> Result<Self, FileError> {
        let value = match DeValue::parse(value) {
            Ok(_) => value.to_owned(),
            Err(_) => toml::Value::from(value).to_string(),
        };
        let root = parse(&self.text)?;
        let (node, rest) = walk(&root, path);
        let (at, new): (Range<usize>, String) = match node {
            Some(node) if rest.is_empty() => (value_of(node).span(), value),
            Some(node) if !node.get_ref().is_table() || rest.contains('[') => {
                let message = format!(
                    "`{path}` can't be set: the file has no table or list item for `{rest}`"
                );
                return Err(FileError::new(node.span(), message));
            }
            Some(node) if self.text[node.span()].starts_with('[') => {
                (node.span().end..node.span().end, format!("\n{rest} = {value}"))
            }
            Some(node) if self.text[node.span()].starts_with('{') => {
                let comma =
                    node.get_ref().as_table().map_or("", |t| if t.is_empty() { "" } else { "," });
                let inside = node.span().start + 1;
                (inside..inside, format!(" {rest} = {value}{comma}"))
            }
            // Top-level keys, and tables written as dotted keys.
            _ => (0..0, format!("{path} = {value}\n")),
        };
        let (before, after) = (&self.text[..at.start], &self.text[at.end..]);
        let text = format!("{before}{new}{after}");
        parse(&text)?;
        Ok(Self { text: text.into(), ..self.clone() })
    }
}

/// Follows a path as far as it exists. Returns the last existing value (None if there is none) and the rest
/// of the path.
fn walk<'a, 'p>(root: &'a Table<'a>, path: &'p str) -> (Option<&'a Node<'a>>, &'p str) {
    let (mut table, mut node, mut rest) = (Some(root), None, path);
    while !rest.is_empty() {
        let ends = rest.char_indices().skip(1).find(|(_, c)| matches!(c, '.' | '['));
        let end = ends.map_or(rest.len(), |(at, _)| at);
        let next = match rest[..end].strip_prefix('[').and_then(|i| i.strip_suffix(']')) {
            Some(index) => {
                let items = node.and_then(|n: &Node<'_>| n.get_ref().as_array());
                index.parse::<usize>().ok().and_then(|index| items?.get(index))
            }
            None => table.and_then(|table| table.get(&rest[..end])),
        };
        let Some(next) = next else { break };
        (node, table) = (Some(next), next.get_ref().as_table());
        rest = rest[end..].strip_prefix('.').unwrap_or(&rest[end..]);
    }
    (node, rest)
}

/// Type of file that the value of the key `kind` names; `None` if unknown.
pub(crate) fn kind(value: &DeValue<'_>) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| value.as_str() == Some(kind.noun()))
}

/// Bare value of a parameter, which may be written with its source as `{ is = VALUE, from = … }`.
fn value_of<'a>(node: &'a Node<'a>) -> &'a Node<'a> {
    node.get_ref().get("is").unwrap_or(node)
}

/// Converts a TOML value to an integer; `None` for other types, or beyond 64 bits.
pub(crate) fn whole(value: &DeValue<'_>) -> Option<i64> {
    let written = value.as_integer()?;
    i64::from_str_radix(written.as_str(), written.radix()).ok()
}

/// Converts a TOML integer or float to a float; `None` for other types.
pub(crate) fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Float(written) => written.as_str().parse().ok(),
        _ => whole(value).map(|whole| whole as f64),
    }
}

/// Text of a TOML value, without quotes. An array gives its items, separated by commas; a table gives an empty text.
pub(crate) fn plain(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.clone().into_owned(),
        DeValue::Integer(_) => whole(value).map_or(String::new(), |whole| whole.to_string()),
        DeValue::Float(_) => number(value).map_or(String::new(), |number| number.to_string()),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(date) => date.to_string(),
        DeValue::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| plain(item.get_ref())).collect();
            items.join(", ")
        }
        DeValue::Table(_) => String::new(),
    }
}

/// Describes a TOML value for error messages, such as "the integer 3".
pub(crate) fn in_words(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the text {text:?}"),
        DeValue::Integer(written) => format!("the integer {written}"),
        DeValue::Float(_) => format!("the number {}", plain(value)),
        DeValue::Boolean(flag) => format!("the boolean {flag}"),
        DeValue::Datetime(date) => format!("the date {date}"),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
