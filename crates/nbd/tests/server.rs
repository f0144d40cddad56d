//! The server under good clients and bad ones. After each fault of a client, a good client must still get its
//! bytes.

use crate::common;

use common::{Delayed, Lab, Manner, Raw, pattern_at};
use iodyno_nbd::client::{self, Config, Connection, Wait};
use iodyno_nbd::ram::Ram;
use iodyno_nbd::wire::{STATE_HOLE, STATE_ZERO};
use iodyno_nbd::{
    Answer, CmdFlags, DeferredReply, Endpoint, Export, Exports, Info, Io, Kind, Limits, Peer,
    Server, ServerConfig, Session,
};
use proptest::prelude::*;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SIZE: u64 = 300 << 10;

#[derive(Clone, Debug)]
enum Deed {
    Write(u64, u64, u8),
    Zero(u64, u64, bool),
    Trim(u64, u64),
    Read(u64, u64),
    Status(u64, u64),
}

fn any_deed() -> impl Strategy<Value = Deed> {
    let at = prop_oneof![0..SIZE, (0..5u64).prop_map(|n| n << 16)];
    let len = prop_oneof![1..100u64, 1..SIZE, Just(1 << 16)];
    (at, len, 1u8.., 0..5, any::<bool>()).prop_map(|(at, len, byte, what, flag)| {
        let len = len.min(SIZE - at).max(1);
        match what {
            0 => Deed::Write(at, len, byte),
            1 => Deed::Zero(at, len, flag),
            2 => Deed::Trim(at, len),
            3 => Deed::Status(at, len),
            _ => Deed::Read(at, len),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The RAM disk over the wire equals a vector of bytes. A trimmed range reads as it was or as zero.
    #[test]
    fn a_ram_disk_is_a_vector(deeds in prop::collection::vec(any_deed(), 1..40), chunks in any::<bool>()) {
        let disk = Ram::new(SIZE).unwrap();
        let lab = Lab::new(disk);
        let config = Config { structured: chunks, block_status: chunks, ..Config::default() };
        let mut client = client::Blocking::connect_with(&lab.uri(), &config).unwrap();
        let mut model = vec![0u8; SIZE as usize];
        for deed in deeds {
            match deed {
                Deed::Write(at, len, byte) => {
                    let bytes: Vec<u8> = (0..len).map(|i| byte ^ (i / 3) as u8).collect();
                    client.write(at, &bytes, CmdFlags::FUA).unwrap();
                    model[at as usize..(at + len) as usize].copy_from_slice(&bytes);
                }
                Deed::Zero(at, len, keep) => {
                    let flags = if keep { CmdFlags::NO_HOLE } else { CmdFlags::FAST_ZERO };
                    client.command(Kind::WriteZeroes, flags, at, len as u32).unwrap();
                    model[at as usize..(at + len) as usize].fill(0);
                }
                Deed::Trim(at, len) => {
                    client.command(Kind::Trim, CmdFlags::NONE, at, len as u32).unwrap();
                    let range = at as usize..(at + len) as usize;
                    let mut now = vec![0; len as usize];
                    client.read(at, &mut now).unwrap();
                    for (n, m) in now.iter().zip(&model[range.clone()]) {
                        prop_assert!(*n == 0 || n == m);
                    }
                    model[range].copy_from_slice(&now);
                }
                Deed::Read(at, len) => {
                    let mut bytes = vec![1; len as usize];
                    client.read(at, &mut bytes).unwrap();
                    prop_assert!(bytes == model[at as usize..(at + len) as usize]);
                }
                Deed::Status(at, len) if chunks => {
                    let mut at = at as usize;
                    for e in client.block_status(at as u64, len as u32, CmdFlags::NONE).unwrap() {
                        let bytes = &model[at..at + e.len_bytes as usize];
                        prop_assert!(e.state == 0 || bytes.iter().all(|b| *b == 0));
                        prop_assert!(e.state == 0 || e.state == STATE_HOLE | STATE_ZERO);
                        at += e.len_bytes as usize;
                    }
                }
                Deed::Status(..) => {}
            }
        }
    }
}

/// Many reads of all sizes at once over one connection return the pattern.
fn pipelined(lab: &Lab, structured: bool, depth: u32, n: u32) {
    let config = Config { depth, structured, ..Config::default() };
    let mut connection = Connection::connect(&lab.uri(), &config).unwrap();
    let sizes = [1u32, 512, 4096, 5000, 65_536, 300_000];
    let mut buffers = vec![vec![0u8; 300_000]; depth as usize];
    let mut asked = vec![(0u64, 0u32); depth as usize];
    let (mut started, mut finished) = (0, 0);
    let mut free: Vec<u32> = (0..depth).collect();
    while finished < n {
        while started < n
            && let Some(slot) = free.pop()
        {
            let len = sizes[started as usize % sizes.len()];
            let offset = u64::from(started * 7919 % 1000) * 512;
            let buffer = &mut buffers[slot as usize];
            buffer.fill(0xEE);
            asked[slot as usize] = (offset, len);
            // SAFETY: each slot has a buffer of its own, longer than any request, that outlives the
            // connection's use of it.
            unsafe {
                let to = buffer.as_mut_ptr();
                connection.queue(slot, Kind::Read, CmdFlags::NONE, offset, len, to);
            }
            started += 1;
        }
        connection.turn(Wait::One).unwrap();
        connection.drain(|slot, result| {
            result.unwrap();
            let (offset, len) = asked[slot as usize];
            let bytes = &buffers[slot as usize];
            assert!(bytes[..len as usize] == pattern_at(offset, len as usize));
            assert!(bytes[len as usize..].iter().all(|b| *b == 0xEE));
            free.push(slot);
            finished += 1;
        });
    }
}

#[test]
fn answers_come_later_and_out_of_order() {
    for manner in [Manner::Each, Manner::Together] {
        for structured in [true, false] {
            pipelined(&Lab::new(Delayed::new(manner)), structured, 50, 600);
        }
    }
}

#[test]
fn a_ram_disk_answers_many_at_once() {
    let disk = Ram::new(1 << 20).unwrap();
    let lab = Lab::new(disk);
    lab.client().write(0, &pattern_at(0, 1 << 20), CmdFlags::NONE).unwrap();
    for structured in [true, false] {
        pipelined(&lab, structured, 64, 600);
    }
}

/// A client that reads nothing must not block the thread that answers all clients.
#[test]
fn a_slow_client_blocks_no_other() {
    let export = Delayed::new(Manner::Each);
    let limits = Limits { in_flight_bytes: 4 << 20, requests: 64, ..Limits::default() };
    let lab = Lab::with(export.clone(), ServerConfig { limits, ..ServerConfig::default() });
    let mut slow = lab.raw().agreed();
    for cookie in 0..200 {
        slow.request(Kind::Read as u16, cookie, 1 << 20, 1 << 20);
    }
    // It is read as far as the limits allow, and no further.
    lab.eventually("five requests", |_| export.submitted.load(Ordering::SeqCst) >= 4);
    pipelined(&lab, true, 20, 100);
    let submitted = export.submitted.load(Ordering::SeqCst) - 100;
    assert!(submitted <= 10, "{submitted} requests of 1 MiB at a limit of 4 MiB");
    // When it reads at last, it gets everything.
    let mut cookies = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let (code, cookie) = slow.reply();
        assert_eq!(code, 0);
        assert!(slow.receive(1 << 20) == pattern_at(1 << 20, 1 << 20));
        cookies.insert(cookie);
    }
    assert_eq!(cookies.len(), 200);
}

#[test]
fn requests_in_flight_are_limited() {
    let export = Delayed::new(Manner::Held);
    let limits = Limits { requests: 10, ..Limits::default() };
    let lab = Lab::with(export.clone(), ServerConfig { limits, ..ServerConfig::default() });
    let mut client = lab.raw().agreed();
    for cookie in 0..30 {
        client.request(Kind::Flush as u16, cookie, 0, 0);
    }
    lab.eventually("the limit", |_| export.submitted.load(Ordering::SeqCst) == 10);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(export.submitted.load(Ordering::SeqCst), 10);
    export.release();
    let mut cookies: Vec<u64> = (0..30).map(|_| client.reply().1).collect();
    cookies.sort_unstable();
    assert_eq!(cookies, (0..30).collect::<Vec<_>>());
}

/// Clients disconnect before all replies are sent. In this situation, nbdkit 1.32 aborts, and with it all its exports.
#[test]
fn a_client_may_leave_with_replies_under_way() {
    let delayed = Delayed::new(Manner::Each);
    for lab in [Lab::new(Ram::new(1 << 30).unwrap()), Lab::new(delayed)] {
        for _ in 0..3 {
            let mut client = lab.raw().agreed();
            for cookie in 0..86 {
                client.request(Kind::Read as u16, cookie, 0, 1 << 20);
            }
            drop(client);
        }
        lab.serves();
        lab.eventually("all gone", |s| s.counters().connections == 0);
    }
}

#[test]
fn a_write_that_its_client_abandons_is_not_applied() {
    let lab = Lab::new(Ram::new(1 << 20).unwrap());
    for (len, sent) in [(4096, 4095), (4096, 0), (16_000, 1)] {
        let mut client = lab.raw().agreed();
        client.request(Kind::Write as u16, 1, 0, len);
        client.send(&vec![7; sent]);
        drop(client);
    }
    // One so large that it is received straight to its place may be applied in part; it must not
    // harm anything else.
    let mut client = lab.raw().agreed();
    client.request(Kind::Write as u16, 1, 65_536, 200_000);
    client.send(&vec![7; 100_000]);
    drop(client);
    lab.eventually("all gone", |s| s.counters().connections == 0);
    let mut client = lab.client();
    let mut bytes = vec![1; 1 << 20];
    client.read(0, &mut bytes).unwrap();
    assert!(bytes[..65_536].iter().all(|b| *b == 0));
    assert!(bytes[65_536..].iter().all(|b| *b == 0 || *b == 7));
    assert!(bytes[65_536 + 100_000..].iter().all(|b| *b == 0));
    // The applied part is allocated, so that no later write can bring it back from a hole.
    let first = client.block_status(65_536, 65_536, CmdFlags::NONE).unwrap()[0];
    assert_eq!(first.state == 0, bytes[65_536..131_072].contains(&7));
}

#[test]
fn refused_requests_leave_the_connection_in_step() {
    let lab = Lab::new(Ram::new(40 << 20).unwrap());
    let mut client = lab.raw().agreed();
    let end = 40 << 20;
    let (read, write, trim) = (0, 1, 4);
    for (command, offset, len, code) in [
        (read, end, 512, 22),
        (read, u64::MAX - 5, 512, 22),
        (write, end, 512, 28),
        (write, end - 512, 4096, 28),
        (write, u64::MAX, u32::from(u16::MAX), 28),
        (write, 0, 33 << 20, 22),
        (trim, end, 1, 22),
        (read, 0, 33 << 20, 75),
        (99, 0, 0, 22),
        (8, 0, 0, 22),
        (7, 0, 512, 22),
        (3, 1, 0, 22),
        (write, 0, 0, 0),
        (read, 0, 0, 0),
        (trim, end, 0, 0),
        (6, 0, 40 << 20, 0),
    ] {
        client.request(command, 77, offset, len);
        if command == write {
            client.send(&vec![9; len as usize]);
        }
        assert_eq!(client.reply(), (code, 77), "command {command} at {offset} for {len}");
    }
    let counters = lab.server().counters();
    lab.eventually("twelve refusals", |s| s.counters().refused == 12);
    assert_eq!(counters.violations, 0);
    let mut bytes = [1; 4096];
    lab.client().read(end - 4096, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 4096]);
}

#[test]
fn a_stream_out_of_step_ends_the_connection() {
    let lab = Lab::new(Ram::new(1 << 20).unwrap());
    let mut magic = lab.raw().agreed();
    magic.send(&[0; 28]);
    assert!(magic.is_closed());
    let mut monster = lab.raw().agreed();
    monster.request(1, 0, 0, 0xffff_fff0);
    assert!(monster.is_closed());
    let mut flags = lab.raw();
    flags.send(&[0xff; 4]);
    assert!(flags.is_closed());
    let mut option = lab.raw();
    option.send(&[0, 0, 0, 3]);
    option.send(b"GET / HTTP/1.1\r\n\r\n");
    assert!(option.is_closed());
    lab.serves();
    lab.eventually("four violations", |s| s.counters().violations == 4);
    // A connection that ends in the middle of a request is no violation.
    for bytes in [&[0, 0][..], &[0, 0, 0, 3], b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x09abc"] {
        lab.raw().send(bytes);
    }
    lab.eventually("all gone", |s| s.counters().connections == 0);
    assert_eq!(lab.server().counters().violations, 4);
    lab.serves();
}

#[test]
fn half_open_connections_lock_no_client_out() {
    let limits = Limits { connections: 100, ..Limits::default() };
    let config = || ServerConfig { limits, ..ServerConfig::default() };
    let lab = Lab::with(Ram::new(1 << 20).unwrap(), config());
    // As many as are allowed; the server ends the oldest.
    let half_open: Vec<_> = (0..100).map(|_| lab.raw()).collect();
    lab.eventually("all there", |s| s.counters().connections == 100);
    for _ in 0..5 {
        lab.serves();
    }
    drop(half_open);
    // The server never ends a connection that has an export to admit another.
    let lab = Lab::with(Ram::new(1 << 20).unwrap(), config());
    let mut good: Vec<_> = (0..100).map(|_| lab.client()).collect();
    assert!(client::Blocking::connect(&lab.uri()).is_err());
    for client in &mut good {
        client.read(0, &mut [0; 16]).unwrap();
    }
    assert!(lab.server().counters().turned_away >= 1);
}

#[test]
fn negotiation_has_a_deadline() {
    let limits = Limits { handshake: Duration::from_millis(100), ..Limits::default() };
    let lab =
        Lab::with(Ram::new(1 << 20).unwrap(), ServerConfig { limits, ..ServerConfig::default() });
    let mut silent = lab.raw();
    assert!(silent.is_closed());
    // A client that keeps sending and never finishes is treated the same.
    let mut chatty = lab.raw();
    let mut writer = chatty.0.try_clone().unwrap();
    let talker = std::thread::spawn(move || {
        // The server may close the connection before the first byte.
        let _ = io::Write::write_all(&mut writer, &[0, 0, 0, 3]);
        let list = [&b"IHAVEOPT"[..], &[0, 0, 0, 3, 0, 0, 0, 0]].concat();
        while io::Write::write_all(&mut writer, &list).is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    assert!(chatty.is_closed());
    talker.join().unwrap();
    // Once agreed, there is none. (A client on a machine that stands still for as long is ended too.)
    let agreed = |_| client::Blocking::connect(&lab.uri()).ok();
    let mut client = (0..20).find_map(agreed).expect("one of twenty agrees in time");
    std::thread::sleep(Duration::from_millis(200));
    client.read(0, &mut [0; 16]).unwrap();
}

#[test]
fn a_thousand_connections_are_served() {
    let lab = Lab::new(Ram::new(1 << 20).unwrap());
    let config = Config { depth: 4, ..Config::default() };
    // Both ends of a thousand connections are in this process.
    let idle: Vec<Connection> =
        (0..950).map(|_| Connection::connect(&lab.uri(), &config).unwrap()).collect();
    assert!(lab.server().counters().connections >= 950);
    std::thread::scope(|scope| {
        for n in 0..64u64 {
            let lab = &lab;
            scope.spawn(move || {
                let mut client = lab.client();
                let bytes = vec![n as u8 + 1; 4096];
                let mut back = vec![0; 4096];
                for _ in 0..50 {
                    client.write(n * 4096, &bytes, CmdFlags::NONE).unwrap();
                    client.read(n * 4096, &mut back).unwrap();
                    assert_eq!(bytes, back);
                }
            });
        }
    });
    drop(idle);
    lab.eventually("all gone", |s| s.counters().connections == 0);
}

/// An export that panics, refuses or forgets requests, depending on its name.
struct Bad(&'static str);

impl Export for Bad {
    fn info(&self) -> Info {
        let size = if self.0 == "huge" { 1 << 63 } else { 1 << 20 };
        Info { description: self.0.into(), ..Info::new(size) }
    }
    fn open(&self, _: &Peer) -> io::Result<Box<dyn Session>> {
        match self.0 {
            "refuses" => Err(io::ErrorKind::PermissionDenied.into()),
            "panics at open" => panic!("as it is meant to"),
            _ => Ok(Box::new(Bad(self.0))),
        }
    }
}

impl Session for Bad {
    fn submit(&mut self, io: Io<'_>) {
        match self.0 {
            "panics" => panic!("as it is meant to"),
            "forgets" => drop(io),
            "forgets later" => drop(io.later()),
            "too short" => io.answer(&Answer::Data(&[1, 2, 3])),
            "no data" => io.answer(&Answer::Done),
            _ => unreachable!(),
        }
    }
}

#[test]
fn a_bad_export_affects_only_its_clients() {
    let lab = Lab::new(Ram::new(1 << 20).unwrap());
    let connect = |name: &'static str| {
        lab.server().exports().insert(name, Arc::new(Bad(name)));
        let uri = client::Uri { export: name.into(), ..lab.uri() };
        client::Blocking::connect(&uri)
    };
    let mut bytes = [0; 512];
    for name in ["forgets", "forgets later", "too short", "no data"] {
        let mut client = connect(name).unwrap();
        for _ in 0..3 {
            let error = client.read(0, &mut bytes).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(5), "{name}");
        }
    }
    assert!(connect("panics").unwrap().read(0, &mut bytes).is_err());
    for name in ["refuses", "panics at open", "huge"] {
        assert!(connect(name).is_err(), "{name}");
    }
    assert!(lab.server().exports().remove("panics").is_some());
    assert!(
        client::Blocking::connect(&client::Uri { export: "panics".into(), ..lab.uri() }).is_err()
    );
    lab.serves();
    lab.eventually("all gone", |s| s.counters().connections == 0);
    assert_eq!(lab.server().counters().errors, 12);
}

/// CVE-2019-14850: nothing is opened before a client has chosen.
#[test]
fn exports_are_opened_when_they_are_chosen() {
    let export = Delayed::new(Manner::Each);
    let lab = Lab::new(export.clone());
    assert_eq!(client::list(&lab.uri(), &Config::default()).unwrap().len(), 1);
    let mut raw = lab.raw();
    raw.send(&[&[0, 0, 0, 3][..], b"IHAVEOPT\0\0\0\x06\0\0\0\x06\0\0\0\0\0\0"].concat());
    raw.receive(18 + 20 + 12 + 20);
    assert_eq!(export.opened.load(Ordering::SeqCst), 0);
    lab.serves();
    assert_eq!(export.opened.load(Ordering::SeqCst), 1);
}

/// CVE-2024-7409: a server that stops while clients keep their connections, in every phase.
#[test]
fn stopping_with_live_clients() {
    let export = Delayed::new(Manner::Held);
    let limits = Limits { farewell: Duration::from_secs(1), ..Limits::default() };
    let mut lab = Lab::with(export.clone(), ServerConfig { limits, ..ServerConfig::default() });
    let exports = lab.server().exports();
    exports.insert("ram", Arc::new(Ram::new(64 << 20).unwrap()));
    let silent = lab.raw();
    let idle = lab.raw().agreed();
    let mut waits = lab.raw().agreed();
    waits.request(Kind::Flush as u16, 5, 0, 0);
    let mut half = lab.raw().agreed();
    half.request(Kind::Write as u16, 0, 0, 100_000);
    half.send(&[1; 1000]);
    // One that takes no replies, of which there are more than a socket holds.
    let uri = client::Uri { export: "ram".into(), ..lab.uri() };
    let mut deaf = Connection::connect(&uri, &Config::default()).unwrap();
    let mut memory = vec![0u8; 1 << 20];
    for slot in 0..64 {
        // SAFETY: these reads share a buffer that nothing reads, and that outlives the connection.
        unsafe {
            let to = memory.as_mut_ptr();
            deaf.queue(slot, Kind::Read, CmdFlags::DF, 0, 1 << 20, to);
        }
    }
    deaf.turn(Wait::No).unwrap();
    lab.eventually("all there", |s| s.counters().connections == 5);
    lab.eventually("a request waits", |_| export.submitted.load(Ordering::SeqCst) == 1);
    let server = lab.server.take().unwrap();
    let stopper = std::thread::spawn(move || server.stop());
    // Earlier requests are still answered.
    std::thread::sleep(Duration::from_millis(50));
    export.release();
    assert_eq!(waits.reply(), (0, 5));
    stopper.join().unwrap();
    for mut raw in [silent, idle, waits, half] {
        assert!(raw.is_closed());
    }
    assert!(UnixStream::connect(&lab.socket).is_err());
    drop(deaf);
    // Answers that come after the end are discarded.
    let export = Delayed::new(Manner::Held);
    let limits = Limits { farewell: Duration::from_millis(1), ..Limits::default() };
    let mut lab = Lab::with(export.clone(), ServerConfig { limits, ..ServerConfig::default() });
    let mut client = lab.raw().agreed();
    client.request(Kind::Flush as u16, 0, 0, 0);
    lab.eventually("a request waits", |_| export.submitted.load(Ordering::SeqCst) == 1);
    lab.stop();
    assert!(client.is_closed());
    export.drop_deferred();
}

#[test]
fn a_client_that_says_goodbye_gets_its_answers() {
    let export = Delayed::new(Manner::Held);
    let lab = Lab::new(export.clone());
    let mut client = lab.raw().agreed();
    client.request(Kind::Flush as u16, 1, 0, 0);
    client.request(Kind::Write as u16, 2, 0, 5);
    client.send(b"bytes");
    client.request(Kind::Disc as u16, 3, 0, 0);
    lab.eventually("both wait", |_| export.submitted.load(Ordering::SeqCst) == 2);
    export.release();
    let mut replies = [client.reply(), client.reply()];
    replies.sort_unstable();
    assert_eq!(replies, [(0, 1), (0, 2)]);
    assert!(client.is_closed());
    assert_eq!(*export.written.lock().unwrap(), b"bytes");
}

/// Another thread may still be sending the last answer when the connection's own thread has nothing left to wait for.
#[test]
fn a_client_that_says_goodbye_gets_what_is_being_sent() {
    const LEN: usize = 200 << 10;
    let lab = Lab::new(Delayed::new(Manner::Each));
    for round in 0..200 {
        let mut client = lab.raw().agreed();
        client.request(Kind::Read as u16, round, 1 << 20, LEN as u32);
        client.request(Kind::Disc as u16, 0, 0, 0);
        assert_eq!(client.reply(), (0, round));
        assert!(client.receive(LEN) == pattern_at(1 << 20, LEN));
        assert!(client.is_closed());
    }
}

/// A signal interrupts only the wait for a payload; the write completes.
#[test]
fn a_signal_does_not_end_a_write() {
    extern "C" fn nothing(_: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: the handler does nothing. Without SA_RESTART, system calls are interrupted.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
    }
    let interrupt = || {
        for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
            let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            if name.trim() == "nbd" {
                let id: libc::pid_t = task.file_name().to_str().unwrap().parse().unwrap();
                // SAFETY: the call touches no memory; the thread may be gone.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, libc::SIGUSR1) };
            }
        }
    };
    let bytes = pattern_at(0, 1 << 20);
    let lab = Lab::new(Ram::new(1 << 20).unwrap());
    let mut client = lab.raw().agreed();
    client.request(Kind::Write as u16, 1, 0, bytes.len() as u32);
    for piece in bytes.chunks(64 << 10) {
        client.send(piece);
        std::thread::sleep(Duration::from_millis(5));
        interrupt();
    }
    assert_eq!(client.reply(), (0, 1));
    client.request(Kind::Read as u16, 2, 0, bytes.len() as u32);
    assert_eq!(client.reply(), (0, 2));
    assert!(client.receive(bytes.len()) == bytes);
}

#[test]
fn socket_files_are_removed_only_when_stale_or_ours() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let start = || {
        let endpoint = Endpoint::Unix(path.clone());
        Server::start(Arc::new(Exports::default()), &[endpoint], ServerConfig::default())
    };
    // A socket file that is left over is removed.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let server = start().unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    // One that answers is not, nor is a file that is no socket.
    assert!(start().err().unwrap().to_string().contains("another server already listens"));
    server.stop();
    assert!(!path.exists());
    std::fs::write(&path, b"precious").unwrap();
    assert!(start().err().unwrap().to_string().contains("not a socket"));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    // A socket that took our path in the meantime is not removed.
    std::fs::remove_file(&path).unwrap();
    let server = start().unwrap();
    std::fs::remove_file(&path).unwrap();
    let other = UnixListener::bind(&path).unwrap();
    server.stop();
    assert!(path.exists());
    drop(other);
}

