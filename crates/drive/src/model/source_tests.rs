//! Sources other than a workload's stream, run by threads in real time and by the event loop in virtual time: a
//! trace, a job that thinks and flushes, kinds of operation with different rates, a log with group commit.

use super::event_loop::EventLoop;
use super::test_system::{plan, system};
use super::worker::{At, Worker as VirtualWorker};
use crate::clock::Clock;
use crate::engine::null::NullEngine;
use crate::gather::Gathering;
use crate::in_flight::Share;
use crate::recorder::Recorder;
use crate::worker::{Control, Limits, Worker, WorkerReport};
use iodyno_emulate::Machine;
use iodyno_measure::Ended;
use iodyno_units::{Op, OpKind};
use iodyno_workload::{Issue, Next, Outcome, Source, Spec};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

const ENDLESS: Share = Share::ALL;

/// The operations in order, each with its issue and completion time, ns.
type Log = Arc<Mutex<Vec<(Op, u64, u64)>>>;

fn write(block: u64) -> Op {
    Op { offset_bytes: block * 4096, len_bytes: 4096, kind: OpKind::Write, fua: false }
}

/// Runs each source on its own worker, in virtual time, until all are done. Returns the reports and the end, ns.
fn in_virtual_time<S: Source>(sources: Vec<S>, slots: u32) -> (Vec<WorkerReport>, u64) {
    let spec = Spec::from_toml("schema = 1\n[mix]\nread = 1\n[limits]\nramp = \"0s\"").unwrap();
    let plan = plan(&spec, 1_000_000_000, 0);
    let mut machine = Machine::new(&system(), 1).unwrap();
    let numbers: Vec<u32> = sources.iter().map(|_| machine.add_worker(0)).collect();
    let workers = sources.into_iter().zip(numbers).enumerate();
    let workers = workers.map(|(index, (source, number))| {
        let at = At { machine_number: number, ..At::default() };
        VirtualWorker::new(index, at, source, slots, ENDLESS, None)
    });
    let (sender, intervals) = channel();
    let recorder = Recorder::new(0, true, plan.cell.interval_ns(), sender);
    let stop = AtomicBool::new(false);
    let workers = workers.collect();
    let mut events = EventLoop::new(&plan, &stop, &mut machine, 0, workers, vec![recorder]);
    let (mut cells, mut observer) = (Vec::new(), crate::Unobserved);
    events.run(&intervals, &mut Gathering::new(&mut cells, &mut observer)).unwrap();
    let (left, end_ns) = events.left();
    assert_eq!(left, 0);
    (events.into_parts().1.into_iter().map(|done| done.report).collect(), end_ns)
}

/// Runs each source on its own thread, in real time, until all are done.
fn in_real_time<S: Source + 'static>(sources: Vec<S>, slots: u32) -> Vec<WorkerReport> {
    let clock = Clock::new();
    let control = Arc::new(Control::new(Arc::new(AtomicBool::new(false)), 0, 0));
    control.start(clock.now_ns() + 1_000_000);
    let (sender, _intervals) = channel();
    let threads = sources.into_iter().map(|source| {
        let worker = Worker {
            control: Arc::clone(&control),
            limits: Limits { ramp_ns: 0, time_ns: None, share: ENDLESS, start_after_ns: 0 },
            is_over: Arc::default(),
            clock,
            source,
            filler: None,
            verify: None,
            coverage: None,
            recorder: Recorder::new(0, true, 1_000_000_000, sender.clone()),
            slots,
            submit_batch: None,
        };
        std::thread::spawn(move || worker.run(&mut NullEngine::new(slots), None))
    });
    let threads: Vec<_> = threads.collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// Operations at given times, relative to the start.
#[derive(Debug)]
struct Trace {
    ops: Vec<(u64, Op)>,
    start_ns: u64,
    next: usize,
    log: Log,
}

impl Source for Trace {
    type Token = usize;

