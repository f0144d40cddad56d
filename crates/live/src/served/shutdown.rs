//! Clean shutdown of a served machine, like a computer's: flushes all volumes before the power goes off. (Killing the
//! server acts like a power cut.)
//!
//! Clients no longer wait, so the machine runs ahead of real time until the last flushes have ended.

use super::operations::{Completed, Inner, NUMBER_BITS, NUMBER_MASK, of_volume};
use super::{Live, Sink, deliver};
use crate::counts::{Late, Looks};
use crate::store::UNIT_BYTES;
use iodyno_emulate::{Completion, Machine};
use iodyno_units::{Op, human};

/// Timeout for a flush or for destaging the caches at shutdown, ns of simulated time.
const FLUSH_TIMEOUT_NS: u64 = 3_600_000_000_000;

/// Destages the adapters' caches to the devices. Returns the number of dirty bytes that an error or timeout left
/// behind.
fn drain_caches<S: Sink>(inner: &mut Inner<S>, completed: &mut Completed<S>) -> u64 {
    let dirty_bytes = |machine: &Machine| {
        let adapters = machine.adapters();
        adapters.map_or((0, 0), |of| (of.dirty_bytes - of.refused_bytes, of.refused_bytes))
    };
    if dirty_bytes(&inner.machine).0 == 0 {
        return dirty_bytes(&inner.machine).1;
    }
    let now_ns = inner.machine.now_ns();
    if let Some(recorder) = &mut inner.recorder {
        recorder.drain(now_ns);
    }
    inner.machine.drain_caches();
    let until_ns = inner.machine.now_ns().saturating_add(FLUSH_TIMEOUT_NS);
    let mut steps = 0_u64;
    while let Some(next_ns) = inner.machine.next_event()
        && next_ns < until_ns
    {
        if let Some(done) = step(inner, next_ns) {
            inner.completed(&done, Late::default(), completed);
        }
        steps += 1;
        if steps.is_multiple_of(256) && dirty_bytes(&inner.machine).0 == 0 {
            break;
        }
    }
    let (left, refused) = dirty_bytes(&inner.machine);
    left + refused
}

impl<S: Sink> Live<S> {
    /// Shuts the machine down: flushes all volumes, syncs the backing files to this host's storage, and completes
    /// the record. `worker_of` returns the worker that flushes a volume.
    ///
    /// # Errors
    /// Some data could not be written, or the record could not be completed. The message lists all losses.
    pub fn end(&self, worker_of: impl Fn(u32) -> u32) -> Result<(), String> {
        let mut completed = Vec::new();
        let mut inner = self.lock();
        let now_ns = self.now_ns();
        self.advance(&mut inner, now_ns, Looks::default(), &mut completed);
        let begin_ns = self.input_ns(&inner, now_ns);
        let cached_bytes = drain_caches(&mut inner, &mut completed);
        let begin_ns = begin_ns.max(inner.machine.now_ns());
        // A replay processes these events before the flushes, too.
        while let Some(next_ns) = inner.machine.next_event()
            && next_ns <= begin_ns
        {
            if let Some(done) = step(&mut inner, next_ns) {
                inner.completed(&done, Late::default(), &mut completed);
            }
        }
        let workers: Vec<u32> = (0..self.volumes()).map(worker_of).collect();
        let unflushed = flush_volumes(&mut inner, begin_ns, &workers, &mut completed);
        let mut troubles = Vec::new();
        if cached_bytes > 0 {
            troubles.push(format!(
                "the devices refuse {cached_bytes} dirty bytes of the adapters' cache: these bytes stay in the cache's file, if the cache has one"
            ));
        }
        for Unflushed { volume, why } in unflushed {
            // A protected or empty buffer loses nothing.
            let Inner { stores, volume_of, .. } = &mut *inner;
            let stores = of_volume(stores, volume_of, volume as usize);
            let lost: usize = stores.map(|store| store.volatile_units()).sum();
            if lost > 0 {
                troubles.push(format!(
                    "volume {volume} {why}: up to {} of dirty data in its write buffer is lost, as in a power cut",
                    human::size(lost as u64 * UNIT_BYTES)
                ));
            }
        }
        troubles.extend(end_stores(&mut inner));
        if let Some(recorder) = inner.recorder.take() {
            let (now_ns, hash) = (inner.machine.now_ns(), inner.machine.event_hash());
            troubles.extend(recorder.end(now_ns, hash).err());
        }
        if let Some(mut log) = inner.data_log.take() {
            log.end();
            troubles.extend(log.failure());
        }
        drop(inner);
        deliver(completed);
        if troubles.is_empty() { Ok(()) } else { Err(troubles.join("\n")) }
    }
}

