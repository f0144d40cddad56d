//! The last measurement, kept in `iodyno/transport.json` in the user's cache folder. It applies to the same program,
//! processors and boot, for an hour. Errors only cost time: the latency is measured again.

use iodyno_live::transport::{TRANSPORT_MAX_NS, Transport};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};
use std::{env, fs, process, thread};

/// Time for which a measurement is kept.
const KEPT: Duration = Duration::from_secs(3600);

/// Reads the kept measurement; `None` if there is none that applies.
pub(super) fn read() -> Option<Transport> {
    let file = file()?;
    let age = fs::metadata(&file).ok()?.modified().ok()?.elapsed().ok()?;
    let value: Value = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
    let ns = |key: &str| value[key].as_u64().filter(|ns| *ns <= TRANSPORT_MAX_NS);
    (age < KEPT && value["of"] == of()?).then_some(())?;
    Some(Transport {
        round_trip_ns: ns("round_trip_ns")?,
        taking_ns: ns("taking_ns")?,
        waking_ns: ns("waking_ns")?,
    })
}

/// Keeps a measurement. Replaces the file in one step, since other servers may read it.
pub(super) fn write(transport: &Transport) {
    let Transport { round_trip_ns, taking_ns, waking_ns } = *transport;
    let (Some(file), Some(of)) = (file(), of()) else { return };
    let text = json!({
        "of": of,
        "round_trip_ns": round_trip_ns,
        "taking_ns": taking_ns,
        "waking_ns": waking_ns,
    });
    let begun = file.with_extension(process::id().to_string());
    let folder_exists = file.parent().is_some_and(|folder| fs::create_dir_all(folder).is_ok());
    if folder_exists && fs::write(&begun, text.to_string()).is_ok() {
        let _ = fs::rename(&begun, &file);
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
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let processors = thread::available_parallelism().ok()?;
    Some(format!("{} {modified_ns} {} {processors}", program.len(), boot.trim()))
}
