//! CPU time of the calling thread, its context switches and its page faults.
//!
//! Total CPU time comes from `CLOCK_THREAD_CPUTIME_ID`, which is always current and exact to the nanosecond. getrusage
//! only supplies the ratio of user to kernel mode: the kernel updates getrusage's times only at ticks (1 to 10 ms) and
//! context switches, so a cell shorter than a tick would seem to cost nothing.

use iodyno_measure::{RunDelay, Scheduling};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Snapshot of the CPU time used by the calling thread, ns.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_field_names, reason = "units come last in names")]
pub(crate) struct CpuTime {
    sum_ns: u64,
    /// User time of the thread according to getrusage, ns: accounted in timer ticks.
    user_ns: u64,
    /// System time of the thread according to getrusage, ns: accounted in timer ticks.
    system_ns: u64,
    /// Context switches and page faults from getrusage.
    scheduling: Scheduling,
}

impl CpuTime {
    /// Reads the CPU time that the calling thread has used since its start.
    pub(crate) fn now() -> Self {
        // SAFETY: an all-zero timespec and rusage are valid, and the calls fill them.
        let (clock, usage) = unsafe {
            let mut clock: libc::timespec = std::mem::zeroed();
            libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut clock);
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            (clock, usage)
        };
        let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
        Self {
            sum_ns: clock.tv_sec as u64 * 1_000_000_000 + clock.tv_nsec as u64,
            user_ns: ns(usage.ru_utime),
            system_ns: ns(usage.ru_stime),
            scheduling: Scheduling {
                context_switches: (usage.ru_nvcsw + usage.ru_nivcsw) as u64,
                major_faults: usage.ru_majflt as u64,
                minor_faults: usage.ru_minflt as u64,
            },
        }
    }

    /// Context switches and page faults between the snapshots `start` and `self`.
    pub(crate) fn scheduling_since(&self, start: &Self) -> Scheduling {
        let (now, then) = (self.scheduling, start.scheduling);
        Scheduling {
            context_switches: now.context_switches.saturating_sub(then.context_switches),
            major_faults: now.major_faults.saturating_sub(then.major_faults),
            minor_faults: now.minor_faults.saturating_sub(then.minor_faults),
        }
    }

    /// User and system CPU time between the snapshots `start` and `self`, ns. The precise CPU clock gives their
    /// sum. getrusage gives their ratio in this period, or over the thread's life if the period had no timer
    /// tick. Without any tick, all counts as user time, as in the kernel.
    pub(crate) fn since(&self, start: &Self) -> (u64, u64) {
        let sum_ns = self.sum_ns.saturating_sub(start.sum_ns);
        let within = (
            self.user_ns.saturating_sub(start.user_ns),
            self.system_ns.saturating_sub(start.system_ns),
        );
        let (user, system) = if within == (0, 0) { (self.user_ns, self.system_ns) } else { within };
        let ticked = u128::from(user) + u128::from(system);
        // At most the sum, so it fits.
        let system_ns =
            (u128::from(sum_ns) * u128::from(system)).checked_div(ticked).unwrap_or(0) as u64;
        (sum_ns - system_ns, system_ns)
    }
}

/// Reads how long a thread waited for a processor from `/proc/thread-self/schedstat`: ns running, ns runnable
/// but waiting, and number of times scheduled (`Documentation/scheduler/sched-stats.rst` of Linux).
#[derive(Debug)]
pub(crate) struct RunDelayReader {
    /// The open `schedstat` file. It shows the counts of the thread that opened it, whichever thread reads it.
    file: File,
    last: RunDelay,
}

impl RunDelayReader {
    /// Starts counting the calling thread's waits for a processor. `None` if the kernel does not provide the
    /// counts.
    pub(crate) fn of_this_thread() -> Option<Self> {
        let file = File::open("/proc/thread-self/schedstat").ok()?;
        let last = Self::read(&file)?;
        // Kernels without schedstats have a file with zeroes.
        (last.waits > 0).then_some(Self { file, last })
    }

