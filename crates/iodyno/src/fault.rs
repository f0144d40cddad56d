//! `iodyno fault` and `iodyno status`: commands to a running server, and its answers as text.

use crate::args::{FaultFlags, Status};
use crate::failure::Failure;
use crate::{print, print_json, serve};
use iodyno_units::human;
use iodyno_units::text::clean_lines;
use serde_json::Value;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Executes `iodyno fault`.
pub(crate) fn command(flags: &FaultFlags) -> Result<ExitCode, Failure> {
    let path = serve::socket(&flags.control);
    let line = flags.fault.join(" ");
    let said = if line == "stop" { serve::stop(path)? } else { serve::say(path, &line)? };
    match said["text"].as_str() {
        Some(text) => print(&clean_lines(&format!("{}\n", text.trim_end()))),
        None => print_json(&said),
    }
}

/// Executes `iodyno status`.
pub(crate) fn status(flags: &Status) -> Result<ExitCode, Failure> {
    let path = serve::socket(&flags.control);
    if flags.metrics {
        let said = serve::say(path, "metrics")?;
        return print(&clean_lines(said["text"].as_str().unwrap_or_default()));
    }
    let said = serve::say(path, "status")?;
    if flags.json {
        return print_json(&said);
    }
    print(&clean_lines(&in_words(&said)))
}

fn in_words(status: &Value) -> String {
    let mut text = String::new();
    if let Some(ns) = status["machine_ns"].as_u64() {
        let _ = writeln!(text, "machine  {} of the model's time", human::duration_ns(ns));
    }
    if let Some(transport) = status["transport"].as_object() {
        let time = |key: &str| human::time_ns(transport[key].as_f64().unwrap_or(0.0));
        let _ = writeln!(
            text,
            "transport {} a round trip are subtracted, {} of them until a client receives a reply; {} more where a thread was woken",
            time("round_trip_ns"),
            time("taking_ns"),
            time("waking_ns"),
        );
    }
    // Plain memory has no volumes.
    if let Some(requests) = status["requests"].as_object() {
        let number = |key: &str| status[key].as_u64().unwrap_or(0);
        let (size, connections) = (human::size(number("size_bytes")), number("connections"));
        let connections = human::counted(connections, "connection");
        let _ = writeln!(text, "plain memory  {size}, {connections}");
        for (kind, count) in requests {
            let bytes = match kind.as_str() {
                "read" => human::size(number("read_bytes")),
                "write" => human::size(number("written_bytes")),
                _ => String::new(),
            };
            let count = human::whole(count.as_u64().unwrap_or(0));
            let _ = writeln!(text, "  {kind:<13} {count:>8}  {bytes:>8}");
        }
        let _ = writeln!(text, "  errors        {:>8}", number("errors"));
    }
    text += &adapters_in_words(&status["adapters"]);
    for volume in status["volumes"].as_array().into_iter().flatten() {
        let device = volume["device"].as_str().unwrap_or("native speed");
        let _ = writeln!(text, "{device}");
        if let Some(held) = volume["memory_bytes"].as_u64() {
            let size = human::size(volume["capacity_bytes"].as_u64().unwrap_or(0));
            let _ = writeln!(text, "  memory        {} for {size}", human::size(held));
        }
        for (kind, of) in volume["operations"].as_object().into_iter().flatten() {
            let number = |key: &str| of[key].as_f64().unwrap_or(0.0);
            let time = |key: &str| of[key].as_f64().map_or("–".to_owned(), human::time_ns);
            let _ = writeln!(
                text,
                "  {kind:<13} {:>8}  {:>8}  errors {}  mean {}  p50 {}  p99 {}",
                human::whole(number("operations") as u64),
                human::size(number("bytes") as u64),
                number("errors"),
                time("latency_mean_ns"),
                time("latency_p50_ns"),
                time("latency_p99_ns"),
            );
        }
        if let (Some(held), Some(size)) =
            (volume["buffered_bytes"].as_u64(), volume["buffer_bytes"].as_u64())
        {
            let _ =
                writeln!(text, "  buffer        {} of {}", human::size(held), human::size(size));
        }
        if let Some(wa) = volume["write_amplification"].as_f64() {
            let worn = volume["worn"].as_f64().unwrap_or(0.0) * 100.0;
            let _ = writeln!(text, "  flash         write amplification {wa:.2}, worn {worn:.4} %");
        }
        if let Some(late) = volume["late"].as_u64() {
            let time = |key: &str| volume[key].as_f64().map_or("–".to_owned(), human::time_ns);
            let _ = writeln!(
                text,
                "  late          {late} of {} were more than 10 µs late, {} of these while the core was preempted; p50 {}, p99 {}",
                human::counted(completions(volume), "completion"),
                volume["late_away"].as_u64().unwrap_or(0),
                time("lateness_p50_ns"),
                time("lateness_p99_ns"),
            );
        }
        text += &array_in_words(&volume["array"]);
        for branch in volume["branches"].as_array().into_iter().flatten() {
            text += &array_in_words(branch);
        }
        let bytes = |key: &str| volume[key].as_u64();
        if let (Some(size), Some(capacity)) = (bytes("size_bytes"), bytes("capacity_bytes"))
            && size != capacity
        {
            let (size, capacity) = (human::size(size), human::size(capacity));
            let _ = writeln!(text, "  !             resized to {size} of {capacity}");
        }
        if let Some(factor) = volume["slow_factor"].as_f64().filter(|factor| *factor > 1.0) {
            let _ = writeln!(text, "  !             slow: everything takes {factor} times as long");
        }
        for (kind, ns) in volume["delay_ns"].as_object().into_iter().flatten() {
            let delay = human::time_ns(ns.as_f64().unwrap_or(0.0));
            let _ = writeln!(text, "  !             delayed: each {kind} ends {delay} later");
        }
        for (kind, share) in volume["error_share"].as_object().into_iter().flatten() {
            let percent = (share.as_f64().unwrap_or(0.0) * 1e8).round() / 1e6;
            let _ = writeln!(text, "  !             failing: {percent} % of {kind} operations");
        }
        for (key, words) in [
            ("power_off", "the power is off: everything fails"),
            ("full", "full: writes where there is no data fail"),
            ("hung", "hung: nothing completes"),
            ("lost", "lost: everything fails"),
        ] {
            if volume[key] == true {
                let _ = writeln!(text, "  !             {words}");
            }
        }
        for (key, words) in [
            ("corruptions_found", ("corrupt unit", " found")),
            ("pages_recovered", ("page", " rebuilt from parity")),
            ("pages_lost", ("page", " lost")),
            ("backing_errors", ("failed attempt", " to write bytes to the backing")),
            ("dropped_writes", ("acknowledged write", " lost in power cuts")),
            ("torn_writes", ("write", " of which power cuts left parts")),
        ] {
            if let Some(n @ 1..) = volume[key].as_u64() {
                let (noun, what) = words;
                let _ = writeln!(text, "  !             {}{what}", human::counted(n, noun));
            }
        }
    }
    text
}