#[test]
fn plain_tcp_listens_on_loopback_unless_allowed() {
    let start = |address: &str, insist_on_plain| {
        let exports = Arc::new(Exports::default());
        exports.insert("", Arc::new(Ram::new(1 << 20).unwrap()));
        let endpoint = Endpoint::Tcp(address.parse().unwrap());
        let config = ServerConfig { insist_on_plain, ..ServerConfig::default() };
        Server::start(exports, &[endpoint], config)
    };
    assert!(
        start("0.0.0.0:0", false).err().unwrap().to_string().contains("open to other machines")
    );
    for server in [start("127.0.0.1:0", false).unwrap(), start("0.0.0.0:0", true).unwrap()] {
        let Endpoint::Tcp(address) = server.endpoints()[0] else { panic!() };
        let uri: client::Uri = format!("nbd://localhost:{}", address.port()).parse().unwrap();
        let mut client = client::Blocking::connect(&uri).unwrap();
        client.write(5, b"over TCP", CmdFlags::NONE).unwrap();
        let mut bytes = [0; 8];
        client.read(5, &mut bytes).unwrap();
        assert_eq!(&bytes, b"over TCP");
    }
}

#[test]
fn requests_and_connections_are_counted() {
    let lab = Lab::new(Ram::new(1 << 20).unwrap());
    let mut client = lab.client();
    client.write(0, &[1; 1000], CmdFlags::NONE).unwrap();
    client.read(0, &mut [0; 300]).unwrap();
    client.command(Kind::Flush, CmdFlags::NONE, 0, 0).unwrap();
    assert!(client.read(1 << 20, &mut [0]).is_err());
    drop(client);
    lab.eventually("it left", |s| s.counters().connections == 0);
    let c = lab.server().counters();
    assert_eq!((c.accepted, c.read_bytes, c.written_bytes), (1, 300, 1000));
    assert_eq!((c.refused, c.errors, c.violations, c.handshakes_failed), (1, 0, 0, 0));
    assert_eq!(c.requests, [1, 1, 1, 1, 0, 0, 0, 0]);
}

