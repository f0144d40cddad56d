//! Counts the operations that make a batch durable: flushes of the disk, and system calls (by strace, including the
//! server's).

use crate::trial::{self, MARK_BEGIN, MARK_END};
use crate::{Options, Outcome};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

/// Number of batches during which system calls are counted.
const COMMITS: u64 = 500;
const CALLS: &str = "fsync,fdatasync,sync_file_range,msync,syncfs,write,pwrite64,writev,pwritev,openat,rename,ftruncate";

pub(crate) fn main(options: &Options) -> Outcome<()> {
    fs::create_dir_all(&options.out)?;
    fs::create_dir_all(&options.dir)?;
    let mut text = String::from(
        "contender,batch,commits,fsync,fdatasync,other_sync,opened_with_sync,files_opened_to_write,writes,disk_flushes\n",
    );
    for batch in &options.batches {
        for name in &options.names {
            let trace = options.dir.join("trace");
            let traced = trial::command(options, name, *batch, &COMMITS.to_string())?;
            let mut command = Command::new("strace");
            command.args(["-f", "-qq", "-s", "64", "-e", "signal=none"]);
            command.arg(format!("--trace={CALLS}")).arg("-o").arg(&trace).arg("--");
            command.arg(traced.get_program()).args(traced.get_args());
            let trial = trial::run(command)?;
            let calls = calls(&fs::read_to_string(&trace)?);
            fs::remove_file(&trace)?;
            let count =
                |names: &[&str]| -> u64 { names.iter().filter_map(|name| calls.get(*name)).sum() };
            let flushes = trial.disk_flushes.map_or(String::new(), |n| n.to_string());
            writeln!(
                text,
                "{name},{batch},{COMMITS},{},{},{},{},{},{},{flushes}",
                count(&["fsync"]),
                count(&["fdatasync"]),
                count(&["sync_file_range", "msync", "syncfs"]),
                count(&["open to sync"]),
                count(&["open to write"]),
                count(&["write", "pwrite64", "writev", "pwritev"]),
            )?;
        }
    }
    fs::write(options.out.join("calls.csv"), &text)?;
    print!("{text}");
    Ok(())
}

/// Counts system calls by name, in the part of a trace between the begin and end marks of a trial.
fn calls(trace: &str) -> BTreeMap<String, u64> {
    let mut calls = BTreeMap::new();
    let inside = trace
        .lines()
        .skip_while(|line| !line.contains(MARK_BEGIN))
        .skip(1)
        .take_while(|line| !line.contains(MARK_END));
    for line in inside {
        // `1234  fsync(5) = 0`, or `1234  fsync(5 <unfinished ...>` and later `1234  <... fsync resumed>) = 0`.
        let call = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        let Some((name, arguments)) = call.split_once('(') else { continue };
        if name.starts_with('<') {
            continue;
        }
        let mut count = |name: &str| *calls.entry(name.to_owned()).or_default() += 1;
        count(name);
        if name == "openat" && (arguments.contains("O_WRONLY") || arguments.contains("O_RDWR")) {
            count("open to write");
            if arguments.contains("O_SYNC") || arguments.contains("O_DSYNC") {
                count("open to sync");
            }
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_between_the_marks_count_once() {
        let trace = format!(
            "7  fsync(3) = 0\n7  write(2, \"{MARK_BEGIN}\\n\", 19) = 19\n\
             7  fdatasync(3 <unfinished ...>\n12 fsync(4)     = 0\n7  <... fdatasync resumed>) = 0\n\
             7  openat(AT_FDCWD, \"a\", O_WRONLY|O_CREAT|O_SYNC, 0644) = 5\n\
             7  openat(AT_FDCWD, \"b\", O_RDONLY) = 5\n\
             7  write(2, \"{MARK_END}\\n\", 17) = 17\n7  fsync(3) = 0\n"
        );
        let expected = [
            ("fdatasync", 1),
            ("fsync", 1),
            ("open to sync", 1),
            ("open to write", 1),
            ("openat", 2),
        ];
        let calls = calls(&trace);
        assert_eq!(calls, expected.map(|(name, n)| (name.to_owned(), n)).into());
    }
}
