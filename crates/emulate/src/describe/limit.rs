//! The tables `[iops_limit]` and `[throughput_limit]` of a device file: rules between their keys, and conversion to
//! limits.

use super::rules::{Rule, fault};
use super::volume_class::{self, CreditsRule, LimitRules, VolumeClass};
use crate::spec::{Counted, Limit, LimitOf};
use iodyno_catalog::{Fault, Reader, Record};

/// The tables of limits in a device file, each with the unit of its rates and credits.
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
    Rule {
        name: "on-demand-above-rate",
        check: |v| {
            let (rate, on_demand) = (v.whole("iops_limit.rate")?, v.whole("iops_limit.on_demand")?);
            on_demand_above_rate("iops_limit", on_demand > rate)
        },
    },
    Rule {
        name: "on-demand-above-rate",
        check: |v| {
            let rate = v.real("throughput_limit.rate")?;
            let on_demand = v.real("throughput_limit.on_demand")?;
            on_demand_above_rate("throughput_limit", on_demand > rate)
        },
    },
    Rule { name: "limit-rule", check: |v| rule(v, "iops_limit.rate") },
    Rule { name: "limit-rule", check: |v| rule(v, "iops_limit.burst") },
    Rule { name: "limit-rule", check: |v| rule(v, "throughput_limit.rate") },
    Rule { name: "limit-rule", check: |v| rule(v, "throughput_limit.burst") },
    Rule { name: "limit-rule", check: |v| rule(v, "iops_limit.credits") },
    Rule { name: "limit-rule", check: |v| rule(v, "throughput_limit.credits") },
];

fn burst_credits(v: &Record, table: &str) -> Option<Fault> {
    let help = "without `burst` and `credits`, the rate is never exceeded for longer than `window`";
    let has_start = v.get(&format!("{table}.start")).is_some();
    let keys: &[&str] =
        if has_start { &["start", "credits", "burst"] } else { &["burst", "credits"] };
    together(v, table, keys, help)
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
    let help = "for a limit that never bursts, leave out `burst` and `credits`";
    Some(fault(&format!("{table}.burst"), message.to_owned(), help.to_owned()))
}

fn on_demand_above_rate(table: &str, is_above: bool) -> Option<Fault> {
    if is_above {
        return None;
    }
    let message = "`on_demand` must be above the rate".to_owned();
    Some(fault(&format!("{table}.on_demand"), message, "leave `on_demand` out".to_owned()))
}

/// Returns an error if the rule at `path` is incomplete or contradictory, such as a rule without a value.
fn rule(v: &Record, path: &str) -> Option<Fault> {
    let rule = v.get(path)?.record()?;
    let of = |key: &str| rule.get(key).is_some();
    let wrong = |message: &str, help: &str| Some(fault(path, message.to_owned(), help.to_owned()));
    if of("chosen") && !of("is") {
        return wrong("a value that users can choose needs a default", "add `is`");
    }
    let bases = ["is", "per_gib", "per_iops", "by_size", "lasts"];
    if !bases.into_iter().any(of) {
        let help =
            "add `is`, `per_gib`, `per_iops`, `by_size` or `lasts`, whichever the key allows";
        return wrong("the rule has bounds but no value", help);
    }
    let alone = ["by_size", "lasts"].into_iter().find(|key| of(key));
    if let Some(alone) = alone
        && bases.into_iter().filter(|key| of(key)).count() > 1
    {
        let message = format!("`{alone}` can't be combined with another value");
        return wrong(&message, "leave the other keys out");
    }
    let value = |key: &str| rule.get(key).and_then(volume_class::number);
    let least = value("at_least").unwrap_or(0.0);
    let most = value("at_most").unwrap_or(f64::INFINITY);
    if least > most {
        return wrong("`at_least` must not be above `at_most`", "leave one of them out");
    }
    if of("chosen") && value("is").is_some_and(|is| is < least || is > most) {
        let help = "give the key `is` a value between `at_least` and `at_most`";
        return wrong("the default must lie within its bounds", help);
    }
    None
}

/// Reads the limits of operations and throughput that a device or system declares.
pub(super) fn limits(v: &Record) -> Vec<LimitRules> {
    let of_table = |&(table, counts): &(&'static str, _)| {
        v.records(table).filter_map(move |limit| one(limit, table, counts))
    };
    TABLES.iter().flat_map(of_table).collect()
}

/// Returns the records of all limits in a file.
pub(super) fn records(v: &Record) -> impl Iterator<Item = &Record> {
    TABLES.iter().flat_map(|(table, _)| v.records(table))
}

/// Whether any limit in a file has a rule in place of a constant.
pub(super) fn has_rules(v: &Record) -> bool {
    records(v).any(|limit| limit.entries().any(|(_, entry)| entry.record().is_some()))
}

/// Reports an error for each rule in a limit whose values must be constants, such as a limit of a system.
pub(super) fn check_constant(reader: &mut Reader, limit: &Record) {
    for (path, entry) in limit.entries() {
        if entry.record().is_some() || path.ends_with(".on_demand") {
            let message = format!("`{path}` of a system must be a constant");
            reader.refuse(
                entry.span.clone(),
                message,
                "write `{ is = …, from = … }`, and leave out keys that apply to one volume",
            );
        }
    }
}

/// Reads limits that consist of constants.
pub(super) fn constant(v: &Record) -> Vec<Limit> {
    let class = VolumeClass {
        sizes_bytes: [0; 3],
        is_pooled: false,
        limits: limits(v),
        parameters: Vec::new(),
    };
    class.default_volume().1
}

fn one(v: &Record, table: &str, counts: Counted) -> Option<LimitRules> {
    let path = |key: &str| format!("{table}.{key}");
    // Operations and sizes are whole; bandwidths are not, but providers state whole bytes.
    let units = |key: &str| {
        let path = path(key);
        v.whole(&path).or_else(|| v.real(&path).map(|rate| libm::round(rate) as u64))
    };
    let value = |key: &str| volume_class::Rule::read(v, &path(key));
    let credits = || {
        let lasts_ns = v.get(&path("credits")).and_then(|of| of.record()?.whole("lasts"));
        let credits = CreditsRule { most: value("credits")?, lasts_ns, start: units("start") };
        Some((value("burst")?, credits))
    };
    Some(LimitRules {
        form: Limit {
            of: match v.word(&path("of")) {
                Some("reads") => LimitOf::Reads,
                Some("writes") => LimitOf::Writes,
                _ => LimitOf::All,
            },
            counts,
            rate: 0,
            window_ns: v.whole(&path("window"))?,
            account_bytes: v.whole(&path("account")),
            merges: v.flag(&path("merge")).unwrap_or(false),
            credits: None,
        },
        rate: value("rate")?,
        burst: credits(),
        on_demand: units("on_demand"),
    })
}
