//! Queue of replies that are held back until a set time.

use std::collections::BTreeMap;

/// Held replies, ordered by the time at which each may be sent. Replies with the same time are sent in the order in
/// which they were added.
#[derive(Debug)]
pub struct Held<T> {
    replies: BTreeMap<(u64, u64), T>,
    sequence: u64,
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self { replies: BTreeMap::new(), sequence: 0 }
    }
}

impl<T> Held<T> {
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Holds a reply until `until_ns`, on the clock of the caller; `u64::MAX`: until it is released.
    pub fn hold(&mut self, until_ns: u64, reply: T) {
        self.sequence += 1;
        self.replies.insert((until_ns, self.sequence), reply);
    }

    /// Time at which the next reply may be sent, ns. `None` if there is no reply with a set time.
    pub fn next_ns(&self) -> Option<u64> {
        self.replies
            .first_key_value()
            .map(|((at_ns, _), _)| *at_ns)
            .filter(|at_ns| *at_ns < u64::MAX)
    }

    /// Takes the next reply whose time is `now_ns` or earlier; `None` if there is none.
    pub fn take_due(&mut self, now_ns: u64) -> Option<T> {
        let first = self.replies.first_entry()?;
        (first.key().0 <= now_ns).then(|| first.remove())
    }

    /// Releases the replies for which `is_one` returns true: they become due at once.
    pub fn release(&mut self, is_one: impl Fn(&T) -> bool) {
        for ((until_ns, sequence), reply) in std::mem::take(&mut self.replies) {
            let until_ns = if is_one(&reply) { 0 } else { until_ns };
            self.replies.insert((until_ns, sequence), reply);
        }
    }

    /// Takes all replies, in order of their times.
    pub fn take_all(&mut self) -> impl Iterator<Item = T> {
        std::mem::take(&mut self.replies).into_values()
    }
}
