//! Classes of cloud volumes, whose limits depend on size and provisioned rates. The file of a class contains rules in
//! place of constants (`{ per_gib = 3, at_most = 16000, from = "…" }`). The user chooses size and rates by options in
//! a target's name ([`VolumeOptions`]).

use crate::spec::{Counted, Credits, Limit, LimitOf};
use iodyno_catalog::{Entry, Parameter, Record};
use iodyno_units::{StartCredits, VolumeOptions, human, parse_size};

const GIB: u64 = 1 << 30;

/// A rule that computes a value, such as a rate, from the size and the provisioned IOPS of a volume.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rule {
    /// Constant part of the value; the default if an option can set the value.
    is: f64,
    /// Part of the value per GiB of the volume's size.
    per_gib: f64,
    /// Part of the value per provisioned operation per second.
    per_iops: f64,
    /// Table of (size in bytes, value), by ascending size. Each value applies to sizes up to its own. If not empty, the
    /// table alone determines the value.
    by_size: Vec<(u64, f64)>,
    /// Unit of the option that sets the value, such as 1,000,000 for MB/s; `None`: no option sets it.
    chosen_unit: Option<f64>,
    at_least: f64,
    at_most: f64,
    /// Upper bound, per GiB of the size, of a value set by an option. Applies in addition to `at_most`, but never below
    /// `at_least`. `at_most_per_iops` is the corresponding bound per operation per second. `None`: no such bound.
    at_most_per_gib: Option<f64>,
    at_most_per_iops: Option<f64>,
}

/// The properties of a volume that its rules use.
#[derive(Clone, Copy, Debug)]
struct Basis {
    size_bytes: u64,
    /// Rate of the first limit on operations, in operations per second; 0 before it is known.
    iops: u64,
}

impl Basis {
    fn gib(self) -> f64 {
        self.size_bytes as f64 / GIB as f64
    }
}

impl Rule {
    /// Reads a constant or a rule; `None` if it is missing or has no value.
    pub(super) fn read(v: &Record, path: &str) -> Option<Self> {
        let entry = v.get(path)?;
        let constant = |is| Self {
            is,
            per_gib: 0.0,
            per_iops: 0.0,
            by_size: Vec::new(),
            chosen_unit: None,
            at_least: 0.0,
            at_most: f64::INFINITY,
            at_most_per_gib: None,
            at_most_per_iops: None,
        };
        let Some(rule) = entry.record() else { return number(entry).map(constant) };
        let part = |key: &str| rule.get(key).and_then(number);
        let mut by_size: Vec<(u64, f64)> = rule
            .get("by_size")
            .map_or(&[][..], Entry::map)
            .iter()
            .filter_map(|(size, value)| Some((parse_size(size).ok()?, number(value)?)))
            .collect();
        by_size.sort_by_key(|(size, _)| *size);
        let chosen_unit = rule.word("chosen").map(|word| match word {
            "MB/s" => 1e6,
            "MiB/s" => f64::from(1 << 20),
            _ => 1.0,
        });
        Some(Self {
            per_gib: part("per_gib").unwrap_or(0.0),
            per_iops: part("per_iops").unwrap_or(0.0),
            by_size,
            chosen_unit,
            at_least: part("at_least").unwrap_or(0.0),
            at_most: part("at_most").unwrap_or(f64::INFINITY),
            at_most_per_gib: part("at_most_per_gib"),
            at_most_per_iops: part("at_most_per_iops"),
            ..constant(part("is").unwrap_or(0.0))
        })
    }

    /// Returns the value that applies when no option sets one, rounded to whole units.
    fn value(&self, of: Basis) -> u64 {
        let value = if self.by_size.is_empty() {
            self.is + self.per_gib * of.gib() + self.per_iops * of.iops as f64
        } else {
            let row = self.by_size.iter().find(|(size, _)| of.size_bytes <= *size);
            row.map_or(0.0, |(_, value)| *value)
        };
        let most = if self.chosen_unit.is_some() { self.most(of) } else { self.at_most };
        libm::round(value.max(self.at_least).min(most)) as u64
    }

