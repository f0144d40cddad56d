//! Final flushes of a worker: their timeout, and the end of a worker whose flush hangs.

use iodyno_drive::clock::Clock;
use iodyno_drive::engine::nbd::NbdMedium;
use iodyno_drive::{CellPlan, Medium, TargetPlan, Unobserved, drive_cell};
use iodyno_measure::{Cell, ClassStats, Ended};
use iodyno_nbd::server::{
    Answer, DeferredReply, Endpoint, Export, Exports, Io, Limits, Peer, Server, ServerConfig,
    Session,
};
use iodyno_nbd::{Info, Kind};
use iodyno_units::OpKind;
use iodyno_workload::{CellSpec, Spec};
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// Delays all requests of one kind, and answers all others at once.
#[derive(Clone)]
struct Stalls {
    kind: Kind,
    /// Delay of the answer; `None` if it never comes.
    after: Option<Duration>,
    kept: Arc<Mutex<Vec<DeferredReply>>>,
}

impl Export for Stalls {
    fn info(&self) -> Info {
        Info::new(MIB)
    }

    fn open(&self, _: &Peer) -> io::Result<Box<dyn Session>> {
        Ok(Box::new(self.clone()))
    }
}

impl Session for Stalls {
    fn submit(&mut self, io: Io<'_>) {
        if io.command().kind != self.kind {
            return io.answer(&Answer::Done);
        }
        match self.after {
            None => self.kept.lock().unwrap().push(io.later()),
            Some(after) => {
                std::thread::sleep(after);
                io.answer(&Answer::Done);
            }
        }
    }
}

/// Runs two workers that write a little. Each issues `flushes` flushes at its end, and `patience` is the timeout of
/// each.
fn drive(stalls: (Kind, Option<Duration>), flushes: u32, limits: &str, patience: Duration) -> Cell {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("nbd.sock");
    let exports = Arc::new(Exports::default());
    let (kind, after) = stalls;
    exports.insert("", Arc::new(Stalls { kind, after, kept: Arc::default() }));
    let endpoints = [Endpoint::Unix(socket.clone())];
    // It does not wait for requests that hang.
    let config = ServerConfig {
        limits: Limits { farewell: Duration::ZERO, ..Limits::default() },
        ..ServerConfig::default()
    };
    let server = Server::start(exports, &endpoints, config).unwrap();
    let spec = Spec::from_toml(&format!(
        "schema = 1\nthreads = 2\ndepth = 4\nblock = \"4KiB\"\n[mix]\nwrite = 1\n\
         [write]\nflush_at_end = {flushes}\n[arrivals]\nkind = \"closed\"\nthink_time = \"5ms\"\n[limits]\nramp = \"0s\"\n{limits}"
    ));
    let cell = CellSpec { seed: 1, ..CellSpec::new("job", spec.unwrap()) };
    let medium = Medium::Nbd(NbdMedium {
        uri: format!("nbd+unix:///?socket={}", socket.display()).parse().unwrap(),
        capacity_bytes: MIB,
        size_bytes: MIB,
        read_only: false,
    });
    let target = TargetPlan {
        name: "target".to_owned(),
        medium,
        align_bytes: 512,
        verify: None,
        beside: None,
        number: 0,
    };
    let mut plan = CellPlan { clock: Clock::new(), ..CellPlan::new(cell, vec![target]) };
    plan.flush_ns = patience.as_nanos() as u64;
    let cells = drive_cell(&plan, &Arc::new(AtomicBool::new(false)), &mut Unobserved).unwrap();
    drop(server);
    cells.into_iter().next().unwrap()
}

const SOON: Duration = Duration::from_millis(300);

/// A hanging flush ends cells with and without a time limit. Written bytes are counted, and the flushes in flight are
/// reported as hung.
#[test]
fn a_flush_that_hangs_ends_the_cell() {
    for limits in ["ops = 100", "time = \"200ms\""] {
        let cell = drive((Kind::Flush, None), 3, limits, SOON);
        assert_eq!(cell.ended, Ended::Hung, "{limits}");
        let hung = cell.evidence.hung.unwrap();
        assert_eq!((hung.ops, hung.stuck_workers), (2, 0), "{limits}");
        assert!(hung.oldest_ns >= 300_000_000, "{hung:?}");
        let total = cell.total();
        let ops = |kind| total.class(kind).map_or(0, ClassStats::ops);
        assert_eq!(ops(OpKind::Flush), 0);
        if limits == "ops = 100" {
            assert_eq!(ops(OpKind::Write), 100);
        } else {
            assert!(ops(OpKind::Write) > 10);
        }
    }
}

/// Writes that hang before the flushes are issued have the usual timeout, not that of flushes.
#[test]
fn writes_that_hang_before_it_end_the_cell() {
    let cell = drive((Kind::Write, None), 1, "time = \"200ms\"", Duration::from_secs(3600));
    assert_eq!(cell.ended, Ended::Hung);
    assert_eq!(cell.evidence.hung.unwrap().ops, 8);
}

/// Each completed flush gives the next one its full timeout.
#[test]
fn slow_flushes_do_not_end_the_cell() {
    let each = Duration::from_millis(200);
    let patience = Duration::from_millis(900);
    let cell = drive((Kind::Flush, Some(each)), 6, "ops = 100", patience);
    assert_eq!((cell.ended, cell.evidence.hung), (Ended::Ops, None));
    assert_eq!(cell.total().class(OpKind::Flush).unwrap().ops(), 12);
    assert!(cell.window_ns >= 1_200_000_000, "{}", cell.window_ns);
}
