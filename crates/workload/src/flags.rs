//! Values of a workload as given by command-line flags: address patterns and offered rates.

use crate::spec::{Pattern, Percent, Spec, Spot};
use core::str::FromStr;
use iodyno_units::{
    OpKind, human, parse_bandwidth_bytes_per_s, parse_percent, parse_rate_iops, parse_size,
};

/// Examples of all address patterns, for error messages.
const PATTERNS: &str = "random, once, sequential, shared, stride=64KiB, zipf=1.1 or hot=80%/20% (80 % of the operations in 20 % of the range)";

impl FromStr for Pattern {
    type Err = String;

    /// Parses `random`, `once` (random order, each block once per pass), `sequential` (each worker in its own
    /// part), `shared` (one sequence for all workers), `stride=64KiB`, `zipf=1.1`, or `hot=80%/20%` (80 % of the
    /// operations go to the first 20 % of the range).
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once(['=', ':']).unwrap_or((text, ""));
        let unknown = || format!("`{text}` is not a pattern: use {PATTERNS}");
        match (name, value.is_empty()) {
            ("random" | "uniform", true) => Ok(Self::Uniform { once_per_pass: false }),
            ("once", true) => Ok(Self::Uniform { once_per_pass: true }),
            ("sequential", true) => Ok(Self::Sequential { shared: false, run: None }),
            ("shared", true) => Ok(Self::Sequential { shared: true, run: None }),
            ("stride" | "strided", false) => {
                let stride_bytes = parse_size(value).map_err(|e| e.to_string())?;
                Ok(Self::Strided { stride_bytes, start_bytes: 0, backward: false })
            }
            ("zipf", false) => Self::zipf(value),
            ("hot", false) => Self::hot(value),
            _ => Err(unknown()),
        }
    }
}

impl Pattern {
    /// Whether the pattern uses some addresses more often than others.
    pub const fn is_skewed(&self) -> bool {
        matches!(
            self,
            Self::Zipf { .. } | Self::Pareto { .. } | Self::Normal { .. } | Self::HotSpots { .. }
        )
    }

    /// Parses the exponent of a Zipf distribution.
    ///
    /// # Errors
    /// The text is not a number. The range of the exponent is not checked here.
    pub fn zipf(theta: &str) -> Result<Self, String> {
        let theta = theta.parse().map_err(|_| {
            format!("`{theta}` is not an exponent of Zipf's law: use a number such as 1.1")
        })?;
        Ok(Self::Zipf { theta })
    }

    /// Parses a hot spot: `80%/20%` or `80/20` sends 80 % of the operations to the first 20 % of the range.
    ///
    /// # Errors
    /// The text does not have two shares above 0 and below 100 %.
    pub fn hot(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not two shares: use 80/20 for 80 % of the operations in the first 20 % of the range"
            )
        };
        let (ops, range) = text.split_once('/').ok_or_else(wrong)?;
        let share = |text: &str| {
            let text = text.trim().trim_end_matches('%');
            let share = parse_percent(&format!("{text}%")).ok();
            share.filter(|share| *share > 0.0 && *share < 1.0).ok_or_else(wrong)
        };
        let (ops, range) = (share(ops)?, Percent::from_fraction(share(range)?));
        let rest = Percent::from_fraction(1.0 - range.fraction());
        let spots = vec![Spot { share: ops, range }, Spot { share: 1.0 - ops, range: rest }];
        Ok(Self::HotSpots { spots, scatter: false })
    }
}

/// Rate that an open loop offers to one target: one rate for all operations, or one for each kind.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferedRate(Vec<(Option<OpKind>, Amount)>);

/// One offered rate, in operations per second or in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Amount {
    OpsPerS(f64),
    BytesPerS(f64),
}

impl FromStr for OfferedRate {
    type Err = String;