/// Number of completions of a volume, including failures.
fn completions(volume: &Value) -> u64 {
    let kinds = volume["operations"].as_object().into_iter().flatten();
    kinds.flat_map(|(_, of)| [&of["operations"], &of["errors"]]).filter_map(Value::as_u64).sum()
}

/// The state of RAID adapters: their caches and faults.
fn adapters_in_words(state: &Value) -> String {
    let mut text = String::new();
    if state["has_cache"] == true {
        let dirty = human::size(state["dirty_bytes"].as_u64().unwrap_or(0));
        let how = match (state["caching"] == true, state["mirrored"] == true) {
            (true, true) => "in both adapters",
            (true, false) => "in one adapter",
            (false, _) => "off: writes are acknowledged when they are on the devices",
        };
        let _ = writeln!(text, "  cache         {how}; {dirty} are not on the devices");
    }
    for (number, adapter) in state["adapters"].as_array().into_iter().flatten().enumerate() {
        let served = numbers(&adapter["volumes"]);
        let optimized = numbers(&adapter["optimized"]);
        let what = match (served == optimized, served.is_empty()) {
            (true, false) => format!("serves {served}"),
            (true, true) => "serves no volume".to_owned(),
            (false, true) => format!("serves no volume, and {optimized} are optimized there"),
            (false, false) if optimized.is_empty() => {
                format!("serves {served}, and none is optimized there")
            }
            (false, false) => format!("serves {served}, and {optimized} are optimized there"),
        };
        let _ = writeln!(text, "  adapter {number}     {what}");
        for (key, words) in
            [("lost", "lost"), ("battery_failed", "the battery of its cache has failed")]
        {
            if adapter[key] == true {
                let _ = writeln!(text, "  !             adapter {number}: {words}");
            }
        }
    }
    for (number, is_down) in state["aa_down"].as_array().into_iter().flatten().enumerate() {
        if *is_down == true {
            let _ = writeln!(text, "  !             aa {number}: down");
        }
    }
    let cleared = numbers(&state["cleared"]);
    if !cleared.is_empty() {
        let _ = writeln!(
            text,
            "  cleared       the access state of {cleared}, which are on the primary"
        );
    }
    for volume in state["volumes_down"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "  !             volume {volume}: no adapter can serve it");
    }
    if text.is_empty() { text } else { format!("adapters\n{text}") }
}

/// Numbers as a list: `0, 2, 4`.
fn numbers(of: &Value) -> String {
    let numbers = of.as_array().into_iter().flatten().map(ToString::to_string);
    numbers.collect::<Vec<_>>().join(", ")
}

/// The members of an array that are not present, and the array's rebuild.
fn array_in_words(array: &Value) -> String {
    let mut text = String::new();
    let members = array["members"].as_array().into_iter().flatten();
    for (number, member) in members.enumerate().filter(|(_, member)| member["state"] != "present") {
        let device = match &member["devices"] {
            Value::Array(_) => format!("devices {}", numbers(&member["devices"])),
            _ => format!("device {}", member["device"]),
        };
        let what = match (member["state"].as_str(), array["rebuilt_share"].as_f64()) {
            (Some("rebuilt"), Some(share)) => format!("rebuilt to {:.1} %", share * 100.0),
            (word, _) => word.unwrap_or_default().to_owned(),
        };
        let _ = writeln!(text, "  !             member {number} ({device}): {what}");
    }
    if let Some(runs @ 1..) = array["resyncs"].as_u64() {
        let runs = human::counted(runs, "run");
        let _ = writeln!(text, "  !             resync after a power cut: {runs} of rows");
    }
    if array["data_lost"] == true {
        let _ = writeln!(
            text,
            "  !             some data is lost: it can't be read until it is written"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn requests_are_counted_in_whole_numbers() {
        let requests = json!({ "read": 12_345, "disconnect": 3, "block_status": 1 });
        let text = in_words(&json!({ "requests": requests, "connections": 1 }));
        let count = |kind: &str| {
            let line = text.lines().find(|l| l.trim_start().starts_with(kind)).unwrap();
            line.split_whitespace().nth(1).unwrap().to_owned()
        };
        assert_eq!((count("disconnect"), count("block_status")), ("3".to_owned(), "1".to_owned()));
    }
}
