//! Reads the published values of a paper from CSV: one value per line, with the columns in [`COLUMNS`].
//!
//! Each [`Figure`] has a finite value, a known relation and unit, and a unique key. Names of metrics are not checked
//! here.

use crate::unit::Unit;
use core::fmt;
use core::ops::Range;
use iodyno_catalog::{File, Problem};
use std::collections::BTreeMap;

/// Columns of the file of published values, from left to right.
pub const COLUMNS: [&str; 14] = [
    "figure",
    "system",
    "workload",
    "block_bytes",
    "queue_depth",
    "threads",
    "devices",
    "metric",
    "relation",
    "value",
    "resolution",
    "unit",
    "kind",
    "note",
];

/// Key of a published value, unique in the study.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Table or figure of the paper, such as `Table 4`.
    pub figure: String,
    /// Name of the measured system in the file of published values.
    pub system: String,
    /// Name of the workload in the file of published values.
    pub workload: String,
    /// Size of one operation, bytes; None if the value is not specific to a size.
    pub block_bytes: Option<u32>,
    /// Outstanding operations per thread; None if the value is not specific to a depth.
    pub queue_depth: Option<u32>,
    /// Number of threads per device; None if the paper does not state it.
    pub threads: Option<u32>,
    /// Number of devices under load; None if the paper does not state it.
    pub devices: Option<u32>,
    /// Name of the published quantity, such as `messages_per_s`.
    pub metric: String,
}

/// Relation of a published value to the true value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The published value equals the true value, up to rounding.
    Equal,
    /// The published value is approximate: "about".
    About,
    /// The published value is a lower bound: "over" or "at least".
    AtLeast,
    /// The published value is an upper bound: "just under" or "at most".
    AtMost,
}

impl Relation {
    /// All relations, for the lookup of a symbol in the file of published values.
    pub const ALL: [Self; 4] = [Self::Equal, Self::About, Self::AtLeast, Self::AtMost];

    /// Symbol for the relation in the file of published values.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::About => "~",
            Self::AtLeast => ">=",
            Self::AtMost => "<=",
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.symbol())
    }
}

/// Place of a published value in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The value is in a table, with all of its digits.
    Table,
    /// The value is in the text, where values are rounded more coarsely.
    Prose,
}

impl Place {
    /// Keyword of the place in the file of published values.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Prose => "prose",
        }
    }
}

/// A value published in the paper, from one line of the file of published values.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Key that assigns the value to a row of the study.
    pub key: Key,
    /// Whether the value is exact, approximate, or only a bound.
    pub relation: Relation,
    /// The value, in `unit`; finite and above 0.
    pub value: f64,
    /// Maximum rounding error as stated in the file (half of the last printed digit), in `unit`; None if not stated.
    pub resolution: Option<f64>,
    /// Half of the last significant digit of the printed value, in `unit`. Serves as the rounding error if `resolution`
    /// is None.
    pub half_digit: f64,
    /// Unit of `value`, `resolution` and `half_digit`.
    pub unit: Unit,
    /// Whether the paper prints the value in a table or in the text.
    pub place: Place,
    /// Remark on the value; may be empty.
    pub note: String,
    /// Reason why the study does not score the value; empty if it does.
    pub flag: String,
    /// Byte range of the value's line in the file.
    pub span: Range<usize>,
}

impl Figure {
    /// Maximum rounding error of the published value, in `unit`.
    pub fn rounding(&self) -> f64 {
        self.resolution.unwrap_or(self.half_digit)
    }

    /// Whether the published value is only a lower or upper bound.
    pub const fn is_one_sided(&self) -> bool {
        matches!(self.relation, Relation::AtLeast | Relation::AtMost)
    }

    /// Whether the value is excluded from fitting and scoring, because its note declares it wrong or the study gives
    /// another reason.
    pub fn is_flagged(&self) -> bool {
        !self.flag.is_empty()
            || self.note.contains("implausible")
            || self.note.starts_with("printed so")
    }
}

