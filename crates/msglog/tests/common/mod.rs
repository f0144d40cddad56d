//! Histories of a log on a disk with a volatile cache, for the test files that include this module.

#![allow(dead_code)]

pub(crate) mod disk;

use disk::Disk;
use iodyno_msglog::recovery::{begin_epoch, create, recover};
use iodyno_msglog::{
    Action, AppendError, ChunkHeader, CommitRule, Durability, Layout, Log, LogOptions, Message,
    MessageKind, Recovered, State, Storage,
};
use iodyno_units::rng::{Generator, below, stream};
use std::collections::BTreeMap;

/// A deliberate defect in the system under test, to check that the histories detect it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    None,
    /// The disk acknowledges flushes and keeps its cache.
    FlushIsIgnored,
    /// Messages count as persisted when they are written.
    AcknowledgesBeforeFlush,
    /// Recovery accepts chunks after a torn chunk.
    CutsNothing,
    /// A failed write counts as successful.
    FailedWritesCount,
}

/// Situations that a history exercises most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A mix of all situations.
    Mixed,
    /// Nearly all values are current, and they fill much of the log.
    ManyValues,
    /// Messages are kept for a time, and the log is full at times.
    Retention,
    /// Many publishers, most of them silent for long.
    Publishers,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] =
        [Self::Mixed, Self::ManyValues, Self::Retention, Self::Publishers];
}

/// A message as the history published it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    kind: MessageKind,
    publisher: u64,
    sequence: u64,
    time_ns: u64,
    topic: &'static str,
    key: Vec<u8>,
    body: Vec<u8>,
}

impl Published {
    pub(crate) fn as_message(&self) -> Message<'_> {
        Message {
            kind: self.kind,
            publisher: self.publisher,
            sequence: self.sequence,
            time_ns: self.time_ns,
            topic: self.topic,
            key: &self.key,
            body: &self.body,
        }
    }
}

fn random_bytes(rng: &mut Generator, len: u64) -> Vec<u8> {
    (0..len).map(|_| below(rng, 256) as u8).collect()
}

fn name_of(publisher: u64) -> String {
    // One name is also the key of values.
    if publisher == 1 { "\u{1}".into() } else { format!("publisher {publisher}") }
}

/// A disk, the log on it, and all messages published.
pub(crate) struct History {
    pub(crate) disk: Disk,
    pub(crate) layout: Layout,
    pub(crate) options: LogOptions,
    /// All published messages to which the log gave a number, by number.
    pub(crate) published: BTreeMap<u64, Published>,
    /// Messages that recovery cut off.
    pub(crate) cut: Vec<(u64, Published)>,
    /// All chunks that were durable, by position.
    pub(crate) chunks: BTreeMap<u64, ChunkHeader>,
    pub(crate) persisted: u64,
    kind: Kind,
    clock_ns: u64,
    keys: u64,
    publishers: u64,
    body_max: u64,
    defect: Defect,
}

/// An open log, and the operations in flight.
pub(crate) struct Life {
    pub(crate) log: Log<Vec<u8>>,
    /// Messages with numbers below this were persisted.
    pub(crate) persisted: u64,
    writes: Vec<(u64, u64, Vec<u8>)>,
    /// Number of writes that the flush in flight covers; None: no flush.
    flush: Option<usize>,
}

