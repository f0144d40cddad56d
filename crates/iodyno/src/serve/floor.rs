//! What the transport of this machine takes: how much longer than the model says a 4 KiB read takes that
//! is alone, over a Unix socket. It is measured on a device as it is served, for threads that sleep
//! between requests wake up later than those that are kept busy, on virtual machines by several times.

use iodyno_drive::clock::Clock;
use iodyno_emulate::Machine;
use iodyno_live::door::nbd::{Volume, WORKERS};
use iodyno_live::pace::Poller;
use iodyno_live::served::{Live, Options};
use iodyno_nbd::client::{Blocking, Uri};
use iodyno_nbd::{Endpoint, Exports, Server, ServerConfig};
use iodyno_target::TargetName;
use iodyno_units::OpKind;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: usize = 500;
/// What is longer is not the transport but a busy machine, and is not taken off.
const FLOOR_NS_MAX: u64 = 100_000;
/// Some 130 µs a read: about the time in which a processor falls asleep.
const DEVICE: &str = "model:exflash-200g";

/// The lower quartile, ns. None where it can't be measured.
pub(super) fn measure() -> Option<u64> {
    rounds().ok()
}

fn rounds() -> Result<u64, Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("iodyno-floor-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let socket = folder.join("s");
    let result = over(&socket);
    let _ = std::fs::remove_dir_all(&folder);
    result
}

fn over(socket: &std::path::Path) -> Result<u64, Box<dyn Error>> {
    let system = super::system(&TargetName::parse(DEVICE)?).map_err(|_| DEVICE)?;
    let mut machine = Machine::new(&system, 1)?;
    for _ in 0..WORKERS {
        machine.add_worker(0);
    }
    let now = || Clock::new().now_ns();
    let live = Arc::new(Live::new(machine, Vec::new(), &Options::default(), now));
    let poller = Poller::start(&live)?;
    let exports = Arc::new(Exports::default());
    exports.insert("", Arc::new(Volume::new(Arc::clone(&live), 0, 0, true)));
    let endpoint = Endpoint::Unix(socket.to_owned());
    let server = Server::start(exports, &[endpoint], ServerConfig::default())?;
    let uri: Uri = format!("nbd+unix:///?socket={}", socket.display()).parse()?;
    let mut client = Blocking::connect(&uri)?;
    let mut buffer = vec![0; 4096];
    let mut taken = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS as u64 {
        let started = Instant::now();
        client.read(round * (64 << 20), &mut buffer)?;
        taken.push(started.elapsed().as_nanos() as u64);
    }
    drop(client);
    server.stop();
    drop(poller);
    let model_ns = live.look(|_, _, counts| counts[0].latency[OpKind::Read.index()].mean_ns());
    taken.sort_unstable();
    let floor_ns = taken[ROUNDS / 4].saturating_sub(model_ns.unwrap_or(0.0) as u64);
    Ok(floor_ns.min(FLOOR_NS_MAX))
}
