//! The memory budget of all connections together: payloads that arrive, requests that wait to be answered, and
//! replies that wait to be sent.
//!
//! Each connection has a share of its own ([`Limits::own_bytes`](crate::server::Limits::own_bytes)), of which nothing is
//! counted here: small requests never wait for another connection. What goes beyond it is a *grant* from one
//! budget. Where the budget is spent, a connection reads no further request until there is some; those that wait
//! are served in their order. So two connections never wait for each other: one that waits still sends what it
//! owes its client, and a grant shrinks as answers are taken.
//!
//! A client that takes nothing would keep its grant for ever. While connections wait, one that holds a grant and whose
//! client has taken and sent less than a step for [`Limits::stall`](crate::server::Limits::stall) is ended. A connection
//! without a grant counts nothing for that, and takes no lock.

use super::Link;
use crate::server::Limits;
use crate::syscalls::Waker;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Grants are multiples of this, bytes.
pub(super) const STEP_BYTES: usize = 256 << 10;
/// A connection keeps a large buffer that it no longer needs for this long at most.
pub(crate) const TRIM_AFTER: Duration = Duration::from_millis(50);
/// Interval at which waiting connections check for stalled ones, all of them together.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// The budget; see the module.
#[derive(Debug)]
pub(crate) struct Budget {
    max_bytes: usize,
    own_bytes: usize,
    stall: Duration,
    state: Mutex<State>,
    /// Wakes the acceptor.
    waker: Arc<Waker>,
    /// A connection has a large buffer that it may no longer need.
    to_trim: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    granted_bytes: usize,
    /// By the connection's number.
    holders: HashMap<u64, Holder>,
    /// Connections that wait for a grant, the first in front.
    waiting: VecDeque<Waiter>,
    /// When a waiting connection last checked for stalled ones.
    checked_at: Option<Instant>,
}

#[derive(Debug)]
struct Waiter {
    /// The connection's number.
    id: u64,
    /// Its thread may be blocked in a send: those behind it do not wait for it.
    sending: bool,
}

#[derive(Debug)]
struct Holder {
    link: Weak<Link>,
    bytes: usize,
    /// It waits for its client: the time of the first check that found it so, and [`Link::moved_bytes`] then. A
    /// check that finds a step more starts again.
    slow: Option<(Instant, isize)>,
    /// [`Budget::end_stalled`] ended it.
    ended: bool,
}

impl State {
    /// Sets the grant of a connection.
    fn set_grant(&mut self, link: &Arc<Link>, bytes: usize) {
        if !self.holders.contains_key(&link.id) && bytes > 0 {
            let holder = Holder { link: Arc::downgrade(link), bytes: 0, slow: None, ended: false };
            self.holders.insert(link.id, holder);
            link.set_granted(true);
        }
        self.change_grant(link, bytes);
    }

    /// As [`Self::set_grant`], if the connection has a grant.
    fn change_grant(&mut self, link: &Link, bytes: usize) {
        let Some(holder) = self.holders.get_mut(&link.id) else { return };
        self.granted_bytes = self.granted_bytes - holder.bytes + bytes;
        holder.bytes = bytes;
        if bytes == 0 {
            self.holders.remove(&link.id);
            link.set_granted(false);
        }
    }
}

impl Budget {
    pub(crate) fn new(limits: &Limits, waker: Arc<Waker>) -> Self {
        let Limits { memory_bytes: max_bytes, own_bytes, stall, .. } = *limits;
        let (state, to_trim) = (Mutex::default(), AtomicBool::new(false));
        Self { max_bytes, own_bytes, stall, state, waker, to_trim }
    }

    /// A connection has a large buffer that it may no longer need. The acceptor trims all connections,
    /// [`TRIM_AFTER`] after the first call.
    pub(crate) fn ask_to_trim(&self) {
        if !self.to_trim.load(SeqCst) && !self.to_trim.swap(true, SeqCst) {
            self.waker.wake();
        }
    }

    pub(crate) fn has_to_trim(&self) -> bool {
        self.to_trim.load(SeqCst)
    }

