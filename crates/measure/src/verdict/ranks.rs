//! Judges whether the ranks of a run measured at the same time, and whether one of them slowed the others down.

use super::{Level, Say, Verdict};
use crate::cell::Cell;
use crate::ranks::RankFigures;
use iodyno_units::human;

/// Maximum fraction of the window by which the starts of ranks may differ.
const APART_SHARE_MAX: f64 = 0.01;
/// Rate, as a fraction of the median rank's rate, below which a rank is a straggler.
const LAGS_BELOW: f64 = 0.7;
/// Fraction of late operations from which lateness explains a rank's low rate.
const LATE_SHARE: f64 = 0.01;
/// Utilisation of the workers' processors, or of the generator's maximum rate, from which the client is the
/// limit.
const BUSY_SHARE: f64 = 0.9;

/// Reports skewed starts, stragglers and overloaded clients among the ranks of a merged cell.
pub(super) fn ranks(cell: &Cell, say: &mut Say) {
    let ranks = &cell.evidence.ranks;
    if ranks.len() < 2 {
        return;
    }
    let apart_ns = ranks.iter().map(apart_ns).max().unwrap_or(0);
    if is_apart(apart_ns, cell) {
        let words = format!(
            "ranks started up to {} apart, more than {:.0} % of the window: the total adds rates from different times; measure longer, with at most one rank per processor of a host",
            human::time_ns(apart_ns as f64),
            APART_SHARE_MAX * 100.0
        );
        say("SKEW", Level::Warning, words);
    }
    stragglers(ranks, say);
    let busy = ranks.iter().filter(|rank| is_busy(rank)).count();
    if busy > 0 && busy * 2 >= ranks.len() && !cell.evidence.in_process {
        let words = format!(
            "{busy} of {} ranks used {:.0} % or more of their processors, or of their generators' highest rate: the clients limit the rate, not the storage; use more or faster clients",
            ranks.len(),
            BUSY_SHARE * 100.0
        );
        say("CLIENT_BOUND", Level::Warning, words);
    }
}

/// Judges each rank (process) of a merged cell by the rules that apply to the merged cell. Returns the verdicts of each
/// rank, in the order of the ranks.
pub fn of_each_rank(cell: &Cell) -> Vec<Vec<Verdict>> {
    let ranks = &cell.evidence.ranks;
    let median = median_iops(ranks);
    let of_rank = |rank: &RankFigures| {
        let mut all = Vec::new();
        let mut say = |code: &str, text: String| {
            all.push(Verdict { code: code.to_owned(), level: Level::Warning, text });
        };
        if is_apart(apart_ns(rank), cell) {
            say(
                "SKEW",
                format!(
                    "the rank started up to {} after the agreed time",
                    human::time_ns(apart_ns(rank) as f64)
                ),
            );
        }
        if rank.iops() < LAGS_BELOW * median {
            let share = rank.iops() / median * 100.0;
            say("STRAGGLER", format!("{share:.0} % of the median rank's rate. {}", why(rank)));
        }
        if is_busy(rank) && !cell.evidence.in_process {
            say(
                "CLIENT_BOUND",
                "the rank used up its processors, or reached the highest rate of its generator"
                    .to_owned(),
            );
        }
        all
    };
    if ranks.len() < 2 {
        return vec![Vec::new(); ranks.len()];
    }
    ranks.iter().map(of_rank).collect()
}

/// Upper bound of the delay between the agreed start and the start of a rank's last worker, ns.
fn apart_ns(rank: &RankFigures) -> u64 {
    rank.start_late_ns + rank.clock_bound_ns
}

fn is_apart(apart_ns: u64, cell: &Cell) -> bool {
    cell.window_ns > 0 && apart_ns as f64 > APART_SHARE_MAX * cell.window_ns as f64
}

fn is_busy(rank: &RankFigures) -> bool {
    let of_ceiling = rank.ceiling_iops.map_or(0.0, |ceiling| rank.iops() / ceiling.max(1.0));
    rank.cpu_share >= BUSY_SHARE || of_ceiling >= BUSY_SHARE
}

