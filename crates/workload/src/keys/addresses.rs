//! Keys whose values are block sizes or address patterns: schema, reader and writer.

use super::value::{Form, Value};
use crate::range::size_text;
use crate::spec::{Address, Block, Pattern, Percent, Spot, saturated};
use iodyno_catalog::{COUNT, Entry, Key, NUMBER, Reader, Record, ValueType};

/// Default number of recent addresses from which a `recently-…` pattern chooses.
const DEFAULT_WINDOW: u64 = 4096;

/// Keys of one entry in a list of block sizes.
pub(super) const BLOCKS: &[Key] = &[
    Key::required("size", ValueType::Bytes).such_as("\"4KiB\""),
    Key::required("share", NUMBER).such_as("60"),
];

/// Keys that describe one address pattern in a workload file.
pub(super) const ADDRESSES: &[Key] = &[
    Key::required("pattern", ValueType::Kind(PATTERNS, "the pattern")),
    Key::optional("share", NUMBER).such_as("70"),
    Key::optional("once_per_pass", ValueType::Flag).only(&["uniform"]),
    Key::optional("shared", ValueType::Flag).only(&["sequential"]),
    Key::optional("run", COUNT).only(&["sequential"]),
    Key::optional("to_end", ValueType::Flag).only(&["sequential"]),
    Key::optional("skip", ValueType::Bytes).only(&["sequential"]),
    Key::optional("jump", ValueType::Percent).only(&["sequential"]),
    Key::optional("streams", COUNT).only(&["sequential"]),
    Key::required("theta", NUMBER).only(&["zipf"]).such_as("0.9"),
    Key::required("h", NUMBER).only(&["pareto"]).such_as("0.2"),
    Key::optional("deviation", ValueType::Percent).only(&["normal"]),
    Key::required("zone", ValueType::Bytes).only(&["zones"]).such_as("\"256MiB\""),
    Key::required("open", COUNT).only(&["zones"]).such_as("32"),
    Key::optional("trim", ValueType::Flag).only(&["zones"]),
    Key::optional("capacity", ValueType::Bytes).only(&["zones"]),
    Key::required("spots", ValueType::Tables(SPOTS))
        .only(&["hot-spots"])
        .such_as("[{ share = 80, range = \"20%\" }, { share = 20, range = \"80%\" }]"),
    Key::optional("scatter", ValueType::Flag).only(&["hot-spots"]),
    Key::optional("window", COUNT).only(&["recently-read", "recently-written"]),
    Key::required("stride", ValueType::Bytes).only(&["strided"]).such_as("\"64KiB\""),
    Key::optional("start", ValueType::Bytes).only(&["strided"]),
    Key::optional("backward", ValueType::Flag).only(&["strided"]),
];

const PATTERNS: &[&str] = &[
    "uniform",
    "sequential",
    "zipf",
    "pareto",
    "normal",
    "zones",
    "hot-spots",
    "recently-read",
    "recently-written",
    "strided",
];

const SPOTS: &[Key] = &[
    Key::required("share", NUMBER).such_as("80"),
    Key::required("range", ValueType::Percent).such_as("\"20%\""),
];

pub(super) fn blocks(reader: &mut Reader, record: &Record, path: &str) -> Vec<Block> {
    if record.get(path).is_some_and(|list| list.is_array() && list.items().is_empty()) {
        reader.refuse(
            record.place(path),
            "no block size is given",
            "give a size such as `\"4KiB\"`",
        );
    }
    let one = |block: &Record| Block {
        bytes: block.whole("size").map_or(4096, saturated),
        share: block.real("share").unwrap_or(1.0),
    };
    record.records(path).map(one).collect()
}

