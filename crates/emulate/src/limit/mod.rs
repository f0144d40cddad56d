//! Rate limits: a stage in front of a device, where each request waits until every limit has room for it. The stage
//! belongs to the device, so it works for every device family, in arrays (where each member has its own limits) and
//! behind adapters. The stage itself takes no time.
//!
//! Requests wait in order of arrival, so a waiting request holds back all later requests, even small ones. If a limit
//! counts only reads or only writes, reads wait in one line and all other requests in another. Reads, writes, trims and
//! zeroes count towards the limits. A flush transfers nothing and passes without delay.

use crate::core::Core;
use crate::part_id::PartId;
use crate::quota::Quota;
use crate::request::State;
use crate::spec::Limit;
use crate::store::Store;
use crate::usage::{Of, Phase, Resource};
use iodyno_units::OpKind;

/// Total waiting time, ns, and number of requests: of reads, then of writes.
type Waits = [(u64, u64); 2];

/// The limits of a device, and the time that its requests have waited for these and for limits shared with other
/// devices.
///
/// If a limit counts only reads or only writes, reads and writes wait in separate lines. A limit that counts both
/// serves the first requests of the two lines in order of arrival. A request that waits for a limit of its own line
/// does not hold back the other line.
///
/// # Limits of cloud providers
///
/// A limit without credits is one token bucket: it gains `rate` units a second and holds at most the gain of
/// `window`. A limit with credits is two token buckets: one gains `rate` and holds the credits, the other gains
/// `burst` and holds at most the gain of `window`. An operation takes its cost from both.
///
/// Amazon's gp2 counts every operation against its credits, which accrue at the base rate all the time. Azure counts
/// only the excess over the base rate, and only unused base rate accrues. The bucket of credits models both: under
/// either rule, a load of u units a second changes the credits by `rate` - u a second, and a full bucket gains
/// nothing. Amazon states a number of credits. Azure states the duration of a burst, from which the number follows.
///
/// # Other limiters
///
/// - QEMU's `throttling.*-total` is a leaky bucket: `rate` is `avg`. Without a length, or with length 1, `window` is
///   `max` / `avg`. With a longer one, `burst` is `max`, `credits` are `max` × length, and `window` is 0.1 s. QEMU
///   starts an operation as soon as the bucket isn't in debt, so it is ahead by at most one operation.
///   `throttling.*-read` and `-write` are limits with `of = "reads"` and `of = "writes"`.
/// - Firecracker's token bucket has `refill_time` as `window` and `size` / `refill_time` as `rate`. With a
///   `one_time_burst`, `credits` are `size`, `start` is `size` + `one_time_burst`, and `burst` is a rate that never
///   binds. Two properties can't be expressed: waiting requests continue only when a 100 ms timer fires, and a flush
///   costs one operation.
///
/// # Limits of an instance
///
/// A system may have limits that its cloud volumes share. A request passes these limits after those of its own
/// volume, so a volume that waits for its own limit holds back no other volume. The shared limits are one stage for
/// all volumes, in order of arrival.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    part: PartId,
    own: Quota,
    /// Waiting times for the device's own limits, then for the shared ones.
    waits: [Waits; 2],
}

impl Limits {
    pub(crate) fn new(limits: &[Limit], part: PartId) -> Self {
        Self { part, own: Quota::new(limits), waits: [[(0, 0); 2]; 2] }
    }

    /// Processes a request's next event: its arrival, or the time at which a limit may have room for it. Once the
    /// request has passed all limits, its events go to `device`.
    pub(crate) fn event(
        &mut self,
        core: &mut Core,
        slot: u32,
        mut device: impl FnMut(&mut Core, u32),
    ) {
        let (kind, now_ns) = (core.slab[slot].kind, core.now);
        match core.slab[slot].state {
            State::Issued if kind != OpKind::Flush => {
                let op = core.slab[slot].op();
                core.slab[slot].state = State::Waiting;
                if !self.own.arrive(slot, op, self.part, now_ns) {
                    return;
                }
            }
            State::Allowed => self.own.end_wait(kind, now_ns),
            State::AllowedByInstance => {
                if let Some(shared) = &mut core.shared {
                    shared.end_wait(kind, now_ns);
                }
                return self.pass_shared(core, slot, &mut device);
            }
            _ => return device(core, slot),
        }
        loop {
            let later = |at_ns, slot| core.at(at_ns, slot, State::Allowed);
            let Some(started) = self.own.next(now_ns, |_| true, later) else { return };
            add(&mut self.waits[0], started.kind, now_ns - started.arrived_ns);
            self.enter_shared(core, started.slot, &mut device);
        }
    }

