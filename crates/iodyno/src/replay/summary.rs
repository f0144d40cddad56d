//! The summary of a trace, for a terminal and as JSON.

use crate::console::print as print_text;
use crate::console::print_json;
use crate::failure::Failure;
use iodyno_exchange::trace::TraceFile;
use iodyno_units::text::clean;
use iodyno_units::{OpKind, human};
use iodyno_workload::trace::TraceSummary;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Maximum number of sizes per kind in the text.
const SIZES: usize = 4;
/// Maximum number of files or devices in the text.
const PARTS: usize = 16;

/// The trace in one line.
pub(super) fn line(of: &TraceSummary) -> String {
    let kinds = OpKind::ALL.into_iter().filter(|kind| of.ops[kind.index()] > 0);
    let kinds = kinds.map(|kind| format!("{} {}", human::whole(of.ops[kind.index()]), words(kind)));
    format!(
        "{} over {}; to {}, {} of it touched",
        kinds.collect::<Vec<_>>().join(", "),
        human::time_ns(of.span_ns as f64),
        human::size(of.end_bytes),
        human::size(of.touched_bytes)
    )
}

fn words(kind: OpKind) -> &'static str {
    match kind {
        OpKind::Read => "reads",
        OpKind::Write => "writes",
        OpKind::Flush => "flushes",
        OpKind::Trim => "trims",
        OpKind::WriteZeroes => "writes of zeroes",
    }
}

/// Prints the summary of a trace.
pub(super) fn print(named: &str, file: &TraceFile, as_json: bool) -> Result<ExitCode, Failure> {
    if as_json { print_json(&document(named, file)) } else { print_text(&text(named, file)) }
}

fn text(named: &str, file: &TraceFile) -> String {
    let of = file.trace.summary();
    let mut text = String::new();
    let mut row = |name: &str, words: String| {
        let _ = writeln!(text, "  {name:<16}{}", clean(&words));
    };
    row("trace", format!("{named}: {}", file.format.name()));
    row("sha256", file.sha256.clone());
    let span_s = of.span_ns as f64 / 1e9;
    let rate =
        if span_s > 0.0 { human::count(of.all_ops() as f64 / span_s) } else { "-".to_owned() };
    row(
        "operations",
        format!("{} over {}", human::whole(of.all_ops()), human::time_ns(of.span_ns as f64)),
    );
    for kind in OpKind::ALL {
        let (ops, bytes) = (of.ops[kind.index()], of.bytes[kind.index()]);
        if ops == 0 {
            continue;
        }
        let share = human::percent(ops as f64 / of.all_ops() as f64, 1);
        let mut words = format!("{} ({share})", human::whole(ops));
        if kind != OpKind::Flush {
            let sizes = &of.sizes[kind.index()];
            let shown = sizes.iter().take(SIZES).map(|size| {
                let share = human::percent(size.ops as f64 / ops as f64, 0);
                format!("{} {share}", human::size(size.bytes.into()))
            });
            let more = if sizes.len() > SIZES {
                format!(", {} more sizes", sizes.len() - SIZES)
            } else {
                String::new()
            };
            let _ = write!(
                words,
                ", {}: {}{more}",
                human::size(bytes),
                shown.collect::<Vec<_>>().join(", ")
            );
        }
        row(&format!("  {}", self::words(kind)), words);
    }
    if of.fua > 0 {
        row("  forced writes", human::whole(of.fua));
    }
    let peak = format!(
        "{rate}/s on average, at most {} operations and {} in a second",
        human::whole(of.peak_ops_per_s),
        human::size(of.peak_bytes_per_s)
    );
    row("rate", peak);
    row(
        "range",
        format!(
            "to {}, in multiples of {}",
            human::size(of.end_bytes),
            human::size(of.align_bytes.into())
        ),
    );
    let unit = human::size(of.touched_unit_bytes);
    row("working set", format!("{} (in units of {unit})", human::size(of.touched_bytes)));
    row(
        "sequential",
        format!("{} begin where the one before ended", human::percent(of.sequential_share(), 1)),
    );
    let known = match of.responses {
        (0, _) => "not in the trace, so --think is not possible".to_owned(),
        (n, mean_ns) if n == of.all_ops() => format!("{} on average", human::time_ns(mean_ns)),
        (n, mean_ns) => {
            format!("of {} operations, {} on average", human::whole(n), human::time_ns(mean_ns))
        }
    };
    row("response times", known);
    for (at, part) in of.parts.iter().take(PARTS).enumerate() {
        let name = if at > 0 {
            ""
        } else if of.parts.len() > 1 {
            "parts"
        } else {
            "part"
        };
        row(
            name,
            format!(
                "{}: {} operations to {}, at {} of the target",
                part.name,
                human::whole(part.ops),
                human::size(part.end_bytes),
                human::size(part.start_bytes)
            ),
        );
    }
    if of.parts.len() > PARTS {
        row("", format!("and {} more", of.parts.len() - PARTS));
    }
    for (what, count) in &file.left_out {
        row("left out", format!("{} {what}", human::whole(*count)));
    }
    let changed = [
        (of.rounded, "operations were enlarged (--align)"),
        (of.divided, "operations were divided, since they are longer than 1 GiB"),
    ];
    for (count, what) in changed.into_iter().filter(|(count, _)| *count > 0) {
        row("changed", format!("{} {what}", human::whole(count)));
    }
    if !of.is_sorted {
        row("note", "the operations were not in the order of their times, and are now".to_owned());
    }
    for note in &file.notes {
        row("note", note.clone());
    }
    if !file.has_times {
        row("note", "the trace has no times: it is issued as fast as possible".to_owned());
    }
    text.push_str("\n  replay it with --on TARGET\n");
    text
}

fn document(named: &str, file: &TraceFile) -> Value {
    let of = file.trace.summary();
    let mut kinds = serde_json::Map::new();
    for kind in OpKind::ALL.into_iter().filter(|kind| of.ops[kind.index()] > 0) {
        let sizes =
            of.sizes[kind.index()].iter().map(|s| json!({ "bytes": s.bytes, "ops": s.ops }));
        let of = json!({
            "ops": of.ops[kind.index()],
            "bytes": of.bytes[kind.index()],
            "sizes": sizes.collect::<Vec<_>>(),
        });
        kinds.insert(kind.name().to_owned(), of);
    }
    let parts = of.parts.iter().map(|part| {
        json!({ "name": part.name, "ops": part.ops, "end_bytes": part.end_bytes, "start_bytes": part.start_bytes })
    });
    let left_out =
        file.left_out.iter().map(|(what, lines)| json!({ "what": what, "lines": lines }));
    json!({
        "file": named,
        "format": file.format.name(),
        "sha256": file.sha256,
        "ops": of.all_ops(),
        "kinds": kinds,
        "forced_writes": of.fua,
        "span_ns": of.span_ns,
        "has_times": file.has_times,
        "peak_ops_per_s": of.peak_ops_per_s,
        "peak_bytes_per_s": of.peak_bytes_per_s,
        "end_bytes": of.end_bytes,
        "align_bytes": of.align_bytes,
        "touched_bytes": of.touched_bytes,
        "touched_unit_bytes": of.touched_unit_bytes,
        "sequential_share": of.sequential_share(),
        "responses": of.responses.0,
        "response_mean_ns": (of.responses.0 > 0).then_some(of.responses.1),
        "parts": parts.collect::<Vec<_>>(),
        "left_out": left_out.collect::<Vec<_>>(),
        "enlarged": of.rounded,
        "divided": of.divided,
        "was_sorted": of.is_sorted,
        "notes": file.notes,
    })
}
