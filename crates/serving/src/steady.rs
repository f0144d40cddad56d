//! `--steady`: stretches the model's time by a constant factor, so that this machine's own delays are a small share
//! of the latencies that clients measure. The factor depends on the device alone, so that it is the same in each run.

use crate::request::Console;
use iodyno_drive::realtime;
use iodyno_emulate::{Machine, UNIT_BYTES};
use iodyno_live::frontend::Served;
use iodyno_units::{Op, OpKind, human};

/// Number of flushed writes whose median time determines the factor.
const WRITES: u64 = 15;
/// If the median delay of completions exceeds this share of the time of a flushed write, a warning is printed.
const LATE_SHARE: f64 = 0.01;

/// Returns the factor by which the model's time must be stretched so that a flushed write of 4 KiB takes `time_ns` on
/// the fastest volume: at least 1, rounded up to two digits. `worker_of` returns the worker for a volume's writes,
/// which run on forks of `machine`.
pub(crate) fn dilation(machine: &Machine, time_ns: u64, worker_of: impl Fn(u32) -> u32) -> f64 {
    let of_volume = |volume| flushed_write_ns(&mut machine.fork(), volume, worker_of(volume));
    let fastest_ns = (0..machine.volumes()).map(of_volume).min().unwrap_or(time_ns).max(1);
    two_digits((time_ns as f64 / fastest_ns as f64).max(1.0))
}

/// Rounds a factor of at least 1 up to two significant digits.
fn two_digits(factor: f64) -> f64 {
    if factor < 10.0 {
        return (factor * 10.0).ceil() / 10.0;
    }
    let digit = 10_u64.pow((factor as u64).ilog10() - 1) as f64;
    (factor / digit).ceil() * digit
}

/// Median time of a flushed write of 4 KiB on an idle volume, ns of the model's time.
fn flushed_write_ns(machine: &mut Machine, volume: u32, worker: u32) -> u64 {
    let mut times: Vec<u64> = (0..WRITES)
        .map(|n| {
            let begin_ns = machine.now_ns();
            let offset_bytes = n * UNIT_BYTES % machine.capacity_bytes(volume).max(1);
            let len_bytes = UNIT_BYTES as u32;
            let write = Op { offset_bytes, len_bytes, kind: OpKind::Write, fua: false };
            for op in [write, Op::FLUSH] {
                machine.submit(machine.now_ns(), worker, volume, &op, n);
                while let Some(next_ns) = machine.next_event()
                    && machine.next_completion(next_ns).is_none()
                {}
            }
            machine.now_ns() - begin_ns
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// Raises the priority of the server's threads. Prints a warning if the system does not permit it.
pub(crate) fn raise_threads(console: Console) {
    if let Err(e) = realtime::raise_other_threads() {
        (console.remark)(
            "warning",
            &format!(
                "--steady without real-time scheduling ({e}): load on this machine delays completions; run as root, or set `ulimit -r 1`"
            ),
        );
    }
}

/// States how late completions were, and whether the machine kept up.
pub(crate) fn report(live: &Served, factor: f64, time_ns: u64, console: Console) {
    let lateness = live.look(|_, _, counts| {
        let mut all = counts.iter().map(|of| of.lateness.clone());
        let first = all.next();
        first.map(|first| {
            all.fold(first, |mut sum, of| {
                sum.merge(&of);
                sum
            })
        })
    });
    let quantile = |share| lateness.as_ref().and_then(|of| of.supported_quantile_ns(share));
    let Some(median_ns) = quantile(0.5) else {
        return (console.remark)("steady", &format!("the model's times × {factor}"));
    };
    let time = |ns: u64| human::time_ns(ns as f64);
    let tail = quantile(0.99).map_or(String::new(), |ns| format!(", p99 {}", time(ns)));
    let limit_ns = time_ns as f64 * LATE_SHARE;
    let (label, verdict) = if median_ns as f64 <= limit_ns && !live.is_held_back() {
        ("steady", "")
    } else {
        ("warning", ": this machine does not keep up; use a longer --steady=TIME")
    };
    (console.remark)(
        label,
        &format!(
            "the model's times × {factor}; completions were late by {} (median){tail}{verdict}",
            time(median_ns)
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_exceeds_the_exact_one_by_less_than_a_tenth() {
        for (factor, rounded) in [
            (1.0, 1.0),
            (1.17, 1.2),
            (1.71, 1.8),
            (9.94, 10.0),
            (10.4, 11.0),
            (99.2, 100.0),
            (341.0, 350.0),
            (64_100.0, 65_000.0),
        ] {
            assert!((two_digits(factor) - rounded).abs() < 1e-9, "{factor}");
        }
    }
}
