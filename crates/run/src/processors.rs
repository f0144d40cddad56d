//! Set of processors to which the run's threads are pinned.

use crate::outcome::RunError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::str::FromStr;

/// Set of processor numbers. As text and in JSON, a list of ranges: `0-3,8`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Processors(BTreeSet<usize>);

impl FromStr for Processors {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` is not a list of processors: use numbers and ranges such as 0-3,8")
        };
        let number = |text: &str| {
            text.trim().parse::<usize>().ok().filter(|n| *n < SET_BITS).ok_or_else(wrong)
        };
        let mut all = BTreeSet::new();
        for part in text.trim().split(',') {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let (from, to) = (number(from)?, number(to)?);
            if from > to {
                return Err(wrong());
            }
            all.extend(from..=to);
        }
        Ok(Self(all))
    }
}

impl fmt::Display for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.0.iter().copied().peekable();
        let mut comma = "";
        while let Some(from) = left.next() {
            let mut to = from;
            while let Some(next) = left.next_if_eq(&(to + 1)) {
                to = next;
            }
            match to - from {
                0 => write!(f, "{comma}{from}")?,
                _ => write!(f, "{comma}{from}-{to}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

impl From<Processors> for String {
    fn from(processors: Processors) -> Self {
        processors.to_string()
    }
}

impl TryFrom<String> for Processors {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Maximum number of processors in the kernel's `cpu_set_t`.
const SET_BITS: usize = 8 * size_of::<libc::cpu_set_t>();

impl Processors {
    /// Returns the set of processors of a NUMA node.
    ///
    /// # Errors
    /// [`RunError::Impossible`] if the machine has no such node, or the node has no processors.
    pub fn of_node(node: u32) -> Result<Self, RunError> {
        let path = format!("/sys/devices/system/node/node{node}/cpulist");
        let list = std::fs::read_to_string(&path).ok().and_then(|text| text.parse().ok());
        list.ok_or_else(|| {
            RunError::Impossible(format!(
                "this machine has no NUMA node {node} with processors ({path}): `lscpu` lists them"
            ))
        })
    }
}

/// The processors on which this thread may run.
fn of_this_thread() -> io::Result<Processors> {
    // SAFETY: all zeroes is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is writable, and has the size that is given.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the numbers are below the set's size.
    Ok(Processors((0..SET_BITS).filter(|n| unsafe { libc::CPU_ISSET(*n, &set) }).collect()))
}

/// Pins the calling thread to `processors`.
fn apply(processors: &Processors) -> io::Result<()> {
    // SAFETY: all zeroes is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for number in &processors.0 {
        // SAFETY: the numbers are below the set's size.
        unsafe { libc::CPU_SET(*number, &mut set) };
    }
    // SAFETY: the set has the size that is given.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Restricts the thread that creates it, and threads that this thread starts, to some processors. Ends when dropped.
#[derive(Debug)]
pub(crate) struct Pinned {
    before: Processors,
}

impl Pinned {
    /// Pins the calling thread to `processors` until the returned value is dropped.
    pub(crate) fn to(processors: &Processors) -> Result<Self, RunError> {
        let system = |source| RunError::System { what: "choosing processors".to_owned(), source };
        let before = of_this_thread().map_err(system)?;
        let missing = Processors(processors.0.difference(&before.0).copied().collect());
        if !missing.0.is_empty() {
            return Err(RunError::Impossible(format!(
                "--cpus {processors}: this process is not allowed to run on {missing}: choose from {before}"
            )));
        }
        apply(processors).map_err(system)?;
        Ok(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = apply(&self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_as_text() {
        for (text, shown) in [("0", "0"), ("3,1,2,8", "1-3,8"), ("0-3, 5-5\n", "0-3,5")] {
            assert_eq!(text.parse::<Processors>().unwrap().to_string(), shown);
        }
        for wrong in ["", "3-1", "a", "0-", "1,,2", "99999"] {
            assert!(wrong.parse::<Processors>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_thread_and_those_it_starts_run_there_and_it_returns() {
        let before = of_this_thread().unwrap();
        let one = Processors(before.0.iter().copied().take(1).collect());
        let pinned = Pinned::to(&one).unwrap();
        let started = std::thread::spawn(|| of_this_thread().unwrap());
        assert_eq!(started.join().unwrap(), one);
        drop(pinned);
        assert_eq!(of_this_thread().unwrap(), before);
        let nowhere: Processors = "1000".parse().unwrap();
        assert!(matches!(Pinned::to(&nowhere), Err(RunError::Impossible(_))));
        assert!(Processors::of_node(9999).is_err());
    }
}
