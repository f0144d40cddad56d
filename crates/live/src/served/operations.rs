//! Operations in the machine, and their bytes. The bytes of a write are copied when it is submitted; the machine's
//! content events then move the copy to a buffer or the medium. All times in this module are simulated.

use super::array_bytes::ArrayBytes;
use super::attached::Losses;
use super::{ArrayFolder, Payload, Sink};
use crate::counts::{Counts, Late, SlowOp};
use crate::data_log::DataLog;
use crate::interface_fault::{Held, InterfaceFaults, Met};
use crate::record::Recorder;
use crate::store::{self, ReadError, Store, UNIT_BYTES};
use iodyno_emulate::spec::Part;
use iodyno_emulate::{Completion, ContentEvent, Fault, Machine, PartId, System};
use iodyno_units::{IoError, Op, OpKind};

/// Width in bits of a token's low part, the index in the table of outstanding operations. A sequence number in the
/// bits above makes tokens unique, because a write buffer may still contain data of an operation acknowledged long
/// ago.
pub(super) const NUMBER_BITS: u32 = 20;
pub(super) const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

/// Lower bound of `stranded_bytes_max`, bytes. It applies if the volume's cache is smaller or of unknown size.
const STRANDED_BYTES_MIN: u64 = 1 << 20;

/// An outstanding operation on the emulated machine.
#[derive(Debug)]
pub(super) struct Waiting<S> {
    pub(super) sink: S,
    pub(super) token: u64,
    pub(super) worker: u32,
    pub(super) volume: u32,
    pub(super) op: Op,
    /// Number of times that the operation was repeated because data of a member turned out to be corrupt.
    pub(super) repeats: u32,
    /// Simulated time at which the operation was submitted, ns.
    submitted_ns: u64,
    /// Whether the store keeps the operation's data until the operation completes.
    holds: bool,
    /// Error that the store returned when it read or accepted the operation's data.
    pub(super) failed: Option<IoError>,
    /// Fault at the interface to apply when the operation completes: it changes the data of a read, or delays the
    /// reply.
    met: Option<Met>,
}

#[derive(Debug)]
pub(super) struct Inner<S> {
    pub(super) machine: Machine,
    /// Stores of the devices, then those of the adapters' caches, indexed by component number. Empty if content
    /// is not stored.
    pub(super) stores: Vec<Store>,
    /// Number of devices. Devices have the lowest component numbers.
    pub(super) devices: usize,
    /// Outstanding operations; the index is the low part of the operation's token.
    pub(super) waiting: Vec<Option<Waiting<S>>>,
    free: Vec<u32>,
    pub(super) sequence: u64,
    /// Simulated time of the latest submission or fault, ns; no later submission may have an earlier time.
    pub(super) submitted_ns: u64,
    /// For each volume, whether its device rebuilds unreadable units from parity.
    rebuilds: Vec<bool>,
    /// For each volume, the limit on stranded bytes (refused by the host and kept in memory) above which the volume
    /// fails writes.
    stranded_bytes_max: Vec<u64>,
    /// Message about the first failed write to a backing file or memory.
    pub(super) trouble: Option<String>,
    changes: Vec<ContentEvent>,
    /// Data in flight between hosts and members of arrays.
    pub(super) arrays: ArrayBytes,
    /// Folder of each array, in which changes of the array's state are saved.
    pub(super) folders: Vec<(PartId, ArrayFolder)>,
    /// For each component of the machine, the number of its volume.
    pub(super) volume_of: Vec<usize>,
    pub(super) counts: Vec<Counts>,
    /// For each volume, the faults at its interface.
    pub(super) interface_faults: Vec<InterfaceFaults>,
    /// Replies that faults at interfaces hold back, with the numbers of their volumes.
    pub(super) held: Held<(u32, S, Result<(), IoError>)>,
    pub(super) losses: Losses,
    pub(super) recorder: Option<Recorder>,
    pub(super) data_log: Option<DataLog>,
}

/// Completions whose sinks are called once the lock is released.
pub(super) type Completed<S> = Vec<(S, Result<(), IoError>)>;

