//! Interoperability with other implementations: libnbd (nbdinfo, nbdcopy, nbdsh), QEMU (qemu-img, qemu-io,
//! qemu-nbd), fio and nbdkit, against our server and our client. They were written independently from the same
//! document, so agreement with them confirms our reading of it.
//!
//! A program that is missing fails its tests: `./test` installs them where it may, or Debian's packages
//! libnbd-bin, python3-libnbd, qemu-utils, nbdkit and fio have them.

use crate::common;

use common::{Delayed, Lab, Manner, pattern_at};
use iodyno_nbd::client::{self, Blocking, Config, Connection, Uri, Wait};
use iodyno_nbd::ram::Ram;
use iodyno_nbd::{CmdFlags, Export, Info, Io, Kind, Peer, Session};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 64 * MIB;

/// Runs a program in a folder; gives its output, and whether it succeeded. The system's own folders come first
/// on its path: an interpreter from elsewhere would lack the module that the packages bring.
fn try_run(folder: &Path, program: &str, args: &[&str]) -> (bool, String) {
    let path =
        format!("/usr/bin:/bin:/usr/sbin:/sbin:{}", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("timeout")
        .args(["120", program])
        .args(args)
        .current_dir(folder)
        .env("PATH", path)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|e| panic!("timeout (coreutils): {e}"));
    assert_ne!(
        output.status.code(),
        Some(127),
        "{program} is not installed; see the head of this file"
    );
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

fn run(folder: &Path, program: &str, args: &[&str]) -> String {
    let (well, said) = try_run(folder, program, args);
    assert!(well, "{program} {args:?}:\n{said}");
    said
}

/// A RAM disk, writable as the default export and read-only as `ro`, and its server.
struct Bench {
    lab: Lab,
    uri: String,
    read_only: String,
}

impl Bench {
    fn new() -> Self {
        let disk = Ram::new(SIZE).unwrap();
        let read_only = disk.read_only();
        let lab = Lab::new(disk);
        lab.server().exports().insert("ro", Arc::new(read_only));
        let uri = lab.uri().to_string();
        let read_only = Uri { export: "ro".into(), ..lab.uri() }.to_string();
        Self { lab, uri, read_only }
    }

    fn run(&self, program: &str, args: &[&str]) -> String {
        run(self.lab.folder.path(), program, args)
    }

    /// Runs these commands of qemu-io on the writable export.
    fn qemu_io(&self, commands: &[&str]) {
        let mut args = vec!["-f", "raw", "-t", "none", &self.uri];
        for command in commands {
            args.extend(["-c", command]);
        }
        let said = self.run("qemu-io", &args);
        assert!(!said.contains("verification failed"), "{said}");
    }

    /// Runs a script in nbdsh. `uri` and `ro` are the exports; `fails(f)` gives the error number of a call.
    fn nbdsh(&self, script: &str) -> String {
        let head = format!(
            "import nbd, errno\nuri = '{}'\nro = '{}'\n\
             def fails(f):\n    try:\n        f()\n    except nbd.Error as e:\n        return e.errnum\n\
             def connected(to):\n    c = nbd.NBD()\n    c.connect_uri(to)\n    return c\n",
            self.uri, self.read_only
        );
        self.run("nbdsh", &["-c", &format!("{head}{script}")])
    }

    fn file(&self, name: &str) -> String {
        self.lab.folder.path().join(name).display().to_string()
    }
}

#[test]
fn nbdinfo_sees_what_is_offered() {
    let bench = Bench::new();
    let said = bench.run("nbdinfo", &["--json", &bench.uri]);
    for fact in [
        "\"protocol\": \"newstyle-fixed\"",
        "\"structured\": true",
        &format!("\"export-size\": {SIZE}"),
        "\"is_read_only\": false",
        "\"is_rotational\": false",
        "\"can_flush\": true",
        "\"can_fua\": true",
        "\"can_multi_conn\": true",
        "\"can_trim\": true",
        "\"can_zero\": true",
        "\"can_fast_zero\": true",
        "\"can_cache\": true",
        "\"can_df\": true",
        "\"block_size_maximum\": 33554432",
        "base:allocation",
    ] {
        assert!(said.contains(fact), "{fact} in\n{said}");
    }
    let listed = bench.run("nbdinfo", &["--list", "--json", &bench.uri]);
    assert!(listed.contains("\"export-name\": \"\"") && listed.contains("\"export-name\": \"ro\""));
    bench.run("nbdinfo", &["--is", "readonly", &bench.read_only]);
    let disk = Info {
        min_block_bytes: 512,
        preferred_block_bytes: 65_536,
        rotational: true,
        description: "seven thousand turns".into(),
        ..Info::new(MIB)
    };
    let rotating = Lab::new(Ram::with_info(disk).unwrap());
    let said = bench.run("nbdinfo", &[&rotating.uri().to_string()]);
    for fact in ["is_rotational: true", "seven thousand turns", "block_size_preferred: 65536"] {
        assert!(said.contains(fact), "{fact} in\n{said}");
    }
}

#[test]
fn a_map_covers_the_export() {
    let bench = Bench::new();
    let total = |said: &str| -> u64 {
        said.lines().map(|l| l.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()).sum()
    };
    let holes = bench.run("nbdinfo", &["--map", &bench.uri]);
    assert_eq!((total(&holes), holes.lines().count()), (SIZE, 1), "{holes}");
    assert!(holes.contains("hole,zero"));
    bench.qemu_io(&["write 1M 64k", "write 3M 4k"]);
    let mixed = bench.run("nbdinfo", &["--map", &bench.uri]);
    assert_eq!((total(&mixed), mixed.lines().count()), (SIZE, 5), "{mixed}");
}

#[test]
fn qemu_io_finds_what_it_wrote() {
    let bench = Bench::new();
    let last = SIZE - 512;
    bench.qemu_io(&["read -P 0 0 1M", &format!("read -P 0 {last} 512")]);
    bench.qemu_io(&[
        "write -P 0xab 4k 64k",
        "flush",
        "read -P 0xab 4k 64k",
        "read -P 0 0 4k",
        "read -P 0 68k 4k",
    ]);
    // Another connection.
    bench.qemu_io(&["read -P 0xab 4k 64k"]);
    bench.qemu_io(&[
        "write -f -P 0x11 1M 128k",
        "write -z 1M 64k",
        "read -P 0 1M 64k",
        "read -P 0x11 1088k 64k",
        "write -z -u 1088k 64k",
        "read -P 0 1M 128k",
        "discard 1M 1M",
        "read -P 0 1M 1M",
    ]);
    bench.qemu_io(&[&format!("write -P 0x5a {last} 512"), &format!("read -P 0x5a {last} 512")]);
}

#[test]
fn nbdsh_is_refused_forbidden_requests() {
    Bench::new().nbdsh(
        "
h = connected(uri)
h.set_strict_mode(0)
size = h.get_size()
assert fails(lambda: h.pread(512, size)) == errno.EINVAL
assert fails(lambda: h.pread(4096, size - 512)) == errno.EINVAL
assert fails(lambda: h.pwrite(bytes(512), size)) == errno.ENOSPC
assert fails(lambda: h.zero(512, size)) == errno.ENOSPC
assert fails(lambda: h.trim(512, size)) == errno.EINVAL
assert fails(lambda: h.cache(512, size)) == errno.EINVAL
assert len(h.pread(512, 0)) == 512
h.trim(size, 0)
assert fails(lambda: h.pread(33 << 20, 0)) == errno.EOVERFLOW
h.zero(size, 0)
r = connected(ro)
r.set_strict_mode(0)
assert r.is_read_only()
for f in (lambda: r.pwrite(bytes(512), 0), lambda: r.zero(512, 0), lambda: r.trim(512, 0)):
    assert fails(f) in (errno.EPERM, errno.EROFS)
assert len(r.pread(512, 0)) == 512
",
    );
}

#[test]
fn nbdsh_in_all_dialects() {
    Bench::new().nbdsh(
        "
h = connected(uri)
b = bytes(range(256)) * 131072
h.pwrite(b, 0)
assert h.pread(len(b), 0) == b

assert h.get_structured_replies_negotiated()
seen = []
h.pread_structured(131072, 0, lambda d, o, s, e: seen.append((o, len(d))), nbd.CMD_FLAG_DF)
assert seen == [(0, 131072)], seen
h.pread_structured(131072, 60 << 20, lambda d, o, s, e: seen.append(s))
assert seen[1:] == [nbd.READ_HOLE], seen

s = nbd.NBD()
s.set_request_structured_replies(False)
s.connect_uri(uri)
s.pwrite(b'x' * 512, 512)
assert s.pread(512, 512) == b'x' * 512

o = nbd.NBD()
o.set_opt_mode(True)
o.connect_uri(uri)
o.set_export_name('no-such-export')
assert fails(o.opt_go) == errno.ENOENT
o.set_export_name('')
o.opt_go()
assert o.get_size() == h.get_size()

o = nbd.NBD()
o.set_opt_mode(True)
o.connect_uri(uri)
names = []
o.opt_list(lambda n, d: names.append(n))
assert names == ['', 'ro'], names
o.opt_abort()
",
    );
}

#[test]
fn nbdsh_with_many_requests_and_connections() {
    Bench::new().nbdsh(
        "
a, b = connected(uri), connected(uri)
assert a.can_multi_conn()
for i in range(64):
    a.pwrite(bytes([i + 1]) * 4096, i * 4096)
    a.flush()
    assert b.pread(4096, i * 4096) == bytes([i + 1]) * 4096

buffers = [nbd.Buffer(4096) for _ in range(200)]
cookies = [a.aio_pread(b, (i * 7919 % 1000) * 4096) for i, b in enumerate(buffers)]
for c in cookies:
    while not a.aio_command_completed(c):
        a.poll(1000)
for i, b in enumerate(buffers):
    block = i * 7919 % 1000
    assert b.to_bytearray() == bytes([block + 1 if block < 64 else 0]) * 4096
a.shutdown()
",
    );
}

#[test]
fn copies_are_copies() {
    let bench = Bench::new();
    let (a, b) = (bench.file("a"), bench.file("b"));
    // Data and holes.
    let mut content = pattern_at(3, SIZE as usize);
    content[10 << 20..30 << 20].fill(0);
    fs::write(&a, &content).unwrap();
    let many = ["--connections=4", "--requests=16", "--flush"];
    bench.run("nbdcopy", &[&many[..], &[&a, &bench.uri]].concat());
    bench.run("nbdcopy", &["--connections=4", &bench.uri, &b]);
    assert!(fs::read(&b).unwrap() == content);
    bench.run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &a, &bench.uri]);
    content.rotate_left(12_345);
    fs::write(&a, &content).unwrap();
    bench.run("qemu-img", &["convert", "-n", "-W", "-f", "raw", "-O", "raw", &a, &bench.uri]);
    bench.run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &a, &bench.uri]);
    // From our server to our server.
    let other = Bench::new();
    bench.run("nbdcopy", &[&bench.uri, &other.uri]);
    other.run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &a, &other.uri]);
    bench.run(
        "qemu-img",
        &["bench", "-f", "raw", "-t", "none", "-c", "5000", "-d", "16", "-s", "4k", &bench.uri],
    );
}