/// Advances the machine to its next event. Returns the completed operation, if the event completes one.
fn step<S: Sink>(inner: &mut Inner<S>, next_ns: u64) -> Option<Completion> {
    let done = inner.machine.next_completion(next_ns);
    inner.settle();
    done
}

/// A volume that could not be flushed.
struct Unflushed {
    volume: u32,
    why: &'static str,
}

/// Flushes all volumes, each by its worker in `workers`. Returns the volumes whose flush failed or timed out.
fn flush_volumes<S: Sink>(
    inner: &mut Inner<S>,
    begin_ns: u64,
    workers: &[u32],
    completed: &mut Completed<S>,
) -> Vec<Unflushed> {
    let mut flushing = Vec::new();
    for (volume, &worker) in (0..).zip(workers) {
        inner.sequence += 1;
        // The last number is never the slot of a client's operation.
        let token = (inner.sequence << NUMBER_BITS) | NUMBER_MASK;
        if let Some(recorder) = &mut inner.recorder {
            recorder.operation(begin_ns, worker, volume, &Op::FLUSH);
        }
        inner.machine.submit(begin_ns, worker, volume, &Op::FLUSH, token);
        flushing.push((volume, token));
    }
    let mut unflushed = Vec::new();
    while !flushing.is_empty()
        && let Some(next_ns) = inner.machine.next_event()
        && next_ns < begin_ns.saturating_add(FLUSH_TIMEOUT_NS)
    {
        let Some(done) = step(inner, next_ns) else { continue };
        match flushing.iter().position(|flush| flush.1 == done.token) {
            Some(at) => {
                let (volume, _) = flushing.remove(at);
                if done.failure.is_some() {
                    unflushed.push(Unflushed { volume, why: "is gone" });
                }
            }
            None => inner.completed(&done, Late::default(), completed),
        }
    }
    let silent = flushing.iter().map(|flush| Unflushed { volume: flush.0, why: "does not answer" });
    unflushed.extend(silent);
    unflushed
}

/// Writes all pending data of the stores to their backing and syncs it. Returns a message for each loss.
fn end_stores<S: Sink>(inner: &mut Inner<S>) -> Vec<String> {
    let Inner { stores, volume_of, machine, .. } = inner;
    let mut troubles = Vec::new();
    if machine.adapters().is_some_and(|adapters| adapters.dirty_bytes == 0) {
        // The content of the caches is now on the devices.
        for cache in stores.iter_mut().skip(machine.system().devices().count()) {
            let emptied = cache.trim_now(0, cache.capacity_bytes());
            troubles.extend(emptied.err().map(|e| e.to_string()));
        }
    }
    for (store, &volume) in stores.iter_mut().zip(volume_of.iter()) {
        // Bytes that the host refuses must not prevent the others from being written.
        let settled = store.settle();
        // Rows of an array that may be inconsistent must be resynchronised before another server serves them.
        let is_array = !machine.system().is_device(volume as u32);
        let is_clean = settled.is_ok() && !machine.has_unflushed_rows(volume as u32);
        let ended = if is_clean || !is_array { store.end() } else { store.sync() };
        troubles.extend(settled.as_ref().err().map(ToString::to_string));
        troubles.extend(
            ended.err().filter(|e| settled.as_ref().err() != Some(e)).map(|e| e.to_string()),
        );
        let lost_bytes = store.stranded_bytes();
        if lost_bytes > 0 {
            troubles.push(format!(
                "volume {volume}: about {lost_bytes} bytes that could not be written are lost"
            ));
        }
    }
    troubles
}
