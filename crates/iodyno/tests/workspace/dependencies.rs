//! Dependencies of this workspace: licences, sources, duplicate versions, and the oldest compiler. The rules are those
//! of `deny.toml`, which cargo-deny reads too; these tests need neither cargo-deny nor a network.

use super::root;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Packages that a build of any crate, feature and test on Linux needs, as `cargo metadata` lists them.
fn packages() -> Vec<Value> {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--all-features"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut all: Value = serde_json::from_slice(&out.stdout).unwrap();
    let nodes = all["resolve"]["nodes"].as_array().unwrap();
    let used: BTreeSet<String> = nodes.iter().map(|node| text(&node["id"])).collect();
    let Value::Array(packages) = all["packages"].take() else { panic!("no list of packages") };
    packages.into_iter().filter(|package| used.contains(&text(&package["id"]))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Name and version.
fn title(package: &Value) -> String {
    format!("{}@{}", text(&package["name"]), text(&package["version"]))
}

fn rules() -> toml::Table {
    std::fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap()
}

fn texts(list: &toml::Value) -> BTreeSet<String> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// Whether an SPDX expression can be met with allowed licences. `/` is an older form of OR.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let expression = expression.replace(" WITH ", "+WITH+");
    let mut words = expression.split_whitespace().peekable();
    let is_met = either(&mut words, allowed);
    is_met && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn either(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let mut is_met = both(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        is_met |= both(words, allowed);
    }
    is_met
}

fn both(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let mut is_met = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        is_met &= one(words, allowed);
    }
    is_met
}

fn one(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    match words.next() {
        Some("(") => {
            let is_met = either(words, allowed);
            words.next_if_eq(&")").is_some() && is_met
        }
        Some(licence) => allowed.contains(&licence.replace("+WITH+", " WITH ")),
        None => false,
    }
}

#[test]
fn spdx_expressions() {
    let allowed = BTreeSet::from(["MIT", "ISC", "A WITH B"].map(str::to_owned));
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("GPL-3.0 OR MIT AND ISC", true),
        ("A WITH B", true),
        ("A", false),
        ("(MIT", false),
        ("MIT ISC", false),
        ("", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }
}

#[test]
fn dependencies_keep_the_rules_of_deny_toml() {
    let (packages, rules) = (packages(), rules());
    let allowed = texts(&rules["licenses"]["allow"]);
    let exceptions = rules["licenses"]["exceptions"].as_array().unwrap();
    let excepted = |name: &str| {
        let entry = exceptions.iter().find(|entry| entry["crate"].as_str() == Some(name));
        entry.map(|entry| texts(&entry["allow"])).unwrap_or_default()
    };
    let registries = texts(&rules["sources"]["allow-registry"]);
    let skipped: BTreeSet<String> = rules["bans"]["skip"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["crate"].as_str().unwrap().to_owned())
        .collect();
    let mut wrong = Vec::new();
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in &packages {
        let title = title(package);
        let Some(source) = package["source"].as_str() else {
            // Ours.
            assert!(text(&package["name"]).starts_with("iodyno"), "{title} has no source");
            continue;
        };
        let registry = source.strip_prefix("registry+").unwrap_or(source);
        if !registries.contains(registry) {
            wrong.push(format!("{title} comes from {source}: use a package of crates.io"));
        }
        let licence = text(&package["license"]);
        if !is_allowed(&licence, &allowed)
            && !is_allowed(&licence, &excepted(&text(&package["name"])))
        {
            wrong.push(format!(
                "{title} has the licence `{licence}`, which deny.toml does not allow"
            ));
        }
        versions.entry(text(&package["name"])).or_default().push(title);
    }
    let unlisted = versions
        .values()
        .filter(|all| all.iter().filter(|title| !skipped.contains(*title)).count() > 1);
    wrong.extend(unlisted.map(|all| {
        format!("{} at once: make them one, or list all but one in deny.toml", all.join(" and "))
    }));
    let is_needed = |title: &&String| {
        let name = title.split('@').next().unwrap();
        !versions.get(name).is_some_and(|all| all.len() > 1 && all.contains(title))
    };
    wrong.extend(skipped.iter().filter(is_needed).map(|title| {
        format!("deny.toml skips {title}, which is not there twice: remove the entry")
    }));
    assert!(packages.len() > 100);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn release(version: &str) -> (u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap());
    (parts.next().unwrap(), parts.next().unwrap_or(0))
}

/// Clippy's `incompatible_msrv` checks our own calls of the standard library.
#[test]
fn no_dependency_needs_a_newer_compiler_than_ours() {
    let packages = packages();
    let (ours, theirs): (Vec<&Value>, Vec<&Value>) =
        packages.iter().partition(|package| package["source"].is_null());
    let oldest = |package: &Value| package["rust_version"].as_str().map(release);
    let least = ours.iter().map(|package| oldest(package).unwrap()).min().unwrap();
    let newer: Vec<String> = theirs
        .iter()
        .filter(|package| oldest(package) > Some(least))
        .map(|package| format!("{} needs {}", title(package), text(&package["rust_version"])))
        .collect();
    assert!(newer.is_empty(), "rust-version is {least:?}: {}", newer.join(", "));
}
