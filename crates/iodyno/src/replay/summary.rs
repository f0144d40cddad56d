//! Formats the summary of a trace, as text for a terminal or as JSON.

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

/// Maximum number of block sizes per kind of operation in the text.
const SIZES: usize = 4;
/// Maximum number of files or devices in the text.
const PARTS: usize = 16;

/// Summarises a trace in one line: operations, duration and address range.
pub(super) fn line(of: &TraceSummary) -> String {
    let kinds = OpKind::ALL.into_iter().filter(|kind| of.ops[kind.index()] > 0);
    let kinds = kinds.map(|kind| format!("{} {}", human::whole(of.ops[kind.index()]), words(kind)));
    format!(
        "{} in {}; addresses up to {}, {} of them accessed",
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

/// Formats a number of operations with their noun.
fn counted(operations: u64) -> String {
    match operations {
        1 => "1 operation".to_owned(),
        n => format!("{} operations", human::whole(n)),
    }
}

/// Prints the summary of a trace as text or JSON.
pub(super) fn print(named: &str, file: &TraceFile, as_json: bool) -> Result<ExitCode, Failure> {
    if as_json { print_json(&document(named, file)) } else { print_text(&text(named, file)) }
}

/// Rows of a summary: label and text. A row with an empty label continues the row above.
type Rows = Vec<(String, String)>;

fn text(named: &str, file: &TraceFile) -> String {
    let of = file.trace.summary();
    let mut text = String::new();
    let all = [operations(named, file, of), places(of), remarks(file, of)];
    for (name, words) in all.iter().flatten() {
        let _ = writeln!(text, "  {name:<16}{}", clean(words));
    }
    text.push_str("\n  replay it with --on TARGET\n");
    text
}

fn row(name: &str, words: impl Into<String>) -> (String, String) {
    (name.to_owned(), words.into())
}

/// Summary rows for the file, and for its operations by kind and over time.
fn operations(named: &str, file: &TraceFile, of: &TraceSummary) -> Rows {
    let span = human::time_ns(of.span_ns as f64);
    let mut rows = vec![
        row("trace", format!("{named}: {}", file.format.name())),
        row("sha256", &*file.sha256),
        row("operations", format!("{} over {span}", human::whole(of.all_ops()))),
    ];
    let kinds = OpKind::ALL.into_iter().filter(|kind| of.ops[kind.index()] > 0);
    rows.extend(kinds.map(|kind| row(&format!("  {}", words(kind)), of_kind(of, kind))));
    rows.extend((of.fua > 0).then(|| row("  forced writes", human::whole(of.fua))));
    let span_s = of.span_ns as f64 / 1e9;
    let rate =
        if span_s > 0.0 { human::count(of.all_ops() as f64 / span_s) } else { "-".to_owned() };
    let peak = format!(
        "{rate}/s on average, at most {} and {} in a second",
        counted(of.peak_ops_per_s),
        human::size(of.peak_bytes_per_s)
    );
    rows.push(row("rate", peak));
    rows
}

/// Describes the operations of one kind: number, total bytes and most frequent sizes.
fn of_kind(of: &TraceSummary, kind: OpKind) -> String {
    let (ops, bytes) = (of.ops[kind.index()], of.bytes[kind.index()]);
    let share = human::percent(ops as f64 / of.all_ops() as f64, 1);
    let count = format!("{} ({share})", human::whole(ops));
    if kind == OpKind::Flush {
        return count;
    }
    let sizes = &of.sizes[kind.index()];
    let shown = sizes.iter().take(SIZES).map(|size| {
        let share = human::percent(size.ops as f64 / ops as f64, 0);
        format!("{} {share}", human::size(size.bytes.into()))
    });
    let more = sizes.len().saturating_sub(SIZES);
    let more = match more {
        0 => String::new(),
        1 => ", 1 more size".to_owned(),
        n => format!(", {n} more sizes"),
    };
    let shown = shown.collect::<Vec<_>>().join(", ");
    format!("{count}, {}: {shown}{more}", human::size(bytes))
}

/// Summary rows for addresses, response times, and the files or devices of the trace.
fn places(of: &TraceSummary) -> Rows {
    let (end, align) = (human::size(of.end_bytes), human::size(of.align_bytes.into()));
    let (touched, unit) = (human::size(of.touched_bytes), human::size(of.touched_unit_bytes));
    let sequential = human::percent(of.sequential_share(), 1);
    let known = match of.responses {
        (0, _) => "the trace has no response times, so --think is not possible".to_owned(),
        (n, mean_ns) if n == of.all_ops() => format!("{} on average", human::time_ns(mean_ns)),
        (n, mean_ns) => format!("known for {} (mean {})", counted(n), human::time_ns(mean_ns)),
    };
    let mut rows = vec![
        row("range", format!("up to {end}, in multiples of {align}")),
        row("working set", format!("{touched} (in units of {unit})")),
        row("sequential", format!("{sequential} of operations begin where the previous one ended")),
        row("response times", known),
    ];
    for (at, part) in of.parts.iter().take(PARTS).enumerate() {
        let name = match (at, of.parts.len()) {
            (0, 1) => "part",
            (0, _) => "parts",
            _ => "",
        };
        let words = format!(
            "{}: {} in its first {}, placed at offset {} of the target",
            part.name,
            counted(part.ops),
            human::size(part.end_bytes),
            human::size(part.start_bytes)
        );
        rows.push(row(name, words));
    }
    let more = of.parts.len().saturating_sub(PARTS);
    rows.extend((more > 0).then(|| row("", format!("and {more} more"))));
    rows
}

/// Summary rows for omitted lines, changed operations and notes.
fn remarks(file: &TraceFile, of: &TraceSummary) -> Rows {
    let left_out = file.left_out.iter();
    let mut rows: Rows = left_out
        .map(|(what, count)| row("left out", format!("{} {what}", human::whole(*count))))
        .collect();
    let changed =
        [(of.rounded, "enlarged (--align)"), (of.divided, "divided, because longer than 1 GiB")];
    let changed = changed.into_iter().filter(|(count, _)| *count > 0);
    rows.extend(changed.map(|(count, what)| row("changed", format!("{} {what}", counted(count)))));
    if !of.is_sorted {
        rows.push(row("note", "the operations were out of order; they were sorted by time"));
    }
    rows.extend(file.notes.iter().map(|note| row("note", &**note)));
    if !file.has_times {
        rows.push(row("note", "the trace has no times: it is issued as fast as possible"));
    }
    rows
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
