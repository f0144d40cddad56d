//! A server with reservations: serves one request at a time, and gives each the earliest gap that is long enough.
//!
//! A [`Server`](crate::server::Server) serves requests in the order in which they are made. That does not suit the
//! memory bus: a core that submits 30 operations at one instant reserves the bus at once for 30 consecutive copies. A
//! copy by another core at that instant would wait for all of them; here it fills a gap between the reservations.

use crate::server::{passed_ns, ticks, whole_ns};
use std::collections::VecDeque;

/// Reservations of time on one server (a component that does one thing at a time).
#[derive(Clone, Debug, Default)]
pub(crate) struct Calendar {
    /// End of the last reservation.
    free_ticks: u64,
    /// Free intervals before `free_ticks` as (start, end), earliest first. Past intervals are removed.
    gaps: VecDeque<(u64, u64)>,
    /// Busy time since the start, including reserved time.
    busy_ticks: u64,
}

impl Calendar {
    /// Reserves the server for `cost_ticks` in the earliest gap from `at_ns` on. Returns the end of the
    /// reservation, ns. `at_ns` of later calls must not be before `now_ns`.
    pub(crate) fn take(&mut self, now_ns: u64, at_ns: u64, cost_ticks: u64) -> u64 {
        self.busy_ticks += cost_ticks;
        let (now, at) = (ticks(now_ns), ticks(at_ns));
        while self.gaps.front().is_some_and(|(_, end)| *end <= now) {
            self.gaps.pop_front();
        }
        let first = self.gaps.partition_point(|(_, end)| *end <= at);
        for i in first..self.gaps.len() {
            let (start, end) = self.gaps[i];
            let from = start.max(at);
            let until = from + cost_ticks;
            if until > end {
                continue;
            }
            match (from > start, until < end) {
                (false, false) => drop(self.gaps.remove(i)),
                (false, true) => self.gaps[i].0 = until,
                (true, false) => self.gaps[i].1 = from,
                (true, true) => {
                    self.gaps[i].0 = until;
                    self.gaps.insert(i, (start, from));
                }
            }
            return passed_ns(until);
        }
        let from = self.free_ticks.max(at);
        let gap = (self.free_ticks.max(now), from);
        if gap.0 < gap.1 {
            self.gaps.push_back(gap);
        }
        self.free_ticks = from + cost_ticks;
        passed_ns(self.free_ticks)
    }

    /// Cancels all reservations from `now_ns` on.
    pub(crate) fn reset(&mut self, now_ns: u64) {
        self.busy_ticks = ticks(self.busy_ns(now_ns));
        self.free_ticks = self.free_ticks.min(ticks(now_ns));
        self.gaps.clear();
    }

    /// Busy time from the start to `now_ns`, ns.
    pub(crate) fn busy_ns(&self, now_ns: u64) -> u64 {
        let now = ticks(now_ns);
        let idle: u64 =
            self.gaps.iter().map(|(start, end)| end.saturating_sub(now.max(*start))).sum();
        let promised = self.free_ticks.saturating_sub(now).saturating_sub(idle);
        whole_ns(self.busy_ticks.saturating_sub(promised))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Server;
    use proptest::prelude::*;

    proptest! {
        /// Checks that a calendar called in order of time equals a plain FIFO server. In any order,
        /// reservations must not overlap or begin early, and the busy time must match them.
        #[test]
        fn reservations_never_overlap(
            mut asks in prop::collection::vec((0_u64..400, 0_u64..40), 1..80),
            cut in 0_u64..500,
        ) {
            let mut calendar = Calendar::default();
            let mut taken = Vec::new();
            for &(at, cost) in &asks {
                let end = calendar.take(0, at, ticks(cost));
                prop_assert!(end >= at + cost);
                taken.push((end - cost, end));
            }
            let until = |cut: u64| {
                taken.iter().map(|(a, b)| b.min(&cut).saturating_sub(*a)).sum::<u64>()
            };
            prop_assert_eq!(calendar.busy_ns(cut), until(cut));
            taken.sort_unstable();
            prop_assert!(taken.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{taken:?}");
            asks.sort_unstable_by_key(|ask| ask.0);
            let (mut calendar, mut server) = (Calendar::default(), Server::default());
            for (at, cost) in asks {
                // A cost of zero fits anywhere, so it is excluded.
                let cost = ticks(cost + 1);
                prop_assert_eq!(calendar.take(at, at, cost), server.take(at, cost));
                prop_assert_eq!(calendar.busy_ns(at), server.busy_ns(at));
            }
            prop_assert!(calendar.gaps.is_empty(), "past gaps are dropped");
        }
    }

    #[test]
    fn an_earlier_one_does_not_wait_for_later_ones() {
        let mut bus = Calendar::default();
        for i in 0..32 {
            assert_eq!(bus.take(0, 10 * i, ticks(3)), 10 * i + 3);
        }
        assert_eq!(bus.take(0, 1, ticks(3)), 6);
        assert_eq!(bus.take(0, 1, ticks(4)), 10, "it fits exactly");
        assert_eq!(bus.take(0, 0, ticks(8)), 321, "where it fits");
        bus.reset(5);
        assert_eq!(bus.take(5, 5, ticks(3)), 8);
    }
}
