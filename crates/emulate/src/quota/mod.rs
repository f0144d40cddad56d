//! Rate limits, and the requests that wait for them. Decides which request may start, and when. `limit` adds the events
//! that make this a stage in front of a device.

mod bucket;
mod meter;
#[cfg(test)]
mod tests;

use crate::part_id::PartId;
use crate::spec::Limit;
use crate::store::Store;
use crate::usage::Resource;
use iodyno_units::{Op, OpKind};
use meter::{Gauge, Meter};
use std::collections::VecDeque;

/// The bucket for which the first request of a line waits.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// Indices of the limit and of its bucket.
    by: (usize, usize),
    /// Whether the other line must wait too, because the limit counts the requests of both lines.
    holds_both: bool,
}

/// A request that waits for the limits to allow it.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    slot: u32,
    op: Op,
    part: PartId,
    /// Sequence number of the arrival, which decides between requests that arrive at the same time.
    number: u64,
    arrived_ns: u64,
}

/// A queue of requests that wait for the limits, in order of arrival.
#[derive(Clone, Debug, Default)]
struct Line {
    waiting: VecDeque<Waiting>,
    /// The bucket for which the first request waits; `None` if it does not wait. While it waits, it has an event at
    /// which it may start.
    held: Option<Held>,
}

/// A request that the limits allow to start now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    pub(crate) slot: u32,
    pub(crate) kind: OpKind,
    pub(crate) arrived_ns: u64,
}

/// Limits, and the requests that wait for them.
#[derive(Clone, Debug)]
pub(crate) struct Quota {
    meters: Vec<Meter>,
    /// One line for all requests or, if a limit counts only reads or only writes, one for reads and one for all
    /// others.
    lines: [Line; 2],
    has_two_lines: bool,
    arrivals: u64,
}

impl Quota {
    pub(crate) fn new(limits: &[Limit]) -> Self {
        Self::of(limits.iter().map(Meter::new).collect())
    }

    /// Creates limits that several devices of an instance share.
    pub(crate) fn shared(limits: &[Limit]) -> Self {
        Self::of(limits.iter().map(Meter::shared).collect())
    }

    fn of(meters: Vec<Meter>) -> Self {
        let has_two_lines = meters.iter().any(Meter::is_of_one_kind);
        Self { meters, lines: Default::default(), has_two_lines, arrivals: 0 }
    }

    fn line(&self, kind: OpKind) -> usize {
        usize::from(self.has_two_lines && kind != OpKind::Read)
    }

    /// Adds a request of the device `part` to its line. Returns whether the request is the first in the line.
    pub(crate) fn arrive(&mut self, slot: u32, op: Op, part: PartId, now_ns: u64) -> bool {
        let (line, number) = (self.line(op.kind), self.arrivals);
        self.arrivals += 1;
        let waiting = &mut self.lines[line].waiting;
        waiting.push_back(Waiting { slot, op, part, number, arrived_ns: now_ns });
        waiting.len() == 1
    }

    /// Ends the wait of the first request in the line of `kind`, because its event is due.
    pub(crate) fn end_wait(&mut self, kind: OpKind, now_ns: u64) {
        let line = self.line(kind);
        self.end_wait_of(line, now_ns);
    }

    fn end_wait_of(&mut self, line: usize, now_ns: u64) {
        if let Some(Held { by, .. }) = self.lines[line].held.take()
            && let Some(gauge) = self.gauge(by)
        {
            gauge.release(now_ns);
        }
    }

    /// Returns the bucket with these indices; `None` without limits.
    fn gauge(&mut self, (meter, bucket): (usize, usize)) -> Option<&mut Gauge> {
        self.meters.get_mut(meter)?.gauges.get_mut(bucket)
    }

