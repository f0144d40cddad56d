//! Priority queue of the times at which workers are due to issue their next operations.
//!
//! A winner tree: the leaves are the workers, and each node above holds the earlier of its two children. Reading the
//! earliest time is one load. A change propagates up one path, and stops where nothing changes. Among workers that are
//! due at the same time the one with the lowest number is first, so the order is deterministic.

/// Due time of a worker that has nothing to do until a completion.
pub(super) const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    due_ns: u64,
    worker: u32,
}

/// Priority queue of the times at which workers are due to issue operations.
#[derive(Clone, Debug)]
pub(super) struct DueQueue {
    /// Binary tree of entries: the root is at index 1, the children of `i` at `2 i` and `2 i + 1`, the leaves
    /// (workers) in the second half.
    tree: Box<[Entry]>,
    leaves: usize,
}

impl DueQueue {
    /// Creates a queue for `workers` workers, none of which is due.
    pub(super) fn new(workers: usize) -> Self {
        let leaves = workers.max(1).next_power_of_two();
        let mut tree = vec![Entry { due_ns: NEVER, worker: 0 }; 2 * leaves].into_boxed_slice();
        for (number, leaf) in tree[leaves..].iter_mut().enumerate() {
            leaf.worker = number as u32;
        }
        for i in (1..leaves).rev() {
            tree[i] = tree[2 * i];
        }
        Self { tree, leaves }
    }

    /// Due time and number of the worker that is due first.
    #[inline]
    pub(super) fn first(&self) -> (u64, usize) {
        let first = self.tree[1];
        (first.due_ns, first.worker as usize)
    }

    #[inline]
    pub(super) fn set(&mut self, worker: usize, due_ns: u64) {
        let mut i = self.leaves + worker;
        if self.tree[i].due_ns != due_ns {
            self.tree[i].due_ns = due_ns;
            while i > 1 {
                i /= 2;
                let (left, right) = (self.tree[2 * i], self.tree[2 * i + 1]);
                let first = if right.due_ns < left.due_ns { right } else { left };
                if self.tree[i] == first {
                    break;
                }
                self.tree[i] = first;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng::{below, stream};

    /// Compares the queue's result with a linear search for the minimum.
    #[test]
    fn the_first_is_the_earliest_and_of_equals_the_lowest() {
        for workers in [1, 2, 3, 8, 33] {
            let mut random = stream(1, "dues", workers as u64);
            let mut queue = DueQueue::new(workers);
            let mut plain = vec![NEVER; workers];
            for _ in 0..2000 {
                let worker = below(&mut random, workers as u64) as usize;
                let due_ns = match below(&mut random, 4) {
                    0 => NEVER,
                    _ => below(&mut random, 20),
                };
                queue.set(worker, due_ns);
                plain[worker] = due_ns;
                let expected = plain.iter().copied().zip(0..).min();
                assert_eq!(Some(queue.first()), expected, "{plain:?}");
            }
        }
    }
}
