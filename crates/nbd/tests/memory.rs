//! The memory limit of all connections together holds whatever clients do, and locks no good client out.

use crate::common;

use common::{Delayed, Lab, Manner, Raw, pattern_at};
use iodyno_nbd::ram::Ram;
use iodyno_nbd::{
    Answer, CmdFlags, DeferredReply, Errno, Export, Info, Io, Kind, Limits, Peer, ServerConfig,
    Session,
};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// Number of clients that read nothing.
const CLIENTS: u64 = 20;
/// Number of requests of each client, 1 MiB each.
const REQUESTS: u64 = 40;

fn limited(stall: Duration) -> ServerConfig {
    let limits =
        Limits { memory_bytes: 4 * MIB as usize, own_bytes: 64 << 10, stall, ..Limits::default() };
    ServerConfig { limits, ..ServerConfig::default() }
}

/// Clients that request much and read none of it.
fn clients_that_never_read(lab: &Lab) -> Vec<Raw> {
    let clients = (0..CLIENTS).map(|_| {
        let mut client = lab.raw().agreed();
        for cookie in 0..REQUESTS {
            client.request(Kind::Read as u16, cookie, MIB, MIB as u32);
        }
        client
    });
    clients.collect()
}

/// Twenty clients that never read hold as much memory as the server's limit, not twenty times a connection's limit.
/// Small requests of other clients continue, and once the twenty read, they get everything.
#[test]
fn clients_that_never_read_share_one_limit() {
    let export = Delayed::new(Manner::Each);
    let lab = Lab::with(export.clone(), limited(Duration::from_secs(3600)));
    let mut deaf = clients_that_never_read(&lab);
    let submitted = || export.submitted.load(Ordering::SeqCst);
    lab.eventually("the limit", |_| submitted() >= 4);
    let mut before = 0;
    lab.eventually("no more", |_| {
        std::thread::sleep(Duration::from_millis(100));
        std::mem::replace(&mut before, submitted()) == submitted()
    });
    // A socket takes less than 1 MiB of answers.
    assert!(submitted() <= 4 + CLIENTS, "{} requests of 1 MiB at 4 MiB", submitted());
    let mut good = lab.client();
    let mut bytes = vec![0; 16 << 10];
    for n in 0..50 {
        good.read(5 * MIB + n * 512, &mut bytes).unwrap();
        assert!(bytes == pattern_at(5 * MIB + n * 512, bytes.len()));
    }
    std::thread::scope(|scope| {
        for client in &mut deaf {
            scope.spawn(|| {
                for _ in 0..REQUESTS {
                    assert_eq!(client.reply().0, 0);
                    assert!(client.receive(MIB as usize) == pattern_at(MIB, MIB as usize));
                }
            });
        }
    });
    assert_eq!(submitted(), CLIENTS * REQUESTS + 50);
}

/// If clients hold all the memory and take nothing, the server ends them, so that a good client's large request gets
/// its turn. A client that takes its answers slowly is not ended.
#[test]
fn a_stalled_client_is_ended() {
    for lab in [
        Lab::with(Delayed::new(Manner::Together), limited(Duration::from_millis(300))),
        Lab::with(Ram::new(8 * MIB).unwrap(), limited(Duration::from_millis(300))),
    ] {
        let deaf = clients_that_never_read(&lab);
        // Half of a write holds as much memory as a whole one.
        let mut halves: Vec<Raw> = (0..4).map(|_| lab.raw().agreed()).collect();
        for client in &mut halves {
            client.request(Kind::Write as u16, 1, 0, MIB as u32);
            client.send(&[7; 1000]);
        }
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut slow = lab.client();
                let mut bytes = vec![0; 512 << 10];
                while !over.load(Ordering::Relaxed) {
                    slow.read(2 * MIB, &mut bytes).unwrap();
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
            let mut good = lab.client();
            let mut bytes = vec![0; 2 * MIB as usize];
            for _ in 0..5 {
                good.read(MIB, &mut bytes).unwrap();
                good.write(4 * MIB, &bytes, CmdFlags::NONE).unwrap();
            }
            over.store(true, Ordering::Relaxed);
        });
        drop((deaf, halves));
        lab.eventually("all gone", |s| s.counters().connections == 0);
    }
}

/// A request that is larger than the whole budget runs alone.
#[test]
fn a_request_beyond_the_limit_is_served() {
    let lab = Lab::with(Ram::new(32 * MIB).unwrap(), limited(Duration::from_secs(3600)));
    std::thread::scope(|scope| {
        for n in 0..3 {
            let lab = &lab;
            scope.spawn(move || {
                let mut client = lab.client();
                let bytes = pattern_at(n, 8 * MIB as usize);
                let mut back = vec![0; bytes.len()];
                for _ in 0..3 {
                    client.write(n * 8 * MIB, &bytes, CmdFlags::NONE).unwrap();
                    client.read(n * 8 * MIB, &mut back).unwrap();
                    assert!(back == bytes);
                }
            });
        }
    });
}

