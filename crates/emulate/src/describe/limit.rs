//! The tables `[iops_limit]` and `[throughput_limit]` of a device file: their rules, and their conversion.

use super::rules::{Rule, fault};
use crate::spec::{Counted, Credits, Limit};
use iodyno_catalog::{Fault, Record};

/// The tables, each with the unit of its rates and credits.
const TABLES: [(&str, Counted); 2] =
    [("iops_limit", Counted::Operations), ("throughput_limit", Counted::Bytes)];

/// Rules that the limits of a device file must satisfy.
pub(super) const RULES: &[Rule] = &[
    Rule { name: "burst-credits", check: |v| burst_credits(v, "iops_limit") },
    Rule { name: "burst-credits", check: |v| burst_credits(v, "throughput_limit") },
    Rule {
        name: "burst-above-rate",
        check: |v| {
            let (rate, burst) = (v.whole("iops_limit.rate")?, v.whole("iops_limit.burst")?);
            burst_above_rate("iops_limit", burst > rate)
        },
    },
    Rule {
        name: "burst-above-rate",
        check: |v| {
            let rate = v.real("throughput_limit.rate")?;
            burst_above_rate("throughput_limit", v.real("throughput_limit.burst")? > rate)
        },
    },
    Rule { name: "account-merge", check: |v| account_merge(v, "iops_limit") },
    Rule { name: "account-merge", check: |v| account_merge(v, "throughput_limit") },
];

fn burst_credits(v: &Record, table: &str) -> Option<Fault> {
    let help = "without `burst`, `credits` and `start`, the rate is never exceeded for longer than `window`";
    together(v, table, &["burst", "credits", "start"], help)
}

fn account_merge(v: &Record, table: &str) -> Option<Fault> {
    let help = "without `account` and `merge`, the size of an I/O is not rounded";
    together(v, table, &["account", "merge"], help)
}

/// Requires that a table has all of these keys or none.
fn together(v: &Record, table: &str, keys: &[&str], help: &str) -> Option<Fault> {
    let path = |key: &str| format!("{table}.{key}");
    let present = keys.iter().find(|key| v.get(&path(key)).is_some())?;
    let missing = keys.iter().find(|key| v.get(&path(key)).is_none())?;
    let message = format!("`{}` is missing, which `{present}` requires", path(missing));
    Some(fault(&path(present), message, help.to_owned()))
}

fn burst_above_rate(table: &str, is_above: bool) -> Option<Fault> {
    if is_above {
        return None;
    }
    let message = "the burst rate must be above the rate";
    let help = "for a limit that never bursts, leave out `burst`, `credits` and `start`";
    Some(fault(&format!("{table}.burst"), message.to_owned(), help.to_owned()))
}

/// Reads the limits of a device.
pub(super) fn limits(v: &Record) -> Vec<Limit> {
    TABLES.iter().filter_map(|&(table, counts)| limit(v, table, counts)).collect()
}

fn limit(v: &Record, table: &str, counts: Counted) -> Option<Limit> {
    let path = |key: &str| format!("{table}.{key}");
    // Operations and sizes are whole; bandwidths are not, but providers state whole bytes.
    let units = |key: &str| {
        let path = path(key);
        v.whole(&path).or_else(|| v.real(&path).map(|rate| libm::round(rate) as u64))
    };
    let credits = || {
        Some(Credits { most: units("credits")?, start: units("start")?, burst: units("burst")? })
    };
    Some(Limit {
        counts,
        rate: units("rate")?,
        window_ns: v.whole(&path("window"))?,
        account_bytes: v.whole(&path("account")),
        merges: v.flag(&path("merge")).unwrap_or(false),
        credits: credits(),
    })
}
