//! From text to a type: TOML through serde, and serde's words turned into ones for a user who has
//! never heard of serde.

use iodyno_units::nearest;
use serde::de::DeserializeOwned;

use crate::file::File;
use crate::problem::Problem;

/// Parses a file as TOML into `T`. The types say which keys there are (`deny_unknown_fields`).
///
/// # Errors
/// The first thing that is wrong, at its place: syntax, an unknown or missing key, a wrong type,
/// or a value that `T`'s own parsers refuse.
pub fn parse<T: DeserializeOwned>(file: &File) -> Result<T, Problem> {
    toml::from_str(&file.text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        let said = translate(error.message());
        let problem = Problem::at(file, span, said.message, said.help);
        problem.with_label(said.label.unwrap_or_default())
    })
}

/// What is told of one error.
struct Said {
    message: String,
    label: Option<String>,
    help: Option<String>,
}

/// Serde has fixed sentences for the common errors; whatever else there is comes from a parser of
/// ours, or of TOML itself, and is passed on as it is.
fn translate(serde: &str) -> Said {
    let plain = |message: String| Said { message, label: None, help: None };
    if let Some(rest) = serde.strip_prefix("unknown field `") {
        return unknown("key", rest).unwrap_or_else(|| plain(serde.to_owned()));
    }
    if let Some(rest) = serde.strip_prefix("unknown variant `") {
        return unknown("name", rest).unwrap_or_else(|| plain(serde.to_owned()));
    }
    if let Some(name) = serde.strip_prefix("missing field `").and_then(|r| r.strip_suffix('`')) {
        return plain(format!("the key `{name}` is missing"));
    }
    if let Some(name) = serde.strip_prefix("duplicate field `").and_then(|r| r.strip_suffix('`')) {
        return plain(format!("the key `{name}` is given twice"));
    }
    let wrong =
        serde.strip_prefix("invalid type: ").or_else(|| serde.strip_prefix("invalid value: "));
    if let Some((found, expected)) = wrong.and_then(|rest| rest.rsplit_once(", expected ")) {
        return Said {
            message: format!("expected {}", in_words(expected)),
            label: Some(format!("this is {}", with_article(found))),
            help: None,
        };
    }
    plain(serde.to_owned())
}

/// ``x`, expected one of `a`, `b``: the tail of serde's two sentences on unknown names.
fn unknown(what: &str, rest: &str) -> Option<Said> {
    let (typed, rest) = rest.split_once("`, ")?;
    // The allowed names are every second part between back quotes.
    let allowed: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    let guess = nearest(typed, allowed.iter().copied())
        .map(|name| format!("did you mean `{name}`? "))
        .unwrap_or_default();
    let help = match allowed.as_slice() {
        [] => format!("no {what} is allowed here"),
        [only] => format!("the only {what} here is `{only}`"),
        _ => {
            let listed: Vec<String> = allowed.iter().map(|name| format!("`{name}`")).collect();
            format!("{guess}the {what}s here are {}", listed.join(", "))
        }
    };
    Some(Said { message: format!("unknown {what} `{typed}`"), label: None, help: Some(help) })
}

/// What a type of Rust's is to a user.
fn in_words(expected: &str) -> String {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or above".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a string" => "a text in quotes".to_owned(),
        "a boolean" => "`true` or `false`".to_owned(),
        "a sequence" => "an array".to_owned(),
        _ if expected.starts_with("struct ") => "a table".to_owned(),
        _ => expected.to_owned(),
    }
}

/// Serde says "string "x"", "integer `5`", "map"; TOML calls a map a table and a sequence an array.
fn with_article(found: &str) -> String {
    let found = found.strip_suffix(" as i128").unwrap_or(found);
    let (noun, rest) = found.split_once(' ').unwrap_or((found, ""));
    let noun = match noun {
        "map" => "a table",
        "sequence" => "an array",
        "integer" => "the integer",
        "floating" => return format!("the number {}", rest.trim_start_matches("point ")),
        "string" => "the text",
        "boolean" => "the boolean",
        other => return format!("{other} {rest}").trim_end().to_owned(),
    };
    format!("{noun} {rest}").trim_end().to_owned()
}
