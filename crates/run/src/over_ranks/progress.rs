//! Progress of a cell over all ranks: each rank reports its latest rates, and rank 0 sums them.

use crate::watch::{OverRanks, Rates};
use iodyno_drive::Progress;
use iodyno_measure::IoKinds;
use iodyno_ranks::Ranks;
use serde::{Deserialize, Serialize};

/// Latest rates that a rank reported, with the index of the cell in the run, so that rates of other cells are
/// ignored.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Said {
    cell: usize,
    rates: Rates,
}

/// Rates of this process in its latest interval.
pub(crate) fn own_rates(progress: &Progress<'_>) -> Rates {
    let Some(latest) = progress.latest else {
        return Rates { errors: progress.errors, ..Rates::default() };
    };
    let per_second = |n: u64| n as f64 * 1e9 / progress.interval_ns as f64;
    let quantile = |q: f64| {
        let kinds = latest.iter().map(|(_, class)| class.response_time());
        kinds.filter_map(|h| h.supported_quantile_ns(q)).max()
    };
    Rates {
        iops: per_second(latest.ios(IoKinds::of(latest.kinds()))),
        bytes_per_s: per_second(latest.bytes()),
        p50_ns: quantile(0.5),
        p99_ns: quantile(0.99),
        errors: progress.errors,
    }
}

/// On rank 0, returns the sum of the rates that ranks have reported for cell number `cell`, and a comparison
/// of the ranks. On other ranks, and with a single process, returns the process's own rates.
pub(crate) fn rates(
    ranks: &Ranks,
    cell: usize,
    progress: &Progress<'_>,
) -> (Rates, Option<OverRanks>) {
    let own = own_rates(progress);
    if ranks.is_alone() {
        return (own, None);
    }
    if progress.latest.is_some() {
        ranks.say(&Said { cell, rates: own });
    }
    if !ranks.is_first() {
        return (own, None);
    }
    let hosts = ranks.hosts();
    let all = ranks.said::<Said>().into_iter().zip(0_u32..).filter_map(|(said, rank)| {
        let said = said.filter(|said| said.cell == cell)?;
        Some((rank, said.rates))
    });
    together(all).map_or((own, None), |(rates, heard, (slowest, slowest_iops))| {
        let host = hosts[slowest as usize].name.clone();
        let ranks = ranks.size();
        (rates, Some(OverRanks { ranks, heard, slowest, slowest_host: host, slowest_iops }))
    })
}

/// Adds up the rates of all ranks. Returns the sum, the number of ranks, and the slowest rank with its IOPS; `None` if
/// there are no rates.
fn together(all: impl Iterator<Item = (u32, Rates)>) -> Option<(Rates, u32, (u32, f64))> {
    let mut sum = Rates::default();
    let mut slowest: Option<(u32, f64)> = None;
    let mut heard = 0;
    for (rank, of) in all {
        heard += 1;
        sum.iops += of.iops;
        sum.bytes_per_s += of.bytes_per_s;
        sum.errors += of.errors;
        // Percentiles of ranks can't be merged; use the largest as a conservative value.
        sum.p50_ns = sum.p50_ns.max(of.p50_ns);
        sum.p99_ns = sum.p99_ns.max(of.p99_ns);
        if slowest.is_none_or(|(_, iops)| of.iops < iops) {
            slowest = Some((rank, of.iops));
        }
    }
    Some((sum, heard, slowest?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_add_up_and_the_slowest_is_named() {
        let of = |iops, p99_ns| Rates { iops, p99_ns, errors: 1, ..Rates::default() };
        let all = [(0, of(30.0, Some(5))), (2, of(10.0, None)), (3, of(20.0, Some(7)))];
        let (sum, heard, slowest) = together(all.into_iter()).unwrap();
        assert_eq!((sum.iops, sum.p99_ns, sum.errors), (60.0, Some(7), 3));
        assert_eq!((heard, slowest), (3, (2, 10.0)));
        assert_eq!(together(std::iter::empty()), None);
    }
}
