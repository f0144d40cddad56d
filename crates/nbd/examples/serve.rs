//! Serves a RAM disk until its standard input ends: `serve SOCKET-OR-ADDRESS SIZE_BYTES [CERTIFICATES]`.
//! The export has the empty name; `ro` is the same disk, read-only.

use iodyno_nbd::tls::ServerTls;
use iodyno_nbd::{Endpoint, Exports, Server, ServerConfig, ram::Ram};
use std::error::Error;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [place, size, rest @ ..] = &args[..] else {
        return Err("usage: serve SOCKET-OR-ADDRESS SIZE_BYTES [CERTIFICATES]".into());
    };
    let endpoint = place.parse().map_or_else(|_| Endpoint::Unix(place.into()), Endpoint::Tcp);
    let tls = match rest.first() {
        Some(folder) => Some(ServerTls::from_folder(Path::new(folder))?),
        None => None,
    };
    let disk = Ram::new(size.parse()?)?;
    let exports = Arc::new(Exports::default());
    exports.insert("ro", Arc::new(disk.read_only()));
    exports.insert("", Arc::new(disk));
    let config = ServerConfig { tls, ..ServerConfig::default() };
    let server = Server::start(exports, &[endpoint], config)?;
    println!("{}", server.endpoints()[0]);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    eprintln!("{:?}", server.counters());
    server.stop();
    Ok(())
}
