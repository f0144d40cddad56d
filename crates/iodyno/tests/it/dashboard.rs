//! The Grafana dashboard `dashboards/iodyno.json` shows all metrics that iodyno exports, and no others. The
//! documentation names all metrics of runs, and no others.

use crate::place::Place;
use serde_json::Value;
use std::collections::BTreeSet;

/// Keywords of PromQL that precede a list of labels.
const LISTS: [&str; 6] = ["by", "on", "group_left", "group_right", "without", "ignoring"];
/// Keywords and functions of PromQL that may stand alone.
const WORDS: [&str; 6] = ["sum", "max", "min", "avg", "count", "bool"];

/// Names of the metrics in a PromQL expression: identifiers that are neither functions, keywords, durations, labels nor
/// variables of Grafana.
fn metrics_in(expression: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let (mut braces, mut labels) = (0, 0);
    let mut rest = expression;
    let mut follows_list_word = false;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        let length = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        match token {
            "{" | "[" => braces += 1,
            "}" | "]" => braces -= 1,
            "(" if follows_list_word || labels > 0 => labels += 1,
            ")" if labels > 0 => labels -= 1,
            _ if !first.is_ascii_alphabetic() || braces > 0 || labels > 0 => {}
            _ if LISTS.contains(&token) || WORDS.contains(&token) || after.starts_with('(') => {}
            _ => {
                names.insert(token.to_owned());
            }
        }
        if !token.trim().is_empty() {
            follows_list_word = LISTS.contains(&token);
        }
    }
    assert!(braces == 0 && labels == 0, "{expression}");
    names
}

/// All values of a key, at any depth.
fn values<'a>(of: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match of {
        Value::Object(map) => {
            found.extend(map.get(key).and_then(Value::as_str));
            map.values().for_each(|value| values(value, key, found));
        }
        Value::Array(all) => all.iter().for_each(|value| values(value, key, found)),
        _ => {}
    }
}

/// Name of a metric without the suffixes of a histogram's samples.
fn family(name: &str) -> &str {
    ["_bucket", "_count", "_sum"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(name)
}

#[test]
fn names_in_expressions() {
    let text = r#"histogram_quantile(0.5, sum by (le, a) (rate(b_bucket{c=~"$d"}[5m]))) * on (e) group_left (f) g_info > 0"#;
    assert_eq!(metrics_in(text), BTreeSet::from(["b_bucket", "g_info"].map(str::to_owned)));
}

/// Names of metrics in a page.
fn documented(page: &str) -> BTreeSet<String> {
    let path = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    // A fixture of the Python package has such a name, too.
    words
        .filter(|word| word.starts_with("iodyno_") && *word != "iodyno_serve")
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_dashboard_and_the_pages_have_the_exported_metrics() {
    let place = Place::new();
    // Open loop has both latencies.
    let run = "run random-read --read 70% --on null: --rate 10k/s --ops 2000 --ramp 0s -q";
    place.iodyno(run).succeeds();
    let exported = place.iodyno("export last --format openmetrics").succeeds().stdout.clone();
    let samples = exported.lines().filter(|line| !line.starts_with('#'));
    let mut exports: BTreeSet<String> =
        samples.map(|line| family(line.split(['{', ' ']).next().unwrap()).to_owned()).collect();
    assert!(exports.iter().all(|name| name.starts_with("iodyno_run_")), "{exports:?}");
    assert_eq!(documented("reports.md"), exports);
    exports.extend(iodyno_live::metrics::names());
    let of_serving = documented("serving.md");
    assert!(!of_serving.is_empty() && of_serving.is_subset(&exports), "{of_serving:?}");

    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dashboards/iodyno.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut expressions = Vec::new();
    values(&dashboard["panels"], "expr", &mut expressions);
    let mut shown = BTreeSet::new();
    for expression in expressions {
        let names = metrics_in(expression);
        assert!(!names.is_empty(), "no metric: {expression}");
        shown.extend(names.iter().map(|name| family(name).to_owned()));
    }
    let unknown: Vec<&String> = shown.difference(&exports).collect();
    assert!(unknown.is_empty(), "not exported: {unknown:?}");
    let hidden: Vec<&String> = exports.difference(&shown).collect();
    assert!(hidden.is_empty(), "in no panel: {hidden:?}");
    // Variables list values of metrics that exist.
    let mut queries = Vec::new();
    values(&dashboard["templating"], "definition", &mut queries);
    for query in queries {
        let metric = query.strip_prefix("label_values(").unwrap().split([',', '{']).next().unwrap();
        assert!(exports.contains(metric), "{query}");
    }
}