    fn start(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    fn next(&mut self, now_ns: u64, free: usize) -> Next<usize> {
        let Some(&(at_ns, op)) = self.ops.get(self.next) else { return Next::Done };
        let due_ns = self.start_ns + at_ns;
        if due_ns > now_ns {
            return Next::WaitUntil(due_ns);
        }
        if free == 0 {
            return Next::WaitCompletion;
        }
        self.next += 1;
        self.log.lock().unwrap().push((op, now_ns - self.start_ns, 0));
        Next::Issue(Issue { op, due_ns: Some(due_ns), token: self.next - 1 })
    }

    fn completed(&mut self, _: &Op, token: usize, outcome: Outcome, now_ns: u64) {
        assert_eq!(outcome, Outcome::Succeeded);
        self.log.lock().unwrap()[token].2 = now_ns - self.start_ns;
    }
}

#[test]
fn a_trace_keeps_its_times_and_ends() {
    let times_ns = [0, 0, 5_000, 5_000, 200_000, 1_000_000];
    let ops: Vec<_> = times_ns.into_iter().zip((0..).map(write)).collect();
    let trace = || {
        let log = Log::default();
        (Trace { ops: ops.clone(), start_ns: 0, next: 0, log: Arc::clone(&log) }, log)
    };
    let (source, log) = trace();
    let (reports, end_ns) = in_virtual_time(vec![source], 4);
    let log = log.lock().unwrap().clone();
    assert_eq!(log.iter().map(|l| l.1).collect::<Vec<_>>(), times_ns);
    assert!(log.iter().all(|l| l.2 > l.1), "{log:?}");
    assert_eq!((reports[0].ended, end_ns), (Ended::Ops, log[5].2));

    let (source, log) = trace();
    let reports = in_real_time(vec![source], 4);
    let log = log.lock().unwrap().clone();
    assert!(log.iter().map(|l| l.0).eq(ops.iter().map(|o| o.1)), "{log:?}");
    assert!(log.iter().zip(times_ns).all(|(l, due_ns)| l.1 >= due_ns && l.2 >= l.1), "{log:?}");
    assert_eq!(reports[0].ended, Ended::Ops);
}

/// Sequential writes with a pause after each, and a flush after every third, like fio's `thinktime` and `fsync=3`.
#[derive(Debug)]
struct Job {
    writes: u64,
    think_ns: u64,
    issued: u64,
    since_flush: u64,
    ready_ns: u64,
    log: Log,
}

impl Source for Job {
    type Token = ();

    fn start(&mut self, start_ns: u64) {
        self.ready_ns = start_ns;
    }

    fn next(&mut self, now_ns: u64, free: usize) -> Next<()> {
        if free == 0 {
            return Next::WaitCompletion;
        }
        let op = if self.since_flush == 3 {
            Op::FLUSH
        } else if self.issued == self.writes {
            return Next::Done;
        } else {
            write(self.issued)
        };
        if now_ns < self.ready_ns {
            return Next::WaitUntil(self.ready_ns);
        }
        self.issued += u64::from(op.kind == OpKind::Write);
        self.since_flush = if op.kind == OpKind::Write { self.since_flush + 1 } else { 0 };
        self.log.lock().unwrap().push((op, now_ns, 0));
        Next::Issue(Issue { op, due_ns: None, token: () })
    }

    fn completed(&mut self, _: &Op, (): (), _: Outcome, now_ns: u64) {
        self.ready_ns = now_ns + self.think_ns;
        self.log.lock().unwrap().last_mut().unwrap().2 = now_ns;
    }
}

#[test]
fn a_job_thinks_after_each_operation_and_flushes_after_some_writes() {
    let job = || {
        let log = Log::default();
        let source = Job {
            writes: 7,
            think_ns: 50_000,
            issued: 0,
            since_flush: 0,
            ready_ns: 0,
            log: Arc::clone(&log),
        };
        (source, log)
    };
    let check = |log: &Log, exact: bool| {
        let log = log.lock().unwrap();
        let kinds: String = log.iter().map(|l| if l.0 == Op::FLUSH { 'f' } else { 'w' }).collect();
        assert_eq!(kinds, "wwwfwwwfw");
        for pair in log.windows(2) {
            let paused_ns = pair[1].1 - pair[0].2;
            assert!(paused_ns == 50_000 || !exact && paused_ns > 50_000, "{pair:?}");
        }
    };
    let (source, log) = job();
    in_virtual_time(vec![source], 1);
    check(&log, true);
    let (source, log) = job();
    in_real_time(vec![source], 1);
    check(&log, false);
}

/// Reads and writes, each kind at its own rate.
#[derive(Debug)]
struct Rates {
    /// Gap, next due time, and number of remaining operations, by kind.
    kinds: [(OpKind, u64, u64, u64); 2],
    start_ns: u64,
}

impl Source for Rates {
    type Token = ();

