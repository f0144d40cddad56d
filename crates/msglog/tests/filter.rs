//! The filter language: the examples in its documentation, its errors, and a second evaluator on generated filters
//! and bodies. `IODYNO_FILTER_CASES` sets the number of cases; a case is replayed by its seed.

use iodyno_msglog::filter::{FILTER_BYTES_MAX, FILTER_MEMORY_FACTOR, FILTER_NESTING_MAX};
use iodyno_msglog::{Effort, Filter, Message, MessageKind, TooCostly};
use iodyno_units::rng::{Generator, below, stream};
use std::cmp::Ordering;

const PAGE: &str = include_str!("../../../docs/message-log-filters.md");

fn cases() -> u64 {
    std::env::var("IODYNO_FILTER_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(3_000)
}

/// Number that all messages in these tests have in the log.
const NUMBER: u64 = 1001;

fn message(body: &[u8]) -> Message<'_> {
    Message {
        kind: MessageKind::Publish,
        publisher: 7,
        sequence: 42,
        // 2026-11-23T09:30:00Z
        time_ns: 1_795_426_200_000_000_000,
        topic: "orders",
        key: b"A-7",
        body,
    }
}

fn matches(filter: &str, body: &str) -> bool {
    Filter::parse(filter)
        .unwrap_or_else(|e| panic!("{e}"))
        .matches(NUMBER, &message(body.as_bytes()))
}

/// Code blocks in `PAGE`, the documentation of filters, whose first line begins with `mark`.
fn blocks(mark: &str) -> Vec<&'static str> {
    PAGE.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix(mark)).collect()
}

#[test]
fn the_examples_of_the_page_hold() {
    let [body] = blocks("json\n")[..] else { panic!("one message") };
    let mut seen = 0;
    for row in PAGE.lines().filter_map(|line| line.strip_prefix("| `")) {
        let Some((filter, rest)) = row.split_once("` | ") else { continue };
        let expected = match rest.split(' ').next() {
            Some("yes") => true,
            Some("no") => false,
            _ => continue,
        };
        assert_eq!(matches(filter, body), expected, "{filter}");
        seen += 1;
    }
    assert!(seen >= 22, "{seen} examples");
    for text in blocks("text\n").into_iter().map(str::trim_end) {
        match text.lines().find_map(|line| line.strip_prefix("1 | ")) {
            Some(filter) => assert_eq!(Filter::parse(filter).unwrap_err().to_string(), text),
            None => drop(Filter::parse(text).unwrap()),
        }
    }
    assert!(PAGE.contains("65,536 bytes") && FILTER_BYTES_MAX == 65_536);
    assert!(PAGE.contains("at most 64 deep") && FILTER_NESTING_MAX == 64);
}

#[test]
fn errors_name_the_column_and_the_remedy() {
    let expected = [
        ("", 1, "the filter ends where a header, a path or a value is expected"),
        ("/a = ", 6, "the filter ends where a header, a path or a value is expected"),
        ("/a", 3, "the filter ends where a comparison"),
        ("/a 5", 4, "`5` was found where a comparison"),
        ("/a = 1 /b = 2", 8, "`/` was found where AND, OR or the end is expected"),
        ("/a = 1 AND", 11, "the filter ends"),
        ("/a = 1 AND OR /b = 1", 12, "`OR` was found where a header"),
        ("(/a = 1", 8, "the filter ends where AND, OR or `)` is expected"),
        ("/a = 1)", 7, "`)` was found where AND, OR or the end"),
        ("/a IN ()", 8, "`)` was found where a text"),
        ("/a IN (/b)", 8, "`/` was found where a text"),
        ("/a IN (1 2)", 10, "`2` was found where `,` or `)`"),
        ("/a BETWEEN 1 OR 2", 14, "`OR` was found where AND"),
        ("/a LIKE 5", 9, "`5` was found where a pattern"),
        ("/a LIKE 'x\\'", 9, "the pattern ends in a single backslash"),
        ("/a IS 5", 7, "`5` was found where NULL"),
        ("/a NOT 5", 8, "`5` was found where IN, BETWEEN or LIKE"),
        ("/a = 'x", 6, "the text does not end"),
        ("/a = NULL", 6, "a comparison with NULL is never true"),
        ("price > 1", 1, "there is no header `price`"),
        ("/a = 10x", 6, "this is not a number"),
        ("/a = 1e999", 6, "this is not a number"),
        ("/ = 1", 3, "`=` was found where a name"),
        ("/a/ = 1", 5, "`=` was found where a name"),
        ("time > 'noon'", 8, "this is not a time"),
        ("'noon' < time", 1, "this is not a time"),
        ("time IN ('noon')", 10, "this is not a time"),
        ("publisher = 'desk'", 13, "this is not a number"),
        ("kind = 'update'", 8, "this kind does not exist"),
        ("/ä = 'ö' /x", 10, "`/` was found where AND"),
    ];
    for (text, column, message) in expected {
        let error = Filter::parse(text).unwrap_err();
        assert_eq!(error.line_column(), Some((1, column)), "{text}\n{error}");
        assert!(error.message().starts_with(message), "{text}\n{error}");
    }
    assert_eq!(Filter::parse("/a = 1\nAND b = 2").unwrap_err().line_column(), Some((2, 5)));
}

