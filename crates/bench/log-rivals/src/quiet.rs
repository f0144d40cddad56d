//! Processor use by other programs: total use minus that of this process and its children.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// Maximum CPU utilisation by other programs on a quiet machine, as a fraction of all processors. Includes
/// kernel threads that work for a contender.
pub(crate) const OTHERS_MAX: f64 = 0.15;
const LOOK: Duration = Duration::from_millis(300);

/// Clock ticks since boot, from `/proc`: in total, busy, and used by this process and its ended children.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    all: u64,
    busy: u64,
    own: u64,
}

impl Ticks {
    pub(crate) fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = stat.lines().next().unwrap_or_default();
        // user nice system idle iowait irq softirq steal
        let ticks: Vec<u64> =
            line.split_whitespace().skip(1).take(8).filter_map(|n| n.parse().ok()).collect();
        let all: u64 = ticks.iter().sum();
        let idle: u64 = ticks.iter().skip(3).take(2).sum();
        let own = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // utime, stime, cutime and cstime are fields 14 to 17; the name ends with the last parenthesis.
        let fields = own.rsplit(')').next().unwrap_or_default().split_whitespace();
        let own = fields.skip(11).take(4).filter_map(|n| n.parse::<u64>().ok()).sum();
        Self { all, busy: all - idle, own }
    }

    /// CPU utilisation by other programs since this reading, as a fraction of all processors.
    pub(crate) fn others(self) -> f64 {
        let now = Self::now();
        let busy = (now.busy - self.busy).saturating_sub(now.own - self.own);
        busy as f64 / (now.all - self.all).max(1) as f64
    }
}

/// Measures the CPU utilisation by other programs for 300 ms and, if `is_needed`, repeats until they are
/// quiet.
pub(crate) fn wait(is_needed: bool) {
    loop {
        let before = Ticks::now();
        sleep(LOOK);
        if !is_needed || before.others() < OTHERS_MAX {
            return;
        }
    }
}