pub(super) fn addresses(reader: &mut Reader, record: &Record, path: &str) -> Vec<Address> {
    let Some(list) = record.get(path) else { return Vec::new() };
    if list.is_array() && list.items().is_empty() {
        let help = "give a pattern such as `\"uniform\"`, or leave the key out";
        reader.refuse(list.span.clone(), "no address pattern is given", help);
    }
    for item in list.items().iter().filter(|_| list.items().len() > 1) {
        if item.record().is_some_and(|address| address.get("share").is_none()) {
            let help = "each of several patterns must have a `share`";
            reader.refuse(item.span.clone(), "this pattern has no `share`", help);
        }
    }
    for address in list.items().iter().filter_map(Entry::record) {
        let of = |names: &[&str]| names.iter().filter_map(|name| address.get(name)).count();
        let alone = of(&["skip", "jump", "streams", "shared", "to_end"]) + of(&["run"]);
        let is_skip = alone == 2 && of(&["skip", "run"]) == 2;
        let is_shared_run = of(&["skip", "jump", "streams", "to_end"]) == 0;
        if alone > 1 && !is_skip && !is_shared_run {
            let help = "`run` can be combined only with `skip`; `jump`, `streams`, `shared` and `to_end` can't be combined";
            let at =
                ["streams", "jump", "skip", "to_end"].iter().find_map(|name| address.get(name));
            let span = at.map_or_else(|| list.span.clone(), |entry| entry.span.clone());
            reader.refuse(span, "these keys can't be combined", help);
        }
    }
    let one = |address: &Record| Address {
        pattern: pattern(address),
        share: address.real("share").unwrap_or(1.0),
    };
    record.records(path).map(one).collect()
}

fn pattern(address: &Record) -> Pattern {
    let window = saturated(address.whole("window").unwrap_or(DEFAULT_WINDOW));
    let is = |path: &str| address.flag(path) == Some(true);
    match address.word("pattern") {
        Some("sequential") => {
            let run = address.whole("run");
            if let Some(skip_bytes) = address.whole("skip") {
                Pattern::Skips { run: run.unwrap_or(1), skip_bytes }
            } else if let Some(share) = address.real("jump") {
                Pattern::Jumps { share: Percent::from_fraction(share) }
            } else if let Some(streams) = address.whole("streams") {
                Pattern::Streams { streams: saturated(streams) }
            } else if is("to_end") {
                Pattern::ToEnd
            } else {
                Pattern::Sequential { shared: is("shared"), run }
            }
        }
        Some("zipf") => Pattern::Zipf { theta: address.real("theta").unwrap_or(1.0) },
        Some("pareto") => Pattern::Pareto { h: address.real("h").unwrap_or(0.2) },
        Some("normal") => Pattern::Normal {
            deviation: Percent::from_fraction(address.real("deviation").unwrap_or(0.0)),
        },
        Some("zones") => Pattern::Zones {
            zone_bytes: address.whole("zone").unwrap_or(1 << 30),
            open: saturated(address.whole("open").unwrap_or(1)),
            trim: is("trim"),
            capacity_bytes: address.whole("capacity"),
        },
        Some("hot-spots") => {
            let spot = |spot: &Record| {
                let range = Percent::from_fraction(spot.real("range")?);
                Some(Spot { share: spot.real("share")?, range })
            };
            let spots =
                address.get("spots").and_then(|_| address.records("spots").map(spot).collect());
            let spots = spots.unwrap_or_else(|| vec![Spot { share: 1.0, range: Percent::ALL }]);
            Pattern::HotSpots { spots, scatter: is("scatter") }
        }
        Some("recently-read") => Pattern::RecentlyRead { window },
        Some("recently-written") => Pattern::RecentlyWritten { window },
        Some("strided") => Pattern::Strided {
            stride_bytes: address.whole("stride").unwrap_or(1 << 30),
            start_bytes: address.whole("start").unwrap_or(0),
            backward: is("backward"),
        },
        _ => Pattern::Uniform { once_per_pass: is("once_per_pass") },
    }
}