impl<S: Sink> Inner<S> {
    /// Creates the state, with no operations outstanding. Panics unless `stores` is empty or has the length
    /// [`super::stores_needed`].
    pub(super) fn new(mut machine: Machine, stores: Vec<Store>) -> Self {
        let (system, volumes) = (machine.system(), machine.volumes());
        assert!(stores.is_empty() || stores.len() == super::stores_needed(system));
        let stores = by_part(system, stores);
        let mut volume_of = vec![0; system.parts.len()];
        for volume in 0..volumes {
            system.parts_of(volume).for_each(|part| volume_of[part.index()] = volume as usize);
        }
        let (devices, parts) = (system.devices().count(), system.parts.len());
        let rebuilds = (0..volumes).map(|volume| system.rebuilds(volume)).collect();
        if !stores.is_empty() {
            machine.follow_content();
        }
        let cache_bytes = |v| machine.buffered_bytes(v).map_or(0, |(_, buffer_bytes)| buffer_bytes);
        Self {
            stranded_bytes_max: (0..machine.volumes())
                .map(|v| cache_bytes(v).max(STRANDED_BYTES_MIN))
                .collect(),
            rebuilds,
            counts: (0..machine.volumes()).map(|_| Counts::default()).collect(),
            interface_faults: (0..machine.volumes()).map(|_| InterfaceFaults::default()).collect(),
            held: Held::default(),
            losses: Losses::of(machine.volumes()),
            machine,
            stores,
            devices,
            waiting: Vec::new(),
            free: Vec::new(),
            sequence: 0,
            submitted_ns: 0,
            trouble: None,
            changes: Vec::new(),
            arrays: ArrayBytes::new(parts),
            folders: Vec::new(),
            volume_of,
            recorder: None,
            data_log: None,
        }
    }