/// Clients that leave requests behind do not get new memory by connecting again.
#[test]
fn requests_left_behind_count() {
    let export = Delayed::new(Manner::Held);
    let lab = Lab::with(export.clone(), limited(Duration::from_secs(3600)));
    for _ in 0..200 {
        let Ok(stream) = std::os::unix::net::UnixStream::connect(&lab.socket) else { break };
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut client = Raw(stream);
        let mut greeting = [0; 18];
        if std::io::Read::read_exact(&mut client.0, &mut greeting).is_err() {
            // Turned away.
            break;
        }
        client.send(&[&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 1, 0, 0, 0, 0]].concat());
        client.receive(10);
        let before = export.submitted.load(Ordering::SeqCst);
        client.request(Kind::Read as u16, 1, MIB, 60 << 10);
        lab.eventually("taken", |_| export.submitted.load(Ordering::SeqCst) > before);
    }
    lab.eventually("all gone", |s| s.counters().connections == 0);
    let left = export.submitted.load(Ordering::SeqCst) * (60 << 10);
    assert!(left <= 5 * MIB, "{left} bytes are held");
    assert!(lab.server().counters().turned_away > 0);
    export.release();
    lab.eventually("free memory", |_| iodyno_nbd::client::Blocking::connect(&lab.uri()).is_ok());
    lab.serves();
}

/// Small requests are each within a connection's own share; together they exceed it.
#[test]
fn small_requests_add_up() {
    let submitted = |limits: Limits, clients: u64, (kind, at, len): (Kind, u64, u32)| {
        let export = Delayed::new(Manner::Held);
        let lab = Lab::with(export.clone(), ServerConfig { limits, ..ServerConfig::default() });
        let mut asking: Vec<Raw> = (0..clients).map(|_| lab.raw().agreed()).collect();
        for client in &mut asking {
            (0..120).for_each(|cookie| client.request(kind as u16, cookie, at, len));
        }
        let submitted = || export.submitted.load(Ordering::SeqCst);
        let mut before = 0;
        lab.eventually("no more", |_| {
            std::thread::sleep(Duration::from_millis(100));
            std::mem::replace(&mut before, submitted()) == submitted() && before > 0
        });
        let most = submitted();
        export.release();
        for client in &mut asking {
            for _ in 0..120 {
                assert_eq!(client.reply().0, 0);
                client.receive(len as usize);
            }
        }
        most
    };
    let limits = limited(Duration::from_secs(3600)).limits;
    let most = submitted(limits, 10, (Kind::Read, MIB, 16 << 10));
    assert!(most * (16 << 10) <= 4 * MIB + 10 * (64 << 10), "{most} requests of 16 KiB at 4 MiB");
    // One without a payload takes memory, too.
    let limits = Limits { memory_bytes: 0, own_bytes: 1 << 10, ..limits };
    assert!(submitted(limits, 1, (Kind::Flush, 0, 0)) < 20);
}

/// A server stops although a client waits for memory that no answer will free.
#[test]
fn stopping_does_not_wait_for_memory() {
    let export = Delayed::new(Manner::Held);
    let mut config = limited(Duration::from_secs(3600));
    config.limits.farewell = Duration::from_secs(3600);
    let mut lab = Lab::with(export.clone(), config);
    let mut holds = lab.raw().agreed();
    (0..3).for_each(|cookie| holds.request(Kind::Read as u16, cookie, MIB, MIB as u32));
    lab.eventually("taken", |_| export.submitted.load(Ordering::SeqCst) == 3);
    drop(holds);
    lab.eventually("gone", |s| s.counters().connections == 0);
    let mut waits = lab.raw().agreed();
    waits.request(Kind::Read as u16, 9, MIB, MIB as u32);
    std::thread::sleep(Duration::from_millis(50));
    let server = lab.server.take().unwrap();
    let (sender, stopped) = std::sync::mpsc::channel();
    let stopper = std::thread::spawn(move || {
        server.stop();
        let _ = sender.send(());
    });
    stopped.recv_timeout(Duration::from_secs(20)).expect("it stops");
    stopper.join().unwrap();
    assert!(waits.is_closed());
    assert_eq!(export.submitted.load(Ordering::SeqCst), 3);
    export.drop_deferred();
}

/// A client that waits for memory and takes no answers blocks no other client.
#[test]
fn a_client_that_waits_and_takes_nothing_blocks_no_other() {
    let lab = Lab::with(Delayed::new(Manner::Each), limited(Duration::from_millis(300)));
    let holders = clients_that_never_read(&lab);
    // The first block is answered at once, by the connection's thread: it is held up where it sends that.
    let mut waits: Vec<Raw> = (0..3).map(|_| lab.raw().agreed()).collect();
    for client in &mut waits {
        (0..200).for_each(|cookie| client.request(Kind::Read as u16, cookie, 0, 60 << 10));
    }
    thread::sleep(Duration::from_millis(200));
    let mut good = lab.raw().agreed();
    for cookie in 0..3 {
        good.request(Kind::Read as u16, cookie, MIB, 2 * MIB as u32);
        assert_eq!(good.reply(), (0, cookie));
        assert!(good.receive(2 * MIB as usize) == pattern_at(MIB, 2 * MIB as usize));
    }
    drop((holders, waits));
}

