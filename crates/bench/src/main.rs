//! Compares iodyno with fio, sysbench and a bare io_uring loop. All of them run in each repetition, one after the
//! other, because machines differ and drift. A result is the median of the repetitions' ratios of two rates, with its
//! spread.
//!
//! `cargo run -p iodyno-bench --release -- [--reps N] [--seconds S] [--only PART] [--out DIR]`
//!
//! `… -- simulate` measures the speed of the emulator (`simulate.rs`), `… -- nbd` compares NBD servers (`nbd.rs`), `…
//! -- parity` compares RAID parity with ISA-L (`parity.rs`), and `… -- agree` compares figures of job files with fio's
//! (`agree.rs`).
//!
//! All commands and figures are written to the output folder. Archived runs are in `bench/runs/`.

mod agree;
mod bare;
mod bare_ram;
mod cases;
mod nbd;
mod parity;
mod rival;
mod simulate;
mod tables;

use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug)]
pub(crate) struct Options {
    /// Number of runs of each contender in each comparison.
    pub(crate) reps: usize,
    /// Measuring time of each run, s.
    pub(crate) seconds: f64,
    /// Runs only comparisons whose name contains this text; `None` for all.
    pub(crate) only: Option<String>,
    /// Folder for the raw results.
    pub(crate) out: PathBuf,
    /// Folder for test files on a disk.
    pub(crate) disk_dir: PathBuf,
    /// Folder for test files on a tmpfs.
    pub(crate) tmpfs_dir: PathBuf,
}

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == "bare") {
        return bare::main(&args[1..]);
    }
    if args.first().is_some_and(|a| a == "bare-ram") {
        return bare_ram::main(&args[1..]);
    }
    let ran = if args.first().is_some_and(|a| a == "simulate") {
        simulate::main(&args[1..])
    } else if args.first().is_some_and(|a| a == "nbd") {
        nbd::main(&args[1..])
    } else if args.first().is_some_and(|a| a == "parity") {
        parity::main(&args[1..])
    } else if args.first().is_some_and(|a| a == "agree") {
        agree::main(&args[1..])
    } else {
        options(&mut args).and_then(|o| cases::run_all(&o))
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("iodyno-bench: {e}");
            ExitCode::FAILURE
        }
    }
}

fn options(args: &mut Vec<String>) -> Result<Options, String> {
    let mut options = Options {
        reps: 5,
        seconds: 1.0,
        only: None,
        out: PathBuf::from("bench/out"),
        disk_dir: PathBuf::from("."),
        tmpfs_dir: PathBuf::from("/dev/shm"),
    };
    let mut rest = std::mem::take(args).into_iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("{flag} needs a value"))?;
        let number = || value.parse::<f64>().map_err(|_| format!("{flag} {value}: not a number"));
        match flag.as_str() {
            "--reps" => options.reps = number()?.max(1.0) as usize,
            "--seconds" => options.seconds = number()?.max(0.1),
            "--only" => options.only = Some(value),
            "--out" => options.out = value.into(),
            "--disk-dir" => options.disk_dir = value.into(),
            "--tmpfs-dir" => options.tmpfs_dir = value.into(),
            _ => {
                return Err(format!(
                    "unknown option {flag}: the options are --reps, --seconds, --only, --out, --disk-dir and --tmpfs-dir"
                ));
            }
        }
    }
    Ok(options)
}
