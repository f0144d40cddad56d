//! Reads a table by its schema. Each unknown, missing, misplaced or invalid key is an error at its position. The values
//! of all other keys are stored by path, so that rules can check them, and all errors of a file are reported together.

use core::ops::Range;

use iodyno_units::{
    ParseUnitError, nearest, parse_bandwidth_bytes_per_s, parse_duration_ns, parse_percent,
    parse_rate_iops, parse_size,
};
use toml::de::DeValue;

use crate::document::{Node, Table, in_words, kind, number, parse, plain, whole};
use crate::error::{Fault, FileError};
use crate::find::Kind;
use crate::record::{Entry, Record, Value};
use crate::schema::{Key, ValueType, table_example};
use crate::source::{Parameter, Source};

/// The version of the file format that this program reads and writes.
pub const SCHEMA: u64 = 1;

/// Reads TOML files by a schema. Collects all errors, and the parameters whose source the file states.
#[derive(Debug, Default)]
pub struct Reader {
    pub errors: Vec<FileError>,
    /// Parameters whose source the file states, in the order of the schema.
    pub parameters: Vec<Parameter>,
    /// Base files from which missing keys are inherited; the first that has the key is used.
    bases: Vec<Record>,
}

impl Reader {
    /// Creates a reader for a file that inherits missing keys from base files; the first base with the key is used.
    pub fn on(bases: Vec<Record>) -> Self {
        Self { bases, ..Self::default() }
    }

    /// Reads a whole file. Returns `None`, with an error recorded, if the text is not TOML or if the file has another
    /// type or version than expected. `kind` is `None` for files that do not state their type.
    pub fn file(
        &mut self,
        text: &str,
        kind: Option<Kind>,
        schema: &'static [Key],
    ) -> Option<Record> {
        let root = parse(text).map_err(|error| self.errors.push(error)).ok()?;
        let is_known =
            kind.is_none_or(|kind| self.is_of_kind(&root, kind)) && self.is_of_schema(&root);
        let mut record = is_known.then(|| self.table(&root, 0..0, schema))?;
        for base in &self.bases {
            record.lay_over(base);
        }
        Some(record)
    }

    fn table(&mut self, table: &Table<'_>, span: Range<usize>, schema: &'static [Key]) -> Record {
        let mut record = Record { span, ..Record::default() };
        self.keys(table, record.span.clone(), schema, &mut record);
        record
    }

    /// Records an error at a position in the text. An empty `help` means no remedy.
    pub fn refuse(
        &mut self,
        at: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.errors.push(FileError::new(at, message).with_help(help));
    }

    /// Records a violated rule as an error at the position of its key in the record.
    pub fn fault(&mut self, record: &Record, fault: Fault) {
        let Fault { path, message, help } = fault;
        self.refuse(record.place(&path), message, help.unwrap_or_default());
    }

    /// Finishes reading. Returns the parameters whose source the file states.
    ///
    /// # Errors
    /// All recorded errors, sorted by position.
    pub fn finish(mut self) -> Result<Vec<Parameter>, Vec<FileError>> {
        if self.errors.is_empty() {
            return Ok(self.parameters);
        }
        self.errors.sort_by_key(|error| error.span.start);
        Err(self.errors)
    }

    fn is_of_kind(&mut self, root: &Table<'_>, wanted: Kind) -> bool {
        let noun = wanted.noun();
        let write = format!("set `kind = \"{noun}\"`");
        let Some(node) = root.get("kind") else {
            self.refuse(0..0, "the key `kind` is missing", write);
            return false;
        };
        match kind(node.get_ref()) {
            Some(found) if found == wanted => return true,
            Some(found) => {
                let message = format!("this file is a {}, not a {noun}", found.noun());
                self.refuse(node.span(), message, format!("give a {noun} file"));
            }
            None => {
                let message =
                    format!("`kind` must be \"{noun}\", not {}", in_words(node.get_ref()));
                self.refuse(node.span(), message, write);
            }
        }
        false
    }