/// Reads a file of published values, in the order of its lines.
///
/// # Errors
/// The position of the first invalid field.
pub fn read(file: &File) -> Result<Vec<Figure>, Problem> {
    let mut lines = lines(&file.text);
    let header = lines.next().unwrap_or(Line { start: 0, text: "" });
    let names = split(file, &header)?;
    if !names.iter().map(|f| f.text.as_str()).eq(COLUMNS) {
        let wrong = names.iter().zip(COLUMNS).find(|(field, name)| field.text != *name);
        let span = wrong.map_or(header.span(), |(f, _)| f.span.clone());
        return Err(Problem::at(
            file,
            span,
            "the first line must name the columns of a file of figures",
            Some(format!("it must read: {}", COLUMNS.join(","))),
        ));
    }
    let mut figures = Vec::new();
    let mut seen: BTreeMap<Key, Range<usize>> = BTreeMap::new();
    for line in lines.filter(|line| !line.text.is_empty()) {
        let figure = figure(file, &line)?;
        if let Some(first) = seen.insert(figure.key.clone(), figure.span.clone()) {
            let message = "this figure is listed twice";
            let help =
                "lines must differ in at least one of the columns `figure` to `metric`".to_owned();
            return Err(
                Problem::at(file, figure.span, message, Some(help)).also(first, "the first time")
            );
        }
        figures.push(figure);
    }
    if figures.is_empty() {
        return Err(Problem::new(file.origin.as_str(), "the file has no figures")
            .with_help("add one line per figure below the names of the columns"));
    }
    Ok(figures)
}

/// A line of the file, without its line end.
struct Line<'a> {
    /// Byte offset of the line in the file's text.
    start: usize,
    text: &'a str,
}

impl Line<'_> {
    fn span(&self) -> Range<usize> {
        self.start..self.start + self.text.len()
    }
}

fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mut start = 0;
    text.split('\n').map(move |line| {
        let of = Line { start, text: line.strip_suffix('\r').unwrap_or(line) };
        start += line.len() + 1;
        of
    })
}

/// A field of a CSV line: its text without quotes, and its byte range in the file.
struct Field {
    text: String,
    span: Range<usize>,
}

/// Splits a CSV line into fields. A field in double quotes may contain commas, and quotes that are doubled.
fn split(file: &File, line: &Line<'_>) -> Result<Vec<Field>, Problem> {
    let (start, line) = (line.start, line.text);
    let mut fields = Vec::new();
    let mut at = 0;
    loop {
        let rest = &line[at..];
        let (text, len) = if rest.starts_with('"') {
            quoted(rest).ok_or_else(|| {
                let span = start + at..start + line.len();
                let help = "a field that starts with a quote must end with one before the next comma, \
                            in the same line; a quote inside it is doubled";
                Problem::at(file, span, "this quote is not closed", Some(help.to_owned()))
            })?
        } else {
            let len = rest.find(',').unwrap_or(rest.len());
            (rest[..len].to_owned(), len)
        };
        let span = start + at..start + at + len;
        // Characters that move the cursor must never reach a terminal.
        if text.chars().any(char::is_control) {
            let help = "use only printable characters".to_owned();
            return Err(Problem::at(file, span, "a field holds a control character", Some(help)));
        }
        fields.push(Field { text, span });
        at += len;
        if at >= line.len() {
            return Ok(fields);
        }
        // The comma.
        at += 1;
    }
}

/// Parses a quoted field at the start of `rest`. Returns its text, and its length in bytes including quotes.
/// None if no comma or line end follows the closing quote.
fn quoted(rest: &str) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c != '"' {
            text.push(c);
        } else if chars.peek().is_some_and(|(_, next)| *next == '"') {
            text.push('"');
            chars.next();
        } else {
            let end = at + 1;
            return (end == rest.len() || rest[end..].starts_with(',')).then_some((text, end));
        }
    }
    None
}