#[test]
fn an_image_of_another_format_can_lie_on_it() {
    let bench = Bench::new();
    bench.run("qemu-img", &["create", "-f", "qcow2", &bench.uri, "16M"]);
    let io = ["-f", "qcow2", "-c", "write -P 7 0 8M", "-c", "read -P 7 0 8M", &bench.uri];
    let said = bench.run("qemu-io", &io);
    assert!(!said.contains("verification failed"), "{said}");
    bench.run("qemu-img", &["check", "-f", "qcow2", &bench.uri]);
}

fn fio(folder: &Path, uri: &str) {
    let args = [
        "--name=v",
        "--ioengine=nbd",
        &format!("--uri={uri}"),
        "--size=16M",
        "--rw=randwrite",
        "--bs=4k",
        "--iodepth=16",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--do_verify=1",
        "--verify_backlog=256",
        "--output=fio.out",
    ];
    run(folder, "fio", &args);
}

#[test]
fn fio_verifies() {
    let bench = Bench::new();
    fio(bench.lab.folder.path(), &bench.uri);
    assert!(bench.lab.server().counters().requests[Kind::Write as usize] >= 4096);
}

/// An export that keeps bytes and answers from another thread, as an emulated device does.
struct Behind(Arc<std::sync::Mutex<Vec<u8>>>);

