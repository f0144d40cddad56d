//! A device or system file as it is written: a tree of tables and values, each with the place where
//! it stands, and nothing decided yet.
//!
//! The tree knows no keys, unlike a struct that serde fills: such a struct stops at the first key or
//! value that does not fit, and whoever describes a device of thirty parameters wants to hear of
//! all that is wrong at once. [`reader`](super::reader) holds the tree against the form.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_spanned::Spanned;

/// A device or system file as it is written. Made by serde (from TOML); its parts are not for
/// callers.
#[derive(Debug)]
pub struct RawFile(pub(super) Table);

impl RawFile {
    /// What the file calls itself: `device` or `system`.
    pub fn kind(&self) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(key, _)| key.get_ref() == "kind")?;
        match value.get_ref() {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Keys and values in the order of the file. TOML has seen to it that no key comes twice.
pub(super) type Table = Vec<(Spanned<String>, Spanned<Node>)>;

/// One value of the file.
#[derive(Debug)]
pub(super) enum Node {
    Text(String),
    Whole(i64),
    Real(f64),
    Flag(bool),
    Array(Vec<Spanned<Node>>),
    Table(Table),
}

impl Node {
    /// What it is, as in "this is …".
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Text(text) => format!("the text {text:?}"),
            Self::Whole(whole) => format!("the integer {whole}"),
            Self::Real(real) => format!("the number {real}"),
            Self::Flag(flag) => format!("the boolean {flag}"),
            Self::Array(_) => "an array".to_owned(),
            Self::Table(_) => "a table".to_owned(),
        }
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_i64<E: Error>(self, whole: i64) -> Result<Node, E> {
        Ok(Node::Whole(whole))
    }

    fn visit_f64<E: Error>(self, real: f64) -> Result<Node, E> {
        Ok(Node::Real(real))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Node, E> {
        Ok(Node::Flag(flag))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element()? {
            array.push(item);
        }
        Ok(Node::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut table = Table::new();
        while let Some(key) = entries.next_key()? {
            table.push((key, entries.next_value()?));
        }
        Ok(Node::Table(table))
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

impl<'de> Deserialize<'de> for RawFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Node::deserialize(deserializer)? {
            Node::Table(table) => Ok(Self(table)),
            other => Err(D::Error::custom(format!("expected a table, got {}", other.in_words()))),
        }
    }
}