impl History {
    pub(crate) fn new(rng: &mut Generator, seed: u64, kind: Kind, defect: Defect) -> Self {
        let align_bytes = [512, 4096][below(rng, 2) as usize];
        let chunk_bytes = [4096, 8192, 16384][below(rng, 3) as usize];
        let segment_bytes = u64::from(chunk_bytes) * (1 + below(rng, 6));
        let slots = 4 + below(rng, 6);
        let capacity_bytes = (64 << 10) + segment_bytes * slots + below(rng, 4) * 512;
        let layout = Layout::new(seed | 1, capacity_bytes, segment_bytes, chunk_bytes, align_bytes);
        let layout = layout.unwrap_or_else(|e| panic!("{e}"));
        let durabilities = [Durability::Batch, Durability::Batch, Durability::Each];
        let options = LogOptions {
            commit: CommitRule {
                durability: durabilities[below(rng, 3) as usize],
                fua: false,
                chunks_max: [1 + below(rng, 5) as u32, 1000][below(rng, 2) as usize],
                depth: 1 + below(rng, 4) as u32,
            },
            chunk_messages_max: [u32::MAX, 3][below(rng, 2) as usize],
            queue_chunks_max: [2 + below(rng, 8) as usize, 200][below(rng, 2) as usize],
            retain_ns: if kind == Kind::Retention { 1 + below(rng, 4000) } else { 0 },
            keeps_state: true,
        };
        let body_max = [40, 300, 2000][below(rng, 3) as usize];
        // What all segments hold at once, about.
        let many = segment_bytes * (slots - 2) / (body_max / 2 + 60) / 2;
        let mut disk = Disk::new(capacity_bytes as usize);
        create(&disk, &layout).unwrap_or_else(|e| panic!("{e}"));
        disk.flush_first(disk.pending());
        disk.ignores_flushes = defect == Defect::FlushIsIgnored;
        Self {
            disk,
            layout,
            options,
            published: BTreeMap::new(),
            cut: Vec::new(),
            chunks: BTreeMap::new(),
            persisted: 1,
            kind,
            clock_ns: 1,
            keys: if kind == Kind::ManyValues {
                1 + below(rng, 2 * many + 2)
            } else {
                1 + below(rng, 12)
            },
            publishers: if kind == Kind::Publishers { 40 } else { below(rng, 3) },
            body_max,
            defect,
        }
    }

    /// Opens the log, and checks its content. Messages with numbers below `persisted` were acknowledged before.
    pub(crate) fn open(&mut self, persisted: u64) -> Result<Life, String> {
        let mut numbers = Vec::new();
        let mut wrong = None;
        let mut headers = Vec::new();
        let found = recover(&self.disk, |chunk| {
            headers.push((chunk.header.position, chunk.header));
            for (number, message) in chunk.messages() {
                numbers.push(number);
                if !self.published.get(&number).is_some_and(|it| it.as_message() == message) {
                    wrong = Some(format!("message {number} is not what was published"));
                }
            }
        })
        .map_err(|e| e.to_string())?;
        if let Some(what) = wrong {
            return Err(what);
        }
        if let Some(damage) = found.damages.first() {
            return Err(format!("damage: {damage}"));
        }
        begin_epoch(&self.disk, &found).map_err(|e| e.to_string())?;
        if found.layout != self.layout {
            return Err(format!("opened as {:?}", found.layout));
        }
        let end = if self.defect == Defect::CutsNothing {
            // As if all that was written were there.
            self.published.keys().last().map_or(1, |last| last + 1)
        } else {
            found.tail.next_message
        };
        if end < persisted {
            return Err(format!("ends before message {end}"));
        }
        let first = numbers.first().copied().unwrap_or(end);
        if !numbers.iter().copied().eq(first..end) {
            return Err(format!("messages {first} to {end} with gaps: {} of them", numbers.len()));
        }
        let is_kept =
            |it: &Published| it.time_ns.saturating_add(self.options.retain_ns) > self.clock_ns;
        let dropped = self.published.range(..first).find(|(_, it)| is_kept(it));
        if found.tail.oldest_segment == 0 && first != 1 {
            return Err(format!("begins at {first}, and nothing was dropped"));
        }
        if let Some((number, _)) = dropped.filter(|_| self.options.retain_ns > 0) {
            return Err(format!("message {number} was dropped before its time"));
        }
        self.check_state(&found.state, end).map_err(|e| format!("after the cut, {e}"))?;
        self.chunks.extend(headers);
        self.begin(found)
    }

