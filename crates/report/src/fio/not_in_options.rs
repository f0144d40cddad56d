//! Lists the settings of a workload that the exported `job options` lack: a job with these options would do other I/O.

use serde_json::Value;

/// Settings that `job options` contain, or that only describe the workload.
const EXPRESSED: &[&str] = &[
    "schema",
    "about",
    "source",
    "block",
    "depth",
    "threads",
    // As `rw` and `rwmixread`.
    "mix.read",
    "mix.write",
    "limits.time",
    "limits.ramp",
    "limits.steady",
    // As fio's `size`.
    "limits.ramp_counts",
    "arrivals.rate",
    "write.flush_every",
    // fio's engines but io_uring wait for a flush.
    "write.flush_waits",
];
/// Settings, by the last part of their path, with the values that need no option.
const USUAL: &[(&str, &str)] = &[
    ("pattern", "\"uniform\""),
    ("pattern", "\"sequential\""),
    ("share", "1"),
    ("once_per_pass", "false"),
    ("kind", "\"closed\""),
    ("kind", "\"open\""),
    ("kind", "\"incompressible\""),
    ("think_drains", "false"),
    ("think_time", "\"0ns\""),
    ("flush_every", "0"),
    ("fua", "\"0%\""),
    // As `sync=dsync`.
    ("fua", "\"100%\""),
    ("active", "\"0%..100%\""),
];

/// The settings of a stored workload that the exported options lack, such as `write.addresses.theta = 1.2`.
pub(super) fn of(spec: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(spec, &mut String::new(), &mut found);
    // `rw` names trims only if they are alone.
    let is_alone = spec["mix"].as_object().is_some_and(|mix| mix.len() == 1);
    found.retain(|of| !(is_alone && of.starts_with("mix.trim =")));
    found
}

/// Adds the settings below `value`, which has this path.
fn collect(value: &Value, path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    let mut below = |name: &str, value: &Value| {
        if !path.is_empty() && !name.is_empty() {
            path.push('.');
        }
        path.push_str(name);
        collect(value, path, found);
        path.truncate(length);
    };
    match value {
        Value::Object(all) => all.iter().for_each(|(name, value)| below(name, value)),
        Value::Array(all) => all.iter().for_each(|value| below("", value)),
        _ => {
            let words = value.to_string();
            let last = path.rsplit('.').next().unwrap_or(path);
            let is_expressed = EXPRESSED.iter().any(|of| {
                path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            });
            // A kind's block sizes are in `bs` or `bssplit`.
            let is_block = path.split('.').any(|part| part == "block");
            if !is_expressed && !is_block && !USUAL.contains(&(last, words.as_str())) {
                found.push(format!("{path} = {words}"));
            }
        }
    }
}
