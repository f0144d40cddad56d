//! Parses the text of a vdbench parameter file to definitions of storage, workloads and runs, each with its
//! parameters.

use crate::found::{Found, variable};
use std::ops::Range;

/// Maximum number of parameters in a file.
const MAX_PARAMETERS: usize = 20_000;

/// Kind of a definition: general parameters, host (`hd`), storage (`sd`), workload (`wd`) or run (`rd`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    General,
    Host,
    Storage,
    Workload,
    Run,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) text: String,
    pub(super) span: Range<usize>,
}

/// A parameter, such as `xfersize=(4k,50,8k,50)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    /// Keyword as written in the file, possibly abbreviated, in lower case.
    pub(super) key: String,
    /// The single value, or the values of a list in parentheses.
    pub(super) values: Vec<Value>,
    pub(super) span: Range<usize>,
}

/// A definition, such as `sd=sd1`, with its parameters. Parameters of the `default` definition come first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) span: Range<usize>,
    pub(super) parameters: Vec<Parameter>,
}

impl Definition {
    /// Finds the last parameter that satisfies `is`; the last one counts.
    pub(super) fn last(&self, is: impl Fn(&Parameter) -> bool) -> Option<&Parameter> {
        self.parameters.iter().rev().find(|parameter| is(parameter))
    }
}

/// Reads all definitions. The first element contains the general parameters.
pub(super) fn definitions(found: &mut Found<'_>) -> Vec<Definition> {
    let general =
        Definition { kind: Kind::General, name: String::new(), span: 0..0, parameters: Vec::new() };
    let mut all = vec![general];
    let mut defaults: Vec<Definition> = Vec::new();
    let mut is_default = false;
    let mut kind = Kind::General;
    for parameter in parameters(found) {
        let name = parameter.values.first().map_or("", |value| value.text.as_str()).to_owned();
        let begins = match (parameter.key.as_str(), kind) {
            ("hd", Kind::General | Kind::Host) => Some(Kind::Host),
            ("sd", Kind::General | Kind::Host | Kind::Storage) => Some(Kind::Storage),
            ("wd", Kind::General | Kind::Host | Kind::Storage | Kind::Workload) => {
                Some(Kind::Workload)
            }
            ("rd", _) => Some(Kind::Run),
            ("fsd" | "fwd", _) => {
                let words = "file system workloads are not supported";
                let help = "iodyno issues I/O to devices and files: use sd, wd and rd";
                found.refuse(&parameter.span, words, help);
                return Vec::new();
            }
            _ => None,
        };
        if let Some(next) = begins {
            kind = next;
            is_default = name == "default";
            let same = |d: &&Definition| d.kind == kind;
            let parameters = if is_default {
                Vec::new()
            } else {
                defaults.iter().filter(same).flat_map(|d| d.parameters.clone()).collect()
            };
            let list = if is_default { &mut defaults } else { &mut all };
            list.push(Definition { kind, name, span: parameter.span, parameters });
            // Defaults are copied into each definition, so their total must be bounded too.
            if all.iter().map(|d| d.parameters.len()).sum::<usize>() > MAX_PARAMETERS {
                let words = format!("the file has more than {MAX_PARAMETERS} parameters");
                found.refuse(&(0..0), words, "split the file");
                return Vec::new();
            }
            continue;
        }
        let list = if is_default { &mut defaults } else { &mut all };
        if let Some(definition) = list.last_mut() {
            definition.parameters.push(parameter);
        }
    }
    all
}

/// Reads the comma-separated parameters of all lines. The text after the first blank of a line is a comment.
fn parameters(found: &mut Found<'_>) -> Vec<Parameter> {
    let text = std::sync::Arc::clone(&found.file.text);
    let mut all = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let line_start = start;
        start += line.len();
        let trimmed = line.trim();
        if trimmed.starts_with("eof") {
            break;
        }
        if trimmed.is_empty() || trimmed.starts_with(['/', '#', '*']) {
            continue;
        }
        let at = line_start + (line.len() - line.trim_start().len());
        for (piece, offset) in pieces(trimmed) {
            if piece.is_empty() {
                continue;
            }
            let span = at + offset..at + offset + piece.len();
            match parameter(piece, span.clone()) {
                Ok(parameter) => all.push(parameter),
                Err((words, help)) => found.refuse(&span, words, help),
            }
            if all.len() > MAX_PARAMETERS {
                let words = format!("the file has more than {MAX_PARAMETERS} parameters");
                found.refuse(&span, words, "split the file");
                return all;
            }
        }
    }
    all
}

/// Splits a line at commas outside of parentheses and quotes. Returns each part with its offset in the line.
/// Ignores the text after the first blank.
fn pieces(line: &str) -> Vec<(&str, usize)> {
    let mut all = Vec::new();
    let (mut depth, mut is_quoted, mut start) = (0_u32, false, 0);
    let mut end = line.len();
    for (at, c) in line.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                all.push((&line[start..at], start));
                start = at + 1;
            }
            _ if c.is_whitespace() => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    all.push((&line[start..end], start));
    all
}

type Wrong = (String, &'static str);

fn parameter(piece: &str, span: Range<usize>) -> Result<Parameter, Wrong> {
    if let Some(name) = variable(piece) {
        return Err((
            format!("`{name}` is a variable, which iodyno does not expand"),
            "give its value",
        ));
    }
    let Some((key, value)) = piece.split_once('=') else {
        return Err((format!("`{piece}` is not a parameter"), "use the form KEYWORD=VALUE"));
    };
    let from = span.start + key.len() + 1;
    let (inner, from) = match value.strip_prefix('(') {
        None => (value, from),
        Some(list) => {
            let inner = list.strip_suffix(')');
            let help = "close the list on its line, without blanks: a blank begins a comment";
            (inner.ok_or((format!("the list of `{key}` has no end"), help))?, from + 1)
        }
    };
    let mut values = Vec::new();
    let mut at = from;
    let is_list = value.starts_with('(');
    for part in inner.split(|c| is_list && c == ',') {
        let text = part.trim_matches('"').to_owned();
        values.push(Value { text, span: at..at + part.len() });
        at += part.len() + 1;
    }
    Ok(Parameter { key: key.to_ascii_lowercase(), values, span })
}
