//! Number of mutations in a test: a count, or a limit of processor time.

use std::ops::Range;

/// Value of an environment variable: `1000000`, `1@537` (from number 537 on) or `1800s` (of processor time).
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    numbers: Range<u64>,
    /// Upper bound of the processor time, s.
    seconds: u64,
}

impl Budget {
    /// Budget from the environment variable; without it, `short` mutations from number 0 on.
    pub(crate) fn asked(variable: &str, short: u64) -> Self {
        let asked = std::env::var(variable).unwrap_or(short.to_string());
        let (count, first) = asked.split_once('@').unwrap_or((&asked, "0"));
        let number = |text: &str| -> u64 {
            text.parse().unwrap_or_else(|_| panic!("{variable}=COUNT[s][@FIRST], not {asked}"))
        };
        let first = number(first);
        match count.strip_suffix('s') {
            Some(seconds) => Self { numbers: first..u64::MAX, seconds: number(seconds) },
            None => Self { numbers: first..first + number(count), seconds: u64::MAX },
        }
    }

    /// Numbers of the mutations, until the count or the time is used up.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> + use<> {
        let Self { numbers, seconds } = self.clone();
        let is_left = move |number: &u64| {
            seconds == u64::MAX || !number.is_multiple_of(256) || cpu_seconds() < seconds
        };
        numbers.take_while(is_left)
    }
}

/// The processor time of this thread.
fn cpu_seconds() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    let ns: u64 = text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number of ns");
    ns / 1_000_000_000
}