    /// Submits an operation. Returns the simulated time at which the emulated host issued it, ns. `met`: fault at the
    /// interface to apply when the operation completes.
    pub(super) fn submit(
        &mut self,
        at_ns: u64,
        (worker, volume): (u32, u32),
        op: &Op,
        payload: Payload<'_>,
        met: Option<Met>,
        mut sink: S,
    ) -> u64 {
        let at_ns = at_ns.max(self.machine.now_ns());
        let number = self.free.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() as u32 - 1
        });
        self.sequence += 1;
        let token = (self.sequence << NUMBER_BITS) | u64::from(number);
        let root = self.root(volume);
        if let Some(log) = &mut self.data_log {
            let data = if let Payload::Write(bytes) = &payload { Some(*bytes) } else { None };
            let store = self.stores.get(root).filter(|_| root < self.devices);
            let read = |at, into: &mut [u8]| store.is_some_and(|of| of.read(at, into).is_ok());
            log.submitted(token, op, data, read);
        }
        let mut holds = false;
        let mut failed = None;
        if root >= self.devices && !self.stores.is_empty() {
            self.begin_on_array(token, op, &payload);
            if matches!(payload, Payload::Read(_)) {
                failed = Some(IoError::Io);
            }
        } else if let Some(store) = self.stores.get_mut(root) {
            let (at, len) = (op.offset_bytes, u64::from(op.len_bytes));
            let begun = match (op.kind, payload) {
                (OpKind::Read, Payload::Read(into)) => {
                    failed = self.read(at_ns, volume, op, into);
                    None
                }
                (OpKind::Read, Payload::ReadIntoSink) => {
                    failed = self.read(at_ns, volume, op, sink.buffer());
                    None
                }
                (OpKind::Write, Payload::Write(bytes)) => Some(store.begin_write(token, at, bytes)),
                (OpKind::WriteZeroes, _) => Some(store.begin_zeroes(token, at, len)),
                (OpKind::Trim, _) => Some(store.begin_trim(token, at, len)),
                _ => None,
            };
            holds = matches!(begun, Some(Ok(())));
            if let Some(Err(error)) = begun {
                failed = Some(IoError::from(&error));
            }
        }
        self.waiting[number as usize] = Some(Waiting {
            sink,
            token,
            worker,
            volume,
            op: *op,
            repeats: 0,
            submitted_ns: at_ns,
            holds,
            failed,
            met,
        });
        if let Some(recorder) = &mut self.recorder {
            recorder.operation(at_ns, worker, volume, op);
        }
        self.machine.submit(at_ns, worker, volume, op, token)
    }

    /// Reads the current content of a volume that is a device. A wrong checksum counts as a read error detected
    /// by the device's ECC: the device recovers the unit from its stripe, or the error is returned.
    fn read(&mut self, at_ns: u64, volume: u32, op: &Op, into: &mut [u8]) -> Option<IoError> {
        let mut healed = None;
        loop {
            let root = self.root(volume);
            let unit = match self.stores[root].read(op.offset_bytes, into) {
                Ok(()) => return None,
                Err(ReadError::Corrupt { unit }) => unit,
                Err(other) => return Some(IoError::from(&other)),
            };
            self.counts[volume as usize].corruptions_found += 1;
            let (offset_bytes, len_bytes) = (unit * UNIT_BYTES, UNIT_BYTES);
            let fault = Fault::Latent { part: PartId(root as u32), offset_bytes, len_bytes };
            if let Some(recorder) = &mut self.recorder {
                recorder.fault(at_ns, &fault);
            }
            self.machine.inject(at_ns, fault);
            if !self.rebuilds[volume as usize] || healed == Some(unit) {
                return Some(IoError::Io);
            }
            self.stores[root].heal(unit);
            healed = Some(unit);
        }
    }

    /// Applies the machine's pending content events to the stores.
    pub(super) fn settle(&mut self) {
        // Before any bytes are written that a missing member lacks.
        for (part, folder) in &mut self.folders {
            let Some(health) = self.machine.array_health_of(*part) else { continue };
            if let Err(why) = folder.follow(health) {
                self.trouble.get_or_insert(why);
            }
        }
        self.machine.changes(&mut self.changes);
        for of_one in self.changes.chunk_by(|a, b| a.part() == b.part()) {
            let Some(part) = of_one[0].part() else {
                for change in of_one {
                    self.arrays.change(change, &mut self.stores);
                }
                continue;
            };
            let (store, volume) = (&mut self.stores[part.index()], self.volume_of[part.index()]);
            store.changes(of_one);
            self.arrays.device_changes(part);
            note_refusals(store, &mut self.counts[volume], &mut self.trouble);
        }
        self.changes.clear();
        for (part, unit) in std::mem::take(&mut self.arrays.corrupt) {
            self.is_corrupt(part, unit);
        }
    }

    /// Number of the component at the top of a volume: its device, its array, or its path through adapters.
    pub(super) fn root(&self, volume: u32) -> usize {
        self.machine.system().volumes[volume as usize].root.index()
    }

    /// Error that an operation must return because the volume has stranded bytes: the host's file system refused to
    /// write them, and they are kept in memory. `None` if the operation may be submitted.
    pub(super) fn backing_refuses(&mut self, volume: u32, op: &Op) -> Option<IoError> {
        let (root, volume) = (self.root(volume), volume as usize);
        if root >= self.devices {
            return self.members_refuse(volume, op);
        }
        let store = self.stores.get_mut(root)?;
        let refused = store.refuses(op, self.stranded_bytes_max[volume]);
        note_refusals(store, &mut self.counts[volume], &mut self.trouble);
        refused.map(|why| IoError::from(&why))
    }

    /// Like [`Self::backing_refuses`], for an array. While any member has stranded bytes, all operations that change
    /// data fail.
    fn members_refuse(&mut self, volume: usize, op: &Op) -> Option<IoError> {
        if self.stores.is_empty() || matches!(op.kind, OpKind::Read | OpKind::Flush) {
            return None;
        }
        let mut refused = None;
        for store in of_volume(&mut self.stores, &self.volume_of, volume) {
            refused = refused.or(store.is_stranded());
            note_refusals(store, &mut self.counts[volume], &mut self.trouble);
        }
        refused.map(|why| IoError::from(&why))
    }

    pub(super) fn completed(
        &mut self,
        done: &Completion,
        late: Late,
        completed: &mut Completed<S>,
    ) {
        let number = (done.token & NUMBER_MASK) as u32;
        let Some(waiting) = self.waiting[number as usize].take() else { return };
        let Some(mut waiting) = self.repeat(done, waiting) else { return };
        self.free.push(number);
        let volume = waiting.volume as usize;
        let of_array = self.end_on_array(&mut waiting);
        let mut failed = done.failure.or(waiting.failed).or(of_array);
        let root = self.root(waiting.volume);
        if let Some(store) = self.stores.get_mut(root).filter(|_| root < self.devices) {
            let kept = match (waiting.holds, failed, waiting.op.kind) {
                (true, Some(_), _) => {
                    store.cancel_write(done.token);
                    Ok(())
                }
                (true, None, _) => {
                    let ended = store.end_write(done.token);
                    let (at, len) = (waiting.op.offset_bytes, u64::from(waiting.op.len_bytes));
                    if waiting.op.fua {
                        ended.and_then(|()| store.settle_range(at, len))
                    } else {
                        ended
                    }
                }
                // Bytes that had landed but could not be written yet.
                (false, None, OpKind::Flush) => store.settle(),
                _ => Ok(()),
            };
            note_refusals(store, &mut self.counts[volume], &mut self.trouble);
            if let Err(error) = kept {
                failed = Some(IoError::from(&error));
                self.trouble.get_or_insert_with(|| error.to_string());
            }
        }
        if let Some(log) = &mut self.data_log {
            log.completed(done.token, failed.is_some());
        }
        if let Some(met) = &waiting.met {
            met.alter(waiting.sink.buffer());
        }
        let latency_ns = done.at_ns.saturating_sub(waiting.submitted_ns);
        let slow = self.counts[volume].completed(
            waiting.op.kind,
            waiting.op.len_bytes,
            (latency_ns, done.at_ns),
            late,
            failed.is_some(),
        );
        if let Some(slow) = slow {
            *slow = slow_op(&self.machine, &waiting, latency_ns, done.at_ns);
        }
        let reply = waiting.met.and_then(|met| met.reply);
        let reply_ns = reply.map(|reply| reply.after(done.at_ns));
        let result = failed.map_or(Ok(()), Err);
        match reply_ns {
            Some(at_ns) => self.held.hold(at_ns, (waiting.volume, waiting.sink, result)),
            None => completed.push((waiting.sink, result)),
        }
    }

    /// Fails all outstanding operations, because the machine will never complete them, and all whose replies are held
    /// back.
    pub(super) fn fail_all(&mut self, error: IoError, completed: &mut Completed<S>) {
        if let Some(log) = &mut self.data_log {
            log.end();
        }
        completed.extend(self.held.take_all().map(|(_, sink, _)| (sink, Err(error))));
        for (number, slot) in (0..).zip(&mut self.waiting) {
            let Some(waiting) = slot.take() else { continue };
            self.free.push(number);
            let volume = waiting.volume as usize;
            self.arrays.operations.remove(&waiting.token);
            if waiting.holds {
                let root = self.machine.system().volumes[volume].root.index();
                self.stores[root].cancel_write(waiting.token);
            }
            self.counts[volume].errors[waiting.op.kind.index()] += 1;
            completed.push((waiting.sink, Err(error)));
        }
    }
}

