//! A snapshot of the current values: taken at once under the lock, a reference for each leaf, and encoded piece by piece. What
//! is changed in the log later it keeps alone; a snapshot for which there is no memory any more ends.

use crate::memory::{Charge, Waits};
use crate::shared::{Core, Shared};
use crate::slice::Slice;
use crate::wanted::Wanted;
use iodyno_msglog::protocol::{ErrorCode, Reply, ServerError};
use iodyno_msglog::state::Leaf;
use iodyno_msglog::{Message, MessageKind};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Memory of a leaf, and of a topic, without the values, bytes.
const LEAF_BYTES: u64 = 32 << 10;
const TOPIC_BYTES: usize = 512;
/// Values that a snapshot may keep without a charge, bytes.
const FREE_BYTES: usize = 64 << 10;
/// One that is being read goes on without memory for so long.
const PATIENCE: Duration = Duration::from_secs(2);

/// A topic, and its values.
type Topic = (Box<str>, VecDeque<Leaf>);

/// See the file.
pub(crate) struct Snapshot {
    /// All messages below this number are in it.
    pub(crate) next: u64,
    /// Those that are not encoded yet.
    topics: VecDeque<Topic>,
    wanted: Wanted,
    /// The next value of the first leaf.
    value: usize,
    pub(crate) count: u64,
    /// Bytes of values that had been superseded when it was taken, and the most that it can keep of what was later.
    superseded_bytes: u64,
    keeps_most_bytes: u64,
    /// Memory of the references.
    own_bytes: usize,
    charge: Charge,
    /// There is not enough memory since then.
    short: Option<(Instant, Waits)>,
}

impl Snapshot {
    pub(crate) fn take(core: &Core, shared: &Shared, wanted: Wanted) -> Result<Self, ServerError> {
        let state = shared.log.state();
        let is_wanted = |topic: &&str| wanted.takes_topic(topic);
        // References of many topics are memory before anything is superseded.
        let mut charge = Charge::none(&core.memory.snapshots);
        let own_bytes = state.topics().filter(is_wanted).count() * TOPIC_BYTES;
        if !charge.resize(own_bytes.saturating_sub(FREE_BYTES)) {
            return Err(no_memory());
        }
        let topics: VecDeque<Topic> = state
            .topics()
            .filter(is_wanted)
            .map(|topic| (topic.into(), state.leaves(topic).cloned().collect()))
            .collect();
        let leaves: usize = topics.iter().map(|(_, leaves)| leaves.len()).sum();
        Ok(Self {
            next: shared.log.persisted(),
            topics,
            wanted,
            value: 0,
            count: 0,
            superseded_bytes: state.superseded_bytes(),
            keeps_most_bytes: state.value_bytes() + leaves as u64 * LEAF_BYTES,
            own_bytes,
            charge,
            short: None,
        })
    }

    /// Charges what it keeps by now.
    ///
    /// # Errors
    /// There has been no memory for it for a time.
    pub(crate) fn charge(&mut self, core: &Core) -> Result<(), ServerError> {
        let superseded = core.superseded_bytes.load(Ordering::Relaxed);
        let kept = superseded.saturating_sub(self.superseded_bytes).min(self.keeps_most_bytes);
        let bytes = (self.own_bytes + kept as usize).saturating_sub(FREE_BYTES);
        if self.charge.resize(bytes) {
            self.short = None;
            return Ok(());
        }
        let part = &core.memory.snapshots;
        let (since, _) = self.short.get_or_insert_with(|| (Instant::now(), part.wait()));
        if since.elapsed() > PATIENCE { Err(no_memory()) } else { Ok(()) }
    }

    /// Encodes values, until about `bytes_max` are there, or a slice of work is done. False: all of them were encoded.
    pub(crate) fn advance(
        &mut self,
        core: &Core,
        out: &mut Vec<u8>,
        slice: &mut Slice<'_>,
    ) -> Result<bool, ServerError> {
        self.charge(core)?;
        while let Some((topic, leaves)) = self.topics.front_mut() {
            let Some(leaf) = leaves.front() else {
                self.topics.pop_front();
                continue;
            };
            let Ok(_pass) = slice.next() else { return Ok(true) };
            slice.spends(leaf.len() as u64);
            for (key, value) in leaf.iter().skip(self.value) {
                if out.len() >= core.limits.send_bytes {
                    return Ok(true);
                }
                self.value += 1;
                let message = Message {
                    kind: MessageKind::Publish,
                    publisher: 0,
                    sequence: 0,
                    time_ns: value.time_ns,
                    topic,
                    key,
                    body: &value.body,
                };
                let mut steps = 0;
                if self.wanted.matches(value.number, &message, &mut steps)? {
                    Reply::Value { number: value.number, message }.encode(out);
                    self.count += 1;
                }
                if steps > 0 && slice.spends(steps) {
                    return Ok(true);
                }
            }
            self.value = 0;
            leaves.pop_front();
        }
        Ok(false)
    }
}

pub(crate) fn no_memory() -> ServerError {
    let words = "the server's memory for snapshots is spent: they keep values that are overwritten while their clients do not read; read faster, or by topic";
    ServerError::new(ErrorCode::Memory, 0, words)
}
