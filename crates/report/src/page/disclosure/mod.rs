//! Section with the full disclosure of a run: all facts needed to judge and reproduce the results, in groups A to I.
//! The groups cover the topics that SNIA's and SPC's reports disclose. Unknown facts are listed as unknown.

mod groups;

use crate::compare::Compared;
use groups::{device, host, identity, measurement, preparation, results, stack, stimulus};
use iodyno_method::Findings;
use iodyno_notebook::{HOST_NAME, Run};
use iodyno_page::{Block, Section};
use iodyno_units::human;
use iodyno_units::text::for_shell;
use serde_json::Value;

/// HTML id of the section with the command to repeat the run.
pub(super) const REPEAT: &str = "repeat";

/// Maximum number of commands listed for a comparison.
const COMMANDS_MAX: usize = 24;

/// Maximum number of recorded values in the table. Real runs have fewer; the excess is cut off.
const RECORDED_MAX: usize = 1500;

type Facts = Vec<(String, String)>;

/// Sections that document the run: the disclosure, all recorded values, and the commands to repeat the run.
pub(super) fn sections(run: &Run, findings: Option<&Findings>) -> Vec<Section> {
    let alone = vec![row("compared with", "nothing: this report covers one run")];
    vec![disclosure(run, findings, alone), recorded(run), repeat(run)]
}

/// Sections that document a comparison: the disclosure of each side's first run, the criteria of the
/// comparison, and the commands of all runs.
pub(super) fn of_comparison(parts: &[Compared<'_>], sides: &[&[Run]]) -> Vec<Section> {
    let mut all = Vec::new();
    for (number, side) in sides.iter().enumerate() {
        let Some(run) = side.first() else { continue };
        // The first side is in every part; each other side has its own part.
        let part = &parts[number.saturating_sub(1).min(parts.len().saturating_sub(1))];
        let findings = crate::method::findings_of(run);
        let section = disclosure(run, findings.as_ref(), comparison(part));
        let which = if side.len() > 1 {
            format!("{}, the first of {} runs", run.id, side.len())
        } else {
            run.id.clone()
        };
        all.push(Section {
            id: format!("disclosure-{}", number + 1),
            title: format!("Full disclosure: {which}"),
            ..section
        });
    }
    let commands = sides.iter().copied().flatten().take(COMMANDS_MAX);
    all.push(Section {
        id: REPEAT.to_owned(),
        title: "Make them again".to_owned(),
        blocks: commands
            .map(|run| {
                let (text, remark) = command(run);
                Block::Code { caption: format!("Run {}{remark}", run.id), text }
            })
            .collect(),
        folded: false,
    });
    all
}

/// Facts of a comparison for group I of the disclosure.
fn comparison(part: &Compared<'_>) -> Facts {
    let [a, b] = &part.sides;
    let share = |x: f64| format!("{} %", human::three_digits(x * 100.0));
    let conditions: Vec<&str> = part.conditions.iter().map(|c| c.what.as_str()).collect();
    vec![
        row("A", a.runs.join(", ")),
        row("B", b.runs.join(", ")),
        row("unit", "a run, or a repeat within a run if each side is one run"),
        row("test", "exact Mann–Whitney, two-sided, with the Benjamini–Hochberg correction"),
        row("effect", "Hodges–Lehmann shift on logarithms, relative to A, with its 95 % interval"),
        row("a shift matters from", share(part.criteria.threshold_share)),
        row("false shifts among those reported, on average at most", share(part.criteria.alpha)),
        row("figures compared", part.rows.len().to_string()),
        row("not compared", part.omissions.len().to_string()),
        row(
            "conditions that differ",
            if conditions.is_empty() { "none recorded".to_owned() } else { conditions.join(", ") },
        ),
        row("order of the runs", "by start time, as listed at the top of this page"),
        row("published values", "none"),
    ]
}

/// Section with the groups A to I of the disclosure.
fn disclosure(run: &Run, findings: Option<&Findings>, comparison: Facts) -> Section {
    let mut groups = vec![("A · Identity".to_owned(), identity(run, findings))];
    for target in &run.head.targets {
        groups.push((format!("B · Device: {}", target.name), device(target)));
    }
    groups.push(("C · Host".to_owned(), host(run)));
    groups.push(("D · Operating system and storage stack".to_owned(), stack(run)));
    groups.push(("E · Preparation".to_owned(), preparation(run)));
    groups.push(("F · Stimulus".to_owned(), stimulus(run)));
    groups.push(("G · Measurement".to_owned(), measurement(run)));
    groups.push(("H · Results".to_owned(), results(run, findings)));
    groups.push(("I · Comparison".to_owned(), comparison));
    Section {
        id: "disclosure".to_owned(),
        title: "Full disclosure".to_owned(),
        blocks: vec![
            Block::Text(
                "“unknown”: the machine did not report it, or iodyno did not inspect it."
                    .to_owned(),
            ),
            Block::Facts(groups),
        ],
        folded: true,
    }
}

fn row(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

/// Selects values of a JSON object for display. Each entry of `wanted` is a display name and the JSON pointer
/// of a value.
fn rows(of: &Value, wanted: &[(&str, &str)]) -> Facts {
    wanted.iter().map(|(name, pointer)| row(name, text(pointer, of.pointer(pointer)))).collect()
}

/// Formats a JSON value for display. The suffix of `key`, such as `_bytes`, determines the unit.
fn text(key: &str, value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "unknown".to_owned(),
        Some(Value::Bool(yes)) => if *yes { "yes" } else { "no" }.to_owned(),
        Some(Value::Number(n)) => {
            let x = n.as_f64().unwrap_or_default();
            if key.ends_with("_bytes") && n.as_u64().is_some() {
                let exact = n.as_u64().unwrap_or_default();
                let short = human::size(exact);
                if exact >= 1024 {
                    format!("{short} ({exact} bytes)")
                } else {
                    format!("{exact} bytes")
                }
            } else if key.ends_with("_ns") {
                human::time_ns(x)
            } else {
                n.to_string()
            }
        }
        Some(Value::String(text)) if text.is_empty() => "unknown".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(list)) if list.is_empty() => "none".to_owned(),
        Some(Value::Array(list)) => {
            list.iter().map(|v| text(key, Some(v))).collect::<Vec<_>>().join(", ")
        }
        Some(Value::Object(map)) => map
            .iter()
            .filter(|(_, v)| !v.is_null())
            .map(|(k, v)| format!("{k} {}", text(k, Some(v))))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// Section with all recorded values of the run, one row per value.
fn recorded(run: &Run) -> Section {
    let mut machine = run.head.machine.clone();
    if let Value::Object(machine) = &mut machine {
        machine.remove(HOST_NAME);
    }
    let mut groups = vec![("machine".to_owned(), flat(&machine))];
    for target in &run.head.targets {
        groups.push((target.name.clone(), flat(&target.facts)));
    }
    let mut plan = run.head.plan.clone();
    if let Value::Object(plan) = &mut plan {
        // For programs only: it repeats the workloads, the method and the command line.
        plan.remove("request");
    }
    groups.push(("plan".to_owned(), flat(&plan)));
    Section {
        id: "recorded".to_owned(),
        title: "As recorded".to_owned(),
        blocks: vec![Block::Facts(groups)],
        folded: true,
    }
}

fn flat(value: &Value) -> Facts {
    fn walk(path: &str, value: &Value, into: &mut Facts) {
        if into.len() >= RECORDED_MAX {
            return;
        }
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    walk(&path, value, into);
                }
            }
            Value::Array(list) if list.iter().any(|v| v.is_object() || v.is_array()) => {
                for (i, value) in list.iter().enumerate() {
                    walk(&format!("{path}.{i}"), value, into);
                }
            }
            other => {
                let key = path.rsplit('.').next().unwrap_or_default().to_owned();
                into.push((path.to_owned(), text(&key, Some(other))));
            }
        }
    }
    let mut all = Facts::new();
    walk("", value, &mut all);
    all
}

