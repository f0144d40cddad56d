//! Helpers of the integration tests: a server in a folder of its own, clients that send raw bytes, and an
//! export that defers its answers.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use iodyno_nbd::client::{Address, Blocking, Uri};
use iodyno_nbd::wire::{REQUEST_BYTES, Request};
use iodyno_nbd::{
    Answer, CmdFlags, DeferredReply, Endpoint, Export, Exports, Info, Io, Kind, Peer, Server,
    ServerConfig, Session,
};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A server on a unix socket in a folder of its own.
pub struct Lab {
    pub server: Option<Server>,
    pub socket: PathBuf,
    pub folder: tempfile::TempDir,
}

impl Lab {
    pub fn new(export: impl Export + 'static) -> Self {
        Self::with(export, ServerConfig::default())
    }

    pub fn with(export: impl Export + 'static, config: ServerConfig) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("nbd.sock");
        let exports = Arc::new(Exports::default());
        exports.insert("", Arc::new(export));
        let endpoint = Endpoint::Unix(socket.clone());
        let server = Server::start(exports, &[endpoint], config).unwrap();
        Self { server: Some(server), socket, folder }
    }

    pub fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    pub fn stop(&mut self) {
        self.server.take().unwrap().stop();
    }

    pub fn uri(&self) -> Uri {
        let address = Address::Unix(self.socket.clone());
        let (tls_certificates, tls_hostname) = (None, None);
        Uri { address, tls: false, export: String::new(), tls_certificates, tls_hostname }
    }

    pub fn client(&self) -> Blocking {
        Blocking::connect(&self.uri()).unwrap()
    }

    pub fn raw(&self) -> Raw {
        let stream = UnixStream::connect(&self.socket).unwrap();
        // A test that would hang shall fail.
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        Raw(stream)
    }

