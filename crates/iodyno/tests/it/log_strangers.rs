//! A message log's server with clients that misbehave in [`WAYS`], over TLS and Unix sockets, with and without the
//! token. At the same time an honest publisher and an honest reader lose nothing, the server's memory stays within
//! its documented bound, all descriptors are returned, and the server ends when told to. The latency of honest
//! messages is printed. Since a disk's latency may vary tenfold within a minute, the honest clients are alone and
//! beside strangers in turn.
//!
//! For more clients: `IODYNO_LOG_STRANGERS=200 IODYNO_LOG_STRANGERS_SECONDS=600 IODYNO_LOG_STRANGERS_ROUNDS=20
//! cargo test --release -p iodyno --test it log_strangers -- --nocapture`. The default is 40 clients for 4 s in one
//! round. The time alone comes on top, half as long.

use crate::log_server::{LogServer, socket};
use crate::log_ways::{Dial, WAYS, Way};
use crate::pki::Authority;
use crate::place::Place;
use iodyno_msglog::MessageKind;
use iodyno_msglog::client::Connection;
use iodyno_msglog::protocol::{End, Published, Reply, Request, Start};
use iodyno_nbd::Endpoint;
use iodyno_nbd::stream::Stream;
use iodyno_nbd::tls::ClientTls;
use iodyno_units::rng::{below, stream};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const TOKEN: &[u8] = b"correct horse battery staple";
/// The server's `--memory`.
const MEMORY_BYTES: u64 = 64 << 20;
/// Memory of a connection beyond the shared one, as documented in `docs/message-log.md`: half a MiB and three chunks of
/// 64 KiB.
const CONNECTION_BYTES: u64 = (512 + 3 * 64) << 10;
/// Pause between honest messages.
const PACE: Duration = Duration::from_millis(2);

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |n| n.parse().unwrap())
}

/// Latencies of honest messages, ns: until they were acknowledged, and until the reader had them.
#[derive(Default)]
struct Latencies {
    acknowledged: Vec<u64>,
    received: Vec<u64>,
    /// Results of [`Test::without_a_server`], ns.
    bare: Vec<u64>,
}

impl Latencies {
    fn p99_ms(mut of: Vec<u64>) -> f64 {
        of.sort_unstable();
        of.get(of.len() * 99 / 100).map_or(f64::NAN, |ns| *ns as f64 / 1e6)
    }

    /// Prints the p99 of all rounds together and of each, alone and beside strangers.
    fn print(what: &str, alone: &[Self], beside: &[Self], of: fn(&Self) -> &Vec<u64>) {
        let all = |rounds: &[Self]| {
            Self::p99_ms(rounds.iter().flat_map(|round| of(round).iter().copied()).collect())
        };
        let (before, after) = (all(alone), all(beside));
        println!(
            "{what}: p99 {before:.3} ms alone, {after:.3} ms beside strangers ({:.2} times), of {} messages",
            after / before,
            beside.iter().map(|round| of(round).len()).sum::<usize>()
        );
        let pairs = alone.iter().zip(beside);
        let pairs = pairs.map(|(alone, beside)| {
            (Self::p99_ms(of(alone).clone()), Self::p99_ms(of(beside).clone()))
        });
        let mut ratios = Vec::new();
        for (alone_ms, beside_ms) in pairs {
            print!(" {alone_ms:.2}:{beside_ms:.2}");
            ratios.push(beside_ms / alone_ms);
        }
        ratios.sort_by(f64::total_cmp);
        println!(" ms in each round; median of the ratios {:.2}", ratios[ratios.len() / 2]);
    }
}

/// Resident memory of a process, bytes.
fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn open_files(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Lets this thread run only on idle processors, as if it were on another machine, so that the strangers' own work does
/// not slow the honest clients down. (At nice 19, 200 busy threads together outweigh the server.)
fn yield_to_others() {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: sets the policy of this thread alone; `param` outlives the call.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const param) };
    assert_eq!(set, 0, "{}", io::Error::last_os_error());
}

struct Test {
    place: Place,
    server: LogServer,
    tcp: std::net::SocketAddr,
    tls: ClientTls,
}

impl Test {
    fn start() -> Self {
        let place = Place::new();
        let authority = Authority::new();
        authority.trusted_in(&place.path("pki"));
        authority.server(&place.path("pki"), "localhost");
        place.write("token", TOKEN);
        let server = LogServer::with_log(
            &place,
            "--size 64MiB --segment 1MiB",
            "--token-file token --memory 64MiB --tcp 127.0.0.1:0 --tls pki/server-cert.pem,pki/server-key.pem",
        );
        let tls = ClientTls::new(&place.path("pki/ca-cert.pem"), None).unwrap();
        let tcp = server.tcp().parse().unwrap();
        Self { place, server, tcp, tls }
    }

