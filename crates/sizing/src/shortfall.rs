//! Decides whether a trial met the demand, and if not, why.

use crate::demand::{Demand, Limit};
use crate::simulate::{HEADS, Measured};
use iodyno_run::explain::Share;

/// Maximum utilisation of a resource at a sustainable rate. Above it, a buffer may hide an overload for a while. Does
/// not apply to disk heads ([`HEADS`]), nor to resources that are only occupied while others work ([`Share::held`]).
const BUSY_MAX: f64 = 0.98;
/// Minimum completed rate, as a fraction of the offered rate. Random arrivals vary by about 1 %.
const COMPLETED_SHARE: f64 = 0.97;

/// Why a trial did not meet the demand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shortfall<'a> {
    /// This write buffer or write cache fills, because writes arrive faster than they leave.
    Fills(&'a str),
    /// The system completed only this fraction of the offered rate.
    Slow(f64),
    /// Response times exceed this limit.
    Late(Limit),
    /// This resource is busy for so much of the time that the rate is not sustainable.
    Busy(&'a Share),
    /// The queue grew throughout the window, so that the rate is not sustainable.
    QueueGrows,
}

impl Measured {
    /// Why the system did not meet the demand at this rate; `None` if it did.
    pub(crate) fn shortfall(&self, rate_iops: f64, demand: &Demand) -> Option<Shortfall<'_>> {
        if let Some(store) = &self.fills {
            return Some(Shortfall::Fills(store));
        }
        if self.iops < COMPLETED_SHARE * rate_iops {
            return Some(Shortfall::Slow(self.iops / rate_iops));
        }
        let is_late = |limit: &Limit| self.tail_ns(limit).is_none_or(|ns| ns > limit.ns as f64);
        if let Some(limit) = demand.all_limits().find(is_late) {
            return Some(Shortfall::Late(limit));
        }
        // Neither shows an overload by its utilisation, so the queue decides.
        let is_exempt = |share: &Share| share.held || share.name.starts_with(HEADS);
        let busy = self.shares.iter().find(|share| !is_exempt(share) && share.busy > BUSY_MAX);
        if let Some(share) = busy {
            return Some(Shortfall::Busy(share));
        }
        let is_hidden = |s: &Share| s.name.starts_with(HEADS) || s.held && s.busy > BUSY_MAX;
        (self.queue_grows && self.shares.iter().any(is_hidden)).then_some(Shortfall::QueueGrows)
    }
}