    /// Continues with a log that recovery has opened.
    pub(crate) fn begin(&mut self, found: Recovered) -> Result<Life, String> {
        let end = found.tail.next_message;
        self.cut.extend(self.published.split_off(&end));
        self.chunks.split_off(&found.tail.position);
        let log = Log::new(self.layout, self.options, found.tail, found.state);
        if log.persisted() != end {
            return Err(format!("persisted to {} for {end}", log.persisted()));
        }
        Ok(Life { log, persisted: end, writes: Vec::new(), flush: None })
    }

    /// Checks that the state is the one that all messages before `end` give, including those whose segments were
    /// dropped.
    pub(crate) fn check_state(&self, state: &State, end: u64) -> Result<(), String> {
        let mut expected = State::default();
        let mut sequences = BTreeMap::new();
        for (&number, it) in self.published.range(..end) {
            expected.apply(&it.as_message(), number, 0);
            sequences.insert(it.publisher, it.sequence);
        }
        same_values(state, &expected)?;
        sequences.remove(&0);
        for (&publisher, &sequence) in &sequences {
            let known = state.publisher(publisher).map(|it| (&*it.name, it.sequence));
            if known != Some((name_of(publisher).as_str(), sequence)) {
                return Err(format!("publisher {publisher} is {known:?} for sequence {sequence}"));
            }
        }
        let unknown = |(number, sequence): &(u64, u64)| {
            *sequence != sequences.get(number).copied().unwrap_or(0)
        };
        let mut all = state.publishers().map(|(number, it)| (number, it.sequence));
        all.find(unknown).map_or(Ok(()), |it| Err(format!("publisher {it:?} was not published")))
    }

    fn message(&mut self, life: &Life, rng: &mut Generator) -> Published {
        self.clock_ns += below(rng, 50);
        let has_key = self.kind == Kind::ManyValues || below(rng, 3) > 0;
        let deletes_in = if self.kind == Kind::ManyValues { 20 } else { 5 };
        let is_delete = has_key && below(rng, deletes_in) == 0;
        let key = below(rng, self.keys);
        let len = below(rng, self.body_max);
        let publisher = below(rng, self.publishers + 1);
        // Publishers that are silent for long.
        let publisher = if publisher > 4 && below(rng, 8) > 0 { publisher % 3 } else { publisher };
        let sequences = self.published.range(life.persisted..).rev();
        let mut sequences = sequences.filter(|(_, it)| it.publisher == publisher);
        let known = life.log.state().publisher(publisher).map_or(0, |it| it.sequence);
        Published {
            kind: if is_delete { MessageKind::Delete } else { MessageKind::Publish },
            publisher,
            sequence: match publisher {
                0 => 0,
                _ => 1 + sequences.next().map_or(0, |(_, it)| it.sequence).max(known),
            },
            time_ns: self.clock_ns,
            topic: ["t", ""][(key % 2) as usize],
            key: match (has_key, key) {
                (false, _) => Vec::new(),
                (true, 0..200) => vec![key as u8 + 1],
                (true, _) => key.to_le_bytes().to_vec(),
            },
            body: random_bytes(rng, len),
        }
    }

    /// Appends a message, if the log accepts it.
    pub(crate) fn append(
        &mut self,
        life: &mut Life,
        rng: &mut Generator,
    ) -> Result<Option<AppendError>, String> {
        let bytes = self.layout.chunk_bytes as usize;
        let mut buffer = || vec![0xA5; bytes];
        let message = self.message(life, rng);
        let publisher = message.publisher;
        if publisher > 0 && message.sequence == 1 {
            let name = name_of(publisher);
            let record = Message {
                kind: MessageKind::Publisher,
                publisher,
                sequence: 0,
                time_ns: message.time_ns,
                topic: "",
                key: name.as_bytes(),
                body: b"",
            };
            if let Err(e) = life.log.append(&record, &mut buffer) {
                return Ok(Some(e));
            }
        }
        match life.log.append(&message.as_message(), &mut buffer) {
            Ok(number) => match self.published.insert(number, message) {
                None => Ok(None),
                Some(_) => Err(format!("number {number} was given twice")),
            },
            Err(e) => Ok(Some(e)),
        }
    }