    fn is_of_schema(&mut self, root: &Table<'_>) -> bool {
        let write = format!("set `schema = {SCHEMA}`");
        let Some(node) = root.get("schema") else {
            self.refuse(0..0, "the key `schema` is missing", write);
            return true;
        };
        match whole(node.get_ref()).map(u64::try_from) {
            Some(Ok(SCHEMA)) => return true,
            Some(found) => {
                let newer = found.is_ok_and(|found| found > SCHEMA);
                let found = plain(node.get_ref());
                let message = format!(
                    "this file has schema {found}; this version of iodyno reads schema {SCHEMA}"
                );
                let help = if newer { "use a newer iodyno" } else { &write };
                self.refuse(node.span(), message, help);
            }
            None => {
                let found = in_words(node.get_ref());
                self.refuse(
                    node.span(),
                    format!("`schema` must be a whole number, not {found}"),
                    write,
                );
                return true;
            }
        }
        false
    }

    /// Reads the keys of a table into `record`.
    fn keys(
        &mut self,
        table: &Table<'_>,
        span: Range<usize>,
        schema: &'static [Key],
        record: &mut Record,
    ) {
        for key in schema {
            let Some(node) = table.get(key.name()) else { continue };
            let entry =
                if key.sourced { self.parameter(key, node) } else { self.value(node, key, record) };
            record.entries.insert(key.path, entry);
        }
        let decides = schema.iter().find_map(|key| match key.value {
            ValueType::Kind(_, noun) => Some((key, noun)),
            _ => None,
        });
        let kind = decides.and_then(|(key, _)| record.word(key.path));
        let mine = schema.iter().filter(|key| key.belongs(kind)).map(Key::name);
        self.unknown(table, &schema.iter().map(Key::name).collect::<Vec<_>>(), &mine);
        let (Some((decides, noun)), Some(kind)) = (decides, kind) else {
            return self.missing(schema.iter().filter(|k| k.only.is_empty()), table, span);
        };
        for key in schema.iter().filter(|key| !key.belongs(Some(kind))) {
            let Some(node) = table.get(key.name()) else { continue };
            let message = format!("`{}` has no effect for {noun} `{kind}`", key.name());
            let owners = listed(key.only.iter().copied()).replace(", ", " and ");
            let help = format!("the key applies only to {owners}; leave the key out");
            self.refuse(node.span(), message, help);
        }
        self.missing(schema.iter().filter(|key| key.only.is_empty()), table, span);
        self.missing(of_kind(schema, kind), table, record.place(decides.path));
    }

    /// Records an error for each key of the table that `known` lacks. A correction is suggested from the keys `mine`.
    fn unknown<'a>(
        &mut self,
        table: &Table<'_>,
        known: &[&str],
        mine: &(impl Iterator<Item = &'a str> + Clone),
    ) {
        for key in table.keys().filter(|key| !known.contains(&&**key.get_ref())) {
            let typed = key.get_ref();
            let guess = nearest(typed, mine.clone())
                .map(|name| format!("did you mean `{name}`? "))
                .unwrap_or_default();
            let help = match mine.clone().count() {
                1 => format!("the only key here is {}", listed(mine.clone())),
                _ => format!("{guess}the keys here are {}", listed(mine.clone())),
            };
            self.refuse(key.span(), format!("unknown key `{typed}`"), help);
        }
    }

    /// Records errors for required keys that are in neither the table nor a base file.
    fn missing(
        &mut self,
        keys: impl Iterator<Item = &'static Key>,
        table: &Table<'_>,
        at: Range<usize>,
    ) {
        let in_base = |key: &Key| self.bases.iter().any(|base| base.get(key.path).is_some());
        let absent =
            keys.filter(|key| key.required && !table.contains_key(key.name()) && !in_base(key));
        let (tables, values): (Vec<&Key>, Vec<&Key>) =
            absent.partition(|key| matches!(key.value, ValueType::Table(_)));
        for key in tables {
            let ValueType::Table(keys) = key.value else { continue };
            let message = format!("the table `[{}]` is missing", key.path);
            let keys = listed(keys.iter().map(Key::name));
            self.refuse(at.clone(), message, format!("the table has the keys {keys}"));
        }
        let Some(first) = values.first() else { return };
        let (noun, names) = if first.sourced {
            ("parameter", listed(values.iter().map(|key| key.path)))
        } else {
            ("key", listed(values.iter().map(|key| key.name())))
        };
        let message = match values.len() {
            1 => format!("the {noun} {names} is missing"),
            _ => format!("the {noun}s {names} are missing"),
        };
        let value = if first.sourced { with_source(first, None) } else { first.example() };
        self.refuse(at, message, format!("for example `{} = {value}`", first.name()));
    }

