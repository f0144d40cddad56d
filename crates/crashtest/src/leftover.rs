//! Processes that a program under test leaves running: those of its process group, and those with its environment
//! variable, such as a daemon with a session of its own.

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Interval between checks whether the processes have ended.
const TICK: Duration = Duration::from_millis(1);

/// Kills the processes that the ended program `group`, the leader of its process group, left running. `folder`: the
/// program's folder, of which its environment tells.
/// Processes that end by themselves within `patience` are not counted. Returns the number of killed processes.
pub(crate) fn kill_leftover(group: Pid, folder: &Path, patience: Duration) -> usize {
    let search =
        Search { group, variable: [b"IODYNO_DIR=", folder.as_os_str().as_bytes()].concat() };
    let until = Instant::now() + patience;
    let mut running = search.running();
    while !running.is_empty() && Instant::now() < until {
        std::thread::sleep(TICK);
        running.retain(|&pid| search.has_left(pid));
    }
    let mut killed = BTreeSet::new();
    let until = Instant::now() + patience;
    loop {
        // The processes may have started others.
        let running = search.running();
        if running.is_empty() || Instant::now() >= until {
            return killed.len();
        }
        // At once, so that no process acts on the end of another.
        let _ = kill_process_group(group, Signal::KILL);
        for &pid in &running {
            search.kill(pid);
        }
        killed.extend(running.iter().map(|pid| pid.as_raw_nonzero()));
        std::thread::sleep(TICK);
    }
}

struct Search {
    group: Pid,
    /// Environment variable of the program and its descendants, with its value.
    variable: Vec<u8>,
}

impl Search {
    fn running(&self) -> Vec<Pid> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter_map(Pid::from_raw).filter(|&pid| self.has_left(pid)).collect()
    }

    /// Whether the program left this process running.
    fn has_left(&self, pid: Pid) -> bool {
        if pid == self.group || pid == rustix::process::getpid() {
            return false;
        }
        let place = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
        let Ok(stat) = fs::read_to_string(place.join("stat")) else { return false };
        // The name in parentheses may contain any character.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let mut fields = fields.split_whitespace();
        let is_alive = fields.next().is_some_and(|state| !["Z", "X"].contains(&state));
        let is_of_group = fields.nth(1).and_then(|group| group.parse().ok())
            == Some(self.group.as_raw_nonzero().get());
        is_alive && (is_of_group || self.has_variable(&place))
    }

    fn has_variable(&self, place: &Path) -> bool {
        let environment = fs::read(place.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == self.variable)
    }

    /// Kills the process, unless its number now belongs to another.
    fn kill(&self, pid: Pid) {
        if let Ok(process) = pidfd_open(pid, PidfdFlags::empty())
            && self.has_left(pid)
        {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }
}
