//! Remarks for the user on possible mistakes in a valid specification.

use iodyno_units::human::three_digits;
use iodyno_units::{OpKind, human};

use crate::spec::Spec;

/// Shares whose sum lies in this range are probably percentages, whose sum should be 100.
const LIKE_PERCENT: core::ops::RangeInclusive<f64> = 50.0..=200.0;
/// Sums that are accepted as 100 %, because percentages such as 33 % are rounded.
const ROUNDED: core::ops::RangeInclusive<f64> = 99.0..=101.0;

impl Spec {
    /// Returns a remark for each list of shares that look like percentages but do not add up to 100. Shares are
    /// valid regardless of their sum: `90` and `30` mean 75 % and 25 %.
    pub fn remarks(&self) -> Vec<String> {
        let mut all = Vec::new();
        let kinds: Vec<_> = self.kinds().collect();
        let shares = kinds.iter().map(|(kind, share)| (kind.name().to_owned(), *share));
        remark("the mix", &shares.collect::<Vec<_>>(), &mut all);
        for kind in [OpKind::Read, OpKind::Write, OpKind::Trim, OpKind::WriteZeroes] {
            if !self.issues(kind) {
                continue;
            }
            let sizes = self.blocks(kind).iter();
            let shares = sizes.map(|block| (human::size(block.bytes.into()), block.share));
            remark("the block sizes", &shares.collect::<Vec<_>>(), &mut all);
            let patterns = self.addresses(kind).iter().enumerate();
            let shares = patterns.map(|(i, a)| (format!("pattern {}", i + 1), a.share));
            remark("the addresses", &shares.collect::<Vec<_>>(), &mut all);
        }
        all.dedup();
        all
    }
}

fn remark(what: &str, shares: &[(String, f64)], all: &mut Vec<String>) {
    let sum: f64 = shares.iter().map(|(_, share)| share).sum();
    if shares.len() < 2 || !LIKE_PERCENT.contains(&sum) || ROUNDED.contains(&sum) {
        return;
    }
    let parts: Vec<String> = shares
        .iter()
        .map(|(name, share)| format!("{name} {} %", three_digits(share / sum * 100.0)))
        .collect();
    let sentence = format!(
        "the shares of {what} add up to {}, not 100; they are relative to one another: {}",
        three_digits(sum),
        parts.join(", ")
    );
    if !all.contains(&sentence) {
        all.push(sentence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_that_look_like_percentages_are_remarked_on() {
        let of = |text: &str| {
            let text = format!("schema = 1\n{text}\n[limits]\ntime = \"1s\"\n");
            Spec::from_toml(&text).unwrap_or_else(|e| panic!("{text}: {e:?}")).remarks()
        };
        let said = of("mix = { read = 90, write = 30 }");
        assert_eq!(
            said,
            [
                "the shares of the mix add up to 120, not 100; they are relative to one another: read 75.0 %, write 25.0 %"
            ]
        );
        for quiet in [
            "mix = { read = 70, write = 30 }",
            "mix = { read = 1, write = 2 }",
            "mix = { read = 0.7, write = 0.3 }",
            "mix = { read = 33, write = 33, flush = 33 }",
        ] {
            assert_eq!(of(quiet), Vec::<String>::new(), "{quiet}");
        }
    }
}