    /// Reads a parameter that must state its source: `{ is = VALUE, from = "SOURCE: WHY" }`, or with the keys of a
    /// rule.
    fn parameter(&mut self, key: &Key, node: &Node<'_>) -> Entry {
        let unread = |span| Entry { span, value: Value::Unread };
        let no_source = format!("the parameter `{}` has no source", key.path);
        let write = |value: Option<&Node<'_>>| {
            format!("set `{} = {}`", key.name(), with_source(key, value))
        };
        let Some(table) = node.get_ref().as_table() else {
            self.refuse(node.span(), no_source, write(Some(node)));
            return unread(node.span());
        };
        let names: Vec<&str> =
            ["is", "from"].into_iter().chain(key.rule.iter().map(Key::name)).collect();
        self.unknown(table, &names, &names.iter().copied());
        let source = table.get("from").map(|from| self.source(key, from));
        if source.is_none() {
            self.refuse(node.span(), no_source, write(table.get("is")));
        }
        if key.rule.iter().any(|rule| table.contains_key(rule.name())) {
            return self.rule(key, node, source.flatten());
        }
        let Some(is) = table.get("is") else {
            let message = format!("the parameter `{}` has no value", key.path);
            self.refuse(node.span(), message, write(None));
            return unread(node.span());
        };
        let entry = self.value(is, key, &mut Record::default());
        if let (false, Some((from, why))) = (entry.is_unread(), source.flatten()) {
            let text = plain(is.get_ref());
            self.parameters.push(Parameter { key: key.path, text, rule: None, from, why });
        }
        entry
    }

    /// Reads a parameter whose value follows from a rule. The entry is a record of the rule's keys, and `is` if the
    /// file has it.
    fn rule(&mut self, key: &Key, node: &Node<'_>, source: Option<(Source, String)>) -> Entry {
        let mut record = Record { span: node.span(), ..Record::default() };
        let Some(table) = node.get_ref().as_table() else {
            return Entry { span: node.span(), value: Value::Unread };
        };
        if let Some(is) = table.get("is") {
            let entry = self.of(key.value, is, key);
            record.entries.insert("is", entry);
        }
        let mut texts = Vec::new();
        for part in key.rule {
            let Some(node) = table.get(part.name()) else { continue };
            texts.push(rule_in_words(part.name(), &plain(node.get_ref())));
            let entry = self.value(node, part, &mut record);
            record.entries.insert(part.path, entry);
        }
        if let (Some(is), Some(first)) = (table.get("is"), texts.first_mut()) {
            let is = plain(is.get_ref());
            *first = if table.contains_key("chosen") {
                format!("{first}, default {is}")
            } else {
                format!("{is} plus {first}")
            };
        }
        let is_unread = record.entries.values().any(Entry::is_unread);
        if let (false, Some((from, why))) = (is_unread, source) {
            let (text, rule) = (String::new(), Some(texts.join(", ")));
            self.parameters.push(Parameter { key: key.path, text, rule, from, why });
        }
        Entry { span: node.span(), value: Value::Record(record) }
    }

    /// Reads the source of a parameter, as `SOURCE: WHY`; `None`, with an error recorded, if it is invalid.
    fn source(&mut self, key: &Key, node: &Node<'_>) -> Option<(Source, String)> {
        let form = "give one of `printed`, `data sheet`, `derived`, `fitted` and `assumed`, then \
                    `: ` and a text";
        let Some(text) = node.get_ref().as_str() else {
            let what = in_words(node.get_ref());
            let message = format!("`from` of `{}` must be a text in quotes, not {what}", key.path);
            self.refuse(node.span(), message, form);
            return None;
        };
        let (name, why) = text.split_once(':').unwrap_or((text, ""));
        let (name, why) = (name.trim(), why.trim());
        let Some(source) = Source::ALL.into_iter().find(|source| source.name() == name) else {
            let guess = nearest(name, Source::ALL.map(Source::name));
            let guess = guess.map(|name| format!("did you mean `{name}`? ")).unwrap_or_default();
            let message = format!("`from` of `{}` has an unknown source: {name:?}", key.path);
            self.refuse(node.span(), message, format!("{guess}{form}"));
            return None;
        };
        if why.is_empty() {
            let message =
                format!("`from` of `{}` is only `{source}`, without an explanation", key.path);
            self.refuse(node.span(), message, format!("use `{source}: ` and {}", source.wants()));
            return None;
        }
        Some((source, why.to_owned()))
    }

    /// Reads a value of any type. The keys of a nested table are stored in `record`.
    fn value(&mut self, node: &Node<'_>, key: &Key, record: &mut Record) -> Entry {
        let one = |items| Value::List { items, is_array: false };
        let several = |items| Value::List { items, is_array: true };
        let value = match (key.value, node.get_ref()) {
            (ValueType::Header, _) => Value::Unread,
            (ValueType::Table(keys), DeValue::Table(table)) => {
                self.keys(table, node.span(), keys, record);
                Value::Table
            }
            (ValueType::Record(keys), DeValue::Table(_)) => return self.item(keys, node, key),
            (ValueType::Map(of), DeValue::Table(table)) => {
                let entries = table.iter();
                let read = entries.map(|(k, v)| (k.get_ref().to_string(), self.of(*of, v, key)));
                Value::Map(read.collect())
            }
            (
                ValueType::Tables(keys)
                | ValueType::TablesOrFirst(keys)
                | ValueType::TableOrTables(keys),
                DeValue::Array(items),
            ) => several(items.iter().map(|item| self.item(keys, item, key)).collect()),
            (
                ValueType::TablesOrFirst(keys) | ValueType::TableOrTables(keys),
                DeValue::Table(_),
            ) => one(vec![self.item(keys, node, key)]),
            (ValueType::TablesOrFirst(keys), _) => one(vec![self.first_alone(keys, node, key)]),
            (ValueType::List(of) | ValueType::OneOrMany(of), DeValue::Array(items)) => {
                several(items.iter().map(|item| self.of(*of, item, key)).collect())
            }
            (ValueType::OneOrMany(of), _) => one(vec![self.of(*of, node, key)]),
            (of, _) => return self.of(of, node, key),
        };
        Entry { span: node.span(), value }
    }

    /// Reads one table of an array.
    fn item(&mut self, keys: &'static [Key], node: &Node<'_>, key: &Key) -> Entry {
        let value = if let DeValue::Table(table) = node.get_ref() {
            Value::Record(self.table(table, node.span(), keys))
        } else {
            let found = in_words(node.get_ref());
            let message = format!("each item of `{}` must be a table, not {found}", key.path);
            self.refuse(
                node.span(),
                message,
                format!("use a value such as `{}`", table_example(keys)),
            );
            Value::Unread
        };
        Entry { span: node.span(), value }
    }

    /// Reads a single value as an abbreviation of a table that contains only its first key.
    fn first_alone(&mut self, keys: &'static [Key], node: &Node<'_>, key: &Key) -> Entry {
        let first = self.of(keys[0].value, node, key);
        let mut record = Record { span: node.span(), ..Record::default() };
        record.entries.insert(keys[0].path, first);
        if let Some(kind) = record.word(keys[0].path) {
            self.missing(of_kind(keys, kind), &Table::new(), node.span());
        }
        Entry { span: node.span(), value: Value::Record(record) }
    }

    /// Reads a value that is not a table, and records an error if its type is wrong.
    fn of(&mut self, of: ValueType, node: &Node<'_>, key: &Key) -> Entry {
        let value = single(of, node.get_ref(), key).unwrap_or_else(|(message, help)| {
            self.refuse(node.span(), message, help);
            Value::Unread
        });
        Entry { span: node.span(), value }
    }
}