/// An export that refuses writes, some within the call and some deferred.
struct Refuses;

impl Export for Refuses {
    fn info(&self) -> Info {
        Info::new(32 * MIB)
    }

    fn open(&self, _: &Peer) -> io::Result<Box<dyn Session>> {
        Ok(Box::new(Self))
    }
}

impl Session for Refuses {
    fn submit(&mut self, io: Io<'_>) {
        match io.command().kind {
            Kind::Write => io.later().answer(&Answer::Failed(Errno::NoSpace)),
            Kind::Read => io.fill(|to| to.fill(1)),
            _ => io.answer(&Answer::Done),
        }
    }
}

/// A client that has got its answer and sends nothing more holds no memory.
#[test]
fn requests_refused_at_once_hold_no_memory() {
    let lab = Lab::with(Refuses, limited(Duration::from_secs(3600)));
    let mut idle: Vec<Raw> = (0..8).map(|_| lab.raw().agreed()).collect();
    for client in &mut idle {
        client.request(Kind::Write as u16, 1, 0, MIB as u32);
        client.send(&vec![7; MIB as usize]);
        assert_eq!(client.reply(), (28, 1));
    }
    let mut good = lab.raw().agreed();
    good.request(Kind::Read as u16, 2, 0, 3 * MIB as u32);
    assert_eq!(good.reply(), (0, 2));
    good.receive(3 * MIB as usize);
    drop(idle);
}

/// One thread answers one request at a time, the oldest first, each after a pause. Reads of the first block are
/// answered at once.
struct Paced(mpsc::Sender<DeferredReply>);

impl Paced {
    fn new(pause: Duration) -> Self {
        let (give, take) = mpsc::channel::<DeferredReply>();
        thread::spawn(move || {
            for later in take {
                thread::sleep(pause);
                later.fill(|to| to.fill(1));
            }
        });
        Self(give)
    }
}

impl Export for Paced {
    fn info(&self) -> Info {
        Info::new(32 * MIB)
    }

    fn open(&self, _: &Peer) -> io::Result<Box<dyn Session>> {
        Ok(Box::new(Self(self.0.clone())))
    }
}

impl Session for Paced {
    fn submit(&mut self, io: Io<'_>) {
        match (io.command().kind, io.command().offset_bytes) {
            (Kind::Read, 0) => io.fill(|to| to.fill(1)),
            _ => self.0.send(io.later()).unwrap(),
        }
    }
}

/// The server does not end clients that make progress, however long they hold memory that others wait for: a slow
/// upload, a slow download, and a client that always has many small requests in flight.
#[test]
fn slow_clients_are_not_stalled_clients() {
    const STALL: Duration = Duration::from_millis(1500);
    let limits = Limits {
        memory_bytes: 8 * MIB as usize,
        own_bytes: 64 << 10,
        stall: STALL,
        ..Limits::default()
    };
    let config = ServerConfig { limits, ..ServerConfig::default() };
    let lab = Lab::with(Paced::new(Duration::from_millis(5)), config);
    let pace = Duration::from_millis(70);
    let pieces = 48;
    let [mut up, mut down, mut steady, mut large] = [(); 4].map(|()| lab.raw().agreed());
    thread::scope(|scope| {
        scope.spawn(move || {
            let piece = vec![7; 64 << 10];
            up.request(Kind::Write as u16, 1, MIB, pieces * (64 << 10));
            for _ in 0..pieces {
                up.send(&piece);
                thread::sleep(pace);
            }
            assert_eq!(up.reply(), (0, 1));
        });
        scope.spawn(move || {
            down.request(Kind::Read as u16, 2, 0, pieces * (64 << 10));
            assert_eq!(down.reply(), (0, 2));
            for _ in 0..pieces {
                down.receive(64 << 10);
                thread::sleep(pace);
            }
        });
        scope.spawn(move || {
            let mut answers = 0;
            let until = Instant::now() + 2 * STALL;
            for asked in 1.. {
                steady.request(Kind::Write as u16, 3, 2 * MIB, 4096);
                steady.send(&[7; 2048]);
                if asked > 40 {
                    assert_eq!(steady.reply(), (0, 3));
                    answers += 1;
                }
                steady.send(&[7; 2048]);
                if Instant::now() > until {
                    (answers..asked).for_each(|_| assert_eq!(steady.reply(), (0, 3)));
                    break;
                }
            }
        });
        scope.spawn(move || {
            thread::sleep(STALL / 10);
            large.request(Kind::Read as u16, 4, 0, 8 * MIB as u32);
            assert_eq!(large.reply(), (0, 4));
            large.receive(8 * MIB as usize);
        });
    });
}