    fn dial(&self, is_local: bool) -> io::Result<Stream> {
        let patience = Duration::from_secs(20);
        if is_local {
            return Stream::connect(&Endpoint::Unix(socket(&self.place)), None, patience);
        }
        Stream::connect(&Endpoint::Tcp(self.tcp), Some((&self.tls, "localhost")), patience)
    }

    fn connect(&self, is_local: bool) -> Connection<Stream> {
        Connection::begin(self.dial(is_local).unwrap(), TOKEN).unwrap()
    }

    fn dialer(&self) -> Dial<'_> {
        let socket = socket(&self.place);
        let connect = Box::new(|is_local| self.dial(is_local));
        Dial { connect, socket, tcp: self.tcp, token: TOKEN }
    }

    /// Misbehaves in each of the [`WAYS`] in turn, until `is_over`.
    fn misbehave(&self, number: u64, is_over: &AtomicBool, counts: &[AtomicU64]) {
        yield_to_others();
        let mut rng = stream(number, "stranger", 0);
        let dial = self.dialer();
        for round in 0.. {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            // All ways are taken at any time, each in turn by each.
            let at = ((number + round) % WAYS.len() as u64) as usize;
            let (_, way): (_, Way) = WAYS[at];
            // What the server does to it is not looked at here.
            let _ = way(&dial, below(&mut rng, 2) == 0, &mut rng);
            counts[at].fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(10 + below(&mut rng, 40)));
        }
    }

    /// Publishes over a Unix socket and reads over TLS until `is_over`. The messages have sequence numbers from `first`
    /// on.
    fn behave(&self, first: &mut u64, is_over: &AtomicBool) -> Latencies {
        let mut latencies = Latencies::default();
        let began = Instant::now();
        let now_ns = || began.elapsed().as_nanos() as u64;
        let (mut reader, mut publisher) = (self.connect(false), self.connect(true));
        reader.read(Start::Now, End::Never, "honest", "/sent > 0").unwrap();
        publisher.request(&Request::OpenPublisher { name: "honest" }).unwrap();
        let begin = match publisher.reply().unwrap() {
            Reply::Publisher { persisted, .. } => persisted + 1,
            other => panic!("{other:?}"),
        };
        assert_eq!(begin, *first, "what was acknowledged is there");
        let last = AtomicU64::new(u64::MAX);
        std::thread::scope(|scope| {
            let reads = scope.spawn(|| {
                let mut received = Vec::new();
                for expected in begin.. {
                    if expected > last.load(Ordering::Acquire) {
                        break;
                    }
                    let Reply::Message { message, .. } = reader.reply().unwrap() else {
                        panic!("no message")
                    };
                    assert_eq!(message.sequence, expected);
                    let body: serde_json::Value = serde_json::from_slice(message.body).unwrap();
                    received.push(now_ns() - body["sent"].as_u64().unwrap());
                }
                received
            });
            for sequence in begin.. {
                let sent_ns = now_ns();
                let body = format!("{{\"sent\": {}}}", sent_ns.max(1));
                if is_over.load(Ordering::Relaxed) {
                    last.store(sequence, Ordering::Release);
                }
                let key = format!("k{}", sequence % 1000);
                let message = Published {
                    sequence,
                    kind: MessageKind::Publish,
                    topic: "honest",
                    key: key.as_bytes(),
                    body: body.as_bytes(),
                };
                publisher.request(&Request::Publish(message)).unwrap();
                loop {
                    match publisher.reply().unwrap() {
                        Reply::Persisted { sequence: until } if until >= sequence => break,
                        Reply::Persisted { .. } => {}
                        other => panic!("{other:?}"),
                    }
                }
                latencies.acknowledged.push(now_ns() - sent_ns);
                if sequence == last.load(Ordering::Relaxed) {
                    *first = sequence + 1;
                    break;
                }
                std::thread::sleep(PACE);
            }
            latencies.received = reads.join().unwrap();
        });
        latencies
    }

    /// Measures the machine's share of the latencies: one thread asks another over a socket to write and flush 4 KiB,
    /// at the pace of the honest publisher, until `is_over`. Returns the durations, ns.
    fn without_a_server(&self, is_over: &AtomicBool) -> Vec<u64> {
        let file = std::fs::File::create(self.place.path("bare")).unwrap();
        let (mut asks, mut serves) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut byte = [0];
                for at in 0_u64.. {
                    if serves.read(&mut byte).unwrap() == 0 {
                        break;
                    }
                    file.write_all_at(&[1; 4096], at % 16384 * 4096).unwrap();
                    file.sync_data().unwrap();
                    serves.write_all(&byte).unwrap();
                }
            });
            let mut took_ns = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let began = Instant::now();
                asks.write_all(&[0]).unwrap();
                asks.read_exact(&mut [0]).unwrap();
                took_ns.push(began.elapsed().as_nanos() as u64);
                std::thread::sleep(PACE);
            }
            drop(asks);
            took_ns
        })
    }

    /// Publishes values and messages that strangers can request.
    fn fill(&self) {
        let mut publisher = self.connect(true);
        publisher.request(&Request::OpenPublisher { name: "" }).unwrap();
        let text = "a".repeat(5000);
        for sequence in 1..=4000_u64 {
            let body = format!("{{\"a\": \"{text}\", \"b\": [{}1]}}", "1,".repeat(100));
            let key = format!("{}", sequence % 2000);
            let message = Published {
                sequence,
                kind: MessageKind::Publish,
                topic: "filled",
                key: key.as_bytes(),
                body: body.as_bytes(),
            };
            publisher.gather(&Request::Publish(message)).unwrap();
        }
        publisher.send().unwrap();
        while !matches!(publisher.reply().unwrap(), Reply::Persisted { sequence: 4000 }) {}
    }
}

