//! What the transport of this machine takes: the round trip of a 4 KiB read, one at a time, over a
//! Unix socket, to a server that answers at once.

use iodyno_nbd::client::{Blocking, Uri};
use iodyno_nbd::ram::Ram;
use iodyno_nbd::{Endpoint, Exports, Server, ServerConfig};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: usize = 2000;

/// The median round trip, ns. None where it can't be measured.
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
    let exports = Arc::new(Exports::default());
    exports.insert("", Arc::new(Ram::new(1 << 20)?));
    let endpoint = Endpoint::Unix(socket.to_owned());
    let server = Server::start(exports, &[endpoint], ServerConfig::default())?;
    let uri: Uri = format!("nbd+unix:///?socket={}", socket.display()).parse()?;
    let mut client = Blocking::connect(&uri)?;
    let mut buffer = vec![0; 4096];
    let mut taken = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS as u64 {
        let started = Instant::now();
        client.read(round % 256 * 4096, &mut buffer)?;
        taken.push(started.elapsed().as_nanos() as u64);
    }
    drop(client);
    server.stop();
    taken.sort_unstable();
    Ok(taken[ROUNDS / 2])
}