    /// Starts the next request that all limits have room for, and charges its cost to them. `None`: every line is
    /// empty, or its first request has an event. Calls `later` with the time and slot of each new event, also for a
    /// request that could start but that `may_start` refuses.
    pub(crate) fn next(
        &mut self,
        now_ns: u64,
        may_start: impl Fn(u32) -> bool,
        mut later: impl FnMut(u64, u32),
    ) -> Option<Started> {
        let arrival = |line: &Line| line.waiting.front().map_or(u64::MAX, |of| of.number);
        let other_first = arrival(&self.lines[1]) < arrival(&self.lines[0]);
        for line in if other_first { [1, 0] } else { [0, 1] } {
            let Line { waiting, held } = &self.lines[line];
            match (held, waiting.front().copied()) {
                (Some(held), _) if held.holds_both => return None,
                (Some(_), _) | (None, None) => {}
                (None, Some(first)) => {
                    let (ready_ns, held) = self.room_for(now_ns, &first.op);
                    if ready_ns <= now_ns && may_start(first.slot) {
                        self.meters.iter_mut().for_each(|meter| meter.take(&first.op));
                        self.lines[line].waiting.pop_front();
                        let Waiting { slot, op: Op { kind, .. }, arrived_ns, .. } = first;
                        return Some(Started { slot, kind, arrived_ns });
                    }
                    self.lines[line].held = Some(held);
                    if let Some(gauge) = self.gauge(held.by) {
                        gauge.hold(now_ns);
                    }
                    later(ready_ns, first.slot);
                    if held.holds_both {
                        return None;
                    }
                }
            }
        }
        None
    }

    /// Returns the time from which all limits have room for an operation, and the bucket that is the last to have
    /// room for it.
    fn room_for(&mut self, now_ns: u64, op: &Op) -> (u64, Held) {
        let (mut latest_ns, mut by) = (now_ns, (0, 0));
        for (index, meter) in self.meters.iter_mut().enumerate() {
            let (ready_ns, bucket) = meter.ready_ns(now_ns, op);
            if ready_ns > latest_ns {
                (latest_ns, by) = (ready_ns, (index, bucket));
            }
        }
        let is_of_one_kind = self.meters.get(by.0).is_some_and(Meter::is_of_one_kind);
        let holds_both = !is_of_one_kind || latest_ns == now_ns;
        (latest_ns, Held { by, holds_both })
    }

    /// Drops all waiting requests.
    pub(crate) fn clear(&mut self, now_ns: u64) {
        for line in 0..self.lines.len() {
            self.end_wait_of(line, now_ns);
            self.lines[line].waiting.clear();
        }
    }

    /// Drops the waiting requests of a device. Their events must already have been dropped.
    pub(crate) fn forget(&mut self, part: PartId, now_ns: u64) {
        for line in 0..self.lines.len() {
            if self.lines[line].waiting.front().is_some_and(|first| first.part == part) {
                self.end_wait_of(line, now_ns);
            }
            self.lines[line].waiting.retain(|waiting| waiting.part != part);
        }
    }

    /// Returns the limits as resources. A limit is busy for the same time as a server with the limit's rate. `part`:
    /// the device to which the limits belong; `None`: the instance.
    pub(crate) fn resources(&self, now_ns: u64, part: Option<PartId>) -> Vec<Resource> {
        let gauges = self.meters.iter().flat_map(|meter| &meter.gauges);
        let resource = |gauge: &Gauge| {
            let (name, busy_ns) = (gauge.name, gauge.busy_ns(now_ns));
            Resource { name, part, count: 1, held: false, busy_ns }
        };
        gauges.map(resource).collect()
    }

    /// Calls `take` for each limit that has burst credits.
    pub(crate) fn stores(&self, now_ns: u64, take: &mut dyn FnMut(Store)) {
        self.meters.iter().filter_map(|meter| meter.credits(now_ns)).for_each(take);
    }

    /// Returns the burst credits left under the limit that has the least; see [`Meter::credits_share`]. `None` if no
    /// limit has credits.
    pub(crate) fn credits_share(&self, now_ns: u64) -> Option<f64> {
        self.meters.iter().filter_map(|meter| meter.credits_share(now_ns)).reduce(f64::min)
    }
}