/// Keys that the schema allows in tables of this kind, but not in all tables.
fn of_kind(keys: &'static [Key], kind: &str) -> impl Iterator<Item = &'static Key> {
    keys.iter().filter(move |key| key.only.contains(&kind))
}

/// Converts a TOML value to type `of`. The error consists of the message and an example, which may be empty.
fn single(of: ValueType, node: &DeValue<'_>, key: &Key) -> Result<Value, (String, String)> {
    let path = key.path;
    let expected = || {
        let whole = matches!(key.value, ValueType::OneOrMany(_) | ValueType::TablesOrFirst(_));
        let right = if whole { key.value.in_words() } else { of.in_words() };
        let message = format!("`{path}` must be {right}, not {}", in_words(node));
        let help = match of {
            ValueType::Table(_) => format!("use `[{path}]`"),
            _ => format!("use a value such as `{}`", key.example()),
        };
        (message, help)
    };
    let outside = || (format!("`{path}` must be {}", of.outside()), String::new());
    let said = |error: ParseUnitError| (format!("`{path}`: {error}"), String::new());
    let text = || node.as_str().ok_or_else(expected);
    let whole_within = |value: u64, least: u64, most: u64| {
        (least..=most).contains(&value).then_some(Value::Whole(value)).ok_or_else(outside)
    };
    let real_within = |value: f64, least: f64, most: f64| {
        (least..=most).contains(&value).then_some(Value::Real(value)).ok_or_else(outside)
    };
    match of {
        ValueType::Size(least, most) => {
            let text = text()?;
            if text.trim_end().ends_with(|c: char| c.is_ascii_digit()) {
                return Err(expected());
            }
            whole_within(parse_size(text).map_err(said)?, least, most)
        }
        ValueType::Bytes => match whole(node).map(u64::try_from) {
            Some(bytes) => bytes.map(Value::Whole).map_err(|_| expected()),
            None => parse_size(text()?).map(Value::Whole).map_err(said),
        },
        ValueType::Time(least, most) => {
            whole_within(parse_duration_ns(text()?).map_err(said)?, least, most)
        }
        ValueType::Bandwidth(least, most) => {
            real_within(parse_bandwidth_bytes_per_s(text()?).map_err(said)?, least, most)
        }
        ValueType::Rate => match number(node) {
            Some(rate) => Ok(Value::Real(rate)),
            None => parse_rate_iops(text()?).map(Value::Real).map_err(said),
        },
        ValueType::Count(least, most) => {
            node.as_integer().ok_or_else(expected)?;
            // Negative numbers and those that don't fit are outside every limit.
            let count = whole(node).and_then(|count| u64::try_from(count).ok());
            count.map_or_else(|| Err(outside()), |count| whole_within(count, least, most))
        }
        ValueType::Share(most) => {
            let share = match number(node) {
                Some(share) => share,
                None => parse_percent(text()?).map_err(said)?,
            };
            real_within(share, 0.0, most)
        }
        ValueType::Percent => parse_percent(text()?).map(Value::Real).map_err(said),
        ValueType::Number(least, most) => {
            real_within(number(node).ok_or_else(expected)?, least, most)
        }
        ValueType::Flag => node.as_bool().map(Value::Flag).ok_or_else(expected),
        ValueType::Word(words) | ValueType::Kind(words, _) => {
            let text = text()?;
            if let Some(word) = words.iter().find(|word| *word == &text) {
                return Ok(Value::Word(word));
            }
            let guess = nearest(text, words.iter().copied());
            let guess = guess.map(|word| format!("did you mean \"{word}\"?"));
            Err((format!("`{path}` must be {}", of.in_words()), guess.unwrap_or_default()))
        }
        ValueType::Text => match text()? {
            text if text.trim().is_empty() && key.required => Err((
                format!("`{path}` is empty"),
                format!("use a value such as `{}`", key.example()),
            )),
            text => Ok(Value::Text(text.to_owned())),
        },
        ValueType::Scalar if whole(node).is_some() => Ok(Value::Text(plain(node))),
        ValueType::Scalar => Ok(Value::Text(text()?.to_owned())),
        _ => Err(expected()),
    }
}

/// Describes a key of a rule: `at_most_per_gib` and `500` as `at most 500 per GiB`.
fn rule_in_words(name: &str, text: &str) -> String {
    let (name, per) = name.split_once("per_").unwrap_or((name, ""));
    let per = match per {
        "" => String::new(),
        "gib" => " per GiB".to_owned(),
        unit => format!(" per {}", unit.to_uppercase()),
    };
    format!("{} {text}{per}", name.replace('_', " ").trim()).trim().replace("  ", " ")
}

/// Example of a parameter with its source, for error messages; uses the existing value if there is one.
fn with_source(key: &Key, value: Option<&Node<'_>>) -> String {
    let value = match value.map(Node::get_ref) {
        None | Some(DeValue::Array(_) | DeValue::Table(_)) => key.example(),
        Some(DeValue::String(text)) => format!("{text:?}"),
        Some(other) => plain(other),
    };
    format!("{{ is = {value}, from = \"assumed: why this value\" }}")
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
