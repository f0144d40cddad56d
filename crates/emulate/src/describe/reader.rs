//! Holds the tree of a file against its form: every key that is unknown, missing or can't be read is
//! an error at its place, and the rest becomes values under their paths, so that the rules can go
//! on with what there is and everything that is wrong is told in one go.

use std::collections::BTreeMap;

use std::ops::Range;

use iodyno_units::nearest;
use serde_spanned::Spanned;

use super::error::FormError;
use super::raw::{Node, Table};
use super::schema::{Key, Presence, TableSchema};
use super::source::{Parameter, Source};
use super::values::{self, Value};

/// The version of the files' form that this program reads.
pub const SCHEMA: u64 = 1;

/// What was read so far.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) errors: Vec<FormError>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) values: Values,
    /// Where each parameter's value and each table stands.
    spans: BTreeMap<String, Range<usize>>,
}

/// The values by their paths. What could not be read is not there.
#[derive(Debug, Default)]
pub(super) struct Values(BTreeMap<&'static str, Value>);

impl Values {
    /// A size, a time or a count.
    pub(super) fn whole(&self, path: &str) -> Option<u64> {
        match self.0.get(path)? {
            Value::Whole(whole) => Some(*whole),
            _ => None,
        }
    }

    /// A bandwidth, a share or a number.
    pub(super) fn real(&self, path: &str) -> Option<f64> {
        match self.0.get(path)? {
            Value::Real(real) => Some(*real),
            _ => None,
        }
    }

    pub(super) fn flag(&self, path: &str) -> Option<bool> {
        match self.0.get(path)? {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    pub(super) fn word(&self, path: &str) -> Option<&'static str> {
        match self.0.get(path)? {
            Value::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// The entry of a table.
pub(super) fn entry<'a>(table: &'a Table, key: &str) -> Option<&'a Spanned<Node>> {
    table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
}

impl Reader {
    pub(super) fn refuse(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        self.errors.push(FormError { span, rule: None, message: message.into(), help });
    }

    /// Notes where something stands that is no parameter.
    pub(super) fn note(&mut self, path: &str, span: Range<usize>) {
        self.spans.insert(path.to_owned(), span);
    }

    /// Where a path stands, or else the table around it, or else the start of the file.
    pub(super) fn place(&self, path: &str) -> Range<usize> {
        place(&self.spans, path)
    }

    pub(super) fn into_spans(self) -> BTreeMap<String, Range<usize>> {
        self.spans
    }

    /// `schema`, and that the file is of this kind at all.
    pub(super) fn header(&mut self, root: &Table, kind: &str) -> bool {
        let other = if kind == "device" { "system" } else { "device" };
        let write = format!("write `kind = \"{kind}\"`");
        match entry(root, "kind").map(|node| (node.get_ref(), node.span())) {
            None => {
                self.refuse(0..0, "the key `kind` is missing", Some(write));
                return false;
            }
            Some((Node::Text(text), _)) if text == kind => {}
            Some((Node::Text(text), span)) if text == other => {
                let message = format!("this file is a {other}, not a {kind}");
                self.refuse(span, message, Some(format!("give the file of a {kind}")));
                return false;
            }
            Some((_, span)) => {
                self.refuse(span, "`kind` is \"device\" or \"system\"", Some(write));
                return false;
            }
        }
        let write = format!("write `schema = {SCHEMA}`");
        match entry(root, "schema").map(|node| (node.get_ref(), node.span())) {
            None => self.refuse(0..0, "the key `schema` is missing", Some(write)),
            Some((Node::Whole(1), _)) => {}
            Some((Node::Whole(found), span)) => {
                let message =
                    format!("this file is of schema {found}; this program reads schema {SCHEMA}");
                let newer = *found > SCHEMA as i64;
                let help = if newer { "use a newer iodyno".to_owned() } else { write };
                self.refuse(span, message, Some(help));
                return false;
            }
            Some((node, span)) => {
                let message = format!("`schema` is a whole number, not {}", node.in_words());
                self.refuse(span, message, Some(write));
            }
        }
        true
    }

    /// A text at the top of the file that must say something.
    pub(super) fn text(&mut self, root: &Table, key: &str, example: &str) -> Option<String> {
        let write = Some(format!("write `{key} = \"{example}\"`"));
        let Some(node) = entry(root, key) else {
            self.refuse(0..0, format!("the key `{key}` is missing"), write);
            return None;
        };
        match node.get_ref() {
            Node::Text(text) if !text.trim().is_empty() => Some(text.clone()),
            Node::Text(_) => {
                self.refuse(node.span(), format!("`{key}` is empty"), write);
                None
            }
            other => {
                let message = format!("`{key}` is a text in quotes, not {}", other.in_words());
                self.refuse(node.span(), message, write);
                None
            }
        }
    }

    /// Every table of the form; `plain` are the keys at the top that are no parameters.
    pub(super) fn tables(&mut self, root: &Table, plain: &[&'static str], forms: &[TableSchema]) {
        let mut top: Vec<&'static str> = plain.to_vec();
        for form in forms {
            if form.name.is_empty() {
                top.extend(form.keys.iter().map(Key::name));
                self.keys(root, form, 0..0);
                continue;
            }
            top.push(form.name);
            let Some(node) = entry(root, form.name) else {
                if form.presence == Presence::Required {
                    let keys = listed(form.keys.iter().map(Key::name));
                    let message = format!("the table `[{}]` is missing", form.name);
                    self.refuse(0..0, message, Some(format!("it has the keys {keys}")));
                }
                continue;
            };
            self.spans.insert(form.name.to_owned(), node.span());
            let Node::Table(table) = node.get_ref() else {
                let what = node.get_ref().in_words();
                let message = format!("`{}` is a table of parameters, not {what}", form.name);
                self.refuse(node.span(), message, Some(format!("write `[{}]`", form.name)));
                continue;
            };
            let names: Vec<_> = form.keys.iter().map(Key::name).collect();
            self.unknown(table, &names);
            self.keys(table, form, node.span());
        }
        self.unknown(root, &top);
        self.alternatives(root, forms);
    }

    /// Exactly one of the tables that are alternatives.
    fn alternatives(&mut self, root: &Table, forms: &[TableSchema]) {
        let names: Vec<_> = forms
            .iter()
            .filter(|form| form.presence == Presence::Alternative)
            .map(|form| form.name)
            .collect();
        let given: Vec<_> = names.iter().filter(|name| entry(root, name).is_some()).collect();
        let listed = names.iter().map(|name| format!("`[{name}]`")).collect::<Vec<_>>();
        let listed = listed.join(" or ");
        if given.is_empty() && !names.is_empty() {
            let help = "the first is in a memory slot, the second behind SATA, SAS or PCIe";
            self.refuse(0..0, format!("the table {listed} is missing"), Some(help.to_owned()));
        }
        if let [_, second, ..] = given.as_slice() {
            let message = format!("a device is attached in one way: {listed}");
            self.refuse(self.place(second), message, Some("remove one of them".to_owned()));
        }
    }

    /// Keys of `table` that are not among `known`.
    pub(super) fn unknown(&mut self, table: &Table, known: &[&'static str]) {
        for (key, _) in table {
            let typed = key.get_ref();
            if known.contains(&typed.as_str()) {
                continue;
            }
            let guess = nearest(typed, known.iter().copied())
                .map(|name| format!("did you mean `{name}`? "))
                .unwrap_or_default();
            let help = format!("{guess}the keys here are {}", listed(known.iter().copied()));
            self.refuse(key.span(), format!("unknown key `{typed}`"), Some(help));
        }
    }

    fn keys(&mut self, table: &Table, form: &TableSchema, at: Range<usize>) {
        let mut missing = Vec::new();
        for key in form.keys {
            match entry(table, key.name()) {
                Some(node) => self.parameter(key, node),
                None if key.optional => {}
                None => missing.push(key),
            }
        }
        let Some(first) = missing.first() else { return };
        let paths = listed(missing.iter().map(|key| key.path));
        let message = match missing.len() {
            1 => format!("the parameter {paths} is missing"),
            _ => format!("the parameters {paths} are missing"),
        };
        let help = format!("for example `{} = {}`", first.name(), example(first, None));
        self.refuse(at, message, Some(help));
    }

    fn parameter(&mut self, key: &Key, node: &Spanned<Node>) {
        self.spans.insert(key.path.to_owned(), node.span());
        let Node::Table(table) = node.get_ref() else {
            let message = format!("the parameter `{}` does not say where it is from", key.path);
            let written = example(key, Some(node.get_ref()));
            let help = format!("write `{} = {written}`", key.name());
            self.refuse(node.span(), message, Some(help));
            return;
        };
        self.unknown(table, &["is", "from"]);
        let source = entry(table, "from").map(|from| self.source(key, from));
        if source.is_none() {
            let message = format!("the parameter `{}` does not say where it is from", key.path);
            let help = format!("write `{} = {}`", key.name(), example(key, entry_ref(table)));
            self.refuse(node.span(), message, Some(help));
        }
        let Some(is) = entry(table, "is") else {
            let message = format!("the parameter `{}` has no value", key.path);
            let help = format!("write `{} = {}`", key.name(), example(key, None));
            self.refuse(node.span(), message, Some(help));
            return;
        };
        self.spans.insert(key.path.to_owned(), is.span());
        match values::read(is.get_ref(), key.form, key.path) {
            Ok(value) => {
                self.values.0.insert(key.path, value);
                if let Some((from, why)) = source.flatten() {
                    let text = values::text(is.get_ref());
                    self.parameters.push(Parameter { key: key.path, text, from, why });
                }
            }
            Err((message, help)) => self.refuse(is.span(), message, help),
        }
    }

    /// `SOURCE: WHY`.
    fn source(&mut self, key: &Key, node: &Spanned<Node>) -> Option<(Source, String)> {
        let names = Source::ALL.map(Source::name);
        let form = "write one of `printed`, `data sheet`, `derived`, `fitted` and `assumed`, then \
                    `: ` and a text";
        let Node::Text(text) = node.get_ref() else {
            let what = node.get_ref().in_words();
            let message = format!("`from` of `{}` is a text in quotes, not {what}", key.path);
            self.refuse(node.span(), message, Some(form.to_owned()));
            return None;
        };
        let (name, why) = text.split_once(':').unwrap_or((text, ""));
        let (name, why) = (name.trim(), why.trim());
        let Some(source) = Source::ALL.into_iter().find(|source| source.name() == name) else {
            let guess = nearest(name, names).map(|name| format!("did you mean `{name}`? "));
            let message = format!("`from` of `{}` names no source: {name:?}", key.path);
            let help = format!("{}{form}", guess.unwrap_or_default());
            self.refuse(node.span(), message, Some(help));
            return None;
        };
        if why.is_empty() {
            let message = format!("`from` of `{}` is `{source}` and says no more", key.path);
            let help = format!("write `{source}: ` and {}", source.wants());
            self.refuse(node.span(), message, Some(help));
            return None;
        }
        Some((source, why.to_owned()))
    }
}

/// Where a path stands, or else the table around it, or else the start of the file.
pub(super) fn place(spans: &BTreeMap<String, Range<usize>>, path: &str) -> Range<usize> {
    let table = path.split('.').next().unwrap_or_default();
    spans.get(path).or_else(|| spans.get(table)).cloned().unwrap_or(0..0)
}

/// The `is` of a parameter.
fn entry_ref(table: &Table) -> Option<&Node> {
    entry(table, "is").map(Spanned::get_ref)
}

/// A parameter as it should be written, with the value that there is.
fn example(key: &Key, value: Option<&Node>) -> String {
    let value = match value {
        None | Some(Node::Array(_) | Node::Table(_)) => key.form.example(),
        Some(Node::Text(text)) => format!("{text:?}"),
        Some(other) => values::text(other),
    };
    format!("{{ is = {value}, from = \"assumed: why this value\" }}")
}

fn listed(names: impl Iterator<Item = &'static str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
