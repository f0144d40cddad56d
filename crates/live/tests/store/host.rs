//! Concurrent writes of any alignment, as a host sees them. For each byte the model knows which writes may show: none
//! that had ended before another write began which has also ended. After a power cut, data that was not durable may
//! show, but none that something durable had replaced.

use crate::rig::{Device, begin, devices, is_cut};
use iodyno_emulate::Fault;
use iodyno_emulate::spec::Kind;
use iodyno_live::store::Store;
use iodyno_units::rng::{below, stream};
use iodyno_units::{Op, OpKind};
use std::collections::BTreeSet;
use std::ops::Range;

const BYTES: u64 = 5 * 4096;

/// A write that the host has begun.
struct Issued {
    token: u64,
    from: u64,
    to: u64,
    byte: u8,
    begun: u64,
    /// Step at which the write ended; `durable` is the step at which it became durable.
    ended: Option<u64>,
    durable: Option<u64>,
    kind: OpKind,
    fua: bool,
}

/// Model of the content that the host may read.
#[derive(Default)]
struct Model {
    step: u64,
    /// Content at the last power cut.
    initial: Vec<u8>,
    issued: Vec<Issued>,
    /// Offsets at which writes of this history began or ended, bytes.
    ends: BTreeSet<u64>,
    /// Size of the parts that a power cut keeps or loses as a whole, bytes.
    whole_bytes: usize,
}

impl Model {
    fn may_show(&self, at: u64, byte: u8, after_cut: bool) -> bool {
        let over = |w: &Issued| if after_cut { w.durable } else { w.ended };
        let here: Vec<&Issued> = self.issued.iter().filter(|w| w.from <= at && at < w.to).collect();
        // Written by something that was over, before something began that is over (and durable).
        let replaced = |ended: Option<u64>| {
            ended.is_some_and(|ended| here.iter().any(|w| w.begun > ended && over(w).is_some()))
        };
        let initial = self.initial[at as usize] == byte && !replaced(Some(0));
        initial || here.iter().any(|w| w.byte == byte && !replaced(w.ended))
    }

    /// Marks a write as ended; returns its range.
    fn end(&mut self, token: u64, keeps: bool) -> Option<Range<u64>> {
        self.step += 1;
        let step = self.step;
        let at = self.issued.iter().position(|w| w.token == token)?;
        let (kind, begun) = (self.issued[at].kind, self.issued[at].begun);
        if kind == OpKind::Flush {
            for w in &mut self.issued {
                if w.ended.is_some_and(|ended| ended < begun) {
                    w.durable.get_or_insert(step);
                }
            }
        }
        let w = &mut self.issued[at];
        w.ended = Some(step);
        if keeps || w.fua || kind != OpKind::Write {
            w.durable = Some(step);
        }
        (w.from < w.to).then_some(w.from..w.to)
    }
}

/// Checks a range against the model; returns its bytes.
fn check(model: &Model, store: &Store, range: Range<u64>, after_cut: bool, name: &str) -> Vec<u8> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    store.read(range.start, &mut bytes).unwrap();
    // Between two ends of writes or units all bytes are alike.
    let mut ends: Vec<u64> = model.ends.iter().copied().filter(|e| range.contains(e)).collect();
    ends.extend([range.start, range.end]);
    ends.extend((0..BYTES).step_by(model.whole_bytes).filter(|e| range.contains(e)));
    ends.sort_unstable();
    ends.dedup();
    for between in ends.windows(2) {
        let alike =
            &bytes[(between[0] - range.start) as usize..(between[1] - range.start) as usize];
        let byte = alike[0];
        assert!(alike.iter().all(|&b| b == byte), "{name}: {between:?} is torn");
        let may = model.may_show(between[0], byte, after_cut);
        assert!(may, "{name}: {between:?} is {byte} (cut: {after_cut})");
    }
    bytes
}

/// Runs a history; returns its number of power cuts.
fn history(device: &Device, seed: u64) -> u64 {
    let name = format!("{}, {seed}", device.name);
    let mut random = stream(seed, device.name, 1);
    let mut m = device.machine(seed);
    let mut store = Store::in_memory(m.capacity_bytes(0), 1 << 30, device.options());
    let worker = m.add_worker(0);
    let whole_bytes = match &device.kind {
        Kind::Flash(flash) => flash.power_cut.map_or(4096, |cut| cut.atomic_bytes.min(4096)),
        _ => 4096,
    };
    let (initial, whole_bytes) = (vec![0; BYTES as usize], whole_bytes as usize);
    let mut model = Model { initial, whole_bytes, ..Model::default() };
    for _ in 0..3 {
        m.inject(device.pace * below(&mut random, 3_000_000), Fault::PowerCut);
    }
    let (mut now, mut changes, mut cuts) = (0, Vec::new(), 0);
    for token in 1..=200 {
        let kind = match below(&mut random, 12) {
            0 => OpKind::Flush,
            1 => OpKind::Trim,
            2 | 3 => OpKind::WriteZeroes,
            _ => OpKind::Write,
        };
        let from = below(&mut random, BYTES);
        let longest = if below(&mut random, 2) == 0 { 1200 } else { 12_000 };
        let to = (from + 1 + below(&mut random, longest)).min(BYTES);
        let fua = below(&mut random, 8) == 0;
        let len_bytes = (to - from) as u32;
        let op = Op { offset_bytes: from, len_bytes, kind, fua };
        let op = if kind == OpKind::Flush { Op::FLUSH } else { op };
        let byte = if kind == OpKind::Write { token as u8 } else { 0 };
        begin(&mut store, token, &op, &vec![byte; len_bytes as usize]);
        // A trim is of whole units, and a disk does nothing with it.
        let (from, to) = match kind {
            OpKind::Flush => (0, 0),
            OpKind::Trim if matches!(device.kind, Kind::Disk(_)) => (0, 0),
            OpKind::Trim => (from.next_multiple_of(4096), to / 4096 * 4096),
            _ => (from, to),
        };
        model.step += 1;
        let begun = model.step;
        model.ends.extend([from, to]);
        model.issued.push(Issued {
            token,
            from,
            to,
            byte,
            begun,
            ended: None,
            durable: None,
            kind,
            fua,
        });
        m.submit(now, worker, 0, &op, token);
        now += device.pace * below(&mut random, 30_000);
        loop {
            let done = m.next_completion(now);
            m.changes(&mut changes);
            store.changes(&changes);
            if changes.drain(..).any(|change| is_cut(&change)) {
                cuts += 1;
                for w in model.issued.iter().filter(|w| w.ended.is_none()) {
                    store.cancel_write(w.token);
                }
                // The completion that comes with it, if any, is of what was begun before.
                if device.forgets {
                    model.initial = vec![0; BYTES as usize];
                    let mut all = vec![1; BYTES as usize];
                    store.read(0, &mut all).unwrap();
                    assert_eq!(all, model.initial, "{name}");
                } else {
                    model.initial = check(&model, &store, 0..BYTES, true, &name);
                }
                model.issued.clear();
            }
            let Some(done) = done else { break };
            assert_eq!(store.end_write(done.token), Ok(()), "{name}");
            if let Some(range) = model.end(done.token, device.keeps) {
                check(&model, &store, range, false, &name);
            }
        }
        if token % 8 == 0 {
            check(&model, &store, 0..BYTES, false, &name);
        }
    }
    cuts
}

#[test]
fn a_host_sees_no_byte_that_was_replaced() {
    for device in devices() {
        let cuts: u64 = (0..60).map(|seed| history(&device, seed)).sum();
        assert!(device.name == "protected memory" || cuts > 30, "{}: {cuts}", device.name);
    }
}
