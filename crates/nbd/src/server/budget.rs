//! Memory of all connections together: payloads that arrive, requests that wait to be answered, and replies that
//! wait to be sent.
//!
//! Each connection has a share of its own ([`Limits::own_bytes`](super::Limits::own_bytes)), of which nothing is
//! counted here: small requests never wait for another connection. What goes beyond it is a *grant* from one
//! budget. Where the budget is spent, a connection reads no further request until there is some; those that wait
//! are served in their order. So two connections never wait for each other: one that waits still sends what it
//! owes its client, and a grant shrinks as answers are taken.
//!
//! A client that takes nothing would keep its grant for ever. While others wait, one whose grant has not shrunk
//! for [`Limits::stall`](super::Limits::stall), by its client's fault, is ended.

use super::later::Link;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Grants are multiples of this, bytes.
const STEP_BYTES: usize = 256 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Budget {
    max_bytes: usize,
    own_bytes: usize,
    stall: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    granted_bytes: usize,
    /// By the connection's number.
    holders: HashMap<u64, Holder>,
    /// Connections that wait for a grant, the first in front.
    waiting: VecDeque<u64>,
}

#[derive(Debug)]
struct Holder {
    link: Weak<Link>,
    bytes: usize,
    /// When the grant was made, or shrank last.
    since: Instant,
}

