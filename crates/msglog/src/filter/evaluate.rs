//! Applies a filter to a message, with SQL's three-valued logic: a comparison with a missing value is unknown (`None`),
//! and so is its negation; a message matches if the whole filter is true.

use super::number::Number;
use super::{Comparison, Condition, Effort, Header, Literal, Operand, Step};
use crate::message::{Message, MessageKind};
use core::cell::OnceCell;
use core::cmp::Ordering;
use serde_json::Value as Json;

/// Cost of parsing a JSON body, in evaluation steps per byte.
const STEPS_OF_JSON: usize = 4;

/// Whether a filter's condition is true for a message. Returns false if the budget of steps runs out.
pub(super) fn holds(
    condition: &Condition,
    number: u64,
    message: &Message<'_>,
    effort: &Effort,
) -> bool {
    condition.holds(&Subject { number, message, body: OnceCell::new(), effort }) == Some(true)
}

struct Subject<'a> {
    number: u64,
    message: &'a Message<'a>,
    /// Body of the message, parsed on first use; `None` if it is not JSON.
    body: OnceCell<Option<Json>>,
    /// Remaining evaluation steps. Once they are used up, every comparison has the result unknown.
    effort: &'a Effort,
}

impl Subject<'_> {
    fn body(&self) -> Option<&Json> {
        if self.body.get().is_none() {
            self.effort.spend(self.message.body.len() * STEPS_OF_JSON).ok()?;
        }
        self.body.get_or_init(|| serde_json::from_slice(self.message.body).ok()).as_ref()
    }
}

#[derive(Clone, Copy)]
enum Value<'a> {
    Bool(bool),
    Number(Number),
    /// Text in UTF-8, or a message's key, which may be any bytes.
    Text(&'a [u8]),
    /// A JSON object. It is not null, but can't be compared with any value.
    Object,
}

/// Three-valued OR: true if any value is true, otherwise unknown (`None`) if any is unknown, otherwise false.
fn any(all: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    let mut result = Some(false);
    for one in all {
        match one {
            Some(true) => return one,
            Some(false) => {}
            None => result = None,
        }
    }
    result
}

fn not(value: Option<bool>) -> Option<bool> {
    value.map(|it| !it)
}

impl Condition {
    fn holds(&self, subject: &Subject<'_>) -> Option<bool> {
        let effort = subject.effort;
        effort.spend(1).ok()?;
        match self {
            Self::Any(parts) => any(parts.iter().map(|part| part.holds(subject))),
            Self::All(parts) => not(any(parts.iter().map(|part| not(part.holds(subject))))),
            Self::Not(inner) => not(inner.holds(subject)),
            Self::Compare(left, comparison, right) => {
                let right = right.single(subject)?;
                left.any(subject, &mut |left| comparison.holds(left, right, effort))
            }
            Self::Between(left, low, high) => {
                let (low, high) = (low.single(subject)?, high.single(subject)?);
                left.any(subject, &mut |left| {
                    let is_below = Comparison::Below.holds(left, low, effort);
                    let is_above = Comparison::Above.holds(left, high, effort);
                    not(any([is_below, is_above]))
                })
            }
            Self::In(left, list) => left.any(subject, &mut |left| {
                any(list.iter().map(|it| Comparison::Equal.holds(left, it.value(), effort)))
            }),
            Self::Like(left, pattern) => left.any(subject, &mut |left| match left {
                Value::Text(text) => {
                    effort.spend(text.len() / 8).ok()?;
                    pattern.matches(&String::from_utf8_lossy(text), effort).ok()
                }
                _ => None,
            }),
            Self::IsNull(left) => Some(left.any(subject, &mut |_| Some(true)).is_none()),
        }
    }
}

impl Comparison {
    fn holds(self, left: Value<'_>, right: Value<'_>, effort: &Effort) -> Option<bool> {
        let ordering = compare(left, right, effort)?;
        Some(match self {
            Self::Equal => ordering.is_eq(),
            Self::Differs => ordering.is_ne(),
            Self::Below => ordering.is_lt(),
            Self::AtMost => ordering.is_le(),
            Self::Above => ordering.is_gt(),
            Self::AtLeast => ordering.is_ge(),
        })
    }
}