/// Section with the exact command of the run, quoted for a shell, and its requirements.
fn repeat(run: &Run) -> Section {
    let (text, remark) = command(run);
    let mut blocks = vec![Block::Code { caption: format!("The command{remark}"), text }];
    for workload in &run.head.workloads {
        if run.head.workloads.len() <= 12 {
            blocks.push(Block::Code {
                caption: format!("Workload {}, after all overrides", workload.name),
                text: format!("{:#}", workload.spec),
            });
        }
    }
    Section { id: REPEAT.to_owned(), title: "Reproduce".to_owned(), blocks, folded: false }
}

/// Command line of a run, quoted for a shell, and a remark if confirmation flags were removed from it.
fn command(run: &Run) -> (String, &'static str) {
    let (words, is_shorter) = run.head.command_to_repeat();
    let mut words: Vec<String> = words.iter().map(|word| for_shell(word)).collect();
    if let Some(program) = words.first_mut() {
        "iodyno".clone_into(program);
    }
    let remark = if is_shorter { ", without its --destroy confirmations" } else { "" };
    (words.join(" "), remark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_null_is_unknown_and_never_absent() {
        let record = json!({"a": null, "size_bytes": 4096, "list": []});
        let wanted = [("a", "/a"), ("b", "/b"), ("size", "/size_bytes"), ("list", "/list")];
        let shown: Vec<String> = rows(&record, &wanted).into_iter().map(|r| r.1).collect();
        assert_eq!(shown, ["unknown", "unknown", "4 KiB (4096 bytes)", "none"]);
    }
}
