//! Rules that the table `[placement]` of a flash device must satisfy.

use iodyno_catalog::Record;
use iodyno_units::human;

use super::flash::{row_bytes, usable_bytes};
use super::{Rule, fault};
use crate::ftl::{FREE_BLOCKS, HANDLES_MAX};
use crate::spec::Isolation;

/// Maximum deviation of the sum of the shares from 1, to allow for rounding.
const SUM_TOLERANCE: f64 = 1e-6;

/// Returns the namespaces' shares of the capacity; `None` if the file has none, or one could not be read.
pub(in crate::describe) fn shares(v: &Record) -> Option<Vec<f64>> {
    let entry = v.get("placement.namespaces")?;
    entry.items().iter().map(iodyno_catalog::Entry::real).collect()
}

/// Rules that the table `[placement]` must satisfy.
pub(in crate::describe) const PLACEMENT: &[Rule] = &[
    Rule {
        name: "placement-shares",
        check: |v| {
            let shares = shares(v)?;
            let sum: f64 = shares.iter().sum();
            let is_possible = (1..=HANDLES_MAX).contains(&shares.len());
            let message = if !is_possible {
                format!(
                    "a device must have 1 to {HANDLES_MAX} namespaces (one per reclaim unit handle), not {}",
                    shares.len()
                )
            } else if shares.contains(&0.0) {
                "each namespace must have a share of the capacity".to_owned()
            } else if (sum - 1.0).abs() > SUM_TOLERANCE {
                format!(
                    "the shares of the namespaces must add up to 100 %, not {:.4} %",
                    sum * 100.0
                )
            } else {
                return None;
            };
            Some(fault("placement.namespaces", message, "for example [\"4%\", \"96%\"]".to_owned()))
        },
    },
    Rule {
        name: "placement-blocks",
        check: |v| {
            let handles = shares(v)?.len() as u64;
            let persistent = v.word("placement.isolation")? == Isolation::WORDS[1];
            if handles < 2 {
                return None;
            }
            let open = handles + if persistent { handles } else { 1 };
            let row = row_bytes(v)?;
            let usable = usable_bytes(v)? / row;
            let beyond = u64::from(FREE_BLOCKS) - 1 + open + open - 1;
            let needed = v.whole("capacity")?.div_ceil(row) + beyond;
            if usable >= needed {
                return None;
            }
            let message = format!(
                "each plane has only {usable} blocks that are not reserved, too few for {handles} namespaces: the \
                 minimum is {needed}, since each namespace has open blocks of its own"
            );
            let help = "use fewer namespaces or smaller blocks, or more raw space";
            Some(fault("placement.namespaces", message, help.to_owned()))
        },
    },
    Rule {
        name: "placement-buffer",
        check: |v| {
            let needed =
                shares(v)?.len() as u64 * v.whole("nand.planes")? * v.whole("nand.page")?;
            if v.whole("buffer.size")? >= needed {
                return None;
            }
            let message = format!(
                "the buffer must be at least {}, one program operation for each namespace",
                human::size(needed)
            );
            Some(fault("buffer.size", message, None))
        },
    },
    Rule {
        name: "placement-alone",
        check: |v| {
            shares(v)?;
            let others = ["zones.size", "translation.unit"];
            let other = others.into_iter().find(|key| v.get(key).is_some())?;
            let message = format!(
                "a device with `[placement]` can't have zones or a mapping unit above 4 KiB: remove `{other}`"
            );
            Some(fault(other, message, None))
        },
    },
];