    /// The acceptor is about to trim all connections. A connection that has a large buffer later requests it
    /// again.
    pub(crate) fn begin_to_trim(&self) {
        self.to_trim.store(false, SeqCst);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that a connection may hold without a grant.
    pub(crate) fn own_bytes(&self) -> usize {
        self.own_bytes
    }

    /// The grant for what a connection holds. A closed one has no share of its own: its client could connect
    /// again. Called under the lock: a value that was computed before it could undo a grant that another thread
    /// made meanwhile.
    fn wanted_bytes(&self, link: &Link) -> usize {
        let own_bytes = if link.is_closed() { 0 } else { self.own_bytes };
        link.held_bytes().saturating_sub(own_bytes).next_multiple_of(STEP_BYTES)
    }

    /// Grants what the connection holds, the request included that it is about to read. False where that has to
    /// wait; then the connection calls [`Self::acquire_in_turn`].
    pub(crate) fn acquire(&self, link: &Arc<Link>) -> bool {
        self.take(&mut self.state(), link)
    }

    /// As [`Self::acquire`], for a connection that calls it until it gets its grant. From the first call on it
    /// waits in line; [`Self::withdraw`] takes it out.
    pub(crate) fn acquire_in_turn(&self, link: &Arc<Link>) -> bool {
        let mut state = self.state();
        match state.waiting.iter_mut().find(|w| w.id == link.id) {
            Some(waiter) => waiter.sending = false,
            None => state.waiting.push_back(Waiter { id: link.id, sending: false }),
        }
        let taken = self.take(&mut state, link);
        if taken {
            state.waiting.retain(|w| w.id != link.id);
        }
        taken
    }

    fn take(&self, state: &mut State, link: &Arc<Link>) -> bool {
        let wanted = self.wanted_bytes(link);
        let has = state.holders.get(&link.id).map_or(0, |h| h.bytes);
        if wanted > has {
            let first = state.waiting.iter().find(|w| !w.sending).is_none_or(|w| w.id == link.id);
            // A request that is larger than the whole budget goes alone.
            let alone = state.granted_bytes == has && link.owed_bytes() == 0;
            let fits = state.granted_bytes + (wanted - has) <= self.max_bytes || alone;
            if !(first && fits) {
                return false;
            }
        }
        state.set_grant(link, wanted);
        true
    }

    /// A connection that waits is about to send, and its client may block that: until the connection requests
    /// its grant again, those behind it need not wait for it. It keeps its place in the line.
    pub(crate) fn step_aside(&self, link: &Link) {
        let mut state = self.state();
        if let Some(waiter) = state.waiting.iter_mut().find(|w| w.id == link.id) {
            waiter.sending = true;
        }
    }

    /// The connection no longer waits.
    pub(crate) fn withdraw(&self, link: &Link) {
        self.state().waiting.retain(|w| w.id != link.id);
    }

    /// Takes back what the connection no longer holds.
    pub(crate) fn settle(&self, link: &Link) {
        let mut state = self.state();
        let wanted = self.wanted_bytes(link);
        if state.holders.get(&link.id).is_some_and(|h| wanted < h.bytes) {
            state.change_grant(link, wanted);
        }
    }

    /// The connection is over. Requests that are still to be answered hold memory until they are, whatever the
    /// budget is.
    pub(crate) fn leave(&self, link: &Arc<Link>) {
        let mut state = self.state();
        state.waiting.retain(|w| w.id != link.id);
        let bytes = self.wanted_bytes(link);
        state.set_grant(link, bytes);
        drop(state);
        // Answers that were made meanwhile did not know of the grant.
        self.settle(link);
    }

    /// Whether requests of closed connections hold more than the budget.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.state().granted_bytes > self.max_bytes
    }

    /// Ends the connection whose client has taken and sent less than a step for longest, if that is too long.
    /// Called by connections that wait.
    pub(crate) fn end_stalled(&self) {
        if let Some(link) = self.find_stalled(Instant::now()) {
            let _ = rustix::net::shutdown(&link.socket, rustix::net::Shutdown::Both);
        }
    }