impl Export for Behind {
    fn info(&self) -> Info {
        Info { block_status: false, ..Info::new(16 * MIB) }
    }
    fn open(&self, _: &Peer) -> io::Result<Box<dyn Session>> {
        let (send, receive) = std::sync::mpsc::channel::<iodyno_nbd::DeferredReply>();
        let memory = Arc::clone(&self.0);
        std::thread::spawn(move || {
            while let Ok(first) = receive.recv() {
                let mut taken = vec![first];
                taken.extend(receive.try_iter());
                let mut batch = iodyno_nbd::Batch::new();
                for later in taken.into_iter().rev() {
                    let at = later.command().offset_bytes as usize;
                    let memory = memory.lock().unwrap();
                    batch.fill(later, |to| to.copy_from_slice(&memory[at..at + to.len()]));
                }
            }
        });
        Ok(Box::new(BehindSession(Arc::clone(&self.0), send)))
    }
}

struct BehindSession(
    Arc<std::sync::Mutex<Vec<u8>>>,
    std::sync::mpsc::Sender<iodyno_nbd::DeferredReply>,
);

impl Session for BehindSession {
    fn submit(&mut self, io: Io<'_>) {
        let at = io.command().offset_bytes as usize;
        match io.command().kind {
            Kind::Write => {
                self.0.lock().unwrap()[at..at + io.data().len()].copy_from_slice(io.data());
            }
            Kind::WriteZeroes => {
                let len = io.command().len_bytes as usize;
                self.0.lock().unwrap()[at..at + len].fill(0);
            }
            _ => {}
        }
        self.1.send(io.later()).unwrap();
    }
}