    /// Returns the upper bound of a value set by an option.
    fn most(&self, of: Basis) -> f64 {
        let per = |part: Option<f64>, by: f64| part.map_or(f64::INFINITY, |part| part * by);
        let most = per(self.at_most_per_gib, of.gib())
            .min(per(self.at_most_per_iops, of.iops as f64))
            .max(self.at_least);
        most.min(self.at_most)
    }
}

/// Converts an entry (size, time, count, bandwidth or number) to a number; `None` if it is none of these.
pub(super) fn number(entry: &Entry) -> Option<f64> {
    entry.whole().map(|whole| whole as f64).or_else(|| entry.real())
}

/// Rules that determine one limit of a volume.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LimitRules {
    /// Properties of the limit except its rate and credits, which are not set here.
    pub(super) form: Limit,
    pub(super) rate: Rule,
    /// Rate while credits last, and the rule of the credits; `None`: the limit has no credits.
    pub(super) burst: Option<(Rule, CreditsRule)>,
    /// Rate with bursting on demand; `None`: not available.
    pub(super) on_demand: Option<u64>,
}

/// Rule for the number of burst credits.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CreditsRule {
    pub(super) most: Rule,
    /// Time for which a full bucket lasts at the burst rate, ns. It determines the size of the bucket. `None`: `most`
    /// determines the size.
    pub(super) lasts_ns: Option<u64>,
    /// Credits at the start; `None`: a full bucket.
    pub(super) start: Option<u64>,
}

/// A class of cloud volumes: the possible sizes, and the rules that compute a volume's limits.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeClass {
    /// Smallest, default and largest size, bytes. All are equal if the size can't be chosen.
    pub sizes_bytes: [u64; 3],
    /// Whether all volumes of this class on an instance share their limits, as one volume of their total size.
    pub is_pooled: bool,
    pub(super) limits: Vec<LimitRules>,
    /// The parameters of the file, in the order of the schema.
    pub(super) parameters: Vec<Parameter>,
}

/// Range in which a volume's rate can be provisioned, in the unit of the option, such as MB/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provisioned {
    /// Lowest rate that the option accepts.
    pub least: u64,
    /// Rate if the option is absent.
    pub default: u64,
    /// Highest rate that the option accepts.
    pub most: u64,
    /// Factor from the option's unit to operations or bytes per second: 1,000,000 for an option in MB/s.
    pub unit: u64,
}

impl VolumeClass {
    /// Whether an option can choose a volume's size.
    pub fn has_sizes(&self) -> bool {
        self.sizes_bytes[0] < self.sizes_bytes[2]
    }

    /// Returns the range in which the IOPS or the throughput of a volume of this size can be provisioned. `iops` may
    /// raise the maximum throughput. `None` if no option sets the rate.
    pub fn provisioned(&self, counts: Counted, size_bytes: u64, iops: u64) -> Option<Provisioned> {
        let rule = self.chosen(counts)?;
        let (of, unit) = (Basis { size_bytes, iops }, rule.chosen_unit?);
        let least = libm::ceil(rule.at_least.max(1.0) / unit) as u64;
        let most = (libm::floor(rule.most(of) / unit) as u64).max(least);
        let default = (rule.value(of) as f64 / unit) as u64;
        Some(Provisioned { least, default, most, unit: unit as u64 })
    }

    fn chosen(&self, counts: Counted) -> Option<&Rule> {
        let mut rules = self.limits.iter().filter(|limit| limit.form.counts == counts);
        rules.find(|limit| limit.rate.chosen_unit.is_some()).map(|limit| &limit.rate)
    }

    /// Whether all limits have a rate for the smallest, the default and the largest size.
    pub(super) fn has_rate_at_all_sizes(&self) -> bool {
        let has_rate = |limit: &LimitRules, size_bytes: u64| {
            limit.rate.value(Basis { size_bytes, iops: 1 }) > 0
        };
        self.limits.iter().all(|limit| self.sizes_bytes.iter().all(|&size| has_rate(limit, size)))
    }

