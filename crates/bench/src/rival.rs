//! Runs a contender once and parses its results: JSON from iodyno, fio and elbencho, text from sysbench, one line
//! from the bare loops.

use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// Rate and CPU time of one run of a contender.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) iops: f64,
    /// User CPU time per operation, ns; 0 if the contender does not report it.
    pub(crate) user_ns: f64,
    /// Kernel CPU time per operation, ns; 0 if the contender does not report it.
    pub(crate) system_ns: f64,
}

/// Format of a contender's output.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reader {
    Iodyno,
    Fio,
    Sysbench,
    Bare,
    Elbencho,
}

/// Temporary file to which elbencho writes its JSON results, since it does not print them.
pub(crate) fn elbencho_file() -> PathBuf {
    std::env::temp_dir().join("iodyno-bench-elbencho.json")
}

pub(crate) fn run(command: &[String], reader: Reader) -> Result<Figures, String> {
    let _ = std::fs::remove_file(elbencho_file());
    let output = Command::new(&command[0])
        .args(&command[1..])
        .output()
        .map_err(|e| format!("{}: {e}", command[0]))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}\nended with {}: {errors}", command.join(" "), output.status));
    }
    let read = match reader {
        Reader::Iodyno => iodyno(&text),
        Reader::Fio => fio(&text),
        Reader::Sysbench => sysbench(&text),
        Reader::Bare => bare(&text),
        Reader::Elbencho => elbencho(),
    };
    read.ok_or_else(|| format!("{}\nprinted an unreadable result: {text}", command.join(" ")))
}

fn iodyno(text: &str) -> Option<Figures> {
    let document: Value = serde_json::from_str(text).ok()?;
    let cells = document["cells"].as_array()?;
    // With several targets the last cell is their sum.
    let cell = cells.last()?;
    let iops = cell["total"]["iops"].as_f64()?;
    let ops = iops * cell["seconds"].as_f64()?;
    let workers = cell["cpu_workers"].as_array()?;
    let per_op = |key: &str| {
        let seconds: f64 = workers.iter().filter_map(|w| w[key].as_f64()).sum();
        seconds * 1e9 / ops
    };
    Some(Figures { iops, user_ns: per_op("user_seconds"), system_ns: per_op("system_seconds") })
}

fn fio(text: &str) -> Option<Figures> {
    let document: Value = serde_json::from_str(&text[text.find('{')?..]).ok()?;
    let jobs = document["jobs"].as_array()?;
    let (mut iops, mut user, mut system) = (0.0, 0.0, 0.0);
    for job in jobs {
        for kind in ["read", "write"] {
            iops += job[kind]["iops"].as_f64()?;
        }
        // fio reports percentages of the job's run time.
        user += job["usr_cpu"].as_f64()? / 100.0;
        system += job["sys_cpu"].as_f64()? / 100.0;
    }
    Some(Figures { iops, user_ns: user * 1e9 / iops, system_ns: system * 1e9 / iops })
}

fn sysbench(text: &str) -> Option<Figures> {
    // sysbench 1.0 prints lines `reads/s:` and `writes/s:`.
    let value = |name: &str| -> Option<f64> {
        let line = text.lines().find(|l| l.trim_start().starts_with(name))?;
        line.split(':').nth(1)?.trim().parse().ok()
    };
    Some(Figures { iops: value("reads/s")? + value("writes/s")?, ..Figures::default() })
}

/// Parses elbencho's result file, which contains one JSON object per phase, with all values as strings.
fn elbencho() -> Option<Figures> {
    let text = std::fs::read_to_string(elbencho_file()).ok()?;
    let phase: Value = serde_json::from_str(text.lines().last()?).ok()?;
    let iops = phase["last_done"]["iops"].as_str()?.parse().ok()?;
    Some(Figures { iops, ..Figures::default() })
}

fn bare(text: &str) -> Option<Figures> {
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    let [ops, seconds, user, system] = numbers[..] else { return None };
    Some(Figures { iops: ops / seconds, user_ns: user * 1e9 / ops, system_ns: system * 1e9 / ops })
}