#[test]
fn fio_verifies_what_is_answered_later() {
    let lab = Lab::new(Behind(Arc::new(std::sync::Mutex::new(vec![0; 16 << 20]))));
    fio(lab.folder.path(), &lab.uri().to_string());
    let image = lab.folder.path().join("image");
    fs::write(&image, pattern_at(9, 16 << 20)).unwrap();
    let (image, uri) = (image.display().to_string(), lab.uri().to_string());
    run(lab.folder.path(), "nbdcopy", &["--requests=64", "--flush", &image, &uri]);
    run(lab.folder.path(), "qemu-img", &["compare", "-f", "raw", "-F", "raw", &image, &uri]);
}

/// The server survives a client process that is killed while its requests are unanswered.
#[test]
fn client_processes_may_be_killed() {
    let export = Delayed::new(Manner::Held);
    let lab = Lab::new(export.clone());
    let uri = lab.uri().to_string();
    let read = "h.connect_uri(u)\nfor i in range(50): h.aio_pread(nbd.Buffer(1 << 20), i << 20)\n\
        while True: h.poll(-1)";
    let mut child = Command::new("nbdsh")
        .args(["-c", &format!("u = '{uri}'\n{read}")])
        .env("PATH", "/usr/bin:/bin")
        .stderr(Stdio::null())
        .spawn()
        .expect("nbdsh (package python3-libnbd)");
    lab.eventually("it reads", |_| export.submitted.load(Ordering::SeqCst) >= 20);
    child.kill().unwrap();
    child.wait().unwrap();
    export.release();
    lab.eventually("it is gone", |s| s.counters().connections == 0);
    lab.serves();
}

// ---- Our client on other servers.

