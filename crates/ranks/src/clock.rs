//! Clock offset between two hosts, measured by round trips.

use serde::{Deserialize, Serialize};

/// Number of message round trips used to measure a rank's clock. The shortest one, with the least delay,
/// counts.
pub(crate) const ROUND_TRIPS: u32 = 40;

/// Offset of a rank's CLOCK_MONOTONIC from rank 0's, with its error bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// The rank's clock minus rank 0's, ns.
    pub offset_ns: i64,
    /// Error bound of the offset, ns: half of the shortest round trip.
    pub bound_ns: u64,
}

/// Times of one message round trip: sent and received by rank 0's clock, answered by the other rank's clock,
/// ns.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_field_names, reason = "units stand last")]
pub(crate) struct RoundTrip {
    pub(crate) sent_ns: u64,
    pub(crate) answered_ns: u64,
    pub(crate) received_ns: u64,
}

impl ClockOffset {
    /// Computes the clock offset from the shortest of the round trips; `None` without round trips.
    pub(crate) fn from_round_trips(trips: &[RoundTrip]) -> Option<Self> {
        let best = trips.iter().min_by_key(|t| t.received_ns.saturating_sub(t.sent_ns))?;
        let length_ns = best.received_ns.saturating_sub(best.sent_ns);
        // The answer came at some time in between, so the middle is wrong by at most half a trip.
        let middle_ns = i128::from(best.sent_ns) + i128::from(length_ns / 2);
        let offset_ns = (i128::from(best.answered_ns) - middle_ns) as i64;
        Some(Self { offset_ns, bound_ns: length_ns.div_ceil(2) })
    }

    /// Converts a time by rank 0's clock to a time by the rank's own clock, ns.
    pub(crate) fn of_rank_ns(self, first_rank_ns: u64) -> u64 {
        first_rank_ns.saturating_add_signed(self.offset_ns)
    }
}

/// Present time of CLOCK_MONOTONIC, ns.
pub(crate) fn monotonic_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid timespec; the call writes it and keeps no pointer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With any delay in each direction, the true offset is within the error bound.
    #[test]
    fn the_true_offset_is_within_the_bound() {
        let mut random = 1_u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        for _ in 0..10_000 {
            let offset_ns = next(2_000_000_000) as i64 - 1_000_000_000;
            let mut now_ns = 5_000_000_000_u64;
            let mut trips = Vec::new();
            for _ in 0..8 {
                let (there_ns, back_ns) = (next(300_000), next(300_000));
                let answered_ns = (now_ns + there_ns).saturating_add_signed(offset_ns);
                let received_ns = now_ns + there_ns + back_ns;
                trips.push(RoundTrip { sent_ns: now_ns, answered_ns, received_ns });
                now_ns = received_ns + next(1000);
            }
            let found = ClockOffset::from_round_trips(&trips).unwrap();
            let error_ns = found.offset_ns.abs_diff(offset_ns);
            assert!(error_ns <= found.bound_ns, "{found:?} for {offset_ns}");
            let shortest = trips.iter().map(|t| t.received_ns - t.sent_ns).min().unwrap();
            assert_eq!(found.bound_ns, shortest.div_ceil(2));
        }
    }
}