#[test]
fn long_and_deep_filters_are_refused_and_others_work() {
    let nested = |depth: u32, open: &str, close: &str| {
        let (open, close) = (open.repeat(depth as usize), close.repeat(depth as usize));
        Filter::parse(&format!("{open}/a = 1{close}"))
    };
    for (open, close) in [("(", ")"), ("NOT ", ""), ("not(", ")")] {
        let of_each = open.matches(['(', 'N', 'n']).count() as u32;
        let deepest = FILTER_NESTING_MAX / of_each;
        assert!(nested(deepest, open, close).is_ok());
        let error = nested(deepest + 1, open, close).unwrap_err();
        assert!(error.message().contains("nested more than"), "{error}");
        assert!(nested(30_000 / open.len() as u32, open, close).is_err());
    }
    let chain = "/a = 1 AND ".repeat(5_000) + "/a = 1";
    assert!(matches(&chain, r#"{"a": 1}"#) && !matches(&chain, r#"{"a": 2}"#));
    let error = Filter::parse(&"x".repeat(FILTER_BYTES_MAX + 1)).unwrap_err();
    assert!(error.message().contains("the limit is 65536"), "{error}");
    // Patterns and bodies that would take forever if each `%` tried all places.
    let body = format!(r#"{{"a": "{}"}}"#, "a".repeat(20_000));
    assert!(!matches(&format!("/a LIKE '{}b'", "%a".repeat(50)), &body));
    let many = format!(r#"{{"a": [{}], "b": [{0}]}}"#, vec!["1"; 50_000].join(","));
    assert!(!matches("/a > /b OR /a < /b", &many));
}

/// Evaluates LIKE by backtracking, which is short but slow.
fn is_like(pattern: &[char], text: &[char]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        (['%', rest @ ..], _) => (0..=text.len()).any(|i| is_like(rest, &text[i..])),
        (['_', pattern @ ..], [_, text @ ..]) => is_like(pattern, text),
        (['\\', c, pattern @ ..], [d, text @ ..]) if c == d => is_like(pattern, text),
        (['\\', ..], _) => false,
        ([c, pattern @ ..], [d, text @ ..]) if c == d => is_like(pattern, text),
        _ => false,
    }
}

#[test]
fn patterns_match_as_backtracking_does() {
    let rng = &mut stream(1, "patterns", 0);
    let mut seen = [0; 2];
    for _ in 0..cases() * 10 {
        let text: String = (0..below(rng, 9)).map(|_| pick(rng, &['a', 'b', 'ä'])).collect();
        let part = |rng: &mut Generator| pick(rng, &["a", "b", "ä", "_", "_", "%", "%", "\\a"]);
        let pattern: String = (0..below(rng, 8)).map(|_| part(rng)).collect();
        let filter = Filter::parse(&format!("/a LIKE '{pattern}'")).unwrap();
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        let expected = is_like(&chars(&pattern), &chars(&text));
        let body = format!(r#"{{"a": "{text}"}}"#);
        let found = filter.matches(NUMBER, &message(body.as_bytes()));
        assert_eq!(found, expected, "{pattern} and {text}");
        assert_eq!(Filter::parse(&filter.to_string()).unwrap(), filter);
        seen[usize::from(expected)] += 1;
    }
    assert!(seen.iter().all(|n| *n > cases()), "{seen:?}");
}

/// The cost of a filter is bounded by the sum of its length and the body's. The evaluation of a filter whose cost grows
/// with their product is stopped.
#[test]
fn what_filters_cost_is_bounded() {
    let a = |n: usize| "a".repeat(n);
    let body = format!(r#"{{"a": "{}", "b": [{}]}}"#, a(65_000), vec!["1"; 30_000].join(","));
    let steps = |filter: &str, most: u64| {
        let effort = Effort::new(most);
        let filter = Filter::parse(filter).unwrap_or_else(|e| panic!("{e}"));
        assert!(filter.memory_bytes() < FILTER_MEMORY_FACTOR * filter.to_string().len() + 1000);
        let result = filter.matches_within(NUMBER, &message(body.as_bytes()), &effort);
        (result, most - effort.left())
    };
    let linear = 10 * body.len() as u64;
    for filter in [
        format!("/a LIKE '%{}b%'", a(32_000)),
        format!("/a LIKE '{}b'", "%a".repeat(30_000)),
        format!("/a LIKE '%{}'", "_%".repeat(30_000)),
        format!("/a LIKE '{}b'", "_".repeat(64_000)),
        format!("/b IN ({})", "2,".repeat(4) + "2"),
    ] {
        let (result, steps) = steps(&filter, u64::MAX - 1);
        assert!(result.is_ok() && steps < linear, "{steps} of {linear}: {}", &filter[..40]);
    }
    for filter in [
        format!("/a LIKE '%{}_{}b%'", a(16_001), a(15_999)),
        format!("/b IN ({}2)", "2,".repeat(30_000)),
        vec!["/a LIKE '%b%'"; 3000].join(" OR "),
    ] {
        assert_eq!(steps(&filter, 50 * linear), (Err(TooCostly), 50 * linear), "{}", &filter[..40]);
    }
    for dense in ["/a".repeat(32_000) + "=1", format!("/a LIKE '{}'", "_%".repeat(32_000))] {
        let filter = Filter::parse(&dense).unwrap();
        assert!(filter.memory_bytes() > 20 * dense.len(), "{}", filter.memory_bytes());
        assert!(filter.memory_bytes() < FILTER_MEMORY_FACTOR * dense.len());
    }
}

#[test]
fn bodies_that_are_no_json_have_no_fields() {
    for body in ["", "{", "text", "{\"a\": 1} x", "\u{0}", "{\"a\": 1e999}"] {
        assert!(matches("/a IS NULL AND topic = 'orders'", body), "{body}");
        assert!(!matches("/a = 1 OR /a != 1 OR NOT /a = 1", body), "{body}");
    }
    let nested = |depth: usize| "[".repeat(depth) + "1" + &"]".repeat(depth);
    let body = |depth| format!(r#"{{"a": {}}}"#, nested(depth));
    assert!(matches("/a = 1", &body(126)) && !matches("/a = 1", &body(127)));
    assert!(matches("/a IS NULL", &body(100_000)));
    let not_utf8 = Message { key: &[0xff, b'x'], ..message(&[0xff]) };
    assert!(Filter::parse("key LIKE '_x' AND key > 'z'").unwrap().matches(NUMBER, &not_utf8));
}

#[test]
fn a_delete_and_a_message_without_key_and_publisher() {
    let filter = Filter::parse("kind = 'delete' AND key IS NULL AND publisher IS NULL").unwrap();
    let mut it = Message { kind: MessageKind::Delete, publisher: 0, key: b"", ..message(b"") };
    assert!(filter.matches(NUMBER, &it));
    it.publisher = 1;
    assert!(!filter.matches(NUMBER, &it));
}

/// JSON of the second evaluator. Numbers are counted in quarters.
#[derive(Clone, Debug, PartialEq)]
enum Json {
    Null,
    Bool(bool),
    Number(i64),
    Text(&'static str),
    Array(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

const NAMES: [&str; 5] = ["a", "b", "0", "1", "c d"];
/// Texts, and the number that each stands for, in quarters; None if it is not a number.
const TEXTS: [(&str, Option<i64>); 9] = [
    ("", None),
    ("x", None),
    ("X", None),
    ("it's", None),
    ("x%y_z\\", None),
    ("5", Some(20)),
    ("-2.5e0", Some(-10)),
    ("10", Some(40)),
    ("1 0", None),
];
const KEYS: [&str; 3] = ["", "x", "5"];

fn pick<T: Copy>(rng: &mut Generator, from: &[T]) -> T {
    from[below(rng, from.len() as u64) as usize]
}

fn number(rng: &mut Generator) -> i64 {
    match below(rng, 8) {
        // Above the integers that floats hold, and whole.
        0 => ((1 << 55) + below(rng, 3) as i64) * 4,
        _ => below(rng, 60) as i64 - 12,
    }
}

fn json(rng: &mut Generator, depth: u32) -> Json {
    match below(rng, if depth == 0 { 4 } else { 8 }) {
        0 => Json::Null,
        1 => Json::Bool(below(rng, 2) == 0),
        2 => Json::Number(number(rng)),
        3 => Json::Text(pick(rng, &TEXTS).0),
        4 => Json::Array((0..below(rng, 4)).map(|_| json(rng, depth - 1)).collect()),
        _ => {
            let names = NAMES.into_iter().filter(|_| below(rng, 3) > 0).collect::<Vec<_>>();
            Json::Object(names.into_iter().map(|name| (name, json(rng, depth - 1))).collect())
        }
    }
}

fn written_number(quarters: i64) -> String {
    if quarters % 4 == 0 { (quarters / 4).to_string() } else { (quarters as f64 / 4.0).to_string() }
}

fn written_json(json: &Json) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\"));
    match json {
        Json::Null => "null".into(),
        Json::Bool(value) => value.to_string(),
        Json::Number(quarters) => written_number(*quarters),
        Json::Text(text) => quoted(text),
        Json::Array(items) => {
            format!("[{}]", items.iter().map(written_json).collect::<Vec<_>>().join(" , "))
        }
        Json::Object(members) => {
            let member =
                |(name, it): &(&str, Json)| format!("{}:{}", quoted(name), written_json(it));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
        }
    }
}

#[derive(Clone, Debug)]
enum Operand {
    Header(&'static str),
    Path(Vec<&'static str>),
    Literal(Json),
}

#[derive(Clone, Debug)]
enum Condition {
    Any(Vec<Condition>),
    All(Vec<Condition>),
    Not(Box<Condition>),
    Compare(Operand, &'static str, Operand),
    Between(Operand, Operand, Operand),
    In(Operand, Vec<Json>),
    Like(Operand, &'static str),
    IsNull(Operand),
}

const PATTERNS: [&str; 8] = ["%", "_", "", "x%", "%y\\_z%", "x\\%%\\\\", "_t'%", "%0%"];

fn literal(rng: &mut Generator) -> Json {
    match below(rng, 5) {
        0 => Json::Bool(below(rng, 2) == 0),
        1 | 2 => Json::Number(number(rng)),
        _ => Json::Text(pick(rng, &TEXTS).0),
    }
}

fn operand(rng: &mut Generator) -> Operand {
    match below(rng, 8) {
        0 => Operand::Header(pick(rng, &["topic", "key"])),
        1 => Operand::Literal(literal(rng)),
        _ => Operand::Path((0..=below(rng, 3)).map(|_| pick(rng, &NAMES)).collect()),
    }
}

fn condition(rng: &mut Generator, depth: u32) -> Condition {
    let parts = |rng: &mut Generator| {
        (0..2 + below(rng, 2)).map(|_| condition(rng, depth.saturating_sub(1))).collect::<Vec<_>>()
    };
    match below(rng, if depth == 0 { 8 } else { 16 }) {
        0 => Condition::IsNull(operand(rng)),
        1 => Condition::Like(operand(rng), pick(rng, &PATTERNS)),
        2 => Condition::In(operand(rng), (0..=below(rng, 3)).map(|_| literal(rng)).collect()),
        3 => Condition::Between(operand(rng), operand(rng), operand(rng)),
        4..8 => {
            let names = ["=", "==", "!=", "<>", "<", "<=", ">", ">="];
            Condition::Compare(operand(rng), pick(rng, &names), operand(rng))
        }
        8..10 => Condition::Not(Box::new(condition(rng, depth - 1))),
        10..13 => Condition::All(parts(rng)),
        _ => Condition::Any(parts(rng)),
    }
}

fn written_literal(rng: &mut Generator, it: &Json) -> String {
    match it {
        Json::Text(text) => quoted(rng, text),
        other => written_json(other),
    }
}

fn quoted(rng: &mut Generator, text: &str) -> String {
    let quote = pick(rng, &["'", "\""]);
    format!("{quote}{}{quote}", text.replace(quote, &quote.repeat(2)))
}

fn written_operand(rng: &mut Generator, it: &Operand) -> String {
    match it {
        Operand::Header(name) => keyword(rng, name),
        Operand::Literal(it) => written_literal(rng, it),
        Operand::Path(names) => {
            let mut text = String::new();
            for name in names {
                let in_quotes = name.contains(' ') || below(rng, 4) == 0;
                text += "/";
                text += &if in_quotes { quoted(rng, name) } else { (*name).to_owned() };
            }
            text
        }
    }
}

fn keyword(rng: &mut Generator, word: &str) -> String {
    if below(rng, 2) == 0 { word.to_lowercase() } else { word.to_uppercase() }
}

/// Formats a condition in one of its equivalent forms. `within` is the precedence of the surrounding operator.
fn written(rng: &mut Generator, it: &Condition, within: u32) -> String {
    let space = |rng: &mut Generator| pick(rng, &[" ", "  ", "\n", "\t "]);
    let join = |rng: &mut Generator, parts: &[Condition], word: &str, binds: u32| {
        let parts: Vec<_> = parts.iter().map(|part| written(rng, part, binds)).collect();
        let between = format!("{}{}{}", space(rng), keyword(rng, word), space(rng));
        parts.join(&between)
    };
    // A negated condition may have its NOT before it or inside.
    let inner_not = |rng: &mut Generator, inner: &Condition| -> Option<String> {
        let not = keyword(rng, "NOT ");
        match inner {
            Condition::In(..) | Condition::Between(..) | Condition::Like(..) => {
                let text = written(rng, inner, 3);
                let words = [" IN ", " in ", " BETWEEN ", " between ", " LIKE ", " like "];
                let at = words.iter().filter_map(|word| text.find(word)).min()?;
                Some(format!("{}{not}{}", &text[..=at], &text[at + 1..]))
            }
            Condition::IsNull(operand) => {
                Some(format!("{} is {not}null", written_operand(rng, operand)))
            }
            _ => None,
        }
    };
    let (text, binds) = match it {
        Condition::Any(parts) => (join(rng, parts, "OR", 1), 1),
        Condition::All(parts) => (join(rng, parts, "AND", 2), 2),
        Condition::Not(inner) => {
            let inside = if below(rng, 2) == 0 { inner_not(rng, inner) } else { None };
            match inside {
                Some(text) => (text, 4),
                None => (keyword(rng, "NOT") + " " + &written(rng, inner, 3), 3),
            }
        }
        Condition::Compare(left, comparison, right) => {
            let (left, right) = (written_operand(rng, left), written_operand(rng, right));
            let around = pick(rng, &["", " "]);
            (format!("{left}{around}{comparison}{around}{right}"), 4)
        }
        Condition::Between(left, low, high) => {
            let (between, and) = (keyword(rng, "BETWEEN"), keyword(rng, "AND"));
            let left = written_operand(rng, left);
            let (low, high) = (written_operand(rng, low), written_operand(rng, high));
            (format!("{left} {between} {low} {and} {high}"), 4)
        }
        Condition::In(left, list) => {
            let left = written_operand(rng, left);
            let list: Vec<_> = list.iter().map(|it| written_literal(rng, it)).collect();
            (format!("{left} {} ({})", keyword(rng, "IN"), list.join(", ")), 4)
        }
        Condition::Like(left, pattern) => {
            let (left, pattern) = (written_operand(rng, left), quoted(rng, pattern));
            (format!("{left} {} {pattern}", keyword(rng, "LIKE")), 4)
        }
        Condition::IsNull(left) => {
            (format!("{} {}", written_operand(rng, left), keyword(rng, "IS NULL")), 4)
        }
    };
    if binds < within || below(rng, 10) == 0 { format!("( {text})") } else { text }
}

fn select<'a>(json: &'a Json, path: &[&str]) -> Vec<&'a Json> {
    match (json, path) {
        (Json::Null, _) => vec![],
        (Json::Array(items), [first, rest @ ..]) if first.parse::<usize>().is_ok() => {
            let index: usize = first.parse().unwrap();
            items.get(index).map_or(vec![], |it| select(it, rest))
        }
        (Json::Array(items), _) => items.iter().flat_map(|it| select(it, path)).collect(),
        (Json::Object(members), [first, rest @ ..]) => {
            let named = members.iter().filter(|(name, _)| name == first);
            named.flat_map(|(_, it)| select(it, rest)).collect()
        }
        (it, []) => vec![it],
        _ => vec![],
    }
}

fn values(operand: &Operand, body: &Json, key: &'static str) -> Vec<Json> {
    match operand {
        Operand::Header("topic") => vec![Json::Text("orders")],
        Operand::Header(_) if key.is_empty() => vec![],
        Operand::Header(_) => vec![Json::Text(key)],
        Operand::Literal(it) => vec![it.clone()],
        Operand::Path(names) => select(body, names).into_iter().cloned().collect(),
    }
}

fn order(a: &Json, b: &Json) -> Option<Ordering> {
    let number = |text: &str| TEXTS.iter().find(|(it, _)| *it == text).and_then(|(_, n)| *n);
    match (a, b) {
        (Json::Bool(a), Json::Bool(b)) => Some(a.cmp(b)),
        (Json::Text(a), Json::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (Json::Number(a), Json::Number(b)) => Some(a.cmp(b)),
        (Json::Number(a), Json::Text(b)) => Some(a.cmp(&number(b)?)),
        (Json::Text(a), Json::Number(b)) => Some(number(a)?.cmp(b)),
        _ => None,
    }
}

fn fits(pattern: &[char], text: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => (0..=text.len()).any(|from| fits(rest, &text[from..])),
        ['_', rest @ ..] => !text.is_empty() && fits(rest, &text[1..]),
        ['\\', c, rest @ ..] | [c, rest @ ..] => text.first() == Some(c) && fits(rest, &text[1..]),
    }
}

/// Whether the condition is true, and whether it is false; neither means unknown.
fn truth(condition: &Condition, body: &Json, key: &'static str) -> (bool, bool) {
    let values = |operand: &Operand| values(operand, body, key);
    let one = |operand: &Operand| match &values(operand)[..] {
        [one] => Some(one.clone()),
        _ => None,
    };
    // Truth over several values; unknown ones do not count.
    let some = |all: Vec<Option<bool>>| {
        let is_true = all.contains(&Some(true));
        (is_true, !is_true && all.contains(&Some(false)))
    };
    match condition {
        Condition::Not(inner) => {
            let (is_true, is_false) = truth(inner, body, key);
            (is_false, is_true)
        }
        Condition::All(parts) => {
            let all: Vec<_> = parts.iter().map(|part| truth(part, body, key)).collect();
            (all.iter().all(|it| it.0), all.iter().any(|it| it.1))
        }
        Condition::Any(parts) => {
            let all: Vec<_> = parts.iter().map(|part| truth(part, body, key)).collect();
            (all.iter().any(|it| it.0), all.iter().all(|it| it.1))
        }
        Condition::IsNull(operand) => (values(operand).is_empty(), !values(operand).is_empty()),
        Condition::Compare(left, comparison, right) => {
            let Some(right) = one(right) else { return (false, false) };
            let holds = |ordering: Ordering| match *comparison {
                "=" | "==" => ordering == Ordering::Equal,
                "!=" | "<>" => ordering != Ordering::Equal,
                "<" => ordering == Ordering::Less,
                "<=" => ordering != Ordering::Greater,
                ">" => ordering == Ordering::Greater,
                _ => ordering != Ordering::Less,
            };
            some(values(left).iter().map(|left| order(left, &right).map(holds)).collect())
        }
        Condition::Between(left, low, high) => {
            let (Some(low), Some(high)) = (one(low), one(high)) else { return (false, false) };
            let within = |it: &Json| {
                let above = order(it, &low).map(|it| it != Ordering::Less);
                let below = order(it, &high).map(|it| it != Ordering::Greater);
                match (above, below) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                }
            };
            some(values(left).iter().map(within).collect())
        }
        Condition::In(left, list) => {
            let is_in = |it: &Json| {
                let each: Vec<_> =
                    list.iter().map(|one| order(it, one).map(Ordering::is_eq)).collect();
                match () {
                    () if each.contains(&Some(true)) => Some(true),
                    () if each.contains(&None) => None,
                    () => Some(false),
                }
            };
            some(values(left).iter().map(is_in).collect())
        }
        Condition::Like(left, pattern) => {
            let pattern: Vec<char> = pattern.chars().collect();
            let is_like = |it: &Json| match it {
                Json::Text(text) => Some(fits(&pattern, &text.chars().collect::<Vec<_>>())),
                _ => None,
            };
            some(values(left).iter().map(is_like).collect())
        }
    }
}

#[test]
fn a_second_evaluator_agrees_and_what_is_printed_is_parsed_again() {
    let (mut yes, mut unknown) = (0, 0);
    for seed in 0..cases() {
        let rng = &mut stream(seed, "filters", 0);
        let depth = below(rng, 4) as u32;
        let condition = condition(rng, depth);
        let text = written(rng, &condition, 0);
        let filter = Filter::parse(&text).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let again = Filter::parse(&filter.to_string());
        assert_eq!(again.as_ref(), Ok(&filter), "seed {seed}: {text}\n{filter}");
        for _ in 0..4 {
            let (body, key) = (json(rng, 3), pick(rng, &KEYS));
            let written = written_json(&body);
            let it = Message { key: key.as_bytes(), ..message(written.as_bytes()) };
            let (is_true, is_false) = truth(&condition, &body, key);
            assert_eq!(
                filter.matches(NUMBER, &it),
                is_true,
                "seed {seed}: {filter}\n{written}, key {key}"
            );
            // Its negation is true where it is false.
            let negation = Filter::parse(&format!("NOT ({text})")).unwrap();
            assert_eq!(
                negation.matches(NUMBER, &it),
                is_false,
                "seed {seed}: NOT {filter}\n{written}"
            );
            yes += u64::from(is_true);
            unknown += u64::from(!is_true && !is_false);
        }
    }
    let all = cases() * 4;
    assert!(yes > all / 10 && unknown > all / 20, "{yes} and {unknown} of {all}");
}

/// Any text is a filter, or an error with a position in it. A filter can be printed and parsed again.
#[test]
fn no_text_panics() {
    const PARTS: [&str; 40] = [
        "/a",
        "/'",
        "'",
        "\"",
        "''",
        "(",
        ")",
        "AND",
        "or",
        "NOT",
        "IN",
        "between",
        "LIKE",
        "IS",
        "NULL",
        "=",
        "==",
        "<",
        "<>",
        ">=",
        "!",
        "1",
        "-",
        "1e5",
        "0.5",
        ".",
        ",",
        " ",
        "\n",
        "topic",
        "time",
        "kind",
        "'2026-11-23T00:00:00Z'",
        "%",
        "\\",
        "ä",
        "\u{0}",
        "🦀",
        "/",
        "true",
    ];
    for seed in 0..cases() {
        let rng = &mut stream(seed, "filter texts", 0);
        let mut text = if below(rng, 2) == 0 {
            let space = pick(rng, &["", " "]);
            (0..below(rng, 12)).map(|_| pick(rng, &PARTS).to_owned() + space).collect::<String>()
        } else {
            let it = condition(rng, 2);
            written(rng, &it, 0)
        };
        if let Some((at, _)) = text.char_indices().nth(below(rng, 40) as usize) {
            match below(rng, 3) {
                0 => text.truncate(at),
                1 => drop(text.remove(at)),
                _ => text.insert_str(at, pick(rng, &PARTS)),
            }
        }
        match Filter::parse(&text) {
            Ok(filter) => {
                let again = Filter::parse(&filter.to_string());
                assert_eq!(again.as_ref(), Ok(&filter), "seed {seed}: {text}");
                let _ = filter.matches(NUMBER, &message(br#"{"a": [1, {"b": "x"}]}"#));
            }
            Err(e) => {
                let (line, column) = e.line_column().unwrap();
                let lines: Vec<_> = text.split('\n').collect();
                assert!(column <= lines[line - 1].chars().count() + 1, "seed {seed}: {text}\n{e}");
                assert!(!e.message().is_empty(), "seed {seed}: {text}\n{e}");
            }
        }
    }
}