/// Another program's server, which is stopped when this is dropped.
struct Other {
    child: Child,
    folder: tempfile::TempDir,
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Other {
    /// Starts the program and waits for its socket, `s` in its folder.
    fn start(program: &str, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::start_in(folder, program, args)
    }

    fn start_in(folder: tempfile::TempDir, program: &str, args: &[&str]) -> Self {
        let child = Command::new(program)
            .args(args)
            .current_dir(folder.path())
            .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| {
                panic!("{program} is not installed ({e}); see the head of this file")
            });
        let other = Self { child, folder };
        for _ in 0..1000 {
            if std::os::unix::net::UnixStream::connect(other.socket()).is_ok() {
                return other;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{program} {args:?} does not listen");
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    fn uri(&self, export: &str) -> Uri {
        format!("nbd+unix:///{export}?socket={}", self.socket().display()).parse().unwrap()
    }
}

/// Uses every call of our client, on an export of 16 MiB of zeroes.
fn exercise(uri: &Uri) {
    for structured in [true, false] {
        let config = Config { structured, block_status: structured, ..Config::default() };
        let mut client = Blocking::connect_with(uri, &config).unwrap();
        assert_eq!(client.info().size_bytes, 16 * MIB);
        assert_eq!(client.connection().found().structured, structured);
        client.command(Kind::WriteZeroes, CmdFlags::NONE, 0, 16 << 20).unwrap();
        for (at, len) in [(0, 1usize), (513, 100_000), (4096, 4096), (MIB, 8 << 20)] {
            let bytes = pattern_at(at, len);
            client.write(at, &bytes, CmdFlags::FUA).unwrap();
            let mut back = vec![0; len];
            client.read(at, &mut back).unwrap();
            assert!(back == bytes);
        }
        client.command(Kind::Flush, CmdFlags::NONE, 0, 0).unwrap();
        client.command(Kind::Trim, CmdFlags::NONE, MIB, 8 << 20).unwrap();
        assert!(client.read(16 * MIB, &mut [0; 512]).is_err());
        client.read(0, &mut [0; 512]).unwrap();
        if structured {
            let mut at = 0;
            while at < 16 * MIB {
                let left = (16 * MIB - at) as u32;
                let extents = client.block_status(at, left, CmdFlags::NONE).unwrap();
                at += extents.iter().map(|e| u64::from(e.len_bytes)).sum::<u64>();
            }
            assert_eq!(client.block_status(0, 1 << 20, CmdFlags::REQ_ONE).unwrap().len(), 1);
        }
    }
    // Many at once, of several sizes, on two connections.
    let config = Config { depth: 32, ..Config::default() };
    let mut memory = vec![vec![0u8; 200_000]; 32];
    for mut connection in client::connect_many(uri, &config, 2).unwrap() {
        for kind in [Kind::Write, Kind::Read] {
            for slot in 0..32u32 {
                let (at, len) =
                    (u64::from(slot) * 262_144, [512, 4096, 200_000][slot as usize % 3]);
                let buffer = &mut memory[slot as usize];
                if kind == Kind::Write {
                    buffer.copy_from_slice(&pattern_at(at, 200_000));
                } else {
                    buffer.fill(0xEE);
                }
                let to = buffer.as_mut_ptr();
                // SAFETY: each slot has a buffer of its own, and all requests end before it does.
                unsafe { connection.queue(slot, kind, CmdFlags::NONE, at, len, to) };
            }
            let mut left = 32;
            while left > 0 {
                connection.turn(Wait::AtMost(Duration::from_secs(30))).unwrap();
                connection.drain(|slot, result| {
                    result.unwrap();
                    let (at, len) =
                        (u64::from(slot) * 262_144, [512, 4096, 200_000][slot as usize % 3]);
                    assert!(memory[slot as usize][..len] == pattern_at(at, len));
                    left -= 1;
                });
            }
        }
    }
}

#[test]
fn our_client_on_nbdkit() {
    let other = Other::start("nbdkit", &["-f", "-U", "s", "memory", "16M"]);
    exercise(&other.uri(""));
    // Old dialects and unusual answers, by its filters.
    let plain = Other::start("nbdkit", &["-f", "-U", "s", "--no-sr", "memory", "16M"]);
    let mut client = Blocking::connect(&plain.uri("")).unwrap();
    assert!(!client.connection().found().structured);
    client.write(5, b"plain", CmdFlags::NONE).unwrap();
    let failing = Other::start(
        "nbdkit",
        &[
            "-f",
            "-U",
            "s",
            "--filter=error",
            "memory",
            "16M",
            "error-pread=EIO",
            "error-pread-rate=50%",
        ],
    );
    let mut client = Blocking::connect(&failing.uri("")).unwrap();
    let mut failures = 0;
    for _ in 0..100 {
        if let Err(e) = client.read(0, &mut [0; 4096]) {
            assert_eq!(e.raw_os_error(), Some(5));
            failures += 1;
        }
    }
    assert!((10..90).contains(&failures), "{failures} of 100");
    let picky = Other::start(
        "nbdkit",
        &[
            "-f",
            "-U",
            "s",
            "--filter=blocksize-policy",
            "memory",
            "16M",
            "blocksize-minimum=512",
            "blocksize-preferred=4096",
            "blocksize-maximum=65536",
            "blocksize-error-policy=error",
        ],
    );
    let mut client = Blocking::connect(&picky.uri("")).unwrap();
    let sizes = (client.info().min_block_bytes, client.info().max_payload_bytes);
    assert_eq!(sizes, (512, 65_536));
    assert!(client.read(1, &mut [0; 512]).is_err());
}

/// nbdkit as our client. It forwards our export to other clients, which read and change it.
#[test]
fn nbdkit_forwards_our_export() {
    let bench = Bench::new();
    let socket = format!("socket={}", bench.lab.uri().address);
    let between = |words: &[&str]| {
        Other::start("nbdkit", &[&["-f", "-U", "s", "nbd", &socket][..], words].concat())
    };
    let one = between(&[]);
    let other = one.uri("").to_string();
    let output = bench.run("nbdinfo", &["--json", &other]);
    for fact in [
        &format!("\"export-size\": {SIZE}"),
        "\"is_read_only\": false",
        "\"can_flush\": true",
        "\"can_fua\": true",
        "\"can_trim\": true",
        "\"can_zero\": true",
        "\"can_fast_zero\": true",
        "\"can_cache\": true",
        "\"can_multi_conn\": true",
        "base:allocation",
    ] {
        assert!(output.contains(fact), "{fact} in\n{output}");
    }
    let (a, b) = (bench.file("a"), bench.file("b"));
    let mut content = pattern_at(5, SIZE as usize);
    content[20 << 20..44 << 20].fill(0);
    fs::write(&a, &content).unwrap();
    // Written through it, and seen by us; with our holes, which it reports.
    bench.run("qemu-img", &["convert", "-n", "-W", "-f", "raw", "-O", "raw", &a, &other]);
    for uri in [&bench.uri, &other] {
        bench.run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &a, uri]);
    }
    let map = |uri: &str| bench.run("nbdinfo", &["--map", uri]);
    let ours = map(&bench.uri);
    assert!(ours.contains("hole"), "{ours}");
    assert_eq!(map(&other), ours);
    // Read through it, over several connections, each of which is one of ours.
    let shared = between(&["shared=false"]);
    let many = ["--connections=4", "--requests=16"];
    bench.run("nbdcopy", &[&many[..], &[&shared.uri("").to_string(), &b]].concat());
    assert!(fs::read(&b).unwrap() == content);
    bench.run("qemu-io", &["-f", "raw", "-c", "write -f -P 9 4k 64k", "-c", "flush", &other]);
    bench.qemu_io(&["read -P 9 4k 64k"]);
    // It refuses what we refuse.
    let read_only = between(&["export=ro"]);
    bench.run("nbdinfo", &["--is", "readonly", &read_only.uri("").to_string()]);
}

#[test]
fn our_client_on_qemu_nbd() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    fs::File::create(&image).unwrap().set_len(16 * MIB).unwrap();
    let mode = fs::metadata(&image).unwrap().permissions().mode();
    assert_ne!(mode & 0o200, 0);
    let socket = folder.path().join("s").display().to_string();
    let args =
        ["-k", &socket, "-t", "-e", "8", "-f", "raw", "-x", "disk", "-D", "what it is", "image"];
    let other = Other::start_in(folder, "qemu-nbd", &args);
    exercise(&other.uri("disk"));
    let listed = client::list(&other.uri(""), &Config::default()).unwrap();
    assert_eq!(listed, [("disk".to_owned(), "what it is".to_owned())]);
    let said = Connection::connect(&other.uri("none"), &Config::default()).unwrap_err().to_string();
    assert!(said.contains("no export of that name"), "{said}");
}