    /// Parses `50k/s`, `200MB/s`, or one rate for each kind of operation: `read=20k/s,write=50MB/s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let amount = |text: &str| {
            if text.trim_end().ends_with("B/s") {
                parse_bandwidth_bytes_per_s(text).map(Amount::BytesPerS)
            } else {
                parse_rate_iops(text).map(Amount::OpsPerS)
            }
            .map_err(|e| {
                without_time(text)
                    .unwrap_or_else(|| format!("{e}, or bytes per second, such as `200MB/s`"))
            })
        };
        if !text.contains('=') {
            return Ok(Self(vec![(None, amount(text)?)]));
        }
        let mut all: Vec<(Option<OpKind>, Amount)> = Vec::new();
        for part in text.split(',') {
            let (name, rate) = part.split_once('=').unwrap_or((part, ""));
            let kind = OpKind::ALL.into_iter().find(|kind| kind.name() == name.trim());
            let kind = kind.ok_or_else(|| {
                format!("`{part}` does not name a kind of operation: use a form such as read=20k/s,write=5k/s")
            })?;
            if all.iter().any(|(other, _)| *other == Some(kind)) {
                return Err(format!("`{name}` is given twice: leave one of them out"));
            }
            all.push((Some(kind), amount(rate)?));
        }
        Ok(Self(all))
    }
}

/// Returns the error for a byte rate that lacks its `/s`; None for other texts.
fn without_time(text: &str) -> Option<String> {
    let rate = format!("{}/s", text.trim());
    parse_bandwidth_bytes_per_s(&rate).ok()?;
    Some(format!(
        "`{text}` is an amount, not a rate: did you mean `{rate}`? A rate of operations has the form `50k/s`"
    ))
}

impl OfferedRate {
    /// Whether each kind of operation has its own rate.
    pub(crate) fn is_by_kind(&self) -> bool {
        self.0.iter().all(|(kind, _)| kind.is_some())
    }

    /// Whether the offered rate is a single one, in operations per second.
    pub(crate) fn is_in_ops(&self) -> bool {
        matches!(self.0.as_slice(), [(None, Amount::OpsPerS(_))])
    }

    /// Formats each rate in its original unit, preceded by its kind of operation if it has one.
    pub(crate) fn amounts(&self) -> Vec<String> {
        let one = |(kind, amount): &(Option<OpKind>, Amount)| {
            let amount = match amount {
                Amount::OpsPerS(rate_iops) => format!("{}/s", human::count(*rate_iops)),
                Amount::BytesPerS(bytes_per_s) => human::throughput(*bytes_per_s),
            };
            kind.map_or(amount.clone(), |kind| format!("{} {amount}", kind.name()))
        };
        self.0.iter().map(one).collect()
    }

    /// Returns the rate of each kind in operations per second, or, with kind None, one rate for all operations.
    pub(crate) fn rates_iops(&self, spec: &Spec) -> Result<Vec<(Option<OpKind>, f64)>, String> {
        let one = |(kind, amount): &(Option<OpKind>, Amount)| match amount {
            Amount::OpsPerS(rate_iops) => Ok((*kind, *rate_iops)),
            Amount::BytesPerS(bytes_per_s) => {
                let all: f64 = spec.kinds().map(|(_, share)| share).sum();
                let mean_bytes: f64 = kind.map_or_else(
                    || spec.kinds().map(|(k, s)| mean_block_bytes(spec, k) * s / all).sum(),
                    |kind| mean_block_bytes(spec, kind),
                );
                if mean_bytes > 0.0 {
                    return Ok((*kind, bytes_per_s / mean_bytes));
                }
                Err("a flush moves no bytes: give its rate in operations a second".to_owned())
            }
        };
        self.0.iter().map(one).collect()
    }
}