fn median_iops(ranks: &[RankFigures]) -> f64 {
    let mut rates: Vec<f64> = ranks.iter().map(RankFigures::iops).collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(0.0)
}

fn stragglers(ranks: &[RankFigures], say: &mut Say) {
    let median = median_iops(ranks);
    let mut behind: Vec<&RankFigures> =
        ranks.iter().filter(|rank| rank.iops() < LAGS_BELOW * median).collect();
    behind.sort_by(|a, b| a.iops().total_cmp(&b.iops()));
    let Some(slowest) = behind.first() else { return };
    let others = match behind.len() - 1 {
        0 => String::new(),
        1 => format!("; 1 more rank is below {:.0} %", LAGS_BELOW * 100.0),
        n => format!("; {n} more ranks are below {:.0} %", LAGS_BELOW * 100.0),
    };
    let words = format!(
        "rank {} on {} had {:.0} % of the median rank's rate{others}. {}",
        slowest.rank,
        slowest.host,
        slowest.iops() / median * 100.0,
        why(slowest)
    );
    say("STRAGGLER", Level::Warning, words);
}

/// Explains why a straggling rank may have been slow.
fn why(rank: &RankFigures) -> String {
    let mut reasons = Vec::new();
    if rank.cpu_share >= BUSY_SHARE {
        reasons
            .push(format!("the workers used {:.0} % of their processors", rank.cpu_share * 100.0));
    }
    if let Some(share) = rank.steal_share.filter(|share| *share > 0.02) {
        reasons.push(format!("the hypervisor took {:.0} % of the processors' time", share * 100.0));
    }
    if let Some(share) = rank.foreign_share.filter(|share| *share > 0.05) {
        reasons.push(format!(
            "other programs' I/O on the device was {:.0} % of the rank's",
            share * 100.0
        ));
    }
    if let Some(share) = rank.late_share.filter(|share| *share > LATE_SHARE) {
        let share = share * 100.0;
        reasons.push(format!("{share:.0} % of the operations were submitted over 1 ms late"));
    }
    if let Some(times) = rank.processor_throttles.filter(|times| *times > 0) {
        let times = human::counted(times, "time");
        reasons.push(format!("the processors were throttled {times} because of heat"));
    }
    if let (Some(now), Some(limit)) = (rank.temperature_c, rank.temperature_warning_c)
        && now >= limit
    {
        reasons.push(format!(
            "the device is at {now:.0} °C, and its warning threshold is {limit:.0} °C"
        ));
    }
    if rank.start_late_ns as f64 > 0.1 * rank.window_ns as f64 {
        let late = human::time_ns(rank.start_late_ns as f64);
        reasons.push(format!("the rank started {late} late"));
    }
    if reasons.is_empty() {
        "The low rate is not explained by the rank's processor time, its hypervisor, other programs' I/O, late submission or heat: check other programs on the host, the device, and the path to the storage"
            .to_owned()
    } else {
        format!("Possible causes on that rank: {}", reasons.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Evidence;

    fn rank(number: u32, ops: u64) -> RankFigures {
        let host = format!("h{number}");
        let window_ns = 1_000_000_000;
        RankFigures { rank: number, host, ops, window_ns, cpu_share: 0.3, ..RankFigures::default() }
    }

    /// Codes and texts of the verdicts on a merged cell of these ranks.
    fn found(ranks_of: Vec<RankFigures>) -> Vec<(String, String)> {
        let evidence = Evidence { ranks: ranks_of, ..Evidence::default() };
        let cell = Cell { evidence, window_ns: 1_000_000_000, ..Cell::default() };
        let mut all = Vec::new();
        ranks(&cell, &mut |code, level, words| {
            assert_eq!(level, Level::Warning);
            all.push((code.to_owned(), words));
        });
        all
    }

    fn codes(ranks_of: Vec<RankFigures>) -> Vec<String> {
        found(ranks_of).into_iter().map(|(code, _)| code).collect()
    }

    #[test]
    fn equal_ranks_that_start_together_are_sound() {
        assert_eq!(codes((0..4).map(|n| rank(n, 1000 + u64::from(n))).collect()), [""; 0]);
        // A single process can't be compared with any other.
        let alone = RankFigures { start_late_ns: 900_000_000, cpu_share: 1.0, ..rank(0, 10) };
        assert_eq!(codes(vec![alone]), [""; 0]);
    }

    /// Ranks are reported if the known start delay plus the clock's uncertainty exceeds 1 % of the window.
    #[test]
    fn ranks_that_start_apart_are_skewed() {
        let late = |start_late_ns, clock_bound_ns| {
            let late = RankFigures { clock_bound_ns, start_late_ns, ..rank(1, 1000) };
            codes(vec![rank(0, 1000), late])
        };
        assert_eq!(late(6_000_000, 3_900_000), [""; 0]);
        assert_eq!(late(6_000_000, 4_100_000), ["SKEW"]);
    }

    #[test]
    fn a_rank_that_lags_is_named_with_what_was_seen_there() {
        let all = found(vec![rank(0, 1000), rank(1, 1010), rank(2, 690), rank(3, 300)]);
        let (code, words) = &all[0];
        assert_eq!((all.len(), code.as_str()), (1, "STRAGGLER"));
        assert!(
            words.starts_with("rank 3 on h3 had 30 % of the median rank's rate; 1 more"),
            "{words}"
        );
        assert!(words.contains("low rate is not explained by"), "{words}");
        let busy = RankFigures { cpu_share: 0.97, foreign_share: Some(0.5), ..rank(3, 300) };
        let all = found(vec![rank(0, 1000), rank(1, 1000), rank(2, 1000), busy]);
        assert!(
            all[0].1.contains(
                "used 97 % of their processors; other programs' I/O on the device was 50 %"
            ),
            "{all:?}"
        );
        let hot = RankFigures {
            late_share: Some(0.25),
            processor_throttles: Some(3),
            temperature_c: Some(81.0),
            temperature_warning_c: Some(80.0),
            ..rank(3, 300)
        };
        let all = found(vec![rank(0, 1000), rank(1, 1000), rank(2, 1000), hot]);
        let words = "25 % of the operations were submitted over 1 ms late; the processors were throttled 3 times because of heat; the device is at 81 °C, and its warning threshold is 80 °C";
        assert!(all[0].1.contains(words), "{all:?}");
    }

    /// Each rank is judged by the rules that apply to the merged cell, so that a table can mark the affected ranks.
    #[test]
    fn each_rank_has_its_own_verdicts() {
        let late = RankFigures { start_late_ns: 11_000_000, ..rank(1, 1000) };
        let busy = RankFigures { cpu_share: 0.95, ..rank(2, 300) };
        let mut cell = Cell { window_ns: 1_000_000_000, ..Cell::default() };
        let of = |cell: &Cell| -> Vec<Vec<String>> {
            let all = of_each_rank(cell);
            all.into_iter().map(|of| of.into_iter().map(|v| v.code).collect()).collect()
        };
        cell.evidence.ranks = vec![rank(0, 1000), late, busy];
        let expected: [&[&str]; 3] = [&[], &["SKEW"], &["STRAGGLER", "CLIENT_BOUND"]];
        assert_eq!(of(&cell), expected);
        cell.evidence.ranks.truncate(1);
        assert_eq!(of(&cell), [[""; 0]]);
    }

    /// Half of the ranks are limited by their processors, or by their generators' maximum rates.
    #[test]
    fn busy_ranks_bound_the_rate() {
        let busy = |n| RankFigures { cpu_share: 0.95, ..rank(n, 1000) };
        let at_ceiling = |n| RankFigures { ceiling_iops: Some(1050.0), ..rank(n, 1000) };
        assert_eq!(
            codes(vec![busy(0), at_ceiling(1), rank(2, 1000), rank(3, 1000)]),
            ["CLIENT_BOUND"]
        );
        assert_eq!(codes(vec![busy(0), rank(1, 1000), rank(2, 1000), rank(3, 1000)]), [""; 0]);
    }
}
