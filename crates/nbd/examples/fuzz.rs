//! A fuzzer for the stable compiler: it mutates captured exchanges and runs them through the bodies that
//! cargo-fuzz uses too. It does not use coverage.
//!
//! `cargo run -p iodyno-nbd --example fuzz -- --seconds 60 --seed 1 [--live-every 64]`, without `--release`, so
//! that overflow and the code's own assertions are checked.
//!
//! A failure prints the case's number; `--only N` with the same seed plays it again.

#[path = "../fuzz/bodies.rs"]
mod bodies;

use std::error::Error;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// SplitMix64: <https://prng.di.unimi.it/splitmix64.c>.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Numbers at which lengths and offsets go wrong.
const NUMBERS: [u64; 18] = [
    0,
    1,
    2,
    7,
    8,
    511,
    512,
    4096,
    4097,
    1 << 14,
    (1 << 20) - 1,
    1 << 20,
    (1 << 25) + 1,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    (1 << 63) - 1,
    u64::MAX,
];

fn mutate(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    for _ in 0..=random.below(5) {
        let at = random.below(bytes.len());
        let len = (1 + random.below(40)).min(bytes.len() - at.min(bytes.len()));
        match random.below(9) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            2 => drop(bytes.drain(at..at + len)),
            3 => {
                let again = bytes[at..at + len].to_vec();
                bytes.splice(at..at, again);
            }
            4 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len());
                let to = (from + random.below(200)).min(other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            5 => bytes.truncate(at),
            6 => {
                let noise: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
                bytes.splice(at..at, noise);
            }
            _ => {
                let width = [1, 2, 4, 8][random.below(4)];
                let number = NUMBERS[random.below(NUMBERS.len())].to_be_bytes();
                for (n, byte) in number[8 - width..].iter().enumerate() {
                    if let Some(b) = bytes.get_mut(at + n) {
                        *b = *byte;
                    }
                }
            }
        }
    }
}

fn seeds(kind: &str) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(kind);
    let mut files: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    files.sort_by_key(std::fs::DirEntry::file_name);
    Ok(files.iter().map(|f| fs::read(f.path())).collect::<Result<_, _>>()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut seconds, mut seed, mut live_every, mut only) = (10u64, 1u64, 64u64, None);
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value: u64 = args.next().ok_or("a number is missing")?.parse()?;
        match &*name {
            "--seconds" => seconds = value,
            "--seed" => seed = value,
            "--live-every" => live_every = value.max(1),
            "--only" => only = Some(value),
            _ => {
                return Err(
                    format!("{name}: there is --seconds, --seed, --live-every, --only").into()
                );
            }
        }
    }
    let (clients, servers) = (seeds("server")?, seeds("client")?);
    let live = bodies::Live::new();
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut lives = 0u64;
    let mut case = only.unwrap_or(0);
    loop {
        if case % 1024 == 0 && only.is_none() && Instant::now() >= end {
            break;
        }
        // Each case has its own numbers, so that it can be played alone.
        let mut random = Random(seed ^ case.wrapping_mul(0xD134_2543_DE82_EF95));
        let to_server = random.below(2) == 0;
        let pool = if to_server { &clients } else { &servers };
        let mut bytes = pool[random.below(pool.len())].clone();
        mutate(&mut bytes, pool, &mut random);
        let choice = random.next() as u8;
        let plays_live = to_server && case % live_every == 0;
        let result = catch_unwind(AssertUnwindSafe(|| {
            if plays_live {
                live.play(&bytes);
                if case % (1024 * live_every) == 0 {
                    live.still_serves();
                }
            }
            bytes.insert(0, choice);
            if to_server { bodies::server(&bytes) } else { bodies::client(&bytes) }
        }));
        lives += u64::from(plays_live);
        if result.is_err() {
            let path = format!("failed-{seed}-{case}.bin");
            fs::write(&path, &bytes)?;
            return Err(
                format!("case {case} of seed {seed} failed; its bytes are in {path}").into()
            );
        }
        if only.is_some() {
            break;
        }
        case += 1;
    }
    live.still_serves();
    println!("{case} cases, {lives} of them on a live server; seed {seed}");
    Ok(())
}