impl Budget {
    pub(crate) fn new(max_bytes: usize, own_bytes: usize, stall: Duration) -> Self {
        Self { max_bytes, own_bytes, stall, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a connection holds without a grant, bytes.
    pub(crate) fn own_bytes(&self) -> usize {
        self.own_bytes
    }

    /// The grant for what a connection holds. One that is over has no share of its own: it could come again.
    fn wanted_bytes(&self, link: &Link) -> usize {
        let own_bytes = if link.is_closed() { 0 } else { self.own_bytes };
        link.held_bytes().saturating_sub(own_bytes).next_multiple_of(STEP_BYTES)
    }

    /// Grants what the connection holds, the request included that it is about to read. False where that has to
    /// wait; then it is asked again.
    pub(crate) fn acquire(&self, link: &Arc<Link>) -> bool {
        let wanted = self.wanted_bytes(link);
        let mut state = self.state();
        let state = &mut *state;
        let has = state.holders.get(&link.id).map_or(0, |h| h.bytes);
        let first = state.waiting.front().is_none_or(|id| *id == link.id);
        let more = wanted.saturating_sub(has);
        // A request that is larger than all there is goes alone.
        let alone = state.granted_bytes == has && link.owed_bytes() == 0;
        let fits = state.granted_bytes + more <= self.max_bytes || alone;
        if more > 0 && !(first && fits) {
            if !state.waiting.contains(&link.id) {
                state.waiting.push_back(link.id);
            }
            return false;
        }
        state.waiting.retain(|id| *id != link.id);
        if more > 0 {
            state.granted_bytes += more;
            let (link_, since) = (Arc::downgrade(link), Instant::now());
            state.holders.insert(link.id, Holder { link: link_, bytes: wanted, since });
            link.set_granted(true);
        }
        true
    }

    /// Takes back what the connection holds no more.
    pub(crate) fn settle(&self, link: &Link) {
        let wanted = self.wanted_bytes(link);
        let mut state = self.state();
        let state = &mut *state;
        let Some(holder) = state.holders.get_mut(&link.id) else { return };
        if wanted < holder.bytes {
            state.granted_bytes -= holder.bytes - wanted;
            (holder.bytes, holder.since) = (wanted, Instant::now());
        }
        if wanted == 0 {
            state.holders.remove(&link.id);
            link.set_granted(false);
        }
    }

    /// The connection is over. Requests that are still to be answered hold memory until they are, whatever the
    /// budget says.
    pub(crate) fn leave(&self, link: &Arc<Link>) {
        self.state().waiting.retain(|id| *id != link.id);
        let bytes = self.wanted_bytes(link);
        if bytes == 0 {
            self.settle(link);
            return;
        }
        let mut state = self.state();
        let has = state.holders.get(&link.id).map_or(0, |h| h.bytes);
        state.granted_bytes = state.granted_bytes - has + bytes;
        let (since, weak) = (Instant::now(), Arc::downgrade(link));
        state.holders.insert(link.id, Holder { link: weak, bytes, since });
        link.set_granted(true);
        drop(state);
        // What was answered meanwhile did not know of the grant.
        self.settle(link);
    }

    /// Whether requests of connections that are over hold more than there is.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.state().granted_bytes > self.max_bytes
    }

    /// Ends the connection whose client has taken or sent nothing worth a step for longest, if that is too long.
    /// Asked by connections that wait; the first of them looks.
    pub(crate) fn end_stalled(&self, asks: &Link) {
        let state = self.state();
        if state.waiting.front() != Some(&asks.id) {
            return;
        }
        let stalled = state.holders.iter().filter_map(|(id, holder)| {
            let link = holder.link.upgrade()?;
            let waits_for_us = state.waiting.contains(id);
            let by_client = link.waits_for_client(!waits_for_us);
            (by_client && holder.since.elapsed() > self.stall).then_some((holder.since, link))
        });
        if let Some((_, link)) = stalled.min_by_key(|(since, _)| *since) {
            let _ = rustix::net::shutdown(&link.socket, rustix::net::Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::counters::Counters;
    use crate::server::later::Later;
    use crate::wire::{CmdFlags, Command, Kind};
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    const STALL: Duration = Duration::from_secs(3600);

    /// Connections, with their clients, on a budget of four steps; nothing is their own.
    fn connections<const N: usize>() -> [(Arc<Link>, UnixStream); N] {
        let budget = Arc::new(Budget::new(4 * STEP_BYTES, 0, STALL));
        std::array::from_fn(|id| {
            let (ours, client) = UnixStream::pair().unwrap();
            client.set_nonblocking(true).unwrap();
            let counters = Arc::<Counters>::default();
            let link = Link::new(id as u64, ours.into(), true, counters, Arc::clone(&budget));
            (Arc::new(link), client)
        })
    }

    fn gets(link: &Arc<Link>, steps: usize) -> bool {
        link.set_own_bytes(steps * STEP_BYTES);
        link.budget.acquire(link)
    }

    /// Its grant was made, or shrank last, so many times too long ago.
    fn age(link: &Link, stalls: u32) {
        let mut state = link.budget.state();
        state.holders.get_mut(&link.id).unwrap().since -= STALL * stalls;
    }

    fn is_ended(client: &UnixStream) -> bool {
        let mut client = client;
        client.read(&mut [0]).is_ok_and(|n| n == 0)
    }

    /// However small requests are, they don't pass a large one that came before; one that leaves does not stay in
    /// the way.
    #[test]
    fn who_waits_is_served_in_order() {
        let [(holder, _), (large, _), (gone, _), (small, _)] = &connections::<4>();
        assert!(gets(holder, 3) && !gets(large, 2), "one step is left");
        assert!(!gets(gone, 2) && !gets(small, 1), "others came first");
        assert!(gets(holder, 3) && gets(holder, 2), "what is held can be held on");
        holder.settle();
        assert!(!gets(small, 1) && gets(large, 2) && !gets(small, 1));
        gone.close();
        large.set_own_bytes(STEP_BYTES);
        large.settle();
        assert!(gets(small, 1) && !gets(large, 2));
    }

    /// Of those that hold memory by their client's fault it is the one that did nothing for longest.
    #[test]
    fn one_that_stalls_for_longest_is_ended() {
        let [(old, oldest), (new, younger), (waits, _), (second, _)] = &connections::<4>();
        assert!(gets(old, 2) && gets(new, 2) && !gets(waits, 2) && !gets(second, 1));
        let ended = |asks: &Link| {
            old.budget.end_stalled(asks);
            (is_ended(oldest), is_ended(younger))
        };
        assert_eq!(ended(waits), (false, false), "neither stalls");
        age(old, 3);
        age(new, 2);
        assert_eq!(ended(second), (false, false), "the first that waits looks");
        // To shrink is a sign of life; so is to wait for the server.
        old.set_own_bytes(STEP_BYTES);
        old.settle();
        assert!(!gets(new, 3));
        assert_eq!(ended(waits), (false, false));
        assert!(gets(new, 2));
        age(old, 3);
        assert_eq!(ended(waits), (true, false));
    }

    /// Nobody takes an answer of a connection that is over: it is not made, and holds no memory.
    #[test]
    fn answers_of_one_that_is_over_are_not_made() {
        let [(link, _)] = &connections::<1>();
        let command = Command {
            kind: Kind::Read,
            flags: CmdFlags::NONE,
            cookie: 1,
            offset_bytes: 0,
            len_bytes: 4096,
        };
        let later = Later::new(Arc::clone(link), command);
        assert!(link.owed_bytes() > 4096);
        link.close();
        later.fill(|_| panic!("nobody gets it"));
        assert_eq!((link.owed_bytes(), link.has_queued()), (0, false));
    }
}
