//! Provides memory for the next request of a connection, immediately or after a wait.

use super::transmission::{POLL_INTERVAL, Work};
use super::{Connection, End, Pipe};
use crate::server::link::{Link, counted_bytes};
use crate::syscalls;
use crate::wire::Command;
use std::sync::Arc;
use std::time::Instant;

impl Connection<'_> {
    /// Whether there is memory for another request, from the connection's own allowance or a grant of the budget.
    #[inline]
    pub(super) fn affords(&self, work: &Work, command: &Command) -> bool {
        let link = &self.start.link;
        let own_bytes = work.out.held_bytes() + counted_bytes(command);
        if !link.granted() && link.owed_bytes() + own_bytes <= link.budget.own_bytes() {
            return true;
        }
        link.set_own_bytes(own_bytes);
        link.budget.acquire(link)
    }

    /// Waits until there is memory for another request. While it waits, sends queued replies.
    #[cold]
    pub(super) fn wait_for_budget(
        &mut self,
        work: &mut Work,
        command: &Command,
    ) -> Result<(), End> {
        work.session.submitted();
        self.flush(work)?;
        work.session.may_block();
        let link = Arc::clone(&self.start.link);
        link.set_own_bytes(counted_bytes(command));
        let waited = self.wait_in_turn(&link);
        if waited.is_err() {
            link.budget.withdraw(&link);
        }
        waited
    }

    fn wait_in_turn(&mut self, link: &Arc<Link>) -> Result<(), End> {
        while !link.budget.acquire_in_turn(link) {
            link.budget.end_stalled();
            if matches!(self.pipe, Pipe::Tls(_)) && link.has_queued() {
                // This send may wait for the client.
                link.budget.step_aside(link);
                self.send_others()?;
                continue;
            }
            self.send_others()?;
            let more = link.fall_asleep(true) && matches!(self.pipe, Pipe::Plain);
            let until = Instant::now() + POLL_INTERVAL;
            let woken = syscalls::wait(self.fd(), false, more, link.waker(), Some(until));
            link.woke_up();
            // If no other thread woke it, the client has disconnected, or the budget ended this connection.
            if woken?.readable || self.stopping() {
                return Err(End::Gone);
            }
        }
        Ok(())
    }
}