/// Mean block size of one kind of operation, bytes; 0 for a flush.
fn mean_block_bytes(spec: &Spec, kind: OpKind) -> f64 {
    if kind == OpKind::Flush {
        return 0.0;
    }
    let blocks = spec.blocks(kind);
    let shares: f64 = blocks.iter().map(|b| b.share).sum();
    blocks.iter().map(|b| f64::from(b.bytes) * b.share).sum::<f64>() / shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArrivalKind;

    fn spec(text: &str) -> Spec {
        Spec::from_toml(&format!("schema = 1\n{text}")).unwrap()
    }

    /// The error for a rate such as `200MB`, without `/s`, suggests a rate in bytes per second.
    #[test]
    fn a_rate_without_its_time_names_the_likely_one() {
        for (text, likely) in [
            ("100MB", "`100MB/s`"),
            ("1.5 GiB", "`1.5 GiB/s`"),
            ("read=100k/s,write=50MB", "`50MB/s`"),
        ] {
            let error = text.parse::<OfferedRate>().unwrap_err();
            assert!(error.contains(&format!("did you mean {likely}?")), "{text}: {error}");
        }
        let error = "fast".parse::<OfferedRate>().unwrap_err();
        assert!(error.contains("`fast` is not a rate") && error.contains("`200MB/s`"), "{error}");
        assert!("0MB/s".parse::<OfferedRate>().is_err());
    }

    /// A pattern on the command line is parsed to the same pattern as in a workload file.
    #[test]
    fn a_pattern_of_a_flag_is_that_of_a_file() {
        for (flag, file) in [
            ("random", "\"uniform\""),
            ("once", "{ pattern = \"uniform\", once_per_pass = true }"),
            ("sequential", "\"sequential\""),
            ("shared", "{ pattern = \"sequential\", shared = true }"),
            ("stride=64KiB", "{ pattern = \"strided\", stride = \"64KiB\" }"),
            ("zipf=1.1", "{ pattern = \"zipf\", theta = 1.1 }"),
            (
                "hot=75%/25%",
                "{ pattern = \"hot-spots\", spots = [{ share = 0.75, range = \"25%\" }, { share = 0.25, range = \"75%\" }] }",
            ),
        ] {
            let mine = spec("[mix]\nread = 1\nwrite = 1\n[read]\naddresses = \"sequential\"");
            let mine = mine.with_pattern(flag.parse().unwrap()).unwrap();
            let theirs = spec(&format!("[mix]\nread = 1\nwrite = 1\n[all]\naddresses = {file}"));
            for kind in [OpKind::Read, OpKind::Write] {
                assert_eq!(mine.addresses(kind), theirs.addresses(kind), "{flag}");
            }
            // One cursor for reads and writes.
            assert_eq!(mine.address_scope(OpKind::Read), mine.address_scope(OpKind::Write));
        }
        let durable = spec("[mix]\nwrite = 1").with_flush_every(8).unwrap().with_fua(Percent::ALL);
        let durable = durable.unwrap();
        assert_eq!(Spec::from_toml(&durable.to_toml()).unwrap(), durable);
        assert!(spec("[mix]\nread = 1").with_flush_every(8).is_err());
        for wrong in ["zipf", "stride", "hot=80", "hot=100/20", "randread", "random=1", "zipf=x"] {
            assert!(wrong.parse::<Pattern>().is_err(), "{wrong}");
        }
        assert!(spec("[mix]\nread = 1").with_pattern("zipf=9".parse().unwrap()).is_err());
    }

    /// Rates by kind become their sum, with their ratio as the mix: merged Poisson processes are one Poisson
    /// process, whose events belong to each kind in proportion to its rate.
    #[test]
    fn rates_by_kind_are_one_rate_and_a_mix() {
        let base = spec("block = \"8KiB\"\n[mix]\nread = 1\nwrite = 1\n[write]\nblock = \"64KiB\"");
        let of = |flag: &str| {
            let spec = base.clone().with_offered(&flag.parse().unwrap(), None).unwrap();
            let ArrivalKind::Open { rate_iops, .. } = spec.arrivals() else { panic!() };
            let all: f64 = spec.kinds().map(|(_, share)| share).sum();
            let kinds: Vec<_> =
                spec.kinds().map(|(k, share)| (k, share / all * rate_iops)).collect();
            (rate_iops, kinds)
        };
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-12;
        let (rate, kinds) = of("read=3k/s,write=64MiB/s,flush=5/s");
        assert!(near(rate, 4029.0), "{rate}");
        for ((kind, rate), expected) in kinds.into_iter().zip([3000.0, 1024.0, 5.0]) {
            assert!(near(rate, expected), "{kind:?} {rate}");
        }
        // Half of the operations move 8 KiB, half 64 KiB.
        assert!(near(of("36MiB/s").0, 1024.0));
        assert!(near(of("50k/s").0, 50_000.0));
        for wrong in ["read", "read=1k/s,read=2k/s", "seek=1/s", "read=,write=1/s", "5 Gb/s"] {
            assert!(wrong.parse::<OfferedRate>().is_err(), "{wrong}");
        }
        assert!(base.clone().with_offered(&"flush=1MB/s".parse().unwrap(), None).is_err());
    }
}
