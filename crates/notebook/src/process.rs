//! Identifies the process that writes a run, and checks whether it is still alive.
//!
//! A PID alone is ambiguous, since PIDs are reused. A writer is identified by its boot, its PID namespace, its PID, and
//! its start time in clock ticks since boot. A process that can't be inspected (another container, a machine without
//! `/proc`) is unknown, and never counts as dead.

use std::fs;

/// Identity of the process that writes a run. Empty texts and zeroes mean unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    /// Id of the system's boot, from `/proc/sys/kernel/random/boot_id`.
    pub boot: String,
    /// PID namespace of the process, from `/proc/self/ns/pid`.
    pub namespace: String,
    /// PID of the process in its PID namespace; 0 if the run was imported.
    pub pid: u32,
    /// Start time, in clock ticks since boot: field 22 of `/proc/PID/stat`.
    pub start_ticks: u64,
}

impl Writer {
    /// Identity of the current process.
    pub(crate) fn this() -> Self {
        let pid = std::process::id();
        Self {
            boot: boot_id(),
            namespace: pid_namespace(),
            pid,
            start_ticks: stat(pid).map_or(0, |s| s.start_ticks),
        }
    }

    /// Whether the run has no writing process, because it was imported.
    pub(crate) fn is_none(&self) -> bool {
        self.pid == 0
    }

    /// Whether the writing process certainly exists, in this process's PID namespace.
    pub(crate) fn is_alive_here(&self) -> bool {
        let is_same = |ours: String, theirs: &str| !ours.is_empty() && ours == theirs;
        is_same(boot_id(), &self.boot)
            && is_same(pid_namespace(), &self.namespace)
            && self.start_ticks != 0
            && stat(self.pid).is_some_and(|s| s.start_ticks == self.start_ticks && !s.is_dead)
    }

    /// Whether the writing process may still exist. False only if it is certainly gone.
    pub(crate) fn may_be_alive(&self) -> bool {
        let boot = boot_id();
        if !boot.is_empty() && !self.boot.is_empty() && boot != self.boot {
            return false;
        }
        if self.namespace != pid_namespace() || self.start_ticks == 0 {
            return true;
        }
        match stat(self.pid) {
            Some(s) => s.start_ticks == self.start_ticks && !s.is_dead,
            // Without /proc, not even our own entry exists.
            None => stat(std::process::id()).is_none(),
        }
    }
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn pid_namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid");
    link.map(|l| l.to_string_lossy().into_owned()).unwrap_or_default()
}

struct Stat {
    start_ticks: u64,
    /// Whether the process is dead or a zombie.
    is_dead: bool,
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses fields of `/proc/PID/stat`, see proc(5). The second is the program's name in parentheses, which may itself
/// hold spaces and parentheses, so fields are counted from the last closing parenthesis.
fn parse_stat(text: &str) -> Option<Stat> {
    let mut after_name = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = after_name.next()?;
    let start_ticks = after_name.nth(18)?.parse().ok()?;
    Some(Stat { start_ticks, is_dead: matches!(state, "Z" | "X" | "x") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_known_by_all_four() {
        let me = Writer::this();
        assert!(me.may_be_alive() && me.is_alive_here());
        assert!(me.start_ticks > 0 && !me.boot.is_empty() && !me.namespace.is_empty());
        let dead = [
            Writer { boot: "another".to_owned(), ..me.clone() },
            Writer { start_ticks: me.start_ticks + 1, ..me.clone() },
            // Above any process number (PID_MAX_LIMIT is 2^22).
            Writer { pid: 1 << 30, ..me.clone() },
        ];
        for writer in dead {
            assert!(!writer.may_be_alive() && !writer.is_alive_here(), "{writer:?}");
        }
        let elsewhere = Writer { namespace: "pid:[1]".to_owned(), pid: 1 << 30, ..me };
        assert!(elsewhere.may_be_alive(), "processes of another container can't be checked");
        assert!(!elsewhere.is_alive_here());
    }

    #[test]
    fn a_program_name_can_hold_anything() {
        let line = "7 (a) Z 1 (b) S 1 7 7 0 -1 4194560 0 0 0 0 1 2 0 0 20 0 1 0 4242 0 0";
        let stat = parse_stat(line).unwrap();
        assert_eq!((stat.start_ticks, stat.is_dead), (4242, false));
        assert!(parse_stat("7 (sh) Z 1 7 7 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 9 0").unwrap().is_dead);
        assert!(parse_stat("7 (sh) S 1").is_none());
    }
}