/// An export whose connection threads poll for the next request. They answer once `together` requests have arrived, and
/// record in `reported` how long the client took to read replies.
#[derive(Clone, Default)]
struct Polling {
    together: Arc<AtomicUsize>,
    reported: Arc<Mutex<Vec<Duration>>>,
    /// Number of times that a sleeping thread was woken. The next field, `rested`, counts the times that a thread was
    /// about to block.
    woken: Arc<AtomicUsize>,
    rested: Arc<AtomicUsize>,
}

struct Looks {
    of: Polling,
    queue: Vec<DeferredReply>,
    /// The thread has polled since the last request arrived.
    has_polled: bool,
    answering: bool,
}

impl Export for Polling {
    fn info(&self) -> Info {
        Info { block_status: false, ..Info::new(1 << 20) }
    }

    fn open(&self, _: &Peer) -> io::Result<Box<dyn Session>> {
        Ok(Box::new(Looks {
            of: self.clone(),
            queue: Vec::new(),
            has_polled: false,
            answering: false,
        }))
    }
}

impl Session for Looks {
    fn submit(&mut self, io: Io<'_>) {
        self.queue.push(io.later());
        self.has_polled = false;
    }

    fn poll(&mut self, _: bool) -> bool {
        let together = self.of.together.load(Ordering::SeqCst);
        let has_polled = std::mem::replace(&mut self.has_polled, true) || together == 0;
        self.answering |= has_polled && self.queue.len() >= together.max(1);
        // One answer at a poll.
        if self.answering
            && let Some(later) = self.queue.pop()
        {
            later.answer(&Answer::Data(&[7; 4096]));
        }
        self.answering &= !self.queue.is_empty();
        // It sleeps when no client is announced.
        together > 0
    }

