//! Single values: from what is written to a number in the unit of the machine (bytes, ns, bytes a
//! second), or a sentence that says what would have been right.

use iodyno_units::{
    nearest, parse_bandwidth_bytes_per_s, parse_duration_ns, parse_percent, parse_size,
};

use super::raw::Node;
use super::schema::ValueType;

/// A value that was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    /// A size, a time or a count.
    Whole(u64),
    /// A bandwidth, a share or a number.
    Real(f64),
    Flag(bool),
    Word(&'static str),
}

/// A message, and how to mend it if the message does not say.
pub(super) type Refusal = (String, Option<String>);

/// The value of `node`, written as `form` has it.
pub(super) fn read(node: &Node, form: ValueType, path: &str) -> Result<Value, Refusal> {
    let expected = |what: &str| {
        let message = format!("`{path}` is {what}, not {}", node.in_words());
        Err((message, Some(format!("write it such as `{}`", form.example()))))
    };
    let outside = || (format!("`{path}` is from {}", form.limits()), None);
    let said = |error: iodyno_units::ParseUnitError| (format!("`{path}`: {error}"), None);
    match form {
        ValueType::Size(least, most) => {
            let Node::Text(text) = node else { return expected("a size with its unit") };
            if text.trim_end().ends_with(|c: char| c.is_ascii_digit()) {
                return expected("a size with its unit");
            }
            let bytes = parse_size(text).map_err(said)?;
            within(bytes, least, most).ok_or_else(outside)
        }
        ValueType::Time(least, most) => {
            let Node::Text(text) = node else { return expected("a time with its unit") };
            let ns = parse_duration_ns(text).map_err(said)?;
            within(ns, least, most).ok_or_else(outside)
        }
        ValueType::Bandwidth(least, most) => {
            let Node::Text(text) = node else { return expected("a bandwidth with its unit") };
            let bytes_per_s = parse_bandwidth_bytes_per_s(text).map_err(said)?;
            real_within(bytes_per_s, least, most).ok_or_else(outside)
        }
        ValueType::Count(least, most) => {
            let Node::Whole(whole) = *node else { return expected("a whole number") };
            // What is below 0 is outside of every limit.
            let count = u64::try_from(whole).unwrap_or(u64::MAX);
            within(count, least, most).ok_or_else(outside)
        }
        ValueType::Share(most) => {
            let share = match node {
                Node::Text(text) => parse_percent(text).map_err(said)?,
                Node::Real(real) => *real,
                Node::Whole(whole) => *whole as f64,
                _ => return expected("a share of the whole"),
            };
            real_within(share, 0.0, most).ok_or_else(outside)
        }
        ValueType::Number(least, most) => {
            let number = match node {
                Node::Real(real) => *real,
                Node::Whole(whole) => *whole as f64,
                _ => return expected("a number"),
            };
            real_within(number, least, most).ok_or_else(outside)
        }
        ValueType::Flag => {
            let Node::Flag(flag) = *node else { return expected("`true` or `false`") };
            Ok(Value::Flag(flag))
        }
        ValueType::Word(words) => {
            let one_of = format!("one of {}", form.limits());
            let Node::Text(text) = node else { return expected(&one_of) };
            if let Some(word) = words.iter().find(|word| *word == text) {
                return Ok(Value::Word(word));
            }
            let guess = nearest(text, words.iter().copied());
            let guess = guess.map(|word| format!("did you mean \"{word}\"?"));
            Err((format!("`{path}` is {one_of}"), guess))
        }
    }
}

fn within(value: u64, least: u64, most: u64) -> Option<Value> {
    (least..=most).contains(&value).then_some(Value::Whole(value))
}

fn real_within(value: f64, least: f64, most: f64) -> Option<Value> {
    (least..=most).contains(&value).then_some(Value::Real(value))
}

/// The value as its file has it, for lists of parameters.
pub(super) fn text(node: &Node) -> String {
    match node {
        Node::Text(text) => text.clone(),
        Node::Whole(whole) => whole.to_string(),
        Node::Real(real) => real.to_string(),
        Node::Flag(flag) => flag.to_string(),
        Node::Array(_) | Node::Table(_) => String::new(),
    }
}