    fn start(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    fn next(&mut self, now_ns: u64, free: usize) -> Next<()> {
        let left = self.kinds.iter_mut().filter(|kind| kind.3 > 0);
        let Some(first) = left.min_by_key(|kind| kind.2) else { return Next::Done };
        let due_ns = self.start_ns + first.2;
        if due_ns > now_ns {
            return Next::WaitUntil(due_ns);
        }
        if free == 0 {
            return Next::WaitCompletion;
        }
        (first.2, first.3) = (first.2 + first.1, first.3 - 1);
        let op = Op { kind: first.0, ..write(first.3) };
        Next::Issue(Issue { op, due_ns: Some(due_ns), token: () })
    }

    fn completed(&mut self, _: &Op, (): (), _: Outcome, _: u64) {}
}

#[test]
fn kinds_have_rates_of_their_own() {
    let kinds = [(OpKind::Read, 10_000, 0, 100), (OpKind::Write, 100_000, 0, 10)];
    let (reports, end_ns) = in_virtual_time(vec![Rates { kinds, start_ns: 0 }], 8);
    assert_eq!(reports[0].moved_bytes, 110 * 4096);
    // The last read is due at 990 µs, the last write at 900 µs.
    assert!((990_000..1_000_000).contains(&end_ns), "{end_ns}");
    let reports = in_real_time(vec![Rates { kinds, start_ns: 0 }], 8);
    assert_eq!(reports[0].moved_bytes, 110 * 4096);
}

/// A log with group commit. Each client appends a record and waits until it is durable. The first client that finds
/// no write in flight writes all waiting records in one operation.
#[derive(Debug, Default)]
struct GroupLog {
    tail_bytes: u64,
    /// Clients whose records wait for the next write, and those in the write in flight.
    waiting: Vec<usize>,
    writing: Vec<usize>,
    /// Durable records of each client.
    durable: BTreeMap<usize, u64>,
    writes: Vec<Op>,
}

#[derive(Debug)]
struct Client {
    log: Arc<Mutex<GroupLog>>,
    number: usize,
    records: u64,
    appended: u64,
}

impl Source for Client {
    type Token = ();
    const WAITS_FOR_OTHERS: bool = true;

    fn start(&mut self, _: u64) {}

    fn next(&mut self, _: u64, _: usize) -> Next<()> {
        let mut log = self.log.lock().unwrap();
        let durable = log.durable.get(&self.number).copied().unwrap_or(0);
        if durable == self.appended {
            if self.appended == self.records {
                return Next::Done;
            }
            self.appended += 1;
            log.waiting.push(self.number);
        }
        if !log.writing.is_empty() || log.waiting.is_empty() {
            return Next::WaitCompletion;
        }
        log.writing = std::mem::take(&mut log.waiting);
        let len_bytes = log.writing.len() as u32 * 512;
        let op = Op { offset_bytes: log.tail_bytes, len_bytes, kind: OpKind::Write, fua: true };
        log.tail_bytes += u64::from(len_bytes);
        log.writes.push(op);
        Next::Issue(Issue { op, due_ns: None, token: () })
    }

    fn completed(&mut self, _: &Op, (): (), outcome: Outcome, _: u64) {
        assert_eq!(outcome, Outcome::Succeeded);
        let mut log = self.log.lock().unwrap();
        for client in std::mem::take(&mut log.writing) {
            *log.durable.entry(client).or_default() += 1;
        }
    }
}

#[test]
fn a_log_with_group_commit_makes_every_record_durable_once() {
    const RECORDS: u64 = 200;
    let clients = || {
        let log = Arc::new(Mutex::new(GroupLog::default()));
        let client = |number| {
            let log = Arc::clone(&log);
            Client { log, number, records: RECORDS, appended: 0 }
        };
        ((0..4).map(client).collect::<Vec<_>>(), log)
    };
    let check = |log: &GroupLog| {
        assert_eq!(log.durable, (0..4).map(|client| (client, RECORDS)).collect());
        let mut tail_bytes = 0;
        for write in &log.writes {
            assert_eq!(write.offset_bytes, tail_bytes);
            tail_bytes += u64::from(write.len_bytes);
        }
        assert_eq!(tail_bytes, 4 * RECORDS * 512);
    };
    let virtual_writes = || {
        let (sources, log) = clients();
        let (reports, _) = in_virtual_time(sources, 1);
        assert!(reports.iter().all(|report| report.ended == Ended::Ops));
        let log = log.lock().unwrap();
        check(&log);
        log.writes.clone()
    };
    let writes = virtual_writes();
    assert!(writes.len() as u64 <= 3 * RECORDS, "records are written in groups: {}", writes.len());
    assert_eq!(writes, virtual_writes(), "in virtual time it is the same each time");
    let (sources, log) = clients();
    in_real_time(sources, 1);
    check(&log.lock().unwrap());
}
