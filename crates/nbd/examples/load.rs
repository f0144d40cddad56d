//! Random I/O on an NBD server, to compare servers: `load URI read|write BLOCK_BYTES DEPTH CONNECTIONS SECONDS
//! [PID]`. With the server's process number it prints the server's CPU time per I/O. Uses a thread for each connection.

use iodyno_nbd::client::{Config, Connection, Uri, Wait};
use iodyno_nbd::{CmdFlags, Kind};
use std::error::Error;
use std::time::{Duration, Instant};

/// User and system time of a process, seconds.
fn cpu_s(pid: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 =
        after.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<f64>().ok()).sum();
    ticks / 100.0
}

fn work(
    uri: &Uri,
    kind: Kind,
    block: u32,
    depth: u32,
    time: Duration,
    seed: u64,
) -> Result<(u64, Vec<u64>), String> {
    let config = Config { depth, ..Config::default() };
    let mut connection = Connection::connect(uri, &config).map_err(|e| e.to_string())?;
    let blocks = connection.info().size_bytes / u64::from(block);
    let mut memory = vec![7u8; block as usize * depth as usize];
    let start = memory.as_mut_ptr();
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut latencies = Vec::new();
    let mut sent = vec![Instant::now(); depth as usize];
    let mut free: Vec<u32> = (0..depth).collect();
    let mut done = 0;
    let end = Instant::now() + time;
    loop {
        let now = Instant::now();
        if now > end {
            break;
        }
        for slot in free.drain(..) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let at = random % blocks * u64::from(block);
            sent[slot as usize] = now;
            // SAFETY: each slot has a block of its own in `memory`, which outlives the connection's use.
            unsafe {
                let buffer = start.add(slot as usize * block as usize);
                connection.queue(slot, kind, CmdFlags::NONE, at, block, buffer);
            }
        }
        connection.turn(Wait::One).map_err(|e| e.to_string())?;
        let now = (depth == 1).then(Instant::now);
        connection.drain(|slot, result| {
            assert!(result.is_ok(), "{result:?}");
            if let Some(now) = now {
                latencies.push((now - sent[slot as usize]).as_nanos() as u64);
            }
            free.push(slot);
            done += 1;
        });
    }
    // nbdkit 1.32 aborts when a client leaves with replies under way.
    while connection.in_flight() > 0 {
        connection.turn(Wait::One).map_err(|e| e.to_string())?;
        connection.drain(|_, _| {});
    }
    drop(connection);
    drop(memory);
    Ok((done, latencies))
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [uri, kind, block, depth, connections, seconds, pid @ ..] = &args[..] else {
        return Err("usage: load URI read|write BLOCK_BYTES DEPTH CONNECTIONS SECONDS [PID]".into());
    };
    let (uri, block, depth): (Uri, u32, u32) = (uri.parse()?, block.parse()?, depth.parse()?);
    let kind = if kind == "write" { Kind::Write } else { Kind::Read };
    let time = Duration::from_secs_f64(seconds.parse()?);
    let connections: u64 = connections.parse()?;
    let pid = pid.first().map_or("0", |p| p);
    let (server, own) = (cpu_s(pid), cpu_s("self"));
    let started = Instant::now();
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..connections)
            .map(|n| {
                let uri = &uri;
                scope.spawn(move || work(uri, kind, block, depth, time, n + 1))
            })
            .collect();
        threads.into_iter().map(|t| t.join().map_err(|_| "a thread panicked".to_owned())?).collect()
    });
    let results: Vec<(u64, Vec<u64>)> = results.into_iter().collect::<Result<_, String>>()?;
    let elapsed = started.elapsed().as_secs_f64();
    let ops: u64 = results.iter().map(|r| r.0).sum();
    let us = 1e6 / ops as f64;
    let mut latencies: Vec<u64> = results.into_iter().flat_map(|r| r.1).collect();
    latencies.sort_unstable();
    let median = latencies.get(latencies.len() / 2).map_or(0, |ns| *ns);
    println!(
        "{:.0} IOPS  {:.0} MiB/s  server {:.2} us/IO  client {:.2} us/IO  p50 {:.1} us",
        ops as f64 / elapsed,
        ops as f64 * f64::from(block) / elapsed / f64::from(1 << 20),
        (cpu_s(pid) - server) * us,
        (cpu_s("self") - own) * us,
        median as f64 / 1000.0,
    );
    Ok(())
}
