//! A served device whose backing is full, as clients see it: acknowledged data is kept, and nothing is acknowledged
//! that can't be kept.

use crate::common;

use common::{disk, flash, system};
use iodyno_emulate::spec::{Kind, Written};
use iodyno_emulate::{Fault, Machine};
use iodyno_live::counts::Looks;
use iodyno_live::record::Recorder;
use iodyno_live::served::{Live, NEVER, Options, Payload, Sink};
use iodyno_live::store::{self, Store};
use iodyno_units::{IoError, Op, OpKind};
use std::cell::Cell;
use std::sync::{Arc, Mutex};

const UNIT: u64 = 4096;
/// Memory limit of the volumes, bytes. The data that fills it follows at a fixed offset.
const MEMORY_BYTES: u64 = 2 << 20;
const FILLED: u64 = 128 << 20;

type Results = Arc<Mutex<Vec<(u32, Result<(), IoError>)>>>;

struct Client {
    live: Live<Waiter>,
    results: Results,
    sent: u32,
}

struct Waiter(u32, Results);

impl Sink for Waiter {
    fn done(self, result: Result<(), IoError>) {
        self.1.lock().unwrap().push((self.0, result));
    }
}

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
}

fn op(kind: OpKind, offset_bytes: u64, len_bytes: u64, fua: bool) -> Op {
    Op { offset_bytes, len_bytes: len_bytes as u32, kind, fua }
}

impl Client {
    fn new(kind: Kind, prepare: impl FnOnce(&Store)) -> Self {
        let mut machine = Machine::new(&system(kind, Written::Fresh, 1), 1).unwrap();
        machine.add_worker(0);
        let capacity = machine.capacity_bytes(0);
        let store = Store::in_memory(capacity, MEMORY_BYTES, store::Options::default());
        prepare(&store);
        let live = Live::new(machine, vec![store], &Options::default(), || NOW_NS.get());
        Self { live, results: Results::default(), sent: 0 }
    }

    /// Sends an operation; returns its number.
    fn send(&mut self, op: Op, byte: u8) -> u32 {
        self.sent += 1;
        let data = vec![byte; op.len_bytes as usize];
        let payload = if op.kind == OpKind::Write { Payload::Write(&data) } else { Payload::None };
        self.live.submit(0, 0, &op, payload, Waiter(self.sent, Arc::clone(&self.results)));
        self.sent
    }

    /// Waits until at most `under_way` operations are in flight. Returns the results of the others, in order of number.
    fn wait(&mut self, under_way: u32) -> Vec<Result<(), IoError>> {
        while self.results.lock().unwrap().len() + (under_way as usize) < self.sent as usize {
            let next_ns = self.live.next_ns();
            assert_ne!(next_ns, NEVER);
            NOW_NS.set(NOW_NS.get().max(next_ns));
            self.live.poll(Looks::default());
        }
        let mut results = self.results.lock().unwrap().clone();
        results.sort_unstable_by_key(|t| t.0);
        results.into_iter().map(|t| t.1).collect()
    }

    fn ask(&mut self, op: Op) -> Result<(), IoError> {
        self.send(op, 0);
        *self.wait(0).last().unwrap()
    }

    fn read(&self, offset_bytes: u64, len_bytes: u64) -> Vec<u8> {
        let mut bytes = vec![0; len_bytes as usize];
        self.live.look(|_, stores, _| stores[0].read(offset_bytes, &mut bytes).unwrap());
        bytes
    }
}

fn fill(store: &Store) {
    let mut at = FILLED;
    while store.write_now(at, &[b'f'; UNIT as usize]).is_ok() {
        at += UNIT;
    }
}

fn volatile_flash() -> Kind {
    let mut flash = flash();
    flash.buffer.protected = false;
    Kind::Flash(Box::new(flash))
}

/// A write and a forced write over it are in flight together without space; then space is freed.
#[test]
fn flushed_writes_survive_a_power_cut() {
    for kind in [disk(true), disk(false), volatile_flash(), Kind::Flash(Box::new(flash()))] {
        let mut client = Client::new(kind.clone(), fill);
        for unit in 0..8 {
            client.send(op(OpKind::Write, unit * UNIT, UNIT, false), b'1');
            client.send(op(OpKind::Write, unit * UNIT, UNIT, true), b'2');
        }
        let results = client.wait(0);
        assert!(results.contains(&Err(IoError::NoSpace)), "{results:?}");
        assert_eq!(client.ask(op(OpKind::WriteZeroes, FILLED, 1 << 20, false)), Ok(()));
        assert_eq!(client.ask(Op::FLUSH), Ok(()));
        let before = client.read(0, 8 * UNIT);
        for unit in 0..8 {
            let was_acknowledged = results[unit * 2].is_ok() || results[unit * 2 + 1].is_ok();
            assert!(!was_acknowledged || before[unit * UNIT as usize] != 0, "{unit} of {kind:?}");
        }
        client.live.inject(Fault::PowerCut);
        assert!(client.read(0, 8 * UNIT) == before, "{kind:?}");
    }
}