    /// Returns the size in bytes and the limits of a volume that is created without options.
    pub(super) fn default_volume(&self) -> (u64, Vec<Limit>) {
        // Options are refused, defaults never.
        self.volume("", &VolumeOptions::default()).unwrap_or_default()
    }

    /// Returns the size in bytes and the limits of a volume with these options. `name`: the class's name, for
    /// messages.
    ///
    /// # Errors
    /// An option that the class lacks, or a value outside its range. The message states the range and a remedy.
    pub fn volume(&self, name: &str, options: &VolumeOptions) -> Result<(u64, Vec<Limit>), String> {
        let size_bytes = self.size_bytes(name, options)?;
        let mut of = Basis { size_bytes, iops: 0 };
        let iops = self.chosen_rate(name, Counted::Operations, options.iops, of)?;
        of.iops = iops.unwrap_or_else(|| {
            let counts_operations = |limit: &&LimitRules| limit.form.counts == Counted::Operations;
            self.limits.iter().find(counts_operations).map_or(0, |limit| limit.rate.value(of))
        });
        let bytes_per_s = self.chosen_rate(name, Counted::Bytes, options.mbps, of)?;
        let mut limits = Vec::new();
        for rules in &self.limits {
            let chosen = match rules.form.counts {
                Counted::Operations => iops,
                Counted::Bytes => bytes_per_s,
            };
            let chosen = chosen.filter(|_| rules.rate.chosen_unit.is_some());
            limits.push(rules.limit(of, chosen));
        }
        if options.on_demand {
            self.burst_on_demand(name, of, &mut limits)?;
        }
        if let Some(credits) = options.credits {
            start_with(name, credits, &mut limits)?;
        }
        Ok((size_bytes, limits))
    }

    /// Returns the limits that volumes of a pooled class share, from their total size. A total beyond the largest size
    /// has the limits of that size. `options` are those of each volume.
    ///
    /// # Errors
    /// As of [`Self::volume`].
    pub fn pooled_limits(
        &self,
        options: &VolumeOptions,
        all_bytes: u64,
    ) -> Result<Vec<Limit>, String> {
        let size_bytes = self.has_sizes().then_some(all_bytes.min(self.sizes_bytes[2]));
        let options = VolumeOptions { size_bytes, ..*options };
        self.volume("", &options).map(|(_, limits)| limits)
    }

    fn size_bytes(&self, name: &str, options: &VolumeOptions) -> Result<u64, String> {
        let [least, default, most] = self.sizes_bytes;
        let Some(size_bytes) = options.size_bytes else { return Ok(default) };
        if !self.has_sizes() {
            return Err(one_size(name, default));
        }
        if !(least..=most).contains(&size_bytes) {
            return Err(format!(
                "{name} has sizes from {} to {}, and size={} is none of them",
                human::exact_size(least),
                human::exact_size(most),
                human::exact_size(size_bytes)
            ));
        }
        if !size_bytes.is_multiple_of(GIB) {
            let next = human::exact_size(size_bytes.next_multiple_of(GIB));
            return Err(format!("{name} requires a size in whole GiB: use size={next}"));
        }
        Ok(size_bytes)
    }