#[cfg(feature = "tls")]
mod secure {
    use super::{Blocking, CmdFlags, Lab, MIB, Other, Ram, SIZE, Uri, exercise, fs, run, try_run};
    use crate::pki::Authority;
    use iodyno_nbd::ServerConfig;
    use iodyno_nbd::tls::ServerTls;

    /// One authority and a folder with certificates for both sides.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let pki = folder.path().join("pki");
        authority.trusted_in(&pki);
        authority.server(&pki, "localhost");
        authority.client(&pki);
        folder
    }

    #[test]
    fn their_clients_on_our_server() {
        let folder = folder();
        let pki = folder.path().join("pki");
        let tls = Some(ServerTls::from_folder(&pki).unwrap());
        let disk = Ram::new(SIZE).unwrap();
        let lab = Lab::with(disk, ServerConfig { tls, ..ServerConfig::default() });
        let uri = Uri { tls: true, tls_certificates: Some(pki.clone()), ..lab.uri() }.to_string();
        let said = run(folder.path(), "nbdinfo", &[&uri]);
        assert!(said.contains("with TLS"), "{said}");
        let image = folder.path().join("image").display().to_string();
        fs::write(&image, super::pattern_at(1, SIZE as usize)).unwrap();
        run(folder.path(), "nbdcopy", &["--connections=2", &image, &uri]);
        let tls_object = format!("tls-creds-x509,id=t,endpoint=client,dir={}", pki.display());
        let options = format!(
            "driver=nbd,server.type=unix,server.path={},tls-creds=t,tls-hostname=localhost",
            lab.socket.display()
        );
        run(
            folder.path(),
            "qemu-img",
            &[
                "compare",
                "--object",
                &tls_object,
                "--image-opts",
                &format!("driver=raw,file.filename={image}"),
                &options,
            ],
        );
        let plain = lab.uri().to_string();
        assert!(!try_run(folder.path(), "nbdinfo", &[&plain]).0);
        // A client without a certificate of its own.
        for file in ["client-cert.pem", "client-key.pem"] {
            fs::remove_file(pki.join(file)).unwrap();
        }
        assert!(!try_run(folder.path(), "nbdinfo", &[&uri]).0);
    }

    #[test]
    fn our_client_on_their_servers() {
        let folder = folder();
        let pki = folder.path().join("pki");
        let certificates = format!("--tls-certificates={}", pki.display());
        let args =
            ["-f", "-U", "s", "--tls=require", "--tls-verify-peer", &certificates, "memory", "16M"];
        let other = Other::start("nbdkit", &args);
        let uri = Uri { tls: true, tls_certificates: Some(pki.clone()), ..other.uri("") };
        exercise(&uri);
        let plain = Blocking::connect(&other.uri("")).unwrap_err().to_string();
        assert!(plain.contains("requires TLS"), "{plain}");

        let work = tempfile::tempdir().unwrap();
        fs::File::create(work.path().join("image")).unwrap().set_len(16 * MIB).unwrap();
        let object =
            format!("tls-creds-x509,id=t,endpoint=server,verify-peer=yes,dir={}", pki.display());
        let socket = work.path().join("s").display().to_string();
        let args = [
            "--object",
            &object,
            "--tls-creds",
            "t",
            "-k",
            &socket,
            "-t",
            "-e",
            "8",
            "-f",
            "raw",
            "image",
        ];
        let other = Other::start_in(work, "qemu-nbd", &args);
        let mut client =
            Blocking::connect(&Uri { tls: true, tls_certificates: Some(pki), ..other.uri("") })
                .unwrap();
        client.write(7, b"protected", CmdFlags::NONE).unwrap();
    }
}
