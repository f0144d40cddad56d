//! Keeps the last measurement of transport time, in `iodyno/transport.json` in the user's cache folder. It is valid for
//! an hour, and only for the same program, number of processors and boot. If the file can't be read, the time is
//! measured again.

use iodyno_catalog::input::read_regular_text;
use iodyno_live::transport::{TRANSPORT_MAX_NS, Transport};
use iodyno_targets::output::Output;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use std::{env, fs, thread};

/// Time for which a measurement is kept.
const KEPT: Duration = Duration::from_secs(3600);
/// Largest file that is read, bytes.
const BYTES_MAX: u64 = 4096;

/// Reads the kept measurement; `None` if there is none that applies.
pub(super) fn read() -> Option<Transport> {
    let file = file()?;
    let age = fs::metadata(&file).ok()?.modified().ok()?.elapsed().ok()?;
    let value: Value = serde_json::from_str(&read_regular_text(&file, BYTES_MAX).ok()?).ok()?;
    let ns = |key: &str| value[key].as_u64().filter(|ns| *ns <= TRANSPORT_MAX_NS);
    (age < KEPT && value["of"] == of()?).then_some(())?;
    Some(Transport {
        round_trip_ns: ns("round_trip_ns")?,
        taking_ns: ns("taking_ns")?,
        waking_ns: ns("waking_ns")?,
    })
}

/// Keeps a measurement.
pub(super) fn write(transport: &Transport) {
    let Transport { round_trip_ns, taking_ns, waking_ns } = *transport;
    let (Some(file), Some(of)) = (file(), of()) else { return };
    let text = json!({
        "of": of,
        "round_trip_ns": round_trip_ns,
        "taking_ns": taking_ns,
        "waking_ns": waking_ns,
    });
    if file.parent().is_some_and(|folder| fs::create_dir_all(folder).is_ok())
        && let Ok(output) = Output::at(&file)
    {
        let _ = output.write(text.to_string().as_bytes());
    }
}

/// Path of the file; `None` if the environment names neither a cache folder nor a home folder.
fn file() -> Option<PathBuf> {
    let folder =
        |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(cache.join("iodyno/transport.json"))
}

/// Identifies what was measured: the program's file, the boot, and the number of processors.
fn of() -> Option<String> {
    let program = fs::metadata(env::current_exe().ok()?).ok()?;
    let modified_ns = program.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
    let boot = read_regular_text(Path::new("/proc/sys/kernel/random/boot_id"), BYTES_MAX).ok()?;
    let processors = thread::available_parallelism().ok()?;
    Some(format!("{} {modified_ns} {} {processors}", program.len(), boot.trim()))
}