/// Converts block sizes into a value to write; None if the list is empty.
pub(super) fn blocks_value(blocks: &[Block]) -> Option<Value> {
    let size = |block: &Block| size_text(block.bytes.into());
    let one = |b: &Block| format!("{{ size = \"{}\", share = {} }}", size(b), b.share);
    match blocks {
        [] => None,
        [block] => Some(Value::quoted(size(block))),
        blocks => {
            let all = blocks.iter().map(one).collect::<Vec<_>>();
            Some(Value::Text(format!("[{}]", all.join(", "))))
        }
    }
}

/// Converts address patterns into a value to write; None if the list is empty.
pub(super) fn addresses_value(addresses: &[Address]) -> Option<Value> {
    (!addresses.is_empty()).then(|| Value::Addresses(addresses.to_vec()))
}

/// Formats address patterns as TOML. In the short form, a single pattern is not a list, and one without
/// parameters is only its name.
pub(super) fn addresses_text(addresses: &[Address], form: Form) -> String {
    if let (Form::Short, [Address { pattern, .. }]) = (form, addresses) {
        let (name, keys) = pattern_text(pattern, form);
        let is_plain = keys.is_empty();
        return if is_plain {
            format!("\"{name}\"")
        } else {
            format!("{{ pattern = \"{name}\"{keys} }}")
        };
    }
    let one = |Address { pattern, share }: &Address| {
        let (name, keys) = pattern_text(pattern, form);
        format!("{{ pattern = \"{name}\", share = {share}{keys} }}")
    };
    format!("[{}]", addresses.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// Name of a pattern, and its parameters as TOML keys, each preceded by a comma.
fn pattern_text(pattern: &Pattern, form: Form) -> (&'static str, String) {
    // The short form lacks flags that are off.
    let flag = |key: &str, is_on: bool| match form {
        Form::Short if !is_on => String::new(),
        _ => format!(", {key} = {is_on}"),
    };
    match pattern {
        Pattern::Uniform { once_per_pass } => ("uniform", flag("once_per_pass", *once_per_pass)),
        Pattern::Sequential { shared, run } => {
            let run = run.map(|run| format!(", run = {run}")).unwrap_or_default();
            ("sequential", flag("shared", *shared) + &run)
        }
        Pattern::ToEnd => ("sequential", ", to_end = true".to_owned()),
        Pattern::Skips { run, skip_bytes } => {
            ("sequential", format!(", run = {run}, skip = \"{}\"", size_text(*skip_bytes)))
        }
        Pattern::Jumps { share } => ("sequential", format!(", jump = \"{share}\"")),
        Pattern::Streams { streams } => ("sequential", format!(", streams = {streams}")),
        Pattern::Zipf { theta } => ("zipf", format!(", theta = {theta}")),
        Pattern::Pareto { h } => ("pareto", format!(", h = {h}")),
        Pattern::Normal { deviation } => ("normal", format!(", deviation = \"{deviation}\"")),
        Pattern::Zones { zone_bytes, open, trim, capacity_bytes } => {
            let trim = if *trim { ", trim = true" } else { "" };
            let capacity =
                capacity_bytes.map(|bytes| format!(", capacity = \"{}\"", size_text(bytes)));
            let capacity = capacity.unwrap_or_default();
            let zone = size_text(*zone_bytes);
            ("zones", format!(", zone = \"{zone}\", open = {open}{trim}{capacity}"))
        }
        Pattern::HotSpots { spots, scatter } => {
            let spots: Vec<String> = spots
                .iter()
                .map(|s| format!("{{ share = {}, range = \"{}\" }}", s.share, s.range))
                .collect();
            ("hot-spots", flag("scatter", *scatter) + &format!(", spots = [{}]", spots.join(", ")))
        }
        Pattern::RecentlyRead { window } => ("recently-read", format!(", window = {window}")),
        Pattern::RecentlyWritten { window } => ("recently-written", format!(", window = {window}")),
        Pattern::Strided { stride_bytes, start_bytes, backward } => {
            let (stride, start) = (size_text(*stride_bytes), size_text(*start_bytes));
            let backward = if *backward { ", backward = true" } else { "" };
            ("strided", format!(", stride = \"{stride}\", start = \"{start}\"{backward}"))
        }
    }
}
