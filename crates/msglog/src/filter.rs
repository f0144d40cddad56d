//! Filters: conditions on a message's headers and on fields of its JSON body. `docs/message-log-filters.md` describes
//! the language; this file holds the types and their text form. `filter/parse.rs` parses a filter, and
//! `filter/evaluate.rs` applies it to a message.

mod evaluate;
mod number;
mod parse;
mod pattern;

use crate::message::Message;
use core::cell::Cell;
use core::fmt::{self, Display, Formatter};
use core::str::FromStr;
use iodyno_catalog::Problem;
use number::Number;
use pattern::Pattern;
use thiserror::Error;

/// Maximum length of a filter's text, bytes. A longer text is a syntax error.
pub const FILTER_BYTES_MAX: usize = 64 << 10;
/// Maximum nesting depth of parentheses and NOT in a filter.
pub const FILTER_NESTING_MAX: u32 = 64;

/// A parsed filter: a condition on messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    condition: Condition,
}

/// Syntax error of a filter. Its `Display` text shows the problem, marks the column with a caret, and suggests a
/// remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct FilterError(Box<Problem>);

impl FilterError {
    /// Line and column of the syntax error, in characters from 1. `None` if the error concerns the whole filter.
    pub fn line_column(&self) -> Option<(usize, usize)> {
        self.0.line_column()
    }

    /// Description of the syntax error, in one sentence.
    pub fn message(&self) -> &str {
        self.0.message()
    }

    /// Suggested correction of the filter; `None` if the message suffices.
    pub fn help(&self) -> Option<&str> {
        self.0.help()
    }
}

impl Filter {
    /// Parses the text of a filter.
    ///
    /// # Errors
    /// The filter is not valid. The error gives the position.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        match parse::condition(text) {
            Ok(condition) => Ok(Self { condition }),
            Err(problem) => Err(FilterError(Box::new(problem))),
        }
    }

    /// Whether the message with this number meets the filter's condition. The body is parsed at most once, and only if
    /// the filter refers to it.
    pub fn matches(&self, number: u64, message: &Message<'_>) -> bool {
        evaluate::holds(&self.condition, number, message, &Effort::new(u64::MAX))
    }

    /// Like [`Self::matches`], but with a budget: each evaluation step is taken from `effort`.
    ///
    /// # Errors
    /// The evaluation needs more steps than `effort` has left.
    pub fn matches_within(
        &self,
        number: u64,
        message: &Message<'_>,
        effort: &Effort,
    ) -> Result<bool, TooCostly> {
        let holds = evaluate::holds(&self.condition, number, message, effort);
        if effort.left() == 0 { Err(TooCostly) } else { Ok(holds) }
    }

    /// Estimated memory used by the filter, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.condition.memory_bytes()
    }
}

/// Upper bound of the memory for a filter and its parsing, bytes per byte of the filter's text.
pub const FILTER_MEMORY_FACTOR: usize = 64;

/// Budget of evaluation steps for filters. A step is about one condition, one array element, or a few
/// compared bytes; a million steps take some milliseconds.
#[derive(Debug)]
pub struct Effort {
    left: Cell<u64>,
}

impl Effort {
    /// Creates a budget of `steps` steps for one or several evaluations.
    pub fn new(steps: u64) -> Self {
        Self { left: Cell::new(steps) }
    }

    /// Number of steps left; 0 once an evaluation has exceeded the budget.
    pub fn left(&self) -> u64 {
        self.left.get()
    }

    fn spend(&self, steps: usize) -> Result<(), TooCostly> {
        let left = self.left.get().saturating_sub(steps as u64);
        self.left.set(left);
        if left == 0 { Err(TooCostly) } else { Ok(()) }
    }
}

/// Error: the evaluation of a filter needs more steps than its budget has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the filter takes too long for one message: use fewer conditions on large fields")]
pub struct TooCostly;

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Self::parse(text)
    }
}

/// Syntax tree of a filter. `All` and `Any` (AND and OR) have at least two operands, none of them of the same
/// type as their parent.
#[derive(Clone, Debug, PartialEq)]
enum Condition {
    Any(Vec<Self>),
    All(Vec<Self>),
    Not(Box<Self>),
    Compare(Operand, Comparison, Operand),
    In(Operand, Vec<Literal>),
    Between(Operand, Operand, Operand),
    Like(Operand, Pattern),
    IsNull(Operand),
}

impl Condition {
    fn any(parts: Vec<Self>) -> Self {
        Self::joined(parts, Self::Any, |part| match part {
            Self::Any(parts) => Ok(parts),
            other => Err(other),
        })
    }

    fn all(parts: Vec<Self>) -> Self {
        Self::joined(parts, Self::All, |part| match part {
            Self::All(parts) => Ok(parts),
            other => Err(other),
        })
    }

