//! A host that fails on command, and one that tears.

use iodyno_live::store::{HostCall, HostFault, HostFaults, HostFile, Options, Store, WriteError};
use iodyno_units::rng::{Generator, below, stream};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const SECTOR: u64 = 512;
const ENOSPC: i32 = 28;
const EIO: i32 = 5;

/// How the host behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    /// One call in so many fails.
    Flaky(u64),
    /// Nothing is written any more, but sums now and then.
    Full,
    /// Nothing is done any more.
    Broken,
}

#[derive(Debug)]
pub(crate) struct State {
    pub mood: Mood,
    pub random: Generator,
    /// Calls until the server is killed; None: it is not.
    pub dies_in: Option<u64>,
    pub is_dead: bool,
    /// The oracle looks: nothing fails.
    pub is_quiet: bool,
    /// A write of data that fails is cut short at a multiple of this. 4096 is what Linux does: it copies whole
    /// pages into its cache, or none. 512 is a host behind FUSE or a network, at its worst.
    pub cut_bytes: u64,
    /// Units that were cut short within, and have no sum of their own yet.
    pub torn: BTreeSet<u64>,
    pub faults: u64,
}

#[derive(Debug)]
pub(crate) struct FailingHost(Mutex<State>);

impl FailingHost {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(State {
            mood: Mood::Well,
            random: stream(seed, "host", 0),
            dies_in: None,
            is_dead: false,
            is_quiet: false,
            cut_bytes: if seed.is_multiple_of(2) { 4096 } else { SECTOR },
            torn: BTreeSet::new(),
            faults: 0,
        }))
    }

    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().unwrap())
    }
}

impl HostFaults for FailingHost {
    fn fault(&self, file: HostFile, call: HostCall, at: u64, len: u64) -> Option<HostFault> {
        let mut state = self.0.lock().unwrap();
        let state = &mut *state;
        if state.is_quiet {
            return None;
        }
        if state.is_dead {
            return Some(HostFault { errno: EIO, after_bytes: 0 });
        }
        // What a kill leaves of a write: whole pages of data, whole entries of sums.
        let grain = match file {
            HostFile::Data => 4096,
            HostFile::Sums => 16,
        };
        if let Some(left) = &mut state.dies_in {
            if *left == 0 {
                state.is_dead = true;
                let after_bytes = (below(&mut state.random, len / grain + 1) * grain) as usize;
                return Some(HostFault { errno: EIO, after_bytes });
            }
            *left -= 1;
        }
        let one_in = match (state.mood, call) {
            (Mood::Well, _) | (Mood::Full, HostCall::Read | HostCall::Sync) => 0,
            (Mood::Flaky(n), HostCall::Read) => 4 * n,
            (Mood::Flaky(n), _) => n,
            (Mood::Full, _) if file == HostFile::Sums => 8,
            (Mood::Full | Mood::Broken, _) => 1,
        };
        let units = match file {
            HostFile::Data => at / 4096..(at + len).div_ceil(4096),
            HostFile::Sums => at.saturating_sub(4096) / 16..(at + len).saturating_sub(4096) / 16,
        };
        if one_in == 0 || below(&mut state.random, one_in) > 0 {
            // Written whole, or given a sum.
            if matches!(call, HostCall::Write | HostCall::Punch) {
                state.torn.retain(|unit| !units.contains(unit));
            }
            return None;
        }
        state.faults += 1;
        let errno = if state.mood == Mood::Full { ENOSPC } else { EIO };
        let grain = if file == HostFile::Data { state.cut_bytes } else { 16 };
        let short = below(&mut state.random, 2) == 0;
        let after_bytes = if short { below(&mut state.random, len / grain + 1) * grain } else { 0 };
        if file == HostFile::Data
            && call != HostCall::Read
            && !(at + after_bytes).is_multiple_of(4096)
        {
            state.torn.insert((at + after_bytes) / 4096);
        }
        Some(HostFault { errno, after_bytes: after_bytes as usize })
    }
}

/// While it is on: a write of data stops within a unit, and of the sums only new entries are written.
#[derive(Debug, Default)]
struct Tearing {
    is_on: AtomicBool,
    is_torn: AtomicBool,
}

impl HostFaults for Tearing {
    fn fault(&self, file: HostFile, call: HostCall, at: u64, _: u64) -> Option<HostFault> {
        if call != HostCall::Write || !self.is_on.load(Ordering::Relaxed) {
            return None;
        }
        let is_torn = self.is_torn.load(Ordering::Relaxed);
        match file {
            HostFile::Data => {
                self.is_torn.store(true, Ordering::Relaxed);
                Some(HostFault { errno: EIO, after_bytes: 3 * SECTOR as usize })
            }
            HostFile::Sums if at >= 4096 && is_torn => {
                Some(HostFault { errno: EIO, after_bytes: 0 })
            }
            HostFile::Sums => None,
        }
    }
}

/// A unit that was torn and has no sum of its own is readable here, and does not let a flush succeed; once it has
/// one, it is readable ever after.
#[test]
fn a_torn_unit_gets_its_sum_before_a_flush_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let host = Arc::new(Tearing::default());
    let faults = Arc::clone(&host) as Arc<dyn HostFaults>;
    let open = || Store::in_file_with_faults(&path, 1 << 20, Options::default(), faults.clone());
    let store = open().unwrap();
    store.write_now(4096, &[1; 4096]).unwrap();
    store.flush_now().unwrap();
    host.is_on.store(true, Ordering::Relaxed);
    assert!(store.write_now(4096, &[2; 4096]).is_err());
    let wanted = [[2; 1536].as_slice(), &[1; 2560]].concat();
    let mut into = vec![0; 4096];
    store.read(4096, &mut into).unwrap();
    assert!(into == wanted);
    assert!(matches!(store.flush_now(), Err(WriteError::Io { .. })));
    assert!(store.end().is_err());
    host.is_on.store(false, Ordering::Relaxed);
    assert_eq!(store.flush_now(), Ok(()));
    drop(store);
    let store = open().unwrap();
    store.read(4096, &mut into).unwrap();
    assert!(into == wanted);
}
