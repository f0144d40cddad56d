//! A snapshot of the current values. It is taken atomically under the lock, as references to leaves (blocks of values),
//! and encoded piece by piece. Values superseded in the meantime stay in memory only because of the snapshot. If the
//! memory for them runs out, the snapshot ends with an error.

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

/// Estimated memory of a leaf (a block of a topic's values) without its values, bytes. The next constant,
/// [`TOPIC_BYTES`], is that of a topic.
const LEAF_BYTES: u64 = 32 << 10;
const TOPIC_BYTES: usize = 512;
/// Memory that a snapshot may use without a reservation, bytes.
const FREE_BYTES: usize = 64 << 10;
/// Maximum time for which a snapshot continues without the memory reservation that it needs.
const PATIENCE: Duration = Duration::from_secs(2);

/// A topic and the leaves (blocks) of its values.
type Topic = (Box<str>, VecDeque<Leaf>);

/// A snapshot of the current values that is being sent.
pub(crate) struct Snapshot {
    /// Number of the first message that the snapshot does not include.
    pub(crate) next: u64,
    /// Topics that have not been completely encoded.
    topics: VecDeque<Topic>,
    wanted: Wanted,
    /// Index of the next value to encode in the first leaf.
    value: usize,
    pub(crate) count: u64,
    /// Total size of superseded values in the log's state when the snapshot was taken, bytes. The next field,
    /// `keeps_most_bytes`, limits the values superseded later that the snapshot can keep alive.
    superseded_bytes: u64,
    keeps_most_bytes: u64,
    /// Memory used by the snapshot's references to topics, bytes.
    own_bytes: usize,
    charge: Charge,
    /// Time since which memory has been short, with the registration as waiting; `None` if there is enough memory.
    short: Option<(Instant, Waits)>,
}

impl Snapshot {
    pub(crate) fn take(core: &Core, shared: &Shared, wanted: Wanted) -> Result<Self, ServerError> {
        let state = shared.log.state();
        let is_wanted = |topic: &&str| wanted.takes_topic(topic);
        // References to many topics take memory even before anything is superseded.
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

    /// Adjusts the reservation to the memory that the snapshot currently keeps alive.
    ///
    /// # Errors
    /// Memory has been short for longer than [`PATIENCE`].
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

    /// Encodes values until `out` is full ([`crate::Limits::send_bytes`]) or the time slice ends. Returns false
    /// once all values are encoded.
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
    let words = "the server's memory for snapshots is used up: a snapshot keeps overwritten values until its client has read them; read faster, or take a snapshot per topic";
    ServerError::new(ErrorCode::Memory, 0, words)
}