    fn find_stalled(&self, now: Instant) -> Option<Arc<Link>> {
        let mut state = self.state();
        let state = &mut *state;
        if state.checked_at.is_some_and(|at| now.saturating_duration_since(at) < CHECK_INTERVAL) {
            return None;
        }
        state.checked_at = Some(now);
        let waiting: HashSet<u64> = state.waiting.iter().map(|w| w.id).collect();
        let mut stalled: Option<(Instant, &mut Holder, Arc<Link>)> = None;
        for (id, holder) in state.holders.iter_mut().filter(|(_, h)| !h.ended) {
            let Some(link) = holder.link.upgrade() else { continue };
            if !link.waits_for_client(!waiting.contains(id)) {
                holder.slow = None;
                continue;
            }
            let moved = link.moved_bytes();
            match holder.slow {
                Some((since, then)) if moved.wrapping_sub(then) < STEP_BYTES as isize => {
                    let too_long = now.saturating_duration_since(since) > self.stall;
                    if too_long && stalled.as_ref().is_none_or(|(longest, ..)| since < *longest) {
                        stalled = Some((since, holder, link));
                    }
                }
                _ => holder.slow = Some((now, moved)),
            }
        }
        let (_, holder, link) = stalled?;
        holder.ended = true;
        Some(link)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Counters;
    use crate::server::deferred_reply::DeferredReply;
    use crate::wire::{CmdFlags, Command, Kind};

    fn budget() -> Arc<Budget> {
        let limits = Limits { memory_bytes: 4 * STEP_BYTES, own_bytes: 0, ..Limits::default() };
        Arc::new(Budget::new(&limits, Arc::new(Waker::new().unwrap())))
    }

    fn link(id: u64, budget: &Arc<Budget>) -> Arc<Link> {
        let (socket, _) = std::os::unix::net::UnixStream::pair().unwrap();
        let counters = Arc::<Counters>::default();
        Arc::new(Link::new(id, socket.into(), true, counters, Arc::clone(budget)))
    }

    /// Another thread's answer settles while the connection's thread gets a grant for its next request.
    #[test]
    fn a_grant_outlasts_what_was_true_before_it() {
        let link = link(1, &budget());
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(SeqCst) {
                    link.budget.settle(&link);
                }
            });
            let kept = (0..200_000).all(|_| {
                link.set_own_bytes(1);
                assert!(link.budget.acquire(&link));
                std::hint::spin_loop();
                let kept = link.budget.state().granted_bytes == STEP_BYTES;
                link.keep_own_bytes(0);
                kept
            });
            over.store(true, SeqCst);
            assert!(kept);
        });
        assert_eq!(link.budget.state().granted_bytes, 0);
    }

    /// Connections get grants in their order. One that sends is passed over, and keeps its place.
    #[test]
    fn a_connection_that_sends_lets_the_others_go_first() {
        let budget = budget();
        let [holds, sends, waits] = [1, 2, 3].map(|id| link(id, &budget));
        holds.set_own_bytes(2 * STEP_BYTES);
        assert!(budget.acquire(&holds));
        for link in [&sends, &waits] {
            link.set_own_bytes(3 * STEP_BYTES);
            assert!(!budget.acquire_in_turn(link));
        }
        waits.set_own_bytes(STEP_BYTES);
        assert!(!budget.acquire_in_turn(&waits));
        budget.step_aside(&sends);
        assert!(budget.acquire_in_turn(&waits));
        // Memory for both that wait now, and the first of them has come back.
        assert!(!budget.acquire_in_turn(&sends));
        waits.set_own_bytes(2 * STEP_BYTES);
        assert!(!budget.acquire(&waits));
        assert!(!budget.acquire_in_turn(&waits));
        holds.keep_own_bytes(0);
        assert!(!budget.acquire_in_turn(&waits));
        assert!(budget.acquire_in_turn(&sends));
        budget.withdraw(&waits);
        sends.keep_own_bytes(STEP_BYTES);
        assert!(budget.acquire(&waits));
    }

    /// An answer of a closed connection is not made, and holds no memory.
    #[test]
    fn answers_of_one_that_is_over_are_not_made() {
        let link = link(1, &budget());
        let command = Command {
            kind: Kind::Read,
            flags: CmdFlags::NONE,
            cookie: 1,
            offset_bytes: 0,
            len_bytes: 4096,
        };
        let later = DeferredReply::new(Arc::clone(&link), command);
        assert!(link.owed_bytes() > 4096);
        link.close();
        later.fill(|_| panic!("the answer must not be made"));
        assert_eq!((link.owed_bytes(), link.has_queued()), (0, false));
    }
}