/// On a protected device, acknowledged zeroes are kept, or a newer write over them, which may find no space.
#[test]
fn zeroes_that_were_acknowledged_are_there() {
    let mut acknowledged = 0;
    for sectors in 1..16 {
        let mut client = Client::new(Kind::Flash(Box::new(flash())), |store| {
            store.write_now(UNIT, &[b'A'; 4 * UNIT as usize]).unwrap();
            fill(store);
        });
        // So that zeroes have something to wait for.
        client.send(op(OpKind::Write, UNIT, 4 * UNIT, false), b'A');
        client.wait(0);
        let (from, len) = (UNIT + 512 * (sectors % 8), 2 * UNIT + 512 * (sectors / 4));
        client.send(op(OpKind::WriteZeroes, from, len, false), 0);
        client.send(op(OpKind::Write, 0, 15 * UNIT, false), b'B');
        let results = client.wait(0);
        assert_eq!(results[2], Err(IoError::NoSpace));
        if results[1].is_ok() {
            acknowledged += 1;
            assert!(!client.read(from, len).contains(&b'A'), "{from} + {len}");
        }
    }
    assert!(acknowledged > 0);
}

/// If a client never flushes, the server acknowledges at most as much as the backing and the modelled cache hold, and
/// counts the failure when it happens.
#[test]
fn a_full_backing_is_reported_before_memory_is_full() {
    for kind in [disk(true), volatile_flash()] {
        let mut client = Client::new(kind, |_| {});
        let (count, len) = (800, 16 * 1024);
        for n in 0..count {
            client.send(op(OpKind::Write, n * len, len, false), 7);
            client.wait(8);
        }
        let results = client.wait(0);
        let held = results.iter().filter(|t| t.is_ok()).count() as u64 * len;
        // 256 KiB of cache; what was in flight.
        assert!(held < MEMORY_BYTES + (256 << 10) + 16 * len, "{held} bytes are acknowledged");
        assert!(held > MEMORY_BYTES / 2, "{held}");
        assert!(client.live.look(|_, _, counts| counts[0].backing_errors) > 0);
        // Once there is space, it goes on, and what was acknowledged is there.
        let zeroes = op(OpKind::WriteZeroes, count * len - (1 << 20), 1 << 20, false);
        assert_eq!(client.ask(zeroes), Ok(()));
        let zeroes = op(OpKind::WriteZeroes, 0, 1 << 20, false);
        assert_eq!(client.ask(zeroes), Ok(()));
        assert_eq!(client.ask(Op::FLUSH), Ok(()));
        for (n, _) in results.iter().enumerate().filter(|t| t.1.is_ok()) {
            let at = n as u64 * len;
            if at >= 1 << 20 && at + len <= count * len - (1 << 20) {
                assert!(client.read(at, len).iter().all(|&b| b == 7), "{n}");
            }
        }
        assert_eq!(client.ask(op(OpKind::Write, 0, len, false)), Ok(()));
    }
}

struct Mount(std::path::PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

#[test]
#[ignore = "needs root and a tmpfs"]
fn a_record_without_space_is_reported_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-t", "tmpfs", "-o", "size=64k", "tmpfs"];
    let mut mount = std::process::Command::new("mount");
    assert!(mount.args(options).arg(folder.path()).status().unwrap().success());
    let mount = Mount(folder.path().to_owned());
    let mut client = Client::new(volatile_flash(), |_| {});
    client.live.record(Recorder::create(&mount.0.join("r"), &serde_json::json!({})).unwrap());
    for n in 0..4000 {
        client.send(op(OpKind::Trim, n * UNIT, UNIT, false), 0);
        client.wait(0);
    }
    let troubles = client.live.troubles();
    assert!(matches!(&troubles[..], [one] if one.contains("record ends there")), "{troubles:?}");
    assert!(client.live.end(|_| 0).unwrap_err().contains("record is incomplete"));
    let full = Recorder::create(&mount.0.join("other"), &serde_json::json!({}));
    assert!(full.unwrap_err().contains("can't be written") && !mount.0.join("other").exists());
}