    /// Continues a log that was opened with damage, and crashes. Messages with numbers below `persisted` were
    /// persisted.
    pub(crate) fn crashes_on(
        &mut self,
        found: Recovered,
        rng: &mut Generator,
    ) -> Result<(), String> {
        let mut life = self.begin(found)?;
        let steps = below(rng, 100);
        self.run(&mut life, rng, steps)?;
        self.persisted = life.persisted;
        for (_, offset, bytes) in &life.writes {
            self.disk.write_some(*offset, bytes, rng);
        }
        self.disk.cut_power(rng);
        Ok(())
    }

    /// Begins the log's next operation. False if there is none.
    fn issue(&self, life: &mut Life) -> bool {
        match life.log.next_action() {
            Some(Action::Write { chunk, offset_bytes, len_bytes, buffer }) => {
                life.writes.push((chunk, offset_bytes, buffer[..len_bytes].to_vec()));
            }
            Some(Action::Flush) => life.flush = Some(self.disk.pending()),
            None => return false,
        }
        true
    }

    fn complete_write(&self, life: &mut Life, at: usize) {
        let (chunk, offset, bytes) = life.writes.swap_remove(at);
        let _ = self.disk.write_at(offset, &bytes);
        life.log.written(chunk, true);
        if self.defect == Defect::AcknowledgesBeforeFlush {
            life.persisted = life.persisted.max(life.log.next_message());
        }
    }

    fn complete_flush(&self, life: &mut Life) {
        if let Some(count) = life.flush.take() {
            self.disk.flush_first(count);
            life.log.flushed(true);
        }
    }

    fn note_persisted(&mut self, life: &mut Life) -> Result<(), String> {
        while let Some(chunk) = life.log.next_persisted() {
            self.chunks.insert(chunk.header.position, chunk.header);
            life.log.recycle(chunk.buffer);
        }
        life.persisted = life.persisted.max(life.log.persisted());
        let waiting = life.log.chunks_waiting();
        let most = self.options.queue_chunks_max + 1;
        if waiting > most {
            return Err(format!("{waiting} chunks wait, for {most} at most"));
        }
        Ok(())
    }

    /// Performs operations until the log requests none.
    pub(crate) fn drain(&mut self, life: &mut Life) -> Result<(), String> {
        loop {
            let wants = self.issue(life) || !life.writes.is_empty() || life.flush.is_some();
            if !life.writes.is_empty() {
                self.complete_write(life, 0);
            }
            self.complete_flush(life);
            self.note_persisted(life)?;
            if !wants {
                return Ok(());
            }
        }
    }

    /// Runs some steps in random order.
    pub(crate) fn run(
        &mut self,
        life: &mut Life,
        rng: &mut Generator,
        steps: u64,
    ) -> Result<(), String> {
        for _ in 0..steps {
            match below(rng, 8) {
                0..4 => match self.append(life, rng)? {
                    None | Some(AppendError::Busy | AppendError::Full { .. }) => {}
                    Some(e) => return Err(e.to_string()),
                },
                4..6 => drop(self.issue(life)),
                6 if !life.writes.is_empty() => {
                    let at = below(rng, life.writes.len() as u64) as usize;
                    self.complete_write(life, at);
                }
                _ => self.complete_flush(life),
            }
            self.note_persisted(life)?;
        }
        Ok(())
    }

    /// Checks that the log accepts messages once all operations have completed and the retention time has passed,
    /// unless current values fill the log.
    fn takes_messages(&mut self, life: &mut Life, rng: &mut Generator) -> Result<(), String> {
        self.clock_ns += self.options.retain_ns;
        for _ in 0..200 {
            self.drain(life)?;
            match self.append(life, rng)? {
                None => return Ok(()),
                Some(AppendError::Busy) => {}
                Some(AppendError::Full { .. }) => {
                    let kept_bytes = (self.layout.slots() - 2) * self.layout.segment_bytes;
                    let value_bytes = life.log.state().value_bytes();
                    return if value_bytes * 4 > kept_bytes {
                        Ok(())
                    } else {
                        Err(format!("full with {value_bytes} bytes of values in {kept_bytes}"))
                    };
                }
                Some(e) => return Err(e.to_string()),
            }
        }
        Err("busy forever".into())
    }

