//! A limited device: a stage before a device, which holds requests back until every limit has room for them. Requests
//! wait in order of arrival, so a request that has to wait holds back all later ones, small ones too. The stage
//! takes no time itself. It belongs to the device's part, so it works for every family, in arrays (where each member has
//! its own limits) and behind adapters; a device without limits has no such stage.
//!
//! Reads, writes, trims and zeroes count. A flush transfers nothing and passes without delay, because the writes that
//! it makes durable have already ended.
//!
//! # The rules of cloud providers
//!
//! A limit without credits is one token bucket: it gains `rate` and holds the units of `window`. A limit with
//! credits is two: one gains `rate` and holds the credits, the other gains `burst` and holds the units of `window`. An
//! operation takes its cost from each.
//!
//! Amazon's gp2 counts every operation against its credits, which accrue at the base rate all the time. Azure counts
//! only what exceeds the base rate, and only unused base rate accrues. Both are this bucket: a load of u units a second
//! changes the credits by `rate` - u a second, whether the base part of u was added and taken or neither, and a full
//! bucket gains nothing in both. So credits of a saturated device decrease by `burst` - `rate` a second and last for
//! `credits` / (`burst` - `rate`); afterwards it serves `rate`, and an idle device refills in `credits` / `rate`. No key
//! distinguishes the two. What differs is the size that the providers state: Amazon's is a number of credits, Azure's is
//! the duration of a burst, from which the number follows.
//!
//! # Other limiters
//!
//! - QEMU's `throttling.*-total` is a leaky bucket: `rate` is `avg`. Without a length, or with length 1, `window` is `max` /
//!   `avg`; with a longer one, `burst` is `max`, `credits` are `max` × length, and `window` is 0.1 s. QEMU starts an
//!   operation as soon as the bucket isn't in debt, so it is ahead by at most one operation. Its separate limits of
//!   reads and of writes can't be expressed.
//! - Firecracker's token bucket: `window` is `refill_time` and `rate` is `size` / `refill_time`. With a
//!   `one_time_burst`, `credits` are `size`, `start` is the sum of both, and `burst` is a rate that never binds. Its timer
//!   of 100 ms, at which waiting requests continue, and the operation that it counts for a flush can't be expressed.

mod bucket;
mod meter;
#[cfg(test)]
mod tests;

use crate::core::Core;
use crate::part_id::PartId;
use crate::request::State;
use crate::spec::Limit;
use crate::store::Store;
use crate::usage::{Of, Phase, Resource};
use iodyno_units::OpKind;
use meter::Meter;
use std::collections::VecDeque;

/// The limits of a device, and the requests that wait for them.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    part: PartId,
    meters: Vec<Meter>,
    /// Requests that wait for the limits, in order of arrival, each with its arrival, ns.
    waiting: VecDeque<(u32, u64)>,
    /// The bucket for which the first waiting request waits (indices of limit and bucket), and since when, ns.
    held_by: Option<((usize, usize), u64)>,
    /// Total waiting time of reads and of writes, ns, with their numbers.
    waits: [(u64, u64); 2],
}

impl Limits {
    pub(crate) fn new(limits: &[Limit], part: PartId) -> Self {
        let meters = limits.iter().map(Meter::new).collect();
        Self { part, meters, waiting: VecDeque::new(), held_by: None, waits: [(0, 0); 2] }
    }

    /// Processes the event of a request of the device: one that arrives, one that the limits allow, or one that the
    /// device has already started. `device` processes an event behind the limits.
    pub(crate) fn event(
        &mut self,
        core: &mut Core,
        slot: u32,
        mut device: impl FnMut(&mut Core, u32),
    ) {
        let request = &mut core.slab[slot];
        match request.state {
            State::Issued if request.kind != OpKind::Flush => {
                request.state = State::Waiting;
                self.waiting.push_back((slot, core.now));
                if self.waiting.len() == 1 {
                    self.start(core, device);
                }
            }
            State::Allowed => {
                self.end_wait(core.now);
                self.start(core, device);
            }
            _ => device(core, slot),
        }
    }

    /// Starts waiting requests as long as all limits have room for the first one. Schedules the event at which they
    /// will have room for the next.
    fn start(&mut self, core: &mut Core, mut device: impl FnMut(&mut Core, u32)) {
        let now_ns = core.now;
        while let Some(&(slot, arrived_ns)) = self.waiting.front() {
            let op = core.slab[slot].op();
            let (mut ready_ns, mut latest) = (now_ns, (0, 0));
            for (index, meter) in self.meters.iter_mut().enumerate() {
                let (of_meter_ns, bucket) = meter.ready_ns(now_ns, &op);
                if of_meter_ns > ready_ns {
                    (ready_ns, latest) = (of_meter_ns, (index, bucket));
                }
            }
            if ready_ns > now_ns {
                self.held_by = Some((latest, now_ns));
                core.at(ready_ns, slot, State::Allowed);
                return;
            }
            for meter in &mut self.meters {
                meter.take(&op);
            }
            self.waiting.pop_front();
            if let OpKind::Read | OpKind::Write = op.kind {
                let waits = &mut self.waits[usize::from(op.kind == OpKind::Write)];
                *waits = (waits.0 + now_ns - arrived_ns, waits.1 + 1);
            }
            core.slab[slot].state = State::Issued;
            device(core, slot);
        }
    }

    /// Ends the time for which the first waiting request has waited for a bucket.
    fn end_wait(&mut self, now_ns: u64) {
        if let Some(((meter, bucket), since_ns)) = self.held_by.take() {
            self.meters[meter].gauges[bucket].waited_ns += now_ns - since_ns;
        }
    }

    /// Processes a power failure: all waiting requests are gone. Credits are kept by the provider, so they stay.
    pub(crate) fn power_off(&mut self, now_ns: u64) {
        self.end_wait(now_ns);
        self.waiting.clear();
    }

    /// The limits as resources, which are busy while a request waits for them.
    pub(crate) fn resources(&self, core: &Core) -> Vec<Resource> {
        let held_by = self.held_by.map(|(of, since_ns)| (of, core.now.saturating_sub(since_ns)));
        let mut resources = Vec::new();
        for (index, meter) in self.meters.iter().enumerate() {
            for (bucket, gauge) in meter.gauges.iter().enumerate() {
                let now_ns = held_by.filter(|held| held.0 == (index, bucket)).map_or(0, |h| h.1);
                let busy_ns = gauge.waited_ns + now_ns;
                let (name, part) = (gauge.name, Some(self.part));
                resources.push(Resource { name, part, count: 1, held: false, busy_ns });
            }
        }
        resources
    }

    /// Calls `take` with the burst credits of each limit that has some.
    pub(crate) fn stores(&self, take: &mut dyn FnMut(Store)) {
        self.meters.iter().filter_map(Meter::credits).for_each(take);
    }

    /// Waiting times of the device's I/Os since the start.
    pub(crate) fn phases(&self) -> impl Iterator<Item = Phase> {
        let of_kinds = [Of::Read, Of::Write].into_iter().zip(self.waits);
        of_kinds.map(|(of, (total_ns, count))| {
            let name = "waits for the limits of the device";
            Phase { name, of, total_ns, count }
        })
    }
}