/// Compares two values; `None` if their types differ. Numeric text is compared with numbers as a number.
fn compare(left: Value<'_>, right: Value<'_>, effort: &Effort) -> Option<Ordering> {
    effort.spend(1).ok()?;
    let number = |text: &[u8]| {
        effort.spend(text.len()).ok()?;
        Number::of_text(core::str::from_utf8(text).ok()?)
    };
    match (left, right) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(&b)),
        (Value::Number(a), Value::Number(b)) => Some(a.compare(b)),
        (Value::Text(a), Value::Text(b)) => {
            effort.spend(a.len().min(b.len()) / 8).ok()?;
            Some(a.cmp(b))
        }
        (Value::Number(a), Value::Text(b)) => number(b).map(|b| a.compare(b)),
        (Value::Text(a), Value::Number(b)) => number(a).map(|a| a.compare(b)),
        _ => None,
    }
}

impl Literal {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Text(text) => Value::Text(text.as_bytes()),
            Self::Number(number) => Value::Number(*number),
            Self::Bool(value) => Value::Bool(*value),
        }
    }
}

impl Operand {
    /// Whether `test` is true for at least one of the operand's values; `None` (unknown) if the operand has no
    /// value.
    fn any<'a>(
        &'a self,
        subject: &'a Subject<'_>,
        test: &mut dyn FnMut(Value<'a>) -> Option<bool>,
    ) -> Option<bool> {
        match self {
            Self::Header(header) => test(header.value(subject)?),
            Self::Path(steps) => any_at(subject.body()?, steps, subject.effort, test),
            Self::Literal(literal) => test(literal.value()),
        }
    }

    /// The operand's value, if it has exactly one; otherwise `None`. Comparing many values with many others would
    /// be too slow.
    fn single<'a>(&'a self, subject: &'a Subject<'_>) -> Option<Value<'a>> {
        let mut found = None;
        let has_several = self.any(subject, &mut |value| Some(found.replace(value).is_some()));
        found.filter(|_| has_several == Some(false))
    }
}

impl Header {
    fn value<'a>(self, subject: &'a Subject<'_>) -> Option<Value<'a>> {
        let message = subject.message;
        let number = |number: u64| Value::Number(Number::Whole(number.into()));
        Some(match self {
            Self::Topic => Value::Text(message.topic.as_bytes()),
            Self::Key if message.key.is_empty() => return None,
            Self::Key => Value::Text(message.key),
            Self::Number => number(subject.number),
            Self::Time => number(message.time_ns),
            Self::Publisher | Self::Sequence if message.publisher == 0 => return None,
            Self::Publisher => number(message.publisher),
            Self::Sequence => number(message.sequence),
            Self::Kind if message.kind == MessageKind::Delete => Value::Text(b"delete"),
            Self::Kind => Value::Text(b"publish"),
        })
    }
}

/// Whether `test` is true for at least one value at a path in a JSON body; `None` (unknown) if no value
/// exists. In an array, a numeric name selects the element with that index; any other name applies to all
/// elements.
fn any_at<'a>(
    json: &'a Json,
    steps: &[Step],
    effort: &Effort,
    test: &mut dyn FnMut(Value<'a>) -> Option<bool>,
) -> Option<bool> {
    match (json, steps) {
        (Json::Array(items), [Step { index: Some(index), .. }, rest @ ..]) => {
            any_at(items.get(*index)?, rest, effort, test)
        }
        (Json::Array(items), steps) => {
            // Elements without a value are ignored.
            let mut result = None;
            for item in items {
                effort.spend(1).ok()?;
                match any_at(item, steps, effort, test) {
                    Some(true) => return Some(true),
                    one => result = result.or(one),
                }
            }
            result
        }
        (Json::Object(members), [step, rest @ ..]) => {
            effort.spend(1).ok()?;
            any_at(members.get(&step.name)?, rest, effort, test)
        }
        (Json::Object(_), []) => test(Value::Object),
        (Json::Bool(value), []) => test(Value::Bool(*value)),
        (Json::Number(number), []) => test(Value::Number(Number::of_json(number)?)),
        (Json::String(text), []) => test(Value::Text(text.as_bytes())),
        (Json::Null, _) | (_, [_, ..]) => None,
    }
}
