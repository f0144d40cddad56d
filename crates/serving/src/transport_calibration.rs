//! Measures this machine's transport time: how much longer an isolated sequential 4 KiB read over a Unix socket takes
//! than in the model. Also measures how much longer a read takes if the server's threads have gone to sleep before it.
//! Waking a thread takes longer than the rest of the transport, on virtual machines several times as long.
//!
//! A measurement takes 0.2 s, so it is kept for an hour in the user's cache folder.

mod kept;

use crate::system::{Access, system};
use iodyno_drive::clock::Clock;
use iodyno_emulate::Machine;
use iodyno_live::frontend::Waiter;
use iodyno_live::frontend::nbd::{Volume, WORKERS};
use iodyno_live::poller::{Lead, Poller};
use iodyno_live::served::{Live, Options};
use iodyno_live::transport::{TRANSPORT_MAX_NS, Transport};
use iodyno_nbd::client::{Blocking, Uri};
use iodyno_nbd::{Endpoint, Exports, Server, ServerConfig};
use iodyno_targets::TargetName;
use iodyno_units::OpKind;
use std::error::Error;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of reads without pauses between them; [`PAUSED_ROUNDS`] is the number of reads after a pause.
const ROUNDS: usize = 500;
const PAUSED_ROUNDS: usize = 100;
/// Pause before a read, long enough that no thread of the server is still polling.
const PAUSE: Duration = Duration::from_micros(500);
/// Emulated device to read from. A read takes about 120 µs, roughly the time after which an idle processor
/// enters a sleep state.
const DEVICE: &str = "model:exflash-200g";

/// Transport latency of this machine, measured now or within the last hour; `None` if the measurement fails.
pub(crate) fn measure() -> Option<Transport> {
    kept::read().or_else(|| rounds().ok().inspect(kept::write))
}

fn rounds() -> Result<Transport, Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("iodyno-floor-{}", std::process::id()));
    // An existing folder with that name belongs to another process, or was left by a server that was
    // killed.
    DirBuilder::new().mode(0o700).create(&folder)?;
    let socket = folder.join("s");
    let result = over(&socket);
    // The server has removed its socket. Any other content stays.
    let _ = std::fs::remove_dir(&folder);
    result
}

fn over(socket: &std::path::Path) -> Result<Transport, Box<dyn Error>> {
    let system = system(&TargetName::parse(DEVICE)?, Access::Any).map_err(|_| DEVICE)?;
    let mut machine = Machine::new(&system, 1)?;
    for _ in 0..WORKERS {
        machine.add_worker(0);
    }
    let now = || Clock::new().now_ns();
    // Nothing is subtracted, but the client's receiving time is measured.
    let options = Options { transport: Some(Transport::default()), ..Options::default() };
    let live = Arc::new(Live::new(machine, Vec::new(), &options, now));
    let poller = Poller::start(&live)?;
    let exports = Arc::new(Exports::default());
    exports.insert("", Arc::new(Volume::new(Arc::clone(&live), 0, 0, true)));
    let endpoint = Endpoint::Unix(socket.to_owned());
    let server = Server::start(exports, &[endpoint], ServerConfig::default())?;
    let uri: Uri = format!("nbd+unix:///?socket={}", socket.display()).parse()?;
    let mut client = Blocking::connect(&uri)?;
    let (mut awake, mut paused) = (Vec::with_capacity(ROUNDS), Vec::with_capacity(PAUSED_ROUNDS));
    for round in 0..ROUNDS {
        awake.push(read(&mut client, round)?);
    }
    let taking_ns = live.transport().map_or(0, |t| t.taking_ns);
    for round in 0..PAUSED_ROUNDS {
        std::thread::sleep(PAUSE);
        paused.push(read(&mut client, round)?);
    }
    drop(client);
    server.stop();
    drop(poller);
    let model_ns = live.look(|_, _, counts| counts[0].latency[OpKind::Read.index()].mean_ns());
    let (awake_ns, paused_ns) = (median(&mut awake), median(&mut paused));
    let fixed_ns = awake_ns.saturating_sub(model_ns.unwrap_or(0.0) as u64);
    // If polling is not allowed, every request wakes a thread, and the round trip includes this time.
    let waking_ns =
        if Lead::<Waiter>::is_possible() { paused_ns.saturating_sub(awake_ns) } else { 0 };
    Ok(Transport {
        round_trip_ns: (fixed_ns + taking_ns).min(TRANSPORT_MAX_NS),
        taking_ns,
        waking_ns: waking_ns.min(TRANSPORT_MAX_NS),
    })
}

/// Reads 4 KiB through `client`, and returns the duration, ns.
fn read(client: &mut Blocking, round: usize) -> std::io::Result<u64> {
    let mut buffer = [0; 4096];
    let started = Instant::now();
    client.read(round as u64 * (64 << 20), &mut buffer)?;
    Ok(started.elapsed().as_nanos() as u64)
}

fn median(times: &mut [u64]) -> u64 {
    times.sort_unstable();
    times[times.len() / 2]
}