    fn taken(&mut self, after: Duration) {
        self.of.reported.lock().unwrap().push(after);
    }

    fn woken(&mut self) {
        self.of.woken.fetch_add(1, Ordering::SeqCst);
    }

    fn may_block(&mut self) {
        self.of.rested.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_polling_thread_sees_when_its_answers_are_taken() {
    const READ: u16 = Kind::Read as u16;
    const LATE: Duration = Duration::from_millis(20);
    let export = Polling::default();
    export.together.store(1, Ordering::SeqCst);
    let lab = Lab::new(export.clone());
    let reported = || export.reported.lock().unwrap().clone();
    let mut client = lab.raw().agreed();
    let lie_there = |client: &Raw, answers: usize| {
        let mut there = vec![0; answers * (16 + 4096)];
        let peek = rustix::net::RecvFlags::PEEK;
        while rustix::net::recv(&client.0, &mut there[..], peek).unwrap().1 < there.len() {}
    };
    let late = |client: &mut Raw, answers: usize| {
        lie_there(client, answers);
        std::thread::sleep(LATE);
        client.receive(answers * (16 + 4096));
    };
    client.request(READ, 1, 8192, 4096);
    late(&mut client, 1);
    lab.eventually("reported", |_| reported().len() == 1);
    assert!(reported()[0] >= LATE, "{:?}", reported());
    // Two answers in the socket prove nothing.
    export.together.store(2, Ordering::SeqCst);
    client.request(READ, 2, 8192, 4096);
    client.request(READ, 3, 8192, 4096);
    late(&mut client, 2);
    // Nor where they came one after the other.
    export.together.store(1, Ordering::SeqCst);
    for n in 1..4 {
        client.request(READ, 3, 8192, 4096);
        lie_there(&client, n);
        std::thread::sleep(Duration::from_millis(5));
    }
    late(&mut client, 3);
    std::thread::sleep(LATE);
    assert_eq!(reported().len(), 1);
    client.request(READ, 4, 8192, 4096);
    late(&mut client, 1);
    lab.eventually("reported", |_| reported().len() == 2);
    assert!(reported()[1] >= LATE, "{:?}", reported());
    // A thread that has fallen asleep is woken by the next request, and has announced that it may block.
    let before = export.woken.load(Ordering::SeqCst);
    let rested = export.rested.load(Ordering::SeqCst);
    export.together.store(0, Ordering::SeqCst);
    lab.eventually("asleep", |_| export.rested.load(Ordering::SeqCst) > rested);
    std::thread::sleep(LATE);
    client.request(READ, 5, 8192, 4096);
    client.receive(16 + 4096);
    assert!(export.woken.load(Ordering::SeqCst) > before);
}