    /// Waits until the condition holds. Panics if it does not within ten seconds.
    pub fn eventually(&self, what: &str, mut so: impl FnMut(&Server) -> bool) {
        for _ in 0..1000 {
            if so(self.server()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{what}: {:?}", self.server().counters());
    }

    /// Checks that the server still works: a new client gets its bytes.
    pub fn serves(&self) {
        let mut client = self.client();
        let mut bytes = [0; 512];
        client.read(0, &mut bytes).unwrap();
    }
}

/// A client that may send any bytes.
pub struct Raw(pub UnixStream);

impl Raw {
    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    pub fn receive(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// True when the server closed the connection; bytes that it sent before are dropped.
    pub fn is_closed(&mut self) -> bool {
        match io::copy(&mut self.0, &mut io::sink()) {
            Ok(_) => true,
            Err(e) => e.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// Negotiates by EXPORT_NAME, which gives simple replies.
    pub fn agreed(mut self) -> Self {
        self.receive(18);
        self.send(&[&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 1, 0, 0, 0, 0]].concat());
        self.receive(10);
        self
    }

    pub fn request(&mut self, command: u16, cookie: u64, offset_bytes: u64, len_bytes: u32) {
        let flags = CmdFlags::NONE;
        let header = Request { flags, command, cookie, offset_bytes, len_bytes }.encode();
        self.send(&header);
    }

    /// Receives a simple reply without data: error and cookie.
    pub fn reply(&mut self) -> (u32, u64) {
        let bytes = self.receive(16);
        assert_eq!(bytes[..4], [0x67, 0x44, 0x66, 0x98]);
        let code = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
        (code, u64::from_be_bytes(bytes[8..].try_into().unwrap()))
    }
}

pub const REQUEST: usize = REQUEST_BYTES;

/// The byte of [`Delayed`] at an offset.
pub fn pattern(offset: u64) -> u8 {
    (offset / 64).wrapping_mul(31) as u8
}

pub fn pattern_at(offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 64);
    for block in offset / 64..(offset + len as u64).div_ceil(64) {
        bytes.extend_from_slice(&[pattern(block * 64); 64]);
    }
    bytes.drain(..(offset % 64) as usize);
    bytes.truncate(len);
    bytes
}

/// Way in which the thread of [`Delayed`] answers.
#[derive(Clone, Copy, PartialEq)]
pub enum Manner {
    Each,
    Together,
    /// The thread waits until it is [released](Delayed::release).
    Held,
}

#[derive(Default)]
struct Desk {
    queue: Mutex<(VecDeque<DeferredReply>, bool, bool)>,
    came: Condvar,
}

/// An export without stored bytes: it reads as a pattern, and one thread answers all requests, out of order.
#[derive(Clone)]
pub struct Delayed {
    pub size_bytes: u64,
    desk: Arc<Desk>,
    pub opened: Arc<AtomicUsize>,
    pub submitted: Arc<AtomicU64>,
    pub written: Arc<Mutex<Vec<u8>>>,
}

impl Delayed {
    pub fn new(manner: Manner) -> Self {
        let desk = Arc::<Desk>::default();
        desk.queue.lock().unwrap().2 = manner != Manner::Held;
        let theirs = Arc::downgrade(&desk);
        std::thread::spawn(move || {
            let mut turn = 0u64;
            while let Some(desk) = theirs.upgrade() {
                let mut queue = desk.queue.lock().unwrap();
                let timeout = Duration::from_millis(50);
                while !queue.2 || queue.0.is_empty() {
                    let (q, waited) = desk.came.wait_timeout(queue, timeout).unwrap();
                    queue = q;
                    if waited.timed_out() && Arc::strong_count(&desk) == 1 {
                        return;
                    }
                }
                let mut taken: Vec<DeferredReply> = queue.0.drain(..).collect();
                drop(queue);
                // Sometimes the last comes first.
                turn += 1;
                if !turn.is_multiple_of(3) {
                    taken.reverse();
                }
                let mut batch = iodyno_nbd::Batch::new();
                for later in taken {
                    let c = *later.command();
                    let data = pattern_at(c.offset_bytes, c.len_bytes as usize);
                    let read = c.kind == Kind::Read;
                    let answer = if read { Answer::Data(&data) } else { Answer::Done };
                    match (manner, turn % 2) {
                        (Manner::Together, 0) => batch.answer(later, &answer),
                        (Manner::Together, _) => batch.fill(later, |to| to.copy_from_slice(&data)),
                        (_, 0) => later.answer(&answer),
                        _ => later.fill(|to| to.copy_from_slice(&data)),
                    }
                }
                batch.send();
            }
        });
        Self {
            size_bytes: 1 << 30,
            desk,
            opened: Arc::default(),
            submitted: Arc::default(),
            written: Arc::default(),
        }
    }

    pub fn release(&self) {
        self.desk.queue.lock().unwrap().2 = true;
        self.desk.came.notify_all();
    }

    /// Drops the deferred requests without an answer.
    pub fn drop_deferred(&self) {
        let taken: Vec<DeferredReply> = self.desk.queue.lock().unwrap().0.drain(..).collect();
        drop(taken);
    }
}

impl Export for Delayed {
    fn info(&self) -> Info {
        Info { block_status: false, ..Info::new(self.size_bytes) }
    }

    fn open(&self, _: &Peer) -> io::Result<Box<dyn Session>> {
        self.opened.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(self.clone()))
    }
}

impl Session for Delayed {
    fn submit(&mut self, io: Io<'_>) {
        self.submitted.fetch_add(1, Ordering::SeqCst);
        match io.command().kind {
            // The first block is answered at once, so that both ways meet on one connection.
            Kind::Read if io.command().offset_bytes < 4096 => {
                let offset = io.command().offset_bytes;
                io.fill(|to| to.copy_from_slice(&pattern_at(offset, to.len())));
            }
            _ => {
                if io.command().kind == Kind::Write {
                    self.written.lock().unwrap().extend_from_slice(io.data());
                }
                self.desk.queue.lock().unwrap().0.push_back(io.later());
            }
        }
    }

    fn submitted(&mut self) {
        self.desk.came.notify_all();
    }
}
