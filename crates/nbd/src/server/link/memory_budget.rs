//! Memory budget of all connections together: arriving payloads, unanswered requests and unsent replies.
//!
//! Each connection may always use its own share ([`Limits::own_bytes`](crate::server::Limits::own_bytes)), which the
//! budget does not count. Memory beyond this share needs a *grant*. While the budget is exhausted, connections with
//! further requests wait in order. They can't deadlock: a waiting connection still sends its pending replies, and a
//! grant shrinks as the client reads them.
//!
//! A client that reads nothing would keep its connection's grant forever. Therefore, while other connections wait for a
//! grant, the server ends a connection that has one and whose client has transferred less than `STEP_BYTES` within
//! [`Limits::stall`](crate::server::Limits::stall).

use super::Link;
use crate::server::Limits;
use crate::syscalls::Waker;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Unit in which memory is granted, bytes.
pub(super) const STEP_BYTES: usize = 256 << 10;
/// Maximum time that a connection keeps a large unused buffer.
pub(crate) const TRIM_AFTER: Duration = Duration::from_millis(50);
/// Minimum interval between two checks for stalled connections. Waiting connections do the checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Memory budget that all connections of a server share, beyond each connection's own allowance.
#[derive(Debug)]
pub(crate) struct Budget {
    max_bytes: usize,
    own_bytes: usize,
    stall: Duration,
    state: Mutex<State>,
    /// Waker of the accepting thread, which trims buffers.
    waker: Arc<Waker>,
    /// Whether some connection may have a large unused buffer.
    to_trim: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    granted_bytes: usize,
    /// Connections that have a grant, keyed by connection number.
    holders: HashMap<u64, Holder>,
    /// Connections that wait for a grant, the first in line first.
    waiting: VecDeque<Waiter>,
    /// Time of the last check for stalled connections.
    checked_at: Option<Instant>,
}

#[derive(Debug)]
struct Waiter {
    /// Number of the connection, unique in the server.
    id: u64,
    /// Whether the connection's thread may be blocked in a send, so that later connections may overtake it.
    sending: bool,
}

#[derive(Debug)]
struct Holder {
    link: Weak<Link>,
    bytes: usize,
    /// Time of the first check that found the connection waiting for its client, and [`Link::moved_bytes`] at that
    /// time. `None` if the connection does not wait. Restarts whenever the client has moved at least [`STEP_BYTES`].
    slow: Option<(Instant, isize)>,
    /// Whether [`Budget::end_stalled`] has ended the connection.
    ended: bool,
}

impl State {
    /// Sets the grant of a connection to `bytes`; 0 removes it.
    fn set_grant(&mut self, link: &Arc<Link>, bytes: usize) {
        if !self.holders.contains_key(&link.id) && bytes > 0 {
            let holder = Holder { link: Arc::downgrade(link), bytes: 0, slow: None, ended: false };
            self.holders.insert(link.id, holder);
            link.set_granted(true);
        }
        self.change_grant(link, bytes);
    }

    /// Like [`Self::set_grant`], but does nothing if the connection has no grant.
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

    /// Reports that a connection may have a large unused buffer. The accepting thread trims the buffers of all
    /// connections [`TRIM_AFTER`] after the first report.
    pub(crate) fn ask_to_trim(&self) {
        if !self.to_trim.load(SeqCst) && !self.to_trim.swap(true, SeqCst) {
            self.waker.wake();
        }
    }

    pub(crate) fn has_to_trim(&self) -> bool {
        self.to_trim.load(SeqCst)
    }

    /// Clears the request to trim. Called before all connections are trimmed, so that later requests are not
    /// lost.
    pub(crate) fn begin_to_trim(&self) {
        self.to_trim.store(false, SeqCst);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory that each connection may use without a grant, bytes.
    pub(crate) fn own_bytes(&self) -> usize {
        self.own_bytes
    }

    /// Grant that a connection needs for its present memory, bytes. A closed connection has no allowance of its
    /// own, since its client may have reconnected. Must be called under the lock, because an outdated value could
    /// undo another thread's grant.
    fn wanted_bytes(&self, link: &Link) -> usize {
        let own_bytes = if link.is_closed() { 0 } else { self.own_bytes };
        link.held_bytes().saturating_sub(own_bytes).next_multiple_of(STEP_BYTES)
    }

    /// Requests a grant for the connection's memory, including the request that it is about to read. Returns
    /// false if the connection must wait by [`Self::acquire_in_turn`].
    pub(crate) fn acquire(&self, link: &Arc<Link>) -> bool {
        self.take(&mut self.state(), link)
    }

    /// Like [`Self::acquire`], for a connection that repeats the call until it gets its grant. The first call
    /// puts the connection in the line of waiting ones; [`Self::withdraw`] removes it.
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
            // A request larger than the whole budget runs alone.
            let alone = state.granted_bytes == has && link.owed_bytes() == 0;
            let fits = state.granted_bytes + (wanted - has) <= self.max_bytes || alone;
            if !(first && fits) {
                return false;
            }
        }
        state.set_grant(link, wanted);
        true
    }

    /// Announces that a waiting connection begins a send, which a slow client may block. Until the connection requests
    /// its grant again, later connections may overtake it. It keeps its place in the line.
    pub(crate) fn step_aside(&self, link: &Link) {
        let mut state = self.state();
        if let Some(waiter) = state.waiting.iter_mut().find(|w| w.id == link.id) {
            waiter.sending = true;
        }
    }

    /// Removes the connection from the line of waiting ones.
    pub(crate) fn withdraw(&self, link: &Link) {
        self.state().waiting.retain(|w| w.id != link.id);
    }

    /// Takes back the part of a grant that the connection no longer needs.
    pub(crate) fn settle(&self, link: &Link) {
        let mut state = self.state();
        let wanted = self.wanted_bytes(link);
        if state.holders.get(&link.id).is_some_and(|h| wanted < h.bytes) {
            state.change_grant(link, wanted);
        }
    }

    /// Removes a closed connection from the line of waiting ones. Its unanswered requests count against the
    /// budget until they are answered, even if the budget is exceeded.
    pub(crate) fn leave(&self, link: &Arc<Link>) {
        let mut state = self.state();
        state.waiting.retain(|w| w.id != link.id);
        let bytes = self.wanted_bytes(link);
        state.set_grant(link, bytes);
        drop(state);
        // Answers made in between did not see the grant.
        self.settle(link);
    }

    /// Whether the granted memory exceeds the budget, because of unanswered requests of closed connections.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.state().granted_bytes > self.max_bytes
    }

    /// Ends the connection whose client has made no progress for the longest time, if that exceeds
    /// [`Limits::stall`]. Called by waiting connections.
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

    /// The accounting stays correct if another thread's reply releases memory while the connection's thread gets
    /// a grant.
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

    /// Connections get grants in order. A connection that is sending is passed over, but keeps its place in the order.
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
        // Memory suffices for both waiting connections, and the first is back.
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

    /// A reply to a closed connection is not built, and uses no memory.
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