/// Builds the [`SlowOp`] of an operation, with the faults now in effect.
#[cold]
fn slow_op<S>(
    machine: &Machine,
    waiting: &Waiting<S>,
    latency_ns: u64,
    completed_ns: u64,
) -> SlowOp {
    let faults = machine.fault_state(waiting.volume);
    SlowOp {
        latency_ns,
        completed_ns,
        offset_bytes: waiting.op.offset_bytes,
        len_bytes: waiting.op.len_bytes,
        faults: [
            faults.slow_factor > 1.0,
            faults.delay_ns[waiting.op.kind.index()] > 0,
            waiting.met.is_some(),
        ],
    }
}

/// Arranges stores by component number. Caches of adapters go to the paths of their volumes; components
/// without content get an empty store.
fn by_part(system: &System, stores: Vec<Store>) -> Vec<Store> {
    let devices = system.devices().count();
    if stores.len() <= devices {
        return stores;
    }
    let mut given = stores.into_iter();
    let mut all: Vec<Store> = given.by_ref().take(devices).collect();
    for part in &system.parts[devices..] {
        let is_path = matches!(part, Part::AdapterPath(_));
        let own = if is_path { given.next() } else { None };
        all.push(own.unwrap_or_else(|| Store::in_memory(0, 0, store::Options::default())));
    }
    all
}

/// All stores that belong to a volume.
pub(super) fn of_volume<'a>(
    stores: &'a mut [Store],
    volume_of: &'a [usize],
    volume: usize,
) -> impl Iterator<Item = &'a mut Store> {
    stores.iter_mut().zip(volume_of).filter(move |(_, of)| **of == volume).map(|(store, _)| store)
}

/// Adds the store's failed writes to the volume's counters, and keeps the first error message in `trouble`.
#[inline]
fn note_refusals(store: &mut Store, counts: &mut Counts, trouble: &mut Option<String>) {
    let refusals = store.take_refusals();
    if refusals > 0 {
        counts.backing_errors += refusals;
        let why = store.trouble().map(ToString::to_string);
        *trouble = trouble.take().or(why);
    }
}
