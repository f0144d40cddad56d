//! Schema of a file, as data: its keys, the type and limits of each value, which keys are required, and which depend
//! on the table's kind. `docs/formats` explains the meaning of the keys. Relations between values belong to the crate
//! that owns the schema.

use iodyno_units::human;

/// The type of a value, and its limits (minimum, maximum).
#[derive(Clone, Copy, Debug)]
pub enum ValueType {
    /// One of the keys `schema` and `kind`, with which any file may begin.
    Header,
    /// A size such as `"8KiB"`. Fields: minimum and maximum, bytes.
    Size(u64, u64),
    /// A size such as `"8KiB"`, or a whole number of bytes.
    Bytes,
    /// A time such as `"80us"`. Fields: minimum and maximum, ns.
    Time(u64, u64),
    /// A bandwidth such as `"405 MB/s"`. Fields: smallest and largest permitted value, bytes per second.
    Bandwidth(f64, f64),
    /// A rate such as `"50k/s"`, or a number of operations per second.
    Rate,
    /// A whole number. Fields: minimum and maximum.
    Count(u64, u64),
    /// A fraction such as `"27%"` or `0.27`, from 0 to the given maximum.
    Share(f64),
    /// A percentage such as `"27%"`; the percent sign is required.
    Percent,
    /// An integer or decimal number. Fields: minimum and maximum.
    Number(f64, f64),
    /// `true` or `false`.
    Flag,
    /// One of the given keywords.
    Word(&'static [&'static str]),
    /// One of the given keywords, which determines what other keys the table may contain. The second field is the
    /// noun in messages such as "`theta` has no effect for the pattern `uniform`".
    Kind(&'static [&'static str], &'static str),
    /// A non-empty text.
    Text,
    /// A text or a whole number, kept as text.
    Scalar,
    /// An array of values of the given type.
    List(&'static ValueType),
    /// One value of the given type, or an array of values.
    OneOrMany(&'static ValueType),
    /// A nested table with the given keys, stored in the outer record. The path of each key starts with the table's
    /// path.
    Table(&'static [Key]),
    /// An array of tables with the given keys, each stored as a separate record.
    Tables(&'static [Key]),
    /// One table with the given keys, or an array of such tables, each stored as a separate record. The path of each
    /// key starts with the table's path.
    TableOrTables(&'static [Key]),
    /// One table with the given keys, an array of tables, or a bare value, which stands for a table with only the
    /// first key.
    TablesOrFirst(&'static [Key]),
    /// A table with arbitrary keys, whose values have the given type.
    Map(&'static ValueType),
    /// A table with the given keys, stored as a separate record.
    Record(&'static [Key]),
}

/// A whole number of 0 or more.
pub const COUNT: ValueType = ValueType::Count(0, u64::MAX);
/// A time of any length.
pub const TIME: ValueType = ValueType::Time(0, u64::MAX);
pub const NUMBER: ValueType = ValueType::Number(f64::NEG_INFINITY, f64::INFINITY);

impl ValueType {
    /// Example of a value of this type, for error messages.
    pub fn example(self) -> String {
        match self {
            Self::Header => "1".to_owned(),
            Self::Size(least, _) if least > 8 << 10 => {
                format!("\"{}MiB\"", least.div_ceil(1 << 20))
            }
            Self::Size(..) | Self::Bytes => "\"8KiB\"".to_owned(),
            Self::Time(..) => "\"80us\"".to_owned(),
            Self::Bandwidth(..) => "\"405 MB/s\"".to_owned(),
            Self::Rate => "\"50k/s\"".to_owned(),
            Self::Count(least, most) => 16.clamp(least, most).to_string(),
            Self::Share(_) | Self::Percent => "\"27%\"".to_owned(),
            Self::Number(..) => "2.5".to_owned(),
            Self::Flag => "true".to_owned(),
            Self::Word(words) | Self::Kind(words, _) => format!("\"{}\"", words[0]),
            Self::Text => "\"a text\"".to_owned(),
            Self::Scalar => "\"4KiB\"".to_owned(),
            Self::List(of) => format!("[{}]", of.example()),
            Self::OneOrMany(of) => of.example(),
            Self::Table(keys) | Self::Record(keys) | Self::TableOrTables(keys) => {
                table_example(keys)
            }
            Self::Tables(keys) => format!("[{}]", table_example(keys)),
            Self::TablesOrFirst(keys) => keys[0].example(),
            Self::Map(of) => format!("{{ name = {} }}", of.example()),
        }
    }

    /// Describes the type for error messages of the form "`capacity` must be …".
    pub(crate) fn in_words(self) -> String {
        let words = match self {
            Self::Size(..) => "a size with its unit",
            Self::Bytes => "a size",
            Self::Time(..) => "a time with its unit",
            Self::Bandwidth(..) => "a bandwidth with its unit",
            Self::Rate => "a rate in operations a second",
            Self::Header | Self::Count(..) => "a whole number",
            Self::Share(_) => "a share such as 27%",
            Self::Percent => "a percentage with a % sign",
            Self::Number(..) => "a number",
            Self::Flag => "`true` or `false`",
            Self::Word(_) | Self::Kind(..) => return format!("one of {}", self.limits()),
            Self::Text => "a text in quotes",
            Self::Scalar => "a text in quotes or a whole number",
            Self::List(of) => return format!("an array, each item of which is {}", of.in_words()),
            Self::OneOrMany(of) => return format!("{}, or an array of them", of.in_words()),
            Self::Table(_) | Self::Map(_) | Self::Record(_) => "a table",
            Self::Tables(_) => "an array of tables",
            Self::TableOrTables(_) => "a table or an array of tables",
            Self::TablesOrFirst(keys) => {
                return format!("{}, a table, or an array of tables", keys[0].value.in_words());
            }
        };
        words.to_owned()
    }

    /// Describes the limits or the allowed values, for error messages and documentation.
    pub fn limits(self) -> String {
        match self {
            Self::Size(least, most) => format!("{} to {}", human::size(least), human::size(most)),
            Self::Time(least, most) => format!("{} to {}", exact_time(least), exact_time(most)),
            Self::Bandwidth(least, most) => {
                // Both limits are powers of ten, so digits after the point carry no information.
                let rate = |bytes_per_s| {
                    human::throughput(bytes_per_s).replace(".00 ", " ").replace(".0 ", " ")
                };
                format!("{} to {}", rate(least), rate(most))
            }
            Self::Count(least, most) => format!("{least} to {most}"),
            Self::Share(most) => format!("0% to {}%", most * 100.0),
            Self::Number(least, most) => format!("{least} to {most}"),
            Self::Word(words) | Self::Kind(words, _) => {
                words.iter().map(|w| format!("`\"{w}\"`")).collect::<Vec<_>>().join(", ")
            }
            _ => self.in_words(),
        }
    }

    /// Describes the allowed range, for the error about a value out of range.
    pub(crate) fn outside(self) -> String {
        match self {
            Self::Count(least, u64::MAX) => format!("a whole number, {least} or above"),
            Self::Time(1, u64::MAX) => "a time above 0".to_owned(),
            Self::Number(f64::NEG_INFINITY, _) => "a number".to_owned(),
            _ => format!("from {}", self.limits()),
        }
    }
}

/// Example of a table with its required keys, for error messages; `{  }` if no key is required.
pub(crate) fn table_example(keys: &[Key]) -> String {
    let line = |key: &Key| format!("{} = {}", key.name(), key.example());
    let keys: Vec<String> = keys.iter().filter(|key| key.required).map(line).collect();
    format!("{{ {} }}", keys.join(", "))
}

/// Formats a time in the largest unit that represents it exactly.
fn exact_time(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let whole = units.into_iter().find(|(unit, _)| ns > 0 && ns.is_multiple_of(*unit));
    whole.map_or(format!("{ns} ns"), |(unit, name)| format!("{} {name}", ns / unit))
}

/// Schema of one key of a TOML file: its path, type and rules.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Path of the key within its record, such as `nand.read`.
    pub path: &'static str,
    /// Type and limits of the value.
    pub value: ValueType,
    /// Whether a file without the key is invalid.
    pub required: bool,
    /// Table kinds (keywords of [`ValueType::Kind`]) in which the key is allowed; empty for all.
    pub only: &'static [&'static str],
    /// Whether the file must state the source of the value, as `{ is = VALUE, from = "SOURCE: WHY" }`.
    pub sourced: bool,
    /// Keys that state a rule, instead of or in addition to the key `is`, which states a constant. Example: `per_gib`
    /// in `{ per_gib = 3, from = "SOURCE: WHY" }`. Empty: only a constant is allowed.
    pub rule: &'static [Self],
    /// Example for error messages; empty to use that of the value's type.
    pub example: &'static str,
}

impl Key {
    /// Describes a key without which a file is invalid.
    pub const fn required(path: &'static str, value: ValueType) -> Self {
        Self { path, value, required: true, only: &[], sourced: false, rule: &[], example: "" }
    }

    /// Describes a key that a file may omit. The schema states no default.
    pub const fn optional(path: &'static str, value: ValueType) -> Self {
        Self { required: false, ..Self::required(path, value) }
    }

    /// Restricts the key to tables of these kinds (keywords of [`ValueType::Kind`]).
    #[must_use]
    pub const fn only(self, words: &'static [&'static str]) -> Self {
        Self { only: words, ..self }
    }

    /// Sets the example that error messages show.
    #[must_use]
    pub const fn such_as(self, example: &'static str) -> Self {
        Self { example, ..self }
    }

    /// Requires files to state the source of the value.
    #[must_use]
    pub const fn sourced(self) -> Self {
        Self { sourced: true, ..self }
    }

    /// Lets a file give a rule instead of the value: a table with these keys, from which the value is computed.
    #[must_use]
    pub const fn ruled(self, rule: &'static [Self]) -> Self {
        Self { rule, ..self }
    }

    /// Name of the key in its table: the last part of the path.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }

    /// Example of a value of this key, for error messages.
    pub(crate) fn example(&self) -> String {
        if self.example.is_empty() { self.value.example() } else { self.example.to_owned() }
    }

    /// Whether the key is allowed in a table of this kind; if the kind is unknown, true.
    pub(crate) fn belongs(&self, kind: Option<&str>) -> bool {
        self.only.is_empty() || kind.is_none_or(|kind| self.only.contains(&kind))
    }
}

/// Keys that require a source in a file of this kind, including those of nested tables, in the order of the
/// schema.
pub fn parameters(schema: &'static [Key], kind: &str) -> Vec<&'static Key> {
    let of = |key: &'static Key| match key.value {
        ValueType::Table(keys) | ValueType::TableOrTables(keys) => parameters(keys, kind),
        _ if key.sourced => vec![key],
        _ => Vec::new(),
    };
    schema.iter().filter(|key| key.belongs(Some(kind))).flat_map(of).collect()
}
