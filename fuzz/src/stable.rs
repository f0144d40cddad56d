//! A fuzzer for the stable compiler: it mutates the seeds, and does not use coverage. Run it without `--release`, so that
//! overflow and the code's own assertions are checked.
//!
//! `--seconds N` is how long it runs, `--seed N` which mutations it makes. A failure prints the number of its case; `--only N`
//! with the same seed plays that case again. Names of files: their bytes are played instead.

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

fn seeds(folder: &str) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(folder);
    let mut files: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    files.sort_by_key(std::fs::DirEntry::file_name);
    Ok(files.iter().map(|f| fs::read(f.path())).collect::<Result<_, _>>()?)
}

/// The mutation of this number of the seeds: each has random numbers of its own, so that it can be played alone.
pub fn mutation(seeds: &[Vec<u8>], seed: u64, case: u64) -> Vec<u8> {
    let mut random = Random(seed ^ case.wrapping_mul(0xD134_2543_DE82_EF95));
    let mut bytes = seeds[random.below(seeds.len())].clone();
    mutate(&mut bytes, seeds, &mut random);
    // The first byte often chooses between parsers: each gets its share.
    if random.below(2) == 0
        && let Some(first) = bytes.first_mut()
    {
        *first = random.next() as u8;
    }
    bytes
}

/// The command line of a target.
///
/// # Errors
/// An argument that is not known, a file that can't be read, or a case that failed.
pub fn main(function: &dyn Fn(&[u8]), folder: &str) -> Result<(), Box<dyn Error>> {
    let (mut seconds, mut seed, mut only, mut files) = (10u64, 1u64, None, Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let mut number = || -> Result<u64, Box<dyn Error>> {
            Ok(args.next().ok_or_else(|| format!("{name} needs a number"))?.parse()?)
        };
        match &*name {
            "--seconds" => seconds = number()?,
            "--seed" => seed = number()?,
            "--only" => only = Some(number()?),
            _ if !name.starts_with('-') => files.push(name),
            _ => return Err(format!("{name}: use --seconds, --seed, --only or files").into()),
        }
    }
    for file in &files {
        function(&fs::read(file)?);
    }
    if !files.is_empty() {
        println!("{} files passed", files.len());
        return Ok(());
    }
    let seeds = seeds(folder)?;
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut case = only.unwrap_or(0);
    loop {
        let bytes = mutation(&seeds, seed, case);
        if catch_unwind(AssertUnwindSafe(|| function(&bytes))).is_err() {
            let path = format!("failed-{seed}-{case}.bin");
            fs::write(&path, &bytes)?;
            return Err(
                format!("case {case} of seed {seed} failed; its bytes are in {path}").into()
            );
        }
        case += 1;
        if only.is_some() || (case.is_multiple_of(16) && Instant::now() >= end) {
            break;
        }
    }
    println!("{case} cases passed; seed {seed}");
    Ok(())
}
