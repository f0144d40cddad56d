//! Publishers of a load: when messages are due, and which of them they hold until they are persisted.

use iodyno_workload::{LogLoad, WhenFull};
use std::collections::VecDeque;

/// Messages that follow one another.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// By a rate: the number of the first in the schedule. Otherwise the time at which all of them were due, ns.
    first: u64,
    count: u64,
}

/// See the file.
#[derive(Debug)]
pub(super) struct Publishers {
    /// Between two messages, ns; None: as many as the log takes.
    gap_ns: Option<f64>,
    room: u64,
    drops: bool,
    start_ns: u64,
    /// Messages of the schedule that were published, dropped or not.
    seen: u64,
    /// Published, and not persisted.
    held: VecDeque<Run>,
    held_count: u64,
    pub(super) dropped: u64,
    /// Since when the publishers wait, ns.
    blocked_since_ns: Option<u64>,
    pub(super) blocked_ns: u64,
}

impl Publishers {
    /// `room` where the load gives none.
    pub(super) fn new(load: &LogLoad, room: u64) -> Self {
        Self {
            gap_ns: load.rate_per_s.map(|rate| 1e9 / rate),
            room: load.backlog.unwrap_or(room),
            drops: load.when_full == WhenFull::Drop,
            start_ns: 0,
            seen: 0,
            held: VecDeque::with_capacity(1024),
            held_count: 0,
            dropped: 0,
            blocked_since_ns: None,
            blocked_ns: 0,
        }
    }

    pub(super) fn start(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    /// When a message of the schedule is due, ns.
    fn due_ns(&self, number: u64, gap_ns: f64) -> u64 {
        self.start_ns + (number as f64 * gap_ns) as u64
    }

    /// Messages of the schedule that are due at `now_ns`.
    fn due(&self, now_ns: u64, gap_ns: f64) -> u64 {
        let Some(passed_ns) = now_ns.checked_sub(self.start_ns) else { return 0 };
        let mut due = (passed_ns as f64 / gap_ns) as u64 + 1;
        // Of two roundings, the one by which a message is due decides.
        while due > 0 && self.due_ns(due - 1, gap_ns) > now_ns {
            due -= 1;
        }
        due
    }

    /// Publishes what is due, as far as there is room; the messages that are held then.
    pub(super) fn publish(&mut self, now_ns: u64) -> u64 {
        let room = self.room - self.held_count;
        let Some(gap_ns) = self.gap_ns else {
            if room > 0 {
                self.held.push_back(Run { first: now_ns, count: room });
                self.held_count += room;
            }
            return self.held_count;
        };
        let due = self.due(now_ns, gap_ns).max(self.seen);
        let count = (due - self.seen).min(room);
        if count > 0 {
            match self.held.back_mut() {
                Some(last) if last.first + last.count == self.seen => last.count += count,
                _ => self.held.push_back(Run { first: self.seen, count }),
            }
            self.held_count += count;
        }
        let over = due - self.seen - count;
        self.seen += count;
        if self.drops {
            self.dropped += over;
            self.seen += over;
        } else if over > 0 {
            let since_ns = self.due_ns(self.seen, gap_ns);
            self.blocked_since_ns.get_or_insert(since_ns);
        } else if let Some(since_ns) = self.blocked_since_ns.take() {
            self.blocked_ns += now_ns.saturating_sub(since_ns);
        }
        self.held_count
    }

    /// Messages that are due and not persisted, held or not.
    pub(super) fn backlog(&self, now_ns: u64) -> u64 {
        let waiting =
            self.gap_ns.map_or(0, |gap_ns| self.due(now_ns, gap_ns).saturating_sub(self.seen));
        self.held_count + if self.drops { 0 } else { waiting }
    }

    /// When the next message is due, ns; None: when one is persisted.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        let gap_ns = self.gap_ns?;
        (self.held_count < self.room).then(|| self.due_ns(self.seen, gap_ns))
    }

    /// Due time of message number `index` of those held, ns, where the schedule gives it; otherwise the time of its run.
    pub(super) fn due_of_held_ns(&self, mut index: u64) -> u64 {
        for run in &self.held {
            if index < run.count {
                return match self.gap_ns {
                    Some(gap_ns) => self.due_ns(run.first + index, gap_ns),
                    None => run.first,
                };
            }
            index -= run.count;
        }
        self.start_ns
    }

    /// The oldest `count` are persisted at `now_ns`: `each` gets a time that passed for messages, ns, and their number.
    pub(super) fn persisted(&mut self, count: u64, now_ns: u64, mut each: impl FnMut(u64, u64)) {
        let mut left = count;
        while left > 0 {
            let Some(run) = self.held.front_mut() else { break };
            let n = run.count.min(left);
            let first = run.first;
            run.count -= n;
            if self.gap_ns.is_some() {
                run.first += n;
            }
            if run.count == 0 {
                self.held.pop_front();
            }
            left -= n;
            match self.gap_ns {
                None => each(now_ns.saturating_sub(first), n),
                Some(gap_ns) => {
                    for number in first..first + n {
                        each(now_ns.saturating_sub(self.due_ns(number, gap_ns)), 1);
                    }
                }
            }
        }
        self.held_count -= count - left;
    }

    /// The load ends: a wait that lasts counts up to then.
    pub(super) fn end(&mut self, end_ns: u64) {
        if let Some(since_ns) = self.blocked_since_ns.take() {
            self.blocked_ns += end_ns.saturating_sub(since_ns);
        }
    }
}
