//! Whether the processes of a run measured together, and whether one of them held the others back.

use super::{Level, Say};
use crate::cell::Cell;
use crate::ranks::RankFigures;
use iodyno_units::human;

/// A larger share of the window during which not all ranks measured is too much.
const APART_SHARE_MAX: f64 = 0.01;
/// A rank with a lower rate than this share of the median rank's lags behind.
const LAGS_BELOW: f64 = 0.7;
/// From this share of what workers can use on, or of what the generator reaches, the client is the limit.
const BUSY_SHARE: f64 = 0.9;

/// Judges the merged cell of several ranks.
pub(super) fn ranks(cell: &Cell, say: &mut Say) {
    let ranks = &cell.evidence.ranks;
    if ranks.len() < 2 {
        return;
    }
    let apart_ns = ranks.iter().map(|r| r.start_late_ns + r.clock_bound_ns).max().unwrap_or(0);
    if cell.window_ns > 0 && apart_ns as f64 > APART_SHARE_MAX * cell.window_ns as f64 {
        let words = format!(
            "ranks started up to {} apart, more than {:.0} % of the window: the rates of ranks are added, though they are of different times; measure longer, with no more ranks than processors on a host",
            human::time_ns(apart_ns as f64),
            APART_SHARE_MAX * 100.0
        );
        say("SKEW", Level::Warning, words);
    }
    stragglers(cell, say);
    let busy: Vec<&RankFigures> = ranks.iter().filter(|rank| is_busy(rank)).collect();
    if !busy.is_empty() && busy.len() * 2 >= ranks.len() && !cell.evidence.in_process {
        let words = format!(
            "{} of {} ranks had their processors busy to {:.0} % or more: more or faster clients would reach more, so this is no limit of the storage",
            busy.len(),
            ranks.len(),
            BUSY_SHARE * 100.0
        );
        say("CLIENT_BOUND", Level::Warning, words);
    }
}

fn is_busy(rank: &RankFigures) -> bool {
    let of_ceiling = rank.ceiling_iops.map_or(0.0, |ceiling| rank.iops() / ceiling.max(1.0));
    rank.cpu_share >= BUSY_SHARE || of_ceiling >= BUSY_SHARE
}

fn stragglers(cell: &Cell, say: &mut Say) {
    let ranks = &cell.evidence.ranks;
    let mut rates: Vec<f64> = ranks.iter().map(RankFigures::iops).collect();
    rates.sort_by(f64::total_cmp);
    let median = rates[rates.len() / 2];
    let mut behind: Vec<&RankFigures> =
        ranks.iter().filter(|rank| rank.iops() < LAGS_BELOW * median).collect();
    behind.sort_by(|a, b| a.iops().total_cmp(&b.iops()));
    let Some(slowest) = behind.first() else { return };
    let others = match behind.len() - 1 {
        0 => String::new(),
        n => format!("; {n} more are below {:.0} %", LAGS_BELOW * 100.0),
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

/// What is known about a rank that may have slowed it down.
fn why(rank: &RankFigures) -> String {
    let mut reasons = Vec::new();
    if rank.cpu_share >= BUSY_SHARE {
        reasons
            .push(format!("its workers used {:.0} % of their processors", rank.cpu_share * 100.0));
    }
    if let Some(share) = rank.steal_share.filter(|share| *share > 0.02) {
        reasons.push(format!("its hypervisor took {:.0} % of its processors", share * 100.0));
    }
    if let Some(share) = rank.foreign_share.filter(|share| *share > 0.05) {
        reasons.push(format!("others used its device, {:.0} % on top", share * 100.0));
    }
    if rank.start_late_ns as f64 > 0.1 * rank.window_ns as f64 {
        let late = human::time_ns(rank.start_late_ns as f64);
        reasons.push(format!("it started {late} late"));
    }
    if reasons.is_empty() {
        "Neither its processors nor other programs explain that: look at its device and its path to the storage"
            .to_owned()
    } else {
        format!("What was seen there: {}", reasons.join("; "))
    }
}