    /// Passes on a request that the device's own limits allow: to the shared limits or, without them, to the device.
    fn enter_shared(
        &mut self,
        core: &mut Core,
        slot: u32,
        device: &mut impl FnMut(&mut Core, u32),
    ) {
        core.slab[slot].state = State::Issued;
        let (op, now_ns) = (core.slab[slot].op(), core.now);
        let Some(shared) = &mut core.shared else { return device(core, slot) };
        core.slab[slot].state = State::Waiting;
        if shared.arrive(slot, op, self.part, now_ns) {
            self.pass_shared(core, slot, device);
        }
    }

    /// Starts the request `slot`, the first of its line at the shared limits, if these have room for it. Schedules an
    /// event for the request that is then the first.
    fn pass_shared(&mut self, core: &mut Core, slot: u32, device: &mut impl FnMut(&mut Core, u32)) {
        let now_ns = core.now;
        let Some(mut shared) = core.shared.take() else { return };
        // Requests of other devices start in an event of their own.
        let mut later = |at_ns, slot| core.at(at_ns, slot, State::AllowedByInstance);
        let started = shared.next(now_ns, |first| first == slot, &mut later);
        if started.is_some() {
            let next = shared.next(now_ns, |_| false, &mut later);
            debug_assert!(next.is_none(), "no other request may start in this event");
        }
        core.shared = Some(shared);
        if let Some(started) = started {
            add(&mut self.waits[1], started.kind, now_ns - started.arrived_ns);
            core.slab[slot].state = State::Issued;
            device(core, slot);
        }
    }

    /// Processes a power failure or the loss of the device: drops all its waiting requests. Its credits stay, because
    /// the provider keeps them.
    pub(crate) fn power_off(&mut self, core: &mut Core) {
        let now_ns = core.now;
        self.own.clear(now_ns);
        if let Some(mut shared) = core.shared.take() {
            shared.forget(self.part, now_ns);
            shared.next(
                now_ns,
                |_| false,
                |at_ns, slot| core.at(at_ns, slot, State::AllowedByInstance),
            );
            core.shared = Some(shared);
        }
    }

    /// Returns the device's own limits as resources, which are busy while a request waits for them.
    pub(crate) fn resources(&self, core: &Core) -> Vec<Resource> {
        self.own.resources(core.now, Some(self.part))
    }

    /// Calls `take` for each of the device's own limits that has burst credits.
    pub(crate) fn stores(&self, now_ns: u64, take: &mut dyn FnMut(Store)) {
        self.own.stores(now_ns, take);
    }

    /// Returns the burst credits left under the device's own limits; see [`Quota::credits_share`].
    pub(crate) fn credits_share(&self, now_ns: u64) -> Option<f64> {
        self.own.credits_share(now_ns)
    }

    /// Returns the waiting times of the device's reads and writes since the start.
    pub(crate) fn phases(&self) -> impl Iterator<Item = Phase> {
        let names = ["waits for the limits of the device", "waits for the limits of the instance"];
        let of_names = names.into_iter().zip(self.waits);
        of_names.flat_map(|(name, waits)| {
            let of_kinds = [Of::Read, Of::Write].into_iter().zip(waits);
            of_kinds.map(move |(of, (total_ns, count))| Phase { name, of, total_ns, count })
        })
    }
}

/// Adds the waiting time of an operation.
fn add(waits: &mut Waits, kind: OpKind, waited_ns: u64) {
    if let OpKind::Read | OpKind::Write = kind {
        let waits = &mut waits[usize::from(kind == OpKind::Write)];
        *waits = (waits.0 + waited_ns, waits.1 + 1);
    }
}
