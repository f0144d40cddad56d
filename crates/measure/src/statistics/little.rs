//! Tests a result, measured by iodyno or published, with Little's law (1961): operations in flight = throughput × time
//! in flight, summed over the kinds of operation. The accepted deviations are our choice.
//!
//! The expected number in flight is the *nominal* number of outstanding I/Os (threads × queue depth), which a starved
//! or batching generator does not maintain. [`crate::verdict`] is stricter with iodyno's own cells: their operations
//! in flight were counted, so the law must hold exactly.

use super::{BadInput, all_finite};
use serde::{Deserialize, Serialize};

/// Throughput and mean response time of one kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Completed operations of this kind per second.
    pub iops: f64,
    /// Mean response time of this kind of operation, ns.
    pub mean_ns: f64,
}

/// Verdict on how well figures agree with Little's law.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// The figures agree: the ratio is 0.95 to 1.02.
    Well,
    /// The ratio is 0.90 to 0.95: the generator did not always maintain its queue depth.
    Barely,
    /// The ratio is below 0.90 (generator or processor limit, batching or wrong means) or above 1.02 (double
    /// counting or a wrong unit).
    Broken,
}

/// Result of testing figures against Little's law.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Little {
    /// Mean number of operations in flight by Little's law: throughput × mean response time.
    pub in_flight: f64,
    /// `in_flight` divided by the expected number of outstanding I/Os.
    pub ratio: f64,
    /// Whether `ratio` is close enough to 1.
    pub kept: Kept,
}

/// Tests by Little's law whether `flows` agree with `oio` outstanding I/Os: threads × queue depth in closed
/// loop, the mean number in flight in open loop. An `oio` of 0 or less is an error, as are negative flows.
pub fn little(flows: &[Flow], oio: f64) -> Result<Little, BadInput> {
    let figures: Vec<f64> = flows.iter().flat_map(|f| [f.iops, f.mean_ns]).chain([oio]).collect();
    all_finite("Little's law", &figures)?;
    if oio <= 0.0 || figures.iter().any(|x| *x < 0.0) {
        return Err(BadInput(format!(
            "{oio} outstanding I/Os are not valid for Little's law: give threads × queue depth, and times and rates of 0 or more"
        )));
    }
    let in_flight: f64 = flows.iter().map(|f| f.iops * f.mean_ns / 1e9).sum();
    let ratio = in_flight / oio;
    let kept = match ratio {
        0.95..=1.02 => Kept::Well,
        0.90..0.95 => Kept::Barely,
        _ => Kept::Broken,
    };
    Ok(Little { in_flight, ratio, kept })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_where_they_are() {
        let ratio = |iops: f64| little(&[Flow { iops, mean_ns: 1e9 }], 1.0).unwrap().kept;
        let table = [
            (0.0, Kept::Broken),
            (0.899, Kept::Broken),
            (0.90, Kept::Barely),
            (0.9499, Kept::Barely),
            (0.95, Kept::Well),
            (1.02, Kept::Well),
            (1.0201, Kept::Broken),
        ];
        for (r, kept) in table {
            assert_eq!(ratio(r), kept, "{r}");
        }
    }

    /// Each kind counts with its own mean: 70 000 reads/s of 80 µs and 30 000 writes/s of 40 µs make 6.8 in
    /// flight. The mean of the two means would give 6.
    #[test]
    fn kinds_are_summed() {
        let flows = [Flow { iops: 7e4, mean_ns: 8e4 }, Flow { iops: 3e4, mean_ns: 4e4 }];
        let l = little(&flows, 7.0).unwrap();
        assert!((l.in_flight - 6.8).abs() < 1e-9 && l.kept == Kept::Well);
        // KDiskMark's README, a figure with confused units: 497/s of 13.84 ms at 8.
        let l = little(&[Flow { iops: 497.0, mean_ns: 13.84e6 }], 8.0).unwrap();
        assert!((l.in_flight - 6.878).abs() < 1e-3 && l.kept == Kept::Broken);
        assert!(
            little(&flows, 0.0).is_err()
                && little(&[Flow { iops: -1.0, mean_ns: 1.0 }], 1.0).is_err()
        );
    }
}