#[test]
fn honest_clients_are_served_beside_strangers() {
    let strangers = setting("IODYNO_LOG_STRANGERS", 40);
    let time = Duration::from_secs(setting("IODYNO_LOG_STRANGERS_SECONDS", 4));
    let test = Test::start();
    let pid = test.server.id();
    let files = open_files(pid);
    test.fill();
    let base_bytes = resident_bytes(pid);
    let mut next = 1;
    let during = |time: Duration, next: &mut u64, strangers: u64, counts: &[AtomicU64]| {
        let is_over = AtomicBool::new(false);
        let (most_bytes, is_measured) = (AtomicU64::new(0), AtomicBool::new(false));
        let latencies = std::thread::scope(|scope| {
            for number in 0..strangers {
                let (test, is_over) = (&test, &is_over);
                scope.spawn(move || test.misbehave(number, is_over, counts));
            }
            scope.spawn(|| {
                while !is_measured.load(Ordering::Relaxed) {
                    most_bytes.fetch_max(resident_bytes(pid), Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
            scope.spawn(|| {
                std::thread::sleep(time);
                is_over.store(true, Ordering::Relaxed);
            });
            let bare = scope.spawn(|| test.without_a_server(&is_over));
            let mut latencies = test.behave(next, &is_over);
            latencies.bare = bare.join().unwrap();
            is_measured.store(true, Ordering::Relaxed);
            latencies
        });
        (latencies, most_bytes.into_inner())
    };
    let rounds = setting("IODYNO_LOG_STRANGERS_ROUNDS", 1);
    let round_time = time / rounds as u32;
    let counts: Vec<_> = WAYS.iter().map(|_| AtomicU64::new(0)).collect();
    let (mut alone, mut beside, mut most_bytes) = (Vec::new(), Vec::new(), 0);
    for _ in 0..rounds {
        alone.push(during(round_time / 2, &mut next, 0, &[]).0);
        let (latencies, bytes) = during(round_time, &mut next, strangers, &counts);
        beside.push(latencies);
        most_bytes = most_bytes.max(bytes);
    }
    // Their values are in memory, too, beside the bound of what clients hold.
    let bound_bytes = base_bytes + MEMORY_BYTES + (strangers + 2) * CONNECTION_BYTES + (96 << 20);
    println!("{strangers} strangers, {rounds} rounds of {} s", round_time.as_secs_f64());
    Latencies::print("acknowledged", &alone, &beside, |latencies| &latencies.acknowledged);
    Latencies::print("received", &alone, &beside, |latencies| &latencies.received);
    let what = "two threads and a file, without a server";
    Latencies::print(what, &alone, &beside, |latencies| &latencies.bare);
    for ((name, _), count) in WAYS.iter().zip(&counts) {
        println!("{:6} times: {name}", count.load(Ordering::Relaxed));
    }
    let mib = |bytes: u64| bytes >> 20;
    // All is given back.
    let deadline = Instant::now() + Duration::from_secs(60);
    while open_files(pid) > files {
        assert!(Instant::now() < deadline, "{} files of {files} are open", open_files(pid));
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(3));
    println!(
        "memory: {} MiB before, {} MiB at most of {} MiB, {} MiB after",
        mib(base_bytes),
        mib(most_bytes),
        mib(bound_bytes),
        mib(resident_bytes(pid))
    );
    assert!(most_bytes <= bound_bytes, "{} MiB", mib(most_bytes));
    // It ends in their midst.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..strangers {
            let (test, is_over, counts) = (&test, &is_over, &counts);
            scope.spawn(move || test.misbehave(number, is_over, counts));
        }
        std::thread::sleep(Duration::from_secs(1));
        let began = Instant::now();
        // SAFETY: sends a signal to our own child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(pid as libc::pid_t, libc::SIGTERM) }, 0);
        while std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")))
        {
            assert!(began.elapsed() < Duration::from_secs(60), "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        println!("ended {:.2} s after SIGTERM", began.elapsed().as_secs_f64());
        is_over.store(true, Ordering::Relaxed);
    });
    let Test { place, server, .. } = test;
    let said = server.ends(0);
    assert!(!said.contains("panicked"), "{said}");
    let checked = place.iodyno("log check a.log --json").succeeds().json();
    assert_eq!(checked["damages"], serde_json::json!([]));
}