/// Parses a line into a published value.
fn figure(file: &File, line: &Line<'_>) -> Result<Figure, Problem> {
    let fields = split(file, line)?;
    let span = line.span();
    let fields: [Field; COLUMNS.len()] = fields.try_into().map_err(|fields: Vec<Field>| {
        let help = "a field that contains a comma must be in double quotes".to_owned();
        let message = format!("the line must have {} fields, not {}", COLUMNS.len(), fields.len());
        Problem::at(file, span.clone(), message, Some(help))
    })?;
    let [figure, system, workload, block, depth, threads, devices, metric, rest @ ..] = &fields;
    let [relation, value, resolution, unit, kind, note] = rest;
    let required = |field: &Field, name: &str| {
        if field.text.is_empty() {
            let message = format!("the field `{name}` is empty");
            return Err(Problem::at(file, field.span.clone(), message, None));
        }
        Ok(field.text.clone())
    };
    let key = Key {
        figure: required(figure, "figure")?,
        system: required(system, "system")?,
        workload: required(workload, "workload")?,
        block_bytes: count(file, block, "block_bytes")?,
        queue_depth: count(file, depth, "queue_depth")?,
        threads: count(file, threads, "threads")?,
        devices: count(file, devices, "devices")?,
        metric: required(metric, "metric")?,
    };
    let relation = one_of(file, relation, "relation", &Relation::ALL, Relation::symbol)?;
    let number = number(file, value, "value")?;
    if number <= 0.0 {
        let message = format!("`value` must be above 0, not {}", value.text);
        let help = "relative errors are divided by this value".to_owned();
        return Err(Problem::at(file, value.span.clone(), message, Some(help)));
    }
    let given = (!resolution.text.is_empty()).then(|| self::number(file, resolution, "resolution"));
    let given = given.transpose()?;
    if given.is_some_and(|r| r < 0.0) {
        let message = format!(
            "`resolution` (half of the last digit) must be 0 or more, not {}",
            resolution.text
        );
        return Err(Problem::at(file, resolution.span.clone(), message, None));
    }
    Ok(Figure {
        key,
        relation,
        value: number,
        resolution: given,
        half_digit: half_digit(&value.text),
        unit: one_of(file, unit, "unit", &Unit::ALL, Unit::name)?,
        place: one_of(file, kind, "kind", &[Place::Table, Place::Prose], Place::name)?,
        note: note.text.clone(),
        flag: String::new(),
        span,
    })
}

/// Finds the value in `all` whose name equals the field's text.
fn one_of<T: Copy>(
    file: &File,
    field: &Field,
    name: &str,
    all: &[T],
    word: impl Fn(T) -> &'static str,
) -> Result<T, Problem> {
    all.iter().copied().find(|&known| word(known) == field.text).ok_or_else(|| {
        let words: Vec<String> = all.iter().map(|&known| format!("`{}`", word(known))).collect();
        let message = format!("`{}` is not a {name}", field.text);
        Problem::at(file, field.span.clone(), message, Some(format!("use {}", words.join(", "))))
    })
}

/// Reads a whole number above 0; None for an empty field.
fn count(file: &File, field: &Field, name: &str) -> Result<Option<u32>, Problem> {
    if field.text.is_empty() {
        return Ok(None);
    }
    match field.text.parse() {
        Ok(n) if n > 0 => Ok(Some(n)),
        _ => {
            let message = format!("`{name}` must be a whole number above 0, not `{}`", field.text);
            let help = "leave the field empty if the number is unknown".to_owned();
            Err(Problem::at(file, field.span.clone(), message, Some(help)))
        }
    }
}

fn number(file: &File, field: &Field, name: &str) -> Result<f64, Problem> {
    field.text.parse().ok().filter(|n: &f64| n.is_finite()).ok_or_else(|| {
        let message = format!("`{name}` must be a number, not `{}`", field.text);
        Problem::at(file, field.span.clone(), message, None)
    })
}

/// Half of the last significant digit of a number as printed. Trailing zeroes of a whole number are not
/// significant: for `3000000`, the result is half a million.
fn half_digit(text: &str) -> f64 {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let places = match mantissa.split_once('.') {
        Some((_, decimals)) => -(decimals.len() as i32),
        None => (mantissa.len() - mantissa.trim_end_matches('0').len()) as i32,
    };
    // Parsed, not multiplied, so that half of a hundredth equals the same number in the file.
    format!("5e{}", places + exponent - 1).parse().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_digit_of_a_number_as_it_is_written() {
        for (text, half) in [
            ("5.35", 0.005),
            ("0.93", 0.005),
            ("16", 0.5),
            ("1840000", 5000.0),
            ("3000000", 500_000.0),
            ("2.0", 0.05),
            ("1.5e3", 50.0),
        ] {
            assert_eq!(half_digit(text).to_bits(), f64::to_bits(half), "{text}");
        }
    }
}
