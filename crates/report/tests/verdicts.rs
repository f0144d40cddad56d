//! `docs/verdicts.md` lists the same codes and levels as the source of verdicts and of remarks on comparisons.

use iodyno_report::run_verdict::CODES;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

fn read(path: &str) -> String {
    fs::read_to_string(format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn is_code(text: &str) -> bool {
    text.len() > 2
        && text.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
        && text.starts_with(|c: char| c.is_ascii_uppercase())
}

/// Files that judge comparisons of runs.
fn of_comparisons() -> Vec<String> {
    ["mod", "values", "conditions"].map(|f| format!("crates/report/src/compare/{f}.rs")).to_vec()
}

/// Files that judge cells and methods.
fn of_results() -> Vec<String> {
    let folder = format!("{}/../measure/src/verdict", env!("CARGO_MANIFEST_DIR"));
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let of_cells =
        files.map(|name| format!("crates/measure/src/verdict/{}", name.into_string().unwrap()));
    let judge = "crates/measure/src/verdict.rs".to_owned();
    let of_methods = "crates/method/src/findings/verdicts.rs".to_owned();
    of_cells.chain([judge, of_methods]).collect()
}

/// Codes in these files, each with the levels that follow it.
fn codes_in(files: &[String]) -> BTreeMap<String, BTreeSet<String>> {
    let mut source = String::new();
    for path in files {
        source += read(path).split("#[cfg(test)]").next().unwrap();
    }
    let mut codes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let parts: Vec<&str> = source.split('"').collect();
    for i in (1..parts.len()).step_by(2) {
        if is_code(parts[i]) {
            let levels = codes.entry(parts[i].to_owned()).or_default();
            let level = parts[i + 1].trim_start_matches([',', ' ', '\n']);
            if let Some(level) = level.strip_prefix("Level::") {
                let end = level.find(|c: char| !c.is_alphanumeric()).unwrap();
                levels.insert(level[..end].to_lowercase());
            }
        }
    }
    codes
}

/// Codes in the tables of the document, each with its row.
fn in_document() -> BTreeMap<String, Vec<String>> {
    let document = read("docs/verdicts.md");
    let rows = document.lines().filter_map(|line| {
        let fields: Vec<String> =
            line.trim_matches('|').split(" | ").map(|f| f.trim().to_owned()).collect();
        let code = fields[0].strip_prefix('`')?.strip_suffix('`')?.to_owned();
        is_code(&code).then_some((code, fields))
    });
    rows.collect()
}

#[test]
fn every_verdict_is_documented_and_none_is_made_up() {
    let source = codes_in(&[of_results(), of_comparisons()].concat());
    let document = in_document();
    assert!(source.len() > 20, "the source was not understood: {source:?}");
    assert_eq!(source.keys().collect::<Vec<_>>(), document.keys().collect::<Vec<_>>());
    for (code, levels) in source {
        let row = &document[&code];
        assert_eq!(row.len(), 4, "{code}: level, rule, meaning");
        assert!(row.iter().all(|field| !field.is_empty()), "{code}: {row:?}");
        for level in levels {
            assert!(row[1].contains(&level), "{code} is {level}: {}", row[1]);
        }
    }
}

/// `run --accept` knows the codes by this list.
#[test]
fn the_list_of_codes_is_complete() {
    let source = codes_in(&of_results());
    assert_eq!(source.keys().collect::<Vec<_>>(), CODES.iter().collect::<Vec<_>>());
}