    fn joined(
        parts: Vec<Self>,
        join: fn(Vec<Self>) -> Self,
        open: fn(Self) -> Result<Vec<Self>, Self>,
    ) -> Self {
        let parts = parts.into_iter().flat_map(|part| open(part).unwrap_or_else(|it| vec![it]));
        let mut parts: Vec<_> = parts.collect();
        match parts.pop() {
            Some(only) if parts.is_empty() => only,
            last => {
                parts.extend(last);
                join(parts)
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        let parts = |parts: &Vec<Self>| parts.iter().map(Self::memory_bytes).sum::<usize>();
        size_of::<Self>()
            + match self {
                Self::Any(all) | Self::All(all) => parts(all),
                Self::Not(inner) => inner.memory_bytes() + 16,
                Self::Compare(left, _, right) => left.memory_bytes() + right.memory_bytes(),
                Self::In(left, list) => {
                    let list = list.iter().map(|it| size_of::<Literal>() + it.memory_bytes());
                    left.memory_bytes() + list.sum::<usize>()
                }
                Self::Between(left, low, high) => {
                    left.memory_bytes() + low.memory_bytes() + high.memory_bytes()
                }
                Self::Like(left, pattern) => left.memory_bytes() + pattern.memory_bytes(),
                Self::IsNull(left) => left.memory_bytes(),
            }
    }

    /// Formats the condition as an operand of AND; an OR gets parentheses.
    fn within_all(&self) -> Grouped<'_> {
        Grouped(self, matches!(self, Self::Any(_)))
    }

    fn behind_not(&self) -> Grouped<'_> {
        Grouped(self, matches!(self, Self::Any(_) | Self::All(_)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Differs,
    Below,
    AtMost,
    Above,
    AtLeast,
}

impl Comparison {
    /// Spellings of comparison operators. The parser tries them in this order, so longer ones precede their
    /// prefixes. Of several spellings, the last is printed.
    const NAMES: [(&'static str, Self); 8] = [
        ("<=", Self::AtMost),
        (">=", Self::AtLeast),
        ("<>", Self::Differs),
        ("!=", Self::Differs),
        ("==", Self::Equal),
        ("=", Self::Equal),
        ("<", Self::Below),
        (">", Self::Above),
    ];
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Header(Header),
    Path(Vec<Step>),
    Literal(Literal),
}

impl Operand {
    /// Heap memory used by the operand, bytes.
    fn memory_bytes(&self) -> usize {
        let of_step = |it: &Step| size_of::<Step>() + it.name.len() + 16;
        match self {
            Self::Header(_) => 0,
            Self::Path(steps) => steps.iter().map(of_step).sum(),
            Self::Literal(literal) => literal.memory_bytes(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Header {
    Topic,
    Key,
    Number,
    Time,
    Publisher,
    Sequence,
    Kind,
}

impl Header {
    const NAMES: [(&'static str, Self); 7] = [
        ("topic", Self::Topic),
        ("key", Self::Key),
        ("number", Self::Number),
        ("time", Self::Time),
        ("publisher", Self::Publisher),
        ("sequence", Self::Sequence),
        ("kind", Self::Kind),
    ];
}

/// One component of a path to a field in a message's JSON body.
#[derive(Clone, Debug, PartialEq)]
struct Step {
    name: String,
    /// Array index that the component selects; `None` if its name is not a number.
    index: Option<usize>,
}

impl Step {
    fn new(name: String) -> Self {
        let index = name.parse().ok();
        Self { name, index }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Literal {
    Text(String),
    Number(Number),
    Bool(bool),
}

impl Literal {
    fn memory_bytes(&self) -> usize {
        if let Self::Text(text) = self { text.len() + 16 } else { 0 }
    }
}

/// Whether a path component may contain the character without quotes.
fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '@' | ':' | '$' | '#')
}

impl Display for Filter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

struct Grouped<'a>(&'a Condition, bool);

impl Display for Grouped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.1 { write!(f, "({})", self.0) } else { self.0.fmt(f) }
    }
}

/// Writes the items, separated by `between`.
fn write_joined<T: Display>(
    f: &mut Formatter<'_>,
    items: impl IntoIterator<Item = T>,
    between: &str,
) -> fmt::Result {
    for (i, item) in items.into_iter().enumerate() {
        f.write_str(if i == 0 { "" } else { between })?;
        item.fmt(f)?;
    }
    Ok(())
}

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any(parts) => write_joined(f, parts, " OR "),
            Self::All(parts) => write_joined(f, parts.iter().map(Self::within_all), " AND "),
            Self::Not(inner) => write!(f, "NOT {}", inner.behind_not()),
            Self::Compare(left, comparison, right) => write!(f, "{left} {comparison} {right}"),
            Self::In(left, list) => {
                write!(f, "{left} IN (")?;
                write_joined(f, list, ", ")?;
                f.write_str(")")
            }
            Self::Between(left, low, high) => write!(f, "{left} BETWEEN {low} AND {high}"),
            Self::Like(left, pattern) => {
                write!(f, "{left} LIKE {}", Quoted(&pattern.to_string()))
            }
            Self::IsNull(left) => write!(f, "{left} IS NULL"),
        }
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let named = Self::NAMES.iter().rfind(|(_, it)| it == self);
        f.write_str(named.map_or("", |(name, _)| name))
    }
}

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(header) => {
                let named = Header::NAMES.iter().find(|(_, it)| it == header);
                f.write_str(named.map_or("", |(name, _)| name))
            }
            Self::Path(steps) => steps.iter().try_for_each(|step| {
                let name = step.name.as_str();
                let is_bare = !name.is_empty() && name.chars().all(is_plain);
                if is_bare { write!(f, "/{name}") } else { write!(f, "/{}", Quoted(name)) }
            }),
            Self::Literal(literal) => literal.fmt(f),
        }
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => Quoted(text).fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Bool(value) => value.fmt(f),
        }
    }
}

struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.0.replace('\'', "''"))
    }
}