    /// Fails an operation, and checks that nothing is acknowledged any more.
    fn fail(&mut self, life: &mut Life, rng: &mut Generator) -> Result<(), String> {
        let before = life.log.persisted();
        let counts = self.defect == Defect::FailedWritesCount;
        if !life.writes.is_empty() {
            let at = below(rng, life.writes.len() as u64) as usize;
            let (chunk, offset, bytes) = life.writes.swap_remove(at);
            self.disk.write_some(offset, &bytes, rng);
            life.log.written(chunk, counts);
        } else if life.flush.take().is_some() {
            life.log.flushed(counts);
        } else {
            return Ok(());
        }
        for _ in 0..20 {
            if !life.log.is_broken() || life.log.next_action().is_some() {
                return Err("the log goes on after a failure".into());
            }
            if !matches!(self.append(life, rng)?, Some(AppendError::Broken)) {
                return Err("the log takes messages after a failure".into());
            }
            if !life.writes.is_empty() {
                self.complete_write(life, 0);
            }
            self.complete_flush(life);
            self.note_persisted(life)?;
        }
        let after = life.log.persisted();
        if after > before { Err(format!("persisted to {after} after a failure")) } else { Ok(()) }
    }

    /// Ends the process, with or without a power cut.
    pub(crate) fn crash(&mut self, life: &Life, rng: &mut Generator) -> Result<u64, String> {
        if self.defect == Defect::None {
            let persisted = life.log.persisted();
            self.check_state(life.log.state(), persisted).map_err(|e| format!("before it, {e}"))?;
        }
        for (_, offset, bytes) in &life.writes {
            self.disk.write_some(*offset, bytes, rng);
        }
        if self.defect != Defect::None || below(rng, 3) > 0 {
            self.disk.cut_power(rng);
        }
        Ok(life.persisted)
    }
}

/// Runs one log through several crashes.
pub(crate) fn history(seed: u64, kind: Kind, defect: Defect) -> Result<(), String> {
    let rng = &mut stream(seed, "log history", kind as u64);
    let mut it = History::new(rng, seed, kind, defect);
    let mut persisted = 1;
    for life in 0..=4 {
        let named = |what| format!("life {life}, {persisted} persisted: {what}");
        let mut open = it.open(persisted).map_err(named)?;
        if life == 4 {
            break;
        }
        let steps = below(rng, 160);
        it.run(&mut open, rng, steps).map_err(named)?;
        if below(rng, 4) == 0 {
            it.takes_messages(&mut open, rng).map_err(named)?;
            let steps = below(rng, 40);
            it.run(&mut open, rng, steps).map_err(named)?;
        }
        if below(rng, 6) == 0 {
            it.fail(&mut open, rng).map_err(named)?;
        }
        persisted = it.crash(&open, rng).map_err(named)?;
    }
    Ok(())
}

fn same_values(ours: &State, expected: &State) -> Result<(), String> {
    type Values = Vec<(String, Vec<u8>, u64, u64, Vec<u8>)>;
    let values = |state: &State| -> Values {
        let of = |topic: &str| -> Values {
            let values = state.values(topic);
            let own = |(key, it): (&[u8], &iodyno_msglog::state::Value)| {
                (topic.to_owned(), key.to_vec(), it.number, it.time_ns, it.body.to_vec())
            };
            values.map(own).collect()
        };
        state.topics().flat_map(of).collect()
    };
    let (have, wanted) = (values(ours), values(expected));
    if have == wanted {
        return match (ours.value_bytes(), expected.value_bytes()) {
            (a, b) if a == b => Ok(()),
            (a, b) => Err(format!("values of {a} bytes for {b}")),
        };
    }
    let keys = |values: &Values| -> Vec<(String, u64)> {
        values.iter().map(|it| (format!("{:?}", it.1), it.2)).collect()
    };
    Err(format!("keys with numbers {:?} for {:?}", keys(&have), keys(&wanted)))
}
