//! Compares the message log with redb, fjall, SQLite and NATS JetStream: batches of messages, each made durable before
//! it is acknowledged. Contenders run one after the other, in random order; results are medians of ratios.
//!
//! `cargo run --release -- [--dir DIR] [--out DIR] [--rounds N] [--seconds S] [--only NAME,…] [--batches N,…] [--nats
//! PROGRAM] [--load quiet|any]`
//!
//! `… -- count` counts, per batch, system calls that make data durable and flushes of the disk (`count.rs`).

mod bare;
mod by_name;
mod compare;
mod contender;
mod count;
mod direct_file;
mod embedded;
mod nats;
mod ours;
mod quiet;
mod trial;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

#[derive(Debug)]
pub(crate) struct Options {
    /// Folder for the stores. Each trial uses its own folder in it.
    pub(crate) dir: PathBuf,
    /// Folder for the raw results.
    pub(crate) out: PathBuf,
    /// Number of runs of each contender with each batch size.
    pub(crate) rounds: usize,
    /// Measuring time of each run, s.
    pub(crate) seconds: f64,
    /// Names of the contenders to compare.
    pub(crate) names: Vec<String>,
    /// Batch sizes, in messages.
    pub(crate) batches: Vec<usize>,
    /// Name or path of the NATS server executable.
    pub(crate) nats: String,
    /// Whether trials wait until other programs are idle, and are repeated if others interfere.
    pub(crate) is_quiet: bool,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let ran = match args.first().map(String::as_str) {
        Some("trial") => trial::main(&args[1..]),
        Some("count") => options(&args[1..]).and_then(|options| count::main(&options)),
        _ => options(&args).and_then(|options| compare::main(&options)),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("log-rivals: {e}");
            ExitCode::FAILURE
        }
    }
}

fn options(args: &[String]) -> Outcome<Options> {
    let mut options = Options {
        dir: PathBuf::from("."),
        out: PathBuf::from("out"),
        rounds: 5,
        seconds: 1.0,
        names: by_name::MAIN.map(str::to_owned).to_vec(),
        batches: vec![1, 16, 128, 1024],
        nats: "nats-server".to_owned(),
        is_quiet: true,
    };
    let mut rest = args.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("{flag} needs a value"))?;
        let refused = |e: &dyn std::fmt::Display| format!("{flag} {value}: {e}");
        match flag.as_str() {
            "--dir" => options.dir = value.into(),
            "--out" => options.out = value.into(),
            "--rounds" => options.rounds = value.parse().map_err(|e| refused(&e))?,
            "--seconds" => options.seconds = value.parse().map_err(|e| refused(&e))?,
            "--only" => options.names = value.split(',').map(str::to_owned).collect(),
            "--batches" => {
                let batches = value.split(',').map(str::parse).collect::<Result<_, _>>();
                options.batches = batches.map_err(|e| refused(&e))?;
            }
            "--load" if matches!(value.as_str(), "quiet" | "any") => {
                options.is_quiet = value == "quiet";
            }
            "--nats" => options.nats.clone_from(value),
            _ => return Err(format!("unknown option {flag}: see main.rs").into()),
        }
    }
    Ok(options)
}