    /// Returns the rate that is provisioned by the option `asked` or by default, in units of the limit; `None` if the
    /// rate follows from the size.
    fn chosen_rate(
        &self,
        name: &str,
        counts: Counted,
        asked: Option<u64>,
        of: Basis,
    ) -> Result<Option<u64>, String> {
        let (key, noun) = match counts {
            Counted::Operations => ("iops", "IOPS"),
            Counted::Bytes => ("mbps", "throughput"),
        };
        let Some(range) = self.provisioned(counts, of.size_bytes, of.iops) else {
            return match asked {
                None => Ok(None),
                Some(_) if self.has_sizes() => Err(format!(
                    "the {noun} of {name} can't be provisioned, because it follows from the size: choose size=, and leave {key}= out"
                )),
                Some(_) => Err(format!("the {noun} of {name} can't be chosen: leave {key}= out")),
            };
        };
        let Some(asked) = asked else { return Ok(Some(range.default * range.unit)) };
        if (range.least..=range.most).contains(&asked) {
            return Ok(Some(asked * range.unit));
        }
        let unit = match range.unit {
            1 => " IOPS",
            1_000_000 => " MB/s",
            _ => " MiB/s",
        };
        let with = if counts == Counted::Bytes && of.iops > 0 {
            format!(" with {} IOPS", of.iops)
        } else {
            String::new()
        };
        Err(format!(
            "{name} of {}{with} can have {} to {}{unit}, not {asked}: {}",
            human::exact_size(of.size_bytes),
            range.least,
            range.most,
            self.remedy(counts, asked, range, of)
        ))
    }

    /// Returns the advice in the error message about a provisioned rate outside its range.
    fn remedy(&self, counts: Counted, asked: u64, range: Provisioned, of: Basis) -> String {
        let (key, rule) = match counts {
            Counted::Operations => ("iops", self.chosen(counts)),
            Counted::Bytes => ("mbps", self.chosen(counts)),
        };
        let nearest = format!("use {key}={}", asked.clamp(range.least, range.most));
        let units = (asked * range.unit) as f64;
        let Some(rule) = rule.filter(|rule| asked > range.most && units <= rule.at_most) else {
            return nearest;
        };
        let enough = |part: f64| libm::ceil(units / part) as u64;
        let larger = match (rule.at_most_per_gib, rule.at_most_per_iops) {
            (Some(per_gib), _) if enough(per_gib).saturating_mul(GIB) <= self.sizes_bytes[2] => {
                format!("size={}", human::exact_size(enough(per_gib) * GIB))
            }
            (_, Some(per_iops)) if of.iops > 0 => format!("iops={}", enough(per_iops)),
            _ => return nearest,
        };
        format!("{nearest} or {larger}")
    }

    fn burst_on_demand(&self, name: &str, of: Basis, limits: &mut [Limit]) -> Result<(), String> {
        let size = human::exact_size(of.size_bytes);
        let mut has_any = false;
        for (rules, limit) in self.limits.iter().zip(limits) {
            let Some(on_demand) = rules.on_demand else { continue };
            if limit.credits.is_some() {
                return Err(format!(
                    "{name} of {size} bursts from credits; only larger volumes burst on demand: choose a larger size=, or leave bursting= out"
                ));
            }
            limit.rate = limit.rate.max(on_demand);
            has_any = true;
        }
        if has_any {
            return Ok(());
        }
        Err(format!("{name} has no bursting on demand: leave bursting= out"))
    }

    /// Returns the parameters of the class's file with the values that the rules give this volume. Omits the
    /// parameters of credits if the volume has none.
    pub(super) fn parameters(&self, size_bytes: u64, limits: &[Limit]) -> Vec<Parameter> {
        let of_kind = |counts| limits.iter().filter(move |limit| limit.counts == counts);
        let (mut iops, mut bytes) = (of_kind(Counted::Operations), of_kind(Counted::Bytes));
        let mut limit = None;
        let with_value = |parameter: &Parameter| {
            let mut parameter = parameter.clone();
            let follows = parameter.rule.is_some();
            if follows && parameter.key == "capacity" {
                parameter.text = human::exact_size(size_bytes);
                return Some(parameter);
            }
            // The rate is the first parameter of each limit.
            let key = match parameter.key.split_once('.') {
                Some(("iops_limit", "rate")) => {
                    limit = iops.next();
                    "rate"
                }
                Some(("throughput_limit", "rate")) => {
                    limit = bytes.next();
                    "rate"
                }
                Some(("iops_limit" | "throughput_limit", key)) => key,
                _ => return Some(parameter),
            };
            let credits = limit?.credits.as_ref();
            let value = match key {
                "rate" => limit?.rate,
                "burst" => credits?.burst,
                "credits" => credits?.most,
                "start" => credits?.start,
                _ => return Some(parameter),
            };
            let of = match limit?.of {
                LimitOf::All => None,
                LimitOf::Reads => Some("reads"),
                LimitOf::Writes => Some("writes"),
            };
            if let (Some(of), Some(rule)) = (of, &mut parameter.rule) {
                *rule = format!("of {of}: {rule}");
            }
            if follows || key == "start" {
                parameter.text = in_words(limit?.counts, key, value);
            }
            Some(parameter)
        };
        self.parameters.iter().filter_map(with_value).collect()
    }
}

