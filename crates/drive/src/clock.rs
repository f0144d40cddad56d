//! The clock of the hot loop: nanoseconds since the first use in this process.
//!
//! If the kernel trusts the time stamp counter of an x86-64 processor (its clock source is `tsc`), a timestamp is one
//! `rdtsc` and one multiplication (about 10 ns in a virtual machine). Otherwise, or on request, it is
//! `clock_gettime(CLOCK_MONOTONIC)` (about 25 ns). The counter is calibrated against CLOCK_MONOTONIC once. A bad
//! calibration is detected: each measurement compares the counter with CLOCK_MONOTONIC from its start to its end
//! ([`Clock::error_ppm`]).

use std::sync::OnceLock;

/// The clock that timestamps operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSource {
    /// The processor's time stamp counter.
    Tsc,
    /// `CLOCK_MONOTONIC`.
    System,
}

impl ClockSource {
    /// Name of the clock in a run's results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tsc => "tsc",
            Self::System => "clock_monotonic",
        }
    }
}

/// A clock that is cheap to read and to copy: the processor's time stamp counter where the kernel trusts it, otherwise
/// CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    source: ClockSource,
    /// Scale factor: nanoseconds per tick, multiplied by 2^32.
    scale: u64,
    tsc_base: u64,
    system_base_ns: u64,
}

/// Reads CLOCK_MONOTONIC, ns.
pub fn system_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid timespec; the call writes it and keeps no pointer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[inline]
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: rdtsc reads a register; every x86-64 processor has it.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Simultaneous readings of a clock and of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub struct ClockPair {
    /// Reading of the clock under test, which timestamps operations, ns.
    pub own_ns: u64,
    /// Reading of CLOCK_MONOTONIC at the same time, ns.
    pub system_ns: u64,
}

/// Reads a clock and CLOCK_MONOTONIC three times, and returns the pair with the shortest time between its two
/// readings: the clock's reading, then the system's. A preemption between them would look like an error of the clock.
fn beside_system(read: impl Fn() -> u64) -> (u64, u64) {
    (0..3)
        .map(|_| {
            let before = read();
            let system = system_ns();
            let passed = read().wrapping_sub(before);
            (passed, before.wrapping_add(passed / 2), system)
        })
        .min()
        .map_or((0, 0), |(_, read, system)| (read, system))
}

fn kernel_trusts_tsc() -> bool {
    cfg!(target_arch = "x86_64")
        && std::fs::read_to_string(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        )
        .is_ok_and(|s| s.trim() == "tsc")
}

impl Clock {
    /// Returns the process's clock, calibrated on first use (20 ms). All copies agree.
    pub fn new() -> Self {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK.get_or_init(|| if kernel_trusts_tsc() { Self::calibrated() } else { Self::system() })
    }

    /// Returns the system's clock, CLOCK_MONOTONIC, as requested by `--system-clock`.
    pub fn system() -> Self {
        Self { source: ClockSource::System, scale: 0, tsc_base: 0, system_base_ns: 0 }
    }

    fn calibrated() -> Self {
        let (tsc_start, start_ns) = beside_system(ticks);
        while system_ns() - start_ns < 20_000_000 {
            std::hint::spin_loop();
        }
        let (tsc_end, end_ns) = beside_system(ticks);
        let ticks = tsc_end.wrapping_sub(tsc_start);
        if ticks == 0 {
            return Self::system();
        }
        let scale = (u128::from(end_ns - start_ns) << 32) / u128::from(ticks);
        Self {
            source: ClockSource::Tsc,
            scale: scale as u64,
            tsc_base: tsc_end,
            system_base_ns: end_ns,
        }
    }

    /// Source of the readings: the processor's time stamp counter or the system's clock.
    pub fn source(&self) -> ClockSource {
        self.source
    }

    /// Current time, ns. Comparable among all clocks of this process that have the same source.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        match self.source {
            ClockSource::Tsc => {
                let passed = ticks().wrapping_sub(self.tsc_base);
                self.system_base_ns + ((u128::from(passed) * u128::from(self.scale)) >> 32) as u64
            }
            ClockSource::System => system_ns(),
        }
    }

    /// Rate error of this clock relative to the system's, in parts per million, between two times. At each of them both
    /// clocks were read simultaneously.
    pub fn error_ppm(from: ClockPair, to: ClockPair) -> f64 {
        let ours = (to.own_ns - from.own_ns) as f64;
        let system = (to.system_ns - from.system_ns) as f64;
        if system <= 0.0 { 0.0 } else { (ours / system - 1.0) * 1e6 }
    }

    /// Reads this clock and the system's clock simultaneously.
    pub fn both_ns(&self) -> ClockPair {
        let (own_ns, system_ns) = beside_system(|| self.now_ns());
        ClockPair { own_ns, system_ns }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_keeps_pace_and_never_goes_back() {
        let clock = Clock::new();
        let from = clock.both_ns();
        let mut last = from.own_ns;
        while system_ns() - from.system_ns < 50_000_000 {
            let now = clock.now_ns();
            assert!(now >= last);
            last = now;
        }
        // Within 50 ms: three preemptions by the hypervisor of more than 50 µs, one in each try.
        assert!(Clock::error_ppm(from, clock.both_ns()).abs() < 1000.0);
    }
}
