//! Foreign formats. A text is read or refused with a message; a workload that is read is what its TOML text says, and a
//! trace keeps its order, alignment and bounds.

use iodyno_exchange::fio::{self, JobFile, Surroundings};
use iodyno_exchange::fio_results::{self, LogFile};
use iodyno_exchange::trace::{BlockAction, Selection, read as read_trace};
use iodyno_exchange::{amps, diskspd, sysbench, vdbench};
use iodyno_workload::Spec;
use std::path::Path;

/// Most operations of a trace.
const OPS_MAX: usize = 10_000;

/// Includes and variables that do not depend on the machine.
struct Fixed;

impl Surroundings for Fixed {
    fn included(&self, path: &Path) -> Result<String, String> {
        match path.file_name().and_then(|name| name.to_str()) {
            Some("common.inc") => Ok("[global]\nbs=16k\n".to_owned()),
            Some("all.fio") => Ok("[global]\nrw=read\n[a]\n[b]\nbs=,16k\n".to_owned()),
            Some("loop.inc") => Ok("include loop.inc\ninclude common.inc\n".to_owned()),
            _ => Err("there is no such file".to_owned()),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name == "SIZE").then(|| "2g".to_owned())
    }
}

/// Reads a workload, or results; true where it is taken. The first byte, from `0` on, chooses the format.
pub fn workload(data: &[u8]) -> bool {
    let Some((&format, data)) = data.split_first() else { return false };
    let text = String::from_utf8_lossy(data);
    let read = match format.wrapping_sub(b'0') % 7 {
        6 => return results(&text),
        0 => fio::parse("jobs/fuzz.fio", &text, &Fixed),
        1 => fio::parse_command_line(&text, &[], &Fixed),
        2 => sysbench::parse(&text),
        3 => diskspd::parse(&text),
        4 => amps::parse(&text),
        _ => vdbench::parse("fuzz.vdb", &text),
    };
    match read {
        Ok(file) => {
            judge(&file);
            true
        }
        Err(problem) => {
            assert!(!problem.to_string().is_empty() && !problem.message().is_empty());
            false
        }
    }
}

/// Reads results of fio. Logs follow the JSON, each after a line that consists of `=` and the log's name.
fn results(text: &str) -> bool {
    let mut parts = text.split("\n=");
    let json = parts.next().unwrap_or_default();
    let logs: Vec<LogFile> = parts
        .filter_map(|part| part.split_once('\n'))
        .map(|(name, text)| LogFile { origin: name.to_owned(), text: text.to_owned() })
        .collect();
    match fio_results::read("fuzz.json", json, &logs) {
        Ok(results) => {
            assert!(!results.cells.is_empty() && results.cells.len() == results.workloads.len());
            for cell in &results.cells {
                assert!(cell.total().ops() > 0 && cell.evidence.other_tool.is_some());
            }
            true
        }
        Err(problem) => {
            assert!(!problem.to_string().is_empty() && !problem.message().is_empty());
            false
        }
    }
}

fn judge(file: &JobFile) {
    assert!(!file.groups.is_empty() && file.groups.iter().all(|group| !group.is_empty()));
    for job in file.jobs() {
        assert_eq!(Spec::from_toml(&job.toml).as_ref(), Ok(&job.spec), "{}", job.toml);
        assert_eq!(Spec::from_toml(&job.spec.to_toml()).as_ref(), Ok(&job.spec), "{}", job.toml);
    }
}

/// Reads a trace; true where it is taken. The bits of the first byte, less `0`, choose what is selected.
pub fn trace(data: &[u8]) -> bool {
    let Some((&choice, data)) = data.split_first() else { return false };
    let choice = choice.wrapping_sub(b'0');
    let chosen = Selection {
        action: if choice & 1 == 0 { BlockAction::Queue } else { BlockAction::Issue },
        align_bytes: (choice & 2 != 0).then_some(4096),
        from_ns: (choice & 4 != 0).then_some(1000),
        to_ns: (choice & 8 != 0).then_some(1 << 33),
        only: if choice & 16 == 0 { Vec::new() } else { vec!["8,0".to_owned()] },
        format: None,
    };
    let mut file = match read_trace(data, "fuzz", &chosen, OPS_MAX) {
        Ok(file) => file,
        Err(problem) => {
            assert!(!problem.to_string().is_empty());
            return false;
        }
    };
    let summary = file.trace.summary().clone();
    assert_eq!(summary.all_ops(), file.trace.len() as u64);
    let bytes: u64 = file.trace.ops().map(|one| u64::from(one.op.len_bytes)).sum();
    assert_eq!(summary.bytes.iter().sum::<u64>(), bytes);
    let align_bytes = chosen.align_bytes.unwrap_or(512);
    let mut last_ns = 0;
    for one in file.trace.ops() {
        assert!((last_ns..=summary.span_ns).contains(&one.at_ns));
        last_ns = one.at_ns;
        let len_bytes = one.op.len_bytes;
        assert!(one.op.offset_bytes.is_multiple_of(align_bytes.into()));
        assert!(len_bytes.is_multiple_of(align_bytes));
        assert!(one.op.offset_bytes + u64::from(len_bytes) <= summary.end_bytes);
    }
    let _ = file.trace.add_waits();
    true
}