    /// Time waited for a processor, and number of times scheduled, since the last call or the start.
    pub(crate) fn take(&mut self) -> RunDelay {
        let Some(now) = Self::read(&self.file) else { return RunDelay::default() };
        let then = std::mem::replace(&mut self.last, now);
        RunDelay {
            waited_ns: now.waited_ns.saturating_sub(then.waited_ns),
            waits: now.waits.saturating_sub(then.waits),
        }
    }

    fn read(file: &File) -> Option<RunDelay> {
        let mut text = [0; 80];
        let length = file.read_at(&mut text, 0).ok()?;
        let text = core::str::from_utf8(&text[..length]).ok()?;
        let mut fields = text.split_ascii_whitespace().skip(1).map(|field| field.parse().ok());
        Some(RunDelay { waited_ns: fields.next()??, waits: fields.next()?? })
    }
}

#[cfg(test)]
mod tests {
    use super::{CpuTime, RunDelayReader};

    /// Two busy threads on one processor each wait half of the time. A sleeping thread does not wait.
    #[test]
    fn a_thread_without_a_processor_waits() {
        let mut idle = RunDelayReader::of_this_thread().expect("the kernel keeps schedstats");
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(idle.take().waits >= 1);
        let computes = || {
            // SAFETY: an all-zero set is valid; the call binds the calling thread to processor 0.
            unsafe {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(0, &mut set);
                assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &raw const set), 0);
            }
            let mut reader = RunDelayReader::of_this_thread().unwrap();
            let end = std::time::Instant::now() + std::time::Duration::from_millis(300);
            while std::time::Instant::now() < end {
                std::hint::spin_loop();
            }
            (reader.take(), reader.take())
        };
        let others: Vec<_> = (0..2).map(|_| std::thread::spawn(computes)).collect();
        for other in others {
            let (delay, rest) = other.join().unwrap();
            assert!(delay.starved_ns() > 50_000_000, "{delay:?}");
            assert!(
                rest.waited_ns < delay.waited_ns,
                "each call returns only the wait since the previous call"
            );
        }
    }

    fn at(sum_ns: u64, user_ns: u64, system_ns: u64) -> CpuTime {
        CpuTime { sum_ns, user_ns, system_ns, ..CpuTime::default() }
    }

    #[test]
    fn the_sum_is_the_clocks_and_the_ratio_is_the_ticks() {
        let start = at(1000, 900, 100);
        // One to three within the period, whatever the ratio was before.
        assert_eq!(at(1801, 1000, 400).since(&start), (201, 600));
        // No tick within the period: the ratio of the whole life.
        assert_eq!(at(1050, 900, 100).since(&start), (45, 5));
        // No tick ever.
        assert_eq!(at(70, 0, 0).since(&at(0, 0, 0)), (70, 0));
        assert_eq!(start.since(&start), (0, 0));
    }

    #[test]
    fn a_sleep_is_a_context_switch() {
        let before = CpuTime::now();
        std::thread::sleep(std::time::Duration::from_millis(1));
        let page = vec![1_u8; 1 << 20];
        std::hint::black_box(&page);
        let counted = CpuTime::now().scheduling_since(&before);
        assert!(counted.context_switches >= 1 && counted.minor_faults >= 1, "{counted:?}");
        assert!(counted.context_switches < 1000, "{counted:?}");
    }

    /// CPU time of a few microseconds is measured, although it is far shorter than a timer tick.
    #[test]
    fn work_shorter_than_a_tick_is_measured() {
        let mut before = CpuTime::now();
        for i in 0..100_u64 {
            std::hint::black_box((0..1000).fold(i, |a, b| a.rotate_left(7) ^ b));
            let now = CpuTime::now();
            let (user, system) = now.since(&before);
            assert!(user + system > 0, "{before:?} {now:?}");
            before = now;
        }
    }
}