impl LimitRules {
    fn limit(&self, of: Basis, chosen: Option<u64>) -> Limit {
        let rate = chosen.unwrap_or_else(|| self.rate.value(of)).max(1);
        let credits = self.burst.as_ref().and_then(|(burst, credits)| {
            let burst = burst.value(of);
            let above = burst.checked_sub(rate).filter(|above| *above > 0)?;
            let most = match credits.lasts_ns {
                Some(lasts_ns) => units_in(above, lasts_ns),
                None => credits.most.value(of),
            };
            Some(Credits { most, start: credits.start.unwrap_or(most), burst })
        });
        Limit { rate, credits, ..self.form.clone() }
    }
}

/// Returns the number of units that a rate (per second) yields in a time, rounded down.
fn units_in(rate: u64, ns: u64) -> u64 {
    u64::try_from(u128::from(rate) * u128::from(ns) / 1_000_000_000).unwrap_or(u64::MAX)
}

/// Sets the initial burst credits of all limits that have credits. `name`: the device's name, for messages.
///
/// # Errors
/// No limit has credits, or full credits last for less than the time in `start`.
pub fn start_with(name: &str, start: StartCredits, limits: &mut [Limit]) -> Result<(), String> {
    let mut longest_ns = None;
    for limit in limits {
        let Some(credits) = &mut limit.credits else { continue };
        let above = credits.burst.saturating_sub(limit.rate).max(1);
        let full_ns = u128::from(credits.most) * 1_000_000_000 / u128::from(above);
        let full_ns = u64::try_from(full_ns).unwrap_or(u64::MAX);
        longest_ns = longest_ns.max(Some(full_ns));
        credits.start = match start {
            StartCredits::LastFor(ns) => units_in(above, ns).min(credits.most),
            StartCredits::Share(ppm) => {
                (u128::from(credits.most) * u128::from(ppm) / 1_000_000) as u64
            }
        };
    }
    match (longest_ns, start) {
        (None, _) => Err(format!("{name} has no burst credits: leave credits= out")),
        (Some(longest_ns), StartCredits::LastFor(ns)) if ns > longest_ns => Err(format!(
            "the credits of {name} last for at most {} at the burst rate: use a shorter credits=",
            human::duration_ns(longest_ns)
        )),
        _ => Ok(()),
    }
}

/// Returns the error message that refuses `size=` for a device of one size.
pub(super) fn one_size(name: &str, bytes: u64) -> String {
    format!("{name} has only one size, {}: leave size= out", human::exact_size(bytes))
}

/// Formats a rate or an amount exactly, in the largest unit of which it is a multiple.
fn in_words(counts: Counted, key: &str, value: u64) -> String {
    if counts == Counted::Operations {
        return value.to_string();
    }
    let per_s = if matches!(key, "rate" | "burst") { "/s" } else { "" };
    let units = [(1 << 40, "TiB"), (GIB, "GiB"), (1_000_000_000, "GB"), (1 << 20, "MiB")];
    let units = units.into_iter().chain([(1_000_000, "MB"), (1 << 10, "KiB"), (1, "B")]);
    let mut exact = units.filter(|(unit, _)| value.is_multiple_of(*unit));
    exact.next().map_or(String::new(), |(unit, name)| format!("{} {name}{per_s}", value / unit))
}
