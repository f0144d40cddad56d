//! Publishers of a load: the due times of messages, and the messages held until they are persisted.

use iodyno_workload::{LogLoad, WhenFull};
use std::collections::VecDeque;

/// A group of consecutive unpersisted messages.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// With a message rate: index of the group's first message in the schedule. Without a rate: time at which all
    /// messages of the group were due, ns.
    first: u64,
    count: u64,
}

/// All simulated publishers of a load, with a common schedule.
#[derive(Debug)]
pub(super) struct Publishers {
    /// Interval between the due times of consecutive messages, ns; `None`: as fast as the log accepts messages.
    gap_ns: Option<f64>,
    room: u64,
    drops: bool,
    start_ns: u64,
    /// Number of scheduled messages processed so far, either published or dropped.
    seen: u64,
    /// Messages that are published but not yet persisted, oldest first.
    held: VecDeque<Run>,
    held_count: u64,
    pub(super) dropped: u64,
    /// Time at which the publishers blocked because of the limit on unpersisted messages, ns; `None` if not
    /// blocked.
    blocked_since_ns: Option<u64>,
    pub(super) blocked_ns: u64,
}

impl Publishers {
    /// Creates the publishers. `room` is the default limit on unpersisted messages, unless the load sets one.
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

    /// Due time of the message with index `number` in the schedule, ns.
    fn due_ns(&self, number: u64, gap_ns: f64) -> u64 {
        self.start_ns + (number as f64 * gap_ns) as u64
    }

    /// Number of scheduled messages whose due time is `now_ns` or earlier.
    fn due(&self, now_ns: u64, gap_ns: f64) -> u64 {
        let Some(passed_ns) = now_ns.checked_sub(self.start_ns) else { return 0 };
        let mut due = (passed_ns as f64 / gap_ns) as u64 + 1;
        // `due_ns` rounds differently from the division above; `due_ns` decides.
        while due > 0 && self.due_ns(due - 1, gap_ns) > now_ns {
            due -= 1;
        }
        due
    }

    /// Publishes due messages up to the limit on unpersisted messages. Returns the number of unpersisted
    /// messages.
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

    /// Number of due messages that are not persisted, including those that blocked publishers have not published
    /// yet.
    pub(super) fn backlog(&self, now_ns: u64) -> u64 {
        let waiting =
            self.gap_ns.map_or(0, |gap_ns| self.due(now_ns, gap_ns).saturating_sub(self.seen));
        self.held_count + if self.drops { 0 } else { waiting }
    }

    /// Due time of the next message, ns; `None` if publishing must wait until earlier messages are persisted.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        let gap_ns = self.gap_ns?;
        (self.held_count < self.room).then(|| self.due_ns(self.seen, gap_ns))
    }

    /// Due time of an unpersisted message, ns; `index` counts from the oldest. Without a message rate, all messages of
    /// a group have the same due time.
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

    /// Marks the oldest `count` unpersisted messages as persisted at `now_ns`. Calls `each` with every latency,
    /// ns, and the number of messages that had it.
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

    /// Ends the load. If the publishers are blocked, the time up to `end_ns` is added to their blocked time.
    pub(super) fn end(&mut self, end_ns: u64) {
        if let Some(since_ns) = self.blocked_since_ns.take() {
            self.blocked_ns += end_ns.saturating_sub(since_ns);
        }
    }
}
